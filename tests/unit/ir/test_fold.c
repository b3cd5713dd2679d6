/* Folding: every rule fires, and what it gives is what the interpreter gives without it, bit for bit (NaN is NaN), on
 * zeros of both signs, infinities, NaN, denormals and ordinary numbers. A text is read as it stands; rebuilding folds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "tests/unit/suite.h"

static struct arena arena;

static void setup(void) { arena = (struct arena){0}; }
static void teardown(void) { arena_free(&arena); }

static struct ir_module *parse(const char *text)
{
    struct diags diags = {.arena = &arena, .source = {"test", text, strlen(text)}};
    struct ir_module *m = ir_parse(text, strlen(text), &diags);
    if (!m) ck_abort_msg("%s\n%s", diags.list.items[0].message, text);
    return m;
}

static struct ir_module *rebuilt(const struct ir_module *m)
{
    struct ir_module *to = ir_module_like(m);
    struct str faults = STR(&arena);
    ir_rebuild(m->funcs.items[0], to->funcs.items[0], NULL, NULL, &arena);
    ck_assert_msg(ir_verify(to, &faults), "%s", str_text(&faults));
    return to;
}

static const char *print(const struct ir_module *m)
{
    struct str s = STR(&arena);
    ir_print(m, &s);
    return str_text(&s);
}

/* ---------------------------------------------------------------- equal results */

static double sample(enum ir_dtype dtype, uint64_t *state)
{
    static const double special[] = {0,         -0.0, 1,     -1,     0.5,  2, -3.75, INFINITY,
                                     -INFINITY, NAN,  1e-45, -1e-40, 3e38, 7, 100,   65504};
    *state = hash_u64(*state, 1);
    if (dtype == IR_BOOL) return (double)(*state & 1);
    double v = *state % 3 ? special[*state / 3 % 16] : ((double)(*state >> 11) * 0x1p-53 - 0.5) * 20;
    return ir_element_round(dtype, v);
}

static void fill_params(const struct ir_func *f, struct ir_tensor *params, uint64_t *state)
{
    for (size_t i = 0; i < f->params.count; i++) {
        params[i].type = f->params.items[i].type;
        int64_t n = ir_type_elements(&params[i].type);
        params[i].v = arena_new_array(&arena, double, n);
        for (int64_t k = 0; k < n; k++) params[i].v[k] = sample((enum ir_dtype)params[i].type.dtype, state);
    }
}

static void same_values(const struct ir_module *m, const struct ir_module *folded, uint64_t seed)
{
    const struct ir_func *f = m->funcs.items[0], *g = folded->funcs.items[0];
    struct ir_tensor params[8], one[8], two[8];
    fill_params(f, params, &seed);
    ir_eval(f, IR_EVAL_EXACT_DTYPES, params, one, &arena);
    ir_eval(g, IR_EVAL_EXACT_DTYPES, params, two, &arena);
    for (size_t i = 0; i < f->results.count; i++) {
        int64_t n = ir_type_elements(&one[i].type);
        ck_assert(ir_type_equal(&one[i].type, &two[i].type));
        for (int64_t k = 0; k < n; k++) {
            double a = one[i].v[k], b = two[i].v[k];
            if (isnan(a) && isnan(b)) continue;
            ck_assert_msg(a == b && signbit(a) == signbit(b), "result %zu element %lld: %.17g, folded %.17g\n%s\n%s", i,
                          (long long)k, a, b, print(m), print(folded));
        }
    }
}

/* ---------------------------------------------------------------- rules */

/* x, y float32[2, 3], p bool[2, 3], n int32[2, 3], s float32[], i int32[]; the body's last value is the result. The
 * result is then made by op `op` and the function has `nodes` live nodes that are no parameters. */
