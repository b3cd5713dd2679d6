/* Products in two phases: a gradient of weights over many rows. The first phase contracts parts, all as one product
 * with a dimension of batches more, the second one adds the parts, in their order, and does what is element-wise behind
 * the product: the result is the same in every run. Parts are cut as those of reductions are (fuse_phases.c).
 * Attention, concatenations that are no taps and sums with an order of their own stay as they are. Sums of 16-bit
 * numbers are float32 until all are added.
 *
 * A GPU has more blocks than there are tiles of the result, also of a layer of a small model; what another launch costs
 * is estimated, not measured. Workers of a CPU, who would share out rows or columns and each read and pack all of the
 * other operand, have parts of both instead, which are read once (measured with AVX2 and AVX-512: 1.0 to 1.6 times as
 * fast). */
#include "passes/fuse.h"

enum {
    TILE_ROWS = 128,
    TILE_COLUMNS = 64, /* codegen/lower/lower_dot_grid_shape.c: the largest of float32; of 16 bits some are larger */
    NARROW = 16,       /* and the widest of those for few rows or columns */
    LEAST_STEPS = 128  /* of a part */
};
/* Of a GPU, in nanoseconds: another launch with what its blocks wait for; a step of a small tile by multiply-adds, and
 * by the unit of 16-bit products; an element of a part, which is written and read. */
enum { LAUNCH_TIME = 2200, STEP_TIME = 12, UNIT_STEP_TIME = 6 };
static const double element_time = 0.0016;
/* Of a CPU: rows and columns at least, columns of few rows at most, columns at least where steps are not so many, steps
 * of a part at least and about, parts, elements of all results at most; batches (more are parts enough, but for groups
 * of few columns, which share lines of memory), columns of one of several. */
enum {
    WORKER_ROWS = 32,
    FEW_COLUMNS = 256,
    WORKER_COLUMNS = 32,
    WIDE_COLUMNS = 64,
    NARROW_STEPS = 4096,
    SHARED_PANELS = 8
};
enum { FEW_STEPS = 192, MANY_STEPS = 512, LEAST_PARTS = 4, MOST_PARTS = 16, PARTS_ELEMENTS = 1 << 21 };
enum { MOST_BATCHES = 8, GROUP_COLUMNS = 4 };

bool fuse_is_narrow(const struct pass_options *o, int64_t inputs, int64_t columns)
{
    int64_t lanes = o->panel_columns / 2;
    return 2 * inputs <= lanes && 2 * columns <= lanes;
}

static int64_t behind(const struct ir_type *type, int64_t dim)
{
    int64_t all = 1;
    for (uint32_t i = (uint32_t)dim + 1; i < type->rank; i++) all *= type->dim[i];
    return all;
}

/* Vectors of groups that have all columns of a product, of all its batches, if it is of narrow ones; 0. */
static int64_t vectors_of(const struct pass_options *o, const struct ir_type *x, const struct ir_type *y,
                          const struct ir_node *n)
{
    if (!n->attr[0].n) return 0;
    int64_t of_x = n->attr[0].v[n->attr[0].n - 1], of_y = n->attr[1].v[n->attr[1].n - 1], groups = x->dim[of_x],
            inputs = behind(x, of_x), columns = behind(y, of_y);
    int64_t own = ir_type_elements(y) / (pass_extent(y, n->attr[1]) * pass_extent(y, n->attr[3]));
    if (groups < 2 || own != columns || !fuse_is_narrow(o, inputs, columns)) return 0;
    int64_t count = o->panel_columns / 2 / (inputs > columns ? inputs : columns);
    return pass_extent(x, n->attr[0]) / groups * ((groups + count - 1) / count);
}

static bool is_view_of_many(const struct ir_func *f, ir_value v, struct arena *scratch)
{
    struct plan_taps taps;
    for (;; v = ir_get(f, v)->args[0]) {
        enum ir_op op = (enum ir_op)ir_get(f, v)->op;
        if (op == OP_concat) return !fuse_find_taps(f, v, &taps, scratch);
        if (op != OP_reshape && op != OP_transpose && op != OP_cast && op != OP_slice) return false;
    }
}

static int64_t tiles_of(int64_t rows, int64_t columns)
{
    int64_t narrow = rows < columns ? rows : columns;
    if (narrow <= NARROW) return (rows + columns - narrow + TILE_ROWS - 1) / TILE_ROWS;
    return (rows + TILE_ROWS - 1) / TILE_ROWS * ((columns + TILE_COLUMNS - 1) / TILE_COLUMNS);
}

static bool is_step_major(const struct ir_type *type, struct ir_ints contract)
{
    for (uint32_t i = 0; i < contract.n; i++)
        if (contract.v[i] + 1 == type->rank) return false;
    return true;
}

static bool is_one_run(struct ir_ints contract)
{
    for (uint32_t i = 1; i < contract.n; i++)
        if (contract.v[i] != contract.v[i - 1] + 1) return false;
    return true;
}

