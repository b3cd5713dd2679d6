/* Runs a document without compiling it: the tables of an object are built in memory, and the one function of every
 * entry is the interpreter. Everything else (names, shapes, ranges, files) is the runtime's, so `stepc run` has one way
 * through for objects and documents.
 *
 * That function has no user pointer: the first buffer is a constant of the program that holds the address of what
 * it needs. */
#include "frontend/cli/run.h"
#include "ir/ir.h"

#include <math.h>
#include <string.h>

struct interp_entry {
    const struct ir_func *func;
    struct interp_watch *watch; /* NULL: without --check-finite */
};

/* ---------------------------------------------------------------- --check-finite */

/* A value that is not finite: `made` of what is (or a NaN of what is none), from those of the first 64 operands that
 * its elements came from. */
struct interp_bad {
    const struct ir_func *func;
    ir_value value;
    bool made, nan, inputs, reaches;
    int64_t element;
    uint64_t operands;
    int64_t count, nans, infinities;
    double low[2], high[2]; /* of its finite elements, of those of its operands; low > high: there is none */
};

struct interp_watch {
    struct stepc_program *program;
    const struct diag_source *source;
    struct str sites; /* lines of those that were told, from 1 */
    uint32_t count;
    struct arena *run; /* of the call in progress */
    VEC(struct interp_bad) list;
};

static const struct ir_param *param_of(const struct ir_func *f, ir_value v)
{
    for (size_t i = 0; i < f->params.count; i++)
        if (f->params.items[i].value == v) return &f->params.items[i];
    return NULL;
}

static bool has_body(const struct ir_node *n)
{
    return ir_ops[n->op].emit == EMIT_control || ir_ops[n->op].flags & IR_MARKER;
}

/* What element i of an operation on elements comes from: a select leaves out what it does not choose. */
static uint64_t sources(const struct ir_node *n, const struct ir_tensor *const *operands, int64_t i, bool *nan)
{
    uint64_t bad = 0;
    for (uint32_t k = 0; k < n->arg_count && k < 64; k++) {
        if (!operands[k] || (n->op == OP_select && k != (operands[0]->v[i] != 0 ? 1 : 2))) continue;
        bad |= (uint64_t)!isfinite(operands[k]->v[i]) << k;
        *nan |= isnan(operands[k]->v[i]) != 0;
    }
    return bad;
}

static uint64_t whole_sources(const struct ir_node *n, const struct ir_tensor *const *operands, bool *nan)
{
    uint64_t bad = 0;
    for (uint32_t k = 0; k < n->arg_count && k < 64; k++) bad |= (uint64_t)!operands[k] << k; /* a tuple: not known */
    *nan = bad != 0;
    for (uint32_t k = 0; k < n->arg_count && k < 64; k++)
        for (int64_t i = 0; operands[k] && i < ir_type_elements(&operands[k]->type); i++) {
            bad |= (uint64_t)!isfinite(operands[k]->v[i]) << k;
            *nan |= isnan(operands[k]->v[i]) != 0;
        }
    return bad;
}

static void extend(struct interp_bad *bad, int which, const struct ir_tensor *t)
{
    for (int64_t i = 0; i < ir_type_elements(&t->type); i++) {
        if (!isfinite(t->v[i])) continue;
        bad->low[which] = fmin(bad->low[which], t->v[i]);
        bad->high[which] = fmax(bad->high[which], t->v[i]);
    }
}

