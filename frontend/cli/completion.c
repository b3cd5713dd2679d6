/* stepc completion: the table of commands and options as a script for a shell. */
#include "frontend/cli/cli.h"

#include <string.h>

/* The beginning of a text, up to where it goes into detail, within quotes of all three shells; `escaped` gets a
 * backslash. */
static void add_brief(struct str *out, const char *text, const char *escaped)
{
    size_t n = strcspn(text, ":;(");
    while (n && (text[n - 1] == ' ' || text[n - 1] == ',')) n--;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\'') continue;
        str_addf(out, strchr(escaped, text[i]) ? "\\%c" : "%c", text[i]);
    }
}

static void add_choices(struct str *out, const char *choices)
{
    for (const char *p = choices; *p; p++) str_addf(out, "%c", *p == '|' ? ' ' : *p);
}

static bool names_file(const struct cli_option *o) /* or a folder that is written into */
{
    return o->kind == CLI_INPUT || o->kind == CLI_OUTPUT || o->kind == CLI_OUTPUTS || o->kind == CLI_FILES ||
           (o->kind != CLI_CHOICE && o->choices);
}

static void add_zsh(const struct cli *cli, struct str *out)
{
    struct cli_option o;
    struct cli_page c;
    str_add(out, "#compdef stepc\n_stepc() {\n    local -a commands=(\n");
    for (size_t i = 0; cli_page_at(cli, i, &c); i++) {
        str_addf(out, "        '%s:", c.name);
        add_brief(out, c.doc, "");
        str_add(out, "'\n");
    }
    str_add(out, "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n"
                 "    local command=$words[2]\n    (( CURRENT-- ))\n    shift words\n    case $command in\n");
    for (size_t k = 0; cli_page_at(cli, k, &c); k++) {
        str_addf(out, "    %s) _arguments -s", c.name);
        for (size_t i = 0; cli_option_at(i, &o); i++) {
            if (!(o.commands >> k & 1)) continue;
            for (int letter = 0; letter < 1 + (o.letter != 0); letter++) {
                str_add(out, " \\\n        '*");
                if (letter) str_addf(out, "-%c%s[", o.letter, o.argument ? "+" : "");
                else str_addf(out, "--%s%s[", o.name, o.kind == CLI_OPTIONAL ? "=-" : o.argument ? "=" : "");
                add_brief(out, o.doc, "[]:");
                str_add(out, "]");
                if (o.argument) str_addf(out, ":%s%s:", o.kind == CLI_OPTIONAL ? ":" : "", o.name);
                if (o.kind == CLI_CHOICE) str_add(out, "("), add_choices(out, o.choices), str_add(out, ")");
                else if (names_file(&o)) str_add(out, "_files");
                str_add(out, "'");
            }
        }
        str_add(out, " \\\n        '*:file:_files' ;;\n");
    }
    str_add(out, "    esac\n}\nif [[ $funcstack[1] = _stepc ]]; then _stepc \"$@\"; else compdef _stepc stepc; fi\n");
}

static void add_bash(struct str *out)
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
            add_choices(out, o.choices);
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
}

static void add_fish(const struct cli *cli, struct str *out)
{
    struct cli_option o;
    struct cli_page page;
    for (size_t c = 0; cli_page_at(cli, c, &page); c++) {
        const char *name = page.name;
        str_addf(out, "complete -c stepc -n __fish_use_subcommand -a %s -d '", name);
        add_brief(out, page.doc, "");
        str_add(out, "'\n");
        for (size_t i = 0; cli_option_at(i, &o); i++) {
            if (!(o.commands >> c & 1)) continue;
            str_addf(out, "complete -c stepc -n '__fish_seen_subcommand_from %s' -l %s", name, o.name);
            if (o.letter) str_addf(out, " -s %c", o.letter);
            if (o.argument) str_add(out, o.kind == CLI_CHOICE ? " -x" : " -r");
            if (o.kind == CLI_CHOICE) {
                str_add(out, " -a '");
                add_choices(out, o.choices);
                str_add(out, "'");
            }
            str_add(out, " -d '");
            add_brief(out, o.doc, "");
            str_add(out, "'\n");
        }
    }
}

int cli_completion(struct cli *cli)
{
    const char *shell = cli->operands.items[0];
    struct str out = STR(cli->arena);
    if (strcmp(shell, "fish") == 0) add_fish(cli, &out);
    else if (strcmp(shell, "zsh") == 0) add_zsh(cli, &out);
    else if (strcmp(shell, "bash") == 0) add_bash(&out), str_add(&out, "complete -F _stepc stepc\n");
    else return cli_usage(cli, "completion: expected bash, zsh or fish, found \"%s\"", shell);
    return cli_print(cli, str_text(&out), out.length);
}
