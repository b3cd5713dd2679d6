/* micro_vmap: a block that is a function of one row, applied to all rows of its inputs, a few at a time (as
 * optax.microbatching.micro_vmap). The block is traced in place on stand-ins for one row; what depends on them then
 * moves into a function of its own, so that expressions in the block may use anything around it. */
#include "frontend/model/body.h"
#include "frontend/expr/term.h"
#include "frontend/model/block.h"
#include <string.h>

enum { SIZE, BLOCK, KIND, REAL, COUNT = FE_MICRO_VMAP_ARGS };
const struct fe_arg fe_micro_vmap_args[] = {
    {"microbatch_size", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
    {"block", FE_OBJECT, FE_REQUIRED, NULL, NULL},
    {"accumulator", FE_ENUM, 0, "\"concat\"", "sum|mean|running_mean|concat"},
    {"num_real_microbatches", FE_EXPR, FE_NULLABLE, "null", NULL},
};
enum { SUM, MEAN, RUNNING_MEAN, CONCATENATE };

/* ---------------------------------------------------------------- the block on one row */

struct rows {
    struct fe_block *block;
    struct fe *fe;
    struct ir_builder *b;
    int64_t count, size; /* rows; at once */
    int64_t kind;
    bool apart;                                                     /* as in fe_rows */
    ir_value whole[FE_MAX_INPUTS + 1], stand_in[FE_MAX_INPUTS + 1]; /* the inputs, then the numbers of the rows */
    uint32_t inputs;
    VEC(ir_value) results; /* of one row: those of the block, then what it makes of running statistics */
    uint32_t own;          /* results of the block */
    VEC(uint32_t) running; /* the parameter of each of the others */
};

/* Values that nothing else computes: the results of a call that takes row 0. */
static void make_stand_ins(struct rows *r)
{
    static const int64_t start[IR_MAX_RANK] = {0}, stride[IR_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct ir_builder c = {
        .f = ir_func_new(r->fe->module, arena_format(r->fe->arena, "stand_in.%zu", r->fe->module->funcs.count), false)};
    for (uint32_t i = 0; i <= r->inputs; i++) {
        struct ir_type type = *ir_type(r->b->f, r->whole[i]);
        ir_value x = ir_param_new(&c, "x", type, -1);
        type.dim[0] = 1;
        x = ir_slice(&c, x, start, type.dim, stride);
        ir_result_add(&c, "x", ir_reshape(&c, x, type.rank - 1u, type.dim + 1), -1);
    }
    ir_value tuple = ir_call(r->b, c.f, r->whole, r->inputs + 1);
    for (uint32_t i = 0; i <= r->inputs; i++) r->stand_in[i] = ir_proj(r->b, tuple, i);
}

/* The tensors of a block's output, in order; the output with `values` in their places if given. */
static bool leaves(struct rows *r, struct fe_val *v, const ir_value *values, uint32_t *at)
{
    if (v->kind == FE_VAL_TUPLE) {
        struct fe_val *items = arena_copy(r->fe->arena, v->items, v->count * sizeof *items);
        for (uint32_t i = 0; i < v->count; i++)
            if (!leaves(r, &items[i], values, at)) return false;
        v->items = items;
        return true;
    }
    if (!fe_as_tensor(&r->block->site, v)) return false;
    if (values) *v = fe_tensor_val(values[(*at)++], v->weak);
    else vec_push(r->fe->arena, &r->results, v->tensor);
    return true;
}

/* Running statistics that the block changed by what is in its row become results beside those of the block. All rows
 * work on the same old ones, and the mean of what they make of these is left. */
static void running_results(struct rows *r, const ir_value *before)
{
    struct fe_trace *trace = r->block->site.trace;
    const struct fe_state *state = r->fe->state;
    ir_value first = r->stand_in[0];
    bool *inside = arena_new_array(r->fe->arena, bool, r->b->f->count);
    r->own = (uint32_t)r->results.count;
    if (!trace->statistics) return;
    for (uint32_t i = 0; i <= r->inputs; i++) {
        inside[r->stand_in[i]] = true;
        if (r->stand_in[i] < first) first = r->stand_in[i];
    }
    for (ir_value v = first; v < r->b->f->count; v++) {
        const struct ir_node *node = ir_get(r->b->f, v);
        for (uint32_t i = 0; i < node->arg_count; i++) inside[v] |= inside[node->args[i]];
    }
    for (uint32_t i = 0; i < state->params.count; i++) {
        ir_value now = trace->statistics[i];
        if (now == before[i] || !now || !inside[now]) continue;
        if (!ir_dtype_is_float((enum ir_dtype)ir_type(r->b->f, now)->dtype))
            BUG("%s differs from row to row and has no mean", state->params.items[i].path);
        vec_push(r->fe->arena, &r->results, now);
        vec_push(r->fe->arena, &r->running, i);
        trace->statistics[i] = before[i];
    }
}

/* The function of one row, (inputs.., number, captured..) -> results; NULL: an error was recorded. */
static struct ir_func *trace_row(struct rows *r, fe_json json, struct fe_val *out, struct fe_body *m)
{
    struct fe *fe = r->fe;
    struct fe_trace *trace = r->block->site.trace;
    size_t count = fe->state->params.count;
    const struct fe_rows *outer = trace->rows;
    struct fe_rows row = {r->stand_in[r->inputs], r->count, r->apart,
                          outer && outer->mapped ? outer->mapped : r->count};
    struct fe_val in[FE_MAX_INPUTS];
    ir_value *before = arena_new_array(fe->arena, ir_value, count + 1);
    if (trace->statistics) memcpy(before, trace->statistics, count * sizeof *before);
    for (uint32_t i = 0; i < r->inputs; i++) in[i] = fe_tensor_val(r->stand_in[i], r->block->in[i].weak);
    trace->rows = &row;
    *out = fe_block_child(r->block, json, "", r->block->env, in, r->inputs);
    trace->rows = outer;
    uint32_t at = 0;
    if (out->bad || !leaves(r, out, NULL, &at)) return NULL;
    running_results(r, before);
    fe_body_begin(m, fe, r->b->f, "row", r->stand_in[0]);
    for (uint32_t i = 0; i <= r->inputs; i++) fe_body_param(m, r->stand_in[i]);
    fe_body_end(m, r->results.items, (uint32_t)r->results.count);
    return m->b.f;
}

/* ---------------------------------------------------------------- all rows */

static int64_t kind_of(const struct rows *r, uint32_t result) { return result < r->own ? r->kind : RUNNING_MEAN; }

/* The function of a microbatch, (rows.., captured..) -> results. */
static struct ir_func *make_group(struct rows *r, struct ir_func *row)
{
    struct arena *arena = r->fe->arena;
    uint32_t n = (uint32_t)row->params.count;
    int64_t batched = r->inputs + 1;
    ir_value *args = arena_new_array(arena, ir_value, n + 1);
    struct ir_builder b = {
        .f = ir_func_new(r->fe->module, arena_format(arena, "rows.%zu", r->fe->module->funcs.count), false),
        .place = r->b->place};
    for (uint32_t i = 0; i < n; i++) {
        struct ir_type type = row->params.items[i].type;
        if (i < batched) {
            type = *ir_type(r->b->f, r->whole[i]);
            type.dim[0] = r->size;
        }
        args[i] = ir_param_new(&b, row->params.items[i].name, type, -1);
    }
    struct ir_node node = {.op = OP_vmap, .arg_count = n, .args = args, .func = ir_func_index(row)};
    node.attr[0] = (struct ir_ints){&batched, 1};
    ir_value tuple = ir_make(&b, node);
    for (uint32_t i = 0; i < r->results.count; i++) {
        ir_value v = ir_proj(&b, tuple, i);
        int64_t kind = kind_of(r, i);
        if (kind != CONCATENATE) v = kind == SUM ? term_sum_rows(&b, v) : term_mean_rows(&b, v);
        ir_result_add(&b, "y", v, -1);
    }
    return b.f;
}

static bool check_results(struct rows *r, fe_json where)
{
    static const char *const names[] = {"sum", "mean", "running_mean"};
    for (size_t i = 0; i < r->own; i++) {
        struct ir_type type = *ir_type(r->b->f, r->results.items[i]);
        bool summable = r->kind == SUM || ir_dtype_is_float((enum ir_dtype)type.dtype);
        if (type.rank + (r->kind == CONCATENATE) >= IR_MAX_RANK || (r->kind != CONCATENATE && !summable))
            return fe_block_wrong(
                r->block, where, "E0432", "the block gives %s, which %s", ir_type_text(r->fe->arena, &type),
                r->kind == CONCATENATE ? "has no room for the rows"
                                       : arena_format(r->fe->arena, "%s cannot accumulate", names[r->kind]));
    }
    return true;
}

/* The numbers of the rows in the whole batch: those of the rows around, or of a run of rows for each of these. */
static void number_rows(struct rows *r, const struct fe_rows *seen)
{
    bool one = seen && seen->numbers && !ir_type(r->b->f, seen->numbers)->rank;
    int64_t around = one ? 1 : seen && seen->numbers ? seen->count : 0;
    r->apart = seen && (seen->apart || (around && r->count % around));
    if (!seen && r->block->site.trace->notes_random) {
        int64_t rows;
        struct fe_lie lie = fe_rows_in(&r->block->site, r->whole[0], &rows);
        r->apart = lie.after ? lie.dim || lie.before > 1 || lie.turned : r->count != rows;
    }
    if (!around || r->apart) r->whole[r->inputs] = ir_iota(r->b, ir_type_of(IR_I32, 1, &r->count), 0);
    else if (!one && around == r->count) r->whole[r->inputs] = seen->numbers;
    else r->whole[r->inputs] = fe_rows_within(r->b, seen->numbers, r->count / around);
}

/* The inputs' rows, all of one number, in microbatches; false: an error was recorded. */
static bool read_rows(struct rows *r, const struct fe_value *args)
{
    struct fe_block *block = r->block;
    if (!block->in_count) return fe_needs_input(block), false;
    for (uint32_t i = 0; i < block->in_count; i++) {
        if (!fe_as_tensor(&block->site, &block->in[i])) return false;
        struct ir_type type = fe_type_at(&block->site, &block->in[i]);
        if (!type.rank || (i && type.dim[0] != r->count))
            return fe_block_wrong(block, NULL, "E0210",
                                  type.rank ? "micro_vmap: %s has other rows than the first input"
                                            : "micro_vmap: %s has no rows",
                                  fe_describe(&block->site, &block->in[i]));
        r->count = type.dim[0];
        r->whole[r->inputs++] = block->in[i].tensor;
    }
    if (r->count >= INT32_MAX) { /* rows are numbered by int32 */
        return fe_block_wrong(block, NULL, "E0103", "micro_vmap: an input of %lld rows; at most %d can be split",
                              (long long)r->count, INT32_MAX - 1);
    }
    r->size = args[SIZE].null ? r->count : args[SIZE].integer;
    if (r->count && r->size && r->count % r->size == 0) {
        number_rows(r, block->site.trace->rows);
        return true;
    }
    return fe_block_wrong(block, args[SIZE].json, "E0431",
                          "microbatches of %lld rows do not divide the input of %lld rows", (long long)r->size,
                          (long long)r->count);
}

ir_value fe_real_parts(struct fe *fe, struct fe_trace *trace, fe_json real, const struct fe_env *env, int64_t count)
{
    struct ir_builder *b = trace->b;
    struct fe_val v = fe_expr(fe, trace, real, env);
    ir_value n = v.bad ? 0 : fe_tensor(fe, trace, &v, real);
    if (!n) return 0;
    const struct ir_type *type = ir_type(b->f, n);
    bool number = v.kind == FE_VAL_NUMBER, integer = ir_dtype_is_integer((enum ir_dtype)type->dtype);
    if (type->rank || !integer || (number && v.number < 0)) {
        fe_error(fe, real, "E0432", "expected a number of microbatches, found %s",
                 type->rank || !integer ? ir_type_text(fe->arena, type) : fe_found(fe, real));
        return 0;
    }
    if (number && v.number > (double)count)
        fe_warning(fe, real, "W0432", "the batch has %lld microbatches: no more of them can run", (long long)count);
    return term_min(b, term_cast(b, term_tensor(n), IR_I32), term_integer(count)).v;
}

/* Where there are no microbatches there is no mean: what was there stays. */
static void leave_running(struct rows *r, ir_value real, const ir_value *now)
{
    struct fe_trace *trace = r->block->site.trace;
    for (size_t i = 0; i < r->running.count; i++) {
        uint32_t index = r->running.items[i];
        ir_value old = trace->statistics[index] ? trace->statistics[index] : fe_trace_param(r->fe, trace, index);
        struct fe_term any = term_lt(r->b, term_integer(0), term_tensor(real));
        trace->statistics[index] = term_where(r->b, any, term_tensor(now[i]), term_tensor(old)).v;
    }
}

struct fe_val fe_micro_vmap(struct fe_block *block, const struct fe_value *args)
{
    static const char *const kinds[] = {"sum", "mean", "running_mean", "concat"};
    struct fe *fe = block->site.fe;
    struct rows r = {.block = block, .fe = fe, .b = block->site.b};
    struct fe_val out;
    struct fe_body m;
    while (strcmp(kinds[r.kind], args[KIND].string)) r.kind++;
    if (!read_rows(&r, args)) return fe_bad();
    int64_t count = r.count / r.size, batched = r.inputs + 1, contiguous = 0;
    make_stand_ins(&r);
    struct ir_func *row = trace_row(&r, args[BLOCK].json, &out, &m);
    ir_value real = row && args[REAL].null ? ir_scalar(r.b, IR_I32, (double)count) : 0;
    if (row && !real) real = fe_real_parts(fe, block->site.trace, args[REAL].json, block->env, count);
    if (!real || !check_results(&r, args[BLOCK].json)) return fe_bad();
    struct ir_func *group = make_group(&r, row);

    uint32_t n = 0, results = (uint32_t)r.results.count, at = 0;
    ir_value *operands = arena_new_array(fe->arena, ir_value, group->params.count + 1),
             *values = arena_new_array(fe->arena, ir_value, results + 1);
    int64_t *each = arena_new_array(fe->arena, int64_t, results + 1);
    operands[n++] = real;
    for (uint32_t i = 0; i < batched; i++) operands[n++] = r.whole[i];
    for (size_t i = 0; i < m.captured.count; i++) operands[n++] = m.captured.items[i];
    for (uint32_t i = 0; i < results; i++) each[i] = kind_of(&r, i);
    struct ir_node node = {.op = OP_accumulate, .arg_count = n, .args = operands, .func = ir_func_index(group)};
    node.attr[0] = (struct ir_ints){&batched, 1};
    node.attr[1] = (struct ir_ints){&count, 1};
    node.attr[2] = (struct ir_ints){&contiguous, 1};
    node.attr[3] = (struct ir_ints){each, results};
    ir_value tuple = ir_make(r.b, node);
    for (uint32_t i = 0; i < results; i++) values[i] = ir_proj(r.b, tuple, i);
    leave_running(&r, real, values + r.own);
    return leaves(&r, &out, values, &at) ? out : fe_bad();
}
