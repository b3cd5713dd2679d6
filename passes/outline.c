/* Outlining: what an optimizer does with each of many small tensors becomes one function that is called for each. What
 * follows then sees, lowers and prints that arithmetic once, and the plan makes one command of all the calls. Only
 * regions that many others are like leave their place; the rest is left to fusion. Numbers that differ between the
 * regions of a class (the keys of random tensors) become operands. */
#include "passes/outline.h"

struct making {
    struct outline *o;
    struct ir_builder b;
    ir_value *map;         /* by value of o->f; 0 = not made yet */
    ir_value *last_member; /* by region: where its call stands at the latest */
};

static bool is_outlined(const struct outline *o, uint32_t region)
{
    uint32_t c = o->regions.items[region].class;
    return c != UINT32_MAX && o->classes.items[c].body;
}

/* ---------------------------------------------------------------- the body */

/* A number that varies stands as a scalar operand that is repeated. */
static ir_value number_in_body(struct ir_builder *b, const struct ir_node *n, bool varies)
{
    struct ir_type scalar = ir_type_scalar((enum ir_dtype)n->type.dtype);
    if (!varies) return ir_remake(b, n, NULL);
    return ir_broadcast(b, ir_param_new(b, "number", scalar, -1), n->type.rank, n->type.dim, NULL);
}

static ir_value copy_node(void *user, struct ir_builder *b, const struct ir_func *from, ir_value v, const ir_value *map)
{
    return pass_remake(user, b, ir_get(from, v), map);
}

/* A call of a function that was outlined before is replaced by its body: its projections stand for the results. */
static void put_call(struct outline *o, struct ir_builder *b, ir_value v, ir_value *map)
{
    const struct ir_node *n = ir_get(o->f, v);
    const struct ir_func *callee = o->f->module->funcs.items[n->func];
    ir_value *operands = arena_new_array(o->arena, ir_value, n->arg_count + 1u);
    ir_value *results = arena_new_array(o->arena, ir_value, callee->results.count + 1);
    for (uint32_t i = 0; i < n->arg_count; i++) operands[i] = map[n->args[i]];
    pass_copy_body(b, callee, operands, results, copy_node, o->pass, o->arena);
    o->results[v] = results;
}

static void put_member(struct outline *o, struct ir_builder *b, ir_value v, ir_value *map)
{
    const struct ir_node *n = ir_get(o->f, v);
    b->place = n->place;
    if (n->op == OP_call) put_call(o, b, v, map);
    else if (n->op == OP_proj) map[v] = o->results[n->args[0]][n->attr[0].v[0]];
    else map[v] = pass_remake(o->pass, b, n, map);
}

/* Parameters are the inputs, then the numbers that vary. */
static void make_body(struct outline *o, struct ir_module *to, struct outline_class *c, ir_value *map)
{
    o->results = arena_new_array(o->arena, ir_value *, o->f->count);
    const struct outline_region *r = &o->regions.items[c->leader];
    c->body = ir_func_new(to, arena_format(o->arena, PASS_OUTLINED "%zu", to->funcs.count), false);
    struct ir_builder b = {.f = c->body};
    for (size_t i = 0; i < r->inputs.count; i++)
        map[r->inputs.items[i]] = ir_param_new(&b, arena_format(o->arena, "in%zu", i), *ir_type(o->f, r->inputs.items[i]), -1);
    for (size_t i = 0; i < r->numbers.count; i++) {
        const struct ir_node *n = ir_get(o->f, r->numbers.items[i]);
        b.place = n->place;
        map[r->numbers.items[i]] = number_in_body(&b, n, c->varies[i]);
    }
    for (size_t i = 0; i < r->members.count; i++) put_member(o, &b, r->members.items[i], map);
    for (size_t i = 0; i < r->outputs.count; i++)
        ir_result_add(&b, arena_format(o->arena, "out%zu", i), map[r->outputs.items[i]], -1);
    for (size_t i = 0; i < r->inputs.count; i++) map[r->inputs.items[i]] = 0;
    for (size_t i = 0; i < r->numbers.count; i++) map[r->numbers.items[i]] = 0;
    for (size_t i = 0; i < r->members.count; i++) map[r->members.items[i]] = 0;
}

/* ---------------------------------------------------------------- the function */

static void need(struct making *m, ir_value v);

static void make_call(struct making *m, uint32_t region)
{
    struct outline *o = m->o;
    struct outline_region *r = &o->regions.items[region];
    const struct outline_class *c = &o->classes.items[r->class];
    ir_value *args = arena_new_array(o->arena, ir_value, r->inputs.count + c->varying + 1);
    uint32_t count = 0;
    for (size_t i = 0; i < r->inputs.count; i++) {
        need(m, r->inputs.items[i]);
        args[count++] = m->map[r->inputs.items[i]];
    }
    m->b.place = ir_get(o->f, r->members.items[r->members.count - 1])->place;
    for (size_t i = 0; i < r->numbers.count; i++) {
        const struct ir_node *n = ir_get(o->f, r->numbers.items[i]);
        if (c->varies[i]) args[count++] = ir_constant(&m->b, ir_type_scalar((enum ir_dtype)n->type.dtype), n->data);
    }
    r->call = ir_call(&m->b, c->body, args, count);
    for (size_t i = 0; i < r->outputs.count; i++) m->map[r->outputs.items[i]] = ir_proj(&m->b, r->call, (uint32_t)i);
}

