/* Contractions that read a view whose rows, or steps of k, are apart in memory: the taps of a convolution, where they
 * stand in the image. An axis then has parts (lines of the image, taps); a tile stays inside the last one, and what is
 * left at its end is a tile of its own, so that every address is a constant away from one that a loop carries.
 *
 *   parallel   leading parts of the rows, or row blocks of the last part, or panels
 *     panel    packed once, where it is read often
 *       block  of the leading parts of k, if the panel would not stay in the second cache: tiles wait in a local
 *         other parts of the rows, row blocks, the ragged one
 *
 * Where all tiles of a chunk may wait in the second cache, blocks are outside and panels inside (`wide`).
 */
#include "codegen/lower/lower_dot.h"
#include <string.h>

enum {
    LEAST_STEPS = 96, /* of k between two visits to a tile that waits */
    LEAST_PARALLEL = 16,
    LEAST_PACKED = 192 /* rows that a packed panel serves, or panels are shared out instead */
};

struct parts {
    struct lower_dot_product *p;
    uint32_t vectors; /* of the open panel */
    bool masked;
    uint32_t outer; /* the part of the rows whose steps are shared out; UINT32_MAX: none */
    bool by_blocks; /* row blocks are: `block` counts chunks of them */
    int64_t chunk;  /* steps, or row blocks, that a worker takes at once */
    int64_t rest;   /* row blocks that are left over: a chunk of their own */
    nest_var block;
    int64_t rows[2]; /* of a tile, and of one of the last panel */
};
typedef void rows_body(struct parts *, uint32_t rows);
typedef void panel_body(struct parts *);

/* ---------------------------------------------------------------- the tile */

/* Are rows, not steps, neighbours in the tensor? */
static bool is_by_steps(const struct lower_dot_product *p)
{
    uint32_t runs = p->x.count[AXIS_K];
    return runs && p->x.run[AXIS_K][runs - 1].stride != (p->pairs ? 2 : 1);
}

bool dot_has_images(const struct lower_dot_product *p)
{
    const struct lower_dot_operand *x = &p->x;
    return x->count[AXIS_B] == 1 && lower_taps_of(p->l, x->value) && is_by_steps(p) &&
           x->run[AXIS_B][0].stride * x->run[AXIS_B][0].extent == ir_type_elements(ir_type(p->l->f, x->value));
}

static void set_rows(struct lower_dot_product *p, int64_t rows)
{
    p->rows = (uint32_t)rows;
    p->blocks = p->m / rows;
    p->tail_rows = p->m % rows;
}

/* By what all tiles cost: the last panel, of what is left over, has rows of its own. */
static void choose_tile(struct parts *o)
{
    struct lower_dot_product *p = o->p;
    int64_t whole = (p->n + p->lanes - 1) / p->lanes;
    double best = 0;
    for (int64_t vectors = whole < 4 ? whole : 4; vectors > 0; vectors--) {
        double cost, last = 0;
        int64_t rows = dot_rows_of_small(p, vectors, RAGGED, &cost), rest = whole % vectors;
        int64_t last_rows = rest ? dot_rows_of_small(p, rest, LAST_RAGGED, &last) : rows;
        cost = cost * (double)(whole / vectors) + last;
        if (best > 0 && cost >= best) continue;
        best = cost;
        p->vectors = (uint32_t)vectors, o->rows[0] = rows, o->rows[1] = last_rows;
    }
    p->panel_columns = p->vectors * p->width;
    p->panels = p->n / p->panel_columns;
    p->tail_columns = p->n % p->panel_columns;
    set_rows(p, o->rows[0]);
}

/* ---------------------------------------------------------------- rows */

static int64_t inside(const struct parts *o, uint32_t part)
{
    const struct lower_axis *m = &o->p->l->axes[AXIS_M];
    return part == o->outer ? o->chunk : part + 1 == m->parts ? 1 : m->part[part];
}

static int64_t local_rows(const struct parts *o)
{
    return o->by_blocks ? o->chunk * (int64_t)o->p->rows + o->p->tail_rows : o->p->m;
}

