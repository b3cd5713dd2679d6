/* Construction of loop nests. Pure statements are placed as far out as their operands allow and equal ones are
 * shared, so lowering may ask for the same value as often as it likes: address arithmetic, scalar hyper-parameters
 * and per-row values leave the inner loops by themselves. A load may move out too, because an argument that is
 * only read still holds its old value there even if an output shares its memory. */
#include "codegen/nest/nest.h"
#include <string.h>

struct nest *nest_new(struct arena *arena)
{
    struct nest *nest = arena_new(arena, struct nest);
    nest->arena = arena;
    nest->parallel_extent = 1;
    nest->grain = 1;
    nest->value_count = 1; /* value 0 means none */
    return nest;
}

void nest_builder_init(struct nest_builder *b, struct nest *nest)
{
    memset(b, 0, sizeof *b);
    b->nest = nest;
    b->shared = MAP(nest->arena);
    b->scope_count = 1;
    struct nest_value_info none = {0};
    vec_push(nest->arena, &b->values, none);
}

enum ir_dtype nest_dtype(const struct nest_builder *b, nest_value value)
{
    return (enum ir_dtype)b->values.items[value].dtype;
}

static uint32_t add_buffer(struct nest_builder *b, struct nest_buffer buffer)
{
    vec_push(b->nest->arena, &b->nest->buffers, buffer);
    return (uint32_t)b->nest->buffers.count - 1;
}

uint32_t nest_argument(struct nest_builder *b, enum ir_dtype dtype, bool written, const char *doc)
{
    struct nest_buffer buffer = {.dtype = (uint8_t)dtype, .written = written, .doc = doc};
    b->nest->argument_count++;
    return add_buffer(b, buffer);
}

/* ---------------------------------------------------------------- statements */

/* A copy that lives as long as the nest, with its index. */
static struct nest_stmt *keep(struct nest_builder *b, struct nest_stmt stmt)
{
    struct arena *arena = b->nest->arena;
    struct nest_index *index = &stmt.index;
    if (index->term_count) index->terms = arena_copy(arena, index->terms, index->term_count * sizeof *index->terms);
    if (index->scaled_count)
        index->scaled = arena_copy(arena, index->scaled, index->scaled_count * sizeof *index->scaled);
    return arena_copy(arena, &stmt, sizeof stmt);
}

static void append(struct nest_builder *b, uint32_t level, struct nest_stmt *stmt)
{
    if (level == 0) vec_push(b->nest->arena, &b->nest->body, stmt);
    else vec_push(b->nest->arena, &b->stack[level - 1]->body, stmt);
}

/* Adds a statement with a result. */
static nest_value define(struct nest_builder *b, uint32_t level, struct nest_stmt stmt)
{
    struct nest_value_info info = {stmt.dtype, (uint8_t)level, b->scope[level]};
    vec_push(b->nest->arena, &b->values, info);
    stmt.result = b->nest->value_count++;
    append(b, level, keep(b, stmt));
    return stmt.result;
}

/* The outermost level a load may move to: not out of a condition and not out of a loop that may run zero times. */
static uint32_t guard_level(const struct nest_builder *b)
{
    for (uint32_t level = b->depth; level > 0; level--) {
        const struct nest_stmt *outer = b->stack[level - 1];
        if (outer->kind == NEST_IF || outer->extent == 0) return level;
    }
    return 0;
}

