/* What a document unfolds to is limited: a few hundred bytes can ask for more values than there is memory. The one who
 * asks for too many is left where it stands, as all memory lies in arenas; what was recorded is the diagnostic. */
#include "frontend/document/document.h"

static _Noreturn void stop(struct fe *fe, struct diag *d)
{
    d->hint = "copies multiply: fewer of them, or --limit values=N";
    longjmp(*fe->end, 1);
}

/* What has no place of its own, such as inputs, is there for the model. */
static void over(struct ir_budget *budget, uint32_t place)
{
    struct fe *fe = (struct fe *)((char *)budget - offsetof(struct fe, budget));
    if (!place) place = fe_place(fe, fe_member(fe, fe_root(fe), "model"));
    struct ir_place at = place < fe->module->places.count ? fe->module->places.items[place] : (struct ir_place){0};
    struct diag *d = diag_error(fe->diags, at.span, "E0116", "the document unfolds to more than %llu values",
                                (unsigned long long)budget->all);
    d->pointer = at.pointer ? arena_string(fe->diags->arena, at.pointer) : NULL;
    stop(fe, d);
}

void fe_budget(struct fe *fe, jmp_buf *end)
{
    uint64_t most = fe->options->values;
    fe->end = end;
    fe->budget = (struct ir_budget){most, most, over};
    if (most) fe->module->budget = &fe->budget;
}

void fe_room(struct fe *fe, fe_json at, uint64_t count, uint64_t each)
{
    uint64_t wanted;
    if (__builtin_mul_overflow(count, each, &wanted)) wanted = UINT64_MAX;
    if (!fe->module->budget || wanted <= fe->budget.left) return;
    stop(fe,
         fe_error(fe, at, "E0116", "the document unfolds to more than %llu values: %llu x %llu more would follow here",
                  (unsigned long long)fe->budget.all, (unsigned long long)count, (unsigned long long)each));
}

void fe_spend(struct fe *fe, fe_json at)
{
    if (fe->module->budget && !fe->budget.left--) over(&fe->budget, fe_place(fe, at));
}

/* What is made first may be shared by the copies that follow: from the second on they are alike. */
void fe_copied(struct fe *fe, fe_json of, uint64_t left)
{
    struct fe_copies *k;
    if (!fe->copies) fe->copies = arena_new_array(fe->arena, struct fe_copies, fe->json.count);
    k = &fe->copies[of - fe->json.values];
    k->each = k->count++ ? left - fe->budget.left : 0;
}

void fe_copy(struct fe *fe, fe_json at, fe_json of)
{
    if (fe->copies) fe_room(fe, at, 1, fe->copies[of - fe->json.values].each);
}
