/* Outlining: what an optimizer does with each of many small tensors becomes one function that is called for each. What
 * follows then sees, lowers and prints that arithmetic once, and the plan makes one command of all the calls. Only
 * regions that many others are like leave their place; the rest is left to fusion. Numbers that differ between the
 * regions of a class (the keys of random tensors) become operands. */
#include "passes/outline.h"

#include <stdlib.h>
#include <string.h>

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

/* By value of o->f, what stands for it in the body: as arithmetic sees it, and as operand of a call. */
struct body {
    struct outline *o;
    struct ir_builder b;
    const struct outline_class *class;
    size_t apart; /* of names */
    ir_value *map, *plain;
};

static const struct ir_type *scalar_or_same(const struct body *y, const struct ir_type *t, struct ir_type *scalar)
{
    *scalar = ir_type_scalar((enum ir_dtype)t->dtype);
    return y->class->flat ? scalar : t;
}

/* The type of a tensor: in a flat body one dimension. */
static struct ir_type tensor_type(const struct body *y, const struct ir_type *t)
{
    struct ir_type flat = {.dtype = t->dtype, .rank = 1, .dim = {1}};
    return y->class->flat ? flat : *t;
}

static void give(struct body *y, ir_value v, ir_value plain)
{
    struct ir_type full = tensor_type(y, ir_type(y->o->f, v));
    bool same = ir_type_equal(ir_type(y->b.f, plain), &full);
    y->plain[v] = plain;
    y->map[v] = same ? plain : ir_broadcast_to(&y->b, plain, full.rank, full.dim);
}

static void put_input(struct body *y, ir_value v, const char *name, bool uniform)
{
    const struct ir_type *t = ir_type(y->o->f, v);
    struct ir_type scalar, type = uniform ? *scalar_or_same(y, t, &scalar) : tensor_type(y, t);
    give(y, v, ir_param_new(&y->b, name, type, -1));
}

/* A number that varies stands as a scalar operand that is repeated. */
static void put_number(struct body *y, ir_value v, bool varies)
{
    const struct ir_node *n = ir_get(y->o->f, v);
    struct ir_type scalar;
    y->b.place = n->place;
    if (varies) {
        scalar = ir_type_scalar((enum ir_dtype)n->type.dtype);
        y->plain[v] = ir_param_new(&y->b, "number", scalar, -1);
        struct ir_type full = tensor_type(y, &n->type);
        y->map[v] = ir_broadcast(&y->b, y->plain[v], full.rank, full.dim, NULL);
    } else {
        struct ir_node number = *n;
        number.type = *scalar_or_same(y, &n->type, &scalar);
        y->plain[v] = ir_remake(&y->b, &number, NULL);
        number.type = tensor_type(y, &n->type);
        y->map[v] = ir_remake(&y->b, &number, NULL);
    }
}

/* A call of a function that was outlined before is replaced by its body: its projections stand for the results. */
static void put_call(struct body *y, ir_value v)
{
    struct outline *o = y->o;
    const struct ir_node *n = ir_get(o->f, v);
    const struct ir_func *callee = o->f->module->funcs.items[n->func];
    ir_value *operands = arena_new_array(o->arena, ir_value, n->arg_count + 1u);
    ir_value *results = arena_new_array(o->arena, ir_value, callee->results.count + 1);
    for (uint32_t i = 0; i < n->arg_count; i++)
        operands[i] = callee->params.items[i].type.rank ? y->map[n->args[i]] : y->plain[n->args[i]];
    pass_copy_body(&y->b, callee, operands, results, pass_copy_node, o->pass, o->arena);
    o->results[v] = results;
}

static ir_value copy_position(struct body *y, const struct ir_type *t)
{
    int64_t elements = ir_type_elements(t);
    return ir_reshape(&y->b, ir_iota(&y->b, (struct ir_type){.dtype = t->dtype, .rank = 1, .dim = {elements}}, 0),
                      t->rank, t->dim);
}

