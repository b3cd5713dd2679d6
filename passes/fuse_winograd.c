/* Convolutions of float32 with three taps along one or two dimensions, steps of one and many channels, by minimal
 * filtering (ir/winograd.h), where --numerics fast allows it: forward, the gradient of the image, which is a
 * convolution by now (fuse_transposed.c), and that of the kernel. The kernel's points are made once a step and lie in
 * panels as a product's right operand does; those of tiles never leave a worker's caches
 * (codegen/lower/lower_winograd.c). With --check-finite there are none: a NaN would be seen beside its place. */
#include "ir/winograd.h"
#include "passes/fuse.h"

enum { MOST_TAPS = WINOGRAD_TAPS * WINOGRAD_TAPS };
enum { PIECES = 8 /* that workers share out */, LEAST_TILES = 64 /* of a piece */ };

/* What one costs, in multiply-adds (measured on Zen 4): of an element that is changed into a point or back; of one of
 * the kernel, in caches and from memory, and of one of the sums of its gradient; more than those of a product; and what
 * it must save at least. */
#define POINT_COST 4.5
#define KERNEL_COST 8.0
#define LARGE_KERNEL_COST 25.0
#define SUM_COST 9.0
#define SHORT_PRODUCT 1.15
#define LEAST_GAIN 1.05
enum { LARGE_KERNEL = 1 << 18 /* elements of its points */ };
enum { MOST_LOCAL = 1 << 21 /* elements that a worker keeps of the tiles along a line, or of the sums, at most */ };

struct convolution {
    ir_value base;
    uint32_t dims;
    int64_t number[MOST_TAPS]; /* where each tap of the concatenation stands in the kernel, row by row */
    int64_t images, channels, columns, low[WINOGRAD_DIMS], extent[WINOGRAD_DIMS]; /* of the result */
    bool gradient;                                                                /* of the kernel */
};

static bool counts_up(struct ir_ints dims, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < dims.n; i++)
        if (dims.v[i] != from + i) return false;
    return dims.n == to - from;
}

static bool is_unit_slice(const struct ir_node *n)
{
    bool unit = n->op == OP_slice;
    for (uint32_t i = 0; unit && i < n->attr[2].n; i++) unit = n->attr[2].v[i] == 1;
    return unit;
}

/* Slices of one tensor beside each other, each of them a tap. */
static bool find_taps(const struct ir_func *f, ir_value v, struct convolution *c)
{
    while (ir_get(f, v)->op == OP_reshape) v = ir_get(f, v)->args[0];
    const struct ir_node *n = ir_get(f, v), *first = ir_get(f, n->op == OP_concat ? n->args[0] : v);
    uint32_t rank = n->type.rank, seen = 0;
    if (n->op != OP_concat || rank < 3 || rank > WINOGRAD_DIMS + 2 || n->attr[0].v[0] + 1 != rank ||
        n->arg_count != winograd_power(WINOGRAD_TAPS, rank - 2) || !is_unit_slice(first))
        return false;
    c->base = first->args[0], c->dims = rank - 2;
    const struct ir_type *base = ir_type(f, c->base);
    c->images = first->type.dim[0], c->channels = first->type.dim[rank - 1];
    if (c->images != base->dim[0] || c->channels != base->dim[rank - 1]) return false;
    for (uint32_t i = 0; i < c->dims; i++) {
        c->low[i] = first->attr[0].v[i + 1], c->extent[i] = first->type.dim[i + 1];
        for (uint32_t k = 0; k < n->arg_count; k++) {
            const struct ir_node *tap = ir_get(f, n->args[k]);
            if (!is_unit_slice(tap) || tap->args[0] != c->base || !ir_type_equal(&tap->type, &first->type))
                return false;
            c->low[i] = tap->attr[0].v[i + 1] < c->low[i] ? tap->attr[0].v[i + 1] : c->low[i];
        }
    }
    for (uint32_t k = 0; k < n->arg_count; k++) {
        int64_t number = 0;
        for (uint32_t i = 0; i < c->dims; i++) {
            int64_t at = ir_get(f, n->args[k])->attr[0].v[i + 1] - c->low[i];
            if (at >= WINOGRAD_TAPS) return false;
            number = number * WINOGRAD_TAPS + at;
        }
        c->number[k] = number;
        seen |= 1u << number;
    }
    return seen == (1u << n->arg_count) - 1;
}

static int64_t tiles_along(const struct convolution *c, uint32_t dim)
{
    return (c->extent[dim] + WINOGRAD_MADE - 1) / WINOGRAD_MADE;
}

/* The most channels, of those that divide all of them, that are no more than `most`; all if there are none. */
static int64_t block_of(const struct convolution *c, int64_t most)
{
    enum { LEAST = 16 };
    for (int64_t n = most < c->channels ? most : c->channels; n >= LEAST; n--)
        if (c->channels % n == 0) return n;
    return c->channels;
}

