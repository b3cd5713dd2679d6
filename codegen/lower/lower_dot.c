/* Contractions: a register tile of `rows` x `vectors` accumulators, the shape fixed by the target and the extents.
 *
 *   parallel   one of: a batch dimension, chunks of rows, panels of columns
 *     panel    vectors * lanes columns; packed into a local where its rows are far apart or not contiguous
 *       block  of the contracted dimension, if it is long: partial tiles wait in a local
 *         tile rows; k innermost: one vector load per register column, one scalar per row, one FMA per accumulator
 *     then the element-wise work on the tile, and the store
 *
 * Large products have tall tiles (14 x 2 vectors of 32 registers, 6 x 2 of 16), as in Goto and van de Geijn, Anatomy of
 * high-performance matrix multiplication. With at least as many rows as columns the rows are shared out and y comes in
 * panels, packed once for all (fuse_panels.c); else groups of panels are, each packed by the worker that reads it. Rows
 * of x are copied for a chunk where they lie k-major or at distances that fight for the same cache sets. Long sums go
 * by blocks of k for all panels before the next block, so that what is packed of x serves all of them.
 *
 * The four axes (batch, rows m, columns n, contracted k) are linear; where an operand's dimensions are apart in memory
 * the axis is split by the machinery of positions. */
#include "codegen/lower/lower_dot.h"
#include <string.h>

/* ---------------------------------------------------------------- operands */

static void add_run(struct lower_dot_operand *o, uint32_t class, int64_t extent, int64_t stride)
{
    if (extent == 1) return;
    uint32_t n = o->count[class];
    if (n && o->run[class][n - 1].stride == extent * stride) {
        o->run[class][n - 1].extent *= extent;
        o->run[class][n - 1].stride = stride;
        return;
    }
    o->run[class][n] = (struct lower_dot_run){extent, stride};
    o->count[class]++;
}

static void describe(struct lower_dot_operand *o, const struct ir_func *f, ir_value v, uint32_t free_class,
                     struct ir_ints batch, struct ir_ints contract)
{
    const struct ir_type *type = ir_type(f, v);
    int64_t stride[IR_MAX_RANK];
    bool used[IR_MAX_RANK] = {false};
    o->value = v;
    lower_strides(type, stride);
    for (uint32_t i = 0; i < batch.n; i++) {
        add_run(o, AXIS_B, type->dim[batch.v[i]], stride[batch.v[i]]);
        used[batch.v[i]] = true;
    }
    for (uint32_t i = 0; i < contract.n; i++) {
        add_run(o, AXIS_K, type->dim[contract.v[i]], stride[contract.v[i]]);
        used[contract.v[i]] = true;
    }
    for (uint32_t i = 0; i < type->rank; i++)
        if (!used[i]) add_run(o, free_class, type->dim[i], stride[i]);
}

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
 * added in an order of their own. */
