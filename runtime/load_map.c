/* Maps of names, as loading and converting take them: {"encoder.*.**": "blocks.*.**", "head.**": "init", ...}. Left
 * stands what is wanted, right where it comes from; the first rule that matches holds. `*` is a part of one segment of
 * a path, `**` whole segments, also none; on the right each stands for what the wildcard of the same number matched.
 * "init" and "reset" are the fresh value, "skip" the present one. */
#include "ir/base/str.h"
#include "runtime/header_scan.h"
#include "runtime/load.h"
#include <stepc/step_tools.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WILDCARDS = 8 };

struct st_map {
    char *text; /* what rules point into */
    uint32_t count;
    struct rule {
        const char *left, *right;
        uint32_t met, taken; /* names that it matches; for which it is the first one */
        uint8_t way;
    } rules[];
};

struct part { /* what a wildcard stands for */
    const char *at;
    size_t length;
};

/* At a wildcard: how many stars it has. */
static size_t stars(const char *pattern, const char *at)
{
    bool whole = at[0] == '*' && at[1] == '*' && (at == pattern || at[-1] == '.') && (!at[2] || at[2] == '.');
    return whole ? 2 : at[0] == '*';
}

/* The rest of a pattern against the rest of a name; the shortest parts that fit. */
static bool match(const char *pattern, const char *p, const char *name, struct part *parts)
{
    size_t wild = stars(pattern, p);
    if (*p == '.' && !*name && stars(pattern, p + 1) == 2 && !p[3]) { /* `a.**` matches `a` */
        *parts = (struct part){name, 0};
        return true;
    }
    if (!wild) return *p ? *p == *name && match(pattern, p + 1, name + 1, parts) : !*name;
    if (wild == 2 && p[2] == '.' && match(pattern, p + 3, name, parts + 1)) {
        *parts = (struct part){name, 0};
        return true;
    }
    for (const char *end = name;; end++) {
        bool segment = wild == 1 || (end > name && (!*end || *end == '.'));
        *parts = (struct part){name, (size_t)(end - name)};
        if (segment && match(pattern, p + wild, end, parts + 1)) return true;
        if (!*end || (wild == 1 && *end == '.')) return false;
    }
}

/* The other side of a rule. A name that would be too long is cut: there is none of that. */
static void replace(const char *pattern, const struct part *parts, char out[ST_MAPPED])
{
    size_t n = 0;
    for (const char *p = pattern; *p;) {
        size_t wild = stars(pattern, p), length = wild ? parts->length : 1;
        if (length > ST_MAPPED - 1 - n) length = ST_MAPPED - 1 - n;
        memcpy(out + n, wild ? parts->at : p, length);
        n += length;
        parts += wild > 0;
        p += wild ? wild : 1;
        if (wild == 2 && !length) { /* with its dot */
            if (*p) p++;
            else n -= n > 0;
        }
    }
    out[n] = 0;
}

static uint32_t wildcards(const char *pattern, char kinds[WILDCARDS + 1])
{
    uint32_t n = 0;
    for (const char *p = pattern; *p && n <= WILDCARDS;) {
        size_t wild = stars(pattern, p);
        if (wild && n < WILDCARDS) kinds[n] = (char)('0' + wild);
        n += wild > 0;
        p += wild ? wild : 1;
    }
    if (n <= WILDCARDS) kinds[n] = 0;
    return n;
}

static const char *check(struct rule *r)
{
    static const char *const words[] = {"init", "reset", "skip"};
    char left[WILDCARDS + 1], right[WILDCARDS + 1];
    for (size_t i = 0; i < 3; i++)
        if (strcmp(r->right, words[i]) == 0) r->way = i < 2 ? ST_FRESH : ST_SKIP;
    if (strchr(r->left, '{') || strchr(r->right, '{')) return "braces are not part of a map; write one rule for each";
    if (wildcards(r->left, left) > WILDCARDS || wildcards(r->right, right) > WILDCARDS) return "more than 8 wildcards";
    if (r->way == ST_SOURCE && strncmp(left, right, strlen(right)) != 0)
        return "each * or ** on the right stands for that of the same number on the left";
    return !*r->left || !*r->right ? "an empty name" : NULL;
}

