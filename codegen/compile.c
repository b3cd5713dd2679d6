/* The whole way from plans to a shared object: lower, print every distinct kernel once, tables, object, link. */
#include "codegen/cuda/cuda.h"
#include "codegen/late/late.h"
#include "codegen/llvm/llvm_emit.h"
#include "codegen/llvm/llvm_object.h"
#include "ir/base/parallel.h"
#include <stdio.h>
#include <string.h>

/* DIR/step from DIR and out/step.so; NULL if nothing is kept. */
static const char *temps_prefix(const struct cg_options *options, struct arena *arena)
{
    if (!options->save_temps) return NULL;
    const char *slash = strrchr(options->output, '/'), *base = slash ? slash + 1 : options->output;
    const char *dot = strrchr(base, '.');
    int length = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    return arena_format(arena, "%s/%.*s", *options->save_temps ? options->save_temps : ".", length, base);
}

static int64_t device_count(const struct ir_module *module)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < module->mesh.axis_count; i++) n *= module->mesh.size[i];
    return n;
}

static bool is_whole(const struct cg_entry *step)
{
    return !step->late && device_count(step->plan->func->module) == 1 && cg_is_small(step->plan, step->kernels);
}

/* Modules on their way to object files; the first has the tables. */
struct modules {
    struct cg_object *object[CG_MODULES];
    struct emit *emit[CG_MODULES];
    struct arena own[CG_MODULES]; /* of the others: of each a thread makes machine code */
    const char *temps[CG_MODULES];
    struct cg_bytes bytes[CG_MODULES];
    const char *why[CG_MODULES]; /* what of it could not be kept */
    uint32_t count;
};

static void add_module(struct modules *m, const struct cg_options *options, struct arena *arena)
{
    const char *temps = temps_prefix(options, arena);
    uint32_t i = m->count++;
    m->object[i] = cg_object_new(&options->target, i ? &m->own[i] : arena);
    m->emit[i] = cg_object_emit(m->object[i]);
    m->temps[i] = i && temps ? arena_format(arena, "%s.%u", temps, i) : temps;
}

static void finish_module(void *of, size_t i)
{
    struct modules *m = of;
    m->bytes[i] = cg_object_finish(m->object[i], m->temps[i], &m->why[i]);
}

/* Adds the objects to the link. */
static void finish_modules(struct modules *m, struct arena *arena, struct cg_link *link, const char **why)
{
    enum { STACK = 16 << 20 }; /* twice what programs have */
    parallel_each(m->count, STACK, finish_module, m);
    for (uint32_t i = 0; i < m->count; i++) {
        if (i) m->bytes[i].data = arena_copy(arena, m->bytes[i].data, m->bytes[i].size);
        if (m->why[i]) *why = arena_string(arena, m->why[i]);
        cg_object_free(m->object[i]);
        arena_free(&m->own[i]);
    }
    link->objects = m->bytes, link->object_count = m->count;
}

/* `tiles`: whether its code uses them. An object for CUDA alone has no kernels for the CPU: its code are the images in
 * its tables. */