/* Parts of the images and of the tiles' rows whose sums are made apart, and channels whose sums with all columns of the
 * cotangent stay in the second cache. Where that leaves one piece, half of the channels, for two workers. */
static void parts_of(const struct convolution *c, int64_t *parts)
{
    enum { SUMS = 1 << 17, LEAST = 64 };
    int64_t most = SUMS / (WINOGRAD_MOST * c->columns), block = block_of(c, most < LEAST ? LEAST : most);
    int64_t rows[] = {c->images, tiles_along(c, 0)}, blocks = c->channels / block;
    int64_t enough = rows[0] * rows[1] * (c->dims > 1 ? tiles_along(c, 1) : 1) / LEAST_TILES;
    int64_t wanted = (PIECES + blocks - 1) / blocks;
    struct fuse_cut cut = fuse_find_cut(rows, 2, wanted < enough ? wanted : enough);
    parts[0] = parts[1] = 1, parts[2] = cut.all * blocks > 1 ? block : block_of(c, c->channels / 2);
    if (cut.all > 1) parts[cut.at] = cut.parts;
    if (cut.all > 1 && cut.at) parts[0] = c->images;
}

static double whole_vectors(int64_t columns, int64_t vector)
{
    return (double)((columns + vector - 1) / vector * vector);
}

static bool pays(const struct convolution *c, int64_t vector)
{
    int64_t parts[3];
    double elements = (double)c->images, tiles = elements, points = winograd_power(WINOGRAD_POINTS, c->dims),
           columns = whole_vectors(c->columns, vector), kernel = (double)c->channels * columns,
           moved = whole_vectors(c->channels, vector) + columns,
           once = points * kernel > LARGE_KERNEL ? LARGE_KERNEL_COST : KERNEL_COST;
    for (uint32_t i = 0; i < c->dims; i++) elements *= (double)c->extent[i], tiles *= (double)tiles_along(c, i);
    if (c->gradient) { /* each block of channels moves the cotangent */
        parts_of(c, parts);
        moved += columns * (double)(c->channels / parts[2] - 1);
        once = SUM_COST * (double)(parts[0] * parts[1]);
    }
    double line = c->dims > 1 ? (double)tiles_along(c, 1) : 1;
    if (points * line * (whole_vectors(c->channels, vector) + columns) > MOST_LOCAL) return false;
    if (c->gradient && points * (double)parts[2] * columns > MOST_LOCAL) return false;
    double now = points * (tiles * (kernel * SHORT_PRODUCT + POINT_COST * moved) + once * kernel);
    return now * LEAST_GAIN < elements * winograd_power(WINOGRAD_TAPS, c->dims) * kernel;
}

/* Numbers of 16 bits, which a CPU that multiplies these in pairs multiplies faster as they are. */
static bool is_widened(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    while (n->op == OP_pad || n->op == OP_reshape || n->op == OP_transpose) n = ir_get(f, n->args[0]);
    return n->op == OP_cast && ir_dtype_bytes((enum ir_dtype)ir_type(f, n->args[0])->dtype) == 2;
}

static bool find(const struct pass_options *o, const struct ir_func *f, ir_value v, struct convolution *c)
{
    const struct ir_node *n = ir_get(f, v);
    *c = (struct convolution){0};
    if (!o->fast || o->check_finite || !o->panel_columns || n->op != OP_dot || n->type.dtype != IR_F32 ||
        n->attr[0].n || n->attr[4].n || n->attr[5].n || n->attr[6].n || !find_taps(f, n->args[0], c))
        return false;
    if (o->panel_pairs && (is_widened(f, c->base) || is_widened(f, n->args[1]))) return false;
    const struct ir_type *x = ir_type(f, n->args[0]), *y = ir_type(f, n->args[1]);
    if (!ir_type_elements(x) || !ir_type_elements(y)) return false;
    uint32_t outer = c->dims + 1;
    if (x->rank <= outer || x->dim[0] != c->images) return false;
    for (uint32_t i = 0; i < c->dims; i++)
        if ((int64_t)x->dim[i + 1] != c->extent[i]) return false;
    c->gradient = counts_up(n->attr[2], 0, outer) && counts_up(n->attr[3], 0, outer) && y->rank == outer + 1;
    bool forward = counts_up(n->attr[2], outer, x->rank) && y->rank == n->attr[3].n + 1;
    c->columns = ir_type_elements(y) / pass_extent(y, n->attr[3]);
    return (c->gradient || forward) && pays(c, o->panel_columns / 2);
}

bool fuse_wants_winograd(const struct pass_options *o, const struct ir_func *f, ir_value v)
{
    struct convolution c;
    return find(o, f, v, &c);
}