static void see(void *user, const struct ir_func *f, ir_value v, const struct ir_tensor *made,
                const struct ir_tensor *const *operands)
{
    struct interp_watch *w = user;
    const struct ir_node *n = ir_get(f, v);
    struct interp_bad bad = {
        .func = f, .value = v, .element = -1, .low = {INFINITY, INFINITY}, .high = {-INFINITY, -INFINITY}};
    bool any_nan = false, given = n->op == OP_param;
    if (n->op == OP_constant || (given && param_of(f, v)->slot < 0)) return;
    uint64_t any = given || ir_is_ewise((enum ir_op)n->op) ? 0 : whole_sources(n, operands, &any_nan);
    for (int64_t i = 0; i < ir_type_elements(&made->type) && !bad.made; i++) {
        bool nan = any_nan, is_nan = isnan(made->v[i]);
        if (isfinite(made->v[i])) continue;
        uint64_t from = ir_is_ewise((enum ir_op)n->op) ? sources(n, operands, i, &nan) : any;
        bad.operands |= from;
        bool here = !given && !has_body(n) && (!from || (is_nan && !nan));
        if (!here && bad.element >= 0) continue;
        bad.element = i, bad.made = here, bad.nan = is_nan, bad.inputs = from || given;
    }
    for (int64_t i = bad.count = 0; i < ir_type_elements(&made->type); i++, bad.count++)
        bad.nans += isnan(made->v[i]) != 0, bad.infinities += isinf(made->v[i]) != 0;
    extend(&bad, 0, made);
    for (uint32_t k = 0; k < n->arg_count; k++)
        if (operands[k] && ir_dtype_is_float((enum ir_dtype)operands[k]->type.dtype)) extend(&bad, 1, operands[k]);
    vec_push(w->run, &w->list, bad);
}

static void add_range(struct str *out, const char *of, const struct interp_bad *bad, int which)
{
    if (bad->low[which] > bad->high[which]) return;
    str_add(out, of);
    str_add_number(out, bad->low[which], true);
    str_add(out, " to ");
    str_add_number(out, bad->high[which], true);
}

/* ", 1 of 4 elements NaN, the others from 0 to 1, of operands from -1 to 1" */
static void add_values(struct str *out, const struct interp_bad *bad)
{
    if (bad->nans) str_addf(out, ", %lld of %lld NaN", (long long)bad->nans, (long long)bad->count);
    if (bad->infinities) str_addf(out, ", %lld of %lld infinite", (long long)bad->infinities, (long long)bad->count);
    add_range(out, ", the others from ", bad, 0);
    add_range(out, ", of operands from ", bad, 1);
}

/* Marks what is told of the value among the first `before`; of a tuple, what it is made of. */
static void mark(struct interp_watch *w, size_t before, const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    const struct ir_func *body = has_body(n) ? f->module->funcs.items[n->func] : NULL;
    for (size_t k = 0; body && k < body->results.count; k++) mark(w, before, body, body->results.items[k].value);
    for (uint32_t k = 0; n->type.dtype == IR_TUPLE && k < n->arg_count; k++) mark(w, before, f, n->args[k]);
    for (size_t i = 0; i < before; i++) {
        struct interp_bad *bad = &w->list.items[i];
        bad->reaches |= bad->func == f && bad->value == v;
    }
}

/* Those that a result which is not finite came from, by way of others: what a `where` left out is none of them. */
static void reach(struct interp_watch *w, const struct ir_func *f)
{
    for (size_t i = 0; i < f->results.count; i++) mark(w, w->list.count, f, f->results.items[i].value);
    for (size_t i = w->list.count; i-- > 0;) {
        const struct interp_bad *bad = &w->list.items[i];
        const struct ir_node *n = ir_get(bad->func, bad->value);
        for (uint32_t k = 0; bad->reaches && k < n->arg_count; k++)
            if (k >= 64 || bad->operands >> k & 1) mark(w, i, bad->func, n->args[k]);
    }
}

/* What counts most: what a host gave, from which others may come by ways that nobody sees, as comparisons; what was
 * made; single numbers of the state, which may be infinite from the start. */
static int weight(const struct interp_bad *bad)
{
    if (ir_get(bad->func, bad->value)->op != OP_param) return bad->made ? 2 : 0;
    const struct ir_slot *s = &bad->func->module->slots.items[param_of(bad->func, bad->value)->slot];
    return s->type.rank || s->role == IR_ROLE_INPUT || s->role == IR_ROLE_PARAM ? 3 : 1;
}

/* The first of them is told as an object tells it (runtime/finite.c). */
static void tell(struct interp_watch *w, const struct ir_func *f, char *scratch)
{
    const struct interp_bad *first = NULL;
    reach(w, f);
    for (size_t i = 0; i < w->list.count; i++) {
        const struct interp_bad *bad = &w->list.items[i];
        if (bad->reaches && (!first || weight(bad) > weight(first))) first = bad;
    }
    if (!first) return;
    bool given = ir_get(first->func, first->value)->op == OP_param;
    str_addf(&w->sites, "%c", given ? STEPC_SITE_GIVEN : STEPC_SITE_MADE);
    ir_site_text(&w->sites, first->func, first->value, w->source);
    add_values(&w->sites, first);
    str_add(&w->sites, "\n");
    w->program->sites = str_text(&w->sites);
    stepc_finite_record(scratch, w->count++ | (given ? STEPC_SITE_OUTER : 0), 1, first->nan, first->inputs,
                        !first->made && first->nan, first->element, 0);
}

