/* Enumeration of tensors, and hyper-parameters. */
#include "runtime/rt.h"
#include <stepc/step_tools.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A hyper-parameter is stored as a tensor of one number, and saved as such: hyperparameters.learning_rate, or where
 * Optax has a place for it opt_state.hyperparams.learning_rate; no name begins otherwise. A frozen one follows a
 * schedule and is no tensor: nothing but hyper_set knows it, to say so. */
uint32_t rt_slot_role(const struct stepc_slot *s)
{
    if (s->role != RT_HYPER) return s->role == RT_INDEX ? 0 : s->role;
    return s->flags & STEP_FROZEN ? 0 : *s->name == 'o' ? STEP_OPT_STATE : STEP_STATE;
}

/* The name that a host sets it by: what follows "hyperparameters." or "hyperparams.". */
static const char *hyper_name(const struct stepc_slot *s)
{
    const char *at = s->name; /* without strstr and strchr: every import costs an object 70 bytes */
    while (*at && strncmp(at, "hyperparam", 10) != 0) at++;
    while (*at && *at != '.') at++;
    return *at ? at + 1 : s->name;
}

/* A name is unique among what is stored, but an input, metric or output may share it: the stored one comes first. */
static int name_order(const void *a, const void *b)
{
    const struct stepc_slot *x = *(const struct stepc_slot *const *)a, *y = *(const struct stepc_slot *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : (int)x->role - (int)y->role;
}

bool rt_slots_sort(struct step_instance *t)
{
    const struct stepc_program *p = t->program;
    t->by_name = rt_alloc(t, p->slot_count * sizeof *t->by_name);
    for (uint32_t i = 0; t->by_name && i < p->slot_count; i++)
        if (rt_slot_role(&p->slots[i])) t->by_name[t->named++] = &p->slots[i];
    if (t->named) qsort(t->by_name, t->named, sizeof *t->by_name, name_order);
    t->by_role = rt_alloc(t, p->slot_count * sizeof *t->by_role);
    for (uint32_t role = 1, n = 0; t->by_role && role < RT_HYPER; role++) {
        for (uint32_t i = 0; i < p->slot_count; i++)
            if (rt_slot_role(&p->slots[i]) == role) t->by_role[n++] = i;
        t->role_end[role] = n;
    }
    return t->by_name && t->by_role;
}

/* As strcmp of the slot's name with the other two, one behind the other. */
static int compare_name(const struct stepc_slot *s, const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    int order = strncmp(s->name, prefix, n);
    return order ? order : strcmp(s->name + n, name);
}

int32_t rt_slot_find_under(const struct step_instance *t, const char *prefix, const char *name)
{
    uint32_t low = 0, high = t->named;
    while (low < high) { /* the first that is not less */
        uint32_t middle = (low + high) / 2;
        if (compare_name(t->by_name[middle], prefix, name) < 0) low = middle + 1;
        else high = middle;
    }
    return low < t->named && compare_name(t->by_name[low], prefix, name) == 0
               ? (int32_t)(t->by_name[low] - t->program->slots)
               : -1;
}

int32_t rt_slot_find(const struct step_instance *t, const char *name) { return rt_slot_find_under(t, "", name); }

/* The number among the hyper-parameters that can be set, -1: there are fewer, namely *count. */
static int32_t hyper_slot_at(const struct stepc_program *p, size_t index, size_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < p->slot_count; i++)
        if (p->slots[i].role == RT_HYPER && !(p->slots[i].flags & STEP_FROZEN) && (*count)++ == index)
            return (int32_t)i;
    return -1;
}

/* Arguments that no call can do anything with. */
static step_status unusable(const struct step_instance *t, const char *call)
{
    return rt_fail(t, STEP_EINVAL, "%s: null pointer or wrong size field", call);
}

uint64_t rt_slot_bytes(const struct stepc_slot *s, bool local)
{
    uint64_t n = rt_dtype_bytes(s->dtype);
    for (int32_t i = 0; i < s->rank; i++) n *= (uint64_t)(local && s->local ? s->local : s->shape)[i];
    return n;
}

bool rt_slot_stored(const struct stepc_slot *s)
{
    return rt_slot_role(s) >= STEP_PARAM && rt_slot_role(s) <= STEP_STATE && !s->computed;
}

bool rt_slot_made_by(const struct stepc_entry *e, const struct stepc_slot *s)
{
    for (uint32_t k = 0; e && k < e->buffer_count; k++)
        if (e->buffers[k].space == STEPC_AT_RESULT && e->buffers[k].offset == s->offset) return true;
    return false;
}

/* A block may be called as they are: the others are single numbers. */
bool st_is_statistic(const char *name, int32_t rank)
{
    static const char others[][12] = {"step", "data.cursor", "loss_scale", "rng"};
    for (size_t i = 0; !rank && i < sizeof others / sizeof *others; i++) {
        size_t n = strlen(others[i]);
        if (strncmp(name, others[i], n) == 0 && (!name[n] || name[n] == '.')) return false;
    }
    return true;
}

/* Not a hyper-parameter, whose role is its own. */
bool rt_slot_statistic(const struct stepc_slot *s)
{
    return s->role == STEP_STATE && st_is_statistic(s->name, s->rank);
}

