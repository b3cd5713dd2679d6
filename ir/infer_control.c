/* Inference of control: calls, loops, gradients, accumulation, and the tuples that they give. The types of a tuple are
 * not stored; they follow from the bodies and operands. */
#include "ir/infer.h"

static bool tuple(struct infer *c)
{
    c->node->type = (struct ir_type){.dtype = IR_TUPLE};
    return true;
}

static const struct ir_func *body_of(const struct ir_func *f, const struct ir_node *node)
{
    return f->module && node->func < f->module->funcs.count ? f->module->funcs.items[node->func] : NULL;
}

static const struct ir_type *result_type(const struct ir_func *body, size_t i)
{
    ir_value value = body->results.items[i].value;
    return value < body->count ? &body->nodes[value].type : &body->nodes[0].type;
}

/* The operands from `first` on and the body's parameters from `from` on have the same types. */
static bool arguments_fit(struct infer *c, const struct ir_func *body, uint32_t first, uint32_t from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct ir_param *p = &body->params.items[from + i];
        if (!ir_type_equal(infer_arg(c, first + i), &p->type))
            return infer_fail(c, "expected %s for parameter %u (%s) of %s, found %s", infer_text(c, &p->type), from + i,
                              p->name ? p->name : "", body->name, infer_arg_text(c, first + i));
    }
    return true;
}

static bool body_takes(struct infer *c, const struct ir_func **body, uint64_t params)
{
    *body = body_of(c->f, c->node);
    if (!*body) return infer_fail(c, "there is no function number %u", c->node->func);
    if (*body == c->f) return infer_fail(c, "function %s may not call itself", c->f->name);
    if ((*body)->params.count == params) return true;
    return infer_fail(c, "expected %zu operands for the parameters of %s, found %llu", (*body)->params.count,
                      (*body)->name, (unsigned long long)params);
}

static bool like_carried(struct infer *c, const struct ir_func *body, uint32_t result, uint32_t operand)
{
    if (ir_type_equal(result_type(body, result), infer_arg(c, operand))) return true;
    return infer_fail(c, "expected result %u of %s to be like the carried value, %s, found %s", result, body->name,
                      infer_arg_text(c, operand), infer_text(c, result_type(body, result)));
}

bool infer_call(struct infer *c)
{
    const struct ir_func *body;
    return body_takes(c, &body, c->node->arg_count) && arguments_fit(c, body, 0, 0, c->node->arg_count) && tuple(c);
}

bool infer_loop(struct infer *c)
{
    const struct ir_func *body;
    uint32_t args = c->node->arg_count;
    int64_t carried, flag;
    if (args < 1 || !infer_is_index(infer_arg(c, 0)))
        return infer_fail(c, "expected a limit of type int32[], found %s", args ? infer_arg_text(c, 0) : "nothing");
    if (!infer_attr_number(c, 0, 0, args, &carried) || !infer_attr_number(c, 1, 0, 2, &flag)) return false;
    if (!body_takes(c, &body, args)) return false;
    if (!infer_is_index(&body->params.items[0].type))
        return infer_fail(c, "expected parameter 0 of %s, the counter, to be int32[], found %s", body->name,
                          infer_text(c, &body->params.items[0].type));
    if (!arguments_fit(c, body, 1, 1, args - 1)) return false;
    if (body->results.count != (uint64_t)carried)
        return infer_fail(c, "expected %lld results of %s, one per carried value, found %zu", (long long)carried,
                          body->name, body->results.count);
    for (uint32_t i = 0; i < carried; i++)
        if (!like_carried(c, body, i, 1 + i)) return false;
    if (flag && (carried == 0 || infer_arg(c, 1)->dtype != IR_BOOL || infer_arg(c, 1)->rank))
        return infer_fail(c, "expected the first carried value, the condition, to be bool[], found %s",
                          carried ? infer_arg_text(c, 1) : "nothing");
    return tuple(c);
}

bool infer_grad(struct infer *c)
{
    if (c->node->arg_count < 1 || !ir_dtype_is_float((enum ir_dtype)infer_arg(c, 0)->dtype) || infer_arg(c, 0)->rank)
        return infer_fail(c, "expected a float scalar to differentiate, found %s",
                          c->node->arg_count ? infer_arg_text(c, 0) : "nothing");
    for (uint32_t i = 1; i < c->node->arg_count; i++)
        if (!ir_dtype_is_float((enum ir_dtype)infer_arg(c, i)->dtype))
            return infer_fail(c, "expected floats to differentiate by, found %s", infer_arg_text(c, i));
    return tuple(c);
}

enum { KIND_SUM, KIND_MEAN, KIND_RUNNING_MEAN, KIND_CONCATENATE, KIND_CARRY, KIND_COUNT };

/* One result of an accumulation from the result of its body. */
static bool accumulated_type(int64_t kind, int64_t microbatches, struct ir_type *type)
{
    if (kind != KIND_CONCATENATE) return true;
    return type->rank > 0 && ir_size_multiply(type->dim[0], microbatches, &type->dim[0]) && ir_type_elements(type) >= 0;
}

