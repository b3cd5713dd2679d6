/* The inner part of a contraction: packing of panels and rows, the register tile, and what happens to it at the end. */
#include "codegen/lower/lower_dot.h"
#include <string.h>

struct lower_pos dot_operand_pos(struct lower_dot_product *p, const struct lower_dot_operand *o)
{
    struct lower_pos sum = lower_pos_constant(0);
    for (uint32_t class = 0; class < 4; class ++) {
        int64_t shape[IR_MAX_RANK];
        struct lower_pos at[IR_MAX_RANK];
        for (uint32_t i = 0; i < o->count[class]; i++) shape[i] = o->run[class][i].extent;
        lower_pos_split(p->l, &p->at[class], o->count[class], shape, at);
        for (uint32_t i = 0; i < o->count[class]; i++) lower_pos_add(p->l, &sum, &at[i], o->run[class][i].stride);
    }
    return sum;
}

struct lower_dot_place dot_place(const struct lower_dot_product *p)
{
    struct lower_dot_place place = {.local_k = p->local_k, .local_row = p->local_row, .depth = p->l->b.depth};
    memcpy(place.at, p->at, sizeof place.at);
    return place;
}

void dot_return(struct lower_dot_product *p, const struct lower_dot_place *place)
{
    nest_close_to(&p->l->b, place->depth);
    memcpy(p->at, place->at, sizeof p->at);
    p->local_k = place->local_k, p->local_row = place->local_row;
    p->l->tile_mask = 0;
}

nest_var dot_open(struct lower_dot_product *p, enum nest_loop loop, uint32_t axis, uint32_t part, int64_t extent,
                  int64_t unit, struct lower_pos *local)
{
    nest_var var = lower_open_piece(p->l, loop, axis, part, extent, unit);
    int64_t step = unit * lower_axis_stride(&p->l->axes[axis], part);
    lower_pos_add_term(p->l, &p->at[axis], var, step);
    if (local) lower_pos_add_term(p->l, local, var, step);
    return var;
}

nest_value dot_operand_value(struct lower_dot_product *p, const struct lower_dot_operand *o)
{
    struct lower_pos at = dot_operand_pos(p, o);
    if (!p->pairs) return lower_cast(p->l, lower_value(p->l, o->value, &at), p->factor);
    return lower_pair(p->l, o->value, &at, o->pair);
}

/* What the open loops will want of an operand some steps of k from here: the lines of the cache of so many neighbours.
 * Rows of a panel, or of what is packed, come from the third cache in time only if they are asked for. */
static void prefetch(struct lower_dot_product *p, uint32_t buffer, const struct lower_pos *at, int64_t ahead,
                     int64_t elements)
{
    if (p->l->target->cuda) return;
    int64_t bytes = (int64_t)ir_dtype_bytes((enum ir_dtype)p->l->b.nest->buffers.items[buffer].dtype);
    for (int64_t line = 0; line < elements; line += CACHE_LINE / bytes)
        nest_prefetch(&p->l->b, buffer, lower_pos_index(p->l, at), ahead + line);
}

/* The input that holds a value in the same order, 0 if there is none. */
static ir_value stored(const struct lower *l, ir_value v)
{
    while (!l->argument[v] && ir_get(l->f, v)->op == OP_reshape) v = ir_get(l->f, v)->args[0];
    return l->argument[v] ? v : 0;
}

/* The same of an operand where it stands, if it is one. */
static void prefetch_operand(struct lower_dot_product *p, const struct lower_dot_operand *o, int64_t steps,
                             int64_t elements)
{
    uint32_t argument = p->l->argument[stored(p->l, o->value)];
    if (!argument || o->count[AXIS_K] != 1 || p->l->axes[AXIS_K].parts != 1) return;
    struct lower_pos at = dot_operand_pos(p, o);
    prefetch(p, argument - 1, &at, steps * o->run[AXIS_K][0].stride,
             p->pairs && o->pair == 1 ? 2 * elements : elements);
}

/* ---------------------------------------------------------------- the tile */

static struct nest_index reg_index(struct lower *l, nest_var row, uint32_t vectors, nest_var vector)
{
    struct lower_pos at = lower_pos_constant(0);
    if (row != UINT32_MAX) lower_pos_add_term(l, &at, row, vectors);
    lower_pos_add_term(l, &at, vector, 1);
    return lower_pos_index(l, &at);
}

