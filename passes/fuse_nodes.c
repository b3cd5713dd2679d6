/* What each node is to fusion: its class, whether it must be stored, and whether it is computed once or wherever it is
 * needed. Inlining is for views and for arithmetic that costs less than storing and loading: at most one full-size
 * operand and a few operations. Expensive operations are inlined only if that computes each element once. */
#include "passes/fuse.h"
#include <string.h>

static uint8_t class_of(const struct ir_node *node)
{
    switch ((enum ir_emit)ir_ops[node->op].emit) {
    case EMIT_ewise: return FUSE_EWISE;
    case EMIT_view: return FUSE_VIEW;
    case EMIT_index: return FUSE_INDEX;
    case EMIT_reduce: return FUSE_REDUCE;
    case EMIT_dot: return FUSE_DOT;
    case EMIT_scatter: return FUSE_SCATTER;
    case EMIT_lines: return FUSE_LINES;
    case EMIT_control:
    case EMIT_comm: return FUSE_CONTROL;
    default: return FUSE_LEAF;
    }
}

/* A division counts as three operations; an elementary function is more than any operations that are done again. */
static double cost_of(const struct ir_node *node)
{
    uint32_t cost = ir_ops[node->op].cost;
    return cost >= 12 ? 100 : cost >= 4 ? 3 : 1;
}

/* ---------------------------------------------------------------- segmentations */

static uint32_t intern_segments(struct fuse *z, const int64_t *extent, const bool *reduced, uint32_t rank)
{
    struct fuse_segments s;
    memset(&s, 0, sizeof s);
    s.full = s.rows = 1;
    bool any = false;
    for (uint32_t i = 0; i < rank; i++) {
        s.full *= extent[i];
        s.rows *= reduced[i] ? 1 : extent[i];
        if (extent[i] == 1) continue;
        any |= reduced[i];
        if (s.n && s.reduced[s.n - 1] == reduced[i]) {
            s.extent[s.n - 1] *= extent[i];
        } else {
            s.extent[s.n] = extent[i];
            s.reduced[s.n++] = reduced[i];
        }
    }
    if (!any && s.n < IR_MAX_RANK) { /* nothing is reduced: rows of one column */
        s.extent[s.n] = 1;
        s.reduced[s.n++] = true;
    }
    for (uint32_t i = 1; i < z->segments.count; i++)
        if (memcmp(&z->segments.items[i], &s, sizeof s) == 0) return i;
    vec_push(z->arena, &z->segments, s);
    return (uint32_t)z->segments.count - 1;
}

static uint32_t reduce_segments(struct fuse *z, const struct ir_node *node)
{
    const struct ir_type *from = ir_type(z->f, node->args[0]);
    bool reduced[IR_MAX_RANK] = {false};
    for (uint32_t i = 0; i < node->attr[0].n; i++) reduced[node->attr[0].v[i]] = true;
    return intern_segments(z, from->dim, reduced, from->rank);
}

static uint32_t broadcast_segments(struct fuse *z, const struct ir_node *node)
{
    const struct ir_type *from = ir_type(z->f, node->args[0]);
    bool repeated[IR_MAX_RANK];
    for (uint32_t i = 0; i < node->type.rank; i++) repeated[i] = true;
    for (uint32_t i = 0; i < from->rank; i++) repeated[node->attr[0].v[i]] = from->dim[i] == 1;
    return intern_segments(z, node->type.dim, repeated, node->type.rank);
}

/* ---------------------------------------------------------------- classes and stores */

/* A reshape shares the memory of its operand, so its operand must be stored in its place. */
static struct fuse_node *store(struct fuse *z, ir_value v)
{
    while (ir_get(z->f, v)->op == OP_reshape && z->node[v].class == FUSE_VIEW) v = ir_get(z->f, v)->args[0];
    z->node[v].needs_buffer = true;
    return &z->node[v];
}

/* 16-bit numbers that a product widens. */
static bool is_widened(const struct ir_func *f, const struct ir_node *n)
{
    return n->op == OP_cast && n->type.dtype == IR_F32 &&
           ir_dtype_bytes((enum ir_dtype)ir_type(f, n->args[0])->dtype) == 2;
}

/* What a contraction reads is read many times: the value under its views must be stored; `widened`: so is what was
 * widened, up to so many elements. */
