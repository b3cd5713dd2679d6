/* Sums over very many small tensors: sum(f(a)) + sum(f(b)) + ... becomes sum(f(a and b and ... laid end to end)). The
 * norm of all gradients, or a penalty on all parameters, is then one reduction that workers share and that other
 * reductions over the same tensors join, instead of thousands with thousands of additions behind them; and what made a
 * gradient is left to its update where it is cheap enough to be made for the norm once more. The tensors need not move:
 * the memory plan lays them end to end.
 *
 * Terms of a sum are alike if they do the same to one or two tensors, whatever their shapes. */
#include "passes/common.h"
#include <stdlib.h>
#include <string.h>

enum {
    JOIN_LEAST = 64 /* terms */,
    JOIN_LEAST_LAUNCHES = 4 /* where each would be a launch */,
    LARGEST = 16384 /* elements of a tensor, where it is no launch */,
    NODES = 16 /* of a term */,
    OPERANDS = 8,
    TENSORS = 2,
    SHARED = 65536 /* elements that workers share */,
    ROWS = 64
};

struct term {
    ir_value reduce;
    uint64_t key;
    int64_t elements;
    ir_value tensor[TENSORS], seen[NODES];
    uint32_t tensors, nodes;
};

struct sum;
struct join {
    struct pass *pass;
    struct arena *arena;
    const struct ir_func *f; /* the one looked at */
    uint32_t *uses;          /* by value: nodes and results that read it */
    bool *inner;             /* by value: a sum that is read by one other sum only */
    bool *needed;            /* by value: still, when the sums are joined */
    const struct sum **sum;  /* by value: that of a root with something to join, else NULL */
};

static bool is_scalar_sum(const struct ir_node *n)
{
    return n->op == OP_add && n->type.rank == 0 && (n->type.dtype == IR_F32 || n->type.dtype == IR_F64);
}

static void look_at_uses(struct join *j, const struct ir_func *f, const bool *live)
{
    j->f = f;
    j->uses = arena_new_array(j->arena, uint32_t, f->count);
    j->inner = arena_new_array(j->arena, bool, f->count);
    for (size_t i = 0; i < f->results.count; i++) j->uses[f->results.items[i].value]++;
    for (ir_value v = 1; v < f->count; v++)
        for (uint32_t i = 0; live[v] && i < ir_get(f, v)->arg_count; i++)
            j->uses[ir_get(f, v)->args[i]] += i == 0 || ir_get(f, v)->args[i] != ir_get(f, v)->args[i - 1];
    for (ir_value v = 1; v < f->count; v++)
        for (uint32_t i = 0; live[v] && is_scalar_sum(ir_get(f, v)) && i < 2; i++) {
            ir_value a = ir_get(f, v)->args[i];
            j->inner[a] = j->uses[a] == 1 && is_scalar_sum(ir_get(f, a));
        }
}

/* ---------------------------------------------------------------- what a term does */

static bool is_spread(const struct ir_func *f, const struct ir_node *n)
{
    return n->op == OP_broadcast && ir_type_elements(ir_type(f, n->args[0])) == 1;
}

/* Is the node part of the term, rather than a tensor that it reads? What others read too is made again if it is cheap.
 */
static bool is_inside(const struct join *j, const struct term *t, ir_value v, bool again)
{
    const struct ir_node *n = ir_get(j->f, v);
    if (n->op == OP_reshape) return true;
    if (!(ir_ops[n->op].flags & IR_EWISE) || !n->arg_count || n->arg_count > OPERANDS) return false;
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (ir_type_elements(ir_type(j->f, n->args[i])) != t->elements) return false;
    return j->uses[v] == 1 || (again && ir_is_cheap((enum ir_op)n->op));
}

/* Adds what is done to make `v` to the key. False: more than fits. */
static bool describe(const struct join *j, struct term *t, ir_value v, bool again)
{
    const struct ir_node *n = ir_get(j->f, v);
    bool inside = is_inside(j, t, v, again);
    t->key = hash_u64(t->key, (uint64_t)n->type.dtype << 32 | n->op);
    if (ir_is_number(n)) {
        t->key = hash_bytes(t->key, n->data, ir_dtype_bytes((enum ir_dtype)n->type.dtype));
        return true;
    }
    if (is_spread(j->f, n)) {
        t->key = hash_u64(t->key, (uint64_t)2 << 32 | n->args[0]);
        return true;
    }
    for (uint32_t i = 0; i < t->nodes; i++)
        if (t->seen[i] == v) {
            t->key = hash_u64(t->key, (uint64_t)3 << 32 | i);
            return true;
        }
    if (n->op == OP_reshape && inside) return describe(j, t, n->args[0], again);
    if (!inside) {
        uint32_t i = 0;
        while (i < t->tensors && t->tensor[i] != v) i++;
        if (i == TENSORS) return false;
        if (i == t->tensors) t->tensor[t->tensors++] = v;
        t->key = hash_u64(t->key, (uint64_t)1 << 32 | i);
        return true;
    }
    if (t->nodes == NODES) return false;
    t->seen[t->nodes++] = v;
    for (uint32_t i = 0; i < ir_ops[n->op].attr_count; i++) t->key = pass_hash_ints(t->key, n->attr[i]);
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (!describe(j, t, n->args[i], again)) return false;
    return true;
}

