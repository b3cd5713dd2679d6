/* The verifier. It collects every fault it finds and survives any module whose pointers hold. What must be true:
 *
 * Module
 *   1. The stage is one of tensor, spmd, kernel; the mesh has at most IR_MAX_AXES axes, each named, of size >= 1.
 *   2. Function names are unique; slot names are unique by kind (saved state with the hyper-parameters, inputs,
 *      metrics, outputs).
 *   3. No function reaches itself through calls, loops and accumulations.
 * Slots
 *   4. The role is known, the type is a tensor type; `param` names a slot of role param, and dimensions that run
 *      along one of it have its extent; hyper-parameters are float scalars; an index limit stands on integers only;
 *      `computed` slots are not inputs.
 * Functions
 *   5. Parameter i is one node of op param with index i and the type of the parameter; no other param nodes exist.
 *   6. Every result names a value of the function, a tensor.
 *   7. Bindings to slots are indices of slots. Only entries bind. An entry reads a slot at most once and writes it at
 *      most once; it reads no metric or output, and writes no input or hyper-parameter.
 *   8. A bound parameter or result has the slot's type, after stage tensor the extents of a device's part.
 * Nodes
 *   9. The op exists and may stand in the module's stage.
 *  10. Operands are defined before use.
 *  11. Inference accepts the node and finds the very type that it has: operand counts, attributes, bodies, shapes.
 *  12. A constant has data; a bool is 0 or 1.
 *  13. The place is one of the module's.
 *  14. Tuples are used by proj only (inference refuses them elsewhere), and are no results.
 * Sharding
 *  15. In stage tensor nodes have none. Later every axis is of the mesh, splits at most one dimension, and is not also
 *      partial; only dimensions that exist are split.
 */
#include "ir/plan.h"
#include "ir/text.h"

#include <stdarg.h>
#include <string.h>

struct verify {
    const struct ir_module *m;
    const struct ir_func *f; /* NULL: the module itself */
    ir_value value;          /* 0: the function itself */
    struct str *faults;
    struct arena *scratch;
    bool ok, slots_good; /* the latter: and the mesh */
};

static bool fault(struct verify *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fault(struct verify *c, const char *format, ...)
{
    va_list list;
    c->ok = false;
    if (!c->faults) return false;
    if (c->f) str_addf(c->faults, "function %s: ", c->f->name ? c->f->name : "?");
    if (c->value) str_addf(c->faults, "%%%u: ", c->value);
    va_start(list, format);
    str_add(c->faults, arena_vformat(c->scratch, format, list));
    va_end(list);
    str_add(c->faults, "\n");
    return false;
}

static bool is_tensor(const struct ir_type *type)
{
    if (type->dtype == IR_TUPLE || type->dtype >= IR_DTYPE_COUNT || type->rank > IR_MAX_RANK) return false;
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dim[i] < 0) return false;
    return ir_type_elements(type) >= 0;
}

static const char *type_text(struct verify *c, const struct ir_type *type) { return ir_type_text(c->scratch, type); }

/* ---------------------------------------------------------------- sharding */

static void check_sharding(struct verify *c, const struct ir_sharding *s, uint32_t rank)
{
    uint32_t axes = c->m->mesh.axis_count, used = s->partial;
    if (axes < 32 && s->partial >> axes) fault(c, "partial sums over axes 0x%x, expected axes of the mesh", s->partial);
    for (uint32_t i = 0; i < IR_MAX_RANK; i++) {
        if (s->dim[i] && i >= rank) fault(c, "dimension %u is split, expected at most %u dimensions", i, rank);
        for (uint32_t rest = s->dim[i]; rest; rest >>= 4) {
            uint32_t axis = (rest & 15) - 1;
            if (!(rest & 15) || axis >= axes) {
                fault(c, "dimension %u is split by axes 0x%x, expected axes of the mesh", i, s->dim[i]);
                break;
            }
            if (used >> axis & 1) fault(c, "axis %u is used twice in one sharding", axis);
            if (rest >> 4 && (rest >> 4 & 15) < (rest & 15))
                fault(c, "axes of dimension %u, expected those of the mesh in their order", i);
            used |= 1u << axis;
        }
    }
}

