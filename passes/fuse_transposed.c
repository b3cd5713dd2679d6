/* The gradient of a convolution by its input: as autodiff writes it, a product makes what every tap gives and padded
 * slices of that are summed. It becomes a convolution itself, of the padded cotangent with the kernel's taps the other
 * way round, which reads its taps where they stand (fuse_taps.c). Of strides each phase of the image has taps of its
 * own, and the phases are put side by side (Dumoulin and Visin, A guide to convolution arithmetic, 2016). Where every
 * channel is convolved alone, what a tap gives is the cotangent times a number for each channel, and stays so. */
#include "passes/fuse.h"
#include <string.h>

enum { MOST_TAPS = FUSE_MOST_TAPS, LEAST_COLUMNS = 8 };

/* What one tap gives: a piece of the product's last dimension, or, of groups, which are the product's batch, one of
 * [.., taps, groups, columns], which are then side by side; or all of `of`, times a number for each column. */
struct tap {
    ir_value of, weight;
    const struct ir_node *product; /* NULL: `of` is the cotangent */
    int64_t number, columns, groups;
};

static bool whole_but(const struct ir_node *slice, const struct ir_type *from, uint32_t dim)
{
    for (uint32_t i = 0; i < slice->type.rank; i++)
        if (i != dim && slice->type.dim[i] != from->dim[i]) return false;
    return true;
}

static bool is_weighted(const struct ir_func *f, ir_value v, struct tap *tap)
{
    const struct ir_node *n = ir_get(f, v);
    uint32_t last = n->type.rank - 1u;
    for (uint32_t i = 0; i < 2 && n->op == OP_mul; i++) {
        const struct ir_node *w = ir_get(f, n->args[i]);
        if (w->op != OP_broadcast || w->attr[0].n != 1 || w->attr[0].v[0] != last) continue;
        *tap = (struct tap){n->args[1 - i], w->args[0], NULL, 0, n->type.dim[last], 1};
        return ir_type_elements(ir_type(f, w->args[0])) == tap->columns;
    }
    return false;
}

static bool is_tap(const struct ir_func *f, ir_value v, struct tap *tap)
{
    const struct ir_node *slice = ir_get(f, v);
    if (is_weighted(f, v, tap)) return true;
    uint32_t last = slice->type.rank - 1u;
    bool grouped = slice->op == OP_reshape;
    *tap = (struct tap){.columns = slice->type.dim[last], .groups = 1};
    if (grouped) slice = ir_get(f, slice->args[0]);
    if (slice->op != OP_slice || slice->type.rank != last + (grouped ? 3u : 1u)) return false;
    tap->of = slice->args[0];
    const struct ir_node *from = tap->product = ir_get(f, tap->of);
    int64_t size = grouped ? 1 : tap->columns, at = slice->attr[0].v[last];
    tap->number = size ? at / size : 0;
    bool steps = size > 1 && slice->attr[2].n && slice->attr[2].v[last] != 1;
    if (!size || steps || slice->type.dim[last] != size || at % size || from->type.dim[last] % size ||
        tap->number >= MOST_TAPS || !whole_but(slice, &from->type, last))
        return false;
    if (!grouped) return from->op == OP_dot && from->type.rank >= 3;
    tap->groups = slice->type.dim[last + 1];
    if (from->op != OP_transpose || ir_get(f, from->args[0])->op != OP_dot ||
        tap->groups * slice->type.dim[last + 2] != tap->columns)
        return false;
    if (memcmp(slice->type.dim, ir_type(f, v)->dim, last * sizeof slice->type.dim[0]) != 0) return false;
    tap->product = ir_get(f, from->args[0]);
    for (uint32_t i = 0; i <= last + 2; i++)
        if (from->attr[0].v[i] != (i <= last ? i + 1 : i == last + 1 ? 0 : i)) return false;
    return true;
}

