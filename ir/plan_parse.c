/* Reads plans (ir/LANG.md), line by line as the tables of plan_text.c say. Names and values must exist; everything else
 * is left to plan_verify, whose first fault is told at the line that it is about. */
#include "ir/parse.h"
#include "ir/plan_text.h"
#include <stdlib.h>
#include <string.h>

static uint32_t need_name(struct parse_state *p, const char *const *names, uint32_t count, const char *what)
{
    struct diag_span span = parse_here(p);
    const char *word = parse_need(p, TOKEN_WORD, what);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0) return i;
    parse_error_at(p, span, "expected %s, found `%s`", what, word);
    return 0;
}

/* The function of that name, and with it the values that %N stand for from here on. */
static struct ir_func *need_func(struct parse_state *p)
{
    struct diag_span span = parse_here(p);
    const char *name = parse_need(p, TOKEN_STRING, "the name of a function");
    struct ir_func *f = p->failed ? NULL : ir_func_find(p->m, name);
    if (!f) parse_error_at(p, span, "there is no function \"%s\" before the plans", name);
    else p->values = p->func_values.items[ir_func_index(f)];
    return f;
}

static void need_list(struct parse_state *p, enum plan_field_kind kind, char *at)
{
    VEC(uint32_t) numbers = {0};
    VEC(uint8_t) levels = {0};
    VEC(int64_t) steps = {0};
    parse_need_sign(p, '[');
    for (uint32_t i = 0; parse_item(p, i, ']'); i++) {
        int64_t most = kind == FIELD_LEVELS ? 2 : kind == FIELD_STEPS ? IR_MAX_ELEMENTS : INT32_MAX;
        int64_t number = kind == FIELD_VALUES ? parse_need_value(p)
                                              : parse_need_integer(p, kind == FIELD_STEPS ? -most : 0, most);
        if (kind == FIELD_LEVELS) vec_push(&p->m->arena, &levels, (uint8_t)number);
        else if (kind == FIELD_STEPS) vec_push(&p->m->arena, &steps, number);
        else vec_push(&p->m->arena, &numbers, (uint32_t)number);
    }
    const void *list = kind == FIELD_LEVELS ? (const void *)&levels : kind == FIELD_STEPS ? &steps : (void *)&numbers;
    memcpy(at, list, sizeof(struct plan_list));
}

static void need_field(struct parse_state *p, const struct plan_field *field, char *item)
{
    char *at = item + field->at;
    uint32_t index;
    uint64_t wide;
    if (field->kind == FIELD_FLAG) {
        *(bool *)at = true;
        return;
    }
    parse_need_sign(p, '=');
    switch (field->kind) {
    case FIELD_INDEX:
    case FIELD_COUNT:
        index = (uint32_t)parse_need_integer(p, 0, INT32_MAX);
        memcpy(at, &index, sizeof index);
        break;
    case FIELD_VALUE:
        index = parse_need_value(p);
        memcpy(at, &index, sizeof index);
        break;
    case FIELD_BYTES:
    case FIELD_CLASS:
        wide = (uint64_t)parse_need_integer(p, 0, INT64_MAX);
        memcpy(at, &wide, sizeof wide);
        break;
    case FIELD_NUMBER: {
        struct diag_span span = parse_here(p);
        double number = parse_number_of(p, parse_need(p, TOKEN_NUMBER, "a number"), span);
        memcpy(at, &number, sizeof number);
        break;
    }
    case FIELD_TEXT: {
        const char *text = arena_string(&p->m->arena, parse_need(p, TOKEN_STRING, "a text"));
        memcpy(at, &text, sizeof text);
        break;
    }
    default: need_list(p, field->kind, at);
    }
}

/* Those that are there, in any order, each once. */
static void read_fields(struct parse_state *p, const struct plan_field *fields, uint32_t count, char *item)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < count; i++)
        if (fields[i].kind == FIELD_INDEX) memset(item + fields[i].at, 0xff, sizeof(uint32_t));
    while (p->token == TOKEN_WORD) {
        uint32_t i = 0;
        while (i < count && strcmp(p->word, fields[i].word) != 0) i++;
        if (i == count) return;
        if (seen >> i & 1) parse_error_at(p, parse_here(p), "`%s` stands here twice", p->word);
        seen |= 1u << i;
        parse_next(p);
        if (!p->failed) need_field(p, &fields[i], item);
    }
}

