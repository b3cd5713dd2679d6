/* Maps: every output has the same number of elements, and element i of all of them is computed together. With no
 * broadcast in the way the domain stays one flat range and the vector loop runs over all of it. */
#include "codegen/lower/lower.h"

/* The part whose loop is shared out among workers; not the vector loop. */
static uint32_t choose_parallel(const struct lower_axis *axis)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i + 1 < axis->parts; i++)
        if (lower_shares_better(axis->part[i], axis->part[best])) best = i;
    return best;
}

/* Panels of bfloat16 whose pairs lie side by side (fuse_panels.c): two elements at a time. */
static bool has_pairs(const struct lower *l)
{
    const struct plan_group *g = l->group;
    const struct ir_type *type = ir_type(l->f, g->outputs.items[0]);
    return l->target->pairs && g->outputs.count == 1 && !g->windows.count && type->dtype == IR_BF16 && type->rank > 1 &&
           type->dim[type->rank - 1] == 2 && type->dim[type->rank - 2] % l->lanes == 0;
}

static nest_value *values(struct lower *l, const struct lower_pos *p)
{
    if (!has_pairs(l)) return lower_outputs(l, LOWER_ALL_LEVELS, p);
    nest_value *pair = arena_new(l->arena, nest_value);
    *pair = lower_pair(l, l->group->outputs.items[0], p, 1);
    return pair;
}

/* Where the element, or pair, at a position of the axis lies. */
static struct lower_pos place(struct lower *l, const struct lower_pos *p)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add(l, &at, p, has_pairs(l) ? 2 : 1);
    return at;
}

static void store_all(struct lower *l, const struct lower_pos *p)
{
    struct lower_pos at = place(l, p);
    lower_store_outputs(l, values(l, &at), &at, 0);
}

/* What is called for many tensors, or copies one of many: single elements have the code of the larger tensors. */
static bool one_of_many(const struct plan_group *g) { return g->alike && (!g->func->entry || g->kind == GROUP_COPY); }

/* ---------------------------------------------------------------- transpositions */

/* A large copy whose elements are neighbours along one part where it is stored and along another where it is read: by
 * blocks that wait in a local between the two. */
enum {
    TURN_LEAST = 65536,
    TURN_STEPS = 64,
    TURN_LEAST_SHARED = 4, /* blocks, or steps of another part, for the workers */
    TURN_APART = 1         /* elements between rows of the block, for other banks */
};

static bool may_turn(const struct lower *l, int64_t extent)
{
    const struct plan_group *g = l->group;
    return l->axes[0].parts > 1 && extent >= TURN_LEAST && g->inputs.count == 1 && g->outputs.count == 1 &&
           !g->windows.count && !l->target->cuda;
}

/* Finds the two parts by walking along each of them once. */
static void probe_parts(struct lower *l)
{
    const struct lower_axis *axis = &l->axes[0];
    int64_t along[AXIS_PARTS];
    l->probing = true;
    for (uint32_t i = 0; i < axis->parts; i++) {
        struct lower_pos p = lower_pos_constant(0);
        l->probe_var = lower_open_part(l, NEST_VECTOR, 0, i);
        lower_pos_add_term(l, &p, l->probe_var, lower_axis_stride(axis, i));
        l->lane_stride = 0;
        p = place(l, &p);
        values(l, &p);
        along[i] = l->lane_stride;
        nest_close_to(&l->b, 0);
    }
    l->probing = false;
    uint32_t last = axis->parts - 1;
    for (uint32_t i = 0; i < last; i++)
        if (along[i] == 1 && along[last] >= TURN_STEPS && axis->part[i] >= 16 && axis->part[last] >= 4)
            l->turned_part = i + 1;
    l->probed = l->retry = true;
}

static nest_var walk(struct lower *l, struct lower_pos *p, enum nest_loop loop, uint32_t part, int64_t extent,
                     int64_t unit, struct lower_pos *local, int64_t step)
{
    nest_var var = lower_open_piece(l, loop, 0, part, extent, unit);
    lower_pos_add_term(l, p, var, unit * lower_axis_stride(&l->axes[0], part));
    if (local) lower_pos_add_term(l, local, var, step);
    return var;
}

