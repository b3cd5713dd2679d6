/* The mechanism of gradient transformations: the table, arguments, aliases, state (optim.h). */
#include "frontend/optim/optim.h"
#include "frontend/document/arguments.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the table */

#define TRANSFORM(name, arguments, doc) static const struct fe_arg name##_args[] = {arguments{0}};
#define FORMULA(name, arguments, doc) static const struct fe_arg name##_args[] = {arguments{0}};
#define ALIAS(name, chain, arguments, doc) static const struct fe_arg name##_args[] = {arguments{0}};
#include "frontend/optim/optim.def"
#undef TRANSFORM
#undef FORMULA
#undef ALIAS

static const struct optim_row rows[] = {
#define COUNT(name) sizeof name##_args / sizeof *name##_args - 1
#define TRANSFORM(name, arguments, doc) {#name, transform_##name, NULL, name##_args, COUNT(name), doc},
#define FORMULA(name, arguments, doc) {#name, optim_formula_run, NULL, name##_args, COUNT(name), doc},
#define ALIAS(name, chain, arguments, doc) {#name, NULL, chain, name##_args, COUNT(name), doc},
#include "frontend/optim/optim.def"
#undef TRANSFORM
#undef FORMULA
#undef ALIAS
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

const struct optim_row *optim_rows(uint32_t *count)
{
    *count = ROW_COUNT;
    return rows;
}

const struct optim_row *optim_row_find(const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

const char *const *optim_names(struct arena *arena)
{
    const char **names = arena_new_array(arena, const char *, ROW_COUNT);
    for (size_t i = 0; i < ROW_COUNT; i++) names[i] = rows[i].name;
    return names;
}

/* ---------------------------------------------------------------- arguments */

static int32_t arg_find(const struct optim_row *row, const char *name, size_t length)
{
    for (uint32_t i = 0; i < row->count; i++)
        if (strlen(row->args[i].name) == length && strncmp(row->args[i].name, name, length) == 0) return (int32_t)i;
    return -1;
}

static uint32_t arg_index(const struct optim_transform *t, const char *name)
{
    int32_t i = arg_find(t->row, name, strlen(name));
    if (i < 0) BUG("optimizer %s has no argument %s", t->row->name, name);
    return (uint32_t)i;
}

const struct fe_value *optim_arg(const struct optim_transform *t, const char *name)
{
    return &t->args[arg_index(t, name)];
}
bool optim_absent(const struct optim_transform *t, const char *name) { return optim_arg(t, name)->null; }

bool optim_scheduled(const struct optim_transform *t, const char *name)
{
    const struct fe_value *v = optim_arg(t, name);
    return !t->injected[arg_index(t, name)] && v->json && v->json->kind == JSON_OBJECT;
}

struct fe_term optim_number(const struct optim_transform *t, const char *name)
{
    ir_value injected = t->injected[arg_index(t, name)];
    if (!injected) return term_number(arg(t, name)->number);
    return (struct fe_term){.v = injected, .weak = ir_type(t->o->b->f, injected)->dtype == IR_F64};
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

/* The first entry of a map from patterns that matches; NULL: none. */
fe_json optim_match(struct optim_transform *t, fe_json map, const char *path)
{
    fe_json e = map ? fe_first(t->fe, map) : NULL;
    while (e && !glob_match(e->key, path)) e = fe_next(t->fe, e);
    return e;
}

/* Patterns that match nothing are slips, except the one for the rest. */
bool optim_patterns_match(struct optim_transform *t, fe_json map)
{
    bool good = true;
    const char **paths = arena_new_array(t->fe->arena, const char *, t->count + 1);
    for (uint32_t i = 0; i < t->count; i++) paths[i] = t->o->params[i].path;
    for (fe_json e = map ? fe_first(t->fe, map) : NULL; e; e = fe_next(t->fe, e)) {
        uint32_t i = 0;
        while (i < t->count && !glob_match(e->key, paths[i])) i++;
        if (i < t->count || strcmp(e->key, "**") == 0) continue;
        struct diag *d = fe_error_key(t->fe, e, "E0420", "pattern \"%s\" matches no parameter", e->key);
        fe_suggest(t->fe, d, e->key, paths, t->count);
        good = false;
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
    if (ir_type(t->b->f, tensor)->rank) {
        fe_error(t->fe, text, "E0423", "must be one number per step, found shape %s",
                 ir_type_text(t->fe->arena, ir_type(t->b->f, tensor)));
        return false;
    }
    *out = (struct fe_term){.v = tensor, .weak = v.weak || v.kind != FE_VAL_TENSOR};
    return true;
}

/* Where a transformation stands inside inject_hyperparams, any of its numbers may be a schedule. */
static bool is_hyper(const struct fe_optim_state *o, fe_json json, const char *name, ir_value *value)
{
    for (size_t i = 0; i < o->hypers.count; i++)
        if (o->hypers.items[i].json == json && strcmp(o->hypers.items[i].argument, name) == 0) {
            *value = o->hypers.items[i].value;
            return *value != 0;
        }
    return false;
}

static void run(struct optim_transform *t)
{
    if (t->row->rule) t->row->rule(t);
    else optim_chain(t, t->row->chain, 0);
}

void optim_apply(struct fe_optim_state *o, fe_json json, const char *path, ir_value *u, const ir_value *p)
{
    struct fe_value args[OPTIM_MOST_ARGS] = {0};
    ir_value injected[OPTIM_MOST_ARGS] = {0};
    bool hyper[OPTIM_MOST_ARGS] = {0};
    fe_json type = fe_member(o->fe, json, "type");
    const struct optim_row *row = type && type->kind == JSON_STRING ? optim_row_find(type->string) : NULL;
    for (uint32_t i = 0; row && i < row->count; i++) hyper[i] = is_hyper(o, json, row->args[i].name, &injected[i]);
    row = optim_read(o, json, args, hyper);
    if (!row) return;
    for (uint32_t i = 0; i < row->count; i++)
        if (!hyper[i] && !args[i].null) injected[i] = optim_rate(o, json, &row->args[i], &args[i]);
    struct optim_transform t = {.o = o,
                                .fe = o->fe,
                                .b = o->b,
                                .row = row,
                                .json = json,
                                .path = path,
                                .args = args,
                                .injected = injected,
                                .count = o->count,
                                .u = u,
                                .p = p};
    run(&t);
}

/* ---------------------------------------------------------------- aliases */

/* A default or a constant of a chain text as a value: number, true, false, null or "string". */
static struct fe_value literal(struct fe *fe, const struct fe_arg *row, const char *text)
{
    struct fe_value v = {0};
    if (!text || strcmp(text, "null") == 0) v.null = true;
    else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) v.boolean = text[0] == 't';
    else if (text[0] == '"') v.string = arena_string_n(fe->arena, text + 1, strlen(text) - 2);
    else v.number = strtod(text, NULL), v.integer = (int64_t)v.number;
    if (row->kind == FE_DTYPE && v.string) v.dtype = ir_dtype_find(v.string);
    return v;
}

/* The argument of the alias that `text` names, the first of "a|b" that is not null; -1: it has none of that name. */
static int32_t argument_of(const struct optim_transform *t, const char *text, size_t length)
{
    const char *other = memchr(text, '|', length);
    size_t first = other ? (size_t)(other - text) : length;
    int32_t i = arg_find(t->row, text, first);
    return other && t->args[i].null ? argument_of(t, other + 1, length - first - 1) : i;
}

/* One part of a chain: "name(argument=value,..)?condition", where a value is an argument of the alias or a literal.
 * What is not given there comes from the alias's argument of the same name, else from the part's default. With `@mask`
 * behind it the part runs for the leaves of that argument. */
static void run_part(struct optim_transform *t, const char *text, uint32_t index)
{
    size_t name_length = strcspn(text, "(?@ ");
    const char *mask = strchr(text, '@');
    const char *open = text[name_length] == '(' ? text + name_length + 1 : "";
    const struct optim_row *row = optim_row_find(arena_string_n(t->fe->arena, text, name_length));
    if (!row) BUG("unknown part of a chain: %s", text);
    struct fe_value args[OPTIM_MOST_ARGS];
    ir_value injected[OPTIM_MOST_ARGS] = {0};
    for (uint32_t i = 0; i < row->count; i++) {
        const char *name = row->args[i].name, *value = NULL;
        size_t value_length = 0;
        for (const char *at = open; *at && *at != ')'; at += strcspn(at, ",)"), at += *at == ',') {
            size_t n = strcspn(at, "=");
            if (n != strlen(name) || strncmp(at, name, n)) continue;
            value = at + n + 1, value_length = strcspn(value, ",)");
        }
        int32_t from = value ? argument_of(t, value, value_length) : arg_find(t->row, name, strlen(name));
        if (from >= 0) args[i] = t->args[from], injected[i] = t->injected[from];
        else
            args[i] = literal(t->fe, &row->args[i],
                              value ? arena_string_n(t->fe->arena, value, value_length) : row->args[i].preset);
    }
    struct optim_transform inner = *t;
    inner.row = row, inner.args = args, inner.injected = injected;
    if (index != OPTIM_HERE) inner.path = arena_format(t->fe->arena, "%s.%u", t->path, index);
    bool *in = arena_new_array(t->fe->arena, bool, t->count + 1);
    if (mask && !optim_mask(t, mask + 1, in)) return;
    if (mask) inner.u = optim_new_tree(t);
    for (uint32_t i = 0; mask && i < t->count; i++) inner.u[i] = in[i] ? t->u[i] : 0;
    run(&inner);
    for (uint32_t i = 0; mask && i < t->count; i++)
        if (in[i]) t->u[i] = inner.u[i];
}

/* Whether an argument is neither null nor false; of "not x": whether x is. */
static bool is_given(const struct optim_transform *t, const char *text)
{
    bool not = strncmp(text, "not ", 4) == 0;
    uint32_t i = arg_index(t, text + (not ? 4 : 0));
    return (!t->args[i].null && (t->args[i].boolean || t->row->args[i].kind != FE_BOOL)) != not ;
}

void optim_chain(struct optim_transform *t, const char *chain, uint32_t first)
{
    uint32_t index = first;
    while (*chain) {
        const char *end = strstr(chain, " -> ");
        size_t length = end ? (size_t)(end - chain) : strlen(chain);
        const char *part = arena_string_n(t->fe->arena, chain, length);
        const char *stands = strchr(part, '?'), *comes = strstr(part, " if ");
        bool wanted = (!stands || is_given(t, stands + 1)) && (!comes || is_given(t, comes + strlen(" if ")));
        if (wanted) run_part(t, part, index);
        index += wanted || !comes; /* without such a part the others move up; else it stands there as identity */
        chain += length + (end ? strlen(" -> ") : 0);
    }
}

/* ---------------------------------------------------------------- state */

const char *optim_path(struct optim_transform *t, const char *name)
{
    return arena_format(t->fe->arena, "%s.%s", t->path, name);
}

/* The slot of that name; declared, and read in the step, if it is new. `parameter`: index + 1 of the one it follows. */
static struct optim_slot *slot_of(struct fe_optim_state *o, const char *name, struct ir_type type,
                                  struct optim_start start, uint32_t parameter)
{
    uint32_t index = map_get(&o->by_name, name);
    if (index == MAP_NONE) {
        index = (uint32_t)o->slots.count;
        struct ir_slot slot = {.name = name,
                               .role = IR_ROLE_OPT_STATE,
                               .type = type,
                               .place = o->b->place,
                               .param = parameter ? o->params[parameter - 1].slot + 1 : 0};
        struct optim_slot new = {.name = name, .type = type, .start = start, .parameter = parameter};
        new.slot = ir_slot_new(o->fe->module, slot);
        new.old = new.now = ir_param_new(o->b, name, type, (int32_t) new.slot);
        vec_push(o->fe->arena, &o->slots, new);
        map_set(&o->by_name, name, index);
    }
    return &o->slots.items[index];
}

static struct optim_slot *slot_find(struct fe_optim_state *o, const char *name)
{
    uint32_t index = map_get(&o->by_name, name);
    if (index == MAP_NONE) BUG("state %s is not declared", name);
    return &o->slots.items[index];
}

struct fe_term optim_state(struct optim_transform *t, const char *name, struct ir_type type, struct optim_start start)
{
    return term_tensor(slot_of(t->o, optim_path(t, name), type, start, 0)->now);
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
    struct optim_slot *s = slot_of(t->o, leaf_path(t, name, leaf), type, start, leaf + 1);
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

static struct optim_slot *begin_with(struct optim_transform *t, struct optim_slot *s, ir_value begin)
{
    struct fe_term first = term_eq(t->b, term_tensor(t->o->step), term_integer(0));
    if (s->begin) return s; /* it runs for the second time in one step */
    s->begin = term_cast(t->b, term_tensor(begin), (enum ir_dtype)s->type.dtype).v;
    s->now = s->old = term_where(t->b, first, term_tensor(s->begin), term_tensor(s->old)).v;
    return s;
}

void optim_begin_with(struct optim_transform *t, const char *name, ir_value begin)
{
    (void)begin_with(t, slot_find(t->o, optim_path(t, name)), begin);
}

ir_value *optim_first_params(struct optim_transform *t, const char *name, enum ir_dtype dtype)
{
    ir_value *kept = optim_tree(t, name, dtype, zero);
    EACH_LEAF(t, i) kept[i] = begin_with(t, slot_find(t->o, leaf_path(t, name, i)), t->p[i])->now;
    return kept;
}

static struct optim_slot *copy_of(struct optim_transform *t, const char *prefix, uint32_t leaf)
{
    const struct fe_param *p = &t->o->params[leaf];
    struct optim_slot *s = slot_of(t->o, arena_format(t->fe->arena, "%s.%s", prefix, p->path), p->type, zero, leaf + 1);
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
    EACH_LEAF(t, i) values[i] = copy_of(t, prefix, i)->now;
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
    EACH_LEAF(t, i) copy_of(t, prefix, i)->now = ir_cast(t->b, values[i], t->o->params[i].type.dtype);
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

void optim_select(struct fe_optim_state *o, const char *path, struct fe_term keep, const ir_value *before)
{
    bool known = true;
    for (size_t i = 0; i < o->slots.count; i++) {
        struct optim_slot *s = &o->slots.items[i];
        known = known && before[i];
        ir_value old = known ? before[i] : s->old;
        if (!is_under(s, path) || s->now == old) continue;
        s->now = term_where(o->b, keep, term_tensor(s->now), term_tensor(old)).v;
    }
}

void optim_reset(struct fe_optim_state *o, const char *path, struct fe_term when)
{
    for (size_t i = 0; i < o->slots.count; i++) {
        struct optim_slot *s = &o->slots.items[i];
        if (!is_under(s, path) || s->copy) continue;
        ir_value start = s->begin        ? s->begin
                         : s->start.data ? ir_constant(o->b, s->type, s->start.data)
                                         : ir_number(o->b, s->type, s->start.number);
        s->now = term_where(o->b, when, term_tensor(start), term_tensor(s->now)).v;
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
