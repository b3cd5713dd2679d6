/* scan markers become loops: rows of what is stacked are read through dynamic_slice, and what the body makes is written
 * through dynamic_update into a buffer that the loop carries. Nothing stands there before and every row is written
 * once, so the updates are done in place. Buffers that nobody reads are left out; one row needs no loop. */
#include "passes/accumulate_scan.h"

struct scan scan_of(const struct ir_module *m, const struct ir_node *n)
{
    const struct ir_func *body = m->funcs.items[n->func];
    uint32_t carried = (uint32_t)n->attr[0].v[0], stacked = (uint32_t)n->attr[1].v[0];
    return (struct scan){.n = n,
                         .body = body,
                         .carried = carried,
                         .stacked = stacked,
                         .captured = n->arg_count - carried - stacked,
                         .results = (uint32_t)body->results.count,
                         .times = n->attr[2].v[0],
                         .reverse = n->attr[3].v[0] != 0};
}

struct ir_type scan_rows(const struct ir_type *one, int64_t times)
{
    struct ir_type all = {.dtype = one->dtype, .rank = (uint8_t)(one->rank + 1), .dim[0] = times};
    for (uint32_t i = 0; i < one->rank; i++) all.dim[i + 1] = one->dim[i];
    return all;
}

static void starts_at(struct ir_builder *b, ir_value row, uint32_t rank, ir_value *starts)
{
    for (uint32_t i = 0; i < rank; i++) starts[i] = i ? ir_scalar(b, IR_I32, 0) : row;
}

/* Row `row` of x, without its dimension. */
static ir_value read_row(struct ir_builder *b, ir_value x, ir_value row)
{
    struct ir_type all = *ir_type(b->f, x), one = all;
    ir_value starts[IR_MAX_RANK];
    one.dim[0] = 1;
    starts_at(b, row, all.rank, starts);
    return ir_reshape(b, ir_dynamic_slice(b, x, starts, one.dim), all.rank - 1u, all.dim + 1);
}

static ir_value write_row(struct ir_builder *b, ir_value into, ir_value row, ir_value x)
{
    struct ir_type one = scan_rows(ir_type(b->f, x), 1);
    ir_value starts[IR_MAX_RANK];
    starts_at(b, row, one.rank, starts);
    return ir_dynamic_update(b, into, ir_reshape(b, x, one.rank, one.dim), starts);
}

/* 0, 1, 2, ..: its rows are the number of the row. */
static bool is_row_numbers(const struct ir_func *f, ir_value x)
{
    const struct ir_node *n = ir_get(f, x);
    return n->op == OP_iota && n->type.rank == 1;
}

/* (i, carried.., buffers.., stacked.., captured..) -> carried.., buffers.. */
static struct ir_func *loop_body(struct pass *p, const struct scan *s, const struct ir_func *outer, uint32_t place,
                                 const ir_value *operands, const bool *used)
{
    struct ir_module *m = outer->module;
    struct ir_func *f = ir_func_new(m, arena_format(&p->scratch, "%s.loop%zu", s->body->name, m->funcs.count), false);
    struct ir_builder builder = {.f = f, .place = place}, *b = &builder;
    uint32_t count = s->n->arg_count;
    ir_value *args = arena_new_array(&p->scratch, ir_value, count + 1),
             *buffer = arena_new_array(&p->scratch, ir_value, s->results + 1);
    ir_value row = ir_param_new(b, "i", ir_type_scalar(IR_I32), -1);
    if (s->reverse) row = ir_binary(b, OP_sub, ir_scalar(b, IR_I32, (double)s->times - 1), row);
    for (uint32_t i = 0; i < s->carried; i++)
        args[i] = ir_param_new(b, s->body->params.items[i].name, s->body->params.items[i].type, -1);
    for (uint32_t r = s->carried; r < s->results; r++) {
        const struct ir_result *result = &s->body->results.items[r];
        if (used[r])
            buffer[r] = ir_param_new(b, result->name, scan_rows(ir_type(s->body, result->value), s->times), -1);
    }
    for (uint32_t i = s->carried; i < count; i++)
        if (i >= s->carried + s->stacked || !is_row_numbers(outer, operands[i]))
            args[i] = ir_param_new(b, s->body->params.items[i].name, *ir_type(outer, operands[i]), -1);
    for (uint32_t i = s->carried; i < s->carried + s->stacked; i++)
        args[i] = args[i] ? read_row(b, args[i], row)
                          : ir_cast(b, row, (enum ir_dtype)s->body->params.items[i].type.dtype);
    ir_value tuple = ir_call(b, m->funcs.items[s->n->func], args, count);
    for (uint32_t r = 0; r < s->results; r++) {
        if (r >= s->carried && !used[r]) continue;
        ir_value value = ir_proj(b, tuple, r);
        ir_result_add(b, s->body->results.items[r].name, r < s->carried ? value : write_row(b, buffer[r], row, value),
                      -1);
    }
    return f;
}

/* No row, or one. */
static void expand_plainly(struct pass *p, struct ir_builder *b, const struct scan *s, const ir_value *operands,
                           ir_value *out)
{
    ir_value *args = arena_new_array(&p->scratch, ir_value, s->n->arg_count + 1), tuple = 0;
    for (uint32_t i = 0; i < s->n->arg_count; i++) {
        struct ir_type type = *ir_type(b->f, operands[i]);
        bool row = s->times && i >= s->carried && i < s->carried + s->stacked;
        args[i] = row ? ir_reshape(b, operands[i], type.rank - 1u, type.dim + 1) : operands[i];
    }
    if (s->times) tuple = ir_call(b, b->f->module->funcs.items[s->n->func], args, s->n->arg_count);
    for (uint32_t r = 0; r < s->results; r++) {
        struct ir_type type = *ir_type(s->body, s->body->results.items[r].value);
        if (r >= s->carried) type = scan_rows(&type, s->times);
        if (!tuple) out[r] = r < s->carried ? operands[r] : ir_number(b, type, 0);
        else out[r] = r < s->carried ? ir_proj(b, tuple, r) : ir_reshape(b, ir_proj(b, tuple, r), type.rank, type.dim);
    }
}

void scan_expand(struct pass *p, struct ir_builder *b, const struct ir_node *n, const ir_value *operands,
                 const bool *used, ir_value *out)
{
    struct scan s = scan_of(b->f->module, n);
    if (s.times <= 1) {
        expand_plainly(p, b, &s, operands, out);
        return;
    }
    uint32_t carried = 0, captured = 0;
    ir_value *initial = arena_new_array(&p->scratch, ir_value, s.results + 1),
             *rest = arena_new_array(&p->scratch, ir_value, n->arg_count + 1);
    struct ir_func *body = loop_body(p, &s, b->f, n->place, operands, used);
    for (uint32_t i = 0; i < s.carried; i++) initial[carried++] = operands[i];
    for (uint32_t r = s.carried; r < s.results; r++)
        if (used[r])
            initial[carried++] = ir_number(b, scan_rows(ir_type(s.body, s.body->results.items[r].value), s.times), 0);
    for (uint32_t i = s.carried; i < n->arg_count; i++)
        if (i >= s.carried + s.stacked || !is_row_numbers(b->f, operands[i])) rest[captured++] = operands[i];
    ir_value loop = ir_loop(b, body, ir_scalar(b, IR_I32, (double)s.times), initial, carried, false, rest, captured);
    carried = 0;
    for (uint32_t r = 0; r < s.results; r++) out[r] = r < s.carried || used[r] ? ir_proj(b, loop, carried++) : 0;
}
