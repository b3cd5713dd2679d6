/* Products of expressions: einsum contracts its operands pair by pair, in the order that takes least (linear_path.c),
 * into OP_dot; the other products are written as einsums. */
#include "frontend/expr/functions/linear.h"
#include <string.h>

/* A tensor whose dimensions carry labels; an ellipsis has become labels 1, 2, ... counted from the right. */
struct labelled {
    struct fe_val v;
    char label[IR_MAX_RANK];
    uint32_t rank;
};

static int find(const struct labelled *x, char label)
{
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->label[i] == label) return (int)i;
    return -1;
}
static bool has(const char *labels, uint32_t n, char label) { return memchr(labels, label, n) != NULL; }

static void drop(struct fe_site *s, struct labelled *x, uint32_t axis)
{
    x->v = fe_reduce(s, FE_RED_SUM, x->v, &axis, 1, NULL);
    memmove(x->label + axis, x->label + axis + 1, x->rank - axis - 1);
    x->rank--;
}

/* A label that stands twice: keep the diagonal. */
static void take_diagonals(struct fe_site *s, struct labelled *x)
{
    for (uint32_t i = 0; i < x->rank; i++)
        for (uint32_t j = i + 1; j < x->rank; j++) {
            if (x->label[i] != x->label[j] || x->v.bad) continue;
            struct ir_type t = fe_type_at(s, &x->v);
            if (t.dim[i] != t.dim[j]) {
                x->v = fe_fail(s, "E0210", "einsum: label '%c' stands for %lld and %lld", x->label[i],
                               (long long)t.dim[i], (long long)t.dim[j]);
                return;
            }
            t.dtype = IR_I32;
            struct fe_val same = fe_binary(s, EXPR_OP_EQ, fe_iota(s, t, i), fe_iota(s, t, j));
            x->v = fe_where3(s, same, x->v, fe_int(0));
            drop(s, x, j--);
        }
}

static struct fe_val reorder(struct fe_site *s, const struct labelled *x, const char *labels, uint32_t n)
{
    uint32_t perm[IR_MAX_RANK];
    for (uint32_t i = 0; i < n; i++) perm[i] = (uint32_t)find(x, labels[i]);
    return fe_transpose_val(s, x->v, perm);
}

/* Aligned to `labels` with extent 1 where it has none. */
static struct fe_val align(struct fe_site *s, const struct labelled *x, const char *labels, uint32_t n)
{
    char own[IR_MAX_RANK];
    uint32_t m = 0;
    int64_t shape[IR_MAX_RANK];
    struct ir_type t = fe_type_at(s, &x->v);
    for (uint32_t i = 0; i < n; i++) {
        int at = find(x, labels[i]);
        shape[i] = at >= 0 ? t.dim[at] : 1;
        if (at >= 0) own[m++] = labels[i];
    }
    return fe_reshape_val(s, reorder(s, x, own, m), n, shape);
}

/* The product in what x and y promote to; of bools, whether any product is true. */
static struct fe_val promoted_dot(struct fe_site *s, const struct fe_val *x, const struct fe_val *y,
                                  struct ir_ints lhs_batch, struct ir_ints rhs_batch, struct ir_ints lhs_contract,
                                  struct ir_ints rhs_contract)
{
    struct fe_kind_of k = fe_promote(fe_kind(s, x), fe_kind(s, y));
    enum ir_dtype dtype = k.dtype == IR_BOOL ? IR_I32 : k.dtype;
    ir_value v = ir_dot(s->b, fe_value_as(s, x, dtype), fe_value_as(s, y, dtype), lhs_batch, rhs_batch, lhs_contract,
                        rhs_contract);
    return fe_tensor_val(v ? ir_cast(s->b, v, k.dtype) : 0, k.weak);
}

