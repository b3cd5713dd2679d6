/* Parsing of the command line and --help, both from options.def. */
#include "frontend/cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the table */

struct command {
    const char *name, *operands;
    uint32_t low, high;
    const char *doc, *examples;
};

static const struct command commands[] = {
#define COMMAND(name, operands, low, high, doc, examples) {#name, operands, low, high, doc, examples},
#define OPTION(commands, name, letter, argument, kind, choices, doc)
#include "frontend/cli/options.def"
#undef COMMAND
#undef OPTION
};

#define ON(command) (1u << CLI_##command)
#define EVERY (~0u)
static const struct cli_option options[] = {
#define COMMAND(name, operands, low, high, doc, examples)
#define OPTION(commands, name, letter, argument, kind, choices, doc) \
    {commands, name, letter, argument, kind, choices, doc},
#include "frontend/cli/options.def"
#undef COMMAND
#undef OPTION
};
enum { OPTIONS = sizeof options / sizeof *options };

/* What is not there yet. */
static const struct {
    const char *command, *name, *instead;
} later[] = {
#define LATER(command, name, instead) {command, name, instead},
#include "frontend/cli/later.def"
#undef LATER
};

/* An exit code after a message, 0: nothing of that name is planned. */
static int not_yet(const struct cli *cli, const char *command, const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        if (strcmp(later[i].command, command) != 0 || strlen(later[i].name) != n || memcmp(later[i].name, name, n) != 0)
            continue;
        return cli_failed(cli, EXIT_USAGE, "%s%s is not supported yet%s%s", *command ? "--" : "stepc ", later[i].name,
                          *later[i].instead ? ": " : "", later[i].instead);
    }
    return 0;
}

static bool applies(const struct cli *cli, const struct cli_option *o) { return o->commands >> cli->command & 1; }

const char *cli_command_name(size_t index) { return index < CLI_COMMANDS ? commands[index].name : NULL; }

bool cli_option_at(size_t index, struct cli_option *o)
{
    if (index >= OPTIONS) return false;
    *o = options[index];
    return true;
}

bool cli_page_at(const struct cli *cli, size_t i, struct cli_page *p)
{
    if (i >= CLI_COMMANDS) return false;
    const struct command *c = &commands[i];
    *p = (struct cli_page){(uint32_t)i, c->name, arena_format(cli->arena, "stepc-%s", c->name),
                           c->operands, c->doc,  c->examples};
    return true;
}

static const char *const exit_codes[] = {"done", "the document or the data is wrong", "wrong usage",
                                         "the environment failed", "a defect"};

const char *cli_exit_code(int code)
{
    return (size_t)code < sizeof exit_codes / sizeof *exit_codes ? exit_codes[code] : NULL;
}

static const struct cli_option *find_long(const struct cli *cli, const char *name, size_t n)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (applies(cli, &options[i]) && strlen(options[i].name) == n && memcmp(options[i].name, name, n) == 0)
            return &options[i];
    return NULL;
}

static const struct cli_option *find_letter(const struct cli *cli, char letter)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (applies(cli, &options[i]) && options[i].letter == letter) return &options[i];
    return NULL;
}

/* ---------------------------------------------------------------- what was given */

static const struct cli_option *must_find(const char *name)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0) return &options[i];
    BUG("no option --%s in options.def", name);
}

bool cli_takes(const struct cli *cli, const char *name) { return applies(cli, must_find(name)); }

size_t cli_count(const struct cli *cli, const char *name)
{
    size_t n = 0;
    must_find(name);
    for (size_t i = 0; i < cli->given.count; i++) n += strcmp(cli->given.items[i].option->name, name) == 0;
    return n;
}

const char *cli_text(const struct cli *cli, const char *name, const char *otherwise)
{
    must_find(name);
    for (size_t i = cli->given.count; i-- > 0;)
        if (strcmp(cli->given.items[i].option->name, name) == 0) return cli->given.items[i].value;
    return otherwise;
}

const char *cli_output(const struct cli *cli, const char *name)
{
    const char *path = cli_text(cli, name, NULL);
    return path && strcmp(path, "-") == 0 ? "/dev/stdout" : path;
}

int64_t cli_integer(const struct cli *cli, const char *name, int64_t otherwise)
{
    const char *text = cli_text(cli, name, NULL);
    return text ? strtoll(text, NULL, 10) : otherwise; /* its form was checked */
}

int cli_tolerance(const struct cli *cli, const char *name, const char *otherwise, double *out)
{
    char *end;
    const char *text = cli_text(cli, name, otherwise);
    *out = strtod(text, &end);
    return end == text || *end || !(*out >= 0) ? cli_usage(cli, "--%s %s: expected a number from 0 on", name, text) : 0;
}