static void tensor_fill(const struct step_instance *t, const struct stepc_slot *s, struct step_tensor *out)
{
    struct step_tensor full = {.name = s->name,
                               .role = rt_slot_role(s),
                               .dtype = s->dtype,
                               .rank = s->rank,
                               .flags = s->flags,
                               .shape = s->shape,
                               .sharding = s->sharding ? s->sharding : "[]",
                               .bytes_global = rt_slot_bytes(s, false),
                               .bytes_local = rt_slot_bytes(s, true)};
    if (t->ranks == 1) full.flags &= ~(uint32_t)STEP_SHARDED; /* this process holds every part */
    if (s->role == STEP_METRIC && !rt_slot_made_by(t->entries[RT_EVALUATE].table, s)) full.flags |= STEP_NOT_EVALUATED;
    rt_give(out, &full, sizeof full);
}

size_t rt_tensor_count(const struct step_instance *t, uint32_t role)
{
    return t && role && role < RT_HYPER ? t->role_end[role] - t->role_end[role - 1] : 0;
}

static step_status tensor_give(const struct step_instance *t, int32_t i, struct step_tensor *out)
{
    if (!rt_sized(out)) return unusable(t, "step_tensor");
    tensor_fill(t, &t->program->slots[i], out);
    return STEP_OK;
}

step_status rt_tensor_at(const struct step_instance *t, uint32_t role, size_t index, struct step_tensor *out)
{
    if (!t || !out) return unusable(t, "tensor_at");
    if (index >= rt_tensor_count(t, role))
        return rt_fail(t, STEP_ENOTFOUND, "tensor_at: role %u has no tensor %zu", role, index);
    return tensor_give(t, (int32_t)t->by_role[t->role_end[role - 1] + index], out);
}

step_status rt_tensor_find(const struct step_instance *t, const char *name, struct step_tensor *out)
{
    if (!t || !name || !out) return unusable(t, "tensor_find");
    int32_t i = rt_slot_find(t, name);
    return i < 0 ? rt_fail(t, STEP_ENOTFOUND, "no tensor \"%s\"", name) : tensor_give(t, i, out);
}

double rt_hyper_load(const struct step_instance *t, const struct stepc_slot *s)
{
    return rt_view_number(&t->devices[0], t->devices[0].state + s->offset, s->dtype);
}

void rt_hyper_store(struct step_instance *t, const struct stepc_slot *s, double value)
{
    uint64_t number = 0;
    rt_number_put(&number, s->dtype, 0, value);
    if (!t->stale) t->stale = RT_HYPERS;
    if (!t->unknown) t->unknown = RT_HYPERS;
    for (RT_MINE(t, d)) t->device_ops->copy(d, d->state + s->offset, &number, rt_dtype_bytes(s->dtype), RT_TO_DEVICE);
}

size_t rt_hyper_count(const struct step_instance *t)
{
    size_t n = 0;
    if (t) hyper_slot_at(t->program, SIZE_MAX, &n);
    return n;
}

step_status rt_hyper_at(const struct step_instance *t, size_t index, struct step_hyper *out)
{
    if (!t || !rt_sized(out)) return unusable(t, "hyper_at");
    size_t n;
    int32_t i = hyper_slot_at(t->program, index, &n);
    if (i < 0) return rt_fail(t, STEP_ENOTFOUND, "hyper_at: no hyper-parameter %zu", index);
    struct step_hyper full = {.name = hyper_name(&t->program->slots[i]),
                              .value = rt_hyper_load(t, &t->program->slots[i])};
    rt_give(out, &full, sizeof full);
    return STEP_OK;
}

/* The slot of one that can be set to this value; -1 after a message that says why not. */
int32_t rt_hyper_find(const struct step_instance *t, const char *name, double value, step_status *status)
{
    const struct stepc_slot *slots = t->program->slots, *s = NULL;
    *status = STEP_OK;
    for (uint32_t i = 0; i < t->program->slot_count && !s; i++)
        if (slots[i].role == RT_HYPER && (strcmp(hyper_name(&slots[i]), name) == 0 || strcmp(slots[i].name, name) == 0))
            s = &slots[i];
    bool follows = s && s->flags & STEP_FROZEN;
    /* NaN: the schedule, where there is one. */
    bool none = s && !isfinite((float)value) && !(isnan(value) && isnan(s->initial));
    if (s && !follows && !none) return (int32_t)(s - slots);
    *status = rt_fail(t, s ? STEP_EINVAL : STEP_ENOTFOUND,
                      follows ? "\"%s\" cannot be set: it follows a schedule"
                      : s     ? "\"%s\" must be finite in float32"
                              : "no hyper-parameter \"%s\"",
                      name);
    return -1;
}

step_status rt_hyper_get(const struct step_instance *t, const char *name, double *out)
{
    step_status status;
    if (!t || !name || !out) return unusable(t, "hyper_get");
    int32_t i = rt_hyper_find(t, name, 0, &status);
    if (i >= 0) *out = rt_hyper_load(t, &t->program->slots[i]);
    return status;
}

step_status rt_hyper_set(struct step_instance *t, const char *name, double value)
{
    if (!t || !name) return unusable(t, "hyper_set");
    step_status status = rt_enter(t, "hyper_set");
    if (status) return status;
    int32_t i = rt_hyper_find(t, name, value, &status);
    if (i >= 0) rt_hyper_store(t, &t->program->slots[i], value);
    return rt_leave(t, status);
}
