/* How one node is split, and in which layout its result is held.
 *
 * Operands propose to split factors as they lie, and so do those that read the result, as they want it. Every set of
 * proposals that go together is weighed: what bringing the operands there costs, what handing out the result costs, and
 * the work of one device. A factor that the op sums over makes the result partial. Partial sums pass through linear ops
 * as long as they do not grow.
 *
 * A value is held in the layout, of its own and of those that are wanted, that costs the least to come to and to hand
 * out from; a sum that anyone needs whole, or in parts, is summed there, once for all. */
#include "passes/shard_int.h"

#include <string.h>

enum { MOST_PROPOSALS = 8, MOST_SOURCES = 8, FEW_SUMS = 4096, MOST_PADDED = 2 };
struct proposal {
    int8_t factor;
    uint32_t axes;
    struct shard_lead lead;
};

/* ---------------------------------------------------------------- what reads a value */

static void wish(struct shard_wishes *w, struct ir_sharding of)
{
    w->whole |= ~of.partial;
    for (uint32_t i = 0; i < w->count; i++)
        if (shard_equal(&w->of[i], &of)) return;
    if (w->count < SHARD_MOST_WANTED) w->of[w->count++] = of;
}

/* The layouts that are wanted of a value by all but one node: captured ones of loops follow it, but they are not
 * partial. */
void shard_collect(const struct shard *s, const struct shard_func *f, ir_value v, ir_value except,
                   struct shard_wishes *w)
{
    w->count = w->whole = 0;
    for (uint32_t i = f->use_begin[v]; i < f->use_begin[v + 1]; i++) {
        const struct shard_use *u = &f->use[i];
        const struct ir_node *n = ir_get(f->func, u->node);
        if (u->node && u->node == except) continue;
        if (!u->node) {
            const struct ir_result *r = &f->func->results.items[u->operand];
            if (r->slot >= 0) wish(w, s->module->slots.items[r->slot].sharding);
            else if (f->result) wish(w, f->result[u->operand]);
        } else if (f->free[u->node]) {
            struct shard_wishes through;
            struct ir_sharding wanted[SHARD_MAX_REMADE];
            shard_collect(s, f, u->node, except, &through);
            for (uint32_t k = 0; k < through.count; k++) {
                shard_operands_for(f, u->node, &through.of[k], wanted);
                wish(w, wanted[u->operand]);
            }
            w->whole = ~0u;
        } else if (n->op == OP_loop && u->operand > (uint32_t)n->attr[0].v[0]) {
            w->whole = ~0u;
        } else if (n->op != OP_proj && f->wanted[u->node]) {
            wish(w, f->wanted[u->node][u->operand]);
        }
    }
}

/* ---------------------------------------------------------------- what a choice says */

/* Of a cast, by how many bytes its numbers get wider. What devices add up in the narrower type is rounded once more:
 * few sums are done in the wider one, many where that sends less. */
static int64_t widens(const struct ir_func *f, const struct ir_node *n)
{
    if (n->op != OP_cast) return 0;
    return (int64_t)ir_dtype_bytes((enum ir_dtype)n->type.dtype) -
           (int64_t)ir_dtype_bytes((enum ir_dtype)ir_type(f, n->args[0])->dtype);
}

static bool few_sums(int64_t elements) { return elements <= FEW_SUMS; }

/* A tap of a convolution's gradient: what it is added to is summed with it, so that it may grow by what is padded. */
static bool is_padded_addend(const struct shard_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f->func, v);
    const uint32_t first = f->use_begin[v];
    return n->op == OP_pad && f->use_begin[v + 1] == first + 1 && f->use[first].node &&
           ir_get(f->func, f->use[first].node)->op == OP_add &&
           ir_type_elements(&n->type) <= MOST_PADDED * ir_type_elements(ir_type(f->func, n->args[0]));
}

/* The axes over which partial sums may pass through: all linear operands partial over the same ones, or zero. A sum
 * that is done for another reader anyway is taken as it is: what passes would have to be summed once more. */
