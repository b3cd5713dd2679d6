/* Inside of `custom`: what custom.c and custom_read.c share. */
#ifndef FRONTEND_OPTIM_CUSTOM_H
#define FRONTEND_OPTIM_CUSTOM_H
#include "frontend/expr/values.h"
#include "frontend/optim/optim.h"

enum custom_name_kind { BUILTIN, HYPER, SLOT, LET };

/* An expression of the document. */
struct custom_text {
    fe_json json;
    struct expr_node *tree; /* NULL: a literal, or an error that was reported */
};

struct custom_name {
    const char *name;
    enum custom_name_kind kind;
    fe_json json;
    bool leaf; /* a value per parameter */
    bool used;
    struct custom_text text; /* LET: its expression */
    struct fe_val *values;   /* per parameter, or one */
    /* SLOT */
    struct custom_text shape, start, next;
    bool reduced; /* `shape` says which axes of the parameter's shape are left out */
    bool has_dtype;
    enum ir_dtype dtype;
    struct ir_type *types;   /* per parameter, or one */
    bool *there;             /* per parameter: whether the slot exists for it */
    uint32_t *without;       /* per parameter: the axes that are left out, as bits */
    struct custom_text axes; /* of a slot with a shape of its own: the parameter's axes that it runs along */
    uint32_t *along;         /* per parameter: these, as in ir_slot.param_dims */
};

/* A call of a form, evaluated once. */
struct custom_folded {
    const struct expr_node *call;
    struct fe_val value;
};

struct custom {
    struct optim_transform *t;
    struct fe *fe;
    VEC(struct custom_name) names;
    size_t ready; /* names from here on have no value yet */
    const struct fe_env *base;
    struct fe_env *scope; /* one entry per name */
    VEC(struct custom_folded) folded;
    struct custom_text update; /* of g */
    bool counted;              /* something asks for the step */
    struct fe_term first;      /* set when a slot begins with what the first step computes */
};

enum custom_form_kind { TREE_SUM, TREE_VDOT, TREE_NORM, TREE_MAX };
struct custom_form_row {
    const char *name;
    enum custom_form_kind kind;
    uint32_t arguments;
};
enum { FORMS = 5 };

/* custom_read.c: reads the object into names and texts. Errors are recorded. */
void custom_read(struct custom *);
/* Reports names that no expression uses, when there is no other error. */
void custom_check_use(struct custom *);
struct custom_name *custom_name(struct custom *, const char *text, size_t length); /* NULL: not known */
/* Whether an expression has a value per parameter; notes what it uses. Names from `limit` on have no value yet. */
bool custom_walk(struct custom *, fe_json, const struct expr_node *, bool inside, size_t limit);
bool custom_walk_text(struct custom *, const struct custom_text *, size_t limit);
int custom_form(const char *name); /* the row of a function over the whole tree; -1: none */
extern const struct custom_form_row custom_forms[];
#endif
