/* The frontend: document -> module of stage tensor. The context that its rooms share, and the way in.
 *
 * The rooms stand in this order. Each has a header with what it offers, and uses none that comes later:
 *
 *   document/   the strict tree with places; the top level; `$` arithmetic; objects read by tables of arguments
 *   expr/       expressions over tensors: the language (expr.h), values (values.h), functions/ (makers.h)
 *   model/      tracing a model into IR: parameters (model.h), blocks (block.h), random numbers (init.h), layers/
 *   losses/     loss objects and the functions that are losses: losses.h
 *   optim/      transformations as IR (optim.h), schedules (schedules.h)
 *   step/       the entry functions init, step, eval and infer: assemble.h
 *   cli/        the command line: cli.h
 */
#ifndef FRONTEND_FE_H
#define FRONTEND_FE_H
#include <setjmp.h>

#include "ir/base/json_scan.h"
#include "ir/ir.h"

typedef const struct json_value *fe_json; /* a value of the document; NULL = absent */

struct fe_define {
    const char *name;
    const char *value;
}; /* -D name=value */
struct fe_options {
    const struct fe_define *defines;
    size_t define_count;
    const char *mesh; /* --mesh data=2,model=4; NULL: the document's */
    struct json_limits text;
    uint64_t values; /* of the IR, to which the document may unfold; 0: any number */
    bool twice;      /* batches and microbatches have twice as many rows as the document says: see step/counted.c */
    bool invariant;  /* --numerics invariant: the number of microbatches changes no bit; not mesh-invariant */
    bool regrouped; /* other microbatches than the document's, to need less memory: they may change no number's scale */
};

/* What "precision" says of dtypes; IR_BOOL: nothing. */
struct fe_precision {
    enum ir_dtype params;    /* in which parameters are stored: float32 */
    enum ir_dtype compute;   /* of the layers; else they infer it */
    enum ir_dtype gradients; /* to which gradients are rounded before the optimizer */
};

struct fe_scope;     /* document/document.h */
struct fe_graph_env; /* expr/expr.h */
struct fe_parameters;
struct fe_function_table;
struct fe_library;
struct fe_layers; /* model/block.h */
struct fe_state;
struct fe_optim_state; /* optim/optim.h */
struct optim_table;

/* What the compilation of one document shares. */
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
    uint32_t again, blocks_again; /* the block that is made again of what is traced now, and how many there are */
    struct map places_again;      /* number of the block, value of the document -> place */
    uint32_t *places;             /* per value of the document: its place in the module, 0 = none yet (json.c) */
    /* per value of the document: 1 + its index in the array that holds it, 0 = not known yet (json.c) */
    uint32_t *positions;
    const struct fe_mentions *mentions; /* of names (document/mentions.c); NULL: not asked for yet */
    struct map graph_env; /* a name's address -> index into graph_envs, for those of graphs (structure.c) */
    VEC(struct fe_graph_env) graph_envs;
    /* What later rooms give to earlier ones, which call it by name. */
    const struct fe_function_table *functions; /* in C, of expressions: those of expr/functions/ and losses/ */
    const struct fe_layers *layers;            /* of model/layers/ */
    const struct optim_table *transforms;      /* of optim/ */
    const struct fe_parameters *parameters;    /* what expressions call `params`: the model's; NULL: there are none */

    struct ir_budget budget; /* of values (document/budget.c); where it ends, everything does */
    jmp_buf *end;
    struct fe_copies {
        uint64_t count, each;
    } *copies;                        /* per value of the document, of definitions; NULL: none was copied yet */
    const struct fe_library *library; /* all functions of expressions (expr/library.c) */
    struct fe_state *state;           /* of the model: parameters, streams */
    struct fe_optim_state *optim;     /* slots, hyper-parameters */
};

/* Compiles the text of a document to a module with entries init, step, eval, infer (step/assemble.c). NULL: errors were
 * recorded. */
struct ir_module *fe_compile(const char *file, const char *text, size_t length, const struct fe_options *,
                             struct diags *);
/* 4000000 and, of bytes, 16GiB; false: no such number. */
bool fe_amount(const char *text, bool bytes, uint64_t *out);
#endif
