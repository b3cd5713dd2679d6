/* What must be known of a nest before it is printed: what values and registers are, which loads are one access, and how
 * many threads its iterations and blocks have. */
#include "codegen/cuda/cuda_emit.h"

static void survey_register(struct cuda_emitter *e, const struct nest_stmt *s, bool in_vector)
{
    struct cuda_register *reg = &e->regs[s->reg];
    if (s->kind == NEST_REG)
        *reg = (struct cuda_register){
            .dtype = s->dtype, .lanes = s->lanes || in_vector, .in_vector = in_vector, .count = (uint32_t)s->extent};
    else if (s->kind == NEST_REDUCE && in_vector) reg->lanes = true;
    if ((s->kind == NEST_GET || s->kind == NEST_SET) && in_vector && reg->lanes && !reg->in_vector) reg->tile = true;
}

void cuda_survey(struct cuda_emitter *e, struct nest_stmt *const *items, size_t count, bool in_vector)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        if (s->result) {
            e->dtypes[s->result] = s->dtype;
            e->order.varies[s->result] = in_vector;
            cuda_learn(&e->order, s);
        }
        if (s->kind == NEST_REG || s->kind == NEST_GET || s->kind == NEST_SET || s->kind == NEST_REDUCE)
            survey_register(e, s, in_vector);
        if (s->kind == NEST_FOR) e->order.extent[s->var] = s->extent;
        if (s->kind == NEST_FOR && s->loop == NEST_VECTOR && !e->nest->flat)
            cuda_find_runs(e->nest, s, e->calls, e->runs);
        cuda_survey(e, s->body.items, s->body.count, in_vector || (s->kind == NEST_FOR && s->loop == NEST_VECTOR));
    }
}

/* Folds are known to be needed and tiles to be tiles only after all registers were seen. */
static bool uses_tile(const struct cuda_emitter *e, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        bool reg = s->kind == NEST_GET || s->kind == NEST_SET || s->kind == NEST_REDUCE;
        if ((reg && e->regs[s->reg].tile) || uses_tile(e, s->body.items, s->body.count)) return true;
    }
    return false;
}

bool cuda_is_solo(const struct cuda_emitter *e, const struct nest_stmt *vector, struct nest_stmt *const *items,
                  size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((items[i]->kind == NEST_ADD_TO && cuda_collides(&e->order, vector, items[i])) ||
            cuda_is_solo(e, vector, items[i]->body.items, items[i]->body.count))
            return true;
    return false;
}

int64_t cuda_local_bytes(const struct nest_buffer *buffer)
{
    int64_t extent = buffer->extent > 0 ? buffer->extent : 1;
    return (extent * (int64_t)ir_dtype_bytes((enum ir_dtype)buffer->dtype) + 63) / 64 * 64;
}

/* The longest vector loop, and the longest that needs a thread per iteration. */
struct lengths {
    int64_t longest, tile;
};

static void measure(struct cuda_emitter *e, struct nest_stmt *const *items, size_t count, struct lengths *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        e->folds = e->folds || (s->kind == NEST_FOLD && e->regs[s->reg].lanes);
        if (s->kind != NEST_FOR || s->loop != NEST_VECTOR) {
            measure(e, s->body.items, s->body.count, out);
            continue;
        }
        int64_t extent = s->extent < 0 ? INT64_MAX : s->extent;
        bool tile = uses_tile(e, s->body.items, s->body.count);
        if (cuda_is_solo(e, s, s->body.items, s->body.count)) {
            if (tile || s->extent < 0) BUG("additions that may meet in a tile or a flat map");
            continue;
        }
        out->longest = extent > out->longest ? extent : out->longest;
        if (tile && extent > out->tile) out->tile = extent;
    }
}

enum {
    SHORT = 128 /* of a row that a warp walks whatever their number */,
    MIDDLE = 1024 /* of one where a warp each keeps all schedulers busy */,
    LONG = 4096 /* of one that is worth the most threads, where rows are fewer than multiprocessors */,
    MOST_TEAMS = 8
};

