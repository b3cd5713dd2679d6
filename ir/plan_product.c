/* Products as a library sees them: matrices whose rows lie at one distance, and which row of kernels/kernels.def makes
 * them. */
#include "ir/plan.h"

/* Dimensions of one kind, batch, free or contracted, as one run of so many elements at one distance. */
struct run {
    uint32_t count; /* runs that they are */
    int64_t extent, stride;
};
struct operand {
    struct run batch, free, contracted;
};

static void add(struct run *r, int64_t extent, int64_t stride)
{
    if (extent == 1) return;
    bool more = r->count && r->stride == extent * stride;
    r->count += !more;
    r->extent = more ? r->extent * extent : extent;
    r->stride = stride;
}

static struct operand look_at(const struct ir_type *type, struct ir_ints batch, struct ir_ints contract)
{
    struct operand o = {.batch = {0, 1, 0}, .free = {0, 1, 0}, .contracted = {0, 1, 0}};
    int64_t stride[IR_MAX_RANK], next = 1;
    bool used[IR_MAX_RANK] = {false};
    for (uint32_t i = type->rank; i-- > 0; next *= type->dim[i]) stride[i] = next;
    for (uint32_t i = 0; i < batch.n; i++) {
        add(&o.batch, type->dim[batch.v[i]], stride[batch.v[i]]);
        used[batch.v[i]] = true;
    }
    for (uint32_t i = 0; i < contract.n; i++) {
        add(&o.contracted, type->dim[contract.v[i]], stride[contract.v[i]]);
        used[contract.v[i]] = true;
    }
    for (uint32_t i = 0; i < type->rank; i++)
        if (!used[i]) add(&o.free, type->dim[i], stride[i]);
    return o;
}

/* Rows lie at one distance, and so do the matrices; their elements side by side. */
static bool is_matrix(const struct operand *o)
{
    return o->batch.count <= 1 && o->free.count == 1 && o->contracted.count == 1 &&
           (o->free.stride == 1 || o->contracted.stride == 1);
}

bool plan_product_of(const struct ir_func *f, ir_value v, struct plan_product *p)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op != OP_dot || n->attr[4].n || n->attr[5].n || n->attr[6].n) return false; /* in an order, or packed */
    enum ir_dtype dtype = (enum ir_dtype)n->type.dtype;
    const struct ir_type *x = ir_type(f, n->args[0]), *y = ir_type(f, n->args[1]);
    if ((dtype != IR_F32 && dtype != IR_BF16 && dtype != IR_F16) || x->dtype != dtype || y->dtype != dtype)
        return false;
    const struct operand a = look_at(x, n->attr[0], n->attr[2]), b = look_at(y, n->attr[1], n->attr[3]);
    if (!is_matrix(&a) || !is_matrix(&b)) return false;
    *p = (struct plan_product){.m = a.free.extent,
                               .n = b.free.extent,
                               .k = a.contracted.extent,
                               .batch = a.batch.extent,
                               .trans_a = a.contracted.stride != 1,
                               .trans_b = b.free.stride != 1,
                               .stride_a = a.batch.stride,
                               .stride_b = b.batch.stride,
                               .bits = 8 * (uint32_t)ir_dtype_bytes(dtype)};
    p->lda = p->trans_a ? a.contracted.stride : a.free.stride;
    p->ldb = p->trans_b ? b.free.stride : b.contracted.stride;
    return true;
}

int plan_product_row(const struct plan_product *p, bool gpu, int asked)
{
    enum { CPU = 1, GPU = 2, ANY = CPU | GPU };
    int64_t m = p->m, n = p->n, k = p->k, batch = p->batch;
    bool trans_a = p->trans_a, trans_b = p->trans_b;
    uint32_t bits = p->bits;
    int best = PLAN_PRODUCT_OWN, mine = gpu ? GPU : CPU;
    (void)m, (void)n, (void)k, (void)batch, (void)trans_a, (void)trans_b, (void)bits;
#define X(name, number, device, rule, doc) \
    if ((device)&mine) best = asked == number || (!asked && (rule)) ? number : best;
#include "kernels/kernels.def"
#undef X
    return best;
}