static uint32_t passing_partial(const struct shard *s, const struct shard_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f->func, v);
    const struct shard_rule *r = f->rule[v];
    uint32_t partial = 0, partial_count = 0;
    int64_t elements = 0;
    struct shard_wishes others;
    for (uint32_t i = 0; i < n->arg_count && i < 32; i++) {
        if (!shard_is_linear(r, i)) continue;
        uint32_t p = f->made[n->args[i]].partial;
        if (!p) {
            if (!r->product && !shard_is_zero(f->func, n->args[i])) return 0;
            continue;
        }
        if (partial && partial != p) return 0;
        shard_collect(s, f, n->args[i], v, &others);
        if (!(p &= ~others.whole)) return 0;
        partial = p;
        partial_count++;
        elements += ir_type_elements(ir_type(f->func, n->args[i]));
    }
    if (ir_type_elements(&n->type) > elements && !is_padded_addend(f, v)) return 0;
    if (few_sums(elements) && widens(f->func, n) < 0) return 0;
    return r->product && partial_count > 1 ? 0 : partial;
}

/* Sums over axes that a dimension shall lie along end here, in parts. */
static void apply_constraint(const struct shard *s, const struct ir_node *n, struct ir_sharding *to)
{
    uint32_t used = 0;
    for (uint32_t d = 0; d < n->type.rank && d < n->attr[0].n; d++) {
        int64_t mask = n->attr[0].v[d];
        uint32_t split = ir_axes_of_mask((mask < 0 ? s->batch_axes : (uint32_t)mask) & ~used);
        used |= shard_axes_mask(split);
        to->dim[d] = split;
    }
    to->partial &= ~used;
}

struct ir_sharding shard_captured(const struct shard *s, const struct shard_func *f, ir_value v)
{
    struct ir_sharding as_held = f->value[v];
    as_held.partial = 0;
    return shard_in_parts(&s->module->mesh, ir_type(f->func, v), as_held);
}

/* What the choice says of the operands, `made` of the result. */
static void shard_apply(const struct shard *s, const struct shard_func *f, ir_value v,
                        const struct shard_choice *choice, struct ir_sharding *wanted, struct ir_sharding *made)
{
    const struct ir_node *n = ir_get(f->func, v);
    const struct shard_rule *r = f->rule[v];
    memset(wanted, 0, n->arg_count * sizeof *wanted);
    memset(made, 0, sizeof *made);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        for (uint32_t d = 0; d < ir_type(f->func, n->args[i])->rank; d++)
            if (r->arg[i][d] >= 0) {
                wanted[i].dim[d] = choice->axes[r->arg[i][d]];
                wanted[i].step[d] = choice->lead[r->arg[i][d]].from;
            }
        if (shard_is_linear(r, i))
            wanted[i].partial = r->product ? choice->passing & f->made[n->args[i]].partial : choice->passing;
    }
    for (uint32_t d = 0; d < n->type.rank; d++)
        if (r->result[d] >= 0) {
            made->dim[d] = choice->axes[r->result[d]];
            made->step[d] = choice->lead[r->result[d]].to;
        }
    made->partial = choice->passing;
    for (uint32_t factor = 0; factor < r->factor_count; factor++)
        if (r->summed >> factor & 1) made->partial |= shard_axes_mask(choice->axes[factor]);
    if (n->op == OP_scatter_add) wanted[0].partial = made->partial; /* what is added to counts once */
    if (n->op == OP_sharding_constraint) {
        apply_constraint(s, n, made);
        wanted[0] = *made;
    } else if (n->op == OP_param) {
        int32_t slot = f->func->params.items[n->attr[0].v[0]].slot;
        *made = slot >= 0 ? s->module->slots.items[slot].sharding : f->made[v]; /* set by the loop that owns the body */
    } else if (n->op == OP_proj) {
        if (f->tuple[n->args[0]]) *made = f->tuple[n->args[0]][n->attr[0].v[0]];
    } else if (n->op == OP_loop) {
        uint32_t carried = (uint32_t)n->attr[0].v[0];
        for (uint32_t i = 0; i < n->arg_count; i++) {
            bool is_carried = i >= 1 && i <= carried;
            if (is_carried && f->tuple[v]) wanted[i] = f->tuple[v][i - 1];
            else if (i > carried) wanted[i] = shard_captured(s, f, n->args[i]);
        }
    }
}

