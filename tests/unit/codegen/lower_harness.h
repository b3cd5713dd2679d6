/* Runs a function the long way, fuse, schedule, memory plan, nests, interpreter of nests, in the memory that the plan
 * lays out, with every parallel loop cut in two, and compares with the interpreter of the IR. */
#ifndef LOWER_HARNESS_H
#define LOWER_HARNESS_H
#include "codegen/codegen.h"
#include "passes/pass.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Multiplications of a product whose nest is interpreted: with ASan a large one takes as long as all the others. */
#ifdef __SANITIZE_ADDRESS__
#define MOST_WORK ((int64_t)1 << 19)
#else
#define MOST_WORK INT64_MAX
#endif

struct fixture {
    struct ir_module *m;
    struct ir_builder b;
    uint32_t inputs, outputs;
    bool fast; /* --numerics fast */
};

static inline struct fixture fixture_new(void)
{
    struct fixture x = {.m = ir_module_new("test")};
    x.m->stage = IR_AT_SPMD;
    x.b.f = ir_func_new(x.m, "step", true);
    return x;
}

static inline struct ir_type type_of(enum ir_dtype dtype, uint32_t rank, const int64_t *dim)
{
    return ir_type_of(dtype, rank, dim);
}
#define DIMS(...) (sizeof((int64_t[]){__VA_ARGS__}) / 8), ((const int64_t[]){__VA_ARGS__})
#define F32(...) type_of(IR_F32, DIMS(__VA_ARGS__))
#define I32(...) type_of(IR_I32, DIMS(__VA_ARGS__))

static inline int32_t fixture_slot(struct fixture *x, enum ir_role role, const char *name, struct ir_type type)
{
    return (int32_t)ir_slot_new(x->m,
                                (struct ir_slot){.name = arena_string(&x->m->arena, name), .role = role, .type = type});
}

static inline ir_value fixture_param(struct fixture *x, enum ir_role role, struct ir_type type)
{
    const char *name = arena_format(&x->m->arena, "in%u", x->inputs++);
    return ir_param_new(&x->b, name, type, fixture_slot(x, role, name, type));
}
static inline ir_value input(struct fixture *x, struct ir_type type) { return fixture_param(x, IR_ROLE_INPUT, type); }
static inline ir_value parameter(struct fixture *x, struct ir_type type)
{
    return fixture_param(x, IR_ROLE_PARAM, type);
}

static inline void output(struct fixture *x, ir_value v)
{
    const char *name = arena_format(&x->m->arena, "out%u", x->outputs++);
    ir_result_add(&x->b, name, v, fixture_slot(x, IR_ROLE_OUTPUT, name, *ir_type(x->b.f, v)));
}
static inline ir_value number_like(struct fixture *x, ir_value v, double n) { return ir_number_like(&x->b, v, n); }
/* The taps of convolutions, concatenated: in one and two dimensions, with strides, dilation and groups, and a few that
 * are not regular. */
static inline ir_value taps_of(struct fixture *x, ir_value a, int64_t rows, int64_t columns, int64_t by, int64_t apart,
                               int64_t groups)
{
    const struct ir_type t = *ir_type(x->b.f, a);
    ir_value list[16];
    uint32_t n = 0;
    int64_t high = (t.dim[1] - (rows - 1) * apart - 1) / by, wide = (t.dim[2] - (columns - 1) * apart - 1) / by,
            stride[] = {1, by, by, 1};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            int64_t start[] = {0, r * apart, c * apart, 0},
                    limit[] = {t.dim[0], r * apart + high * by + 1, c * apart + wide * by + 1, t.dim[3]};
            list[n] = ir_slice(&x->b, a, start, limit, stride);
            if (groups > 1)
                list[n] = ir_reshape(&x->b, list[n], DIMS(t.dim[0], high + 1, wide + 1, 1, groups, t.dim[3] / groups));
            n++;
        }
    return ir_concat(&x->b, list, n, 3);
}

/* A new value for the slot of a parameter. */
static inline void update(struct fixture *x, ir_value param, ir_value v)
{
    for (size_t i = 0; i < x->b.f->params.count; i++)
        if (x->b.f->params.items[i].value == param)
            ir_result_add(&x->b, x->b.f->params.items[i].name, v, x->b.f->params.items[i].slot);
}

