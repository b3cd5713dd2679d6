/* The command line: one table of commands and options (options.def) gives parsing, --help and "did you mean".
 * A command is a function `int cli_<name>(struct cli *)` that returns the exit code. */
#ifndef FRONTEND_CLI_H
#define FRONTEND_CLI_H
#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/json_tree.h"
#include "ir/base/str.h"

enum { EXIT_DONE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_ENVIRONMENT = 3, EXIT_DEFECT = 4 };

enum cli_command {
#define COMMAND(name, operands, low, high, doc, examples) CLI_##name,
#define OPTION(commands, name, letter, argument, kind, choices, doc)
#include "frontend/cli/options.def"
#undef COMMAND
#undef OPTION
    CLI_COMMANDS
};

enum cli_kind {
    CLI_FLAG,    /* no argument; may be repeated (-v -v) */
    CLI_TEXT,    /* one argument, the last one counts */
    CLI_CHOICE,  /* one of "a|b|c" */
    CLI_INTEGER, /* a decimal integer >= 0 that fits int64 */
    CLI_LIST,    /* one argument each time, all of them count */
    CLI_INPUT,   /* one argument, a file that is read */
    CLI_OUTPUT,  /* one argument, a file that is written */
    CLI_OUTPUTS, /* WHAT=FILE, a file that is written; all of them count */
    CLI_FILES,   /* files that are read: all following words up to the next option; may be repeated */
    CLI_OPTIONAL /* --name or --name=value */
};

struct cli_option {
    uint32_t commands;    /* bit mask of 1 << CLI_<command> */
    const char *name;     /* without dashes */
    char letter;          /* 0: none */
    const char *argument; /* "FILE", NULL for flags */
    enum cli_kind kind;
    const char *choices; /* of CLI_CHOICE; of others: patterns of what is written into the folder that is named */
    const char *doc;
};
struct cli_given {
    const struct cli_option *option;
    const char *value;
};

struct ir_module;
struct cli {
    struct arena *arena;
    enum cli_command command;
    const char *command_name;
    VEC(const char *) operands;
    VEC(struct cli_given) given; /* in the order of the command line */
    bool color;                  /* of standard error: --color, NO_COLOR, TERM, terminal, -q */
    bool progress;               /* a terminal that may be overwritten, and not -q */
    bool quiet;
    /* Set by main, which alone sees the passes: a document or .sir text to a module that the interpreter can run (stage
     * tensor, differentiated, loops made), and its source, without text if its places are not in it. 0, or an exit code
     * after messages. NULL: nothing can be interpreted. */
    int (*interpretable)(struct cli *, const char *path, struct ir_module **, struct diag_source *);
    /* The same of a document that is edited: what `stepc check` would record of it, and, where that is no error, the
     * report of its plans. Ends the process where limits do. */
    int (*examine)(struct cli *, const char *name, const char *text, size_t length, struct diags *,
                   const char **report);
};

/* Options by long name. A name that is not in the table is a BUG. */
size_t cli_count(const struct cli *, const char *name); /* how often it was given */
bool cli_takes(const struct cli *, const char *name);   /* whether the command has such an option */
const char *cli_text(const struct cli *, const char *name, const char *otherwise); /* the last value */
/* The same of a file that is opened by its name: "-", too. */
const char *cli_output(const struct cli *, const char *name);
int64_t cli_integer(const struct cli *, const char *name, int64_t otherwise);
/* All values, with commas between. */
const char *cli_joined(const struct cli *, const char *name, const char *otherwise);
size_t cli_values(const struct cli *, const char *name, const char *const **values);      /* all, in order */
int cli_tolerance(const struct cli *, const char *name, const char *otherwise, double *); /* 0, or 2 after a message */

