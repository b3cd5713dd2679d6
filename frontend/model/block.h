/* What model.c, structure.c, adapters.c and layers/ share: blocks being traced, parameters being declared. */
#ifndef FRONTEND_MODEL_BLOCK_H
#define FRONTEND_MODEL_BLOCK_H
#include "frontend/expr/values.h"
#include "frontend/model/init.h"

enum { FE_MAX_INPUTS = 8, FE_MAX_BLOCK_DEPTH = 128 };

/* A stream of nnx.Rngs: a key and a counter of draws. */
struct fe_stream {
    const char *name;
    uint32_t key[2];
    uint32_t count;
};

/* Where rows lie: along a dimension [before, rows, after], flattened, so where a reshape has put others before or
 * behind them. `after` 0: not known. */
struct fe_lie {
    int64_t before, after, dim;
    bool turned; /* in another order */
};

/* What a call of a random layer drew in the trace that sees the whole batch; the layer is known by its counter. */
struct fe_random_call {
    uint32_t counter;
    struct ir_type type;
    struct fe_lie lie;
    int64_t batch, mapped; /* rows of the batch; as in fe_rows */
    bool apart;            /* as in fe_rows */
};

struct fe_adaptable;
struct fe_block;
struct fe_state {
    VEC(struct fe_random_call) random_calls; /* of dropout and noise over the whole batch, in the order of the calls */
    VEC(struct fe_param) params;
    struct map by_path; /* path -> parameter */
    bool declared;      /* the first trace is over */
    bool draws_always;  /* random numbers are drawn outside of training, too */
    VEC(struct fe_stream) streams;
    VEC(const char *) asked; /* the names of the streams that blocks draw from */
    bool streams_read;
    VEC(struct fe_adaptable) adaptable; /* adapters.c: layers met, in the order of the document */
    struct map adaptable_by_path;
};

/* A block that `shared` may name again. */
struct fe_known_block {
    const char *path;
    fe_json json;
    const struct fe_env *env;
    const struct fe_scope *constants;
    bool open; /* it is being traced: around what is traced now */
};

struct fe_trace_own {
    VEC(uint32_t) random_calls; /* so far: the counter of each */
    struct map lie_of;          /* by value and dimension: into `lies`, while random_calls are noted */
    VEC(struct fe_lie) lies;
    ir_value *values; /* per parameter, 0 = not made */
    uint32_t capacity;
    struct map claimed; /* parameter paths used in this trace */
    struct map names;   /* explicit names of blocks, by path */
    VEC(struct fe_known_block) blocks;
    fe_json model;
    const struct fe_env *inputs; /* the names of the top level */
    const struct fe_scope *constants;
    VEC(const char *) open_defines; /* uses that are being traced, to find recursion */
    struct {
        const struct ir_func *func; /* that the model is traced into */
        VEC(uint32_t) maker;        /* per value of it: 1 + the innermost block that made it, 0: none */
        uint32_t open;              /* 1 + the block that is being traced */
    } outline;
};

/* What a wrapper does to the parameters of the block inside, in every trace but the one that declares them
 * (model/layers/weights.c). */
struct fe_weights {
    struct fe_val (*use)(const struct fe_weights *, struct fe_block *inside, uint32_t param, struct fe_val value);
    struct fe_block *wrapper;
    const struct fe_value *args;
    const struct fe_weights *outer; /* of the wrapper around this one, which comes first; NULL: there is none */
    /* Whether a parameter, by its path in the layer inside and its rank, is one that `use` changes; the dtype that it
     * has from then on. */
    bool (*changes)(const struct fe_weights *, const char *path, uint32_t rank, enum ir_dtype *stored);
    const char *inside; /* the path of the layer inside */
};

const char *fe_weights_inside(const struct fe_weights *,
                              const char *path); /* a parameter's path below the layer inside */

/* A block while it is traced. */
struct fe_block {
    struct fe_site site; /* where: the block's object */
    fe_json json;
    const char *type, *path, *parent_path;
    const struct fe_env *env; /* what the expressions of the block see, `x` among them */
    struct fe_val in[FE_MAX_INPUTS];
    uint32_t in_count;
    uint32_t depth;
    bool sharing;          /* inside `shared`: parameters exist already */
    enum ir_dtype compute; /* nnx's dtype, to which a layer casts input and parameters; IR_TUPLE: inferred from them */
    enum ir_dtype param_dtype;        /* of parameters that the layer declares as float32 */
    const struct fe_weights *weights; /* NULL: parameters as they are */
};

enum { FE_TUPLE_INPUTS = 1 << 8, FE_NO_INPUT_TOO = 1 << 9 };
struct fe_layer {
    const char *name;
    const struct fe_arg *args;
    uint32_t count;
    /* Positional inputs; at least one is needed unless 0 or with FE_NO_INPUT_TOO; with FE_TUPLE_INPUTS they may be
     * tuples. */
    uint32_t inputs_max;
    struct fe_val (*apply)(struct fe_block *, const struct fe_value *args);
};

/* The table of layers. They come after the blocks that they are used in, which find them through the context. */
struct fe_layers {
    uint32_t count;
    const struct fe_layer *const *rows;
};

/* Traces a child: `segment` is its default path segment. */
struct fe_val fe_block_child(struct fe_block *parent, fe_json json, const char *segment, const struct fe_env *env,
                             const struct fe_val *in, uint32_t in_count);
