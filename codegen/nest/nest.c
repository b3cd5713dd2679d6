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

static struct nest_stmt *new_stmt(struct nest_builder *b, enum nest_kind kind)
{
    struct nest_stmt *stmt = arena_new(b->nest->arena, struct nest_stmt);
    stmt->kind = kind;
    return stmt;
}

static void append(struct nest_builder *b, uint32_t level, struct nest_stmt *stmt)
{
    if (level == 0) {
        vec_push(b->nest->arena, &b->nest->body, stmt);
    } else {
        struct nest_stmt *outer = b->stack[level - 1];
        vec_push(b->nest->arena, &outer->body, stmt);
    }
}

static struct nest_index copy_index(struct nest_builder *b, struct nest_index index)
{
    struct nest_index copy = index;
    if (index.term_count) copy.terms = arena_copy(b->nest->arena, index.terms, index.term_count * sizeof *index.terms);
    if (index.scaled_count)
        copy.scaled = arena_copy(b->nest->arena, index.scaled, index.scaled_count * sizeof *index.scaled);
    return copy;
}

static nest_value new_value(struct nest_builder *b, enum ir_dtype dtype, uint32_t level)
{
    struct nest_value_info info = {(uint8_t)dtype, (uint8_t)level, b->scope[level]};
    vec_push(b->nest->arena, &b->values, info);
    return b->nest->value_count++;
}

static uint32_t max_level(uint32_t a, uint32_t b) { return a > b ? a : b; }

static uint32_t index_level(const struct nest_builder *b, const struct nest_index *index)
{
    uint32_t level = 0;
    for (uint32_t i = 0; i < index->term_count; i++) level = max_level(level, b->var_level.items[index->terms[i].var]);
    for (uint32_t i = 0; i < index->scaled_count; i++)
        level = max_level(level, b->values.items[index->scaled[i].value].level);
    return level;
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

static uint64_t hash_index(uint64_t seed, const struct nest_index *index)
{
    uint64_t h = hash_u64(seed, (uint64_t)index->offset);
    for (uint32_t i = 0; i < index->term_count; i++) {
        h = hash_u64(h, index->terms[i].var);
        h = hash_u64(h, (uint64_t)index->terms[i].scale);
    }
    h = hash_u64(h, index->term_count);
    for (uint32_t i = 0; i < index->scaled_count; i++) {
        h = hash_u64(h, index->scaled[i].value);
        h = hash_u64(h, (uint64_t)index->scaled[i].scale);
    }
    return h;
}

/* Everything of one statement but its result and its body. */
static uint64_t hash_stmt(uint64_t seed, const struct nest_stmt *stmt)
{
    uint64_t h = hash_u64(seed, (uint64_t)stmt->kind | (uint64_t)stmt->op << 8 | (uint64_t)stmt->dtype << 24 |
                                    (uint64_t)stmt->loop << 32 | (uint64_t)stmt->lanes << 40 |
                                    (uint64_t)stmt->arg_count << 44 | (uint64_t)stmt->word << 48);
    for (uint32_t i = 0; i < stmt->arg_count; i++) h = hash_u64(h, stmt->args[i]);
    h = hash_u64(h, stmt->cond);
    h = hash_u64(h, stmt->var);
    h = hash_u64(h, (uint64_t)stmt->extent);
    h = hash_u64(h, (uint64_t)stmt->buffer << 32 | stmt->reg);
    h = hash_index(h, &stmt->index);
    uint64_t bits;
    memcpy(&bits, &stmt->number, sizeof bits);
    return hash_u64(h, bits);
}

/* Adds a pure statement at `level`, or returns the equal one that is visible here. */
static nest_value pure(struct nest_builder *b, struct nest_stmt *stmt, uint32_t level)
{
    uint64_t key = hash_stmt(17, stmt);
    uint32_t known = map_get_number(&b->shared, key);
    if (known != MAP_NONE) {
        const struct nest_value_info *info = &b->values.items[known];
        if (info->level <= b->depth && b->scope[info->level] == info->scope) return known;
    }
    stmt->index = copy_index(b, stmt->index);
    stmt->result = new_value(b, (enum ir_dtype)stmt->dtype, level);
    map_set_number(&b->shared, key, stmt->result);
    append(b, level, stmt);
    return stmt->result;
}

nest_var nest_open(struct nest_builder *b, enum nest_loop loop, int64_t extent)
{
    ASSERT(b->depth < NEST_DEPTH);
    struct nest_stmt *stmt = new_stmt(b, NEST_FOR);
    stmt->loop = (uint8_t)loop;
    stmt->extent = extent;
    stmt->var = b->nest->var_count++;
    b->stack[b->depth++] = stmt;
    b->scope[b->depth] = b->scope_count++;
    vec_push(b->nest->arena, &b->var_level, (uint8_t)b->depth);
    vec_push(b->nest->arena, &b->var_extent, extent);
    return stmt->var;
}

void nest_close(struct nest_builder *b)
{
    ASSERT(b->depth > 0);
    b->depth--;
    append(b, b->depth, b->stack[b->depth]);
}

void nest_open_if(struct nest_builder *b, nest_value cond)
{
    ASSERT(b->depth < NEST_DEPTH);
    struct nest_stmt *stmt = new_stmt(b, NEST_IF);
    stmt->cond = cond;
    stmt->extent = 1;
    b->stack[b->depth++] = stmt;
    b->scope[b->depth] = b->scope_count++;
}

nest_value nest_op(struct nest_builder *b, enum ir_op op, enum ir_dtype dtype, const nest_value *args, uint32_t n)
{
    struct nest_stmt *stmt = new_stmt(b, NEST_OP);
    uint32_t level = 0;
    stmt->op = (uint16_t)op;
    stmt->dtype = (uint8_t)dtype;
    stmt->arg_count = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) {
        stmt->args[i] = args[i];
        level = max_level(level, b->values.items[args[i]].level);
    }
    return pure(b, stmt, level);
}

