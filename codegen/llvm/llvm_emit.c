/* Prints loop nests as explicit vector LLVM IR. Nothing is left to LLVM's vectorisers: a vector loop becomes whole
 * vectors (several per iteration where the body is small, with partial sums of their own) and one masked tail; where
 * the extent is known there is no dead tail. No fast-math anywhere: the result does not depend on the
 * optimisation level. */
#include "codegen/llvm/llvm_emit.h"
#include <string.h>

/* ---------------------------------------------------------------- module and functions */

void emit_begin(struct emit *e, const struct cg_target *target, struct arena *arena, LLVMContextRef context,
                LLVMModuleRef module)
{
    memset(e, 0, sizeof *e);
    e->arena = arena;
    e->target = target;
    e->context = context;
    e->module = module;
    e->b = LLVMCreateBuilderInContext(context);
    e->allocas = LLVMCreateBuilderInContext(context);
    e->i1 = LLVMInt1TypeInContext(context);
    e->i8 = LLVMInt8TypeInContext(context);
    e->i16 = LLVMInt16TypeInContext(context);
    e->i32 = LLVMInt32TypeInContext(context);
    e->i64 = LLVMInt64TypeInContext(context);
    e->f16 = LLVMHalfTypeInContext(context);
    e->f32 = LLVMFloatTypeInContext(context);
    e->f64 = LLVMDoubleTypeInContext(context);
    e->ptr = LLVMPointerTypeInContext(context, 0);
    e->has_fma = target->vector_bytes >= 32 && !target->invariant;
    e->has_f16c = target->vector_bytes >= 32;
}

void emit_end(struct emit *e)
{
    LLVMDisposeBuilder(e->b);
    LLVMDisposeBuilder(e->allocas);
}

