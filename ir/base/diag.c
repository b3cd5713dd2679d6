/* Diagnostics: recording and the two printed forms. Families of codes:
 *
 *   E00xx  JSON itself, limits               E05xx  memory plan, limits of devices
 *   E01xx  keys, types, names                E06xx  checkpoints, data files, weights
 *   E02xx  shapes, dtypes                    E07xx  peers, collectives
 *   E03xx  expressions                       E08xx  devices, libraries, linker, object loading
 *   E04xx  optimizer, patterns, sharding     E09xx  defects
 */
#include "ir/base/diag.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/json_tree.h"
#include "ir/base/str.h"

enum { PRINTED = 20, EXCERPT_WIDTH = 110 };

/* ---------------------------------------------------------------- recording */

struct diag *diag_error(struct diags *d, struct diag_span span, const char *code, const char *format, ...)
{
    for (size_t i = 0; span.length && i < d->list.count; i++) {
        struct diag *old = &d->list.items[i];
        bool same = old->span.offset == span.offset && old->span.length == span.length;
        if (same && strcmp(old->code, code) == 0) return old;
    }
    struct diag new = {.severity = DIAG_ERROR, .code = code, .span = span};
    va_list args;
    va_start(args, format);
    new.message = arena_vformat(d->arena, format, args);
    va_end(args);
    d->errors++;
    if (d->list.count >= DIAG_RECORDED) return arena_copy(d->arena, &new, sizeof new); /* counted, never printed */
    vec_push(d->arena, &d->list, new);
    return &d->list.items[d->list.count - 1];
}

void diag_note(struct diags *d, struct diag *diag, struct diag_span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct diag_note note = {span, arena_vformat(d->arena, format, args)};
    va_end(args);
    for (size_t i = 0; i < diag->notes.count; i++) { /* what is met twice is recorded once, with what belongs to it */
        const struct diag_note *is = &diag->notes.items[i];
        if (is->span.offset == span.offset && is->span.length == span.length && !strcmp(is->text, note.text)) return;
    }
    vec_push(d->arena, &diag->notes, note);
}

static bool continues(char c) { return ((unsigned char)c & 0xc0) == 0x80; } /* not the first byte of a character */

static uint32_t line_start(const struct diag_source *source, uint32_t offset)
{
    while (offset > 0 && source->text[offset - 1] != '\n') offset--;
    return offset;
}

void diag_line_column(const struct diag_source *source, uint32_t offset, uint32_t *line, uint32_t *column)
{
    if (offset > source->length) offset = (uint32_t)source->length;
    *line = *column = 1;
    for (uint32_t i = 0; i < offset; i++) *line += source->text[i] == '\n';
    for (uint32_t i = line_start(source, offset); i < offset; i++) *column += !continues(source->text[i]);
}

/* ---------------------------------------------------------------- text form */

struct form {
    struct str out;
    const struct diag_source *source;
    bool color;
};

static void paint(struct form *f, const char *code)
{
    if (f->color) str_addf(&f->out, "\033[%sm", code);
}

/* Text from the document or about it: what a terminal would act on is shown as '?'. */
static void add_clean(struct form *f, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool c1 = c == 0xc2 && i + 1 < n && (unsigned char)text[i + 1] < 0xa0;
        if (c == '\t') str_add(&f->out, " ");
        else if (c < 0x20 || c == 0x7f || c1) str_add(&f->out, "?");
        else str_add_n(&f->out, text + i, 1);
        i += c1;
    }
}

/* The line of `span` with the part on it underlined. Of a long line a window around the place is shown. */
static void add_excerpt(struct form *f, struct diag_span span, char mark, const char *label)
{
    const struct diag_source *source = f->source;
    uint32_t at = span.offset > source->length ? (uint32_t)source->length : span.offset;
    uint32_t line, column, from = line_start(source, at), to = at;
    diag_line_column(source, at, &line, &column);
    while (to < source->length && source->text[to] != '\n') to++;
    if (to > from && source->text[to - 1] == '\r') to--;
    if (to < at) to = at;
    uint32_t end = span.length > to - at ? to : at + span.length;
    const char *before = "", *after = "";
    if (to - from > EXCERPT_WIDTH) {
        uint32_t left = at - from > EXCERPT_WIDTH / 2 ? at - EXCERPT_WIDTH / 2 : from;
        while (left > from && continues(source->text[left])) left--;
        if (left > from) before = "...";
        from = left;
        if (to - from > EXCERPT_WIDTH) {
            to = from + EXCERPT_WIDTH;
            while (to > at && continues(source->text[to])) to--;
            after = "...";
        }
        if (end > to) end = to;
    }
    str_addf(&f->out, "%5u | %s", line, before);
    add_clean(f, source->text + from, to - from);
    str_addf(&f->out, "%s\n      | %*s", after, (int)strlen(before), "");
    for (uint32_t i = from; i < at; i++)
        if (!continues(source->text[i])) str_add(&f->out, " ");
    paint(f, mark == '^' ? "1;31" : "1;34");
    str_add_n(&f->out, &mark, 1);
    for (uint32_t i = at + 1; i < end; i++)
        if (!continues(source->text[i])) str_add_n(&f->out, &mark, 1);
    if (label) {
        str_add(&f->out, " ");
        add_clean(f, label, strlen(label));
    }
    paint(f, "0");
    str_add(&f->out, "\n");
}

static void add_line(struct form *f, const char *head, const char *text)
{
    str_addf(&f->out, "   %s", head);
    add_clean(f, text, strlen(text));
    str_add(&f->out, "\n");
}

