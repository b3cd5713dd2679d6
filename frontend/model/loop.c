/* Loops over time: recurrent layers, losses over sequences. The step is traced once, whatever the number of times. */
#include "frontend/model/body.h"

/* So few times are faster one after the other (by a fifth at 2, a twentieth at 4, nothing at 8). */
enum { FEW_TIMES = 4, MOST_UNROLLED = 4096 };

static bool unrolled(struct fe_walk *w, fe_walk_step *step, void *user)
{
    struct fe_site *s = w->site;
    struct fe_val *all[FE_MAX_CARRIES];
    for (uint32_t i = 0; i < w->carries; i++) all[i] = arena_new_array(s->fe->arena, struct fe_val, w->times);
    for (int64_t turn = 0; turn < w->times; turn++) {
        struct fe_val now[FE_MAX_ROWS];
        int64_t time = w->backwards ? w->times - 1 - turn : turn;
        for (uint32_t i = 0; i < w->row_count; i++)
            now[i] = FE_APPLY(s, "squeeze", fe_slice_axis(s, w->rows[i], 0, time, time + 1), fe_int(0));
        step(user, w->carry, now);
        for (uint32_t i = 0; i < w->carries; i++) {
            if (w->carry[i].bad) return false;
            all[i][time] = w->carry[i];
        }
    }
    for (uint32_t i = 0; i < w->carries; i++) {
        w->all[i] = FE_APPLY(s, "stack", fe_tuple(s, all[i], (uint32_t)w->times), fe_int(0));
        if (w->all[i].bad) return false;
    }
    return true;
}

/* The step traced once on stand-ins. False: `failed`, or carries that change their type, which a loop cannot carry. */
static bool trace(struct fe_walk *w, fe_walk_step *step, void *user, struct fe_body *body, bool *failed)
{
    struct fe_site *s = w->site;
    struct ir_type types[FE_MAX_CARRIES + FE_MAX_ROWS];
    ir_value stand_in[FE_MAX_CARRIES + FE_MAX_ROWS], results[2 * FE_MAX_CARRIES];
    struct fe_val now[FE_MAX_ROWS], next[FE_MAX_CARRIES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->carries; i++) types[n++] = fe_type_at(s, &w->carry[i]);
    for (uint32_t i = 0; i < w->row_count; i++) {
        struct ir_type t = fe_type_at(s, &w->rows[i]);
        types[n++] = ir_type_of((enum ir_dtype)t.dtype, t.rank - 1u, t.dim + 1);
    }
    fe_stand_ins(s->fe, s->b, types, n, stand_in);
    for (uint32_t i = 0; i < w->carries; i++) next[i] = fe_tensor_val(stand_in[i], false);
    for (uint32_t i = 0; i < w->row_count; i++) now[i] = fe_tensor_val(stand_in[w->carries + i], false);
    step(user, next, now);
    for (uint32_t i = 0; i < w->carries; i++) {
        if ((*failed = next[i].bad || !fe_as_tensor(s, &next[i]))) return false;
        struct ir_type t = fe_type_at(s, &next[i]);
        if (!ir_type_equal(&t, &types[i])) return false;
        results[i] = results[w->carries + i] = next[i].tensor;
    }
    fe_body_begin(body, s->fe, s->b->f, "time", stand_in[0]);
    for (uint32_t i = 0; i < n; i++) fe_body_param(body, stand_in[i]);
    fe_body_end(body, results, 2 * w->carries);
    return true;
}

bool fe_walk(struct fe_walk *w, fe_walk_step *step, void *user)
{
    struct fe_site *s = w->site;
    struct fe_body body;
    for (uint32_t i = 0; i < w->carries; i++)
        if (!fe_as_tensor(s, &w->carry[i])) return false;
    for (uint32_t i = 0; i < w->row_count; i++)
        if (!fe_as_tensor(s, &w->rows[i])) return false;
    bool failed = false;
    if (w->times <= FEW_TIMES) return unrolled(w, step, user);
    if (!trace(w, step, user, &body, &failed)) {
        if (!failed && w->times > MOST_UNROLLED)
            fe_fail(s, "E0302", "what changes its dtype on the way through %lld times is not supported yet",
                    (long long)w->times);
        return !failed && w->times <= MOST_UNROLLED && unrolled(w, step, user);
    }
    uint32_t n = 0, captured = (uint32_t)body.captured.count;
    ir_value *args = arena_new_array(s->fe->arena, ir_value, FE_MAX_CARRIES + FE_MAX_ROWS + captured);
    for (uint32_t i = 0; i < w->carries; i++) args[n++] = w->carry[i].tensor;
    for (uint32_t i = 0; i < w->row_count; i++) args[n++] = w->rows[i].tensor;
    for (uint32_t i = 0; i < captured; i++) args[n++] = body.captured.items[i];
    ir_value tuple = ir_scan(s->b, body.b.f, w->times, w->backwards, args, w->carries, w->row_count, captured);
    for (uint32_t i = 0; i < w->carries; i++) {
        w->carry[i] = fe_tensor_val(ir_proj(s->b, tuple, i), false);
        w->all[i] = fe_tensor_val(ir_proj(s->b, tuple, w->carries + i), false);
    }
    return true;
}
