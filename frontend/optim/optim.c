/* The mechanism of gradient transformations: arguments, state, trees (optim.h). */
#include "frontend/optim/optim.h"
#include <stdlib.h>
#include <string.h>

const struct optim_row *optim_row_find(const struct fe *fe, const char *name)
{
    for (uint32_t i = 0; i < fe->transforms->count; i++)
        if (strcmp(fe->transforms->rows[i].name, name) == 0) return &fe->transforms->rows[i];
    return NULL;
}

/* ---------------------------------------------------------------- arguments */

int32_t optim_arg_find(const struct optim_row *row, const char *name, size_t length)
{
    for (uint32_t i = 0; i < row->count; i++)
        if (strlen(row->args[i].name) == length && strncmp(row->args[i].name, name, length) == 0) return (int32_t)i;
    return -1;
}

uint32_t optim_arg_index(const struct optim_transform *t, const char *name)
{
    int32_t i = optim_arg_find(t->row, name, strlen(name));
    if (i < 0) BUG("optimizer %s has no argument %s", t->row->name, name);
    return (uint32_t)i;
}

const struct fe_value *optim_arg(const struct optim_transform *t, const char *name)
{
    return &t->args[optim_arg_index(t, name)];
}
bool optim_absent(const struct optim_transform *t, const char *name) { return optim_arg(t, name)->null; }

bool optim_scheduled(const struct optim_transform *t, const char *name)
{
    const struct fe_value *v = optim_arg(t, name);
    return !t->injected[optim_arg_index(t, name)] && fe_is_schedule(v->json);
}

struct fe_term optim_number(const struct optim_transform *t, const char *name)
{
    ir_value injected = t->injected[optim_arg_index(t, name)];
    if (!injected) return term_number(arg(t, name)->number);
    return (struct fe_term){.v = injected, .weak = ir_type(t->b->f, injected)->dtype == IR_F64};
}

bool optim_at_most(const struct optim_transform *t, const char *name, int64_t limit)
{
    const struct fe_value *v = optim_arg(t, name);
    if (v->integer <= limit) return true;
    fe_error(t->fe, v->json, "E0103", "\"%s\" must be at most %lld, found %s", name, (long long)limit,
             fe_found(t->fe, v->json));
    return false;
}

bool optim_mask(const struct optim_transform *t, const char *name, bool *out)
{
    const struct fe_value *v = arg(t, name);
    for (uint32_t i = 0; i < t->count; i++) out[i] = true;
    return v->null || !v->json || t->o->outside || fe_patterns(t->fe, v->json, out); /* inside flatten: all or none */
}

bool optim_not_whole(struct fe *fe, fe_json at)
{
    fe_error(fe, at, "E0428", "\"flatten\" makes one vector: nothing inside of it can choose parameters");
    return false;
}

/* Inside `flatten` the one vector is no parameter of the document: "**" alone is a pattern for it. */
static bool patterns_are_whole(struct optim_transform *t, fe_json map)
{
    fe_json first = fe_first(t->fe, map);
    for (fe_json e = first; e; e = fe_next(t->fe, e))
        if (strcmp(e->key, "**") != 0) return optim_not_whole(t->fe, e);
    return first || !map || optim_not_whole(t->fe, map);
}

bool optim_patterns_match(struct optim_transform *t, fe_json map)
{
    if (t->o->outside) return patterns_are_whole(t, map);
    const char **paths = arena_new_array(t->fe->arena, const char *, t->count + 1);
    for (uint32_t i = 0; i < t->count; i++) paths[i] = t->o->params[i].path;
    bool good = fe_pattern_map(t->fe, map, "E0420", paths, t->count);
    for (fe_json e = fe_first(t->fe, map); e; e = fe_next(t->fe, e)) {
        bool frozen = false, trained = !strcmp(e->key, "**");
        for (uint32_t i = 0; i < t->count; i++) {
            bool still = t->fe->module->slots.items[t->o->params[i].slot].frozen, met = glob_match(e->key, paths[i]);
            frozen |= met && still, trained |= met && !still;
        }
        if (frozen && !trained)
            fe_warning_key(t->fe, e, "W0405", "pattern \"%s\" matches nothing that is trained: frozen parameters alone",
                           e->key);
    }
    return good;
}

