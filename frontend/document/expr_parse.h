/* The syntax of expressions, which is that of `$` arithmetic, too: text -> tree (expr_parse.c). Expressions become
 * values of the IR in frontend/expr, arithmetic becomes numbers in arithmetic.c. */
#ifndef FRONTEND_EXPR_PARSE_H
#define FRONTEND_EXPR_PARSE_H
#include "ir/base/arena.h"
#include <stdbool.h>

enum expr_kind {
    EXPR_NUMBER,
    EXPR_STRING,
    EXPR_NAME,
    EXPR_CONSTANT /* True, False, None */,
    EXPR_ELLIPSIS,
    EXPR_TUPLE,
    EXPR_UNARY,
    EXPR_BINARY,
    EXPR_CALL,
    EXPR_INDEX,
    EXPR_SLICE,
    EXPR_IF /* a if c else b: items are c, a, b */,
    EXPR_PART /* (a).name */,
    EXPR_METHOD /* (a).name(arguments): items are a, then the arguments */
};
enum expr_operator {
    EXPR_OP_NONE,
    EXPR_OP_OR,
    EXPR_OP_XOR,
    EXPR_OP_AND,
    EXPR_OP_SHL,
    EXPR_OP_SHR,
    EXPR_OP_ADD, /* to MOD: those of arithmetic */
    EXPR_OP_SUB,
    EXPR_OP_MUL,
    EXPR_OP_DIV,
    EXPR_OP_FLOORDIV,
    EXPR_OP_MOD,
    EXPR_OP_MATMUL,
    EXPR_OP_POW,
    EXPR_OP_NEG,
    EXPR_OP_POS,
    EXPR_OP_NOT,
    EXPR_OP_EQ,
    EXPR_OP_NE,
    EXPR_OP_LT,
    EXPR_OP_LE,
    EXPR_OP_GT,
    EXPR_OP_GE
};
struct expr_node {
    enum expr_kind kind;
    enum expr_operator op;
    uint32_t at, length; /* bytes of the text */
    uint32_t sign;       /* BINARY: where the operator stands */
    uint32_t depth;      /* of the tree under it */
    const char *text;    /* NAME (dotted), STRING, CALL: the function, PART and METHOD: the name, which may be dotted */
    double number;       /* NUMBER; CONSTANT: 0, 1, or -1 for None */
    bool integer;
    bool list; /* TUPLE: in brackets */
    struct expr_node *
        *items; /* TUPLE, UNARY, BINARY, CALL's arguments, INDEX: base then items, SLICE: three, NULL if absent */
    const char **names; /* CALL, METHOD: keyword per argument, NULL for positional ones */
    uint32_t count;
};
enum { EXPR_MAX_DEPTH = 128, EXPR_MAX_CHAIN = 2000 };
struct expr_fault {
    uint32_t at, length;
    const char *message;
};
/* NULL: *fault says what and where. */
struct expr_node *expr_parse(struct arena *, const char *text, struct expr_fault *fault);
/* Of a text "$...": its operators are + - * / // % **, and faults are worded for numbers. */
struct expr_node *expr_parse_arithmetic(struct arena *, const char *text, struct expr_fault *fault);

/* Two numbers as Python computes + - * / // % ** of them (arithmetic.c); divisors are not 0. */
double fe_python_number(enum expr_operator, double, double);
#endif