/* One column vector of the panel: its loops, and the mask of a last, partial one. */

struct lower_dot_column dot_open_column(struct lower_dot_product *p, uint32_t vectors, bool masked)
{
    struct lower *l = p->l;
    uint32_t part = dot_last_index(l, AXIS_N);
    struct lower_dot_column c;
    c.vector = dot_open(p, NEST_UNROLL, AXIS_N, part, vectors, p->width, NULL);
    c.lane = dot_open(p, NEST_VECTOR, AXIS_N, part, p->width, 1, NULL);
    if (masked) lower_mask_tile(l, &p->at[AXIS_N], AXIS_N, part, p->at[AXIS_N].offset, p->n);
    return c;
}

/* Where the open column stands in the local tile. */
struct lower_pos dot_tile_pos(struct lower_dot_product *p, const struct lower_dot_column *c)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add(p->l, &at, &p->local_row, p->tile_columns);
    lower_pos_add(p->l, &at, &p->chunk_row, p->tile_columns);
    if (p->wide) {
        lower_pos_add(p->l, &at, &p->at[AXIS_N], 1);
        lower_pos_add(p->l, &at, &p->group_start, -1);
    } else {
        lower_pos_add_term(p->l, &at, c->vector, p->width);
        lower_pos_add_term(p->l, &at, c->lane, 1);
    }
    return at;
}

/* Where a step of k stands in the packed panel. */
static struct lower_pos packed_step(struct lower_dot_product *p, const struct lower_pos *step)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add(p->l, &at, &p->local_panel, dot_packed_panel(p));
    lower_pos_add(p->l, &at, step, p->panel_columns);
    return at;
}

static struct lower_pos local_pos(struct lower_dot_product *p, const struct lower_pos *row,
                                  const struct lower_dot_column *c)
{
    struct lower_pos at = packed_step(p, row);
    lower_pos_add_term(p->l, &at, c->vector, p->width);
    lower_pos_add_term(p->l, &at, c->lane, 1);
    return at;
}

/* The loops over leaves: whole outer parts of k, and pieces of the part in which a leaf ends. Returns that part;
 * `piece`: its steps in a leaf. */
static uint32_t open_leaves(struct lower_dot_product *p, struct lower_pos *leaf, int64_t *piece)
{
    const struct lower_axis *axis = &p->l->axes[AXIS_K];
    for (uint32_t i = 0;; i++) {
        int64_t stride = lower_axis_stride(axis, i);
        *piece = stride >= p->leaf ? 1 : p->leaf / stride;
        int64_t count = axis->part[i] / *piece, step = stride * *piece / p->leaf;
        if (stride < p->leaf && *piece >= axis->part[i]) return i; /* the leaf begins with this part */
        if (count > 1)
            lower_pos_add_term(p->l, leaf, dot_open(p, NEST_SERIAL, AXIS_K, i, count, *piece, &p->local_k), step);
        if (stride <= p->leaf) return stride == p->leaf ? i + 1 : i;
    }
}

/* The steps of one leaf. */
static void open_leaf(struct lower_dot_product *p, uint32_t part, int64_t piece)
{
    const struct lower_axis *axis = &p->l->axes[AXIS_K];
    int64_t inside = part < axis->parts ? lower_axis_stride(axis, part) : 1;
    for (uint32_t i = part; i < axis->parts; i++) {
        int64_t size = i == part && piece * inside == p->leaf ? piece : axis->part[i];
        bool last = i + 1 == axis->parts;
        if (size > 1) dot_open(p, last && size <= 4 ? NEST_UNROLL : NEST_SERIAL, AXIS_K, i, size, 1, &p->local_k);
    }
}

/* Loops over the outer parts of k, then over `extent` of the last one: the innermost; UINT32_MAX: there is none. */
static nest_var open_k(struct lower_dot_product *p, int64_t extent)
{
    const struct lower_axis *axis = &p->l->axes[AXIS_K];
    nest_var inner = UINT32_MAX;
    for (uint32_t i = 0; i < axis->parts; i++) {
        bool last = i + 1 == axis->parts;
        int64_t size = last ? extent : axis->part[i];
        if (size == 1 || i == p->outer_k || i < p->outer_parts || (p->matrix && !last)) continue;
        inner = dot_open(p, last && size <= 4 ? NEST_UNROLL : NEST_SERIAL, AXIS_K, i, size, 1, &p->local_k);
    }
    return inner;
}

