/* The seal of an object: what the note of stepc/step_open.h says of the whole file, written when it was compiled and
 * compared by `stepc verify`. */
#include "frontend/cli/cli.h"
#include <stepc/step_open.h>

#include <string.h>

void cli_seal_object(char *bytes, size_t size)
{
    size_t note = step_note(bytes, size);
    if (!note) BUG("an object without a note");
    uint32_t sum = step_object_sum(bytes, size, note);
    memcpy(bytes + note, &sum, sizeof sum);
}

int cli_verify(struct cli *cli)
{
    const char *path = cli->operands.items[0], *why;
    char *bytes;
    size_t size;
    int code = cli_read(cli, path, (size_t)1 << 31, &bytes, &size);
    if (code) return code;
    if (step_object_check(bytes, size, &why)) return cli_failed(cli, EXIT_WRONG, "%s: %s", path, why);
    if (!cli->quiet) printf("%s: the checksum of its %zu bytes is right\n", path, size);
    return 0;
}
