/* The nests of nest_samples.h as CUDA kernels, run on this CPU with their barriers and compared with the nest
 * interpreter; and compiled by NVRTC, where it is installed. */
#include "cuda_harness.h"
#include "nest_samples.h"
#include "tests/unit/suite.h"

static struct cuda_harness harness;
static uint32_t kernel_of[MAX_NESTS];

static void print_all(void)
{
    if (harness.count) return;
    build_all();
    cuda_harness_init(&harness, &arena);
    for (size_t i = 0; i < sample_count; i++) kernel_of[i] = cuda_harness_add(&harness, samples[i].nest);
}

static size_t compare(const struct sample *s, uint32_t kernel, bool backwards)
{
    struct memory got = make_memory(s), want = make_memory(s);
    size_t failures = 0;
    cuda_harness_launch(&harness, kernel, got.buffers, s->lo, s->hi, backwards);
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
        failures += compare(&samples[i], kernel_of[i], false) + compare(&samples[i], kernel_of[i], true);
    ck_assert_uint_eq(failures, 0);
}
END_TEST

START_TEST(nvrtc_compiles)
{
    print_all();
    cuda_harness_nvrtc(&harness);
}
END_TEST

int main(void) { return run_case("cuda_emit", CASE_OF(240, cpu_agrees, nvrtc_compiles)); }
