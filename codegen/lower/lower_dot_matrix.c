/* Contractions of bfloat16 on a CPU whose matrix unit multiplies tiles of pairs: the loops are those of any large
 * product (lower_dot.c), but the innermost tile is one statement, up to 32 rows by 32 columns. It reads panels of y as
 * others do, and rows of x, where they stand or packed: k-major ones are turned in registers meanwhile. What is done
 * with the sums begins from a local. */
#include "codegen/lower/lower_dot.h"

/* Below so many rows, or pairs of k, there is little to win. */
enum { LEAST_MATRIX_ROWS = 8, LEAST_MATRIX_STEPS = 8 };
/* Pairs of a block of k: of a panel and of the rows of a tile 16 KiB each, which the first cache holds. The unit is as
 * fast as that: from the second cache it gets half of what it can multiply. */
enum { BLOCK_MATRIX = 128 };
/* Columns from which on rows are packed that fight for the same cache sets, or are elements apart that make most of
 * them a page of their own. */
enum { APART_COLUMNS = 512, APART_ROWS = 512, ALIASED_ROWS = 256 };

/* The buffer in which an operand stands as it is; UINT32_MAX: in none. */
static uint32_t buffer_of(const struct lower *l, ir_value v)
{
    while (!l->argument[v] && ir_get(l->f, v)->op == OP_reshape) v = ir_get(l->f, v)->args[0];
    return l->argument[v] ? l->argument[v] - 1 : UINT32_MAX;
}

/* Pairs lie side by side, and the steps of k at one distance. */
static bool is_regular(const struct lower_dot_product *p, const struct lower_dot_operand *o)
{
    return o->pair == 1 && o->count[AXIS_K] == 1 && buffer_of(p->l, o->value) != UINT32_MAX;
}

/* Values that are checked are read one by one. */
static bool reads_rows(const struct lower_dot_product *p)
{
    const struct lower_dot_operand *x = &p->x;
    if (!is_regular(p, x) || x->run[AXIS_K][0].stride != 2 || x->count[AXIS_M] != 1 || p->l->sites) return false;
    int64_t apart = x->run[AXIS_M][0].stride;
    return p->n < APART_COLUMNS || (apart < APART_ROWS && apart % ALIASED_ROWS != 0);
}

/* Where x has k in two parts, heads and their elements say, blocks are whole inner parts or divide one. */
static int64_t block_of_parts(const struct lower_axis *k)
{
    int64_t block = 1;
    for (int64_t i = 1; i <= BLOCK_MATRIX * 5 / 4; i++)
        if (k->part[1] % i == 0 || (i % k->part[1] == 0 && k->part[0] % (i / k->part[1]) == 0)) block = i;
    return block;
}

bool dot_wants_matrix(const struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    const struct lower_axis *k = &l->axes[AXIS_K];
    if (!p->pairs || !l->target->tiles || p->leaf || l->lanes != NEST_TILE || l->axes[AXIS_N].parts != 1) return false;
    if (p->columns && (!is_regular(p, &p->y) || l->sites)) return false;
    bool linear = p->y.count[AXIS_K] == 1 && l->lane_stride == 1; /* so that panels of y are packed by whole blocks */
    if (k->parts > 2 || p->x.count[AXIS_K] > (linear ? 2 : 1) || (k->parts == 2 && !linear)) return false;
    if (k->parts == 2 && block_of_parts(k) < NEST_TILE) return false;
    return p->m >= LEAST_MATRIX_ROWS && p->n >= NEST_TILE && k->extent >= LEAST_MATRIX_STEPS;
}

void dot_choose_matrix(struct lower_dot_product *p)
{
    const struct lower_axis *k = &p->l->axes[AXIS_K];
    int64_t count = (k->extent + BLOCK_MATRIX / 2) / BLOCK_MATRIX;
    count = count ? count : 1;
    p->k = k->extent, p->outer_k = UINT32_MAX;
    p->block_k = k->parts == 2 ? block_of_parts(k)
                               : ((p->k + count - 1) / count + NEST_TILE - 1) / NEST_TILE * NEST_TILE;
    if (p->block_k > p->k) p->block_k = p->k;
    p->blocks_k = p->k / p->block_k;
    p->tail_k = p->k % p->block_k;
    p->local_blocks = p->blocks_k + (p->tail_k > 0) > 1;
    if (p->local_blocks) p->local_tile = true;
    p->pack = !p->columns;
    p->pack_rows = !reads_rows(p);
    p->rows_stride = p->pack_rows ? (p->block_k + p->lanes - 1) / p->lanes * p->lanes + p->lanes : 0;
}

