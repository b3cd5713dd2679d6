/* Fusion: which nodes are computed together. Material nodes are visited in definition order; each joins the cluster
 * of an operand if the cluster's template can compute it at the same index and no cycle between clusters arises, and
 * clusters that meet in a node become one. Afterwards clusters that walk the same domain over the same inputs are put
 * together too. One cluster becomes one group, one kernel. */
#include "passes/fuse.h"
#include <string.h>

enum { MAX_NODES = 600, MAX_BUFFERS = 40, LARGE = 65536, MAX_TRIED = 64 };
static const double max_work = 4000; /* of a cluster: what makes machine code takes more than linear time of a kernel */

/* A launch passes 4 KiB of parameters to every device, 508 addresses, some of which are of what a cluster makes. */
enum { MOST_READS = 400 };

static bool is_reduction(enum plan_group_kind kind) { return kind == GROUP_ROW || kind == GROUP_COLUMN; }

/* ---------------------------------------------------------------- levels */

/* The level at which a node has to be computed in a cluster, given how it reads that cluster's members: -1 none. */
static int level_in(struct fuse *z, ir_value v, uint32_t c)
{
    const struct fuse_cluster *k = &z->clusters.items[c];
    const struct fuse_node *n = &z->node[v];
    int level = -2;
    for (uint32_t i = 0; i < n->dep_count; i++) {
        const struct fuse_dep *d = &n->deps[i];
        if (!fuse_is_clustered(z, d->value) || fuse_find(z, z->node[d->value].cluster) != c) continue;
        int here = -1, operand = z->node[d->value].level;
        if (n->class == FUSE_REDUCE)
            here = d->relation == FUSE_SAME && operand == FUSE_FULL && k->segments == n->segments ? FUSE_ROW : -1;
        else if (d->relation == FUSE_SAME) here = operand;
        else if (d->relation == FUSE_SPREAD && operand == FUSE_ROW && k->segments == d->segments) here = FUSE_FULL;
        /* a reduction's operand may be spread from rows inside the same domain */
        if (n->class == FUSE_REDUCE && d->relation == FUSE_SPREAD && operand == FUSE_ROW &&
            d->segments == n->segments && k->segments == n->segments)
            here = FUSE_ROW;
        if (here < 0 || (level >= 0 && level != here)) return -1;
        level = here;
    }
    if (level == -2) return -1;
    int64_t expected = level == FUSE_FULL ? k->full : k->rows;
    return n->elements == expected ? level : -1;
}

static uint32_t count_inputs(struct fuse *z, uint32_t c)
{
    uint32_t count = 0;
    const struct fuse_cluster *k = &z->clusters.items[c];
    for (size_t i = 0; i < k->nodes.count; i++) count += z->node[k->nodes.items[i]].dep_count > 0;
    return count;
}

/* ---------------------------------------------------------------- depth */

/* Reductions of the clusters a and b that must follow one another before `v` is there. */
static uint32_t find_depth(struct fuse *z, ir_value v, uint32_t a, uint32_t b)
{
    const struct fuse_node *n = &z->node[v];
    uint32_t most = 0;
    if (z->depth_stamp[v] == z->depth_turn) return z->depth[v];
    for (uint32_t i = 0; i < n->dep_count; i++) {
        uint32_t c = n->deps[i].value == v ? UINT32_MAX : fuse_maker(z, n->deps[i].value);
        if (c == UINT32_MAX || (c != a && c != b) || z->node[n->deps[i].value].class == FUSE_CONTROL) continue;
        uint32_t depth = find_depth(z, n->deps[i].value, a, b);
        most = depth > most ? depth : most;
    }
    z->depth_stamp[v] = z->depth_turn;
    return z->depth[v] = most + (n->class == FUSE_REDUCE);
}

/* Every reduction that needs another one's result walks the domain again and computes again what came before. That is
 * cheap as long as the domain is a row in the nearest cache. */
static uint32_t depth_limit(int64_t full, int64_t rows)
{
    return rows == 1 && full > FUSE_SMALL ? 3 : PLAN_MAX_PASSES - 1;
}