/* The best layout to hold what lies as `made`, and what that costs. */
static double best(const struct shard *s, const struct shard_func *f, ir_value v, const struct ir_sharding *made,
                   const struct shard_wishes *w, struct ir_sharding *held)
{
    struct ir_sharding tried[SHARD_MOST_WANTED + 2];
    uint32_t count = 0;
    double least = -1;
    const struct ir_sharding *pinned = f->pinned[v];
    tried[count] = pinned ? *pinned : *made;
    tried[count++].partial &= ~w->whole;
    for (uint32_t i = 0; i < w->count && !pinned; i++)
        if (!(w->of[i].partial & ~made->partial) && !(w->of[i].partial & w->whole)) tried[count++] = w->of[i];
    for (uint32_t k = 0; k < count; k++) {
        const struct ir_type local = shard_local_type(&s->module->mesh, ir_type(f->func, v), &tried[k]);
        double cost = shard_cost(s, f, v, made, &tried[k]) + (double)ir_type_elements(&local) / SHARD_ELEMENTS;
        for (uint32_t i = 0; i < w->count; i++) cost += shard_cost(s, f, v, &tried[k], &w->of[i]);
        if (least >= 0 && cost >= least) continue;
        least = cost;
        *held = tried[k];
    }
    return least;
}

double shard_hold(const struct shard *s, struct shard_func *f, ir_value v, double *sent)
{
    struct shard_wishes w;
    f->value[v] = f->made[v];
    *sent = 0;
    if (f->free[v] || ir_get(f->func, v)->type.dtype == IR_TUPLE) return 0;
    shard_collect(s, f, v, 0, &w);
    double cost = best(s, f, v, &f->made[v], &w, &f->value[v]);
    const struct ir_type local = shard_local_type(&s->module->mesh, ir_type(f->func, v), &f->value[v]);
    *sent = cost - (double)ir_type_elements(&local) / SHARD_ELEMENTS;
    return cost;
}

/* ---------------------------------------------------------------- the choice */

/* Devices get equally many leaves, in the order in which sums over them go. */
static bool keeps_tree(const struct shard *s, const struct shard_rule *r, uint32_t axes)
{
    for (uint32_t rest = axes; rest >> 4; rest >>= 4)
        if ((rest & 15) > (rest >> 4 & 15)) return false;
    return r->leaves % ir_axes_size(&s->module->mesh, axes) == 0;
}

/* Whether a factor falls into parts: equal ones, or rounded up ones that are smaller than all, in dimensions that are
 * the factor and nothing else (a reshape puts the padding of [10, 3] elsewhere than that of [30]). */
static bool falls_apart(const struct shard *s, const struct shard_rule *r, int8_t factor, uint32_t axes)
{
    int64_t size = r->size[factor], part = ir_part_extent(&s->module->mesh, size, axes);
    return size % ir_axes_size(&s->module->mesh, axes) == 0 || (part < size && !(r->blocks >> factor & 1));
}

/* What a node is weighed with: what is wanted of its result, and of its operands by others. */
struct scale {
    const struct shard *s;
    const struct shard_func *f;
    ir_value v;
    struct shard_wishes wants;
    struct source {
        ir_value v;
        struct shard_wishes others, all;
    } sources[MOST_SOURCES];
    uint32_t count;
};

struct proposals {
    struct proposal list[MOST_PROPOSALS];
    uint32_t count, passing;
};