/* Of the last plan. */
static void note_place(struct parse_state *p, uint32_t kind, uint32_t index, struct diag_span span)
{
    size_t plans = p->m->plans->plans.count;
    struct plan_place place = {.plan = plans ? (uint32_t)plans - 1 : 0, .index = index};
    place.kind = kind;
    vec_push(p->scratch, &p->plan_places, ((struct plan_span){place, span}));
}

static void read_line(struct parse_state *p, struct plan *plan, uint32_t index, const struct plan_line *line)
{
    struct plan_list *list = plan_list_of(plan, index);
    struct diag_span span = parse_here(p);
    parse_need_integer(p, (int64_t)list->count, (int64_t)list->count);
    uint32_t kind = line->kinds ? need_name(p, line->kinds, line->kind_count, "the kind of the line") : 0;
    const struct ir_func *f = need_func(p);
    if (p->failed) return;
    list->items = arena_grow(&p->m->arena, list->items, list->count, &list->capacity, line->size);
    char *item = (char *)list->items + list->count++ * line->size;
    memset(item, 0, line->size);
    if (line->kinds) memcpy(item + line->kind, &kind, sizeof kind);
    memcpy(item + line->func, &f, sizeof f);
    read_fields(p, line->fields, line->field_count, item);
    note_place(p, PLAN_AT_LINE + index, (uint32_t)list->count - 1, span);
}

void parse_plan(struct parse_state *p)
{
    struct plan *plan = arena_new(&p->m->arena, struct plan);
    struct diag_span span = parse_here(p);
    if (!p->m->plans) parse_error_at(p, span, "expected `plans` and how far they are before the first `plan`");
    plan->func = need_func(p);
    if (p->failed) return;
    vec_push(&p->m->arena, &p->m->plans->plans, plan);
    note_place(p, PLAN_AT_PLAN, 0, span);
    read_fields(p, plan_fields, plan_field_count, (char *)plan);
    parse_need_sign(p, '{');
    while (!p->failed && !parse_is_sign(p, '}')) {
        uint32_t line = 0;
        while (line < PLAN_LINES && !parse_take_word(p, plan_lines[line].word)) line++;
        if (line == PLAN_LINES)
            parse_error_at(p, parse_here(p), "expected buffer, group, taps, join, command or `}`, found `%s`",
                           parse_found(p));
        else read_line(p, plan, line, &plan_lines[line]);
    }
    parse_need_sign(p, '}');
}

void parse_plans(struct parse_state *p)
{
    struct plan_module *plans = arena_new(&p->m->arena, struct plan_module);
    struct diag_span span = parse_here(p);
    if (p->m->plans) parse_error_at(p, span, "the plans begin twice");
    plans->module = p->m;
    plans->stage = (enum plan_stage)need_name(p, plan_stage_names, PLAN_STAGE_COUNT, "groups, commands or memory");
    read_fields(p, plan_module_fields, plan_module_field_count, (char *)plans);
    p->m->plans = plans;
    note_place(p, PLAN_AT_MODULE, 0, span);
    if (plans->stage == PLAN_MEMORY)
        plans->slot_offset = arena_new_array(&p->m->arena, uint64_t, p->m->slots.count + 1);
    if (!p->m->slots.count || !parse_take_word(p, "offsets")) return;
    parse_need_sign(p, '[');
    for (size_t i = 0; i < p->m->slots.count && !p->failed; i++) {
        uint64_t offset = (uint64_t)parse_need_integer(p, 0, INT64_MAX);
        if (plans->slot_offset) plans->slot_offset[i] = offset;
        if (i + 1 < p->m->slots.count) parse_need_sign(p, ',');
    }
    parse_need_sign(p, ']');
}

/* Constants' data stands with their nodes. */
void parse_plan_data(struct parse_state *p)
{
    for (size_t i = 0; p->m->plans && i < p->m->plans->plans.count && !p->failed; i++) {
        struct plan *plan = p->m->plans->plans.items[i];
        for (size_t b = 0; b < plan->buffers.count; b++) {
            struct plan_buffer *buffer = &plan->buffers.items[b];
            if (buffer->space != PLAN_CONSTANT) continue;
            buffer->data = plan_constant_data(ir_get(buffer->func, buffer->value), &p->m->arena);
        }
    }
}

struct diag_span parse_plan_span(const struct parse_state *p, struct plan_place place)
{
    for (size_t i = 0; i < p->plan_places.count; i++) {
        const struct plan_span *s = &p->plan_places.items[i];
        if (s->place.kind == place.kind && s->place.plan == place.plan && s->place.index == place.index) return s->span;
    }
    return (struct diag_span){0, 6};
}