/* Whole vectors both ways, in registers. */
static void turn_vectors(struct lower *l, const struct lower_pos *from, uint32_t along, int64_t steps, int64_t columns)
{
    uint32_t last = l->axes[0].parts - 1, depth = l->b.depth, lanes = l->lanes, inside;
    enum ir_dtype dtype = (enum ir_dtype)lower_output_type(l, l->group->outputs.items[0])->dtype;
    struct lower_pos corner = *from, row = lower_pos_constant(0), p;
    walk(l, &corner, NEST_SERIAL, along, steps / lanes, lanes, NULL, 0);
    walk(l, &corner, NEST_SERIAL, last, columns / lanes, lanes, NULL, 0);
    inside = l->b.depth;
    uint32_t reg = nest_reg(&l->b, has_pairs(l) ? IR_U32 : dtype, lanes, true, 0);
    p = corner;
    lower_pos_add_term(l, &row, walk(l, &p, NEST_UNROLL, last, lanes, 1, NULL, 0), 1);
    walk(l, &p, NEST_VECTOR, along, lanes, 1, NULL, 0);
    p = place(l, &p);
    nest_set(&l->b, reg, lower_pos_index(l, &row), values(l, &p)[0]);
    nest_close_to(&l->b, inside);
    nest_turn(&l->b, reg, lanes);
    p = corner, row = lower_pos_constant(0);
    lower_pos_add_term(l, &row, walk(l, &p, NEST_UNROLL, along, lanes, 1, NULL, 0), 1);
    walk(l, &p, NEST_VECTOR, last, lanes, 1, NULL, 0);
    nest_value value = nest_get(&l->b, reg, lower_pos_index(l, &row));
    p = place(l, &p);
    lower_store_outputs(l, &value, &p, 0);
    nest_close_to(&l->b, depth);
}

/* Of what fits: elements of a vector's lanes, and whole vectors. */
static bool has_vectors(const struct lower *l, int64_t columns, int64_t steps)
{
    const struct ir_type *type = lower_output_type(l, l->group->outputs.items[0]);
    bool one = has_pairs(l) || ir_dtype_bytes((enum ir_dtype)type->dtype) == 4;
    return one && columns % l->lanes == 0 && steps % l->lanes == 0;
}

static void turn_block(struct lower *l, const struct lower_pos *from, int64_t columns, int64_t steps, uint32_t local)
{
    uint32_t along = l->turned_part - 1, last = l->axes[0].parts - 1, depth = l->b.depth;
    int64_t row = TURN_STEPS + TURN_APART;
    if (has_vectors(l, columns, steps)) {
        turn_vectors(l, from, along, steps, columns);
        return;
    }
    struct lower_pos p = *from, at = lower_pos_constant(0);
    walk(l, &p, NEST_SERIAL, last, columns, 1, &at, row);
    walk(l, &p, NEST_VECTOR, along, steps, 1, &at, 1);
    p = place(l, &p);
    nest_store(&l->b, local, lower_pos_index(l, &at), values(l, &p)[0], 0);
    nest_close_to(&l->b, depth);
    p = *from, at = lower_pos_constant(0);
    walk(l, &p, NEST_SERIAL, along, steps, 1, &at, 1);
    walk(l, &p, NEST_VECTOR, last, columns, 1, &at, row);
    nest_value value = nest_load(&l->b, local, lower_pos_index(l, &at), 0);
    p = place(l, &p);
    lower_store_outputs(l, &value, &p, 0);
    nest_close_to(&l->b, depth);
}

/* All blocks of so many columns. */
static void turn_columns(struct lower *l, const struct lower_pos *from, int64_t columns, uint32_t local)
{
    const struct lower_axis *axis = &l->axes[0];
    uint32_t along = l->turned_part - 1, depth = l->b.depth;
    int64_t whole = axis->part[along] / TURN_STEPS, rest = axis->part[along] % TURN_STEPS;
    struct lower_pos p = *from;
    if (whole) {
        walk(l, &p, NEST_SERIAL, along, whole, TURN_STEPS, NULL, 0);
        turn_block(l, &p, columns, TURN_STEPS, local);
        nest_close_to(&l->b, depth);
    }
    p = *from;
    p.offset += whole * TURN_STEPS * lower_axis_stride(axis, along);
    if (rest) turn_block(l, &p, columns, rest, local);
}