static bool shallow(struct fuse *z, uint32_t a, uint32_t b, ir_value added)
{
    const struct fuse_cluster *x = &z->clusters.items[a], *y = &z->clusters.items[b];
    const struct fuse_cluster *r = is_reduction(x->kind) ? x : y;
    uint32_t limit = depth_limit(r->full, r->rows);
    if (!is_reduction(r->kind) || x->reductions + (a == b ? 0 : y->reductions) + (added != 0) <= limit) return true;
    z->depth_turn++;
    if (added) return find_depth(z, added, a, b) <= limit;
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < (turn ? x : y)->nodes.count; i++)
            if (find_depth(z, (turn ? x : y)->nodes.items[i], a, b) > limit) return false;
    return true;
}

/* ---------------------------------------------------------------- clusters */

static uint32_t new_cluster(struct fuse *z, enum plan_group_kind kind, int64_t full, int64_t rows)
{
    struct fuse_cluster c = {.kind = kind,
                             .full = full,
                             .rows = rows,
                             .merged = (uint32_t)z->clusters.count,
                             .reason = "nothing that follows walks the same elements"};
    vec_push(z->arena, &z->clusters, c);
    return c.merged;
}

/* Sums whose order is fixed are trees, whose leaves a kernel goes through one by one: so they are the same for all. */
static int64_t leaf_of(const struct fuse *z, ir_value v)
{
    const struct ir_node *n = ir_get(z->f, v);
    return n->op == OP_reduce_sum && n->attr[1].n ? n->attr[1].v[0] : 0;
}

static bool leaves_fit(int64_t a, int64_t b) { return !a || !b || a == b; }

/* How many tensors of `least` elements or more a node reads beside a cluster. */
static uint32_t reads_beside(struct fuse *z, ir_value v, uint32_t c, int64_t least)
{
    uint32_t count = 0;
    const struct fuse_node *n = &z->node[v];
    for (uint32_t i = 0; i < n->dep_count; i++) {
        ir_value d = n->deps[i].value;
        bool inside = fuse_is_clustered(z, d) && fuse_find(z, z->node[d].cluster) == c;
        count += !inside && z->node[d].elements >= least;
    }
    return count;
}

static void add_node(struct fuse *z, uint32_t c, ir_value v, int level)
{
    int64_t leaf = leaf_of(z, v);
    z->node[v].cluster = c;
    z->node[v].level = (uint8_t)level;
    z->clusters.items[c].region |= z->node[v].region;
    z->clusters.items[c].windows |= z->node[v].window;
    z->clusters.items[c].follows |= z->node[v].follows;
    z->clusters.items[c].decides |= z->node[v].decides;
    z->clusters.items[c].reductions += z->node[v].class == FUSE_REDUCE;
    z->clusters.items[c].work += z->node[v].inline_cost;
    z->clusters.items[c].reads += reads_beside(z, v, c, 0);
    if (leaf) z->clusters.items[c].leaf = leaf;
    vec_push(z->arena, &z->clusters.items[c].nodes, v);
    z->placed = v;
    fuse_lift(z, c, v);
}

/* Enough rows, or columns, for several workers, or so little work that one is enough. */
static bool parallel_enough(const struct fuse_segments *s)
{
    if (s->full <= 65536) return true;
    bool row = s->reduced[s->n - 1];
    return row ? s->rows >= 16 : s->rows >= 512;
}

static enum plan_group_kind kind_of_segments(const struct fuse_segments *s)
{
    return s->reduced[s->n - 1] ? GROUP_ROW : GROUP_COLUMN;
}

/* A map can become part of a reduction's cluster: its elements are the domain's, or its rows. */
static int level_of_map(const struct fuse_cluster *map, const struct fuse_cluster *reduction)
{
    if (map->full == reduction->full) return FUSE_FULL;
    return map->full == reduction->rows ? FUSE_ROW : -1;
}

static bool read_outside(struct fuse *z, ir_value v)
{
    const struct fuse_node *n = &z->node[v];
    for (size_t i = 0; i < n->readers.count; i++)
        if (fuse_find(z, z->node[n->readers.items[i]].cluster) != fuse_find(z, n->cluster)) return true;
    return false;
}

/* A map whose values are new state, and what is needed for nothing else. */
static bool settled(struct fuse *z, uint32_t c)
{
    const struct fuse_cluster *k = &z->clusters.items[c];
    bool all = k->kind == GROUP_MAP;
    for (size_t i = 0; i < k->nodes.count && all; i++) {
        const struct fuse_node *n = &z->node[k->nodes.items[i]];
        all = n->state || n->region || !read_outside(z, k->nodes.items[i]);
    }
    return all;
}

