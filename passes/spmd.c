/* Partitioning: the same program with local shapes, one for all devices, and collectives where a value is needed in
 * another layout than it was made in. A conversion is made once per value and layout. */
#include "passes/shard_int.h"

#include <string.h>

enum { ALL_DIMENSIONS = (1 << IR_MAX_RANK) - 1 };
struct spmd_part {
    struct shard *s;
    struct shard_func *f;
    struct ir_builder b;
    ir_value *map;    /* per old value: the new one, laid out as f->value says */
    struct map zeros; /* per new value, where it is known: the dimensions whose padding is zero */
    VEC(struct made {
        ir_value old;
        struct ir_sharding sharding;
        ir_value made;
        uint32_t next; /* of the same old value, + 1 */
    })
    made;
    uint32_t *first; /* by old value: in `made`, + 1 */
};

static int64_t mask_size(const struct ir_mesh *mesh, uint32_t mask)
{
    return ir_axes_size(mesh, ir_axes_of_mask(mask));
}

static ir_value collective(struct spmd_part *p, enum ir_op op, ir_value x, uint32_t mask, int64_t second,
                           struct ir_type type)
{
    int64_t axes = mask;
    return ir_make(
        &p->b, (struct ir_node){
                   .op = (uint16_t)op, .arg_count = 1, .args = &x, .type = type, .attr = {{&axes, 1}, {&second, 1}}});
}

/* ---------------------------------------------------------------- extents that do not divide */

/* Every device holds as many rows as the first one, rounded up. Those behind the end are padding: zero in slots and
 * where a whole value is cut, anything after that. Who takes elements together along such a dimension masks it; state
 * is written with zeros there. */
static uint32_t zeros_of(const struct spmd_part *p, ir_value x)
{
    const struct ir_node *n = ir_get(p->b.f, x);
    uint32_t known = map_get_number(&p->zeros, x);
    if (n->op == OP_cast) return zeros_of(p, n->args[0]);
    return known == MAP_NONE ? 0 : known;
}

/* The same with zeros behind dimension d, up to a multiple of `parts`. */
static ir_value padded(struct spmd_part *p, ir_value x, uint32_t d, int64_t parts)
{
    const struct ir_type t = *ir_type(p->b.f, x);
    int64_t low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0};
    high[d] = (parts - t.dim[d] % parts) % parts;
    if (!high[d]) return x;
    struct ir_type zero = ir_type_scalar((enum ir_dtype)t.dtype);
    return ir_pad(&p->b, x, ir_number(&p->b, zero, 0), low, high, low);
}

/* x, and `value` where a device has no row `d` of `extent`, which lies over the axes of the mask, the devices' rows
 * `apart`. */
static ir_value masked(struct spmd_part *p, ir_value x, uint32_t d, int64_t extent, uint32_t mask, int64_t apart,
                       double value)
{
    const struct ir_type t = *ir_type(p->b.f, x);
    int64_t along = d;
    ir_value first = ir_binary(&p->b, OP_mul, shard_device_index(&p->b, mask), ir_scalar(&p->b, IR_I32, (double)apart));
    ir_value left = ir_binary(&p->b, OP_sub, ir_scalar(&p->b, IR_I32, (double)extent), first);
    struct ir_type row = ir_type_of(IR_I32, 1, &t.dim[d]), has = t;
    has.dtype = IR_BOOL;
    ir_value mine = ir_binary(&p->b, OP_lt, ir_iota(&p->b, row, 0), ir_broadcast_to(&p->b, left, 1, &t.dim[d]));
    mine = ir_make(
        &p->b, (struct ir_node){.op = OP_broadcast, .arg_count = 1, .args = &mine, .type = has, .attr = {{&along, 1}}});
    return ir_select(&p->b, mine, x, ir_number_like(&p->b, x, value));
}

/* The one tensor that x, taps of a convolution, is made of by moves that leave dimension d as it is; 0: there is none.
 */
