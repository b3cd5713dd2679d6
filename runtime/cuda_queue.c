/* What goes to a CUDA device before a run and what comes back behind it. A run that is waited for has both in its own
 * stream. Steps of one call that need no decision of the host are posted: inputs travel on a stream of their own, while
 * the kernels of steps before still read theirs; the numbers that the host asks for after each step come to a place of
 * their own, and it asks when CUDA_PLACES steps are under way, or none is left. What orders the two streams are events.
 * Of brief steps inputs have a place for each of these steps, too, and go with the kernels. */
#include "runtime/cuda_driver.h"

#include <math.h>
#include <string.h>

enum { OWN_STREAM = 1 /* does not wait for the process's default stream */, NO_TIMES = 2, KERNELS_REACH_IT = 2 };

/* What step_instance.staging_bytes will be. */
static uint64_t batch_bytes(const struct stepc_program *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->slot_count; i++)
        if (p->slots[i].role == STEP_INPUT) bytes += rt_aligned(rt_slot_bytes(&p->slots[i], true));
    return bytes;
}

static bool is_brief(const struct stepc_program *p)
{
    bool brief = batch_bytes(p) <= CUDA_BRIEF_BYTES;
    for (const struct stepc_entry *e = p->entries; e < p->entries + p->entry_count; e++) {
        brief &= e->command_count <= CUDA_BRIEF;
        for (uint32_t i = 0; brief && i < e->command_count; i++) brief = e->commands[i].kind != STEPC_LOOP_BEGIN;
    }
    return brief;
}

uint32_t rt_cuda_batches(const struct step_instance *t) { return is_brief(t->program) ? CUDA_PLACES : CUDA_BATCHES; }

uint64_t rt_cuda_input_bytes(const struct step_instance *t) { return rt_cuda_batches(t) * batch_bytes(t->program); }

step_status rt_cuda_queue_make(struct rt_device *d, struct rt_cuda_device *g)
{
    const struct rt_cuda_driver *u = &g->host->driver;
    const struct stepc_program *p = d->instance->program;
    const struct stepc_cuda *cuda = p->cuda;
    uint64_t bytes = CUDA_SEEN_ALL + rt_cuda_input_bytes(d->instance);
    char why[CUDA_TEXT];
    int status = u->stream_create(&g->stream, OWN_STREAM);
    if (!status) status = u->stream_create(&g->copies, OWN_STREAM);
    for (struct rt_cuda_batch *b = g->batches; !status && b < g->batches + CUDA_BATCHES; b++) {
        status = u->event_create(&b->arrived, NO_TIMES);
        if (!status) status = u->event_create(&b->read, NO_TIMES);
    }
    for (uint32_t i = 0; !status && i < CUDA_PLACES; i++) status = u->event_create(&g->ended[i], NO_TIMES);
    if (!status) status = u->event_create(&g->followed, NO_TIMES);
    if (status)
        return rt_fail(NULL, STEP_EDEVICE, "cuda:%d: no stream or event: %s", g->ordinal, rt_cuda_why(u, status, why));
    status = u->host_alloc((void **)&g->pinned, bytes, KERNELS_REACH_IT);
    if (status)
        return rt_fail(NULL, STEP_ENOMEM, "cuda:%d: %llu bytes of pinned memory for inputs: %s", g->ordinal,
                       (unsigned long long)bytes, rt_cuda_why(u, status, why));
    memset(g->pinned, 0, bytes); /* uneven parts end in zeros */
    for (uint32_t i = 0; i < cuda->kernel_count; i++) g->flags |= cuda->kernels[i].checks;
    g->brief = is_brief(p);
    return STEP_OK;
}

void rt_cuda_queue_free(struct rt_cuda_device *g)
{
    const struct rt_cuda_driver *u = &g->host->driver;
    for (uint32_t i = 0; i < CUDA_PLACES; i++)
        if (g->ended[i]) u->event_destroy(g->ended[i]);
    if (g->followed) u->event_destroy(g->followed);
    for (struct rt_cuda_batch *b = g->batches; b < g->batches + CUDA_BATCHES; b++) {
        if (b->arrived) u->event_destroy(b->arrived);
        if (b->read) u->event_destroy(b->read);
    }
    if (g->copies) u->stream_destroy(g->copies);
    if (g->stream) u->stream_destroy(g->stream);
    if (g->pinned) u->host_free(g->pinned);
}

/* ---------------------------------------------------------------- inputs */

