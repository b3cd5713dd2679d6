/* The report on a plan as JSON: tensors, memory, operations, fused groups, collectives, each with its place in the
 * document. It is the manifest of an object, and what `stepc explain` shows. Keys are stable; sizes are bytes of one
 * device; places are JSON pointers.
 *
 * An object carries a brief form: the step's memory and groups only, nothing small or that follows from the rest, a
 * group or a tensor alive at the peak as a list of values in the order of `group_columns` and `alive_columns`, their
 * texts and all places as indices into the list "texts". */
#include "ir/base/json_tree.h"
#include "ir/base/map.h"
#include "ir/report.h"
#include "ir/text.h"

#include <math.h>
#include <string.h>

enum { ALIVE_LISTED = 12, OPS_BRIEF = 12 };

struct report {
    struct json_tree out; /* the object or list that is being filled, unless a function gets its own */
    const struct plan_module *pm;
    const struct plan *plan;
    struct arena scratch; /* of one entry */
    struct arena *kept;   /* of the whole report */
    bool brief;
    struct map known; /* text -> index in texts */
    VEC(const char *) texts;
};

/* ---------------------------------------------------------------- pieces */

static uint32_t shared(struct report *r, const char *text)
{
    uint32_t index = map_get(&r->known, text);
    if (index != MAP_NONE) return index;
    map_set(&r->known, text, (uint32_t)r->texts.count);
    vec_push(r->kept, &r->texts, text);
    return (uint32_t)r->texts.count - 1;
}

/* In the brief form an index into "texts", -1 for none. */
static void add_text(struct report *r, struct json_tree to, const char *key, const char *text)
{
    if (!r->brief) json_add_text(to, key, text);
    else json_add_integer(to, key, text ? (int64_t)shared(r, text) : -1);
}

/* In the brief form one text. `listed` of them are shown. */
static void add_names(struct report *r, struct json_tree to, const char *key, const char *const *names, size_t count,
                      size_t listed, const char *separator)
{
    struct str text = STR(r->kept);
    struct json_tree list = json_array(r->kept);
    for (size_t i = 0; i < listed; i++) {
        str_addf(&text, "%s%s", i ? separator : "", names[i]);
        json_add_text(list, NULL, names[i]);
    }
    if (count > listed) str_addf(&text, "+%zu more", count - listed);
    if (r->brief) add_text(r, to, key, str_text(&text));
    else json_add(to, key, list);
}

/* What stands in a list: an object, in the brief form a list of its values. */
static struct json_tree add_row(const struct report *r, struct json_tree list)
{
    return r->brief ? json_add_array(list, NULL) : json_add_object(list, NULL);
}

static void add_bytes(struct json_tree to, const char *key, uint64_t bytes)
{
    json_add_integer(to, key, (int64_t)bytes);
}

static void add_number(struct json_tree to, const char *key, double x) { json_add_number(to, key, x, false); }

static const char *place_of(const struct ir_module *m, uint32_t place)
{
    return place && place < m->places.count ? m->places.items[place].pointer : NULL;
}

static const char *place_of_value(const struct ir_func *f, ir_value v)
{
    return place_of(f->module, f->nodes[v].place);
}

static void add_type(struct json_tree to, const struct ir_type *type)
{
    json_add_text(to, "dtype", ir_dtype_name((enum ir_dtype)type->dtype));
    struct json_tree shape = json_add_array(to, "shape");
    for (uint32_t d = 0; d < type->rank; d++) json_add_integer(shape, NULL, type->dim[d]);
}

/* Mesh axes of each dimension, outermost first. */
static void add_sharding(struct report *r, struct json_tree to, const struct ir_type *type,
                         const struct ir_sharding *sharding)
{
    const struct ir_mesh *mesh = &r->pm->module->mesh;
    struct json_tree dimensions = json_add_array(to, "sharding");
    for (uint32_t d = 0; d < type->rank; d++) {
        struct json_tree several = json_add_array(dimensions, NULL);
        for (uint32_t axes = sharding->dim[d]; axes; axes >>= 4) {
            uint32_t axis = (axes & 15) - 1;
            json_add_text(several, NULL, axis < mesh->axis_count ? mesh->name[axis] : "?");
        }
    }
}

