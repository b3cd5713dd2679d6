/* dropout, and the masks of attention's dropout. A layer takes one draw of the stream "dropout" for its fork when it is
 * made, whatever its rate; every call in training takes the next draw of that fork. How many there were is a counter
 * among the state, `rng.<path>.count`. A trace that sees a part of the batch makes the same part of the whole batch's
 * mask: which that is follows from the shape of the whole mask, noted before. */
#include "frontend/model.h"

static const char *counter_path(struct fe_block *block)
{
    return fe_path_join(block->site.fe->arena, fe_path_join(block->site.fe->arena, "rng", block->path), "count");
}

/* The counter is declared with the fork and remembers its stream and draw. */
static uint32_t counter(struct fe_block *block, const char *stream)
{
    struct fe_state *state = block->site.fe->state;
    const char *path = counter_path(block);
    uint32_t index = map_get(&state->by_path, path);
    if (index != MAP_NONE) return index;
    struct fe_param p = {.path = path, .type = ir_type_scalar(IR_U32), .init_preset = "zeros", .statistic = true};
    fe_draw(block->site.fe, stream, &p.stream, &p.draw);
    return fe_block_param(block, "", p) ? map_get(&state->by_path, path) : MAP_NONE;
}

void fe_block_fork(struct fe_block *block, const char *stream, bool used)
{
    uint32_t at, draw;
    if (used) counter(block, stream);
    else if (!block->site.fe->state->declared && !block->sharing) fe_draw(block->site.fe, stream, &at, &draw);
}

/* Which part of the whole mask a mask of this shape is, in a trace that sees some rows: the dimension where the two
 * differ holds the rows (or a run of equal length for each). False: an error was recorded. */
static bool part_of_mask(struct fe_block *block, const struct ir_type *shape, struct fe_part *part)
{
    struct fe_site *s = &block->site;
    struct fe_state *state = s->fe->state;
    const struct fe_rows *rows = s->trace->rows;
    uint32_t number = s->trace->own->masks++, differ = 0;
    if (number >= state->masks.count) BUG("mask %u was not noted", number);
    part->whole = state->masks.items[number];
    for (uint32_t i = 0; i < shape->rank && part->whole.rank == shape->rank; i++)
        if (part->whole.dim[i] != shape->dim[i]) part->dim = i, differ++;
    int64_t each = differ ? shape->dim[part->dim] / rows->count : 1;
    if (differ > 1 || part->whole.rank != shape->rank || each * rows->count != (differ ? shape->dim[part->dim] : rows->count)) {
        fe_block_fail(block, NULL, "E0111", "dropout of %s in a part of the batch is not supported yet: for the whole batch it is %s",
                      ir_type_text(s->fe->arena, shape), ir_type_text(s->fe->arena, &part->whole));
        return false;
    }
    if (!differ) return true;
    int64_t two[] = {rows->count, each}, one[] = {rows->count * each}, first[] = {0};
    struct ir_type type = ir_type_of(IR_I32, 2, two);
    ir_value at = ir_broadcast(s->b, rows->numbers, 2, two, first);
    at = ir_binary(s->b, OP_add, ir_binary(s->b, OP_mul, at, ir_number(s->b, type, (double)each)), ir_iota(s->b, type, 1));
    part->at = ir_cast(s->b, ir_reshape(s->b, at, 1, one), IR_U32);
    return true;
}

struct fe_val fe_block_mask(struct fe_block *block, const char *stream, const struct ir_type *shape, double rate)
{
    struct fe_site *s = &block->site;
    struct fe *fe = s->fe;
    uint32_t index = counter(block, stream), key[2];
    if (index == MAP_NONE) return fe_bad();
    const struct fe_param *p = &fe->state->params.items[index];
    ir_value *now = s->trace->statistics ? &s->trace->statistics[index] : NULL;
    ir_value count = now && *now ? *now : fe_trace_param(fe, s->trace, index);
    const struct fe_rows *rows = s->trace->rows;
    struct fe_part part = {0};
    if (s->trace->notes_masks && !rows) vec_push(fe->arena, &fe->state->masks, *shape);
    if (rows && !ir_type(s->b->f, rows->numbers)->rank) part.at = ir_cast(s->b, rows->numbers, IR_U32), part.dim = IR_MAX_RANK;
    else if (rows && !part_of_mask(block, shape, &part)) return fe_bad();
    fe_fork_key(fe, p->stream, p->draw, key);
    if (now) *now = ir_binary(s->b, OP_add, count, ir_number(s->b, p->type, 1));
    return fe_val_tensor(fe_bernoulli(s->b, key, count, shape, (double)(float)(1 - rate), part.at ? &part : NULL));
}

static struct fe_val apply(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    struct ir_type t = fe_type_at(s, &block->in[0]);
    struct fe_site at = *s;
    const char *stream = a[3].string;
    double rate = a[0].number;
    int64_t dims[IR_MAX_RANK];
    uint32_t count = 0, axis;
    bool used = rate > 0 && rate < 1 && !a[2].boolean;
    fe_block_fork(block, stream, used);
    if (rate <= 0 || a[2].boolean || !s->trace->train) return block->in[0];
    if (!fe_block_float_input(block, 0)) return fe_bad();
    struct ir_type full = fe_type_at(s, &block->in[0]);
    if (rate >= 1) return fe_full(s, full, 0);
    if (a[1].given) {
        at.where.json = a[1].json;
        struct fe_val list = fe_literal(&at, a[1].json, NULL, false);
        if (list.bad || !fe_get_ints(&at, &list, dims, IR_MAX_RANK, &count, "broadcast_dims")) return fe_bad();
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!fe_get_axis(&at, dims[i], t.rank, &axis)) return fe_bad();
        t.dim[axis] = 1;
    }
    struct fe_val keep = fe_block_mask(block, stream, &t, rate);
    return fe_where3(s, keep, fe_div(s, block->in[0], fe_float(1 - rate)), fe_float(0));
}

static const struct fe_arg args[] = {{"rate", FE_NUMBER, FE_REQUIRED | FE_UNIT_CLOSED, NULL, NULL},
                                     {"broadcast_dims", FE_ANY, 0, "[]", NULL},
                                     {"deterministic", FE_BOOL, 0, "false", NULL},
                                     {"rng_collection", FE_STRING, 0, "\"dropout\"", NULL}};
const struct fe_layer fe_layer_dropout = {"dropout", args, 4, 1, apply};
