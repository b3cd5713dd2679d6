#include "ir/winograd.h"
#include "ir/eval.h"
#include "ir/infer.h"
#include <string.h>

static const double input[] = {1, 0, -1, 0, 0, 1, 1, 0, 0, -1, 1, 0, 0, 1, 0, -1};
static const double kernel[] = {1, 0, 0, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0, 0, 1};
static const double made[] = {1, 1, 1, 0, 0, 1, -1, -1};

enum { TAPS = WINOGRAD_TAPS, MADE = WINOGRAD_MADE, POINTS = WINOGRAD_POINTS };
const struct ir_winograd winograd_input = {POINTS, POINTS, false, input};
const struct ir_winograd winograd_kernel = {POINTS, TAPS, false, kernel};
const struct ir_winograd winograd_made = {MADE, POINTS, false, made};
const struct ir_winograd winograd_kernel_turned = {TAPS, POINTS, true, kernel};
const struct ir_winograd winograd_made_turned = {POINTS, MADE, true, made};

double winograd_products(const struct ir_type *image, const struct ir_type *result)
{
    uint32_t dims = image->rank - 2u;
    double tiles = (double)image->dim[0], columns = (double)result->dim[dims + 1];
    for (uint32_t i = 0; i < dims; i++) tiles *= (double)(image->dim[i + 1] - WINOGRAD_BORDER) / MADE;
    return 2 * tiles * winograd_power(POINTS, dims) * (double)image->dim[dims + 1] * columns;
}

/* ---------------------------------------------------------------- types */

/* [images, elements along each dimension, columns], of whole tiles. */
static bool is_image(struct infer *c, uint32_t arg, int64_t border)
{
    const struct ir_type *type = infer_arg(c, arg);
    bool fits = ir_dtype_is_float((enum ir_dtype)type->dtype) && type->rank >= 3 && type->rank <= WINOGRAD_DIMS + 2;
    for (uint32_t i = 1; fits && i + 1 < type->rank; i++)
        fits = (int64_t)type->dim[i] > border && (type->dim[i] - border) % MADE == 0;
    return fits || infer_fail(c, "expected floats of images that whole tiles cover, found %s", infer_text(c, type));
}

static bool has_taps(struct infer *c, uint32_t dims)
{
    uint32_t taps = winograd_power(TAPS, dims), seen = 0;
    struct ir_ints at = c->node->attr[1];
    for (uint32_t k = 0; at.n == taps && k < taps; k++)
        if (at.v[k] >= 0 && at.v[k] < taps) seen |= 1u << at.v[k];
    return seen == (1u << taps) - 1 ||
           infer_fail(c, "expected the places of %u taps, found %s", taps, infer_ints_text(c, at));
}

bool infer_winograd_points(struct infer *c)
{
    const struct ir_type *x = infer_arg(c, 0);
    int64_t panel;
    if (!infer_attr_number(c, 0, 1, INT32_MAX, &panel)) return false;
    uint32_t dims = x->rank == 3 && x->dim[0] == TAPS ? 1 : 2;
    if (!ir_dtype_is_float((enum ir_dtype)x->dtype) || x->rank != 3 || x->dim[0] != winograd_power(TAPS, dims))
        return infer_fail(c, "expected floats [taps, channels, columns], found %s", infer_text(c, x));
    if (!has_taps(c, dims)) return false;
    struct ir_type type = {.dtype = x->dtype, .rank = 4};
    type.dim[0] = winograd_power(POINTS, dims), type.dim[1] = (x->dim[2] + panel - 1) / panel;
    type.dim[2] = x->dim[1], type.dim[3] = panel;
    return infer_result(c, type);
}

bool infer_winograd(struct infer *c)
{
    const struct ir_type *x = infer_arg(c, 0), *u = infer_arg(c, 1);
    struct ir_ints extent = c->node->attr[0];
    if (!is_image(c, 0, WINOGRAD_BORDER) || !infer_attr_length(c, 0, x->rank - 1u)) return false;
    uint32_t dims = x->rank - 2u;
    struct ir_type type = ir_type_scalar((enum ir_dtype)x->dtype);
    type.dim[type.rank++] = x->dim[0];
    bool fits = u->dtype == x->dtype && u->rank == 4 && u->dim[0] == winograd_power(POINTS, dims) &&
                u->dim[2] == x->dim[dims + 1];
    for (uint32_t i = 0; fits && i < dims; i++) {
        int64_t tiles = ((int64_t)x->dim[i + 1] - WINOGRAD_BORDER) / MADE;
        fits = (extent.v[i] + MADE - 1) / MADE == tiles;
        type.dim[type.rank++] = extent.v[i];
    }
    int64_t columns = fits ? extent.v[dims] : 0, all = fits ? (int64_t)u->dim[1] * u->dim[3] : 0;
    fits = fits && columns > all - (int64_t)u->dim[3] && columns <= all;
    type.dim[type.rank++] = columns;
    return fits ? infer_result(c, type)
                : infer_fail(c,
                             "expected a kernel's points [points, panels, channels, columns] for tiles of %s, found %s",
                             infer_text(c, x), infer_text(c, u));
}

