/* Rules of the interpreter for shapes: every one is a strided copy, dense on one side. */
#include "ir/eval.h"
#include <string.h>

void eval_strides(const struct ir_type *type, int64_t *stride)
{
    int64_t s = 1;
    for (uint32_t i = type->rank; i-- > 0;) {
        stride[i] = s;
        s *= type->dim[i];
    }
}

/* Steps `index` over all dimensions but the last; moves *at by the strides. False after the last one. */
static bool advance(uint32_t rank, const int64_t *extent, const int64_t *stride, int64_t *index, int64_t *at)
{
    for (uint32_t i = rank; i-- > 0;) {
        *at += stride[i];
        if (++index[i] < extent[i]) return true;
        *at -= stride[i] * extent[i];
        index[i] = 0;
    }
    return false;
}

static bool is_empty(uint32_t rank, const int64_t *extent)
{
    for (uint32_t i = 0; i < rank; i++)
        if (extent[i] == 0) return true;
    return false;
}

void eval_gather(double *out, uint32_t rank, const int64_t *extent, const double *x, const int64_t *stride)
{
    if (is_empty(rank, extent)) return;
    int64_t index[2 * IR_MAX_RANK] = {0}, at = 0, n = rank ? extent[rank - 1] : 1, step = rank ? stride[rank - 1] : 1;
    uint32_t outer = rank ? rank - 1 : 0;
    do {
        if (step == 1) memcpy(out, x + at, (size_t)n * sizeof(double));
        else
            for (int64_t i = 0; i < n; i++) out[i] = x[at + i * step];
        out += n;
    } while (advance(outer, extent, stride, index, &at));
}

/* The other way round: the dense copy is written to places in `out`. */
static void eval_spread(double *out, uint32_t rank, const int64_t *extent, const double *x, const int64_t *stride)
{
    if (is_empty(rank, extent)) return;
    int64_t index[2 * IR_MAX_RANK] = {0}, at = 0, n = rank ? extent[rank - 1] : 1, step = rank ? stride[rank - 1] : 1;
    uint32_t outer = rank ? rank - 1 : 0;
    do {
        for (int64_t i = 0; i < n; i++) out[at + i * step] = x[i];
        x += n;
    } while (advance(outer, extent, stride, index, &at));
}

/* The result's shape, read from operand 0 with these strides from this element. */
static void gather_result(struct eval_call *c, int64_t offset, const int64_t *stride)
{
    const struct ir_type *type = &c->n->type;
    eval_gather(c->out->t->v, type->rank, type->dim, eval_arg(c, 0)->v + offset, stride);
}

static void copy_operand(struct eval_call *c)
{
    eval_move(c->out->t->v, eval_arg(c, 0)->v, ir_type_elements(&eval_arg(c, 0)->type));
}

void eval_reshape(struct eval_call *c) { copy_operand(c); }

void eval_broadcast(struct eval_call *c)
{
    const struct ir_type *from = &eval_arg(c, 0)->type;
    int64_t of_x[IR_MAX_RANK], stride[IR_MAX_RANK] = {0};
    eval_strides(from, of_x);
    for (uint32_t i = 0; i < from->rank; i++)
        if (from->dim[i] != 1) stride[c->n->attr[0].v[i]] = of_x[i];
    gather_result(c, 0, stride);
}

void eval_transpose(struct eval_call *c)
{
    int64_t of_x[IR_MAX_RANK], stride[IR_MAX_RANK];
    eval_strides(&eval_arg(c, 0)->type, of_x);
    for (uint32_t i = 0; i < c->n->type.rank; i++) stride[i] = of_x[c->n->attr[0].v[i]];
    gather_result(c, 0, stride);
}

void eval_slice(struct eval_call *c)
{
    int64_t of_x[IR_MAX_RANK], stride[IR_MAX_RANK], offset = 0;
    eval_strides(&eval_arg(c, 0)->type, of_x);
    for (uint32_t i = 0; i < c->n->type.rank; i++) {
        offset += c->n->attr[0].v[i] * of_x[i];
        stride[i] = of_x[i] * c->n->attr[2].v[i];
    }
    gather_result(c, offset, stride);
}

