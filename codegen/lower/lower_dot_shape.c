/* The shape of a contraction's tile and what its workers share, from the extents, the target and where the operands
 * lie (see lower_dot.c): pairs, columns and rows of the tile, blocks of k, what is packed, chunks of rows, locals.
 *
 * Large products have tall tiles (14 x 2 vectors of 32 registers, 6 x 2 of 16), as in Goto and van de Geijn, Anatomy of
 * high-performance matrix multiplication. With at least as many rows as columns the rows are shared out and y comes in
 * panels, packed once for all (fuse_panels.c); else groups of panels are, each packed by the worker that reads it. Rows
 * of x are copied for a chunk where they lie k-major or at distances that fight for the same cache sets. Long sums go
 * by blocks of k for all panels before the next block, so that what is packed of x serves all of them. Other
 * products have tiles that go by what all of them cost (`small`: not tall), and few rows turn columns that are rows in
 * memory for each tile. */
#include "codegen/lower/lower_dot.h"

/* ---------------------------------------------------------------- pairs */

/* Halves the innermost run of k: a step is two of it. */
static bool halve(struct lower_dot_operand *o, bool really)
{
    uint32_t n = o->count[AXIS_K];
    if (!n || o->run[AXIS_K][n - 1].extent % 2) return false;
    if (!really) return true;
    struct lower_dot_run *run = &o->run[AXIS_K][n - 1];
    o->pair = run->stride;
    run->stride *= 2;
    run->extent /= 2;
    if (run->extent == 1) o->count[AXIS_K]--;
    return true;
}

static bool is_stored(const struct lower *l, ir_value v)
{
    while (!l->argument[v] && ir_get(l->f, v)->op == OP_reshape) v = ir_get(l->f, v)->args[0];
    return l->argument[v] != 0;
}

/* What was widened from bfloat16; the value itself if nothing was. */
static ir_value narrowed(const struct lower *l, ir_value v)
{
    ir_value from = v;
    while (!l->argument[from] && ir_get(l->f, from)->op == OP_reshape) from = ir_get(l->f, from)->args[0];
    const struct ir_node *n = ir_get(l->f, from);
    bool widened = !l->argument[from] && n->op == OP_cast && n->type.dtype == IR_F32;
    return widened && ir_type(l->f, n->args[0])->dtype == IR_BF16 ? n->args[0] : v;
}

/* Two steps of k at a time, where the CPU multiplies pairs of bfloat16. Sums in a fixed order have none: pairs are
 * added in an order of their own. Nor have groups that share a vector. */
void dot_choose_pairs(struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    p->factor = p->sum;
    if (dot_group_count(p) > 1) return;
    ir_value x = narrowed(l, p->x.value), y = narrowed(l, p->y.value);
    if (ir_type(l->f, x)->dtype != IR_BF16 || ir_type(l->f, y)->dtype != IR_BF16) return;
    if (!l->target->pairs || l->target->invariant || l->target->cuda) return;
    if (!is_stored(l, x) && (l->target->tiles || !lower_taps_of(l, x))) return;
    if (!is_stored(l, y) || !halve(&p->x, false) || !halve(&p->y, false)) return;
    p->x.value = x, p->y.value = y;
    p->pairs = halve(&p->x, true) && halve(&p->y, true);
    p->factor = IR_U32;
}

/* Elements, or pairs that lie side by side, between neighbours. */
static int64_t distance(const struct lower_dot_product *p, const struct lower_dot_operand *o, uint32_t axis,
                        uint32_t run)
{
    return o->run[axis][run].stride / (p->pairs && o->pair == 1 ? 2 : 1);
}

/* ---------------------------------------------------------------- shape of the tile */

/* Rows of x that are neighbours in memory, but each step of k far away: the steps would fight for the same cache sets.
 */
static bool rows_apart(const struct lower_dot_product *p)
{
    uint32_t nk = p->x.count[AXIS_K], nm = p->x.count[AXIS_M];
    return p->l->axes[AXIS_K].parts == 1 && nk && nm && p->x.run[AXIS_M][nm - 1].stride == 1 &&
           p->x.run[AXIS_K][nk - 1].stride >= 64;
}

/* More columns than rows: workers share the columns out and each panel of y, which may be larger than x, is packed by
 * the only one that reads it; so it is of several products side by side, of which a worker makes whole ones. Else it is
 * one of few, and comes packed (fuse_panels.c), or is packed by those who share rows that lie k-major: of a tall tile
 * they are whole cache lines. */
