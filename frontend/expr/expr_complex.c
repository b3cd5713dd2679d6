/* Functions of complex values. A complex value is a pair of tensors with the parts `real` and `imag`: what fft gives,
 * with the operators (expr_ops.c), indices, and three kinds of functions: those that are linear, by the rules below;
 * those of library/complex.step, `complex_NAME`; and transforms, which know both parts themselves. It has no dtype of
 * its own and is no result of a document. */
#include "frontend/expr/makers.h"
#include <string.h>

/* How f(x + i y) is made of what f makes of real numbers. `together`: f is linear in all its values at once, f(x) + i
 * f(y), a real one among them has no imaginary part (concatenate, where, pad). Else it is linear in each of them, and
 * what stands for one value is made of the others first (products). */
static const struct rule {
    const char *name;
    bool together;
    uint16_t values;      /* bits of arguments; REST: those of a signature that ends in "*" */
    uint16_t fills;       /* bits of arguments of which the imaginary part is 0, whatever they are, None too */
    uint16_t never;       /* bits of arguments that are not given with them: a dtype */
    const char *compares; /* words of arguments by which it is not linear */
} rules[] = {
#define ARG_BIT(n) (1u << (n))
#define REST ARG_BIT(FE_MAX_ARGS)
    {.name = "sum", .together = true, .values = ARG_BIT(0), .fills = ARG_BIT(4), .never = ARG_BIT(2)},
    {.name = "mean", .together = true, .values = ARG_BIT(0), .fills = ARG_BIT(4), .never = ARG_BIT(2)},
    {.name = "cumsum", .together = true, .values = ARG_BIT(0), .never = ARG_BIT(2)},
    {.name = "trace", .together = true, .values = ARG_BIT(0), .never = ARG_BIT(4)},
    {.name = "concatenate", .together = true, .values = ARG_BIT(0), .never = ARG_BIT(2)},
    {.name = "stack", .together = true, .values = ARG_BIT(0), .never = ARG_BIT(2)},
    {.name = "hstack", .together = true, .values = ARG_BIT(0), .never = ARG_BIT(1)},
    {.name = "vstack", .together = true, .values = ARG_BIT(0), .never = ARG_BIT(1)},
    {.name = "column_stack", .together = true, .values = ARG_BIT(0)},
    {.name = "append", .together = true, .values = ARG_BIT(0) | ARG_BIT(1)},
    {.name = "where", .together = true, .values = ARG_BIT(1) | ARG_BIT(2)},
    {.name = "diff", .together = true, .values = ARG_BIT(0) | ARG_BIT(3) | ARG_BIT(4)},
    {.name = "dynamic_update_slice", .together = true, .values = ARG_BIT(0) | ARG_BIT(1)},
    {.name = "take", .together = true, .values = ARG_BIT(0), .fills = ARG_BIT(4)},
    {.name = "take_along_axis", .together = true, .values = ARG_BIT(0), .fills = ARG_BIT(4)},
    {.name = "pad",
     .together = true,
     .values = ARG_BIT(0),
     .fills = ARG_BIT(3) | ARG_BIT(4),
     .compares = "maximum minimum median"},
#define ALONE(function) \
    { \
        .name = #function, .together = true, .values = ARG_BIT(0) \
    }
    ALONE(negative),
    ALONE(positive),
    ALONE(copy),
    ALONE(stop_gradient),
    ALONE(reshape),
    ALONE(ravel),
    ALONE(transpose),
    ALONE(permute_dims),
    ALONE(matrix_transpose),
    ALONE(swapaxes),
    ALONE(moveaxis),
    ALONE(rollaxis),
    ALONE(expand_dims),
    ALONE(squeeze),
    ALONE(flip),
    ALONE(rev),
    ALONE(fliplr),
    ALONE(flipud),
    ALONE(rot90),
    ALONE(roll),
    ALONE(broadcast_to),
    ALONE(tile),
    ALONE(repeat),
    ALONE(tril),
    ALONE(triu),
    ALONE(diagonal),
    ALONE(diag),
    ALONE(dynamic_slice),
    ALONE(split),
    ALONE(array_split),
    ALONE(hsplit),
    ALONE(vsplit),
    ALONE(dsplit),
    ALONE(unstack),
    ALONE(fftshift),
    ALONE(ifftshift),
#define PRODUCT(function, dtype) \
    { \
        .name = #function, .values = ARG_BIT(0) | ARG_BIT(1), .never = dtype \
    }
    PRODUCT(matmul, ARG_BIT(2)),
    PRODUCT(batch_matmul, ARG_BIT(2)),
    PRODUCT(dot, ARG_BIT(2)),
    PRODUCT(inner, ARG_BIT(2)),
    PRODUCT(tensordot, ARG_BIT(3)),
    PRODUCT(outer, 0),
    PRODUCT(kron, 0),
    PRODUCT(matvec, 0),
    {.name = "einsum", .values = REST, .never = ARG_BIT(1)}};

static bool holds_complex(const struct fe_val *v)
{
    if (fe_is_complex(v)) return true;
    for (uint32_t i = 0; v->kind == FE_VAL_TUPLE && i < v->count; i++)
        if (holds_complex(&v->items[i])) return true;
    return false;
}

