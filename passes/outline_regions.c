/* Finds regions: pieces of element-wise work on tensors of one shape that end in results of the function, and which of
 * them are alike.
 *
 * Values get levels so that whatever passes through another kind of node on its way back into element-wise work has
 * a higher level behind it than before: a region is connected through values of one level, hence what it reads does
 * not depend on what it makes. A level is as high as the users allow, because an update's arithmetic belongs to the
 * update, wherever its operands are known. Repeated scalars, constants and counters are views: every region that reads
 * one makes its own, or all updates would hang together by the learning rate. */
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

bool outline_is_view(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op == OP_constant) return n->splat;
    if (n->op == OP_iota) return n->type.rank == 1;
    return n->op == OP_broadcast && elements_of(f, n->args[0]) == 1;
}

static bool is_arithmetic(const struct outline *o, ir_value v)
{
    const struct ir_node *n = ir_get(o->f, v);
    int64_t elements = elements_of(o->f, v);
    bool call = is_call(o->f, n), result = n->op == OP_proj && is_call(o->f, ir_get(o->f, n->args[0]));
    bool kind = call || result || n->op == OP_reshape || (ir_ops[n->op].flags & IR_EWISE);
    if (!o->live[v] || !kind || elements < 2 || elements > OUTLINE_LARGEST || (!n->arg_count && !call)) return false;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        int64_t here = elements_of(o->f, n->args[i]);
        if (here != elements && !(call && here == 1)) return false;
    }
    return true;
}

/* ---------------------------------------------------------------- levels */

static void lower_to(int32_t *level, ir_value v, int32_t most) { level[v] = level[v] > most ? most : level[v]; }

static int32_t *find_levels(const struct outline *o, const bool *arithmetic)
{
    int32_t *level = arena_new_array(o->arena, int32_t, o->f->count);
    for (ir_value v = 1; v < o->f->count; v++) level[v] = INT32_MAX;
    for (ir_value v = o->f->count; v-- > 1;) {
        const struct ir_node *n = ir_get(o->f, v);
        bool enters = outline_is_view(o->f, v);
        if (!o->live[v]) continue;
        for (uint32_t i = 0; i < n->arg_count; i++) {
            ir_value a = n->args[i];
            /* a view's level is that of its users, which it enters */
            bool inside = arithmetic[v] && (arithmetic[a] || outline_is_view(o->f, a));
            bool crosses = (arithmetic[v] && !inside) || enters;
            lower_to(level, a, crosses ? level[v] - 1 : level[v]);
        }
    }
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
        for (uint32_t i = 0; arithmetic[v] && i < n->arg_count; i++)
            if (arithmetic[n->args[i]] && level[n->args[i]] == level[v])
                parent[root_of(parent, v)] = root_of(parent, n->args[i]);
    }
}

/* Regions are those pieces that hold a result of the function. */
static void collect(struct outline *o, const bool *arithmetic, uint32_t *parent)
{
    uint32_t *number = arena_new_array(o->arena, uint32_t, o->f->count);
    for (size_t i = 0; i < o->f->results.count; i++) {
        ir_value v = o->f->results.items[i].value;
        if (!arithmetic[v] || number[root_of(parent, v)]) continue;
        struct outline_region r = {.class = UINT32_MAX};
        vec_push(o->arena, &o->regions, r);
        number[root_of(parent, v)] = (uint32_t)o->regions.count;
    }
    for (ir_value v = 1; v < o->f->count; v++)
        if (arithmetic[v]) o->region_of[v] = number[root_of(parent, v)];
}

/* ---------------------------------------------------------------- what a region is */

struct place { uint32_t region; uint8_t source; uint32_t index; }; /* of a value in the region that saw it last */

/* The members of a region with what they read, numbered as they are first met, and the hash of all that. */
struct reader {
    struct outline *o;
    struct place *place;
    uint64_t *hash; /* by region */
    bool *outside;  /* by value: read by other nodes than those of its region */
};

static void hash_type(uint64_t *h, const struct ir_type *t)
{
    *h = hash_u64(*h, (uint64_t)t->dtype << 8 | t->rank);
    for (uint32_t i = 0; i < t->rank; i++) *h = hash_u64(*h, (uint64_t)t->dim[i]);
}

static void hash_node(uint64_t *h, const struct ir_node *n)
{
    *h = hash_u64(hash_u64(*h, n->op), n->func);
    hash_type(h, &n->type);
    for (uint32_t i = 0; i < ir_ops[n->op].attr_count; i++)
        for (uint32_t k = 0; k < n->attr[i].n; k++) *h = hash_u64(*h, (uint64_t)n->attr[i].v[k]);
}

