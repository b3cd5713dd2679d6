/* Singular vectors from the tensor IR alone, so that every target has them: one-sided Jacobi (Hestenes 1958) on the
 * rows of a matrix, in blocks (Drmac, Veselic 2008). A round takes disjoint pairs of blocks, diagonalises the products
 * of their rows by one sweep of cyclic Jacobi, all pairs at once, and turns the rows by what that found. Blocks, and
 * rows inside of them, meet by the circle method of a tournament. When all rows are orthogonal they are the singular
 * vectors times the singular values, each with an error relative to its own length. */
#include "frontend/optim/svd.h"
#include <math.h>

enum { BLOCK = 16, MOST_SWEEPS = 24 };
static const double epsilon = 0x1p-23; /* of float32 */

static const int64_t dims[] = {0, 1, 2, 3, 4};

static ir_value spread(struct ir_builder *b, ir_value x, ir_value like, const int64_t *along)
{
    const struct ir_type type = *ir_type(b->f, like);
    return ir_broadcast(b, x, type.rank, type.dim, along);
}

/* Batched products: contracts the last dimension of x with dimension `with` of y; dimension 0 is the batch. */
static ir_value product(struct ir_builder *b, ir_value x, ir_value y, int64_t with)
{
    const struct ir_ints batch = {dims, 1}, last = {dims + 2, 1}, other = {dims + with, 1};
    return ir_dot(b, x, y, batch, batch, last, other);
}

/* Which player sits where in the next round (circle method): place 0 stays, the others move on by one. Player `side` of
 * pair `i` sits at 2 i + side, or at i + side * pairs if those of a side are neighbours. */
static ir_value next_places(struct ir_builder *b, struct arena *arena, int64_t players, bool by_side)
{
    int32_t *from = arena_new_array(arena, int32_t, players);
    int64_t pairs = players / 2, of_pair = by_side ? 1 : 2, of_side = by_side ? pairs : 1;
    for (int64_t i = 0; i < pairs; i++) {
        int64_t first = i == 0 ? 0 : i == 1 ? of_side : (i - 1) * of_pair;
        int64_t second = i + 1 < pairs ? (i + 1) * of_pair + of_side : i * of_pair;
        from[i * of_pair] = (int32_t)first;
        from[i * of_pair + of_side] = (int32_t)(pairs == 1 ? of_side : second);
    }
    return ir_constant(b, ir_type_of(IR_I32, 1, &players), from);
}

/* ---------------------------------------------------------------- one sweep over products of rows */

/* Turns the two halves of dimension `dim` of x [pairs, k, k]: (x0, x1) becomes (c x0 - s x1, s x0 + c x1), with c and s
 * [pairs, k / 2]. */
static ir_value turned(struct ir_builder *b, ir_value x, uint32_t dim, ir_value c, ir_value s)
{
    const struct ir_type type = *ir_type(b->f, x);
    int64_t split[4], along[2] = {0, dim + 1}, side = dim;
    for (uint32_t i = 0, n = 0; i < 3; i++) {
        if (i == dim) split[n++] = 2;
        split[n++] = i == dim ? type.dim[i] / 2 : type.dim[i];
    }
    ir_value halves = ir_reshape(b, x, 4, split), other = ir_reverse(b, halves, &side, 1);
    ir_value sides = ir_iota(b, ir_type_of(IR_I32, 4, split), dim), first = ir_number_like(b, sides, 0);
    ir_value sine = spread(b, s, halves, along), cosine = spread(b, c, halves, along);
    sine = ir_select(b, ir_binary(b, OP_eq, sides, first), ir_unary(b, OP_neg, sine), sine);
    ir_value mixed = ir_binary(b, OP_add, ir_binary(b, OP_mul, cosine, halves), ir_binary(b, OP_mul, sine, other));
    return ir_reshape(b, mixed, 3, type.dim);
}

/* Elements of the matrices [pairs, k, k] at (i, i) of the four quarters that the halves make. */
static ir_value corners(struct ir_builder *b, struct arena *arena, ir_value products, int64_t row, int64_t column)
{
    const struct ir_type type = *ir_type(b->f, products);
    int64_t k = type.dim[1], half = k / 2, flat[2] = {type.dim[0], k * k};
    int32_t *at = arena_new_array(arena, int32_t, half);
    for (int64_t i = 0; i < half; i++) at[i] = (int32_t)((row * half + i) * k + column * half + i);
    return ir_take(b, ir_reshape(b, products, 2, flat), ir_constant(b, ir_type_of(IR_I32, 1, &half), at), 1);
}

