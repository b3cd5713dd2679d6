/* The verifier of plans. The module they belong to has been verified. What must be true:
 *
 * Plans
 *   1. The module is at stage kernel and has one plan for each of its entries, in their order. Lists that come later
 *      than the plans' stage are empty.
 * Groups
 *   2. Members are values of the group's function in ascending order; every operand of one is a member, an input or a
 *      constant; outputs are members, or inputs that are stored as they are. A copy has no members and one output,
 *      which is its input, or, without one, a number.
 *   3. Inputs and outputs have one level each, 0 to 2. A root is that of a dot or scatter group, and a member. Windows
 *      are updates of parts, and members. All outputs of a map but windows have as many elements. Taps fit what they
 *      are taps of; joins are concatenations. Groups of an entry with one `alike` do the same to values of the same
 *      types.
 *
 * Commands
 *   4. A kernel's groups exist, belong to the command's function, or to the functions that its calls name, and have as
 *      many inputs and outputs as the first one.
 *   5. Loops are bracketed: the two ends name the same loop and each other, between them stand commands of its body
 *      only, and all others belong to the function around. Collectives and joins name nodes that are such. A
 *      collective that does not wait itself and its wait name the same and each other; between them begins no other
 * one.
 *   6. Every group of a function that is not called is computed exactly once, every other one at least once.
 *   7. What a command reads, and what a function results in (of values, through reshapes and projections), was made by
 *      a command before, unless it is there from the start: a parameter, a constant, a position on the mesh.
 *
 * Buffers and memory
 *   8. A buffer's slot exists and is of its space's kind. It lies inside of its space, on 64 bytes (a number on its own
 *      size), and is as large as its value; a constant's value is one.
 *   9. A kernel reads and writes one buffer per input and output of each member, each large enough for it; a collective
 *      reads and writes one. The order of members names each once. No join is left.
 *  10. A temporary is live at every command that touches it, through every loop across whose border it lives; no two
 *      that are live at once share a byte. The parts of a buffer lie end to end, exactly where it does, and live while
 *      it does.
 *  11. A temporary is written before it is read, in the order of the commands; what stands around a window need not be.
 *  12. Workers meet before and behind all that is no kernel, and before a kernel that touches a byte that another one
 *      has touched since they last met, one of the two writing.
 *  13. Between a collective and its wait nobody touches its results or writes its operands.
 */
#include "ir/plan_verify.h"

#include <string.h>

/* ---------------------------------------------------------------- groups */

static void check_levels(struct plan_check *c, const char *what, size_t values, const uint8_t *levels, size_t count)
{
    if (values != count) plan_fault(c, "has %zu %ss and %zu levels for them", values, what, count);
    for (size_t i = 0; i < count; i++)
        if (levels[i] > 2) plan_fault(c, "%s %zu has level %u, expected 0 to 2", what, i, levels[i]);
}

