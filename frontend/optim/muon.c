/* Muon (Jordan et al. 2024): momentum whose matrices are made almost orthogonal by Newton-Schulz iterations; all other
 * parameters take AdamW. The formulas are those of optax.contrib. */
#include "frontend/optim/matrices.h"
#include <math.h>
#include <string.h>

enum { MOST_STEPS = 64 }; /* iterations are unrolled */

/* ---------------------------------------------------------------- matrices */

/* x y, or x yᵀ, per matrix of the batch. */
static struct fe_term product(struct ir_builder *b, struct fe_term x, struct fe_term y, bool transposed)
{
    static const int64_t zeroth[1] = {0}, first[1] = {1}, second[1] = {2};
    const struct ir_ints batch = {zeroth, 1};
    return T(ir_dot(b, x.v, y.v, batch, batch, (struct ir_ints){second, 1},
                    (struct ir_ints){transposed ? second : first, 1}));
}

/* Reduces dimensions `from`.. of x and broadcasts the result to x's shape again by `spread`. */
static struct fe_term reduced(struct ir_builder *b, enum ir_op op, struct fe_term x, uint32_t from)
{
    static const int64_t dims[] = {0, 1, 2};
    return T(ir_reduce(b, op, x.v, dims + from, 3 - from));
}

/* One value per matrix (rank 1) or per row (rank 2) for every element of x. */
static struct fe_term spread(struct ir_builder *b, struct fe_term value, struct fe_term x)
{
    static const int64_t dims[] = {0, 1};
    const struct ir_type type = *ir_type(b->f, x.v);
    return T(ir_broadcast(b, value.v, 3, type.dim, dims));
}

static struct fe_term frobenius(struct ir_builder *b, struct fe_term x)
{
    return term_sqrt(b, reduced(b, OP_reduce_sum, term_square(b, x), 1));
}

/* The largest singular value: repeated squaring of x xᵀ leaves the projector onto its singular vectors. Each squaring
 * halves the error, and a wrong mixture of close values changes little, so that 24 reach single precision. */
static struct fe_term spectral(struct ir_builder *b, struct fe_term x)
{
    struct fe_term tiny = term_number(0x1p-126), most = reduced(b, OP_reduce_max, term_abs(b, x), 1);
    struct fe_term y = term_div(b, x, spread(b, term_max(b, most, tiny), x)), gram = product(b, y, y, true),
                   power = gram;
    for (int i = 0; i < 24; i++) {
        power = term_div(b, power, spread(b, term_max(b, frobenius(b, power), tiny), power));
        power = product(b, power, power, false);
    }
    struct fe_term weight = reduced(b, OP_reduce_sum, term_square(b, power), 1);
    struct fe_term moved = product(b, power, y, false), sum = reduced(b, OP_reduce_sum, term_square(b, moved), 1);
    return term_mul(b, term_sqrt(b, term_div(b, sum, term_max(b, weight, tiny))), most);
}

/* ---------------------------------------------------------------- Newton-Schulz */

struct coefficients {
    uint32_t steps;
    double step[MOST_STEPS][3];
};

static const double standard[3] = {3.4445, -4.7750, 2.0315};
static const double dion[5][3] = {{4.0848, -6.8946, 2.9270},
                                  {3.9505, -6.3029, 2.6377},
                                  {3.7418, -5.5913, 2.3037},
                                  {2.8769, -3.1427, 1.2046},
                                  {2.8366, -3.0525, 1.2012}};

static bool read_row(struct optim_transform *t, fe_json row, double out[3])
{
    uint32_t n = 0;
    if (row->kind == JSON_ARRAY && fe_count(t->fe, row) == 3) {
        for (fe_json e = fe_first(t->fe, row); e; e = fe_next(t->fe, e))
            if (!fe_number(t->fe, e, &out[n++])) return false;
        return true;
    }
    fe_error(t->fe, row, "E0101", "must be three numbers, found %s", fe_found(t->fe, row));
    return false;
}