/* So many columns from `column` on, by so many steps from where the loops stand: k by the lanes, a stretch at a time,
 * the stores far apart. */
static void pack_scattered(struct lower_dot_product *p, int64_t column, int64_t columns, int64_t extent)
{
    struct lower *l = p->l;
    uint32_t part_n = dot_last_index(l, AXIS_N), part_k = dot_last_index(l, AXIS_K);
    for (int64_t from = 0, size; from < extent && columns > 0; from += size) { /* whole stretches, then the rest */
        size = extent - from >= PACK_K ? (extent - from) / PACK_K * PACK_K : extent - from;
        struct lower_dot_place before = dot_place(p);
        p->at[AXIS_K].offset += from;
        p->local_k.offset += from;
        p->at[AXIS_N].offset += column;
        int64_t stretch = size < PACK_K ? size : PACK_K;
        dot_open(p, NEST_SERIAL, AXIS_K, part_k, size / stretch, stretch, &p->local_k);
        nest_var number = dot_open(p, NEST_SERIAL, AXIS_N, part_n, columns, 1, NULL);
        dot_open(p, NEST_VECTOR, AXIS_K, part_k, stretch, 1, &p->local_k);
        struct lower_pos at = packed_step(p, &p->local_k);
        at.offset += column;
        lower_pos_add_term(l, &at, number, 1);
        nest_store(&l->b, p->panel_local, lower_pos_index(l, &at), dot_operand_value(p, &p->y), 0);
        dot_return(p, &before);
    }
}

/* As many columns by as many steps as a vector has lanes are turned in registers. */
static void pack_turned(struct lower_dot_product *p, int64_t columns, int64_t extent)
{
    struct lower *l = p->l;
    uint32_t part_n = dot_last_index(l, AXIS_N), part_k = dot_last_index(l, AXIS_K);
    struct lower_dot_place before = dot_place(p);
    struct lower_pos block = lower_pos_constant(0);
    dot_open(p, NEST_SERIAL, AXIS_K, part_k, extent / p->lanes, p->lanes, &p->local_k);
    lower_pos_add_term(l, &block, dot_open(p, NEST_SERIAL, AXIS_N, part_n, columns / p->lanes, p->lanes, NULL),
                       p->lanes);
    struct lower_dot_place corner = dot_place(p);
    uint32_t reg = nest_reg(&l->b, p->factor, (uint32_t)p->lanes, true, 0);
    nest_var row = dot_open(p, NEST_UNROLL, AXIS_N, part_n, p->lanes, 1, NULL);
    prefetch_operand(p, &p->y, AHEAD_TURNED, 1);
    dot_open(p, NEST_VECTOR, AXIS_K, part_k, p->lanes, 1, NULL);
    nest_set(&l->b, reg, reg_index(l, UINT32_MAX, 0, row), dot_operand_value(p, &p->y));
    dot_return(p, &corner);
    nest_turn(&l->b, reg, (uint32_t)p->lanes);
    row = dot_open(p, NEST_UNROLL, AXIS_K, part_k, p->lanes, 1, &p->local_k);
    nest_var lane = dot_open(p, NEST_VECTOR, AXIS_N, part_n, p->lanes, 1, NULL);
    struct lower_pos at = packed_step(p, &p->local_k);
    lower_pos_add(l, &at, &block, 1);
    lower_pos_add_term(l, &at, lane, 1);
    nest_store(&l->b, p->panel_local, lower_pos_index(l, &at), nest_get(&l->b, reg, reg_index(l, UINT32_MAX, 0, row)),
               0);
    dot_return(p, &before);
}

