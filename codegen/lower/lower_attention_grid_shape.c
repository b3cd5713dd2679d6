/* How attention is cut for a GPU: whether the matrix unit multiplies, the tile, a thread's part of its sides, and what
 * is declared for them. */
#include "codegen/lower/lower_attention_grid.h"
#include <math.h>

enum {
    DOWN = 16,  /* threads along the lanes */
    ACROSS = 8, /* and along steps, or what is made */
    PADDING = 4 /* between the rows of shared memory: other banks */,
    UNIT_ACROSS = 4,
    PIECES = 3, /* of 8 bits: those of float32 */
    ROUNDED_PIECES = 2,
    REGISTERS = 128, /* for scores and sums; the rest is for what is on its way */
    UNIT_REGISTERS = 160
};

/* Lanes and steps of a tile, the largest first: operands are read the less often. */
static const struct {
    int64_t lanes, steps;
} tiles[] = {{64, 64}, {64, 32}, {32, 64}, {32, 32}};

static int64_t round_up(int64_t n, int64_t by) { return (n + by - 1) / by * by; }

/* Have all operands the same 16 bits, and weights these or, of bfloat16, those of float32? What is read is narrow then.
 */
static bool find_unit(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    const struct lower *l = a->l;
    enum ir_dtype kind = (enum ir_dtype)ir_type(l->f, lower_narrow(l, a->source[0].lanes.value))->dtype;
    bool same = l->target->unit && (kind == IR_BF16 || kind == IR_F16) && a->sum == IR_F32;
    for (int turn = 0; same && turn < 2; turn++) {
        ir_value *of[MOST_SOURCES + MOST_BLOCKS + MOST_SINKS];
        uint32_t count = 0, operands;
        for (uint32_t i = 0; i < a->sources; i++) of[count++] = &a->source[i].lanes.value;
        for (uint32_t i = 0; i < a->block_count; i++) of[count++] = &a->block[i].side.value;
        operands = count;
        for (uint32_t i = 0; i < a->sinks; i++) of[count++] = &a->sink[i].from;
        for (uint32_t i = 0; i < count; i++) {
            enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, lower_narrow(l, *of[i]))->dtype;
            if (turn) *of[i] = dtype == kind ? lower_narrow(l, *of[i]) : *of[i];
            else same = same && (dtype == kind || (i >= operands && kind == IR_BF16 && dtype == IR_F32));
        }
    }
    g->kind = same ? kind : a->sum;
    return same;
}

/* Of `size` numbers, by ACROSS threads: wide groups, but first of all few numbers that are none. */
static struct lower_attention_part across(const struct lower_attention_grid *g, int64_t size)
{
    struct lower_attention_part best = {.by = 1, .count = ACROSS, .group = ATTENTION_GROUP};
    if (g->unit)
        return (struct lower_attention_part){.by = 1,
                                             .count = UNIT_ACROSS,
                                             .groups = round_up(size, NEST_UNIT_STEPS) / NEST_UNIT_COLUMNS,
                                             .group = 2,
                                             .apart = NEST_UNIT_COLUMNS};
    for (int64_t group = ATTENTION_GROUP, least = INT64_MAX; group > 0; group /= 2)
        if (round_up(size, ACROSS * group) < least) {
            least = round_up(size, ACROSS * group);
            best.groups = least / (ACROSS * group), best.group = group, best.apart = ACROSS * group;
        }
    return best;
}

/* Tiles that different sinks read; one at least where scores wait for their maximum, if it is all that is wanted. */
static uint32_t weights_of(struct lower_attention *a)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->sinks; i++) {
        a->sink[i].tile = count;
        for (uint32_t k = 0; k < i; k++)
            if (a->sink[k].from == a->sink[i].from) a->sink[i].tile = a->sink[k].tile;
        count += a->sink[i].tile == count;
    }
    return a->max && !count ? 1 : count;
}

/* Do its sums fit the registers of a thread, its locals the shared memory, and are there tiles for most of a GPU? */
static bool fits(struct lower_attention_grid *g, uint32_t weights)
{
    const struct lower_attention *a = g->a;
    int64_t bytes = (int64_t)ir_dtype_bytes(a->sum), sums = a->sources * a->steps;
    for (uint32_t i = 0; i < a->sinks; i++) sums += attention_size(&g->made[i]);
    int64_t shared = 4 * 4 * a->width;
    if (sums * a->width * bytes > (g->unit ? UNIT_REGISTERS : REGISTERS) * ATTENTION_THREADS * 4) return false;
    if (g->unit) return attention_choose_panels(g, shared * bytes);
    shared += attention_shared_numbers(g, true) + attention_shared_numbers(g, false) + weights * a->steps * g->row;
    return shared * bytes <= CG_CUDA_SHARED && a->s.batch * a->blocks >= CG_CUDA_BLOCKS;
}

