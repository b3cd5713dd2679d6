/* The top level of a document: version, name, constants and -D, inputs, mesh and --mesh. What the model, the loss and
 * the optimizer make of their members is theirs; here only their presence and kind is checked. */
#include "frontend/document/document.h"

#include <math.h>
#include <string.h>

enum { LANGUAGE_VERSION = 1, LONGEST_NAME = 1024, MOST_CONSTANTS = 10000, MOST_DEVICES = 4096 };

static const struct fe_arg top_level[] = {
#define X(name, kind, required, doc) {#name, kind, (required) ? FE_REQUIRED : 0, NULL, NULL},
#include "frontend/document/document.def"
#undef X
};
enum {
#define X(name, kind, required, doc) TOP_##name,
#include "frontend/document/document.def"
#undef X
    TOP_COUNT
};

bool fe_key_row(uint32_t index, struct fe_row *out)
{
    static const char *const docs[] = {
#define X(name, kind, required, doc) doc,
#include "frontend/document/document.def"
#undef X
    };
    if (index >= TOP_COUNT) return false;
    *out = (struct fe_row){top_level[index].name, &top_level[index], 1, docs[index]};
    return true;
}

bool fe_is_name(const char *name)
{
    size_t n = fe_name_length(name);
    return n && !name[n] && !(*name >= '0' && *name <= '9') && n <= LONGEST_NAME;
}

bool fe_is_no_tensor(const char *name) { return strcmp(name, "__metadata__") == 0; }

static bool good_name(struct fe *fe, fe_json member, const char *what)
{
    if (fe_is_no_tensor(member->key))
        return fe_wrong_key(fe, member, "E0110", "\"%s\" cannot be %s: it has a meaning in safetensors files",
                            member->key, what);
    if (fe_is_name(member->key)) return true;
    return fe_wrong_key(fe, member, "E0110",
                        "\"%.80s\" cannot be %s: a name has letters, digits and '_', and no digit first", member->key,
                        what);
}

static bool version_and_name(struct fe *fe, const struct fe_value *top)
{
    fe_json v = top[TOP_stepc].json, name = top[TOP_name].json;
    bool good = true;
    if (v && (v->kind != JSON_NUMBER || v->number != LANGUAGE_VERSION))
        good = fe_wrong(fe, v, "E0112", "\"stepc\" is the version of the language, %d; found %s", LANGUAGE_VERSION,
                        fe_found(fe, v));
    if (!name || name->kind != JSON_STRING) return good;
    if (!*name->string || strlen(name->string) > LONGEST_NAME)
        return fe_wrong(fe, name, "E0110", "\"name\" has 1 to %d bytes", LONGEST_NAME);
    fe->module->name = arena_string(&fe->module->arena, name->string);
    return good;
}

/* ---------------------------------------------------------------- constants */

/* The value of -D name=value: a JSON number. */
static bool define_value(struct fe *fe, const struct fe_define *define, double *value, bool *integer)
{
    struct json json;
    struct json_error error;
    bool read = json_scan(fe->arena, define->value, strlen(define->value), NULL, &json, &error);
    if (!read || json.values[0].kind != JSON_NUMBER) {
        struct diag *d = fe_error(fe, NULL, "E0109", "-D %s=%.80s: the value is a number", define->name, define->value);
        if (!read && strchr("-0123456789", define->value[0])) d->hint = error.message;
        return false;
    }
    *value = json.values[0].number;
    *integer = !strpbrk(define->value, ".eE");
    return true;
}

static bool check_defines(struct fe *fe, fe_json constants)
{
    bool good = true;
    uint32_t count = fe_count(fe, constants), n = 0;
    const char **names = arena_new_array(fe->arena, const char *, count + 1);
    for (fe_json c = fe_first(fe, constants); c; c = fe_next(fe, c)) names[n++] = c->key;
    for (size_t i = 0; i < fe->options->define_count; i++) {
        const char *name = fe->options->defines[i].name;
        if (fe_member(fe, constants, name)) continue;
        struct diag *d = fe_error(fe, NULL, "E0109", "-D %s=%.80s: the document has no constant \"%s\"", name,
                                  fe->options->defines[i].value, name);
        fe_suggest(fe, d, name, names, count);
        good = false;
    }
    return good;
}

