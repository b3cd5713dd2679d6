/* Matrices by blocks (linear_triangle.c), for the files of linear algebra. Batches stand in front. What a factorisation
 * does step by step happens in small blocks, in loops that are not differentiated; all else are products. */
#ifndef FRONTEND_EXPR_FUNCTIONS_LINEAR_H
#define FRONTEND_EXPR_FUNCTIONS_LINEAR_H
#include "frontend/expr/makers.h"

/* What einsum contracts (linear_path.c): two operands, or from `count` on what earlier pairs have become. `labels`: of
 * each operand as bits, whose extents are `extent`; those in no other operand and not in the result are summed before.
 * Where no order keeps to the dimensions that a tensor may have the path goes from left to right. */
struct fe_contraction {
    uint32_t first, second;
};
void fe_contraction_path(const uint64_t *labels, uint32_t count, uint64_t result, const double *extent,
                         struct fe_contraction *path);

struct fe_val fe_turned(struct fe_site *, struct fe_val);                 /* the matrices transposed */
struct fe_val fe_product(struct fe_site *, struct fe_val, struct fe_val); /* matmul */
struct fe_val fe_row_numbers(struct fe_site *, struct fe_val x);          /* int32 [.., n, 1] */
struct fe_val fe_column_numbers(struct fe_site *, struct fe_val x);       /* [.., 1, m] */
struct fe_val fe_block(struct fe_site *, struct fe_val x, int64_t row, int64_t column, int64_t rows, int64_t columns);
/* `extent` elements of a dimension from the int32 scalar `start` on. */
struct fe_val fe_piece(struct fe_site *, struct fe_val x, uint32_t axis, struct fe_val start, int64_t extent);

/* The rows of the first half: of blocks that are equally large up to a row. */
int64_t fe_half_of(int64_t n, int64_t block);
struct fe_val fe_unit_lower(struct fe_site *, struct fe_val x); /* what is below the diagonal, and 1 on it */

/* A lower triangular matrix as blocks on the diagonal, which are inverted, and what is below them; what is above is not
 * looked at. */
struct fe_triangle {
    int64_t n;
    struct fe_val inverse;            /* of a block [.., n, n] */
    struct fe_triangle *first, *last; /* NULL: it is a block */
    struct fe_val below;              /* [.., last, first] */
};
struct fe_triangle *fe_triangle_of(struct fe_site *, struct fe_val lower);
struct fe_val fe_triangle_inverse(struct fe_site *, const struct fe_triangle *);
/* x with l x = b, l' x = b, or x l' = b. */
struct fe_val fe_triangle_solve(struct fe_site *, const struct fe_triangle *, struct fe_val b);
struct fe_val fe_triangle_solve_turned(struct fe_site *, const struct fe_triangle *, struct fe_val b);
struct fe_val fe_triangle_solve_behind(struct fe_site *, const struct fe_triangle *, struct fe_val b);
/* The lower factor of symmetric matrices, with anything above its diagonal; NaN at the end if one is not positive
 * definite. */
struct fe_triangle *fe_cholesky_by_blocks(struct fe_site *, struct fe_val x, struct fe_val *lower);

/* l u = x, its rows in order (linear_lu.c). */
struct fe_lu {
    struct fe_triangle *lower, *upper_turned;
    struct fe_val order, sign, diagonal; /* int32 [.., n, 1]; of the order [.., 1, 1]; of u [.., n] */
};
bool fe_lu(struct fe_site *, struct fe_val x, struct fe_lu *); /* false: an error was recorded */
struct fe_val fe_lu_solve(struct fe_site *, const struct fe_lu *, struct fe_val b);

/* The product of reflections 1 - u u', a panel of them after the other: 1 - u f u' of the last m rows
 * (linear_reflections.c), for matrices [batch, m, n]. */
enum { FE_PANELS = 16 };
struct fe_reflections {
    struct fe_val of[FE_PANELS], factor[FE_PANELS]; /* [batch, m, k], [batch, k, k] */
    uint32_t count;
};
int64_t fe_panel_columns(int64_t n); /* of a panel, if there are n in all */
bool fe_reflections_add(struct fe_site *, struct fe_reflections *, struct fe_val u);
struct fe_val fe_reflected(struct fe_site *, const struct fe_reflections *, struct fe_val x);
struct fe_val fe_reflections_columns(struct fe_site *, const struct fe_reflections *, int64_t n); /* the first n */
/* u of the reflection that leaves *left at row `to` of a column [batch, m, 1] and nothing below. */
struct fe_val fe_reflection(struct fe_site *, struct fe_val column, struct fe_val to, struct fe_val *left);
struct fe_val fe_column_written(struct fe_site *, struct fe_val x, struct fe_val column, struct fe_val at);
/* Of matrices with no more columns than rows; upper: [batch, n, n]. */
bool fe_qr(struct fe_site *, struct fe_val x, struct fe_reflections *, struct fe_val *upper);

/* Eigenvalues [batch, n], ascending, and eigenvectors as columns of symmetric matrices [batch, n, n] of float32
 * (linear_symmetric.c). */
bool fe_eigenvectors(struct fe_site *, struct fe_val x, struct fe_val *values, struct fe_val *columns);
/* The largest `count` of tridiagonal ones, ascending [batch, count], and their vectors as rows; d, e [batch, n]: the
 * diagonal, and what stands below each of its elements. */
bool fe_tridiagonal(struct fe_site *, struct fe_val d, struct fe_val e, int64_t count, struct fe_val *values,
                    struct fe_val *rows);
struct fe_val fe_magnitude(struct fe_site *, struct fe_val x); /* of the largest element [batch, 1, 1]; 1 if it is 0 */
/* x = u diag(values) v' for square matrices of float32, values descending (linear_singular.c). */
bool fe_singular_vectors(struct fe_site *, struct fe_val x, struct fe_val *u, struct fe_val *values, struct fe_val *v);
#endif
