/* A batch that is not full: "partial_batches" of a document. The input "batch.rows" says how many of the rows count,
 * from the first on. Every sum over rows leaves out the others, and every number of rows that a mean divides by becomes
 * that of those which count, so loss, metrics, statistics and (the pass comes before autodiff) gradients are those of
 * a batch of these rows alone. A microbatch counts for as many rows as it has of them.
 *
 * Which values have rows, and along which dimension, follows from the sharding rules: what splits along the batch is
 * row by row, what sums over it is masked. What else the rows depend on is refused at its place, and so is a number
 * that may be one of rows without being a mean's: written as a number it would stay that of a full batch. */
#include "passes/accumulate.h"
#include "passes/shard_int.h"
#include <string.h>

/* Of a value without rows: a sum over rows grows with them, COUNTED is any other function of such sums. */
enum kind { SAME, ROW, SUMMED, COUNTED };

struct fact {
    uint8_t kind;
    int8_t dim;               /* ROW: along which rows lie */
    bool behind;              /* a gradient: its numbers are those of an optimizer */
    int64_t summed, last;     /* elements that went into a sum over rows, that the last sum took; 0: none */
    const struct fact *parts; /* of a tuple */
};

struct rows {
    struct pass *pass;
    const struct ir_module *from;
    struct ir_module *to;
    int32_t slot;
    bool failed;
    struct map told; /* places of numbers that were taken for those of rows */
};

/* One function on its way. */
struct scope {
    struct rows *r;
    const struct ir_func *from;
    struct ir_builder b;
    struct fact *facts; /* by old value */
    ir_value *map, mask /* bool[batch]; 0: no row of the batch is here */, count;
    int64_t batch;
};

static void refuse_by(struct rows *r, uint32_t place, const char *what)
{
    if (!r->failed) {
        struct diag *d = pass_error(r->pass, r->from, place, "E0436", "\"partial_batches\": %s", what);
        d->hint = "sums and means over rows are masked; without \"partial_batches\" every batch is full";
    }
    r->failed = true;
}

static void refuse(struct scope *s, uint32_t place, const char *what) { refuse_by(s->r, place, what); }

static const char *text(struct scope *s, const char *format, long long number)
{
    return arena_format(s->r->pass->diags->arena, format, number);
}

/* ---------------------------------------------------------------- the mask */

static ir_value counted_rows(struct scope *s, enum ir_dtype dtype)
{
    static const int64_t rows[] = {0};
    if (!s->count) {
        ir_value sum = ir_reduce(&s->b, OP_reduce_sum, ir_cast(&s->b, s->mask, IR_F32), rows, 1);
        s->count = ir_binary(&s->b, OP_max, sum, ir_scalar(&s->b, IR_F32, 1));
    }
    return ir_cast(&s->b, s->count, dtype);
}

/* x where its row counts, else 0. */
static ir_value masked(struct scope *s, ir_value x, int64_t dim)
{
    const struct ir_type type = *ir_type(s->b.f, x);
    int64_t each = type.dim[dim] / s->batch, pair[2] = {s->batch, each}, zero[] = {0};
    ir_value mask = s->mask;
    if (each > 1) {
        mask = ir_broadcast(&s->b, mask, 2, pair, zero);
        mask = ir_reshape(&s->b, mask, 1, &type.dim[dim]);
    }
    mask = ir_broadcast(&s->b, mask, type.rank, type.dim, &dim);
    return ir_select(&s->b, mask, x, ir_number_like(&s->b, x, 0));
}

/* ---------------------------------------------------------------- what a node is */

static bool has_rows(const struct scope *s, const struct ir_node *n)
{
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (s->facts[n->args[i]].kind == ROW) return true;
    return false;
}

static bool is_of_model(const struct scope *s, const struct ir_node *n)
{
    const char *at = n->place < s->r->from->places.count ? s->r->from->places.items[n->place].pointer : NULL;
    return at && (strncmp(at, "/model", 6) == 0 || strncmp(at, "/define", 7) == 0);
}

/* What of each operand counts rows, where the frontend could tell. */
static const uint16_t *counts_of(const struct scope *s, ir_value v)
{
    return s->from->counts ? s->from->counts[v] : NULL;
}

/* Is an operand of the node a number that would be another for another number of rows? *sum: a mean divides this
 * operand by it (by a power of two: multiplies by the inverse, which is the same). */