/* `mark`: by value, all 0; left so. */
static void check_members(struct plan_check *c, const struct plan_group *g, uint8_t *mark)
{
    const struct ir_func *f = g->func;
    enum { READ = 1, MEMBER = 2 };
    for (size_t i = 0; i < g->inputs.count; i++) mark[g->inputs.items[i]] |= READ;
    for (size_t i = 0; i < g->nodes.count; i++) mark[g->nodes.items[i]] |= MEMBER;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const struct ir_node *n = ir_get(f, g->nodes.items[i]);
        if (i && g->nodes.items[i] <= g->nodes.items[i - 1])
            plan_fault(c, "its nodes are not in ascending order at %%%u", g->nodes.items[i]);
        for (uint32_t k = 0; k < n->arg_count; k++)
            if (!mark[n->args[k]] && ir_get(f, n->args[k])->op != OP_constant)
                plan_fault(c, "%%%u reads %%%u, which is no node and no input of the group", g->nodes.items[i],
                           n->args[k]);
    }
    for (size_t i = 0; i < g->outputs.count; i++)
        if (!mark[g->outputs.items[i]]) plan_fault(c, "output %%%u is no node and no input", g->outputs.items[i]);
    for (size_t i = 0; i < g->windows.count; i++)
        if (ir_get(f, g->windows.items[i])->op != OP_dynamic_update || !(mark[g->windows.items[i]] & MEMBER))
            plan_fault(c, "window %%%u is no dynamic_update of the group", g->windows.items[i]);
    enum ir_emit wanted = g->kind == GROUP_SCATTER ? EMIT_scatter : g->kind == GROUP_LINES ? EMIT_lines : EMIT_dot;
    bool rooted = wanted != EMIT_dot || g->kind == GROUP_DOT || g->kind == GROUP_ATTENTION;
    enum ir_emit root = g->root ? (enum ir_emit)ir_ops[ir_get(f, g->root)->op].emit : EMIT_none;
    if ((rooted != (g->root != 0) && g->kind != GROUP_ATTENTION) ||
        (g->root && (!(mark[g->root] & MEMBER) || root != wanted)))
        plan_fault(c, "root is %%%u, expected %s", g->root, rooted ? "the node of that kind" : "none");
    for (size_t i = 0; i < g->inputs.count; i++) mark[g->inputs.items[i]] = 0;
    for (size_t i = 0; i < g->nodes.count; i++) mark[g->nodes.items[i]] = 0;
}

/* A map walks the elements of all that it makes at once. */
static void check_map(struct plan_check *c, const struct plan_group *g)
{
    int64_t walked = -1;
    for (size_t i = 0; i < g->outputs.count; i++) {
        int64_t elements = ir_type_elements(ir_type(g->func, g->outputs.items[i]));
        bool window = false;
        for (size_t k = 0; k < g->windows.count; k++) window |= g->windows.items[k] == g->outputs.items[i];
        if (window) continue;
        if (walked >= 0 && walked != elements)
            plan_fault(c, "output %%%u has %lld elements, expected %lld as the first one", g->outputs.items[i],
                       (long long)elements, (long long)walked);
        walked = elements;
    }
}

static bool check_values(struct plan_check *c, const struct ir_func *f, const ir_value *v, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!plan_is_value(f, v[i])) return plan_fault(c, "%%%u is no value of %s", v[i], f->name);
    return true;
}

static bool copies(const struct plan_group *g)
{
    if (!g->inputs.count) return ir_is_number(ir_get(g->func, g->outputs.items[0]));
    return g->inputs.count == 1 && g->inputs.items[0] == g->outputs.items[0];
}

/* Where a value stands in a group: inputs first, then nodes; UINT32_MAX: it is a number. */
static uint32_t place_in(const struct plan_group *g, ir_value v)
{
    for (uint32_t i = 0; i < g->inputs.count; i++)
        if (g->inputs.items[i] == v) return i;
    for (uint32_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.items[i] == v) return (uint32_t)g->inputs.count + i;
    return UINT32_MAX;
}

static bool same_type(const struct ir_type *x, const struct ir_type *y, bool one_run)
{
    if (!one_run) return ir_type_equal(x, y);
    return x->dtype == y->dtype && (ir_type_elements(x) == 1) == (ir_type_elements(y) == 1);
}

static bool same_value(const struct plan_group *a, ir_value v, const struct plan_group *b, ir_value w, bool one_run)
{
    const struct ir_node *x = ir_get(a->func, v), *y = ir_get(b->func, w);
    uint32_t at = place_in(a, v);
    if (at != place_in(b, w) || !same_type(&x->type, &y->type, one_run)) return false;
    return at != UINT32_MAX || (ir_is_number(x) && ir_is_number(y) &&
                                !memcmp(x->data, y->data, ir_dtype_bytes((enum ir_dtype)x->type.dtype)));
}

