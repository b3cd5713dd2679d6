/* Collectives whose groups have devices on several ranks. The ranks' first workers exchange messages, and all workers
 * of a process pack, sum and put in place what these carry:
 *
 *   sums    a rank sums what it holds as far as the order of sums allows (rt_block), sends these sums to who needs them
 *           and finishes what it needs. An all_reduce cuts its elements into shares, a rank of the group finishes its
 *           share and sends it to the others; few elements everybody finishes alone.
 *   moves   every piece goes once to every rank that needs it (comm_move.c).
 *
 * The first worker writes down who copies what where, for a window of elements at a time, so that memory stays bounded:
 * a script of tasks before, between and after the exchanges. */
#include "runtime/comm_ranks.h"

#include <stdlib.h>
#include <string.h>

enum { PHASES = 3, RT_ROOM = 1 << 24 /* bytes of parts under way, about */, RT_FEW = 1 << 12 /* bytes */ };

struct source { /* of a sum */
    const char *data;
    struct rt_spread spread;
    uint32_t item, first, count;
    bool summed;
};
struct task { /* elements [lo, hi) of a piece; room holds those from lo on */
    char *to;
    const char *from; /* NULL: a sum of sources */
    struct rt_spread into, out;
    int64_t lo, hi;
    uint32_t source, sources, item;
    bool summed; /* the result is one that goes on to be summed */
};
#define LIST(type) \
    struct { \
        type *items; \
        uint32_t count, room; \
    }
struct rt_script {
    LIST(struct task) tasks[PHASES];
    LIST(struct stepc_message) messages[PHASES - 1];
    LIST(struct source) sources;
    char *room;
    uint64_t room_bytes, used;
    bool full; /* memory ran out, or `room` has to grow */
};

/* One group's part of a window. */
struct cross {
    struct rt_worker *w;
    struct step_instance *t;
    const struct stepc_command *c;
    struct rt_script *script;
    struct rt_group *g;
    int64_t lo, hi; /* of the window */
    uint32_t item, sum_item;
};
/* Members of a group that one rank holds. */
struct segment {
    uint32_t rank, first, end, index, of; /* the index-th of so many */
};

/* ---------------------------------------------------------------- the script */

static void *add(void **items, uint32_t *count, uint32_t *room, size_t size, bool *full)
{
    if (*count == *room) {
        uint32_t more = *room ? *room * 2 : 64;
        void *grown = realloc(*items, more * size);
        if (!grown) {
            *full = true;
            return NULL;
        }
        *items = grown;
        *room = more;
    }
    return memset((char *)*items + (*count)++ * size, 0, size);
}
#define ADD(list, script) \
    add((void **)&(list).items, &(list).count, &(list).room, sizeof *(list).items, &(script)->full)

/* Room for [lo, hi), so that element e lies at e * item from what is returned. */
static char *take(struct rt_script *s, int64_t lo, int64_t hi, uint32_t item)
{
    uint64_t at = s->used;
    s->used += rt_aligned((uint64_t)(hi - lo) * item);
    if (s->used > s->room_bytes) s->full = true;
    return (char *)((uintptr_t)s->room + at - (uintptr_t)lo * item);
}

static const struct rt_spread side_by_side = {.inner = 1, .parts = 1};

static void message(struct cross *x, uint32_t phase, uint32_t peer, bool receive, const char *data, int64_t lo,
                    int64_t hi, uint32_t item)
{
    struct stepc_message *m = lo < hi ? ADD(x->script->messages[phase], x->script) : NULL;
    if (m)
        *m = (struct stepc_message){(void *)((uintptr_t)data + (uintptr_t)lo * item), (uint64_t)(hi - lo) * item, peer,
                                    receive};
}

static void copy(struct cross *x, uint32_t phase, char *to, struct rt_spread into, const char *from,
                 struct rt_spread out, int64_t lo, int64_t hi)
{
    struct task *k = lo < hi ? ADD(x->script->tasks[phase], x->script) : NULL;
    if (k) *k = (struct task){.to = to, .from = from, .into = into, .out = out, .lo = lo, .hi = hi, .item = x->item};
}

