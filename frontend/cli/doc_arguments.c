/* Rows of arguments as a table of the reference. */
#include "frontend/cli/doc.h"

static const char *default_text(const struct fe_arg *a)
{
    return a->flags & FE_REQUIRED ? "required" : a->preset ? a->preset : "null";
}

static const char *range_of(struct arena *arena, const struct fe_arg *a)
{
    const char *range = fe_range_text(a->flags);
    if (a->kind == FE_MAP && a->choices) return arena_format(arena, "also called `%s`", a->choices);
    if (a->kind != FE_ENUM) return range ? range : "";
    struct str s = STR(arena);
    for (const char *p = a->choices; p && *p; p++) str_add_n(&s, *p == '|' ? ", " : p, *p == '|' ? 2 : 1);
    return str_text(&s);
}

void doc_arguments(struct doc *d, const struct fe_arg *args, uint32_t count)
{
    if (!count) return;
    str_add(&d->out, "| argument | value | default | range |\n|---|---|---|---|\n");
    for (uint32_t i = 0; i < count; i++)
        str_addf(&d->out, "| `%s` | %s | %s%s%s | %s |\n", args[i].name, fe_kind_text(d->arena, &args[i]),
                 args[i].flags & FE_REQUIRED ? "" : "`", default_text(&args[i]), args[i].flags & FE_REQUIRED ? "" : "`",
                 range_of(d->arena, &args[i]));
    str_add(&d->out, "\n");
}
