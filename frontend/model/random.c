/* Layers that draw random numbers while they run: dropout, the masks of attention's dropout, noise. Such a layer takes
 * one draw of its stream for its fork when it is made, whatever it does later; every call takes the next draw of that
 * fork. How many there were is a counter among the state, `rng.<path>.count`. A trace that sees a part of the batch
 * draws the same part of the whole batch's tensor: which that is follows from the shape of the whole one, noted before.
 */
#include "frontend/model/block.h"

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
    struct fe_param p = {
        .path = path, .type = ir_type_scalar(IR_U32), .init_preset = "zeros", .statistic = true, .stream = FE_NO_DRAW};
    if (stream) fe_draw(block->site.fe, stream, &p.stream, &p.draw);
    return fe_block_param(block, "", p) ? map_get(&state->by_path, path) : MAP_NONE;
}

void fe_block_fork(struct fe_block *block, const char *stream, bool used)
{
    uint32_t at, draw;
    if (used) counter(block, stream);
    else if (!block->site.fe->state->declared && !block->sharing) fe_draw(block->site.fe, stream, &at, &draw);
}

/* What this call drew, or one like it of the same layer before, in the trace that saw the whole batch. */
static const struct ir_type *whole_of(const struct fe_site *s, uint32_t counter)
{
    const struct fe_state *state = s->fe->state;
    size_t before = 0;
    for (size_t i = 0; i < s->trace->own->random_calls.count; i++)
        before += s->trace->own->random_calls.items[i] == counter;
    for (size_t i = 0; i < state->random_calls.count; i++)
        if (state->random_calls.items[i].counter == counter && !--before) return &state->random_calls.items[i].type;
    BUG("a call of a random layer was not noted");
}

ir_value fe_rows_within(struct ir_builder *b, ir_value rows, int64_t each)
{
    int64_t count = ir_type(b->f, rows)->rank ? ir_type(b->f, rows)->dim[0] : 1;
    int64_t two[] = {count, each}, one[] = {count * each}, first[] = {0};
    struct ir_type type = ir_type_of(IR_I32, 2, two);
    ir_value at = ir_broadcast(b, ir_reshape(b, rows, 1, &count), 2, two, first);
    at = ir_binary(b, OP_add, ir_binary(b, OP_mul, at, ir_number(b, type, (double)each)), ir_iota(b, type, 1));
    return ir_reshape(b, at, 1, one);
}

/* Which part of the whole tensor one of this shape is, in a trace that sees some rows: the dimension where the two
 * differ holds the rows (or a run of equal length for each). False: an error was recorded. */
static bool part_of_whole(struct fe_block *block, uint32_t counter, const struct ir_type *shape, struct fe_part *part)
{
    struct fe_site *s = &block->site;
    const struct fe_rows *rows = s->trace->rows;
    uint32_t differ = 0;
    part->whole = *whole_of(s, counter);
    for (uint32_t i = 0; i < shape->rank && part->whole.rank == shape->rank; i++)
        if (part->whole.dim[i] != shape->dim[i]) part->dim = i, differ++;
    int64_t each = differ ? shape->dim[part->dim] / rows->count : 1;
    if (differ > 1 || part->whole.rank != shape->rank ||
        each * rows->count != (differ ? shape->dim[part->dim] : rows->count))
        return fe_block_wrong(
            block, NULL, "E0111",
            "random numbers of the shape %s in a part of the batch are not supported yet: for the whole batch it is %s",
            ir_type_text(s->fe->arena, shape), ir_type_text(s->fe->arena, &part->whole));
    if (!differ) return true;
    part->at = ir_cast(s->b, fe_rows_within(s->b, rows->numbers, each), IR_U32);
    return true;
}

/* Numbers that are of no row: those of a part follow those of the parts before it, as those of examples do. */
static void part_of_its_own(struct fe_site *s, struct fe_part *part)
{
    ir_value first = s->trace->rows->numbers;
    if (ir_type(s->b->f, first)->rank)
        first = ir_reshape(s->b, ir_slice(s->b, first, (int64_t[]){0}, (int64_t[]){1}, (int64_t[]){1}), 0, NULL);
    part->at = ir_cast(s->b, first, IR_U32), part->dim = IR_MAX_RANK;
}

bool fe_block_draw(struct fe_block *block, const char *stream, const struct ir_type *shape, bool of_rows,
                   struct fe_drawn *out)
{
    struct fe_site *s = &block->site;
    struct fe *fe = s->fe;
    uint32_t index = counter(block, stream), fork[2];
    *out = (struct fe_drawn){.is_part = false};
    if (index == MAP_NONE) return false;
    const struct fe_param *p = &fe->state->params.items[index];
    ir_value *now = s->trace->statistics ? &s->trace->statistics[index] : NULL;
    ir_value count = now && *now ? *now : fe_trace_param(fe, s->trace, index);
    if (!now) /* nothing is kept: count here */
        for (size_t i = 0; i < s->trace->own->random_calls.count; i++)
            if (s->trace->own->random_calls.items[i] == index)
                count = ir_binary(s->b, OP_add, count, ir_number(s->b, p->type, 1));
    const struct fe_rows *rows = s->trace->rows;
    struct fe_random_call call = {index, *shape};
    if (!s->trace->train) fe->state->draws_always = true;
    if (rows && rows->apart && of_rows)
        return fe_block_wrong(block, NULL, "E0111",
                              "random numbers in a micro_vmap over %lld rows of a part of the batch are not supported "
                              "yet: the part has other rows",
                              (long long)rows->count);
    if (s->trace->notes_random) vec_push(fe->arena, &fe->state->random_calls, call);
    vec_push(fe->arena, &s->trace->own->random_calls, index);
    if (rows && (!of_rows || !ir_type(s->b->f, rows->numbers)->rank)) part_of_its_own(s, &out->part);
    else if (rows && !part_of_whole(block, index, shape, &out->part)) return false;
    out->is_part = out->part.at != 0;
    if (p->stream == FE_NO_DRAW) fork[0] = fork[1] = 0; /* jax.random.key(0) */
    else fe_fork_key(fe, p->stream, p->draw, fork);
    struct ir_type scalar = ir_type_scalar(IR_U32);
    ir_value key[] = {ir_number(s->b, scalar, fork[0]), ir_number(s->b, scalar, fork[1])};
    fe_fold_in(s->b, key, count, out->key);
    if (now) *now = ir_binary(s->b, OP_add, count, ir_number(s->b, p->type, 1));
    return true;
}

struct fe_val fe_block_mask(struct fe_block *block, const char *stream, const struct ir_type *shape, double rate)
{
    struct ir_builder *b = block->site.b;
    struct fe_drawn drawn;
    if (!fe_block_draw(block, stream, shape, true, &drawn)) return fe_bad();
    struct ir_type t = *shape;
    t.dtype = IR_F32;
    ir_value u = fe_random(b, drawn.key, &t, FE_DRAW_UNIFORM, 0, 1, drawn.is_part ? &drawn.part : NULL);
    return fe_val_tensor(ir_binary(b, OP_lt, u, ir_number(b, t, (double)(float)(1 - rate))));
}
