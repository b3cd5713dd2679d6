/* Rematerialisation: what was computed before an instant at which much is alive and is read behind it only is computed
 * again there, from less that is kept (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). The instant
 * is where most crosses, in a training step the end of the forward pass; nothing needs to know of gradients.
 *
 * Level 0 drops what is element-wise of what is kept anyway and takes no longer to make than to load, as a normalised
 * row beside the row and its statistics; where that saves much also what takes longer, as the tanh and the product of a
 * gelu beside what it is of. No product and no sum is made twice.
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

/* Level 0: makes a value by so few instructions per element, or, where that saves so many bytes, of so many others;
 * what is so much smaller than what is made of it may be kept beside. */
enum { FEW = 5, LARGE = 64 << 20, STEPS = 24, SMALLER = 64 };
/* Multiplications of a product with one element of an operand from which on it takes nothing to make, store and load
 * that once more. */
static const double THIN = 32;
static const double ENOUGH = 0.9; /* of the room that there was: for more it is not worth having other kernels */

struct remat {
    struct pass *pass;
    const struct ir_func *f;
    struct ir_builder b;
    bool *live, *kept; /* by value: read as it is, wherever that is */
    ir_value *map;     /* by value: in the new function */
    ir_value *again;   /* by value: made once more */
    ir_value turn;     /* what comes later reads what is made again */
    ir_value *last[2]; /* by value: its last reader at all, and its last one before the turn */
    bool few;          /* of level 0: what takes few instructions, however little it saves */
    uint64_t crosses;  /* bytes, the turn */
    uint64_t dropped;  /* of these: no more */
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

/* How many products, loops and collectives are before a value: what one such stretch makes and reads is fused. */
static uint32_t *stretches(const struct remat *r)
{
    uint32_t *before = arena_new_array(&r->pass->scratch, uint32_t, r->f->count + 1);
    uint8_t *known = arena_new_array(&r->pass->scratch, uint8_t, r->f->module->funcs.count + 1);
    for (ir_value v = 1; v < r->f->count; v++) {
        bool parts = is_heavy(r->f, v, known) || ir_ops[ir_get(r->f, v)->op].emit == EMIT_comm;
        before[v + 1] = before[v] + (r->live[v] && parts);
    }
    return before;
}

/* The last product or loop that is made of the batch; 0: there is none. */
static ir_value last_product(const struct remat *r, const bool *is)
{
    uint8_t *known = arena_new_array(&r->pass->scratch, uint8_t, r->f->module->funcs.count + 1);
    ir_value v = r->f->count;
    while (v-- > 1 && !(is[v] && is_heavy(r->f, v, known))) continue;
    return v;
}

/* By instant: how many products are before it whose end is behind it: what is element-wise of their results and would
 * be made in their tiles. */
static int32_t *find_partings(const struct remat *r)
{
    const struct ir_func *f = r->f;
    int32_t *parted = arena_new_array(&r->pass->scratch, int32_t, f->count + 1);
    ir_value *reader = arena_new_array(&r->pass->scratch, ir_value, f->count),
             *end = arena_new_array(&r->pass->scratch, ir_value, f->count);
    for (ir_value v = f->count; v-- > 1;) {
        const struct ir_node *n = ir_get(f, v);
        if (!r->live[v]) continue;
        for (uint32_t i = 0; i < n->arg_count; i++) reader[n->args[i]] = v;
        ir_value next = reader[v]; /* the first one, and the only one of what is element-wise */
        if (ir_ops[n->op].emit == EMIT_ewise && next != r->last[0][v]) next = 0;
        enum ir_emit emit = next ? (enum ir_emit)ir_ops[ir_get(f, next)->op].emit : EMIT_control;
        bool joins = (emit == EMIT_ewise || emit == EMIT_view) &&
                     ir_type_elements(ir_type(f, next)) == ir_type_elements(&n->type);
        end[v] = joins ? end[next] : v;
        if (n->op == OP_dot) parted[v + 1]++, parted[end[v] + 1]--;
    }
    for (ir_value v = 1; v <= f->count; v++) parted[v] += parted[v - 1];
    return parted;
}

static uint32_t block_of(const struct ir_func *f, ir_value v)
{
    return f->module->places.items[ir_get(f, v)->place].again;
}

/* Has the document named some? */
static bool has_blocks(const struct ir_func *f)
{
    for (ir_value v = 1; v < f->count; v++)
        if (block_of(f, v)) return true;
    return false;
}

/* The instant that most bytes cross, and how many do. What takes few instructions is made again for products alone, so
 * that there is one behind it. At level 0 no product is parted from its end, which would also have the last of many
 * equal blocks read there what the others make again; where the document names blocks, they are made again behind the
 * very instant. */
static ir_value find_turn(const struct remat *r, const bool *is, uint64_t *bytes)
{
    uint64_t *ends = arena_new_array(&r->pass->scratch, uint64_t, r->f->count + 1), now = 0, most = 0;
    const uint32_t *stretch = r->few ? stretches(r) : NULL;
    const int32_t *parted = r->few || (r->pass->options->remat == 0 && !has_blocks(r->f)) ? find_partings(r) : NULL;
    ir_value turn = 0, end = r->few ? last_product(r, is) : r->f->count;
    for (ir_value v = 1; v < end; v++) {
        bool ewise = r->few && ir_ops[ir_get(r->f, v)->op].emit == EMIT_ewise;
        bool counts = is[v] && r->last[0][v] < r->f->count; /* results have a place of their own */
        if (counts && !(ewise && stretch[v] == stretch[r->last[0][v]]))
            now += bytes_of(r->f, v), ends[r->last[0][v]] += bytes_of(r->f, v);
        now -= ends[v];
        if (now > most && !(parted && parted[v + 1])) most = now, turn = v + 1;
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
    to->capacity = f->count + f->count / 8 + 16;
    to->nodes = arena_new_array(&to->module->arena, struct ir_node, to->capacity);
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

/* What a product does with each element of an operand. */
static double work_of_element(const struct ir_func *f, const struct ir_node *product, uint32_t operand)
{
    const struct ir_type *x = ir_type(f, product->args[0]);
    double k = 1;
    for (uint32_t i = 0; i < product->attr[2].n; i++) k *= (double)x->dim[product->attr[2].v[i]];
    double of = (double)ir_type_elements(ir_type(f, product->args[operand]));
    return of > 0 ? (double)ir_type_elements(&product->type) * k / of : 0;
}

/* By value: does a product behind the turn read it, or a view of it, that does little with each element? It would be
 * made, stored and loaded once more for that. */
static bool *find_thin(const struct remat *r)
{
    bool *is = arena_new_array(&r->pass->scratch, bool, r->f->count);
    for (ir_value v = r->f->count; v-- > 1;) {
        const struct ir_node *n = ir_get(r->f, v);
        bool reads = r->live[v] && v >= r->turn && n->op == OP_dot;
        bool leads = r->live[v] && ir_ops[n->op].emit == EMIT_view && is[v];
        for (uint32_t i = 0; i < n->arg_count; i++)
            is[n->args[i]] |= leads || (reads && work_of_element(r->f, n, i) < THIN);
    }
    return is;
}

/* Level 0: what is element-wise of what is kept. */
static void drop_cheap(struct remat *r, const bool *is)
{
    uint32_t *steps = arena_new_array(&r->pass->scratch, uint32_t, r->f->count); /* from what is kept */
    uint8_t *known = arena_new_array(&r->pass->scratch, uint8_t, r->f->module->funcs.count + 1);
    const uint32_t most = r->few ? FEW : STEPS;
    const bool *thin = r->few ? find_thin(r) : NULL;
    bool between = r->few; /* a product or loop behind the turn; an update is one pass, which nothing parts */
    for (ir_value v = r->turn; v < r->f->count && !between; v++) between = is[v] && is_heavy(r->f, v, known);
    uint64_t saved = 0;
    for (ir_value v = 1; v < r->turn; v++) {
        const struct ir_node *n = ir_get(r->f, v);
        bool view = ir_ops[n->op].emit == EMIT_view, read = is[v] && r->last[0][v] >= r->turn;
        bool cheap = view || (is[v] && is_arithmetic(n) && ir_ops[n->op].emit == EMIT_ewise && !(thin && thin[v]));
        r->kept[v] = view;
        steps[v] = view ? 0 : r->few ? ir_ops[n->op].cost : 1;
        for (uint32_t i = 0; cheap && i < n->arg_count; i++) {
            ir_value a = n->args[i];
            bool beside = r->kept[a] && bytes_of(r->f, a) * SMALLER <= bytes_of(r->f, v);
            steps[v] += beside ? 0 : steps[a];
            if (view) r->kept[v] &= r->kept[a];
        }
        if (view) continue;
        r->kept[v] = !cheap || steps[v] >= most || r->last[0][v] == r->f->count || !between;
        if (!r->kept[v] && read) saved += bytes_of(r->f, v);
        if (r->kept[v]) steps[v] = read || !is[v] ? 0 : most;
    }
    for (ir_value v = 1; v < r->turn && !r->few && saved < LARGE; v++) r->kept[v] = true;
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

static void plan(struct remat *r, int level)
{
    const struct ir_func *f = r->f;
    struct arena *a = &r->pass->scratch;
    r->live = ir_live(f, a);
    r->kept = arena_new_array(a, bool, f->count);
    for (uint32_t i = 0; i < 2; i++) r->last[i] = arena_new_array(a, ir_value, f->count);
    const bool *is = material(r);
    look_at_readers(r, r->last[0], f->count);
    r->turn = find_turn(r, is, &r->crosses);
    look_at_readers(r, r->last[1], r->turn);
    for (ir_value v = 1; v < r->turn; v++) {
        const struct ir_node *n = ir_get(f, v);
        r->kept[v] = !is_arithmetic(n) || (level == 1 && n->op == OP_dot) || r->last[0][v] == f->count;
    }
    if (level > 1) keep_borders(r, is, (uint32_t)level - 1);
    if (level == 0) drop_cheap(r, is);
    drop_blocks(r);
    count_dropped(r, is);
}

/* Where most is alive, a step or a loop's body: there, and nowhere else. */
static struct remat choose(struct pass *p, const struct ir_module *m, bool few)
{
    struct remat best = {.pass = p};
    for (size_t i = 0; i < m->funcs.count; i++) {
        struct remat r = {.pass = p, .f = m->funcs.items[i], .few = few};
        if ((r.f->entry && strcmp(r.f->name, "step") != 0) || pass_is_outlined(r.f)) continue;
        plan(&r, p->options->remat);
        if (r.crosses > best.crosses) best = r;
    }
    return best;
}

static struct ir_module *carry_out(struct pass *p, const struct ir_module *m, struct remat *best)
{
    const uint32_t *order = ir_func_order(m, &p->scratch);
    struct ir_module *to = ir_module_like(m);
    to->copies = true;
    to->again = (struct ir_again){best->dropped > 0, p->options->remat, best->blocks};
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *from = m->funcs.items[order[i]];
        if (from == best->f) rebuild(best, to->funcs.items[order[i]]);
        else ir_rebuild(from, to->funcs.items[order[i]], NULL, NULL, &p->scratch);
    }
    return to;
}

/* Plans the module, and keeps what pass fuse makes of it. Returns the bytes of temporaries. */
static uint64_t room(const struct pass *p, struct ir_module *m, struct pass_fused *fused)
{
    struct arena keep = {0};
    struct diags diags = {.arena = &keep};
    struct pass trial = {.options = p->options, .diags = &diags, .keep = p->keep};
    *fused = (struct pass_fused){.of = m, .made = pass_fuse(&trial, m)};
    fused->plans = fused->made->plans;
    fused->made->plans = plan_copy(fused->plans, &keep);
    trial.keep = &keep;
    const struct ir_module *planned = pass_memplan(&trial, pass_schedule(&trial, fused->made));
    uint64_t most = planned ? 0 : UINT64_MAX;
    for (size_t i = 0; planned && i < planned->plans->plans.count; i++)
        if (planned->plans->plans.items[i]->arena_bytes > most) most = planned->plans->plans.items[i]->arena_bytes;
    fused->made->plans = NULL;
    arena_free(&trial.scratch);
    arena_free(&keep);
    return most;
}

/* What takes few instructions costs no time, but may need room before it gives room back: both are planned, and the one
 * that stays need not be fused again. */
static struct ir_module *choose_by_room(struct pass *p, struct ir_module *m, struct remat *best)
{
    struct ir_module *ways[2] = {m, carry_out(p, m, best)};
    struct pass_fused fused[2];
    uint64_t rooms[2];
    for (uint32_t i = 0; i < 2; i++) rooms[i] = room(p, ways[i], &fused[i]);
    bool again = (double)rooms[1] < ENOUGH * (double)rooms[0];
    pass_forget(&fused[!again]);
    if (!again) ir_module_free(ways[1]);
    p->fused = fused[again];
    return ways[again];
}

struct ir_module *pass_remat(struct pass *p, struct ir_module *m)
{
    if (p->options->remat < 0) return m;
    struct remat best = choose(p, m, false);
    if (p->options->remat == 0 && !best.dropped) {
        best = choose(p, m, true);
        bool much = (double)best.dropped > (1 - ENOUGH) * (double)best.crosses;
        return best.f && much ? choose_by_room(p, m, &best) : m;
    }
    return best.f ? carry_out(p, m, &best) : m;
}
