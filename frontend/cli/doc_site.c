/* stepc doc --site DIR: the reference as pages of HTML that need no server and no network, and what searches them. The
 * Markdown that `stepc doc` prints is turned into HTML here, as far as it uses Markdown: headings, paragraphs, lists,
 * tables, code. */
#include "frontend/cli/doc.h"
#include "ir/base/json_tree.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

extern const char doc_site_style[], doc_site_script[];

/* ---------------------------------------------------------------- Markdown */

static void add_escaped(struct str *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) switch (text[i]) {
        case '<': str_add(out, "&lt;"); break;
        case '>': str_add(out, "&gt;"); break;
        case '&': str_add(out, "&amp;"); break;
        case '"': str_add(out, "&quot;"); break;
        default: str_add_n(out, text + i, 1);
        }
}

/* Text with `code` and **bold**. */
static void add_inline(struct str *out, const char *text, size_t n)
{
    bool code = false, bold = false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '`') str_add(out, code ? "</code>" : "<code>"), code = !code;
        else if (!code && i + 1 < n && text[i] == '*' && text[i + 1] == '*' &&
                 (bold || memchr(text + i + 2, '*', n - i - 2)))
            str_add(out, bold ? "</strong>" : "<strong>"), bold = !bold, i++;
        else add_escaped(out, text + i, 1);
    }
    if (code) str_add(out, "</code>");
    if (bold) str_add(out, "</strong>");
}

static void add_row(struct str *out, const char *line, size_t n, const char *cell)
{
    bool code = false;
    size_t start = 1;
    str_add(out, "<tr>");
    for (size_t i = 1; i < n; i++) {
        if (line[i] == '`') code = !code;
        if (line[i] != '|' || code) continue;
        str_addf(out, "<%s>", cell);
        add_inline(out, line + start, i - start);
        str_addf(out, "</%s>", cell);
        start = i + 1;
    }
    str_add(out, "</tr>\n");
}

enum mode { PLAIN, PARAGRAPH, LIST, TABLE, CODE, BLOCK };
static void end(struct str *out, enum mode *mode)
{
    static const char *const ends[] = {"", "</p>\n", "</li></ul>\n", "</table></div>\n", "</pre>\n", "</pre>\n"};
    str_add(out, ends[*mode]);
    *mode = PLAIN;
}

static void add_heading(struct str *out, const char *line, size_t n)
{
    size_t level = strspn(line, "#");
    const char *name = line + level + 1;
    n -= level + 1;
    str_addf(out, "<h%zu id=\"", level);
    for (size_t i = 0; i < n; i++)
        if (name[i] != '`') add_escaped(out, name[i] == ' ' ? "-" : name + i, 1);
    str_add(out, "\">");
    add_inline(out, name, n);
    str_addf(out, "</h%zu>\n", level);
}

static void add_html(struct str *out, const char *text)
{
    enum mode mode = PLAIN;
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        bool fence = n >= 3 && !memcmp(line, "```", 3), indented = n > 4 && !memcmp(line, "    ", 4);
        if (mode == CODE) {
            if (fence) end(out, &mode);
            else add_escaped(out, line, n), str_add(out, "\n");
        } else if (fence) {
            end(out, &mode), mode = CODE, str_add(out, "<pre tabindex=\"0\">");
        } else if (indented && (mode == PLAIN || mode == BLOCK)) {
            if (mode != BLOCK) mode = BLOCK, str_add(out, "<pre tabindex=\"0\">");
            add_escaped(out, line + 4, n - 4), str_add(out, "\n");
        } else if (!n) {
            end(out, &mode);
        } else if (*line == '#') {
            end(out, &mode), add_heading(out, line, n);
        } else if (*line == '|') {
            if (mode != TABLE)
                end(out, &mode), mode = TABLE, str_add(out, "<div class=\"wide\"><table>\n"),
                                 add_row(out, line, n, "th");
            else if (n < 2 || line[1] != '-') add_row(out, line, n, "td");
        } else if (n > 1 && *line == '-' && line[1] == ' ') {
            if (mode != LIST) end(out, &mode), str_add(out, "<ul>");
            else str_add(out, "</li>\n");
            mode = LIST, str_add(out, "<li>"), add_inline(out, line + 2, n - 2);
        } else {
            if (mode == PLAIN) mode = PARAGRAPH, str_add(out, "<p>");
            else str_add(out, mode == TABLE ? "" : "\n");
            add_inline(out, line, n);
        }
        line += n + (line[n] == '\n');
    }
    end(out, &mode);
}

/* ---------------------------------------------------------------- pages */

