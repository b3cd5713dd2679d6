/* Reads the text form (ir/LANG.md). Any text gives a module or a diagnostic with its place: one error is enough, the
 * form is written by the printer. Nodes are appended as they stand; at the end every type is inferred again and the
 * whole module verified, so a module that was read is as sound as one that was built. */
#include "ir/parse.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- nodes */

static struct ir_ints need_ints(struct parse_state *p)
{
    VEC(int64_t) list = {0};
    if (!parse_take_sign(p, '[')) {
        vec_push(p->scratch, &list, parse_need_integer(p, INT64_MIN, INT64_MAX));
        return (struct ir_ints){list.items, 1};
    }
    for (uint32_t i = 0; parse_item(p, i, ']'); i++)
        vec_push(p->scratch, &list, parse_need_integer(p, INT64_MIN, INT64_MAX));
    return (struct ir_ints){list.items, (uint32_t)list.count};
}

ir_value parse_need_value(struct parse_state *p)
{
    struct diag_span span = parse_here(p);
    const char *word = parse_need(p, TOKEN_VALUE, "a value like %1");
    uint32_t value = p->failed ? MAP_NONE : map_get_number(&p->values, strtoull(word, NULL, 10));
    if (value != MAP_NONE) return value;
    parse_error_at(p, span, "%%%s is not defined before this line", word);
    return 0;
}

static void read_operands(struct parse_state *p, struct ir_node *node)
{
    VEC(ir_value) args = {0};
    if (!parse_take_sign(p, '(')) return;
    for (uint32_t i = 0; parse_item(p, i, ')'); i++) vec_push(p->scratch, &args, parse_need_value(p));
    node->args = args.items;
    node->arg_count = (uint32_t)args.count;
}

/* Everything between the operands and the colon. */
struct details {
    const char *name, *body;
    int32_t slot;
};

static void read_details(struct parse_state *p, struct ir_node *node, struct details *d)
{
    enum ir_op op = (enum ir_op)node->op;
    uint32_t seen = 0;
    while (!p->failed && !parse_is_sign(p, ':')) {
        struct diag_span span = parse_here(p);
        if (op == OP_param && p->token == TOKEN_STRING) {
            d->name = parse_need(p, TOKEN_STRING, "a name");
            d->slot = parse_optional_slot(p);
            continue;
        }
        const char *key = parse_need(p, TOKEN_WORD, "an attribute or `:`");
        int32_t index = ir_attr_find(op, key);
        parse_need_sign(p, '=');
        if (p->failed) return;
        if (ir_has_body(op) && strcmp(key, "func") == 0) d->body = parse_need(p, TOKEN_STRING, "a function's name");
        else if (index < 0 || seen >> index & 1)
            parse_error_at(p, span, "%s has no (other) attribute `%s`", ir_ops[op].name, key);
        else {
            node->attr[index] = need_ints(p);
            seen |= 1u << index;
        }
    }
}

static void add_param(struct parse_state *p, const struct ir_node *node, const struct details *d, struct diag_span span)
{
    struct ir_func *f = p->f;
    int64_t index = (int64_t)f->params.count;
    if (node->attr[0].n != 1 || node->attr[0].v[0] != index)
        parse_error_at(p, span, "expected parameter index=%lld: parameters stand in their order", (long long)index);
    if (!d->name) parse_error_at(p, span, "expected the name of the parameter");
    if (p->failed) return;
    struct ir_param param = {arena_string(&p->m->arena, d->name), node->type, d->slot, f->count};
    vec_push(&p->m->arena, &f->params, param);
}

static void read_node(struct parse_state *p)
{
    struct ir_node node = {0};
    struct details d = {NULL, NULL, -1};
    struct parse_data data = {0, false};
    struct diag_span value_span = parse_here(p);
    uint64_t number = strtoull(parse_need(p, TOKEN_VALUE, "a value, `result` or `}`"), NULL, 10);
    parse_need_sign(p, '=');
    struct diag_span span = parse_here(p);
    const char *name = parse_need(p, TOKEN_WORD, "an op");
    node.op = (uint16_t)ir_op_find(name);
    if (!node.op) parse_error_at(p, span, "there is no op `%s`", name);
    read_operands(p, &node);
    if (node.op == OP_constant) data = parse_skip_data(p);
    read_details(p, &node, &d);
    parse_need_sign(p, ':');
    node.type = parse_need_type(p);
    parse_optional_sharding(p, &node.sharding);
    parse_optional_place(p, &node.place);
    if (node.op == OP_constant) parse_read_data(p, data, &node);
    if (!p->failed && node.op == OP_param) add_param(p, &node, &d, span);
    if (!p->failed && ir_has_body((enum ir_op)node.op) && !d.body)
        parse_error_at(p, span, "expected `func=` with the body's name");
    if (!p->failed && map_get_number(&p->values, number) != MAP_NONE)
        parse_error_at(p, value_span, "this value is defined twice");
    if (p->failed) return;
    ir_value value = ir_append_raw(p->f, &node);
    map_set_number(&p->values, number, value);
    vec_push(p->scratch, &p->nodes, ((struct node_place){p->f, value, d.body, span}));
}