bool infer_winograd_sum(struct infer *c)
{
    const struct ir_type *x = infer_arg(c, 0), *y = infer_arg(c, 1);
    struct ir_ints parts = c->node->attr[0];
    if (!is_image(c, 0, WINOGRAD_BORDER) || !is_image(c, 1, 0) || !infer_attr_length(c, 0, 3)) return false;
    bool fits = x->dtype == y->dtype && x->rank == y->rank && x->dim[0] == y->dim[0];
    for (uint32_t i = 1; fits && i + 1 < x->rank; i++) fits = x->dim[i] == y->dim[i] + WINOGRAD_BORDER;
    fits = fits && parts.v[0] > 0 && parts.v[1] > 0 && parts.v[2] > 0 && x->dim[0] % parts.v[0] == 0 &&
           y->dim[1] / MADE % parts.v[1] == 0 && x->dim[x->rank - 1u] % parts.v[2] == 0;
    if (!fits)
        return infer_fail(c, "expected parts of the tiles of %s, found %s of %s", infer_text(c, x),
                          infer_ints_text(c, parts), infer_text(c, y));
    if (!has_taps(c, x->rank - 2u)) return false;
    struct ir_type type = {.dtype = x->dtype, .rank = 4};
    type.dim[0] = parts.v[0] * parts.v[1], type.dim[1] = winograd_power(TAPS, x->rank - 2u);
    type.dim[2] = x->dim[x->rank - 1u], type.dim[3] = y->dim[x->rank - 1u];
    return infer_result(c, type);
}

/* ---------------------------------------------------------------- values */

static void once(const struct ir_winograd *m, const double *from, int64_t from_step, double *to, int64_t to_step)
{
    for (uint32_t r = 0; r < m->rows; r++) {
        double sum = 0;
        for (uint32_t k = 0; k < m->columns; k++) sum += winograd_number(m, r, k) * from[k * from_step];
        to[r * to_step] = sum;
    }
}

/* Of `columns` along each dimension it makes `rows`, in place. */
static void apply(const struct ir_winograd *m, uint32_t dims, double *v)
{
    double half[WINOGRAD_MOST];
    if (dims == 1) memcpy(half, v, sizeof half);
    for (uint32_t i = 0; dims > 1 && i < m->columns; i++) once(m, v + i * m->columns, 1, half + i * m->rows, 1);
    uint32_t inner = dims > 1 ? m->rows : 1;
    for (uint32_t i = 0; i < inner; i++) once(m, half + i, inner, v + i, inner);
}

/* The tiles of an image: `size` elements of each, from every second one on. */
struct tiles {
    const struct ir_tensor *of;
    uint32_t dims;
    int64_t count[2], size; /* along each dimension */
};

static int64_t element(const struct tiles *t, const int64_t *tile, int64_t image, int64_t column, uint32_t number)
{
    int64_t at = image, columns = t->of->type.dim[t->dims + 1];
    for (uint32_t i = 0; i < t->dims; i++) {
        int64_t inside = i + 1 < t->dims ? number / t->size : number % t->size;
        at = at * (int64_t)t->of->type.dim[i + 1] + tile[i] * MADE + inside;
    }
    return at * columns + column;
}

static struct tiles tiles_of(const struct ir_tensor *of, int64_t border)
{
    struct tiles t = {of, of->type.rank - 2u, {1, 1}, MADE + border};
    for (uint32_t i = 0; i < t.dims; i++) t.count[i] = ((int64_t)of->type.dim[i + 1] - border) / MADE;
    return t;
}

/* All points of a tile of each column: [points, columns]. */
static void points_of(const struct tiles *t, const struct ir_winograd *m, const int64_t *tile, int64_t image,
                      double *out)
{
    int64_t columns = t->of->type.dim[t->dims + 1];
    double v[WINOGRAD_MOST];
    for (int64_t c = 0; c < columns; c++) {
        for (uint32_t k = 0; k < winograd_power(m->columns, t->dims); k++)
            v[k] = t->of->v[element(t, tile, image, c, k)];
        apply(m, t->dims, v);
        for (uint32_t k = 0; k < winograd_power(m->rows, t->dims); k++) out[k * columns + c] = v[k];
    }
}

