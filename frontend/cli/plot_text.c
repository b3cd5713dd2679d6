/* Curves in a terminal. One curve alone is drawn in dots of braille, eight to a character; several have a sign each, so
 * that they are told apart without colours too. */
#include "frontend/cli/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_WIDTH = 20, SIGNS = 8 };

struct canvas {
    struct arena *arena;
    size_t columns, rows; /* characters */
    size_t across, down;  /* dots of a character: 2 x 4, or 1 x 1 */
    uint8_t *dots;        /* of a character: those that are set, or the number of a series from 1 on */
};

static void set(struct canvas *c, long x, long y, uint8_t sign)
{
    /* Of braille the dots 1 to 3 and 7 are the left column from above, 4 to 6 and 8 the right one. */
    static const uint8_t bits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    size_t column = (size_t)x / c->across, row = (size_t)y / c->down;
    if (x < 0 || y < 0 || column >= c->columns || row >= c->rows) return;
    uint8_t *dot = &c->dots[row * c->columns + column];
    if (c->across == 1) *dot = sign;
    else *dot |= bits[(size_t)y % 4][(size_t)x % 2];
}

/* Bresenham's line. */
static void line(struct canvas *c, long x0, long y0, long x1, long y1, uint8_t sign)
{
    long dx = labs(x1 - x0), dy = -labs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1, error = dx + dy;
    for (;;) {
        set(c, x0, y0, sign);
        if (x0 == x1 && y0 == y1) return;
        long twice = 2 * error;
        if (twice >= dy) error += dy, x0 += sx;
        if (twice <= dx) error += dx, y0 += sy;
    }
}

static long dot_at(double place, size_t dots) { return lround(place * (double)(dots - 1)); }

static void draw(const struct plot *p, struct canvas *c)
{
    for (size_t i = 0; i < p->series.count; i++) {
        const struct plot_series *s = &p->series.items[i];
        long x0 = 0, y0 = 0;
        for (size_t k = 0; k < s->points.count; k++) {
            const struct plot_point *at = &s->points.items[k];
            long x = dot_at(plot_place(&p->x, at->x), c->columns * c->across);
            long y = dot_at(1 - plot_place(&p->y, at->smooth), c->rows * c->down);
            line(c, k ? x0 : x, k ? y0 : y, x, y, (uint8_t)(i % SIGNS + 1));
            x0 = x, y0 = y;
        }
    }
}

static void add_braille(struct str *out, uint8_t dots)
{
    char text[] = {(char)0xe2, (char)(0xa0 | dots >> 6), (char)(0x80 | (dots & 63)), 0};
    str_add(out, dots ? text : " ");
}

/* Of the palette of Okabe and Ito, which those tell apart who see few colours. */
static const int colors[SIGNS] = {33, 208, 36, 175, 220, 117, 244, 160};
static const char *const signs[2][SIGNS] = {{"*", "x", "+", "o", "#", "@", "%", "="},
                                            {"●", "×", "+", "○", "◆", "▲", "□", "▽"}};

struct look {
    bool utf8, color, braille;
};

static void add_sign(struct str *out, struct look look, size_t series, const char *text)
{
    if (look.color) str_addf(out, "\033[38;5;%dm%s\033[0m", colors[series % SIGNS], text);
    else str_add(out, text);
}

static void add_cell(struct str *out, struct look look, uint8_t dots)
{
    if (!look.braille) {
        if (dots) add_sign(out, look, (size_t)dots - 1, signs[look.utf8][dots - 1]);
        else str_add(out, " ");
        return;
    }
    struct str cell = STR(out->arena);
    add_braille(&cell, dots);
    if (dots) add_sign(out, look, 0, str_text(&cell));
    else str_add(out, " ");
}

/* Numbers under the axis, each below its place, where there is room. */
static void add_below(struct str *out, const struct plot *p, size_t left, size_t columns)
{
    size_t at = 0;
    for (uint32_t i = 0; i < p->x.count; i++) {
        const char *text = plot_number(p->arena, p->x.ticks[i]);
        size_t length = strlen(text), place = left + (size_t)dot_at(plot_place(&p->x, p->x.ticks[i]), columns);
        size_t from = place > length / 2 ? place - length / 2 : 0;
        if (from + length > left + columns) from = left + columns - length;
        if (at && from < at + 2) continue;
        str_addf(out, "%*s%s", (int)(from - at), "", text);
        at = from + length;
    }
    str_add(out, "\n");
}

const char *plot_text(const struct plot *p, size_t width, size_t height, bool utf8, bool color)
{
    struct look look = {.utf8 = utf8, .color = color, .braille = utf8 && p->series.count == 1};
    struct str out = STR(p->arena);
    size_t left = 0;
    for (uint32_t i = 0; i < p->y.count; i++) {
        size_t length = strlen(plot_number(p->arena, p->y.ticks[i]));
        if (length > left) left = length;
    }
    size_t columns = width > left + 3 + LEAST_WIDTH ? width - left - 3 : LEAST_WIDTH;
    struct canvas c = {.arena = p->arena,
                       .columns = columns,
                       .rows = height,
                       .across = look.braille ? 2 : 1,
                       .down = look.braille ? 4 : 1};
    c.dots = arena_alloc(p->arena, columns * height);
    draw(p, &c);
    str_addf(&out, "%s%s%s\n", p->y.title, p->y.log ? " (logarithmic)" : "", p->smooth > 0 ? ", smoothed" : "");
    for (size_t row = 0; row < height; row++) {
        const char *tick = "";
        for (uint32_t i = 0; i < p->y.count; i++)
            if ((size_t)dot_at(1 - plot_place(&p->y, p->y.ticks[i]), height) == row)
                tick = plot_number(p->arena, p->y.ticks[i]);
        str_addf(&out, "%*s %s", (int)left, tick, utf8 ? (*tick ? "┤" : "│") : *tick ? "+" : "|");
        size_t end = columns;
        while (end && !c.dots[row * columns + end - 1]) end--;
        for (size_t k = 0; k < end; k++) add_cell(&out, look, c.dots[row * columns + k]);
        str_add(&out, "\n");
    }
    str_addf(&out, "%*s %s", (int)left, "", utf8 ? "└" : "+");
    for (size_t k = 0; k < columns; k++) str_add(&out, utf8 ? "─" : "-");
    str_add(&out, "\n");
    add_below(&out, p, left + 2, columns);
    str_addf(&out, "%*s  %s%s%s", (int)left, "", p->x.title, p->x.log ? " (logarithmic)" : "",
             p->series.count > 1 ? "" : " of ");
    for (size_t i = 0; i < p->series.count; i++) {
        const struct plot_series *s = &p->series.items[i];
        const struct plot_point *last = &s->points.items[s->points.count - 1];
        if (p->series.count > 1) {
            str_addf(&out, "\n%*s  ", (int)left, "");
            add_sign(&out, look, i, signs[utf8][i % SIGNS]);
            str_add(&out, " ");
        }
        str_addf(&out, "%s: %s at %s", p->series.count > 1 ? s->label : p->title, plot_number(p->arena, last->smooth),
                 plot_number(p->arena, last->x));
    }
    str_add(&out, "\n");
    return str_text(&out);
}
