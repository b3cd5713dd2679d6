/* stepc doc schema: a JSON Schema (draft 2020-12) of documents, from the tables that the compiler itself works by, for
 * editors that complete and check while one writes. It says what a table can say: keys, kinds, ranges, choices and
 * names; shapes, expressions and patterns are for `stepc check`. */
#include "frontend/cli/doc.h"
#include "frontend/losses/losses.h"
#include "frontend/optim/optim.h"
#include "ir/base/json_tree.h"

#include <string.h>

/* Where a row of arguments stands: what its objects are depends on it. */
enum table { BLOCKS, CLOSED_BLOCKS, OPTIMIZERS, SCHEDULES, INITIALIZERS, SETTINGS };

/* ---------------------------------------------------------------- small schemas */

/* A schema that is written out. */
static struct json_tree written(struct arena *a, const char *text)
{
    const struct cJSON *read = json_read(a, text, strlen(text));
    if (!read) BUG("not JSON: %s", text);
    return json_copy(a, read);
}

/* {"name": text} */
static struct json_tree with_text(struct arena *a, const char *name, const char *text)
{
    struct json_tree t = json_object(a);
    json_add_text(t, name, text);
    return t;
}
static struct json_tree typed(struct arena *a, const char *type) { return with_text(a, "type", type); }
static struct json_tree enumeration(struct json_tree names)
{
    struct json_tree t = json_object(names.arena);
    json_add(t, "enum", names);
    return t;
}
static struct json_tree list_of(struct json_tree item)
{
    struct json_tree t = typed(item.arena, "array");
    json_add(t, "items", item);
    return t;
}
static struct json_tree map_of(struct json_tree value)
{
    struct json_tree t = typed(value.arena, "object");
    json_add(t, "additionalProperties", value);
    return t;
}
static struct json_tree reference(struct arena *a, const char *name)
{
    return with_text(a, "$ref", arena_format(a, "#/$defs/%s", name));
}
static struct json_tree either(struct json_tree x, struct json_tree y)
{
    struct json_tree t = json_object(x.arena), any = json_add_array(t, "anyOf");
    json_add(any, NULL, x);
    json_add(any, NULL, y);
    return t;
}

/* ---------------------------------------------------------------- one argument */

/* A number within the range of the flags, or `$` arithmetic. */
static struct json_tree number_schema(struct arena *a, const struct fe_arg *arg, const char *type)
{
    struct json_tree t = typed(a, type);
    if (arg->flags & FE_POSITIVE) json_add_integer(t, "exclusiveMinimum", 0);
    else if (arg->flags & (FE_NOT_NEGATIVE | FE_UNIT | FE_UNIT_CLOSED)) json_add_integer(t, "minimum", 0);
    if (arg->flags & FE_UNIT) json_add_integer(t, "exclusiveMaximum", 1);
    else if (arg->flags & FE_UNIT_CLOSED) json_add_integer(t, "maximum", 1);
    return either(t, reference(a, "arithmetic"));
}

/* Of `step`: more than a number in quotes. */
static struct json_tree formula(struct arena *a)
{
    struct json_tree t = typed(a, "string");
    json_add_text(t, "pattern", "[^0-9.eE+ -]");
    return t;
}

static struct json_tree numbers_schema(struct arena *a, const struct fe_arg *arg, const char *type)
{
    return either(number_schema(a, arg, type), list_of(number_schema(a, arg, type)));
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* What the objects of an argument are, by its name; `many`: the argument is a list or a map of them. */
/* clang-format off */
static const struct { enum table table; bool many; const char *name, *schema; } roles[] = {
    {BLOCKS, true, "layers", "block"},
    {BLOCKS, true, "nodes", "block"},
    {BLOCKS, false, "block", "block"},
    {BLOCKS, false, "layer_instance", "block"},
    {BLOCKS, false, "base_module", "block"},
    {BLOCKS, false, "cell", "block"},
    {BLOCKS, false, "_rnn", "block"},
    {BLOCKS, false, "_init", "initializer"},
    {BLOCKS, false, "init", "initializer"},
    {BLOCKS, false, "_initializer", "initializer"},
    {BLOCKS, false, "_fn", "activation"},
    {OPTIMIZERS, true, "transforms", "optimizer"},
    {OPTIMIZERS, false, "opt", "optimizer"},
    {OPTIMIZERS, false, "inner", "optimizer"},
    {OPTIMIZERS, false, "optimizer", "optimizer"},
    {SETTINGS, false, "body", "block"},
    {SETTINGS, true, "transform", "transformation"},
    {SCHEDULES, true, "schedules", "rate"},
};
/* clang-format on */

/* The schema that objects of the argument refer to; NULL: any. */
static const char *role(enum table table, const struct fe_arg *arg)
{
    bool many = arg->kind == FE_LIST || arg->kind == FE_MAP;
    bool closed = table == CLOSED_BLOCKS;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].table == (closed ? BLOCKS : table) && roles[i].many == many && ends_with(arg->name, roles[i].name))
            return closed && !strcmp(roles[i].schema, "block") ? "closed_block" : roles[i].schema;
    return NULL;
}

