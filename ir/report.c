/* The report on a plan as JSON: tensors, memory, operations, fused groups, collectives, each with its place in the
 * document. It is the manifest of an object, and what `stepc explain` shows. Keys are stable; sizes are bytes of one
 * device; places are JSON pointers.
 *
 * An object carries a brief form: the step's memory and groups only, nothing small or that follows from the rest, a
 * group or a tensor alive at the peak as a list of values in the order of `group_columns` and `alive_columns`, their
 * texts and all places as indices into the list "texts". */
#include "ir/base/map.h"
#include "ir/report.h"

#include <math.h>
#include <string.h>

enum { ALIVE_LISTED = 12, OPS_LISTED = 24, OPS_BRIEF = 12 };

struct report {
    struct str *out;
    const struct plan_module *pm;
    const struct plan *plan;
    struct arena scratch, kept; /* of one entry; of the whole report */
    bool brief;
    struct map known; /* text -> index in texts */
    VEC(const char *) texts;
};

/* ---------------------------------------------------------------- pieces */

static void add_key(struct report *r, const char *before, const char *key)
{
    str_addf(r->out, "%s\"%s\":", before, key);
}

static void add_text(struct report *r, const char *before, const char *key, const char *text)
{
    add_key(r, before, key);
    if (text) str_add_json(r->out, text);
    else str_add(r->out, "null");
}

/* A text in the brief form: an index into "texts", -1 for none. */
static uint32_t shared(struct report *r, const char *text)
{
    uint32_t index = map_get(&r->known, text);
    if (index != MAP_NONE) return index;
    map_set(&r->known, text, (uint32_t)r->texts.count);
    vec_push(&r->kept, &r->texts, text);
    return (uint32_t)r->texts.count - 1;
}

static void add_shared(struct report *r, const char *text)
{
    str_addf(r->out, ",%lld", text ? (long long)shared(r, text) : -1LL);
}

static void add_bytes(struct report *r, const char *before, const char *key, uint64_t bytes)
{
    str_addf(r->out, "%s\"%s\":%llu", before, key, (unsigned long long)bytes);
}

static void add_number(struct report *r, const char *before, const char *key, double x)
{
    add_key(r, before, key);
    str_add_number(r->out, x, false);
}

static const char *place_of(const struct ir_module *m, uint32_t place)
{
    return place && place < m->places.count ? m->places.items[place].pointer : NULL;
}

static const char *place_of_value(const struct ir_func *f, ir_value v)
{
    return place_of(f->module, f->nodes[v].place);
}

static void add_type(struct report *r, const struct ir_type *type)
{
    add_text(r, ",", "dtype", ir_dtype_name((enum ir_dtype)type->dtype));
    add_key(r, ",", "shape");
    str_add(r->out, "[");
    for (uint32_t d = 0; d < type->rank; d++) str_addf(r->out, "%s%lld", d ? "," : "", (long long)type->dim[d]);
    str_add(r->out, "]");
}

/* Mesh axes of each dimension, outermost first. */
static void add_sharding(struct report *r, const struct ir_type *type, const struct ir_sharding *sharding)
{
    const struct ir_mesh *mesh = &r->pm->module->mesh;
    add_key(r, ",", "sharding");
    str_add(r->out, "[");
    for (uint32_t d = 0; d < type->rank; d++) {
        str_add(r->out, d ? ",[" : "[");
        for (uint32_t axes = sharding->dim[d], first = 1; axes; axes >>= 4, first = 0) {
            if (!first) str_add(r->out, ",");
            uint32_t axis = (axes & 15) - 1;
            str_add_json(r->out, axis < mesh->axis_count ? mesh->name[axis] : "?");
        }
        str_add(r->out, "]");
    }
    str_add(r->out, "]");
}

/* ---------------------------------------------------------------- the module */

