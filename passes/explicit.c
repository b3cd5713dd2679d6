/* Explicit layouts: "mode": "explicit" of "sharding". How every value of the model lies follows, front to back, from
 * inputs, parameters, state and constraints, by the rules of shard_rules.c, as JAX's sharding in types has it
 * (jax.sharding.AxisType.Explicit); where it does not, an error names the place and what could be said there. Gradients
 * lie as what they are of, so the model is checked before it is differentiated. A sum over devices may still be whole
 * or in parts: this stays open behind a contraction until a constraint says it. */
#include "passes/shard_int.h"

enum { MOST_CANDIDATES = 4 };

struct layout {
    struct ir_sharding lies; /* partial: the axes of an open sum */
    ir_value open;           /* what summed over them, in `func` */
    const struct ir_func *func;
};
struct explicit
{
    struct pass *pass;
    const struct ir_module *module;
    uint32_t batch_axes;
    VEC(uint32_t) told; /* places */
};

/* ---------------------------------------------------------------- what is said */

static void add_axes(struct str *s, const struct ir_module *m, uint32_t axes)
{
    bool several = axes > 15;
    if (several) str_add(s, "[");
    for (const char *before = ""; axes; axes >>= 4, before = ", ")
        str_addf(s, "%s\"%s\"", before, m->mesh.name[(axes & 15) - 1]);
    if (several) str_add(s, "]");
}

static const char *axes_text(const struct explicit *e, uint32_t axes)
{
    struct str s = STR(e->pass->diags->arena);
    add_axes(&s, e->module, axes);
    return str_text(&s);
}

static void add_spec(struct str *s, const struct ir_module *m, const struct ir_sharding *lies, uint32_t rank)
{
    str_add(s, "[");
    for (uint32_t d = 0; d < rank; d++) {
        if (d) str_add(s, ", ");
        if (lies->dim[d]) add_axes(s, m, lies->dim[d]);
        else str_add(s, "null");
    }
    str_add(s, "]");
}

/* Candidates of one rank as a hint. A place is told of once. */
static void tell(struct explicit *e, uint32_t place, const char *message, const char *where,
                 const struct ir_sharding *candidates, uint32_t count, uint32_t rank)
{
    for (size_t i = 0; i < e->told.count; i++)
        if (e->told.items[i] == place) return;
    vec_push(&e->pass->scratch, &e->told, place);
    struct str hint = STR(e->pass->diags->arena);
    str_addf(&hint, "say it by a sharding_constraint %s: ", where);
    for (uint32_t i = 0; i < count; i++) {
        if (i) str_add(&hint, i + 1 < count ? ", " : " or ");
        add_spec(&hint, e->module, &candidates[i], rank);
    }
    pass_error(e->pass, e->module, place, "E0435", "%s", message)->hint = str_text(&hint);
}

#define SAY(e, ...) arena_format((e)->pass->diags->arena, __VA_ARGS__)

static void tell_open(struct explicit *e, const struct layout *of)
{
    const struct ir_node *n = ir_get(of->func, of->open);
    struct ir_sharding candidates[MOST_CANDIDATES] = {of->lies};
    uint32_t count = 1, axes = ir_axes_of_mask(of->lies.partial);
    for (uint32_t d = 0; d < n->type.rank && count < MOST_CANDIDATES; d++) {
        uint32_t bits = 0;
        while (bits < 32 && of->lies.dim[d] >> bits & 15) bits += 4;
        candidates[count] = of->lies;
        candidates[count].dim[d] |= axes << bits;
        if (ir_axes_size(&e->module->mesh, candidates[count].dim[d]) <= n->type.dim[d]) count++;
    }
    tell(e, n->place,
         SAY(e, "%s sums over %s, which splits what it sums: how the result lies is not forced", ir_ops[n->op].name,
             axes_text(e, axes)),
         "behind it", candidates, count, n->type.rank);
}

/* ---------------------------------------------------------------- one node */

/* What an open sum passes through: whoever says how the result lies says it of the sum. */
static bool carries(const struct ir_node *n)
{
    return ir_is_ewise((enum ir_op)n->op) || n->op == OP_broadcast || n->op == OP_reshape || n->op == OP_transpose;
}

static void constrain(const struct explicit *e, const struct ir_node *n, struct ir_sharding *to)
{
    for (uint32_t d = 0, used = 0; d < n->type.rank && d < n->attr[0].n; d++) {
        int64_t mask = n->attr[0].v[d];
        to->dim[d] = ir_axes_of_mask((mask < 0 ? e->batch_axes : (uint32_t)mask) & ~used);
        used |= shard_axes_mask(to->dim[d]);
    }
}