/* A reduction by rows that may as well be made with the update: nothing large waits for it. */
static bool can_wait(struct fuse *z, uint32_t c)
{
    const struct fuse_cluster *k = &z->clusters.items[c];
    bool all = k->kind == GROUP_ROW && !k->region && k->rows >= 16 && k->full > LARGE;
    for (size_t i = 0; i < k->nodes.count && all; i++)
        all = z->node[k->nodes.items[i]].late || !read_outside(z, k->nodes.items[i]);
    return all;
}

static bool regions_fit(struct fuse *z, uint32_t a, uint32_t b)
{
    const struct fuse_cluster *x = &z->clusters.items[a], *y = &z->clusters.items[b];
    return x->region == y->region || (x->full <= FUSE_SMALL && y->full <= FUSE_SMALL) ||
           (settled(z, a) && (settled(z, b) || can_wait(z, b))) || (settled(z, b) && can_wait(z, a));
}

static void absorb(struct fuse *z, uint32_t into, uint32_t from, int map_level)
{
    struct fuse_cluster *a = &z->clusters.items[into], *b = &z->clusters.items[from];
    for (size_t i = 0; i < b->nodes.count; i++) {
        if (map_level >= 0) z->node[b->nodes.items[i]].level = (uint8_t)map_level;
        vec_push(z->arena, &a->nodes, b->nodes.items[i]);
    }
    a->region |= b->region;
    a->windows |= b->windows;
    a->follows |= b->follows;
    a->decides |= b->decides;
    a->reductions += b->reductions;
    a->reads += b->reads;
    a->work += b->work;
    if (b->leaf) a->leaf = b->leaf;
    b->merged = into;
    b->nodes.count = 0;
    fuse_raise(z, into, a->height > b->height ? a->height : b->height);
}

/* Do the members of the two agree on how their values are indexed where one reads the other? */
static bool links_fit(struct fuse *z, uint32_t a, uint32_t b, int level_a, int level_b, uint32_t segments)
{
    const struct fuse_cluster *k = &z->clusters.items[a];
    for (size_t i = 0; i < k->nodes.count; i++) {
        const struct fuse_node *n = &z->node[k->nodes.items[i]];
        int level = level_a >= 0 ? level_a : n->level;
        for (uint32_t j = 0; j < n->dep_count; j++) {
            const struct fuse_dep *d = &n->deps[j];
            if (!fuse_is_clustered(z, d->value) || fuse_find(z, z->node[d->value].cluster) != b) continue;
            int operand = level_b >= 0 ? level_b : z->node[d->value].level;
            bool same = d->relation == FUSE_SAME &&
                        (n->class == FUSE_REDUCE ? operand == FUSE_FULL && n->segments == segments : operand == level);
            bool spread = d->relation == FUSE_SPREAD && operand == FUSE_ROW && d->segments == segments &&
                          (n->class == FUSE_REDUCE ? n->segments == segments : level == FUSE_FULL);
            if (!same && !spread) return false;
        }
    }
    return true;
}

/* What is made again stays apart from what was made before: together they would be made at once. */
static bool is_behind(const struct fuse *z, ir_value v) { return v >= z->f->turn; }

/* Does one read the other, or both what is made behind the turn? Else they may belong to parts that are made again at
 * different times. */
static bool is_near(struct fuse *z, uint32_t a, uint32_t b)
{
    const struct fuse_cluster *x = &z->clusters.items[a], *y = &z->clusters.items[b];
    if (!z->f->turn || (x->full <= FUSE_SMALL && y->full <= FUSE_SMALL)) return true;
    for (size_t i = 0; i < x->nodes.count; i++)
        for (uint32_t j = 0; j < z->node[x->nodes.items[i]].dep_count; j++) {
            ir_value d = z->node[x->nodes.items[i]].deps[j].value;
            if (fuse_is_clustered(z, d) && fuse_find(z, z->node[d].cluster) == b) return true;
            for (size_t k = 0; k < z->node[d].readers.count && is_behind(z, d); k++) {
                ir_value v = z->node[d].readers.items[k];
                if (fuse_is_clustered(z, v) && fuse_find(z, z->node[v].cluster) == b) return true;
            }
        }
    return false;
}

/* The number of full-size tensors a node reads beside the cluster it would join. */
static uint32_t foreign_inputs(struct fuse *z, ir_value v, uint32_t c)
{
    return reads_beside(z, v, c, z->node[v].elements / 4 + 1);
}

