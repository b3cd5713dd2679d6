/* Transport "mpi": the devices of a mesh are those of several processes that a launcher started, each with an equal run
 * of them in mesh order. A plug-in moves the bytes (comm_plugin.h); here is that all do the same, and that nobody waits
 * for ever.
 *
 * Waiting: every message is polled against the time-out. Who has waited too long tells all the others and hears half
 * for half a second who answers: whoever waits too answers at once, and gives up as well. Those that do not answer are
 * stopped, gone or still computing, and are named. */
#include "runtime/comm_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RT_POLLS = 200, RT_LOOK_NS = 1000000, RT_IDLE_NS = 5000000, RT_ANSWER_NS = 500000000 };

/* ---------------------------------------------------------------- waiting */

const char *rt_rank_text(const struct rt_ranks *r, uint32_t rank, char *text, size_t size)
{
    const struct rt_rank *a = r->about ? &r->about[rank] : NULL;
    if (a && a->pid) snprintf(text, size, "rank %u (host %s, pid %d)", rank, a->host, a->pid);
    else snprintf(text, size, "rank %u", rank);
    return text;
}

void rt_ranks_tell(struct step_instance *t, uint32_t state, const char *text)
{
    struct rt_ranks *r = t->peers;
    struct stepc_notice mine = {.rank = r->rank, .state = state, .number = r->number};
    snprintf(mine.text, sizeof mine.text, "%s", text);
    r->broken |= state != STEPC_LEAVING;
    r->plugin->tell(r->world, &mine);
}

/* Where this rank is: "all_reduce #41 (/model: grad of dot)". */
static void place_text(const struct rt_ranks *r, char *text, size_t size)
{
    const struct stepc_command *c = atomic_load(&r->at);
    snprintf(text, size, "%s #%llu%s%s%s",
             c          ? rt_comm_kind(c)
             : r->doing ? r->doing
             : r->what  ? "exchange of host data"
                        : "agreement",
             (unsigned long long)r->number, c && c->place ? " (" : "", c && c->place ? c->place : "",
             c && c->place ? ")" : "");
}

/* One that waits too long, or heard of one: who answers, and who does not. */
static void lost(struct step_instance *t, uint64_t waited, const struct stepc_notice *first)
{
    struct rt_ranks *r = t->peers;
    char place[200], who[120], text[RT_TEXT / 2] = "";
    bool *here = calloc(r->ranks, 1);
    struct stepc_notice n;
    uint64_t until = rt_now() + RT_ANSWER_NS;
    uint32_t answers = 1;
    place_text(r, place, sizeof place);
    rt_ranks_tell(t, first ? STEPC_HERE : STEPC_GONE, place);
    if (here) here[r->rank] = true;
    if (here && first && first->rank < r->ranks) here[first->rank] = true, answers++;
    while (here && answers < r->ranks && rt_now() < until) {
        struct timespec pause = {0, RT_LOOK_NS};
        if (!r->plugin->heard(r->world, &n)) nanosleep(&pause, NULL);
        else if (n.rank < r->ranks && !here[n.rank]) here[n.rank] = true, answers++;
        r->plugin->poll(r->world); /* so that what is under way goes on */
    }
    size_t at = 0;
    for (uint32_t k = 0; here && k < r->ranks && at < sizeof text - 1; k++) {
        if (here[k]) continue;
        int length = snprintf(text + at, sizeof text - at, "\n  %s does not answer: stopped, gone or still computing",
                              rt_rank_text(r, k, who, sizeof who));
        if (length > 0) at += (size_t)length;
    }
    if (first)
        rt_give_up(t, STEP_EPEER, "%s %s %s, while this one was in %s at step %llu%s",
                   rt_rank_text(r, first->rank, who, sizeof who),
                   first->state == STEPC_LEAVING ? "has left" : "gave up in", first->text, place,
                   (unsigned long long)t->steps + 1, text);
    else
        rt_give_up(t, STEP_ETIMEOUT, "%s waited %llu ms at step %llu%s", place, (unsigned long long)waited / 1000000,
                   (unsigned long long)t->steps + 1, *text ? text : "; every rank waits for another one");
    free(here);
}