/* ---------------------------------------------------------------- what it becomes */

/* With so much put around it, or taken off; not around what was padded already, unless something was taken off that
 * zeros come in place of. */
static ir_value padded(struct ir_builder *b, ir_value v, const int64_t *low, const int64_t *high)
{
    struct ir_node n = *ir_get(b->f, v);
    int64_t all[3][IR_MAX_RANK] = {{0}};
    bool plain = n.op == OP_pad && pass_is_zero(b->f, n.args[1]), any = false;
    for (uint32_t i = 0; i < n.type.rank; i++) {
        any |= low[i] || high[i];
        if (!plain) continue;
        bool back = (n.attr[0].v[i] < 0 && low[i] > 0) || (n.attr[1].v[i] < 0 && high[i] > 0);
        plain = !n.attr[2].v[i] && !back;
    }
    if (!any) return v;
    for (uint32_t i = 0; i < n.type.rank; i++) {
        all[0][i] = low[i] + (plain ? n.attr[0].v[i] : 0);
        all[1][i] = high[i] + (plain ? n.attr[1].v[i] : 0);
    }
    return ir_pad(b, plain ? n.args[0] : v, ir_scalar(b, IR_F32, 0), all[0], all[1], all[2]);
}

/* The image as far as whole tiles read it. */
static ir_value tiled(struct ir_builder *b, const struct convolution *c)
{
    int64_t low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0};
    for (uint32_t i = 0; i < c->dims; i++) {
        int64_t wanted = tiles_along(c, i) * WINOGRAD_MADE + WINOGRAD_BORDER;
        low[i + 1] = -c->low[i];
        high[i + 1] = wanted - ((int64_t)ir_type(b->f, c->base)->dim[i + 1] - c->low[i]);
    }
    return padded(b, c->base, low, high);
}

/* A kernel, whose taps and channels are contracted in that order, as [taps, channels, columns]. */
static ir_value kernel_of(struct ir_builder *b, const struct convolution *c, ir_value kernel, struct ir_ints contract)
{
    uint32_t rank = ir_type(b->f, kernel)->rank;
    int64_t order[IR_MAX_RANK] = {0}, shape[] = {winograd_power(WINOGRAD_TAPS, c->dims), c->channels, c->columns};
    order[rank - 1] = rank * (rank - 1) / 2; /* the one that is not contracted */
    for (uint32_t i = 0; i < contract.n; i++) order[i] = contract.v[i], order[rank - 1] -= contract.v[i];
    return ir_reshape(b, ir_transpose(b, kernel, order), 3, shape);
}

static struct ir_ints taps_of(const struct convolution *c)
{
    return (struct ir_ints){c->number, winograd_power(WINOGRAD_TAPS, c->dims)};
}

static ir_value forward(struct ir_builder *b, const struct convolution *c, const struct ir_node *dot, int64_t panel)
{
    int64_t extent[WINOGRAD_DIMS + 1];
    for (uint32_t i = 0; i < c->dims; i++) extent[i] = c->extent[i];
    extent[c->dims] = c->columns;
    ir_value kernel = kernel_of(b, c, dot->args[1], dot->attr[3]);
    struct ir_node points = {
        .op = OP_winograd_points, .arg_count = 1, .args = &kernel, .attr = {{&panel, 1}, taps_of(c)}};
    ir_value args[] = {tiled(b, c), ir_make(b, points)};
    struct ir_node n = {.op = OP_winograd, .arg_count = 2, .args = args, .attr = {{extent, c->dims + 1}}};
    return ir_make(b, n);
}

static ir_value gradient(struct ir_builder *b, const struct convolution *c, const struct ir_node *dot)
{
    int64_t none[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0}, first = 0, parts[3];
    for (uint32_t i = 0; i < c->dims; i++) high[i + 1] = tiles_along(c, i) * WINOGRAD_MADE - c->extent[i];
    parts_of(c, parts);
    ir_value args[] = {tiled(b, c), padded(b, dot->args[1], none, high)};
    struct ir_node n = {.op = OP_winograd_sum, .arg_count = 2, .args = args, .attr = {{parts, 3}, taps_of(c)}};
    ir_value sum = ir_reduce_plain(b, OP_reduce_sum, ir_make(b, n), &first, 1);
    return ir_reshape(b, sum, dot->type.rank, dot->type.dim);
}

ir_value fuse_winograd(const struct pass_options *o, struct ir_builder *b, ir_value v)
{
    struct convolution c;
    if (!find(o, b->f, v, &c)) return v;
    struct ir_node dot = *ir_get(b->f, v);
    return c.gradient ? gradient(b, &c, &dot) : forward(b, &c, &dot, o->panel_columns);
}