static void propose(const struct scale *k, struct proposals *all, int8_t factor, uint32_t axes, struct shard_lead lead)
{
    struct proposal *list = all->list;
    if (shard_axes_mask(axes) & all->passing || all->count == MOST_PROPOSALS) return;
    if (lead.from == lead.to && !shard_windows_pass(k->f, k->v, (uint32_t)factor, lead.to)) return;
    for (uint32_t i = 0; i < all->count; i++)
        if (list[i].factor == factor && list[i].axes == axes && list[i].lead.from == lead.from &&
            list[i].lead.to == lead.to)
            return;
    list[all->count++] = (struct proposal){factor, axes, lead};
}

/* To split a factor as dimension `d` of an operand, or of the result, lies. */
static void propose_as(const struct scale *k, struct proposals *all, int8_t factor, const struct ir_sharding *lies,
                       uint32_t d, bool of_result)
{
    const struct shard_rule *r = k->f->rule[k->v];
    const uint32_t axes = lies->dim[d];
    int64_t parts = ir_axes_size(&k->s->module->mesh, axes);
    struct shard_lead lead = {lies->step[d], lies->step[d]};
    if (factor < 0 || !axes || r->whole >> factor & 1) return;
    if (r->leaves && r->summed >> factor & 1 && !keeps_tree(k->s, r, axes)) return;
    if (r->window >> factor & 1) {
        if (!shard_lead(k->f, k->v, d, parts, of_result, &lead)) return;
    } else if (!lead.to || !shard_windows_pass(k->f, k->v, (uint32_t)factor, lead.to)) {
        if (!falls_apart(k->s, r, factor, axes)) return;
        lead = (struct shard_lead){0, 0};
    }
    propose(k, all, factor, axes, lead);
}

/* Where two factors want the same axis, one that is split over several may keep those before it. */
static void propose_leading(const struct scale *k, struct proposals *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        for (uint32_t j = 0, many = all->count; j < many; j++) {
            const struct proposal p = all->list[i];
            uint32_t others = shard_axes_mask(all->list[j].axes), bits = 0;
            if (all->list[j].factor == p.factor || p.lead.from || p.lead.to) continue;
            while (bits < 32 && p.axes >> bits & 15 && !(others >> ((p.axes >> bits & 15) - 1) & 1)) bits += 4;
            const uint32_t axes = shard_leading(p.axes, bits);
            if (bits && bits < 32 && p.axes >> bits && falls_apart(k->s, k->f->rule[k->v], p.factor, axes))
                propose(k, all, p.factor, axes, p.lead);
        }
}

