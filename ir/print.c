/* The text form of a module (ir/LANG.md). Complete: what is not printed is not part of a module. Prints malformed
 * modules too, as far as their pointers hold, because faults are shown with it. */
#include "ir/plan.h"
#include "ir/text.h"

#include <math.h>
#include <string.h>

#define X(NAME, text) [IR_ROLE_##NAME] = text,
static const char *const roles[] = {IR_ROLES(X)};
#undef X
#define X(NAME, text) [IR_STAGE_##NAME] = text,
static const char *const stages[] = {IR_STAGES(X)};
#undef X
#define COUNT(names) (sizeof(names) / sizeof *(names))

static const char *name_of(const char *const *names, size_t count, int number)
{
    return number >= 0 && (size_t)number < count && names[number] ? names[number] : "?";
}

static int find(const char *const *names, size_t count, const char *name)
{
    while (count-- > 0)
        if (names[count] && strcmp(names[count], name) == 0) return (int)count;
    return 0;
}

const char *ir_role_name(enum ir_role role) { return name_of(roles, COUNT(roles), (int)role); }
const char *ir_stage_name(int stage) { return name_of(stages, COUNT(stages), stage); }
int ir_role_find(const char *name) { return find(roles, COUNT(roles), name); }
int ir_stage_find(const char *name) { return find(stages, COUNT(stages), name); }

/* ---------------------------------------------------------------- parts */

static void add_string(struct str *out, const char *text) { str_add_json(out, text ? text : ""); }

static void add_type(struct str *out, const struct ir_type *type) { str_add(out, ir_type_text(out->arena, type)); }

static void add_axis(struct str *out, const struct ir_mesh *mesh, uint32_t axis)
{
    if (axis < mesh->axis_count && axis < IR_MAX_AXES) add_string(out, mesh->name[axis]);
    else str_addf(out, "%u", axis);
}

/* <"data" "model", -, "pipe" | "data">: axes per dimension, outermost first; after the bar those of partial sums */
static void add_sharding(struct str *out, const struct ir_mesh *mesh, const struct ir_sharding *s, uint32_t rank,
                         bool given)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < IR_MAX_RANK; i++)
        if (s->dim[i]) end = i + 1;
    if (!end && !s->partial && !given) return;
    if (end < rank && rank <= IR_MAX_RANK) end = rank;
    str_add(out, " <");
    for (uint32_t i = 0; i < end; i++) {
        if (i) str_add(out, ", ");
        if (!s->dim[i]) str_add(out, "-");
        for (uint32_t rest = s->dim[i], first = 1; rest; rest >>= 4, first = 0) {
            if (!first) str_add(out, " ");
            add_axis(out, mesh, (rest & 15) ? (rest & 15) - 1 : 15);
        }
    }
    if (s->partial) str_add(out, " |");
    for (uint32_t axis = 0; axis < 32; axis++)
        if (s->partial >> axis & 1) {
            str_add(out, " ");
            add_axis(out, mesh, axis);
        }
    str_add(out, ">");
}

/* Numbers read back exactly; a NaN that is not the usual one as its bits. */
static void add_element(struct str *out, enum ir_dtype dtype, const void *data, size_t index)
{
    size_t size = ir_dtype_bytes(dtype);
    const unsigned char *at = (const unsigned char *)data + index * size;
    uint64_t bits = 0, usual = 0;
    int64_t integer = 0;
    memcpy(&bits, at, size);
    if (ir_dtype_is_integer(dtype) && ir_dtype_is_signed(dtype)) {
        unsigned shift = 64 - 8 * (unsigned)size;
        uint64_t high = bits << shift;
        memcpy(&integer, &high, sizeof integer);
        str_addf(out, "%lld", (long long)(integer >> shift));
    } else if (dtype == IR_BOOL && bits <= 1) {
        str_add(out, bits ? "true" : "false");
    } else if (!ir_dtype_is_float(dtype)) {
        str_addf(out, "%llu", (unsigned long long)bits);
    } else {
        double v = ir_element_get(dtype, data, index);
        ir_element_set(dtype, &usual, 0, (double)NAN);
        if (isnan(v) && bits != usual) str_addf(out, "0x%llx", (unsigned long long)bits);
        else str_add_number(out, v, dtype != IR_F64);
    }
}

static void add_data(struct str *out, const struct ir_node *node)
{
    int64_t count = node->splat ? 1 : ir_type_elements(&node->type);
    if (!node->data || node->type.dtype == IR_TUPLE || node->type.dtype >= IR_DTYPE_COUNT) count = 0;
    str_add(out, node->splat ? " " : " [");
    for (int64_t i = 0; i < count; i++) {
        if (i) str_add(out, ", ");
        add_element(out, (enum ir_dtype)node->type.dtype, node->data, (size_t)i);
    }
    if (!node->splat) str_add(out, "]");
}

static void add_attribute(struct str *out, enum ir_op op, uint32_t index, struct ir_ints list)
{
    size_t length;
    const char *name = ir_attr_name(op, index, &length);
    if (!list.n && ir_attr_may_lack(op, index)) return;
    str_addf(out, " %.*s=", (int)length, name);
    if (list.n != 1) str_add(out, "[");
    for (uint32_t i = 0; i < list.n && list.v; i++) str_addf(out, i ? ", %lld" : "%lld", (long long)list.v[i]);
    if (list.n != 1) str_add(out, "]");
}

/* ---------------------------------------------------------------- nodes and functions */

