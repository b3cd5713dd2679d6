/* Triangular matrices and Cholesky's factor by blocks: halves, recursively, down to blocks that a loop eliminates a row
 * at a time, together with their inverse. All else are products (Golub, Van Loan, Matrix Computations, 3.1 and 4.2). */
#include "frontend/expr/functions/linear.h"

enum { BLOCK = 32 };

struct fe_val fe_turned(struct fe_site *s, struct fe_val x) { return x.bad ? x : FE_APPLY(s, "matrix_transpose", x); }
struct fe_val fe_product(struct fe_site *s, struct fe_val x, struct fe_val y)
{
    return x.bad || y.bad ? fe_bad() : FE_APPLY(s, "matmul", x, y);
}

struct fe_val fe_row_numbers(struct fe_site *s, struct fe_val x)
{
    struct ir_type t = fe_type_at(s, &x);
    t.dtype = IR_I32, t.dim[t.rank - 1] = 1;
    return fe_iota(s, t, t.rank - 2u);
}

struct fe_val fe_column_numbers(struct fe_site *s, struct fe_val x)
{
    struct ir_type t = fe_type_at(s, &x);
    t.dtype = IR_I32, t.dim[t.rank - 2] = 1;
    return fe_iota(s, t, t.rank - 1u);
}

struct fe_val fe_block(struct fe_site *s, struct fe_val x, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    if (x.bad) return x;
    uint32_t last = fe_rank(s, &x) - 1;
    return fe_slice_axis(s, fe_slice_axis(s, x, last - 1, row, row + rows), last, column, column + columns);
}

struct fe_val fe_piece(struct fe_site *s, struct fe_val x, uint32_t axis, struct fe_val start, int64_t extent)
{
    if (x.bad || start.bad) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    ir_value starts[IR_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) starts[i] = i == axis ? start.tensor : ir_scalar(s->b, IR_I32, 0);
    t.dim[axis] = extent;
    return fe_val_tensor(ir_dynamic_slice(s->b, x.tensor, starts, t.dim));
}

int64_t fe_half_of(int64_t n, int64_t block)
{
    int64_t blocks = (n + block - 1) / block, each = (n + blocks - 1) / blocks;
    return (blocks + 1) / 2 * each;
}

static struct fe_triangle *new_triangle(struct fe_site *s, int64_t n)
{
    struct fe_triangle *t = arena_new(s->fe->arena, struct fe_triangle);
    *t = (struct fe_triangle){.n = n, .inverse = fe_none(), .below = fe_none()};
    return t;
}

static struct fe_val identity_like(struct fe_site *s, struct fe_val x)
{
    struct ir_type t = fe_type_at(s, &x);
    struct fe_val same = fe_binary(s, EXPR_OP_EQ, fe_row_numbers(s, x), fe_column_numbers(s, x));
    return fe_broadcast_val(s, fe_cast(s, same, (enum ir_dtype)t.dtype), t.rank, t.dim);
}

struct fe_val fe_unit_lower(struct fe_site *s, struct fe_val x)
{
    if (x.bad) return x;
    struct fe_val rows = fe_row_numbers(s, x), columns = fe_column_numbers(s, x);
    return fe_where3(s, fe_binary(s, EXPR_OP_EQ, rows, columns), fe_float(1), x);
}

/* Rows below row k get so much of it that `factor` [.., n, 1] is eliminated, and it is divided. */
static struct fe_val eliminated(struct fe_site *s, struct fe_val x, struct fe_val number, struct fe_val row,
                                struct fe_val factor)
{
    struct fe_val rows = fe_row_numbers(s, x);
    struct fe_val below = fe_where3(s, fe_binary(s, EXPR_OP_GT, rows, number), fe_sub(s, x, fe_mul(s, factor, row)), x);
    return fe_where3(s, fe_binary(s, EXPR_OP_EQ, rows, number), row, below);
}