static void source(struct cross *x, const char *data, struct rt_spread spread, uint32_t first, uint32_t count)
{
    struct source *s = ADD(x->script->sources, x->script);
    bool summed = count > 1;
    if (s) *s = (struct source){data, spread, summed ? x->sum_item : x->item, first, count, summed};
}

/* Of the sources added since there were `source`. */
static void sum(struct cross *x, uint32_t phase, char *to, struct rt_spread out, int64_t lo, int64_t hi,
                uint32_t source, bool summed)
{
    struct task *k = lo < hi ? ADD(x->script->tasks[phase], x->script) : NULL;
    if (k)
        *k = (struct task){.to = to,
                           .into = side_by_side,
                           .out = out,
                           .lo = lo,
                           .hi = hi,
                           .source = source,
                           .sources = x->script->sources.count - source,
                           .item = summed ? x->sum_item : x->item,
                           .summed = summed};
}

/* ---------------------------------------------------------------- who has what */

static bool next_segment(const struct cross *x, struct segment *s)
{
    const struct rt_group *g = x->g;
    uint32_t local = x->t->local_count;
    if (!s->end)
        for (uint32_t k = 0; k < g->count; k++) s->of += !k || g->members[k] / local != g->members[k - 1] / local;
    else s->index++;
    if (s->end == g->count) return false;
    s->first = s->end;
    s->rank = g->members[s->first] / local;
    while (s->end < g->count && g->members[s->end] / local == s->rank) s->end++;
    return true;
}

static char *operand(const struct cross *x, uint32_t member) { return rt_comm_operand(x->w, x->c, x->g, member, 0); }
static char *result(const struct cross *x, uint32_t member) { return rt_comm_operand(x->w, x->c, x->g, member, 1); }

static bool mine(const struct cross *x, const struct segment *s) { return s->rank == x->t->rank; }

/* What a rank finishes: elements [lo, hi) of the sums that member `to` gets; of an all_reduce of a share of all. */
static bool next_target(const struct cross *x, const struct segment *s, uint32_t *to, int64_t *lo, int64_t *hi)
{
    *to = *to == UINT32_MAX ? s->first : *to + 1;
    *lo = x->lo;
    *hi = x->hi;
    if (x->c->collective == STEPC_REDUCE_SCATTER) return *to < s->end;
    int64_t n = x->hi - x->lo, lines = (n + 15) / 16;
    if (n * x->item > RT_FEW) {
        *lo = x->lo + lines * s->index / s->of * 16;
        *hi = x->lo + lines * (s->index + 1) / s->of * 16;
        if (*hi > x->hi) *hi = x->hi;
        if (*lo > *hi) *lo = *hi;
    }
    return *to == s->first;
}

/* ---------------------------------------------------------------- sums */

/* The sums of this rank's members that another one needs. */
static void sums_send(struct cross *x, const struct segment *s)
{
    uint32_t end = x->g->first + x->g->mine, to = UINT32_MAX;
    for (int64_t lo, hi; next_target(x, s, &to, &lo, &hi);) {
        struct rt_spread out = rt_piece_from(x->c, x->g->count, to);
        for (uint32_t k = x->g->first, n; k < end; k += n) {
            n = rt_block(k, end);
            uint32_t from = x->script->sources.count, item = n > 1 ? x->sum_item : x->item;
            int64_t at;
            if (n == 1 && rt_spread_run(out, lo, hi - lo, &at) == hi - lo) {
                message(x, 0, s->rank, false, operand(x, k) + (at - lo) * item, lo, hi, item);
                continue;
            }
            char *room = take(x->script, lo, hi, item);
            for (uint32_t i = k; n > 1 && i < k + n; i++) source(x, operand(x, i), out, i, 1);
            if (n > 1) sum(x, 0, room, out, lo, hi, from, true);
            else copy(x, 0, room, side_by_side, operand(x, k), out, lo, hi);
            message(x, 0, s->rank, false, room, lo, hi, item);
        }
    }
}

/* One result of this rank from all members' operands. Messages of a peer come in the order in which it goes through
 * its targets and blocks, so every target is received whole before the next one. */
