/* The calls that run an entry: step, step_n, eval, infer, and the derived slots behind read. A step is a
 * transaction: what is wrong with the batch is found before anything runs; a run that fails poisons the instance. */
#include "runtime/rt.h"

#include <math.h>
#include <string.h>

void rt_state_changed(struct step_instance *t)
{
    if (t->lent) t->program->lending->lent(t, RT_LENT_WAITS);
    t->stale = t->stale_spare = t->unknown = RT_ALL;
    t->waits = RT_WAITS_NOT;
}

step_status rt_run_entry(struct step_instance *t, enum rt_entry_kind kind)
{
    rt_point_inputs(t, kind, t->entries[kind].table->whole != NULL);
    const struct stepc_entry *e = t->entries[kind].table;
    struct rt_device *d = &t->devices[0];
    t->running = kind;
    if (kind < RT_STEP) rt_state_changed(t);
    if (!e->whole || t->local_count > 1) t->program->team->run(t);
    else { /* nobody to wake */ t->device_ops->launch_entry(&d->workers[0], e, d->maps[kind].pointers);
        if (t->device_ops->meet) t->device_ops->meet(d);
    }
    return (step_status)atomic_load_explicit(&t->failed, memory_order_relaxed); /* rt_leave has the text */
}

/* ---------------------------------------------------------------- results */

void rt_step_counter(struct step_instance *t)
{
    if (t->step_slot < 0) return;
    const struct stepc_slot *s = &t->program->slots[t->step_slot];
    uint64_t counted = (uint64_t)rt_view_number(&t->devices[0], t->devices[0].state + s->offset, s->dtype);
    if (counted != INT32_MAX || t->steps < counted) t->steps = counted; /* else it counts no further */
}

static double result_number(const struct step_instance *t, uint32_t slot)
{
    const struct stepc_slot *s = &t->program->slots[slot];
    return rt_view_number(&t->devices[0], t->devices[0].result + s->offset, s->dtype);
}

static double loss_of(const struct step_instance *t)
{
    return t->loss_slot < 0 ? NAN : result_number(t, (uint32_t)t->loss_slot);
}

/* `r` is the runtime's: rt_take brought what the caller set, metrics and metric_capacity, and rt_give hands it back. */
static void fill_result(const struct step_instance *t, struct step_result *r, uint32_t flags, uint64_t ns)
{
    r->step = t->steps;
    r->loss = loss_of(t);
    r->flags = flags;
    if (!isfinite(r->loss) && t->loss_slot >= 0) r->flags |= STEP_NONFINITE;
    r->metric_count = t->metric_count;
    for (uint32_t i = 0; r->metrics && i < t->metric_count && i < r->metric_capacity; i++)
        r->metrics[i] = result_number(t, t->metric_slots[i]);
    r->ns_total = ns;
    r->ns_communication = t->communication_ns;
}

void rt_result_put(const struct step_instance *t, struct step_result **results, uint32_t flags, uint64_t ns)
{
    struct step_result r;
    rt_take(&r, sizeof r, *results);
    fill_result(t, &r, flags, ns);
    rt_give(*results, &r, sizeof r);
    *results = (struct step_result *)(void *)((char *)*results + (*results)->size);
}

/* ---------------------------------------------------------------- steps that may be refused */

/* Of these slots what is `from` goes `to`. */
static void carry(struct rt_device *d, enum rt_carried what, char *to, const char *from)
{
    const struct stepc_program *p = d->instance->program;
    for (const struct stepc_slot *s = p->slots; s < p->slots + p->slot_count; s++)
        if (what == RT_IN_PLACE ? s->bits & STEPC_PACKED_KEPT
            : what == RT_SCALE  ? strncmp(s->name, "loss_scale.", 11) == 0
                                : s->role == RT_HYPER || (what == RT_ALL && s->role < STEP_INPUT))
            d->instance->device_ops->copy(d, to + s->offset, from + s->offset, rt_slot_bytes(s, true), RT_BETWEEN);
}

/* The step will leave the state alone and put its own into the other block, which holds what it does not write. */
bool rt_go_ahead(struct step_instance *t)
{
    for (RT_MINE(t, d)) {
        if (!d->other) t->stale = RT_ALL;
        if (!d->other && !(d->other = rt_alloc_device(d, t->program->state_bytes))) return false;
        d->ahead = d->other;
        if (t->stale) carry(d, t->stale, d->other, d->state);
        if (t->marks & STEPC_PACKED_KEPT) carry(d, RT_IN_PLACE, d->other, d->state);
    }
    t->stale = RT_NOTHING;
    return true;
}