/* Elements of the packed rows of a chunk: all its rows by the first block of k, then by the next one. */
static int64_t packed_block(const struct lower_dot_product *p) { return p->chunk * p->rows * p->rows_stride; }

int64_t dot_matrix_rows(const struct lower_dot_product *p) { return (p->blocks_k + (p->tail_k > 0)) * packed_block(p); }

/* Where the open loops stand in the packed rows, those over blocks of k at `block`. */
static struct lower_pos packed_row(struct lower_dot_product *p, const struct lower_pos *block)
{
    struct lower_pos at = p->local_k;
    at.offset += block->offset / p->block_k * packed_block(p);
    for (uint32_t i = 0; i < block->term_count; i++)
        lower_pos_add_term(p->l, &at, block->term[i].var, block->term[i].scale / p->block_k * packed_block(p));
    lower_pos_add(p->l, &at, &p->local_row, p->rows_stride);
    return at;
}

/* So many rows, from where the loops stand, by so many steps: as many of both as a vector has lanes at a time. */
static void pack_turned(struct lower_dot_product *p, const struct lower_pos *block, int64_t rows, int64_t steps)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    uint32_t part_m = dot_last_index(l, AXIS_M), part_k = dot_last_index(l, AXIS_K);
    dot_open(p, NEST_SERIAL, AXIS_K, part_k, steps / p->lanes, p->lanes, &p->local_k);
    dot_open(p, NEST_SERIAL, AXIS_M, part_m, rows / p->lanes, p->lanes, &p->local_row);
    struct lower_dot_place corner = dot_place(p);
    uint32_t reg = nest_reg(&l->b, p->factor, (uint32_t)p->lanes, true, 0);
    nest_var number = dot_open(p, NEST_UNROLL, AXIS_K, part_k, p->lanes, 1, NULL);
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add_term(l, &at, number, 1);
    dot_open(p, NEST_VECTOR, AXIS_M, part_m, p->lanes, 1, NULL);
    nest_set(&l->b, reg, lower_pos_index(l, &at), dot_operand_value(p, &p->x));
    dot_return(p, &corner);
    nest_turn(&l->b, reg, (uint32_t)p->lanes);
    at = lower_pos_constant(0);
    lower_pos_add_term(l, &at, dot_open(p, NEST_UNROLL, AXIS_M, part_m, p->lanes, 1, &p->local_row), 1);
    dot_open(p, NEST_VECTOR, AXIS_K, part_k, p->lanes, 1, &p->local_k);
    struct lower_pos to = packed_row(p, block);
    nest_store(&l->b, p->rows_local, lower_pos_index(l, &to), nest_get(&l->b, reg, lower_pos_index(l, &at)), 0);
    dot_return(p, &before);
}

/* The same row by row. */
static void pack_rows(struct lower_dot_product *p, const struct lower_pos *block, int64_t row, int64_t rows,
                      int64_t step, int64_t steps)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    if (rows <= 0 || steps <= 0) return;
    p->at[AXIS_M].offset += row, p->local_row.offset += row;
    p->at[AXIS_K].offset += step, p->local_k.offset += step;
    dot_open(p, NEST_SERIAL, AXIS_M, dot_last_index(l, AXIS_M), rows, 1, &p->local_row);
    dot_open(p, NEST_VECTOR, AXIS_K, dot_last_index(l, AXIS_K), steps, 1, &p->local_k);
    struct lower_pos to = packed_row(p, block);
    nest_store(&l->b, p->rows_local, lower_pos_index(l, &to), dot_operand_value(p, &p->x), 0);
    dot_return(p, &before);
}

