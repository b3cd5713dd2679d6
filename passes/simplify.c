/* Algebra that needs to see more than one node's operands, and so is not the builder's: dead nodes go by rebuilding
 * alone. simplify.def lists the rules. Kept small: what is here makes later kernels smaller, not the text shorter. */
#include "passes/common.h"
#include <string.h>

/* A node of the old function, its operands in the new one, and how often values of the old one are used. A rule returns
 * 0 where it does not hold. */
#define RULE_ARGUMENTS struct ir_builder *b, const struct ir_node *n, const ir_value *args, const uint32_t *uses

static const struct ir_node *get(struct ir_builder *b, ir_value v) { return ir_get(b->f, v); }

/* Element-wise work on values that are repeated is done once per different element:
 * exp(broadcast(x)) is broadcast(exp(x)). Constants go along. 0: not of this form. */
static ir_value repeated(RULE_ARGUMENTS)
{
    (void)uses;
    struct ir_node first = {0};
    ir_value small[4];
    double number;
    if (!(ir_ops[n->op].flags & IR_PURE) || n->arg_count > 4) return 0;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        if (!first.op && get(b, args[i])->op == OP_broadcast) first = *get(b, args[i]);
    }
    if (!first.op) return 0;
    const struct ir_type shape = *ir_type(b->f, first.args[0]);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct ir_node a = *get(b, args[i]);
        struct ir_type type = shape;
        type.dtype = a.type.dtype;
        if (a.op == OP_constant && pass_number(b->f, args[i], &number)) {
            small[i] = ir_number(b, type, number);
            continue;
        }
        if (a.op != OP_broadcast || a.attr[0].n != first.attr[0].n || !ir_type_equal(ir_type(b->f, a.args[0]), &type) ||
            (a.attr[0].n && memcmp(a.attr[0].v, first.attr[0].v, a.attr[0].n * sizeof(int64_t)) != 0))
            return 0;
        small[i] = a.args[0];
    }
    return ir_broadcast(b, ir_remake(b, n, small), first.type.rank, first.type.dim, first.attr[0].v);
}

/* A sum of 16-bit floats is rounded at every step: no product gives it. */
static bool is_stepwise(const struct ir_node *n)
{
    return n->op == OP_reduce_sum && (n->type.dtype == IR_BF16 || n->type.dtype == IR_F16);
}

/* The sum over repeated elements is a product, their maximum is one of them; what is not repeated is reduced before
 * it is broadcast. */
static ir_value reduce_of_repeated(RULE_ARGUMENTS)
{
    (void)uses;
    const struct ir_node x = *get(b, args[0]);
    if (x.op != OP_broadcast || n->op == OP_reduce_prod) return 0;
    struct pass_dims inner = {.n = 0}, kept = {.n = 0};
    const struct ir_type from = *ir_type(b->f, x.args[0]);
    double count = 1;
    uint32_t at = 0;
    int64_t place = 0;
    for (uint32_t i = 0; i < x.type.rank; i++) {
        bool made = at >= from.rank || x.attr[0].v[at] != i;
        bool is_repeated = made || from.dim[at] != x.type.dim[i], reduced = pass_has(n->attr[0], i);
        if (reduced && is_repeated) count *= (double)x.type.dim[i];
        if (reduced && !made) pass_dims_add(&inner, at);
        if (!reduced && !made) pass_dims_add(&kept, place);
        at += !made;
        place += !reduced;
    }
    enum ir_dtype dtype = (enum ir_dtype)n->type.dtype;
    if ((count == 1 && !inner.n) || count == 0 || ir_element_round(dtype, count) != count) return 0;
    if (count != 1 && is_stepwise(n)) return 0;
    ir_value sum = inner.n ? ir_reduce_plain(b, (enum ir_op)n->op, x.args[0], inner.v, inner.n) : x.args[0];
    if (n->op == OP_reduce_sum && count != 1) sum = ir_binary(b, OP_mul, sum, ir_number_like(b, sum, count));
    return ir_broadcast(b, sum, n->type.rank, n->type.dim, kept.v);
}

static ir_value reduce_of_constant(RULE_ARGUMENTS)
{
    (void)uses;
    double number, count = 1;
    if (get(b, args[0])->op != OP_constant || !pass_number(b->f, args[0], &number) || n->op != OP_reduce_sum) return 0;
    if (is_stepwise(n)) return 0;
    for (uint32_t i = 0; i < n->attr[0].n; i++) count *= (double)ir_type(b->f, args[0])->dim[n->attr[0].v[i]];
    return count > 0 && ir_dtype_is_float((enum ir_dtype)n->type.dtype) ? ir_number(b, n->type, number * count) : 0;
}

