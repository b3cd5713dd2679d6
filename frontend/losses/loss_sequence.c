/* Losses over sequences and of functions: connectionist temporal classification (Graves et al. 2006; formulas and order
 * are Optax's, time is a loop) and Fenchel-Young losses (Blondel et al. 2020). */
#include "frontend/model/body.h"
#include "frontend/expr/makers.h"
#include "frontend/losses/losses.h"
#include <string.h>

static struct fe_val part(struct fe_site *s, struct fe_val x, uint32_t axis, int64_t start, int64_t limit)
{
    return x.bad ? x : fe_slice_axis(s, x, axis, start, limit);
}

struct ctc {
    struct fe_site *s;
    int64_t rows, times, labels;
    struct fe_val emit, phi;    /* log probabilities of the labels [T, B, N] and of the blank [T, B, 1] */
    struct fe_val padding;      /* [T, B, 1] */
    struct fe_val repeat, rest; /* [B, N]: epsilon where the next label is the same; where it is not */
};

/* phi[:, 1:] with a score added in log space. */
static struct fe_val updated(const struct ctc *c, struct fe_val phi, struct fe_val score)
{
    struct fe_val pieces[] = {part(c->s, phi, 1, 0, 1),
                              FE_APPLY(c->s, "logaddexp", part(c->s, phi, 1, 1, c->labels + 1), score)};
    if (pieces[0].bad || pieces[1].bad) return fe_bad();
    return FE_APPLY(c->s, "concatenate", fe_tuple(c->s, pieces, 2), fe_int(-1));
}

/* What was where padded, else what is. */
static struct fe_val padded(const struct ctc *c, struct fe_val pad, struct fe_val was, struct fe_val is)
{
    return fe_add(c->s, fe_mul(c->s, pad, was), fe_mul(c->s, one_minus(c->s, pad), is));
}

/* One time: of phi and emit, given the rows of c->emit, c->phi and c->padding. */
static void advance(void *user, struct fe_val *carry, const struct fe_val *rows)
{
    const struct ctc *c = user;
    struct fe_site *s = c->s;
    struct fe_val logp_emit = rows[0], logp_phi = rows[1], pad = rows[2], *phi = &carry[0], *emit = &carry[1];
    struct fe_val before = updated(c, *phi, fe_add(s, *emit, c->repeat));
    struct fe_val next_emit = FE_APPLY(s, "logaddexp", fe_add(s, part(s, before, 1, 0, c->labels), logp_emit),
                                       fe_add(s, *emit, logp_emit));
    struct fe_val next_phi = updated(c, fe_add(s, before, logp_phi), fe_add(s, fe_add(s, *emit, logp_phi), c->rest));
    next_emit = padded(c, pad, *emit, next_emit);
    *phi = padded(c, pad, *phi, next_phi);
    *emit = next_emit;
}

static bool shaped(struct fe_call *call, uint32_t i, uint32_t rank, int64_t rows, int64_t columns)
{
    if (!fe_as_tensor(call->site, &call->arg[i])) return false;
    struct ir_type t = fe_type_at(call->site, &call->arg[i]);
    if (t.rank == rank && (rank == 3 || (t.dim[0] == rows && (columns < 0 || t.dim[1] == columns)))) return true;
    if (rank == 3)
        fe_fail_at(call->site, &call->where[i], "E0210", "%s: logits are [batch, time, classes], found %s",
                   call->function, fe_describe(call->site, &call->arg[i]));
    else
        fe_fail_at(call->site, &call->where[i], "E0210", "%s: %lld rows%s expected, found %s", call->function,
                   (long long)rows,
                   columns < 0 ? " of labels" : arena_format(call->site->fe->arena, " of %lld", (long long)columns),
                   fe_describe(call->site, &call->arg[i]));
    return false;
}

static struct fe_val time_first(struct fe_site *s, struct fe_val x)
{
    return x.bad ? x : FE_APPLY(s, "moveaxis", x, fe_int(1), fe_int(0));
}

