/* Diagnostics: the user's mistakes, collected with their place in the document and printed together. The form is
 * that of compilers: file:line:column, severity, code, message, the excerpt underlined, notes, the JSON pointer. */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H
#include "ir/base/arena.h"
#include <stdbool.h>
#include <stdio.h>

/* A place: a byte span of a source text. length 0: no place (the message stands alone). */
struct diag_span {
    uint32_t offset, length;
};

struct diag_source {
    const char *name; /* file name as given, "-" for standard input */
    const char *text; /* may hold any bytes */
    size_t length;
};

struct diag_note {
    struct diag_span span;
    const char *text;
};
struct diag {
    enum { DIAG_ERROR, DIAG_WARNING } severity;
    const char *code; /* "E0107"; families as in diag.c */
    const char *message;
    const char *label;       /* under the excerpt: "did you mean \"features\"?"; may be NULL */
    const char *pointer;     /* JSON pointer; may be NULL */
    const char *hint;        /* a cure, on its own line; may be NULL */
    const char *replacement; /* what belongs where `span` is: the nearest name; may be NULL */
    struct diag_span span;
    VEC(struct diag_note) notes;
};

struct diags {
    struct arena *arena;
    struct diag_source source;
    VEC(struct diag) list;
    size_t errors;
};

enum { DIAG_RECORDED = 1000 }; /* more are only counted: a label or hint for them is wasted work */

/* Records an error and returns it so that label, pointer, hint and notes can be added. The same code at the same
 * span is recorded once: one mistake gives one error. The pointer is good until the next error is recorded. */
struct diag *diag_error(struct diags *, struct diag_span, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void diag_note(struct diags *, struct diag *, struct diag_span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void diag_line_column(const struct diag_source *, uint32_t offset, uint32_t *line,
                      uint32_t *column); /* from 1; columns count characters */
/* Prints all (the first 20, then a count), ordered by place. `json`: one object per line. */
void diags_print(const struct diags *, FILE *, bool json, bool color);

/* A defect in stepc: prints what it knows, calls the hook and ends the process with exit code 4. The hook (one per
 * thread; NULL: none) lets the pass manager write the pass, the IR and a reproducer to the stream; it is taken off
 * before it runs. Set it around a pass and take it off again. */
void bug_set_hook(void (*run)(void *user, FILE *), void *user);
_Noreturn void bug(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define BUG(...) bug(__FILE__, __LINE__, __VA_ARGS__)
#define ASSERT(condition) ((condition) ? (void)0 : BUG("assertion failed: %s", #condition))
#endif
