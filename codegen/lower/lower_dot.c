/* Contractions: a register tile of `rows` x `vectors` accumulators, the shape fixed by the target and the extents.
 *
 *   parallel   one of: a batch dimension, chunks of rows, panels of columns
 *     panel    vectors * lanes columns; packed into a local where its rows are far apart or not contiguous
 *       block  of the contracted dimension, if it is long: partial tiles wait in a local
 *         tile rows; k innermost: one vector load per register column, one scalar per row, one FMA per accumulator
 *     then the element-wise work on the tile, and the store
 *
 * The shape of all this is chosen in lower_dot_shape.c.
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
    (p->matrix ? dot_matrix_tile : dot_tile)(p, rows, panel->vectors, panel->masked, panel->extent_k, panel->first);
}

static void finish_block(struct lower_dot_product *p, uint32_t rows, const void *user)
{
    const struct panel *panel = user;
    dot_finish_tile(p, rows, panel->vectors, panel->masked);
}

/* Rows of x of a chunk: those that lie k-major step by step, so that what is read together lies together. */
static void pack_chunk(struct lower_dot_product *p, const struct lower_pos *chunk, int64_t extent_k)
{
    struct lower_dot_place before = dot_place(p);
    bool by_steps = !p->rows_stride;
    if (by_steps) dot_open_steps(p, extent_k);
    each_block(p, chunk, dot_pack_block, by_steps ? NULL : &extent_k);
    dot_return(p, &before);
}

