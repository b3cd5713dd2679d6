/* Traffic of the update: the bytes that kernels move for the optimizer and the averages, beside what one pass would
 * move. A node belongs to the update if its place in the document is the optimizer's or the averages'.
 *
 * The least: each slot that the update reads is read once, each that it changes is written once, each gradient is read
 * once, unless the kernel that uses it makes it; what a reduction (a norm) must have seen before the update can begin
 * is read once more, and no more than is moved: a tensor may stay in a core's cache between two passes. What fits into
 * a page is not counted (scalars, partial sums, biases; neither their bytes nor their elements), unless everything
 * does. */
#include "ir/report.h"
#include <string.h>

enum { SMALL_BYTES = 4096 };

struct traffic {
    const struct plan *plan;
    struct arena *arena;
    const struct ir_func *f; /* the function of the group at hand, and its scratch by value */
    bool *member, *needed;
    uint64_t small; /* buffers up to this size are not counted */
    struct report_update *out;
};

static bool of_update(const struct ir_func *f, ir_value v)
{
    static const char *const places[] = {"/optimizer", "/ema"};
    uint32_t place = f->nodes[v].place;
    const char *pointer = place && place < f->module->places.count ? f->module->places.items[place].pointer : NULL;
    if (f->nodes[v].op == OP_param) return false; /* a slot, wherever it was declared */
    for (size_t i = 0; pointer && i < sizeof places / sizeof *places; i++) {
        size_t n = strlen(places[i]);
        if (strncmp(pointer, places[i], n) == 0 && (!pointer[n] || pointer[n] == '/')) return true;
    }
    return false;
}

/* Ops that only show their operand in another shape or dtype. */
static bool is_view(const struct ir_node *node)
{
    return (ir_ops[node->op].emit == EMIT_view && node->arg_count) || node->op == OP_cast;
}

static bool is_reduction(const struct ir_node *node) { return ir_ops[node->op].emit == EMIT_reduce; }

static uint64_t counted(const struct traffic *t, uint64_t bytes) { return bytes > t->small ? bytes : 0; }

static uint64_t bytes_of(const struct traffic *t, const struct ir_func *f, ir_value v)
{
    const struct ir_type *type = ir_type(f, v);
    if (type->dtype == IR_TUPLE) return 0;
    return counted(t, (uint64_t)ir_type_elements(type) * ir_dtype_bytes((enum ir_dtype)type->dtype));
}

/* ---------------------------------------------------------------- what is moved */

/* Marks what the update reads from outside the group at and behind value v. */
static void mark_needed(struct traffic *t, ir_value v)
{
    const struct ir_node *node = ir_get(t->f, v);
    if (t->needed[v]) return;
    if (!t->member[v]) {
        t->needed[v] = true;
        return;
    }
    if (of_update(t->f, v) || !is_view(node)) return;
    for (uint32_t i = 0; i < node->arg_count; i++) mark_needed(t, node->args[i]);
}

static bool first_of(const uint32_t *items, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (items[k] == items[i]) return false;
    return true;
}

static void enter(struct traffic *t, const struct ir_func *f)
{
    if (t->f == f) return;
    t->f = f;
    t->member = arena_new_array(t->arena, bool, f->count);
    t->needed = arena_new_array(t->arena, bool, f->count);
}

/* Bytes of one member of a kernel command that the update is responsible for; `*any`: it does some of the update. */
static uint64_t member_bytes(struct traffic *t, const struct plan_group *g, const uint32_t *reads,
                             const uint32_t *writes, bool *any)
{
    const struct plan_buffer *buffers = t->plan->buffers.items;
    uint64_t bytes = 0;
    enter(t, g->func);
    for (size_t i = 0; i < g->nodes.count; i++) t->member[g->nodes.items[i]] = true;
    for (size_t i = 0; i < g->nodes.count; i++) {
        ir_value v = g->nodes.items[i];
        if (!of_update(t->f, v)) continue;
        *any = true;
        for (uint32_t k = 0; k < t->f->nodes[v].arg_count; k++) mark_needed(t, t->f->nodes[v].args[k]);
    }
    for (size_t i = 0; i < g->inputs.count; i++)
        if (t->needed[g->inputs.items[i]] && first_of(reads, i)) bytes += counted(t, buffers[reads[i]].bytes);
    for (size_t i = 0; i < g->outputs.count; i++)
        if (of_update(t->f, g->outputs.items[i]) || !t->member[g->outputs.items[i]])
            bytes += counted(t, buffers[writes[i]].bytes);
    for (size_t i = 0; i < g->nodes.count; i++) {
        const struct ir_node *node = ir_get(t->f, g->nodes.items[i]);
        t->member[g->nodes.items[i]] = false;
        for (uint32_t k = 0; k < node->arg_count; k++) t->needed[node->args[k]] = false;
    }
    return bytes;
}

static uint64_t kernel_bytes(struct traffic *t, const struct plan_command *c, bool *any)
{
    uint64_t bytes = 0;
    size_t read = 0, written = 0;
    for (uint32_t m = 0; m < plan_members(c); m++) {
        const struct plan_group *g = &t->plan->groups.items[plan_member(c, m)];
        bytes += member_bytes(t, g, g->inputs.count ? c->reads.items + read : NULL,
                              g->outputs.count ? c->writes.items + written : NULL, any);
        read += g->inputs.count;
        written += g->outputs.count;
    }
    return bytes;
}

static bool trained_state(enum ir_role role)
{
    return role == IR_ROLE_PARAM || role == IR_ROLE_EMA || role == IR_ROLE_OPT_STATE;
}