static struct json_tree choices(struct arena *a, const struct fe_arg *arg)
{
    struct json_tree names = json_array(a);
    const char *list[32];
    for (size_t i = 0, n = str_choices(a, arg->choices, list, 32); i < n; i++) json_add_text(names, NULL, list[i]);
    return enumeration(names);
}

/* An empty schema says nothing. */
static struct json_tree kind(struct arena *a, enum table table, const struct fe_arg *arg)
{
    const char *inside = role(table, arg);
    struct json_tree object = inside ? reference(a, inside) : json_object(a), number;
    switch (arg->kind) {
    case FE_NUMBER:
    case FE_INTEGER:
        number = number_schema(a, arg, arg->kind == FE_NUMBER ? "number" : "integer");
        /* Inside of inject_hyperparams any number may be a schedule. */
        return table == OPTIMIZERS ? either(number, reference(a, "schedule")) : number;
    case FE_SCHEDULE: return either(either(number_schema(a, arg, "number"), reference(a, "schedule")), formula(a));
    case FE_BOOL: return typed(a, "boolean");
    case FE_STRING: return typed(a, "string");
    case FE_ENUM: return choices(a, arg);
    case FE_EXPR: return reference(a, "expression");
    case FE_DTYPE: return reference(a, "dtype");
    case FE_SHAPE: return numbers_schema(a, arg, "integer");
    case FE_NUMBERS: return numbers_schema(a, arg, "number");
    case FE_OBJECT: return inside ? object : typed(a, "object");
    case FE_LIST: return list_of(object);
    case FE_MAP: return map_of(object);
    case FE_PATTERNS: return reference(a, "patterns");
    case FE_ANY: break;
    }
    return json_object(a);
}

/* ---------------------------------------------------------------- objects */

struct object {
    struct arena *arena;
    struct json_tree properties, required;
};

static struct object object(struct arena *a) { return (struct object){a, json_object(a), json_array(a)}; }

/* The schema beside others: a description and a default (JSON as text). */
static struct json_tree described(struct json_tree schema, const char *doc, const char *preset)
{
    if (doc) json_add_text(schema, "description", doc);
    if (preset) json_add(schema, "default", json_raw(schema.arena, preset));
    return schema;
}

static struct json_tree argument(struct arena *a, enum table table, const char *owner, const struct fe_arg *arg)
{
    struct json_tree schema = kind(a, table, arg);
    const char *range = fe_range_text(arg->flags), *doc = fe_kind_text(a, arg),
               *meaning = fe_meaning(owner, "", arg->name);
    if (arg->flags & FE_NULLABLE && arg->kind != FE_ANY) schema = either(schema, typed(a, "null"));
    if (range) doc = arena_format(a, "%s, %s", doc, range);
    if (arg->kind == FE_ANY || arg->kind == FE_ENUM) doc = meaning;
    else if (meaning) doc = arena_format(a, "%s (%s)", meaning, doc);
    return described(schema, doc, arg->preset);
}

static void add_arguments(struct object *o, enum table table, const struct fe_row *row)
{
    const struct fe_arg *args = row->args;
    for (uint32_t i = 0; i < row->count; i++) {
        json_add(o->properties, args[i].name, argument(o->arena, table, row->name, &args[i]));
        const char *other = args[i].kind == FE_MAP ? args[i].choices : NULL;
        if (other) json_add(o->properties, other, argument(o->arena, table, row->name, &args[i]));
        else if (args[i].flags & FE_REQUIRED) json_add_text(o->required, NULL, args[i].name);
    }
}

/* Adds the schema of the object to `to`. */
static struct json_tree finish(struct json_tree to, struct object *o, const char *doc)
{
    json_add_text(to, "type", "object");
    if (doc) json_add_text(to, "description", doc);
    json_add(o->properties, "//", typed(o->arena, "string"));
    json_add(to, "properties", o->properties);
    json_add(to, "required", o->required);
    json_add_bool(to, "additionalProperties", false);
    return to;
}

