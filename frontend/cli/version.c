/* stepc version, stepc help. */
#include "frontend/cli/cli.h"
#include "ir/base/json_tree.h"

#include <string.h>

int cli_version(struct cli *cli)
{
    struct str s = STR(cli->arena);
#ifdef __x86_64__
    const char *machine = "x86-64";
#elif defined __aarch64__
    const char *machine = "aarch64";
#else
    const char *machine = "unknown";
#endif
    if (cli_count(cli, "json")) {
        struct json_tree t = json_object(cli->arena);
        json_add_integer(t, "schema", 1);
        json_add_text(t, "version", STEPC_VERSION);
        json_add_integer(t, "language", 1);
        json_add_text(t, "machine", machine);
        json_add_text(t, "compiler", __VERSION__);
        str_addf(&s, "%s\n", json_print(t));
    } else str_addf(&s, "stepc %s\nlanguage 1, %s, built with %s\n", STEPC_VERSION, machine, __VERSION__);
    return cli_print(cli, str_text(&s), s.length);
}

int cli_help(struct cli *cli)
{
    if (cli->operands.count) return cli_describe_command(cli, cli->operands.items[0]);
    cli_describe(cli, stdout, true);
    return EXIT_DONE;
}
