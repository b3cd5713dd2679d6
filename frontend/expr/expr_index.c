/* x[...]: numbers, slices, None, `...` and integer tensors, as in NumPy. Indices that are tensors count from the end
 * when negative and are clamped; x.at[...].set(y) and the like, which drop what is outside. */
#include "frontend/expr/values.h"
#include <math.h>
#include <string.h>

struct fe_index_note *fe_note_index(struct fe_site *s, const struct fe_where *w, const struct fe_val *index,
                                    int64_t least, int64_t limit)
{
    struct fe_index_notes *notes = s->trace->notes;
    if (!notes || s->b != s->trace->b || index->kind != FE_VAL_TENSOR || index->bad) return NULL;
    const char *text = w->json->kind != JSON_STRING ? fe_pointer(s->fe, w->json)
                       : w->part                    ? arena_string_n(s->fe->arena, w->json->string + w->at, w->length)
                                                    : w->json->string;
    vec_push(s->fe->arena, &notes->list,
             ((struct fe_index_note){.text = text, .index = index->tensor, .least = least, .limit = limit}));
    return &notes->list.items[notes->list.count - 1];
}

bool fe_is_index(struct fe_site *s, const struct fe_val *v)
{
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, v).dtype;
    if (ir_dtype_is_integer(d)) return true;
    return fe_wrong_here(s, "E0211", "an index must be of an integer dtype such as int32, found %s", fe_describe(s, v));
}

struct fe_val fe_take(struct fe_site *s, struct fe_val x, struct fe_val indices, uint32_t axis, bool wrap)
{
    if (!fe_as_tensor(s, &x) || !fe_as_tensor(s, &indices) || !fe_is_index(s, &indices)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x), ti = fe_type_at(s, &indices);
    if (t.dim[axis] == 0 && ir_type_elements(&ti) == 0 &&
        t.rank - 1u + ti.rank <= IR_MAX_RANK) { /* nothing of nothing */
        struct ir_type out = ir_type_of((enum ir_dtype)t.dtype, 0, NULL);
        for (uint32_t i = 0; i < t.rank; i++)
            for (uint32_t j = 0; j < (i == axis ? ti.rank : 1u); j++)
                out.dim[out.rank++] = i == axis ? ti.dim[j] : t.dim[i];
        return fe_full(s, out, 0);
    }
    if (t.dim[axis] == 0)
        return fe_fail(s, "E0212", "nothing can be taken from axis %u of %s", (unsigned)axis,
                       ir_type_text(s->fe->arena, &t));
    if ((uint32_t)(t.rank - 1 + ti.rank) > IR_MAX_RANK)
        return fe_fail(s, "E0212", "a tensor has at most %d dimensions", IR_MAX_RANK);
    if (ti.dtype != IR_I32) indices = fe_val_tensor(ir_cast(s->b, indices.tensor, IR_I32));
    if (wrap && ir_dtype_is_signed((enum ir_dtype)ti.dtype))
        indices = fe_where3(s, fe_binary(s, EXPR_OP_LT, indices, fe_int(0)),
                            fe_add(s, indices, fe_int((double)t.dim[axis])), indices);
    return indices.bad ? indices : fe_tensor_val(ir_take(s->b, x.tensor, indices.tensor, axis), x.weak);
}

/* start, stop, step of a slice for an axis of n elements, as Python's slice.indices. */
static bool slice_bounds(struct fe_site *s, const struct fe_val *slice, int64_t n, int64_t *start, int64_t *stop,
                         int64_t *step)
{
    int64_t v[3];
    for (int i = 0; i < 3; i++) {
        const struct fe_val *part = &slice->items[i];
        if (!fe_is_none(part) && (part->kind != FE_VAL_NUMBER || part->python == FE_PY_FLOAT))
            return fe_wrong_here(s, "E0310", "the parts of a slice must be integers, found %s",
                                 part->kind == FE_VAL_NUMBER ? "a fraction" : fe_describe(s, part));
        v[i] = fe_is_none(part) ? (i == 2) : fe_whole(part->number);
    }
    *step = v[2];
    if (*step == 0) return fe_wrong_here(s, "E0212", "the step of a slice may not be 0");
    if (*step > n || *step < -n) *step = (n ? n : 1) * (*step < 0 ? -1 : 1); /* one element, and no sum overflows */
    int64_t low = *step > 0 ? 0 : -1, high = *step > 0 ? n : n - 1;
    for (int i = 0; i < 2; i++) {
        if (fe_is_none(&slice->items[i])) v[i] = (i == 0) == (*step > 0) ? low : high;
        else {
            if (v[i] < 0) v[i] += n;
            v[i] = v[i] < low ? low : v[i] > high ? high : v[i];
        }
    }
    *start = v[0];
    *stop = v[1];
    return true;
}

