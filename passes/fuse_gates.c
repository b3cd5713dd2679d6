/* Small work between large: what is made of one gradient (its norm, means of its rows) and what its update waits for.
 * As one group with that of other gradients it would hold all updates up, and all gradients would live until then; so
 * small clusters only go together as siblings if they wait for large ones alike, and the same large ones wait for them.
 */
#include "passes/fuse.h"

enum { LARGE = 1 << 18 /* elements that take longer than a command of its own */ };

static bool is_large(struct fuse *z, ir_value v)
{
    uint32_t c = fuse_maker(z, v);
    return c != UINT32_MAX && (z->clusters.items[c].lone || z->clusters.items[c].full > LARGE);
}

static void widen(struct fuse_gate *to, struct fuse_gate from)
{
    if (!from.last) return;
    if (!to->last || from.first < to->first) to->first = from.first;
    if (from.last > to->last) to->last = from.last;
}

/* By cluster. What waits for it is told by the first and the last one of these. */
struct fuse_gate *fuse_gates(struct fuse *z)
{
    struct fuse_gate *of = arena_new_array(z->arena, struct fuse_gate, z->f->count),
                     *gate = arena_new_array(z->arena, struct fuse_gate, z->clusters.count + 1);
    for (ir_value v = 1; v < z->f->count; v++)
        for (uint32_t i = 0; z->node[v].live && i < z->node[v].dep_count; i++) {
            ir_value d = z->node[v].deps[i].value;
            of[v].behind |= d != v && (is_large(z, d) || of[d].behind);
        }
    for (ir_value v = z->f->count; v-- > 1;) {
        for (size_t i = 0; z->node[v].live && i < z->node[v].readers.count; i++) {
            ir_value r = z->node[v].readers.items[i];
            uint32_t c = fuse_maker(z, r);
            widen(&of[v], is_large(z, r) ? (struct fuse_gate){.first = c + 1, .last = c + 1} : of[r]);
        }
        if (!z->node[v].live || fuse_maker(z, v) == UINT32_MAX) continue;
        widen(&gate[fuse_maker(z, v)], of[v]);
        gate[fuse_maker(z, v)].behind |= of[v].behind;
    }
    return gate;
}

bool fuse_same_gate(const struct fuse_gate *a, const struct fuse_gate *b)
{
    return a->behind == b->behind && a->first == b->first && a->last == b->last;
}
