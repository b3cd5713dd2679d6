/* The nests of nest_samples.h as CUDA kernels, run on this CPU with their barriers and compared with the nest
 * interpreter; and compiled by NVRTC, where it is installed. */
#include "cuda_harness.h"
#include "nest_samples.h"
#include "tests/unit/suite.h"

static struct cuda_harness harness;
static uint32_t kernel_of[MAX_NESTS];

/* Sums of rows that three parallel loops walk, a part of their iterations; what the middle one has is computed in it.
 */
static void several_parallel(int64_t n, int64_t lo, int64_t hi)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_F32, false, "x"), y = nest_argument(&b, IR_F32, true, "y");
    b.nest->parallel_extent = 3 * 4 * 5;
    nest_var i = nest_open(&b, NEST_PARALLEL, 3), k = nest_open(&b, NEST_PARALLEL, 4);
    nest_value first = nest_load(&b, x, AT(&arena, 0, {i, 20 * n}, {k, 5 * n}), 0);
    nest_var m = nest_open(&b, NEST_PARALLEL, 5);
    uint32_t sum = nest_reg(&b, IR_F32, 1, true, 0);
    nest_var lane = nest_open(&b, NEST_VECTOR, n);
    nest_value args[2] = {nest_load(&b, x, AT(&arena, 0, {i, 20 * n}, {k, 5 * n}, {m, n}, {lane, 1}), 0), first};
    nest_reduce(&b, OP_max, sum, (struct nest_index){0}, nest_op(&b, OP_mul, IR_F32, args, 2));
    nest_close(&b);
    nest_value out = nest_fold(&b, OP_max, sum, (struct nest_index){0});
    nest_store(&b, y, AT(&arena, 0, {i, 20}, {k, 5}, {m, 1}), out, 0);
    nest_close_to(&b, 0);
    struct str faults = STR(&arena);
    ck_assert_msg(nest_verify(b.nest, &faults), "%s", str_text(&faults));
    ADD(&b, "several parallel loops", lo, hi, 4 * 60 * (size_t)n, 4 * 60);
}

static void print_all(void)
{
    if (harness.count) return;
    build_all();
    several_parallel(7, 0, 60);
    several_parallel(300, 9, 51);
    matrix_unit(IR_BF16, 1, 1);
    matrix_unit(IR_BF16, 2, 8);
    matrix_unit(IR_F16, 1, 4);
    for (int turned = 0; turned < 4; turned++) warpgroups(IR_BF16, 128, 32, turned & 1, turned & 2, 256);
    warpgroups(IR_F16, 256, 32, true, false, 128);
    warpgroups(IR_BF16, 256, 32, false, true, 256);
    for (int turned = 0; turned < 4; turned++)
        panels(IR_BF16, 64, 32, 2, 32, (const int64_t[]){turned & 1 ? 64 : 0, turned & 2 ? 64 : 0}, 128);
    panels(IR_F16, 32, 32, 1, 32, (const int64_t[]){64, 32}, 128);
    panels(IR_F16, 16, 64, 2, 64, (const int64_t[]){0, 64}, 128);
    warpgroups(IR_F16, 128, 64, true, true, 128);
    cuda_harness_init(&harness, &arena);
    for (size_t i = 0; i < sample_count; i++) kernel_of[i] = cuda_harness_add(&harness, samples[i].nest);
}

static size_t compare(struct cuda_harness *h, const struct sample *s, uint32_t kernel, bool backwards)
{
    struct memory got = make_memory(s), want = make_memory(s);
    size_t failures = 0;
    cuda_harness_launch(h, kernel, got.buffers, s->lo, s->hi, backwards);
    ck_assert(nest_eval(s->nest, want.buffers, s->bytes, s->lo, s->hi, &arena));
    for (size_t i = 0; i < s->count && !failures; i++) failures += !close_enough(s, i, got.buffers[i], want.buffers[i]);
    free_memory(&got, s);
    free_memory(&want, s);
    return failures;
}