void dot_choose_way(struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    bool several = l->axes[AXIS_B].extent > 1;
    bool plain = !(several && p->matrix) && l->axes[AXIS_M].parts == 1 && l->axes[AXIS_N].parts == 1 &&
                 l->axes[AXIS_K].parts == 1 && !p->leaf && !l->target->cuda;
    int64_t least = several ? LEAST_OF_SEVERAL : LEAST_ELEMENTS;
    p->by_columns = plain && (several ? p->n >= LEAST_ROWS : p->n > p->m) &&
                    (p->columns || (p->m >= LEAST_ROWS && p->n * p->k >= least));
    bool apart = plain && rows_apart(p) && p->n >= LEAST_ROWS && (p->m >= APART_LEAST || p->k > LONG_K) &&
                 p->n * p->k >= LEAST_ELEMENTS * 3 / 4 && l->lane_stride == 1;
    p->tall = p->columns || p->shared_rows || p->by_columns || p->matrix || apart;
}

/* y would leave the second cache between two tiles that read it. */
static bool is_far(const struct lower_dot_product *p) { return p->n * p->k * 4 > p->l->target->l2_bytes / 2; }

/* Cycles of a step of k over all rows and columns of a tile, as measured with 16 registers: of 15 loads for 14
 * multiply-adds some meet in the same bank, eight multiply-adds do not quite hide that four wait for one, and a panel
 * comes from the second cache. With 32, whose vectors are whole lines, this takes longer, and so do the tile's begin
 * and end. */
static double cost_of_small(const struct lower_dot_product *p, int64_t rows, int64_t vectors)
{
    bool many = p->l->target->vector_registers >= 32;
    double work = (double)(rows * vectors) / 2, loads = 0.6 * (double)(rows + vectors);
    double cycles = work > loads ? work : loads;
    if (cycles < 4.6) cycles = 4.6;
    return cycles + 0.2 + (many ? 0.25 : 0.1) * (double)vectors + (many && p->k ? 48 / (double)p->k : 0);
}

/* Vectors have a register each, and one is for what all of them are multiplied with; a single row reads them where they
 * stand. */
static int64_t most_rows_of_small(const struct lower_dot_product *p, int64_t vectors)
{
    return vectors >= 8 ? 1 : (p->l->target->vector_registers - 1 - vectors) / vectors;
}

static double cost_of_rows(const struct lower_dot_product *p, int64_t m, int64_t rows, int64_t vectors, double ragged)
{
    double cost = (double)(m / rows) * cost_of_small(p, rows, vectors);
    return m % rows ? ragged * (cost + cost_of_small(p, m % rows, vectors)) : cost;
}

int64_t dot_rows_of_small(const struct lower_dot_product *p, int64_t vectors, double ragged, double *cost)
{
    int64_t m = p->m, most = most_rows_of_small(p, vectors), best = 0;
    *cost = 0;
    for (int64_t rows = m < most ? m : most; rows > 0; rows--) {
        double all = cost_of_rows(p, m, rows, vectors, ragged);
        if (best && all >= *cost) continue;
        *cost = all, best = rows;
    }
    return best;
}

/* Tiles that go by what all of them cost. Rows of a view, or in several runs, have one that divides them: of what
 * sticks out of a run positions are found by division, step by step. So have those of a few steps, which wait for their
 * stores. */
static bool is_small(const struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    return !l->target->cuda && !p->tall && !p->even && is_stored(l, p->x.value) && p->x.count[AXIS_M] <= 1 &&
           p->k >= SMALL_STEPS;
}

static double ragged_of(const struct lower_dot_product *p)
{
    if (p->l->target->vector_registers >= 32) return RAGGED_MANY;
    return (double)p->m * (double)p->n * (double)p->k >= MANY_STEPS ? RAGGED_CODE : RAGGED_FEW;
}

/* Where a tile has all rows, a single one has up to eight vectors, four lines of the cache, as each step of k is in
 * lines of its own. Columns that are rows in memory are packed by two vectors: more of them would fight for the same
 * cache sets. Numbers that are no powers of two and do not divide all would cut heads, or what else columns are,
 * anywhere. With 32 registers packing is counted. */
