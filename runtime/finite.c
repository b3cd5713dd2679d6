/* Objects compiled with --check-finite: what made the first value that is not finite. Generated code calls
 * stepc_finite_record where a check fails; every worker keeps its first ones beside its flag (struct stepc_watch).
 *
 * First is what was made first: by the number of the command in the order of execution, then by the number of the site,
 * operands before what is made of them, so it does not depend on threads. Passing on what an operand is, is not making
 * it (masks hold infinities), nor is a single number of the state that was so from the start (as is the best loss
 * before there is one): that is told only where there is nothing else. Of a sum whose operands are not at hand it takes
 * all workers to tell: it made what it is unless one of them has passed on such a value before. */
#include "runtime/comm_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WATCH_FINITE, WATCH_NOT_FINITE, WATCH_UNKNOWN };
enum { SEEN_MADE, SEEN_SUM, SEEN_SUM_NAN, SEEN_PASSED, SEEN_PASSED_NAN, SEEN_KINDS }; /* of stepc_watch.seen */

static struct stepc_watch *watch_of(char *scratch)
{
    return (struct stepc_watch *)(void *)(scratch - STEPC_FLAG_BEFORE);
}

static bool before(const struct stepc_seen *a, const struct stepc_seen *b)
{
    if (!a->site || !b->site) return a->site != 0;
    if (a->at != b->at || a->site != b->site) return a->at != b->at ? a->at < b->at : a->site < b->site;
    return a->element < b->element; /* whoever came first */
}

static void keep(struct stepc_seen *first, const struct stepc_seen *now)
{
    if (before(now, first)) *first = *now;
}

void stepc_finite_record(char *scratch, uint64_t site, uint64_t bad, uint64_t nan, uint64_t inputs, uint64_t nans,
                         int64_t element, int64_t scale)
{
    struct stepc_watch *watch = watch_of(scratch);
    bool sum = site & STEPC_SITE_UNKNOWN;
    if (site & STEPC_SITE_OUTER) inputs = bad;
    if (site & STEPC_SITE_PLACEHOLDER) inputs = nans = bad;
    uint64_t made = bad & ((nan & ~nans) | ~inputs);
    uint64_t lanes[SEEN_KINDS] = {sum ? 0 : made, sum ? made & ~nan : 0, sum ? made & nan : 0, bad & ~made,
                                  bad & ~made & nan};
    for (uint32_t kind = 0; kind < SEEN_KINDS; kind++) {
        if (!lanes[kind]) continue;
        uint32_t lane = (uint32_t)__builtin_ctzll(lanes[kind]);
        struct stepc_seen now = {.at = watch->now, .element = -1, .site = (uint32_t)site + 1};
        if (element >= 0) now.element = element + (int64_t)lane * scale;
        now.inputs = (uint32_t)(sum ? WATCH_UNKNOWN : inputs >> lane & 1 ? WATCH_NOT_FINITE : WATCH_FINITE);
        keep(&watch->seen[kind], &now);
    }
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
            struct stepc_watch *watch = watch_of(d->workers[w].scratch);
            *watch = (struct stepc_watch){.flag = watch->flag};
        }
}

static bool floats_finite(struct rt_device *d, const char *at, uint64_t bytes, uint32_t dtype)
{
    for (uint64_t i = 0; i < bytes; i += rt_dtype_bytes(dtype))
        if (!isfinite(rt_view_number(d, at + i, dtype))) return false;
    return true;
}

/* One command may join those of many places; of a result there is one. */
static const char *result_name(const struct step_instance *t, const struct stepc_buffer *b)
{
    for (const struct stepc_slot *s = t->program->slots; s < t->program->slots + t->program->slot_count; s++) {
        bool result = s->role == STEP_METRIC || s->role == STEP_OUTPUT;
        if ((b->space == STEPC_AT_RESULT ? result : s->role < STEP_INPUT) && s->offset == b->offset) return s->name;
    }
    return "a part of one";
}

