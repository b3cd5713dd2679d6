/* Calls, loops, accumulations and scans applied to all rows at once. Which values of a body depend on the row is found
 * first, in rounds for what a loop carries; then the body is copied for all rows. */
#include "passes/vmap.h"
#include <string.h>

/* The parts of a tuple were made with it, unless that was an error. */
ir_value vmap_proj(struct vmap *c)
{
    if (!c->pass->diags->errors) BUG("%s: part of a tuple that was not mapped", c->from->name);
    return 0;
}

static const struct ir_func *body_of(const struct vmap *c) { return c->b->f->module->funcs.items[c->n->func]; }

static struct vmap_value *new_values(struct vmap *c, size_t n)
{
    return arena_new_array(&c->pass->scratch, struct vmap_value, n + 1);
}

ir_value vmap_call(struct vmap *c)
{
    const struct ir_func *callee = body_of(c);
    struct vmap_value *in = new_values(c, c->n->arg_count);
    for (uint32_t i = 0; i < c->n->arg_count; i++) in[i] = c->map[c->n->args[i]];
    c->tuples[c->value] = new_values(c, callee->results.count);
    vmap_body(c, c->b, callee, in, c->tuples[c->value]);
    return 0;
}

/* Which results depend on the row, given which parameters do. */
static void flow(struct vmap *c, const struct ir_func *body, const bool *params, bool *results)
{
    bool *mapped = arena_new_array(&c->pass->scratch, bool, body->count);
    for (ir_value v = 1; v < body->count; v++) {
        const struct ir_node *n = ir_get(body, v);
        if (n->op == OP_param) mapped[v] = params[n->attr[0].v[0]];
        for (uint32_t i = 0; i < n->arg_count; i++) mapped[v] |= mapped[n->args[i]];
    }
    for (size_t i = 0; i < body->results.count; i++) results[i] = mapped[body->results.items[i].value];
}

/* What one round carries into the next depends on the row if it does in some round: params[place[i]] is result i. */
static void carried_flow(struct vmap *c, const struct ir_func *body, bool *params, const int64_t *place, bool *results)
{
    for (bool more = true; more;) {
        more = false;
        flow(c, body, params, results);
        for (size_t i = 0; i < body->results.count; i++)
            if (place[i] >= 0 && results[i] && !params[place[i]]) params[place[i]] = more = true;
    }
    for (size_t i = 0; i < body->results.count; i++)
        if (place[i] >= 0) results[i] = params[place[i]];
}

static struct ir_func *new_body(struct vmap *c, const struct ir_func *like)
{
    struct ir_module *m = c->b->f->module;
    return ir_func_new(m, arena_format(&c->pass->scratch, "%s.rows%zu", like->name, m->funcs.count), false);
}

static struct vmap_value new_param(struct vmap *c, struct ir_builder *b, const struct ir_param *like, bool mapped)
{
    struct ir_type type = mapped ? vmap_type(c, &like->type) : like->type;
    return (struct vmap_value){ir_param_new(b, like->name, type, -1), mapped};
}

/* ---------------------------------------------------------------- loop */

/* `flag`, one bool per row, as something of the shape of x. */
static ir_value spread_flag(struct ir_builder *b, ir_value flag, ir_value x)
{
    struct ir_type type = *ir_type(b->f, x);
    const int64_t rows[] = {0};
    return ir_broadcast(b, flag, type.rank, type.dim, rows);
}

static ir_value any_row(struct ir_builder *b, ir_value flag)
{
    const int64_t rows[] = {0};
    return ir_reduce(b, OP_reduce_max, flag, rows, 1);
}

/* The body for all rows. `own`: every row has a condition of its own; then rows that are through keep their values, and
 * one more value is carried in front: whether some row goes on. */
static struct ir_func *loop_body(struct vmap *c, const struct ir_func *body, const bool *params, const bool *results,
                                 bool own)
{
    struct ir_func *f = new_body(c, body);
    struct ir_builder inner = {.f = f, .place = c->b->place}, *b = &inner, *outer = c->b;
    uint32_t count = (uint32_t)body->params.count, carried = (uint32_t)body->results.count;
    struct vmap_value *in = new_values(c, count), *out = new_values(c, carried);
    in[0] = new_param(c, b, &body->params.items[0], false);
    if (own) ir_param_new(b, "any", ir_type_scalar(IR_BOOL), -1);
    for (uint32_t i = 1; i < count; i++) in[i] = new_param(c, b, &body->params.items[i], params[i]);
    vmap_body(c, b, body, in, out);
    c->b = b;
    for (uint32_t i = 0; i < carried; i++) {
        if (results[i]) out[i] = (struct vmap_value){vmap_spread(c, out[i]), true};
        if (own) out[i].v = ir_select(b, spread_flag(b, in[1].v, out[i].v), out[i].v, in[i + 1].v);
    }
    c->b = outer;
    if (own) ir_result_add(b, "any", any_row(b, out[0].v), -1);
    for (uint32_t i = 0; i < carried; i++) ir_result_add(b, body->results.items[i].name, out[i].v, -1);
    return f;
}

