/* Operands of a contraction on their way to a GPU's shared memory. A thread fetches a patch at a time: as many
 * neighbours as 16 bytes hold, where a printer may make one access of their loads, and two steps of k for the matrix
 * unit, whose words are pairs. Neighbouring threads take neighbouring patches. */
#include "codegen/lower/lower_dot_grid.h"

enum {
    ACCESS = 16 /* bytes */,
    TURNED = 4, /* numbers of 16 bits of each of two steps: 16 bytes of pairs, as neighbouring threads store them */
    NEAR = 8    /* rows of pairs in shared memory, of which those that are half as far apart begin at other banks */
};

/* ---------------------------------------------------------------- positions */

void grid_add_digit(struct lower_dot_grid *g, struct lower_pos *at, int64_t by, int64_t count, int64_t scale)
{
    lower_pos_add_digit(g->p->l, at, g->thread, g->threads, by, count, scale);
}

struct lower_pos grid_inside(struct lower *l, const struct lower_pos *p, int64_t extent)
{
    struct lower_pos out = *p;
    l->cond = lower_and(l, l->cond, lower_pos_inside(l, &out, extent));
    return out;
}

/* ---------------------------------------------------------------- neighbours */

/* Neighbours of an operand: its runs along the axis whose neighbours are fetched, and all distances beside it. */
static bool may_take(const struct lower *l, const struct lower_dot_operand *o, uint32_t fast, int64_t few)
{
    uint32_t last = o->count[fast];
    if (!last || o->run[fast][last - 1].stride != 1 || o->run[fast][last - 1].extent % few) return false;
    for (uint32_t axis = AXIS_B; axis <= AXIS_K; axis++)
        for (uint32_t i = 0; i < o->count[axis]; i++)
            if (o->run[axis][i].stride % few && (axis != fast || i + 1 != last)) return false;
    return lower_side_by_side(l, o->value, few);
}

bool grid_may_copy(const struct lower_dot_grid *g, const struct lower_dot_side *s)
{
    const struct lower *l = g->p->l;
    const struct lower_dot_operand *o = s->operand;
    int64_t few = ACCESS / (int64_t)ir_dtype_bytes((enum ir_dtype)ir_type(l->f, o->value)->dtype);
    return lower_stands(l, o->value) && may_take(l, o, s->steps_first ? AXIS_K : s->axis, few);
}

void grid_choose_patch(struct lower_dot_grid *g, struct lower_dot_side *s)
{
    const struct lower *l = g->p->l;
    int64_t few = ACCESS / (int64_t)ir_dtype_bytes((enum ir_dtype)ir_type(l->f, s->operand->value)->dtype);
    int64_t word = s->steps_first ? s->word_steps : s->word_along, other = s->word_along * s->word_steps / word;
    int64_t most = s->part * g->steps / g->threads / other;
    if (g->unit && !g->panels && !s->steps_first && most > TURNED) most = TURNED;
    while (few > 1 && (few > most || !may_take(l, s->operand, s->steps_first ? AXIS_K : s->axis, few))) few /= 2;
    few = few > word ? few : word;
    s->patch_along = s->steps_first ? s->word_along : few;
    s->patch_steps = s->steps_first ? few : s->word_steps;
    if (g->unit || s->patch_steps != GRID_GROUP) return;
    /* of four threads that have the steps of a row, eight numbers of other banks each: the first steps of all of them
     * come first, then the second ones */
    int64_t row = (s->size + 15) / 16 * 16 + 8 - (s->size % 16 == 8 ? 16 : 0);
    s->step_group = GRID_GROUP;
    s->group_apart = row, s->step_apart = row * (g->steps / GRID_GROUP);
}

/* ---------------------------------------------------------------- patches */

static int64_t words(const struct lower_dot_side *s)
{
    return s->patch_along * s->patch_steps / (s->word_along * s->word_steps);
}

int64_t grid_staged(const struct lower_dot_grid *g, const struct lower_dot_side *s)
{
    return s->size * g->steps / (s->word_along * s->word_steps) / g->threads;
}