/* A tap, padded with zeros. */
static bool take_tap(struct fuse_transposed *t, ir_value v)
{
    const struct ir_node *pad = ir_get(t->f, v);
    struct tap tap;
    double fill;
    if (pad->op != OP_pad || !pad->type.rank || !pass_number(t->f, pad->args[1], &fill) || fill != 0) return false;
    if (!is_tap(t->f, pad->args[0], &tap) || (t->of && (t->of != tap.of || t->product != tap.product))) return false;
    uint32_t last = pad->type.rank - 1u;
    int64_t columns = tap.columns, number = tap.product ? tap.number : t->count;
    if (number == MOST_TAPS) return false;
    if (t->of ? columns != t->columns || t->found[number] : false) return false;
    if (pad->attr[0].v[last] || pad->attr[1].v[last] || pad->attr[2].v[last]) return false;
    for (uint32_t i = 0; i < last; i++) {
        if (pad->attr[0].v[i] < 0 || pad->attr[1].v[i] < 0) return false;
        if (t->of && t->stride[i] != pad->attr[2].v[i] + 1) return false;
    }
    for (uint32_t i = 0; i < last; i++) t->stride[i] = pad->attr[2].v[i] + 1;
    memcpy(t->tap[number].low, pad->attr[0].v, last * sizeof(int64_t));
    t->tap[number].weight = tap.weight;
    t->of = tap.of, t->product = tap.product, t->columns = columns, t->groups = tap.groups, t->rank = last + 1;
    t->found[number] = true;
    t->count++;
    return true;
}

static bool collect(struct fuse_transposed *t, ir_value v, uint32_t depth)
{
    const struct ir_node *n = ir_get(t->f, v);
    if (n->op == OP_add && depth < 2 * MOST_TAPS)
        return collect(t, n->args[0], depth + 1) && collect(t, n->args[1], depth + 1);
    if (take_tap(t, v)) return true;
    if (t->rest_count == MOST_TAPS) return false;
    t->rest[t->rest_count++] = v;
    return true;
}

/* Do all pieces of the product make up the sum? */
static bool is_whole(const struct fuse_transposed *t)
{
    const struct ir_func *f = t->f;
    const struct ir_node *d = t->product;
    uint32_t last = t->rank - 1;
    const struct ir_type *y = ir_type(f, d->args[0]), *w = ir_type(f, d->args[1]);
    bool grouped = ir_get(f, t->of)->op == OP_transpose;
    int64_t taps = grouped ? ir_type(f, t->of)->dim[last] : d->type.dim[last] / t->columns;
    bool plain = d->attr[2].n == 1 && d->attr[2].v[0] == last + grouped && y->rank == t->rank + grouped &&
                 w->rank == (grouped ? 4 : 2) && d->attr[3].v[0] == (grouped ? 3 : 1) && !d->attr[4].n &&
                 d->attr[0].n == grouped && d->type.dtype == y->dtype;
    if (plain && grouped)
        plain = d->attr[0].v[0] == last && d->attr[1].v[0] == 2 && w->dim[1] == t->columns / t->groups;
    return plain && taps == t->count;
}

static ir_value cotangent_of(const struct fuse_transposed *t) { return t->product ? t->product->args[0] : t->of; }

/* Is the sum one of all taps, and worth another product? */
static bool find(struct fuse_transposed *t, const struct ir_func *f, ir_value v, const struct ir_type *image)
{
    *t = (struct fuse_transposed){.options = t->options, .f = f};
    if (ir_get(f, v)->op != OP_add || !collect(t, v, 0) || t->count < 2 || (t->product && !is_whole(t))) return false;
    uint32_t last = t->rank - 1, strides = 0;
    int64_t columns = t->columns / t->groups, rows = t->product ? ir_type(f, cotangent_of(t))->dim[last + 1] : 0;
    bool narrow = t->groups > 1 && fuse_is_narrow(t->options, rows, columns);
    if ((columns < LEAST_COLUMNS && !narrow) || last + 3 > IR_MAX_RANK || t->rank + last > IR_MAX_RANK + 2)
        return false;
    const struct ir_type *y = ir_type(f, cotangent_of(t));
    double all = 1, now = 1;
    for (uint32_t i = 0; i < last; i++) {
        if (t->stride[i] > MOST_TAPS) return false;
        all *= (double)image->dim[i], now *= (double)y->dim[i] * (double)t->stride[i];
        strides += t->stride[i] > 1;
    }
    return all <= 1.5 * now && t->rank + strides <= IR_MAX_RANK;
}

