/* --numerics invariant: microbatches give the bits of the whole batch. What a microbatch computes is taken apart: what
 * every row is by itself, sums over rows, and what is linear in these (the division of a mean, penalties that know no
 * row). Sums over rows are added over microbatches as the tree over the whole batch has them (passes/invariant.c),
 * those of scattered rows row by row; what is linear in them is computed once, behind the loop. Loops of a microbatch
 * (recurrent layers) may hand rows on to their next round. All else would depend on how many microbatches there are,
 * and is refused at its place: statistics of a microbatch, roots of means, rows that are counted from 0. So it does not
 * matter which rows a microbatch has: all are runs of rows, and as long as the longest leaf (accumulate_wide.c).
 *
 * A mean over 2^k microbatches of 2^-k times as many rows scales every sum by a power of two, which rounds nothing. For
 * other numbers of microbatches the frontend makes 2^k of them (frontend/step/regroup.c). */
#include "passes/accumulate_rows.h"
#include "passes/shard_int.h"
#include <string.h>

static enum pass_rows_kind other(struct pass_known *in, ir_value v, const char *why)
{
    in->why[v] = why;
    in->place[v] = ir_get(in->f, v)->place;
    return OTHER;
}

static uint32_t carried_by(const struct pass_known *in, ir_value loop)
{
    return (uint32_t)ir_get(in->f, loop)->attr[0].v[0];
}

static bool is_uniform(struct arena *, const struct pass_known *, ir_value v, uint32_t d);

/* Of a loop: what it begins with, and what rounds make of it. */
static bool is_uniform_param(struct arena *a, const struct pass_known *in, uint32_t param, uint32_t d)
{
    if (!in->outer || !param) return in->outer != NULL;
    return !(in->varies[param] >> d & 1) && is_uniform(a, in->outer, ir_get(in->outer->f, in->loop)->args[param], d);
}

/* Is the value the same along a dimension? That is what it is made of, along the same factor. */
static bool is_uniform(struct arena *a, const struct pass_known *in, ir_value v, uint32_t d)
{
    const struct ir_node *n = ir_get(in->f, v);
    struct shard_rule rule;
    if (ir_is_number(n) || n->type.dim[d] == 1) return true;
    if (n->op == OP_iota) return n->attr[0].v[0] != (int64_t)d;
    if (n->op == OP_param) return is_uniform_param(a, in, (uint32_t)n->attr[0].v[0], d);
    if (n->op == OP_proj && in->inner[n->args[0]])
        return is_uniform_param(a, in->inner[n->args[0]], (uint32_t)n->attr[0].v[0] + 1, d);
    shard_rule_of(in->f, n, a, &rule);
    int8_t factor = rule.result[d];
    bool all = factor >= 0 && !((rule.whole | rule.window | rule.blocks) >> factor & 1), any = n->op == OP_broadcast;
    for (uint32_t i = 0; i < n->arg_count; i++)
        for (uint32_t e = 0; all && e < ir_type(in->f, n->args[i])->rank; e++)
            if (rule.arg[i][e] == factor) any = true, all = is_uniform(a, in, n->args[i], e);
    return all && any;
}

/* ---------------------------------------------------------------- what a node is */