/* A sum over dimensions of extent 1 is a reshape. */
static ir_value reduce_of_one(RULE_ARGUMENTS)
{
    (void)uses;
    const struct ir_type *type = ir_type(b->f, args[0]);
    for (uint32_t i = 0; i < n->attr[0].n; i++)
        if (type->dim[n->attr[0].v[i]] != 1) return 0;
    return ir_reshape(b, args[0], n->type.rank, n->type.dim);
}

/* A reduction reads a transposed operand as it lies, if what is kept stays in order. */
static ir_value reduce_of_transposed(RULE_ARGUMENTS)
{
    const struct ir_node x = *get(b, args[0]);
    struct pass_dims dims = {.n = 0};
    int64_t last = -1;
    for (uint32_t i = 0; i < x.type.rank && x.op == OP_transpose; i++) {
        if (pass_has(n->attr[0], i)) {
            pass_dims_add(&dims, x.attr[0].v[i]);
            continue;
        }
        if (x.attr[0].v[i] < last) return 0;
        last = x.attr[0].v[i];
    }
    return x.op == OP_transpose && uses ? ir_reduce_plain(b, (enum ir_op)n->op, x.args[0], dims.v, dims.n) : 0;
}

/* What of the permuted result an element-wise operand is without the permutation: one that was permuted alike, or what
 * costs nothing to make in another order. 0: neither. */
enum { TURN_DEPTH = 8 };
static ir_value unturned(struct ir_builder *b, ir_value v, const int64_t *to, uint32_t depth)
{
    const struct ir_node n = *get(b, v);
    struct ir_type type = n.type;
    double number;
    for (uint32_t i = 0; i < n.type.rank; i++) type.dim[to[i]] = n.type.dim[i];
    if (n.op == OP_transpose) return memcmp(n.attr[0].v, to, n.type.rank * sizeof *to) ? 0 : n.args[0];
    if (pass_number(b->f, v, &number)) return ir_number(b, type, number);
    if (n.op == OP_iota) {
        struct ir_node iota = n;
        iota.type = type, iota.attr[0].v = &to[n.attr[0].v[0]];
        return ir_make(b, iota);
    }
    if (n.op == OP_broadcast) {
        const struct ir_type from = *ir_type(b->f, n.args[0]);
        int64_t dims[1] = {0}, extent[1] = {1};
        for (uint32_t i = 0; i < from.rank; i++) {
            if (from.dim[i] == 1) continue;
            if (extent[0] != 1) return 0;
            extent[0] = from.dim[i], dims[0] = to[n.attr[0].v[i]];
        }
        bool one = extent[0] == 1;
        return ir_broadcast(b, ir_reshape(b, n.args[0], one ? 0 : 1, extent), type.rank, type.dim, dims);
    }
    if (!depth || !(ir_ops[n.op].flags & IR_EWISE) || n.op == OP_sharding_constraint || n.arg_count > 4) return 0;
    ir_value args[4];
    for (uint32_t i = 0; i < n.arg_count; i++)
        if (!(args[i] = unturned(b, n.args[i], to, depth - 1))) return 0;
    return ir_remake(b, &n, args);
}

/* Element-wise work on what is turned round is done before: what is read both ways (a matrix of similarities, say) is
 * read as it lies, and a reduction behind it, too. */
static ir_value ewise_of_transposed(RULE_ARGUMENTS)
{
    const int64_t *to = NULL;
    ir_value before[4];
    for (uint32_t i = 0; i < n->arg_count && n->arg_count <= 4 && !to; i++) {
        const struct ir_node *x = get(b, args[i]);
        if (x->op == OP_transpose && x->attr[0].v[x->type.rank - 1] + 1 != x->type.rank) to = x->attr[0].v;
    }
    if (!to || !uses) return 0;
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (!(before[i] = unturned(b, args[i], to, TURN_DEPTH))) return 0;
    return ir_transpose(b, ir_remake(b, n, before), to);
}

/* A contraction reads its operands in any order: a transposed one is read as it lies, if the order of its free
 * dimensions stays. */