static void add_slots(struct report *r)
{
    static const char *const roles[] = {"", "param", "ema", "opt_state", "state", "input", "metric", "output", "hyper"};
    const struct ir_module *m = r->pm->module;
    add_key(r, ",", "tensors");
    str_add(r->out, "[");
    for (size_t i = 0; i < m->slots.count; i++) {
        const struct ir_slot *s = &m->slots.items[i];
        add_text(r, i ? ",{" : "{", "name", s->name);
        add_text(r, ",", "role", roles[s->role <= IR_ROLE_HYPER ? s->role : 0]);
        add_type(r, &s->type);
        if (m->mesh.axis_count) add_sharding(r, &s->type, &s->sharding);
        if (s->frozen) str_add(r->out, ",\"frozen\":true");
        if (s->computed) str_add(r->out, ",\"computed\":true");
        if (s->role == IR_ROLE_HYPER && isnan(s->initial)) str_add(r->out, ",\"initial\":null"); /* a schedule holds */
        else if (s->role == IR_ROLE_HYPER) add_number(r, ",", "initial", s->initial);
        const char *place = r->brief && s->role == IR_ROLE_OPT_STATE
                                ? NULL
                                : place_of(m, s->place); /* it is the optimizer's */
        if (place && r->brief) {
            add_key(r, ",", "place");
            str_addf(r->out, "%u", shared(r, place));
        } else if (place) add_text(r, ",", "place", place);
        str_add(r->out, "}");
    }
    str_add(r->out, "]");
}

static void add_mesh(struct report *r)
{
    const struct ir_mesh *mesh = &r->pm->module->mesh;
    int64_t devices = 1;
    add_key(r, ",", "mesh");
    str_add(r->out, "{");
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        if (i) str_add(r->out, ",");
        str_add_json(r->out, mesh->name[i]);
        str_addf(r->out, ":%lld", (long long)mesh->size[i]);
        devices *= mesh->size[i];
    }
    str_addf(r->out, "},\"devices\":%lld", (long long)devices);
}

/* ---------------------------------------------------------------- an entry */

/* How often the commands between this LOOP_BEGIN and its end run, 0 if it is not known. */
static double trips(const struct plan *p, const struct plan_command *loop)
{
    if (loop->limit >= p->buffers.count) return 0;
    const struct plan_buffer *b = &p->buffers.items[loop->limit];
    const struct ir_node *node = b->func && b->value ? &b->func->nodes[b->value] : NULL;
    int32_t n = 0;
    if (b->data) memcpy(&n, b->data, sizeof n);
    else if (node && node->op == OP_constant && node->data) memcpy(&n, node->data, sizeof n);
    return n > 0 ? n : 0;
}

/* Times that each command runs in one call. */
static double *repeats(struct report *r)
{
    const struct plan *p = r->plan;
    double *out = arena_new_array(&r->scratch, double, p->commands.count + 1), now = 1;
    VEC(double) outer = {0};
    for (size_t i = 0; i < p->commands.count; i++) {
        const struct plan_command *c = &p->commands.items[i];
        if (c->kind == PLAN_LOOP_END && outer.count) now = outer.items[--outer.count];
        out[i] = now;
        if (c->kind != PLAN_LOOP_BEGIN) continue;
        vec_push(&r->scratch, &outer, now);
        now *= trips(p, c) > 0 ? trips(p, c) : 1;
    }
    return out;
}

/* What is not there is zero in the brief form. */
static void add_class(struct report *r, const char *key, uint64_t bytes)
{
    if (bytes || !r->brief) add_bytes(r, ",", key, bytes);
}

static void add_memory(struct report *r, const struct plan *p)
{
    const struct plan_memory *m = &p->memory;
    add_bytes(r, ",\"memory\":{", "peak", m->peak);
    add_bytes(r, ",", "lower_bound", m->lower_bound);
    add_bytes(r, ",", "arena", p->arena_bytes);
    if (p->arena_lower_bound != p->arena_bytes || !r->brief)
        add_bytes(r, ",", "arena_lower_bound", p->arena_lower_bound);
    add_bytes(r, ",", "parameters", m->parameters);
    add_class(r, "averages", m->averages);
    add_class(r, "optimizer_state", m->optimizer_state);
    add_class(r, "other_state", m->other_state);
    add_class(r, "gradients", m->gradients);
    add_class(r, "activations", m->activations);
    add_class(r, "workspace", m->workspace);
    add_class(r, "constants", m->constants);
    str_add(r->out, "}");
}

static bool alive(const struct plan_buffer *b, size_t command)
{
    return b->space == PLAN_ARENA && b->bytes && b->first <= command && command <= b->last;
}