/* Of a part of a side, and of all parts, if there are several. */
struct turn {
    nest_var part, in_part;
    int64_t parts, count /* in a part */;
};

static struct turn open_turn(struct lower_dot_grid *g, const struct lower_dot_side *s)
{
    int64_t parts = s->size / s->part;
    struct turn turn = {.parts = parts, .count = grid_staged(g, s) / words(s) / parts};
    if (parts > 1) turn.part = lower_open(g->p->l, NEST_UNROLL, parts);
    turn.in_part = lower_open(g->p->l, NEST_UNROLL, turn.count);
    g->thread = lower_open(g->p->l, NEST_VECTOR, g->threads);
    return turn;
}

/* The first element of the patch that this thread has in turn `turn`: along the side, and of k. */
static void corner(struct lower_dot_grid *g, const struct lower_dot_side *s, struct turn turn, struct lower_pos *along,
                   struct lower_pos *step)
{
    struct lower_pos *fast = s->steps_first ? step : along, *slow = s->steps_first ? along : step;
    int64_t by_fast = s->steps_first ? s->patch_steps : s->patch_along,
            by_slow = s->steps_first ? s->patch_along : s->patch_steps,
            count = (s->steps_first ? g->steps : s->part) / by_fast;
    *along = *step = lower_pos_constant(0);
    grid_add_digit(g, fast, 1, count, by_fast);
    if (g->unit && !g->panels && s->steps_first) {
        grid_add_digit(g, slow, count, 2, NEAR / 2 * by_slow);
        grid_add_digit(g, slow, 2 * count, NEAR / 2, by_slow);
        if (NEAR * count < g->threads)
            grid_add_digit(g, slow, NEAR * count, g->threads / (NEAR * count), NEAR * by_slow);
    } else if (count < g->threads) grid_add_digit(g, slow, count, g->threads / count, by_slow);
    lower_pos_add_term(g->p->l, slow, turn.in_part, g->threads / count * by_slow);
    if (turn.parts > 1) lower_pos_add_term(g->p->l, along, turn.part, s->part);
}

/* Word number `word` of a patch: so far from its corner. */
static void add_word(const struct lower_dot_side *s, int64_t word, struct lower_pos *along, struct lower_pos *step)
{
    int64_t column = s->patch_steps / s->word_steps;
    along->offset += word / column * s->word_along;
    step->offset += word % column * s->word_steps;
}

static struct nest_index staged_index(struct lower_dot_grid *g, const struct lower_dot_side *s, struct turn turn,
                                      int64_t word)
{
    struct lower_pos at = lower_pos_constant(word);
    if (turn.parts > 1) lower_pos_add_term(g->p->l, &at, turn.part, turn.count * words(s));
    lower_pos_add_term(g->p->l, &at, turn.in_part, words(s));
    return lower_pos_index(g->p->l, &at);
}

/* An element, 0 outside of the operand. */
static nest_value element(struct lower_dot_grid *g, const struct lower_dot_side *s, const struct lower_pos *along,
                          const struct lower_pos *step)
{
    struct lower_dot_product *p = g->p;
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    p->at[s->axis] = grid_inside(l, along, s->extent);
    p->at[AXIS_K] = grid_inside(l, step, l->axes[AXIS_K].extent);
    nest_value value = dot_operand_value(p, s->operand);
    if (l->cond && !lower_is_loaded(l, value)) { /* a prologue of what is not read may be anything */
        nest_value args[] = {l->cond, value, nest_number(&l->b, p->factor, 0)};
        value = nest_op(&l->b, OP_select, p->factor, args, 3);
    }
    l->cond = 0;
    dot_return(p, &before);
    return value;
}