static ir_value moved_from(const struct ir_func *f, ir_value x, uint32_t d)
{
    const struct ir_node *n = ir_get(f, x);
    ir_value from = 0;
    if (n->op == OP_slice) return n->type.dim[d] == ir_type(f, n->args[0])->dim[d] ? n->args[0] : 0;
    if (n->op != OP_concat || n->attr[0].v[0] == d) return 0;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        ir_value one = moved_from(f, n->args[i], d);
        if (!one || (from && one != from)) return 0;
        from = one;
    }
    return from;
}

static ir_value moved_again(struct spmd_part *p, ir_value x, ir_value from, ir_value to)
{
    const struct ir_node *n = ir_get(p->b.f, x);
    if (x == from) return to;
    struct ir_node again = *n; /* building may move the nodes */
    ir_value *args = arena_new_array(p->s->arena, ir_value, again.arg_count);
    for (uint32_t i = 0; i < again.arg_count; i++) args[i] = moved_again(p, again.args[i], from, to);
    return ir_remake(&p->b, &again, args);
}

/* Masks the dimensions of the set that are padded, unless they are known to hold the zeros that are wanted. */
static ir_value masked_along(struct spmd_part *p, ir_value x, const struct ir_type *global,
                             const struct ir_sharding *has, uint32_t set, double value)
{
    for (uint32_t d = 0, zeros = value == 0 ? zeros_of(p, x) : 0; d < global->rank; d++) {
        if (!((set & ~zeros) >> d & 1)) continue;
        int64_t apart = has->step[d] ? shard_apart(has->step[d]) : ir_type(p->b.f, x)->dim[d];
        /* What windows hold over the end counts for nothing, but a check sees it. */
        if (has->step[d] ? !p->s->check_finite || !shard_over(has->step[d])
                         : global->dim[d] % ir_axes_size(&p->s->module->mesh, has->dim[d]) == 0)
            continue;
        uint32_t mask = shard_axes_mask(has->dim[d]);
        ir_value from = moved_from(p->b.f, x, d);
        if (from && ir_type_elements(ir_type(p->b.f, from)) < ir_type_elements(ir_type(p->b.f, x))) {
            bool zero = value == 0 && zeros_of(p, from) >> d & 1;
            ir_value to = zero ? from : masked(p, from, d, global->dim[d], mask, apart, value);
            x = moved_again(p, x, from, to);
        } else {
            x = masked(p, x, d, global->dim[d], mask, apart, value);
        }
    }
    return x;
}

/* This device's part of dimension d of a whole value. */
static ir_value own_part(struct spmd_part *p, ir_value x, uint32_t d, uint32_t mask, bool whole)
{
    int64_t parts = mask_size(&p->s->module->mesh, mask);
    uint32_t zeros = zeros_of(p, x) | (uint32_t)whole << d; /* a part may have anything behind its end */
    x = padded(p, x, d, parts);
    struct ir_type t = *ir_type(p->b.f, x);
    ir_value starts[IR_MAX_RANK], zero = ir_scalar(&p->b, IR_I32, 0);
    for (uint32_t i = 0; i < t.rank; i++) starts[i] = zero;
    t.dim[d] /= parts;
    starts[d] = ir_binary(&p->b, OP_mul, shard_device_index(&p->b, mask), ir_scalar(&p->b, IR_I32, (double)t.dim[d]));
    x = ir_dynamic_slice(&p->b, x, starts, t.dim);
    map_set_number(&p->zeros, x, zeros);
    return x;
}

/* Without the padding behind a dimension that is whole again. */
static ir_value cut(struct spmd_part *p, ir_value x, uint32_t d, int64_t extent)
{
    const struct ir_type t = *ir_type(p->b.f, x);
    if (t.dim[d] <= extent) return x;
    int64_t start[IR_MAX_RANK] = {0}, limit[IR_MAX_RANK], stride[IR_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) limit[i] = i == d ? extent : t.dim[i], stride[i] = 1;
    return ir_slice(&p->b, x, start, limit, stride);
}