static void choose_pairs(struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    p->factor = p->sum;
    ir_value x = narrowed(l, p->x.value), y = narrowed(l, p->y.value);
    if (ir_type(l->f, x)->dtype != IR_BF16 || ir_type(l->f, y)->dtype != IR_BF16) return;
    if (!l->target->pairs || l->target->invariant || l->target->cuda) return;
    if (!is_stored(l, x) || !is_stored(l, y) || !halve(&p->x, false) || !halve(&p->y, false)) return;
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

static int64_t last_part(const struct lower *l, uint32_t axis) { return l->axes[axis].part[l->axes[axis].parts - 1]; }

/* More columns than rows: workers share the columns out and each panel of y, which may be larger than x, is packed by
 * the only one that reads it. Else it is one of few, and comes packed (fuse_panels.c). */
static void choose_way(struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    bool plain = l->axes[AXIS_B].extent == 1 && l->axes[AXIS_M].parts == 1 && l->axes[AXIS_N].parts == 1 &&
                 l->axes[AXIS_K].parts == 1 && !p->leaf && !l->target->cuda;
    p->by_columns = plain && p->n > p->m && (p->columns || (p->m >= LEAST_ROWS && p->n * p->k >= LEAST_ELEMENTS));
    p->tall = p->columns || p->shared_rows || p->by_columns;
}

static void choose_columns(struct lower_dot_product *p)
{
    p->lanes = p->l->lanes;
    p->width = p->n < p->lanes ? p->n : p->lanes;
    int64_t whole = (p->n + p->lanes - 1) / p->lanes;
    bool many = p->l->target->vector_registers >= 32;
    if (p->tall) p->vectors = (uint32_t)(cg_panel_columns(p->l->target) / p->lanes);
    else if (whole <= 3) p->vectors = (uint32_t)whole;
    else if (whole % 3 == 0) p->vectors = 3;
    else if (whole % 4 == 0 && many) p->vectors = 4;
    else p->vectors = whole % 2 == 0 ? 2 : 3;
    if (p->vectors == 0) p->vectors = 1;
    p->panel_columns = p->vectors * (int64_t)p->width;
    p->panels = p->n / p->panel_columns;
    p->tail_columns = p->n % p->panel_columns;
}

static void choose_rows(struct lower_dot_product *p)
{
    static const uint32_t most_many[] = {0, 14, 14, 9, 6}, most_few[] = {0, 10, 6, 4, 3};
    bool many = p->l->target->vector_registers >= 32;
    int64_t most = many ? most_many[p->vectors] : most_few[p->vectors];
    p->rows = (uint32_t)(p->m < most ? p->m : most);
    if (p->tall && !p->even) { /* tall ones of about one size: what is left over costs less than a short tile */
        int64_t count = (p->m + most - 1) / most;
        p->rows = (uint32_t)((p->m + count - 1) / count);
    }
    for (int64_t r = most; r > (p->even ? 1 : p->tall ? most - 2 : most / 2); r--)
        if (p->m % r == 0) {
            p->rows = (uint32_t)r;
            break;
        }
    if (p->shared_rows) p->rows = (uint32_t)ir_type(p->l->f, p->x.value)->dim[ir_type(p->l->f, p->x.value)->rank - 1];
    if (p->rows == 0) p->rows = 1;
    p->blocks = p->m / p->rows;
    p->tail_rows = p->m % p->rows;
}

static double epilogue_cost(const struct lower_dot_product *p)
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
    return p->l->argument[y->value] && p->l->lane_stride == 1 && !p->pairs && p->panels == 1 && !p->tail_columns &&
           y->count[AXIS_N] == 1 && y->count[AXIS_K] == 1 && y->run[AXIS_K][0].stride == p->n &&
           y->run[AXIS_N][0].extent == p->n && ir_type(p->l->f, y->value)->dtype == p->sum;
}

/* 16-bit numbers, widened once for all panels that read them. */
static bool is_narrow(const struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    ir_value v = p->x.value;
    while (!l->argument[v] && (ir_get(l->f, v)->op == OP_reshape || ir_get(l->f, v)->op == OP_cast))
        v = ir_get(l->f, v)->args[0];
    enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, v)->dtype;
    return l->argument[v] && !p->pairs && p->sum == IR_F32 && (dtype == IR_BF16 || dtype == IR_F16);
}

/* Rows of x that are neighbours in memory, but each step of k far away: the steps would fight for the same cache sets.
 */
static bool rows_apart(const struct lower_dot_product *p)
{
    uint32_t nk = p->x.count[AXIS_K], nm = p->x.count[AXIS_M];
    return p->l->axes[AXIS_K].parts == 1 && nk && nm && p->x.run[AXIS_M][nm - 1].stride == 1 &&
           p->x.run[AXIS_K][nk - 1].stride >= 64;
}

