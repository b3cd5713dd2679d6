/* Sharding, further. Nodes choose one by one, so what lies between two conversions goes on lying as it does where each
 * of its nodes would have to convert for itself. Here all of them are held otherwise at once, by way of trial: regions
 * of values that element-wise nodes make of each other, in the layouts that are met at their borders, and along an axis
 * more or less. Whatever depends on them chooses again, and what sends less and costs less in all is kept.
 *
 * Large-neighbourhood search (Shaw, 1998) whose neighbourhoods are regions; most is tried where most is sent. Then it
 * digresses: begins once more with updates that lie as their slots do, and once more behind moves that cost less but
 * send more, and keeps what it finds there if it is better. At last regions are turned: what is cut along one dimension
 * is cut along another one. */
#include "passes/shard_int.h"
#include <stdlib.h>
#include <string.h>

/* Trials in all, and nodes that they look at: a model of 12 layers has 10,000. A byte weighs more than in the choice of
 * a node, which is one of many that read what was sent. */
enum { MOST_TRIALS = 96, MOST_NODES = 512 * 1024, SWEEPS = 4, MOST_OTHERS = 12, DEARER = 3 };
static const double LEAST_SHARE = 0.02; /* of what is sent in all: less is not worth a trial */
static const double MOST_SENT = 0.999; /* of what was sent before: for less it is not worth another round of messages */
static const double DETOUR = 2;        /* the same, on the way to what may be better */
static const double WORTH_IT = 0.95;   /* of what it cost before: a detour often leads to more rounds of messages */
/* What devices may do alike so as to send less: products, as a share of all that is computed, and all else, beside what
 * there was. A byte pays for so many elements of an update, but hardly ever for a product. */
static const double MORE_PRODUCTS = 0.1, MORE_ELEMENTS = 1;

struct region {
    uint32_t func;
    ir_value root;
    struct ir_sharding lies, others[MOST_OTHERS]; /* and what is met at its borders */
    uint32_t other_count;
    double sent;   /* at its borders, and at those of all that are the same */
    uint64_t hash; /* regions that are the same in all this, as in every layer of a model, move together */
};

struct search {
    struct shard *s;
    uint32_t entry;
    ir_value **parent; /* per function and value: towards the first of its region; 0: it is in none */
    uint64_t **hash;   /* per function and first value: its region's */
    VEC(struct region) regions;
    struct shard_decided *best, *before; /* before: the best one when a digression begins */
    struct shard_price least;            /* with sending DEARER */
    double most_sent;                    /* MOST_SENT or DETOUR */
    double most_products, most_elements;
    uint32_t trials, most_trials;
    bool turns; /* regions are tried in another dimension, too */
};

static bool same_shape(const struct ir_type *a, const struct ir_type *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0;
}

/* Also where one of them is a sum that is not done. */
static bool same_parts(const struct ir_sharding *a, const struct ir_sharding *b)
{
    return memcmp(a->dim, b->dim, sizeof a->dim) == 0 && memcmp(a->step, b->step, sizeof a->step) == 0;
}

static ir_value first_of(ir_value *parent, ir_value v)
{
    while (parent[v] != v) v = parent[v] = parent[parent[v]];
    return v;
}

static bool may_move(const struct shard_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f->func, v);
    return f->live[v] && !f->free[v] && n->type.rank && n->type.dtype != IR_TUPLE && n->op != OP_param &&
           n->op != OP_sharding_constraint && n->op != OP_proj && !ir_is_number(n);
}

static ir_value *regions_of(const struct shard_func *f, struct arena *arena)
{
    ir_value *parent = arena_new_array(arena, ir_value, f->func->count);
    for (ir_value v = 1; v < f->func->count; v++) {
        const struct ir_node *n = ir_get(f->func, v);
        if (!may_move(f, v)) continue;
        parent[v] = v;
        for (uint32_t i = 0; ir_is_ewise((enum ir_op)n->op) && i < n->arg_count; i++) {
            ir_value from = n->args[i];
            if (parent[from] && same_shape(&n->type, ir_type(f->func, from)) &&
                same_parts(&f->value[v], &f->value[from]))
                parent[first_of(parent, v)] = first_of(parent, from);
        }
    }
    return parent;
}

/* A value of the region comes as `other`, or goes so. */
static void meet(struct region *r, struct ir_sharding other, double sent)
{
    r->sent += sent;
    other.partial = 0;
    bool no_news = shard_equal(&other, &r->lies);
    for (uint32_t d = 0; d < IR_MAX_RANK; d++) no_news |= other.step[d] != 0; /* windows are for those who slide */
    for (uint32_t i = 0; i < r->other_count && !no_news; i++) no_news = shard_equal(&r->others[i], &other);
    if (!no_news && r->other_count < MOST_OTHERS) r->others[r->other_count++] = other;
}

