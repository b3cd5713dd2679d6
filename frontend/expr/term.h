/* Formulas in the field's notation, for C code that writes updates and schedules.
 *
 * A term is a number as Python knows it (a double until it meets a tensor) or a tensor. Operations promote dtypes and
 * broadcast shapes as JAX does with 64-bit types off: numbers and weak tensors take the dtype of what they meet.
 * Constant parts are therefore formed in double and rounded once: (1 - b1) * g is what Optax computes. Adding the
 * number 0 and multiplying by the number 1 make no node.
 *
 * A weak float64 scalar is a number that is known only when the step runs (a learning rate that the host may set). It
 * behaves as a number does: double among numbers, rounded where it meets a tensor. So whoever sets a rate gets the bits
 * of a document that has this rate. */
#ifndef FRONTEND_TERM_H
#define FRONTEND_TERM_H
#include "ir/ir.h"

struct fe_term {
    ir_value v; /* 0: a number */
    double number;
    bool integer; /* the number is a Python int */
    bool weak;    /* a tensor of weak type; a float64 one is a number */
};

struct fe_term term_number(double);
struct fe_term term_integer(int64_t);
struct fe_term term_tensor(ir_value);

struct fe_term term_add(struct ir_builder *, struct fe_term, struct fe_term);
struct fe_term term_sub(struct ir_builder *, struct fe_term, struct fe_term);
struct fe_term term_mul(struct ir_builder *, struct fe_term, struct fe_term);
struct fe_term term_div(struct ir_builder *, struct fe_term, struct fe_term); /* true division */
struct fe_term term_rem(struct ir_builder *, struct fe_term, struct fe_term); /* of non-negative integers */
struct fe_term term_pow(struct ir_builder *, struct fe_term, struct fe_term); /* integer exponents multiply */
struct fe_term term_max(struct ir_builder *, struct fe_term, struct fe_term);
struct fe_term term_min(struct ir_builder *, struct fe_term, struct fe_term);

struct fe_term term_neg(struct ir_builder *, struct fe_term);
struct fe_term term_abs(struct ir_builder *, struct fe_term);
struct fe_term term_sign(struct ir_builder *, struct fe_term);
struct fe_term term_sqrt(struct ir_builder *, struct fe_term);
struct fe_term term_rsqrt(struct ir_builder *, struct fe_term);
struct fe_term term_tanh(struct ir_builder *, struct fe_term);
struct fe_term term_cos(struct ir_builder *, struct fe_term);
struct fe_term term_floor(struct ir_builder *, struct fe_term);
struct fe_term term_square(struct ir_builder *, struct fe_term);

/* Predicates are bool tensors. */
struct fe_term term_lt(struct ir_builder *, struct fe_term, struct fe_term);
struct fe_term term_le(struct ir_builder *, struct fe_term, struct fe_term);
struct fe_term term_eq(struct ir_builder *, struct fe_term, struct fe_term);
struct fe_term term_and(struct ir_builder *, struct fe_term, struct fe_term);
struct fe_term term_or(struct ir_builder *, struct fe_term, struct fe_term);
struct fe_term term_not(struct ir_builder *, struct fe_term);
struct fe_term term_is_nan(struct ir_builder *, struct fe_term);
struct fe_term term_where(struct ir_builder *, struct fe_term predicate, struct fe_term, struct fe_term);

struct fe_term term_cast(struct ir_builder *, struct fe_term, enum ir_dtype);
struct fe_term term_cast_like(struct ir_builder *, struct fe_term, struct fe_term like);
struct fe_term term_sum(struct ir_builder *, struct fe_term); /* over all dimensions: a scalar */
struct fe_term term_mean(struct ir_builder *, struct fe_term);
struct fe_term term_mean_over(struct ir_builder *, struct fe_term, const int64_t *dims, uint32_t count); /* which go */
/* Over the first dimension as jax.numpy does it: bools and narrow integers are counted in 32 bits, and a mean of 16-bit
 * floats is rounded once. */
ir_value term_sum_rows(struct ir_builder *, ir_value);
ir_value term_mean_rows(struct ir_builder *, ir_value);
struct fe_term term_dot(struct ir_builder *, struct fe_term, struct fe_term); /* sum of products, equal shapes */
/* The value as a tensor: a number becomes a scalar of the dtype. */
ir_value term_value(struct ir_builder *, struct fe_term, enum ir_dtype);
#endif
