/* The tables of the object (step_abi.h) as LLVM constants, and the manifest: JSON that lies in the ELF note
 * .note.stepc, so that tools read it without loading the object, and to which the tables point. Every struct is filled
 * as the header declares it, its pointers with the LLVM values that they will be, and then taken over word by word. */
#include "codegen/cuda/cuda.h"
#include "codegen/late/late.h"
#include "codegen/llvm/llvm_emit.h"
#include "codegen/llvm/llvm_object.h"
#include "ir/base/json_tree.h"
#include <llvm-c/Target.h>
#include <stepc/step.h>
#include <stepc/step_abi.h>
#include <stepc/step_open.h>
#include <string.h>

struct describe {
    struct emit *e;
    const struct plan_module *plans;
    const struct ir_module *module;
    const struct cg_target *target;
    const struct cg_entry *entries;
    uint32_t entry_count;
    const struct cg_cuda *cuda; /* NULL: none */
    bool both;                  /* one of two programs: for the CPU, and for GPUs */
    struct map strings;         /* text -> index into string_values */
    VEC(LLVMValueRef) string_values;
};

/* ---------------------------------------------------------------- constants */

static LLVMValueRef none(const struct describe *d) { return LLVMConstNull(d->e->ptr); }

/* Which word of a struct a pointer is. */
#define POINTER(type, member) ((uint64_t)1 << offsetof(struct type, member) / sizeof(void *))

/* A struct of the header, whose `pointers` are LLVM values; NULL is NULL. */
static LLVMValueRef record(const struct describe *d, const void *from, size_t size, uint64_t pointers)
{
    LLVMValueRef words[64];
    size_t count = size / sizeof(uint64_t);
    ASSERT(size % sizeof(uint64_t) == 0 && count <= 64);
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, (const char *)from + i * sizeof word, sizeof word);
        if (!(pointers >> i & 1)) words[i] = LLVMConstInt(d->e->i64, word, 0);
        else words[i] = word ? (LLVMValueRef)(uintptr_t)word : none(d);
    }
    return LLVMConstStructInContext(d->e->context, words, (unsigned)count, 0);
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

static LLVMValueRef bytes(const struct describe *d, const char *name, const void *data, size_t size, uint32_t alignment)
{
    if (size > UINT32_MAX) BUG("constant %s has %zu bytes, an object holds 2^32 - 1", name, size);
    return global(d, name, LLVMConstStringInContext(d->e->context, data, (unsigned)size, 1), alignment);
}

/* Numbers as they lie in memory; both machines are little-endian. */
static LLVMValueRef numbers(const struct describe *d, const void *v, size_t count, uint32_t size)
{
    if (!count) return none(d);
    return bytes(d, "table", v, count * size, size);
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
    struct stepc_gemm r = {g->m,
                           g->n,
                           g->k,
                           g->lda,
                           g->ldb,
                           g->ldc,
                           g->batch,
                           g->stride_a,
                           g->stride_b,
                           g->stride_c,
                           g->a,
                           g->b,
                           g->c,
                           g->trans_a,
                           g->trans_b,
                           g->accumulate,
                           (uint8_t)(k->prefer_gemm + (g->checked ? g->checked - NEST_FINITE : 0)),
                           g->site,
                           ir_dtype_abi((enum ir_dtype)g->dtype)};
    return record(d, &r, sizeof r, 0);
}

static struct stepc_cuda_launch cuda_launch(const struct describe *d, uint32_t entry, const struct plan_command *c)
{
    return cg_cuda_launch(d->cuda, d->entries, entry, c, d->e->arena, &(uint32_t){0});
}