/* Warps instead of blocks go through the iterations: these need no barrier of the block, and several share one. */
static uint32_t choose_teams(const struct cuda_emitter *e, const struct lengths *lengths)
{
    const struct nest *nest = e->nest;
    int64_t iterations = nest->parallel_extent, teams = iterations / CG_CUDA_BLOCKS, room = CUDA_SHARED_BYTES;
    bool fits = lengths->longest <= SHORT ||
                (lengths->longest <= MIDDLE && iterations >= CG_CUDA_BLOCKS / 2 * MOST_TEAMS);
    if (nest->flat || iterations < 2 || lengths->tile > CUDA_WARP || !fits) return 0;
    for (uint32_t i = nest->argument_count; i < nest->buffers.count; i++)
        room -= cuda_local_bytes(&nest->buffers.items[i]);
    if (room < 0) return 0;
    teams = teams < 1 ? 1 : teams < MOST_TEAMS ? teams : MOST_TEAMS;
    while (teams > 1 && (CUDA_SHARED_BYTES - room) * teams > CUDA_SHARED_BYTES) teams--;
    return (uint32_t)teams;
}

bool cuda_is_side_by_side(const struct cuda_emitter *e, const struct nest_stmt *loop, const struct nest_stmt *s)
{
    const struct nest_index *index = &s->index;
    int64_t along = 0;
    if ((s->kind != NEST_LOAD && s->kind != NEST_STORE) || s->cond || s->word) return false;
    for (uint32_t i = 0; i < index->term_count; i++) {
        if (index->terms[i].var == loop->var) along += index->terms[i].scale;
        else if (index->terms[i].scale % e->few) return false;
    }
    for (uint32_t i = 0; i < index->scaled_count; i++)
        if (e->order.varies[index->scaled[i].value] || index->scaled[i].scale % e->few) return false;
    return along == 1 && index->offset % e->few == 0;
}

/* A load of another element for every step of the loop. */
static bool walks(const struct cuda_emitter *e, const struct nest_stmt *loop, const struct nest_stmt *s)
{
    bool walks = false;
    for (uint32_t i = 0; i < s->index.term_count; i++) walks = walks || s->index.terms[i].var == loop->var;
    for (uint32_t i = 0; i < s->index.scaled_count; i++) walks = walks || e->order.varies[s->index.scaled[i].value];
    return walks && s->kind == NEST_LOAD;
}

/* As many as 16 bytes hold of the widest type that lies so. What is stored elsewhere, or added to, would be touched
 * once more for elements that are missing. */
static void choose_few(struct cuda_emitter *e)
{
    uint64_t widest = 0;
    const struct nest_stmt *loop = NULL;
    e->few = 1;
    for (size_t i = 0; e->nest->flat && i < e->nest->body.count; i++)
        if (e->nest->body.items[i]->kind == NEST_FOR) loop = e->nest->body.items[i];
    for (size_t i = 0; loop && i < loop->body.count; i++) {
        const struct nest_stmt *s = loop->body.items[i];
        bool is_access = s->kind == NEST_LOAD || s->kind == NEST_STORE, wide = cuda_is_side_by_side(e, loop, s);
        uint64_t bytes = is_access ? ir_dtype_bytes((enum ir_dtype)e->nest->buffers.items[s->buffer].dtype) : 0;
        if (wide && bytes > widest) widest = bytes;
        if (s->body.count || s->kind == NEST_ADD_TO || (s->kind == NEST_STORE && !wide)) loop = NULL;
    }
    if (loop && widest && widest < 16) e->few = (uint32_t)(16 / widest);
    for (size_t i = 0; loop && i < loop->body.count; i++)
        e->strays = e->strays ||
                    (walks(e, loop, loop->body.items[i]) && !cuda_is_side_by_side(e, loop, loop->body.items[i]));
    for (size_t i = 0; loop && i < loop->body.count; i++) /* an offset may cut it */
        if (loop->body.items[i]->kind == NEST_STORE && !cuda_is_side_by_side(e, loop, loop->body.items[i])) e->few = 1;
}

/* Is something of the buffer stored in the loop? What is loaded behind that would be loaded before. */
static bool stores_to(const struct nest_stmt *loop, uint32_t buffer)
{
    for (size_t i = 0; i < loop->body.count; i++)
        if (loop->body.items[i]->kind == NEST_STORE && loop->body.items[i]->buffer == buffer) return true;
    return false;
}

