/* noise: random numbers as a block, for what a model draws while it runs (the latent of a variational autoencoder, the
 * noise and the times of a diffusion model). The distributions of jax.random by its formulas, from its uniform numbers,
 * so that a call gives what jax.random gives with the layer's key. */
#include "frontend/model/block.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum { DISTRIBUTION, SHAPE, MINVAL, MAXVAL, LOWER, UPPER, P, DTYPE, TRAIN_ONLY, STREAM };

/* What is drawn, between which bounds, the formula over it (`u`; NULL: the draw itself), and which arguments belong to
 * it. */
static const struct distribution {
    const char *name;
    enum fe_drawing drawing;
    float low, high;
    const char *formula;
    uint32_t own;
} distributions[] = {{"normal", FE_DRAW_NORMAL, 0, 1, NULL, 0},
                     {"uniform", FE_DRAW_UNIFORM, 0, 1, NULL, 1 << MINVAL | 1 << MAXVAL},
                     {"truncated_normal", FE_DRAW_TRUNCATED_NORMAL, 0, 1, NULL, 1 << LOWER | 1 << UPPER},
                     {"bernoulli", FE_DRAW_UNIFORM, 0, 1, "u < p", 1 << P},
                     {"rademacher", FE_DRAW_UNIFORM, 0, 1, "where(u < 0.5, 1.0, -1.0)", 0},
                     {"exponential", FE_DRAW_UNIFORM, 0, 1, "-log1p(-u)", 0},
                     {"gumbel", FE_DRAW_UNIFORM, FLT_MIN, 1, "-log(-log(u))", 0},
                     {"logistic", FE_DRAW_UNIFORM, FLT_MIN, 1, "log(u) - log1p(-u)", 0},
                     {"laplace", FE_DRAW_UNIFORM, -1 + FLT_EPSILON / 2, 1, "sign(u) * log1p(-abs(u))", 0},
                     {"cauchy", FE_DRAW_UNIFORM, FLT_EPSILON, 1, "tan(pi * (u - 0.5))", 0},
                     {"randint", FE_DRAW_BITS, 0, 1, NULL, 1 << MINVAL | 1 << MAXVAL}}; /* maxval is not among them */

static const struct distribution *find(const char *name)
{
    const struct distribution *d = distributions;
    while (strcmp(d->name, name)) d++;
    return d;
}

static bool is_integer(double x) { return fmod(x, 1) == 0 && fabs(x) <= INT_MAX; }

/* The bounds that the arguments give, and that no other argument is given; false: an error was recorded. */
static bool bounds(struct fe_block *block, const struct fe_arg *rows, const struct fe_value *a, struct distribution *d)
{
    for (uint32_t i = MINVAL; i <= P; i++)
        if (a[i].given && !(d->own & 1u << i))
            return fe_block_wrong(block, a[i].json, "E0101", "the distribution \"%s\" has no \"%s\"", d->name,
                                  rows[i].name);
    if (d->formula || d->drawing == FE_DRAW_NORMAL) return true;
    bool cut = d->drawing == FE_DRAW_TRUNCATED_NORMAL;
    const struct fe_value *low = &a[cut ? LOWER : MINVAL], *high = &a[cut ? UPPER : MAXVAL];
    fe_json blamed = high->given ? high->json : low->given ? low->json : NULL;
    if (d->drawing == FE_DRAW_BITS && (!high->given || !is_integer(low->number) || !is_integer(high->number)))
        return fe_block_wrong(block, blamed, "E0103",
                              "\"randint\" needs integers within 32 bits as \"minval\" and \"maxval\"");
    if (!(low->number < high->number))
        return fe_block_wrong(block, blamed, "E0103", "nothing lies between %g and %g", low->number, high->number);
    d->low = (float)low->number, d->high = (float)high->number;
    return true;
}

/* jax.random.randint in 32 bits: two draws, from the two keys that the key is split into, are the digits of a number
 * whose remainder is taken. */
static ir_value integers(struct ir_builder *b, const struct fe_drawn *drawn, const struct ir_type *shape, int64_t low,
                         int64_t high)
{
    uint32_t span = (uint32_t)(high - low), half = (1u << 16) % span;
    struct ir_type t = *shape, scalar = ir_type_scalar(IR_U32);
    ir_value digit[2], by;
    t.dtype = IR_U32;
    by = ir_number(b, t, span);
    for (uint32_t i = 0; i < 2; i++) {
        ir_value key[2];
        fe_fold_in(b, drawn->key, ir_number(b, scalar, i), key);
        ir_value bits = fe_random(b, key, shape, FE_DRAW_BITS, 0, 0, drawn->is_part ? &drawn->part : NULL);
        digit[i] = ir_binary(b, OP_rem, bits, by);
    }
    ir_value sum = ir_binary(b, OP_mul, digit[0], ir_number(b, t, half * half % span));
    sum = ir_binary(b, OP_rem, ir_binary(b, OP_add, sum, digit[1]), by);
    t.dtype = IR_I32;
    return ir_binary(b, OP_add, ir_cast(b, sum, IR_I32), ir_number(b, t, (double)low));
}