static const struct {
    const char *body, *op;
    uint32_t nodes;
} rules[] = {
#define F " : float32[2, 3]\n"
#define N " : int32[2, 3]\n"
#define B " : bool[2, 3]\n"
#define C(number, ...) "%" #number " = constant " #__VA_ARGS__
    {C(9, -0) F "%10 = add(%1, %9)" F, "param", 0},
    {C(9, 0) F "%10 = add(%1, %9)" F, "add", 2},
    {C(9, 0) N "%10 = add(%9, %4)" N, "param", 0},
    {"%9 = neg(%2)" F "%10 = add(%1, %9)" F, "sub", 1},
    {"%9 = neg(%1)" F "%10 = add(%9, %2)" F, "sub", 1},
    {C(9, 0) F "%10 = sub(%1, %9)" F, "param", 0},
    {C(9, -0) F "%10 = sub(%1, %9)" F, "sub", 2},
    {C(9, -0) F "%10 = sub(%9, %1)" F, "neg", 1},
    {C(9, 0) F "%10 = sub(%9, %1)" F, "sub", 2},
    {C(9, 0) N "%10 = sub(%9, %4)" N, "neg", 1},
    {"%9 = sub(%4, %4)" N, "constant", 1},
    {"%9 = sub(%1, %1)" F, "sub", 1},
    {"%9 = neg(%2)" F "%10 = sub(%1, %9)" F, "add", 1},
    {C(9, 1) F "%10 = mul(%9, %1)" F, "param", 0},
    {C(9, -1) F "%10 = mul(%1, %9)" F, "neg", 1},
    {C(9, 0) F "%10 = mul(%1, %9)" F, "mul", 2},
    {C(9, 0) N "%10 = mul(%4, %9)" N, "constant", 1},
    {"%9 = neg(%1)" F "%10 = neg(%2)" F "%11 = mul(%9, %10)" F, "mul", 1},
    {C(9, 1) F "%10 = div(%1, %9)" F, "param", 0},
    {C(9, -1) F "%10 = div(%1, %9)" F, "neg", 1},
    {C(9, 8) F "%10 = div(%1, %9)" F, "mul", 2},
    {C(9, 3) F "%10 = div(%1, %9)" F, "div", 2},
    {C(9, 8) N "%10 = div(%4, %9)" N, "div", 2},
    {C(9, 1e-45) F "%10 = div(%1, %9)" F, "div", 2},
    {"%9 = neg(%1)" F "%10 = neg(%2)" F "%11 = div(%9, %10)" F, "div", 1},
    {C(9, 0) F "%10 = pow(%1, %9)" F, "constant", 1},
    {C(9, 1) F "%10 = pow(%1, %9)" F, "param", 0},
    {C(9, 2) F "%10 = pow(%1, %9)" F, "mul", 1},
    {C(9, 2) N "%10 = pow(%4, %9)" N, "mul", 1},
    {"%9 = neg(%1)" F "%10 = neg(%9)" F, "param", 0},
    {"%9 = abs(%1)" F "%10 = abs(%9)" F, "abs", 1},
    {"%9 = neg(%1)" F "%10 = abs(%9)" F, "abs", 1},
    {"%9 = floor(%1)" F "%10 = round(%9)" F, "floor", 1},
    {"%9 = max(%1, %1)" F, "param", 0},
    {"%9 = min(%1, %1)" F, "param", 0},
    {C(9, -Infinity) F "%10 = max(%9, %1)" F, "param", 0},
    {C(9, -Infinity) F "%10 = min(%9, %1)" F, "min", 2},
    {C(9, Infinity) F "%10 = min(%1, %9)" F, "param", 0},
    {C(9, 0) N "%10 = shl(%4, %9)" N, "param", 0},
    {C(9, 0) N "%10 = shr(%4, %9)" N, "param", 0},
    {"%9 = not(%3)" B "%10 = not(%9)" B, "param", 0},
    {"%9 = and(%3, %3)" B, "param", 0},
    {C(9, true) B "%10 = and(%3, %9)" B, "param", 0},
    {C(9, -1) N "%10 = and(%4, %9)" N, "param", 0},
    {C(9, 0) N "%10 = and(%9, %4)" N, "constant", 1},
    {C(9, 1) N "%10 = and(%9, %4)" N, "and", 2},
    {"%9 = or(%4, %4)" N, "param", 0},
    {C(9, false) B "%10 = or(%3, %9)" B, "param", 0},
    {C(9, true) B "%10 = or(%3, %9)" B, "constant", 1},
    {"%9 = xor(%4, %4)" N, "constant", 1},
    {C(9, true) B "%10 = xor(%3, %9)" B, "not", 1},
    {C(9, 0) N "%10 = xor(%4, %9)" N, "param", 0},
    {"%9 = eq(%4, %4)" B, "constant", 1},
    {"%9 = eq(%1, %1)" B, "eq", 1},
    {"%9 = ne(%4, %4)" B, "constant", 1},
    {C(9, true) B "%10 = eq(%3, %9)" B, "param", 0},
    {C(9, true) B "%10 = ne(%3, %9)" B, "not", 1},
    {"%9 = lt(%1, %1)" B, "constant", 1},
    {"%9 = le(%4, %4)" B, "constant", 1},
    {"%9 = le(%1, %1)" B, "le", 1},
    {"%9 = select(%3, %1, %1)" F, "param", 0},
    {C(9, true) B "%10 = select(%9, %1, %2)" F, "param", 0},
    {C(9, false) B "%10 = select(%9, %1, %2)" F, "param", 0},
    {"%9 = not(%3)" B "%10 = select(%9, %1, %2)" F, "select", 1},
    {C(9, true) B C(10, false) B "%11 = select(%3, %9, %10)" B, "param", 0},
    {"%9 = neg(%1)" F "%10 = select(%3, %9, %2)" F "%11 = select(%3, %10, %1)" F, "select", 2},
    {"%9 = neg(%1)" F "%10 = select(%3, %9, %2)" F "%11 = select(%3, %1, %10)" F, "select", 1},
    {"%9 = cast(%1) : float64[2, 3]\n%10 = cast(%9)" F, "param", 0},
    {"%9 = cast(%1) : bfloat16[2, 3]\n%10 = cast(%9)" F, "cast", 2},
    {"%9 = cast(%3) : int32[2, 3]\n%10 = cast(%9)" F, "cast", 1},
    {"%9 = cast(%4) : float64[2, 3]\n%10 = cast(%9) : int16[2, 3]\n", "cast", 2},
    {"%9 = cast(%4) : float64[2, 3]\n%10 = cast(%9) : bfloat16[2, 3]\n", "cast", 1},
    {"%9 = bitcast(%1) : uint32[2, 3]\n%10 = bitcast(%9) : int32[2, 3]\n", "bitcast", 1},
    {"%9 = bitcast(%1) : uint32[2, 3]\n%10 = bitcast(%9)" F, "param", 0},
    {"%9 = stop_gradient(%1)" F "%10 = stop_gradient(%9)" F, "stop_gradient", 1},
    {C(9, 2) F "%10 = stop_gradient(%9)" F, "constant", 1},
    {"%9 = reduce_sum(%1) dims=[]" F, "add", 2},
    {"%9 = reduce_sum(%4) dims=[]" N, "param", 0},
    {"%9 = reduce_prod(%1) dims=[]" F, "param", 0},
    {"%9 = reshape(%1) : float32[1, 6]\n%10 = reduce_max(%9) dims=0 : float32[6]\n", "reshape", 1},
    {"%9 = reshape(%1) : float32[1, 6]\n%10 = reduce_sum(%9) dims=0 : float32[6]\n", "add", 3},
    {C(9, 2) " : float32[99, 99]\n%10 = reduce_min(%9) dims=[0, 1] : float32[]\n", "constant", 1},
    {C(9, 2) " : float32[0, 99]\n%10 = reduce_min(%9) dims=0 : float32[99]\n", "reduce_min", 2},
    {"%9 = broadcast(%1) dims=[0, 1]" F, "param", 0},
    {"%9 = broadcast(%1) dims=[0, 2] : float32[2, 4, 3]\n%10 = broadcast(%9) dims=[1, 2, 3] : float32[5, 2, 4, 3]\n",
     "broadcast", 1},
    {"%9 = reshape(%1) : float32[2, 1, 3, 1]\n%10 = broadcast(%9) dims=[0, 1, 2, 3] : float32[2, 5, 3, 4]\n",
     "broadcast", 1},
    {"%9 = reduce_max(%1) dims=1 : float32[2]\n%10 = reshape(%9) : float32[2, 1]\n%11 = broadcast(%10) dims=[0, 1]" F,
     "broadcast", 2},
    {"%9 = reshape(%1) : float32[3, 1, 2]\n%10 = broadcast(%9) dims=[0, 1, 2] : float32[3, 5, 2]\n", "broadcast", 2},
    {C(9, 2) F "%10 = broadcast(%9) dims=[0, 2] : float32[2, 4, 3]\n", "constant", 1},
    {"%9 = reshape(%1)" F, "param", 0},
    {"%9 = reshape(%1) : float32[6]\n%10 = reshape(%9) : float32[3, 2]\n", "reshape", 1},
    {"%9 = reshape(%1) : float32[6]\n%10 = reshape(%9)" F, "param", 0},
    {"%9 = broadcast(%5) dims=[] : float32[4]\n%10 = reshape(%9) : float32[2, 2]\n", "broadcast", 1},
    {"%9 = transpose(%1) perm=[0, 1]" F, "param", 0},
    {"%9 = transpose(%1) perm=[1, 0] : float32[3, 2]\n%10 = transpose(%9) perm=[1, 0]" F, "param", 0},
    {"%9 = broadcast(%5) dims=[] : float32[4, 2]\n%10 = transpose(%9) perm=[1, 0] : float32[2, 4]\n", "broadcast", 1},
    {"%9 = slice(%1) start=[0, 0] limit=[2, 3] stride=[1, 1]" F, "param", 0},
    {"%9 = slice(%1) start=[0, 1] limit=[2, 3] stride=[1, 1] : float32[2, 2]\n%10 = slice(%9) start=[1, 0] limit=[2, "
     "2] stride=[1, 1] : float32[1, 2]\n",
     "slice", 1},
    {"%9 = iota dim=0 : int32[20]\n%10 = slice(%9) start=1 limit=20 stride=3 : int32[7]\n%11 = slice(%10) start=1 "
     "limit=7 stride=2 : int32[3]\n",
     "slice", 2},
    {"%9 = concat(%1, %2) dim=0 : float32[4, 3]\n%10 = slice(%9) start=[2, 1] limit=[4, 3] stride=[1, 1] : float32[2, "
     "2]\n",
     "slice", 1},
    {"%9 = concat(%1, %2) dim=0 : float32[4, 3]\n%10 = slice(%9) start=[2, 0] limit=[4, 3] stride=[1, 1]" F, "param",
     0},
    {"%9 = concat(%1, %2) dim=0 : float32[4, 3]\n%10 = slice(%9) start=[1, 1] limit=[3, 3] stride=[1, 1] : float32[2, "
     "2]\n",
     "slice", 2},
    {"%9 = pad(%1, %5) low=[0, 0] high=[0, 0] interior=[0, 0]" F, "param", 0},
    {C(9, 2) F C(10, 2) " : float32[]\n%11 = pad(%9, %10) low=[1, 0] high=[0, -1] interior=[0, 1] : float32[3, 4]\n",
     "constant", 1},
    {"%9 = concat(%1) dim=0" F, "param", 0},
    {C(9, 0) " : float32[2, 0]\n%10 = concat(%9, %1, %9) dim=1" F, "param", 0},
    {"%9 = reverse(%1) dims=1" F "%10 = reverse(%9) dims=1" F, "param", 0},
    {"%9 = reverse(%1) dims=[]" F, "param", 0},
    {"%9 = dynamic_slice(%1, %6, %6) sizes=[2, 3]" F, "param", 0},
    {C(9, 7) " : int32[]\n%10 = dynamic_slice(%1, %6, %9) sizes=[2, 2] : float32[2, 2]\n", "slice", 1},
    {C(9, -7) " : int32[]\n%10 = dynamic_slice(%1, %9, %9) sizes=[1, 2] : float32[1, 2]\n", "slice", 1},
    {"%9 = dynamic_update(%1, %2, %6, %6)" F, "param", 0},
    {C(9, 2) F "%10 = take(%9, %4) dim=1 : float32[2, 2, 3]\n", "constant", 1},
    {C(9, 2) F C(10, 0.1) F "%11 = div(%10, %9)" F "%12 = exp(%11)" F, "constant", 1},
    {C(9,
       [
           1, 2, 3
       ]) " : int32[3]\n%10 = iota dim=0 : int32[3]\n%11 = mul(%9, %9) : int32[3]\n%12 = add(%10, %11) : int32[3]\n",
     "add", 3},
    {C(9, [ true, false, true ]) " : bool[3]\n%10 = cast(%9) : float32[3]\n%11 = reduce_sum(%10) dims=0 : float32[]\n",
     "constant", 1},
    {C(9, 0x7fc00123) F "%10 = bitcast(%9) : uint32[2, 3]\n", "constant", 1},
    {C(9, 100) " : int8[3]\n%10 = add(%9, %9) : int8[3]\n", "constant", 1},
    {"%9 = add(%1, %2)" F "%10 = add(%2, %1)" F "%11 = mul(%9, %10)" F, "mul", 2},
};

