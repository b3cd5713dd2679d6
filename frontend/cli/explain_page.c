/* `stepc explain --html`: the report, put into a page whose script draws it (templates/explain.html); --dot and --svg:
 * the blocks of the model with what they give and what they read. */
#include "frontend/cli/cli.h"
#include "ir/base/json_tree.h"

#include <cjson/cJSON.h>
#include <string.h>

extern const char cli_explain_template[];

enum { MOST_BENCH = 64 << 20 };

static const struct cJSON *at(const struct cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *text_at(const struct cJSON *object, const char *key)
{
    const struct cJSON *found = at(object, key);
    return cJSON_IsString(found) ? found->valuestring : "";
}

static double elements(const struct cJSON *shape)
{
    const struct cJSON *d;
    double n = 1;
    cJSON_ArrayForEach(d, shape) n *= d->valuedouble;
    return n;
}

static const char *type_text(struct arena *a, const struct cJSON *o)
{
    struct str out = STR(a);
    const struct cJSON *d;
    if (!*text_at(o, "dtype")) return "";
    str_addf(&out, "%s[", text_at(o, "dtype"));
    cJSON_ArrayForEach(d, at(o, "shape"))
        str_addf(&out, "%s%.0f", d == at(o, "shape")->child ? "" : ", ", d->valuedouble);
    str_add(&out, "]");
    return str_text(&out);
}

/* A parameter belongs to the innermost block whose path its name begins with, and to all around it. */
static void count_parameter(struct cli_outline *o, const struct cJSON *tensor)
{
    const char *name = text_at(tensor, "name");
    size_t best = o->count, length = 0;
    for (size_t i = 0; i < o->count; i++) {
        const struct cli_block *b = &o->blocks[i];
        size_t n = strlen(b->path);
        bool inside = !n || (strncmp(name, b->path, n) == 0 && name[n] == '.');
        if (inside && !b->children && (best == o->count || n > length)) best = i, length = n;
    }
    for (int i = best == o->count ? -1 : (int)best; i >= 0; i = o->blocks[i].parent)
        o->blocks[i].parameters += elements(at(tensor, "shape"));
}

static struct cli_outline read_outline(struct cli *cli, const struct cJSON *report, const struct cJSON *layers)
{
    struct cli_outline o = {.cli = cli, .count = (size_t)cJSON_GetArraySize(layers)};
    const struct cJSON *e;
    size_t i = 0;
    o.blocks = arena_new_array(cli->arena, struct cli_block, o.count + 1);
    cJSON_ArrayForEach(e, layers)
    {
        struct cli_block *b = &o.blocks[i++];
        *b = (struct cli_block){.path = text_at(e, "path"),
                                .type = text_at(e, "type"),
                                .output = type_text(cli->arena, e),
                                .place = text_at(e, "place"),
                                .from = at(e, "from")};
        b->parent = at(e, "parent") ? (int)at(e, "parent")->valuedouble : -1;
        if (b->parent < 0) continue;
        b->depth = o.blocks[b->parent].depth + 1;
        o.blocks[b->parent].children++;
    }
    cJSON_ArrayForEach(e, at(report, "tensors")) if (strcmp(text_at(e, "role"), "param") == 0) count_parameter(&o, e);
    return o;
}

struct cli_outline cli_outline(struct cli *cli, const char *text)
{
    const struct cJSON *report = json_read(cli->arena, text, strlen(text));
    return read_outline(cli, report, at(report, "layers"));
}

/* Its name within the block around it, and what it is. */
static const char *label_of(const struct cli_outline *o, const struct cli_block *b)
{
    const char *outer = b->parent < 0 ? "" : o->blocks[b->parent].path, *own = b->path;
    size_t n = strlen(outer);
    if (n && strncmp(own, outer, n) == 0) own += n + (own[n] == '.');
    return *own ? arena_format(o->cli->arena, "%s: %s", own, b->type) : b->type;
}

static const char *parameters_text(const struct cli_outline *o, const struct cli_block *b)
{
    return b->parameters > 0 ? arena_format(o->cli->arena, "%s parameters", cli_grouped(o->cli->arena, b->parameters))
                             : "";
}

/* ---------------------------------------------------------------- Graphviz */

static void dot_quoted(struct str *out, const char *text)
{
    str_add(out, "\"");
    for (; *text; text++) str_addf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    str_add(out, "\"");
}

static void dot_block(const struct cli_outline *o, struct str *out, size_t i)
{
    const struct cli_block *b = &o->blocks[i];
    const char *label = label_of(o, b), *parameters = parameters_text(o, b);
    int pad = (int)(2 * b->depth + 2);
    if (b->children) {
        str_addf(out, "%*ssubgraph cluster_%zu {\n%*slabel=", pad, "", i, pad + 2, "");
        dot_quoted(out, label);
        str_add(out, ";\n");
        for (size_t k = i + 1; k < o->count; k++)
            if (o->blocks[k].parent == (int)i) dot_block(o, out, k);
        if (cJSON_GetArraySize(b->from)) str_addf(out, "%*sb%zu [shape=circle, label=\"+\"];\n", pad + 2, "", i);
        str_addf(out, "%*s}\n", pad, "");
        return;
    }
    str_addf(out, "%*sb%zu [label=", pad, "", i);
    dot_quoted(out, arena_format(o->cli->arena, "%s\n%s%s%s", label, b->output, *parameters ? "\n" : "", parameters));
    str_add(out, "];\n");
}

static const char *dot(const struct cli_outline *o, const char *name)
{
    struct str out = STR(o->cli->arena);
    const struct cJSON *f;
    str_add(&out, "digraph ");
    dot_quoted(&out, name);
    str_add(&out, " {\n  node [shape=box, style=rounded, fontname=\"Helvetica\"];\n  graph [fontname=\"Helvetica\", "
                  "compound=true];\n");
    for (size_t i = 0; i < o->count; i++)
        if (o->blocks[i].parent < 0) dot_block(o, &out, i);
    for (size_t i = 0; i < o->count; i++) cJSON_ArrayForEach(f, o->blocks[i].from)
        {
            str_add(&out, "  ");
            if (cJSON_IsString(f)) dot_quoted(&out, f->valuestring);
            else str_addf(&out, "b%.0f", f->valuedouble);
            str_addf(&out, " -> b%zu;\n", i);
        }
    str_add(&out, "}\n");
    return str_text(&out);
}

/* ---------------------------------------------------------------- a picture */

enum { WIDTH = 900, ROW = 26, STEP = 16, MARGIN = 16 };

static void svg_text(struct str *out, double x, double y, const char *class, const char *text)
{
    str_addf(out, "<text x=\"%.0f\" y=\"%.0f\" class=\"%s\">", x, y, class);
    str_add_xml(out, text);
    str_add(out, "</text>\n");
}

/* What it reads, where that is not the line above; "": that. */
static const char *sources(const struct cli_outline *o, size_t i)
{
    const struct cli_block *b = &o->blocks[i];
    const struct cJSON *f, *only = cJSON_GetArraySize(b->from) == 1 ? b->from->child : NULL;
    size_t above = i;
    struct str out = STR(o->cli->arena);
    do above--;
    while (above < o->count && o->blocks[above].children && !cJSON_GetArraySize(o->blocks[above].from));
    if (only && cJSON_IsNumber(only) && (size_t)only->valuedouble == above) return "";
    cJSON_ArrayForEach(f, b->from)
    {
        const struct cli_block *from = cJSON_IsString(f) ? NULL : &o->blocks[(size_t)f->valuedouble];
        str_add(&out, out.length ? ", " : "of ");
        if (!from) str_add(&out, f->valuestring);
        else if (from->children && *from->path) str_addf(&out, "%s in %s", from->type, from->path);
        else str_add(&out, *from->path ? from->path : from->type);
    }
    return str_text(&out);
}

static const char *svg(const struct cli_outline *o, const char *name)
{
    struct str out = STR(o->cli->arena);
    double height = MARGIN * 2.0 + ROW * (double)(o->count + 1);
    str_addf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\">\n", WIDTH, height,
             WIDTH);
    str_add(&out, "<style>text{font:13px "
                  "system-ui,sans-serif;fill:#222}.title{font-weight:600;font-size:16px}.shape{font-family:ui-"
                  "monospace,monospace}.faint{fill:#666}"
                  ".ground{fill:#fff}.box{fill:#0072b2;fill-opacity:.08;stroke:#0072b2;stroke-opacity:.45}\n@media "
                  "(prefers-color-scheme:dark){text{fill:#e6e6e6}"
                  ".faint{fill:#a0a6ad}.ground{fill:#15181c}.box{fill:#56b4e9;stroke:#56b4e9}}</style>\n");
    str_addf(&out, "<rect class=\"ground\" width=\"%d\" height=\"%.0f\"/>\n", WIDTH, height);
    svg_text(&out, MARGIN, MARGIN + 14, "title", name);
    for (size_t i = 0; i < o->count; i++) {
        const struct cli_block *b = &o->blocks[i];
        size_t end = i + 1;
        while (end < o->count && o->blocks[end].depth > b->depth) end++;
        double x = MARGIN + STEP * (double)b->depth, y = MARGIN + ROW * (double)(i + 1);
        str_addf(&out, "<rect class=\"box\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" rx=\"5\"/>\n", x,
                 y + 1, WIDTH - MARGIN - x - STEP * 0.25 * (double)b->depth, ROW * (double)(end - i) - 3);
        svg_text(&out, x + 8, y + 17, "name", label_of(o, b));
        svg_text(&out, 330, y + 17, "shape", b->output);
        svg_text(&out, 530, y + 17, "faint", parameters_text(o, b));
        svg_text(&out, 680, y + 17, "faint", sources(o, i));
    }
    str_add(&out, "</svg>\n");
    return str_text(&out);
}

