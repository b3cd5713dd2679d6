/* The commands of entries: unpacked (step_abi.h); how many workers run each, how it is shared, and what it waits for.
 */
#include "runtime/rt.h"

#include <math.h>
#include <string.h>

/* Where the next indices and ends go. */
struct arrays {
    uint32_t *buffers;
    int64_t *ends;
};

static void unpack_kernel(const struct stepc_program *p, struct stepc_command *c, struct arrays *to,
                          const unsigned char **at)
{
    float work;
    uint64_t kernel = rt_packed_number(at), gemm = rt_packed_number(at);
    if (kernel) c->kernel = p->kernels[kernel - 1];
    if (gemm) c->gemm = &p->gemms[gemm - 1];
    c->buffer_count = (uint32_t)rt_packed_number(at);
    c->buffers = to->buffers;
    for (uint32_t i = 0; i < c->buffer_count; i++) *to->buffers++ = (uint32_t)rt_packed_number(at);
    c->extent = (int64_t)rt_packed_number(at);
    c->grain = (int64_t)rt_packed_number(at);
    memcpy(&work, *at, sizeof work);
    *at += sizeof work;
    c->work = (double)work;
    c->members = (uint32_t)rt_packed_number(at);
    c->ends = to->ends;
    for (uint32_t i = 0; c->members > 1 && i < c->members; i++) *to->ends++ = (int64_t)rt_packed_number(at);
}

static bool unpack_collective(struct step_instance *t, struct stepc_command *c, struct arrays *to,
                              const unsigned char **at)
{
    c->collective = *(*at)++;
    c->reduction = *(*at)++;
    c->dtype = *(*at)++;
    c->axes = (uint32_t)rt_packed_number(at);
    c->members = (uint32_t)rt_packed_number(at);
    c->buffers = to->buffers;
    c->buffer_count = 2 * c->members;
    struct stepc_command *regions = c->members > 1 ? rt_alloc(t, c->members * sizeof *regions) : c;
    if (!regions) return false;
    for (uint32_t m = 0; m < c->members; m++) {
        struct stepc_command *r = &regions[m];
        if (r != c) *r = *c, r->whole = c, r->region = m;
        for (int i = 0; i < 2; i++) *to->buffers++ = (uint32_t)rt_packed_number(at);
        r->count = rt_packed_number(at);
        r->inner = rt_packed_number(at);
        r->into = rt_packed_number(at);
    }
    c->regions = regions;
    return true;
}

static bool unpack_command(struct step_instance *t, struct stepc_command *c, struct arrays *to,
                           const unsigned char **at)
{
    const struct stepc_program *p = t->program;
    unsigned bits = *(*at)++;
    c->kind = bits & 3;
    c->barrier = bits >> 2 & 1;
    c->late = bits >> 3 & 1;
    c->half = (uint8_t)(bits >> 4);
    if (c->kind == STEPC_KERNEL) {
        unpack_kernel(p, c, to, at);
        return true;
    }
    if (c->half == STEPC_WAITS) {
        c->other = (uint32_t)rt_packed_number(at);
        return true;
    }
    if (c->kind == STEPC_COLLECTIVE) {
        if (!unpack_collective(t, c, to, at)) return false;
    } else {
        c->counter = (uint32_t)rt_packed_number(at);
        c->limit = (uint32_t)rt_packed_number(at);
        c->flag = (uint32_t)rt_packed_number(at) - 1;
        c->other = (uint32_t)rt_packed_number(at);
    }
    c->place = (const char *)*at;
    *at += strlen(c->place) + 1;
    return true;
}