static uint32_t max_level(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* The outermost loop where all that a pure statement uses is visible. */
static uint32_t level_of(const struct nest_builder *b, const struct nest_stmt *stmt)
{
    const struct nest_index *index = &stmt->index;
    uint32_t level = stmt->kind == NEST_LOAD || stmt->kind == NEST_CHECK ? guard_level(b) : 0;
    for (uint32_t i = 0; i < stmt->arg_count; i++) level = max_level(level, b->values.items[stmt->args[i]].level);
    for (uint32_t i = 0; i < index->term_count; i++) level = max_level(level, b->var_level.items[index->terms[i].var]);
    for (uint32_t i = 0; i < index->scaled_count; i++)
        level = max_level(level, b->values.items[index->scaled[i].value].level);
    return max_level(level, b->values.items[stmt->cond].level);
}

/* How many there are comes first, or what is a variable in one could be a value in another one. */
static uint64_t hash_index(uint64_t seed, const struct nest_index *index)
{
    uint64_t h = hash_u64(seed, (uint64_t)index->offset);
    h = hash_u64(h, (uint64_t)index->term_count << 32 | index->scaled_count);
    for (uint32_t i = 0; i < index->term_count; i++) {
        h = hash_u64(h, index->terms[i].var);
        h = hash_u64(h, (uint64_t)index->terms[i].scale);
    }
    for (uint32_t i = 0; i < index->scaled_count; i++) {
        h = hash_u64(h, index->scaled[i].value);
        h = hash_u64(h, (uint64_t)index->scaled[i].scale);
    }
    return h;
}

const struct nest_stmt *nest_parallel_in(const struct nest_stmt *parallel)
{
    for (size_t i = 0; i < parallel->body.count; i++) {
        const struct nest_stmt *s = parallel->body.items[i];
        if (s->kind == NEST_FOR && s->loop == NEST_PARALLEL) return s;
    }
    return NULL;
}

int64_t nest_inner(const struct nest_stmt *parallel)
{
    int64_t inner = 1;
    while ((parallel = nest_parallel_in(parallel))) inner *= parallel->extent;
    return inner;
}

static uint64_t hash_tiles(uint64_t h, const struct nest_tiles *t)
{
    h = hash_u64(h, (uint64_t)t->rows << 32 | t->columns);
    h = hash_u64(hash_u64(h, (uint64_t)t->steps), (uint64_t)t->stride);
    for (int i = 0; i < 2; i++) {
        h = hash_u64(hash_u64(h, t->from[i]), (uint64_t)t->apart[i]);
        h = hash_index(h, &t->at[i]);
    }
    return h;
}

static uint64_t hash_panels(uint64_t h, const struct nest_panels *p)
{
    h = hash_u64(hash_u64(h, p->columns), (uint64_t)p->steps);
    for (int i = 0; i < 2; i++) {
        h = hash_u64(h, (uint64_t)p->from[i] << 1 | p->steps_first[i]);
        h = hash_index(h, &p->at[i]);
    }
    return h;
}

static uint64_t hash_take(uint64_t h, const struct nest_take *t)
{
    h = hash_u64(hash_u64(h, (uint64_t)t->from << 2 | (uint64_t)t->left << 1 | t->steps_first), (uint64_t)t->size);
    h = hash_u64(hash_u64(hash_u64(h, (uint64_t)t->by), (uint64_t)t->count), (uint64_t)t->steps);
    return hash_index(hash_u64(h, (uint64_t)t->step), &t->at);
}

static uint8_t access_in(const struct nest_stmt *s, nest_var var, uint32_t argument)
{
    bool reads = s->kind == NEST_LOAD || s->kind == NEST_STORE || s->kind == NEST_ADD_TO || s->kind == NEST_PREFETCH;
    if (s->kind == NEST_COPY && s->from[0] == argument) return NEST_JUMPS;
    const struct nest_index *at = &s->index;
    bool own = at->term_count == 1 && at->terms[0].var == var && at->terms[0].scale == 1 && !at->offset;
    uint8_t bits = 0;
    if (reads && s->buffer == argument)
        bits = at->scaled_count ? NEST_JUMPS : !at->term_count ? NEST_STAYS : own ? NEST_WALKS : NEST_JUMPS;
    for (size_t i = 0; i < s->body.count; i++) bits |= access_in(s->body.items[i], var, argument);
    return bits;
}

uint8_t nest_access(const struct nest *nest, uint32_t argument)
{
    uint8_t bits = 0;
    for (size_t i = 0; i < nest->body.count; i++)
        bits |= access_in(nest->body.items[i], nest->body.items[i]->var, argument);
    return bits;
}

static bool kind_in(const struct nest_stmt *s, enum nest_kind kind)
{
    bool found = s->kind == kind;
    for (size_t i = 0; i < s->body.count && !found; i++) found = kind_in(s->body.items[i], kind);
    return found;
}

bool nest_has(const struct nest *nest, enum nest_kind kind)
{
    bool found = false;
    for (size_t i = 0; i < nest->body.count && !found; i++) found = kind_in(nest->body.items[i], kind);
    return found;
}

/* Everything of one statement but its result and its body; `shape`: see nest_shape. */
static uint64_t hash_stmt(uint64_t seed, const struct nest_stmt *stmt, bool shape)
{
    bool once = shape && stmt->kind == NEST_FOR && stmt->loop == NEST_PARALLEL;
    uint64_t h = hash_u64(seed, (uint64_t)stmt->kind | (uint64_t)stmt->op << 8 | (uint64_t)stmt->dtype << 24 |
                                    (uint64_t)stmt->loop << 32 | (uint64_t)stmt->lanes << 40 |
                                    (uint64_t)stmt->arg_count << 44 | (uint64_t)stmt->word << 48);
    for (uint32_t i = 0; i < stmt->arg_count; i++) h = hash_u64(h, stmt->args[i]);
    h = hash_u64(h, stmt->cond);
    h = hash_u64(h, stmt->var);
    h = hash_u64(h, once ? 1 : (uint64_t)stmt->extent);
    h = hash_u64(h, (uint64_t)stmt->buffer << 32 | stmt->reg);
    if (stmt->kind == NEST_MATRIX || stmt->kind == NEST_SPREAD || stmt->kind == NEST_COPY)
        h = hash_u64(h, (uint64_t)stmt->from[0] << 32 | stmt->from[1]);
    h = hash_index(h, &stmt->index);
    if (stmt->source) h = hash_index(h, stmt->source);
    if (stmt->tiles) h = hash_tiles(h, stmt->tiles);
    if (stmt->panels) h = hash_panels(h, stmt->panels);
    if (stmt->take) h = hash_take(h, stmt->take);
    uint64_t bits = 0;
    if (!shape || stmt->kind != NEST_NUMBER) memcpy(&bits, &stmt->number, sizeof bits);
    return hash_u64(h, bits);
}

/* Adds a pure statement, or returns the equal one that is visible here. */
static nest_value pure(struct nest_builder *b, struct nest_stmt stmt)
{
    uint64_t key = hash_stmt(17, &stmt, false);
    uint32_t known = map_get_number(&b->shared, key);
    if (known != MAP_NONE) {
        const struct nest_value_info *info = &b->values.items[known];
        if (info->level <= b->depth && b->scope[info->level] == info->scope) return known;
    }
    nest_value result = define(b, level_of(b, &stmt), stmt);
    map_set_number(&b->shared, key, result);
    return result;
}

/* A loop or condition, whose body follows. */
static void open_body(struct nest_builder *b, struct nest_stmt stmt)
{
    ASSERT(b->depth < NEST_DEPTH);
    b->stack[b->depth++] = keep(b, stmt);
    b->scope[b->depth] = b->scope_count++;
}

nest_var nest_open(struct nest_builder *b, enum nest_loop loop, int64_t extent)
{
    nest_var var = b->nest->var_count++;
    open_body(b, (struct nest_stmt){.kind = NEST_FOR, .loop = (uint8_t)loop, .extent = extent, .var = var});
    vec_push(b->nest->arena, &b->var_level, (uint8_t)b->depth);
    return var;
}

void nest_open_if(struct nest_builder *b, nest_value cond)
{
    open_body(b, (struct nest_stmt){.kind = NEST_IF, .cond = cond, .extent = 1});
}

void nest_close(struct nest_builder *b)
{
    ASSERT(b->depth > 0);
    b->depth--;
    append(b, b->depth, b->stack[b->depth]);
}

void nest_close_to(struct nest_builder *b, uint32_t depth)
{
    while (b->depth > depth) nest_close(b);
}

static nest_value operation(struct nest_builder *b, struct nest_stmt stmt, const nest_value *args, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) stmt.args[i] = args[i];
    stmt.arg_count = (uint8_t)count;
    return pure(b, stmt);
}

