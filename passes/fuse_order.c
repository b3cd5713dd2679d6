/* The order of clusters: would one that is made of two need its own result? Every cluster has a height, more than that
 * of all clusters it reads. A path between two goes through heights in between only, and it is looked for from both
 * ends in turn, so that neither what very many read nor what reads very many is walked through where the other end is
 * near. */
#include "passes/fuse.h"

/* Edges; where a search gives up, two clusters stay two. All searches of a function together may take so many for each
 * of its values; from then on they are short, and after as many again there are none. */
enum { LIMIT = 100000, LIMIT_OF_VALUE = 50, LIMIT_THEN = 100 };

/* Breadth first, one edge at a time. The queues are those of the searches before, of which there are many. */
static struct fuse_search *begin(struct fuse_search *s)
{
    s->queue.count = s->head = s->node = s->edge = 0;
    return s;
}

/* The cluster at the other end of the next edge to what is read, or `up` to what reads; UINT32_MAX: this one leads
 * nowhere. */
static uint32_t next_edge(struct fuse *z, struct fuse_search *s, bool up)
{
    const struct fuse_cluster *k = &z->clusters.items[s->queue.items[s->head]];
    for (; s->node < k->nodes.count; s->node++, s->edge = 0) {
        const struct fuse_node *n = &z->node[k->nodes.items[s->node]];
        if (!up && s->edge < n->dep_count) return fuse_maker(z, n->deps[s->edge++].value);
        if (up && s->edge < n->readers.count && n->readers.items[s->edge] <= z->placed)
            return fuse_find(z, z->node[n->readers.items[s->edge++]].cluster);
    }
    s->head++;
    s->node = s->edge = 0;
    return UINT32_MAX;
}

/* Does one of the clusters in z->sources, all of them above `target`, depend on it? They have stamps. */
static bool found(struct fuse *z, uint32_t target, uint32_t top)
{
    struct fuse_search *sources = &z->sources, *readers = begin(&z->readers);
    uint32_t bottom = z->clusters.items[target].height;
    uint64_t budget = (uint64_t)z->f->count * LIMIT_OF_VALUE + LIMIT;
    uint32_t limit = z->edges <= budget ? LIMIT : z->edges <= 2 * budget ? LIMIT_THEN : 0;
    z->clusters.items[target].stamp[1] = z->stamp;
    vec_push(z->arena, &readers->queue, target);
    for (uint32_t i = 0; i < limit && sources->head < sources->queue.count && readers->head < readers->queue.count;
         i++, z->edges += 2)
        for (uint32_t up = 0; up < 2; up++) {
            struct fuse_search *s = up ? readers : sources;
            uint32_t c = next_edge(z, s, up);
            struct fuse_cluster *k = c == UINT32_MAX ? NULL : &z->clusters.items[c];
            if (k && k->stamp[!up] == z->stamp) return true;
            if (!k || k->stamp[up] == z->stamp || (up ? k->height >= top : k->height <= bottom)) continue;
            k->stamp[up] = z->stamp;
            vec_push(z->arena, &s->queue, c);
        }
    return sources->head < sources->queue.count && readers->head < readers->queue.count;
}

/* What a node reads beside `inside` and `target`, if it is above the target. */
static uint32_t add_sources(struct fuse *z, struct fuse_search *s, ir_value v, uint32_t inside, uint32_t target,
                            uint32_t top)
{
    const struct fuse_node *n = &z->node[v];
    for (uint32_t i = 0; i < n->dep_count; i++) {
        uint32_t c = fuse_maker(z, n->deps[i].value);
        struct fuse_cluster *k = c == UINT32_MAX ? NULL : &z->clusters.items[c];
        if (!k || c == inside || c == target || k->height <= z->clusters.items[target].height ||
            k->stamp[0] == z->stamp)
            continue;
        k->stamp[0] = z->stamp;
        vec_push(z->arena, &s->queue, c);
        top = k->height > top ? k->height : top;
    }
    return top;
}

bool fuse_needs(struct fuse *z, ir_value v, uint32_t target)
{
    z->stamp++;
    uint32_t top = add_sources(z, begin(&z->sources), v, target, target, 0);
    return z->sources.queue.count && found(z, target, top);
}

/* Does anything that cluster `c` reads depend on cluster `target`? Reading `target` itself directly is fine. */
static bool needs_between(struct fuse *z, uint32_t c, uint32_t target)
{
    const struct fuse_cluster *k = &z->clusters.items[c];
    uint32_t top = 0;
    if (k->height < z->clusters.items[target].height + 2) return false;
    z->stamp++;
    begin(&z->sources);
    for (size_t i = 0; i < k->nodes.count; i++) top = add_sources(z, &z->sources, k->nodes.items[i], c, target, top);
    return z->sources.queue.count && found(z, target, top);
}

bool fuse_makes_cycle(struct fuse *z, uint32_t a, uint32_t b)
{
    return needs_between(z, a, b) || needs_between(z, b, a);
}

/* Raises a cluster, and what reads it as far as it has to. */
void fuse_raise(struct fuse *z, uint32_t c, uint32_t height)
{
    struct fuse_search *up = begin(&z->readers);
    z->clusters.items[c].height = height;
    vec_push(z->arena, &up->queue, c);
    while (up->head < up->queue.count) {
        uint32_t at = up->queue.items[up->head], r = next_edge(z, up, true);
        if (r == UINT32_MAX || r == at || z->clusters.items[r].height > z->clusters.items[at].height) continue;
        z->clusters.items[r].height = z->clusters.items[at].height + 1;
        vec_push(z->arena, &up->queue, r);
    }
}

/* After a node was added: the cluster is above all that the node reads. */
void fuse_lift(struct fuse *z, uint32_t c, ir_value v)
{
    const struct fuse_node *n = &z->node[v];
    uint32_t height = z->clusters.items[c].height;
    for (uint32_t i = 0; i < n->dep_count; i++) {
        uint32_t d = fuse_maker(z, n->deps[i].value);
        if (d != UINT32_MAX && d != c && z->clusters.items[d].height >= height)
            height = z->clusters.items[d].height + 1;
    }
    if (height > z->clusters.items[c].height) fuse_raise(z, c, height);
}
