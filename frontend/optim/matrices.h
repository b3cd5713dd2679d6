/* Parameters as matrices (matrices.c), for transformations that look at whole matrices. */
#ifndef FRONTEND_OPTIM_MATRICES_H
#define FRONTEND_OPTIM_MATRICES_H
#include "frontend/optim/optim.h"

/* How a leaf becomes a batch of matrices [batch, rows, columns]: `order` puts batch axes first, then the axes that are
 * reduced over, then those of the output. */
struct optim_matrices {
    bool used;
    int64_t order[IR_MAX_RANK], size[3];
};
/* Which leaves are matrices, and how, by an argument that maps patterns to dimension numbers: those of rank 2 if it is
 * null, else what the first pattern says. False: errors were recorded. */
bool optim_read_matrices(struct optim_transform *, const char *name, struct optim_matrices *out);
struct fe_term optim_as_matrices(struct ir_builder *, struct fe_term x, const struct optim_matrices *);
struct fe_term optim_as_leaf(struct ir_builder *, struct fe_term x, const struct optim_matrices *,
                             const struct ir_type *leaf);
#endif