int rt_cuda_input(struct rt_device *d, const struct stepc_slot *s, char *at, char *host, const int64_t *stride,
                  bool far)
{
    struct rt_cuda_device *g = d->handle;
    struct step_instance *t = d->instance;
    const struct rt_cuda_driver *u = &g->host->driver;
    char *own = g->pinned + CUDA_SEEN_ALL + (at - d->staging);
    if (g->brief) { /* whoever had this place was waited for */
        if (far) return u->between(at, host, rt_slot_bytes(s, true), g->stream);
        rt_shard_copy(t, d->index, s, NULL, own, host, stride, RT_TO_DEVICE);
        rt_cuda_move(d, at, own, rt_aligned(rt_slot_bytes(s, true)));
        return 0;
    }
    struct rt_cuda_batch *b = &g->batches[t->staging_bytes ? (uint64_t)(at - d->staging) / t->staging_bytes : 0];
    bool begins = !b->copied || own <= b->copied; /* inputs come in order: a batch after another one */
    int status = 0;
    if (begins && b->copied) status = b->posted ? u->event_wait(b->arrived) : rt_cuda_wait(d);
    if (!status && begins && b->posted && t->post) status = u->stream_wait_event(g->copies, b->read, 0);
    if (begins) b->posted = t->post, b->ready = false;
    if (!far) rt_shard_copy(t, d->index, s, NULL, own, host, stride, RT_TO_DEVICE);
    b->copied = own;
    g->posted = b->posted ? b : NULL;
    void *stream = b->posted ? g->copies : g->stream;
    if (status) return status;
    return far ? u->between(at, host, rt_slot_bytes(s, true), stream)
               : u->to_device(at, own, rt_slot_bytes(s, true), stream);
}

/* Nothing is posted before a run of the call was waited for, so the other stream need not follow. */
void rt_cuda_follow(struct rt_device *d, void *stream)
{
    struct rt_cuda_device *g = rt_cuda_enter(d);
    if (!g) return;
    const struct rt_cuda_driver *u = &g->host->driver;
    int status = u->event_record(g->followed, stream);
    if (!status) status = u->stream_wait_event(g->stream, g->followed, 0);
    if (status) rt_cuda_failed(d, status, "following the stream of the batch");
    rt_cuda_leave(g);
}

/* ---------------------------------------------------------------- numbers that are asked for */

static struct rt_cuda_seen *seen_find(struct rt_cuda_device *g, const void *at, size_t bytes)
{
    struct rt_cuda_seen *s = g->seen;
    while (s < g->seen + CUDA_SEEN && (s->at != at || s->bytes != bytes)) s++;
    return s < g->seen + CUDA_SEEN ? s : NULL;
}

static char *seen_place(const struct rt_cuda_device *g, const struct rt_cuda_seen *s, uint32_t place)
{
    return g->pinned + place * CUDA_SEEN_PLACE + (s - g->seen) * CUDA_SEEN_BYTES;
}

bool rt_cuda_seen_read(struct rt_device *d, void *to, const void *from, size_t bytes)
{
    struct rt_cuda_device *g = d->handle;
    struct rt_cuda_seen *s = bytes <= CUDA_SEEN_BYTES ? seen_find(g, from, bytes) : NULL;
    if (g->past && (!s || s->idle)) { /* what the device has now is of a later step */
        memset(to, 0, bytes);
        rt_give_up(d->instance, STEP_EINTERNAL, "a number of a step that was posted did not come with it");
        return true;
    }
    if (s) s->idle = 0;
    else g->missed = true;
    if (s && g->fresh) memcpy(to, seen_place(g, s, g->place), bytes);
    if (!s && bytes <= CUDA_SEEN_BYTES && (s = seen_find(g, NULL, 0))) {
        *s = (struct rt_cuda_seen){from, (uint32_t)bytes, 0};
        g->fresh = false;
        return false;
    }
    return s && g->fresh;
}

/* Of a posted run only what was asked for after the last one that was waited for; the next step's flags are its own. */
static void seen_bring(struct rt_device *d, uint32_t place, bool posted)
{
    struct rt_cuda_device *g = d->handle;
    const char *flag = g->flags && posted ? (char *)d->workers->scratch - STEPC_FLAG_BEFORE : NULL;
    if (!g->brief) rt_cuda_flush(d); /* one graph for all places */
    for (struct rt_cuda_seen *s = g->seen; s < g->seen + CUDA_SEEN; s++) {
        if (!s->at || (posted && s->idle)) continue;
        if (!posted && s->idle++ == CUDA_SEEN_IDLE) *s = (struct rt_cuda_seen){.at = NULL};
        if (s->at) rt_cuda_move(d, seen_place(g, s, place), s->at, s->bytes | (s->at == flag ? STEPC_CUDA_CLEARS : 0));
    }
    rt_cuda_flush(d);
}