static bool is_number(const struct nest_builder *b, nest_value v, enum ir_dtype dtype, double number)
{
    struct nest_stmt stmt = {.kind = NEST_NUMBER, .dtype = (uint8_t)dtype, .number = number};
    return map_get_number(&b->shared, hash_stmt(17, &stmt, false)) == v;
}

nest_value nest_op(struct nest_builder *b, enum ir_op op, enum ir_dtype dtype, const nest_value *args, uint32_t n)
{
    if (op == OP_div && is_number(b, args[1], dtype, 1)) return args[0];
    return operation(b, (struct nest_stmt){.kind = NEST_OP, .op = (uint16_t)op, .dtype = (uint8_t)dtype}, args, n);
}

nest_value nest_threefry(struct nest_builder *b, const nest_value *args, uint32_t word)
{
    struct nest_stmt stmt = {.kind = NEST_OP, .op = OP_threefry, .dtype = IR_U32, .word = (uint8_t)word};
    return operation(b, stmt, args, 4);
}

nest_value nest_rough_exp(struct nest_builder *b, enum ir_dtype dtype, nest_value x)
{
    return operation(b, (struct nest_stmt){.kind = NEST_OP, .op = OP_exp, .dtype = (uint8_t)dtype, .word = 1}, &x, 1);
}

