/* Slots, buffers and commands as the stream of bytes that an object carries instead of tables with pointers
 * (step_abi.h). */
#include "codegen/late/late.h"
#include "codegen/llvm/llvm_object.h"
#include "ir/base/json_tree.h"
#include "ir/plan.h"
#include <stepc/step.h>
#include <stepc/step_abi.h>
#include <string.h>

struct pack {
    struct arena *arena;
    const struct ir_module *module;
    VEC(char) out;
};

static void add_byte(struct pack *p, uint32_t v) { vec_push(p->arena, &p->out, (char)v); }

static void add_number(struct pack *p, uint64_t v)
{
    for (; v > 127; v >>= 7) add_byte(p, (uint32_t)(v & 127) | 128);
    add_byte(p, (uint32_t)v);
}

static void add_bytes(struct pack *p, const void *data, size_t size)
{
    const char *from = data;
    for (size_t i = 0; i < size; i++) vec_push(p->arena, &p->out, from[i]);
}

static void add_text(struct pack *p, const char *text) { add_bytes(p, text, strlen(text) + 1); }

/* ["data", null, ["data", "model"]] */
static const char *sharding_text(struct arena *arena, const struct ir_module *m, const struct ir_slot *slot)
{
    struct json_tree all = json_array(arena);
    for (uint32_t i = 0; i < slot->type.rank; i++) {
        uint32_t axes = slot->sharding.dim[i];
        struct json_tree to = axes < 16 ? all : json_add_array(all, NULL);
        if (!axes) json_add_text(all, NULL, NULL);
        for (; axes; axes >>= 4) json_add_text(to, NULL, m->mesh.name[(axes & 15) - 1]);
    }
    return json_print(all);
}

static bool used_by(const struct ir_module *module, const char *entry, uint32_t slot)
{
    const struct ir_func *f = ir_func_find(module, entry);
    for (size_t i = 0; f && i < f->params.count; i++)
        if (f->params.items[i].slot == (int32_t)slot) return true;
    return false;
}

/* By slot: what a step that may be refused has to know of it (STEPC_PACKED_KEPT and on). */
static uint8_t *step_bits(const struct plan_module *plans, struct arena *arena)
{
    size_t count = plans->module->slots.count;
    uint8_t *bits = arena_new_array(arena, uint8_t, count + 1);
    bool *before = arena_new_array(arena, bool, count + 1);
    for (size_t i = 0; i < plans->plans.count; i++) {
        const struct plan *plan = plans->plans.items[i];
        bool step = strcmp(plan->func->name, "step") == 0;
        for (int made = 0; made < 2 && step; made++)
            for (size_t k = 0; k < plan->buffers.count; k++) {
                const struct plan_buffer *b = &plan->buffers.items[k];
                if (!made && b->space == PLAN_SLOT) before[b->slot] = true;
                if (!made || b->space != PLAN_NEXT) continue;
                bool floats = ir_dtype_is_float((enum ir_dtype)plans->module->slots.items[b->slot].type.dtype);
                bits[b->slot] = (before[b->slot] ? 0 : STEPC_PACKED_KEPT) | (floats ? STEPC_PACKED_WATCHED : 0);
            }
    }
    return bits;
}

static void add_slot(struct pack *p, uint32_t index, uint64_t offset, uint32_t bits)
{
    const struct ir_slot *s = &p->module->slots.items[index];
    bool sharded = false;
    for (uint32_t i = 0; i < s->type.rank; i++) sharded = sharded || s->sharding.dim[i];
    add_text(p, s->name);
    add_byte(p, s->role);
    add_byte(p, ir_dtype_abi(s->type.dtype));
    add_byte(p, s->type.rank);
    add_number(p, (s->frozen ? STEPC_PACKED_FROZEN : 0u) | (sharded ? STEPC_PACKED_SHARDED : 0u) |
                      (s->computed ? STEPC_PACKED_COMPUTED : 0u) |
                      (s->role == IR_ROLE_INPUT && used_by(p->module, "infer", index) ? STEPC_PACKED_INFER : 0u) |
                      (s->index_limit ? STEPC_PACKED_LIMIT : 0u) | (s->initial != 0 ? STEPC_PACKED_INITIAL : 0u) |
                      bits);
    for (uint32_t i = 0; i < s->type.rank; i++) add_number(p, (uint64_t)s->type.dim[i]);
    for (uint32_t i = 0; sharded && i < s->type.rank; i++) {
        add_number(p, (uint64_t)ir_part_extent(&p->module->mesh, s->type.dim[i], s->sharding.dim[i]));
        add_number(p, s->sharding.dim[i]);
    }
    if (sharded) add_text(p, sharding_text(p->arena, p->module, s));
    add_number(p, offset);
    if (s->index_limit) add_number(p, (uint64_t)s->index_limit);
    if (s->initial != 0) add_bytes(p, &s->initial, sizeof s->initial);
}

