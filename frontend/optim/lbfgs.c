/* L-BFGS: the inverse Hessian from the last differences of parameters and gradients (Liu, Nocedal 1989; Nocedal, Wright
 * 2006, algorithm 7.4). Formulas and their order are those of optax._src.transform.scale_by_lbfgs. Memories have a
 * leading dimension of `memory_size`, used as a ring. */
#include "frontend/optim/optim.h"

/* A memory's type: [memory_size, shape of the parameter..]. */
static struct ir_type stacked(const struct ir_type *type, int64_t size)
{
    int64_t dim[IR_MAX_RANK] = {size};
    for (uint32_t i = 0; i < type->rank; i++) dim[i + 1] = type->dim[i];
    return ir_type_of((enum ir_dtype)type->dtype, type->rank + 1u, dim);
}

static void ring_starts(struct ir_builder *b, ir_value index, uint32_t rank, ir_value *starts)
{
    starts[0] = index;
    for (uint32_t i = 1; i < rank; i++) starts[i] = ir_scalar(b, IR_I32, 0);
}

/* Element by element, so that it can be done where the memory lies. */
static ir_value ring_put(struct ir_builder *b, ir_value memory, ir_value index, ir_value x)
{
    static const int64_t dims[] = {1, 2, 3, 4, 5, 6, 7};
    const struct ir_type type = *ir_type(b->f, memory);
    struct ir_type places = type;
    places.dtype = IR_I32;
    ir_value here = ir_binary(b, OP_eq, ir_iota(b, places, 0), ir_broadcast(b, index, type.rank, type.dim, NULL));
    x = ir_cast(b, x, (enum ir_dtype)ir_type(b->f, memory)->dtype);
    return ir_select(b, here, ir_broadcast(b, x, type.rank, type.dim, dims), memory);
}

static ir_value ring_get(struct ir_builder *b, ir_value memory, ir_value index)
{
    const struct ir_type type = *ir_type(b->f, memory);
    int64_t sizes[IR_MAX_RANK];
    ir_value starts[IR_MAX_RANK];
    ring_starts(b, index, type.rank, starts);
    for (uint32_t i = 0; i < type.rank; i++) sizes[i] = i ? type.dim[i] : 1;
    return ir_reshape(b, ir_dynamic_slice(b, memory, starts, sizes), type.rank - 1u, type.dim + 1);
}

/* One entry of the memories. */
struct entry {
    ir_value *s, *y;    /* differences of parameters and of gradients, per leaf */
    struct fe_term rho; /* 1 / <y, s> */
};

/* The memories in the step, as they were before it, and the newest entry, which takes the place of the oldest. */
struct memory {
    int64_t size;
    ir_value *s, *y, rho;
    struct entry newest;
};

static struct entry entry_at(struct optim_transform *t, const struct memory *m, struct fe_term index)
{
    struct entry e = {optim_new_tree(t), optim_new_tree(t), T(ring_get(t->b, m->rho, index.v))};
    EACH_LEAF(t, i) e.s[i] = ring_get(t->b, m->s[i], index.v), e.y[i] = ring_get(t->b, m->y[i], index.v);
    return e;
}

static void add_scaled(struct optim_transform *t, struct fe_term factor, const ir_value *x)
{
    EACH_LEAF(t, i) t->u[i] = term_add(t->b, T(t->u[i]), term_mul(t->b, factor, T(x[i]))).v;
}

/* The two loops over the memory, newest entry first and back; `first` is the ring's oldest entry. */
static void precondition(struct optim_transform *t, const struct memory *m, struct fe_term first, struct fe_term scale)
{
    struct ir_builder *b = t->b;
    struct entry *entries = arena_new_array(t->fe->arena, struct entry, m->size);
    struct fe_term *alpha = arena_new_array(t->fe->arena, struct fe_term, m->size);
    for (int64_t k = m->size; k-- > 0;) {
        struct fe_term index = term_rem(b, term_add(b, first, term_integer(k)), term_integer(m->size));
        entries[k] = k == m->size - 1 ? m->newest : entry_at(t, m, index);
        alpha[k] = term_mul(b, entries[k].rho, optim_dot(b, t->count, entries[k].s, t->u));
        add_scaled(t, term_neg(b, alpha[k]), entries[k].y);
    }
    EACH_LEAF(t, i) t->u[i] = term_mul(b, scale, T(t->u[i])).v;
    for (int64_t k = 0; k < m->size; k++) {
        struct fe_term beta = term_mul(b, entries[k].rho, optim_dot(b, t->count, entries[k].y, t->u));
        add_scaled(t, term_sub(b, alpha[k], beta), entries[k].s);
    }
}