/* ---------------------------------------------------------------- the page */

/* JSON within a script: nothing in it may end the script. */
static void add_data(struct str *out, const char *json)
{
    for (; *json; json++)
        if (*json == '<') str_add(out, "\\u003c");
        else str_add_n(out, json, 1);
}

static const char *page(struct cli *cli, struct json_tree report, const char *name, const char *bench)
{
    struct str out = STR(cli->arena);
    for (const char *from = cli_explain_template, *hole; *from; from = hole) {
        hole = strchr(from, '@');
        if (!hole) hole = from + strlen(from);
        str_add_n(&out, from, (size_t)(hole - from));
        if (strncmp(hole, "@TITLE@", 7) == 0) str_add_xml(&out, name), hole += 7;
        else if (strncmp(hole, "@REPORT@", 8) == 0) add_data(&out, json_print(report)), hole += 8;
        else if (strncmp(hole, "@BENCH@", 7) == 0) add_data(&out, bench), hole += 7;
        else if (*hole) str_add_n(&out, hole++, 1);
    }
    return str_text(&out);
}

/* What --bench measured, as it stands in the file; NULL after a message: it is of another step. */
static const char *read_bench(struct cli *cli, const char *path, const char *name)
{
    char *text;
    size_t length;
    if (cli_read(cli, path, MOST_BENCH, &text, &length)) return NULL;
    const struct cJSON *bench = json_read(cli->arena, text, length),
                       *object = cJSON_GetArrayItem(at(bench, "objects"), 0);
    if (!object || !at(object, "seconds") || !at(bench, "machine")) {
        cli_failed(cli, EXIT_WRONG, "--bench %s: expected what `stepc bench STEP.SO --by kernel --json` prints", path);
        return NULL;
    }
    if (strcmp(text_at(object, "name"), name) != 0) {
        cli_failed(cli, EXIT_WRONG, "--bench %s: measured \"%s\", and this is \"%s\"", path, text_at(object, "name"),
                   name);
        return NULL;
    }
    return text;
}