static void choose_blocks(struct lower_dot_product *p)
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
    p->blocks_k = p->k ? p->k / p->block_k : 0;
    p->tail_k = p->k ? p->k % p->block_k : 0;
    bool many_k = p->blocks_k + (p->tail_k > 0) > 1 || p->outer_k != UINT32_MAX;
    p->local_blocks = many_k;
    p->local_tile = many_k || (epilogue_cost(p) >= COSTLY_EPILOGUE && p->rows > 1);
    int64_t all_k = l->axes[AXIS_K].extent, bytes = all_k * l->axes[AXIS_N].extent * 4;
    bool reused = p->m > 2 * (int64_t)p->rows;
    p->pack = p->columns                        ? false
              : p->by_columns                   ? !packed_already(p)
              : l->lane_stride != 1 || p->pairs ? p->m >= 4
                                                : reused && bytes > DIRECT_BYTES && all_k > 16 && !packed_already(p);
    if (!one_part && p->pack && dot_packed_k(p) * p->panel_columns * 4 > 4 * 1024 * 1024) p->pack = false;
    uint32_t nk = p->x.count[AXIS_K], nm = p->x.count[AXIS_M];
    int64_t lines = (p->rows + p->lanes - 1) / p->lanes * p->lanes;
    p->packed_rows = p->tall && p->rows * 4 >= lines * 3 ? lines : p->rows;
    p->pack_rows = apart && p->k >= 64 && p->n > 2 * p->panel_columns;
    /* neighbours along k, but the rows of a tile fight for the same sets */
    bool narrow = is_narrow(p),
         along = one_part && (p->tall || narrow) && nk == 1 && nm && distance(p, &p->x, AXIS_K, 0) == 1;
    if (along && p->k >= 64 && p->n > (narrow ? 1 : 2) * p->panel_columns &&
        (narrow || distance(p, &p->x, AXIS_M, nm - 1) % ALIASED_ROWS == 0)) {
        p->pack_rows = true;
        p->rows_stride = (p->block_k + p->lanes - 1) / p->lanes * p->lanes + p->lanes;
    }
}

/* ---------------------------------------------------------------- loops outside the tile */

struct outer {
    uint32_t axis, part;
    int64_t extent;
};

/* The loops over whole axis parts, and which loop is the parallel one. */
static uint32_t list_outer(struct lower_dot_product *p, struct outer *list)
{
    const struct lower *l = p->l;
    uint32_t n = 0;
    for (uint32_t axis = AXIS_B; axis <= AXIS_N; axis++) {
        uint32_t parts = axis == AXIS_B ? l->axes[axis].parts : dot_last_index(l, axis);
        for (uint32_t i = 0; i < parts; i++)
            if (l->axes[axis].part[i] != 1) list[n++] = (struct outer){axis, i, l->axes[axis].part[i]};
    }
    return n;
}

/* Rows whose part of x stays in the second cache beside a panel; where workers share them out, chunks enough for a
 * team, but each of them reads all panels. A panel that is packed for a chunk serves more of them. */
static int64_t chunk_of_tall(const struct lower_dot_product *p, int64_t all, bool parallel)
{
    int64_t bytes = p->by_columns ? MANY_ROWS_BYTES : p->l->target->l2_bytes / 2, least = CHUNK_ROWS / 2 / p->rows;
    int64_t most = bytes / (p->rows * p->block_k * 4), rows = CHUNK_ROWS * (p->by_columns ? 4 : 2);
    most = most < 1 ? 1 : most * p->rows > rows ? rows / p->rows : most;
    int64_t count = (all + most - 1) / most, wanted = (all + least - 1) / least;
    wanted = wanted > TEAM_CHUNKS ? TEAM_CHUNKS : wanted > TEAM_CHUNKS / 2 ? TEAM_CHUNKS / 2 : wanted;
    if (parallel && count < wanted) count = wanted;
    return (all + count - 1) / count;
}

static void choose_chunks(struct lower_dot_product *p, bool parallel)
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
typedef void row_block(struct lower_dot_product *, uint32_t rows, const void *user);

/* ---------------------------------------------------------------- row blocks, panels */

static nest_value compare(struct lower *l, enum ir_op op, const struct lower_pos *at, int64_t with)
{
    nest_value x = lower_pos_value(l, at);
    return lower_binary(l, op, IR_BOOL, x, lower_number(l, with));
}

/* The row blocks of the chunk whose first block is at `chunk` (a position counted in blocks). */
static void each_block(struct lower_dot_product *p, const struct lower_pos *chunk, row_block *body, const void *user)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    struct lower_pos block = *chunk;
    int64_t all = p->blocks + (p->tail_rows > 0);
    bool even = all % p->chunk == 0 && p->tail_rows == 0;
    uint32_t part = dot_last_index(l, AXIS_M);
    if (p->chunk > 1)
        lower_pos_add_term(l, &block, dot_open(p, NEST_SERIAL, AXIS_M, part, p->chunk, p->rows, &p->local_row), 1);
    if (p->blocks > 0) {
        if (!even) nest_open_if(&l->b, compare(l, OP_lt, &block, p->blocks));
        body(p, p->rows, user);
        if (!even) nest_close(&l->b);
    }
    if (p->tail_rows > 0) {
        nest_open_if(&l->b, compare(l, OP_eq, &block, p->blocks));
        body(p, (uint32_t)p->tail_rows, user);
        nest_close(&l->b);
    }
    dot_return(p, &before);
}