/* One nest serves both. Copies are flat: only dtype and extent matter. */
static bool same_code(const struct plan_group *a, const struct plan_group *b)
{
    if (a->kind != b->kind || a->inputs.count != b->inputs.count || a->nodes.count != b->nodes.count ||
        a->outputs.count != b->outputs.count || (a->root != 0) != (b->root != 0))
        return false;
    if (a->kind == GROUP_COPY) {
        const struct ir_node *x = ir_get(a->func, a->outputs.items[0]), *y = ir_get(b->func, b->outputs.items[0]);
        size_t bytes = ir_dtype_bytes((enum ir_dtype)x->type.dtype);
        return x->type.dtype == y->type.dtype && ir_type_elements(&x->type) == ir_type_elements(&y->type) &&
               (a->inputs.count || !memcmp(x->data, y->data, bytes));
    }
    bool one_run = plan_walks_one_run(a) && plan_walks_one_run(b);
    for (size_t i = 0; i < a->inputs.count; i++)
        if (!same_value(a, a->inputs.items[i], b, b->inputs.items[i], one_run) ||
            a->input_level.items[i] != b->input_level.items[i])
            return false;
    for (size_t i = 0; i < a->nodes.count; i++) {
        const struct ir_node *x = ir_get(a->func, a->nodes.items[i]), *y = ir_get(b->func, b->nodes.items[i]);
        bool moves = one_run && !(ir_ops[x->op].flags & IR_EWISE) && x->op == y->op;
        if (x->arg_count != y->arg_count || !same_type(&x->type, &y->type, one_run) ||
            (!moves && !ir_same_attributes(x, y)))
            return false;
        for (uint32_t k = 0; k < x->arg_count; k++)
            if (!same_value(a, x->args[k], b, y->args[k], one_run)) return false;
    }
    for (size_t i = 0; i < a->outputs.count; i++)
        if (!same_value(a, a->outputs.items[i], b, b->outputs.items[i], one_run) ||
            a->output_level.items[i] != b->output_level.items[i])
            return false;
    return true;
}

static void check_groups(struct plan_check *c)
{
    uint32_t most = 0;
    for (size_t i = 0; i < c->m->module->funcs.count; i++)
        most = c->m->module->funcs.items[i]->count > most ? c->m->module->funcs.items[i]->count : most;
    uint8_t *mark = arena_new_array(c->scratch, uint8_t, most + 1);
    struct map alike = MAP(c->scratch);
    for (uint32_t i = 0; i < c->plan->groups.count; i++) {
        const struct plan_group *g = &c->plan->groups.items[i];
        plan_at_line(c, PLAN_GROUP_LINE, i);
        if (!plan_known_func(c, g->func) || (uint32_t)g->kind >= PLAN_GROUP_KIND_COUNT) {
            plan_fault(c, "has no function of the module, or a kind that does not exist");
            continue;
        }
        if (!check_values(c, g->func, g->nodes.items, g->nodes.count) ||
            !check_values(c, g->func, g->inputs.items, g->inputs.count) ||
            !check_values(c, g->func, g->outputs.items, g->outputs.count) ||
            !check_values(c, g->func, g->windows.items, g->windows.count))
            continue;
        check_levels(c, "input", g->inputs.count, g->input_level.items, g->input_level.count);
        check_levels(c, "output", g->outputs.count, g->output_level.items, g->output_level.count);
        if (g->kind == GROUP_MAP) check_map(c, g);
        if (g->kind != GROUP_COPY) check_members(c, g, mark);
        else if (g->nodes.count || g->outputs.count != 1 || !copies(g))
            plan_fault(c, "is no copy of a value, or of a number");
        uint32_t first = g->alike && g->func->entry ? map_get_number(&alike, g->alike) : MAP_NONE;
        if (first != MAP_NONE && c->ok && !same_code(&c->plan->groups.items[first], g))
            plan_fault(c, "is not like group %u, though both are alike=%llu", first, (unsigned long long)g->alike);
        if (g->alike && g->func->entry && first == MAP_NONE) map_set_number(&alike, g->alike, i);
    }
}

