/* The lines of a plan's text as data: which fields a buffer, a group, a command have, under which words, and how each
 * is written. The printer and the reader go by the same tables, so what one writes the other reads. */
#ifndef IR_PLAN_TEXT_H
#define IR_PLAN_TEXT_H
#include "ir/plan.h"

enum plan_field_kind {
    FIELD_FLAG,    /* bool: the word alone */
    FIELD_INDEX,   /* uint32_t; absent: none (UINT32_MAX) */
    FIELD_COUNT,   /* uint32_t; absent: 0 */
    FIELD_BYTES,   /* uint64_t; absent: 0 */
    FIELD_NUMBER,  /* double; absent: 0 */
    FIELD_TEXT,    /* a string; absent: NULL */
    FIELD_CLASS,   /* uint64_t of which only matters which are equal: numbered from 1 on; absent: 0 */
    FIELD_VALUE,   /* ir_value of the line's function; absent: 0 */
    FIELD_VALUES,  /* VEC of them; absent: empty, as all lists */
    FIELD_INDICES, /* VEC(uint32_t) */
    FIELD_LEVELS,  /* VEC(uint8_t) */
    FIELD_STEPS    /* VEC(int64_t) */
};

struct plan_field {
    const char *word;
    enum plan_field_kind kind;
    size_t at;
};

/* A line: its word, the number of the item, the name of its kind if it has kinds, the name of its function, the fields.
 */
struct plan_line {
    const char *word;
    const char *const *kinds;
    uint32_t kind_count;
    size_t size, kind, func; /* of the struct; where the last two stand in it */
    const struct plan_field *fields;
    uint32_t field_count;
};

enum { PLAN_BUFFER_LINE, PLAN_GROUP_LINE, PLAN_TAPS_LINE, PLAN_JOIN_LINE, PLAN_COMMAND_LINE, PLAN_LINES };
extern const struct plan_line plan_lines[PLAN_LINES];
/* What stands behind the words `plans` and `plan`: of the whole, of one entry. */
extern const struct plan_field plan_module_fields[], plan_fields[];
extern const uint32_t plan_module_field_count, plan_field_count;

/* Any list of items, as VEC lays it out. */
struct plan_list {
    void *items;
    size_t count, capacity;
};
/* The lists of an entry, in the order of plan_lines. */
struct plan_list *plan_list_of(const struct plan *, uint32_t line);
#endif