/* Three numbers for every step, or a list of them, or a name. False: an error was recorded. */
static bool read_coefficients(struct optim_transform *t, struct coefficients *c)
{
    fe_json json = arg(t, "ns_coeffs")->json;
    if (!optim_at_most(t, "ns_steps", MOST_STEPS)) return false;
    *c = (struct coefficients){.steps = (uint32_t)arg(t, "ns_steps")->integer};
    const double *all = standard;
    double own[3];
    if (json && json->kind == JSON_STRING) {
        static const char *const names[] = {"standard", "dion"};
        if (strcmp(json->string, "dion") == 0) {
            c->steps = 5;
            memcpy(c->step, dion, sizeof dion);
            return true;
        }
        if (strcmp(json->string, "standard") != 0) {
            struct diag *d = fe_error(t->fe, json, "E0103", "must be \"standard\", \"dion\" or numbers, found %s",
                                      fe_found(t->fe, json));
            fe_suggest(t->fe, d, json->string, names, 2);
            return false;
        }
    } else if (json && json->kind == JSON_ARRAY && fe_first(t->fe, json) && fe_first(t->fe, json)->kind == JSON_ARRAY) {
        c->steps = 0;
        for (fe_json e = fe_first(t->fe, json); e; e = fe_next(t->fe, e)) {
            if (c->steps == MOST_STEPS) return fe_wrong(t->fe, json, "E0103", "must be at most %d steps", MOST_STEPS);
            if (!read_row(t, e, c->step[c->steps++])) return false;
        }
        return true;
    } else if (json) {
        if (!read_row(t, json, own)) return false;
        all = own;
    }
    for (uint32_t i = 0; i < c->steps; i++) memcpy(c->step[i], all, sizeof own);
    return true;
}

/* x = c0 x + (c1 A + c2 A A) x with A = x xᵀ. */
static struct fe_term iterate(struct ir_builder *b, struct fe_term x, struct fe_term a, const double c[3])
{
    struct fe_term square = product(b, term_mul(b, term_number(c[2]), a), a, false);
    struct fe_term factor = term_add(b, term_mul(b, term_number(c[1]), a), square);
    return term_add(b, term_mul(b, term_number(c[0]), x), product(b, factor, x, false));
}

/* The first step where the norm comes from A itself: per row (aol) or from A's norm (schatten). */
static struct fe_term scaled_first(struct ir_builder *b, struct fe_term x, const double c[3], bool rows)
{
    static const int64_t columns[] = {0, 2};
    struct fe_term a = product(b, x, x, true), least = term_number(1e-8);
    const struct ir_type type = *ir_type(b->f, a.v);
    if (!rows) {
        struct fe_term s = term_rsqrt(b, term_max(b, frobenius(b, a), least));
        return iterate(b, term_mul(b, x, spread(b, s, x)), term_mul(b, a, spread(b, term_square(b, s), a)), c);
    }
    struct fe_term s = term_rsqrt(b, term_max(b, reduced(b, OP_reduce_sum, term_abs(b, a), 2), least));
    struct fe_term across = T(ir_broadcast(b, s.v, 3, type.dim, columns));
    return iterate(b, term_mul(b, x, spread(b, s, x)), term_mul(b, term_mul(b, a, spread(b, s, a)), across), c);
}

static struct fe_term orthogonalized(struct optim_transform *t, struct fe_term x, const struct coefficients *c,
                                     const struct optim_matrices *m)
{
    static const int64_t turned[] = {0, 2, 1};
    struct ir_builder *b = t->b;
    const char *how = arg(t, "preconditioning")->string;
    bool tall = m->size[1] > m->size[2], rows = strcmp(how, "aol") == 0, own = rows || strcmp(how, "schatten") == 0;
    if (tall) x = T(ir_transpose(b, x.v, turned));
    if (!own) {
        struct fe_term norm = strcmp(how, "spectral") == 0 ? spectral(b, x) : frobenius(b, x);
        x = term_div(b, x, spread(b, term_add(b, norm, number(t, "eps")), x));
    }
    for (uint32_t i = 0; i < c->steps; i++)
        x = own && i == 0 ? scaled_first(b, x, c->step[i], rows) : iterate(b, x, product(b, x, x, true), c->step[i]);
    return tall ? T(ir_transpose(b, x.v, turned)) : x;
}

/* ---------------------------------------------------------------- the transformations */

