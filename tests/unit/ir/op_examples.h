/* One valid and one invalid use of every op, as bodies of a function in the text form. A new row of ops.def needs one
 * here. The functions of op_preamble may be named. */
#ifndef OP_EXAMPLES_H
#define OP_EXAMPLES_H

/* clang-format off */
struct op_example { const char *op, *accept, *reject; };

#define P(number, index, type) "%" #number " = param index=" #index " \"p" #index "\" : " type "\n"
#define F23 "float32[2, 3]"
#define B23 "bool[2, 3]"
#define U23 "uint32[2, 3]"
#define I0 "int32[]"
#define Y "result \"y\" "
#define UNARY(op, type, bad) {#op, P(1, 0, type) "%2 = " #op "(%1) : " type "\n" Y "%2", P(1, 0, bad) "%2 = " #op "(%1) : " bad "\n" Y "%2"}
#define BINARY(op, type, bad) \
    {#op, P(1, 0, type) P(2, 1, type) "%3 = " #op "(%1, %2) : " type "\n" Y "%3", \
     P(1, 0, type) P(2, 1, bad) "%3 = " #op "(%1, %2) : " type "\n" Y "%3"}
#define COMPARE(op) \
    {#op, P(1, 0, F23) P(2, 1, F23) "%3 = " #op "(%1, %2) : " B23 "\n" Y "%3", \
     P(1, 0, F23) P(2, 1, "float32[3]") "%3 = " #op "(%1, %2) : " B23 "\n" Y "%3"}
#define ONE(op, from, rest, bad) {#op, P(1, 0, from) "%2 = " #op "(%1) " rest "\n" Y "%2", P(1, 0, from) "%2 = " #op "(%1) " bad "\n" Y "%2"}
#define LEAF(op, rest, bad) {#op, "%1 = " #op " " rest "\n" Y "%1", "%1 = " #op " " bad "\n" Y "%1"}

static const char op_preamble[] =
    "func \"shift\" {\n" P(1, 0, "float32[2]") "%2 = constant 1 : float32[2]\n%3 = add(%1, %2) : float32[2]\n" Y "%3\n}\n"
    "func \"turn\" {\n" P(1, 0, I0) P(2, 1, "float32[2]") P(3, 2, "float32[2]") "%4 = add(%2, %3) : float32[2]\n" Y "%4\n}\n"
    "func \"part\" {\n" P(1, 0, "float32[2, 3]") P(2, 1, "float32[]")
    "%3 = reduce_sum(%1) dims=[0, 1] : float32[]\n%4 = mul(%3, %2) : float32[]\n" Y "%4\n%5 = reduce_sum(%1) dims=1 : float32[2]\n"
    "result \"rows\" %5\n}\n"
    "func \"walk\" {\n" P(1, 0, "float32[2]") P(2, 1, "float32[3]") P(3, 2, "float32[2, 3]")
    "%4 = dot(%3, %2) lhs_batch=[] rhs_batch=[] lhs_contract=1 rhs_contract=0 : float32[2]\n%5 = mul(%1, %4) : float32[2]\n"
    "%6 = tanh(%5) : float32[2]\n" Y "%6\nresult \"made\" %4\n}\n";

static const struct op_example op_examples[] = {
    LEAF(param, "index=0 \"x\" : " F23, "index=1 \"x\" : " F23),
    LEAF(constant, "[1.5, -0, NaN, Infinity, 0x7fc00001, 1e-45] : " F23, "[1.5, 2] : " F23),
    LEAF(iota, "dim=1 : " F23, "dim=2 : " F23),
    UNARY(neg, F23, B23), UNARY(abs, F23, B23), UNARY(sign, F23, B23), UNARY(exp, F23, "int32[2]"), UNARY(expm1, F23, "int32[2]"),
    UNARY(log, F23, "int32[2]"), UNARY(log1p, F23, "int32[2]"), UNARY(log2, F23, "int32[2]"), UNARY(sqrt, F23, "int32[2]"), UNARY(rsqrt, F23, "int32[2]"),
    UNARY(cbrt, F23, "int32[2]"), UNARY(tanh, F23, "int32[2]"), UNARY(logistic, F23, "int32[2]"), UNARY(sin, F23, "int32[2]"),
    UNARY(cos, F23, "int32[2]"), UNARY(erf, F23, "int32[2]"), UNARY(erf_inv, F23, "int32[2]"), UNARY(floor, F23, "int32[2]"),
    UNARY(ceil, F23, "int32[2]"), UNARY(round, F23, "int32[2]"), UNARY(not, B23, F23),
    ONE(is_finite, F23, ": " B23, ": " F23),
    ONE(cast, F23, ": bfloat16[2, 3]", ": bfloat16[3, 2]"),
    ONE(bitcast, F23, ": " U23, ": uint16[2, 3]"),
    ONE(stop_gradient, F23, ": " F23, ": float32[3, 2]"),
    BINARY(add, F23, "float32[3]"), BINARY(sub, F23, "float32[3]"), BINARY(mul, F23, "float32[3]"), BINARY(div, F23, "float32[3]"),
    BINARY(rem, F23, "float32[3]"), BINARY(pow, F23, "float32[3]"), BINARY(atan2, F23, "float32[3]"), BINARY(max, F23, "float32[3]"),
    BINARY(min, F23, "float32[3]"), BINARY(and, U23, F23), BINARY(or, U23, F23), BINARY(xor, U23, F23), BINARY(shl, U23, F23),
    BINARY(shr, U23, F23), COMPARE(eq), COMPARE(ne), COMPARE(lt), COMPARE(le),
    BINARY(surrogate, F23, "float32[3]"), BINARY(sloped, F23, "float32[3]"),
    {"select", P(1, 0, B23) P(2, 1, F23) P(3, 2, F23) "%4 = select(%1, %2, %3) : " F23 "\n" Y "%4",
     P(1, 0, "bool[3]") P(2, 1, F23) P(3, 2, F23) "%4 = select(%1, %2, %3) : " F23 "\n" Y "%4"},
    {"threefry", P(1, 0, U23) P(2, 1, U23) "%3 = threefry(%1, %2, %1, %2) word=1 : " U23 "\n" Y "%3",
     P(1, 0, U23) P(2, 1, U23) "%3 = threefry(%1, %2, %1, %2) word=2 : " U23 "\n" Y "%3"},
    ONE(broadcast, "float32[1, 3]", "dims=[0, 2] : float32[2, 4, 3]", "dims=[0, 1] : float32[2, 4, 3]"),
    ONE(reshape, F23, ": float32[3, 2, 1]", ": float32[4, 2]"),
    ONE(transpose, F23, "perm=[1, 0] : float32[3, 2]", "perm=[1, 1] : float32[3, 3]"),
    ONE(slice, F23, "start=[0, 1] limit=[1, 3] stride=[1, 2] : float32[1, 1]", "start=[0, 1] limit=[1, 4] stride=[1, 1] : float32[1, 3]"),
    {"pad", P(1, 0, F23) P(2, 1, "float32[]") "%3 = pad(%1, %2) low=[1, -1] high=[0, 2] interior=[1, 0] : float32[4, 4]\n" Y "%3",
     P(1, 0, F23) P(2, 1, "float32[1]") "%3 = pad(%1, %2) low=[1, 1] high=[0, 0] interior=[0, 0] : float32[3, 4]\n" Y "%3"},
    {"concat", P(1, 0, F23) P(2, 1, "float32[2, 1]") "%3 = concat(%1, %2, %1) dim=1 : float32[2, 7]\n" Y "%3",
     P(1, 0, F23) P(2, 1, "float32[2, 1]") "%3 = concat(%1, %2) dim=0 : float32[4, 3]\n" Y "%3"},
    ONE(extend, F23, "low=[1, -1] high=[1, 1] kind=0 : float32[4, 3]", "low=[1, 1] high=[1, -1] kind=1 : float32[4, 3]"),
    ONE(cumulate, F23, "dim=1 kind=0 reverse=1 : " F23, "dim=1 kind=5 reverse=0 : " F23),
    {"winograd", P(1, 0, "float32[2, 8, 6, 3]") P(2, 1, "float32[16, 1, 3, 8]")
     "%3 = winograd(%1, %2) extent=[5, 4, 7] : float32[2, 5, 4, 7]\n" Y "%3",
     P(1, 0, "float32[2, 8, 6, 3]") P(2, 1, "float32[16, 1, 3, 8]")
     "%3 = winograd(%1, %2) extent=[4, 4, 7] : float32[2, 4, 4, 7]\n" Y "%3"},
    ONE(winograd_points, "float32[3, 2, 5]", "panel=4 taps=[2, 1, 0] : float32[4, 2, 2, 4]", "panel=4 taps=[2, 1, 1] : float32[4, 2, 2, 4]"),
    {"winograd_sum", P(1, 0, "float32[4, 8, 3]") P(2, 1, "float32[4, 6, 5]")
     "%3 = winograd_sum(%1, %2) parts=[2, 3, 1] taps=[0, 1, 2] : float32[6, 3, 3, 5]\n" Y "%3",
     P(1, 0, "float32[4, 8, 3]") P(2, 1, "float32[4, 6, 5]")
     "%3 = winograd_sum(%1, %2) parts=[2, 2, 1] taps=[0, 1, 2] : float32[4, 3, 3, 5]\n" Y "%3"},
    ONE(order, "int32[2, 3]", "dim=1 : int32[2, 3]", "dim=2 : int32[2, 3]"),
    ONE(reverse, F23, "dims=1 : " F23, "dims=2 : " F23),
    {"dynamic_slice", P(1, 0, F23) P(2, 1, I0) "%3 = dynamic_slice(%1, %2, %2) sizes=[1, 2] : float32[1, 2]\n" Y "%3",
     P(1, 0, F23) P(2, 1, I0) "%3 = dynamic_slice(%1, %2) sizes=[1, 2] : float32[1, 2]\n" Y "%3"},
    {"dynamic_update", P(1, 0, F23) P(2, 1, "float32[1, 2]") P(3, 2, I0) "%4 = dynamic_update(%1, %2, %3, %3) : " F23 "\n" Y "%4",
     P(1, 0, F23) P(2, 1, "float32[1, 4]") P(3, 2, I0) "%4 = dynamic_update(%1, %2, %3, %3) : " F23 "\n" Y "%4"},
    {"take", P(1, 0, F23) P(2, 1, "int32[4, 5]") "%3 = take(%1, %2) dim=0 : float32[4, 5, 3]\n" Y "%3",
     P(1, 0, F23) P(2, 1, "float32[4, 5]") "%3 = take(%1, %2) dim=0 : float32[4, 5, 3]\n" Y "%3"},
    {"scatter_add", P(1, 0, F23) P(2, 1, "int32[4]") P(3, 2, "float32[4, 3]") "%4 = scatter_add(%1, %2, %3) dim=0 : " F23 "\n" Y "%4",
     P(1, 0, F23) P(2, 1, "int32[4]") P(3, 2, "float32[3, 4]") "%4 = scatter_add(%1, %2, %3) dim=0 : " F23 "\n" Y "%4"},
    ONE(reduce_sum, F23, "dims=[0, 1] : float32[]", "dims=[0, 2] : float32[3]"),
    ONE(reduce_prod, F23, "dims=0 : float32[3]", "dims=[0, 0] : float32[3]"),
    ONE(reduce_max, F23, "dims=1 : float32[2]", "dims=1 : float32[3]"),
    ONE(reduce_min, F23, "dims=1 : float32[2]", "dims=-1 : float32[2]"),
    ONE(argmax, F23, "dim=1 : int32[2]", "dim=1 : float32[2]"),
    ONE(argmin, F23, "dim=0 : int32[3]", "dim=2 : int32[3]"),
    {"dot", P(1, 0, "float32[5, 2, 3]") P(2, 1, "float32[3, 5, 4]")
     "%3 = dot(%1, %2) lhs_batch=0 rhs_batch=1 lhs_contract=2 rhs_contract=0 : float32[5, 2, 4]\n" Y "%3",
     P(1, 0, F23) P(2, 1, "float32[4, 5]") "%3 = dot(%1, %2) lhs_batch=[] rhs_batch=[] lhs_contract=1 rhs_contract=0 : float32[2, 5]\n" Y "%3"},
    {"call", P(1, 0, "float32[2]") "%2 = call(%1) func=\"shift\" : tuple\n%3 = proj(%2) index=0 : float32[2]\n" Y "%3",
     P(1, 0, "float32[3]") "%2 = call(%1) func=\"shift\" : tuple\n"},
    {"loop", P(1, 0, I0) P(2, 1, "float32[2]")
     "%3 = loop(%1, %2, %2) carried=1 while=0 func=\"turn\" : tuple\n%4 = proj(%3) index=0 : float32[2]\n" Y "%4",
     P(1, 0, I0) P(2, 1, "float32[2]") "%3 = loop(%1, %2, %2) carried=2 while=0 func=\"turn\" : tuple\n"},
    {"proj", P(1, 0, "float32[2]") "%2 = call(%1) func=\"shift\" : tuple\n%3 = proj(%2) index=0 : float32[2]\n" Y "%3",
     P(1, 0, "float32[2]") "%2 = call(%1) func=\"shift\" : tuple\n%3 = proj(%2) index=1 : float32[2]\n" Y "%3"},
    {"grad", P(1, 0, F23) "%2 = reduce_sum(%1) dims=[0, 1] : float32[]\n%3 = grad(%2, %1) : tuple\n%4 = proj(%3) index=0 : " F23 "\n" Y "%4",
     P(1, 0, F23) "%2 = grad(%1, %1) : tuple\n"},
    {"accumulate", P(1, 0, I0) P(2, 1, "float32[6, 3]") P(3, 2, "float32[]")
     "%4 = accumulate(%1, %2, %3) batched=1 microbatches=3 split=0 kinds=[1, 3] func=\"part\" : tuple\n"
     "%5 = proj(%4) index=0 : float32[]\n" Y "%5\n%6 = proj(%4) index=1 : float32[6]\nresult \"rows\" %6",
     P(1, 0, I0) P(2, 1, "float32[5, 3]") P(3, 2, "float32[]")
     "%4 = accumulate(%1, %2, %3) batched=1 microbatches=3 split=0 kinds=[1, 3] func=\"part\" : tuple\n"},
    {"scan", P(1, 0, "float32[2]") P(2, 1, "float32[4, 3]") P(3, 2, "float32[2, 3]")
     "%4 = scan(%1, %2, %3) carried=1 stacked=1 times=4 reverse=1 func=\"walk\" : tuple\n"
     "%5 = proj(%4) index=0 : float32[2]\n" Y "%5\n%6 = proj(%4) index=1 : float32[4, 2]\nresult \"rows\" %6",
     P(1, 0, "float32[2]") P(2, 1, "float32[5, 3]") P(3, 2, "float32[2, 3]")
     "%4 = scan(%1, %2, %3) carried=1 stacked=1 times=4 reverse=1 func=\"walk\" : tuple\n"},
    {"vmap", P(1, 0, "float32[4, 2, 3]") P(2, 1, "float32[]") "%3 = vmap(%1, %2) batched=1 func=\"part\" : tuple\n"
     "%4 = proj(%3) index=0 : float32[4]\n" Y "%4\n%5 = proj(%3) index=1 : float32[4, 2]\nresult \"rows\" %5",
     P(1, 0, "float32[4, 2, 3]") P(2, 1, "float32[]") "%3 = vmap(%1, %2) batched=2 func=\"part\" : tuple\n"},
    ONE(sharding_constraint, F23, "axes=[1, 0] : " F23, "axes=1 : " F23),
    ONE(all_reduce, F23, "axes=1 kind=0 : " F23 " <-, \"data\">", "axes=1 kind=3 : " F23),
    ONE(all_gather, F23, "axes=1 dim=0 : float32[4, 3]", "axes=1 dim=0 : float32[4, 4]"),
    ONE(reduce_scatter, "float32[4, 3]", "axes=1 dim=0 : float32[2, 3] <\"data\", - | \"model\">", "axes=1 dim=2 : float32[2, 3]"),
    ONE(all_to_all, F23, "axes=1 split=0 dim=1 : float32[1, 6]", "axes=1 split=1 dim=0 : float32[4, 1]"),
    ONE(permute, F23, "axes=1 by=1 row=0 : " F23, "axes=3 by=0 row=9 : " F23),
    LEAF(device_index, "axes=3 : int32[]", "axes=3 : float32[]"),
};
#endif