static void attribute(struct emit *e, const char *key, const char *value)
{
    LLVMAttributeRef a = LLVMCreateStringAttribute(e->context, key, (unsigned)strlen(key), value,
                                                   (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(e->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

void emit_attribute(const struct emit *e, LLVMValueRef function, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->context, kind, 0));
}

LLVMValueRef emit_function(struct emit *e, const char *name, LLVMTypeRef type)
{
    e->function = LLVMAddFunction(e->module, name, type);
    e->nothing = NULL;
    LLVMSetLinkage(e->function, LLVMInternalLinkage);
    emit_attribute(e, e->function, "nounwind");
    /* Some CPUs prefer half their vectors; the lanes of our vectors are chosen already. */
    const char *width = e->target->vector_bytes == 64 ? "512" : e->target->vector_bytes == 32 ? "256" : "128";
    attribute(e, "prefer-vector-width", width);
    attribute(e, "min-legal-vector-width", width);
    if (e->target->tune) attribute(e, "tune-cpu", e->target->tune);
    LLVMPositionBuilderAtEnd(e->allocas, emit_block(e));
    LLVMPositionBuilderAtEnd(e->b, emit_block(e));
    return e->function;
}

void emit_function_end(struct emit *e, LLVMValueRef scratch)
{
    if (scratch) emit_flag(e, scratch);
    ASSERT(!e->check_count);
    LLVMBuildRetVoid(e->b);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(e->function);
    LLVMBuildBr(e->allocas, LLVMGetNextBasicBlock(entry));
}

static LLVMTypeRef kernel_type(struct emit *e, const struct nest_stmt *const *numbers, uint32_t count)
{
    LLVMTypeRef types[4 + EMIT_MAX_NUMBERS] = {e->ptr, e->i64, e->i64, e->ptr};
    ASSERT(count <= EMIT_MAX_NUMBERS);
    for (uint32_t i = 0; i < count; i++) types[4 + i] = emit_register_type(e, numbers[i]->dtype, 0);
    return LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, 4 + count, 0);
}

LLVMTypeRef emit_kernel_type(struct emit *e) { return kernel_type(e, NULL, 0); }

LLVMValueRef emit_kernel(struct emit *e, const struct nest *nest, const char *name,
                         const struct nest_stmt *const *numbers, uint32_t count)
{
    LLVMValueRef function = emit_function(e, name, kernel_type(e, numbers, count));
    LLVMValueRef *buffers = arena_new_array(e->arena, LLVMValueRef, nest->argument_count + 1);
    for (uint32_t i = 0; i < nest->argument_count; i++)
        buffers[i] = LLVMBuildLoad2(e->b, e->ptr, emit_element(e, e->ptr, LLVMGetParam(function, 0), i), "");
    e->given = arena_new_array(e->arena, LLVMValueRef, nest->value_count + 1);
    for (uint32_t i = 0; i < count; i++) e->given[numbers[i]->result] = LLVMGetParam(function, 4 + i);
    emit_nest(e, nest, buffers, LLVMGetParam(function, 1), LLVMGetParam(function, 2), LLVMGetParam(function, 3));
    e->given = NULL;
    emit_function_end(e, LLVMGetParam(function, 3));
    return function;
}

LLVMValueRef emit_kernel_of(struct emit *e, LLVMValueRef body, const char *name, const struct nest_stmt *const *numbers,
                            uint32_t count)
{
    LLVMValueRef function = emit_function(e, name, kernel_type(e, NULL, 0)), args[4 + EMIT_MAX_NUMBERS];
    for (uint32_t i = 0; i < 4; i++) args[i] = LLVMGetParam(function, i);
    for (uint32_t i = 0; i < count; i++) args[4 + i] = emit_number(e, numbers[i]);
    LLVMValueRef call = LLVMBuildCall2(e->b, kernel_type(e, numbers, count), body, args, 4 + count, "");
    LLVMSetTailCall(call, 1);
    emit_function_end(e, NULL);
    return function;
}

/* ---------------------------------------------------------------- what must be known before printing */

static void survey_register(struct emit *e, const struct nest_stmt *s, bool in_vector, int64_t extent)
{
    struct emit_register *reg = &e->regs[s->reg];
    if (s->kind == NEST_REG) {
        reg->dtype = s->dtype;
        reg->count = (uint32_t)s->extent;
        reg->in_vector = in_vector;
        reg->lanes = s->lanes || in_vector;
        reg->copies = 1;
    } else if (s->kind == NEST_REDUCE && in_vector) {
        reg->lanes = true;
        reg->reduce = s->op;
    }
    /* A lane register read or set in a vector loop that it outlives holds one element per iteration. */
    if ((s->kind == NEST_GET || s->kind == NEST_SET) && in_vector && reg->lanes && !reg->in_vector) {
        ASSERT(extent >= 0);
        uint32_t vectors = (uint32_t)((extent + e->lanes - 1) / e->lanes);
        reg->tile = true;
        reg->copies = vectors > reg->copies ? vectors : reg->copies;
    }
}

static void survey(struct emit *e, struct nest_stmt *const *items, size_t count, bool in_vector, int64_t extent)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        if (s->kind == NEST_FOR) {
            bool vector = s->loop == NEST_VECTOR;
            survey(e, s->body.items, s->body.count, in_vector || vector, vector ? s->extent : extent);
        } else if (s->kind == NEST_IF) {
            survey(e, s->body.items, s->body.count, in_vector, extent);
        } else if (s->kind == NEST_REG || s->kind == NEST_GET || s->kind == NEST_SET || s->kind == NEST_REDUCE) {
            survey_register(e, s, in_vector, extent);
        }
    }
}

/* The longest vector loop, INT64_MAX where the extent is not known: short loops take narrower vectors. */
static int64_t longest_vector(struct nest_stmt *const *items, size_t count)
{
    int64_t longest = 1;
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        int64_t here = s->kind == NEST_FOR && s->loop == NEST_VECTOR ? (s->extent < 0 ? INT64_MAX : s->extent)
                                                                     : longest_vector(s->body.items, s->body.count);
        longest = here > longest ? here : longest;
    }
    return longest;
}