static void add_head(struct str *out, const struct doc *d, const char *title)
{
    str_addf(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<title>%s - stepc</title>\n<link rel=\"stylesheet\" href=\"style.css\">\n</head>\n<body>\n<header>\n"
        "<a class=\"home\" href=\"index.html\">stepc</a>\n<input id=\"search\" type=\"search\" placeholder=\"search "
        "names, sentences and words of other libraries\" aria-label=\"search\" autocomplete=\"off\">\n</header>\n<ol "
        "id=\"found\" hidden></ol>\n<nav>\n",
        title);
    for (uint32_t i = 0; i < d->topic_count; i++)
        str_addf(out, "<a href=\"%s.html\"%s>%s</a>\n", d->topics[i].name,
                 strcmp(d->topics[i].title, title) ? "" : " aria-current=\"page\"", d->topics[i].name);
    str_add(out, "</nav>\n<main>\n");
}

static void add_foot(struct str *out)
{
    str_add(out,
            "</main>\n<script src=\"entries.js\"></script>\n<script src=\"search.js\"></script>\n</body>\n</html>\n");
}

static int write_page(struct cli *cli, const char *dir, const char *name, struct str *s)
{
    return cli_write(cli, arena_format(cli->arena, "%s/%s", dir, name), str_text(s), s->length);
}

/* One topic: its entries after another, below a list of them. */
static void add_topic(struct str *out, struct doc *d, const struct doc_topic *t)
{
    str_addf(out, "<h1>%s</h1>\n", t->title);
    add_html(out, t->page ? t->page : t->intro);
    const char *name;
    if (t->entry_name(d, 0)) str_add(out, "<p class=\"names\">\n");
    for (uint32_t i = 0; (name = t->entry_name(d, i)); i++) str_addf(out, "<a href=\"#%s\">%s</a>\n", name, name);
    if (t->entry_name(d, 0)) str_add(out, "</p>\n");
    for (uint32_t i = 0; (name = t->entry_name(d, i)); i++) {
        str_add(out, "<section>\n");
        add_html(out, doc_entry_text(d, t, i, false));
        str_add(out, "</section>\n");
    }
}

static void add_index(struct str *out, struct doc *d)
{
    str_add(out,
            "<h1>stepc: the reference</h1>\n<p>One JSON document describes a whole training step; stepc compiles it to "
            "a shared object. These pages are printed from the tables that the compiler works by.</p>\n<dl>\n");
    for (uint32_t i = 0; i < d->topic_count; i++) {
        uint32_t n = 0;
        while (d->topics[i].entry_name(d, n)) n++;
        str_addf(out, "<dt><a href=\"%s.html\">%s</a></dt><dd>%s", d->topics[i].name, d->topics[i].name,
                 d->topics[i].title);
        if (n) str_addf(out, ", %u %s", (unsigned)n, n == 1 ? "entry" : "entries");
        str_add(out, "</dd>\n");
    }
    str_add(out, "</dl>\n");
}

int doc_site(struct cli *cli, struct doc *d, const char *dir)
{
    struct json_tree found = json_array(cli->arena);
    const char *name;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return cli_failed(cli, EXIT_ENVIRONMENT, "%s: %s", dir, strerror(errno));
    struct str index = STR(cli->arena), entries = STR(cli->arena);
    add_head(&index, d, "reference"), add_index(&index, d), add_foot(&index);
    int rc = write_page(cli, dir, "index.html", &index);
    for (uint32_t i = 0; i < d->topic_count && !rc; i++) {
        const struct doc_topic *t = &d->topics[i];
        struct str page = STR(cli->arena);
        add_head(&page, d, t->title), add_topic(&page, d, t), add_foot(&page);
        rc = write_page(cli, dir, arena_format(cli->arena, "%s.html", t->name), &page);
        for (uint32_t k = 0; (name = t->entry_name(d, k)); k++) {
            struct json_tree e = json_add_array(found, NULL);
            json_add_text(e, NULL, t->name);
            json_add_text(e, NULL, name);
            json_add_text(e, NULL, doc_sentence(d, t, k));
        }
    }
    struct json_tree words = json_array(cli->arena);
    const char *scope, *foreign, *here;
    for (uint32_t i = 0; fe_foreign_row(i, &scope, &foreign, &here); i++) {
        struct json_tree e = json_add_array(words, NULL);
        json_add_text(e, NULL, foreign);
        json_add_text(e, NULL, here);
    }
    str_addf(&entries, "const entries = %s;\nconst foreign = %s;\n", json_print(found), json_print(words));
    if (!rc) rc = write_page(cli, dir, "entries.js", &entries);
    if (!rc) rc = cli_write(cli, arena_format(cli->arena, "%s/style.css", dir), doc_site_style, strlen(doc_site_style));
    if (!rc)
        rc = cli_write(cli, arena_format(cli->arena, "%s/search.js", dir), doc_site_script, strlen(doc_site_script));
    return rc;
}
