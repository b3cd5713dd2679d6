/* The gradient of a scan is a scan the other way round (Griewank and Walther 2008, chapter 6): the forward one is given
 * a body that also stacks what the backward one reads of every row, unless that is cheap to compute again; the backward
 * one carries the cotangents of what is carried and sums the gradients of what all rows share. Where such a gradient is
 * a product or a sum of values that are stacked anyway, there is one over all rows behind the scan instead. Both are
 * scans again, so gradients of gradients need nothing else. */
#include "passes/vjp.h"
#include <string.h>

enum { MANY_TERMS = 4096 };
enum how {
    UNDECIDED,
    GIVEN /* parameters of the backward body, numbers */,
    SAVED,
    AGAIN /* computed from its operands */
};

/* A scan taken apart: operands are carried.., stacked.., captured.., as are the parameters of its body. */
struct scan {
    const struct ir_func *body;
    uint32_t carried, stacked, results;
    int64_t times;
    bool reverse;
};

/* A gradient that may be made behind the scan: `base`, a product or a sum, of stacked operands, then `view`s of it. */
struct hoisted {
    uint32_t operand;
    ir_value term, base, x[2], stacked[2];
    uint32_t made[2]; /* result of the backward body + 1 */
    VEC(ir_value) views;
};

struct reverse {
    struct vjp *c;
    struct scan s;
    struct ir_node node; /* a copy: building moves the function's nodes */
    const ir_value *cts; /* per result: cotangent, 0 = none */
    bool *active;        /* per operand: has a gradient; of what is carried, a cotangent to carry */
    struct ir_func *f;   /* one row, forward and backward: (the body's parameters.., cotangents of its results..) */
    uint32_t forward;    /* its nodes before this one are the row's own */
    ir_value *in, *y, *ct, *grad;       /* in f: per operand, per result, per result, per operand */
    uint8_t *how;                       /* per value of f: enum how */
    bool *free, *varies;                /* ... cheap to compute from what is given; differs from row to row */
    uint32_t *saved;                    /* ... SAVED: result of the forward body */
    VEC(ir_value) saves;                /* new results of the forward body */
    VEC(ir_value) * sums;               /* per operand: terms that the backward scan adds up */
    VEC(struct hoisted) terms, hoisted; /* of all; those behind the scan */
};

static struct arena *scratch_of(struct reverse *r) { return &r->c->pass->scratch; }

static bool is_float(const struct ir_func *f, ir_value v)
{
    return ir_dtype_is_float((enum ir_dtype)ir_type(f, v)->dtype);
}

static uint32_t operands(const struct reverse *r) { return r->node.arg_count; }

/* ---------------------------------------------------------------- what has a gradient */

static bool carries(const struct ir_func *f, ir_value v) { return is_float(f, v) || ir_type(f, v)->dtype == IR_TUPLE; }

/* What is carried depends on what is wanted if it does after some row, and matters if it does for some later one. */
static void find_active(struct reverse *r)
{
    const struct ir_func *body = r->s.body;
    uint32_t n = operands(r), carried = r->s.carried;
    bool *wanted = arena_new_array(scratch_of(r), bool, n + 1), *matters = arena_new_array(scratch_of(r), bool, n + 1),
         *alive = arena_new_array(scratch_of(r), bool, r->s.results + 1),
         *from = arena_new_array(scratch_of(r), bool, body->count),
         *to = arena_new_array(scratch_of(r), bool, body->count);
    for (uint32_t i = 0; i < n; i++) wanted[i] = vjp_wants(r->c, i) && is_float(r->c->b->f, r->node.args[i]);
    for (uint32_t i = 0; i < r->s.results; i++) alive[i] = r->cts[i] != 0;
    for (bool more = true; more;) {
        more = false;
        for (ir_value v = 1; v < body->count; v++) {
            const struct ir_node *node = ir_get(body, v);
            from[v] = node->op == OP_param && wanted[node->attr[0].v[0]];
            for (uint32_t i = 0; i < node->arg_count && carries(body, v); i++) from[v] |= from[node->args[i]];
        }
        memset(to, 0, body->count);
        for (uint32_t i = 0; i < r->s.results; i++) to[body->results.items[i].value] |= alive[i];
        for (ir_value v = body->count - 1; v > 0; v--)
            for (uint32_t i = 0; to[v] && carries(body, v) && i < ir_get(body, v)->arg_count; i++)
                to[ir_get(body, v)->args[i]] = true;
        for (uint32_t i = 0; i < n; i++) matters[i] = to[body->params.items[i].value];
        for (uint32_t i = 0; i < carried; i++) {
            if (!wanted[i] && from[body->results.items[i].value] && is_float(body, body->results.items[i].value))
                wanted[i] = more = true;
            if (!alive[i] && matters[i]) alive[i] = more = true;
        }
    }
    for (uint32_t i = 0; i < n; i++) r->active[i] = wanted[i] && (i < carried ? alive[i] : matters[i]);
}