struct panel {
    uint32_t vectors;
    bool masked, first;
    int64_t extent_k;
};

static void tile_block(struct lower_dot_product *p, uint32_t rows, const void *user)
{
    const struct panel *panel = user;
    dot_tile(p, rows, panel->vectors, panel->masked, panel->extent_k, panel->first);
}

static void finish_block(struct lower_dot_product *p, uint32_t rows, const void *user)
{
    const struct panel *panel = user;
    dot_finish_tile(p, rows, panel->vectors, panel->masked);
}

static void panel_block_k(struct lower_dot_product *p, const struct lower_pos *chunk, struct panel *panel)
{
    if (p->pack && !p->pack_group) dot_pack_panel(p, panel->vectors, panel->masked, panel->extent_k);
    if (p->pack_rows && p->local_blocks) each_block(p, chunk, dot_pack_block, &panel->extent_k);
    each_block(p, chunk, tile_block, panel);
}

static void one_panel(struct lower_dot_product *p, const struct lower_pos *chunk, uint32_t vectors, bool masked,
                      const void *user)
{
    (void)user;
    const struct lower_axis *axis = &p->l->axes[AXIS_K];
    struct lower_dot_place before = dot_place(p);
    struct panel panel = {vectors, masked, true, p->block_k};
    panel_block_k(p, chunk, &panel);
    panel.first = false;
    bool outer = p->outer_k != UINT32_MAX;
    if (outer || p->blocks_k > 1) {
        uint32_t part = outer ? p->outer_k : axis->parts - 1;
        int64_t count = outer ? axis->part[part] : p->blocks_k, unit = outer ? 1 : p->block_k;
        dot_open(p, NEST_SERIAL, AXIS_K, part, count - 1, unit, NULL);
        p->at[AXIS_K].offset += unit * lower_axis_stride(axis, part);
        panel_block_k(p, chunk, &panel);
        dot_return(p, &before);
    }
    if (p->tail_k) {
        p->at[AXIS_K].offset += p->block_k * p->blocks_k;
        panel.extent_k = p->tail_k;
        panel_block_k(p, chunk, &panel);
        dot_return(p, &before);
    }
    if (p->local_tile && !p->wide) each_block(p, chunk, finish_block, &panel);
}

/* The epilogue of whole rows. */
static void finish_rows(struct lower_dot_product *p, uint32_t rows, const void *user)
{
    (void)user;
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    dot_open(p, NEST_SERIAL, AXIS_M, dot_last_index(l, AXIS_M), rows, 1, &p->local_row);
    nest_var lane = dot_open(p, NEST_VECTOR, AXIS_N, dot_last_index(l, AXIS_N), p->n, 1, NULL);
    struct lower_dot_column c = {.vector = lane, .lane = lane};
    struct lower_pos at = dot_tile_pos(p, &c);
    dot_finish(p, nest_load(&l->b, p->tile_local, lower_pos_index(l, &at), 0));
    dot_return(p, &before);
}

typedef void panel_body(struct lower_dot_product *, const struct lower_pos *chunk, uint32_t vectors, bool masked,
                        const void *user);

static void tail_panel(struct lower_dot_product *p, const struct lower_pos *chunk, panel_body *body, const void *user)
{
    struct lower_pos n = p->at[AXIS_N];
    uint32_t vectors = (uint32_t)((p->tail_columns + p->width - 1) / p->width);
    p->at[AXIS_N].offset += p->panels * p->panel_columns;
    body(p, chunk, vectors, p->tail_columns % p->width != 0, user);
    p->at[AXIS_N] = n;
}

/* The panels of the group that begins with this one: the last group may have fewer, and the one of the columns left
 * over. */
