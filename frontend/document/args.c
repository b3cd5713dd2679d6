/* Typed reading of an object by a table of arguments. Layers, losses, optimizers, schedules and the top-level
 * settings all come through here, so an unknown key, a missing one or a value of the wrong kind reads the same
 * everywhere. */
#include "frontend/document/arguments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct fe *fe;
    const char *what;
    const struct fe_arg *row;
};

/* ---------------------------------------------------------------- numbers */

const char *fe_range_text(uint32_t flags)
{
    static const struct {
        uint32_t flags;
        const char *text;
    } texts[] = {{FE_POSITIVE | FE_UNIT, "more than 0 and less than 1"},
                 {FE_POSITIVE | FE_UNIT_CLOSED, "more than 0 and at most 1"},
                 {FE_POSITIVE, "more than 0"},
                 {FE_NOT_NEGATIVE, "at least 0"},
                 {FE_UNIT, "at least 0 and less than 1"},
                 {FE_UNIT_CLOSED, "between 0 and 1"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if ((flags & texts[i].flags) == texts[i].flags) return texts[i].text;
    return NULL;
}

static bool in_range(uint32_t flags, double x)
{
    if (flags & FE_POSITIVE && !(x > 0)) return false;
    if (flags & FE_NOT_NEGATIVE && !(x >= 0)) return false;
    if (flags & FE_UNIT && !(x >= 0 && x < 1)) return false;
    if (flags & FE_UNIT_CLOSED && !(x >= 0 && x <= 1)) return false;
    return true;
}

static bool check_range(const struct reader *r, fe_json v, double x)
{
    if (in_range(r->row->flags, x)) return true;
    struct str number = STR(r->fe->arena);
    str_add_number(&number, x, false);
    struct diag *d = fe_error(r->fe, v, "E0103", "%s: \"%s\" must be %s, found %s", r->what, r->row->name,
                              fe_range_text(r->row->flags), str_text(&number));
    d->label = arena_format(r->fe->arena, "expected %s", fe_range_text(r->row->flags));
    return false;
}

/* ---------------------------------------------------------------- kinds */

/* What a value in a document can be taken for. */
enum { AS_NUMBER = 1, AS_TEXT = 2, AS_BOOL = 4, AS_ARRAY = 8, AS_OBJECT = 16, AS_NULL = 32, AS_ANY = 63 };

/* clang-format off */
static const struct { const char *text; uint8_t accepts; } kinds[] = {
    [FE_NUMBER] = {"a number", AS_NUMBER}, [FE_INTEGER] = {"an integer", AS_NUMBER}, [FE_BOOL] = {"true or false", AS_BOOL},
    [FE_STRING] = {"a string", AS_TEXT}, [FE_ENUM] = {"one of", AS_TEXT},
    [FE_SCHEDULE] = {"a number, a formula of `step` or a schedule", AS_NUMBER | AS_TEXT | AS_OBJECT},
    [FE_EXPR] = {"an expression (a string) or a number", AS_NUMBER | AS_TEXT | AS_BOOL},
    [FE_DTYPE] = {"a dtype (a string)", AS_TEXT}, [FE_SHAPE] = {"an array of integers", AS_ARRAY | AS_NUMBER},
    [FE_NUMBERS] = {"an array of numbers", AS_ARRAY | AS_NUMBER}, [FE_OBJECT] = {"an object", AS_OBJECT},
    [FE_LIST] = {"an array", AS_ARRAY}, [FE_PATTERNS] = {"a pattern or an array of patterns", AS_TEXT | AS_ARRAY},
    [FE_MAP] = {"an object", AS_OBJECT}, [FE_ANY] = {"a value", AS_ANY}};
/* clang-format on */

/* A string that starts with $ is arithmetic, and as such a number. */
static uint32_t taken_for(fe_json v)
{
    static const uint8_t forms[] = {
        [JSON_NULL] = AS_NULL,   [JSON_FALSE] = AS_BOOL,  [JSON_TRUE] = AS_BOOL,    [JSON_NUMBER] = AS_NUMBER,
        [JSON_STRING] = AS_TEXT, [JSON_ARRAY] = AS_ARRAY, [JSON_OBJECT] = AS_OBJECT};
    return forms[v->kind] | (v->kind == JSON_STRING && v->string[0] == '$' ? AS_NUMBER : 0u);
}

bool fe_is_schedule(fe_json v)
{
    return v && (v->kind == JSON_OBJECT || (v->kind == JSON_STRING && v->string[0] != '$'));
}

const char *fe_kind_text(struct arena *a, const struct fe_arg *row)
{
    return row->flags & FE_NULLABLE ? arena_format(a, "%s or null", kinds[row->kind].text) : kinds[row->kind].text;
}

static bool wrong_kind(const struct reader *r, fe_json v)
{
    const char *want = fe_kind_text(r->fe->arena, r->row);
    if (r->row->kind == FE_ENUM) want = "a string";
    struct diag *d = fe_error(r->fe, v, "E0101", "%s: \"%s\" must be %s, found %s", r->what, r->row->name, want,
                              fe_found(r->fe, v));
    d->label = arena_format(r->fe->arena, "expected %s", want);
    const char *as = v->kind == JSON_STRING ? "string" : v->kind == JSON_ARRAY ? "array" : "number";
    if (!strcmp(r->what, "the document")) d->hint = fe_foreign(as, r->row->name);
    else if (r->row->kind == FE_OBJECT && v->kind == JSON_STRING)
        d->hint = arena_format(r->fe->arena, "\"%s\": {\"type\": \"%s\"}", r->row->name, v->string);
    return false;
}

enum { CHOICES = 32 };
static bool find_choice(const char *const *names, size_t count, const char *name, struct fe_value *out)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) != 0) continue;
        out->string = names[i];
        out->integer = (int64_t)i;
        return true;
    }
    return false;
}