struct factors {
    uint32_t axes[SHARD_MAX_FACTORS], operands[SHARD_MAX_FACTORS];
};

/* How dimension `d` of operand `i` lies goes to its factor. */
static void meet(struct explicit *e, const struct ir_func *f, ir_value v, const struct shard_rule *r, uint32_t i,
                 uint32_t d, const struct layout *types, struct factors *k, bool report)
{
    const struct ir_node *n = ir_get(f, v);
    const struct ir_type *t = ir_type(f, n->args[i]);
    const struct ir_sharding *lies = &types[n->args[i]].lies;
    const int8_t factor = r->arg[i][d];
    const uint32_t axes = lies->dim[d];
    if (!axes) return;
    bool whole = factor < 0 || (r->blocks >> factor & 1 && r->size[factor] % ir_axes_size(&e->module->mesh, axes));
    if (whole && report) {
        struct ir_sharding candidate = *lies;
        candidate.dim[d] = 0;
        tell(e, n->place,
             SAY(e, "%s needs dimension %u of %s whole, and it lies over %s", ir_ops[n->op].name, (unsigned)d,
                 ir_type_text(e->pass->diags->arena, t), axes_text(e, axes)),
             "before it", &candidate, 1, t->rank);
    }
    if (whole) return;
    if (k->axes[factor] && k->axes[factor] != axes) {
        struct ir_sharding candidates[2] = {*lies, *lies};
        candidates[0].dim[d] = k->axes[factor];
        if (report)
            tell(e, n->place,
                 SAY(e, "the operands of %s lie differently: over %s and over %s along one dimension",
                     ir_ops[n->op].name, axes_text(e, k->axes[factor]), axes_text(e, axes)),
                 "before it", candidates, 2, t->rank);
        return;
    }
    k->axes[factor] = axes;
    k->operands[factor]++;
}

static struct layout type_node(struct explicit *e, const struct ir_func *f, ir_value v, const struct layout *types,
                               bool report)
{
    const struct ir_node *n = ir_get(f, v);
    struct layout made = {.func = f};
    struct factors k = {.axes = {0}};
    struct shard_rule r;
    uint32_t used = 0;
    shard_rule_of(f, n, &e->pass->scratch, &r);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const struct layout *x = &types[n->args[i]];
        for (uint32_t d = 0; d < ir_type(f, n->args[i])->rank; d++) meet(e, f, v, &r, i, d, types, &k, report);
        if (x->lies.partial && carries(n))
            made.lies.partial |= x->lies.partial, made.open = x->open, made.func = x->func;
        else if (x->lies.partial && report) tell_open(e, x);
    }
    for (uint32_t d = 0; d < n->type.rank; d++) {
        uint32_t axes = r.result[d] < 0 ? 0 : k.axes[r.result[d]], mask = shard_axes_mask(axes);
        if (mask & used && report) {
            struct ir_sharding candidates[2] = {made.lies, made.lies};
            candidates[1].dim[d] = axes;
            for (uint32_t b = 0; b < d; b++)
                if (shard_axes_mask(candidates[1].dim[b]) & mask) candidates[1].dim[b] = 0;
            tell(e, n->place,
                 SAY(e, "the result of %s would lie over %s along two dimensions", ir_ops[n->op].name,
                     axes_text(e, axes)),
                 "before it that takes one away, to come to", candidates, 2, n->type.rank);
        }
        if (mask & used) continue;
        made.lies.dim[d] = axes;
        used |= mask;
    }
    made.lies.partial &= ~used;
    for (uint32_t factor = 0; factor < r.factor_count; factor++) {
        bool sums = n->op == OP_dot ? k.operands[factor] == 2 : n->op == OP_take;
        uint32_t mask = shard_axes_mask(k.axes[factor]) & ~used;
        if (!(r.summed >> factor & 1) || !sums || !mask) continue;
        made.lies.partial |= mask;
        made.open = v;
        made.func = f;
    }
    return made;
}

/* ---------------------------------------------------------------- functions */

/* Layouts without, or with, a first dimension of rows. */
static struct layout shifted(struct layout x, uint32_t rank, bool in_front)
{
    struct ir_sharding old = x.lies;
    for (uint32_t d = 0; d < rank; d++) x.lies.dim[d] = in_front ? d ? old.dim[d - 1] : 0 : old.dim[d + 1];
    return x;
}

static struct layout *type_func(struct explicit *, const struct ir_func *, const struct layout *params, bool report);