START_TEST(cpu_agrees)
{
    size_t failures = 0;
    print_all();
    if (!cuda_harness_compile(&harness)) {
        printf("skipped: no C++ compiler\n");
        return;
    }
    for (size_t i = 0; i < sample_count; i++)
        for (int backwards = 0; backwards < 2; backwards++)
            failures += compare(&harness, &samples[i], kernel_of[i], backwards);
    ck_assert_uint_eq(failures, 0);
}
END_TEST

START_TEST(nvrtc_compiles)
{
    print_all();
    cuda_harness_cubins(&harness);
}
END_TEST

/* ---------------------------------------------------------------- PTX as bodies */

#define TEXT \
    "struct table {\n    int x;\n};\n" \
    "extern \"C\" __global__ void __launch_bounds__(128) kernel_0(float *b0, long long hi)\n{\n    b0[hi] = 0;\n}\n\n" \
    "extern \"C\" __global__ void __launch_bounds__(64) kernel_1(float *b0)\n{\n    b0[0] = sinf(b0[0]);\n}\n\n"
#define HEAD "//\n// Generated\n//\n\n.version 9.0\n.target sm_80\n.address_size 64\n\n\t// .globl\tkernel_0\n"
#define FIRST \
    ".visible .entry kernel_0(\n\t.param .u64 kernel_0_param_0\n)\n.maxntid 128, 1, 1\n{\n\t.reg .b64 " \
    "\t%rd<2>;\n$L_1:\n\tret;\n\n}\n"
#define SECOND ".visible .entry kernel_1(\n)\n{\n\tmov.u64 %rd1, __table_of_sine;\n\tret;\n}\n"
#define ASKS ".visible .entry kernel_1(\n)\n{\n\tmov.u64 %rd1, stepc_dynamic;\n\tret;\n}\n"
#define DATA ".global .align 4 .b8 __table_of_sine[24] = {65, 144};\n"

static const char *with_ptx(const char *ptx) { return cuda_with_ptx(TEXT, ptx, &arena); }

/* Bodies are PTX, but where that needs data that stand beside it; what is no entry, or not the text's, is not taken. */
START_TEST(bodies_of_ptx)
{
    ck_assert_str_eq(with_ptx(HEAD FIRST SECOND),
                     "struct table {\n    int x;\n};\n"
                     "extern \"C\" __global__ void __launch_bounds__(128) kernel_0(float *b0, long long hi)\n{\n"
                     "    asm(R\"ptx({\n\t.reg .b64 \t%rd<2>;\n$L_1:\n\tret;\n\n})ptx\");\n}\n\n"
                     "extern \"C\" __global__ void __launch_bounds__(64) kernel_1(float *b0)\n{\n"
                     "    asm(R\"ptx({\n\tmov.u64 %rd1, __table_of_sine;\n\tret;\n})ptx\");\n}\n\n");
    const char *mixed = with_ptx(HEAD DATA FIRST SECOND);
    ck_assert_msg(strstr(mixed, "asm(R\"ptx({\n\t.reg .b64 \t%rd<2>;") != NULL, "%s", mixed);
    ck_assert_msg(strstr(mixed, "(float *b0)\n{\n    b0[0] = sinf(b0[0]);\n}\n") != NULL, "%s", mixed);
    const char *asked = with_ptx(HEAD ".extern .shared .align 1024 .b8 stepc_dynamic[];\n" FIRST ASKS);
    ck_assert_msg(strstr(asked, "(float *b0)\n{\n    asm volatile(\"\" : : \"l\"(stepc_dynamic));\n    asm(") != NULL,
                  "%s", asked);
    static const char *const others[] = {"",
                                         HEAD,
                                         HEAD FIRST,
                                         HEAD SECOND FIRST,
                                         HEAD FIRST SECOND FIRST,
                                         HEAD FIRST ".visible .entry kernel_1(\n)\n{\n\tret;\n",
                                         HEAD ".func (.param .b64 func_retval0) power(\n)\n{\n\tret;\n}\n" FIRST SECOND,
                                         HEAD ".global .align 4 .b8 table[2] = {\n1, 2};\n" FIRST SECOND};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(with_ptx(others[i]) == NULL, "%zu: %s", i, with_ptx(others[i]));
}
END_TEST