static void put_member(struct body *y, ir_value v)
{
    const struct ir_node *n = ir_get(y->o->f, v);
    bool flat = y->class->flat;
    y->b.place = n->place;
    if (n->op == OP_call) {
        put_call(y, v);
    } else if (n->op == OP_proj) {
        y->map[v] = y->o->results[n->args[0]][n->attr[0].v[0]];
    } else if (y->o->position[v]) {
        y->map[v] = copy_position(y, &n->type);
    } else if (flat && (n->op == OP_broadcast || n->op == OP_reshape)) {
        y->map[v] = y->map[n->args[0]];
    } else if (flat && n->op == OP_iota) {
        y->map[v] = ir_number(&y->b, tensor_type(y, &n->type), 0);
    } else {
        y->map[v] = pass_remake(y->o->pass, &y->b, n, y->map);
    }
    y->plain[v] = y->map[v];
}

/* Parameters are the inputs, then the numbers that vary. */
static void make_body(struct outline *o, struct ir_module *to, struct outline_class *c, struct body *y)
{
    const struct outline_region *r = &o->regions.items[c->leader];
    if (!o->results) o->results = arena_new_array(o->arena, ir_value *, o->f->count);
    c->body = ir_func_new(to, arena_format(o->arena, PASS_OUTLINED "%zu", y->apart + to->funcs.count), false);
    y->class = c;
    y->b = (struct ir_builder){.f = c->body};
    for (size_t i = 0; i < r->inputs.count; i++)
        put_input(y, r->inputs.items[i], arena_format(o->arena, "in%zu", i), c->uniform[i]);
    for (size_t i = 0; i < r->numbers.count; i++)
        put_number(y, r->numbers.items[i], o->families.items[c->family].varies[i]);
    for (size_t i = 0; i < r->members.count; i++) put_member(y, r->members.items[i]);
    for (size_t i = 0; i < r->outputs.count; i++)
        ir_result_add(&y->b, arena_format(o->arena, "out%zu", i), y->map[r->outputs.items[i]], -1);
}

/* ---------------------------------------------------------------- the function */

static void need(struct making *m, ir_value v);

/* A value that a flat function reads or makes. */
static ir_value in_shape(struct making *m, ir_value v, const struct ir_type *t)
{
    return ir_type_equal(ir_type(m->b.f, v), t) ? v : ir_reshape(&m->b, v, t->rank, t->dim);
}