static bool plugin_failed(struct step_instance *t)
{
    struct rt_ranks *r = t->peers;
    rt_give_up(t, STEP_EPEER, "%s", r->plugin->why(r->world));
    rt_ranks_tell(t, STEPC_GONE, t->failure);
    return false;
}

bool rt_ranks_linked(struct step_instance *t)
{
    struct rt_ranks *r = t->peers;
    return r->plugin->poll(r->world) >= 0 || plugin_failed(t);
}

bool rt_ranks_look(struct step_instance *t, uint64_t waited)
{
    struct rt_ranks *r = t->peers;
    struct stepc_notice n;
    if (r->broken) return false;
    if (atomic_load(&t->failed)) {
        rt_ranks_tell(t, STEPC_GONE, t->failure);
        return false;
    }
    bool heard = r->plugin->heard(r->world, &n);
    bool late = t->timeout_ns && waited >= (uint64_t)t->timeout_ns;
    if (heard && n.state == STEPC_LEAVING) r->left = n, r->left_ns = rt_now(), r->left_count++;
    if (heard && n.state == STEPC_LEAVING) heard = false;
    if (r->left_ns && !r->leaving && rt_now() - r->left_ns > RT_ANSWER_NS && waited > RT_ANSWER_NS &&
        r->plugin->waits_for(r->world, r->left.rank))
        n = r->left, heard = true;
    if (heard || late) lost(t, waited, heard ? &n : NULL);
    return !heard && !late;
}

/* Until all messages have ended. Short waits keep the core, if there is one for everybody. */
static bool wait(struct step_instance *t)
{
    struct rt_ranks *r = t->peers;
    uint64_t begin = rt_now(), look = begin + RT_LOOK_NS, looked = begin;
    for (uint32_t polls = 0;; polls++) {
        int state = r->plugin->poll(r->world);
        if (state > 0) return true;
        if (state < 0) return plugin_failed(t);
        if (polls < RT_POLLS && !t->oversubscribed) continue;
        uint64_t now = rt_now();
        struct timespec pause = {0, 50000};
        if (now - begin > RT_IDLE_NS) nanosleep(&pause, NULL);
        else sched_yield();
        if (now < look) continue;
        look = now + RT_LOOK_NS;
        begin += rt_stood_still(&looked);
        if (!rt_ranks_look(t, now - begin)) return false;
    }
}

/* Of messages of the same thing only: who does another waits in vain, and is told so, rather than sums what it is not.
 */
static uint32_t tag_of(const struct step_instance *t)
{
    const struct rt_ranks *r = t->peers;
    const struct stepc_command *c = atomic_load(&r->at);
    uint64_t what = c ? (uint64_t)t->running * 8191 + (uint64_t)(c - t->entries[t->running].table->commands) + 1
                      : 4096 + (uint64_t)r->what;
    return (uint32_t)((r->number * 127 + what) % STEPC_TAGS);
}

int rt_ranks_exchange(struct step_instance *t, const struct stepc_message *messages, uint32_t count, bool *sent,
                      bool to_the_end)
{
    struct rt_ranks *r = t->peers;
    int state = 1;
    if (r->broken) {
        rt_give_up(t, STEP_EPEER, "a rank was lost before");
        return -1;
    }
    if (!count) return 1;
    if (!*sent && !r->plugin->start(r->world, messages, count, tag_of(t))) {
        rt_give_up(t, STEP_EPEER, "%s", r->plugin->why(r->world));
        return -1;
    }
    *sent = true;
    if (!to_the_end && (state = r->plugin->poll(r->world)) == 0) return 0;
    if ((to_the_end || state < 0) && !wait(t)) return -1;
    *sent = false;
    return 1;
}

