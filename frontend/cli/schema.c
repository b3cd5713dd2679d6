/* stepc doc schema: a JSON Schema (draft 2020-12) of documents, from the tables that the compiler itself works by, for
 * editors that complete and check while one writes. It says what a table can say: keys, kinds, ranges, choices and
 * names; shapes, expressions and patterns are for `stepc check`. A text of the schema is made bottom up, each part a
 * string. */
#include "frontend/cli/doc.h"
#include "frontend/expr/expr.h"
#include "frontend/optim/optim.h"

#include <string.h>

/* Where a row of arguments stands: what its objects are depends on it. */
enum table { BLOCKS, OPTIMIZERS, SCHEDULES, INITIALIZERS, SETTINGS };

/* ---------------------------------------------------------------- texts */

static const char *quoted(struct arena *a, const char *text)
{
    struct str s = STR(a);
    str_add_json(&s, text);
    return str_text(&s);
}

/* Names joined by commas, each as a JSON string. */
static void add_name(struct str *list, const char *name)
{
    if (list->length) str_add(list, ", ");
    str_add_json(list, name);
}

static const char *enumeration(struct str *names)
{
    return arena_format(names->arena, "{\"enum\": [%s]}", str_text(names));
}
static const char *list_of(struct arena *a, const char *item)
{
    return arena_format(a, "{\"type\": \"array\", \"items\": %s}", item);
}
static const char *map_of(struct arena *a, const char *value)
{
    return arena_format(a, "{\"type\": \"object\", \"additionalProperties\": %s}", value);
}
static const char *reference(struct arena *a, const char *name)
{
    return arena_format(a, "{\"$ref\": \"#/$defs/%s\"}", name);
}
static const char *either(struct arena *a, const char *x, const char *y)
{
    return arena_format(a, "{\"anyOf\": [%s, %s]}", x, y);
}

/* ---------------------------------------------------------------- one argument */

/* A number within the range of the flags, or `$` arithmetic. */
static const char *number_schema(struct arena *a, const struct fe_arg *arg, const char *type)
{
    struct str s = STR(a);
    str_addf(&s, "{\"type\": \"%s\"", type);
    if (arg->flags & FE_POSITIVE) str_add(&s, ", \"exclusiveMinimum\": 0");
    else if (arg->flags & (FE_NOT_NEGATIVE | FE_UNIT | FE_UNIT_CLOSED)) str_add(&s, ", \"minimum\": 0");
    if (arg->flags & FE_UNIT) str_add(&s, ", \"exclusiveMaximum\": 1");
    else if (arg->flags & FE_UNIT_CLOSED) str_add(&s, ", \"maximum\": 1");
    str_add(&s, "}");
    return either(a, str_text(&s), reference(a, "arithmetic"));
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
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].table == table && roles[i].many == many && ends_with(arg->name, roles[i].name))
            return roles[i].schema;
    return NULL;
}

static const char *choices(struct arena *a, const struct fe_arg *arg)
{
    struct str names = STR(a);
    for (const char *p = arg->choices; p && *p;) {
        size_t n = strcspn(p, "|");
        add_name(&names, arena_string_n(a, p, n));
        p += n + (p[n] == '|');
    }
    return enumeration(&names);
}

static const char *kind(struct arena *a, enum table table, const struct fe_arg *arg)
{
    const char *inside = role(table, arg), *object = inside ? reference(a, inside) : "true", *text;
    switch (arg->kind) {
    case FE_NUMBER:
    case FE_INTEGER:
        text = number_schema(a, arg, arg->kind == FE_NUMBER ? "number" : "integer");
        /* Inside of inject_hyperparams any number may be a schedule. */
        return table == OPTIMIZERS ? either(a, text, reference(a, "schedule")) : text;
    case FE_SCHEDULE: return either(a, number_schema(a, arg, "number"), reference(a, "schedule"));
    case FE_BOOL: return "{\"type\": \"boolean\"}";
    case FE_STRING: return "{\"type\": \"string\"}";
    case FE_ENUM: return choices(a, arg);
    case FE_EXPR: return reference(a, "expression");
    case FE_DTYPE: return reference(a, "dtype");
    case FE_SHAPE: text = number_schema(a, arg, "integer"); return either(a, text, list_of(a, text));
    case FE_NUMBERS: text = number_schema(a, arg, "number"); return either(a, text, list_of(a, text));
    case FE_OBJECT: return inside ? object : "{\"type\": \"object\"}";
    case FE_LIST: return list_of(a, object);
    case FE_MAP: return map_of(a, object);
    case FE_PATTERNS: return reference(a, "patterns");
    case FE_ANY: break;
    }
    return "true";
}