/* Reads the arguments: logits, logit_paddings, labels, label_paddings, blank_id, log_epsilon. */
static bool read_ctc(struct fe_call *call, struct ctc *c)
{
    struct fe_site *s = call->site;
    int64_t blank;
    *c = (struct ctc){.s = s};
    if (!shaped(call, 0, 3, 0, 0)) return false;
    struct ir_type t = fe_type_at(s, &call->arg[0]);
    c->rows = t.dim[0], c->times = t.dim[1];
    if (!shaped(call, 1, 2, c->rows, c->times) || !shaped(call, 2, 2, c->rows, -1)) return false;
    c->labels = fe_type_at(s, &call->arg[2]).dim[1];
    if (!shaped(call, 3, 2, c->rows, c->labels) || !fe_get_int(call, 4, &blank)) return false;
    if (!ir_dtype_is_integer((enum ir_dtype)fe_type_at(s, &call->arg[2]).dtype))
        return fe_wrong_at(s, &call->where[2], "E0213", "%s needs labels of an integer dtype such as int32, found %s",
                           call->function, fe_describe(s, &call->arg[2]));
    if (blank < 0 || blank >= t.dim[2])
        return fe_wrong_at(s, &call->where[4], "E0212", "%s: the blank %lld is none of %lld classes", call->function,
                           (long long)blank, (long long)t.dim[2]);
    if (c->times < 1) return fe_wrong_here(s, "E0302", "%s of %lld times", call->function, (long long)c->times);
    struct fe_val used = fe_binary(s, EXPR_OP_EQ, call->arg[3], fe_int(0)), labels = call->arg[2];
    struct fe_index_note *note = fe_truth(&call->arg[6]) ? fe_note_index(s, &call->where[2], &labels, 0, t.dim[2])
                                                         : NULL;
    if (note && !used.bad) note->counted = used.tensor;
    struct fe_val logp = FE_APPLY(s, "log_softmax", fe_inexact(s, call->arg[0]));
    struct fe_val hot = fe_cast(s, fe_one_hot_mask(s, labels, t.dim[2], 2), IR_F32), pair[] = {logp, hot};
    if (logp.bad || hot.bad) return false;
    c->emit = fe_einsum(s, "btk,bnk->tbn", pair, 2);
    c->phi = time_first(s, part(s, logp, 2, blank, blank + 1));
    c->padding = time_first(s, fe_expand(s, fe_cast(s, call->arg[1], IR_F32), 2));
    struct fe_val same = fe_full(s, ir_type_of(IR_F32, 2, (int64_t[]){c->rows, c->labels ? 1 : 0}), 0);
    if (c->labels > 1) {
        struct fe_val equal = fe_cast(
            s, fe_binary(s, EXPR_OP_EQ, part(s, labels, 1, 0, c->labels - 1), part(s, labels, 1, 1, c->labels)),
            IR_F32);
        struct fe_val pieces[] = {equal, same};
        same = FE_APPLY(s, "concatenate", fe_tuple(s, pieces, 2), fe_int(-1));
    }
    c->repeat = fe_mul(s, call->arg[5], same);
    c->rest = fe_mul(s, call->arg[5], one_minus(s, same));
    return !c->emit.bad && !c->phi.bad && !c->padding.bad && !c->repeat.bad && !c->rest.bad;
}

struct fe_val loss_ctc(struct fe_call *call)
{ /* data 1: also the forward probabilities, [T, B, N + 1] and [T, B, N] */
    struct ctc c;
    struct fe_site *s = call->site;
    if (!read_ctc(call, &c)) return fe_bad();
    struct fe_val epsilon = call->arg[5], zero = fe_full(s, ir_type_of(IR_F32, 2, (int64_t[]){c.rows, 1}), 0);
    struct fe_val emit = fe_mul(s, epsilon, fe_full(s, ir_type_of(IR_F32, 2, (int64_t[]){c.rows, c.labels}), 1)),
                  pieces[] = {zero, emit};
    struct fe_val phi = emit.bad ? emit : FE_APPLY(s, "concatenate", fe_tuple(s, pieces, 2), fe_int(-1));
    if (phi.bad) return fe_bad();
    struct fe_walk w = {.site = s,
                        .times = c.times,
                        .carries = 2,
                        .carry = {phi, emit},
                        .row_count = 3,
                        .rows = {c.emit, c.phi, c.padding}};
    if (!fe_walk(&w, advance, &c)) return fe_bad();
    phi = updated(&c, w.carry[0], w.carry[1]);
    uint32_t last = 1;
    struct fe_val length = fe_sub(
        s, fe_int((double)c.labels),
        fe_cast(s, fe_reduce(s, FE_RED_SUM, fe_cast(s, call->arg[3], IR_F32), &last, 1, NULL), IR_I32));
    struct fe_val end = length.bad ? length : fe_cast(s, fe_one_hot_mask(s, length, c.labels + 1, 1), IR_F32);
    struct fe_val loss = neg(s, fe_reduce(s, FE_RED_SUM, fe_mul(s, phi, end), &last, 1, NULL));
    if (!call->data || loss.bad) return loss;
    struct fe_val rows[] = {part(s, w.all[0], 0, 0, c.times - 1),
                            fe_expand(s, phi, 0)}; /* the last one is updated once more */
    struct fe_val results[] = {loss, FE_APPLY(s, "concatenate", fe_tuple(s, rows, 2), fe_int(0)), w.all[1]};
    return results[1].bad ? fe_bad() : fe_tuple(s, results, 3);
}