static void open_rows_parts(struct parts *o)
{
    struct lower_dot_product *p = o->p;
    const struct lower_axis *m = &p->l->axes[AXIS_M];
    for (uint32_t i = 0; i + 1 < m->parts; i++) {
        int64_t stride = local_rows(o);
        for (uint32_t k = i + 1; k < m->parts; k++) stride *= inside(o, k);
        if (inside(o, i) > 1)
            lower_pos_add_term(p->l, &p->local_row, dot_open(p, NEST_SERIAL, AXIS_M, i, inside(o, i), 1, NULL), stride);
    }
}

/* A loop that counts `whole` pieces of an axis and one that is shorter: the body for the ones, and for the other. What
 * is known of the variable in the one branch keeps positions exact. */
struct cut {
    uint32_t axis;
    nest_var var;
    int64_t whole, unit;
    bool rest;
};

static bool open_cut(struct lower_dot_product *p, const struct cut *c, bool of_rest)
{
    struct lower *l = p->l;
    if (of_rest ? !c->rest : !c->whole) return false;
    if (!c->rest) return true;
    if (!c->whole) return true; /* the only one */
    nest_open_if(&l->b, lower_compare(l, of_rest ? OP_eq : OP_lt, c->var, c->whole));
    if (of_rest) {
        lower_pos_add_term(l, &p->at[c->axis], c->var,
                           -c->unit * lower_axis_stride(&l->axes[c->axis], dot_last_index(l, c->axis)));
        p->at[c->axis].offset += c->unit * c->whole;
    } else l->vars.items[c->var].extent = c->whole;
    return true;
}

static void close_cut(struct lower_dot_product *p, const struct cut *c, const struct lower_dot_place *before)
{
    if (c->rest && c->whole) p->l->vars.items[c->var].extent = c->whole + 1;
    dot_return(p, before);
}

/* Row blocks of the last part, or those of the open chunk; the last of all may be shorter. */
static void each_rows(struct parts *o, rows_body *body)
{
    struct lower_dot_product *p = o->p;
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    uint32_t last = dot_last_index(l, AXIS_M);
    int64_t blocks = o->by_blocks ? o->chunk : p->blocks, rows = blocks * p->rows, chunks = p->blocks / blocks;
    open_rows_parts(o);
    struct lower_dot_place inside = dot_place(p);
    if (o->rest) {
        nest_open_if(&l->b, lower_compare(l, OP_lt, o->block, chunks));
        l->vars.items[o->block].extent = chunks;
    }
    if (blocks > 1) dot_open(p, NEST_SERIAL, AXIS_M, last, blocks, p->rows, &p->local_row);
    body(o, p->rows);
    dot_return(p, &inside);
    if (o->rest) l->vars.items[o->block].extent = chunks + 1;
    if (o->by_blocks && o->rest + p->tail_rows > 0) {
        nest_open_if(&l->b, lower_compare(l, OP_eq, o->block, o->rest ? chunks : chunks - 1));
        lower_pos_add_term(l, &p->at[AXIS_M], o->block, -rows);
    }
    p->at[AXIS_M].offset += chunks * rows;
    p->local_row.offset += o->rest ? 0 : rows;
    if (o->rest) {
        inside = dot_place(p);
        if (o->rest > 1) dot_open(p, NEST_SERIAL, AXIS_M, last, o->rest, p->rows, &p->local_row);
        body(o, p->rows);
        dot_return(p, &inside);
        p->at[AXIS_M].offset += o->rest * p->rows;
        p->local_row.offset += o->rest * p->rows;
    }
    if (p->tail_rows > 0) body(o, (uint32_t)p->tail_rows);
    dot_return(p, &before);
}

static void tile(struct parts *o, uint32_t rows)
{
    dot_tile(o->p, rows, o->vectors, o->masked, o->p->k, !o->p->local_tile);
}

static void clear(struct parts *o, uint32_t rows)
{
    struct lower_dot_product *p = o->p;
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add(l, &at, &p->local_row, p->tile_columns);
    lower_pos_add_term(l, &at, lower_open(l, NEST_VECTOR, rows * p->tile_columns), 1);
    nest_store(&l->b, p->tile_local, lower_pos_index(l, &at), nest_number(&l->b, p->sum, 0), 0);
    dot_return(p, &before);
}

