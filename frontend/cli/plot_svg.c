/* Curves as SVG, and on a page of HTML with a table and a reader of values under the pointer. Both need nothing else,
 * are read on light and on dark ground, and tell curves apart by dashes and signs as well as by colours. The same data
 * give the same bytes. */
#include "frontend/cli/plot.h"
#include "ir/base/json_tree.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 960, HEIGHT = 480, LEFT = 72, RIGHT = 24, TOP = 44, BOTTOM = 48, LEGEND = 20, STYLES = 8 };

/* Okabe and Ito's palette, for light and for dark ground. */
static const struct {
    const char *light, *dark, *dash;
} styles[STYLES] = {{"#0072b2", "#56b4e9", ""},        {"#d55e00", "#ff8c42", "7 3"},     {"#009e73", "#2fd5a5", "2 2"},
                    {"#a0468a", "#e79bcb", "9 3 2 3"}, {"#8a6d00", "#f0e442", "12 4"},    {"#444444", "#dddddd", "4 4"},
                    {"#b00020", "#ff6b7a", "1 3"},     {"#00639c", "#9ad0ff", "14 3 3 3"}};

static double across(const struct plot *p, double x) { return LEFT + plot_place(&p->x, x) * (WIDTH - LEFT - RIGHT); }

static double down(const struct plot *p, double top, double y)
{
    return top + (1 - plot_place(&p->y, y)) * (HEIGHT - BOTTOM - TOP);
}

static void add_text(struct str *out, double x, double y, const char *anchor, const char *class, const char *text)
{
    str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
    str_add_xml(out, text);
    str_add(out, "</text>\n");
}

static void add_style(struct str *out)
{
    str_add(out, "<style>\n.plot{font:13px system-ui,sans-serif;color-scheme:light dark}\n"
                 ".plot .ground{fill:#fff}.plot text{fill:#222}.plot .faint{fill:#666}.plot .title{font-weight:600}\n"
                 ".plot .grid{stroke:#ddd}.plot .frame{stroke:#888;fill:none}\n");
    for (int i = 0; i < STYLES; i++)
        str_addf(out, ".plot .s%d{stroke:%s;stroke-dasharray:%s}", i, styles[i].light,
                 *styles[i].dash ? styles[i].dash : "none");
    str_add(out, "\n@media (prefers-color-scheme:dark){.plot .ground{fill:#15181c}.plot text{fill:#e6e6e6}.plot "
                 ".faint{fill:#a0a0a0}"
                 ".plot .grid{stroke:#333}.plot .frame{stroke:#777}\n");
    for (int i = 0; i < STYLES; i++) str_addf(out, ".plot .s%d{stroke:%s}", i, styles[i].dark);
    str_add(out, "}\n.plot .curve{fill:none;stroke-width:2;stroke-linejoin:round}.plot "
                 ".raw{stroke-width:1;opacity:.3;stroke-dasharray:none}\n</style>\n");
}

static void add_axes(struct str *out, const struct plot *p, double top)
{
    double bottom = top + HEIGHT - BOTTOM - TOP;
    for (uint32_t i = 0; i < p->y.count; i++) {
        double at = down(p, top, p->y.ticks[i]);
        str_addf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n", LEFT, WIDTH - RIGHT, at,
                 at);
        add_text(out, LEFT - 8, at + 4, "end", "faint", plot_number(p->arena, p->y.ticks[i]));
    }
    for (uint32_t i = 0; i < p->x.count; i++) {
        double at = across(p, p->x.ticks[i]);
        str_addf(out, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", at, at, top, bottom);
        add_text(out, at, bottom + 18, "middle", "faint", plot_number(p->arena, p->x.ticks[i]));
    }
    str_addf(out, "<path class=\"frame\" d=\"M%d %.1fV%.1fH%d\"/>\n", LEFT, top, bottom, WIDTH - RIGHT);
    add_text(out, (LEFT + WIDTH - RIGHT) / 2.0, bottom + 38, "middle", "text",
             arena_format(p->arena, "%s%s", p->x.title, p->x.log ? " (logarithmic)" : ""));
    add_text(out, LEFT, top - 10, "start", "text",
             arena_format(p->arena, "%s%s%s", p->y.title, p->y.log ? " (logarithmic)" : "",
                          p->smooth > 0 ? arena_format(p->arena, ", smoothed by %g", p->smooth) : ""));
}

