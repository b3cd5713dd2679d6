/* The interpreter: the definition of what the IR means. Every pass keeps it unchanged, every target is compared
 * with it. Naive on purpose, but fast enough that whole models run through it. This file: running a function or one
 * node; leaves. The other rules are in eval_*.c. */
#include "ir/eval.h"
#include <math.h>
#include <string.h>

static eval_rule *const rules[IR_OP_COUNT] = {
#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) [OP_##name] = eval_##eval,
#include "ir/ops.def"
#undef X
};

void eval_none(struct eval_call *c) { BUG("%s: op %s cannot be evaluated", c->f->name, ir_ops[c->n->op].name); }

static void count_uses(const struct ir_func *f, struct eval_cell *cells)
{
    for (size_t i = 0; i < f->results.count; i++) cells[f->results.items[i].value].uses++;
    for (uint32_t v = f->count; v-- > 1;)
        if (cells[v].uses)
            for (uint32_t i = 0; i < f->nodes[v].arg_count; i++) cells[f->nodes[v].args[i]].uses++;
}

static void tell(const struct eval_call *c, ir_value v)
{
    const struct ir_tensor *t = &c->out->t[0];
    int64_t i = 0, n = ir_type_elements(&t->type);
    while (i < n && isfinite(t->v[i])) i++;
    if (i == n) return;
    struct arena scratch = {0};
    const struct ir_tensor **operands = arena_new_array(&scratch, const struct ir_tensor *, c->n->arg_count + 1);
    for (uint32_t k = 0; k < c->n->arg_count; k++)
        if (ir_type(c->f, c->n->args[k])->dtype != IR_TUPLE) operands[k] = eval_arg(c, k);
    c->e->see(c->e->user, c->f, v, t, operands);
    arena_free(&scratch);
}

/* Runs `f`; cells of the results stay, everything else goes as soon as its last user has run. */
static struct eval_cell *run(struct eval *e, const struct ir_func *f, const struct ir_tensor *params,
                             struct arena *frame)
{
    struct eval_cell *cells = arena_new_array(frame, struct eval_cell, f->count);
    count_uses(f, cells);
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = &f->nodes[v];
        if (!cells[v].uses) continue;
        uint32_t uses = cells[v].uses;
        if (n->type.dtype != IR_TUPLE && n->op != OP_param) eval_cell_new(e, &cells[v], &n->type, 1);
        struct eval_call c = {e, f, n, cells, params, &cells[v]};
        if (n->op == IR_NONE || n->op >= IR_OP_COUNT) BUG("function %s, value %u: no op", f->name, v);
        rules[n->op](&c);
        if (e->see && ir_dtype_is_float((enum ir_dtype)n->type.dtype)) tell(&c, v);
        cells[v].uses = uses;
        for (uint32_t i = 0; i < n->arg_count; i++)
            if (--cells[n->args[i]].uses == 0) eval_cell_drop(e, &cells[n->args[i]]);
    }
    return cells;
}

void eval_run(struct eval *e, const struct ir_func *f, const struct ir_tensor *params, struct ir_tensor *out)
{
    struct arena frame = {0};
    struct eval_cell *cells = run(e, f, params, &frame);
    for (size_t i = 0; i < f->results.count; i++) {
        const struct ir_tensor *t = &cells[f->results.items[i].value].t[0];
        eval_move(out[i].v, t->v, ir_type_elements(&t->type));
    }
    for (size_t i = 0; i < f->results.count; i++) eval_cell_drop(e, &cells[f->results.items[i].value]);
    arena_free(&frame);
}

static void eval_all(struct eval *e, const struct ir_func *f, const struct ir_tensor *params, struct ir_tensor *results,
                     struct arena *arena)
{
    for (size_t i = 0; i < f->results.count; i++) {
        const struct ir_type *type = &f->nodes[f->results.items[i].value].type;
        results[i] = (struct ir_tensor){*type, arena_new_array(arena, double, ir_type_elements(type))};
    }
    eval_run(e, f, params, results);
    arena_free(&e->pool.arena);
}

void ir_eval(const struct ir_func *f, enum ir_precision precision, const struct ir_tensor *params,
             struct ir_tensor *results, struct arena *arena)
{
    eval_all(&(struct eval){.precision = precision}, f, params, results, arena);
}

void ir_eval_watched(const struct ir_func *f, const struct ir_tensor *params, struct ir_tensor *results,
                     struct arena *arena, ir_eval_see *see, void *user)
{
    eval_all(&(struct eval){.precision = IR_EVAL_EXACT_DTYPES, .see = see, .user = user}, f, params, results, arena);
}

void ir_eval_node(struct ir_node *node, struct ir_tensor *args, struct ir_tensor *out)
{
    static const ir_value numbers[IR_EVAL_OPERANDS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    struct eval e = {.precision = IR_EVAL_EXACT_DTYPES};
    struct eval_cell cells[IR_EVAL_OPERANDS], result = {.t = out, .count = 1};
    ASSERT(node->arg_count <= IR_EVAL_OPERANDS);
    for (uint32_t i = 0; i < node->arg_count; i++) cells[i] = (struct eval_cell){.t = &args[i], .count = 1};
    node->args = numbers;
    rules[node->op](&(struct eval_call){.e = &e, .n = node, .cells = cells, .out = &result});
    arena_free(&e.pool.arena);
}

/* ---------------------------------------------------------------- leaves */

void eval_param(struct eval_call *c)
{
    const struct ir_tensor *given = &c->params[c->n->attr[0].v[0]];
    if (!ir_type_equal(&given->type, &c->n->type))
        BUG("%s: parameter %d has another type than what was passed", c->f->name, (int)c->n->attr[0].v[0]);
    c->out->t = arena_new(&c->e->pool.arena, struct ir_tensor);
    *c->out->t = *given;
    c->out->count = 1;
    c->out->owned = false;
}

void eval_constant(struct eval_call *c)
{
    struct ir_tensor *out = c->out->t;
    struct ir_tensor data = {c->n->type, NULL};
    struct arena scratch = {0};
    int64_t count = ir_type_elements(&out->type);
    if (c->n->splat) data.type = ir_type_scalar((enum ir_dtype)c->n->type.dtype);
    ir_tensor_from_bytes(&data, c->n->data, &scratch);
    for (int64_t i = 0; i < count; i++) out->v[i] = data.v[c->n->splat ? 0 : i];
    arena_free(&scratch);
}

void eval_iota(struct eval_call *c)
{
    struct ir_tensor *out = c->out->t;
    int64_t stride[IR_MAX_RANK], dim = c->n->attr[0].v[0], count = ir_type_elements(&out->type);
    eval_strides(&out->type, stride);
    for (int64_t i = 0; i < count; i++) out->v[i] = (double)(i / stride[dim] % out->type.dim[dim]);
    eval_to_dtype(c->e->precision, (enum ir_dtype)out->type.dtype, out->v, count);
}
