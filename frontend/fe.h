/* The frontend: document -> module of stage tensor.
 *
 *   json.c, document.c   the strict tree with places; top-level keys; constants and `$` arithmetic; -D
 *   args.c               typed reading of an object by a table of arguments: every kind of object uses it
 *   expr*.c              expressions over tensors
 *   model.c, layers/     blocks; tracing builds IR and declares parameters
 *   adapters.c           low-rank products beside layers
 *   loss_object.c, schedules.c, optim/   what their names say
 *   init.c               nnx.Rngs streams and initializers as IR
 *   step.c               assembles the entry functions init, step, eval, infer
 */
#ifndef FRONTEND_FE_H
#define FRONTEND_FE_H
#include "ir/base/json_scan.h"
#include "ir/ir.h"

/* ---------------------------------------------------------------- document (json.c, document.c) */

typedef const struct json_value *fe_json; /* a value of the document; NULL = absent */

struct fe_define {
    const char *name;
    const char *value;
}; /* -D name=value */
struct fe_options {
    const struct fe_define *defines;
    size_t define_count;
    const char *mesh; /* --mesh data=2,model=4; NULL: the document's */
};

/* What "precision" says of dtypes; IR_BOOL: nothing. */
struct fe_precision {
    enum ir_dtype params;    /* in which parameters are stored: float32 */
    enum ir_dtype compute;   /* of the layers; else they infer it */
    enum ir_dtype gradients; /* to which gradients are rounded before the optimizer */
};

struct fe_trace;
struct fe_term;
struct fe_scope;
struct fe_state;
struct fe_optim_state;

