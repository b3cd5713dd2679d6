/* What is known of the values of a step before it runs (codegen/late): of patterns, that it is enough; of random
 * functions, that no element is outside of it. */
#include "codegen/late/late.h"
#include "lower_harness.h"
#include "tests/unit/suite.h"
#include <math.h>
#include <stepc/step_abi.h>

enum { N = 6, OPS = 24, FUNCTIONS = 400, DRAWS = 30, MOST = 64 };

static struct fixture x;
static struct arena arena;
static ir_value w, v, p, s; /* two parameters, moments that are not negative, and a number of the optimizer */
static uint8_t least[MOST + 8], expected[MOST + 8];
static double bound;

/* `apart`: of the number. */
static void begin(int apart)
{
    x = fixture_new();
    memset(least, 0, sizeof least);
    bound = STEPC_BOUND;
    memset(expected, 0, sizeof expected);
    w = parameter(&x, F32(N)), v = parameter(&x, F32(N));
    p = fixture_param(&x, IR_ROLE_OPT_STATE, F32(N));
    s = fixture_param(&x, IR_ROLE_OPT_STATE, ir_type_scalar(IR_F32));
    least[2] = CG_POSITIVE, expected[3] = (uint8_t)apart;
}

static ir_value un(enum ir_op op, ir_value a) { return ir_unary(&x.b, op, a); }
static ir_value two(enum ir_op op, ir_value a, ir_value b) { return ir_binary(&x.b, op, a, b); }
static ir_value times(ir_value a, double c) { return two(OP_mul, number_like(&x, a, c), a); }
static ir_value all(ir_value number) { return ir_broadcast(&x.b, number, 1, (const int64_t[]){N}, NULL); }
static ir_value sum(ir_value a) { return ir_reduce(&x.b, OP_reduce_sum, a, (const int64_t[]){0}, 1); }
static ir_value norm(ir_value a) { return un(OP_sqrt, sum(two(OP_mul, a, a))); }
static ir_value where(ir_value c, ir_value a, ir_value b) { return ir_select(&x.b, c, a, b); }
static ir_value is_zero(ir_value a) { return two(OP_eq, a, number_like(&x, a, 0)); }

static struct cg_bounds *find(void)
{
    bool *seen = arena_new_array(&arena, bool, x.b.f->count + 1);
    return cg_bounds_find(x.b.f, &(struct cg_known){seen, least, expected, bound}, &arena);
}

static void proved(ir_value a, bool is)
{
    struct cg_bounds *of = find();
    ck_assert_msg(cg_bounds_finite(ir_type(x.b.f, a), of[a]) == is, "%g to %g%s", of[a].low, of[a].high,
                  of[a].nan ? " or NaN" : "");
}

/* a * |w| / |of|, or a where one of them is 0. */
static ir_value trust(ir_value a, ir_value of, bool guarded)
{
    ir_value over = norm(of), ratio = two(OP_div, norm(w), over);
    if (guarded) ratio = where(two(OP_or, is_zero(norm(w)), is_zero(over)), number_like(&x, over, 1), ratio);
    return two(OP_mul, a, all(ratio));
}

static ir_value if_above(ir_value number, ir_value a)
{
    return where(all(two(OP_lt, number_like(&x, number, 0), number)), a, number_like(&x, a, 0));
}