/* What a node needs stands before it, but for calls, which may be needed before their last member's place. */
static void need(struct making *m, ir_value v)
{
    if (m->map[v]) return;
    const struct ir_node *n = ir_get(m->o->f, v);
    uint32_t region = m->o->region_of[v];
    if (region && is_outlined(m->o, region - 1)) {
        if (!m->o->regions.items[region - 1].call) make_call(m, region - 1);
        return;
    }
    for (uint32_t i = 0; i < n->arg_count; i++) need(m, n->args[i]);
    m->b.place = n->place;
    m->map[v] = pass_remake(m->o->pass, &m->b, n, m->map);
}

/* Views that only outlined regions read are not needed any more. */
static bool *needed_in_place(const struct outline *o)
{
    bool *needed = arena_new_array(o->arena, bool, o->f->count);
    for (size_t i = 0; i < o->f->results.count; i++) needed[o->f->results.items[i].value] = true;
    for (uint32_t i = 0; i < o->regions.count; i++)
        for (size_t k = 0; is_outlined(o, i) && k < o->regions.items[i].inputs.count; k++)
            needed[o->regions.items[i].inputs.items[k]] = true;
    for (ir_value v = o->f->count; v-- > 1;) {
        const struct ir_node *n = ir_get(o->f, v);
        bool moved = o->region_of[v] && is_outlined(o, o->region_of[v] - 1);
        for (uint32_t i = 0; needed[v] && !moved && i < n->arg_count; i++) needed[n->args[i]] = true;
    }
    return needed;
}

static void rebuild(struct outline *o, struct ir_func *to, ir_value *map)
{
    struct making m = {.o = o, .b = {.f = to}, .map = map};
    bool *needed = needed_in_place(o);
    m.last_member = arena_new_array(o->arena, ir_value, o->regions.count + 1);
    for (ir_value v = 1; v < o->f->count; v++)
        if (o->region_of[v]) m.last_member[o->region_of[v] - 1] = v;
    for (size_t i = 0; i < o->f->params.count; i++) {
        const struct ir_param *p = &o->f->params.items[i];
        m.b.place = ir_get(o->f, p->value)->place;
        map[p->value] = ir_param_new(&m.b, p->name, p->type, p->slot);
    }
    for (ir_value v = 1; v < o->f->count; v++) {
        uint32_t region = o->region_of[v];
        bool moved = region && is_outlined(o, region - 1);
        if (moved && m.last_member[region - 1] == v && !o->regions.items[region - 1].call) make_call(&m, region - 1);
        if (!moved && needed[v] && ir_get(o->f, v)->op != OP_param) need(&m, v);
    }
    for (size_t i = 0; i < o->f->results.count; i++) {
        const struct ir_result *r = &o->f->results.items[i];
        need(&m, r->value);
        ir_result_add(&m.b, r->name, map[r->value], r->slot);
    }
}

/* ---------------------------------------------------------------- the pass */

static bool worth_it(const struct outline_class *c) { return c->count >= OUTLINE_LEAST && c->varying <= OUTLINE_VARYING; }

static struct outline *look_at(struct pass *p, const struct ir_func *f)
{
    struct outline *o = arena_new(&p->scratch, struct outline);
    o->pass = p;
    o->arena = &p->scratch;
    o->f = f;
    if (!f->entry || f->results.count < OUTLINE_LEAST) return o;
    o->live = ir_live(f, o->arena);
    o->region_of = arena_new_array(o->arena, uint32_t, f->count);
    outline_find(o);
    return o;
}

static struct ir_module *outline(struct pass *p, struct ir_module *m)
{
    struct outline **all = arena_new_array(&p->scratch, struct outline *, m->funcs.count + 1);
    bool any = false;
    for (size_t i = 0; i < m->funcs.count; i++) {
        all[i] = look_at(p, m->funcs.items[i]);
        for (size_t k = 0; k < all[i]->classes.count; k++) any |= worth_it(&all[i]->classes.items[k]);
    }
    if (!any) return m;
    struct ir_module *to = ir_module_like(m);
    uint32_t *order = ir_func_order(m, &p->scratch);
    for (size_t k = 0; k < m->funcs.count; k++) {
        uint32_t i = order[k];
        struct outline *o = all[i];
        ir_value *map = arena_new_array(&p->scratch, ir_value, m->funcs.items[i]->count);
        if (!o->classes.count) {
            ir_rebuild(m->funcs.items[i], to->funcs.items[i], NULL, NULL, &p->scratch);
            continue;
        }
        for (size_t c = 0; c < o->classes.count; c++)
            if (worth_it(&o->classes.items[c])) make_body(o, to, &o->classes.items[c], map);
        rebuild(o, to->funcs.items[i], map);
    }
    return to;
}

static bool on_one_device(const struct ir_module *m)
{
    int64_t devices = 1;
    for (uint32_t i = 0; i < m->mesh.axis_count; i++) devices *= m->mesh.size[i];
    return devices == 1;
}

struct ir_module *pass_outline(struct pass *p, struct ir_module *m)
{
    return on_one_device(m) && !p->options->one_by_one ? outline(p, m) : m;
}

struct ir_module *pass_outline_more(struct pass *p, struct ir_module *m)
{
    return p->options->one_by_one ? m : outline(p, m);
}