static void add_layouts(struct report *r)
{
    static const char *const from[] = {"default",  "document", "parameter", "constraint",
                                       "operands", "readers",  "traffic"};
    const struct ir_module *m = r->pm->module;
    if (r->brief || !m->layouts.count) return;
    struct json_tree list = json_add_array(r->out, "layouts");
    for (size_t i = 0; i < m->layouts.count; i++) {
        const struct ir_layout *l = &m->layouts.items[i];
        struct json_tree t = json_add_object(list, NULL);
        json_add_text(t, "op", ir_ops[l->op].name);
        add_type(t, &l->type);
        add_sharding(r, t, &l->type, &l->sharding);
        json_add_text(t, "from", from[l->from]);
        json_add_integer(t, "count", l->count);
        json_add_text(t, "place", place_of(m, l->place));
    }
}

static void add_chunks(struct report *r)
{
    const struct ir_module *m = r->pm->module;
    struct json_tree list = m->chunks.count ? json_add_array(r->out, "chunks") : r->out;
    for (size_t i = 0; i < m->chunks.count; i++) {
        const struct ir_chunks *c = &m->chunks.items[i];
        struct json_tree t = json_add_object(list, NULL);
        add_type(t, &c->type);
        json_add_integer(t, "rows", c->rows);
        if (c->size) json_add_integer(t, "chunk", c->size);
        if (c->why) json_add_text(t, "why", c->why);
        json_add_text(t, "place", place_of(m, c->why ? c->blamed : c->place));
    }
}

static void add_again(struct report *r)
{
    const struct ir_again *again = &r->pm->module->again;
    if (r->pm->module->together) json_add_integer(r->out, "together", r->pm->module->together);
    if (!again->any) return;
    struct json_tree t = json_add_object(r->out, "again");
    json_add_integer(t, "level", again->level);
    json_add_integer(t, "blocks", again->blocks);
}

/* ---------------------------------------------------------------- the module */

/* The blocks of the model, in the order in which they are computed. */
static struct json_tree layers_of(struct arena *arena, const struct ir_module *m)
{
    struct json_tree list = json_array(arena);
    for (size_t i = 0; i < m->layers.count; i++) {
        const struct ir_layer *l = &m->layers.items[i];
        struct json_tree t = json_add_object(list, NULL);
        json_add_text(t, "path", l->path);
        json_add_text(t, "type", l->type);
        json_add_integer(t, "parent", (int64_t)l->parent - 1);
        if (l->outputs) add_type(t, &l->output);
        json_add_integer(t, "outputs", l->outputs);
        struct json_tree from = json_add_array(t, "from");
        for (size_t k = 0; k < l->from.count; k++) {
            int32_t source = l->from.items[k];
            if (source < 0) json_add_text(from, NULL, m->slots.items[~source].name);
            else json_add_integer(from, NULL, source);
        }
        if (l->more) json_add_bool(t, "more", true);
        json_add_text(t, "place", place_of(m, l->place));
    }
    return list;
}

const char *ir_report_layers(const struct ir_module *m, struct arena *arena) { return json_print(layers_of(arena, m)); }

