/* A document is checked as `stepc check` does it, in a process of its own: what takes too long, too much memory or
 * meets a defect of the compiler ends that process, not the server. It writes the diagnostics, and what each layer
 * gives, as the protocol wants them. */
#include "frontend/cli/lsp.h"
#include "ir/base/json_scan.h"
#include "ir/base/map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHOWN = 200 };

static size_t step(const struct lsp_spot *s)
{
    size_t n = str_utf8((const unsigned char *)s->text + s->at, s->length - s->at);
    return n ? n : 1;
}

static bool line_ends(const struct lsp_spot *s)
{
    char c = s->text[s->at];
    return c == '\n' || (c == '\r' && !(s->at + 1 < s->length && s->text[s->at + 1] == '\n'));
}

static void advance(struct lsp_spot *s)
{
    size_t n = step(s);
    if (line_ends(s)) s->line++, s->column = 0;
    else s->column += n == 4 ? 2 : 1;
    s->at += n;
}

static void lsp_move(struct lsp_spot *s, size_t offset)
{
    if (offset < s->at) *s = (struct lsp_spot){.text = s->text, .length = s->length};
    while (s->at < offset && s->at < s->length) advance(s);
}

size_t lsp_offset(const char *text, size_t length, uint32_t line, uint32_t column)
{
    struct lsp_spot s = {.text = text, .length = length};
    while (s.at < length && s.line < line) advance(&s);
    while (s.at < length && s.column < column && text[s.at] != '\r' && text[s.at] != '\n') advance(&s);
    return s.at;
}

static void add_position(struct json_tree to, const char *key, struct lsp_spot *s, size_t offset)
{
    lsp_move(s, offset);
    struct json_tree t = json_add_object(to, key);
    json_add_integer(t, "line", s->line);
    json_add_integer(t, "character", s->column);
}

void lsp_add_range(struct json_tree to, struct lsp_spot *s, size_t begin, size_t end)
{
    struct json_tree range = json_add_object(to, "range");
    add_position(range, "start", s, begin);
    add_position(range, "end", s, end);
}

static const char *message_of(struct arena *a, const struct diag *d)
{
    struct str out = STR(a);
    str_add(&out, d->message);
    if (d->label && *d->label) str_addf(&out, "; %s", d->label);
    if (d->hint) str_addf(&out, "\nhint: %s", d->hint);
    for (size_t i = 0; i < d->notes.count; i++)
        if (!d->notes.items[i].span.length) str_addf(&out, "\nnote: %s", d->notes.items[i].text);
    return str_text(&out);
}

static void add_diagnostic(struct json_tree list, struct lsp_spot *s, const char *uri, const struct diag *d)
{
    struct json_tree t = json_add_object(list, NULL), related = {0};
    lsp_add_range(t, s, d->span.offset, d->span.offset + d->span.length);
    json_add_integer(t, "severity", d->severity == DIAG_ERROR ? 1 : 2);
    json_add_text(t, "code", d->code);
    json_add_text(t, "source", "stepc");
    json_add_text(t, "message", message_of(list.arena, d));
    for (size_t i = 0; i < d->notes.count; i++) {
        const struct diag_note *n = &d->notes.items[i];
        if (!n->span.length) continue;
        if (!related.item) related = json_add_array(t, "relatedInformation");
        struct json_tree r = json_add_object(related, NULL), location = json_add_object(r, "location");
        json_add_text(location, "uri", uri);
        lsp_add_range(location, s, n->span.offset, n->span.offset + n->span.length);
        json_add_text(r, "message", n->text);
    }
    struct json_tree data = json_add_object(t, "data");
    if (d->pointer) json_add_text(data, "pointer", d->pointer);
    if (d->replacement) json_add_text(data, "replacement", d->replacement);
}

/* The value that a JSON pointer names; NULL: there is none. */
static const struct json_value *pointed(struct arena *a, const struct json *json, const char *pointer)
{
    const struct json_value *v = &json->values[0];
    while (v && *pointer == '/') {
        size_t n = strcspn(++pointer, "/"), k = 0;
        char *key = arena_string_n(a, pointer, n);
        for (size_t i = 0; i < n; i++, k++) {
            key[k] = pointer[i];
            if (pointer[i] == '~' && i + 1 < n) key[k] = pointer[++i] == '1' ? '/' : '~';
        }
        key[k] = 0;
        pointer += n;
        if (v->kind == JSON_OBJECT) {
            v = json_get(json, v, key);
            continue;
        }
        uint32_t index = v->kind == JSON_ARRAY ? v->first : 0;
        for (unsigned long left = strtoul(key, NULL, 10); index && left; left--) index = json->values[index].next;
        v = index ? &json->values[index] : NULL;
    }
    return v;
}