static enum pass_rows_kind linear(struct pass_known *r, ir_value v)
{
    const struct ir_node *n = ir_get(r->f, v);
    uint32_t sums = 0, affine = 0, same = 0;
    bool first = n->arg_count && r->kind[n->args[0]] != SAME, moves = ir_ops[n->op].emit == EMIT_view;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        uint8_t kind = r->kind[n->args[i]];
        sums += kind != SAME, affine += kind == AFFINE, same += kind == SAME;
    }
    enum pass_rows_kind kept = affine ? AFFINE : LINEAR;
    switch ((enum ir_op)n->op) {
    case OP_add:
    case OP_sub: return same ? AFFINE : kept;
    case OP_mul:
    case OP_dot: return sums == 1 ? kept : other(r, v, "a product of sums over rows");
    case OP_div:
        if (!ir_dtype_is_float((enum ir_dtype)n->type.dtype))
            return other(r, v, "a quotient of a sum over rows without what is left over");
        return sums == 1 && first ? kept : other(r, v, "a quotient by a sum over rows");
    case OP_concat: return same ? AFFINE : kept;
    case OP_select: return r->kind[n->args[0]] == SAME ? (same > 1 ? AFFINE : kept) : other(r, v, "a choice by a sum");
    case OP_scatter_add: return affine || !shard_is_zero(r->f, n->args[0]) ? AFFINE : LINEAR;
    case OP_neg:
    case OP_extend:
    case OP_reduce_sum:
    case OP_stop_gradient:
    case OP_sharding_constraint: return kept;
    case OP_cast: return ir_dtype_is_float((enum ir_dtype)n->type.dtype) ? kept : other(r, v, "a sum made an integer");
    default: return moves ? kept : other(r, v, "a function of a sum over rows that is not linear");
    }
}

static enum pass_rows_kind leaf(struct pass_rows *r, struct pass_known *in, ir_value v, uint8_t how)
{
    if (in->outer) return other(in, v, "a sum over rows in every round of a loop");
    enum ir_dtype dtype = (enum ir_dtype)ir_type(r->flat, v)->dtype;
    if (dtype == IR_F16) return other(in, v, "a sum of float16, whose parts vanish or not as they are scaled");
    if (dtype == IR_BF16 && how == SUM && r->exact)
        return other(in, v, "a sum of bfloat16 that pass widen has not seen");
    r->leaf[v] = how;
    r->number[v] = (uint32_t)r->leaves.count;
    vec_push(&r->k->pass->scratch, &r->leaves, v);
    return LINEAR;
}

/* Is it the gradients of single examples, by factors? Their sum over rows, the first dimensions, becomes a product over
 * rows (ghost.c) and has the leaves of one. */
static bool of_examples(const struct pass_known *in, ir_value v, uint32_t dims, int depth)
{
    const struct ir_node *n = ir_get(in->f, v);
    if (in->kind[v] != ROW || !depth) return false;
    switch ((enum ir_op)n->op) {
    case OP_dot: return n->attr[0].n == dims;
    case OP_mul:
    case OP_div:
        if (of_examples(in, n->args[1], dims, depth - 1)) return true;
        return of_examples(in, n->args[0], dims, depth - 1);
    case OP_neg:
    case OP_cast:
    case OP_reshape:
    case OP_stop_gradient:
    case OP_sharding_constraint: return of_examples(in, n->args[0], dims, depth - 1);
    default: return false;
    }
}

/* A sum over rows, whose tree is over them first. */
static enum pass_rows_kind sum_of_rows(struct pass_rows *r, struct pass_known *in, ir_value v)
{
    const struct ir_node *n = ir_get(in->f, v);
    const struct ir_type *x = ir_type(in->f, n->args[0]);
    if (n->op == OP_scatter_add) return leaf(r, in, v, CARRY);
    if (n->op != OP_dot && n->op != OP_reduce_sum) return other(in, v, "rows that depend on each other");
    struct ir_ints dims = n->attr[n->op == OP_dot ? 2 : 0];
    int64_t rest = 1, rows = x->dim[in->dim[n->args[0]]];
    for (uint32_t i = 0; i < dims.n; i++) rest *= dims.v[i] == in->dim[n->args[0]] ? 1 : x->dim[dims.v[i]];
    bool examples = n->op == OP_reduce_sum && of_examples(in, n->args[0], dims.n, 8);
    if (n->op == OP_reduce_sum) rest = examples ? 1 : IR_LEAF; /* as in invariant.c */
    int64_t leaf_rows = ir_leaf(rows * r->k->count, rest > 0 ? rest : 1);
    if (examples && leaf_rows % 2 && r->k->count > 1) leaf_rows *= 2; /* the product is halved along its rows then */
    bool floats = ir_dtype_is_float((enum ir_dtype)n->type.dtype);
    if (floats && leaf_rows > rows * r->times) r->times = leaf_rows / rows;
    return leaf(r, in, v, SUM);
}