/* ---------------------------------------------------------------- objects */

struct object {
    struct arena *arena;
    struct str properties, required;
};

static void add_property(struct object *o, const char *name, const char *schema)
{
    if (o->properties.length) str_add(&o->properties, ",\n");
    str_addf(&o->properties, "    %s: %s", quoted(o->arena, name), schema);
}

/* The schema beside others: a description and a default. */
static const char *described(struct arena *a, const char *schema, const char *doc, const char *preset)
{
    struct str s = STR(a);
    if (strcmp(schema, "true") == 0) str_add(&s, "{");
    else str_add_n(&s, schema, strlen(schema) - 1);
    if (doc) str_addf(&s, "%s\"description\": %s", s.length > 1 ? ", " : "", quoted(a, doc));
    if (preset) str_addf(&s, "%s\"default\": %s", s.length > 1 ? ", " : "", preset);
    str_add(&s, "}");
    return str_text(&s);
}

static const char *argument(struct arena *a, enum table table, const struct fe_arg *arg)
{
    const char *schema = kind(a, table, arg), *range = fe_range_text(arg->flags), *doc = fe_kind_text(a, arg);
    if (arg->flags & FE_NULLABLE && strcmp(schema, "true") != 0) schema = either(a, schema, "{\"type\": \"null\"}");
    if (range) doc = arena_format(a, "%s, %s", doc, range);
    return described(a, schema, arg->kind == FE_ANY || arg->kind == FE_ENUM ? NULL : doc, arg->preset);
}

static void add_arguments(struct object *o, enum table table, const struct fe_arg *args, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        add_property(o, args[i].name, argument(o->arena, table, &args[i]));
        if (args[i].flags & FE_REQUIRED) add_name(&o->required, args[i].name);
    }
}

static const char *finish(struct object *o, const char *doc)
{
    struct str s = STR(o->arena);
    str_add(&s, "{\"type\": \"object\"");
    if (doc) str_addf(&s, ", \"description\": %s", quoted(o->arena, doc));
    add_property(o, "//", "{\"type\": \"string\"}");
    str_addf(&s, ", \"properties\": {\n%s},\n    \"required\": [%s], \"additionalProperties\": false}",
             str_text(&o->properties), str_text(&o->required));
    return str_text(&s);
}

static struct object object(struct arena *a) { return (struct object){a, STR(a), STR(a)}; }

/* ---------------------------------------------------------------- choices by "type" */

/* Objects told apart by "type". Each kind has its own definition, and a condition refers to it, so that an editor's
 * complaint is about the kind that was written. */
struct kinds {
    struct arena *arena;
    struct str *out;  /* definitions */
    const char *name; /* "block" */
    struct str names, conditions;
};

static void add_definition(struct str *out, const char *name, const char *schema)
{
    str_addf(out, "  %s: %s,\n", quoted(out->arena, name), schema);
}

static void add_kind(struct kinds *k, const char *type, struct object *o, const char *doc)
{
    const char *own = arena_format(k->arena, "%s.%s", k->name, type), *constant = quoted(k->arena, type);
    add_property(o, "type", arena_format(k->arena, "{\"const\": %s}", constant));
    add_definition(k->out, own, finish(o, doc));
    add_name(&k->names, type);
    str_addf(&k->conditions,
             "%s\n    {\"if\": {\"required\": [\"type\"], \"properties\": {\"type\": {\"const\": %s}}}, \"then\": %s}",
             k->conditions.length ? "," : "", constant, reference(k->arena, own));
}

/* `open`: other types are known elsewhere (to the document). */
static void finish_kinds(struct kinds *k, bool open, const char *doc)
{
    const char *type = enumeration(&k->names);
    if (open) type = either(k->arena, type, "{\"type\": \"string\"}");
    add_definition(k->out, k->name,
                   arena_format(k->arena,
                                "{\"type\": \"object\", \"description\": %s, \"required\": [\"type\"], \"properties\": "
                                "{\"type\": %s}, \"allOf\": [%s]}",
                                quoted(k->arena, doc), type, str_text(&k->conditions)));
}

static struct kinds kinds(struct str *out, const char *name)
{
    return (struct kinds){out->arena, out, name, STR(out->arena), STR(out->arena)};
}

static void add_block_keys(struct object *o)
{
    add_property(o, "name", "{\"type\": \"string\", \"description\": \"segment of the path of its parameters\"}");
    add_property(o, "input",
                 described(o->arena, reference(o->arena, "expression"), "its input; x is what arrives", NULL));
    add_property(
        o, "inputs",
        described(o->arena, list_of(o->arena, reference(o->arena, "expression")), "its positional inputs", NULL));
}