static struct fe_val slice_tuple(struct fe_site *s, const struct fe_val *base, const struct fe_val *index)
{
    struct fe_val *items = arena_new_array(s->fe->arena, struct fe_val, base->count + 1), out = *base;
    int64_t start, stop, step;
    if (!slice_bounds(s, index, base->count, &start, &stop, &step)) return fe_bad();
    out.count = 0, out.items = items, out.names = NULL;
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) items[out.count++] = base->items[i];
    return out;
}

static struct fe_val index_tuple(struct fe_site *s, const struct fe_val *base, const struct fe_val *index)
{
    if (index->kind == FE_VAL_SLICE) return slice_tuple(s, base, index);
    if (index->kind != FE_VAL_NUMBER || index->python == FE_PY_FLOAT)
        return fe_fail(s, "E0310", "a tuple is indexed by an integer or a slice");
    int64_t i = fe_whole(index->number), n = base->count;
    if (i < -n || i >= n)
        return fe_fail(s, "E0212", "index %lld is outside a tuple of %lld", (long long)i, (long long)n);
    return base->items[i < 0 ? i + n : i];
}

struct indexing {
    int64_t start[IR_MAX_RANK], limit[IR_MAX_RANK], stride[IR_MAX_RANK];
    int64_t reversed[IR_MAX_RANK];
    uint32_t reversed_count;
    uint32_t axis;                  /* of x, next to be used */
    int64_t shape[2 * IR_MAX_RANK]; /* after dropping and adding dimensions */
    uint32_t rank;
    struct fe_val tensor[IR_MAX_RANK]; /* integer tensors and the axis of the new shape that each replaces */
    struct fe_where tensor_where[IR_MAX_RANK];
    uint32_t tensor_axis[IR_MAX_RANK], tensor_count;
    bool all;   /* the slices leave everything */
    bool apart; /* something else stands between numbers and tensors: the dimensions of these come first */
};

static bool add_whole(struct indexing *x, const struct ir_type *t)
{
    x->start[x->axis] = 0;
    x->limit[x->axis] = t->dim[x->axis];
    x->stride[x->axis] = 1;
    x->shape[x->rank++] = t->dim[x->axis++];
    return true;
}

static bool add_number(struct fe_site *s, struct indexing *x, const struct ir_type *t, const struct fe_val *item)
{
    int64_t i = fe_whole(item->number), n = t->dim[x->axis];
    if (item->python != FE_PY_INT) return fe_wrong_here(s, "E0310", "an index must be an integer");
    if (i < -n || i >= n)
        return fe_wrong_here(s, "E0212", "index %lld is outside axis %u of %s, which has %lld elements", (long long)i,
                             (unsigned)x->axis, ir_type_text(s->fe->arena, t), (long long)n);
    if (i < 0) i += n;
    x->start[x->axis] = i;
    x->limit[x->axis] = i + 1;
    x->stride[x->axis++] = 1;
    return true;
}

static bool add_slice(struct fe_site *s, struct indexing *x, const struct ir_type *t, const struct fe_val *item)
{
    int64_t start, stop, step;
    if (!slice_bounds(s, item, t->dim[x->axis], &start, &stop, &step)) return false;
    int64_t count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
    if (count < 0) count = 0;
    if (step < 0) { /* the same elements in ascending order, then reversed */
        start = start + (count - 1) * step;
        step = -step;
        if (count) x->reversed[x->reversed_count++] = x->axis;
    }
    if (!count) start = 0;
    x->start[x->axis] = start;
    x->limit[x->axis] = count ? start + (count - 1) * step + 1 : start;
    x->stride[x->axis++] = step;
    x->shape[x->rank++] = count;
    return true;
}