static void each_panel_of(struct lower_dot_product *p, const struct lower_pos *chunk, const struct lower_pos *group,
                          panel_body *body, const void *user)
{
    struct lower *l = p->l;
    int64_t all = p->panels + (p->tail_columns > 0);
    bool both = p->panels > 0 && p->tail_columns > 0, some = both || all % p->group;
    struct lower_pos number = *group, tail = p->at[AXIS_N]; /* there the number is known */
    for (uint32_t i = 0; i < group->term_count; i++)
        lower_pos_add_term(l, &tail, group->term[i].var, -p->panel_columns * group->term[i].scale);
    if (p->group > 1) {
        nest_var var = dot_open(p, NEST_SERIAL, AXIS_N, dot_last_index(l, AXIS_N), p->group, p->panel_columns, NULL);
        lower_pos_add_term(l, &number, var, 1);
        if (p->pack_group) lower_pos_add_term(l, &p->local_panel, var, 1);
    }
    if (p->panels > 0) {
        if (some) nest_open_if(&l->b, compare(l, OP_lt, &number, p->panels));
        body(p, chunk, p->vectors, false, user);
        if (some) nest_close(&l->b);
    }
    if (!p->tail_columns) return;
    if (both) nest_open_if(&l->b, compare(l, OP_eq, &number, p->panels));
    p->at[AXIS_N] = tail;
    tail_panel(p, chunk, body, user);
}

/* All panels, or those of a group. */
static void each_panel(struct lower_dot_product *p, const struct lower_pos *chunk, const struct lower_pos *group,
                       panel_body *body, const void *user)
{
    struct lower_dot_place before = dot_place(p);
    if (group) {
        each_panel_of(p, chunk, group, body, user);
        p->local_panel = lower_pos_constant(0);
        dot_return(p, &before);
        return;
    }
    if (p->panels > 1)
        dot_open(p, NEST_SERIAL, AXIS_N, dot_last_index(p->l, AXIS_N), p->panels, p->panel_columns, NULL);
    if (p->panels > 0) body(p, chunk, p->vectors, false, user);
    dot_return(p, &before);
    if (p->tail_columns) tail_panel(p, chunk, body, user);
}

/* The tiles of one panel, by a block of k, in the local that keeps all of them. */
static void panel_tiles(struct lower_dot_product *p, const struct lower_pos *chunk, uint32_t vectors, bool masked,
                        const void *extent_k)
{
    struct panel panel = {vectors, masked, false, *(const int64_t *)extent_k};
    if (p->pack && !p->pack_group) dot_pack_panel(p, vectors, masked, panel.extent_k);
    each_block(p, chunk, tile_block, &panel);
}

static void panel_finish(struct lower_dot_product *p, const struct lower_pos *chunk, uint32_t vectors, bool masked,
                         const void *user)
{
    (void)user;
    struct panel panel = {vectors, masked, false, 0};
    each_block(p, chunk, finish_block, &panel);
}

static void panel_row(struct lower_dot_product *p, const struct lower_pos *chunk, uint32_t vectors, bool masked,
                      const void *user)
{
    (void)chunk, (void)user;
    dot_pack_row(p, vectors, masked);
}

/* The rows of y are read once, each as long as all panels of the group. */
static void pack_group(struct lower_dot_product *p, const struct lower_pos *chunk, const struct lower_pos *group,
                       int64_t extent_k)
{
    struct lower_dot_place before = dot_place(p);
    if (!p->pack_group) return;
    dot_open_steps(p, extent_k);
    each_panel(p, chunk, group, panel_row, NULL);
    dot_return(p, &before);
}

/* All panels by one block of k: what is packed of x serves all of them. */
static void panels_block_k(struct lower_dot_product *p, const struct lower_pos *chunk, const struct lower_pos *group,
                           int64_t extent_k)
{
    if (p->pack_rows) each_block(p, chunk, dot_pack_block, &extent_k);
    pack_group(p, chunk, group, extent_k);
    each_panel(p, chunk, group, panel_tiles, &extent_k);
}

