/* The workers of all devices of this process run one command list together. The caller is worker 0 of the first; the
 * others are threads that live as long as the instance and sleep between steps. Every worker walks the list itself. A
 * kernel's range is cut into chunks that do not depend on who computes them; a worker takes its own first, so that data
 * stay in its cache, then what others have not begun. Where a command depends on earlier ones, workers wait for these
 * to be finished, not for each other: one that lost its core to another program delays the rest by one chunk. Everyone
 * meets only around loops and collectives.
 *
 * Waiting is spinning for a while, then a futex: a core that goes idle is given to the worker that waits for one. Where
 * there are more workers than cores nobody spins. */
#include "runtime/rt.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stepc/step_tools.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Spinning lasts about as long as a sleep and its end would take. */
enum { RT_SPINS = 64, RT_SPIN_NS = 50000, RT_POLL_NS = 50000000 };

/* ---------------------------------------------------------------- waiting */

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

uint64_t rt_stood_still(uint64_t *looked)
{
    const uint64_t asleep = 1000000000u; /* who waits looks far more often */
    uint64_t now = rt_now(), since = now - *looked;
    *looked = now;
    return since > asleep ? since : 0;
}

static void rt_signal_change(struct rt_signal *s)
{
    atomic_fetch_add(&s->value, 1);
    if (atomic_load(&s->sleepers))
        syscall(SYS_futex, (uint32_t *)&s->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Until the value is no longer `old`: true. False: the call failed elsewhere, or the deadline (0: none) passed. */
static bool signal_wait(struct step_instance *t, struct rt_signal *s, uint32_t old, uint64_t deadline,
                        bool leave_on_failure)
{
    for (uint64_t until = 0, now = 0; !t->oversubscribed && now <= until; until = until ? until : now + RT_SPIN_NS) {
        for (uint32_t i = 0; i < RT_SPINS; i++) {
            if (atomic_load_explicit(&s->value, memory_order_acquire) != old) return true;
            relax();
        }
        now = rt_now();
    }
    bool changed = false;
    atomic_fetch_add(&s->sleepers, 1);
    while (!(changed = atomic_load(&s->value) != old)) {
        if (leave_on_failure && atomic_load(&t->failed)) break;
        if (deadline && rt_now() >= deadline) break;
        struct timespec poll = {0, RT_POLL_NS};
        syscall(SYS_futex, (uint32_t *)&s->value, FUTEX_WAIT_PRIVATE, old, leave_on_failure || deadline ? &poll : NULL,
                NULL, 0);
    }
    atomic_fetch_sub(&s->sleepers, 1);
    return changed;
}

/* Is this the last one? Then nobody goes on until it releases the others. */
static bool arrive(struct rt_barrier *b, uint32_t *generation)
{
    *generation = atomic_load(&b->generation.value);
    return atomic_fetch_add(&b->arrived, 1) + 1 == b->total;
}

static void release(struct rt_barrier *b)
{
    atomic_store(&b->arrived, 0);
    rt_signal_change(&b->generation);
}

bool rt_meet(struct step_instance *t, struct rt_barrier *b, uint64_t deadline)
{
    uint32_t generation;
    if (b->total <= 1 || t->alone) return true;
    if (!arrive(b, &generation)) return signal_wait(t, &b->generation, generation, deadline, true);
    release(b);
    return true;
}

int rt_meeting(struct step_instance *t, struct rt_barrier *b, struct rt_meeting *m, uint64_t timeout_ns, bool wait)
{
    if (b->total <= 1 || t->alone) return 1;
    if (!m->arrived && arrive(b, &m->generation)) {
        release(b);
        return 1;
    }
    m->arrived = true;
    bool met = atomic_load_explicit(&b->generation.value, memory_order_acquire) != m->generation;
    if (!met && !wait) return 0;
    const uint64_t slice = 500000000u, asleep = 2 * slice; /* of longer ones this process was stopped */
    for (uint64_t left = timeout_ns; !met;) {
        uint64_t begin = rt_now(), part = left < slice ? left : slice;
        met = signal_wait(t, &b->generation, m->generation, timeout_ns ? begin + part : 0, true);
        if (!met && (!left || atomic_load(&t->failed))) return -1;
        uint64_t waited = rt_now() - begin, counts = waited > asleep ? part : waited;
        left -= counts < left ? counts : left;
    }
    m->arrived = false;
    return 1;
}

/* ---------------------------------------------------------------- the command loop */

static struct rt_progress *progress_of(const struct rt_worker *w, uint32_t command)
{
    return (struct rt_progress *)(void *)(w->device->progress + (size_t)command * w->instance->progress_bytes);
}

static bool works_alone(const struct rt_worker *w) { return w->instance->alone || w->instance->threads == 1; }

/* The member that holds iteration `at` of all. */
static uint32_t member_at(const struct stepc_command *c, int64_t at)
{
    uint32_t from = 0, to = c->members;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (c->ends[middle] <= at) from = middle + 1;
        else to = middle;
    }
    return from;
}

/* Where a chunk begins: whole grains from the start of its member on. */
static int64_t cut(const struct stepc_command *c, uint32_t chunk, uint32_t chunks)
{
    if (chunk == chunks) return c->extent;
    int64_t grain = c->grain > 0 ? c->grain : 1;
    int64_t at = c->extent / chunks * chunk + c->extent % chunks * chunk / chunks;
    uint32_t m = member_at(c, at);
    int64_t start = m ? c->ends[m - 1] : 0;
    return start + (at - start) / grain * grain;
}

static void run_members(struct rt_worker *w, const struct stepc_command *c, void *const *arguments, uint32_t chunk,
                        uint32_t chunks)
{
    int64_t lo = cut(c, chunk, chunks), hi = cut(c, chunk + 1, chunks);
    uint32_t m = member_at(c, lo), per = c->buffer_count / c->members;
    for (int64_t start = m ? c->ends[m - 1] : 0; lo < hi; m++) {
        int64_t end = c->ends[m] < hi ? c->ends[m] : hi;
        c->kernel(arguments + (size_t)m * per, lo - start, end - start, w->scratch);
        lo = end;
        start = c->ends[m];
    }
}

void rt_cpu_launch(struct rt_worker *w, const struct stepc_command *c, void *const *arguments, uint32_t chunk,
                   uint32_t chunks)
{
    if (c->gemm && c->gemm->prefer && w->instance->sgemm) {
        w->instance->program->blas->run(w, c->gemm, arguments, chunk, chunks);
        return;
    }
    if (c->members > 1) {
        run_members(w, c, arguments, chunk, chunks);
        return;
    }
    int64_t grain = c->grain > 0 ? c->grain : 1;
    int64_t pieces = (c->extent + grain - 1) / grain;
    int64_t lo = pieces * chunk / chunks * grain, hi = pieces * (chunk + 1) / chunks * grain;
    if (hi > c->extent) hi = c->extent;
    if (lo < hi) c->kernel(arguments, lo, hi, w->scratch);
}

static void finish_chunks(struct rt_progress *p, uint32_t count, uint32_t chunks)
{
    if (atomic_fetch_add(&p->done.value, count) + count == chunks && atomic_load(&p->done.sleepers))
        syscall(SYS_futex, (uint32_t *)&p->done.value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static uint64_t trace_begin(const struct step_instance *t) { return t->trace ? rt_now() : 0; }

static void trace_end(struct rt_worker *w, enum rt_traced what, uint32_t command, uint64_t begin)
{
    if (begin) w->instance->program->trace->note(w, what, command, begin);
}

/* False: others had done it all. */
static bool run_kernel(struct rt_worker *w, const struct rt_entry *e, uint32_t at, void *const *arguments)
{
    const struct stepc_command *c = &e->table->commands[at];
    const struct rt_command *how = &e->commands[at];
    const struct rt_device_ops *ops = w->instance->device_ops;
    if (works_alone(w) || !how->chunks) { /* the latter inside a loop of worker 0 */
        ops->launch(w, c, arguments, 0, 1);
        return true;
    }
    struct rt_progress *p = progress_of(w, at);
    uint32_t finished = 0;
    for (uint32_t k = 0; k < how->workers; k++) {
        uint32_t owner = (w->index + k) % how->workers;
        uint32_t first = (uint32_t)((uint64_t)how->chunks * owner / how->workers);
        uint32_t count = (uint32_t)((uint64_t)how->chunks * (owner + 1) / how->workers) - first;
        while (atomic_load_explicit(&p->next[owner], memory_order_relaxed) < count) {
            uint32_t chunk = atomic_fetch_add(&p->next[owner], 1);
            if (chunk >= count) break;
            ops->launch(w, c, arguments, first + chunk, how->chunks);
            finished++;
        }
    }
    if (finished) finish_chunks(p, finished, how->chunks);
    return finished > 0;
}

/* Whether a command belongs to the part of the step that runs. */
static bool runs(const struct step_instance *t, const struct stepc_command *c)
{
    return t->part == RT_WHOLE || c->late == (t->part == RT_LAST);
}

/* Until all commands from `known` on and before `at` are finished. False: the call failed elsewhere. */
static bool wait_for_earlier(struct rt_worker *w, const struct rt_entry *e, uint32_t known, uint32_t at)
{
    for (; known < at; known++) {
        if (!runs(w->instance, &e->table->commands[known])) continue;
        struct rt_signal *done = &progress_of(w, known)->done;
        uint32_t chunks = e->commands[known].chunks, now;
        while (chunks && (now = atomic_load_explicit(&done->value, memory_order_acquire)) != chunks)
            if (!signal_wait(w->instance, done, now, 0, true)) return false;
    }
    return true;
}

/* Nobody has begun these commands. */
static void clear_progress(const struct step_instance *t, const struct rt_device *d, uint32_t first, uint32_t end)
{
    if (t->threads > 1)
        memset(d->progress + (size_t)first * t->progress_bytes, 0, (size_t)(end - first) * t->progress_bytes);
}

/* Whether the loop goes on at iteration i. */
static bool loop_goes_on(const struct rt_worker *w, const struct stepc_command *c, const struct rt_command *how,
                         void *const *buffers, int32_t i)
{
    uint32_t microbatches = how->microbatches ? w->instance->microbatches : 0;
    int32_t limit;
    uint8_t flag;
    limit = *(const int32_t *)rt_view(w->device, buffers[c->limit], &limit, sizeof limit);
    if (microbatches && (uint32_t)limit > microbatches) limit = (int32_t)microbatches;
    return i < limit &&
           (c->flag == UINT32_MAX || *(const uint8_t *)rt_view(w->device, buffers[c->flag], &flag, sizeof flag));
}

/* Begin or end of a loop. Everyone keeps the counter; who comes last writes it where kernels read it, before anyone
 * goes on. Returns the index of the command to go on with, UINT32_MAX on failure. */
static uint32_t run_loop(struct rt_worker *w, const struct rt_entry *e, uint32_t at, void *const *buffers,
                         int32_t *counter)
{
    struct step_instance *t = w->instance;
    struct rt_device *d = w->device;
    const struct stepc_command *c = &e->table->commands[at];
    const struct rt_command *how = &e->commands[at];
    bool begin = c->kind == STEPC_LOOP_BEGIN, together = !how->solo && !works_alone(w), go;
    if (how->solo && w->index) return c->other + 1;
    uint32_t first = begin ? at : c->other, generation; /* the command that begins the loop */
    *counter = begin ? 0 : *counter + 1;
    if (together && !arrive(&d->barrier, &generation)) {
        if (!signal_wait(t, &d->barrier.generation, generation, 0, true)) return UINT32_MAX;
        go = d->loop_goes_on;
    } else {
        go = loop_goes_on(w, c, how, buffers, *counter);
        t->device_ops->copy(d, buffers[c->counter], counter, sizeof *counter, RT_TO_DEVICE);
        if (!how->solo) clear_progress(t, d, first + 1, begin ? c->other : at);
        if (together) {
            d->loop_goes_on = go;
            release(&d->barrier);
        }
    }
    if (how->solo && !go && e->commands[first].chunks && !works_alone(w)) finish_chunks(progress_of(w, first), 1, 1);
    return go == begin ? at + 1
                       : c->other + 1; /* begin and go: body; begin, no go: after END; end and go: after BEGIN */
}

static void run_commands(struct rt_worker *w, const struct rt_entry *e, const struct rt_map *m)
{
    struct step_instance *t = w->instance;
    int32_t counters[RT_MAX_DEPTH];
    uint32_t depth = 0, known = 0; /* commands before `known` are finished */
    uint64_t round = 0;            /* of the outermost loop, with where it begins */
    for (uint32_t i = 0; i < e->table->command_count;) {
        const struct stepc_command *c = &e->table->commands[i];
        const struct rt_command *how = &e->commands[i];
        void *const *arguments = m->pointers + how->arguments;
        if (!runs(t, c)) {
            i++;
            continue;
        }
        if (t->program->finite) {
            struct stepc_watch *watch = (void *)((char *)w->scratch - STEPC_FLAG_BEFORE);
            watch->now = depth ? round | i : (uint64_t)i << 44;
        }
        uint64_t begun = trace_begin(t);
        if (w->flight.of && c->half != STEPC_WAITS && !t->program->mesh->go_on(w, NULL)) return;
        begun = begun ? trace_begin(t) : 0;
        if ((t->part ? how->part_sync : how->sync) && !(how->solo && w->index) && !works_alone(w)) {
            if (!wait_for_earlier(w, e, known, i)) return;
            known = i;
            trace_end(w, RT_TRACED_WAIT, i, begun);
            begun = trace_begin(t);
        }
        if (c->kind == STEPC_KERNEL) {
            if (run_kernel(w, e, i, arguments)) trace_end(w, RT_TRACED_COMMAND, i, begun);
            i++;
        } else if (c->kind == STEPC_COLLECTIVE) {
            if (!t->program->mesh->go_on(w, c)) return;
            if (c->half != STEPC_STARTS) known = i + 1; /* all have met */
            i++;
        } else {
            bool begin = c->kind == STEPC_LOOP_BEGIN;
            if (begin && !depth++) round = (uint64_t)i << 44;
            uint32_t next = run_loop(w, e, i, m->pointers, &counters[depth - 1]);
            if (next == UINT32_MAX) return;
            bool inside = begin ? next == i + 1 : next != i + 1;
            round += UINT64_C(1) << 20;
            if (!inside) depth--;
            if (!how->solo) known = next; /* all have met */
            i = next;
        }
    }
}

static void run_worker(struct rt_worker *w)
{
    const struct rt_entry *e = &w->instance->entries[w->instance->running];
    const struct rt_map *m = &w->device->maps[w->instance->running];
    const struct rt_device_ops *ops = w->instance->device_ops;
    uint64_t begun = trace_begin(w->instance);
    if (!e->table->whole) run_commands(w, e, m);
    else if (w->index == 0) ops->launch_entry(w, e->table, m->pointers); /* no collectives: every device on its own */
    if (ops->meet) ops->meet(w->device);
    trace_end(w, RT_TRACED_CALL, 0, begun);
}

static void *worker_main(void *argument)
{
    struct rt_worker *w = argument;
    struct step_instance *t = w->instance;
    rt_fp_enter();
    uint32_t seen = 0;
    for (;;) {
        signal_wait(t, &t->job, seen, 0, false);
        seen++;
        if (atomic_load(&t->stop)) return NULL;
        run_worker(w);
        if (atomic_fetch_sub(&t->pending, 1) == 1) rt_signal_change(&t->done);
    }
}

static void run_team(struct step_instance *t)
{
    if (t->worker_count == 1 || t->alone) { /* nobody to wake */
        run_worker(&t->devices[0].workers[0]);
        return;
    }
    uint32_t done = atomic_load(&t->done.value);
    const struct stepc_entry *e = t->entries[t->running].table;
    for (RT_MINE(t, d))
        if (!e->whole) clear_progress(t, d, 0, e->command_count);
    atomic_store(&t->pending, t->worker_count - 1);
    rt_signal_change(&t->job);
    run_worker(&t->devices[0].workers[0]);
    /* a worker that never comes back must not hold the caller: after a failure it gets the time-out once more */
    while (atomic_load(&t->pending)) {
        uint64_t deadline = atomic_load(&t->failed) && t->timeout_ns > 0 ? rt_now() + (uint64_t)t->timeout_ns : 0;
        if (!signal_wait(t, &t->done, done, deadline, !deadline) && deadline) break;
    }
    while (atomic_load(&t->failed) == RT_REPORTING) sched_yield();
}

/* One run of the trial, or one of those that live by its result. The pieces of a kernel do not depend on who computes
 * them, so the numbers do not either. */
static void run_trial(struct step_instance *t, struct rt_trial *trial)
{
    enum { RT_TRIAL = 4, RT_HOLD = 256, RT_LONGEST = 1 << 16 };
    if (trial->runs >= 2 * RT_TRIAL) {
        if (trial->runs++ == 2 * RT_TRIAL + trial->hold) trial->runs = 0;
        t->alone = trial->chosen = trial->alone;
        run_team(t);
        return;
    }
    uint64_t begin = rt_now();
    t->alone = trial->chosen = trial->runs >= RT_TRIAL;
    run_team(t);
    if (trial->runs % RT_TRIAL == 0) trial->ns[t->alone] = 0; /* the first of each kind warms up */
    else trial->ns[t->alone] += rt_now() - begin;
    if (++trial->runs < 2 * RT_TRIAL) return;
    bool alone = trial->ns[1] <= trial->ns[0];
    trial->hold = alone == trial->alone && trial->hold ? (trial->hold < RT_LONGEST ? trial->hold * 2 : RT_LONGEST)
                                                       : RT_HOLD;
    trial->alone = alone;
}

static void run(struct step_instance *t)
{
    struct rt_entry *e = &t->entries[t->running];
    if (!t->tries || e->table->whole) {
        run_team(t);
        return;
    }
    if (t->part == RT_LAST) { /* by those who ran the first one */
        t->alone = e->trial.chosen;
        run_team(t);
    } else run_trial(t, &e->trial);
    t->alone = false;
}

/* ---------------------------------------------------------------- threads */

uint32_t rt_cpu_workers(struct step_instance *t, uint32_t asked)
{
    cpu_set_t set[RT_CPU_SETS];
    bool known = sched_getaffinity(0, sizeof set, set) == 0;
    uint32_t cores = known ? (uint32_t)CPU_COUNT_S(sizeof set, set) : 1;
    if (t->beside > 1) cores = cores > t->beside ? cores / t->beside : 1;
    uint32_t most = asked ? asked : cores / t->local_count;
    uint32_t n = rt_useful_workers(t->program, most < 1 ? 1 : most);
    t->oversubscribed = n * t->local_count > cores;
    t->tries = !asked && t->mesh_count == 1 && n > 1;
    return n;
}

static void pin(pthread_t thread, uint32_t index)
{
    cpu_set_t all[RT_CPU_SETS], one[RT_CPU_SETS] = {0};
    if (sched_getaffinity(0, sizeof all, all)) return;
    uint32_t n = (uint32_t)CPU_COUNT_S(sizeof all, all), k = 0;
    for (size_t c = 0; c < (size_t)RT_CPU_SETS * CPU_SETSIZE && n; c++)
        if (CPU_ISSET_S(c, sizeof all, all) && k++ == index % n) CPU_SET_S(c, sizeof one, one);
    pthread_setaffinity_np(thread, sizeof one, one);
}

static bool make_progress(struct step_instance *t)
{
    uint32_t commands = 0;
    for (uint32_t i = 0; i < RT_ENTRIES; i++)
        if (t->entries[i].commands && t->entries[i].table->command_count > commands)
            commands = t->entries[i].table->command_count;
    uint64_t bytes = sizeof(struct rt_progress) + t->threads * sizeof(_Atomic uint32_t);
    t->progress_bytes = (uint32_t)rt_aligned(bytes); /* a line apart */
    for (RT_MINE(t, d))
        if (t->threads > 1 && !(d->progress = rt_alloc(t, (size_t)commands * t->progress_bytes))) return false;
    return true;
}

static bool start(struct step_instance *t)
{
    if (!make_progress(t)) {
        rt_fail(NULL, STEP_ENOMEM, "no memory for the progress of commands");
        return false;
    }
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the host's business: workers inherit "none" */
    bool ok = true;
    for (uint32_t k = 1; ok && k < t->worker_count; k++) {
        struct rt_worker *w = &t->devices[k / t->threads].workers[k % t->threads];
        int error = pthread_create(&w->thread, NULL, worker_main, w);
        ok = w->started = error == 0;
        if (!ok) rt_fail(NULL, STEP_ENOMEM, "cannot start thread %u of %u: %s", k, t->worker_count, strerror(error));
        else if (t->flags & STEP_PIN) pin(w->thread, k);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

static bool stop(struct step_instance *t)
{
    uint32_t done = atomic_load(&t->done.value);
    uint64_t deadline = rt_now() + (t->timeout_ns > 0 ? (uint64_t)t->timeout_ns : 60000000000u);
    while (atomic_load(&t->pending) && signal_wait(t, &t->done, done, deadline, false)) continue;
    if (atomic_load(&t->pending)) return false; /* joining would hang */
    atomic_store(&t->stop, 1);
    rt_signal_change(&t->job);
    for (uint32_t k = 1; k < t->worker_count; k++) {
        struct rt_worker *of = t->devices[k / t->threads].workers; /* NULL: create ran out of memory */
        if (of && of[k % t->threads].started) pthread_join(of[k % t->threads].thread, NULL);
    }
    return true;
}

/* After a failed wait barriers are half full. */
static void reset(struct step_instance *t)
{
    t->part = RT_WHOLE;
    for (RT_MINE(t, d)) {
        atomic_store(&d->barrier.arrived, 0);
        atomic_store(&d->collectives, 0);
        atomic_store(&d->at, NULL);
        for (uint32_t w = 0; w < t->threads; w++)
            d->workers[w].collectives = 0, d->workers[w].flight = (struct rt_flight){.of = NULL};
    }
}

const struct stepc_team stepc_part_team = {.unpack = rt_unpack_commands,
                                           .plan = rt_plan_commands,
                                           .start = start,
                                           .stop = stop,
                                           .reset = reset,
                                           .run = run,
                                           .late_ready = rt_late_ready,
                                           .late_begin = rt_late_begin,
                                           .late_end = rt_late_end};
