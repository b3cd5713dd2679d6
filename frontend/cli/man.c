/* stepc man: the table of commands and options as pages for man(7): one for stepc, one for each command, one
 * for the keys of documents, one for the header of hosts. Nothing in them is written twice. */
#include "frontend/cli/doc.h"

#include <string.h>

/* Text as it stands: quotes, dashes and backslashes are none of the formatter's, nor a dot that begins a line. */
static void add_plain(struct str *out, const char *text)
{
    static const char signs[] = "\\-'`^~", *const escapes[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti"};
    for (const char *p = text; *p; p++) {
        const char *at = strchr(signs, *p);
        if ((p == text || p[-1] == '\n') && (*p == '.' || *p == '\'')) str_add(out, "\\&");
        if (at) str_add(out, escapes[at - signs]);
        else str_add_n(out, p, 1);
    }
}

static void add_head(struct str *out, const char *page, int section, const char *doc)
{
    str_add(out, ".TH ");
    for (const char *p = page; *p; p++) str_addf(out, "%c", *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    str_addf(out, " %d \"\" \"stepc %s\" \"stepc\"\n.ad l\n.SH NAME\n", section, STEPC_VERSION);
    add_plain(out, page);
    str_add(out, " \\- ");
    add_plain(out, doc);
    str_add(out, "\n");
}

static void add_item(struct str *out, const char *name, const char *doc)
{
    str_add(out, ".TP\n\\fB");
    add_plain(out, name);
    str_add(out, "\\fR\n");
    add_plain(out, doc);
    str_add(out, "\n");
}

static void add_option(struct str *out, const struct cli_option *o)
{
    str_add(out, ".TP\n");
    if (o->letter) str_addf(out, "\\fB\\-%c\\fR, ", o->letter);
    str_add(out, "\\fB\\-\\-");
    add_plain(out, o->name);
    str_add(out, "\\fR");
    if (o->argument) {
        str_add(out, o->kind == CLI_OPTIONAL ? "[=\\fI" : " \\fI");
        add_plain(out, o->kind == CLI_CHOICE ? o->choices : o->argument);
        str_add(out, o->kind == CLI_OPTIONAL ? "\\fR]" : "\\fR");
    }
    str_add(out, "\n");
    add_plain(out, o->doc);
    str_add(out, "\n");
}

static void add_end(struct str *out, const char *examples)
{
    const char *name, *doc;
    str_add(out, ".SH EXIT STATUS\n");
    for (int code = 0; (doc = cli_exit_code(code)); code++) add_item(out, (char[]){(char)('0' + code), 0}, doc);
    str_add(out, ".SH ENVIRONMENT\n");
    for (size_t i = 0; cli_variable(i, &name, &doc); i++) add_item(out, name, doc);
    str_add(out, ".SH EXAMPLES\n.nf\n");
    add_plain(out, examples);
    str_add(out, "\n.fi\n.SH SEE ALSO\n");
}

static void add_command(struct str *out, const struct cli_page *c)
{
    struct cli_option o;
    add_head(out, c->page, 1, c->doc);
    str_addf(out, ".SH SYNOPSIS\n\\fBstepc %s\\fR", c->name);
    str_add(out, *c->operands ? " \\fI" : "");
    add_plain(out, c->operands);
    str_add(out, *c->operands ? "\\fR [\\fIoptions\\fR]\n.SH OPTIONS\n" : " [\\fIoptions\\fR]\n.SH OPTIONS\n");
    for (size_t i = 0; cli_option_at(i, &o); i++)
        if (o.commands >> c->command & 1) add_option(out, &o);
    add_end(out, c->examples);
    str_add(out, "\\fBstepc\\fR(1); documents: \\fBstepc\\-language\\fR(5)\n");
}

static void add_all(struct cli *cli, struct str *out)
{
    struct cli_page c;
    add_head(out, "stepc", 1, "compiler for training steps: one JSON document in, one shared object out");
    str_add(out, ".SH SYNOPSIS\n\\fBstepc\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]\n.SH COMMANDS\n");
    for (size_t i = 0; cli_page_at(cli, i, &c); i++) add_item(out, c.name, c.doc);
    str_add(out, ".SH OPTIONS\n");
    add_plain(
        out, "A value follows its option, or is attached to it: --name value, --name=value, -o FILE. Of an option that "
             "is given again the last value counts, of -D, --set, --assert, --keep, --without, --disable, --limit, "
             "-W, --emit and of files that are read all do. - is standard input or output, -- ends the options.");
    str_add(out, "\n.SH FILES\n");
    add_item(out, "libstepc_llvm.so",
             "LLVM and a linker, where they were built into one; in the folder of stepc or in ../lib/stepc beside it. "
             "Without it the system's LLVM is opened and a linker started");
    add_item(out, "libstepc_mpi.so",
             "moves bytes between the processes of a mesh; looked for beside an object, in the folders of "
             "STEPC_PLUGIN_PATH and by the system's linker, by stepc also in ../lib/stepc beside its own folder");
    add_item(out, "stepc/step.h", "the interface of objects: stepc-step.h(3)");
    add_end(out, "stepc init mlp model.json\nstepc compile model.json -o step.so\n"
                 "stepc run step.so --steps 100 --data train.safetensors --save final.safetensors");
    for (size_t i = 0; cli_page_at(cli, i, &c); i++) {
        str_add(out, i ? ",\n\\fB" : "\\fB");
        add_plain(out, c.page);
        str_add(out, "\\fR(1)");
    }
    str_add(out, ",\n\\fBstepc\\-language\\fR(5), \\fBstepc\\-step.h\\fR(3)\n");
}

static void add_language(struct cli *cli, struct str *out)
{
    struct fe_row row;
    const char *name, *title;
    add_head(out, "stepc-language", 5, "documents that stepc compiles");
    str_add(out, ".SH DESCRIPTION\nA document is an object of JSON (RFC 8259, UTF\\-8) with these keys.\n.SH KEYS\n");
    for (uint32_t i = 0; fe_key_row(i, &row); i++)
        add_item(out, row.name,
                 arena_format(cli->arena, "%s: %s%s", fe_kind_text(cli->arena, row.args), row.doc,
                              row.args->flags & FE_REQUIRED ? " (required)" : ""));
    str_add(out, ".SH REFERENCE\nAll that may stand in them, by the tables of the compiler:\n");
    for (size_t i = 0; doc_topic(i, &name, &title); i++)
        add_item(out, arena_format(cli->arena, "stepc doc %s", name), title);
    str_add(out, ".SH SEE ALSO\n\\fBstepc\\fR(1), \\fBstepc\\-doc\\fR(1), \\fBstepc\\-schema\\fR(1)\n");
}

/* The interface of objects: the header as it stands, whose comments are the reference. */
static void add_header(struct str *out)
{
    extern const char cli_step_header[];
    add_head(out, "stepc-step.h", 3, "interface of a compiled training step, for hosts");
    str_add(out, ".SH SYNOPSIS\n.nf\n#include <stepc/step_open.h>\n");
    add_plain(out, "cc host.c $(pkg-config --cflags --libs stepc)\n");
    str_add(out, ".fi\n.SH DESCRIPTION\n");
    add_plain(out,
              "step_open(path, &api, error, size) of stepc/step_open.h compares the checksum of an object, loads it "
              "and gives its table, struct step_api: create an instance, init or load its state, then step, eval "
              "and infer on arrays of the host. Every struct begins with its size, every call gives a step_status, "
              "and last_error says what was wrong. C++ has stepc/step.hpp, languages that see C through a header "
              "stepc/step_calls.h, Python the module stepc.\n");
    str_add(out, ".SH HEADER\n.nf\n");
    add_plain(out, cli_step_header);
    str_add(out, ".fi\n.SH SEE ALSO\n\\fBstepc\\fR(1), \\fBstepc\\-compile\\fR(1)\n");
}

int cli_man(struct cli *cli)
{
    struct str out = STR(cli->arena);
    struct cli_page c;
    const char *name = cli->operands.count ? cli->operands.items[0] : "stepc";
    if (strncmp(name, "stepc-", 6) == 0) name += 6; /* as man calls it */
    if (strcmp(name, "stepc") == 0) add_all(cli, &out);
    else if (strcmp(name, "language") == 0) add_language(cli, &out);
    else if (strcmp(name, "step.h") == 0) add_header(&out);
    else {
        int code = cli_page_of(cli, name, &c);
        if (code) return code;
        add_command(&out, &c);
    }
    return cli_print(cli, str_text(&out), out.length);
}