static void add_slots(struct report *r)
{
    const struct ir_module *m = r->pm->module;
    struct json_tree tensors = json_add_array(r->out, "tensors");
    for (size_t i = 0; i < m->slots.count; i++) {
        const struct ir_slot *s = &m->slots.items[i];
        struct json_tree t = json_add_object(tensors, NULL);
        json_add_text(t, "name", s->name);
        json_add_text(t, "role", ir_role_name(s->role));
        add_type(t, &s->type);
        if (m->mesh.axis_count) add_sharding(r, t, &s->type, &s->sharding);
        if (s->frozen) json_add_bool(t, "frozen", true);
        if (s->computed) json_add_bool(t, "computed", true);
        int64_t width = s->index_limit ? s->index_limit - (int64_t)s->initial : 0;
        if (width > 0 && width <= INT32_MAX) {
            struct json_tree range = json_add_array(t, "range");
            json_add_integer(range, NULL, (int64_t)s->initial);
            json_add_integer(range, NULL, s->index_limit);
        }
        if (s->role == IR_ROLE_HYPER && isnan(s->initial)) json_add_text(t, "initial", NULL); /* a schedule holds */
        else if (s->role == IR_ROLE_HYPER) add_number(t, "initial", s->initial);
        const char *place = r->brief && s->role == IR_ROLE_OPT_STATE
                                ? NULL
                                : place_of(m, s->place); /* it is the optimizer's */
        if (place) add_text(r, t, "place", place);
    }
}

static void add_mesh(struct report *r)
{
    const struct ir_mesh *mesh = &r->pm->module->mesh;
    int64_t devices = 1;
    struct json_tree axes = json_add_object(r->out, "mesh");
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        json_add_integer(axes, mesh->name[i], mesh->size[i]);
        devices *= mesh->size[i];
    }
    json_add_integer(r->out, "devices", devices);
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
static void add_memory(const struct report *r, struct json_tree to, const struct plan *p)
{
    const struct plan_memory *m = &p->memory;
    const struct {
        const char *key;
        uint64_t bytes;
    } classes[] = {{"averages", m->averages},       {"optimizer_state", m->optimizer_state},
                   {"other_state", m->other_state}, {"gradients", m->gradients},
                   {"activations", m->activations}, {"workspace", m->workspace},
                   {"constants", m->constants}};
    struct json_tree memory = json_add_object(to, "memory");
    add_bytes(memory, "peak", m->peak);
    add_bytes(memory, "lower_bound", m->lower_bound);
    add_bytes(memory, "arena", p->arena_bytes);
    if (p->arena_lower_bound != p->arena_bytes || !r->brief)
        add_bytes(memory, "arena_lower_bound", p->arena_lower_bound);
    add_bytes(memory, "parameters", m->parameters);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i].bytes || !r->brief) add_bytes(memory, classes[i].key, classes[i].bytes);
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
    return b->windows ? "rows of a loop" : "carried by a loop";
}

static void add_alive(struct report *r, struct json_tree list, const struct plan_buffer *b)
{
    const struct ir_node *node = b->func && b->value ? &b->func->nodes[b->value] : NULL;
    const char *place = node ? place_of_value(b->func, b->value) : NULL;
    struct json_tree t = add_row(r, list); /* alive_columns: bytes, type, op, place */
    add_bytes(t, "bytes", b->bytes);
    if (!node && !r->brief) return;
    if (r->brief) add_text(r, t, "type", node ? ir_type_text(r->kept, &node->type) : NULL);
    else add_type(t, &node->type);
    add_text(r, t, "op", node ? origin(b) : NULL);
    add_text(r, t, "place", place);
}

/* The command with the most temporaries alive, and the largest of them. */
static void add_peak(struct report *r, struct json_tree to)
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
    struct json_tree out = json_add_object(to, "peak");
    json_add_integer(out, "command", (int64_t)peak);
    add_bytes(out, "bytes", sums[peak]);
    if (place) json_add_text(out, "place", place);
    struct json_tree list = json_add_array(out, "alive");
    bool *taken = arena_new_array(&r->scratch, bool, p->buffers.count + 1);
    for (uint32_t n = 0; n < ALIVE_LISTED; n++) {
        const struct plan_buffer *best = NULL;
        for (size_t i = 0; i < p->buffers.count; i++) {
            const struct plan_buffer *b = &p->buffers.items[i];
            if (alive(b, peak) && !taken[i] && (!best || b->bytes > best->bytes)) best = b;
        }
        if (!best || (r->brief && best->bytes * 100 < sums[peak])) break; /* what does not matter is left out there */
        taken[best - p->buffers.items] = true;
        add_alive(r, list, best);
    }
}