/* The inverses of small lower triangular matrices. */
static struct fe_val inverted(struct fe_site *s, struct fe_val lower)
{
    struct fe_loop l;
    struct fe_val after[1];
    int64_t n = fe_type_at(s, &lower).dim[fe_rank(s, &lower) - 1];
    uint32_t column = fe_rank(s, &lower) - 1, row = column - 1;
    fe_loop_open(&l, s, "invert");
    struct fe_site *in = &l.in;
    struct fe_val x = fe_loop_carry(&l, identity_like(s, lower)), of = fe_loop_see(&l, lower);
    if (x.bad || of.bad) return fe_bad();
    struct fe_val factor = fe_piece(in, of, column, l.number, 1), pivot = fe_piece(in, factor, row, l.number, 1),
                  normal = fe_div(in, fe_piece(in, x, row, l.number, 1), pivot);
    struct fe_val next = eliminated(in, x, l.number, normal, factor);
    return fe_loop_close(&l, n, false, &next, after) ? after[0] : fe_bad();
}

struct fe_triangle *fe_triangle_of(struct fe_site *s, struct fe_val lower)
{
    if (lower.bad) return NULL;
    int64_t n = fe_type_at(s, &lower).dim[fe_rank(s, &lower) - 1], half = fe_half_of(n, BLOCK);
    struct fe_triangle *t = new_triangle(s, n);
    if (n <= BLOCK) {
        t->inverse = inverted(s, lower);
        return t->inverse.bad ? NULL : t;
    }
    t->first = fe_triangle_of(s, fe_block(s, lower, 0, 0, half, half));
    t->last = fe_triangle_of(s, fe_block(s, lower, half, half, n - half, n - half));
    t->below = fe_block(s, lower, half, 0, n - half, half);
    return t->first && t->last && !t->below.bad ? t : NULL;
}

static struct fe_val zeros_above(struct fe_site *s, struct fe_val below)
{
    struct ir_type t = fe_type_at(s, &below);
    int64_t rows = t.dim[t.rank - 1];
    t.dim[t.rank - 1] = t.dim[t.rank - 2], t.dim[t.rank - 2] = rows;
    return fe_full(s, t, 0);
}

/* [first 0; below last] */
static struct fe_val assembled(struct fe_site *s, struct fe_val first, struct fe_val below, struct fe_val last)
{
    if (first.bad || below.bad || last.bad) return fe_bad();
    uint32_t column = fe_rank(s, &first) - 1;
    struct fe_val upper[] = {first, zeros_above(s, below)}, lower[] = {below, last};
    struct fe_val both[] = {fe_join(s, upper, 2, column), fe_join(s, lower, 2, column)};
    return both[0].bad || both[1].bad ? fe_bad() : fe_join(s, both, 2, column - 1);
}

struct fe_val fe_triangle_inverse(struct fe_site *s, const struct fe_triangle *t)
{
    if (!t->first) return t->inverse;
    struct fe_val first = fe_triangle_inverse(s, t->first), last = fe_triangle_inverse(s, t->last);
    struct fe_val below = neg(s, fe_product(s, last, fe_product(s, t->below, first)));
    return assembled(s, first, below, last);
}

struct fe_val fe_triangle_solve(struct fe_site *s, const struct fe_triangle *t, struct fe_val b)
{
    if (b.bad || !t->first) return b.bad ? b : fe_product(s, t->inverse, b);
    uint32_t row = fe_rank(s, &b) - 2;
    struct fe_val both[2];
    both[0] = fe_triangle_solve(s, t->first, fe_slice_axis(s, b, row, 0, t->first->n));
    both[1] = fe_sub(s, fe_slice_axis(s, b, row, t->first->n, t->n), fe_product(s, t->below, both[0]));
    both[1] = fe_triangle_solve(s, t->last, both[1]);
    return both[0].bad || both[1].bad ? fe_bad() : fe_join(s, both, 2, row);
}

