/* A small entry as one function: its kernels' nests one after another with the ranges known, its loops as loops. Such a
 * step is run by one thread without barriers, so calls and tables of addresses would cost more than the work. The other
 * entries beside such a step run seldom: theirs call shared kernels, which is smaller than tables and what reads them.
 */
#include "codegen/llvm/llvm_emit.h"
#include "codegen/llvm/llvm_object.h"
#include <stepc/step_abi.h>
#include <string.h>

enum { WHOLE_LOOPS = 16 };
static const double whole_work = 2e6;               /* above this a team may help; operations as in nest.work */
enum { whole_commands = 256, whole_values = 8000 }; /* code size, and the time that it takes to make it */
enum {
    share_commands = 64
}; /* with more, kernels that come again are called, which shows less than it saves in code */

struct whole {
    struct emit *e;
    const struct plan *plan;
    const struct cg_kernel *kernels;
    void **functions;       /* by group: LLVMValueRef to call, NULL: the nest itself stands here; NULL: they all do */
    LLVMValueRef *pointers; /* by buffer, loaded once; with calls when needed */
    LLVMValueRef table, scratch, arguments, blocks[PLAN_SPACE_COUNT];
    struct {
        LLVMBasicBlockRef head, after;
        LLVMValueRef counter;
    } loops[WHOLE_LOOPS];
    uint32_t depth;
};

static double command_work(const struct plan_command *c, const struct cg_kernel *kernels)
{
    double work = 0;
    for (uint32_t m = 0; c->kind == PLAN_KERNEL && m < plan_members(c); m++)
        work += kernels[plan_member(c, m)].nest->work;
    return work;
}

uint64_t cg_plan_scratch(const struct plan *plan, const struct cg_kernel *kernels)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->groups.count; i++) {
        uint64_t here = kernels[i].nest->scratch_bytes;
        bytes = here > bytes ? here : bytes;
    }
    return bytes;
}

/* Iterations of a loop, 0 = not known. The host may end the one over microbatches early, so its commands stay apart. */
static double iterations(const struct plan_command *c)
{
    if (!c->func || !c->node) return 0;
    const struct ir_module *module = c->func->module;
    const struct ir_node *node = ir_get(c->func, c->node), *limit = ir_get(c->func, node->args[0]);
    const char *pointer = node->place < module->places.count ? module->places.items[node->place].pointer : NULL;
    if (pointer && strncmp(pointer, "/accumulate", 11) == 0) return 0;
    if (limit->op == OP_cast && ir_type(c->func, limit->args[0])->dtype == IR_BOOL) return 1; /* a branch */
    return limit->op == OP_constant && limit->type.dtype == IR_I32 && limit->data
               ? (double)*(const int32_t *)limit->data
               : 0;
}

/* Operations of an entry. Loops that run as often as data say, or deep inside of others, count once. */
double cg_plan_work(const struct plan *plan, const struct cg_kernel *kernels)
{
    double work = 0, times[WHOLE_LOOPS + 1] = {1};
    uint32_t depth = 0;
    for (size_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *c = &plan->commands.items[i];
        uint32_t at = depth < WHOLE_LOOPS ? depth : WHOLE_LOOPS;
        work += times[at] * command_work(c, kernels);
        if (c->kind == PLAN_LOOP_BEGIN && ++depth <= WHOLE_LOOPS) {
            double known = iterations(c);
            times[depth] = times[at] * (known > 0 ? known : 1);
        }
        depth -= c->kind == PLAN_LOOP_END;
    }
    return work;
}

bool cg_is_small(const struct plan *plan, const struct cg_kernel *kernels)
{
    uint32_t depth = 0, members = 0, values = 0;
    double work = 0, times[WHOLE_LOOPS + 1] = {1};
    for (size_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *c = &plan->commands.items[i];
        if (c->kind == PLAN_COLLECTIVE || (c->kind == PLAN_LOOP_BEGIN && depth == WHOLE_LOOPS)) return false;
        if (c->kind == PLAN_LOOP_BEGIN) {
            times[depth + 1] = times[depth] * iterations(c);
            if (times[++depth] <= 0) return false;
        }
        work += times[depth] * command_work(c, kernels);
        members += plan_members(c);
        for (uint32_t m = 0; c->kind == PLAN_KERNEL && m < plan_members(c); m++)
            values += kernels[plan_member(c, m)].nest->value_count;
        depth -= c->kind == PLAN_LOOP_END;
    }
    return members <= whole_commands && values <= whole_values && work < whole_work;
}