ir_value vmap_loop(struct vmap *c)
{
    const struct ir_func *body = body_of(c);
    struct arena *scratch = &c->pass->scratch;
    uint32_t carried = (uint32_t)c->n->attr[0].v[0], count = c->n->arg_count, n = 0;
    bool conditional = c->n->attr[1].v[0] != 0;
    if (vmap_mapped(c, 0)) return vmap_fail(c, "a loop of a length of its own");
    bool *params = arena_new_array(scratch, bool, count + 1), *results = arena_new_array(scratch, bool, carried + 1);
    int64_t *place = arena_new_array(scratch, int64_t, carried + 1);
    for (uint32_t i = 1; i < count; i++) params[i] = vmap_mapped(c, i);
    for (uint32_t i = 0; i < carried; i++) place[i] = i + 1;
    carried_flow(c, body, params, place, results);
    bool own = conditional && params[1];
    for (uint32_t i = 1; own && i <= carried; i++) params[i] = results[i - 1] = true;

    ir_value *args = arena_new_array(scratch, ir_value, count + 2);
    for (uint32_t i = 1; i < count; i++) {
        ir_value v = params[i] ? vmap_arg(c, i) : vmap_plain(c, i);
        if (i == 1 && own) args[n++] = any_row(c->b, v);
        args[n++] = v;
    }
    struct ir_func *all = loop_body(c, body, params, results, own);
    uint32_t extra = own;
    ir_value tuple = ir_loop(c->b, all, vmap_plain(c, 0), args, carried + extra, conditional, args + carried + extra,
                             count - 1 - carried);
    c->tuples[c->value] = new_values(c, carried);
    for (uint32_t i = 0; i < carried; i++)
        c->tuples[c->value][i] = (struct vmap_value){ir_proj(c->b, tuple, i + extra), results[i]};
    return 0;
}

/* ---------------------------------------------------------------- accumulate */

enum { CONCATENATE = 3, CARRY = 4 };

/* Exchanges the first two dimensions: the batch that is split must come first. */
static ir_value exchange(struct ir_builder *b, ir_value x)
{
    int64_t perm[IR_MAX_RANK];
    for (uint32_t i = 0; i < ir_type(b->f, x)->rank; i++) perm[i] = i < 2 ? 1 - i : i;
    return ir_transpose(b, x, perm);
}

static struct ir_func *accumulate_body(struct vmap *c, const struct ir_func *body, const bool *params,
                                       const bool *results, uint32_t batched)
{
    struct ir_func *f = new_body(c, body);
    struct ir_builder inner = {.f = f, .place = c->b->place}, *b = &inner, *outer = c->b;
    uint32_t count = (uint32_t)body->params.count, made = (uint32_t)body->results.count;
    struct vmap_value *in = new_values(c, count), *out = new_values(c, made);
    for (uint32_t i = 0; i < count; i++) {
        struct ir_param p = body->params.items[i];
        bool swap = i < batched && params[i];
        if (swap) { /* [part, rows, ..] */
            p.type = vmap_type(c, &p.type);
            p.type.dim[0] = p.type.dim[1], p.type.dim[1] = c->rows;
        }
        in[i] = new_param(c, b, &p, params[i] && !swap);
        if (swap) in[i] = (struct vmap_value){exchange(b, in[i].v), true};
    }
    vmap_body(c, b, body, in, out);
    c->b = b;
    for (uint32_t i = 0; i < made; i++) {
        ir_value v = results[i] ? vmap_spread(c, out[i]) : out[i].v;
        if (results[i] && c->n->attr[3].v[i] == CONCATENATE) v = exchange(b, v);
        ir_result_add(b, body->results.items[i].name, v, -1);
    }
    c->b = outer;
    return f;
}

