/* Second moments in fewer numbers than elements: by dimension (SM3), by rows and columns (Adafactor). Formulas and
 * order of operations are those of optax._src.factorized and optax.contrib. */
#include "frontend/optim/factored.h"

/* Sum or largest over all dimensions but `kept`. */
static struct fe_term over_others(struct ir_builder *b, enum ir_op op, struct fe_term x, uint32_t kept)
{
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0, rank = ir_type(b->f, x.v)->rank;
    for (uint32_t i = 0; i < rank; i++)
        if (i != kept) dims[n++] = i;
    return n ? T(ir_reduce(b, op, x.v, dims, n)) : x;
}

/* A cover of the squares: one vector per dimension (Anil et al. 2019). */
void transform_scale_by_sm3(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term b2 = number(t, "b2"), none = term_number(0), one = term_number(1);
    struct fe_term share = b2.v             ? term_where(b, term_lt(b, b2, one), term_sub(b, one, b2), one)
                           : b2.number == 1 ? one
                                            : term_sub(b, one, b2);
    ir_value *nu = optim_tree(t, "nu", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        const struct ir_type type = t->o->params[i].type;
        struct fe_term g = T(t->u[i]), least = {0};
        uint32_t vectors = type.rank > 1 ? type.rank : 1;
        const char *names[IR_MAX_RANK];
        for (uint32_t k = 0; k < vectors; k++) {
            int64_t dim = k;
            struct ir_type own = ir_type_of((enum ir_dtype)type.dtype, type.rank ? 1 : 0, &type.dim[k]);
            names[k] = arena_format(t->fe->arena, t->o->outside ? "mu%s.%u" : "mu.%s.%u", t->o->params[i].path, k);
            struct fe_term v = optim_state(t, names[k], own, zero);
            optim_state_along(t, names[k], i, 0, ~(1u << k));
            if (type.rank > 1) v = T(ir_broadcast(b, v.v, type.rank, type.dim, &dim));
            least = k ? term_min(b, least, v) : v;
        }
        struct fe_term a = term_add(b, term_mul(b, share, term_square(b, g)), term_mul(b, b2, least));
        struct fe_term scale = term_where(b, term_lt(b, none, a), term_rsqrt(b, term_add(b, a, number(t, "eps"))),
                                          none);
        t->u[i] = nu[i] = moment(b, term_mul(b, g, scale), T(nu[i]), number(t, "b1")).v;
        for (uint32_t k = 0; k < vectors; k++) optim_state_set(t, names[k], over_others(b, OP_reduce_max, a, k));
    }
    optim_tree_set(t, "nu", nu);
}

/* The two largest dimensions of a shape by a stable sort: d0 the largest, d1 the second. False: not factored. */
static bool factored_dims(const struct ir_type *type, bool factored, int64_t least, uint32_t *d1, uint32_t *d0)
{
    if (!factored || type->rank < 2) return false;
    *d0 = 0;
    for (uint32_t i = 1; i < type->rank; i++)
        if (type->dim[i] >= type->dim[*d0]) *d0 = i;
    *d1 = *d0 ? 0 : 1;
    for (uint32_t i = 0; i < type->rank; i++)
        if (i != *d0 && type->dim[i] >= type->dim[*d1]) *d1 = i;
    return type->dim[*d1] >= least;
}

