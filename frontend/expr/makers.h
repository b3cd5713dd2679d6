/* For the files of makers, the functions that functions.def names: their declarations, their arguments, and the words
 * that their bodies begin with. Those of losses.def are declared in losses/losses.h. */
#ifndef FRONTEND_EXPR_MAKERS_H
#define FRONTEND_EXPR_MAKERS_H
#include "frontend/expr/values.h"

/* A call, its arguments bound to the signature. */
enum { FE_MAX_ARGS = 12 };
struct fe_call {
    struct fe_site *site;
    const struct fe_function *row;
    const char *function;           /* for messages: inside a formula the one that the document calls */
    struct fe_val arg[FE_MAX_ARGS]; /* in the order of the signature; defaults filled in */
    bool given[FE_MAX_ARGS];
    uint8_t kind[FE_MAX_ARGS];          /* enum fe_argument_kind */
    struct fe_where where[FE_MAX_ARGS]; /* of each argument */
    const struct fe_val *rest;          /* a signature that ends in "*" */
    uint32_t rest_count;
    int data; /* of the row */
};

/* Arguments (expr_arguments.c); false: an error was recorded. */
bool fe_get_int(struct fe_call *, uint32_t arg, int64_t *out);
bool fe_get_axis_arg(struct fe_call *, uint32_t arg, uint32_t rank, uint32_t *out);
bool fe_get_axes(struct fe_call *, uint32_t arg, uint32_t rank, uint32_t *axes, uint32_t *count); /* None: all */
bool fe_get_dtype(struct fe_call *, uint32_t arg, enum ir_dtype *out);
bool fe_get_flag(struct fe_call *, uint32_t arg);
bool fe_get_tensor(struct fe_call *, uint32_t arg, struct ir_type *); /* as a tensor, and its type */
struct fe_val fe_as_dtype(struct fe_call *, uint32_t arg,
                          struct fe_val);                 /* cast to the dtype of an argument; None: as it is */
struct fe_val fe_call_made(struct fe_call *, uint32_t n); /* of arguments as they were given: converted, then made */
/* Of n arguments, of which some may be complex (expr_complex.c). False: none is, or it is not a function of them. */
bool fe_complex_call(struct fe_call *, uint32_t n, struct fe_val *result);

#define X(name, signature, make, data, flags, doc) fe_maker make;
#include "frontend/expr/functions.def"
#undef X
fe_maker make_formula;

#define SITE struct fe_site *s = c->site
#define ARG(i) (c->arg[i])

static inline struct fe_val neg(struct fe_site *s, struct fe_val x) { return fe_op1(s, OP_neg, x); }
static inline struct fe_val one_minus(struct fe_site *s, struct fe_val x) { return fe_sub(s, fe_float(1), x); }
#endif
