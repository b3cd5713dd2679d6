/* Signs of what a product makes: where a rectifier's argument is wanted again for its sign alone, by the gradient, a
 * byte of each element is kept in place of the argument. */
#include "passes/fuse.h"

enum { LEAST = 1 << 14 /* elements: fewer stay in caches */ };

static bool compares(const struct ir_func *f, ir_value v, ir_value *with)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op != OP_lt && n->op != OP_le && n->op != OP_eq && n->op != OP_ne) return false;
    bool first = ir_is_number(ir_get(f, n->args[0]));
    *with = n->args[first];
    return first != ir_is_number(ir_get(f, n->args[1]));
}

/* By value: the last node that reads it; other than comparisons with numbers and what these choose. */
struct readers {
    ir_value *last, *other;
};

static struct readers find_readers(const struct fuse *z)
{
    const struct ir_func *f = z->f;
    struct readers r = {arena_new_array(z->arena, ir_value, f->count), arena_new_array(z->arena, ir_value, f->count)};
    for (size_t i = 0; i < f->results.count; i++) {
        ir_value v = f->results.items[i].value;
        r.last[v] = r.other[v] = f->count;
    }
    for (ir_value v = f->count; v-- > 1;) {
        const struct ir_node *n = ir_get(f, v);
        ir_value of = 0, with;
        if (!z->node[v].live) continue;
        if (n->op == OP_select && compares(f, n->args[0], &with)) of = with;
        else compares(f, v, &of);
        for (uint32_t i = 0; i < n->arg_count; i++) {
            ir_value arg = n->args[i];
            if (!r.last[arg]) r.last[arg] = v;
            if (!r.other[arg] && arg != of) r.other[arg] = v;
        }
    }
    return r;
}

/* A product that is read once, with what is added to each of its columns. */
static bool is_of_product(const struct fuse *z, ir_value v)
{
    for (;;) {
        const struct ir_node *n = ir_get(z->f, v);
        if (z->node[v].class == FUSE_DOT) return true;
        bool adds = n->op == OP_add || n->op == OP_sub || n->op == OP_mul;
        if (n->op != OP_reshape && !adds) return false;
        bool second = adds && ir_get(z->f, n->args[0])->op == OP_broadcast;
        if (adds && ir_get(z->f, n->args[!second])->op != OP_broadcast) return false;
        v = n->args[second];
        if (z->node[v].uses != 1) return false;
    }
}

void fuse_store_masks(struct fuse *z)
{
    const struct ir_func *f = z->f;
    struct readers r = find_readers(z);
    ir_value product = 0, with; /* the next one behind a value */
    for (ir_value v = f->count; v-- > 1;) {
        if (!z->node[v].live) continue;
        bool late = product && r.last[v] > product; /* made again where it is read, otherwise */
        if (late && z->node[v].elements >= LEAST && compares(f, v, &with) && r.other[with] < product &&
            is_of_product(z, with))
            z->node[v].needs_buffer = true;
        if (z->node[v].class == FUSE_DOT) product = v;
    }
}