/* ---------------------------------------------------------------- entries */

/* Arguments: the entry, its parameters, its results; each bound to a slot. */
static void interpret(void *const *buffers, void *scratch)
{
    struct interp_entry *entry;
    struct arena arena = {0};
    uint32_t *flag = (uint32_t *)(void *)((char *)scratch - STEPC_FLAG_BEFORE);
    *flag = 1; /* it may be: the runtime looks itself */
    memcpy(&entry, buffers[0], sizeof entry);
    const struct ir_func *f = entry->func;
    struct ir_tensor *params = arena_new_array(&arena, struct ir_tensor, f->params.count + 1);
    struct ir_tensor *results = arena_new_array(&arena, struct ir_tensor, f->results.count + 1);
    for (size_t i = 0; i < f->params.count; i++) {
        params[i].type = f->params.items[i].type;
        ir_tensor_from_bytes(&params[i], buffers[1 + i], &arena);
    }
    struct interp_watch *w = entry->watch;
    if (w) {
        w->run = &arena, w->list.count = w->list.capacity = 0;
        ir_eval_watched(f, params, results, &arena, see, w);
        tell(w, f, scratch);
    } else ir_eval(f, IR_EVAL_EXACT_DTYPES, params, results, &arena);
    for (size_t i = 0; i < f->results.count; i++) ir_tensor_to_bytes(&results[i], buffers[1 + f->params.count + i]);
    arena_free(&arena);
}

static void make_slots(struct arena *a, const struct ir_module *m, struct stepc_program *p)
{
    struct stepc_slot *slots = arena_new_array(a, struct stepc_slot, m->slots.count + 1);
    for (size_t i = 0; i < m->slots.count; i++) {
        const struct ir_slot *s = &m->slots.items[i];
        uint64_t bytes = (uint64_t)ir_type_elements(&s->type) * ir_dtype_bytes(s->type.dtype);
        uint64_t *block = ir_role_is_result(s->role) ? &p->result_bytes : &p->state_bytes;
        int64_t *shape = arena_new_array(a, int64_t, IR_MAX_RANK);
        memcpy(shape, s->type.dim, sizeof s->type.dim);
        slots[i] = (struct stepc_slot){.name = s->name,
                                       .role = s->role,
                                       .dtype = (uint8_t)ir_dtype_abi((enum ir_dtype)s->type.dtype),
                                       .rank = s->type.rank,
                                       .flags = s->frozen ? STEP_FROZEN : 0,
                                       .shape = shape,
                                       .local = shape,
                                       .sharding = "[]",
                                       .offset = *block,
                                       .index_limit = s->index_limit,
                                       .initial = s->initial,
                                       .computed = s->computed};
        if (s->role != IR_ROLE_INPUT) *block += (bytes + 63) / 64 * 64;
    }
    p->slots = slots;
    p->slot_count = (uint32_t)m->slots.count;
}

static struct stepc_buffer slot_buffer(const struct ir_module *m, const struct stepc_program *p, int32_t slot)
{
    if (slot < 0) BUG("an entry has a parameter or result without a slot");
    const struct ir_slot *s = &m->slots.items[slot];
    uint32_t space = s->role == IR_ROLE_INPUT     ? STEPC_AT_INPUT
                     : ir_role_is_result(s->role) ? STEPC_AT_RESULT
                                                  : STEPC_AT_STATE;
    return (struct stepc_buffer){
        .space = space, .slot = (uint32_t)slot, .offset = space == STEPC_AT_INPUT ? 0 : p->slots[slot].offset};
}

static struct stepc_buffer result_buffer(const struct ir_module *m, const struct stepc_program *p, int32_t slot)
{
    struct stepc_buffer b = slot_buffer(m, p, slot);
    if (b.space == STEPC_AT_STATE) b.space = STEPC_AT_NEXT;
    return b;
}