static void sums_finish(struct cross *x, const struct segment *me, uint32_t to, int64_t lo, int64_t hi)
{
    struct segment s = {0};
    struct rt_spread out = rt_piece_from(x->c, x->g->count, to);
    uint32_t from = x->script->sources.count;
    while (next_segment(x, &s))
        for (uint32_t k = s.first, n; k < s.end; k += n) {
            n = mine(x, &s) ? 1 : rt_block(k, s.end);
            if (mine(x, &s)) {
                source(x, operand(x, k), out, k, 1);
                continue;
            }
            uint32_t item = n > 1 ? x->sum_item : x->item;
            char *room = take(x->script, lo, hi, item);
            message(x, 0, s.rank, true, room, lo, hi, item);
            source(x, room, side_by_side, k, n);
        }
    sum(x, 1, result(x, x->c->collective == STEPC_ALL_REDUCE ? me->first : to), out, lo, hi, from, false);
}

static void sums(struct cross *x)
{
    struct segment me = {0}, s = {0};
    uint32_t to = UINT32_MAX;
    int64_t lo, hi, from, end;
    while (next_segment(x, &me) && !mine(x, &me)) continue;
    while (next_target(x, &me, &to, &lo, &hi)) sums_finish(x, &me, to, lo, hi);
    while (next_segment(x, &s)) {
        if (mine(x, &s)) continue;
        sums_send(x, &s);
        uint32_t k = UINT32_MAX;
        if (x->c->collective != STEPC_ALL_REDUCE || (x->hi - x->lo) * x->item <= RT_FEW) continue;
        to = UINT32_MAX;
        next_target(x, &me, &to, &lo, &hi);
        next_target(x, &s, &k, &from, &end);
        message(x, 1, s.rank, false, result(x, me.first), lo, hi, x->item);
        message(x, 1, s.rank, true, result(x, me.first), from, end, x->item);
    }
    for (uint32_t k = me.first + 1; x->c->collective == STEPC_ALL_REDUCE && k < me.end; k++)
        copy(x, 2, result(x, k), side_by_side, result(x, me.first), side_by_side, x->lo, x->hi);
}

/* ---------------------------------------------------------------- moves */

/* The pieces that go from one rank's members to another's: both go through them in the same order. */
static void moves_between(struct cross *x, const struct segment *from, const struct segment *to)
{
    uint32_t all = x->g->count, peer = mine(x, from) ? to->rank : from->rank;
    for (uint32_t i = from->first; i < from->end; i++)
        for (uint32_t j = to->first; j < to->end; j++) {
            struct rt_spread out = rt_piece_from(x->c, all, j), into = rt_piece_into(x->c, all, i);
            int64_t at;
            if (!rt_piece_goes(x->c, all, i, j)) continue;
            if (mine(x, from) && mine(x, to)) copy(x, 0, result(x, j), into, operand(x, i), out, x->lo, x->hi);
            else if (mine(x, from) && rt_spread_run(out, x->lo, x->hi - x->lo, &at) == x->hi - x->lo)
                message(x, 0, peer, false, operand(x, i) + (at - x->lo) * x->item, x->lo, x->hi, x->item);
            else if (mine(x, from)) {
                char *room = take(x->script, x->lo, x->hi, x->item);
                copy(x, 0, room, side_by_side, operand(x, i), out, x->lo, x->hi);
                message(x, 0, peer, false, room, x->lo, x->hi, x->item);
            } else {
                bool direct = rt_spread_run(into, x->lo, x->hi - x->lo, &at) == x->hi - x->lo;
                char *room = direct ? result(x, j) + (at - x->lo) * x->item : take(x->script, x->lo, x->hi, x->item);
                message(x, 0, peer, true, room, x->lo, x->hi, x->item);
                for (uint32_t k = j; k < to->end && (k == j || rt_piece_same(x->c)); k++)
                    if (k > j || !direct) copy(x, 1, result(x, k), into, room, side_by_side, x->lo, x->hi);
            }
            if (rt_piece_same(x->c) && !(mine(x, from) && mine(x, to))) break;
        }
}

static void moves(struct cross *x)
{
    struct segment me = {0}, s = {0};
    while (next_segment(x, &me) && !mine(x, &me)) continue;
    while (next_segment(x, &s)) {
        moves_between(x, &s, &me);
        if (!mine(x, &s)) moves_between(x, &me, &s);
    }
}