/* The taps that have `low` in a phase: their numbers, and the slices of the padded cotangent. */
struct phase_taps {
    uint32_t count;
    int64_t number[MOST_TAPS], moved[MOST_TAPS][IR_MAX_RANK];
    ir_value part[MOST_TAPS];
};

static void find_taps(const struct fuse_transposed *t, const int64_t *phase, struct phase_taps *of)
{
    of->count = 0;
    for (uint32_t k = 0; k < t->count; k++) {
        bool mine = true;
        for (uint32_t i = 0; i + 1 < t->rank && mine; i++) {
            int64_t way = t->tap[k].low[i] - phase[i];
            mine = way % t->stride[i] == 0;
            of->moved[of->count][i] = way / t->stride[i];
        }
        if (mine) of->number[of->count++] = k;
    }
}

static void cut_taps(struct ir_builder *b, ir_value y, const int64_t *extent, struct phase_taps *of)
{
    struct ir_type type = *ir_type(b->f, y);
    uint32_t last = type.rank - 1u;
    int64_t least, most[IR_MAX_RANK], by[IR_MAX_RANK], low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0},
                                                       none[IR_MAX_RANK] = {0}, start[IR_MAX_RANK] = {0},
                                                       limit[IR_MAX_RANK];
    for (uint32_t i = 0; i < last; i++) {
        least = most[i] = of->moved[0][i];
        for (uint32_t k = 1; k < of->count; k++) {
            least = of->moved[k][i] < least ? of->moved[k][i] : least;
            most[i] = of->moved[k][i] > most[i] ? of->moved[k][i] : most[i];
        }
        low[i] = most[i];
        high[i] = extent[i] - least - (int64_t)type.dim[i];
    }
    y = ir_pad(b, y, ir_scalar(b, (enum ir_dtype)type.dtype, 0), low, high, none);
    for (uint32_t i = 0; i <= last; i++) by[i] = 1;
    limit[last] = type.dim[last];
    for (uint32_t k = 0; k < of->count; k++) {
        for (uint32_t i = 0; i < last; i++) start[i] = most[i] - of->moved[k][i], limit[i] = start[i] + extent[i];
        of->part[k] = ir_slice(b, y, start, limit, by);
    }
}

static ir_value weighted_sum(const struct fuse_transposed *t, struct ir_builder *b, const ir_value *map,
                             const struct phase_taps *of)
{
    ir_value sum = 0;
    for (uint32_t k = 0; k < of->count; k++) {
        struct ir_type type = *ir_type(b->f, of->part[k]);
        ir_value weight = ir_broadcast_to(b, map[t->tap[of->number[k]].weight], type.rank, type.dim);
        ir_value product = ir_binary(b, OP_mul, of->part[k], weight);
        sum = sum ? ir_binary(b, OP_add, sum, product) : product;
    }
    return sum;
}