static bool any_sharding(const struct ir_sharding *s)
{
    static const struct ir_sharding none;
    return memcmp(s, &none, sizeof none) != 0;
}

/* ---------------------------------------------------------------- nodes */

static bool bool_data(const struct ir_node *node)
{
    const unsigned char *data = node->data;
    int64_t count = node->splat ? 1 : ir_type_elements(&node->type);
    for (int64_t i = 0; i < count; i++)
        if (data[i] > 1) return false;
    return true;
}

/* Operands must be nodes before anything reads their types. */
static bool check_operands(struct verify *c, const struct ir_node *node)
{
    if (node->arg_count && !node->args) return fault(c, "has no operand list");
    for (uint32_t i = 0; i < node->arg_count; i++)
        if (node->args[i] == 0 || node->args[i] >= c->value)
            return fault(c, "operand %u is %%%u, expected a value defined before", i, node->args[i]);
    return true;
}

static void check_node(struct verify *c, const struct ir_node *node)
{
    const char *message = "";
    if (node->op == IR_NONE || node->op >= IR_OP_COUNT) {
        fault(c, "op number %u does not exist", node->op);
        return;
    }
    if (!(ir_ops[node->op].stages & c->m->stage))
        fault(c, "%s may not stand in stage %s", ir_ops[node->op].name, ir_stage_name((int)c->m->stage));
    if (node->place >= c->m->places.count && node->place) fault(c, "place %u does not exist", node->place);
    if (c->m->stage == IR_AT_TENSOR) {
        if (any_sharding(&node->sharding)) fault(c, "has a sharding in stage tensor");
    } else {
        check_sharding(c, &node->sharding, node->type.rank);
    }
    for (uint32_t i = 0; i < ir_ops[node->op].attr_count; i++)
        if (node->attr[i].n && !node->attr[i].v) {
            fault(c, "attribute %u has no numbers", i);
            return;
        }
    if (!check_operands(c, node)) return;
    struct ir_node copy = *node;
    if (!ir_infer(c->f, &copy, c->scratch, &message)) fault(c, "%s", message);
    else if (!ir_type_equal(&copy.type, &node->type))
        fault(c, "%s: expected the type %s, found %s", ir_ops[node->op].name, type_text(c, &copy.type),
              type_text(c, &node->type));
    else if (node->op == OP_constant && !node->data) fault(c, "constant: has no data");
    else if (node->op == OP_constant && node->type.dtype == IR_BOOL && !bool_data(node))
        fault(c, "constant: expected bools of 0 or 1");
}

/* ---------------------------------------------------------------- functions */

static void check_params(struct verify *c)
{
    const struct ir_func *f = c->f;
    for (size_t i = 0; i < f->params.count; i++) {
        const struct ir_param *p = &f->params.items[i];
        const struct ir_node *node = p->value < f->count ? &f->nodes[p->value] : NULL;
        bool named = node && node->op == OP_param && node->attr[0].n == 1 && node->attr[0].v &&
                     node->attr[0].v[0] == (int64_t)i;
        if (!named) fault(c, "parameter %zu has no node of its own", i);
        if (!is_tensor(&p->type)) fault(c, "parameter %zu is not a tensor", i);
        if (!p->name) fault(c, "parameter %zu has no name", i);
    }
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *node = &f->nodes[v];
        if (node->op != OP_param || node->attr[0].n != 1 || !node->attr[0].v) continue;
        int64_t index = node->attr[0].v[0];
        if (index < 0 || index >= (int64_t)f->params.count || f->params.items[index].value != v)
            fault(c, "%%%u is not the node of a parameter", v);
    }
}

