/* Attention by tiles: scores (rows of queries, columns of keys) that only element-wise work, the softmax along their
 * rows and contractions over rows or columns read are never stored; each group makes the tiles that it needs. The
 * softmax's maximum and sum, which the gradient reads, are stored, and one group makes them with the values they
 * weight (Milakov and Gimelshein 2018, Dao et al. 2022). Everything about masks, biases, dropout and dtypes is
 * element-wise work like any other, so nothing here knows of it.
 *
 * Found are products `scores = dot(q, k)`, small in what they contract, with
 *   z: element-wise from scores;  m = max(z), e = exp(z - m), l = sum(e) over columns;  x: e / l times factors;
 *   o = dot(x, v) over columns
 * and, in the gradient, contractions over rows or columns of what is element-wise from scores and other such products.
 * If anything else reads such a value, it is stored and all stays as it is. */
#include "passes/fuse.h"
#include <string.h>

enum { LEAST_SIDE = 64, LEAST_SCORES = 1 << 16, MOST_DEPTH = 256, MOST_FACTORS = 24, LEAST_BATCH = 4 };

/* ---------------------------------------------------------------- shapes */

/* Scores that are worth it: storing them takes more than making them again. */
static bool is_large(const struct plan_scores *s)
{
    int64_t side = s->rows < s->columns ? s->rows : s->columns;
    return side >= LEAST_SIDE && s->batch * s->rows * s->columns >= LEAST_SCORES && s->depth <= MOST_DEPTH &&
           2 * s->depth <= side;
}

static bool same_shape(const struct ir_type *x, const struct ir_type *y)
{
    return x->rank == y->rank && !memcmp(x->dim, y->dim, sizeof x->dim);
}

/* ---------------------------------------------------------------- the softmax */

static ir_value without_casts(const struct ir_func *f, ir_value v)
{
    while (ir_get(f, v)->op == OP_cast && ir_dtype_is_float((enum ir_dtype)ir_type(f, ir_get(f, v)->args[0])->dtype))
        v = ir_get(f, v)->args[0];
    return v;
}

/* What one number per row is repeated from: `rows` leading dimensions, which stay where they are. 0: it is no such. */
static ir_value repeated(const struct ir_func *f, ir_value v, uint32_t rows)
{
    const struct ir_node *n = ir_get(f, v = without_casts(f, v));
    if (n->op != OP_broadcast) return 0;
    const struct ir_type *from = ir_type(f, n->args[0]);
    for (uint32_t i = 0; i < from->rank; i++)
        if (n->attr[0].v[i] != i || from->dim[i] != (i < rows ? n->type.dim[i] : 1)) return 0;
    if (from->rank < rows) return 0;
    v = n->args[0];
    while ((ir_get(f, v)->op == OP_reshape || ir_get(f, v)->op == OP_cast || ir_get(f, v)->op == OP_stop_gradient))
        v = ir_get(f, v)->args[0];
    return v;
}

/* Over all dimensions from `first` on? */
static bool over_columns(const struct ir_node *reduce, uint32_t first, uint32_t rank)
{
    if (reduce->attr[0].n != rank - first) return false;
    for (uint32_t i = 0; i < reduce->attr[0].n; i++)
        if (reduce->attr[0].v[i] != first + i) return false;
    return true;
}

struct softmax {
    ir_value sum, max, exp;
};

static bool find_softmax(const struct ir_func *f, ir_value sum, struct softmax *s)
{
    const struct ir_node *l = ir_get(f, sum);
    if (l->op != OP_reduce_sum || l->attr[1].n || !l->attr[0].n) return false;
    uint32_t rows = (uint32_t)l->attr[0].v[0];
    *s = (struct softmax){.sum = sum, .exp = without_casts(f, l->args[0])};
    const struct ir_node *e = ir_get(f, s->exp);
    if (e->op != OP_exp || !over_columns(l, rows, e->type.rank)) return false;
    const struct ir_node *d = ir_get(f, without_casts(f, e->args[0]));
    if (d->op != OP_sub) return false;
    s->max = repeated(f, d->args[1], rows);
    const struct ir_node *m = s->max ? ir_get(f, s->max) : NULL;
    return m && m->op == OP_reduce_max && over_columns(m, rows, e->type.rank) &&
           without_casts(f, m->args[0]) == without_casts(f, d->args[0]);
}

