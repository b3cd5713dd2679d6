/* Rules of the interpreter that run other functions: calls, loops, and the markers that become loops. */
#include "ir/eval.h"
#include <string.h>

static const struct ir_func *body_of(const struct eval_call *c) { return c->f->module->funcs.items[c->n->func]; }

static struct ir_type result_type(const struct ir_func *f, uint32_t i)
{
    return f->nodes[f->results.items[i].value].type;
}

static void copy_tensor(struct ir_tensor *to, const struct ir_tensor *from)
{
    eval_move(to->v, from->v, ir_type_elements(&to->type));
}

void eval_proj(struct eval_call *c) { copy_tensor(c->out->t, &c->cells[c->n->args[0]].t[c->n->attr[0].v[0]]); }

/* Storage for the results of `body`, with the types of `types` (NULL: those of the results). */
static void new_results(struct eval_call *c, const struct ir_func *body, struct eval_cell *cell)
{
    struct arena scratch = {0};
    struct ir_type *types = arena_new_array(&scratch, struct ir_type, body->results.count);
    for (uint32_t i = 0; i < body->results.count; i++) types[i] = result_type(body, i);
    eval_cell_new(c->e, cell, types, (uint32_t)body->results.count);
    arena_free(&scratch);
}

void eval_call(struct eval_call *c)
{
    const struct ir_func *body = body_of(c);
    struct arena scratch = {0};
    struct ir_tensor *args = arena_new_array(&scratch, struct ir_tensor, c->n->arg_count);
    for (uint32_t i = 0; i < c->n->arg_count; i++) args[i] = *eval_arg(c, i);
    new_results(c, body, c->out);
    eval_run(c->e, body, args, c->out->t);
    arena_free(&scratch);
}

void eval_loop(struct eval_call *c)
{
    const struct ir_func *body = body_of(c);
    uint32_t carried = (uint32_t)c->n->attr[0].v[0], captured = c->n->arg_count - 1 - carried;
    bool conditional = c->n->attr[1].n && c->n->attr[1].v[0];
    int64_t limit = (int64_t)eval_arg(c, 0)->v[0];
    struct arena scratch = {0};
    struct eval_cell next = {0};
    double counter = 0;
    struct ir_tensor *args = arena_new_array(&scratch, struct ir_tensor, 1 + carried + captured);
    new_results(c, body, c->out);
    new_results(c, body, &next);
    args[0] = (struct ir_tensor){ir_type_scalar(IR_I32), &counter};
    for (uint32_t i = 0; i < captured; i++) args[1 + carried + i] = *eval_arg(c, 1 + carried + i);
    for (uint32_t i = 0; i < carried; i++) copy_tensor(&c->out->t[i], eval_arg(c, 1 + i));
    for (int64_t i = 0; i < limit; i++) {
        if (conditional && c->out->t[0].v[0] == 0) break;
        counter = (double)i;
        for (uint32_t k = 0; k < carried; k++) args[1 + k] = c->out->t[k];
        eval_run(c->e, body, args, next.t);
        struct ir_tensor *last = c->out->t;
        c->out->t = next.t;
        next.t = last;
    }
    eval_cell_drop(c->e, &next);
    arena_free(&scratch);
}

/* ---------------------------------------------------------------- microbatches */

enum { SPLIT_CONTIGUOUS = 1 };
enum { KIND_SUM, KIND_MEAN, KIND_RUNNING_MEAN, KIND_CONCATENATE, KIND_CARRY };

/* Row of the whole batch that row j of microbatch i is, of `count` microbatches with `rows` rows each. */
static int64_t batch_row(int64_t split, int64_t i, int64_t j, int64_t count, int64_t rows)
{
    return split == SPLIT_CONTIGUOUS ? i * rows + j : i + j * count;
}