/* ---------------------------------------------------------------- choices by "type" */

/* Objects told apart by "type". Each kind has its own definition, and a condition refers to it, so that an editor's
 * complaint is about the kind that was written. */
struct kinds {
    struct json_tree out; /* definitions */
    const char *name;     /* "block" */
    struct json_tree names, conditions;
};

static struct kinds kinds(struct json_tree out, const char *name)
{
    return (struct kinds){out, name, json_array(out.arena), json_array(out.arena)};
}

/* {"type": {"const": type}} */
static struct json_tree of_type(struct json_tree properties, const char *type)
{
    json_add(properties, "type", with_text(properties.arena, "const", type));
    return properties;
}

/* The type is one of the kinds, which the definition describes. */
static void add_choice(struct kinds *k, const char *type, const char *definition)
{
    struct arena *a = k->out.arena;
    json_add_text(k->names, NULL, type);
    struct json_tree choice = json_add_object(k->conditions, NULL), condition = json_add_object(choice, "if");
    json_add_text(json_add_array(condition, "required"), NULL, "type");
    of_type(json_add_object(condition, "properties"), type);
    json_add(choice, "then", reference(a, definition));
}

static void add_kind(struct kinds *k, const char *type, struct object *o, const char *doc)
{
    const char *own = arena_format(o->arena, "%s.%s", k->name, type);
    of_type(o->properties, type);
    finish(json_add_object(k->out, own), o, doc);
    add_choice(k, type, own);
}

/* `open`: other types are known elsewhere (to the document). */
static void finish_kinds(struct kinds *k, bool open, const char *doc)
{
    struct json_tree type = enumeration(k->names), t = json_add_object(k->out, k->name);
    if (open) type = either(type, typed(type.arena, "string"));
    json_add_text(t, "type", "object");
    json_add_text(t, "description", doc);
    json_add_text(json_add_array(t, "required"), NULL, "type");
    json_add(json_add_object(t, "properties"), "type", type);
    json_add(t, "allOf", k->conditions);
}

static void add_block_keys(struct object *o)
{
    struct arena *a = o->arena;
    json_add(o->properties, "name", described(typed(a, "string"), "segment of the path of its parameters", NULL));
    json_add(o->properties, "input", described(reference(a, "expression"), "its input; x is what arrives", NULL));
    json_add(o->properties, "inputs", described(list_of(reference(a, "expression")), "its positional inputs", NULL));
}

static void add_row(struct kinds *k, enum table table, const struct fe_row *row)
{
    struct object o = object(k->out.arena);
    add_arguments(&o, table, row);
    if (table == BLOCKS || table == CLOSED_BLOCKS) add_block_keys(&o);
    add_kind(k, row->name, &o, row->doc);
}

/* As add_row, of blocks whose types are all known: what holds no block is as it is elsewhere. */
static void add_closed_row(struct kinds *k, const struct fe_row *row)
{
    for (uint32_t i = 0; i < row->count; i++) {
        const char *inside = role(CLOSED_BLOCKS, &row->args[i]);
        if (!inside || strcmp(inside, "closed_block") != 0) continue;
        add_row(k, CLOSED_BLOCKS, row);
        return;
    }
    add_choice(k, row->name, arena_format(k->out.arena, "block.%s", row->name));
}

/* A default of a signature as JSON. */
static const char *json_default(struct arena *a, const char *text, size_t n)
{
    static const struct {
        const char *python, *json;
    } constants[] = {{"None", "null"}, {"True", "true"}, {"False", "false"}};
    const char *word = arena_string_n(a, text, n);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (!strcmp(word, constants[i].python)) return constants[i].json;
    return *word == '\'' ? json_print(json_text(a, arena_string_n(a, word + 1, n - 2))) : word;
}

/* A function as an object: the arguments of its signature but the first `skip` are keys. */
static struct object function_object(struct arena *a, const struct fe_function *f, uint32_t skip)
{
    struct object o = object(a);
    struct fe_parameter p;
    uint32_t i = 0;
    for (const char *at = f->signature; (at = fe_parameter_next(at, &p)); i++) {
        const char *preset = p.preset ? json_default(a, p.preset, p.preset_length) : NULL,
                   *key = arena_string_n(a, p.name, p.length);
        bool shown = i >= skip && !p.silent && !p.fixed; /* the others change nothing, or are not supported */
        if (shown)
            json_add(o.properties, key, described(reference(a, "literal"), fe_meaning(f->name, "()", key), preset));
        if (shown && !preset) json_add_text(o.required, NULL, key);
    }
    return o;
}

