/* Integers of the batch that index: labels of losses, and what x[i] and take read by. Those that are an input as it is
 * limit the values of that input; the others, expressions of inputs or under a mask, are computed by entries of their
 * own, "indices" in front of every step and evaluation, "lookup" in front of infer, and the runtime looks at them
 * there. What no mask lets through to the loss, or to the model's outputs, does not matter: rows of `where` and
 * `weights`, products with 0, the other side of a select. */
#include "frontend/step/assemble.h"
#include <string.h>

struct search {
    struct ir_builder b; /* stands behind the loss, in the function of the trace */
    uint32_t count;      /* of its nodes at the beginning */
    bool *root;          /* the loss, or the outputs of the model */
    bool *fixed, *read;  /* computed of inputs and numbers alone; of an input */
    bool *live;          /* reaches a root */
    uint32_t *first, *users;
    uint32_t left; /* nodes that are still looked at */
};

/* Which elements of a value matter: a bool tensor of its shape, or */
enum { EVERY = 0, NONE = UINT32_MAX };

static void find_fixed(struct search *x, const struct ir_func *f)
{
    for (size_t i = 0; i < f->params.count; i++) {
        int32_t slot = f->params.items[i].slot;
        bool input = slot >= 0 && f->module->slots.items[slot].role == IR_ROLE_INPUT;
        x->fixed[f->params.items[i].value] = x->read[f->params.items[i].value] = input;
    }
    for (ir_value v = 1; v < x->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        if (n->op == OP_param || n->op == OP_device_index || !(ir_ops[n->op].flags & IR_PURE)) continue;
        bool all = true, some = false;
        for (uint32_t i = 0; i < n->arg_count; i++) all &= x->fixed[n->args[i]], some |= x->read[n->args[i]];
        x->fixed[v] = all, x->read[v] = all && some;
    }
}

static void find_users(struct search *x, const struct ir_func *f, struct arena *a)
{
    uint32_t *at;
    memcpy(x->live, x->root, x->count * sizeof *x->live);
    for (ir_value v = x->count - 1; v > 0; v--)
        for (uint32_t i = 0; x->live[v] && i < ir_get(f, v)->arg_count; i++) x->live[ir_get(f, v)->args[i]] = true;
    x->first = arena_new_array(a, uint32_t, x->count + 1), at = arena_new_array(a, uint32_t, x->count + 1);
    for (ir_value v = 1; v < x->count; v++)
        for (uint32_t i = 0; i < ir_get(f, v)->arg_count; i++) x->first[ir_get(f, v)->args[i] + 1]++;
    for (uint32_t v = 1; v <= x->count; v++) x->first[v] += x->first[v - 1];
    memcpy(at, x->first, x->count * sizeof *at);
    x->users = arena_new_array(a, uint32_t, x->first[x->count] + 1);
    for (ir_value v = 1; v < x->count; v++)
        for (uint32_t i = 0; i < ir_get(f, v)->arg_count; i++) x->users[at[ir_get(f, v)->args[i]]++] = v;
}

/* ---------------------------------------------------------------- what a mask lets through */

static ir_value either(struct search *x, ir_value p, ir_value q)
{
    if (p == NONE || q == NONE) return p == NONE ? q : p;
    return p && q ? ir_binary(&x->b, OP_or, p, q) : EVERY;
}

static ir_value both(struct search *x, ir_value p, ir_value q)
{
    if (p == NONE || q == NONE) return NONE;
    return p && q ? ir_binary(&x->b, OP_and, p, q) : p ? p : q;
}

static ir_value not_zero(struct search *x, ir_value v)
{
    if (ir_type(x->b.f, v)->dtype != IR_BOOL) v = ir_binary(&x->b, OP_ne, v, ir_number_like(&x->b, v, 0));
    const struct ir_node *n = ir_get(x->b.f, v);
    bool always = n->op == OP_constant && n->splat && *(const unsigned char *)n->data;
    return always ? EVERY : v;
}

/* Any over the dimensions of a bit mask. */
static ir_value any(struct search *x, ir_value p, uint32_t mask)
{
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t d = 0; d < ir_type(x->b.f, p)->rank; d++)
        if (mask >> d & 1) dims[n++] = d;
    return n ? ir_reduce(&x->b, OP_reduce_max, p, dims, n) : p;
}