static bool add_item(struct fe_site *s, struct indexing *x, const struct ir_type *t, const struct fe_val *item)
{
    struct fe_val v = *item;
    switch (v.kind) {
    case FE_VAL_NONE: x->shape[x->rank++] = 1; return true;
    case FE_VAL_NUMBER: return add_number(s, x, t, &v);
    case FE_VAL_SLICE: return add_slice(s, x, t, &v);
    case FE_VAL_TUPLE:
    case FE_VAL_TENSOR:
        if (!fe_as_tensor(s, &v)) return false;
        if (fe_type_at(s, &v).dtype == IR_BOOL)
            return fe_wrong_here(
                s, "E0310",
                "a bool index would give a shape that depends on values; use where(mask, x, other), or sum(x, "
                "where=mask)");
        if (!fe_is_index(s, &v)) return false;
        x->tensor[x->tensor_count] = v;
        x->tensor_where[x->tensor_count] = s->where;
        x->tensor_axis[x->tensor_count++] = x->rank;
        return add_whole(x, t);
    default: fe_fail(s, "E0310", "%s is no index", fe_describe(s, &v)); return false;
    }
}

/* The axes that tensors index stand next to each other, first if a slice stood between them: their number, and where
 * each axis of the result comes from. */
static uint32_t gather_axes(const struct indexing *x, uint32_t rank, uint32_t *perm)
{
    uint32_t n = x->tensor_count, at = 0;
    uint32_t first = x->apart ? 0 : x->tensor_axis[0];
    for (uint32_t i = 0; i < rank; i++) {
        bool used = false;
        for (uint32_t j = 0; j < n; j++) used |= x->tensor_axis[j] == i;
        if (i == 0 && first == 0)
            for (uint32_t j = 0; j < n; j++) perm[at++] = x->tensor_axis[j];
        if (!used) perm[at++] = i;
        if (first && i + 1 == first)
            for (uint32_t j = 0; j < n; j++) perm[at++] = x->tensor_axis[j];
    }
    return first;
}

/* Several index tensors: they are broadcast together and become one index into the merged axes. `inside`: where it is
 * none, an index outside is no index, otherwise the nearest one is meant. */
static struct fe_val merged_index(struct fe_site *s, const struct indexing *x, const struct ir_type *t,
                                  struct fe_val *inside)
{
    struct fe_val flat = fe_int(0);
    for (uint32_t i = 0; i < x->tensor_count; i++) {
        struct fe_val extent = fe_int((double)t->dim[x->tensor_axis[i]]), zero = fe_int(0), fits;
        struct fe_val index = fe_cast(s, x->tensor[i], IR_I32);
        index = fe_where3(s, fe_binary(s, EXPR_OP_LT, index, zero), fe_add(s, index, extent), index);
        if (inside) {
            fits = fe_op2(s, OP_and, fe_binary(s, EXPR_OP_GE, index, zero), fe_binary(s, EXPR_OP_LT, index, extent));
            *inside = i ? fe_op2(s, OP_and, *inside, fits) : fits;
        }
        index = fe_op2(s, OP_min, fe_op2(s, OP_max, index, zero), fe_sub(s, extent, fe_int(1)));
        flat = i ? fe_add(s, fe_mul(s, flat, extent), index) : index;
    }
    return flat;
}

/* The axes of the tensors in front of the others or between them, merged into one. */
static struct fe_val merge_axes(struct fe_site *s, struct fe_val v, const struct indexing *x, const uint32_t *perm,
                                uint32_t first)
{
    int64_t shape[IR_MAX_RANK];
    v = fe_transpose_val(s, v, perm);
    if (v.bad) return v;
    struct ir_type t = fe_type_at(s, &v);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (i > first && i < first + x->tensor_count) shape[rank - 1] *= t.dim[i];
        else shape[rank++] = t.dim[i];
    return fe_reshape_val(s, v, rank, shape);
}

/* What jax.numpy fills with: NaN, the least signed integer, the largest unsigned one, True. */
static struct fe_val default_fill(enum ir_dtype d)
{
    double bits = 8 * (double)ir_dtype_bytes(d);
    if (ir_dtype_is_float(d)) return fe_float((double)NAN);
    return fe_int(d == IR_BOOL ? 1 : ir_dtype_is_signed(d) ? -ldexp(1, (int)bits - 1) : ldexp(1, (int)bits) - 1);
}

struct fe_val fe_fill_outside(struct fe_site *s, struct fe_val inside, struct fe_val x, const struct fe_val *fill)
{
    if (x.bad || fe_is_none(&inside)) return x;
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    struct fe_val v = fe_where3(s, inside, x, fe_cast(s, fe_is_none(fill) ? default_fill(d) : *fill, d));
    v.weak = x.weak;
    return v;
}