/* The operands by their size, at most 16 of them. */
static uint32_t largest_first(const struct shard_func *f, const struct ir_node *n, uint32_t *order)
{
    uint32_t count = n->arg_count < 16 ? n->arg_count : 16;
    for (uint32_t i = 0; i < count; i++) {
        int64_t elements = ir_type_elements(ir_type(f->func, n->args[i]));
        uint32_t at = i;
        for (; at > 0 && ir_type_elements(ir_type(f->func, n->args[order[at - 1]])) < elements; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return count;
}

/* Work of one device: of a contraction its products, else the elements that it makes; and what it sends at once. */
double shard_work(const struct shard *s, const struct shard_func *f, ir_value v, const struct shard_choice *choice)
{
    const struct ir_node *n = ir_get(f->func, v);
    const struct shard_rule *r = f->rule[v];
    double products = 1, elements = 1, parts = 1;
    for (uint32_t factor = 0; factor < r->factor_count; factor++) {
        int64_t k = ir_axes_size(&s->module->mesh, choice->axes[factor]);
        products *= (double)ir_part_extent(&s->module->mesh, r->size[factor], choice->axes[factor]);
        if (r->extremum >> factor & 1) parts *= (double)k;
    }
    for (uint32_t d = 0; d < n->type.rank; d++)
        elements *= (double)ir_part_extent(&s->module->mesh, n->type.dim[d],
                                           r->result[d] < 0 ? 0 : choice->axes[r->result[d]]);
    return products / (n->op == OP_dot ? SHARD_PRODUCTS : SHARD_ELEMENTS) +
           2 * elements * (double)ir_dtype_bytes((enum ir_dtype)n->type.dtype) * (parts - 1) / parts +
           shard_rims_sent(s, f, v, choice);
}

/* The node wants operand `v` as `wanted`; of one that is made again, its operands. Returns what that costs beside what
 * the sources' readers do. */
static double want(struct scale *k, ir_value v, const struct ir_sharding *wanted)
{
    const struct shard_func *f = k->f;
    const struct ir_node *n = ir_get(f->func, v);
    struct ir_sharding from[SHARD_MAX_REMADE];
    double cost = 0;
    uint32_t i = 0;
    if (n->type.dtype == IR_TUPLE || (!n->type.rank && !f->made[v].partial)) return 0;
    if (ir_is_number(n) || n->op == OP_iota) return 0; /* any part of it is there */
    if (f->free[v]) {
        shard_operands_for(f, v, wanted, from);
        for (; i < n->arg_count; i++) cost += want(k, n->args[i], &from[i]);
        return cost;
    }
    /* Before its other readers have chosen, or where these shall choose anew, a conversion is all there is to say. */
    if (!k->s->settled || f->dear[v]) return shard_cost(k->s, f, v, &f->value[v], wanted);
    while (i < k->count && k->sources[i].v != v) i++;
    if (i == MOST_SOURCES) return shard_cost(k->s, f, v, &f->value[v], wanted);
    if (i == k->count) {
        k->count++;
        k->sources[i].v = v;
        shard_collect(k->s, f, v, k->v, &k->sources[i].others);
        k->sources[i].all = k->sources[i].others;
    }
    wish(&k->sources[i].all, *wanted);
    return 0;
}

static double weigh(struct scale *k, const struct shard_choice *choice, struct ir_sharding *wanted)
{
    const struct ir_node *n = ir_get(k->f->func, k->v);
    struct ir_sharding made, held;
    shard_apply(k->s, k->f, k->v, choice, wanted, &made);
    double cost = shard_work(k->s, k->f, k->v, choice) + best(k->s, k->f, k->v, &made, &k->wants, &held);
    if (!k->wants.count && made.partial) { /* nobody knows yet: it will be summed, at best in parts */
        struct ir_sharding done = made;
        done.partial = 0;
        cost += shard_cost(k->s, k->f, k->v, &made, &done) / 2;
    }
    for (uint32_t i = 0; i < k->count; i++) k->sources[i].all = k->sources[i].others;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        bool again = false;
        for (uint32_t j = 0; j < i && !again && j < 8; j++)
            again = n->args[j] == n->args[i] && shard_equal(&wanted[j], &wanted[i]);
        if (!again) cost += want(k, n->args[i], &wanted[i]);
    }
    for (uint32_t i = 0; i < k->count; i++) {
        ir_value v = k->sources[i].v;
        cost += best(k->s, k->f, v, &k->f->made[v], &k->sources[i].all, &held);
    }
    return cost;
}

/* Sets the axes of the proposals in `set`; false: they do not go together. */
static bool take_up(const struct proposal *list, uint32_t count, uint32_t set, struct shard_choice *choice)
{
    uint32_t used = 0;
    memset(choice->axes, 0, sizeof choice->axes);
    memset(choice->lead, 0, sizeof choice->lead);
    for (uint32_t i = 0; i < count; i++) {
        if (!(set >> i & 1)) continue;
        uint32_t mask = shard_axes_mask(list[i].axes);
        if (choice->axes[list[i].factor] || mask & used) return false;
        choice->axes[list[i].factor] = list[i].axes;
        choice->lead[list[i].factor] = list[i].lead;
        used |= mask;
    }
    return true;
}

/* Every set of proposals, with partial sums that pass over `passing`; `chosen`, if one costs less than `least` (-1:
 * there is none yet). */
static double try_all(struct scale *k, uint32_t passing, double least, struct shard_choice *chosen)
{
    const struct shard_func *f = k->f;
    const struct ir_node *n = ir_get(f->func, k->v);
    const struct shard_rule *r = f->rule[k->v];
    struct shard_choice choice = {.passing = passing};
    const struct shard_choice *before = f->choice[k->v];
    struct proposals all = {.passing = passing};
    uint32_t order[16], operands = largest_first(f, n, order);
    for (uint32_t factor = 0; before && factor < r->factor_count; factor++)
        if (before->axes[factor]) propose(k, &all, (int8_t)factor, before->axes[factor], before->lead[factor]);
    for (uint32_t j = 0; j < operands; j++)
        for (uint32_t i = order[j], d = 0; d < ir_type(f->func, n->args[i])->rank; d++)
            propose_as(k, &all, r->arg[i][d], &f->value[n->args[i]], d, false);
    for (uint32_t j = 0; j < k->wants.count; j++)
        for (uint32_t d = 0; d < n->type.rank; d++) propose_as(k, &all, r->result[d], &k->wants.of[j], d, true);
    propose_leading(k, &all);
    if (!all.count && !passing && least < 0) return 0; /* there is nothing to choose */
    for (uint32_t set = 1u << all.count; set-- > 0;) {
        if (!take_up(all.list, all.count, set, &choice)) continue;
        double cost = weigh(k, &choice, f->wanted[k->v]);
        if (least >= 0 && cost >= least) continue;
        least = cost;
        *chosen = choice;
    }
    return least;
}

void shard_wake(struct shard_func *f, ir_value v) { f->awake[v] = f->stale[v] = true; }

/* Those whose costs depend on what was chosen for a node choose again. */
void shard_wake_readers(struct shard_func *f, ir_value v)
{
    for (uint32_t i = f->use_begin[v]; i < f->use_begin[v + 1]; i++) {
        ir_value reader = f->use[i].node;
        if (!reader || f->awake[reader]) continue;
        shard_wake(f, reader);
        if (f->free[reader]) shard_wake_readers(f, reader);
    }
}

static void wake(struct shard_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f->func, v);
    shard_wake_readers(f, v);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        ir_value from = n->args[i];
        if (ir_is_number(ir_get(f->func, from)) || (!ir_type(f->func, from)->rank && !f->made[from].partial)) continue;
        shard_wake(f, from);
        if (f->free[from]) wake(f, from);
        else shard_wake_readers(f, from);
    }
}

