/* The tables of the object (step_abi.h) as LLVM constants, and the manifest: JSON that lies in the ELF note
 * .note.stepc, so that tools read it without loading the object, and to which the tables point. Every struct is built
 * field by field in the order of the header; its size is compared with the header's. */
#include "codegen/cuda/cuda.h"
#include "codegen/llvm/llvm_emit.h"
#include "codegen/llvm/llvm_object.h"
#include "ir/base/json_tree.h"
#include <llvm-c/Target.h>
#include <stepc/step.h>
#include <stepc/step_abi.h>
#include <string.h>

enum { FIELDS = 32 };
struct record {
    struct emit *e;
    LLVMValueRef fields[FIELDS];
    uint32_t count;
};

struct describe {
    struct emit *e;
    const struct plan_module *plans;
    const struct ir_module *module;
    const struct cg_target *target;
    const struct cg_entry *entries;
    uint32_t entry_count;
    const struct cg_cuda *cuda; /* NULL: none */
    struct map strings;         /* text -> index into string_values */
    VEC(LLVMValueRef) string_values;
};

/* ---------------------------------------------------------------- constants */

static void field(struct record *r, LLVMValueRef v)
{
    ASSERT(r->count < FIELDS);
    r->fields[r->count++] = v;
}
static void byte_field(struct record *r, uint64_t v) { field(r, LLVMConstInt(r->e->i8, v, 0)); }
static void word_field(struct record *r, uint32_t v) { field(r, LLVMConstInt(r->e->i32, v, 0)); }
static void wide_field(struct record *r, uint64_t v) { field(r, LLVMConstInt(r->e->i64, v, 0)); }
static void real_field(struct record *r, double v) { field(r, LLVMConstReal(r->e->f64, v)); }

static LLVMValueRef none(const struct describe *d) { return LLVMConstNull(d->e->ptr); }

static LLVMValueRef close_record(const struct describe *d, struct record *r, size_t size)
{
    LLVMValueRef v = LLVMConstStructInContext(d->e->context, r->fields, r->count, 0);
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(d->e->module);
    if (LLVMABISizeOfType(layout, LLVMTypeOf(v)) != size)
        BUG("a table's record has %llu bytes instead of %zu", LLVMABISizeOfType(layout, LLVMTypeOf(v)), size);
    r->count = 0;
    return v;
}

static LLVMValueRef global(const struct describe *d, const char *name, LLVMValueRef value, uint32_t alignment)
{
    LLVMValueRef g = LLVMAddGlobal(d->e->module, LLVMTypeOf(value), name);
    LLVMSetInitializer(g, value);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMPrivateLinkage);
    if (alignment) LLVMSetAlignment(g, alignment);
    else LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
    return g;
}

/* An array of records or pointers; an empty one is NULL. */
static LLVMValueRef array(const struct describe *d, LLVMValueRef *items, size_t count)
{
    if (!count) return none(d);
    return global(d, "table", LLVMConstArray(LLVMTypeOf(items[0]), items, (unsigned)count), 0);
}

/* Numbers as they lie in memory; both machines are little-endian. */
static LLVMValueRef numbers(const struct describe *d, const void *v, size_t count, uint32_t size)
{
    if (!count) return none(d);
    return global(d, "table", LLVMConstStringInContext(d->e->context, v, (unsigned)(count * size), 1), size);
}

static LLVMValueRef string(struct describe *d, const char *text)
{
    if (!text) return none(d);
    uint32_t known = map_get(&d->strings, text);
    if (known != MAP_NONE) return d->string_values.items[known];
    LLVMValueRef v = LLVMConstStringInContext(d->e->context, text, (unsigned)strlen(text), 0);
    v = global(d, "text", v, 0);
    map_set(&d->strings, text, (uint32_t)d->string_values.count);
    vec_push(d->e->arena, &d->string_values, v);
    return v;
}

/* ---------------------------------------------------------------- entries */

static LLVMValueRef gemm_record(const struct describe *d, const struct cg_kernel *k)
{
    const struct cg_gemm *g = &k->gemm;
    struct record r = {.e = d->e};
    const int64_t sizes[] = {g->m, g->n, g->k, g->lda, g->ldb, g->ldc, g->batch, g->stride_a, g->stride_b, g->stride_c};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) wide_field(&r, (uint64_t)sizes[i]);
    word_field(&r, g->a);
    word_field(&r, g->b);
    word_field(&r, g->c);
    byte_field(&r, g->trans_a);
    byte_field(&r, g->trans_b);
    byte_field(&r, g->accumulate);
    byte_field(&r, k->prefer_gemm);
    return close_record(d, &r, sizeof(struct stepc_gemm));
}

