/* The whole way from plans to a shared object: lower, print every distinct kernel once, tables, object, link. */
#include "codegen/llvm_emit.h"
#include "codegen/llvm_object.h"
#include <stdio.h>
#include <string.h>

struct nest_log { struct arena *arena; FILE *file; };

static void log_nest(const struct nest_log *log, const char *name, const struct nest *nest)
{
    struct str text = STR(log->arena);
    if (!log->file)
        return;
    nest_print(nest, &text);
    fprintf(log->file, "%s: %s\n", name, str_text(&text));
}

/* DIR/step from DIR and out/step.so; NULL if nothing is kept. */
static const char *temps_prefix(const struct cg_options *options, struct arena *arena)
{
    if (!options->save_temps)
        return NULL;
    const char *slash = strrchr(options->output, '/'), *base = slash ? slash + 1 : options->output;
    const char *dot = strrchr(base, '.');
    int length = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    return arena_format(arena, "%s/%.*s", *options->save_temps ? options->save_temps : ".", length, base);
}

/* Kernels by the hash of their nests: equal nests are one function, whatever entry they are of. */
static void emit_kernels(struct emit *e, struct cg_entry *entry, struct map *known, LLVMValueRef *functions, uint32_t *count,
                         const struct nest_log *log)
{
    for (size_t i = 0; i < entry->plan->groups.count; i++) {
        const struct cg_kernel *kernel = &entry->kernels[i];
        uint32_t index = map_get_number(known, kernel->hash);
        if (index == MAP_NONE) {
            index = (*count)++;
            const char *name = arena_format(e->arena, "kernel.%u", index);
            log_nest(log, name, kernel->nest);
            functions[index] = emit_kernel(e, kernel->nest, name);
            map_set_number(known, kernel->hash, index);
        }
        entry->functions[i] = functions[index];
    }
}

static int64_t device_count(const struct ir_module *module)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < module->mesh.axis_count; i++)
        n *= module->mesh.size[i];
    return n;
}

static struct cg_bytes make_object(const struct plan_module *plans, struct cg_entry *entries, const struct cg_options *options,
                                   struct arena *arena)
{
    uint32_t count = (uint32_t)plans->plans.count, kernel_count = 0;
    size_t groups = 0;
    const char *temps = temps_prefix(options, arena);
    struct nest_log log = {arena, temps ? fopen(arena_format(arena, "%s.nests", temps), "w") : NULL};
    for (uint32_t i = 0; i < count; i++)
        groups += plans->plans.items[i]->groups.count;
    struct cg_object *object = cg_object_new(&options->target, arena);
    struct emit *e = cg_object_emit(object);
    struct map known = MAP(arena);
    LLVMValueRef *functions = arena_new_array(arena, LLVMValueRef, groups + 1);
    for (uint32_t i = 0; i < count; i++) {
        /* Only steps are run often enough to give up sharing kernels with other entries. */
        if (strcmp(entries[i].plan->func->name, "step") == 0 && device_count(plans->module) == 1)
            entries[i].whole = cg_emit_whole(e, entries[i].plan, entries[i].kernels);
        if (!entries[i].whole)
            emit_kernels(e, &entries[i], &known, functions, &kernel_count, &log);
    }
    cg_describe(e, plans, &options->target, entries, count);
    if (log.file)
        fclose(log.file);
    struct cg_bytes bytes = cg_object_finish(object, temps);
    cg_object_free(object);
    return bytes;
}

int cg_compile(const struct plan_module *plans, const struct cg_options *options, struct arena *arena, struct diags *diags,
               const char **why)
{
    uint32_t count = (uint32_t)plans->plans.count;
    struct cg_entry *entries = arena_new_array(arena, struct cg_entry, count + 1);
    bool ok = true;
    *why = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct plan *plan = plans->plans.items[i];
        struct cg_kernel *kernels = arena_new_array(arena, struct cg_kernel, plan->groups.count + 1);
        ok = cg_lower(plans, plan, &options->target, arena, diags, kernels) && ok;
        entries[i] = (struct cg_entry){.plan = plan, .kernels = kernels,
                                       .functions = arena_new_array(arena, void *, plan->groups.count + 1)};
    }
    if (!ok) {
        *why = "some parts of the model have no code yet";
        return 1;
    }
    struct cg_link link = {.object = make_object(plans, entries, options, arena), .archive = cg_runtime_archive(),
                           .output = options->output, .linker = options->linker, .export_symbol = "step_query"};
    *why = cg_link(&link, arena);
    return *why ? 3 : 0;
}
