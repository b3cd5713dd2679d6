/* What the model offers to losses, optimizers and steps: parameters, and tracing the model into a function (model.c).
 */
#ifndef FRONTEND_MODEL_H
#define FRONTEND_MODEL_H
#include "frontend/expr/expr.h"

/* A parameter or running statistic of the model, in document order. */
struct fe_param {
    const char *path;
    struct ir_type type;
    uint32_t slot;
    bool statistic; /* running statistics: state, not trained */
    bool rewritten; /* a parameter that a step leaves changed, apart from the update (model/layers/weights.c) */
    bool fixed;     /* a parameter that is never trained nor averaged, a float32 in any case */
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

const struct fe_param *fe_params(const struct fe *, uint32_t *count);
/* The value of parameter number `index` in this trace; with params == NULL the ir_param is made on demand. */
ir_value fe_trace_param(struct fe *, struct fe_trace *, uint32_t index);
/* precision.c: what "precision" says of dtypes, and the object about the scale of the loss; NULL: there is none. */
bool fe_read_precision(struct fe *, fe_json, fe_json *loss_scale);
extern const struct fe_layers fe_layers; /* layers/: what the context gives to the blocks */
/* The names of the document's definitions: false if one is that of a layer or structure, and errors were recorded. */
bool fe_check_definitions(struct fe *);
bool fe_trace_model(struct fe *, struct fe_trace *);
/* Initial value of a parameter from the document's seed: nnx.Rngs' stream, draw and key derivation (init.c). */
ir_value fe_initial(struct fe *, struct ir_builder *, const struct fe_param *);
void fe_check_streams(
    struct fe *); /* when all is drawn: warns of streams of "seed" with nearly the name of one that is drawn from */
/* The patterns' matches over parameter paths: out[i] true if parameter i matches; a pattern without a match is an
 * error. */
bool fe_patterns(struct fe *, fe_json list, bool *out);

/* How many of `count` microbatches run, by an expression: an int32 scalar, at most that; 0: an error was recorded
 * (micro_vmap.c). */
ir_value fe_real_parts(struct fe *, struct fe_trace *, fe_json real, const struct fe_env *, int64_t count);

/* Rows of the tables, for the reference (cli/doc.c); false: there is no row of that number. */
bool fe_structure_row(uint32_t index, struct fe_row *); /* blocks made of blocks, and the like */
bool fe_adapter_row(uint32_t index, struct fe_row *);
bool fe_layer_row(uint32_t index, struct fe_row *);
bool fe_initializer_row(struct arena *, uint32_t index, struct fe_row *);
#endif