/* The largest tile that fits, else the last one. */
static bool choose_tile(struct lower_attention_grid *g, uint32_t weights)
{
    struct lower_attention *a = g->a;
    for (uint32_t i = 0; i < a->sinks; i++) g->made[i] = across(g, a->block[a->sink[i].block].side.length);
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        bool by_unit = tiles[i].lanes == NEST_UNIT_ROWS * ATTENTION_THREADS / 32;
        if (g->unit && !by_unit) continue;
        a->width = tiles[i].lanes, a->steps = tiles[i].steps;
        a->blocks = (a->extent + a->width - 1) / a->width;
        g->row = a->width + PADDING;
        g->lanes = (struct lower_attention_part){
            .by = ACROSS, .count = DOWN, .groups = 1, .group = a->width / DOWN, .apart = a->width};
        g->own = (struct lower_attention_part){.by = 1, .count = a->width, .groups = 1, .group = 1, .apart = a->width};
        if (g->unit)
            g->own = g->lanes = (struct lower_attention_part){.by = UNIT_ACROSS,
                                                              .count = NEST_UNIT_ROWS / 2,
                                                              .groups = 2,
                                                              .group = 1,
                                                              .apart = NEST_UNIT_ROWS / 2,
                                                              .warp_apart = NEST_UNIT_ROWS};
        g->steps = across(g, a->steps);
        g->parts = g->unit ? UNIT_ACROSS : ATTENTION_THREADS / a->width, g->part_by = g->unit ? 1 : a->width;
        if (fits(g, weights)) return true;
    }
    return false;
}

void attention_choose_shape(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    struct nest_builder *b = &a->l->b;
    g->unit = find_unit(g);
    uint32_t weights = weights_of(a);
    if (!choose_tile(g, weights) && g->unit) {
        g->unit = false, g->kind = a->sum;
        choose_tile(g, weights);
    }
    if (g->unit) {
        attention_declare_panels(g);
    } else {
        for (uint32_t i = 0; i < weights; i++) a->tile[i] = nest_local(b, a->sum, (a->steps - 1) * g->row + a->width);
        for (uint32_t i = 0; i < a->sinks; i++) a->sink[i].tile = a->tile[a->sink[i].tile];
        for (int i = 0; i < 2; i++) g->local[i] = nest_local(b, a->sum, attention_shared_numbers(g, i == 0));
    }
    if (!a->max) return;
    int64_t places = g->parts * a->width;
    a->max_local = nest_local(b, (enum ir_dtype)ir_type(a->l->f, a->max)->dtype, places);
    a->safe_local = nest_local(b, a->sum, places);
    a->scale_local = nest_local(b, a->sum, places);
    a->sum_local = nest_local(b, a->sum, a->width);
}

static uint32_t operand_register(const struct lower_attention_grid *g, const struct lower_attention_part *p)
{
    uint32_t pairs = (uint32_t)(p == &g->lanes ? 4 : 2 * p->groups);
    return nest_reg(&g->a->l->b, g->unit ? IR_U32 : g->a->sum, g->unit ? pairs : (uint32_t)attention_own(p), true, 0);
}

/* Of how many numbers of 16 bits a tile's weights are the sum. What is made of them and rounded to 16 bits shows none
 * of what two leave out: 2^-16 of it. */
static uint32_t pieces_of(const struct lower_attention_grid *g, uint32_t tile)
{
    const struct lower_attention *a = g->a;
    uint32_t most = 1;
    for (uint32_t i = 0; i < a->sinks; i++) {
        if (a->sink[i].tile != tile || ir_type(a->l->f, a->sink[i].from)->dtype == g->kind) continue;
        bool rounded = ir_dtype_bytes((enum ir_dtype)ir_type(a->l->f, a->sink[i].stored)->dtype) == 2;
        uint32_t pieces = !rounded ? PIECES : a->l->target->fast ? 1 : ROUNDED_PIECES;
        if (pieces > most) most = pieces;
    }
    return most;
}

/* Do weights become 16 bits, and what is made of them too? Nothing shows more than that of their exponentials. Sums of
 * them that are made alone may be for others. */
static bool is_rough(const struct lower_attention_grid *g)
{
    const struct lower_attention *a = g->a;
    bool all = g->unit && a->sinks;
    for (uint32_t i = 0; i < a->sinks; i++) all = all && g->pieces[a->sink[i].tile] < PIECES;
    return all;
}

void attention_declare(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    struct nest_builder *b = &a->l->b;
    uint32_t own = (uint32_t)g->own.groups, tiles_made = 0;
    g->lanes.reg = operand_register(g, &g->lanes);
    g->steps.reg = operand_register(g, &g->steps);
    for (uint32_t i = 0; i < a->sinks; i++) {
        g->made[i].reg = operand_register(g, &g->made[i]);
        g->sums[i] = nest_reg(b, a->sum, (uint32_t)(attention_own(&g->lanes) * attention_own(&g->made[i])), true, 0);
        if (!g->unit || a->sink[i].tile != tiles_made) continue;
        g->pieces[tiles_made] = pieces_of(g, tiles_made);
        uint32_t pairs = g->pieces[tiles_made] * (uint32_t)(2 * g->steps.groups);
        g->weights[tiles_made++] = nest_reg(b, IR_U32, pairs, true, 0);
    }
    a->l->rough = is_rough(g);
    if (!a->max) return;
    g->most = nest_reg(b, (enum ir_dtype)ir_type(a->l->f, a->max)->dtype, own, true, -INFINITY);
    g->total = nest_reg(b, a->sum, own, true, 0);
    if (g->unit) g->scale = nest_reg(b, a->sum, own, true, 0);
}