/* What an index outside means: nan (or `fill`), the nearest element, or the nearest one without a gradient. */
enum outside { FILL, CLIP, NEAREST };

/* x[i] with i from outside is x's last or first element, as in JAX: seldom meant. */
static void note_taken(struct fe_site *s, const struct indexing *x, const struct ir_type *t, struct fe_val made,
                       uint32_t at, uint32_t rank)
{
    uint32_t all = (1u << fe_rank(s, &made)) - 1, own = ((1u << rank) - 1) << at;
    for (uint32_t i = 0; i < x->tensor_count && !s->frame; i++) { /* what a formula looks up is its own affair */
        int64_t extent = t->dim[x->tensor_axis[i]];
        struct fe_index_note *note = fe_note_index(s, &x->tensor_where[i], &x->tensor[i], -extent, extent);
        if (note) note->made = made.tensor, note->other = all & ~own;
    }
}

bool fe_is_made(const struct fe_site *s, const struct fe_val *x)
{
    if (x->bad || x->kind != FE_VAL_TENSOR) return false;
    const struct ir_node *n = ir_get(s->b->f, x->tensor);
    if (!ir_dtype_is_float((enum ir_dtype)n->type.dtype)) return false;
    while (n->op == OP_reshape || n->op == OP_transpose || n->op == OP_broadcast || n->op == OP_cast)
        n = ir_get(s->b->f, n->args[0]);
    return n->op != OP_param && n->op != OP_constant;
}

struct fe_val fe_picked(struct fe_site *s, struct fe_val x, struct fe_val place, uint32_t axis, bool keepdims)
{
    if (x.bad || place.bad) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    struct fe_reduce_options keep = {.keepdims = keepdims};
    place = fe_broadcast_val(s, place, t.rank, t.dim);
    t.dtype = IR_I32;
    struct fe_val hit = fe_binary(s, EXPR_OP_EQ, fe_iota(s, t, axis), place);
    struct fe_val one = fe_reduce(s, FE_RED_SUM, fe_where3(s, hit, x, fe_int(0)), &axis, 1, &keep);
    one.weak = x.weak;
    return one;
}

/* Do all indices but the last one name every row in turn, as in x[arange(n), y], and may one element of each be picked?
 */
static bool picks(const struct fe_site *s, const struct indexing *x, const struct ir_type *t, const struct fe_val *v)
{
    uint32_t rows = x->tensor_count - 1, first = x->tensor_axis[0];
    if (x->apart || !rows || t->dim[x->tensor_axis[rows]] < 2 || !fe_is_made(s, v)) return false;
    for (uint32_t i = 0; i <= rows; i++) {
        const struct ir_node *n = ir_get(s->b->f, x->tensor[i].tensor);
        uint32_t rank = n->type.rank, before = rows - rank; /* before: dimensions that it has not */
        if (x->tensor_axis[i] != first + i || rank > rows || (i < rows && before > i)) return false;
        for (uint32_t d = before; d < rows; d++) {
            int64_t extent = n->type.dim[d - before], all = t->dim[first + d];
            if (i < rows ? extent != (d == i ? all : 1) : extent != all && extent != 1) return false;
        }
        while (i < rows && n->op == OP_reshape) n = ir_get(s->b->f, n->args[0]);
        if (i < rows && (n->op != OP_iota || n->type.rank != 1)) return false;
    }
    return true;
}

/* That element, and in *flat the places, as merged_index gives them. */
static struct fe_val pick(struct fe_site *s, struct fe_val v, const struct indexing *x, const struct ir_type *t,
                          struct fe_val *flat, struct fe_val *inside)
{
    uint32_t rows = x->tensor_count - 1, first = x->tensor_axis[0];
    struct indexing last = {.tensor_count = 1, .tensor_axis = {x->tensor_axis[rows]}, .tensor = {x->tensor[rows]}};
    int64_t shape[IR_MAX_RANK];
    *flat = fe_broadcast_val(s, merged_index(s, &last, t, inside), rows, t->dim + first);
    *inside = fe_broadcast_val(s, *inside, rows, t->dim + first);
    for (uint32_t d = 0; d < t->rank; d++) shape[d] = d >= first && d < first + rows ? t->dim[d] : 1;
    return fe_picked(s, v, fe_reshape_val(s, *flat, t->rank, shape), first + rows, false);
}