static bool exchange(struct step_instance *t, const struct stepc_message *messages, uint32_t count)
{
    bool sent = false;
    return rt_ranks_exchange(t, messages, count, &sent, true) > 0;
}

/* ---------------------------------------------------------------- data of the host */

static step_status status_of(const struct step_instance *t) { return (step_status)atomic_load(&t->failed); }

static void begin(struct rt_ranks *r, uint32_t what)
{
    atomic_store(&r->at, NULL);
    r->what = what;
    r->number++;
}

step_status rt_ranks_gather(struct step_instance *t, uint32_t what, const void *mine, size_t bytes, void *all)
{
    struct rt_ranks *r = t->peers;
    struct stepc_message *m = malloc(2 * r->ranks * sizeof *m);
    uint32_t n = 0;
    if (!m) {
        rt_give_up(t, STEP_ENOMEM, "no memory to hear %u ranks", r->ranks);
        return STEP_ENOMEM;
    }
    memcpy((char *)all + r->rank * bytes, mine, bytes);
    for (uint32_t k = 0; k < r->ranks; k++) {
        if (k == r->rank) continue;
        m[n++] = (struct stepc_message){(char *)all + k * bytes, bytes, k, true};
        m[n++] = (struct stepc_message){(void *)(uintptr_t)mine, bytes, k, false};
    }
    begin(r, what);
    bool ok = exchange(t, m, n);
    free(m);
    return ok ? STEP_OK : status_of(t);
}

step_status rt_ranks_scatter(struct step_instance *t, uint32_t what, const void *all, size_t bytes, void *mine)
{
    struct rt_ranks *r = t->peers;
    bool ok = true;
    begin(r, what);
    if (r->rank) {
        struct stepc_message m = {mine, bytes, 0, true};
        ok = exchange(t, &m, 1);
    } else memcpy(mine, all, bytes);
    for (uint32_t k = 1; ok && !r->rank && k < r->ranks; k++) {
        struct stepc_message m = {(char *)(uintptr_t)all + k * bytes, bytes, k, false};
        ok = exchange(t, &m, 1);
    }
    return ok ? STEP_OK : status_of(t);
}

/* ---------------------------------------------------------------- agreement */

struct word {
    int32_t status;
    uint64_t steps, call;
    char text[240]; /* of what is wrong */
};

step_status rt_ranks_meet(struct step_instance *t, step_status mine, uint64_t call)
{
    struct rt_ranks *r = t->peers;
    struct word word = {.status = mine, .steps = t->steps, .call = call};
    char who[120];
    const char *name = rt_status_name(mine), *said = rt_last_error(NULL);
    if (mine) snprintf(word.text, sizeof word.text, "%s", strncmp(said, name, strlen(name)) ? name : said);
    struct word *all = malloc(r->ranks * sizeof *all);
    step_status status = all ? rt_ranks_gather(t, 0, &word, sizeof word, all) : STEP_ENOMEM;
    uint32_t worst = 0;
    for (uint32_t k = 1; !status && k < r->ranks; k++)
        if (all[k].status > all[worst].status) worst = k;
    if (!status && all[worst].status) {
        status = (step_status)all[worst].status;
        if (!mine) rt_fail(t, status, "%s: %s", rt_rank_text(r, worst, who, sizeof who), all[worst].text);
        free(all);
        return status;
    }
    for (uint32_t k = 1; !status && k < r->ranks; k++)
        if (all[k].call != all[0].call || all[k].steps != all[0].steps)
            status = rt_fail(
                t, STEP_EPEER,
                "%s makes another call, at step %llu, than rank 0, at step %llu: all ranks have to call the "
                "same with the same options, hyper-parameters and tensors",
                rt_rank_text(r, k, who, sizeof who), (unsigned long long)all[k].steps,
                (unsigned long long)all[0].steps);
    free(all);
    return status;
}
