/* Loads of neighbours, of which a GPU makes one access of up to 16 bytes: what a product's operand has on its way to
 * shared memory, channels of a pixel. A run begins where its number of elements divides the place, in memory that
 * begins so. */
#include "codegen/cuda/cuda.h"

/* Of memory that nobody writes meanwhile, since the run's loads become one. */
static bool may_join(const struct nest *nest, const struct nest_stmt *s, const struct cuda_calls *calls)
{
    if (s->kind != NEST_LOAD || s->word || s->buffer >= nest->argument_count) return false;
    return calls->aligned[s->buffer] && !calls->shares[s->buffer] && !nest->buffers.items[s->buffer].written;
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

/* The loads of `count` neighbours from this one on, itself first; false: they are not all there. */
static bool find(const struct nest *nest, const struct nest_stmt *loop, const struct cuda_calls *calls, size_t from,
                 int64_t count, const struct nest_stmt **run)
{
    for (int64_t at = 0; at < count; at++) {
        run[at] = NULL;
        for (size_t i = from; i < loop->body.count && !run[at]; i++) {
            const struct nest_stmt *s = loop->body.items[i];
            if (may_join(nest, s, calls) && is_behind(loop->body.items[from], s, at)) run[at] = s;
        }
        if (!run[at]) return false;
    }
    return true;
}

void cuda_find_runs(const struct nest *nest, const struct nest_stmt *loop, const struct cuda_calls *calls,
                    struct cuda_run *by_value)
{
    const struct nest_stmt *run[CUDA_ACCESS];
    for (size_t i = 0; calls->aligned && calls->shares && i < loop->body.count; i++) {
        const struct nest_stmt *s = loop->body.items[i];
        if (!may_join(nest, s, calls) || by_value[s->result].first) continue;
        int64_t count = CUDA_ACCESS / (int64_t)ir_dtype_bytes((enum ir_dtype)nest->buffers.items[s->buffer].dtype);
        while (count > 1 && (!begins(s, count) || !find(nest, loop, calls, i, count, run))) count /= 2;
        if (count < 2) continue;
        for (int64_t at = 0; at < count; at++)
            by_value[run[at]->result] = (struct cuda_run){s->result, (uint32_t)at, (uint32_t)count};
    }
}