/* The results of a node with a body; `given` lie the body's parameters. */
static struct layout *type_body(struct explicit *e, const struct ir_func *f, ir_value v, const struct layout *types,
                                bool report)
{
    const struct ir_node *n = ir_get(f, v);
    const struct ir_func *body = e->module->funcs.items[n->func];
    struct arena *arena = &e->pass->scratch;
    struct layout *params = arena_new_array(arena, struct layout, body->params.count + 1);
    struct layout *results = arena_new_array(arena, struct layout, body->results.count + 1), *inside;
    bool scan = n->op == OP_scan, vmap = n->op == OP_vmap, loop = n->op == OP_loop, rows = false;
    uint32_t first = n->op == OP_accumulate ? 1 : 0, carried = scan || loop ? (uint32_t)n->attr[0].v[0] : 0;
    uint32_t stacked = scan ? (uint32_t)n->attr[1].v[0] : vmap ? (uint32_t)n->attr[0].v[0] : 0, over = 0;
    for (uint32_t i = 0; i < body->params.count && first + i < n->arg_count; i++) {
        const struct ir_type *t = &body->params.items[i].type;
        params[i] = types[n->args[first + i]];
        rows = i >= carried && i < carried + stacked;
        if (rows && vmap) over = params[i].lies.dim[0];
        if (rows) params[i] = shifted(params[i], t->rank, false);
    }
    for (int round = 0; round < 3; round++) { /* what is carried lies as the body makes it, unless it came in so */
        bool stable = true;
        inside = type_func(e, body, params, report && round == 2);
        for (uint32_t i = 0; i < carried; i++) {
            struct layout *in = &params[loop ? i + 1 : i], out = inside[body->results.items[i].value];
            for (uint32_t d = 0; d < IR_MAX_RANK; d++)
                if (!in->lies.dim[d] && out.lies.dim[d]) in->lies.dim[d] = out.lies.dim[d], stable = false;
        }
        if (stable && round < 2) round = 1;
    }
    for (uint32_t i = 0; i < body->results.count; i++) {
        ir_value r = body->results.items[i].value;
        results[i] = inside[r];
        if (vmap || (scan && i >= carried)) results[i] = shifted(results[i], ir_type(body, r)->rank + 1, true);
        if (vmap) results[i].lies.dim[0] = over;
    }
    return results;
}

/* Nodes that a gradient is taken of. */
static bool *differentiated(const struct ir_func *f, struct arena *arena)
{
    bool *needed = arena_new_array(arena, bool, f->count);
    for (ir_value v = f->count; v-- > 1;) {
        const struct ir_node *n = ir_get(f, v);
        if (n->op == OP_grad) needed[n->args[0]] = true;
        for (uint32_t i = 0; needed[v] && i < n->arg_count; i++) needed[n->args[i]] = true;
    }
    return needed;
}

static struct layout *type_func(struct explicit *e, const struct ir_func *f, const struct layout *params, bool report)
{
    struct arena *arena = &e->pass->scratch;
    struct layout *types = arena_new_array(arena, struct layout, f->count);
    struct layout **tuples = arena_new_array(arena, struct layout *, f->count);
    const bool *needed = differentiated(f, arena);
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        bool says = report || needed[v];
        types[v].func = f;
        if (n->op == OP_param) {
            int32_t slot = f->params.items[n->attr[0].v[0]].slot;
            if (slot >= 0) types[v].lies = e->module->slots.items[slot].sharding;
            else if (params) types[v] = params[n->attr[0].v[0]];
        } else if (n->op == OP_sharding_constraint) {
            constrain(e, n, &types[v].lies);
        } else if (n->op == OP_proj) {
            if (tuples[n->args[0]]) types[v] = tuples[n->args[0]][n->attr[0].v[0]];
        } else if (n->op == OP_grad) { /* derivatives lie as what they are by */
            if (types[n->args[0]].lies.partial) tell_open(e, &types[n->args[0]]);
            tuples[v] = arena_new_array(arena, struct layout, n->arg_count);
            for (uint32_t i = 1; i < n->arg_count; i++) tuples[v][i - 1] = types[n->args[i]];
        } else if (ir_has_body((enum ir_op)n->op)) {
            tuples[v] = type_body(e, f, v, types, says);
        } else {
            types[v] = type_node(e, f, v, types, says);
        }
    }
    return types;
}

struct ir_module *pass_explicit(struct pass *p, struct ir_module *m)
{
    struct explicit e = {.pass = p, .module = m, .batch_axes = shard_batch_axes(m)};
    const struct ir_func *step = ir_func_find(m, "step");
    if (m->mesh.explicit_layouts && step) type_func(&e, step, NULL, false);
    return e.told.count ? NULL : m;
}