static void panel_block_k(struct lower_dot_product *p, const struct lower_pos *chunk, struct panel *panel)
{
    if (p->pack && !p->pack_group) dot_pack_panel(p, panel->vectors, panel->masked, panel->extent_k);
    if (p->pack_rows && p->local_blocks && !p->matrix) pack_chunk(p, chunk, panel->extent_k);
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

static bool is_counter(const struct lower_pos *p)
{
    return !p->offset && !p->scaled_count && p->term_count == 1 && p->term[0].scale == 1;
}

/* The panels of the group that begins with this one: the last group may have fewer, and the one of the columns left
 * over. Of whole panels, where one variable counts them, none reaches the end of a row, so that no column is found by
 * division. */
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
        bool counts = some && is_counter(&number);
        int64_t extent = counts ? l->vars.items[number.term[0].var].extent : 0;
        if (counts) l->vars.items[number.term[0].var].extent = p->panels;
        body(p, chunk, p->vectors, false, user);
        if (counts) l->vars.items[number.term[0].var].extent = extent;
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

static void panel_packed(struct lower_dot_product *p, const struct lower_pos *chunk, uint32_t vectors, bool masked,
                         const void *extent_k)
{
    (void)chunk;
    dot_pack_panel(p, vectors, masked, *(const int64_t *)extent_k);
}

/* The rows of y are read once, each as long as all panels of the group; where its columns are rows in memory, these are
 * as long as a panel. */
static void pack_group(struct lower_dot_product *p, const struct lower_pos *chunk, const struct lower_pos *group,
                       int64_t extent_k)
{
    struct lower_dot_place before = dot_place(p);
    bool turned = p->l->lane_stride != 1;
    if (!p->pack_group) return;
    if (!turned) dot_open_steps(p, extent_k);
    each_panel(p, chunk, group, turned ? panel_packed : panel_row, &extent_k);
    dot_return(p, &before);
}

/* Goes to one chunk after the other: of tiles that wait, all do. */
static void open_chunks(struct lower_dot_product *p, enum nest_loop loop, struct lower_pos *chunk)
{
    if (p->chunks <= 1) return;
    nest_var var = dot_open(p, loop, AXIS_M, dot_last_index(p->l, AXIS_M), p->chunks, p->chunk * p->rows, NULL);
    lower_pos_add_term(p->l, chunk, var, p->chunk);
    if (p->pack_once && p->by_blocks) lower_pos_add_term(p->l, &p->chunk_row, var, p->chunk * p->rows);
}

static void close_chunks(struct lower_dot_product *p, const struct lower_dot_place *before)
{
    dot_return(p, before);
    p->chunk_row = lower_pos_constant(0);
}

/* All panels by one block of k: what is packed of x serves all of them. */
static void panels_block_k(struct lower_dot_product *p, struct lower_pos chunk, const struct lower_pos *group,
                           int64_t extent_k)
{
    pack_group(p, &chunk, group, extent_k);
    struct lower_dot_place before = dot_place(p);
    if (p->pack_once) open_chunks(p, NEST_SERIAL, &chunk);
    if (p->pack_rows) pack_chunk(p, &chunk, extent_k);
    each_panel(p, &chunk, group, panel_tiles, &extent_k);
    close_chunks(p, &before);
}

/* k by blocks, and the panels by each of them; the tiles of all rows wait in the local, which begins with zeros. */
static void all_blocks_k(struct lower_dot_product *p, const struct lower_pos *chunk, const struct lower_pos *group)
{
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add_term(l, &at, lower_open(l, NEST_VECTOR, dot_waiting_rows(p) * p->tile_columns), 1);
    nest_store(&l->b, p->tile_local, lower_pos_index(l, &at), nest_number(&l->b, p->sum, 0), 0);
    dot_return(p, &before);
    if (p->blocks_k > 1) dot_open(p, NEST_SERIAL, AXIS_K, dot_last_index(l, AXIS_K), p->blocks_k, p->block_k, NULL);
    panels_block_k(p, *chunk, group, p->block_k);
    dot_return(p, &before);
    if (!p->tail_k) return;
    p->at[AXIS_K].offset += p->block_k * p->blocks_k;
    panels_block_k(p, *chunk, group, p->tail_k);
    dot_return(p, &before);
}

/* All panels of one chunk of rows, or those of the group that is open as the parallel loop. */
static void all_panels(struct lower_dot_product *p, struct lower_pos chunk, const struct lower_pos *group)
{
    if (p->by_blocks) all_blocks_k(p, &chunk, group);
    else pack_group(p, &chunk, group, p->block_k);
    struct lower_dot_place before = dot_place(p);
    if (p->pack_once) open_chunks(p, NEST_SERIAL, &chunk);
    if (p->by_blocks) {
        if (group) each_panel(p, &chunk, group, panel_finish, NULL);
        else each_block(p, &chunk, finish_rows, NULL);
    } else {
        if (p->pack_rows && p->matrix) each_block(p, &chunk, dot_pack_matrix, NULL);
        else if (p->pack_rows && !p->local_blocks) pack_chunk(p, &chunk, p->block_k);
        each_panel(p, &chunk, group, one_panel, NULL);
        if (p->wide) each_block(p, &chunk, finish_rows, NULL);
    }
    close_chunks(p, &before);
}

static void loops(struct lower_dot_product *p)
{
    struct lower *l = p->l;
    struct outer list[4 * AXIS_PARTS];
    uint32_t count = list_outer(p, list), best = UINT32_MAX;
    int64_t all_panels_count = p->panels + (p->tail_columns > 0), groups = all_panels_count;
    dot_choose_chunks(p, true);
    int64_t largest = 1;
    for (uint32_t i = 0; i < count; i++)
        if (list[i].extent > largest) largest = list[best = i].extent;
    bool chunks_parallel = p->chunks > 1 && (p->chunks >= largest || largest < 8) &&
                           (p->chunks >= 4 || p->chunks >= all_panels_count);
    bool packs = p->pack && !p->tall && all_panels_count >= 4; /* each chunk of rows would pack all panels again */
    if (p->by_columns || packs || (p->matrix && l->axes[AXIS_B].extent >= 4)) chunks_parallel = false;
    bool panels_parallel = !chunks_parallel && all_panels_count > 1 && largest < 4 && all_panels_count >= largest;
    /* a group reads all of x: not fewer than 8 panels, where there are so many */
    int64_t team = all_panels_count < 8 * TEAM_CHUNKS ? TEAM_CHUNKS / 2 : TEAM_CHUNKS;
    if (p->pack_rows && all_panels_count < 2 * TEAM_CHUNKS) team = TEAM_CHUNKS / 4; /* or packs */
    bool grouped = p->by_columns && (panels_parallel || best != UINT32_MAX);
    if (grouped && !panels_parallel) { /* a worker has whole products: as many panels as are packed at a time */
        int64_t most = GROUP_BYTES / 4 / (dot_packed_k(p) * p->panel_columns + PACKED_APART);
        if (most < 1) most = 1;
        team = (all_panels_count + most - 1) / most;
    }
    p->group = grouped ? (all_panels_count + team - 1) / team : 1;
    bool fits = p->group * dot_packed_k(p) * p->panel_columns * 4 <= l->target->l2_bytes;
    if (panels_parallel || !fits) p->group = dot_balanced(all_panels_count, p->group); /* else rows of y in one piece */
    if (panels_parallel && p->group == 1 && !p->rows_stride && !p->narrow) p->pack_rows = false; /* for one panel */
    groups = (all_panels_count + p->group - 1) / p->group;
    if (!chunks_parallel) dot_choose_chunks(p, false);
    if (chunks_parallel || panels_parallel) best = UINT32_MAX;
    dot_choose_locals(p, panels_parallel || grouped);
    struct lower_pos chunk = lower_pos_constant(0), panel = lower_pos_constant(0);
    l->b.nest->parallel_extent = 1;
    if (best != UINT32_MAX) {
        dot_open(p, NEST_PARALLEL, list[best].axis, list[best].part, list[best].extent, 1, NULL);
        l->b.nest->parallel_extent = list[best].extent;
    }
    if (panels_parallel || (grouped && groups > 1)) {
        uint32_t part = dot_last_index(l, AXIS_N);
        enum nest_loop loop = panels_parallel ? NEST_PARALLEL : NEST_SERIAL;
        nest_var var = dot_open(p, loop, AXIS_N, part, groups, p->group * p->panel_columns, NULL);
        lower_pos_add_term(l, &panel, var, p->group);
        lower_pos_add_term(l, &p->group_start, var, p->group * p->panel_columns);
        if (panels_parallel) l->b.nest->parallel_extent = groups;
    }
    if (!p->pack_once) open_chunks(p, chunks_parallel ? NEST_PARALLEL : NEST_SERIAL, &chunk);
    if (chunks_parallel) l->b.nest->parallel_extent = p->chunks;
    for (uint32_t i = 0; i < count; i++)
        if (i != best) dot_open(p, NEST_SERIAL, list[i].axis, list[i].part, list[i].extent, 1, NULL);
    all_panels(p, chunk, panels_parallel || grouped ? &panel : NULL);
    nest_close_to(&l->b, 0);
}

/* ---------------------------------------------------------------- the template */

static int64_t last_part(const struct lower *l, uint32_t axis) { return l->axes[axis].part[l->axes[axis].parts - 1]; }

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
    l->probed = !l->retry; /* columns that were split meanwhile are walked again */
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
    struct plan_product of;
    bool narrow = l->target->cuda && (p->dtype == IR_BF16 || p->dtype == IR_F16);
    if ((p->dtype != IR_F32 && !narrow) || p->pairs || l->group->outputs.count != 1 ||
        l->group->outputs.items[0] != p->root || l->group->nodes.count != 1 || !l->argument[p->x.value] ||
        !l->argument[p->y.value] || !plan_product_of(l->f, p->root, &of))
        return;
    *g = (struct cg_gemm){.valid = true, .m = of.m, .n = of.n, .k = of.k, .dtype = (uint8_t)p->dtype};
    g->trans_a = of.trans_a, g->trans_b = of.trans_b;
    g->lda = of.lda, g->ldb = of.ldb, g->ldc = of.n;
    g->batch = of.batch;
    g->stride_a = of.stride_a, g->stride_b = of.stride_b, g->stride_c = of.m * of.n;
    g->a = l->argument[p->x.value] - 1;
    g->b = l->argument[p->y.value] - 1;
    g->c = lower_argument_of_output(l, 0);
}

