/* The orthogonal initializers. A QR decomposition has no place among the ops, so these values are computed here, while
 * the document is compiled, and become a constant of `init`. The normal numbers are those of jax.random.normal. */
#include "frontend/model/block.h"
#include <math.h>
#include <string.h>

static float normal(const uint32_t key[2], uint64_t index)
{
    uint32_t words[2], bits;
    float u, low = nextafterf(-1, 0);
    fe_threefry(key, (uint32_t)(index >> 32), (uint32_t)index, words);
    bits = (words[0] ^ words[1]) >> 9 | 0x3f800000u;
    memcpy(&u, &bits, sizeof u);
    u = (u - 1) * (1 - low) + low;
    return 1.41421356237309505f * ir_erf_inv(u < low ? low : u);
}

/* Columns stand in blocks, a[block][row][WIDE], so that the work on pairs of blocks runs over memory in order. */
enum { WIDE = 16, TILE = 4 };
enum { MOST_TAPS = 1 << 26 /* elements of all of a kernel, of which those in its centre are drawn */ };

/* w = q^T x of two blocks, a tile of w at a time. */
static void products(const double *restrict q, const double *restrict x, int64_t rows, double *restrict w)
{
    for (int a = 0; a < WIDE; a += TILE)
        for (int b = 0; b < WIDE; b += TILE) {
            double sum[TILE][TILE] = {{0}};
            for (int64_t i = 0; i < rows; i++)
                for (int k = 0; k < TILE; k++)
                    for (int j = 0; j < TILE; j++) sum[k][j] += q[i * WIDE + a + k] * x[i * WIDE + b + j];
            for (int k = 0; k < TILE; k++) memcpy(w + (a + k) * WIDE + b, sum[k], sizeof sum[k]);
        }
}

/* x -= q w */
static void subtract(const double *restrict q, double *restrict x, int64_t rows, const double *restrict w)
{
    for (int64_t i = 0; i < rows; i++) {
        double row[WIDE];
        memcpy(row, x + i * WIDE, sizeof row);
        for (int k = 0; k < WIDE; k++)
            for (int j = 0; j < WIDE; j++) row[j] -= q[i * WIDE + k] * w[k * WIDE + j];
        memcpy(x + i * WIDE, row, sizeof row);
    }
}

/* The columns of one block, each after those before it; columns of zeros stay. */
static void orthonormalise_block(double *x, int64_t rows)
{
    for (int j = 0; j < WIDE; j++) {
        for (int k = 0; k < j; k++) {
            double dot = 0;
            for (int64_t i = 0; i < rows; i++) dot += x[i * WIDE + k] * x[i * WIDE + j];
            for (int64_t i = 0; i < rows; i++) x[i * WIDE + j] -= dot * x[i * WIDE + k];
        }
        double norm = 0;
        for (int64_t i = 0; i < rows; i++) norm += x[i * WIDE + j] * x[i * WIDE + j];
        norm = sqrt(norm);
        for (int64_t i = 0; i < rows && norm > 0; i++) x[i * WIDE + j] /= norm;
    }
}

/* Q of a matrix of at least as many rows as columns, with R's diagonal positive: modified Gram-Schmidt by blocks, in
 * double, which leaves less than float32 shows unless the condition is beyond 1e8. */
static void orthonormalise(double *a, int64_t rows, int64_t blocks)
{
    double w[WIDE * WIDE];
    for (int64_t j = 0; j < blocks; j++) {
        double *x = a + j * rows * WIDE;
        for (int64_t k = 0; k < j; k++) {
            products(a + k * rows * WIDE, x, rows, w);
            subtract(a + k * rows * WIDE, x, rows, w);
        }
        orthonormalise_block(x, rows);
    }
}

static int64_t place(int64_t row, int64_t column, int64_t rows)
{
    return (column / WIDE * rows + row) * WIDE + column % WIDE;
}

/* scale * Q for a tensor whose axis `column` is one side and the rest the other; NULL: too large. */
static float *orthogonal(struct arena *arena, const uint32_t key[2], const struct ir_type *t, uint32_t column,
                         double scale)
{
    int64_t n = t->dim[column], total = ir_type_elements(t), others = n ? total / n : 0;
    if (total > (int64_t)1 << 22) return NULL;
    bool wide = n > others; /* the matrix has its longer side first */
    int64_t rows = wide ? n : others, columns = wide ? others : n, after = 1;
    int64_t blocks = (columns + WIDE - 1) / WIDE;
    double *a = arena_new_array(arena, double, rows *blocks *WIDE + 1);
    float *out = arena_new_array(arena, float, total + 1);
    for (int64_t i = 0; i < total; i++) a[place(i / columns, i % columns, rows)] = (double)normal(key, (uint64_t)i);
    orthonormalise(a, rows, blocks);
    for (uint32_t i = column + 1; i < t->rank; i++) after *= t->dim[i];
    for (int64_t i = 0; i < total; i++) { /* element i: index `at` on the axis, `rest` on the others */
        int64_t at = i / after % n, rest = i / after / n * after + i % after;
        out[i] = (float)(scale * a[wide ? place(at, rest, rows) : place(rest, at, rows)]);
    }
    return out;
}

ir_value fe_orthogonal(struct fe *fe, struct ir_builder *b, const struct fe_param *p, const uint32_t key[2],
                       double scale, int64_t column, bool delta)
{
    struct ir_type t = p->type;
    if (p->init_rank) t = ir_type_of(IR_F32, p->init_rank, p->init_shape);
    t.dtype = IR_F32;
    uint32_t rank = t.rank;
    int64_t sides = delta ? 2 : (int64_t)rank;
    if (rank < 2 || column < -sides || column >= sides || (delta && (rank < 3 || rank > 5))) {
        fe_error(fe, p->init, "E0212", "parameter \"%s\" of rank %u cannot be orthogonal", p->path, (unsigned)rank);
        return 0;
    }
    struct ir_type centre_type = ir_type_of(IR_F32, 2, (int64_t[]){t.dim[rank - 2], t.dim[rank - 1]});
    if (delta && t.dim[rank - 2] > t.dim[rank - 1]) {
        fe_error(fe, p->init, "E0212", "parameter \"%s\": delta_orthogonal needs at least as many outputs as inputs",
                 p->path);
        return 0;
    }
    uint32_t axis = (uint32_t)(column < 0 ? column + sides : column);
    float *values = orthogonal(fe->arena, key, delta ? &centre_type : &t, axis, scale);
    if (!values) {
        fe_error(fe, p->init, "E0111",
                 "parameter \"%s\": orthogonal values of more than 4194304 elements are not supported yet", p->path);
        return 0;
    }
    if (delta && ir_type_elements(&t) > MOST_TAPS) {
        fe_error(fe, p->init, "E0111",
                 "parameter \"%s\": delta_orthogonal values of more than %d elements are not supported yet", p->path,
                 MOST_TAPS);
        return 0;
    }
    if (delta) { /* zero but for the centre tap */
        float *all = arena_new_array(fe->arena, float, ir_type_elements(&t) + 1);
        int64_t centre = 0;
        for (uint32_t i = 0; i + 2 < rank; i++) centre = centre * t.dim[i] + (t.dim[i] - 1) / 2;
        if (ir_type_elements(&t)) /* there is a centre */
            memcpy(all + centre * t.dim[rank - 2] * t.dim[rank - 1], values,
                   (size_t)(t.dim[rank - 2] * t.dim[rank - 1]) * sizeof *all);
        values = all;
    }
    ir_value v = ir_constant(b, t, values);
    return p->init_rank ? ir_reshape(b, v, p->type.rank, p->type.dim) : v;
}