/* The first device has all of it, the others zero. */
static ir_value spread(struct spmd_part *p, ir_value x, uint32_t mask)
{
    ir_value first = ir_binary(&p->b, OP_eq, shard_device_index(&p->b, mask), ir_scalar(&p->b, IR_I32, 0));
    const struct ir_type t = *ir_type(p->b.f, x);
    return ir_select(&p->b, ir_broadcast_to(&p->b, first, t.rank, t.dim), x, ir_number_like(&p->b, x, 0));
}

static ir_value exchange(struct spmd_part *p, ir_value x, struct shard_step k, int64_t parts)
{
    x = padded(p, x, k.split, parts);
    struct ir_type t = *ir_type(p->b.f, x);
    int64_t axes = k.axes, split = k.split, dim = k.dim;
    t.dim[split] /= parts;
    t.dim[dim] *= parts;
    return ir_make(
        &p->b,
        (struct ir_node){
            .op = OP_all_to_all, .arg_count = 1, .args = &x, .type = t, .attr = {{&axes, 1}, {&split, 1}, {&dim, 1}}});
}

static ir_value turned(struct spmd_part *p, ir_value x, struct shard_step k)
{
    int64_t axes = k.axes, by = 0, row = k.split;
    return ir_make(&p->b, (struct ir_node){.op = OP_permute,
                                           .arg_count = 1,
                                           .args = &x,
                                           .type = *ir_type(p->b.f, x),
                                           .attr = {{&axes, 1}, {&by, 1}, {&row, 1}}});
}

static ir_value convert(struct spmd_part *p, ir_value x, const struct ir_type *global, const struct ir_sharding *from,
                        const struct ir_sharding *to)
{
    const struct ir_node *n = ir_get(p->b.f, x);
    struct shard_step steps[SHARD_MAX_STEPS];
    double sent;
    if (shard_equal(from, to)) return x;
    bool addends = false;
    for (uint32_t d = 0; d < global->rank; d++) addends |= to->step[d] < 0;
    if (ir_is_number(n) && (shard_is_zero(p->b.f, x) || (from->partial == to->partial && !addends))) {
        struct ir_node same = *n; /* any part of it is the same number; zero is its own partial sum */
        same.type = shard_local_type(&p->s->module->mesh, global, to);
        return ir_make(&p->b, same);
    }
    uint32_t count = shard_steps(&p->s->module->mesh, global, from, to, p->s->invariant, steps, &sent);
    for (uint32_t i = 0; i < count; i++) {
        struct shard_step k = steps[i];
        struct ir_type t = *ir_type(p->b.f, x);
        int64_t parts = mask_size(&p->s->module->mesh, k.axes);
        bool whole = t.dim[k.dim] == global->dim[k.dim];
        if (k.kind == SHARD_SLICE) x = own_part(p, x, k.dim, k.axes, whole);
        else if (k.kind == SHARD_REDUCE) x = collective(p, OP_all_reduce, x, k.axes, 0, t);
        else if (k.kind == SHARD_EXCHANGE) x = cut(p, exchange(p, x, k, parts), k.dim, global->dim[k.dim]);
        else if (k.kind > SHARD_SPREAD) x = shard_window_step(&p->b, &p->s->module->mesh, x, &k, global->dim[k.dim]);
        else if (k.kind == SHARD_TURN) x = turned(p, x, k);
        else if (k.kind == SHARD_SPREAD) x = spread(p, x, k.axes);
        else if (k.kind == SHARD_GATHER) {
            t.dim[k.dim] *= parts, x = collective(p, OP_all_gather, x, k.axes, k.dim, t);
            x = cut(p, x, k.dim, global->dim[k.dim]);
        } else {
            x = padded(p, x, k.dim, parts);
            t.dim[k.dim] = ir_type(p->b.f, x)->dim[k.dim] / parts;
            x = collective(p, OP_reduce_scatter, x, k.axes, k.dim, t);
            map_set_number(&p->zeros, x, (uint32_t)whole << k.dim);
        }
    }
    return x;
}

