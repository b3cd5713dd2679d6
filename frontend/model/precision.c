/* "precision": dtypes of parameters, layers and gradients. The scale of the loss is the step's (step/loss_scale.c). */
#include "frontend/model/model.h"

enum { PARAMS, COMPUTE, GRADIENTS, LOSS_SCALE, ROWS };

static bool read_dtype(struct fe *fe, const struct fe_value *v, const char *name, enum ir_dtype *out)
{
    if (!v->json || v->null) return true;
    if (!ir_dtype_is_float(v->dtype)) {
        fe_error(fe, v->json, "E0213", "\"%s\" must be a floating-point dtype such as \"bfloat16\", found \"%s\"", name,
                 ir_dtype_name(v->dtype));
        return false;
    }
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