static enum pass_rows_kind row(struct pass_rows *r, struct pass_known *in, ir_value v)
{
    const struct ir_node *n = ir_get(in->f, v);
    struct shard_rule rule;
    int8_t factor = -1;
    shard_rule_of(in->f, n, &r->k->pass->scratch, &rule);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        if (in->kind[n->args[i]] != ROW) continue;
        int8_t is = rule.arg[i][in->dim[n->args[i]]];
        if (is < 0 || (factor >= 0 && is != factor)) return other(in, v, "rows that depend on each other");
        factor = is;
    }
    for (uint32_t i = 0; i < n->arg_count; i++)
        for (uint32_t d = 0; in->kind[n->args[i]] != ROW && d < ir_type(in->f, n->args[i])->rank; d++)
            if (rule.arg[i][d] == factor && !is_uniform(&r->k->pass->scratch, in, n->args[i], d))
                return other(in, v, "rows that are numbered by microbatch");
    if (rule.summed >> factor & 1 && n->op != OP_take) return sum_of_rows(r, in, v);
    if ((rule.extremum | rule.whole | rule.summed | rule.window) >> factor & 1) /* some of the rows, or others beside */
        return other(in, v, "rows that depend on each other");
    for (uint32_t d = 0; d < n->type.rank; d++)
        if (rule.result[d] == factor) {
            if (n->type.dim[d] % r->rows) return other(in, v, "groups of rows");
            in->dim[v] = (int8_t)d;
            return ROW;
        }
    return other(in, v, "rows that depend on each other");
}

/* ---------------------------------------------------------------- loops */

static struct pass_known *new_known(struct pass_rows *r, const struct ir_func *f);
static void look_into(struct pass_rows *r, struct pass_known *in);

/* What a loop's body is given, and what its next round is. Has a round made other than what it began with? */
static bool enter(struct arena *a, struct pass_known *body, uint32_t param, bool first)
{
    const struct pass_known *outer = body->outer;
    const struct ir_node *loop = ir_get(outer->f, body->loop);
    ir_value from = loop->args[param], to = body->f->params.items[param].value;
    bool carried = param <= carried_by(outer, body->loop);
    const char *why = NULL;
    bool more = false;
    if (first) {
        body->kind[to] = outer->kind[from], body->dim[to] = outer->dim[from];
        body->why[to] = outer->why[from], body->place[to] = outer->place[from];
        if (body->kind[to] == LINEAR || body->kind[to] == AFFINE) why = "a loop over a sum over rows";
        if (param == 0 && body->kind[to] != SAME) why = "rounds that rows have numbered";
    } else if (carried && body->kind[to] != OTHER) {
        ir_value made = body->f->results.items[param - 1].value;
        int8_t dim = body->dim[made];
        if (body->kind[made] == OTHER) {
            body->kind[to] = OTHER, body->why[to] = body->why[made], body->place[to] = body->place[made];
            return true;
        }
        for (uint32_t d = 0; body->kind[made] == SAME && d < ir_type(body->f, made)->rank; d++)
            if (!(body->varies[param] >> d & 1) && !is_uniform(a, body, made, d))
                body->varies[param] = (uint8_t)(body->varies[param] | 1u << d), more = true;
        if (body->kind[made] > ROW) why = "a sum over rows in every round of a loop";
        else if (body->kind[to] == ROW && body->kind[made] == SAME &&
                 !is_uniform(a, body, made, (uint32_t)body->dim[to]))
            why = "rows that are numbered by microbatch";
        else if (body->kind[to] == ROW && body->kind[made] == ROW && dim != body->dim[to])
            why = "rows that depend on each other";
        else if (body->kind[to] == SAME && body->kind[made] == ROW) {
            if (!is_uniform(a, outer, from, (uint32_t)dim)) why = "rows that are numbered by microbatch";
            body->kind[to] = ROW, body->dim[to] = dim;
            if (!why) return true;
        }
    }
    if (!why) return more;
    body->kind[to] = OTHER, body->why[to] = why, body->place[to] = loop->place;
    return true;
}