static void make_entry(struct arena *a, const struct ir_module *m, struct stepc_program *p, struct ir_func *f,
                       struct stepc_entry *e, struct interp_entry **constant, uint64_t offset,
                       struct interp_watch *watch)
{
    uint32_t n = 1;
    struct stepc_buffer *buffers = arena_new_array(a, struct stepc_buffer, 1 + f->params.count + f->results.count);
    *constant = arena_new(a, struct interp_entry);
    **constant = (struct interp_entry){f, watch};
    buffers[0] = (struct stepc_buffer){.space = STEPC_AT_CONSTANT, .offset = offset};
    for (size_t i = 0; i < f->params.count; i++) buffers[n++] = slot_buffer(m, p, f->params.items[i].slot);
    for (size_t i = 0; i < f->results.count; i++) buffers[n++] = result_buffer(m, p, f->results.items[i].slot);
    *e = (struct stepc_entry){.name = f->name, .buffers = buffers, .buffer_count = n, .whole = interpret};
}

static const struct stepc_program *make_program(struct arena *a, const struct ir_module *m, struct interp_watch *watch)
{
    struct stepc_program *p = arena_new(a, struct stepc_program);
    struct stepc_entry *entries = arena_new_array(a, struct stepc_entry, m->funcs.count + 1);
    struct interp_entry **constants = arena_new_array(a, struct interp_entry *, m->funcs.count + 1);
    *p = (struct stepc_program){.version = STEPC_TABLES,
                                .name = m->name ? m->name : "step",
                                .manifest = "{}",
                                .features = "",
                                .indices = &stepc_part_indices,
                                .checkpoint = &stepc_part_checkpoint_pieces,
                                .compression = &stepc_part_compression,
                                .entries = entries,
                                .finite = watch ? &stepc_part_finite : NULL,
                                .constants = (const unsigned char *)constants};
    if (watch) watch->program = p;
    make_slots(a, m, p);
    for (size_t i = 0; i < m->funcs.count; i++) {
        struct ir_func *f = m->funcs.items[i];
        uint32_t k = p->entry_count;
        if (!f->entry) continue;
        make_entry(a, m, p, f, &entries[k], &constants[k], k * sizeof *constants, watch);
        struct stepc_slot *slots = (struct stepc_slot *)(uintptr_t)p->slots; /* made here */
        if (strcmp(f->name, "infer") == 0)
            for (size_t n = 0; n < f->params.count; n++) slots[f->params.items[n].slot].used_by_infer = 1;
        for (size_t n = 0; strcmp(f->name, "step") == 0 && n < f->results.count; n++) {
            const struct ir_slot *to = &m->slots.items[f->results.items[n].slot];
            bool watched = !ir_role_is_result(to->role) && ir_dtype_is_float((enum ir_dtype)to->type.dtype);
            if (watched) slots[f->results.items[n].slot].bits |= STEPC_PACKED_WATCHED;
        }
        p->entry_count++;
    }
    p->constant_bytes = p->entry_count * sizeof *constants;
    return p;
}

int cli_interpret(struct cli *cli, const char *path, const struct step_api **api, struct step_instance **instance,
                  const char **name)
{
    struct ir_module *module = NULL;
    struct step_options options = {.size = sizeof options, .threads = 1};
    if (!cli->interpretable) return cli_failed(cli, EXIT_WRONG, "%s: not a compiled step", path);
    struct interp_watch *watch = arena_new(cli->arena, struct interp_watch);
    struct diag_source *source = arena_new(cli->arena, struct diag_source);
    int code = cli->interpretable(cli, path, &module, source);
    if (code) return code;
    *watch = (struct interp_watch){.source = source->text ? source : NULL, .sites = STR(cli->arena)};
    if (!cli_count(cli, "check-finite")) watch = NULL;
    *api = rt_tools_api();
    *name = module->name ? module->name : "step";
    if (rt_create(make_program(cli->arena, module, watch), &options, instance) == STEP_OK) return 0;
    const char *text = (*api)->last_error(NULL);
    return cli_failed(cli, EXIT_ENVIRONMENT, "%s: %s", path, *text ? text : "out of memory");
}
