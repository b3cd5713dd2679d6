/* Runs a document without compiling it: the tables of an object are built in memory, and the one function of every
 * entry is the interpreter. Everything else (names, shapes, ranges, files) is the runtime's, so `stepc run` has one way
 * through for objects and documents.
 *
 * That function has no user pointer: the first buffer is a constant of the program that holds the address of what
 * it needs. */
#include "frontend/cli/run.h"
#include "ir/ir.h"

#include <string.h>

struct interp_entry {
    const struct ir_func *func;
    const struct ir_slot *slots;
};

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
    ir_eval(f, IR_EVAL_EXACT_DTYPES, params, results, &arena);
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
                       struct stepc_entry *e, struct interp_entry **constant, uint64_t offset)
{
    uint32_t n = 1;
    struct stepc_buffer *buffers = arena_new_array(a, struct stepc_buffer, 1 + f->params.count + f->results.count);
    *constant = arena_new(a, struct interp_entry);
    **constant = (struct interp_entry){f, m->slots.items};
    buffers[0] = (struct stepc_buffer){.space = STEPC_AT_CONSTANT, .offset = offset};
    for (size_t i = 0; i < f->params.count; i++) buffers[n++] = slot_buffer(m, p, f->params.items[i].slot);
    for (size_t i = 0; i < f->results.count; i++) buffers[n++] = result_buffer(m, p, f->results.items[i].slot);
    *e = (struct stepc_entry){.name = f->name, .buffers = buffers, .buffer_count = n, .whole = interpret};
}

static const struct stepc_program *make_program(struct arena *a, const struct ir_module *m)
{
    struct stepc_program *p = arena_new(a, struct stepc_program);
    struct stepc_entry *entries = arena_new_array(a, struct stepc_entry, m->funcs.count + 1);
    struct interp_entry **constants = arena_new_array(a, struct interp_entry *, m->funcs.count + 1);
    *p = (struct stepc_program){.version = STEPC_TABLES,
                                .name = m->name ? m->name : "step",
                                .manifest = "{}",
                                .features = "",
                                .indices = &stepc_part_indices,
                                .checkpoint = &stepc_part_checkpoint,
                                .entries = entries,
                                .constants = (const unsigned char *)constants};
    make_slots(a, m, p);
    for (size_t i = 0; i < m->funcs.count; i++) {
        struct ir_func *f = m->funcs.items[i];
        uint32_t k = p->entry_count;
        if (!f->entry) continue;
        make_entry(a, m, p, f, &entries[k], &constants[k], k * sizeof *constants);
        if (strcmp(f->name, "infer") == 0)
            for (size_t n = 0; n < f->params.count; n++) {
                struct stepc_slot *slots = (struct stepc_slot *)(uintptr_t)p->slots; /* made here */
                slots[f->params.items[n].slot].used_by_infer = 1;
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
    int code = cli->interpretable(cli, path, &module);
    if (code) return code;
    *api = rt_tools_api();
    *name = module->name ? module->name : "step";
    if (rt_create(make_program(cli->arena, module), &options, instance) == STEP_OK) return 0;
    const char *text = (*api)->last_error(NULL);
    return cli_failed(cli, EXIT_ENVIRONMENT, "%s: %s", path, *text ? text : "out of memory");
}