/* What a buffer holds first: the op of its value, or what a loop carries and stacks. */
static const char *origin(const struct plan_buffer *b)
{
    const struct ir_node *node = &b->func->nodes[b->value];
    if (node->op != OP_param || b->func->entry) return ir_ops[node->op].name;
    uint32_t result = (uint32_t)node->attr[0].v[0] - 1; /* parameter 0 is the counter */
    if (result >= b->func->results.count) return ir_ops[node->op].name;
    return plan_is_window(b->func, b->func->results.items[result].value) ? "rows of a loop" : "carried by a loop";
}

/* alive_columns: bytes, type, op, place */
static void add_alive_brief(struct report *r, const char *before, const struct plan_buffer *b)
{
    const struct ir_node *node = b->func && b->value ? &b->func->nodes[b->value] : NULL;
    str_addf(r->out, "%s[%llu", before, (unsigned long long)b->bytes);
    add_shared(r, node ? ir_type_text(&r->kept, &node->type) : NULL);
    add_shared(r, node ? origin(b) : NULL);
    add_shared(r, node ? place_of_value(b->func, b->value) : NULL);
    str_add(r->out, "]");
}

/* The command with the most temporaries alive, and the largest of them. */
static void add_peak(struct report *r)
{
    const struct plan *p = r->plan;
    uint64_t *sums = arena_new_array(&r->scratch, uint64_t, p->commands.count + 2);
    for (size_t i = 0; i < p->buffers.count; i++) { /* differences first, then their running sum */
        const struct plan_buffer *b = &p->buffers.items[i];
        if (b->space != PLAN_ARENA || !b->bytes || b->first > b->last || b->last >= p->commands.count) continue;
        sums[b->first] += b->bytes;
        sums[b->last + 1] -= b->bytes;
    }
    size_t peak = 0;
    for (size_t i = 1; i < p->commands.count; i++) {
        sums[i] += sums[i - 1];
        if (sums[i] > sums[peak]) peak = i;
    }
    if (!p->commands.count) return;
    const struct plan_command *c = &p->commands.items[peak];
    const char *place = NULL;
    if (c->kind == PLAN_KERNEL) {
        const struct plan_group *g = &p->groups.items[c->group];
        if (g->outputs.count) place = place_of_value(g->func, g->outputs.items[0]);
    }
    str_addf(r->out, ",\"peak\":{\"command\":%zu,\"bytes\":%llu", peak, (unsigned long long)sums[peak]);
    if (place) add_text(r, ",", "place", place);
    str_add(r->out, ",\"alive\":[");
    bool *taken = arena_new_array(&r->scratch, bool, p->buffers.count + 1);
    for (uint32_t n = 0; n < ALIVE_LISTED; n++) {
        const struct plan_buffer *best = NULL;
        for (size_t i = 0; i < p->buffers.count; i++) {
            const struct plan_buffer *b = &p->buffers.items[i];
            if (alive(b, peak) && !taken[i] && (!best || b->bytes > best->bytes)) best = b;
        }
        if (!best || (r->brief && best->bytes * 100 < sums[peak])) break; /* what does not matter is left out there */
        taken[best - p->buffers.items] = true;
        if (r->brief) {
            add_alive_brief(r, n ? "," : "", best);
            continue;
        }
        add_bytes(r, n ? ",{" : "{", "bytes", best->bytes);
        if (best->func && best->value) {
            add_type(r, &best->func->nodes[best->value].type);
            add_text(r, ",", "op", origin(best));
            add_text(r, ",", "place", place_of_value(best->func, best->value));
        }
        str_add(r->out, "}");
    }
    str_add(r->out, "]}");
}

static const char *const kinds[] = {"map", "row", "column", "dot", "scatter", "copy"};

static const char *place_of_group(const struct plan_group *g)
{
    ir_value at = g->root ? g->root : g->outputs.count ? g->outputs.items[0] : 0;
    return at ? place_of_value(g->func, at) : NULL;
}

/* group_columns: command, kind, ops, count, outputs, place, reason, flops, bytes, times; several names with "+" or
 * blanks between them */