static void finish(struct parts *o, uint32_t rows) { dot_finish_tile(o->p, rows, o->vectors, o->masked); }

/* ---------------------------------------------------------------- panels */

static void open_panel(struct parts *o, bool rest)
{
    struct lower_dot_product *p = o->p;
    o->vectors = rest ? (uint32_t)((p->tail_columns + p->width - 1) / p->width) : p->vectors;
    o->masked = rest && p->tail_columns % p->width != 0;
    set_rows(p, o->rows[rest]);
}

static void all_panels(struct parts *o, const nest_var *shared, panel_body *body)
{
    struct lower_dot_product *p = o->p;
    struct lower_dot_place before = dot_place(p);
    struct cut c = {AXIS_N, shared ? *shared : 0, p->panels, p->panel_columns, p->tail_columns > 0};
    for (int rest = 0; rest < 2; rest++) {
        if (shared ? !open_cut(p, &c, rest) : rest ? !p->tail_columns : !p->panels) continue;
        if (!shared && !rest && p->panels > 1)
            dot_open(p, NEST_SERIAL, AXIS_N, dot_last_index(p->l, AXIS_N), p->panels, p->panel_columns, NULL);
        if (!shared && rest) p->at[AXIS_N].offset += p->panels * p->panel_columns;
        open_panel(o, rest);
        body(o);
        if (shared) close_cut(p, &c, &before);
        else dot_return(p, &before);
    }
}

static void add_block(struct parts *o)
{
    if (o->p->pack) dot_pack_panel(o->p, o->vectors, o->masked, o->p->k);
    each_rows(o, tile);
}

static void finish_panel(struct parts *o) { each_rows(o, finish); }

/* The open panel by one block of k after the other, or all panels by each block: lines of x then come to the cache
 * once. */
static void all_blocks(struct parts *o)
{
    struct lower_dot_product *p = o->p;
    const struct lower_axis *k = &p->l->axes[AXIS_K];
    struct lower_dot_place before = dot_place(p);
    if (p->local_tile) each_rows(o, clear);
    for (uint32_t i = 0; i < p->outer_parts; i++)
        if (k->part[i] > 1) dot_open(p, NEST_SERIAL, AXIS_K, i, k->part[i], 1, NULL);
    if (p->wide) all_panels(o, NULL, add_block);
    else add_block(o);
    dot_return(p, &before);
    if (p->wide) all_panels(o, NULL, finish_panel);
    else if (p->local_tile) finish_panel(o);
}

/* ---------------------------------------------------------------- parts */

static void set_parts(struct lower_axis *axis, const int64_t *part, uint32_t count)
{
    int64_t all = 1;
    for (uint32_t i = 0; i < count; i++) all *= part[i];
    if (all != axis->extent || count > AXIS_PARTS) return;
    memcpy(axis->part, part, count * sizeof *part);
    axis->parts = count;
}

/* Takes from lines of the image those that batches are made of, the first ones. False: batches are something else. Of
 * groups that share a vector these are the last part, and batches that are something else one before it. */
static bool take_batches(struct lower_dot_product *p, int64_t *line, uint32_t *lines)
{
    int64_t groups = dot_group_count(p), rest = p->l->axes[AXIS_B].extent / groups, part[IR_MAX_RANK + 1];
    uint32_t count = 0, kept = 0;
    if (!p->x.count[AXIS_B]) return true;
    if (groups == 1 && !dot_has_images(p)) return false;
    while (count < *lines && rest % line[count] == 0) part[count] = line[count], rest /= line[count], count++;
    bool whole = rest == 1 || (count < *lines && line[count] % rest == 0);
    if (!whole && groups == 1) return false;
    if (!whole) rest = p->l->axes[AXIS_B].extent / groups, count = *lines = 0;
    else if (rest > 1) line[count] /= rest;
    for (uint32_t i = count; i < *lines; i++) line[kept++] = line[i];
    if (rest > 1) part[count++] = rest;
    if (groups > 1) part[count++] = groups;
    set_parts(&p->l->axes[AXIS_B], part, count);
    *lines = kept;
    return true;
}

