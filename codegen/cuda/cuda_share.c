/* Which nests are one kernel: equal ones, and those that differ in a few numbers only (the keys of random tensors,
 * scales of layers), which are then parameters (uint32) that every launch passes. Numbers of type int32 stay in the
 * text: they are sizes, by which addresses are computed and divided. */
#include "codegen/cuda/cuda.h"
#include <math.h>
#include <string.h>

enum { MOST_NUMBERS = 16 };
typedef VEC(const struct nest_stmt *) statements;
/* A nest and all that calls it. */
struct distinct {
    const struct nest *nest;
    uint64_t key; /* what is equal in those that may be one kernel */
    struct cuda_calls calls;
    statements numbers; /* that may be parameters, in the order of the nest */
    uint32_t kernel;
    const uint32_t *values;
};
struct share {
    struct arena *arena;
    const struct plan_module *plans;
    VEC(struct distinct) list;
    struct map known; /* by hash */
};

/* ---------------------------------------------------------------- nests and their calls */

static bool may_be_passed(const struct nest_stmt *s)
{
    return s->kind == NEST_NUMBER &&
           (s->dtype == IR_F32 || s->dtype == IR_U32 || s->dtype == IR_F16 || s->dtype == IR_BF16);
}

/* What nest_shape leaves out and a kernel has in its text. */
static uint64_t add_key(struct arena *arena, uint64_t key, struct nest_stmt *const *items, size_t count,
                        statements *numbers)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        uint64_t bits;
        memcpy(&bits, &s->number, sizeof bits);
        if (may_be_passed(s)) vec_push(arena, numbers, s);
        else if (s->kind == NEST_NUMBER) key = hash_u64(key, bits);
        else if (s->kind == NEST_FOR) key = hash_u64(key, (uint64_t)s->extent);
        key = add_key(arena, key, s->body.items, s->body.count, numbers);
    }
    return key;
}

static uint32_t find(struct share *s, const struct cg_kernel *kernel)
{
    uint32_t index = map_get_number(&s->known, kernel->hash);
    const struct nest *nest = kernel->nest;
    if (index != MAP_NONE) return index;
    struct distinct one = {.nest = nest};
    one.calls.shares = arena_new_array(s->arena, bool, nest->argument_count + 1);
    one.calls.aligned = arena_new_array(s->arena, bool, nest->argument_count + 1);
    memset(one.calls.aligned, true, nest->argument_count * sizeof(bool));
    one.key = hash_u64(nest_shape(nest), nest->flat ? 0 : (uint64_t)nest->parallel_extent);
    one.key = add_key(s->arena, one.key, nest->body.items, nest->body.count, &one.numbers);
    vec_push(s->arena, &s->list, one);
    map_set_number(&s->known, kernel->hash, (uint32_t)s->list.count - 1);
    return (uint32_t)s->list.count - 1;
}