/* Behind each block what it gives and its parameters; of one that is used several times, of its first use. */
static void add_hints(struct cli *cli, struct json_tree hints, struct lsp_spot *s, const char *report)
{
    struct arena *a = hints.arena;
    struct json json;
    struct json_error error;
    struct cli_outline o = cli_outline(cli, report);
    struct map seen = MAP(a);
    if (!json_scan(a, s->text, s->length, NULL, &json, &error)) return;
    for (size_t i = 0; i < o.count; i++) {
        const struct cli_block *b = &o.blocks[i];
        const struct json_value *v = *b->output && *b->place == '/' ? pointed(a, &json, b->place) : NULL;
        if (!v || !map_set_number(&seen, v->offset, 1)) continue;
        struct json_tree t = json_add_object(hints, NULL);
        add_position(t, "position", s, v->offset + v->length);
        const char *parameters = b->parameters > 0
                                     ? arena_format(a, " \u00b7 %s parameter%s", cli_grouped(a, b->parameters),
                                                    b->parameters == 1 ? "" : "s")
                                     : "";
        json_add_text(t, "label", arena_format(a, "\u2192 %s%s", b->output, parameters));
        json_add_bool(t, "paddingLeft", true);
    }
}

static struct json_tree findings(struct arena *a, struct json_tree *diagnostics, struct json_tree *hints)
{
    struct json_tree out = json_object(a);
    *diagnostics = json_add_array(out, "diagnostics");
    *hints = json_add_array(out, "hints");
    return out;
}

/* In the process of its own: what it says goes the same way, in front of a 0. */
static _Noreturn void examine(struct cli *cli, int to, const char *uri, const char *text, size_t length)
{
    struct diags diags = {.arena = cli->arena};
    struct lsp_spot spot = {.text = text, .length = length};
    struct json_tree diagnostics, hints, out = findings(cli->arena, &diagnostics, &hints);
    const char *report = NULL;
    dup2(to, 2);
    int code = cli->examine(cli, uri, text, length, &diags, &report);
    if (code && !diags.errors) _exit(code);
    for (size_t i = 0; i < diags.list.count && i < SHOWN; i++)
        add_diagnostic(diagnostics, &spot, uri, &diags.list.items[i]);
    if (report) add_hints(cli, hints, &spot, report);
    const char *said = json_print(out);
    FILE *f = fdopen(to, "w");
    fputc(0, f);
    fputs(said, f);
    _exit(fclose(f) ? EXIT_ENVIRONMENT : EXIT_DONE);
}

const struct cJSON *lsp_check(struct cli *cli, struct arena *a, const char *uri, const char *text, size_t length)
{
    int ends[2] = {-1, -1}, status = 0;
    pid_t child = pipe(ends) ? -1 : fork();
    if (child == 0) {
        struct cli own = *cli;
        own.arena = a;
        close(ends[0]);
        examine(&own, ends[1], uri, text, length);
    }
    struct str said = STR(a);
    char part[65536];
    if (child < 0) str_add(&said, strerror(errno));
    close(ends[1]);
    for (ssize_t n = 1; child > 0 && (n > 0 || (n < 0 && errno == EINTR));)
        if ((n = read(ends[0], part, sizeof part)) > 0) str_add_n(&said, part, (size_t)n);
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    size_t before = strlen(str_text(&said));
    const struct cJSON *found = status == 0 && before < said.length
                                    ? json_read(a, said.text + before + 1, said.length - before - 1)
                                    : NULL;
    if (found) return found;
    /* That nothing is known is said, at the document's begin. */
    struct json_tree diagnostics, hints, out = findings(a, &diagnostics, &hints),
                                         t = json_add_object(diagnostics, NULL);
    lsp_add_range(t, &(struct lsp_spot){.text = ""}, 0, 0);
    json_add_integer(t, "severity", 2);
    json_add_text(t, "source", "stepc");
    json_add_text(t, "message", arena_format(a, "not checked: %s", str_text(&said)));
    return out.item;
}