static void store_operand(struct fuse *z, ir_value v, int64_t widened)
{
    bool taps = false;
    while ((z->node[v].class == FUSE_VIEW && ir_get(z->f, v)->arg_count) || is_widened(z->f, ir_get(z->f, v))) {
        if (is_widened(z->f, ir_get(z->f, v)) && z->node[v].elements <= widened) break;
        if (taps && ir_get(z->f, v)->op == OP_transpose) break; /* what they are read from is turned once */
        taps |= ir_get(z->f, v)->op == OP_concat;
        v = ir_get(z->f, v)->args[0];
    }
    z->node[v].needs_buffer = true;
}

/* ---------------------------------------------------------------- how far rows lie apart */

/* Elements in row-major order, as steps in memory: runs of equal ones, outermost first. */
struct steps {
    uint32_t n;
    int64_t extent[2 * IR_MAX_RANK], stride[2 * IR_MAX_RANK];
};

static void add_step(struct steps *s, int64_t extent, int64_t stride)
{
    if (extent == 1) return;
    if (s->n && s->stride[s->n - 1] == extent * stride) s->extent[s->n - 1] *= extent, s->stride[s->n - 1] = stride;
    else s->extent[s->n] = extent, s->stride[s->n++] = stride;
}

/* The steps of these dimensions of a tensor whose elements go by `all`; false: a run reaches over a border. */
static bool steps_of(const struct steps *all, const struct ir_type *t, const int64_t *dims, uint32_t n,
                     struct steps *out)
{
    struct steps of[IR_MAX_RANK];
    struct steps rest = *all;
    for (uint32_t d = t->rank; d-- > 0;) {
        int64_t left = t->dim[d];
        of[d].n = 0;
        while (left > 1) { /* innermost first */
            if (!rest.n || of[d].n == IR_MAX_RANK) return false;
            int64_t *extent = &rest.extent[rest.n - 1], take = *extent < left ? *extent : left;
            if (*extent % take || left % take) return false;
            of[d].extent[of[d].n] = take, of[d].stride[of[d].n++] = rest.stride[rest.n - 1];
            left /= take, *extent /= take, rest.stride[rest.n - 1] *= take;
            if (*extent == 1) rest.n--;
        }
    }
    out->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct steps *one = &of[dims[i]];
        if (out->n + one->n > 2 * IR_MAX_RANK) return false;
        for (uint32_t k = one->n; k-- > 0;) add_step(out, one->extent[k], one->stride[k]);
    }
    return true;
}

/* The steps of a view in what is stored under it; false: they are none. */
static bool steps_of_view(const struct fuse *z, ir_value v, struct steps *out)
{
    const struct ir_node *n = ir_get(z->f, v);
    struct steps from;
    if (n->op == OP_reshape) return steps_of_view(z, n->args[0], out);
    out->n = 0;
    if (n->op != OP_transpose) {
        add_step(out, ir_type_elements(&n->type), 1);
        return true;
    }
    return steps_of_view(z, n->args[0], &from) &&
           steps_of(&from, ir_type(z->f, n->args[0]), n->attr[0].v, n->attr[0].n, out);
}

/* The slice under reshapes; NULL: there is none. */
static const struct ir_node *slice_of(const struct fuse *z, ir_value v)
{
    while (ir_get(z->f, v)->op == OP_reshape) v = ir_get(z->f, v)->args[0];
    return ir_get(z->f, v)->op == OP_slice ? ir_get(z->f, v) : NULL;
}

/* Its steps in what it is cut out of. */
static void steps_of_slice(const struct fuse *z, const struct ir_node *slice, struct steps *out)
{
    const struct ir_type *from = ir_type(z->f, slice->args[0]);
    int64_t stride[IR_MAX_RANK], apart = 1;
    for (uint32_t i = from->rank; i-- > 0; apart *= from->dim[i])
        stride[i] = apart * (slice->attr[2].n ? slice->attr[2].v[i] : 1);
    out->n = 0;
    for (uint32_t i = 0; i < from->rank; i++) add_step(out, slice->type.dim[i], stride[i]);
}

/* Rows in runs that no tile divides, unless it has too few of them to hide how long a sum takes. */
static bool is_ragged(const struct fuse *z, int64_t run)
{
    enum { FEW_ROWS = 4 };
    int64_t rows = z->pass->options->panel_rows;
    while (rows > FEW_ROWS && run % rows) rows--;
    return rows == FEW_ROWS;
}