bool optim_of_counter(struct optim_transform *t, fe_json text, const char *name, struct fe_term count,
                      struct fe_term *out)
{
    struct fe_env env = {.outer = t->o->trace->env, .name = name, .value = fe_val_tensor(count.v)};
    struct fe_val v = fe_expr(t->fe, t->o->trace, text, &env);
    ir_value tensor = v.bad ? 0 : fe_tensor(t->fe, t->o->trace, &v, text);
    if (!tensor) return false;
    if (ir_type(t->b->f, tensor)->rank)
        return fe_wrong(t->fe, text, "E0423", "must be one number per step, found shape %s",
                        ir_type_text(t->fe->arena, ir_type(t->b->f, tensor)));
    *out = (struct fe_term){.v = tensor, .weak = v.weak || v.kind != FE_VAL_TENSOR};
    return true;
}

/* ---------------------------------------------------------------- state */

const char *optim_path(struct optim_transform *t, const char *name)
{
    return arena_format(t->fe->arena, "%s.%s", t->path, name);
}

/* The slot of that name; declared, and read in the step, if it is new. `parameter`: index + 1 of the one it follows. */
static struct optim_slot *slot_of(struct optim_transform *t, const char *name, struct ir_type type,
                                  struct optim_start start, uint32_t parameter)
{
    struct fe_optim_state *o = t->o;
    uint32_t index = map_get(&o->by_name, name);
    if (index == MAP_NONE) {
        index = (uint32_t)o->slots.count;
        struct ir_slot slot = {.name = name,
                               .role = IR_ROLE_OPT_STATE,
                               .type = type,
                               .place = o->b->place,
                               .param = parameter ? o->params[parameter - 1].slot + 1 : 0};
        struct optim_slot new = {.name = name, .type = type, .start = start, .parameter = parameter, .json = t->json};
        new.slot = ir_slot_new(o->fe->module, slot);
        new.old = new.now = ir_param_new(o->b, name, type, (int32_t) new.slot);
        vec_push(o->fe->arena, &o->slots, new);
        map_set(&o->by_name, name, index);
    }
    struct optim_slot *s = &o->slots.items[index];
    if (s->json != t->json && !s->copy) /* names of a named_chain may hold dots */
        fe_error(t->fe, t->json, "E0450", "the state \"%s\" has the name of one of another transformation", name);
    return s;
}

static struct optim_slot *slot_find(struct fe_optim_state *o, const char *name)
{
    uint32_t index = map_get(&o->by_name, name);
    if (index == MAP_NONE) BUG("state %s is not declared", name);
    return &o->slots.items[index];
}

struct fe_term optim_state(struct optim_transform *t, const char *name, struct ir_type type, struct optim_start start)
{
    return term_tensor(slot_of(t, optim_path(t, name), type, start, 0)->now);
}

void optim_state_set(struct optim_transform *t, const char *name, struct fe_term value)
{
    struct optim_slot *s = slot_find(t->o, optim_path(t, name));
    s->now = term_value(t->b, value, s->type.dtype);
}

static const char *leaf_path(struct optim_transform *t, const char *name, uint32_t leaf)
{
    const char *path = t->o->params[leaf].path; /* none inside `flatten` */
    return arena_format(t->fe->arena, "%s.%s%s%s", t->path, name, *path ? "." : "", path);
}

struct fe_term optim_leaf(struct optim_transform *t, const char *name, uint32_t leaf, struct ir_type type,
                          struct optim_start start)
{
    const struct ir_type *param = &t->o->params[leaf].type;
    struct optim_slot *s = slot_of(t, leaf_path(t, name, leaf), type, start, leaf + 1);
    struct ir_slot *slot = &t->fe->module->slots.items[s->slot];
    bool same = type.rank == param->rank && memcmp(type.dim, param->dim, sizeof type.dim) == 0;
    for (uint32_t d = 0; !same && d < type.rank && type.rank == param->rank && slot->param; d++)
        if (type.dim[d] == param->dim[d]) slot->param_dims |= (d + 1) << 4 * d;
    return term_tensor(s->now);
}