const char *cli_joined(const struct cli *cli, const char *name, const char *otherwise)
{
    const char *const *values, *all = NULL;
    size_t n = cli_values(cli, name, &values);
    for (size_t i = 0; i < n; i++) all = all ? arena_format(cli->arena, "%s,%s", all, values[i]) : values[i];
    return all ? all : otherwise;
}

size_t cli_values(const struct cli *cli, const char *name, const char *const **values)
{
    size_t n = cli_count(cli, name), at = 0;
    const char **out = arena_new_array(cli->arena, const char *, n + 1);
    for (size_t i = 0; i < cli->given.count; i++)
        if (strcmp(cli->given.items[i].option->name, name) == 0) out[at++] = cli->given.items[i].value;
    *values = out;
    return n;
}

/* ---------------------------------------------------------------- messages */

size_t cli_harmless(const char *text, size_t length, size_t *acts)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i], next = i + 1 < length ? (unsigned char)text[i + 1] : 0;
        bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;
        if ((c >= 0x20 || c == '\n') && c != 0x7f && !c1) continue;
        *acts = c1 ? 2 : 1;
        return i;
    }
    *acts = 0;
    return length;
}

void cli_show(const char *text)
{
    for (size_t left = strlen(text), n, acts; left; text += n + acts, left -= n + acts) {
        n = cli_harmless(text, left, &acts);
        fprintf(stderr, "%.*s%s", (int)n, text, acts ? "?" : "");
    }
}

static void say(const struct cli *cli, const char *format, va_list args)
{
    fputs(cli->color ? "stepc: \033[1;31merror\033[0m: " : "stepc: error: ", stderr);
    cli_show(arena_vformat(cli->arena, format, args));
    fputs("\n", stderr);
}

int cli_failed(const struct cli *cli, int exit_code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(cli, format, args);
    va_end(args);
    return exit_code;
}

int cli_usage(const struct cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(cli, format, args);
    va_end(args);
    if (cli->command_name) fprintf(stderr, "try: stepc %s --help\n", cli->command_name);
    else fputs("try: stepc --help\n", stderr);
    return EXIT_USAGE;
}

const char *cli_meant(const struct cli *cli, const char *found, const char *const *names, size_t count)
{
    const char *nearest = str_nearest(found, names, count);
    return nearest ? arena_format(cli->arena, "; did you mean \"%s\"?", nearest) : "";
}

static int no_such(const struct cli *cli, const char *what, const char *found, const char *const *names, size_t count)
{
    return cli_usage(cli, "unknown %s \"%s\"%s", what, found, cli_meant(cli, found, names, count));
}

/* ---------------------------------------------------------------- parsing */

static int check_value(const struct cli *cli, const struct cli_option *o, const char *value)
{
    if (o->kind == CLI_INTEGER) {
        char *end;
        bool digits = *value >= '0' && *value <= '9' && strlen(value) <= 18;
        strtoll(value, &end, 10);
        if (!digits || *end)
            return cli_usage(cli, "--%s: expected a whole number of at most 18 digits, found \"%s\"", o->name, value);
    }
    if (o->kind == CLI_CHOICE) {
        const char *names[16];
        size_t count = str_choices(cli->arena, o->choices, names, 16);
        for (size_t i = 0; i < count; i++)
            if (strcmp(names[i], value) == 0) return 0;
        const char *nearest = str_nearest(value, names, count);
        if (nearest) return cli_usage(cli, "--%s: unknown \"%s\"; did you mean \"%s\"?", o->name, value, nearest);
        return cli_usage(cli, "--%s: expected one of %s, found \"%s\"", o->name, o->choices, value);
    }
    return 0;
}

static int give(struct cli *cli, const struct cli_option *o, const char *value)
{
    const char *before = o->kind == CLI_OUTPUT || o->kind == CLI_TEXT ? cli_text(cli, o->name, NULL) : NULL;
    if (before && (o->choices || o->kind == CLI_OUTPUT) && strcmp(before, value) != 0)
        return cli_usage(cli, "--%s is %s and %s: one alone would be written", o->name, before, value);
    vec_push(cli->arena, &cli->given, ((struct cli_given){o, value}));
    return value ? check_value(cli, o, value) : 0;
}

/* Whether a word of its own is an option of this command: then the value before it was forgotten, and a file of that
 * name is not meant. */
static bool is_option(const struct cli *cli, const char *word)
{
    if (word[0] != '-' || !word[1]) return false;
    return word[1] == '-' ? find_long(cli, word + 2, strcspn(word + 2, "=")) != NULL
                          : find_letter(cli, word[1]) != NULL;
}