/* The node with local shapes. Attributes that repeat an extent become local too. */
static ir_value remake(struct spmd_part *p, const struct ir_node *n, const ir_value *args,
                       const struct ir_sharding *result)
{
    struct ir_node local = *n;
    int64_t extents[IR_MAX_RANK];
    local.args = args;
    local.type = shard_local_type(&p->s->module->mesh, &n->type, result);
    uint32_t at = n->op == OP_slice ? 1 : 0; /* limits; sizes */
    if (n->op == OP_slice || n->op == OP_dynamic_slice) {
        for (uint32_t d = 0; d < n->attr[at].n; d++) {
            int64_t own = local.type.dim[d];
            if (at) own = n->attr[0].v[d] + (own - 1) * n->attr[2].v[d] + 1;
            extents[d] = result->dim[d] ? own : n->attr[at].v[d];
        }
        local.attr[at] = (struct ir_ints){extents, n->attr[at].n};
    }
    return ir_make(&p->b, local);
}

static ir_value laid_out(struct spmd_part *p, ir_value old, const struct ir_sharding *to)
{
    const struct ir_sharding *has = &p->f->value[old];
    const struct ir_node *n = ir_get(p->f->func, old);
    bool again = p->f->free[old];
    ir_value made;
    if (!again && shard_equal(has, to)) return p->map[old];
    for (uint32_t i = p->first[old]; i; i = p->made.items[i - 1].next)
        if (shard_equal(&p->made.items[i - 1].sharding, to)) return p->made.items[i - 1].made;
    if (again && to->partial) { /* made whole: one device holds it, the others zero */
        struct ir_sharding whole = *to;
        whole.partial = 0;
        made = convert(p, laid_out(p, old, &whole), &n->type, &whole, to);
    } else if (again) {
        struct ir_sharding wanted[SHARD_MAX_REMADE];
        ir_value args[SHARD_MAX_REMADE];
        shard_operands_for(p->f, old, to, wanted);
        for (uint32_t i = 0; i < n->arg_count; i++) args[i] = laid_out(p, n->args[i], &wanted[i]);
        made = n->op == OP_stop_gradient ? args[0] : remake(p, n, args, to);
    } else {
        made = convert(p, p->map[old], &n->type, has, to);
    }
    vec_push(p->s->arena, &p->made, ((struct made){old, *to, made, p->first[old]}));
    p->first[old] = (uint32_t)p->made.count;
    return made;
}

/* Where a device has some of the rows: indices `y` of all rows as those of its own. What lies outside of all rows
 * becomes `below` or `above`, and what another device has lies outside of these. */
static ir_value own_rows(struct spmd_part *p, ir_value y, int64_t own, int64_t below, int64_t above, uint32_t mask)
{
    if (ir_dtype_bytes((enum ir_dtype)ir_type(p->b.f, y)->dtype) < 4) y = ir_cast(&p->b, y, IR_I32);
    if (ir_dtype_is_signed((enum ir_dtype)ir_type(p->b.f, y)->dtype))
        y = ir_binary(&p->b, OP_max, y, ir_number_like(&p->b, y, (double)below));
    y = ir_binary(&p->b, OP_min, y, ir_number_like(&p->b, y, (double)above));
    y = ir_cast(&p->b, y, IR_I32);
    ir_value first = ir_binary(&p->b, OP_mul, shard_device_index(&p->b, mask), ir_scalar(&p->b, IR_I32, (double)own));
    const struct ir_type t = *ir_type(p->b.f, y);
    return ir_binary(&p->b, OP_sub, y, ir_broadcast_to(&p->b, first, t.rank, t.dim));
}

/* Rows that this device has not are zero. */
static ir_value take_own(struct spmd_part *p, const struct ir_node *n, const ir_value *args,
                         const struct ir_sharding *result, int64_t rows, uint32_t mask)
{
    uint32_t dim = (uint32_t)n->attr[0].v[0];
    int64_t own = ir_type(p->b.f, args[0])->dim[dim], dims[IR_MAX_RANK];
    ir_value y = own_rows(p, args[1], own, 0, rows - 1, mask), both[] = {args[0], y};
    const struct ir_type t = *ir_type(p->b.f, y);
    ir_value last = ir_number_like(&p->b, y, (double)(own - 1)), zero = ir_number_like(&p->b, y, 0);
    ir_value has = ir_binary(&p->b, OP_and, ir_binary(&p->b, OP_le, zero, y), ir_binary(&p->b, OP_le, y, last));
    ir_value made = remake(p, n, both, result);
    for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim + d;
    struct ir_type wide = *ir_type(p->b.f, made);
    wide.dtype = IR_BOOL;
    has = ir_make(&p->b, (struct ir_node){
                             .op = OP_broadcast, .arg_count = 1, .args = &has, .type = wide, .attr = {{dims, t.rank}}});
    /* x + -0 is x, also of -0 */
    return ir_select(&p->b, has, made, ir_number_like(&p->b, made, p->s->invariant ? -0.0 : 0));
}