/* ---------------------------------------------------------------- one row */

/* False: no result has a gradient. */
static bool make_row(struct reverse *r)
{
    struct vjp *c = r->c;
    const struct ir_func *body = r->s.body;
    r->f = pass_new_body(c->pass, c->b->f->module, body, "row");
    struct ir_builder b = {.f = r->f, .place = c->b->place};
    for (uint32_t i = 0; i < operands(r); i++)
        r->in[i] = ir_param_new(&b, body->params.items[i].name, body->params.items[i].type, -1);
    for (uint32_t i = 0; i < r->s.results; i++) {
        ir_value result = body->results.items[i].value;
        if (i < r->s.carried ? r->active[i] : r->cts[i] && is_float(body, result))
            r->ct[i] = ir_param_new(&b, body->results.items[i].name, *ir_type(body, result), -1);
    }
    r->forward = vjp_body(c->pass, &b, body, r->in, r->active, r->ct, r->y, r->grad);
    return r->forward != 0;
}

/* ---------------------------------------------------------------- what is saved, what is computed again */

/* The row's own values; results of its inner scans were added later. */
static bool is_forward(const struct reverse *r, ir_value v)
{
    const struct ir_node *n = ir_get(r->f, v);
    return v < r->forward || (n->op == OP_proj && n->args[0] < r->forward);
}

static bool is_mapped(const struct ir_node *n)
{
    return (ir_ops[n->op].flags & IR_PURE) &&
           (ir_is_ewise((enum ir_op)n->op) || ir_ops[n->op].emit == EMIT_view || ir_ops[n->op].emit == EMIT_index);
}

static bool is_view(const struct ir_node *n)
{
    return n->op == OP_broadcast || n->op == OP_reshape || n->op == OP_transpose;
}

static void examine(struct reverse *r)
{
    uint32_t carried = r->s.carried, captured = carried + r->s.stacked;
    r->how = arena_new_array(scratch_of(r), uint8_t, r->f->count);
    r->free = arena_new_array(scratch_of(r), bool, r->f->count);
    r->varies = arena_new_array(scratch_of(r), bool, r->f->count);
    r->saved = arena_new_array(scratch_of(r), uint32_t, r->f->count);
    for (ir_value v = 1; v < r->f->count; v++) {
        const struct ir_node *n = ir_get(r->f, v);
        if (n->op == OP_param) {
            r->free[v] = n->attr[0].v[0] >= carried;
            r->varies[v] = n->attr[0].v[0] < captured || n->attr[0].v[0] >= operands(r);
            continue;
        }
        r->free[v] = n->arg_count == 0 || is_mapped(n);
        for (uint32_t i = 0; i < n->arg_count; i++) {
            r->free[v] = r->free[v] && r->free[n->args[i]];
            r->varies[v] |= r->varies[n->args[i]];
        }
    }
}

/* Of a value that the backward row reads. */
static void decide(struct reverse *r, ir_value v)
{
    const struct ir_node *n = ir_get(r->f, v);
    bool known = true;
    if (r->how[v]) return;
    for (uint32_t i = 0; i < n->arg_count; i++) known = known && (r->how[n->args[i]] || r->free[n->args[i]]);
    if (r->free[v] && n->arg_count == 0) {
        r->how[v] = GIVEN;
    } else if (r->free[v] || is_view(n) || (known && n->arg_count && ir_is_cheap((enum ir_op)n->op))) {
        for (uint32_t i = 0; i < n->arg_count; i++) decide(r, n->args[i]);
        r->how[v] = AGAIN;
    } else {
        r->how[v] = SAVED;
        for (uint32_t i = r->s.carried; i < r->s.results; i++)
            if (r->y[i] == v) {
                r->saved[v] = i;
                return;
            }
        r->saved[v] = r->s.results + (uint32_t)r->saves.count;
        vec_push(scratch_of(r), &r->saves, v);
    }
}