/* Bytes of a vector: threads of a block; 64, and a matrix unit; 64, and pairs of bfloat16. */
enum { TEST_GPU = 512, TEST_TILES = 65, TEST_PAIRS = 66 };
static inline struct cg_target test_target(uint32_t vector_bytes)
{
    bool pairs = vector_bytes == TEST_TILES || vector_bytes == TEST_PAIRS;
    return (struct cg_target){.cpu = "test",
                              .cuda = vector_bytes == TEST_GPU,
                              .features = "",
                              .pairs = pairs,
                              .tiles = vector_bytes == TEST_TILES,
                              .vector_bytes = pairs ? 64 : vector_bytes,
                              .vector_registers = vector_bytes == 64 || pairs ? 32 : 16,
                              .l1_bytes = 32768,
                              .l2_bytes = 1 << 20};
}

struct planned {
    struct pass pass;
    struct arena keep, diag_arena;
    struct diags diags;
    struct plan_module *plans;
    struct pass_options options;
};

static inline void plan_module(struct planned *p, struct ir_module *m, struct pass_options options)
{
    memset(p, 0, sizeof *p);
    p->options = options;
    p->diags.arena = &p->diag_arena;
    p->pass.keep = &p->keep;
    p->pass.diags = &p->diags;
    p->pass.options = &p->options;
    struct ir_module *(*const passes[])(struct pass *, struct ir_module *) = {pass_decompose, pass_fuse, pass_schedule,
                                                                              pass_memplan};
    struct ir_module *given = m;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        struct ir_module *before = m;
        m = passes[i](&p->pass, before);
        if (m != before && before != given) ir_module_free(before);
    }
    p->plans = m->plans;
}

/* Frees the plans and the module that the passes made. */
static inline void drop_plans(struct planned *p)
{
    ir_module_free(p->plans->module);
    arena_free(&p->keep);
    arena_free(&p->pass.scratch);
    arena_free(&p->diag_arena);
}

static inline uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static inline struct ir_tensor random_tensor(struct ir_type type, int64_t limit, uint64_t *state, struct arena *a)
{
    int64_t n = ir_type_elements(&type);
    struct ir_tensor t = {type, arena_new_array(a, double, n + 1)};
    for (int64_t i = 0; i < n; i++) {
        double r = (double)(next_random(state) % 4001) / 1000 - 2;
        t.v[i] = type.dtype == IR_BF16                          ? floor(64 * r) / 64
                 : ir_dtype_is_float((enum ir_dtype)type.dtype) ? (double)(float)r
                 : type.dtype == IR_BOOL                        ? (double)(next_random(state) & 1)
                                         : (double)(next_random(state) % (uint64_t)(limit ? limit : 10));
    }
    return t;
}

/* ---------------------------------------------------------------- carrying out a plan */

struct executor {
    const struct plan *plan;
    const struct plan_module *pm;
    struct cg_kernel *kernels;
    unsigned char *arena, *state, *result;
    void **input; /* by slot */
    struct arena *a;
};

static inline void *address_of(struct executor *x, uint32_t b)
{
    const struct plan_buffer *p = &x->plan->buffers.items[b];
    switch (p->space) {
    case PLAN_ARENA: return x->arena + p->offset;
    case PLAN_NEXT:
    case PLAN_SLOT: return x->state + p->offset;
    case PLAN_METRIC: return x->result + p->offset;
    case PLAN_INPUT: return x->input[p->slot];
    case PLAN_CONSTANT: return (void *)(uintptr_t)p->data;
    case PLAN_DEVICE: return NULL;
    }
    return NULL;
}