static ir_value dot_of_transposed(RULE_ARGUMENTS)
{
    for (uint32_t side = 0; side < 2; side++) {
        const struct ir_node x = *get(b, args[side]);
        int64_t dims[2][IR_MAX_RANK], last = -1;
        bool keeps = x.op == OP_transpose;
        for (uint32_t i = 0; keeps && i < x.type.rank; i++) {
            bool is_free = !pass_has(n->attr[side], i) && !pass_has(n->attr[side + 2], i);
            keeps = !is_free || x.attr[0].v[i] > last;
            last = is_free ? x.attr[0].v[i] : last;
        }
        if (!keeps) continue;
        struct ir_node dot = *n;
        for (uint32_t list = 0; list < 2; list++) {
            struct ir_ints *attr = &dot.attr[side + 2 * list];
            for (uint32_t k = 0; k < attr->n; k++) dims[list][k] = x.attr[0].v[attr->v[k]];
            attr->v = dims[list];
        }
        ir_value operands[2] = {args[0], args[1]};
        operands[side] = x.args[0];
        ir_value other = dot_of_transposed(b, &dot, operands, uses);
        return other ? other : ir_remake(b, &dot, operands);
    }
    return 0;
}

/* Every number of `from` is one of `to`. */
static bool holds(enum ir_dtype to, enum ir_dtype from)
{
    static const uint8_t digits[IR_DTYPE_COUNT] = {
        [IR_BOOL] = 1, [IR_U8] = 8,   [IR_I8] = 8,   [IR_U16] = 16, [IR_I16] = 16, [IR_U32] = 32, [IR_I32] = 32,
        [IR_U64] = 64, [IR_I64] = 64, [IR_F16] = 11, [IR_BF16] = 8, [IR_F32] = 24, [IR_F64] = 53};
    if (to == IR_BOOL || (ir_dtype_is_float(from) && !ir_dtype_is_float(to))) return to == from;
    if (ir_dtype_is_float(from))
        return digits[to] >= digits[from] && !(to == IR_F16 && from == IR_BF16) &&
               ir_dtype_bytes(to) > ir_dtype_bytes(from);
    if (ir_dtype_is_signed(from) && !ir_dtype_is_signed(to)) return false;
    return digits[to] > digits[from] ||
           (digits[to] == digits[from] && ir_dtype_is_signed(from) == ir_dtype_is_signed(to));
}

/* What of a product is read rounded is rounded where it is made, in whatever order it is read. */
static ir_value cast_of_transposed(RULE_ARGUMENTS)
{
    (void)uses;
    const struct ir_node x = *get(b, args[0]);
    bool less = ir_dtype_bytes((enum ir_dtype)n->type.dtype) < ir_dtype_bytes((enum ir_dtype)x.type.dtype);
    if (x.op != OP_transpose || get(b, x.args[0])->op != OP_dot || !less) return 0;
    return ir_transpose(b, ir_cast(b, x.args[0], (enum ir_dtype)n->type.dtype), x.attr[0].v);
}

/* There and back again. Not from integers by floats to integers: floats saturate, integers wrap around. */
static ir_value casts(RULE_ARGUMENTS)
{
    (void)uses;
    const struct ir_node *inner = get(b, args[0]);
    if (inner->op != OP_cast) return 0;
    ir_value x = inner->args[0];
    enum ir_dtype from = (enum ir_dtype)ir_type(b->f, x)->dtype, between = (enum ir_dtype)inner->type.dtype;
    enum ir_dtype to = (enum ir_dtype)n->type.dtype;
    bool wraps = !ir_dtype_is_float(from) && ir_dtype_is_float(between) && ir_dtype_is_integer(to) && !holds(to, from);
    return holds(between, from) && !wraps ? ir_cast(b, x, to) : 0;
}

/* What is scattered into zeros and then added is scattered into the other summand: the gradient of an embedding that
 * is used twice needs no table of its own. A sum that a loop carries is what all else is added to. Sums are in another
 * order then. */
static ir_value scatter_into_sum(RULE_ARGUMENTS)
{
    for (uint32_t side = 0; side < 2 && uses; side++) {
        const struct ir_node scatter = *get(b, args[side]);
        double number;
        if (scatter.op != OP_scatter_add || uses[n->args[side]] != 1) continue;
        bool zero = pass_number(b->f, scatter.args[0], &number) && number == 0,
             carried = !b->f->entry && get(b, args[1 - side])->op == OP_param;
        if (!zero && !carried) continue;
        ir_value sum = zero ? args[1 - side] : ir_binary(b, OP_add, args[1 - side], scatter.args[0]);
        return ir_remake(b, &scatter, (ir_value[]){sum, scatter.args[1], scatter.args[2]});
    }
    return 0;
}

enum { PADS = 256 }; /* taps of a transposed convolution, say: 125 of 5 x 5 x 5 */

/* Adds the summands of v, tensors with zeros before and behind along one dimension, in the order of their places. No
 * more sums than there may be pads, `within` each other, are looked through: a sum of very many is asked at every one.
 */
