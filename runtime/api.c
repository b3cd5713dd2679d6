/* The exported symbol and the table behind it. */
#include "runtime/rt.h"

static const char *describe(void) { return stepc_program.manifest; }

static step_status create(const struct step_options *options, struct step_instance **out)
{
    return rt_create(&stepc_program, options, out);
}

static const struct step_api table = {.size = sizeof table,
                                      .abi_major = STEP_ABI_MAJOR,
                                      .abi_minor = STEP_ABI_MINOR,
                                      .describe = describe,
                                      .create = create,
                                      RT_TABLE};

__attribute__((visibility("default"))) const struct step_api *step_query(uint32_t abi_major, uint32_t abi_minor)
{
    return abi_major == STEP_ABI_MAJOR && abi_minor <= STEP_ABI_MINOR ? &table : NULL;
}