struct fe_names;
struct fe_graph_env {
    const struct fe_names *names;
    uint32_t position;
}; /* a name of a graph and which one it is */
struct fe {
    struct arena *arena;
    struct diags *diags;
    struct json json;
    const struct fe_options *options;
    struct fe_precision precision;
    struct ir_module *module;
    const struct fe_scope *constants; /* names of numbers: constants, define parameters (innermost first) */
    const uint32_t *inputs;           /* slots of the declared inputs, in document order (document.c) */
    uint32_t input_count;
    uint32_t *places; /* per value of the document: its place in the module, 0 = none yet (json.c) */
    uint32_t *
        positions; /* per value of the document: 1 + its index in the array that holds it, 0 = not known yet (json.c) */
    struct map graph_env; /* a name's address -> index into graph_envs, for those of graphs (structure.c) */
    VEC(struct fe_graph_env) graph_envs;
    struct fe_state *state;       /* model.c: parameters, streams, inputs */
    struct fe_optim_state *optim; /* optim/: slots, hyper-parameters */
};

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
struct diag *fe_error_key(struct fe *, fe_json member, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
struct diag *fe_error_in(struct fe *, fe_json string, uint32_t at, uint32_t length, const char *code,
                         const char *format, ...) __attribute__((format(printf, 6, 7)));
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

/* Numbers: a JSON number, or `$` arithmetic over the scope. False: an error was recorded. */
struct fe_scope {
    const struct fe_scope *outer;
    const char *name;
    double value;
    bool integer;
};
bool fe_number(struct fe *, fe_json, double *);
bool fe_number_kind(struct fe *, fe_json, double *, bool *integer); /* also whether it is an integer as in Python */
bool fe_integer(struct fe *, fe_json, int64_t *);                   /* must come out as an integer */
bool fe_arithmetic(struct fe *, fe_json string, double *,
                   bool *integer); /* a string that starts with '$' (arithmetic.c) */
const struct fe_scope *fe_constant(const struct fe *, const char *name);
void fe_constant_push(struct fe *, const char *name, double value, bool integer);

/* Reads, checks and registers the top level: version, name, constants, inputs, mesh, form of `sharding`; makes
 * fe->module with its input slots. Model, loss, metrics, optimizer, trainable, ema, adapters, accumulate, per_example,
 * precision, define and seed stay members of the root: fe_member(fe, fe_root(fe), key). False: errors. */
bool fe_document(struct fe *);
fe_json fe_root(const struct fe *);
bool fe_is_name(const char *);             /* letters, digits, '_'; no digit first */
const char *fe_text(struct fe *, fe_json); /* as compact JSON, without "//" members, constants replaced by -D */
/* A type within the limits (rank, elements); false: an error at `shape` was recorded. */
bool fe_type(struct fe *, fe_json shape, const int64_t *dim, uint32_t rank, enum ir_dtype, struct ir_type *out);
/* sharding.c: gives slots their `sharding_spec` by the patterns of "sharding", and checks patterns and lengths against
 * the parameters. Called once, when all slots exist. */
bool fe_sharding(struct fe *);

/* ---------------------------------------------------------------- typed arguments (args.c) */

enum fe_kind {
    FE_NUMBER,
    FE_INTEGER,
    FE_BOOL,
    FE_STRING,
    FE_ENUM,     /* "a|b|c" in `choices` */
    FE_SCHEDULE, /* a number or a schedule object; read with fe_schedule */
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
    FE_BEGINNING = 64 /* read only when the state begins */
};

/* One argument of a layer, optimizer, schedule, loss, ...: a row of their tables. `preset` is the default as JSON
 * text ("0.9", "null", "true", "\"hard\""), NULL with FE_REQUIRED. */
struct fe_arg {
    const char *name;
    enum fe_kind kind;
    uint32_t flags;
    const char *preset;
    const char *choices;
};

const char *fe_kind_text(struct arena *, const struct fe_arg *); /* "a number or null", for messages */

/* Rows of the tables, for the reference (cli/doc.c); false: there is no row of that number. */
struct fe_row {
    const char *name;
    const struct fe_arg *args;
    uint32_t count;
    const char *doc; /* may be NULL */
};
struct fe_settings_rows {
    const struct fe_arg *args;
    uint32_t count;
};
#define FE_SETTINGS(name, rows) const struct fe_settings_rows fe_settings_##name = {rows, sizeof(rows) / sizeof *(rows)}
bool fe_schedule_row(uint32_t index, struct fe_row *);
bool fe_structure_row(uint32_t index, struct fe_row *); /* blocks made of blocks, and the like */
bool fe_layer_row(uint32_t index, struct fe_row *);
bool fe_setting_row(uint32_t index, struct fe_row *); /* settings.def: objects without "type" */
bool fe_initializer_row(struct arena *, uint32_t index, struct fe_row *);

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
const char *fe_range_text(uint32_t flags); /* the range that the flags of a row allow: "more than 0"; NULL: any */
enum ir_dtype fe_dtype(struct fe *, fe_json string); /* IR_TUPLE: an error was recorded */
enum ir_dtype fe_dtype_narrow(enum ir_dtype);        /* what computes: 64-bit types are off, as in JAX by default */

/* ---------------------------------------------------------------- values of expressions (expr_eval.c) */

enum fe_val_kind {
    FE_VAL_NONE, /* Python's None, or an error already recorded when `bad` */
    FE_VAL_NUMBER,
    FE_VAL_TENSOR,
    FE_VAL_TUPLE,
    FE_VAL_STRING,
    FE_VAL_TREE,
    FE_VAL_SLICE,
    FE_VAL_ELLIPSIS,
    FE_VAL_FORM /* a function of an environment (expr.h) */,
    FE_VAL_AT /* x.at, x.at[..]: items are the tensor, then its index */
};
struct fe_tree {
    const char *const *paths;
    const ir_value *values;
    uint32_t count;
}; /* params, grads, updates */
struct fe_val {
    enum fe_val_kind kind;
    bool bad;                                           /* an error was recorded while computing it */
    bool weak;                                          /* tensor of weak type, as in JAX's promotion */
    enum { FE_PY_BOOL, FE_PY_INT, FE_PY_FLOAT } python; /* of a NUMBER */
    double number;
    ir_value tensor;
    const struct fe_val *items;
    uint32_t count; /* TUPLE (lists too); a model with parts has `names` */
    const char *const *names;
    bool list; /* TUPLE: written in brackets; one with names: indexed by numbers, too */
    const char *string;
    const struct fe_tree *tree;
    const struct fe_form *form;
};

/* Names that an expression sees, innermost first. */
struct fe_env {
    const struct fe_env *outer;
    const char *name;
    struct fe_val value;
};
/* The nodes of one graph, of which there may be thousands: found by name instead of one after another. */
struct fe_names {
    struct map position;
    VEC(const struct fe_env *) list;
    const struct fe_env *outer; /* of the first */
};
const struct fe_env *fe_env_find(const struct fe *, const struct fe_env *, const char *name); /* NULL: there is none */

/* Evaluates the expression string at `string` (a number or bool is taken as such) into the trace's function. */
struct fe_val fe_expr(struct fe *, struct fe_trace *, fe_json string, const struct fe_env *);
/* The value as one tensor (numbers become weak scalars); 0 and an error if it is none. */
ir_value fe_tensor(struct fe *, struct fe_trace *, const struct fe_val *, fe_json where);
struct fe_val fe_val_tensor(ir_value);
struct fe_val fe_input_value(struct ir_builder *, ir_value); /* an input of the document, in 32 bits at most */
struct fe_val fe_val_number(double, bool integer);

/* ---------------------------------------------------------------- model (model.c, layers/) */

/* A parameter or running statistic of the model, in document order. */
struct fe_param {
    const char *path;
    struct ir_type type;
    uint32_t slot;
    bool statistic; /* running statistics: state, not trained */
    bool rewritten; /* a parameter that a step leaves changed, apart from the update (model/layers/weights.c) */
    bool trained;   /* selected by `trainable` */
    fe_json init;   /* initializer object, NULL = `init_preset` */
    const char *init_preset; /* "lecun_normal", "zeros", ... */
    enum ir_dtype drawn;     /* as which it is drawn; IR_TUPLE: as what it is stored */
    double init_value;       /* of the preset "constant"; the deviation of "normal" */
    uint32_t stream, draw;   /* nnx.Rngs: which stream and which draw of it */
    int64_t init_shape[IR_MAX_RANK];
    uint32_t init_rank;    /* linear_general is drawn flattened; 0: as the type */
    enum ir_dtype compute; /* nnx's dtype of the layer that has it; IR_TUPLE: inferred */
    int32_t batch_axes;    /* for fans: number of leading batch dimensions, normally 0 */
    const char *spec_like; /* an adapter's: split as this parameter, unless a pattern names it alone; else NULL */
    int8_t spec_axis[IR_MAX_RANK]; /* then, per dimension: that of the other, -1 = none */
};

/* Rows of the batch that a trace sees. */
struct fe_rows {
    ir_value
        numbers; /* int32: per row its number in the batch; a scalar: one row without its dimension; 0: not asked for */
    int64_t count;
};

/* One tracing of model and loss into a function. Before: `b` stands in the function, inputs and params are its
 * values. The first trace of a document declares the parameters (params may then be NULL: an ir_param bound to the
 * parameter's slot is made for each). */
struct fe_trace {
    struct ir_builder *b;
    bool train;                 /* dropout and batch statistics */
    bool notes_random;          /* the shapes of random tensors are written down: those of the whole batch */
    const struct fe_rows *rows; /* which rows of the batch the trace sees; NULL: all of them */
    const ir_value *inputs;     /* per declared input, in document order; 0 = not available (infer) */
    const ir_value *params;     /* per parameter; NULL: entry function, made on demand */
    ir_value *statistics;       /* per parameter: new value of a running statistic; 0 = unchanged */
    ir_value scale;             /* by which the loss is multiplied for its gradient, if that changes; 0 = none */
    struct fe_val model;        /* set by fe_trace_model */
    struct fe_val loss;         /* set by fe_trace_loss: float32 scalar */
    const struct fe_env *env;   /* inputs, model, loss, params as expressions see them */
    struct fe_trace_own *own;   /* model.c's notes of this trace; starts as NULL */
};

const struct fe_param *fe_params(const struct fe *, uint32_t *count);
uint32_t fe_inputs(const struct fe *,
                   const uint32_t **slots); /* declared inputs: number and slot indices (document.c) */
/* Whether accumulation and per-example gradients split the input: its `axes` begin with "batch" or are not given
 * (and it has a dimension). The slot's batch_dims hold only what `axes` say. (document.c) */
bool fe_input_batched(struct fe *, uint32_t index);
/* The value of parameter number `index` in this trace; with params == NULL the ir_param is made on demand. */
ir_value fe_trace_param(struct fe *, struct fe_trace *, uint32_t index);
bool fe_trace_model(struct fe *, struct fe_trace *);
bool fe_trace_loss(struct fe *, struct fe_trace *);
/* Initial value of a parameter from the document's seed: nnx.Rngs' stream, draw and key derivation (init.c). */
ir_value fe_initial(struct fe *, struct ir_builder *, const struct fe_param *);
void fe_check_streams(
    struct fe *); /* when all is drawn: warns of streams of "seed" with nearly the name of one that is drawn from */
/* Applies an activation by its jax.nn name: object {"type": "gelu", ...}, which has the keys of every block if it is
 * one. */
struct fe_val fe_activation(struct fe *, struct fe_trace *, fe_json object, struct fe_val x, bool is_block);
bool fe_is_activation(const char *name);

/* ---------------------------------------------------------------- schedules, optimizers (schedules.c, optim/) */

/* The value of a number or schedule at an int32 scalar step: float32 scalar. `json` NULL: `preset`. */
ir_value fe_schedule(struct fe *, struct ir_builder *, const struct fe_value *, ir_value step);
/* The same, weak where JAX computes it from the step and Python's numbers without fixing a dtype. */
struct fe_term fe_schedule_term(struct fe *, struct ir_builder *, const struct fe_value *, ir_value step);
/* The patterns' matches over parameter paths: out[i] true if parameter i matches; a pattern without a match is an
 * error. */
bool fe_patterns(struct fe *, fe_json list, bool *out);

void fe_origins(struct fe *); /* origins.c: notes to errors about shapes, where these come from */

/* ---------------------------------------------------------------- the whole (step.c) */

/* Compiles the text of a document to a module with entries init, step, eval, infer. NULL: errors were recorded. */
struct ir_module *fe_compile(const char *file, const char *text, size_t length, const struct fe_options *,
                             struct diags *);
#endif
