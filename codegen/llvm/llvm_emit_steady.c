/* Which divisions of a nest have a divisor that stays as it is while loops around them go on: it is worth making its
 * reciprocal once (emit_divide_steady). Only speed depends on what is found here. */
#include "codegen/llvm/llvm_emit.h"

enum { LEAST_TRIPS = 4, USUAL_COPIES = 4 /* vectors of an iteration */, MOST_DEPTH = 32 };

/* Of a register, by numbers of statements, which are those of the text: it varies in loops around these and between. */
struct writers {
    uint32_t first, last;
};

struct steady {
    struct arena *arena;
    uint32_t lanes, at, depth;
    int64_t flat_extent;
    struct writers *reg;
    VEC(uint32_t) ends;            /* by the number of a statement: of the last one in it */
    uint32_t *value, *var;         /* the innermost loop in which it varies; 0: none */
    uint32_t loop[MOST_DEPTH + 1]; /* numbers of those open now */
    int64_t trips[MOST_DEPTH + 1]; /* their iterations, as they are printed */
    uint8_t *facts;
};

static void write(struct writers *w, uint32_t at)
{
    if (!w->last) w->first = at;
    w->last = at;
}

static void number(struct steady *y, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        uint32_t at = (uint32_t)y->ends.count;
        vec_push(y->arena, &y->ends, at);
        if (s->kind == NEST_REG || s->kind == NEST_SET || s->kind == NEST_REDUCE) write(&y->reg[s->reg], at);
        number(y, s->body.items, s->body.count);
        y->ends.items[at] = (uint32_t)y->ends.count - 1;
    }
}

static uint32_t most(uint32_t x, uint32_t y) { return x > y ? x : y; }

static uint32_t of_writers(const struct steady *y, const struct writers *w)
{
    uint32_t k = y->depth;
    while (k && (w->last < y->loop[k] || w->first > y->ends.items[y->loop[k]])) k--;
    return k;
}

static uint32_t of_index(const struct steady *y, const struct nest_index *index)
{
    uint32_t level = 0;
    for (uint32_t i = 0; i < index->term_count; i++) level = most(level, y->var[index->terms[i].var]);
    for (uint32_t i = 0; i < index->scaled_count; i++) level = most(level, y->value[index->scaled[i].value]);
    return level;
}

static uint32_t of_result(const struct steady *y, const struct nest_stmt *s)
{
    uint32_t level = 0;
    for (uint32_t i = 0; i < s->arg_count; i++) level = most(level, y->value[s->args[i]]);
    switch (s->kind) {
    case NEST_OP:
    case NEST_FMA:
    case NEST_NUMBER: return level;
    case NEST_POSITION: return most(level, of_index(y, &s->index));
    case NEST_GET:
    case NEST_FOLD: return most(of_index(y, &s->index), of_writers(y, &y->reg[s->reg]));
    default: return y->depth; /* loads: LLVM does not take them past stores */
    }
}

static bool pays(const struct steady *y, uint32_t divisor)
{
    int64_t trips = 1;
    for (uint32_t k = y->depth; k > divisor && trips < LEAST_TRIPS; k--) trips *= y->trips[k];
    return trips >= LEAST_TRIPS;
}

static void walk(struct steady *y, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        uint32_t at = ++y->at;
        int64_t by = s->loop == NEST_VECTOR ? USUAL_COPIES * (int64_t)y->lanes : 1;
        int64_t trips = (s->extent < 0 ? y->flat_extent : s->extent) / by;
        bool loops = s->kind == NEST_FOR && s->loop != NEST_UNROLL && trips > 1 && y->depth < MOST_DEPTH;
        if (loops) y->loop[++y->depth] = at, y->trips[y->depth] = trips;
        if (s->kind == NEST_FOR) y->var[s->var] = loops ? y->depth : 0;
        if (s->result) y->value[s->result] = of_result(y, s);
        if (s->kind == NEST_OP && s->op == OP_div && pays(y, y->value[s->args[1]]))
            y->facts[s->result] |= EMIT_STEADY_DIVISOR;
        walk(y, s->body.items, s->body.count);
        y->depth -= loops;
    }
}

void emit_find_steady(struct emit *e, int64_t flat_extent, uint8_t *facts)
{
    const struct nest *nest = e->nest;
    struct steady y = {.arena = e->arena,
                       .lanes = e->lanes,
                       .flat_extent = flat_extent < 0 ? INT32_MAX : flat_extent,
                       .reg = arena_new_array(e->arena, struct writers, nest->reg_count + 1),
                       .value = arena_new_array(e->arena, uint32_t, nest->value_count + 1),
                       .var = arena_new_array(e->arena, uint32_t, nest->var_count + 1),
                       .facts = facts};
    vec_push(y.arena, &y.ends, 0); /* numbers begin with 1 */
    number(&y, nest->body.items, nest->body.count);
    walk(&y, nest->body.items, nest->body.count);
}
