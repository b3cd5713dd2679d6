/* Fourier transforms, which give complex values. They are products with small matrices, one for each factor of the
 * length (Cooley and Tukey 1965). */
#include "frontend/expr/makers.h"
#include <math.h>
#include <string.h>

enum { DIRECT = 32 /* up to this length, or for a prime, one product */, LONGEST = 1 << 20, LARGEST_PRIME = 1024 };

struct fe_val make_complex(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), y = fe_inexact(s, ARG(1));
    struct fe_val all = x.bad || y.bad ? fe_bad() : FE_APPLY(s, "broadcast_arrays", x, y);
    return all.bad ? all : fe_complex(s, all.items[0], all.items[1]);
}

/* ---------------------------------------------------------------- Fourier transforms */

/* cos and sin of sign * 2 pi i j / n for i < rows, j < columns. */
static void roots(struct fe_site *s, int64_t n, int64_t rows, int64_t columns, double sign, struct fe_val w[2])
{
    float *v[2];
    for (int k = 0; k < 2; k++) v[k] = arena_new_array(s->fe->arena, float, rows *columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double angle = sign * 2 * acos(-1.0) * (double)(i * j % n) / (double)n;
            v[0][i * columns + j] = (float)cos(angle), v[1][i * columns + j] = (float)sin(angle);
        }
    for (int k = 0; k < 2; k++)
        w[k] = fe_val_tensor(ir_constant(s->b, ir_type_of(IR_F32, 2, (int64_t[]){rows, columns}), v[k]));
}

static struct fe_val times(struct fe_site *s, struct fe_val x, struct fe_val w)
{
    return fe_is_none(&x) ? x : FE_APPLY(s, "matmul", x, w);
}
static struct fe_val plus(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    return fe_is_none(&a) ? b : fe_is_none(&b) ? a : fe_add(s, a, b);
}
static struct fe_val minus(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    return fe_is_none(&b) ? a : fe_is_none(&a) ? fe_op1(s, OP_neg, b) : fe_sub(s, a, b);
}

/* x[0] + i x[1] [batch, n] along its last axis; x[1] may be None. */
static bool transform(struct fe_site *s, int64_t n, double sign, struct fe_val x[2])
{
    struct fe_val w[2], y[2];
    int64_t factor = 1, batch = fe_type_at(s, &x[0]).dim[0];
    if (n == 1) return true;
    for (int64_t k = 2; k <= DIRECT && n > DIRECT; k++)
        if (n % k == 0) factor = k;
    if (factor == 1) {
        roots(s, n, n, n, sign, w);
        y[0] = minus(s, times(s, x[0], w[0]), times(s, x[1], w[1]));
        y[1] = plus(s, times(s, x[0], w[1]), times(s, x[1], w[0]));
        return x[0] = y[0], x[1] = y[1], !y[0].bad && !y[1].bad;
    }
    /* [batch, factor, rest] -> [batch, rest, factor]: transform, turn by the angles between, turn around, transform the
     * rest */
    int64_t rest = n / factor;
    static const uint32_t swap[] = {0, 2, 1};
    for (int k = 0; k < 2; k++) {
        if (fe_is_none(&x[k])) continue;
        x[k] = fe_transpose_val(s, fe_reshape_val(s, x[k], 3, (int64_t[]){batch, factor, rest}), swap);
        x[k] = x[k].bad ? x[k] : fe_reshape_val(s, x[k], 2, (int64_t[]){batch * rest, factor});
        if (x[k].bad) return false;
    }
    if (!transform(s, factor, sign, x)) return false;
    roots(s, n, rest, factor, sign, w);
    for (int k = 0; k < 2; k++)
        x[k] = fe_is_none(&x[k]) ? x[k] : fe_reshape_val(s, x[k], 3, (int64_t[]){batch, rest, factor});
    for (int k = 0; k < 2; k++) y[k] = fe_is_none(&x[k]) ? x[k] : fe_mul(s, x[k], w[0]);
    struct fe_val cross[] = {fe_is_none(&x[1]) ? x[1] : fe_mul(s, x[1], w[1]), fe_mul(s, x[0], w[1])};
    x[0] = minus(s, y[0], cross[0]), x[1] = plus(s, cross[1], y[1]);
    for (int k = 0; k < 2; k++) {
        x[k] = fe_transpose_val(s, x[k], swap);
        x[k] = x[k].bad ? x[k] : fe_reshape_val(s, x[k], 2, (int64_t[]){batch * factor, rest});
        if (x[k].bad) return false;
    }
    if (!transform(s, rest, sign, x)) return false;
    for (int k = 0; k < 2; k++) { /* frequency k1 + factor * k2 */
        x[k] = fe_transpose_val(s, fe_reshape_val(s, x[k], 3, (int64_t[]){batch, factor, rest}), swap);
        x[k] = x[k].bad ? x[k] : fe_reshape_val(s, x[k], 2, (int64_t[]){batch, n});
    }
    return !x[0].bad && !x[1].bad;
}