/* Taps agree with what they are taps of as far as codegen relies on it: their base, extents and digits. */
static void check_taps(struct plan_check *c, const struct plan_taps *t)
{
    if (!plan_known_func(c, t->func) || !check_values(c, t->func, (ir_value[]){t->concat, t->base, t->slice}, 3))
        return;
    const struct ir_node *concat = ir_get(t->func, t->concat), *slice = ir_get(t->func, t->slice);
    int64_t slices = 1, most = ir_type_elements(ir_type(t->func, t->base)), low = (int64_t)t->start, high = low, far;
    bool fits = concat->op == OP_concat && slice->op == OP_slice && slice->args[0] == t->base && t->radix.count > 0 &&
                t->radix.count == t->steps.count && t->radix.count <= IR_MAX_RANK && t->outer <= slice->type.rank &&
                t->outer_steps.count == t->outer && t->size > 0 && t->size <= (uint64_t)most && low < most;
    for (size_t i = 0; fits && i < t->radix.count; i++) {
        int64_t step = t->steps.items[i], radix = t->radix.items[i];
        fits = radix > 0 && ir_size_multiply(slices, radix, &slices) &&
               ir_size_multiply(step < 0 ? -step : step, radix - 1, &far);
        if (fits && step < 0) low -= far;
        else if (fits) high += far;
    }
    fits = fits && slices == concat->arg_count && low >= 0 && high + (int64_t)t->size <= most;
    if (!fits) plan_fault(c, "%%%u does not consist of slices of %%%u that lie so", t->concat, t->base);
}

static void check_join(struct plan_check *c, const struct plan_join *j)
{
    if (!plan_known_func(c, j->func) || !check_values(c, j->func, &j->concat, 1)) return;
    if (ir_get(j->func, j->concat)->op != OP_concat) plan_fault(c, "%%%u is no concatenation", j->concat);
}

/* ---------------------------------------------------------------- commands */

/* A kernel's groups and what it is called on. False: they cannot be looked at. */
static bool check_kernel(struct plan_check *c, const struct plan_command *k, uint32_t *computed)
{
    if (k->calls.count && k->calls.count != plan_members(k))
        return plan_fault(c, "computes %u groups for %zu calls", plan_members(k), k->calls.count);
    for (uint32_t m = 0; m < plan_members(k); m++) {
        uint32_t group = plan_member(k, m);
        if (group >= c->plan->groups.count) return plan_fault(c, "group %u does not exist", group);
        const struct plan_group *g = &c->plan->groups.items[group], *first = &c->plan->groups.items[k->group];
        const struct ir_node *call = NULL;
        if (computed[group]++ && !k->calls.count) plan_fault(c, "group %u is computed by a command before it", group);
        if (k->calls.count) {
            if (!check_values(c, k->func, &k->calls.items[m], 1)) return false;
            call = ir_get(k->func, k->calls.items[m]);
            if (call->op != OP_call || k->func->module->funcs.items[call->func] != g->func)
                return plan_fault(c, "%%%u is no call of what group %u computes", k->calls.items[m], group);
            for (size_t i = 0; i < g->inputs.count; i++)
                if (ir_get(g->func, g->inputs.items[i])->op != OP_param)
                    return plan_fault(c, "group %u reads what is no parameter, but is called", group);
        } else if (g->func != k->func) {
            return plan_fault(c, "group %u belongs to another function", group);
        }
        if (g->inputs.count != first->inputs.count || g->outputs.count != first->outputs.count)
            plan_fault(c, "group %u has other numbers of inputs and outputs than group %u", group, k->group);
    }
    return true;
}

