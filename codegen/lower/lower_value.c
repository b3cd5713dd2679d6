/* The value of a node at a position: element-wise ops become operations, index ops map the position, leaves are
 * loaded. Where a position may lie outside an operand (pad, concat, dynamic_update), the operand is asked for under a
 * mask, so nothing outside is ever read. */
#include "codegen/lower/lower.h"
#include <float.h>
#include <math.h>
#include <string.h>

nest_value lower_and(struct lower *l, nest_value x, nest_value y)
{
    if (!x || !y) return x ? x : y;
    return lower_binary(l, OP_and, IR_BOOL, x, y);
}

/* low <= p < high as a condition; 0 where it always holds. What only says where inside of whole steps is left out: the
 * lanes of a part that is there as a whole, or not, ask nothing. */
static nest_value within(struct lower *l, const struct lower_pos *p, int64_t low, int64_t high)
{
    struct lower_pos steps, rest;
    int64_t least, most;
    nest_value cond = 0;
    lower_pos_range(l, p, &least, &most);
    if (least >= low && most < high) return 0;
    for (uint32_t i = 0; i < p->term_count + p->scaled_count; i++) {
        int64_t factor = lower_common_factor(lower_common_factor(lower_pos_scale(p, i), low), high);
        if (factor > 1 && lower_pos_part(l, p, factor, &steps, &rest))
            return within(l, &steps, low / factor, high / factor);
    }
    nest_value number;
    if (least < low) {
        nest_value x = lower_pos_beside(l, p, low, &number);
        cond = lower_binary(l, OP_le, IR_BOOL, number, x);
    }
    if (most >= high) {
        nest_value x = lower_pos_beside(l, p, high, &number);
        cond = lower_and(l, cond, lower_binary(l, OP_lt, IR_BOOL, x, number));
    }
    return cond;
}

static bool never_within(struct lower *l, const struct lower_pos *p, int64_t low, int64_t high)
{
    int64_t least, most;
    lower_pos_range(l, p, &least, &most);
    return most < low || least >= high;
}

static nest_value select_of(struct lower *l, nest_value cond, nest_value x, nest_value y)
{
    nest_value args[3] = {cond, x, y};
    return nest_op(&l->b, OP_select, nest_dtype(&l->b, x), args, 3);
}

static nest_value masked_value(struct lower *l, nest_value cond, ir_value v, const struct lower_pos *p)
{
    nest_value before = l->cond;
    l->cond = lower_and(l, before, cond);
    nest_value result = lower_value(l, v, p);
    l->cond = before;
    return result;
}

static nest_value zero_of(struct lower *l, const struct ir_type *type)
{
    return nest_number(&l->b, (enum ir_dtype)type->dtype, 0);
}

/* ---------------------------------------------------------------- index ops */

/* Of one whose elements lie at `offset` and steps of `scale` in its operand's. */
static nest_value from_strided(struct lower *l, const struct ir_node *node, const struct lower_pos *p, int64_t offset,
                               const int64_t *scale, const bool *apart)
{
    int64_t by[IR_MAX_RANK];
    struct lower_pos at[IR_MAX_RANK], inner = lower_pos_constant(offset);
    uint32_t runs = lower_pos_runs(l, p, node->type.rank, node->type.dim, scale, apart, at, by);
    for (uint32_t i = runs; i-- > 0;) lower_pos_add(l, &inner, &at[i], by[i]);
    return lower_value(l, node->args[0], &inner);
}

static nest_value from_broadcast(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    const struct ir_type *from = ir_type(l->f, node->args[0]);
    int64_t stride[IR_MAX_RANK], scale[IR_MAX_RANK] = {0};
    lower_strides(from, stride);
    for (uint32_t i = 0; i < from->rank; i++)
        if (from->dim[i] != 1) scale[node->attr[0].v[i]] = stride[i];
    return from_strided(l, node, p, 0, scale, NULL);
}

static nest_value from_transpose(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    int64_t stride[IR_MAX_RANK], scale[IR_MAX_RANK], by[IR_MAX_RANK];
    struct lower_pos at[IR_MAX_RANK], inner = lower_pos_constant(0);
    lower_strides(ir_type(l->f, node->args[0]), stride);
    for (uint32_t i = 0; i < node->type.rank; i++) scale[i] = stride[node->attr[0].v[i]];
    uint32_t runs = lower_pos_runs(l, p, node->type.rank, node->type.dim, scale, NULL, at, by);
    for (uint32_t i = 0; i < runs; i++) lower_pos_add(l, &inner, &at[i], by[i]);
    return lower_value(l, node->args[0], &inner);
}