struct fe_val fe_triangle_solve_turned(struct fe_site *s, const struct fe_triangle *t, struct fe_val b)
{
    if (b.bad || !t->first) return b.bad ? b : fe_product(s, fe_turned(s, t->inverse), b);
    uint32_t row = fe_rank(s, &b) - 2;
    struct fe_val both[2];
    both[1] = fe_triangle_solve_turned(s, t->last, fe_slice_axis(s, b, row, t->first->n, t->n));
    both[0] = fe_sub(s, fe_slice_axis(s, b, row, 0, t->first->n), fe_product(s, fe_turned(s, t->below), both[1]));
    both[0] = fe_triangle_solve_turned(s, t->first, both[0]);
    return both[0].bad || both[1].bad ? fe_bad() : fe_join(s, both, 2, row);
}

struct fe_val fe_triangle_solve_behind(struct fe_site *s, const struct fe_triangle *t, struct fe_val b)
{
    if (b.bad || !t->first) return b.bad ? b : fe_product(s, b, fe_turned(s, t->inverse));
    uint32_t column = fe_rank(s, &b) - 1;
    struct fe_val both[2];
    both[0] = fe_triangle_solve_behind(s, t->first, fe_slice_axis(s, b, column, 0, t->first->n));
    both[1] = fe_sub(s, fe_slice_axis(s, b, column, t->first->n, t->n), fe_product(s, both[0], fe_turned(s, t->below)));
    both[1] = fe_triangle_solve_behind(s, t->last, both[1]);
    return both[0].bad || both[1].bad ? fe_bad() : fe_join(s, both, 2, column);
}

/* [x; 1] becomes [l; 1/l'] by its columns: as x is symmetric, what a column is multiplied with stands in column k. */
static bool cholesky_block(struct fe_site *s, struct fe_val x, struct fe_triangle *t, struct fe_val *lower)
{
    uint32_t column = fe_rank(s, &x) - 1, row = column - 1;
    struct fe_val tall[] = {x, identity_like(s, x)}, after[1];
    struct fe_loop l;
    fe_loop_open(&l, s, "cholesky");
    struct fe_site *in = &l.in;
    struct fe_val a = fe_loop_carry(&l, fe_join(s, tall, 2, row));
    if (a.bad) return false;
    struct fe_val of_k = fe_piece(in, a, column, l.number, 1),
                  root = fe_op1(in, OP_sqrt, fe_piece(in, of_k, row, l.number, 1));
    struct fe_val normal = fe_div(in, of_k, root), factor = fe_turned(in, fe_slice_axis(in, normal, row, 0, t->n)),
                  columns = fe_column_numbers(in, a);
    struct fe_val next = fe_where3(in, fe_binary(in, EXPR_OP_GT, columns, l.number),
                                   fe_sub(in, a, fe_mul(in, normal, factor)),
                                   fe_where3(in, fe_binary(in, EXPR_OP_EQ, columns, l.number), normal, a));
    if (!fe_loop_close(&l, t->n, false, &next, after)) return false;
    t->inverse = fe_turned(s, fe_slice_axis(s, after[0], row, t->n, 2 * t->n));
    *lower = fe_slice_axis(s, after[0], row, 0, t->n);
    return !lower->bad && !t->inverse.bad;
}

struct fe_triangle *fe_cholesky_by_blocks(struct fe_site *s, struct fe_val x, struct fe_val *lower)
{
    if (x.bad) return NULL;
    int64_t n = fe_type_at(s, &x).dim[fe_rank(s, &x) - 1], half = fe_half_of(n, BLOCK), rest = n - half;
    struct fe_triangle *t = new_triangle(s, n);
    struct fe_val parts[2];
    if (n <= BLOCK) return cholesky_block(s, x, t, lower) ? t : NULL;
    if (!(t->first = fe_cholesky_by_blocks(s, fe_block(s, x, 0, 0, half, half), &parts[0]))) return NULL;
    t->below = fe_triangle_solve_behind(s, t->first, fe_block(s, x, half, 0, rest, half));
    struct fe_val left = fe_sub(s, fe_block(s, x, half, half, rest, rest),
                                fe_product(s, t->below, fe_turned(s, t->below)));
    if (!(t->last = fe_cholesky_by_blocks(s, left, &parts[1]))) return NULL;
    *lower = assembled(s, parts[0], t->below, parts[1]);
    return lower->bad ? NULL : t;
}