/* Are batches groups of channels, which have a piece of each tap? */
static bool has_groups(const struct lower_dot_product *p, const struct plan_taps *t, uint32_t of_taps)
{
    const struct lower_dot_operand *x = &p->x;
    const struct lower_dot_run *group = x->run[AXIS_B], *tap = x->run[of_taps];
    uint32_t others = x->count[of_taps == AXIS_M ? AXIS_K : AXIS_M];
    return x->count[AXIS_B] == 1 && x->count[of_taps] == 2 && others == 1 && tap[0].stride == (int64_t)t->size &&
           group->stride * group->extent == (int64_t)t->size && tap[1].stride * tap[1].extent == group->stride;
}

/* The parts that the axes of a view of taps have: lines of the image, taps and their runs. */
void dot_find_parts(struct lower_dot_product *p)
{
    struct lower *l = p->l;
    const struct plan_taps *t = lower_taps_of(l, p->x.value);
    int64_t tap[IR_MAX_RANK + 2], line[IR_MAX_RANK];
    uint32_t of_taps = AXIS_K, taps = dot_group_parts(p, tap, &of_taps), lines = 0;
    bool groups = false;
    if (!taps) {
        of_taps = is_by_steps(p) ? AXIS_M : AXIS_K;
        groups = t && has_groups(p, t, of_taps);
        if (!t || (!groups && (p->x.count[AXIS_M] > 1 || p->x.count[AXIS_K] > 1))) return;
        bool whole = !groups && t->steps.items[0] == (int64_t)t->size; /* the last digit goes on where a run ends */
        int64_t run = groups ? p->x.run[of_taps][1].extent : (int64_t)t->size / (p->pairs ? 2 : 1);
        for (uint32_t i = (uint32_t)t->radix.count; i-- > whole;) tap[taps++] = t->radix.items[i];
        tap[taps++] = run * (whole ? t->radix.items[0] : 1);
    }
    for (uint32_t i = 0; t && i < t->outer; i++)
        if (ir_type(l->f, t->slice)->dim[i] != 1) line[lines++] = ir_type(l->f, t->slice)->dim[i];
    if (!groups && !take_batches(p, line, &lines)) return;
    set_parts(&l->axes[of_taps], tap, taps);
    if (lines) set_parts(&l->axes[of_taps == AXIS_M ? AXIS_K : AXIS_M], line, lines);
}

/* ---------------------------------------------------------------- loops */

/* What a block of k reads for one panel: of y the panel, of x what the tensor under the view has for so many steps. */
static int64_t block_bytes(const struct lower_dot_product *p, int64_t steps)
{
    const struct lower *l = p->l;
    int64_t under = 0, all = l->axes[AXIS_K].extent * (dot_has_images(p) ? l->axes[AXIS_B].extent : 1);
    for (size_t i = 0; i < l->group->inputs.count && is_by_steps(p); i++) {
        const struct ir_type *type = ir_type(l->f, l->group->inputs.items[i]);
        int64_t bytes = ir_type_elements(type) * (int64_t)ir_dtype_bytes((enum ir_dtype)type->dtype);
        if (l->group->inputs.items[i] != p->y.value && bytes > under) under = bytes;
    }
    return steps * p->panel_columns * 4 + (int64_t)((double)under * (double)steps / (double)all);
}

/* May a tile do so many steps of k in one go? What a block of them reads is to stay in the second cache. Small tiles
 * read the panel, and a line of x for each step of a kernel's gradient, so often that these are to stay in the first
 * one. */
static bool is_short(const struct lower_dot_product *p, int64_t steps)
{
    const struct cg_target *t = p->l->target;
    int64_t bytes = block_bytes(p, steps), lines = steps * (CACHE_LINE + p->panel_columns * 4);
    bool small = t->vector_registers < 32 && is_by_steps(p);
    if (small && (lines < bytes ? lines : bytes) > t->l1_bytes / 8 * 7) return false;
    return bytes <= t->l2_bytes / 2;
}

