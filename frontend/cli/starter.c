/* stepc init: starter documents. */
#include "frontend/cli/doc.h"

#include <string.h>
#include <unistd.h>

/* clang-format off */
#define TEMPLATES(X) \
    X(mlp, "a classifier of rows with one hidden layer") \
    X(cnn, "a convolutional network with batch normalisation") \
    X(gpt2, "a transformer as GPT-2, with tied embeddings") \
    X(llama, "a transformer as Llama: rotary positions, grouped queries, SwiGLU") \
    X(lora, "adapters of low rank beside frozen layers") \
    X(microbatches, "accumulation, clipping and an average of the weights")
/* clang-format on */

#define X(name, doc) extern const char cli_template_##name[];
TEMPLATES(X)
#undef X

static const struct {
    const char *name, *doc, *text;
} templates[] = {
#define X(name, doc) {#name, doc, cli_template_##name},
    TEMPLATES(X)
#undef X
};
enum { COUNT = sizeof templates / sizeof *templates };

int cli_init(struct cli *cli)
{
    struct str out = STR(cli->arena);
    struct json_tree json = json_object(cli->arena), list;
    json_add_integer(json, "schema", 1);
    list = json_add_object(json, "templates");
    const char *names[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        names[i] = templates[i].name;
        str_addf(&out, "%-14s %s\n", templates[i].name, templates[i].doc);
        json_add_text(list, templates[i].name, templates[i].doc);
    }
    bool as_json = cli_count(cli, "json") != 0;
    if (as_json && cli->operands.count) return cli_usage(cli, "--json is for the list of templates: stepc init --json");
    const char *listing = as_json ? json_print_lines(json) : str_text(&out);
    if (!cli->operands.count) return cli_print(cli, listing, strlen(listing));
    const char *name = cli->operands.items[0], *path = cli->operands.count > 1 ? cli->operands.items[1] : "-";
    size_t i = 0;
    while (i < COUNT && strcmp(names[i], name) != 0) i++;
    const char *recipe = i < COUNT ? NULL : doc_recipe_text(name), *text = i < COUNT ? templates[i].text : recipe;
    const char *near = text ? NULL : str_nearest(name, names, COUNT);
    if (near) return cli_usage(cli, "there is no template \"%s\"; did you mean \"%s\"?", name, near);
    if (!text) return cli_usage(cli, "there is no template \"%s\"; stepc init and stepc doc cookbook list them", name);
    if (strcmp(path, "-") != 0 && access(path, F_OK) == 0)
        return cli_failed(cli, EXIT_ENVIRONMENT, "%s is there already; init replaces no file", path);
    return cli_write(cli, path, text, strlen(text));
}