/* A copy into a slot that could not be updated in place, or through which a slot's old value was saved. */
static uint64_t copy_bytes(const struct traffic *t, const struct plan_command *c)
{
    const struct ir_module *m = t->plan->func->module;
    uint64_t bytes = 0;
    bool state = false;
    for (size_t i = 0; i < c->reads.count + c->writes.count; i++) {
        const struct plan_buffer *b =
            &t->plan->buffers.items[i < c->reads.count ? c->reads.items[i] : c->writes.items[i - c->reads.count]];
        state |= plan_memory_of(b->space) == PLAN_SLOT && trained_state(m->slots.items[b->slot].role);
        bytes += counted(t, b->bytes);
    }
    return state ? bytes : 0;
}

static void add_moved(struct traffic *t, const double *times)
{
    for (size_t i = 0; i < t->plan->commands.count; i++) {
        const struct plan_command *c = &t->plan->commands.items[i];
        bool any = false;
        uint64_t bytes;
        if (c->kind != PLAN_KERNEL) continue;
        if (t->plan->groups.items[c->group].kind == GROUP_COPY) any = (bytes = copy_bytes(t, c)) > 0;
        else bytes = kernel_bytes(t, c, &any);
        t->out->kernels += any;
        t->out->bytes += (uint64_t)((double)bytes * times[i]);
    }
}

/* ---------------------------------------------------------------- the least */

/* The value that a chain of views of other parts of the document shows. */
static ir_value shown(const struct ir_func *f, ir_value v)
{
    while (is_view(ir_get(f, v)) && !of_update(f, v)) v = ir_get(f, v)->args[0];
    return v;
}

/* Marks the values that reductions of the update need whole, through its element-wise part. */
static bool *mark_reduced(struct traffic *t, const struct ir_func *f, const bool *live)
{
    bool *reduced = arena_new_array(t->arena, bool, f->count);
    for (ir_value v = f->count; v-- > 1;) {
        const struct ir_node *node = ir_get(f, v);
        bool pointwise = (ir_ops[node->op].flags & IR_EWISE) || is_view(node) || plan_is_join(t->plan, f, v);
        if (!live[v] || !of_update(f, v) || !(is_reduction(node) || (reduced[v] && pointwise))) continue;
        for (uint32_t i = 0; i < node->arg_count; i++) reduced[shown(f, node->args[i])] = true;
    }
    return reduced;
}

/* By value: only the kernel that makes it uses it. */
static bool *mark_inner(const struct traffic *t, const struct ir_func *f)
{
    bool *inner = arena_new_array(t->arena, bool, f->count);
    for (size_t i = 0; i < t->plan->groups.count; i++) {
        const struct plan_group *g = &t->plan->groups.items[i];
        for (size_t n = 0; n < g->nodes.count && g->func == f; n++) inner[g->nodes.items[n]] = true;
    }
    for (size_t i = 0; i < t->plan->groups.count; i++) {
        const struct plan_group *g = &t->plan->groups.items[i];
        for (size_t n = 0; n < g->outputs.count && g->func == f; n++) {
            ir_value v = g->outputs.items[n];
            for (; is_view(ir_get(f, v)); v = ir_get(f, v)->args[0]) inner[v] = false;
            inner[v] = false;
        }
    }
    return inner;
}

static void add_least(struct traffic *t)
{
    const struct ir_func *f = t->plan->func;
    const struct ir_module *m = f->module;
    bool *live = ir_live(f, t->arena), *reduced = mark_reduced(t, f, live), *inner = mark_inner(t, f),
         *read = arena_new_array(t->arena, bool, f->count);
    for (ir_value v = 1; v < f->count; v++)
        for (uint32_t i = 0; live[v] && of_update(f, v) && i < f->nodes[v].arg_count; i++)
            read[shown(f, f->nodes[v].args[i])] = true;
    for (ir_value v = 1; v < f->count; v++)
        if (read[v] && !inner[v] && !of_update(f, v) && f->nodes[v].op != OP_constant && f->nodes[v].op != OP_iota)
            t->out->least += bytes_of(t, f, v) * (reduced[v] ? 2 : 1);
    for (size_t i = 0; i < f->results.count; i++) {
        const struct ir_result *r = &f->results.items[i];
        if (r->slot < 0 || m->slots.items[r->slot].role > IR_ROLE_STATE) continue;
        const struct ir_node *node = ir_get(f, r->value);
        bool update = of_update(f, r->value) || trained_state(m->slots.items[r->slot].role);
        bool same = node->op == OP_param && f->params.items[node->attr[0].v[0]].slot == r->slot;
        if (same || !update) continue;
        t->out->least += bytes_of(t, f, r->value);
        if (m->slots.items[r->slot].role == IR_ROLE_PARAM && bytes_of(t, f, r->value))
            t->out->parameters += (uint64_t)ir_type_elements(&node->type);
    }
    if (t->out->least > t->out->bytes) t->out->least = t->out->bytes;
}

static void measure(const struct plan *plan, const double *times, uint64_t small, struct arena *arena,
                    struct report_update *out)
{
    struct traffic t = {.plan = plan, .arena = arena, .out = out, .small = small};
    memset(out, 0, sizeof *out);
    add_moved(&t, times);
    add_least(&t);
}

bool ir_report_update(const struct plan *plan, const double *times, struct arena *arena, struct report_update *out)
{
    measure(plan, times, SMALL_BYTES, arena, out);
    if (!out->parameters) measure(plan, times, 0, arena, out);
    return out->kernels > 0 && out->parameters > 0;
}