/* ---------------------------------------------------------------- sums over all rows */

static double size_of(const struct reverse *r, ir_value v) { return (double)ir_type_elements(ir_type(r->f, v)); }

/* Elements of every row that would be stacked for v's sake alone. */
static double price(const struct reverse *r, ir_value v)
{
    const struct ir_node *n = ir_get(r->f, v);
    if (n->op == OP_param || (is_forward(r, v) && !r->free[v])) return 0;
    for (uint32_t i = r->s.carried; i < r->s.carried + r->s.stacked; i++)
        if (r->active[i] && r->grad[i] == v) return 0;
    for (size_t i = 0; i < r->hoisted.count; i++)
        if (r->hoisted.items[i].x[0] == v || r->hoisted.items[i].x[1] == v) return 0;
    return size_of(r, v);
}

static bool is_linear_view(const struct reverse *r, const struct ir_node *n)
{
    return n->op == OP_transpose || n->op == OP_reshape || (n->op == OP_cast && is_float(r->f, n->args[0]));
}

/* The gradient of operand i may be the sum of many; a sum of sums of itself has more terms than can be listed. */
static void find_terms(struct reverse *r, uint32_t i, ir_value v)
{
    const struct ir_node *n = ir_get(r->f, v);
    struct hoisted h = {.operand = i, .term = v};
    if (n->op == OP_add && !is_forward(r, v) && r->terms.count < MANY_TERMS) {
        find_terms(r, i, n->args[0]);
        find_terms(r, i, n->args[1]);
        return;
    }
    for (h.base = v; is_linear_view(r, n = ir_get(r->f, h.base)); h.base = n->args[0])
        vec_push(scratch_of(r), &h.views, h.base);
    for (uint32_t k = 0; k < n->arg_count && k < 2; k++) h.x[k] = n->args[k];
    vec_push(scratch_of(r), &r->terms, h);
}

/* A product pays if its factors are no larger than what would be added up; a sum if its operand is stacked anyway.
 * Whether sums are taken row by row of time or of the batch must not depend on how large a batch is, if their order is
 * fixed: all that can be is behind the scan then. */
static bool pays(const struct reverse *r, const struct hoisted *h)
{
    double cost = 0;
    enum ir_op op = (enum ir_op)ir_get(r->f, h->base)->op;
    if (op != OP_dot && op != OP_reduce_sum) return false;
    for (uint32_t k = 0; k < 2 && h->x[k]; k++) {
        if (!r->varies[h->x[k]] || ir_type(r->f, h->x[k])->rank == IR_MAX_RANK) return false;
        cost += price(r, h->x[k]);
    }
    return r->c->pass->options->invariant || (op == OP_dot ? cost <= size_of(r, h->term) : cost == 0);
}

/* Products first: sums may be of their factors. */
static void choose_terms(struct reverse *r)
{
    for (int sums = 0; sums < 2; sums++)
        for (size_t k = 0; k < r->terms.count; k++) {
            struct hoisted *h = &r->terms.items[k];
            if ((ir_get(r->f, h->base)->op != OP_dot) != sums) continue;
            if (pays(r, h)) vec_push(scratch_of(r), &r->hoisted, *h);
            else vec_push(scratch_of(r), &r->sums[h->operand], h->term);
        }
}

/* Values of f that the backward row must have at its end. */
static void find_roots(struct reverse *r, ir_value *roots, uint32_t *count)
{
    double number;
    for (uint32_t i = 0; i < operands(r); i++) {
        if (!r->active[i]) continue;
        if (i < r->s.carried + r->s.stacked) roots[(*count)++] = r->grad[i];
        else if (!pass_number(r->f, r->grad[i], &number) || number != 0) find_terms(r, i, r->grad[i]);
    }
    choose_terms(r);
}

