/* Minimal filtering, F(2, 3): two neighbours of a sum over three taps from four products instead of six, along every
 * dimension of a convolution, so that two dimensions take 16 products for four results instead of 36 (Winograd,
 * Arithmetic Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for Convolutional Neural Networks,
 * 2016).
 *
 *   result = made [(kernel taps) * (input elements)], along one dimension, where * goes element by element
 *
 * The gradient of the taps is kernel^T [(made^T cotangent) * (input elements)]. All numbers are 0, 1, -1 and a half, so
 * that what is added differs from the plain sum by rounding alone, which follows the largest element of a tile. */
#ifndef IR_WINOGRAD_H
#define IR_WINOGRAD_H
#include "ir/ir.h"

enum {
    WINOGRAD_TAPS = 3,
    WINOGRAD_MADE = 2,
    WINOGRAD_POINTS = 4, /* products, and elements of the input that a tile reads */
    WINOGRAD_BORDER = WINOGRAD_POINTS - WINOGRAD_MADE,
    WINOGRAD_DIMS = 2, /* of a convolution, at most */
    WINOGRAD_MOST = 16 /* points of all dimensions */
};

/* rows x columns, row by row; `turned`: the transpose of what stands there. */
struct ir_winograd {
    uint32_t rows, columns;
    bool turned;
    const double *number;
};
extern const struct ir_winograd winograd_input, winograd_kernel, winograd_made, winograd_kernel_turned,
    winograd_made_turned;

static inline double winograd_number(const struct ir_winograd *m, uint32_t row, uint32_t column)
{
    return m->turned ? m->number[column * m->rows + row] : m->number[row * m->columns + column];
}

/* Points of so many dimensions, taps, or what is made. */
static inline uint32_t winograd_power(uint32_t of, uint32_t dims) { return dims > 1 ? of * of : of; }

/* Operations of the products of all tiles of an image with the columns of a result, or cotangent. */
double winograd_products(const struct ir_type *image, const struct ir_type *result);
#endif
