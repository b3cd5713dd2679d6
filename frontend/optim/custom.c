/* `custom`: a transformation that the document writes itself, as expressions (CUSTOM.md).
 *
 * Every name of its expressions has one value for the whole tree (step, value, hyper-parameters, slots with
 * "per": "tree", what is computed from these alone) or one per parameter (g, p, rank, the other slots, what is computed
 * with them). Which it is follows from the names that an expression mentions. tree_sum and its like evaluate their
 * argument at every parameter and give one value for the tree. Expressions are parsed once, evaluated name by name over
 * all parameters, so that a later one may look at the whole tree of an earlier one. */
#include "frontend/optim/custom.h"
#include <string.h>

/* ---------------------------------------------------------------- evaluation */

/* What the expressions of parameter `leaf` see. */
static const struct fe_env *scope_of(struct custom *c, struct fe_env *scope, uint32_t leaf)
{
    const struct fe_env *outer = c->base;
    for (size_t i = 0; i < c->ready; i++) {
        const struct custom_name *n = &c->names.items[i];
        if (!n->values) continue;
        scope[i] = (struct fe_env){outer, n->name, n->values[n->leaf ? leaf : 0], n->json != NULL};
        outer = &scope[i];
    }
    return outer;
}

static struct fe_env *scope_new(struct custom *c)
{
    return arena_new_array(c->fe->arena, struct fe_env, c->names.count + 1);
}

/* The errors since `before` belong to a parameter. */
static void blame(struct custom *c, size_t before, uint32_t leaf)
{
    const struct fe_param *p = &c->t->o->params[leaf];
    if (c->fe->diags->list.count <= before) return;
    struct diag *d = &c->fe->diags->list.items[c->fe->diags->list.count - 1];
    if (!d->hint)
        d->hint = arena_format(c->fe->arena, "at parameter \"%s\" of shape %s", p->path,
                               ir_type_text(c->fe->arena, &p->type));
}

static struct fe_val evaluate(struct custom *c, const struct custom_text *text, uint32_t leaf)
{
    return fe_expr_of(c->fe, c->t->o->trace, text->json, text->tree, scope_of(c, c->scope, leaf));
}

