/* Kernels for collectives that sum: what the members of a group hold, element by element, in the order that
 * runtime/comm_reduce.c has for every transport: neighbours by two, these sums by two, and so on, and what is left at
 * the end from the last one on. Where the members' memory is within reach they read it there. The parameters: the
 * result, the operands, elements [lo, hi) of it, and which elements of the operands these are (struct rt_spread:
 * inner, parts, index). */
#include "codegen/cuda/cuda.h"
#include <string.h>

enum { THREADS = 256, MOST = 128 /* members */, DEEPEST = 16 };

static const char *wide_type(enum ir_dtype dtype, bool sum)
{
    if (dtype == IR_BOOL) return "unsigned";
    return sum && !ir_dtype_is_float(dtype) ? "unsigned long long" : cuda_register_type(dtype); /* integers wrap */
}

static const char *joined(struct arena *arena, uint32_t reduction, const char *type, const char *a, const char *b)
{
    if (reduction == STEPC_SUM) return arena_format(arena, "(%s + %s)", a, b);
    return arena_format(arena, "stepc_%s<%s>(%s, %s)", reduction == STEPC_MAX ? "max" : "min", type, a, b);
}

static void print(struct str *out, const char *name, enum ir_dtype dtype, uint32_t reduction, uint32_t members,
                  struct arena *arena)
{
    const char *memory = cuda_memory_type(dtype), *wide = wide_type(dtype, reduction == STEPC_SUM);
    const char *sum[DEEPEST], *reg = cuda_register_type(dtype);
    uint32_t of[DEEPEST], depth = 0;
    str_addf(out, "extern \"C\" __global__ void __launch_bounds__(%d) %s(%s *to, ", THREADS, name, memory);
    for (uint32_t k = 0; k < members; k++) str_addf(out, "const %s *p%u, ", memory, k);
    str_add(out, "long long lo, long long hi, long long inner, long long parts, long long index)\n{\n"
                 "    for (long long e = lo + blockIdx.x * (long long)blockDim.x + threadIdx.x; e < hi; "
                 "e += gridDim.x * (long long)blockDim.x) {\n"
                 "        const long long at = parts == 1 ? e : (e / inner * parts + index) * inner + e % inner;\n");
    for (uint32_t k = 0; k < members; k++)
        str_addf(out, "        const %s x%u = (%s)(%s);\n", wide, k, wide,
                 cuda_from_memory(arena, dtype, arena_format(arena, "p%u[at]", k)));
    for (uint32_t k = 0; k < members; k++) {
        sum[depth] = arena_format(arena, "x%u", k);
        of[depth] = 1;
        for (depth++; depth > 1 && (of[depth - 2] == of[depth - 1] || k + 1 == members); depth--) {
            sum[depth - 2] = joined(arena, reduction, wide, sum[depth - 2], sum[depth - 1]);
            of[depth - 2] += of[depth - 1];
        }
    }
    const char *all = dtype == IR_BOOL ? arena_format(arena, "%s != 0", sum[0]) : sum[0];
    str_addf(out, "        to[e] = %s;\n    }\n}\n\n",
             cuda_to_memory(arena, dtype, cuda_rounded(arena, dtype, arena_format(arena, "(%s)(%s)", reg, all))));
}

uint32_t cuda_sum(struct cg_cuda *cuda, struct str *out, const struct plan_command *c, const struct ir_mesh *mesh,
                  struct arena *arena)
{
    const struct ir_node *node = c->kind == PLAN_COLLECTIVE ? ir_get(c->func, c->node) : NULL;
    enum ir_dtype dtype = node ? (enum ir_dtype)node->type.dtype : IR_F32;
    uint32_t reduction = STEPC_SUM;
    if (!node || (node->op != OP_all_reduce && node->op != OP_reduce_scatter) || !cuda_memory_type(dtype))
        return UINT32_MAX;
    if (node->op == OP_all_reduce) reduction = (uint32_t)node->attr[1].v[0];
    uint32_t members = (uint32_t)ir_axes_size(mesh, ir_axes_of_mask((uint32_t)node->attr[0].v[0]));
    if (members < 2 || members > MOST) return UINT32_MAX;
    const char *name = arena_format(arena, "%s_%s_%u",
                                    reduction == STEPC_SUM   ? "sum"
                                    : reduction == STEPC_MAX ? "max"
                                                             : "min",
                                    ir_dtype_name(dtype), members);
    for (uint32_t i = 0; i < cuda->kernels.count; i++)
        if (strcmp(cuda->kernels.items[i].name, name) == 0) return i;
    vec_push(arena, &cuda->begins, out->length);
    print(out, name, dtype, reduction, members, arena);
    struct cuda_kernel kernel = {
        .name = name, .threads = THREADS, .teams = 1, .argument_count = members + 1, .flat = true, .few = 1};
    vec_push(arena, &cuda->kernels, kernel);
    return (uint32_t)cuda->kernels.count - 1;
}