/* ---------------------------------------------------------------- factors */

/* A value as a product: what is multiplied, what it is divided by; select(c, x, 0) is x times c. */
struct factors {
    ir_value over[MOST_FACTORS], under[MOST_FACTORS];
    uint32_t overs, unders;
    bool negative, full;
};

static void add_factors(const struct ir_func *f, ir_value v, bool under, struct factors *out)
{
    if (out->full) return; /* squares of squares have no end */
    v = without_casts(f, v);
    const struct ir_node *n = ir_get(f, v);
    if (n->op == OP_neg) {
        out->negative = !out->negative;
        add_factors(f, n->args[0], under, out);
    } else if (n->op == OP_mul || n->op == OP_div) {
        add_factors(f, n->args[0], under, out);
        add_factors(f, n->args[1], under != (n->op == OP_div), out);
    } else if (n->op == OP_select && !under && pass_is_zero(f, n->args[2])) {
        add_factors(f, n->args[1], under, out);
        add_factors(f, n->args[0], under, out);
    } else if (out->overs + out->unders == MOST_FACTORS) {
        out->full = true;
    } else {
        if (under) out->under[out->unders++] = v;
        else out->over[out->overs++] = v;
    }
}

static bool is_same(const ir_value *numbers, ir_value x, ir_value y)
{
    return x == y || (numbers && numbers[x] && numbers[x] == numbers[y]);
}

static bool take(const ir_value *numbers, ir_value *list, uint32_t *count, ir_value v)
{
    for (uint32_t i = 0; i < *count; i++)
        if (is_same(numbers, list[i], v)) {
            list[i] = list[--*count];
            return true;
        }
    return false;
}

/* ---------------------------------------------------------------- sums of gradients along rows */

/* sum over columns of c x dot(g, v), where o = dot(x, v) over columns: that is c sum(g o), over what v adds. */
struct rewriting {
    struct ir_builder *b;
    const struct ir_func *f;
    const ir_value *map;
};

/* g as o lies: its batch and rows, then what is contracted, in the order of o. 0: not to be had. */
static ir_value laid_as(struct rewriting *w, const struct ir_node *dp, const struct ir_node *o)
{
    const struct ir_type *g = ir_type(w->f, dp->args[0]), *v = ir_type(w->f, dp->args[1]);
    int64_t perm[IR_MAX_RANK];
    bool used[IR_MAX_RANK] = {false};
    uint32_t n = 0;
    for (uint32_t i = 0; i < dp->attr[0].n; i++) used[perm[n++] = dp->attr[0].v[i]] = true;
    for (uint32_t i = 0; i < dp->attr[2].n; i++) used[dp->attr[2].v[i]] = true;
    for (uint32_t i = 0; i < g->rank; i++)
        if (!used[i]) perm[n++] = i;
    for (uint32_t i = 0; i < v->rank; i++) /* what is left of v in o, in its order */
        for (uint32_t j = 0; j < dp->attr[3].n; j++)
            if (dp->attr[3].v[j] == i) perm[n++] = dp->attr[2].v[j];
    if (n != g->rank || n != o->type.rank) return 0;
    for (uint32_t i = 0; i < n; i++)
        if (g->dim[perm[i]] != o->type.dim[i]) return 0;
    return ir_transpose(w->b, w->map[dp->args[0]], perm);
}

