/* Inside of `stepc doc`: what doc.c and doc_optimizers.c share. */
#ifndef FRONTEND_CLI_DOC_H
#define FRONTEND_CLI_DOC_H
#include "frontend/cli/cli.h"
#include "frontend/document/document.h"

struct fe_library;
struct doc {
    struct arena *arena;
    struct str out;
    const struct fe_library *library; /* functions of expressions */
    const char **functions[2];        /* their names: those that are no losses, and the losses; each ended by NULL */
};
void doc_arguments(struct doc *, const struct fe_row *); /* as a table */

/* Pages, embedded by texts.S. */
extern const char doc_custom_page[], doc_state_page[], doc_inference_page[], doc_microbatches_page[];
extern const char doc_optimizer_intro[];
const char *doc_optimizer_name(struct doc *, uint32_t i); /* NULL: there are no more */
void doc_optimizer_entry(struct doc *, uint32_t i);
struct fe_function;
const char *doc_function(struct arena *, const struct fe_function *); /* what it gives, in a sentence */
const char *doc_schema(struct arena *);                               /* JSON Schema of documents */
bool doc_topic(size_t index, const char **name, const char **title);
#endif