static inline void execute_member(struct executor *x, const struct plan_command *c, uint32_t member)
{
    void *buffers[128];
    size_t bytes[128], n = 0;
    uint32_t group = plan_member(c, member);
    size_t inputs = x->plan->groups.items[group].inputs.count, outputs = x->plan->groups.items[group].outputs.count;
    ck_assert_uint_lt(inputs + outputs, 128);
    for (size_t i = 0; i < inputs + outputs; i++) {
        uint32_t b = i < inputs ? c->reads.items[member * inputs + i] : c->writes.items[member * outputs + i - inputs];
        buffers[n] = address_of(x, b);
        bytes[n++] = x->plan->buffers.items[b].bytes;
    }
    const struct nest *nest = x->kernels[group].nest;
    int64_t half = nest->parallel_extent / 2 / nest->grain * nest->grain;
    struct arena scratch = {0};
    bool ok = true;
    if (half > 0) /* the second half first: no iteration may rely on another */
        ok = nest_eval(nest, buffers, bytes, half, nest->parallel_extent, &scratch);
    ok = nest_eval(nest, buffers, bytes, 0, half > 0 ? half : nest->parallel_extent, &scratch) && ok;
    arena_free(&scratch);
    if (!ok) {
        struct str text = STR(x->a);
        nest_print(nest, &text);
        ck_abort_msg("an index is out of bounds in\n%s", str_text(&text));
    }
}

static inline void execute_kernel(struct executor *x, const struct plan_command *c)
{
    for (uint32_t m = plan_members(c); m-- > 0;) /* none may rely on another */
        execute_member(x, c, m);
}

static inline void execute(struct executor *x)
{
    const struct plan *plan = x->plan;
    for (uint32_t c = 0; c < plan->commands.count; c++) {
        const struct plan_command *k = &plan->commands.items[c];
        if (k->kind == PLAN_KERNEL) {
            execute_kernel(x, k);
            continue;
        }
        ck_assert(k->kind == PLAN_LOOP_BEGIN || k->kind == PLAN_LOOP_END);
        int32_t *counter = address_of(x, k->counter), limit = *(int32_t *)address_of(x, k->limit);
        *counter = k->kind == PLAN_LOOP_BEGIN ? 0 : *counter + 1;
        bool go = *counter < limit && (k->flag == UINT32_MAX || *(unsigned char *)address_of(x, k->flag));
        if (k->kind == PLAN_LOOP_BEGIN ? !go : go) c = k->other;
    }
}

static inline void dump_plan(const struct planned *p, const struct cg_kernel *kernels)
{
    struct arena a = {0};
    struct str text = STR(&a);
    const struct plan *plan = p->plans->plans.items[0];
    ir_print(p->plans->module, &text);
    for (size_t i = 0; i < plan->groups.count; i++) {
        str_addf(&text, "group %zu kind %d:", i, plan->groups.items[i].kind);
        for (size_t j = 0; j < plan->groups.items[i].nodes.count; j++)
            str_addf(&text, " %u", plan->groups.items[i].nodes.items[j]);
        str_add(&text, "\n");
        if (kernels) nest_print(kernels[i].nest, &text);
    }
    fprintf(stderr, "%s", str_text(&text));
    arena_free(&a);
}

static inline bool has(const struct nest *nest, const char *word)
{
    struct arena a = {0};
    struct str text = STR(&a);
    nest_print(nest, &text);
    bool found = strstr(str_text(&text), word) != NULL;
    arena_free(&a);
    return found;
}

/* Kernels of all tests that multiply in tiles, in pairs, by points, or make several neighbours in a vector loop. */
static uint32_t with_tiles, with_pairs, with_points, with_neighbours;

static inline enum ir_op group_op(const struct plan *plan, size_t group)
{
    const struct plan_group *g = &plan->groups.items[group];
    return g->root ? (enum ir_op)ir_get(g->func, g->root)->op : IR_NONE;
}

/* Set: plans are lowered, but carried out only by another program with the same cases. */
static bool lowered_alone;