/* Of the points that fall on one half of a pixel's column the first, the least, the largest and the last are drawn. */
static void add_curve(struct str *out, const struct plot *p, double top, const struct plot_series *s, bool smooth,
                      const char *class)
{
    double column = -1, first = 0, least = 0, most = 0, last = 0, at = 0;
    bool open = false;
    str_addf(out, "<polyline class=\"%s\" points=\"", class);
    for (size_t i = 0; i <= s->points.count; i++) {
        bool end = i == s->points.count;
        double x = end ? 0 : across(p, s->points.items[i].x);
        double y = end ? 0 : down(p, top, smooth ? s->points.items[i].smooth : s->points.items[i].y);
        if (open && (end || fabs(floor(x * 2) - column) > 0)) {
            str_addf(out, "%.1f,%.1f ", at, first);
            if (most > first && most > last) str_addf(out, "%.1f,%.1f ", at, most);
            if (least < first && least < last) str_addf(out, "%.1f,%.1f ", at, least);
            if (fabs(last - first) > 0) str_addf(out, "%.1f,%.1f ", at, last);
            open = false;
        }
        if (!open) column = floor(x * 2), first = least = most = y, at = x, open = true;
        least = fmin(least, y), most = fmax(most, y), last = y;
    }
    str_add(out, "\"/>\n");
}

const char *plot_svg(const struct plot *p)
{
    struct str out = STR(p->arena);
    double top = TOP + LEGEND * (double)(p->series.count > 1 ? p->series.count : 0) + 20;
    double height = top + HEIGHT - TOP;
    str_addf(
        &out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"",
        WIDTH, height);
    str_add_xml(&out, p->y.title);
    str_add(&out, " of ");
    str_add_xml(&out, p->title);
    str_add(&out, "\">\n");
    add_style(&out);
    str_addf(&out, "<rect class=\"ground\" width=\"%d\" height=\"%.0f\"/>\n", WIDTH, height);
    add_text(&out, LEFT, 26, "start", "title", p->title);
    add_axes(&out, p, top);
    for (size_t i = 0; i < p->series.count; i++) {
        const struct plot_series *s = &p->series.items[i];
        const struct plot_point *last = &s->points.items[s->points.count - 1];
        const char *style = arena_format(p->arena, "s%d", (int)(i % STYLES));
        if (p->smooth > 0) add_curve(&out, p, top, s, false, arena_format(p->arena, "curve raw %s", style));
        add_curve(&out, p, top, s, true, arena_format(p->arena, "curve %s", style));
        if (p->series.count == 1) continue;
        double y = TOP + LEGEND * (double)i;
        str_addf(&out, "<line class=\"curve %s\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n", style, LEFT,
                 LEFT + 44, y, y);
        add_text(&out, LEFT + 54, y + 4, "start", "text",
                 arena_format(p->arena, "%s: %s at %s", s->label, plot_number(p->arena, last->smooth),
                              plot_number(p->arena, last->x)));
    }
    str_add(&out, "</svg>\n");
    return str_text(&out);
}

/* ---------------------------------------------------------------- the page */

static const char page_style[] =
    "body{margin:24px auto;max-width:1000px;padding:0 16px;font:15px/1.45 system-ui,sans-serif;color-scheme:light "
    "dark;background:#fff;color:#222}\n"
    "svg{width:100%;height:auto;display:block}table{border-collapse:collapse;margin-top:20px;width:100%}\n"
    "th,td{padding:5px 10px;border-bottom:1px solid #ccc;text-align:right;font-variant-numeric:tabular-nums}\n"
    "th:first-child,td:first-child{text-align:left}#at{min-height:1.5em;margin:8px 0;color:#666;white-space:pre-wrap}\n"
    "@media "
    "(prefers-color-scheme:dark){body{background:#15181c;color:#e6e6e6}th,td{border-color:#3a3f45}#at{color:#a0a0a0}}"
    "\n";