/* Rows of a product, or what it sums, that lie in short runs (windows of an image, every second pixel): turned, or
 * brought together, once, rather than in every product that reads them. */
static bool is_scattered(const struct fuse *z, const struct ir_node *dot)
{
    enum { LEAST_RUN = 14, LEAST_COLUMNS = 16, LEAST_OF_SLICE = 128 };
    const struct ir_type *x = ir_type(z->f, dot->args[0]), *y = ir_type(z->f, dot->args[1]);
    struct pass_dims rows = pass_free_dims(x, dot->attr[0], dot->attr[2]);
    struct pass_dims columns = pass_free_dims(y, dot->attr[1], dot->attr[3]);
    struct steps all, of;
    int64_t width = dot->attr[5].n ? dot->attr[5].v[0] : 1;
    const struct ir_node *slice = slice_of(z, dot->args[0]);
    for (uint32_t i = 0; i < columns.n && !dot->attr[5].n; i++) width *= y->dim[columns.v[i]];
    if (width < (slice ? LEAST_OF_SLICE : LEAST_COLUMNS) || dot->attr[5].n > (slice != NULL)) return false;
    if (slice) steps_of_slice(z, slice, &all);
    else if (!steps_of_view(z, dot->args[0], &all)) return false;
    for (uint32_t k = 0; k < 2; k++) {
        const int64_t *dims = k ? dot->attr[2].v : rows.v;
        if (!steps_of(&all, x, dims, k ? dot->attr[2].n : rows.n, &of)) return true;
        if (of.n > 1 && of.extent[of.n - 1] < LEAST_RUN && !slice) return true;
        if (of.n > 1 && !k && slice && is_ragged(z, of.extent[of.n - 1])) return true;
    }
    return false;
}

static bool has_transpose(const struct fuse *z, ir_value v)
{
    while (ir_get(z->f, v)->op == OP_reshape) v = ir_get(z->f, v)->args[0];
    return ir_get(z->f, v)->op == OP_transpose;
}

static bool is_small_beside(const struct fuse *z, const struct ir_node *dot)
{
    return 8 * ir_type_elements(ir_type(z->f, dot->args[1])) <= ir_type_elements(ir_type(z->f, dot->args[0]));
}

/* A slice whose elements are apart in memory. */
static bool is_apart(const struct ir_func *f, const struct ir_node *slice)
{
    int64_t step = 1;
    if (slice->op != OP_slice) return false;
    for (uint32_t i = slice->type.rank; i-- > 0; step *= ir_type(f, slice->args[0])->dim[i])
        if (slice->type.dim[i] != 1) return step > 1 || (slice->attr[2].n && slice->attr[2].v[i] != 1);
    return false;
}

/* Repeated often: its elements are brought together once. */
static void store_repeated(struct fuse *z, const struct ir_node *broadcast)
{
    enum { OFTEN = 16 };
    ir_value v = broadcast->args[0];
    while (ir_get(z->f, v)->op == OP_reshape) v = ir_get(z->f, v)->args[0];
    if (z->node[v].elements >= OFTEN && ir_type_elements(&broadcast->type) >= OFTEN * z->node[v].elements &&
        is_apart(z->f, ir_get(z->f, v)))
        z->node[v].needs_buffer = true;
}

/* Do the elements of a row lie in several runs? */
static bool has_runs(const struct ir_type *x, struct ir_ints contract)
{
    uint32_t from = x->rank - contract.n;
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->dim[i] != 1 && pass_has(contract, i) != (i >= from)) return true;
    return false;
}

/* Elements up to which a CPU widens an operand in memory: what the second cache holds. Of others tiles widen what they
 * pack, but rows that lie side by side go by few elements there, which only many columns hide, and those in several
 * runs element by element, again for each panel. */
static int64_t most_widened(const struct fuse *z, const struct ir_node *dot, uint32_t operand)
{
    enum { SMALL = 1 << 16, LARGE = 1 << 20, MANY_COLUMNS = 64, LARGEST = 1 << 24 };
    const struct ir_type *x = ir_type(z->f, dot->args[0]), *y = ir_type(z->f, dot->args[1]);
    if (!z->pass->options->panel_columns || z->pass->options->panel_pairs) return 0;
    bool by_steps = x->rank && !pass_has(dot->attr[2], x->rank - 1);
    bool few = ir_type_elements(y) < MANY_COLUMNS * pass_extent(y, dot->attr[1]) * pass_extent(y, dot->attr[3]);
    bool runs = !by_steps && !dot->attr[0].n && has_runs(x, dot->attr[2]);
    return operand ? SMALL : runs && !few ? LARGEST : by_steps && few ? LARGE : SMALL;
}