static void meet_neighbours(struct search *a, struct region *r, ir_value v, double times)
{
    const struct shard_func *f = &a->s->funcs[r->func];
    const struct ir_node *n = ir_get(f->func, v);
    ir_value *parent = a->parent[r->func];
    struct shard_wishes w;
    shard_collect(a->s, f, v, 0, &w);
    meet(r, f->made[v], times * shard_cost(a->s, f, v, &f->made[v], &f->value[v]));
    uint64_t hash = hash_bytes(hash_bytes(n->op, &n->type, sizeof n->type), &f->made[v], sizeof f->made[v]);
    for (uint32_t i = 0; i < w.count; i++) {
        meet(r, w.of[i], times * shard_cost(a->s, f, v, &f->value[v], &w.of[i]));
        hash = hash_bytes(hash, &w.of[i], sizeof w.of[i]);
    }
    for (uint32_t i = 0; i < n->arg_count; i++) {
        ir_value from = n->args[i];
        bool inside = parent[from] && first_of(parent, from) == r->root;
        if (inside || f->free[from] || !same_shape(&n->type, ir_type(f->func, from))) continue;
        meet(r, f->value[from], times * shard_cost(a->s, f, from, &f->value[from], &f->wanted[v][i]));
    }
    r->hash += hash;
}

/* What the layouts at the borders do not say: along an axis less, or more, or by the same ones in another dimension. */
static void think_of_others(struct search *a, struct region *r)
{
    const struct ir_mesh *mesh = &a->s->module->mesh;
    const struct ir_type *type = ir_type(a->s->funcs[r->func].func, r->root);
    uint32_t used = 0;
    for (uint32_t d = 0; d < type->rank; d++) {
        struct ir_sharding other = r->lies;
        used |= shard_axes_mask(r->lies.dim[d]);
        if (!r->lies.dim[d] || r->lies.step[d]) continue;
        other.dim[d] = shard_leading(r->lies.dim[d], shard_list_bits(r->lies.dim[d]) - 4);
        meet(r, other, 0);
    }
    for (uint32_t axis = 0; axis < mesh->axis_count; axis++)
        for (uint32_t d = 0; d < type->rank && !(used >> axis & 1); d++) {
            struct ir_sharding other = r->lies;
            other.dim[d] = ir_axes_of_mask(shard_axes_mask(r->lies.dim[d]) | 1u << axis);
            if (!r->lies.step[d] && type->dim[d] % ir_axes_size(mesh, other.dim[d]) == 0) meet(r, other, 0);
        }
    for (uint32_t d = 0; d < type->rank && a->turns; d++)
        for (uint32_t e = 0; e < type->rank && r->lies.dim[d] && !r->lies.step[d]; e++) {
            struct ir_sharding other = r->lies;
            other.dim[e] = r->lies.dim[d], other.dim[d] = 0;
            if (!r->lies.dim[e] && type->dim[e] % ir_axes_size(mesh, other.dim[e]) == 0) meet(r, other, 0);
        }
}

/* `times`: how often the function runs in a step. */
static void survey(struct search *a, uint32_t func, double times)
{
    const struct shard_func *f = &a->s->funcs[func];
    if (!f->use || a->parent[func]) return;
    a->parent[func] = regions_of(f, a->s->arena);
    a->hash[func] = arena_new_array(a->s->arena, uint64_t, f->func->count);
    uint32_t *number = arena_new_array(a->s->arena, uint32_t, f->func->count);
    for (ir_value v = 1; v < f->func->count; v++) {
        const struct ir_node *n = ir_get(f->func, v);
        if (f->live[v] && n->op == OP_loop) survey(a, n->func, times * shard_trips(f, n));
        if (!a->parent[func][v]) continue;
        ir_value root = first_of(a->parent[func], v);
        if (!number[root]) {
            struct region r = {.func = func, .root = root, .lies = f->value[v]};
            r.lies.partial = 0;
            vec_push(a->s->arena, &a->regions, r);
            number[root] = (uint32_t)a->regions.count;
        }
        meet_neighbours(a, &a->regions.items[number[root] - 1], v, times);
    }
}

/* All regions that are the same as this one are held as `lies`, or, NULL, as they are, by readers to whom sending is
 * dear until this is called again. */