START_TEST(norms)
{ /* 2^60 times what may be 2^94, but no element is above its norm; above that of others, or of a part, it may be */
    begin(0);
    ir_value u = two(OP_mul, w, v), most = number_like(&x, norm(u), 1e-6);
    proved(trust(u, u, true), true);
    proved(trust(u, un(OP_neg, u), true), true);
    proved(trust(u, u, false), false);
    proved(trust(u, two(OP_mul, w, w), true), false);
    ir_value part = ir_slice(&x.b, u, (const int64_t[]){0}, (const int64_t[]){N / 2}, (const int64_t[]){1});
    proved(trust(u, part, true), false);
    ir_value over = norm(u), large = where(two(OP_le, over, most), most, over);
    proved(two(OP_div, u, all(large)), true);
    proved(two(OP_div, u, all(two(OP_max, over, norm(v)))), false);
    proved(where(two(OP_le, number_like(&x, over, 0), over), two(OP_div, norm(w), over), over), false);
    proved(if_above(sum(p), two(OP_div, p, all(sum(p)))), true);
    proved(if_above(sum(w), two(OP_div, w, all(sum(w)))), false); /* which may cancel */
    ir_value rows = ir_transpose(&x.b, ir_reshape(&x.b, p, 2, (const int64_t[]){2, N / 2}), (const int64_t[]){1, 0});
    ir_value other = ir_reshape(&x.b, rows, 1, (const int64_t[]){N}), above = two(OP_lt, number_like(&x, p, 0), other);
    proved(where(above, two(OP_div, p, other), p), false); /* of which these are other elements */
}
END_TEST

/* v - c * sign(v - g) * g */
static ir_value drawn(double c, ir_value g, ir_value than)
{
    return two(OP_sub, p, two(OP_mul, times(un(OP_sign, two(OP_sub, than, g)), c), g));
}

START_TEST(parts)
{ /* what is taken away is a part of what it is taken from, or is added */
    begin(0);
    ir_value g = two(OP_mul, w, w);
    proved(un(OP_sqrt, drawn(0.001, g, p)), true);
    proved(un(OP_sqrt, drawn(1.5, g, p)), false);
    proved(un(OP_sqrt, drawn(0.001, g, two(OP_mul, v, v))), false);
    proved(un(OP_sqrt, drawn(0.001, w, p)), false);
    ir_value sign = un(OP_sign, two(OP_sub, p, w));
    proved(un(OP_sqrt, two(OP_sub, p, two(OP_mul, times(sign, 0.001), un(OP_abs, w)))), false);
    proved(un(OP_sqrt, two(OP_sub, p, times(p, 0.5))), true);
    proved(un(OP_sqrt, two(OP_sub, p, times(p, 2))), false);
    proved(un(OP_sqrt, two(OP_sub, p, times(g, 0.5))), false);
    ir_value step = two(OP_sub, p, g);
    proved(un(OP_sqrt, two(OP_add, g, times(step, 0.95))), true);
    proved(un(OP_sqrt, two(OP_add, g, times(step, 1.05))), false);
    proved(un(OP_sqrt, two(OP_add, p, times(step, 0.95))), false);
}
END_TEST

START_TEST(shares)
{ /* of a sum no summand is more than all, and 0 / 0 is seen */
    begin(CG_EXPECTED);
    ir_value a = two(OP_mul, s, s), share = two(OP_div, a, two(OP_add, two(OP_mul, norm(p), norm(p)), a));
    proved(share, false);
    ir_value good = where(two(OP_ne, share, share), number_like(&x, share, 0), share);
    proved(good, true);
    struct cg_bounds *of = find();
    ck_assert(of[good].low >= 0 && of[good].high < 1.1);
    ir_value sees = two(OP_and, two(OP_ne, share, share), un(OP_not, two(OP_ne, a, a)));
    proved(where(sees, number_like(&x, share, 0), share), true);
    ir_value small = two(OP_div, s, norm(all(s))); /* whose square may be 0 */
    proved(where(two(OP_ne, small, small), s, small), false);
    ir_value no_share = two(OP_div, a, two(OP_sub, two(OP_mul, norm(p), norm(p)), a));
    proved(where(two(OP_ne, no_share, no_share), number_like(&x, share, 0), no_share), false);
}
END_TEST

START_TEST(numbers)
{ /* of the state, as far as they are looked at */
    for (int apart = CG_NOT_EXPECTED; apart <= CG_EXPECTED_APART; apart++) {
        begin(apart);
        proved(two(OP_mul, w, all(s)), apart != CG_NOT_EXPECTED);
        proved(two(OP_div, w, all(s)), apart == CG_EXPECTED_APART);
    }
}
END_TEST

