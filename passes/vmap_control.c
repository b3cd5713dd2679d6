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

/* ---------------------------------------------------------------- what runs its body several times */

/* An op with its body. The body's parameters are the operands from `skip` on; a loop's number stands for its limit. */
struct control {
    const struct ir_func *body;
    uint32_t count, made, skip; /* parameters, results */
    bool *params, *results;     /* ... depends on the row */
    int64_t *carries;           /* by result: the parameter that is its value of before, -1: none */
    bool *split_in, *split_out; /* ... a dimension that the op splits or puts together: before that of the rows */
    bool parts;                 /* the body, too, sees that dimension: there it has a part of it */
    bool own; /* of a loop: every row has a condition of its own; then rows that are through keep their values, and one
               * more value is carried in front: whether some row goes on */
};

static struct control control_of(struct vmap *c, uint32_t skip)
{
    struct arena *scratch = &c->pass->scratch;
    const struct ir_func *body = body_of(c);
    uint32_t count = c->n->arg_count - skip, made = (uint32_t)body->results.count;
    struct control k = {.body = body,
                        .count = count,
                        .made = made,
                        .skip = skip,
                        .params = arena_new_array(scratch, bool, count + 1),
                        .results = arena_new_array(scratch, bool, made + 1),
                        .carries = arena_new_array(scratch, int64_t, made + 1),
                        .split_in = arena_new_array(scratch, bool, count + 1),
                        .split_out = arena_new_array(scratch, bool, made + 1)};
    for (uint32_t i = 0; i < count; i++) k.params[i] = vmap_mapped(c, i + skip);
    for (uint32_t i = 0; i < made; i++) k.carries[i] = -1;
    return k;
}

/* Which results depend on the row, given which parameters do. */
static void flow(struct vmap *c, const struct control *k)
{
    bool *mapped = arena_new_array(&c->pass->scratch, bool, k->body->count);
    for (ir_value v = 1; v < k->body->count; v++) {
        const struct ir_node *n = ir_get(k->body, v);
        if (n->op == OP_param) mapped[v] = k->params[n->attr[0].v[0]];
        for (uint32_t i = 0; i < n->arg_count; i++) mapped[v] |= mapped[n->args[i]];
    }
    for (uint32_t i = 0; i < k->made; i++) k->results[i] = mapped[k->body->results.items[i].value];
}

/* What one round carries into the next depends on the row if it does in some round. */
static void carried_flow(struct vmap *c, struct control *k)
{
    for (bool more = true; more;) {
        more = false;
        flow(c, k);
        for (uint32_t i = 0; i < k->made; i++)
            if (k->carries[i] >= 0 && k->results[i] && !k->params[k->carries[i]])
                k->params[k->carries[i]] = more = true;
    }
    for (uint32_t i = 0; i < k->made; i++)
        if (k->carries[i] >= 0) k->results[i] = k->params[k->carries[i]];
}

/* Exchanges the first two dimensions: what is split must come first. */
static ir_value exchange(struct ir_builder *b, ir_value x)
{
    int64_t perm[IR_MAX_RANK];
    for (uint32_t i = 0; i < ir_type(b->f, x)->rank; i++) perm[i] = i < 2 ? 1 - i : i;
    return ir_transpose(b, x, perm);
}

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

static struct vmap_value body_param(struct vmap *c, struct ir_builder *b, const struct control *k, uint32_t i)
{
    const struct ir_param *p = &k->body->params.items[i];
    struct ir_type type = k->params[i] ? vmap_type(c, &p->type) : p->type;
    bool split = k->params[i] && k->split_in[i] && k->parts;
    if (split) type.dim[0] = type.dim[1], type.dim[1] = c->rows;
    ir_value v = ir_param_new(b, p->name, type, -1);
    return (struct vmap_value){split ? exchange(b, v) : v, k->params[i]};
}