/* The option at argv[*at]; `value`: what was attached to it, NULL if nothing. */
static int take(struct cli *cli, const struct cli_option *o, const char *shown, const char *value, int argc,
                char **argv, int *at)
{
    if (o->kind == CLI_FLAG) return value ? cli_usage(cli, "%s takes no value", shown) : give(cli, o, NULL);
    if (o->kind == CLI_OPTIONAL) return give(cli, o, value ? value : "");
    if (!value && *at + 1 < argc) {
        value = argv[++*at];
        if (is_option(cli, value))
            return cli_usage(cli, "%s needs a value: %s; %s is an option (%s%s%s where it is the value)", shown,
                             o->argument, value, shown, shown[1] == '-' ? "=" : "", value);
    }
    if (!value || (!*value && o->kind != CLI_LIST)) return cli_usage(cli, "%s needs a value: %s", shown, o->argument);
    int code = give(cli, o, value);
    while (!code && o->kind == CLI_FILES && *at + 1 < argc && argv[*at + 1][0] != '-') code = give(cli, o, argv[++*at]);
    return code;
}

static int take_long(struct cli *cli, int argc, char **argv, int *at)
{
    const char *text = argv[*at] + 2, *equals = strchr(text, '=');
    size_t n = equals ? (size_t)(equals - text) : strlen(text);
    const struct cli_option *o = find_long(cli, text, n);
    const char *shown = arena_string_n(cli->arena, argv[*at], n + 2);
    if (o) return take(cli, o, shown, equals ? equals + 1 : NULL, argc, argv, at);
    int code = not_yet(cli, cli->command_name, text, n);
    if (code) return code;
    const char *names[OPTIONS];
    size_t count = 0;
    for (size_t i = 0; i < OPTIONS; i++)
        if (applies(cli, &options[i])) names[count++] = arena_format(cli->arena, "--%s", options[i].name);
    return no_such(cli, "option", shown, names, count);
}

/* -o FILE, -oFILE, -O2, -vq */
static int take_letters(struct cli *cli, int argc, char **argv, int *at)
{
    for (const char *p = argv[*at] + 1; *p; p++) {
        const struct cli_option *o = find_letter(cli, *p);
        const char *shown = arena_format(cli->arena, "-%c", *p);
        if (!o) return cli_usage(cli, "unknown option \"%s\"", shown);
        bool flag = o->kind == CLI_FLAG;
        int code = take(cli, o, shown, !flag && p[1] ? p + 1 : NULL, argc, argv, at);
        if (code || !flag) return code;
    }
    return 0;
}

static int find_command(struct cli *cli, const char *name)
{
    const char *names[CLI_COMMANDS];
    for (int i = 0; i < CLI_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(names[i], name) != 0) continue;
        cli->command = (enum cli_command)i;
        cli->command_name = names[i];
        return 0;
    }
    int code = not_yet(cli, "", name, strlen(name));
    if (code) return code;
    return no_such(cli, name[0] == '-' ? "option" : "command", name, names, CLI_COMMANDS);
}

size_t cli_columns(int fd, size_t otherwise)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col ? otherwise : size.ws_col;
}

bool cli_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"}; /* the first that is set counts */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *is = getenv(names[i]);
        if (is && *is) return strcasestr(is, "utf-8") || strcasestr(is, "utf8");
    }
    return false;
}

static bool able(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}

bool cli_colors(const struct cli *cli, int fd)
{
    const char *when = cli_text(cli, "color", "auto"), *no_color = getenv("NO_COLOR");
    return strcmp(when, "always") == 0 || (strcmp(when, "auto") == 0 && able(fd) && !(no_color && *no_color));
}

static void terminal(struct cli *cli)
{
    cli->quiet = cli_count(cli, "quiet") > 0;
    cli->progress = able(2) && !cli->quiet;
    cli->color = cli_colors(cli, 2) && (!cli->quiet || strcmp(cli_text(cli, "color", "auto"), "always") == 0);
}

int cli_parse(struct cli *cli, int argc, char **argv)
{
    if (argc < 2) {
        cli_describe(cli, stderr, true);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        cli_describe(cli, stdout, true);
        return -1;
    }
    int code = strcmp(argv[1], "--version") == 0 ? find_command(cli, "version") : find_command(cli, argv[1]);
    if (code) return code;
    bool options_end = false;
    for (int at = 2; !code && at < argc; at++) {
        const char *word = argv[at];
        if (options_end || word[0] != '-' || !word[1]) vec_push(cli->arena, &cli->operands, word);
        else if (strcmp(word, "--") == 0) options_end = true;
        else if (strcmp(word, "-MF") == 0 && find_long(cli, "depfile", 7))
            code = take(cli, find_long(cli, "depfile", 7), word, NULL, argc, argv, &at);
        else if (word[1] == '-') code = take_long(cli, argc, argv, &at);
        else code = take_letters(cli, argc, argv, &at);
    }
    if (code) return code;
    terminal(cli);
    if (cli_count(cli, "help")) {
        cli_describe(cli, stdout, false);
        return -1;
    }
    const struct command *c = &commands[cli->command];
    if (cli->operands.count < c->low) return cli_usage(cli, "stepc %s needs %s", c->name, c->operands);
    if (cli->operands.count > c->high)
        return cli_usage(cli, "stepc %s: \"%s\" is one argument too many", c->name, cli->operands.items[c->high]);
    return 0;
}

