/* Loads and stores of neighbours, of which a GPU makes one access of up to 16 bytes: what a product's operand has on
 * its way to shared memory, what becomes of a thread's sums, channels of a pixel. A run begins where its number of
 * elements divides the place, in memory that begins so. */
#include "codegen/cuda/cuda.h"

static bool may_join(const struct nest *nest, const struct nest_stmt *s, enum nest_kind kind,
                     const struct cuda_calls *calls)
{
    return s->kind == kind && !s->word && s->buffer < nest->argument_count && calls->aligned[s->buffer];
}

/* Of a run, the last one in the body; NULL: between them is what may read what they store, or the other way round. */
static const struct nest_stmt *last_of(const struct nest *nest, const struct nest_stmt *loop,
                                       const struct cuda_calls *calls, const struct nest_stmt **run, int64_t count)
{
    const struct nest_stmt *last = NULL;
    bool stores = run[0]->kind == NEST_STORE,
         alone = !stores && !calls->shares[run[0]->buffer] && !nest->buffers.items[run[0]->buffer].written;
    int64_t found = 0;
    for (size_t i = 0; i < loop->body.count && found < count; i++) {
        const struct nest_stmt *s = loop->body.items[i];
        bool meets = stores ? s->kind == NEST_LOAD : s->kind == NEST_STORE || s->kind == NEST_ADD_TO, of_run = false;
        if (found && !alone && (meets || s->body.count)) return NULL;
        for (int64_t at = 0; at < count; at++) of_run = of_run || run[at] == s;
        if (of_run) last = s, found++;
    }
    return last;
}

static bool begins(const struct nest_stmt *s, int64_t count)
{
    bool whole = s->index.offset % count == 0;
    for (uint32_t i = 0; i < s->index.term_count; i++) whole = whole && s->index.terms[i].scale % count == 0;
    for (uint32_t i = 0; i < s->index.scaled_count; i++) whole = whole && s->index.scaled[i].scale % count == 0;
    return whole;
}

static bool is_behind(const struct nest_stmt *a, const struct nest_stmt *b, int64_t distance)
{
    const struct nest_index *x = &a->index, *y = &b->index;
    if (a->buffer != b->buffer || a->cond != b->cond || x->term_count != y->term_count ||
        x->scaled_count != y->scaled_count || y->offset - x->offset != distance)
        return false;
    for (uint32_t i = 0; i < x->term_count; i++)
        if (x->terms[i].var != y->terms[i].var || x->terms[i].scale != y->terms[i].scale) return false;
    for (uint32_t i = 0; i < x->scaled_count; i++)
        if (x->scaled[i].value != y->scaled[i].value || x->scaled[i].scale != y->scaled[i].scale) return false;
    return true;
}

/* The loads, or stores, of `count` neighbours from this one on, itself first; false: they are not all there. */
static bool find(const struct nest *nest, const struct nest_stmt *loop, const struct cuda_calls *calls, size_t from,
                 int64_t count, const struct nest_stmt **run)
{
    for (int64_t at = 0; at < count; at++) {
        run[at] = NULL;
        for (size_t i = from; i < loop->body.count && !run[at]; i++) {
            const struct nest_stmt *s = loop->body.items[i];
            if (may_join(nest, s, loop->body.items[from]->kind, calls) && is_behind(loop->body.items[from], s, at))
                run[at] = s;
        }
        if (!run[at]) return false;
    }
    return true;
}

/* 1: it is alone. */
static int64_t longest(const struct nest *nest, const struct nest_stmt *loop, const struct cuda_calls *calls,
                       size_t from, const struct nest_stmt **run)
{
    const struct nest_stmt *s = loop->body.items[from];
    int64_t count = CUDA_ACCESS / (int64_t)ir_dtype_bytes((enum ir_dtype)nest->buffers.items[s->buffer].dtype);
    while (count > 1 &&
           (!begins(s, count) || !find(nest, loop, calls, from, count, run) || !last_of(nest, loop, calls, run, count)))
        count /= 2;
    return count;
}

void cuda_find_runs(const struct nest *nest, const struct nest_stmt *loop, const struct cuda_calls *calls,
                    struct cuda_run *by_value)
{
    const struct nest_stmt *run[CUDA_ACCESS];
    for (size_t i = 0; calls->aligned && calls->shares && i < loop->body.count; i++) {
        const struct nest_stmt *s = loop->body.items[i];
        if (!may_join(nest, s, NEST_LOAD, calls) || by_value[s->result].first) continue;
        int64_t count = longest(nest, loop, calls, i, run);
        for (int64_t at = 0; at < count && count > 1; at++)
            by_value[run[at]->result] = (struct cuda_run){s->result, (uint32_t)at, (uint32_t)count};
    }
}

static bool is_stored(const cuda_stores *stores, const struct nest_stmt *s)
{
    for (size_t i = 0; i < stores->count; i++)
        if (stores->items[i].stmt == s) return true;
    return false;
}

void cuda_find_stores(const struct nest *nest, const struct nest_stmt *loop, const struct cuda_calls *calls,
                      struct arena *arena, cuda_stores *stores)
{
    const struct nest_stmt *run[CUDA_ACCESS];
    stores->count = 0;
    for (size_t i = 0; calls->aligned && i < loop->body.count; i++) {
        const struct nest_stmt *s = loop->body.items[i];
        if (!may_join(nest, s, NEST_STORE, calls) || is_stored(stores, s)) continue;
        int64_t count = longest(nest, loop, calls, i, run);
        const struct nest_stmt *last = count > 1 ? last_of(nest, loop, calls, run, count) : NULL;
        for (int64_t at = 0; at < count && last; at++) {
            struct cuda_stored one = {run[at], run[0], (uint32_t)at, (uint32_t)count, run[at] == last};
            vec_push(arena, stores, one);
        }
    }
}