nest_value nest_fma(struct nest_builder *b, enum ir_dtype dtype, nest_value x, nest_value y, nest_value z)
{
    return operation(b, (struct nest_stmt){.kind = NEST_FMA, .dtype = (uint8_t)dtype}, (nest_value[]){x, y, z}, 3);
}

nest_value nest_number(struct nest_builder *b, enum ir_dtype dtype, double number)
{
    return pure(b, (struct nest_stmt){.kind = NEST_NUMBER, .dtype = (uint8_t)dtype, .number = number});
}

void nest_check(struct nest_builder *b, uint32_t site, struct nest_index index, const nest_value *args, uint32_t n,
                nest_value cond, nest_value mask, enum nest_given given)
{
    struct nest_stmt stmt = {.kind = NEST_CHECK,
                             .dtype = IR_BOOL,
                             .extent = site,
                             .index = index,
                             .cond = cond,
                             .lanes = mask != 0,
                             .word = (uint8_t)given};
    nest_value all[5];
    for (uint32_t i = 0; i < n; i++) all[i] = args[i];
    if (mask) all[n++] = mask;
    operation(b, stmt, all, n);
}

nest_value nest_position(struct nest_builder *b, enum ir_dtype dtype, struct nest_index index)
{
    return pure(b, (struct nest_stmt){.kind = NEST_POSITION, .dtype = dtype, .index = index});
}

static nest_value load(struct nest_builder *b, struct nest_stmt stmt)
{
    const struct nest_buffer *from = &b->nest->buffers.items[stmt.buffer];
    stmt.kind = NEST_LOAD;
    stmt.dtype = stmt.word ? IR_U32 : from->dtype;
    return from->written || from->local ? define(b, b->depth, stmt) : pure(b, stmt);
}

nest_value nest_load(struct nest_builder *b, uint32_t buffer, struct nest_index index, nest_value cond)
{
    return load(b, (struct nest_stmt){.buffer = buffer, .index = index, .cond = cond});
}

nest_value nest_load_pair(struct nest_builder *b, uint32_t buffer, struct nest_index index, nest_value cond)
{
    return load(b, (struct nest_stmt){.buffer = buffer, .index = index, .cond = cond, .word = 1});
}

static void effect(struct nest_builder *b, struct nest_stmt stmt, nest_value value)
{
    stmt.args[0] = value;
    stmt.arg_count = 1;
    stmt.dtype = b->values.items[value].dtype;
    append(b, b->depth, keep(b, stmt));
}