/* k by blocks, and the panels by each of them; the tiles of all rows wait in the local, which begins with zeros. */
static void all_blocks_k(struct lower_dot_product *p, const struct lower_pos *chunk, const struct lower_pos *group)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add_term(l, &at, lower_open(l, NEST_VECTOR, p->chunk * p->rows * p->tile_columns), 1);
    nest_store(&l->b, p->tile_local, lower_pos_index(l, &at), nest_number(&l->b, p->sum, 0), 0);
    dot_return(p, &before);
    if (p->blocks_k > 1) dot_open(p, NEST_SERIAL, AXIS_K, dot_last_index(l, AXIS_K), p->blocks_k, p->block_k, NULL);
    panels_block_k(p, chunk, group, p->block_k);
    dot_return(p, &before);
    if (!p->tail_k) return;
    p->at[AXIS_K].offset += p->block_k * p->blocks_k;
    panels_block_k(p, chunk, group, p->tail_k);
    dot_return(p, &before);
}

/* All panels of one chunk of rows, or those of the group that is open as the parallel loop. */
static void all_panels(struct lower_dot_product *p, const struct lower_pos *chunk, const struct lower_pos *group)
{
    if (p->by_blocks) {
        all_blocks_k(p, chunk, group);
        if (group) each_panel(p, chunk, group, panel_finish, NULL);
        else each_block(p, chunk, finish_rows, NULL);
        return;
    }
    if (p->pack_rows && !p->local_blocks) each_block(p, chunk, dot_pack_block, &p->block_k);
    pack_group(p, chunk, group, p->block_k);
    each_panel(p, chunk, group, one_panel, NULL);
    if (p->wide) each_block(p, chunk, finish_rows, NULL);
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

static void choose_locals(struct lower_dot_product *p, bool panels_parallel)
{
    struct lower *l = p->l;
    int64_t columns = (p->n + p->lanes - 1) / p->lanes * p->lanes, rows = p->chunk * p->rows;
    if (panels_parallel) columns = p->group * p->panel_columns;
    p->by_blocks = p->tall && p->blocks_k > 1 && l->axes[AXIS_N].parts == 1 && rows * columns <= WAITING_ELEMENTS;
    bool fits = !panels_parallel && l->axes[AXIS_N].parts == 1 && rows * columns * 4 <= 512 * 1024;
    bool several = p->panels + (p->tail_columns > 0) > 1;
    if (fits && several && (p->local_tile || (epilogue_streams(p) >= 2 && rows > 1))) p->wide = p->local_tile = true;
    if (p->by_blocks) p->wide = p->local_tile = true;
    p->tile_columns = p->wide ? columns : p->panel_columns;
    if (p->leaf) {
        int64_t planes = lower_tree_levels(l->axes[AXIS_K].extent / p->leaf) + 1;
        p->tree_local = nest_local(&l->b, p->sum, planes * p->rows * p->panel_columns);
    }
    p->pack_group = p->pack && p->group > 1 && l->lane_stride == 1 && (p->by_blocks || !p->local_blocks) &&
                    p->group * dot_packed_panel(p) * 4 <= GROUP_BYTES;
    if (p->pack) p->panel_local = nest_local(&l->b, p->factor, (p->pack_group ? p->group : 1) * dot_packed_panel(p));
    if (p->pack_rows)
        p->rows_local = nest_local(&l->b, p->factor,
                                   p->rows_stride ? rows * p->rows_stride : p->chunk * dot_packed_block(p));
    if (p->local_tile) p->tile_local = nest_local(&l->b, p->sum, rows * p->tile_columns);
}

static void loops(struct lower_dot_product *p)
{
    struct lower *l = p->l;
    struct outer list[4 * AXIS_PARTS];
    uint32_t count = list_outer(p, list), best = UINT32_MAX;
    int64_t all_panels_count = p->panels + (p->tail_columns > 0), groups = all_panels_count;
    choose_chunks(p, true);
    int64_t largest = 1;
    for (uint32_t i = 0; i < count; i++)
        if (list[i].extent > largest) largest = list[best = i].extent;
    bool chunks_parallel = p->chunks > 1 && (p->chunks >= largest || largest < 8) &&
                           (p->chunks >= 4 || p->chunks >= all_panels_count);
    if (p->by_columns) chunks_parallel = false;
    bool panels_parallel = !chunks_parallel && all_panels_count > 1 && largest < 4 && all_panels_count >= largest;
    /* a group reads all of x: not fewer than 8 panels, where there are so many */
    int64_t team = all_panels_count < 8 * TEAM_CHUNKS ? TEAM_CHUNKS / 2 : TEAM_CHUNKS;
    p->group = panels_parallel && p->by_columns ? (all_panels_count + team - 1) / team : 1;
    groups = (all_panels_count + p->group - 1) / p->group;
    if (!chunks_parallel) choose_chunks(p, false);
    if (chunks_parallel || panels_parallel) best = UINT32_MAX;
    choose_locals(p, panels_parallel);
    struct lower_pos chunk = lower_pos_constant(0), panel = lower_pos_constant(0);
    l->b.nest->parallel_extent = 1;
    if (best != UINT32_MAX) {
        dot_open(p, NEST_PARALLEL, list[best].axis, list[best].part, list[best].extent, 1, NULL);
        l->b.nest->parallel_extent = list[best].extent;
    } else if (panels_parallel) {
        uint32_t part = dot_last_index(l, AXIS_N);
        nest_var var = dot_open(p, NEST_PARALLEL, AXIS_N, part, groups, p->group * p->panel_columns, NULL);
        lower_pos_add_term(l, &panel, var, p->group);
        lower_pos_add_term(l, &p->group_start, var, p->group * p->panel_columns);
        l->b.nest->parallel_extent = groups;
    }
    if (p->chunks > 1) {
        nest_var var = dot_open(p, chunks_parallel ? NEST_PARALLEL : NEST_SERIAL, AXIS_M, dot_last_index(l, AXIS_M),
                                p->chunks, p->chunk * p->rows, NULL);
        lower_pos_add_term(l, &chunk, var, p->chunk);
        if (chunks_parallel) l->b.nest->parallel_extent = p->chunks;
    }
    for (uint32_t i = 0; i < count; i++)
        if (i != best) dot_open(p, NEST_SERIAL, list[i].axis, list[i].part, list[i].extent, 1, NULL);
    all_panels(p, &chunk, panels_parallel ? &panel : NULL);
    nest_close_to(&l->b, 0);
}

/* ---------------------------------------------------------------- the template */

static int64_t class_extent(const struct lower_dot_operand *o, uint32_t class)
{
    int64_t extent = 1;
    for (uint32_t i = 0; i < o->count[class]; i++) extent *= o->run[class][i].extent;
    return extent;
}

/* The distance in memory between neighbouring columns of y, found by walking to it once. */
static bool probe(struct lower_dot_product *p)
{
    struct lower *l = p->l;
    if (l->probed) return false;
    l->probed = true;
    if (p->columns) { /* neighbours in a panel */
        l->lane_stride = 1;
        return false;
    }
    l->probe_var = dot_open(p, NEST_VECTOR, AXIS_N, dot_last_index(l, AXIS_N), p->n, 1, NULL);
    l->probing = true, l->lane_stride = p->n > 1 ? 0 : 1;
    dot_operand_value(p, &p->y);
    l->probing = false;
    nest_close(&l->b);
    l->retry = true;
    return true;
}

/* Where k is more than one leaf: its parts have to meet at their borders. False: the lowering starts over. */
static bool find_leaves(struct lower_dot_product *p, const struct ir_node *node)
{
    struct lower_axis *k = &p->l->axes[AXIS_K];
    if (!node->attr[4].n || !k->extent) return true;
    int64_t leaf = node->attr[4].v[0], inside = 1;
    for (uint32_t i = 1; i < node->attr[2].n; i++) leaf *= ir_type(p->l->f, node->args[0])->dim[node->attr[2].v[i]];
    if (leaf == k->extent) return true;
    p->leaf = leaf;
    if (lower_tree_levels(k->extent / leaf) > LOWER_TREE_LEVELS)
        lower_fail(p->l, p->root, "a contraction in a fixed order over that many steps");
    uint32_t i = k->parts;
    while (i > 0 && leaf % (inside * k->part[i - 1]) == 0) inside *= k->part[--i];
    int64_t rest = leaf / inside;
    if (i > 0 && k->part[i - 1] % rest == 0) return true;
    *k = (struct lower_axis){.extent = k->extent, .parts = 2, .part = {k->extent / leaf, leaf}};
    p->l->retry = true;
    return false;
}

static void fill_gemm(const struct lower_dot_product *p, struct cg_gemm *g)
{
    const struct lower *l = p->l;
    if (p->dtype != IR_F32 || p->columns || p->shared_rows || l->group->outputs.count != 1 ||
        l->group->outputs.items[0] != p->root || l->group->nodes.count != 1 || !l->argument[p->x.value] ||
        !l->argument[p->y.value])
        return;
    for (uint32_t class = 0; class < 4; class ++)
        if (p->x.count[class] > 1 || p->y.count[class] > 1) return;
    const struct lower_dot_run *xm = p->x.count[AXIS_M] ? &p->x.run[AXIS_M][0] : NULL,
                               *xk = p->x.count[AXIS_K] ? &p->x.run[AXIS_K][0] : NULL;
    const struct lower_dot_run *yn = p->y.count[AXIS_N] ? &p->y.run[AXIS_N][0] : NULL,
                               *yk = p->y.count[AXIS_K] ? &p->y.run[AXIS_K][0] : NULL;
    if (!xm || !xk || !yn || !yk || (xm->stride != 1 && xk->stride != 1) || (yn->stride != 1 && yk->stride != 1))
        return;
    *g = (struct cg_gemm){.valid = true, .m = xm->extent, .n = yn->extent, .k = xk->extent};
    g->trans_a = xk->stride != 1;
    g->trans_b = yn->stride != 1;
    g->lda = g->trans_a ? xk->stride : xm->stride;
    g->ldb = g->trans_b ? yn->stride : yk->stride;
    g->ldc = g->n;
    g->batch = class_extent(&p->x, AXIS_B);
    g->stride_a = p->x.count[AXIS_B] ? p->x.run[AXIS_B][0].stride : 0;
    g->stride_b = p->y.count[AXIS_B] ? p->y.run[AXIS_B][0].stride : 0;
    g->stride_c = g->m * g->n;
    g->a = l->argument[p->x.value] - 1;
    g->b = l->argument[p->y.value] - 1;
    g->c = lower_argument_of_output(l, 0);
}

void lower_dot(struct lower *l, struct cg_gemm *gemm)
{
    struct lower_dot_product p;
    memset(&p, 0, sizeof p);
    p.l = l;
    p.root = l->group->root;
    const struct ir_node *node = ir_get(l->f, p.root);
    p.dtype = (enum ir_dtype)node->type.dtype;
    p.sum = p.dtype == IR_F16 || p.dtype == IR_BF16 ? IR_F32 : p.dtype;
    describe(&p.x, l->f, node->args[0], AXIS_M, node->attr[0], node->attr[2]);
    describe(&p.y, l->f, node->args[1], AXIS_N, node->attr[1], node->attr[3]);
    p.columns = node->attr[5].n ? node->attr[5].v[0] : 0;
    p.shared_rows = node->attr[5].n > 1 ? node->attr[5].v[1] : 0;
    choose_pairs(&p);
    if (l->axis_count == 0) {
        int64_t extent[4] = {class_extent(&p.x, AXIS_B), p.shared_rows ? p.shared_rows : class_extent(&p.x, AXIS_M),
                             p.columns ? p.columns : class_extent(&p.y, AXIS_N), class_extent(&p.x, AXIS_K)};
        l->axis_count = 4;
        for (uint32_t i = 0; i < 4; i++)
            l->axes[i] = (struct lower_axis){.extent = extent[i], .parts = 1, .part = {extent[i]}};
        if (!node->attr[4].n && !p.pairs) dot_find_parts(&p);
    }
    if (!find_leaves(&p, node)) return;
    p.m = last_part(l, AXIS_M), p.n = last_part(l, AXIS_N), p.k = last_part(l, AXIS_K);
    if (probe(&p)) return;
    p.even = !l->argument[p.x.value] && (l->axes[AXIS_M].parts > 1 || l->axes[AXIS_K].parts > 1);
    choose_way(&p);
    choose_columns(&p);
    if (p.even && !p.leaf && !p.columns) {
        dot_parts(&p);
    } else {
        choose_rows(&p);
        choose_blocks(&p);
        loops(&p);
    }
    double flops = 2.0 * (double)l->axes[AXIS_B].extent * (double)l->axes[AXIS_M].extent *
                   (double)l->axes[AXIS_N].extent;
    l->b.nest->work = flops * (double)l->axes[AXIS_K].extent / 2 + flops / 2 * epilogue_cost(&p);
    fill_gemm(&p, gemm);
}
