/* GaLore (Zhao et al. 2024): an optimizer that sees its matrices through a projection on their first singular vectors,
 * taken anew every `update_proj_gap` steps, so that its state is small. The formulas are those of optax.contrib; the
 * signs of singular vectors are free. */
#include "frontend/optim/matrices.h"
#include "frontend/optim/svd.h"
#include <string.h>

/* A leaf that is projected: the matrix [rows, columns], its projector [the longer side, rank], the projected type. */
struct projection {
    bool used, left; /* left: low = transposed projector times matrix */
    struct ir_type projector, low;
};

/* x y over one dimension each, of matrices. */
static ir_value product(struct ir_builder *b, ir_value x, ir_value y, int64_t of_x, int64_t of_y)
{
    const struct ir_ints none = {NULL, 0};
    if (ir_type(b->f, x)->dtype != ir_type(b->f, y)->dtype) x = ir_cast(b, x, IR_F32), y = ir_cast(b, y, IR_F32);
    return ir_dot(b, x, y, none, none, (struct ir_ints){&of_x, 1}, (struct ir_ints){&of_y, 1});
}

static struct projection projection_of(const struct optim_matrices *m, const struct ir_type *leaf, int64_t rank)
{
    int64_t rows = m->size[1], columns = m->size[2], least = rows < columns ? rows : columns;
    int64_t r = rank < least ? rank : least, low[2] = {rows, r};
    struct projection p = {.used = m->used && least, .left = rows >= columns}; /* without elements it has no vectors */
    if (p.left) low[0] = r, low[1] = columns;
    int64_t projector[2] = {p.left ? rows : columns, r};
    p.low = p.used ? ir_type_of((enum ir_dtype)leaf->dtype, 2, low) : *leaf;
    p.projector = ir_type_of((enum ir_dtype)leaf->dtype, 2, projector);
    return p;
}

static ir_value matrix_of(struct optim_transform *t, uint32_t i, const struct optim_matrices *m)
{
    return ir_reshape(t->b, optim_as_matrices(t->b, T(t->u[i]), m).v, 2, m->size + 1);
}

/* The projectors of this step, per leaf: new ones in some steps, then kept. */
static void projectors(struct optim_transform *t, const struct optim_matrices *m, const struct projection *p,
                       struct fe_term count, ir_value *out)
{
    static const int64_t swap[] = {1, 0};
    struct ir_builder *b = t->b;
    struct fe_term gap = term_integer(arg(t, "update_proj_gap")->integer),
                   when = term_eq(b, term_rem(b, count, gap), term_integer(0));
    ir_value *matrix = optim_new_tree(t), *old = optim_new_tree(t), *new = optim_new_tree(t);
    uint32_t n = 0, from;
    EACH_LEAF(t, i)
        if (p[i].used) {
            old[n++] = optim_leaf(t, "projector", i, p[i].projector, zero).v;
            matrix[i] = matrix_of(t, i, &m[i]);
        }
    from = b->f->count;
    n = 0;
    EACH_LEAF(t, i)
        if (p[i].used) {
            ir_value x = p[i].left ? ir_transpose(b, matrix[i], swap) : matrix[i];
            ir_value vectors = optim_singular_vectors(t, x, p[i].projector.dim[1]);
            new[n++] = ir_cast(b, ir_transpose(b, vectors, swap), (enum ir_dtype)p[i].projector.dtype);
        }
    if (!n) return;
    optim_branch(t, from, when, new, old, n);
    n = 0;
    EACH_LEAF(t, i)
        if (p[i].used) {
            out[i] = new[n++];
            optim_leaf_set(t, "projector", i, T(out[i]));
        }
}

static struct ir_func *no_loss(struct fe_optim_state *o, const ir_value **captured, uint32_t *count)
{
    *captured = NULL, *count = 0;
    fe_error(o->fe, fe_member(o->fe, fe_root(o->fe), "optimizer"), "E0450",
             "an optimizer inside \"galore\" sees projected gradients alone: it cannot take the loss again");
    return NULL;
}