/* One value per parameter, or one. False: errors were recorded. */
static bool evaluate_all(struct custom *c, const struct custom_text *text, bool leaf, const bool *there,
                         struct fe_val *out)
{
    struct optim_transform *t = c->t;
    if (!leaf) {
        uint32_t any = 0;
        while (any < t->count && !t->u[any]) any++;
        out[0] = evaluate(c, text, any < t->count ? any : 0);
        return !out[0].bad;
    }
    EACH_LEAF(t, i) {
        size_t before = c->fe->diags->list.count;
        if (there && !there[i]) continue;
        out[i] = evaluate(c, text, i);
        if (!out[i].bad) continue;
        blame(c, before, i);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- forms */

/* The argument at every parameter, or the leaves of a tree. False: an error was recorded. */
static bool form_argument(struct custom *c, struct fe_site *s, const struct expr_node *n, const struct fe_env *env,
                          struct fe_val **out, uint32_t *count)
{
    struct optim_transform *t = c->t;
    struct fe_val *values = arena_new_array(c->fe->arena, struct fe_val, t->count + 1);
    *out = values, *count = 0;
    if (custom_walk(c, s->where.json, n, false, c->ready)) {
        struct fe_env *scope = scope_new(c);
        EACH_LEAF(t, i) {
            size_t before = c->fe->diags->list.count;
            struct fe_val v = fe_eval(s, n, scope_of(c, scope, i));
            if (!v.bad && fe_as_tensor(s, &v)) {
                values[(*count)++] = v;
                continue;
            }
            blame(c, before, i);
            return false;
        }
        return true;
    }
    struct fe_val v = fe_eval(s, n, env);
    if (v.bad) return false;
    if (v.kind != FE_VAL_TREE)
        return fe_wrong_here(s, "E0310",
                             "a value per parameter expected (with g, p or a slot), or updates or params; found %s",
                             fe_describe(s, &v));
    for (uint32_t i = 0; i < v.tree->count; i++) values[(*count)++] = fe_val_tensor(v.tree->values[i]);
    return true;
}

/* Sums are taken parameter by parameter, in the order of the document, in float32. */
static struct fe_val form_value(struct fe_site *s, enum custom_form_kind kind, const struct fe_val *x,
                                const struct fe_val *y, uint32_t count)
{
    struct fe_val all = fe_float(0);
    for (uint32_t i = 0; i < count; i++) {
        struct fe_val v = fe_inexact(s, x[i]);
        if (kind == TREE_NORM) v = fe_mul(s, v, v);
        if (kind == TREE_VDOT) v = fe_mul(s, v, y[i]);
        v = fe_reduce_all(s, kind == TREE_MAX ? FE_RED_MAX : FE_RED_SUM, v);
        if (i == 0) all = v;
        else all = kind == TREE_MAX ? fe_op2(s, OP_max, all, v) : fe_add(s, all, v);
    }
    all = fe_cast(s, all, IR_F32);
    return kind == TREE_NORM ? fe_op1(s, OP_sqrt, all) : all;
}

static struct fe_val form_apply(const struct fe_form *form, struct fe_site *s, const struct expr_node *call,
                                const struct fe_env *env)
{
    struct custom *c = form->user;
    const struct fe_where here = {s->where.json, call->at, call->length, true};
    int row = custom_form(call->text);
    struct fe_val *x[2] = {0};
    uint32_t count[2] = {0};
    for (size_t i = 0; i < c->folded.count; i++)
        if (c->folded.items[i].call == call) return c->folded.items[i].value;
    struct custom_folded new = {call, fe_bad()};
    bool good = call->count == custom_forms[row].arguments;
    for (uint32_t i = 0; i < call->count; i++) good = good && !call->names[i];
    s->where = here;
    if (!good)
        fe_fail(s, "E0312", "%s takes %s", call->text,
                custom_forms[row].arguments == 1 ? "one argument" : "two arguments: tree_vdot(x, y)");
    for (uint32_t i = 0; good && i < call->count; i++) {
        good = form_argument(c, s, call->items[i], env, &x[i], &count[i]);
        s->where = here;
    }
    if (good && x[1] && count[1] != count[0]) good = false, fe_fail(s, "E0210", "the two trees differ");
    if (good) new.value = form_value(s, custom_forms[row].kind, x[0], x[1], count[0]);
    vec_push(c->fe->arena, &c->folded, new);
    return new.value;
}

/* ---------------------------------------------------------------- slots */

/* Which axis of the parameter every dimension of a slot of own shape runs along: as `axes` says, else where only one
 * has its extent. It is split over devices like these. */
static bool slot_axes(struct custom *c, struct custom_name *n, uint32_t leaf, const struct ir_type *type)
{
    const struct ir_type *like = &c->t->o->params[leaf].type;
    struct fe_site s = {.fe = c->fe, .trace = c->t->o->trace, .b = c->t->b, .where = {.json = n->axes.json}};
    struct fe_val v = n->axes.json ? evaluate(c, &n->axes, leaf) : fe_none();
    uint32_t axis, *along = &n->along[leaf], next = 0;
    if (v.bad) return false;
    for (uint32_t d = 0; !n->axes.json && d < type->rank; d++) {
        uint32_t found = 0, count = 0;
        for (uint32_t k = 0; k < like->rank; k++)
            if (like->dim[k] == type->dim[d]) found = k, count++;
        if (count != 1 || found < next || type->dim[d] < 2) continue;
        *along |= (found + 1) << 4 * d;
        next = found + 1;
    }
    if (fe_is_none(&v)) return true;
    if (v.kind != FE_VAL_TUPLE || v.count != type->rank)
        return fe_wrong_here(
            &s, "E0310", "\"axes\": one of the parameter's axes or None for every dimension of %s expected, found %s",
            ir_type_text(c->fe->arena, type), fe_describe(&s, &v));
    for (uint32_t d = 0; d < v.count; d++) {
        int64_t number;
        uint32_t one;
        if (fe_is_none(&v.items[d])) continue;
        if (!fe_get_ints(&s, &v.items[d], &number, 1, &one, "\"axes\"") || !fe_get_axis(&s, number, like->rank, &axis))
            return false;
        for (uint32_t k = 0; k < d; k++)
            if ((*along >> 4 * k & 15) == axis + 1)
                return fe_wrong_here(&s, "E0310", "\"axes\": axis %u stands there twice", (unsigned)axis);
        if (like->dim[axis] != type->dim[d])
            return fe_wrong_here(
                &s, "E0310", "\"axes\": dimension %u of the slot has %lld elements, axis %u of the parameter has %lld",
                (unsigned)d, (long long)type->dim[d], (unsigned)axis, (long long)like->dim[axis]);
        *along |= (axis + 1) << 4 * d;
    }
    return true;
}

/* The shape of a slot at a parameter; false: the slot is not there, or an error was recorded. */
static bool slot_type(struct custom *c, struct custom_name *n, uint32_t leaf, struct ir_type *out)
{
    const struct ir_type *like = &c->t->o->params[leaf].type;
    int64_t dim[IR_MAX_RANK];
    uint32_t rank, axis, left = 0;
    struct fe_site s = {.fe = c->fe, .trace = c->t->o->trace, .b = c->t->b, .where = {.json = n->shape.json}};
    *out = *like;
    n->without[leaf] = 0;
    if (n->has_dtype) out->dtype = (uint8_t)n->dtype;
    if (!n->shape.json) return true;
    size_t before = c->fe->diags->list.count;
    struct fe_val v = evaluate(c, &n->shape, leaf);
    if (fe_is_none(&v)) return false;
    bool good = !v.bad && fe_get_ints(&s, &v, dim, IR_MAX_RANK, &rank, n->reduced ? "the axes" : "the shape of a slot");
    for (uint32_t i = 0; good && n->reduced && i < rank; i++) {
        good = fe_get_axis(&s, dim[i], like->rank, &axis);
        if (good) n->without[leaf] |= 1u << axis;
    }
    for (uint32_t i = 0; good && n->reduced && i < like->rank; i++)
        if (!(n->without[leaf] >> i & 1)) dim[left++] = like->dim[i];
    if (n->reduced) rank = left;
    good = good && fe_type(c->fe, n->shape.json, dim, rank, (enum ir_dtype)out->dtype, out);
    good = good && (n->reduced || slot_axes(c, n, leaf, out));
    if (!good) blame(c, before, leaf);
    return good;
}

/* The value that a slot begins with: a number, or what the first step computes. */
static ir_value slot_begin(struct custom *c, struct custom_name *n, uint32_t leaf, struct optim_start *start)
{
    struct fe_site s = {.fe = c->fe, .trace = c->t->o->trace, .b = c->t->b, .where = {.json = n->start.json}};
    const struct ir_type *type = &n->types[n->leaf ? leaf : 0];
    struct ir_type both;
    *start = zero;
    if (!n->start.json) return 0;
    struct fe_val v = evaluate(c, &n->start, leaf);
    if (v.bad) return 0;
    if (v.kind == FE_VAL_NUMBER) {
        start->number = v.number;
        return 0;
    }
    if (!fe_as_tensor(&s, &v)) return 0;
    struct ir_type have = fe_type_at(&s, &v);
    if (!fe_broadcast_shapes(&have, type, &both) || both.rank != type->rank ||
        memcmp(both.dim, type->dim, sizeof *type->dim * type->rank)) {
        fe_error(c->fe, n->start.json, "E0452", "slot \"%s\" is %s and cannot begin with %s", n->name,
                 ir_type_text(c->fe->arena, type), ir_type_text(c->fe->arena, &have));
        return 0;
    }
    return ir_broadcast_to(c->t->b, ir_cast(c->t->b, v.tensor, (enum ir_dtype)type->dtype), type->rank, type->dim);
}

/* Declares a slot at a parameter, or for the tree, and gives its value in this step. */
static struct fe_val slot_value(struct custom *c, struct custom_name *n, uint32_t leaf)
{
    struct optim_transform *t = c->t;
    struct ir_type type = n->types[n->leaf ? leaf : 0];
    struct optim_start start;
    ir_value begin = slot_begin(c, n, leaf, &start);
    struct fe_term now = n->leaf ? optim_leaf(t, n->name, leaf, type, start) : optim_state(t, n->name, type, start);
    if (n->leaf && n->reduced) optim_leaf_along(t, n->name, leaf, 0, n->without[leaf]);
    else if (n->leaf && n->shape.json) optim_leaf_axes(t, n->name, leaf, n->along[leaf]);
    if (begin && !c->first.v) c->first = optim_first(t);
    if (begin) now = term_where(t->b, c->first, T(begin), now);
    return fe_val_tensor(now.v);
}

static void declare(struct custom *c, struct custom_name *n)
{
    struct optim_transform *t = c->t;
    uint32_t count = n->leaf ? t->count + 1 : 1;
    n->values = arena_new_array(c->fe->arena, struct fe_val, count);
    n->types = arena_new_array(c->fe->arena, struct ir_type, count);
    n->there = arena_new_array(c->fe->arena, bool, count);
    n->without = arena_new_array(c->fe->arena, uint32_t, count);
    n->along = arena_new_array(c->fe->arena, uint32_t, count);
    if (!n->leaf) {
        n->types[0] = ir_type_scalar(n->has_dtype ? n->dtype : IR_F32);
        n->values[0] = slot_value(c, n, 0);
        return;
    }
    EACH_LEAF(t, i) {
        size_t before = c->fe->diags->list.count;
        n->there[i] = slot_type(c, n, i, &n->types[i]);
        if (n->there[i]) n->values[i] = slot_value(c, n, i);
        if (c->fe->diags->list.count == before) continue;
        blame(c, before, i);
        return;
    }
}

/* ---------------------------------------------------------------- new values */

/* A value brought to a type: numbers and scalars fill it. 0: an error was recorded. */
static ir_value fitted(struct custom *c, const struct fe_val *value, fe_json where, const struct ir_type *want,
                       const char *what)
{
    struct fe_site s = {.fe = c->fe, .trace = c->t->o->trace, .b = c->t->b, .where = {.json = where}};
    struct fe_val v = *value;
    if (v.kind == FE_VAL_NUMBER && ir_dtype_is_float((enum ir_dtype)want->dtype))
        return ir_number(c->t->b, *want, v.number);
    if (!fe_as_tensor(&s, &v)) return 0;
    struct ir_type have = fe_type_at(&s, &v);
    bool same = have.rank == want->rank && !memcmp(have.dim, want->dim, have.rank * sizeof *have.dim);
    /* bool to integer to float, never back */
    bool kind = fe_dtype_class((enum ir_dtype)have.dtype) <= fe_dtype_class((enum ir_dtype)want->dtype);
    if (!kind || (have.rank && !same)) {
        fe_error(c->fe, where, "E0452", "%s is %s, this is %s%s", what, ir_type_text(c->fe->arena, want),
                 ir_type_text(c->fe->arena, &have), kind ? "" : "; astype() converts");
        return 0;
    }
    return ir_broadcast_to(c->t->b, ir_cast(c->t->b, v.tensor, (enum ir_dtype)want->dtype), want->rank, want->dim);
}

/* The next values of a slot, which are set when all are known. */
static bool next_values(struct custom *c, struct custom_name *n, ir_value *out)
{
    struct optim_transform *t = c->t;
    struct fe_val *values = arena_new_array(c->fe->arena, struct fe_val, t->count + 1);
    bool leaf = custom_walk_text(c, &n->next, c->names.count);
    const char *what = arena_format(c->fe->arena, "slot \"%s\"", n->name);
    if (!evaluate_all(c, &n->next, leaf, n->leaf ? n->there : NULL, values)) return false;
    if (!n->leaf) return (out[0] = fitted(c, &values[0], n->next.json, &n->types[0], what)) != 0;
    EACH_LEAF(t, i) {
        size_t before = c->fe->diags->list.count;
        if (!n->there[i]) continue;
        out[i] = fitted(c, &values[leaf ? i : 0], n->next.json, &n->types[i], what);
        if (out[i]) continue;
        blame(c, before, i);
        return false;
    }
    return true;
}

/* The updates that go on: in the dtype that they have; numbers and integers in that of g. */
static bool next_updates(struct custom *c, ir_value *out)
{
    struct optim_transform *t = c->t;
    struct fe_val *values = arena_new_array(c->fe->arena, struct fe_val, t->count + 1);
    bool leaf = custom_walk_text(c, &c->update, c->names.count);
    if (!evaluate_all(c, &c->update, leaf, NULL, values)) return false;
    EACH_LEAF(t, i) {
        const struct fe_val *v = &values[leaf ? i : 0];
        struct ir_type want = *ir_type(t->b->f, t->u[i]);
        size_t before = c->fe->diags->list.count;
        if (v->kind == FE_VAL_TENSOR && !v->weak &&
            ir_dtype_is_float((enum ir_dtype)ir_type(t->b->f, v->tensor)->dtype))
            want.dtype = ir_type(t->b->f, v->tensor)->dtype;
        out[i] = fitted(c, v, c->update.json, &want, "the update");
        if (out[i]) continue;
        blame(c, before, i);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- the transformation */

static void set_values(struct custom *c, const char *name, struct fe_val value)
{
    custom_name(c, name, strlen(name))->values = arena_copy(c->fe->arena, &value, sizeof value);
}

/* What every expression knows. */
static void builtin_values(struct custom *c, struct fe_term count)
{
    struct optim_transform *t = c->t;
    struct fe_val *g = arena_new_array(c->fe->arena, struct fe_val, t->count + 1),
                  *p = arena_new_array(c->fe->arena, struct fe_val, t->count + 1),
                  *rank = arena_new_array(c->fe->arena, struct fe_val, t->count + 1);
    EACH_LEAF(t, i) {
        g[i] = fe_val_tensor(t->u[i]);
        p[i] = fe_val_tensor(t->p[i]);
        rank[i] = fe_int((double)t->o->params[i].type.rank);
    }
    c->names.items[0].values = g, c->names.items[1].values = p, c->names.items[2].values = rank;
    if (count.v) set_values(c, "step", fe_val_tensor(count.v));
    if (count.v) set_values(c, "count_inc", fe_val_tensor(optim_increment(t->b, count).v));
    if (t->o->value) set_values(c, "value", fe_val_tensor(t->o->value));
    set_values(c, "updates", optim_tree_value(t, t->u));
    set_values(c, "params", optim_tree_value(t, t->p));
    for (size_t i = 0; i < c->names.count; i++) {
        struct custom_name *n = &c->names.items[i];
        if (n->kind != HYPER || !fe_is_schedule(n->json) || !fe_is_none(&n->values[0])) continue;
        struct fe_value schedule = {.given = true, .json = n->json};
        n->values[0] = fe_tensor_val(fe_schedule(c->fe, t->b, &schedule, count.v), true);
    }
}

static bool compute(struct custom *c, ir_value *u, ir_value **next)
{
    struct optim_transform *t = c->t;
    size_t errors = c->fe->diags->errors;
    for (size_t i = 0; i < c->names.count; i++, c->ready = i) {
        struct custom_name *n = &c->names.items[i];
        if (n->kind == SLOT) declare(c, n);
        if (c->fe->diags->errors > errors) return false;
        if (n->kind != LET) continue;
        n->values = arena_new_array(c->fe->arena, struct fe_val, t->count + 1);
        if (!evaluate_all(c, &n->text, n->leaf, NULL, n->values)) return false;
    }
    for (size_t i = 0; i < c->names.count; i++) {
        if (c->names.items[i].kind != SLOT) continue;
        next[i] = optim_new_tree(t);
        if (!next_values(c, &c->names.items[i], next[i])) return false;
    }
    return next_updates(c, u);
}

void transform_custom(struct optim_transform *t)
{
    struct custom c = {.t = t, .fe = t->fe, .base = t->o->trace->env};
    size_t errors = t->fe->diags->errors;
    struct fe_term count = {0};
    struct fe_form form = {form_apply, &c};
    struct fe_env forms[FORMS];
    custom_read(&c);
    if (t->fe->diags->errors > errors) return;

    for (int i = 0; i < FORMS; i++) {
        forms[i] = (struct fe_env){c.base, custom_forms[i].name, {.kind = FE_VAL_FORM, .form = &form}, false};
        c.base = &forms[i];
    }
    c.scope = scope_new(&c);
    if (c.counted) count = counter(t, "count");
    builtin_values(&c, count);
    ir_value *u = optim_new_tree(t), **next = arena_new_array(t->fe->arena, ir_value *, c.names.count + 1);
    if (t->fe->diags->errors > errors || !compute(&c, u, next)) return;
    custom_check_use(&c);
    for (size_t i = 0; i < c.names.count; i++) {
        struct custom_name *n = &c.names.items[i];
        if (n->kind != SLOT) continue;
        if (!n->leaf) optim_state_set(t, n->name, T(next[i][0]));
        EACH_LEAF(t, k)
            if (n->leaf && n->there[k]) optim_leaf_set(t, n->name, k, T(next[i][k]));
    }
    if (c.counted) optim_state_set(t, "count", optim_increment(t->b, count));
    EACH_LEAF(t, i) t->u[i] = u[i];
}
