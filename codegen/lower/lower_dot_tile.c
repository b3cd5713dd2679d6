/* The inner part of a contraction: packing of panels and rows, the register tile, and what happens to it at the end. */
#include "codegen/lower/lower_dot.h"
#include <string.h>

static struct lower_pos operand_pos(struct lower_dot_product *p, const struct lower_dot_operand *o)
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

static nest_value cast_to(struct lower *l, nest_value x, enum ir_dtype dtype)
{
    return nest_dtype(&l->b, x) == dtype ? x : nest_op(&l->b, OP_cast, dtype, &x, 1);
}

nest_value dot_operand_value(struct lower_dot_product *p, const struct lower_dot_operand *o)
{
    struct lower_pos at = operand_pos(p, o);
    return cast_to(p->l, lower_value(p->l, o->value, &at), p->sum);
}

/* ---------------------------------------------------------------- the tile */

static struct nest_index reg_index(struct lower *l, nest_var row, uint32_t vectors, nest_var vector)
{
    struct lower_pos at = lower_pos_constant(0);
    if (row != UINT32_MAX) lower_pos_add_term(l, &at, row, vectors);
    lower_pos_add_term(l, &at, vector, 1);
    return lower_pos_index(l, &at);
}

/* One column vector of the panel: its loops, its place on the axis, and the mask of a last, partial one. */

struct lower_dot_column dot_open_column(struct lower_dot_product *p, uint32_t vectors, bool masked)
{
    struct lower *l = p->l;
    struct lower_dot_column c = {.before = p->at[AXIS_N]};
    uint32_t part = dot_last_index(l, AXIS_N);
    c.vector = lower_open_piece(l, NEST_UNROLL, AXIS_N, part, vectors, p->width);
    c.lane = lower_open_piece(l, NEST_VECTOR, AXIS_N, part, p->width, 1);
    lower_pos_add_term(l, &p->at[AXIS_N], c.vector, p->width);
    lower_pos_add_term(l, &p->at[AXIS_N], c.lane, 1);
    if (!masked) return c;
    struct lower_pos at = lower_pos_constant(p->at[AXIS_N].offset);
    for (uint32_t i = 0; i < p->at[AXIS_N].term_count; i++) {
        const struct lower_var_info *info = &l->vars.items[p->at[AXIS_N].term[i].var];
        if (info->axis == AXIS_N && info->part == part)
            lower_pos_add_term(l, &at, p->at[AXIS_N].term[i].var, info->unit);
    }
    nest_value args[2] = {lower_pos_value(l, &at), nest_number(&l->b, IR_I32, (double)p->n)};
    l->tile_axis = AXIS_N, l->tile_part = part;
    l->tile_mask = nest_op(&l->b, OP_lt, IR_BOOL, args, 2);
    return c;
}

void dot_close_column(struct lower_dot_product *p, const struct lower_dot_column *c)
{
    p->l->tile_mask = 0;
    p->at[AXIS_N] = c->before;
    nest_close(&p->l->b);
    nest_close(&p->l->b);
}

/* Where the open column stands in the local tile. */
struct lower_pos dot_tile_pos(struct lower_dot_product *p, const struct lower_dot_column *c)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add(p->l, &at, &p->local_row, p->tile_columns);
    if (p->wide) {
        lower_pos_add(p->l, &at, &p->at[AXIS_N], 1);
    } else {
        lower_pos_add_term(p->l, &at, c->vector, p->width);
        lower_pos_add_term(p->l, &at, c->lane, 1);
    }
    return at;
}

static struct lower_pos local_pos(struct lower_dot_product *p, const struct lower_pos *row,
                                  const struct lower_dot_column *c)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add(p->l, &at, row, p->panel_columns);
    lower_pos_add_term(p->l, &at, c->vector, p->width);
    lower_pos_add_term(p->l, &at, c->lane, 1);
    return at;
}

/* Loops over the outer parts of k, then over `extent` of the last one. */
static uint32_t open_k(struct lower_dot_product *p, int64_t extent)
{
    struct lower *l = p->l;
    const struct lower_axis *axis = &l->axes[AXIS_K];
    uint32_t opened = 0;
    for (uint32_t i = 0; i < axis->parts; i++) {
        bool last = i + 1 == axis->parts;
        int64_t size = last ? extent : axis->part[i];
        if (size == 1 || i == p->outer_k) continue;
        nest_var var = lower_open_piece(l, last && size <= 4 ? NEST_UNROLL : NEST_SERIAL, AXIS_K, i, size, 1);
        lower_pos_add_term(l, &p->at[AXIS_K], var, lower_axis_stride(axis, i));
        lower_pos_add_term(l, &p->local_k, var, lower_axis_stride(axis, i));
        opened++;
    }
    return opened;
}

void dot_close_loops(struct lower *l, uint32_t count)
{
    while (count--) nest_close(&l->b);
}