static struct fe_val take_tensors(struct fe_site *s, struct fe_val v, struct indexing *x, enum outside mode,
                                  const struct fe_val *fill)
{
    uint32_t n = x->tensor_count, perm[IR_MAX_RANK];
    if (n == 0 || v.bad) return v;
    struct ir_type t = fe_type_at(s, &v), ti;
    if (n == 1 && !t.dim[x->tensor_axis[0]]) return fe_take(s, v, x->tensor[0], x->tensor_axis[0], true);
    uint32_t first = gather_axes(x, t.rank, perm);
    struct fe_val inside, flat;
    if (picks(s, x, &t, &v)) v = pick(s, v, x, &t, &flat, &inside);
    else {
        flat = merged_index(s, x, &t, &inside);
        v = merge_axes(s, v, x, perm, first);
        if (!v.bad && !flat.bad) v = fe_take(s, v, flat, first, false);
    }
    if (v.bad || flat.bad || inside.bad) return fe_bad();
    ti = fe_type_at(s, &flat);
    if (v.bad || mode == CLIP || !ir_type_elements(&ti)) return v;
    int64_t shape[IR_MAX_RANK];
    struct ir_type tv = fe_type_at(s, &v);
    for (uint32_t d = 0; d < tv.rank; d++) shape[d] = d >= first && d < first + ti.rank ? ti.dim[d - first] : 1;
    inside = fe_reshape_val(s, inside, tv.rank, shape);
    if (mode == FILL) return fe_fill_outside(s, inside, v, fill);
    v = fe_where3(s, inside, v, fe_stop(s, v));
    if (!v.bad) note_taken(s, x, &t, v, first, ti.rank);
    return v;
}

/* What an index says about a tensor of this type; false: an error was recorded. */
static bool read_index(struct fe_site *s, const struct ir_type *t, const struct fe_val *items,
                       const struct fe_where *wheres, uint32_t count, struct indexing *x)
{
    struct fe_where whole = s->where;
    uint32_t used = 0, none = 0, groups = 0; /* of numbers and tensors side by side */
    bool ellipsis = false, inside = false;
    *x = (struct indexing){0};
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].kind == FE_VAL_ELLIPSIS && ellipsis)
            return fe_wrong_here(s, "E0310", "an index may hold one \"...\"");
        if (items[i].kind == FE_VAL_ELLIPSIS) ellipsis = true;
        else if (fe_is_none(&items[i])) none++;
        else used++;
    }
    if (used > t->rank)
        return fe_wrong_here(s, "E0212", "%u indices for %s, which has rank %u", (unsigned)used,
                             ir_type_text(s->fe->arena, t), (unsigned)t->rank);
    if (t->rank + none > IR_MAX_RANK)
        return fe_wrong_here(s, "E0212", "a tensor has at most %d dimensions", IR_MAX_RANK);
    for (uint32_t i = 0; i < count; i++) {
        if (wheres) s->where = wheres[i];
        bool advanced = items[i].kind == FE_VAL_NUMBER || items[i].kind == FE_VAL_TENSOR ||
                        items[i].kind == FE_VAL_TUPLE;
        groups += advanced && !inside, inside = advanced;
        if (items[i].kind == FE_VAL_ELLIPSIS) {
            for (uint32_t j = used; j < t->rank; j++) add_whole(x, t);
        } else if (!add_item(s, x, t, &items[i])) return false;
    }
    s->where = whole;
    x->apart = groups > 1;
    while (x->axis < t->rank) add_whole(x, t);
    x->all = true;
    for (uint32_t i = 0; i < t->rank; i++) x->all &= x->start[i] == 0 && x->limit[i] == t->dim[i] && x->stride[i] == 1;
    return true;
}

/* What the slices of an index leave, with its dimensions dropped and added. */
static struct fe_val sliced(struct fe_site *s, struct fe_val base, const struct indexing *x)
{
    ir_value v = x->all ? base.tensor : ir_slice(s->b, base.tensor, x->start, x->limit, x->stride);
    if (x->reversed_count) v = ir_reverse(s->b, v, x->reversed, x->reversed_count);
    return fe_reshape_val(s, fe_tensor_val(v, base.weak), x->rank, x->shape);
}

