/* Enumeration of tensors, and hyper-parameters. */
#include "runtime/rt.h"
#include <stepc/step_tools.h>

#include <math.h>
#include <string.h>

static bool slot_is(const struct stepc_slot *s, uint32_t role) { return s->role == role; }

/* A name is unique among what is stored, but an input, metric or output may share it: the stored one is meant. */
int32_t rt_slot_find(const struct stepc_program *p, const char *name, bool hyper)
{
    int32_t found = -1;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        if (slot_is(&p->slots[i], RT_HYPER) != hyper || strcmp(p->slots[i].name, name) != 0) continue;
        if (hyper || p->slots[i].role <= STEP_STATE) return (int32_t)i;
        if (found < 0) found = (int32_t)i;
    }
    return found;
}

static int32_t slot_at(const struct stepc_program *p, uint32_t role, size_t index)
{
    for (uint32_t i = 0; i < p->slot_count; i++)
        if (slot_is(&p->slots[i], role) && index-- == 0) return (int32_t)i;
    return -1;
}

static size_t slot_count(const struct stepc_program *p, uint32_t role)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->slot_count; i++) n += slot_is(&p->slots[i], role);
    return n;
}

uint64_t rt_slot_bytes(const struct stepc_slot *s, bool local)
{
    uint64_t n = rt_dtype_bytes(s->dtype);
    for (int32_t i = 0; i < s->rank; i++) n *= (uint64_t)(local && s->local ? s->local : s->shape)[i];
    return n;
}

bool rt_slot_stored(const struct stepc_slot *s) { return s->role >= STEP_PARAM && s->role <= STEP_STATE && !s->computed; }

bool st_is_statistic(const char *name)
{
    static const char others[][12] = {"step", "data.cursor", "loss_scale", "rng"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n = strlen(others[i]);
        if (strncmp(name, others[i], n) == 0 && (!name[n] || name[n] == '.')) return false;
    }
    return true;
}

bool rt_slot_statistic(const struct stepc_slot *s) { return s->role == STEP_STATE && st_is_statistic(s->name); }

static void tensor_fill(const struct stepc_slot *s, struct step_tensor *out)
{
    struct step_tensor full = {
        .name = s->name, .role = s->role, .dtype = s->dtype, .rank = s->rank, .flags = s->flags, .shape = s->shape,
        .sharding = s->sharding ? s->sharding : "[]",
        .bytes_global = rt_slot_bytes(s, false), .bytes_local = rt_slot_bytes(s, true)};
    full.flags &= ~(uint32_t)STEP_SHARDED; /* this process holds every part */
    rt_give(out, &full, sizeof full);
}

size_t rt_tensor_count(const struct step_instance *t, uint32_t role)
{
    return t && role < RT_HYPER ? slot_count(t->program, role) : 0;
}

step_status rt_tensor_at(const struct step_instance *t, uint32_t role, size_t index, struct step_tensor *out)
{
    if (!t || !out || out->size < sizeof out->size) return rt_fail(NULL, STEP_EINVAL, "tensor_at: null pointer or wrong size field");
    int32_t i = role < RT_HYPER ? slot_at(t->program, role, index) : -1;
    if (i < 0) return rt_fail(NULL, STEP_ENOTFOUND, "tensor_at: role %u has no tensor %zu", role, index);
    tensor_fill(&t->program->slots[i], out);
    return STEP_OK;
}

step_status rt_tensor_find(const struct step_instance *t, const char *name, struct step_tensor *out)
{
    if (!t || !name || !out || out->size < sizeof out->size) return rt_fail(NULL, STEP_EINVAL, "tensor_find: null pointer or wrong size field");
    int32_t i = rt_slot_find(t->program, name, false);
    if (i < 0) return rt_fail(NULL, STEP_ENOTFOUND, "no tensor \"%s\"", name);
    tensor_fill(&t->program->slots[i], out);
    return STEP_OK;
}

double rt_hyper_load(const struct step_instance *t, const struct stepc_slot *s)
{
    return rt_number_at(t->devices[0].state + s->offset, s->dtype, 0);
}

void rt_hyper_store(struct step_instance *t, const struct stepc_slot *s, double value)
{
    for (uint32_t d = 0; d < t->device_count; d++) rt_number_put(t->devices[d].state + s->offset, s->dtype, 0, value);
}

size_t rt_hyper_count(const struct step_instance *t) { return t ? slot_count(t->program, RT_HYPER) : 0; }

step_status rt_hyper_at(const struct step_instance *t, size_t index, struct step_hyper *out)
{
    if (!t || !out || out->size < sizeof out->size) return rt_fail(NULL, STEP_EINVAL, "hyper_at: null pointer or wrong size field");
    int32_t i = slot_at(t->program, RT_HYPER, index);
    if (i < 0) return rt_fail(NULL, STEP_ENOTFOUND, "hyper_at: there is no hyper-parameter %zu", index);
    struct step_hyper full = {.name = t->program->slots[i].name, .value = rt_hyper_load(t, &t->program->slots[i])};
    rt_give(out, &full, sizeof full);
    return STEP_OK;
}

step_status rt_hyper_get(const struct step_instance *t, const char *name, double *out)
{
    if (!t || !name || !out) return rt_fail(NULL, STEP_EINVAL, "hyper_get: null pointer");
    int32_t i = rt_slot_find(t->program, name, true);
    if (i < 0) return rt_fail(NULL, STEP_ENOTFOUND, "no hyper-parameter \"%s\"", name);
    *out = rt_hyper_load(t, &t->program->slots[i]);
    return STEP_OK;
}

step_status rt_hyper_set(struct step_instance *t, const char *name, double value)
{
    if (!t || !name) return rt_fail(NULL, STEP_EINVAL, "hyper_set: null pointer");
    step_status status = rt_enter(t, false);
    if (status) return status;
    int32_t i = rt_slot_find(t->program, name, true);
    if (i < 0) return rt_leave(t, rt_fail(t, STEP_ENOTFOUND, "no hyper-parameter \"%s\"", name));
    rt_hyper_store(t, &t->program->slots[i], isnan(value) ? t->program->slots[i].initial : value);
    return rt_leave(t, STEP_OK);
}