/* What devices exchanged that no command reads: the first one of a result that is not finite. */
static bool collective_first(struct step_instance *t, char *text, size_t size)
{
    const struct rt_entry *e = &t->entries[t->running];
    for (uint32_t i = 0; e->commands && i < e->table->command_count; i++) {
        const struct stepc_command *c = &e->table->commands[i];
        for (uint32_t m = 0; c->kind == STEPC_COLLECTIVE && rt_dtype_float(c->dtype) && m < c->members; m++)
            for (RT_MINE(t, d)) {
                const struct stepc_buffer *b = &e->table->buffers[c->buffers[2 * m + 1]];
                if (b->space != STEPC_AT_RESULT && b->space != STEPC_AT_NEXT) continue;
                const char *at = d->maps[t->running].pointers[e->commands[i].arguments + 2 * m + 1];
                if (floats_finite(d, at, b->bytes, c->dtype)) continue;
                snprintf(text, size, "the first value that is not finite: %s of what devices gave, which is %s",
                         rt_comm_kind(c), result_name(t, b));
                return true;
            }
    }
    snprintf(text, size, "what is not finite comes from what devices exchange");
    return true;
}

static bool finite_first(struct step_instance *t, char *text, size_t size)
{
    struct stepc_seen seen[SEEN_KINDS] = {0};
    for (RT_MINE(t, d))
        for (uint32_t w = 0; w < t->threads; w++)
            for (uint32_t kind = 0; kind < SEEN_KINDS; kind++)
                keep(&seen[kind], &watch_of(d->workers[w].scratch)->seen[kind]);
    struct stepc_seen first = seen[SEEN_MADE], *passed = &seen[SEEN_PASSED];
    if (!before(passed, &seen[SEEN_SUM])) keep(&first, &seen[SEEN_SUM]);
    if (!before(&seen[SEEN_PASSED_NAN], &seen[SEEN_SUM_NAN])) keep(&first, &seen[SEEN_SUM_NAN]);
    /* Every value before it was checked. */
    if (first.inputs == WATCH_UNKNOWN && !before(passed, &first)) first.inputs = WATCH_FINITE;
    if (!first.site) first = *passed;
    if (!first.site) return collective_first(t, text, size);
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
    bool finite = true;
    for (RT_MINE(t, d)) finite &= floats_finite(d, d->result + s->offset, rt_slot_bytes(s, true), s->dtype);
    return finite;
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

enum { MATRIX_BAD = 1, MATRIX_NAN = 2 };

static uint32_t matrix_seen(const float *x, int64_t rows, int64_t columns, int64_t ld, int64_t *at)
{
    uint32_t seen = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i++) {
            if (isfinite(x[r * ld + i])) continue;
            if (!seen) *at += r * ld + i;
            seen |= isnan(x[r * ld + i]) ? MATRIX_BAD | MATRIX_NAN : MATRIX_BAD;
        }
    return seen;
}

/* No check is compiled into what a library makes. */
static void finite_product(struct rt_worker *w, const struct stepc_gemm *g, const float *a, const float *b,
                           const float *c, int64_t at, int64_t rows)
{
    int64_t anywhere = 0;
    uint32_t made = matrix_seen(c + at, rows, g->n, g->ldc, &at);
    if (!made || !g->site) return;
    uint32_t given = matrix_seen(a, g->trans_a ? g->k : g->m, g->trans_a ? g->m : g->k, g->lda, &anywhere) |
                     matrix_seen(b, g->trans_b ? g->n : g->k, g->trans_b ? g->k : g->n, g->ldb, &anywhere);
    stepc_finite_record(w->scratch, (g->site - 1) | (g->accumulate ? STEPC_SITE_UNKNOWN : 0), 1, made >> 1, given & 1,
                        given >> 1, at, 0);
}

const struct stepc_finite stepc_part_finite = {finite_begin, finite_first, finite_product, finite_told};
