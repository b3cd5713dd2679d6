/* Loops inside expressions: iterations of special functions, sweeps of Jacobi, greatest common divisors. */
#include "frontend/expr/values.h"

void fe_loop_open(struct fe_loop *l, struct fe_site *s, const char *name)
{
    const char *unique = name;
    *l = (struct fe_loop){.outer = s, .in = *s};
    for (int i = 1; ir_func_find(s->fe->module, unique); i++) unique = arena_format(s->fe->arena, "%s_%d", name, i);
    l->body = *s->b;
    l->body.f = ir_func_new(s->fe->module, unique, false);
    l->in.b = &l->body;
    l->number = fe_val_tensor(ir_param_new(&l->body, "i", ir_type_scalar(IR_I32), -1));
}

static struct fe_val inside(struct fe_loop *l, struct fe_val outer, const char *name)
{
    return fe_tensor_val(ir_param_new(&l->body, name, fe_type_at(l->outer, &outer), -1), outer.weak);
}

struct fe_val fe_loop_carry(struct fe_loop *l, struct fe_val initial)
{
    ASSERT(l->captured.count == 0);
    if (!fe_as_tensor(l->outer, &initial)) return fe_bad();
    if (!l->unstopped) initial = fe_stop(l->outer, initial);
    vec_push(l->outer->fe->arena, &l->carried, initial.tensor);
    return inside(l, initial, arena_format(l->outer->fe->arena, "carried%zu", l->carried.count));
}

struct fe_val fe_loop_see(struct fe_loop *l, struct fe_val outer)
{
    if (!fe_as_tensor(l->outer, &outer)) return fe_bad();
    outer = fe_stop(l->outer, outer);
    vec_push(l->outer->fe->arena, &l->captured, outer.tensor);
    return inside(l, outer, arena_format(l->outer->fe->arena, "seen%zu", l->captured.count));
}

bool fe_loop_close(struct fe_loop *l, int64_t rounds, bool go, const struct fe_val *next, struct fe_val *after)
{
    struct fe_site *s = l->outer;
    uint32_t n = (uint32_t)l->carried.count;
    for (uint32_t i = 0; i < n; i++) {
        const struct ir_type *t = ir_type(s->b->f, l->carried.items[i]);
        struct fe_val v = next[i].bad ? next[i]
                                      : fe_broadcast_val(&l->in, fe_cast(&l->in, next[i], (enum ir_dtype)t->dtype),
                                                         t->rank, t->dim);
        if (v.bad) return false;
        ir_result_add(&l->body, arena_format(s->fe->arena, "carried%u", i), v.tensor, -1);
    }
    ir_value tuple = ir_loop(s->b, l->body.f, ir_scalar(s->b, IR_I32, (double)rounds), l->carried.items, n, go,
                             l->captured.items, (uint32_t)l->captured.count);
    for (uint32_t i = 0; i < n; i++) after[i] = fe_val_tensor(ir_proj(s->b, tuple, i));
    return tuple != 0;
}
