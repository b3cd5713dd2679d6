/* Rematerialisation: what was computed before an instant at which much is alive and is read behind it only is computed
 * again there, from less that is kept (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). The instant
 * is where most crosses, in a training step the end of the forward pass; nothing needs to know of gradients.
 *
 * Level 0 drops, where that saves much, what is element-wise of what is kept anyway: the tanh and the product of a gelu
 * beside what it is of, a normalised row beside the row and its statistics. No product and no sum is made twice.
 * Level 1 keeps products and what is no arithmetic, and makes the rest again: activations, norms, softmax. Level n > 1
 * keeps every (n - 1)th value that alone leads from what is before it to what is behind it, as the rows between two
 * blocks do, and makes whole blocks again. Scores of attention by tiles take no memory and count for none. Numbers
 * stay; only what is pure is made twice.
 *
 * Blocks that the document names (`remat`) are made again at every level; what others read of them is kept.
 *
 * From here on the module says that equal nodes before the turn and behind it stay two, or the next one to rebuild it
 * would share them again. On one side of it they are one, as everywhere: what several products read is packed once. */
#include "passes/fuse.h"
#include <string.h>

/* Level 0: saves so many bytes, or keeps all; makes a value of so many others; what is so much smaller than what is
 * made of it may be kept beside. */
enum { LARGE = 64 << 20, STEPS = 24, SMALLER = 64 };

struct remat {
    struct pass *pass;
    const struct ir_func *f;
    struct ir_builder b;
    bool *live, *kept; /* by value: read as it is, wherever that is */
    ir_value *map;     /* by value: in the new function */
    ir_value *again;   /* by value: made once more */
    ir_value turn;     /* what comes later reads what is made again */
    ir_value *last[2]; /* by value: its last reader at all, and its last one before the turn */
    uint64_t dropped;  /* bytes that cross the turn no more */
    uint32_t blocks;   /* of the document, of which something is */
};

static uint64_t bytes_of(const struct ir_func *f, ir_value v)
{
    const struct ir_type *t = ir_type(f, v);
    return t->dtype == IR_TUPLE ? 0 : (uint64_t)ir_type_elements(t) * ir_dtype_bytes((enum ir_dtype)t->dtype);
}

/* Can it be made again at all? */
static bool is_arithmetic(const struct ir_node *n)
{
    enum ir_emit emit = (enum ir_emit)ir_ops[n->op].emit;
    return ir_ops[n->op].flags & IR_PURE && emit != EMIT_control && emit != EMIT_comm && n->op != OP_proj &&
           n->op != OP_param && n->op != OP_device_index;
}

/* Is the parameter of the batch, or, in a loop's body, what rows are chosen by? Packed weights lead from no row to
 * another, wherever they are read. */
static bool is_of_batch(const struct ir_func *f, const struct ir_node *n)
{
    int64_t i = n->attr[0].v[0];
    int32_t slot = f->params.items[i].slot;
    return f->entry ? slot >= 0 && f->module->slots.items[slot].role == IR_ROLE_INPUT : i == 0;
}

/* Values that are made of the batch and take memory, roughly: what is only a view of others takes none. */
static bool *material(const struct remat *r)
{
    bool *is = arena_new_array(&r->pass->scratch, bool, r->f->count),
         *made = arena_new_array(&r->pass->scratch, bool, r->f->count);
    const bool *scores = fuse_mark_attention(r->f, false, &r->pass->scratch);
    for (ir_value v = 1; v < r->f->count; v++) {
        const struct ir_node *n = ir_get(r->f, v);
        made[v] = n->op == OP_param && is_of_batch(r->f, n);
        for (uint32_t i = 0; i < n->arg_count; i++) made[v] |= made[n->args[i]];
        is[v] = r->live[v] && made[v] && !scores[v] && n->op != OP_param && ir_ops[n->op].emit != EMIT_view;
    }
    return is;
}

static void look_at_readers(const struct remat *r, ir_value *last, ir_value end)
{
    for (ir_value v = 1; v < end; v++)
        for (uint32_t i = 0; r->live[v] && i < ir_get(r->f, v)->arg_count; i++) last[ir_get(r->f, v)->args[i]] = v;
    for (size_t i = 0; end == r->f->count && i < r->f->results.count; i++) last[r->f->results.items[i].value] = end;
}

