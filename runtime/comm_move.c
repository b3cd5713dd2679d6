/* What goes where in collectives: a table of them by how a member's operand is cut into pieces and how its result is
 * put together of such. Transports follow it, whatever carries the pieces. */
#include "runtime/comm_rows.h"

#include <string.h>

static const struct {
    char name[16];
    bool cut, joined; /* the operand into a part for each member; the result of a part of each */
    bool same;        /* every member gets the same */
} rows[] = {
    [STEPC_ALL_REDUCE] = {"all_reduce", false, false, true},
    [STEPC_ALL_GATHER] = {"all_gather", false, true, true},
    [STEPC_REDUCE_SCATTER] = {"reduce_scatter", true, false, false},
    [STEPC_ALL_TO_ALL] = {"all_to_all", true, true, false},
    [STEPC_PERMUTE] = {"permute", false, false, false},
    [STEPC_BROADCAST] = {"broadcast", false, false, true},
};

const char *rt_comm_kind(const struct stepc_command *c) { return rows[c->collective].name; }

int64_t rt_piece_count(const struct stepc_command *c, uint32_t members)
{
    return (int64_t)c->count / (rows[c->collective].cut ? members : 1);
}

bool rt_piece_same(const struct stepc_command *c) { return rows[c->collective].same; }

bool rt_piece_goes(const struct stepc_command *c, uint32_t members, uint32_t from, uint32_t to)
{
    if (c->collective == STEPC_PERMUTE && c->into) return from % c->into * (members / c->into) + from / c->into == to;
    if (c->collective == STEPC_PERMUTE) return (from + c->inner) % members == to;
    return c->collective != STEPC_BROADCAST || from == c->inner;
}

struct rt_spread rt_piece_from(const struct stepc_command *c, uint32_t members, uint32_t to)
{
    if (!rows[c->collective].cut) return (struct rt_spread){(int64_t)c->count, 1, 0};
    return (struct rt_spread){(int64_t)c->inner, members, to};
}

struct rt_spread rt_piece_into(const struct stepc_command *c, uint32_t members, uint32_t from)
{
    if (!rows[c->collective].joined) return (struct rt_spread){rt_piece_count(c, members), 1, 0};
    return (struct rt_spread){(int64_t)(c->collective == STEPC_ALL_TO_ALL ? c->into : c->inner), members, from};
}

int64_t rt_spread_run(struct rt_spread s, int64_t e, int64_t most, int64_t *at)
{
    int64_t within = e % s.inner, left = s.inner - within;
    *at = (e / s.inner * s.parts + s.index) * s.inner + within;
    return s.parts == 1 || left > most ? most : left;
}

void rt_piece_copy(char *to, struct rt_spread into, const char *from, struct rt_spread out, int64_t lo, int64_t hi,
                   uint32_t item)
{
    for (int64_t e = lo, read, write; e < hi;) {
        int64_t n = rt_spread_run(out, e, rt_spread_run(into, e, hi - e, &write), &read);
        memcpy(to + (size_t)write * item, from + (size_t)read * item, (size_t)n * item);
        e += n;
    }
}