void shard_choose(struct shard *s, struct shard_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f->func, v);
    const struct shard_rule *r = f->rule[v];
    const struct ir_sharding held_before = f->value[v], made_before = f->made[v];
    struct shard_choice chosen = {.passing = passing_partial(s, f, v)};
    struct scale k = {.s = s, .f = f, .v = v};
    struct ir_sharding made;
    bool first = !f->wanted[v];
    if (first) {
        f->wanted[v] = arena_new_array(s->arena, struct ir_sharding, n->arg_count + 1);
        f->choice[v] = arena_new_array(s->arena, struct shard_choice, 1);
    }
    if (r->factor_count && n->op != OP_sharding_constraint) {
        shard_collect(s, f, v, 0, &k.wants);
        if (f->pinned[v]) wish(&k.wants, *f->pinned[v]);
        uint32_t passing = chosen.passing;
        double least = try_all(&k, passing, -1, &chosen);
        bool stays = is_padded_addend(f, v) || (few_sums(ir_type_elements(&n->type)) && widens(f->func, n) > 0);
        if (passing && !stays) try_all(&k, 0, least, &chosen);
    }
    f->awake[v] = false;
    f->touched[v] = true;
    shard_apply(s, f, v, &chosen, f->wanted[v], &made);
    f->made[v] = made;
    bool same = memcmp(f->choice[v], &chosen, sizeof chosen) == 0;
    *f->choice[v] = chosen;
    double sent;
    shard_hold(s, f, v, &sent);
    if (first || !same || !shard_equal(&made, &made_before) || !shard_equal(&f->value[v], &held_before)) wake(f, v);
}