static bool kind_fits(const struct plan_check *c, const struct plan_command *k)
{
    if (k->kind == PLAN_KERNEL) return true;
    if (!plan_is_value(k->func, k->node)) return false;
    enum ir_op op = (enum ir_op)ir_get(k->func, k->node)->op;
    for (size_t i = 1; i < plan_joined(k); i++)
        if (!plan_exchanges(k) || !plan_is_value(k->func, plan_joined_node(k, i)) ||
            !plan_goes_with(ir_get(k->func, k->node), ir_get(k->func, plan_joined_node(k, i))))
            return false;
    return k->kind == PLAN_JOIN ? plan_is_join(c->plan, k->func, k->node)
           : plan_exchanges(k)  ? ir_ops[op].emit == EMIT_comm
                                : op == OP_loop;
}

/* The two ends of a collective that stands at `i`. */
static bool ends_fit(struct plan_check *c, const struct plan_command *k, uint32_t i)
{
    const struct plan_command *to = k->other < c->plan->commands.count ? &c->plan->commands.items[k->other] : NULL;
    bool wait = k->kind == PLAN_WAIT;
    bool fits = to && (wait ? k->other < i : k->other > i) && to->kind == (wait ? PLAN_COLLECTIVE : PLAN_WAIT) &&
                to->other == i && to->func == k->func && to->node == k->node && to->joined.count == k->joined.count;
    for (size_t j = 0; fits && j < k->joined.count; j++) fits = to->joined.items[j] == k->joined.items[j];
    for (uint32_t j = i + 1; fits && !wait && j < k->other; j++)
        if (plan_exchanges(&c->plan->commands.items[j]))
            return plan_fault(c, "command %u exchanges before it has ended", j);
    return fits || plan_fault(c, "its other end is not command %u", k->other);
}

/* The commands from `begin` to `end` belong to function `f`, but for those inside of loops. */
static bool check_order(struct plan_check *c, const struct ir_func *f, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        const struct plan_command *k = &c->plan->commands.items[i];
        plan_at_line(c, PLAN_COMMAND_LINE, i);
        if (k->func != f)
            return plan_fault(c, "belongs to %s, expected a command of %s", k->func ? k->func->name : "?", f->name);
        if ((uint32_t)k->kind >= PLAN_COMMAND_KIND_COUNT || k->kind == PLAN_LOOP_END || !kind_fits(c, k))
            return plan_fault(c, "is of kind %s, which %%%u is not",
                              (uint32_t)k->kind < PLAN_COMMAND_KIND_COUNT ? plan_command_names[k->kind] : "?", k->node);
        if ((k->kind == PLAN_WAIT || plan_starts(k)) && !ends_fit(c, k, i)) return false;
        if (k->kind != PLAN_LOOP_BEGIN) continue;
        const struct plan_command *tail = k->other > i && k->other < end ? &c->plan->commands.items[k->other] : NULL;
        if (!tail || tail->kind != PLAN_LOOP_END || tail->other != i || tail->func != f || tail->node != k->node)
            return plan_fault(c, "its loop does not end at command %u", k->other);
        if (!check_order(c, f->module->funcs.items[ir_get(f, k->node)->func], i + 1, k->other)) return false;
        i = k->other;
    }
    return true;
}

/* What commands have made so far, by function and value. */
struct made {
    bool **value;
};

static void needs(struct plan_check *c, const struct made *made, const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    for (; n->op == OP_reshape || n->op == OP_proj; n = ir_get(f, v)) {
        if (made->value[ir_func_index(f)][v]) return;
        v = n->args[0];
    }
    if (c->m->stage == PLAN_MEMORY && plan_is_join(c->plan, f, v)) { /* lies where its operands do */
        for (uint32_t i = 0; i < n->arg_count; i++) needs(c, made, f, n->args[i]);
        return;
    }
    bool there = n->op == OP_param || n->op == OP_constant || n->op == OP_device_index;
    if (!there && !made->value[ir_func_index(f)][v])
        plan_fault(c, "reads %%%u (%s), which nothing before it makes", v, ir_ops[n->op].name);
}