/* A parameter or result against its slot; `used` has a flag per slot. */
static void check_binding(struct verify *c, const char *name, int32_t index, const struct ir_type *type, bool written,
                          bool *used)
{
    const char *verb = written ? "writes" : "reads";
    if (index < 0) return;
    if ((size_t)index >= c->m->slots.count) {
        fault(c, "%s slot %d, which does not exist", verb, index);
        return;
    }
    const struct ir_slot *slot = &c->m->slots.items[index];
    if (!c->f->entry) fault(c, "%s slot %s, but is not an entry", verb, slot->name);
    if (used[index]) fault(c, "%s slot %s twice", verb, slot->name);
    used[index] = true;
    if (written ? slot->role == IR_ROLE_INPUT || slot->role == IR_ROLE_HYPER : ir_role_is_result(slot->role))
        fault(c, "%s slot %s of role %s", verb, slot->name, ir_role_name(slot->role));
    struct ir_type wanted = slot->type;
    for (uint32_t d = 0; c->m->stage != IR_AT_TENSOR && d < wanted.rank; d++)
        wanted.dim[d] = c->slots_good ? ir_part_extent(&c->m->mesh, wanted.dim[d], slot->sharding.dim[d])
                                      : type->dim[d];
    if (!ir_type_equal(&wanted, type))
        fault(c, "%s slot %s as %s (%s), expected %s", verb, slot->name, type_text(c, type), name ? name : "?",
              type_text(c, &wanted));
}

static void check_bindings(struct verify *c)
{
    const struct ir_func *f = c->f;
    bool *read = arena_new_array(c->scratch, bool, c->m->slots.count);
    bool *written = arena_new_array(c->scratch, bool, c->m->slots.count);
    for (size_t i = 0; i < f->params.count; i++)
        check_binding(c, f->params.items[i].name, f->params.items[i].slot, &f->params.items[i].type, false, read);
    for (size_t i = 0; i < f->results.count; i++) {
        const struct ir_result *r = &f->results.items[i];
        if (r->value == 0 || r->value >= f->count) {
            fault(c, "result %s is %%%u, which does not exist", r->name ? r->name : "?", r->value);
            continue;
        }
        const struct ir_type *type = &f->nodes[r->value].type;
        if (!is_tensor(type)) fault(c, "result %s is not a tensor", r->name ? r->name : "?");
        check_binding(c, r->name, r->slot, type, true, written);
    }
}

static void check_func(struct verify *c, const struct ir_func *f)
{
    c->f = f;
    if (f->module != c->m) fault(c, "belongs to another module");
    else if (!f->count || !f->nodes) fault(c, "has no node 0");
    else {
        check_params(c);
        check_bindings(c);
        for (c->value = 1; c->value < f->count; c->value++) check_node(c, &f->nodes[c->value]);
    }
    c->value = 0;
    c->f = NULL;
}

/* ---------------------------------------------------------------- module */

static void check_slot(struct verify *c, const struct ir_slot *s)
{
    const char *name = s->name ? s->name : "?";
    if (ir_role_name(s->role)[0] == '?') fault(c, "slot %s: role %d does not exist", name, (int)s->role);
    if (!is_tensor(&s->type)) fault(c, "slot %s is not a tensor", name);
    if (is_tensor(&s->type)) check_sharding(c, &s->sharding, s->type.rank);
    if (s->sharding.partial) fault(c, "slot %s holds partial sums", name);
    if (s->param > c->m->slots.count || (s->param && c->m->slots.items[s->param - 1].role != IR_ROLE_PARAM))
        fault(c, "slot %s belongs to slot %u, which is no parameter", name, s->param - 1);
    for (uint32_t d = 0; d < IR_MAX_RANK; d++) {
        uint32_t of = s->param_dims >> 4 * d & 15;
        const struct ir_type *param = s->param && s->param <= c->m->slots.count ? &c->m->slots.items[s->param - 1].type
                                                                                : NULL;
        if (of && (!param || d >= s->type.rank || of > param->rank || param->dim[of - 1] != s->type.dim[d]))
            fault(c, "slot %s: dimension %u does not run along dimension %u of its parameter", name, d, of - 1);
    }
    if (s->role == IR_ROLE_HYPER && ((s->type.dtype != IR_F32 && s->type.dtype != IR_F64) || s->type.rank))
        fault(c, "slot %s is %s, expected a hyper-parameter to be float32[] or float64[]", name,
              type_text(c, &s->type));
    if (s->index_limit && (s->index_limit < 0 || !ir_dtype_is_integer((enum ir_dtype)s->type.dtype)))
        fault(c, "slot %s is %s and limits indices to %lld", name, type_text(c, &s->type), (long long)s->index_limit);
    if (s->computed && s->role == IR_ROLE_INPUT) fault(c, "slot %s is an input and computed", name);
    if (s->place && s->place >= c->m->places.count) fault(c, "slot %s: place %u does not exist", name, s->place);
}