/* Coordinates of `p` in the shape of `type`. */
static void coordinates(struct lower *l, const struct lower_pos *p, const struct ir_type *type, struct lower_pos *at)
{
    lower_pos_split(l, p, type->rank, type->dim, at);
}

static nest_value from_slice(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    const struct ir_type *from = ir_type(l->f, node->args[0]);
    bool apart[IR_MAX_RANK];
    int64_t stride[IR_MAX_RANK], scale[IR_MAX_RANK], offset = 0;
    lower_strides(from, stride);
    for (uint32_t i = 0; i < node->type.rank; i++) {
        scale[i] = stride[i] * (node->attr[2].n ? node->attr[2].v[i] : 1);
        apart[i] = node->type.dim[i] != from->dim[i];
        offset += stride[i] * node->attr[0].v[i];
    }
    return from_strided(l, node, p, offset, scale, apart);
}

static nest_value from_reverse(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    int64_t scale[IR_MAX_RANK], offset = 0;
    bool apart[IR_MAX_RANK];
    memset(apart, true, sizeof apart);
    lower_strides(&node->type, scale);
    for (uint32_t i = 0; i < node->attr[0].n; i++) {
        int64_t d = node->attr[0].v[i];
        offset += (node->type.dim[d] - 1) * scale[d];
        scale[d] = -scale[d];
    }
    return from_strided(l, node, p, offset, scale, apart);
}

static nest_value from_pad(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    const struct ir_type *from = ir_type(l->f, node->args[0]);
    struct lower_pos at[IR_MAX_RANK], none = lower_pos_constant(0);
    nest_value cond = 0, fill = lower_value(l, node->args[1], &none);
    coordinates(l, p, &node->type, at);
    for (uint32_t i = 0; i < from->rank; i++) {
        int64_t step = node->attr[2].n ? node->attr[2].v[i] + 1 : 1;
        struct lower_pos moved = at[i], phase;
        moved.offset -= node->attr[0].v[i];
        int64_t last = from->dim[i] ? (from->dim[i] - 1) * step + 1 : 0, multiple;
        bool never;
        if (step > 1 && lower_pos_phase(l, &moved, step, &at[i], &phase, &multiple, &never)) {
            at[i].offset += multiple / step;
            if (never || never_within(l, &at[i], 0, from->dim[i])) return fill;
            cond = lower_and(l, cond, within(l, &at[i], 0, from->dim[i]));
            if (phase.term_count + phase.scaled_count)
                cond = lower_and(
                    l, cond, lower_binary(l, OP_eq, IR_BOOL, lower_pos_value(l, &phase), lower_number(l, multiple)));
            continue;
        }
        if (never_within(l, &moved, 0, last)) return fill;
        cond = lower_and(l, cond, within(l, &moved, 0, last));
        if (step > 1) {
            struct lower_pos steps = moved;
            nest_value rest = lower_pos_rest(l, &steps, step);
            cond = lower_and(l, cond, lower_binary(l, OP_eq, IR_BOOL, rest, lower_number(l, 0)));
            moved = lower_pos_constant(0);
            lower_pos_add_scaled(l, &moved, lower_pos_quotient(l, &steps, step), 1, from->dim[i]);
        }
        at[i] = moved;
    }
    struct lower_pos inner = lower_pos_join(l, from->rank, from->dim, at);
    nest_value x = masked_value(l, cond, node->args[0], &inner);
    return cond ? select_of(l, cond, x, fill) : x;
}

/* Operands that lie side by side in whole vectors: where each of these is a part of the axis they are lowered one by
 * one, and no lane asks whose it is. */
static void ask_operands_apart(struct lower *l, const struct ir_node *node, int64_t inner, const struct lower_pos *p)
{
    enum { MOST = 4, VECTORS = 2 };
    int64_t size = 0, all = node->type.dim[node->attr[0].v[0]] * inner;
    for (uint32_t i = 0; i < node->arg_count; i++)
        size = lower_common_factor(size, ir_type(l->f, node->args[i])->dim[node->attr[0].v[0]] * inner);
    if (!l->phases || size < VECTORS * (int64_t)l->lanes || all / size > MOST) return;
    struct lower_pos at[2];
    lower_pos_split(l, p, 2, (int64_t[]){all / size, size}, at);
}

