/* Products of one operand with several weights become one product with the weights side by side (XLA's DotMerger), and
 * what is done alike to its parts is done to all of it: x A + a, x B + b become x [A B] + [a b]. The gates of a
 * recurrent cell are then one product per time, their gradients one product over time, and the operand is read once.
 *
 * Only in and before loops over time: there the weights are laid side by side once for many products. Of what a scan
 * takes row by row, slices of one tensor become that tensor. Weights that a mesh splits stay as they are, and so do the
 * gradients of single examples, which pass ghost knows by their products. */
#include "passes/common.h"
#include <string.h>

enum { LEAST = 2, NOT_SPREAD = IR_MAX_RANK };

enum kind { PRODUCTS, WORK, SLICES };

/* Values of one function that lie side by side along `dim` of `whole`. */
struct group {
    enum kind kind;
    uint32_t dim;
    uint64_t key;
    VEC(ir_value) members; /* SLICES: of member 0's operand */
    size_t present;        /* of the members */
    ir_value whole;        /* in the new function */
};

struct part {
    uint32_t group /* + 1 */, k;
};

/* What a parameter of a function stands for. */
struct origin {
    bool *frozen; /* by parameter: a weight that is not trained */
    bool over_time;
};

struct merge {
    struct pass *pass;
    struct arena *arena;
    struct origin *origin; /* by function of the module at hand */
    const struct ir_func *f;
    struct part *part; /* by value of f */
    VEC(struct group) groups;
    uint32_t *scan; /* by value of f: of a product, the scan that takes it row by row; else 0 */
    bool *kept;     /* by value of f: something asks for its gradient */
};

/* ---------------------------------------------------------------- where values come from */

static bool is_view(const struct ir_node *n)
{
    return n->op == OP_cast || n->op == OP_reshape || n->op == OP_transpose || n->op == OP_stop_gradient;
}

/* The parameter of f that v is, seen in another way; 0: none. */
static ir_value root_of(const struct ir_func *f, ir_value v)
{
    while (is_view(ir_get(f, v))) v = ir_get(f, v)->args[0];
    return ir_get(f, v)->op == OP_param ? v : 0;
}

static bool is_frozen(const struct merge *m, const struct ir_func *f, ir_value root)
{
    const struct origin *o = &m->origin[ir_func_index(f)];
    return root && o->frozen && o->frozen[ir_get(f, root)->attr[0].v[0]];
}

static void find_origins(struct merge *m, const struct ir_module *module)
{
    uint32_t *order = ir_func_order(module, m->arena);
    m->origin = arena_new_array(m->arena, struct origin, module->funcs.count);
    for (size_t i = module->funcs.count; i-- > 0;) { /* those that use a body before it */
        const struct ir_func *f = module->funcs.items[order[i]];
        struct origin *own = &m->origin[order[i]];
        if (!own->frozen) own->frozen = arena_new_array(m->arena, bool, f->params.count + 1);
        for (size_t k = 0; k < f->params.count; k++)
            if (f->params.items[k].slot >= 0) own->frozen[k] = module->slots.items[f->params.items[k].slot].frozen;
        for (ir_value v = 1; v < f->count; v++) {
            const struct ir_node *n = ir_get(f, v);
            if (n->op != OP_scan) continue;
            struct origin *o = &m->origin[n->func];
            o->over_time = true;
            if (!o->frozen) o->frozen = arena_new_array(m->arena, bool, n->arg_count + 1u);
            for (uint32_t k = 0; k < n->arg_count; k++) o->frozen[k] = is_frozen(m, f, root_of(f, n->args[k]));
        }
    }
}

/* ---------------------------------------------------------------- groups */

static struct group *group_of(struct merge *m, ir_value v)
{
    return m->part[v].group ? &m->groups.items[m->part[v].group - 1] : NULL;
}

/* Puts v, number k of its group, into the group of that key. */
static void add(struct merge *m, struct map *keys, struct group like, ir_value v, uint32_t k)
{
    uint32_t at = map_get_number(keys, like.key);
    if (at == MAP_NONE) {
        at = (uint32_t)m->groups.count;
        map_set_number(keys, like.key, at);
        vec_push(m->arena, &m->groups, like);
    }
    struct group *g = &m->groups.items[at];
    while (g->members.count <= k) vec_push(m->arena, &g->members, 0);
    g->present += !g->members.items[k];
    g->members.items[k] = v;
}

