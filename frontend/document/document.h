/* What the document offers: its values with their places, diagnostics at them, numbers and `$` arithmetic, the top
 * level (document.c), and objects read by tables of arguments (args.c). Nothing here knows an op of the IR. */
#ifndef FRONTEND_DOCUMENT_H
#define FRONTEND_DOCUMENT_H
#include "frontend/fe.h"

/* ---------------------------------------------------------------- values and diagnostics (json.c) */

/* Codes by what they say (E00xx is JSON itself, ir/base/json_scan.c):
 *   E0101 wrong kind of value  E0102 missing key or type  E0103 out of range, unknown choice  E0104 not an integer
 *   E0105 unknown type         E0106 `$` arithmetic       E0107 unknown key                  E0108 unknown name
 *   E0109 -D, --mesh           E0110 duplicate or bad name  E0111 not supported yet          E0112 version
 *   E02xx shapes, dtypes   E03xx expressions           E04xx optimizer, patterns, sharding */
/* Errors at a place in the document; the pointer and the excerpt come from the value. `fe_error_key` underlines the
 * key of a member instead of its value, `fe_error_in` a part of a string (byte offsets into the unescaped
 * text). All return the diagnostic, so that a label, hint or note can be added. */
struct diag *fe_error(struct fe *, fe_json, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
struct diag *fe_warning(struct fe *, fe_json, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
struct diag *fe_warning_key(struct fe *, fe_json member, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
struct diag *fe_error_key(struct fe *, fe_json member, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
struct diag *fe_error_in(struct fe *, fe_json string, uint32_t at, uint32_t length, const char *code,
                         const char *format, ...) __attribute__((format(printf, 6, 7)));
/* Of a member's key, or of a string. */
struct diag *fe_warning_in(struct fe *, fe_json, bool key, uint32_t at, uint32_t length, const char *code,
                           const char *format, ...) __attribute__((format(printf, 7, 8)));
/* The same where nothing is added to the diagnostic: false. */
#define fe_wrong(...) (fe_error(__VA_ARGS__), false)
#define fe_wrong_key(...) (fe_error_key(__VA_ARGS__), false)
/* What to write here for a word of another library, by the scopes of foreign.def; NULL: nothing is known. */
const char *fe_foreign(const char *scope, const char *word);
bool fe_foreign_row(uint32_t index, const char **scope, const char **words, const char **here); /* false: no more */
void fe_suggest(struct fe *, struct diag *, const char *found, const char *const *names,
                size_t count);                /* label: did you mean "..."? */
const char *fe_pointer(struct fe *, fe_json); /* "/model/layers/0/features" */
uint32_t fe_place(struct fe *, fe_json);      /* index into the module's places */

fe_json fe_member(struct fe *, fe_json object, const char *key);
fe_json fe_first(struct fe *, fe_json array_or_object); /* children in order; members have ->key */
fe_json fe_next(struct fe *, fe_json child);
uint32_t fe_count(struct fe *, fe_json array_or_object); /* children, as fe_first and fe_next see them ("//" is none) */
const char *fe_kind_name(fe_json);                       /* "a string", for messages */
const char *fe_found(struct fe *, fe_json);              /* what stands there, shortened: 6.5, "abc", an object */
bool fe_scan(struct fe *, const char *text, size_t length); /* fills fe->json; false: an error was recorded */
/* The error that an object lacks a key, at the one that is probably it, misspelled: WHAT "key", but "kye". */
void fe_misses(struct fe *, fe_json object, const char *what, const char *key);
const char *fe_type_of(struct fe *, fe_json object); /* its "type"; records an error and returns NULL if it has none */

/* ---------------------------------------------------------------- how much it may become (budget.c) */

/* Every value that the builder makes counts. From here on until the module's budget is taken off; `end`: where to go
 * when there are too many. */
void fe_budget(struct fe *, jmp_buf *end);
/* `count` things of `each` values are about to be made; too many: does not return. */
void fe_room(struct fe *, fe_json at, uint64_t count, uint64_t each);
/* A block, which counts as a value. */
void fe_spend(struct fe *, fe_json at);
/* A definition is about to be copied; it was, when `left` values were left before. */
void fe_copy(struct fe *, fe_json at, fe_json definition);
void fe_copied(struct fe *, fe_json definition, uint64_t left);

/* ---------------------------------------------------------------- numbers (arithmetic.c) */

/* Numbers: a JSON number, or `$` arithmetic over the scope. False: an error was recorded. */
struct fe_scope {
    const struct fe_scope *outer;
    const char *name;
    double value;
    bool integer;
};
bool fe_number(struct fe *, fe_json, double *);
bool fe_number_kind(struct fe *, fe_json, double *, bool *integer); /* also whether it is an integer as in Python */
int64_t fe_whole(double); /* towards 0; beyond 2^62 that, NaN 0: a cast would be undefined there */
bool fe_integer(struct fe *, fe_json, int64_t *); /* must come out as an integer */
bool fe_count32(struct fe *, fe_json, int64_t *); /* that fits into 32 bits, as steps and sizes are counted */
bool fe_arithmetic(struct fe *, fe_json string, double *,
                   bool *integer); /* a string that starts with '$' (arithmetic.c) */
const struct fe_scope *fe_constant(const struct fe *, const char *name);
void fe_constant_push(struct fe *, const char *name, double value, bool integer);

/* ---------------------------------------------------------------- the top level (document.c) */

/* Reads, checks and registers the top level: version, name, constants, inputs, mesh, form of `sharding`; makes
 * fe->module with its input slots. Model, loss, metrics, optimizer, trainable, ema, adapters, accumulate, per_example,
 * precision, define and seed stay members of the root: fe_member(fe, fe_root(fe), key). False: errors. */
bool fe_document(struct fe *);
fe_json fe_root(const struct fe *);
size_t fe_name_length(const char *text); /* of the letters, digits and _ at its start */
bool fe_is_name(const char *);           /* letters, digits, '_'; no digit first */
bool fe_is_no_tensor(const char *);      /* what safetensors files call otherwise */
const struct fe_define *fe_define_find(const struct fe *, const char *name); /* -D of that name; NULL: there is none */
const char *fe_text(struct fe *, fe_json); /* as compact JSON, without "//" members, constants replaced by -D */
/* A type within the limits (rank, elements); false: an error at `shape` was recorded. */
bool fe_type(struct fe *, fe_json shape, const int64_t *dim, uint32_t rank, enum ir_dtype, struct ir_type *out);
uint32_t fe_inputs(const struct fe *, const uint32_t **slots); /* declared inputs: number and slot indices */
/* Whether accumulation and per-example gradients split the input: its `axes` begin with "batch" or are not given
 * (and it has a dimension). The slot's batch_dims hold only what `axes` say. (document.c) */
bool fe_input_batched(struct fe *, uint32_t index);
/* Checks keys, rules and names of the "sharding" object, and keeps rules and resolver in the module (sharding.c). */
bool fe_sharding_form(struct fe *, fe_json sharding);
void fe_sharding_slips(struct fe *); /* of a right document: warns of axes of inputs that are nearly others */
void fe_sharding_idle(struct fe *, fe_json place, const char *what); /* warns: there is no mesh */
/* Whether a spec has no more entries than the type dimensions; else an error about WHAT "NAME" was recorded. */
/* Gives a slot the mesh axes that the entries of a spec, one per dimension or NULL, resolve to. An extent that its axes
 * do not divide stays whole: the result is the same, only not spread. */
void fe_sharding_give(struct fe *, const fe_json *entries, struct ir_slot *);
/* The mesh axes, as a mask, that a name in a spec stands for, an axis or a name of the rules, where those of `used` are
 * taken. */
uint32_t fe_sharding_name(struct fe *, const char *name, uint32_t used);
bool fe_sharding_knows(struct fe *, const char *name);
void fe_sharding_suggest(struct fe *, struct diag *, const char *name); /* one of those that it knows */
void fe_sharding_entries(struct fe *, fe_json spec, fe_json *entries);  /* at most IR_MAX_RANK; spec may be NULL */
void fe_sharding_inputs(struct fe *);                                   /* by "axes" and by "inputs" of "sharding" */
bool fe_sharding_length(struct fe *, fe_json spec, const char *what, const char *name, const struct ir_type *);
void fe_origins(struct fe *); /* origins.c: notes to errors about shapes, where these come from */

/* ---------------------------------------------------------------- names that nothing mentions (mentions.c) */

void fe_check_mentions(struct fe *); /* of a document without errors: warns of what is declared in vain */

/* ---------------------------------------------------------------- patterns over paths (patterns.c) */

/* Whether the pattern in a string, or a key, matches any of these paths. Warns of alternatives of its braces by which
 * none of them matches. */
bool fe_pattern(struct fe *, fe_json, bool key, const char *const *paths, size_t count);
/* The member of a map from patterns whose key is the first to match; NULL: none. */
fe_json fe_pattern_first(struct fe *, fe_json map, const char *path);
/* Whether every key of such a map matches a parameter: else an error for each, but for the "**" that is for the rest.
 * Warns of keys that are the first to match nowhere. */
bool fe_pattern_map(struct fe *, fe_json map, const char *code, const char *const *paths, size_t count);

/* ---------------------------------------------------------------- typed arguments (args.c) */

enum fe_kind {
    FE_NUMBER,
    FE_INTEGER,
    FE_BOOL,
    FE_STRING,
    FE_ENUM,     /* "a|b|c" in `choices` */
    FE_SCHEDULE, /* a number, a formula of `step` or a schedule object; read with fe_schedule */
    FE_EXPR,     /* a string that is an expression (or a number, or a bool) */
    FE_DTYPE,
    FE_SHAPE /* integers, $ allowed */,
    FE_NUMBERS,
    FE_OBJECT,   /* any object: a block, transformation, initializer, activation: whoever asked reads it */
    FE_LIST,     /* an array */
    FE_PATTERNS, /* a list of patterns (or one) */
    FE_MAP,      /* an object without "type" */
    FE_ANY
};
enum {
    FE_NULLABLE = 1,
    FE_REQUIRED = 2,
    FE_POSITIVE = 4 /* > 0 */,
    FE_NOT_NEGATIVE = 8,
    FE_UNIT = 16 /* [0, 1) */,
    FE_UNIT_CLOSED = 32 /* [0, 1] */,
    FE_BEGINNING = 64 /* read only when the state begins */,
    FE_SEED = 128 /* of jax.random.key, which keeps 32 bits of any integer; others fit into them */
};

/* One argument of a layer, optimizer, schedule, loss, ...: a row of their tables. `preset` is the default as JSON
 * text ("0.9", "null", "true", "\"hard\""), NULL with FE_REQUIRED. */
struct fe_arg {
    const char *name;
    enum fe_kind kind;
    uint32_t flags;
    const char *preset;
    const char *choices; /* of a map: its other name */
};

const char *fe_kind_text(struct arena *, const struct fe_arg *); /* "a number or null", for messages */

/* Rows of the tables, for the reference (cli/doc.c); false: there is no row of that number. */
struct fe_row {
    const char *name;
    const struct fe_arg *args;
    uint32_t count;
    const char *doc; /* may be NULL */
};

struct fe_value {
    bool given, null; /* given in the document; null there or by default */
    fe_json json;     /* NULL if not given */
    double number;
    int64_t integer;
    bool boolean;
    const char *string;
    enum ir_dtype dtype;
    const int64_t *shape;
    uint32_t rank;
    const double *numbers;
};

/* Reads `object` by its rows: unknown keys (besides "type", "//" and `also`, a NULL-terminated list), missing ones,
 * wrong kinds and ranges are errors with the nearest valid name. `what` names it in messages: optimizer "adamw". */
bool fe_args(struct fe *, fe_json object, const char *what, const struct fe_arg *rows, uint32_t count,
             const char *const *also, struct fe_value *out);
/* The same for an object that has no "type" (accumulate, ema, precision): "type" is an unknown key there. */
bool fe_settings(struct fe *, fe_json object, const char *what, const struct fe_arg *rows, uint32_t count,
                 const char *const *also, struct fe_value *out);
/* The same for one of those that settings.def lists. */
enum fe_setting {
#define SETTING(name, arguments, doc) FE_SETTING_##name,
#include "frontend/document/settings.def"
#undef SETTING
};
bool fe_setting(struct fe *, enum fe_setting, fe_json object, const char *what, struct fe_value *out);
bool fe_setting_row(uint32_t index, struct fe_row *);
bool fe_key_row(uint32_t index, struct fe_row *); /* of the top level (document.c); its one argument is the key */
bool fe_is_schedule(fe_json);                     /* an object, or a formula: no number */
/* What an argument of an entry means, in a sentence; `common`: "", or "()" for functions of expressions. The owner is
 * the entry's name, or what messages call it: optimizer "adam". NULL: nothing is known. */
const char *fe_meaning(const char *owner, const char *common, const char *argument);
/* Notes what the key means that `word` is nearest to. Gives that key; NULL: there is none near. */
const char *fe_note_meaning(struct fe *, struct diag *, const char *owner, const char *common, const char *word,
                            const char *const *names, size_t count);
const char *fe_range_text(uint32_t flags); /* the range that the flags of a row allow: "more than 0"; NULL: any */
enum ir_dtype fe_dtype(struct fe *, fe_json string); /* IR_TUPLE: an error was recorded */
enum ir_dtype fe_dtype_narrow(enum ir_dtype);        /* what computes: 64-bit types are off, as in JAX by default */
#endif