static void add_row(struct kinds *k, enum table table, const struct fe_row *row)
{
    struct object o = object(k->arena);
    add_arguments(&o, table, row->args, row->count);
    if (table == BLOCKS) add_block_keys(&o);
    add_kind(k, row->name, &o, row->doc);
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
    return *word == '\'' ? quoted(a, arena_string_n(a, word + 1, n - 2)) : word;
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
        if (shown) add_property(&o, key, described(a, reference(a, "literal"), NULL, preset));
        if (shown && !preset) add_name(&o.required, key);
    }
    return o;
}

/* ---------------------------------------------------------------- the parts */

static void add_blocks(struct str *out)
{
    struct kinds block = kinds(out, "block"), activation = kinds(out, "activation");
    struct fe_row row;
    size_t count;
    for (uint32_t i = 0; fe_structure_row(i, &row); i++) add_row(&block, BLOCKS, &row);
    for (uint32_t i = 0; fe_layer_row(i, &row); i++) add_row(&block, BLOCKS, &row);
    const struct fe_library *library = fe_library_open(out->arena);
    const char *const *names = fe_function_names(library, FE_ACTIVATION, &count);
    for (size_t i = 0; i < count; i++) {
        struct object o = function_object(out->arena, fe_function_find(library, names[i]), 1);
        add_block_keys(&o);
        add_kind(&activation, names[i], &o, "an activation");
        add_name(&block.names, names[i]);
        str_addf(
            &block.conditions,
            ",\n    {\"if\": {\"required\": [\"type\"], \"properties\": {\"type\": {\"const\": %s}}}, \"then\": %s}",
            quoted(out->arena, names[i]), reference(out->arena, arena_format(out->arena, "activation.%s", names[i])));
    }
    finish_kinds(&block, true, "a block: a structure, a layer, an activation or the name of a definition");
    finish_kinds(&activation, false, "an activation, by its name in jax.nn");
}

static void add_losses(struct str *out)
{
    struct kinds loss = kinds(out, "loss");
    size_t count;
    const struct fe_library *library = fe_library_open(out->arena);
    const char *const *names = fe_function_names(library, FE_LOSS, &count);
    for (size_t i = 0; i < count; i++) {
        const struct fe_function *f = fe_function_find(library, names[i]);
        struct object o = function_object(out->arena, f, 0);
        if (!(f->flags & FE_OWN_REDUCTION)) add_property(&o, "reduction", "{\"enum\": [\"mean\", \"sum\"]}");
        if (!(f->flags & FE_OWN_WEIGHTS)) add_property(&o, "weights", reference(out->arena, "expression"));
        add_kind(&loss, names[i], &o, arena_format(out->arena, "%s(%s)", f->name, fe_signature_text(out->arena, f)));
    }
    finish_kinds(&loss, false, "a loss of Optax; each argument is an expression");
}

static void add_transformations(struct str *out)
{
    struct kinds optimizer = kinds(out, "optimizer"), schedule = kinds(out, "schedule"),
                 initializer = kinds(out, "initializer");
    struct fe_row row;
    uint32_t count;
    const struct optim_row *rows = optim_rows(&count);
    for (uint32_t i = 0; i < count; i++) {
        row = (struct fe_row){rows[i].name, rows[i].args, rows[i].count, rows[i].doc};
        add_row(&optimizer, OPTIMIZERS, &row);
    }
    for (uint32_t i = 0; fe_schedule_row(i, &row); i++) add_row(&schedule, SCHEDULES, &row);
    for (uint32_t i = 0; fe_initializer_row(out->arena, i, &row); i++) add_row(&initializer, INITIALIZERS, &row);
    finish_kinds(&optimizer, false, "a gradient transformation, by its name in Optax");
    finish_kinds(&schedule, false, "a schedule: a number that depends on the count of updates");
    finish_kinds(&initializer, false, "an initializer, by its name in jax.nn.initializers");
}

