/* The kernel that carries what is small between the memory of the host and that of the device, as one node of a step's
 * graph: inputs before the other kernels, single numbers behind them. A copy of the driver's for each of them takes
 * longer than the kernels of a small step. The parameter is a table (step_abi.h): how many pieces there are, then of
 * each where to, where from, and how many bytes. */
#include "codegen/cuda/cuda.h"

enum { THREADS = 256 };

void cuda_move(struct cg_cuda *cuda, struct str *out, struct arena *arena)
{
    vec_push(arena, &cuda->begins, out->length);
    str_addf(out,
             "extern \"C\" __global__ void __launch_bounds__(%d) move(const __grid_constant__ stepc_table<%d> table)\n"
             "{\n"
             "    stepc_move(table.word, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);\n"
             "}\n\n",
             THREADS, STEPC_CUDA_MOVE_WORDS);
    struct cuda_kernel kernel = {.name = "move", .threads = THREADS, .teams = 1, .flat = true, .few = 1};
    vec_push(arena, &cuda->kernels, kernel);
}