/* What kernels saw of what they stored: STEPC_FLAG_*; they are asked anew each time. */
static uint32_t flags_take(struct step_instance *t)
{
    uint32_t raised = 0;
    for (RT_MINE(t, d))
        for (uint32_t w = 0; w < t->threads; w++) {
            char *flag = (char *)d->workers[w].scratch - STEPC_FLAG_BEFORE;
            uint32_t now, seen = *(const uint32_t *)rt_view(d, flag, &now, sizeof now);
            if (!seen) continue;
            raised |= seen;
            now = 0;
            t->device_ops->copy(d, flag, &now, sizeof now, RT_TO_DEVICE);
        }
    if (raised) t->unknown = RT_ALL;
    return raised;
}

/* Whether no element of the new state is infinite or NaN that was finite before, as far as that is known. */
static bool slot_finite(struct rt_device *d, const struct stepc_slot *s, bool beside)
{
    char now[1 << 14], before[sizeof now]; /* of memory that the host cannot read */
    uint64_t end = s->offset + rt_slot_bytes(s, true), item = rt_dtype_bytes(s->dtype);
    for (uint64_t at = s->offset, n; at < end; at += n) {
        n = end - at < sizeof now ? end - at : sizeof now;
        const void *new = rt_view(d, d->ahead + at, now, n);
        const void *old = beside ? rt_view(d, d->state + at, before, n) : NULL;
        if (rt_lost(new, s->dtype, old, s->dtype, (int64_t)(n / item)) >= 0) return false;
    }
    return true;
}

/* Where the state before is there as well, because the step may be refused, single numbers can be compared with it. */
static bool step_finite(struct step_instance *t, bool raised, bool beside)
{
    if (t->loss_slot >= 0 && !isfinite(loss_of(t))) return false;
    if (!raised && !(t->marks & STEPC_PACKED_WATCHED)) return true;
    for (RT_MINE(t, d))
        for (const struct stepc_slot *s = t->program->slots; s < t->program->slots + t->program->slot_count; s++)
            if (s->bits & STEPC_PACKED_WATCHED && (s->rank || s->role <= STEP_EMA ? raised : beside) &&
                !slot_finite(d, s, beside))
                return false;
    return true;
}

/* The new state takes the place of the old one, or not; of a dynamic loss scale it does where a step is skipped: so its
 * rule wants it. */
static void settle(struct step_instance *t, bool accepted, bool skipped)
{
    for (RT_MINE(t, d)) {
        if (skipped) carry(d, RT_SCALE, d->state, d->ahead);
        if (accepted && d->ahead != d->state) {
            d->other = d->state;
            d->state = d->ahead;
        }
        d->ahead = d->state;
    }
    rt_views_settle(t);
}

/* ---------------------------------------------------------------- one step */

/* `clock`: when the step before ended, 0: nobody wants to know, nor the result; a small step takes little longer than
 * asking for the time. All ranks come to the same decision. */
