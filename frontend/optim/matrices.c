/* Parameters as matrices: which leaves are some, by their dimension numbers, and the way there and back (matrices.h).
 */
#include "frontend/optim/matrices.h"
#include <string.h>

/* ---------------------------------------------------------------- dimension numbers */

/* Adds an axis or a list of axes to the order. False: an error was recorded. */
static bool read_axes(struct optim_transform *t, fe_json json, const struct ir_type *type, uint32_t *taken,
                      struct optim_matrices *m, uint32_t *at, int64_t *size)
{
    fe_json one = json->kind == JSON_ARRAY ? fe_first(t->fe, json) : json;
    for (; one; one = json->kind == JSON_ARRAY ? fe_next(t->fe, one) : NULL) {
        int64_t axis;
        if (!fe_integer(t->fe, one, &axis)) return false;
        if (axis < -(int64_t)type->rank || axis >= type->rank)
            return fe_wrong(t->fe, one, "E0202", "axis %lld is outside of the shape %s", (long long)axis,
                            ir_type_text(t->fe->arena, type));
        axis += axis < 0 ? type->rank : 0;
        if (*taken >> axis & 1) return fe_wrong(t->fe, one, "E0202", "axis %lld is named twice", (long long)axis);
        *taken |= 1u << axis;
        m->order[(*at)++] = axis;
        *size *= type->dim[axis];
    }
    return true;
}

/* The numbers {"reduction_axis", "output_axis"} of one leaf. */
static bool read_numbers(struct optim_transform *t, fe_json json, uint32_t leaf, struct optim_matrices *m)
{
    static const struct fe_arg rows[] = {{"reduction_axis", FE_ANY, 0, "0", NULL},
                                         {"output_axis", FE_ANY, 0, "1", NULL}};
    const struct ir_type *type = &t->o->params[leaf].type;
    struct fe_value v[2] = {0};
    if (json->kind != JSON_OBJECT)
        return fe_wrong(t->fe, json, "E0101", "must be {\"reduction_axis\", \"output_axis\"} or null, found %s",
                        fe_found(t->fe, json));
    if (!fe_settings(t->fe, json, "dimension numbers", rows, 2, NULL, v)) return false;
    if (type->rank < 2)
        return fe_wrong(t->fe, json, "E0202", "parameter \"%s\" of shape %s is no matrix", t->o->params[leaf].path,
                        ir_type_text(t->fe->arena, type));
    int64_t order[IR_MAX_RANK];
    uint32_t taken = 0, n = 0, batch = 0;
    *m = (struct optim_matrices){.used = true, .size = {1, 1, 1}};
    for (uint32_t i = 0; i < 2; i++) {
        if (v[i].json) {
            if (!read_axes(t, v[i].json, type, &taken, m, &n, &m->size[i + 1])) return false;
        } else if (taken >> i & 1) {
            fe_error(t->fe, json, "E0202", "axis %u is named twice", i);
            return false;
        } else {
            taken |= 1u << i;
            m->order[n++] = i;
            m->size[i + 1] *= type->dim[i];
        }
    }
    memcpy(order, m->order, sizeof order);
    for (uint32_t i = 0; i < type->rank; i++)
        if (!(taken >> i & 1)) m->order[batch++] = i, m->size[0] *= type->dim[i];
    memcpy(m->order + batch, order, n * sizeof *order);
    return true;
}

bool optim_read_matrices(struct optim_transform *t, const char *name, struct optim_matrices *out)
{
    fe_json map = arg(t, name)->json;
    bool given = map && map->kind == JSON_OBJECT, good = !given || optim_patterns_match(t, map);
    EACH_LEAF(t, i) {
        const struct ir_type *type = &t->o->params[i].type;
        if (!given && type->rank == 2)
            out[i] = (struct optim_matrices){.used = true, .order = {0, 1}, .size = {1, type->dim[0], type->dim[1]}};
    }
    bool *known = arena_new_array(t->fe->arena, bool, t->count + 1);
    for (fe_json e = given ? fe_first(t->fe, map) : NULL; e; e = fe_next(t->fe, e))
        for (uint32_t i = 0; i < t->count; i++) {
            if (known[i] || !glob_match(e->key, t->o->params[i].path)) continue;
            known[i] = true;
            if (t->u[i] && e->kind != JSON_NULL && !read_numbers(t, e, i, &out[i])) return false;
        }
    for (uint32_t i = 0; given && good && i < t->count; i++)
        if (t->u[i] && !known[i]) {
            fe_error(t->fe, map, "E0422", "parameter \"%s\" has no dimension numbers: no pattern matches it",
                     t->o->params[i].path);
            good = false;
        }
    return good;
}

/* ---------------------------------------------------------------- matrices */

struct fe_term optim_as_matrices(struct ir_builder *b, struct fe_term x, const struct optim_matrices *m)
{
    ir_value v = ir_transpose(b, x.v, m->order);
    return T(ir_reshape(b, v, 3, m->size));
}

struct fe_term optim_as_leaf(struct ir_builder *b, struct fe_term x, const struct optim_matrices *m,
                             const struct ir_type *type)
{
    int64_t dim[IR_MAX_RANK], back[IR_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++) dim[i] = type->dim[m->order[i]], back[m->order[i]] = i;
    return T(ir_transpose(b, ir_reshape(b, x.v, type->rank, dim), back));
}
