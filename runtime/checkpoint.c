/* save and load of single .safetensors files, and what load does with tensors, whether they come from a file or from a
 * checkpoint directory (directory.c).
 *
 * What load wants: a file that holds any optimizer state or counter is the whole state and must hold every stored
 * slot; any other file holds initial values: all parameters and running statistics, averages if it likes (those
 * not given become copies of the parameters), and the rest is as after init. All problems are found before the state
 * is touched, and it is replaced only after everything was read. */
#include "ir/base/str.h"
#include "runtime/load.h"
#include "runtime/header_scan.h"
#include <stepc/step_tools.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_DIRECTORIES "directories: name a .safetensors file"
#define NOTHING "checkpoint (save and load)"

static step_status no_memory(const struct step_instance *t) { return rt_fail(t, STEP_ENOMEM, "out of memory"); }

static step_status left_out(struct step_instance *t, const char *part)
{
    return rt_fail(t, STEP_EUNSUPPORTED, "object compiled --without %s", part);
}

/* ---------------------------------------------------------------- save */

struct save_plan {
    struct step_instance *t;
    struct st_tensor *tensors;
    uint32_t count, fetched;
    bool computed;
    char *patterns; /* copy of the text that says what is wanted */
    bool *wanted;   /* of each slot, behind it */
};

/* State; hyper-parameters that can be set are among it. */
static bool is_state(const struct stepc_slot *s) { return rt_slot_role(s) - STEP_PARAM < STEP_STATE; }

/* A JSON list of patterns. Each is for something that is saved: what is missing by mistake would be missed too late. */
static step_status find_wanted(struct save_plan *plan, const char *text, bool computed)
{
    const struct stepc_program *p = plan->t->program;
    step_status wrong = STEP_EINVAL;
    size_t n = text ? strlen(text) : 0;
    if (!(plan->patterns = malloc(n + p->slot_count + 1))) return no_memory(plan->t);
    plan->wanted = memset(plan->patterns + n, !text, p->slot_count + 1);
    if (!text) return STEP_OK;
    memcpy(plan->patterns, text, n);
    struct rt_scan s = {.at = plan->patterns, .end = plan->patterns + n};
    scan_open(&s, '[');
    while (scan_more(&s, ']')) {
        const char *pattern = scan_string(&s);
        bool found = !pattern;
        for (uint32_t i = 0; pattern && i < p->slot_count; i++)
            if (is_state(&p->slots[i]) && (computed || !p->slots[i].computed) && glob_match(pattern, p->slots[i].name))
                found = plan->wanted[i] = true;
        if (!found) s.fault = pattern, wrong = STEP_ENOTFOUND;
    }
    if (!s.fault) scan_end(&s);
    return s.fault ? rt_fail(plan->t, wrong, "save: slots: a JSON list of patterns of tensors: %s", s.fault) : STEP_OK;
}

/* Tensors to save. */
static step_status collect(struct save_plan *plan)
{
    const struct stepc_program *p = plan->t->program;
    plan->tensors = malloc((p->slot_count + 1) * sizeof *plan->tensors);
    if (!plan->tensors) return no_memory(plan->t);
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const struct stepc_slot *s = &p->slots[i];
        struct st_tensor t = {.name = s->name, .dtype = s->dtype, .rank = s->rank, .bytes = rt_slot_bytes(s, false)};
        if (!is_state(s) || !plan->wanted[i]) continue;
        for (int32_t k = 0; k < s->rank; k++) t.shape[k] = s->shape[k];
        plan->computed |= s->computed != 0;
        plan->tensors[plan->count++] = t;
    }
    qsort(plan->tensors, plan->count, sizeof *plan->tensors, st_by_name);
    return STEP_OK;
}

