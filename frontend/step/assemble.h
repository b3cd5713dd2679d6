/* What the files that assemble the entry functions share (step.c, gradient.c, metrics.c). */
#ifndef FRONTEND_STEP_H
#define FRONTEND_STEP_H
#include "frontend/losses/losses.h"
#include "frontend/optim/optim.h"

/* A metric of the document, or `loss`. */
struct fe_metric {
    const char *name;
    fe_json json;
    uint32_t slot;               /* of role METRIC + 1; 0 = not declared yet */
    bool late;                   /* reads grads, updates or hyperparams: computed after the update */
    bool object;                 /* a metric object: stands for several, see fe_step_metrics_expand */
    bool summary;                /* of the whole batch its first dimension, if any, is not the batch's */
    uint32_t measure, parameter; /* of a metric object, once expanded */
    bool example;                /* of per_example.metrics: computed for every example, from its gradients */
    int64_t kind;                /* ... and then accumulated or put together (enum fe_accumulator) */
    uint32_t leaf;               /* ... of a tree: which value it is */
};

/* How results of parts of the batch become results of the batch: the kinds of the op accumulate. */
extern const char *const fe_accumulators[]; /* their names; that of FE_CARRY is none of the document */
enum fe_accumulator { FE_SUM, FE_MEAN, FE_RUNNING_MEAN, FE_CONCATENATE, FE_CARRY };

struct fe_accumulation {
    fe_json json; /* NULL: the batch at once */
    int64_t rows, microbatches;
    uint32_t kind;       /* of gradients, loss and scalar metrics: 0 sum, 1 mean, 2 running mean */
    uint32_t split;      /* 0 strided, 1 contiguous */
    fe_json real, kinds; /* num_real_microbatches; accumulators by metric */
    fe_json weight;      /* what a microbatch counts for in means; NULL: all the same */
};

struct fe_examples {
    fe_json json;            /* NULL: not given */
    int64_t rows;            /* at once; 0: all */
    uint32_t kind;           /* of gradients, loss and scalar metrics */
    fe_json transform, real; /* the list; num_real_microbatches */
    bool asked;              /* an optimizer asked for them: eval reports what the step does */
};

/* By what the loss is multiplied for its gradient. */
struct fe_loss_scale {
    fe_json json; /* NULL: by nothing */
    bool dynamic;
    double initial, growth, backoff, minimum; /* minimum 0: none */
    int64_t interval;
    uint32_t slots[2]; /* of a dynamic scale, and what they hold in the step being built */
    ir_value old[2];
    const ir_value *checked; /* gradients that took the place of the batch's (clipped sums); NULL: none did */
};

struct fe_index_check {
    const char *text;
    ir_value seen; /* indices that are looked at, in place of the others one that fits */
    int64_t least, limit;
    bool infer; /* before infer; else before steps and evaluations */
};

struct fe_step {
    struct fe *fe;
    struct ir_module *module;
    const struct fe_param *params;
    uint32_t param_count;
    bool *trained;          /* per parameter */
    const uint32_t *inputs; /* slots */
    uint32_t input_count;
    struct fe_metric *metrics; /* [0] is the loss */
    uint32_t metric_count;
    struct fe_accumulation accumulate;
    struct fe_examples examples;
    struct fe_loss_scale scale;
    struct fe_outcome *outcome; /* of the step being built */
    bool *averaged;             /* per parameter; NULL: no ema */
    uint32_t *ema_slots;
    double ema_decay;
    uint32_t step_slot;
    struct fe_optim_state optim;
    VEC(struct fe_index_check) indices;
    const struct ir_func *probe; /* the first trace of model and loss, where their values are */
    ir_value probe_loss;
};

/* What one pass over the batch gives. */
struct fe_outcome {
    ir_value loss;
    const ir_value *grads;    /* per parameter; 0 where not trained, NULL if not asked for */
    ir_value *metrics;        /* per metric; 0 = not computed yet */
    const struct fe_env *env; /* for late metrics */
    const int64_t *kinds; /* of single examples: how they are put together, by parameter, then by metric; else NULL */
};