/* The first n elements of the last axis, or zeros behind. */
static struct fe_val resized(struct fe_site *s, struct fe_val x, int64_t n)
{
    struct ir_type t = fe_type_at(s, &x);
    int64_t have = t.dim[t.rank - 1], none[IR_MAX_RANK] = {0}, more[IR_MAX_RANK] = {0};
    if (have >= n) return fe_slice_axis(s, x, t.rank - 1u, 0, n);
    more[t.rank - 1] = n - have;
    return fe_val_tensor(ir_pad(s->b, x.tensor, ir_scalar(s->b, (enum ir_dtype)t.dtype, 0), none, more, none));
}

static bool largest_prime_fits(int64_t n)
{
    for (int64_t k = 2; k * k <= n; k++)
        while (n % k == 0 && n > k) n /= k;
    return n <= LARGEST_PRIME;
}

struct fe_val make_fft(struct fe_call *c)
{ /* data 0: fft, 1: ifft, 2: rfft, 3: irfft */
    enum { N = 1, AXIS, NORM };
    SITE;
    bool inverse = c->data & 1, to_half = c->data == 2, from_half = c->data == 3;
    struct fe_val x[2] = {fe_real(s, &ARG(0)), fe_is_complex(&ARG(0)) ? ARG(0).items[1] : fe_none()}, last = fe_int(-1);
    if (x[0].bad || x[1].bad) return fe_bad();
    int64_t axis, n;
    uint32_t at, rank = fe_rank(s, &x[0]);
    if (!fe_get_int(c, AXIS, &axis) || !fe_get_axis(s, axis, rank, &at)) return fe_bad();
    int64_t have = fe_type_at(s, &x[0]).dim[at];
    n = from_half ? 2 * (have - 1) : have;
    if (!fe_is_none(&ARG(N)) && !fe_get_int(c, N, &n)) return fe_bad();
    if (n < 1 || n > LONGEST || !largest_prime_fits(n))
        return fe_fail(s, "E0302", "%s of length %lld is not supported yet", c->function, (long long)n);
    const char *norm = ARG(NORM).kind == FE_VAL_STRING ? ARG(NORM).string : fe_is_none(&ARG(NORM)) ? "backward" : "";
    bool ortho = !strcmp(norm, "ortho"), forward = !strcmp(norm, "forward");
    if (!ortho && !forward && strcmp(norm, "backward"))
        return fe_fail(s, "E0310", "%s: the norm is 'backward', 'ortho' or 'forward'", c->function);
    struct ir_type t = {0};
    for (int k = 0; k < 2; k++) {
        if (fe_is_none(&x[k])) continue;
        x[k] = FE_APPLY(s, "moveaxis", fe_cast(s, x[k], IR_F32), fe_int(at), last);
        x[k] = x[k].bad ? x[k] : resized(s, x[k], from_half ? n / 2 + 1 : n);
        if (x[k].bad) return fe_bad();
        if (from_half && n > 2) { /* the other half is the mirror image, conjugated */
            struct fe_val mirror = FE_APPLY(s, "flip", fe_slice_axis(s, x[k], rank - 1, 1, n - n / 2), last);
            struct fe_val both[] = {x[k], k ? fe_op1(s, OP_neg, mirror) : mirror};
            x[k] = both[1].bad ? both[1] : FE_APPLY(s, "concatenate", fe_tuple(s, both, 2), last);
        } else if (from_half) x[k] = resized(s, x[k], n);
        if (x[k].bad) return fe_bad();
        t = fe_type_at(s, &x[k]);
        x[k] = fe_reshape_val(s, x[k], 2, (int64_t[]){ir_type_elements(&t) / n, n});
    }
    if (!transform(s, n, inverse ? 1 : -1, x)) return fe_bad();
    if (fe_is_none(&x[1])) x[1] = FE_APPLY(s, "zeros_like", x[0]);
    double scale = ortho ? 1 / sqrt((double)n) : forward == inverse ? 1 : 1 / (double)n;
    for (int k = 0; k < (from_half ? 1 : 2); k++) {
        x[k] = fe_reshape_val(s, x[k], t.rank, t.dim);
        if (to_half) x[k] = fe_slice_axis(s, x[k], t.rank - 1u, 0, n / 2 + 1);
        if (scale != 1) x[k] = fe_mul(s, x[k], fe_float(scale));
        x[k] = x[k].bad ? x[k] : FE_APPLY(s, "moveaxis", x[k], last, fe_int(at));
        if (x[k].bad) return fe_bad();
    }
    return from_half ? x[0] : fe_complex(s, x[0], x[1]);
}