/* Where every temporary lies and when: what `explain --html` draws. */
static void add_buffers(struct report *r, struct json_tree to, const struct plan *p)
{
    struct json_tree list = json_add_array(to, "buffers");
    for (size_t i = 0; i < p->buffers.count; i++) {
        const struct plan_buffer *b = &p->buffers.items[i];
        if (b->space != PLAN_ARENA || !b->bytes || b->first > b->last) continue;
        const struct ir_node *node = b->func && b->value ? &b->func->nodes[b->value] : NULL;
        struct json_tree t = json_add_object(list, NULL);
        add_bytes(t, "offset", b->offset);
        add_bytes(t, "bytes", b->bytes);
        json_add_integer(t, "first", (int64_t)b->first);
        json_add_integer(t, "last", (int64_t)b->last);
        if (!node) continue; /* workspace of a kernel */
        json_add_text(t, "type", ir_type_text(r->kept, &node->type));
        json_add_text(t, "op", origin(b));
        json_add_text(t, "place", place_of_value(b->func, b->value));
    }
}

static const char *place_of_group(const struct plan_group *g)
{
    ir_value at = g->root ? g->root : g->outputs.count ? g->outputs.items[0] : 0;
    return at ? place_of_value(g->func, at) : NULL;
}

/* Of group_columns those from kind to reason; several names with "+" or blanks between them. */
static void add_kernel(struct report *r, struct json_tree t, const struct plan_group *g)
{
    size_t count = g->nodes.count, listed = count;
    const char **names = arena_new_array(&r->scratch, const char *, count + g->outputs.count + 1);
    for (size_t i = 0; i < count; i++) names[i] = ir_ops[g->func->nodes[g->nodes.items[i]].op].name;
    for (size_t i = 0; i < g->outputs.count; i++)
        names[count + i] = ir_type_text(&r->scratch, &g->func->nodes[g->outputs.items[i]].type);
    if (r->brief) listed = count > OPS_BRIEF + 1 ? OPS_BRIEF : count;
    add_text(r, t, "kind", plan_group_names[g->kind]);
    add_names(r, t, "ops", names, count, listed, "+");
    json_add_integer(t, "count", (int64_t)count);
    add_names(r, t, "outputs", names + count, g->outputs.count, g->outputs.count, " ");
    add_text(r, t, "place", place_of_group(g));
    if (g->reason || r->brief) add_text(r, t, "reason", g->reason);
}

/* `payload`: bytes of the value that the group sums, puts together or hands out; `ring`: what each device sends in a
 * ring, which is the least that any algorithm sends: (k - 1) / k of the payload, twice for an all-reduce, all of it for
 * a permute. */
static void add_collective(const struct report *r, struct json_tree t, const struct plan_command *c, ir_value v)
{
    const struct ir_node *node = &c->func->nodes[v];
    const struct ir_mesh *mesh = &r->pm->module->mesh;
    const struct ir_type *from = ir_type(c->func, node->args[0]);
    int64_t devices = ir_axes_size(mesh, ir_axes_of_mask((uint32_t)node->attr[0].v[0]));
    const struct ir_type *whole = node->op == OP_all_gather ? &node->type : from;
    uint64_t payload = (uint64_t)ir_type_elements(whole) * ir_dtype_bytes(whole->dtype);
    double ring = (double)payload * (double)(devices - 1) / (double)devices;
    json_add_text(t, "kind", ir_ops[node->op].name);
    add_type(t, &node->type);
    struct json_tree axes = json_add_array(t, "axes");
    int64_t mask = node->attr[0].n ? node->attr[0].v[0] : 0;
    for (uint32_t axis = 0; axis < mesh->axis_count; axis++)
        if (mask >> axis & 1) json_add_text(axes, NULL, mesh->name[axis]);
    add_bytes(t, "payload", payload);
    if (node->op == OP_permute) ring = (double)payload;
    add_number(t, "ring", node->op == OP_all_reduce ? 2 * ring : ring);
    json_add_text(t, "place", place_of(c->func->module, node->place));
}