ir_value vmap_accumulate(struct vmap *c)
{
    const struct ir_func *body = body_of(c);
    struct arena *scratch = &c->pass->scratch;
    uint32_t count = c->n->arg_count - 1, batched = (uint32_t)c->n->attr[0].v[0], made = (uint32_t)body->results.count;
    if (vmap_mapped(c, 0)) return vmap_fail(c, "a number of microbatches of its own");
    bool *params = arena_new_array(scratch, bool, count + 1), *results = arena_new_array(scratch, bool, made + 1);
    int64_t *place = arena_new_array(scratch, int64_t, made + 1), carried = count;
    for (uint32_t i = 0; i < count; i++) params[i] = vmap_mapped(c, i + 1);
    for (uint32_t i = 0; i < made; i++) carried -= c->n->attr[3].v[i] == CARRY;
    for (uint32_t i = 0; i < made; i++) place[i] = c->n->attr[3].v[i] == CARRY ? carried++ : -1;
    carried_flow(c, body, params, place, results);

    ir_value *args = arena_new_array(scratch, ir_value, count + 1);
    args[0] = vmap_plain(c, 0);
    for (uint32_t i = 0; i < count; i++) {
        args[i + 1] = params[i] ? vmap_arg(c, i + 1) : vmap_plain(c, i + 1);
        if (i < batched && params[i]) args[i + 1] = exchange(c->b, args[i + 1]);
    }
    struct ir_node n = *c->n;
    n.func = ir_func_index(accumulate_body(c, body, params, results, batched));
    ir_value tuple = ir_remake(c->b, &n, args);
    c->tuples[c->value] = new_values(c, made);
    for (uint32_t i = 0; i < made; i++) {
        ir_value v = ir_proj(c->b, tuple, i);
        if (results[i] && c->n->attr[3].v[i] == CONCATENATE) v = exchange(c->b, v);
        c->tuples[c->value][i] = (struct vmap_value){v, results[i]};
    }
    return 0;
}

/* ---------------------------------------------------------------- scan */

/* The body for all rows; what is stacked has the time in front and the rows behind it. */
static struct ir_func *scan_body(struct vmap *c, const struct ir_func *body, const bool *params, const bool *results)
{
    struct ir_func *f = new_body(c, body);
    struct ir_builder inner = {.f = f, .place = c->b->place}, *b = &inner, *outer = c->b;
    uint32_t count = (uint32_t)body->params.count, made = (uint32_t)body->results.count;
    struct vmap_value *in = new_values(c, count), *out = new_values(c, made);
    for (uint32_t i = 0; i < count; i++) in[i] = new_param(c, b, &body->params.items[i], params[i]);
    vmap_body(c, b, body, in, out);
    c->b = b;
    for (uint32_t i = 0; i < made; i++)
        ir_result_add(b, body->results.items[i].name, results[i] ? vmap_spread(c, out[i]) : out[i].v, -1);
    c->b = outer;
    return f;
}

ir_value vmap_scan(struct vmap *c)
{
    const struct ir_func *body = body_of(c);
    struct arena *scratch = &c->pass->scratch;
    uint32_t count = c->n->arg_count, carried = (uint32_t)c->n->attr[0].v[0], stacked = (uint32_t)c->n->attr[1].v[0],
             made = (uint32_t)body->results.count;
    bool *params = arena_new_array(scratch, bool, count + 1), *results = arena_new_array(scratch, bool, made + 1);
    int64_t *place = arena_new_array(scratch, int64_t, made + 1);
    for (uint32_t i = 0; i < count; i++) params[i] = vmap_mapped(c, i);
    for (uint32_t i = 0; i < made; i++) place[i] = i < carried ? (int64_t)i : -1;
    carried_flow(c, body, params, place, results);

    ir_value *args = arena_new_array(scratch, ir_value, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        args[i] = params[i] ? vmap_arg(c, i) : vmap_plain(c, i);
        if (params[i] && i >= carried && i < carried + stacked) args[i] = exchange(c->b, args[i]);
    }
    struct ir_node n = *c->n;
    n.func = ir_func_index(scan_body(c, body, params, results));
    ir_value tuple = ir_remake(c->b, &n, args);
    c->tuples[c->value] = new_values(c, made);
    for (uint32_t i = 0; i < made; i++) {
        ir_value v = ir_proj(c->b, tuple, i);
        if (results[i] && i >= carried) v = exchange(c->b, v);
        c->tuples[c->value][i] = (struct vmap_value){v, results[i]};
    }
    return 0;
}