/* ---------------------------------------------------------------- help */

const char *cli_folded(struct arena *arena, const char *text, size_t indent, size_t width)
{
    struct str out = STR(arena);
    size_t column = indent;
    for (const char *word = text; *word;) {
        size_t n = strcspn(word, " ");
        bool first = column == indent;
        if (width && !first && column + 1 + n > width) str_addf(&out, "\n%*s", (int)indent, ""), column = indent;
        else if (!first) str_add(&out, " "), column++;
        str_add_n(&out, word, n);
        column += n;
        word += n + (word[n] == ' ');
    }
    return str_text(&out);
}

static void help_command(const struct cli *cli, FILE *f)
{
    const struct command *c = &commands[cli->command];
    fprintf(f, "%s\n\nexamples:\n  ", cli_folded(cli->arena, c->doc, 0, cli_columns(fileno(f), 0)));
    for (const char *p = c->examples; *p; p++) fputs(*p == '\n' ? "\n  " : (char[]){*p, 0}, f);
    enum { LEFT = 34, INDENT = LEFT + 3, LEAST = 40 };
    size_t width = cli_columns(fileno(f), 0);
    bool narrow = width && width < INDENT + LEAST;
    int indent = narrow ? 10 : INDENT;
    fprintf(f, "\n\nusage: stepc %s %s%s[options]\n\noptions:\n", c->name, c->operands, *c->operands ? " " : "");
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct cli_option *o = &options[i];
        if (!applies(cli, o)) continue;
        char left[128];
        int n = o->letter ? snprintf(left, sizeof left, "-%c, ", o->letter) : snprintf(left, sizeof left, "    ");
        n += snprintf(left + n, sizeof left - (size_t)n, "--%s", o->name);
        if (o->argument)
            snprintf(left + n, sizeof left - (size_t)n, o->kind == CLI_OPTIONAL ? "[=%s]" : " %s",
                     o->kind == CLI_CHOICE ? o->choices : o->argument);
        if (strlen(left) > LEFT || narrow) fprintf(f, "  %s\n%*s", left, indent, "");
        else fprintf(f, "  %-34s ", left);
        fprintf(f, "%s\n", cli_folded(cli->arena, o->doc, (size_t)indent, width));
    }
}

void cli_describe(const struct cli *cli, FILE *f, bool all)
{
    if (!all) {
        help_command(cli, f);
        return;
    }
    static const char head[] = "stepc compiles a training step, one JSON document, into one shared object.";
    fprintf(f, "%s\n\n", cli_folded(cli->arena, head, 0, cli_columns(fileno(f), 0)));
    fputs("examples:\n  stepc compile model.json -o step.so\n"
          "  stepc run step.so --steps 100 --data train.safetensors --save final.safetensors\n\ncommands:\n",
          f);
    for (int i = 0; i < CLI_COMMANDS; i++)
        fprintf(f, "  %-10s %s\n", commands[i].name,
                cli_folded(cli->arena, commands[i].doc, 13, cli_columns(fileno(f), 0)));
    struct str codes = STR(cli->arena);
    const char *means;
    for (int i = 0; (means = cli_exit_code(i)); i++) str_addf(&codes, "%s%d %s", i ? ", " : "Exit codes: ", i, means);
    fprintf(f, "\nstepc COMMAND --help lists the options of a command.\n%s.\n",
            cli_folded(cli->arena, str_text(&codes), 0, cli_columns(fileno(f), 0)));
}

int cli_page_of(const struct cli *cli, const char *name, struct cli_page *p)
{
    struct cli other = {.arena = cli->arena};
    int code = find_command(&other, name);
    if (!code) cli_page_at(cli, other.command, p);
    return code;
}

int cli_describe_command(struct cli *cli, const char *name)
{
    struct cli other = {.arena = cli->arena};
    int code = find_command(&other, name);
    if (!code) cli_describe(&other, stdout, false);
    return code;
}

const char *cli_grouped(struct arena *arena, double x)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%.0f", x);
    struct str s = STR(arena);
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) str_add(&s, ",");
        str_add_n(&s, &digits[i], 1);
    }
    return str_text(&s);
}