static void along(struct fe_optim_state *o, struct optim_slot *s, uint32_t leaf, uint32_t lead, uint32_t without)
{
    struct ir_slot *slot = &o->fe->module->slots.items[s->slot];
    uint32_t at = lead;
    slot->param = o->params[leaf].slot + 1; /* 0 for what is no parameter of the document */
    slot->param_dims = 0;
    for (uint32_t d = 0; slot->param && d < o->params[leaf].type.rank && at < slot->type.rank; d++)
        if (!(without >> d & 1)) slot->param_dims |= (d + 1) << 4 * at++;
}

void optim_leaf_along(struct optim_transform *t, const char *name, uint32_t leaf, uint32_t lead, uint32_t without)
{
    along(t->o, slot_find(t->o, leaf_path(t, name, leaf)), leaf, lead, without);
}

void optim_leaf_axes(struct optim_transform *t, const char *name, uint32_t leaf, uint32_t dims)
{
    struct ir_slot *slot = &t->fe->module->slots.items[slot_find(t->o, leaf_path(t, name, leaf))->slot];
    if (slot->param) slot->param_dims = dims;
}

void optim_state_along(struct optim_transform *t, const char *name, uint32_t leaf, uint32_t lead, uint32_t without)
{
    along(t->o, slot_find(t->o, optim_path(t, name)), leaf, lead, without);
}

void optim_leaf_set(struct optim_transform *t, const char *name, uint32_t leaf, struct fe_term value)
{
    struct optim_slot *s = slot_find(t->o, leaf_path(t, name, leaf));
    s->now = term_value(t->b, value, s->type.dtype);
}

ir_value *optim_tree(struct optim_transform *t, const char *name, enum ir_dtype dtype, struct optim_start start)
{
    ir_value *values = optim_new_tree(t);
    EACH_LEAF(t, i) {
        struct ir_type type = t->o->params[i].type;
        if (dtype != IR_TUPLE) type.dtype = (uint8_t)dtype;
        values[i] = optim_leaf(t, name, i, type, start).v;
    }
    return values;
}

void optim_tree_set(struct optim_transform *t, const char *name, const ir_value *values)
{
    EACH_LEAF(t, i) optim_leaf_set(t, name, i, term_tensor(values[i]));
}

struct fe_term optim_first(struct optim_transform *t)
{
    struct fe_term first = optim_state(t, "first", ir_type_scalar(IR_BOOL), (struct optim_start){.number = 1});
    optim_state_set(t, "first", term_tensor(ir_scalar(t->b, IR_BOOL, 0)));
    return first;
}

/* initial: the value in the first step; begin: after a reset. */
static struct optim_slot *begin_with(struct optim_transform *t, struct optim_slot *s, ir_value initial, ir_value begin)
{
    struct fe_term first = term_eq(t->b, term_tensor(t->o->step), term_integer(0));
    if (s->begin) return s; /* it runs for the second time in one step */
    s->begin = term_cast(t->b, term_tensor(begin), (enum ir_dtype)s->type.dtype).v;
    initial = term_cast(t->b, term_tensor(initial), (enum ir_dtype)s->type.dtype).v;
    s->now = s->old = term_where(t->b, first, term_tensor(initial), term_tensor(s->old)).v;
    return s;
}

void optim_begin_with(struct optim_transform *t, const char *name, ir_value begin)
{
    (void)begin_with(t, slot_find(t->o, optim_path(t, name)), begin, begin);
}

ir_value *optim_initial(const struct optim_transform *t)
{
    ir_value *initial = optim_new_tree(t);
    EACH_LEAF(t, i) initial[i] = t->p[i] == t->o->trained[i] ? t->o->before[i] : t->p[i];
    return initial;
}

ir_value *optim_first_params(struct optim_transform *t, const char *name, enum ir_dtype dtype)
{
    ir_value *kept = optim_tree(t, name, dtype, zero), *initial = optim_initial(t);
    EACH_LEAF(t, i) kept[i] = begin_with(t, slot_find(t->o, leaf_path(t, name, i)), initial[i], t->p[i])->now;
    return kept;
}