/* The dimension of neighbours in memory. */
static uint32_t row_of(const struct ir_type *t)
{
    uint32_t i = t->rank - 1;
    while (i && t->dim[i] == 1) i--;
    return i;
}

/* Its rows are read across: a large one is turned once, by blocks (codegen/lower/lower_map.c), rather than by whoever
 * reads single elements of line after line. */
static bool is_turned(const struct fuse *z, ir_value v)
{
    enum { LEAST = 65536, LEAST_ROW = 16, LEAST_APART = 64 };
    const struct ir_node *n = ir_get(z->f, v);
    if (n->op != OP_transpose || z->node[v].elements < LEAST || z->pass->options->blocks) return false;
    const struct ir_type *from = ir_type(z->f, n->args[0]);
    int64_t last = n->attr[0].v[row_of(&n->type)], apart = 1;
    for (uint32_t i = (uint32_t)last + 1; i < from->rank; i++) apart *= from->dim[i];
    return apart >= LEAST_APART && from->dim[last] >= LEAST_ROW && from->dim[row_of(from)] >= LEAST_ROW;
}

/* What is turned, under reshapes, and is read element by element. */
static void store_turned(struct fuse *z, ir_value v)
{
    while (ir_get(z->f, v)->op == OP_reshape) v = ir_get(z->f, v)->args[0];
    if (!is_turned(z, v)) return;
    z->node[v].needs_buffer = z->node[v].turned = true;
    ir_value from = ir_get(z->f, v)->args[0];
    if (ir_get(z->f, from)->arg_count > 1) store(z, from);
}

static void mark_stored(struct fuse *z, ir_value v)
{
    const struct ir_node *node = ir_get(z->f, v);
    bool elements = z->node[v].class == FUSE_EWISE || z->node[v].class == FUSE_REDUCE;
    for (uint32_t i = 0; i < node->arg_count && elements; i++) store_turned(z, node->args[i]);
    if (node->op == OP_broadcast) store_repeated(z, node);
    switch (z->node[v].class) {
    case FUSE_CONTROL:
        for (uint32_t i = 0; i < node->arg_count; i++) store(z, node->args[i]);
        break;
    case FUSE_DOT:
        if (node->op != OP_dot) { /* tiles read an element several times */
            for (uint32_t i = 0; i < node->arg_count; i++) store(z, node->args[i]);
            break;
        }
        if (node->attr[5].n > 1) z->node[node->args[0]].needs_buffer = true;
        else if ((has_transpose(z, node->args[0]) || slice_of(z, node->args[0])) && is_scattered(z, node))
            store(z, node->args[0]);
        else if (!z->node[node->args[0]].tile) store_operand(z, node->args[0], most_widened(z, node, 0));
        if (node->attr[5].n == 1) z->node[node->args[1]].needs_buffer = true;
        else if (node->attr[6].n && is_small_beside(z, node) && has_transpose(z, node->args[1]))
            store(z, node->args[1]);
        else if (!z->node[node->args[1]].tile) store_operand(z, node->args[1], most_widened(z, node, 1));
        break;
    case FUSE_SCATTER: store_operand(z, node->args[0], 0); break;
    default: break;
    }
}

/* Arithmetic that nothing but a region needs belongs to it: a clipped gradient is made where it is used. */
static void extend_region(struct fuse *z)
{
    const struct ir_func *f = z->f;
    bool *elsewhere = arena_new_array(z->arena, bool, f->count);
    for (ir_value v = f->count; v-- > 1;) {
        struct fuse_node *n = &z->node[v];
        const struct ir_node *node = ir_get(f, v);
        if (!n->live) continue;
        bool arithmetic = n->class == FUSE_EWISE || n->class == FUSE_VIEW;
        if (!n->region && n->uses && arithmetic && n->elements > 1 && !n->needs_buffer && !elsewhere[v])
            n->region = true;
        for (uint32_t i = 0; i < node->arg_count; i++) elsewhere[node->args[i]] |= !n->region;
    }
}