static uint32_t vectors_of_small(const struct lower_dot_product *p, int64_t whole)
{
    bool many = p->l->target->vector_registers >= 32;
    int64_t most = p->l->lane_stride == 1 ? 8 : whole <= 3 ? 3 : 2, best = 1;
    double least = 0;
    for (int64_t vectors = 1; vectors <= most && vectors <= whole; vectors++) {
        double cost;
        int64_t rows = dot_rows_of_small(p, vectors, ragged_of(p), &cost), rest = whole % vectors;
        bool cuts = rest && (vectors & (vectors - 1)) && (vectors != 3 || whole % 2 == 0);
        bool strips = vectors == 1 && whole > 1 && p->m > most_rows_of_small(p, 2) && is_far(p);
        bool all = many && vectors == whole && p->n % p->lanes == 0; /* y as it stands is the panel */
        if (cuts || strips || (vectors > (all ? 4 : 3) && rows < p->m)) continue;
        if (many && p->m > 2 * rows && !all) cost += 4 + 1.5 * (double)vectors;
        cost *= (double)(whole / vectors);
        if (rest && rows) cost += LAST_RAGGED * cost_of_rows(p, p->m, rows, rest, 1);
        if (least > 0 && cost >= least) continue;
        least = cost, best = vectors;
    }
    return (uint32_t)best;
}

/* Few rows, and columns that are rows in memory: a vector of these gets its steps of k from a block of as many steps
 * that is turned in registers, beside which the tile has room; a packed panel would be read too seldom. */
static bool is_turned(const struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    int64_t rows = l->target->vector_registers < 32 ? TURNED_ROWS_FEW : TURNED_ROWS;
    return l->lane_stride != 1 && !l->target->cuda && !p->even && !p->leaf && !p->pairs && !p->tall && p->m <= rows &&
           p->width == p->lanes && p->k >= p->lanes && l->axes[AXIS_K].parts == 1 && p->y.count[AXIS_K] == 1 &&
           p->y.run[AXIS_K][0].stride == 1;
}

/* A single row has two vectors, so that one is added to while the other waits for its sum, if the first cache holds the
 * lines of so many columns, and those behind them, at once. */
static uint32_t vectors_of_turned(const struct lower_dot_product *p)
{
    uint32_t runs = p->y.count[AXIS_N];
    int64_t bytes = (int64_t)ir_dtype_bytes(ir_type(p->l->f, p->y.value)->dtype);
    int64_t apart = runs ? p->y.run[AXIS_N][runs - 1].stride * bytes : 0;
    return p->m == 1 && p->n >= 8 * p->lanes && dot_lines_apart(apart) >= 4 * p->lanes ? 2 : 1;
}

void dot_choose_columns(struct lower_dot_product *p)
{
    p->lanes = p->l->lanes;
    p->width = p->n < p->lanes ? p->n : p->lanes;
    p->turned = is_turned(p);
    int64_t whole = (p->n + p->lanes - 1) / p->lanes;
    bool many = p->l->target->vector_registers >= 32;
    if (p->tall) p->vectors = (uint32_t)(cg_panel_columns(p->l->target) / p->lanes);
    else if (p->turned) p->vectors = vectors_of_turned(p);
    else if (is_small(p)) p->vectors = vectors_of_small(p, whole);
    else if (whole <= 3) p->vectors = (uint32_t)whole;
    else if (whole % 3 == 0) p->vectors = 3;
    else if (whole % 4 == 0 && many) p->vectors = 4;
    else p->vectors = whole % 2 == 0 ? 2 : 3;
    if (p->vectors == 0) p->vectors = 1;
    p->panel_columns = p->vectors * (int64_t)p->width;
    p->panels = p->n / p->panel_columns;
    p->tail_columns = p->n % p->panel_columns;
}

/* Rows of tiles whose panels have four vectors at most. */
static int64_t rows_of_panels(const struct lower_dot_product *p)
{
    static const uint32_t most_many[] = {0, 14, 14, 9, 6}, most_few[] = {0, 10, 6, 4, 3};
    bool many = p->l->target->vector_registers >= 32;
    bool much = (double)p->m * (double)p->n * (double)p->k >= 2 * MANY_STEPS; /* less than the code of a short tile */
    int64_t most = p->matrix ? NEST_TILE_EDGE : many ? most_many[p->vectors] : most_few[p->vectors];
    for (int64_t r = most; r > (p->matrix ? most : p->even ? 1 : p->tall && much ? most - 2 : most / 2); r--)
        if (p->m % r == 0) return r;
    if (p->tall && !p->even &&
        !p->matrix) { /* tall ones of about one size: what is left over costs less than a short tile */
        int64_t count = (p->m + most - 1) / most;
        return (p->m + count - 1) / count;
    }
    return p->m < most ? p->m : most;
}

