/* Factors of square matrices with row pivots (Toledo, Locality of reference in LU decomposition, 1997): the left half
 * of the columns, then what that leaves of the right one, down to a few columns that a loop eliminates one at a time.
 */
#include "frontend/expr/functions/linear.h"

enum { COLUMNS = 16 /* that a loop takes at least */, PARTS = 32 /* that there are at most */ };

struct part {
    struct fe_val x;     /* [.., m, n]: below the diagonal l, else u */
    struct fe_val order; /* int32 [.., m, 1]: the row that came to stand here */
    struct fe_val sign;  /* [.., 1, 1]: -1 for an odd number of swaps */
};

static int64_t batch_of(const struct ir_type *t)
{
    int64_t batch = 1;
    for (uint32_t i = 0; i + 2u < t->rank; i++) batch *= t->dim[i];
    return batch;
}

static struct fe_val fe_rows_in_order(struct fe_site *s, struct fe_val x, struct fe_val order)
{
    if (x.bad || order.bad) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    int64_t m = t.dim[t.rank - 2], n = t.dim[t.rank - 1], batch = batch_of(&t);
    struct fe_val flat = fe_reshape_val(s, x, 2, (int64_t[]){batch * m, n}),
                  places = fe_reshape_val(s, order, 2, (int64_t[]){batch, m});
    if (batch > 1 && !places.bad) { /* of all matrices together */
        struct fe_val matrix = fe_iota(s, ir_type_of(IR_I32, 2, (int64_t[]){batch, m}), 0);
        places = fe_add(s, places, fe_mul(s, matrix, fe_int((double)m)));
    }
    places = places.bad ? places : fe_reshape_val(s, places, 1, (int64_t[]){batch * m});
    if (flat.bad || places.bad) return fe_bad();
    return fe_reshape_val(s, fe_val_tensor(ir_take(s->b, flat.tensor, places.tensor, 0)), t.rank, t.dim);
}

/* Row `place` [.., 1, 1] of x, which is where `hit`. */
static struct fe_val row_at(struct fe_site *s, struct fe_val x, struct fe_val place, struct fe_val hit)
{
    if (x.bad || place.bad) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    uint32_t row = t.rank - 2u;
    if (batch_of(&t) == 1) return fe_piece(s, x, row, fe_reshape_val(s, place, 0, NULL), 1);
    return fe_reduce(s, FE_RED_SUM, fe_where3(s, hit, x, fe_int(0)), &row, 1,
                     &(struct fe_reduce_options){.keepdims = true});
}

static bool eliminate_columns(struct fe_site *s, struct fe_val x, struct part *out)
{
    struct ir_type one = fe_type_at(s, &x);
    uint32_t column = one.rank - 1u, row = column - 1;
    int64_t n = one.dim[column];
    struct fe_val after[3];
    struct fe_loop l;
    fe_loop_open(&l, s, "eliminate");
    struct fe_site *in = &l.in;
    struct fe_val numbers = fe_row_numbers(s, x), k = l.number;
    one.dim[row] = one.dim[column] = 1;
    struct fe_val a = fe_loop_carry(&l, x), order = fe_loop_carry(&l, numbers),
                  sign = fe_loop_carry(&l, fe_full(s, one, 1));
    if (a.bad || order.bad || sign.bad) return false;
    struct fe_val rows = fe_row_numbers(in, a), columns = fe_column_numbers(in, a),
                  of_k = fe_piece(in, a, column, k, 1);
    struct fe_val height = fe_where3(in, fe_binary(in, EXPR_OP_GE, rows, k), fe_op1(in, OP_abs, of_k), fe_float(-1));
    if (height.bad) return false;
    struct fe_val place = fe_expand(in, fe_val_tensor(ir_argreduce(in->b, OP_argmax, height.tensor, row)), row),
                  hit = fe_binary(in, EXPR_OP_EQ, rows, place), is_k = fe_binary(in, EXPR_OP_EQ, rows, k);
    struct fe_val chosen = row_at(in, a, place, hit), old = fe_piece(in, a, row, k, 1),
                  pivot = fe_piece(in, chosen, column, k, 1);
    struct fe_val swapped = fe_where3(in, is_k, chosen, fe_where3(in, hit, old, a));
    /* a column without a pivot stays: the factor is singular then, and no more than that */
    struct fe_val none = fe_binary(in, EXPR_OP_EQ, pivot, fe_float(0)),
                  scale = fe_where3(in, none, fe_float(0),
                                    fe_div(in, fe_float(1), fe_where3(in, none, fe_float(1), pivot)));
    struct fe_val factor = fe_mul(in, fe_where3(in, hit, fe_piece(in, old, column, k, 1), of_k), scale);
    struct fe_val left = fe_where3(in, fe_binary(in, EXPR_OP_GT, columns, k),
                                   fe_sub(in, swapped, fe_mul(in, factor, chosen)),
                                   fe_where3(in, fe_binary(in, EXPR_OP_EQ, columns, k), factor, swapped));
    struct fe_val next[] = {
        fe_where3(in, fe_binary(in, EXPR_OP_GT, rows, k), left, swapped),
        fe_where3(in, is_k, row_at(in, order, place, hit), fe_where3(in, hit, fe_piece(in, order, row, k, 1), order)),
        fe_where3(in, fe_binary(in, EXPR_OP_NE, place, k), neg(in, sign), sign)};
    if (!fe_loop_close(&l, n, false, next, after)) return false;
    *out = (struct part){after[0], after[1], after[2]};
    return true;
}