/* [.., taps, groups, rows of one] by the taps' kernels. */
static ir_value product_of(const struct fuse_transposed *t, struct ir_builder *b, ir_value kernel,
                           const int64_t *extent, struct phase_taps *of)
{
    uint32_t last = t->rank - 1, count = of->count;
    bool grouped = t->product->attr[0].n;
    int64_t rows = ir_type(b->f, of->part[0])->dim[last], shape[IR_MAX_RANK + 2];
    int64_t kernel_shape[] = {t->count, t->columns / t->groups, grouped ? t->groups : rows, rows / t->groups};
    uint32_t more = grouped ? 3 : 2;
    ir_value weight[MOST_TAPS] = {0};
    for (uint32_t i = 0; i < last; i++) shape[i] = extent[i];
    shape[last] = 1, shape[last + 1] = kernel_shape[2], shape[last + 2] = kernel_shape[3];
    kernel = ir_reshape(b, kernel, more + 1, kernel_shape);
    for (uint32_t k = 0; k < count; k++) {
        int64_t at = of->number[k], first[4] = {at},
                end[] = {at + 1, kernel_shape[1], kernel_shape[2], kernel_shape[3]};
        if (grouped) of->part[k] = ir_reshape(b, of->part[k], last + more, shape);
        if (count < t->count) weight[k] = ir_slice(b, kernel, first, end, (int64_t[]){1, 1, 1, 1});
    }
    shape[last] = count;
    ir_value y = ir_reshape(b, count > 1 ? ir_concat(b, of->part, count, last) : of->part[0], last + more, shape);
    if (count < t->count) kernel = count > 1 ? ir_concat(b, weight, count, 0) : weight[0];
    int64_t of_y[] = {last, last + more - 1}, of_kernel[] = {0, more}, y_batch = last + 1, kernel_batch = 2, one = 1;
    ir_value args[] = {y, kernel};
    struct ir_node dot = {.op = OP_dot, .arg_count = 2, .args = args, .place = b->place};
    dot.attr[2] = (struct ir_ints){of_y, 2}, dot.attr[3] = (struct ir_ints){of_kernel, 2};
    if (!grouped) return fuse_winograd(t->options, b, ir_make(b, dot));
    /* columns of a group are too few to be turned again in every chunk of rows */
    args[1] = ir_transpose(b, kernel, (int64_t[]){0, 3, 2, 1});
    of_kernel[1] = 1;
    dot.attr[0] = (struct ir_ints){&y_batch, 1}, dot.attr[1] = (struct ir_ints){&kernel_batch, 1};
    dot.attr[6] = (struct ir_ints){&one, 1};
    shape[last] = t->columns;
    return ir_reshape(b, ir_make(b, dot), t->rank, shape);
}

/* What the taps that have `low` in this phase give: a convolution of stride 1 over `extent`. */
static ir_value one_phase(const struct fuse_transposed *t, struct ir_builder *b, const ir_value *map,
                          const int64_t *extent, const int64_t *phase)
{
    uint32_t last = t->rank - 1;
    ir_value y = map[cotangent_of(t)];
    struct ir_type type = *ir_type(b->f, y);
    struct phase_taps of;
    find_taps(t, phase, &of);
    if (t->product && t->product->attr[0].n) { /* groups side by side, as in the image */
        type.dim[last] *= type.dim[last + 1];
        type.dim[--type.rank] = 0;
        y = ir_reshape(b, y, type.rank, type.dim);
    }
    for (uint32_t i = 0; i < last; i++) type.dim[i] = (uint32_t)extent[i];
    type.dim[last] = (uint32_t)t->columns;
    if (!of.count) return ir_number(b, type, 0);
    cut_taps(b, y, extent, &of);
    return t->product ? product_of(t, b, map[t->product->args[1]], extent, &of) : weighted_sum(t, b, map, &of);
}

/* Phases of a dimension, one behind the other, become neighbours: the last dimension with a stride first. */
static ir_value phases_from(const struct fuse_transposed *t, struct ir_builder *b, const ir_value *map,
                            const int64_t *extent, const int64_t *from, int64_t *phase, uint32_t i)
{
    while (i + 1 < t->rank && t->stride[i] == 1) phase[i] = from[i], i++;
    if (i + 1 == t->rank) return one_phase(t, b, map, extent, phase);
    ir_value part[MOST_TAPS] = {0};
    struct ir_type type = {0};
    for (int64_t k = 0; k < t->stride[i]; k++) {
        phase[i] = from[i] + k;
        part[k] = phases_from(t, b, map, extent, from, phase, i + 1);
        type = *ir_type(b->f, part[k]);
        int64_t shape[IR_MAX_RANK];
        for (uint32_t d = 0; d <= type.rank; d++) shape[d] = d <= i ? type.dim[d] : d == i + 1 ? 1 : type.dim[d - 1];
        part[k] = ir_reshape(b, part[k], type.rank + 1, shape);
    }
    ir_value all = ir_concat(b, part, (uint32_t)t->stride[i], i + 1);
    int64_t shape[IR_MAX_RANK];
    for (uint32_t d = 0; d < type.rank; d++) shape[d] = (int64_t)type.dim[d] * (d == i ? t->stride[i] : 1);
    return ir_reshape(b, all, type.rank, shape);
}