/* o = dot(x, v), x on the left: over the columns that dp = dot(g, v) has, batches alike. */
static bool is_weighted(const struct ir_func *f, const struct ir_node *o, const struct ir_node *dp,
                        const struct plan_scores *s, const ir_value *numbers)
{
    if (o->op != OP_dot || o->attr[4].n || o->attr[5].n || o->attr[6].n || !is_same(numbers, o->args[1], dp->args[1]) ||
        o->attr[0].n != s->batches || o->attr[1].n != dp->attr[1].n || !same_shape(ir_type(f, o->args[0]), &dp->type))
        return false;
    for (uint32_t i = 0; i < s->batches; i++)
        if (o->attr[0].v[i] != i || o->attr[1].v[i] != dp->attr[1].v[i]) return false;
    for (uint32_t i = 0; i < o->attr[2].n; i++)
        if (o->attr[2].v[i] != s->batches + s->row_dims + i) return false;
    for (uint32_t i = 0; i < o->attr[3].n; i++) { /* the columns of v in their order, none of which dp contracts */
        for (uint32_t j = 0; j < dp->attr[3].n; j++)
            if (o->attr[3].v[i] == dp->attr[3].v[j]) return false;
        if (i && o->attr[3].v[i] <= o->attr[3].v[i - 1]) return false;
    }
    return o->attr[2].n == dp->type.rank - s->batches - s->row_dims;
}

ir_value fuse_gradient_sum(struct ir_builder *b, const struct ir_func *f, ir_value old, const ir_value *map,
                           const ir_value *numbers)
{
    const struct ir_node *r = ir_get(f, old);
    struct rewriting w = {b, f, map};
    struct factors sum = {.overs = 0};
    struct plan_scores s;
    ir_value dp = 0;
    if (r->op != OP_reduce_sum || r->attr[1].n || !r->attr[0].n || r->type.rank == 0) return 0;
    add_factors(f, r->args[0], false, &sum);
    for (uint32_t i = 0; i < sum.overs; i++)
        if (ir_get(f, sum.over[i])->op == OP_dot) dp = dp ? UINT32_MAX : sum.over[i];
    if (sum.full || !dp || dp == UINT32_MAX || !plan_scores_of(f, dp, &s) || !is_large(&s)) return 0;
    const struct ir_node *product = ir_get(f, dp);
    if (!same_shape(&product->type, ir_type(f, r->args[0])) ||
        !over_columns(r, s.batches + s.row_dims, product->type.rank))
        return 0;
    take(NULL, sum.over, &sum.overs, dp);
    for (ir_value o = old; o-- > 1;) { /* the last one: what is made again is nearer */
        const struct ir_node *node = ir_get(f, o);
        struct factors x = {.overs = 0}, rest = sum;
        if (!map[o] || !is_weighted(f, node, product, &s, numbers)) continue;
        add_factors(f, node->args[0], false, &x);
        bool all = !x.full;
        for (uint32_t i = 0; i < x.overs; i++) all = all && take(numbers, rest.over, &rest.overs, x.over[i]);
        for (uint32_t i = 0; i < x.unders; i++) all = all && take(numbers, rest.under, &rest.unders, x.under[i]);
        for (uint32_t i = 0; i < rest.overs + rest.unders; i++) {
            ir_value v = i < rest.overs ? rest.over[i] : rest.under[i - rest.overs];
            all = all && (ir_is_number(ir_get(f, v)) || repeated(f, v, r->type.rank));
        }
        ir_value g = all ? laid_as(&w, product, node) : 0;
        if (!g) continue;
        enum ir_dtype dtype = (enum ir_dtype)r->type.dtype;
        int64_t dims[IR_MAX_RANK];
        for (uint32_t i = r->type.rank; i < node->type.rank; i++) dims[i - r->type.rank] = i;
        ir_value result = ir_binary(b, OP_mul, ir_cast(b, g, dtype), ir_cast(b, map[o], dtype));
        result = ir_reduce_plain(b, OP_reduce_sum, result, dims, node->type.rank - r->type.rank);
        for (uint32_t i = 0; i < rest.overs + rest.unders; i++) {
            ir_value v = i < rest.overs ? rest.over[i] : rest.under[i - rest.overs], by;
            double number;
            if (pass_number(f, v, &number)) by = ir_number(b, r->type, number);
            else by = ir_cast(b, ir_reshape(b, map[repeated(f, v, r->type.rank)], r->type.rank, r->type.dim), dtype);
            result = ir_binary(b, i < rest.overs ? OP_mul : OP_div, result, by);
        }
        return sum.negative != x.negative ? ir_unary(b, OP_neg, result) : result;
    }
    return 0;
}