static void pack_block(struct lower_dot_product *p, const struct lower_pos *block, uint32_t rows, int64_t steps)
{
    bool along = p->x.run[AXIS_K][0].stride == 2;
    int64_t turned_rows = along ? 0 : rows / p->lanes * p->lanes,
            turned_steps = along ? 0 : steps / p->lanes * p->lanes;
    if (turned_rows && turned_steps) pack_turned(p, block, turned_rows, turned_steps);
    else turned_rows = turned_steps = 0;
    pack_rows(p, block, 0, turned_rows, turned_steps, steps - turned_steps);
    pack_rows(p, block, turned_rows, rows - turned_rows, 0, steps);
}

void dot_pack_matrix(struct lower_dot_product *p, uint32_t rows, const void *user)
{
    (void)user;
    const struct lower_axis *k = &p->l->axes[AXIS_K];
    struct lower_dot_place before = dot_place(p);
    int64_t inner = k->part[k->parts - 1], steps = p->block_k < inner ? p->block_k : inner, whole = p->block_k / steps;
    if (k->parts == 2) dot_open(p, NEST_SERIAL, AXIS_K, 0, k->part[0] / whole, whole, NULL);
    if (inner / steps > 1) dot_open(p, NEST_SERIAL, AXIS_K, k->parts - 1, inner / steps, steps, NULL);
    struct lower_pos block = p->at[AXIS_K];
    if (whole > 1) dot_open(p, NEST_SERIAL, AXIS_K, 0, whole, 1, &p->local_k);
    pack_block(p, &block, rows, steps);
    dot_return(p, &before);
    p->at[AXIS_K].offset += p->block_k * p->blocks_k;
    block = p->at[AXIS_K];
    if (p->tail_k) pack_block(p, &block, rows, p->tail_k);
    dot_return(p, &before);
}

/* The sums, finished where they stand in the local of one tile. */
static void finish(struct lower_dot_product *p, uint32_t sums, uint32_t rows, uint32_t vectors, bool masked)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    struct lower_pos at = lower_pos_constant(0);
    nest_var row = dot_open(p, NEST_SERIAL, AXIS_M, dot_last_index(l, AXIS_M), rows, 1, &p->local_row);
    struct lower_dot_column c = dot_open_column(p, vectors, masked);
    lower_pos_add_term(l, &at, row, NEST_TILE_EDGE);
    lower_pos_add_term(l, &at, c.vector, p->width);
    lower_pos_add_term(l, &at, c.lane, 1);
    dot_finish(p, nest_load(&l->b, sums, lower_pos_index(l, &at), 0));
    dot_return(p, &before);
}

void dot_matrix_tile(struct lower_dot_product *p, uint32_t rows, uint32_t vectors, bool masked, int64_t steps,
                     bool first)
{
    struct lower *l = p->l;
    struct nest_tiles t = {.rows = rows, .columns = vectors * NEST_TILE, .steps = steps};
    struct lower_pos at[2] = {p->pack_rows ? packed_row(p, &p->at[AXIS_K]) : dot_operand_pos(p, &p->x),
                              p->pack ? dot_packed_step(p) : dot_operand_pos(p, &p->y)};
    struct lower_pos sums = lower_pos_constant(0);
    t.from[0] = p->pack_rows ? p->rows_local : buffer_of(l, p->x.value);
    t.from[1] = p->pack ? p->panel_local : buffer_of(l, p->y.value);
    t.apart[0] = p->pack_rows ? p->rows_stride : p->x.run[AXIS_M][0].stride;
    t.apart[1] = p->pack ? p->panel_columns : p->y.run[AXIS_K][0].stride;
    for (int i = 0; i < 2; i++) t.at[i] = lower_pos_index(l, &at[i]);
    t.stride = p->local_tile ? p->tile_columns : NEST_TILE_EDGE;
    if (p->local_tile) {
        lower_pos_add(l, &sums, &p->local_row, p->tile_columns);
    } else if (!p->matrix_local) {
        p->matrix_local = nest_local(&l->b, p->sum, NEST_TILE_EDGE * NEST_TILE_EDGE);
    }
    uint32_t to = p->local_tile ? p->tile_local : p->matrix_local;
    nest_tiles(&l->b, to, lower_pos_index(l, &sums), &t, !first);
    if (!p->local_tile) finish(p, to, rows, vectors, masked);
}