/* Can a product's tiles make what a map makes, once the product is there? On a GPU that saves a pass over memory; on a
 * CPU, whose caches hold what lies between the two, the tile's end would take longer (a GELU's value and gradient: 8 %
 * of a step). Each node may read two tensors of its own from memory, as of what joins a product (can_join). */
static bool ends_with_tile(struct fuse *z, uint32_t product, uint32_t map)
{
    const struct fuse_cluster *x = &z->clusters.items[product], *y = &z->clusters.items[map];
    if (!z->pass->options->blocks || y->region || y->full != x->full) return false;
    for (size_t i = 0; i < y->nodes.count; i++)
        if (z->node[y->nodes.items[i]].class != FUSE_EWISE || foreign_inputs(z, y->nodes.items[i], map) > 2)
            return false;
    return true;
}

static bool passes_reads(const struct fuse *z, uint32_t reads)
{
    return !z->pass->options->blocks || reads <= MOST_READS;
}

/* Puts two clusters together if one template can do both. Returns the joint one, or UINT32_MAX. */
static uint32_t merge(struct fuse *z, uint32_t a, uint32_t b)
{
    struct fuse_cluster *x = &z->clusters.items[a], *y = &z->clusters.items[b];
    if (a == b) return a;
    if ((x->windows && y->kind != GROUP_MAP) || (y->windows && x->kind != GROUP_MAP)) return UINT32_MAX;
    if (x->lone || y->lone || x->apart || y->apart || x->nodes.count + y->nodes.count > MAX_NODES ||
        x->work + y->work > max_work || is_behind(z, x->nodes.items[0]) != is_behind(z, y->nodes.items[0]) ||
        !(is_near(z, a, b) || is_near(z, b, a)) || !regions_fit(z, a, b) || fuse_apart(z, a, b) ||
        (x->follows && y->decides) || (x->decides && y->follows))
        return UINT32_MAX;
    int level_a = -1, level_b = -1;
    if (is_reduction(x->kind) && is_reduction(y->kind)) {
        if (x->segments != y->segments || !leaves_fit(x->leaf, y->leaf)) return UINT32_MAX;
    } else if (is_reduction(x->kind) && y->kind == GROUP_MAP) {
        if ((level_b = level_of_map(y, x)) < 0) return UINT32_MAX;
    } else if ((is_reduction(y->kind) || y->kind == GROUP_DOT) && x->kind == GROUP_MAP) {
        return merge(z, b, a);
    } else if (x->kind == GROUP_DOT && y->kind == GROUP_MAP) {
        if (!ends_with_tile(z, a, b)) return UINT32_MAX;
    } else if (x->kind != GROUP_MAP || y->kind != GROUP_MAP || x->full != y->full) {
        return UINT32_MAX;
    }
    if (count_inputs(z, a) + count_inputs(z, b) > 4 * MAX_BUFFERS || !passes_reads(z, x->reads + y->reads))
        return UINT32_MAX;
    if (!links_fit(z, a, b, level_a, level_b, x->segments) || !links_fit(z, b, a, level_b, level_a, x->segments))
        return UINT32_MAX;
    if (!shallow(z, a, b, 0) || fuse_makes_cycle(z, a, b)) return UINT32_MAX;
    absorb(z, a, b, level_b);
    return a;
}

/* A sum of what several reductions made, say: it would hold up a cluster that reads a tensor to be updated in place. */
static bool holds_up(struct fuse *z, ir_value v, uint32_t c)
{
    const struct fuse_cluster *k = &z->clusters.items[c];
    const struct fuse_node *n = &z->node[v];
    bool foreign = false;
    for (uint32_t i = 0; i < n->dep_count && n->elements == 1 && is_reduction(k->kind); i++) {
        uint32_t d = fuse_maker(z, n->deps[i].value);
        foreign |= d != UINT32_MAX && d != c;
    }
    for (size_t i = 0; i < k->nodes.count && foreign; i++)
        for (uint32_t j = 0; j < z->node[k->nodes.items[i]].dep_count; j++) {
            const struct fuse_node *d = &z->node[z->node[k->nodes.items[i]].deps[j].value];
            if (d->replaced && d->elements > 1) return true;
        }
    return false;
}