static nest_value from_concat(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    ir_value v = (ir_value)(node - l->f->nodes);
    int64_t dim = node->attr[0].v[0], around[3];
    lower_around(&node->type, dim, around);
    /* two coordinates do: outer, and the dimension with everything inside it */
    int64_t outer = around[0], inner = around[2], shape[2] = {outer, around[1] * inner}, first = 0;
    struct lower_pos at[2];
    lower_pos_split(l, p, 2, shape, at);
    nest_value result = 0;
    if (lower_taps(l, v, &at[0], &at[1], &result)) return result;
    if (outer > 1) ask_operands_apart(l, node, inner, &at[1]);
    for (uint32_t i = 0; i < node->arg_count; i++) {
        int64_t size = ir_type(l->f, node->args[i])->dim[dim] * inner;
        if (size == 0 || never_within(l, &at[1], first, first + size)) {
            first += size;
            continue;
        }
        nest_value cond = within(l, &at[1], first, first + size);
        if (cond) lower_pos_ask_apart(l, &at[1]);
        struct lower_pos moved[2] = {at[0], at[1]};
        moved[1].offset -= first;
        int64_t part[2] = {outer, size};
        if (size == 1) moved[1] = lower_pos_constant(0);
        struct lower_pos joined = lower_pos_join(l, 2, part, moved);
        nest_value x = masked_value(l, cond, node->args[i], &joined);
        result = result ? select_of(l, cond, x, result) : x;
        first += size;
    }
    return result ? result : zero_of(l, &node->type);
}

static nest_value from_dynamic_slice(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    const struct ir_type *from = ir_type(l->f, node->args[0]);
    struct lower_pos at[IR_MAX_RANK], inner = *p, none = lower_pos_constant(0);
    if (lower_is_run(from, &node->type)) {
        lower_add_start(l, &inner, from, &node->type, node->args + 1);
        return lower_value(l, node->args[0], &inner);
    }
    coordinates(l, p, &node->type, at);
    for (uint32_t i = 0; i < from->rank; i++) {
        int64_t room = from->dim[i] - node->type.dim[i];
        if (room)
            lower_pos_add_scaled(l, &at[i], lower_clamped(l, lower_value(l, node->args[1 + i], &none), room), 1, room);
    }
    inner = lower_pos_join(l, from->rank, from->dim, at);
    return lower_value(l, node->args[0], &inner);
}

static nest_value from_dynamic_update(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    const struct ir_type *update = ir_type(l->f, node->args[1]);
    struct lower_pos at[IR_MAX_RANK], none = lower_pos_constant(0);
    nest_value cond = 0;
    coordinates(l, p, &node->type, at);
    for (uint32_t i = 0; i < node->type.rank; i++) {
        int64_t room = node->type.dim[i] - update->dim[i];
        if (!room) continue;
        nest_value start = lower_clamped(l, lower_value(l, node->args[2 + i], &none), room);
        nest_value here = lower_pos_value(l, &at[i]);
        nest_value inside = lower_binary(l, OP_le, IR_BOOL, start, here);
        nest_value end = lower_binary(l, OP_add, IR_I32, start, lower_number(l, update->dim[i]));
        cond = lower_and(l, lower_and(l, cond, inside), lower_binary(l, OP_lt, IR_BOOL, here, end));
        lower_pos_add_scaled(l, &at[i], start, -1, room);
    }
    for (uint32_t i = 0; i < update->rank; i++)
        if (update->dim[i] == 1 && node->type.dim[i] != 1) at[i] = lower_pos_constant(0);
    struct lower_pos inner = lower_pos_join(l, update->rank, update->dim, at);
    nest_value x = masked_value(l, cond, node->args[1], &inner);
    return cond ? select_of(l, cond, x, lower_value(l, node->args[0], p)) : x;
}

static nest_value from_take(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    const struct ir_type *from = ir_type(l->f, node->args[0]), *indices = ir_type(l->f, node->args[1]);
    int64_t source[3];
    lower_around(from, node->attr[0].v[0], source);
    int64_t shape[3] = {source[0], ir_type_elements(indices), source[2]}, last = source[1] - 1;
    struct lower_pos at[3];
    lower_pos_split(l, p, 3, shape, at);
    nest_value index = lower_clamped(l, lower_value(l, node->args[1], &at[1]), last);
    at[1] = lower_pos_constant(0);
    lower_pos_add_scaled(l, &at[1], index, 1, last);
    struct lower_pos joined = lower_pos_join(l, 3, source, at);
    return lower_value(l, node->args[0], &joined);
}

static nest_value from_iota(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    int64_t shape[3];
    struct lower_pos at[3];
    lower_around(&node->type, node->attr[0].v[0], shape);
    lower_pos_split(l, p, 3, shape, at);
    return lower_cast(l, lower_pos_value(l, &at[1]), (enum ir_dtype)node->type.dtype);
}

/* ---------------------------------------------------------------- leaves and element-wise ops */