static step_status one_step(struct step_instance *t, uint64_t k, const struct step_batch *batch,
                            struct step_result *result, uint64_t *clock)
{
    uint64_t begin = *clock;
    uint32_t policy = batch->flags & ~(uint32_t)STEP_COMPUTE, flags = 0;
    bool beside = batch->flags || batch->accept;
    bool lent = t->lent && t->program->lending->lent(t, beside ? RT_LENT_OTHER : RT_LENT);
    bool ahead = beside || lent;
    if (k && batch->accept) rt_fp_enter();
    t->communication_ns = 0;
    t->waits = RT_WAITS_NOT;
    bool compute = batch->flags & STEP_COMPUTE, late = beside && !lent && t->late && !(batch->flags & t->late_not);
    if (ahead && !(late ? t->program->team->late_begin(t) : rt_go_ahead(t)))
        return rt_fail(t, STEP_ENOMEM, "out of memory");
    rt_bind_step(t, k);
    const struct stepc_finite *finite = t->program->finite;
    if (finite) finite->begin(t);
    step_status status = rt_run_entry(t, late                                    ? RT_STEP_LATE
                                         : t->devices->ahead < t->devices->state ? RT_STEP_BACK
                                                                                 : RT_STEP);
    if (status) return status; /* workers who come too late may still read what they were started with */
    t->part = RT_WHOLE;
    uint32_t raised = flags_take(t);
    if (late) { /* in doubt the state is made beside the one that may stay, and looked at */
        bool good = !raised && t->program->team->late_ready(t) && (t->loss_slot < 0 || isfinite(loss_of(t)));
        late = !rt_agree(t, good ? STEP_OK : STEP_ENONFINITE);
        if (!late) status = t->program->team->late_end(t, RT_LATE_BESIDE);
        raised |= flags_take(t);
    }
    if (status) return status;
    if (!late && !step_finite(t, raised & STEPC_FLAG_NOT_FINITE, beside)) flags = STEP_NONFINITE;
    char first[RT_TEXT / 2] = "";
    bool found = finite && flags && finite->first(t, first, sizeof first);
    bool refused = policy && !late && rt_agree(t, flags ? STEP_ENONFINITE : STEP_OK), skipped = refused;
    if (refused && policy == STEP_ON_NONFINITE_STOP) {
        skipped = false;
        status = rt_fail(t, STEP_ENONFINITE, "step %llu: the %s is not finite%s%s; the state is as before the step",
                         (unsigned long long)t->steps + 1, isfinite(loss_of(t)) ? "update" : "loss", found ? "; " : "",
                         first);
    }
    if (found && !status && !t->nonfinite) rt_log(t, 1, "step %llu: %s", (unsigned long long)t->steps + 1, first);
    t->nonfinite = flags && !refused; /* what follows from it is not told */
    if (refused) flags = STEP_NONFINITE;
    if (!refused && batch->accept) {
        t->steps++;
        fill_result(t, result, flags, 0);
        t->steps--;
        rt_fp_leave(t->fp);
        step_status veto = batch->accept(batch->user, result) ? STEP_OK : STEP_ECANCELLED;
        if (late || *clock) rt_fp_enter(); /* else nothing is computed any more */
        refused = rt_agree(t, veto);
        if (refused) flags |= STEP_SKIPPED;
    }
    if (compute && !refused) t->waits = late ? RT_WAITS_LATE : RT_WAITS_BESIDE;
    if (late && !refused) {
        status = t->program->team->late_end(t, compute ? RT_LATE_KEEP : RT_LATE_NOW);
        if (status) return status;
        flags_take(t);
    }
    if (skipped) flags |= STEP_SKIPPED;
    if (ahead) settle(t, !refused && !t->waits, skipped);
    t->steps += !refused;
    if (!t->waits) rt_step_counter(t);
    if (*clock) {
        *clock = rt_now();
        fill_result(t, result, flags, *clock - begin);
    }
    t->steps -= t->waits != RT_WAITS_NOT;
    return status;
}

/* The step that waits lies in the other block, which lacks what the host set since; or its last part is still to be
 * run. All ranks come to the same decision. */
static step_status decide(struct step_instance *t, bool accept)
{
    step_status mine = !accept    ? STEP_ECANCELLED
                       : t->waits ? STEP_OK
                                  : rt_fail(t, STEP_EINVAL, "commit: no step waits"),
                all = rt_agree(t, mine), status = STEP_OK;
    if (!all && t->waits == RT_WAITS_LATE) { /* the next step asks for flags that this raises */
        t->fp = rt_fp_enter();
        status = t->program->team->late_end(t, RT_LATE_KEPT);
        rt_fp_leave(t->fp);
    } else if (!all) {
        if (t->stale)
            for (RT_MINE(t, d)) carry(d, RT_HYPERS, d->other, d->state);
        for (RT_MINE(t, d)) d->ahead = d->other;
        t->stale = RT_NOTHING;
        settle(t, true, false);
    }
    if (!all && !status) {
        t->steps++;
        rt_step_counter(t);
    }
    t->waits = RT_WAITS_NOT;
    return status ? status : accept ? all : STEP_OK;
}

step_status rt_commit(struct step_instance *t, int accept)
{
    step_status status = rt_enter(t, "commit");
    if (status) return status;
    return rt_leave(t, decide(t, accept));
}

/* ---------------------------------------------------------------- hyper-parameters of one call */

enum { RT_CALL_HYPERS = 32 };
struct call_hypers {
    uint32_t count;
    uint32_t slot[RT_CALL_HYPERS];
    double old[RT_CALL_HYPERS];
};

