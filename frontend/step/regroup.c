/* --numerics invariant: microbatches whose number is no power of two. Sums over rows are trees over the whole batch
 * with a power of two of leaves (passes/invariant.c), of which a third or a fifth of the rows holds no whole subtree.
 * But where losses, metrics and gradients do not depend on how many microbatches there are, it is free which ones are
 * made: those of the next power of two, or of a leaf if they would be smaller than that.
 *
 * That they do not depend on it is shown by tracing a microbatch twice, with the rows that the document asks for and
 * with those that are to be. Both must be the same but for extents and numbers that grow with the rows, and these are
 * reckoned with as with units: a sum over rows has the degree 1, what is divided by a number of rows one less. Sums of
 * microbatches need the degree 1, means 0, in which nothing is found that is not linear in sums over rows. A number
 * that the document writes itself is the same in both, so it has the degree 0. */
#include "frontend/step/assemble.h"
#include <math.h>
#include <string.h>

struct growth {
    int64_t degree;
    int64_t weight;             /* how often it was multiplied by the share of a microbatch in the weight */
    bool sum;                   /* over rows, or linear in such sums */
    bool zero;                  /* of every degree */
    const struct growth *parts; /* of a tuple */
};

/* One function with so many rows, and with others. */
struct twins {
    struct fe *fe;
    int64_t rows[2];
    const struct ir_func *f[2];
    const ir_value *beside[2]; /* values that are to be the same in both */
    uint32_t besides;
    ir_value *twin; /* by value of f[0] */
    struct growth *growth;
    const char *why;
    uint32_t place;
    bool counted; /* a number of rows is in the results, which are others for another one */
};

struct operand {
    struct growth is;
    int32_t dim; /* along which there are rows; -1: there are none */
};

static bool compare(struct twins *, const struct growth *params, struct growth *results);

static bool fail(struct twins *t, ir_value v, const char *why)
{
    t->why = why, t->place = ir_get(t->f[0], v)->place;
    return false;
}

/* ---------------------------------------------------------------- numbers and extents */

static const struct ir_node *number_of(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    while (n->op == OP_broadcast || n->op == OP_reshape) n = ir_get(f, n->args[0]);
    return ir_is_number(n) ? n : NULL;
}

static double value_of(const struct ir_node *n) { return ir_element_get((enum ir_dtype)n->type.dtype, n->data, 0); }

static bool is_inverse(const struct ir_node *n, double x, double *of)
{
    if (!(x > 0 && x <= 1) || 1 / x > 9e15) return false;
    *of = floor(1 / x + 0.5);
    return ir_element_round((enum ir_dtype)n->type.dtype, 1 / *of) == x;
}

static bool number_growth(const struct twins *t, const struct ir_node *n, const struct ir_node *m, struct growth *g)
{
    double x = value_of(n), y = value_of(m), p, q;
    double from = (double)t->rows[0], to = (double)t->rows[1];
    *g = (struct growth){.zero = x == 0 && y == 0};
    if (n->type.dtype != m->type.dtype) return false;
    if (memcmp(n->data, m->data, ir_dtype_bytes((enum ir_dtype)n->type.dtype)) == 0) return true;
    if (fabs(x) < 9e15 / to && fabs(y) < 9e15 / from && x * to == y * from) return g->degree = 1, true;
    if (!is_inverse(n, x, &p) || !is_inverse(m, y, &q) || p * to != q * from) return false;
    return g->degree = -1, true;
}

static bool fail_number(struct twins *t, ir_value v, double x, double y)
{
    bool more = t->rows[0] > t->rows[1]; /* those of the first function */
    t->counted = true;
    return fail(t, v,
                arena_format(t->fe->arena,
                             "a number that counts rows, %.9g in microbatches of %lld and %.9g in those of %lld,",
                             more ? y : x, (long long)t->rows[more], more ? x : y, (long long)t->rows[!more]));
}

/* Random numbers (uint32) are those of the whole batch. */
static bool fail_numbers(struct twins *t, ir_value v, const struct ir_node *n, const struct ir_node *m)
{
    if (n->type.dtype == IR_U32) return fail(t, v, "a number that counts rows");
    return fail_number(t, v, value_of(n), value_of(m));
}

