/* Calls are replaced by their bodies, and every loop gets a body of its own, so that from here on a function and a
 * value name one tensor. What stood for the gradient of another value has done its work and goes. Entry functions come
 * first and keep their order; functions that nothing names any more are left behind. */
#include "passes/accumulate.h"

struct state {
    struct pass *pass;
    const struct ir_module *from;
    ir_value **results; /* per old value: of a call that was replaced */
    uint32_t *copies;   /* per old function: loops that it is the body of so far */
    uint32_t *outlined; /* per old function that stays one: its copy, 0 = none yet */
};

static void rebuild(struct state *, const struct ir_func *from, struct ir_func *to);

/* The loop's own copy of its body. */
static struct ir_func *copy_body(struct state *s, struct ir_module *to, uint32_t func)
{
    const struct ir_func *body = s->from->funcs.items[func];
    uint32_t number = s->copies[func]++;
    const char *name = number ? arena_format(&s->pass->scratch, "%s.copy%u", body->name, number) : body->name;
    struct ir_func *copy = ir_func_new(to, name, false);
    rebuild(s, body, copy);
    return copy;
}

/* What differs from its first operand in its gradient alone. */
static bool is_of_gradients(const struct ir_node *n) { return n->op == OP_surrogate || n->op == OP_sloped; }

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct state *s = user;
    struct arena *scratch = &s->pass->scratch;
    const struct ir_node *n = ir_get(from, old);
    if (n->op == OP_proj && s->results[n->args[0]]) return s->results[n->args[0]][n->attr[0].v[0]];
    if (is_of_gradients(n)) return map[n->args[0]];
    if (n->op != OP_call && n->op != OP_loop) return pass_remake(s->pass, b, n, map);
    if (n->op == OP_loop) {
        struct ir_node loop = *n;
        loop.func = ir_func_index(copy_body(s, b->f->module, n->func));
        return pass_remake(s->pass, b, &loop, map);
    }
    const struct ir_func *callee = s->from->funcs.items[n->func];
    if (pass_is_outlined(callee)) {
        struct ir_node call = *n;
        if (!s->outlined[n->func]) s->outlined[n->func] = ir_func_index(copy_body(s, b->f->module, n->func));
        call.func = s->outlined[n->func];
        return pass_remake(s->pass, b, &call, map);
    }
    ir_value *operands = arena_new_array(scratch, ir_value, n->arg_count + 1u);
    for (uint32_t i = 0; i < n->arg_count; i++) operands[i] = map[n->args[i]];
    s->results[old] = arena_new_array(scratch, ir_value, callee->results.count + 1);
    struct state inner = *s;
    inner.results = arena_new_array(scratch, ir_value *, callee->count);
    pass_copy_body(b, callee, operands, s->results[old], rewrite, &inner, scratch);
    return 0; /* a tuple that nobody reads any more */
}

static void rebuild(struct state *s, const struct ir_func *from, struct ir_func *to)
{
    struct state inner = *s;
    inner.results = arena_new_array(&s->pass->scratch, ir_value *, from->count);
    ir_rebuild(from, to, rewrite, &inner, &s->pass->scratch);
}

/* Calls that stay elsewhere are replaced here, too. */
static ir_value flatten(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct state *s = user;
    const struct ir_node *n = ir_get(from, old);
    if (n->op == OP_proj && s->results[n->args[0]]) return s->results[n->args[0]][n->attr[0].v[0]];
    if (n->op != OP_call) return pass_remake(s->pass, b, n, map);
    const struct ir_func *callee = b->f->module->funcs.items[n->func];
    struct state inner = {.pass = s->pass, .results = arena_new_array(&s->pass->scratch, ir_value *, callee->count)};
    ir_value *operands = arena_new_array(&s->pass->scratch, ir_value, n->arg_count + 1u);
    for (uint32_t i = 0; i < n->arg_count; i++) operands[i] = map[n->args[i]];
    s->results[old] = arena_new_array(&s->pass->scratch, ir_value, callee->results.count + 1);
    pass_copy_body(b, callee, operands, s->results[old], flatten, &inner, &s->pass->scratch);
    return 0;
}

struct ir_func *pass_flat(struct pass *p, struct ir_module *m, const struct ir_func *body)
{
    struct ir_builder b = {.f = pass_new_body(p, m, body, "flat")};
    struct state s = {.pass = p, .results = arena_new_array(&p->scratch, ir_value *, body->count)};
    ir_value *operands = arena_new_array(&p->scratch, ir_value, body->params.count + 1);
    ir_value *results = arena_new_array(&p->scratch, ir_value, body->results.count + 1);
    for (size_t i = 0; i < body->params.count; i++)
        operands[i] = ir_param_new(&b, body->params.items[i].name, body->params.items[i].type, -1);
    pass_copy_body(&b, body, operands, results, flatten, &s, &p->scratch);
    for (size_t i = 0; i < body->results.count; i++) ir_result_add(&b, body->results.items[i].name, results[i], -1);
    return b.f;
}

static bool nothing_to_do(const struct ir_module *m)
{
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *f = m->funcs.items[i];
        if (!f->entry && !pass_is_outlined(f)) return false;
        for (ir_value v = 1; v < f->count; v++)
            if (is_of_gradients(ir_get(f, v))) return false;
    }
    return true;
}

struct ir_module *pass_inline(struct pass *p, struct ir_module *m)
{
    if (nothing_to_do(m)) return m;
    struct ir_module *to = ir_module_like(m);
    struct state s = {.pass = p,
                      .from = m,
                      .copies = arena_new_array(&p->scratch, uint32_t, m->funcs.count),
                      .outlined = arena_new_array(&p->scratch, uint32_t, m->funcs.count)};
    to->funcs.count = 0; /* entries and copies of bodies only */
    for (size_t i = 0; i < m->funcs.count; i++)
        if (m->funcs.items[i]->entry) ir_func_new(to, m->funcs.items[i]->name, true);
    for (size_t i = 0; i < m->funcs.count; i++)
        if (m->funcs.items[i]->entry) rebuild(&s, m->funcs.items[i], ir_func_find(to, m->funcs.items[i]->name));
    return to;
}