static void add_kernel_brief(struct report *r, const char *before, size_t command, const struct plan_command *c,
                             double times)
{
    const struct plan_group *g = &r->plan->groups.items[c->group];
    struct str ops = STR(&r->kept), outputs = STR(&r->kept);
    size_t listed = g->nodes.count > OPS_BRIEF + 1 ? OPS_BRIEF : g->nodes.count;
    for (size_t i = 0; i < listed; i++)
        str_addf(&ops, "%s%s", i ? "+" : "", ir_ops[g->func->nodes[g->nodes.items[i]].op].name);
    if (g->nodes.count > listed) str_addf(&ops, "+%zu more", g->nodes.count - listed);
    for (size_t i = 0; i < g->outputs.count; i++)
        str_addf(&outputs, "%s%s", i ? " " : "", ir_type_text(&r->scratch, &g->func->nodes[g->outputs.items[i]].type));
    str_addf(r->out, "%s[%zu", before, command);
    add_shared(r, kinds[g->kind]);
    add_shared(r, str_text(&ops));
    str_addf(r->out, ",%zu", g->nodes.count);
    add_shared(r, str_text(&outputs));
    add_shared(r, place_of_group(g));
    add_shared(r, g->reason);
    str_add(r->out, ",");
    str_add_number(r->out, c->flops, false);
    str_addf(r->out, ",%llu,", (unsigned long long)c->bytes);
    str_add_number(r->out, times, false);
    str_add(r->out, "]");
}

static void add_kernel(struct report *r, const struct plan_group *g)
{
    add_text(r, ",", "kind", kinds[g->kind]);
    str_add(r->out, ",\"ops\":[");
    for (size_t i = 0; i < g->nodes.count && i < OPS_LISTED; i++) {
        if (i) str_add(r->out, ",");
        str_add_json(r->out, ir_ops[g->func->nodes[g->nodes.items[i]].op].name);
    }
    str_addf(r->out, "],\"count\":%zu,\"outputs\":[", g->nodes.count);
    for (size_t i = 0; i < g->outputs.count; i++) {
        if (i) str_add(r->out, ",");
        str_add_json(r->out, ir_type_text(&r->scratch, &g->func->nodes[g->outputs.items[i]].type));
    }
    str_add(r->out, "]");
    add_text(r, ",", "place", place_of_group(g));
    if (g->reason) add_text(r, ",", "reason", g->reason);
}

static void add_collective(struct report *r, const struct plan_command *c)
{
    const struct ir_node *node = &c->func->nodes[c->node];
    const struct ir_mesh *mesh = &r->pm->module->mesh;
    add_text(r, ",", "kind", ir_ops[node->op].name);
    add_type(r, &node->type);
    str_add(r->out, ",\"axes\":[");
    const char *comma = "";
    int64_t mask = node->attr[0].n ? node->attr[0].v[0] : 0;
    for (uint32_t axis = 0; axis < mesh->axis_count; axis++) {
        if (!(mask >> axis & 1)) continue;
        str_add(r->out, comma);
        str_add_json(r->out, mesh->name[axis]);
        comma = ",";
    }
    str_add(r->out, "]");
    add_text(r, ",", "place", place_of(c->func->module, node->place));
}

/* Operations and bytes of one call. */
static void add_totals(struct report *r, const struct plan *p, const double *times)
{
    double flops = 0, bytes = 0;
    for (size_t i = 0; i < p->commands.count; i++) {
        flops += p->commands.items[i].flops * times[i];
        bytes += (double)p->commands.items[i].bytes * times[i];
    }
    add_number(r, ",", "flops", flops);
    add_number(r, ",", "bytes", bytes);
}

static bool is_step(const struct plan *p) { return strcmp(p->func->name, "step") == 0; }

/* What the update moves through memory beside one pass over the state. */
static void add_update(struct report *r, const struct plan *p, const double *times)
{
    struct report_update u;
    if (!is_step(p) || !ir_report_update(p, times, &r->scratch, &u)) return;
    add_bytes(r, ",\"update\":{", "parameters", u.parameters);
    add_bytes(r, ",", "kernels", u.kernels);
    add_bytes(r, ",", "bytes", u.bytes);
    add_bytes(r, ",", "least", u.least);
    if (!r->brief) add_number(r, ",", "bytes_per_parameter", (double)u.bytes / (double)u.parameters);
    if (!r->brief) add_number(r, ",", "least_per_parameter", (double)u.least / (double)u.parameters);
    str_add(r->out, "}");
}

