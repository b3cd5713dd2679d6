/* stepc doc: the reference of optimizers, schedules, layers and so on, printed from the tables that the compiler itself
 * works by, as Markdown. */
#include "frontend/cli/doc.h"
#include "frontend/expr/library.h"
#include "frontend/losses/losses.h"
#include "frontend/optim/optim.h"
#include "ir/base/json_tree.h"

#include <string.h>

/* ---------------------------------------------------------------- topics */

/* The rows of a table, by number: name and entry. */
#define NAMES(what, ...) \
    static const char *what##_name(struct doc *d, uint32_t i) \
    { \
        struct fe_row row; \
        (void)d; \
        return fe_##what##_row(__VA_ARGS__ i, &row) ? row.name : NULL; \
    }
#define ROWS(what, ...) \
    NAMES(what, __VA_ARGS__) \
    static bool what##_row(struct doc *d, uint32_t i, struct fe_row *row) \
    { \
        (void)d; \
        return fe_##what##_row(__VA_ARGS__ i, row); \
    } \
    static void what##_entry(struct doc *d, uint32_t i) \
    { \
        struct fe_row row; \
        if (!fe_##what##_row(__VA_ARGS__ i, &row)) return; \
        const char *formula = optim_formula(d->arena, #what, row.name); \
        if (row.doc) str_addf(&d->out, "%s\n\n", row.doc); \
        if (formula) str_addf(&d->out, "```\n%s```\n\n", formula); \
        doc_arguments(d, &row); \
    }
NAMES(key)
ROWS(schedule)
ROWS(layer)
ROWS(structure)
ROWS(setting)
ROWS(adapter)
ROWS(initializer, d->arena, )

static void key_entry(struct doc *d, uint32_t i)
{
    struct fe_row row;
    if (!fe_key_row(i, &row)) return;
    str_addf(&d->out, "%s: %s%s\n\n", fe_kind_text(d->arena, row.args), row.doc,
             row.args->flags & FE_REQUIRED ? " (required)" : "");
}

static const char *no_name(struct doc *d, uint32_t i)
{
    (void)d, (void)i;
    return NULL;
}

static void list_functions(struct doc *d)
{
    size_t count, n[2] = {0};
    const char *const *names = fe_function_names(d->library, 0, &count);
    for (int losses = 0; losses < 2; losses++)
        d->functions[losses] = arena_new_array(d->arena, const char *, count + 1);
    for (size_t k = 0; k < count; k++) {
        bool losses = fe_function_find(d->library, names[k])->flags & FE_LOSS;
        d->functions[losses][n[losses]++] = names[k];
    }
}

static const char *loss_name(struct doc *d, uint32_t i) { return d->functions[1][i]; }
static const char *expression_name(struct doc *d, uint32_t i) { return d->functions[0][i]; }

static void add_signature(struct doc *d, const struct fe_function *f)
{
    str_addf(&d->out, "`%s(%s)`", f->name, fe_signature_text(d->out.arena, f));
}

/* What it gives, what its arguments mean, and the formula that runs. */
static void add_formula(struct doc *d, const struct fe_function *f)
{
    str_addf(&d->out, "\n\n%s\n\n", doc_function(d->arena, f));
    const char *const *names = fe_signature_names(d->arena, f);
    for (; *names; names++) str_addf(&d->out, "- `%s`: %s\n", *names, fe_meaning(f->name, "()", *names));
    if (*f->signature) str_add(&d->out, "\n");
    if (f->same_as) str_addf(&d->out, "The same as `%s`.\n\n", f->same_as);
    if (f->same_as || !f->formula) return;
    const struct fe_entry *e = &f->formula->entry;
    str_addf(&d->out, "```\n%.*s\n```\n\n", (int)e->text.length, e->text.text);
}

static void loss_entry(struct doc *d, uint32_t i)
{
    const struct fe_function *f = fe_function_find(d->library, loss_name(d, i));
    add_signature(d, f);
    if (f->flags & FE_OWN_WEIGHTS) str_add(&d->out, "; its `weights` are an argument of its own");
    if (f->flags & FE_OWN_REDUCTION) str_add(&d->out, "; its `reduction` is an argument of its own");
    add_formula(d, f);
}

static void expression_entry(struct doc *d, uint32_t i)
{
    const struct fe_function *f = fe_function_find(d->library, expression_name(d, i));
    add_signature(d, f);
    if (f->flags & FE_ACTIVATION) str_addf(&d->out, "; as a block: `{\"type\": \"%s\"}`", f->name);
    add_formula(d, f);
}

static const char *code_name(struct doc *d, uint32_t i)
{
    const char *code, *title, *text;
    (void)d;
    return cli_code_page(i, &code, &title, &text) ? code : NULL;
}

static void code_entry(struct doc *d, uint32_t i)
{
    const char *code, *title, *text;
    if (!cli_code_page(i, &code, &title, &text)) return;
    str_addf(&d->out, "%s\n\n```\n%s\n```\n\n", title, text);
}

static const struct doc_topic doc_topics[] = {
    {"document", "Keys of a document", "An object of the file itself, at the top.\n", key_name, key_entry, NULL, NULL},
    {"settings", "Objects at the top of a document",
     "Their keys; `input` and `define` are one entry of `inputs` and of `define`.\n", setting_name, setting_entry, NULL,
     setting_row},
    {"optimizers", "Optimizers and gradient transformations", doc_optimizer_intro, doc_optimizer_name,
     doc_optimizer_entry, NULL, doc_optimizer_row},
    {"custom", "Optimizers that the document writes itself", "", no_name, NULL, doc_custom_page, NULL},
    {"state", "State, and what can be set between steps", "", no_name, NULL, doc_state_page, NULL},
    {"inference", "Evaluation and inference", "", no_name, NULL, doc_inference_page, NULL},
    {"microbatches", "Microbatches and gradients of single examples", "", no_name, NULL, doc_microbatches_page, NULL},
    {"schedules", "Schedules",
     "An object with these arguments stands wherever a number may be a schedule. c is the number of updates so far, "
     "from 0.\n",
     schedule_name, schedule_entry, NULL, schedule_row},
    {"losses", "Losses",
     "Functions of expressions, and loss objects: their arguments are keys, each an expression, beside `reduction` "
     "(`mean` or\n"
     "`sum`) or `weights`.\n",
     loss_name, loss_entry, NULL, NULL},
    {"structures", "Structures",
     "Blocks of blocks, and the like. Any block may have `name` (its segment of the paths of parameters), `input` (an "
     "expression)\n"
     "or `inputs` (a list of them). A block of `define` is used by its name: `{\"type\": \"mlp\", \"width\": 7}`.\n",
     structure_name, structure_entry, NULL, structure_row},
    {"layers", "Layers",
     "Blocks with parameters of their own, by the names of flax.nnx. Sizes of inputs are inferred.\n", layer_name,
     layer_entry, NULL, layer_row},
    {"adapters", "Adapters", "Layers beside those of the model, in the list `adapters`.\n", adapter_name, adapter_entry,
     NULL, adapter_row},
    {"initializers", "Initializers", "By the names of jax.nn.initializers.\n", initializer_name, initializer_entry,
     NULL, initializer_row},
    {"expressions", "Functions of expressions",
     "By the names of jax.numpy, jax.nn, jax.scipy.special and Optax. Around them: `+ - * / // % ** @`, comparisons,\n"
     "`~ & | ^ << >>`, indexing and slices (`x[:, :-1]`, `x[..., None]`), `x.T`, `x.shape`, keyword arguments, "
     "numbers, strings,\n"
     "tuples, lists, `True`, `False`, `None`, `pi`, `e`, `inf`, `nan`, dotted paths of parameters "
     "(`params.layers.0.kernel`), and\n"
     "`a if c else b`, where c is known while compiling (shapes, ranks, constants) and only the branch taken has to "
     "make sense.\n"
     "Functions that NumPy has as methods are methods, too (`x.sum(axis=0)`, `(a @ b).reshape(-1)`); `x.at[i].set(y)` "
     "and `add`,\n"
     "`subtract`, `multiply`, `divide`, `power`, `min`, `max` give x with some elements changed. What fft gives is a "
     "complex value:\n"
     "it knows `+ - * /`, `.real`, `.imag`, `abs`, `angle`, `conj`, `exp`, sums, shapes and indices, and is no result "
     "of a document.\n"
     "Types promote as in JAX with 64-bit types off.\n",
     expression_name, expression_entry, NULL, NULL},
    {"cookbook", "Cookbook",
     "Complete documents by subject; `stepc doc cookbook NAME` prints one of them, `stepc init NAME FILE` writes it.\n",
     doc_recipe_name, doc_recipe_entry, NULL, NULL},
    {"diagnostics", "Diagnostics", "`stepc explain CODE` prints one of them.\n", code_name, code_entry, NULL, NULL}};
enum { TOPICS = sizeof doc_topics / sizeof *doc_topics };

bool doc_topic(size_t index, const char **name, const char **title)
{
    if (index >= TOPICS) return false;
    *name = doc_topics[index].name, *title = doc_topics[index].title;
    return true;
}

/* ---------------------------------------------------------------- the command */

static int print_one(struct cli *cli, struct doc *d, const struct doc_topic *t, const char *name)
{
    VEC(const char *) names = {0};
    const char *other;
    for (uint32_t i = 0; (other = t->entry_name(d, i)); i++) {
        vec_push(d->arena, &names, other);
        if (strcmp(other, name) != 0) continue;
        doc_add_entry(d, t, i);
        return cli_print(cli, str_text(&d->out), d->out.length);
    }
    return cli_usage(cli, "%s: there is no \"%s\"%s", t->name, name, cli_meant(cli, name, names.items, names.count));
}

static int print_entries_json(struct cli *cli, struct doc *d, const struct doc_topic *t)
{
    struct json_tree json = json_object(cli->arena), list;
    const char *name;
    json_add_integer(json, "schema", 1);
    json_add_text(json, "topic", t->name);
    json_add_text(json, "title", t->title);
    if (t->page) json_add_text(json, "text", t->page);
    list = json_add_object(json, "entries");
    for (uint32_t i = 0; (name = t->entry_name(d, i)); i++) json_add_text(list, name, doc_sentence(d, t, i));
    const char *text = json_print_lines(json);
    return cli_print(cli, text, strlen(text));
}

static int print_topics(struct cli *cli, struct doc *d)
{
    static const char schema[] = "A JSON Schema of documents, for editors";
    struct json_tree json = json_object(cli->arena), list;
    json_add_integer(json, "schema", 1);
    list = json_add_object(json, "topics");
    for (int i = 0; i < TOPICS; i++) {
        uint32_t n = 0;
        while (doc_topics[i].entry_name(d, n)) n++;
        str_addf(&d->out, "stepc doc %-12s  %s", doc_topics[i].name, doc_topics[i].title);
        if (n) str_addf(&d->out, ": %u entries", (unsigned)n);
        str_add(&d->out, "\n");
        json_add_text(list, doc_topics[i].name, doc_topics[i].title);
    }
    str_addf(&d->out, "stepc doc %-12s  %s\n", "schema", schema);
    json_add_text(list, "schema", schema);
    const char *text = cli_count(cli, "json") ? json_print_lines(json) : str_text(&d->out);
    return cli_print(cli, text, strlen(text));
}

int cli_schema(struct cli *cli)
{
    const char *text = doc_schema(cli->arena);
    return cli_print(cli, text, strlen(text));
}

int cli_doc(struct cli *cli)
{
    struct doc d = {.arena = cli->arena,
                    .out = STR(cli->arena),
                    .library = fe_library_open(cli->arena, &fe_losses),
                    .topics = doc_topics,
                    .topic_count = TOPICS};
    list_functions(&d);
    const char *site = cli_text(cli, "site", NULL);
    bool json = cli_count(cli, "json") != 0;
    if (json && (site || cli->operands.count > 1))
        return cli_usage(cli, "--json is for lists: stepc doc --json, stepc doc TOPIC --json, stepc doc WORD --json");
    if (site && cli->operands.count)
        return cli_usage(cli, "--site writes all topics; found \"%s\"", cli->operands.items[0]);
    if (site) return doc_site(cli, &d, site);
    if (!cli->operands.count) return print_topics(cli, &d);
    const char *name = cli->operands.items[0];
    if (strcmp(name, "schema") == 0) {
        if (cli->operands.count > 1) return cli_usage(cli, "schema: there is no \"%s\"", cli->operands.items[1]);
        return cli_schema(cli);
    }
    for (int i = 0; i < TOPICS; i++) {
        if (strcmp(doc_topics[i].name, name) != 0) continue;
        if (cli->operands.count > 1) return print_one(cli, &d, &doc_topics[i], cli->operands.items[1]);
        if (json) return print_entries_json(cli, &d, &doc_topics[i]);
        if (doc_topics[i].page) return cli_print(cli, doc_topics[i].page, strlen(doc_topics[i].page));
        str_addf(&d.out, "# %s\n\n%s\n", doc_topics[i].title, doc_topics[i].intro);
        for (uint32_t k = 0; doc_topics[i].entry_name(&d, k); k++) doc_add_entry(&d, &doc_topics[i], k);
        return cli_print(cli, str_text(&d.out), d.out.length);
    }
    return doc_search(cli, &d, name);
}
