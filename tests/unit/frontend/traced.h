/* A document whose model is traced into a function "test", every input a parameter of it. */
#ifndef FE_TRACED_H
#define FE_TRACED_H
#include "frontend/model/model.h"
#include "tests/unit/frontend/fe_test.h"

struct traced {
    struct fixture f;
    struct fe_trace trace;
    struct ir_builder b;
    ir_value inputs[32];
    ir_value value; /* what a test makes of it */
    bool good;
};

/* False: the document is refused, or its model is. */
static inline bool trace_document(struct traced *t, const char *text)
{
    const uint32_t *slots;
    ck_assert(fixture_scan(&t->f, text));
    if (!fe_document(&t->f.fe)) return false;
    uint32_t n = fe_inputs(&t->f.fe, &slots);
    ck_assert(n <= sizeof t->inputs / sizeof *t->inputs);
    t->b = (struct ir_builder){.f = ir_func_new(t->f.fe.module, "test", true)};
    for (uint32_t i = 0; i < n; i++) {
        const struct ir_slot *slot = &t->f.fe.module->slots.items[slots[i]];
        t->inputs[i] = ir_param_new(&t->b, slot->name, slot->type, (int32_t)slots[i]);
    }
    t->trace = (struct fe_trace){.b = &t->b, .train = true, .inputs = t->inputs};
    return t->good = fe_trace_model(&t->f.fe, &t->trace);
}
#endif