/* Of the last part. */
static int64_t turned_blocks(const struct lower_axis *axis)
{
    return (axis->part[axis->parts - 1] + TURN_STEPS - 1) / TURN_STEPS;
}

/* Workers share out the blocks of the last part, of which one may be smaller. */
static void share_columns(struct lower *l, struct lower_pos *p, uint32_t local)
{
    const struct lower_axis *axis = &l->axes[0];
    uint32_t last = axis->parts - 1;
    int64_t blocks = turned_blocks(axis), whole = axis->part[last] / TURN_STEPS, rest = axis->part[last] % TURN_STEPS;
    struct lower_pos block = *p;
    nest_var var = walk(l, &block, NEST_PARALLEL, last, blocks, TURN_STEPS, NULL, 0);
    l->b.nest->parallel_extent = blocks;
    for (uint32_t i = 0; i < last; i++)
        if (i != l->turned_part - 1) walk(l, &block, NEST_SERIAL, i, axis->part[i], 1, NULL, 0);
    uint32_t depth = l->b.depth;
    if (rest) nest_open_if(&l->b, lower_compare(l, OP_lt, var, whole));
    l->vars.items[var].extent = whole;
    turn_columns(l, &block, TURN_STEPS, local);
    l->vars.items[var].extent = blocks;
    nest_close_to(&l->b, depth);
    if (!rest) return;
    nest_open_if(&l->b, lower_compare(l, OP_eq, var, whole));
    lower_pos_add_term(l, &block, var, -TURN_STEPS * lower_axis_stride(axis, last));
    block.offset += whole * TURN_STEPS * lower_axis_stride(axis, last);
    turn_columns(l, &block, rest, local);
}

/* Workers share out another part. */
static void share_part(struct lower *l, struct lower_pos *p, uint32_t parallel, uint32_t local)
{
    const struct lower_axis *axis = &l->axes[0];
    uint32_t last = axis->parts - 1;
    int64_t whole = axis->part[last] / TURN_STEPS, rest = axis->part[last] % TURN_STEPS;
    walk(l, p, NEST_PARALLEL, parallel, axis->part[parallel], 1, NULL, 0);
    l->b.nest->parallel_extent = axis->part[parallel];
    for (uint32_t i = 0; i < last; i++)
        if (i != l->turned_part - 1 && i != parallel) walk(l, p, NEST_SERIAL, i, axis->part[i], 1, NULL, 0);
    struct lower_pos block = *p;
    uint32_t depth = l->b.depth;
    if (whole > 1) walk(l, &block, NEST_SERIAL, last, whole, TURN_STEPS, NULL, 0);
    if (whole) turn_columns(l, &block, TURN_STEPS, local);
    nest_close_to(&l->b, depth);
    p->offset += whole * TURN_STEPS * lower_axis_stride(axis, last);
    if (rest) turn_columns(l, p, rest, local);
}

static void turn(struct lower *l, uint32_t parallel)
{
    const struct lower_axis *axis = &l->axes[0];
    uint32_t last = axis->parts - 1;
    enum ir_dtype dtype = (enum ir_dtype)lower_output_type(l, l->group->outputs.items[0])->dtype;
    int64_t columns = axis->part[last] < TURN_STEPS ? axis->part[last] : TURN_STEPS;
    bool waits = !has_vectors(l, axis->part[last], axis->part[l->turned_part - 1]);
    uint32_t local = waits ? nest_local(&l->b, has_pairs(l) ? IR_U32 : dtype, columns * (TURN_STEPS + TURN_APART)) : 0;
    struct lower_pos p = lower_pos_constant(0);
    if (parallel == last) share_columns(l, &p, local);
    else share_part(l, &p, parallel, local);
    nest_close_to(&l->b, 0);
}

