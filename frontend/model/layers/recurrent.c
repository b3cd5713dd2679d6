/* rnn and bidirectional over lstm_cell, optimized_lstm_cell, gru_cell and simple_cell, as flax.nnx. Time is a scan;
 * what a cell does to its input alone is computed for all times at once. Carries start at zero. */
#include "frontend/model/body.h"
#include "frontend/model/block.h"
#include <string.h>

enum cell_kind { LSTM, OPTIMIZED_LSTM, GRU, SIMPLE };
enum {
    HIDDEN,
    IN,
    ACTIVATION,
    KERNEL_INIT,
    RECURRENT_INIT,
    BIAS_INIT,
    CARRY_INIT,
    KEEP_RNGS,
    GATE,
    RESIDUAL = GATE
}; /* the last: of one kind each */
#define CELL_ROWS \
    [HIDDEN] = {"hidden_features", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL}, \
    [IN] = {"in_features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL}, \
    [ACTIVATION] = {"activation_fn", FE_OBJECT, 0, "{\"type\": \"tanh\"}", NULL}, \
    [KERNEL_INIT] = {"kernel_init", FE_OBJECT, 0, "{\"type\": \"lecun_normal\"}", NULL}, \
    [RECURRENT_INIT] = {"recurrent_kernel_init", FE_OBJECT, 0, "{\"type\": \"orthogonal\"}", NULL}, \
    [BIAS_INIT] = {"bias_init", FE_OBJECT, 0, "{\"type\": \"zeros\"}", NULL}, \
    [CARRY_INIT] = {"carry_init", FE_OBJECT, 0, "{\"type\": \"zeros\"}", NULL}, \
    [KEEP_RNGS] = {"keep_rngs", FE_BOOL, 0, "false", NULL}
static const struct fe_arg gated_args[] = {
    CELL_ROWS, [GATE] = {"gate_fn", FE_OBJECT, 0, "{\"type\": \"sigmoid\"}", NULL}, FE_DTYPE_ROWS};
static const struct fe_arg simple_args[] = {CELL_ROWS, [RESIDUAL] = {"residual", FE_BOOL, 0, "false", NULL},
                                            FE_DTYPE_ROWS};
enum { CELL_ARGS = sizeof gated_args / sizeof *gated_args, MAX_GATES = FE_MAX_ROWS };

struct cell {
    enum cell_kind kind;
    struct fe_block block; /* its path and place */
    struct fe_value args[CELL_ARGS];
    int64_t hidden;
    uint32_t dense_count;                             /* products with the carry: one per gate, or one for all */
    struct fe_val kernel[MAX_GATES], bias[MAX_GATES]; /* of the products with the carry; bias None: none */
    struct fe_val input[MAX_GATES];                   /* what the input alone gives, [.., time, ..] */
};

static struct fe_val dense_param(struct cell *c, const char *dense, const char *name, uint32_t rank,
                                 const int64_t *shape, uint32_t init, const char *preset)
{
    struct fe *fe = c->block.site.fe;
    struct fe_param p = {.type = ir_type_of(IR_F32, rank, shape),
                         .init = c->args[init].given ? c->args[init].json : NULL,
                         .init_preset = preset};
    return fe_val_tensor(fe_block_param(&c->block, fe_path_join(fe->arena, dense, name), p));
}

/* What nnx's Linear gives of input, kernel and bias (None: without), in its dtype. */
static struct fe_val product(struct cell *c, const char *name, struct fe_val v[3])
{
    struct fe_site *s = &c->block.site;
    if (v[0].bad || v[1].bad || v[2].bad) return fe_bad();
    fe_block_promote(&c->block, v, 3);
    struct fe_val y = FE_APPLY(s, "matmul", v[0], v[1]);
    if (!fe_is_none(&v[2])) y = fe_add(s, y, v[2]);
    return fe_block_adapt(&c->block, name, false, "...i,io->...o", v[0], v[1], y);
}

static int64_t width_of(const struct cell *c)
{
    return c->hidden * (c->kind == OPTIMIZED_LSTM ? 4 : c->kind == GRU ? 3 : 1);
}

static bool bias_at_input(const struct cell *c) { return c->kind == GRU || c->kind == SIMPLE; }

static bool declare_input(struct cell *c, struct fe_val x)
{
    static const char *const names[] = {"ii", "if_", "ig", "io"};
    struct fe_site *s = &c->block.site;
    struct ir_type t = fe_type_at(s, &x);
    int64_t width = width_of(c), in = t.dim[t.rank - 1];
    const struct fe_value *given = &c->args[IN];
    if (given->given && !given->null && given->integer != in)
        return fe_block_wrong(&c->block, given->json, "E0212", "the cell expects %lld inputs, found %lld",
                              (long long)given->integer, (long long)in);
    for (uint32_t i = 0; i < c->dense_count; i++) {
        const char *name = c->kind == LSTM ? names[i] : "dense_i";
        struct fe_val w = dense_param(c, name, "kernel", 2, (int64_t[]){in, width}, KERNEL_INIT, "lecun_normal");
        struct fe_val v[] = {x, w, fe_none()};
        if (bias_at_input(c) && !w.bad) v[2] = dense_param(c, name, "bias", 1, &width, BIAS_INIT, "zeros");
        c->input[i] = product(c, name, v);
        if (c->input[i].bad) return false;
    }
    return true;
}

/* The product with the carry. */
static const char *carry_name(const struct cell *c, uint32_t i)
{
    static const char *const names[] = {"hi", "hf", "hg", "ho"};
    return c->kind == LSTM ? names[i] : "dense_h";
}

static bool declare_carry(struct cell *c)
{
    int64_t width = width_of(c);
    for (uint32_t i = 0; i < c->dense_count; i++) {
        const char *name = carry_name(c, i);
        c->kernel[i] = dense_param(c, name, "kernel", 2, (int64_t[]){c->hidden, width}, RECURRENT_INIT, "orthogonal");
        c->bias[i] = bias_at_input(c) || c->kernel[i].bad ? fe_none()
                                                          : dense_param(c, name, "bias", 1, &width, BIAS_INIT, "zeros");
        if (c->kernel[i].bad || c->bias[i].bad) return false;
    }
    return true;
}

/* Declares the parameters in NNX's order (simple_cell: those of the carry first) and applies the input's products. */
static bool prepare(struct cell *c, struct fe_val x, bool alone)
{
    double constant;
    bool random = c->args[CARRY_INIT].given &&
                  !fe_initializer_constant(c->block.site.fe, c->args[CARRY_INIT].json, &constant);
    if (c->args[KEEP_RNGS].boolean) fe_block_fork(&c->block, "carry", alone && random); /* before the parameters */
    c->dense_count = c->kind == LSTM ? 4 : 1;
    if (c->kind == SIMPLE) return declare_carry(c) && declare_input(c, x);
    return declare_input(c, x) && declare_carry(c);
}

static struct fe_val activate(struct cell *c, uint32_t arg, struct fe_val x)
{
    struct fe_site *s = &c->block.site;
    if (x.bad) return x;
    if (c->args[arg].given) return fe_activation(s->fe, s->trace, c->args[arg].json, x, false);
    return fe_op1(s, arg == GATE ? OP_logistic : OP_tanh, x);
}

static struct fe_val recurrent(struct cell *c, uint32_t i, struct fe_val h)
{
    struct fe_val v[] = {h, c->kernel[i], c->bias[i]};
    return product(c, carry_name(c, i), v);
}

/* Part `i` of `parts` of the last axis. */
static struct fe_val part(struct cell *c, struct fe_val v, int64_t i)
{
    return v.bad
               ? v
               : fe_slice_axis(&c->block.site, v, fe_rank(&c->block.site, &v) - 1, i * c->hidden, (i + 1) * c->hidden);
}

/* One time: x[i] are the input's products now; carry[0] is h, or carry[0] is c and carry[1] is h (LSTM). */
static void advance(struct cell *c, const struct fe_val *x, struct fe_val *carry)
{
    struct fe_site *s = &c->block.site;
    struct fe_val gate[MAX_GATES];
    if (c->kind == SIMPLE) {
        struct fe_val h = fe_add(s, x[0], recurrent(c, 0, carry[0]));
        carry[0] = activate(c, ACTIVATION, c->args[RESIDUAL].boolean ? fe_add(s, h, carry[0]) : h);
        return;
    }
    if (c->kind == GRU) {
        struct fe_val h = recurrent(c, 0, carry[0]);
        struct fe_val r = activate(c, GATE, fe_add(s, part(c, x[0], 0), part(c, h, 0)));
        struct fe_val z = activate(c, GATE, fe_add(s, part(c, x[0], 1), part(c, h, 1)));
        struct fe_val n = activate(c, ACTIVATION, fe_add(s, part(c, x[0], 2), fe_mul(s, r, part(c, h, 2))));
        carry[0] = fe_add(s, fe_mul(s, fe_sub(s, fe_float(1), z), n), fe_mul(s, z, carry[0]));
        return;
    }
    struct fe_val all = c->kind == OPTIMIZED_LSTM ? fe_add(s, x[0], recurrent(c, 0, carry[1])) : fe_none();
    for (uint32_t i = 0; i < 4; i++) {
        struct fe_val y = c->kind == LSTM ? fe_add(s, x[i], recurrent(c, i, carry[1])) : part(c, all, i);
        gate[i] = activate(c, i == 2 ? ACTIVATION : GATE, y);
    }
    carry[0] = fe_add(s, fe_mul(s, gate[1], carry[0]), fe_mul(s, gate[0], gate[2]));
    carry[1] = fe_mul(s, gate[3], activate(c, ACTIVATION, carry[0]));
}

/* ---------------------------------------------------------------- rnn */

enum { CELL, TIME_MAJOR, RETURN_CARRY, REVERSE, KEEP_ORDER, UNROLL, LENGTHS, INITIAL };
static const struct fe_arg rnn_args[] = {[CELL] = {"cell", FE_OBJECT, FE_REQUIRED, NULL, NULL},
                                         [TIME_MAJOR] = {"time_major", FE_BOOL, 0, "false", NULL},
                                         [RETURN_CARRY] = {"return_carry", FE_BOOL, 0, "false", NULL},
                                         [REVERSE] = {"reverse", FE_BOOL, 0, "false", NULL},
                                         [KEEP_ORDER] = {"keep_order", FE_BOOL, 0, "false", NULL},
                                         [UNROLL] = {"unroll", FE_INTEGER, FE_POSITIVE, "1", NULL},
                                         [LENGTHS] = {"seq_lengths", FE_EXPR, FE_NULLABLE, "null", NULL},
                                         [INITIAL] = {"initial_carry", FE_EXPR, FE_NULLABLE, "null", NULL}};
enum { RNN_ARGS = sizeof rnn_args / sizeof *rnn_args };

struct run {
    bool time_major, return_carry, reverse, keep_order;
    struct fe_val lengths, initial;
    fe_json lengths_json;
    struct fe_block *owner; /* of the random numbers of the first carry */
    bool draws;             /* although they may not be used */
};

static bool read_cell(struct fe_block *block, fe_json json, struct cell *c)
{
    static const struct {
        const char *name;
        enum cell_kind kind;
    } kinds[] = {
        {"lstm_cell", LSTM}, {"optimized_lstm_cell", OPTIMIZED_LSTM}, {"gru_cell", GRU}, {"simple_cell", SIMPLE}};
    static const char *const names[] = {"lstm_cell", "optimized_lstm_cell", "gru_cell", "simple_cell"},
                             *const also[] = {"name", NULL}, *const alone[] = {"name", "input", "inputs", NULL};
    struct fe *fe = block->site.fe;
    const char *type = fe_type_of(fe, json);
    uint32_t kind = 0;
    if (!type) return false;
    while (kind < 4 && strcmp(kinds[kind].name, type)) kind++;
    if (kind == 4) {
        fe_suggest(fe, fe_error(fe, fe_member(fe, json, "type"), "E0105", "unknown cell \"%s\"", type), type, names, 4);
        return false;
    }
    fe_json name = fe_member(fe, json, "name");
    memset(c, 0, sizeof *c);
    c->kind = kinds[kind].kind;
    const struct fe_arg *rows = c->kind == SIMPLE ? simple_args : gated_args;
    c->block = *block;
    c->block.json = c->block.site.where.json = json;
    if (json != block->json)
        c->block.path = fe_path_join(fe->arena, block->path, name && name->kind == JSON_STRING ? name->string : "cell");
    if (!fe_args(fe, json, arena_format(fe->arena, "cell \"%s\"", type), rows, CELL_ARGS,
                 json == block->json ? alone : also, c->args))
        return false;
    if (c->args[CARRY_INIT].given && !fe_check_initializer(fe, c->args[CARRY_INIT].json)) return false;
    c->hidden = c->args[HIDDEN].integer;
    fe_block_own_dtypes(&c->block);
    if (c->kind == SIMPLE && c->block.compute == IR_TUPLE)
        c->block.compute = IR_F32; /* nnx's only cell with a default */
    return fe_block_dtypes(&c->block, rows, CELL_ARGS, c->args);
}

/* The sequence backwards; with lengths, what is real stays in front. */
static struct fe_val flip(struct fe_site *s, struct fe_val x, uint32_t axis, const struct fe_val *lengths)
{
    if (x.bad) return x;
    if (fe_is_none(lengths)) return FE_APPLY(s, "flip", x, fe_int(axis));
    struct ir_type t = fe_type_at(s, &x);
    int64_t n = t.dim[axis], wide[IR_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) wide[i] = i != axis && i + 1u < t.rank ? t.dim[i] : 1;
    struct ir_type index = t;
    index.dtype = IR_I32;
    index.dim[t.rank - 1] = 1;
    struct fe_val at = fe_sub(s, fe_int((double)n - 1), fe_iota(s, index, axis));
    at = fe_binary(s, EXPR_OP_MOD, fe_add(s, at, fe_reshape_val(s, *lengths, t.rank, wide)), fe_int((double)n));
    return FE_APPLY(s, "take_along_axis", x, at, fe_int(axis));
}

/* Of carries [time, ..], that at the last real time of every row: x[lengths - 1], from the end where that is negative.
 * (Of several batch axes NNX takes carries of other rows; here too each row's own.) */
static struct fe_val last_carry(struct fe_site *s, struct fe_val carries, int64_t n, const struct fe_val *lengths)
{
    if (carries.bad) return carries;
    struct ir_type t = fe_type_at(s, &carries);
    int64_t wide[IR_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) wide[i] = i && i + 1u < t.rank ? t.dim[i] : 1;
    struct fe_val at = fe_sub(s, fe_cast(s, *lengths, IR_I32), fe_int(1));
    at = fe_where3(s, fe_binary(s, EXPR_OP_LT, at, fe_int(0)), fe_add(s, at, fe_int((double)n)), at);
    at = fe_reshape_val(s, FE_APPLY(s, "clip", at, fe_int(0), fe_int((double)n - 1)), t.rank, wide);
    return FE_APPLY(s, "squeeze", FE_APPLY(s, "take_along_axis", carries, at, fe_int(0)), fe_int(0));
}

/* As nnx.RNN, which draws with keys of its own stream, whatever the seed: those of key 0, counted on from call to call.
 * A cell by itself has the fork of the stream "carry" that it keeps. Rows lie as those of `now`, an input of one time.
 */
static struct fe_val draw_carry(struct fe_block *owner, const char *stream, struct cell *c, struct fe_val now,
                                struct ir_type type, bool used)
{
    struct fe_site *s = &c->block.site;
    struct fe_drawn drawn;
    if (now.bad || !fe_block_draw(owner, stream, &type, true, now.tensor, &drawn)) return fe_bad();
    if (!used) return fe_none();
    ir_value x = fe_initial_drawn(s->fe, s->b, c->args[CARRY_INIT].json, &drawn, &type);
    return x ? fe_val_tensor(x) : fe_bad();
}

/* Of rows of x: x[first, ..] if there is a run over time, its first dimension. */
static bool first_carry(const struct run *r, struct cell *c, struct fe_val x, const struct fe_val *initial,
                        uint32_t count, struct fe_val *carry)
{
    struct fe_site *s = &c->block.site;
    struct fe_val now = r ? FE_APPLY(s, "squeeze", fe_slice_axis(s, x, 0, 0, 1), fe_int(0)) : x;
    struct ir_type type = fe_type_at(s, &now);
    type.dtype = c->block.param_dtype;
    type.dim[type.rank - 1] = c->hidden;
    bool pair = initial->kind == FE_VAL_TUPLE;
    double start = 0;
    const struct fe_value *init = &c->args[CARRY_INIT];
    bool drawn = init->given && !fe_initializer_constant(s->fe, init->json, &start);
    if (drawn && !r && fe_is_none(initial) && !c->args[KEEP_RNGS].boolean)
        return fe_block_wrong(&c->block, init->json, "E0103",
                              "a cell by itself draws no carry unless it has \"keep_rngs\": give it that or a carry");
    if (!fe_is_none(initial) && (pair ? initial->count : 1) != count)
        return fe_block_wrong(&c->block, NULL, "E0212", "the initial carry of this cell has %u parts", (unsigned)count);
    for (uint32_t i = 0; i < count; i++) {
        if (fe_is_none(initial) && (drawn || (r && r->draws))) {
            carry[i] = r ? draw_carry(r->owner, NULL, c, now, type, drawn)
                         : draw_carry(&c->block, "carry", c, now, type, true);
            if (carry[i].bad) return false;
        }
        if (fe_is_none(initial) && drawn) continue;
        carry[i] = fe_is_none(initial) ? fe_full(s, type, start)
                                       : fe_broadcast_val(s, pair ? initial->items[i] : *initial, type.rank, type.dim);
        if (carry[i].bad) return false;
    }
    return true;
}

/* seq_lengths are a number per row: all the dimensions of x but time and features. Where they choose times, one of the
 * batch that is longer than the sequence, or negative, would choose a time of another row's or of none: an error of the
 * batch. 0 is JAX's index -1, the last time. */
static bool lengths_fit(struct fe_block *block, const struct run *r, const struct ir_type *x, uint32_t axis)
{
    struct fe_site *s = &block->site;
    struct ir_type t = fe_type_at(s, &r->lengths);
    bool fits = t.rank + 2u == x->rank;
    for (uint32_t i = 0; fits && i < t.rank; i++) fits = t.dim[i] == x->dim[i < axis ? i : i + 1];
    if (!fits)
        return fe_block_wrong(block, NULL, "E0212", "seq_lengths must be one integer per row, found %s for an input %s",
                              fe_describe(s, &r->lengths), ir_type_text(s->fe->arena, x));
    const struct fe_where where = {.json = r->lengths_json};
    if (r->reverse || r->return_carry) fe_note_index(s, &where, &r->lengths, 0, x->dim[axis] + 1);
    return true;
}

/* ---------------------------------------------------------------- time */

static void step(void *user, struct fe_val *carry, const struct fe_val *rows) { advance(user, rows, carry); }

static struct fe_val move_axis(struct fe_site *s, struct fe_val x, uint32_t from, uint32_t to)
{
    return x.bad || from == to ? x : FE_APPLY(s, "moveaxis", x, fe_int(from), fe_int(to));
}

static struct fe_val run_rnn(struct fe_block *block, fe_json cell_json, const struct run *r)
{
    struct fe_site *s = &block->site;
    struct cell c;
    struct fe_val x = block->in[0];
    if (!fe_block_float_input(block, 0) || !read_cell(block, cell_json, &c)) return fe_bad();
    x = block->in[0];
    struct ir_type t = fe_type_at(s, &x);
    if (t.rank < 2)
        return fe_block_fail(block, NULL, "E0212", "rnn needs an input [batch, time, features], found %s",
                             fe_describe(s, &x));
    bool ragged = !fe_is_none(&r->lengths);
    uint32_t axis = r->time_major ? 0 : t.rank - 2u;
    struct fe_walk w = {.site = s,
                        .times = t.dim[axis],
                        .backwards = r->reverse && !ragged,
                        .carries = c.kind == GRU || c.kind == SIMPLE ? 1 : 2};
    if (w.times < 1) return fe_block_fail(block, NULL, "E0103", "rnn over %lld times", (long long)w.times);
    if (ragged && !lengths_fit(block, r, &t, axis)) return fe_bad();
    if (r->reverse && ragged) x = flip(s, x, axis, &r->lengths);
    x = move_axis(s, x, axis, 0);
    if (x.bad || !prepare(&c, x, false) || !first_carry(r, &c, x, &r->initial, w.carries, w.carry)) return fe_bad();
    w.row_count = c.dense_count;
    memcpy(w.rows, c.input, sizeof c.input);
    if (!fe_walk(&w, step, &c)) return fe_bad();
    struct fe_val y = move_axis(s, w.all[w.carries - 1], 0, axis);
    if (r->reverse && r->keep_order == ragged)
        y = flip(s, y, axis, &r->lengths); /* rows stand at their own times, or as they were walked */
    if (!r->return_carry || y.bad) return y;
    for (uint32_t i = 0; i < w.carries && ragged; i++) w.carry[i] = last_carry(s, w.all[i], w.times, &r->lengths);
    struct fe_val both[] = {w.carries == 1 ? w.carry[0] : fe_tuple(s, w.carry, 2), y};
    return both[0].bad || w.carry[0].bad ? fe_bad() : fe_tuple(s, both, 2);
}

static bool read_run(struct fe_block *block, const struct fe_value *a, struct run *r)
{
    struct fe_site *s = &block->site;
    *r = (struct run){.time_major = a[TIME_MAJOR].boolean,
                      .return_carry = a[RETURN_CARRY].boolean,
                      .reverse = a[REVERSE].boolean,
                      .keep_order = a[KEEP_ORDER].boolean,
                      .lengths = fe_none(),
                      .initial = fe_none(),
                      .owner = block};
    if (a[LENGTHS].given && !a[LENGTHS].null) {
        r->lengths_json = a[LENGTHS].json;
        r->lengths = fe_expr(s->fe, s->trace, a[LENGTHS].json, block->env);
        if (r->lengths.bad || !fe_as_tensor(s, &r->lengths)) return false;
        struct ir_type t = fe_type_at(s, &r->lengths);
        if (!ir_dtype_is_integer((enum ir_dtype)t.dtype))
            return fe_block_wrong(block, a[LENGTHS].json, "E0213", "seq_lengths must be integers, found %s",
                                  fe_describe(s, &r->lengths));
    }
    if (a[INITIAL].given && !a[INITIAL].null) r->initial = fe_expr(s->fe, s->trace, a[INITIAL].json, block->env);
    return !r->initial.bad;
}

static struct fe_val apply_rnn(struct fe_block *block, const struct fe_value *a)
{
    struct run r;
    return read_run(block, a, &r) ? run_rnn(block, a[CELL].json, &r) : fe_bad();
}

/* ---------------------------------------------------------------- bidirectional */

static struct fe_val one_way(struct fe_block *block, fe_json json, const char *segment, const struct run *outer,
                             bool reverse)
{
    static const char *const also[] = {"name", NULL};
    struct fe *fe = block->site.fe;
    struct fe_block inner = *block;
    struct fe_value a[RNN_ARGS] = {0};
    struct run r;
    const char *type = fe_type_of(fe, json);
    if (!type) return fe_bad();
    if (strcmp(type, "rnn"))
        return fe_block_fail(block, fe_member(fe, json, "type"), "E0105", "\"%s\" must be an rnn, found \"%s\"",
                             segment, type);
    if (!fe_args(fe, json, "layer \"rnn\"", rnn_args, RNN_ARGS, also, a)) return fe_bad();
    fe_json unread = a[LENGTHS].json ? a[LENGTHS].json : fe_is_none(&outer->initial) ? NULL : a[INITIAL].json;
    if (unread)
        return fe_block_fail(block, unread, "E0103", "\"%s\" of bidirectional holds for both ways: it stands there",
                             unread->key);
    inner.json = inner.site.where.json = json;
    fe_json name = fe_member(fe, json, "name");
    inner.path = fe_path_join(fe->arena, block->path, name && name->kind == JSON_STRING ? name->string : segment);
    if (!read_run(&inner, a, &r)) return fe_bad();
    r.time_major = outer->time_major;
    r.reverse = r.keep_order = reverse;
    r.return_carry = true;
    r.lengths = outer->lengths;
    r.lengths_json = outer->lengths_json;
    r.owner = outer->owner;
    r.draws = outer->draws;
    if (!fe_is_none(&outer->initial)) r.initial = outer->initial.items[reverse];
    return run_rnn(&inner, a[CELL].json, &r);
}

/* Both draw from one stream, also what they do not use. */
static bool draws_carry(struct fe *fe, fe_json rnn)
{
    fe_json cell = fe_member(fe, rnn, "cell"),
            init = cell && cell->kind == JSON_OBJECT ? fe_member(fe, cell, "carry_init") : NULL;
    fe_json type = init && init->kind == JSON_OBJECT ? fe_member(fe, init, "type") : NULL;
    if (!type || type->kind != JSON_STRING) return false;
    return strcmp(type->string, "zeros") && strcmp(type->string, "ones") && strcmp(type->string, "constant");
}

static struct fe_val apply_bidirectional(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    struct run r;
    struct fe_value rnn[RNN_ARGS] = {0};
    rnn[TIME_MAJOR] = a[2];
    rnn[RETURN_CARRY] = a[3];
    rnn[LENGTHS] = a[4];
    rnn[INITIAL] = a[5];
    if (!read_run(block, rnn, &r)) return fe_bad();
    r.draws = draws_carry(s->fe, a[0].json) || draws_carry(s->fe, a[1].json);
    if (!fe_is_none(&r.initial) && (r.initial.kind != FE_VAL_TUPLE || r.initial.count != 2))
        return fe_block_fail(block, a[5].json, "E0212", "the initial carry of bidirectional is a pair");
    struct fe_val there = one_way(block, a[0].json, "forward_rnn", &r, false);
    struct fe_val back = there.bad ? there : one_way(block, a[1].json, "backward_rnn", &r, true);
    if (back.bad) return back;
    struct fe_val outputs[] = {there.items[1], back.items[1]}, carries[] = {there.items[0], back.items[0]};
    struct fe_val y;
    if (a[6].given && !a[6].null) { /* NNX's merge_fn(a, b) */
        const struct fe_env first = {block->env, "a", outputs[0], false}, both_ways = {&first, "b", outputs[1], false};
        y = fe_expr(s->fe, s->trace, a[6].json, &both_ways);
        if (!fe_as_tensor(s, &y)) return fe_bad();
    } else y = FE_APPLY(s, "concatenate", fe_tuple(s, outputs, 2), fe_int(-1));
    if (!r.return_carry || y.bad) return y;
    struct fe_val both[] = {fe_tuple(s, carries, 2), y};
    return fe_tuple(s, both, 2);
}

static const struct fe_arg bidirectional_args[] = {
    {"forward_rnn", FE_OBJECT, FE_REQUIRED, NULL, NULL}, {"backward_rnn", FE_OBJECT, FE_REQUIRED, NULL, NULL},
    {"time_major", FE_BOOL, 0, "false", NULL},           {"return_carry", FE_BOOL, 0, "false", NULL},
    {"seq_lengths", FE_EXPR, FE_NULLABLE, "null", NULL}, {"initial_carry", FE_EXPR, FE_NULLABLE, "null", NULL},
    {"merge_fn", FE_EXPR, FE_NULLABLE, "null", NULL}};
const struct fe_layer fe_layer_rnn = {"rnn", rnn_args, RNN_ARGS, 1, apply_rnn};
const struct fe_layer fe_layer_bidirectional = {"bidirectional", bidirectional_args, 7, 1, apply_bidirectional};

/* ---------------------------------------------------------------- a cell by itself: one time */

/* Of (carry, x), or of x and the first carry: (carry, y). */
static struct fe_val apply_cell(struct fe_block *block, const struct fe_value *args)
{
    struct fe_site *s = &block->site;
    struct cell c;
    struct fe_val carry[2], x = block->in[block->in_count - 1];
    (void)args; /* read_cell reads them, as it does inside of rnn */
    if (!read_cell(block, block->json, &c) || !fe_as_tensor(s, &x)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    if (!t.rank) return fe_block_fail(block, NULL, "E0212", "a cell needs an input of rank 1 or more, found a scalar");
    if (!ir_dtype_is_float((enum ir_dtype)t.dtype)) x = fe_cast(s, x, IR_F32);
    uint32_t count = c.kind == GRU || c.kind == SIMPLE ? 1 : 2;
    struct fe_val none = fe_none();
    if (x.bad || !prepare(&c, x, block->in_count == 1) ||
        !first_carry(NULL, &c, x, block->in_count > 1 ? &block->in[0] : &none, count, carry))
        return fe_bad();
    advance(&c, c.input, carry);
    struct fe_val both[] = {count == 1 ? carry[0] : fe_tuple(s, carry, 2), carry[count - 1]};
    return both[1].bad ? fe_bad() : fe_tuple(s, both, 2);
}

#define CELL_LAYER(cell, rows) \
    const struct fe_layer fe_layer_##cell = { \
        .name = #cell, .args = rows, .count = CELL_ARGS, .inputs_max = 2 | FE_TUPLE_INPUTS, .apply = apply_cell}
CELL_LAYER(lstm_cell, gated_args);
CELL_LAYER(optimized_lstm_cell, gated_args);
CELL_LAYER(gru_cell, gated_args);
CELL_LAYER(simple_cell, simple_args);
