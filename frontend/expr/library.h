/* Texts of entries in the language of the document (.step), which the program carries: functions of expressions
 * (library/ in this folder; README.md describes the form).
 *
 *     # What it is (source)
 *     words name(signature)
 *         part = expression
 *         expression
 *
 * A line at the margin is the head of an entry, the indented ones below it are its statements; one that is indented by
 * more than four columns continues the statement above. `head = expression` is an entry in one line, continued by any
 * indented line. `words name = other` has no signature. What does not have this form is a BUG that names file and line.
 */
#ifndef FRONTEND_EXPR_LIBRARY_H
#define FRONTEND_EXPR_LIBRARY_H
#include "frontend/expr/expr.h"

struct fe_span {
    const char *text;
    size_t length;
};
bool fe_span_is(struct fe_span, const char *word);

/* Where in a text; set file and at, and line to 0, to begin. */
struct fe_reader {
    const char *file, *at;
    uint32_t line;      /* of the one read last */
    struct fe_span doc; /* the comment above, up to a blank line */
};
struct fe_entry {
    struct fe_span doc; /* the comment above it, or above the entries before it without a blank line; with its signs */
    struct fe_span text, words, name, signature, body; /* text: all of it */
    bool called;                                       /* has a signature */
    uint32_t line;                                     /* of its head */
    uint32_t body_line;
};
bool fe_entry_next(struct fe_reader *, struct fe_entry *); /* false: no more */

/* The next statement of a body, without the blanks around it; false: no more. */
bool fe_statement_next(struct fe_reader *, struct fe_span body, struct fe_span *statement);
/* Splits "name = expression" (*rest is the expression); false: it has no name. */
bool fe_statement_name(struct fe_span statement, struct fe_span *name, struct fe_span *rest);
/* The tree of an expression of such a text. */
struct expr_node *fe_step_parse(struct arena *, const struct fe_reader *, struct fe_span);

/* A function that is a formula: its entry, parsed when it is called first. */
enum fe_statement_kind {
    FE_VALUE,   /* expression: the last one */
    FE_PART,    /* name = expression */
    FE_REQUIRE, /* require condition, 'code', 'message'[, the argument that is blamed] */
    FE_FOR,     /* for name in list: name = expression; ... */
    FE_REPEAT   /* repeat rounds while name: name = expression; ... */
};
struct fe_statement {
    enum fe_statement_kind kind;
    const char *name;       /* FE_REPEAT: while any element of it is true */
    struct expr_node *tree; /* FE_REQUIRE: the tuple, FE_FOR: the list, FE_REPEAT: the most rounds */
    const struct fe_statement *inner;
    uint32_t count, line;
};
struct fe_formula {
    struct fe_entry entry;
    const char *file;
    const char *const *names;              /* of the arguments */
    const struct fe_statement *statements; /* NULL: not parsed yet, nor the names */
    uint32_t count;
};
const struct fe_statement *fe_formula_statements(struct arena *, struct fe_formula *, uint32_t *count);
#endif