/* Does the value depend on state that only the optimizer reads? Such nodes stay out of contractions. */
static void mark_region(struct fuse *z)
{
    const struct ir_func *f = z->f;
    for (size_t i = 0; i < f->params.count; i++) {
        int32_t slot = f->params.items[i].slot;
        if (slot < 0) continue;
        enum ir_role role = f->module->slots.items[slot].role;
        z->node[f->params.items[i].value].region = role == IR_ROLE_OPT_STATE || role == IR_ROLE_EMA;
    }
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *node = ir_get(f, v);
        for (uint32_t i = 0; i < node->arg_count; i++)
            if (z->node[node->args[i]].elements > 1 || z->node[v].elements == 1)
                z->node[v].region |= z->node[node->args[i]].region;
    }
    extend_region(z);
}

static bool is_taps(const struct fuse *z, ir_value v)
{
    struct plan_taps t;
    while (ir_get(z->f, v)->op == OP_reshape) v = ir_get(z->f, v)->args[0];
    return ir_get(z->f, v)->op == OP_concat && fuse_find_taps(z->f, v, &t, z->arena);
}

/* Convolutions: where nothing but contractions reads their taps, the taps stay where they are in the tensor; those that
 * a product in pairs (fuse_pairs.c) or by parts (fuse_split.c) widens, too. */
static void find_taps(struct fuse *z)
{
    const struct ir_func *f = z->f;
    bool *elsewhere = arena_new_array(z->arena, bool, f->count), widens = z->pass->options->tap_pairs;
    widens |= z->pass->options->blocks > 0;
    for (size_t i = 0; i < f->results.count; i++) elsewhere[f->results.items[i].value] = true;
    for (ir_value v = f->count; v-- > 1;) {
        struct fuse_node *n = &z->node[v];
        const struct ir_node *node = ir_get(f, v);
        bool joins = n->class == FUSE_INDEX && node->op == OP_concat;
        if (!n->live) continue;
        if ((joins || (widens && is_widened(f, node))) && !elsewhere[v] && is_taps(z, joins ? v : node->args[0]))
            n->class = FUSE_VIEW;
        for (uint32_t i = 0; i < node->arg_count; i++)
            elsewhere[node->args[i]] |= n->class != FUSE_DOT && (n->class != FUSE_VIEW || elsewhere[v]);
    }
}

/* ---------------------------------------------------------------- inlining */

static bool expands(const struct fuse *z, ir_value user)
{
    enum ir_op op = (enum ir_op)ir_get(z->f, user)->op;
    return (op == OP_broadcast && z->node[user].elements != z->node[ir_get(z->f, user)->args[0]].elements) ||
           op == OP_take || z->node[user].class == FUSE_DOT;
}

/* Would inlining compute an element more than once? */
static bool computed_often(const struct fuse *z, ir_value v)
{
    const struct fuse_node *n = &z->node[v];
    if (n->uses != 1) return true;
    return expands(z, n->only_user) || (!z->node[n->only_user].material && z->node[n->only_user].multi);
}

/* A row of something that a loop's body is given: read where it stands as often as need be. */
static bool is_row(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op != OP_dynamic_slice || f->entry || ir_get(f, n->args[0])->op != OP_param) return false;
    const struct ir_type *from = ir_type(f, n->args[0]);
    for (uint32_t i = 1; i < from->rank; i++)
        if (from->dim[i] != n->type.dim[i]) return false;
    return n->type.dim[0] == 1;
}

/* What a product or a sum is rounded to, and nothing else of it is needed: it takes less memory than they do. */
static bool is_narrowed(const struct fuse *z, ir_value v)
{
    const struct ir_node *n = ir_get(z->f, v);
    if (n->op != OP_cast) return false;
    ir_value from = n->args[0];
    while (ir_get(z->f, from)->op == OP_reshape && z->node[from].uses == 1) from = ir_get(z->f, from)->args[0];
    const struct ir_type *type = ir_type(z->f, from);
    return z->node[from].class >= FUSE_REDUCE && z->node[from].class != FUSE_CONTROL && z->node[from].uses == 1 &&
           ir_dtype_bytes((enum ir_dtype)n->type.dtype) < ir_dtype_bytes((enum ir_dtype)type->dtype);
}