/* x and y -> one tensor; labels that `keep` lacks are summed. */
static struct labelled pair(struct fe_site *s, struct labelled x, struct labelled y, const char *keep,
                            uint32_t keep_count)
{
    struct labelled out = {0};
    int64_t lb[IR_MAX_RANK], rb[IR_MAX_RANK], lc[IR_MAX_RANK], rc[IR_MAX_RANK];
    uint32_t batch = 0, contract = 0;
    for (uint32_t i = x.rank; i-- > 0;)
        if (find(&y, x.label[i]) < 0 && !has(keep, keep_count, x.label[i])) drop(s, &x, i);
    for (uint32_t i = y.rank; i-- > 0;)
        if (find(&x, y.label[i]) < 0 && !has(keep, keep_count, y.label[i])) drop(s, &y, i);
    if (x.v.bad || y.v.bad) return (struct labelled){.v = fe_bad()};
    for (uint32_t i = 0; i < x.rank; i++) {
        int j = find(&y, x.label[i]);
        if (j < 0) continue;
        if (has(keep, keep_count, x.label[i])) {
            lb[batch] = i;
            rb[batch++] = j;
            out.label[out.rank++] = x.label[i];
        } else {
            lc[contract] = i;
            rc[contract++] = j;
        }
    }
    for (uint32_t i = 0; i < x.rank; i++)
        if (find(&y, x.label[i]) < 0) out.label[out.rank++] = x.label[i];
    for (uint32_t i = 0; i < y.rank; i++)
        if (find(&x, y.label[i]) < 0) {
            if (out.rank == IR_MAX_RANK)
                return (struct labelled){
                    .v = fe_fail(s, "E0212", "einsum: more than %d dimensions in an intermediate result", IR_MAX_RANK)};
            out.label[out.rank++] = y.label[i];
        }
    if (!contract) { /* no sum: an ordinary product, which fuses */
        out.v = fe_mul(s, align(s, &x, out.label, out.rank), align(s, &y, out.label, out.rank));
        return out;
    }
    out.v = promoted_dot(s, &x.v, &y.v, (struct ir_ints){lb, batch}, (struct ir_ints){rb, batch},
                         (struct ir_ints){lc, contract}, (struct ir_ints){rc, contract});
    return out;
}

/* ---------------------------------------------------------------- the formula */

struct formula {
    const char *part[FE_MAX_ARGS];
    uint32_t length[FE_MAX_ARGS];
    uint32_t count;
    const char *output;
    uint32_t output_length;
};

static bool split_formula(struct fe_site *s, const char *text, struct formula *f)
{
    char *clean = arena_string(s->fe->arena, text), *to = clean;
    for (const char *from = text; *from; from++)
        if (*from != ' ') *to++ = *from;
    *to = 0;
    char *arrow = strstr(clean, "->");
    *f = (struct formula){0};
    if (arrow) {
        *arrow = 0;
        f->output = arrow + 2;
        f->output_length = (uint32_t)strlen(f->output);
    }
    for (const char *at = clean; f->count < FE_MAX_ARGS;) {
        const char *comma = strchr(at, ',');
        f->part[f->count] = at;
        f->length[f->count++] = (uint32_t)(comma ? (size_t)(comma - at) : strlen(at));
        if (!comma) return true;
        at = comma + 1;
    }
    fe_fail(s, "E0310", "einsum: at most %d operands", FE_MAX_ARGS);
    return false;
}

/* Labels of one operand (rank known) or of the output (`dots`: width of the ellipsis). */
static bool read_labels(struct fe_site *s, const char *text, uint32_t length, uint32_t dots, char *labels,
                        uint32_t *count)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < length; i++) {
        bool ellipsis = i + 2 < length && text[i] == '.' && text[i + 1] == '.' && text[i + 2] == '.';
        bool letter = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
        if (!ellipsis && !letter)
            return fe_wrong_here(s, "E0310", "einsum: unexpected '%c' in \"%.*s\"", text[i], (int)length, text);
        uint32_t width = ellipsis ? dots : 1;
        if (n + width > IR_MAX_RANK) return fe_wrong_here(s, "E0212", "einsum: more than %d dimensions", IR_MAX_RANK);
        for (uint32_t j = 0; j < width; j++) labels[n++] = ellipsis ? (char)(width - j) : text[i];
        if (ellipsis) i += 2;
    }
    *count = n;
    return true;
}

static uint32_t letters(const char *text, uint32_t length)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < length; i++) n += text[i] != '.';
    return n;
}

/* Without "->": the labels that stand once, in alphabetic order, after the ellipsis. */
static void implicit_output(const struct formula *f, uint32_t dots, char *out, uint32_t *n)
{
    *n = 0;
    for (uint32_t d = dots; d > 0; d--) out[(*n)++] = (char)d;
    for (char l = 'A'; l <= 'z'; l++) {
        uint32_t seen = 0;
        for (uint32_t i = 0; i < f->count; i++)
            for (uint32_t j = 0; j < f->length[i]; j++) seen += f->part[i][j] == l;
        if (seen == 1 && *n < IR_MAX_RANK) out[(*n)++] = l;
    }
}