static bool counts(struct scope *s, const struct ir_node *n, ir_value *sum)
{
    double number;
    *sum = 0;
    if (n->op != OP_div && n->op != OP_mul) return false;
    for (uint32_t i = n->op == OP_div; i < 2; i++) {
        const struct fact *x = &s->facts[n->args[1 - i]];
        if (x->kind == SAME || x->behind || !pass_number(s->from, n->args[i], &number) || number == 0) continue;
        bool divides = n->op == OP_div || (number < 1 && number > -1);
        if (n->op == OP_mul && divides) number = 1 / number;
        if (divides && x->summed && number == (double)x->summed) return *sum = n->args[1 - i], true;
        if (divides && number == (double)x->last) continue; /* of other dimensions */
        if (s->batch < 2 || number != (double)(int64_t)number) continue;
        int64_t whole = (int64_t)number;
        bool rows = whole % s->batch == 0 && (x->kind != ROW || (whole == s->batch && !is_of_model(s, n)));
        if (rows || (x->summed && whole == x->summed - 1)) return true;
    }
    return false;
}

/* A mean that the document does not call one: `sum(x) / 6` of 6 rows means the rows, else its other numbers would be of
 * those that count and this one not. It may have been meant to stay, so it is said. */
static void tell_of_literal(struct scope *s, ir_value v)
{
    const struct ir_node *n = ir_get(s->from, v);
    const uint16_t *of = counts_of(s, v);
    double number = 0;
    bool counted = !s->from->counts; /* the frontend could not tell */
    for (uint32_t i = 0; i < n->arg_count; i++) {
        counted |= of && of[i] & IR_COUNTS_DIVISOR;
        if (s->facts[n->args[i]].kind == SAME) pass_number(s->from, n->args[i], &number);
    }
    if (counted || !map_set_number(&s->r->told, n->place, 1)) return;
    struct diag *d = pass_warning(s->r->pass, s->r->from, n->place, "W0438",
                                  "\"partial_batches\": a sum over rows is divided by %.9g, which is taken for their "
                                  "number: of fewer rows that of those which count",
                                  n->op == OP_mul ? 1 / number : number);
    d->hint = "mean(...) and x.shape[0] say so; a divisor that is to stay can be an input";
}

static struct fact of_sums(struct scope *s, const struct ir_node *n)
{
    struct fact f = {0};
    uint32_t summed = 0, counted = 0;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct fact *x = &s->facts[n->args[i]];
        summed += x->kind == SUMMED, counted += x->kind == COUNTED;
        f.behind |= x->behind;
    }
    if (!summed && !counted) return f;
    const struct fact *first = &s->facts[n->args[0]];
    bool moves = n->arg_count == 1 && (ir_ops[n->op].flags & IR_LINEAR || n->op == OP_stop_gradient), extensive = moves;
    if (n->op == OP_add || n->op == OP_sub) extensive = summed == 2;
    if (n->op == OP_mul || n->op == OP_dot) extensive = summed == 1;
    if (n->op == OP_div) extensive = first->kind == SUMMED && summed == 1;
    if (n->op == OP_select)
        extensive = summed == 1 && (shard_is_zero(s->from, n->args[1]) || shard_is_zero(s->from, n->args[2]));
    f.kind = summed && extensive && (moves || !(n->op == OP_select && first->kind == SUMMED)) ? SUMMED : COUNTED;
    if (n->op == OP_select && summed == 2) f.kind = SUMMED;
    if (moves) f.summed = first->summed, f.last = first->last;
    for (uint32_t i = 0; i < 2 && n->arg_count == 2 && (n->op == OP_mul || n->op == OP_div); i++) { /* 0.1 * sum */
        double number;
        const struct fact *x = &s->facts[n->args[i]];
        if ((!i || n->op == OP_mul) && pass_number(s->from, n->args[1 - i], &number))
            f.summed = x->summed, f.last = x->last;
    }
    if (n->op == OP_reduce_sum) {
        f.last = 1;
        for (uint32_t i = 0; i < n->attr[0].n; i++) f.last *= ir_type(s->from, n->args[0])->dim[n->attr[0].v[i]];
        f.summed *= f.last;
    }
    return f;
}

