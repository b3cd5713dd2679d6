/* Functions of complex values. A complex value is a pair of tensors with the parts `real` and `imag`: what fft gives
 * and what + - * / (expr_ops.c), abs, angle, conj, exp, sums, shapes and indices take; it has no dtype of its own and
 * is no result of a document. */
#include "frontend/expr/makers.h"
#include <math.h>
#include <string.h>

/* Linear ones: of both parts alike. */
static const char *const linear[] = {
    "sum",          "mean",     "negative", "positive",         "reshape",  "ravel",
    "transpose",    "swapaxes", "moveaxis", "expand_dims",      "squeeze",  "flip",
    "roll",         "take",     "cumsum",   "stop_gradient",    "fftshift", "ifftshift",
    "broadcast_to", "pad",      "diff",     "matrix_transpose", "copy"};

/* False: not a function of complex values. */
bool fe_complex_call(struct fe_call *c, const struct fe_function *f, struct fe_val *result)
{
    SITE;
    const struct fe_val z = ARG(0);
    const char *name = f->name;
    struct fe_val x = z.items[0], y = z.items[1], parts[2], zero = fe_float(0);
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
        if (!strcmp(linear[i], name)) {
            for (int k = 0; k < 2; k++) {
                struct fe_call one = *c;
                one.arg[0] = z.items[k];
                parts[k] = f->make(&one);
            }
            *result = fe_complex(s, parts[0], parts[1]);
            return true;
        }
    if (!strcmp(name, "real")) *result = x;
    else if (!strcmp(name, "imag")) *result = y;
    else if (!strcmp(name, "conj") || !strcmp(name, "conjugate")) *result = fe_complex(s, x, fe_op1(s, OP_neg, y));
    else if (!strcmp(name, "abs") || !strcmp(name, "absolute")) {
        struct fe_val square = fe_add(s, fe_mul(s, x, x), fe_mul(s, y, y)),
                      none = fe_binary(s, EXPR_OP_EQ, square, zero);
        *result = fe_where3(s, none, zero, fe_op1(s, OP_sqrt, fe_where3(s, none, fe_float(1), square)));
    } else if (!strcmp(name, "square")) *result = fe_binary(s, EXPR_OP_MUL, z, z);
    else if (!strcmp(name, "angle")) {
        *result = fe_op2(s, OP_atan2, y, x);
        if (fe_truth(&ARG(1))) *result = fe_mul(s, *result, fe_float(180 / acos(-1.0)));
    } else if (!strcmp(name, "exp")) {
        struct fe_val size = fe_op1(s, OP_exp, x);
        *result = fe_complex(s, fe_mul(s, size, fe_op1(s, OP_cos, y)), fe_mul(s, size, fe_op1(s, OP_sin, y)));
    } else if (!strcmp(name, "shape") || !strcmp(name, "ndim") || !strcmp(name, "size") || !strcmp(name, "len")) {
        struct fe_call one = *c;
        one.arg[0] = x;
        *result = f->make(&one);
    } else
        return !strcmp(name, "fft") || !strcmp(name, "ifft") || !strcmp(name, "irfft") ? (*result = f->make(c), true)
                                                                                       : false;
    return true;
}