static void hypers_restore(struct step_instance *t, const struct call_hypers *h)
{
    for (uint32_t i = 0; i < h->count; i++) rt_hyper_store(t, &t->program->slots[h->slot[i]], h->old[i]);
}

static step_status hypers_apply(struct step_instance *t, const struct step_batch *batch, struct call_hypers *h)
{
    const char *at = (const char *)batch->hypers;
    h->count = 0;
    if (!at && batch->hyper_count) return rt_fail(t, STEP_EINVAL, "batch: hypers is NULL");
    for (size_t i = 0; i < batch->hyper_count; i++, at += batch->hypers->size) {
        struct step_hyper value;
        if (!rt_take(&value, sizeof value, at) || !value.name)
            return rt_fail(t, STEP_EINVAL, "%s %zu: wrong size field or no name", "hyper-parameter", i);
        step_status status;
        int32_t slot = rt_hyper_find(t, value.name, value.value, &status);
        if (slot < 0) return status;
        for (uint32_t k = 0; k < h->count; k++)
            if (h->slot[k] == (uint32_t)slot)
                return rt_fail(t, STEP_EINVAL, "hyper-parameter \"%s\" is given twice", value.name);
        if (h->count == RT_CALL_HYPERS)
            return rt_fail(t, STEP_EINVAL, "batch: more than %d hyper-parameters", RT_CALL_HYPERS);
        const struct stepc_slot *s = &t->program->slots[slot];
        h->old[h->count] = rt_hyper_load(t, s);
        h->slot[h->count++] = (uint32_t)slot;
        rt_hyper_store(t, s, value.value);
    }
    return STEP_OK;
}

/* ---------------------------------------------------------------- step, step_n */

static const char call_names[][6] = {[RT_STEP] = "step", [RT_EVALUATE] = "eval", [RT_INFER] = "infer"};

static step_status batch_check(struct step_instance *t, const struct step_batch *from, struct step_batch *batch,
                               enum rt_entry_kind kind)
{
    if (!rt_take(batch, sizeof *batch, from))
        return rt_fail(t, STEP_EINVAL, "%s: null pointer or wrong size field", call_names[kind]);
    if (!t->entries[kind].table)
        return rt_fail(t, STEP_EUNSUPPORTED, "this object was compiled without %s", call_names[kind]);
    if (!t->initialized) return rt_fail(t, STEP_EINVAL, "%s: call init or load first", call_names[kind]);
    t->microbatches = 0;
    if (kind != RT_STEP && (batch->flags || batch->accept || batch->microbatches))
        return rt_fail(t, STEP_EINVAL, "%s: flags, accept and microbatches are of a step", call_names[kind]);
    if (!batch->microbatches) return STEP_OK;
    const struct rt_entry *e = &t->entries[kind];
    for (uint32_t i = 0; e->commands && i < e->table->command_count; i++)
        if (e->commands[i].microbatches) t->microbatches = batch->microbatches;
    if (!t->microbatches || e->table->whole)
        return rt_fail(t, STEP_EUNSUPPORTED, "microbatches: this step has no loop that can end early");
    return STEP_OK;
}

/* What the caller set. As of the batch, the other ranks hear of what is wrong with it when they bind theirs. */
static step_status result_take(struct step_instance *t, struct step_result *r, const struct step_result *from,
                               const char *call)
{
    if (!from || rt_take(r, sizeof *r, from)) return STEP_OK;
    return rt_fail(t, STEP_EINVAL, "%s: result has a wrong size field", call);
}

/* A locked instruction only if there is something to take. */
step_status rt_interrupted(struct step_instance *t, const char *when, uint64_t ahead)
{
    if (!atomic_load_explicit(&t->interrupted, memory_order_relaxed) || !atomic_exchange(&t->interrupted, 0))
        return STEP_OK;
    return rt_fail(t, STEP_ECANCELLED, "interrupted %s step %llu", when, (unsigned long long)(t->steps + ahead));
}