/* A sum over all elements of a small tensor. False: it is none. */
static bool look_at_term(const struct join *j, ir_value v, struct term *t)
{
    const struct ir_node *n = ir_get(j->f, v);
    if (n->op != OP_reduce_sum || n->type.rank || j->uses[v] != 1) return false;
    int64_t elements = ir_type_elements(ir_type(j->f, n->args[0]));
    bool fits = elements > 1 && (elements <= LARGEST || j->pass->options->blocks);
    for (int again = 1; again >= 0 && fits; again--) {
        *t = (struct term){.reduce = v, .key = n->type.dtype, .elements = elements};
        if (describe(j, t, n->args[0], again) && t->tensors) {
            t->key |= 1; /* 0: no term */
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- the joined term */

typedef VEC(struct term) terms;

/* By value of the function looked at: what it is for all tensors together. */
struct making {
    struct join *j;
    struct ir_builder *b;
    const ir_value *map;
    ir_value *made;
    int64_t elements;
};

static ir_value lay_end_to_end(struct making *m, const struct term *list, size_t count, uint32_t which)
{
    ir_value *parts = arena_new_array(m->j->arena, ir_value, count);
    uint32_t n = 0;
    for (size_t i = 0; i < count; i++)
        parts[n++] = ir_reshape(m->b, m->map[list[i].tensor[which]], 1, &list[i].elements);
    return ir_concat(m->b, parts, n, 0);
}

static ir_value make(struct making *m, const struct term *list, size_t count, ir_value v)
{
    const struct ir_node *n = ir_get(m->j->f, v);
    if (m->made[v]) return m->made[v];
    struct ir_type flat = {.dtype = n->type.dtype, .rank = 1, .dim = {m->elements}};
    for (uint32_t i = 0; i < list->tensors; i++)
        if (list->tensor[i] == v) return m->made[v] = lay_end_to_end(m, list, count, i);
    if (ir_is_number(n)) {
        struct ir_node number = *n;
        number.type = flat;
        return m->made[v] = ir_remake(m->b, &number, NULL);
    }
    if (is_spread(m->j->f, n))
        return m->made[v] = ir_broadcast(m->b, ir_reshape(m->b, m->map[n->args[0]], 0, NULL), 1, &m->elements, NULL);
    if (n->op == OP_reshape) return m->made[v] = make(m, list, count, n->args[0]);
    ir_value args[OPERANDS];
    struct ir_node like = *n;
    for (uint32_t i = 0; i < n->arg_count; i++) args[i] = make(m, list, count, n->args[i]);
    like.type = flat;
    return m->made[v] = ir_remake(m->b, &like, args);
}

static ir_value make_joined(struct join *j, struct ir_builder *b, const ir_value *map, const struct term *list,
                            size_t count)
{
    struct making m = {.j = j, .b = b, .map = map, .made = arena_new_array(j->arena, ir_value, j->f->count)};
    const struct ir_node *reduce = ir_get(j->f, list->reduce);
    int64_t dim = 0;
    for (size_t i = 0; i < count; i++) m.elements += list[i].elements;
    return ir_reduce_plain(b, OP_reduce_sum, make(&m, list, count, reduce->args[0]), &dim, 1);
}

/* Terms that make rows of one length together, for the workers; the rest. */
static size_t whole_rows(const struct term *list, size_t count)
{
    int64_t elements = 0;
    size_t best = 0;
    for (size_t i = 0; i < count; i++)
        if ((elements += list[i].elements) % ROWS == 0) best = i + 1;
    return elements >= SHARED ? best : count;
}

/* Parameters in their own order, whatever sum reads them, so that all sums find them lying in one. */
static int by_parameter(const void *x, const void *y)
{
    const struct term *a = x, *b = y;
    return a->tensor[0] != b->tensor[0] ? (a->tensor[0] < b->tensor[0] ? -1 : 1)
           : a->reduce < b->reduce      ? -1
                                        : a->reduce > b->reduce;
}

static bool reads_parameters(const struct join *j, const struct term *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ir_get(j->f, list[i].tensor[0])->op != OP_param) return false;
    return true;
}

static ir_value plus(struct ir_builder *b, ir_value x, ir_value y) { return x ? ir_binary(b, OP_add, x, y) : y; }

static ir_value join_class(struct join *j, struct ir_builder *b, const ir_value *map, const terms *all, uint64_t key,
                           ir_value sum)
{
    terms list = {0};
    for (uint32_t turn = 0; turn < PASS_TURNS; turn++) {
        size_t first = list.count;
        for (size_t i = 0; i < all->count; i++)
            if (all->items[i].key == key && pass_turn(all->items[i].elements) == turn)
                vec_push(j->arena, &list, all->items[i]);
        if (list.count > first && reads_parameters(j, list.items + first, list.count - first))
            qsort(list.items + first, list.count - first, sizeof *list.items, by_parameter);
    }
    size_t rows = whole_rows(list.items, list.count);
    if (rows) sum = plus(b, sum, make_joined(j, b, map, list.items, rows));
    if (rows < list.count) sum = plus(b, sum, make_joined(j, b, map, list.items + rows, list.count - rows));
    return sum;
}

/* ---------------------------------------------------------------- sums */

/* A sum with its terms from left to right; those of no joined class have the key 0. */
struct sum {
    terms list;
};

static void collect(struct join *j, ir_value root, terms *out, struct map *counts)
{
    VEC(ir_value) open = {0};
    vec_push(j->arena, &open, root);
    while (open.count) {
        ir_value v = open.items[--open.count];
        if (v == root || j->inner[v]) {
            vec_push(j->arena, &open, ir_get(j->f, v)->args[1]);
            vec_push(j->arena, &open, ir_get(j->f, v)->args[0]);
            continue;
        }
        struct term t;
        if (look_at_term(j, v, &t)) {
            uint32_t before = map_get_number(counts, t.key);
            map_set_number(counts, t.key, before == MAP_NONE ? 1 : before + 1);
        } else {
            t = (struct term){.reduce = v};
        }
        vec_push(j->arena, out, t);
    }
}

/* NULL: nothing to join. */
static struct sum *look_at_sum(struct join *j, ir_value root)
{
    struct sum *sum = arena_new(j->arena, struct sum);
    struct map counts = MAP(j->arena);
    uint32_t least = j->pass->options->blocks ? JOIN_LEAST_LAUNCHES : JOIN_LEAST;
    bool any = false;
    collect(j, root, &sum->list, &counts);
    for (size_t i = 0; i < sum->list.count; i++) {
        struct term *t = &sum->list.items[i];
        if (t->key && map_get_number(&counts, t->key) < least) t->key = 0;
        any |= t->key != 0;
    }
    return any ? sum : NULL;
}

static ir_value make_sum(struct join *j, struct ir_builder *b, const ir_value *map, const struct sum *sum)
{
    struct map done = MAP(j->arena);
    ir_value all = 0;
    for (size_t i = 0; i < sum->list.count; i++) {
        const struct term *t = &sum->list.items[i];
        if (!t->key) {
            all = plus(b, all, map[t->reduce]);
        } else if (map_get_number(&done, t->key) == MAP_NONE) {
            map_set_number(&done, t->key, 1);
            all = join_class(j, b, map, &sum->list, t->key, all);
        }
    }
    return all;
}

/* What a joined term needs: its tensors, and the scalars that it repeats. */
static void need_term(struct join *j, const struct term *t)
{
    for (uint32_t i = 0; i < t->tensors; i++) j->needed[t->tensor[i]] = true;
    for (uint32_t i = 0; i < t->nodes; i++)
        for (uint32_t k = 0; k < ir_get(j->f, t->seen[i])->arg_count; k++) {
            const struct ir_node *a = ir_get(j->f, ir_get(j->f, t->seen[i])->args[k]);
            if (is_spread(j->f, a)) j->needed[a->args[0]] = true;
        }
}

/* What is left when the sums are joined. */
static void find_needed(struct join *j)
{
    for (size_t i = 0; i < j->f->results.count; i++) j->needed[j->f->results.items[i].value] = true;
    for (ir_value v = j->f->count; v-- > 1;) {
        const struct ir_node *n = ir_get(j->f, v);
        const struct sum *sum = j->sum[v];
        if (!j->needed[v]) continue;
        for (uint32_t i = 0; i < n->arg_count && !sum; i++) j->needed[n->args[i]] = true;
        for (size_t i = 0; sum && i < sum->list.count; i++)
            if (sum->list.items[i].key) need_term(j, &sum->list.items[i]);
            else j->needed[sum->list.items[i].reduce] = true;
    }
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct join *j = user;
    if (j->f != from) return pass_remake(j->pass, b, ir_get(from, old), map);
    if (!j->needed[old]) return 0;
    return j->sum[old] ? make_sum(j, b, map, j->sum[old]) : pass_remake(j->pass, b, ir_get(from, old), map);
}

static bool look_at(struct join *j, const struct ir_func *f)
{
    const bool *live = ir_live(f, j->arena);
    bool any = false;
    look_at_uses(j, f, live);
    j->needed = arena_new_array(j->arena, bool, f->count);
    j->sum = arena_new_array(j->arena, const struct sum *, f->count);
    for (ir_value v = 1; v < f->count; v++)
        if (live[v] && is_scalar_sum(ir_get(f, v)) && !j->inner[v]) any |= (j->sum[v] = look_at_sum(j, v)) != NULL;
    if (any) find_needed(j);
    return any;
}

/* Steps only: evaluation may be asked to put other tensors in the place of parameters, which lie elsewhere. */
struct ir_module *pass_join(struct pass *p, struct ir_module *m)
{
    const struct ir_func *step = ir_func_find(m, "step");
    struct join j = {.pass = p, .arena = &p->scratch};
    return step && !p->options->invariant && look_at(&j, step) ? pass_rebuild(p, m, rewrite, &j) : m;
}