/* Into `to`, NULL: only so that other ranks get the parts of this one. */
static step_status fetch_tensor(void *user, uint32_t index, void *to)
{
    struct save_plan *plan = user;
    int32_t i = rt_slot_find(plan->t, plan->tensors[index].name);
    if (i < 0) return STEP_EINTERNAL;
    const struct stepc_slot *s = &plan->t->program->slots[i];
    int64_t stride[RT_MAX_RANK];
    rt_c_strides(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
    plan->fetched = index + 1;
    if (to || rt_slot_sharded(s)) rt_gather(plan->t, s, to, stride);
    return (step_status)atomic_load(&plan->t->failed);
}

static step_status save_file(struct save_plan *plan, const struct step_save *save)
{
    char error[ST_TEXT];
    struct step_instance *t = plan->t;
    step_status status = STEP_OK;
    if (save->item_count || save->keep || save->metric_count || save->flags)
        status = rt_fail(t, STEP_EINVAL, "save: items, metrics, keep, compression are of directories");
    if (!status) status = collect(plan);
    status = rt_agree(t, status);
    if (!status && plan->computed) status = rt_agree(t, rt_derive(t));
    bool go = !status;
    if (go && t->rank == 0) {
        status = st_write(save->directory, plan->tensors, plan->count, t->steps, fetch_tensor, plan, error);
        if (status) rt_fail(t, status, "save: %s", error);
        else
            rt_log(t, 2, "saved step %llu: %u tensors in %s", (unsigned long long)t->steps, plan->count,
                   save->directory);
    }
    while (go && t->ranks > 1 && plan->fetched < plan->count && !atomic_load(&t->failed))
        fetch_tensor(plan, plan->fetched, NULL); /* other ranks follow the first, however far it came */
    if (go) status = rt_agree(t, status);
    free(plan->tensors);
    return status;
}

static step_status save(struct step_instance *t, const struct step_save *save, struct step_job **out)
{
    static const struct step_job over = {NULL, NULL};
    const struct rt_directories *directories = t->program->checkpoint->directories;
    struct save_plan plan = {.t = t};
    bool file = st_is_file_name(save->directory);
    step_status status = STEP_OK;
    if (!t->initialized) status = rt_fail(t, STEP_EINVAL, "save: call init or load first");
    else if (!save->directory || save->flags >= 2 * STEP_SAVE_COMPRESS_ALL)
        status = rt_fail(t, STEP_EINVAL, "save: no directory, or unknown flags");
    else if (!file && !directories) status = left_out(t, NO_DIRECTORIES);
    if (!status) status = find_wanted(&plan, save->slots, file);
    if (!status && !file) status = directories->save(t, save, plan.wanted, out);
    else if (!status) {
        status = save_file(&plan, save);
        if (out && !status) *out = (struct step_job *)(uintptr_t)&over;
    }
    free(plan.patterns);
    return status;
}

step_status rt_save(struct step_instance *t, const struct step_save *from, struct step_job **out)
{
    struct step_save save;
    if (out) *out = NULL;
    if (!t || !rt_take(&save, sizeof save, from))
        return rt_fail(t, STEP_EINVAL, "%s: null pointer or wrong size field", "save");
    step_status status = rt_enter(t, "save");
    if (status) return status;
    return rt_leave(t, t->program->checkpoint ? t->program->checkpoint->save(t, &save, out) : left_out(t, NOTHING));
}

step_status rt_job_wait(struct step_job *job, int64_t timeout_ms)
{
    if (!job) return rt_fail(NULL, STEP_EINVAL, "job_wait: null pointer");
    return job->wait ? job->wait(job, timeout_ms) : STEP_OK;
}

void rt_job_free(struct step_job *job)
{
    if (job && job->free) job->free(job);
}

/* ---------------------------------------------------------------- load */

enum { RT_LOAD_PART = STEP_LOAD_PARTIAL | STEP_LOAD_PARAMS_ONLY }; /* the rest keeps what it is */

static void match_file(struct rt_load_plan *l)
{
    const struct rt_maps *maps = l->t->program->checkpoint->maps;
    for (uint32_t i = 0; i < l->file->count; i++) {
        const struct st_tensor *tensor = &l->file->tensors[i];
        int32_t slot = rt_slot_find(l->t, tensor->name);
        if (slot >= 0 && rt_slot_role(&l->t->program->slots[slot]) <= STEP_STATE)
            rt_load_match(l, (uint32_t)slot, tensor);
        else if (maps ? maps->unknown(l, tensor) : !(l->flags & STEP_LOAD_PARTIAL))
            rt_load_fault(l, "tensor \"%s\" is not one of this object's", tensor->name);
    }
}

/* A file of parameters that holds no adapter is one of the base: adapters stay as init left them. */
static void match_missing(struct rt_load_plan *l)
{
    const struct stepc_program *p = l->t->program;
    const char *lacking = NULL;
    bool all = l->whole || !l->t->initialized, base = !all && !l->adapts;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const struct stepc_slot *s = &p->slots[i];
        bool needed = s->role == STEP_PARAM || (!(l->flags & STEP_LOAD_PARAMS_ONLY) && (all || rt_slot_statistic(s)));
        char text[200];
        if (!rt_slot_stored(s) || !needed || l->items[i].source || l->items[i].wrong || l->items[i].way > ST_SOURCE ||
            l->flags & STEP_LOAD_PARTIAL)
            continue;
        if (base && rt_slot_adapts(s)) lacking = s->name;
        else
            rt_load_fault(l, "tensor \"%s\" is missing; expected %s", s->name,
                          rt_type_text(text, sizeof text, s->dtype, s->rank, s->shape));
    }
    if (lacking && !l->faults)
        rt_log(l->t, 1, "%s lacks adapters; \"%s\" etc. are as init left them", l->file->path, lacking);
}