void grid_copy(struct lower_dot_grid *g, const struct lower_dot_side *s, const struct lower_pos *from,
               const struct lower_pos *to)
{
    struct lower_dot_product *p = g->p;
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    struct turn turn = open_turn(g, s);
    struct lower_pos along, step;
    corner(g, s, turn, &along, &step);
    struct lower_pos at = grid_shared(g, s, &along, &step);
    lower_pos_add(l, &at, to, 1);
    lower_pos_add(l, &along, &s->start, 1);
    lower_pos_add(l, &step, from, 1);
    p->at[s->axis] = grid_inside(l, &along, s->extent);
    p->at[AXIS_K] = grid_inside(l, &step, l->axes[AXIS_K].extent);
    const struct lower_loaded *first = lower_loaded_of(l, dot_operand_value(p, s->operand));
    if (!first) BUG("an operand that does not stand in memory");
    nest_copy(&l->b, s->local, lower_pos_index(l, &at), first->buffer, lower_pos_index(l, &first->at), l->cond);
    l->cond = 0;
    dot_return(p, &before);
}

void grid_fetch(struct lower_dot_grid *g, const struct lower_dot_side *s, const struct lower_pos *from)
{
    struct lower *l = g->p->l;
    struct lower_dot_place before = dot_place(g->p);
    struct turn turn = open_turn(g, s);
    struct lower_pos first_along, first_step;
    corner(g, s, turn, &first_along, &first_step);
    lower_pos_add(l, &first_along, &s->start, 1);
    lower_pos_add(l, &first_step, from, 1);
    for (int64_t word = 0; word < words(s); word++) {
        struct lower_pos along = first_along, step = first_step;
        add_word(s, word, &along, &step);
        nest_value value = element(g, s, &along, &step);
        if (g->unit) {
            along.offset += s->word_along - 1;
            step.offset += s->word_steps - 1;
            value = lower_halves(l, value, element(g, s, &along, &step));
        }
        nest_set(&l->b, s->staged, staged_index(g, s, turn, word), value);
    }
    dot_return(g->p, &before);
}

int64_t grid_words(const struct lower_dot_grid *g, const struct lower_dot_side *s)
{
    int64_t parts = s->size / s->part - 1, rows = s->part / s->word_along - 1, steps = g->steps / s->word_steps - 1,
            groups = s->step_group ? g->steps / s->step_group - 1 : 0;
    if (s->step_group) steps = s->step_group - 1;
    return parts * s->part_apart + rows * s->along_apart + steps * s->step_apart + groups * s->group_apart + 1;
}

struct lower_pos grid_shared(struct lower_dot_grid *g, const struct lower_dot_side *s, const struct lower_pos *along,
                             const struct lower_pos *step)
{
    struct lower *l = g->p->l;
    struct lower_pos at = lower_pos_constant(0), part = at, row = *along, of = *step, group, word, rest;
    bool whole = s->part == s->size || lower_pos_part(l, along, s->part, &part, &row);
    whole = whole && lower_pos_part(l, &row, s->word_along, &word, &rest);
    lower_pos_add(l, &at, &part, s->part_apart);
    lower_pos_add(l, &at, &word, s->along_apart);
    if (s->step_group) {
        whole = whole && lower_pos_part(l, step, s->step_group, &group, &of);
        lower_pos_add(l, &at, &group, s->group_apart);
    }
    whole = whole && lower_pos_part(l, &of, s->word_steps, &word, &rest);
    lower_pos_add(l, &at, &word, s->step_apart);
    if (!whole) BUG("a word that is in two parts");
    return at;
}

void grid_put(struct lower_dot_grid *g, const struct lower_dot_side *s, const struct lower_pos *to)
{
    struct lower *l = g->p->l;
    struct lower_dot_place before = dot_place(g->p);
    struct turn turn = open_turn(g, s);
    struct lower_pos along, step;
    corner(g, s, turn, &along, &step);
    struct lower_pos first = grid_shared(g, s, &along, &step);
    lower_pos_add(l, &first, to, 1);
    for (int64_t word = 0; word < words(s); word++) {
        struct lower_pos at = first;
        int64_t column = s->patch_steps / s->word_steps;
        at.offset += word / column * s->along_apart + word % column * s->step_apart;
        nest_store(&l->b, s->local, lower_pos_index(l, &at), nest_get(&l->b, s->staged, staged_index(g, s, turn, word)),
                   0);
    }
    dot_return(g->p, &before);
}