/* The rotations that make row i of the first half orthogonal to row i of the second. */
static void rotations(struct ir_builder *b, struct arena *arena, ir_value products, ir_value *cosine, ir_value *sine)
{
    struct fe_term xx = T(corners(b, arena, products, 0, 0)), yy = T(corners(b, arena, products, 1, 1)),
                   xy = T(corners(b, arena, products, 0, 1)), one = term_number(1), none = term_number(0);
    struct fe_term is_zero = term_eq(b, xy, none), safe = term_where(b, is_zero, one, xy);
    struct fe_term zeta = term_div(b, term_sub(b, yy, xx), term_mul(b, term_number(2), safe));
    struct fe_term sign = term_where(b, term_lt(b, zeta, none), term_number(-1), one);
    struct fe_term root = term_sqrt(b, term_add(b, one, term_square(b, zeta)));
    struct fe_term tangent = term_where(b, is_zero, none, term_div(b, sign, term_add(b, term_abs(b, zeta), root)));
    struct fe_term c = term_rsqrt(b, term_add(b, one, term_square(b, tangent)));
    *cosine = c.v;
    *sine = term_mul(b, c, tangent).v;
}

/* An orthogonal matrix per pair [pairs, k, k] that brings the symmetric `products` close to diagonal form. */
static ir_value sweep(struct optim_transform *t, ir_value products)
{
    enum { GO, PRODUCTS, TURN };
    struct ir_builder *b = t->b;
    struct arena *arena = t->fe->arena;
    const struct ir_type type = *ir_type(b->f, products);
    struct ir_type index = type;
    index.dtype = IR_I32;
    struct fe_term is_diagonal = T(ir_binary(b, OP_eq, ir_iota(b, index, 1), ir_iota(b, index, 2)));
    struct optim_loop loop = optim_loop(t, "jacobi_sweep");
    struct ir_builder *in = &loop.b;
    optim_carry(&loop, T(ir_scalar(b, IR_BOOL, 1)), IR_BOOL);
    optim_carry(&loop, T(products), IR_F32);
    optim_carry(&loop, term_cast(b, is_diagonal, IR_F32), IR_F32);
    ir_value c, s, places = next_places(in, arena, type.dim[1], true), now = optim_now(&loop, PRODUCTS).v, next[3];
    rotations(in, arena, now, &c, &s);
    next[GO] = ir_scalar(in, IR_BOOL, 1);
    next[PRODUCTS] = ir_take(in, ir_take(in, turned(in, turned(in, now, 1, c, s), 2, c, s), places, 1), places, 2);
    next[TURN] = ir_take(in, turned(in, optim_now(&loop, TURN).v, 1, c, s), places, 1);
    return optim_loop_close(&loop, term_integer(type.dim[1] - 1), next, false)[TURN];
}

/* ---------------------------------------------------------------- all rows */

/* The largest cosine between two rows that are not negligible, from the products of the pairs. */
static struct fe_term largest_cosine(struct ir_builder *b, ir_value products, int64_t rows)
{
    static const int64_t row[] = {0, 1}, column[] = {0, 2};
    const struct ir_type type = *ir_type(b->f, products);
    struct ir_type index = type;
    index.dtype = IR_I32;
    ir_value is_diagonal = ir_binary(b, OP_eq, ir_iota(b, index, 1), ir_iota(b, index, 2));
    ir_value none = ir_number_like(b, products, 0);
    ir_value squares = ir_reduce(b, OP_reduce_sum, ir_select(b, is_diagonal, products, none), dims + 2, 1);
    struct fe_term largest = T(ir_reduce(b, OP_reduce_max, squares, dims, 2)),
                   relative = term_number((double)rows * epsilon);
    struct fe_term negligible = term_mul(b, term_square(b, relative), largest);
    struct fe_term significant = term_lt(b, negligible, T(squares));
    ir_value inverse = term_where(b, significant, term_rsqrt(b, T(squares)), term_number(0)).v;
    struct fe_term cosine = term_mul(b, T(spread(b, inverse, products, row)), T(spread(b, inverse, products, column)));
    cosine = term_mul(b, cosine, term_abs(b, T(ir_select(b, is_diagonal, none, products))));
    return T(ir_reduce(b, OP_reduce_max, cosine.v, dims, 3));
}

