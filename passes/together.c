/* On a GPU, microbatches of few rows are made several at a time: a product of 512 rows leaves most of a card without
 * work, and each round reads and writes the sums of all gradients. Where accumulate_rows.c finds that no row knows of
 * another and that what a microbatch gives is sums over rows, so many of them as give products enough to do become one
 * microbatch (accumulate_wide.c). What is a mean over microbatches is their sum then, divided behind. The document's
 * numbers stay what they are but for the order of sums; those of bfloat16 are rounded once. Memory is that of more
 * rows: where that is much they stay apart (frontend/way.c), and where one value would get large. */
#include "passes/accumulate_rows.h"

enum {
    /* Steps that the gradient of a weight should sum: with fewer, reading and writing its sum takes longer than an
     * eighth of the product, both by the published rates of an H100. */
    STEPS_OF_16_BITS = 8192,
    STEPS = 1024,
    MOST_BYTES = 1 << 30 /* of one value */
};

struct state {
    struct pass *pass;
    const struct ir_func *from;
    struct pass_marker *markers; /* by value of it: of what is made together, what it was; pass NULL: nothing is */
};

static int64_t contracted(const struct ir_func *f, const struct ir_node *n)
{
    return pass_extent(ir_type(f, n->args[0]), n->attr[2]);
}