static struct fe_val index_complex(struct fe_site *s, const struct fe_val *z, const struct fe_val *items,
                                   const struct fe_where *wheres, uint32_t count)
{
    return fe_complex(s, fe_index(s, z->items[0], items, wheres, count),
                      fe_index(s, z->items[1], items, wheres, count));
}

struct fe_val fe_index(struct fe_site *s, struct fe_val base, const struct fe_val *items, const struct fe_where *wheres,
                       uint32_t count)
{
    struct indexing x;
    if (base.kind == FE_VAL_TUPLE && (!base.names || base.list) && count == 1) return index_tuple(s, &base, &items[0]);
    if (fe_is_complex(&base)) return index_complex(s, &base, items, wheres, count);
    if (!fe_as_tensor(s, &base)) return fe_bad();
    struct ir_type t = fe_type_at(s, &base);
    if (!read_index(s, &t, items, wheres, count, &x)) return fe_bad();
    return take_tensors(s, sliced(s, base, &x), &x, NEAREST, NULL);
}

/* The mode of x.at[...]; `usual` if there is none. */
static bool mode_of(struct fe_site *s, const char *name, enum outside usual, enum outside *mode)
{
    bool hint = !name || !strcmp(name, "promise_in_bounds");
    *mode = hint ? usual : !strcmp(name, "clip") ? CLIP : FILL;
    if (hint || *mode == CLIP || !strcmp(name, "fill") || !strcmp(name, "drop")) return true;
    return fe_wrong_here(s, "E0310", "the mode is 'fill', 'drop', 'clip' or 'promise_in_bounds', not '%s'", name);
}

/* The place in one part of a complex tensor. */
static struct fe_val place_in(struct fe_site *s, const struct fe_val *place, int part)
{
    struct fe_val *items = arena_copy(s->fe->arena, place->items, place->count * sizeof *items), of = *place;
    items[0] = place->items[0].items[part];
    of.items = items;
    return of;
}

struct fe_val fe_get(struct fe_site *s, const struct fe_val *place, const char *name, const struct fe_val *fill)
{
    struct indexing x;
    enum outside mode;
    struct fe_val base = place->items[0];
    if (fe_is_complex(&base)) {
        struct fe_val re = place_in(s, place, 0), im = place_in(s, place, 1), none = fe_int(0);
        return fe_complex(s, fe_get(s, &re, name, fill), fe_get(s, &im, name, &none));
    }
    if (!mode_of(s, name, NEAREST, &mode) || !fe_as_tensor(s, &base)) return fe_bad();
    struct ir_type t = fe_type_at(s, &base);
    if (!read_index(s, &t, place->items + 1, NULL, place->count - 1, &x)) return fe_bad();
    return take_tensors(s, sliced(s, base, &x), &x, mode, fill);
}

/* ---------------------------------------------------------------- x.at[...] */

enum update {
    UPDATE_SET,
    UPDATE_ADD,
    UPDATE_SUBTRACT,
    UPDATE_MULTIPLY,
    UPDATE_DIVIDE,
    UPDATE_MIN,
    UPDATE_MAX,
    UPDATE_POWER,
    UPDATES
};
static const char *const updates[] = {"set", "add", "subtract", "multiply", "divide", "min", "max", "power", "mul"};

static struct fe_val updated(struct fe_site *s, enum update how, struct fe_val old, struct fe_val with)
{
    switch (how) {
    case UPDATE_ADD: return fe_add(s, old, with);
    case UPDATE_SUBTRACT: return fe_sub(s, old, with);
    case UPDATE_MULTIPLY: return fe_mul(s, old, with);
    case UPDATE_DIVIDE: return fe_div(s, old, with);
    case UPDATE_MIN: return fe_op2(s, OP_min, old, with);
    case UPDATE_MAX: return fe_op2(s, OP_max, old, with);
    case UPDATE_POWER: return fe_binary(s, EXPR_OP_POW, old, with);
    default: return with;
    }
}

/* old [before.., n, after..] with the updates [before.., k, after..] at int32[k], none where that is -1; of several
 * updates of one element the last one is set. */
