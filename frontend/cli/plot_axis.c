/* Where values stand on an axis, which numbers stand beside it, and how these are written. */
#include "frontend/cli/plot.h"

#include <math.h>

enum { WANTED_TICKS = 6 };

double plot_place(const struct plot_axis *a, double v)
{
    return a->log ? (log10(v) - log10(a->low)) / (log10(a->high) - log10(a->low)) : (v - a->low) / (a->high - a->low);
}

const char *plot_number(struct arena *a, double v) { return fabs(v) < PLOT_LEAST ? "0" : arena_format(a, "%.6g", v); }

static void add_tick(struct plot_axis *a, double v)
{
    double slack = a->log ? 0 : (a->high - a->low) * 1e-9;
    if (v >= a->low - slack && v <= a->high + slack && a->count < PLOT_TICKS) a->ticks[a->count++] = v;
}

/* 1, 2 or 5 times a power of ten, about `WANTED_TICKS` of them; `open`: the axis ends at such values. */
static void place_linear(struct plot_axis *a, bool open)
{
    /* What differs in the last digits of float64 alone stands at one place: steps of such a range would add nothing to
     * the numbers beside the axis. */
    double most = fmax(fabs(a->low), fabs(a->high));
    if (a->high - a->low <= fmax(most * 1e-14, PLOT_LEAST)) {
        double half = most > PLOT_LEAST ? most * 0.05 : 0.5;
        a->low -= half, a->high += half;
    }
    double rough = (a->high - a->low) / WANTED_TICKS, ten = pow(10, floor(log10(rough))), part = rough / ten;
    double step = ten * (part <= 1.5 ? 1 : part <= 3.5 ? 2 : part <= 7.5 ? 5 : 10);
    double first = floor(a->low / step + 1e-9), last = ceil(a->high / step - 1e-9);
    if (!open) a->low = first * step, a->high = last * step;
    for (double k = first; k <= last; k++) add_tick(a, k * step);
}

static void place_log(struct plot_axis *a)
{
    if (a->low >= a->high) a->low /= 2, a->high *= 2;
    double first = floor(log10(a->low)), last = ceil(log10(a->high));
    double every = fmax(1, ceil((last - first) / (PLOT_TICKS - 2))); /* both ends may have one logarithm */
    static const double few[] = {1, 2, 5};
    bool dense = log10(a->high / a->low) < 2.5;
    for (double k = first; k <= last; k += every)
        for (size_t i = 0; i < (dense ? 3u : 1u); i++) add_tick(a, few[i] * pow(10, k));
    if (a->count > 1) return;
    a->count = 0; /* a part of a power of ten */
    place_linear(a, true);
}

static void cover(struct plot_axis *a, double v) { a->low = fmin(a->low, v), a->high = fmax(a->high, v); }

void plot_place_axes(struct plot *p)
{
    p->x.low = p->y.low = INFINITY;
    p->x.high = p->y.high = -INFINITY;
    for (size_t i = 0; i < p->series.count; i++)
        for (size_t k = 0; k < p->series.items[i].points.count; k++) {
            const struct plot_point *at = &p->series.items[i].points.items[k];
            cover(&p->x, at->x);
            cover(&p->y, at->y);
        }
    if (p->x.log) place_log(&p->x);
    else place_linear(&p->x, true);
    if (p->y.log) place_log(&p->y);
    else place_linear(&p->y, false);
}