/* ---------------------------------------------------------------- Fenchel-Young */

/* `function`, an expression over one vector, of every row of x; bad: an error was recorded. */
static struct fe_val of_rows(struct fe_call *c, fe_json function, struct fe_val x)
{
    struct fe_site *s = c->site;
    struct ir_type rows = fe_type_at(s, &x), row = ir_type_of((enum ir_dtype)rows.dtype, 1, &rows.dim[1]);
    struct fe_body body;
    ir_value one;
    fe_stand_ins(s->fe, s->b, &row, 1, &one);
    struct fe_env env = {.outer = s->trace->env, .name = "scores", .value = fe_tensor_val(one, false)};
    struct fe_val y = fe_expr(s->fe, s->trace, function, &env);
    if (y.bad || !fe_as_tensor(s, &y)) return fe_bad();
    if (fe_type_at(s, &y).rank)
        return fe_fail_at(s, &c->where[0], "E0205", "max_fun is one number per vector, found %s", fe_describe(s, &y)),
               fe_bad();
    fe_body_begin(&body, s->fe, s->b->f, "vector", one);
    fe_body_param(&body, one);
    fe_body_end(&body, &y.tensor, 1);
    uint32_t n = 0;
    int64_t batched = 1;
    ir_value *args = arena_new_array(s->fe->arena, ir_value, body.captured.count + 1);
    args[n++] = x.tensor;
    for (size_t i = 0; i < body.captured.count; i++) args[n++] = body.captured.items[i];
    struct ir_node node = {
        .op = OP_vmap, .arg_count = n, .args = args, .func = ir_func_index(body.b.f), .attr = {{&batched, 1}}};
    return fe_val_tensor(ir_proj(s->b, ir_make(s->b, node), 0));
}

/* max_fun(scores) - <targets, scores> over the last axis; max_fun is an expression over one vector, `scores`. */
struct fe_val loss_fenchel_young(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(1)), y = ARG(2);
    fe_json function = c->where[0].json;
    if (x.bad || !fe_as_tensor(s, &x) || !fe_as_tensor(s, &y)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x), ty = fe_type_at(s, &y);
    bool call = function == s->where.json; /* inside of an expression, whose text that is: it would call itself */
    if (!c->given[0] || !function || function->kind != JSON_STRING || call)
        return fe_fail(s, "E0102", "%s needs \"max_fun\", an expression over scores, in a loss object", c->function);
    if (!t.rank || ty.rank != t.rank || memcmp(t.dim, ty.dim, sizeof t.dim))
        return fe_fail(s, "E0210", "%s: scores %s and targets %s must be of one shape, vectors at least", c->function,
                       fe_describe(s, &x), fe_describe(s, &y));
    uint32_t last = t.rank - 1u;
    int64_t n = t.dim[last], rows = n ? ir_type_elements(&t) / n : 0;
    if (rows < 1) return fe_fail(s, "E0302", "%s of no vectors", c->function);
    struct fe_val values = of_rows(c, function, fe_reshape_val(s, x, 2, (int64_t[]){rows, n}));
    if (values.bad) return values;
    return fe_sub(s, fe_reshape_val(s, values, last, t.dim), fe_reduce(s, FE_RED_SUM, fe_mul(s, y, x), &last, 1, NULL));
}
