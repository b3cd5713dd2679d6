/* The calls that run an entry: step, step_n, eval, infer, and the derived slots behind read. A step is a
 * transaction: what is wrong with the batch is found before anything runs; a run that fails poisons the instance. */
#include "runtime/rt.h"

#include <math.h>
#include <string.h>

step_status rt_run_entry(struct step_instance *t, enum rt_entry_kind kind)
{
    rt_point_inputs(t, kind, t->entries[kind].table->whole != NULL);
    const struct stepc_entry *e = t->entries[kind].table;
    struct rt_device *d = &t->devices[0];
    t->running = kind;
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
    t->steps = (uint64_t)rt_view_number(&t->devices[0], t->devices[0].state + s->offset, s->dtype);
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

static void fill_result(const struct step_instance *t, struct step_result *out, uint32_t flags, uint64_t ns)
{
    struct step_result r;
    if (!out) return;
    rt_take(&r, sizeof r, out); /* metrics and metric_capacity are the caller's */
    r.step = t->steps;
    r.loss = loss_of(t);
    r.flags = flags;
    if (!isfinite(r.loss) && t->loss_slot >= 0) r.flags |= STEP_NONFINITE;
    r.metric_count = t->metric_count;
    for (uint32_t i = 0; r.metrics && i < t->metric_count && i < r.metric_capacity; i++)
        r.metrics[i] = result_number(t, t->metric_slots[i]);
    r.ns_total = ns;
    r.ns_communication = t->communication_ns;
    rt_give(out, &r, sizeof r);
}

/* ---------------------------------------------------------------- non-finite policies */

static bool snapshot_take(struct step_instance *t)
{
    uint64_t bytes = t->program->state_bytes;
    for (RT_MINE(t, d)) {
        if (!d->snapshot && !(d->snapshot = rt_alloc_device(d, bytes))) return false;
        t->device_ops->copy(d, d->snapshot, d->state, bytes, RT_BETWEEN);
    }
    return true;
}

/* A skipped step keeps random counters and the step number: the next one must not repeat the same noise. */
static bool slot_advances(const struct stepc_slot *s)
{
    return s->role == STEP_STATE && !rt_slot_statistic(s) && strcmp(s->name, "loss_scale");
}

static void snapshot_restore(struct step_instance *t, bool all)
{
    for (RT_MINE(t, d))
        for (uint32_t i = 0; i < t->program->slot_count; i++) {
            const struct stepc_slot *s = &t->program->slots[i];
            if (!rt_slot_stored(s) || (!all && slot_advances(s))) continue;
            t->device_ops->copy(d, d->state + s->offset, d->snapshot + s->offset, rt_slot_bytes(s, true), RT_BETWEEN);
        }
}

static bool slot_finite(struct rt_device *d, const struct stepc_slot *s)
{
    enum { RT_PART = 512 };
    uint64_t buffer[RT_PART];
    uint32_t item = rt_dtype_bytes(s->dtype);
    int64_t n = (int64_t)(rt_slot_bytes(s, true) / item);
    for (int64_t k = 0; k < n; k += RT_PART) {
        int64_t part = n - k < RT_PART ? n - k : RT_PART;
        const void *numbers = rt_view(d, d->state + s->offset + k * item, buffer, (size_t)part * item);
        for (int64_t i = 0; i < part; i++)
            if (!isfinite(rt_number_at(numbers, s->dtype, i))) return false;
    }
    return true;
}

/* On all devices of the mesh: every rank does the same with the step. */
static bool state_finite(struct step_instance *t)
{
    bool finite = t->loss_slot < 0 || isfinite(loss_of(t));
    for (RT_MINE(t, d))
        for (uint32_t i = 0; finite && i < t->program->slot_count; i++) {
            const struct stepc_slot *s = &t->program->slots[i];
            if (s->role == STEP_PARAM && !(s->flags & STEP_FROZEN) && rt_dtype_float(s->dtype))
                finite = slot_finite(d, s);
        }
    return !rt_agree(t, finite ? STEP_OK : STEP_ENONFINITE);
}

/* ---------------------------------------------------------------- one step */

/* `clock`: when the step before ended; a small step takes little longer than asking for the time. */
static step_status one_step(struct step_instance *t, uint64_t k, uint32_t policy, struct step_result *result,
                            uint64_t *clock)
{
    uint64_t begin = *clock;
    uint32_t flags = 0;
    t->communication_ns = 0;
    if (policy && !snapshot_take(t)) return rt_fail(t, STEP_ENOMEM, "no memory to keep the state of before the step");
    rt_bind_step(t, k);
    step_status status = rt_run_entry(t, RT_STEP);
    if (status) return status;
    if (policy && !state_finite(t)) {
        snapshot_restore(t, policy == STEP_ON_NONFINITE_STOP);
        flags = STEP_NONFINITE | (policy == STEP_ON_NONFINITE_SKIP ? STEP_SKIPPED : 0);
        if (policy == STEP_ON_NONFINITE_STOP)
            status = rt_fail(t, STEP_ENONFINITE,
                             "step %llu: loss or update is not finite (loss %g); the state is as before the step",
                             (unsigned long long)t->steps + 1, loss_of(t));
    }
    if (!status) t->steps++;
    rt_step_counter(t);
    if (result) *clock = rt_now();
    fill_result(t, result, flags, *clock - begin);
    return status;
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

static step_status batch_check(struct step_instance *t, const struct step_batch *from, struct step_batch *batch,
                               enum rt_entry_kind kind)
{
    static const char names[][6] = {[RT_STEP] = "step", [RT_EVALUATE] = "eval", [RT_INFER] = "infer"};
    if (!rt_take(batch, sizeof *batch, from))
        return rt_fail(t, STEP_EINVAL, "%s: the batch is NULL or has a wrong size field", names[kind]);
    if (!t->entries[kind].table)
        return rt_fail(t, STEP_EUNSUPPORTED, "this object was compiled without %s", names[kind]);
    if (!t->initialized) return rt_fail(t, STEP_EINVAL, "%s: call init or load first", names[kind]);
    t->microbatches = 0;
    if (!batch->microbatches || kind != RT_STEP) return STEP_OK;
    const struct rt_entry *e = &t->entries[kind];
    for (uint32_t i = 0; e->commands && i < e->table->command_count; i++)
        if (e->commands[i].microbatches) t->microbatches = batch->microbatches;
    if (!t->microbatches || e->table->whole)
        return rt_fail(t, STEP_EUNSUPPORTED,
                       "microbatches: this step has no loop over microbatches that can end early");
    return STEP_OK;
}

/* A locked instruction only if there is something to take. */
static step_status interrupt_check(struct step_instance *t, const char *when, uint64_t ahead)
{
    if (!atomic_load_explicit(&t->interrupted, memory_order_relaxed) || !atomic_exchange(&t->interrupted, 0))
        return STEP_OK;
    return rt_fail(t, STEP_ECANCELLED, "interrupted %s step %llu", when, (unsigned long long)(t->steps + ahead));
}

static step_status steps_run(struct step_instance *t, const struct step_batch *from, uint64_t n, bool leading,
                             struct step_result *results)
{
    struct step_batch batch;
    struct call_hypers hypers;
    hypers.count = 0;
    step_status status = batch_check(t, from, &batch, RT_STEP);
    if (!status && results && results->size < sizeof results->size)
        status = rt_fail(t, STEP_EINVAL, "wrong size field of the result");
    if (!status && batch.flags > STEP_ON_NONFINITE_SKIP)
        status = rt_fail(t, STEP_EINVAL, "step: unknown batch flags %u", batch.flags);
    if (!status) status = rt_bind(t, &batch, RT_STEP, leading ? n : 0);
    if (!status) status = hypers_apply(t, &batch, &hypers);
    uint64_t clock = results ? rt_now() : 0;
    for (uint64_t k = 0; !status && k < n; k++) {
        status = interrupt_check(t, "before", 1);
        if (!status) status = one_step(t, k, batch.flags, results, &clock);
        else fill_result(t, results, 0, 0);
        if (!status) status = interrupt_check(t, "after", 0);
        if (results)
            results = (struct step_result *)(void *)((char *)results +
                                                     results->size); /* the caller's struct, of its version */
    }
    hypers_restore(t, &hypers);
    return status;
}

static step_status steps_call(struct step_instance *t, const struct step_batch *batch, uint64_t n, bool leading,
                              struct step_result *results)
{
    if (!t) return rt_fail(NULL, STEP_EINVAL, "step: null pointer");
    step_status status = rt_enter(t, false);
    if (status) return status;
    if (results && !rt_sized(results))
        return rt_leave(t, rt_fail(t, STEP_EINVAL, "step: result has a wrong size field"));
    struct rt_fp fp = rt_fp_enter();
    status = steps_run(t, batch, n, leading, results);
    rt_fp_leave(fp);
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
    if (!t->entries[RT_DERIVE].table) return rt_fail(t, STEP_EINTERNAL, "no entry computes what is computed");
    struct rt_fp fp = rt_fp_enter();
    step_status status = rt_run_entry(t, RT_DERIVE);
    rt_fp_leave(fp);
    return status;
}

static step_status weights_select(struct step_instance *t, enum rt_entry_kind kind, const char *name)
{
    static const char names[RT_WEIGHTS][7] = {"params", "ema", "slow", "eval"};
    enum rt_weights w = RT_PARAMS;
    while (name && w < RT_WEIGHTS && strcmp(names[w], name) != 0) w++;
    bool there = w == RT_PARAMS, computed = false;
    for (uint32_t i = 0; w < RT_WEIGHTS && i < t->program->slot_count; i++) {
        const struct stepc_slot *s = &t->program->slots[i];
        size_t n = strlen(names[w]);
        if (s->role == STEP_PARAM || s->role > STEP_STATE || strncmp(s->name, names[w], n) != 0 || s->name[n] != '.')
            continue;
        there = true;
        computed |= s->computed;
    }
    if (!there) return rt_fail(t, STEP_ENOTFOUND, "there are no weights \"%s\"", name);
    step_status status = computed ? rt_derive(t) : STEP_OK;
    if (!status) rt_point_weights(t, kind, w);
    return status;
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

struct outputs {
    const struct step_array *arrays;
    size_t count;
};

/* First all are checked, then, with `fetch`, they are copied. */
static step_status outputs_go(struct step_instance *t, const struct outputs *o, bool fetch)
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
        if (!status) status = rt_array_check(t, &a, slot, 0, stride);
        if (!status && fetch) rt_gather(t, slot, a.data, stride);
    }
    return status;
}

static void fill_evaluated(struct step_instance *t, struct step_result *result, uint64_t ns)
{
    const struct stepc_program *p = t->program; /* what only a step computes must not pass for a result of this call */
    fill_result(t, result, 0, ns);
    for (uint32_t i = 0; result && result->metrics && i < t->metric_count && i < result->metric_capacity; i++)
        if (!rt_slot_made_by(t->entries[RT_EVALUATE].table, &p->slots[t->metric_slots[i]]))
            result->metrics[i] = (double)NAN;
}

static step_status evaluate_locked(struct step_instance *t, enum rt_entry_kind kind, const struct step_batch *from,
                                   const char *weights, struct step_result *result, const struct outputs *outputs)
{
    struct step_batch batch;
    struct call_hypers hypers;
    uint64_t begin = rt_now();
    hypers.count = 0;
    step_status status = batch_check(t, from, &batch, kind);
    if (!status && result && result->size < sizeof result->size)
        status = rt_fail(t, STEP_EINVAL, "wrong size field of the result");
    if (!status) status = weights_select(t, kind, weights);
    if (!status) status = rt_bind(t, &batch, kind, 0);
    if (!status) status = outputs_go(t, outputs, false);
    if (!status) status = hypers_apply(t, &batch, &hypers);
    if (!status) {
        rt_bind_step(t, 0);
        status = rt_run_entry(t, kind);
    }
    if (!status && kind == RT_EVALUATE) fill_evaluated(t, result, rt_now() - begin);
    if (!status) status = outputs_go(t, outputs, true);
    hypers_restore(t, &hypers);
    return status;
}

/* eval and infer: an entry that changes nothing, by the weights of that name. */
static step_status evaluate(struct step_instance *t, enum rt_entry_kind kind, const struct step_batch *batch,
                            const char *weights, struct step_result *result, struct outputs outputs)
{
    if (!t) return rt_fail(NULL, STEP_EINVAL, "%s: null pointer", kind == RT_INFER ? "infer" : "eval");
    step_status status = rt_enter(t, false);
    if (status) return status;
    if (result && !rt_sized(result)) return rt_leave(t, rt_fail(t, STEP_EINVAL, "eval: result has a wrong size field"));
    struct rt_fp fp = rt_fp_enter();
    status = evaluate_locked(t, kind, batch, weights, result, &outputs);
    rt_fp_leave(fp);
    return rt_leave(t, status);
}

step_status rt_eval(struct step_instance *t, const struct step_batch *batch, const char *weights,
                    struct step_result *result)
{
    return evaluate(t, RT_EVALUATE, batch, weights, result, (struct outputs){0});
}

step_status rt_infer(struct step_instance *t, const struct step_batch *batch, const char *weights,
                     const struct step_array *outputs, size_t count)
{
    return evaluate(t, RT_INFER, batch, weights, NULL, (struct outputs){outputs, count});
}
