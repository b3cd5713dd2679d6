/* Which checkpoints of a run directory stay: a list of rules joined by commas, each of which keeps some; the newest
 * always stays. One whose manifest cannot be read is nobody's: it is not counted and not removed. */
#include "runtime/rt.h"
#include <stepc/step_tools.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum kind { LATEST, EVERY, STEPS, SECONDS, SINCE, BEST, KINDS };
static const char kinds[KINDS][8] = {"latest", "every", "steps", "seconds", "since", "best"};

struct rule {
    const char *at, *name; /* after '='; of a metric */
    size_t name_length;
    uint64_t number;
    uint8_t kind;
    bool most;
};

static const char *read_number(const char *at, uint64_t *out)
{
    const char *begin = at;
    for (*out = 0; *at >= '0' && *at <= '9' && *out < (uint64_t)1 << 59; at++) *out = *out * 10 + (uint64_t)(*at - '0');
    return at == begin ? NULL : at;
}

/* Where it ends, NULL: it is none. */
static const char *read_rule(const char *at, struct rule *r)
{
    size_t n;
    for (r->kind = 0;; r->kind++) {
        if (r->kind == KINDS) return NULL;
        n = strlen(kinds[r->kind]);
        if (strncmp(at, kinds[r->kind], n) == 0 && at[n] == '=') break;
    }
    r->at = at += n + 1;
    if (r->kind == BEST) { /* its name may hold anything but a comma */
        const char *end = at, *colon[2] = {NULL, NULL};
        for (; *end && *end != ','; end++)
            if (*end == ':') colon[0] = colon[1], colon[1] = end;
        if (!colon[0]) return NULL;
        r->name = at;
        r->name_length = (size_t)(colon[0] - at);
        r->most = strncmp(colon[0], ":max:", 5) == 0;
        if (!r->most && strncmp(colon[0], ":min:", 5) != 0) return NULL;
        at = colon[1] + 1;
    }
    at = read_number(at, &r->number);
    while (at && r->kind == STEPS && *at == '+') {
        uint64_t ignored;
        at = read_number(at + 1, &ignored);
    }
    return at && (!*at || *at == ',') && (r->number || r->kind == STEPS || r->kind == SINCE) ? at : NULL;
}

static uint32_t read_rules(const char *text, struct rule rules[ST_RULES])
{
    uint32_t n = 0;
    for (const char *at = text; n < ST_RULES && (at = read_rule(at, &rules[n]));) {
        n++;
        if (!*at++) return n;
    }
    return 0;
}

bool st_rules_check(const char *rules, char error[ST_TEXT])
{
    struct rule all[ST_RULES];
    bool good = read_rules(rules, all) > 0;
    if (!good)
        snprintf(error, ST_TEXT, "\"%.200s\": expected latest=N,every=K,steps=A+B,seconds=S,since=S,best=METRIC:min:N",
                 rules);
    return good;
}

#ifndef STEPC_IN_OBJECT
const char *st_rules_metric(const char *rules, uint32_t index, size_t *length)
{
    struct rule all[ST_RULES];
    uint32_t n = read_rules(rules, all);
    for (uint32_t i = 0; i < n; i++)
        if (all[i].kind == BEST && index-- == 0) return *length = all[i].name_length, all[i].name;
    return NULL;
}
#endif

static double metric_of(const struct st_checkpoint *c, const struct rule *r)
{
    double value = NAN;
    for (uint32_t i = 0; i < c->metric_count; i++)
        if (strlen(c->metrics[i].name) == r->name_length && strncmp(c->metrics[i].name, r->name, r->name_length) == 0)
            value = c->metrics[i].value;
    return isnan(value) ? INFINITY : r->most ? -value : value; /* the least is the best; none: the worst */
}

/* The list runs from the newest to the oldest; `rank`: how many whole ones are newer. */
static bool keeps(const struct rule *r, uint32_t number, const struct st_kept *list, uint32_t count, uint32_t i,
                  uint32_t rank, uint64_t now)
{
    const struct st_kept *k = &list[i];
    uint64_t step, better = 0;
    const char *at = r->at;
    switch (r->kind) {
    case LATEST: return rank < r->number;
    case EVERY: return k->step % r->number == 0;
    case SINCE: return now < k->created + r->number;
    case STEPS:
        while ((at = read_number(at, &step)) && step != k->step && *at == '+') at++;
        return at && step == k->step;
    case SECONDS:
        for (uint32_t older = i + 1; older < count; older++)
            if (list[older].complete && list[older].created / r->number == k->created / r->number) return false;
        return true;
    default:
        for (uint32_t other = 0; other < count; other++)
            better += list[other].complete && (list[other].value[number] < k->value[number] ||
                                               (other < i && !(list[other].value[number] > k->value[number])));
        return better < r->number;
    }
}

step_status st_kept_list(const char *folder, const char *rules, struct st_kept **list, uint32_t *count,
                         char error[ST_TEXT])
{
    struct rule all[ST_RULES];
    uint32_t n = rules ? read_rules(rules, all) : 0, rank = 0;
    uint64_t *steps;
    struct timespec now;
    *list = NULL;
    step_status status = st_steps(folder, &steps, count, error);
    size_t room = strlen(folder) + 32;
    char *path = malloc(room);
    struct st_checkpoint *c = malloc(sizeof *c);
    if (!status && (!path || !c || !(*list = malloc((*count + 1) * sizeof **list)))) status = STEP_ENOMEM;
    for (uint32_t i = 0; !status && i < *count; i++) {
        struct st_kept *k = &(*list)[i];
        *k = (struct st_kept){.step = steps[i]};
        snprintf(path, room, "%s/step-%" PRIu64, folder, steps[i]);
        k->complete = !st_checkpoint_open(c, path, true, error);
        k->whole = k->complete || !st_checkpoint_open(c, path, false, error);
        if (!k->whole) continue;
        k->created = c->created;
        for (uint32_t r = 0; r < n; r++) k->value[r] = all[r].kind == BEST ? metric_of(c, &all[r]) : 0;
        st_checkpoint_close(c);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    for (uint32_t i = 0; !status && i < *count; i++) {
        struct st_kept *k = &(*list)[i];
        k->keep = !n || !k->complete || !rank;
        for (uint32_t r = 0; r < n && !k->keep; r++)
            k->keep = keeps(&all[r], r, *list, *count, i, rank, (uint64_t)now.tv_sec);
        rank += k->complete;
    }
    free(c);
    free(path);
    free(steps);
    return status;
}

/* One that cannot be removed stays and is told of. */
static void retain(int parent, const char *rules, struct st_text *told)
{
    char error[ST_TEXT], path[32];
    struct st_kept *list;
    uint32_t count;
    snprintf(path, sizeof path, "/proc/self/fd/%d", parent); /* wherever the process is by now */
    if (st_kept_list(path, rules, &list, &count, error)) {
        st_add(told, "removed nothing: %s", error);
        count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].keep) continue;
        st_remove_step(parent, list[i].step, error);
        st_add(told, "%s%s", told->length ? ", " : "", error);
    }
    free(list);
}

const struct rt_retention rt_retention = {st_rules_check, retain};