static ir_value make(const struct fuse_transposed *t, struct ir_builder *b, const ir_value *map,
                     const struct ir_type *image, const int64_t *from)
{
    int64_t extent[IR_MAX_RANK] = {0}, phase[IR_MAX_RANK] = {0}, none[IR_MAX_RANK] = {0}, limit[IR_MAX_RANK],
            by[IR_MAX_RANK];
    bool more = false;
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t stride = i + 1 < t->rank ? t->stride[i] : 1, n = image->dim[i];
        extent[i] = (n + stride - 1) / stride;
        more |= extent[i] * stride != n;
        limit[i] = n, by[i] = 1;
    }
    ir_value all = phases_from(t, b, map, extent, from, phase, 0);
    return more ? ir_slice(b, all, none, limit, by) : all;
}

/* The border that forward padding added is taken off again: it is not computed at all. */
static bool crops(const struct ir_func *f, const struct ir_node *n)
{
    if (n->op != OP_pad || ir_get(f, n->args[0])->op != OP_add) return false;
    bool any = false;
    for (uint32_t i = 0; i < n->type.rank; i++) {
        if (n->attr[0].v[i] > 0 || n->attr[1].v[i] > 0 || n->attr[2].v[i]) return false;
        any |= n->attr[0].v[i] || n->attr[1].v[i];
    }
    return any;
}

static bool may_end(const struct ir_func *f, const struct ir_node *n)
{
    return n->op == OP_add && (ir_get(f, n->args[0])->op == OP_pad || ir_get(f, n->args[1])->op == OP_pad);
}

/* `from`: where the image begins in the sum. */
static bool recognise(struct fuse_transposed *t, const struct ir_func *f, ir_value v, int64_t *from)
{
    const struct ir_node *n = ir_get(f, v);
    bool crop = crops(f, n);
    ir_value sum = crop ? n->args[0] : v;
    for (uint32_t i = 0; i < n->type.rank; i++) from[i] = crop ? -n->attr[0].v[i] : 0;
    return may_end(f, ir_get(f, sum)) && find(t, f, sum, &n->type) && !(crop && t->rest_count);
}

bool fuse_is_transposed(struct fuse_transposed *t, const struct ir_func *f, ir_value v)
{
    int64_t from[IR_MAX_RANK];
    return recognise(t, f, v, from);
}

bool *fuse_tap_products(const struct pass_options *options, const struct ir_func *f, struct arena *arena)
{
    bool *is = arena_new_array(arena, bool, f->count);
    struct fuse_transposed *t = arena_new(arena, struct fuse_transposed);
    t->options = options;
    for (ir_value v = 1; v < f->count; v++)
        if (fuse_is_transposed(t, f, v) && t->product) is[t->product - f->nodes] = true;
    return is;
}

ir_value fuse_transpose(struct fuse_transposed *t, struct ir_builder *b, const struct ir_func *f, ir_value v,
                        const ir_value *map)
{
    int64_t from[IR_MAX_RANK];
    if (!recognise(t, f, v, from)) return 0;
    ir_value result = make(t, b, map, &ir_get(f, v)->type, from);
    for (uint32_t i = 0; i < t->rest_count; i++) result = ir_binary(b, OP_add, result, map[t->rest[i]]);
    return result;
}