static bool check_extents(struct fe_site *s, const struct labelled *x, uint32_t count)
{
    for (char l = 1; l > 0 && l <= 'z'; l++) {
        int64_t extent = -1;
        for (uint32_t i = 0; i < count; i++) {
            int at = find(&x[i], l);
            if (at < 0) continue;
            int64_t here = fe_type_at(s, &x[i].v).dim[at];
            if (extent >= 0 && here != extent) {
                if (l < 'A')
                    fe_fail(s, "E0210", "einsum: the dimensions of \"...\" are %lld and %lld", (long long)extent,
                            (long long)here);
                else
                    fe_fail(s, "E0210", "einsum: label '%c' stands for %lld and %lld", l, (long long)extent,
                            (long long)here);
                return false;
            }
            extent = here;
        }
    }
    return true;
}

/* An ellipsis dimension of extent 1 broadcasts: it is dropped where another operand has more. */
static void drop_ones(struct fe_site *s, struct labelled *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t a = x[i].rank; a-- > 0;) {
            bool other = false;
            if (x[i].label[a] >= 'A' || fe_type_at(s, &x[i].v).dim[a] != 1) continue;
            for (uint32_t j = 0; j < count; j++) {
                int at = find(&x[j], x[i].label[a]);
                other |= at >= 0 && fe_type_at(s, &x[j].v).dim[at] != 1;
            }
            if (other) drop(s, &x[i], a);
        }
}

static uint32_t bit_of(char label)
{
    return (uint32_t)(label < 'A' ? 51 + label : label < 'a' ? label - 'A' : label - 'a' + 26);
}

static uint64_t bits_of(const char *labels, uint32_t count)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < count; i++) bits |= UINT64_C(1) << bit_of(labels[i]);
    return bits;
}

/* x has room for as many again. */
static struct labelled contract(struct fe_site *s, struct labelled *x, uint32_t count, const char *out, uint32_t n)
{
    struct fe_contraction path[FE_MAX_ARGS];
    uint64_t labels[FE_MAX_ARGS];
    double extent[64] = {0};
    bool used[2 * FE_MAX_ARGS] = {false};
    for (uint32_t i = 0; i < count; i++) {
        struct ir_type t = fe_type_at(s, &x[i].v);
        labels[i] = bits_of(x[i].label, x[i].rank);
        for (uint32_t d = 0; d < x[i].rank; d++) extent[bit_of(x[i].label[d])] = (double)t.dim[d];
    }
    fe_contraction_path(labels, count, bits_of(out, n), extent, path);
    for (uint32_t i = 0; i + 1 < count; i++) {
        const struct labelled *a = &x[path[i].first], *b = &x[path[i].second];
        char keep[IR_MAX_RANK * (FE_MAX_ARGS + 1)];
        uint32_t m = 0, made = count + i;
        used[path[i].first] = used[path[i].second] = true;
        for (uint32_t j = 0; j < n; j++) keep[m++] = out[j];
        for (uint32_t j = 0; j < made; j++)
            for (uint32_t d = 0; !used[j] && d < x[j].rank; d++) keep[m++] = x[j].label[d];
        x[made] = pair(s, *a, *b, keep, m);
        if (x[made].v.bad) return x[made];
    }
    return x[count > 1 ? 2 * count - 2 : 0];
}

struct fe_val fe_einsum(struct fe_site *s, const char *text, const struct fe_val *operands, uint32_t count)
{
    struct formula f;
    struct labelled x[2 * FE_MAX_ARGS];
    uint32_t dots = 0, n;
    char out[IR_MAX_RANK];
    if (!split_formula(s, text, &f)) return fe_bad();
    if (f.count != count)
        return fe_fail(s, "E0312", "einsum: \"%s\" has %u operands, found %u", text, (unsigned)f.count,
                       (unsigned)count);
    for (uint32_t i = 0; i < count; i++) {
        x[i] = (struct labelled){.v = operands[i]};
        if (!fe_as_tensor(s, &x[i].v)) return fe_bad();
        uint32_t rank = fe_rank(s, &x[i].v), named = letters(f.part[i], f.length[i]),
                 width = rank > named ? rank - named : 0;
        bool open = memchr(f.part[i], '.', f.length[i]) != NULL;
        if (named > rank || (width && !open))
            return fe_fail(s, "E0210", "einsum: \"%.*s\" does not fit %s", (int)f.length[i], f.part[i],
                           fe_describe(s, &x[i].v));
        if (!read_labels(s, f.part[i], f.length[i], width, x[i].label, &x[i].rank)) return fe_bad();
        if (width > dots) dots = width;
        take_diagonals(s, &x[i]);
        if (x[i].v.bad) return fe_bad();
    }
    drop_ones(s, x, count);
    if (!check_extents(s, x, count)) return fe_bad();
    if (!f.output) implicit_output(&f, dots, out, &n);
    else if (!read_labels(s, f.output, f.output_length, dots, out, &n)) return fe_bad();
    for (uint32_t i = 0; i < n; i++) {
        bool known = false;
        for (uint32_t j = 0; j < count; j++) known |= find(&x[j], out[i]) >= 0;
        if (!known || has(out, i, out[i]))
            return fe_fail(s, "E0310", "einsum: label '%c' of the result %s", out[i],
                           known ? "stands twice" : "is in no operand");
    }
    struct fe_kind_of kind = fe_kind(s, &x[0].v);
    for (uint32_t i = 1; i < count; i++) kind = fe_promote(kind, fe_kind(s, &x[i].v));
    struct labelled all = contract(s, x, count, out, n);
    if (all.v.bad) return all.v;
    for (uint32_t i = all.rank; i-- > 0;)
        if (!has(out, n, all.label[i])) drop(s, &all, i);
    if (!all.v.bad && !ir_dtype_is_float(kind.dtype))
        all.v = fe_cast(s, all.v, kind.dtype); /* sums of what is narrow stay so */
    return all.v.bad ? all.v : reorder(s, &all, out, n);
}