static bool read_choice(const struct reader *r, fe_json v, struct fe_value *out)
{
    const char *names[CHOICES];
    size_t count = str_choices(r->fe->arena, r->row->choices, names, CHOICES);
    if (find_choice(names, count, v->string, out)) return true;
    struct diag *d = fe_error(r->fe, v, "E0103", "%s: \"%s\" has no choice %s", r->what, r->row->name,
                              fe_found(r->fe, v));
    fe_suggest(r->fe, d, v->string, names, count);
    return false;
}

enum ir_dtype fe_dtype(struct fe *fe, fe_json v)
{
    if (v->kind != JSON_STRING) {
        fe_error(fe, v, "E0101", "expected a dtype (a string), found %s", fe_found(fe, v));
        return IR_TUPLE;
    }
    enum ir_dtype dtype = ir_dtype_find(v->string);
    if (dtype != IR_TUPLE) return dtype;
    const char *names[IR_DTYPE_COUNT];
    size_t count = 0;
    for (int i = IR_TUPLE + 1; i < IR_DTYPE_COUNT; i++) names[count++] = ir_dtype_name((enum ir_dtype)i);
    struct diag *d = fe_error(fe, v, "E0201", "unknown dtype %s", fe_found(fe, v));
    fe_suggest(fe, d, v->string, names, count);
    d->replacement = NULL; /* another dtype is another meaning */
    return IR_TUPLE;
}

enum ir_dtype fe_dtype_narrow(enum ir_dtype dtype)
{
    return dtype == IR_F64 ? IR_F32 : dtype == IR_I64 ? IR_I32 : dtype == IR_U64 ? IR_U32 : dtype;
}

/* Arrays of integers or numbers; a single one stands for an array of one. */
static bool read_array(const struct reader *r, fe_json v, struct fe_value *out)
{
    bool shape = r->row->kind == FE_SHAPE, good = true;
    bool single = v->kind != JSON_ARRAY;
    uint32_t n = single ? 1 : fe_count(r->fe, v), i = 0;
    if (shape && n > IR_MAX_RANK)
        return fe_wrong(r->fe, v, "E0202", "%s: \"%s\" has at most %d entries, found %u", r->what, r->row->name,
                        IR_MAX_RANK, n);
    int64_t *dims = arena_new_array(r->fe->arena, int64_t, n + 1);
    double *numbers = arena_new_array(r->fe->arena, double, n + 1);
    for (fe_json x = single ? v : fe_first(r->fe, v); x; x = single ? NULL : fe_next(r->fe, x), i++) {
        if (shape) good &= fe_integer(r->fe, x, &dims[i]) && check_range(r, x, (double)dims[i]);
        else good &= fe_number(r->fe, x, &numbers[i]) && check_range(r, x, numbers[i]);
        if (shape) numbers[i] = (double)dims[i];
    }
    out->shape = dims;
    out->numbers = numbers;
    out->rank = n;
    return good;
}

