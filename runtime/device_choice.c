/* Objects with code for the CPU and for GPUs: which of the two an instance is of. What is asked for decides; where
 * nobody asks, GPUs that can be used do. */
#include "runtime/rt.h"

#include <string.h>

static const struct stepc_program *choose(struct step_instance *t, const char *devices)
{
    const struct stepc_program *cpu = t->program;
    if (devices) return strncmp(devices, "cuda", 4) == 0 ? cpu->gpus : cpu;
    t->program = cpu->gpus;
    bool usable = cpu->gpus->gpu->ops.check(t, NULL) == STEP_OK;
    t->program = cpu;
    if (!usable) rt_log(t, 2, "%s: on the CPU: %s", cpu->name, rt_last_error(NULL));
    return usable ? cpu->gpus : cpu;
}

const struct stepc_choice stepc_part_choice = {.choose = choose};