static void make_objects(const struct cg_tables *own, const struct cg_tables *gpus, const struct cg_options *options,
                         struct arena *arena, struct cg_link *link, bool *tiles, const char **why)
{
    struct cg_entry *entries = own->entries;
    uint32_t count = own->count;
    const char *temps = temps_prefix(options, arena);
    struct str log = STR(arena);
    struct modules *m = arena_new(arena, struct modules);
    add_module(m, options, arena);
    struct emit *e = m->emit[0];
    bool alone = !own->cuda;
    for (uint32_t i = 0; i < count; i++) alone = alone && is_whole(&entries[i]); /* then nothing needs a team */
    for (uint32_t i = 0; i < count && !own->cuda; i++)
        /* Only steps are run often enough to give up sharing kernels with other entries. */
        if (strcmp(entries[i].plan->func->name, "step") == 0 && is_whole(&entries[i]))
            entries[i].whole = cg_emit_whole(e, entries[i].plan, entries[i].kernels, NULL);
    struct cg_kernels *kernels = own->cuda ? NULL : cg_kernels_find(entries, count, temps ? &log : NULL, arena);
    uint32_t modules = kernels && !alone ? cg_kernels_modules(kernels) : 1;
    while (m->count < modules) add_module(m, options, arena);
    if (kernels) cg_kernels_emit(kernels, m->emit, m->count, entries, count);
    for (uint32_t i = 0; i < count && alone; i++) {
        if (entries[i].whole) continue;
        entries[i].whole = cg_emit_whole(e, entries[i].plan, entries[i].kernels, entries[i].functions);
        for (size_t g = 0; g < entries[i].plan->groups.count; g++) /* they run seldom */
            emit_attribute(e, entries[i].functions[g], "optsize");
        emit_attribute(e, entries[i].whole, "optsize");
    }
    cg_describe(e, own, gpus);
    if (log.length) cg_keep(arena, temps, ".nests", str_text(&log), log.length, why);
    *tiles = e->has_tiles;
    finish_modules(m, arena, link, why);
}

/* Nests of all entries, for a GPU also their images: an exit code, with *why. */
static int make_tables(struct cg_tables *to, const struct plan_module *plans, const struct cg_options *options,
                       struct arena *arena, struct diags *diags, const char **why)
{
    uint32_t count = (uint32_t)plans->plans.count;
    struct cg_cuda *cuda = to->target.cuda ? arena_new(arena, struct cg_cuda) : NULL;
    struct cg_target target = to->target;
    bool ok = true;
    to->plans = plans, to->count = count, to->cuda = cuda;
    to->entries = arena_new_array(arena, struct cg_entry, count + 1);
    if (cuda) cuda_target(&target);
    for (uint32_t i = 0; i < count; i++) {
        const struct plan *plan = plans->plans.items[i];
        struct cg_kernel *kernels = arena_new_array(arena, struct cg_kernel, plan->groups.count + 1);
        struct cg_entry *entry = &to->entries[i];
        ok = cg_lower(plans, plan, &target, arena, diags, kernels) && ok;
        *entry = (struct cg_entry){
            .plan = plan, .kernels = kernels, .functions = arena_new_array(arena, void *, plan->groups.count + 1)};
        bool step = strcmp(plan->func->name, "step") == 0 && !cuda && !target.sites;
        if (ok && step && (options->late_always || !is_whole(entry)))
            entry->late = cg_late_find(plan, options->late_always, arena);
        if (entry->late) cg_late_watch(plan, entry->late, kernels);
    }
    if (!ok) {
        *why = "some parts of the model have no code yet";
        return 1;
    }
    return cuda ? cuda_build(cuda, to, options, temps_prefix(options, arena), arena, why) : 0;
}

int cg_compile(const struct plan_module *plans, const struct cg_options *options, struct arena *arena,
               struct diags *diags, struct cg_bytes *object, const char **why)
{
    struct cg_tables own = {.target = options->target}, gpus = {.target = options->target};
    if ((*why = cg_llvm_open(arena))) return 3;
    int code = make_tables(&own, plans, options, arena, diags, why);
    gpus.target.cuda = true;
    if (!code && options->cuda) code = make_tables(&gpus, options->cuda, options, arena, diags, why);
    if (code) return code;
    bool tiles = false;
    struct cg_link link = {.archive = cg_runtime_archive(),
                           .linker = options->linker,
                           .export_symbol = "step_query",
                           .asked = {strstr(cg_target_needs(&own.target, false, false), "avx2") ? "stepc_avx2" : NULL}};
    make_objects(&own, options->cuda ? &gpus : NULL, options, arena, &link, &tiles, why);
    if (tiles) link.asked[1] = "stepc_tiles";
    if (!*why) *why = cg_link(&link, arena, object);
    return *why ? 3 : 0;
}
