/* What a value is called in messages about it: its op and its place in the document, or the input, parameter or state
 * that it is. */
#include "ir/ir.h"

/* A name of the document may hold anything. */
static void add_name(struct str *out, const char *name)
{
    for (; *name; name++) str_addf(out, "%c", (unsigned char)*name < ' ' ? ' ' : *name);
}

static void add_place(struct str *out, const struct ir_module *m, uint32_t number, const struct diag_source *source)
{
    uint32_t line, column;
    if (!number || number >= m->places.count) return;
    const struct ir_place *place = &m->places.items[number];
    if (place->pointer && *place->pointer) {
        str_add(out, " at ");
        add_name(out, place->pointer);
    }
    if (!source || !place->span.length) return;
    diag_line_column(source, place->span.offset, &line, &column);
    str_add(out, " (");
    add_name(out, source->name);
    str_addf(out, ":%u:%u)", line, column);
}

/* What a loop's body is given from outside, 0: it is what the loop carries, or comes from no loop. */
static ir_value captured(const struct ir_func **f, ir_value v)
{
    const struct ir_module *m = (*f)->module;
    uint32_t body = ir_func_index(*f);
    int64_t index = ir_get(*f, v)->attr[0].v[0];
    for (size_t i = 0; i < m->funcs.count; i++)
        for (ir_value u = 1; u < m->funcs.items[i]->count; u++) {
            const struct ir_node *loop = ir_get(m->funcs.items[i], u);
            if (loop->op != OP_loop || loop->func != body) continue;
            *f = m->funcs.items[i];
            return index > loop->attr[0].v[0] && index < (int64_t)loop->arg_count ? loop->args[index] : 0;
        }
    return 0;
}

static const struct ir_slot *slot_of(const struct ir_func *f, ir_value v)
{
    while (v && ir_get(f, v)->op == OP_param) {
        for (size_t i = 0; i < f->params.count; i++)
            if (f->params.items[i].value == v && f->params.items[i].slot >= 0)
                return &f->module->slots.items[f->params.items[i].slot];
        v = captured(&f, v);
    }
    return NULL;
}

void ir_site_text(struct str *out, const struct ir_func *f, ir_value v, const struct diag_source *source)
{
    const struct ir_node *node = ir_get(f, v);
    const struct ir_slot *slot = node->op == OP_param ? slot_of(f, v) : NULL;
    if (slot) {
        str_add(out, slot->role == IR_ROLE_INPUT ? "input " : slot->role == IR_ROLE_PARAM ? "parameter " : "state ");
        add_name(out, slot->name);
    } else if (node->op == OP_param) {
        str_add(out, "what a loop is given");
    } else {
        str_add(out, ir_ops[node->op].name);
        add_place(out, f->module, node->place, source);
    }
}

static enum ir_emit emit_of(const struct ir_func *f, ir_value v) { return (enum ir_emit)ir_ops[ir_get(f, v)->op].emit; }

/* What devices sent each other, nobody has checked as it was sent: it is what was sent that made it, unless devices
 * have added it up and their addends were. */
static ir_value sent_from(const struct ir_func *f, ir_value v, bool *added)
{
    *added = false;
    while (emit_of(f, v) == EMIT_comm || (emit_of(f, v) == EMIT_view && ir_get(f, v)->arg_count == 1)) {
        enum ir_op op = (enum ir_op)ir_get(f, v)->op;
        *added |= op == OP_all_reduce || op == OP_reduce_scatter;
        v = ir_get(f, v)->args[0];
    }
    return v;
}

ir_value ir_made_by(const struct ir_func *f, ir_value v, bool *moved)
{
    bool added;
    *moved = emit_of(f, v) == EMIT_view || emit_of(f, v) == EMIT_index;
    if (emit_of(f, v) != EMIT_comm) return v;
    ir_value from = sent_from(f, v, &added);
    bool checked = ir_is_ewise((enum ir_op)ir_get(f, from)->op);
    *moved = checked && !added;
    return checked ? v : from;
}

uint64_t ir_checked_as(const struct ir_func *f, ir_value v)
{
    bool moved;
    const struct ir_node *n = ir_get(f, v);
    if (ir_is_ewise((enum ir_op)n->op) || !ir_dtype_is_float((enum ir_dtype)n->type.dtype)) return 0;
    n = ir_get(f, ir_made_by(f, v, &moved));
    int32_t slot = n->op == OP_param ? f->params.items[n->attr[0].v[0]].slot : -1;
    uint64_t given = slot < 0 ? 0 : 1 + 2 * (uint64_t)f->module->slots.items[slot].role + !n->type.rank;
    return 1 + 2 * given + moved;
}
