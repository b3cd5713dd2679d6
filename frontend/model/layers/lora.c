/* lora and lora_linear as flax.nnx: x a b beside a base; no scaling by the rank. */
#include "frontend/model/block.h"

extern const struct fe_layer fe_layer_linear;

/* x a b, with the two parameters below `prefix`. */
static struct fe_val low_rank(struct fe_block *block, const char *prefix, int64_t rank, int64_t features,
                              fe_json a_init, fe_json b_init)
{
    struct fe_site *s = &block->site;
    struct ir_type t = fe_type_at(s, &block->in[0]);
    if (!t.rank)
        return fe_block_fail(block, NULL, "E0212", "layer \"%s\" needs an input of rank 1 or more, found a scalar",
                             block->type);
    struct fe_param a = {.type = ir_type_of(IR_F32, 2, (int64_t[]){t.dim[t.rank - 1], rank}),
                         .init = a_init,
                         .init_preset = "he_uniform"};
    struct fe_param b = {
        .type = ir_type_of(IR_F32, 2, (int64_t[]){rank, features}), .init = b_init, .init_preset = "zeros"};
    struct fe_val v[3] = {block->in[0],
                          fe_val_tensor(fe_block_param(block, fe_path_join(s->fe->arena, prefix, "lora_a"), a))};
    if (v[1].bad) return v[1];
    v[2] = fe_val_tensor(fe_block_param(block, fe_path_join(s->fe->arena, prefix, "lora_b"), b));
    if (v[2].bad) return v[2];
    fe_block_promote(block, v, 3);
    return FE_APPLY(s, "matmul", FE_APPLY(s, "matmul", v[0], v[1]), v[2]);
}

static fe_json given(const struct fe_value *v) { return v->given && !v->null ? v->json : NULL; }

static struct fe_val apply_lora(struct fe_block *block, const struct fe_value *a)
{
    enum { RANK, FEATURES, BASE, A_INIT, B_INIT, IN };
    struct fe_site *s = &block->site;
    struct fe_val base = fe_none();
    struct ir_type t = fe_type_at(s, &block->in[0]);
    int64_t features = a[FEATURES].integer, in = t.rank ? t.dim[t.rank - 1] : 0;
    if (!a[IN].null && a[IN].integer != in)
        return fe_block_fail(block, a[IN].json, "E0212", "lora expects %lld inputs, found %lld in %s",
                             (long long)a[IN].integer, (long long)in, fe_describe(s, &block->in[0]));
    if (given(&a[BASE])) {
        base = fe_block_child(block, a[BASE].json, "base_module", block->env, block->in, 1);
        if (!fe_as_tensor(s, &base)) return fe_bad();
        t = fe_type_at(s, &base);
        int64_t out = t.rank ? t.dim[t.rank - 1] : 0;
        if (!a[FEATURES].null && features != out)
            return fe_block_fail(block, a[FEATURES].json, "E0212", "lora has %lld features, its base %lld",
                                 (long long)features, (long long)out);
        features = out;
    } else if (a[FEATURES].null)
        return fe_block_fail(block, NULL, "E0102", "layer \"lora\" needs \"features\" or a \"base_module\"");
    struct fe_val y = low_rank(block, "", a[RANK].integer, features, given(&a[A_INIT]), given(&a[B_INIT]));
    return fe_is_none(&base) ? y : fe_add(s, y, base);
}

enum { LINEAR_ARGS = 7, LORA_ARGS = 3 };
static const struct fe_arg low_rank_args[] = {
    FE_DTYPE_ROWS}; /* the last two of lora_linear, as the dtypes of a layer */
static struct fe_val apply_lora_linear(struct fe_block *block, const struct fe_value *a)
{
    struct fe_block beside = *block;
    struct fe_val base = fe_layer_linear.apply(block, a);
    const struct fe_value *own = a + LINEAR_ARGS;
    fe_block_own_dtypes(&beside);
    if (base.bad || !fe_block_dtypes(&beside, low_rank_args, 2, own + LORA_ARGS + 2)) return fe_bad();
    return fe_add(&block->site, base,
                  low_rank(&beside, "lora", own[0].integer, a[0].integer, given(&own[1]), given(&own[2])));
}

#define INITS \
    {"a_initializer", FE_OBJECT, 0, "{\"type\": \"he_uniform\"}", NULL}, \
    { \
        "b_initializer", FE_OBJECT, 0, "{\"type\": \"zeros\"}", NULL \
    }
static const struct fe_arg lora_args[] = {{"lora_rank", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL},
                                          {"features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
                                          {"base_module", FE_OBJECT, FE_NULLABLE, "null", NULL},
                                          INITS,
                                          {"in_features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
                                          FE_DTYPE_ROWS};
/* Those of linear, in its order, then its own. */
static const struct fe_arg lora_linear_args[LINEAR_ARGS + LORA_ARGS + 4] = {
    {"features", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL},
    {"in_features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
    {"use_bias", FE_BOOL, 0, "true", NULL},
    {"kernel_init", FE_OBJECT, 0, "{\"type\": \"lecun_normal\"}", NULL},
    {"bias_init", FE_OBJECT, 0, "{\"type\": \"zeros\"}", NULL},
    FE_PRODUCT_ROWS,
    {"lora_rank", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL},
    INITS,
    FE_DTYPE_ROWS,
    {"lora_dtype", FE_DTYPE, FE_NULLABLE, "null", NULL},
    {"lora_param_dtype", FE_DTYPE, FE_NULLABLE, "null", NULL}};
const struct fe_layer fe_layer_lora = {"lora", lora_args, sizeof lora_args / sizeof *lora_args, 1, apply_lora};
const struct fe_layer fe_layer_lora_linear = {"lora_linear", lora_linear_args,
                                              sizeof lora_linear_args / sizeof *lora_linear_args, 1, apply_lora_linear};