/* A sum over rows: of which operand, along which dimension. */
static bool of_rows(struct scope *s, const struct ir_node *n, struct fact *f, uint32_t *operand)
{
    struct shard_rule rule;
    int8_t factor = -1;
    shard_rule_of(s->from, n, &s->r->pass->scratch, &rule);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct fact *x = &s->facts[n->args[i]];
        if (x->kind != ROW) continue;
        int8_t is = rule.arg[i][x->dim];
        if (is < 0 && n->op == OP_reshape && ir_type(s->from, n->args[i])->dim[x->dim] == 1) { /* the sum of one row */
            *f = (struct fact){.kind = SUMMED, .summed = 1, .last = 1}, *operand = i;
            return true;
        }
        if (is < 0 || (factor >= 0 && is != factor))
            return refuse(s, n->place, "rows that depend on each other"), false;
        factor = is, *operand = i;
    }
    if (rule.summed >> factor & 1 && (n->op == OP_reduce_sum || n->op == OP_dot)) {
        struct ir_ints dims = n->attr[n->op == OP_dot ? 2 + *operand : 0];
        *f = (struct fact){.kind = SUMMED, .summed = 1};
        for (uint32_t i = 0; i < dims.n; i++) f->summed *= ir_type(s->from, n->args[*operand])->dim[dims.v[i]];
        f->last = f->summed;
        return true;
    }
    if ((rule.extremum | rule.whole | rule.window | rule.summed) >> factor & 1)
        return refuse(s, n->place, "rows that depend on each other"), false;
    for (uint32_t d = 0; d < n->type.rank; d++)
        if (rule.result[d] == factor && n->type.dim[d] % s->batch == 0) {
            *f = (struct fact){.kind = ROW, .dim = (int8_t)d};
            return false;
        }
    return refuse(s, n->place, "rows that depend on each other"), false;
}

/* What no row of the batch is in may have extents that count rows all the same: ones((len(x), 3)), a number for every
 * row. What is done along such a dimension, element by element, stays as it is; what takes its elements together means
 * those of the rows that count, so the operand is one with rows for this node. *operand: which one; false: there is
 * none, or this is refused. */
static bool over_counts(struct scope *s, ir_value v, uint32_t *operand, struct fact *as)
{
    const struct ir_node *n = ir_get(s->from, v);
    const uint16_t *counts = counts_of(s, v);
    struct shard_rule rule;
    int found = -1, rows = -1; /* factors */
    if (!counts) return false;
    shard_rule_of(s->from, n, &s->r->pass->scratch, &rule);
    uint32_t together = rule.extremum | rule.whole | rule.window | rule.summed;
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (s->facts[n->args[i]].kind == ROW) rows = rule.arg[i][s->facts[n->args[i]].dim];
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct ir_type *type = ir_type(s->from, n->args[i]);
        const struct fact *x = &s->facts[n->args[i]];
        for (uint32_t d = 0; type->dtype != IR_U32 && d < type->rank; d++) { /* random bits: of the whole batch */
            if (!(counts[i] & IR_COUNTS_EXTENT << d) || (x->kind == ROW && d == (uint32_t)x->dim)) continue;
            int factor = rule.arg[i][d];
            if (factor >= 0 && (!(together >> factor & 1) || factor == rows || factor == found)) continue;
            if (factor < 0 || rows >= 0 || found >= 0 || type->dim[d] != s->batch || !s->mask)
                return refuse(s, n->place, "rows that depend on each other"), false;
            found = factor, *operand = i;
            *as = (struct fact){.kind = ROW, .dim = (int8_t)d, .behind = x->behind};
        }
    }
    return found >= 0;
}

/* ---------------------------------------------------------------- bodies */

static struct ir_func *rewrite(struct rows *, const struct ir_func *, const struct fact *params, int64_t batch,
                               int64_t mask_at, int64_t total_at, const int64_t *kinds, struct fact *results);

static struct fact *new_facts(struct scope *s, size_t n)
{
    return arena_new_array(&s->r->pass->scratch, struct fact, n + 1);
}

static struct fact joined(struct scope *s, const struct ir_node *n, struct fact x, struct fact y)
{
    if (x.kind == ROW && y.kind == ROW && x.dim != y.dim) refuse(s, n->place, "rows that depend on each other");
    struct fact more = x.kind == ROW || y.kind == SAME ? x : y;
    if (more.kind == SUMMED && x.kind != y.kind) more.kind = COUNTED;
    return (struct fact){.kind = more.kind, .dim = more.dim, .behind = x.behind || y.behind};
}