/* inputs.c: parameters of an entry function for the declared inputs; `needed` (may be NULL): for some of them. */
const ir_value *fe_step_inputs(struct fe_step *, struct ir_builder *, const bool *needed);
/* Values by the paths of the parameters, those that are not 0. */
struct fe_val fe_step_tree(struct fe_step *, const ir_value *values);

/* index_checks.c: after a trace of model and loss with notes: what the notes of indices ask for; at the end the entries
 * that compute it of a batch. */
void fe_step_indices_find(struct fe_step *, const struct fe_trace *, bool infer);
void fe_step_indices_build(struct fe_step *);
/* counted.c */
void fe_step_counted(struct fe *, struct ir_module *, const struct ir_module *twice);

/* reach.c */
bool fe_step_reaches(struct fe_step *, const struct ir_func *, ir_value loss); /* from what is trained */

struct fe_rows_part;

/* outcome.c: loss, early metrics and gradients of one step in entry function of `trace` (b, train and inputs set);
 * microbatch by microbatch if the document says so. False: errors were recorded. */
bool fe_step_outcome(struct fe_step *, struct fe_trace *trace, bool grads, struct fe_outcome *);
bool fe_step_clipped_sum(struct fe_optim_state *, const struct optim_clipped *, ir_value *sums, int64_t *examples);
struct ir_func *fe_step_value_and_grad(struct fe_optim_state *, const ir_value **captured, uint32_t *count);
bool fe_step_accumulation(struct fe_step *, fe_json);

/* weigh.c: the weight of the rows that a trace sees, a float32 scalar; 0: an error was recorded. */
ir_value fe_step_weight(struct fe_step *, struct fe_trace *, const struct fe_env *);
/* --numerics invariant: is it of inputs alone? False: an error was recorded. Of all rows, by the number of
 * microbatches; and by value of a microbatch, what it is with that (the part's extra value) in place of its own weight.
 */
bool fe_step_weight_of_inputs(struct fe_step *);
ir_value fe_step_share_of_weight(struct fe_step *, struct fe_trace *, int64_t count);
const ir_value *fe_step_by_share(struct fe_step *, struct fe_rows_part *, ir_value weight);

/* regroup.c: the rows of the microbatches that are made, where the document asks for others. */
bool fe_step_of_single_rows(const struct fe_step *);
int64_t fe_step_regrouped(const struct fe_step *, bool clipped);
/* Do both parts give the same sums and means of a batch, in as many parts as it takes? False: an error was recorded. */
bool fe_step_grows_alike(struct fe_step *, const struct fe_rows_part *asked, const struct fe_rows_part *made);
/* Of what it is shown that they do not: a sum whose mean is taken, or the reverse, or a number of rows, of which *hint
 * tells; NULL: of nothing. */
const char *fe_step_scales(struct fe_step *, const struct fe_rows_part *one, const struct fe_rows_part *other,
                           const char **hint);
/* The error for what would depend on the number of microbatches, E0434; false. */
bool fe_step_depends(struct fe_step *, fe_json, const char *what);

/* Loss, early metrics and gradients of all rows that the trace sees, at once. */
bool fe_step_whole(struct fe_step *, struct fe_trace *trace, bool grads, struct fe_outcome *);
/* How a metric is accumulated over parts of so many rows: as `kinds` says (may be NULL); rows are put together; else
 * `preset`. False: an error was recorded. */
bool fe_step_metric_kind(struct fe_step *, const struct fe_metric *, fe_json kinds, int64_t rows, int64_t preset,
                         const struct ir_type *, int64_t *kind);

/* loss_scale.c */
bool fe_step_loss_scale(struct fe_step *, fe_json); /* NULL: there is none */
/* Declares the state of a dynamic scale in the entry function of a trace; gives it initial values; computes its next
 * values from the gradients and returns whether these are finite, a bool scalar (0: the scale is not dynamic). */
