/* Values of expressions: numbers, tuples, tensors and their types, the promotion and broadcasting of JAX (64-bit types
 * off), and how one becomes another. */
#include "frontend/expr/values.h"
#include <math.h>
#include <string.h>

struct fe_val fe_none(void) { return (struct fe_val){.kind = FE_VAL_NONE}; }
struct fe_val fe_int(double x) { return (struct fe_val){.kind = FE_VAL_NUMBER, .python = FE_PY_INT, .number = x}; }
struct fe_val fe_float(double x) { return (struct fe_val){.kind = FE_VAL_NUMBER, .python = FE_PY_FLOAT, .number = x}; }
struct fe_val fe_val_number(double x, bool integer) { return integer ? fe_int(x) : fe_float(x); }
struct fe_val fe_tensor_val(ir_value v, bool weak)
{
    return v ? (struct fe_val){.kind = FE_VAL_TENSOR, .tensor = v, .weak = weak} : fe_bad();
}
struct fe_val fe_val_tensor(ir_value v) { return fe_tensor_val(v, false); }
struct fe_val fe_input_value(struct ir_builder *b, ir_value v)
{
    return fe_val_tensor(ir_cast(b, v, fe_dtype_narrow((enum ir_dtype)ir_type(b->f, v)->dtype)));
}
bool fe_is_none(const struct fe_val *v) { return v->kind == FE_VAL_NONE && !v->bad; }
bool fe_truth(const struct fe_val *v) { return v->kind == FE_VAL_NUMBER && v->number != 0; }

struct fe_val fe_tuple(struct fe_site *s, const struct fe_val *items, uint32_t count)
{
    struct fe_val t = {.kind = FE_VAL_TUPLE, .count = count};
    t.items = count ? arena_copy(s->fe->arena, items, count * sizeof *items) : NULL;
    for (uint32_t i = 0; i < count; i++)
        if (items[i].bad) return fe_bad();
    return t;
}

struct fe_val fe_named_tuple(struct fe_site *s, const struct fe_val *items, uint32_t count, const char *const *names)
{
    struct fe_val t = fe_tuple(s, items, count);
    t.names = names, t.list = true;
    return t;
}

static const char *const complex_names[] = {"real", "imag"};
bool fe_is_complex(const struct fe_val *v) { return v->kind == FE_VAL_TUPLE && v->names == complex_names; }
struct fe_val fe_complex(struct fe_site *s, struct fe_val re, struct fe_val im)
{
    struct fe_val both[] = {re, im}, v = fe_tuple(s, both, 2);
    v.names = complex_names;
    return v;
}

static enum ir_dtype number_dtype(const struct fe_val *v)
{
    return v->python == FE_PY_BOOL ? IR_BOOL : v->python == FE_PY_INT ? IR_I32 : IR_F32;
}

struct ir_type fe_type_at(const struct fe_site *s, const struct fe_val *v)
{
    if (v->kind == FE_VAL_TENSOR) return *ir_type(s->b->f, v->tensor);
    return ir_type_scalar(v->kind == FE_VAL_NUMBER ? number_dtype(v) : IR_F32);
}
uint32_t fe_rank(const struct fe_site *s, const struct fe_val *v) { return fe_type_at(s, v).rank; }

const char *fe_type_text(const struct fe_site *s, const struct ir_type *t)
{
    if (!s->fe) BUG("terms (term.c) that do not fit, of which one is %s", ir_dtype_name((enum ir_dtype)t->dtype));
    return ir_type_text(s->fe->arena, t);
}

const char *fe_describe(const struct fe_site *s, const struct fe_val *v)
{
    struct ir_type t;
    switch (v->kind) {
    case FE_VAL_NONE: return "None";
    case FE_VAL_NUMBER: return "a number";
    case FE_VAL_TENSOR: t = fe_type_at(s, v); return fe_type_text(s, &t);
    case FE_VAL_TUPLE:
        return fe_is_complex(v) ? "a complex value (take abs, real or imag)"
               : v->names       ? "several named values"
                                : "a tuple";
    case FE_VAL_STRING: return "a string";
    case FE_VAL_TREE: return "a tree of tensors";
    case FE_VAL_SLICE: return "a slice";
    case FE_VAL_FORM: return "a function";
    case FE_VAL_AT: return "a place of a tensor";
    default: return "...";
    }
}

/* ---------------------------------------------------------------- promotion */

int fe_dtype_class(enum ir_dtype d) { return ir_dtype_is_float(d) ? 2 : d == IR_BOOL ? 0 : 1; }

static enum ir_dtype join_integers(enum ir_dtype a, enum ir_dtype b)
{
    bool sa = ir_dtype_is_signed(a), sb = ir_dtype_is_signed(b);
    size_t na = ir_dtype_bytes(a), nb = ir_dtype_bytes(b);
    if (sa == sb) return na >= nb ? a : b;
    enum ir_dtype is = sa ? a : b;
    size_t nu = sa ? nb : na, ns = sa ? na : nb;
    if (ns > nu) return is;
    return nu == 1 ? IR_I16 : IR_I32; /* uint32 with a signed one would be int64 */
}