static uint32_t choose_lanes(const struct emit *e, const struct nest *nest, int64_t flat_extent)
{
    uint32_t most = e->target->vector_bytes / 4, lanes = 2;
    int64_t longest = longest_vector(nest->body.items, nest->body.count);
    if (longest == INT64_MAX && flat_extent >= 0) longest = flat_extent;
    while (lanes < most && (int64_t)lanes < longest) lanes *= 2;
    return lanes;
}

/* ---------------------------------------------------------------- vector loops */

static void print_body(struct emit *e, struct nest_stmt *const *items, size_t count);

struct vector_loop {
    const struct nest_stmt *stmt;
    uint32_t copies;              /* vectors per iteration of the main loop */
    uint32_t sums[16], sum_count; /* registers that get partial sums per copy */
    bool tile;
    bool crowded; /* more such registers than `sums` holds: one vector at a time, no partial sums */
    bool reads;   /* something from memory */
    bool lengthy; /* so much code that it is printed once, with a mask, where the extent is not known */
};

enum { LENGTHY = 1500, LENGTHY_DRAW = 300 }; /* of instructions, roughly; of what reads nothing, as initial values */

/* Instructions that a statement becomes, roughly. */
static uint32_t weight_of(const struct nest_stmt *s)
{
    if (s->kind == NEST_CHECK) return 0; /* whether there are some decides nothing */
    if (s->kind != NEST_OP) return 1;
    const struct ir_op_info *op = &ir_ops[s->op];
    return op->cost >= 60 ? 100 : op->cost >= 40 ? 50 : op->args == 1 && op->cost > 1 ? 20 : 2;
}

/* How much code an iteration is, and which registers it reduces into. */
static uint32_t weigh(struct emit *e, struct nest_stmt *const *items, size_t count, struct vector_loop *loop)
{
    uint32_t weight = 0;
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        bool outer_register = (s->kind == NEST_REDUCE || s->kind == NEST_GET || s->kind == NEST_SET) &&
                              e->regs[s->reg].lanes && !e->regs[s->reg].in_vector;
        if (outer_register && (e->regs[s->reg].tile || s->kind != NEST_REDUCE)) loop->tile = true;
        else if (outer_register) {
            bool seen = false;
            for (uint32_t k = 0; k < loop->sum_count; k++) seen = seen || loop->sums[k] == s->reg;
            if (!seen && loop->sum_count == 16) loop->crowded = true;
            else if (!seen) loop->sums[loop->sum_count++] = s->reg;
        }
        loop->reads |= s->kind == NEST_LOAD;
        weight += weight_of(s) + weigh(e, s->body.items, s->body.count, loop);
    }
    return weight;
}

static void plan_loop(struct emit *e, const struct nest_stmt *s, struct vector_loop *loop)
{
    *loop = (struct vector_loop){.stmt = s};
    uint32_t weight = weigh(e, s->body.items, s->body.count, loop), elements = 0;
    loop->copies = weight <= 10 ? 4 : weight <= 40 ? 2 : 1;
    loop->lengthy = weight > (loop->reads ? LENGTHY : LENGTHY_DRAW);
    for (uint32_t i = 0; i < loop->sum_count; i++) elements += e->regs[loop->sums[i]].count;
    while (loop->copies > 1 && loop->copies * elements > 12) loop->copies /= 2;
    if (loop->tile || loop->crowded) loop->copies = 1;
}

static void print_vector(struct emit *e, const struct vector_loop *loop, LLVMValueRef base, LLVMValueRef mask,
                         uint32_t copy)
{
    e->vars[loop->stmt->var] = (struct emit_variable){base, e->depth, true};
    e->extent = loop->stmt->extent;
    e->mask = mask;
    e->copy = copy;
    e->in_vector = true;
    e->depth++;
    print_body(e, loop->stmt->body.items, loop->stmt->body.count);
    e->depth--;
    e->in_vector = false;
    e->mask = NULL;
    e->copy = 0;
}