/* y's rows are apart in memory but k is not. */
static void pack_transposed(struct lower_dot_product *p, uint32_t vectors, bool masked, int64_t extent)
{
    struct lower *l = p->l;
    uint32_t part_k = dot_last_index(l, AXIS_K);
    struct lower_dot_place start = dot_place(p);
    for (uint32_t i = p->outer_parts; i < part_k; i++)
        if (l->axes[AXIS_K].part[i] > 1) dot_open(p, NEST_SERIAL, AXIS_K, i, l->axes[AXIS_K].part[i], 1, &p->local_k);
    int64_t columns = masked || vectors < p->vectors ? p->tail_columns : p->panel_columns, turned = 0, steps = 0;
    int64_t blocks = columns / p->lanes * (extent / p->lanes);
    bool many = blocks > 1 || (blocks && p->panels > 1); /* all but a single block pays */
    if (many && !l->target->cuda && p->width == p->lanes) {
        turned = columns / p->lanes * p->lanes, steps = extent / p->lanes * p->lanes;
        pack_turned(p, turned, steps);
    }
    pack_scattered(p, turned, columns - turned, steps);
    p->at[AXIS_K].offset += steps;
    p->local_k.offset += steps;
    pack_scattered(p, 0, columns, extent - steps);
    dot_return(p, &start);
}

void dot_pack_panel(struct lower_dot_product *p, uint32_t vectors, bool masked, int64_t extent)
{
    struct lower *l = p->l;
    if (l->lane_stride != 1 && p->outer_k == UINT32_MAX && extent >= 4) {
        pack_transposed(p, vectors, masked, extent);
        return;
    }
    struct lower_dot_place before = dot_place(p);
    open_k(p, extent);
    dot_pack_row(p, vectors, masked);
    dot_return(p, &before);
}

void dot_pack_row(struct lower_dot_product *p, uint32_t vectors, bool masked)
{
    struct lower_dot_place before = dot_place(p);
    prefetch_operand(p, &p->y, AHEAD_PACKED, p->panel_columns);
    struct lower_dot_column c = dot_open_column(p, vectors, masked);
    struct lower_pos at = local_pos(p, &p->local_k, &c);
    nest_store(&p->l->b, p->panel_local, lower_pos_index(p->l, &at), dot_operand_value(p, &p->y), 0);
    dot_return(p, &before);
}

void dot_open_steps(struct lower_dot_product *p, int64_t extent) { open_k(p, extent); }

/* Where row `m` of a block stands in the packed rows: blocks one after the other, k-major inside, or one row after the
 * other. */
static struct lower_pos packed_row(struct lower_dot_product *p, nest_var row)
{
    struct lower_pos at = lower_pos_constant(0);
    int64_t stride = p->rows_stride;
    if (stride) {
        lower_pos_add(p->l, &at, &p->local_row, stride);
        lower_pos_add(p->l, &at, &p->local_k, 1);
    } else {
        for (uint32_t i = 0; i < p->local_row.term_count; i++)
            lower_pos_add_term(p->l, &at, p->local_row.term[i].var,
                               p->local_row.term[i].scale / p->rows * dot_packed_block(p));
        lower_pos_add(p->l, &at, &p->local_k, p->packed_rows);
    }
    if (row != UINT32_MAX) lower_pos_add_term(p->l, &at, row, stride ? stride : 1);
    return at;
}

struct lower_pos dot_packed_step(struct lower_dot_product *p) { return packed_step(p, &p->local_k); }

/* The rows of a block, by the steps that are in *user; NULL: by the one that is open. */
void dot_pack_block(struct lower_dot_product *p, uint32_t rows, const void *user)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    uint32_t part = dot_last_index(l, AXIS_M);
    bool whole = !p->rows_stride && rows == p->rows; /* a line of the cache, the next rows with these */
    if (!p->rows_stride) prefetch_operand(p, &p->x, AHEAD_PACKED, 1);
    nest_var row = dot_open(p, p->rows_stride ? NEST_SERIAL : NEST_VECTOR, AXIS_M, part, whole ? p->packed_rows : rows,
                            1, NULL);
    if (user) dot_open(p, NEST_VECTOR, AXIS_K, dot_last_index(l, AXIS_K), *(const int64_t *)user, 1, &p->local_k);
    if (whole && p->tail_rows < p->packed_rows - p->rows)
        lower_mask_tile(l, &p->at[AXIS_M], AXIS_M, part, p->at[AXIS_M].offset, p->m);
    struct lower_pos at = packed_row(p, row);
    nest_store(&l->b, p->rows_local, lower_pos_index(l, &at), dot_operand_value(p, &p->x), 0);
    dot_return(p, &before);
}

