/* Constants computed at compile time, by the very rules of the interpreter: element-wise ops on repeated numbers,
 * and anything small on constants. 64-bit integers are left alone (the interpreter holds numbers as doubles). */
#include "ir/fold.h"
#include "ir/plan.h"

#include <math.h>
#include <string.h>

enum { SMALL = 64 };

static bool is_wide(const struct ir_type *type) { return type->dtype == IR_I64 || type->dtype == IR_U64; }

bool fold_number(const struct ir_node *node, double *number)
{
    if (node->op != OP_constant || !node->splat) return false;
    *number = ir_element_get((enum ir_dtype)node->type.dtype, node->data, 0);
    return !is_wide(&node->type) || fabs(*number) < 0x1p53;
}

bool fold_is(const struct ir_node *node, double number)
{
    double found;
    return fold_number(node, &found) && found == number && signbit(found) == signbit(number);
}

static bool is_small(const struct ir_type *type)
{
    int64_t count = ir_type_elements(type);
    return count >= 0 && count <= SMALL;
}

/* Element-wise ops that leave a number as it is, with a meaning for passes. */
static bool keeps_node(enum ir_op op) { return op == OP_sharding_constraint || op == OP_proj || op == OP_dot; }

/* Runs the interpreter's rule on operands given as bytes. `node` has the type to compute with. */
static void *run_rule(const struct ir_node *node, const struct ir_type *types, const void **bytes, struct arena *arena)
{
    struct ir_node copy = *node;
    struct ir_tensor args[IR_EVAL_OPERANDS], result = {node->type, NULL};
    for (uint32_t i = 0; i < node->arg_count; i++) {
        args[i].type = types[i];
        ir_tensor_from_bytes(&args[i], bytes[i], arena);
    }
    result.v = arena_new_array(arena, double, ir_type_elements(&node->type));
    ir_eval_node(&copy, args, &result);
    void *data = arena_array(arena, (size_t)ir_type_elements(&node->type),
                             ir_dtype_bytes((enum ir_dtype)node->type.dtype));
    ir_tensor_to_bytes(&result, data);
    return data;
}

/* f(c, d, ..) of repeated numbers is the repeated f(c, d, ..); small constants element by element */
ir_value fold_constants(struct ir_builder *b, const struct ir_node *node)
{
    if (node->arg_count > IR_EVAL_OPERANDS || keeps_node((enum ir_op)node->op) || is_wide(&node->type)) return 0;
    bool splats = ir_ops[node->op].flags & IR_EWISE, small = is_small(&node->type);
    for (uint32_t i = 0; i < node->arg_count; i++) {
        const struct ir_node *x = fold_arg(b, node, i);
        if (x->op != OP_constant || is_wide(&x->type)) return 0;
        splats &= x->splat;
        small &= is_small(&x->type);
    }
    if (!splats && !small) return 0;

    struct arena scratch = {0};
    struct ir_type types[IR_EVAL_OPERANDS];
    const void *bytes[IR_EVAL_OPERANDS], *data;
    struct ir_node copy = *node;
    if (splats) copy.type = ir_type_scalar((enum ir_dtype)node->type.dtype);
    for (uint32_t i = 0; i < node->arg_count; i++) {
        const struct ir_node *x = fold_arg(b, node, i);
        types[i] = splats ? ir_type_scalar((enum ir_dtype)x->type.dtype) : x->type;
        bytes[i] = splats ? x->data : plan_constant_data(x, &scratch);
    }
    if (node->op == OP_bitcast) data = bytes[0]; /* through doubles a NaN could lose bits */
    else data = run_rule(&copy, types, bytes, &scratch);
    ir_value value = ir_make(b, (struct ir_node){.op = OP_constant, .type = node->type, .data = data, .splat = splats});
    arena_free(&scratch);
    return value;
}