static LLVMValueRef plus(struct emit *e, LLVMValueRef x, int64_t y)
{
    return y ? LLVMBuildNSWAdd(e->b, x, emit_i64(e, y), "") : x;
}

static void open_sums(struct emit *e, const struct vector_loop *loop, uint32_t used)
{
    for (uint32_t i = 0; i < loop->sum_count; i++) {
        const struct emit_register *reg = &e->regs[loop->sums[i]];
        LLVMValueRef zero = emit_identity(e, reg->reduce, reg->dtype, e->lanes);
        for (uint32_t copy = 1; copy < used; copy++)
            for (int64_t k = 0; k < (int64_t)reg->count; k++)
                LLVMBuildStore(e->b, zero, emit_slot(e, loop->sums[i], k, copy));
    }
}

static void close_sums(struct emit *e, const struct vector_loop *loop, uint32_t used)
{
    for (uint32_t i = 0; i < loop->sum_count; i++) {
        const struct emit_register *reg = &e->regs[loop->sums[i]];
        for (int64_t k = 0; k < (int64_t)reg->count; k++) {
            LLVMValueRef v[EMIT_MAX_COPIES];
            for (uint32_t copy = 0; copy < used; copy++)
                v[copy] = emit_register_load(e, reg, emit_slot(e, loop->sums[i], k, copy));
            for (uint32_t step = 1; step < used; step *= 2)
                for (uint32_t copy = 0; copy + step < used; copy += 2 * step)
                    v[copy] = emit_combine(e, reg->reduce, reg->dtype, v[copy], v[copy + step]);
            LLVMBuildStore(e->b, v[0], emit_slot(e, loop->sums[i], k, 0));
        }
    }
}

static LLVMValueRef tail_mask(struct emit *e, LLVMValueRef left)
{
    LLVMValueRef live = LLVMBuildTrunc(e->b, left, e->i32, "");
    return LLVMBuildICmp(e->b, LLVMIntULT, emit_iota(e, e->i32, 1), emit_splat(e, live, e->lanes), "");
}

/* Rows whose next one is read while this one is on its way to the cache. */
enum { SHORT_ROW = 64 };

/* Extent known: whole iterations, then what is left printed straight. */
static void print_known(struct emit *e, struct vector_loop *loop, int64_t from, int64_t to)
{
    int64_t lanes = e->lanes, copies = loop->copies, vectors = (to - from) / lanes, tail = (to - from) % lanes;
    int64_t all = vectors + (tail != 0), rounds = vectors / copies;
    /* A short loop is printed straight, with as many partial sums as it has vectors. */
    bool straight = loop->tile || all <= copies;
    if (straight) rounds = 0;
    int64_t used = straight ? (all < EMIT_MAX_COPIES ? all : EMIT_MAX_COPIES) : copies;
    if (all == 0) return;
    if (!loop->tile) open_sums(e, loop, (uint32_t)used);
    int64_t at = from + rounds * copies * lanes;
    if (rounds == 1) {
        for (uint32_t copy = 0; copy < copies; copy++)
            print_vector(e, loop, emit_i64(e, from + copy * lanes), NULL, copy);
    } else if (rounds > 1) {
        struct emit_loop l = emit_loop_begin(e, emit_i64(e, from), emit_i64(e, at), copies * lanes, true);
        for (uint32_t copy = 0; copy < copies; copy++)
            print_vector(e, loop, plus(e, l.index, copy * lanes), NULL, copy);
        emit_loop_end(e, l);
    }
    uint32_t copy = 0;
    for (; at + lanes <= to; at += lanes, copy++) print_vector(e, loop, emit_i64(e, at), NULL, copy);
    if (tail) {
        e->short_tail = !loop->tile && to <= SHORT_ROW ? (uint32_t)tail : 0;
        print_vector(e, loop, emit_i64(e, at), tail_mask(e, emit_i64(e, tail)),
                     copy % (uint32_t)(loop->tile ? all : used));
        e->short_tail = 0;
    }
    if (!loop->tile) close_sums(e, loop, (uint32_t)used);
}