nest_value nest_threefry(struct nest_builder *b, const nest_value *args, uint32_t word)
{
    struct nest_stmt *stmt = new_stmt(b, NEST_OP);
    uint32_t level = 0;
    stmt->op = OP_threefry;
    stmt->dtype = IR_U32;
    stmt->arg_count = 4;
    stmt->word = (uint8_t)word;
    for (uint32_t i = 0; i < 4; i++) {
        stmt->args[i] = args[i];
        level = max_level(level, b->values.items[args[i]].level);
    }
    return pure(b, stmt, level);
}

nest_value nest_fma(struct nest_builder *b, enum ir_dtype dtype, nest_value x, nest_value y, nest_value z)
{
    struct nest_stmt *stmt = new_stmt(b, NEST_FMA);
    stmt->dtype = (uint8_t)dtype;
    stmt->arg_count = 3;
    stmt->args[0] = x, stmt->args[1] = y, stmt->args[2] = z;
    uint32_t level = max_level(b->values.items[x].level, b->values.items[y].level);
    return pure(b, stmt, max_level(level, b->values.items[z].level));
}

nest_value nest_number(struct nest_builder *b, enum ir_dtype dtype, double number)
{
    struct nest_stmt *stmt = new_stmt(b, NEST_NUMBER);
    stmt->dtype = (uint8_t)dtype;
    stmt->number = number;
    return pure(b, stmt, 0);
}

nest_value nest_position(struct nest_builder *b, struct nest_index index)
{
    struct nest_stmt *stmt = new_stmt(b, NEST_POSITION);
    stmt->dtype = IR_I32;
    stmt->index = index;
    return pure(b, stmt, index_level(b, &index));
}

nest_value nest_load(struct nest_builder *b, uint32_t buffer, struct nest_index index, nest_value cond)
{
    struct nest_stmt *stmt = new_stmt(b, NEST_LOAD);
    const struct nest_buffer *from = &b->nest->buffers.items[buffer];
    stmt->dtype = from->dtype;
    stmt->buffer = buffer;
    stmt->index = index;
    stmt->cond = cond;
    if (from->written || from->local) {
        stmt->index = copy_index(b, index);
        stmt->result = new_value(b, (enum ir_dtype)from->dtype, b->depth);
        append(b, b->depth, stmt);
        return stmt->result;
    }
    uint32_t level = max_level(index_level(b, &index), guard_level(b));
    return pure(b, stmt, cond ? max_level(level, b->values.items[cond].level) : level);
}

static void effect(struct nest_builder *b, enum nest_kind kind, uint32_t buffer, uint32_t reg, struct nest_index index,
                   nest_value value, nest_value cond, enum ir_op op)
{
    struct nest_stmt *stmt = new_stmt(b, kind);
    stmt->buffer = buffer;
    stmt->reg = reg;
    stmt->index = copy_index(b, index);
    stmt->args[0] = value;
    stmt->arg_count = 1;
    stmt->cond = cond;
    stmt->op = (uint16_t)op;
    stmt->dtype = b->values.items[value].dtype;
    append(b, b->depth, stmt);
}

void nest_store(struct nest_builder *b, uint32_t buffer, struct nest_index index, nest_value value, nest_value cond)
{
    effect(b, NEST_STORE, buffer, 0, index, value, cond, IR_NONE);
}

