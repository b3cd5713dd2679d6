/* NaN and infinity in `stepc run`: the first step with one is told, and a run does not end well whose weights were
 * finite and are not any more. */
#include "frontend/cli/run.h"
#include "ir/ir.h"

#include <math.h>
#include <string.h>

static bool tensor_finite(struct run *r, const struct step_tensor *t)
{
    enum ir_dtype dtype = ir_dtype_of_abi(t->dtype);
    if (t->flags & STEP_FROZEN || !ir_dtype_is_float(dtype)) return true;
    struct arena scratch = {0};
    struct step_array a = {.size = sizeof a,
                           .name = t->name,
                           .data = arena_alloc(&scratch, t->bytes_global + 1),
                           .dtype = t->dtype,
                           .rank = t->rank,
                           .shape = t->shape};
    bool finite = r->api->read(r->instance, &a) == STEP_OK;
    for (uint64_t i = 0; finite && i < t->bytes_global / ir_dtype_bytes(dtype); i++)
        finite = isfinite(ir_element_get(dtype, a.data, i));
    arena_free(&scratch);
    return finite;
}

bool run_weights_finite(struct run *r)
{
    struct step_tensor t = {.size = sizeof t};
    for (uint32_t role = STEP_PARAM; role <= STEP_EMA; role++)
        for (size_t i = 0; r->api->tensor_at(r->instance, role, i, &t) == STEP_OK; i++)
            if (!tensor_finite(r, &t)) return false;
    return true;
}

void run_nonfinite(struct run *r, const struct step_result *result)
{
    bool skipped = result->flags & STEP_SKIPPED;
    r->skipped += skipped;
    if (!(result->flags & STEP_NONFINITE) || r->nonfinite) return;
    r->nonfinite = r->first_step + r->done;
    fprintf(stderr, "%sstepc: warning: step %llu: %s; %s\n", r->line_open ? "\n" : "", (unsigned long long)r->nonfinite,
            isfinite(result->loss) ? "the update is not finite"
            : isnan(result->loss)  ? "the loss is NaN"
                                   : "the loss is infinite",
            skipped ? "the step is skipped, the state stays as it was"
                    : "training goes on with it (--on-nonfinite stop or skip keeps the state as it was)");
    r->line_open = false;
}

/* Asked for by name, a run that continues is what Optax does, and with --metrics every step's numbers stand in a file;
 * else such weights would take the place of better ones for whoever looks at the exit code alone. */
bool run_weights_lost(struct run *r)
{
    bool told = cli_count(r->cli, "on-nonfinite") > 0 || cli_count(r->cli, "metrics") > 0;
    return r->nonfinite && !told && r->was_finite && !run_weights_finite(r);
}

int run_save_finite(struct run *r, const char *path)
{
    bool all = cli_count(r->cli, "all-state") > 0, lost = run_weights_lost(r);
    bool stream = path && strncmp(path, "/dev/", 5) == 0; /* there is no name beside it */
    const char *other = path && !stream ? arena_format(r->cli->arena, "%s.nonfinite", path) : NULL;
    const char *to = lost ? other : path;
    int code = to ? run_save(r, to, all) : 0;
    if (code) return code;
    if (!lost) {
        bool told = to && r->nonfinite && r->was_finite && !run_weights_finite(r); /* all ranks look at them */
        if (!told) return 0;
        fprintf(stderr, "%sstepc: warning: --save %s: its weights are NaN or infinite since step %llu\n",
                r->line_open ? "\n" : "", path, (unsigned long long)r->nonfinite);
        r->line_open = false;
        return 0;
    }
    return cli_failed(
        r->cli, EXIT_WRONG,
        "the weights are NaN or infinite since step %llu%s%s%s; --on-nonfinite stop ends with the last finite "
        "state, --on-nonfinite continue takes it as it is",
        (unsigned long long)r->nonfinite, other ? ": they are saved as " : "", other ? other : "",
        path ? arena_format(r->cli->arena, ", %s is not written", path) : "");
}
