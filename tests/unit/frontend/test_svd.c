/* Singular vectors: orthonormal, in order, and such that what they leave of the matrix is as small as it can be; also
 * where the rank is low, and for more rows than one block of rotations holds. */
#include "frontend/optim/svd.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int64_t n, m, r, rank;
    double falls; /* factor between neighbouring columns before mixing */
} tests[] = {{1, 1, 1, 1, 1}, {1, 5, 1, 1, 1},    {2, 2, 2, 2, 1},      {3, 7, 2, 3, 0.5}, {5, 5, 5, 2, 1},
             {4, 6, 3, 0, 1}, {20, 33, 6, 20, 1}, {37, 40, 8, 37, 0.8}, {50, 64, 12, 9, 1}};

/* x = sum of `rank` products of columns and rows. */
static void fill(double *x, int64_t n, int64_t m, int64_t rank, double falls)
{
    memset(x, 0, (size_t)(n * m) * sizeof *x);
    double scale = 1;
    for (int64_t k = 0; k < rank; k++, scale *= falls)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < m; j++)
                x[i * m + j] += scale * sin(1.3 * (double)(i * (k + 2) + k) + 1) *
                                cos(0.7 * (double)(j * (k + 1)) + (double)k);
    for (int64_t i = 0; i < n * m; i++) x[i] = (double)(float)x[i];
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* x v, and xᵀ of that: a singular vector times the square of its value. */
static double residual(const double *x, const double *v, int64_t n, int64_t m, double *value)
{
    double worst = 0, *image = calloc((size_t)n, sizeof *image);
    for (int64_t i = 0; i < n; i++) image[i] = dot(x + i * m, v, m);
    *value = sqrt(dot(image, image, n));
    for (int64_t j = 0; j < m; j++) {
        double back = 0;
        for (int64_t i = 0; i < n; i++) back += x[i * m + j] * image[i];
        worst = fmax(worst, fabs(back - *value * *value * v[j]));
    }
    free(image);
    return worst;
}

START_TEST(vectors)
{
    struct arena arena = {0};
    int64_t n = tests[_i].n, m = tests[_i].m, r = tests[_i].r;
    struct ir_module *module = ir_module_new("test");
    struct fe fe = {.arena = &arena, .module = module};
    struct ir_builder b = {.f = ir_func_new(module, "main", true)};
    struct optim_transform t = {.fe = &fe, .b = &b};
    struct ir_tensor x = {.type = ir_type_of(IR_F32, 2, (int64_t[]){n, m})}, v;
    ir_value in = ir_param_new(&b, "x", x.type, -1);
    ir_result_add(&b, "v", optim_singular_vectors(&t, in, r), -1);
    x.v = arena_new_array(&arena, double, n *m);
    fill(x.v, n, m, tests[_i].rank, tests[_i].falls);
    ir_eval(b.f, IR_EVAL_EXACT_DTYPES, &x, &v, &arena);
    double size = sqrt(dot(x.v, x.v, n * m)), before = INFINITY, value;
    for (int64_t i = 0; i < r; i++) {
        for (int64_t k = 0; k <= i; k++) ck_assert_double_eq_tol(dot(v.v + i * m, v.v + k * m, m), i == k, 3e-6);
        ck_assert_double_le(residual(x.v, v.v + i * m, n, m, &value), 1e-5 * size * size + 1e-30);
        ck_assert_double_le(value, before + 1e-5 * size);
        before = value;
    }
    if (tests[_i].rank <= r) { /* nothing is left */
        double kept = 0;
        for (int64_t i = 0; i < r; i++) {
            (void)residual(x.v, v.v + i * m, n, m, &value);
            kept += value * value;
        }
        ck_assert_double_eq_tol(kept, size * size, 1e-5 * size * size + 1e-30);
    }
    ir_module_free(module);
    arena_free(&arena);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, vectors, 0, sizeof tests / sizeof *tests);
    return run_case("svd", all);
}