nest_value dot_multiply_add(struct lower_dot_product *p, nest_value x, nest_value y, nest_value z)
{
    struct lower *l = p->l;
    if (p->factor != p->sum || p->sum == IR_F32 || p->sum == IR_F64) return nest_fma(&l->b, p->sum, x, y, z);
    nest_value product = lower_binary(l, p->sum == IR_BOOL ? OP_and : OP_mul, p->sum, x, y);
    return lower_binary(l, p->sum == IR_BOOL ? OP_or : OP_add, p->sum, product, z);
}

static void prefetch_tile(struct lower_dot_product *p)
{
    struct lower_pos at = packed_step(p, &p->local_k);
    if (p->pack) prefetch(p, p->panel_local, &at, AHEAD_TILE * p->panel_columns, p->panel_columns);
    else prefetch_operand(p, &p->y, AHEAD_TILE, p->panel_columns);
    if (p->shared_rows) prefetch_operand(p, &p->x, AHEAD_TILE, p->rows);
    if (!p->pack_rows || p->rows_stride) return;
    at = packed_row(p, UINT32_MAX);
    prefetch(p, p->rows_local, &at, AHEAD_TILE * p->packed_rows, p->packed_rows);
}

int64_t dot_lines_apart(int64_t apart)
{
    int64_t sets = WAY_BYTES / CACHE_LINE;
    for (int64_t lines = apart / CACHE_LINE; apart % CACHE_LINE == 0 && lines % 2 == 0 && sets > 1; lines /= 2)
        sets /= 2;
    return sets * WAYS;
}

/* Steps of k that lines of x so many bytes apart are asked for ahead; 0: not at all. Of 16 registers a tile takes six
 * cycles for a step, so that a few steps are enough, and lines that fight for the same cache sets must not throw each
 * other out before they are read: those ahead take an eighth of these sets. */
static int64_t steps_ahead(const struct lower_dot_product *p, int64_t apart)
{
    if (p->l->target->vector_registers >= 32) return AHEAD_TAPS;
    int64_t ahead = dot_lines_apart(apart) / 8;
    return ahead < LEAST_AHEAD ? 0 : ahead < AHEAD_TAPS ? ahead : AHEAD_TAPS;
}

/* Rows of a view of taps of which each step of k is in another line of the cache: both ends of what a tile reads. Where
 * a line of the image ends meanwhile, what is between it and the next one is less than what it is ahead. */
static void prefetch_taps(struct lower_dot_product *p, nest_var inner, int64_t rows)
{
    struct lower *l = p->l;
    const struct plan_taps *t = p->even && inner != UINT32_MAX ? lower_taps_of(l, p->x.value) : NULL;
    if (!t || l->target->cuda) return;
    struct lower_pos at, from = dot_operand_pos(p, &p->x);
    uint32_t buffer = lower_taps_place(l, t, &from, &at);
    if (buffer == UINT32_MAX) return;
    int64_t step = 0, bytes = (int64_t)ir_dtype_bytes((enum ir_dtype)l->b.nest->buffers.items[buffer].dtype);
    if (ir_type_elements(ir_type(l->f, t->base)) * bytes < l->target->l2_bytes / 2) return; /* it stays there */
    for (uint32_t i = 0; i < at.term_count; i++)
        if (at.term[i].var == inner) step = at.term[i].scale;
    if (step * bytes < CACHE_LINE) return;
    int64_t ahead = steps_ahead(p, step * bytes) * step;
    if (ahead) nest_prefetch(&l->b, buffer, lower_pos_index(l, &at), ahead);
    if (ahead && rows > 1)
        nest_prefetch(&l->b, buffer, lower_pos_index(l, &at), ahead + (rows - 1) * (p->pairs ? 2 : 1));
}

struct steps { /* of k: `extent` of the last part, or a leaf */
    int64_t extent, piece;
    uint32_t part;
};