void transform_scale_by_lbfgs(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct memory m = {.size = arg(t, "memory_size")->integer, .s = optim_new_tree(t), .y = optim_new_tree(t)};
    if (!optim_at_most(t, "memory_size", 1000)) return; /* the loops over it are unrolled */
    EACH_LEAF(t, i)
        if (t->o->params[i].type.rank == IR_MAX_RANK) {
            fe_error(t->fe, t->json, "E0111", "L-BFGS with a parameter of %d dimensions (\"%s\") is not supported yet",
                     IR_MAX_RANK, t->o->params[i].path);
            return;
        }
    struct fe_term count = counter(t, "count"), size = term_integer(m.size), none = term_number(0),
                   one = term_number(1);
    struct fe_term later = term_lt(b, term_integer(0), count), first = term_rem(b, count, size);
    struct fe_term last = term_rem(b, term_add(b, count, term_integer(m.size - 1)), size);
    ir_value *params = optim_tree(t, "params", IR_TUPLE, zero), *updates = optim_tree(t, "updates", IR_TUPLE, zero);
    ir_value *s = optim_new_tree(t), *y = optim_new_tree(t), *g = optim_new_tree(t);
    EACH_LEAF(t, i) {
        s[i] = term_where(b, later, term_sub(b, T(t->p[i]), T(params[i])), none).v;
        y[i] = term_where(b, later, term_sub(b, T(t->u[i]), T(updates[i])), none).v;
        params[i] = t->p[i], updates[i] = g[i] = t->u[i];
    }
    struct fe_term product = optim_dot(b, t->count, y, s);
    struct fe_term weight = term_where(b, term_eq(b, product, none), none, term_div(b, one, product));
    m.rho = optim_state(t, "weights_memory", ir_type_of(IR_F32, 1, &m.size), zero).v;
    optim_state_set(t, "weights_memory", T(ring_put(b, m.rho, last.v, weight.v)));
    EACH_LEAF(t, i) {
        struct ir_type type = stacked(&t->o->params[i].type, m.size);
        m.s[i] = optim_leaf(t, "diff_params_memory", i, type, zero).v;
        m.y[i] = optim_leaf(t, "diff_updates_memory", i, type, zero).v;
        optim_leaf_along(t, "diff_params_memory", i, 1, 0);
        optim_leaf_along(t, "diff_updates_memory", i, 1, 0);
        optim_leaf_set(t, "diff_params_memory", i, T(ring_put(b, m.s[i], last.v, s[i])));
        optim_leaf_set(t, "diff_updates_memory", i, T(ring_put(b, m.y[i], last.v, y[i])));
    }
    m.newest = (struct entry){s, y, weight};
    struct fe_term scale = one;
    if (flag(t, "scale_init_precond")) {
        struct fe_term squares = optim_square_sum(t, y), norm = term_sqrt(b, optim_square_sum(t, g));
        scale = term_where(b, term_lt(b, none, squares), term_div(b, product, squares), one);
        scale = term_where(b, later, scale, term_min(b, one, term_div(b, one, norm)));
    }
    precondition(t, &m, first, scale);
    optim_tree_set(t, "params", params);
    optim_tree_set(t, "updates", updates);
    optim_state_set(t, "count", optim_increment(b, count));
}

void transform_lbfgs(struct optim_transform *t)
{
    const struct fe_value *search = arg(t, "linesearch");
    optim_chain(t, "scale_by_lbfgs", 0);
    optim_chain(t, absent(t, "learning_rate") ? "scale(step_size=-1.0)" : "scale_by_learning_rate", 1);
    if (search->given && !search->null) optim_apply(t->o, search->json, optim_path(t, "2"), t->u, t->p);
    if (!search->given)
        optim_chain(t, "scale_by_zoom_linesearch(max_linesearch_steps=20,initial_guess_strategy=\"one\")", 2);
}