bool fuse_is_gradient_sum(const struct ir_func *f, const struct ir_node *r)
{
    struct factors sum = {.overs = 0};
    struct plan_scores s;
    if (r->op != OP_reduce_sum || r->attr[1].n || !r->attr[0].n || r->type.rank == 0) return false;
    add_factors(f, r->args[0], false, &sum);
    for (uint32_t i = 0; i < sum.overs; i++)
        if (ir_get(f, sum.over[i])->op == OP_dot && plan_scores_of(f, sum.over[i], &s) && is_large(&s)) return true;
    return false;
}

/* ---------------------------------------------------------------- which values are never stored */

struct search {
    struct fuse *z; /* NULL: nothing is stored yet */
    const struct ir_func *f;
    struct arena *arena;
    const bool *live;
    struct softmax *softmax;  /* by value: of a sum; sum = 0: it is none */
    bool *stat;               /* by value: the sum or the maximum of a softmax */
    bool *tile;               /* by value: made where it is needed */
    bool *anchored;           /* by value: follows from scores whose softmax weights something */
    bool *kept;               /* by value: something else needs it whole */
    ir_value *scores;         /* by value: the first product it is element-wise from; 0: none */
    struct fuse_scores **all; /* by value: all of these; shared, NULL: none */
    bool *statistical;        /* by value: element-wise from the sum or the maximum of any softmax */
    int64_t least;            /* elements of the smallest row times column */
};

/* A contraction of one tile's rows or columns with something stored; `from`: the operand that is made in tiles. */
static enum fuse_sink sink_of(const struct search *a, ir_value v, ir_value *from)
{
    const struct ir_func *f = a->f;
    const struct ir_node *n = ir_get(f, v);
    struct plan_scores s;
    if (n->op != OP_dot || n->attr[4].n || n->attr[5].n || n->attr[6].n ||
        (a->scores[n->args[0]] && a->scores[n->args[1]]))
        return FUSE_SINK_NONE;
    uint32_t side = a->scores[n->args[0]] ? 0 : 1;
    *from = n->args[side];
    if (!a->scores[*from] || !plan_scores_of(f, a->scores[*from], &s)) return FUSE_SINK_NONE;
    const struct ir_ints *batch = &n->attr[side], *dims = &n->attr[2 + side];
    uint32_t rank = ir_type(f, *from)->rank, columns = s.batches + s.row_dims;
    if (batch->n != s.batches || !dims->n) return FUSE_SINK_NONE;
    uint32_t first = dims->v[0] == columns ? columns : s.batches, end = first == columns ? rank : columns;
    for (uint32_t i = 0; i < batch->n; i++)
        if (batch->v[i] != i) return FUSE_SINK_NONE;
    for (uint32_t i = 0; i < dims->n; i++)
        if (dims->n != end - first || dims->v[i] != first + i) return FUSE_SINK_NONE;
    int64_t lanes = s.batch * (first == columns ? s.rows : s.columns);
    if (ir_type_elements(&n->type) > lanes * MOST_DEPTH) return FUSE_SINK_NONE;
    return first == columns ? FUSE_SINK_ROWS : FUSE_SINK_COLUMNS;
}

