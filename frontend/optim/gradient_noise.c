/* Random keys in the state, one subkey per parameter; noise on the updates (Neelakantan et al. 2015). */
#include "frontend/model/init.h"
#include "frontend/optim/optim.h"
#include <string.h>

/* Part `index` of jax.random.split. */
static struct optim_key part_of(struct ir_builder *b, struct optim_key k, uint32_t index)
{
    ir_value none = ir_scalar(b, IR_U32, 0), at = ir_scalar(b, IR_U32, index);
    struct optim_key part;
    for (uint32_t w = 0; w < 2; w++) part.word[w] = ir_threefry(b, k.word[0], k.word[1], none, at, w);
    return part;
}

struct optim_key optim_carried_key(struct optim_transform *t, const char *name, int64_t seed)
{
    static const int64_t two[] = {2}, one[] = {1}, step[] = {1};
    struct ir_builder *b = t->b;
    uint32_t *start = arena_new_array(t->fe->arena, uint32_t, 2);
    start[1] = (uint32_t)seed;
    struct fe_term state = optim_state(t, name, ir_type_of(IR_U32, 1, two), (struct optim_start){.data = start});
    struct optim_key k;
    ir_value words[2];
    for (int64_t i = 0; i < 2; i++) {
        int64_t limit = i + 1;
        k.word[i] = ir_reshape(b, ir_slice(b, state.v, &i, &limit, step), 0, NULL);
    }
    struct optim_key carry = part_of(b, k, 0);
    for (uint32_t i = 0; i < 2; i++) words[i] = ir_reshape(b, carry.word[i], 1, one);
    optim_state_set(t, name, T(ir_concat(b, words, 2, 0)));
    return k;
}

struct optim_key optim_next_key(struct optim_transform *t, const char *name, int64_t seed)
{
    return part_of(t->b, optim_carried_key(t, name, seed), 1);
}

struct optim_key optim_leaf_key_from(struct optim_transform *t, struct optim_key key, uint32_t leaf, uint32_t first)
{
    return part_of(t->b, key, first + optim_rank(t, leaf));
}

struct optim_key optim_leaf_key(struct optim_transform *t, struct optim_key key, uint32_t leaf)
{
    return optim_leaf_key_from(t, key, leaf, 0);
}

/* g + sqrt(eta / count**gamma) * N(0, 1) */
void transform_add_noise(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term count = optim_increment(b, counter(t, "count"));
    struct fe_term deviation = term_sqrt(b, term_div(b, number(t, "eta"), term_pow(b, count, number(t, "gamma"))));
    if (arg(t, "key")->json && !absent(t, "seed")) {
        fe_error_key(t->fe, arg(t, "seed")->json, "E0103", "\"key\" and \"seed\" are two names of one argument");
        return;
    }
    struct optim_key sample = optim_next_key(t, "rng_key", arg(t, absent(t, "seed") ? "key" : "seed")->integer);
    EACH_LEAF(t, i) {
        struct optim_key own = optim_leaf_key(t, sample, i);
        struct fe_term noise = T(fe_normal(b, own.word[0], own.word[1], ir_type(b->f, t->u[i]))), u = T(t->u[i]);
        t->u[i] = term_add(b, u, term_mul(b, deviation, term_cast_like(b, noise, u))).v;
    }
    optim_state_set(t, "count", count);
}
