/* Private to ir/plan_verify*.c: what checking one module's plans shares. */
#ifndef IR_PLAN_VERIFY_H
#define IR_PLAN_VERIFY_H
#include "ir/plan_text.h"

struct plan_check {
    const struct plan_module *m;
    const struct plan *plan;
    struct plan_place at;
    struct plan_place *first;
    struct str *faults;
    struct arena *scratch;
    bool ok;
};

/* plan_verify_fault.c */
bool plan_fault(struct plan_check *, const char *format, ...) __attribute__((format(printf, 2, 3))); /* false */
void plan_at_line(struct plan_check *, uint32_t line, uint32_t index); /* where faults are from here on */
bool plan_known_func(const struct plan_check *, const struct ir_func *);
bool plan_is_value(const struct ir_func *, ir_value);
uint64_t plan_value_bytes(const struct ir_func *, ir_value);

/* plan_verify_memory.c: rules 8 to 12 of plan_verify.c, of a plan whose groups and commands are sound. */
void plan_verify_memory(struct plan_check *);
#endif
