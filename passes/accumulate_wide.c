/* --numerics invariant: a microbatch that holds no whole leaf of a sum over rows is made together with its neighbours.
 * Its body is remade with so many times as many rows: accumulate_rows.c has found where they lie in every value, and
 * that no row knows of another, so each of them is what it was. What is the same for all rows is repeated where it
 * stands beside them. */
#include "passes/accumulate_rows.h"
#include "passes/shard_int.h"

/* A value that is the same along dimension d, where there are more rows. */
static ir_value repeated(struct pass_wide *w, ir_value v, uint32_t d)
{
    const struct ir_type *is = ir_type(w->b->f, w->map[v]);
    struct ir_type type = *is;
    int64_t start[IR_MAX_RANK] = {0}, limit[IR_MAX_RANK], stride[IR_MAX_RANK], dims[IR_MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) limit[i] = i == d ? 1 : type.dim[i], stride[i] = 1, dims[i] = i;
    ir_value one = ir_slice(w->b, w->map[v], start, limit, stride);
    type.dim[d] *= w->times;
    return ir_broadcast(w->b, one, type.rank, type.dim, dims);
}

static ir_value of_kind(struct pass_wide *w, ir_value v, enum pass_rows_kind kind, int8_t dim)
{
    bool repeats = kind == ROW && w->in->kind[v] != ROW;
    return repeats ? repeated(w, v, (uint32_t)dim) : w->map[v];
}

/* More rows are more terms of one sum. Where each step rounded to 16 bits, all behind the first few hundred would
 * vanish beside what is summed already: it is rounded once. */
static ir_value made(struct pass_wide *w, ir_value v)
{
    struct ir_node n = pass_wide_node(w, v);
    enum ir_dtype dtype = (enum ir_dtype)n.type.dtype;
    bool sums = n.op == OP_reduce_sum || n.op == OP_scatter_add;
    if (!w->leaf || w->leaf[v] == UINT8_MAX || !sums || dtype != IR_BF16) return ir_make(w->b, n);
    ir_value *args = arena_new_array(&w->pass->scratch, ir_value, n.arg_count);
    for (uint32_t i = 0; i < n.arg_count; i++)
        args[i] = ir_type(w->b->f, n.args[i])->dtype == IR_BF16 ? ir_cast(w->b, n.args[i], IR_F32) : n.args[i];
    n.args = args;
    n.type.dtype = IR_F32;
    return ir_cast(w->b, ir_make(w->b, n), dtype);
}

void pass_wide_nodes(struct pass_wide *w)
{
    struct arena *a = &w->pass->scratch;
    const struct pass_known *in = w->in;
    const struct ir_func *f = in->f;
    bool *live = ir_live(f, a);
    w->map = arena_new_array(a, ir_value, f->count);
    for (size_t i = 0; i < f->params.count; i++) {
        ir_value v = f->params.items[i].value;
        struct ir_type type = f->params.items[i].type;
        if (in->kind[v] == ROW) type.dim[in->dim[v]] *= w->times;
        w->map[v] = ir_param_new(w->b, f->params.items[i].name, type, -1);
    }
    for (ir_value v = 1; v < f->count; v++) {
        if (!live[v] || w->map[v]) continue;
        w->b->place = ir_get(f, v)->place;
        w->map[v] = made(w, v);
    }
}

/* The body of a loop; what it hands on has rows where its next round does. */
static uint32_t wide_body(struct pass_wide *outer, const struct pass_known *in)
{
    const struct ir_func *f = in->f;
    struct ir_builder b = {.f = pass_new_body(outer->pass, outer->b->f->module, f, "wide")};
    struct pass_wide w = {.pass = outer->pass, .in = in, .times = outer->times, .b = &b};
    pass_wide_nodes(&w);
    for (size_t i = 0; i < f->results.count; i++) {
        ir_value next = f->params.items[i + 1].value;
        ir_result_add(&b, f->results.items[i].name,
                      of_kind(&w, f->results.items[i].value, in->kind[next], in->dim[next]), -1);
    }
    return ir_func_index(b.f);
}

struct ir_node pass_wide_node(struct pass_wide *w, ir_value v)
{
    struct arena *a = &w->pass->scratch;
    const struct pass_known *in = w->in, *body = in->inner[v];
    struct ir_node made = *ir_get(in->f, v);
    ir_value *args = arena_new_array(a, ir_value, made.arg_count + 1u);
    struct shard_rule rule;
    int8_t factor = -1;
    for (uint32_t i = 0; i < made.arg_count; i++) args[i] = w->map[made.args[i]];
    const ir_value *old = made.args;
    made.args = args;
    if (w->times == 1) return made;
    if (body) {
        for (uint32_t i = 1; i < made.arg_count; i++) {
            ir_value param = body->f->params.items[i].value;
            args[i] = of_kind(w, old[i], body->kind[param], body->dim[param]);
        }
        made.func = wide_body(w, body);
        return made;
    }
    if (made.op == OP_proj) return made;
    shard_rule_of(in->f, ir_get(in->f, v), a, &rule);
    for (uint32_t i = 0; i < made.arg_count; i++)
        if (in->kind[old[i]] == ROW) factor = rule.arg[i][in->dim[old[i]]];
    for (uint32_t i = 0; i < made.arg_count; i++)
        for (uint32_t d = 0; factor >= 0 && in->kind[old[i]] != ROW && d < ir_type(in->f, old[i])->rank; d++)
            if (rule.arg[i][d] == factor) args[i] = repeated(w, old[i], d);
    if (in->kind[v] != ROW) return made;
    int8_t dim = in->dim[v];
    made.type.dim[dim] *= w->times;
    if (made.op == OP_slice || made.op == OP_dynamic_slice) { /* they take all rows */
        struct ir_ints *all = &made.attr[made.op == OP_slice ? 1 : 0];
        int64_t *extents = arena_new_array(a, int64_t, all->n);
        for (uint32_t d = 0; d < all->n; d++) extents[d] = all->v[d] * ((int8_t)d == dim ? w->times : 1);
        all->v = extents;
    }
    return made;
}

bool pass_wide_can(const struct pass_known *in, struct arena *a)
{
    bool *live = ir_live(in->f, a);
    for (ir_value v = 1; v < in->f->count; v++) {
        if (!live[v]) continue;
        if (in->outer && in->kind[v] == OTHER) return false;
        if (in->inner[v] && !pass_wide_can(in->inner[v], a)) return false;
    }
    return true;
}
