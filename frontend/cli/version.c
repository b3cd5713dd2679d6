/* stepc version, stepc help. */
#include "frontend/cli/cli.h"

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
    if (cli_count(cli, "json"))
        str_addf(&s, "{\"schema\":1,\"version\":\"%s\",\"language\":1,\"machine\":\"%s\",\"compiler\":\"%s\"}\n",
                 STEPC_VERSION, machine, __VERSION__);
    else str_addf(&s, "stepc %s\nlanguage 1, %s, built with %s\n", STEPC_VERSION, machine, __VERSION__);
    return cli_print(cli, str_text(&s), s.length);
}

int cli_help(struct cli *cli)
{
    if (cli->operands.count) return cli_describe_command(cli, cli->operands.items[0]);
    cli_describe(cli, stdout, true);
    return EXIT_DONE;
}