static void hold_as(struct search *a, const struct region *r, const struct ir_sharding *lies, bool dear)
{
    for (size_t i = 0; i < a->s->module->funcs.count; i++) {
        struct shard_func *f = &a->s->funcs[i];
        ir_value *parent = a->parent[i];
        for (ir_value v = 1; parent && v < f->func->count; v++) {
            if (!parent[v] || a->hash[i][first_of(parent, v)] != r->hash) continue;
            if (lies) f->pinned[v] = lies;
            f->dear[v] = dear;
            f->touched[v] = true;
            shard_wake(f, v);
            shard_wake_readers(f, v);
        }
    }
}

static void sleep_all(struct shard *s)
{
    for (size_t i = 0; i < s->module->funcs.count; i++)
        if (s->funcs[i].use) {
            memset(s->funcs[i].awake, 0, s->funcs[i].func->count);
            memset(s->funcs[i].stale, 0, s->funcs[i].func->count);
        }
}

/* What loops carry lies as it did: results that are made in parts where they are read would need room of their own. */
static bool carries_the_same(const struct search *a)
{
    bool same = true;
    for (size_t i = 0; i < a->s->module->funcs.count && same; i++) {
        const struct shard_func *f = &a->s->funcs[i];
        for (ir_value v = 1; f->use && v < f->func->count && same; v++) {
            const struct ir_node *n = ir_get(f->func, v);
            if (f->live[v] && n->op == OP_loop && a->best[i].tuple[v])
                same = !memcmp(f->tuple[v], a->best[i].tuple[v], (size_t)n->attr[0].v[0] * sizeof **f->tuple);
        }
    }
    return same;
}

static double elements_of(const struct shard_price *p) { return p->cost - (1 + DEARER) * p->sent - p->products; }

static struct shard_price price_of(struct search *a)
{
    struct shard_price p = {.cost = 0};
    shard_price_of(a->s, &a->s->funcs[a->entry], 1, &p);
    p.cost += DEARER * p.sent;
    return p;
}

/* What is held otherwise now is kept if it is better; else all is as before. */
static bool settle(struct search *a)
{
    const struct shard_price p = price_of(a);
    a->trials++;
    bool better = p.cost < a->least.cost && p.sent <= a->least.sent * a->most_sent && p.products <= a->most_products &&
                  elements_of(&p) <= a->most_elements && carries_the_same(a);
    if (better) a->least = p;
    shard_keep(a->s, a->best, !better);
    if (!better) sleep_all(a->s);
    return better;
}

static void sweep_often(struct shard *s)
{
    for (uint32_t round = 0; round < SWEEPS && shard_sweep(s, round & 1); round++) {}
}

static bool try(struct search *a, const struct region *r, const struct ir_sharding *lies)
{
    struct ir_sharding *kept = lies ? arena_new_array(a->s->arena, struct ir_sharding, 1) : NULL;
    if (kept) *kept = *lies;
    hold_as(a, r, kept, !kept);
    sweep_often(a->s);
    if (!kept) hold_as(a, r, NULL, false);
    return settle(a);
}

static bool is_trained(const struct ir_slot *slot)
{
    return slot->role == IR_ROLE_PARAM || slot->role == IR_ROLE_OPT_STATE;
}

/* What an update computes lies as what it is for: the gradient is converted once, not, value by value where each lies
 * best for itself, the parameter and all of its optimizer's state. */
static bool follow_slots(struct search *a)
{
    struct shard_func *f = &a->s->funcs[a->entry];
    const struct ir_slot **slot = arena_new_array(a->s->arena, const struct ir_slot *, f->func->count);
    for (size_t i = 0; i < f->func->results.count; i++) {
        const struct ir_result *r = &f->func->results.items[i];
        if (r->slot >= 0 && is_trained(&a->s->module->slots.items[r->slot]))
            slot[r->value] = &a->s->module->slots.items[r->slot];
    }
    for (ir_value v = f->func->count; v-- > 1;) {
        const struct ir_node *n = ir_get(f->func, v);
        if (!slot[v] || !may_move(f, v) || !ir_is_ewise((enum ir_op)n->op) || !same_shape(&n->type, &slot[v]->type))
            continue;
        f->pinned[v] = &slot[v]->sharding;
        f->touched[v] = true;
        shard_wake(f, v);
        shard_wake_readers(f, v);
        for (uint32_t i = 0; i < n->arg_count; i++)
            if (!slot[n->args[i]]) slot[n->args[i]] = slot[v];
    }
    sweep_often(a->s);
    return settle(a);
}

static int in_order(const struct region *a, const struct region *b)
{
    return a->func != b->func ? (a->func < b->func ? -1 : 1) : a->root < b->root ? -1 : a->root > b->root;
}