/* Marks what the backward row computes or reads; what it reads of the forward one is decided on. */
static bool *find_needed(struct reverse *r)
{
    bool *needed = arena_new_array(scratch_of(r), bool, r->f->count);
    ir_value *roots = arena_new_array(scratch_of(r), ir_value, operands(r) + 1);
    uint32_t count = 0;
    find_roots(r, roots, &count);
    for (uint32_t i = 0; i < count; i++) needed[roots[i]] = true;
    for (uint32_t i = 0; i < operands(r); i++)
        for (size_t k = 0; k < r->sums[i].count; k++) needed[r->sums[i].items[k]] = true;
    for (size_t k = 0; k < r->hoisted.count; k++)
        for (uint32_t j = 0; j < 2; j++)
            if (r->hoisted.items[k].x[j]) needed[r->hoisted.items[k].x[j]] = true;
    for (ir_value v = r->f->count - 1; v > 0; v--) {
        const struct ir_node *n = ir_get(r->f, v);
        for (uint32_t i = 0; needed[v] && !is_forward(r, v) && i < n->arg_count; i++) needed[n->args[i]] = true;
    }
    for (ir_value v = 1; v < r->f->count; v++)
        if (needed[v] && is_forward(r, v)) decide(r, v);
    for (ir_value v = r->f->count - 1; v > 0; v--) {
        const struct ir_node *n = ir_get(r->f, v);
        for (uint32_t i = 0; needed[v] && r->how[v] == AGAIN && i < n->arg_count; i++) needed[n->args[i]] = true;
    }
    return needed;
}

/* ---------------------------------------------------------------- the bodies */

/* The forward scan gets a body that also makes what is saved. */
static void save_values(struct reverse *r)
{
    if (!r->saves.count) return;
    struct ir_builder b = {.f = pass_new_body(r->c->pass, r->f->module, r->s.body, "forward"), .place = r->c->b->place};
    bool *needed = arena_new_array(scratch_of(r), bool, r->f->count);
    ir_value *map = arena_new_array(scratch_of(r), ir_value, r->f->count);
    for (uint32_t i = 0; i < operands(r); i++)
        map[r->in[i]] = ir_param_new(&b, r->s.body->params.items[i].name, r->s.body->params.items[i].type, -1);
    for (uint32_t i = 0; i < r->s.results; i++) needed[r->y[i]] = true;
    for (size_t i = 0; i < r->saves.count; i++) needed[r->saves.items[i]] = true;
    for (ir_value v = r->f->count - 1; v > 0; v--)
        for (uint32_t i = 0; needed[v] && i < ir_get(r->f, v)->arg_count; i++) needed[ir_get(r->f, v)->args[i]] = true;
    pass_copy_nodes(&b, r->f, needed, map, pass_copy_node, r->c->pass);
    for (uint32_t i = 0; i < r->s.results; i++) ir_result_add(&b, r->s.body->results.items[i].name, map[r->y[i]], -1);
    for (size_t i = 0; i < r->saves.count; i++) ir_result_add(&b, "saved", map[r->saves.items[i]], -1);
    r->c->b->f->nodes[r->c->value].func = ir_func_index(b.f);
}

/* The backward scan in the making. */
struct backward {
    struct ir_builder b;
    ir_value *map;
    VEC(ir_value) args; /* of the scan */
    uint32_t carried, stacked, results;
};

/* A parameter of the body that stands for `v` of the row, and the operand for it. */
static ir_value take(struct reverse *r, struct backward *k, ir_value v, ir_value operand)
{
    const struct ir_node *n = ir_get(r->f, v);
    const char *name = n->op == OP_param ? r->f->params.items[n->attr[0].v[0]].name : "saved";
    vec_push(scratch_of(r), &k->args, operand);
    return k->map[v] = ir_param_new(&k->b, name, n->type, -1);
}

static ir_value zeros(struct reverse *r, ir_value operand)
{
    return ir_number(r->c->b, *ir_type(r->c->b->f, operand), 0);
}

/* Parameters: cotangents and sums that are carried, rows, what is shared. sum[i]: the parameter that operand i's
 * gradient is summed in. */