/* Kinds only rise, so this ends. */
static void look_at_loop(struct pass_rows *r, struct pass_known *in, ir_value v)
{
    const struct ir_node *n = ir_get(in->f, v);
    struct ir_module *m = r->flat->module;
    struct pass_known *body = new_known(r, pass_flat(r->k->pass, m, m->funcs.items[n->func]));
    body->outer = in, body->loop = v;
    in->inner[v] = body;
    n = ir_get(in->f, v);
    for (uint32_t i = 1; i < n->arg_count; i++) enter(&r->k->pass->scratch, body, i, true);
    for (bool more = true; more;) {
        more = false;
        look_into(r, body);
        for (uint32_t i = 1; i < n->arg_count; i++) more |= enter(&r->k->pass->scratch, body, i, false);
    }
    uint8_t rounds = in->kind[n->args[0]];
    if (!rounds && n->attr[1].v[0]) rounds = body->kind[body->f->params.items[1].value];
    if (rounds != SAME) other(in, v, "a loop whose rounds rows number");
    in->kind[v] = rounds == SAME ? SAME : OTHER;
}

static enum pass_rows_kind made_by_loop(struct pass_known *in, ir_value v)
{
    const struct ir_node *n = ir_get(in->f, v);
    const struct pass_known *body = in->inner[n->args[0]];
    ir_value param = body->f->params.items[n->attr[0].v[0] + 1].value;
    in->dim[v] = body->dim[param], in->why[v] = body->why[param], in->place[v] = body->place[param];
    if (in->kind[n->args[0]] != OTHER) return body->kind[param];
    in->why[v] = in->why[n->args[0]], in->place[v] = in->place[n->args[0]];
    return OTHER;
}

/* ---------------------------------------------------------------- all of them */

static enum pass_rows_kind kind_of(struct pass_rows *r, struct pass_known *in, ir_value v)
{
    const struct ir_node *n = ir_get(in->f, v);
    bool rows = false, sums = false;
    if (n->op == OP_proj && in->inner[n->args[0]]) return made_by_loop(in, v);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        ir_value a = n->args[i];
        if (in->kind[a] == OTHER) {
            in->why[v] = in->why[a], in->place[v] = in->place[a];
            return OTHER;
        }
        rows |= in->kind[a] == ROW;
        sums |= in->kind[a] == LINEAR || in->kind[a] == AFFINE;
    }
    if (n->op == OP_scatter_add && sums && (in->kind[n->args[1]] != SAME || in->kind[n->args[0]] != SAME))
        return other(in, v, "a table of sums over rows");
    if (rows && sums) return other(in, v, "rows that depend on a sum over rows");
    return rows ? row(r, in, v) : sums ? linear(in, v) : SAME;
}

static struct pass_known *new_known(struct pass_rows *r, const struct ir_func *f)
{
    struct arena *a = &r->k->pass->scratch;
    struct pass_known *in = arena_new(a, struct pass_known);
    *in = (struct pass_known){.f = f,
                              .varies = arena_new_array(a, uint8_t, f->params.count + 1),
                              .inner = arena_new_array(a, struct pass_known *, f->count),
                              .kind = arena_new_array(a, uint8_t, f->count),
                              .dim = arena_new_array(a, int8_t, f->count),
                              .why = arena_new_array(a, const char *, f->count),
                              .place = arena_new_array(a, uint32_t, f->count)};
    return in;
}

static void look_into(struct pass_rows *r, struct pass_known *in)
{
    bool *live = ir_live(in->f, &r->k->pass->scratch);
    for (ir_value v = 1; v < in->f->count; v++) {
        if (!live[v] || ir_get(in->f, v)->op == OP_param) continue;
        if (ir_get(in->f, v)->op == OP_loop) look_at_loop(r, in, v);
        else in->kind[v] = (uint8_t)kind_of(r, in, v);
    }
}