static int same_together(const void *x, const void *y)
{
    const struct region *a = x, *b = y;
    return a->hash != b->hash ? (a->hash < b->hash ? -1 : 1) : in_order(a, b);
}

static int most_sent_first(const void *x, const void *y)
{
    const struct region *a = x, *b = y;
    return a->sent != b->sent ? (a->sent < b->sent ? 1 : -1) : in_order(a, b);
}

/* One stands for all that are the same, those where most is sent first. */
static void gather_regions(struct search *a)
{
    struct region *r = a->regions.items;
    size_t count = 0;
    if (!a->regions.count) return;
    qsort(r, a->regions.count, sizeof *r, same_together);
    for (size_t i = 0; i < a->regions.count; i++) {
        a->hash[r[i].func][r[i].root] = r[i].hash;
        if (count && r[count - 1].hash == r[i].hash) r[count - 1].sent += r[i].sent;
        else r[count++] = r[i];
    }
    a->regions.count = count;
    qsort(r, count, sizeof *r, most_sent_first);
}

/* Every region of those that stand, once; whether any is held otherwise now. */
static bool improve(struct search *a)
{
    struct shard *s = a->s;
    double all = 0;
    bool better = false;
    memset(a->parent, 0, s->module->funcs.count * sizeof *a->parent);
    a->regions.count = 0;
    survey(a, a->entry, 1);
    gather_regions(a);
    for (size_t i = 0; i < a->regions.count; i++) all += a->regions.items[i].sent;
    for (size_t i = 0; i < a->regions.count && a->regions.items[i].sent > all * LEAST_SHARE; i++) {
        struct region *r = &a->regions.items[i];
        think_of_others(a, r);
        for (uint32_t j = 0; j <= r->other_count && a->trials < a->most_trials; j++)
            better |= try(a, r, j ? &r->others[j - 1] : NULL);
    }
    return better;
}

static void keep_all(struct search *a, struct shard_decided *copy, bool back)
{
    for (size_t i = 0; i < a->s->module->funcs.count; i++)
        if (a->s->funcs[i].use) memset(a->s->funcs[i].touched, 1, a->s->funcs[i].func->count);
    shard_keep(a->s, copy, back);
}

static void search_on(struct search *a)
{
    while (a->trials < a->most_trials && improve(a)) {}
}

/* What sends least may lie behind what costs less and sends more: `away` leads there, and what is found from there
 * counts. */
static void digress(struct search *a, bool (*away)(struct search *))
{
    const struct shard_price before = a->least;
    keep_all(a, a->before, false);
    a->trials = a->most_trials / 2;
    a->most_sent = DETOUR;
    bool is_away = away(a);
    a->most_sent = MOST_SENT;
    if (!is_away) return;
    search_on(a);
    if (a->least.sent <= before.sent && a->least.cost <= before.cost * WORTH_IT) return;
    a->least = before;
    keep_all(a, a->before, true);
    keep_all(a, a->best, false);
    sleep_all(a->s);
}

/* Nodes of a function and of its loops. */
static size_t count_nodes(const struct shard *s, const struct shard_func *f)
{
    size_t count = f->func->count;
    for (ir_value v = 1; v < f->func->count; v++) {
        const struct ir_node *n = ir_get(f->func, v);
        if (f->live[v] && n->op == OP_loop) count += count_nodes(s, &s->funcs[n->func]);
    }
    return count;
}

void shard_search(struct shard *s)
{
    size_t count = s->module->funcs.count;
    struct search a = {.s = s, .most_sent = MOST_SENT};
    a.best = arena_new_array(s->arena, struct shard_decided, count);
    a.before = arena_new_array(s->arena, struct shard_decided, count);
    a.parent = arena_new_array(s->arena, ir_value *, count);
    a.hash = arena_new_array(s->arena, uint64_t *, count);
    for (a.entry = 0; a.entry < count; a.entry++) {
        if (!s->module->funcs.items[a.entry]->entry) continue;
        size_t most = MOST_NODES / count_nodes(s, &s->funcs[a.entry]);
        a.most_trials = most < MOST_TRIALS ? (uint32_t)most : MOST_TRIALS;
        a.trials = 0;
        a.least = price_of(&a);
        a.most_elements = (1 + MORE_ELEMENTS) * elements_of(&a.least);
        a.most_products = a.least.products + MORE_PRODUCTS * (a.least.products + elements_of(&a.least));
        shard_keep(s, a.best, false);
        sleep_all(s);
        search_on(&a);
        digress(&a, follow_slots);
        digress(&a, improve);
        a.turns = true;
        a.trials = a.most_trials / 2;
        search_on(&a);
        a.turns = false;
    }
}