struct st_map *st_map_open(const char *text, step_status *status, char error[ST_TEXT])
{
    size_t n = strlen(text), room = n / 6 + 1; /* "a":"" */
    struct st_map *m = malloc(sizeof *m + room * sizeof *m->rules);
    *status = STEP_ENOMEM;
    snprintf(error, ST_TEXT, "map: out of memory");
    if (!m || !(m->text = malloc(n + 1))) {
        free(m);
        return NULL;
    }
    memcpy(m->text, text, n + 1);
    m->count = 0;
    struct rt_scan s = {.at = m->text, .end = m->text + n};
    const char *wrong = NULL;
    scan_open(&s, '{');
    while (!wrong && scan_more(&s, '}')) {
        struct rule r = {.way = ST_SOURCE};
        if (!(r.left = scan_key(&s)) || !(r.right = scan_string(&s))) break;
        wrong = check(&r);
        for (uint32_t i = 0; i < m->count; i++)
            if (strcmp(m->rules[i].left, r.left) == 0) wrong = "is there twice";
        if (wrong) snprintf(error, ST_TEXT, "map: \"%.200s\": \"%.200s\": %s", r.left, r.right, wrong);
        else m->rules[m->count++] = r;
    }
    if (!wrong && !s.fault) scan_end(&s);
    if (s.fault)
        snprintf(error, ST_TEXT, "map: byte %td: %s; expected {\"wanted\": \"source\", ...}", s.at - m->text, s.fault);
    if (!wrong && !s.fault) {
        *status = STEP_OK;
        return m;
    }
    *status = STEP_EINVAL;
    st_map_close(m);
    return NULL;
}

void st_map_close(struct st_map *m)
{
    if (m) free(m->text);
    free(m);
}

int st_map_source(struct st_map *m, const char *wanted, char source[ST_MAPPED])
{
    struct part parts[WILDCARDS + 1];
    struct rule *first = NULL;
    *source = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        if (!match(m->rules[i].left, m->rules[i].left, wanted, parts)) continue;
        m->rules[i].met++;
        if (first) continue;
        first = &m->rules[i];
        first->taken++;
        if (first->way == ST_SOURCE) replace(first->right, parts, source);
    }
    return first ? first->way : ST_NO_RULE;
}

int st_map_target(struct st_map *m, const char *source, char wanted[ST_MAPPED])
{
    struct part parts[WILDCARDS + 1];
    char left[WILDCARDS + 1], right[WILDCARDS + 1];
    for (struct rule *r = m->rules; r < m->rules + m->count; r++) {
        bool back = r->way == ST_SOURCE; /* which wildcards are only on the left cannot be told from the right */
        if (!match(back ? r->right : r->left, back ? r->right : r->left, source, parts)) continue;
        if (back && wildcards(r->left, left) != wildcards(r->right, right)) continue;
        r->met++;
        r->taken++;
        if (back) replace(r->left, parts, wanted);
        return r->way;
    }
    return ST_NO_RULE;
}

bool st_map_drops(const struct st_map *m, const char *name)
{
    struct part parts[WILDCARDS + 1];
    for (const struct rule *r = m->rules; r < m->rules + m->count; r++)
        if (match(r->left, r->left, name, parts)) return r->way != ST_SOURCE;
    return false;
}

const char *st_map_idle(const struct st_map *m, uint32_t index, bool *met)
{
    for (const struct rule *r = m->rules; r < m->rules + m->count; r++)
        if (!r->taken && strcmp(r->left, "**") != 0 && !index--) return *met = r->met > 0, r->left;
    return NULL;
}

/* ---------------------------------------------------------------- loading */