/* ---------------------------------------------------------------- the parts */

static void add_blocks(struct json_tree out)
{
    struct kinds block = kinds(out, "block"), activation = kinds(out, "activation"),
                 closed = kinds(out, "closed_block");
    struct fe_row row;
    size_t count;
    for (uint32_t i = 0; fe_structure_row(i, &row); i++) add_row(&block, BLOCKS, &row), add_closed_row(&closed, &row);
    for (uint32_t i = 0; fe_layer_row(i, &row); i++) add_row(&block, BLOCKS, &row), add_closed_row(&closed, &row);
    const struct fe_library *library = fe_library_open(out.arena, &fe_losses);
    const char *const *names = fe_function_names(library, FE_ACTIVATION, &count);
    for (size_t i = 0; i < count; i++) {
        struct object o = function_object(out.arena, fe_function_find(library, names[i]), 1);
        add_block_keys(&o);
        add_kind(&activation, names[i], &o, doc_function(out.arena, fe_function_find(library, names[i])));
        add_choice(&block, names[i], arena_format(out.arena, "activation.%s", names[i]));
        add_choice(&closed, names[i], arena_format(out.arena, "activation.%s", names[i]));
    }
    finish_kinds(&block, true, "a block: a structure, a layer, an activation or the name of a definition");
    finish_kinds(&closed, false, "a block: a structure, a layer or an activation");
    finish_kinds(&activation, false, "an activation, by its name in jax.nn");
}

static void add_losses(struct json_tree out)
{
    static const struct fe_arg reduction = {.choices = "mean|sum"};
    struct kinds loss = kinds(out, "loss");
    size_t count;
    const struct fe_library *library = fe_library_open(out.arena, &fe_losses);
    const char *const *names = fe_function_names(library, FE_LOSS, &count);
    for (size_t i = 0; i < count; i++) {
        const struct fe_function *f = fe_function_find(library, names[i]);
        struct object o = function_object(out.arena, f, 0);
        if (!(f->flags & FE_OWN_REDUCTION)) json_add(o.properties, "reduction", choices(out.arena, &reduction));
        if (!(f->flags & FE_OWN_WEIGHTS)) json_add(o.properties, "weights", reference(out.arena, "expression"));
        add_kind(&loss, names[i], &o,
                 arena_format(out.arena, "%s(%s): %s", f->name, fe_signature_text(out.arena, f),
                              doc_function(out.arena, f)));
    }
    finish_kinds(&loss, false, "a loss of Optax; each argument is an expression");
}

static void add_transformations(struct json_tree out)
{
    struct kinds optimizer = kinds(out, "optimizer"), schedule = kinds(out, "schedule"),
                 initializer = kinds(out, "initializer"), adapter = kinds(out, "adapter");
    struct fe_row row;
    uint32_t count;
    const struct optim_row *rows = optim_rows(&count);
    for (uint32_t i = 0; i < count; i++) {
        row = (struct fe_row){rows[i].name, rows[i].args, rows[i].count, rows[i].doc};
        add_row(&optimizer, OPTIMIZERS, &row);
    }
    for (uint32_t i = 0; fe_schedule_row(i, &row); i++) add_row(&schedule, SCHEDULES, &row);
    for (uint32_t i = 0; fe_initializer_row(out.arena, i, &row); i++) add_row(&initializer, INITIALIZERS, &row);
    for (uint32_t i = 0; fe_adapter_row(i, &row); i++) add_row(&adapter, BLOCKS, &row);
    finish_kinds(&adapter, false, "layers beside those of the model");
    finish_kinds(&optimizer, false, "a gradient transformation, by its name in Optax");
    finish_kinds(&schedule, false, "a schedule: a number that depends on the count of updates");
    finish_kinds(&initializer, false, "an initializer, by its name in jax.nn.initializers");
}