/* By Newton's method, as `decompose` makes it; a power of x, and so x over it. */
static ir_value cube_root(ir_value a)
{
    ir_value size = un(OP_abs, a), y = two(OP_pow, size, number_like(&x, a, 1.0 / 3));
    ir_value part = two(OP_div, two(OP_sub, y, two(OP_div, size, two(OP_mul, y, y))), number_like(&x, a, 3));
    ir_value good = two(OP_and, two(OP_lt, size, number_like(&x, a, (double)INFINITY)), un(OP_not, is_zero(a)));
    return where(good, two(OP_mul, two(OP_sub, y, part), un(OP_sign, a)), a);
}

START_TEST(roots)
{ /* of what is not negative it is not negative, so what is added keeps it from 0 */
    begin(0);
    proved(cube_root(p), true);
    proved(two(OP_div, w, two(OP_add, cube_root(p), number_like(&x, p, 1e-6))), true);
    proved(two(OP_div, w, two(OP_add, cube_root(v), number_like(&x, p, 1e-6))), false);
    ir_value y = two(OP_pow, p, number_like(&x, p, 0.6)); /* x over x ** 1.2 */
    proved(if_above(sum(p), two(OP_mul, two(OP_div, p, two(OP_mul, y, y)), two(OP_mul, w, w))), false);
}
END_TEST

START_TEST(close)
{ /* what is below 2^14 has a seventh power, and what is not below 2^-30 can be divided by */
    for (int i = 0; i < 2; i++) {
        begin(0);
        bound = i ? STEPC_BOUND_CLOSE : STEPC_BOUND, least[2] = i ? CG_APART : CG_POSITIVE;
        ir_value two_of = two(OP_mul, w, w), four = two(OP_mul, two_of, two_of);
        proved(four, true);
        proved(two(OP_mul, two(OP_mul, four, two_of), w), i == 1);
        proved(two(OP_mul, two(OP_mul, four, four), w), false);
        proved(two(OP_div, w, p), i == 1);
        ir_value less = two(OP_mul, p, number_like(&x, p, 0.5)), more = two(OP_max, p, un(OP_abs, w));
        output(&x, more);
        x.b.f->results.items[0].slot = 2;
        for (uint8_t take = 0; take < 2; take++) { /* what a step makes lets the mark be, or takes it */
            least[2] = CG_APART;
            if (take) x.b.f->results.items[0].value = less;
            find();
            ck_assert_uint_eq(least[2], take ? CG_POSITIVE : CG_APART);
        }
    }
}
END_TEST

/* ---------------------------------------------------------------- random functions */

static uint64_t state = 11;
static uint32_t below(uint32_t n)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)((state >> 20) % n);
}

/* Of numbers, or of tensors; mostly of the last ones. */
static ir_value pick(bool tensor)
{
    const struct ir_func *f = x.b.f;
    for (int tries = 0; tries < 200; tries++) {
        ir_value a = 1 + below(f->count - 1);
        if (tries < 4 && a + 10 < f->count) continue;
        if (ir_type(f, a)->dtype == IR_F32 && (ir_type(f, a)->rank == 1) == tensor) return a;
    }
    return tensor ? w : s;
}

static ir_value condition(bool tensor)
{
    static const enum ir_op ops[] = {OP_lt, OP_le, OP_eq, OP_ne};
    ir_value a = pick(tensor), b = below(3) == 0 ? a : below(2) ? pick(tensor) : number_like(&x, a, 0);
    ir_value c = two(ops[below(4)], a, b);
    if (below(4) == 0) c = un(OP_not, c);
    return c;
}