/* Gives a value its number in the region. */
static void enter(struct reader *r, uint32_t region, ir_value v, enum outline_source source)
{
    struct outline_region *to = &r->o->regions.items[region];
    const struct ir_node *n = ir_get(r->o->f, v);
    struct place at = {region + 1, (uint8_t)source, 0};
    uint64_t *h = &r->hash[region];
    if (source == OUTLINE_INPUT) {
        at.index = (uint32_t)to->inputs.count;
        vec_push(r->o->arena, &to->inputs, v);
        hash_type(h, &n->type);
    } else if (source == OUTLINE_NUMBER) {
        at.index = (uint32_t)to->numbers.count;
        vec_push(r->o->arena, &to->numbers, v);
        hash_type(h, &n->type);
    } else {
        at.index = (uint32_t)to->members.count;
        vec_push(r->o->arena, &to->members, v);
        hash_node(h, n);
        for (uint32_t i = 0; i < n->arg_count; i++) {
            const struct place *p = &r->place[n->args[i]];
            *h = hash_u64(*h, (uint64_t)p->source << 32 | p->index);
        }
    }
    r->place[v] = at;
}

/* An operand of a member. */
static void see(struct reader *r, uint32_t region, ir_value v)
{
    if (r->place[v].region == region + 1) return;
    const struct ir_node *n = ir_get(r->o->f, v);
    if (!outline_is_view(r->o->f, v)) {
        enter(r, region, v, OUTLINE_INPUT);
    } else if (n->op == OP_constant) {
        enter(r, region, v, OUTLINE_NUMBER);
    } else {
        for (uint32_t i = 0; i < n->arg_count; i++) see(r, region, n->args[i]);
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
        r->hash[region] = hash_u64(r->hash[region], r->place[v].index);
    }
}

/* ---------------------------------------------------------------- classes */

static bool fits(const struct outline *o, const struct outline_region *r)
{
    bool more = false; /* than a call */
    for (size_t i = 0; i < r->members.count && !more; i++) {
        enum ir_op op = (enum ir_op)ir_get(o->f, r->members.items[i])->op;
        more = op != OP_call && op != OP_proj && !outline_is_view(o->f, r->members.items[i]);
    }
    return more && r->members.count >= 2 && r->members.count <= OUTLINE_NODES && r->inputs.count + r->outputs.count <= OUTLINE_OPERANDS;
}

static void compare_numbers(const struct outline *o, struct outline_class *c, const struct outline_region *leader,
                            const struct outline_region *r)
{
    for (size_t i = 0; i < r->numbers.count; i++) {
        const struct ir_node *a = ir_get(o->f, leader->numbers.items[i]), *b = ir_get(o->f, r->numbers.items[i]);
        if (c->varies[i] || memcmp(a->data, b->data, ir_dtype_bytes((enum ir_dtype)a->type.dtype)) == 0) continue;
        c->varies[i] = true;
        c->varying++;
    }
}

static void classify(struct outline *o, const uint64_t *hash)
{
    struct map known = MAP(o->arena);
    for (uint32_t i = 0; i < o->regions.count; i++) {
        struct outline_region *r = &o->regions.items[i];
        if (!fits(o, r)) continue;
        uint32_t c = map_get_number(&known, hash[i]);
        if (c == MAP_NONE) {
            struct outline_class new = {.hash = hash[i], .leader = i, .varies = arena_new_array(o->arena, bool, r->numbers.count + 1)};
            c = (uint32_t)o->classes.count;
            vec_push(o->arena, &o->classes, new);
            map_set_number(&known, hash[i], c);
        }
        struct outline_class *class = &o->classes.items[c];
        r->class = c;
        class->count++;
        compare_numbers(o, class, &o->regions.items[class->leader], r);
    }
}

void outline_find(struct outline *o)
{
    bool *arithmetic = arena_new_array(o->arena, bool, o->f->count);
    for (ir_value v = 1; v < o->f->count; v++) arithmetic[v] = is_arithmetic(o, v);
    uint32_t *parent = arena_new_array(o->arena, uint32_t, o->f->count);
    connect(o, arithmetic, find_levels(o, arithmetic), parent);
    collect(o, arithmetic, parent);
    struct reader r = {.o = o, .place = arena_new_array(o->arena, struct place, o->f->count),
                       .hash = arena_new_array(o->arena, uint64_t, o->regions.count + 1),
                       .outside = arena_new_array(o->arena, bool, o->f->count)};
    find_outside(&r);
    read_regions(&r);
    classify(o, r.hash);
}
