/* The verifier of plans: its faults, and what all of its rules ask. */
#include "ir/plan_verify.h"

#include <stdarg.h>
#include <string.h>

bool plan_fault(struct plan_check *c, const char *format, ...)
{
    va_list list;
    if (c->ok) *c->first = c->at;
    c->ok = false;
    if (!c->faults) return false;
    if (c->plan) str_addf(c->faults, "plan %s: ", c->plan->func->name);
    if (c->at.kind >= PLAN_AT_LINE)
        str_addf(c->faults, "%s %u: ", plan_lines[c->at.kind - PLAN_AT_LINE].word, c->at.index);
    va_start(list, format);
    str_add(c->faults, arena_vformat(c->scratch, format, list));
    va_end(list);
    str_add(c->faults, "\n");
    return false;
}

void plan_at_line(struct plan_check *c, uint32_t line, uint32_t index)
{
    uint32_t kind = PLAN_AT_LINE + line;
    memcpy(&c->at.kind, &kind, sizeof kind);
    c->at.index = index;
}

bool plan_known_func(const struct plan_check *c, const struct ir_func *f)
{
    for (size_t i = 0; i < c->m->module->funcs.count; i++)
        if (c->m->module->funcs.items[i] == f) return true;
    return false;
}

bool plan_is_value(const struct ir_func *f, ir_value v) { return v > 0 && v < f->count; }

uint64_t plan_value_bytes(const struct ir_func *f, ir_value v)
{
    const struct ir_type *t = ir_type(f, v);
    return t->dtype == IR_TUPLE ? 0 : (uint64_t)ir_type_elements(t) * ir_dtype_bytes((enum ir_dtype)t->dtype);
}