/* clang-format off */
static const struct form { const char *key, *form; } forms[] = { /* of top-level keys: what says more than their kind, or the name of a definition */
    {"stepc", "{\"const\": 1}"},
    {"constants", "{\"type\": \"object\", \"additionalProperties\": {\"anyOf\": [{\"type\": \"number\"}, {\"type\": \"string\"}]}}"},
    {"inputs", "{\"type\": \"object\", \"properties\": {\"//\": {\"type\": \"string\"}}, \"additionalProperties\": {\"$ref\": \"#/$defs/input\"}}"},
    {"define", "{\"type\": \"object\", \"properties\": {\"//\": {\"type\": \"string\"}}, \"additionalProperties\": {\"$ref\": \"#/$defs/define\"}}"},
    {"model", "block"},
    {"loss", "{\"if\": {\"type\": \"object\"}, \"then\": {\"$ref\": \"#/$defs/loss\"}, \"else\": {\"$ref\": \"#/$defs/expression\"}}"},
    {"metrics", "{\"type\": \"object\", \"additionalProperties\": {\"anyOf\": [{\"$ref\": \"#/$defs/expression\"}, {\"type\": \"object\", \"required\": [\"type\"]}]}}"},
    {"optimizer", "optimizer"},
    {"ema", "ema"},
    {"adapters", "{\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/adapter\"}}"},
    {"accumulate", "accumulate"},
    {"per_example", "per_example"},
    {"precision", "precision"},
    {"mesh", "mesh"},
    {"sharding", "sharding"},
    {"memory", "memory"},
    {"seed", "{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"object\", \"additionalProperties\": {\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"string\"}]}}]}"},
}, basics[] = { /* definitions */
    {"arithmetic", "{\"type\": \"string\", \"pattern\": \"^[$]\", \"description\": \"arithmetic over constants: $4*hidden\"}"},
    {"expression", "{\"type\": [\"string\", \"number\", \"boolean\"], \"description\": \"an expression over tensors (stepc doc expressions)\"}"},
    {"literal", "{\"type\": [\"string\", \"number\", \"boolean\", \"null\", \"array\"], \"description\": \"an expression, or a list of them\"}"},
    {"patterns", "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"array\", \"items\": {\"type\": \"string\"}}], \"description\": \"globs over paths of parameters: * within a segment, ** any number of segments, {a,b} either\"}"},
};
/* clang-format on */

static void add_basics(struct json_tree out)
{
    struct arena *a = out.arena;
    struct json_tree names = json_array(a);
    for (int i = IR_TUPLE + 1; i < IR_DTYPE_COUNT; i++) json_add_text(names, NULL, ir_dtype_name((enum ir_dtype)i));
    json_add(out, "dtype", enumeration(names));
    for (size_t i = 0; i < sizeof basics / sizeof *basics; i++)
        json_add(out, basics[i].key, written(a, basics[i].form));
    struct fe_arg any = {.kind = FE_NUMBER};
    json_add(out, "rate", either(number_schema(a, &any, "number"), reference(a, "schedule")));
    json_add(out, "transformation", either(reference(a, "optimizer"), reference(a, "expression")));
    struct fe_row row;
    for (uint32_t i = 0; fe_setting_row(i, &row); i++) {
        struct object o = object(a);
        add_arguments(&o, SETTINGS, &row);
        finish(json_add_object(out, row.name), &o, row.doc);
    }
}

static void add_top_level(struct json_tree out)
{
    struct object o = object(out.arena);
    struct fe_row row;
    for (uint32_t i = 0; fe_key_row(i, &row); i++) {
        struct json_tree form = kind(out.arena, SETTINGS, row.args);
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
            if (strcmp(forms[k].key, row.name) == 0) {
                const char *text = forms[k].form;
                form = *text == '{' ? written(out.arena, text) : reference(out.arena, text);
            }
        json_add(o.properties, row.name, described(form, row.doc, NULL));
        if (row.args->flags & FE_REQUIRED) json_add_text(o.required, NULL, row.name);
    }
    json_add(o.properties, "$schema", described(typed(out.arena, "string"), "the schema that editors check by", NULL));
    finish(out, &o, "a training step of stepc");
    /* Where nothing is defined, all types of blocks are known. */
    json_add(out, "if", written(out.arena, "{\"required\": [\"define\"]}"));
    json_add(out, "else", written(out.arena, "{\"properties\": {\"model\": {\"$ref\": \"#/$defs/closed_block\"}}}"));
}

const char *doc_schema(struct arena *arena)
{
    struct json_tree out = with_text(arena, "$schema", "https://json-schema.org/draft/2020-12/schema");
    json_add_text(out, "$id", "urn:stepc:document:1");
    struct json_tree definitions = json_add_object(out, "$defs");
    add_basics(definitions);
    add_blocks(definitions);
    add_losses(definitions);
    add_transformations(definitions);
    add_top_level(out);
    return json_print_lines(out);
}