/* Elements of x of which a broadcast makes elements that matter. */
static ir_value of_broadcast(struct search *x, const struct ir_node *n, ir_value p)
{
    const struct ir_type t = *ir_type(x->b.f, n->args[0]);
    uint32_t mask = (1u << n->type.rank) - 1;
    for (uint32_t i = 0; i < t.rank; i++)
        if (t.dim[i] == n->type.dim[n->attr[0].v[i]]) mask &= ~(1u << n->attr[0].v[i]);
    return ir_reshape(&x->b, any(x, p, mask), t.rank, t.dim);
}

static ir_value of_slice(struct search *x, const struct ir_node *n, ir_value p)
{
    const struct ir_type t = *ir_type(x->b.f, n->args[0]);
    int64_t low[IR_MAX_RANK], high[IR_MAX_RANK], between[IR_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t extent = n->type.dim[i], stride = n->attr[2].v[i];
        if (!extent) return NONE;
        low[i] = n->attr[0].v[i], between[i] = stride - 1;
        high[i] = t.dim[i] - low[i] - (extent - 1) * stride - 1;
    }
    return ir_pad(&x->b, p, ir_scalar(&x->b, IR_BOOL, 0), low, high, between);
}

static ir_value of_reduction(struct search *x, const struct ir_node *n, ir_value p)
{
    const struct ir_type t = *ir_type(x->b.f, n->args[0]);
    int64_t kept[IR_MAX_RANK];
    uint32_t count = 0, gone = 0;
    for (uint32_t i = 0; i < n->attr[0].n; i++) gone |= 1u << n->attr[0].v[i];
    for (uint32_t d = 0; d < t.rank; d++)
        if (!(gone >> d & 1)) kept[count++] = d;
    return ir_broadcast(&x->b, p, t.rank, t.dim, kept);
}

static ir_value matters(struct search *x, ir_value v);

/* Elements of v that matter to a user of it. */
static ir_value through(struct search *x, ir_value v, ir_value user)
{
    struct ir_node n = *ir_get(x->b.f, user);
    int64_t back[IR_MAX_RANK];
    bool moves = n.op == OP_reshape || n.op == OP_broadcast || n.op == OP_transpose || n.op == OP_slice ||
                 n.op == OP_reduce_sum || n.op == OP_reduce_max || n.op == OP_reduce_min;
    if (!moves && !ir_is_ewise((enum ir_op)n.op)) return EVERY;
    ir_value p = matters(x, user);
    if (p == NONE || (p == EVERY && moves && n.op != OP_slice)) return p;
    const struct ir_type t = *ir_type(x->b.f, v);
    switch (n.op) {
    case OP_mul: {
        ir_value other = n.args[n.args[0] == v];
        return other != v && x->fixed[other] ? both(x, not_zero(x, other), p) : p;
    }
    case OP_select:
        if (n.args[0] == v || n.args[1] == n.args[2] || !x->fixed[n.args[0]]) return p;
        return both(x, n.args[1] == v ? n.args[0] : ir_unary(&x->b, OP_not, n.args[0]), p);
    case OP_reshape: return ir_reshape(&x->b, p, t.rank, t.dim);
    case OP_broadcast: return of_broadcast(x, &n, p);
    case OP_transpose:
        for (uint32_t i = 0; i < t.rank; i++) back[n.attr[0].v[i]] = i;
        return ir_transpose(&x->b, p, back);
    case OP_slice: return of_slice(x, &n, p ? p : ir_number(&x->b, ir_type_of(IR_BOOL, n.type.rank, n.type.dim), 1));
    case OP_reduce_sum:
    case OP_reduce_max:
    case OP_reduce_min: return of_reduction(x, &n, p);
    default: return p;
    }
}

static ir_value matters(struct search *x, ir_value v)
{
    ir_value p = NONE;
    if (x->root[v] || !x->left) return EVERY;
    x->left--;
    for (uint32_t i = x->first[v]; i < x->first[v + 1] && p != EVERY; i++)
        if (x->live[x->users[i]] && (i == x->first[v] || x->users[i] != x->users[i - 1]))
            p = either(x, p, through(x, v, x->users[i]));
    return p;
}