static void complete(struct merge *m, size_t first)
{
    for (size_t i = first; i < m->groups.count; i++) {
        const struct group *g = &m->groups.items[i];
        for (uint32_t k = 0; k < g->members.count; k++)
            m->part[g->members.items[k]] = (struct part){(uint32_t)i + 1, k};
    }
}

/* Takes groups of one member, or less than all, away again. */
static void drop(struct merge *m, size_t first, const size_t *wanted)
{
    size_t kept = first;
    for (size_t i = first; i < m->groups.count; i++) {
        size_t count = m->groups.items[i].present;
        if (count >= LEAST && (!wanted || count == wanted[i - first])) m->groups.items[kept++] = m->groups.items[i];
    }
    m->groups.count = kept;
}

/* ---------------------------------------------------------------- products */

static void find_products(struct merge *m, const bool *live)
{
    const struct ir_func *f = m->f;
    struct map keys = MAP(m->arena);
    bool over_time = m->origin[ir_func_index(f)].over_time;
    size_t first = m->groups.count;
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        if (!live[v] || n->op != OP_dot || m->kept[v] || n->attr[0].n || !(over_time || m->scan[v])) continue;
        ir_value root = root_of(f, n->args[1]);
        const struct ir_type *w = ir_type(f, n->args[1]);
        if (!root || w->rank <= n->attr[3].n) continue;
        struct group like = {.kind = PRODUCTS, .dim = n->type.rank - (w->rank - n->attr[3].n)};
        like.key = hash_u64(n->args[0], m->scan[v] * 2u + is_frozen(m, f, root));
        like.key = pass_hash_ints(pass_hash_ints(hash_bytes(like.key, w, sizeof *w), n->attr[2]), n->attr[3]);
        uint32_t at = map_get_number(&keys, like.key);
        add(m, &keys, like, v, at == MAP_NONE ? 0 : (uint32_t)m->groups.items[at].members.count);
    }
    drop(m, first, NULL);
    complete(m, first);
}

/* Slices of one value that make up all of it. */
static void find_slices(struct merge *m, const bool *live)
{
    const struct ir_func *f = m->f;
    struct map keys = MAP(m->arena);
    VEC(size_t) wanted = {0};
    size_t first = m->groups.count;
    for (ir_value v = 1; v < f->count && m->origin[ir_func_index(f)].over_time; v++) {
        const struct ir_node *n = ir_get(f, v);
        uint32_t dim = 0, cut = 0;
        if (!live[v] || n->op != OP_slice) continue;
        const struct ir_type *type = ir_type(f, n->args[0]);
        for (uint32_t d = 0; d < n->type.rank; d++)
            if (n->type.dim[d] != type->dim[d] || n->attr[2].v[d] != 1) dim = d, cut += n->attr[2].v[d] == 1 ? 1 : 2;
        if (cut != 1 || !n->type.dim[dim] || n->attr[0].v[dim] % n->type.dim[dim]) continue;
        struct group like = {.kind = SLICES, .dim = dim};
        like.key = hash_u64(n->args[0], (uint64_t)n->type.dim[dim] << 8 | dim);
        if (type->dim[dim] % n->type.dim[dim]) continue;
        add(m, &keys, like, v, (uint32_t)(n->attr[0].v[dim] / n->type.dim[dim]));
        if (m->groups.count - first > wanted.count)
            vec_push(m->arena, &wanted, (size_t)(type->dim[dim] / n->type.dim[dim]));
    }
    drop(m, first, wanted.items);
    complete(m, first);
}

/* ---------------------------------------------------------------- what is done to all parts alike */

/* The dimension of x in `broadcast(x)` that runs along `dim`, NOT_SPREAD: none, or not a weight's. */
static uint32_t spread_along(const struct merge *m, const struct ir_node *n, uint32_t dim)
{
    if (n->op != OP_broadcast || !root_of(m->f, n->args[0])) return NOT_SPREAD;
    for (uint32_t i = 0; i < n->attr[0].n; i++)
        if (n->attr[0].v[i] == dim && ir_type(m->f, n->args[0])->dim[i] == n->type.dim[dim]) return i;
    return NOT_SPREAD;
}

