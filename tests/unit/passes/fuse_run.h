/* What becomes of small functions: the groups, commands and memory of a plan. */
#ifndef UNIT_FUSE_RUN_H
#define UNIT_FUSE_RUN_H
#include "passes/pass.h"
#include "tests/unit/suite.h"
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct ir_module *m, *planned;
    struct ir_builder b;
    struct pass pass;
    struct arena keep, diag_arena;
    struct diags diags;
    struct pass_options options;
    uint32_t slots;
};

static inline void start(struct fixture *x)
{
    memset(x, 0, sizeof *x);
    x->m = ir_module_new("test");
    x->m->stage = IR_AT_KERNEL;
    x->b.f = ir_func_new(x->m, "step", true);
    x->diags.arena = &x->diag_arena;
    x->pass.keep = &x->keep;
    x->pass.diags = &x->diags;
    x->pass.options = &x->options;
}

#define DIMS(...) (sizeof((int64_t[]){__VA_ARGS__}) / 8), ((const int64_t[]){__VA_ARGS__})
#define F32(...) ir_type_of(IR_F32, DIMS(__VA_ARGS__))

static inline int32_t slot(struct fixture *x, enum ir_role role, struct ir_type type)
{
    return (int32_t)ir_slot_new(
        x->m, (struct ir_slot){.name = arena_format(&x->m->arena, "s%u", x->slots++), .role = role, .type = type});
}
static inline ir_value param(struct fixture *x, enum ir_role role, struct ir_type type)
{
    int32_t s = slot(x, role, type);
    return ir_param_new(&x->b, x->m->slots.items[s].name, type, s);
}
static inline void output(struct fixture *x, ir_value v)
{
    ir_result_add(&x->b, "out", v, slot(x, IR_ROLE_OUTPUT, *ir_type(x->b.f, v)));
}
static inline void update(struct fixture *x, ir_value p, ir_value v)
{
    for (size_t i = 0; i < x->b.f->params.count; i++)
        if (x->b.f->params.items[i].value == p) ir_result_add(&x->b, "new", v, x->b.f->params.items[i].slot);
}
static inline ir_value scaled(struct fixture *x, ir_value v, double by)
{
    return ir_binary(&x->b, OP_mul, v, ir_number_like(&x->b, v, by));
}
static inline ir_value add(struct fixture *x, ir_value a, ir_value b) { return ir_binary(&x->b, OP_add, a, b); }
static inline ir_value rows(struct fixture *x, ir_value v, ir_value like)
{
    int64_t dim = 0;
    return ir_broadcast(&x->b, v, 2, ir_type(x->b.f, like)->dim, &dim);
}
static inline ir_value row_sum(struct fixture *x, enum ir_op op, ir_value v)
{
    int64_t last = 1;
    return ir_reduce(&x->b, op, v, &last, 1);
}
static inline ir_value product(struct fixture *x, ir_value a, ir_value b, int64_t ka, int64_t kb)
{
    struct ir_ints none = {NULL, 0}, l = {&ka, 1}, r = {&kb, 1};
    return ir_dot(&x->b, a, b, none, none, l, r);
}

static inline const struct plan *finish(struct fixture *x)
{
    struct ir_module *m = pass_fuse(&x->pass, x->m);
    m = pass_schedule(&x->pass, m);
    x->planned = pass_memplan(&x->pass, m);
    struct str faults = STR(&x->keep);
    ck_assert_msg(ir_verify(m, &faults), "%s", str_text(&faults));
    return m->plans->plans.items[0];
}

static inline void drop(struct fixture *x)
{
    ir_module_free(x->planned);
    arena_free(&x->keep);
    arena_free(&x->pass.scratch);
    arena_free(&x->diag_arena);
    ir_module_free(x->m);
}

static inline uint32_t kinds(const struct plan *p, enum plan_group_kind kind)
{
    uint32_t n = 0;
    for (size_t i = 0; i < p->groups.count; i++) n += p->groups.items[i].kind == kind;
    return n;
}
#endif