/* Operations and bytes of one call. */
static void sum_up(const struct plan *p, const double *times, double *flops, double *bytes)
{
    *flops = *bytes = 0;
    for (size_t i = 0; i < p->commands.count; i++) {
        *flops += p->commands.items[i].flops * times[i];
        *bytes += (double)p->commands.items[i].bytes * times[i];
    }
}

static void add_totals(struct json_tree to, const struct plan *p, const double *times)
{
    double flops, bytes;
    sum_up(p, times, &flops, &bytes);
    add_number(to, "flops", flops);
    add_number(to, "bytes", bytes);
}

static bool is_step(const struct plan *p) { return strcmp(p->func->name, "step") == 0; }

/* What the update moves through memory beside one pass over the state. */
static void add_update(struct report *r, struct json_tree to, const struct plan *p, const double *times)
{
    struct report_update u;
    if (!is_step(p) || !ir_report_update(p, times, &r->scratch, &u)) return;
    struct json_tree t = json_add_object(to, "update");
    add_bytes(t, "parameters", u.parameters);
    add_bytes(t, "kernels", u.kernels);
    add_bytes(t, "bytes", u.bytes);
    add_bytes(t, "least", u.least);
    if (r->brief) return;
    add_number(t, "bytes_per_parameter", (double)u.bytes / (double)u.parameters);
    add_number(t, "least_per_parameter", (double)u.least / (double)u.parameters);
}

/* The kernels of an entry or its collectives. */
static void add_commands(struct report *r, struct json_tree list, const struct plan *p, bool comm, const double *times)
{
    for (size_t i = 0; i < p->commands.count; i++) {
        const struct plan_command *c = &p->commands.items[i];
        if (c->kind != (comm ? PLAN_COLLECTIVE : PLAN_KERNEL)) continue;
        for (size_t k = 0; k < plan_joined(c); k++) { /* a row for each that is joined */
            struct json_tree t = comm ? json_add_object(list, NULL) : add_row(r, list);
            json_add_integer(t, "command", (int64_t)i); /* group_columns: command, .., flops, bytes, times */
            if (plan_starts(c)) json_add_integer(t, "until", (int64_t)c->other);
            if (comm) add_collective(r, t, c, plan_joined_node(c, k));
            else add_kernel(r, t, &p->groups.items[c->group]);
            add_number(t, "flops", c->flops);
            add_bytes(t, "bytes",
                      comm ? p->buffers.items[c->reads.items[k]].bytes + p->buffers.items[c->writes.items[k]].bytes
                           : c->bytes);
            add_number(t, "times", times[i]);
        }
    }
}

static void add_entry(struct report *r, struct json_tree e, const struct plan *p)
{
    r->plan = p;
    const double *times = repeats(r);
    size_t kernels = 0, collectives = 0;
    for (size_t i = 0; i < p->commands.count; i++) {
        kernels += p->commands.items[i].kind == PLAN_KERNEL;
        collectives += p->commands.items[i].kind == PLAN_COLLECTIVE;
    }
    json_add_text(e, "name", p->func->name);
    json_add_integer(e, "kernels", (int64_t)kernels);
    add_totals(e, p, times);
    add_update(r, e, p, times);
    if (r->brief && !is_step(p)) {
        if (p->arena_bytes) add_bytes(e, "arena", p->arena_bytes);
    } else {
        add_memory(r, e, p);
        add_peak(r, e);
        add_commands(r, json_add_array(e, "groups"), p, false, times);
        if (!r->brief && is_step(p)) add_buffers(r, e, p);
        if (!r->brief || collectives) add_commands(r, json_add_array(e, "collectives"), p, true, times);
    }
    arena_free(&r->scratch);
}