static step_status steps_run(struct step_instance *t, const struct step_batch *from, uint64_t n, bool leading,
                             struct step_result *results)
{
    struct step_batch batch = {0};
    struct call_hypers hypers;
    struct step_result result = {.size = sizeof result};
    hypers.count = 0;
    step_status status = result_take(t, &result, results, "step");
    if (!status) status = batch_check(t, from, &batch, RT_STEP);
    if (!status && (batch.flags & ~(leading ? 0u : (uint32_t)STEP_COMPUTE)) > STEP_ON_NONFINITE_SKIP)
        status = rt_fail(t, STEP_EINVAL, "step: unknown batch flags %u", batch.flags);
    if (!status && n > INT64_MAX) /* no extent is that large */
        status = rt_fail(t, STEP_EINVAL, "step_n: more than 2^63-1 steps");
    if (t->ranks > 1 && !status) status = rt_interrupted(t, "before", 1);
    if (!status) status = hypers_apply(t, &batch, &hypers);
    status = rt_bind(t, &batch, RT_STEP, leading ? n : 0, status);
    uint64_t clock = results ? rt_now() : 0;
    bool posts = t->device_ops->steps && t->mesh_count == 1 && !batch.flags && !batch.accept && !t->trace &&
                 !t->program->finite;
    for (uint64_t k = 0; !status && k < n; k++) {
        if (posts && k && t->device_ops->ready(t->devices)) {
            status = t->device_ops->steps(t, k, n, results);
            break;
        }
        status = result_take(t, &result, results, "step");
        if (!status && (t->ranks < 2 || k)) status = rt_interrupted(t, "before", 1);
        if (t->ranks > 1 && k) status = rt_agree(t, status);
        if (!status) status = one_step(t, k, &batch, &result, &clock);
        else fill_result(t, &result, 0, 0);
        if (!status && !t->waits && (t->ranks < 2 || k + 1 == n)) status = rt_interrupted(t, "after", 0);
        if (!results) continue;
        rt_give(results, &result, sizeof result);
        results = (struct step_result *)(void *)((char *)results + results->size); /* of the caller's version */
    }
    hypers_restore(t, &hypers);
    return status;
}

static step_status steps_call(struct step_instance *t, const struct step_batch *batch, uint64_t n, bool leading,
                              struct step_result *results)
{
    step_status status = rt_enter(t, "step");
    if (status) return status;
    t->fp = rt_fp_enter();
    status = steps_run(t, batch, n, leading, results);
    rt_fp_leave(t->fp);
    return rt_leave(t, status);
}

step_status rt_step(struct step_instance *t, const struct step_batch *batch, struct step_result *result)
{
    return steps_call(t, batch, 1, false, result);
}

step_status rt_step_n(struct step_instance *t, const struct step_batch *batch, uint64_t n, struct step_result *results)
{
    return n ? steps_call(t, batch, n, true, results) : STEP_OK;
}

/* ---------------------------------------------------------------- eval, infer */

step_status rt_derive(struct step_instance *t)
{
    if (!t->entries[RT_DERIVE].table) return rt_fail(t, STEP_EINTERNAL, "no entry computes it");
    struct rt_fp fp = rt_fp_enter();
    step_status status = rt_run_entry(t, RT_DERIVE);
    rt_fp_leave(fp);
    return status;
}

/* Which weights have that name, NULL: the parameters; false: there are none. */
static bool weights_find(const struct step_instance *t, const char *name, enum rt_weights *w, bool *computed)
{
    static const char names[RT_WEIGHTS][7] = {"params", "ema", "slow", "eval"};
    while (name && *w < RT_WEIGHTS && strcmp(names[*w], name) != 0) ++*w;
    bool there = *w == RT_PARAMS;
    for (uint32_t i = 0; *w < RT_WEIGHTS && i < t->program->slot_count; i++) {
        const struct stepc_slot *s = &t->program->slots[i];
        size_t n = strlen(names[*w]);
        if (s->role == STEP_PARAM || s->role > STEP_STATE || strncmp(s->name, names[*w], n) != 0 || s->name[n] != '.')
            continue;
        there = true;
        *computed |= s->computed;
    }
    return there;
}

/* The slot of an output; it must be one that the entry computes. */
static step_status output_find(struct step_instance *t, const struct step_array *a, const struct stepc_slot **slot)
{
    for (uint32_t i = 0; i < t->program->slot_count; i++) { /* a parameter may have the same name */
        const struct stepc_slot *s = *slot = &t->program->slots[i];
        if ((s->role == STEP_OUTPUT || s->role == STEP_METRIC) && strcmp(s->name, a->name) == 0 &&
            rt_slot_made_by(t->entries[RT_INFER].table, s))
            return STEP_OK;
    }
    return rt_fail(t, STEP_ENOTFOUND, "infer has no output \"%s\"", a->name);
}

