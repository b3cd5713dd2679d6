/* Element-wise operations of the op table as CUDA C expressions, with the meaning that ops.def gives them
 * (kernels/cuda/prelude.cu has what C leaves open).
 *
 * Elementary functions are CUDA's own. Their largest errors in f32 by the CUDA programming guide, in units in the last
 * place over the full range: exp 1, expm1 1, log 1, log1p 1, log2 1, rsqrt 2, tanh 2, sin 2, cos 2, erf 2,
 * pow 4, atan2 3; sqrt, division and fmod are exact or correctly rounded; logistic is made of exp, an addition and a
 * division, within 3; weights of attention may be rougher (nest_rough_exp). In f64 all are within 2. bf16 and f16
 * compute in f32 and round after every operation, but for sums and products of bf16, which are rounded as they are
 * made: as these are exact in f32 or far more exact than bf16, that is the same. */
#include "codegen/cuda/cuda.h"
#include <math.h>
#include <string.h>

/* clang-format off */
static const struct { const char *in_register, *in_memory, *as_unsigned; } types[IR_DTYPE_COUNT] = {
    [IR_BOOL] = {"bool", "unsigned char", "unsigned"},
    [IR_U8] = {"unsigned char", "unsigned char", "unsigned"},
    [IR_U16] = {"unsigned short", "unsigned short", "unsigned"},
    [IR_U32] = {"unsigned", "unsigned", "unsigned"},
    [IR_U64] = {"unsigned long long", "unsigned long long", "unsigned long long"},
    [IR_I8] = {"signed char", "signed char", "unsigned"},
    [IR_I16] = {"short", "short", "unsigned"},
    [IR_I32] = {"int", "int", "unsigned"},
    [IR_I64] = {"long long", "long long", "unsigned long long"},
    [IR_F16] = {"float", "unsigned short", NULL},
    [IR_BF16] = {"float", "unsigned short", NULL},
    [IR_F32] = {"float", "float", NULL},
    [IR_F64] = {"double", "double", NULL},
};
/* clang-format on */

const char *cuda_register_type(enum ir_dtype dtype) { return types[dtype].in_register; }
const char *cuda_memory_type(enum ir_dtype dtype) { return types[dtype].in_memory; }

static bool is_half(enum ir_dtype dtype) { return dtype == IR_F16 || dtype == IR_BF16; }
static const char *half_name(enum ir_dtype dtype) { return dtype == IR_F16 ? "f16" : "bf16"; }

const char *cuda_rounded(struct arena *arena, enum ir_dtype dtype, const char *text)
{
    return is_half(dtype) ? arena_format(arena, "stepc_%s_round(%s)", half_name(dtype), text) : text;
}

const char *cuda_from_memory(struct arena *arena, enum ir_dtype dtype, const char *place)
{
    if (dtype == IR_BOOL) return arena_format(arena, "%s != 0", place);
    return is_half(dtype) ? arena_format(arena, "stepc_%s_value(%s)", half_name(dtype), place) : place;
}

const char *cuda_to_memory(struct arena *arena, enum ir_dtype dtype, const char *value)
{
    return is_half(dtype) ? arena_format(arena, "stepc_%s_bits(%s)", half_name(dtype), value) : value;
}

/* ---------------------------------------------------------------- numbers */

static const char *real_number(struct arena *arena, enum ir_dtype dtype, double x)
{
    bool wide = dtype == IR_F64;
    struct str out = STR(arena);
    if (!isfinite(x)) {
        const char *bits = isnan(x) ? (wide ? "0x7ff8000000000000ull" : "0x7fc00000u")
                                    : (wide ? "0x7ff0000000000000ull" : "0x7f800000u");
        return arena_format(arena, "%sstepc_bits<%s>(%s)", x < 0 ? "-" : "", wide ? "double" : "float", bits);
    }
    str_add_number(&out, x, !wide);
    if (!strpbrk(str_text(&out), ".e")) str_add(&out, ".0");
    str_add(&out, wide ? "" : "f");
    return str_text(&out);
}