/* What moves along the row lies side by side and begins where an access of 16 bytes may. */
static bool is_wide_row(const struct cuda_emitter *e, const struct nest_stmt *row)
{
    for (size_t i = 0; i < row->body.count; i++) {
        const struct nest_stmt *s = row->body.items[i];
        bool is_access = s->kind == NEST_STORE || walks(e, row, s);
        if (s->body.count || s->kind == NEST_ADD_TO || s->kind == NEST_REG) return false;
        if (!is_access) continue;
        bool aligned = s->buffer >= e->nest->argument_count || (e->calls->aligned && e->calls->aligned[s->buffer]);
        if (!aligned || !cuda_is_side_by_side(e, row, s)) return false;
        if (s->kind == NEST_LOAD && stores_to(row, s->buffer)) return false;
    }
    return true;
}

/* Rows of which a thread has several elements are walked by neighbours, too. */
static void choose_rows(struct cuda_emitter *e, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        uint64_t widest = 0;
        choose_rows(e, s->body.items, s->body.count);
        if (s->kind != NEST_FOR || s->loop != NEST_VECTOR || s->extent <= (int64_t)e->team) continue;
        for (size_t k = 0; k < s->body.count; k++) {
            const struct nest_stmt *one = s->body.items[k];
            bool is_access = one->kind == NEST_STORE || one->kind == NEST_LOAD;
            uint64_t bytes = is_access ? ir_dtype_bytes((enum ir_dtype)e->nest->buffers.items[one->buffer].dtype) : 0;
            widest = bytes > widest ? bytes : widest;
        }
        for (e->few = widest ? CUDA_ACCESS / (uint32_t)widest : 1; e->few > 1; e->few /= 2)
            if (s->extent % e->few == 0 && is_wide_row(e, s)) break;
        e->fews[s->var] = e->few ? e->few : 1;
        e->few = 1;
    }
}

void cuda_choose_threads(struct cuda_emitter *e)
{
    struct lengths lengths = {0, 0};
    measure(e, e->nest->body.items, e->nest->body.count, &lengths);
    bool few = e->nest->parallel_extent < CG_CUDA_BLOCKS / 2 && !e->nest->flat && lengths.longest >= LONG;
    uint32_t threads = CUDA_WARP, most = few ? CUDA_MAX_THREADS : 256, teams = choose_teams(e, &lengths);
    while (threads < most && (int64_t)threads < lengths.longest) threads *= 2;
    while ((int64_t)threads < lengths.tile && threads < CUDA_MAX_THREADS) threads *= 2;
    if ((int64_t)threads < lengths.tile) BUG("a tile of %lld lanes", (long long)lengths.tile);
    choose_few(e);
    e->warps = teams > 0;
    e->team = e->warps ? CUDA_WARP : threads;
    e->kernel.teams = e->warps ? teams : 1;
    e->kernel.threads = e->team * e->kernel.teams;
    for (uint32_t i = 0; i <= e->nest->var_count; i++) e->fews[i] = 1;
    if (!e->nest->flat) choose_rows(e, e->nest->body.items, e->nest->body.count);
}

/* Of members, which may be small, each takes as many warps as it can use. */
void cuda_share_block(struct cuda_emitter *e)
{
    const struct nest *nest = e->nest;
    uint64_t bytes = e->folds ? sizeof(double) * e->team / CUDA_WARP : 0;
    uint32_t team = !nest->flat ? e->team : e->kernel.members ? CUDA_WARP : CUDA_SEQUENCE_THREADS;
    uint32_t teams = CUDA_SEQUENCE_THREADS / team;
    for (uint32_t i = nest->argument_count; i < nest->buffers.count; i++)
        bytes += (uint64_t)cuda_local_bytes(&nest->buffers.items[i]);
    while (teams > 1 && (bytes * teams > CUDA_SHARED_BYTES || (!nest->flat && teams / 2 >= nest->parallel_extent)))
        teams /= 2;
    e->team = team;
    e->warps = team == CUDA_WARP;
    e->meets = team < CUDA_SEQUENCE_THREADS && !e->warps;
    e->kernel.teams = teams;
    e->kernel.threads = team * teams;
}