static bool read_constants(struct fe *fe, fe_json constants)
{
    bool good = check_defines(fe, constants);
    if (fe_count(fe, constants) > MOST_CONSTANTS)
        return fe_wrong_key(fe, constants, "E0103", "more than %d constants", MOST_CONSTANTS);
    for (fe_json c = fe_first(fe, constants); c; c = fe_next(fe, c)) {
        double value = NAN; /* of a constant in error: what uses it says nothing more */
        bool integer = true, right = good_name(fe, c, "the name of a constant");
        if (!strcmp(c->key, "True") || !strcmp(c->key, "False") || !strcmp(c->key, "None"))
            right = fe_wrong_key(fe, c, "E0110", "\"%s\" is a word of expressions, and cannot be a constant", c->key);
        const struct fe_define *define = fe_define_find(fe, c->key);
        if (define) right &= define_value(fe, define, &value, &integer);
        else right &= fe_number_kind(fe, c, &value, &integer);
        fe_constant_push(fe, c->key, right ? value : NAN, integer);
        good &= right;
    }
    return good;
}

/* ---------------------------------------------------------------- inputs */

enum { IN_shape, IN_dtype, IN_axes, IN_COUNT };
/* What expressions call by these names. */
static const char *const reserved[] = {"model",      "loss", "params", "grads", "updates", "hyperparams",
                                       "loss_scale", "True", "False",  "None",  NULL};

/* Type of `shape` and `dtype`, within the limits. */
bool fe_type(struct fe *fe, fe_json shape, const int64_t *dim, uint32_t rank, enum ir_dtype dtype, struct ir_type *out)
{
    if (rank > IR_MAX_RANK)
        return fe_wrong(fe, shape, "E0202", "a shape of %u dimensions; at most %d are supported", rank, IR_MAX_RANK);
    *out = ir_type_of(dtype, rank, dim);
    for (uint32_t i = 0; i < rank; i++)
        if (dim[i] < 0)
            return fe_wrong(fe, shape, "E0203", "%s has a negative dimension", ir_type_text(fe->arena, out));
    if (ir_type_elements(out) >= 0) return true;
    return fe_wrong(fe, shape, "E0203", "%s has 2^48 elements or more, which is the limit",
                    ir_type_text(fe->arena, out));
}

static bool read_axes(struct fe *fe, fe_json axes, uint32_t rank, uint32_t *batch)
{
    uint32_t i = 0, count = fe_count(fe, axes);
    if (count != rank)
        return fe_wrong(fe, axes, "E0202", "\"axes\" has %u entries for a shape of %u dimensions", count, rank);
    for (fe_json axis = fe_first(fe, axes); axis; axis = fe_next(fe, axis), i++) {
        if (axis->kind == JSON_NULL) continue;
        if (axis->kind != JSON_STRING || !*axis->string)
            return fe_wrong(fe, axis, "E0101", "an axis is a name (a string) or null, found %s", fe_found(fe, axis));
        for (fe_json before = fe_first(fe, axes); before != axis; before = fe_next(fe, before))
            if (before->kind == JSON_STRING && strcmp(before->string, axis->string) == 0)
                return fe_wrong(fe, axis, "E0406", "\"%s\" names two dimensions of one input", axis->string);
        if (strcmp(axis->string, "batch") == 0) *batch |= 1u << i;
    }
    return true;
}