static void read_part(struct ir_tensor *part, const struct ir_tensor *whole, int64_t split, int64_t i, int64_t count)
{
    int64_t rows = part->type.dim[0], row = rows ? ir_type_elements(&part->type) / rows : 0;
    for (int64_t j = 0; j < rows; j++)
        eval_move(part->v + j * row, whole->v + batch_row(split, i, j, count, rows) * row, row);
}

/* out * p + part * (1 - p) with p = i / (i + 1), which is float32 in any case: each operation is rounded. */
static void add_to_mean(const struct eval_call *c, struct ir_tensor *out, const struct ir_tensor *part, int64_t i)
{
    enum ir_dtype dtype = (enum ir_dtype)out->type.dtype, wide = dtype == IR_F64 ? IR_F64 : IR_F32;
    double weight[2] = {(double)i / (double)(i + 1), 0}; /* of out, of part */
    eval_to_dtype(c->e->precision, wide, weight, 1);
    weight[1] = 1 - weight[0];
    eval_to_dtype(c->e->precision, wide, weight, 2);
    eval_to_dtype(c->e->precision, dtype, weight, 2);
    for (int64_t k = 0, n = ir_type_elements(&part->type); k < n; k++) {
        double terms[2] = {out->v[k] * weight[0], part->v[k] * weight[1]};
        eval_to_dtype(c->e->precision, dtype, terms, 2);
        out->v[k] = terms[0] + terms[1];
    }
}

/* Adds result `part` of microbatch i to the accumulated `out`. */
static void add_part(struct eval_call *c, struct ir_tensor *out, const struct ir_tensor *part, int64_t kind, int64_t i)
{
    int64_t count = c->n->attr[1].v[0], n = ir_type_elements(&part->type);
    if (kind == KIND_CONCATENATE) {
        int64_t rows = part->type.dim[0], row = rows ? n / rows : 0;
        for (int64_t j = 0; j < rows; j++)
            eval_move(out->v + batch_row(c->n->attr[2].v[0], i, j, count, rows) * row, part->v + j * row, row);
        return;
    }
    if (kind == KIND_CARRY) {
        eval_move(out->v, part->v, n);
        return;
    }
    if (kind == KIND_RUNNING_MEAN) add_to_mean(c, out, part, i);
    else
        for (int64_t k = 0; k < n; k++) out->v[k] += part->v[k];
    eval_to_dtype(c->e->precision, (enum ir_dtype)out->type.dtype, out->v, n);
}

void eval_accumulate(struct eval_call *c)
{
    const struct ir_func *body = body_of(c);
    uint32_t batched = (uint32_t)c->n->attr[0].v[0], results = (uint32_t)body->results.count;
    int64_t count = c->n->attr[1].v[0], split = c->n->attr[2].v[0];
    const int64_t *kinds = c->n->attr[3].v;
    int64_t run_count = (int64_t)eval_arg(c, 0)->v[0];
    struct arena scratch = {0};
    struct eval_cell parts = {0}, one = {0};
    struct ir_tensor *args = arena_new_array(&scratch, struct ir_tensor, c->n->arg_count - 1);
    struct ir_type *types = arena_new_array(&scratch, struct ir_type, batched > results ? batched : results);
    for (uint32_t i = 0; i < batched; i++) {
        types[i] = eval_arg(c, 1 + i)->type;
        types[i].dim[0] /= count;
    }
    eval_cell_new(c->e, &parts, types, batched);
    for (uint32_t i = 0; i + 1 < c->n->arg_count; i++) args[i] = i < batched ? parts.t[i] : *eval_arg(c, 1 + i);
    for (uint32_t i = 0; i < results; i++) {
        types[i] = result_type(body, i);
        if (kinds[i] == KIND_CONCATENATE) types[i].dim[0] *= count;
    }
    eval_cell_new(c->e, c->out, types, results);
    new_results(c, body, &one);
    uint32_t carried = c->n->arg_count; /* what is carried stands last: the body reads it where it is accumulated */
    for (uint32_t i = 0; i < results; i++) carried -= kinds[i] == KIND_CARRY;
    for (uint32_t i = 0; i < results; i++) {
        struct ir_tensor *out = &c->out->t[i];
        if (kinds[i] != KIND_CARRY) memset(out->v, 0, (size_t)ir_type_elements(&types[i]) * sizeof(double));
        else copy_tensor(out, eval_arg(c, carried)), args[carried++ - 1] = *out;
    }
    for (int64_t i = 0; i < run_count && i < count; i++) {
        for (uint32_t k = 0; k < batched; k++) read_part(&parts.t[k], eval_arg(c, 1 + k), split, i, count);
        eval_run(c->e, body, args, one.t);
        for (uint32_t k = 0; k < results; k++) add_part(c, &c->out->t[k], &one.t[k], kinds[k], i);
    }
    for (uint32_t i = 0; i < results; i++)
        if (kinds[i] == KIND_MEAN) {
            int64_t n = ir_type_elements(&types[i]);
            for (int64_t k = 0; k < n; k++) c->out->t[i].v[k] /= (double)count;
            eval_to_dtype(c->e->precision, (enum ir_dtype)types[i].dtype, c->out->t[i].v, n);
        }
    eval_cell_drop(c->e, &parts);
    eval_cell_drop(c->e, &one);
    arena_free(&scratch);
}