static uint32_t live_nodes(const struct ir_func *f)
{
    const bool *live = ir_live(f, &arena);
    uint32_t n = 0;
    for (ir_value v = 1; v < f->count; v++) n += live[v] && f->nodes[v].op != OP_param;
    return n;
}

/* The value that the last line of a body defines. */
static unsigned last_value(const char *body)
{
    unsigned last = 0;
    for (const char *line = body; *line; line = strchr(line, '\n') + 1) sscanf(line, "%%%u", &last);
    return last;
}

static struct ir_module *module_of(const char *body)
{
    return parse(arena_format(&arena,
                              "module \"m\" stage tensor\nfunc \"f\" {\n%%1 = param index=0 \"x\" : float32[2, 3]\n%%2 "
                              "= param index=1 \"y\" : float32[2, 3]\n"
                              "%%3 = param index=2 \"p\" : bool[2, 3]\n%%4 = param index=3 \"n\" : int32[2, 3]\n%%5 = "
                              "param index=4 \"s\" : float32[]\n"
                              "%%6 = param index=5 \"i\" : int32[]\n%sresult \"r\" %%%u\n}\n",
                              body, last_value(body)));
}

START_TEST(each_rule)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct ir_module *m = module_of(rules[i].body), *folded = rebuilt(m);
        const struct ir_func *f = folded->funcs.items[0];
        const struct ir_node *made = ir_get(f, f->results.items[0].value);
        ck_assert_msg(strcmp(ir_ops[made->op].name, rules[i].op) == 0 && live_nodes(f) == rules[i].nodes,
                      "expected %s from %u nodes\n%s\n%s", rules[i].op, rules[i].nodes, rules[i].body, print(folded));
        for (uint64_t seed = 0; seed < 20; seed++) same_values(m, folded, seed);
        ir_module_free(m);
        ir_module_free(folded);
    }
}
END_TEST

