/* The mechanism of gradient transformations.
 *
 * A transformation is a row of optim.def and a function that maps the updates of a tree to new updates in the step's
 * function. Trees have one entry per parameter of the document, 0 where a leaf is left out (frozen, or masked away as
 * Optax's MaskedNode). State is declared by using it: `state` and `state_tree` give the current value of a slot,
 * declaring it with its initial value the first time; `state_set` gives its next value. Names are those that an NNX
 * optimizer gives: opt_state.0.mu.layers.0.kernel. Wrappers run inner transformations under a longer path and may
 * choose between the old and the new inner state. Aliases are chains of other rows, written as text. */
#ifndef FRONTEND_OPTIM_OPTIM_H
#define FRONTEND_OPTIM_OPTIM_H
#include "frontend/model/model.h"
#include "frontend/optim/schedules.h"

/* How a slot begins. Never as a function of the parameters: those may be replaced after `init` (--init). What depends
 * on them is formed in the first step: optim_first, optim_first_params. */
struct optim_start {
    double number;    /* the value repeated */
    const void *data; /* dense data instead, in the slot's dtype */
};

struct optim_slot {
    const char *name;
    uint32_t slot; /* of the module */
    struct ir_type type;
    struct optim_start start;
    const char *owner;  /* path of the transformation that declared it */
    fe_json json;       /* and its object */
    bool copy;          /* begins as a copy of its parameter; who loads parameters copies them again */
    uint32_t parameter; /* index of the parameter that it belongs to + 1; 0 = none */
    ir_value begin;     /* what it begins with in the document's first step, and after a reset; 0: `start` */
    ir_value old, now;  /* in the step's function */
};

/* A hyper-parameter that the host may set: an argument of the transformation object `json`. */
struct optim_hyper {
    fe_json json;
    const char *argument, *name; /* name: for the host */
    const char *state;           /* of a schedule: the slot that shows what the last update was made with */
    ir_value value;
    ir_value given; /* what the host sets; of a schedule: NaN while the schedule holds */
    double begin;   /* what it is before the first step: states may begin with it */
};

/* A measure of the updates: the step reports the state of that name as a metric. */
struct optim_measure {
    const char *name, *state;
    fe_json json;
};

/* Gradients of single examples are to be clipped to a norm, that over some of the parameters. */
struct optim_clipped {
    struct fe_term norm;
    const bool *leaves;
};

/* All that the transformations of one step share. */
struct fe_optim_state {
    struct fe *fe;
    struct fe_trace *trace; /* of the step: expressions */
    struct ir_builder *b;
    uint32_t count; /* parameters of the document */
    const struct fe_param *params;
    VEC(struct optim_slot) slots;
    struct map by_name;
    VEC(struct optim_hyper) hypers, rates; /* rates: those that become hyper-parameters, without values */
    VEC(struct optim_hyper) shared;        /* names of those that another inject_hyperparams has too, without values */
    VEC(struct optim_measure) measures;
    const struct optim_transform *outside; /* inside `flatten`: that one. The one parameter is none of the document */
    const struct fe_param *outside_params;
    ir_value step;           /* of the document, from 0 */
    ir_value value;          /* the loss */
    const char *no_value;    /* the wrapper around that gives none to what is inside; NULL */
    const ir_value *grads;   /* before any transformation; 0 where not trained */
    const ir_value *trained; /* the parameters of the gradients */
    const ir_value *before;  /* the same as the step finds them: a forward pass may leave others (normalised weights) */
    /* The function (trained parameters.., captured..) -> (loss, gradients..) and the captured values in the step;
     * made on demand. */
    struct ir_func *(*value_and_grad)(struct fe_optim_state *, const ir_value **captured, uint32_t *count);
    struct ir_func *value_and_grad_func;
    const ir_value *captured;
    uint32_t captured_count;
    /* The sums of the clipped gradients of the examples, and how many examples; false: errors were recorded. NULL:
     * there are no examples. */
    bool (*clipped_sum)(struct fe_optim_state *, const struct optim_clipped *, ir_value *sums, int64_t *examples);
    bool example; /* these are the gradients of one example */
    void *user;
};

struct optim_row;

