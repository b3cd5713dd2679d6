/* Singular vectors (svd.c). */
#ifndef FRONTEND_OPTIM_SVD_H
#define FRONTEND_OPTIM_SVD_H
#include "frontend/optim/optim.h"

/* The right singular vectors of x [n, m], n <= m, that belong to its r <= n largest singular values, as rows: float32
 * [r, m]. Their signs are free. Where x has a lower rank, the last ones are some that complete an orthonormal set. */
ir_value optim_singular_vectors(struct optim_transform *, ir_value x, int64_t r);
#endif