/* Joining means that whatever else the node reads is complete before the cluster starts. */
static bool can_join(struct fuse *z, ir_value v, uint32_t c)
{
    const struct fuse_cluster *k = &z->clusters.items[c];
    const struct fuse_node *n = &z->node[v];
    if (k->lone || k->apart || k->kind == GROUP_SCATTER || k->kind == GROUP_ATTENTION || k->nodes.count >= MAX_NODES ||
        is_behind(z, v) != is_behind(z, k->nodes.items[0]) || k->work + n->inline_cost > max_work ||
        !leaves_fit(k->leaf, leaf_of(z, v)) || !shallow(z, c, c, v) || fuse_outsider(z, v, c) ||
        (k->decides && n->follows) || (k->follows && n->decides))
        return false;
    if (k->region != n->region && (n->elements > FUSE_SMALL || k->full > FUSE_SMALL) && !(n->region && settled(z, c)))
        return false;
    if (holds_up(z, v, c) || (n->window && k->kind != GROUP_MAP)) return false;
    if (!passes_reads(z, k->reads + reads_beside(z, v, c, 0))) return false;
    if ((k->kind == GROUP_DOT || k->kind == GROUP_LINES) &&
        (n->region || n->class != FUSE_EWISE || foreign_inputs(z, v, c) > 2))
        return false;
    return !fuse_needs(z, v, c);
}

static int preference(enum plan_group_kind kind)
{
    return kind == GROUP_ROW ? 0 : kind == GROUP_COLUMN ? 1 : kind == GROUP_DOT || kind == GROUP_LINES ? 2 : 3;
}

/* The clusters of a node's operands, best first, each once. */
static uint32_t candidates(struct fuse *z, ir_value v, uint32_t *out, uint32_t capacity)
{
    uint32_t count = 0;
    const struct fuse_node *n = &z->node[v];
    for (uint32_t i = 0; i < n->dep_count && count < capacity; i++) {
        if (!fuse_is_clustered(z, n->deps[i].value) || n->deps[i].relation == FUSE_OTHER) continue;
        uint32_t c = fuse_find(z, z->node[n->deps[i].value].cluster);
        bool known = false;
        for (uint32_t j = 0; j < count; j++) known |= out[j] == c;
        if (known) continue;
        uint32_t at = count++;
        while (at > 0 && preference(z->clusters.items[out[at - 1]].kind) > preference(z->clusters.items[c].kind)) {
            out[at] = out[at - 1];
            at--;
        }
        out[at] = c;
    }
    return count;
}

/* After a node joined: the other clusters it reads may now be one with its own. */
static void gather(struct fuse *z, ir_value v, const uint32_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t a = fuse_find(z, z->node[v].cluster), b = fuse_find(z, list[i]);
        if (a != b) merge(z, a, b);
    }
}

/* Element-wise work and reductions join a cluster that they read, or begin one. */
static void place_in_domain(struct fuse *z, ir_value v)
{
    uint32_t list[16], count = candidates(z, v, list, 16);
    const struct fuse_node *n = &z->node[v];
    const struct fuse_segments *s = n->class == FUSE_REDUCE ? &z->segments.items[n->segments] : NULL;
    for (uint32_t i = 0; i < count; i++) {
        int level = level_in(z, v, list[i]);
        bool fits = s ? level == FUSE_ROW && is_reduction(z->clusters.items[list[i]].kind) : level >= 0;
        if (!fits || !can_join(z, v, list[i])) continue;
        add_node(z, list[i], v, level);
        gather(z, v, list, count);
        return;
    }
    uint32_t c = s ? new_cluster(z, kind_of_segments(s), s->full, s->rows)
                   : new_cluster(z, GROUP_MAP, n->elements, n->elements);
    if (s) z->clusters.items[c].segments = n->segments;
    add_node(z, c, v, s ? FUSE_ROW : FUSE_FULL);
    if (!s || parallel_enough(s)) gather(z, v, list, count);
}

static enum plan_group_kind rooted_kind(uint8_t class)
{
    return class == FUSE_DOT ? GROUP_DOT : class == FUSE_SCATTER ? GROUP_SCATTER : GROUP_LINES;
}

/* On a GPU, where tensors are read and written fast: a library's product of what lies in memory. */
static bool is_of_library(const struct fuse *z, ir_value v)
{
    const struct pass_options *o = z->pass->options;
    const struct ir_node *n = ir_get(z->f, v);
    struct plan_product p;
    if (!o->blocks || !plan_product_of(z->f, v, &p) || plan_product_row(&p, true, o->blas) == PLAN_PRODUCT_OWN)
        return false;
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (z->node[n->args[i]].class != FUSE_LEAF && !fuse_is_clustered(z, n->args[i])) return false;
    return true;
}