void nest_store(struct nest_builder *b, uint32_t buffer, struct nest_index index, nest_value value, nest_value cond)
{
    bool pair = b->nest->buffers.items[buffer].dtype == IR_BF16 && b->values.items[value].dtype == IR_U32;
    effect(b, (struct nest_stmt){.kind = NEST_STORE, .buffer = buffer, .index = index, .cond = cond, .word = pair},
           value);
}

void nest_prefetch(struct nest_builder *b, uint32_t buffer, struct nest_index index, int64_t ahead)
{
    struct nest_stmt stmt = {.kind = NEST_PREFETCH, .buffer = buffer, .index = index, .extent = ahead};
    append(b, b->depth, keep(b, stmt));
}

void nest_add_to(struct nest_builder *b, uint32_t buffer, struct nest_index index, nest_value value)
{
    effect(b, (struct nest_stmt){.kind = NEST_ADD_TO, .buffer = buffer, .index = index}, value);
}

void nest_set(struct nest_builder *b, uint32_t reg, struct nest_index index, nest_value value)
{
    effect(b, (struct nest_stmt){.kind = NEST_SET, .reg = reg, .index = index}, value);
}

void nest_reduce(struct nest_builder *b, enum ir_op op, uint32_t reg, struct nest_index index, nest_value value)
{
    effect(b, (struct nest_stmt){.kind = NEST_REDUCE, .op = (uint16_t)op, .reg = reg, .index = index}, value);
}

uint32_t nest_local(struct nest_builder *b, enum ir_dtype dtype, int64_t extent)
{
    uint32_t buffer = add_buffer(
        b, (struct nest_buffer){.dtype = (uint8_t)dtype, .written = true, .local = true, .extent = extent});
    struct nest_stmt stmt = {.kind = NEST_LOCAL, .dtype = (uint8_t)dtype, .extent = extent, .buffer = buffer};
    b->nest->scratch_bytes += ((uint64_t)extent * ir_dtype_bytes(dtype) + 63) / 64 * 64;
    append(b, 0, keep(b, stmt));
    return buffer;
}

uint32_t nest_reg(struct nest_builder *b, enum ir_dtype dtype, uint32_t count, bool lanes, double initial)
{
    uint32_t reg = b->nest->reg_count++;
    vec_push(b->nest->arena, &b->reg_dtype, (uint8_t)dtype);
    effect(b, (struct nest_stmt){.kind = NEST_REG, .reg = reg, .extent = count, .lanes = lanes, .number = initial},
           nest_number(b, dtype, initial));
    return reg;
}

nest_value nest_get(struct nest_builder *b, uint32_t reg, struct nest_index index)
{
    struct nest_stmt stmt = {.kind = NEST_GET, .reg = reg, .dtype = b->reg_dtype.items[reg], .index = index};
    return define(b, b->depth, stmt);
}

void nest_turn(struct nest_builder *b, uint32_t reg, uint32_t count)
{
    append(b, b->depth, keep(b, (struct nest_stmt){.kind = NEST_TURN, .reg = reg, .extent = count}));
}

void nest_spread(struct nest_builder *b, uint32_t reg, uint32_t from, struct nest_index first, int64_t each,
                 int64_t apart)
{
    struct nest_stmt stmt = {
        .kind = NEST_SPREAD, .reg = reg, .from = {from, (uint32_t)apart}, .index = first, .extent = each};
    append(b, b->depth, keep(b, stmt));
}

void nest_matrix(struct nest_builder *b, enum ir_dtype dtype, uint32_t sums, uint32_t left, uint32_t right)
{
    struct nest_stmt stmt = {.kind = NEST_MATRIX, .dtype = (uint8_t)dtype, .reg = sums, .from = {left, right}};
    append(b, b->depth, keep(b, stmt));
}

uint32_t nest_panel(struct nest_builder *b, int64_t extent, int64_t beside)
{
    uint32_t buffer = nest_local(b, IR_U32, extent);
    b->nest->buffers.items[buffer].swizzle = (uint8_t)(2 * beside);
    return buffer;
}