/* What is done with a tensor: read, converted to the slot's dtype if it has another one (its own bytes lie behind it
 * then); stored, parameters and statistics first. */
static void handle(void *user, uint32_t i)
{
    struct rt_load_plan *l = user;
    struct rt_load_item *item = &l->items[i];
    const struct stepc_slot *s = &l->t->program->slots[i];
    const struct st_tensor *from = item->source;
    char error[ST_TEXT], *to = l->memory + item->offset;
    if (!from) return;
    if (l->phase) {
        if (!item->place && (s->role == STEP_PARAM || rt_slot_statistic(s)) == (l->phase == RT_LOAD_FIRST))
            rt_load_store(l, s, to);
        return;
    }
    to = rt_load_place(l, i, to);
    uint64_t bytes = rt_slot_bytes(s, false);
    char *at = from->dtype == s->dtype ? to : to + ((bytes + 7) & ~UINT64_C(7));
    item->count = bytes / rt_dtype_bytes(s->dtype);
    item->status = l->checkpoint ? l->t->program->checkpoint->directories->read(l, i, at, error)
                                 : st_read(l->file, from, 0, at, from->bytes, error);
    if (item->status) rt_fail(l->t, item->status, "load: %s", error);
    else if (at != to) {
        for (uint64_t k = 0; k < item->count; k++)
            rt_number_put(to, s->dtype, (int64_t)k, rt_number_at(at, from->dtype, (int64_t)k));
        int64_t lost = rt_lost(to, s->dtype, at, from->dtype, (int64_t)item->count);
        if (lost >= 0)
            item->status = rt_fail(l->t, STEP_ERANGE, "load: %s: tensor \"%s\": element %lld does not fit into %s",
                                   l->file->path, s->name, (long long)lost, rt_dtype_name(s->dtype));
    }
}

static void each(struct rt_load_plan *l)
{
    const struct stepc_program *p = l->t->program;
    uint64_t bytes = !l->phase || rt_apart(l->t) ? l->room : 0;
    if (l->checkpoint) p->checkpoint->directories->each(l->t, bytes, p->slot_count, handle, l);
    else
        for (uint32_t i = 0; i < p->slot_count; i++) handle(l, i);
}

