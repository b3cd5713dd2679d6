/* -W: which warnings are errors, and which are not wanted: -Werror, -Werror=W0406, -Wno-W0406, -Wno-error=W0406; -Wall
 * is how it is anyway. Of two that speak of the same code the last one counts. */
#include "frontend/cli/cli.h"

#include <string.h>

enum { SAY, FAIL, OMIT };

/* What -W says of a code, or of none in particular ("*"); false: it is no such text. */
static bool read(const char *text, int *what, const char **code)
{
    if (strcmp(text, "all") == 0) return *what = SAY, *code = "*", true;
    bool no = strncmp(text, "no-", 3) == 0;
    const char *of = text + 3 * no;
    bool error = strncmp(of, "error", 5) == 0 && (!of[5] || of[5] == '=');
    if (!error && !no) return false;
    *what = !error ? OMIT : no ? SAY : FAIL;
    *code = !error ? of : of[5] ? of + 6 : "*";
    return true;
}

static int known(struct cli *cli, const char *given, const char *code)
{
    const char *names[64], *name, *title, *text;
    size_t count = 0;
    for (size_t i = 0; cli_code_page(i, &name, &title, &text) && count < 64; i++)
        if (*name == 'W') names[count++] = name;
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], code) == 0) return 0;
    return cli_usage(cli, "-W %s: there is no warning \"%s\"%s", given, code, cli_meant(cli, code, names, count));
}

int cli_warnings(struct cli *cli, struct diags *diags)
{
    const char *const *given, *code = NULL;
    size_t n = cli_values(cli, "warnings", &given), kept = 0;
    int what = SAY;
    for (size_t i = 0; i < n; i++) {
        if (!read(given[i], &what, &code))
            return cli_usage(cli, "-W %.80s: expected error, error=CODE, no-error=CODE or no-CODE", given[i]);
        int wrong = strcmp(code, "*") == 0 ? 0 : known(cli, given[i], code);
        if (wrong) return wrong;
    }
    for (size_t i = 0; i < diags->list.count; i++) {
        struct diag *d = &diags->list.items[i];
        int is = SAY;
        for (size_t k = 0; k < n && d->severity == DIAG_WARNING; k++)
            if (read(given[k], &what, &code) && (strcmp(code, "*") == 0 || strcmp(code, d->code) == 0)) is = what;
        if (is == FAIL) d->severity = DIAG_ERROR, diags->errors++;
        if (is != OMIT) diags->list.items[kept++] = *d;
    }
    diags->list.count = kept;
    return 0;
}
