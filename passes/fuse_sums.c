/* Sums of very many scalars, such as the squared norm of all gradients: they are laid end to end and summed like a
 * tensor. Where that is not to be had, a chain of additions becomes a tree, so that the additions of one height do not
 * wait for each other. Those of 16 bits are rounded one after the other, and stay. */
#include "passes/fuse.h"

bool fuse_is_scalar_sum(const struct ir_node *n)
{
    return n->op == OP_add && n->type.rank == 0 && ir_dtype_is_float((enum ir_dtype)n->type.dtype);
}

static void look_at(struct fuse_sums *s, const struct ir_func *f)
{
    const uint32_t *uses = ir_use_counts(f, s->arena);
    const bool *live = ir_live(f, s->arena);
    s->f = f;
    s->inner = arena_new_array(s->arena, bool, f->count);
    for (ir_value v = 1; v < f->count; v++)
        for (uint32_t i = 0; live[v] && fuse_is_scalar_sum(ir_get(f, v)) && i < 2; i++) {
            ir_value a = ir_get(f, v)->args[i];
            s->inner[a] = uses[a] == 1 && fuse_is_scalar_sum(ir_get(f, a));
        }
}

typedef VEC(ir_value) values;

/* The terms from left to right, as they are in the function being made. */
static void collect(struct fuse_sums *s, ir_value root, const ir_value *map, values *out)
{
    values open = {0};
    vec_push(s->arena, &open, root);
    while (open.count) {
        ir_value v = open.items[--open.count];
        if (v != root && !s->inner[v]) {
            vec_push(s->arena, out, map[v]);
            continue;
        }
        vec_push(s->arena, &open, ir_get(s->f, v)->args[1]);
        vec_push(s->arena, &open, ir_get(s->f, v)->args[0]);
    }
}

/* What is left of a large tensor's sum: partial sums come from the kernel that has its elements at hand, such as its
 * update. A concatenation would keep the two apart. */
static bool is_partial(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    return n->op == OP_reduce_sum && ir_get(f, n->args[0])->op == OP_reduce_sum;
}

/* Lays the terms of small tensors end to end, if there are many: their sum is one term then. */
static void join(struct fuse_sums *s, struct ir_builder *b, values *terms)
{
    values rest = {0}, joined = {0};
    int64_t one = 1, dim = 0;
    for (size_t i = 0; i < terms->count; i++)
        vec_push(s->arena, is_partial(b->f, terms->items[i]) ? &rest : &joined, terms->items[i]);
    if (joined.count < FUSE_MANY_TERMS) return;
    for (size_t i = 0; i < joined.count; i++) joined.items[i] = ir_reshape(b, joined.items[i], 1, &one);
    vec_push(s->arena, &rest,
             ir_reduce_plain(b, OP_reduce_sum, ir_concat(b, joined.items, (uint32_t)joined.count, 0), &dim, 1));
    *terms = rest;
}

/* 0: not the root of a sum of that many terms. */
ir_value fuse_sum(struct fuse_sums *s, struct ir_builder *b, const struct ir_func *from, ir_value old,
                  const ir_value *map)
{
    enum ir_dtype dtype = (enum ir_dtype)ir_get(from, old)->type.dtype;
    if (!fuse_is_scalar_sum(ir_get(from, old)) || (dtype != IR_F32 && dtype != IR_F64)) return 0;
    if (s->f != from) look_at(s, from);
    if (s->inner[old]) return 0;
    values terms = {0};
    collect(s, old, map, &terms);
    if (terms.count < FUSE_MANY_TERMS) return 0;
    if (s->join) join(s, b, &terms);
    while (terms.count > 1) {
        size_t sums = 0;
        for (size_t i = 0; i < terms.count; i += FUSE_FAN_IN) {
            ir_value sum = terms.items[i];
            for (size_t k = i + 1; k < i + FUSE_FAN_IN && k < terms.count; k++)
                sum = ir_binary(b, OP_add, sum, terms.items[k]);
            terms.items[sums++] = sum;
        }
        terms.count = sums;
    }
    return terms.items[0];
}