/* A whole batch is `microbatches` parts along dimension 0. */
static bool is_part(const struct ir_type *whole, const struct ir_type *part, int64_t microbatches)
{
    struct ir_type type = *part;
    return type.rank > 0 && ir_size_multiply(type.dim[0], microbatches, &type.dim[0]) && ir_type_equal(&type, whole);
}

static bool accumulate_results(struct infer *c, const struct ir_func *body, int64_t microbatches)
{
    struct ir_ints kinds = c->node->attr[3];
    if (kinds.n != body->results.count)
        return infer_fail(c, "expected %zu kinds, one per result of %s, found %s", body->results.count, body->name,
                          infer_ints_text(c, kinds));
    for (uint32_t i = 0; i < kinds.n; i++) {
        struct ir_type type = *result_type(body, i);
        if (kinds.v[i] < 0 || kinds.v[i] >= KIND_COUNT)
            return infer_fail(c, "there is no kind %lld", (long long)kinds.v[i]);
        if (type.dtype == IR_TUPLE || (kinds.v[i] < KIND_CONCATENATE && type.dtype == IR_BOOL))
            return infer_fail(c, "cannot accumulate result %u of %s, found %s", i, body->name, infer_text(c, &type));
        if (!accumulated_type(kinds.v[i], microbatches, &type))
            return infer_fail(c, "cannot concatenate %lld times result %u of %s, found %s", (long long)microbatches, i,
                              body->name, infer_text(c, result_type(body, i)));
    }
    return true;
}

/* The last operands are the first values of what is carried from one microbatch to the next. */
static bool carried_fit(struct infer *c, const struct ir_func *body, uint32_t captured)
{
    struct ir_ints kinds = c->node->attr[3];
    uint32_t carried = 0, operand;
    for (uint32_t i = 0; i < kinds.n; i++) carried += kinds.v[i] == KIND_CARRY;
    if (carried > captured)
        return infer_fail(c, "expected %u captured operands at least, one per carried result of %s, found %u", carried,
                          body->name, captured);
    operand = c->node->arg_count - carried;
    for (uint32_t i = 0; i < kinds.n; i++)
        if (kinds.v[i] == KIND_CARRY && !like_carried(c, body, i, operand++)) return false;
    return true;
}

bool infer_accumulate(struct infer *c)
{
    const struct ir_func *body;
    uint32_t args = c->node->arg_count;
    int64_t batched, microbatches, split;
    if (args < 1 || !infer_is_index(infer_arg(c, 0)))
        return infer_fail(c, "expected a number of microbatches of type int32[], found %s",
                          args ? infer_arg_text(c, 0) : "nothing");
    if (!infer_attr_number(c, 0, 0, args, &batched) || !infer_attr_number(c, 1, 1, INT32_MAX, &microbatches))
        return false;
    if (!infer_attr_number(c, 2, 0, 2, &split) || !body_takes(c, &body, args - 1)) return false;
    for (uint32_t i = 0; i < batched; i++)
        if (!is_part(infer_arg(c, 1 + i), &body->params.items[i].type, microbatches))
            return infer_fail(c, "expected a batch of %lld times %s for parameter %u of %s, found %s",
                              (long long)microbatches, infer_text(c, &body->params.items[i].type), i, body->name,
                              infer_arg_text(c, 1 + i));
    uint32_t captured = args - 1 - (uint32_t)batched;
    return arguments_fit(c, body, 1 + (uint32_t)batched, (uint32_t)batched, captured) &&
           accumulate_results(c, body, microbatches) && carried_fit(c, body, captured) && tuple(c);
}

/* `type` with the extent `rows` in front. */
static struct ir_type mapped_type(int64_t rows, const struct ir_type *type)
{
    struct ir_type to = {.dtype = type->dtype, .rank = (uint8_t)(type->rank + 1), .dim[0] = rows};
    for (uint32_t i = 0; i < type->rank; i++) to.dim[i + 1] = type->dim[i];
    return to;
}

/* `all`: what stands in rows, or is made row by row, of `one`. */
static bool is_rows(const struct ir_type *one, int64_t rows, struct ir_type *all)
{
    if (one->rank >= IR_MAX_RANK) return false;
    *all = mapped_type(rows, one);
    return one->dtype != IR_TUPLE && ir_type_elements(all) >= 0;
}

/* Operands from `first` to `end` stand in rows, of which the body takes one. */
static bool rows_fit(struct infer *c, const struct ir_func *body, uint32_t first, uint32_t end, int64_t rows)
{
    for (uint32_t i = first; i < end; i++) {
        const struct ir_type *one = &body->params.items[i].type;
        struct ir_type all;
        if (!is_rows(one, rows, &all) || !ir_type_equal(infer_arg(c, i), &all))
            return infer_fail(c, "expected %lld rows of %s for parameter %u of %s, found %s", (long long)rows,
                              infer_text(c, one), i, body->name, infer_arg_text(c, i));
    }
    return true;
}