/* preferred_element_type: products and sums are formed in it if it is wider than the operands. */
static bool preferred(struct fe_call *c, uint32_t arg, struct fe_val *operands, uint32_t count, enum ir_dtype *result)
{
    *result = IR_TUPLE;
    if (fe_is_none(&ARG(arg))) return true;
    if (!fe_get_dtype(c, arg, result)) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!fe_as_tensor(c->site, &operands[i])) return false;
        enum ir_dtype d = (enum ir_dtype)fe_type_at(c->site, &operands[i]).dtype;
        if (ir_dtype_bytes(*result) > ir_dtype_bytes(d) || (ir_dtype_is_float(*result) && !ir_dtype_is_float(d)))
            operands[i] = fe_cast(c->site, operands[i], *result);
    }
    return true;
}

static struct fe_val as_preferred(struct fe_call *c, enum ir_dtype result, struct fe_val v)
{
    return result == IR_TUPLE || v.bad ? v : fe_cast(c->site, v, result);
}

struct fe_val make_einsum(struct fe_call *c)
{
    if (ARG(0).kind != FE_VAL_STRING)
        return fe_fail(c->site, "E0310", "einsum needs its formula first, such as 'ij,jk->ik'");
    enum ir_dtype result;
    struct fe_val *operands = arena_new_array(c->site->fe->arena, struct fe_val, c->rest_count + 1);
    for (uint32_t i = 0; i < c->rest_count; i++) operands[i] = c->rest[i];
    if (!preferred(c, 1, operands, c->rest_count, &result)) return fe_bad();
    return as_preferred(c, result, fe_einsum(c->site, ARG(0).string, operands, c->rest_count));
}

/* ---------------------------------------------------------------- products by name */

static bool two_tensors(struct fe_call *c, struct ir_type *a, struct ir_type *b)
{
    if (!fe_as_tensor(c->site, &ARG(0)) || !fe_as_tensor(c->site, &ARG(1))) return false;
    *a = fe_type_at(c->site, &ARG(0));
    *b = fe_type_at(c->site, &ARG(1));
    return true;
}

static struct fe_val two(struct fe_call *c, const char *formula)
{
    struct fe_val both[] = {ARG(0), ARG(1)};
    return fe_einsum(c->site, formula, both, 2);
}

static struct fe_val inner_mismatch(struct fe_call *c, int64_t x, int64_t y)
{
    return fe_fail(c->site, "E0210", "%s of %s and %s: the inner sizes are %lld and %lld", c->function,
                   fe_describe(c->site, &ARG(0)), fe_describe(c->site, &ARG(1)), (long long)x, (long long)y);
}

static struct fe_val matmul_of(struct fe_call *c)
{
    struct ir_type a, b;
    if (!two_tensors(c, &a, &b)) return fe_bad();
    if (!a.rank || !b.rank)
        return fe_fail(c->site, "E0210", "a matrix product of %s and %s: scalars have none, use *",
                       fe_describe(c->site, &ARG(0)), fe_describe(c->site, &ARG(1)));
    int64_t x = a.dim[a.rank - 1], y = b.dim[b.rank == 1 ? 0 : b.rank - 2];
    if (x != y) return inner_mismatch(c, x, y);
    if (a.rank == 1 && b.rank == 1) return two(c, "k,k->");
    if (b.rank == 1) return two(c, "...k,k->...");
    if (a.rank == 1) return two(c, "k,...kn->...n");
    if (b.rank == 2) return two(c, "...k,kn->...n");
    return two(c, "...mk,...kn->...mn");
}