ir_value lower_root(const struct lower *l, ir_value v)
{
    const struct ir_node *n = ir_get(l->f, v);
    while (!l->argument[v] && (n->op == OP_broadcast || n->op == OP_reshape)) n = ir_get(l->f, v = n->args[0]);
    return v;
}

/* Scores that are divided by one number for a row. */
static bool is_by_row(const struct lower *l, const struct ir_node *node)
{
    return node->op == OP_div && node->type.dtype == IR_F32 && l->group->kind == GROUP_ATTENTION && l->target->cuda &&
           ir_get(l->f, node->args[1])->op == OP_broadcast;
}

/* Times its reciprocal, which is made once for the row: a division for each score takes a third of attention's
 * gradient on a GPU. The sums that it is made of are taken in an order of their own anyway. */
static nest_value times_reciprocal(struct lower *l, const nest_value *args, bool inverted)
{
    nest_value one = nest_number(&l->b, IR_F32, 1);
    nest_value reciprocal = inverted ? args[1] : lower_binary(l, OP_div, IR_F32, one, args[1]);
    return lower_binary(l, OP_mul, IR_F32, args[0], reciprocal);
}

static nest_value operation(struct lower *l, const struct ir_node *node, const nest_value *args)
{
    enum ir_dtype dtype = (enum ir_dtype)node->type.dtype;
    bool inverted = l->inverted && node->op == OP_div && lower_root(l, node->args[1]) == l->inverted;
    bool rough = l->rough && node->op == OP_exp && l->reduced[node - l->f->nodes].keep && dtype != IR_F64;
    if (inverted || is_by_row(l, node)) return times_reciprocal(l, args, inverted);
    if (rough) return nest_rough_exp(&l->b, dtype, args[0]);
    return nest_op(&l->b, (enum ir_op)node->op, dtype, args, node->arg_count);
}

static nest_value from_ewise(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    nest_value args[4];
    ASSERT(node->arg_count <= 4);
    for (uint32_t i = 0; i < node->arg_count; i++) args[i] = lower_value(l, node->args[i], p);
    if (node->op == OP_threefry) return nest_threefry(&l->b, args, (uint32_t)node->attr[0].v[0]);
    nest_value is = operation(l, node, args);
    lower_check(l, (ir_value)(node - l->f->nodes), is, p, args, node->arg_count);
    return is;
}

static nest_value from_reshape(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    return lower_value(l, node->args[0], p);
}

static nest_value from_constant(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    enum ir_dtype dtype = (enum ir_dtype)node->type.dtype;
    (void)p;
    return nest_number(&l->b, dtype, ir_element_get(dtype, node->data, 0));
}

typedef nest_value value_rule(struct lower *, const struct ir_node *, const struct lower_pos *);
static value_rule *const rules[IR_OP_COUNT] = {
    [OP_constant] = from_constant,
#define EWISE(name) [OP_##name] = from_ewise,
#define VIEW(name) [OP_##name] = from_##name,
#define INDEX(name) [OP_##name] = from_##name,
#include "ir/emit.def"
};

static uint64_t memo_key(const struct lower *l, ir_value v, const struct lower_pos *p)
{
    uint64_t h = hash_u64(hash_u64(v, l->cond), (uint64_t)p->offset);
    h = hash_u64(h, (uint64_t)p->term_count << 32 | p->scaled_count); /* first: none of them is taken for another */
    for (uint32_t i = 0; i < p->term_count; i++) h = hash_u64(hash_u64(h, p->term[i].var), (uint64_t)p->term[i].scale);
    for (uint32_t i = 0; i < p->scaled_count; i++)
        h = hash_u64(hash_u64(h, p->scaled[i].value), (uint64_t)p->scaled[i].scale);
    return h;
}

static nest_value load(struct lower *l, uint32_t buffer, const struct lower_pos *p, bool pair)
{
    nest_value cond = l->cond;
    bool moves = false;
    for (uint32_t i = 0; i < p->term_count && l->probing; i++)
        if (p->term[i].var == l->probe_var) l->lane_stride = p->term[i].scale / (pair ? 2 : 1);
    for (uint32_t i = 0; i < p->term_count && l->tile_mask; i++) {
        const struct lower_var_info *info = &l->vars.items[p->term[i].var];
        moves |= info->splits && info->axis == l->tile_axis && info->part == l->tile_part;
    }
    for (uint32_t i = 0; i < p->scaled_count && l->tile_mask; i++) /* found by division: it is of the lane's loop */
        moves |= l->b.values.items[p->scaled[i].value].level >= l->b.values.items[l->tile_mask].level;
    if (moves) cond = lower_and(l, cond, l->tile_mask);
    return (pair ? nest_load_pair : nest_load)(&l->b, buffer, lower_pos_index(l, p), cond);
}

