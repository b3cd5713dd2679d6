/* Writes plans (ir/LANG.md), line by line as the tables of plan_text.c say. Prints malformed plans too, because faults
 * are shown with it. */
#include "ir/plan_text.h"
#include <string.h>

struct printing {
    struct str *out;
    struct map classes; /* FIELD_CLASS: number -> its place in the order in which they are met */
    struct arena scratch;
};

static const char *func_name(const struct ir_func *f) { return f && f->name ? f->name : "?"; }

static void add_list(struct printing *p, const struct plan_field *field, const void *at)
{
    struct plan_list list;
    memcpy(&list, at, sizeof list);
    if (!list.count) return;
    str_addf(p->out, " %s=[", field->word);
    for (size_t i = 0; i < list.count; i++) {
        if (field->kind == FIELD_STEPS) {
            str_addf(p->out, i ? ", %lld" : "%lld", (long long)((const int64_t *)list.items)[i]);
            continue;
        }
        uint32_t number = field->kind == FIELD_LEVELS ? ((const uint8_t *)list.items)[i]
                                                      : ((const uint32_t *)list.items)[i];
        str_addf(p->out, field->kind == FIELD_VALUES ? "%s%%%u" : "%s%u", i ? ", " : "", number);
    }
    str_add(p->out, "]");
}

static uint32_t class_of(struct printing *p, uint64_t number)
{
    uint32_t known = map_get_number(&p->classes, number);
    if (known == MAP_NONE) map_set_number(&p->classes, number, known = p->classes.count + 1);
    return known;
}

static void add_field(struct printing *p, const struct plan_field *field, const char *item)
{
    const char *at = item + field->at;
    uint32_t index;
    uint64_t wide;
    double number;
    const char *text;
    switch (field->kind) {
    case FIELD_FLAG:
        if (*(const bool *)at) str_addf(p->out, " %s", field->word);
        break;
    case FIELD_INDEX:
    case FIELD_COUNT:
        memcpy(&index, at, sizeof index);
        if (index != (field->kind == FIELD_INDEX ? UINT32_MAX : 0)) str_addf(p->out, " %s=%u", field->word, index);
        break;
    case FIELD_VALUE:
        memcpy(&index, at, sizeof index);
        if (index) str_addf(p->out, " %s=%%%u", field->word, index);
        break;
    case FIELD_BYTES:
    case FIELD_CLASS:
        memcpy(&wide, at, sizeof wide);
        if (wide && field->kind == FIELD_CLASS) wide = class_of(p, wide);
        if (wide) str_addf(p->out, " %s=%llu", field->word, (unsigned long long)wide);
        break;
    case FIELD_NUMBER:
        memcpy(&number, at, sizeof number);
        if (number != 0) {
            str_addf(p->out, " %s=", field->word);
            str_add_number(p->out, number, false);
        }
        break;
    case FIELD_TEXT:
        memcpy(&text, at, sizeof text);
        if (text) {
            str_addf(p->out, " %s=", field->word);
            str_add_json(p->out, text);
        }
        break;
    default: add_list(p, field, at);
    }
}

static void add_line(struct printing *p, const struct plan_line *line, size_t number, const char *item)
{
    const struct ir_func *f;
    uint32_t kind = 0;
    memcpy(&f, item + line->func, sizeof f);
    str_addf(p->out, "  %s %zu ", line->word, number);
    if (line->kinds) memcpy(&kind, item + line->kind, sizeof kind);
    if (line->kinds) str_addf(p->out, "%s ", kind < line->kind_count ? line->kinds[kind] : "?");
    str_add_json(p->out, func_name(f));
    for (uint32_t i = 0; i < line->field_count; i++) add_field(p, &line->fields[i], item);
    str_add(p->out, "\n");
}

void plan_print(const struct plan_module *m, struct str *out)
{
    struct printing p = {.out = out};
    p.classes = MAP(&p.scratch);
    str_addf(out, "\nplans %s", (uint32_t)m->stage < PLAN_STAGE_COUNT ? plan_stage_names[m->stage] : "?");
    for (uint32_t i = 0; i < plan_module_field_count; i++) add_field(&p, &plan_module_fields[i], (const char *)m);
    str_add(out, "\n");
    for (size_t i = 0; m->slot_offset && i < m->module->slots.count; i++)
        str_addf(out, "%s%llu%s", i ? ", " : "offsets [", (unsigned long long)m->slot_offset[i],
                 i + 1 == m->module->slots.count ? "]\n" : "");
    for (size_t i = 0; i < m->plans.count; i++) {
        const struct plan *plan = m->plans.items[i];
        str_add(out, "\nplan ");
        str_add_json(out, func_name(plan->func));
        for (uint32_t k = 0; k < plan_field_count; k++) add_field(&p, &plan_fields[k], (const char *)plan);
        str_add(out, " {\n");
        for (uint32_t k = 0; k < PLAN_LINES; k++) {
            const struct plan_list *list = plan_list_of(plan, k);
            for (size_t n = 0; n < list->count; n++)
                add_line(&p, &plan_lines[k], n, (const char *)list->items + n * plan_lines[k].size);
        }
        str_add(out, "}\n");
    }
    arena_free(&p.scratch);
}
