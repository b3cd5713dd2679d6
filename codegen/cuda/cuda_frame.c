/* What stands around the statements of a nest: a kernel's parameters, or where a part of a sequence finds its own; its
 * locals; which of the threads that share [lo, hi) this one is. */
#include "codegen/cuda/cuda_emit.h"

/* `extent` elements of every team in shared memory. alignment: as a text, "" for that of the type. */
static void place_shared(struct cuda_emitter *e, struct str *out, const char *alignment, const char *type,
                         const char *name, int64_t extent)
{
    if (e->part)
        str_addf(out, "            %s *const %s = (%s *)(shared + %llu) + threadIdx.x / %u * %lld;\n", type, name, type,
                 (unsigned long long)e->kernel.shared_bytes, e->team, (long long)extent);
    else if (e->kernel.teams == 1)
        str_addf(out, "    __shared__ %s%s %s[%lld];\n", alignment, type, name, (long long)extent);
    else
        str_addf(out, "    __shared__ %s%s %s_of[%u][%lld];\n    %s *const %s = %s_of[threadIdx.x / %u];\n", alignment,
                 type, name, e->kernel.teams, (long long)extent, type, name, name, e->team);
}

static uint64_t local_bytes(const struct cuda_emitter *e, uint32_t buffer)
{
    return (uint64_t)cuda_local_bytes(&e->nest->buffers.items[buffer]) * e->kernel.teams;
}

/* Panels that are more than a kernel may have of static shared memory are what a launch asks for. */
static bool has_dynamic(const struct cuda_emitter *e)
{
    uint64_t all = e->kernel.shared_bytes, panels = 0;
    for (uint32_t i = e->nest->argument_count; i < e->nest->buffers.count; i++) {
        all += local_bytes(e, i);
        if (e->nest->buffers.items[i].swizzle) panels += local_bytes(e, i);
    }
    return panels && all > CUDA_SHARED_BYTES;
}

/* Where a local is: in shared memory of the kernel, or of the launch, or in this block's part of the scratch. */
static void place_local(struct cuda_emitter *e, uint32_t i, bool dynamic, struct str *out, struct str *scratch)
{
    const struct nest_buffer *buffer = &e->nest->buffers.items[i];
    const char *type = cuda_memory_type((enum ir_dtype)buffer->dtype);
    uint64_t *bytes = dynamic && buffer->swizzle ? &e->kernel.dynamic_bytes : &e->kernel.shared_bytes;
    if (bytes == &e->kernel.dynamic_bytes) {
        str_addf(out, "    %s *const b%u = (%s *)(stepc_dynamic + %llu);\n", type, i, type, (unsigned long long)*bytes);
    } else if (*bytes + local_bytes(e, i) <= CUDA_SHARED_BYTES) {
        int64_t extent = buffer->extent > 0 ? buffer->extent : 1;
        int alignment = buffer->swizzle ? CUDA_PANEL_ALIGNMENT : CUDA_ACCESS;
        if (e->part) extent = cuda_local_bytes(buffer) / (int64_t)ir_dtype_bytes((enum ir_dtype)buffer->dtype);
        place_shared(e, out, arena_format(e->arena, "__align__(%d) ", alignment), type,
                     arena_format(e->arena, "b%u", i), extent);
    } else {
        bytes = &e->kernel.scratch_bytes;
        str_addf(scratch, "    %s *b%u = (%s *)(block + %llu);\n", type, i, type, (unsigned long long)*bytes);
    }
    *bytes += local_bytes(e, i);
}

/* Locals go to shared memory in order while they fit. */
static void place_locals(struct cuda_emitter *e, struct str *out)
{
    const struct nest *nest = e->nest;
    struct str scratch = STR(e->arena);
    if (e->folds && e->team > CUDA_WARP) {
        place_shared(e, out, "", "double", "folded", e->team / CUDA_WARP);
        e->kernel.shared_bytes = sizeof(double) * e->kernel.threads / CUDA_WARP;
    }
    bool dynamic = has_dynamic(e);
    for (uint32_t i = nest->argument_count; i < nest->buffers.count; i++) place_local(e, i, dynamic, out, &scratch);
    if (e->kernel.scratch_bytes)
        str_addf(out, "    unsigned char *block = scratch + (long long)blockIdx.x * %llull;\n%s",
                 (unsigned long long)e->kernel.scratch_bytes, str_text(&scratch));
}