/* The largest divisor of a part of k that a tile does in one go with what is inside of it, but one of enough steps. */
static int64_t piece_of(const struct lower_dot_product *p, int64_t whole, int64_t inside)
{
    int64_t most = 1, least = whole;
    for (int turn = 0; turn < 2; turn++)
        for (int64_t i = 1; i <= whole / i; i++) {
            const int64_t divisors[] = {i, whole / i};
            for (int64_t k = 0; k < 2 && whole % i == 0; k++) {
                int64_t d = divisors[k];
                if (!turn && d > most && d < whole && is_short(p, inside * d)) most = d;
                if (turn && d >= most && d < least && inside * d >= LEAST_STEPS) least = d;
            }
        }
    return least;
}

/* Steps of k that a tile does in one go: leading parts stay outside, the last of these cut in two, as long as what the
 * others read would leave the second cache. */
static void choose_k(struct lower_dot_product *p)
{
    struct lower_axis *k = &p->l->axes[AXIS_K];
    int64_t rest = k->extent;
    p->outer_parts = 0;
    while (p->outer_parts + 1 < k->parts && !is_short(p, rest)) {
        int64_t whole = k->part[p->outer_parts], inside = rest / whole, piece = piece_of(p, whole, inside);
        if (piece == whole) break;
        if (piece > 1 && k->parts < AXIS_PARTS) {
            memmove(&k->part[p->outer_parts + 1], &k->part[p->outer_parts],
                    (k->parts++ - p->outer_parts) * sizeof k->part[0]);
            k->part[p->outer_parts] = whole / piece;
            k->part[p->outer_parts + 1] = piece;
        } else piece = 1;
        rest = inside * piece;
        p->outer_parts++;
    }
    p->local_tile = rest < k->extent;
    p->outer_k = UINT32_MAX;
    p->block_k = p->k;
    p->packed_k = rest;
}

/* Rows of y that are far apart, or not neighbours at all. `rows`: that a packed panel serves. */
static void choose_packing(struct lower_dot_product *p, int64_t rows)
{
    const struct lower_dot_operand *y = &p->y;
    uint32_t runs = y->count[AXIS_K];
    bool far = runs && y->run[AXIS_K][runs - 1].stride >= 2 * p->panel_columns;
    bool several = p->panels + (p->tail_columns > 0) > 1 || far;
    int64_t least = LEAST_PACKED / (is_by_steps(p) ? 3 : 2);
    p->pack = p->l->lane_stride != 1 || p->pairs ? rows >= 4 : several && p->packed_k > 64 && rows >= least;
    if (p->packed_k * p->panel_columns * 4 > 4 * 1024 * 1024) p->pack = false;
}

static void choose_locals(struct parts *o, bool by_panels)
{
    struct lower_dot_product *p = o->p;
    int64_t rows = local_rows(o), columns = (p->n + p->lanes - 1) / p->lanes * p->lanes;
    for (uint32_t i = 0; i < p->l->axes[AXIS_M].parts; i++) rows *= inside(o, i);
    p->wide = p->local_tile && !by_panels && columns > p->panel_columns && p->l->axes[AXIS_N].parts == 1 &&
              rows * columns * 4 <= p->l->target->l2_bytes / 4;
    p->tile_columns = p->wide ? columns : p->panel_columns;
    if (p->pack) p->panel_local = nest_local(&p->l->b, p->factor, p->packed_k * p->panel_columns);
    if (p->local_tile) p->tile_local = nest_local(&p->l->b, p->sum, rows * p->tile_columns);
}

static uint32_t largest(const struct lower_axis *axis, uint32_t parts)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < parts; i++)
        if (axis->part[i] > axis->part[best]) best = i;
    return best;
}

/* Steps, of so many rows each, that a worker takes at once: it packs panels for these, or reads all of y. */
static int64_t chunk_of(int64_t steps, int64_t rows, int64_t least)
{
    enum { TRIED = 1 << 16 /* divisors: more of a row are enough in any case, and the steps may be a prime number */ };
    int64_t chunk = 1;
    for (int64_t c = 2; c <= steps / least && c <= TRIED && chunk * rows < LEAST_PACKED / 3 * 2; c++)
        if (steps % c == 0) chunk = c;
    return chunk;
}