/* How much of a text no terminal acts on, and how many bytes of what one would act on follow. */
size_t cli_harmless(const char *text, size_t length, size_t *acts);
/* Text from a document or a user, on standard error: what a terminal would act on is shown as '?'. */
void cli_show(const char *text);
/* Messages on standard error: "stepc: error: ...". They return the exit code, so that `return cli_usage(...)`. */
int cli_usage(const struct cli *, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_failed(const struct cli *, int exit_code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* "; did you mean ...?", or nothing: the end of such a message. */
const char *cli_meant(const struct cli *, const char *found, const char *const *names, size_t count);

/* Says on standard output what a command has to say; 3 if it could not be written. Names in it may come from anywhere:
 * a terminal gets '?' for what it would act on, as of `ls`, unless the text is painted. */
int cli_print(struct cli *, const char *text, size_t length);
int cli_print_painted(struct cli *, const char *text, size_t length);
/* Reads a whole file ("-": standard input) into the arena, terminated. 0, or 3 after a message that names the path and
 * the reason. */
int cli_read(struct cli *, const char *path, size_t limit, char **text, size_t *length);
/* The same of a text or an object, each with its limit. */
int cli_read_either(struct cli *, const char *path, size_t limit, size_t object, char **text, size_t *length);
/* Writes a file ("-": standard output) beside its name and renames it. 0 or 3. */
int cli_write(struct cli *, const char *path, const char *text, size_t length);
int cli_write_program(struct cli *, const char *path, const void *bytes, size_t length); /* one that may be executed */
int cli_rewrite(struct cli *, const char *path, const char *text,
                size_t); /* what is there, as an editor does: through links, with its owner and mode */
size_t cli_fix(const struct diags *, bool quiet,
               struct str *out); /* fix.c: the document with replacements, and how many there are */

/* 0, or 2 after a message; -1: --help or the like was answered, the exit code is 0. */
int cli_parse(struct cli *, int argc, char **argv);
void cli_describe(const struct cli *, FILE *, bool all); /* all: the list of commands */
int cli_describe_command(struct cli *, const char *command);

#define COMMAND(name, operands, low, high, doc, examples) int cli_##name(struct cli *);
#define OPTION(commands, name, letter, argument, kind, choices, doc)
#include "frontend/cli/options.def"
#undef COMMAND
#undef OPTION

/* Of the terminal at this descriptor its columns; `otherwise` where there is none. Whether signs beyond ASCII are
 * shown. */
size_t cli_columns(int fd, size_t otherwise);
/* Words that stand in lines of so many columns, all from a column on; width 0: one line. */
const char *cli_folded(struct arena *, const char *text, size_t indent, size_t width);
bool cli_utf8(void);
bool cli_colors(const struct cli *, int fd); /* --color, NO_COLOR, TERM, and whether it is a terminal */

/* The table of commands and options; NULL, false: no more. */
const char *cli_command_name(size_t index);
bool cli_option_at(size_t index, struct cli_option *);
struct cli_page {
    uint32_t command;
    const char *name, *page /* stepc-NAME */, *operands, *doc, *examples;
};
bool cli_page_at(const struct cli *, size_t index, struct cli_page *);
int cli_page_of(const struct cli *, const char *name, struct cli_page *); /* 0, or 2 after a message */
const char *cli_exit_code(int code);                                      /* what it says; NULL: there is none */
bool cli_variable(size_t index, const char **name, const char **doc);     /* doctor.c: of the environment */
/* grad.c: a document whose step subtracts the gradient of the loss (NULL: the text is no document); what its module,
 * differentiated, says about the gradient. 0 or an exit code. */
const char *cli_gradient_document(struct cli *, const char *text, size_t length);
/* fit.c: if the plans take more than is allowed (--max-memory, "memory"), others are sought, by what plans the text
 * with other settings (NULL: it cannot); `takes`: the last that were made replace those before. 0, or the exit code. */
struct cli_setting {
    int64_t chunk_rows;
    int remat;
    const char *
        *why; /* the microbatches are others than the document's: set to why they may not be; NULL: they are its */
    int64_t together; /* at most so many of them are made at a time (passes/together.c); 0: any number */
};
struct plan_module;
typedef const struct plan_module *cli_planner(void *user, const char *text, size_t length, struct cli_setting);
int cli_fit_memory(struct cli *, const struct plan_module *, const char *text, size_t length, bool ir, cli_planner *,
                   void *user, struct diags *, bool *takes);
/* The microbatch_size of a document, 0: it has none; the document with another one. */
int64_t cli_microbatch_size(struct cli *, const char *text, size_t length);
const char *cli_with_microbatches(struct cli *, const char *text, size_t length, int64_t size);
int cli_check_gradient(struct cli *, const struct ir_module *);
/* weights.c: whether a file could be the initial values. 0 or an exit code. */
int cli_check_weights(struct cli *, const struct ir_module *, const char *path);
/* against.c: the steps of an object beside those of the interpreter; `rounding`: the last bit of what the document
 * computes with. 0 or an exit code after a message. */
int cli_check_against(struct cli *, const char *document, const char *object, double rounding);
/* warnings.c: what -W says of them; 0, or 2 after a message. */
int cli_warnings(struct cli *, struct diags *);
/* watch.c: checks again and again; returns where that cannot be. */
int cli_watch(struct cli *, int (*check)(struct cli *));
/* fit_mesh.c: explain --fit of a document. 0, 1 where nothing fits, or an exit code after a message. */
int cli_fit_mesh(struct cli *, const char *path, const char *text, size_t length);
/* header.c: a C header of the module's tensors. 0 or 3. */
int cli_emit_header(struct cli *, const struct ir_module *, const char *path);
/* overwrite.c: 2 after a message if what is written would replace what is read, or is one file twice. */
int cli_check_files(struct cli *);
/* seal.c: writes what the note of an object says of its bytes and of its first step, which is made. 0 or 4. */
int cli_seal_object(struct cli *, char *bytes, size_t size);
/* limits.c: what --limit says, 0 or 2. From begin to end the process is ended with exit code 3 and a message where
 * --timeout is over or a compilation has more memory than it may have. */
struct cli_limits {
    uint64_t document, json, values, memory;
};
int cli_limits(const struct cli *, struct cli_limits *);
void cli_limits_begin(const struct cli *, const struct cli_limits *);
void cli_limits_end(void);
void cli_limits_list(struct str *, struct json_tree); /* for doctor, as text and JSON */
/* Runs `main` on a stack that does not depend on `ulimit -s`. */
enum { CLI_STACK = 256 << 20 };
int cli_with_stack(int (*main)(int, char **), int argc, char **argv);

/* explain.c: prints the report (JSON as ir_report writes it) as text, the sections that were asked for. */
int cli_explain_report(struct cli *, const char *report, size_t length);
/* explain_page.c: --html, --dot and --svg of a report; `layers`: of one whose report has none, the list of another.
 * Whether any was asked for; 0 or an exit code. */
bool cli_explain_pictures(const struct cli *);
bool cli_explain_lists(const struct cli *);                                       /* whether a part of the text was */
const char *cli_report_document(struct cli *, const char *report, size_t length); /* as JSON; NULL: it has none */
int cli_explain_page(struct cli *, const char *report, size_t length, const char *layers);
/* The blocks of the model of a report, in the order in which they are computed. */
struct cJSON;
struct cli_block {
    const char *path, *type, *output, *place; /* output: its type, "": none; place: a JSON pointer */
    int parent;                               /* -1: none */
    uint32_t depth, children;
    const struct cJSON *from;
    double parameters; /* its own and those of the blocks inside */
};
struct cli_outline {
    struct cli *cli;
    struct cli_block *blocks;
    size_t count;
};
struct cli_outline cli_outline(struct cli *, const char *report);
/* links.c: what collectives send over each axis, and for how long by --link. */
/* A kernel, or a collective: what of a step takes time. */
struct cli_timed {
    uint32_t command, until; /* until: the command before which a collective has to be there */
    uint32_t axes;           /* that it runs over; 0: a kernel */
    uint32_t rounds;         /* of messages, one after the other */
    double flops, bytes;     /* bytes that a kernel reads and writes, or that each device sends */
    double times;
};
int cli_links(struct cli *, const char *const *axes, uint32_t count, const struct cli_timed *in_order, uint32_t n,
              struct str *out);
int cli_summary(struct cli *, const struct plan_module *);     /* one line */
const char *cli_report_name(struct cli *, const char *report); /* of the model; "": it has none */
/* A number of an entry, "step", or, NULL, of the object; 0: it is not there. */
double cli_report_number(struct cli *, const char *report, const char *entry, const char *key);
/* The least value of an input that indexes, and the one after the largest; they stay where it does not. */
void cli_report_range(struct cli *, const char *report, const char *tensor, double range[2]);
const char *cli_headline(struct cli *, const char *report,
                         size_t length);         /* name, parameters, devices; NULL: damaged */
const char *cli_grouped(struct arena *, double); /* 6,336 */
/* The report inside an object, without loading it: *report is NULL if the file is no ELF file. 0 or 1. */
int cli_read_note(struct cli *, const char *path, const char *file, size_t length, const char **report,
                  size_t *report_length);
int cli_explain_code(struct cli *, const char *code);                                       /* "E0107" */
bool cli_code_page(size_t index, const char **code, const char **title, const char **text); /* false: no such page */
#endif
