/* Passes on modules that are freed after the test; the verifier runs around every pass. */
#ifndef UNIT_PASS_RUN_H
#define UNIT_PASS_RUN_H
#include "passes/pass.h"
#include "random_ir.h"
#include "tests/unit/suite.h"

static struct arena arena;
static struct diags diags;
static struct ir_module *modules[512];
static size_t module_count;

/* Freed after the test. */
static inline struct ir_module *own(struct ir_module *m)
{
    for (size_t i = 0; i < module_count; i++)
        if (modules[i] == m) return m;
    ck_assert_uint_lt(module_count, sizeof modules / sizeof modules[0]);
    return modules[module_count++] = m;
}

static inline void setup(void) { diags = (struct diags){.arena = &arena}; }

static inline void teardown(void)
{
    while (module_count) ir_module_free(modules[--module_count]);
    arena_free(&arena);
}

static inline struct ir_module *run_with(struct pass_options options, struct ir_module *m, struct pass *pass)
{
    struct ir_module *last;
    options.verify_each = true;
    *pass = (struct pass){.options = arena_copy(&arena, &options, sizeof options), .diags = &diags, .keep = &arena};
    pass_run(pass, own(m), &last);
    return own(last);
}

static inline struct ir_module *run(const char *only, struct ir_module *m)
{
    struct pass pass;
    return run_with((struct pass_options){.only = only}, m, &pass);
}
#endif