/* Extent not known: whole iterations, then the rest one masked vector at a time, which keeps the code short. */
static void print_unknown(struct emit *e, struct vector_loop *loop, LLVMValueRef from, LLVMValueRef to)
{
    int64_t lanes = e->lanes, round = lanes * loop->copies;
    ASSERT(!loop->tile);
    LLVMValueRef rest = from;
    if (!loop->lengthy) {
        LLVMValueRef count = LLVMBuildNSWSub(e->b, to, from, "");
        rest = LLVMBuildNSWAdd(e->b, from, LLVMBuildAnd(e->b, count, emit_i64(e, -round), ""), "");
        open_sums(e, loop, loop->copies);
        struct emit_loop l = emit_loop_begin(e, from, rest, round, false);
        for (uint32_t copy = 0; copy < loop->copies; copy++)
            print_vector(e, loop, plus(e, l.index, copy * lanes), NULL, copy);
        emit_loop_end(e, l);
        close_sums(e, loop, loop->copies);
    }
    struct emit_loop l = emit_loop_begin(e, rest, to, lanes, false);
    LLVMValueRef left = LLVMBuildNSWSub(e->b, to, l.index, "");
    if (loop->copies > 1 || loop->lengthy) /* more than a vector: all lanes */
        left = emit_call2(e, "llvm.smin", left, emit_i64(e, lanes));
    print_vector(e, loop, l.index, tail_mask(e, left), 0);
    emit_loop_end(e, l);
}

/* ---------------------------------------------------------------- long unrolled loops */

/* Registers want constant indices, so loops over them come unrolled. What follows a tile of a contraction may be long
 * and only reads the tile: it runs as a loop over a copy of the tile in memory, which is far less code. */
enum { LONG_UNROLL = 60, LONG_UNROLL_OF_REGISTERS = 160 };

struct body_survey {
    bool reads, other;
}; /* registers are read; something else is done to some */

/* Instructions in all when printed. */
static uint64_t printed(const struct emit *e, struct nest_stmt *const *items, size_t count,
                        struct body_survey *survey_of)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        const struct emit_register *reg = s->kind == NEST_GET ? &e->regs[s->reg] : NULL;
        if (s->kind == NEST_SET || s->kind == NEST_REDUCE || s->kind == NEST_REG || s->kind == NEST_FOLD ||
            (reg && (reg->in_vector || reg->copies != 1)))
            survey_of->other = true;
        survey_of->reads = survey_of->reads || reg;
        uint64_t times = s->kind == NEST_FOR && s->loop == NEST_UNROLL ? (uint64_t)s->extent : 1;
        sum += (s->kind == NEST_FOR ? 0 : weight_of(s)) + times * printed(e, s->body.items, s->body.count, survey_of);
    }
    return sum;
}

static bool is_long(const struct emit *e, const struct nest_stmt *s)
{
    struct body_survey found = {false, e->in_vector};
    uint64_t all = (uint64_t)s->extent * printed(e, s->body.items, s->body.count, &found);
    return s->extent > 1 && !found.other && all > (found.reads ? LONG_UNROLL_OF_REGISTERS : LONG_UNROLL);
}

/* Copies what the body reads; the registers concerned are marked in `mine`, which the loop's end takes back. */
static void spill(struct emit *e, struct nest_stmt *const *items, size_t count, bool *mine)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        struct emit_register *reg = s->kind == NEST_GET ? &e->regs[s->reg] : NULL;
        spill(e, s->body.items, s->body.count, mine);
        if (!reg || reg->spilled) continue;
        LLVMTypeRef type = emit_register_type(e, reg->dtype, reg->lanes ? e->lanes : 0);
        reg->spilled = LLVMBuildAlloca(e->allocas, LLVMArrayType(type, reg->count), "");
        mine[s->reg] = true;
        for (int64_t k = 0; k < (int64_t)reg->count; k++) {
            LLVMValueRef at = emit_element(e, type, reg->spilled, k);
            LLVMBuildStore(e->b, emit_register_load(e, reg, emit_slot(e, s->reg, k, 0)), at);
        }
    }
}