/* One use of a row. */
struct optim_transform {
    struct fe_optim_state *o;
    struct fe *fe;
    struct ir_builder *b;
    const struct optim_row *row;
    fe_json json;                /* its object; of an alias's parts: the alias's */
    const char *path;            /* of its state */
    const struct fe_value *args; /* in the order of the row */
    const ir_value *injected;    /* per argument: the value of a hyper-parameter, 0 = none */
    uint32_t count;              /* leaves in a tree */
    ir_value *u;                 /* the updates: changed in place */
    const ir_value *p;           /* the parameters; 0 where u is 0 */
};

typedef void optim_rule(struct optim_transform *);
struct optim_row {
    const char *name;
    optim_rule *rule;  /* NULL: an alias */
    const char *chain; /* "scale_by_adam(nesterov=true) -> trace(decay=momentum)?momentum -> ...": arguments go by name;
                        * a part with `?argument` stands there as identity, one
                        * with ` if argument` is left out, if the argument is null or false */
    const struct fe_arg *args;
    uint32_t count;
    const char *doc;
};
#define TRANSFORM(name, arguments, doc) optim_rule transform_##name;
#define FORMULA(name, arguments, doc)
#define ALIAS(name, chain, arguments, doc)
#include "frontend/optim/optim.def"
#undef TRANSFORM
#undef FORMULA
#undef ALIAS
/* The table, as the context gives it to the mechanism: transformations run others by name. */
struct optim_table {
    const struct optim_row *rows;
    uint32_t count;
};
extern const struct optim_table optim_transforms;
const struct optim_row *optim_rows(uint32_t *count);
const struct optim_row *optim_row_find(const struct fe *, const char *name);
bool optim_inject(struct optim_transform *);  /* of inject_hyperparams: declares what it injects; false: errors */
bool optim_injects(const struct optim_row *); /* inject_hyperparams by either name */
optim_rule optim_formula_run;                 /* of rows that are formulas */
/* A value, or one per parameter, that C code gives to a `part` of optimizers.step and that the part may set; a list of
 * them ends with a name that is NULL. */
struct optim_given {
    const char *name;
    struct fe_term *values;
    bool leaf;
};
/* What an entry calls of those who call it: a schedule at a count, a chain. */
struct optim_calls {
    struct fe_term (*at_count)(struct optim_transform *, const char *argument, struct fe_term count);
    void (*chain)(struct optim_transform *, const char *chain, uint32_t first);
};
void optim_formula_entry(struct optim_transform *, const char *words, const char *name, const struct optim_given *,
                         const struct optim_calls *);
/* Runs a part: it sees what is given and the arguments of the row, and, where there are updates, what a transformation
 * sees. */
void optim_formula_given(struct optim_transform *, const char *part, const struct optim_given *);
/* The rate at a count by an entry (`words`: schedule, factor) that sees the arguments of a row. */
struct fe_term optim_formula_of_count(struct fe *, struct ir_builder *, const char *words, const char *name,
                                      const struct fe_row *, const struct fe_value *args, struct fe_term count);
const char *optim_formula(struct arena *, const char *words, const char *name); /* its lines; NULL: there is none */
enum { OPTIM_MOST_ARGS = 24 };

/* Runs the transformation that a JSON object describes on u, with its state under `path`. */
void optim_apply(struct fe_optim_state *, fe_json, const char *path, ir_value *u, const ir_value *p);
/* Learning rates outside of inject_hyperparams are hyper-parameters too (inject.c). Before optim_apply: finds and names
 * them. Where its object is run: declares one, if that argument is one; 0: the host cannot set it. */
void optim_rates(struct fe_optim_state *, fe_json);
ir_value optim_rate(struct fe_optim_state *, fe_json, const struct fe_arg *, const struct fe_value *);
/* Applies an expression over update, param, updates and params to every parameter. */
void optim_map(struct fe_optim_state *, fe_json expression, ir_value *u, const ir_value *p);
/* Clips one example's gradients, as optax.per_example_global_norm_clip does each. */
void optim_clip_example(struct ir_builder *, uint32_t count, const bool *leaves, struct fe_term limit, ir_value *u);
/* The same where the loss's value cannot be given (as Optax's `wrapper` gives none): an error for who needs it. */
void optim_apply_without_value(struct fe_optim_state *, fe_json, const char *wrapper, const char *path, ir_value *u,
                               const ir_value *p);
