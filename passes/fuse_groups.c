/* Clusters to groups: members with the inlined nodes they need, what is read from and stored to buffers, and why the
 * group ends where it does. */
#include "passes/fuse.h"
#include <stdlib.h>
#include <string.h>

/* What belongs to the group being made. The marks of a function's values are shared by all its groups: there are many,
 * each small. */
struct members {
    bool *in, *read;       /* by value */
    VEC(ir_value) touched; /* those with a mark */
    uint32_t *number;      /* by value, 0 between groups */
};

static void mark(struct fuse *z, struct members *m, bool *marks, ir_value v)
{
    if (!m->in[v] && !m->read[v]) vec_push(z->arena, &m->touched, v);
    marks[v] = true;
}

static void add_inlined(struct fuse *z, struct members *m, ir_value v, uint32_t c)
{
    const struct ir_node *node = ir_get(z->f, v);
    for (uint32_t i = 0; i < node->arg_count; i++) {
        ir_value a = node->args[i];
        const struct fuse_node *n = &z->node[a];
        const struct ir_node *arg = ir_get(z->f, a);
        if (ir_is_number(arg)) continue;
        if (n->class == FUSE_LEAF || n->class == FUSE_CONTROL || (n->material && fuse_find(z, n->cluster) != c)) {
            mark(z, m, m->read, a);
        } else if (!m->in[a] && !n->material) {
            mark(z, m, m->in, a);
            add_inlined(z, m, a, c);
        }
    }
}

/* Members whose value is needed outside. */
static bool *find_outputs(struct fuse *z)
{
    bool *out = arena_new_array(z->arena, bool, z->f->count);
    for (ir_value v = 1; v < z->f->count; v++) {
        const struct fuse_node *n = &z->node[v];
        if (!n->live) continue;
        out[v] |= n->needs_buffer && n->material;
        if (!n->material && n->class != FUSE_CONTROL) continue;
        uint32_t c = fuse_find(z, n->cluster);
        for (uint32_t i = 0; i < n->dep_count; i++) {
            const struct fuse_node *d = &z->node[n->deps[i].value];
            if (d->material && fuse_find(z, d->cluster) != c) out[n->deps[i].value] = true;
        }
    }
    return out;
}

/* Where the members read a value: 1 + level if all do it at the index they are computed at, else 0. */
static uint8_t level_read(struct fuse *z, const struct fuse_cluster *k, ir_value x)
{
    int level = -1;
    for (size_t i = 0; i < k->nodes.count; i++) {
        const struct fuse_node *n = &z->node[k->nodes.items[i]];
        for (uint32_t j = 0; j < n->dep_count; j++) {
            if (n->deps[j].value != x) continue;
            int here = n->class == FUSE_REDUCE ? FUSE_FULL : n->level;
            if (n->deps[j].relation != FUSE_SAME || (level >= 0 && level != here)) return 0;
            level = here;
        }
    }
    return (uint8_t)(level + 1);
}

static const char *reason_of(const struct fuse *z, const struct fuse_cluster *c)
{
    switch (c->kind) {
    case GROUP_DOT: return "what follows needs other elements of the product than its own tile";
    case GROUP_ATTENTION: return "its scores are made tile by tile and never stored";
    case GROUP_ROW: return "what follows needs other rows, or is read whole by a contraction";
    case GROUP_COLUMN: return "a reduction over leading dimensions is complete only at the end";
    case GROUP_LINES: return "what follows needs other elements of the lines than its own";
    case GROUP_SCATTER: return "a scatter is complete only at the end";
    default: return z->node[c->nodes.items[0]].region ? "the update of the state is complete" : c->reason;
    }
}

static int by_number(const void *x, const void *y)
{
    ir_value a = *(const ir_value *)x, b = *(const ir_value *)y;
    return a < b ? -1 : a > b;
}

static void emit_group(struct fuse *z, struct plan *plan, const bool *output, struct members *m, uint32_t c)
{
    struct fuse_cluster *k = &z->clusters.items[c];
    struct plan_group g = {.kind = k->kind, .func = z->f, .root = k->root, .reason = reason_of(z, k)};
    struct plan_taps taps;
    m->touched.count = 0;
    qsort(k->nodes.items, k->nodes.count, sizeof *k->nodes.items, by_number);
    for (size_t i = 0; i < k->nodes.count; i++) mark(z, m, m->in, k->nodes.items[i]);
    for (size_t i = 0; i < k->nodes.count; i++) add_inlined(z, m, k->nodes.items[i], c);
    qsort(m->touched.items, m->touched.count, sizeof *m->touched.items, by_number);
    for (size_t i = 0; i < m->touched.count; i++) {
        ir_value v = m->touched.items[i];
        if (m->in[v]) vec_push(z->keep, &g.nodes, v);
        if (m->in[v] && !plan_taps_of(plan, z->f, v) && fuse_find_taps(z->f, v, &taps, z->keep))
            vec_push(z->keep, &plan->taps, taps);
        if (m->read[v]) {
            vec_push(z->keep, &g.inputs, v);
            vec_push(z->keep, &g.input_level, level_read(z, k, v));
        }
        if (m->in[v] && z->node[v].material && output[v]) {
            vec_push(z->keep, &g.outputs, v);
            vec_push(z->keep, &g.output_level, (uint8_t)(z->node[v].level + 1));
            if (z->node[v].window) vec_push(z->keep, &g.windows, v);
        }
        m->in[v] = m->read[v] = false;
    }
    g.alike = fuse_likeness(z, &g, m->number);
    vec_push(z->keep, &plan->groups, g);
}

void fuse_emit_groups(struct fuse *z, struct plan *plan)
{
    bool *output = find_outputs(z);
    struct members m = {.in = arena_new_array(z->arena, bool, z->f->count),
                        .read = arena_new_array(z->arena, bool, z->f->count),
                        .number = arena_new_array(z->arena, uint32_t, z->f->count)};
    for (uint32_t c = 0; c < z->clusters.count; c++) {
        const struct fuse_cluster *k = &z->clusters.items[c];
        if (k->merged == c && !k->lone && k->nodes.count > 0) emit_group(z, plan, output, &m, c);
    }
    for (ir_value v = 1; v < z->f->count; v++)
        if (z->node[v].live && z->node[v].class == FUSE_CONTROL && ir_get(z->f, v)->op == OP_concat)
            vec_push(z->keep, &plan->joins, ((struct plan_join){z->f, v}));
}