/* What matters most stands at the top too: the totals of a step. */
static void add_step(struct report *r)
{
    for (size_t i = 0; i < r->pm->plans.count; i++) {
        const struct plan *p = r->pm->plans.items[i];
        if (!is_step(p)) continue;
        r->plan = p;
        add_totals(r->out, p, repeats(r));
        if (!r->brief) add_memory(r, r->out, p); /* there it stands in the entry */
    }
}

static uint64_t count_parameters(const struct ir_module *m, uint64_t *tensors)
{
    uint64_t parameters = 0;
    for (size_t i = 0; i < m->slots.count; i++) {
        const struct ir_slot *s = &m->slots.items[i];
        if (s->role != IR_ROLE_PARAM) continue;
        ++*tensors;
        parameters += (uint64_t)ir_type_elements(&s->type);
    }
    return parameters;
}

/* The state, and the temporaries of the entry that needs most: there is one block of them. */
struct report_totals ir_report_totals(const struct plan_module *pm)
{
    uint64_t rest = 0, arena = 0, tensors = 0;
    double bytes;
    struct report r = {.pm = pm};
    struct report_totals t = {.parameters = count_parameters(pm->module, &tensors)};
    for (size_t i = 0; i < pm->plans.count; i++) {
        const struct plan *p = r.plan = pm->plans.items[i];
        if (p->memory.peak - p->arena_bytes > rest) rest = p->memory.peak - p->arena_bytes;
        if (p->arena_bytes > arena) arena = p->arena_bytes;
        if (is_step(p)) sum_up(p, repeats(&r), &t.flops, &bytes);
    }
    t.peak = rest + arena;
    arena_free(&r.scratch);
    return t;
}

const char *ir_report(const struct plan_module *pm, struct arena *arena, void (*more)(void *, struct json_tree),
                      void *user)
{
    struct report r = {.out = json_object(arena), .pm = pm, .kept = arena, .brief = more != NULL};
    r.known = MAP(arena);
    const struct ir_module *m = pm->module;
    uint64_t tensors = 0, parameters = count_parameters(m, &tensors);
    json_add_integer(r.out, "schema", 1);
    json_add_text(r.out, "stepc", STEPC_VERSION);
    json_add_integer(r.out, "language", 1);
    json_add_text(r.out, "name", m->name);
    if (more) more(user, r.out);
    json_add_text(r.out, "hash", arena_format(arena, "%016llx", (unsigned long long)ir_hash_module(m)));
    add_mesh(&r);
    add_bytes(r.out, "parameters", parameters);
    add_bytes(r.out, "parameter_tensors", tensors);
    add_step(&r);
    add_bytes(r.out, "state_bytes", pm->state_bytes);
    add_bytes(r.out, "result_bytes", pm->result_bytes);
    if (pm->constant_bytes || !r.brief) add_bytes(r.out, "constant_bytes", pm->constant_bytes);
    add_slots(&r);
    add_layouts(&r);
    add_chunks(&r);
    add_again(&r);
    if (!r.brief) json_add(r.out, "layers", layers_of(arena, m));
    struct json_tree entries = json_add_array(r.out, "entries");
    for (size_t i = 0; i < pm->plans.count; i++) add_entry(&r, json_add_object(entries, NULL), pm->plans.items[i]);
    if (r.texts.count) {
        struct json_tree texts = json_add_array(r.out, "texts");
        for (size_t i = 0; i < r.texts.count; i++) json_add_text(texts, NULL, r.texts.items[i]);
    }
    json_add(r.out, "document", json_raw(arena, m->document && *m->document == '{' ? m->document : "null"));
    arena_free(&r.scratch);
    return json_print(r.out);
}