static struct ir_type without(const struct ir_type *type, uint32_t set)
{
    int64_t rest[IR_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (!(set >> i & 1)) rest[n++] = type->dim[i];
    return ir_type_of((enum ir_dtype)type->dtype, n, rest);
}

struct fe_term optim_mean_over(struct ir_builder *b, struct fe_term x, uint32_t set)
{
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0, rank = ir_type(b->f, x.v)->rank;
    for (uint32_t i = 0; i < rank; i++)
        if (set >> i & 1) dims[n++] = i;
    return term_mean_over(b, x, dims, n);
}

struct fe_term optim_along(struct ir_builder *b, struct fe_term x, const struct ir_type *type, uint32_t set)
{
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (!(set >> i & 1)) dims[n++] = i;
    return set ? T(ir_broadcast(b, x.v, type->rank, type->dim, dims)) : x;
}

static void keep(struct optim_transform *t, const char *name, uint32_t leaf, struct fe_term old, struct fe_term new,
                 bool skip_nan)
{
    optim_leaf_set(t, name, leaf, skip_nan ? term_where(t->b, term_is_nan(t->b, new), old, new) : new);
}

struct fe_term optim_factored(struct optim_transform *t, uint32_t leaf, const struct optim_factors *f,
                              enum ir_dtype dtype, struct fe_term g, struct fe_term eps, struct fe_term decay,
                              bool skip_nan)
{
    static const int64_t one[1] = {1};
    struct ir_builder *b = t->b;
    struct ir_type type = t->o->params[leaf].type, none = ir_type_of(dtype, 1, one);
    type.dtype = (uint8_t)dtype;
    struct fe_term sq = term_add(b, term_square(b, g), eps);
    struct fe_term row = optim_leaf(t, "v_row", leaf, f->factored ? without(&type, f->column) : none, zero);
    struct fe_term col = optim_leaf(t, "v_col", leaf, f->factored ? without(&type, f->row) : none, zero);
    struct fe_term v = optim_leaf(t, "v", leaf, f->factored ? none : type, zero);
    if (!f->factored) {
        struct fe_term new = term_cast_like(b, moment(b, sq, v, decay), v);
        keep(t, "v", leaf, v, new, skip_nan);
        return term_mul(b, g, term_rsqrt(b, new));
    }
    optim_leaf_along(t, "v_row", leaf, 0, f->column);
    optim_leaf_along(t, "v_col", leaf, 0, f->row);
    struct fe_term rows = term_cast_like(b, moment(b, optim_mean_over(b, sq, f->column), row, decay), row);
    struct fe_term cols = term_cast_like(b, moment(b, optim_mean_over(b, sq, f->row), col, decay), col);
    keep(t, "v_row", leaf, row, rows, skip_nan);
    keep(t, "v_col", leaf, col, cols, skip_nan);
    const struct ir_type row_type = *ir_type(b->f, rows.v);
    uint32_t there = 0; /* the row dimensions, counted without the column dimensions */
    for (uint32_t i = 0, n = 0; i < type.rank; i++)
        if (!(f->column >> i & 1)) there |= (f->row >> i & 1) << n++;
    struct fe_term mean = optim_along(b, optim_mean_over(b, rows, there), &row_type, there);
    struct fe_term by_row = optim_along(b, term_rsqrt(b, term_div(b, rows, mean)), &type, f->column);
    return term_mul(b, term_mul(b, g, by_row), optim_along(b, term_rsqrt(b, cols), &type, f->row));
}

/* The decay of this step as the document writes it: an expression over `step` and `decay_rate`. */
static bool decay_by(struct optim_transform *t, struct fe_term step, struct fe_term *decay)
{
    struct fe_term rate = number(t, "decay_rate");
    struct fe_env env = {t->o->trace->env, "decay_rate",
                         rate.v ? fe_val_tensor(rate.v) : fe_val_number(rate.number, false), false};
    const struct fe_env *before = t->o->trace->env;
    t->o->trace->env = &env;
    bool good = optim_of_counter(t, arg(t, "decay_rate_fn")->json, "step", step, decay);
    t->o->trace->env = before;
    if (good && !(decay->weak && ir_dtype_is_float(ir_type(t->b->f, decay->v)->dtype)))
        *decay = term_cast(t->b, *decay, IR_F32);
    return good;
}

/* Means of squares by rows and columns instead of per element (Shazeer, Stern 2018). */
void transform_scale_by_factored_rms(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term count = counter(t, "count");
    struct fe_term steps = term_add(b, term_sub(b, count, term_integer(arg(t, "step_offset")->integer)),
                                    term_integer(1));
    struct fe_term decay = term_pow(b, term_cast(b, steps, IR_F32), term_neg(b, number(t, "decay_rate")));
    decay = term_sub(b, term_number(1), decay);
    if (arg(t, "decay_rate_fn")->json && !decay_by(t, term_sub(b, steps, term_integer(1)), &decay)) return;
    EACH_LEAF(t, i) {
        const struct ir_type *type = &t->o->params[i].type;
        uint32_t d1 = 0, d0 = 0;
        bool factored = factored_dims(type, flag(t, "factored"), arg(t, "min_dim_size_to_factor")->integer, &d1, &d0);
        struct optim_factors f = {.factored = factored, .row = 1u << d1, .column = 1u << d0};
        enum ir_dtype dtype = (enum ir_dtype)type->dtype;
        t->u[i] = optim_factored(t, i, &f, dtype, T(t->u[i]), number(t, "epsilon"), decay, false).v;
    }
    optim_state_set(t, "count", optim_increment(b, count));
}