/* A number that divides: a power of two does so as a factor. */
static bool divisor(const struct ir_func *f, const struct ir_node *n, double *x)
{
    const struct ir_node *number = n->op == OP_div || n->op == OP_mul ? number_of(f, n->args[1]) : NULL;
    if (!number) return false;
    *x = value_of(number);
    return n->op == OP_div || is_inverse(number, *x, x);
}

/* Are the types the same but for one dimension that has rows? */
static bool type_rows(const struct twins *t, const struct ir_type *x, const struct ir_type *y, int32_t *dim)
{
    *dim = -1;
    if (x->dtype != y->dtype || x->rank != y->rank) return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        if (x->dim[d] == y->dim[d]) continue;
        int64_t each = x->dim[d] / t->rows[0];
        if (*dim >= 0 || x->dim[d] % t->rows[0] || y->dim[d] != each * t->rows[1]) return false;
        *dim = (int32_t)d;
    }
    return true;
}

static bool same_ints(struct ir_ints x, struct ir_ints y)
{
    return x.n == y.n && (!x.n || memcmp(x.v, y.v, x.n * sizeof *x.v) == 0);
}

static bool same_attributes(const struct ir_node *n, const struct ir_node *m)
{
    for (uint32_t i = 0; i < IR_MAX_ATTR; i++)
        if (!same_ints(n->attr[i], m->attr[i])) return false;
    return true;
}

/* Along `dim` a slice takes all, and elsewhere the same. */
static bool same_parts(const struct twins *t, const struct ir_node *n, const struct ir_node *m, int32_t dim)
{
    bool sized = n->op == OP_dynamic_slice;
    for (uint32_t d = 0; d < n->type.rank; d++) {
        int64_t x = ir_type(t->f[0], n->args[0])->dim[d], y = ir_type(t->f[1], m->args[0])->dim[d];
        if ((int32_t)d == dim) {
            if (n->type.dim[d] != x || m->type.dim[d] != y) return false;
        } else if (sized ? n->attr[0].v[d] != m->attr[0].v[d]
                         : n->attr[0].v[d] != m->attr[0].v[d] || n->attr[1].v[d] != m->attr[1].v[d] ||
                               n->attr[2].v[d] != m->attr[2].v[d])
            return false;
    }
    return true;
}

static bool listed(struct ir_ints list, int32_t dim)
{
    for (uint32_t i = 0; i < list.n; i++)
        if (list.v[i] == dim) return true;
    return false;
}

static int64_t before(const struct ir_type *x, int32_t dim)
{
    int64_t product = 1;
    for (int32_t d = 0; d < dim; d++) product *= x->dim[d];
    return product;
}

/* ---------------------------------------------------------------- what a node is */

static bool is_plain(struct growth x) { return x.degree == 0 && x.weight == 0 && !x.sum; }

/* Of sums: what was divided by the weight, and what is the same for all rows, is averaged alike. */
static bool join(struct growth x, struct growth y, struct growth *g)
{
    *g = x.zero || (is_plain(x) && y.weight == -1) ? y : x;
    g->sum = x.sum || y.sum;
    bool averaged = (x.weight == -1 && x.sum && is_plain(y)) || (y.weight == -1 && y.sum && is_plain(x));
    return x.zero || y.zero || (x.degree == y.degree && (x.weight == y.weight || averaged));
}

/* A body that is gone through for several rounds has only what is the same for any number of rows. */
static bool body(struct twins *t, ir_value v, const struct ir_node *n, const struct ir_node *m, const struct operand *x,
                 struct growth *g)
{
    const struct ir_module *module = t->f[0]->module;
    struct twins in = {.fe = t->fe, .rows = {t->rows[0], t->rows[1]}};
    in.f[0] = module->funcs.items[n->func], in.f[1] = module->funcs.items[m->func];
    struct growth *params = arena_new_array(t->fe->arena, struct growth, in.f[0]->params.count + 1);
    struct growth *results = arena_new_array(t->fe->arena, struct growth, in.f[0]->results.count + 1);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        if (n->op == OP_call) params[i] = x[i].is;
        else if (!is_plain(x[i].is)) return fail(t, v, "a loop over a sum over rows");
    }
    if (!compare(&in, params, results)) return t->why = in.why, t->place = in.place, t->counted = in.counted, false;
    for (size_t i = 0; n->op != OP_call && i < in.f[0]->results.count; i++)
        if (!is_plain(results[i])) return fail(t, v, "a sum over rows in every round of a loop");
    g->parts = results;
    return true;
}