/* Rows [n, m] that are orthogonal to each other, from those of x by rotations; n is a multiple of twice the block. */
static ir_value orthogonal(struct optim_transform *t, ir_value x, int64_t block)
{
    enum { GO, ROWS, WORST };
    const struct ir_type type = *ir_type(t->b->f, x);
    int64_t n = type.dim[0], m = type.dim[1], blocks = n / block, rounds = blocks - 1;
    int64_t paired[3] = {blocks / 2, 2 * block, m}, single[3] = {blocks, block, m};
    struct optim_loop loop = optim_loop(t, "jacobi");
    struct ir_builder *b = &loop.b;
    struct optim_transform in = *t;
    in.b = b;
    optim_carry(&loop, T(ir_scalar(t->b, IR_BOOL, 1)), IR_BOOL);
    optim_carry(&loop, T(x), IR_F32);
    optim_carry(&loop, term_number(0), IR_F32);
    struct fe_term round = T(loop.b.f->params.items[0].value);
    ir_value now = ir_reshape(b, optim_now(&loop, ROWS).v, 3, paired), products = product(b, now, now, 2), next[3];
    struct fe_term worst = term_max(b, optim_now(&loop, WORST), largest_cosine(b, products, n));
    ir_value after = product(b, sweep(&in, products), now, 1);
    if (blocks > 2) after = ir_take(b, ir_reshape(b, after, 3, single), next_places(b, t->fe->arena, blocks, false), 0);
    struct fe_term is_last = term_eq(b, term_rem(b, round, term_integer(rounds)), term_integer(rounds - 1));
    struct fe_term tolerance = term_number((4 + sqrt((double)m)) * epsilon);
    next[GO] = term_not(b, term_and(b, is_last, term_le(b, worst, tolerance))).v;
    next[ROWS] = ir_reshape(b, after, 2, type.dim);
    next[WORST] = term_where(b, is_last, term_number(0), worst).v;
    return optim_loop_end(&loop, term_integer(MOST_SWEEPS * rounds), next)[ROWS];
}

/* ---------------------------------------------------------------- the vectors */

/* Places of the rows in descending order of their length: int32 [n]. */
static ir_value descending(struct ir_builder *b, ir_value squares)
{
    static const int64_t row[] = {0}, column[] = {1};
    int64_t n = ir_type(b->f, squares)->dim[0], shape[2] = {n, n};
    struct ir_type index = ir_type_of(IR_I32, 2, shape);
    ir_value mine = ir_broadcast(b, squares, 2, shape, row), other = ir_broadcast(b, squares, 2, shape, column);
    ir_value before = ir_binary(b, OP_lt, ir_iota(b, index, 1), ir_iota(b, index, 0));
    ir_value tie = ir_binary(b, OP_and, ir_binary(b, OP_eq, other, mine), before);
    ir_value is_ahead = ir_binary(b, OP_or, ir_binary(b, OP_lt, mine, other), tie);
    ir_value place = ir_reduce(b, OP_reduce_sum, ir_cast(b, is_ahead, IR_I32), dims + 1, 1);
    struct ir_type list = ir_type_of(IR_I32, 1, &n);
    return ir_scatter_add(b, ir_number(b, list, 0), place, ir_iota(b, list, 0), 0);
}

/* x without its parts along the orthonormal rows of `basis` [r, m]. */
static ir_value without(struct ir_builder *b, ir_value x, ir_value basis)
{
    const struct ir_ints none = {NULL, 0}, first = {dims, 1}, second = {dims + 1, 1};
    ir_value parts = ir_dot(b, basis, x, none, none, second, first);
    return ir_binary(b, OP_sub, x, ir_dot(b, parts, basis, none, none, first, first));
}

/* Replaces the last `missing` rows of `basis`, which are zero, by unit vectors orthogonal to all others: each begins as
 * the axis that the others reach least. */