/* Of a CPU, about and at most. All parts of the result together are not much more than half of what is read, nor leave
 * the caches; less where panels are wide and x is packed once for all of them (fuse_panels.c). */
static int64_t parts_of_workers(const struct pass_options *o, const struct ir_type *x, const struct ir_type *y,
                                const struct ir_node *n, int64_t *most)
{
    int64_t steps = pass_extent(x, n->attr[2]), read = ir_type_elements(x) + ir_type_elements(y);
    int64_t batch = pass_extent(x, n->attr[0]), each = steps * batch;
    int64_t rows = ir_type_elements(x) / each, columns = ir_type_elements(y) / each, vectors = vectors_of(o, x, y, n);
    if (vectors) batch = vectors, columns = (ir_type_elements(y) / steps + vectors - 1) / vectors;
    bool dtype = n->type.dtype == IR_F32 || (n->type.dtype == IR_BF16 && o->panel_pairs);
    bool few = batch <= MOST_BATCHES || columns < WORKER_COLUMNS;
    bool plain = dtype && few && is_step_major(x, n->attr[2]) && is_step_major(y, n->attr[3]);
    bool shared = o->panel_columns > NARROW && columns > rows && columns >= SHARED_PANELS * o->panel_columns;
    bool wide = columns >= (steps < NARROW_STEPS ? WIDE_COLUMNS : batch > 1 ? GROUP_COLUMNS : WORKER_COLUMNS);
    bool tall = rows >= WORKER_ROWS || (steps >= NARROW_STEPS && columns <= FEW_COLUMNS);
    bool panels = rows >= FUSE_PANEL_ROWS && columns >= FUSE_PANEL_ROWS; /* for all rows, where y lies in runs: heads */
    if (vectors && vectors < MOST_BATCHES) wide = tall = true;           /* too few for workers to share */
    *most = 1;
    if (!plain || !wide || !tall || (panels && !is_one_run(n->attr[3]))) return 1;
    int64_t parts = steps / MANY_STEPS, room = read / 8 * (shared ? 3 : 5);
    parts = parts < LEAST_PARTS ? LEAST_PARTS : parts > MOST_PARTS ? MOST_PARTS : parts;
    *most = (room < PARTS_ELEMENTS ? room : PARTS_ELEMENTS) / (batch * rows * columns);
    if (*most > steps / FEW_STEPS) *most = steps / FEW_STEPS;
    return parts < *most ? parts : *most;
}

/* Cuts into about so many parts, rather an even number of them, up to half as many more, for workers that are an even
 * number, too. A part has a multiple of `unit` steps. */
static struct fuse_cut cut_for_workers(const int64_t *extent, uint32_t count, int64_t parts, int64_t most, int64_t unit)
{
    struct fuse_cut best = {.all = 1};
    int64_t steps = 1;
    for (uint32_t i = 0; i < count; i++) steps *= extent[i];
    for (int64_t n = 2; n <= most && n <= parts * 3 / 2; n++) {
        struct fuse_cut cut = fuse_find_cut(extent, count, n);
        if (cut.all != n || steps / n % unit) continue;
        if (n <= parts || (best.all % 2 && n % 2 == 0)) best = cut;
    }
    return best;
}

/* Into as many parts, up to `most`, as take least: each has fewer steps, and all are written and added. */
static struct fuse_cut cut_for_blocks(const struct ir_type *x, const struct ir_node *n, int64_t steps,
                                      const int64_t *extent, int64_t most)
{
    struct fuse_cut best = {.all = 1};
    double step = ir_dtype_bytes((enum ir_dtype)x->dtype) == 2 ? UNIT_STEP_TIME : STEP_TIME;
    double all = (double)steps * step, part = element_time * (double)ir_type_elements(&n->type), least = all;
    for (int64_t parts = 2; parts <= most; parts++) {
        struct fuse_cut cut = fuse_find_cut(extent, n->attr[2].n, parts);
        double time = all / (double)cut.all + part * (double)cut.all + LAUNCH_TIME;
        if (cut.all > 1 && time < least) best = cut, least = time;
    }
    return best;
}

static struct fuse_cut cut_of(const struct pass_options *o, const struct ir_type *x, const struct ir_type *y,
                              const struct ir_node *n)
{
    int64_t steps = pass_extent(x, n->attr[2]), batch = pass_extent(x, n->attr[0]), extent[IR_MAX_RANK],
            most = steps / LEAST_STEPS;
    struct fuse_cut none = {.all = 1};
    if (!steps || !ir_type_elements(&n->type) || n->attr[2].n >= IR_MAX_RANK) return none;
    for (uint32_t i = 0; i < n->attr[2].n; i++) extent[i] = x->dim[n->attr[2].v[i]];
    if (!o->blocks) {
        int64_t parts = parts_of_workers(o, x, y, n, &most);
        int64_t unit = n->type.dtype == IR_BF16 ? 2 : 1; /* pairs */
        struct fuse_cut cut = cut_for_workers(extent, n->attr[2].n, parts, most, unit);
        return cut.all >= LEAST_PARTS ? cut : none;
    }
    int64_t tiles = batch * tiles_of(ir_type_elements(x) / (steps * batch), ir_type_elements(y) / (steps * batch));
    return cut_for_blocks(x, n, steps, extent, o->blocks / tiles < most ? o->blocks / tiles : most);
}

