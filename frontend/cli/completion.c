/* stepc completion: the table of commands and options as a script for a shell. */
#include "frontend/cli/cli.h"

#include <string.h>

static void add_bash(struct cli *cli, struct str *out)
{
    struct cli_option o;
    const char *name;
    str_add(
        out,
        "_stepc() {\n    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W \"");
    for (size_t c = 0; (name = cli_command_name(c)); c++) str_addf(out, "%s%s", c ? " " : "", name);
    str_add(out, "\" -- \"$word\"))\n        return\n    fi\n    case \"${COMP_WORDS[1]} $before\" in\n");
    for (size_t c = 0; (name = cli_command_name(c)); c++)
        for (size_t i = 0; cli_option_at(i, &o); i++) {
            if (!(o.commands >> c & 1) || o.kind != CLI_CHOICE) continue;
            str_addf(out, "    '%s --%s') COMPREPLY=($(compgen -W \"", name, o.name);
            for (const char *p = o.choices; *p; p++) str_addf(out, "%c", *p == '|' ? ' ' : *p);
            str_add(out, "\" -- \"$word\")); return ;;\n");
        }
    str_add(out, "    esac\n    if [ \"${word:0:1}\" = - ]; then\n        case \"${COMP_WORDS[1]}\" in\n");
    for (size_t c = 0; (name = cli_command_name(c)); c++) {
        str_addf(out, "        %s) COMPREPLY=($(compgen -W \"", name);
        for (size_t i = 0; cli_option_at(i, &o); i++)
            if (o.commands >> c & 1) str_addf(out, "--%s ", o.name);
        str_add(out, "\" -- \"$word\")) ;;\n");
    }
    str_add(out, "        esac\n        return\n    fi\n    compopt -o filenames 2>/dev/null\n    COMPREPLY=($(compgen "
                 "-f -- \"$word\"))\n}\n");
    (void)cli;
}

static void add_fish(struct str *out)
{
    struct cli_option o;
    const char *name;
    for (size_t c = 0; (name = cli_command_name(c)); c++) {
        str_addf(out, "complete -c stepc -n __fish_use_subcommand -a %s\n", name);
        for (size_t i = 0; cli_option_at(i, &o); i++) {
            if (!(o.commands >> c & 1)) continue;
            str_addf(out, "complete -c stepc -n '__fish_seen_subcommand_from %s' -l %s", name, o.name);
            if (o.letter) str_addf(out, " -s %c", o.letter);
            if (o.argument) str_add(out, o.kind == CLI_CHOICE ? " -x" : " -r");
            if (o.kind == CLI_CHOICE) {
                str_add(out, " -a '");
                for (const char *p = o.choices; *p; p++) str_addf(out, "%c", *p == '|' ? ' ' : *p);
                str_add(out, "'");
            }
            str_add(out, "\n");
        }
    }
}

int cli_completion(struct cli *cli)
{
    const char *shell = cli->operands.items[0];
    struct str out = STR(cli->arena);
    bool zsh = strcmp(shell, "zsh") == 0;
    if (strcmp(shell, "fish") == 0) add_fish(&out);
    else if (zsh || strcmp(shell, "bash") == 0) {
        if (zsh) str_add(&out, "autoload -U +X bashcompinit && bashcompinit\n");
        add_bash(cli, &out);
        str_add(&out, "complete -F _stepc stepc\n");
    } else return cli_usage(cli, "completion: expected bash, zsh or fish, found \"%s\"", shell);
    return cli_print(cli, str_text(&out), out.length);
}