/* Traces an earlier block again with the inputs of `block` and the same parameters. */
struct fe_val fe_block_again(struct fe_block *, const struct fe_known_block *);
const char *fe_path_join(struct arena *, const char *path, const char *segment);
#define FE_NO_DRAW UINT32_MAX /* as `stream` of a parameter that takes no draw */
/* Declares (first trace) or finds a parameter `name` of the block; 0: an error was recorded. */
ir_value fe_block_param(struct fe_block *, const char *name, struct fe_param like);
/* False and an error if a wrapper writes other values into the parameter, which a block outside of it does not see. */
bool fe_block_as_it_is(struct fe_block *, uint32_t param);
struct fe_state *fe_state(struct fe *);
struct fe_trace_own *fe_trace_own(struct fe *, struct fe_trace *);
struct fe_val fe_block_fail(struct fe_block *, fe_json where, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define fe_block_wrong(...) (fe_block_fail(__VA_ARGS__), false) /* the same, and false */
struct fe_val fe_needs_input(struct fe_block *);                /* the error that it has none, and how to give it one */
/* Structural blocks (structure.c): true if `type` is one, then *out is its value. */
bool fe_structure(struct fe_block *, struct fe_val *out);

/* block_outline.c: notes a block in the module's layers, in the trace that declares the parameters, before and after it
 * is traced. */
uint32_t fe_outline_begin(struct fe_block *);
void fe_outline_end(struct fe_block *, uint32_t begun, const struct fe_val *made);

/* adapters.c. What a linear layer gives, y = product(x, kernel) and a bias, with the adapter of its path added, if
 * there is one. `product` is an einsum "input,kernel->output"; `below` the path of the product below the block's,
 * normally ""; `general`: not what nnx calls Linear. */
struct fe_val fe_block_adapt(struct fe_block *, const char *below, bool general, const char *product, struct fe_val x,
                             struct fe_val kernel, struct fe_val y);
/* After the first trace of the model: matches adapters with layers and declares their parameters; false: errors. */
bool fe_adapters(struct fe *, struct fe_trace *);

/* micro_vmap.c: the block of that name, with its arguments read. */
enum { FE_MICRO_VMAP_ARGS = 4 };
extern const struct fe_arg fe_micro_vmap_args[FE_MICRO_VMAP_ARGS];
struct fe_val fe_micro_vmap(struct fe_block *, const struct fe_value *args);

/* random.c: the fork of the stream `stream` that a layer with random numbers takes when it is made; then,
 * per call of the layer, a key, and which part of the whole batch's tensor `shape` is; not of_rows: its own in every
 * part. `like`: what lies as the numbers do, of the same rank; 0: one row after the other. */
void fe_block_fork(struct fe_block *, const char *stream, bool used);      /* not used: only the draw is taken */
ir_value fe_rows_within(struct ir_builder *, ir_value rows, int64_t each); /* numbers of rows of which each of `rows`,
                                                                            * by its number, holds so many in a run */
struct fe_lie fe_rows_in(const struct fe_site *, ir_value,
                         int64_t *rows); /* those of the batch, so many, in the trace that notes random_calls */
bool fe_block_draw(struct fe_block *, const char *stream, const struct ir_type *shape, bool of_rows, ir_value like,
                   struct fe_drawn *); /* NULL: that of key 0 */
/* A mask that is true with the probability 1 - rate: what dropout keeps. */
struct fe_val fe_block_mask(struct fe_block *, const char *stream, const struct ir_type *shape,
                            const struct fe_val *like, double rate);

/* Helpers of layers/: numerics shared by several layers. */
bool fe_block_float_input(struct fe_block *, uint32_t index);
/* The last rows of layers that have nnx's dtype and param_dtype (which of them or both): they replace what "precision"
 * says. */
#define FE_DTYPE_ROW \
    { \
        "dtype", FE_DTYPE, FE_NULLABLE, "null", NULL \
    }
#define FE_PARAM_DTYPE_ROW \
    { \
        "param_dtype", FE_DTYPE, FE_NULLABLE, "null", NULL \
    }
#define FE_DTYPE_ROWS FE_DTYPE_ROW, FE_PARAM_DTYPE_ROW
/* Layers with a product. What it gives is that of the highest precision whichever is asked for. */
#define FE_PRECISION_ROW \
    { \
        "precision", FE_ENUM, FE_NULLABLE, "null", "default|high|highest" \
    }
#define FE_PRODUCT_ROWS \
    FE_PRECISION_ROW, { "preferred_element_type", FE_DTYPE, FE_NULLABLE, "null", NULL }
/* Input and kernel, promoted, in the dtype in which their product is wanted; false: an error was recorded. */
bool fe_block_wide_product(struct fe_block *, const struct fe_value *preferred, struct fe_val *x,
                           struct fe_val *kernel);
void fe_block_own_dtypes(struct fe_block *); /* those that "precision" gives to every layer */
/* Takes over what the arguments say of dtypes; false: an error was recorded. */
bool fe_block_dtypes(struct fe_block *, const struct fe_arg *rows, uint32_t count, const struct fe_value *args);
/* The dtype of a layer's result that depends on these values: `compute`, else what they promote to. */
enum ir_dtype fe_block_dtype(struct fe_block *, const struct fe_val *values, uint32_t count);
/* Casts values to that dtype, as NNX's promote_dtype. */
void fe_block_promote(struct fe_block *, struct fe_val *values, uint32_t count);
#endif