/* The instant that most bytes cross, and how many do. */
static ir_value find_turn(const struct remat *r, const bool *is, uint64_t *bytes)
{
    uint64_t *ends = arena_new_array(&r->pass->scratch, uint64_t, r->f->count + 1), now = 0, most = 0;
    ir_value turn = 0;
    for (ir_value v = 1; v < r->f->count; v++) {
        if (is[v] && r->last[0][v] < r->f->count) /* results have a place of their own */
            now += bytes_of(r->f, v), ends[r->last[0][v]] += bytes_of(r->f, v);
        now -= ends[v];
        if (now > most) most = now, turn = v + 1;
    }
    *bytes = most;
    return turn;
}

/* Keeps every so many of the values that alone lead on. */
static void keep_borders(struct remat *r, const bool *is, uint32_t every)
{
    uint64_t *ends = arena_new_array(&r->pass->scratch, uint64_t, r->f->count + 1), now = 0;
    uint32_t number = 0;
    for (ir_value v = 1; v < r->turn; v++) {
        uint64_t bytes = is[v] && r->last[1][v] ? bytes_of(r->f, v) : 0;
        now += bytes, ends[r->last[1][v]] += bytes;
        now -= ends[v];
        ends[v] = 0;
        bool alone = bytes && now <= bytes + bytes / 128 && r->last[1][v] > v + 1;
        if (alone && number++ % every == 0) r->kept[v] = true;
    }
}

static ir_value value_at(struct remat *, ir_value v);

static ir_value make(struct remat *r, ir_value v, bool share)
{
    struct ir_node n = *ir_get(r->f, v);
    ir_value *args = arena_new_array(&r->pass->scratch, ir_value, n.arg_count + 1u);
    for (uint32_t i = 0; i < n.arg_count; i++) args[i] = share ? r->map[n.args[i]] : value_at(r, n.args[i]);
    n.args = args;
    return ir_remake(&r->b, &n, args);
}

/* What a node behind the turn reads for a value. */
static ir_value value_at(struct remat *r, ir_value v)
{
    if (v >= r->turn || r->kept[v]) return r->map[v];
    if (!r->again[v]) r->again[v] = make(r, v, false);
    return r->again[v];
}

static void rebuild(struct remat *r, struct ir_func *to)
{
    const struct ir_func *f = r->f;
    r->b = (struct ir_builder){.f = to};
    r->map = arena_new_array(&r->pass->scratch, ir_value, f->count);
    r->again = arena_new_array(&r->pass->scratch, ir_value, f->count);
    for (size_t i = 0; i < f->params.count; i++) {
        const struct ir_param *p = &f->params.items[i];
        r->map[p->value] = ir_param_new(&r->b, p->name, p->type, p->slot);
        r->kept[p->value] = true;
    }
    for (ir_value v = 1; v < f->count; v++) {
        if (v == r->turn) to->turn = to->count;
        if (r->live[v] && !r->map[v]) r->map[v] = make(r, v, v < r->turn);
    }
    for (size_t i = 0; i < f->results.count; i++)
        ir_result_add(&r->b, f->results.items[i].name, r->map[f->results.items[i].value], f->results.items[i].slot);
}

/* A product, a loop, or a call of what has one. `known`: by function, 0 where nobody has looked yet, 1 no, 2 yes: calls
 * lie in calls. */
static bool is_heavy(const struct ir_func *f, ir_value v, uint8_t *known)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op != OP_call) return n->op == OP_dot || n->op == OP_loop;
    const struct ir_func *body = f->module->funcs.items[n->func];
    for (ir_value i = 1; !known[n->func] && i < body->count; i++)
        if (is_heavy(body, i, known)) known[n->func] = 2;
    if (!known[n->func]) known[n->func] = 1;
    return known[n->func] == 2;
}