void nest_add_to(struct nest_builder *b, uint32_t buffer, struct nest_index index, nest_value value)
{
    effect(b, NEST_ADD_TO, buffer, 0, index, value, 0, IR_NONE);
}

void nest_set(struct nest_builder *b, uint32_t reg, struct nest_index index, nest_value value)
{
    effect(b, NEST_SET, 0, reg, index, value, 0, IR_NONE);
}

void nest_reduce(struct nest_builder *b, enum ir_op op, uint32_t reg, struct nest_index index, nest_value value)
{
    effect(b, NEST_REDUCE, 0, reg, index, value, 0, op);
}

uint32_t nest_local(struct nest_builder *b, enum ir_dtype dtype, int64_t extent)
{
    struct nest_buffer buffer = {.dtype = (uint8_t)dtype, .written = true, .local = true, .extent = extent};
    struct nest_stmt *stmt = new_stmt(b, NEST_LOCAL);
    stmt->dtype = (uint8_t)dtype;
    stmt->extent = extent;
    stmt->buffer = add_buffer(b, buffer);
    uint64_t bytes = (uint64_t)extent * ir_dtype_bytes(dtype);
    b->nest->scratch_bytes += (bytes + 63) / 64 * 64;
    append(b, 0, stmt);
    return stmt->buffer;
}

uint32_t nest_reg(struct nest_builder *b, enum ir_dtype dtype, uint32_t count, bool lanes, double initial)
{
    struct nest_stmt *stmt = new_stmt(b, NEST_REG);
    stmt->args[0] = nest_number(b, dtype, initial);
    stmt->arg_count = 1;
    stmt->dtype = (uint8_t)dtype;
    stmt->reg = b->nest->reg_count++;
    stmt->extent = count;
    stmt->lanes = lanes;
    stmt->number = initial;
    append(b, b->depth, stmt);
    return stmt->reg;
}

static nest_value read_reg(struct nest_builder *b, enum nest_kind kind, enum ir_op op, uint32_t reg,
                           struct nest_index index, enum ir_dtype dtype)
{
    struct nest_stmt *stmt = new_stmt(b, kind);
    stmt->op = (uint16_t)op;
    stmt->reg = reg;
    stmt->dtype = (uint8_t)dtype;
    stmt->index = copy_index(b, index);
    stmt->result = new_value(b, dtype, b->depth);
    append(b, b->depth, stmt);
    return stmt->result;
}

/* The dtype a register was declared with. */
static enum ir_dtype reg_dtype_in(const struct nest_stmt *const *items, size_t count, uint32_t reg)
{
    for (size_t i = count; i-- > 0;)
        if (items[i]->kind == NEST_REG && items[i]->reg == reg) return (enum ir_dtype)items[i]->dtype;
    return IR_TUPLE;
}

static enum ir_dtype reg_dtype(const struct nest_builder *b, uint32_t reg)
{
    for (uint32_t level = b->depth + 1; level-- > 0;) {
        const struct nest_stmt *const *items;
        size_t count;
        if (level) {
            items = (const struct nest_stmt *const *)b->stack[level - 1]->body.items;
            count = b->stack[level - 1]->body.count;
        } else {
            items = (const struct nest_stmt *const *)b->nest->body.items;
            count = b->nest->body.count;
        }
        enum ir_dtype found = reg_dtype_in(items, count, reg);
        if (found != IR_TUPLE) return found;
    }
    BUG("register %u is not declared here", reg);
}

nest_value nest_get(struct nest_builder *b, uint32_t reg, struct nest_index index)
{
    return read_reg(b, NEST_GET, IR_NONE, reg, index, reg_dtype(b, reg));
}

nest_value nest_fold(struct nest_builder *b, enum ir_op op, uint32_t reg, struct nest_index index)
{
    return read_reg(b, NEST_FOLD, op, reg, index, reg_dtype(b, reg));
}

/* ---------------------------------------------------------------- hash */

static uint64_t hash_body(uint64_t h, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        h = hash_u64(hash_stmt(h, items[i]), items[i]->result);
        h = hash_body(h, items[i]->body.items, items[i]->body.count);
    }
    return hash_u64(h, count);
}

uint64_t nest_hash(const struct nest *nest)
{
    uint64_t h = hash_u64(nest->lanes, (uint64_t)nest->argument_count << 1 | nest->flat);
    for (size_t i = 0; i < nest->buffers.count; i++) {
        const struct nest_buffer *buffer = &nest->buffers.items[i];
        h = hash_u64(h, (uint64_t)buffer->dtype | (uint64_t)buffer->written << 8 | (uint64_t)buffer->local << 9);
        h = hash_u64(h, (uint64_t)buffer->extent);
    }
    return hash_body(h, nest->body.items, nest->body.count);
}