void pass_rows_look(struct pass_rows *r, struct ir_module *m)
{
    const struct ir_func *f = r->flat = pass_flat(r->k->pass, m, r->k->body);
    struct arena *a = &r->k->pass->scratch;
    struct pass_known *in = r->known = new_known(r, f);
    r->leaf = arena_new_array(a, uint8_t, f->count);
    r->number = arena_new_array(a, uint32_t, f->count);
    memset(r->leaf, UINT8_MAX, f->count);
    for (uint32_t i = 0; i < f->params.count; i++) {
        ir_value v = f->params.items[i].value;
        if (r->k->roles[i] >= SPLIT) r->rows = f->params.items[i].type.dim[0];
        in->kind[v] = r->k->roles[i] >= SPLIT ? ROW : r->k->roles[i] == CAPTURED ? SAME : OTHER;
        in->place[v] = ir_get(f, v)->place, in->why[v] = "what one microbatch hands to the next";
    }
    look_into(r, in);
}

/* ---------------------------------------------------------------- what cannot be */

static void refuse(const struct pass_marker *k, uint32_t place, const char *what, const char *hint)
{
    if (k->pass->diags->errors) return; /* of entries that share it, once */
    struct diag *d = pass_error(k->pass, k->body->module, place ? place : k->n->place, "E0434",
                                "--numerics invariant: %s", what);
    d->hint = arena_format(k->pass->diags->arena,
                           "%s--numerics mesh-invariant keeps the bits on every mesh for this number of microbatches",
                           hint);
}

static bool can_be(const struct pass_marker *k, const struct ir_func *outer, ir_value limit)
{
    double number;
    if (k->count & (k->count - 1)) refuse(k, 0, "the number of microbatches has to be a power of two", "");
    else if (limit && (!pass_number(outer, limit, &number) || number < (double)k->count))
        refuse(k, 0, "all microbatches have to run: num_real_microbatches is not supported", "");
    else return true;
    return false;
}

/* Why a result is not what is said above; NULL: it is. */
const char *pass_rows_why(const struct pass_rows *r, uint32_t number)
{
    ir_value v = r->flat->results.items[number].value;
    uint8_t kind = r->known->kind[v];
    int64_t how = r->k->kinds[number];
    const char *why = kind == OTHER ? r->known->why[v] : NULL;
    if (how == CARRY && kind == SAME)
        return NULL; /* a counter of random numbers, which every microbatch leaves alike */
    if (how == CARRY || how == RUNNING_MEAN) return "what one microbatch hands to the next";
    if (how == CONCATENATE && (kind != ROW || r->known->dim[v] != 0)) return why ? why : "a sum per microbatch";
    if (how == SUM && (kind == SAME || kind == AFFINE)) return "a sum over microbatches of what has no rows";
    if (how != CONCATENATE && kind == ROW) return "a sum over microbatches of what has rows";
    return why;
}

static bool check_result(const struct pass_rows *r, uint32_t number)
{
    const struct ir_result *result = &r->flat->results.items[number];
    const char *why = pass_rows_why(r, number);
    if (!why) return true;
    bool other = r->known->kind[result->value] == OTHER;
    uint32_t place = other ? r->known->place[result->value] : ir_get(r->flat, result->value)->place;
    refuse(
        r->k, place,
        arena_format(r->k->pass->diags->arena, "%s: \"%s\" depends on the number of microbatches", why, result->name),
        "only sums and means over rows do not; ");
    return false;
}

/* Microbatches of which each holds whole leaves of all sums over rows; that may be more memory than was thought of. */
static bool widen(struct pass_rows *r)
{
    const struct pass_marker *k = r->k;
    int64_t rows = r->rows * r->times;
    if (!pass_wide_can(r->known, &k->pass->scratch)) {
        refuse(k, 0, "a loop with more in it than what rows are by themselves", "");
        return false;
    }
    struct diag *d = pass_warning(k->pass, k->body->module, k->n->place, "W0434",
                                  "--numerics invariant makes microbatches of %lld rows, not of %lld: these hold no "
                                  "whole leaf of a sum over rows",
                                  (long long)rows, (long long)r->rows);
    d->hint = arena_format(k->pass->diags->arena, "\"microbatch_size\": %lld says so; memory is that of %lld rows",
                           (long long)rows, (long long)rows);
    return true;
}