static void decide(struct fuse *z, ir_value v)
{
    struct fuse_node *n = &z->node[v];
    n->multi = computed_often(z, v);
    if (n->tile) {
        n->material = false;
    } else if (n->needs_buffer || n->class >= FUSE_REDUCE) {
        n->material = n->class != FUSE_LEAF;
    } else if (n->class == FUSE_VIEW || n->class == FUSE_LEAF) {
        n->material = false;
    } else if (n->class == FUSE_INDEX) {
        n->material = (n->multi && !is_row(z->f, v)) || n->inline_cost > FUSE_LONG;
    } else {
        bool cheap = n->again || (n->inline_cost <= (n->inline_inputs ? 4 : 8) && n->inline_inputs <= 1);
        const struct fuse_node *user = &z->node[n->only_user];
        bool read = user->class == FUSE_VIEW || user->class == FUSE_INDEX;
        bool summed = user->class == FUSE_REDUCE ||
                      user->class == FUSE_LINES; /* but what is made of a product is made in its tile */
        for (uint32_t i = 0; i < ir_get(z->f, v)->arg_count; i++)
            summed &= z->node[ir_get(z->f, v)->args[i]].class != FUSE_DOT;
        bool once = !n->multi && n->uses == 1 && n->inline_cost <= FUSE_LONG &&
                    ((read && !user->needs_buffer) || summed);
        n->material = (!cheap && !once) || is_narrowed(z, v);
    }
}

/* By value: is it read by arithmetic, sums, or what only looks at these in another shape? */
static bool *read_evenly(struct fuse *z)
{
    const struct ir_func *f = z->f;
    bool *evenly = arena_new_array(z->arena, bool, f->count);
    memset(evenly, true, f->count);
    for (ir_value v = f->count; v-- > 1;) {
        const struct fuse_node *n = &z->node[v];
        const struct ir_node *node = ir_get(f, v);
        bool reads = n->class == FUSE_EWISE || n->class == FUSE_REDUCE || (node->op == OP_reshape && evenly[v]);
        for (uint32_t i = 0; i < node->arg_count && n->live; i++) evenly[node->args[i]] &= reads;
    }
    return evenly;
}

/* Is it read from memory, as far as operands know what `decide` will say? */
static bool is_stored(const struct fuse_node *n)
{
    return n->class == FUSE_LEAF || n->class >= FUSE_REDUCE || n->needs_buffer ||
           (n->class == FUSE_INDEX && n->inline_cost > FUSE_LONG) ||
           (n->class == FUSE_EWISE && !n->again && (n->inline_cost > 8 || n->inline_inputs > 1));
}

static int64_t bytes_of(const struct fuse *z, ir_value v)
{
    return z->node[v].elements * (int64_t)ir_dtype_bytes((enum ir_dtype)ir_type(z->f, v)->dtype);
}

enum { LONGEST = 12 }; /* nodes that are made again together */

/* Bytes of the tensors of about so many elements that a value is made from, each once; `seen`: values that the walk has
 * been at. INT64_MAX: it is made of too much. */
static int64_t bytes_read(const struct fuse *z, ir_value v, int64_t elements, ir_value *seen, uint32_t *count)
{
    const struct ir_node *node = ir_get(z->f, v);
    int64_t bytes = 0;
    for (uint32_t i = 0; i < node->arg_count && bytes < INT64_MAX; i++) {
        ir_value a = node->args[i];
        bool known = ir_is_number(ir_get(z->f, a));
        for (uint32_t j = 0; j < *count && !known; j++) known = seen[j] == a;
        if (known) continue;
        bool stored = is_stored(&z->node[a]) || ir_get(z->f, a)->op == OP_proj;
        bool moved = z->node[a].class == FUSE_INDEX && ir_get(z->f, a)->op != OP_broadcast;
        if (*count == 2 * LONGEST || (moved && !stored)) return INT64_MAX;
        seen[(*count)++] = a;
        int64_t more = !stored                              ? bytes_read(z, a, elements, seen, count)
                       : z->node[a].elements * 4 > elements ? bytes_of(z, a)
                                                            : 0;
        bytes = more < INT64_MAX ? bytes + more : more;
    }
    return bytes;
}

/* On a GPU arithmetic takes no time beside memory: what its readers can make of no more bytes than it has itself is
 * not stored for them. */