/* The body for all rows. */
static struct ir_func *control_body(struct vmap *c, const struct control *k)
{
    struct ir_builder *outer = c->b, *b = &(struct ir_builder){.place = outer->place};
    b->f = pass_new_body(c->pass, outer->f->module, k->body, "rows");
    struct vmap_value *in = new_values(c, k->count), *out = new_values(c, k->made);
    for (uint32_t i = 0; i < k->count; i++) {
        in[i] = body_param(c, b, k, i);
        if (k->own && i == 0) ir_param_new(b, "any", ir_type_scalar(IR_BOOL), -1);
    }
    vmap_body(c, b, k->body, in, out);
    c->b = b;
    for (uint32_t i = 0; i < k->made; i++) {
        if (k->results[i]) out[i].v = vmap_spread(c, out[i]);
        if (k->results[i] && k->split_out[i] && k->parts) out[i].v = exchange(b, out[i].v);
        if (k->own) out[i].v = ir_select(b, spread_flag(b, in[1].v, out[i].v), out[i].v, in[i + 1].v);
    }
    c->b = outer;
    if (k->own) ir_result_add(b, "any", any_row(b, out[0].v), -1);
    for (uint32_t i = 0; i < k->made; i++) ir_result_add(b, k->body->results.items[i].name, out[i].v, -1);
    return b->f;
}

static ir_value apply_control(struct vmap *c, const struct control *k)
{
    ir_value *args = arena_new_array(&c->pass->scratch, ir_value, c->n->arg_count + 1u);
    struct ir_node n = *c->n;
    n.arg_count = 0;
    if (k->skip) args[n.arg_count++] = vmap_plain(c, 0);
    for (uint32_t i = 0; i < k->count; i++) {
        ir_value v = k->params[i] ? vmap_arg(c, i + k->skip) : vmap_plain(c, i + k->skip);
        if (k->params[i] && k->split_in[i]) v = exchange(c->b, v);
        if (k->own && i == 1) args[n.arg_count++] = any_row(c->b, v);
        args[n.arg_count++] = v;
    }
    int64_t carried = c->n->attr[0].v[0] + k->own;
    n.attr[0].v = &carried;
    n.func = ir_func_index(control_body(c, k));
    ir_value tuple = ir_remake(c->b, &n, args);
    c->tuples[c->value] = new_values(c, k->made);
    for (uint32_t i = 0; i < k->made; i++) {
        ir_value v = ir_proj(c->b, tuple, i + k->own);
        if (k->results[i] && k->split_out[i]) v = exchange(c->b, v);
        c->tuples[c->value][i] = (struct vmap_value){v, k->results[i]};
    }
    return 0;
}

ir_value vmap_loop(struct vmap *c)
{
    if (vmap_mapped(c, 0)) return vmap_fail(c, "a loop of a length of its own");
    struct control k = control_of(c, 0);
    for (uint32_t i = 0; i < k.made; i++) k.carries[i] = i + 1;
    carried_flow(c, &k);
    k.own = c->n->attr[1].v[0] && k.params[1];
    for (uint32_t i = 0; k.own && i < k.made; i++) k.params[i + 1] = k.results[i] = true;
    return apply_control(c, &k);
}

enum { CONCATENATE = 3, CARRY = 4 };

ir_value vmap_accumulate(struct vmap *c)
{
    if (vmap_mapped(c, 0)) return vmap_fail(c, "a number of microbatches of its own");
    struct control k = control_of(c, 1);
    int64_t carried = k.count;
    k.parts = true;
    for (uint32_t i = 0; i < c->n->attr[0].v[0]; i++) k.split_in[i] = true;
    for (uint32_t i = 0; i < k.made; i++) {
        k.split_out[i] = c->n->attr[3].v[i] == CONCATENATE;
        carried -= c->n->attr[3].v[i] == CARRY;
    }
    for (uint32_t i = 0; i < k.made; i++)
        if (c->n->attr[3].v[i] == CARRY) k.carries[i] = carried++;
    carried_flow(c, &k);
    return apply_control(c, &k);
}

/* What is stacked has the time in front and the rows behind it. */
ir_value vmap_scan(struct vmap *c)
{
    struct control k = control_of(c, 0);
    uint32_t carried = (uint32_t)c->n->attr[0].v[0], stacked = (uint32_t)c->n->attr[1].v[0];
    for (uint32_t i = 0; i < stacked; i++) k.split_in[carried + i] = true;
    for (uint32_t i = 0; i < k.made; i++) {
        k.split_out[i] = i >= carried;
        if (i < carried) k.carries[i] = i;
    }
    carried_flow(c, &k);
    return apply_control(c, &k);
}