static bool factored(struct fe_site *s, struct fe_val x, int64_t most, struct part *out)
{
    if (x.bad) return false;
    struct ir_type t = fe_type_at(s, &x);
    uint32_t column = t.rank - 1u, row = column - 1;
    int64_t m = t.dim[row], n = t.dim[column], half = fe_half_of(n, most);
    struct part left, right;
    if (n <= most) return eliminate_columns(s, x, out);
    if (!factored(s, fe_slice_axis(s, x, column, 0, half), most, &left)) return false;
    struct fe_val moved = fe_rows_in_order(s, fe_slice_axis(s, x, column, half, n), left.order);
    struct fe_triangle *unit = fe_triangle_of(s, fe_unit_lower(s, fe_slice_axis(s, left.x, row, 0, half)));
    if (!unit) return false;
    struct fe_val upper = fe_triangle_solve(s, unit, fe_slice_axis(s, moved, row, 0, half)),
                  low = fe_slice_axis(s, left.x, row, half, m);
    if (!factored(s, fe_sub(s, fe_slice_axis(s, moved, row, half, m), fe_product(s, low, upper)), most, &right))
        return false;
    struct fe_val lower = fe_rows_in_order(s, low, right.order),
                  order = fe_rows_in_order(s, fe_slice_axis(s, left.order, row, half, m), right.order);
    if (upper.bad || lower.bad || order.bad) return false;
    struct fe_val firsts[] = {fe_slice_axis(s, left.x, row, 0, half), upper}, lasts[] = {lower, right.x},
                  orders[] = {fe_slice_axis(s, left.order, row, 0, half), order};
    struct fe_val both[] = {fe_join(s, firsts, 2, column), fe_join(s, lasts, 2, column)};
    if (both[0].bad || both[1].bad) return false;
    *out = (struct part){fe_join(s, both, 2, row), fe_join(s, orders, 2, row), fe_mul(s, left.sign, right.sign)};
    return !out->x.bad && !out->order.bad && !out->sign.bad;
}

bool fe_lu(struct fe_site *s, struct fe_val x, struct fe_lu *out)
{
    if (x.bad) return false;
    int64_t n = fe_type_at(s, &x).dim[fe_rank(s, &x) - 1], most = (n + PARTS - 1) / PARTS;
    struct part all;
    if (!factored(s, x, most < COLUMNS ? COLUMNS : most, &all)) return false;
    out->order = all.order, out->sign = all.sign;
    out->lower = fe_triangle_of(s, fe_unit_lower(s, all.x));
    out->upper_turned = fe_triangle_of(s, fe_turned(s, all.x));
    out->diagonal = FE_APPLY(s, "diagonal", all.x, fe_int(0), fe_int(-2), fe_int(-1));
    return out->lower && out->upper_turned && !out->diagonal.bad;
}

struct fe_val fe_lu_solve(struct fe_site *s, const struct fe_lu *f, struct fe_val b)
{
    return fe_triangle_solve_turned(s, f->upper_turned,
                                    fe_triangle_solve(s, f->lower, fe_rows_in_order(s, b, f->order)));
}