/* Whether a node made since `from` reads one of the values. */
static bool is_read(const struct ir_func *f, uint32_t from, const ir_value *values, uint32_t count)
{
    for (ir_value v = from; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        for (uint32_t i = 0; i < n->arg_count; i++)
            for (uint32_t k = 0; k < count; k++)
                if (values[k] && n->args[i] == values[k]) return true;
    }
    return false;
}

/* Runs the base optimizer on the projected tree. It is given no parameters, as in Optax: what stands in their place
 * must not be read. */
static void run_base(struct optim_transform *t, const struct projection *p, ir_value *low)
{
    struct fe_optim_state *o = t->o, outer = *o;
    struct fe_param *params = arena_new_array(t->fe->arena, struct fe_param, o->count + 1);
    ir_value *none = optim_new_tree(t), *watched = optim_new_tree(t);
    fe_json base = arg(t, "base_optimizer")->json;
    const char *path = optim_path(t, "base_optimizer_state");
    memcpy(params, o->params, o->count * sizeof *params);
    EACH_LEAF(t, i) {
        params[i].type = p[i].low;
        none[i] = ir_unary(t->b, OP_stop_gradient, low[i]);
        watched[i] = none[i] == low[i] ? 0 : none[i];
    }
    uint32_t from = t->b->f->count;
    size_t errors = t->fe->diags->errors;
    o->params = params, o->grads = low, o->trained = o->before = none, o->value_and_grad = no_loss;
    if (base && base->kind == JSON_OBJECT) {
        optim_apply(o, base, path, low, none);
    } else {
        struct optim_transform inner = *t;
        inner.path = path, inner.u = low, inner.p = none;
        optim_chain(&inner, "scale_by_adam", OPTIM_HERE);
    }
    o->params = outer.params, o->grads = outer.grads, o->trained = outer.trained;
    o->before = outer.before, o->value_and_grad = outer.value_and_grad;
    if (t->fe->diags->errors == errors && is_read(t->b->f, from, watched, t->count))
        fe_error(t->fe, base ? base : t->json, "E0450",
                 "an optimizer inside \"galore\" sees projected gradients alone, and this one needs the parameters");
}

void transform_scale_by_galore(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct optim_matrices *m = arena_new_array(t->fe->arena, struct optim_matrices, t->count + 1);
    struct projection *p = arena_new_array(t->fe->arena, struct projection, t->count + 1);
    ir_value *projector = optim_new_tree(t), *low = optim_new_tree(t);
    struct fe_term count = counter(t, "count");
    if (!optim_read_matrices(t, "weight_dimension_numbers", m)) return;
    EACH_LEAF(t, i) {
        p[i] = projection_of(&m[i], &t->o->params[i].type, arg(t, "rank")->integer);
        if (!m[i].used || m[i].size[0] == 1) continue;
        fe_error(t->fe, arg(t, "weight_dimension_numbers")->json, "E0202",
                 "\"reduction_axis\" and \"output_axis\" must name all axes of parameter \"%s\" of shape %s",
                 t->o->params[i].path, ir_type_text(t->fe->arena, &t->o->params[i].type));
        return;
    }
    projectors(t, m, p, count, projector);
    EACH_LEAF(t, i) {
        low[i] = t->u[i];
        if (p[i].used && p[i].left) low[i] = product(b, projector[i], matrix_of(t, i, &m[i]), 0, 0);
        else if (p[i].used) low[i] = product(b, matrix_of(t, i, &m[i]), projector[i], 1, 0);
    }
    run_base(t, p, low);
    EACH_LEAF(t, i) {
        t->u[i] = low[i];
        if (!p[i].used) continue;
        ir_value back = p[i].left ? product(b, projector[i], low[i], 1, 0) : product(b, low[i], projector[i], 1, 1);
        const struct ir_type *type = &t->o->params[i].type;
        struct fe_term u = optim_as_leaf(b, T(back), &m[i], type);
        t->u[i] = ir_cast(b, term_mul(b, number(t, "scale"), u).v, (enum ir_dtype)type->dtype);
    }
    optim_state_set(t, "count", optim_increment(b, count));
}
