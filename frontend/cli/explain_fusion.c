/* stepc explain --fusion: the kernels of a step, what each computes, and why it ends where it does. */
#include "frontend/cli/explain.h"

#include <stdio.h>

enum { LINE_WIDTH = 160, LEAST_ROOM = 40 };

/* As many of a list as there is room for, at least one; the others are counted. --json has all. */
static void add_list(struct cli_view *v, const char *text, char separator, size_t room)
{
    size_t shown = 0, left = 1, depth = 0, length = strlen(text), last = 0;
    int more = 0, end = 0;
    for (size_t i = 0; i < length; i++) {
        depth += text[i] == '[';
        depth -= text[i] == ']';
        if (depth || text[i] != separator) continue;
        last = i + 1;
        if (!shown || i + strlen("+1000 more") <= room) shown = i;
        else left++;
    }
    if (separator == '+' && sscanf(text + last, "%d more%n", &more, &end) == 1 && end) left += (size_t)more - 1;
    if (length <= room || !shown) str_add(&v->out, text);
    else str_addf(&v->out, "%.*s%s+%zu more", (int)shown, text, separator == '+' ? "" : " ", left);
}

static const char *list_text(struct cli_view *v, node list, const char *separator)
{
    struct str s = STR(v->cli->arena);
    for (node i = first(list); i; i = next(i)) str_addf(&s, "%s%s", i == first(list) ? "" : separator, i->valuestring);
    return str_text(&s);
}

void cli_explain_fusion(struct cli_view *v, node e)
{
    const char *name = "fusion";
    size_t width = cli_columns(1, LINE_WIDTH);
    for (node g = first(at(e, "groups")); g; g = next(g)) {
        const char *place = text_at(v, g, "place"), *reason = text_at(v, g, "reason");
        node list = at(g, "ops");
        bool brief = cJSON_IsNumber(list);
        const char *ops = brief ? text_at(v, g, "ops") : list_text(v, list, "+");
        const char *outputs = brief ? text_at(v, g, "outputs") : list_text(v, at(g, "outputs"), " ");
        size_t taken = strlen("fusion   #0    column   ->   at ") + strlen(place),
               ending = strlen("; ends: ") + strlen(reason);
        bool close = !*reason || taken + ending + LEAST_ROOM <= width; /* else on a line of its own */
        if (close) taken += ending;
        size_t room = width > taken + LEAST_ROOM ? width - taken : LEAST_ROOM, half = room / 2;
        size_t of_outputs = strlen(ops) < half ? room - strlen(ops) : half;
        head(v, name);
        name = "";
        str_addf(&v->out, "#%-4.0f %-7s ", number_at(g, "command"), text_at(v, g, "kind"));
        add_list(v, ops, '+', strlen(outputs) < half ? room - strlen(outputs) : half);
        str_add(&v->out, " -> ");
        add_list(v, outputs, ' ', of_outputs);
        add_place(v, g);
        if (*reason) str_addf(&v->out, "%s ends: %s", close ? ";" : "\n              ", reason);
        str_add(&v->out, "\n");
    }
    none_of(v, name);
}