static bool overlap(const struct plan_buffer *a, const struct plan_buffer *b)
{
    if (plan_memory_of(a->space) != plan_memory_of(b->space)) return false;
    if (a->space == PLAN_INPUT) return a->slot == b->slot;
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static void look_at_sharing(const struct plan *plan, const struct plan_command *c, bool *shares)
{
    size_t members = plan_members(c), inputs = c->reads.count / members, outputs = c->writes.count / members;
    for (size_t m = 0; m < members; m++)
        for (size_t i = 0; i < outputs; i++)
            for (size_t j = 0; j < inputs + outputs; j++) {
                uint32_t to = c->writes.items[m * outputs + i];
                uint32_t with = j < inputs ? c->reads.items[m * inputs + j] : c->writes.items[m * outputs + j - inputs];
                if (j == inputs + i || !overlap(&plan->buffers.items[to], &plan->buffers.items[with])) continue;
                shares[inputs + i] = shares[j] = true;
            }
}

/* Of a parameter: other weights that a run may read in its place (`ema.w`) begin as it does. */
static bool others_are_aligned(const struct share *s, uint32_t slot)
{
    const struct ir_module *m = s->plans->module;
    size_t length = strlen(m->slots.items[slot].name);
    for (size_t i = 0; i < m->slots.count && m->slots.items[slot].role == IR_ROLE_PARAM; i++) {
        const char *name = m->slots.items[i].name, *dot = strchr(name, '.');
        bool other = dot && m->slots.items[i].role <= IR_ROLE_STATE && strlen(dot + 1) == length &&
                     strcmp(dot + 1, m->slots.items[slot].name) == 0;
        if (other && s->plans->slot_offset[i] % CUDA_ACCESS) return false;
    }
    return true;
}

/* What a host gives is copied to places that begin so (runtime/input.c), from a device's arrays, too. */
static bool is_aligned(const struct share *s, const struct plan_buffer *b)
{
    bool known = b->space == PLAN_ARENA || b->space == PLAN_SLOT || b->space == PLAN_NEXT || b->space == PLAN_INPUT;
    return known && b->offset % CUDA_ACCESS == 0 && (b->space != PLAN_SLOT || others_are_aligned(s, b->slot));
}

static void look_at_places(const struct share *s, const struct plan *plan, const struct plan_command *c, bool *aligned)
{
    size_t members = plan_members(c), inputs = c->reads.count / members, outputs = c->writes.count / members;
    for (size_t i = 0; i < c->reads.count; i++)
        aligned[i % inputs] &= is_aligned(s, &plan->buffers.items[c->reads.items[i]]);
    for (size_t i = 0; i < c->writes.count; i++)
        aligned[inputs + i % outputs] &= is_aligned(s, &plan->buffers.items[c->writes.items[i]]);
}

static void look_at_calls(struct share *s, const struct cg_entry *entry)
{
    for (size_t i = 0; i < entry->plan->commands.count; i++) {
        const struct plan_command *c = &entry->plan->commands.items[i];
        if (c->kind != PLAN_KERNEL) continue;
        struct cuda_calls *calls = &s->list.items[find(s, &entry->kernels[c->group])].calls;
        struct cg_members members;
        look_at_sharing(entry->plan, c, calls->shares);
        look_at_places(s, entry->plan, c, calls->aligned);
        cg_members(entry, c, s->arena, &members);
        calls->members = members.count > calls->members ? members.count : calls->members;
    }
}

/* ---------------------------------------------------------------- kernels */

static bool may_join(const struct distinct *a, const struct distinct *b)
{
    return a->key == b->key && a->numbers.count == b->numbers.count &&
           (a->calls.members > 1) == (b->calls.members > 1) &&
           memcmp(a->calls.shares, b->calls.shares, a->nest->argument_count * sizeof(bool)) == 0;
}

/* As the parameter has it: a register's bits. */
static uint32_t bits_of(const struct nest_stmt *s)
{
    uint32_t bits;
    if (s->dtype == IR_U32) return (uint32_t)(int64_t)s->number;
    if (isnan(s->number)) return 0x7fc00000u; /* as cuda_number prints it */
    float x = (float)ir_element_round((enum ir_dtype)s->dtype, s->number);
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The nests of one kernel, from its first one on; those that would make it more numbers than a launch passes are left.
 */
static void join(struct share *s, size_t first, uint32_t kernel, struct cuda_shared *to)
{
    struct distinct *leader = &s->list.items[first];
    size_t all = leader->numbers.count, count = 0;
    bool *differs = arena_new_array(s->arena, bool, all + 1), *wider = arena_new_array(s->arena, bool, all + 1);
    VEC(struct distinct *) members = {NULL, 0, 0};
    for (size_t i = first; i < s->list.count; i++) {
        struct distinct *d = &s->list.items[i];
        size_t different = 0;
        if (d->kernel != UINT32_MAX || !may_join(leader, d)) continue;
        for (size_t n = 0; n < all; n++) {
            wider[n] = differs[n] || bits_of(leader->numbers.items[n]) != bits_of(d->numbers.items[n]);
            different += wider[n];
        }
        if (different > MOST_NUMBERS) continue;
        memcpy(differs, wider, all * sizeof *wider);
        count = different;
        d->kernel = kernel;
        if (d->calls.members > leader->calls.members) leader->calls.members = d->calls.members;
        for (uint32_t b = 0; b < leader->nest->argument_count; b++) leader->calls.aligned[b] &= d->calls.aligned[b];
        vec_push(s->arena, &members, d);
    }
    *to = (struct cuda_shared){leader->nest, leader->calls};
    to->calls.numbers = arena_new_array(s->arena, nest_value, count + 1);
    for (size_t n = 0; n < all; n++)
        if (differs[n]) to->calls.numbers[to->calls.number_count++] = leader->numbers.items[n]->result;
    for (size_t m = 0; m < members.count; m++) {
        uint32_t *values = arena_new_array(s->arena, uint32_t, count + 1), next = 0;
        for (size_t n = 0; n < all; n++)
            if (differs[n]) values[next++] = bits_of(members.items[m]->numbers.items[n]);
        members.items[m]->values = values;
    }
}

size_t cuda_share(struct cg_cuda *cuda, const struct plan_module *plans, const struct cg_entry *entries, uint32_t count,
                  struct cuda_shared **out, struct arena *arena)
{
    struct share s = {.arena = arena, .plans = plans, .known = MAP(arena)};
    uint32_t kernels = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (size_t g = 0; g < entries[i].plan->groups.count; g++) find(&s, &entries[i].kernels[g]);
        look_at_calls(&s, &entries[i]);
    }
    *out = arena_new_array(arena, struct cuda_shared, s.list.count + 1);
    for (size_t i = 0; i < s.list.count; i++) s.list.items[i].kernel = UINT32_MAX;
    for (size_t i = 0; i < s.list.count; i++)
        if (s.list.items[i].kernel == UINT32_MAX) {
            join(&s, i, kernels, &(*out)[kernels]);
            kernels++;
        }
    cuda->uses = arena_new_array(arena, struct cuda_use *, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        size_t groups = entries[i].plan->groups.count;
        cuda->uses[i] = arena_new_array(arena, struct cuda_use, groups + 1);
        for (size_t g = 0; g < groups; g++) {
            const struct distinct *d = &s.list.items[find(&s, &entries[i].kernels[g])];
            cuda->uses[i][g] = (struct cuda_use){d->kernel, d->values};
        }
    }
    return kernels;
}
