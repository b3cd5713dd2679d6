/* The order of the elements of lines, side by side (lower_lines.h): keys and places wait in locals, an element of all
 * lines after the other, and go through Batcher's bitonic network. The first stage of each of its blocks compares a
 * block with its own mirror image, so that all of them are sorted upwards; then what would stand behind the last
 * element is never less, and need not be there. Keys and places together are never equal. */
#include "codegen/lower/lower_lines.h"

struct order {
    struct lower_lines lines;
    int64_t width; /* of an element of all lines */
    uint32_t keys, places;
};

/* Opens the lanes of a vector of lines; adds them to what lies in the locals. */
static void open_lanes(struct order *o, struct lower_pos *at)
{
    struct lower *l = o->lines.l;
    if (o->width > 1) lower_pos_add_term(l, at, lower_open(l, NEST_VECTOR, o->width), 1);
}

/* Opens a loop along the lines, in the tensors and in the locals. */
static void open_along(struct order *o, enum nest_loop loop, uint32_t part, int64_t count, int64_t unit,
                       struct lower_pos *at, struct lower_pos *local)
{
    struct lower *l = o->lines.l;
    nest_var var = lower_open_piece(l, loop, LINES_ALONG, part, count, unit);
    lower_pos_add_term(l, at, var, unit * lower_lines_step(&o->lines, LINES_ALONG, part));
    lower_pos_add_term(l, local, var, unit * lower_axis_stride(&l->axes[LINES_ALONG], part));
}

/* ---------------------------------------------------------------- in and out */

static void put(struct order *o, const struct lower_pos *at, const struct lower_pos *element, nest_value key)
{
    struct lower *l = o->lines.l;
    nest_store(&l->b, o->keys, lower_pos_index(l, at), key, 0);
    nest_store(&l->b, o->places, lower_pos_index(l, at), lower_pos_value(l, element), 0);
}

/* Elements of a tile, from number `element` on, on their way in or out. */
static void move_tile(struct order *o, const struct lower_pos *at, const struct lower_pos *element, int64_t count,
                      bool in)
{
    struct lower *l = o->lines.l;
    uint32_t depth = l->b.depth;
    uint32_t tile = in ? lower_lines_load(&o->lines, at, count, 0, IR_I32) : nest_reg(&l->b, IR_I32, l->lanes, true, 0);
    nest_var var = lower_open(l, NEST_UNROLL, count);
    struct lower_pos here = *element, local = lower_pos_constant(0);
    lower_pos_add_term(l, &here, var, 1);
    lower_pos_add(l, &local, &here, o->width);
    open_lanes(o, &local);
    struct nest_index reg = lower_lines_number(l, 0, var, 1);
    if (in) put(o, &local, &here, nest_get(&l->b, tile, reg));
    else nest_set(&l->b, tile, reg, nest_load(&l->b, o->places, lower_pos_index(l, &local), 0));
    nest_close_to(&l->b, depth);
    if (!in) lower_lines_store_tile(&o->lines, tile, at, count);
}

static void move_element(struct order *o, const struct lower_pos *at, const struct lower_pos *element, bool in)
{
    struct lower *l = o->lines.l;
    uint32_t depth = l->b.depth;
    nest_value mask;
    struct lower_pos from = *at, local = lower_pos_constant(0);
    lower_pos_add(l, &local, element, o->width);
    lower_lines_vectors(&o->lines, &from, &mask);
    if (o->lines.vectors) lower_pos_add_term(l, &local, (nest_var)(l->vars.count - 1), 1);
    if (in) {
        put(o, &local, element, lower_lines_operand(&o->lines, 0, &from, IR_I32));
        l->tile_mask = 0;
    } else {
        lower_lines_store(&o->lines, nest_load(&l->b, o->places, lower_pos_index(l, &local), 0), &from, mask);
    }
    nest_close_to(&l->b, depth);
}

static void move(struct order *o, struct lower_pos at, bool in)
{
    struct lower *l = o->lines.l;
    const struct lower_axis *axis = &l->axes[LINES_ALONG];
    uint32_t last = axis->parts - 1, depth = l->b.depth;
    int64_t size = o->lines.turned ? (int64_t)l->lanes : 1, tiles = axis->part[last] / size,
            rest = axis->part[last] % size;
    struct lower_pos element = lower_pos_constant(0);
    for (uint32_t p = 0; p < last; p++) open_along(o, NEST_SERIAL, p, axis->part[p], 1, &at, &element);
    uint32_t inside = l->b.depth;
    struct lower_pos first = at, number = element;
    if (tiles) open_along(o, NEST_SERIAL, last, tiles, size, &first, &number);
    if (tiles && o->lines.turned) move_tile(o, &first, &number, size, in);
    if (tiles && !o->lines.turned) move_element(o, &first, &number, in);
    nest_close_to(&l->b, inside);
    at.offset += tiles * size * lower_lines_step(&o->lines, LINES_ALONG, last), element.offset += tiles * size;
    if (rest) move_tile(o, &at, &element, rest, in);
    nest_close_to(&l->b, depth);
}

/* ---------------------------------------------------------------- the network */

static nest_value choose(struct lower *l, nest_value which, nest_value yes, nest_value no)
{
    return nest_op(&l->b, OP_select, IR_I32, (nest_value[]){which, yes, no}, 3);
}