/* ---------------------------------------------------------------- commands */

struct commands {
    struct pack p;
    struct map kernels; /* address of a function -> number, from 0 */
    VEC(void *) functions;
    VEC(const struct cg_kernel *) libraries;
    uint64_t buffers, ends; /* in all */
    bool cuda;
};

/* Nobody reads them beside one function. */
size_t cg_command_count(const struct cg_entry *entry, bool cuda)
{
    return entry->whole && !cuda ? 0 : entry->plan->commands.count;
}

static const char *place_of(const struct ir_module *m, const struct plan_command *c, struct arena *arena)
{
    const struct ir_node *node = c->func && c->node ? ir_get(c->func, c->node) : NULL;
    const char *pointer = node && node->place < m->places.count ? m->places.items[node->place].pointer : NULL;
    return node ? arena_format(arena, "%s: %s", pointer && *pointer ? pointer : "/", ir_ops[node->op].name) : "";
}

/* From 1. Equal nests do the same product. */
static uint32_t number_of_gemm(struct commands *c, const struct cg_kernel *kernel)
{
    uint32_t i = 0;
    while (i < c->libraries.count &&
           (c->libraries.items[i]->hash != kernel->hash || c->libraries.items[i]->gemm.site != kernel->gemm.site))
        i++;
    if (i == c->libraries.count) vec_push(c->p.arena, &c->libraries, kernel);
    return i + 1;
}

static void add_kernel(struct commands *c, const struct cg_entry *entry, const struct plan_command *command)
{
    const struct plan_group *g = &entry->plan->groups.items[command->group];
    const struct cg_kernel *kernel = &entry->kernels[command->group];
    void *function = entry->functions[command->group]; /* none in an object for CUDA */
    struct cg_members members;
    cg_members(entry, command, c->p.arena, &members);
    uint32_t count = members.count * (uint32_t)(g->inputs.count + g->outputs.count), number = 0, gemm = 0;
    if (function) {
        uint64_t key = (uint64_t)(uintptr_t)function;
        if (map_get_number(&c->kernels, key) == MAP_NONE) {
            map_set_number(&c->kernels, key, (uint32_t)c->functions.count);
            vec_push(c->p.arena, &c->functions, function);
        }
        number = 1 + map_get_number(&c->kernels, key);
    }
    if ((function || c->cuda) && kernel->gemm.valid && kernel->prefer_gemm) gemm = number_of_gemm(c, kernel);
    float work = (float)members.work;
    add_number(&c->p, number);
    add_number(&c->p, gemm);
    add_number(&c->p, count);
    for (uint32_t i = 0; i < count; i++) add_number(&c->p, members.buffers[i]);
    add_number(&c->p, (uint64_t)members.extent);
    add_number(&c->p, (uint64_t)kernel->nest->grain);
    add_bytes(&c->p, &work, sizeof work);
    add_number(&c->p, members.count);
    for (uint32_t i = 0; members.count > 1 && i < members.count; i++) add_number(&c->p, (uint64_t)members.ends[i]);
    c->buffers += count;
    c->ends += members.count > 1 ? members.count : 0;
}

/* Elements that lie in one piece behind an index of this dimension. */
static uint64_t extents_from(const struct ir_type *t, int64_t dim)
{
    uint64_t n = 1;
    for (int64_t i = dim; i < t->rank; i++) n *= (uint64_t)t->dim[i];
    return n;
}

/* One of those that a command joins. */
static void add_region(struct commands *c, const struct plan_command *command, size_t at)
{
    const struct ir_node *node = ir_get(command->func, plan_joined_node(command, at));
    const struct ir_type *operand = ir_type(command->func, node->args[0]);
    uint64_t inner = 1, into = 0;
    struct ir_type part = node->op == OP_all_gather ? *operand : node->type;
    if (node->op == OP_all_to_all) { /* of the operand what goes to one device */
        uint32_t split = (uint32_t)node->attr[1].v[0];
        part = *operand;
        part.dim[split] = node->type.dim[split];
        into = extents_from(&part, node->attr[2].v[0]);
    }
    if (node->op == OP_permute) inner = (uint64_t)node->attr[1].v[0], into = (uint64_t)node->attr[2].v[0];
    else if (node->op != OP_all_reduce) inner = extents_from(&part, node->attr[1].v[0]);
    add_number(&c->p, command->reads.items[at]);
    add_number(&c->p, command->writes.items[at]);
    add_number(&c->p, (uint64_t)ir_type_elements(operand));
    add_number(&c->p, inner);
    add_number(&c->p, into);
    c->buffers += 2;
}