void dot_choose_rows(struct lower_dot_product *p)
{
    double cost;
    p->rows = (uint32_t)(is_small(p) ? dot_rows_of_small(p, p->vectors, ragged_of(p), &cost) : rows_of_panels(p));
    if (p->shared_rows) p->rows = (uint32_t)ir_type(p->l->f, p->x.value)->dim[ir_type(p->l->f, p->x.value)->rank - 1];
    if (p->rows == 0) p->rows = 1;
    p->blocks = p->m / p->rows;
    p->tail_rows = p->m % p->rows;
}

double dot_epilogue_cost(const struct lower_dot_product *p)
{
    double cost = 0;
    for (size_t i = 0; i < p->l->group->nodes.count; i++) {
        const struct ir_node *node = ir_get(p->l->f, p->l->group->nodes.items[i]);
        if (ir_ops[node->op].emit == EMIT_ewise || node->op == OP_iota) cost += ir_ops[node->op].cost;
    }
    return cost;
}

/* Steps of a part of k that are long enough to be blocks: the images of a batch, say. */
static uint32_t choose_outer_k(const struct lower_axis *k)
{
    uint32_t i = 0;
    while (i + 1 < k->parts && k->part[i] == 1) i++;
    return i + 1 < k->parts && k->extent > LONG_K && k->extent / k->part[i] >= BLOCK_K / 4 ? i : UINT32_MAX;
}

/* The rows of y are as long as the panel and lie one behind the other: a packed panel would be the same again. */
static bool packed_already(const struct lower_dot_product *p)
{
    const struct lower_dot_operand *y = &p->y;
    return is_stored(p->l, y->value) && p->l->lane_stride == 1 && !p->pairs && p->panels == 1 && !p->tail_columns &&
           y->count[AXIS_N] == 1 && y->count[AXIS_K] == 1 && y->run[AXIS_K][0].stride == p->n &&
           y->run[AXIS_N][0].extent == p->n && ir_type(p->l->f, y->value)->dtype == p->sum;
}

/* A host's memory, or what a loop is given of it: no vector of it is sure to be within a line of the cache. */
static bool lies_anywhere(const struct lower *l, ir_value v)
{
    while (ir_get(l->f, v)->op == OP_reshape) v = ir_get(l->f, v)->args[0];
    const struct ir_node *n = ir_get(l->f, v);
    if (n->op != OP_param) return false;
    int32_t slot = l->f->params.items[n->attr[0].v[0]].slot;
    return slot < 0 || l->f->module->slots.items[slot].role == IR_ROLE_INPUT;
}

/* Few rows of tiles read a panel, and the rows of y are not so far apart that their lines fight for the same cache sets
 * or come late, with too few multiply-adds to wait behind: to pack it would take longer than it saves. With 16
 * registers, where a tile reads more of it, it does not. */
static bool is_read_seldom(const struct lower_dot_product *p)
{
    const struct lower_dot_operand *y = &p->y;
    if (p->l->target->vector_registers < 32 || p->l->lane_stride != 1 || p->pairs || p->m > SELDOM_ROWS) return false;
    if (!is_stored(p->l, y->value) || ir_type(p->l->f, y->value)->dtype != p->sum) return false;
    if (lies_anywhere(p->l, y->value) || y->count[AXIS_N] != 1 || y->count[AXIS_K] != 1) return false;
    int64_t apart = y->run[AXIS_K][0].stride * 4;
    bool both = apart % (WAY_BYTES / 2) == 0 && p->x.run[AXIS_K][0].stride == 1; /* rows of x are far apart, too */
    return apart <= SELDOM_BYTES || (p->m >= SELDOM_FAR_ROWS && apart <= SELDOM_FAR_BYTES && !both);
}

/* 16-bit numbers, which are widened once for all panels that read them. */
static bool is_narrow(const struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    ir_value v = p->x.value;
    while (!l->argument[v] && (ir_get(l->f, v)->op == OP_reshape || ir_get(l->f, v)->op == OP_cast))
        v = ir_get(l->f, v)->args[0];
    enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, v)->dtype;
    return l->argument[v] && !p->pairs && p->sum == IR_F32 && (dtype == IR_BF16 || dtype == IR_F16);
}

