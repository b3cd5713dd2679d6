/* Who has come how far, for the rows of transports: every worker counts the collectives that it enters, and whoever
 * waits too long says who is behind. */
#include "runtime/comm_rows.h"

#include <stdio.h>

void rt_comm_enter(struct rt_worker *w, const struct stepc_command *c)
{
    w->collectives++;
    if (w->index) return;
    atomic_store(&w->device->at, c);
    atomic_store(&w->device->collectives, w->collectives);
}

bool rt_comm_go_on(struct rt_worker *w, const struct stepc_command *at)
{
    struct step_instance *t = w->instance;
    bool wait = at && at->half != STEPC_STARTS;
    if (at && at->half != STEPC_WAITS) w->flight = (struct rt_flight){.of = at};
    const struct stepc_command *c = w->flight.of;
    uint32_t before = w->flight.stage;
    uint64_t begin = rt_now();
    int state = t->comm->advance(w, c, wait);
    if (!w->index && w->device == t->devices) t->communication_ns += rt_now() - begin;
    if (state && wait) w->flight.of = NULL;
    if (t->trace && (at || w->flight.stage != before))
        t->program->trace->note(w, RT_TRACED_COMMAND,
                                (uint32_t)((at ? at : c) - t->entries[t->running].table->commands), begin);
    return state >= 0;
}

void rt_comm_late(const struct rt_worker *w, const struct stepc_command *c, const uint32_t *members, uint32_t count)
{
    struct step_instance *t = w->instance;
    uint64_t number = w->collectives;
    char text[RT_TEXT / 2] = "";
    size_t at = 0;
    for (uint32_t k = 0; k < count && at < sizeof text - 1; k++) {
        if (members[k] - t->first_local >= t->local_count) continue; /* another rank's: its own report names it */
        const struct rt_device *d = &t->devices[members[k] - t->first_local];
        uint64_t seen = atomic_load(&d->collectives);
        const struct stepc_command *last = atomic_load(&d->at);
        if (seen >= number) continue;
        int n = snprintf(text + at, sizeof text - at, "\n  device %u has not entered; ", d->index);
        if (n > 0) at += (size_t)n;
        if (at >= sizeof text - 1) break;
        n = last ? snprintf(text + at, sizeof text - at, "last seen in #%llu (%s, %s)", (unsigned long long)seen,
                            rt_comm_kind(last), last->place ? last->place : "")
                 : snprintf(text + at, sizeof text - at, "it has entered none");
        if (n > 0) at += (size_t)n;
    }
    rt_give_up(t, STEP_ETIMEOUT, "%s #%llu (%s) waited %llu ms at step %llu%s", rt_comm_kind(c),
               (unsigned long long)number, c->place ? c->place : "", (unsigned long long)t->timeout_ns / 1000000,
               (unsigned long long)t->steps + 1, text);
}
