/* Finds regions: pieces of element-wise work on tensors of one shape that end in results of the function, and which of
 * them are alike.
 *
 * Values get levels so that whatever passes through another kind of node on its way back into element-wise work has
 * a higher level behind it than before: a region is connected through values of one level, hence what it reads does
 * not depend on what it makes. A level is as high as the users allow, because an update's arithmetic belongs to the
 * update, wherever its operands are known. Repeated scalars, constants and counters are views: every region that reads
 * one makes its own, or all updates would hang together by the learning rate. */
#include "passes/fuse.h"
#include "passes/outline.h"
#include <string.h>

static bool is_call(const struct ir_func *f, const struct ir_node *n)
{
    return n->op == OP_call && pass_is_outlined(f->module->funcs.items[n->func]);
}

/* A call of an outlined function counts as what it gives: arithmetic that may get more of its kind around it. */
static int64_t elements_of(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    if (!is_call(f, n)) return ir_type_elements(&n->type);
    const struct ir_func *body = f->module->funcs.items[n->func];
    return ir_type_elements(ir_type(body, body->results.items[0].value));
}

/* Is the node a view that costs nothing and is made again where it is needed? */
static bool outline_is_view(const struct outline *o, ir_value v)
{
    const struct ir_node *n = ir_get(o->f, v);
    if (n->op == OP_constant) return n->splat;
    if (n->op == OP_iota) return n->type.rank == 1;
    return o->position[v] || (n->op == OP_broadcast && elements_of(o->f, n->args[0]) == 1);
}

static bool is_arithmetic(const struct outline *o, ir_value v)
{
    const struct ir_node *n = ir_get(o->f, v);
    int64_t elements = elements_of(o->f, v);
    bool call = is_call(o->f, n), result = n->op == OP_proj && is_call(o->f, ir_get(o->f, n->args[0]));
    bool kind = call || result || n->op == OP_reshape || (ir_ops[n->op].flags & IR_EWISE);
    if (!o->live[v] || !kind || elements < 1 || elements > OUTLINE_LARGEST || (!n->arg_count && !call)) return false;
    if (o->position[v] || o->summed[v] || (!call && o->uses[v] >= OUTLINE_SHARED)) return false;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        int64_t here = elements_of(o->f, n->args[i]);
        if (here != elements && !(call && here == 1)) return false;
    }
    return true;
}

/* Whether both can stand in one region. A scalar operand of a call cannot: regions have one shape. */
static bool belongs(const struct outline *o, const bool *arithmetic, ir_value v, ir_value operand)
{
    return arithmetic[v] && arithmetic[operand] && elements_of(o->f, v) == elements_of(o->f, operand);
}

/* ---------------------------------------------------------------- levels */

static void lower_to(int32_t *level, ir_value v, int32_t most) { level[v] = level[v] > most ? most : level[v]; }

static int32_t *find_levels(const struct outline *o, const bool *arithmetic)
{
    int32_t *level = arena_new_array(o->arena, int32_t, o->f->count);
    for (ir_value v = 1; v < o->f->count; v++) level[v] = INT32_MAX;
    for (ir_value v = o->f->count; v-- > 1;) {
        const struct ir_node *n = ir_get(o->f, v);
        bool enters = outline_is_view(o, v);
        if (!o->live[v]) continue;
        for (uint32_t i = 0; i < n->arg_count; i++) {
            ir_value a = n->args[i];
            /* a view's level is that of its users, which it enters */
            bool inside = belongs(o, arithmetic, v, a) || (arithmetic[v] && outline_is_view(o, a));
            bool crosses = (arithmetic[v] && !inside) || enters;
            lower_to(level, a, crosses ? level[v] - 1 : level[v]);
        }
    }
    for (ir_value v = 1; v < o->f->count; v++) /* what a call gives stays with it */
        if (ir_get(o->f, v)->op == OP_proj && arithmetic[v]) level[v] = level[ir_get(o->f, v)->args[0]];
    return level;
}

/* ---------------------------------------------------------------- connected pieces */

static uint32_t root_of(uint32_t *parent, uint32_t v)
{
    while (parent[v] != v) v = parent[v] = parent[parent[v]];
    return v;
}