/* First all are checked, then, with `fetch`, they are copied. */
static step_status outputs_go(struct step_instance *t, const struct rt_outputs *o, bool fetch)
{
    const char *at = (const char *)o->arrays;
    step_status status = STEP_OK;
    if (!at && o->count) return rt_fail(t, STEP_EINVAL, "infer: outputs is NULL");
    for (size_t i = 0; !status && i < o->count; i++, at += o->arrays->size) {
        struct step_array a;
        const struct stepc_slot *slot = NULL;
        int64_t stride[RT_MAX_RANK + 1];
        if (!rt_take(&a, sizeof a, at) || !a.name)
            return rt_fail(t, STEP_EINVAL, "%s %zu: wrong size field or no name", "output", i);
        status = output_find(t, &a, &slot);
        if (!status) status = rt_array_check(t, &a, slot, 0, stride, true);
        if (!status && fetch) rt_fetch(t, slot, a.data, a.shape, stride);
    }
    return status;
}

static void fill_evaluated(struct step_instance *t, struct step_result *r, uint64_t ns)
{
    const struct stepc_program *p = t->program; /* what only a step computes must not pass for a result of this call */
    fill_result(t, r, 0, ns);
    for (uint32_t i = 0; r->metrics && i < t->metric_count && i < r->metric_capacity; i++)
        if (!rt_slot_made_by(t->entries[RT_EVALUATE].table, &p->slots[t->metric_slots[i]])) r->metrics[i] = (double)NAN;
}

static step_status evaluate_locked(struct step_instance *t, enum rt_entry_kind kind, const struct step_batch *from,
                                   const char *weights, struct step_result *result, const struct rt_outputs *outputs)
{
    struct step_batch batch = {0};
    struct call_hypers hypers;
    struct step_result r;
    enum rt_weights w = RT_PARAMS;
    bool computed = false;
    uint64_t begin = rt_now();
    hypers.count = 0;
    step_status status = result_take(t, &r, result, "eval");
    if (!status) status = batch_check(t, from, &batch, kind);
    if (!status) status = rt_interrupted(t, "after", 0);
    if (!weights_find(t, weights, &w, &computed) && !status)
        status = rt_fail(t, STEP_ENOTFOUND, "there are no weights \"%s\"", weights);
    /* Ranks compute them together, so all must have come here; where one has not, all know it now. */
    if (computed && (status = rt_agree(t, status))) return status;
    if (computed) status = rt_derive(t);
    if (!status) rt_point_weights(t, kind, w);
    if (!status) status = outputs_go(t, outputs, false);
    if (!status && t->program->arrays) status = t->program->arrays->apart(t, outputs);
    if (!status) status = hypers_apply(t, &batch, &hypers);
    status = rt_bind(t, &batch, kind, 0, status);
    const struct stepc_finite *finite = t->program->finite;
    if (!status) {
        rt_bind_step(t, 0);
        if (finite) finite->begin(t);
        status = rt_run_entry(t, kind);
    }
    if (!status && finite) finite->told(t, kind);
    if (!status && result) {
        fill_evaluated(t, &r, rt_now() - begin);
        rt_give(result, &r, sizeof r);
    }
    if (!status) status = outputs_go(t, outputs, true);
    hypers_restore(t, &hypers);
    return status ? status : rt_interrupted(t, "after", 0); /* what it gives is there, as of a step */
}

/* eval and infer: an entry that changes nothing, by the weights of that name. */
static step_status evaluate(struct step_instance *t, enum rt_entry_kind kind, const struct step_batch *batch,
                            const char *weights, struct step_result *result, struct rt_outputs outputs)
{
    step_status status = rt_enter(t, call_names[kind]);
    if (status) return status;
    struct rt_fp fp = rt_fp_enter();
    status = evaluate_locked(t, kind, batch, weights, result, &outputs);
    rt_fp_leave(fp);
    return rt_leave(t, status);
}

step_status rt_eval(struct step_instance *t, const struct step_batch *batch, const char *weights,
                    struct step_result *result)
{
    return evaluate(t, RT_EVALUATE, batch, weights, result, (struct rt_outputs){0});
}

step_status rt_infer(struct step_instance *t, const struct step_batch *batch, const char *weights,
                     const struct step_array *outputs, size_t count)
{
    return evaluate(t, RT_INFER, batch, weights, NULL, (struct rt_outputs){outputs, count});
}