bool rt_unpack_commands(struct step_instance *t, struct stepc_entry *entries, const unsigned char *at)
{
    const struct stepc_program *p = t->program;
    uint64_t buffers = rt_packed_number(&at), ends = rt_packed_number(&at), count = 0;
    for (uint32_t e = 0; e < p->entry_count; e++) count += entries[e].command_count;
    struct stepc_command *commands = rt_alloc(t, count * sizeof *commands);
    struct arrays to = {rt_alloc(t, buffers * sizeof *to.buffers), rt_alloc(t, ends * sizeof *to.ends)};
    if (!commands || !to.buffers || !to.ends) return false;
    for (uint32_t e = 0; e < p->entry_count; e++) {
        entries[e].commands = commands;
        for (uint32_t i = 0; i < entries[e].command_count; i++)
            if (!unpack_command(t, commands++, &to, &at)) return false;
    }
    return true;
}

/* Work that makes another worker worth while for a command: a barrier costs about as much as this many operations. */
#define RT_WORK_PER_WORKER 65536.0
/* More of them share the work better among workers that do not all have a core; fewer reuse more of what is packed, and
 * taking one costs a fraction of a barrier. */
enum { RT_CHUNKS_PER_WORKER = 4 };
#define RT_WORK_PER_CHUNK (2 * RT_WORK_PER_WORKER)
/* Work of an entry that makes a team worth while: about 40 us on one thread. Workers stay awake for as long between two
 * calls of the host; where the host takes longer, waking them up (30 to 60 us) may cost what they save. Of it, what a
 * team saves at least. */
#define RT_WORK_OF_TEAM 3e6
#define RT_SAVED_BY_TEAM 1e6
/* In an iteration of a loop what one worker has made is what the others want next: they meet and fetch it. */
#define RT_WORK_PER_MEETING (3.5 * RT_WORK_PER_WORKER)

static int64_t command_pieces(const struct stepc_command *c)
{
    int64_t pieces = c->grain > 0 ? (c->extent + c->grain - 1) / c->grain : c->extent;
    if (c->members > 1) pieces = pieces > c->members ? pieces : c->members;
    if (c->gemm && c->gemm->prefer) pieces = c->gemm->batch * ((c->gemm->m + 7) / 8);
    return pieces < 1 ? 1 : pieces;
}

static uint32_t command_workers(const struct stepc_command *c, uint32_t most)
{
    if (c->kind == STEPC_COLLECTIVE) return most;
    if (c->kind != STEPC_KERNEL) return 1;
    int64_t pieces = command_pieces(c);
    double wanted = c->work / RT_WORK_PER_WORKER;
    uint32_t n = wanted < 1 ? 1 : wanted > (double)most ? most : (uint32_t)wanted;
    return (int64_t)n > pieces ? (uint32_t)pieces : n;
}

/* Work that up to `most` workers save between commands `first` and `end`, and how often they meet there: of a loop that
 * is worth a team itself, whose iterations are not known, any amount. */
static double saved_work(const struct stepc_entry *e, uint32_t first, uint32_t end, uint32_t most, double *meetings)
{
    double saved = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct stepc_command *c = &e->commands[i];
        double of_loop = 0;
        if (c->kind == STEPC_COLLECTIVE) return INFINITY;
        *meetings += c->barrier;
        if (c->kind == STEPC_KERNEL) saved += c->work * (1 - 1.0 / command_workers(c, most));
        if (c->kind != STEPC_LOOP_BEGIN) continue;
        if (saved_work(e, i + 1, c->other, most, &of_loop) > of_loop * RT_WORK_PER_MEETING) return INFINITY;
        i = c->other;
    }
    return saved;
}

uint32_t rt_useful_workers(const struct stepc_program *p, uint32_t most)
{
    uint32_t n = 1;
    for (const struct stepc_entry *e = p->entries; e < p->entries + p->entry_count; e++) {
        double meetings = 0;
        if (e->whole || e->work < RT_WORK_OF_TEAM) continue;
        if (saved_work(e, 0, e->command_count, most, &meetings) < RT_SAVED_BY_TEAM) continue;
        for (uint32_t i = 0; i < e->command_count; i++) {
            uint32_t w = e->commands[i].kind == STEPC_KERNEL ? command_workers(&e->commands[i], most) : 1;
            if (w > n) n = w;
        }
    }
    return n;
}