/* A cast of what attention by tiles sums up, which nothing else reads: it is stored rounded. The cluster; UINT32_MAX:
 * no such thing. */
static uint32_t cluster_of_rounded(struct fuse *z, ir_value v)
{
    const struct fuse_node *n = &z->node[v];
    if (ir_get(z->f, v)->op != OP_cast || n->dep_count != 1 || n->deps[0].relation != FUSE_SAME) return UINT32_MAX;
    const struct fuse_node *sum = &z->node[n->deps[0].value];
    bool alone = ir_get(z->f, v)->args[0] == n->deps[0].value && sum->readers.count == 1 && !sum->needs_buffer;
    bool once = ir_dtype_bytes((enum ir_dtype)ir_type(z->f, n->deps[0].value)->dtype) >= 4; /* it is as it was summed */
    return sum->class == FUSE_DOT && sum->sink && alone && once ? fuse_find(z, sum->cluster) : UINT32_MAX;
}

static void place(struct fuse *z, ir_value v)
{
    const struct fuse_node *n = &z->node[v];
    uint32_t c = cluster_of_rounded(z, v);
    if (c != UINT32_MAX) {
        add_node(z, c, v, FUSE_FULL);
        return;
    }
    if (n->sink) {
        c = fuse_cluster_of_tiles(z, v);
        if (c == UINT32_MAX) c = new_cluster(z, GROUP_ATTENTION, n->elements, n->elements);
        if (n->class == FUSE_DOT) z->clusters.items[c].root = v;
        add_node(z, c, v, FUSE_FULL);
        return;
    }
    if (n->turned) {
        c = new_cluster(z, GROUP_MAP, n->elements, n->elements);
        z->clusters.items[c].apart = true;
        add_node(z, c, v, FUSE_FULL);
        return;
    }
    switch (n->class) {
    case FUSE_DOT:
    case FUSE_SCATTER:
    case FUSE_LINES:
        c = new_cluster(z, rooted_kind(n->class), n->elements, n->elements);
        z->clusters.items[c].root = v;
        z->clusters.items[c].apart = is_of_library(z, v);
        add_node(z, c, v, FUSE_FULL);
        return;
    case FUSE_CONTROL:
        c = new_cluster(z, GROUP_COPY, 0, 0);
        z->clusters.items[c].lone = true;
        add_node(z, c, v, FUSE_FULL);
        return;
    default: place_in_domain(z, v); return;
    }
}

/* ---------------------------------------------------------------- siblings */

/* What cluster `of` reads (2 turn + 1 in `seen`), and what the makers of that read in their turn (2 turn). */
struct inputs {
    uint32_t of, turn, *seen;
};

/* The makers of what a cluster reads, each once; false: there are no more. */
static bool next_maker(struct fuse *z, const struct fuse_cluster *k, size_t *node, uint32_t *dep, uint32_t *maker)
{
    for (; *node < k->nodes.count; ++*node, *dep = 0) {
        const struct fuse_node *n = &z->node[k->nodes.items[*node]];
        while (*dep < n->dep_count) {
            *maker = fuse_maker(z, n->deps[(*dep)++].value);
            if (*maker == UINT32_MAX || z->clusters.items[*maker].stamp[0] == z->stamp) continue;
            z->clusters.items[*maker].stamp[0] = z->stamp;
            return true;
        }
    }
    return false;
}

static void mark_read(struct fuse *z, uint32_t c, struct inputs *in, bool direct)
{
    const struct fuse_cluster *k = &z->clusters.items[c];
    for (size_t i = 0; i < k->nodes.count; i++) {
        const struct fuse_node *n = &z->node[k->nodes.items[i]];
        for (uint32_t j = 0; j < n->dep_count; j++) {
            uint32_t *seen = &in->seen[n->deps[j].value];
            if (direct || *seen != 2 * in->turn + 1) *seen = 2 * in->turn + direct;
        }
    }
}

static void find_inputs(struct fuse *z, uint32_t a, struct inputs *in)
{
    size_t node = 0;
    uint32_t dep = 0, maker;
    in->of = a;
    in->turn++;
    mark_read(z, a, in, true);
    z->clusters.items[a].stamp[0] = ++z->stamp;
    while (next_maker(z, &z->clusters.items[a], &node, &dep, &maker)) mark_read(z, maker, in, false);
}

