/* stepc check --weights: whether a safetensors file holds the parameters and running statistics of a document, as
 * `stepc run --init` will ask; all that does not fit is listed. Averages may be there too. */
#include "frontend/cli/cli.h"
#include "ir/ir.h"
#include <stepc/step.h>
#include <stepc/step_tools.h>

#include <string.h>

static bool is_initial(const struct ir_slot *s)
{
    return s->role == IR_ROLE_PARAM || (s->role == IR_ROLE_STATE && st_is_statistic(s->name, (int32_t)s->type.rank));
}

/* Floats may have another dtype. */
static const char *misfit(struct cli *cli, const struct ir_slot *s, const struct st_tensor *t)
{
    enum ir_dtype dtype = ir_dtype_of_abi(t->dtype);
    int64_t dim[IR_MAX_RANK] = {0};
    bool fits = t->rank == s->type.rank &&
                (dtype == s->type.dtype ||
                 (ir_dtype_is_float(dtype) && ir_dtype_is_float((enum ir_dtype)s->type.dtype)));
    for (int32_t i = 0; i < t->rank && i < IR_MAX_RANK; i++) {
        dim[i] = t->shape[i];
        fits = fits && dim[i] == s->type.dim[i];
    }
    struct ir_type found = ir_type_of(dtype == IR_TUPLE ? IR_F32 : dtype,
                                      t->rank <= IR_MAX_RANK ? (uint32_t)t->rank : IR_MAX_RANK, dim);
    return fits ? NULL
                : arena_format(cli->arena, "expected %s, found %s", ir_type_text(cli->arena, &s->type),
                               ir_type_text(cli->arena, &found));
}

int cli_check_weights(struct cli *cli, const struct ir_module *module, const char *path)
{
    struct st_file f;
    char error[ST_TEXT];
    struct str out = STR(cli->arena);
    uint32_t faults = 0, names = 0;
    const char **known = arena_new_array(cli->arena, const char *, module->slots.count + 1);
    step_status status = st_open(&f, path, error);
    if (status) return cli_failed(cli, status == STEP_ECORRUPT ? EXIT_WRONG : EXIT_ENVIRONMENT, "--weights: %s", error);
    for (uint32_t i = 0; i < module->slots.count; i++) {
        const struct ir_slot *s = &module->slots.items[i];
        const struct st_tensor *t = is_initial(s) || s->role == IR_ROLE_EMA ? st_find(&f, s->name) : NULL;
        const char *why = t ? misfit(cli, s, t)
                          : is_initial(s)
                              ? arena_format(cli->arena, "is missing; expected %s", ir_type_text(cli->arena, &s->type))
                              : NULL;
        if (is_initial(s) || s->role == IR_ROLE_EMA) known[names++] = s->name;
        if (why && ++faults) str_addf(&out, "%s: tensor \"%s\"%s%s\n", path, s->name, t ? ": " : " ", why);
    }
    for (uint32_t k = 0; k < f.count; k++) {
        uint32_t i = 0;
        while (i < names && strcmp(known[i], f.tensors[k].name) != 0) i++;
        if (i < names) continue;
        str_addf(&out, "%s: tensor \"%s\" is none of this document%s\n", path, f.tensors[k].name,
                 cli_meant(cli, f.tensors[k].name, known, names));
        faults++;
    }
    st_close(&f);
    if (!faults && !cli->quiet) str_addf(&out, "weights: all tensors of %s fit\n", path);
    int code = cli_print(cli, str_text(&out), out.length);
    return code ? code : faults ? EXIT_WRONG : 0;
}