static bool read_patterns(const struct reader *r, fe_json v)
{
    if (v->kind == JSON_STRING) return true;
    for (fe_json x = fe_first(r->fe, v); x; x = fe_next(r->fe, x))
        if (x->kind != JSON_STRING)
            return fe_wrong(r->fe, x, "E0101", "%s: a pattern in \"%s\" is a string, found %s", r->what, r->row->name,
                            fe_found(r->fe, x));
    return true;
}

/* A number in quotes, which is seldom meant as a formula. */
static bool is_number_text(const char *s) { return !s[strspn(s, "0123456789.eE+- ")]; }

static bool read_value(const struct reader *r, fe_json v, struct fe_value *out)
{
    if (v->kind == JSON_NULL && r->row->flags & FE_NULLABLE) {
        out->null = true;
        return true;
    }
    if (!(taken_for(v) & kinds[r->row->kind].accepts)) return wrong_kind(r, v);
    bool good = true;
    if (v->kind == JSON_STRING) out->string = v->string;
    if (v->kind == JSON_NUMBER) out->number = v->number;
    out->boolean = v->kind == JSON_TRUE;
    switch (r->row->kind) {
    case FE_NUMBER:
        good = fe_number(r->fe, v, &out->number) && check_range(r, v, out->number);
        out->integer = fabs(out->number) < 9e15 ? (int64_t)out->number : 0;
        return good;
    case FE_INTEGER:
        good = (r->row->flags & FE_SEED ? fe_integer : fe_count32)(r->fe, v, &out->integer);
        good = good && check_range(r, v, (double)out->integer);
        out->number = (double)out->integer;
        return good;
    case FE_ENUM: return read_choice(r, v, out);
    case FE_SCHEDULE:
        if (v->kind == JSON_OBJECT) return fe_type_of(r->fe, v) != NULL;
        if (fe_is_schedule(v)) return !is_number_text(v->string) || wrong_kind(r, v);
        return fe_number(r->fe, v, &out->number) && check_range(r, v, out->number);
    case FE_DTYPE:
        out->dtype = fe_dtype_narrow(fe_dtype(r->fe, v)); /* of every table; inputs look at the document themselves */
        return out->dtype != IR_TUPLE;
    case FE_SHAPE:
    case FE_NUMBERS: return read_array(r, v, out);
    case FE_PATTERNS: return read_patterns(r, v);
    default: return true;
    }
}

/* ---------------------------------------------------------------- defaults */

static void read_preset(const struct reader *r, struct fe_value *out)
{
    const char *text = r->row->preset;
    if (!text || strcmp(text, "null") == 0) {
        out->null = true;
        return;
    }
    struct json json;
    struct json_error error;
    if (!json_scan(r->fe->arena, text, strlen(text), NULL, &json, &error))
        BUG("the default of \"%s\" of %s is not JSON: %s", r->row->name, r->what, text);
    const struct json_value *v = json.values;
    out->number = v->number;
    out->integer = fabs(v->number) < 9e15 ? (int64_t)v->number : 0;
    out->boolean = v->kind == JSON_TRUE;
    if (v->kind == JSON_STRING) out->string = v->string;
    if (r->row->kind == FE_DTYPE) out->dtype = ir_dtype_find(out->string);
    const char *names[CHOICES];
    if (r->row->kind == FE_ENUM)
        find_choice(names, str_choices(r->fe->arena, r->row->choices, names, CHOICES), out->string, out);
    if (v->kind != JSON_ARRAY) return;
    int64_t *dims = arena_new_array(r->fe->arena, int64_t, v->count + 1);
    double *numbers = arena_new_array(r->fe->arena, double, v->count + 1);
    for (uint32_t i = v->first; i; i = json.values[i].next) {
        numbers[out->rank] = json.values[i].number;
        dims[out->rank++] = fe_whole(json.values[i].number);
    }
    out->shape = dims;
    out->numbers = numbers;
}

/* ---------------------------------------------------------------- the object */

static bool listed(const char *key, const char *const *also)
{
    for (; also && *also; also++)
        if (strcmp(*also, key) == 0) return true;
    return false;
}

