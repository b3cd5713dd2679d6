/* `stepc plot`: numbers of runs as curves, in the terminal (plot_text.c), as SVG or on a page of HTML (plot_svg.c). */
#ifndef FRONTEND_CLI_PLOT_H
#define FRONTEND_CLI_PLOT_H
#include "frontend/cli/cli.h"

struct plot_cell {
    size_t row;
    double value;
};
/* Every number of a file under its name, with the line it stands in. */
struct plot_column {
    const char *name;
    bool array;
    VEC(struct plot_cell) cells;
};
struct plot_table {
    struct cli *cli;
    const char *path;
    size_t rows;
    VEC(struct plot_column) columns;
};
int plot_read(struct plot_table *); /* plot_read.c: of its path. 0 or an exit code after a message */

struct plot_point {
    double x, y, smooth; /* smooth = y where nothing is smoothed */
};
struct plot_series {
    const char *file, *name, *label; /* the label tells it from the others */
    VEC(struct plot_point) points;   /* those that can be drawn, in the order of the file */
    size_t lost; /* those that cannot: not finite, beyond PLOT_MOST, or for a logarithm below PLOT_LEAST */
};

enum { PLOT_TICKS = 16 };
#define PLOT_MOST 1e300   /* the length of an axis must be finite, too */
#define PLOT_LEAST 1e-300 /* and a part of it no subnormal number; what is less is written as 0 */
struct plot_axis {
    const char *title;
    bool log;
    double low, high; /* low < high; of a logarithmic axis both are positive */
    double ticks[PLOT_TICKS];
    uint32_t count;
};
struct plot {
    struct cli *cli;
    struct arena *arena;
    const char *title;
    struct plot_axis x, y;
    double smooth;
    VEC(struct plot_series) series; /* with points */
};

/* plot_axis.c */
void plot_place_axes(struct plot *);
double plot_place(const struct plot_axis *, double); /* 0: at low, 1: at high */
const char *plot_number(struct arena *, double);     /* 0.001, 1e+06 */

const char *plot_text(const struct plot *, size_t width, size_t height, bool utf8, bool color);
const char *plot_svg(const struct plot *);
const char *plot_html(const struct plot *);
#endif
