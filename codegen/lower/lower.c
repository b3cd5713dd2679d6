/* Groups to nests: sets up the domain of a group, calls the template of its kind, and starts over when a position
 * asked for an axis to be split (lower.h). */
#include "codegen/lower/lower.h"
#include <string.h>

struct context {
    const struct plan_module *module;
    const struct plan *plan;
    const struct cg_target *target;
    struct arena *arena;
    /* by value of `f`; every group leaves them cleared, because a function has many groups and many more values */
    const struct ir_func *f;
    bool *member;
    struct lower_override *from;
    struct lower_reduced *reduced;
    uint32_t *argument;
    bool **checked; /* by group */
    struct cg_sites *sites;
    uint32_t *first, *alike; /* by group, with sites: the first member of its command, how many there are */
    size_t *starts;          /* and where the sites of that one begin */
};

/* ---------------------------------------------------------------- what must be finite */

/* Floats that a step writes into its next state. Single numbers of optimizers may be infinite (the best loss before
 * there is one); the runtime looks at these itself. */
static bool must_be_finite(const struct plan *plan, const struct plan_buffer *b)
{
    const struct ir_type *type = ir_type(b->func, b->value);
    if (b->space != PLAN_NEXT || !ir_dtype_is_float((enum ir_dtype)type->dtype)) return false;
    enum ir_role role = plan->func->module->slots.items[b->slot].role;
    return role == IR_ROLE_PARAM || role == IR_ROLE_EMA || type->rank;
}

/* Parts of the arena that other devices gather into the next state. */
struct gathered_part {
    uint64_t from, end;
};
struct gathered {
    VEC(struct gathered_part) parts;
};

/* Whether the buffer holds some of them. What it takes away another value had before, as seen backwards. */
static bool take_gathered(struct gathered *g, struct arena *arena, const struct plan_buffer *b)
{
    bool found = false;
    if (b->space != PLAN_ARENA) return false;
    for (size_t i = g->parts.count; i-- > 0;) {
        struct gathered_part *part = &g->parts.items[i], was = *part;
        if (was.end <= b->offset || b->offset + b->bytes <= was.from) continue;
        found = true;
        *part = g->parts.items[--g->parts.count];
        struct gathered_part before = {was.from, b->offset}, after = {b->offset + b->bytes, was.end};
        if (before.from < before.end) vec_push(arena, &g->parts, before);
        if (after.from < after.end) vec_push(arena, &g->parts, after);
    }
    return found;
}

/* Per group its outputs that go there, at once or gathered from other devices. Members of a command have one code. */
static bool **mark_checked(const struct plan *plan, struct arena *arena)
{
    bool **checked = arena_new_array(arena, bool *, plan->groups.count + 1);
    struct gathered gathered = {{0}};
    for (size_t i = plan->commands.count; i-- > 0;) {
        const struct plan_command *c = &plan->commands.items[i];
        if (c->kind == PLAN_WAIT) continue;
        size_t outputs = c->kind == PLAN_KERNEL ? plan->groups.items[c->group].outputs.count : 0;
        bool *mine = NULL;
        for (size_t k = 0; k < c->writes.count; k++) {
            const struct plan_buffer *to = &plan->buffers.items[c->writes.items[k]];
            if (!must_be_finite(plan, to) && !take_gathered(&gathered, arena, to)) continue;
            if (c->kind == PLAN_COLLECTIVE) {
                const struct plan_buffer *from = &plan->buffers.items[c->reads.items[k]];
                struct gathered_part part = {from->offset, from->offset + from->bytes};
                if (from->space == PLAN_ARENA) vec_push(arena, &gathered.parts, part);
            }
            for (uint32_t m = 0; outputs && m < plan_members(c) && !mine; m++) mine = checked[plan_member(c, m)];
            if (outputs && !mine) mine = arena_new_array(arena, bool, outputs);
            if (outputs) mine[k % outputs] = true;
        }
        for (uint32_t m = 0; mine && m < plan_members(c); m++) checked[plan_member(c, m)] = mine;
    }
    return checked;
}

/* ---------------------------------------------------------------- one group */

static void clear_overrides(struct lower *l)
{
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        memset(&l->from[l->group->nodes.items[i]], 0, sizeof *l->from);
        memset(&l->reduced[l->group->nodes.items[i]], 0, sizeof *l->reduced);
    }
}