static bool gradient(struct twins *t, ir_value v, const struct ir_node *n, const struct operand *x, struct growth *g)
{
    struct growth *parts = arena_new_array(t->fe->arena, struct growth, n->arg_count);
    for (uint32_t i = 1; i < n->arg_count; i++) {
        if (!is_plain(x[i].is) || x[i].dim >= 0) return fail(t, v, "a gradient by rows");
        parts[i - 1] = (struct growth){.degree = x[0].is.degree, .weight = x[0].is.weight, .sum = x[0].is.sum};
    }
    g->parts = parts;
    return true;
}

/* What moves elements, and sums of them. False: it is something else, or rows depend on each other. */
static bool moves(const struct twins *t, const struct ir_node *n, const struct ir_node *m, const struct operand *x,
                  int32_t dim, struct growth *g)
{
    bool same = same_attributes(n, m), rows = x[0].dim >= 0;
    *g = x[0].is;
    switch ((enum ir_op)n->op) {
    case OP_broadcast:
    case OP_transpose: return same;
    case OP_reshape:
        return rows == (dim >= 0) && (!rows || before(ir_type(t->f[0], n->args[0]), x[0].dim) == before(&n->type, dim));
    case OP_slice: return same_parts(t, n, m, x[0].dim);
    case OP_dynamic_slice:
        for (uint32_t i = 1; i < n->arg_count; i++)
            if (!is_plain(x[i].is)) return false;
        return same_parts(t, n, m, x[0].dim);
    case OP_reverse: return same && !listed(n->attr[0], x[0].dim);
    case OP_pad:
    case OP_extend:
        for (uint32_t i = 0; rows && i < 2; i++)
            if (n->attr[i].v[x[0].dim]) return false;
        if (n->op == OP_pad && rows && n->attr[2].v[x[0].dim]) return false;
        return same && (n->op == OP_extend || join(x[0].is, x[1].is, g));
    case OP_concat:
        for (uint32_t i = 0; i < n->arg_count; i++)
            if (!join(*g, x[i].is, g) || x[i].dim == n->attr[0].v[0]) return false;
        return same;
    case OP_take: return same && is_plain(x[1].is) && x[0].dim != n->attr[0].v[0];
    case OP_reduce_sum:
        if (!listed(n->attr[0], x[0].dim)) return same;
        g->degree++, g->sum = true;
        return same;
    default: return false;
    }
}

static bool product(const struct ir_node *n, const struct ir_node *m, const struct operand *x, struct growth *g)
{
    bool rows = n->op == OP_dot && listed(n->attr[2], x[0].dim);
    if ((x[0].is.sum && x[1].is.sum) || !same_attributes(n, m)) return false;
    *g = (struct growth){.degree = x[0].is.degree + x[1].is.degree + rows,
                         .weight = x[0].is.weight + x[1].is.weight,
                         .sum = x[0].is.sum || x[1].is.sum || rows,
                         .zero = x[0].is.zero || x[1].is.zero};
    return true;
}

static bool whole(const struct ir_node *n, const struct ir_node *m, const struct operand *x, int32_t dim)
{
    bool ewise = ir_is_ewise((enum ir_op)n->op), along = false;
    switch ((enum ir_op)n->op) {
    case OP_reduce_prod:
    case OP_reduce_max:
    case OP_reduce_min:
    case OP_argmax:
    case OP_argmin:
    case OP_cumulate:
    case OP_order: along = true; break;
    default: break;
    }
    for (uint32_t i = 0; i < n->arg_count; i++) {
        if (!is_plain(x[i].is)) return false;
        if (!ewise && x[i].dim >= 0 && !(along && !listed(n->attr[0], x[i].dim))) return false;
    }
    return same_attributes(n, m) && (ewise || along || dim < 0);
}