/* NULL: it is another one's, which is an error. */
static struct optim_slot *copy_of(struct optim_transform *t, const char *prefix, uint32_t leaf)
{
    const struct fe_param *p = &t->o->params[leaf];
    const char *name = arena_format(t->fe->arena, "%s.%s", prefix, p->path);
    uint32_t known = map_get(&t->o->by_name, name);
    if (known != MAP_NONE && strcmp(t->o->slots.items[known].owner, t->path) != 0) {
        fe_error(t->fe, t->json, "E0450", "two \"%s\" cannot both keep a copy of parameter \"%s\"", t->row->name,
                 p->path);
        return NULL;
    }
    struct optim_slot *s = slot_of(t, name, p->type, zero, leaf + 1);
    t->fe->module->slots.items[s->slot].role = IR_ROLE_EMA;
    s->copy = true;
    s->owner = t->path;
    return s;
}

ir_value *optim_copies(struct optim_transform *t, const char *prefix)
{
    ir_value *values = optim_new_tree(t);
    if (t->o->outside) {
        fe_error(t->fe, t->json, "E0428", "\"%s\" keeps a copy of every parameter and cannot stand inside \"flatten\"",
                 t->row->name);
        return t->u; /* ends with an error */
    }
    EACH_LEAF(t, i) {
        const struct optim_slot *s = copy_of(t, prefix, i);
        if (!s) return t->u;
        values[i] = s->now;
    }
    return values;
}

void optim_copies_set(struct optim_transform *t, const char *prefix, const ir_value *values)
{
    struct optim_transform outside = t->o->outside ? *t->o->outside : *t;
    if (t->o->outside) { /* the parts of the one vector go to the parameters that it stands for */
        struct fe_optim_state inside = *t->o;
        ir_value *parts = optim_new_tree(&outside);
        outside.path = t->path;
        t->o->params = inside.outside_params, t->o->outside = NULL;
        optim_split(&outside, values[0], parts);
        optim_copies_set(&outside, prefix, parts);
        t->o->params = inside.params, t->o->outside = inside.outside;
        return;
    }
    EACH_LEAF(t, i) {
        struct optim_slot *s = copy_of(t, prefix, i);
        if (!s) return;
        s->now = ir_cast(t->b, values[i], t->o->params[i].type.dtype);
    }
}

struct fe_term optim_increment(struct ir_builder *b, struct fe_term count)
{
    struct fe_term limit = term_integer(INT32_MAX);
    return term_where(b, term_lt(b, count, limit), term_add(b, count, term_integer(1)), limit);
}

/* Whether a slot's name, or the path of who declared it, lies at or under a path. */
static bool is_under(const struct optim_slot *s, const char *path)
{
    size_t n = strlen(path);
    if (strncmp(s->name, path, n) == 0 && s->name[n] == '.') return true;
    return s->owner && strncmp(s->owner, path, n) == 0 && (!s->owner[n] || s->owner[n] == '.');
}

ir_value *optim_snapshot(struct fe_optim_state *o)
{
    ir_value *values = arena_new_array(o->fe->arena, ir_value, o->slots.count + 1);
    for (size_t i = 0; i < o->slots.count; i++) values[i] = o->slots.items[i].now;
    values[o->slots.count] = 0; /* ends the list: slots from here on were new */
    return values;
}

void optim_select(struct fe_optim_state *o, const char *path, struct fe_term keep, const ir_value *before,
                  bool nan_passes)
{
    bool known = true;
    for (size_t i = 0; i < o->slots.count; i++) {
        struct optim_slot *s = &o->slots.items[i];
        known = known && before[i];
        ir_value old = known ? before[i] : s->old;
        if (!is_under(s, path) || s->now == old) continue;
        s->now = picked(o->b, nan_passes, keep, term_tensor(s->now), term_tensor(old)).v;
    }
}

void optim_reset(struct fe_optim_state *o, const char *path, struct fe_term when, bool nan_passes)
{
    for (size_t i = 0; i < o->slots.count; i++) {
        struct optim_slot *s = &o->slots.items[i];
        if (!is_under(s, path) || s->copy) continue;
        ir_value start = s->begin        ? s->begin
                         : s->start.data ? ir_constant(o->b, s->type, s->start.data)
                                         : ir_number(o->b, s->type, s->start.number);
        s->now = picked(o->b, nan_passes, when, term_tensor(start), term_tensor(s->now)).v;
    }
}