static bool collect_pads(struct ir_builder *b, ir_value v, ir_value *pads, uint32_t *count, uint32_t *dim,
                         uint32_t within)
{
    const struct ir_node *n = get(b, v);
    double fill;
    if (n->op == OP_add)
        return within && collect_pads(b, n->args[1], pads, count, dim, within - 1) &&
               collect_pads(b, n->args[0], pads, count, dim, within - 1);
    if (n->op != OP_pad || *count == PADS || !pass_number(b->f, n->args[1], &fill) || fill != 0) return false;
    for (uint32_t d = 0; d < n->type.rank; d++) {
        if (n->attr[2].v[d] || n->attr[0].v[d] < 0 || n->attr[1].v[d] < 0) return false;
        if (!n->attr[0].v[d] && !n->attr[1].v[d]) continue;
        if (*dim != IR_MAX_RANK && *dim != d) return false;
        *dim = d;
    }
    if (*dim == IR_MAX_RANK) return false;
    uint32_t at = (*count)++;
    for (; at && get(b, pads[at - 1])->attr[0].v[*dim] > n->attr[0].v[*dim]; at--) pads[at] = pads[at - 1];
    pads[at] = v;
    return true;
}

/* The gradient of what is taken apart is put together again. */
static ir_value sum_of_pads(RULE_ARGUMENTS)
{
    ir_value pads[PADS];
    uint32_t count = 0, dim = IR_MAX_RANK;
    int64_t end = 0;
    (void)uses;
    for (uint32_t i = 0; i < 2; i++)
        if (!collect_pads(b, args[1 - i], pads, &count, &dim, PADS)) return 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct ir_node *x = get(b, pads[i]);
        if (x->attr[0].v[dim] != end) return 0;
        end += ir_type(b->f, x->args[0])->dim[dim];
        pads[i] = x->args[0];
    }
    return end == n->type.dim[dim] ? ir_concat(b, pads, count, dim) : 0;
}

/* The nodes that a row of the table is for. */
static bool is_ewise(const struct ir_node *n)
{ /* but for a layout, which is of all dimensions */
    return ir_ops[n->op].flags & IR_EWISE && n->op != OP_sharding_constraint;
}
static bool is_reduce(const struct ir_node *n)
{
    return n->op == OP_reduce_sum || n->op == OP_reduce_max || n->op == OP_reduce_min || n->op == OP_reduce_prod;
}
static bool is_add(const struct ir_node *n) { return n->op == OP_add; }
static bool is_dot(const struct ir_node *n) { return n->op == OP_dot; }
static bool is_cast(const struct ir_node *n) { return n->op == OP_cast; }

static ir_value simpler(RULE_ARGUMENTS)
{
    ir_value found;
#define RULE(name, of, equation) \
    if (is_##of(n) && (found = name(b, n, args, uses))) return found;
#include "passes/simplify.def"
#undef RULE
    return 0;
}

struct state {
    struct pass *pass;
    const struct ir_func *from;
    const uint32_t *uses; /* of its values; NULL: sums keep their order */
};

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct state *s = user;
    const struct ir_node *n = ir_get(from, old);
    ir_value *args = arena_new_array(&s->pass->scratch, ir_value, n->arg_count + 1u);
    for (uint32_t i = 0; i < n->arg_count; i++) args[i] = map[n->args[i]];
    if (s->from != from && !s->pass->options->invariant) s->uses = ir_use_counts(s->from = from, &s->pass->scratch);
    ir_value found = simpler(b, n, args, s->uses);
    return found ? found : ir_remake(b, n, args);
}

/* Was so much replaced that it pays to make the functions anew without it? A few dead ones among very many go with the
 * next pass. */
static bool is_littered(const struct ir_module *m, struct arena *scratch)
{
    uint64_t dead = 0, all = 0;
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *f = m->funcs.items[i];
        const bool *live = ir_live(f, scratch);
        for (ir_value v = 1; v < f->count; v++) dead += !live[v] && ir_get(f, v)->op != OP_param;
        all += f->count;
    }
    return dead && (dead > all / 8 || all < 1000);
}

struct ir_module *pass_simplify(struct pass *p, struct ir_module *m)
{
    struct state s = {.pass = p};
    struct ir_module *to = pass_rebuild(p, m, rewrite, &s);
    if (!is_littered(to, &p->scratch)) return to;
    struct ir_module *clean = pass_rebuild(p, to, NULL, NULL);
    ir_module_free(to);
    return clean;
}
