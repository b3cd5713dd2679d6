/* Which kernels are printed: each distinct nest once. Nests that differ in a few numbers only (the keys of random
 * tensors, scales of layers) share one body that takes the numbers as arguments; that is most of an initialisation. */
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
    LLVMValueRef function;
};
struct kernels {
    struct emit *e;
    VEC(struct kernel) list;
    struct map known; /* hash of the nest -> index */
};

static void collect_numbers(struct arena *arena, struct nest_stmt *const *items, size_t count, statements *out)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i]->kind == NEST_NUMBER) vec_push(arena, out, items[i]);
        collect_numbers(arena, items[i]->body.items, items[i]->body.count, out);
    }
}

static uint32_t find(struct kernels *k, const struct cg_kernel *kernel, FILE *log)
{
    struct arena *arena = k->e->arena;
    uint32_t index = map_get_number(&k->known, kernel->hash);
    if (index != MAP_NONE) return index;
    struct kernel one = {.nest = kernel->nest, .name = arena_format(arena, "kernel.%zu", k->list.count)};
    collect_numbers(arena, kernel->nest->body.items, kernel->nest->body.count, &one.numbers);
    one.shape = nest_shape(kernel->nest);
    if (log) {
        struct str text = STR(arena);
        nest_print(kernel->nest, &text);
        fprintf(log, "%s: %s\n", one.name, str_text(&text));
    }
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
static void emit_shape(struct kernels *k, size_t first)
{
    struct kernel *leader = &k->list.items[first];
    bool *differs = arena_new_array(k->e->arena, bool, leader->numbers.count + 1);
    const struct nest_stmt *numbers[EMIT_MAX_NUMBERS + 1];
    size_t others = 0;
    for (size_t i = first + 1; i < k->list.count; i++)
        if (k->list.items[i].shape == leader->shape) {
            mark_differences(leader, &k->list.items[i], differs);
            others++;
        }
    uint32_t count = select_numbers(leader, differs, numbers);
    leader->done = true;
    if (!others || count > EMIT_MAX_NUMBERS) {
        leader->function = emit_kernel(k->e, leader->nest, leader->name, NULL, 0);
        return;
    }
    LLVMValueRef body = emit_kernel(k->e, leader->nest, arena_format(k->e->arena, "%s.body", leader->name), numbers,
                                    count);
    emit_attribute(k->e, body, "noinline");
    for (size_t i = first; i < k->list.count; i++) {
        struct kernel *other = &k->list.items[i];
        if (other->shape != leader->shape) continue;
        select_numbers(other, differs, numbers);
        other->function = emit_kernel_of(k->e, body, other->name, numbers, count);
        other->done = true;
    }
}

void cg_emit_kernels(struct emit *e, struct cg_entry *entries, uint32_t count, FILE *log)
{
    struct kernels k = {.e = e, .known = MAP(e->arena)};
    for (uint32_t i = 0; i < count; i++)
        for (size_t g = 0; !entries[i].whole && g < entries[i].plan->groups.count; g++)
            find(&k, &entries[i].kernels[g], log);
    for (size_t i = 0; i < k.list.count; i++)
        if (!k.list.items[i].done) emit_shape(&k, i);
    for (uint32_t i = 0; i < count; i++)
        for (size_t g = 0; !entries[i].whole && g < entries[i].plan->groups.count; g++)
            entries[i].functions[g] = k.list.items[find(&k, &entries[i].kernels[g], NULL)].function;
}
