/* Inputs that nobody gave: for the first steps that an object records of itself, and for `stepc bench`. */
#include "frontend/cli/draw.h"
#include "frontend/model/init.h"
#include "ir/ir.h"

#include <string.h>

/* Threefry: the tensor's number and the element's are the counter. */
static void draw(const struct cli_draw *d, uint32_t number, const struct step_tensor *of, const double range[2],
                 void *data)
{
    enum ir_dtype dtype = ir_dtype_of_abi(of->dtype);
    const uint32_t key[2] = {0x73746570, number};
    uint64_t count = 1;
    for (int32_t k = 0; k < of->rank; k++) count *= (uint64_t)of->shape[k];
    bool is_float = of->dtype >= STEP_F8E4M3;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t word[2];
        fe_threefry(key, (uint32_t)(i >> 32), (uint32_t)i, word);
        double x = is_float   ? (double)(word[0] >> 8) / (1 << 23) - 1
                   : d->zeros ? 0
                              : range[0] + (double)((uint64_t)word[0] % (uint64_t)(range[1] - range[0]));
        ir_element_set(dtype, data, i, x);
    }
}

static struct step_array array_of(const struct cli_draw *d, const struct step_tensor *of)
{
    size_t room = (size_t)of->bytes_global + 64;
    char *memory = memset(arena_alloc(d->arena, room), 0, room);
    int64_t *shape = arena_new_array(d->arena, int64_t, (size_t)of->rank + 1);
    for (int32_t i = 0; i < of->rank; i++) shape[i] = of->shape[i];
    return (struct step_array){.size = sizeof(struct step_array),
                               .name = of->name,
                               .data = memory + (64 - (uintptr_t)memory % 64),
                               .dtype = of->dtype,
                               .rank = of->rank,
                               .shape = shape};
}

struct step_array *cli_draw(const struct cli_draw *d, uint32_t role, size_t *count)
{
    *count = d->api->tensor_count(d->instance, role);
    struct step_array *arrays = arena_new_array(d->arena, struct step_array, *count + 1);
    for (size_t i = 0; i < *count; i++) {
        struct step_tensor of = {.size = sizeof of};
        double range[2] = {0, 2};
        d->api->tensor_at(d->instance, role, i, &of);
        arrays[i] = array_of(d, &of);
        if (d->manifest) cli_report_range(d->cli, d->manifest, of.name, range);
        if (role == STEP_INPUT || role == STEP_PARAM) draw(d, (uint32_t)i + 1000 * role, &of, range, arrays[i].data);
    }
    return arrays;
}

step_status cli_draw_state(const struct cli_draw *d)
{
    size_t count;
    step_status status = d->api->init(d->instance);
    if (status != STEP_EUNSUPPORTED) return status;
    const struct step_array *given = cli_draw(d, STEP_PARAM, &count); /* an object without initial values */
    status = STEP_OK;
    for (size_t i = 0; i < count && !status; i++) status = d->api->write(d->instance, &given[i]);
    return status;
}