static bool read_input(struct fe *fe, fe_json input, struct ir_slot *slot)
{
    struct fe_value v[IN_COUNT];
    const char *what = arena_format(fe->arena, "input \"%.80s\"", input->key);
    bool good = good_name(fe, input, "the name of an input");
    for (const char *const *r = reserved; *r; r++)
        if (strcmp(*r, input->key) == 0)
            good = fe_wrong_key(fe, input, "E0110",
                                "\"%s\" cannot be the name of an input: it has a meaning in expressions", *r);
    if (fe_constant(fe, input->key))
        good = fe_wrong_key(fe, input, "E0110", "\"%s\" is the name of a constant already", input->key);
    if (!fe_setting(fe, FE_SETTING_input, input, what, v)) return false;
    enum ir_dtype dtype = v[IN_dtype].given ? fe_dtype(fe, v[IN_dtype].json)
                                            : v[IN_dtype].dtype; /* 64 bits as the host has them */
    *slot = (struct ir_slot){.name = input->key, .role = IR_ROLE_INPUT, .place = fe_place(fe, input)};
    if (!fe_type(fe, v[IN_shape].json, v[IN_shape].shape, v[IN_shape].rank, dtype, &slot->type)) return false;
    /* What computes is 32 bits wide: a number that does not fit is an error of the batch, not another number. */
    if (dtype == IR_I64) slot->initial = INT32_MIN, slot->index_limit = -(int64_t)INT32_MIN;
    if (dtype == IR_U64) slot->index_limit = (int64_t)UINT32_MAX + 1;
    if (v[IN_axes].json && !read_axes(fe, v[IN_axes].json, slot->type.rank, &slot->batch_dims)) return false;
    return good;
}

static bool read_inputs(struct fe *fe, fe_json inputs)
{
    bool good = true;
    uint32_t count = fe_count(fe, inputs);
    uint32_t *slots = arena_new_array(fe->arena, uint32_t, count + 1);
    fe_json batched = NULL; /* the shape of the first input with a batch */
    int64_t batch = 0;
    fe->inputs = slots;
    for (fe_json input = fe_first(fe, inputs); input; input = fe_next(fe, input)) {
        struct ir_slot slot;
        if (!read_input(fe, input, &slot)) {
            good = false;
            continue;
        }
        slots[fe->input_count++] = ir_slot_new(fe->module, slot);
        fe_json shape = fe_member(fe, input, "shape");
        if (!(slot.batch_dims & 1)) continue;
        if (!batched) {
            batched = shape;
            batch = slot.type.dim[0];
        } else if (slot.type.dim[0] != batch) {
            struct diag *d = fe_error(fe, shape, "E0204",
                                      "the batch of input \"%s\" has %lld rows, that of an earlier one %lld",
                                      input->key, (long long)slot.type.dim[0], (long long)batch);
            diag_note(fe->diags, d, (struct diag_span){batched->offset, batched->length}, "%lld rows here",
                      (long long)batch);
            good = false;
        }
    }
    return good;
}

/* "partial_batches": the input that says how many rows count; what has rows says so from here on. */
static bool add_rows_input(struct fe *fe, fe_json json)
{
    struct ir_slot rows = {.name = IR_ROWS_INPUT,
                           .role = IR_ROLE_INPUT,
                           .type = ir_type_scalar(IR_I32),
                           .initial = 1, /* without a row there is no mean; more than there are: all */
                           .index_limit = (int64_t)INT32_MAX + 1,
                           .place = fe_place(fe, json)};
    bool any = false;
    for (uint32_t i = 0; i < fe->input_count; i++) {
        struct ir_slot *slot = &fe->module->slots.items[fe->inputs[i]];
        if (!slot->batch_dims && fe_input_batched(fe, i)) slot->batch_dims = 1;
        any |= slot->batch_dims != 0;
        for (uint32_t d = 0; fe->options->twice && d < slot->type.rank; d++)
            if (slot->batch_dims >> d & 1) slot->type.dim[d] *= 2;
    }
    if (!any) return fe_wrong(fe, json, "E0430", "no input has a batch: its \"axes\" begin with \"batch\"");
    uint32_t *slots = arena_new_array(fe->arena, uint32_t, fe->input_count + 2);
    memcpy(slots, fe->inputs, fe->input_count * sizeof *slots);
    slots[fe->input_count++] = ir_slot_new(fe->module, rows);
    fe->inputs = slots;
    return true;
}

