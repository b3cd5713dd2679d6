/* Objects compiled with --check-finite: what made the first value that is not finite. Generated code calls
 * stepc_finite_record where a check fails; every worker keeps its first one beside its flag (struct stepc_watch).
 *
 * First is what was made first: by the number of the command in the order of execution, then by the number of the site,
 * operands before what is made of them, so it does not depend on threads. Passing on what an operand is, is not making
 * it (masks hold infinities), nor is a single number of the state that was so from the start (as is the best loss
 * before there is one): that is told only where there is nothing else. */
#include "runtime/rt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WATCH_FINITE, WATCH_NOT_FINITE, WATCH_UNKNOWN };

static bool before(const struct stepc_watch *a, const struct stepc_watch *b)
{
    if (!a->site || !b->site) return a->site != 0;
    if (a->passed != b->passed) return !a->passed;
    return a->at != b->at ? a->at < b->at : a->site < b->site;
}

void stepc_finite_record(char *scratch, uint64_t site, uint64_t bad, uint64_t nan, uint64_t inputs, uint64_t nans,
                         int64_t element, int64_t scale)
{
    struct stepc_watch *seen = (struct stepc_watch *)(void *)(scratch - STEPC_FLAG_BEFORE);
    bool unknown = site & STEPC_SITE_UNKNOWN;
    if (unknown && seen->site && seen->passed) inputs = bad, nans = seen->passed_nan ? bad : 0;
    if (site & STEPC_SITE_OUTER) inputs = bad;
    if (site & STEPC_SITE_PLACEHOLDER) inputs = nans = bad;
    uint64_t made = bad & ((nan & ~nans) | ~inputs);
    uint32_t lane = (uint32_t)__builtin_ctzll(made ? made : bad);
    struct stepc_watch now = *seen;
    now.site = (uint32_t)site + 1;
    now.at = seen->now;
    now.passed = !made;
    now.element = element < 0 ? -1 : element + (int64_t)lane * scale;
    now.inputs = (uint8_t)(unknown ? WATCH_UNKNOWN : inputs >> lane & 1 ? WATCH_NOT_FINITE : WATCH_FINITE);
    bool passed_nan = seen->passed_nan || (bad & nan & ~made);
    if (before(&now, seen)) *seen = now;
    seen->passed_nan = passed_nan;
}

static const char *line_of(const char *sites, uint32_t number)
{
    while (--number) sites = strchr(sites, '\n') + 1;
    return sites;
}

static void finite_begin(struct step_instance *t)
{
    for (RT_MINE(t, d))
        for (uint32_t w = 0; w < t->threads; w++) {
            struct stepc_watch *seen = (void *)((char *)d->workers[w].scratch - STEPC_FLAG_BEFORE);
            *seen = (struct stepc_watch){.flag = seen->flag};
        }
}

static bool finite_first(struct step_instance *t, char *text, size_t size)
{
    struct stepc_watch first = {0};
    bool passed = false;
    for (RT_MINE(t, d))
        for (uint32_t w = 0; w < t->threads; w++) {
            const struct stepc_watch *seen = (void *)((char *)d->workers[w].scratch - STEPC_FLAG_BEFORE);
            passed |= seen->product || (seen->site && seen->passed);
            if (before(seen, &first)) first = *seen;
        }
    if (!first.site) { /* nobody reads it here */
        snprintf(text, size, "what is not finite comes from a sum over devices, or a library's product, as it is");
        return true;
    }
    /* Every value before it was checked. */
    if (first.inputs == WATCH_UNKNOWN && !passed) first.inputs = WATCH_FINITE;
    const char *line = line_of(t->program->sites, first.site), *end = strchr(line, '\n');
    char element[48] = "";
    if (first.element >= 0) snprintf(element, sizeof element, ", element %lld", (long long)first.element);
    snprintf(text, size, "the first value that is not finite: %.*s%s%s", (int)(end - line - 1), line + 1, element,
             *line == STEPC_SITE_GIVEN          ? ", as it was given"
             : first.inputs == WATCH_FINITE     ? ", made from finite inputs"
             : first.inputs == WATCH_NOT_FINITE ? ", made from inputs that are not finite"
                                                : "; whether its inputs were is not known");
    return true;
}

static bool given_finite(struct step_instance *t, const struct stepc_slot *s)
{
    uint32_t bytes = rt_dtype_bytes(s->dtype);
    for (RT_MINE(t, d))
        for (uint64_t at = 0; at < rt_slot_bytes(s, true); at += bytes)
            if (!isfinite(rt_view_number(d, d->result + s->offset + at, s->dtype))) return false;
    return true;
}

static void finite_told(struct step_instance *t, enum rt_entry_kind kind)
{
    char first[RT_TEXT / 2];
    for (const struct stepc_slot *s = t->program->slots; s < t->program->slots + t->program->slot_count; s++) {
        if ((s->role != STEP_METRIC && s->role != STEP_OUTPUT) || !rt_slot_made_by(t->entries[kind].table, s)) continue;
        if (!rt_dtype_float(s->dtype) || given_finite(t, s)) continue;
        if (!t->nonfinite && finite_first(t, first, sizeof first))
            rt_log(t, 1, "%s: \"%s\": %s", kind == RT_INFER ? "infer" : "eval", s->name, first);
        return;
    }
}

static bool matrices_finite(const float *at, int64_t batch, int64_t stride, int64_t rows, int64_t columns, int64_t ld)
{
    bool finite = true;
    for (int64_t b = 0; b < (batch > 0 ? batch : 1); b++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) finite &= isfinite(at[b * stride + r * ld + c]) != 0;
    return finite;
}

/* What a library reads nobody else looks at. */
static void finite_product(struct rt_worker *w, const struct stepc_gemm *g, void *const *arguments)
{
    struct stepc_watch *seen = (struct stepc_watch *)(void *)((char *)w->scratch - STEPC_FLAG_BEFORE);
    int64_t rows[] = {g->trans_a ? g->k : g->m, g->trans_b ? g->n : g->k};
    int64_t columns[] = {g->trans_a ? g->m : g->k, g->trans_b ? g->k : g->n};
    if (!matrices_finite(arguments[g->a], g->batch, g->stride_a, rows[0], columns[0], g->lda) ||
        !matrices_finite(arguments[g->b], g->batch, g->stride_b, rows[1], columns[1], g->ldb))
        seen->product = 1;
}

const struct stepc_finite stepc_part_finite = {finite_begin, finite_first, finite_product, finite_told};
