/* Random functions for the tests of the passes: whatever the builder accepts. Include once per program. */
#ifndef TESTS_RANDOM_IR_H
#define TESTS_RANDOM_IR_H
#include "ir/ir.h"

struct random_ir {
    uint64_t state;
};

static inline uint32_t random_next(struct random_ir *r, uint32_t limit)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(r->state >> 33) % limit;
}

static inline void random_refused(void *user, const char *message) { (void)user, (void)message; }

/* Ops that tests of equality can stand: nothing that jumps on a last digit, or that leaves the reals for long. */
static const uint16_t random_ops[] = {
    OP_neg,  OP_abs,    OP_exp,       OP_tanh,       OP_logistic,      OP_sin,        OP_cos,
    OP_erf,  OP_cbrt,   OP_erf_inv,   OP_is_finite,  OP_stop_gradient, OP_add,        OP_sub,
    OP_mul,  OP_add,    OP_mul,       OP_max,        OP_min,           OP_atan2,      OP_select,
    OP_cast, OP_lt,     OP_broadcast, OP_broadcast,  OP_reshape,       OP_transpose,  OP_slice,
    OP_pad,  OP_concat, OP_reverse,   OP_reduce_sum, OP_reduce_sum,    OP_reduce_max, OP_reduce_prod,
    OP_dot,  OP_dot,    OP_dot,       OP_take,       OP_dynamic_slice, OP_extend,     OP_cumulate};

/* Attributes that may fit; inference decides. */
static inline void random_attributes(struct random_ir *r, struct ir_builder *b, struct ir_node *n,
                                     int64_t v[4][IR_MAX_RANK])
{
    const struct ir_type *x = ir_type(b->f, n->args[0]);
    uint32_t rank = x->rank;
    struct ir_type type = *x;
    for (uint32_t i = 0; i < 4; i++) n->attr[i] = (struct ir_ints){v[i], rank};
    for (uint32_t i = 0; i < IR_MAX_RANK; i++)
        for (int k = 0; k < 4; k++) v[k][i] = 0;
    switch (n->op) {
    case OP_cast: type.dtype = random_next(r, 2) ? IR_F32 : IR_F64; break;
    case OP_broadcast:
        type.rank = 0;
        for (uint32_t i = 0; i < rank; i++) {
            if (random_next(r, 3) == 0 && type.rank < 4) type.dim[type.rank++] = 1 + random_next(r, 4);
            v[0][i] = type.rank;
            type.dim[type.rank++] = x->dim[i] == 1 ? 1 + random_next(r, 3) : x->dim[i];
        }
        if (type.rank < 3) type.dim[type.rank++] = 1 + random_next(r, 4);
        break;
    case OP_reshape:
        type.rank = 0;
        type.dim[type.rank++] = ir_type_elements(x);
        if (random_next(r, 2)) type.dim[type.rank++] = 1;
        for (uint32_t i = type.rank; i < IR_MAX_RANK; i++) type.dim[i] = 0;
        break;
    case OP_transpose: {
        uint32_t shift = rank ? random_next(r, rank) : 0;
        for (uint32_t i = 0; i < rank; i++) v[0][i] = (i + shift) % rank;
        break;
    }
    case OP_slice:
        for (uint32_t i = 0; i < rank; i++) {
            v[0][i] = random_next(r, 2);
            v[1][i] = x->dim[i];
            v[2][i] = 1 + random_next(r, 2);
        }
        break;
    case OP_pad:
        for (uint32_t i = 0; i < rank; i++)
            for (int k = 0; k < 3; k++) v[k][i] = (int64_t)random_next(r, 3) - (k < 2);
        for (uint32_t i = 0; i < rank; i++) v[2][i] = v[2][i] == 2 ? 1 : 0;
        break;
    case OP_extend: {
        int64_t sign = random_next(r, 2) ? 1 : -1;
        n->attr[2].n = 1;
        v[2][0] = random_next(r, 3);
        for (uint32_t i = 0; i < rank; i++)
            for (int k = 0; k < 2; k++) v[k][i] = sign * random_next(r, 3);
        if (rank && random_next(r, 3) == 0) v[1][0] = -v[0][0];
        break;
    }
    case OP_dot:
        n->attr[0].n = n->attr[1].n = 0;
        n->attr[2].n = n->attr[3].n = 1;
        v[2][0] = random_next(r, 3);
        v[3][0] = random_next(r, 3);
        break;
    case OP_cumulate:
        for (uint32_t i = 0; i < 3; i++) n->attr[i].n = 1;
        v[0][0] = rank ? random_next(r, rank) : 0;
        v[1][0] = n->arg_count == 2 ? IR_CUMULATE_LINEAR : random_next(r, IR_CUMULATE_LINEAR);
        v[2][0] = random_next(r, 2);
        break;
    case OP_dynamic_slice:
        for (uint32_t i = 0; i < rank; i++) v[0][i] = x->dim[i] > 1 ? x->dim[i] - 1 : x->dim[i];
        break;
    default: /* one dimension */ n->attr[0].n = 1; v[0][0] = rank ? random_next(r, rank) : 0;
    }
    n->type = type;
}