static void add_collective(struct commands *c, const struct plan_command *command)
{
    const struct ir_node *node = ir_get(command->func, command->node);
    uint32_t kind = STEPC_ALL_REDUCE;
    switch (node->op) {
    case OP_all_gather: kind = STEPC_ALL_GATHER; break;
    case OP_reduce_scatter: kind = STEPC_REDUCE_SCATTER; break;
    case OP_all_to_all: kind = STEPC_ALL_TO_ALL; break;
    case OP_permute: kind = STEPC_PERMUTE; break;
    }
    add_byte(&c->p, kind);
    add_byte(&c->p, node->op == OP_all_reduce ? (uint32_t)node->attr[1].v[0] : STEPC_SUM);
    add_byte(&c->p, ir_dtype_abi((enum ir_dtype)node->type.dtype));
    add_number(&c->p, (uint64_t)node->attr[0].v[0]);
    add_number(&c->p, plan_joined(command));
    for (size_t i = 0; i < plan_joined(command); i++) add_region(c, command, i);
}

static void add_command(struct commands *c, const struct cg_entry *entry, size_t index)
{
    const struct plan_command *command = &entry->plan->commands.items[index];
    uint32_t late = entry->late && entry->late->late[index];
    bool wait = command->kind == PLAN_WAIT;
    add_byte(&c->p, (uint32_t)(wait ? PLAN_COLLECTIVE : command->kind) | (uint32_t)command->barrier_before << 2 |
                        late << 3 |
                        (uint32_t)(wait                   ? STEPC_WAITS
                                   : plan_starts(command) ? STEPC_STARTS
                                                          : 0)
                            << 4);
    if (command->kind == PLAN_KERNEL) {
        add_kernel(c, entry, command);
        return;
    }
    if (wait) {
        add_number(&c->p, command->other);
        return;
    }
    if (command->kind == PLAN_COLLECTIVE) {
        add_collective(c, command);
    } else {
        add_number(&c->p, command->counter);
        add_number(&c->p, command->limit);
        add_number(&c->p, (uint32_t)(command->flag + 1));
        add_number(&c->p, command->other);
    }
    add_text(&c->p, place_of(c->p.module, command, c->p.arena)); /* of kernels it would be dead weight */
}

struct cg_packed pack_tables(const struct plan_module *plans, const struct cg_entry *entries, uint32_t count, bool cuda,
                             struct arena *arena)
{
    struct pack p = {.arena = arena, .module = plans->module};
    struct commands c = {.p = p, .kernels = MAP(arena), .cuda = cuda};
    const uint8_t *bits = step_bits(plans, arena);
    for (uint32_t i = 0; i < plans->module->slots.count; i++) {
        unsigned more = 0;
        for (uint32_t e = 0; e < count; e++) {
            if (!entries[e].late) continue;
            if (entries[e].late->least[i]) more |= STEPC_PACKED_POSITIVE;
            if (entries[e].late->close) more |= STEPC_PACKED_CLOSE;
            bool hyper = plans->module->slots.items[i].role == IR_ROLE_HYPER;
            uint8_t expected = entries[e].late->expected[i];
            if (expected && !hyper) more |= STEPC_PACKED_BOUNDED;
            bool apart = expected == CG_EXPECTED_APART || entries[e].late->least[i] == CG_APART;
            if (apart || (expected && hyper)) more |= STEPC_PACKED_FIXED;
        }
        add_slot(&p, i, plans->slot_offset ? plans->slot_offset[i] : 0, bits[i] | more);
    }
    for (uint32_t e = 0; e < count; e++)
        for (size_t i = 0; i < entries[e].plan->buffers.count; i++) {
            const struct plan_buffer *b = &entries[e].plan->buffers.items[i];
            uint32_t held = entries[e].late ? entries[e].late->held[i] : CG_NOT_HELD;
            bool early = entries[e].late && entries[e].late->early[i];
            add_number(&p, held != CG_NOT_HELD ? STEPC_AT_HELD : early ? STEPC_AT_EARLY : b->space);
            add_number(&p, held != CG_NOT_HELD ? held : b->slot);
            add_number(&p, b->offset);
            add_number(&p, b->bytes);
        }
    for (uint32_t e = 0; e < count; e++)
        for (size_t i = 0; i < cg_command_count(&entries[e], cuda); i++) add_command(&c, &entries[e], i);
    add_number(&p, c.buffers); /* never empty */
    add_number(&p, c.ends);
    add_bytes(&p, c.p.out.items, c.p.out.count);
    return (struct cg_packed){.bytes = {p.out.items, p.out.count},
                              .functions = c.functions.items,
                              .function_count = (uint32_t)c.functions.count,
                              .gemms = c.libraries.items,
                              .gemm_count = (uint32_t)c.libraries.count};
}