uint32_t fe_inputs(const struct fe *fe, const uint32_t **slots)
{
    *slots = fe->inputs;
    return fe->input_count;
}

bool fe_input_batched(struct fe *fe, uint32_t index)
{
    const struct ir_slot *slot = &fe->module->slots.items[fe->inputs[index]];
    fe_json input = fe_member(fe, fe_member(fe, fe_root(fe), "inputs"), slot->name);
    return slot->type.rank > 0 && (slot->batch_dims & 1 || !fe_member(fe, input, "axes"));
}

/* ---------------------------------------------------------------- mesh */

static bool add_axis(struct fe *fe, fe_json where, const char *name, int64_t size)
{
    struct ir_mesh *mesh = &fe->module->mesh;
    int64_t devices = size;
    for (uint32_t i = 0; i < mesh->axis_count; i++) devices *= mesh->size[i]; /* each factor is at most 4096 */
    if (size < 1 || size > MOST_DEVICES)
        return fe_wrong(fe, where, where ? "E0103" : "E0109", "mesh axis \"%s\" has size %lld; a size is 1 to %d", name,
                        (long long)size, MOST_DEVICES);
    if (devices > MOST_DEVICES)
        return fe_wrong(fe, where, where ? "E0103" : "E0109", "a mesh of %lld devices; at most %d are supported",
                        (long long)devices, MOST_DEVICES);
    if (mesh->axis_count == IR_MAX_AXES)
        return fe_wrong(fe, where, where ? "E0103" : "E0109", "mesh axis \"%s\": more than %d axes", name, IR_MAX_AXES);
    mesh->name[mesh->axis_count] = arena_string(&fe->module->arena, name);
    mesh->size[mesh->axis_count++] = size;
    return true;
}

static bool has_axis(const struct fe *fe, const char *name)
{
    for (uint32_t i = 0; i < fe->module->mesh.axis_count; i++)
        if (strcmp(fe->module->mesh.name[i], name) == 0) return true;
    return false;
}

/* --mesh data=2,model=4 */
static bool read_mesh_option(struct fe *fe, const char *text)
{
    for (const char *p = text; *p || p == text;) {
        size_t n = strcspn(p, ","), name_length = strcspn(p, "=,"), at = name_length + 1;
        char *name = arena_string_n(fe->arena, p, name_length);
        int64_t size = 0;
        bool good = fe_is_name(name) && p[name_length] == '=' && at < n && n - at <= 9;
        for (; good && at < n; at++) {
            good = p[at] >= '0' && p[at] <= '9';
            size = size * 10 + (p[at] - '0');
        }
        if (!good)
            return fe_wrong(fe, NULL, "E0109", "--mesh %.200s: expected AXIS=N,AXIS=N,..., found \"%.*s\"", text,
                            (int)(n > 80 ? 80 : n), p);
        if (has_axis(fe, name))
            return fe_wrong(fe, NULL, "E0109", "--mesh %.200s: axis \"%s\" is given twice", text, name);
        if (!add_axis(fe, NULL, name, size)) return false;
        p += n;
        if (*p == ',' && p[1]) p++;
        else if (*p == ',') return fe_wrong(fe, NULL, "E0109", "--mesh %.200s: it ends with a comma", text);
    }
    return true;
}

