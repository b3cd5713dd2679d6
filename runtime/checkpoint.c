/* save and load of single .safetensors files. Checkpoint directories are refused with a message for now.
 *
 * What load wants: a file that holds any optimizer state or counter is the whole state and must hold every stored
 * slot; any other file holds initial values: all parameters and running statistics, averages if it likes (those
 * not given become copies of the parameters), and the rest is as after init. All problems are found before the state
 * is touched, and it is replaced only after everything was read. */
#include "ir/base/json_scan.h"
#include "ir/base/map.h"
#include "ir/base/str.h"
#include "runtime/rt.h"
#include <stepc/step_tools.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HYPER_PREFIX "hyperparameters."

static bool is_file_name(const char *path)
{
    size_t n = path ? strlen(path) : 0;
    return n > 12 && strcmp(path + n - 12, ".safetensors") == 0;
}

/* ---------------------------------------------------------------- save */

struct save_plan { struct step_instance *t; struct arena arena; struct st_tensor *tensors; uint32_t count; bool computed; };

static bool wanted(const struct json *patterns, const char *name)
{
    if (!patterns->count) return true;
    for (uint32_t i = 1; i < patterns->count; i++)
        if (glob_match(patterns->values[i].string, name)) return true;
    return false;
}

static step_status parse_patterns(struct step_instance *t, struct arena *arena, const char *text, struct json *out)
{
    struct json_error e;
    if (!text) return STEP_OK;
    if (!json_scan(arena, text, strlen(text), NULL, out, &e)) return rt_fail(t, STEP_EINVAL, "save: slots: %s", e.message);
    bool ok = out->values[0].kind == JSON_ARRAY;
    for (uint32_t i = 1; i < out->count; i++) ok = ok && out->values[i].kind == JSON_STRING;
    return ok ? STEP_OK : rt_fail(t, STEP_EINVAL, "save: slots must be a JSON list of patterns");
}

static int tensor_order(const void *a, const void *b)
{
    return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

/* Tensors to save. Hyper-parameters go with the whole state, where the host has set them. */
static void collect(struct save_plan *plan, const struct json *patterns)
{
    const struct stepc_program *p = plan->t->program;
    plan->tensors = arena_new_array(&plan->arena, struct st_tensor, p->slot_count + 1);
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const struct stepc_slot *s = &p->slots[i];
        struct st_tensor t = {.name = s->name, .dtype = s->dtype, .rank = s->rank, .bytes = rt_slot_bytes(s, false)};
        bool hyper = s->role == RT_HYPER;
        if (hyper) {
            double value = rt_hyper_load(plan->t, s), initial;
            union { char bytes[8]; double aligned; } cell = {{0}};
            rt_number_put(&cell, s->dtype, 0, s->initial);
            initial = rt_number_at(&cell, s->dtype, 0);
            if (patterns->count || memcmp(&value, &initial, sizeof value) == 0) continue;
            t.name = arena_format(&plan->arena, HYPER_PREFIX "%s", s->name);
        } else if (s->role > STEP_STATE || !wanted(patterns, s->name)) continue;
        for (int32_t k = 0; k < s->rank; k++) t.shape[k] = s->shape[k];
        plan->computed |= s->computed != 0;
        plan->tensors[plan->count++] = t;
    }
    if (plan->count) qsort(plan->tensors, plan->count, sizeof *plan->tensors, tensor_order);
}