/* ---------------------------------------------------------------- random programs */

static uint64_t draw(uint64_t *state, uint64_t n) { return (*state = hash_u64(*state, 7)) % n; }

START_TEST(random_programs)
{
    static const char *const numbers[] = {
        "0", "-0", "1", "-1", "2", "0.5", "0.1", "NaN", "Infinity", "1e-45", "[1, -0, 3, NaN, 5, 0.3]"};
    static const char *const integers[] = {"0", "1", "-1", "8", "2147483647", "-2147483648", "[0, 1, 2, -3, 4, 5]"};
    static const char *const unary[] = {"neg", "abs", "sign", "floor", "round", "sqrt", "stop_gradient"};
    static const char *const binary[] = {"add", "sub", "mul", "div", "max", "min", "rem", "pow"};
    static const char *const logic[] = {"and", "or", "xor", "add", "sub", "mul", "shl", "shr", "div", "rem"};
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t s = seed;
        struct str body = STR(&arena);
        unsigned floats[64] = {1, 2}, ints[64] = {4}, bools[64] = {3}, nf = 2, ni = 1, nb = 1;
        for (unsigned v = 9; v < 40; v++) {
            unsigned a = floats[draw(&s, nf)], b = floats[draw(&s, nf)], x = ints[draw(&s, ni)], y = ints[draw(&s, ni)],
                     p = bools[draw(&s, nb)];
            switch (draw(&s, 10)) {
            case 0:
            case 1:
                str_addf(&body, "%%%u = constant %s" F, v, numbers[draw(&s, 11)]);
                floats[nf++] = v;
                break;
            case 2:
                str_addf(&body, "%%%u = %s(%%%u)" F, v, unary[draw(&s, 7)], a);
                floats[nf++] = v;
                break;
            case 3:
            case 4:
                str_addf(&body, "%%%u = %s(%%%u, %%%u)" F, v, binary[draw(&s, 8)], a, b);
                floats[nf++] = v;
                break;
            case 5:
                str_addf(&body, "%%%u = constant %s" N, v, integers[draw(&s, 7)]);
                ints[ni++] = v;
                break;
            case 6:
                str_addf(&body, "%%%u = %s(%%%u, %%%u)" N, v, logic[draw(&s, 10)], x, y);
                ints[ni++] = v;
                break;
            case 7:
                str_addf(&body, "%%%u = %s(%%%u, %%%u)" B, v, draw(&s, 2) ? "lt" : "eq", a, b);
                bools[nb++] = v;
                break;
            case 8:
                str_addf(&body, "%%%u = select(%%%u, %%%u, %%%u)" F, v, p, a, b);
                floats[nf++] = v;
                break;
            default:
                str_addf(&body, "%%%u = cast(%%%u)%s", v, draw(&s, 2) ? x : p, F);
                floats[nf++] = v;
                break;
            }
        }
        str_addf(&body, "%%40 = add(%%%u, %%%u)" F, floats[nf - 1], floats[nf - 2]);
        struct ir_module *m = module_of(str_text(&body)), *folded = rebuilt(m);
        for (uint64_t k = 0; k < 5; k++) same_values(m, folded, seed * 100 + k);
        ir_module_free(m);
        ir_module_free(folded);
    }
}
END_TEST

