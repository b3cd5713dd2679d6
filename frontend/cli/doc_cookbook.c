/* The cookbook: complete documents by subject (cookbook.def), with what their objects take. */
#include "frontend/cli/doc.h"

#include <string.h>

#define RECIPE(subject, name, text, bytes, nanoseconds) extern const char doc_recipe_##name[];
#include "frontend/cli/cookbook.def"
#undef RECIPE

static const struct recipe {
    const char *subject, *name, *doc, *text;
    unsigned bytes, nanoseconds;
} recipes[] = {
#define RECIPE(subject, name, text, bytes, nanoseconds) {#subject, #name, text, doc_recipe_##name, bytes, nanoseconds},
#include "frontend/cli/cookbook.def"
#undef RECIPE
};
#define RECIPE(...)
#define MACHINE(text) static const char machine[] = text;
#include "frontend/cli/cookbook.def"
#undef RECIPE
#undef MACHINE
enum { RECIPES = sizeof recipes / sizeof *recipes };

const char *doc_recipe_name(struct doc *d, uint32_t i)
{
    (void)d;
    return i < RECIPES ? recipes[i].name : NULL;
}

void doc_recipe_entry(struct doc *d, uint32_t i)
{
    const struct recipe *r = &recipes[i];
    str_addf(&d->out, "Of %s: %s.\n\n", r->subject, r->doc);
    str_addf(&d->out, "The object has %u bytes; a step takes %.3g us (%s).\n\n", r->bytes, (double)r->nanoseconds / 1e3,
             machine);
    str_addf(&d->out, "```\n%s```\n\n", r->text);
}

const char *doc_recipe_text(const char *name)
{
    for (size_t i = 0; i < RECIPES; i++)
        if (!strcmp(recipes[i].name, name)) return recipes[i].text;
    return NULL;
}
