/* The pipeline: from a module of stage tensor to a plan. passes.def lists the passes in order. */
#ifndef PASSES_PASS_H
#define PASSES_PASS_H
#include "ir/plan.h"

struct pass_options {
    const char *dump;           /* "" all, "a,b" named ones, NULL none */
    const char *dump_dir;       /* default "." */
    const char *stop_after;     /* NULL: to the end */
    const char *disable;        /* "a,b"; required passes cannot be */
    const char *only;           /* "a,b": run just these, in pipeline order (--passes); NULL all */
    const char *reproducer_dir; /* where a failing pass leaves its input; default "." */
    bool dump_changed;          /* what a pass left as it was is not dumped */
    bool verify_each, time_passes;
    uint32_t blocks;        /* that a command keeps busy, as a GPU's, where each is a launch; 0: workers of a CPU */
    bool check_finite;      /* objects say what is not finite: nothing else may be */
    int blas;               /* a row of kernels/kernels.def (plan_product_row); 0: auto */
    uint32_t panel_rows;    /* of packed left operands of products; 0: they are not packed */
    uint32_t panel_columns; /* of packed operands of products; 0: they are not packed */
    bool panel_pairs;       /* those of bfloat16 are, too, two steps of the contraction side by side */
    bool tap_pairs;         /* so are those that read views of taps */
    bool invariant;         /* --numerics invariant, mesh-invariant */
    bool fast;              /* --numerics fast: what takes fewer operations may round otherwise */
    bool microbatches;      /* --numerics invariant: their number changes no bit either */
    int64_t together;       /* so many microbatches are made at a time at most (pass together); 0: any number */
    int64_t chunk_rows;     /* of a chunk (pass chunk); 0: by size, -1: nothing is chunked */
    int remat;              /* level of pass remat; -1: nothing is made again */
    bool consumes; /* the module that comes in is not needed any more: it is freed as those between passes are */
};

struct pass_time {
    const char *name;
    double begin, seconds; /* begin: by CLOCK_MONOTONIC */
    uint32_t nodes;
    bool changed; /* or made anew, where nobody asked */
};

/* What pass fuse makes of a module, where another pass needed to know it already. */
struct pass_fused {
    const struct ir_module *of;
    struct ir_module *made;
    struct plan_module *plans;
};

struct pass {
    const struct pass_options *options;
    struct diags *diags;  /* the user's mistakes found by a pass: not differentiable, sharding, memory */
    struct arena scratch; /* reset after every pass */
    struct arena *keep;   /* lives as long as the result */
    bool owned;           /* nobody else has the module at hand: a pass with nothing to rewrite may set its stage */
    const char *dumped;   /* dump_changed: the last text */
    struct pass_fused fused;
    VEC(struct pass_time) times;
};

/* How far a module is: its stage, and from fuse on how far its plans are (enum plan_stage). */
enum pass_stage {
    PASS_TENSOR = IR_STAGE_TENSOR,
    PASS_SPMD = IR_STAGE_SPMD,
    PASS_KERNEL = IR_STAGE_KERNEL,
    PASS_PLANS,
    PASS_GROUPS = PASS_PLANS + PLAN_GROUPS,
    PASS_COMMANDS = PASS_PLANS + PLAN_COMMANDS,
    PASS_MEMORY = PASS_PLANS + PLAN_MEMORY
};

/* A pass returns the rebuilt module, or the same one if it only annotates; NULL: a diagnostic was recorded. */
typedef struct ir_module *pass_fn(struct pass *, struct ir_module *);

/* Runs the pipeline, from behind the pass whose result the module is. Returns the plans; NULL if a diagnostic was
 * recorded or --stop-after or --passes ended it early (then *last is the module at that point). The module that came in
 * stays valid, unless options->consumes and *last is another. */
struct plan_module *pass_run(struct pass *, struct ir_module *, struct ir_module **last);
const char *const *pass_names(size_t *count);

#define X(name, required, stage_in, stage_out, doc) pass_fn pass_##name;
#include "passes/passes.def"
#undef X
#endif