/* check.c: the row of an object and its arguments; `hyper`: which numbers are hyper-parameters. NULL: errors were
 * recorded. */
const struct optim_row *optim_read(struct fe_optim_state *, fe_json, struct fe_value *args, const bool *hyper);
/* Records the errors of a description alone (types, arguments, schedules), for documents that are in error anyway. */
void optim_check(struct fe *, fe_json);
void optim_custom_check(struct fe *, fe_json); /* of a `custom` object: the form of its expressions */
/* Runs a chain text with the arguments of t; its parts have their states under <path>.<first>, ..; OPTIM_HERE: the one
 * part that it has is no chain, and its state under <path>. */
enum { OPTIM_HERE = INT32_MAX };
void optim_chain(struct optim_transform *t, const char *chain, uint32_t first);
/* "path.name" */
const char *optim_path(struct optim_transform *, const char *name);
/* After the inner transformations under `path` ran: every state there takes its new value only where `keep` (a bool
 * scalar) is true. `before` is optim_snapshot from before they ran. `nan_passes`: by multiplication, of both here. */
ir_value *optim_snapshot(struct fe_optim_state *);
void optim_select(struct fe_optim_state *, const char *path, struct fe_term keep, const ir_value *before,
                  bool nan_passes);

/* Every state under `path` takes its initial value where `when` is true. */
void optim_reset(struct fe_optim_state *, const char *path, struct fe_term when, bool nan_passes);
/* Gradients of the loss at other parameters (0: as they are); false: errors were recorded. */
bool optim_gradient_at(struct optim_transform *, const ir_value *params, ir_value *grads);

/* Arguments by name. */
int32_t optim_arg_find(const struct optim_row *, const char *name, size_t length); /* its number; -1: none */
uint32_t optim_arg_index(const struct optim_transform *, const char *name);
const struct fe_value *optim_arg(const struct optim_transform *, const char *name);
struct fe_term optim_number(const struct optim_transform *,
                            const char *name);                       /* a number, or the value that the host sets: one
                                                                      * of inject_hyperparams is a float32 array, a
                                                                      * learning rate remains a number (term.h) */
bool optim_absent(const struct optim_transform *, const char *name); /* null */
bool optim_scheduled(const struct optim_transform *, const char *name); /* a schedule object, not injected */
/* For integers that something is unrolled over: false and an error if the argument is larger. */
bool optim_at_most(const struct optim_transform *, const char *name, int64_t limit);
/* The patterns of a mask as one bool per parameter: all true if it is null. False: an error was recorded. */
bool optim_mask(const struct optim_transform *, const char *name, bool *out);
/* An expression of one name, a counter: its value as a scalar. False: an error was recorded. */
bool optim_of_counter(struct optim_transform *, fe_json text, const char *name, struct fe_term count,
                      struct fe_term *out);
/* fe_pattern_map over the parameters; the map may be NULL. */
bool optim_patterns_match(struct optim_transform *, fe_json map);
bool optim_not_whole(struct fe *, fe_json at); /* false, and the error: patterns inside `flatten` */

/* State of the whole tree; of every leaf, in the parameter's shape; of one leaf, in any shape. */
struct fe_term optim_state(struct optim_transform *, const char *name, struct ir_type, struct optim_start);
void optim_state_set(struct optim_transform *, const char *name, struct fe_term);
ir_value *optim_tree(struct optim_transform *, const char *name, enum ir_dtype /* IR_TUPLE: the parameter's */,
                     struct optim_start);
void optim_tree_set(struct optim_transform *, const char *name, const ir_value *values); /* cast to the slots' dtypes */
struct fe_term optim_leaf(struct optim_transform *, const char *name, uint32_t leaf, struct ir_type,
                          struct optim_start);
void optim_leaf_set(struct optim_transform *, const char *name, uint32_t leaf, struct fe_term);
/* How the dimensions of a slot lie along those of a parameter, so that both can be split alike: `lead` dimensions of
 * its own come first, then the parameter's without those whose bits are set. Not needed for a leaf of the parameter's
 * rank: its dimensions of the same extents are the parameter's. */
