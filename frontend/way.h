/* The way of a document through frontend and passes, as every command begins: its options, its limits, its diagnostics.
 */
#ifndef FRONTEND_WAY_H
#define FRONTEND_WAY_H
#include "frontend/cli/cli.h"
#include "frontend/fe.h"
#include "passes/pass.h"

/* One document on its way through the compiler. */
struct way {
    struct cli *cli;
    struct cli_limits limits;
    struct diags diags;
    struct ir_module *first, *last; /* from the frontend; as the passes left it */
    struct pass pass;
    struct pass_options options;
    struct plan_module *plans;
    bool cuda;                   /* for GPUs */
    bool regrouped;              /* fe_options */
    bool second;                 /* of an object that has both: what is told of the first one is not told again */
    VEC(struct pass_time) times; /* of what is no pass */
};

/* An exit code: 0, or that of what was said. */
int way_settings(struct way *w); /* the limits and the passes' options; way_to_plans does it itself */
int way_read_document(struct way *w, const char *path, char **text, size_t *length); /* from here on its limits hold */
int way_read_options(const struct way *w, struct fe_options *options);
int way_to_module(struct way *w, const char *path, const char *text, size_t length);
int way_plan_text(struct way *w, const char *path, const char *text, size_t length);
int way_fit_memory(struct way *w, const char *path, const char *text, size_t length); /* as much as is allowed */
int way_check_memory(struct way *w);
/* The whole way to the plans, or to --stop-after (then plans stay NULL). */
int way_to_plans(struct way *w, const char *path);
int way_write_times(const struct way *w, const char *path);
int way_finish(struct way *w, int code); /* prints what was recorded */
int way_switched_on(struct cli *cli, const char *name,
                    bool *on); /* a variable of the environment: 1, or 0 as if it were not set */

bool way_is_ir_text(const char *path, const char *text);       /* a text in the IR's own form */
void way_spent(struct way *w, const char *name, double begin); /* of what is no pass */
void way_free(struct way *w);
#endif
