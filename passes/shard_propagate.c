/* Sharding propagation: front to back, a value's sharding follows from its operands' by the factors of its op.
 *
 * Where operands disagree about a factor, the largest operand decides; a mesh axis splits one factor only. A factor
 * that the op sums over makes the result partial; partial sums flow through linear ops, and a value that anyone
 * needs whole is *settled*: summed once, where it is made, for all its consumers. Inputs of the step are whole on every
 * device (devices of one process read the host's array in place); each takes its part where it is used.
 *
 * Settling one value can change what follows, so the walk is repeated until nothing new is settled. */
#include "passes/shard_int.h"

#include <string.h>

/* Axes for every factor: the first of the operands, largest first, that splits it; each axis once. */
static void choose_factors(const struct shard *s, const struct shard_func *f, const struct ir_node *n,
                           const struct shard_rule *r, uint32_t used, uint32_t *axes)
{
    uint32_t count = n->arg_count < 16 ? n->arg_count : 16, order[16];
    for (uint32_t i = 0; i < count; i++) {
        int64_t elements = ir_type_elements(ir_type(f->func, n->args[i]));
        uint32_t at = i;
        for (; at > 0 && ir_type_elements(ir_type(f->func, n->args[order[at - 1]])) < elements; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    memset(axes, 0, SHARD_MAX_FACTORS * sizeof *axes);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = order[k];
        const struct ir_type *t = ir_type(f->func, n->args[i]);
        for (uint32_t d = 0; d < t->rank; d++) {
            int8_t factor = r->arg[i][d];
            uint32_t split = f->value[n->args[i]].dim[d];
            if (factor < 0 || !split || axes[factor] || (r->whole >> factor & 1)) continue;
            if (shard_axes_mask(split) & used || r->size[factor] % ir_axes_size(&s->module->mesh, split) != 0) continue;
            axes[factor] = split;
            used |= shard_axes_mask(split);
        }
    }
}

/* The axes over which partial sums may pass through: all linear operands partial over the same ones, or zero. */
static uint32_t passing_partial(const struct shard_func *f, const struct ir_node *n, const struct shard_rule *r)
{
    uint32_t partial = 0, partial_count = 0;
    for (uint32_t i = 0; i < n->arg_count && i < 32; i++) {
        if (!shard_is_linear(r, i)) continue;
        uint32_t p = f->value[n->args[i]].partial;
        if (!p) {
            if (!r->product && !shard_is_zero(f->func, n->args[i])) return 0;
            continue;
        }
        if (partial && partial != p) return 0;
        partial = p;
        partial_count++;
    }
    return r->product && partial_count > 1 ? 0 : partial;
}

static void loop_node(struct shard *, struct shard_func *, ir_value);

bool shard_is_input(const struct shard *s, const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op != OP_param) return false;
    int32_t slot = f->params.items[n->attr[0].v[0]].slot;
    return slot >= 0 && s->module->slots.items[slot].role == IR_ROLE_INPUT;
}

/* How a loop sees a value from outside. Inputs are whole there: the body takes its microbatch from all rows. */
static struct ir_sharding shard_captured(const struct shard *s, const struct shard_func *f, ir_value v)
{
    struct ir_sharding whole = {{0}, 0}, as_made = f->value[v];
    as_made.partial = 0;
    return shard_is_input(s, f->func, v) ? whole : as_made;
}

void shard_node(struct shard *s, struct shard_func *f, ir_value v, struct ir_sharding *wanted,
                struct ir_sharding *result)
{
    const struct ir_node *n = ir_get(f->func, v);
    struct shard_rule r;
    uint32_t axes[SHARD_MAX_FACTORS];
    shard_rule_of(f->func, n, s->arena, &r);
    uint32_t partial = passing_partial(f, n, &r);
    choose_factors(s, f, n, &r, partial, axes);
    memset(result, 0, sizeof *result);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        memset(&wanted[i], 0, sizeof wanted[i]);
        const struct ir_type *t = ir_type(f->func, n->args[i]);
        for (uint32_t d = 0; d < t->rank; d++)
            if (r.arg[i][d] >= 0) wanted[i].dim[d] = axes[r.arg[i][d]];
        if (shard_is_linear(&r, i)) wanted[i].partial = r.product ? partial & f->value[n->args[i]].partial : partial;
    }
    for (uint32_t d = 0; d < n->type.rank; d++)
        if (r.result[d] >= 0) result->dim[d] = axes[r.result[d]];
    result->partial = partial;
    for (uint32_t factor = 0; factor < r.factor_count; factor++)
        if (r.summed >> factor & 1) result->partial |= shard_axes_mask(axes[factor]);

    if (n->op == OP_sharding_constraint) {
        uint32_t used = 0;
        for (uint32_t d = 0; d < n->type.rank && d < n->attr[0].n; d++) {
            int64_t mask = n->attr[0].v[d];
            uint32_t split = ir_axes_of_mask((mask < 0 ? s->batch_axes : (uint32_t)mask) & ~used);
            if (n->type.dim[d] % ir_axes_size(&s->module->mesh, split) != 0) split = 0;
            used |= shard_axes_mask(split);
            wanted[0].dim[d] = result->dim[d] = split;
        }
        wanted[0].partial = result->partial = 0;
    } else if (n->op == OP_param) {
        int32_t slot = f->func->params.items[n->attr[0].v[0]].slot;
        *result = slot >= 0 ? s->module->slots.items[slot].sharding
                            : f->value[v]; /* set by the loop that owns the body */
    } else if (n->op == OP_proj) {
        if (f->tuple[n->args[0]]) *result = f->tuple[n->args[0]][n->attr[0].v[0]];
        wanted[0] = f->value[n->args[0]];
    } else if (n->op == OP_loop) {
        uint32_t carried = (uint32_t)n->attr[0].v[0];
        for (uint32_t i = 0; i < n->arg_count; i++) {
            bool is_carried = i >= 1 && i <= carried;
            if (is_carried && f->tuple[v]) wanted[i] = f->tuple[v][i - 1];
            else if (i > carried) wanted[i] = shard_captured(s, f, n->args[i]);
        }
    }
}