static void print_buffers(struct cuda_emitter *e, const char *first)
{
    for (uint32_t i = 0; i < e->nest->argument_count; i++) {
        const struct nest_buffer *buffer = &e->nest->buffers.items[i];
        const char *type = cuda_memory_type((enum ir_dtype)buffer->dtype), *kept = buffer->written ? "" : "const ";
        cuda_line(e, "%s%s *const b%u = (%s%s *)stepc_global(table.word[%s + %u]);", kept, type, i, kept, type, first,
                  i);
    }
}

/* What follows the buffers, in the order of step_abi.h. The flag is set by several threads, and launches, at once: of
 * accesses that are not volatile that would be a race, which PTX leaves undefined. */
static void print_rest(struct cuda_emitter *e)
{
    str_addf(e->out, "%s%s", e->kernel.scratch_bytes ? ", unsigned char *scratch" : "",
             e->kernel.checks ? ", volatile unsigned *flag" : "");
    for (uint32_t i = 0; i < e->calls->number_count; i++) str_addf(e->out, ", unsigned number_%u", i);
    str_add(e->out, ")\n{\n");
}

/* Which member of a table the block is of, and that one's buffers. */
static void print_members(struct cuda_emitter *e)
{
    const struct nest *nest = e->nest;
    uint32_t stride = nest->argument_count + STEPC_CUDA_MEMBER_WORDS;
    str_addf(e->out, "(const __grid_constant__ stepc_table<%u> table", 1 + e->kernel.members * stride);
    print_rest(e);
    cuda_line(e, "const stepc_member member = stepc_find_member(table.word, %u);", stride);
    print_buffers(e, "member.at");
    cuda_line(e, "const long long lo = 0, hi = member.extent;");
    e->block = "member.block", e->blocks = "member.blocks";
}

static bool is_read(struct nest_stmt *const *items, size_t count, uint32_t argument)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        if ((s->kind == NEST_LOAD || s->kind == NEST_ADD_TO) && s->buffer == argument) return true;
        if (s->kind == NEST_COPY && s->from[0] == argument) return true;
        if (is_read(s->body.items, s->body.count, argument)) return true;
    }
    return false;
}

/* Shares memory with no other argument. What is stored and read again, maybe by another thread behind a barrier, is
 * none: a compiler takes what it stores by such a pointer for what it would read. */
static bool is_alone(const struct cuda_emitter *e, uint32_t argument)
{
    return e->calls->shares && !e->calls->shares[argument] &&
           !(e->nest->buffers.items[argument].written && is_read(e->nest->body.items, e->nest->body.count, argument));
}

static bool has_tile(const struct cuda_emitter *e)
{
    for (uint32_t i = 0; i < e->nest->reg_count; i++)
        if (e->regs[i].lanes && e->regs[i].count > 1) return true;
    return false;
}

/* What no other argument shares memory with may be read and written in any order beside these. */
static void print_parameters(struct cuda_emitter *e)
{
    const struct nest *nest = e->nest;
    str_add(e->out, "(");
    for (uint32_t i = 0; i < nest->argument_count; i++) {
        const struct nest_buffer *buffer = &nest->buffers.items[i];
        str_addf(e->out, "%s%s *%sb%u, ", buffer->written ? "" : "const ",
                 cuda_memory_type((enum ir_dtype)buffer->dtype), is_alone(e, i) ? "__restrict__ " : "", i);
    }
    str_add(e->out, "long long lo, long long hi");
    print_rest(e);
    for (uint32_t i = 0; i < nest->argument_count; i++)
        if (is_alone(e, i) && nest->buffers.items[i].written && has_tile(e)) cuda_line(e, "stepc_escape(b%u);", i);
    e->block = "blockIdx.x", e->blocks = "gridDim.x";
}