/* What the largest grid needs, or a product by a library. */
static uint64_t cuda_scratch(const struct describe *d, uint32_t entry)
{
    const struct plan *plan = d->entries[entry].plan;
    uint64_t most = 0;
    for (size_t i = 0; i < plan->commands.count; i++) {
        if (plan->commands.items[i].kind != PLAN_KERNEL) continue;
        struct stepc_cuda_launch l = cuda_launch(d, entry, &plan->commands.items[i]);
        const struct cg_kernel *kernel = &d->entries[entry].kernels[plan->commands.items[i].group];
        uint64_t bytes = l.blocks * d->cuda->kernels.items[l.kernel].scratch_bytes,
                 library = kernel->prefer_gemm ? cg_library_workspace(&kernel->gemm) : 0;
        bytes = library > bytes ? library : bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static LLVMValueRef entry_record(struct describe *d, uint32_t index)
{
    const struct cg_entry *entry = &d->entries[index];
    const struct plan *plan = entry->plan;
    struct stepc_entry r;
    memset(&r, 0, sizeof r); /* buffers and commands are packed */
    r.name = (void *)string(d, plan->func->name);
    r.buffer_count = (uint32_t)plan->buffers.count;
    r.command_count = (uint32_t)cg_command_count(entry, d->cuda != NULL);
    r.arena_bytes = plan->arena_bytes;
    r.scratch_bytes = d->cuda ? cuda_scratch(d, index) : cg_plan_scratch(plan, entry->kernels);
    r.work = cg_plan_work(plan, entry->kernels);
    memcpy(&r.whole, &entry->whole, sizeof r.whole);
    return record(d, &r, sizeof r,
                  POINTER(stepc_entry, name) | POINTER(stepc_entry, buffers) | POINTER(stepc_entry, commands) |
                      POINTER(stepc_entry, whole));
}

/* ---------------------------------------------------------------- manifest */

static const struct plan *main_plan(const struct describe *d)
{
    for (uint32_t i = 0; i < d->entry_count; i++)
        if (strcmp(d->entries[i].plan->func->name, "step") == 0) return d->entries[i].plan;
    return d->entry_count ? d->entries[0].plan : NULL;
}

/* An object for CUDA has no code for this CPU but the runtime, which runs on every one. */
static const char *cpu_features(const struct describe *d)
{
    return d->cuda ? "" : cg_target_needs(d->target, d->e->has_pairs, d->e->has_tiles);
}

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

/* "late":{"commands":6,"bytes":1404944}: what a step that may be refused runs last, and of the state. */
static void add_late(const struct describe *d, struct json_tree to)
{
    for (uint32_t i = 0; i < d->entry_count; i++) {
        const struct cg_late *late = d->entries[i].late;
        const struct plan *plan = d->entries[i].plan;
        uint64_t commands = 0, bytes = 0;
        for (size_t k = 0; late && k < plan->commands.count; k++) commands += late->late[k];
        for (size_t b = 0; late && b < plan->buffers.count; b++)
            if (plan->buffers.items[b].space == PLAN_NEXT && !late->early[b]) bytes += plan->buffers.items[b].bytes;
        if (!late) continue;
        struct json_tree counts = json_add_object(to, "late");
        json_add_integer(counts, "commands", (int64_t)commands);
        json_add_integer(counts, "bytes", (int64_t)bytes);
    }
}

/* What only this folder knows of the report on the plan. */
static void add_target(void *user, struct json_tree to)
{
    const struct describe *d = user;
    json_add_text(to, "abi", arena_format(to.arena, "%u.%u", STEP_ABI_MAJOR, STEP_ABI_MINOR));
    struct json_tree target = json_add_object(to, "target");
    json_add_text(target, "device", d->both ? "cpu,cuda" : d->cuda ? "cuda" : "cpu");
    json_add_text(target, "cpu", d->cuda ? d->target->cuda_arch : d->target->cpu);
    if (d->both && !d->cuda) json_add_text(target, "cuda", d->target->cuda_arch);
    json_add_text(target, "features", cpu_features(d));
    if (d->target->without && *d->target->without) json_add_text(target, "without", d->target->without);
    if (!d->cuda) add_code(d, to);
    else
        cg_add_kernels(&(struct cg_tables){.entries = (struct cg_entry *)(uintptr_t)d->entries,
                                           .count = d->entry_count,
                                           .cuda = d->cuda},
                       to);
    add_late(d, to);
}

/* A note's layout: sizes of name and text, type, name padded to 4, text padded to 4. A second one has room for what is
 * known of the whole file: its checksum and the self-test (stepc/step_open.h). Returns the first text's address. */
static LLVMValueRef note(const struct describe *d, const char *text)
{
    struct emit *e = d->e;
    size_t size = strlen(text) + 1, padded = (size + 3) / 4 * 4;
    char *data = arena_alloc(e->arena, padded + 1);
    memcpy(data, text, size);
    LLVMValueRef fields[] = {LLVMConstInt(e->i32, 6, 0),
                             LLVMConstInt(e->i32, size, 0),
                             LLVMConstInt(e->i32, 1, 0),
                             LLVMConstStringInContext(e->context, "stepc\0\0", 8, 1),
                             LLVMConstStringInContext(e->context, data, (unsigned)padded, 1),
                             LLVMConstStringInContext(e->context, STEP_NOTE_HEAD, sizeof STEP_NOTE_HEAD - 1, 1),
                             LLVMConstNull(LLVMArrayType(e->i32, 3))};
    LLVMValueRef value = LLVMConstStructInContext(e->context, fields, 7, 0);
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
        struct stepc_cuda_kernel r = cuda_table(k);
        r.name = (void *)string(d, k->name);
        items[i] = record(d, &r, sizeof r, POINTER(stepc_cuda_kernel, name));
    }
    return array(d, items, count);
}

static LLVMValueRef cuda_images(struct describe *d)
{
    size_t count = d->cuda->images.count;
    LLVMValueRef *items = arena_new_array(d->e->arena, LLVMValueRef, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct cuda_image *image = &d->cuda->images.items[i];
        struct stepc_cuda_image r = {.arch = (void *)string(d, image->arch),
                                     .bytes = image->cubin.size,
                                     .first_kernel = image->first,
                                     .kernel_count = image->count};
        r.data = (void *)bytes(d, "cubin", image->cubin.data, image->cubin.size, 64);
        items[i] = record(d, &r, sizeof r, POINTER(stepc_cuda_image, arch) | POINTER(stepc_cuda_image, data));
    }
    return array(d, items, count);
}

/* Where what a group stores comes from. */
static const char *cuda_place(const struct describe *d, const struct plan_group *g)
{
    const struct ir_node *node = g->outputs.count ? ir_get(g->func, g->outputs.items[0]) : NULL;
    const struct ir_module *m = d->module;
    const char *pointer = node && node->place < m->places.count ? m->places.items[node->place].pointer : NULL;
    return node ? arena_format(d->e->arena, "%s: %s", pointer && *pointer ? pointer : "/", ir_ops[node->op].name) : "";
}

static LLVMValueRef cuda_launches(struct describe *d, uint32_t entry)
{
    const struct plan *plan = d->entries[entry].plan;
    LLVMValueRef *items = arena_new_array(d->e->arena, LLVMValueRef, plan->commands.count + 1);
    for (size_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *c = &plan->commands.items[i];
        struct stepc_cuda_launch r = {.kernel = d->cuda->sum_of[entry][i]};
        if (c->kind == PLAN_KERNEL) {
            r = cuda_launch(d, entry, c);
            r.small = d->cuda->small[entry][i];
            uint32_t count = d->cuda->kernels.items[r.kernel].number_count;
            r.place = (void *)string(d, cuda_place(d, &plan->groups.items[c->group]));
            r.numbers = (void *)numbers(d, r.numbers, count, sizeof *r.numbers);
        }
        items[i] = record(d, &r, sizeof r, POINTER(stepc_cuda_launch, place) | POINTER(stepc_cuda_launch, numbers));
    }
    return array(d, items, plan->commands.count);
}

static LLVMValueRef cuda_record(struct describe *d)
{
    struct stepc_cuda r;
    if (!d->cuda) return NULL;
    LLVMValueRef *launches = arena_new_array(d->e->arena, LLVMValueRef, d->entry_count + 1);
    for (uint32_t i = 0; i < d->entry_count; i++) launches[i] = cuda_launches(d, i);
    r.kernels = (void *)cuda_kernels(d);
    r.images = (void *)cuda_images(d);
    r.launches = (void *)array(d, launches, d->entry_count);
    r.kernel_count = (uint32_t)d->cuda->kernels.count;
    r.image_count = (uint32_t)d->cuda->images.count;
    r.sequences = d->cuda->sequences;
    uint64_t pointers = POINTER(stepc_cuda, kernels) | POINTER(stepc_cuda, images) | POINTER(stepc_cuda, launches);
    return global(d, "cuda", record(d, &r, sizeof r, pointers), 0);
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
    return bytes(d, "constants", block, size, 64);
}

/* A part of the runtime: naming it makes the linker take it. */
static void *part(const struct describe *d, bool needed, const char *name)
{
    if (!needed) return NULL;
    LLVMValueRef g = LLVMGetNamedGlobal(d->e->module, name); /* of the other program */
    if (g) return g;
    g = LLVMAddGlobal(d->e->module, d->e->i8, name);
    LLVMSetVisibility(g, LLVMHiddenVisibility);
    return g;
}

const char *const cg_part_names[CG_PART_COUNT] = {"checkpoint", "directories", "compression",
                                                  "retention",  "maps",        "trace"};

static bool left_out(const struct describe *d, const char *name)
{
    for (const char *at = d->target->without; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == strlen(name) && strncmp(at, name, strlen(name)) == 0) return true;
    return false;
}

static void name_parts(struct describe *d, struct stepc_program *r)
{
    bool team = false, mesh = false, blas = false, indices = false;
    uint32_t outputs = 0;
    for (size_t i = 0; i < d->module->slots.count; i++) {
        indices |= d->module->slots.items[i].index_limit > 0;
        outputs += d->module->slots.items[i].role == IR_ROLE_OUTPUT;
    }
    for (uint32_t i = 0; i < d->module->mesh.axis_count; i++) mesh |= d->module->mesh.size[i] > 1;
    for (uint32_t i = 0; i < d->entry_count; i++) {
        const struct cg_entry *entry = &d->entries[i];
        team |= !entry->whole;
        for (size_t k = 0; k < entry->plan->commands.count; k++) {
            const struct plan_command *c = &entry->plan->commands.items[k];
            mesh |= c->kind == PLAN_COLLECTIVE;
            blas |= !entry->whole && c->kind == PLAN_KERNEL && entry->kernels[c->group].prefer_gemm;
        }
    }
    r->team = part(d, team || mesh, "stepc_part_team");
    r->mesh = part(d, mesh, d->cuda ? "stepc_part_mesh_staged" : "stepc_part_mesh");
    r->blas = part(d, blas, d->cuda ? "stepc_part_cublaslt" : "stepc_part_blas");
    r->gpu = part(d, d->cuda != NULL, "stepc_part_gpu");
    r->indices = part(d, indices, "stepc_part_indices");
    r->finite = part(d, d->target->sites != NULL, "stepc_part_finite");
    r->sites = (void *)(d->target->sites ? string(d, cg_sites_text(d->target->sites, d->e->arena)) : NULL);
    r->arrays = part(d, d->target->views || outputs > 1, d->target->views ? "stepc_part_views" : "stepc_part_outputs");
    r->trace = part(d, (team || mesh) && !left_out(d, "trace"), "stepc_part_trace");
    bool directories = !left_out(d, "checkpoint") && !left_out(d, "directories");
    r->compression = part(d, directories && !left_out(d, "compression"), "stepc_part_compression");
    r->lending = part(d, directories && !d->cuda && r->state_bytes >= STEPC_LENT_FROM, "stepc_part_lending");
    bool pieces = mesh || r->state_bytes > STEPC_FILE_BYTES;
    r->checkpoint = part(d, !left_out(d, "checkpoint"),
                         left_out(d, "directories") ? "stepc_part_files"
                         : left_out(d, "retention")
                             ? pieces ? "stepc_part_directories_pieces" : "stepc_part_directories"
                         : left_out(d, "maps") ? pieces ? "stepc_part_retention_pieces" : "stepc_part_retention"
                         : pieces              ? "stepc_part_checkpoint_pieces"
                                               : "stepc_part_checkpoint");
}

static void name_axes(struct describe *d, struct stepc_program *r)
{
    const struct ir_mesh *mesh = &d->module->mesh;
    LLVMValueRef names[IR_MAX_AXES];
    for (uint32_t i = 0; i < mesh->axis_count; i++) names[i] = string(d, mesh->name[i]);
    r->axis_count = mesh->axis_count;
    r->axis_names = (void *)array(d, names, mesh->axis_count);
    r->axis_sizes = (void *)numbers(d, mesh->size, mesh->axis_count, 8);
}

static void copy_memory(const struct describe *d, uint64_t out[8])
{
    const struct plan *plan = main_plan(d);
    if (!plan) return;
    const struct plan_memory *m = &plan->memory;
    const uint64_t all[8] = {m->parameters, m->averages,    m->optimizer_state, m->other_state,
                             m->gradients,  m->activations, m->workspace,       m->lower_bound};
    memcpy(out, all, sizeof all);
}

#define P(member) POINTER(stepc_program, member)
static const uint64_t program_pointers = P(name) | P(manifest) | P(features) | P(slots) | P(entries) | P(constants) |
                                         P(axis_names) | P(axis_sizes) | P(cuda) | P(team) | P(mesh) | P(blas) |
                                         P(gpu) | P(indices) | P(checkpoint) | P(compression) | P(lending) | P(packed) |
                                         P(kernels) | P(gemms) | P(finite) | P(sites) | P(trace) | P(arrays) |
                                         P(choice) | P(gpus);
#undef P

/* `gpus`: the constant of the other program, NULL: none; `first`: its manifest is the object's. */
static LLVMValueRef program(struct emit *e, const struct cg_tables *of, LLVMValueRef gpus, bool first)
{
    struct describe d = {.e = e,
                         .plans = of->plans,
                         .module = of->plans->module,
                         .target = &of->target,
                         .entries = of->entries,
                         .entry_count = of->count,
                         .cuda = of->cuda,
                         .both = gpus || !first,
                         .strings = MAP(e->arena)};
    uint32_t count = of->count;
    LLVMValueRef *records = arena_new_array(e->arena, LLVMValueRef, count + 1);
    struct stepc_program r;
    memset(&r, 0, sizeof r); /* slots are packed */
    for (uint32_t i = 0; i < count; i++) records[i] = entry_record(&d, i);
    r.version = STEPC_TABLES;
    r.name = (void *)string(&d, of->plans->module->name);
    const char *text = ir_report(of->plans, e->arena, add_target, &d), *key = "\"features\":\"",
               *features = strstr(text, key);
    LLVMValueRef manifest = first ? note(&d, text) : string(&d, text);
    LLVMValueRef after = emit_i64(e, features ? features + strlen(key) - text : 0);
    r.manifest = (void *)manifest;
    r.features = (void *)(features ? LLVMConstInBoundsGEP2(e->i8, manifest, &after, 1) : string(&d, cpu_features(&d)));
    r.slot_count = (uint32_t)of->plans->module->slots.count;
    r.entries = (void *)array(&d, records, count);
    r.entry_count = count;
    r.constants = (void *)constant_block(&d);
    r.constant_bytes = of->plans->constant_bytes, r.state_bytes = of->plans->state_bytes;
    r.result_bytes = of->plans->result_bytes;
    name_axes(&d, &r);
    copy_memory(&d, r.memory);
    r.cuda = (void *)cuda_record(&d);
    name_parts(&d, &r);
    r.choice = part(&d, gpus != NULL, "stepc_part_choice");
    r.gpus = (void *)gpus;
    struct cg_packed packed = pack_tables(of->plans, of->entries, count, of->cuda != NULL, e->arena);
    r.packed = (void *)bytes(&d, "packed", packed.bytes.data, packed.bytes.size, 0);
    r.kernels = (void *)array(&d, (LLVMValueRef *)packed.functions, packed.function_count);
    LLVMValueRef *gemms = arena_new_array(e->arena, LLVMValueRef, packed.gemm_count + 1);
    for (uint32_t i = 0; i < packed.gemm_count; i++) gemms[i] = gemm_record(&d, packed.gemms[i]);
    r.gemms = (void *)array(&d, gemms, packed.gemm_count);
    return record(&d, &r, sizeof r, program_pointers);
}

static LLVMValueRef constant(struct emit *e, LLVMValueRef value, const char *name)
{
    LLVMValueRef g = LLVMAddGlobal(e->module, LLVMTypeOf(value), name);
    LLVMSetInitializer(g, value);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetVisibility(g, LLVMHiddenVisibility);
    return g;
}

void cg_describe(struct emit *e, const struct cg_tables *own, const struct cg_tables *gpus)
{
    LLVMValueRef others = gpus ? constant(e, program(e, gpus, NULL, false), "stepc_program_gpus") : NULL;
    constant(e, program(e, own, others, true), "stepc_program");
}