static void needs_results(struct plan_check *c, const struct made *made, const struct ir_func *f)
{
    for (size_t i = 0; i < f->results.count; i++) needs(c, made, f, f->results.items[i].value);
}

static void check_making(struct plan_check *c, struct made *made, const struct plan_command *k)
{
    bool *makes = made->value[ir_func_index(k->func)];
    const struct ir_node *node = k->kind == PLAN_KERNEL ? NULL : ir_get(k->func, k->node);
    for (uint32_t i = 0; node && k->kind != PLAN_LOOP_END && i < node->arg_count; i++)
        needs(c, made, k->func, node->args[i]);
    for (size_t i = 0; i < k->joined.count; i++) needs(c, made, k->func, ir_get(k->func, k->joined.items[i])->args[0]);
    if (plan_starts(k)) return; /* what the wait makes */
    for (size_t i = 0; i < k->joined.count; i++) makes[k->joined.items[i]] = true;
    if (k->kind == PLAN_LOOP_END) needs_results(c, made, k->func->module->funcs.items[node->func]);
    if (node && k->kind != PLAN_LOOP_BEGIN) makes[k->node] = true;
    for (uint32_t m = 0; !node && m < plan_members(k); m++) {
        const struct plan_group *g = &c->plan->groups.items[plan_member(k, m)];
        const struct ir_node *call = k->calls.count ? ir_get(k->func, k->calls.items[m]) : NULL;
        for (size_t i = 0; i < g->inputs.count; i++) {
            ir_value v = g->inputs.items[i];
            needs(c, made, k->func, call ? call->args[ir_get(g->func, v)->attr[0].v[0]] : v);
        }
    }
    for (uint32_t m = 0; !node && m < plan_members(k); m++) {
        const struct plan_group *g = &c->plan->groups.items[plan_member(k, m)];
        if (k->calls.count) makes[k->calls.items[m]] = true;
        for (size_t i = 0; !k->calls.count && i < g->outputs.count; i++) makes[g->outputs.items[i]] = true;
    }
}

static struct made nothing_made(struct plan_check *c)
{
    const struct ir_module *m = c->m->module;
    struct made made = {arena_new_array(c->scratch, bool *, m->funcs.count + 1)};
    for (size_t i = 0; i < m->funcs.count; i++)
        made.value[i] = arena_new_array(c->scratch, bool, m->funcs.items[i]->count);
    return made;
}

/* What commands will be made of reads what some group makes, in a function and in those that it runs. */
static void needs_operands(struct plan_check *c, const struct made *made, const struct ir_func *f)
{
    const bool *live = ir_live(f, c->scratch);
    for (ir_value v = 1; c->ok && v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        if (!live[v] || !(ir_ops[n->op].emit == EMIT_comm || ir_has_body((enum ir_op)n->op))) continue;
        for (uint32_t i = 0; i < n->arg_count; i++) needs(c, made, f, n->args[i]);
        if (ir_has_body((enum ir_op)n->op)) needs_operands(c, made, f->module->funcs.items[n->func]);
    }
    needs_results(c, made, f);
}

/* Before there are commands: what is read is made by some group, or stands for itself in the program. */
static void check_making_at_all(struct plan_check *c)
{
    struct made made = nothing_made(c);
    for (size_t i = 0; i < c->m->module->funcs.count; i++) {
        const struct ir_func *f = c->m->module->funcs.items[i];
        for (ir_value v = 1; v < f->count; v++) {
            enum ir_emit emit = (enum ir_emit)ir_ops[ir_get(f, v)->op].emit;
            made.value[i][v] = emit == EMIT_control || emit == EMIT_comm || plan_is_join(c->plan, f, v);
        }
    }
    for (size_t i = 0; i < c->plan->groups.count; i++) {
        const struct plan_group *g = &c->plan->groups.items[i];
        for (size_t k = 0; k < g->outputs.count; k++) made.value[ir_func_index(g->func)][g->outputs.items[k]] = true;
    }
    for (uint32_t i = 0; i < c->plan->groups.count; i++) {
        const struct plan_group *g = &c->plan->groups.items[i];
        plan_at_line(c, PLAN_GROUP_LINE, i);
        for (size_t k = 0; k < g->inputs.count; k++) needs(c, &made, g->func, g->inputs.items[k]);
    }
    c->at.kind = PLAN_AT_PLAN;
    needs_operands(c, &made, c->plan->func);
}