static void read_func(struct parse_state *p)
{
    struct diag_span span = parse_here(p);
    const char *name = parse_need(p, TOKEN_STRING, "the function's name");
    if (p->failed) return;
    if (ir_func_find(p->m, name)) parse_error_at(p, span, "two functions have the name \"%s\"", name);
    p->f = ir_func_new(p->m, name, parse_take_word(p, "entry"));
    p->values = MAP(p->scratch);
    parse_need_sign(p, '{');
    while (!p->failed && !parse_is_sign(p, '}')) {
        if (parse_is_word(p, "turn") && p->f->turn) parse_error_at(p, parse_here(p), "a function has one `turn`");
        if (parse_take_word(p, "turn")) {
            p->f->turn = p->f->count;
            continue;
        }
        if (!parse_take_word(p, "result")) {
            read_node(p);
            continue;
        }
        struct ir_result r = {.name = parse_need(p, TOKEN_STRING, "the result's name")};
        r.value = parse_need_value(p);
        r.slot = parse_optional_slot(p);
        if (p->failed) return;
        r.name = arena_string(&p->m->arena, r.name);
        vec_push(&p->m->arena, &p->f->results, r);
    }
    parse_need_sign(p, '}');
    vec_push(p->scratch, &p->func_values, p->values);
}

/* ---------------------------------------------------------------- module */

static void read_mesh(struct parse_state *p)
{
    struct ir_mesh *mesh = &p->m->mesh;
    mesh->explicit_layouts = parse_take_word(p, "explicit");
    do {
        if (mesh->axis_count == IR_MAX_AXES)
            parse_error_at(p, parse_here(p), "expected at most %d mesh axes", IR_MAX_AXES);
        const char *name = parse_need(p, TOKEN_STRING, "the name of a mesh axis");
        parse_need_sign(p, '=');
        int64_t size = parse_need_integer(p, 1, INT32_MAX);
        if (p->failed) return;
        mesh->name[mesh->axis_count] = arena_string(&p->m->arena, name);
        mesh->size[mesh->axis_count++] = size;
    } while (parse_take_sign(p, ','));
}

static void read_place(struct parse_state *p)
{
    struct diag_span span = {0};
    parse_need_integer(p, (int64_t)p->m->places.count, (int64_t)p->m->places.count);
    span.offset = (uint32_t)parse_need_integer(p, 0, UINT32_MAX);
    parse_need_sign(p, '+');
    span.length = (uint32_t)parse_need_integer(p, 0, UINT32_MAX);
    const char *pointer = p->token == TOKEN_STRING ? parse_need(p, TOKEN_STRING, "a JSON pointer") : NULL;
    uint32_t again = 0;
    if (parse_take_word(p, "again")) {
        parse_need_sign(p, '=');
        again = (uint32_t)parse_need_integer(p, 1, UINT32_MAX);
    }
    uint32_t place = p->failed ? 0 : ir_place_new(p->m, span, pointer);
    if (place) p->m->places.items[place].again = again;
}

static void read_slot_detail(struct parse_state *p, struct ir_slot *slot)
{
    struct diag_span span = parse_here(p);
    const char *key = parse_need(p, TOKEN_WORD, "a property of the slot");
    if (strcmp(key, "frozen") == 0) slot->frozen = true;
    else if (strcmp(key, "computed") == 0) slot->computed = true;
    else {
        parse_need_sign(p, '=');
        struct diag_span number = parse_here(p);
        if (strcmp(key, "index_limit") == 0) slot->index_limit = parse_need_integer(p, 0, INT64_MAX);
        else if (strcmp(key, "batch_dims") == 0) slot->batch_dims = (uint32_t)parse_need_integer(p, 0, UINT32_MAX);
        else if (strcmp(key, "of") == 0) slot->param = (uint32_t)parse_need_integer(p, 0, UINT32_MAX - 1) + 1;
        else if (strcmp(key, "along") == 0) slot->param_dims = (uint32_t)parse_need_integer(p, 0, UINT32_MAX);
        else if (strcmp(key, "initial") == 0) {
            slot->initial = parse_number_of(p, p->word, number);
            parse_next(p);
        } else parse_error_at(p, span, "a slot has no property `%s`", key);
    }
}

static void read_slot(struct parse_state *p)
{
    struct ir_slot slot = {0};
    parse_need_integer(p, (int64_t)p->m->slots.count, (int64_t)p->m->slots.count);
    slot.name = parse_need(p, TOKEN_STRING, "the slot's name");
    struct diag_span span = parse_here(p);
    const char *role = parse_need(p, TOKEN_WORD, "the slot's role");
    slot.role = (enum ir_role)ir_role_find(role);
    if (!slot.role) parse_error_at(p, span, "there is no role `%s`", role);
    slot.type = parse_need_type(p);
    slot.sharding_given = parse_is_sign(p, '<');
    parse_optional_sharding(p, &slot.sharding);
    while (p->token == TOKEN_WORD && !parse_is_word(p, "slot") && !parse_is_word(p, "func") &&
           !parse_is_word(p, "plans"))
        read_slot_detail(p, &slot);
    parse_optional_place(p, &slot.place);
    if (!p->failed) ir_slot_new(p->m, slot);
}

