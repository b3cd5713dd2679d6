/* Reverse-mode differentiation: every grad marker becomes backward nodes in the same function, one flat program. Only
 * nodes on a path from what is differentiated by to the loss are visited; cotangents are added from the last user to
 * the first, so the order of rounding is that of the text. What is called on the way to a loss is put in place of its
 * call first. Bodies come before their users, so a body's own markers are gone by then: also those that apply a
 * function to every row (vmap.c), which may stand around gradients and inside of losses. */
#include "passes/vjp.h"
#include "passes/vmap.h"
#include <string.h>

static vjp_rule *const rules[IR_OP_COUNT] = {
#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) [OP_##name] = vjp_##vjp,
#include "ir/ops.def"
#undef X
};

/* ---------------------------------------------------------------- one marker */

struct gradient {
    struct pass *pass;
    struct ir_builder *b;
    ir_value loss;
    const ir_value *wrt;
    uint32_t count;
    bool *depends; /* per value: on something of wrt */
    bool *wanted;  /* ... and differentiable all the way from it */
};

static void find_paths(struct gradient *g)
{
    const struct ir_func *f = g->b->f;
    for (uint32_t i = 0; i < g->count; i++) g->depends[g->wrt[i]] = g->wanted[g->wrt[i]] = true;
    for (ir_value v = 1; v <= g->loss; v++) {
        const struct ir_node *n = ir_get(f, v);
        bool carries = (ir_dtype_is_float((enum ir_dtype)n->type.dtype) || n->type.dtype == IR_TUPLE) &&
                       rules[n->op] != vjp_zero;
        for (uint32_t i = 0; i < n->arg_count; i++) {
            g->depends[v] |= g->depends[n->args[i]];
            g->wanted[v] |= carries && g->wanted[n->args[i]];
        }
    }
}

/* The loss has no gradient at all, though it is computed from what is differentiated by: most likely a mistake. The
 * first op on the way that has no gradient is to blame. */
static void check_dependence(struct gradient *g)
{
    const struct ir_func *f = g->b->f;
    bool *used = arena_new_array(&g->pass->scratch, bool, f->count);
    ir_value blamed = 0;
    used[g->loss] = true;
    for (ir_value v = g->loss; v > 0; v--) {
        const struct ir_node *n = ir_get(f, v);
        if (!used[v] || !g->depends[v]) continue;
        if (rules[n->op] == vjp_none) blamed = v;
        for (uint32_t i = 0; i < n->arg_count; i++) used[n->args[i]] = true;
    }
    if (!blamed) return;
    const struct ir_node *n = ir_get(f, blamed);
    struct diag *d = pass_error(g->pass, f->module, n->place, "E0311",
                                "the loss does not have any gradient: it depends on the "
                                "parameters only through %s, which is not differentiable",
                                ir_ops[n->op].name);
    d->hint = "use a differentiable function on the way from the model to the loss";
}

/* Fills `out` with one gradient per wrt. `must`: a loss that depends on none of them is a mistake. */
static void differentiate(struct gradient *g, bool must, ir_value *out)
{
    struct arena *scratch = &g->pass->scratch;
    struct ir_func *f = g->b->f;
    uint32_t place = g->b->place;
    ir_value *sums = arena_new_array(scratch, ir_value, f->count),
             **parts = arena_new_array(scratch, ir_value *, f->count);
    g->depends = arena_new_array(scratch, bool, f->count);
    g->wanted = arena_new_array(scratch, bool, f->count);
    find_paths(g);
    if (g->wanted[g->loss]) sums[g->loss] = ir_number_like(g->b, g->loss, 1);
    else if (must) check_dependence(g);
    for (ir_value v = g->loss; v > 0; v--) {
        if ((!sums[v] && !parts[v]) || !g->wanted[v]) continue;
        struct vjp c = {.pass = g->pass,
                        .b = g->b,
                        .node = *ir_get(f, v),
                        .value = v,
                        .ct = sums[v],
                        .wanted = g->wanted,
                        .sums = sums,
                        .parts = parts};
        g->b->place = c.node.place ? c.node.place : place;
        rules[c.node.op](&c);
    }
    g->b->place = place;
    for (uint32_t i = 0; i < g->count; i++)
        out[i] = sums[g->wrt[i]] ? sums[g->wrt[i]] : ir_number_like(g->b, g->wrt[i], 0);
}

/* ---------------------------------------------------------------- the pass */

struct state {
    struct pass *pass;
    const struct ir_func *from;
    ir_value **results; /* per value of it: of a marker or call that was replaced */
    bool *in_loss;      /* ... a loss is computed from it */
};