bool cli_explain_lists(const struct cli *cli)
{
    static const char *const names[] = {"memory",  "flops", "fusion",   "comm",    "link",
                                        "kernels", "state", "sharding", "tensors", "json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (cli_count(cli, names[i])) return true;
    return false;
}

bool cli_explain_pictures(const struct cli *cli)
{
    return cli_count(cli, "html") || cli_count(cli, "dot") || cli_count(cli, "svg");
}

const char *cli_report_document(struct cli *cli, const char *report, size_t length)
{
    const struct cJSON *document = at(json_read(cli->arena, report, length), "document");
    return cJSON_IsObject(document) ? json_print(json_copy(cli->arena, document)) : NULL;
}

int cli_explain_page(struct cli *cli, const char *text, size_t length, const char *layers)
{
    const struct cJSON *report = json_read(cli->arena, text, length);
    const struct cJSON *list = layers ? json_read(cli->arena, layers, strlen(layers)) : at(report, "layers");
    const char *name = text_at(report, "name"), *html = cli_text(cli, "html", NULL),
               *bench = cli_text(cli, "bench", NULL);
    struct cli_outline o = read_outline(cli, report, list);
    const struct {
        const char *path, *text;
    } files[] = {{cli_text(cli, "dot", NULL), dot(&o, name)}, {cli_text(cli, "svg", NULL), svg(&o, name)}};
    int code = 0;
    for (size_t i = 0; i < 2 && !code; i++)
        if (files[i].path) code = cli_write(cli, files[i].path, files[i].text, strlen(files[i].text));
    if (code || !html) return code;
    if (bench && !(bench = read_bench(cli, bench, name))) return EXIT_WRONG;
    struct json_tree all = json_copy(cli->arena, report);
    if (layers) json_add(all, "layers", json_raw(cli->arena, layers));
    const char *out = page(cli, all, name, bench ? bench : "null");
    return cli_write(cli, html, out, strlen(out));
}