/* A loop in which a team saves less than its meetings cost is run by worker 0 without any. */
static void mark_solo(const struct stepc_entry *e, struct rt_command *commands, uint32_t most)
{
    for (uint32_t i = 0; i < e->command_count; i++) {
        double meetings = 0;
        if (e->commands[i].kind != STEPC_LOOP_BEGIN) continue;
        bool solo = saved_work(e, i + 1, e->commands[i].other, most, &meetings) <= meetings * RT_WORK_PER_MEETING;
        commands[i].solo = commands[e->commands[i].other].solo = solo;
    }
}

/* How finely commands are shared, and what waits. What a loop of worker 0 did is waited for by whatever follows it. */
static void mark_chunks(const struct stepc_entry *e, struct rt_command *commands)
{
    uint32_t inside = 0; /* the end of a loop that worker 0 runs alone */
    for (uint32_t i = 0; i < e->command_count; i++) {
        const struct stepc_command *table = &e->commands[i];
        struct rt_command *c = &commands[i];
        if (inside && i <= inside) continue; /* its commands and its end */
        bool solo = table->kind == STEPC_LOOP_BEGIN && c->solo;
        c->sync = table->barrier || solo || (inside && i == inside + 1);
        if (solo) {
            c->chunks = 1;
            inside = table->other;
        } else if (table->kind == STEPC_KERNEL) {
            double each = table->work / c->workers / RT_WORK_PER_CHUNK;
            int64_t pieces = command_pieces(table), most = RT_CHUNKS_PER_WORKER;
            int64_t chunks = c->workers * (each < 1 ? 1 : each < (double)most ? (int64_t)each : most);
            c->chunks = c->workers == 1 ? 1 : (uint32_t)(chunks < pieces ? chunks : pieces);
        }
    }
}

/* The parts of a step that may be refused wait for what the whole would wait for. */
static void mark_parts(struct step_instance *t, const struct rt_entry *e)
{
    bool sync[2] = {false, false}, late = false;
    for (uint32_t i = 0; i < e->table->command_count; i++) {
        uint8_t part = e->table->commands[i].late;
        sync[0] |= e->commands[i].sync;
        sync[1] |= e->commands[i].sync;
        e->commands[i].part_sync = sync[part];
        sync[part] = false;
        late |= part;
    }
    if (!late || !t->device_ops->shared) return;
    for (uint32_t i = 0; i < e->table->command_count; i++)
        for (uint32_t k = 0; e->table->commands[i].late && k < e->table->commands[i].buffer_count; k++) {
            uint32_t space = e->table->buffers[e->table->commands[i].buffers[k]].space;
            if (space == STEPC_AT_RESULT) t->late_not = STEP_COMPUTE;
            if (space == STEPC_AT_INPUT) t->late_inputs = true;
        }
    t->late = RT_LATE_ALL;
    for (uint32_t i = 0; i < e->table->buffer_count; i++)
        if (e->table->buffers[i].space == STEPC_AT_EARLY) t->late = RT_LATE_SOME;
}

bool rt_plan_commands(struct step_instance *t, struct rt_entry *e)
{
    const struct stepc_entry *table = e->table;
    e->commands = rt_alloc(t, table->command_count * sizeof *e->commands);
    if (!e->commands) return false;
    uint32_t depth = 0;
    for (uint32_t i = 0; i < table->command_count; i++) {
        const struct stepc_command *c = &table->commands[i];
        e->commands[i].arguments = e->pointer_count;
        e->commands[i].workers = command_workers(c, t->threads);
        e->pointer_count += c->buffer_count;
        if (c->kind == STEPC_LOOP_END) depth--;
        e->commands[i].microbatches = depth == 0 && c->kind <= STEPC_LOOP_END && c->kind >= STEPC_LOOP_BEGIN &&
                                      c->place && strncmp(c->place, "/accumulate", 11) == 0;
        if (c->kind == STEPC_LOOP_BEGIN) depth++;
    }
    mark_solo(table, e->commands, t->threads);
    mark_chunks(table, e->commands);
    mark_parts(t, e);
    return true;
}