/* What the node takes together must hold no padding. Indices are of rows that there are, or name those of `updates`. */
static void mask_operands(struct spmd_part *p, ir_value v, ir_value *args)
{
    const struct ir_node *n = ir_get(p->f->func, v);
    const struct shard_rule *r = p->f->rule[v];
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct ir_type *global = ir_type(p->f->func, n->args[i]);
        uint32_t set = 0;
        if (n->op == OP_take || (n->op == OP_scatter_add && i == 1)) continue;
        for (uint32_t d = 0; d < global->rank; d++)
            if (r->arg[i][d] >= 0) set |= ((r->summed | r->extremum) >> r->arg[i][d] & 1) << d;
        enum ir_dtype dtype = (enum ir_dtype)global->dtype;
        double least = n->op == OP_reduce_max   ? ir_dtype_least(dtype)
                       : n->op == OP_reduce_min ? ir_dtype_greatest(dtype)
                                                : 0;
        args[i] = masked_along(p, args[i], global, &p->f->wanted[v][i], set, least);
    }
}

/* Where values are checked, padding is a number of which every function is finite. */
static void keep_finite(struct spmd_part *p, ir_value v, ir_value *args)
{
    const struct ir_node *n = ir_get(p->f->func, v);
    if (!p->s->check_finite || !ir_is_ewise((enum ir_op)n->op) || ir_is_cheap((enum ir_op)n->op)) return;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct ir_type *global = ir_type(p->f->func, n->args[i]);
        if (!ir_dtype_is_float((enum ir_dtype)global->dtype) || !ir_dtype_is_float((enum ir_dtype)n->type.dtype))
            continue;
        args[i] = masked_along(p, args[i], global, &p->f->wanted[v][i], ALL_DIMENSIONS, 0.5);
    }
}

/* What is put behind parts that do not divide stands where their padding is. */
static void fill_behind(struct spmd_part *p, ir_value v, ir_value *args)
{
    const struct ir_node *n = ir_get(p->f->func, v);
    uint32_t set = 0;
    double fill;
    for (uint32_t d = 0; d < n->type.rank; d++)
        if (p->f->made[v].dim[d] && (n->attr[0].v[d] || n->attr[1].v[d] || n->attr[2].v[d])) set |= 1u << d;
    if (set && pass_number(p->f->func, n->args[1], &fill))
        args[0] = masked_along(p, args[0], ir_type(p->f->func, n->args[0]), &p->f->wanted[v][0], set, fill);
}

/* Nodes that are more than the same with local shapes if a dimension is split: rows by index, extrema. */
static ir_value remake_split(struct spmd_part *p, ir_value v, ir_value *args)
{
    const struct ir_node *n = ir_get(p->f->func, v);
    const struct ir_sharding *x = &p->f->wanted[v][0], *result = &p->f->made[v];
    uint32_t mask = 0;
    if (n->op == OP_pad) fill_behind(p, v, args);
    if (n->op == OP_pad || n->op == OP_extend) return shard_window_pad(p->s, p->f, &p->b, v, args);
    mask_operands(p, v, args);
    keep_finite(p, v, args);
    if (n->op == OP_take || n->op == OP_scatter_add) {
        uint32_t dim = (uint32_t)n->attr[0].v[0];
        int64_t rows = ir_type(p->f->func, n->args[0])->dim[dim], own = ir_type(p->b.f, args[0])->dim[dim];
        mask = shard_axes_mask(x->dim[dim]);
        if (mask && n->op == OP_take) return take_own(p, n, args, result, rows, mask);
        if (mask) args[1] = own_rows(p, args[1], own, -1, rows, mask);
        return remake(p, n, args, result);
    }
    ir_value made = remake(p, n, args, result);
    if (n->op != OP_reduce_max && n->op != OP_reduce_min) return made;
    for (uint32_t i = 0; i < n->attr[0].n; i++) mask |= shard_axes_mask(x->dim[n->attr[0].v[i]]);
    return mask ? collective(p, OP_all_reduce, made, mask, n->op == OP_reduce_max ? 1 : 2, *ir_type(p->b.f, made))
                : made;
}