/* What was loaded where a map reads something across, or what takes its place (lower_turn.c). */
static nest_value turned(struct lower *l, uint32_t buffer, const struct lower_pos *p, nest_value is)
{
    struct lower_turned *t = &l->turn.of[buffer];
    if (l->turn.mode == TURN_PROBE) {
        t->loads++, t->along[l->turn.part] = 0;
        for (uint32_t i = 0; i < p->term_count; i++)
            if (p->term[i].var == l->probe_var) t->along[l->turn.part] = p->term[i].scale;
    }
    if (!t->local) return is;
    if (l->turn.mode == TURN_USE) return nest_load(&l->b, t->local, l->turn.at, 0);
    nest_store(&l->b, t->local, l->turn.at, is, 0);
    return is;
}

static nest_value lower_load(struct lower *l, uint32_t buffer, const struct lower_pos *p)
{
    struct lower_loaded loaded = {load(l, buffer, p, false), buffer, *p};
    enum ir_dtype dtype = (enum ir_dtype)l->b.nest->buffers.items[buffer].dtype;
    if (dtype == IR_BF16 || l->target->cuda) vec_push(l->arena, &l->loaded, loaded);
    if (l->turn.mode && buffer < l->b.nest->argument_count) return turned(l, buffer, p, loaded.value);
    return loaded.value;
}

const struct lower_loaded *lower_loaded_of(const struct lower *l, nest_value value)
{
    for (size_t i = l->loaded.count; i-- > 0;)
        if (l->loaded.items[i].value == value) return &l->loaded.items[i];
    return NULL;
}

bool lower_is_loaded(const struct lower *l, nest_value value) { return lower_loaded_of(l, value); }

static nest_value half(struct lower *l, nest_value x, bool upper)
{
    nest_value bits = nest_op(&l->b, OP_bitcast, IR_U16, &x, 1);
    bits = nest_op(&l->b, OP_cast, IR_U32, &bits, 1);
    return upper ? lower_binary(l, OP_shl, IR_U32, bits, nest_number(&l->b, IR_U32, 16)) : bits;
}

nest_value lower_halves(struct lower *l, nest_value first, nest_value second)
{
    return lower_binary(l, OP_or, IR_U32, half(l, first, false), half(l, second, true));
}

nest_value lower_pair(struct lower *l, ir_value v, const struct lower_pos *p, int64_t distance)
{
    struct lower_pos next = *p;
    next.offset += distance;
    nest_value x = lower_value(l, v, p), y = lower_value(l, v, &next);
    const struct lower_loaded *first = lower_loaded_of(l, x), *second = lower_loaded_of(l, y);
    if (first && second && first->buffer == second->buffer) {
        next = first->at;
        next.offset++;
        if (memcmp(&next, &second->at, sizeof next) == 0) return load(l, first->buffer, &first->at, true);
    }
    return lower_halves(l, x, y);
}

nest_value lower_value(struct lower *l, ir_value v, const struct lower_pos *p)
{
    const struct ir_node *node = ir_get(l->f, v);
    const struct lower_override *from = &l->from[v];
    if (from->source == FROM_VALUE) {
        lower_check(l, v, from->value, p, NULL, 0);
        return from->value;
    }
    if (from->source == FROM_BUFFER) {
        struct lower_pos at = *p;
        lower_pos_add(l, &at, &from->base, -1);
        return lower_load(l, from->buffer, &at);
    }
    if (l->argument[v]) {
        nest_value is = lower_load(l, l->argument[v] - 1, p);
        if (!ir_is_ewise((enum ir_op)node->op)) lower_check(l, v, is, p, NULL, 0);
        return is;
    }
    uint64_t key = memo_key(l, v, p);
    uint32_t known = map_get_number(&l->memo, key);
    if (known != MAP_NONE) {
        const struct nest_value_info *info = &l->b.values.items[known];
        if (info->level <= l->b.depth && l->b.scope[info->level] == info->scope) return known;
    }
    if (!l->failed && !l->member[v] && !ir_is_number(node))
        BUG("value %u (%s) is not in the group that needs it", v, ir_ops[node->op].name);
    nest_value result = rules[node->op] ? rules[node->op](l, node, p) : zero_of(l, &node->type);
    if (!rules[node->op]) lower_fail(l, v, ir_ops[node->op].name);
    l->cost += ir_ops[node->op].cost;
    map_set_number(&l->memo, key, result);
    return result;
}