/* Some kernels: what is made of PTX for several is, byte for byte, what is made of the text for one. */
START_TEST(nvrtc_shares_ptx)
{
    static const char *const archs[] = {"sm_80", "sm_90", "compute_90", "sm_86", "sm_90a"};
    enum { ARCHS = sizeof archs / sizeof *archs };
    static struct cuda_harness few;
    struct cuda_source together[ARCHS];
    if (!sample_count) build_all();
    cuda_harness_init(&few, &arena);
    for (size_t i = 0; i < sample_count; i += sample_count / 20) cuda_harness_add(&few, samples[i].nest);
    for (size_t i = 0; i < ARCHS; i++) together[i] = (struct cuda_source){str_text(&few.text), archs[i], {0}};
    if (!cuda_harness_nvrtc(&few, together, ARCHS)) return;
    for (size_t i = 0; i < ARCHS; i++) {
        struct cuda_source alone = {str_text(&few.text), archs[i], {0}};
        ck_assert(cuda_harness_nvrtc(&few, &alone, 1));
        ck_assert_msg(alone.code.size == together[i].code.size &&
                          memcmp(alone.code.data, together[i].code.data, alone.code.size) == 0,
                      "%s beside others differs from %s alone", archs[i], archs[i]);
    }
}
END_TEST

/* ---------------------------------------------------------------- products by warpgroups */

static void by_warpgroups(struct cuda_harness *few, const char *before)
{
    print_all();
    cuda_harness_init(few, &arena);
    few->text = STR(&arena);
    str_addf(&few->text, "%s%s\n", before, cg_cuda_prelude);
    for (size_t i = 0; i < sample_count; i++)
        if (strcmp(samples[i].name, "warpgroups") == 0) cuda_harness_add(few, samples[i].nest);
    ck_assert_uint_eq(few->count, 7);
}

/* What stands for the instruction elsewhere gives the same. */
START_TEST(warpgroups_without)
{
    static struct cuda_harness few;
    by_warpgroups(&few, "#undef STEPC_HAS_WGMMA\n");
    if (!cuda_harness_compile(&few)) return;
    size_t failures = 0;
    for (size_t i = 0; i < sample_count; i++)
        if (strcmp(samples[i].name, "warpgroups") == 0)
            failures += compare(&few, &samples[i], cuda_harness_add(&few, samples[i].nest), i % 2);
    ck_assert_uint_eq(failures, 0);
}
END_TEST

START_TEST(nvrtc_warpgroups)
{
    static struct cuda_harness few;
    by_warpgroups(&few, "");
    struct cuda_source sources[] = {{str_text(&few.text), "sm_90a", {0}},
                                    {str_text(&few.text), "compute_90a", {0}},
                                    {str_text(&few.text), "sm_90", {0}},
                                    {str_text(&few.text), "compute_90", {0}}};
    if (!cuda_harness_nvrtc(&few, sources, 4)) return;
    for (size_t i = 1; i < 4; i += 2)
        ck_assert_int_eq(strstr(sources[i].code.data, "wgmma.mma_async.sync.aligned.m64n128k16") != NULL, i == 1);
}
END_TEST

/* Beside one another, or with another loop between. */
START_TEST(wrong_parallel_loops)
{
    for (int wrong = 0; wrong < 3; wrong++) {
        struct nest_builder b = begin();
        struct str faults = STR(&arena);
        b.nest->parallel_extent = 6;
        nest_open(&b, NEST_PARALLEL, 3);
        if (wrong == 1) nest_open(&b, NEST_SERIAL, 2);
        nest_open(&b, NEST_PARALLEL, 2);
        nest_close(&b);
        if (wrong == 2) nest_open(&b, NEST_PARALLEL, 2);
        nest_close_to(&b, 0);
        ck_assert_int_eq(nest_verify(b.nest, &faults), wrong == 0);
    }
}
END_TEST

int main(void)
{
    return run_case("cuda_emit", CASE_OF(240, cpu_agrees, nvrtc_compiles, bodies_of_ptx, nvrtc_shares_ptx,
                                         warpgroups_without, nvrtc_warpgroups, wrong_parallel_loops));
}