static void make_params(struct reverse *r, struct backward *k, const bool *needed, ir_value *sum)
{
    struct ir_builder *b = r->c->b;
    uint32_t carried = r->s.carried, captured = carried + r->s.stacked;
    for (uint32_t i = 0; i < carried; i++)
        if (r->active[i]) take(r, k, r->ct[i], r->cts[i] ? r->cts[i] : zeros(r, r->node.args[i]));
    for (uint32_t i = captured; i < operands(r); i++) {
        if (!r->sums[i].count) continue;
        vec_push(scratch_of(r), &k->args, zeros(r, r->node.args[i]));
        sum[i] = ir_param_new(&k->b, r->s.body->params.items[i].name, *ir_type(b->f, r->node.args[i]), -1);
    }
    k->carried = (uint32_t)k->args.count;
    for (ir_value v = 1; v < r->f->count; v++)
        if (needed[v] && r->how[v] == SAVED) take(r, k, v, ir_proj(b, r->c->value, r->saved[v]));
    for (uint32_t i = carried; i < captured; i++)
        if (needed[r->in[i]]) take(r, k, r->in[i], r->node.args[i]);
    for (uint32_t i = carried; i < r->s.results; i++)
        if (r->ct[i] && needed[r->ct[i]]) take(r, k, r->ct[i], r->cts[i]);
    k->stacked = (uint32_t)k->args.count - k->carried;
    for (uint32_t i = captured; i < operands(r); i++)
        if (needed[r->in[i]]) take(r, k, r->in[i], r->node.args[i]);
}

static void make_results(struct reverse *r, struct backward *k, const ir_value *sum)
{
    uint32_t carried = r->s.carried, captured = carried + r->s.stacked;
    for (uint32_t i = 0; i < carried; i++)
        if (r->active[i]) ir_result_add(&k->b, "gradient", k->map[r->grad[i]], -1);
    for (uint32_t i = captured; i < operands(r); i++) {
        ir_value total = 0;
        for (size_t t = 0; t < r->sums[i].count; t++) {
            ir_value x = k->map[r->sums[i].items[t]];
            total = total ? ir_binary(&k->b, OP_add, total, x) : x;
        }
        if (total) ir_result_add(&k->b, "gradient", ir_binary(&k->b, OP_add, sum[i], total), -1);
    }
    for (uint32_t i = carried; i < captured; i++)
        if (r->active[i]) ir_result_add(&k->b, "gradient", k->map[r->grad[i]], -1);
}

/* Where the rows of x, an operand of a sum over all of them, are: a value that is there, or a result of the backward
 * body. */
static void find_rows(struct reverse *r, struct backward *k, struct hoisted *h, uint32_t side)
{
    ir_value x = h->x[side];
    const struct ir_func *f = k->b.f;
    for (uint32_t i = r->s.carried; i < r->s.carried + r->s.stacked; i++)
        if (r->in[i] == x) h->stacked[side] = r->node.args[i];
    for (uint32_t i = r->s.carried; i < r->s.results; i++)
        if (r->ct[i] == x) h->stacked[side] = r->cts[i];
    if (r->how[x] == SAVED) h->stacked[side] = ir_proj(r->c->b, r->c->value, r->saved[x]);
    for (uint32_t i = k->carried; i < f->results.count && !h->stacked[side]; i++)
        if (f->results.items[i].value == k->map[x]) h->made[side] = i + 1;
    if (h->stacked[side] || h->made[side]) return;
    ir_result_add(&k->b, "factor", k->map[x], -1);
    h->made[side] = (uint32_t)f->results.count;
}

/* ---------------------------------------------------------------- behind the scan */

static struct ir_ints moved(struct arena *a, struct ir_ints dims, bool with_rows)
{
    int64_t *v = arena_new_array(a, int64_t, dims.n + 1u);
    uint32_t n = 0;
    if (with_rows) v[n++] = 0;
    for (uint32_t i = 0; i < dims.n; i++) v[n++] = dims.v[i] + 1;
    return (struct ir_ints){v, n};
}

/* The sum over all rows of the gradient's part. */
static ir_value sum_of(struct reverse *r, const struct hoisted *h, ir_value tuple)
{
    struct ir_builder *b = r->c->b;
    struct arena *a = scratch_of(r);
    const struct ir_node *n = ir_get(r->f, h->base);
    ir_value x[2] = {0}, sum;
    for (uint32_t k = 0; k < 2; k++)
        if (h->x[k]) x[k] = h->made[k] ? ir_proj(b, tuple, h->made[k] - 1) : h->stacked[k];
    if (n->op == OP_dot) {
        sum = ir_dot(b, x[0], x[1], moved(a, n->attr[0], false), moved(a, n->attr[1], false),
                     moved(a, n->attr[2], true), moved(a, n->attr[3], true));
    } else {
        struct ir_ints dims = moved(a, n->attr[0], true);
        sum = ir_reduce(b, OP_reduce_sum, x[0], dims.v, dims.n);
    }
    for (size_t i = h->views.count; i-- > 0;) sum = ir_remake(b, ir_get(r->f, h->views.items[i]), &sum);
    return sum;
}