/* Level 0: what is element-wise of what is kept. */
static void drop_cheap(struct remat *r, const bool *is)
{
    uint32_t *steps = arena_new_array(&r->pass->scratch, uint32_t,
                                      r->f->count); /* from what is kept; STEPS: too many */
    uint8_t *known = arena_new_array(&r->pass->scratch, uint8_t, r->f->module->funcs.count + 1);
    bool between = false; /* a product or loop behind the turn; an update is one pass, which nothing parts */
    for (ir_value v = r->turn; v < r->f->count && !between; v++) between = is[v] && is_heavy(r->f, v, known);
    uint64_t saved = 0;
    for (ir_value v = 1; v < r->turn; v++) {
        const struct ir_node *n = ir_get(r->f, v);
        bool view = ir_ops[n->op].emit == EMIT_view, read = is[v] && r->last[0][v] >= r->turn;
        bool cheap = view || (is[v] && is_arithmetic(n) && ir_ops[n->op].emit == EMIT_ewise);
        r->kept[v] = view;
        steps[v] = !view;
        for (uint32_t i = 0; cheap && i < n->arg_count; i++) {
            ir_value a = n->args[i];
            bool beside = r->kept[a] && bytes_of(r->f, a) * SMALLER <= bytes_of(r->f, v);
            steps[v] += beside ? 0 : steps[a];
            if (view) r->kept[v] &= r->kept[a];
        }
        if (view) continue;
        r->kept[v] = !cheap || steps[v] >= STEPS || r->last[0][v] == r->f->count || !between;
        if (!r->kept[v] && read) saved += bytes_of(r->f, v);
        if (r->kept[v]) steps[v] = read || !is[v] ? 0 : STEPS;
    }
    for (ir_value v = 1; v < r->turn && saved < LARGE; v++) r->kept[v] = true;
}

static uint32_t block_of(const struct ir_func *f, ir_value v)
{
    return f->module->places.items[ir_get(f, v)->place].again;
}

/* What the document puts into blocks that are made again: but for what others read of them. */
static void drop_blocks(struct remat *r)
{
    for (ir_value v = 1; v < r->turn; v++)
        r->kept[v] &= !block_of(r->f, v) || !is_arithmetic(ir_get(r->f, v)) || r->last[0][v] == r->f->count;
    for (ir_value v = 1; v < r->turn; v++)
        for (uint32_t i = 0; r->live[v] && i < ir_get(r->f, v)->arg_count; i++) {
            ir_value a = ir_get(r->f, v)->args[i];
            r->kept[a] |= block_of(r->f, a) && block_of(r->f, a) != block_of(r->f, v);
        }
}

static void count_dropped(struct remat *r, const bool *is)
{
    struct map known = MAP(&r->pass->scratch);
    for (ir_value v = 1; v < r->turn; v++) {
        if (r->kept[v] || !is[v] || r->last[0][v] < r->turn) continue;
        r->dropped += bytes_of(r->f, v);
        if (block_of(r->f, v)) map_set_number(&known, block_of(r->f, v), 1);
    }
    r->blocks = (uint32_t)known.count;
}

/* Returns the bytes that cross the turn. */
static uint64_t plan(struct remat *r, int level)
{
    const struct ir_func *f = r->f;
    struct arena *a = &r->pass->scratch;
    uint64_t bytes;
    r->live = ir_live(f, a);
    r->kept = arena_new_array(a, bool, f->count);
    for (uint32_t i = 0; i < 2; i++) r->last[i] = arena_new_array(a, ir_value, f->count);
    const bool *is = material(r);
    look_at_readers(r, r->last[0], f->count);
    r->turn = find_turn(r, is, &bytes);
    look_at_readers(r, r->last[1], r->turn);
    for (ir_value v = 1; v < r->turn; v++) {
        const struct ir_node *n = ir_get(f, v);
        r->kept[v] = !is_arithmetic(n) || (level == 1 && n->op == OP_dot) || r->last[0][v] == f->count;
    }
    if (level > 1) keep_borders(r, is, (uint32_t)level - 1);
    if (level == 0) drop_cheap(r, is);
    drop_blocks(r);
    count_dropped(r, is);
    return bytes;
}

/* Where most is alive, a step or a loop's body: there, and nowhere else. */
struct ir_module *pass_remat(struct pass *p, struct ir_module *m)
{
    if (p->options->remat < 0) return m;
    const uint32_t *order = ir_func_order(m, &p->scratch);
    struct remat best = {.pass = p};
    uint64_t most = 0;
    for (size_t i = 0; i < m->funcs.count; i++) {
        struct remat r = {.pass = p, .f = m->funcs.items[i]};
        if ((r.f->entry && strcmp(r.f->name, "step") != 0) || pass_is_outlined(r.f)) continue;
        uint64_t bytes = plan(&r, p->options->remat);
        if (bytes > most) most = bytes, best = r;
    }
    if (!best.f || (p->options->remat == 0 && !best.dropped)) return m;
    struct ir_module *to = ir_module_like(m);
    to->copies = true;
    to->again = (struct ir_again){best.dropped > 0, p->options->remat, best.blocks};
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *from = m->funcs.items[order[i]];
        if (from == best.f) rebuild(&best, to->funcs.items[order[i]]);
        else ir_rebuild(from, to->funcs.items[order[i]], NULL, NULL, &p->scratch);
    }
    return to;
}