static void add_operands(struct str *out, const struct ir_node *node)
{
    if (!node->arg_count || !node->args) return;
    str_add(out, "(");
    for (uint32_t i = 0; i < node->arg_count; i++) str_addf(out, i ? ", %%%u" : "%%%u", node->args[i]);
    str_add(out, ")");
}

static void add_slot_reference(struct str *out, int32_t slot)
{
    if (slot >= 0) str_addf(out, " slot=%d", slot);
}

static void add_param(struct str *out, const struct ir_func *f, const struct ir_node *node)
{
    if (node->attr[0].n != 1 || !node->attr[0].v || node->attr[0].v[0] < 0 ||
        node->attr[0].v[0] >= (int64_t)f->params.count)
        return;
    const struct ir_param *p = &f->params.items[node->attr[0].v[0]];
    str_add(out, " ");
    add_string(out, p->name);
    add_slot_reference(out, p->slot);
}

static void add_node(struct str *out, const struct ir_func *f, ir_value value)
{
    const struct ir_node *node = &f->nodes[value];
    static const struct ir_mesh no_mesh;
    const struct ir_module *m = f->module;
    enum ir_op op = node->op < IR_OP_COUNT ? (enum ir_op)node->op : IR_NONE;
    str_addf(out, "  %%%u = %s", value, ir_ops[op].name);
    add_operands(out, node);
    if (op == OP_constant) add_data(out, node);
    for (uint32_t i = 0; i < ir_ops[op].attr_count; i++) add_attribute(out, op, i, node->attr[i]);
    if (op == OP_param) add_param(out, f, node);
    if (ir_has_body(op)) {
        str_add(out, " func=");
        add_string(out, m && node->func < m->funcs.count ? m->funcs.items[node->func]->name : "?");
    }
    str_add(out, " : ");
    add_type(out, &node->type);
    add_sharding(out, m ? &m->mesh : &no_mesh, &node->sharding, node->type.rank, false);
    if (node->place) str_addf(out, " @%u", node->place);
    str_add(out, "\n");
}

static void ir_print_func(const struct ir_func *f, struct str *out)
{
    str_add(out, "func ");
    add_string(out, f->name);
    str_add(out, f->entry ? " entry {\n" : " {\n");
    for (ir_value v = 1; v < f->count; v++) {
        if (v == f->turn) str_add(out, "  turn\n");
        add_node(out, f, v);
    }
    for (size_t i = 0; i < f->results.count; i++) {
        str_add(out, "  result ");
        add_string(out, f->results.items[i].name);
        str_addf(out, " %%%u", f->results.items[i].value);
        add_slot_reference(out, f->results.items[i].slot);
        str_add(out, "\n");
    }
    str_add(out, "}\n");
}

/* ---------------------------------------------------------------- module */

static void add_slot(struct str *out, const struct ir_module *m, uint32_t index)
{
    const struct ir_slot *s = &m->slots.items[index];
    str_addf(out, "slot %u ", index);
    add_string(out, s->name);
    str_addf(out, " %s ", ir_role_name(s->role));
    add_type(out, &s->type);
    add_sharding(out, &m->mesh, &s->sharding, s->type.rank, s->sharding_given);
    if (s->frozen) str_add(out, " frozen");
    if (s->computed) str_add(out, " computed");
    if (s->index_limit) str_addf(out, " index_limit=%lld", (long long)s->index_limit);
    if (s->initial != 0 || signbit(s->initial)) {
        str_add(out, " initial=");
        str_add_number(out, s->initial, false);
    }
    if (s->batch_dims) str_addf(out, " batch_dims=%u", s->batch_dims);
    if (s->param) str_addf(out, " of=%u", s->param - 1);
    if (s->param_dims) str_addf(out, " along=%u", s->param_dims);
    if (s->place) str_addf(out, " @%u", s->place);
    str_add(out, "\n");
}

static void add_optional(struct str *out, const char *key, const char *text)
{
    if (!text) return;
    str_addf(out, "%s ", key);
    add_string(out, text);
    str_add(out, "\n");
}

void ir_print(const struct ir_module *m, struct str *out)
{
    str_add(out, "module ");
    add_string(out, m->name);
    str_addf(out, " stage %s", ir_stage_name((int)m->stage));
    if (m->copies) str_add(out, " copies");
    if (m->after) str_addf(out, " after %s", m->after);
    str_add(out, "\n");
    add_optional(out, "numerics", m->numerics);
    if (m->again.any) str_addf(out, "again %d %u\n", m->again.level, m->again.blocks);
    add_optional(out, "document", m->document);
    for (uint32_t i = 0; i < m->mesh.axis_count && i < IR_MAX_AXES; i++) {
        str_add(out, i ? ", " : m->mesh.explicit_layouts ? "mesh explicit " : "mesh ");
        add_string(out, m->mesh.name[i]);
        str_addf(out, "=%lld", (long long)m->mesh.size[i]);
    }
    if (m->mesh.axis_count) str_add(out, "\n");
    for (size_t i = 1; i < m->places.count; i++) {
        const struct ir_place *p = &m->places.items[i];
        str_addf(out, "place %zu %u+%u", i, p->span.offset, p->span.length);
        if (p->pointer) str_add(out, " ");
        if (p->pointer) add_string(out, p->pointer);
        if (p->again) str_addf(out, " again=%u", p->again);
        str_add(out, "\n");
    }
    for (size_t i = 0; i < m->slots.count; i++) add_slot(out, m, (uint32_t)i);
    for (size_t i = 0; i < m->funcs.count; i++) {
        str_add(out, "\n");
        ir_print_func(m->funcs.items[i], out);
    }
    if (m->plans) plan_print(m->plans, out);
}