static inline ir_value random_node(struct random_ir *r, struct ir_builder *b, bool unstopped)
{
    int64_t v[4][IR_MAX_RANK];
    ir_value args[2 + IR_MAX_RANK];
    struct ir_node n = {.op = random_ops[random_next(r, sizeof random_ops / sizeof random_ops[0])], .args = args};
    n.arg_count = ir_ops[n.op].args < 0 ? 2 : (uint32_t)ir_ops[n.op].args;
    if (n.op == OP_cumulate) n.arg_count = 1 + random_next(r, 2);
    for (uint32_t i = 0; i < n.arg_count; i++) args[i] = 1 + random_next(r, b->f->count - 1);
    if (n.op == OP_stop_gradient && unstopped) return 0;
    if (n.op == OP_pad) args[1] = ir_scalar(b, (enum ir_dtype)ir_type(b->f, args[0])->dtype, 0.5);
    if (n.op == OP_take) args[1] = ir_iota(b, ir_type_of(IR_I32, 1, (int64_t[]){2}), 0);
    if (n.op == OP_dynamic_slice) {
        n.arg_count = 1 + ir_type(b->f, args[0])->rank;
        for (uint32_t i = 1; i < n.arg_count; i++) args[i] = ir_scalar(b, IR_I32, random_next(r, 3));
    }
    if (ir_type_elements(ir_type(b->f, args[0])) > 200) return 0;
    random_attributes(r, b, &n, v);
    ir_value made = ir_make(b, n);
    if (made && (n.op == OP_exp || n.op == OP_reduce_prod || n.op == OP_dot || n.op == OP_reduce_sum || n.op == OP_mul))
        made = ir_unary(b, OP_tanh, made); /* keeps numbers small */
    return made && n.op == OP_erf_inv ? 0 : made;
}

/* Parameters a, b, c and a result per float that nothing reads; with `grad` its sum is differentiated, twice. */
enum { RANDOM_PLAIN, RANDOM_GRAD, RANDOM_GRAD_UNSTOPPED /* nothing that hides a slope */ };
static inline struct ir_module *random_module(uint64_t seed, uint32_t nodes, int grad)
{
    struct random_ir r = {seed * 77 + 1};
    struct ir_module *m = ir_module_new("random");
    struct ir_builder b = {.f = ir_func_new(m, "main", true), .reject = random_refused};
    int64_t all[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7}, n = 2 + random_next(&r, 3);
    ir_value wrt[3] = {ir_param_new(&b, "a", ir_type_of(IR_F32, 2, (int64_t[]){2, n}), -1),
                       ir_param_new(&b, "b", ir_type_of(IR_F32, 1, &n), -1),
                       ir_param_new(&b, "c", ir_type_of(IR_F32, 0, NULL), -1)};
    for (uint32_t made = 0, tries = 0; made < nodes && tries < 100 * nodes; tries++)
        made += random_node(&r, &b, grad == RANDOM_GRAD_UNSTOPPED) != 0;
    struct arena arena = {0};
    uint32_t *uses = ir_use_counts(b.f, &arena), count = b.f->count;
    ir_value loss = ir_scalar(&b, IR_F32, 0);
    for (ir_value v = 1; v < count; v++) {
        struct ir_type type = *ir_type(b.f, v);
        if (uses[v] || !ir_dtype_is_float((enum ir_dtype)type.dtype)) continue;
        ir_result_add(&b, arena_format(&arena, "y%u", v), v, -1);
        loss = ir_binary(&b, OP_add, loss,
                         ir_cast(&b, ir_reduce(&b, OP_reduce_sum, ir_unary(&b, OP_sin, v), all, type.rank), IR_F32));
    }
    ir_result_add(&b, "loss", loss, -1);
    if (grad) {
        ir_value first = ir_grad(&b, loss, wrt, 3), norm = ir_scalar(&b, IR_F32, 0);
        for (uint32_t i = 0; i < 3; i++) {
            ir_value g = ir_proj(&b, first, i);
            ir_result_add(&b, arena_format(&arena, "g%u", i), g, -1);
            norm = ir_binary(
                &b, OP_add, norm,
                ir_reduce(&b, OP_reduce_sum, ir_binary(&b, OP_mul, g, g), all, ir_type(b.f, wrt[i])->rank));
        }
        ir_value second = ir_grad(&b, norm, wrt, 3);
        for (uint32_t i = 0; i < 3; i++) ir_result_add(&b, arena_format(&arena, "h%u", i), ir_proj(&b, second, i), -1);
    }
    arena_free(&arena);
    return m;
}
#endif
