/* What late commands may find in the state and in inputs, at the edges of what their proofs go by. */
#include "runtime/late.c"
#include "tests/unit/suite.h"
#include <math.h>

enum { N = 37 }; /* not a multiple of what is looked at at once */

/* Whether a tensor may have `number` at one place, wherever that is, and ones beside it. */
static bool may_have(uint32_t dtype, uint32_t role, uint32_t bits, double number)
{
    const int64_t shape[] = {N};
    struct stepc_slot s = {
        .name = "w", .role = role, .dtype = dtype, .rank = 1, .shape = shape, .local = shape, .bits = (uint16_t)bits};
    uint32_t within = 0;
    for (int at = 0; at < N; at++) {
        _Alignas(64) double f64[N];
        _Alignas(64) float f32[N];
        for (int i = 0; i < N; i++) f64[i] = i == at ? number : 1, f32[i] = (float)f64[i];
        within += slot_within(&s, dtype == STEP_F64 ? (const char *)f64 : (const char *)f32);
    }
    ck_assert_msg(within == 0 || within == N, "%g: %u of %d places", number, within, N);
    return within == N;
}

START_TEST(edges)
{
    static const struct {
        uint32_t bits;
        double number;
        bool within;
    } cases[] = {
        {0, 0x1.fffffep29, true},
        {0, 0x1p30, false},
        {0, -0x1p30, false},
        {0, -0x1p29, true},
        {0, NAN, false},
        {0, -INFINITY, false},
        {STEPC_PACKED_CLOSE, 0x1.fffffep13, true},
        {STEPC_PACKED_CLOSE, 0x1p14, false},
        {STEPC_PACKED_CLOSE, -0x1p14, false},
        {STEPC_PACKED_POSITIVE, 0, true},
        {STEPC_PACKED_POSITIVE, -0.0, true},
        {STEPC_PACKED_POSITIVE, -0x1p-149, false},
        {STEPC_PACKED_POSITIVE, 0x1p-60, true},
        {STEPC_PACKED_POSITIVE | STEPC_PACKED_FIXED, 0x1p-30, true},
        {STEPC_PACKED_POSITIVE | STEPC_PACKED_FIXED, 0x1.fffffep-31, false},
        {STEPC_PACKED_POSITIVE | STEPC_PACKED_FIXED, 0, false},
        {STEPC_PACKED_POSITIVE | STEPC_PACKED_FIXED, -0.0, false},
        {STEPC_PACKED_POSITIVE | STEPC_PACKED_FIXED, -1, false},
        {STEPC_PACKED_POSITIVE | STEPC_PACKED_FIXED, 0x1p20, true},
        {STEPC_PACKED_POSITIVE | STEPC_PACKED_FIXED | STEPC_PACKED_CLOSE, 0x1p20, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int wide = 0; wide < 2; wide++)
            ck_assert_msg(may_have(wide ? STEP_F64 : STEP_F32, STEP_OPT_STATE, cases[i].bits, cases[i].number) ==
                              cases[i].within,
                          "bits %u, %g", cases[i].bits, cases[i].number);
}
END_TEST

int main(void) { return run_case("late_state", CASE_OF(10, edges)); }
