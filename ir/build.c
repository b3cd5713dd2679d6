/* The builder: the only way to make a node. It infers the type, folds, returns an equal pure node if there is one,
 * and only then appends. Below ir_make are the calls by op; each passes a 0 operand on. */
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

static ir_value reject(struct ir_builder *b, const char *message)
{
    if (!b->reject) BUG("%s", message);
    b->reject(b->user, message);
    return 0;
}

/* ---------------------------------------------------------------- one form for equal nodes */

/* Lists of dimensions that mean a set are kept in ascending order. `sorted` has room for IR_MAX_RANK numbers. */
static void sort_dims(struct ir_node *node, int64_t *sorted)
{
    bool is_set = node->op == OP_reverse || ir_ops[node->op].emit == EMIT_reduce;
    struct ir_ints dims = node->attr[0];
    if (!is_set || dims.n < 2 || dims.n > IR_MAX_RANK) return;
    for (uint32_t i = 0; i < dims.n; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > dims.v[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = dims.v[i];
    }
    node->attr[0].v = sorted;
}

/* A dense constant of equal elements is a splat; so is an empty one, that there is always data to look at. */
static void find_splat(struct ir_node *node)
{
    static const uint64_t zero = 0;
    if (node->op != OP_constant || node->splat) return;
    size_t size = ir_dtype_bytes((enum ir_dtype)node->type.dtype);
    int64_t count = ir_type_elements(&node->type);
    const char *data = node->data;
    if (count <= 0) {
        node->data = &zero;
        node->splat = count == 0;
        return;
    }
    for (int64_t i = 1; i < count; i++)
        if (memcmp(data, data + (size_t)i * size, size) != 0) return;
    node->splat = true;
}

static size_t data_bytes(const struct ir_node *node)
{
    if (node->op != OP_constant || !node->data) return 0;
    size_t size = ir_dtype_bytes((enum ir_dtype)node->type.dtype);
    return node->splat ? size : size * (size_t)ir_type_elements(&node->type);
}

static bool swaps(const struct ir_node *node)
{ /* x op y is y op x: the order of such operands does not tell nodes apart */
    return (ir_ops[node->op].flags & IR_COMMUTATIVE) && node->args[0] > node->args[1];
}

static uint64_t hash_node(const struct ir_node *node)
{
    uint64_t h = hash_u64(node->op, node->arg_count);
    for (uint32_t i = 0; i < node->arg_count; i++) h = hash_u64(h, node->args[swaps(node) ? 1 - i : i]);
    h = ir_hash_type(h, &node->type);
    for (uint32_t i = 0; i < ir_ops[node->op].attr_count; i++) {
        h = hash_u64(h, node->attr[i].n);
        for (uint32_t k = 0; k < node->attr[i].n; k++) h = hash_u64(h, (uint64_t)node->attr[i].v[k]);
    }
    if (node->op == OP_constant) h = hash_bytes(hash_u64(h, node->splat), node->data, data_bytes(node));
    for (uint32_t i = 0; i < node->type.rank; i++) h = hash_u64(h, node->sharding.dim[i]);
    return hash_u64(h, node->sharding.partial);
}

bool ir_same_attributes(const struct ir_node *a, const struct ir_node *b)
{
    bool same = a->op == b->op;
    for (uint32_t i = 0; same && i < ir_ops[a->op].attr_count; i++) {
        size_t n = a->attr[i].n;
        same = n == b->attr[i].n && (!n || !memcmp(a->attr[i].v, b->attr[i].v, n * sizeof *a->attr[i].v));
    }
    return same;
}

static bool same_node(const struct ir_node *a, const struct ir_node *b)
{
    if (a->arg_count != b->arg_count || !ir_type_equal(&a->type, &b->type) || !ir_same_attributes(a, b)) return false;
    for (uint32_t i = 0; i < a->arg_count; i++)
        if (a->args[swaps(a) ? 1 - i : i] != b->args[swaps(b) ? 1 - i : i]) return false;
    if (a->op == OP_constant && (a->splat != b->splat || memcmp(a->data, b->data, data_bytes(a)) != 0)) return false;
    return memcmp(&a->sharding, &b->sharding, sizeof a->sharding) == 0;
}

/* ---------------------------------------------------------------- the general maker */

static ir_value append(struct ir_func *f, struct ir_node node)
{
    struct arena *arena = &f->module->arena;
    if (node.arg_count) node.args = arena_copy(arena, node.args, node.arg_count * sizeof *node.args);
    for (uint32_t i = 0; i < IR_MAX_ATTR; i++) {
        if (i >= ir_ops[node.op].attr_count) node.attr[i] = (struct ir_ints){NULL, 0};
        if (node.attr[i].n) node.attr[i].v = arena_copy(arena, node.attr[i].v, node.attr[i].n * sizeof *node.attr[i].v);
        else node.attr[i].v = NULL;
    }
    node.data = node.op == OP_constant ? arena_copy(arena, node.data, data_bytes(&node)) : NULL;
    struct ir_budget *budget = f->module->budget;
    if (budget && !budget->left--) budget->over(budget, node.place);
    if (f->count == UINT32_MAX) BUG("function %s has too many values", f->name);
    size_t capacity = f->capacity;
    f->nodes = arena_grow(arena, f->nodes, f->count, &capacity, sizeof *f->nodes);
    f->capacity = (uint32_t)capacity;
    f->nodes[f->count] = node;
    return f->count++;
}

/* What folding finds stands for the node only if it lies on the mesh as the node would. */
static ir_value fold(struct ir_builder *b, const struct ir_node *node)
{
    uint32_t place = b->place;
    b->place = node->place;
    ir_value value = ir_fold(b, node);
    b->place = place;
    if (!value) return 0;
    const struct ir_node *found = ir_get(b->f, value);
    if (!ir_type_equal(&found->type, &node->type))
        BUG("%s folded to %s of another type", ir_ops[node->op].name, ir_ops[found->op].name);
    return memcmp(&found->sharding, &node->sharding, sizeof node->sharding) == 0 ? value : 0;
}

ir_value ir_make(struct ir_builder *b, struct ir_node node)
{
    struct ir_func *f = b->f;
    int64_t sorted[IR_MAX_RANK];
    const char *message;
    for (uint32_t i = 0; i < node.arg_count; i++)
        if (!node.args[i]) return 0;
    sort_dims(&node, sorted);
    if (!ir_infer(f, &node, &f->module->arena, &message)) return reject(b, message);
    find_splat(&node);
    if (!node.place) node.place = b->place;
    ir_value folded = fold(b, &node);
    if (folded) return folded;
    if (!(ir_ops[node.op].flags & IR_PURE)) return append(f, node);
    uint64_t hash = hash_node(&node);
    uint32_t known = map_get_number(&f->shared, hash);
    bool again = f->module->copies && known < f->turn; /* what was before the turn is made again behind it */
    if (known != MAP_NONE && !again && same_node(&f->nodes[known], &node)) return known;
    ir_value value = append(f, node);
    map_set_number(&f->shared, hash, value);
    return value;
}

ir_value ir_remake(struct ir_builder *b, const struct ir_node *old, const ir_value *args)
{
    struct ir_node node = *old;
    if (node.op == OP_param) BUG("a parameter is made by ir_param_new, not remade");
    node.args = args;
    return ir_make(b, node);
}

ir_value ir_append_raw(struct ir_func *f, const struct ir_node *node) { return append(f, *node); }

/* ---------------------------------------------------------------- one row per maker */

/* The type that a caller asks for; a rank over the limit is kept for inference to refuse. */
static struct ir_type asked_shape(uint32_t rank, const int64_t *shape)
{
    struct ir_type type = {.rank = (uint8_t)(rank <= IR_MAX_RANK ? rank : IR_MAX_RANK + 1)};
    for (uint32_t i = 0; i < rank && i < IR_MAX_RANK; i++) type.dim[i] = shape[i];
    return type;
}

static uint32_t rank_of(const struct ir_builder *b, ir_value x) { return x ? ir_type(b->f, x)->rank : 0; }

struct operands {
    const ir_value *v;
    uint32_t n;
};

/* Lists of operands as one; `count` of them in all. */
static ir_value *joined(struct ir_builder *b, uint32_t count, const struct operands *lists, size_t n)
{
    ir_value *all = arena_new_array(&b->f->module->arena, ir_value, (size_t)count + 1), *to = all;
    for (size_t i = 0; i < n; to += lists[i++].n)
        if (lists[i].n) memcpy(to, lists[i].v, lists[i].n * sizeof *all);
    return all;
}

/* clang-format off */
#define COUNT(T, ...) (sizeof((T[]){__VA_ARGS__}) / sizeof(T))
#define OPERANDS(...) .arg_count = COUNT(ir_value, __VA_ARGS__), .args = (ir_value[]){__VA_ARGS__}
#define LIST(values, n) .arg_count = n, .args = values
#define LISTS(n, ...) .arg_count = n, .args = joined(b, n, (struct operands[]){__VA_ARGS__}, COUNT(struct operands, __VA_ARGS__))
#define NUMBER(n) {(int64_t[]){n}, 1}
#define PER_DIM(list) {list, rank_of(b, x)}
/* clang-format on */
#define X(name, parameters, ...) \
    ir_value ir_##name IR_MAKER_OF parameters { return ir_make(b, (struct ir_node){__VA_ARGS__}); }
#include "ir/build.def"
#undef X

/* ---------------------------------------------------------------- parameters, results, leaves */

ir_value ir_param_new(struct ir_builder *b, const char *name, struct ir_type type, int32_t slot)
{
    struct ir_func *f = b->f;
    struct arena *arena = &f->module->arena;
    int64_t index = (int64_t)f->params.count;
    vec_push(arena, &f->params, ((struct ir_param){arena_string(arena, name), type, slot, 0}));
    ir_value value = ir_make(b, (struct ir_node){.op = OP_param, .attr = {{&index, 1}}});
    if (value) f->params.items[index].value = value;
    else f->params.count--;
    return value;
}

void ir_result_add(struct ir_builder *b, const char *name, ir_value value, int32_t slot)
{
    struct arena *arena = &b->f->module->arena;
    if (!value) return; /* rejected before */
    (void)ir_get(b->f, value);
    vec_push(arena, &b->f->results, ((struct ir_result){arena_string(arena, name), value, slot}));
}

ir_value ir_number(struct ir_builder *b, struct ir_type type, double number)
{
    uint64_t element = 0;
    ASSERT(type.dtype != IR_TUPLE);
    ir_element_set((enum ir_dtype)type.dtype, &element, 0, number);
    return ir_make(b, (struct ir_node){.op = OP_constant, .type = type, .data = &element, .splat = true});
}

ir_value ir_scalar(struct ir_builder *b, enum ir_dtype dtype, double number)
{
    return ir_number(b, ir_type_scalar(dtype), number);
}

ir_value ir_number_like(struct ir_builder *b, ir_value like, double number)
{
    return like ? ir_number(b, *ir_type(b->f, like), number) : 0;
}

static ir_value convert(struct ir_builder *b, enum ir_op op, ir_value x, enum ir_dtype dtype)
{
    if (!x || ir_type(b->f, x)->dtype == dtype) return x;
    return ir_make(b,
                   (struct ir_node){.op = (uint16_t)op, .arg_count = 1, .args = &x, .type = {.dtype = (uint8_t)dtype}});
}

ir_value ir_cast(struct ir_builder *b, ir_value x, enum ir_dtype dtype) { return convert(b, OP_cast, x, dtype); }
ir_value ir_bitcast(struct ir_builder *b, ir_value x, enum ir_dtype dtype) { return convert(b, OP_bitcast, x, dtype); }

ir_value ir_broadcast_to(struct ir_builder *b, ir_value x, uint32_t rank, const int64_t *shape)
{
    int64_t dims[IR_MAX_RANK];
    uint32_t from = rank_of(b, x);
    for (uint32_t i = 0; i < from; i++) dims[i] = (int64_t)rank - from + i;
    return ir_broadcast(b, x, rank, shape, dims);
}

ir_value ir_reduce(struct ir_builder *b, enum ir_op op, ir_value x, const int64_t *dims, uint32_t n)
{
    enum ir_dtype dtype = x ? (enum ir_dtype)ir_type(b->f, x)->dtype : IR_F32;
    bool sum = op == OP_reduce_sum || op == OP_reduce_prod, narrow = dtype == IR_BF16 || dtype == IR_F16;
    if (!sum || !narrow) return ir_reduce_plain(b, op, x, dims, n);
    return ir_cast(b, ir_reduce_plain(b, op, ir_cast(b, x, IR_F32), dims, n), dtype);
}