void optim_leaf_along(struct optim_transform *, const char *name, uint32_t leaf, uint32_t lead, uint32_t without);
void optim_state_along(struct optim_transform *, const char *name, uint32_t leaf, uint32_t lead, uint32_t without);
void optim_leaf_axes(struct optim_transform *, const char *name, uint32_t leaf,
                     uint32_t param_dims); /* as in ir_slot */
/* Whether the transformation runs for the first time: a bool scalar, kept in a slot of its own. */
struct fe_term optim_first(struct optim_transform *);
/* The parameters as they were before the document's first step, even if a wrapper kept the transformation from running
 * then, or as they are when a wrapper resets its state: what Optax's `init` saw. Kept in slots of a dtype (IR_TUPLE:
 * the parameter's). */
ir_value *optim_first_params(struct optim_transform *, const char *name, enum ir_dtype);
/* The leaves as they were before this step: a forward pass may have left others (normalised weights are written back).
 */
ir_value *optim_initial(const struct optim_transform *);
/* Lets a state of the tree begin with any value in the first step; right after it was declared. */
void optim_begin_with(struct optim_transform *, const char *name, ir_value begin);
/* The number of a leaf when the leaves are ordered by path, as JAX orders those of a tree. */
uint32_t optim_rank(const struct optim_transform *, uint32_t leaf);
/* flatten: from the one vector to the leaves. */
void optim_split(struct optim_transform *, ir_value whole, ir_value *leaves);
/* Second parameters, saved as <prefix>.<path>, that begin as copies of the parameters. They can be set without having
 * been read. */
ir_value *optim_copies(struct optim_transform *, const char *prefix);
void optim_copies_set(struct optim_transform *, const char *prefix, const ir_value *values);
struct fe_term optim_increment(struct ir_builder *, struct fe_term count); /* saturates */

/* A loop in the step (optim_loop.c): declare what it carries, close the list with optim_now, write the body with `b`
 * and optim_capture for outer values, and finish with one new value per carried one. It runs while the first carried
 * value, a bool scalar, is true, and at most `limit` times. */
struct optim_loop {
    struct ir_builder b; /* of the body */
    struct ir_builder *outer;
    VEC(ir_value) carried;  /* initial values, in the step */
    VEC(ir_value) now;      /* in the body: what the round begins with */
    VEC(ir_value) captured; /* in the step */
    VEC(ir_value) inside;   /* the same in the body */
    struct arena *arena;
};
struct optim_loop optim_loop(struct optim_transform *, const char *name);
uint32_t optim_carry(struct optim_loop *, struct fe_term initial, enum ir_dtype); /* the number of the value */
struct fe_term optim_now(const struct optim_loop *, uint32_t);
ir_value optim_capture(struct optim_loop *, ir_value outer);              /* 0 stays 0 */
struct fe_term optim_captured(struct optim_loop *, struct fe_term outer); /* numbers stay numbers */
/* The values after the loop, in order. */
const ir_value *optim_loop_end(struct optim_loop *, struct fe_term limit, const ir_value *next);
/* The same; without `flag` the first carried value is none in particular, and the loop runs `limit` times. */
const ir_value *optim_loop_close(struct optim_loop *, struct fe_term limit, const ir_value *next, bool flag);

/* A branch (branch.c): what was built since `from` (a number of nodes of the step's function) and what `values` need of
 * it is carried out only where `when`, a bool scalar, is true; `values` then hold the result, else `otherwise`. */
void optim_branch(struct optim_transform *t, uint32_t from, struct fe_term when, ir_value *values,
                  const ir_value *otherwise, uint32_t count);
/* The same for values and all state that changed since `before` was taken (optim_snapshot). */
void optim_branch_state(struct optim_transform *t, const ir_value *before, uint32_t from, struct fe_term when,
                        ir_value *values, const ir_value *otherwise, uint32_t count);

/* Random keys (gradient_noise.c): two uint32 scalars. The key in slot `name` begins as the seed; its next value is the
 * first part of its split. Returned is the key itself (carried) or the second part of the split (next). Leaves take the
 * parts of a key in the order of their paths, from part 0 or `first` on. */