/* ---------------------------------------------------------------- the end of a run */

static int wait_for(struct rt_device *d)
{
    struct rt_cuda_device *g = d->handle;
    seen_bring(d, 0, false);
    int status = rt_cuda_wait(d);
    for (struct rt_cuda_batch *b = g->batches; b < g->batches + CUDA_BATCHES; b++)
        if (!b->posted) b->copied = NULL;
    g->place = 0;
    g->fresh = !status;
    g->missed = g->past = false;
    return status;
}

int rt_cuda_run_ends(struct rt_device *d)
{
    struct rt_cuda_device *g = d->handle;
    const struct rt_cuda_driver *u = &g->host->driver;
    if (!d->instance->post) return wait_for(d);
    uint32_t place = d->instance->post - 1u;
    seen_bring(d, place, true);
    int status = g->posted ? u->event_record(g->posted->read, g->stream) : 0;
    g->posted = NULL;
    return status ? status : u->event_record(g->ended[place], g->stream);
}

/* ---------------------------------------------------------------- steps one behind another */

bool rt_cuda_ready(const struct rt_device *d)
{
    const struct rt_cuda_device *g = d->handle;
    return !g->missed;
}

static step_status post(struct step_instance *t, uint64_t k)
{
    struct rt_cuda_device *g = t->devices->handle;
    g->past = false;
    t->post = (uint8_t)(k % CUDA_PLACES + 1);
    rt_bind_step(t, k);
    step_status status = rt_run_entry(t, RT_STEP);
    t->post = 0;
    return status;
}

/* Waits for step k and says what it gave. That kernels stored something that is not finite is seen by their flag alone:
 * the state is a later step's already. */
static step_status take(struct step_instance *t, uint64_t k, struct step_result **results, uint64_t *clock)
{
    struct rt_device *d = t->devices;
    struct rt_cuda_device *g = rt_cuda_enter(d);
    uint32_t flag = 0;
    if (g) {
        g->place = k % CUDA_PLACES;
        int status = g->host->driver.event_wait(g->ended[g->place]);
        if (status) rt_cuda_failed(d, status, "a kernel of entry \"step\" (STEPC_CUDA_CHECK=1 names it)");
        rt_cuda_leave(g);
        g->fresh = g->past = !status;
        if (!status) rt_view(d, (char *)d->workers->scratch - STEPC_FLAG_BEFORE, &flag, sizeof flag);
        t->steps++;
        if (!status) rt_step_counter(t);
    }
    if (*results) {
        uint64_t now = rt_now();
        rt_result_put(t, results, flag & STEPC_FLAG_NOT_FINITE ? STEP_NONFINITE : 0, now - *clock);
        *clock = now;
    }
    return (step_status)atomic_load_explicit(&t->failed, memory_order_relaxed);
}

step_status rt_cuda_steps(struct step_instance *t, uint64_t k, uint64_t n, struct step_result *results)
{
    const struct step_result *r = results; /* all are looked at before a step is posted whose own is not */
    for (uint64_t i = k; r && i < n; i++, r = (const void *)((const char *)r + r->size))
        if (!rt_sized(r)) return rt_fail(t, STEP_EINVAL, "%s: result has a wrong size field", "step");
    struct rt_cuda_device *g = rt_cuda_enter(t->devices);
    uint64_t posted = k, taken = k, clock = rt_now();
    step_status status = STEP_OK, stop = STEP_OK;
    if (!g) return (step_status)atomic_load_explicit(&t->failed, memory_order_relaxed);
    g->held = true;
    t->communication_ns = 0;
    while (!status && (taken < posted || (!stop && posted < n))) {
        if (stop || posted == n || posted - taken == CUDA_PLACES) status = take(t, taken++, &results, &clock);
        else if (!(stop = rt_interrupted(t, "before", posted - taken + 1))) status = post(t, posted++);
    }
    g->past = g->fresh = g->held = false; /* what else was seen did not come */
    rt_cuda_leave(g);
    if (status) return status;
    if (!stop) return rt_interrupted(t, "after", 0);
    if (results) rt_result_put(t, &results, 0, 0);
    return stop;
}
