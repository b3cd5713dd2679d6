/* Slots and buffers as the stream of bytes that an object carries instead of tables with pointers (step_abi.h). */
#include "codegen/llvm_object.h"
#include "ir/plan.h"
#include <cjson/cJSON.h>
#include <stepc/step.h>
#include <stepc/step_abi.h>
#include <string.h>

struct pack { struct arena *arena; const struct ir_module *module; VEC(char) out; };

static void add_byte(struct pack *p, uint32_t v) { vec_push(p->arena, &p->out, (char)v); }

static void add_number(struct pack *p, uint64_t v)
{
    for (; v > 127; v >>= 7)
        add_byte(p, (uint32_t)(v & 127) | 128);
    add_byte(p, (uint32_t)v);
}

static void add_bytes(struct pack *p, const void *data, size_t size)
{
    const char *from = data;
    for (size_t i = 0; i < size; i++)
        vec_push(p->arena, &p->out, from[i]);
}

static void add_text(struct pack *p, const char *text) { add_bytes(p, text, strlen(text) + 1); }

uint32_t pack_dtype(enum ir_dtype dtype)
{
    switch (dtype) {
#define X(NAME, text, st, bytes, cls, abi) case IR_##NAME: return abi;
#include "kernels/dtypes.def"
#undef X
    default: return 0;
    }
}

static int64_t parts(const struct ir_module *m, uint32_t axes)
{
    int64_t n = 1;
    for (; axes; axes >>= 4)
        n *= m->mesh.size[(axes & 15) - 1];
    return n;
}

/* ["data", null, ["data", "model"]] */
static cJSON *sharding_json(const struct ir_module *m, const struct ir_slot *slot)
{
    cJSON *all = cJSON_CreateArray();
    for (uint32_t i = 0; i < slot->type.rank; i++) {
        uint32_t axes = slot->sharding.dim[i];
        if (!axes) {
            cJSON_AddItemToArray(all, cJSON_CreateNull());
        } else if (axes < 16) {
            cJSON_AddItemToArray(all, cJSON_CreateString(m->mesh.name[axes - 1]));
        } else {
            cJSON *several = cJSON_CreateArray();
            for (; axes; axes >>= 4)
                cJSON_AddItemToArray(several, cJSON_CreateString(m->mesh.name[(axes & 15) - 1]));
            cJSON_AddItemToArray(all, several);
        }
    }
    return all;
}

/* The printed form, moved to the arena. */
static const char *json_text(struct arena *arena, cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    const char *copy = arena_string(arena, text ? text : "null");
    cJSON_free(text);
    cJSON_Delete(json);
    return copy;
}

static bool used_by(const struct ir_module *module, const char *entry, uint32_t slot)
{
    const struct ir_func *f = ir_func_find(module, entry);
    for (size_t i = 0; f && i < f->params.count; i++)
        if (f->params.items[i].slot == (int32_t)slot)
            return true;
    return false;
}

static void add_slot(struct pack *p, uint32_t index, uint64_t offset)
{
    const struct ir_slot *s = &p->module->slots.items[index];
    bool sharded = false;
    for (uint32_t i = 0; i < s->type.rank; i++)
        sharded = sharded || s->sharding.dim[i];
    add_text(p, s->name);
    add_byte(p, s->role);
    add_byte(p, pack_dtype(s->type.dtype));
    add_byte(p, s->type.rank);
    add_byte(p, (s->frozen ? STEPC_PACKED_FROZEN : 0u) | (sharded ? STEPC_PACKED_SHARDED : 0u) | (s->computed ? STEPC_PACKED_COMPUTED : 0u) |
                    (s->role == IR_ROLE_INPUT && used_by(p->module, "infer", index) ? STEPC_PACKED_INFER : 0u) |
                    (s->index_limit ? STEPC_PACKED_LIMIT : 0u) | (s->initial != 0 ? STEPC_PACKED_INITIAL : 0u));
    for (uint32_t i = 0; i < s->type.rank; i++)
        add_number(p, (uint64_t)s->type.dim[i]);
    for (uint32_t i = 0; sharded && i < s->type.rank; i++) {
        add_number(p, (uint64_t)(s->type.dim[i] / parts(p->module, s->sharding.dim[i])));
        add_number(p, s->sharding.dim[i]);
    }
    if (sharded)
        add_text(p, json_text(p->arena, sharding_json(p->module, s)));
    add_number(p, offset);
    if (s->index_limit)
        add_number(p, (uint64_t)s->index_limit);
    if (s->initial != 0)
        add_bytes(p, &s->initial, sizeof s->initial);
}

struct cg_bytes pack_tables(const struct plan_module *plans, const struct cg_entry *entries, uint32_t count, struct arena *arena)
{
    struct pack p = {.arena = arena, .module = plans->module};
    for (uint32_t i = 0; i < plans->module->slots.count; i++)
        add_slot(&p, i, plans->slot_offset ? plans->slot_offset[i] : 0);
    for (uint32_t e = 0; e < count; e++)
        for (size_t i = 0; i < entries[e].plan->buffers.count; i++) {
            const struct plan_buffer *b = &entries[e].plan->buffers.items[i];
            add_number(&p, b->space);
            add_number(&p, b->slot);
            add_number(&p, b->offset);
            add_number(&p, b->bytes);
        }
    add_byte(&p, 0); /* never empty */
    return (struct cg_bytes){p.out.items, p.out.count};
}