/* ---------------------------------------------------------------- the loop's marker */

static ir_value remade(struct pass_rows *r, struct pass_wide *w, ir_value v, ir_value carry)
{
    const struct ir_node *n = ir_get(r->flat, v);
    struct ir_node made = pass_wide_node(w, v);
    int64_t first[2][IR_MAX_RANK], rest = 1, leaf;
    if (r->leaf[v] == UINT8_MAX || !ir_dtype_is_float((enum ir_dtype)n->type.dtype) || n->op == OP_reduce_sum)
        return ir_make(w->b, made);
    if (r->leaf[v] == CARRY) {
        ir_value args[] = {carry, made.args[1], made.args[2]};
        made.args = args;
        return ir_make(w->b, made);
    }
    uint32_t tree = 0; /* the rows first, as pass invariant has it where the batch is whole */
    struct ir_ints lhs = n->attr[2], rhs = n->attr[3];
    while (lhs.v[tree] != r->known->dim[n->args[0]]) tree++;
    for (uint32_t i = 0; i < lhs.n; i++) {
        uint32_t from = i == 0 ? tree : i <= tree ? i - 1 : i;
        first[0][i] = lhs.v[from], first[1][i] = rhs.v[from];
        rest *= i ? ir_type(r->flat, n->args[0])->dim[lhs.v[from]] : 1;
    }
    leaf = rest ? ir_leaf(ir_type(r->flat, n->args[0])->dim[first[0][0]] * r->k->count, rest) : 1;
    made.attr[2].v = first[0], made.attr[3].v = first[1], made.attr[4] = (struct ir_ints){&leaf, 1};
    return ir_make(w->b, made);
}

static void make_marker(struct pass_rows *r, struct ir_builder *outer, struct pass_marker *to)
{
    const struct pass_marker *k = r->k;
    struct arena *a = &k->pass->scratch;
    struct ir_builder b = {.f = pass_new_body(k->pass, outer->f->module, k->body, "rows"), .place = k->n->place};
    uint32_t all = (uint32_t)(r->leaves.count + r->concatenated.count), folds = 0;
    ir_value *map = arena_new_array(a, ir_value, r->flat->count), *carry = arena_new_array(a, ir_value, r->flat->count);
    ir_value *operands = arena_new_array(a, ir_value, k->params + all + 1);
    uint8_t *roles = arena_new_array(a, uint8_t, k->params + all + 1);
    int64_t *kinds = arena_new_array(a, int64_t, all + 1);
    bool *used = arena_new_array(a, bool, all + 1), *live = ir_live(r->flat, a);
    memcpy(operands, k->operands, k->params * sizeof *operands);
    memcpy(roles, k->roles, k->params * sizeof *roles);
    memset(roles + k->carried, CAPTURED, k->params - k->carried); /* nothing is handed on */
    memset(used, true, all + 1);
    struct pass_wide wide = {.pass = k->pass, .in = r->known, .times = r->times, .b = &b, .map = map};
    for (uint32_t i = 0; i < k->params; i++) {
        struct ir_type type = r->flat->params.items[i].type;
        if (k->roles[i] >= SPLIT) type.dim[0] *= r->times;
        map[r->flat->params.items[i].value] = ir_param_new(&b, r->flat->params.items[i].name, type, -1);
    }
    for (uint32_t i = 0; i < all; i++) {
        kinds[i] = i < r->leaves.count ? r->leaf[r->leaves.items[i]] : CONCATENATE;
        if (kinds[i] != CARRY) continue;
        const struct ir_type type = *ir_type(r->flat, r->leaves.items[i]);
        carry[r->leaves.items[i]] = ir_param_new(&b, "sum", type, -1);
        roles[k->params + folds] = CARRIED;
        operands[k->params + folds++] = ir_number(outer, type, 0);
    }
    for (ir_value v = 1; v < r->flat->count; v++)
        if (live[v] && !map[v]) {
            b.place = ir_get(r->flat, v)->place;
            map[v] = remade(r, &wide, v, carry[v]);
        }
    for (size_t i = 0; i < r->leaves.count; i++) ir_result_add(&b, "sum", map[r->leaves.items[i]], -1);
    for (size_t i = 0; i < r->concatenated.count; i++) {
        const struct ir_result *result = &r->flat->results.items[r->concatenated.items[i]];
        ir_result_add(&b, result->name, map[result->value], -1);
    }
    *to = *k;
    to->tree = true;
    to->dim = 0; /* which rows a microbatch has does not matter */
    to->count = k->count / r->times;
    to->body = b.f;
    to->operands = operands, to->roles = roles, to->kinds = kinds, to->used = used;
    to->carried = k->params;
    to->params = k->params + folds;
    to->results = all;
}