/* The operands of a control node with a mask behind them, if there is one to hand on. */
static ir_value make(struct scope *s, const struct ir_node *n, const struct ir_func *body, uint32_t at, ir_value more,
                     uint32_t later, ir_value last)
{
    ir_value *args = arena_new_array(&s->r->pass->scratch, ir_value, n->arg_count + 2u);
    struct ir_node made = *n;
    made.arg_count = 0;
    for (uint32_t i = 0; i <= n->arg_count; i++) {
        if (more && i == at) args[made.arg_count++] = more;
        if (last && i == later) args[made.arg_count++] = last;
        if (i < n->arg_count) args[made.arg_count++] = s->map[n->args[i]];
    }
    made.args = args, made.func = ir_func_index(body);
    return ir_make(&s->b, made);
}

/* call, loop, scan: bodies of the whole batch, or of one time of it. */
static ir_value control(struct scope *s, const struct ir_node *n, struct fact *f)
{
    const struct ir_func *body = s->r->from->funcs.items[n->func];
    size_t funcs = s->r->to->funcs.count;
    uint32_t first = n->op == OP_loop, carried = n->op == OP_call ? 0 : (uint32_t)n->attr[0].v[0];
    uint32_t stacked = n->op == OP_scan ? carried + (uint32_t)n->attr[1].v[0] : 0;
    struct fact *params = new_facts(s, n->arg_count), *results = new_facts(s, body->results.count);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        params[i] = s->facts[n->args[i]];
        if (i < carried || i >= stacked || params[i].kind != ROW) continue;
        if (params[i].dim-- == 0) return refuse(s, n->place, "a loop over rows"), 0;
    }
    if (first) params[0].kind = SAME; /* the limit is not what the body counts by */
    bool more = true;
    struct ir_func *made = NULL;
    while (more && !s->r->failed) {
        s->r->to->funcs.count = funcs;
        made = rewrite(s->r, body, params, s->batch, s->mask ? (int64_t)n->arg_count : -1, -1, NULL, results);
        more = false;
        for (uint32_t i = 0; i < carried; i++) {
            struct fact now = joined(s, n, params[first + i], results[i]);
            more |= now.kind != params[first + i].kind;
            params[first + i] = now;
        }
    }
    for (uint32_t i = 0; i < carried; i++) results[i] = params[first + i];
    for (size_t i = carried; n->op == OP_scan && i < body->results.count; i++) results[i].dim++;
    f->parts = results;
    return s->r->failed ? 0 : make(s, n, made, n->arg_count, s->mask, 0, 0);
}

/* What microbatches give is a mean of as many rows as each has, or their sum. */
static ir_value accumulate(struct scope *s, const struct ir_node *n, struct fact *f)
{
    const struct ir_func *body = s->r->from->funcs.items[n->func];
    uint32_t batched = (uint32_t)n->attr[0].v[0], count = n->arg_count - 1, folds = 0;
    struct fact *params = new_facts(s, count), *results = new_facts(s, body->results.count);
    bool rows = false;
    for (uint32_t i = 0; i < n->attr[3].n; i++) folds += n->attr[3].v[i] == CARRY;
    for (uint32_t i = 0; i < count; i++) {
        params[i] = s->facts[n->args[1 + i]];
        if (params[i].kind == ROW && (i >= batched || params[i].dim)) refuse(s, n->place, "a loop over rows");
        rows |= params[i].kind == ROW;
    }
    if (rows && s->batch % n->attr[1].v[0]) refuse(s, n->place, "a loop over rows");
    if (s->r->failed) return 0;
    struct ir_func *made = rewrite(s->r, body, params, rows ? s->batch / n->attr[1].v[0] : s->batch,
                                   rows ? (int64_t)batched : -1, rows ? (int64_t)count - folds : -1,
                                   rows ? n->attr[3].v : NULL, results);
    f->parts = results;
    if (s->r->failed || !rows) return s->r->failed ? 0 : make(s, n, made, 0, 0, 0, 0);
    struct ir_node with = *n;
    int64_t one = batched + 1;
    with.attr[0] = (struct ir_ints){&one, 1};
    ir_value total = ir_binary(&s->b, OP_div, counted_rows(s, IR_F32),
                               ir_scalar(&s->b, IR_F32, (double)n->attr[1].v[0]));
    return make(s, &with, made, 1 + batched, s->mask, n->arg_count - folds, total);
}

