/* Loops inside transformations: a body function, what it carries and what it captures (optim.h). */
#include "frontend/optim/optim.h"

struct optim_loop optim_loop(struct optim_transform *t, const char *name)
{
    struct optim_loop loop = {.outer = t->b, .arena = t->fe->arena};
    const char *unique = name;
    for (int i = 1; ir_func_find(t->fe->module, unique); i++) unique = arena_format(t->fe->arena, "%s_%d", name, i);
    loop.b = (struct ir_builder){.f = ir_func_new(t->fe->module, unique, false), .place = t->b->place};
    (void)ir_param_new(&loop.b, "i", ir_type_scalar(IR_I32), -1);
    return loop;
}

uint32_t optim_carry(struct optim_loop *loop, struct fe_term initial, enum ir_dtype dtype)
{
    ir_value value = term_value(loop->outer, initial, dtype);
    const char *name = arena_format(loop->arena, "carried%zu", loop->carried.count);
    ASSERT(loop->captured.count == 0);
    vec_push(loop->arena, &loop->carried, value);
    vec_push(loop->arena, &loop->now, ir_param_new(&loop->b, name, *ir_type(loop->outer->f, value), -1));
    return (uint32_t)loop->carried.count - 1;
}

struct fe_term optim_now(const struct optim_loop *loop, uint32_t number)
{
    return term_tensor(loop->now.items[number]);
}

ir_value optim_capture(struct optim_loop *loop, ir_value outer)
{
    if (!outer) return 0;
    for (size_t i = 0; i < loop->captured.count; i++)
        if (loop->captured.items[i] == outer) return loop->inside.items[i];
    const char *name = arena_format(loop->arena, "captured%zu", loop->captured.count);
    ir_value inside = ir_param_new(&loop->b, name, *ir_type(loop->outer->f, outer), -1);
    vec_push(loop->arena, &loop->captured, outer);
    vec_push(loop->arena, &loop->inside, inside);
    return inside;
}

struct fe_term optim_captured(struct optim_loop *loop, struct fe_term outer)
{
    if (outer.v) outer.v = optim_capture(loop, outer.v);
    return outer;
}

const ir_value *optim_loop_end(struct optim_loop *loop, struct fe_term limit, const ir_value *next)
{
    return optim_loop_close(loop, limit, next, true);
}

const ir_value *optim_loop_close(struct optim_loop *loop, struct fe_term limit, const ir_value *next, bool flag)
{
    uint32_t n = (uint32_t)loop->carried.count;
    for (uint32_t i = 0; i < n; i++) { /* gradients may have another dtype than the parameters */
        enum ir_dtype dtype = (enum ir_dtype)ir_type(loop->outer->f, loop->carried.items[i])->dtype;
        ir_result_add(&loop->b, arena_format(loop->arena, "carried%u", i), ir_cast(&loop->b, next[i], dtype), -1);
    }
    ir_value tuple = ir_loop(loop->outer, loop->b.f, term_value(loop->outer, limit, IR_I32), loop->carried.items, n,
                             flag, loop->captured.items, (uint32_t)loop->captured.count);
    ir_value *values = arena_new_array(loop->arena, ir_value, n + 1);
    for (uint32_t i = 0; i < n; i++) values[i] = ir_proj(loop->outer, tuple, i);
    return values;
}