static LLVMValueRef load(const struct whole *w, uint32_t buffer)
{
    return LLVMBuildLoad2(w->e->b, w->e->ptr, emit_element(w->e, w->e->ptr, w->table, buffer), "");
}

static LLVMValueRef load_pointer(const struct whole *w, uint32_t buffer)
{
    const struct plan_buffer *b = &w->plan->buffers.items[buffer];
    if (w->pointers[buffer]) return w->pointers[buffer];
    if (w->blocks[b->space]) return emit_element(w->e, w->e->i8, w->blocks[b->space], (int64_t)b->offset);
    return load(w, buffer);
}

/* What lies in one block is addressed by its place there. Weights that a host may exchange for others are not. */
static void find_blocks(struct whole *w)
{
    bool exchanged = strcmp(w->plan->func->name, "eval") == 0 || strcmp(w->plan->func->name, "infer") == 0;
    for (uint32_t i = 0; i < w->plan->buffers.count; i++) {
        const struct plan_buffer *b = &w->plan->buffers.items[i];
        bool block = b->space != PLAN_INPUT && b->space != PLAN_DEVICE && (b->space != PLAN_SLOT || !exchanged);
        if (!block || w->blocks[b->space]) continue;
        w->blocks[b->space] = emit_element(w->e, w->e->i8, load(w, i), -(int64_t)b->offset);
    }
}

static LLVMValueRef load_i32(struct whole *w, uint32_t buffer)
{
    LLVMValueRef v = LLVMBuildLoad2(w->e->b, w->e->i32, load_pointer(w, buffer), "");
    LLVMSetAlignment(v, 4);
    return v;
}

static void begin_loop(struct whole *w, const struct plan_command *c)
{
    struct emit *e = w->e;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), head = emit_block(e), body = emit_block(e),
                      after = emit_block(e);
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, head);
    LLVMValueRef counter = LLVMBuildPhi(e->b, e->i32, ""), zero = LLVMConstInt(e->i32, 0, 0);
    LLVMAddIncoming(counter, &zero, &before, 1);
    LLVMBuildStore(e->b, counter, load_pointer(w, c->counter));
    LLVMValueRef go = LLVMBuildICmp(e->b, LLVMIntSLT, counter, load_i32(w, c->limit), "");
    if (c->flag != UINT32_MAX) {
        LLVMValueRef flag = LLVMBuildLoad2(e->b, e->i8, load_pointer(w, c->flag), "");
        go = LLVMBuildAnd(e->b, go, LLVMBuildICmp(e->b, LLVMIntNE, flag, LLVMConstNull(e->i8), ""), "");
    }
    LLVMBuildCondBr(e->b, go, body, after);
    LLVMPositionBuilderAtEnd(e->b, body);
    w->loops[w->depth].head = head;
    w->loops[w->depth].after = after;
    w->loops[w->depth++].counter = counter;
}

static void end_loop(struct whole *w)
{
    struct emit *e = w->e;
    w->depth--;
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b), after = w->loops[w->depth].after;
    LLVMValueRef counter = w->loops[w->depth].counter;
    LLVMValueRef next = LLVMBuildAdd(e->b, counter, LLVMConstInt(e->i32, 1, 0), "");
    LLVMAddIncoming(counter, &next, &latch, 1);
    LLVMBuildBr(e->b, w->loops[w->depth].head);
    LLVMMoveBasicBlockAfter(after, latch);
    LLVMPositionBuilderAtEnd(e->b, after);
}

/* The kernel's arguments as a table on the stack, as the runtime would have made it. */
static void call(struct whole *w, uint32_t group, const LLVMValueRef *args)
{
    struct emit *e = w->e;
    const struct nest *nest = w->kernels[group].nest;
    LLVMValueRef function = w->functions[group];
    for (uint32_t i = 0; i < nest->argument_count; i++)
        LLVMBuildStore(e->b, args[i], emit_element(e, e->ptr, w->arguments, i));
    LLVMValueRef all[] = {w->arguments, emit_i64(e, 0), emit_i64(e, nest->parallel_extent), w->scratch};
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(function), function, all, 4, "");
}