static bool reads_less(const struct fuse *z, ir_value v, const bool *evenly)
{
    const struct fuse_node *n = &z->node[v];
    ir_value seen[2 * LONGEST];
    uint32_t count = 0;
    return z->pass->options->blocks && n->class == FUSE_EWISE && n->elements > FUSE_SMALL && !n->needs_buffer &&
           !n->region && evenly[v] && n->inline_cost <= LONGEST &&
           bytes_read(z, v, n->elements, seen, &count) <= bytes_of(z, v);
}

/* Cost and inputs of computing a node in place, with everything that would be inlined into it. Needs the decisions
 * of its operands, so it guesses them the way `decide` will: from cost alone. */
static void measure(struct fuse *z, ir_value v, const bool *evenly)
{
    struct fuse_node *n = &z->node[v];
    const struct ir_node *node = ir_get(z->f, v);
    n->inline_cost = n->class == FUSE_VIEW ? 0 : cost_of(node);
    for (uint32_t i = 0; i < node->arg_count && n->class != FUSE_LEAF; i++) {
        const struct fuse_node *a = &z->node[node->args[i]];
        const struct ir_node *arg = ir_get(z->f, node->args[i]);
        bool number = ir_is_number(arg);
        bool full = a->elements * 4 > n->elements && n->elements > 1;
        bool again = false;
        for (uint32_t j = 0; j < i; j++) again |= node->args[j] == node->args[i];
        if (again || number) continue;
        if (is_stored(a)) {
            n->inline_inputs += full;
        } else {
            n->inline_cost += a->inline_cost;
            n->inline_inputs += full ? a->inline_inputs : 0;
        }
    }
    n->again = reads_less(z, v, evenly);
}

static void mark_replaced(struct fuse *z)
{
    const struct ir_func *f = z->f;
    ir_value *new_value = arena_new_array(z->arena, ir_value, f->module->slots.count + 1);
    for (size_t i = 0; i < f->results.count; i++)
        if (f->results.items[i].slot >= 0) new_value[f->results.items[i].slot] = f->results.items[i].value;
    for (size_t i = 0; i < f->params.count; i++) {
        const struct ir_param *p = &f->params.items[i];
        z->node[p->value].replaced = p->slot >= 0 && new_value[p->slot] && new_value[p->slot] != p->value;
    }
}

/* A row that a loop's body writes into a buffer which it carries. */
static bool is_window(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op != OP_dynamic_update || f->entry || ir_get(f, n->args[0])->op != OP_param) return false;
    for (size_t i = 0; i < f->results.count; i++)
        if (f->results.items[i].value == v) return true;
    return false;
}

/* Many tensors one behind the other in memory. */
static bool is_join(const struct ir_node *n)
{
    enum { LEAST = 16 };
    bool whole = n->op == OP_concat && n->arg_count >= LEAST;
    for (int64_t i = 0; whole && i < n->attr[0].v[0]; i++) whole = n->type.dim[i] == 1;
    return whole;
}

void fuse_classify(struct fuse *z)
{
    const struct ir_func *f = z->f;
    bool *live = ir_live(f, z->arena);
    z->node = arena_new_array(z->arena, struct fuse_node, f->count);
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *node = ir_get(f, v);
        struct fuse_node *n = &z->node[v];
        n->class = is_join(node) ? FUSE_CONTROL : class_of(node);
        n->live = live[v];
        n->window = is_window(f, v);
        n->elements = node->type.dtype == IR_TUPLE
                          ? 0
                          : ir_type_elements(n->window ? ir_type(f, node->args[1]) : &node->type);
        if (n->class == FUSE_REDUCE && n->live) n->segments = reduce_segments(z, node);
        if (node->op == OP_broadcast && n->live) n->segments = broadcast_segments(z, node);
        for (uint32_t i = 0; i < node->arg_count && n->live; i++) {
            z->node[node->args[i]].uses++;
            z->node[node->args[i]].only_user = v;
        }
    }
    for (size_t i = 0; i < f->results.count; i++) {
        int32_t slot = f->results.items[i].slot;
        enum ir_role role = slot < 0 ? IR_ROLE_METRIC : f->module->slots.items[slot].role;
        struct fuse_node *stored = store(z, f->results.items[i].value);
        stored->state |= role == IR_ROLE_PARAM || role == IR_ROLE_EMA || role == IR_ROLE_OPT_STATE;
        stored->decides |= role == IR_ROLE_METRIC;
    }
    mark_replaced(z);
    find_taps(z);
    fuse_find_attention(z);
    for (ir_value v = 1; v < f->count; v++)
        if (z->node[v].live) mark_stored(z, v);
    fuse_store_masks(z);
    fuse_find_crowds(z);
    mark_region(z);
    const bool *evenly = read_evenly(z);
    for (ir_value v = 1; v < f->count; v++) measure(z, v, evenly);
    for (ir_value v = f->count; v-- > 1;)
        if (z->node[v].live) decide(z, v);
}