static step_status fetch_tensor(void *user, uint32_t index, void *to)
{
    struct save_plan *plan = user;
    const struct st_tensor *tensor = &plan->tensors[index];
    size_t n = strlen(HYPER_PREFIX);
    bool hyper = strncmp(tensor->name, HYPER_PREFIX, n) == 0;
    int32_t i = rt_slot_find(plan->t->program, tensor->name, false);
    if (i < 0 && hyper) i = rt_slot_find(plan->t->program, tensor->name + n, true);
    if (i < 0) return STEP_EINTERNAL;
    const struct stepc_slot *s = &plan->t->program->slots[i];
    int64_t stride[RT_MAX_RANK];
    rt_c_strides(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
    if (s->role == RT_HYPER) memcpy(to, plan->t->devices[0].state + s->offset, tensor->bytes);
    else rt_gather(plan->t, s, to, stride);
    return STEP_OK;
}

static step_status save_file(struct step_instance *t, const struct step_save *save)
{
    char error[ST_TEXT];
    jmp_buf oom;
    struct save_plan plan = {.t = t};
    struct json patterns = {0};
    if (!t->initialized) return rt_fail(t, STEP_EINVAL, "save: call init or load first");
    if (!is_file_name(save->directory)) return rt_fail(t, STEP_EUNSUPPORTED, "save: checkpoint directories are not written yet; give a name that ends in .safetensors");
    if (save->item_count || save->keep) return rt_fail(t, STEP_EUNSUPPORTED, "save: items and keep belong to checkpoint directories, which are not written yet");
    if (setjmp(oom)) {
        arena_free(&plan.arena);
        return rt_fail(t, STEP_ENOMEM, "save: out of memory");
    }
    plan.arena.on_oom = &oom;
    step_status status = parse_patterns(t, &plan.arena, save->slots, &patterns);
    if (!status) collect(&plan, &patterns);
    if (!status && plan.computed) status = rt_derive(t);
    if (!status) {
        status = st_write(save->directory, plan.tensors, plan.count, t->steps, fetch_tensor, &plan, error);
        if (status) rt_fail(t, status, "save: %s", error);
        else rt_log(t, 2, "saved step %llu: %u tensors in %s", (unsigned long long)t->steps, plan.count, save->directory);
    }
    arena_free(&plan.arena);
    return status;
}

struct step_job { step_status status; };

step_status rt_save(struct step_instance *t, const struct step_save *from, struct step_job **out)
{
    struct step_save save;
    if (out) *out = NULL;
    if (!t) return rt_fail(NULL, STEP_EINVAL, "save: null pointer");
    if (!rt_take(&save, sizeof save, from)) return rt_fail(t, STEP_EINVAL, "save: NULL or a wrong size field");
    struct step_job *job = out ? malloc(sizeof *job) : NULL;
    if (out && !job) return rt_fail(t, STEP_ENOMEM, "save: out of memory");
    step_status status = rt_enter(t, false);
    if (!status) status = rt_leave(t, save_file(t, &save));
    if (!out) return status;
    job->status = status; /* written before the call returns; the job only reports */
    *out = job;
    return STEP_OK;
}

step_status rt_job_wait(struct step_job *job, int64_t timeout_ms)
{
    (void)timeout_ms;
    return job ? job->status : rt_fail(NULL, STEP_EINVAL, "job_wait: null pointer");
}

void rt_job_free(struct step_job *job) { free(job); }

/* ---------------------------------------------------------------- load */

struct load_plan {
    struct step_instance *t;
    struct st_file *file;
    uint32_t flags;
    bool whole;               /* the file holds the whole state */
    const struct st_tensor **source; /* per slot; NULL: not in the file */
    bool *wrong;              /* per slot: it is there but does not fit, which was said */
    struct str faults;
    uint32_t fault_count;
};

static void fault(struct load_plan *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fault(struct load_plan *l, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (l->fault_count++ < 10) str_addf(&l->faults, "%s%s", l->fault_count > 1 ? "\n  " : "", line);
}

static bool is_float(uint32_t dtype) { return dtype >= STEP_F16 && dtype <= STEP_F64; }

static int32_t load_target(const struct load_plan *l, const struct map *names, const char *name)
{
    uint32_t i = map_get(names, name);
    size_t n = strlen(HYPER_PREFIX);
    if (i != MAP_NONE) return (int32_t)i;
    return strncmp(name, HYPER_PREFIX, n) == 0 ? rt_slot_find(l->t->program, name + n, true) : -1;
}

static void match_tensor(struct load_plan *l, const struct map *names, const struct st_tensor *tensor)
{
    int32_t i = load_target(l, names, tensor->name);
    if (i < 0) {
        if (!(l->flags & STEP_LOAD_PARTIAL)) fault(l, "tensor \"%s\" is not one of this object's", tensor->name);
        return;
    }
    const struct stepc_slot *s = &l->t->program->slots[i];
    if ((l->flags & STEP_LOAD_PARAMS_ONLY) && s->role != STEP_PARAM) return;
    bool same = tensor->rank == s->rank, cast = (l->flags & STEP_LOAD_CAST) && is_float(tensor->dtype) && is_float(s->dtype);
    for (int32_t k = 0; same && k < s->rank; k++) same = tensor->shape[k] == s->shape[k];
    if (!same || (tensor->dtype != s->dtype && !cast)) {
        char want[200], found[200];
        fault(l, "tensor \"%s\": expected %s, found %s", tensor->name, rt_type_text(want, sizeof want, s->dtype, s->rank, s->shape),
              rt_type_text(found, sizeof found, tensor->dtype, tensor->rank, tensor->shape));
        l->wrong[i] = true;
        return;
    }
    if (s->role == STEP_OPT_STATE || (s->role == STEP_STATE && !rt_slot_statistic(s))) l->whole = true;
    l->source[i] = tensor;
}

static void match_missing(struct load_plan *l)
{
    const struct stepc_program *p = l->t->program;
    bool all = l->whole || !l->t->initialized;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const struct stepc_slot *s = &p->slots[i];
        bool needed = s->role == STEP_PARAM || (!(l->flags & STEP_LOAD_PARAMS_ONLY) && (all || rt_slot_statistic(s)));
        char text[200];
        if (rt_slot_stored(s) && needed && !l->source[i] && !l->wrong[i] && !(l->flags & STEP_LOAD_PARTIAL))
            fault(l, "tensor \"%s\" is missing; expected %s", s->name, rt_type_text(text, sizeof text, s->dtype, s->rank, s->shape));
    }
}

static void store(struct step_instance *t, const struct stepc_slot *s, const struct st_tensor *from, char *data)
{
    int64_t stride[RT_MAX_RANK], n = (int64_t)(rt_slot_bytes(s, false) / rt_dtype_bytes(s->dtype));
    if (s->computed) return;
    if (s->role == RT_HYPER) {
        rt_hyper_store(t, s, rt_number_at(data, from->dtype, 0));
        return;
    }
    char *cast = NULL;
    if (from->dtype != s->dtype) {
        cast = malloc(rt_slot_bytes(s, false) + 1);
        if (!cast) return; /* reserved by the caller's check: see read_all */
        for (int64_t i = 0; i < n; i++) rt_number_put(cast, s->dtype, i, rt_number_at(data, from->dtype, i));
    }
    rt_c_strides(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
    rt_scatter(t, s, cast ? cast : data, stride);
    free(cast);
}

/* Averages that the file does not give start as copies of the parameters. */
static void copy_averages(struct load_plan *l, const struct map *names)
{
    static const char *const prefixes[] = {"ema.", "slow."};
    const struct stepc_program *p = l->t->program;
    for (uint32_t i = 0; i < p->slot_count; i++)
        for (size_t k = 0; k < 2; k++) {
            const struct stepc_slot *s = &p->slots[i];
            size_t n = strlen(prefixes[k]);
            if (s->role != STEP_EMA || s->computed || strncmp(s->name, prefixes[k], n) != 0) continue;
            uint32_t from = map_get(names, s->name + n);
            if (from == MAP_NONE || p->slots[from].dtype != s->dtype || rt_slot_bytes(&p->slots[from], false) != rt_slot_bytes(s, false)) continue;
            size_t bytes = rt_slot_bytes(s, false);
            char *copy = malloc(bytes + 1);
            int64_t stride[RT_MAX_RANK];
            rt_c_strides(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
            if (!copy) return;
            rt_gather(l->t, &p->slots[from], copy, stride);
            rt_scatter(l->t, s, copy, stride);
            free(copy);
        }
}

/* Applies what was read: parameters first, then what follows from them, then the rest of the file. */
static step_status apply(struct load_plan *l, const struct map *names, char *data, const uint64_t *at)
{
    struct step_instance *t = l->t;
    const struct stepc_program *p = t->program;
    step_status status = STEP_OK;
    for (int rest = 0; rest < 2 && !status; rest++) {
        for (uint32_t i = 0; i < p->slot_count; i++) {
            const struct stepc_slot *s = &p->slots[i];
            bool first = s->role == STEP_PARAM || rt_slot_statistic(s);
            if (l->source[i] && first == !rest) store(t, s, l->source[i], data + at[i]);
        }
        if (rest || l->whole || l->flags) continue;
        if (t->entries[RT_RESTART].table) status = rt_run_entry(t, RT_RESTART);
        else copy_averages(l, names);
    }
    return status;
}

static step_status load_checked(struct load_plan *l, const struct map *names)
{
    struct step_instance *t = l->t;
    uint32_t slots = t->program->slot_count;
    uint64_t bytes = 0, *at = arena_new_array(names->arena, uint64_t, slots + 1);
    char error[ST_TEXT];
    for (uint32_t i = 0; i < slots; i++) {
        at[i] = bytes;
        if (l->source[i]) bytes += (l->source[i]->bytes + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN;
    }
    char *data = aligned_alloc(RT_ALIGN, bytes + RT_ALIGN);
    if (!data) return rt_fail(t, STEP_ENOMEM, "load: out of memory (%llu bytes)", (unsigned long long)bytes);
    step_status status = STEP_OK;
    for (uint32_t i = 0; !status && i < slots; i++)
        if (l->source[i]) status = st_read(l->file, l->source[i], 0, data + at[i], l->source[i]->bytes, error);
    if (status) rt_fail(t, status, "load: %s", error);
    else status = apply(l, names, data, at);
    free(data);
    if (status) return status;
    if (l->whole && t->step_slot < 0 && l->file->step) t->steps = strtoull(l->file->step, NULL, 10);
    rt_step_counter(t);
    t->initialized = true;
    rt_log(t, 2, "loaded %s: %u tensors", l->file->path, l->file->count);
    return STEP_OK;
}

static step_status load_file(struct step_instance *t, const struct step_load *load, struct st_file *file)
{
    struct arena arena = {0};
    jmp_buf oom;
    if (setjmp(oom)) {
        arena_free(&arena);
        return rt_fail(t, STEP_ENOMEM, "load: out of memory");
    }
    arena.on_oom = &oom;
    const struct stepc_program *p = t->program;
    struct load_plan l = {.t = t, .file = file, .flags = load->flags, .faults = STR(&arena)};
    struct map names = MAP(&arena);
    l.wrong = arena_new_array(&arena, bool, p->slot_count + 1);
    l.source = arena_new_array(&arena, const struct st_tensor *, p->slot_count + 1);
    for (uint32_t i = 0; i < p->slot_count; i++)
        if (p->slots[i].role <= STEP_STATE) map_set(&names, p->slots[i].name, i);
    for (uint32_t i = 0; i < file->count; i++) match_tensor(&l, &names, &file->tensors[i]);
    match_missing(&l);
    step_status status;
    if (l.fault_count) {
        if (l.fault_count > 10) str_addf(&l.faults, "\n  and %u more", l.fault_count - 10);
        status = rt_fail(t, STEP_ESHAPE, "%s: %s", file->path, str_text(&l.faults));
    } else if (atomic_load(&t->poisoned) && !l.whole)
        status = rt_fail(t, STEP_EPOISONED, "%s holds only a part of the state; a poisoned instance needs all of it", file->path);
    else status = load_checked(&l, &names);
    arena_free(&arena);
    return status;
}

/* After a failed wait the barriers are half full; once every worker is back they can be emptied. */
static step_status heal(struct step_instance *t)
{
    if (!atomic_load(&t->poisoned)) return STEP_OK;
    if (atomic_load(&t->pending)) return rt_fail(t, STEP_EPOISONED, "load: a worker has not come back from the failed call");
    for (uint32_t d = 0; d < t->device_count; d++) {
        atomic_store(&t->devices[d].barrier.arrived, 0);
        for (uint32_t i = 0; i < t->comm_count; i++) atomic_store(&t->comms[i].of_device[d]->barrier.arrived, 0);
        for (uint32_t w = 0; w < t->threads; w++) t->devices[d].workers[w].collectives = 0;
        atomic_store(&t->devices[d].collectives, 0);
        atomic_store(&t->devices[d].at, NULL);
    }
    atomic_store(&t->failed, 0);
    return STEP_OK;
}

step_status rt_load(struct step_instance *t, const struct step_load *from)
{
    struct step_load load;
    struct st_file file;
    char error[ST_TEXT];
    if (!t) return rt_fail(NULL, STEP_EINVAL, "load: null pointer");
    if (!rt_take(&load, sizeof load, from) || !load.path) return rt_fail(t, STEP_EINVAL, "load: wrong size field or no path");
    step_status status = rt_enter(t, true);
    if (status) return status;
    if (load.map) status = rt_fail(t, STEP_EUNSUPPORTED, "load: maps are not there yet");
    struct stat about;
    if (!status && stat(load.path, &about) == 0 && S_ISDIR(about.st_mode))
        status = rt_fail(t, STEP_EUNSUPPORTED, "load: %s: checkpoint directories are not read yet; give a .safetensors file", load.path);
    if (!status) status = heal(t);
    if (!status && (status = st_open(&file, load.path, error))) rt_fail(t, status, "load: %s", error);
    if (status) return rt_leave(t, status);
    status = load_file(t, &load, &file);
    st_close(&file);
    if (!status) atomic_store(&t->poisoned, 0);
    return rt_leave(t, status);
}
