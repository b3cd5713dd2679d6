/* How many workers run each command of an entry, and where they must meet. */
#include "runtime/rt.h"

#include <string.h>

/* Work that makes another worker worth while for a command: a barrier costs about as much as this many operations. */
#define RT_WORK_PER_WORKER 65536.0
/* Work of an entry that makes a team worth while: about 100 us on one thread. Below it the team would save less than it
 * costs to wake it up between two calls of the host (30 to 60 us). */
#define RT_WORK_OF_TEAM 1.6e7

static uint32_t command_workers(const struct stepc_command *c, uint32_t most)
{
    if (c->kind == STEPC_COLLECTIVE) return most;
    if (c->kind != STEPC_KERNEL) return 1;
    int64_t pieces = c->grain > 0 ? (c->extent + c->grain - 1) / c->grain : c->extent;
    if (c->gemm && c->gemm->prefer) pieces = c->gemm->batch * ((c->gemm->m + 7) / 8);
    double wanted = c->work / RT_WORK_PER_WORKER;
    uint32_t n = wanted < 1 ? 1 : wanted > (double)most ? most : (uint32_t)wanted;
    if (pieces < 1) pieces = 1;
    return (int64_t)n > pieces ? (uint32_t)pieces : n;
}

uint32_t rt_useful_workers(const struct stepc_program *p, uint32_t most)
{
    uint32_t n = 1;
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t i = 0; !p->entries[e].whole && p->entries[e].work >= RT_WORK_OF_TEAM && i < p->entries[e].command_count; i++) {
            const struct stepc_command *c = &p->entries[e].commands[i];
            uint32_t w = c->kind == STEPC_KERNEL ? command_workers(c, most) : 1;
            if (w > n) n = w;
        }
    return n;
}

/* A loop that holds nothing worth a team is run by worker 0 without any meeting. */
static void mark_solo(const struct stepc_entry *e, struct rt_command *commands)
{
    for (uint32_t i = 0; i < e->command_count; i++) {
        if (e->commands[i].kind != STEPC_LOOP_BEGIN) continue;
        bool solo = true;
        for (uint32_t k = i + 1; k < e->commands[i].other; k++)
            if (commands[k].workers > 1 || e->commands[k].kind == STEPC_COLLECTIVE) solo = false;
        commands[i].solo = commands[e->commands[i].other].solo = solo;
    }
}

/* A command that depends on earlier ones needs a meeting unless worker 0 alone ran them and runs it too. */
static void mark_sync(const struct stepc_entry *e, struct rt_command *commands)
{
    bool alone = true; /* since the last meeting only worker 0 did something */
    bool owed = false; /* a meeting was left out, so what worker 0 did before it is not known to the others */
    for (uint32_t i = 0; i < e->command_count; i++) {
        struct rt_command *c = &commands[i];
        bool loop = e->commands[i].kind == STEPC_LOOP_BEGIN || e->commands[i].kind == STEPC_LOOP_END;
        if (loop && !c->solo) { /* meets by itself */
            alone = true;
            owed = false;
            continue;
        }
        bool one = c->workers == 1;
        if (loop) c->sync = !alone && e->commands[i].kind == STEPC_LOOP_BEGIN; /* the others skip all of it */
        if (e->commands[i].kind == STEPC_COLLECTIVE) {
            alone = true; /* all devices meet before and after */
            owed = false;
            continue;
        }
        if (!loop) c->sync = (e->commands[i].barrier && !(alone && one)) || (owed && !one);
        owed = !c->sync && (owed || e->commands[i].barrier);
        if (c->sync) alone = true;
        if (!one) alone = false;
    }
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
        e->commands[i].microbatches = depth == 0 && c->kind <= STEPC_LOOP_END && c->kind >= STEPC_LOOP_BEGIN && c->place &&
                                      strncmp(c->place, "/accumulate", 11) == 0;
        if (c->kind == STEPC_LOOP_BEGIN) depth++;
    }
    mark_solo(table, e->commands);
    mark_sync(table, e->commands);
    return true;
}
