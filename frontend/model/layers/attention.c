/* multi_head_attention as flax.nnx.MultiHeadAttention: projections to (heads, depth), optional layer norm of query and
 * key, jax.nn.dot_product_attention, projection out over the last two dimensions. */
#include "frontend/model/block.h"
#include <math.h>

enum {
    HEADS,
    IN,
    QKV,
    OUT,
    IN_KV,
    KV_HEADS,
    DROPOUT,
    BROADCAST,
    DETERMINISTIC,
    NORMALIZE,
    DECODE,
    USE_BIAS,
    KERNEL_INIT,
    OUT_KERNEL_INIT,
    BIAS_INIT,
    OUT_BIAS_INIT,
    MASK,
    IS_CAUSAL,
    PRECISION
};
static const struct fe_arg args[] = {
    [HEADS] = {"num_heads", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL},
    [IN] = {"in_features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
    [QKV] = {"qkv_features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
    [OUT] = {"out_features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
    [IN_KV] = {"in_kv_features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
    [KV_HEADS] = {"num_kv_heads", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
    [DROPOUT] = {"dropout_rate", FE_NUMBER, FE_UNIT_CLOSED, "0", NULL},
    [BROADCAST] = {"broadcast_dropout", FE_BOOL, 0, "true", NULL},
    [DETERMINISTIC] = {"deterministic", FE_BOOL, FE_NULLABLE, "null", NULL},
    [NORMALIZE] = {"normalize_qk", FE_BOOL, 0, "false", NULL},
    [DECODE] = {"decode", FE_BOOL, 0, "false", NULL},
    [USE_BIAS] = {"use_bias", FE_BOOL, 0, "true", NULL},
    [KERNEL_INIT] = {"kernel_init", FE_OBJECT, 0, "{\"type\": \"lecun_normal\"}", NULL},
    [OUT_KERNEL_INIT] = {"out_kernel_init", FE_OBJECT, FE_NULLABLE, "null", NULL},
    [BIAS_INIT] = {"bias_init", FE_OBJECT, 0, "{\"type\": \"zeros\"}", NULL},
    [OUT_BIAS_INIT] = {"out_bias_init", FE_OBJECT, FE_NULLABLE, "null", NULL},
    [MASK] = {"mask", FE_EXPR, FE_NULLABLE, "null", NULL},
    [IS_CAUSAL] = {"is_causal", FE_BOOL, 0, "false", NULL},
    [PRECISION] = FE_PRECISION_ROW,
    FE_DTYPE_ROWS};

static fe_json first_given(const struct fe_value *a, const struct fe_value *b)
{
    if (a->given && !a->null) return a->json;
    return b && b->given && !b->null ? b->json : NULL;
}

/* x[.., in] -> [.., heads, depth] */
static struct fe_val project(struct fe_block *block, const struct fe_value *a, const char *name, struct fe_val x,
                             int64_t heads, int64_t depth)
{
    struct fe_site *s = &block->site;
    struct ir_type t = fe_type_at(s, &x);
    int64_t in = t.dim[t.rank - 1];
    struct fe_param kernel = {.type = ir_type_of(IR_F32, 3, (int64_t[]){in, heads, depth}),
                              .init = first_given(&a[KERNEL_INIT], NULL),
                              .init_preset = "lecun_normal",
                              .init_shape = {in, heads * depth},
                              .init_rank = 2};
    struct fe_val v[] = {x, fe_val_tensor(fe_block_param(block, fe_path_join(s->fe->arena, name, "kernel"), kernel)),
                         fe_none()};
    if (a[USE_BIAS].boolean) {
        struct fe_param bias = {.type = ir_type_of(IR_F32, 2, (int64_t[]){heads, depth}),
                                .init = first_given(&a[BIAS_INIT], NULL),
                                .init_preset = "zeros"};
        bias.init_shape[0] = heads * depth;
        bias.init_rank = 1;
        v[2] = fe_val_tensor(fe_block_param(block, fe_path_join(s->fe->arena, name, "bias"), bias));
    }
    if (v[1].bad || v[2].bad) return fe_bad();
    fe_block_promote(block, v, 3);
    struct fe_val y = fe_einsum(s, "...i,ihd->...hd", v, 2);
    if (!fe_is_none(&v[2])) y = fe_add(s, y, v[2]);
    return fe_block_adapt(block, name, true, "...i,ihd->...hd", v[0], v[1], y);
}

/* layer_norm without a bias over the depth. */
static struct fe_val normalise(struct fe_block *block, const char *name, struct fe_val x, int64_t depth)
{
    struct fe_site *s = &block->site;
    struct fe_param scale = {.type = ir_type_of(IR_F32, 1, &depth), .init_preset = "ones"};
    struct fe_val w = fe_val_tensor(fe_block_param(block, fe_path_join(s->fe->arena, name, "scale"), scale));
    if (w.bad) return w;
    struct fe_val both[] = {x, w};
    fe_block_promote(block, both, 2);
    x = both[0], w = both[1];
    enum ir_dtype dtype = (enum ir_dtype)fe_type_at(s, &x).dtype;
    if (dtype != IR_F64) x = fe_cast(s, x, IR_F32);
    struct fe_val mean = fe_reduce_last(s, FE_RED_MEAN, x, true),
                  square = fe_reduce_last(s, FE_RED_MEAN, fe_mul(s, x, x), true);
    struct fe_val variance = fe_op2(s, OP_max, fe_float(0), fe_sub(s, square, fe_mul(s, mean, mean)));
    struct fe_val factor = fe_op1(s, OP_rsqrt, fe_add(s, variance, fe_float(1e-6)));
    struct fe_val y = fe_mul(s, fe_sub(s, x, mean), fe_mul(s, factor, w));
    return y.bad ? y : fe_cast(s, y, dtype);
}

/* Kernel and bias of the projection out, as v[1] and v[2]. */
static bool declare_out(struct fe_block *block, const struct fe_value *a, int64_t heads, int64_t depth, int64_t out,
                        struct fe_val v[3])
{
    struct fe_param kernel = {.type = ir_type_of(IR_F32, 3, (int64_t[]){heads, depth, out}),
                              .init = first_given(&a[OUT_KERNEL_INIT], &a[KERNEL_INIT]),
                              .init_preset = "lecun_normal",
                              .init_shape = {heads * depth, out},
                              .init_rank = 2};
    v[1] = fe_val_tensor(fe_block_param(block, "out.kernel", kernel));
    v[2] = fe_none();
    if (a[USE_BIAS].boolean && !v[1].bad) {
        struct fe_param bias = {.type = ir_type_of(IR_F32, 1, &out),
                                .init = first_given(&a[OUT_BIAS_INIT], &a[BIAS_INIT]),
                                .init_preset = "zeros"};
        v[2] = fe_val_tensor(fe_block_param(block, "out.bias", bias));
    }
    return !v[1].bad && !v[2].bad;
}

static struct fe_val project_out(struct fe_block *block, struct fe_val x, struct fe_val v[3])
{
    struct fe_site *s = &block->site;
    if (x.bad) return x;
    v[0] = x;
    fe_block_promote(block, v, 3);
    struct fe_val y = fe_einsum(s, "...hd,hdo->...o", v, 2);
    if (!fe_is_none(&v[2])) y = fe_add(s, y, v[2]);
    return fe_block_adapt(block, "out", true, "...hd,hdo->...o", v[0], v[1], y);
}

/* Sizes that are given must be those that are found. */
static bool check_size(struct fe_block *block, const struct fe_value *v, int64_t found, const char *what)
{
    if (!v->given || v->null || v->integer == found) return true;
    fe_block_fail(block, v->json, "E0212", "multi_head_attention expects %lld %s, found %lld", (long long)v->integer,
                  what, (long long)found);
    return false;
}

/* As jax.nn's attention but for the masked scores, which are the least float, and the weights, of which some are
 * dropped: by one mask for all batches and heads if `broadcast_dropout`. */
static struct fe_val attend_with_dropout(struct fe_block *block, const struct fe_value *a, struct fe_val q,
                                         struct fe_val k, struct fe_val v, struct fe_val mask)
{
    struct fe_site *s = &block->site;
    struct ir_type tq = fe_type_at(s, &q), tk = fe_type_at(s, &k);
    uint32_t r = tq.rank;
    double rate = a[DROPOUT].number;
    if (tq.dim[r - 2] != tk.dim[r - 2]) { /* groups of query heads share a key head */
        struct fe_val groups = fe_int((double)(tq.dim[r - 2] / tk.dim[r - 2]));
        k = FE_APPLY(s, "repeat", k, groups, fe_int(-2));
        v = FE_APPLY(s, "repeat", v, groups, fe_int(-2));
        if (k.bad || v.bad) return fe_bad();
    }
    struct fe_val pair_qk[] = {fe_div(s, q, fe_float(sqrt((double)tq.dim[r - 1]))), k};
    struct fe_val scores = fe_einsum(s, "...qhd,...khd->...hqk", pair_qk, 2);
    if (scores.bad) return scores;
    struct ir_type t = fe_type_at(s, &scores);
    if (a[IS_CAUSAL].boolean) {
        struct ir_type square = ir_type_of(IR_I32, 2, &t.dim[r - 2]);
        struct fe_val causal = fe_binary(s, EXPR_OP_GE, fe_iota(s, square, 0), fe_iota(s, square, 1));
        mask = fe_is_none(&mask) ? causal : fe_op2(s, OP_and, fe_boolean(s, mask), causal);
    }
    double least = tq.dtype == IR_F16 ? -65504 : tq.dtype == IR_BF16 ? -0x1.fep127 : -0x1.fffffep127;
    if (!fe_is_none(&mask)) scores = fe_where3(s, mask, scores, fe_float(least));
    struct fe_val weights = scores.bad ? scores : FE_APPLY(s, "softmax", scores);
    for (uint32_t i = 0; a[BROADCAST].boolean && i + 2 < r; i++) t.dim[i] = 1;
    struct fe_val keep = fe_cast(s, fe_block_mask(block, "dropout", &t, &scores, rate), (enum ir_dtype)tq.dtype);
    struct fe_val factor = rate < 1 ? fe_div(s, keep, fe_float(1 - rate)) : fe_float(0);
    struct fe_val pair_wv[] = {fe_mul(s, weights, factor), v};
    return pair_wv[0].bad ? fe_bad() : fe_einsum(s, "...hqk,...khd->...qhd", pair_wv, 2);
}

static struct fe_val apply(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    for (uint32_t i = 0; i < block->in_count; i++)
        if (!fe_block_float_input(block, i)) return fe_bad();
    struct fe_val q = block->in[0], k = block->in_count > 1 ? block->in[1] : q,
                  v = block->in_count > 2 ? block->in[2] : k;
    struct ir_type tq = fe_type_at(s, &q), tk = fe_type_at(s, &k), tv = fe_type_at(s, &v);
    if (tq.rank < 2 || tk.rank < 2 || tv.rank < 2)
        return fe_block_fail(block, NULL, "E0212", "multi_head_attention needs inputs of rank 2 or more, found %s",
                             fe_describe(s, &q));
    int64_t in = tq.dim[tq.rank - 1], qkv = a[QKV].null ? in : a[QKV].integer, out = a[OUT].null ? in : a[OUT].integer,
            heads = a[HEADS].integer;
    int64_t kv_heads = a[KV_HEADS].null ? heads : a[KV_HEADS].integer;
    if (!check_size(block, &a[IN], in, "inputs") || !check_size(block, &a[IN_KV], tk.dim[tk.rank - 1], "key inputs"))
        return fe_bad();
    if (tk.dim[tk.rank - 1] != tv.dim[tv.rank - 1])
        return fe_block_fail(block, NULL, "E0212",
                             "multi_head_attention: key %s and value %s must have the same number of features",
                             fe_describe(s, &k), fe_describe(s, &v));
    if (qkv % heads)
        return fe_block_fail(block, NULL, "E0212",
                             "multi_head_attention: %lld features cannot be divided among %lld heads", (long long)qkv,
                             (long long)heads);
    if (heads % kv_heads)
        return fe_block_fail(block, a[KV_HEADS].json, "E0212",
                             "multi_head_attention: %lld query heads cannot share %lld key heads", (long long)heads,
                             (long long)kv_heads);
    if (a[DECODE].boolean) return fe_block_fail(block, a[DECODE].json, "E0111", "\"decode\" is not supported yet");
    int64_t depth = qkv / heads;
    q = project(block, a, "query", q, heads, depth);
    k = q.bad ? q : project(block, a, "key", k, kv_heads, depth);
    v = k.bad ? k : project(block, a, "value", v, kv_heads, depth);
    if (a[NORMALIZE].boolean && !v.bad) {
        q = normalise(block, "query_ln", q, depth);
        k = normalise(block, "key_ln", k, depth);
    }
    if (q.bad || k.bad || v.bad) return fe_bad();
    struct fe_val parts[] = {q, k, v};
    fe_block_promote(block, parts, 3);
    q = parts[0], k = parts[1], v = parts[2];
    struct fe_val mask = a[MASK].given && !a[MASK].null ? fe_expr(s->fe, s->trace, a[MASK].json, block->env)
                                                        : fe_none();
    struct fe_val projection[3];
    if (mask.bad || !declare_out(block, a, heads, depth, out, projection)) return fe_bad();
    bool deterministic = a[DETERMINISTIC].given && a[DETERMINISTIC].boolean;
    if (a[DROPOUT].number > 0) fe_block_fork(block, "dropout", !deterministic);
    if (a[DROPOUT].number > 0 && !deterministic && block->site.trace->train)
        return project_out(block, attend_with_dropout(block, a, q, k, v, mask), projection);
    struct fe_val causal = {.kind = FE_VAL_NUMBER, .python = FE_PY_BOOL, .number = a[IS_CAUSAL].boolean};
    struct fe_val y = FE_APPLY(s, "dot_product_attention", q, k, v, fe_none(), mask, fe_none(), causal);
    return project_out(block, y, projection);
}

const struct fe_layer fe_layer_multi_head_attention = {"multi_head_attention", args, sizeof args / sizeof *args, 3,
                                                       apply};