/* Chooses the shape, and makes the loops. False: the lowering starts over. */
static bool tiles(struct lower_dot_product *p)
{
    struct lower *l = p->l;
    p->m = last_part(l, AXIS_M), p->n = last_part(l, AXIS_N), p->k = last_part(l, AXIS_K);
    if (probe(p)) return false;
    bool parts = l->axes[AXIS_M].parts > 1 || l->axes[AXIS_K].parts > 1 || dot_has_images(p);
    p->even = !l->argument[p->x.value] && parts;
    p->matrix = dot_wants_matrix(p);
    dot_choose_way(p);
    dot_choose_columns(p);
    if (p->even && !p->leaf && !p->columns) {
        dot_parts(p);
    } else {
        dot_choose_rows(p);
        dot_choose_blocks(p);
        if (p->matrix) dot_choose_matrix(p);
        loops(p);
    }
    return true;
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
    p.rows_first = node->attr[6].n != 0;
    p.shared_rows = node->attr[5].n > 1 ? node->attr[5].v[1] : 0;
    dot_choose_pairs(&p);
    if (l->axis_count == 0) {
        int64_t extent[4] = {class_extent(&p.x, AXIS_B), p.shared_rows ? p.shared_rows : class_extent(&p.x, AXIS_M),
                             p.columns ? p.columns : class_extent(&p.y, AXIS_N), class_extent(&p.x, AXIS_K)};
        l->axis_count = 4;
        for (uint32_t i = 0; i < 4; i++)
            l->axes[i] = (struct lower_axis){.extent = extent[i], .parts = 1, .part = {extent[i]}};
        if (!node->attr[4].n && !dot_wants_grid(&p)) dot_find_parts(&p);
    }
    if (!find_leaves(&p, node)) return;
    if (dot_wants_grid(&p)) dot_grid(&p);
    else if (!dot_by_groups(&p) && !tiles(&p)) return;
    double flops = 2.0 * (double)l->axes[AXIS_B].extent * (double)l->axes[AXIS_M].extent *
                   (double)l->axes[AXIS_N].extent;
    l->b.nest->work = flops * (double)l->axes[AXIS_K].extent / 2 + flops / 2 * dot_epilogue_cost(&p);
    fill_gemm(&p, gemm);
}
