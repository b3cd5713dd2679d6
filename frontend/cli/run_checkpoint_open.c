/* Checkpoints as commands find and open them, and the map that goes with them. */
#include "frontend/cli/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int run_file_failed(const struct cli *cli, step_status status, const char *error)
{
    bool wrong = status == STEP_ECORRUPT || status == STEP_EVERSION || status == STEP_ENOTFOUND ||
                 status == STEP_ERANGE;
    return cli_failed(cli, wrong ? EXIT_WRONG : EXIT_ENVIRONMENT, "%s", error);
}

const char *run_newest(struct cli *cli, const char *path, uint64_t *below)
{
    char error[ST_TEXT];
    struct st_kept *list;
    uint32_t count, i = 0;
    if (st_is_checkpoint(path) || st_kept_list(path, NULL, &list, &count, error)) return path;
    while (i < count && (!list[i].whole || list[i].step >= *below)) i++;
    const char *newest = i < count ? arena_format(cli->arena, "%s/step-%" PRIu64, path, *below = list[i].step) : NULL;
    free(list);
    return newest;
}

/* Behind a path of a step that is not there: which ones are. */
static const char *steps_beside(const struct cli *cli, const char *path)
{
    enum { TOLD = 3 };
    char error[ST_TEXT];
    size_t n = strlen(path), digits = 0;
    while (n && path[n - 1] == '/') n--;
    while (digits < n && path[n - 1 - digits] >= '0' && path[n - 1 - digits] <= '9') digits++;
    n -= digits;
    if (!digits || n < 5 || memcmp(path + n - 5, "step-", 5) != 0 || (n > 5 && path[n - 6] != '/')) return "";
    const char *folder = n > 6 ? arena_string_n(cli->arena, path, n - 6) : n == 6 ? "/" : ".";
    uint64_t *steps;
    uint32_t count;
    if (st_steps(folder, &steps, &count, error)) return "";
    struct str out = STR(cli->arena);
    for (uint32_t i = 0; i < count && i < TOLD; i++)
        str_addf(&out, "%s step-%" PRIu64, i ? "," : arena_format(cli->arena, "; %s holds", folder), steps[i]);
    if (count > TOLD) str_addf(&out, " and %u older", count - TOLD);
    free(steps);
    return str_text(&out);
}

int run_path_missing(const struct cli *cli, const char *option, const char *path)
{
    struct stat s;
    if (stat(path, &s) == 0) return 0;
    int error = errno;
    return cli_failed(cli, EXIT_ENVIRONMENT, "%s%s: %s%s", option, path, strerror(error),
                      error == ENOENT ? steps_beside(cli, path) : "");
}

int run_open_any(struct cli *cli, struct st_checkpoint *c, const char *path)
{
    char error[ST_TEXT];
    uint64_t below = UINT64_MAX;
    int code = run_path_missing(cli, "", path);
    if (code) return code;
    const char *newest = run_newest(cli, path, &below);
    if (!newest) return cli_failed(cli, EXIT_WRONG, "%s holds no whole checkpoint", path);
    step_status status = st_checkpoint_open(c, newest, true, error);
    return status ? run_file_failed(cli, status, error) : 0;
}

int run_map(struct cli *cli, const char **text)
{
    const char *path = cli_text(cli, "map", NULL);
    size_t length;
    if (!(*text = NULL, path)) return 0;
    char *read;
    int code = cli_read(cli, path, 1 << 24, &read, &length);
    if (code) return code;
    if (strlen(read) != length) return cli_failed(cli, EXIT_WRONG, "--map %s: a byte 0", path);
    *text = read;
    return 0;
}

const char *run_role_of(struct cli *cli, const struct st_checkpoint *c, const struct st_tensor *t)
{
    const char *file = t->offset < c->piece_count ? c->members[c->pieces[t->offset].member].name : "";
    return arena_string_n(cli->arena, file, strcspn(file, ".-"));
}