/* Of element-wise work on number k of a group: equal for that on its other members. 0: something else is read, too. */
static uint64_t work_key(struct merge *m, const struct ir_node *n, uint32_t *dim, uint32_t *k, size_t *count)
{
    uint64_t key = hash_u64(n->op, n->type.dtype);
    const struct group *of = NULL;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct group *g = group_of(m, n->args[i]);
        if (!g) continue;
        if (of && (g->dim != of->dim || g->members.count != of->members.count || *k != m->part[n->args[i]].k)) return 0;
        of = g;
        *k = m->part[n->args[i]].k;
    }
    if (!of) return 0;
    *dim = of->dim;
    *count = of->members.count;
    for (uint32_t i = 0; i < ir_ops[n->op].attr_count; i++) key = pass_hash_ints(key, n->attr[i]);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct ir_node *a = ir_get(m->f, n->args[i]);
        if (m->part[n->args[i]].group) {
            key = hash_u64(key, (uint64_t)m->part[n->args[i]].group << 2);
        } else if (ir_is_number(a)) {
            key = hash_u64(key, (uint64_t)n->args[i] << 2 | 1);
        } else if (spread_along(m, a, *dim) != NOT_SPREAD) {
            bool frozen = is_frozen(m, m->f, root_of(m->f, a->args[0]));
            key = pass_hash_ints(hash_bytes(key, ir_type(m->f, a->args[0]), sizeof a->type), a->attr[0]);
            key = hash_u64(key, frozen ? 2 : 3);
        } else {
            return 0;
        }
    }
    return key | 1;
}

static bool find_work(struct merge *m, const bool *live)
{
    struct map keys = MAP(m->arena);
    size_t first = m->groups.count;
    VEC(size_t) wanted = {0};
    for (ir_value v = 1; v < m->f->count; v++) {
        const struct ir_node *n = ir_get(m->f, v);
        uint32_t dim = 0, k = 0;
        size_t count = 0;
        if (!live[v] || m->kept[v] || m->part[v].group || !ir_is_ewise((enum ir_op)n->op)) continue;
        uint64_t key = work_key(m, n, &dim, &k, &count);
        if (!key) continue;
        add(m, &keys, (struct group){.kind = WORK, .dim = dim, .key = key}, v, k);
        if (m->groups.count - first > wanted.count) vec_push(m->arena, &wanted, count);
    }
    drop(m, first, wanted.items);
    complete(m, first);
    return m->groups.count > first;
}

/* ---------------------------------------------------------------- a function looked at */

static void look_at(struct merge *m, const struct ir_func *f)
{
    const bool *live = ir_live(f, m->arena);
    m->f = f;
    m->part = arena_new_array(m->arena, struct part, f->count);
    m->scan = arena_new_array(m->arena, uint32_t, f->count);
    m->kept = arena_new_array(m->arena, bool, f->count);
    m->groups.count = 0;
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        for (uint32_t i = 0; live[v] && i < n->arg_count; i++) {
            bool row = n->op == OP_scan && i >= n->attr[0].v[0] && i < n->attr[0].v[0] + n->attr[1].v[0];
            if (row) m->scan[n->args[i]] = v;
            m->kept[n->args[i]] |= n->op == OP_grad && i;
        }
    }
    if (pass_is_outlined(f)) return;
    find_products(m, live);
    find_slices(m, live);
    while (m->groups.count && find_work(m, live)) {}
}

/* ---------------------------------------------------------------- what replaces them */

static ir_value part_of(struct ir_builder *b, ir_value whole, const struct ir_type *part, uint32_t dim, uint32_t k)
{
    int64_t start[IR_MAX_RANK] = {0}, limit[IR_MAX_RANK], stride[IR_MAX_RANK];
    for (uint32_t i = 0; i < part->rank; i++) limit[i] = part->dim[i], stride[i] = 1;
    start[dim] = part->dim[dim] * k;
    limit[dim] = start[dim] + part->dim[dim];
    return ir_slice(b, whole, start, limit, stride);
}