static ir_rewrite rewrite;

/* Everything that some live marker's loss is computed from. */
static bool *find_losses(const struct ir_func *f, struct arena *scratch)
{
    bool *live = ir_live(f, scratch), *in_loss = arena_new_array(scratch, bool, f->count);
    for (ir_value v = f->count - 1; v > 0; v--) {
        const struct ir_node *n = ir_get(f, v);
        if (live[v] && n->op == OP_grad) in_loss[n->args[0]] = true;
        for (uint32_t i = 0; in_loss[v] && i < n->arg_count; i++) in_loss[n->args[i]] = true;
    }
    return in_loss;
}

/* Puts a function in place of a call, and so what it calls, so that it can be differentiated. The callee's own markers
 * are gone. */
static void copy_body(struct pass *p, struct ir_builder *b, const struct ir_func *callee, const ir_value *operands,
                      ir_value *results)
{
    struct arena *scratch = &p->scratch;
    struct state inner = {p, callee, arena_new_array(scratch, ir_value *, callee->count),
                          arena_new_array(scratch, bool, callee->count)};
    memset(inner.in_loss, true, callee->count);
    pass_copy_body(b, callee, operands, results, rewrite, &inner, scratch);
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct state *s = user;
    struct arena *scratch = &s->pass->scratch;
    const struct ir_node *n = ir_get(from, old);
    if (s->from != from)
        *s = (struct state){s->pass, from, arena_new_array(scratch, ir_value *, from->count),
                            find_losses(from, scratch)};
    if (n->op == OP_proj && s->results[n->args[0]]) return s->results[n->args[0]][n->attr[0].v[0]];
    bool call = n->op == OP_call && s->in_loss[old];
    if (n->op != OP_grad && n->op != OP_vmap && !call) return pass_remake(s->pass, b, n, map);
    ir_value *operands = arena_new_array(scratch, ir_value, n->arg_count + 1u);
    for (uint32_t i = 0; i < n->arg_count; i++) operands[i] = map[n->args[i]];
    if (n->op != OP_grad) {
        const struct ir_func *callee = b->f->module->funcs.items[n->func];
        s->results[old] = arena_new_array(scratch, ir_value, callee->results.count + 1);
        if (call) copy_body(s->pass, b, callee, operands, s->results[old]);
        else vmap_rows(s->pass, b, callee, (uint32_t)n->attr[0].v[0], operands, s->results[old]);
        return 0;
    }
    struct gradient g = {.pass = s->pass, .b = b, .loss = operands[0], .wrt = operands + 1, .count = n->arg_count - 1};
    s->results[old] = arena_new_array(scratch, ir_value, n->arg_count);
    differentiate(&g, true, s->results[old]);
    return 0; /* a tuple that nobody reads any more */
}

/* The inner products with the cotangents are what the gradient is of. */
uint32_t vjp_body(struct pass *p, struct ir_builder *b, const struct ir_func *body, const ir_value *in,
                  const bool *wanted, const ir_value *ct, ir_value *y, ir_value *grad)
{
    static const int64_t every[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t n = (uint32_t)body->params.count;
    ir_value *wrt = arena_new_array(&p->scratch, ir_value, n + 1),
             *grads = arena_new_array(&p->scratch, ir_value, n + 1);
    struct gradient g = {.pass = p, .b = b, .wrt = wrt};
    copy_body(p, b, body, in, y);
    uint32_t end = b->f->count;
    for (size_t r = 0; r < body->results.count; r++) {
        if (!ct[r] || !ir_dtype_is_float((enum ir_dtype)ir_type(b->f, y[r])->dtype)) continue;
        ir_value product = ir_binary(b, OP_mul, y[r], ct[r]);
        uint32_t rank = ir_type(b->f, product)->rank;
        if (rank) product = ir_reduce(b, OP_reduce_sum, product, every, rank);
        product = ir_cast(b, product, IR_F32);
        g.loss = g.loss ? ir_binary(b, OP_add, g.loss, product) : product;
    }
    for (uint32_t i = 0; i < n; i++)
        if (wanted[i]) wrt[g.count++] = in[i];
    differentiate(&g, false, grads);
    for (uint32_t i = 0, next = 0; i < n; i++)
        if (wanted[i]) grad[i] = grads[next++];
    return g.loss ? end : 0;
}

struct ir_module *pass_autodiff(struct pass *p, struct ir_module *m)
{
    struct state s = {.pass = p};
    struct ir_module *to = pass_rebuild(p, m, rewrite, &s);
    if (!p->diags->errors) return to;
    ir_module_free(to);
    return NULL;
}