/* The next command, for the checks of values. */
static void count(struct emit *e, LLVMValueRef scratch)
{
    LLVMValueRef at = emit_element(e, e->i8, scratch, (int64_t)offsetof(struct stepc_watch, now) - STEPC_FLAG_BEFORE);
    LLVMValueRef now = LLVMBuildLoad2(e->b, e->i64, at, "");
    LLVMBuildStore(e->b, LLVMBuildAdd(e->b, now, emit_i64(e, 1), ""), at);
}

static void kernel(struct whole *w, const struct plan_command *c, uint32_t member)
{
    uint32_t group = plan_member(c, member), inputs = (uint32_t)w->plan->groups.items[group].inputs.count;
    const struct nest *nest = w->kernels[group].nest;
    if (w->e->target->sites) count(w->e, w->scratch);
    LLVMValueRef *args = arena_new_array(w->e->arena, LLVMValueRef, nest->argument_count + 1);
    uint32_t outputs = nest->argument_count - inputs;
    for (uint32_t i = 0; i < inputs; i++) args[i] = load_pointer(w, c->reads.items[member * inputs + i]);
    for (uint32_t i = 0; i < outputs; i++) args[inputs + i] = load_pointer(w, c->writes.items[member * outputs + i]);
    if (w->functions && w->functions[group]) call(w, group, args);
    else emit_nest(w->e, nest, args, emit_i64(w->e, 0), emit_i64(w->e, nest->parallel_extent), w->scratch);
}

/* In a long step: functions of the kernels that come several times; NULL: it is not long. */
static void **share_repeated(struct emit *e, const struct plan *plan, const struct cg_kernel *kernels)
{
    size_t count = plan->groups.count, members = 0;
    uint32_t *first = arena_new_array(e->arena, uint32_t, count + 1);
    void **functions = arena_new_array(e->arena, void *, count + 1);
    struct map known = MAP(e->arena);
    for (size_t i = 0; i < plan->commands.count; i++)
        members += plan->commands.items[i].kind == PLAN_KERNEL ? plan_members(&plan->commands.items[i]) : 0;
    if (members <= share_commands) return NULL;
    for (size_t g = 0; g < count; g++) {
        uint32_t same = map_get_number(&known, kernels[g].hash);
        first[g] = same == MAP_NONE ? (uint32_t)g : same;
        if (same == MAP_NONE) map_set_number(&known, kernels[g].hash, (uint32_t)g);
        else if (!functions[same])
            functions[same] = emit_kernel(e, kernels[same].nest, arena_format(e->arena, "shared.%u", same), NULL, 0);
    }
    for (size_t g = 0; g < count; g++) functions[g] = functions[first[g]];
    return functions;
}

void *cg_emit_whole(struct emit *e, const struct plan *plan, const struct cg_kernel *kernels, void **functions)
{
    if (!functions) functions = share_repeated(e, plan, kernels);
    LLVMTypeRef types[] = {e->ptr, e->ptr};
    LLVMValueRef function = emit_function(e, arena_format(e->arena, "whole.%s", plan->func->name),
                                          LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, 2, 0));
    struct whole w = {.e = e,
                      .plan = plan,
                      .kernels = kernels,
                      .functions = functions,
                      .table = LLVMGetParam(function, 0),
                      .scratch = LLVMGetParam(function, 1)};
    w.pointers = arena_new_array(e->arena, LLVMValueRef, plan->buffers.count + 1);
    uint32_t most = 1;
    for (size_t i = 0; functions && i < plan->groups.count; i++)
        most = kernels[i].nest->argument_count > most ? kernels[i].nest->argument_count : most;
    if (!functions) find_blocks(&w);
    bool called = functions != NULL;
    for (size_t i = 0; i < plan->groups.count; i++) called = called && functions[i];
    for (uint32_t i = 0; !called && i < plan->buffers.count; i++) w.pointers[i] = load_pointer(&w, i);
    if (functions) w.arguments = LLVMBuildAlloca(e->allocas, LLVMArrayType(e->ptr, most), "");
    for (size_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *c = &plan->commands.items[i];
        if (c->kind == PLAN_LOOP_BEGIN) begin_loop(&w, c);
        else if (c->kind == PLAN_LOOP_END) end_loop(&w);
        for (uint32_t m = 0; c->kind == PLAN_KERNEL && m < plan_members(c); m++) kernel(&w, c, m);
    }
    emit_function_end(e, w.scratch);
    return function;
}
