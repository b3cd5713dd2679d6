/* Enumeration of tensors, and hyper-parameters. */
#include "runtime/rt.h"
#include <stepc/step_tools.h>

#include <math.h>
#include <string.h>

/* A hyper-parameter is stored as a tensor of one number, and saved as such: hyperparameters.learning_rate, or where Optax
 * has a place for it opt_state.hyperparams.learning_rate; no name begins otherwise. A frozen one follows a schedule and is no tensor: nothing but
 * hyper_set knows it, to say so. */
uint32_t rt_slot_role(const struct stepc_slot *s)
{
    if (s->role != RT_HYPER) return s->role;
    return s->flags & STEP_FROZEN ? 0 : *s->name == 'o' ? STEP_OPT_STATE : STEP_STATE;
}

/* The name that a host sets it by: what follows "hyperparameters." or "hyperparams.". */
static const char *hyper_name(const struct stepc_slot *s)
{
    const char *at = strstr(s->name, "hyperparam");
    at = at ? strchr(at, '.') : NULL;
    return at ? at + 1 : s->name;
}

/* A name is unique among what is stored, but an input, metric or output may share it: the stored one is meant.
 * Hyper-parameters go by both of their names. */
int32_t rt_slot_find(const struct stepc_program *p, const char *name, bool hyper)
{
    int32_t found = -1;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const struct stepc_slot *s = &p->slots[i];
        if (hyper && s->role == RT_HYPER && strcmp(hyper_name(s), name) == 0) return (int32_t)i;
        if ((hyper && s->role != RT_HYPER) || !rt_slot_role(s) || strcmp(s->name, name) != 0) continue;
        if (rt_slot_role(s) <= STEP_STATE) return (int32_t)i;
        if (found < 0) found = (int32_t)i;
    }
    return found;
}

/* Settable ones are counted as RT_HYPER, and again as what they are for hosts. */
static bool slot_is(const struct stepc_slot *s, uint32_t role)
{
    return role == RT_HYPER ? s->role == RT_HYPER && !(s->flags & STEP_FROZEN) : rt_slot_role(s) == role;
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

bool rt_slot_stored(const struct stepc_slot *s) { return rt_slot_role(s) >= STEP_PARAM && rt_slot_role(s) <= STEP_STATE && !s->computed; }

bool st_is_statistic(const char *name)
{
    static const char others[][12] = {"step", "data.cursor", "loss_scale", "rng"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n = strlen(others[i]);
        if (strncmp(name, others[i], n) == 0 && (!name[n] || name[n] == '.')) return false;
    }
    return true;
}

/* Not a hyper-parameter, whose role is its own. */
bool rt_slot_statistic(const struct stepc_slot *s) { return s->role == STEP_STATE && st_is_statistic(s->name); }

static void tensor_fill(const struct stepc_slot *s, struct step_tensor *out)
{
    struct step_tensor full = {
        .name = s->name, .role = rt_slot_role(s), .dtype = s->dtype, .rank = s->rank, .flags = s->flags, .shape = s->shape,
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
    if (i < 0) return rt_fail(NULL, STEP_ENOTFOUND, "hyper_at: no hyper-parameter %zu", index);
    struct step_hyper full = {.name = hyper_name(&t->program->slots[i]), .value = rt_hyper_load(t, &t->program->slots[i])};
    rt_give(out, &full, sizeof full);
    return STEP_OK;
}

/* The slot of one that can be set; -1 after a message that says why not. */
int32_t rt_hyper_find(const struct step_instance *t, struct step_instance *where, const char *name, step_status *status)
{
    int32_t i = rt_slot_find(t->program, name, true);
    const struct stepc_slot *s = i < 0 ? NULL : &t->program->slots[i];
    *status = STEP_OK;
    if (s && !(s->flags & STEP_FROZEN)) return i;
    *status = rt_fail(where, s ? STEP_EINVAL : STEP_ENOTFOUND, s ? "\"%s\" cannot be set: it follows a schedule" : "no hyper-parameter \"%s\"", name);
    return -1;
}

/* NaN: a schedule of inject_hyperparams holds; opt_state.hyperparams.<name> is its value. */
step_status rt_hyper_get(const struct step_instance *t, const char *name, double *out)
{
    step_status status;
    if (!t || !name || !out) return rt_fail(NULL, STEP_EINVAL, "hyper_get: null pointer");
    int32_t i = rt_hyper_find(t, NULL, name, &status);
    if (i >= 0) *out = rt_hyper_load(t, &t->program->slots[i]);
    return status;
}

step_status rt_hyper_set(struct step_instance *t, const char *name, double value)
{
    if (!t || !name) return rt_fail(NULL, STEP_EINVAL, "hyper_set: null pointer");
    step_status status = rt_enter(t, false);
    if (status) return status;
    int32_t i = rt_hyper_find(t, t, name, &status);
    if (i >= 0) rt_hyper_store(t, &t->program->slots[i], isnan(value) ? t->program->slots[i].initial : value);
    return rt_leave(t, status);
}
