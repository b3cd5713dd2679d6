/* Sharding propagation: parameters, inputs, state and constraints lie as the document says, and what it says goes both
 * ways: front to back every node chooses by its operands, back to front by what reads its result as well
 * (shard_choose.c), until nothing changes. The choices of the round that costs the least are kept.
 *
 * An input lies as the document says: what the host gives a device is its part, and what is needed of others is sent.
 */
#include "passes/shard_int.h"

#include <string.h>

enum { ROUNDS = 4, LOOP_ROUNDS = 4, TRIPS = 8 /* of a loop, where the number is not known */ };

/* Who reads what, and the rules. */
static void prepare(struct shard *s, struct shard_func *f)
{
    const struct ir_func *func = f->func;
    uint32_t total = (uint32_t)func->results.count;
    f->live = ir_live(func, s->arena);
    for (size_t i = 0; i < func->params.count; i++) f->live[func->params.items[i].value] = true;
    f->awake = arena_new_array(s->arena, bool, func->count);
    f->stale = arena_new_array(s->arena, bool, func->count);
    f->touched = arena_new_array(s->arena, bool, func->count);
    f->price = arena_new_array(s->arena, struct shard_price, func->count);
    for (ir_value v = 1; v < func->count; v++) shard_wake(f, v);
    f->free = arena_new_array(s->arena, uint8_t, func->count);
    f->use_begin = arena_new_array(s->arena, uint32_t, func->count + 2);
    for (size_t i = 0; i < func->results.count; i++) f->use_begin[func->results.items[i].value + 2]++;
    for (ir_value v = 1; v < func->count; v++) {
        const struct ir_node *n = ir_get(func, v);
        if (!f->live[v]) continue;
        total += n->arg_count;
        for (uint32_t i = 0; i < n->arg_count; i++) f->use_begin[n->args[i] + 2]++;
        struct shard_rule *r = arena_new_array(s->arena, struct shard_rule, 1);
        shard_rule_of(func, n, s->arena, r);
        if (s->invariant) shard_keep_order(func, n, r);
        f->rule[v] = r;
        f->free[v] = shard_freedom(f, v);
    }
    for (ir_value v = 2; v < func->count + 2; v++) f->use_begin[v] += f->use_begin[v - 1];
    struct shard_use *use = arena_new_array(s->arena, struct shard_use, total + 1);
    for (ir_value v = 1; v < func->count; v++)
        for (uint32_t i = 0; f->live[v] && i < ir_get(func, v)->arg_count; i++)
            use[f->use_begin[ir_get(func, v)->args[i] + 1]++] = (struct shard_use){v, i};
    for (uint32_t i = 0; i < func->results.count; i++)
        use[f->use_begin[func->results.items[i].value + 1]++] = (struct shard_use){0, i};
    f->use = use;
}

/* ---------------------------------------------------------------- what was decided so far */

static void keep_list(struct shard *s, struct ir_sharding **of, struct ir_sharding **copy, uint32_t count, bool back)
{
    if (!*copy) *copy = arena_new_array(s->arena, struct ir_sharding, count + 1);
    memcpy(back ? *of : *copy, back ? *copy : *of, count * sizeof **of);
}

static void keep_node(struct shard *s, struct shard_func *f, struct shard_decided *c, ir_value v, bool back)
{
    const struct ir_node *n = ir_get(f->func, v);
    f->touched[v] = false;
    *(back ? &f->made[v] : &c->made[v]) = *(back ? &c->made[v] : &f->made[v]);
    *(back ? &f->value[v] : &c->value[v]) = *(back ? &c->value[v] : &f->value[v]);
    *(back ? &f->pinned[v] : &c->pinned[v]) = *(back ? &c->pinned[v] : &f->pinned[v]);
    *(back ? &f->price[v] : &c->price[v]) = *(back ? &c->price[v] : &f->price[v]);
    if (!f->wanted[v]) return;
    *(back ? f->choice[v] : &c->choice[v]) = *(back ? &c->choice[v] : f->choice[v]);
    keep_list(s, &f->wanted[v], &c->wanted[v], n->arg_count, back);
    if (n->op == OP_loop && f->tuple[v]) keep_list(s, &f->tuple[v], &c->tuple[v], (uint32_t)n->attr[0].v[0], back);
}

void shard_keep(struct shard *s, struct shard_decided *copy, bool back)
{
    for (size_t k = 0; k < s->module->funcs.count; k++) {
        struct shard_func *f = &s->funcs[k];
        struct shard_decided *c = &copy[k];
        uint32_t count = f->func->count;
        if (!f->use) continue;
        bool all = !c->made;
        if (all) {
            c->made = arena_new_array(s->arena, struct ir_sharding, count);
            c->value = arena_new_array(s->arena, struct ir_sharding, count);
            c->wanted = arena_new_array(s->arena, struct ir_sharding *, count);
            c->tuple = arena_new_array(s->arena, struct ir_sharding *, count);
            c->choice = arena_new_array(s->arena, struct shard_choice, count);
            c->pinned = arena_new_array(s->arena, const struct ir_sharding *, count);
            c->price = arena_new_array(s->arena, struct shard_price, count);
        }
        for (ir_value v = 1; v < count; v++)
            if (f->touched[v] || all) keep_node(s, f, c, v, back);
    }
}

/* ---------------------------------------------------------------- sweeps */

static void loop_node(struct shard *, struct shard_func *, ir_value);