/* ---------------------------------------------------------------- rows */

/* Runs the body `times` times: of the operands the first `carried` are what the run before gave, of the next `stacked`
 * it reads one row, the others as they are. Results that are not carried are rows. */
static void eval_rows(struct eval_call *c, uint32_t carried, uint32_t stacked, int64_t times, bool reverse)
{
    const struct ir_func *body = body_of(c);
    uint32_t args_count = c->n->arg_count, results = (uint32_t)body->results.count;
    struct arena scratch = {0};
    struct eval_cell one = {0};
    struct ir_tensor *args = arena_new_array(&scratch, struct ir_tensor, args_count + 1);
    struct ir_type *types = arena_new_array(&scratch, struct ir_type, results + 1);
    for (uint32_t i = 0; i < results; i++) {
        struct ir_type type = result_type(body, i);
        types[i] = type;
        if (i < carried) continue;
        for (uint32_t d = 0; d < type.rank; d++) types[i].dim[d + 1] = type.dim[d];
        types[i].dim[0] = times;
        types[i].rank++;
    }
    eval_cell_new(c->e, c->out, types, results);
    new_results(c, body, &one);
    for (uint32_t i = 0; i < carried; i++) copy_tensor(&c->out->t[i], eval_arg(c, i));
    for (int64_t step = 0; step < times; step++) {
        int64_t row = reverse ? times - 1 - step : step;
        for (uint32_t i = 0; i < args_count; i++) {
            args[i] = i < carried ? c->out->t[i] : *eval_arg(c, i);
            if (i < carried || i >= carried + stacked) continue;
            args[i].type = body->params.items[i].type;
            args[i].v += row * ir_type_elements(&args[i].type);
        }
        eval_run(c->e, body, args, one.t);
        for (uint32_t i = 0; i < results; i++) {
            int64_t n = ir_type_elements(&one.t[i].type);
            eval_move(c->out->t[i].v + (i < carried ? 0 : row * n), one.t[i].v, n);
        }
    }
    eval_cell_drop(c->e, &one);
    arena_free(&scratch);
}

void eval_vmap(struct eval_call *c)
{
    eval_rows(c, 0, (uint32_t)c->n->attr[0].v[0], eval_arg(c, 0)->type.dim[0], false);
}

void eval_scan(struct eval_call *c)
{
    const struct ir_ints *attr = c->n->attr;
    eval_rows(c, (uint32_t)attr[0].v[0], (uint32_t)attr[1].v[0], attr[2].v[0], attr[3].v[0] != 0);
}