/* The sum of the softmax that makes the weights `x`, one factor of which it divides. 0: there is none. */
static ir_value weights_of(const struct search *a, ir_value x)
{
    const struct ir_func *f = a->f;
    struct factors p = {.overs = 0};
    struct plan_scores s;
    ir_value sum = 0;
    uint32_t made = 0, read = 0;
    add_factors(f, x, false, &p);
    if (p.full || !plan_scores_of(f, a->scores[x], &s)) return 0;
    for (uint32_t i = 0; i < p.unders && !sum; i++) {
        ir_value l = repeated(f, p.under[i], s.batches + s.row_dims);
        if (l && a->softmax[l].sum) sum = l;
    }
    for (uint32_t i = 0; i < p.overs + p.unders; i++) { /* while it is made, maximum and sum are not known yet */
        ir_value v = i < p.overs ? p.over[i] : p.under[i - p.overs];
        made += a->scores[v] != 0;
        read += a->statistical[v] && v != (sum ? a->softmax[sum].exp : 0);
    }
    return sum && made == 1 && read == 1 && take(NULL, p.over, &p.overs, a->softmax[sum].exp) ? sum : 0;
}

static void add_scores(struct fuse_scores *to, const struct fuse_scores *more)
{
    for (uint32_t i = 0; i < more->n; i++) {
        uint32_t k = 0;
        while (k < to->n && to->v[k] != more->v[i]) k++;
        if (k < to->n) continue;
        if (to->n == PLAN_MOST_SCORES) to->full = true;
        else to->v[to->n++] = more->v[i];
    }
}

/* All products that `v` is made from. What would take more than a group has place for is stored. */
static void collect(struct search *a, ir_value v)
{
    const struct ir_node *n = ir_get(a->f, v);
    struct fuse_scores *all = NULL;
    bool own = a->scores[v] == v;
    if (own) {
        all = arena_new(a->arena, struct fuse_scores);
        all->v[all->n++] = v;
    }
    for (uint32_t i = 0; i < n->arg_count && !own && a->scores[v]; i++) {
        const struct fuse_scores *more = a->all[n->args[i]];
        if (!more || more == all) continue;
        struct fuse_scores both = all ? *all : *more;
        if (all) add_scores(&both, more);
        if (both.full) {
            a->scores[v] = 0, a->kept[v] = true, all = NULL;
            break;
        }
        if (!all || both.n > all->n) {
            all = both.n == more->n ? a->all[n->args[i]] : arena_new(a->arena, struct fuse_scores);
            if (both.n != more->n) *all = both;
        }
    }
    a->all[v] = all;
}

/* What is element-wise from such products, and which softmax weights something. */
static void follow(struct search *a)
{
    const struct ir_func *f = a->f;
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        struct plan_scores s, other;
        a->scores[v] = 0;
        a->anchored[v] = false;
        if (!a->live[v] || a->kept[v]) continue;
        if (plan_scores_of(f, v, &s) && is_large(&s)) a->scores[v] = v;
        bool fits = ir_is_ewise((enum ir_op)n->op);
        for (uint32_t i = 0; i < n->arg_count && fits; i++) {
            ir_value from = a->scores[n->args[i]];
            if (!from) continue;
            fits = same_shape(&n->type, ir_type(f, from)) && plan_scores_of(f, from, &s) &&
                   (!a->scores[v] || (plan_scores_of(f, a->scores[v], &other) && other.batches == s.batches &&
                                      other.row_dims == s.row_dims));
            if (!a->scores[v] || from < a->scores[v]) a->scores[v] = from;
        }
        if (!fits && a->scores[v] != v) a->scores[v] = 0;
        collect(a, v);
    }
    for (ir_value v = 1; v < f->count; v++) {
        ir_value from, sum = 0;
        if (a->live[v] && sink_of(a, v, &from) == FUSE_SINK_ROWS) sum = weights_of(a, from);
        if (sum) a->anchored[a->scores[a->softmax[sum].exp]] = true;
    }
    for (ir_value v = 1; v < f->count; v++)
        for (uint32_t i = 0; i < ir_get(f, v)->arg_count && a->scores[v] && a->scores[v] != v; i++)
            a->anchored[v] = a->anchored[v] || a->anchored[ir_get(f, v)->args[i]];
}

