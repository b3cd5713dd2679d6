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

/* What this call drew, or one like it of the same layer before, in the trace that saw the whole batch; NULL: it was not
 * noted, as where nothing sees a part. */
static const struct fe_random_call *whole_of(const struct fe_site *s, uint32_t counter)
{
    const struct fe_state *state = s->fe->state;
    size_t before = 0;
    for (size_t i = 0; i < s->trace->own->random_calls.count; i++)
        before += s->trace->own->random_calls.items[i] == counter;
    for (size_t i = 0; i < state->random_calls.count; i++)
        if (state->random_calls.items[i].counter == counter && !--before) return &state->random_calls.items[i];
    return NULL;
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

/* ---------------------------------------------------------------- where rows lie */

static bool is_in(const struct ir_ints *list, int64_t dim, int64_t *at)
{
    for (*at = 0; *at < list->n; ++*at)
        if (list->v[*at] == dim) return true;
    return false;
}

/* The dimension of operand k that is this one of the result; -1: none. */
static int64_t dim_of_operand(const struct ir_func *f, const struct ir_node *n, uint32_t k, int64_t dim)
{
    const struct ir_ints *a = n->attr;
    int64_t rank = ir_type(f, n->args[k])->rank, at;
    switch (n->op) {
    case OP_transpose: return a[0].v[dim];
    case OP_broadcast: return is_in(&a[0], dim, &at) ? at : -1;
    case OP_take: {
        int64_t own = ir_type(f, n->args[1])->rank, behind = dim - a[0].v[0];
        if (behind >= 0 && behind < own) return k ? behind : -1;
        return k ? -1 : behind < 0 ? dim : dim - own + 1;
    }
    case OP_dot: { /* batch, free of x, free of y; or free of x first */
        int64_t batch = a[0].n, x = ir_type(f, n->args[0])->rank - batch - a[2].n, first = a[6].n ? x : 0;
        if (dim >= first && dim < first + batch) return a[k].v[dim - first];
        int64_t free = dim < first ? dim : dim - batch - (k ? x : 0), unused;
        if (k != (dim >= batch + x)) return -1;
        for (at = 0; at < rank; at++)
            if (!is_in(&a[k], at, &unused) && !is_in(&a[2 + k], at, &unused) && !free--) return at;
        return -1;
    }
    default: break;
    }
    if (n->op < OP_reduce_sum || n->op > OP_argmin) return rank == n->type.rank ? dim : -1;
    for (at = 0; at < rank; at++) {
        int64_t unused;
        if (!is_in(&a[0], at, &unused) && !dim--) return at;
    }
    return -1;
}

/* Whether a value is an input with a batch; *rows: how many there are in that. */
static bool is_batched(const struct fe_site *s, ir_value v, int64_t *rows)
{
    const uint32_t *slots;
    bool found = false;
    for (uint32_t i = fe_inputs(s->fe, &slots); i-- > 0;) {
        if (!fe_input_batched(s->fe, i) || !s->trace->inputs[i]) continue;
        *rows = ir_type(s->b->f, s->trace->inputs[i])->dim[0];
        found |= s->trace->inputs[i] == v;
    }
    return found;
}

/* A function, and the loop around that it is the body of. */
struct within {
    const struct ir_func *f;
    const struct ir_node *loop;
    const struct within *outer;
};

static struct fe_lie lie_of(const struct fe_site *s, const struct within *in, ir_value v, int64_t dim);

/* Of what a loop makes, as its body makes it; of microbatches put together, as their first input. */
static struct fe_lie lie_of_result(const struct fe_site *s, const struct within *in, const struct ir_node *proj,
                                   int64_t dim)
{
    const struct ir_node *loop = ir_get(in->f, proj->args[0]);
    int64_t number = proj->attr[0].v[0], of_times = loop->op == OP_scan && number >= loop->attr[0].v[0];
    if (loop->op == OP_accumulate && loop->attr[3].v[number] == 3 && !dim) return lie_of(s, in, loop->args[1], 0);
    if ((loop->op != OP_scan && loop->op != OP_loop) || dim < of_times) return (struct fe_lie){0};
    struct within body = {in->f->module->funcs.items[loop->func], loop, in};
    return lie_of(s, &body, body.f->results.items[number].value, dim - of_times);
}

static struct fe_lie lie_of_param(const struct fe_site *s, const struct within *in, const struct ir_node *n,
                                  int64_t dim)
{
    const struct ir_node *loop = in->loop;
    int64_t number = n->attr[0].v[0], rest = loop->op == OP_scan ? number - loop->attr[0].v[0] : -1;
    bool of_time = rest >= 0 && rest < loop->attr[1].v[0];
    return loop->op == OP_scan || number ? lie_of(s, in->outer, loop->args[number], dim + of_time) : (struct fe_lie){0};
}

static struct fe_lie lie_of(const struct fe_site *s, const struct within *in, ir_value v, int64_t dim)
{
    const struct ir_node *n = ir_get(in->f, v);
    const uint64_t key = ((uint64_t)ir_func_index(in->f) << 32 | v) * IR_MAX_RANK + (uint64_t)dim;
    struct fe_trace_own *own = s->trace->own;
    struct fe_lie found = {0};
    int64_t extent = n->type.dim[dim], stride = 1, behind = 1, rows = 1, at;
    if (!own->lie_of.arena) own->lie_of = MAP(s->fe->arena);
    uint32_t known = map_get_number(&own->lie_of, key);
    if (known != MAP_NONE) return own->lies.items[known];
    bool input = is_batched(s, in->loop ? 0 : v, &rows);
    for (int64_t i = dim + 1; i < n->type.rank; i++) behind *= n->type.dim[i];
    if (input && !dim) found = (struct fe_lie){1, 1, dim, false};
    if (n->op == OP_proj) found = lie_of_result(s, in, n, dim);
    if (n->op == OP_param && in->loop) found = lie_of_param(s, in, n, dim);
    for (uint32_t k = n->op == OP_proj; k < n->arg_count && !found.after && extent && rows && extent % rows == 0; k++) {
        const struct ir_type *t = ir_type(in->f, n->args[k]);
        int64_t from = n->op == OP_reshape ? -1 : dim_of_operand(in->f, n, k, dim);
        if (from >= 0 && from < t->rank && t->dim[from] == extent) found = lie_of(s, in, n->args[k], from);
        for (int64_t i = n->op == OP_reshape ? t->rank - 1 : -1; i >= 0 && !found.after; stride *= t->dim[i--]) {
            struct fe_lie l = lie_of(s, in, n->args[k], i);
            int64_t after = l.after * stride / behind; /* from one row to the next: in elements, then along dim */
            if (!after || l.after * stride % behind || extent % (after * rows)) continue;
            found = (struct fe_lie){extent / (after * rows), after, dim, l.turned};
        }
    }
    found.dim = dim;
    found.turned |= n->op == OP_reverse && is_in(&n->attr[0], dim, &at);
    found.turned |= n->op == OP_extend && (n->attr[0].v[dim] || n->attr[1].v[dim]);
    map_set_number(&own->lie_of, key, (uint32_t)own->lies.count);
    vec_push(s->fe->arena, &own->lies, found);
    return found;
}

struct fe_lie fe_rows_in(const struct fe_site *s, ir_value v, int64_t *rows)
{
    const struct within all = {.f = s->b->f};
    struct fe_lie lie = {0};
    *rows = 1;
    is_batched(s, v, rows);
    for (uint32_t i = 0; v && i < ir_type(s->b->f, v)->rank && !lie.after; i++) lie = lie_of(s, &all, v, i);
    return lie;
}

/* Which part of the whole tensor one of this shape is, in a trace that sees some rows: the dimension where the two
 * differ holds the rows (or several numbers for each, as those of `like` lie). False: an error was recorded. */
static bool part_of_whole(struct fe_block *block, uint32_t counter, const struct ir_type *shape, ir_value like,
                          struct fe_part *part)
{
    struct fe_site *s = &block->site;
    const struct fe_rows *rows = s->trace->rows;
    uint32_t differ = 0;
    const struct fe_random_call *call = whole_of(s, counter);
    if (!call) BUG("a call of a random layer was not noted");
    part->whole = call->type;
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
    struct fe_lie lie = each > 1 && like ? call->lie : (struct fe_lie){1, each, part->dim, false};
    if (lie.dim != part->dim || lie.before * lie.after != each || call->lie.turned)
        return fe_block_wrong(block, NULL, "E0111",
                              "random numbers of the shape %s in a part of the batch are not supported yet: where its "
                              "rows lie in dimension %u is not known",
                              ir_type_text(s->fe->arena, shape), (unsigned)part->dim);
    ir_value at = fe_rows_within(s->b, rows->numbers, lie.after);
    if (lie.before > 1) {
        const int64_t two[] = {lie.before, rows->count * lie.after}, one[] = {1};
        struct ir_type type = ir_type_of(IR_I32, 2, two);
        ir_value first = ir_number(s->b, type, (double)(part->whole.dim[part->dim] / lie.before));
        first = ir_binary(s->b, OP_mul, ir_iota(s->b, type, 0), first);
        at = ir_binary(s->b, OP_add, first, ir_broadcast(s->b, at, 2, two, one));
        at = ir_reshape(s->b, at, 1, &shape->dim[part->dim]);
    }
    part->at = ir_cast(s->b, at, IR_U32);
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

bool fe_block_draw(struct fe_block *block, const char *stream, const struct ir_type *shape, bool of_rows, ir_value like,
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
    struct fe_random_call call = {index, *shape, {0}, 1, rows ? rows->mapped : 0, rows && rows->apart};
    if (!s->trace->train) fe->state->draws_always = true;
    call.lie = fe_rows_in(s, s->trace->notes_random && !rows ? like : 0, &call.batch);
    if (s->trace->notes_random) vec_push(fe->arena, &fe->state->random_calls, call);
    vec_push(fe->arena, &s->trace->own->random_calls, index);
    const struct fe_random_call *noted = s->trace->notes_random ? NULL : whole_of(s, index);
    bool other = rows &&
                 (rows->apart || (noted && (noted->apart || noted->mapped * call.batch != call.mapped * noted->batch)));
    if (other && of_rows && !s->trace->notes_random)
        return fe_block_wrong(block, NULL, "E0111",
                              "random numbers in a micro_vmap over %lld rows of a part of the batch are not supported "
                              "yet: the part has other rows",
                              (long long)rows->count);
    if (rows && (!of_rows || !ir_type(s->b->f, rows->numbers)->rank)) part_of_its_own(s, &out->part);
    else if (rows && !part_of_whole(block, index, shape, like, &out->part)) return false;
    out->is_part = out->part.at != 0;
    if (p->stream == FE_NO_DRAW) fork[0] = fork[1] = 0; /* jax.random.key(0) */
    else fe_fork_key(fe, p->stream, p->draw, fork);
    struct ir_type scalar = ir_type_scalar(IR_U32);
    ir_value key[] = {ir_number(s->b, scalar, fork[0]), ir_number(s->b, scalar, fork[1])};
    fe_fold_in(s->b, key, count, out->key);
    if (now) *now = ir_binary(s->b, OP_add, count, ir_number(s->b, p->type, 1));
    return true;
}

struct fe_val fe_block_mask(struct fe_block *block, const char *stream, const struct ir_type *shape,
                            const struct fe_val *like, double rate)
{
    struct ir_builder *b = block->site.b;
    struct fe_drawn drawn;
    if (!fe_block_draw(block, stream, shape, true, like->tensor, &drawn)) return fe_bad();
    struct ir_type t = *shape;
    t.dtype = IR_F32;
    ir_value u = fe_random(b, drawn.key, &t, FE_DRAW_UNIFORM, 0, 1, drawn.is_part ? &drawn.part : NULL);
    return fe_val_tensor(ir_binary(b, OP_lt, u, ir_number(b, t, (double)(float)(1 - rate))));
}