void dot_choose_blocks(struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    bool one_part = l->axes[AXIS_K].parts == 1;
    p->outer_k = p->leaf ? UINT32_MAX : choose_outer_k(&l->axes[AXIS_K]);
    p->block_k = p->k;
    bool apart = rows_apart(p), tall_blocks = p->tall && (apart || p->shared_rows) && p->k > 2 * BLOCK_TALL;
    if (tall_blocks) {
        int64_t count = p->k / BLOCK_TALL;
        p->block_k = ((p->k + count - 1) / count + p->lanes - 1) / p->lanes * p->lanes;
    } else if (one_part && !p->leaf && p->k > LONG_K) {
        p->block_k = BLOCK_K;
        for (int64_t size = LONG_K; size >= BLOCK_K / 2; size--)
            if (p->k % size == 0) {
                p->block_k = size;
                break;
            }
    }
    p->far = l->lane_stride == 1 && one_part && is_small(p) && is_far(p);
    if (p->far && !p->leaf && p->m > p->rows && p->m <= 2 * (int64_t)p->rows && p->k > 2 * BLOCK_FAR) {
        int64_t count = p->k / BLOCK_FAR;
        p->block_k = (p->k + count - 1) / count;
    }
    p->blocks_k = p->k ? p->k / p->block_k : 0;
    p->tail_k = p->k ? p->k % p->block_k : 0;
    bool many_k = p->blocks_k + (p->tail_k > 0) > 1 || p->outer_k != UINT32_MAX;
    p->local_blocks = many_k;
    p->local_tile = many_k || (dot_epilogue_cost(p) >= COSTLY_EPILOGUE && p->rows > 1);
    int64_t all_k = l->axes[AXIS_K].extent, bytes = all_k * l->axes[AXIS_N].extent * 4;
    bool reused = p->m > 2 * (int64_t)p->rows;
    p->pack = p->columns || is_read_seldom(p)   ? false
              : p->by_columns                   ? !packed_already(p)
              : l->lane_stride != 1 || p->pairs ? p->m >= LEAST_PACKED_ROWS && !p->turned
                                                : reused && bytes > DIRECT_BYTES && all_k > 16 && !packed_already(p);
    if (!one_part && p->pack && dot_packed_k(p) * p->panel_columns * 4 > 4 * 1024 * 1024) p->pack = false;
    uint32_t nk = p->x.count[AXIS_K], nm = p->x.count[AXIS_M];
    int64_t lines = (p->rows + p->lanes - 1) / p->lanes * p->lanes;
    p->packed_rows = p->tall && p->rows * 4 >= lines * 3 ? lines : p->rows;
    bool narrow = p->narrow = is_narrow(p);
    p->pack_rows = apart && (narrow ? p->k >= LEAST_NARROW : p->k >= 64 && p->n > 2 * p->panel_columns);
    /* neighbours along k, but the rows of a tile fight for the same set */
    bool along = one_part && (p->tall || narrow) && nk == 1 && nm && distance(p, &p->x, AXIS_K, 0) == 1;
    int64_t apart_bytes = along ? distance(p, &p->x, AXIS_M, nm - 1) * (int64_t)ir_dtype_bytes(p->factor) : 0;
    bool fight = p->k >= 64 && p->n > 2 * p->panel_columns && apart_bytes % WAY_BYTES == 0 &&
                 p->rows > l->target->l1_bytes / WAY_BYTES + FEW_MORE;
    if (along && (narrow ? p->k >= LEAST_NARROW : fight)) {
        p->pack_rows = true;
        p->rows_stride = (p->block_k + p->lanes - 1) / p->lanes * p->lanes + p->lanes;
    }
}

/* ---------------------------------------------------------------- chunks and locals */

int64_t dot_balanced(int64_t all, int64_t most)
{
    int64_t best = most, least = INT64_MAX;
    for (int64_t chunk = most; chunk > 0 && chunk >= most / 2; chunk--) {
        int64_t first = (all + chunk - 1) / chunk / 2 * chunk, more = first > all - first ? first : all - first;
        if (more < least) least = more, best = chunk;
    }
    return best;
}

/* Rows whose part of x stays in the second cache beside a panel; where workers share them out, chunks enough for a
 * team, but each of them reads all panels. A panel that is packed for a chunk serves more of them. */
