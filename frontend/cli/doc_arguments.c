/* What functions and arguments are, for the reference and the schema. */
#include "frontend/cli/doc.h"
#include "frontend/expr/library.h"

#include <string.h>

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

void doc_arguments(struct doc *d, const struct fe_row *row)
{
    const struct fe_arg *args = row->args;
    if (!row->count) return;
    str_add(&d->out, "| argument | value | default | range | meaning |\n|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < row->count; i++)
        str_addf(&d->out, "| `%s` | %s | %s%s%s | %s | %s |\n", args[i].name, fe_kind_text(d->arena, &args[i]),
                 args[i].flags & FE_REQUIRED ? "" : "`", default_text(&args[i]), args[i].flags & FE_REQUIRED ? "" : "`",
                 range_of(d->arena, &args[i]), fe_meaning(row->name, "", args[i].name));
    str_add(&d->out, "\n");
}

/* What a function gives, and the comment above its formula, in one line; or the sentence of its row. */
const char *doc_function(struct arena *arena, const struct fe_function *f)
{
    const char *own = fe_meaning(f->name, f->name, "");
    if (f->doc || !f->formula) return own ? own : f->doc;
    struct str out = STR(arena);
    if (own) str_addf(&out, "%s.", own);
    const struct fe_span *s = &f->formula->entry.doc;
    for (const char *at = s->text, *end = at + s->length; at && at < end;) {
        size_t n = strcspn(at, "\n");
        str_addf(&out, "%s%.*s", out.length ? " " : "", (int)n - 2, at + 2);
        at += n + 1;
    }
    return str_text(&out);
}

void doc_add_entry(struct doc *d, const struct doc_topic *t, uint32_t i)
{
    str_addf(&d->out, "## %s\n\n", t->entry_name(d, i));
    t->entry(d, i);
    const char *example = doc_example(d, t, i);
    if (example) str_addf(&d->out, "Example:\n\n```\n%s\n```\n\n", example);
}

const char *doc_entry_text(struct doc *d, const struct doc_topic *t, uint32_t i, bool brief)
{
    struct doc one = *d;
    one.brief = brief;
    one.out = STR(d->arena);
    doc_add_entry(&one, t, i);
    return str_text(&one.out);
}