static struct fe_val dot_of(struct fe_call *c)
{
    struct ir_type a, b;
    if (!two_tensors(c, &a, &b)) return fe_bad();
    if (!a.rank || !b.rank) return fe_mul(c->site, ARG(0), ARG(1));
    int64_t x = a.dim[a.rank - 1], y = b.dim[b.rank == 1 ? 0 : b.rank - 2];
    if (x != y) return inner_mismatch(c, x, y);
    if (b.rank == 1) return two(c, "...k,k->...");
    if (b.rank == 2) return two(c, "...k,kn->...n");
    int64_t lc = a.rank - 1, rc = b.rank - 2;
    return promoted_dot(c->site, &ARG(0), &ARG(1), (struct ir_ints){0}, (struct ir_ints){0}, (struct ir_ints){&lc, 1},
                        (struct ir_ints){&rc, 1});
}

static struct fe_val vdot_of(struct fe_call *c)
{
    ARG(0) = FE_APPLY(c->site, "ravel", ARG(0));
    ARG(1) = FE_APPLY(c->site, "ravel", ARG(1));
    return ARG(0).bad || ARG(1).bad ? fe_bad() : two(c, "i,i->");
}

static struct fe_val inner_of(struct fe_call *c)
{
    struct ir_type a, b;
    if (!two_tensors(c, &a, &b)) return fe_bad();
    if (!a.rank || !b.rank) return fe_mul(c->site, ARG(0), ARG(1));
    if (a.dim[a.rank - 1] != b.dim[b.rank - 1]) return inner_mismatch(c, a.dim[a.rank - 1], b.dim[b.rank - 1]);
    struct fe_val axes[] = {fe_int(-1), fe_int(-1)},
                  pair_of[] = {fe_tuple(c->site, &axes[0], 1), fe_tuple(c->site, &axes[1], 1)};
    return FE_APPLY(c->site, "tensordot", ARG(0), ARG(1), fe_tuple(c->site, pair_of, 2));
}

static struct fe_val tensordot_of(struct fe_call *c)
{
    SITE;
    struct ir_type a, b;
    int64_t lc[IR_MAX_RANK], rc[IR_MAX_RANK];
    uint32_t n, m;
    if (!two_tensors(c, &a, &b)) return fe_bad();
    if (ARG(2).kind == FE_VAL_TUPLE) {
        if (ARG(2).count != 2) return fe_fail(s, "E0310", "tensordot: axes must be a number or two lists");
        if (!fe_get_ints(s, &ARG(2).items[0], lc, IR_MAX_RANK, &n, "axes") ||
            !fe_get_ints(s, &ARG(2).items[1], rc, IR_MAX_RANK, &m, "axes"))
            return fe_bad();
        if (n != m) return fe_fail(s, "E0310", "tensordot: %u axes and %u axes", (unsigned)n, (unsigned)m);
    } else {
        int64_t k;
        if (!fe_get_int(c, 2, &k)) return fe_bad();
        if (k < 0 || k > a.rank || k > b.rank)
            return fe_fail(s, "E0212", "tensordot: %lld axes of %s and %s", (long long)k, fe_describe(s, &ARG(0)),
                           fe_describe(s, &ARG(1)));
        n = (uint32_t)k;
        for (uint32_t i = 0; i < n; i++) {
            lc[i] = a.rank - n + i;
            rc[i] = i;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x, y;
        if (!fe_get_axis(s, lc[i], a.rank, &x) || !fe_get_axis(s, rc[i], b.rank, &y)) return fe_bad();
        if (a.dim[x] != b.dim[y]) return inner_mismatch(c, a.dim[x], b.dim[y]);
        lc[i] = x;
        rc[i] = y;
    }
    return promoted_dot(s, &ARG(0), &ARG(1), (struct ir_ints){0}, (struct ir_ints){0}, (struct ir_ints){lc, n},
                        (struct ir_ints){rc, n});
}

/* Each of them with its preferred_element_type. */
static struct fe_val product(struct fe_call *c, uint32_t arg, struct fe_val (*of)(struct fe_call *))
{
    enum ir_dtype result;
    return preferred(c, arg, c->arg, 2, &result) ? as_preferred(c, result, of(c)) : fe_bad();
}
struct fe_val make_matmul(struct fe_call *c) { return product(c, 2, matmul_of); }
struct fe_val make_dot(struct fe_call *c) { return product(c, 2, dot_of); }
struct fe_val make_vdot(struct fe_call *c) { return product(c, 2, vdot_of); }
struct fe_val make_inner(struct fe_call *c) { return product(c, 2, inner_of); }
struct fe_val make_tensordot(struct fe_call *c) { return product(c, 3, tensordot_of); }
