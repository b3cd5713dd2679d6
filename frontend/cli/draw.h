/* Tensors that are drawn for a step that nobody gave inputs. */
#ifndef FRONTEND_CLI_DRAW_H
#define FRONTEND_CLI_DRAW_H
#include "frontend/cli/cli.h"
#include <stepc/step.h>

struct cli_draw {
    struct arena *arena;
    const struct step_api *api;
    struct step_instance *instance;
    struct cli *cli;
    const char *manifest; /* with `cli`: for the ranges of integers that index; NULL: 0 and 1 */
    bool zeros;           /* integers are 0: every table has a row for it */
};

/* The tensors of a role: inputs and parameters drawn, floats uniform in [-1, 1), others zero. */
struct step_array *cli_draw(const struct cli_draw *, uint32_t role, size_t *count);
step_status cli_draw_state(const struct cli_draw *); /* what init makes; without it parameters are drawn */
#endif