static void connect(const struct outline *o, const bool *arithmetic, const int32_t *level, uint32_t *parent)
{
    for (ir_value v = 1; v < o->f->count; v++) parent[v] = v;
    for (ir_value v = 1; v < o->f->count; v++) {
        const struct ir_node *n = ir_get(o->f, v);
        for (uint32_t i = 0; i < n->arg_count; i++)
            if (belongs(o, arithmetic, v, n->args[i]) && level[n->args[i]] == level[v])
                parent[root_of(parent, v)] = root_of(parent, n->args[i]);
    }
}

static void add_region(struct outline *o, const bool *arithmetic, uint32_t *parent, uint32_t *number, ir_value v)
{
    struct outline_region r = {.class = UINT32_MAX};
    if (!arithmetic[v] || number[root_of(parent, v)]) return;
    vec_push(o->arena, &o->regions, r);
    number[root_of(parent, v)] = (uint32_t)o->regions.count;
}

/* Regions are those pieces that hold a result of the function, and once there are gradients, what is summed with very
 * many others. */
static void collect(struct outline *o, const bool *arithmetic, uint32_t *parent)
{
    uint32_t *number = arena_new_array(o->arena, uint32_t, o->f->count);
    for (size_t i = 0; i < o->f->results.count; i++)
        add_region(o, arithmetic, parent, number, o->f->results.items[i].value);
    for (ir_value v = 1; v < o->f->count && o->f->module->stage != IR_AT_TENSOR; v++)
        for (uint32_t i = 0; o->summed[v] && i < 2; i++)
            add_region(o, arithmetic, parent, number, o->f->nodes[v].args[i]);
    for (ir_value v = 1; v < o->f->count; v++)
        if (arithmetic[v]) o->region_of[v] = number[root_of(parent, v)];
}

/* ---------------------------------------------------------------- what a region is */

struct place {
    uint32_t region;
    uint8_t source;
    uint32_t index;
};

/* What a region is, with the shape of its tensors and without. */
struct identity {
    uint64_t exact, form;
};

/* The members of a region with what they read, numbered as they are first met, and the hash of all that. */
struct reader {
    struct outline *o;
    struct place *place, *own; /* by value: in the region that saw it last; as a member of its region */
    struct identity *is;       /* by region */
    bool *outside;             /* by value: read by other nodes than those of its region */
};

static void mix(struct identity *is, uint64_t x)
{
    is->exact = hash_u64(is->exact, x);
    is->form = hash_u64(is->form, x);
}

static void mix_type(struct identity *is, const struct ir_type *t)
{
    mix(is, (uint64_t)t->dtype << 1 | (ir_type_elements(t) > 1));
    is->exact = hash_u64(is->exact, t->rank);
    for (uint32_t i = 0; i < t->rank; i++) is->exact = hash_u64(is->exact, (uint64_t)t->dim[i]);
}

static void mix_node(struct identity *is, const struct outline *o, ir_value v)
{
    const struct ir_node *n = ir_get(o->f, v);
    mix(is, o->position[v] ? UINT32_MAX : n->op);
    if (n->op == OP_call) {
        is->exact = hash_u64(is->exact, n->func);
        is->form = hash_u64(is->form, o->forms[n->func]);
    }
    mix_type(is, &n->type);
    bool view = outline_is_view(o, v) || n->op == OP_reshape;
    for (uint32_t i = 0; i < ir_ops[n->op].attr_count; i++) {
        mix(is, n->attr[i].n);
        for (uint32_t k = 0; k < n->attr[i].n; k++) {
            if (view) is->exact = hash_u64(is->exact, (uint64_t)n->attr[i].v[k]);
            else mix(is, (uint64_t)n->attr[i].v[k]);
        }
    }
}

static struct place *place_of(struct reader *r, uint32_t region, ir_value v)
{
    return r->o->region_of[v] == region + 1 ? &r->own[v] : &r->place[v];
}