/* The product of a mask as a number is folded into a select of the mask. */
static ir_value made_of(const struct search *x, const struct fe_index_note *note)
{
    ir_value v = note->made;
    while (!x->live[v] && ir_get(x->b.f, v)->op == OP_cast) v = ir_get(x->b.f, v)->args[0];
    return v;
}

/* Those indices that matter, by what is made of them. */
static ir_value by_what_is_made(struct search *x, const struct fe_index_note *note)
{
    const struct ir_type t = *ir_type(x->b.f, note->index);
    ir_value made = made_of(x, note), p = x->live[made] ? matters(x, made) : NONE;
    if (p == NONE || p == EVERY) return p;
    p = any(x, p, note->other);
    struct ir_type have = *ir_type(x->b.f, p);
    int64_t dims[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (have.rank > t.rank || memcmp(have.dim, t.dim, have.rank * sizeof *t.dim) != 0) return EVERY;
    return have.rank < t.rank ? ir_broadcast(&x->b, p, t.rank, t.dim, dims) : p;
}

static bool is_label(struct search *x, const struct fe_index_notes *notes, ir_value v)
{
    for (size_t i = 0; i < notes->labels.count; i++)
        if (notes->labels.items[i] == v) return true;
    for (uint32_t i = x->first[v]; i < x->first[v + 1] && x->left; i++, x->left--)
        if (x->fixed[x->users[i]] && is_label(x, notes, x->users[i])) return true;
    return false;
}

/* ---------------------------------------------------------------- what is done about them */

/* The input that has these values, one for one if no slice is on the way; NULL: none. */
static struct ir_slot *input_of(const struct search *x, ir_value v, bool *part)
{
    struct ir_func *f = x->b.f;
    *part = false;
    for (;;) {
        const struct ir_node *n = ir_get(f, v);
        for (size_t i = 0; n->op == OP_param && i < f->params.count; i++)
            if (f->params.items[i].value == v) return &f->module->slots.items[f->params.items[i].slot];
        bool same = n->op == OP_reshape || n->op == OP_transpose || n->op == OP_broadcast || n->op == OP_slice ||
                    (n->op == OP_cast && n->type.dtype == IR_I32 &&
                     ir_dtype_is_integer((enum ir_dtype)ir_type(f, n->args[0])->dtype));
        if (!same) return NULL;
        *part |= n->op == OP_slice;
        v = n->args[0];
    }
}

static void check_one(struct fe_step *s, struct search *x, const struct fe_index_note *note, bool infer)
{
    bool part;
    x->left = 64;
    struct ir_slot *slot = input_of(x, note->index, &part);
    ir_value counted = note->made ? by_what_is_made(x, note) : EVERY;
    if (counted == NONE) return;
    if (note->counted && x->fixed[note->counted]) counted = both(x, not_zero(x, note->counted), counted);
    double least = (double)note->least;
    if (slot && slot->index_limit && slot->index_limit <= note->limit && slot->initial >= least) return;
    if (slot && !part && !counted && !infer) {
        if (!slot->index_limit || slot->initial < least) slot->initial = least;
        if (!slot->index_limit || slot->index_limit > note->limit) slot->index_limit = note->limit;
        return;
    }
    struct ir_builder *b = &x->b;
    ir_value i = ir_cast(b, note->index, IR_I32), low = ir_number_like(b, i, least),
             last = ir_number_like(b, i, (double)note->limit - 1);
    ir_value wrong = ir_binary(b, OP_or, ir_binary(b, OP_lt, i, low), ir_binary(b, OP_lt, last, i));
    ir_value seen = ir_select(b, both(x, wrong, counted), i, ir_number_like(b, i, least > 0 ? least : 0));
    vec_push(s->fe->arena, &s->indices, ((struct fe_index_check){note->text, seen, note->least, note->limit, infer}));
}

static void mark_outputs(bool *root, const struct fe_val *v)
{
    for (uint32_t i = 0; v->kind == FE_VAL_TUPLE && i < v->count; i++) mark_outputs(root, &v->items[i]);
    if (v->kind == FE_VAL_TENSOR) root[v->tensor] = true;
}

void fe_step_indices_find(struct fe_step *s, const struct fe_trace *trace, bool infer)
{
    struct arena *a = s->fe->arena;
    const struct fe_index_notes *notes = trace->notes;
    struct ir_func *f = trace->b->f;
    struct search x = {.b = {.f = f}, .count = f->count, .root = arena_new_array(a, bool, f->count)};
    if (!notes->list.count) return;
    mark_outputs(x.root, infer ? &trace->model : &trace->loss);
    x.fixed = arena_new_array(a, bool, x.count), x.read = arena_new_array(a, bool, x.count);
    x.live = arena_new_array(a, bool, x.count);
    find_fixed(&x, f);
    find_users(&x, f, a);
    for (size_t i = 0; i < notes->list.count; i++) {
        const struct fe_index_note *note = &notes->list.items[i];
        x.left = 256;
        bool comes = x.read[note->index] && ir_type_elements(ir_type(f, note->index)) && note->limit > 0;
        if (infer && (!x.live[note->index] || note->of_labels)) continue;
        if (comes && (!note->of_labels || is_label(&x, notes, made_of(&x, note)))) check_one(s, &x, note, infer);
    }
}

/* Texts may be equal, names of what an entry gives may not; what both entries give has one slot. */
static int32_t slot_of(struct fe_step *s, const struct ir_func *f, struct ir_slot slot)
{
    const struct ir_slot *all = s->module->slots.items;
    const char *text = slot.name;
    for (uint32_t i = 0, same = 1; i < s->module->slots.count; i++) {
        if (all[i].role != IR_ROLE_INDEX || strcmp(all[i].name, slot.name) != 0) continue;
        bool other = !ir_type_equal(&all[i].type, &slot.type) || all[i].index_limit != slot.index_limit ||
                     all[i].initial != slot.initial;
        for (size_t k = 0; k < f->results.count; k++) other |= f->results.items[k].slot == (int32_t)i;
        if (!other) return (int32_t)i;
        slot.name = arena_format(s->fe->arena, "%s (%u)", text, ++same);
        i = UINT32_MAX; /* from the beginning */
    }
    return (int32_t)ir_slot_new(s->module, slot);
}

static void build(struct fe_step *s, const char *entry, bool infer)
{
    const struct ir_func *f = s->probe;
    bool *needed = arena_new_array(s->fe->arena, bool, f->count), any = false;
    ir_value *map = arena_new_array(s->fe->arena, ir_value, f->count);
    for (size_t i = 0; i < s->indices.count; i++)
        if (s->indices.items[i].infer == infer) needed[s->indices.items[i].seen] = any = true;
    if (!any) return;
    struct ir_builder b = {.f = ir_func_new(s->module, entry, true)};
    for (ir_value v = f->count - 1; v > 0; v--)
        for (uint32_t i = 0; needed[v] && i < ir_get(f, v)->arg_count; i++) needed[ir_get(f, v)->args[i]] = true;
    for (size_t i = 0; i < f->params.count; i++) {
        const struct ir_param *p = &f->params.items[i];
        if (needed[p->value]) map[p->value] = ir_param_new(&b, p->name, p->type, p->slot);
    }
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        ir_value args[IR_EVAL_OPERANDS], *list = args;
        if (!needed[v] || n->op == OP_param) continue;
        if (n->arg_count > IR_EVAL_OPERANDS) list = arena_new_array(s->fe->arena, ir_value, n->arg_count);
        for (uint32_t i = 0; i < n->arg_count; i++) list[i] = map[n->args[i]];
        map[v] = ir_remake(&b, n, list);
    }
    for (size_t i = 0; i < s->indices.count; i++) {
        const struct fe_index_check *c = &s->indices.items[i];
        if (c->infer != infer) continue;
        struct ir_slot slot = {.name = c->text,
                               .role = IR_ROLE_INDEX,
                               .type = *ir_type(b.f, map[c->seen]),
                               .index_limit = c->limit,
                               .initial = (double)c->least};
        int32_t at = slot_of(s, b.f, slot);
        ir_result_add(&b, s->module->slots.items[at].name, map[c->seen], at);
    }
}

void fe_step_indices_build(struct fe_step *s)
{
    build(s, "indices", false);
    build(s, "lookup", true);
}