static void grow(void)
{
    static const enum ir_op binary[] = {OP_add, OP_sub, OP_mul, OP_div, OP_max, OP_min};
    static const enum ir_op unary[] = {OP_neg, OP_abs, OP_sqrt, OP_sign};
    static const double factors[] = {0.001, 0.5, 0.95, 2, 1e-20};
    bool tensor = below(3) > 0;
    ir_value a = pick(tensor), b = pick(tensor);
    switch (below(14)) {
    case 0:
    case 1:
    case 2: two(binary[below(6)], a, b); break;
    case 3: un(unary[below(4)], a); break;
    case 4: two(OP_mul, a, a); break;
    case 5: times(a, factors[below(5)]); break;
    case 6: tensor ? norm(a) : all(a); break;
    case 7: tensor ? sum(a) : all(a); break;
    case 8:
    case 9: {
        ir_value c = condition(tensor);
        if (below(3) == 0) c = two(below(2) ? OP_and : OP_or, c, condition(tensor));
        where(c, a, b);
        break;
    }
    case 10: two(OP_sub, a, two(OP_mul, times(un(OP_sign, two(OP_sub, a, b)), 0.1), b)); break;
    case 11: two(OP_sub, a, two(OP_div, two(OP_sub, a, b), number_like(&x, a, 3))); break;
    case 12: cube_root(a); break;
    default: two(OP_add, a, times(two(OP_sub, b, a), 0.5)); break;
    }
}

static double drawn_number(bool negative)
{
    double d = ldexp(1 + below(1 << 20) * 0x1p-20, (int)(below(8) ? below(20) : below(89)) - 60);
    if (below(4) == 0) d = ldexp(1 + below(4) * 0.25, 28 - (int)below(4));
    if (below(8) == 0) d = 0;
    return negative && below(2) ? -d : d;
}

/* Draws with a number that a processor would take for 0 are left out. */
static void hold(const struct cg_bounds *of, uint32_t *checked)
{
    const struct ir_func *f = x.b.f;
    struct ir_tensor params[4], *results = arena_new_array(&arena, struct ir_tensor, f->results.count + 1);
    for (int i = 0; i < 4; i++) {
        params[i] = (struct ir_tensor){.type = f->params.items[i].type, .v = arena_new_array(&arena, double, N)};
        for (int k = 0; k < N; k++)
            params[i].v[k] = drawn_number(i != 2 && !(i == 3 && expected[3] == 2)) * (i < 3 ? bound / STEPC_BOUND : 1);
        for (int k = 0; k < N && i == 2 && least[2] == CG_APART; k++)
            params[i].v[k] = fmax(params[i].v[k], 1 / STEPC_BOUND);
    }
    if (expected[3] == CG_EXPECTED_APART) params[3].v[0] = fmax(params[3].v[0], 0x1p-30);
    ir_eval(f, IR_EVAL_EXACT_DTYPES, params, results, &arena);
    for (int look = 0; look < 2; look++)
        for (size_t i = 0; i < f->results.count; i++)
            for (int64_t k = 0; k < ir_type_elements(&results[i].type); k++) {
                double d = results[i].v[k];
                struct cg_bounds b = of[f->results.items[i].value];
                if (d != 0 && fabs(d) < 0x1p-126) return;
                if (!look) continue;
                ck_assert_msg(isnan(d) ? b.nan : d >= b.low && d <= b.high, "%%%u: %g, expected %g to %g%s",
                              f->results.items[i].value, d, b.low, b.high, b.nan ? " or NaN" : "");
                ++*checked;
            }
}

START_TEST(random_functions)
{
    uint32_t checked = 0, finite = 0;
    for (int n = 0; n < FUNCTIONS; n++) {
        begin(n % 3);
        if (n & 1) bound = STEPC_BOUND_CLOSE;
        if (n & 2) least[2] = CG_APART;
        if (!expected[3]) s = norm(w);
        for (int i = 0; i < OPS; i++) grow();
        uint32_t count = x.b.f->count;
        for (ir_value a = 1; a < count && x.b.f->results.count < MOST; a++)
            if (ir_get(x.b.f, a)->op != OP_param && ir_type(x.b.f, a)->dtype == IR_F32) output(&x, a);
        struct cg_bounds *of = find();
        for (ir_value a = 1; a < count; a++) finite += cg_bounds_finite(ir_type(x.b.f, a), of[a]);
        for (int i = 0; i < DRAWS; i++) hold(of, &checked);
        ir_module_free(x.m);
        arena_free(&arena);
    }
    ck_assert_msg(checked > 500000 && finite > 10 * FUNCTIONS, "%u checked, %u finite", checked, finite);
}
END_TEST

int main(void)
{
    return run_case("late_bounds", CASE_OF(120, norms, parts, shares, numbers, roots, close, random_functions));
}