/* Operand i of all members, seen as it is there, side by side along `dim`. */
static ir_value beside(struct merge *m, struct ir_builder *b, const struct group *g, uint32_t i, bool inner,
                       uint32_t dim, const ir_value *map)
{
    uint32_t count = (uint32_t)g->members.count;
    ir_value *parts = arena_new_array(m->arena, ir_value, count);
    for (uint32_t k = 0; k < count; k++) {
        ir_value v = ir_get(m->f, g->members.items[k])->args[i];
        VEC(ir_value) views = {0};
        if (inner) v = ir_get(m->f, v)->args[0];
        for (; is_view(ir_get(m->f, v)); v = ir_get(m->f, v)->args[0]) vec_push(m->arena, &views, v);
        parts[k] = map[v];
        while (views.count) parts[k] = ir_remake(b, ir_get(m->f, views.items[--views.count]), &parts[k]);
    }
    return ir_concat(b, parts, count, dim);
}

static ir_value whole_of(struct merge *m, struct ir_builder *b, struct group *g, const ir_value *map)
{
    const struct ir_node *n = ir_get(m->f, g->members.items[0]);
    if (g->whole) return g->whole;
    if (g->kind == SLICES) return g->whole = map[n->args[0]];
    ir_value *args = arena_new_array(m->arena, ir_value, n->arg_count);
    struct ir_node like = *n;
    like.type.dim[g->dim] *= (int64_t)g->members.count;
    if (g->kind == PRODUCTS) {
        uint32_t dim = 0;
        while (pass_has(n->attr[3], dim)) dim++;
        args[0] = map[n->args[0]];
        args[1] = beside(m, b, g, 1, false, dim, map);
        return g->whole = ir_remake(b, &like, args);
    }
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct ir_node *a = ir_get(m->f, n->args[i]);
        struct ir_type type = like.type;
        type.dtype = a->type.dtype;
        if (m->part[n->args[i]].group) args[i] = whole_of(m, b, group_of(m, n->args[i]), map);
        else if (ir_is_number(a)) {
            struct ir_node number = *a;
            number.type = type;
            args[i] = ir_remake(b, &number, NULL);
        } else {
            ir_value x = beside(m, b, g, i, true, spread_along(m, a, g->dim), map);
            args[i] = ir_broadcast(b, x, type.rank, type.dim, a->attr[0].v);
        }
    }
    return g->whole = ir_remake(b, &like, args);
}

static ir_value merge_products(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old,
                               const ir_value *map)
{
    struct merge *m = user;
    if (m->f != from) look_at(m, from);
    struct group *g = group_of(m, old);
    if (!g) return pass_remake(m->pass, b, ir_get(from, old), map);
    return part_of(b, whole_of(m, b, g, map), ir_type(from, old), g->dim, m->part[old].k);
}

/* ---------------------------------------------------------------- rows of slices */

/* The operands of a scan that are slices of one, number `at` the first of them: all of `whole`. */
struct rows {
    uint32_t at, dim;
    ir_value whole;
};

static bool is_slice(const struct ir_node *n, const struct ir_type *whole, uint32_t *dim)
{
    uint32_t cut = 0;
    for (uint32_t d = 0; d < n->type.rank; d++) {
        cut += n->type.dim[d] != whole->dim[d];
        if (n->attr[2].v[d] != 1) return false;
        if (n->type.dim[d] != whole->dim[d]) *dim = d;
    }
    return cut == 1 && *dim > 0;
}

/* By operand: 0 where it is taken as it is, else the slices of one tensor have one number. */
static uint32_t *find_rows(struct merge *m, const struct ir_builder *b, const struct ir_node *n, const ir_value *args,
                           bool *any)
{
    uint32_t *same = arena_new_array(m->arena, uint32_t, n->arg_count + 1u), first = (uint32_t)n->attr[0].v[0],
             end = first + (uint32_t)n->attr[1].v[0];
    for (uint32_t i = first; i < end; i++) {
        const struct ir_node *x = ir_get(b->f, args[i]);
        uint32_t dim = 0, count = 0;
        if (same[i] || x->op != OP_slice || !is_slice(x, ir_type(b->f, x->args[0]), &dim)) continue;
        int64_t covered = 0, all = ir_type(b->f, x->args[0])->dim[dim];
        for (uint32_t k = i; k < end; k++) {
            const struct ir_node *y = ir_get(b->f, args[k]);
            uint32_t along = 0;
            if (y->op != OP_slice || y->args[0] != x->args[0] || !is_slice(y, ir_type(b->f, x->args[0]), &along) ||
                along != dim || y->attr[0].v[dim] != covered)
                continue;
            covered = y->attr[1].v[dim];
            same[k] = i + 1;
            count++;
        }
        if (covered == all && count >= LEAST) *any = true;
        else
            for (uint32_t k = i; k < end; k++)
                if (same[k] == i + 1) same[k] = 0;
    }
    return same;
}