static bool read_mesh(struct fe *fe, fe_json mesh)
{
    struct fe_value v[1];
    const char *option = fe->options->mesh;
    bool good = !option || read_mesh_option(fe, option);
    if (!mesh) return good;
    fe_json bare = mesh->kind == JSON_OBJECT && !fe_member(fe, mesh, "axes") ? fe_first(fe, mesh) : NULL;
    if (bare && bare->kind == JSON_NUMBER) { /* the axes themselves: one mistake, and specs that name them are none */
        struct str hint = STR(fe->arena);
        for (fe_json axis = bare; axis; axis = fe_next(fe, axis))
            str_addf(&hint, "%s\"%.80s\": %.*s", axis == bare ? "" : ", ", axis->key,
                     (int)(axis->length < 80 ? axis->length : 80), fe->json.text + axis->offset);
        fe_error(fe, mesh, "E0102", "\"mesh\" needs \"axes\" around its axes")->hint = arena_format(
            fe->arena, "\"mesh\": {\"axes\": {%s}}", str_text(&hint));
        v[0].json = mesh;
        good = false;
    } else if (!fe_setting(fe, FE_SETTING_mesh, mesh, "\"mesh\"", v)) return false;
    for (fe_json axis = fe_first(fe, v[0].json); axis; axis = fe_next(fe, axis)) {
        int64_t size;
        if (!good_name(fe, axis, "the name of a mesh axis") || !fe_integer(fe, axis, &size)) good = false;
        else if (!option) good &= add_axis(fe, axis, axis->key, size);
        /* An axis that --mesh leaves out has one device, so that rules and specs which name it keep a meaning. */
        else if (!has_axis(fe, axis->key) && fe->module->mesh.axis_count < IR_MAX_AXES)
            good &= add_axis(fe, axis, axis->key, 1);
    }
    return good;
}

/* ---------------------------------------------------------------- definitions */

/* The form of every definition, used or not; what its body means is the model's. */
static bool check_definitions(struct fe *fe, fe_json defines)
{
    bool good = true;
    for (fe_json define = fe_first(fe, defines); define; define = fe_next(fe, define)) {
        struct fe_value v[3];
        good &= fe_setting(fe, FE_SETTING_define, define, arena_format(fe->arena, "define \"%.80s\"", define->key), v);
        if (define->kind != JSON_OBJECT) continue;
        if (v[0].json && v[0].json->kind == JSON_OBJECT)
            for (fe_json p = fe_first(fe, v[0].json); p; p = fe_next(fe, p))
                good &= good_name(fe, p, "the name of a parameter");
        if (!v[1].json || v[1].json->kind != JSON_ARRAY) continue;
        for (fe_json input = fe_first(fe, v[1].json); input; input = fe_next(fe, input)) {
            if (input->kind == JSON_STRING && fe_is_name(input->string)) continue;
            fe_error(fe, input, "E0101", "the inputs of a definition are names (strings), found %s",
                     fe_found(fe, input));
            good = false;
        }
    }
    return good;
}

/* ---------------------------------------------------------------- the whole */

bool fe_document(struct fe *fe)
{
    static const struct fe_options no_options;
    struct fe_value top[TOP_COUNT];
    if (!fe->options) fe->options = &no_options;
    if (!fe->module) fe->module = ir_module_new("step");
    fe_json root = fe_root(fe);
    if (root->kind != JSON_OBJECT)
        return fe_wrong(fe, root, "E0101", "a document is an object {...}, found %s", fe_found(fe, root));
    bool good = fe_settings(fe, root, "the document", top_level, TOP_COUNT, NULL, top);
    good &= version_and_name(fe, top);
    fe_json constants = top[TOP_constants].json, inputs = top[TOP_inputs].json, mesh = top[TOP_mesh].json;
    if (!constants || constants->kind == JSON_OBJECT) good &= read_constants(fe, constants);
    if (!inputs || inputs->kind == JSON_OBJECT) good &= read_inputs(fe, inputs);
    if (!mesh || mesh->kind == JSON_OBJECT) good &= read_mesh(fe, mesh);
    if (good && top[TOP_partial_batches].boolean) good = add_rows_input(fe, top[TOP_partial_batches].json);
    fe_json sharding = top[TOP_sharding].json, defines = top[TOP_define].json;
    if (defines && defines->kind == JSON_OBJECT) good &= check_definitions(fe, defines);
    if (sharding && sharding->kind == JSON_OBJECT) good &= fe_sharding_form(fe, sharding);
    if (good) fe_sharding_inputs(fe), fe_sharding_slips(fe);
    if (good) fe->module->document = arena_string(&fe->module->arena, fe_text(fe, root));
    return good;
}