/* Reads everything into one block of memory of the first rank, or, in parts, of all; nothing of a state changes here.
 * What another thread could not read is read again, for this one to say why. */
static step_status read_all(struct rt_load_plan *l)
{
    const struct stepc_program *p = l->t->program;
    if (l->t->rank && !l->pieces) return STEP_OK;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const struct st_tensor *from = l->items[i].source;
        if (!from) continue;
        l->items[i].offset = l->room;
        l->room += rt_slot_bytes(&p->slots[i], false) + RT_ALIGN;
        if (from->dtype != p->slots[i].dtype) l->room += from->bytes + 8;
        l->room &= ~(uint64_t)(RT_ALIGN - 1);
    }
    if (!(l->memory = rt_host_get(l->t, l->room))) return no_memory(l->t);
    each(l);
    for (uint32_t i = 0; i < p->slot_count; i++) {
        if (l->items[i].status) handle(l, i);
        if (l->items[i].status) return l->items[i].status;
    }
    return STEP_OK;
}

/* Averages that the file does not give start as copies of the parameters. */
static void take_averages(struct rt_load_plan *l)
{
    const struct stepc_program *p = l->t->program;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const struct stepc_slot *s = &p->slots[i];
        const char *name = s->name; /* "ema.", "slow.", then that of the parameter */
        while (*name && *name++ != '.') continue;
        int32_t from = s->role == STEP_EMA && !s->computed ? rt_slot_find(l->t, name) : -1;
        if (from >= 0 && !l->items[i].source && rt_slot_bytes(&p->slots[from], false) == rt_slot_bytes(s, false))
            l->items[i].source = l->items[from].source;
    }
}

/* Parameters and statistics first, then what follows from them, then the rest of the file. */
static step_status apply(struct rt_load_plan *l)
{
    struct step_instance *t = l->t;
    step_status status = STEP_OK;
    rt_state_changed(t);
    if (l->map) status = t->program->checkpoint->maps->begin(l);
    while (l->phase < RT_LOAD_REST && !status) {
        l->phase++;
        each(l);
        if (l->phase != RT_LOAD_REST && l->restarts && t->entries[RT_RESTART].table)
            status = rt_run_entry(t, RT_RESTART);
    }
    if (status) return status;
    if (l->whole && l->file->step) {
        t->steps = 0;
        for (const char *c = l->file->step; *c >= '0' && *c <= '9'; c++)
            t->steps = t->steps * 10 + (uint64_t)(*c - '0');
    }
    rt_step_counter(t);
    t->initialized = true;
    rt_log(t, 2, "loaded %s: %u tensors", l->file->path, l->file->count);
    return STEP_OK;
}

static step_status load_from(struct step_instance *t, const struct step_load *load, struct st_file *file,
                             const struct st_checkpoint *checkpoint)
{
    const struct stepc_program *p = t->program;
    size_t bytes = (p->slot_count + 1) * sizeof(struct rt_load_item);
    struct rt_load_plan l = {
        .t = t, .file = file, .checkpoint = checkpoint, .flags = load->flags, .items = malloc(bytes), .room = RT_ALIGN};
    if (checkpoint) l.pieces = p->checkpoint->directories->pieces;
    if (!l.items) return rt_agree(t, no_memory(t));
    memset(l.items, 0, bytes);
    const struct rt_maps *maps = p->checkpoint->maps;
    bool poisoned = atomic_load(&t->poisoned);
    step_status status = STEP_OK;
    if (!load->map) match_file(&l);
    else status = maps ? maps->match(&l, load->map, poisoned) : left_out(t, "maps");
    if (!status) match_missing(&l);
    if (status) {
    } else if (l.faults > 10)
        status = rt_fail(t, STEP_ESHAPE, "%s: %s\n  and %u more", file->path, l.text, l.faults - 10);
    else if (l.faults) status = rt_fail(t, STEP_ESHAPE, "%s: %s", file->path, l.text);
    else if ((poisoned && !l.whole) || (!t->initialized && l.flags & RT_LOAD_PART))
        status = rt_fail(t, poisoned ? STEP_EPOISONED : STEP_EINVAL,
                         "%s: a part of the state; before init, or poisoned, it needs all", file->path);
    else {
        /* a part that is loaded before the first step belongs to the initial values; later on the rest stays */
        l.restarts |= l.flags & RT_LOAD_PART ? !t->steps : !l.whole;
        if (l.restarts && !t->entries[RT_RESTART].table) take_averages(&l);
        status = read_all(&l);
    }
    status = rt_agree(t, status);
    if (!status) status = apply(&l);
    if (l.map) maps->end(&l, status);
    if (l.memory) rt_host_put(t, l.memory, l.room);
    free(l.items);
    return status;
}