/* Whether the sum can end in parts: the consumer wants a dimension split along exactly the axes of the sum, so that
 * each device needs only its own part (a reduce-scatter). */
static bool scatters(const struct ir_sharding *has, const struct ir_sharding *wanted)
{
    for (uint32_t d = 0; d < IR_MAX_RANK; d++)
        if (!has->dim[d] && wanted->dim[d] && shard_axes_mask(wanted->dim[d]) == (has->partial & ~wanted->partial))
            return true;
    return false;
}

/* Asks for whole sums: what is wanted without a partial axis that the operand has must be settled where it is made. */
static void settle_operands(struct shard *s, struct shard_func *f, const struct ir_node *n,
                            const struct ir_sharding *wanted)
{
    for (uint32_t i = 0; i < n->arg_count; i++) {
        ir_value a = n->args[i];
        if (!(f->value[a].partial & ~wanted[i].partial) || f->settled[a] || scatters(&f->value[a], &wanted[i]))
            continue;
        f->settled[a] = true;
        s->changed = true;
    }
}

static void propagate_func(struct shard *s, struct shard_func *f)
{
    for (ir_value v = 1; v < f->func->count; v++) {
        const struct ir_node *n = ir_get(f->func, v);
        struct ir_sharding *wanted = arena_new_array(s->arena, struct ir_sharding, n->arg_count + 1), result;
        if (n->op == OP_loop) loop_node(s, f, v);
        shard_node(s, f, v, wanted, &result);
        settle_operands(s, f, n, wanted);
        if (f->settled[v]) result.partial = 0;
        f->value[v] = result;
    }
    for (size_t i = 0; i < f->func->results.count; i++) {
        const struct ir_result *r = &f->func->results.items[i];
        if (r->slot < 0 || !f->value[r->value].partial || f->settled[r->value]) continue;
        f->settled[r->value] = true; /* slots hold whole sums */
        s->changed = true;
    }
}

/* A loop's carried values: laid out as the body makes them where the initial value is a constant (zero also as a
 * partial sum: accumulated gradients are summed over the devices once, after the loop), else as they came in. */
static void loop_node(struct shard *s, struct shard_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f->func, v);
    uint32_t carried = (uint32_t)n->attr[0].v[0];
    struct shard_func *body = &s->funcs[n->func];
    if (!f->tuple[v]) {
        f->tuple[v] = arena_new_array(s->arena, struct ir_sharding, carried + 1);
        for (uint32_t i = 0; i < carried; i++) {
            f->tuple[v][i] = f->value[n->args[1 + i]];
            /* A guess, which the body confirms or corrects: what starts at zero gathers partial sums of the batch. */
            bool gathers = shard_is_zero(f->func, n->args[1 + i]) &&
                           ir_dtype_is_float(ir_type(f->func, n->args[1 + i])->dtype);
            f->tuple[v][i].partial = gathers ? s->batch_axes : 0;
        }
    }
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < body->func->params.count; i++) {
            struct ir_sharding *p = &body->value[body->func->params.items[i].value];
            memset(p, 0, sizeof *p);
            if (i >= 1 && i <= carried) *p = f->tuple[v][i - 1];
            if (i > carried) *p = shard_captured(s, f, n->args[i]);
        }
        propagate_func(s, body);
        bool stable = true;
        for (uint32_t i = 0; i < carried; i++) {
            struct ir_sharding made = body->value[body->func->results.items[i].value], *now = &f->tuple[v][i];
            bool whole =
                body->settled[body->func->params.items[1 + i].value]; /* a partial sum that the body needs whole */
            if (whole || !shard_is_zero(f->func, n->args[1 + i])) made.partial = 0;
            if (!ir_is_number(ir_get(f->func, n->args[1 + i])) || shard_equal(&made, now) || round == 3) continue;
            *now = made;
            stable = false;
        }
        if (stable) return;
    }
}

void shard_propagate(struct shard *s)
{
    do {
        s->changed = false;
        for (size_t i = 0; i < s->module->funcs.count; i++)
            if (s->module->funcs.items[i]->entry) propagate_func(s, &s->funcs[i]);
    } while (s->changed);
}