/* While the threads of a block wait for memory or for each other, the unit of products has work of another block, if
 * their registers allow two. */
static const char *least_blocks(const struct cuda_emitter *e)
{
    bool panels = false;
    uint32_t sums = 0;
    for (uint32_t i = e->nest->argument_count; i < e->nest->buffers.count; i++)
        panels = panels || e->nest->buffers.items[i].swizzle;
    for (uint32_t i = 0; i < e->nest->reg_count; i++) sums = e->regs[i].count > sums ? e->regs[i].count : sums;
    return !panels ? "" : e->kernel.threads * sums > CUDA_REGISTERS / 4 ? ", 1" : ", 2";
}

void cuda_open_kernel(struct cuda_emitter *e)
{
    struct str locals = STR(e->arena);
    place_locals(e, &locals);
    str_addf(e->out, "extern \"C\" __global__ void __launch_bounds__(%u%s) %s", e->kernel.threads, least_blocks(e),
             e->kernel.name);
    if (e->kernel.members) print_members(e);
    else print_parameters(e);
    str_add(e->out, str_text(&locals));
    if (e->kernel.teams == 1) {
        cuda_line(e, "const unsigned thread = threadIdx.x;");
    } else {
        cuda_line(e, "const unsigned thread = threadIdx.x %% %u;", e->team);
        e->block = arena_format(e->arena, "(long long)%s * %u + threadIdx.x / %u", e->block, e->kernel.teams, e->team);
        e->blocks = arena_format(e->arena, "(long long)%s * %u", e->blocks, e->kernel.teams);
    }
    if (e->kernel.checks) cuda_line(e, "bool bad = false;");
}

/* Members one after the other, beginning with another team each, so that small ones are done at once. */
void cuda_open_part(struct cuda_emitter *e)
{
    struct str locals = STR(e->arena);
    place_locals(e, &locals);
    if (e->kernel.scratch_bytes) BUG("a part of a sequence whose locals shared memory does not hold");
    if (e->kernel.threads < CUDA_SEQUENCE_THREADS)
        cuda_open_brace(e, arena_format(e->arena, "if (threadIdx.x < %u)", e->kernel.threads));
    uint32_t per = e->nest->argument_count + STEPC_CUDA_MEMBER_WORDS, teams = e->kernel.teams;
    uint32_t rest = e->kernel.members ? 1 + e->kernel.members * per : per;
    const char *team = arena_format(e->arena, "threadIdx.x / %u", e->team);
    cuda_line(e, "const unsigned thread = threadIdx.x %% %u;", e->team);
    if (e->kernel.checks) {
        cuda_line(e, "volatile unsigned *const flag = (unsigned *)stepc_global(table.word[at + %u]);", rest);
        cuda_line(e, "bool bad = false;");
    }
    for (uint32_t i = 0; i < e->kernel.number_count; i++)
        cuda_line(e, "const unsigned number_%u = (unsigned)table.word[at + %u];", i, rest + e->kernel.checks + i);
    str_add(e->out, str_text(&locals));
    if (e->kernel.members) {
        cuda_open_brace(e, "for (unsigned member = 0; member < table.word[at]; member++)");
        cuda_line(e, "const unsigned first = at + 1 + member * %u;", per);
        print_buffers(e, "first");
        cuda_line(e, "const long long lo = 0, hi = (long long)table.word[first + %u];", e->nest->argument_count);
        if (teams > 1) team = arena_format(e->arena, "(%s + member) %% %u", team, teams);
    } else {
        print_buffers(e, "at");
        cuda_line(e, "const long long lo = 0, hi = (long long)table.word[at + %u];", e->nest->argument_count + 1);
    }
    e->block = teams > 1 ? arena_format(e->arena, "(%s)", team) : "0";
    e->blocks = arena_format(e->arena, "%u", teams);
}