/* So many times some steps of k, by blocks of lanes by lanes, each of which is turned in registers. */
static void accumulate_turned(struct lower_dot_product *p, uint32_t acc, uint32_t rows, uint32_t vectors, int64_t count,
                              int64_t steps)
{
    struct lower *l = p->l;
    uint32_t part_n = dot_last_index(l, AXIS_N), part_k = dot_last_index(l, AXIS_K);
    struct lower_dot_place before = dot_place(p);
    uint32_t reg = nest_reg(&l->b, p->factor, (uint32_t)p->lanes, true, 0);
    dot_open(p, NEST_SERIAL, AXIS_K, part_k, count, steps, &p->local_k);
    nest_var vector = dot_open(p, NEST_UNROLL, AXIS_N, part_n, vectors, p->lanes, NULL);
    dot_open(p, NEST_UNROLL, AXIS_K, part_k, steps / p->lanes, p->lanes, &p->local_k);
    struct lower_dot_place corner = dot_place(p);
    nest_var column = dot_open(p, NEST_UNROLL, AXIS_N, part_n, p->lanes, 1, NULL);
    dot_open(p, NEST_VECTOR, AXIS_K, part_k, p->lanes, 1, NULL);
    nest_set(&l->b, reg, reg_index(l, UINT32_MAX, 0, column), dot_operand_value(p, &p->y));
    dot_return(p, &corner);
    nest_turn(&l->b, reg, (uint32_t)p->lanes);
    nest_var step = dot_open(p, NEST_UNROLL, AXIS_K, part_k, p->lanes, 1, &p->local_k);
    nest_var row = dot_open(p, NEST_UNROLL, AXIS_M, dot_last_index(l, AXIS_M), rows, 1, NULL);
    struct lower_pos packed = packed_row(p, row);
    nest_value x = p->pack_rows ? nest_load(&l->b, p->rows_local, lower_pos_index(l, &packed), 0)
                                : dot_operand_value(p, &p->x);
    dot_open(p, NEST_VECTOR, AXIS_N, part_n, p->lanes, 1, NULL);
    struct nest_index index = reg_index(l, row, vectors, vector);
    nest_value y = nest_get(&l->b, reg, reg_index(l, UINT32_MAX, 0, step));
    nest_set(&l->b, acc, index, dot_multiply_add(p, x, y, nest_get(&l->b, acc, index)));
    dot_return(p, &before);
}

/* All steps of k that are whole blocks, and goes along; of a column those of a whole line of the cache, which others
 * that fight for the same set would throw out before the next block. */
static int64_t accumulate_blocks(struct lower_dot_product *p, uint32_t acc, uint32_t rows, uint32_t vectors,
                                 int64_t extent)
{
    int64_t line = CACHE_LINE / 4, done = 0;
    for (int64_t size = line > p->lanes ? line : p->lanes;; size = p->lanes) {
        int64_t count = (extent - done) / size;
        if (count) accumulate_turned(p, acc, rows, vectors, count, size);
        p->at[AXIS_K].offset += count * size;
        p->local_k.offset += count * size;
        done += count * size;
        if (size == p->lanes) return done;
    }
}

static void accumulate(struct lower_dot_product *p, uint32_t acc, uint32_t rows, uint32_t vectors, bool masked,
                       struct steps steps)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    if (p->turned && !masked) steps.extent -= accumulate_blocks(p, acc, rows, vectors, steps.extent);
    if (p->turned && !steps.extent) {
        dot_return(p, &before);
        return;
    }
    uint32_t right = nest_reg(&l->b, p->factor, vectors, true, 0);
    nest_var inner = UINT32_MAX;
    if (p->leaf) open_leaf(p, steps.part, steps.piece);
    else inner = open_k(p, steps.extent);
    struct lower_dot_place step = dot_place(p);
    struct lower_dot_column c = dot_open_column(p, vectors, masked && !p->pack && !p->columns);
    struct lower_pos at = local_pos(p, &p->local_k, &c);
    nest_value y = p->pack ? nest_load(&l->b, p->panel_local, lower_pos_index(l, &at), 0) : dot_operand_value(p, &p->y);
    nest_set(&l->b, right, reg_index(l, UINT32_MAX, 0, c.vector), y);
    dot_return(p, &step);
    if (p->tall) prefetch_tile(p);
    else if (p->far && !p->pack && vectors <= 3) prefetch_operand(p, &p->y, AHEAD_FAR, p->panel_columns);
    else prefetch_taps(p, inner, rows);
    nest_var row = dot_open(p, NEST_UNROLL, AXIS_M, dot_last_index(l, AXIS_M), rows, 1, NULL);
    struct lower_pos packed = packed_row(p, row);
    nest_value x = p->pack_rows ? nest_load(&l->b, p->rows_local, lower_pos_index(l, &packed), 0)
                                : dot_operand_value(p, &p->x);
    c = dot_open_column(p, vectors, false);
    struct nest_index index = reg_index(l, row, vectors, c.vector);
    nest_value sum = dot_multiply_add(p, x, nest_get(&l->b, right, reg_index(l, UINT32_MAX, 0, c.vector)),
                                      nest_get(&l->b, acc, index));
    nest_set(&l->b, acc, index, sum);
    dot_return(p, &before);
}