static void partition_func(struct shard *, struct ir_module *, uint32_t index);

static ir_value partition_node(struct spmd_part *p, ir_value v)
{
    const struct ir_func *f = p->f->func;
    const struct ir_node *n = ir_get(f, v);
    const struct ir_sharding *has = &p->f->made[v];
    ir_value *args = arena_new_array(p->s->arena, ir_value, n->arg_count + 1), made;
    p->b.place = n->place;
    if (p->f->free[v]) return 0; /* made for those that read it */
    for (uint32_t i = 0; i < n->arg_count; i++)
        args[i] = n->op == OP_proj ? p->map[n->args[i]] : laid_out(p, n->args[i], &p->f->wanted[v][i]);
    p->b.place = n->place;
    if (n->op == OP_proj && p->f->tuple[n->args[0]]) p->f->made[v] = p->f->tuple[n->args[0]][n->attr[0].v[0]];
    if (n->op == OP_param) {
        const struct ir_param *param = &f->params.items[n->attr[0].v[0]];
        made = ir_param_new(&p->b, param->name, shard_local_type(&p->s->module->mesh, &n->type, has), param->slot);
        if (param->slot >= 0) map_set_number(&p->zeros, made, ALL_DIMENSIONS);
    } else if (n->op == OP_constant || n->op == OP_iota) {
        made = ir_remake(&p->b, n, args);
    } else if (n->op == OP_sharding_constraint || n->op == OP_stop_gradient) {
        made = args[0];
    } else if (n->op == OP_loop) { /* the body gets what the loop is given */
        struct shard_func *body = &p->s->funcs[n->func];
        for (uint32_t i = 0; i < n->arg_count; i++) body->made[body->func->params.items[i].value] = p->f->wanted[v][i];
        partition_func(p->s, p->b.f->module, n->func);
        return ir_remake(&p->b, n, args);
    } else {
        made = remake_split(p, v, args);
    }
    return convert(p, made, &n->type, has, &p->f->value[v]);
}

/* Who splits a value as it is held: what the document says of its slot or of its parameter, a constraint, the operands
 * from which it is made, what reads it, or what is sent less so. */