static void give(struct reverse *r, ir_value tuple)
{
    struct ir_builder *b = r->c->b;
    uint32_t at = 0, carried = r->s.carried, captured = carried + r->s.stacked;
    for (uint32_t i = 0; i < carried; i++)
        if (r->active[i]) vjp_give(r->c, i, ir_proj(b, tuple, at++));
    for (uint32_t i = captured; i < operands(r); i++)
        if (r->sums[i].count) vjp_give(r->c, i, ir_proj(b, tuple, at++));
    for (uint32_t i = carried; i < captured; i++)
        if (r->active[i]) vjp_give(r->c, i, ir_proj(b, tuple, at++));
    for (size_t i = 0; i < r->hoisted.count; i++)
        vjp_give(r->c, r->hoisted.items[i].operand, sum_of(r, &r->hoisted.items[i], tuple));
}

static void make_backward(struct reverse *r, const bool *needed)
{
    struct backward k = {
        .b = {.f = pass_new_body(r->c->pass, r->f->module, r->s.body, "backward"), .place = r->c->b->place}};
    ir_value *sum = arena_new_array(scratch_of(r), ir_value, operands(r) + 1);
    k.map = arena_new_array(scratch_of(r), ir_value, r->f->count);
    make_params(r, &k, needed, sum);
    pass_copy_nodes(&k.b, r->f, needed, k.map, pass_copy_node, r->c->pass);
    make_results(r, &k, sum);
    for (size_t i = 0; i < r->hoisted.count; i++)
        for (uint32_t side = 0; side < 2; side++)
            if (r->hoisted.items[i].x[side]) find_rows(r, &k, &r->hoisted.items[i], side);
    ir_value tuple = ir_scan(r->c->b, k.b.f, r->s.times, !r->s.reverse, k.args.items, k.carried, k.stacked,
                             (uint32_t)k.args.count - k.carried - k.stacked);
    give(r, tuple);
}

static bool ranks_fit(struct reverse *r)
{
    for (size_t i = 0; i < r->saves.count; i++)
        if (ir_type(r->f, r->saves.items[i])->rank == IR_MAX_RANK) {
            pass_error(r->c->pass, r->c->b->f->module, r->node.place, "E0310",
                       "the gradient through time of a tensor of the highest rank is not supported yet");
            return false;
        }
    return true;
}

void vjp_scan(struct vjp *c)
{
    const struct ir_ints *attr = c->node.attr;
    struct reverse r = {.c = c, .node = c->node, .cts = c->parts[c->value]};
    uint32_t n = c->node.arg_count;
    r.s = (struct scan){.body = c->b->f->module->funcs.items[c->node.func],
                        .carried = (uint32_t)attr[0].v[0],
                        .stacked = (uint32_t)attr[1].v[0],
                        .results = ir_tuple_count(c->b->f, c->value),
                        .times = attr[2].v[0],
                        .reverse = attr[3].v[0] != 0};
    struct arena *scratch = &c->pass->scratch;
    r.active = arena_new_array(scratch, bool, n + 1);
    r.in = arena_new_array(scratch, ir_value, n + 1);
    r.grad = arena_new_array(scratch, ir_value, n + 1);
    r.y = arena_new_array(scratch, ir_value, r.s.results + 1);
    r.ct = arena_new_array(scratch, ir_value, r.s.results + 1);
    r.sums = arena_alloc(scratch, (n + 1) * sizeof *r.sums);
    memset(r.sums, 0, (n + 1) * sizeof *r.sums);
    find_active(&r);
    if (!make_row(&r)) return;
    examine(&r);
    bool *needed = find_needed(&r);
    if (!ranks_fit(&r)) return;
    save_values(&r);
    make_backward(&r, needed);
}
