/* What the files that assemble the entry functions share (step.c, gradient.c, metrics.c). */
#ifndef FRONTEND_STEP_H
#define FRONTEND_STEP_H
#include "frontend/optim/optim.h"

/* A metric of the document, or `loss`. */
struct metric {
    const char *name;
    fe_json json;
    uint32_t slot; /* of role METRIC + 1; 0 = not declared yet */
    bool late;     /* reads grads, updates or hyperparams: computed after the update */
    bool object;   /* a metric object: stands for several, see fe_step_metrics_expand */
    uint32_t measure, parameter; /* of a metric object, once expanded */
};

struct accumulation {
    fe_json json; /* NULL: the batch at once */
    int64_t rows, microbatches;
    uint32_t kind;       /* of gradients, loss and scalar metrics: 0 sum, 1 mean, 2 running mean */
    uint32_t split;      /* 0 strided, 1 contiguous */
    fe_json real, kinds; /* num_real_microbatches; accumulators by metric */
};

struct step {
    struct fe *fe;
    struct ir_module *module;
    const struct fe_param *params;
    uint32_t param_count;
    bool *trained;          /* per parameter */
    const uint32_t *inputs; /* slots */
    uint32_t input_count;
    struct metric *metrics; /* [0] is the loss */
    uint32_t metric_count;
    struct accumulation accumulate;
    bool *averaged; /* per parameter; NULL: no ema */
    uint32_t *ema_slots;
    double ema_decay;
    uint32_t step_slot;
    struct fe_optim_state optim;
};

/* What one pass over the batch gives. */
struct outcome {
    ir_value loss;
    const ir_value *grads;    /* per parameter; 0 where not trained, NULL if not asked for */
    ir_value *metrics;        /* per metric; 0 = not computed yet */
    const struct fe_env *env; /* for late metrics */
};

/* A builder that stands at the end of `f`. */
struct ir_builder fe_step_builder(struct step *, struct ir_func *f);
/* Parameters of an entry function for all declared inputs. */
const ir_value *fe_step_inputs(struct step *, struct ir_builder *);

/* gradient.c: loss, early metrics and gradients of one step in entry function of `trace` (b, train and inputs set);
 * microbatch by microbatch if the document says so. False: errors were recorded. */
bool fe_step_outcome(struct step *, struct fe_trace *trace, bool grads, struct outcome *);
struct ir_func *fe_step_value_and_grad(struct fe_optim_state *, const ir_value **captured, uint32_t *count);
bool fe_step_accumulation(struct step *, fe_json);

/* metrics.c */
bool fe_step_metrics_read(struct step *, fe_json);
/* Puts the metrics of every metric object in its place, when the trained parameters are known; false: errors. */
bool fe_step_metrics_expand(struct step *);
/* Computes the metrics with the given lateness into out; false: errors. */
bool fe_step_metrics(struct step *, struct fe_trace *, const struct fe_env *, bool late, ir_value *out);
/* Adds the optimizer's measures as metrics of the step; false: a name is taken. */
bool fe_step_measures(struct step *, struct ir_builder *);
/* Adds one result per metric that was computed. */
void fe_step_metrics_results(struct step *, struct ir_builder *, const ir_value *values);
#endif