/* What users of other libraries mean by a key: what to write here; NULL: nothing is known. */
static const char *why_not(const char *key, const char *what)
{
    static const char *const scopes[] = {"the document", "optimizer",   "layer", "loss", "input",
                                         "schedule",     "initializer", "block", "mesh", "precision"};
    what += *what == '"';
    size_t length = strlen(key), ending = strlen("_metadata");
    if (length > ending && !strcmp(key + length - ending, "_metadata"))
        return "metadata of parameters is their sharding, which stands in \"sharding\"";
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
        if (!strncmp(what, scopes[i], strlen(scopes[i]))) return fe_foreign(i ? scopes[i] : "document", key);
    return fe_foreign("", key);
}

static const char *keys(struct arena *arena, const char *const *names, size_t count)
{
    struct str all = STR(arena);
    for (size_t i = 0; i < count; i++) str_addf(&all, "%s%s", i ? ", " : "the keys are ", names[i]);
    return count ? str_text(&all) : "there is no key but \"type\"";
}

const char *fe_note_meaning(struct fe *fe, struct diag *d, const char *owner, const char *common, const char *word,
                            const char *const *names, size_t count)
{
    const char *nearest = str_nearest(word, names, count),
               *meaning = nearest ? fe_meaning(owner, common, nearest) : NULL;
    if (d && meaning) diag_note(fe->diags, d, (struct diag_span){0, 0}, "\"%s\" of %s: %s", nearest, owner, meaning);
    return nearest;
}

/* Whether what is said of a word of another library begins with this argument, as a line to paste does. */
static bool begins_with(const char *why, const char *name)
{
    size_t n = strlen(name);
    return why && *why == '"' && !strncmp(why + 1, name, n) && why[n + 1] == '"';
}

/* Records the error and returns the argument that was probably meant, `count` if there is none. */
static uint32_t unknown_key(struct fe *fe, fe_json member, const char *what, const struct fe_arg *rows, uint32_t count,
                            const char *const *also)
{
    size_t n = 0, room = count + 1;
    if (fe->diags->errors > DIAG_RECORDED) {
        fe->diags->errors++;
        return count;
    }
    for (const char *const *p = also; p && *p; p++) room++;
    const char **names = arena_new_array(fe->arena, const char *, room);
    for (uint32_t i = 0; i < count; i++) names[n++] = rows[i].name;
    for (; also && *also; also++) names[n++] = *also;
    struct diag *d = fe_error_key(fe, member, "E0107", "unknown key \"%s\" in %s", member->key, what);
    fe_suggest(fe, d, member->key, names, n);
    const char *why = why_not(member->key, what);
    if (d && (why || !d->hint)) d->hint = why ? why : keys(fe->arena, names, n);
    const char *nearest = fe_note_meaning(fe, d, what, "", member->key, names, n);
    for (uint32_t i = 0; i < count; i++)
        if (nearest == rows[i].name || begins_with(why, rows[i].name)) return i;
    return count;
}

/* Where something that is wanted here stands one object too deep: a brace was closed too late. */
static void note_astray(struct fe *fe, struct diag *d, fe_json object, const char *name)
{
    for (fe_json m = fe_first(fe, object); m; m = fe_next(fe, m)) {
        fe_json found = m->kind == JSON_OBJECT ? fe_member(fe, m, name) : NULL;
        if (found)
            diag_note(fe->diags, d, (struct diag_span){found->offset, found->length},
                      "\"%s\" stands inside \"%s\" here", name, m->key);
    }
}

/* What is not given: defaults, and one error for all that is required. */
static bool read_absent(struct fe *fe, fe_json object, const char *what, const struct fe_arg *rows, uint32_t count,
                        const bool *meant, struct fe_value *out)
{
    struct str missing = STR(fe->arena);
    for (uint32_t i = 0; i < count; i++) {
        if (out[i].given) continue;
        if (meant[i]) continue; /* its misspelling was reported */
        if (rows[i].flags & FE_REQUIRED) {
            const char *join = missing.length ? ", and " : "";
            str_addf(&missing, "%s\"%s\"", join, rows[i].name);
            if (rows[i].kind != FE_ANY) str_addf(&missing, " (%s)", fe_kind_text(fe->arena, &rows[i]));
            continue;
        }
        struct reader r = {fe, what, &rows[i]};
        read_preset(&r, &out[i]);
    }
    if (!missing.length) return true;
    struct diag *d = fe_error(fe, object, "E0102", "%s needs %s", what, str_text(&missing));
    for (uint32_t i = 0; d && i < count; i++)
        if (!out[i].given && !meant[i] && rows[i].flags & FE_REQUIRED) note_astray(fe, d, object, rows[i].name);
    return false;
}