struct optim_key {
    ir_value word[2];
};
struct optim_key optim_carried_key(struct optim_transform *, const char *name, int64_t seed);
struct optim_key optim_next_key(struct optim_transform *, const char *name, int64_t seed);
struct optim_key optim_leaf_key_from(struct optim_transform *, struct optim_key, uint32_t leaf, uint32_t first);
struct optim_key optim_leaf_key(struct optim_transform *, struct optim_key, uint32_t leaf);

/* The narrowest and the widest dtype of the parameters: numbers kept beside them have it, as in Optax. */
enum ir_dtype optim_lowest(const struct optim_transform *);
enum ir_dtype optim_highest(const struct optim_transform *);
ir_value *optim_new_tree(const struct optim_transform *);
/* The leaves of the transformation as a tree of expressions. */
struct fe_val optim_tree_value(struct optim_transform *, const ir_value *);
/* The value of an expression of the document; 0: an error was recorded. */
ir_value optim_evaluate(struct optim_transform *, fe_json text, const struct fe_env *);
/* Sum of squares over the whole tree, a float32 scalar (0 for an empty tree), and the inner product of two. */
struct fe_term optim_square_sum(struct optim_transform *, const ir_value *);
struct fe_term optim_dot(struct ir_builder *, uint32_t count, const ir_value *, const ir_value *);

/* ---------------------------------------------------------------- short names for the files of rules */

#define T(v) term_tensor(v)
#define EACH_LEAF(t, i) \
    for (uint32_t i = 0; i < (t)->count; i++) \
        if ((t)->u[i])

static const struct optim_start zero = {0};
static inline const struct fe_value *arg(const struct optim_transform *t, const char *name)
{
    return optim_arg(t, name);
}
static inline struct fe_term number(const struct optim_transform *t, const char *name) { return optim_number(t, name); }
static inline bool flag(const struct optim_transform *t, const char *name) { return optim_arg(t, name)->boolean; }
static inline bool absent(const struct optim_transform *t, const char *name) { return optim_absent(t, name); }
static inline enum ir_dtype dtype_of(const struct optim_transform *t, const char *name) { return arg(t, name)->dtype; }
/* The dtype of a nullable argument; null: that of the parameters. */
static inline enum ir_dtype dtype_or(const struct optim_transform *t, const char *name)
{
    return absent(t, name) ? IR_TUPLE : dtype_of(t, name);
}
static inline struct fe_term counter(struct optim_transform *t, const char *name) /* int32, from 0 */
{
    return optim_state(t, name, ir_type_scalar(IR_I32), zero);
}
/* A number, or a schedule at a counter. */
static inline struct fe_term at_count(struct optim_transform *t, const char *name, struct fe_term count)
{
    if (!optim_scheduled(t, name)) return number(t, name);
    return fe_schedule_term(t->fe, t->b, arg(t, name), count.v);
}
/* x where it is sent, else 0. By multiplication, as in Optax, if the document asks for it: then a NaN gets through. */
static inline struct fe_term sent_or_zero(struct optim_transform *t, struct fe_term sent, struct fe_term x)
{
    if (flag(t, "nan_passes")) return term_mul(t->b, sent, x);
    return term_where(t->b, sent, x, term_number(0));
}
/* x where the condition holds, else y; `nan_passes`: floats by multiplication, as Optax does it in places */
static inline struct fe_term picked(struct ir_builder *b, bool nan_passes, struct fe_term condition, struct fe_term x,
                                    struct fe_term y)
{
    if (!nan_passes || !ir_dtype_is_float((enum ir_dtype)ir_type(b->f, x.v)->dtype))
        return term_where(b, condition, x, y);
    return term_add(b, term_mul(b, condition, x), term_mul(b, term_not(b, condition), y));
}
/* (1 - decay) * g + decay * m */
static inline struct fe_term moment(struct ir_builder *b, struct fe_term g, struct fe_term m, struct fe_term decay)
{
    return term_add(b, term_mul(b, term_sub(b, term_integer(1), decay), g), term_mul(b, decay, m));
}
/* 1 - decay**count, in float32 */
static inline struct fe_term correction(struct ir_builder *b, struct fe_term decay, struct fe_term count)
{
    return term_sub(b, term_integer(1), term_pow(b, decay, count));
}
static inline struct fe_term corrected(struct ir_builder *b, struct fe_term m, struct fe_term c)
{
    return term_div(b, m, term_cast_like(b, c, m));
}
#endif
