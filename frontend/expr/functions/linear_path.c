/* The order in which einsum contracts its operands, pair by pair: the one with the fewest operations, of equal ones the
 * first in the order of the operands, as opt_einsum's `optimal` path has it, which JAX takes for up to four of them
 * (Daniel Smith and Johnnie Gray, 2018). Of many operands the cheapest pairs come first, until a search takes no time.
 */
#include "frontend/expr/functions/linear.h"
#include <math.h>

enum { SEARCHED = 7 /* operands: 60,000 orders at most */ };

struct search {
    const double *extent;
    uint64_t labels[2 * FE_MAX_ARGS], result; /* by operand, then by what pairs have become */
    uint32_t count;                           /* of both */
    struct fe_contraction path[FE_MAX_ARGS], *best;
    uint32_t length;
    double least; /* operations of `best` */
};

/* Of the pair, whose result has the labels `*kept`; infinite: it has more dimensions than a tensor may. */
static double operations(const struct search *q, uint32_t remaining, uint32_t i, uint32_t j, uint64_t *kept)
{
    uint64_t either = q->labels[i] | q->labels[j], keep = q->result;
    double all = 1;
    for (uint32_t k = 0; k < q->count; k++)
        if (remaining >> k & 1 && k != i && k != j) keep |= q->labels[k];
    *kept = either & keep;
    if (__builtin_popcountll(*kept) > IR_MAX_RANK) return INFINITY;
    for (uint32_t l = 0; l < 64; l++)
        if (either >> l & 1) all *= q->extent[l];
    return q->labels[i] & q->labels[j] & ~keep ? 2 * all : all;
}

static uint32_t contract(struct search *q, uint32_t remaining, uint32_t i, uint32_t j, uint64_t kept)
{
    q->path[q->length++] = (struct fe_contraction){i, j};
    q->labels[q->count] = kept;
    return (remaining & ~(1u << i | 1u << j)) | 1u << q->count++;
}

static void look(struct search *q, uint32_t remaining, double before)
{
    if (!(remaining & (remaining - 1))) {
        q->least = before;
        for (uint32_t i = 0; i < q->length; i++) q->best[i] = q->path[i];
        return;
    }
    for (uint32_t i = 0, count = q->count; i < count; i++)
        for (uint32_t j = i + 1; remaining >> i & 1 && j < count; j++) {
            uint64_t kept;
            double all = remaining >> j & 1 ? before + operations(q, remaining, i, j, &kept) : INFINITY;
            if (all >= q->least) continue;
            look(q, contract(q, remaining, i, j, kept), all);
            q->count--, q->length--;
        }
}

static uint32_t cheapest(struct search *q, uint32_t remaining)
{
    uint32_t first = 0, second = 1;
    uint64_t kept, of_least = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < q->count; i++)
        for (uint32_t j = i + 1; remaining >> i & 1 && j < q->count; j++) {
            double all = remaining >> j & 1 ? operations(q, remaining, i, j, &kept) : INFINITY;
            if (all < least) least = all, first = i, second = j, of_least = kept;
        }
    return isinf(least) ? 0 : contract(q, remaining, first, second, of_least);
}

void fe_contraction_path(const uint64_t *labels, uint32_t count, uint64_t result, const double *extent,
                         struct fe_contraction *path)
{
    struct search q = {.extent = extent, .result = result, .count = count, .best = path, .least = INFINITY};
    uint32_t remaining = (1u << count) - 1;
    for (uint32_t i = 0; i < count; i++) q.labels[i] = labels[i];
    for (uint32_t i = 1; i < count; i++) path[i - 1] = (struct fe_contraction){i == 1 ? 0 : count + i - 2, i};
    for (uint32_t left = count; remaining && left > SEARCHED; left--) remaining = cheapest(&q, remaining);
    if (remaining) look(&q, remaining, 0);
}