static bool accepts(const struct search *a, ir_value user, ir_value v)
{
    const struct ir_func *f = a->f;
    struct plan_scores s;
    ir_value from = 0;
    if (!a->anchored[v]) return false;
    if (a->stat[user])
        return plan_scores_of(f, a->scores[v], &s) && ir_get(f, user)->attr[0].v[0] == s.batches + s.row_dims;
    return sink_of(a, user, &from) != FUSE_SINK_NONE && from == v;
}

/* Takes out what is read elsewhere, from users to what they read. True: scores are among it, and it is to be done
 * again. */
static bool settle(struct search *a)
{
    const struct ir_func *f = a->f;
    bool changed = false;
    for (ir_value v = 1; v < f->count; v++) {
        const struct fuse_node *n = &a->z->node[v];
        bool made = (n->class == FUSE_EWISE || n->class == FUSE_VIEW) && n->elements >= a->least;
        a->tile[v] = n->live && !a->kept[v] && (a->scores[v] || (made && n->uses));
    }
    for (ir_value u = f->count; u-- > 1;)
        for (uint32_t i = 0; i < ir_get(f, u)->arg_count && a->live[u]; i++) {
            ir_value v = ir_get(f, u)->args[i];
            if (a->tile[u] && (a->scores[u] || !a->scores[v])) continue;
            if (!a->tile[v] || (!a->tile[u] && a->scores[v] && accepts(a, u, v))) continue;
            a->tile[v] = false;
            a->kept[v] = a->scores[v] != 0;
            changed |= a->kept[v];
        }
    return changed;
}

static void assign(struct search *a)
{
    const struct ir_func *f = a->f;
    for (ir_value v = 1; v < f->count; v++) {
        struct fuse_node *n = &a->z->node[v];
        ir_value from = 0;
        n->tile = a->tile[v];
        if (!n->live || n->tile) continue;
        enum fuse_sink sink = sink_of(a, v, &from);
        if (a->stat[v] && a->tile[ir_get(f, v)->args[0]]) sink = FUSE_SINK_STAT, from = ir_get(f, v)->args[0];
        if (sink == FUSE_SINK_NONE || !a->tile[from]) continue;
        n->sink = (uint8_t)sink;
        n->scores = a->scores[from];
        n->all = a->all[from];
        if (sink == FUSE_SINK_STAT && a->softmax[v].sum) n->beside = a->softmax[v].max;
        else if (sink == FUSE_SINK_ROWS) n->beside = weights_of(a, from);
    }
}

/* False: the function has no scores. */
static bool begin(struct search *a)
{
    const struct ir_func *f = a->f;
    a->least = INT64_MAX;
    a->softmax = arena_new_array(a->arena, struct softmax, f->count);
    a->stat = arena_new_array(a->arena, bool, f->count);
    a->tile = arena_new_array(a->arena, bool, f->count);
    a->anchored = arena_new_array(a->arena, bool, f->count);
    a->kept = arena_new_array(a->arena, bool, f->count);
    a->scores = arena_new_array(a->arena, ir_value, f->count);
    a->all = arena_new_array(a->arena, struct fuse_scores *, f->count);
    a->statistical = arena_new_array(a->arena, bool, f->count);
    for (ir_value v = 1; v < f->count; v++) {
        struct plan_scores s;
        struct softmax softmax;
        if (!a->live[v]) continue;
        if (plan_scores_of(f, v, &s) && is_large(&s) && s.rows * s.columns < a->least) a->least = s.rows * s.columns;
        if (find_softmax(f, v, &softmax) && !a->stat[softmax.max]) { /* of one maximum one sum */
            a->softmax[v] = softmax;
            a->stat[softmax.sum] = a->stat[softmax.max] = true;
        }
    }
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        enum ir_emit emit = (enum ir_emit)ir_ops[n->op].emit;
        bool inside = emit == EMIT_view || emit == EMIT_index || ir_is_ewise((enum ir_op)n->op);
        for (uint32_t i = 0; i < n->arg_count && inside; i++)
            a->statistical[v] |= a->stat[n->args[i]] || a->statistical[n->args[i]];
    }
    return a->least != INT64_MAX;
}