/* The plan's results equal the interpreter's, within `tolerance` relative to the largest value of each result. */
static inline void check_lowering(struct fixture *x, uint32_t vector_bytes, double tolerance, int64_t limit)
{
    struct planned p;
    struct arena a = {0};
    struct str faults = STR(&a);
    ck_assert_msg(ir_verify(x->m, &faults), "%s", str_text(&faults));
    struct cg_target target = test_target(vector_bytes);
    struct pass_options options = {0};
    if (target.pairs)
        options = (struct pass_options){
            .panel_columns = cg_panel_columns(&target), .panel_pairs = true, .tap_pairs = !target.tiles};
    if (vector_bytes == TEST_GPU) options.blocks = CG_CUDA_BLOCKS;
    else if (x->fast) options.fast = true, options.panel_columns = cg_panel_columns(&target);
    plan_module(&p, x->m, options);
    const struct plan *plan = p.plans->plans.items[0];
    struct cg_kernel *kernels = arena_new_array(&a, struct cg_kernel, plan->groups.count);
    bool lowered = cg_lower(p.plans, plan, &target, &a, &p.diags, kernels);
    ck_assert_msg(lowered, "%s", p.diags.list.count ? p.diags.list.items[0].message : "not lowered");
    for (size_t i = 0; i < plan->groups.count; i++) {
        with_tiles += has(kernels[i].nest, "tiles b");
        with_neighbours += plan->groups.items[i].kind == GROUP_MAP && has(kernels[i].nest, "unroll");
        with_points += group_op(plan, i) == OP_winograd || group_op(plan, i) == OP_winograd_sum;
        with_pairs += has(kernels[i].nest, " = fma") && has(kernels[i].nest, " pair");
    }
    if (getenv("STEPC_TEST_DUMP")) dump_plan(&p, kernels);
    if (lowered_alone) {
        arena_free(&a);
        drop_plans(&p);
        return;
    }
    uint64_t state = 7;
    const struct ir_func *f = plan->func;
    struct executor e = {.plan = plan, .pm = p.plans, .kernels = kernels, .a = &a};
    e.arena = arena_alloc(&a, plan->arena_bytes + 64);
    e.state = arena_alloc(&a, p.plans->state_bytes + 64);
    e.result = arena_alloc(&a, p.plans->result_bytes + 64);
    e.input = arena_new_array(&a, void *, p.plans->module->slots.count);
    memset(e.arena, 0xff, plan->arena_bytes);
    struct ir_tensor *params = arena_new_array(&a, struct ir_tensor, f->params.count + 1);
    struct ir_tensor *results = arena_new_array(&a, struct ir_tensor, f->results.count + 1);
    for (size_t i = 0; i < f->params.count; i++) {
        const struct ir_param *q = &f->params.items[i];
        params[i] = random_tensor(q->type, limit, &state, &a);
        size_t bytes = (size_t)ir_type_elements(&q->type) * ir_dtype_bytes((enum ir_dtype)q->type.dtype);
        if (p.plans->module->slots.items[q->slot].role == IR_ROLE_INPUT) e.input[q->slot] = arena_alloc(&a, bytes + 1);
        ir_tensor_to_bytes(&params[i], e.input[q->slot] ? e.input[q->slot] : e.state + p.plans->slot_offset[q->slot]);
    }
    execute(&e);
    ir_eval(f, IR_EVAL_EXACT_DTYPES, params, results, &a);
    for (size_t i = 0; i < f->results.count; i++) {
        int32_t slot = f->results.items[i].slot;
        enum ir_role role = p.plans->module->slots.items[slot].role;
        unsigned char *block = role == IR_ROLE_OUTPUT ? e.result : e.state;
        struct ir_tensor got = {.type = results[i].type};
        ir_tensor_from_bytes(&got, block + p.plans->slot_offset[slot], &a);
        double largest = 1e-30;
        int64_t n = ir_type_elements(&got.type);
        for (int64_t j = 0; j < n; j++) largest = fmax(largest, isfinite(results[i].v[j]) ? fabs(results[i].v[j]) : 0);
        for (int64_t j = 0; j < n; j++) {
            bool same = got.v[j] == results[i].v[j] || (isnan(got.v[j]) && isnan(results[i].v[j])) ||
                        fabs(got.v[j] - results[i].v[j]) <= tolerance * largest;
            if (!same) dump_plan(&p, kernels);
            ck_assert_msg(same, "result %zu element %lld: %.9g, expected %.9g", i, (long long)j, got.v[j],
                          results[i].v[j]);
        }
    }
    arena_free(&a);
    drop_plans(&p);
}

/* For vectors of 64 and of 16 bytes, or of 32; the fixture is gone then. */
#define CHECK_BOTH(x, tolerance, limit) \
    (check_lowering(&(x), 64, tolerance, limit), check_lowering(&(x), 16, tolerance, limit), ir_module_free((x).m))
#define CHECK_32(x, tolerance, limit) (check_lowering(&(x), 32, tolerance, limit), ir_module_free((x).m))
#endif