/* Gives a value its number in the region. */
static void enter(struct reader *r, uint32_t region, ir_value v, enum outline_source source)
{
    struct outline_region *to = &r->o->regions.items[region];
    const struct ir_node *n = ir_get(r->o->f, v);
    struct place at = {region + 1, (uint8_t)source, 0};
    struct identity *is = &r->is[region];
    if (source == OUTLINE_INPUT) {
        at.index = (uint32_t)to->inputs.count;
        vec_push(r->o->arena, &to->inputs, v);
        mix_type(is, &n->type);
    } else if (source == OUTLINE_NUMBER) {
        at.index = (uint32_t)to->numbers.count;
        vec_push(r->o->arena, &to->numbers, v);
        mix_type(is, &n->type);
    } else {
        at.index = (uint32_t)to->members.count;
        vec_push(r->o->arena, &to->members, v);
        mix_node(is, r->o, v);
        for (uint32_t i = 0; i < n->arg_count && !r->o->position[v]; i++) {
            const struct place *p = place_of(r, region, n->args[i]);
            mix(is, (uint64_t)p->source << 32 | p->index);
        }
    }
    *place_of(r, region, v) = at;
}

/* An operand of a member. */
static void see(struct reader *r, uint32_t region, ir_value v)
{
    if (place_of(r, region, v)->region == region + 1) return;
    const struct ir_node *n = ir_get(r->o->f, v);
    if (!outline_is_view(r->o, v)) {
        enter(r, region, v, OUTLINE_INPUT);
    } else if (n->op == OP_constant) {
        enter(r, region, v, OUTLINE_NUMBER);
    } else {
        for (uint32_t i = 0; i < n->arg_count && !r->o->position[v]; i++) see(r, region, n->args[i]);
        enter(r, region, v, OUTLINE_VIEW);
    }
}

static void find_outside(struct reader *r)
{
    const struct outline *o = r->o;
    for (ir_value v = 1; v < o->f->count; v++)
        for (uint32_t i = 0; o->live[v] && i < o->f->nodes[v].arg_count; i++) {
            ir_value a = o->f->nodes[v].args[i];
            if (o->region_of[a] != o->region_of[v]) r->outside[a] = true;
        }
    for (size_t i = 0; i < o->f->results.count; i++) r->outside[o->f->results.items[i].value] = true;
}

static void read_regions(struct reader *r)
{
    struct outline *o = r->o;
    for (ir_value v = 1; v < o->f->count; v++) {
        if (!o->region_of[v]) continue;
        uint32_t region = o->region_of[v] - 1;
        for (uint32_t i = 0; i < o->f->nodes[v].arg_count; i++) see(r, region, o->f->nodes[v].args[i]);
        enter(r, region, v, OUTLINE_MEMBER);
        if (!r->outside[v]) continue;
        vec_push(o->arena, &o->regions.items[region].outputs, v);
        mix(&r->is[region], r->own[v].index);
    }
}

/* ---------------------------------------------------------------- classes */

static bool fits(const struct outline *o, const struct outline_region *r)
{
    bool more = false; /* than a call */
    for (size_t i = 0; i < r->members.count && !more; i++) {
        enum ir_op op = (enum ir_op)ir_get(o->f, r->members.items[i])->op;
        more = op != OP_call && op != OP_proj && op != OP_reshape && !outline_is_view(o, r->members.items[i]);
    }
    return more && r->members.count <= OUTLINE_NODES && r->inputs.count + r->outputs.count <= OUTLINE_OPERANDS;
}

/* What is there for that hash; *known is made if there is nothing. */
static uint32_t number_of(struct map *known, uint64_t hash, size_t next)
{
    uint32_t number = map_get_number(known, hash);
    if (number != MAP_NONE) return number;
    map_set_number(known, hash, (uint32_t)next);
    return (uint32_t)next;
}

static void compare_numbers(const struct outline *o, struct outline_family *y, const struct outline_region *leader,
                            const struct outline_region *r)
{
    for (size_t i = 0; i < r->numbers.count; i++) {
        const struct ir_node *a = ir_get(o->f, leader->numbers.items[i]), *b = ir_get(o->f, r->numbers.items[i]);
        if (y->varies[i] || memcmp(a->data, b->data, ir_dtype_bytes((enum ir_dtype)a->type.dtype)) == 0) continue;
        y->varies[i] = true;
        y->varying++;
    }
}