static struct fe_val scatter(struct fe_site *s, enum update how, struct fe_val old, struct fe_val index,
                             struct fe_val with, uint32_t axis)
{
    struct ir_type t = fe_type_at(s, &old);
    struct fe_val dim = fe_int((double)axis);
    if (how == UPDATE_SUBTRACT) with = fe_op1(s, OP_neg, with);
    if (with.bad || index.bad) return fe_bad();
    if (how == UPDATE_ADD || how == UPDATE_SUBTRACT)
        return fe_tensor_val(ir_scatter_add(s->b, old.tensor, index.tensor, with.tensor, axis), old.weak);
    struct fe_val met = FE_APPLY(s,
                                 how == UPDATE_SET   ? "last_there"
                                 : how == UPDATE_MIN ? "least_there"
                                 : how == UPDATE_MAX ? "largest_there"
                                                     : "product_there",
                                 index, with, fe_int((double)t.dim[axis]), dim);
    if (met.bad) return met;
    struct fe_val there = met.items[0], fresh = met.items[1];
    /* what is not touched is combined with 1, so that no gradient of it is NaN */
    if (how != UPDATE_SET) fresh = fe_where3(s, there, fresh, fe_int(1));
    struct fe_val made = fe_where3(s, there, updated(s, how, old, fe_cast(s, fresh, (enum ir_dtype)t.dtype)), old);
    if ((how == UPDATE_MIN || how == UPDATE_MAX) && ir_dtype_is_float((enum ir_dtype)t.dtype))
        made = FE_APPLY(s, "shared_slope", made, there, old, index, with, dim);
    return made;
}

/* The part of the tensor that the slices leave, where tensors index it. */
static struct fe_val scatter_part(struct fe_site *s, enum update how, struct fe_val part, const struct indexing *x,
                                  enum outside mode, struct fe_val with)
{
    uint32_t perm[IR_MAX_RANK], back[IR_MAX_RANK], n = x->tensor_count;
    struct ir_type t = fe_type_at(s, &part), turned = t;
    uint32_t first = gather_axes(x, t.rank, perm);
    struct fe_val inside, flat = merged_index(s, x, &t, &inside), old = merge_axes(s, part, x, perm, first);
    if (mode != CLIP) flat = fe_where3(s, inside, flat, fe_int(-1));
    if (old.bad || flat.bad) return fe_bad();
    struct ir_type to = fe_type_at(s, &old), ti = fe_type_at(s, &flat), target = to, list;
    target.rank = 0;
    for (uint32_t i = 0; i < to.rank; i++)
        for (uint32_t j = 0; j < (i == first ? ti.rank : 1u); j++) {
            if (target.rank == IR_MAX_RANK)
                return fe_fail(s, "E0212", "a tensor has at most %d dimensions", IR_MAX_RANK);
            target.dim[target.rank++] = i == first ? ti.dim[j] : to.dim[i];
        }
    with = fe_broadcast_val(s, with, target.rank, target.dim);
    list = to;
    list.dim[first] = ir_type_elements(&ti);
    with = with.bad ? with : fe_reshape_val(s, with, list.rank, list.dim);
    struct fe_val index = fe_reshape_val(s, flat, 1, &list.dim[first]);
    if (with.bad || index.bad) return fe_bad();
    struct fe_val all = to.dim[first] && list.dim[first] ? scatter(s, how, old, index, with, first) : old;
    if (all.bad) return all;
    for (uint32_t i = 0; i < t.rank; i++) turned.dim[i] = t.dim[perm[i]], back[perm[i]] = i;
    (void)n;
    return fe_transpose_val(s, fe_reshape_val(s, all, t.rank, turned.dim), back);
}

static struct fe_val update_masked(struct fe_site *s, enum update how, struct fe_val base, struct fe_val mask,
                                   struct fe_val with)
{
    while (!mask.bad && fe_rank(s, &mask) < fe_rank(s, &base)) mask = fe_expand(s, mask, fe_rank(s, &mask));
    if (mask.bad || with.bad) return fe_bad();
    if (with.kind == FE_VAL_TENSOR && fe_rank(s, &with))
        return fe_fail(s, "E0310", "where a bool tensor is the index, the update is a scalar; use where() for %s",
                       fe_describe(s, &with));
    return fe_where3(s, mask, updated(s, how, base, with), base);
}