static bool reads_large(const struct fuse *z, uint32_t c, const struct inputs *in, bool direct, int64_t full)
{
    const struct fuse_cluster *k = &z->clusters.items[c];
    for (size_t i = 0; i < k->nodes.count; i++) {
        const struct fuse_node *n = &z->node[k->nodes.items[i]];
        for (uint32_t j = 0; j < n->dep_count; j++)
            if (in->seen[n->deps[j].value] >= 2 * in->turn + direct && z->node[n->deps[j].value].elements * 4 > full)
                return true;
    }
    return false;
}

/* Do the two read the same tensor, or one of them something made from what the other reads? Their operands live
 * at the same time anyway, so putting them together keeps nothing alive for longer. What `a` reads is found once for
 * all that it is compared with. */
static bool share_input(struct fuse *z, uint32_t a, uint32_t b, struct inputs *in)
{
    size_t node = 0;
    uint32_t dep = 0, maker;
    int64_t full = z->clusters.items[b].full;
    if (in->of != a) find_inputs(z, a, in);
    if (reads_large(z, b, in, false, full)) return true;
    z->clusters.items[b].stamp[0] = ++z->stamp;
    while (next_maker(z, &z->clusters.items[b], &node, &dep, &maker))
        if (reads_large(z, maker, in, true, full)) return true;
    return false;
}

static bool is_sum(struct fuse *z, uint32_t c) { return is_reduction(z->clusters.items[c].kind); }

/* A cluster of a kind (one that makes new state; a reduction), of the same size, reads a tensor that cluster `a` reads
 * too, and can become one with it. Returns the joint one, UINT32_MAX if there is none. */
static uint32_t merge_with(struct fuse *z, uint32_t a, bool (*is_of_kind)(struct fuse *, uint32_t))
{
    uint32_t last = a, tried = 0;
    for (size_t i = 0; i < z->clusters.items[a].nodes.count; i++) {
        const struct fuse_node *n = &z->node[z->clusters.items[a].nodes.items[i]];
        for (uint32_t j = 0; j < n->dep_count; j++) {
            const struct fuse_node *d = &z->node[n->deps[j].value];
            for (size_t r = 0; r < d->readers.count && d->elements * 4 > z->clusters.items[a].full && tried < MAX_TRIED;
                 r++) {
                uint32_t b = fuse_find(z, z->node[d->readers.items[r]].cluster);
                if (b == a || b == last || z->clusters.items[b].full != z->clusters.items[a].full) continue;
                last = b;
                tried++;
                uint32_t joint = is_of_kind(z, b) ? merge(z, a, b) : UINT32_MAX;
                if (joint != UINT32_MAX) return joint;
            }
        }
    }
    return UINT32_MAX;
}

/* Maps of new state that read the same tensors go together, then the large reductions that nothing waits for (a loss
 * that reads the parameters, norms that are only reported) join them. Before other siblings: it saves the most. */
static void merge_updates(struct fuse *z)
{
    uint32_t count = (uint32_t)z->clusters.count;
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t c = a; c != UINT32_MAX && z->clusters.items[c].merged == c && settled(z, c);)
            c = merge_with(z, c, settled);
    for (uint32_t a = 0; a < count; a++)
        if (z->clusters.items[a].merged == a && can_wait(z, a)) merge_with(z, a, settled);
}

/* On a GPU, where reading a tensor again is what takes time: maps go with reductions that read it too. */
static void merge_maps(struct fuse *z)
{
    uint32_t count = (uint32_t)z->clusters.count;
    for (uint32_t a = 0; a < count && z->pass->options->blocks; a++) {
        const struct fuse_cluster *x = &z->clusters.items[a];
        if (x->merged == a && x->kind == GROUP_MAP && x->full > FUSE_SMALL && !x->lone && !x->apart && !x->windows)
            merge_with(z, a, is_sum);
    }
}

/* By cluster: the next one that may be its sibling. */
static uint32_t *find_alike(struct fuse *z)
{
    uint32_t count = (uint32_t)z->clusters.count, *next = arena_new_array(z->arena, uint32_t, count + 1);
    struct map last = MAP(z->arena);
    for (uint32_t c = count; c-- > 0;) {
        const struct fuse_cluster *k = &z->clusters.items[c];
        uint64_t key = hash_u64(hash_u64(k->kind, (uint64_t)k->full), k->segments);
        uint32_t known = map_get_number(&last, key);
        next[c] = known == MAP_NONE ? count : known;
        if (k->merged == c) map_set_number(&last, key, c);
    }
    return next;
}