#ifndef STEPC_IN_OBJECT
uint32_t st_role_of(const struct st_file *f, const struct st_tensor *t)
{
    const struct st_tensor *step = st_find(f, "step"), *of = NULL;
    if (t->role) return t->role;
    if (glob_match("{ema,slow,eval}.**", t->name)) of = st_find(f, strchr(t->name, '.') + 1);
    if (of && of->rank == t->rank && memcmp(of->shape, t->shape, sizeof t->shape) == 0) return STEP_EMA;
    if (!step || step->rank || step->dtype != STEP_I32) return STEP_PARAM;
    if (glob_match("opt_state.**", t->name)) return STEP_OPT_STATE;
    bool hyper = !t->rank && glob_match("hyperparameters.*", t->name);
    return hyper || !st_is_statistic(t->name, t->rank) ? STEP_STATE : STEP_PARAM;
}
#endif

/* Whether a tensor that nobody asked for belongs to what is asked for: of parameters alone those that are some, of a
 * checkpoint by the item that they lie in, of a file by their names. */
static bool is_wanted(const struct rt_load_plan *l, const struct st_tensor *t)
{
    const struct st_checkpoint *c = l->checkpoint;
    if (!(l->flags & STEP_LOAD_PARAMS_ONLY)) return true;
    if (c && t->offset < c->piece_count) return *c->members[c->pieces[t->offset].member].name == 'p';
    return st_is_statistic(t->name, t->rank) && !glob_match("{opt_state,ema,slow,eval,hyperparameters}.**", t->name);
}

static bool map_unknown(struct rt_load_plan *l, const struct st_tensor *t)
{
    if (!is_wanted(l, t)) return false;
    if (l->flags & STEP_LOAD_PARTIAL) rt_log(l->t, l->map ? 1 : 2, "%s: \"%s\" is not read", l->file->path, t->name);
    return !(l->flags & STEP_LOAD_PARTIAL);
}

static const struct st_tensor *map_slot(struct rt_load_plan *l, uint32_t i, char room[ST_MAPPED])
{
    const struct stepc_slot *s = &l->t->program->slots[i];
    struct rt_load_item *item = &l->items[i];
    bool strict = !s->computed && !(l->flags & STEP_LOAD_PARTIAL);
    item->way = (uint8_t)st_map_source(l->map, s->name, room);
    l->fresh |= item->way == ST_FRESH;
    if (item->way == ST_NO_RULE && strict && s->role == STEP_PARAM) {
        rt_load_fault(l, "tensor \"%s\": no rule of the map is for it", s->name);
        item->wrong = true;
    }
    const struct st_tensor *found = item->way == ST_SOURCE ? st_find(l->file, room) : NULL;
    if (item->way == ST_SOURCE && !found && strict && strcmp(room, s->name) != 0) {
        rt_load_fault(l, "tensor \"%s\": the map takes \"%s\", which is not there", s->name, room);
        item->wrong = true;
    }
    return found;
}

static void match_slots(struct rt_load_plan *l, bool *used)
{
    const struct stepc_program *p = l->t->program;
    char room[ST_MAPPED];
    uint32_t left = 0;
    bool met;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        uint32_t role = rt_slot_role(&p->slots[i]);
        if (!role || role > STEP_STATE || ((l->flags & STEP_LOAD_PARAMS_ONLY) && role != STEP_PARAM)) continue;
        const struct st_tensor *found = map_slot(l, i, room);
        if (!found) continue;
        used[found - l->file->tensors] = true;
        rt_load_match(l, i, found);
        if (l->items[i].wrong && strcmp(found->name, p->slots[i].name) != 0)
            rt_load_fault(l, "the map takes \"%s\" for \"%s\"", found->name, p->slots[i].name);
    }
    for (uint32_t i = 0; i < l->file->count; i++) {
        const struct st_tensor *t = &l->file->tensors[i];
        int32_t slot = rt_slot_find(l->t, t->name);
        bool other = slot >= 0 && (l->flags & STEP_LOAD_PARAMS_ONLY) && p->slots[slot].role != STEP_PARAM;
        if (used[i] || other || st_map_drops(l->map, t->name) || !map_unknown(l, t)) continue;
        if (!left++) snprintf(room, sizeof room, "\"%s\"", t->name);
    }
    if (left == 1) rt_load_fault(l, "%s of the file is asked for by no rule", room);
    else if (left) rt_load_fault(l, "%s and %u more of the file are asked for by no rule", room, left - 1);
    const char *rule;
    for (uint32_t i = 0; (rule = st_map_idle(l->map, i, &met)); i++)
        rt_load_fault(l,
                      met ? "map: \"%s\": rules before it have taken all that it matches"
                          : "map: \"%s\" matches no tensor of this object",
                      rule);
}