static void start(struct lower *l)
{
    const struct plan_group *g = l->group;
    struct nest *nest = nest_new(l->arena);
    nest->lanes = l->lanes;
    nest_builder_init(&l->b, nest);
    l->memo = MAP(l->arena);
    l->vars.count = l->loaded.count = 0;
    l->cond = l->tile_mask = 0;
    l->cost = 0;
    l->retry = false;
    if (l->sites) l->sites->list.count = l->first_site;
    l->failed = NULL;
    clear_overrides(l);
    for (size_t i = 0; i < g->inputs.count; i++) {
        uint32_t b = nest_argument(&l->b, (enum ir_dtype)ir_type(l->f, g->inputs.items[i])->dtype, false, NULL);
        nest->buffers.items[b].level = g->input_level.items[i] + NEST_ALONE;
    }
    for (size_t i = 0; i < g->outputs.count; i++) {
        uint32_t b = nest_argument(&l->b, (enum ir_dtype)ir_type(l->f, g->outputs.items[i])->dtype, true, NULL);
        if (!g->windows.count) nest->buffers.items[b].level = g->output_level.items[i] + NEST_ALONE;
        nest->buffers.items[b].checked = l->checked && l->checked[i] ? NEST_FINITE : NEST_ANY;
    }
}

static void run_template(struct lower *l, struct cg_gemm *gemm)
{
    switch (l->group->kind) {
    case GROUP_MAP:
    case GROUP_COPY: lower_map(l); break;
    case GROUP_ROW:
    case GROUP_COLUMN: lower_reduction(l); break;
    case GROUP_DOT:
        if (ir_get(l->f, l->group->root)->op == OP_dot) lower_dot(l, gemm);
        else lower_winograd(l);
        break;
    case GROUP_SCATTER: lower_scatter(l); break;
    case GROUP_LINES: (ir_get(l->f, l->group->root)->op == OP_order ? lower_order : lower_cumulate)(l); break;
    case GROUP_ATTENTION: lower_attention(l); break;
    }
}

/* The members of a command share code: what is checked has the numbers of the first one. */
static void number_sites(const struct context *c, struct lower *l)
{
    size_t i = (size_t)(l->group - c->plan->groups.items), first = c->first[i];
    l->sites = c->sites;
    l->alike = c->alike[i];
    l->first_site = c->sites->list.count;
    if (first == i) c->starts[i] = l->first_site;
    l->sites_as = c->starts[first];
}

static struct lower *prepare(struct context *c, const struct plan_group *group)
{
    struct lower *l = arena_new(c->arena, struct lower);
    l->arena = c->arena;
    l->plan = c->plan;
    l->group = group;
    l->f = group->func;
    l->target = c->target;
    l->lanes = (c->target->vector_bytes ? c->target->vector_bytes : 32) / 4;
    if (c->f != l->f) {
        c->f = l->f;
        c->member = arena_new_array(c->arena, bool, l->f->count);
        c->from = arena_new_array(c->arena, struct lower_override, l->f->count);
        c->reduced = arena_new_array(c->arena, struct lower_reduced, l->f->count);
        c->argument = arena_new_array(c->arena, uint32_t, l->f->count);
    }
    l->checked = c->checked[group - c->plan->groups.items];
    if (c->sites) number_sites(c, l);
    l->member = c->member;
    l->from = c->from;
    l->reduced = c->reduced;
    for (size_t i = 0; i < group->nodes.count; i++) l->member[group->nodes.items[i]] = true;
    for (size_t i = 0; i < group->inputs.count; i++) c->argument[group->inputs.items[i]] = (uint32_t)i + 1;
    l->argument = c->argument;
    return l;
}

static void leave(struct context *c, struct lower *l)
{
    clear_overrides(l);
    if (l->sites && l->sites_as != l->first_site) l->sites->list.count = l->first_site;
    for (size_t i = 0; i < l->group->nodes.count; i++) l->member[l->group->nodes.items[i]] = false;
    for (size_t i = 0; i < l->group->inputs.count; i++) c->argument[l->group->inputs.items[i]] = 0;
}