/* ---------------------------------------------------------------- playing the script */

static struct rt_part part_of(const void *context, uint32_t k, int64_t e)
{
    const struct source *s = (const struct source *)context + k;
    int64_t at;
    rt_spread_run(s->spread, e, 1, &at);
    return (struct rt_part){(const char *)((uintptr_t)s->data + (uintptr_t)at * s->item), s->first, s->count,
                            s->summed};
}

static void play(struct cross *x, uint32_t phase)
{
    uint32_t threads = x->t->threads, me = (uint32_t)(x->w->device - x->t->devices) * threads + x->w->index;
    for (uint32_t i = 0; i < x->script->tasks[phase].count; i++) {
        const struct task *k = &x->script->tasks[phase].items[i];
        int64_t lo, hi, at;
        rt_share(k->hi - k->lo, me, x->t->worker_count, &lo, &hi);
        lo += k->lo, hi += k->lo;
        if (k->from) rt_piece_copy(k->to, k->into, k->from, k->out, lo, hi, k->item);
        for (int64_t n; !k->from && lo < hi; lo += n) {
            n = rt_spread_run(k->out, lo, hi - lo, &at);
            rt_reduce(x->c, part_of, x->script->sources.items + k->source, k->sources, lo, n,
                      (char *)((uintptr_t)k->to + (uintptr_t)lo * k->item), k->summed);
        }
    }
}

/* How far a window of so many elements goes in what a collective joins: from element `at` of a region on. */
struct cursor {
    uint32_t region;
    int64_t at;
};

/* What the next window has of one region; false: nothing. */
static bool next_slice(struct cross *x, const struct stepc_command *whole, struct cursor *from, int64_t *left)
{
    if (from->region == rt_regions(whole) || !*left) return false;
    x->c = rt_region(whole, from->region);
    int64_t all = rt_piece_count(x->c, rt_group_of(x->w->device, whole->axes)->count);
    x->lo = from->at;
    x->hi = all - x->lo < *left ? all : x->lo + *left;
    *left -= x->hi - x->lo;
    *from = x->hi == all ? (struct cursor){from->region + 1, 0} : (struct cursor){from->region, x->hi};
    return true;
}

static bool adds(const struct stepc_command *c)
{
    return c->collective == STEPC_ALL_REDUCE || c->collective == STEPC_REDUCE_SCATTER;
}

static void write_slice(struct cross *x)
{
    uint32_t groups = x->t->mesh_count / rt_group_of(x->w->device, x->c->axes)->count;
    for (uint32_t i = 0; i < groups; i++) {
        x->g = x->t->groups[x->c->axes][i];
        if (!x->g || x->g->mine == x->g->count) continue;
        if (adds(x->c)) sums(x);
        else moves(x);
    }
}

/* For all groups of this process; again with more room where it does not suffice. */
static bool write_script(struct cross *x, const struct stepc_command *whole, struct cursor from, int64_t window)
{
    struct rt_script *s = x->script;
    for (int try = 0; try < 2; try++) {
        s->used = 0;
        s->full = false;
        s->sources.count = 0;
        for (uint32_t i = 0; i < PHASES; i++) s->tasks[i].count = 0;
        for (uint32_t i = 0; i + 1 < PHASES; i++) s->messages[i].count = 0;
        struct cursor at = from;
        for (int64_t left = window; next_slice(x, whole, &at, &left);) write_slice(x);
        if (!s->full) return true;
        char *room = s->used > s->room_bytes ? rt_alloc(x->t, s->used) : NULL;
        if (!room) break;
        s->room = room;
        s->room_bytes = s->used;
    }
    rt_give_up(x->t, STEP_ENOMEM, "no memory for the parts of %s", rt_comm_kind(x->c));
    return false;
}

/* Elements of a piece at a time: alike on all ranks. */
static int64_t window(const struct cross *x, uint32_t members)
{
    uint64_t most = (uint64_t)x->t->local_count * members * (adds(x->c) ? x->sum_item : x->item);
    int64_t n = (int64_t)(RT_ROOM / most) / 16 * 16;
    return n < 1024 ? 1024 : n;
}

