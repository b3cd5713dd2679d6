/* Work that only some steps need: what was built unconditionally becomes the body of a loop of no or one round, so that
 * the other steps do not pay for it (optim.h). */
#include "frontend/optim/optim.h"

struct branch {
    struct optim_loop loop;
    const struct ir_func *f; /* of the step */
    uint32_t from;           /* nodes from here on move */
    ir_value *inside;        /* per value of f: the same in the body */
};

static bool moves(const struct branch *r, ir_value v)
{
    const struct ir_node *n = ir_get(r->f, v);
    return v >= r->from ? n->op != OP_param : n->op == OP_constant || n->op == OP_iota;
}

/* Puts what the values need into the body; what is not moved is captured. */
static void move(struct branch *r, const ir_value *values, uint32_t count)
{
    bool *needed = arena_new_array(r->loop.arena, bool, r->f->count);
    ir_value last = r->f->count - 1;
    for (uint32_t i = 0; i < count; i++) needed[values[i]] = true;
    for (ir_value v = last; v > 0; v--) {
        const struct ir_node *n = ir_get(r->f, v);
        for (uint32_t i = 0; needed[v] && moves(r, v) && i < n->arg_count; i++) needed[n->args[i]] = true;
    }
    for (ir_value v = 1; v <= last; v++) {
        const struct ir_node *n = ir_get(r->f, v);
        if (!needed[v] || r->inside[v]) continue;
        if (!moves(r, v)) {
            r->inside[v] = optim_capture(&r->loop, v);
            continue;
        }
        ir_value *args = arena_new_array(r->loop.arena, ir_value, n->arg_count + 1);
        for (uint32_t i = 0; i < n->arg_count; i++) args[i] = r->inside[n->args[i]];
        r->inside[v] = ir_remake(&r->loop.b, n, args);
    }
}

void optim_branch(struct optim_transform *t, uint32_t from, struct fe_term when, ir_value *values,
                  const ir_value *otherwise, uint32_t count)
{
    if (!count || !when.v) BUG("a branch needs a condition and values");
    struct branch r = {.loop = optim_loop(t, "branch"), .f = t->b->f, .from = from};
    for (uint32_t i = 0; i < count; i++)
        values[i] = ir_cast(t->b, values[i], (enum ir_dtype)ir_type(r.f, otherwise[i])->dtype);
    r.inside = arena_new_array(t->fe->arena, ir_value, r.f->count);
    for (uint32_t i = 0; i < count; i++) {
        enum ir_dtype dtype = (enum ir_dtype)ir_type(r.f, otherwise[i])->dtype;
        ir_value now = optim_now(&r.loop, optim_carry(&r.loop, term_tensor(otherwise[i]), dtype)).v;
        if (ir_get(r.f, otherwise[i])->op == OP_constant) continue;
        if (!r.inside[otherwise[i]]) r.inside[otherwise[i]] = now; /* a body that runs once finds it unchanged */
    }
    ir_value *next = arena_new_array(t->fe->arena, ir_value, count);
    move(&r, values, count);
    for (uint32_t i = 0; i < count; i++) next[i] = r.inside[values[i]];
    const ir_value *after = optim_loop_close(&r.loop, term_cast(t->b, when, IR_I32), next, false);
    for (uint32_t i = 0; i < count; i++) values[i] = after[i];
}

void optim_branch_state(struct optim_transform *t, const ir_value *before, uint32_t from, struct fe_term when,
                        ir_value *values, const ir_value *otherwise, uint32_t count)
{
    struct fe_optim_state *o = t->o;
    size_t room = count + o->slots.count;
    ir_value *all = arena_new_array(o->fe->arena, ir_value, room), *old = arena_new_array(o->fe->arena, ir_value, room);
    uint32_t *slot = arena_new_array(o->fe->arena, uint32_t, room), n = count;
    bool known = true;
    for (uint32_t i = 0; i < count; i++) all[i] = values[i], old[i] = otherwise[i];
    for (uint32_t i = 0; i < o->slots.count; i++) {
        const struct optim_slot *s = &o->slots.items[i];
        known = known && before[i]; /* later ones are new */
        ir_value was = known ? before[i] : s->old;
        if (s->now != was) slot[n] = i, all[n] = s->now, old[n++] = was;
    }
    optim_branch(t, from, when, all, old, n);
    for (uint32_t i = 0; i < count; i++) values[i] = all[i];
    for (uint32_t i = count; i < n; i++) o->slots.items[slot[i]].now = all[i];
}