/* The part that workers share out, the last one by blocks; UINT32_MAX: none, and the map goes as others do. */
static uint32_t turns(const struct lower *l)
{
    const struct lower_axis *axis = &l->axes[0];
    uint32_t best = UINT32_MAX;
    int64_t most = TURN_LEAST_SHARED - 1;
    for (uint32_t i = 0; i < axis->parts && l->turned_part; i++) {
        int64_t count = i + 1 == axis->parts ? turned_blocks(axis) : axis->part[i];
        if (i != l->turned_part - 1 && count > most) most = count, best = i;
    }
    return best;
}

/* On a GPU a last part of fewer elements than half a warp has lanes leaves most of them idle: then the map goes in one
 * run, and divides to find its places. */
static bool is_narrow(const struct lower *l, int64_t extent)
{
    enum { HALF_A_WARP = 16 };
    const struct lower_axis *axis = &l->axes[0];
    return l->target->cuda && axis->parts > 1 && axis->part[axis->parts - 1] < HALF_A_WARP && extent <= INT32_MAX;
}

/* ---------------------------------------------------------------- neighbours at once */

/* Elements that are made of what lies around them, as of a convolution of every channel by itself: those of several
 * steps of the part before the last are made at once, so that what they share is loaded once. */
enum { LEAST_SHARED = 3 /* slices of one tensor */, MOST_AT_ONCE = 8, MOST_READ = 512 /* of slices, at once */ };

/* Whole lines, one beside the other. */
static bool is_around(const struct lower *l, const struct ir_node *n, int64_t elements)
{
    if (n->op != OP_slice || !n->type.rank || ir_type_elements(&n->type) < elements) return false;
    for (uint32_t i = 0; i < n->attr[2].n; i++)
        if (n->attr[2].v[i] != 1) return false;
    return n->type.dim[n->type.rank - 1] == ir_type(l->f, n->args[0])->dim[n->type.rank - 1];
}

/* Slices of one tensor, as large as what is made. */
static int64_t slices_around(const struct lower *l)
{
    const struct plan_group *g = l->group;
    int64_t slices = 0, most = 0, elements = ir_type_elements(ir_type(l->f, g->outputs.items[0]));
    ir_value from = 0;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const struct ir_node *n = ir_get(l->f, g->nodes.items[i]);
        if (!is_around(l, n, elements)) continue;
        slices = n->args[0] == from ? slices + 1 : 1;
        from = n->args[0];
        most = slices > most ? slices : most;
    }
    return most;
}

/* 1: one after the other. */
static int64_t at_once(const struct lower *l, uint32_t parallel)
{
    const struct lower_axis *axis = &l->axes[0];
    const struct plan_group *g = l->group;
    uint32_t last = axis->parts - 1;
    if (axis->parts < 3 || parallel + 1 == last || axis->phase[last - 1] || axis->part[last] < l->lanes ||
        l->target->cuda || g->windows.count)
        return 1;
    for (size_t i = 0; i < g->outputs.count; i++)
        if (lower_output_type(l, g->outputs.items[i])->dtype != IR_F32) return 1;
    int64_t most = MOST_AT_ONCE, slices = slices_around(l);
    while (axis->part[last - 1] % most || (most > 1 && most * slices > MOST_READ)) most--;
    return slices >= LEAST_SHARED ? most : 1;
}

static void store_several(struct lower *l, const struct lower_pos *p, int64_t steps)
{
    uint32_t part = l->axes[0].parts - 2, depth = l->b.depth, count = (uint32_t)l->group->outputs.count;
    uint32_t *reg = arena_new_array(l->arena, uint32_t, count);
    nest_value *value = arena_new_array(l->arena, nest_value, count);
    for (uint32_t i = 0; i < count; i++) reg[i] = nest_reg(&l->b, IR_F32, (uint32_t)steps, true, 0);
    for (int turn = 0; turn < 2; turn++) {
        struct lower_pos at = *p, step = lower_pos_constant(0);
        walk(l, &at, NEST_UNROLL, part, steps, 1, &step, 1);
        struct nest_index index = lower_pos_index(l, &step);
        nest_value *made = turn ? NULL : values(l, &at);
        for (uint32_t i = 0; i < count; i++) {
            if (turn) value[i] = nest_get(&l->b, reg[i], index);
            else nest_set(&l->b, reg[i], index, made[i]);
        }
        if (turn) lower_store_outputs(l, value, &at, 0);
        nest_close_to(&l->b, depth);
    }
}