static enum ir_dtype join_dtypes(enum ir_dtype a, enum ir_dtype b)
{
    if (a == b) return a;
    int ca = fe_dtype_class(a), cb = fe_dtype_class(b);
    if (ca != cb) return ca > cb ? a : b;
    if (ca == 1) return join_integers(a, b);
    if (ir_dtype_bytes(a) == ir_dtype_bytes(b)) return IR_F32; /* float16 and bfloat16 */
    return ir_dtype_bytes(a) > ir_dtype_bytes(b) ? a : b;
}

struct fe_kind_of fe_promote(struct fe_kind_of a, struct fe_kind_of b)
{
    if (a.weak == b.weak) return (struct fe_kind_of){join_dtypes(a.dtype, b.dtype), a.weak};
    struct fe_kind_of weak = a.weak ? a : b, strong = a.weak ? b : a;
    return fe_dtype_class(weak.dtype) > fe_dtype_class(strong.dtype) ? weak : strong;
}

struct fe_kind_of fe_kind(const struct fe_site *s, const struct fe_val *v)
{
    if (v->kind == FE_VAL_NUMBER) return (struct fe_kind_of){number_dtype(v), v->python != FE_PY_BOOL};
    return (struct fe_kind_of){(enum ir_dtype)fe_type_at(s, v).dtype, v->weak};
}

bool fe_broadcast_shapes(const struct ir_type *a, const struct ir_type *b, struct ir_type *out)
{
    struct ir_type t = {.dtype = a->dtype, .rank = a->rank > b->rank ? a->rank : b->rank};
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t x = i < a->rank ? a->dim[a->rank - 1 - i] : 1, y = i < b->rank ? b->dim[b->rank - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) return false;
        t.dim[t.rank - 1 - i] = x == 1 ? y : x;
    }
    *out = t;
    return true;
}

/* ---------------------------------------------------------------- conversions */

bool fe_as_tensor(const struct fe_site *s, struct fe_val *v)
{
    if (v->bad) return false;
    if (v->kind == FE_VAL_TENSOR) return true;
    if (v->kind == FE_VAL_NUMBER) {
        *v = fe_tensor_val(fe_number_as(s, v, fe_type_at(s, v)), v->python != FE_PY_BOOL);
        return !v->bad;
    }
    if (v->kind == FE_VAL_TUPLE && !v->names && v->count) { /* [1, 2, 3] where an array is meant */
        struct fe_site site = *s;
        struct fe_val *items = arena_copy(s->fe->arena, v->items, v->count * sizeof *items);
        bool good = true;
        for (uint32_t i = 0; i < v->count && good; i++)
            good = items[i].kind == FE_VAL_NUMBER || fe_as_tensor(s, &items[i]);
        *v = good ? fe_stack(&site, items, v->count, 0) : fe_bad();
        return !v->bad;
    }
    fe_fail(s, "E0310", "a tensor expected, found %s", fe_describe(s, v));
    *v = fe_bad();
    return false;
}

ir_value fe_number_as(const struct fe_site *s, const struct fe_val *v, struct ir_type type)
{
    enum ir_dtype dtype = (enum ir_dtype)type.dtype;
    bool wide = ir_dtype_bytes(dtype) > 4 && fabs(v->number) < 0x1p53;
    if (v->python == FE_PY_FLOAT || !ir_dtype_is_integer(dtype) || wide) return ir_number(s->b, type, v->number);
    double span = ldexp(1, 8 * (int)ir_dtype_bytes(dtype)), least = ir_dtype_is_signed(dtype) ? -span / 2 : 0;
    double beyond = v->number - least, low = least + beyond - span * floor(beyond / span);
    if (low == v->number || fabs(v->number + 0.5) < 0x1p31) return ir_number(s->b, type, low);
    struct str number = STR(s->fe->arena);
    str_add_number(&number, v->number, false);
    fe_fail(s, "E0310", "%s does not fit into %s; as a float it is written %s%s", str_text(&number),
            ir_dtype_name(dtype), str_text(&number), strpbrk(str_text(&number), ".e") ? "" : ".0");
    return 0;
}

ir_value fe_value_as(const struct fe_site *s, const struct fe_val *v, enum ir_dtype dtype)
{
    struct fe_val t = *v;
    if (t.kind == FE_VAL_NUMBER) return fe_number_as(s, &t, ir_type_scalar(dtype));
    return fe_as_tensor(s, &t) ? ir_cast(s->b, t.tensor, dtype) : 0;
}

struct fe_val fe_broadcast_val(struct fe_site *s, struct fe_val v, uint32_t rank, const int64_t *shape)
{
    if (!fe_as_tensor(s, &v)) return fe_bad();
    struct ir_type have = fe_type_at(s, &v), want = ir_type_of((enum ir_dtype)have.dtype, rank, shape), both;
    if (ir_type_equal(&have, &want)) return v;
    if (!fe_broadcast_shapes(&have, &want, &both) || !ir_type_equal(&both, &want))
        return fe_fail(s, "E0210", "%s cannot be broadcast to %s", fe_type_text(s, &have), fe_type_text(s, &want));
    return fe_tensor_val(ir_broadcast_to(s->b, v.tensor, rank, shape), v.weak);
}

