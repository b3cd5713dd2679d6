/* The checks that rules of inference share, and their messages. */
#include "ir/infer.h"

bool infer_fail(struct infer *c, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const char *text = arena_vformat(c->arena, format, list);
    va_end(list);
    c->message = arena_format(c->arena, "%s: %s", ir_ops[c->node->op].name, text);
    return false;
}

const char *infer_ints_text(const struct infer *c, struct ir_ints list)
{
    struct str s = STR(c->arena);
    str_add(&s, "[");
    for (uint32_t i = 0; i < list.n; i++) str_addf(&s, i ? ", %lld" : "%lld", (long long)list.v[i]);
    str_add(&s, "]");
    return str_text(&s);
}

/* ---------------------------------------------------------------- checks that rules share */

bool infer_result(struct infer *c, struct ir_type type)
{
    if (ir_type_elements(&type) < 0)
        return infer_fail(c, "the result %s is too large (expected fewer than 2^48 elements)", infer_text(c, &type));
    c->node->type = type;
    return true;
}

/* A stated type that a node may have. */
bool infer_sane(struct infer *c, const struct ir_type *type)
{
    if (type->dtype == IR_TUPLE || type->dtype >= IR_DTYPE_COUNT)
        return infer_fail(c, "expected a result of a tensor type");
    if (type->rank > IR_MAX_RANK)
        return infer_fail(c, "expected at most %d dimensions, found %d", IR_MAX_RANK, type->rank);
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dim[i] < 0)
            return infer_fail(c, "expected extents of at least 0, found %lld in %s", (long long)type->dim[i],
                              infer_text(c, type));
    for (uint32_t i = type->rank; i < IR_MAX_RANK; i++)
        if (type->dim[i]) return infer_fail(c, "expected unused extents to be 0");
    if (ir_type_elements(type) < 0)
        return infer_fail(c, "%s is too large (expected fewer than 2^48 elements)", infer_text(c, type));
    return true;
}

bool infer_attr_length(struct infer *c, uint32_t index, uint32_t n)
{
    size_t length;
    const char *name = ir_attr_name((enum ir_op)c->node->op, index, &length);
    if (c->node->attr[index].n == n) return true;
    return infer_fail(c, "expected %u number%s in `%.*s`, found %s", n, n == 1 ? "" : "s", (int)length, name,
                      infer_ints_text(c, c->node->attr[index]));
}

/* One number in [low, high). */
bool infer_attr_number(struct infer *c, uint32_t index, int64_t low, int64_t high, int64_t *value)
{
    if (!infer_attr_length(c, index, 1)) return false;
    *value = c->node->attr[index].v[0];
    if (*value >= low && *value < high) return true;
    size_t length;
    const char *name = ir_attr_name((enum ir_op)c->node->op, index, &length);
    if (high <= low) return infer_fail(c, "there is no valid `%.*s`, found %lld", (int)length, name, (long long)*value);
    return infer_fail(c, "expected `%.*s` in %lld..%lld, found %lld", (int)length, name, (long long)low,
                      (long long)high - 1, (long long)*value);
}