static bool is_called(const struct fe_arg *row, const char *key)
{
    return !strcmp(row->name, key) || (row->kind == FE_MAP && row->choices && !strcmp(row->choices, key));
}

/* What begins (X_init, Y_X_init) where "use_X": false says that it is not there. */
static void warn_of_unused(struct fe *fe, const char *what, const struct fe_arg *rows, uint32_t count,
                           const struct fe_value *out)
{
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].kind != FE_BOOL || strncmp(rows[i].name, "use_", 4) != 0 || !out[i].json || out[i].boolean)
            continue;
        const char *init = arena_format(fe->arena, "%s_init", rows[i].name + 4);
        for (uint32_t k = 0; k < count; k++) {
            size_t length = strlen(rows[k].name), n = strlen(init);
            bool same = length >= n && !strcmp(rows[k].name + length - n, init) &&
                        (length == n || rows[k].name[length - n - 1] == '_');
            if (same && out[k].json && !out[k].null)
                fe_warning_key(fe, out[k].json, "W0407", "%s: \"%s\" without effect: \"%s\" is false", what,
                               rows[k].name, rows[i].name);
        }
    }
}

bool fe_args(struct fe *fe, fe_json object, const char *what, const struct fe_arg *rows, uint32_t count,
             const char *const *also, struct fe_value *out)
{
    bool good = true, *meant = arena_new_array(fe->arena, bool, count + 1);
    if (count) memset(out, 0, count * sizeof *out);
    if (object && object->kind != JSON_OBJECT) {
        struct diag *d = fe_error(fe, object, "E0101", "%s is an object, found %s", what, fe_found(fe, object));
        if (!strncmp(what, "input ", 6) && object->kind == JSON_ARRAY) d->hint = "its extents are {\"shape\": [...]}";
        return false;
    }
    for (fe_json member = fe_first(fe, object); member; member = fe_next(fe, member)) {
        uint32_t i = 0;
        while (i < count && !is_called(&rows[i], member->key)) i++;
        if (i < count) {
            struct reader r = {fe, what, &rows[i]};
            if (out[i].given)
                good = fe_wrong_key(fe, member, "E0103", "%s: \"%s\" and \"%s\" are the same", what, rows[i].name,
                                    rows[i].choices);
            out[i].given = true;
            out[i].json = member;
            good &= read_value(&r, member, &out[i]);
        } else if (strcmp(member->key, "type") != 0 && !listed(member->key, also)) {
            meant[unknown_key(fe, member, what, rows, count, also)] = true;
            good = false;
        }
    }
    good = read_absent(fe, object, what, rows, count, meant, out) && good;
    if (good) warn_of_unused(fe, what, rows, count, out);
    return good;
}

bool fe_settings(struct fe *fe, fe_json object, const char *what, const struct fe_arg *rows, uint32_t count,
                 const char *const *also, struct fe_value *out)
{
    bool good = fe_args(fe, object, what, rows, count, also, out);
    fe_json type = fe_member(fe, object, "type");
    if (type) unknown_key(fe, type, what, rows, count, also);
    return good && !type;
}

/* ---------------------------------------------------------------- settings.def */

#define SETTING(name, arguments, doc) static const struct fe_arg name##_rows[] = {arguments};
#include "frontend/document/settings.def"
#undef SETTING

static const struct fe_row settings[] = {
#define SETTING(name, arguments, doc) {#name, name##_rows, sizeof name##_rows / sizeof *name##_rows, doc},
#include "frontend/document/settings.def"
#undef SETTING
};

bool fe_setting_row(uint32_t index, struct fe_row *out)
{
    if (index >= sizeof settings / sizeof *settings) return false;
    *out = settings[index];
    return true;
}

bool fe_setting(struct fe *fe, enum fe_setting setting, fe_json object, const char *what, struct fe_value *out)
{
    return fe_settings(fe, object, what, settings[setting].args, settings[setting].count, NULL, out);
}

bool fe_amount(const char *text, bool bytes, uint64_t *out)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    char *end;
    if (*text < '0' || *text > '9' || strspn(text, "0123456789") > 15) return false;
    *out = strtoull(text, &end, 10);
    for (unsigned i = 0; i < (bytes ? 5 : 1); i++)
        if (strcmp(end, units[i]) == 0) return *out > 0 && !__builtin_mul_overflow(*out, (uint64_t)1 << 10 * i, out);
    return false;
}