void nest_warpgroup(struct nest_builder *b, enum ir_dtype dtype, uint32_t sums, const struct nest_panels *panels)
{
    struct nest_stmt stmt = {.kind = NEST_WARPGROUP, .dtype = (uint8_t)dtype, .reg = sums};
    stmt.panels = arena_copy(b->nest->arena, panels, sizeof *panels);
    append(b, b->depth, keep(b, stmt));
}

void nest_take(struct nest_builder *b, uint32_t reg, const struct nest_take *take)
{
    struct nest_stmt stmt = {.kind = NEST_TAKE, .reg = reg};
    stmt.take = arena_copy(b->nest->arena, take, sizeof *take);
    append(b, b->depth, keep(b, stmt));
}

void nest_copy(struct nest_builder *b, uint32_t local, struct nest_index index, uint32_t from, struct nest_index source,
               nest_value cond)
{
    struct nest_stmt stmt = {.kind = NEST_COPY, .buffer = local, .index = index, .from = {from}, .cond = cond};
    stmt.source = arena_copy(b->nest->arena, &source, sizeof source);
    append(b, b->depth, keep(b, stmt));
}

void nest_copies(struct nest_builder *b) { append(b, b->depth, keep(b, (struct nest_stmt){.kind = NEST_COPIES})); }

void nest_arrived(struct nest_builder *b, int64_t but)
{
    append(b, b->depth, keep(b, (struct nest_stmt){.kind = NEST_ARRIVED, .extent = but}));
}

void nest_warpgroup_wait(struct nest_builder *b, uint32_t sums, int64_t but)
{
    append(b, b->depth, keep(b, (struct nest_stmt){.kind = NEST_WARPGROUP_WAIT, .reg = sums, .extent = but}));
}

void nest_tiles(struct nest_builder *b, uint32_t buffer, struct nest_index index, const struct nest_tiles *tiles,
                bool add)
{
    struct nest_stmt stmt = {.kind = NEST_TILES, .buffer = buffer, .index = index, .word = add};
    stmt.tiles = arena_copy(b->nest->arena, tiles, sizeof *tiles);
    append(b, b->depth, keep(b, stmt));
}

nest_value nest_fold(struct nest_builder *b, enum ir_op op, uint32_t reg, struct nest_index index)
{
    struct nest_stmt stmt = {
        .kind = NEST_FOLD, .op = (uint16_t)op, .reg = reg, .dtype = b->reg_dtype.items[reg], .index = index};
    return define(b, b->depth, stmt);
}

/* ---------------------------------------------------------------- hash */

static uint64_t hash_body(uint64_t h, struct nest_stmt *const *items, size_t count, bool shape)
{
    for (size_t i = 0; i < count; i++) {
        h = hash_u64(hash_stmt(h, items[i], shape), items[i]->result);
        h = hash_body(h, items[i]->body.items, items[i]->body.count, shape);
    }
    return hash_u64(h, count);
}

static uint64_t hash_nest(const struct nest *nest, bool shape)
{
    uint64_t h = hash_u64(nest->lanes, (uint64_t)nest->argument_count << 1 | nest->flat);
    for (size_t i = 0; i < nest->buffers.count; i++) {
        const struct nest_buffer *buffer = &nest->buffers.items[i];
        h = hash_u64(h, (uint64_t)buffer->dtype | (uint64_t)buffer->written << 8 | (uint64_t)buffer->local << 9 |
                            (uint64_t)buffer->checked << 10 | (uint64_t)buffer->level << 12 |
                            (uint64_t)buffer->swizzle << 20);
        h = hash_u64(h, (uint64_t)buffer->extent);
    }
    return hash_body(h, nest->body.items, nest->body.count, shape);
}

uint64_t nest_hash(const struct nest *nest) { return hash_nest(nest, false); }

uint64_t nest_shape(const struct nest *nest) { return hash_nest(nest, true); }