/* Does a library's product take the place of the nest? */
static bool prefers_library(const struct lower *l, const struct cg_gemm *g)
{
    struct plan_product p;
    return g->valid && plan_product_of(l->f, l->group->root, &p) &&
           plan_product_row(&p, l->target->cuda, l->target->blas) != PLAN_PRODUCT_OWN;
}

static bool lower_group(struct context *c, const struct plan_group *group, struct diags *diags, struct cg_kernel *out)
{
    struct lower *l = prepare(c, group);
    memset(out, 0, sizeof *out);
    uint32_t tries = 0;
    do {
        start(l);
        memset(&out->gemm, 0, sizeof out->gemm);
        run_template(l, &out->gemm);
    } while (l->retry && ++tries < 40 && !l->failed);
    if (l->sites && out->gemm.valid) out->gemm.site = 1 + lower_site(l, group->root);
    leave(c, l);
    if (l->failed) {
        uint32_t place = ir_get(l->f, l->failed_at)->place;
        bool known = place > 0 && place < l->f->module->places.count;
        const struct ir_place *where = known ? &l->f->module->places.items[place] : NULL;
        struct diag *d = diag_error(diags, known ? where->span : (struct diag_span){0, 0}, "E0111",
                                    "%s is not supported yet by code generation", l->failed);
        if (known) d->pointer = where->pointer;
        return false;
    }
    if (c->target->fast) nest_keep_digits(l->b.nest);
    struct str faults = STR(c->arena);
    if (!nest_verify(l->b.nest, &faults)) {
        struct str text = STR(c->arena);
        nest_print(l->b.nest, &text);
        BUG("the nest of a group is malformed: %s%s", str_text(&faults), str_text(&text));
    }
    out->nest = l->b.nest;
    out->hash = nest_hash(out->nest);
    out->prefer_gemm = !l->checked && prefers_library(l, &out->gemm);
    return true;
}

static void find_members(struct context *c)
{
    const struct plan *plan = c->plan;
    uint32_t *first = arena_new_array(c->arena, uint32_t, plan->groups.count + 1);
    uint32_t *alike = arena_new_array(c->arena, uint32_t, plan->groups.count + 1);
    for (size_t i = 0; i < plan->groups.count; i++) first[i] = (uint32_t)i, alike[i] = 1;
    for (size_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *k = &plan->commands.items[i];
        uint32_t least = UINT32_MAX;
        for (uint32_t m = 0; k->kind == PLAN_KERNEL && m < plan_members(k); m++) {
            uint32_t g = plan_member(k, m);
            least = first[g] < least ? first[g] : least;
        }
        for (uint32_t m = 0; k->kind == PLAN_KERNEL && m < plan_members(k); m++) {
            first[plan_member(k, m)] = least;
            alike[plan_member(k, m)] = plan_members(k);
        }
    }
    c->first = first;
    c->alike = alike;
    c->starts = arena_new_array(c->arena, size_t, plan->groups.count + 1);
}

bool cg_lower(const struct plan_module *module, const struct plan *plan, const struct cg_target *target,
              struct arena *arena, struct diags *diags, struct cg_kernel *out)
{
    struct context c = {
        .module = module, .plan = plan, .target = target, .arena = arena, .checked = mark_checked(plan, arena)};
    bool ok = true;
    const char *name = plan->func->name;
    if (target->sites && (!strcmp(name, "step") || !strcmp(name, "eval") || !strcmp(name, "infer"))) {
        c.sites = target->sites;
        find_members(&c);
    }
    struct map known = MAP(arena); /* groups of one function that are alike have the same nest */
    for (size_t i = 0; i < plan->groups.count; i++) {
        const struct plan_group *g = &plan->groups.items[i];
        uint64_t key = hash_bytes(g->alike, c.checked[i], c.checked[i] ? g->outputs.count * sizeof(bool) : 0);
        key = hash_u64(key, (uint64_t)ir_type_elements(ir_type(g->func, g->outputs.items[0]))); /* of one run */
        uint32_t same = g->alike && g->func->entry && !c.sites ? map_get_number(&known, key) : MAP_NONE;
        if (same != MAP_NONE) {
            out[i] = out[same];
            continue;
        }
        ok &= lower_group(&c, g, diags, &out[i]);
        if (g->alike && g->func->entry) map_set_number(&known, key, (uint32_t)i);
    }
    return ok;
}
