/* The streams of nnx.Rngs: keys that are known when the document is compiled, and counters of draws. Keys are derived
 * by Threefry-2x32 in its partitionable form (Salmon et al. 2011, as jax.random uses it). */
#include "frontend/model/block.h"
#include <string.h>

static uint32_t rotate(uint32_t x, int n) { return x << n | x >> (32 - n); }

void fe_threefry(const uint32_t key[2], uint32_t x0, uint32_t x1, uint32_t out[2])
{
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t k[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
    x0 += k[0];
    x1 += k[1];
    for (uint32_t i = 0; i < 5; i++) {
        for (int j = 0; j < 4; j++) {
            x0 += x1;
            x1 = rotate(x1, turns[i & 1][j]) ^ x0;
        }
        x0 += k[(i + 1) % 3];
        x1 += k[(i + 2) % 3] + i + 1;
    }
    out[0] = x0;
    out[1] = x1;
}

static bool add_stream(struct fe *fe, const char *name, fe_json seed)
{
    int64_t value = 0; /* a wrong one is reported, and stands for itself: one mistake, one error */
    bool good = !seed || fe_integer(fe, seed, &value);
    struct fe_stream s = {.name = name, .key = {0, (uint32_t)value}}; /* JAX keeps 32 bits of a seed */
    vec_push(fe->arena, &fe->state->streams, s);
    return good;
}

/* A seed is one number for all streams, or a map of streams. */
static void read_streams(struct fe *fe)
{
    fe_json seed = fe_member(fe, fe_root(fe), "seed");
    fe->state->streams_read = true;
    if (seed && seed->kind == JSON_OBJECT)
        for (fe_json m = fe_first(fe, seed); m; m = fe_next(fe, m)) {
            if (!add_stream(fe, m->key, m)) return;
        }
    else add_stream(fe, "default", seed);
}

void fe_draw(struct fe *fe, const char *name, uint32_t *index, uint32_t *draw)
{
    if (!fe->state->streams_read) read_streams(fe);
    bool asked = false;
    for (size_t i = 0; i < fe->state->asked.count; i++) asked |= !strcmp(fe->state->asked.items[i], name);
    if (!asked) vec_push(fe->arena, &fe->state->asked, name);
    uint32_t found = UINT32_MAX, fallback = UINT32_MAX;
    for (uint32_t i = 0; i < fe->state->streams.count; i++) {
        const char *have = fe->state->streams.items[i].name;
        if (!strcmp(have, name)) found = i;
        if (!strcmp(have, "default")) fallback = i;
    }
    *index = found == UINT32_MAX ? fallback : found;
    *draw = 0;
    if (*index == UINT32_MAX) {
        fe_json seed = fe_member(fe, fe_root(fe), "seed");
        *index = 0;
        fe_error(fe, seed, "E0102", "\"seed\" has neither a stream \"%s\" nor a stream \"default\"", name);
        return;
    }
    *draw = fe->state->streams.items[*index].count++;
}

void fe_check_streams(struct fe *fe)
{
    fe_json seed = fe_member(fe, fe_root(fe), "seed");
    struct fe_state *state = fe->state;
    if (!seed || seed->kind != JSON_OBJECT) return;
    if (!state->streams_read) read_streams(fe);
    for (size_t i = 0; i < state->streams.count; i++) {
        const struct fe_stream *s = &state->streams.items[i];
        if (s->count || !str_nearest(s->name, state->asked.items, state->asked.count))
            continue; /* more streams than a model needs are usual */
        fe_json member = fe_member(fe, seed, s->name);
        struct diag *d = fe_warning(fe, member, "W0115", "nothing draws from the stream \"%s\"", s->name);
        d->span = (struct diag_span){member->key_offset, member->key_length};
        fe_suggest(fe, d, s->name, state->asked.items, state->asked.count);
    }
}

void fe_fork_key(const struct fe *fe, uint32_t stream, uint32_t draw, uint32_t key[2])
{
    static const struct fe_stream none;
    const struct fe_state *state = fe->state;
    const struct fe_stream *s = state && stream < state->streams.count ? &state->streams.items[stream] : &none;
    fe_threefry(s->key, 0, draw, key);
}
