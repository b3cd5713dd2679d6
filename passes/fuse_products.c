/* Products that a CPU makes better in another way, before anything is done for their operands.
 *
 * Of 16-bit numbers, where it does not multiply such: as products of float32, rounded. What is widened is a value of
 * its own then, which fuse_nodes.c stores where that is small: a tile would widen what it reads, rows number by number,
 * as often as it reads it.
 *
 * Of few columns, whose rows lie side by side (the gradient of a layer with few features): the other way round. As rows
 * they fill vectors, and each step of the contraction reads them as they lie; columns would leave most of a vector's
 * lanes empty and read a few rows in each of many lines of memory. The taps of a convolution, which are read where they
 * stand in the image, lie in shorter lines: so are those of at most three quarters of a vector's columns. So are
 * products whose columns fill their last panel worse than rows would (64 rows and 100 columns: 1.25 to 1.6 times as
 * fast with AVX-512), if they have many steps: what is element-wise behind them walks their result across its lines. */
#include "passes/fuse.h"

enum { LEAST_SIDE = 32, LEAST_STEPS = 64 };
enum { RAGGED_STEPS = 256, RAGGED_ELEMENTS = 1 << 17 }; /* of ragged columns: at least, of the result at most */
static const double RAGGED = 1.04;

struct products {
    struct pass *pass;
    struct fuse_panels panels;
};

/* Of several tensors side by side, as taps are, which are widened where they stand in their image (fuse_nodes.c). */
static bool is_joined(const struct ir_func *f, ir_value v)
{
    while (ir_get(f, v)->op == OP_reshape || ir_get(f, v)->op == OP_transpose) v = ir_get(f, v)->args[0];
    return ir_get(f, v)->op == OP_concat;
}

static bool is_plain(const struct ir_node *n)
{
    return n->op == OP_dot && !n->attr[4].n && !n->attr[5].n && !n->attr[6].n;
}

/* Its operands are 16-bit numbers that have no products of their own. (Panels are widened as they are packed, those of
 * weights that a loop is given before the loop.) */
static bool is_of_halves(struct products *p, const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    enum ir_dtype dtype = (enum ir_dtype)n->type.dtype;
    bool half = dtype == IR_F16 || (dtype == IR_BF16 && !p->panels.pairs);
    return half && !is_joined(f, n->args[0]) && !is_joined(f, n->args[1]) && ir_type(f, n->args[0])->dtype == dtype &&
           ir_type(f, n->args[1])->dtype == dtype && !fuse_wants_panels(&p->panels, f, v);
}

/* Its rows lie side by side, a line or more of memory for each of many steps. */
static bool is_rows_of_steps(const struct products *p, const struct ir_func *f, const struct ir_node *n)
{
    const struct ir_type *x = ir_type(f, n->args[0]);
    if (n->type.dtype == IR_BF16 && p->panels.pairs) return false;
    if (p->pass->options->tap_pairs && fuse_may_pair(f, n, &p->pass->scratch)) return false;
    return !n->attr[0].n && x->rank && x->dim[x->rank - 1] >= LEAST_SIDE && !pass_has(n->attr[2], x->rank - 1) &&
           pass_extent(x, n->attr[2]) >= LEAST_STEPS;
}

static bool has_few_columns(const struct products *p, const struct ir_func *f, const struct ir_node *n)
{
    const struct ir_type *x = ir_type(f, n->args[0]), *y = ir_type(f, n->args[1]);
    if (!is_rows_of_steps(p, f, n)) return false;
    int64_t steps = pass_extent(x, n->attr[2]), most = p->panels.columns;
    if (fuse_of_taps(f, n->args[1], &p->pass->scratch)) return false;
    if (fuse_of_taps(f, n->args[0], &p->pass->scratch)) most = most * 3 / 8;
    return ir_type_elements(y) <= most * steps && 2 * ir_type_elements(y) <= ir_type_elements(x);
}

/* What panels of so many columns take, by the columns themselves: the last one costs three quarters if half of it is
 * enough. */
static double waste_of(const struct products *p, int64_t columns)
{
    int64_t panel = p->panels.columns, rest = columns % panel;
    double last = rest ? 2 * rest <= panel ? 0.75 * (double)panel : (double)panel : 0;
    return ((double)(columns - rest) + last) / (double)columns;
}

static bool has_ragged_columns(const struct products *p, const struct ir_func *f, const struct ir_node *n)
{
    const struct ir_type *x = ir_type(f, n->args[0]), *y = ir_type(f, n->args[1]);
    if (!is_rows_of_steps(p, f, n) || !y->rank || pass_has(n->attr[3], y->rank - 1)) return false;
    if (fuse_of_taps(f, n->args[0], &p->pass->scratch) || fuse_of_taps(f, n->args[1], &p->pass->scratch)) return false;
    int64_t steps = pass_extent(x, n->attr[2]), rows = ir_type_elements(x) / steps;
    return steps >= RAGGED_STEPS && rows > p->panels.columns && ir_type_elements(&n->type) <= RAGGED_ELEMENTS &&
           waste_of(p, ir_type_elements(y) / steps) > RAGGED * waste_of(p, rows);
}

static bool is_turned(const struct products *p, const struct ir_func *f, const struct ir_node *n)
{
    return has_few_columns(p, f, n) || has_ragged_columns(p, f, n);
}

static ir_value turned(struct ir_builder *b, const struct ir_node *n, ir_value x, ir_value y)
{
    int64_t order[IR_MAX_RANK];
    ir_value dot = ir_dot(b, y, x, n->attr[1], n->attr[0], n->attr[3], n->attr[2]);
    uint32_t rank = n->type.rank, columns = ir_type(b->f, y)->rank - n->attr[3].n;
    for (uint32_t i = 0; i < rank; i++) order[i] = (i + columns) % rank;
    return ir_transpose(b, dot, order);
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *f, ir_value old, const ir_value *map)
{
    struct products *p = user;
    const struct ir_node *n = ir_get(f, old);
    bool plain = is_plain(n), widened = plain && is_of_halves(p, f, old), turns = plain && is_turned(p, f, n);
    if (!(widened || turns) || fuse_is_attention(&p->panels, f, old)) return pass_remake(p->pass, b, n, map);
    ir_value x = map[n->args[0]], y = map[n->args[1]];
    if (widened) x = ir_cast(b, x, IR_F32), y = ir_cast(b, y, IR_F32);
    ir_value dot = turns ? turned(b, n, x, y) : ir_dot(b, x, y, n->attr[0], n->attr[1], n->attr[2], n->attr[3]);
    return ir_cast(b, dot, (enum ir_dtype)n->type.dtype);
}

struct ir_module *fuse_products(struct pass *pass, struct ir_module *m)
{
    struct products p = {pass, fuse_panels_of(pass, m)};
    bool any = false;
    for (size_t i = 0; i < m->funcs.count && !any; i++) {
        const struct ir_func *f = m->funcs.items[i];
        for (ir_value v = 1; v < f->count && !any; v++) {
            const struct ir_node *n = ir_get(f, v);
            any = is_plain(n) && (is_of_halves(&p, f, v) || is_turned(&p, f, n));
        }
    }
    return any ? pass_rebuild(pass, m, rewrite, &p) : m;
}
