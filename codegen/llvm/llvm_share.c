/* Which kernels are printed: each distinct nest once. Nests that differ in a few numbers only (the keys of random
 * tensors, scales of layers) share one body that takes the numbers as arguments; that is most of an initialisation.
 * Where there are many they are printed into several modules, of which LLVM makes machine code beside each other: how
 * many, and which has what, follows from the nests alone. */
#include "codegen/llvm/llvm_emit.h"
#include "codegen/llvm/llvm_object.h"
#include <string.h>

typedef VEC(struct nest_stmt *) statements;
struct kernel {
    const struct nest *nest;
    uint64_t shape;     /* nest_shape: numbers differ, and how often the parallel loop runs is an argument */
    statements numbers; /* in the order of the nest */
    const char *name;
    bool done;
    uint32_t module;       /* that it is printed into */
    LLVMValueRef function; /* there; in the end in the first one */
};
struct cg_kernels {
    struct arena *arena;
    VEC(struct kernel) list;
    struct map known; /* hash of the nest -> index */
};

/* Statements of a module, some 60 ms of LLVM's; a module takes 5. */
enum { STATEMENTS = 500 };

static void collect_numbers(struct arena *arena, struct nest_stmt *const *items, size_t count, statements *out)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i]->kind == NEST_NUMBER) vec_push(arena, out, items[i]);
        collect_numbers(arena, items[i]->body.items, items[i]->body.count, out);
    }
}

static uint32_t find(struct cg_kernels *k, const struct cg_kernel *kernel, struct str *log)
{
    struct arena *arena = k->arena;
    uint32_t index = map_get_number(&k->known, kernel->hash);
    if (index != MAP_NONE) return index;
    struct kernel one = {.nest = kernel->nest, .name = arena_format(arena, "kernel.%zu", k->list.count)};
    collect_numbers(arena, kernel->nest->body.items, kernel->nest->body.count, &one.numbers);
    one.shape = nest_shape(kernel->nest);
    if (log) nest_print_named(kernel->nest, one.name, log);
    index = (uint32_t)k->list.count;
    vec_push(arena, &k->list, one);
    map_set_number(&k->known, kernel->hash, index);
    return index;
}

/* The numbers in which two nests of one shape differ are marked. */
static void mark_differences(const struct kernel *a, const struct kernel *b, bool *differs)
{
    for (size_t i = 0; i < a->numbers.count; i++) {
        double x = a->numbers.items[i]->number, y = b->numbers.items[i]->number;
        differs[i] = differs[i] || memcmp(&x, &y, sizeof x) != 0; /* 0 is not -0 */
    }
}

static uint32_t select_numbers(const struct kernel *k, const bool *differs, const struct nest_stmt **out)
{
    uint32_t count = 0;
    for (size_t i = 0; i < k->numbers.count; i++)
        if (differs[i]) {
            if (count == EMIT_MAX_NUMBERS) return count + 1;
            out[count++] = k->numbers.items[i];
        }
    return count;
}

/* Prints the kernel and all of its shape that are left. */
static void emit_shape(struct cg_kernels *k, struct emit *e, uint32_t module, size_t first)
{
    struct kernel *leader = &k->list.items[first];
    bool *differs = arena_new_array(k->arena, bool, leader->numbers.count + 1);
    const struct nest_stmt *numbers[EMIT_MAX_NUMBERS + 1];
    size_t others = 0;
    for (size_t i = first + 1; i < k->list.count; i++)
        if (k->list.items[i].shape == leader->shape) {
            mark_differences(leader, &k->list.items[i], differs);
            others++;
        }
    uint32_t count = select_numbers(leader, differs, numbers);
    leader->done = true, leader->module = module;
    if (!others || count > EMIT_MAX_NUMBERS) {
        leader->function = emit_kernel(e, leader->nest, leader->name, NULL, 0);
        return;
    }
    LLVMValueRef body = emit_kernel(e, leader->nest, arena_format(k->arena, "%s.body", leader->name), numbers, count);
    emit_attribute(e, body, "noinline");
    for (size_t i = first; i < k->list.count; i++) {
        struct kernel *other = &k->list.items[i];
        if (other->shape != leader->shape) continue;
        select_numbers(other, differs, numbers);
        other->function = emit_kernel_of(e, body, other->name, numbers, count);
        other->done = true, other->module = module;
    }
}

struct cg_kernels *cg_kernels_find(const struct cg_entry *entries, uint32_t count, struct str *log, struct arena *arena)
{
    struct cg_kernels *k = arena_new(arena, struct cg_kernels);
    *k = (struct cg_kernels){.arena = arena, .known = MAP(arena)};
    for (uint32_t i = 0; i < count; i++)
        for (size_t g = 0; !entries[i].whole && g < entries[i].plan->groups.count; g++)
            find(k, &entries[i].kernels[g], log);
    return k;
}

static size_t statements_in(struct nest_stmt *const *items, size_t count)
{
    size_t n = count;
    for (size_t i = 0; i < count; i++) n += statements_in(items[i]->body.items, items[i]->body.count);
    return n;
}

static size_t size_of(const struct kernel *k) { return statements_in(k->nest->body.items, k->nest->body.count); }

uint32_t cg_kernels_modules(const struct cg_kernels *k)
{
    size_t all = 0;
    struct map shapes = MAP(k->arena);
    for (size_t i = 0; i < k->list.count; i++)
        if (map_set_number(&shapes, k->list.items[i].shape, 0)) all += size_of(&k->list.items[i]);
    all /= STATEMENTS;
    return all < 1 ? 1 : all < CG_MODULES ? (uint32_t)all : CG_MODULES;
}

/* A kernel of another module, as the first one sees it. */
static LLVMValueRef declared(struct emit *first, const struct kernel *k)
{
    LLVMSetLinkage(k->function, LLVMExternalLinkage);
    LLVMSetVisibility(k->function, LLVMHiddenVisibility);
    LLVMValueRef function = LLVMAddFunction(first->module, k->name, emit_kernel_type(first));
    LLVMSetVisibility(function, LLVMHiddenVisibility);
    return function;
}

void cg_kernels_emit(struct cg_kernels *k, struct emit *const *modules, uint32_t module_count, struct cg_entry *entries,
                     uint32_t count)
{
    size_t load[CG_MODULES] = {0};
    for (size_t i = 0; i < k->list.count; i++) {
        uint32_t least = 0;
        if (k->list.items[i].done) continue;
        for (uint32_t m = 1; m < module_count; m++)
            if (load[m] < load[least]) least = m;
        load[least] += size_of(&k->list.items[i]);
        emit_shape(k, modules[least], least, i);
    }
    for (size_t i = 0; i < k->list.count; i++)
        if (k->list.items[i].module) k->list.items[i].function = declared(modules[0], &k->list.items[i]);
    for (uint32_t m = 1; m < module_count; m++) { /* what the object needs is said in the first */
        modules[0]->has_pairs |= modules[m]->has_pairs;
        modules[0]->has_tiles |= modules[m]->has_tiles;
    }
    for (uint32_t i = 0; i < count; i++)
        for (size_t g = 0; !entries[i].whole && g < entries[i].plan->groups.count; g++)
            entries[i].functions[g] = k->list.items[find(k, &entries[i].kernels[g], NULL)].function;
}