static void unique_name(struct verify *c, struct map *names, const char *what, const char *name)
{
    if (!name || !*name) fault(c, "a %s has no name", what);
    else if (!map_set(names, name, 1)) fault(c, "two %ss have the name %s", what, name);
}

/* A function may use those that come before it in the order of calls, bodies first. */
static void check_recursion(struct verify *c)
{
    uint32_t *order = ir_func_order(c->m, c->scratch);
    uint32_t *rank = arena_new_array(c->scratch, uint32_t, c->m->funcs.count);
    for (uint32_t i = 0; i < c->m->funcs.count; i++) rank[order[i]] = i;
    for (uint32_t i = 0; i < c->m->funcs.count; i++) {
        const struct ir_func *f = c->m->funcs.items[i];
        for (ir_value v = 1; v < f->count; v++) {
            const struct ir_node *node = &f->nodes[v];
            if (ir_has_body((enum ir_op)node->op) && node->func < c->m->funcs.count && rank[node->func] >= rank[i])
                fault(c, "function %s reaches itself through %s", f->name, c->m->funcs.items[node->func]->name);
        }
    }
}

static void check_mesh(struct verify *c)
{
    const struct ir_mesh *mesh = &c->m->mesh;
    if (mesh->axis_count > IR_MAX_AXES) {
        fault(c, "the mesh has %u axes, expected at most %d", mesh->axis_count, IR_MAX_AXES);
        return;
    }
    struct map names = MAP(c->scratch);
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        unique_name(c, &names, "mesh axis", mesh->name[i]); /* axes print by name */
        if (mesh->size[i] < 1) fault(c, "mesh axis %u has size %lld", i, (long long)mesh->size[i]);
    }
}

bool ir_verify(const struct ir_module *m, struct str *faults)
{
    struct arena scratch = {0};
    struct verify c = {.m = m, .faults = faults, .scratch = &scratch, .ok = true};
    /* Names of slots are looked up by kind: saved state, inputs, metrics, outputs, hyper-parameters. A metric may be
     * called as a parameter or a hyper-parameter is. */
    _Static_assert(IR_ROLE_PARAM == 1 && IR_ROLE_STATE == 4 && IR_ROLE_HYPER == 8, "ORDER of roles");
    struct map funcs = MAP(&scratch), slots[IR_ROLE_INDEX + 1];
    for (int i = 0; i <= IR_ROLE_INDEX; i++) slots[i] = MAP(&scratch);
    if (ir_stage_name((int)m->stage)[0] == '?') fault(&c, "stage %d does not exist", (int)m->stage);
    check_mesh(&c);
    for (size_t i = 0; i < m->slots.count; i++) {
        uint32_t role = (uint32_t)m->slots.items[i].role;
        unique_name(&c, &slots[role <= IR_ROLE_STATE || role == IR_ROLE_HYPER || role > IR_ROLE_INDEX ? 0 : role],
                    "slot", m->slots.items[i].name);
        check_slot(&c, &m->slots.items[i]);
    }
    c.slots_good = c.ok;
    for (size_t i = 0; i < m->funcs.count; i++) unique_name(&c, &funcs, "function", m->funcs.items[i]->name);
    check_recursion(&c);
    for (size_t i = 0; i < m->funcs.count; i++) check_func(&c, m->funcs.items[i]);
    arena_free(&scratch);
    struct plan_place first;
    return c.ok && (!m->plans || plan_verify(m->plans, faults, &first));
}
