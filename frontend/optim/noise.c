/* Noise on the updates (Neelakantan et al. 2015): a Threefry key in the state, one subkey per parameter. */
#include "frontend/model.h"
#include "frontend/optim/optim.h"
#include <string.h>

/* A key as two uint32 scalars. */
struct key {
    ir_value word[2];
};

/* Part `index` of jax.random.split. */
static struct key part_of(struct ir_builder *b, struct key k, uint32_t index)
{
    ir_value none = ir_scalar(b, IR_U32, 0), at = ir_scalar(b, IR_U32, index);
    struct key part;
    for (uint32_t w = 0; w < 2; w++) part.word[w] = ir_threefry(b, k.word[0], k.word[1], none, at, w);
    return part;
}

/* The key in the state; its next value is the first part of a split, and the second is returned. */
static struct key next_key(struct transform *t, const char *argument)
{
    static const int64_t two[] = {2}, one[] = {1}, step[] = {1};
    struct ir_builder *b = t->b;
    uint32_t *start = arena_new_array(t->fe->arena, uint32_t, 2);
    start[1] = (uint32_t)arg(t, argument)->integer;
    struct term state = optim_state(t, "rng_key", ir_type_of(IR_U32, 1, two), (struct start){.data = start});
    struct key k;
    ir_value words[2];
    for (int64_t i = 0; i < 2; i++) {
        int64_t limit = i + 1;
        k.word[i] = ir_reshape(b, ir_slice(b, state.v, &i, &limit, step), 0, NULL);
    }
    struct key carry = part_of(b, k, 0);
    for (uint32_t i = 0; i < 2; i++) words[i] = ir_reshape(b, carry.word[i], 1, one);
    optim_state_set(t, "rng_key", T(ir_concat(b, words, 2, 0)));
    return part_of(b, k, 1);
}

/* Parameter paths by their segments, numbers by value: the order of the leaves of a tree. */
static int compare_paths(const char *x, const char *y)
{
    while (*x && *y) {
        size_t n = strcspn(x, "."), m = strcspn(y, ".");
        bool digits = strspn(x, "0123456789") == n && strspn(y, "0123456789") == m;
        if (digits && n != m) return n < m ? -1 : 1;
        int order = strncmp(x, y, n < m ? n : m);
        if (order || n != m) return order ? order : n < m ? -1 : 1;
        x += n + (x[n] == '.'), y += m + (y[m] == '.');
    }
    return *x ? 1 : *y ? -1 : 0;
}

/* g + sqrt(eta / count**gamma) * N(0, 1) */
void transform_add_noise(struct transform *t)
{
    struct ir_builder *b = t->b;
    struct term count = optim_increment(b, counter(t, "count"));
    struct term deviation = term_sqrt(b, term_div(b, number(t, "eta"), term_pow(b, count, number(t, "gamma"))));
    struct key sample = next_key(t, "key");
    EACH_LEAF(t, i)
    {
        uint32_t rank = 0; /* among the leaves */
        for (uint32_t k = 0; k < t->count; k++)
            rank += t->u[k] && compare_paths(t->o->params[k].path, t->o->params[i].path) < 0;
        struct key own = part_of(b, sample, rank);
        struct term noise = T(fe_normal(b, own.word[0], own.word[1], &t->o->params[i].type)), u = T(t->u[i]);
        t->u[i] = term_add(b, u, term_mul(b, deviation, term_cast_like(b, noise, u))).v;
    }
    optim_state_set(t, "count", count);
}