static bool growth_of(struct twins *t, const struct ir_node *n, const struct ir_node *m, const struct operand *x,
                      int32_t dim, struct growth *g)
{
    *g = (struct growth){0};
    switch ((enum ir_op)n->op) {
    case OP_constant:
        return dim < 0 && n->splat == m->splat &&
               memcmp(n->data, m->data,
                      ir_dtype_bytes((enum ir_dtype)n->type.dtype) *
                          (n->splat ? 1 : (size_t)ir_type_elements(&n->type))) == 0;
    case OP_iota: return same_attributes(n, m) && dim != n->attr[0].v[0];
    case OP_neg:
    case OP_stop_gradient:
    case OP_sharding_constraint: *g = x[0].is; return same_attributes(n, m);
    case OP_cast: *g = x[0].is; return ir_dtype_is_float((enum ir_dtype)n->type.dtype) || is_plain(x[0].is);
    case OP_add:
    case OP_sub: return join(x[0].is, x[1].is, g);
    case OP_select: return is_plain(x[0].is) && join(x[1].is, x[2].is, g);
    case OP_mul:
    case OP_dot: return product(n, m, x, g);
    case OP_div:
        *g = x[0].is;
        g->degree -= x[1].is.degree, g->weight -= x[1].is.weight;
        return !x[1].is.sum;
    case OP_proj: *g = x[0].is.parts[n->attr[0].v[0]]; return same_attributes(n, m);
    default: break;
    }
    struct growth moved;
    if (moves(t, n, m, x, dim, &moved)) return *g = moved, true;
    return whole(n, m, x, dim);
}

static bool node(struct twins *t, ir_value v)
{
    const struct ir_node *n = ir_get(t->f[0], v), *m = ir_get(t->f[1], t->twin[v]);
    struct operand *x = arena_new_array(t->fe->arena, struct operand, n->arg_count + 1u);
    struct growth *g = &t->growth[v];
    bool sum = false, tuple = n->type.dtype == IR_TUPLE;
    int32_t dim = -1;
    double p, q;
    if (!tuple && !type_rows(t, &n->type, &m->type, &dim)) return fail(t, v, "rows that depend on each other");
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct ir_type *a = ir_type(t->f[0], n->args[i]), *b = ir_type(t->f[1], m->args[i]);
        const struct ir_node *c = number_of(t->f[0], n->args[i]), *d = number_of(t->f[1], m->args[i]);
        x[i].dim = -1;
        if (a->dtype != IR_TUPLE && !type_rows(t, a, b, &x[i].dim)) return fail(t, v, "rows that depend on each other");
        if (!c || !d) x[i].is = t->growth[n->args[i]];
        else if (n->op == m->op && !number_growth(t, c, d, &x[i].is)) return fail_numbers(t, v, c, d);
        sum |= x[i].is.sum;
    }
    if (n->op == OP_param) return true; /* known */
    if (n->op == OP_call || n->op == OP_loop || n->op == OP_scan)
        return same_attributes(n, m) ? body(t, v, n, m, x, g) : fail(t, v, "a loop whose rounds rows number");
    if (n->op == OP_grad) return gradient(t, v, n, x, g);
    if (n->op != m->op) {
        if (!divisor(t->f[0], n, &p) || !divisor(t->f[1], m, &q))
            return fail(t, v, "what depends on the number of rows");
        if (p * (double)t->rows[1] != q * (double)t->rows[0]) return fail_number(t, v, p, q);
        *g = x[0].is;
        g->degree--;
        return true;
    }
    if (dim >= 0 && sum) return fail(t, v, "rows that depend on a sum over rows");
    if (growth_of(t, n, m, x, dim, g)) return true;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct ir_node *c = number_of(t->f[0], n->args[i]), *d = number_of(t->f[1], m->args[i]);
        if (c && d && x[i].is.degree) return fail_numbers(t, v, c, d);
    }
    return fail(t, v, "what is neither of one row nor linear in sums over rows");
}

/* ---------------------------------------------------------------- functions */