void fe_step_scale_begin(struct fe_step *, struct fe_trace *);
void fe_step_scale_init(struct fe_step *, struct ir_builder *);
ir_value fe_step_scale_end(struct fe_step *, struct ir_builder *, const ir_value *grads);
/* The scale of a trace's loss, a float32 scalar; 0: it has none. */
ir_value fe_step_scale(struct fe_step *, const struct fe_trace *);
const struct fe_env *fe_step_scale_env(struct fe_step *, const struct fe_trace *,
                                       const struct fe_env *outer); /* with the name loss_scale */
ir_value fe_step_unscaled(struct ir_builder *, ir_value scale, ir_value grad);
/* Gradients as optimizers get them. */
const ir_value *fe_step_rounded(struct fe_step *, struct ir_builder *, const ir_value *grads);

/* example.c: the same example by example. */
bool fe_step_examples_read(struct fe_step *, fe_json);
bool fe_step_examples(struct fe_step *, struct fe_trace *trace, bool grads, const struct optim_clipped *,
                      struct fe_outcome *);

/* microbatch.c: functions that see a part of the batch. A microbatch works on the statistics that the one before left;
 * examples come in groups, each of which is computed at once, and all work on the same statistics. */
enum fe_rows_level { PART_MICROBATCH, PART_EXAMPLES, PART_EXAMPLE };
struct fe_rows_part {
    enum fe_rows_level level;
    struct ir_builder b;
    struct fe_trace trace; /* of the part */
    struct fe_rows rows;
    ir_value *args; /* operands, in the function around */
    uint32_t count, batched;
    ir_value extra;     /* the captured value, in the part; 0 = none */
    VEC(int64_t) kinds; /* of the results */
};
bool fe_part_begin(struct fe_step *, struct fe_rows_part *, struct fe_trace *outer, enum fe_rows_level, int64_t rows,
                   ir_value extra);
uint32_t fe_part_result(struct fe_step *, struct fe_rows_part *, const char *name, ir_value,
                        int64_t kind); /* its number */
/* The tuple of the results for all `count` parts, of which `real` run (not for single examples); gives the statistics
 * to `outer`. */
ir_value fe_part_end(struct fe_step *, struct fe_rows_part *, struct fe_trace *outer, ir_value real, int64_t count,
                     int64_t split);
/* The rows of the batch, which all batched inputs share; false: an error was recorded. */
bool fe_step_batch_rows(struct fe_step *, fe_json, int64_t *rows);
/* The number of parts to run, an int32 scalar, at most `count`; `real` NULL: all. 0: an error was recorded. */
ir_value fe_step_real_parts(struct fe_step *, struct fe_trace *, fe_json real, int64_t count);
/* Inputs, constants' outer names, parameters and the loss (0: none): what expressions around the parts see. */
const struct fe_env *fe_step_outer_env(struct fe_step *, struct fe_trace *, ir_value loss);

/* sharding_specs.c: gives slots their `sharding_spec` by the patterns of "sharding", and checks patterns and lengths
 * against the parameters. Called once, when all slots exist. */
bool fe_sharding(struct fe *);

/* metrics.c */
bool fe_step_names(const char *expression, const char *name); /* not as a part of a path */
bool fe_step_metrics_read(struct fe_step *, fe_json);
/* Puts the metrics of every metric object in its place, when the trained parameters are known; false: errors. */
bool fe_step_metrics_expand(struct fe_step *);
/* Computes the metrics with the given lateness into out; false: errors. */
bool fe_step_metrics(struct fe_step *, struct fe_trace *, const struct fe_env *, bool late, ir_value *out);
/* Adds the optimizer's measures as metrics of the step; false: a name is taken. */
bool fe_step_measures(struct fe_step *, struct ir_builder *);
/* Adds one result per metric that was computed. */
void fe_step_metrics_results(struct fe_step *, struct ir_builder *, const ir_value *values);
#endif
