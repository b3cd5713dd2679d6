/* Which cluster a value belongs to, now that clusters have become one: a forest with short paths. */
#include "passes/fuse.h"

uint32_t fuse_find(struct fuse *z, uint32_t c)
{
    struct fuse_cluster *k = z->clusters.items;
    while (k[c].merged != c) c = k[c].merged = k[k[c].merged].merged;
    return c;
}

bool fuse_is_clustered(const struct fuse *z, ir_value v)
{
    return z->node[v].material || z->node[v].class == FUSE_CONTROL;
}

uint32_t fuse_maker(struct fuse *z, ir_value v)
{
    if (ir_get(z->f, v)->op == OP_proj) v = ir_get(z->f, v)->args[0];
    return fuse_is_clustered(z, v) ? fuse_find(z, z->node[v].cluster) : UINT32_MAX;
}