/* False: what comes after must not be looked at. */
static bool check_commands(struct plan_check *c)
{
    const struct plan *plan = c->plan;
    uint32_t *computed = arena_new_array(c->scratch, uint32_t, plan->groups.count + 1);
    struct made made = nothing_made(c);
    if (!check_order(c, plan->func, 0, (uint32_t)plan->commands.count)) return false;
    for (uint32_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *k = &plan->commands.items[i];
        plan_at_line(c, PLAN_COMMAND_LINE, i);
        if (k->kind == PLAN_KERNEL && !check_kernel(c, k, computed)) return false;
        check_making(c, &made, k);
    }
    c->at.kind = PLAN_AT_PLAN;
    needs_results(c, &made, plan->func);
    for (uint32_t i = 0; i < plan->groups.count; i++) {
        plan_at_line(c, PLAN_GROUP_LINE, i);
        if (!computed[i]) plan_fault(c, "is computed by no command");
    }
    return c->ok;
}

/* ---------------------------------------------------------------- plans */

static void check_plan(struct plan_check *c)
{
    const struct plan *plan = c->plan;
    enum plan_stage stage = c->m->stage;
    if (stage < PLAN_COMMANDS && plan->commands.count) plan_fault(c, "has commands at stage groups");
    if (stage < PLAN_MEMORY && plan->buffers.count) plan_fault(c, "has buffers at stage %s", plan_stage_names[stage]);
    check_groups(c);
    for (uint32_t i = 0; i < plan->taps.count; i++) {
        plan_at_line(c, PLAN_TAPS_LINE, i);
        check_taps(c, &plan->taps.items[i]);
    }
    for (uint32_t i = 0; i < plan->joins.count; i++) {
        plan_at_line(c, PLAN_JOIN_LINE, i);
        check_join(c, &plan->joins.items[i]);
    }
    if (c->ok && stage == PLAN_GROUPS) check_making_at_all(c);
    if (!c->ok || stage < PLAN_COMMANDS || !check_commands(c) || stage < PLAN_MEMORY) return;
    plan_verify_memory(c);
}

bool plan_verify(const struct plan_module *m, struct str *faults, struct plan_place *first)
{
    struct arena scratch = {0};
    struct plan_check c = {.m = m, .faults = faults, .first = first, .scratch = &scratch, .ok = true};
    uint32_t entries = 0;
    if ((uint32_t)m->stage >= PLAN_STAGE_COUNT || m->module->stage != IR_AT_KERNEL)
        plan_fault(&c, "plans belong to modules of stage kernel");
    if (m->stage == PLAN_MEMORY && !m->slot_offset) plan_fault(&c, "the slots have no offsets");
    for (size_t i = 0; i < m->module->funcs.count; i++) {
        if (!m->module->funcs.items[i]->entry) continue;
        if (entries >= m->plans.count || m->plans.items[entries]->func != m->module->funcs.items[i])
            plan_fault(&c, "entry %s has no plan, or not in the order of the entries", m->module->funcs.items[i]->name);
        entries++;
    }
    if (m->plans.count > entries) plan_fault(&c, "there are %zu plans for %u entries", m->plans.count, entries);
    for (uint32_t i = 0; c.ok && i < m->plans.count; i++) {
        c.plan = m->plans.items[i];
        c.at = (struct plan_place){PLAN_AT_PLAN, i, 0};
        check_plan(&c);
    }
    arena_free(&scratch);
    return c.ok;
}