static ir_value mapped(struct scope *s, const struct ir_node *n, struct fact *f)
{
    const struct ir_func *body = s->r->from->funcs.items[n->func];
    struct fact *params = new_facts(s, n->arg_count), *results = new_facts(s, body->results.count);
    bool rows = false;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        params[i] = s->facts[n->args[i]];
        if (params[i].kind != ROW) continue;
        if (i >= n->attr[0].v[0] || params[i].dim) return refuse(s, n->place, "rows that depend on each other"), 0;
        params[i] = (struct fact){0}, rows = true;
    }
    struct ir_func *made = rewrite(s->r, body, params, s->batch, -1, -1, NULL, results);
    for (size_t i = 0; rows && i < body->results.count; i++) results[i] = (struct fact){.kind = ROW};
    f->parts = results;
    return s->r->failed ? 0 : make(s, n, made, 0, 0, 0, 0);
}

static ir_value gradient(struct scope *s, const struct ir_node *n, struct fact *f)
{
    struct fact *parts = new_facts(s, n->arg_count), loss = s->facts[n->args[0]];
    for (uint32_t i = 1; i < n->arg_count; i++) {
        parts[i - 1] = s->facts[n->args[i]];
        if (parts[i - 1].kind != ROW) parts[i - 1] = (struct fact){.kind = loss.kind};
        parts[i - 1].behind = true;
    }
    f->parts = parts;
    return pass_remake(s->r->pass, &s->b, n, s->map);
}

/* ---------------------------------------------------------------- a function */

/* x / 6, or x * (1 / 6), where 6 is known to be so many times the rows of a batch: so many times those that count. */
static bool divided(struct scope *s, ir_value v, ir_value *out)
{
    const struct ir_node *n = ir_get(s->from, v);
    const uint16_t *counts = counts_of(s, v);
    double number, batch = (double)s->batch;
    for (uint32_t i = 0; counts && i < n->arg_count; i++) {
        if (!(counts[i] & IR_COUNTS_DIVISOR) || !pass_number(s->from, n->args[i], &number)) continue;
        enum ir_dtype dtype = (enum ir_dtype)n->type.dtype;
        const struct fact *x = &s->facts[n->args[1 - i]];
        bool whole = !ir_dtype_is_float(dtype);
        if (!s->mask || (whole && (n->op == OP_mul || (int64_t)number % s->batch)))
            return refuse(s, n->place, "a number that counts rows: it would stay that of a full batch"), false;
        ir_value of = s->map[n->args[1 - i]], all = counted_rows(s, dtype);
        double times = n->op == OP_mul ? number * batch : number / batch;
        if (n->op == OP_mul) of = ir_binary(&s->b, OP_mul, of, ir_number_like(&s->b, of, times));
        else all = ir_binary(&s->b, OP_mul, all, ir_scalar(&s->b, dtype, times));
        s->facts[v] = x->kind == ROW ? *x : (struct fact){.kind = COUNTED, .behind = x->behind};
        *out = ir_binary(&s->b, OP_div, of, ir_broadcast_to(&s->b, all, n->type.rank, n->type.dim));
        return true;
    }
    return false;
}

static ir_value node(struct scope *s, ir_value v)
{
    const struct ir_node *n = ir_get(s->from, v);
    struct fact *f = &s->facts[v];
    struct pass *p = s->r->pass;
    uint32_t operand = 0;
    ir_value sum;
    s->b.place = n->place;
    if (n->op == OP_call || n->op == OP_loop || n->op == OP_scan) return control(s, n, f);
    if (n->op == OP_accumulate) return accumulate(s, n, f);
    if (n->op == OP_vmap) return mapped(s, n, f);
    if (n->op == OP_grad) return gradient(s, n, f);
    if (n->op == OP_proj) {
        *f = s->facts[n->args[0]].parts[n->attr[0].v[0]];
        return pass_remake(p, &s->b, n, s->map);
    }
    bool number = counts(s, n, &sum);
    ir_value by_count;
    if (!sum && divided(s, v, &by_count)) return by_count;
    if (number && !sum)
        refuse(s, n->place,
               text(s,
                    "a number that may count rows: of a batch of %lld it would stay that of a full one; "
                    "write mean(...)",
                    (long long)s->batch));
    if (sum) {
        const struct fact *x = &s->facts[sum];
        tell_of_literal(s, v);
        enum ir_dtype dtype = (enum ir_dtype)n->type.dtype;
        ir_value all = ir_binary(&s->b, OP_mul, counted_rows(s, dtype),
                                 ir_scalar(&s->b, dtype, (double)(x->summed / s->batch)));
        *f = (struct fact){.kind = COUNTED};
        return ir_binary(&s->b, OP_div, s->map[sum], ir_broadcast_to(&s->b, all, n->type.rank, n->type.dim));
    }
    struct fact as, *counting = NULL;
    if (over_counts(s, v, &operand, &as)) {
        counting = &s->facts[n->args[operand]];
        struct fact kept = *counting;
        *counting = as, as = kept;
    }
    if (s->r->failed) return 0;
    if (!has_rows(s, n)) {
        *f = of_sums(s, n);
        return n->op == OP_constant || n->arg_count || n->op == OP_iota ? pass_remake(p, &s->b, n, s->map) : s->map[v];
    }
    bool summed = of_rows(s, n, f, &operand);
    int64_t dim = s->facts[n->args[operand]].dim;
    if (counting) *counting = as;
    if (!summed) return s->r->failed ? 0 : pass_remake(p, &s->b, n, s->map);
    struct ir_node made = *n;
    ir_value args[2] = {s->map[n->args[0]], n->arg_count > 1 ? s->map[n->args[1]] : 0};
    args[operand] = masked(s, args[operand], dim);
    made.args = args;
    return ir_make(&s->b, made);
}