bool fuse_wants_split(const struct pass_options *o, const struct ir_func *f, ir_value v, struct arena *scratch)
{
    const struct ir_node *n = ir_get(f, v);
    if ((!o->blocks && !o->panel_columns) || n->op != OP_dot || !ir_dtype_is_float((enum ir_dtype)n->type.dtype))
        return false;
    const struct ir_type *x = ir_type(f, n->args[0]), *y = ir_type(f, n->args[1]);
    if (n->attr[4].n || n->attr[5].n || n->attr[6].n) return false;
    if (x->rank == IR_MAX_RANK || y->rank == IR_MAX_RANK || n->type.rank + n->attr[2].n > IR_MAX_RANK) return false;
    return cut_of(o, x, y, n).all > 1 && !is_view_of_many(f, n->args[0], scratch) &&
           !is_view_of_many(f, n->args[1], scratch);
}

/* The operand with its cut dimension as two; its batches, the parts first, and what is left to contract. */
struct cut_operand {
    ir_value value;
    int64_t batch[IR_MAX_RANK], contract[IR_MAX_RANK];
};

static void cut_operand(struct ir_builder *b, ir_value v, enum ir_dtype sum, struct ir_ints batch,
                        struct ir_ints contract, struct fuse_cut cut, struct cut_operand *out)
{
    struct ir_type from = *ir_type(b->f, v);
    int64_t shape[IR_MAX_RANK], at = contract.v[cut.at];
    for (uint32_t d = 0; d < from.rank; d++) shape[d + (d > at)] = from.dim[d];
    shape[at] = cut.parts, shape[at + 1] = from.dim[at] / cut.parts;
    for (uint32_t i = 0; i < contract.n; i++) {
        int64_t dim = contract.v[i] + (contract.v[i] >= at);
        if (i < cut.at) out->batch[i] = dim;
        else out->contract[i - cut.at] = dim;
    }
    out->batch[cut.at] = at;
    for (uint32_t i = 0; i < batch.n; i++) out->batch[cut.at + 1 + i] = batch.v[i] + (batch.v[i] > at);
    out->value = ir_cast(b, ir_reshape(b, v, from.rank + 1, shape), sum);
}

ir_value fuse_split(const struct pass_options *o, struct ir_builder *b, const struct ir_node *n, const ir_value *map)
{
    struct cut_operand x, y;
    ir_value from[] = {map[n->args[0]], map[n->args[1]]};
    struct fuse_cut cut = cut_of(o, ir_type(b->f, from[0]), ir_type(b->f, from[1]), n);
    enum ir_dtype dtype = (enum ir_dtype)n->type.dtype, sum = dtype == IR_F64 ? IR_F64 : IR_F32;
    int64_t parts[IR_MAX_RANK];
    uint32_t cuts = cut.at + 1, batch = cuts + n->attr[0].n, rest = n->attr[2].n - cut.at;
    cut_operand(b, from[0], sum, n->attr[0], n->attr[2], cut, &x);
    cut_operand(b, from[1], sum, n->attr[1], n->attr[3], cut, &y);
    bool narrow = vectors_of(o, ir_type(b->f, from[0]), ir_type(b->f, from[1]), n) > 0;
    uint32_t rows = narrow ? ir_type(b->f, x.value)->rank - batch - rest : 0; /* of narrow groups these are first */
    for (uint32_t i = 0; i < cuts; i++) parts[i] = rows + i;
    ir_value args[] = {x.value, y.value};
    int64_t one = 1;
    struct ir_node dot = {.op = OP_dot, .arg_count = 2, .args = args, .place = n->place};
    dot.attr[0] = (struct ir_ints){x.batch, batch}, dot.attr[1] = (struct ir_ints){y.batch, batch};
    dot.attr[2] = (struct ir_ints){x.contract, rest}, dot.attr[3] = (struct ir_ints){y.contract, rest};
    if (narrow) dot.attr[6] = (struct ir_ints){&one, 1};
    ir_value all = ir_reduce_plain(b, OP_reduce_sum, ir_make(b, dot), parts, cuts);
    if (narrow) { /* and last again */
        int64_t order[IR_MAX_RANK];
        for (uint32_t i = 0; i < n->type.rank; i++)
            order[i] = i < n->attr[0].n ? rows + i : i < n->attr[0].n + rows ? i - n->attr[0].n : i;
        all = ir_transpose(b, all, order);
    }
    return ir_cast(b, all, dtype);
}
