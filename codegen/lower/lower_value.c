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
    nest_value args[2] = {x, y};
    return nest_op(&l->b, OP_and, IR_BOOL, args, 2);
}

static nest_value binary(struct lower *l, enum ir_op op, enum ir_dtype dtype, nest_value x, nest_value y)
{
    nest_value args[2] = {x, y};
    return nest_op(&l->b, op, dtype, args, 2);
}

static nest_value number(struct lower *l, int64_t n) { return nest_number(&l->b, IR_I32, (double)n); }

/* low <= p < high as a condition; 0 where it always holds. */
static nest_value within(struct lower *l, const struct lower_pos *p, int64_t low, int64_t high)
{
    int64_t least, most;
    lower_pos_range(l, p, &least, &most);
    nest_value cond = 0;
    if (least < low) cond = binary(l, OP_le, IR_BOOL, number(l, low), lower_pos_value(l, p));
    if (most >= high) cond = lower_and(l, cond, binary(l, OP_lt, IR_BOOL, lower_pos_value(l, p), number(l, high)));
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

/* Runs of dimensions that are all kept or all repeated are taken together: fewer coordinates, fewer splits. */
static nest_value from_broadcast(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    const struct ir_type *from = ir_type(l->f, node->args[0]);
    int64_t shape[IR_MAX_RANK];
    bool kept[IR_MAX_RANK], has[IR_MAX_RANK] = {false};
    uint32_t runs = 0;
    for (uint32_t i = 0; i < from->rank; i++)
        has[node->attr[0].v[i]] = from->dim[i] != 1 || node->type.dim[node->attr[0].v[i]] == 1;
    for (uint32_t i = 0; i < node->type.rank; i++) {
        if (node->type.dim[i] == 1) continue;
        if (runs && kept[runs - 1] == has[i]) {
            shape[runs - 1] *= node->type.dim[i];
        } else {
            kept[runs] = has[i];
            shape[runs++] = node->type.dim[i];
        }
    }
    struct lower_pos at[IR_MAX_RANK], inner = lower_pos_constant(0);
    if (ir_type_elements(from) != 1) {
        lower_pos_split(l, p, runs, shape, at);
        int64_t stride = 1;
        for (uint32_t i = runs; i-- > 0;)
            if (kept[i]) { /* dimensions keep their order, so the kept runs are the operand's */
                lower_pos_add(l, &inner, &at[i], stride);
                stride *= shape[i];
            }
    }
    return lower_value(l, node->args[0], &inner);
}

static nest_value from_transpose(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    const struct ir_type *from = ir_type(l->f, node->args[0]);
    int64_t stride[IR_MAX_RANK], shape[IR_MAX_RANK], scale[IR_MAX_RANK], step = 1;
    for (uint32_t i = from->rank; i-- > 0;) {
        stride[i] = step;
        step *= from->dim[i];
    }
    uint32_t runs = 0;
    for (uint32_t i = 0; i < node->type.rank; i++) { /* neighbours that stay neighbours are one */
        int64_t source = node->attr[0].v[i];
        if (node->type.dim[i] == 1) continue;
        if (runs && scale[runs - 1] == stride[source] * node->type.dim[i]) {
            shape[runs - 1] *= node->type.dim[i];
            scale[runs - 1] = stride[source];
        } else {
            shape[runs] = node->type.dim[i];
            scale[runs++] = stride[source];
        }
    }
    struct lower_pos at[IR_MAX_RANK], inner = lower_pos_constant(0);
    lower_pos_split(l, p, runs, shape, at);
    for (uint32_t i = 0; i < runs; i++) lower_pos_add(l, &inner, &at[i], scale[i]);
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
    int64_t result[IR_MAX_RANK], source[IR_MAX_RANK], start[IR_MAX_RANK], step[IR_MAX_RANK];
    uint32_t runs = 0;
    bool whole_before = false; /* is the run's last dimension taken whole, so that the next one can join? */
    for (uint32_t i = 0; i < from->rank; i++) {
        bool whole = node->type.dim[i] == from->dim[i];
        int64_t first = node->attr[0].v[i], by = node->attr[2].n ? node->attr[2].v[i] : 1;
        if (runs && whole && (whole_before || step[runs - 1] == 1)) {
            result[runs - 1] *= node->type.dim[i];
            source[runs - 1] *= from->dim[i];
            start[runs - 1] *= from->dim[i];
        } else {
            result[runs] = node->type.dim[i];
            source[runs] = from->dim[i];
            start[runs] = first;
            step[runs++] = whole ? 1 : by;
        }
        whole_before = whole;
    }
    struct lower_pos at[IR_MAX_RANK], inner[IR_MAX_RANK];
    lower_pos_split(l, p, runs, result, at);
    for (uint32_t i = 0; i < runs; i++) {
        inner[i] = lower_pos_constant(start[i]);
        lower_pos_add(l, &inner[i], &at[i], step[i]);
        if (result[i] == 1 && source[i] != 1) inner[i] = lower_pos_constant(start[i]);
    }
    struct lower_pos joined = lower_pos_join(l, runs, source, inner);
    return lower_value(l, node->args[0], &joined);
}

static nest_value from_reverse(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    struct lower_pos at[IR_MAX_RANK];
    coordinates(l, p, &node->type, at);
    for (uint32_t i = 0; i < node->attr[0].n; i++) {
        int64_t d = node->attr[0].v[i];
        struct lower_pos back = lower_pos_constant(node->type.dim[d] - 1);
        lower_pos_add(l, &back, &at[d], -1);
        at[d] = back;
    }
    struct lower_pos inner = lower_pos_join(l, node->type.rank, node->type.dim, at);
    return lower_value(l, node->args[0], &inner);
}

static nest_value from_pad(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    const struct ir_type *from = ir_type(l->f, node->args[0]);
    struct lower_pos at[IR_MAX_RANK], none = lower_pos_constant(0);
    nest_value cond = 0, fill = lower_value(l, node->args[1], &none);
    coordinates(l, p, &node->type, at);
    for (uint32_t i = 0; i < from->rank; i++) {
        int64_t step = node->attr[2].n ? node->attr[2].v[i] + 1 : 1;
        struct lower_pos moved = at[i];
        moved.offset -= node->attr[0].v[i];
        int64_t last = from->dim[i] ? (from->dim[i] - 1) * step + 1 : 0;
        if (never_within(l, &moved, 0, last)) return fill;
        cond = lower_and(l, cond, within(l, &moved, 0, last));
        if (step > 1) {
            nest_value x = lower_pos_value(l, &moved), by = number(l, step);
            cond = lower_and(l, cond, binary(l, OP_eq, IR_BOOL, binary(l, OP_rem, IR_I32, x, by), number(l, 0)));
            moved = lower_pos_constant(0);
            lower_pos_add_scaled(l, &moved, binary(l, OP_div, IR_I32, x, by), 1, from->dim[i]);
        }
        at[i] = moved;
    }
    struct lower_pos inner = lower_pos_join(l, from->rank, from->dim, at);
    nest_value x = masked_value(l, cond, node->args[0], &inner);
    return cond ? select_of(l, cond, x, fill) : x;
}

static nest_value from_concat(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    ir_value v = (ir_value)(node - l->f->nodes);
    int64_t dim = node->attr[0].v[0], inner = 1, outer = 1;
    for (uint32_t i = 0; i < node->type.rank; i++)
        *(i < dim ? &outer : &inner) *= i == (uint32_t)dim ? 1 : node->type.dim[i];
    /* two coordinates do: outer, and the dimension with everything inside it */
    int64_t shape[2] = {outer, node->type.dim[dim] * inner}, first = 0;
    struct lower_pos at[2];
    lower_pos_split(l, p, 2, shape, at);
    nest_value result = 0;
    if (lower_taps(l, v, &at[0], &at[1], &result)) return result;
    for (uint32_t i = 0; i < node->arg_count; i++) {
        int64_t size = ir_type(l->f, node->args[i])->dim[dim] * inner;
        if (size == 0 || never_within(l, &at[1], first, first + size)) {
            first += size;
            continue;
        }
        nest_value cond = within(l, &at[1], first, first + size);
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
        nest_value inside = binary(l, OP_le, IR_BOOL, start, here);
        nest_value end = binary(l, OP_add, IR_I32, start, number(l, update->dim[i]));
        cond = lower_and(l, lower_and(l, cond, inside), binary(l, OP_lt, IR_BOOL, here, end));
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
    int64_t dim = node->attr[0].v[0], outer = 1, inner = 1;
    for (uint32_t i = 0; i < from->rank; i++)
        if (i != dim) *(i < dim ? &outer : &inner) *= from->dim[i];
    int64_t shape[3] = {outer, ir_type_elements(indices), inner}, source[3] = {outer, from->dim[dim], inner};
    struct lower_pos at[3];
    lower_pos_split(l, p, 3, shape, at);
    nest_value index = lower_clamped(l, lower_value(l, node->args[1], &at[1]), from->dim[dim] - 1);
    at[1] = lower_pos_constant(0);
    lower_pos_add_scaled(l, &at[1], index, 1, from->dim[dim] - 1);
    struct lower_pos joined = lower_pos_join(l, 3, source, at);
    return lower_value(l, node->args[0], &joined);
}

static nest_value from_iota(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    int64_t dim = node->attr[0].v[0], shape[3] = {1, node->type.dim[dim], 1};
    for (uint32_t i = 0; i < node->type.rank; i++)
        if (i != dim) shape[i < dim ? 0 : 2] *= node->type.dim[i];
    struct lower_pos at[3];
    lower_pos_split(l, p, 3, shape, at);
    nest_value x = lower_pos_value(l, &at[1]);
    return node->type.dtype == IR_I32 ? x : nest_op(&l->b, OP_cast, (enum ir_dtype)node->type.dtype, &x, 1);
}

/* ---------------------------------------------------------------- leaves and element-wise ops */

static nest_value from_ewise(struct lower *l, const struct ir_node *node, const struct lower_pos *p)
{
    nest_value args[4];
    ASSERT(node->arg_count <= 4);
    for (uint32_t i = 0; i < node->arg_count; i++) args[i] = lower_value(l, node->args[i], p);
    if (node->op == OP_threefry) return nest_threefry(&l->b, args, (uint32_t)node->attr[0].v[0]);
    return nest_op(&l->b, (enum ir_op)node->op, (enum ir_dtype)node->type.dtype, args, node->arg_count);
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
    for (uint32_t i = 0; i < p->term_count; i++) h = hash_u64(hash_u64(h, p->term[i].var), (uint64_t)p->term[i].scale);
    h = hash_u64(h, p->term_count);
    for (uint32_t i = 0; i < p->scaled_count; i++)
        h = hash_u64(hash_u64(h, p->scaled[i].value), (uint64_t)p->scaled[i].scale);
    return h;
}

nest_value lower_load(struct lower *l, uint32_t buffer, const struct lower_pos *p)
{
    nest_value cond = l->cond;
    bool moves = false;
    for (uint32_t i = 0; i < p->term_count && l->probing; i++)
        if (p->term[i].var == l->probe_var) l->lane_stride = p->term[i].scale;
    for (uint32_t i = 0; i < p->term_count && l->tile_mask; i++) {
        const struct lower_var_info *info = &l->vars.items[p->term[i].var];
        moves |= info->splits && info->axis == l->tile_axis && info->part == l->tile_part;
    }
    return nest_load(&l->b, buffer, lower_pos_index(l, p), moves ? lower_and(l, cond, l->tile_mask) : cond);
}

nest_value lower_value(struct lower *l, ir_value v, const struct lower_pos *p)
{
    const struct ir_node *node = ir_get(l->f, v);
    const struct lower_override *from = &l->from[v];
    if (from->source == FROM_VALUE) return from->value;
    if (from->source == FROM_BUFFER) {
        struct lower_pos at = *p;
        lower_pos_add(l, &at, &from->base, -1);
        return lower_load(l, from->buffer, &at);
    }
    if (l->argument[v]) return lower_load(l, l->argument[v] - 1, p);
    uint64_t key = memo_key(l, v, p);
    uint32_t known = map_get_number(&l->memo, key);
    if (known != MAP_NONE) {
        const struct nest_value_info *info = &l->b.values.items[known];
        if (info->level <= l->b.depth && l->b.scope[info->level] == info->scope) return known;
    }
    if (!l->failed && !l->member[v] && !(node->op == OP_constant && node->splat))
        BUG("value %u (%s) is not in the group that needs it", v, ir_ops[node->op].name);
    nest_value result = rules[node->op] ? rules[node->op](l, node, p) : zero_of(l, &node->type);
    if (!rules[node->op]) lower_fail(l, v, ir_ops[node->op].name);
    l->cost += ir_ops[node->op].cost;
    map_set_number(&l->memo, key, result);
    return result;
}