static ir_value completed(struct optim_transform *t, ir_value basis, struct fe_term missing)
{
    const struct ir_type type = *ir_type(t->b->f, basis);
    int64_t r = type.dim[0], m = type.dim[1], row[2] = {1, m};
    struct optim_loop loop = optim_loop(t, "complete_basis");
    struct ir_builder *b = &loop.b;
    uint32_t number = optim_carry(&loop, T(basis), IR_F32);
    ir_value now = optim_now(&loop, number).v, next;
    struct fe_term i = T(b->f->params.items[0].value), left = optim_captured(&loop, missing);
    ir_value reach = ir_reduce(b, OP_reduce_sum, ir_binary(b, OP_mul, now, now), dims, 1);
    ir_value least = ir_argreduce(b, OP_argmin, reach, 0), axes = ir_iota(b, ir_type_of(IR_I32, 1, &m), 0);
    ir_value x = ir_cast(b, ir_binary(b, OP_eq, axes, ir_broadcast(b, least, 1, &m, NULL)), IR_F32);
    x = without(b, without(b, x, now), now);
    struct fe_term length = term_sqrt(b, term_sum(b, term_square(b, T(x))));
    ir_value starts[2] = {term_add(b, term_sub(b, term_integer(r), left), i).v, ir_scalar(b, IR_I32, 0)};
    next = ir_dynamic_update(b, now, ir_reshape(b, term_div(b, T(x), length).v, 2, row), starts);
    return optim_loop_close(&loop, missing, &next, false)[0];
}

/* The r rows of most length, as unit vectors, with others where there are less. */
static ir_value unit_rows(struct optim_transform *t, ir_value rows, int64_t r)
{
    static const int64_t row[] = {0}, zeroth[] = {0}, step[] = {1};
    struct ir_builder *b = t->b;
    int64_t n = ir_type(b->f, rows)->dim[0];
    ir_value squares = ir_reduce(b, OP_reduce_sum, ir_binary(b, OP_mul, rows, rows), dims + 1, 1);
    ir_value order = ir_slice(b, descending(b, squares), zeroth, &r, step);
    ir_value longest = ir_take(b, rows, order, 0);
    struct fe_term s = T(ir_take(b, squares, order, 0)), largest = T(ir_reduce(b, OP_reduce_max, squares, dims, 1));
    struct fe_term relative = term_square(b, term_number((double)n * epsilon));
    struct fe_term is_there = term_lt(b, term_mul(b, relative, largest), s);
    ir_value inverse = term_where(b, is_there, term_rsqrt(b, s), term_number(0)).v;
    ir_value unit = ir_binary(b, OP_mul, longest, spread(b, inverse, longest, row));
    struct fe_term missing = term_sum(b, term_cast(b, term_not(b, is_there), IR_I32));
    return completed(t, unit, missing);
}

ir_value optim_singular_vectors(struct optim_transform *t, ir_value x, int64_t r)
{
    static const int64_t none[2] = {0, 0};
    struct ir_builder *b = t->b;
    const struct ir_type type = *ir_type(b->f, x);
    if (type.dim[0] >= INT32_MAX || type.dim[1] >= INT32_MAX) { /* rows are numbered by int32 */
        fe_error(t->fe, t->json, "E0212", "\"%s\": a matrix %s is too large for singular vectors", t->row->name,
                 ir_type_text(t->fe->arena, &type));
        return ir_number(b, ir_type_of(IR_F32, 2, (int64_t[]){r, type.dim[1]}), 0);
    }
    int64_t n = type.dim[0], block = n <= 2 * BLOCK ? (n + 1) / 2 : BLOCK, pair = 2 * block;
    int64_t more[2] = {(pair - n % pair) % pair, 0}, no[2] = {0, 0};
    struct fe_term rows = term_cast(b, T(x), IR_F32),
                   most = T(ir_reduce(b, OP_reduce_max, term_abs(b, rows).v, dims, 2));
    most = term_where(b, term_lt(b, term_number(0), most), most, term_number(1));
    rows = term_div(b, rows, most);
    ir_value padded = ir_pad(b, rows.v, ir_scalar(b, IR_F32, 0), none, more, no);
    return unit_rows(t, orthogonal(t, padded, block), r);
}