/* What is asked to keep its value does so; where init runs in the middle of a training, all that the file lacks too. */
static step_status prepare(struct rt_load_plan *l, bool lost)
{
    const struct stepc_program *p = l->t->program;
    uint64_t bytes = 0;
    for (int pass = 0; pass < 2; pass++) {
        char *at = l->kept;
        for (uint32_t i = 0; i < p->slot_count; i++) {
            struct rt_load_item *item = &l->items[i];
            if (!rt_slot_stored(&p->slots[i]) || item->source || item->way == ST_FRESH) continue;
            if (item->way != ST_SKIP && !(l->fresh && l->t->steps && l->flags & STEP_LOAD_PARTIAL)) continue;
            if (lost) return rt_fail(l->t, STEP_EINVAL, "load: map: \"%s\" has no value to keep", p->slots[i].name);
            if (!pass) bytes += rt_slot_bytes(&p->slots[i], false);
            else item->kept = at, at += rt_slot_bytes(&p->slots[i], false);
        }
        if (!pass && !(l->kept = malloc(bytes + 1))) return rt_fail(l->t, STEP_ENOMEM, "load: out of memory");
    }
    if (l->fresh && !l->t->entries[RT_INIT].table)
        return rt_fail(l->t, STEP_EUNSUPPORTED, "load: map: this object has no initial values");
    return STEP_OK;
}

static step_status map_match(struct rt_load_plan *l, const char *map, bool poisoned)
{
    step_status status;
    char error[ST_TEXT];
    if (!(l->map = st_map_open(map, &status, error))) return rt_fail(l->t, status, "load: %s", error);
    bool *used = malloc(l->file->count + 1);
    if (!used) return rt_fail(l->t, STEP_ENOMEM, "load: out of memory");
    memset(used, 0, l->file->count + 1);
    match_slots(l, used);
    free(used);
    l->restarts = l->fresh;
    return l->faults ? STEP_OK : prepare(l, poisoned || !l->t->initialized);
}

static void keep(struct rt_load_plan *l, bool store)
{
    const struct stepc_program *p = l->t->program;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        int64_t stride[RT_MAX_RANK];
        const struct stepc_slot *s = &p->slots[i];
        rt_c_strides(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
        if (l->items[i].kept && store) rt_scatter(l->t, s, l->items[i].kept, stride); /* every rank has it */
        else if (l->items[i].kept) rt_gather(l->t, s, l->items[i].kept, stride);
    }
}

/* Averages etc. follow from the parameters, also from those that are kept, as before a first step. */
static step_status map_begin(struct rt_load_plan *l)
{
    keep(l, false);
    if (!l->fresh) return (step_status)atomic_load(&l->t->failed);
    l->flags |= STEP_LOAD_PARTIAL;
    step_status status = rt_init_values(l->t);
    if (!status) keep(l, true);
    return status;
}

static void map_end(struct rt_load_plan *l, step_status status)
{
    if (!status) keep(l, true), rt_step_counter(l->t);
    st_map_close(l->map);
    free(l->kept);
}

const struct rt_maps rt_maps = {map_unknown, map_match, map_begin, map_end};