/* y's rows are apart in memory but k is not: k by the lanes, a stretch at a time, the stores far apart. */
static void pack_transposed(struct lower_dot_product *p, uint32_t vectors, bool masked, int64_t extent)
{
    struct lower *l = p->l;
    uint32_t part_n = dot_last_index(l, AXIS_N), part_k = dot_last_index(l, AXIS_K);
    int64_t columns = masked || vectors < p->vectors ? p->tail_columns : p->panel_columns;
    for (int64_t from = 0, size; from < extent; from += size) { /* whole stretches, then the rest */
        size = extent - from >= PACK_K ? (extent - from) / PACK_K * PACK_K : extent - from;
        struct lower_pos k = p->at[AXIS_K], local_k = p->local_k, n = p->at[AXIS_N];
        p->at[AXIS_K].offset += from;
        p->local_k.offset += from;
        int64_t stretch = size < PACK_K ? size : PACK_K;
        nest_var block = lower_open_piece(l, NEST_SERIAL, AXIS_K, part_k, size / stretch, stretch);
        nest_var column = lower_open_piece(l, NEST_SERIAL, AXIS_N, part_n, columns, 1);
        nest_var lane = lower_open_piece(l, NEST_VECTOR, AXIS_K, part_k, stretch, 1);
        lower_pos_add_term(l, &p->at[AXIS_N], column, 1);
        for (uint32_t i = 0; i < 2; i++) {
            lower_pos_add_term(l, &p->at[AXIS_K], i ? lane : block, i ? 1 : stretch);
            lower_pos_add_term(l, &p->local_k, i ? lane : block, i ? 1 : stretch);
        }
        struct lower_pos at = lower_pos_constant(0);
        lower_pos_add(l, &at, &p->local_k, p->panel_columns);
        lower_pos_add_term(l, &at, column, 1);
        nest_store(&l->b, p->panel_local, lower_pos_index(l, &at), dot_operand_value(p, &p->y), 0);
        dot_close_loops(l, 3);
        p->at[AXIS_K] = k, p->local_k = local_k, p->at[AXIS_N] = n;
    }
}

void dot_pack_panel(struct lower_dot_product *p, uint32_t vectors, bool masked, int64_t extent)
{
    struct lower *l = p->l;
    if (l->lane_stride != 1 && l->axes[AXIS_K].parts == 1 && extent >= 4) {
        pack_transposed(p, vectors, masked, extent);
        return;
    }
    struct lower_pos k = p->at[AXIS_K], local_k = p->local_k;
    uint32_t opened = open_k(p, extent);
    struct lower_dot_column c = dot_open_column(p, vectors, masked);
    struct lower_pos at = local_pos(p, &p->local_k, &c);
    nest_store(&l->b, p->panel_local, lower_pos_index(l, &at), dot_operand_value(p, &p->y), 0);
    dot_close_column(p, &c);
    dot_close_loops(l, opened);
    p->at[AXIS_K] = k, p->local_k = local_k;
}

/* Where row `m` of a block stands in the packed rows: blocks one after the other, k-major inside. */
static struct lower_pos packed_row(struct lower_dot_product *p, nest_var row)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add(p->l, &at, &p->local_row, p->block_k);
    lower_pos_add(p->l, &at, &p->local_k, p->rows);
    lower_pos_add_term(p->l, &at, row, 1);
    return at;
}

void dot_pack_block(struct lower_dot_product *p, uint32_t rows, const void *user)
{
    struct lower *l = p->l;
    struct lower_pos k = p->at[AXIS_K], local_k = p->local_k, m = p->at[AXIS_M];
    uint32_t opened = open_k(p, *(const int64_t *)user);
    nest_var row = lower_open_piece(l, NEST_VECTOR, AXIS_M, dot_last_index(l, AXIS_M), rows, 1);
    lower_pos_add_term(l, &p->at[AXIS_M], row, 1);
    struct lower_pos at = packed_row(p, row);
    nest_store(&l->b, p->rows_local, lower_pos_index(l, &at), dot_operand_value(p, &p->x), 0);
    dot_close_loops(l, opened + 1);
    p->at[AXIS_K] = k, p->local_k = local_k, p->at[AXIS_M] = m;
}

static nest_value multiply_add(struct lower_dot_product *p, nest_value x, nest_value y, nest_value z)
{
    struct lower *l = p->l;
    if (p->sum == IR_F32 || p->sum == IR_F64) return nest_fma(&l->b, p->sum, x, y, z);
    nest_value two[2] = {x, y};
    two[0] = nest_op(&l->b, p->sum == IR_BOOL ? OP_and : OP_mul, p->sum, two, 2);
    two[1] = z;
    return nest_op(&l->b, p->sum == IR_BOOL ? OP_or : OP_add, p->sum, two, 2);
}