static void add_text(struct form *f, const struct diag *d)
{
    const struct diag_source *source = f->source;
    bool error = d->severity == DIAG_ERROR;
    paint(f, "1");
    if (d->span.length && source->text) {
        uint32_t line, column;
        diag_line_column(source, d->span.offset, &line, &column);
        str_addf(&f->out, "%s:%u:%u: ", source->name, line, column);
    } else if (source->name) {
        str_addf(&f->out, "%s: ", source->name);
    }
    paint(f, error ? "1;31" : "1;35");
    str_addf(&f->out, "%s[%s]", error ? "error" : "warning", d->code);
    paint(f, "0");
    str_add(&f->out, ": ");
    add_clean(f, d->message, strlen(d->message));
    str_add(&f->out, "\n");
    if (d->span.length && source->text) add_excerpt(f, d->span, '^', d->label);
    else if (d->label) add_line(f, "", d->label);
    for (size_t i = 0; i < d->notes.count; i++) {
        const struct diag_note *note = &d->notes.items[i];
        if (note->span.length && source->text) add_excerpt(f, note->span, '-', note->text);
        else add_line(f, "note: ", note->text);
    }
    if (d->pointer && *d->pointer) add_line(f, "at ", d->pointer);
    if (d->hint) add_line(f, "hint: ", d->hint);
}

/* ---------------------------------------------------------------- JSON form */

static void add_bytes(struct json_tree to, struct diag_span span)
{
    json_add_integer(to, "byte_start", span.offset);
    json_add_integer(to, "byte_end", (int64_t)span.offset + span.length);
}

static void add_span(struct json_tree spans, const struct diag_source *source, struct diag_span span, const char *label,
                     bool primary)
{
    uint32_t line, column;
    if (!span.length || !source->text) return;
    diag_line_column(source, span.offset, &line, &column);
    struct json_tree t = json_add_object(spans, NULL);
    json_add_text(t, "file", source->name ? source->name : "");
    add_bytes(t, span);
    json_add_integer(t, "line", line);
    json_add_integer(t, "column", column);
    if (label) json_add_text(t, "label", label);
    json_add_bool(t, "primary", primary);
}

static const char *json_line(struct arena *arena, const struct diag_source *source, const struct diag *d)
{
    struct form text = {STR(arena), source, false};
    struct json_tree t = json_object(arena);
    add_text(&text, d);
    json_add_text(t, "level", d->severity == DIAG_ERROR ? "error" : "warning");
    json_add_text(t, "code", d->code);
    json_add_text(t, "message", d->message);
    if (d->pointer) json_add_text(t, "pointer", d->pointer);
    struct json_tree spans = json_add_array(t, "spans");
    add_span(spans, source, d->span, d->label, true);
    for (size_t i = 0; i < d->notes.count; i++)
        add_span(spans, source, d->notes.items[i].span, d->notes.items[i].text, false);
    if (d->hint) json_add_text(t, "hint", d->hint);
    if (d->replacement) {
        struct json_tree fix = json_add_object(t, "fix");
        add_bytes(fix, d->span);
        json_add_text(fix, "text", d->replacement);
    }
    json_add_bool(t, "retry", false);
    json_add_text(t, "rendered", str_text(&text.out));
    return json_print(t);
}

/* ---------------------------------------------------------------- printing */

static int by_place(const void *a, const void *b)
{
    const struct diag *x = *(const struct diag *const *)a, *y = *(const struct diag *const *)b;
    bool placed_x = x->span.length != 0, placed_y = y->span.length != 0;
    if (placed_x != placed_y) return placed_x ? -1 : 1;
    if (x->span.offset != y->span.offset) return x->span.offset < y->span.offset ? -1 : 1;
    return x < y ? -1 : x > y; /* as recorded */
}

/* Where not all are shown no warning takes the place of an error. */
static int by_severity(const void *a, const void *b)
{
    const struct diag *x = *(const struct diag *const *)a, *y = *(const struct diag *const *)b;
    if (x->severity != y->severity) return x->severity == DIAG_ERROR ? -1 : 1;
    return by_place(a, b);
}

void diags_print(const struct diags *d, FILE *file, bool json, bool color)
{
    struct arena scratch = {0};
    const struct diag **sorted = arena_new_array(&scratch, const struct diag *, d->list.count + 1);
    for (size_t i = 0; i < d->list.count; i++) sorted[i] = &d->list.items[i];
    size_t shown = d->list.count < PRINTED ? d->list.count : PRINTED;
    qsort(sorted, d->list.count, sizeof *sorted, shown < d->list.count ? by_severity : by_place);
    struct form form = {STR(&scratch), &d->source, color && !json};
    for (size_t i = 0; i < shown; i++) {
        if (json) str_addf(&form.out, "%s\n", json_line(&scratch, &d->source, sorted[i]));
        else add_text(&form, sorted[i]);
    }
    size_t all = d->list.count > d->errors ? d->list.count : d->errors;
    if (!json && shown < all) str_addf(&form.out, "%zu more not shown\n", all - shown);
    fputs(str_text(&form.out), file);
    arena_free(&scratch);
}

/* ---------------------------------------------------------------- defects */

/* The one piece of state outside a context: a defect may show itself anywhere, far from any context. */
static _Thread_local struct {
    void (*run)(void *, FILE *);
    void *user;
} bug_hook;

void bug_set_hook(void (*run)(void *user, FILE *), void *user)
{
    bug_hook.run = run;
    bug_hook.user = user;
}

void bug(const char *file, int line, const char *format, ...)
{
    fflush(stdout);
    fprintf(stderr, "stepc: error[E0900]: internal error at %s:%d: ", file, line);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\n   note: this is a defect in stepc, not in the document\n", stderr);
    void (*run)(void *, FILE *) = bug_hook.run;
    bug_hook.run = NULL; /* a defect inside the hook is not reported again */
    if (run) run(bug_hook.user, stderr);
    fflush(stderr);
    _exit(4);
}