/* Along several axes, one after the other; the half is that of the last one. */
struct fe_val make_fftn(struct fe_call *c)
{ /* data 0: fftn, 1: ifftn, 2: rfftn, 3: irfftn */
    enum { SIZES = 1, AXES, NORM };
    static const char *const names[] = {"fft", "ifft", "rfft", "irfft"};
    SITE;
    struct fe_val x = ARG(0), first = fe_real(s, &x);
    int64_t sizes[IR_MAX_RANK];
    uint32_t axes[IR_MAX_RANK], n, given = 0;
    if (first.bad) return first;
    uint32_t rank = fe_rank(s, &first);
    bool sized = !fe_is_none(&ARG(SIZES)), half = c->data >= 2;
    if (sized && !fe_get_ints(s, &ARG(SIZES), sizes, IR_MAX_RANK, &given, "s")) return fe_bad();
    if (!fe_get_axes(c, AXES, rank, axes, &n)) return fe_bad();
    if (fe_is_none(&ARG(AXES))) { /* the last ones */
        uint32_t some = sized ? given : n;
        if (some > rank)
            return fe_fail(s, "E0212", "%s: %s has fewer than %u axes", c->function, fe_describe(s, &first),
                           (unsigned)some);
        for (uint32_t i = 0; i < some; i++) axes[i] = rank - some + i;
        n = some;
    }
    if (!n || (sized && given != n))
        return fe_fail(s, "E0212", "%s: %u sizes for %u axes", c->function, (unsigned)given, (unsigned)n);
    for (uint32_t k = 0; k < n && !x.bad; k++) {
        uint32_t i = c->data == 3 ? (k + 1 < n ? n - 2 - k : n - 1) : n - 1 - k; /* irfftn: the last axis at the end */
        int kind = half && i == n - 1 ? c->data : c->data & 1;
        x = FE_APPLY(s, names[kind], x, sized ? fe_int((double)sizes[i]) : fe_none(), fe_int(axes[i]), ARG(NORM));
    }
    return x;
}

/* jax.scipy.fft: type 2 alone, of the whole axis. */
struct fe_val make_dct(struct fe_call *c)
{ /* data 1: back */
    SITE;
    int64_t type;
    if (!fe_get_int(c, 1, &type)) return fe_bad();
    if (type != 2) return fe_fail(s, "E0302", "%s of type %lld is not supported yet", c->function, (long long)type);
    if (!fe_is_none(&ARG(4)) && (ARG(4).kind != FE_VAL_STRING || strcmp(ARG(4).string, "ortho")))
        return fe_fail(s, "E0310", "%s: the norm is None or 'ortho'", c->function);
    struct fe_val x = fe_inexact(s, ARG(0)), last = fe_int(-1);
    int64_t n;
    if (!fe_is_none(&ARG(2))) { /* cut off, or with zeros behind */
        if (x.bad || !fe_get_int(c, 2, &n)) return fe_bad();
        if (n < 1 || n > LONGEST) return fe_fail(s, "E0212", "%s: a length of %lld", c->function, (long long)n);
        x = FE_APPLY(s, "moveaxis", x, ARG(3), last);
        x = x.bad ? x : resized(s, x, n);
        x = x.bad ? x : FE_APPLY(s, "moveaxis", x, last, ARG(3));
    }
    return x.bad ? x : FE_APPLY(s, c->data ? "idct_last" : "dct_last", x, ARG(3), ARG(4));
}