static struct fe_val update_place(struct fe_site *s, const struct fe_val *place, const char *name,
                                  const char *mode_name, struct fe_val with)
{
    uint32_t how = 0;
    struct indexing x;
    enum outside mode;
    struct fe_val base = place->items[0];
    while (how <= UPDATES && strcmp(updates[how], name)) how++;
    if (how == UPDATES) how = UPDATE_MULTIPLY;
    if (how > UPDATES)
        return fe_fail(s, "E0302", "an update is set, add, subtract, multiply, divide, power, min or max, not \"%s\"",
                       name);
    if (!fe_as_tensor(s, &base) || with.bad || !mode_of(s, mode_name, FILL, &mode)) return fe_bad();
    if (how == UPDATE_DIVIDE) base = fe_inexact(s, base); /* quotients of integers are floats */
    struct ir_type t = fe_type_at(s, &base);
    enum ir_dtype dtype = (enum ir_dtype)t.dtype;
    if (place->count == 2 && place->items[1].kind == FE_VAL_TENSOR &&
        fe_type_at(s, &place->items[1]).dtype == IR_BOOL) {
        struct fe_val v = update_masked(s, (enum update)how, base, place->items[1], with);
        return v.bad ? v : fe_cast(s, v, dtype);
    }
    if (!read_index(s, &t, place->items + 1, NULL, place->count - 1, &x)) return fe_bad();
    enum ir_dtype common = with.kind == FE_VAL_NUMBER || with.kind == FE_VAL_TENSOR
                               ? fe_promote(fe_kind(s, &base), fe_kind(s, &with)).dtype
                               : dtype;
    with = fe_cast(s, with, common); /* computed in the common dtype, kept in the tensor's */
    struct fe_val part = sliced(s, common == dtype ? base : fe_cast(s, base, common), &x);
    if (part.bad || with.bad) return fe_bad();
    if (x.tensor_count) part = scatter_part(s, (enum update)how, part, &x, mode, with);
    else part = updated(s, (enum update)how, part, fe_broadcast_val(s, with, x.rank, x.shape));
    part = part.bad ? part : fe_cast(s, part, dtype);
    if (part.bad || (x.all && !x.reversed_count)) return part.bad ? part : fe_reshape_val(s, part, t.rank, t.dim);
    int64_t shape[IR_MAX_RANK], low[IR_MAX_RANK], high[IR_MAX_RANK], interior[IR_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t n = shape[i] = x.limit[i] > x.start[i] ? (x.limit[i] - x.start[i] + x.stride[i] - 1) / x.stride[i] : 0;
        if (n == 0) return base;
        interior[i] = n > 1 ? x.stride[i] - 1 : 0;
        low[i] = x.start[i];
        high[i] = t.dim[i] - low[i] - (n + (n - 1) * interior[i]);
    }
    part = fe_reshape_val(s, part, t.rank, shape);
    if (x.reversed_count && !part.bad)
        part = fe_tensor_val(ir_reverse(s->b, part.tensor, x.reversed, x.reversed_count), part.weak);
    struct fe_val here = fe_full(s, ir_type_of(IR_BOOL, t.rank, shape), 1);
    if (part.bad || here.bad) return fe_bad();
    part = fe_val_tensor(ir_pad(s->b, part.tensor, ir_scalar(s->b, dtype, 0), low, high, interior));
    here = fe_val_tensor(ir_pad(s->b, here.tensor, ir_scalar(s->b, IR_BOOL, 0), low, high, interior));
    return fe_where3(s, here, part, base);
}

/* place: the tensor, then its index. The result is weak as the tensor is. */
struct fe_val fe_update(struct fe_site *s, const struct fe_val *place, const char *name, const char *mode_name,
                        struct fe_val with)
{
    if (with.bad) return fe_bad();
    if (fe_is_complex(&place->items[0])) {
        bool alike = !strcmp(name, "set") || !strcmp(name, "add") || !strcmp(name, "subtract");
        bool scaled = !fe_is_complex(&with) && (!strncmp(name, "mul", 3) || !strcmp(name, "divide"));
        struct fe_val re = place_in(s, place, 0), im = place_in(s, place, 1);
        if (!alike && !scaled)
            return fe_fail(s, "E0310", "complex values know x.at[index].set, add and subtract; take real and imag");
        return fe_complex(s, fe_update(s, &re, name, mode_name, fe_real(s, &with)),
                          fe_update(s, &im, name, mode_name, scaled ? with : fe_imag(s, &with)));
    }
    struct fe_val v = update_place(s, place, name, mode_name, with);
    v.weak = !v.bad && fe_kind(s, &place->items[0]).weak;
    return v;
}