static void add_entry(struct report *r, const struct plan *p)
{
    r->plan = p;
    const double *times = repeats(r);
    size_t kernels = 0;
    for (size_t i = 0; i < p->commands.count; i++) kernels += p->commands.items[i].kind == PLAN_KERNEL;
    add_text(r, "{", "name", p->func->name);
    str_addf(r->out, ",\"kernels\":%zu", kernels);
    add_totals(r, p, times);
    add_update(r, p, times);
    if (r->brief && !is_step(p)) {
        if (p->arena_bytes) add_bytes(r, ",", "arena", p->arena_bytes);
        str_add(r->out, "}");
        arena_free(&r->scratch);
        return;
    }
    add_memory(r, p);
    add_peak(r);
    for (int comm = 0; comm < 2; comm++) {
        const char *before = "";
        size_t collectives = 0;
        for (size_t i = 0; comm && i < p->commands.count; i++)
            collectives += p->commands.items[i].kind == PLAN_COLLECTIVE;
        if (comm && r->brief && !collectives) continue;
        str_add(r->out, comm ? ",\"collectives\":[" : ",\"groups\":[");
        for (size_t i = 0; i < p->commands.count; i++) {
            const struct plan_command *c = &p->commands.items[i];
            if (c->kind != (comm ? PLAN_COLLECTIVE : PLAN_KERNEL)) continue;
            if (!comm && r->brief) {
                add_kernel_brief(r, before, i, c, times[i]);
                before = ",";
                continue;
            }
            str_addf(r->out, "%s{\"command\":%zu", before, i);
            if (comm) add_collective(r, c);
            else add_kernel(r, &p->groups.items[c->group]);
            add_number(r, ",", "flops", c->flops);
            add_bytes(r, ",", "bytes", c->bytes);
            add_number(r, ",", "times", times[i]);
            str_add(r->out, "}");
            before = ",";
        }
        str_add(r->out, "]");
    }
    str_add(r->out, "}");
    arena_free(&r->scratch);
}

/* What matters most stands at the top too: the totals of a step. */
static void add_step(struct report *r)
{
    for (size_t i = 0; i < r->pm->plans.count; i++) {
        const struct plan *p = r->pm->plans.items[i];
        if (!is_step(p)) continue;
        r->plan = p;
        add_totals(r, p, repeats(r));
        if (!r->brief) add_memory(r, p); /* there it stands in the entry */
    }
}

void ir_report(const struct plan_module *pm, const char *more, struct str *out)
{
    struct report r = {.out = out, .pm = pm, .brief = more != NULL};
    r.known = MAP(&r.kept);
    const struct ir_module *m = pm->module;
    uint64_t parameters = 0, tensors = 0;
    for (size_t i = 0; i < m->slots.count; i++) {
        const struct ir_slot *s = &m->slots.items[i];
        if (s->role != IR_ROLE_PARAM) continue;
        tensors++;
        parameters += (uint64_t)ir_type_elements(&s->type);
    }
    str_add(out, "{\"schema\":1,\"stepc\":");
    str_add_json(out, STEPC_VERSION);
    str_add(out, ",\"language\":1");
    add_text(&r, ",", "name", m->name);
    if (more && *more) str_addf(out, ",%s", more);
    str_addf(out, ",\"hash\":\"%016llx\"", (unsigned long long)ir_hash_module(m));
    add_mesh(&r);
    add_bytes(&r, ",", "parameters", parameters);
    add_bytes(&r, ",", "parameter_tensors", tensors);
    add_step(&r);
    add_bytes(&r, ",", "state_bytes", pm->state_bytes);
    add_bytes(&r, ",", "result_bytes", pm->result_bytes);
    if (pm->constant_bytes || !r.brief) add_bytes(&r, ",", "constant_bytes", pm->constant_bytes);
    add_slots(&r);
    str_add(out, ",\"entries\":[");
    for (size_t i = 0; i < pm->plans.count; i++) {
        if (i) str_add(out, ",");
        add_entry(&r, pm->plans.items[i]);
    }
    str_add(out, "]");
    for (size_t i = 0; i < r.texts.count; i++) {
        str_add(out, i ? "," : ",\"texts\":[");
        str_add_json(out, r.texts.items[i]);
    }
    str_add(out, r.texts.count ? "],\"document\":" : ",\"document\":");
    str_add(out, m->document && *m->document == '{' ? m->document : "null");
    str_add(out, "}");
    arena_free(&r.scratch);
    arena_free(&r.kept);
}