static int all_meet(struct cross *x, bool wait)
{
    struct rt_ranks *r = x->t->peers;
    uint64_t timeout = (uint64_t)x->t->timeout_ns; /* the first worker may wait for other ranks so long, and a little
                                                      longer */
    int met = rt_meeting(x->t, &r->all, &x->w->flight.meeting, timeout ? timeout + 2000000000u : 0, wait);
    if (met >= 0) return met;
    uint32_t members[64], n = 0;
    for (RT_MINE(x->t, d))
        if (n < sizeof members / sizeof *members) members[n++] = d->index;
    rt_comm_late(x->w, x->c, members, n);
    return -1;
}

/* The script for the window that the worker has come to; all note where the next one begins. */
static bool next_window(struct cross *x, const struct stepc_command *c, uint32_t members, bool first)
{
    struct rt_flight *f = &x->w->flight;
    struct cursor at = {f->region, f->at};
    int64_t left = window(x, members);
    if (first && !write_script(x, c, at, left)) return false;
    while (next_slice(x, c, &at, &left)) continue;
    f->region = at.region;
    f->at = at.at;
    f->phase = 0;
    x->c = c;
    return true;
}

int rt_cross_advance(struct rt_worker *w, const struct stepc_command *c, bool wait)
{
    enum { ENTER, HERE, WINDOW, READY, PLAYED, SENT, LEAVE, ENDED };
    struct step_instance *t = w->instance;
    struct rt_ranks *r = t->peers;
    struct rt_group *own = rt_group_of(w->device, c->axes);
    struct rt_flight *f = &w->flight;
    bool first = !w->index && w->device == t->devices;
    if (!r->crosses[c->axes]) return rt_comm_thread.advance(w, c, wait);
    struct cross x = {.w = w,
                      .t = t,
                      .c = c,
                      .script = r->script,
                      .item = rt_dtype_bytes(c->dtype),
                      .sum_item = rt_sum_bytes(c->dtype)};
    while (f->stage != ENDED) {
        int go = 1;
        if (f->stage == HERE || f->stage == READY || f->stage == PLAYED || f->stage == LEAVE) go = all_meet(&x, wait);
        if (f->stage == SENT && f->phase + 1 < PHASES && first)
            go = rt_ranks_exchange(t, r->script->messages[f->phase].items, r->script->messages[f->phase].count,
                                   &f->sent, wait);
        if (go <= 0) return go;
        switch (f->stage++) {
        case ENTER:
            rt_comm_enter(w, c);
            if (first) atomic_store(&r->at, c), r->number++;
            break;
        case HERE:
            if (own->mine == own->count) rt_comm_local(w, c, own);
            break;
        case WINDOW:
            if (f->region == rt_regions(c)) f->stage = LEAVE;
            else if (!next_window(&x, c, own->count, first)) return -1;
            break;
        case READY: play(&x, f->phase); break;
        case SENT: f->stage = ++f->phase == PHASES ? WINDOW : READY; break;
        }
    }
    return 1;
}

/* ---------------------------------------------------------------- begin and end */

bool rt_cross_plan(struct step_instance *t)
{
    struct rt_ranks *r = t->peers;
    r->script = rt_alloc(t, sizeof *r->script);
    if (!r->script || !rt_groups_make(t)) return !rt_fail(NULL, STEP_ENOMEM, "no memory for collectives over ranks");
    r->all.total = t->worker_count;
    for (uint32_t axes = 0; axes < 1u << t->program->axis_count; axes++)
        for (RT_MINE(t, d)) {
            struct rt_group *g = t->groups[axes] ? rt_group_of(d, axes) : NULL;
            r->crosses[axes] |= g && g->mine < g->count;
        }
    return t->device_ops->shared ||
           !rt_fail(NULL, STEP_EDEVICE,
                    "transport \"mpi\" needs devices whose memory the host reads in place; GPUs of "
                    "several processes go by transport \"nccl\"");
}

void rt_cross_close(struct rt_ranks *r)
{
    struct rt_script *s = r->script;
    for (uint32_t i = 0; s && i < PHASES; i++) free(s->tasks[i].items);
    for (uint32_t i = 0; s && i + 1 < PHASES; i++) free(s->messages[i].items);
    if (s) free(s->sources.items);
}