/* Once every worker is back from a failed call, they can begin anew. */
static step_status heal(struct step_instance *t)
{
    if (!atomic_load(&t->poisoned)) return STEP_OK;
    if (atomic_load(&t->pending)) return rt_fail(t, STEP_EPOISONED, "load: a worker is not back");
    if (t->program->team) t->program->team->reset(t);
    if (t->comm && t->comm->reset) t->comm->reset(t);
    atomic_store(&t->failed, 0);
    return STEP_OK;
}

static step_status load(struct step_instance *t, const struct step_load *load)
{
    struct st_file file;
    struct stat about;
    char error[ST_TEXT];
    const struct rt_directories *directories = t->program->checkpoint->directories;
    step_status status = heal(t);
    uint64_t folder = st_call(newfstatat, AT_FDCWD, load->path, &about, 0) == 0 && S_ISDIR(about.st_mode);
    if (t->ranks > 1) status = t->program->mesh->first(t, status, &folder);
    if (status) return status;
    if (folder) status = directories ? directories->load(t, load, load_from) : left_out(t, NO_DIRECTORIES);
    else {
        if ((status = st_open_file(&file, load->path, !(load->flags & STEP_LOAD_NO_VERIFY), error)))
            rt_fail(t, status, "load: %s", error);
        if (t->ranks > 1) status = t->program->mesh->opened(t, status, &file, NULL);
        if (!status) status = load_from(t, load, &file, NULL);
        st_close(&file);
    }
    if (!status) atomic_store(&t->poisoned, 0);
    return status;
}

const struct stepc_checkpoint stepc_part_checkpoint = {save, load, &rt_directories, &rt_retention, &rt_maps};
const struct stepc_checkpoint stepc_part_retention = {save, load, &rt_directories, &rt_retention, NULL};
const struct stepc_checkpoint stepc_part_directories = {save, load, &rt_directories, NULL, NULL};
#define PIECES save, load, &rt_directories_pieces
const struct stepc_checkpoint stepc_part_checkpoint_pieces = {PIECES, &rt_retention, &rt_maps};
const struct stepc_checkpoint stepc_part_retention_pieces = {PIECES, &rt_retention, NULL};
const struct stepc_checkpoint stepc_part_directories_pieces = {PIECES, NULL, NULL};
const struct stepc_checkpoint stepc_part_files = {save, load, NULL, NULL, NULL};

step_status rt_load(struct step_instance *t, const struct step_load *from)
{
    struct step_load load;
    if (!t || !rt_take(&load, sizeof load, from) || !load.path || load.flags >= 2 * STEP_LOAD_NO_VERIFY)
        return rt_fail(t, STEP_EINVAL, "load: no path, wrong size or flags");
    step_status status = rt_enter(t, NULL);
    if (status) return status;
    return rt_leave(t, t->program->checkpoint ? t->program->checkpoint->load(t, &load) : left_out(t, NOTHING));
}