bool optim_gradient_at(struct optim_transform *t, const ir_value *params, ir_value *grads)
{
    struct fe_optim_state *o = t->o;
    const ir_value *captured;
    uint32_t count, n = 0, result = 1;
    struct ir_func *f = o->value_and_grad(o, &captured, &count);
    if (!f) return false;
    ir_value *args = arena_new_array(o->fe->arena, ir_value, o->count + count + 1);
    for (uint32_t i = 0; i < o->count; i++)
        if (o->grads[i]) args[n++] = params[i] ? params[i] : o->trained[i];
    for (uint32_t i = 0; i < count; i++) args[n++] = captured[i];
    ir_value tuple = ir_call(o->b, f, args, n);
    for (uint32_t i = 0; i < o->count; i++)
        if (o->grads[i]) grads[i] = ir_proj(o->b, tuple, result++);
    return true;
}

/* ---------------------------------------------------------------- trees */

static enum ir_dtype extreme_dtype(const struct optim_transform *t, bool widest)
{
    enum ir_dtype found = IR_TUPLE;
    for (uint32_t i = 0; i < t->count; i++) {
        enum ir_dtype own = t->p[i] ? (enum ir_dtype)ir_type(t->b->f, t->p[i])->dtype : found;
        if (own == IR_TUPLE || !ir_dtype_is_float(own)) continue;
        bool wider = found != IR_TUPLE && ir_dtype_bytes(own) > ir_dtype_bytes(found),
             narrower = found != IR_TUPLE && ir_dtype_bytes(own) < ir_dtype_bytes(found);
        if (found == IR_TUPLE || (widest ? wider : narrower)) found = own;
    }
    return found == IR_TUPLE ? IR_F32 : found;
}

enum ir_dtype optim_lowest(const struct optim_transform *t) { return extreme_dtype(t, false); }
enum ir_dtype optim_highest(const struct optim_transform *t) { return extreme_dtype(t, true); }

ir_value *optim_new_tree(const struct optim_transform *t)
{
    return arena_new_array(t->fe->arena, ir_value, t->count + 1);
}

struct fe_term optim_square_sum(struct optim_transform *t, const ir_value *tree)
{
    return optim_dot(t->b, t->count, tree, tree);
}

struct fe_term optim_dot(struct ir_builder *b, uint32_t count, const ir_value *x, const ir_value *y)
{
    struct fe_term sum = term_integer(0);
    for (uint32_t i = 0; i < count; i++)
        if (x[i] && y[i]) sum = term_add(b, sum, term_dot(b, term_tensor(x[i]), term_tensor(y[i])));
    return sum.v ? sum : term_cast(b, sum, IR_F32); /* of the leaves' dtype, as in Optax */
}

/* Parameter paths by their segments, numbers by value: the order of the leaves of a tree. */
static int compare_paths(const char *x, const char *y)
{
    while (*x && *y) {
        size_t n = strcspn(x, "."), m = strcspn(y, ".");
        bool digits = strspn(x, "0123456789") == n && strspn(y, "0123456789") == m;
        if (digits && n != m) return n < m ? -1 : 1;
        int order = strncmp(x, y, n < m ? n : m);
        if (order || n != m) return order ? order : n < m ? -1 : 1;
        x += n + (x[n] == '.'), y += m + (y[m] == '.');
    }
    return *x ? 1 : *y ? -1 : 0;
}

uint32_t optim_rank(const struct optim_transform *t, uint32_t leaf)
{
    uint32_t rank = 0;
    for (uint32_t k = 0; k < t->count; k++)
        rank += t->u[k] && compare_paths(t->o->params[k].path, t->o->params[leaf].path) < 0;
    return rank;
}

void optim_split(struct optim_transform *t, ir_value whole, ir_value *leaves)
{
    static const int64_t step = 1;
    uint32_t *order = arena_new_array(t->fe->arena, uint32_t, t->count + 1), n = 0;
    int64_t at = 0;
    EACH_LEAF(t, i) order[optim_rank(t, i)] = i, n++;
    for (uint32_t k = 0; k < n; k++) {
        const struct ir_type type = *ir_type(t->b->f, t->u[order[k]]);
        int64_t end = at + ir_type_elements(&type);
        leaves[order[k]] = ir_reshape(t->b, ir_slice(t->b, whole, &at, &end, &step), type.rank,
                                      type.dim); /* of the vector's dtype */
        at = end;
    }
}