/* The lesser of two goes to `low`. */
static void exchange(struct lower *l, nest_value *keys, nest_value *places, uint32_t low, uint32_t high)
{
    nest_value key[2] = {keys[low], keys[high]}, place[2] = {places[low], places[high]};
    nest_value tie = lower_binary(l, OP_and, IR_BOOL, lower_binary(l, OP_eq, IR_BOOL, key[1], key[0]),
                                  lower_binary(l, OP_lt, IR_BOOL, place[1], place[0]));
    nest_value swap = lower_binary(l, OP_or, IR_BOOL, lower_binary(l, OP_lt, IR_BOOL, key[1], key[0]), tie);
    keys[low] = choose(l, swap, key[1], key[0]), keys[high] = choose(l, swap, key[0], key[1]);
    places[low] = choose(l, swap, place[1], place[0]), places[high] = choose(l, swap, place[0], place[1]);
}

/* `blocks` blocks of `block` elements, from number `first` on, of which `count` pairs meet: the elements from the first
 * one on, and those `apart` from the first one, upwards or, mirrored, downwards. `half`, if it is not 0: pairs of two
 * neighbouring stages at once, of which the second one's elements are that far apart. */
struct stage {
    int64_t first, block, blocks, count, apart, half;
    bool mirrored;
};

static void run(struct order *o, const struct stage *s)
{
    enum { FEW = 4, MOST = 4 };
    struct lower *l = o->lines.l;
    uint32_t depth = l->b.depth, elements = s->half ? 4 : 2;
    int64_t sign = s->mirrored ? -1 : 1;
    const int64_t offset[MOST] = {0, s->apart, s->half, s->apart + sign * s->half};
    struct nest_index index[MOST];
    nest_value key[MOST], place[MOST];
    if (s->count < 1 || s->blocks < 1) return;
    nest_var b = lower_open(l, NEST_SERIAL, s->blocks),
             j = lower_open(l, s->count <= FEW ? NEST_UNROLL : NEST_SERIAL, s->count);
    nest_var lane = o->width > 1 ? lower_open(l, NEST_VECTOR, o->width) : 0;
    for (uint32_t i = 0; i < elements; i++) {
        struct lower_pos at = lower_pos_constant((s->first + offset[i]) * o->width);
        lower_pos_add_term(l, &at, b, s->block * o->width);
        lower_pos_add_term(l, &at, j, (i % 2 ? sign : 1) * o->width);
        if (o->width > 1) lower_pos_add_term(l, &at, lane, 1);
        index[i] = lower_pos_index(l, &at);
        key[i] = nest_load(&l->b, o->keys, index[i], 0);
        place[i] = nest_load(&l->b, o->places, index[i], 0);
    }
    exchange(l, key, place, 0, 1);
    if (s->half) {
        exchange(l, key, place, 2, 3);
        exchange(l, key, place, 0, 2);
        exchange(l, key, place, s->mirrored ? 3 : 1, s->mirrored ? 1 : 3);
    }
    for (uint32_t i = 0; i < elements; i++) {
        nest_store(&l->b, o->keys, index[i], key[i], 0);
        nest_store(&l->b, o->places, index[i], place[i], 0);
    }
    nest_close_to(&l->b, depth);
}

/* Of blocks of 2 * step elements the first half meets the second one, or its mirror image; then, if that is asked for,
 * the quarters meet. The last block may have fewer elements, and is gone through once for each. */
static void meet(struct order *o, int64_t step, bool mirrored, bool twice)
{
    int64_t block = 2 * step, blocks = o->lines.extent / block, end = blocks * block, rest = o->lines.extent - end;
    int64_t half = twice ? step / 2 : 0;
    run(o, &(struct stage){.block = block,
                           .blocks = blocks,
                           .count = twice ? half : step,
                           .half = half,
                           .apart = mirrored ? block - 1 : step,
                           .mirrored = mirrored});
    run(o, &(struct stage){.first = mirrored ? end + block - rest : end,
                           .blocks = 1,
                           .count = rest - step,
                           .apart = mirrored ? 2 * rest - block - 1 : step,
                           .mirrored = mirrored});
    for (int64_t i = 0; twice && i < 2 && rest > i * step; i++) {
        int64_t here = rest - i * step < step ? rest - i * step : step;
        run(o,
            &(struct stage){
                .first = end + i * step, .blocks = 1, .count = here - half < half ? here - half : half, .apart = half});
    }
}

void lower_order(struct lower *l)
{
    struct order o;
    lower_lines_choose(&o.lines, l, 1);
    double stages = 0;
    o.width = o.lines.lines;
    o.keys = nest_local(&l->b, IR_I32, o.lines.extent * o.width);
    o.places = nest_local(&l->b, IR_I32, o.lines.extent * o.width);
    struct lower_pos at = lower_lines_open(&o.lines);
    move(&o, at, true);
    for (int64_t block = 2; block < 2 * o.lines.extent; block *= 2)
        for (int64_t step = block / 2; step > 0; step /= step > 1 ? 4 : 2, stages += 2)
            meet(&o, step, step == block / 2, step > 1);
    move(&o, at, false);
    nest_close_to(&l->b, 0);
    l->b.nest->work = LOWER_WORK_OF_COST * (l->cost + 4 * stages) * (double)ir_type_elements(&o.lines.node->type);
}
