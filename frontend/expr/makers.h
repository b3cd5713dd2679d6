/* For the files of makers, the functions that functions.def and losses.def name: their declarations, and the words that
 * their bodies begin with. */
#ifndef FRONTEND_EXPR_MAKERS_H
#define FRONTEND_EXPR_MAKERS_H
#include "frontend/expr/expr.h"

#define X(name, signature, make, data, flags) fe_maker make;
#include "frontend/expr/functions.def"
#include "frontend/losses/losses.def"
#undef X

#define SITE struct fe_site *s = c->site
#define ARG(i) (c->arg[i])

static inline struct fe_val neg(struct fe_site *s, struct fe_val x) { return fe_op1(s, OP_neg, x); }
static inline struct fe_val one_minus(struct fe_site *s, struct fe_val x) { return fe_sub(s, fe_float(1), x); }
#endif
