/* Dtypes: what "precision" says of parameters, layers and gradients, what layers say themselves, and what follows for
 * their values. The scale of the loss is the step's (step/loss_scale.c). */
#include "frontend/model/block.h"
#include <string.h>

enum { PARAMS, COMPUTE, GRADIENTS, LOSS_SCALE, ROWS };

static bool read_dtype(struct fe *fe, const struct fe_value *v, const char *name, enum ir_dtype *out)
{
    if (!v->json || v->null) return true;
    if (!ir_dtype_is_float(v->dtype))
        return fe_wrong(fe, v->json, "E0213",
                        "\"%s\" must be a floating-point dtype such as \"bfloat16\", found \"%s\"", name,
                        ir_dtype_name(v->dtype));
    *out = v->dtype;
    return true;
}

bool fe_read_precision(struct fe *fe, fe_json json, fe_json *loss_scale)
{
    struct fe_precision *p = &fe->precision;
    struct fe_value v[ROWS] = {0};
    *loss_scale = NULL;
    if (!json) return true;
    if (!fe_setting(fe, FE_SETTING_precision, json, "\"precision\"", v)) return false;
    if (!v[LOSS_SCALE].null) *loss_scale = v[LOSS_SCALE].json;
    bool good = read_dtype(fe, &v[PARAMS], "params", &p->params);
    good &= read_dtype(fe, &v[COMPUTE], "compute", &p->compute);
    return good & read_dtype(fe, &v[GRADIENTS], "gradients", &p->gradients);
}

/* ---------------------------------------------------------------- of blocks */

void fe_block_own_dtypes(struct fe_block *block)
{
    const struct fe_precision *p = &block->site.fe->precision;
    block->compute = p->compute ? p->compute : IR_TUPLE;
    block->param_dtype = p->params ? p->params : IR_F32;
}

bool fe_block_float_input(struct fe_block *block, uint32_t index)
{
    struct fe_val *v = &block->in[index];
    if (ir_dtype_is_float((enum ir_dtype)fe_type_at(&block->site, v).dtype)) return true;
    *v = fe_cast(&block->site, *v, IR_F32);
    v->weak = !v->bad; /* beside parameters it takes their dtype, as integers do */
    return !v->bad;
}

bool fe_block_dtypes(struct fe_block *block, const struct fe_arg *rows, uint32_t count, const struct fe_value *args)
{
    for (uint32_t i = 0; i < count; i++) {
        bool dtype = strcmp(rows[i].name, "dtype") == 0;
        if ((!dtype && strcmp(rows[i].name, "param_dtype") != 0) || args[i].null || !args[i].given) continue;
        if (!ir_dtype_is_float(args[i].dtype))
            return fe_block_wrong(block, args[i].json, "E0213", "\"%s\" must be a floating-point dtype, found %s",
                                  rows[i].name, ir_dtype_name(args[i].dtype));
        if (dtype) block->compute = args[i].dtype;
        else block->param_dtype = args[i].dtype;
    }
    return true;
}

enum ir_dtype fe_block_dtype(struct fe_block *block, const struct fe_val *values, uint32_t count)
{
    struct fe_kind_of k = {IR_BOOL, false};
    if (block->compute != IR_TUPLE) return block->compute;
    for (uint32_t i = 0; i < count; i++)
        if (!fe_is_none(&values[i]) && !values[i].bad) k = fe_promote(k, fe_kind(&block->site, &values[i]));
    return ir_dtype_is_float(k.dtype) ? k.dtype : IR_F32;
}

void fe_block_promote(struct fe_block *block, struct fe_val *values, uint32_t count)
{
    enum ir_dtype dtype = fe_block_dtype(block, values, count);
    for (uint32_t i = 0; i < count; i++)
        if (!fe_is_none(&values[i]) && !values[i].bad) values[i] = fe_cast(&block->site, values[i], dtype);
}

bool fe_block_wide_product(struct fe_block *block, const struct fe_value *preferred, struct fe_val *x,
                           struct fe_val *kernel)
{
    if (!preferred->given || preferred->null) return true;
    enum ir_dtype have = (enum ir_dtype)fe_type_at(&block->site, x).dtype, want = preferred->dtype;
    if (!ir_dtype_is_float(want) || (want != have && want != IR_F32))
        return fe_block_wrong(block, preferred->json, "E0213", "a product of %s is that or float32, found %s",
                              ir_dtype_name(have), ir_dtype_name(preferred->dtype));
    *x = fe_cast(&block->site, *x, want);
    *kernel = fe_cast(&block->site, *kernel, want);
    return true;
}