void eval_winograd_points(struct eval_call *c)
{
    const struct ir_tensor *x = eval_arg(c, 0);
    const struct ir_type *type = &c->n->type;
    uint32_t taps = (uint32_t)x->type.dim[0], dims = taps == TAPS ? 1 : 2;
    int64_t channels = x->type.dim[1], columns = x->type.dim[2], panel = type->dim[3], one = channels * columns,
            all = (int64_t)type->dim[1] * panel;
    double v[WINOGRAD_MOST];
    for (int64_t i = 0; i < channels * all; i++) {
        int64_t at = i / all, column = i % all;
        for (uint32_t k = 0; k < taps; k++)
            v[c->n->attr[1].v[k]] = column < columns ? x->v[k * one + at * columns + column] : 0;
        apply(&winograd_kernel, dims, v);
        for (uint32_t k = 0; k < (uint32_t)type->dim[0]; k++)
            c->out->t->v[(k * (all / panel) + column / panel) * channels * panel + at * panel + column % panel] = v[k];
    }
    eval_to_dtype(c->e->precision, (enum ir_dtype)type->dtype, c->out->t->v, ir_type_elements(type));
}

void eval_winograd(struct eval_call *c)
{
    const struct ir_type *type = &c->n->type, *u = &eval_arg(c, 1)->type;
    struct tiles t = tiles_of(eval_arg(c, 0), WINOGRAD_BORDER);
    int64_t points = u->dim[0], panels = u->dim[1], channels = u->dim[2], width = u->dim[3],
            columns = type->dim[t.dims + 1], tile[2], all = t.count[0] * t.count[1];
    double *x = eval_new(c->e, points * channels), v[WINOGRAD_MOST];
    for (int64_t i = 0; i < (int64_t)type->dim[0] * all; i++) {
        int64_t image = i / all;
        tile[0] = i % all / t.count[1], tile[1] = i % t.count[1];
        points_of(&t, &winograd_input, tile, image, x);
        for (int64_t o = 0; o < columns; o++) {
            for (int64_t p = 0; p < points; p++) {
                const double *w = eval_arg(c, 1)->v + (p * panels + o / width) * channels * width + o % width;
                v[p] = 0;
                for (int64_t k = 0; k < channels; k++) v[p] += x[p * channels + k] * w[k * width];
            }
            apply(&winograd_made, t.dims, v);
            struct tiles to = {c->out->t, t.dims, {1, 1}, MADE};
            for (uint32_t k = 0; k < winograd_power(MADE, t.dims); k++) {
                bool inside = true;
                for (uint32_t d = 0; d < t.dims; d++)
                    inside &= tile[d] * MADE + (d + 1 < t.dims ? k / MADE : k % MADE) < (int64_t)type->dim[d + 1];
                if (inside) c->out->t->v[element(&to, tile, image, o, k)] = v[k];
            }
        }
    }
    eval_to_dtype(c->e->precision, (enum ir_dtype)type->dtype, c->out->t->v, ir_type_elements(type));
    eval_drop(c->e, x, points * channels);
}

void eval_winograd_sum(struct eval_call *c)
{
    const struct ir_type *type = &c->n->type;
    struct ir_ints parts = c->n->attr[0];
    struct tiles t = tiles_of(eval_arg(c, 0), WINOGRAD_BORDER), from = tiles_of(eval_arg(c, 1), 0);
    uint32_t points = winograd_power(POINTS, t.dims);
    int64_t channels = type->dim[2], columns = type->dim[3], one = channels * columns, tile[2],
            all = t.count[0] * t.count[1], images = t.of->type.dim[0], sums = type->dim[0] * points * one;
    double *x = eval_new(c->e, points * channels), *y = eval_new(c->e, points * columns), *sum = eval_new(c->e, sums),
           v[WINOGRAD_MOST];
    memset(sum, 0, (size_t)sums * sizeof(double));
    for (int64_t i = 0; i < images * all; i++) {
        int64_t image = i / all;
        tile[0] = i % all / t.count[1], tile[1] = i % t.count[1];
        points_of(&t, &winograd_input, tile, image, x);
        points_of(&from, &winograd_made_turned, tile, image, y);
        int64_t part = image / (images / parts.v[0]) * parts.v[1] + tile[0] / (t.count[0] / parts.v[1]);
        for (int64_t k = 0; k < points * channels; k++)
            for (int64_t o = 0; o < columns; o++)
                sum[(part * points * channels + k) * columns + o] += x[k] * y[k / channels * columns + o];
    }
    for (int64_t i = 0; i < type->dim[0] * one; i++) {
        int64_t part = i / one, at = i % one;
        for (uint32_t k = 0; k < points; k++) v[k] = sum[(part * points + k) * one + at];
        apply(&winograd_kernel_turned, t.dims, v);
        for (uint32_t k = 0; k < (uint32_t)type->dim[1]; k++)
            c->out->t->v[(part * (int64_t)type->dim[1] + k) * one + at] = v[c->n->attr[1].v[k]];
    }
    eval_to_dtype(c->e->precision, (enum ir_dtype)type->dtype, c->out->t->v, ir_type_elements(type));
    eval_drop(c->e, x, points * channels);
    eval_drop(c->e, y, points * columns);
    eval_drop(c->e, sum, sums);
}