static struct lower_pos output_pos(struct lower_dot_product *p)
{
    struct lower *l = p->l;
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add(l, &at, &p->at[AXIS_N], 1);
    int64_t n = l->axes[AXIS_N].extent, others = l->axes[p->rows_first ? AXIS_B : AXIS_M].extent;
    lower_pos_add(l, &at, &p->at[AXIS_M], p->rows_first ? n * others : n);
    lower_pos_add(l, &at, &p->at[AXIS_B], p->rows_first ? n : n * others);
    return at;
}

struct lower_dot_end dot_end(struct lower_dot_product *p, nest_value sum)
{
    struct lower *l = p->l;
    struct lower_dot_end end = {.at = output_pos(p)};
    l->from[p->root] = (struct lower_override){.source = FROM_VALUE, .value = lower_cast(l, sum, p->dtype)};
    l->least_part = l->target->cuda ? 0
                                    : 2 * (int64_t)p->lanes; /* rather a division here than short tiles everywhere */
    end.value = lower_outputs(l, LOWER_ALL_LEVELS, &end.at);
    end.cond = lower_and(l, l->cond, l->tile_mask);
    l->least_part = 0;
    return end;
}

void dot_store(struct lower_dot_product *p, const struct lower_dot_end *end)
{
    lower_store_outputs(p->l, end->value, &end->at, end->cond);
}

/* The element-wise work on one vector of the product, and its store. */
void dot_finish(struct lower_dot_product *p, nest_value sum)
{
    struct lower_dot_end end = dot_end(p, sum);
    dot_store(p, &end);
}

/* Row by row, so that its code stands there once. */
void dot_finish_tile(struct lower_dot_product *p, uint32_t rows, uint32_t vectors, bool masked)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    dot_open(p, NEST_SERIAL, AXIS_M, dot_last_index(l, AXIS_M), rows, 1, &p->local_row);
    struct lower_dot_column c = dot_open_column(p, vectors, masked);
    struct lower_pos at = dot_tile_pos(p, &c);
    dot_finish(p, nest_load(&l->b, p->tile_local, lower_pos_index(l, &at), 0));
    dot_return(p, &before);
}

/* Moves a tile between its registers and the local that keeps it, or finishes it from the registers. */
enum move { MOVE_IN, MOVE_OUT, MOVE_FINISH };
static void move_tile(struct lower_dot_product *p, enum move move, uint32_t acc, uint32_t rows, uint32_t vectors,
                      bool masked)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    nest_var row = dot_open(p, NEST_UNROLL, AXIS_M, dot_last_index(l, AXIS_M), rows, 1, &p->local_row);
    struct lower_dot_column c = dot_open_column(p, vectors, masked && move == MOVE_FINISH);
    struct nest_index index = reg_index(l, row, vectors, c.vector);
    struct lower_pos at = dot_tile_pos(p, &c);
    if (move == MOVE_IN) nest_set(&l->b, acc, index, nest_load(&l->b, p->tile_local, lower_pos_index(l, &at), 0));
    else if (move == MOVE_OUT)
        nest_store(&l->b, p->tile_local, lower_pos_index(l, &at), nest_get(&l->b, acc, index), 0);
    else dot_finish(p, nest_get(&l->b, acc, index));
    dot_return(p, &before);
}

/* A tile's sum goes on to its neighbour's, in the local of those that wait. */
struct tile {
    struct lower_dot_product *p;
    uint32_t acc, rows, vectors;
};

