/* The kernel that carries what is small between the memory of the host and that of the device, as one node of a step's
 * graph: inputs before the other kernels, single numbers behind them. A copy of the driver's for each of them takes
 * longer than the kernels of a small step. The parameter is a table (step_abi.h): how many pieces there are, then of
 * each where to, where from, and how many bytes. */
#include "codegen/cuda/cuda.h"

enum { THREADS = 256 };

void cuda_move(struct cg_cuda *cuda, struct str *out, struct arena *arena)
{
    vec_push(arena, &cuda->begins, out->length);
    str_addf(
        out,
        "extern \"C\" __global__ void __launch_bounds__(%d) move(const __grid_constant__ stepc_table<%d> table)\n"
        "{\n"
        "    typedef stepc_few<unsigned, 4> unit;\n"
        "    const unsigned long long first = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;\n"
        "    for (unsigned at = 1; at < 1 + 3 * table.word[0]; at += 3) {\n"
        "        const bool clears = table.word[at + 2] >> 63;\n"
        "        const unsigned long long bytes = table.word[at + 2] << 1 >> 1;\n"
        "        const bool wide = (table.word[at] | table.word[at + 1]) %% sizeof(unit) == 0;\n"
        "        const unsigned long long units = wide ? bytes / sizeof(unit) : 0;\n"
        "        char *const to = (char *)stepc_global(table.word[at]);\n"
        "        char *const from = (char *)stepc_global(table.word[at + 1]);\n"
        "        for (unsigned long long i = first; i < units; i += all) ((unit *)to)[i] = ((const unit *)from)[i];\n"
        "        for (unsigned long long i = units * sizeof(unit) + first; i < bytes; i += all) {\n"
        "            to[i] = from[i];\n"
        "            if (clears) from[i] = 0;\n"
        "        }\n"
        "    }\n"
        "}\n\n",
        THREADS, STEPC_CUDA_MOVE_WORDS);
    struct cuda_kernel kernel = {.name = "move", .threads = THREADS, .teams = 1, .flat = true, .few = 1};
    vec_push(arena, &cuda->kernels, kernel);
}
