/* Maps of a GPU that read something across: neighbours in what they make lie far apart there, and neighbours there are
 * made far apart. Blocks of SIDE by SIDE elements of it go through shared memory, which a warp fills by the neighbours
 * of one side and reads by those of the other one.
 *
 *   parallel   the parts of the domain, two of them by blocks
 *     fill     rows of a block from memory; only what is read across is loaded here
 *     use      its columns: everything else, and the stores */
#include "codegen/lower/lower.h"

enum { SIDE = 32, THREADS = 256, LEAST = 16 /* of a part that goes by blocks */, MOST_TURNED = 4 };

/* The elements of a part, by blocks. */
struct blocks {
    uint32_t part;
    nest_var block;
};

static void probe(struct lower *l)
{
    const struct lower_axis *axis = &l->axes[0];
    size_t count = l->b.nest->argument_count;
    l->turn = (struct lower_turn){
        .mode = TURN_PROBE, .parts = axis->parts, .of = arena_new_array(l->arena, struct lower_turned, count)};
    for (uint32_t i = 0; i < axis->parts; i++) {
        struct lower_pos p = lower_pos_constant(0);
        for (size_t k = 0; k < count; k++) l->turn.of[k].loads = 0;
        l->turn.part = i;
        l->probe_var = lower_open_part(l, NEST_VECTOR, 0, i);
        lower_pos_add_term(l, &p, l->probe_var, lower_axis_stride(axis, i));
        lower_outputs(l, LOWER_ALL_LEVELS, &p);
        nest_close_to(&l->b, 0);
    }
    l->turn.mode = TURN_NONE;
}

static bool is_turned(const struct lower *l, const struct lower_turned *t, uint32_t part)
{
    uint32_t last = l->axes[0].parts - 1;
    return t->loads == 1 && t->along[part] == 1 && t->along[last] != 1 && t->along[last] != 0;
}

/* Along which most of what is read across lies; the last one: there is nothing of the kind. */
static uint32_t choose_part(struct lower *l)
{
    const struct lower_axis *axis = &l->axes[0];
    uint32_t last = axis->parts - 1, best = last, most = 0;
    for (uint32_t i = 0; i < last && axis->part[last] >= LEAST; i++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < l->b.nest->argument_count; k++) count += is_turned(l, &l->turn.of[k], i);
        if (axis->part[i] >= LEAST && count > most && count <= MOST_TURNED) best = i, most = count;
    }
    return best;
}

static int64_t blocks_of(const struct lower *l, uint32_t part) { return (l->axes[0].part[part] + SIDE - 1) / SIDE; }

/* All parts, those by blocks innermost. */
static struct lower_pos open_blocks(struct lower *l, struct blocks *along, struct blocks *last)
{
    const struct lower_axis *axis = &l->axes[0];
    struct lower_pos p = lower_pos_constant(0);
    l->b.nest->parallel_extent = blocks_of(l, along->part) * blocks_of(l, last->part);
    for (uint32_t i = 0; i < axis->parts; i++) {
        if (i == along->part || i == last->part || axis->part[i] == 1) continue;
        lower_pos_add_term(l, &p, lower_open_part(l, NEST_PARALLEL, 0, i), lower_axis_stride(axis, i));
        l->b.nest->parallel_extent *= axis->part[i];
    }
    along->block = lower_open(l, NEST_PARALLEL, blocks_of(l, along->part));
    last->block = lower_open(l, NEST_PARALLEL, blocks_of(l, last->part));
    return p;
}

/* Adds where an element of a block stands; loads outside of the part are masked from here on. */
static void add_element(struct lower *l, struct lower_pos *p, const struct blocks *b, const struct lower_pos *in)
{
    const struct lower_axis *axis = &l->axes[0];
    struct lower_pos at = *in;
    lower_pos_add_term(l, &at, b->block, SIDE);
    l->cond = lower_and(l, l->cond, lower_pos_inside(l, &at, axis->part[b->part]));
    lower_pos_add(l, p, &at, lower_axis_stride(axis, b->part));
}

/* Lanes of a warp go along `fast`. */
static void walk_block(struct lower *l, const struct lower_pos *from, const struct blocks *fast,
                       const struct blocks *slow, enum lower_turn_mode mode)
{
    uint32_t depth = l->b.depth;
    struct lower_pos lane = lower_pos_constant(0), row = lane, at = lane, p = *from;
    int64_t rows = THREADS / SIDE;
    lower_pos_add_term(l, &row, lower_open(l, NEST_UNROLL, SIDE / rows), rows);
    nest_var thread = lower_open(l, NEST_VECTOR, THREADS);
    lower_pos_add_digit(l, &lane, thread, THREADS, 1, SIDE, 1);
    lower_pos_add_digit(l, &row, thread, THREADS, SIDE, rows, 1);
    lower_pos_add(l, &at, &lane, mode == TURN_FILL ? 1 : SIDE + 1); /* a bank beside the one of the row before */
    lower_pos_add(l, &at, &row, mode == TURN_FILL ? SIDE + 1 : 1);
    add_element(l, &p, fast, &lane);
    add_element(l, &p, slow, &row);
    l->turn.mode = mode, l->turn.at = lower_pos_index(l, &at);
    const nest_value *value = lower_outputs(l, LOWER_ALL_LEVELS, &p);
    l->turn.mode = TURN_NONE;
    if (mode == TURN_USE) lower_store_outputs(l, value, &p, l->cond);
    l->cond = 0;
    nest_close_to(&l->b, depth);
}

bool lower_turned(struct lower *l)
{
    const struct lower_axis *axis = &l->axes[0];
    if (!l->target->cuda || axis->parts < 2 || l->group->windows.count) return false;
    if (l->turn.parts != axis->parts) { /* not yet, or a part was split since */
        probe(l);
        return l->retry = true;
    }
    struct blocks along = {choose_part(l), 0}, last = {axis->parts - 1, 0};
    if (along.part == last.part) return false;
    for (uint32_t i = 0; i < l->b.nest->argument_count; i++) {
        struct lower_turned *t = &l->turn.of[i];
        enum ir_dtype dtype = (enum ir_dtype)l->b.nest->buffers.items[i].dtype;
        t->local = is_turned(l, t, along.part) ? nest_local(&l->b, dtype, SIDE * (SIDE + 1)) : 0;
    }
    struct lower_pos p = open_blocks(l, &along, &last);
    walk_block(l, &p, &along, &last, TURN_FILL);
    walk_block(l, &p, &last, &along, TURN_USE);
    nest_close_to(&l->b, 0);
    return true;
}