static void move_tree(void *user, uint32_t level, bool add)
{
    struct tile *t = user;
    struct lower_dot_product *p = t->p;
    struct lower *l = p->l;
    nest_var row = lower_open(l, NEST_UNROLL, t->rows), vector = lower_open(l, NEST_UNROLL, t->vectors);
    nest_var lane = lower_open(l, NEST_VECTOR, p->width);
    struct nest_index reg = reg_index(l, row, t->vectors, vector), index;
    struct lower_pos at = lower_pos_constant((int64_t)level * p->rows * p->panel_columns);
    lower_pos_add_term(l, &at, row, p->panel_columns);
    lower_pos_add_term(l, &at, vector, p->width);
    lower_pos_add_term(l, &at, lane, 1);
    index = lower_pos_index(l, &at);
    if (add) {
        nest_value sum = nest_load(&l->b, p->tree_local, index, 0);
        nest_set(&l->b, t->acc, reg, lower_binary(l, OP_add, p->sum, sum, nest_get(&l->b, t->acc, reg)));
    } else {
        nest_store(&l->b, p->tree_local, index, nest_get(&l->b, t->acc, reg), 0);
    }
    for (int i = 0; i < 3; i++) nest_close(&l->b);
}

/* The whole sum, back in registers. */
static void take_tree(struct tile *t, uint32_t level)
{
    struct lower_dot_product *p = t->p;
    struct lower *l = p->l;
    nest_var row = lower_open(l, NEST_UNROLL, t->rows), vector = lower_open(l, NEST_UNROLL, t->vectors);
    nest_var lane = lower_open(l, NEST_VECTOR, p->width);
    struct lower_pos at = lower_pos_constant((int64_t)level * p->rows * p->panel_columns);
    lower_pos_add_term(l, &at, row, p->panel_columns);
    lower_pos_add_term(l, &at, vector, p->width);
    lower_pos_add_term(l, &at, lane, 1);
    nest_set(&l->b, t->acc, reg_index(l, row, t->vectors, vector),
             nest_load(&l->b, p->tree_local, lower_pos_index(l, &at), 0));
    for (int i = 0; i < 3; i++) nest_close(&l->b);
}

static void sum_leaves(struct lower_dot_product *p, uint32_t acc, uint32_t rows, uint32_t vectors, bool masked)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    struct lower_pos leaf = lower_pos_constant(0);
    uint32_t levels = lower_tree_levels(l->axes[AXIS_K].extent / p->leaf);
    struct steps steps = {0};
    steps.part = open_leaves(p, &leaf, &steps.piece);
    struct tile t = {p, nest_reg(&l->b, p->sum, rows * vectors, true, 0), rows, vectors};
    accumulate(p, t.acc, rows, vectors, masked, steps);
    lower_tree_join(l, &leaf, levels, move_tree, &t);
    dot_return(p, &before);
    t.acc = acc;
    take_tree(&t, levels);
}

void dot_prefetch_end(struct lower_dot_product *p, uint32_t rows)
{
    struct lower *l = p->l;
    int64_t all = ir_type_elements(ir_type(l->f, p->root));
    if (all * (int64_t)ir_dtype_bytes(p->dtype) <= l->target->l2_bytes) return;
    struct lower_dot_place before = dot_place(p);
    dot_open(p, NEST_UNROLL, AXIS_M, dot_last_index(l, AXIS_M), rows, 1, NULL);
    struct lower_pos at = output_pos(p);
    for (size_t i = 0; i < l->group->outputs.count; i++)
        if (ir_type_elements(ir_type(l->f, l->group->outputs.items[i])) == all)
            prefetch(p, lower_argument_of_output(l, i), &at, 0, p->panel_columns);
    for (size_t i = 0; i < l->group->inputs.count; i++) {
        ir_value v = l->group->inputs.items[i];
        bool operand = v == stored(l, p->x.value) || v == stored(l, p->y.value);
        if (l->argument[v] && !operand && ir_type_elements(ir_type(l->f, v)) == all)
            prefetch(p, l->argument[v] - 1, &at, 0, p->panel_columns);
    }
    dot_return(p, &before);
}

void dot_tile(struct lower_dot_product *p, uint32_t rows, uint32_t vectors, bool masked, int64_t extent_k, bool first)
{
    uint32_t acc = nest_reg(&p->l->b, p->sum, rows * vectors, true, 0);
    if (!first) move_tile(p, MOVE_IN, acc, rows, vectors, masked);
    else if (!p->local_tile && p->tall && p->k >= LEAST_STEPS_AHEAD) dot_prefetch_end(p, rows);
    if (p->leaf) sum_leaves(p, acc, rows, vectors, masked);
    else if (extent_k) accumulate(p, acc, rows, vectors, masked, (struct steps){.extent = extent_k});
    move_tile(p, p->local_tile ? MOVE_OUT : MOVE_FINISH, acc, rows, vectors, masked);
}