static void add_to_class(struct outline *o, struct outline_class *c, const struct outline_region *r)
{
    const struct outline_region *leader = &o->regions.items[c->leader];
    for (size_t i = 0; i < r->inputs.count; i++) c->uniform[i] &= r->inputs.items[i] == leader->inputs.items[i];
}

static void classify(struct outline *o, const struct identity *is)
{
    struct map classes = MAP(o->arena), families = MAP(o->arena);
    for (uint32_t i = 0; i < o->regions.count; i++) {
        struct outline_region *r = &o->regions.items[i];
        if (!fits(o, r)) continue;
        uint32_t y = number_of(&families, is[i].form, o->families.count),
                 c = number_of(&classes, is[i].exact, o->classes.count);
        if (y == o->families.count) {
            struct outline_family new = {.leader = i, .varies = arena_new_array(o->arena, bool, r->numbers.count + 1)};
            vec_push(o->arena, &o->families, new);
        }
        if (c == o->classes.count) {
            struct outline_class new = {.family = y,
                                        .leader = i,
                                        .uniform = arena_new_array(o->arena, bool, r->inputs.count + 1),
                                        .flat = elements_of(o->f, r->members.items[r->members.count - 1]) == 1};
            for (size_t k = 0; k < r->inputs.count; k++) new.uniform[k] = true;
            vec_push(o->arena, &o->classes, new);
        }
        r->class = c;
        o->families.items[y].count++;
        compare_numbers(o, &o->families.items[y], &o->regions.items[o->families.items[y].leader], r);
        add_to_class(o, &o->classes.items[c], r);
    }
}

/* Additions of scalars that make one sum of very many terms. */
static bool *find_sums(const struct outline *o)
{
    bool *inner = arena_new_array(o->arena, bool, o->f->count), *summed = arena_new_array(o->arena, bool, o->f->count);
    uint32_t *terms = arena_new_array(o->arena, uint32_t, o->f->count);
    for (ir_value v = 1; v < o->f->count; v++) {
        const struct ir_node *n = ir_get(o->f, v);
        if (!o->live[v] || !fuse_is_scalar_sum(n)) continue;
        for (uint32_t i = 0; i < 2; i++) {
            inner[n->args[i]] = terms[n->args[i]] && o->uses[n->args[i]] == 1;
            terms[v] += inner[n->args[i]] ? terms[n->args[i]] : 1;
        }
    }
    for (ir_value v = o->f->count; v-- > 1;) {
        summed[v] |= terms[v] >= FUSE_MANY_TERMS && !inner[v];
        for (uint32_t i = 0; summed[v] && i < 2; i++) summed[o->f->nodes[v].args[i]] |= inner[o->f->nodes[v].args[i]];
    }
    return summed;
}

static uint64_t *find_forms(const struct outline *o)
{
    const struct ir_module *m = o->f->module;
    uint64_t *forms = arena_new_array(o->arena, uint64_t, m->funcs.count + 1);
    for (size_t i = 0; i < m->funcs.count; i++)
        if (pass_is_outlined(m->funcs.items[i])) forms[i] = pass_outlined_form(m->funcs.items[i], o->arena);
    return forms;
}

void outline_find(struct outline *o)
{
    bool *arithmetic = arena_new_array(o->arena, bool, o->f->count);
    o->uses = pass_live_uses(o->f, o->live, o->arena);
    o->summed = find_sums(o);
    o->forms = find_forms(o);
    outline_find_positions(o);
    for (ir_value v = 1; v < o->f->count; v++) arithmetic[v] = is_arithmetic(o, v);
    uint32_t *parent = arena_new_array(o->arena, uint32_t, o->f->count);
    connect(o, arithmetic, find_levels(o, arithmetic), parent);
    collect(o, arithmetic, parent);
    struct reader r = {.o = o,
                       .place = arena_new_array(o->arena, struct place, o->f->count),
                       .own = arena_new_array(o->arena, struct place, o->f->count),
                       .is = arena_new_array(o->arena, struct identity, o->regions.count + 1),
                       .outside = arena_new_array(o->arena, bool, o->f->count)};
    find_outside(&r);
    read_regions(&r);
    classify(o, r.is);
}