static void note_layout(struct spmd_part *p, struct ir_module *to, ir_value v)
{
    const struct shard_func *f = p->f;
    const struct ir_node *n = ir_get(f->func, v);
    struct ir_layout l = {.place = n->place, .op = n->op, .type = n->type, .count = 1};
    l.sharding = n->op == OP_param ? f->made[v] : f->value[v];
    if (!n->type.rank || n->op == OP_constant || n->op == OP_loop || n->op == OP_proj || f->free[v]) return;
    l.from = IR_LAYOUT_OPERANDS;
    if (n->op == OP_sharding_constraint) {
        l.from = IR_LAYOUT_CONSTRAINT;
    } else if (n->op == OP_param) {
        int32_t index = f->func->params.items[n->attr[0].v[0]].slot;
        const struct ir_slot *slot = index < 0 ? NULL : &p->s->module->slots.items[index];
        if (slot && slot->param && !slot->sharding_given) l.from = IR_LAYOUT_PARAMETER;
        else if (slot) l.from = slot->sharding_given || slot->sharding.dim[0] ? IR_LAYOUT_DOCUMENT : IR_LAYOUT_DEFAULT;
        if (slot && slot->place) l.place = slot->place;
    }
    for (uint32_t d = 0; d < n->type.rank && l.from == IR_LAYOUT_OPERANDS && n->op != OP_param; d++) {
        bool found = !l.sharding.dim[d];
        for (uint32_t i = 0; i < n->arg_count; i++)
            for (uint32_t k = 0; k < ir_type(f->func, n->args[i])->rank; k++)
                found |= f->rule[v]->arg[i][k] >= 0 && f->rule[v]->arg[i][k] == f->rule[v]->result[d] &&
                         f->value[n->args[i]].dim[k] == l.sharding.dim[d];
        if (!found) l.from = f->pinned[v] ? IR_LAYOUT_TRAFFIC : IR_LAYOUT_READERS;
    }
    uint64_t key = hash_u64(hash_u64(hash_u64(l.place, l.op), l.from), l.sharding.partial);
    for (uint32_t d = 0; d < l.type.rank; d++)
        key = hash_u64(hash_u64(key, (uint64_t)l.type.dim[d]), l.sharding.dim[d]);
    uint32_t at = map_get_number(&p->s->layouts, key);
    struct ir_layout *other = at == MAP_NONE ? NULL : &to->layouts.items[at];
    if (other && other->place == l.place && other->op == l.op && other->from == l.from &&
        ir_type_equal(&other->type, &l.type) && shard_equal(&other->sharding, &l.sharding)) {
        other->count++;
        return;
    }
    map_set_number(&p->s->layouts, key, (uint32_t)to->layouts.count);
    vec_push(&to->arena, &to->layouts, l);
}

static void partition_func(struct shard *s, struct ir_module *to, uint32_t index)
{
    struct shard_func *f = &s->funcs[index];
    struct spmd_part p = {.s = s, .f = f, .b = {.f = to->funcs.items[index]}};
    if (p.b.f->results.count) return; /* done already */
    p.map = arena_new_array(s->arena, ir_value, f->func->count);
    p.first = arena_new_array(s->arena, uint32_t, f->func->count);
    p.zeros = MAP(s->arena);
    bool *live = ir_live(f->func, s->arena);
    for (size_t i = 0; i < f->func->params.count; i++) live[f->func->params.items[i].value] = true;
    for (ir_value v = 1; v < f->func->count; v++) {
        if (!live[v]) continue;
        p.map[v] = partition_node(&p, v);
        if (!f->func->entry || strcmp(f->func->name, "step") == 0) note_layout(&p, to, v);
    }
    for (size_t i = 0; i < f->func->results.count; i++) {
        const struct ir_result *r = &f->func->results.items[i];
        struct ir_sharding want = {.partial = 0};
        if (r->slot >= 0) want = s->module->slots.items[r->slot].sharding;
        else want = f->result ? f->result[i] : f->value[r->value];
        p.b.place = ir_get(f->func, r->value)->place;
        ir_value made = laid_out(&p, r->value, &want);
        if (r->slot >= 0 && !ir_role_is_result(s->module->slots.items[r->slot].role))
            made = masked_along(&p, made, ir_type(f->func, r->value), &want, ALL_DIMENSIONS, 0);
        ir_result_add(&p.b, r->name, made, r->slot);
    }
}

/* The carried results of a body must be laid out as the loop carries them. */
static void pin_loop_results(struct shard *s)
{
    for (size_t k = 0; k < s->module->funcs.count; k++) {
        struct shard_func *f = &s->funcs[k];
        for (ir_value v = 1; v < f->func->count; v++) {
            const struct ir_node *n = ir_get(f->func, v);
            if (n->op != OP_loop || !f->tuple[v]) continue;
            struct shard_func *body = &s->funcs[n->func];
            body->result = f->tuple[v];
        }
    }
}

struct ir_module *shard_partition(struct shard *s)
{
    pin_loop_results(s);
    s->layouts = MAP(s->arena);
    struct ir_module *to = ir_module_like(s->module);
    to->stage = IR_AT_SPMD;
    for (uint32_t i = 0; i < s->module->funcs.count; i++)
        if (s->module->funcs.items[i]->entry) partition_func(s, to, i);
    return to;
}