static int64_t chunk_of_tall(const struct lower_dot_product *p, int64_t all, bool parallel)
{
    int64_t bytes = p->by_columns ? MANY_ROWS_BYTES : p->l->target->l2_bytes / 2, least = CHUNK_ROWS / 2 / p->rows;
    int64_t most = bytes / (p->rows * (p->matrix ? p->k : p->block_k) * 4), rows = CHUNK_ROWS * (p->by_columns ? 4 : 2);
    most = most < 1 ? 1 : most * p->rows > rows ? rows / p->rows : most;
    int64_t count = (all + most - 1) / most, wanted = (all + least - 1) / least;
    wanted = wanted > TEAM_CHUNKS ? TEAM_CHUNKS : wanted > TEAM_CHUNKS / 2 ? TEAM_CHUNKS / 2 : wanted;
    /* few rows that are turned over many steps: dearer to pack for every panel than panels are for every block */
    if (p->matrix && p->pack_rows && p->x.pair != 1 && p->k > BLOCK_K && all <= FEW_BLOCKS) wanted = all;
    if (parallel && count < wanted) count = wanted;
    int64_t chunk = (all + count - 1) / count;
    return parallel ? dot_balanced(all, chunk) : chunk;
}

void dot_choose_chunks(struct lower_dot_product *p, bool parallel)
{
    int64_t all = p->blocks + (p->tail_rows > 0), most = CHUNK_ROWS / p->rows;
    most = most < 1 ? 1 : most;
    if (p->pack_rows && p->blocks_k <= 1) /* the packed rows of a chunk stay in the second cache */
        while (most > 1 && most * p->rows * p->k * 4 > 512 * 1024) most--;
    int64_t least = p->pack ? (p->l->lane_stride != 1 ? 128 : 32) / p->rows : 1; /* a packed panel serves many rows */
    p->chunk = all < most ? all : most;
    if (parallel) /* enough chunks for a team */
        while (p->chunk > 1 && p->chunk > least && (all + p->chunk - 1) / p->chunk < 16) p->chunk--;
    if (p->tall) p->chunk = chunk_of_tall(p, all, parallel);
    while (p->even && p->chunk > 1 && all % p->chunk) p->chunk--;
    if (p->chunk < 1) p->chunk = 1;
    p->chunks = (all + p->chunk - 1) / p->chunk;
}
/* Full-size tensors that the epilogue reads and writes beside the product's own store. */
static uint32_t epilogue_streams(const struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    int64_t full = ir_type_elements(ir_type(l->f, p->root));
    uint32_t count = 0;
    for (size_t i = 0; i < l->group->inputs.count; i++)
        count += l->group->input_level.items[i] == 1 &&
                 ir_type_elements(ir_type(l->f, l->group->inputs.items[i])) == full;
    return count + (uint32_t)l->group->outputs.count - 1;
}

void dot_choose_locals(struct lower_dot_product *p, bool panels_parallel)
{
    struct lower *l = p->l;
    int64_t columns = (p->n + p->lanes - 1) / p->lanes * p->lanes, rows = p->chunk * p->rows;
    if (panels_parallel) columns = p->group * p->panel_columns;
    p->by_blocks = p->tall && !p->matrix && p->blocks_k > 1 && l->axes[AXIS_N].parts == 1 &&
                   rows * columns <= WAITING_ELEMENTS;
    bool fits = !panels_parallel && l->axes[AXIS_N].parts == 1 && rows * columns * 4 <= 512 * 1024;
    bool several = p->panels + (p->tail_columns > 0) > 1;
    if (fits && several && !p->matrix && (p->local_tile || (epilogue_streams(p) >= 2 && rows > 1)))
        p->wide = p->local_tile = true;
    if (p->by_blocks) p->wide = p->local_tile = true;
    p->tile_columns = p->wide ? columns : p->panel_columns;
    if (p->leaf) {
        int64_t planes = lower_tree_levels(l->axes[AXIS_K].extent / p->leaf) + 1;
        p->tree_local = nest_local(&l->b, p->sum, planes * p->rows * p->panel_columns);
    }
    p->pack_group = p->pack && p->group > 1 && (l->lane_stride == 1 || p->chunks > 1) &&
                    (p->by_blocks || !p->local_blocks) && p->group * dot_packed_panel(p) * 4 <= GROUP_BYTES;
    p->pack_once = p->pack_group && p->chunks > 1 && (!p->by_blocks || p->chunks * rows * columns <= WAITING_ELEMENTS);
    if (p->pack) p->panel_local = nest_local(&l->b, p->factor, (p->pack_group ? p->group : 1) * dot_packed_panel(p));
    if (p->pack_rows)
        p->rows_local = nest_local(&l->b, p->factor,
                                   p->matrix        ? dot_matrix_rows(p)
                                   : p->rows_stride ? rows * p->rows_stride
                                                    : p->chunk * dot_packed_block(p));
    if (p->local_tile)
        p->tile_local = nest_local(&l->b, p->sum, (p->by_blocks ? dot_waiting_rows(p) : rows) * p->tile_columns);
}