/* The most bytes of a value that has rows. */
static int64_t largest(const struct pass_rows *r)
{
    bool *live = ir_live(r->flat, &r->k->pass->scratch);
    int64_t most = 0;
    for (ir_value v = 1; v < r->flat->count; v++) {
        const struct ir_type *type = ir_type(r->flat, v);
        if (!live[v] || r->known->kind[v] != ROW) continue;
        int64_t bytes = ir_type_elements(type) * (int64_t)ir_dtype_bytes((enum ir_dtype)type->dtype);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* So many microbatches as give the products over rows enough steps, all together; 1: they have them. */
static int64_t times_of(const struct pass_rows *r)
{
    double steps = 0, wanted = 0;
    const struct ir_mesh *mesh = &r->k->body->module->mesh;
    int64_t devices = ir_axes_size(mesh, (1u << mesh->axis_count) - 1), most = largest(r), times = 1;
    for (size_t i = 0; i < r->leaves.count; i++) {
        const struct ir_node *n = ir_get(r->flat, r->leaves.items[i]);
        if (n->op != OP_dot) continue;
        double elements = (double)ir_type_elements(&n->type);
        bool narrow = ir_dtype_bytes((enum ir_dtype)ir_type(r->flat, n->args[0])->dtype) == 2;
        steps += elements * (double)contracted(r->flat, n);
        wanted += elements * (narrow ? STEPS_OF_16_BITS : STEPS) * (double)devices;
    }
    int64_t limit = r->k->pass->options->together;
    if (!limit || limit > r->k->count) limit = r->k->count;
    for (int64_t t = 2; t <= limit && steps * (double)times < wanted; t++)
        if (r->k->count % t == 0 && most <= MOST_BYTES / t) times = t;
    return times;
}

/* Where all microbatches run, a running mean is a mean. */
static bool is_mean(const struct pass_marker *k, uint32_t result)
{
    return k->kinds[result] == MEAN || k->kinds[result] == RUNNING_MEAN;
}

/* Is a sum over rows made float16, which holds that of one microbatch, and not that of several? */
static bool is_narrowed(const struct pass_rows *r)
{
    bool *live = ir_live(r->flat, &r->k->pass->scratch), any = false;
    for (ir_value v = 1; v < r->flat->count; v++)
        any |= live[v] && r->known->kind[v] == LINEAR && ir_type(r->flat, v)->dtype == IR_F16;
    return any;
}

/* All microbatches run, and their results are rows, or sums and means over rows. */
static bool may(struct pass_rows *r, const struct ir_func *f, ir_value limit)
{
    const struct pass_marker *k = r->k;
    double number;
    if (k->count <= 1 || !pass_number(f, limit, &number) || number < (double)k->count) return false;
    pass_rows_look(r, k->body->module);
    for (uint32_t i = 0; i < k->results; i++) {
        ir_value v = r->flat->results.items[i].value;
        bool rounds = k->kinds[i] == RUNNING_MEAN && !ir_dtype_is_float((enum ir_dtype)ir_type(r->flat, v)->dtype);
        if (rounds || (is_mean(k, i) ? r->known->kind[v] != LINEAR : pass_rows_why(r, i) != NULL)) return false;
    }
    return !is_narrowed(r) && pass_wide_can(r->known, &k->pass->scratch);
}

/* The body with so many times as many rows. */
static uint32_t wide_body(const struct pass_rows *r)
{
    const struct ir_func *f = r->flat;
    struct ir_builder b = {.f = pass_new_body(r->k->pass, f->module, r->k->body, "together")};
    struct pass_wide wide = {.pass = r->k->pass, .in = r->known, .times = r->times, .b = &b, .leaf = r->leaf};
    pass_wide_nodes(&wide);
    for (size_t i = 0; i < f->results.count; i++)
        ir_result_add(&b, f->results.items[i].name, wide.map[f->results.items[i].value], -1);
    return ir_func_index(b.f);
}

static bool together(struct state *s, struct ir_builder *b, const struct ir_func *from, ir_value old,
                     const ir_value *map, ir_value *made)
{
    struct arena *a = &s->pass->scratch;
    struct ir_node n = *ir_get(from, old);
    struct pass_marker *k = &s->markers[old];
    *k = (struct pass_marker){.pass = s->pass,
                              .n = ir_get(from, old),
                              .body = b->f->module->funcs.items[n.func],
                              .params = n.arg_count - 1u,
                              .results = ir_tuple_count(from, old)};
    pass_read_marker(k, from, old);
    struct pass_rows r = {.k = k};
    bool can = may(&r, from, n.args[0]);
    if (can) r.times = times_of(&r);
    if (!can || r.times == 1) return *k = (struct pass_marker){0}, false;
    int64_t count = k->count / r.times, *kinds = arena_new_array(a, int64_t, k->results + 1);
    for (uint32_t i = 0; i < k->results; i++) kinds[i] = is_mean(k, i) ? SUM : k->kinds[i];
    ir_value *args = arena_new_array(a, ir_value, n.arg_count);
    for (uint32_t i = 0; i < n.arg_count; i++) args[i] = map[n.args[i]];
    n.args = args;
    n.func = wide_body(&r);
    n.attr[1] = (struct ir_ints){&count, 1};
    n.attr[3].v = kinds;
    *made = ir_make(b, n);
    if (r.times > b->f->module->together) b->f->module->together = r.times;
    return true;
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct state *s = user;
    const struct ir_node *n = ir_get(from, old);
    ir_value made;
    if (s->from != from)
        *s = (struct state){s->pass, from, arena_new_array(&s->pass->scratch, struct pass_marker, from->count)};
    if (n->op == OP_accumulate && together(s, b, from, old, map, &made)) return made;
    made = pass_remake(s->pass, b, n, map);
    if (n->op != OP_proj) return made;
    const struct pass_marker *k = &s->markers[n->args[0]];
    bool mean = k->pass && is_mean(k, (uint32_t)n->attr[0].v[0]);
    return mean ? ir_binary(b, OP_div, made, ir_number_like(b, made, (double)k->count)) : made;
}

static bool rewrites(const struct ir_func *f, const struct ir_node *n)
{
    (void)f;
    return n->op == OP_accumulate;
}

struct ir_module *pass_together(struct pass *p, struct ir_module *m)
{
    struct state s = {.pass = p};
    if (!p->options->blocks || p->options->together == 1 || p->options->invariant || pass_keeps(p, m, rewrites))
        return m;
    return pass_rebuild(p, m, rewrite, &s);
}