static LLVMValueRef entry_record(struct describe *d, const struct cg_entry *entry)
{
    const struct plan *plan = entry->plan;
    struct record r = {.e = d->e};
    field(&r, string(d, plan->func->name));
    field(&r, none(d)); /* packed */
    word_field(&r, (uint32_t)plan->buffers.count);
    field(&r, none(d)); /* packed */
    word_field(&r, (uint32_t)cg_command_count(entry, d->cuda != NULL));
    wide_field(&r, plan->arena_bytes);
    wide_field(&r, cg_plan_scratch(plan, entry->kernels));
    real_field(&r, cg_plan_work(plan, entry->kernels));
    field(&r, entry->whole ? (LLVMValueRef)entry->whole : none(d));
    return close_record(d, &r, sizeof(struct stepc_entry));
}

/* ---------------------------------------------------------------- manifest */

static const struct plan *main_plan(const struct describe *d)
{
    for (uint32_t i = 0; i < d->entry_count; i++)
        if (strcmp(d->entries[i].plan->func->name, "step") == 0) return d->entries[i].plan;
    return d->entry_count ? d->entries[0].plan : NULL;
}

/* In the order of stepc_program.memory. */
static void memory_numbers(const struct describe *d, uint64_t out[8])
{
    const struct plan *plan = main_plan(d);
    memset(out, 0, 8 * sizeof *out);
    if (!plan) return;
    const struct plan_memory *m = &plan->memory;
    const uint64_t all[8] = {m->parameters, m->averages,    m->optimizer_state, m->other_state,
                             m->gradients,  m->activations, m->workspace,       m->lower_bound};
    memcpy(out, all, sizeof all);
}

/* An object for CUDA has no code for this CPU but the runtime, which runs on every one. */
static const char *cpu_features(const struct describe *d) { return d->cuda ? "" : cg_target_needs(d->target); }

/* "code":{"step":[50,50],"eval":[16,6]}: per entry its different kernels, and those that no entry before it has: equal
 * ones are in the object once. [0,0]: the whole entry is one function. */
static void add_code(const struct describe *d, struct json_tree to)
{
    struct map known = MAP(d->e->arena);
    bool shared = false;
    for (uint32_t i = 0; i < d->entry_count; i++) shared = shared || !d->entries[i].whole;
    if (!shared) /* a small object */
        return;
    struct json_tree code = json_add_object(to, "code");
    for (uint32_t i = 0; i < d->entry_count; i++) {
        const struct cg_entry *entry = &d->entries[i];
        uint32_t own = 0, all = 0;
        struct map here = MAP(d->e->arena);
        for (size_t g = 0; g < entry->plan->groups.count; g++) {
            uint64_t hash = entry->kernels[g].hash;
            if (!entry->functions[g] || map_get_number(&here, hash) != MAP_NONE) continue;
            own += map_get_number(&known, hash) == MAP_NONE;
            map_set_number(&here, hash, all++);
            map_set_number(&known, hash, i);
        }
        struct json_tree counts = json_add_array(code, entry->plan->func->name);
        json_add_integer(counts, NULL, all);
        json_add_integer(counts, NULL, own);
    }
}

/* What only this folder knows of the report on the plan. */
static void add_target(void *user, struct json_tree to)
{
    const struct describe *d = user;
    json_add_text(to, "abi", arena_format(to.arena, "%u.%u", STEP_ABI_MAJOR, STEP_ABI_MINOR));
    struct json_tree target = json_add_object(to, "target");
    json_add_text(target, "device", d->target->cuda ? "cuda" : "cpu");
    json_add_text(target, "cpu", d->cuda ? d->target->cuda_arch : d->target->cpu);
    json_add_text(target, "features", cpu_features(d));
    if (!d->cuda) add_code(d, to);
}

/* The note's layout: sizes of name and text, type, name padded to 4, text padded to 4. Returns the text's address. */
static LLVMValueRef note(const struct describe *d, const char *text)
{
    struct emit *e = d->e;
    size_t size = strlen(text) + 1, padded = (size + 3) / 4 * 4;
    char *data = arena_alloc(e->arena, padded + 1);
    memcpy(data, text, size);
    LLVMValueRef fields[] = {LLVMConstInt(e->i32, 6, 0), LLVMConstInt(e->i32, size, 0), LLVMConstInt(e->i32, 1, 0),
                             LLVMConstStringInContext(e->context, "stepc\0\0", 8, 1),
                             LLVMConstStringInContext(e->context, data, (unsigned)padded, 1)};
    LLVMValueRef value = LLVMConstStructInContext(e->context, fields, 5, 0);
    LLVMValueRef g = global(d, "note", value, 4);
    LLVMSetSection(g, ".note.stepc");
    LLVMValueRef index[] = {LLVMConstInt(e->i32, 0, 0), LLVMConstInt(e->i32, 4, 0)};
    return LLVMConstInBoundsGEP2(LLVMTypeOf(value), g, index, 2);
}

