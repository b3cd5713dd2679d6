/* How commands are run, for people: on a GPU the launches of each, on the CPU what multiplies its matrices. */
#include "codegen/cuda/cuda.h"
#include "codegen/llvm/llvm_object.h"
#include "ir/base/json_tree.h"
#include <stepc/step_abi.h>

struct stepc_cuda_launch cg_cuda_launch(const struct cg_cuda *cuda, const struct cg_entry *entries, uint32_t entry,
                                        const struct plan_command *c, struct arena *arena, uint32_t *launches)
{
    struct cuda_use use = cuda->uses[entry][c->group];
    struct stepc_cuda_launch r = {.kernel = use.kernel, .numbers = use.numbers};
    const struct cuda_kernel *kernel = &cuda->kernels.items[r.kernel];
    struct cg_members members;
    cg_members(&entries[entry], c, arena, &members);
    for (uint32_t m = 0; m < members.count; m++)
        r.blocks += cuda_blocks(kernel, members.ends[m] - (m ? members.ends[m - 1] : 0));
    *launches = kernel->members ? (members.count + kernel->members - 1) / kernel->members : members.count;
    return r;
}

/* What NVIDIA recommends for its largest cards, or results of so many parts of a sum, in float32. Their start is put on
 * a multiple of the last number. */
uint64_t cg_library_workspace(const struct cg_gemm *g)
{
    enum { MOST = 32 << 20, PARTS = 16, ALIGNED = 256 };
    uint64_t parts = (uint64_t)(g->m * g->n * g->batch) * PARTS * sizeof(float);
    return (parts < MOST ? parts : MOST) + ALIGNED;
}

/* Of all that a command computes. */
static int64_t instructions_of(const struct cg_entry *entry, const struct plan_command *c, struct arena *arena)
{
    double all = 0;
    for (uint32_t m = 0; m < plan_members(c); m++)
        all += nest_instructions(entry->kernels[plan_member(c, m)].nest, arena);
    return (int64_t)all;
}

static void add_all(struct json_tree list, const int64_t *numbers, size_t count)
{
    struct json_tree row = json_add_array(list, NULL);
    for (size_t i = 0; i < count; i++) json_add_integer(row, NULL, numbers[i]);
}

/* The sequence that a command is a part of, from 1 on, 0: none. Parts are joined as the runtime does (cuda_graph.c),
 * but that it knows no loops and puts what it moves between them. */
struct sequence {
    uint32_t number, words; /* words: of its table, 0: the command before was none of it */
};

static uint32_t sequence_of(struct sequence *s, const struct cuda_kernel *kernel, bool small)
{
    struct stepc_cuda_kernel table = cuda_table(kernel);
    uint32_t more = 1 + stepc_cuda_words(&table);
    if (!small) return s->words = 0;
    if (!s->words || s->words + more > STEPC_CUDA_TABLE_WORDS) s->number++, s->words = 1;
    s->words += more;
    return s->number;
}

static void add_sequence(const struct cg_cuda *cuda, struct json_tree to)
{
    const struct cuda_kernel *kernel = &cuda->kernels.items[cuda->kernels.count - 2]; /* the one before `move` */
    struct json_tree sequence = json_add_object(to, "sequence");
    json_add_integer(sequence, "blocks", 1);
    json_add_integer(sequence, "threads", kernel->threads);
    json_add_integer(sequence, "shared", (int64_t)kernel->shared_bytes);
}

void cg_add_kernels(const struct cg_tables *of, struct json_tree to)
{
    struct json_tree all = json_add_object(to, of->cuda ? "launches" : "products");
    for (uint32_t i = 0; i < of->count; i++) {
        const struct cg_entry *entry = &of->entries[i];
        struct json_tree list = json_add_array(all, entry->plan->func->name);
        struct sequence sequence = {0, 0};
        for (size_t k = 0; k < entry->plan->commands.count; k++) {
            const struct plan_command *c = &entry->plan->commands.items[k];
            if (c->kind != PLAN_KERNEL) {
                sequence.words = 0;
                continue;
            }
            const struct cg_kernel *kernel = &entry->kernels[c->group];
            const struct cg_gemm *g = &kernel->gemm;
            if (of->cuda) {
                uint32_t launches;
                struct stepc_cuda_launch l = cg_cuda_launch(of->cuda, of->entries, i, c, to.arena, &launches);
                const struct cuda_kernel *run = &of->cuda->kernels.items[l.kernel];
                bool unit = nest_has(kernel->nest, NEST_MATRIX) || nest_has(kernel->nest, NEST_WARPGROUP);
                add_all(list,
                        (const int64_t[]){(int64_t)k, l.kernel, l.blocks, run->threads,
                                          (int64_t)(run->shared_bytes + run->dynamic_bytes),
                                          (int64_t)(l.blocks * run->scratch_bytes), launches, kernel->prefer_gemm, unit,
                                          sequence_of(&sequence, run, of->cuda->small[i][k]),
                                          instructions_of(entry, c, to.arena)},
                        11);
            } else if (g->valid)
                add_all(list, (const int64_t[]){(int64_t)k, g->m, g->n, g->k, g->batch, kernel->prefer_gemm}, 6);
        }
    }
    if (of->cuda && of->cuda->sequences) add_sequence(of->cuda, to);
}

/* Nests of all entries; false: diags say what has none. */
static bool lower_all(struct cg_tables *all, struct arena *arena, struct diags *diags)
{
    bool ok = true;
    if (all->target.cuda) cuda_target(&all->target);
    all->entries = arena_new_array(arena, struct cg_entry, all->count + 1);
    for (uint32_t i = 0; i < all->count; i++) {
        const struct plan *plan = all->plans->plans.items[i];
        struct cg_kernel *kernels = arena_new_array(arena, struct cg_kernel, plan->groups.count + 1);
        ok = cg_lower(all->plans, plan, &all->target, arena, diags, kernels) && ok;
        all->entries[i] = (struct cg_entry){.plan = plan, .kernels = kernels};
    }
    return ok;
}

bool cg_has_code(const struct plan_module *plans, const struct cg_target *target, struct arena *arena,
                 struct diags *diags)
{
    struct cg_tables all = {.plans = plans, .target = *target, .count = (uint32_t)plans->plans.count};
    return lower_all(&all, arena, diags);
}

const char *cg_kernels(const struct plan_module *plans, const struct cg_target *target, struct arena *arena,
                       struct diags *diags)
{
    uint32_t count = (uint32_t)plans->plans.count;
    struct cg_cuda cuda;
    struct cg_tables all = {.plans = plans, .target = *target, .count = count, .cuda = target->cuda ? &cuda : NULL};
    if (!lower_all(&all, arena, diags)) return NULL;
    if (target->cuda) cuda_print_module(&cuda, plans, all.entries, count, arena);
    struct json_tree to = json_object(arena);
    cg_add_kernels(&all, to);
    if (!target->cuda) {
        json_add_integer(to, "tile_rows", cg_panel_rows(&all.target));
        json_add_integer(to, "tile_columns", cg_panel_columns(&all.target));
    }
    return json_print(to);
}