static void by_muon(struct optim_transform *t, const struct optim_matrices *matrices)
{
    struct ir_builder *b = t->b;
    struct coefficients c;
    if (!read_coefficients(t, &c)) return;
    struct fe_term beta = number(t, "beta"), before = counter(t, "count"), count = optim_increment(b, before);
    struct fe_term now = correction(b, beta, count), next = correction(b, beta, optim_increment(b, count));
    ir_value *mu = optim_tree(t, "mu", dtype_or(t, "mu_dtype"), zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), m = moment(b, g, T(mu[i]), beta), x = corrected(b, m, now);
        if (flag(t, "nesterov")) x = moment(b, corrected(b, g, now), corrected(b, m, next), beta);
        /* A matrix stays as it lies, whatever its dimension numbers are, as in Optax; they say how it is scaled. Only
         * the rows of "aol" tell a square matrix from its transpose. */
        const struct ir_type *type = &t->o->params[i].type;
        struct optim_matrices m2 = matrices[i];
        if (type->rank == 2) m2 = (struct optim_matrices){.order = {0, 1}, .size = {1, type->dim[0], type->dim[1]}};
        struct fe_term o = optim_as_leaf(b, orthogonalized(t, optim_as_matrices(b, x, &m2), &c, &m2), &m2, type);
        t->u[i] = (flag(t, "adaptive") ? term_mul(b, term_dot(b, x, o), o) : o).v;
        mu[i] = m.v;
    }
    optim_tree_set(t, "mu", mu);
    optim_state_set(t, "count", count);
}

void transform_scale_by_muon(struct optim_transform *t)
{
    struct optim_matrices *matrices = arena_new_array(t->fe->arena, struct optim_matrices, t->count + 1);
    if (!optim_read_matrices(t, "weight_dimension_numbers", matrices)) return;
    EACH_LEAF(t, i)
        if (!matrices[i].used) {
            fe_error(t->fe, t->json, "E0202",
                     "parameter \"%s\" of shape %s is no matrix: mask it or give \"weight_dimension_numbers\"",
                     t->o->params[i].path, ir_type_text(t->fe->arena, &t->o->params[i].type));
            return;
        }
    by_muon(t, matrices);
}

/* Orthogonal matrices of all shapes move their outputs alike. */
static void by_shape(struct optim_transform *t, const struct optim_matrices *matrices)
{
    struct ir_builder *b = t->b;
    EACH_LEAF(t, i) {
        double in = (double)matrices[i].size[1], out = (double)matrices[i].size[2];
        struct fe_term scale = term_number((double)sqrtf((float)fmax(1, out / in)));
        if (!absent(t, "consistent_rms"))
            scale = term_mul(b, term_number((double)sqrtf((float)fmax(in, out))), number(t, "consistent_rms"));
        t->u[i] = term_mul(b, scale, T(t->u[i])).v;
    }
}

void transform_muon(struct optim_transform *t)
{
    struct optim_matrices *matrices = arena_new_array(t->fe->arena, struct optim_matrices, t->count + 1);
    if (!optim_read_matrices(t, "muon_weight_dimension_numbers", matrices)) return;
    struct optim_transform matrix = *t, other = *t, first;
    matrix.u = optim_new_tree(t), other.u = optim_new_tree(t);
    EACH_LEAF(t, i) *(matrices[i].used ? &matrix.u[i] : &other.u[i]) = t->u[i];
    matrix.path = optim_path(t, "inner_states.muon.inner_state");
    other.path = optim_path(t, "inner_states.adam.inner_state");
    first = matrix;
    first.path = arena_format(t->fe->arena, "%s.0", matrix.path);
    by_muon(&first, matrices);
    by_shape(&matrix, matrices);
    optim_chain(&matrix, "add_decayed_weights(mask=weight_decay_mask) -> scale_by_learning_rate", 2);
    optim_chain(&other,
                "scale_by_adam(b1=adam_b1,b2=adam_b2,eps_root=adam_eps_root) -> "
                "add_decayed_weights(weight_decay=adam_weight_decay,mask=null)",
                0);
    optim_chain(&other,
                absent(t, "adam_learning_rate") ? "scale_by_learning_rate"
                                                : "scale_by_learning_rate(learning_rate=adam_learning_rate)",
                2);
    EACH_LEAF(t, i) t->u[i] = matrices[i].used ? matrix.u[i] : other.u[i];
}