static ir_value row_of(struct ir_builder *b, const struct ir_node *slice, ir_value whole)
{
    return ir_slice(b, whole, slice->attr[0].v + 1, slice->attr[1].v + 1, slice->attr[2].v + 1);
}

static ir_value take_rows(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old,
                          const ir_value *map)
{
    struct merge *m = user;
    const struct ir_node *n = ir_get(from, old);
    bool any = false;
    if (n->op != OP_scan) return pass_remake(m->pass, b, n, map);
    ir_value *args = arena_new_array(m->arena, ir_value, n->arg_count + 1u),
             *given = arena_new_array(m->arena, ir_value, n->arg_count + 1u);
    for (uint32_t i = 0; i < n->arg_count; i++) args[i] = map[n->args[i]];
    uint32_t *same = find_rows(m, b, n, args, &any), count = 0, stacked = 0;
    if (!any) return pass_remake(m->pass, b, n, map);
    const struct ir_func *body = b->f->module->funcs.items[n->func];
    struct ir_builder inner = {.f = pass_new_body(m->pass, b->f->module, body, "rows"), .place = n->place};
    ir_value *at = arena_new_array(m->arena, ir_value, body->count),
             *whole = arena_new_array(m->arena, ir_value, n->arg_count + 1u);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct ir_param *p = &body->params.items[i];
        bool is_row = i >= n->attr[0].v[0] && i < n->attr[0].v[0] + n->attr[1].v[0];
        if (same[i] && same[i] != i + 1) continue;
        given[count++] = same[i] ? ir_get(b->f, args[i])->args[0] : args[i];
        stacked += is_row;
        struct ir_type type = p->type;
        for (uint32_t d = 0; same[i] && d < type.rank; d++) type.dim[d] = ir_type(b->f, given[count - 1])->dim[d + 1];
        whole[i] = ir_param_new(&inner, p->name, type, -1);
        at[p->value] = whole[i];
    }
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (same[i]) at[body->params.items[i].value] = row_of(&inner, ir_get(b->f, args[i]), whole[same[i] - 1]);
    pass_copy_nodes(&inner, body, ir_live(body, m->arena), at, pass_copy_node, m->pass);
    for (size_t i = 0; i < body->results.count; i++)
        ir_result_add(&inner, body->results.items[i].name, at[body->results.items[i].value], -1);
    return ir_scan(b, inner.f, n->attr[2].v[0], n->attr[3].v[0] != 0, given, (uint32_t)n->attr[0].v[0], stacked,
                   count - (uint32_t)n->attr[0].v[0] - stacked);
}

/* ---------------------------------------------------------------- the pass */

/* No scan, a weight that is split, or gradients of single examples. */
static bool stays(const struct ir_module *m)
{
    bool any = false;
    for (size_t i = 0; i < m->slots.count; i++)
        for (uint32_t d = 0; d < m->slots.items[i].type.rank; d++)
            if (m->slots.items[i].role <= IR_ROLE_STATE && m->slots.items[i].sharding.dim[d]) return true;
    for (size_t i = 0; i < m->funcs.count; i++)
        for (ir_value v = 1; v < m->funcs.items[i]->count; v++) {
            if (m->funcs.items[i]->nodes[v].op == OP_vmap) return true;
            any |= m->funcs.items[i]->nodes[v].op == OP_scan;
        }
    return !any;
}

struct ir_module *pass_merge(struct pass *p, struct ir_module *m)
{
    static ir_rewrite *const turns[] = {merge_products, take_rows, merge_products};
    struct ir_module *to = m;
    if (p->options->invariant || stays(m)) return m; /* bits may not depend on what a mesh splits */
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        struct merge merge = {.pass = p, .arena = &p->scratch};
        struct ir_module *from = to;
        find_origins(&merge, from);
        to = pass_rebuild(p, from, turns[i], &merge);
        if (from != m) ir_module_free(from);
    }
    return to;
}