/* ---------------------------------------------------------------- CUDA */

static LLVMValueRef cuda_kernels(struct describe *d)
{
    size_t count = d->cuda->kernels.count;
    LLVMValueRef *items = arena_new_array(d->e->arena, LLVMValueRef, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct cuda_kernel *k = &d->cuda->kernels.items[i];
        struct record r = {.e = d->e};
        field(&r, string(d, k->name));
        word_field(&r, k->threads);
        word_field(&r, k->argument_count);
        wide_field(&r, k->shared_bytes);
        wide_field(&r, k->scratch_bytes);
        items[i] = close_record(d, &r, sizeof(struct stepc_cuda_kernel));
    }
    return array(d, items, count);
}

static LLVMValueRef cuda_images(struct describe *d)
{
    size_t count = d->cuda->images.count;
    LLVMValueRef *items = arena_new_array(d->e->arena, LLVMValueRef, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct cuda_image *image = &d->cuda->images.items[i];
        struct record r = {.e = d->e};
        field(&r, string(d, image->arch));
        field(&r,
              global(d, "cubin",
                     LLVMConstStringInContext(d->e->context, image->cubin.data, (unsigned)image->cubin.size, 1), 64));
        wide_field(&r, image->cubin.size);
        items[i] = close_record(d, &r, sizeof(struct stepc_cuda_image));
    }
    return array(d, items, count);
}

static LLVMValueRef cuda_launches(struct describe *d, uint32_t entry)
{
    const struct plan *plan = d->entries[entry].plan;
    LLVMValueRef *items = arena_new_array(d->e->arena, LLVMValueRef, plan->commands.count + 1);
    for (size_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *c = &plan->commands.items[i];
        uint32_t kernel = c->kind == PLAN_KERNEL ? d->cuda->kernel_of[entry][c->group] : UINT32_MAX, blocks = 0;
        struct record r = {.e = d->e};
        if (c->kind == PLAN_KERNEL)
            blocks = cuda_blocks(&d->cuda->kernels.items[kernel],
                                 d->entries[entry].kernels[c->group].nest->parallel_extent);
        word_field(&r, kernel);
        word_field(&r, blocks);
        items[i] = close_record(d, &r, sizeof(struct stepc_cuda_launch));
    }
    return array(d, items, plan->commands.count);
}

static LLVMValueRef cuda_record(struct describe *d)
{
    struct record r = {.e = d->e};
    if (!d->cuda) return none(d);
    LLVMValueRef *launches = arena_new_array(d->e->arena, LLVMValueRef, d->entry_count + 1);
    for (uint32_t i = 0; i < d->entry_count; i++) launches[i] = cuda_launches(d, i);
    field(&r, cuda_kernels(d));
    field(&r, cuda_images(d));
    field(&r, array(d, launches, d->entry_count));
    word_field(&r, (uint32_t)d->cuda->kernels.count);
    word_field(&r, (uint32_t)d->cuda->images.count);
    return global(d, "cuda", close_record(d, &r, sizeof(struct stepc_cuda)), 0);
}

/* ---------------------------------------------------------------- the program */

static LLVMValueRef constant_block(const struct describe *d)
{
    uint64_t size = d->plans->constant_bytes;
    if (!size) return none(d);
    char *block = arena_alloc(d->e->arena, size);
    for (size_t p = 0; p < d->plans->plans.count; p++) {
        const struct plan *plan = d->plans->plans.items[p];
        for (size_t i = 0; i < plan->buffers.count; i++) {
            const struct plan_buffer *b = &plan->buffers.items[i];
            if (b->space != PLAN_CONSTANT) continue;
            ASSERT(b->data && b->offset + b->bytes <= size);
            memcpy(block + b->offset, b->data, b->bytes);
        }
    }
    return global(d, "constants", LLVMConstStringInContext(d->e->context, block, (unsigned)size, 1), 64);
}

/* A part of the runtime: naming it makes the linker take it. */
static void part_field(const struct describe *d, struct record *r, bool needed, const char *name)
{
    if (!needed) {
        field(r, none(d));
        return;
    }
    LLVMValueRef g = LLVMAddGlobal(d->e->module, d->e->i8, name);
    LLVMSetVisibility(g, LLVMHiddenVisibility);
    field(r, g);
}