static void accumulate(struct lower_dot_product *p, uint32_t acc, uint32_t rows, uint32_t vectors, bool masked,
                       int64_t extent)
{
    struct lower *l = p->l;
    struct lower_pos k = p->at[AXIS_K], local_k = p->local_k, m = p->at[AXIS_M];
    uint32_t right = nest_reg(&l->b, p->sum, vectors, true, 0);
    uint32_t opened = open_k(p, extent);
    struct lower_dot_column c = dot_open_column(p, vectors, masked && !p->pack);
    struct lower_pos at = local_pos(p, &p->local_k, &c);
    nest_value y = p->pack ? nest_load(&l->b, p->panel_local, lower_pos_index(l, &at), 0) : dot_operand_value(p, &p->y);
    nest_set(&l->b, right, reg_index(l, UINT32_MAX, 0, c.vector), y);
    dot_close_column(p, &c);
    nest_var row = lower_open_piece(l, NEST_UNROLL, AXIS_M, dot_last_index(l, AXIS_M), rows, 1);
    lower_pos_add_term(l, &p->at[AXIS_M], row, 1);
    struct lower_pos packed = packed_row(p, row);
    nest_value x = p->pack_rows ? nest_load(&l->b, p->rows_local, lower_pos_index(l, &packed), 0)
                                : dot_operand_value(p, &p->x);
    c = dot_open_column(p, vectors, false);
    struct nest_index index = reg_index(l, row, vectors, c.vector);
    nest_value sum = multiply_add(p, x, nest_get(&l->b, right, reg_index(l, UINT32_MAX, 0, c.vector)),
                                  nest_get(&l->b, acc, index));
    nest_set(&l->b, acc, index, sum);
    dot_close_column(p, &c);
    nest_close(&l->b);
    dot_close_loops(l, opened);
    p->at[AXIS_K] = k, p->local_k = local_k, p->at[AXIS_M] = m;
}

static struct lower_pos output_pos(struct lower_dot_product *p)
{
    struct lower *l = p->l;
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add(l, &at, &p->at[AXIS_N], 1);
    lower_pos_add(l, &at, &p->at[AXIS_M], l->axes[AXIS_N].extent);
    lower_pos_add(l, &at, &p->at[AXIS_B], l->axes[AXIS_N].extent * l->axes[AXIS_M].extent);
    return at;
}

/* The element-wise work on one vector of the product, and its store. */
void dot_finish(struct lower_dot_product *p, nest_value sum)
{
    struct lower *l = p->l;
    const struct plan_group *g = l->group;
    struct lower_pos at = output_pos(p);
    l->from[p->root] = (struct lower_override){.source = FROM_VALUE, .value = cast_to(l, sum, p->dtype)};
    nest_value *out = arena_new_array(l->arena, nest_value, g->outputs.count + 1);
    for (size_t i = 0; i < g->outputs.count; i++) out[i] = lower_value(l, g->outputs.items[i], &at);
    for (size_t i = 0; i < g->outputs.count; i++)
        nest_store(&l->b, lower_argument_of_output(l, i), lower_pos_index(l, &at), out[i], l->tile_mask);
}

/* Moves a tile between its registers and the local that keeps it, or finishes it from the registers. */
enum move { MOVE_IN, MOVE_OUT, MOVE_FINISH };
static void move_tile(struct lower_dot_product *p, enum move move, uint32_t acc, uint32_t rows, uint32_t vectors,
                      bool masked)
{
    struct lower *l = p->l;
    struct lower_pos m = p->at[AXIS_M], local_row = p->local_row;
    nest_var row = lower_open_piece(l, NEST_UNROLL, AXIS_M, dot_last_index(l, AXIS_M), rows, 1);
    lower_pos_add_term(l, &p->at[AXIS_M], row, 1);
    lower_pos_add_term(l, &p->local_row, row, 1);
    struct lower_dot_column c = dot_open_column(p, vectors, masked && move == MOVE_FINISH);
    struct nest_index index = reg_index(l, row, vectors, c.vector);
    struct lower_pos at = dot_tile_pos(p, &c);
    if (move == MOVE_IN) nest_set(&l->b, acc, index, nest_load(&l->b, p->tile_local, lower_pos_index(l, &at), 0));
    else if (move == MOVE_OUT)
        nest_store(&l->b, p->tile_local, lower_pos_index(l, &at), nest_get(&l->b, acc, index), 0);
    else dot_finish(p, nest_get(&l->b, acc, index));
    dot_close_column(p, &c);
    nest_close(&l->b);
    p->at[AXIS_M] = m, p->local_row = local_row;
}

void dot_tile(struct lower_dot_product *p, uint32_t rows, uint32_t vectors, bool masked, int64_t extent_k, bool first)
{
    uint32_t acc = nest_reg(&p->l->b, p->sum, rows * vectors, true, 0);
    if (!first) move_tile(p, MOVE_IN, acc, rows, vectors, masked);
    if (extent_k) accumulate(p, acc, rows, vectors, masked, extent_k);
    move_tile(p, p->local_tile ? MOVE_OUT : MOVE_FINISH, acc, rows, vectors, masked);
}