void eval_reverse(struct eval_call *c)
{
    int64_t stride[IR_MAX_RANK], offset = 0;
    const struct ir_type *type = &c->n->type;
    eval_strides(type, stride);
    for (uint32_t i = 0; i < c->n->attr[0].n; i++) {
        int64_t dim = c->n->attr[0].v[i];
        offset += (type->dim[dim] - 1) * stride[dim];
        stride[dim] = -stride[dim];
    }
    gather_result(c, offset, stride);
}

void eval_pad(struct eval_call *c)
{
    const struct ir_tensor *x = eval_arg(c, 0);
    const struct ir_type *type = &c->n->type;
    const int64_t *low = c->n->attr[0].v, *interior = c->n->attr[2].v;
    int64_t of_x[IR_MAX_RANK], of_out[IR_MAX_RANK], extent[IR_MAX_RANK] = {0}, step[IR_MAX_RANK];
    int64_t from = 0, to = 0, count = ir_type_elements(type);
    eval_strides(&x->type, of_x);
    eval_strides(type, of_out);
    for (int64_t i = 0; i < count; i++) c->out->t->v[i] = eval_arg(c, 1)->v[0];
    for (uint32_t i = 0; i < type->rank; i++) {
        /* Elements first..last of x stay inside: low + k * (interior + 1) in [0, extent). */
        int64_t spread = interior[i] + 1, first = low[i] < 0 ? (-low[i] + spread - 1) / spread : 0;
        int64_t room = type->dim[i] - 1 - low[i], last = room < 0 ? -1 : room / spread;
        if (last >= x->type.dim[i]) last = x->type.dim[i] - 1;
        extent[i] = last < first ? 0 : last - first + 1;
        from += first * of_x[i];
        to += (low[i] + first * spread) * of_out[i];
        step[i] = of_out[i] * spread;
    }
    if (is_empty(type->rank, extent)) return;
    int64_t kept = 1;
    for (uint32_t i = 0; i < type->rank; i++) kept *= extent[i];
    double *dense = eval_new(c->e, kept);
    eval_gather(dense, type->rank, extent, x->v + from, of_x);
    eval_spread(c->out->t->v + to, type->rank, extent, dense, step);
    eval_drop(c->e, dense, kept);
}

/* Which of n elements stands at place i of them and those around them. */
static int64_t extended(int64_t i, int64_t n, int64_t kind)
{
    if (kind == IR_EXTEND_EDGE) return i < 0 ? 0 : i < n ? i : n - 1;
    int64_t period = kind == IR_EXTEND_WRAP ? n : 2 * n - 2 * (kind == IR_EXTEND_REFLECT);
    int64_t at = period ? (i % period + period) % period : 0;
    return at < n ? at : period - (kind == IR_EXTEND_SYMMETRIC) - at;
}

/* The larger one of x and the result is walked: every element of it has one place in the other. */
void eval_extend(struct eval_call *c)
{
    const struct ir_type *x = &eval_arg(c, 0)->type, *to = &c->n->type;
    const double *from = eval_arg(c, 0)->v;
    bool adds = ir_type_elements(to) < ir_type_elements(x);
    const struct ir_type *large = adds ? x : to, *small = adds ? to : x;
    int64_t stride[IR_MAX_RANK], index[IR_MAX_RANK] = {0}, count = ir_type_elements(large);
    double *out = c->out->t->v;
    eval_strides(small, stride);
    for (int64_t i = 0; adds && i < ir_type_elements(to); i++) out[i] = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < large->rank; d++) {
            int64_t low = c->n->attr[0].v[d];
            at += stride[d] * extended(index[d] + (adds ? low : -low), small->dim[d], c->n->attr[2].v[0]);
        }
        if (adds) out[at] += from[i];
        else out[i] = from[at];
        for (uint32_t d = large->rank; d-- > 0 && ++index[d] == large->dim[d];) index[d] = 0;
    }
    if (adds) eval_to_dtype(c->e->precision, (enum ir_dtype)to->dtype, out, ir_type_elements(to));
}

