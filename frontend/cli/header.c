/* --emit header=FILE: a C header (also C++) with the number of every tensor in its role (as tensor_at counts), its name
 * and how many elements it has, so that a host is told by its compiler when a document changed. */
#include "frontend/cli/cli.h"
#include "ir/ir.h"

#include <ctype.h>
#include <string.h>

struct header {
    struct arena *arena;
    const struct ir_module *module;
    const char *prefix;
    struct str out;
    struct map taken;
};

static const char *identifier(struct arena *arena, const char *text, bool upper)
{
    char *out = arena_copy(arena, text, strlen(text) + 1);
    for (char *p = out; *p; p++)
        *p = isalnum((unsigned char)*p) ? (char)(upper ? toupper((unsigned char)*p) : *p) : '_';
    return isdigit((unsigned char)*out) ? arena_format(arena, "_%s", out) : out;
}

/* Two names may differ in what no identifier can hold. */
static const char *unique(struct header *h, const char *name)
{
    const char *out = name;
    for (int i = 2; map_get(&h->taken, out) != MAP_NONE; i++) out = arena_format(h->arena, "%s_%d", name, i);
    map_set(&h->taken, out, 0);
    return out;
}

/* A settable hyper-parameter is a tensor of state, as the runtime has it. */
static enum ir_role role_of(const struct ir_slot *s)
{
    if (s->role != IR_ROLE_HYPER) return s->role;
    return s->frozen ? (enum ir_role)0 : *s->name == 'o' ? IR_ROLE_OPT_STATE : IR_ROLE_STATE;
}

static void add_role(struct header *h, enum ir_role role, const char *name)
{
    uint32_t count = 0;
    str_addf(&h->out, "\nenum { /* %s */\n", name);
    for (size_t i = 0; i < h->module->slots.count; i++) {
        const struct ir_slot *s = &h->module->slots.items[i];
        if (role_of(s) != role) continue;
        const char *id = unique(
            h, arena_format(h->arena, "%s_%s_%s", h->prefix, name, identifier(h->arena, s->name, false)));
        str_addf(&h->out, "    %s = %u, /* %s */\n", id, count++, ir_type_text(h->arena, &s->type));
    }
    str_addf(&h->out, "    %s_%s_COUNT = %u\n};\n", h->prefix, name, count);
}

static void add_names(struct header *h, enum ir_role role, const char *name)
{
    h->taken = MAP(h->arena);
    for (size_t i = 0; i < h->module->slots.count; i++) {
        const struct ir_slot *s = &h->module->slots.items[i];
        if (role_of(s) != role) continue;
        const char *id = unique(
            h, arena_format(h->arena, "%s_%s_%s", h->prefix, name, identifier(h->arena, s->name, false)));
        str_addf(&h->out, "#define %s_NAME ", id);
        str_add_json(&h->out, s->name);
        str_addf(&h->out, "\n#define %s_ELEMENTS %lld\n", id, (long long)ir_type_elements(&s->type));
    }
}

int cli_emit_header(struct cli *cli, const struct ir_module *module, const char *path)
{
    static const struct {
        enum ir_role role;
        const char *name;
    } roles[] = {{IR_ROLE_PARAM, "PARAM"},  {IR_ROLE_EMA, "EMA"},     {IR_ROLE_OPT_STATE, "OPT_STATE"},
                 {IR_ROLE_STATE, "STATE"},  {IR_ROLE_INPUT, "INPUT"}, {IR_ROLE_METRIC, "METRIC"},
                 {IR_ROLE_OUTPUT, "OUTPUT"}};
    struct header h = {.arena = cli->arena,
                       .module = module,
                       .prefix = identifier(cli->arena, module->name ? module->name : "step", true),
                       .out = STR(cli->arena),
                       .taken = MAP(cli->arena)};
    str_addf(
        &h.out,
        "/* The tensors of step %s, made by stepc %s: their numbers for tensor_at, their names, their elements. */\n",
        h.prefix, STEPC_VERSION);
    str_addf(&h.out, "#ifndef STEPC_%s_H\n#define STEPC_%s_H\n", h.prefix, h.prefix);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) add_role(&h, roles[i].role, roles[i].name);
    str_add(&h.out, "\n");
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) add_names(&h, roles[i].role, roles[i].name);
    str_add(&h.out, "#endif\n");
    return cli_write(cli, path, str_text(&h.out), h.out.length);
}
