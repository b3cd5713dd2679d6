/* Loops over time do what depends on time alone: values of a scan's body that depend only on what all times share are
 * computed before it, once (loop-invariant code motion). What costs nothing stays: it would only take memory.
 *
 * On a GPU, where each is a launch that reads all weights, so do loops over microbatches with what is cast to 16 bits
 * (hoist_casts). */
#include "passes/common.h"
#include <string.h>

enum depends { SHARED, ROW, CARRIED };

struct hoist {
    struct pass *pass;
    struct arena *arena;
    enum ir_op op; /* of the loops */
};

/* A scan, or a loop, taken apart. */
struct scan {
    const struct ir_node *n;
    const struct ir_func *body;
    uint32_t carried, captured; /* the first operand that is not carried; the first captured one */
    const ir_value *args;       /* in the new function */
    uint8_t *depends;           /* by value of the body */
    bool *moved;                /* ... computed before the loop, and read in it */
};

static bool is_free(const struct ir_node *n)
{
    if (!n->arg_count) return true;
    return n->op == OP_broadcast || n->op == OP_reshape || n->op == OP_transpose || n->op == OP_slice ||
           ir_is_cheap((enum ir_op)n->op);
}

static bool is_narrowing(const struct ir_func *f, const struct ir_node *n)
{
    return n->op == OP_cast &&
           ir_dtype_bytes((enum ir_dtype)n->type.dtype) < ir_dtype_bytes((enum ir_dtype)ir_type(f, n->args[0])->dtype);
}

static void look_at(struct hoist *h, struct scan *s)
{
    const struct ir_func *f = s->body;
    s->depends = arena_new_array(h->arena, uint8_t, f->count);
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        if (n->op == OP_param) {
            int64_t i = n->attr[0].v[0];
            s->depends[v] = i < s->carried ? CARRIED : i < s->captured ? ROW : SHARED;
        }
        for (uint32_t i = 0; i < n->arg_count; i++)
            if (s->depends[n->args[i]] > s->depends[v]) s->depends[v] = s->depends[n->args[i]];
        if (!(ir_ops[n->op].flags & IR_PURE) && n->op != OP_param) s->depends[v] = CARRIED;
    }
}

/* Marks values that depend on nothing but what is shared, cost something, and are read by what stays. */
static bool find_shared(struct hoist *h, struct scan *s)
{
    const struct ir_func *f = s->body;
    bool *live = ir_live(f, h->arena), *costs = arena_new_array(h->arena, bool, f->count), any = false;
    s->moved = arena_new_array(h->arena, bool, f->count);
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        costs[v] = h->op == OP_loop ? is_narrowing(f, n) : n->op != OP_param && !is_free(n);
        for (uint32_t i = 0; i < n->arg_count; i++) {
            costs[v] |= is_free(n) && costs[n->args[i]] && n->op != OP_broadcast;
            bool stays = s->depends[v] != SHARED || (h->op == OP_loop && !costs[v]);
            if (!live[v] || !stays || s->depends[n->args[i]] != SHARED) continue;
            ir_value a = n->args[i];
            while (ir_get(f, a)->op == OP_broadcast) a = ir_get(f, a)->args[0];
            any |= s->moved[a] |= costs[a];
        }
    }
    return any;
}

/* The scan again, with what is moved as operands; what its body does not read any more is none. */
static ir_value take_out(struct hoist *h, struct ir_builder *b, struct scan *s)
{
    const struct ir_func *f = s->body;
    bool *wanted = arena_new_array(h->arena, bool, f->count), *needed = arena_new_array(h->arena, bool, f->count);
    ir_value *outer = arena_new_array(h->arena, ir_value, f->count),
             *inner = arena_new_array(h->arena, ir_value, f->count);
    VEC(ir_value) args = {0};
    struct ir_builder k = {.f = pass_new_body(h->pass, b->f->module, f, "hoisted"), .place = s->n->place};
    memcpy(wanted, s->moved, f->count * sizeof *wanted);
    for (size_t i = 0; i < f->results.count; i++) needed[f->results.items[i].value] = true;
    for (ir_value v = f->count - 1; v > 0; v--)
        for (uint32_t i = 0; i < ir_get(f, v)->arg_count; i++) {
            wanted[ir_get(f, v)->args[i]] |= wanted[v];
            needed[ir_get(f, v)->args[i]] |= needed[v] && !s->moved[v];
        }
    for (uint32_t i = 0; i < s->n->arg_count; i++) {
        const struct ir_param *p = &f->params.items[i]; /* a loop's first one counts, its operand is the limit */
        outer[p->value] = i < s->captured ? 0 : s->args[i];
        if (i >= s->captured && !needed[p->value]) continue;
        inner[p->value] = ir_param_new(&k, p->name, p->type, -1);
        vec_push(h->arena, &args, s->args[i]);
    }
    pass_copy_nodes(b, f, wanted, outer, pass_copy_node, h->pass);
    for (ir_value v = 1; v < f->count; v++) {
        if (!s->moved[v]) continue;
        inner[v] = ir_param_new(&k, "hoisted", ir_get(f, v)->type, -1);
        vec_push(h->arena, &args, outer[v]);
    }
    pass_copy_nodes(&k, f, needed, inner, pass_copy_node, h->pass);
    for (size_t i = 0; i < f->results.count; i++)
        ir_result_add(&k, f->results.items[i].name, inner[f->results.items[i].value], -1);
    if (h->op == OP_loop)
        return ir_loop(b, k.f, args.items[0], args.items + 1, s->carried - 1, s->n->attr[1].v[0] != 0,
                       args.items + s->carried, (uint32_t)args.count - s->carried);
    return ir_scan(b, k.f, s->n->attr[2].v[0], s->n->attr[3].v[0] != 0, args.items, s->carried,
                   s->captured - s->carried, (uint32_t)args.count - s->captured);
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct hoist *h = user;
    const struct ir_node *n = ir_get(from, old);
    if (n->op != h->op) return pass_remake(h->pass, b, n, map);
    ir_value *args = arena_new_array(h->arena, ir_value, n->arg_count + 1u);
    for (uint32_t i = 0; i < n->arg_count; i++) args[i] = map[n->args[i]];
    struct scan s = {.n = n,
                     .body = b->f->module->funcs.items[n->func],
                     .carried = (uint32_t)n->attr[0].v[0],
                     .captured = (uint32_t)(n->attr[0].v[0] + n->attr[1].v[0]),
                     .args = args};
    if (h->op == OP_loop) s.captured = ++s.carried; /* behind the count */
    look_at(h, &s);
    return find_shared(h, &s) ? take_out(h, b, &s) : pass_remake(h->pass, b, n, map);
}

static bool is_scan(const struct ir_func *f, const struct ir_node *n)
{
    (void)f;
    return n->op == OP_scan;
}

static bool is_loop(const struct ir_func *f, const struct ir_node *n)
{
    (void)f;
    return n->op == OP_loop;
}

struct ir_module *pass_hoist(struct pass *p, struct ir_module *m)
{
    struct hoist h = {.pass = p, .arena = &p->scratch, .op = OP_scan};
    return pass_keeps(p, m, is_scan) ? m : pass_rebuild(p, m, rewrite, &h);
}

struct ir_module *pass_hoist_casts(struct pass *p, struct ir_module *m)
{
    struct hoist h = {.pass = p, .arena = &p->scratch, .op = OP_loop};
    return !p->options->blocks || pass_keeps(p, m, is_loop) ? m : pass_rebuild(p, m, rewrite, &h);
}
