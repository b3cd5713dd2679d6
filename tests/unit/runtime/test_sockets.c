/* Messages between processes that meet through a file (comm_socket.c): here every rank is a thread. Messages of any
 * size arrive whole, whether they were asked for before or after, in the order of their tag; who ends is named, unless
 * it said so; a file of an earlier run misleads nobody; and ranks that cannot be are told so. */
#include "runtime/comm_ranks.h"
#include "tests/unit/suite.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, ROUNDS = 40, LONGEST = 300000 };
static const int64_t patience = 20000000000;

struct rank {
    pthread_t thread;
    const char *path;
    uint32_t number, ranks;
    const struct stepc_plugin *plugin;
    void *world;
    char why[200];
};

static void open_rank(struct rank *r)
{
    r->plugin = rt_socket_open(r->path, r->number, r->ranks, patience, &r->world, r->why, sizeof r->why);
}

static bool done(struct rank *r)
{
    uint64_t until = rt_now() + (uint64_t)patience;
    int state = 0;
    while (!state && rt_now() < until)
        if (!(state = r->plugin->poll(r->world))) usleep(50);
    return state > 0;
}

static void run_all(struct rank *ranks, uint32_t count, void *(*what)(void *))
{
    char path[] = "/tmp/stepc-sockets-XXXXXX";
    int file = mkstemp(path); /* it is there before, and names nobody */
    ck_assert(file >= 0 && write(file, "nobody", 6) == 6 && close(file) == 0);
    for (uint32_t k = 0; k < count; k++) {
        ranks[k] = (struct rank){.path = path, .number = k, .ranks = count};
        ck_assert_int_eq(pthread_create(&ranks[k].thread, NULL, what, &ranks[k]), 0);
    }
    for (uint32_t k = 0; k < count; k++) pthread_join(ranks[k].thread, NULL);
    unlink(path);
}

/* ---------------------------------------------------------------- messages */

static uint64_t size_of(uint32_t round, uint32_t from, uint32_t to)
{
    return round % 7 == 3 ? 0 : (round * 7919u + from * 104729u + to * 31u) % (round % 5 == 4 ? LONGEST : 100);
}

static char byte_of(uint32_t round, uint32_t from, uint64_t at) { return (char)(round * 3 + from * 5 + at * 7); }

/* Rank 0 asks late, so that messages wait for it; the others send the next round as soon as they can. */
static void *exchange(void *of)
{
    struct rank *r = of;
    struct stepc_message m[2 * RANKS];
    open_rank(r);
    ck_assert_msg(r->plugin, "rank %u: %s", r->number, r->why);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t n = 0;
        if (!r->number && round % 9 == 4) usleep(3000);
        for (uint32_t k = 0; k < r->ranks; k++) {
            if (k == r->number) continue;
            uint64_t in = size_of(round, k, r->number), out = size_of(round, r->number, k);
            m[n++] = (struct stepc_message){malloc(in + 1), in, k, true};
            m[n++] = (struct stepc_message){malloc(out + 1), out, k, false};
            for (uint64_t i = 0; i < out; i++) ((char *)m[n - 1].data)[i] = byte_of(round, r->number, i);
        }
        ck_assert(r->plugin->start(r->world, m, n, round));
        ck_assert_msg(done(r), "rank %u, round %u: %s", r->number, round, r->plugin->why(r->world));
        for (uint32_t i = 0; i < n; i++) {
            uint64_t at = 0;
            while (m[i].receive && at < m[i].bytes && ((char *)m[i].data)[at] == byte_of(round, m[i].peer, at)) at++;
            ck_assert_uint_eq(at, m[i].receive ? m[i].bytes : 0);
            free(m[i].data);
        }
    }
    struct stepc_notice leaving = {.rank = r->number, .state = STEPC_LEAVING}, n;
    uint32_t heard = 0;
    r->plugin->tell(r->world, &leaving);
    for (uint64_t until = rt_now() + (uint64_t)patience; heard + 1 < r->ranks && rt_now() < until;) {
        if (!r->plugin->heard(r->world, &n)) continue;
        ck_assert_int_eq(n.state, STEPC_LEAVING);
        heard++;
    }
    ck_assert_int_eq(heard, r->ranks - 1);
    r->plugin->close(r->world, true);
    return NULL;
}

START_TEST(all_arrives)
{
    struct rank ranks[RANKS];
    run_all(ranks, RANKS, exchange);
    run_all(ranks, 1, exchange);
}
END_TEST

/* ---------------------------------------------------------------- what goes wrong */

static void *end_early(void *of)
{
    struct rank *r = of;
    char data[8] = {0};
    open_rank(r);
    ck_assert_msg(r->plugin, "rank %u: %s", r->number, r->why);
    if (r->number == 1) { /* what it has sent arrives all the same */
        struct stepc_message m[] = {{data, sizeof data, 0, false}, {data, sizeof data, 2, false}};
        ck_assert(r->plugin->start(r->world, m, 2, 1));
        ck_assert(done(r));
        r->plugin->close(r->world, false);
        return NULL;
    }
    usleep(20000);
    struct stepc_message m = {data, sizeof data, 1, true};
    ck_assert(r->plugin->start(r->world, &m, 1, 1));
    ck_assert(done(r));
    ck_assert(r->plugin->start(r->world, &m, 1, 2));
    ck_assert(r->plugin->waits_for(r->world, 1));
    ck_assert(!done(r));
    ck_assert_str_eq(r->plugin->why(r->world), "rank 1 has ended: its connection is closed");
    r->plugin->close(r->world, false);
    return NULL;
}

static void *wrong_size(void *of)
{
    struct rank *r = of;
    char data[16] = {0};
    open_rank(r);
    ck_assert_msg(r->plugin, "rank %u: %s", r->number, r->why);
    struct stepc_message m[] = {{data, 8 + 8 * r->number, 1 - r->number, false}, {data, 8, 1 - r->number, true}};
    ck_assert(r->plugin->start(r->world, m, 2, 1) || !r->number);
    if (!r->number) {
        ck_assert(!done(r));
        ck_assert_str_eq(r->plugin->why(r->world), "rank 1 sends 16 bytes where 8 are expected");
    } else done(r);
    r->plugin->close(r->world, false);
    return NULL;
}

static void *second_of_two(void *of)
{
    struct rank *r = of;
    r->number = r->number ? 2 : 0; /* of three, of which one does not come, and one twice */
    r->ranks = 3;
    const int64_t soon = 1000000000;
    r->plugin = rt_socket_open(r->path, r->number, r->ranks, soon, &r->world, r->why, sizeof r->why);
    ck_assert(!r->plugin);
    return NULL;
}

START_TEST(who_ends_is_named)
{
    struct rank ranks[3];
    run_all(ranks, 3, end_early);
    run_all(ranks, 2, wrong_size);
}
END_TEST

START_TEST(who_does_not_come)
{
    struct rank ranks[3];
    run_all(ranks, 2, second_of_two);
    ck_assert_str_eq(ranks[0].why, "2 of 3 ranks came: Connection timed out");
    run_all(ranks, 3, second_of_two);
    ck_assert_str_eq(ranks[0].why, "rank 2 of 3 came to 3 ranks, which is wrong, or one too many");
}
END_TEST

int main(void) { return run_case("sockets", CASE_OF(240, all_arrives, who_ends_is_named, who_does_not_come)); }