static bool made_in_rows(struct infer *c, const struct ir_func *body, uint32_t first, int64_t rows)
{
    for (uint32_t i = first; i < body->results.count; i++) {
        struct ir_type all;
        if (!is_rows(result_type(body, i), rows, &all))
            return infer_fail(c, "cannot have %lld rows of result %u of %s, %s", (long long)rows, i, body->name,
                              infer_text(c, result_type(body, i)));
    }
    return true;
}

bool infer_scan(struct infer *c)
{
    const struct ir_func *body;
    uint32_t args = c->node->arg_count;
    int64_t carried, stacked, times, reverse;
    if (!infer_attr_number(c, 0, 0, (int64_t)args + 1, &carried)) return false;
    if (!infer_attr_number(c, 1, 0, (int64_t)args + 1 - carried, &stacked)) return false;
    if (!infer_attr_number(c, 2, 0, INT32_MAX, &times) || !infer_attr_number(c, 3, 0, 2, &reverse)) return false;
    if (!body_takes(c, &body, args)) return false;
    uint32_t captured = (uint32_t)(carried + stacked);
    if (!arguments_fit(c, body, 0, 0, (uint32_t)carried)) return false;
    if (!rows_fit(c, body, (uint32_t)carried, captured, times)) return false;
    if (!arguments_fit(c, body, captured, captured, args - captured)) return false;
    if (body->results.count < (uint64_t)carried)
        return infer_fail(c, "expected %lld results of %s at least, one per carried value, found %zu",
                          (long long)carried, body->name, body->results.count);
    for (uint32_t i = 0; i < carried; i++)
        if (!like_carried(c, body, i, i)) return false;
    return made_in_rows(c, body, (uint32_t)carried, times) && tuple(c);
}

bool infer_vmap(struct infer *c)
{
    const struct ir_func *body;
    uint32_t args = c->node->arg_count;
    int64_t batched, rows;
    if (args < 1 || !infer_arg(c, 0)->rank)
        return infer_fail(c, "expected rows, found %s", args ? infer_arg_text(c, 0) : "nothing");
    if (!infer_attr_number(c, 0, 1, (int64_t)args + 1, &batched) || !body_takes(c, &body, args)) return false;
    rows = infer_arg(c, 0)->dim[0];
    return rows_fit(c, body, 0, (uint32_t)batched, rows) && made_in_rows(c, body, 0, rows) &&
           arguments_fit(c, body, (uint32_t)batched, (uint32_t)batched, args - (uint32_t)batched) && tuple(c);
}

uint32_t ir_tuple_count(const struct ir_func *f, ir_value value)
{
    const struct ir_node *node = ir_get(f, value);
    if (node->op != OP_grad && !ir_has_body((enum ir_op)node->op)) return 0;
    if (node->op == OP_grad) return node->arg_count ? node->arg_count - 1 : 0;
    const struct ir_func *body = body_of(f, node);
    return body ? (uint32_t)body->results.count : 0;
}

static struct ir_type ir_tuple_type(const struct ir_func *f, ir_value value, uint32_t index)
{
    ASSERT(index < ir_tuple_count(f, value));
    const struct ir_node *node = ir_get(f, value);
    if (node->op == OP_grad) /* no operand list, or a value that does not exist: a malformed module is being verified */
        return f->nodes[node->args && node->args[1 + index] < f->count ? node->args[1 + index] : 0].type;
    struct ir_type type = *result_type(body_of(f, node), index);
    if (node->op == OP_accumulate && index < node->attr[3].n && node->attr[3].v && node->attr[1].n == 1 &&
        node->attr[1].v)
        accumulated_type(node->attr[3].v[index], node->attr[1].v[0], &type);
    if (node->op == OP_scan && node->attr[0].n == 1 && node->attr[0].v && index >= node->attr[0].v[0] &&
        node->attr[2].n == 1 && node->attr[2].v && type.rank < IR_MAX_RANK)
        return mapped_type(node->attr[2].v[0], &type);
    if (node->op == OP_vmap && node->args && node->args[0] < f->count && type.rank < IR_MAX_RANK)
        return mapped_type(f->nodes[node->args[0]].type.dim[0], &type);
    return type;
}

bool infer_proj(struct infer *c)
{
    int64_t index;
    uint32_t count = ir_tuple_count(c->f, c->node->args[0]);
    if (!infer_attr_length(c, 0, 1)) return false;
    index = c->node->attr[0].v[0];
    if (index < 0 || index >= count)
        return infer_fail(c, "expected an index into %u results, found %lld", count, (long long)index);
    struct ir_type type = ir_tuple_type(c->f, c->node->args[0], (uint32_t)index);
    return infer_sane(c, &type) && infer_result(c, type);
}