static bool pair(struct twins *t, ir_value v, ir_value with)
{
    if (number_of(t->f[0], v) && number_of(t->f[1], with)) return true;
    if (t->twin[v] && t->twin[v] != with) return fail(t, v, "what depends on the number of rows");
    t->twin[v] = with;
    return true;
}

static bool pair_operands(struct twins *t, ir_value v)
{
    const struct ir_node *n = ir_get(t->f[0], v), *m = ir_get(t->f[1], t->twin[v]);
    double number;
    bool scaled = divisor(t->f[0], n, &number) && divisor(t->f[1], m, &number);
    if ((n->op != m->op && !scaled) || n->arg_count != m->arg_count)
        return fail(t, v, "what depends on the number of rows");
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (!pair(t, n->args[i], m->args[i])) return false;
    return true;
}

static bool result_growth(struct twins *t, ir_value v, ir_value twin, struct growth *g)
{
    const struct ir_node *n = number_of(t->f[0], v), *m = number_of(t->f[1], twin);
    *g = t->growth[v];
    return !n || !m || number_growth(t, n, m, g) || fail_numbers(t, v, n, m);
}

/* Results, and values beside them that are the same for any number of rows. */
static bool pair_results(struct twins *t)
{
    for (size_t i = 0; i < t->f[0]->results.count; i++)
        if (!pair(t, t->f[0]->results.items[i].value, t->f[1]->results.items[i].value)) return false;
    for (uint32_t i = 0; i < t->besides; i++) {
        bool both = t->beside[0][i] && t->beside[1][i];
        if (both ? !pair(t, t->beside[0][i], t->beside[1][i]) : t->beside[0][i] || t->beside[1][i])
            return t->why = "what one microbatch hands to the next", false;
    }
    return true;
}

static bool compare(struct twins *t, const struct growth *params, struct growth *results)
{
    struct arena *a = t->fe->arena;
    const struct ir_func *f = t->f[0], *g = t->f[1];
    t->twin = arena_new_array(a, ir_value, f->count);
    t->growth = arena_new_array(a, struct growth, f->count);
    if (f->params.count != g->params.count || f->results.count != g->results.count) return t->why = "results", false;
    if (!pair_results(t)) return false;
    for (ir_value v = f->count; v-- > 1;)
        if (t->twin[v] && !pair_operands(t, v)) return false;
    for (size_t i = 0; i < f->params.count; i++) t->growth[f->params.items[i].value] = params[i];
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        if (!t->twin[v]) continue;
        if (n->op == OP_param && n->attr[0].v[0] != ir_get(g, t->twin[v])->attr[0].v[0])
            return fail(t, v, "what depends on the number of rows");
        if (!node(t, v)) return false;
    }
    for (size_t i = 0; i < f->results.count; i++)
        if (!result_growth(t, f->results.items[i].value, g->results.items[i].value, &results[i])) return false;
    for (uint32_t i = 0; i < t->besides; i++) {
        struct growth is = {0};
        if (!t->beside[0][i]) continue;
        if (!result_growth(t, t->beside[0][i], t->beside[1][i], &is)) return false;
        if (!is_plain(is)) return fail(t, t->beside[0][i], "what one microbatch hands to the next");
    }
    return true;
}

/* A sum over one row is the row, so that a trace of it does not show which values are sums. */
bool fe_step_of_single_rows(const struct fe_step *s)
{
    return s->accumulate.rows == 1 && s->accumulate.microbatches > 1;
}

int64_t fe_step_regrouped(const struct fe_step *s, bool clipped)
{
    const struct fe_accumulation *a = &s->accumulate;
    int64_t batch = a->rows * a->microbatches, count = 1;
    bool plainly = !clipped && !a->real && !s->examples.json && !s->examples.asked;
    if (!s->fe->options->invariant || !plainly) return a->rows;
    if (!(a->microbatches & (a->microbatches - 1))) return fe_step_of_single_rows(s) ? 2 : a->rows;
    while (count < a->microbatches && batch / ir_leaf(batch, 1) % (2 * count) == 0) count *= 2;
    return batch / count;
}

