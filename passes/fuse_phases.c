/* Reductions in two phases, where a GPU's blocks are many and what is kept gives few of them work: a bias's gradient,
 * the statistics of a batch, a loss, a norm; and on a CPU those to few columns over very many rows, which a worker each
 * could not share, and would read a piece of every row at a time: there a part stays in the second cache. The first
 * phase reduces parts, of which each is a block's, the second one the parts, in their order: the result is the same in
 * every run. Parts are whole steps of one reduced dimension and of all reduced ones before it, so that neither phase
 * divides to find its elements. Sums of 16-bit floats are rounded at every step, and those with a tree have their own
 * order: both stay. */
#include "passes/fuse.h"

enum {
    LANES = 128 /* columns of a block */,
    MORE_BLOCKS = 4 /* times as many for these, whose threads have a column each, and for long parts of neighbours */,
    LEAST_ROWS = 32 /* of a part, where neighbours are kept */,
    LEAST_ELEMENTS = 4096 /* of a part, where neighbours are reduced */,
    LONG_ELEMENTS = 4 * LEAST_ELEMENTS /* of so many blocks that what they wait for is always under way */,
    LEAST_PARTS = 4 /* that are worth another launch */
};

static bool reduces(const struct ir_node *n, uint32_t dim)
{
    for (uint32_t i = 0; i < n->attr[0].n; i++)
        if (n->attr[0].v[i] == dim) return true;
    return false;
}

/* Of a CPU: parts of 128 KiB, but not fewer than the first dimension has steps, which may have no divisor below. */
static int64_t tall_parts(const struct ir_type *x, const struct ir_node *n)
{
    enum {
        MOST_COLUMNS = 512,
        LEAST_ALL = 1 << 18,
        PART = 1 << 15,
        LEAST_OUTER = 8,
        LEAST_INNER = 16,
        MOST_PARTS = 4096 /* all of which are tried */
    };
    int64_t columns = ir_type_elements(&n->type), all = ir_type_elements(x), rows = columns ? all / columns : 0;
    for (uint32_t i = 0; i < n->attr[0].n; i++)
        if (n->attr[0].v[i] != i) return 1;
    if (!n->type.rank || columns > MOST_COLUMNS || all < LEAST_ALL || n->attr[0].n < 2) return 1;
    int64_t least = x->dim[0] > LEAST_OUTER ? x->dim[0] : LEAST_OUTER, wanted = all / PART > least ? all / PART : least;
    wanted = wanted < rows / LEAST_INNER ? wanted : rows / LEAST_INNER;
    return wanted < MOST_PARTS ? wanted : MOST_PARTS;
}

static int64_t parts_wanted(uint32_t blocks, const struct ir_type *x, const struct ir_node *n)
{
    int64_t all = ir_type_elements(x), kept = ir_type_elements(&n->type), reduced = kept ? all / kept : 0;
    uint32_t last = x->rank;
    while (last > 0 && x->dim[last - 1] == 1) last--;
    if (!last || reduced < 2) return 1;
    if (!blocks) return tall_parts(x, n);
    bool rows = reduces(n, last - 1);
    int64_t busy = rows ? kept : (kept + LANES - 1) / LANES, wanted = blocks / (busy ? busy : 1);
    int64_t more = rows ? reduced / LONG_ELEMENTS : wanted * MORE_BLOCKS;
    if (more > wanted) wanted = more < wanted * MORE_BLOCKS ? more : wanted * MORE_BLOCKS;
    int64_t most = reduced / (rows ? LEAST_ELEMENTS : LEAST_ROWS);
    wanted = wanted < most ? wanted : most;
    while (!rows && wanted > 1 && wanted * wanted > 2 * reduced) wanted--; /* nor too much for the second phase */
    return wanted;
}

struct fuse_cut fuse_find_cut(const int64_t *extent, uint32_t count, int64_t wanted)
{
    struct fuse_cut cut = {.all = 1};
    int64_t outer = 1;
    for (uint32_t i = 0; i < count && outer <= wanted; outer *= extent[i++])
        for (int64_t part = 1; part <= extent[i] && outer * part <= wanted; part++)
            if (extent[i] % part == 0 && outer * part > cut.all) cut = (struct fuse_cut){i, part, outer * part};
    return cut;
}

/* Of the dimensions that are reduced, in their order; `dim`: the one that is cut. False: the parts are too few. */
static bool find_cut(uint32_t blocks, const struct ir_type *x, const struct ir_node *n, struct fuse_cut *cut,
                     uint32_t *dim)
{
    int64_t extent[IR_MAX_RANK];
    uint32_t dims[IR_MAX_RANK] = {0}, count = 0;
    for (uint32_t d = 0; d < x->rank; d++)
        if (reduces(n, d)) extent[count] = x->dim[d], dims[count++] = d;
    *cut = fuse_find_cut(extent, count, parts_wanted(blocks, x, n));
    *dim = dims[cut->at];
    return cut->all >= LEAST_PARTS;
}

static bool may_cut(uint32_t blocks, const struct ir_func *f, const struct ir_node *n)
{
    if (n->op != OP_reduce_sum && n->op != OP_reduce_max && n->op != OP_reduce_min) return false;
    enum ir_dtype dtype = (enum ir_dtype)ir_type(f, n->args[0])->dtype;
    if (n->op != OP_reduce_sum) return blocks > 0;
    return n->attr[1].n == 0 && dtype != IR_BF16 && dtype != IR_F16;
}

bool fuse_wants_phases(uint32_t blocks, const struct ir_func *f, const struct ir_node *n)
{
    struct fuse_cut cut;
    uint32_t dim;
    return may_cut(blocks, f, n) && ir_type(f, n->args[0])->rank < IR_MAX_RANK &&
           find_cut(blocks, ir_type(f, n->args[0]), n, &cut, &dim);
}

ir_value fuse_phases(uint32_t blocks, struct ir_builder *b, const struct ir_node *n, ir_value x)
{
    struct ir_type from = *ir_type(b->f, x);
    struct fuse_cut cut;
    int64_t shape[IR_MAX_RANK], first[IR_MAX_RANK], second[IR_MAX_RANK];
    uint32_t rank = 0, first_count = 0, second_count = 0, kept = 0, dim;
    if (!find_cut(blocks, &from, n, &cut, &dim)) BUG("a reduction that is not cut");
    for (uint32_t d = 0; d < from.rank; d++) {
        bool reduced = reduces(n, d), part = reduced && d <= dim;
        if (d == dim) shape[rank++] = cut.parts;
        if (part || !reduced) kept++;
        if (part) second[second_count++] = kept - 1;
        if (d == dim || (reduced && !part)) first[first_count++] = rank;
        shape[rank++] = d == dim ? from.dim[d] / cut.parts : from.dim[d];
    }
    x = ir_reduce_plain(b, (enum ir_op)n->op, ir_reshape(b, x, rank, shape), first, first_count);
    return ir_reduce_plain(b, (enum ir_op)n->op, x, second, second_count);
}