static bool sweep(struct shard *s, struct shard_func *f, bool backwards)
{
    bool any = false;
    for (ir_value i = 1; i < f->func->count; i++) {
        ir_value v = backwards ? f->func->count - i : i;
        bool loop = ir_get(f->func, v)->op == OP_loop;
        if (!f->live[v] || !(f->awake[v] || loop)) continue;
        any |= f->awake[v];
        if (!backwards && loop) {
            loop_node(s, f, v);
            shard_wake_readers(f, v); /* the carried values may lie otherwise */
        }
        shard_choose(s, f, v);
    }
    return any;
}

double shard_trips(const struct shard_func *f, const struct ir_node *loop)
{
    double number;
    return pass_number(f->func, loop->args[0], &number) && number > 0 ? number : TRIPS;
}

void shard_price_of(struct shard *s, struct shard_func *f, double times, struct shard_price *sum)
{
    for (ir_value v = 1; v < f->func->count; v++) {
        const struct ir_node *n = ir_get(f->func, v);
        struct shard_price *p = &f->price[v];
        if (!f->live[v]) continue;
        if (f->stale[v] || n->op == OP_loop) {
            double work = shard_work(s, f, v, f->choice[v]);
            p->cost = shard_hold(s, f, v, &p->sent) + work;
            p->products = n->op == OP_dot ? work : 0;
            f->stale[v] = false;
            f->touched[v] = true;
        }
        sum->cost += times * p->cost;
        sum->sent += times * p->sent;
        sum->products += times * p->products;
        if (n->op == OP_loop) shard_price_of(s, &s->funcs[n->func], times * shard_trips(f, n), sum);
    }
}

/* A loop's carried values: laid out as the body makes them where the initial value is a constant (zero also as a
 * partial sum: accumulated gradients are summed over the devices once, after the loop), else as they came in. */
static void loop_node(struct shard *s, struct shard_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f->func, v);
    uint32_t carried = (uint32_t)n->attr[0].v[0];
    struct shard_func *body = &s->funcs[n->func];
    if (!body->use) prepare(s, body);
    if (!f->tuple[v]) {
        f->tuple[v] = arena_new_array(s->arena, struct ir_sharding, carried + 1);
        for (uint32_t i = 0; i < carried; i++) {
            ir_value in = n->args[1 + i];
            f->tuple[v][i] = shard_in_parts(&s->module->mesh, ir_type(f->func, in), f->value[in]);
            /* A guess, which the body confirms or corrects: what starts at zero gathers partial sums of the batch. */
            bool gathers = shard_is_zero(f->func, n->args[1 + i]) &&
                           ir_dtype_is_float(ir_type(f->func, n->args[1 + i])->dtype);
            f->tuple[v][i].partial = gathers ? s->batch_axes : 0;
        }
    }
    for (int round = 0; round < LOOP_ROUNDS; round++) {
        for (size_t i = 0; i < body->func->params.count; i++) {
            struct ir_sharding *p = &body->made[body->func->params.items[i].value];
            memset(p, 0, sizeof *p);
            shard_wake(body, body->func->params.items[i].value);
            shard_wake_readers(body, body->func->params.items[i].value);
            if (i >= 1 && i <= carried) *p = f->tuple[v][i - 1];
            if (i > carried) *p = shard_captured(s, f, n->args[i]);
        }
        sweep(s, body, false);
        sweep(s, body, true);
        sweep(s, body, false);
        bool stable = true;
        for (uint32_t i = 0; i < carried; i++) {
            ir_value in = body->func->params.items[1 + i].value;
            ir_value out = body->func->results.items[i].value;
            struct ir_sharding made = shard_in_parts(&s->module->mesh, ir_type(body->func, out), body->value[out]);
            struct ir_sharding *now = &f->tuple[v][i];
            bool whole = body->made[in].partial &
                         ~body->value[in].partial; /* a partial sum that the body needs whole */
            if (whole || !shard_is_zero(f->func, n->args[1 + i])) made.partial = 0;
            if (!ir_is_number(ir_get(f->func, n->args[1 + i])) || shard_equal(&made, now) || round == LOOP_ROUNDS - 1)
                continue;
            *now = made;
            stable = false;
        }
        if (stable) return;
    }
}

static double cost_of_all(struct shard *s)
{
    struct shard_price all = {.cost = 0};
    for (size_t i = 0; i < s->module->funcs.count; i++)
        if (s->module->funcs.items[i]->entry) shard_price_of(s, &s->funcs[i], 1, &all);
    return all.cost;
}

bool shard_sweep(struct shard *s, bool backwards)
{
    bool any = false;
    for (size_t i = 0; i < s->module->funcs.count; i++)
        if (s->module->funcs.items[i]->entry) any |= sweep(s, &s->funcs[i], backwards);
    return any;
}

void shard_propagate(struct shard *s)
{
    size_t count = s->module->funcs.count;
    struct shard_decided *best = arena_new_array(s->arena, struct shard_decided, count);
    double least = -1;
    for (size_t i = 0; i < count; i++)
        if (s->module->funcs.items[i]->entry) prepare(s, &s->funcs[i]);
    for (uint32_t round = 0; round < 2 * ROUNDS; round++) {
        bool any = shard_sweep(s, round & 1);
        s->settled = true;
        if (round & 1) continue;
        double cost = cost_of_all(s);
        if (least >= 0 && cost >= least) {
            if (!any) break;
            continue;
        }
        least = cost;
        shard_keep(s, best, false);
    }
    shard_keep(s, best, true);
}