/* One part, 0 or 1, of a value, or of each of a list. */
static struct fe_val part_of(struct fe_site *s, const struct fe_val *v, int part)
{
    if (fe_is_complex(v)) return v->items[part];
    if (fe_is_none(v)) return *v;
    if (v->kind != FE_VAL_TUPLE) return part ? fe_imag(s, v) : fe_real(s, v);
    struct fe_val *items = arena_new_array(s->fe->arena, struct fe_val, v->count + 1);
    for (uint32_t i = 0; i < v->count; i++) items[i] = part_of(s, &v->items[i], part);
    struct fe_val list = fe_tuple(s, items, v->count);
    if (!list.bad) list.names = v->names, list.list = v->list;
    return list;
}

/* x + i y, of lists item by item. */
static struct fe_val joined(struct fe_site *s, struct fe_val x, struct fe_val y)
{
    if (x.bad || y.bad) return fe_bad();
    bool lists = x.kind == FE_VAL_TUPLE && !fe_is_complex(&x);
    if (!lists) /* either may be complex itself: i y is -imag(y) + i real(y) */
        return fe_is_complex(&y)   ? fe_complex(s, fe_sub(s, fe_real(s, &x), y.items[1]),
                                              fe_is_complex(&x) ? fe_add(s, x.items[1], y.items[0]) : y.items[0])
                 : fe_is_complex(&x) ? fe_complex(s, x.items[0], fe_add(s, x.items[1], y))
                                   : fe_complex(s, x, y);
    struct fe_val *items = arena_new_array(s->fe->arena, struct fe_val, x.count + 1);
    for (uint32_t i = 0; i < x.count; i++) items[i] = joined(s, x.items[i], y.items[i]);
    struct fe_val list = fe_tuple(s, items, x.count);
    if (!list.bad) list.names = x.names, list.list = x.list;
    return list;
}

/* The call with one part of all values. */
static struct fe_val of_parts(struct fe_call *c, const struct rule *r, uint32_t n, int part)
{
    SITE;
    struct fe_call one = *c;
    for (uint32_t i = 0; i < n; i++) {
        if (r->values & ARG_BIT(i)) one.arg[i] = part_of(s, &c->arg[i], part);
        if (part && r->fills & ARG_BIT(i)) one.arg[i] = fe_int(0);
        if (one.arg[i].bad) return fe_bad();
    }
    return fe_call_made(&one, n);
}

/* The call made of calls with the parts of the first value that is complex. */
static struct fe_val of_each(struct fe_call *c, const struct rule *r, uint32_t n)
{
    SITE;
    struct fe_val parts[2], *rest = arena_new_array(s->fe->arena, struct fe_val, c->rest_count + 1);
    uint32_t i = 0, k = 0;
    while (i < n && !(r->values & ARG_BIT(i) && fe_is_complex(&c->arg[i]))) i++;
    while (r->values & REST && k < c->rest_count && !fe_is_complex(&c->rest[k])) k++;
    if (i == n && (!(r->values & REST) || k == c->rest_count)) return fe_call_made(c, n);
    for (int part = 0; part < 2; part++) {
        struct fe_call one = *c;
        for (uint32_t j = 0; j < c->rest_count; j++) rest[j] = c->rest[j];
        if (i < n) one.arg[i] = c->arg[i].items[part];
        else rest[k] = c->rest[k].items[part];
        one.rest = rest;
        parts[part] = of_each(&one, r, n);
    }
    return joined(s, parts[0], parts[1]);
}

/* A dtype, or a word of those that compare. */
static bool is_refused(const struct rule *r, uint32_t i, const struct fe_val *v)
{
    if (r->never & ARG_BIT(i)) return !fe_is_none(v);
    const char *at = r->compares && v->kind == FE_VAL_STRING ? strstr(r->compares, v->string) : NULL;
    return at && *v->string;
}

static const struct rule *rule_of(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].name, name)) return &rules[i];
    return NULL;
}

bool fe_complex_call(struct fe_call *c, uint32_t n, struct fe_val *result)
{
    SITE;
    const struct fe_function *f = c->row;
    bool any = false;
    for (uint32_t i = 0; i < n; i++) any |= holds_complex(&c->arg[i]);
    for (uint32_t i = 0; i < c->rest_count; i++) any |= holds_complex(&c->rest[i]);
    if (!any) return false;
    const struct rule *r = rule_of(f->name);
    if (r) {
        for (uint32_t i = 0; i < n; i++)
            if (is_refused(r, i, &c->arg[i])) {
                fe_fail_at(s, &c->where[i], "E0310", "%s: not of complex values; take abs, real or imag", c->function);
                return *result = fe_bad(), true;
            }
        *result = !r->together ? of_each(c, r, n) : joined(s, of_parts(c, r, n, 0), of_parts(c, r, n, 1));
        return true;
    }
    bool first = n && fe_is_complex(&c->arg[0]);
    if (first && (!strcmp(f->name, "real") || !strcmp(f->name, "imag")))
        return *result = c->arg[0].items[f->name[0] == 'i'], true;
    if (first && (!strcmp(f->name, "shape") || !strcmp(f->name, "ndim") || !strcmp(f->name, "size") ||
                  !strcmp(f->name, "len"))) {
        struct fe_call one = *c;
        one.arg[0] = c->arg[0].items[0];
        return *result = f->make(&one), true;
    }
    const struct fe_function *formula = fe_function_find(fe_library(s->fe),
                                                         arena_format(s->fe->arena, "complex_%s", f->name));
    if (!formula) return false;
    *result = fe_call_function(s, formula, c->arg, NULL, NULL, n);
    return true;
}