/* The same of row blocks: of small tiles these need not come out even, where that makes chunks more than twice as
 * large. */
static int64_t choose_chunk(struct parts *o, int64_t rows)
{
    const struct lower_dot_product *p = o->p;
    int64_t least = LEAST_PARALLEL / 4, wanted = (LEAST_PACKED / 3 * 2 + rows - 1) / rows;
    if (wanted > p->blocks / least) wanted = p->blocks / least;
    o->chunk = chunk_of(p->blocks, rows, least);
    if (p->l->target->vector_registers >= 32 || o->chunk * 2 >= wanted) return p->blocks / o->chunk;
    int64_t count = (p->blocks + wanted - 1) / wanted;
    o->chunk = (p->blocks + count - 1) / count;
    o->rest = p->blocks % o->chunk;
    return p->blocks / o->chunk + (o->rest > 0);
}

void dot_parts(struct lower_dot_product *p)
{
    struct lower *l = p->l;
    struct parts o = {.p = p, .outer = UINT32_MAX};
    const struct lower_axis *m = &l->axes[AXIS_M], *n = &l->axes[AXIS_N], *b = &l->axes[AXIS_B];
    choose_tile(&o);
    int64_t lines = m->extent / p->m, panels = p->panels + (p->tail_columns > 0), shared = 1;
    uint32_t batch = largest(b, b->parts), line = largest(m, m->parts - 1);
    int64_t blocks = p->blocks + (p->tail_rows > 0);
    bool apart = p->rows_first && lines >= LEAST_PARALLEL; /* groups beside each other: all of a line at once */
    bool by_batch = !apart && b->part[batch] >= LEAST_PARALLEL / 2;
    bool by_lines = !by_batch && (lines >= LEAST_PARALLEL || (lines > blocks && lines >= panels));
    if (by_lines && panels >= LEAST_PARALLEL / 2 && m->extent / m->part[line] < LEAST_PACKED) by_lines = false;
    bool by_panels = !by_batch && !by_lines && panels >= LEAST_PARALLEL / 2 && n->parts == 1;
    o.by_blocks = !by_batch && !by_lines && !by_panels && p->blocks > 1;
    if (o.by_blocks) o.rows[1] = o.rows[0]; /* of all panels the same */
    choose_k(p);
    if (by_batch) {
        dot_open(p, NEST_PARALLEL, AXIS_B, batch, shared = b->part[batch], 1, NULL);
    } else if (by_lines) {
        o.chunk = chunk_of(m->part[line], m->extent / m->part[line], LEAST_PARALLEL / 2);
        shared = m->part[line] / o.chunk;
        dot_open(p, NEST_PARALLEL, AXIS_M, o.outer = line, shared, o.chunk, NULL);
    } else if (by_panels) {
        shared = panels;
    } else if (o.by_blocks) {
        shared = choose_chunk(&o, lines * p->rows);
        o.block = dot_open(p, NEST_PARALLEL, AXIS_M, dot_last_index(l, AXIS_M), shared, o.chunk * p->rows, NULL);
    }
    nest_var panel = 0;
    choose_packing(p, by_lines || o.by_blocks ? m->extent / shared : m->extent);
    if (by_panels) panel = dot_open(p, NEST_PARALLEL, AXIS_N, 0, shared, p->panel_columns, NULL);
    l->b.nest->parallel_extent = shared;
    for (uint32_t i = 0; i < b->parts; i++)
        if (b->part[i] != 1 && !(by_batch && i == batch)) dot_open(p, NEST_SERIAL, AXIS_B, i, b->part[i], 1, NULL);
    for (uint32_t i = 0; i + 1 < n->parts; i++)
        if (n->part[i] != 1) dot_open(p, NEST_SERIAL, AXIS_N, i, n->part[i], 1, NULL);
    choose_locals(&o, by_panels);
    if (p->wide) all_blocks(&o);
    else all_panels(&o, by_panels ? &panel : NULL, all_blocks);
    nest_close_to(&l->b, 0);
}