static void print_long(struct emit *e, const struct nest_stmt *s)
{
    bool *mine = arena_new_array(e->arena, bool, e->nest->reg_count + 1);
    spill(e, s->body.items, s->body.count, mine);
    struct emit_loop l = emit_loop_begin(e, emit_i64(e, 0), emit_i64(e, s->extent), 1, true);
    e->vars[s->var].value = l.index;
    print_body(e, s->body.items, s->body.count);
    emit_loop_end(e, l);
    for (uint32_t i = 0; i < e->nest->reg_count; i++)
        if (mine[i]) e->regs[i].spilled = NULL;
}

/* ---------------------------------------------------------------- statements */

static void print_for(struct emit *e, const struct nest_stmt *s)
{
    bool runs = s->loop == NEST_PARALLEL || s->extent < 0;
    LLVMValueRef from = runs ? e->lo : emit_i64(e, 0), to = runs ? e->hi : emit_i64(e, s->extent);
    int64_t first = 0, last = 0;
    bool known = emit_known(from, &first) && emit_known(to, &last);
    if (known && first >= last) return;
    if (s->loop == NEST_VECTOR) {
        struct vector_loop loop;
        plan_loop(e, s, &loop);
        if (known) print_known(e, &loop, first, last);
        else print_unknown(e, &loop, from, to);
        return;
    }
    struct emit_variable *var = &e->vars[s->var];
    *var = (struct emit_variable){NULL, e->depth, false};
    e->depth++;
    if (s->loop == NEST_UNROLL && is_long(e, s)) {
        print_long(e, s);
    } else if (s->loop == NEST_UNROLL || (known && last - first == 1)) {
        for (int64_t i = first; i < last; i++) {
            var->value = emit_i64(e, i);
            print_body(e, s->body.items, s->body.count);
        }
    } else {
        struct emit_loop l = emit_loop_begin(e, from, to, 1, known);
        var->value = l.index;
        print_body(e, s->body.items, s->body.count);
        emit_loop_end(e, l);
    }
    e->depth--;
}

static void print_if(struct emit *e, const struct nest_stmt *s)
{
    ASSERT(!e->values[s->cond].varies);
    struct emit_branch branch = emit_if(e, e->values[s->cond].v);
    print_body(e, s->body.items, s->body.count);
    emit_endif(e, branch);
}

static void print_op(struct emit *e, const struct nest_stmt *s)
{
    LLVMValueRef args[4];
    bool varies = false;
    for (uint32_t i = 0; i < s->arg_count; i++) varies = varies || e->values[s->args[i]].varies;
    for (uint32_t i = 0; i < s->arg_count; i++) args[i] = emit_spread(e, &e->values[s->args[i]], varies);
    enum ir_dtype operand = e->values[s->args[s->op == OP_select ? 1 : 0]].dtype;
    for (uint32_t i = 0; i < s->arg_count && s->kind == NEST_OP && ir_ops[s->op].flags & IR_ROUNDS;
         i++) /* nest_wide.c */
        if (e->values[s->args[i]].dtype == IR_F32) operand = IR_F32;
    e->known = e->facts[s->result];
    LLVMValueRef v = s->kind != NEST_FMA ? emit_op(e, s->op, s->dtype, operand, s->word, args)
                     : operand == IR_U32 ? emit_fma_pairs(e, args[0], args[1], args[2])
                                         : emit_round_to(e, s->dtype, emit_fma(e, args[0], args[1], args[2]));
    e->known = 0;
    e->values[s->result] = (struct emit_value){v, s->dtype, varies};
}