/* ---------------------------------------------------------------- conversions */

enum { VALUES = 128 };

/* Where types end and where their digits do. */
static uint32_t edge_values(enum ir_dtype dtype, double *v)
{
    static const int powers[] = {7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 100, 200};
    static const double special[] = {0, -0.0, 0.1, 3, 1e-40, 1e-300, 65504, INFINITY, -INFINITY, NAN};
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) v[n++] = special[i];
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++)
        for (int side = -1; side <= 1; side++)
            for (int sign = -1; sign <= 1; sign += 2) v[n++] = sign * (ldexp(1, powers[i]) + side);
    for (uint32_t i = 0; i < n; i++) v[i] = ir_element_round(dtype, v[i]);
    return n;
}

/* Two conversions are one exactly where the first keeps every value; an integer by way of a float to an integer stays
 * as it is written, because floats saturate where integers wrap around. */
START_TEST(conversions)
{
    for (enum ir_dtype from = IR_TUPLE + 1; from < IR_DTYPE_COUNT; from++)
        for (enum ir_dtype through = IR_TUPLE + 1; through < IR_DTYPE_COUNT; through++)
            for (enum ir_dtype to = IR_TUPLE + 1; to < IR_DTYPE_COUNT; to++) {
                double v[VALUES];
                uint32_t n = edge_values(from, v);
                struct ir_module *m = parse(arena_format(
                    &arena,
                    "module \"m\" stage tensor\nfunc \"f\" {\n%%1 = param index=0 \"x\" : %s[%u]\n%%2 = cast(%%1) : "
                    "%s[%u]\n%%3 = cast(%%2) : %s[%u]\nresult \"two\" %%3\n}\n",
                    ir_dtype_name(from), n, ir_dtype_name(through), n, ir_dtype_name(to), n));
                struct ir_module *folded = rebuilt(m);
                struct ir_tensor x = {m->funcs.items[0]->params.items[0].type, v}, one, two;
                ir_eval(m->funcs.items[0], IR_EVAL_EXACT_DTYPES, &x, &one, &arena);
                ir_eval(folded->funcs.items[0], IR_EVAL_EXACT_DTYPES, &x, &two, &arena);
                /* of 64-bit integers the values here are those that are doubles */
                bool keeps = !(ir_dtype_is_integer(from) && ir_dtype_bytes(from) == 8 && ir_dtype_is_float(through));
                for (uint32_t i = 0; i < n; i++) {
                    ck_assert_msg(one.v[i] == two.v[i] || (isnan(one.v[i]) && isnan(two.v[i])),
                                  "%.17g: %.17g, folded %.17g\n%s", v[i], one.v[i], two.v[i], print(folded));
                    double between = ir_element_round(through, v[i]);
                    keeps = keeps && (between == v[i] || (isnan(between) && isnan(v[i])));
                }
                bool wraps = !ir_dtype_is_float(from) && ir_dtype_is_float(through) && ir_dtype_is_integer(to);
                bool own = from == through || through == to; /* one is a conversion to its own type */
                ck_assert_msg(own || (live_nodes(folded->funcs.items[0]) < 2) == (keeps && !wraps), "%s",
                              print(folded));
                ir_module_free(m);
                ir_module_free(folded);
            }
}
END_TEST

int main(void)
{
    TCase *tests = CASE_OF(60, each_rule, random_programs, conversions);
    tcase_add_checked_fixture(tests, setup, teardown);
    return run_case("fold", tests);
}