static void add_basics(struct str *out)
{
    struct str names = STR(out->arena);
    for (int i = IR_TUPLE + 1; i < IR_DTYPE_COUNT; i++) add_name(&names, ir_dtype_name((enum ir_dtype)i));
    add_definition(out, "dtype", enumeration(&names));
    add_definition(
        out, "arithmetic",
        "{\"type\": \"string\", \"pattern\": \"^[$]\", \"description\": \"arithmetic over constants: $4*hidden\"}");
    add_definition(out, "expression",
                   "{\"type\": [\"string\", \"number\", \"boolean\"], \"description\": \"an expression over tensors "
                   "(stepc doc expressions)\"}");
    add_definition(out, "literal",
                   "{\"type\": [\"string\", \"number\", \"boolean\", \"null\", \"array\"], \"description\": \"an "
                   "expression, or a list of them\"}");
    add_definition(out, "patterns",
                   "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"array\", \"items\": {\"type\": \"string\"}}], "
                   "\"description\": \"globs over paths of "
                   "parameters: * within a segment, ** any number of segments, {a,b} either\"}");
    struct fe_arg any = {.kind = FE_NUMBER};
    add_definition(out, "rate",
                   either(out->arena, number_schema(out->arena, &any, "number"), reference(out->arena, "schedule")));
    add_definition(out, "transformation",
                   either(out->arena, reference(out->arena, "optimizer"), reference(out->arena, "expression")));
    struct fe_row row;
    for (uint32_t i = 0; fe_setting_row(i, &row); i++) {
        struct object o = object(out->arena);
        add_arguments(&o, SETTINGS, row.args, row.count);
        add_definition(out, row.name, finish(&o, row.doc));
    }
}

/* Of top-level keys: what says more than their kind. */
/* clang-format off */
static const struct { const char *key, *form; } forms[] = {
    {"stepc", "{\"const\": 1}"},
    {"constants", "{\"type\": \"object\", \"additionalProperties\": {\"anyOf\": [{\"type\": \"number\"}, {\"type\": \"string\"}]}}"},
    {"inputs", "{\"type\": \"object\", \"properties\": {\"//\": {\"type\": \"string\"}}, \"additionalProperties\": {\"$ref\": \"#/$defs/input\"}}"},
    {"define", "{\"type\": \"object\", \"properties\": {\"//\": {\"type\": \"string\"}}, \"additionalProperties\": {\"$ref\": \"#/$defs/define\"}}"},
    {"model", "{\"$ref\": \"#/$defs/block\"}"},
    {"loss", "{\"if\": {\"type\": \"object\"}, \"then\": {\"$ref\": \"#/$defs/loss\"}, \"else\": {\"$ref\": \"#/$defs/expression\"}}"},
    {"metrics", "{\"type\": \"object\", \"additionalProperties\": {\"anyOf\": [{\"$ref\": \"#/$defs/expression\"}, {\"type\": \"object\", \"required\": [\"type\"]}]}}"},
    {"optimizer", "{\"$ref\": \"#/$defs/optimizer\"}"},
    {"ema", "{\"$ref\": \"#/$defs/ema\"}"},
    {"adapters", "{\"type\": \"array\", \"items\": {\"type\": \"object\", \"required\": [\"type\"], \"properties\": {\"type\": {\"const\": \"lora\"}}}}"},
    {"accumulate", "{\"$ref\": \"#/$defs/accumulate\"}"},
    {"per_example", "{\"$ref\": \"#/$defs/per_example\"}"},
    {"precision", "{\"$ref\": \"#/$defs/precision\"}"},
    {"mesh", "{\"$ref\": \"#/$defs/mesh\"}"},
    {"sharding", "{\"$ref\": \"#/$defs/sharding\"}"},
    {"seed", "{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"object\", \"additionalProperties\": {\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"string\"}]}}]}"},
};
/* clang-format on */

static void add_top_level(struct str *out)
{
    static const struct {
        const char *name;
        enum fe_kind kind;
        bool required;
        const char *doc;
    } keys[] = {
#define X(name, kind, required, doc) {#name, kind, required, doc},
#include "frontend/document/document.def"
#undef X
    };
    struct object o = object(out->arena);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct fe_arg like = {.name = keys[i].name, .kind = keys[i].kind};
        const char *form = kind(out->arena, SETTINGS, &like);
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
            if (strcmp(forms[k].key, keys[i].name) == 0) form = forms[k].form;
        add_property(&o, keys[i].name, described(out->arena, form, keys[i].doc, NULL));
        if (keys[i].required) add_name(&o.required, keys[i].name);
    }
    const char *text = finish(&o, "a training step of stepc");
    str_addf(out, "%s", text + 1); /* its brace is open already */
}

const char *doc_schema(struct arena *arena)
{
    struct str definitions = STR(arena), out = STR(arena);
    add_basics(&definitions);
    add_blocks(&definitions);
    add_losses(&definitions);
    add_transformations(&definitions);
    str_add(&out, "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n\"$defs\": {\n");
    str_add_n(&out, str_text(&definitions), definitions.length - 2); /* without the last comma */
    str_add(&out, "},\n");
    add_top_level(&out);
    str_add(&out, "\n");
    return str_text(&out);
}
