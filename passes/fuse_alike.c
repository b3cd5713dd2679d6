/* Crowds and likeness: where hundreds of small tensors are treated alike, groups are kept alike too, so that one
 * command can compute many of them.
 *
 * A crowd is many full reductions of small tensors of one shape, such as the norms of all parameters. What adds their
 * results up would otherwise draw them into groups of whatever size the limits allow. */
#include "passes/fuse.h"
#include <string.h>

enum { CROWD = 64, LARGEST = 16384 /* elements, where a command costs less than going through them */ };

static uint64_t crowd_key(const struct fuse *z, ir_value v)
{
    const struct fuse_node *n = &z->node[v];
    const struct fuse_segments *s = &z->segments.items[n->segments];
    if (!n->live || n->class != FUSE_REDUCE || s->rows != 1 || s->full > LARGEST) return 0;
    return hash_u64(hash_u64(ir_get(z->f, v)->op, ir_get(z->f, v)->type.dtype), n->segments) | 1;
}

/* A sum of scalars is stored where it has as many terms as one node of the tree that fuse_sums.c makes, or, of 16 bits,
 * which are added one after the other, as many more than what was stored before. */
static void cut_sums(struct fuse *z, bool *crowd)
{
    uint32_t *terms = arena_new_array(z->arena, uint32_t, z->f->count), sums = 0;
    for (ir_value v = 1; v < z->f->count; v++) sums += z->node[v].live && fuse_is_scalar_sum(ir_get(z->f, v));
    for (ir_value v = 1; v < z->f->count && sums + 1 >= FUSE_MANY_TERMS; v++) {
        const struct ir_node *n = ir_get(z->f, v);
        if (!z->node[v].live || !fuse_is_scalar_sum(n)) continue;
        bool chain = ir_dtype_bytes((enum ir_dtype)n->type.dtype) == 2;
        for (uint32_t i = 0; i < n->arg_count; i++) {
            uint32_t before = z->node[n->args[i]].uses == 1 ? terms[n->args[i]] : 0;
            terms[v] += !before ? 1 : !crowd[n->args[i]] ? before : !chain;
        }
        if (terms[v] >= FUSE_FAN_IN) crowd[v] = z->node[v].needs_buffer = true;
    }
}

void fuse_find_crowds(struct fuse *z)
{
    struct map counts = MAP(z->arena);
    bool *crowd = arena_new_array(z->arena, bool, z->f->count);
    for (ir_value v = 1; v < z->f->count; v++) {
        uint64_t key = crowd_key(z, v);
        uint32_t before = key ? map_get_number(&counts, key) : 0;
        if (key) map_set_number(&counts, key, before == MAP_NONE ? 1 : before + 1);
    }
    for (ir_value v = 1; v < z->f->count && counts.count; v++) {
        uint64_t key = crowd_key(z, v);
        crowd[v] = key && map_get_number(&counts, key) >= CROWD;
    }
    cut_sums(z, crowd);
    z->crowd = crowd;
}

static bool of_crowd(const struct fuse *z, uint32_t c)
{
    const struct fuse_cluster *k = &z->clusters.items[c];
    for (size_t i = 0; i < k->nodes.count; i++)
        if (z->crowd[k->nodes.items[i]]) return true;
    return false;
}

/* Two of a crowd, or one and the scalars that are made of many, stay apart. */
bool fuse_apart(const struct fuse *z, uint32_t a, uint32_t b)
{
    const struct fuse_cluster *x = &z->clusters.items[a], *y = &z->clusters.items[b];
    if (x->full == 1 && x->kind == GROUP_MAP) return of_crowd(z, b);
    if (y->full == 1 && y->kind == GROUP_MAP) return of_crowd(z, a);
    return of_crowd(z, a) && of_crowd(z, b);
}

/* A scalar that needs more than one member of a crowd gives is of none. */
bool fuse_outsider(struct fuse *z, ir_value v, uint32_t c)
{
    const struct fuse_node *n = &z->node[v];
    if (n->elements != 1 || !of_crowd(z, c)) return false;
    for (uint32_t i = 0; i < n->dep_count; i++) {
        const struct fuse_node *d = &z->node[n->deps[i].value];
        if (d->material && fuse_find(z, d->cluster) != c) return true;
    }
    return false;
}

/* ---------------------------------------------------------------- likeness */

static uint64_t hash_type(uint64_t h, const struct ir_type *type, bool one_run)
{
    return one_run ? hash_u64(hash_u64(h, type->dtype), ir_type_elements(type) == 1) : ir_hash_type(h, type);
}

static uint64_t hash_node(const struct fuse *z, const struct ir_node *n, const uint32_t *number, bool one_run)
{
    uint64_t h = hash_type(hash_u64(n->op, n->arg_count), &n->type, one_run);
    for (uint32_t i = 0; i < ir_ops[n->op].attr_count && !(one_run && !(ir_ops[n->op].flags & IR_EWISE)); i++)
        h = pass_hash_ints(h, n->attr[i]);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct ir_node *a = ir_get(z->f, n->args[i]);
        if (ir_is_number(a)) /* part of the code */
            h = hash_bytes(hash_type(h, &a->type, one_run), a->data, ir_dtype_bytes((enum ir_dtype)a->type.dtype));
        else h = hash_u64(h, number[n->args[i]]);
    }
    return h;
}

/* `number`: by value, all 0; left so. Contractions have libraries of their own where a command is no launch, scatters
 * may be in place. */
uint64_t fuse_likeness(const struct fuse *z, const struct plan_group *g, uint32_t *number)
{
    uint64_t h = hash_u64(g->kind, g->nodes.count);
    uint32_t next = 0;
    bool launches = z->pass->options->blocks, products = launches && g->kind == GROUP_DOT;
    int64_t largest = launches ? INT64_MAX : LARGEST;
    bool one_run = launches && plan_walks_one_run(g);
    if (g->kind != GROUP_MAP && g->kind != GROUP_ROW && g->kind != GROUP_COLUMN && !products) return 0;
    for (size_t i = 0; i < g->inputs.count; i++) {
        const struct ir_type *type = ir_type(z->f, g->inputs.items[i]);
        if (ir_type_elements(type) > largest) return 0;
        number[g->inputs.items[i]] = ++next;
        h = hash_u64(hash_type(h, type, one_run), g->input_level.items[i]);
        if (z->pass->options->check_finite) h = hash_u64(h, ir_checked_as(z->f, g->inputs.items[i]));
    }
    for (size_t i = 0; i < g->nodes.count; i++) {
        number[g->nodes.items[i]] = ++next;
        h = hash_u64(h, hash_node(z, ir_get(z->f, g->nodes.items[i]), number, one_run));
    }
    bool small = true;
    for (size_t i = 0; i < g->outputs.count; i++) {
        small = small && ir_type_elements(ir_type(z->f, g->outputs.items[i])) <= largest;
        h = hash_u64(hash_u64(h, number[g->outputs.items[i]]), g->output_level.items[i]);
    }
    for (size_t i = 0; i < g->inputs.count; i++) number[g->inputs.items[i]] = 0;
    for (size_t i = 0; i < g->nodes.count; i++) number[g->nodes.items[i]] = 0;
    return small && (z->f->entry || launches) ? h | 1 : 0;
}
