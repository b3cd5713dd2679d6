/* Gradients of control. That of an accumulation is an accumulation over the same microbatches: each is computed again
 * from its rows, so nothing of it is kept from the forward loop. That of a scan is in vjp_scan.c. Rows get the
 * gradients of their rows, what all microbatches share the sum. */
#include "passes/vjp.h"
#include <string.h>

enum { SUM, MEAN, RUNNING_MEAN, CONCATENATE, CARRY };

void vjp_proj(struct vjp *c)
{
    ir_value tuple = c->node.args[0], **parts = &c->parts[tuple];
    const struct ir_func *f = c->b->f;
    int64_t index = c->node.attr[0].v[0];
    if (ir_get(f, tuple)->op != OP_accumulate && ir_get(f, tuple)->op != OP_scan) {
        vjp_none(c);
        return;
    }
    if (!*parts) *parts = arena_new_array(&c->pass->scratch, ir_value, ir_tuple_count(f, tuple));
    (*parts)[index] = (*parts)[index] ? ir_binary(c->b, OP_add, (*parts)[index], c->ct) : c->ct;
}

struct accumulation {
    struct vjp *c;
    const struct ir_func *body;
    uint32_t batched, count; /* operands of the body */
    ir_value *args;          /* of the gradient's accumulation, without the limit */
    VEC(ir_value) shared;    /* cotangents that all microbatches share */
    VEC(ir_value) rows;      /* cotangents of rows */
    bool *wanted;            /* per operand of the body */
};

/* The cotangent of result r for one microbatch: a mean is a sum whose parts count for less. */
static ir_value scaled(struct accumulation *a, uint32_t r, ir_value ct)
{
    struct ir_builder *b = a->c->b;
    const struct ir_node *n = &a->c->node;
    int64_t kind = n->attr[3].v[r], nominal = n->attr[1].v[0];
    if (kind == MEAN) return ir_binary(b, OP_div, ct, ir_number_like(b, ct, (double)nominal));
    if (kind != RUNNING_MEAN) return ct;
    struct ir_type type = *ir_type(b->f, ct);
    ir_value run = ir_binary(b, OP_min, n->args[0], ir_scalar(b, IR_I32, (double)nominal));
    run = ir_cast(b, ir_binary(b, OP_max, run, ir_scalar(b, IR_I32, 1)), (enum ir_dtype)type.dtype);
    return ir_binary(b, OP_div, ct, ir_broadcast_to(b, run, type.rank, type.dim));
}

/* (parts.., cotangents of rows.., captured.., shared cotangents..) -> gradients of what is wanted. */
static struct ir_func *gradient_body(struct accumulation *a)
{
    struct vjp *c = a->c;
    struct arena *scratch = &c->pass->scratch;
    const ir_value *cts = c->parts[c->value];
    uint32_t results = (uint32_t)a->body->results.count;
    struct ir_func *f = pass_new_body(c->pass, c->b->f->module, a->body, "gradient");
    struct ir_builder b = {.f = f, .place = c->b->place};
    ir_value *in = arena_new_array(scratch, ir_value, a->count + 1), *y = arena_new_array(scratch, ir_value, results),
             *ct = arena_new_array(scratch, ir_value, results),
             *grad = arena_new_array(scratch, ir_value, a->count + 1);
    for (uint32_t pass = 0; pass < 2; pass++) { /* what is split comes first */
        for (uint32_t i = pass ? a->batched : 0; i < (pass ? a->count : a->batched); i++)
            in[i] = ir_param_new(&b, a->body->params.items[i].name, a->body->params.items[i].type, -1);
        for (uint32_t r = 0; r < results; r++)
            if (cts[r] && (c->node.attr[3].v[r] == CONCATENATE) == !pass)
                ct[r] = ir_param_new(&b, a->body->results.items[r].name,
                                     *ir_type(a->body, a->body->results.items[r].value), -1);
    }
    vjp_body(c->pass, &b, a->body, in, a->wanted, ct, y, grad);
    for (uint32_t i = 0; i < a->count; i++)
        if (a->wanted[i]) ir_result_add(&b, a->body->params.items[i].name, grad[i], -1);
    return f;
}

static void make(struct accumulation *a)
{
    struct vjp *c = a->c;
    struct arena *scratch = &c->pass->scratch;
    const ir_value *cts = c->parts[c->value];
    uint32_t n = 0, results = 0;
    for (uint32_t r = 0; r < a->body->results.count; r++) {
        if (!cts[r]) continue;
        if (c->node.attr[3].v[r] == CONCATENATE) vec_push(scratch, &a->rows, cts[r]);
        else vec_push(scratch, &a->shared, scaled(a, r, cts[r]));
    }
    ir_value *args = arena_new_array(scratch, ir_value, 1 + a->count + a->rows.count + a->shared.count);
    int64_t *kinds = arena_new_array(scratch, int64_t, a->count + 1);
    args[n++] = c->node.args[0];
    for (uint32_t i = 0; i < a->batched; i++) args[n++] = c->node.args[1 + i];
    for (size_t i = 0; i < a->rows.count; i++) args[n++] = a->rows.items[i];
    for (uint32_t i = a->batched; i < a->count; i++) args[n++] = c->node.args[1 + i];
    for (size_t i = 0; i < a->shared.count; i++) args[n++] = a->shared.items[i];
    for (uint32_t i = 0; i < a->count; i++)
        if (a->wanted[i]) kinds[results++] = i < a->batched ? CONCATENATE : SUM;
    int64_t batched = a->batched + (int64_t)a->rows.count;
    struct ir_node node = {.op = OP_accumulate, .arg_count = n, .args = args};
    node.func = ir_func_index(gradient_body(a));
    node.attr[0] = (struct ir_ints){&batched, 1};
    node.attr[1] = c->node.attr[1];
    node.attr[2] = c->node.attr[2];
    node.attr[3] = (struct ir_ints){kinds, results};
    ir_value tuple = ir_make(c->b, node);
    results = 0;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->wanted[i]) vjp_give(c, 1 + i, ir_proj(c->b, tuple, results++));
}

void vjp_accumulate(struct vjp *c)
{
    struct accumulation a = {.c = c, .batched = (uint32_t)c->node.attr[0].v[0], .count = c->node.arg_count - 1};
    bool any = false;
    a.body = c->b->f->module->funcs.items[c->node.func];
    for (uint32_t r = 0; r < c->node.attr[3].n; r++)
        if (c->node.attr[3].v[r] == CARRY) {
            pass_error(c->pass, c->b->f->module, c->node.place, "E0310",
                       "the gradient of microbatches that carry a state is not supported yet");
            return;
        }
    a.wanted = arena_new_array(&c->pass->scratch, bool, a.count + 1);
    for (uint32_t i = 0; i < a.count; i++) {
        a.wanted[i] = vjp_wants(c, 1 + i) && ir_dtype_is_float((enum ir_dtype)vjp_type(c, 1 + i)->dtype);
        any |= a.wanted[i];
    }
    if (any) make(&a);
}