static void part_fields(const struct describe *d, struct record *r)
{
    bool team = false, mesh = false, blas = false;
    for (uint32_t i = 0; i < d->module->mesh.axis_count; i++) team |= d->module->mesh.size[i] > 1;
    for (uint32_t i = 0; i < d->entry_count; i++) {
        const struct cg_entry *entry = &d->entries[i];
        team |= !entry->whole;
        for (size_t k = 0; k < entry->plan->commands.count; k++) {
            const struct plan_command *c = &entry->plan->commands.items[k];
            mesh |= c->kind == PLAN_COLLECTIVE;
            blas |= !entry->whole && c->kind == PLAN_KERNEL && entry->kernels[c->group].prefer_gemm;
        }
    }
    part_field(d, r, team || mesh, "stepc_part_team");
    part_field(d, r, mesh, "stepc_part_mesh");
    part_field(d, r, blas, "stepc_part_blas");
    part_field(d, r, d->cuda != NULL, "stepc_part_gpu");
}

static void program_tail(struct describe *d, struct record *r)
{
    const struct ir_mesh *mesh = &d->module->mesh;
    LLVMValueRef names[IR_MAX_AXES], memory[8];
    uint64_t bytes[8];
    for (uint32_t i = 0; i < mesh->axis_count; i++) names[i] = string(d, mesh->name[i]);
    word_field(r, mesh->axis_count);
    field(r, array(d, names, mesh->axis_count));
    field(r, numbers(d, mesh->size, mesh->axis_count, 8));
    memory_numbers(d, bytes);
    for (int i = 0; i < 8; i++) memory[i] = LLVMConstInt(d->e->i64, bytes[i], 0);
    field(r, LLVMConstArray(d->e->i64, memory, 8));
    field(r, cuda_record(d));
    part_fields(d, r);
}

void cg_describe(struct emit *e, const struct plan_module *plans, const struct cg_target *target,
                 const struct cg_entry *entries, uint32_t count, const struct cg_cuda *cuda)
{
    struct describe d = {.e = e,
                         .plans = plans,
                         .module = plans->module,
                         .target = target,
                         .entries = entries,
                         .entry_count = count,
                         .cuda = cuda,
                         .strings = MAP(e->arena)};
    size_t slot_count = plans->module->slots.count;
    LLVMValueRef *records = arena_new_array(e->arena, LLVMValueRef, count + 1);
    struct record r = {.e = e};
    for (uint32_t i = 0; i < count; i++) records[i] = entry_record(&d, &entries[i]);
    word_field(&r, STEPC_TABLES);
    field(&r, string(&d, plans->module->name));
    const char *text = ir_report(plans, e->arena, add_target, &d), *key = "\"features\":\"",
               *features = strstr(text, key);
    LLVMValueRef in_note = note(&d, text), after = emit_i64(e, features ? features + strlen(key) - text : 0);
    field(&r, in_note);
    field(&r, features ? LLVMConstInBoundsGEP2(e->i8, in_note, &after, 1) : string(&d, cpu_features(&d)));
    field(&r, none(&d)); /* packed */
    word_field(&r, (uint32_t)slot_count);
    field(&r, array(&d, records, count));
    word_field(&r, count);
    field(&r, constant_block(&d));
    wide_field(&r, plans->constant_bytes);
    wide_field(&r, plans->state_bytes);
    wide_field(&r, plans->result_bytes);
    program_tail(&d, &r);
    struct cg_packed packed = pack_tables(plans, entries, count, cuda != NULL, e->arena);
    field(&r, global(&d, "packed",
                     LLVMConstStringInContext(e->context, packed.bytes.data, (unsigned)packed.bytes.size, 1), 0));
    field(&r, array(&d, (LLVMValueRef *)packed.functions, packed.function_count));
    LLVMValueRef *gemms = arena_new_array(e->arena, LLVMValueRef, packed.gemm_count + 1);
    for (uint32_t i = 0; i < packed.gemm_count; i++) gemms[i] = gemm_record(&d, packed.gemms[i]);
    field(&r, array(&d, gemms, packed.gemm_count));
    LLVMValueRef program = close_record(&d, &r, sizeof(struct stepc_program));
    LLVMValueRef g = LLVMAddGlobal(e->module, LLVMTypeOf(program), "stepc_program");
    LLVMSetInitializer(g, program);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetVisibility(g, LLVMHiddenVisibility);
}