static struct fe_val draw(struct fe_block *block, const struct distribution *d, const struct fe_value *a,
                          const struct fe_drawn *drawn, const struct ir_type *shape)
{
    struct fe_site *s = &block->site;
    struct ir_type t = *shape;
    t.dtype = IR_F32;
    if (d->drawing == FE_DRAW_BITS)
        return fe_val_tensor(integers(s->b, drawn, &t, (int64_t)a[MINVAL].number, (int64_t)a[MAXVAL].number));
    const struct fe_part *part = drawn->is_part ? &drawn->part : NULL;
    struct fe_val u = fe_val_tensor(fe_random(s->b, drawn->key, &t, d->drawing, d->low, d->high, part));
    if (!d->formula) return u;
    struct fe_env p = {NULL, "p", fe_float((double)(float)a[P].number), true}, env = {&p, "u", u, true};
    struct expr_fault fault;
    struct expr_node *tree = expr_parse(s->fe->arena, d->formula, &fault);
    if (!tree) BUG("the formula %s: %s", d->formula, fault.message);
    return fe_eval(s, tree, &env);
}

static enum ir_dtype dtype_of(const struct distribution *d, const struct fe_value *given, enum ir_dtype like)
{
    if (!given->null) return given->dtype;
    if (d->drawing == FE_DRAW_BITS) return IR_I32;
    if (d->own & 1 << P) return IR_BOOL;
    return ir_dtype_is_float(like) ? like : IR_F32;
}

static const struct fe_arg args[] = {
    {"distribution", FE_ENUM, 0, "\"normal\"",
     "normal|uniform|truncated_normal|bernoulli|rademacher|exponential|gumbel|logistic|laplace|cauchy|randint"},
    {"shape", FE_SHAPE, FE_NULLABLE | FE_NOT_NEGATIVE, "null", NULL},
    {"minval", FE_NUMBER, 0, "0", NULL},
    {"maxval", FE_NUMBER, 0, "1", NULL},
    {"lower", FE_NUMBER, 0, "-2", NULL},
    {"upper", FE_NUMBER, 0, "2", NULL},
    {"p", FE_NUMBER, FE_UNIT_CLOSED, "0.5", NULL},
    {"dtype", FE_DTYPE, FE_NULLABLE, "null", NULL},
    {"train_only", FE_BOOL, 0, "false", NULL}, /* elsewhere zeros */
    {"rng_collection", FE_STRING, 0, "\"noise\"", NULL}};

static struct fe_val apply(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    struct distribution d = *find(a[DISTRIBUTION].string);
    struct ir_type t = {0};
    struct fe_drawn drawn;
    fe_block_fork(block, a[STREAM].string, true);
    if (!bounds(block, args, a, &d)) return fe_bad();
    if (a[SHAPE].null && !block->in_count)
        return fe_block_fail(block, NULL, "E0113",
                             "noise takes its shape from its input or from \"shape\": it has neither");
    if (!a[SHAPE].null ? !fe_type(s->fe, a[SHAPE].json, a[SHAPE].shape, a[SHAPE].rank, IR_F32, &t)
                       : !fe_as_tensor(s, &block->in[0]))
        return fe_bad();
    if (a[SHAPE].null) t = fe_type_at(s, &block->in[0]);
    t.dtype = (uint8_t)dtype_of(&d, &a[DTYPE], (enum ir_dtype)t.dtype);
    if (a[TRAIN_ONLY].boolean && !s->trace->train) return fe_full(s, t, 0);
    if (!fe_block_draw(block, a[STREAM].string, &t, a[SHAPE].null, a[SHAPE].null ? block->in[0].tensor : 0, &drawn))
        return fe_bad();
    return fe_stop(s, fe_cast(s, draw(block, &d, a, &drawn, &t), (enum ir_dtype)t.dtype));
}

const struct fe_layer fe_layer_noise = {"noise", args, sizeof args / sizeof *args, 1 | FE_NO_INPUT_TOO, apply};