struct fe_val fe_reshape_val(struct fe_site *s, struct fe_val v, uint32_t rank, const int64_t *shape)
{
    if (!fe_as_tensor(s, &v)) return fe_bad();
    struct ir_type have = fe_type_at(s, &v), want = ir_type_of((enum ir_dtype)have.dtype, rank, shape);
    if (ir_type_equal(&have, &want)) return v;
    return fe_tensor_val(ir_reshape(s->b, v.tensor, rank, shape), v.weak);
}

struct fe_val fe_full(struct fe_site *s, struct ir_type type, double x)
{
    return fe_val_tensor(ir_number(s->b, type, x));
}

struct fe_val fe_expand(struct fe_site *s, struct fe_val v, uint32_t axis)
{
    if (!fe_as_tensor(s, &v)) return fe_bad();
    struct ir_type t = fe_type_at(s, &v);
    if (t.rank == IR_MAX_RANK) return fe_fail(s, "E0212", "a tensor has at most %d dimensions", IR_MAX_RANK);
    if (axis > t.rank) return fe_fail(s, "E0212", "a tensor of rank 1 or more expected, found %s", fe_describe(s, &v));
    memmove(&t.dim[axis + 1], &t.dim[axis], (t.rank - axis) * sizeof t.dim[0]);
    t.dim[axis] = 1;
    return fe_reshape_val(s, v, t.rank + 1u, t.dim);
}

/* Parts of one tensor that follow each other, its beginning behind its end, are that tensor with more around it, or
 * rolled; 0: they are not. */
static ir_value joined_around(struct fe_site *s, const ir_value *parts, uint32_t count, uint32_t axis)
{
    int64_t low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0}, first = 0, n = 0, end = 0, total = 0;
    ir_value whole = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct ir_node *part = ir_get(s->b->f, parts[i]);
        bool slice = part->op == OP_slice;
        ir_value base = slice ? part->args[0] : parts[i];
        const struct ir_type *t = ir_type(s->b->f, base);
        int64_t start = slice ? part->attr[0].v[axis] : 0, stop = slice ? part->attr[1].v[axis] : t->dim[axis];
        for (uint32_t d = 0; slice && d < t->rank; d++)
            if (part->attr[2].v[d] != 1 || (d != axis && part->type.dim[d] != t->dim[d])) return 0;
        if (!t->dim[axis]) return 0;
        if (i ? base != whole || start != end % n : !ir_dtype_is_float((enum ir_dtype)t->dtype)) return 0;
        if (!i) whole = base, first = start, n = t->dim[axis];
        total += stop - start;
        end = stop;
    }
    low[axis] = first ? n - first : 0;
    if (total == n && low[axis] > first) low[axis] = -first; /* rolled the shorter way */
    high[axis] = total - n - low[axis];
    if (total < n || high[axis] > n || (high[axis] < 0 && total > n)) return 0;
    return low[axis] || high[axis] ? ir_extend(s->b, whole, low, high, IR_EXTEND_WRAP) : whole;
}

struct fe_val fe_join(struct fe_site *s, const struct fe_val *items, uint32_t count, uint32_t axis)
{
    ir_value *parts = arena_new_array(s->fe->arena, ir_value, count);
    struct fe_kind_of k = fe_kind(s, &items[0]);
    struct ir_type first = fe_type_at(s, &items[0]);
    for (uint32_t i = 1; i < count; i++) {
        struct ir_type t = fe_type_at(s, &items[i]);
        k = fe_promote(k, fe_kind(s, &items[i]));
        bool fits = t.rank == first.rank;
        for (uint32_t d = 0; fits && d < t.rank; d++) fits = d == axis || t.dim[d] == first.dim[d];
        if (!fits)
            return fe_fail(s, "E0210", "%s and %s cannot be joined along axis %u", ir_type_text(s->fe->arena, &first),
                           ir_type_text(s->fe->arena, &t), (unsigned)axis);
    }
    for (uint32_t i = 0; i < count; i++) parts[i] = fe_value_as(s, &items[i], k.dtype);
    ir_value around = count > 1 ? joined_around(s, parts, count, axis) : parts[0];
    return fe_tensor_val(around ? around : ir_concat(s->b, parts, count, axis), k.weak);
}

struct fe_val fe_stack(struct fe_site *s, const struct fe_val *items, uint32_t count, uint32_t axis)
{
    struct fe_val *wide = arena_copy(s->fe->arena, items, count * sizeof *wide);
    for (uint32_t i = 0; i < count; i++) {
        struct fe_kind_of k = fe_kind(s, &wide[i]);
        if (!fe_as_tensor(s, &wide[i])) return fe_bad();
        wide[i] = fe_expand(s, wide[i], axis <= fe_rank(s, &wide[i]) ? axis : 0);
        wide[i].weak = k.weak;
        if (wide[i].bad) return fe_bad();
    }
    return fe_join(s, wide, count, axis);
}