/* v of a microbatch that has rows which count, else `none`: without rows it may be 0/0, and is no update. */
static ir_value if_any(struct scope *s, ir_value here, ir_value v, ir_value none)
{
    const struct ir_type type = *ir_type(s->b.f, v);
    ir_value any = ir_binary(&s->b, OP_lt, ir_scalar(&s->b, IR_F32, 0), here);
    return ir_select(&s->b, ir_broadcast_to(&s->b, any, type.rank, type.dim), v, none);
}

/* A mean over microbatches, in which each counts for its rows; what is carried from one to the next (`old`) passes by
 * those without. */
static ir_value weighed(struct scope *s, const struct ir_result *result, const struct fact *f, int64_t kind, ir_value v,
                        ir_value total, ir_value old)
{
    const struct ir_module *m = s->r->from;
    int32_t slot = ir_slot_find(m, result->name); /* a metric's own place: the value may be another one's, too */
    bool metric = slot >= 0 && m->slots.items[slot].role == IR_ROLE_METRIC && m->slots.items[slot].place;
    uint32_t place = metric ? m->slots.items[slot].place : ir_get(s->from, result->value)->place;
    if (kind == SUM && f->kind == COUNTED)
        refuse(
            s, place,
            arena_format(s->r->pass->diags->arena, "\"%s\": a sum over microbatches of means over rows", result->name));
    static const int64_t rows[] = {0};
    if (kind != MEAN && kind != RUNNING_MEAN && kind != CARRY) return v;
    if (kind != CARRY && f->kind == SUMMED)
        refuse(
            s, place,
            arena_format(s->r->pass->diags->arena, "\"%s\": a mean over microbatches of sums over rows", result->name));
    if (kind != CARRY && f->kind == SAME) return v;
    const struct ir_type type = *ir_type(s->b.f, v);
    ir_value here = ir_reduce(&s->b, OP_reduce_sum, ir_cast(&s->b, s->mask, IR_F32), rows, 1);
    if (kind == CARRY) return if_any(s, here, v, old);
    ir_value weight = ir_cast(&s->b, ir_binary(&s->b, OP_div, here, total), (enum ir_dtype)type.dtype);
    v = ir_binary(&s->b, OP_mul, v, ir_broadcast_to(&s->b, weight, type.rank, type.dim));
    return if_any(s, here, v, ir_number_like(&s->b, v, 0));
}

/* The function with facts of its parameters, and a mask among them (-1: none); results: their facts. Of a microbatch
 * (kinds not NULL) also the number of all rows that count, over that of microbatches. */