/* The nearest point of every curve to the pointer. */
static const char page_script[] = "const svg=document.querySelector('svg'),at=document.getElementById('at');\n"
                                  "svg.addEventListener('pointermove',e=>{const b=svg.getBoundingClientRect();\n"
                                  " let t=((e.clientX-b.left)/b.width*D.width-D.left)/(D.width-D.left-D.right);\n"
                                  " if(t<0||t>1){at.textContent='';return;}\n"
                                  " const x=D.log?D.low*(D.high/D.low)**t:D.low+t*(D.high-D.low);\n"
                                  " at.textContent=D.series.map(s=>{let k=0;for(let "
                                  "i=1;i<s.x.length;i++)if(Math.abs(s.x[i]-x)<Math.abs(s.x[k]-x))k=i;\n"
                                  "  return s.label+': '+s.y[k]+' at '+D.over+' '+s.x[k];}).join('\\n');});\n";

enum { MOST_POINTS = 2000 };

static void add_data(struct str *out, const struct plot *p)
{
    struct json_tree data = json_object(p->arena);
    json_add_integer(data, "width", WIDTH);
    json_add_integer(data, "left", LEFT);
    json_add_integer(data, "right", RIGHT);
    json_add_bool(data, "log", p->x.log);
    json_add_number(data, "low", p->x.low, false);
    json_add_number(data, "high", p->x.high, false);
    json_add_text(data, "over", p->x.title);
    struct json_tree all = json_add_array(data, "series");
    for (size_t i = 0; i < p->series.count; i++) {
        const struct plot_series *s = &p->series.items[i];
        struct json_tree one = json_add_object(all, NULL);
        json_add_text(one, "label", s->label);
        struct json_tree x = json_add_array(one, "x"), y = json_add_array(one, "y");
        size_t every = (s->points.count + MOST_POINTS - 1) / MOST_POINTS;
        for (size_t k = every - 1; k < s->points.count; k += every) {
            json_add_number(x, NULL, s->points.items[k].x, true);
            json_add_number(y, NULL, s->points.items[k].smooth, true);
        }
    }
    for (const char *c = json_print(data); *c; c++) /* no text may end the script */
        if (*c == '<') str_add(out, "\\u003c");
        else str_add_n(out, c, 1);
}

static void add_cell(struct str *out, const char *text)
{
    str_add(out, "<td>");
    str_add_xml(out, text);
    str_add(out, "</td>");
}

const char *plot_html(const struct plot *p)
{
    struct str out = STR(p->arena);
    struct arena *a = p->arena;
    str_add(&out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                  "content=\"width=device-width\"><title>");
    str_add_xml(&out, p->title);
    str_addf(&out, "</title><style>\n%s</style></head><body>\n%s<div id=\"at\"></div>\n", page_style, plot_svg(p));
    str_add(&out, "<table><tr><th>curve</th><th>values</th><th>first</th><th>last</th><th>least</th><th>at ");
    str_add_xml(&out, p->x.title);
    str_add(&out, "</th><th>largest</th><th>not drawn</th></tr>\n");
    for (size_t i = 0; i < p->series.count; i++) {
        const struct plot_series *s = &p->series.items[i];
        const struct plot_point *first = s->points.items, *last = first + s->points.count - 1, *least = first,
                                *most = first;
        for (const struct plot_point *at = first; at <= last; at++) {
            if (at->y < least->y) least = at;
            if (at->y > most->y) most = at;
        }
        str_add(&out, "<tr>");
        add_cell(&out, arena_format(a, "%s: %s", s->file, s->name));
        add_cell(&out, arena_format(a, "%zu", s->points.count + s->lost));
        add_cell(&out, plot_number(a, first->y));
        add_cell(&out, plot_number(a, last->y));
        add_cell(&out, plot_number(a, least->y));
        add_cell(&out, plot_number(a, least->x));
        add_cell(&out, plot_number(a, most->y));
        add_cell(&out, arena_format(a, "%zu", s->lost));
        str_add(&out, "</tr>\n");
    }
    str_add(&out, "</table>\n<script>const D=");
    add_data(&out, p);
    str_addf(&out, ";\n%s</script></body></html>\n", page_script);
    return str_text(&out);
}
