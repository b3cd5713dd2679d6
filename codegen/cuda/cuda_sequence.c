/* Small commands that follow one another as one launch of one block. A launch takes about a microsecond whatever it
 * does, and so does what waits for it; a block that has done a part goes on with the next one behind a barrier, and
 * finds what it made in its own cache. The parts come from a table, in which a kernel may stand any number of times, so
 * its code is there once; it is printed as its own kernel is, but that the block's threads are as many teams as it has
 * work for. */
#include "codegen/cuda/cuda.h"
#include "codegen/llvm/llvm_object.h"
#include <string.h>

enum {
    TURNS = 2,         /* that the block takes for what a grid does at once */
    SLIGHT = 32 << 10, /* FLOP and bytes of a command for which a second turn is less than a launch */
    MOST_PARTS = 64    /* kernels: what NVRTC takes for one of them grows with all that stand in the same switch */
};

/* Has the table of a sequence room for its parameters, behind where the parts end and the kernel's number? */
static bool has_room(const struct cuda_kernel *kernel)
{
    struct stepc_cuda_kernel table = cuda_table(kernel);
    return 2 + stepc_cuda_words(&table) <= STEPC_CUDA_TABLE_WORDS;
}

/* Is the command done by this block in less than the time of a launch, or as fast as by its own blocks? */
static bool is_small(const struct cg_cuda *cuda, const struct cg_entry *entries, uint32_t entry,
                     const struct plan_command *c, struct arena *arena)
{
    if (c->kind != PLAN_KERNEL) return false;
    uint32_t number = cuda->uses[entry][c->group].kernel;
    const struct cuda_kernel *kernel = &cuda->kernels.items[number];
    struct cg_members members;
    cg_members(&entries[entry], c, arena, &members);
    int64_t team = kernel->threads / kernel->teams, turns = c->flops + (double)c->bytes <= SLIGHT ? TURNS : 1;
    int64_t threads = kernel->flat ? members.extent / kernel->few : members.extent * team;
    return members.count <= (kernel->members ? kernel->members : 1) && team <= CUDA_SEQUENCE_THREADS &&
           !kernel->scratch_bytes && !entries[entry].kernels[c->group].prefer_gemm &&
           !nest_has(cuda->shared[number].nest, NEST_WARPGROUP) && !nest_has(cuda->shared[number].nest, NEST_COPY) &&
           !kernel->dynamic_bytes && has_room(kernel) && threads <= turns * CUDA_SEQUENCE_THREADS;
}

void cuda_find_small(struct cg_cuda *cuda, const struct cg_entry *entries, uint32_t count, struct arena *arena)
{
    bool *large = arena_new_array(arena, bool, cuda->shares + 1),
         *part = arena_new_array(arena, bool, cuda->shares + 1);
    uint32_t parts = 0;
    cuda->small = arena_new_array(arena, bool *, count + 1);
    for (uint32_t e = 0; e < count; e++) {
        const struct plan *plan = entries[e].plan;
        size_t n = plan->commands.count;
        bool *small = cuda->small[e] = arena_new_array(arena, bool, n + 1), before = false;
        for (size_t i = 0; i < n; i++) {
            const struct plan_command *c = &plan->commands.items[i];
            bool *known = c->kind == PLAN_KERNEL ? &part[cuda->uses[e][c->group].kernel] : NULL;
            small[i] = known && (*known || parts < MOST_PARTS) && is_small(cuda, entries, e, c, arena);
            if (small[i] && !*known) *known = true, parts++;
        }
        for (size_t i = 0; i < n; i++) { /* one alone has a launch of its own anyway */
            bool is = small[i];
            small[i] = is && (before || small[i + 1]);
            before = is;
            if (small[i]) cuda->kernels.items[cuda->uses[e][plan->commands.items[i].group].kernel].part = true;
            else if (plan->commands.items[i].kind == PLAN_KERNEL)
                large[cuda->uses[e][plan->commands.items[i].group].kernel] = true;
            cuda->sequences = cuda->sequences || small[i];
        }
    }
    cuda->parts = arena_new_array(arena, bool, cuda->shares + 1);
    for (size_t i = 0; i < cuda->shares; i++) {
        struct cuda_kernel *k = &cuda->kernels.items[i];
        cuda->parts[i] = k->part;
        k->part = k->part && !large[i];
    }
}

void cuda_sequence(struct cg_cuda *cuda, struct str *out, struct arena *arena)
{
    struct str parts = STR(arena);
    uint64_t shared = 0;
    for (uint32_t i = 0; i < cuda->shares; i++) {
        if (!cuda->parts[i]) continue;
        str_addf(&parts, "        case %u: {\n", i);
        uint64_t bytes = cuda_emit_part(&parts, cuda->shared[i].nest, &cuda->shared[i].calls, arena);
        struct stepc_cuda_kernel kernel = cuda_table(&cuda->kernels.items[i]);
        str_addf(&parts, "            at += %u;\n            break;\n        }\n", stepc_cuda_words(&kernel));
        shared = bytes > shared ? bytes : shared;
    }
    vec_push(arena, &cuda->begins, out->length);
    vec_push(arena, &cuda->kernels,
             ((struct cuda_kernel){
                 .name = "sequence", .threads = CUDA_SEQUENCE_THREADS, .teams = 1, .few = 1, .shared_bytes = shared}));
    str_addf(out,
             "extern \"C\" __global__ void __launch_bounds__(%d) sequence(const __grid_constant__ stepc_table<%d> "
             "table)\n{\n",
             CUDA_SEQUENCE_THREADS, STEPC_CUDA_TABLE_WORDS);
    if (shared)
        str_addf(out, "    __shared__ __align__(%d) unsigned char shared[%llu];\n", CUDA_ACCESS,
                 (unsigned long long)shared);
    str_add(out, "    for (unsigned at = 1; at < table.word[0];) {\n"
                 "        switch (table.word[at++]) {\n");
    str_add(out, str_text(&parts));
    str_addf(out,
             "        default: { /* what is moved */\n"
             "            stepc_move(table.word + at, threadIdx.x, %d);\n"
             "            at += 1 + 3 * (unsigned)table.word[at];\n"
             "        }\n"
             "        }\n"
             "        __syncthreads();\n"
             "    }\n"
             "}\n\n",
             CUDA_SEQUENCE_THREADS);
}