/* Reductions over the same domain that read the same tensors, and small maps of one size, go together. On a GPU these
 * are fewer, as a thread holds what all of them read, and launches of one kernel are one anyway. */
static void merge_siblings(struct fuse *z)
{
    const size_t most = z->pass->options->blocks ? 24 : 60; /* nodes of small maps */
    uint32_t count = (uint32_t)z->clusters.count;
    struct inputs in = {.of = UINT32_MAX, .seen = arena_new_array(z->arena, uint32_t, z->f->count)};
    const uint32_t *next = find_alike(z);
    const struct fuse_gate *gate = fuse_gates(z);
    for (uint32_t a = 0; a < count; a++) {
        const struct fuse_cluster *x = &z->clusters.items[a];
        if (x->merged != a || x->lone || x->kind == GROUP_DOT || x->kind == GROUP_SCATTER ||
            x->kind == GROUP_ATTENTION || x->kind == GROUP_LINES)
            continue;
        for (uint32_t b = next[a], tried = 0; b < count && tried < MAX_TRIED; b = next[b]) {
            const struct fuse_cluster *y = &z->clusters.items[b];
            if (y->merged != b || y->kind != x->kind || y->full != x->full || y->segments != x->segments) continue;
            bool small = x->full <= FUSE_SMALL && x->nodes.count + y->nodes.count <= most &&
                         fuse_same_gate(&gate[a], &gate[b]);
            tried++;
            if ((small || (is_reduction(x->kind) && share_input(z, a, b, &in))) && merge(z, a, b) != UINT32_MAX)
                in.of = UINT32_MAX;
        }
    }
}

/* ---------------------------------------------------------------- the pass */

static void fuse_function(struct pass *p, const struct ir_func *f, struct plan *plan)
{
    struct fuse z = {.pass = p, .arena = &p->scratch, .keep = p->keep, .f = f};
    struct fuse_segments none;
    memset(&none, 0, sizeof none);
    z.depth = arena_new_array(z.arena, uint32_t, f->count);
    z.depth_stamp = arena_new_array(z.arena, uint32_t, f->count);
    vec_push(z.arena, &z.segments, none);
    fuse_classify(&z);
    fuse_dependencies(&z);
    for (ir_value v = 1; v < f->count; v++)
        if (z.node[v].live && fuse_is_clustered(&z, v)) place(&z, v);
    merge_updates(&z);
    merge_siblings(&z);
    merge_maps(&z);
    fuse_emit_groups(&z, plan);
}

/* The function, the bodies of its loops and what it calls, each once. */
static void fuse_reachable(struct pass *p, const struct ir_func *f, bool outlined, struct plan *plan, bool *done)
{
    if (done[ir_func_index(f)]) return;
    done[ir_func_index(f)] = true;
    bool *live = ir_live(f, &p->scratch);
    for (ir_value v = 1; v < f->count; v++)
        if (live[v] && ir_has_body((enum ir_op)ir_get(f, v)->op))
            fuse_reachable(p, f->module->funcs.items[ir_get(f, v)->func], ir_get(f, v)->op == OP_call, plan, done);
    if (outlined) fuse_outlined(p, f, plan);
    else fuse_function(p, f, plan);
}

struct ir_module *pass_fuse(struct pass *p, struct ir_module *m)
{
    if (p->fused.made && p->fused.of == m) {
        struct ir_module *made = p->fused.made;
        made->plans = p->fused.plans;
        p->fused = (struct pass_fused){0};
        return made;
    }
    m = fuse_prepare(p, m);
    m->plans = arena_new(p->keep, struct plan_module);
    m->plans->launches = p->options->blocks > 0;
    m->plans->module = m;
    for (size_t i = 0; i < m->funcs.count; i++) {
        if (!m->funcs.items[i]->entry) continue;
        struct plan *plan = arena_new(p->keep, struct plan);
        plan->func = m->funcs.items[i];
        fuse_reachable(p, plan->func, false, plan, arena_new_array(&p->scratch, bool, m->funcs.count));
        vec_push(p->keep, &m->plans->plans, plan);
    }
    return m;
}