LLVMValueRef emit_number(struct emit *e, const struct nest_stmt *s)
{
    LLVMTypeRef type = emit_register_type(e, s->dtype, 0);
    if (ir_dtype_is_float(s->dtype)) return emit_round_to(e, s->dtype, emit_real(type, s->number));
    uint64_t bits = 0;
    ir_element_set(s->dtype, &bits, 0, s->number);
    return LLVMConstInt(type, bits, 0);
}

static void print_number(struct emit *e, const struct nest_stmt *s)
{
    LLVMValueRef v = e->given ? e->given[s->result] : NULL;
    e->values[s->result] = (struct emit_value){v ? v : emit_number(e, s), s->dtype, false};
}

static void print_stmt(struct emit *e, const struct nest_stmt *s)
{
    switch (s->kind) {
    case NEST_FOR: {
        struct emit_apart apart = emit_apart_begin(e, s);
        print_for(e, s);
        emit_apart_end(e, apart);
        break;
    }
    case NEST_IF: print_if(e, s); break;
    case NEST_OP:
    case NEST_FMA: print_op(e, s); break;
    case NEST_NUMBER: print_number(e, s); break;
    case NEST_POSITION: emit_position(e, s); break;
    case NEST_LOAD: emit_load(e, s); break;
    case NEST_STORE: emit_store(e, s); break;
    case NEST_PREFETCH: emit_prefetch(e, s); break;
    case NEST_ADD_TO: emit_add_to(e, s); break;
    case NEST_REG: emit_declare(e, s); break;
    case NEST_GET: emit_get(e, s); break;
    case NEST_SET: emit_set(e, s); break;
    case NEST_REDUCE: emit_reduce(e, s); break;
    case NEST_FOLD: emit_fold(e, s); break;
    case NEST_TURN: emit_turn(e, s); break;
    case NEST_SPREAD: emit_spread_lanes(e, s); break;
    case NEST_TILES: emit_tiles(e, s); break;
    case NEST_CHECK: emit_finite(e, s); break;
    case NEST_LOCAL: break;
    default: BUG("statement kind %d", (int)s->kind);
    }
}

static void print_body(struct emit *e, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) print_stmt(e, items[i]);
}

void emit_nest(struct emit *e, const struct nest *nest, const LLVMValueRef *buffers, LLVMValueRef lo, LLVMValueRef hi,
               LLVMValueRef scratch)
{
    int64_t first = 0, last = 0, flat_extent = -1;
    if (emit_known(lo, &first) && emit_known(hi, &last)) flat_extent = last - first;
    e->nest = nest;
    e->lo = lo;
    e->scratch = scratch;
    e->hi = hi;
    e->depth = 0;
    e->lanes = choose_lanes(e, nest, flat_extent);
    e->values = arena_new_array(e->arena, struct emit_value, nest->value_count + 1);
    e->vars = arena_new_array(e->arena, struct emit_variable, nest->var_count + 1);
    e->regs = arena_new_array(e->arena, struct emit_register, nest->reg_count + 1);
    e->buffers = arena_new_array(e->arena, LLVMValueRef, nest->buffers.count + 1);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < nest->buffers.count; i++) {
        const struct nest_buffer *buffer = &nest->buffers.items[i];
        if (!buffer->local) {
            e->buffers[i] = buffers[i];
            continue;
        }
        e->buffers[i] = emit_element(e, e->i8, scratch, (int64_t)offset);
        offset += ((uint64_t)buffer->extent * ir_dtype_bytes(buffer->dtype) + 63) / 64 * 64;
    }
    e->facts = emit_find_facts(e, flat_extent);
    survey(e, nest->body.items, nest->body.count, false, -1);
    emit_apart_survey(e);
    emit_tiles_begin(e);
    print_body(e, nest->body.items, nest->body.count);
    emit_tiles_end(e);
}