const char *cuda_number(struct arena *arena, enum ir_dtype dtype, double x)
{
    if (ir_dtype_is_float(dtype)) return real_number(arena, dtype, dtype == IR_F64 ? x : ir_element_round(dtype, x));
    if (dtype == IR_BOOL) return x != 0 ? "true" : "false";
    if (dtype == IR_U64 && x >= 0x1p63)
        return arena_format(arena, "%lluull", x >= 0x1p64 ? UINT64_MAX : (unsigned long long)x);
    if (x <= -0x1p63) return "(-9223372036854775807ll - 1)";
    return arena_format(arena, "(%s)%lldll", types[dtype].in_register, x >= 0x1p63 ? INT64_MAX : (long long)x);
}

/* ---------------------------------------------------------------- operations */

static const struct {
    const char *real, *integer, *logical;
} spellings[IR_OP_COUNT] = {
#define X(name, real, integer, logical) [OP_##name] = {real, integer, logical},
#include "codegen/cuda/cuda_op.def"
#undef X
};

/* What one instruction does and rounds. */
static const char *const of_bf16[IR_OP_COUNT] = {
    [OP_add] = "stepc_bf16_add($0, $1)", [OP_sub] = "stepc_bf16_sub($0, $1)", [OP_mul] = "stepc_bf16_mul($0, $1)"};

/* Every element-wise op has a row. */
enum {
#define X(name, real, integer, logical) SPELLED_##name,
#include "codegen/cuda/cuda_op.def"
#undef X
#define EWISE(name) NEEDED_##name = SPELLED_##name,
#include "ir/emit.def"
};

static const char *fill(struct arena *arena, const char *format, enum ir_dtype dtype, uint8_t word,
                        const char *const *args)
{
    struct str out = STR(arena);
    for (const char *at = format; *at; at++) {
        if (*at != '$') str_add_n(&out, at, 1);
        else if (*++at == 't') str_add(&out, types[dtype].in_register);
        else if (*at == 'u') str_add(&out, types[dtype].as_unsigned);
        else if (*at == 'f') str_add(&out, dtype == IR_F64 ? "" : "f");
        else if (*at == 'w') str_addf(&out, "%d", (int)word);
        else str_add(&out, args[*at - '0']);
    }
    return str_text(&out);
}

static const char *cast(struct arena *arena, enum ir_dtype to, enum ir_dtype from, const char *x)
{
    if (to == from) return x;
    if (to == IR_BOOL) return arena_format(arena, "%s != 0", x);
    if (ir_dtype_is_float(from) && !ir_dtype_is_float(to))
        return arena_format(arena, "stepc_saturate<%s>(%s)", types[to].in_register, x);
    return arena_format(arena, "(%s)%s", types[to].in_register, x);
}

static const char *bitcast(struct arena *arena, enum ir_dtype to, enum ir_dtype from, const char *x)
{
    if (to == from) return x;
    if (is_half(from)) x = arena_format(arena, "stepc_%s_bits(%s)", half_name(from), x);
    if (is_half(to)) return arena_format(arena, "stepc_%s_value((unsigned short)%s)", half_name(to), x);
    if (to == IR_BOOL) return arena_format(arena, "%s != 0", x);
    if (is_half(from) || from == IR_BOOL) return arena_format(arena, "(%s)%s", types[to].in_register, x);
    return arena_format(arena, "stepc_bits<%s>(%s)", types[to].in_register, x);
}

const char *cuda_op(struct arena *arena, enum ir_op op, enum ir_dtype result, enum ir_dtype operand, uint8_t word,
                    const char *const *args)
{
    const char *text = NULL, *format = ir_dtype_is_float(operand) ? spellings[op].real
                                       : operand == IR_BOOL       ? spellings[op].logical
                                                                  : spellings[op].integer;
    if (op == OP_exp && word) format = "stepc_rough_exp($0)"; /* of float: see nest_rough_exp */
    if (result == IR_BF16 && of_bf16[op]) return fill(arena, of_bf16[op], operand, word, args);
    if (op == OP_cast) text = cast(arena, result, operand, args[0]);
    else if (op == OP_bitcast) text = bitcast(arena, result, operand, args[0]);
    else if (format) text = fill(arena, format, operand, word, args);
    else BUG("CUDA has no %s of %s", ir_ops[op].name, ir_dtype_name(operand));
    return ir_ops[op].flags & IR_ROUNDS ? cuda_rounded(arena, result, text) : text;
}

const char *cuda_fma(struct arena *arena, enum ir_dtype dtype, const char *const *args)
{
    return cuda_rounded(arena, dtype, fill(arena, "fma$f($0, $1, $2)", dtype, 0, args));
}
