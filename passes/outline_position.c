/* Positions: what a random initialization makes of the indices along all dimensions is the index in C order. Seen as
 * that, it does not depend on the shape. */
#include "passes/outline.h"

/* An integer that is `offset` + sum of scale[d] * index along d. */
struct affine {
    bool known;
    int64_t offset, scale[IR_MAX_RANK];
};

static bool is_number(const struct affine *a, uint32_t rank)
{
    bool any = false;
    for (uint32_t d = 0; d < rank; d++) any |= a->scale[d] != 0;
    return a->known && !any;
}

static struct affine sum(const struct affine *a, const struct affine *b, uint32_t rank)
{
    struct affine r = {.known = a->known && b->known};
    bool over = __builtin_add_overflow(a->offset, b->offset, &r.offset);
    for (uint32_t d = 0; d < rank; d++) over |= __builtin_add_overflow(a->scale[d], b->scale[d], &r.scale[d]);
    r.known &= !over;
    return r;
}

static struct affine product(const struct affine *a, const struct affine *b, uint32_t rank)
{
    if (!is_number(a, rank)) return is_number(b, rank) ? product(b, a, rank) : (struct affine){.known = false};
    struct affine r = {.known = b->known};
    bool over = __builtin_mul_overflow(a->offset, b->offset, &r.offset);
    for (uint32_t d = 0; d < rank; d++) over |= __builtin_mul_overflow(a->offset, b->scale[d], &r.scale[d]);
    r.known &= !over;
    return r;
}

static struct affine affine_of(const struct ir_node *n, const struct affine *const *args)
{
    struct affine r = {.known = true};
    if (n->op == OP_iota) {
        r.scale[n->attr[0].v[0]] = 1;
    } else if (ir_is_number(n)) {
        r.offset = (int64_t)ir_element_get((enum ir_dtype)n->type.dtype, n->data, 0);
    } else if ((n->op == OP_add || n->op == OP_mul) && args[0] && args[1]) {
        return n->op == OP_add ? sum(args[0], args[1], n->type.rank) : product(args[0], args[1], n->type.rank);
    } else {
        r.known = false;
    }
    return r;
}

static bool is_position(const struct affine *a, const struct ir_type *t)
{
    int64_t stride = 1;
    bool same = a->known && a->offset == 0;
    for (uint32_t d = t->rank; d-- > 0; stride *= t->dim[d]) same &= t->dim[d] == 1 || a->scale[d] == stride;
    return same && stride > 1;
}

void outline_find_positions(struct outline *o)
{
    const struct affine **known = arena_new_array(o->arena, const struct affine *, o->f->count);
    o->position = arena_new_array(o->arena, bool, o->f->count);
    for (ir_value v = 1; v < o->f->count; v++) {
        const struct ir_node *n = ir_get(o->f, v);
        enum ir_dtype dtype = (enum ir_dtype)n->type.dtype;
        if (!o->live[v] || n->type.rank < 2 || (dtype != IR_U32 && dtype != IR_I32)) continue;
        const struct affine *args[2] = {NULL, NULL};
        for (uint32_t i = 0; i < 2 && i < n->arg_count; i++) args[i] = known[n->args[i]];
        struct affine a = affine_of(n, args);
        if (!a.known) continue;
        known[v] = arena_copy(o->arena, &a, sizeof a);
        o->position[v] = n->arg_count && is_position(&a, &n->type);
    }
}