/* ---------------------------------------------------------------- dependencies */

struct walk {
    struct fuse *z;
    VEC(struct fuse_dep) deps;
    struct map seen; /* inlined nodes of several operands, and how they are read: once each, or squares have no end */
};

static void add_dep(struct walk *w, ir_value v, uint8_t relation, uint32_t segments)
{
    for (size_t i = 0; i < w->deps.count; i++) {
        const struct fuse_dep *d = &w->deps.items[i];
        if (d->value == v && d->relation == relation && d->segments == segments) return;
    }
    struct fuse_dep d = {v, relation, segments};
    vec_push(w->z->arena, &w->deps, d);
}

static void walk_operand(struct walk *, ir_value, uint8_t relation, uint32_t segments);

static void walk_operands(struct walk *w, ir_value v, uint8_t relation, uint32_t segments)
{
    const struct ir_node *node = ir_get(w->z->f, v);
    const struct fuse_node *n = &w->z->node[v];
    uint8_t next = FUSE_OTHER;
    if (n->class == FUSE_EWISE || node->op == OP_reshape || n->class == FUSE_REDUCE || n->class == FUSE_LINES)
        next = relation;
    else if (node->op == OP_broadcast && relation == FUSE_SAME) next = FUSE_SPREAD, segments = n->segments;
    for (uint32_t i = 0; i < node->arg_count; i++) { /* what is written into, or added to, is read at the same place */
        bool into = (node->op == OP_dynamic_update && i <= n->window) || (n->class == FUSE_SCATTER && !i);
        walk_operand(w, node->args[i], into ? relation : next, segments);
    }
}

static void walk_operand(struct walk *w, ir_value v, uint8_t relation, uint32_t segments)
{
    const struct fuse_node *n = &w->z->node[v];
    const struct ir_node *node = ir_get(w->z->f, v);
    uint32_t known = relation == FUSE_SPREAD ? segments : 0;
    if (ir_is_number(node)) return;
    if (n->material || n->class == FUSE_LEAF || n->class == FUSE_CONTROL) {
        add_dep(w, v, relation, known);
        return;
    }
    uint64_t how = (uint64_t)v << 32 | known << 2 | relation;
    if (node->arg_count > 1 && !map_set_number(&w->seen, how, 1)) return;
    walk_operands(w, v, relation, segments);
}

/* For every material node: the material nodes and leaves it reads through inlined ones, and how. */
void fuse_dependencies(struct fuse *z)
{
    for (ir_value v = 1; v < z->f->count; v++) {
        struct fuse_node *n = &z->node[v];
        if (!n->live || !(n->material || n->class == FUSE_CONTROL)) continue;
        struct walk w = {.z = z, .seen = MAP(z->arena)};
        walk_operands(&w, v, n->class == FUSE_DOT || n->sink ? FUSE_OTHER : FUSE_SAME, 0);
        n->deps = w.deps.items;
        n->dep_count = (uint32_t)w.deps.count;
        for (size_t i = 0; i < w.deps.count; i++) {
            ir_value d = w.deps.items[i].value;
            n->follows |= z->node[d].follows || (z->node[d].state && z->node[d].elements > 1);
            vec_push(z->arena, &z->node[d].readers, v);
            if (ir_get(z->f, d)->op == OP_proj) vec_push(z->arena, &z->node[ir_get(z->f, d)->args[0]].readers, v);
        }
    }
    for (ir_value v = z->f->count; v-- > 1;) {
        struct fuse_node *n = &z->node[v];
        n->decides &= !n->follows;
        n->late = n->class != FUSE_CONTROL;
        for (size_t i = 0; i < n->readers.count && n->late; i++) {
            const struct fuse_node *r = &z->node[n->readers.items[i]];
            n->late = r->late;
            for (uint32_t j = 0; j < r->dep_count && n->late; j++)
                n->late = z->node[r->deps[j].value].elements <= FUSE_SMALL;
        }
    }
}