static void make_call(struct making *m, uint32_t region)
{
    struct outline *o = m->o;
    struct outline_region *r = &o->regions.items[region];
    const struct outline_class *c = &o->classes.items[r->class];
    ir_value *args = arena_new_array(o->arena, ir_value, r->inputs.count + o->families.items[c->family].varying + 1);
    uint32_t count = 0;
    for (size_t i = 0; i < r->inputs.count; i++) {
        need(m, r->inputs.items[i]);
        args[count] = in_shape(m, m->map[r->inputs.items[i]], &c->body->params.items[i].type);
        count++;
    }
    m->b.place = ir_get(o->f, r->members.items[r->members.count - 1])->place;
    for (size_t i = 0; i < r->numbers.count; i++) {
        const struct ir_node *n = ir_get(o->f, r->numbers.items[i]);
        if (o->families.items[c->family].varies[i])
            args[count++] = ir_constant(&m->b, ir_type_scalar((enum ir_dtype)n->type.dtype), n->data);
    }
    r->call = ir_call(&m->b, c->body, args, count);
    for (size_t i = 0; i < r->outputs.count; i++) {
        ir_value v = r->outputs.items[i];
        m->map[v] = in_shape(m, ir_proj(&m->b, r->call, (uint32_t)i), ir_type(o->f, v));
    }
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
    to->capacity = o->f->count + 16; /* growing by copies would cost more than the rest */
    to->nodes = arena_new_array(&to->module->arena, struct ir_node, to->capacity);
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

/* A call in a flat body needs scalars where its function has scalars. */
static bool calls_fit(const struct outline *o, const struct outline_class *c, bool *scalar)
{
    const struct outline_region *r = &o->regions.items[c->leader];
    bool fit = true;
    for (size_t i = 0; i < r->inputs.count; i++) scalar[r->inputs.items[i]] = c->uniform[i];
    for (size_t i = 0; i < r->numbers.count; i++) scalar[r->numbers.items[i]] = true;
    for (size_t i = 0; i < r->members.count; i++) {
        const struct ir_node *n = ir_get(o->f, r->members.items[i]);
        for (uint32_t k = 0; n->op == OP_call && k < n->arg_count; k++)
            fit &= o->f->module->funcs.items[n->func]->params.items[k].type.rank || scalar[n->args[k]];
    }
    for (size_t i = 0; i < r->inputs.count; i++) scalar[r->inputs.items[i]] = false;
    for (size_t i = 0; i < r->numbers.count; i++) scalar[r->numbers.items[i]] = false;
    return fit;
}

static void choose(struct outline *o)
{
    bool *scalar = arena_new_array(o->arena, bool, o->f->count);
    o->chosen = arena_new_array(o->arena, bool, o->classes.count + 1);
    for (size_t i = 0; i < o->classes.count; i++) {
        const struct outline_class *c = &o->classes.items[i];
        const struct outline_family *y = &o->families.items[c->family];
        o->chosen[i] = y->count >= OUTLINE_LEAST && y->varying <= OUTLINE_VARYING &&
                       (!c->flat || calls_fit(o, c, scalar));
    }
}

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
    choose(o);
    return o;
}

/* What to add to the count of functions, so that no name is one that outlining has given before. */
static size_t names_apart(const struct ir_module *m)
{
    size_t next = m->funcs.count;
    for (size_t i = 0; i < m->funcs.count; i++)
        if (pass_is_outlined(m->funcs.items[i])) {
            size_t n = strtoul(m->funcs.items[i]->name + strlen(PASS_OUTLINED), NULL, 10) + 1;
            if (n > next) next = n;
        }
    return next - m->funcs.count;
}

static struct ir_module *outline(struct pass *p, struct ir_module *m)
{
    struct outline **all = arena_new_array(&p->scratch, struct outline *, m->funcs.count + 1);
    bool any = false;
    for (size_t i = 0; i < m->funcs.count; i++) {
        all[i] = look_at(p, m->funcs.items[i]);
        for (size_t k = 0; k < all[i]->classes.count; k++) any |= all[i]->chosen[k];
    }
    if (!any) return m;
    struct ir_module *to = ir_module_like(m);
    size_t apart = names_apart(m);
    uint32_t *order = ir_func_order(m, &p->scratch);
    for (size_t k = 0; k < m->funcs.count; k++) {
        uint32_t i = order[k];
        struct outline *o = all[i];
        ir_value *map = arena_new_array(&p->scratch, ir_value, m->funcs.items[i]->count);
        if (!o->classes.count) {
            ir_rebuild(m->funcs.items[i], to->funcs.items[i], NULL, NULL, &p->scratch);
            continue;
        }
        struct body y = {.o = o,
                         .apart = apart,
                         .map = arena_new_array(&p->scratch, ir_value, o->f->count),
                         .plain = arena_new_array(&p->scratch, ir_value, o->f->count)};
        for (size_t c = 0; c < o->classes.count; c++)
            if (o->chosen[c]) make_body(o, to, &o->classes.items[c], &y);
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

struct ir_module *pass_outline(struct pass *p, struct ir_module *m) { return on_one_device(m) ? outline(p, m) : m; }

struct ir_module *pass_outline_more(struct pass *p, struct ir_module *m) { return outline(p, m); }
