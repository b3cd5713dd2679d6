/* Inside of `stepc doc`: what doc.c and doc_optimizers.c share. */
#ifndef FRONTEND_CLI_DOC_H
#define FRONTEND_CLI_DOC_H
#include "frontend/cli/cli.h"
#include "frontend/document/document.h"

struct fe_library;
struct doc_topic;
struct doc {
    const struct doc_topic *topics;
    uint32_t topic_count;
    struct arena *arena;
    bool brief; /* without what is found by compiling: the state of optimizers */
    struct str out;
    const struct fe_library *library; /* functions of expressions */
    const char **functions[2];        /* their names: those that are no losses, and the losses; each ended by NULL */
};
/* A part of the reference: entries, or a page. */
struct doc_topic {
    const char *name, *title, *intro;
    const char *(*entry_name)(struct doc *, uint32_t i); /* NULL: there are no more */
    void (*entry)(struct doc *, uint32_t i);
    const char *page;                                       /* a text instead of entries */
    bool (*row)(struct doc *, uint32_t i, struct fe_row *); /* NULL: entries have no arguments of their own */
};
void doc_add_entry(struct doc *, const struct doc_topic *, uint32_t i);
const char *doc_entry_text(struct doc *, const struct doc_topic *, uint32_t i, bool brief); /* with its heading */
const char *doc_sentence(struct doc *, const struct doc_topic *, uint32_t i); /* what it is, in one line */
int doc_site(struct cli *, struct doc *, const char *dir);
int doc_search(struct cli *, struct doc *, const char *word);

/* The cookbook (doc_cookbook.c). */
const char *doc_recipe_name(struct doc *, uint32_t i);
void doc_recipe_entry(struct doc *, uint32_t i);
const char *doc_recipe_text(const char *name); /* NULL: there is none */

/* An example of an entry as JSON, or as an expression (doc_example.c); NULL: the entry is none that is written down. */
const char *doc_example(struct doc *, const struct doc_topic *, uint32_t i);
const char *doc_sample(const char *row, const struct fe_arg *); /* a value of the argument; NULL: none is known */
/* an object with the arguments that are required, and with another one if there is one */
const char *doc_minimal(struct arena *, const struct fe_row *, const char *argument, const char *value);

void doc_arguments(struct doc *, const struct fe_row *); /* as a table */

/* Pages, embedded by texts.S. */
extern const char doc_custom_page[], doc_state_page[], doc_inference_page[], doc_microbatches_page[];
extern const char doc_optimizer_intro[];
const char *doc_optimizer_name(struct doc *, uint32_t i); /* NULL: there are no more */
bool doc_optimizer_row(struct doc *, uint32_t i, struct fe_row *);
void doc_optimizer_entry(struct doc *, uint32_t i);
struct fe_function;
const char *doc_function(struct arena *, const struct fe_function *); /* what it gives, in a sentence */
const char *doc_schema(struct arena *);                               /* JSON Schema of documents */
bool doc_topic(size_t index, const char **name, const char **title);
#endif