static void read_module(struct parse_state *p)
{
    if (!parse_take_word(p, "module"))
        parse_error_at(p, parse_here(p), "expected `module`, found `%s`", parse_found(p));
    const char *name = parse_need(p, TOKEN_STRING, "the module's name");
    if (!p->failed) p->m->name = arena_string(&p->m->arena, name);
    if (!parse_take_word(p, "stage")) parse_error_at(p, parse_here(p), "expected `stage`, found `%s`", parse_found(p));
    struct diag_span span = parse_here(p);
    int stage = ir_stage_find(parse_need(p, TOKEN_WORD, "a stage"));
    if (!stage) parse_error_at(p, span, "expected stage tensor, spmd or kernel");
    else memcpy(&p->m->stage, &stage, sizeof p->m->stage);
    p->m->copies = parse_take_word(p, "copies");
    if (parse_take_word(p, "after")) p->m->after = arena_string(&p->m->arena, parse_need(p, TOKEN_WORD, "a pass"));
    while (!p->failed && p->token != TOKEN_END) {
        if (parse_take_word(p, "document"))
            p->m->document = arena_string(&p->m->arena, parse_need(p, TOKEN_STRING, "a JSON text"));
        else if (parse_take_word(p, "numerics"))
            p->m->numerics = arena_string(&p->m->arena, parse_need(p, TOKEN_STRING, "a word of --numerics"));
        else if (parse_take_word(p, "again"))
            p->m->again = (struct ir_again){true, (int)parse_need_integer(p, 0, INT32_MAX),
                                            (uint32_t)parse_need_integer(p, 0, UINT32_MAX)};
        else if (parse_take_word(p, "mesh")) read_mesh(p);
        else if (parse_take_word(p, "place")) read_place(p);
        else if (parse_take_word(p, "slot")) read_slot(p);
        else if (parse_take_word(p, "func")) read_func(p);
        else if (parse_take_word(p, "plans")) parse_plans(p);
        else if (parse_take_word(p, "plan")) parse_plan(p);
        else parse_error_at(p, parse_here(p), "expected mesh, place, slot, func or plan, found `%s`", parse_found(p));
    }
}

/* ---------------------------------------------------------------- after reading */

static void resolve_bodies(struct parse_state *p)
{
    for (size_t i = 0; i < p->nodes.count && !p->failed; i++) {
        struct node_place *n = &p->nodes.items[i];
        if (!n->body) continue;
        struct ir_func *body = ir_func_find(p->m, n->body);
        if (!body) parse_error_at(p, n->span, "there is no function \"%s\"", n->body);
        else n->f->nodes[n->value].func = ir_func_index(body);
    }
}

static void check_types(struct parse_state *p)
{
    for (size_t i = 0; i < p->nodes.count && !p->failed; i++) {
        struct node_place *n = &p->nodes.items[i];
        struct ir_node node = n->f->nodes[n->value];
        struct ir_type stated = node.type;
        const char *message;
        if (!ir_infer(n->f, &node, p->scratch, &message)) parse_error_at(p, n->span, "%s", message);
        else if (!ir_type_equal(&node.type, &stated))
            parse_error_at(p, n->span, "expected the type %s, found %s", ir_type_text(p->scratch, &node.type),
                           ir_type_text(p->scratch, &stated));
    }
}

/* The first fault, at the line that it is about if it is one of the plans. */
static void check_module(struct parse_state *p)
{
    struct str faults = STR(p->scratch);
    struct plan_module *plans = p->m->plans;
    struct plan_place place;
    if (p->failed) return;
    p->m->plans = NULL;
    bool sound = ir_verify(p->m, &faults), planned = sound && plans && !plan_verify(plans, &faults, &place);
    p->m->plans = plans;
    const char *text = str_text(&faults);
    if (!sound || planned)
        parse_error_at(p, planned ? parse_plan_span(p, place) : (struct diag_span){0, 6}, "%.*s",
                       (int)strcspn(text, "\n"), text);
}

struct ir_module *ir_parse(const char *text, size_t length, struct diags *diags)
{
    struct arena scratch = {0};
    struct parse_state p = {
        .text = text, .length = length, .scratch = &scratch, .diags = diags, .m = ir_module_new("")};
    if (length >= UINT32_MAX) parse_error_at(&p, (struct diag_span){0, 0}, "the text is too long");
    parse_next(&p);
    read_module(&p);
    resolve_bodies(&p);
    check_types(&p);
    check_module(&p);
    parse_plan_data(&p);
    if (p.failed) {
        ir_module_free(p.m);
        p.m = NULL;
    }
    arena_free(&scratch);
    return p.m;
}
