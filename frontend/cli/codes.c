/* stepc explain E0107: the long text of a diagnostic code. */
#include "frontend/cli/cli.h"

#include <string.h>

static const struct {
    const char *code, *title, *text;
} pages[] = {
#define CODE(code, title, text) {#code, title, text},
#include "frontend/cli/codes.def"
#undef CODE
};
enum { PAGES = sizeof pages / sizeof *pages };

bool cli_code_page(size_t index, const char **code, const char **title, const char **text)
{
    if (index >= PAGES) return false;
    *code = pages[index].code, *title = pages[index].title, *text = pages[index].text;
    return true;
}

int cli_explain_code(struct cli *cli, const char *code)
{
    const char *names[PAGES];
    for (size_t i = 0; i < PAGES; i++) {
        names[i] = pages[i].code;
        if (strcmp(code, pages[i].code) != 0) continue;
        const char *text = arena_format(cli->arena, "%s: %s\n\n%s\n", code, pages[i].title, pages[i].text);
        return cli_print(cli, text, strlen(text));
    }
    const char *nearest = str_nearest(code, names, PAGES);
    return cli_usage(cli, nearest ? "there is no diagnostic %s; the nearest is %s" : "there is no diagnostic %s", code,
                     nearest);
}