void fuse_find_attention(struct fuse *z)
{
    bool *live = arena_new_array(z->arena, bool, z->f->count);
    struct search a = {.z = z, .f = z->f, .arena = z->arena, .live = live};
    for (ir_value v = 1; v < z->f->count; v++) live[v] = z->node[v].live;
    if (!begin(&a)) return;
    for (ir_value v = 1; v < z->f->count; v++) a.kept[v] = z->node[v].needs_buffer;
    do follow(&a);
    while (settle(&a));
    assign(&a);
}

bool *fuse_mark_attention(const struct ir_func *f, bool readers, struct arena *arena)
{
    struct search a = {.f = f, .arena = arena, .live = ir_live(f, arena)};
    bool *mark = arena_new_array(arena, bool, f->count);
    if (!begin(&a)) return mark;
    follow(&a);
    for (ir_value v = 1; v < f->count; v++) {
        ir_value from;
        for (uint32_t i = 0; a.anchored[v] && a.all[v] && i < a.all[v]->n; i++) mark[a.all[v]->v[i]] = true;
        mark[v] |= a.anchored[v] ||
                   (readers && a.live[v] && sink_of(&a, v, &from) != FUSE_SINK_NONE && a.anchored[from]);
    }
    return mark;
}

/* ---------------------------------------------------------------- groups */

/* Contractions over rows and over columns make each tile once between them, if there are enough batches for workers:
 * all blocks of one are a worker's then. A GPU has more blocks than that: each tile's rows, and its columns, are one's.
 */
static bool go_together(const struct fuse *z, const struct fuse_cluster *k, ir_value v)
{
    struct plan_scores s;
    bool fits = !z->pass->options->blocks && plan_scores_of(z->f, z->node[v].scores, &s) && s.batch >= LEAST_BATCH;
    for (size_t i = 0; i <= k->nodes.count && fits; i++) {
        ir_value sink = i < k->nodes.count ? k->nodes.items[i] : v;
        fits = z->node[sink].sink != FUSE_SINK_ROWS || z->node[ir_get(z->f, sink)->args[0]].tile;
    }
    return fits;
}

/* Has the group place for it? */
static bool has_place(const struct fuse *z, const struct fuse_cluster *k, const struct fuse_node *n)
{
    struct fuse_scores all = *n->all;
    uint32_t sinks = n->sink != FUSE_SINK_STAT;
    for (size_t i = 0; i < k->nodes.count; i++) {
        if (!z->node[k->nodes.items[i]].sink) continue; /* one of them, rounded */
        add_scores(&all, z->node[k->nodes.items[i]].all);
        sinks += z->node[k->nodes.items[i]].sink != FUSE_SINK_STAT;
    }
    return !all.full && sinks <= PLAN_MOST_SINKS;
}

/* Sums and what they weight go with the maximum; other contractions with one that walks the same tiles. */
uint32_t fuse_cluster_of_tiles(struct fuse *z, ir_value v)
{
    const struct fuse_node *n = &z->node[v];
    uint32_t c = n->beside ? fuse_find(z, z->node[n->beside].cluster) : UINT32_MAX;
    if (c != UINT32_MAX && (fuse_needs(z, v, c) || !has_place(z, &z->clusters.items[c], n))) c = UINT32_MAX;
    for (uint32_t i = 0; i < z->clusters.count && !n->beside && n->sink != FUSE_SINK_STAT; i++) {
        const struct fuse_cluster *k = &z->clusters.items[i];
        const struct fuse_node *first = k->kind == GROUP_ATTENTION ? &z->node[k->nodes.items[0]] : NULL;
        if (first && first->sink != FUSE_SINK_STAT && !first->beside && first->scores == n->scores &&
            has_place(z, k, n) && (first->sink == n->sink || go_together(z, k, v)) && !fuse_needs(z, v, i))
            c = i;
    }
    return c;
}