struct pass_rows *pass_rows_of(const struct pass_marker *k, struct ir_builder *b, ir_value limit,
                               struct pass_marker *to)
{
    struct pass_rows *r = arena_new(&k->pass->scratch, struct pass_rows);
    *r = (struct pass_rows){.k = k, .exact = true, .times = 1};
    if (!can_be(k, b->f, limit)) return NULL;
    pass_rows_look(r, b->f->module);
    for (uint32_t i = 0; i < k->results; i++) {
        if (!check_result(r, i)) return NULL;
        if (k->kinds[i] == CONCATENATE) vec_push(&k->pass->scratch, &r->concatenated, i);
    }
    if (r->times > 1 && !widen(r)) return NULL;
    make_marker(r, b, to);
    return r;
}

/* ---------------------------------------------------------------- behind the loop */

static void want(const struct pass_rows *r, ir_value v, bool *wanted, bool *integers)
{
    if (wanted[v]) return;
    wanted[v] = true;
    if (r->leaf[v] != UINT8_MAX) *integers |= !ir_dtype_is_float((enum ir_dtype)ir_type(r->flat, v)->dtype);
    else
        for (uint32_t i = 0; i < ir_get(r->flat, v)->arg_count; i++)
            want(r, ir_get(r->flat, v)->args[i], wanted, integers);
}

static ir_value divided(const struct pass_rows *r, struct ir_builder *b, ir_value x)
{
    return ir_binary(b, OP_div, x, ir_number_like(b, x, (double)r->k->count));
}

/* One result: of the sums over all microbatches, or of their means. */
static ir_value finish(struct pass_rows *r, struct ir_builder *b, const ir_value *sums, uint32_t number)
{
    const struct pass_marker *k = r->k;
    ir_value v = r->flat->results.items[number].value;
    bool *wanted = arena_new_array(&k->pass->scratch, bool, r->flat->count), integers = false;
    ir_value *map = arena_new_array(&k->pass->scratch, ir_value, r->flat->count);
    want(r, v, wanted, &integers);
    bool means = k->kinds[number] == MEAN && !(integers && r->known->kind[v] == LINEAR);
    for (uint32_t i = 0; i < k->params; i++) map[r->flat->params.items[i].value] = k->operands[i];
    for (size_t i = 0; i < r->leaves.count; i++)
        if (wanted[r->leaves.items[i]]) map[r->leaves.items[i]] = means ? divided(r, b, sums[i]) : sums[i];
    pass_copy_nodes(b, r->flat, wanted, map, pass_copy_node, k->pass);
    return k->kinds[number] == MEAN && !means ? divided(r, b, map[v]) : map[v];
}

void pass_rows_finish(struct pass_rows *r, struct ir_builder *b, const ir_value *sums, ir_value *out)
{
    uint32_t at = (uint32_t)r->leaves.count;
    for (uint32_t i = 0; i < r->k->results; i++)
        out[i] = r->k->kinds[i] == CONCATENATE ? sums[at++] : finish(r, b, sums, i);
}