static struct ir_func *rewrite(struct rows *r, const struct ir_func *from, const struct fact *params, int64_t batch,
                               int64_t mask_at, int64_t total_at, const int64_t *kinds, struct fact *results)
{
    struct arena *a = &r->pass->scratch;
    struct ir_func *to = from->entry ? ir_func_find(r->to, from->name) : pass_new_body(r->pass, r->to, from, "rows");
    struct scope s = {.r = r, .from = from, .b = {.f = to}, .batch = batch};
    ir_value total = 0;
    int64_t carried = 0;
    bool *live = ir_live(from, a);
    s.facts = arena_new_array(a, struct fact, from->count);
    s.map = arena_new_array(a, ir_value, from->count);
    for (size_t i = 0; i <= from->params.count; i++) {
        if ((int64_t)i == mask_at) s.mask = ir_param_new(&s.b, "counted", ir_type_of(IR_BOOL, 1, &batch), -1);
        if ((int64_t)i == total_at) total = ir_param_new(&s.b, "rows", ir_type_scalar(IR_F32), -1);
        if (i == from->params.count) break;
        const struct ir_param *p = &from->params.items[i];
        s.map[p->value] = ir_param_new(&s.b, p->name, p->type, p->slot);
        if (params) s.facts[p->value] = params[i];
        if (!from->entry || p->slot != r->slot) continue;
        ir_value number = ir_iota(&s.b, ir_type_of(IR_I32, 1, &batch), 0);
        s.mask = ir_binary(&s.b, OP_lt, number, ir_broadcast_to(&s.b, s.map[p->value], 1, &batch));
    }
    for (size_t i = 0; from->entry && s.mask && i < from->params.count; i++) {
        const struct ir_param *p = &from->params.items[i];
        const struct ir_slot *slot = p->slot >= 0 ? &r->from->slots.items[p->slot] : NULL;
        if (!slot || slot->role != IR_ROLE_INPUT || !slot->batch_dims) continue;
        s.facts[p->value] = (struct fact){.kind = ROW, .dim = (int8_t)__builtin_ctz(slot->batch_dims)};
        if (slot->batch_dims & (slot->batch_dims - 1) || p->type.dim[s.facts[p->value].dim] != batch)
            refuse(&s, slot->place, "inputs of one batch along one dimension each are needed");
    }
    for (ir_value v = 1; v < from->count && !r->failed; v++)
        if (live[v] && !s.map[v]) s.map[v] = node(&s, v);
    for (size_t i = 0; i < from->results.count && !r->failed; i++) {
        const struct ir_result *result = &from->results.items[i];
        const struct fact *f = &s.facts[result->value];
        ir_value v = s.map[result->value];
        s.b.place = ir_get(from, result->value)->place;
        if (from->entry && f->kind == ROW) v = masked(&s, v, f->dim);
        if (from->entry && f->kind == SUMMED && result->slot >= 0 &&
            r->to->slots.items[result->slot].role == IR_ROLE_METRIC)
            r->to->slots.items[result->slot].frozen = true; /* a sum: see STEP_SUMMED */
        ir_value old = kinds && kinds[i] == CARRY ? s.map[from->params.items[total_at + carried++].value] : 0;
        if (kinds) v = weighed(&s, result, f, kinds[i], v, total, old);
        if (results) results[i] = *f;
        ir_result_add(&s.b, result->name, v, result->slot);
    }
    return to;
}

struct ir_module *pass_rows(struct pass *p, struct ir_module *m)
{
    int32_t slot = -1;
    int64_t batch = 0;
    for (size_t i = 0; i < m->slots.count && !batch; i++) {
        const struct ir_slot *s = &m->slots.items[i];
        if (s->role == IR_ROLE_INPUT && s->batch_dims) batch = s->type.dim[__builtin_ctz(s->batch_dims)];
    }
    for (size_t i = 0; i < m->slots.count; i++)
        if (m->slots.items[i].role == IR_ROLE_INPUT && strcmp(m->slots.items[i].name, IR_ROWS_INPUT) == 0)
            slot = (int32_t)i;
    if (slot < 0) return m;
    struct rows r = {.pass = p, .from = m, .to = ir_module_like(m), .slot = slot, .told = MAP(&p->scratch)};
    r.to->funcs.count = 0;
    for (size_t i = 0; i < m->funcs.count; i++)
        if (m->funcs.items[i]->entry) ir_func_new(r.to, m->funcs.items[i]->name, true);
    for (size_t i = 0; i < m->funcs.count && !r.failed; i++)
        if (m->funcs.items[i]->entry) rewrite(&r, m->funcs.items[i], NULL, batch, -1, -1, NULL, NULL);
    r.to->counted.count = 0;
    for (size_t i = 0; i < m->counted.count; i++) refuse_by(&r, m->counted.items[i].place, m->counted.items[i].what);
    if (!r.failed) return r.to;
    ir_module_free(r.to);
    return NULL;
}
