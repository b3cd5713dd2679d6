/* A document in a string, read up to what a test needs. */
#ifndef FE_TEST_H
#define FE_TEST_H
#include "frontend/losses/losses.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

struct fixture {
    struct arena arena;
    struct diags diags;
    struct fe fe;
    struct fe_options options;
};

static inline bool fixture_scan(struct fixture *f, const char *text)
{
    memset(f, 0, sizeof *f);
    f->diags = (struct diags){.arena = &f->arena, .source = {"test.json", text, strlen(text)}};
    f->fe = (struct fe){
        .arena = &f->arena, .diags = &f->diags, .options = &f->options, .functions = &fe_losses, .layers = &fe_layers};
    return fe_scan(&f->fe, text, strlen(text));
}

static inline void fixture_free(struct fixture *f)
{
    if (f->fe.module) ir_module_free(f->fe.module);
    arena_free(&f->arena);
}

/* The text form of what was recorded; free() it. */
static inline char *fixture_said(struct fixture *f)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    diags_print(&f->diags, file, false, false);
    fclose(file);
    return text;
}
#endif