/* The parts from this one on but the one that workers share out: loops, and what stands in them. `several`: steps of
 * the part before the last that are made at once. */
static void walk_parts(struct lower *l, const struct lower_pos *from, uint32_t i, uint32_t parallel, int64_t several)
{
    const struct lower_axis *axis = &l->axes[0];
    uint32_t last = axis->parts - 1, depth = l->b.depth;
    int64_t unit = i + 1 == last ? several : 1, stride = i <= last ? lower_axis_stride(axis, i) : 0;
    struct lower_pos p = *from;
    if (i > last) {
        if (several > 1) store_several(l, &p, several);
        else store_all(l, &p);
    } else if ((i == parallel && axis->parts > 1) || axis->part[i] == unit) {
        walk_parts(l, &p, i + 1, parallel, several);
    } else if (i == last || unit > 1 || l->target->cuda) {
        enum nest_loop others = l->target->cuda ? NEST_PARALLEL : NEST_SERIAL;
        if (i != last && l->target->cuda) l->b.nest->parallel_extent *= axis->part[i];
        walk(l, &p, i == last ? NEST_VECTOR : others, i, axis->part[i] / unit, unit, NULL, 0);
        walk_parts(l, &p, i + 1, parallel, several);
    } else {
        struct lower_stretch stretch[2];
        uint32_t count = lower_stretches(l, 0, i, stretch);
        for (uint32_t k = 0; k < count; k++) {
            struct lower_pos at = lower_open_stretch(l, 0, i, &stretch[k]);
            for (int64_t step = 0; step < stretch[k].steps; step++, at.offset++) {
                p = *from;
                lower_pos_add(l, &p, &at, stride);
                walk_parts(l, &p, i + 1, parallel, several);
            }
            nest_close_to(&l->b, depth);
        }
    }
    nest_close_to(&l->b, depth);
}

void lower_map(struct lower *l)
{
    struct lower_axis *axis = &l->axes[0];
    struct nest *nest = l->b.nest;
    int64_t extent = ir_type_elements(lower_output_type(l, l->group->outputs.items[0])) / (has_pairs(l) ? 2 : 1);
    if (l->axis_count == 0) {
        l->axis_count = 1;
        *axis = (struct lower_axis){.extent = extent, .parts = 1, .part = {extent}};
    }
    l->phases = !l->target->cuda;
    struct lower_pos p = lower_pos_constant(0);
    bool narrow = is_narrow(l, extent);
    if ((axis->parts == 1 || narrow) && (extent > 1 || one_of_many(l->group))) {
        nest->flat = true;
        nest->parallel_extent = extent;
        nest->grain = 256;
        nest_var var = nest_open(&l->b, NEST_VECTOR, -1);
        struct lower_var_info info = {.extent = extent > 1 ? extent : 2 /* a variable, not 0 */,
                                      .unit = 1,
                                      .loop = NEST_VECTOR,
                                      .splits = extent > 1 && !narrow};
        vec_push(l->arena, &l->vars, info);
        lower_pos_add_term(l, &p, var, 1);
        store_all(l, &p);
        nest_close(&l->b);
    } else if (!l->probed && may_turn(l, extent)) {
        probe_parts(l);
        return;
    } else if (turns(l) != UINT32_MAX) {
        turn(l, turns(l));
    } else if (lower_turned(l)) {
        if (l->retry) return;
    } else {
        uint32_t parallel = choose_parallel(axis);
        if (axis->parts > 1) { /* even of extent 1: the other loops are its body */
            nest_var var = lower_open_part(l, NEST_PARALLEL, 0, parallel);
            lower_pos_add_term(l, &p, var, lower_axis_stride(axis, parallel));
            nest->parallel_extent = axis->part[parallel];
        }
        walk_parts(l, &p, 0, parallel, at_once(l, parallel));
        nest_close_to(&l->b, 0);
    }
    nest->work = LOWER_WORK_OF_COST * (l->cost + 2.0 * (double)(l->group->outputs.count + l->group->inputs.count)) *
                 (double)extent;
}