/* Do both parts give the same sums and means of a batch? Else t->why says what is not, and `known` whether it is shown
 * that it depends on the number of parts. */
static bool same_results(struct fe_step *s, const struct fe_rows_part *asked, const struct fe_rows_part *made,
                         struct twins *t, bool *known)
{
    *t = (struct twins){.fe = s->fe, .rows = {asked->rows.count, made->rows.count}, .f = {asked->b.f, made->b.f}};
    struct growth *params = arena_new_array(s->fe->arena, struct growth, t->f[0]->params.count + 1);
    struct growth *results = arena_new_array(s->fe->arena, struct growth, t->f[0]->results.count + 1);
    *known = false;
    for (size_t i = 0; s->accumulate.weight && i < t->f[0]->params.count; i++)
        if (t->f[0]->params.items[i].value == asked->extra) params[i] = (struct growth){.degree = 1, .weight = 1};
    if (made->trace.statistics) /* counters of random numbers */
        t->beside[0] = asked->trace.statistics, t->beside[1] = made->trace.statistics, t->besides = s->param_count;
    if (asked->kinds.count != made->kinds.count || !compare(t, params, results)) return false;
    for (size_t i = 0; i < asked->kinds.count; i++) {
        const struct ir_result *of[] = {&t->f[0]->results.items[i], &t->f[1]->results.items[i]};
        int64_t kind = asked->kinds.items[i];
        int32_t dim;
        type_rows(t, ir_type(t->f[0], of[0]->value), ir_type(t->f[1], of[1]->value), &dim);
        bool weighs = s->accumulate.weight && kind == FE_MEAN && !is_plain(results[i]), any = results[i].zero;
        bool divided = any || results[i].weight == (weighs ? -1 : 0);
        bool fits = divided && (any || results[i].degree == (kind == FE_SUM));
        if (kind == FE_CONCATENATE) fits &= dim == 0 && !results[i].sum;
        else fits &= (kind == FE_SUM || kind == FE_MEAN) && dim < 0;
        if (fits) continue;
        *known = kind != FE_CONCATENATE && dim < 0;
        t->why = arena_format(s->fe->arena, "\"%s\" is no %s over rows%s", of[0]->name, kind == FE_SUM ? "sum" : "mean",
                              divided ? "" : " by the weight");
        return false;
    }
    return true;
}

/* Why, and where that is known. */
static const char *reason(const struct fe_step *s, const struct twins *t)
{
    const char *at = t->place && t->place < s->module->places.count ? s->module->places.items[t->place].pointer : NULL;
    return arena_format(s->fe->arena, "%s%s%s", t->why ? t->why : "results", at ? " at " : "", at ? at : "");
}

const char *fe_step_scales(struct fe_step *s, const struct fe_rows_part *one, const struct fe_rows_part *other,
                           const char **hint)
{
    struct twins t;
    bool known;
    if (same_results(s, one, other, &t, &known) || !(known || t.counted)) return NULL;
    if (t.counted) *hint = "x.shape[0] is that of a microbatch; a number that is written out is the same for all";
    return reason(s, &t);
}

bool fe_step_depends(struct fe_step *s, fe_json json, const char *what)
{
    struct diag *d = fe_error(s->fe, json, "E0434", "--numerics invariant: %s", what);
    d->hint = arena_format(s->fe->arena,
                           "any number of microbatches gives sums%s; --numerics mesh-invariant keeps the bits on every "
                           "mesh for this number of them",
                           s->accumulate.weight ? " over rows divided by their \"weight\"" : " and means over rows");
    return false;
}

bool fe_step_grows_alike(struct fe_step *s, const struct fe_rows_part *asked, const struct fe_rows_part *made)
{
    struct twins t;
    bool known;
    if (same_results(s, asked, made, &t, &known)) return true;
    bool power = !(s->accumulate.microbatches & (s->accumulate.microbatches - 1)); /* of a weight, or single rows */
    return fe_step_depends(s, s->accumulate.json,
                           arena_format(s->fe->arena, "%s: %s", reason(s, &t),
                                        power ? "that depends on the number of microbatches"
                                              : "the number of microbatches can at best be a power of two"));
}