void eval_concat(struct eval_call *c)
{
    int64_t dim = c->n->attr[0].v[0], stride[IR_MAX_RANK], at = 0;
    eval_strides(&c->n->type, stride);
    for (uint32_t i = 0; i < c->n->arg_count; i++) {
        const struct ir_tensor *x = eval_arg(c, i);
        eval_spread(c->out->t->v + at, x->type.rank, x->type.dim, x->v, stride);
        at += x->type.dim[dim] * stride[dim];
    }
}

/* Element at which a window of `size` starts; scalar starts are operands `first`... */
static int64_t window(const struct eval_call *c, uint32_t first, const struct ir_type *whole, const int64_t *size)
{
    int64_t stride[IR_MAX_RANK], at = 0;
    eval_strides(whole, stride);
    for (uint32_t i = 0; i < whole->rank; i++) {
        int64_t start = (int64_t)eval_arg(c, first + i)->v[0], last = whole->dim[i] - size[i];
        start = start > last ? last : start;
        at += (start < 0 ? 0 : start) * stride[i];
    }
    return at;
}

void eval_dynamic_slice(struct eval_call *c)
{
    int64_t stride[IR_MAX_RANK];
    const struct ir_type *whole = &eval_arg(c, 0)->type;
    eval_strides(whole, stride);
    gather_result(c, window(c, 1, whole, c->n->type.dim), stride);
}

void eval_dynamic_update(struct eval_call *c)
{
    int64_t stride[IR_MAX_RANK];
    const struct ir_tensor *y = eval_arg(c, 1);
    copy_operand(c);
    eval_strides(&c->n->type, stride);
    eval_spread(c->out->t->v + window(c, 2, &c->n->type, y->type.dim), y->type.rank, y->type.dim, y->v, stride);
}

/* x seen as [outer, extent, inner] around dimension `dim`. */
struct split {
    int64_t outer, extent, inner;
};
static struct split split_at(const struct ir_type *type, int64_t dim)
{
    struct split s = {1, type->dim[dim], 1};
    for (uint32_t i = 0; i < type->rank; i++) *(i < dim ? &s.outer : &s.inner) *= i == dim ? 1 : type->dim[i];
    return s;
}

void eval_take(struct eval_call *c)
{
    const struct ir_tensor *x = eval_arg(c, 0), *index = eval_arg(c, 1);
    struct split s = split_at(&x->type, c->n->attr[0].v[0]);
    int64_t n = ir_type_elements(&index->type);
    double *out = c->out->t->v;
    for (int64_t o = 0; o < s.outer && s.extent > 0; o++)
        for (int64_t k = 0; k < n; k++, out += s.inner) {
            int64_t at = (int64_t)index->v[k];
            at = at < 0 ? 0 : at >= s.extent ? s.extent - 1 : at;
            eval_move(out, x->v + (o * s.extent + at) * s.inner, s.inner);
        }
}

void eval_scatter_add(struct eval_call *c)
{
    const struct ir_tensor *index = eval_arg(c, 1);
    struct split s = split_at(&c->n->type, c->n->attr[0].v[0]);
    int64_t n = ir_type_elements(&index->type);
    const double *update = eval_arg(c, 2)->v;
    enum ir_dtype dtype = (enum ir_dtype)c->n->type.dtype;
    bool narrow = dtype == IR_BF16 || dtype == IR_F16; /* as XLA adds them: each sum is rounded */
    copy_operand(c);
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t k = 0; k < n; k++, update += s.inner) {
            int64_t at = (int64_t)index->v[k];
            double *to = c->out->t->v + (o * s.extent + at) * s.inner;
            for (int64_t i = 0; i < s.inner && at >= 0 && at < s.extent; i++) to[i] += update[i];
            if (narrow && at >= 0 && at < s.extent) eval_to_dtype(c->e->precision, dtype, to, s.inner);
        }
    eval_to_dtype(c->e->precision, (enum ir_dtype)c->n->type.dtype, c->out->t->v, ir_type_elements(&c->n->type));
}
