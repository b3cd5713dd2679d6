/* Prints loop nests as CUDA C: one kernel per nest. What cuda.h says about the mapping is kept by these rules:
 *
 *   - A value outside a vector loop is computed by every thread alike. So are loads there, gets of registers without
 *     lanes and folds, whose result all threads read from shared memory; conditions of `if` are therefore the same for
 *     all, and barriers may stand in them.
 *   - A store or addition outside a vector loop is thread 0's.
 *   - A lane register is an array of each thread. Where a vector loop gets or sets it, the loop has at most as many
 *     iterations as the block has threads, so that iteration and thread are one.
 *   - Between two accesses that may meet at one element from different threads stands a barrier (cuda_order.c). A loop
 *     is walked without printing until what its end leaves open is known at its beginning. What a loop needs to be
 *     closed when it is entered is closed before it.
 *   - Additions whose lanes may meet are left to thread 0, one lane after the other, in order.
 *   - Loops are printed as loops; unrolled ones carry the pragma, which makes register indices constant; long ones that
 * index no register are unrolled a few times only.
 *   - In a flat map a thread takes a few neighbours at a time (`few`), of what lies side by side by one access of up to
 * 16 bytes. Where they end before the range does, or memory is not aligned, they are loaded one by one, and the last
 * one is computed again in place of those that are missing. */
#include "codegen/cuda/cuda.h"
#include <stdarg.h>
#include <stepc/step_abi.h>

struct cuda_register {
    uint8_t dtype;
    bool lanes, in_vector, tile;
    uint32_t count;
};

struct emitter {
    struct str *out;
    struct arena *arena;
    const struct nest *nest;
    struct cuda_kernel kernel;
    const char *block, *blocks; /* of those that share [lo, hi) */
    int indent;
    uint32_t quiet;  /* > 0: walked, not printed */
    uint8_t *dtypes; /* by value */
    const struct cuda_calls *calls;
    struct cuda_order order;
    struct cuda_register *regs;
    bool folds, in_parallel;
    bool warps;    /* an iteration of the parallel loop is a warp's, else a block's */
    uint32_t team; /* threads that an iteration has */
    uint32_t few;  /* of a flat map: elements that a thread has at a time */
    const struct nest_stmt *vector;
    VEC(struct cuda_access) open; /* since the last barrier */
};

/* ---------------------------------------------------------------- what must be known before printing */

static void survey_register(struct emitter *e, const struct nest_stmt *s, bool in_vector)
{
    struct cuda_register *reg = &e->regs[s->reg];
    if (s->kind == NEST_REG)
        *reg = (struct cuda_register){
            .dtype = s->dtype, .lanes = s->lanes || in_vector, .in_vector = in_vector, .count = (uint32_t)s->extent};
    else if (s->kind == NEST_REDUCE && in_vector) reg->lanes = true;
    if ((s->kind == NEST_GET || s->kind == NEST_SET) && in_vector && reg->lanes && !reg->in_vector) reg->tile = true;
}

static void survey(struct emitter *e, struct nest_stmt *const *items, size_t count, bool in_vector)
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
        survey(e, s->body.items, s->body.count, in_vector || (s->kind == NEST_FOR && s->loop == NEST_VECTOR));
    }
}

/* Folds are known to be needed and tiles to be tiles only after all registers were seen. */
static bool uses_tile(const struct emitter *e, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        bool reg = s->kind == NEST_GET || s->kind == NEST_SET || s->kind == NEST_REDUCE;
        if ((reg && e->regs[s->reg].tile) || uses_tile(e, s->body.items, s->body.count)) return true;
    }
    return false;
}

static bool is_solo(const struct emitter *e, const struct nest_stmt *vector, struct nest_stmt *const *items,
                    size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((items[i]->kind == NEST_ADD_TO && cuda_collides(&e->order, vector, items[i])) ||
            is_solo(e, vector, items[i]->body.items, items[i]->body.count))
            return true;
    return false;
}

static int64_t local_bytes(const struct nest_buffer *buffer)
{
    int64_t extent = buffer->extent > 0 ? buffer->extent : 1;
    return (extent * (int64_t)ir_dtype_bytes((enum ir_dtype)buffer->dtype) + 63) / 64 * 64;
}

/* The longest vector loop, and the longest that needs a thread per iteration. */
struct lengths {
    int64_t longest, tile;
};

static void measure(struct emitter *e, struct nest_stmt *const *items, size_t count, struct lengths *out)
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
        if (is_solo(e, s, s->body.items, s->body.count)) {
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
static uint32_t choose_teams(const struct emitter *e, const struct lengths *lengths)
{
    const struct nest *nest = e->nest;
    int64_t iterations = nest->parallel_extent, teams = iterations / CG_CUDA_BLOCKS, room = CUDA_SHARED_BYTES;
    bool fits = lengths->longest <= SHORT ||
                (lengths->longest <= MIDDLE && iterations >= CG_CUDA_BLOCKS / 2 * MOST_TEAMS);
    if (nest->flat || iterations < 2 || lengths->tile > CUDA_WARP || !fits) return 0;
    for (uint32_t i = nest->argument_count; i < nest->buffers.count; i++) room -= local_bytes(&nest->buffers.items[i]);
    if (room < 0) return 0;
    teams = teams < 1 ? 1 : teams < MOST_TEAMS ? teams : MOST_TEAMS;
    while (teams > 1 && (CUDA_SHARED_BYTES - room) * teams > CUDA_SHARED_BYTES) teams--;
    return (uint32_t)teams;
}

/* Does the access of a flat map's loop touch neighbours one after the other? */
static bool is_side_by_side(const struct emitter *e, const struct nest_stmt *loop, const struct nest_stmt *s)
{
    const struct nest_index *index = &s->index;
    if ((s->kind != NEST_LOAD && s->kind != NEST_STORE) || s->cond || s->word || index->term_count != 1) return false;
    for (uint32_t i = 0; i < index->scaled_count; i++)
        if (e->order.varies[index->scaled[i].value] || index->scaled[i].scale % e->few) return false;
    return index->terms[0].var == loop->var && index->terms[0].scale == 1 && index->offset % e->few == 0;
}

/* As many as 16 bytes hold of the widest type that lies so. What is stored elsewhere, or added to, would be touched
 * once more for elements that are missing. */
static void choose_few(struct emitter *e)
{
    uint64_t widest = 0;
    const struct nest_stmt *loop = NULL;
    e->few = 1;
    for (size_t i = 0; e->nest->flat && i < e->nest->body.count; i++)
        if (e->nest->body.items[i]->kind == NEST_FOR) loop = e->nest->body.items[i];
    for (size_t i = 0; loop && i < loop->body.count; i++) {
        const struct nest_stmt *s = loop->body.items[i];
        bool is_access = s->kind == NEST_LOAD || s->kind == NEST_STORE, wide = is_side_by_side(e, loop, s);
        uint64_t bytes = is_access ? ir_dtype_bytes((enum ir_dtype)e->nest->buffers.items[s->buffer].dtype) : 0;
        if (wide && bytes > widest) widest = bytes;
        if (s->body.count || s->kind == NEST_ADD_TO || (s->kind == NEST_STORE && !wide)) loop = NULL;
    }
    if (loop && widest && widest < 16) e->few = (uint32_t)(16 / widest);
    for (size_t i = 0; loop && i < loop->body.count; i++) /* an offset may cut it */
        if (loop->body.items[i]->kind == NEST_STORE && !is_side_by_side(e, loop, loop->body.items[i])) e->few = 1;
}

static void choose_threads(struct emitter *e)
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
}

/* ---------------------------------------------------------------- text */

__attribute__((format(printf, 2, 3))) static void line(struct emitter *e, const char *format, ...)
{
    if (e->quiet) return;
    va_list list;
    va_start(list, format);
    str_addf(e->out, "%*s%s\n", 4 * e->indent, "", arena_vformat(e->arena, format, list));
    va_end(list);
}

static void open_brace(struct emitter *e, const char *head)
{
    line(e, "%s {", head);
    e->indent++;
}

static void close_brace(struct emitter *e)
{
    e->indent--;
    line(e, "}");
}

static const char *name_of(struct emitter *e, nest_value v) { return arena_format(e->arena, "v%u", v); }

static void add_term(struct str *out, int64_t scale, const char *what)
{
    if (out->length) str_add(out, scale < 0 ? " - " : " + ");
    else if (scale < 0) str_add(out, "-");
    unsigned long long size = scale < 0 ? 0 - (unsigned long long)scale : (unsigned long long)scale;
    if (size != 1) str_addf(out, "%llull * ", size);
    str_add(out, what);
}

static const char *index_text(struct emitter *e, const struct nest_index *index)
{
    struct str out = STR(e->arena);
    for (uint32_t i = 0; i < index->term_count; i++)
        if (index->terms[i].scale)
            add_term(&out, index->terms[i].scale, arena_format(e->arena, "i%u", index->terms[i].var));
    for (uint32_t i = 0; i < index->scaled_count; i++)
        if (index->scaled[i].scale)
            add_term(&out, index->scaled[i].scale, arena_format(e->arena, "(long long)v%u", index->scaled[i].value));
    if (!out.length) str_addf(&out, "%lld", (long long)index->offset);
    else if (index->offset)
        str_addf(&out, " %c %lld", index->offset < 0 ? '-' : '+',
                 (long long)(index->offset < 0 ? -index->offset : index->offset));
    return str_text(&out);
}

static const char *element(struct emitter *e, char kind, uint32_t number, const struct nest_index *index)
{
    return arena_format(e->arena, "%c%u[%s]", kind, number, index_text(e, index));
}

/* ---------------------------------------------------------------- barriers */

static void barrier(struct emitter *e)
{
    line(e, e->warps ? "__syncwarp();" : "__syncthreads();");
    e->open.count = 0;
}

static void add_open(struct emitter *e, struct cuda_access access)
{
    for (size_t i = 0; i < e->open.count; i++)
        if (e->open.items[i].stmt == access.stmt) return;
    vec_push(e->arena, &e->open, access);
}

static bool meets(const struct emitter *e, const struct cuda_access *access)
{
    for (size_t i = 0; i < e->open.count; i++)
        if (cuda_conflict(&e->order, &e->open.items[i], access)) return true;
    return false;
}

static bool is_access(const struct nest_stmt *s)
{
    return s->kind == NEST_LOAD || s->kind == NEST_STORE || s->kind == NEST_ADD_TO;
}

static struct cuda_access access_of(const struct emitter *e, const struct nest_stmt *s, const struct nest_stmt *vector,
                                    bool solo)
{
    bool whole = e->nest->parallel_extent == 1 && !e->nest->flat;
    return (struct cuda_access){.stmt = s, .vector = vector, .solo = solo, .before = !e->in_parallel && !whole};
}

/* Does one access in these statements, at whatever depth, meet one that is open? */
static bool body_meets(const struct emitter *e, const struct nest_stmt *vector, bool solo,
                       struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        bool here = s->kind == NEST_FOR && s->loop == NEST_VECTOR;
        struct cuda_access access = access_of(e, s, vector, solo);
        if (is_access(s) && meets(e, &access)) return true;
        bool alone = here ? is_solo(e, s, s->body.items, s->body.count) : solo;
        if (body_meets(e, here ? s : vector, alone, s->body.items, s->body.count)) return true;
    }
    return false;
}

static void open_loop_accesses(struct emitter *e, const struct nest_stmt *vector, bool solo,
                               struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_access(items[i])) add_open(e, access_of(e, items[i], vector, solo));
        open_loop_accesses(e, vector, solo, items[i]->body.items, items[i]->body.count);
    }
}

static void order_access(struct emitter *e, const struct nest_stmt *s)
{
    struct cuda_access access = access_of(e, s, NULL, false);
    if (meets(e, &access)) barrier(e);
    add_open(e, access);
}

static size_t keep_open(struct emitter *e, struct cuda_access **out)
{
    *out = arena_copy(e->arena, e->open.items, e->open.count * sizeof **out);
    return e->open.count;
}

static void merge_open(struct emitter *e, const struct cuda_access *kept, size_t count)
{
    for (size_t i = 0; i < count; i++) add_open(e, kept[i]);
}

/* ---------------------------------------------------------------- statements */

static void print_body(struct emitter *e, struct nest_stmt *const *items, size_t count);

/* Walks a body that may run any number of times: what its end leaves open may be open at its beginning. */
static void print_repeated(struct emitter *e, const struct nest_stmt *s)
{
    struct cuda_access *kept;
    size_t count = keep_open(e, &kept), before;
    e->quiet++;
    do {
        before = count;
        print_body(e, s->body.items, s->body.count);
        merge_open(e, kept, count);
        count = keep_open(e, &kept);
    } while (count != before);
    e->quiet--;
    print_body(e, s->body.items, s->body.count);
    merge_open(e, kept, count); /* the loop may not run at all */
}

static void print_lanes(struct emitter *e, const struct nest_stmt *s)
{
    e->vector = s;
    print_body(e, s->body.items, s->body.count);
    e->vector = NULL;
}

/* The loop of a flat map by a few elements: their loads, the work for each of them, their stores. */
static void print_few(struct emitter *e, const struct nest_stmt *s)
{
    uint32_t few = e->few;
    struct str aligned = STR(e->arena);
    for (size_t i = 0; i < s->body.count; i++)
        if (is_side_by_side(e, s, s->body.items[i]))
            str_addf(&aligned, " && stepc_is_aligned<%u>(b%u)", few, s->body.items[i]->buffer);
    line(e, "const bool wide = lo %% %u == 0%s;", few, str_text(&aligned));
    open_brace(e, arena_format(e->arena,
                               "for (long long at = lo + ((long long)%s * %u + thread) * %u; at < hi; at += "
                               "(long long)%s * %u)",
                               e->block, e->team, few, e->blocks, e->team * few));
    line(e, "const long long i%u = at;", s->var);
    line(e, "const int count = hi - at < %u ? (int)(hi - at) : %u;", few, few);
    line(e, "const bool whole = wide && count == %u;", few);
    for (size_t i = 0; i < s->body.count; i++) {
        const struct nest_stmt *one = s->body.items[i];
        const struct nest_buffer *buffer = &e->nest->buffers.items[one->buffer];
        if (!is_side_by_side(e, s, one)) continue;
        if (one->kind == NEST_LOAD)
            line(e, "const auto few%u = stepc_load_few<%u>(b%u + (%s), count, whole);", one->result, few, one->buffer,
                 index_text(e, &one->index));
        else line(e, "stepc_few<%s, %u> out%u;", cuda_memory_type((enum ir_dtype)buffer->dtype), few, one->buffer);
    }
    line(e, "#pragma unroll");
    open_brace(e, arena_format(e->arena, "for (int k = 0; k < %u; k++)", few));
    line(e, "const long long i%u = at + (k < count ? k : count - 1);", s->var);
    print_lanes(e, s);
    close_brace(e);
    for (size_t i = 0; i < s->body.count; i++) {
        const struct nest_stmt *one = s->body.items[i];
        if (one->kind == NEST_STORE)
            line(e, "stepc_store_few(b%u + (%s), out%u, count, whole);", one->buffer, index_text(e, &one->index),
                 one->buffer);
    }
    close_brace(e);
}

enum { UNROLLED = 8 /* steps of a thread, whose loads are then under way together */ };

static void print_vector(struct emitter *e, const struct nest_stmt *s)
{
    bool solo = is_solo(e, s, s->body.items, s->body.count);
    uint32_t threads = e->team;
    if (body_meets(e, s, solo, s->body.items, s->body.count)) barrier(e);
    open_loop_accesses(e, s, solo, s->body.items, s->body.count);
    if (e->quiet) return;
    if (s->extent < 0 && e->few > 1) {
        print_few(e, s);
        return;
    }
    if (s->extent < 0)
        open_brace(e, arena_format(e->arena,
                                   "for (long long i%u = lo + (long long)%s * %u + thread; i%u < hi; i%u += "
                                   "(long long)%s * %u)",
                                   s->var, e->block, threads, s->var, s->var, e->blocks, threads));
    else if (solo)
        open_brace(e, arena_format(e->arena, "for (long long i%u = 0; i%u < (thread == 0 ? %lldll : 0); i%u++)", s->var,
                                   s->var, (long long)s->extent, s->var));
    else if (s->extent > threads) {
        if (s->extent % threads == 0 && s->extent / threads <= UNROLLED) line(e, "#pragma unroll");
        open_brace(e, arena_format(e->arena, "for (long long i%u = thread; i%u < %lldll; i%u += %u)", s->var, s->var,
                                   (long long)s->extent, s->var, threads));
    } else
        open_brace(e, s->extent == threads ? "" : arena_format(e->arena, "if (thread < %lld)", (long long)s->extent));
    if (s->extent >= 0 && !solo && s->extent <= threads) line(e, "const long long i%u = thread;", s->var);
    print_lanes(e, s);
    close_brace(e);
}

/* One loop over the iterations of all parallel loops, and where each of them stands. */
static void open_parallel(struct emitter *e, const struct nest_stmt *s)
{
    int64_t inner = nest_inner(s);
    inner = inner ? inner : 1; /* nothing runs */
    if (inner == 1) {
        open_brace(e, arena_format(e->arena, "for (long long i%u = lo + %s; i%u < hi; i%u += %s)", s->var, e->block,
                                   s->var, s->var, e->blocks));
        for (; (s = nest_parallel_in(s));) line(e, "const long long i%u = 0;", s->var);
        return;
    }
    bool small = e->nest->parallel_extent <= INT32_MAX; /* 64-bit divisions are loops */
    const char *type = small ? "unsigned" : "long long";
    open_brace(e, arena_format(e->arena, "for (long long at = lo + %s; at < hi; at += %s)", e->block, e->blocks));
    line(e, "const long long i%u = (%s)at / %lld;", s->var, type, (long long)inner);
    while ((s = nest_parallel_in(s))) {
        inner = nest_inner(s);
        line(e, "const long long i%u = (%s)at / %lld %% %lld;", s->var, type, (long long)(inner ? inner : 1),
             (long long)(s->extent ? s->extent : 1));
    }
}

/* Does a loop load and reduce, and nothing else that would keep the next steps' loads from being under way? */
static bool only_reduces(const struct nest_stmt *s)
{
    for (size_t i = 0; i < s->body.count; i++) {
        const struct nest_stmt *one = s->body.items[i];
        bool lanes = one->kind == NEST_FOR && (one->loop == NEST_VECTOR || one->extent == 1);
        if (lanes ? !only_reduces(one) : one->kind != NEST_REDUCE && !one->result) return false;
    }
    return true;
}

static void print_for(struct emitter *e, const struct nest_stmt *s)
{
    if (s->extent == 0 && s->loop != NEST_PARALLEL) return;
    if (s->loop == NEST_VECTOR) {
        print_vector(e, s);
        return;
    }
    bool parallel = s->loop == NEST_PARALLEL && !e->in_parallel, inner = s->loop == NEST_PARALLEL && e->in_parallel;
    if ((s->extent == 1 && !parallel) || inner) {
        open_brace(e, "");
        if (!inner) line(e, "const long long i%u = 0;", s->var);
        print_body(e, s->body.items, s->body.count);
        close_brace(e);
        return;
    }
    /* Before the loop rather than in it, where it would be met in every iteration. */
    if (body_meets(e, NULL, false, s->body.items, s->body.count)) barrier(e);
    int64_t times = s->loop == NEST_UNROLL ? cuda_unroll(s) : 0;
    if (times && times == s->extent) line(e, "#pragma unroll");
    else if (times) line(e, "#pragma unroll %lld", (long long)times);
    else if (!parallel && s->extent >= UNROLLED && only_reduces(s)) line(e, "#pragma unroll %d", UNROLLED);
    if (parallel) open_parallel(e, s);
    else
        open_brace(e, arena_format(e->arena, "for (long long i%u = 0; i%u < %lldll; i%u++)", s->var, s->var,
                                   (long long)s->extent, s->var));
    e->in_parallel = e->in_parallel || parallel;
    print_repeated(e, s);
    e->in_parallel = e->in_parallel && !parallel;
    close_brace(e);
}

static void print_if(struct emitter *e, const struct nest_stmt *s)
{
    struct cuda_access *kept;
    size_t count = keep_open(e, &kept);
    open_brace(e, arena_format(e->arena, "if (v%u)", s->cond));
    print_body(e, s->body.items, s->body.count);
    close_brace(e);
    merge_open(e, kept, count);
}

static const char *op_text(struct emitter *e, const struct nest_stmt *s)
{
    const char *args[4] = {NULL};
    for (uint32_t i = 0; i < s->arg_count; i++) args[i] = name_of(e, s->args[i]);
    if (s->kind == NEST_FMA) return cuda_fma(e->arena, (enum ir_dtype)s->dtype, args);
    enum ir_dtype operand = (enum ir_dtype)e->dtypes[s->args[s->op == OP_select ? 1 : 0]];
    return cuda_op(e->arena, (enum ir_op)s->op, (enum ir_dtype)s->dtype, operand, s->word, args);
}

static const char *combine_text(struct emitter *e, const struct nest_stmt *s, const char *x, const char *y)
{
    enum ir_dtype dtype = (enum ir_dtype)e->regs[s->reg].dtype;
    return cuda_op(e->arena, (enum ir_op)s->op, dtype, dtype, 0, (const char *const[]){x, y});
}

static const char *load_text(struct emitter *e, const struct nest_stmt *s)
{
    enum ir_dtype dtype = (enum ir_dtype)e->nest->buffers.items[s->buffer].dtype;
    const char *place = element(e, 'b', s->buffer, &s->index);
    const char *text = s->word ? arena_format(e->arena, "*(const unsigned *)&%s", place)
                               : cuda_from_memory(e->arena, dtype, place);
    if (!s->cond) return text;
    return arena_format(e->arena, "v%u ? %s : (%s)0", s->cond, text, cuda_register_type((enum ir_dtype)s->dtype));
}

static const char *fold_text(struct emitter *e, const struct nest_stmt *s)
{
    const struct cuda_register *reg = &e->regs[s->reg];
    const char *place = element(e, 'r', s->reg, &s->index), *type = cuda_register_type((enum ir_dtype)reg->dtype);
    if (!reg->lanes) return place;
    return arena_format(e->arena, "stepc_fold<%u>(%s, %s, [](%s x, %s y) -> %s { return %s; })", e->team,
                        e->team > CUDA_WARP ? "folded" : "0", place, type, type, type, combine_text(e, s, "x", "y"));
}

static const char *number_text(struct emitter *e, const struct nest_stmt *s)
{
    for (uint32_t i = 0; i < e->calls->number_count; i++)
        if (e->calls->numbers[i] == s->result)
            return arena_format(e->arena, s->dtype == IR_U32 ? "number_%u" : "stepc_bits<float>(number_%u)", i);
    return cuda_number(e->arena, (enum ir_dtype)s->dtype, s->number);
}

static void print_value(struct emitter *e, const struct nest_stmt *s)
{
    const char *text = NULL;
    bool few = s->kind == NEST_LOAD && e->vector && e->few > 1 && is_side_by_side(e, e->vector, s);
    if (s->kind == NEST_LOAD && !e->vector) order_access(e, s);
    if (s->kind == NEST_GET && e->regs[s->reg].lanes && !e->vector)
        BUG("a lane register is read outside a vector loop");
    if (s->kind == NEST_FOLD && e->regs[s->reg].lanes && e->team > CUDA_WARP)
        e->open.count = 0; /* it has barriers of its own; shuffles order no memory */
    if (e->quiet) return;
    switch (s->kind) {
    case NEST_NUMBER: text = number_text(e, s); break;
    case NEST_POSITION: text = arena_format(e->arena, "(int)(%s)", index_text(e, &s->index)); break;
    case NEST_LOAD:
        text = few ? cuda_from_memory(e->arena, (enum ir_dtype)e->nest->buffers.items[s->buffer].dtype,
                                      arena_format(e->arena, "few%u.item[k]", s->result))
                   : load_text(e, s);
        break;
    case NEST_GET: text = element(e, 'r', s->reg, &s->index); break;
    case NEST_FOLD: text = fold_text(e, s); break;
    default: text = op_text(e, s); break;
    }
    line(e, "const %s v%u = %s;", cuda_register_type((enum ir_dtype)s->dtype), s->result, text);
}

static void print_store(struct emitter *e, const struct nest_stmt *s)
{
    enum ir_dtype dtype = (enum ir_dtype)e->nest->buffers.items[s->buffer].dtype;
    if (!e->vector) order_access(e, s);
    if (e->quiet) return;
    const char *place = element(e, 'b', s->buffer, &s->index), *value = name_of(e, s->args[0]), *guard = "";
    if (e->vector && e->few > 1) place = arena_format(e->arena, "out%u.item[k]", s->buffer);
    if (s->kind == NEST_ADD_TO) {
        const char *args[] = {cuda_from_memory(e->arena, dtype, place), value};
        if (dtype == IR_BOOL) args[0] = arena_format(e->arena, "(%s)", args[0]);
        value = cuda_op(e->arena, OP_add, dtype, dtype, 0, args);
    }
    if (!e->vector) guard = s->cond ? arena_format(e->arena, "if (thread == 0 && v%u) ", s->cond) : "if (thread == 0) ";
    else if (s->cond) guard = arena_format(e->arena, "if (v%u) ", s->cond);
    const char *stored = cuda_to_memory(e->arena, dtype, value);
    if (!e->nest->buffers.items[s->buffer].checked) line(e, "%s%s = %s;", guard, place, stored);
    else line(e, "%s{ %s = %s; bad |= stepc_not_finite(%s); }", guard, place, stored, value);
}

static void print_register(struct emitter *e, const struct nest_stmt *s)
{
    const struct cuda_register *reg = &e->regs[s->reg];
    const char *place;
    if (e->quiet) return;
    if (s->kind == NEST_REG) {
        line(e, "%s r%u[%lld];", cuda_register_type((enum ir_dtype)s->dtype), s->reg, (long long)s->extent);
        if (s->extent > 1) line(e, "#pragma unroll");
        line(e, "for (int i = 0; i < %lld; i++) r%u[i] = v%u;", (long long)s->extent, s->reg, s->args[0]);
        return;
    }
    if (reg->lanes != (e->vector != NULL) && (reg->lanes || s->kind == NEST_SET))
        BUG("register %u is set %s a vector loop", s->reg, reg->lanes ? "outside" : "for all lanes inside");
    place = element(e, 'r', s->reg, &s->index);
    line(e, "%s = %s;", place,
         s->kind == NEST_SET ? name_of(e, s->args[0]) : combine_text(e, s, place, name_of(e, s->args[0])));
}

static void print_matrix(struct emitter *e, const struct nest_stmt *s)
{
    line(e, "stepc_matrix_%s<%u, %u>(r%u, r%u, r%u);", s->dtype == IR_BF16 ? "bf16" : "f16",
         e->regs[s->from[0]].count / 4, e->regs[s->from[1]].count / 2, s->reg, s->from[0], s->from[1]);
}

static void print_stmt(struct emitter *e, const struct nest_stmt *s)
{
    switch (s->kind) {
    case NEST_FOR: print_for(e, s); break;
    case NEST_IF: print_if(e, s); break;
    case NEST_OP:
    case NEST_FMA:
    case NEST_NUMBER:
    case NEST_POSITION:
    case NEST_LOAD:
    case NEST_GET:
    case NEST_FOLD: print_value(e, s); break;
    case NEST_STORE:
    case NEST_ADD_TO: print_store(e, s); break;
    case NEST_REG:
    case NEST_SET:
    case NEST_REDUCE: print_register(e, s); break;
    case NEST_MATRIX: print_matrix(e, s); break;
    case NEST_PREFETCH: break;
    case NEST_LOCAL: break; /* at the kernel's head */
    default: BUG("statement kind %d", (int)s->kind);
    }
}

static void print_body(struct emitter *e, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) print_stmt(e, items[i]);
}

/* ---------------------------------------------------------------- the kernel */

/* Locals go to shared memory in order while they fit, the rest to this block's part of the scratch. */
static void place_locals(struct emitter *e, struct str *out)
{
    const struct nest *nest = e->nest;
    if (e->folds && e->team > CUDA_WARP) {
        e->kernel.shared_bytes = 8 * (uint64_t)e->team / CUDA_WARP;
        str_addf(out, "    __shared__ double folded[%u];\n", e->team / CUDA_WARP);
    }
    struct str scratch = STR(e->arena);
    for (uint32_t i = nest->argument_count; i < nest->buffers.count; i++) {
        const struct nest_buffer *buffer = &nest->buffers.items[i];
        const char *type = cuda_memory_type((enum ir_dtype)buffer->dtype);
        int64_t extent = buffer->extent > 0 ? buffer->extent : 1;
        uint64_t bytes = (uint64_t)local_bytes(buffer) * e->kernel.teams;
        if (e->kernel.shared_bytes + bytes <= CUDA_SHARED_BYTES) {
            if (e->kernel.teams == 1)
                str_addf(out, "    __shared__ __align__(16) %s b%u[%lld];\n", type, i, (long long)extent);
            else
                str_addf(out,
                         "    __shared__ __align__(16) %s of_teams_%u[%u][%lld];\n    %s *const b%u = "
                         "of_teams_%u[threadIdx.x / %u];\n",
                         type, i, e->kernel.teams, (long long)extent, type, i, i, e->team);
            e->kernel.shared_bytes += bytes;
        } else {
            str_addf(&scratch, "    %s *b%u = (%s *)(block + %llu);\n", type, i, type,
                     (unsigned long long)e->kernel.scratch_bytes);
            e->kernel.scratch_bytes += bytes;
        }
    }
    if (e->kernel.scratch_bytes)
        str_addf(out, "    unsigned char *block = scratch + (long long)blockIdx.x * %llull;\n%s",
                 (unsigned long long)e->kernel.scratch_bytes, str_text(&scratch));
}

/* What follows the buffers, in the order of step_abi.h. */
static void print_rest(struct emitter *e)
{
    str_addf(e->out, "%s%s", e->kernel.scratch_bytes ? ", unsigned char *scratch" : "",
             e->kernel.checks ? ", unsigned *flag" : "");
    for (uint32_t i = 0; i < e->calls->number_count; i++) str_addf(e->out, ", unsigned number_%u", i);
    str_add(e->out, ")\n{\n");
}

/* Which member of a table the block is of, and that one's buffers. */
static void print_members(struct emitter *e)
{
    const struct nest *nest = e->nest;
    uint32_t stride = nest->argument_count + STEPC_CUDA_MEMBER_WORDS;
    str_addf(e->out, "(const __grid_constant__ stepc_table<%u> table", 1 + e->kernel.members * stride);
    print_rest(e);
    line(e, "const stepc_member member = stepc_find_member(table.word, %u);", stride);
    for (uint32_t i = 0; i < nest->argument_count; i++) {
        const struct nest_buffer *buffer = &nest->buffers.items[i];
        const char *type = cuda_memory_type((enum ir_dtype)buffer->dtype), *kept = buffer->written ? "" : "const ";
        line(e, "%s%s *const b%u = (%s%s *)stepc_global(table.word[member.at + %u]);", kept, type, i, kept, type, i);
    }
    line(e, "const long long lo = 0, hi = member.extent;");
    e->block = "member.block", e->blocks = "member.blocks";
}

/* What no other argument shares memory with may be read and written in any order beside these. */
static void print_parameters(struct emitter *e)
{
    const struct nest *nest = e->nest;
    const bool *shares = e->calls->shares;
    str_add(e->out, "(");
    for (uint32_t i = 0; i < nest->argument_count; i++) {
        const struct nest_buffer *buffer = &nest->buffers.items[i];
        str_addf(e->out, "%s%s *%sb%u, ", buffer->written ? "" : "const ",
                 cuda_memory_type((enum ir_dtype)buffer->dtype), shares && !shares[i] ? "__restrict__ " : "", i);
    }
    str_add(e->out, "long long lo, long long hi");
    print_rest(e);
    e->block = "blockIdx.x", e->blocks = "gridDim.x";
}

static void print_head(struct emitter *e, const char *locals)
{
    str_addf(e->out, "extern \"C\" __global__ void __launch_bounds__(%u) %s", e->kernel.threads, e->kernel.name);
    if (e->kernel.members) print_members(e);
    else print_parameters(e);
    str_add(e->out, locals);
    if (e->kernel.teams == 1) {
        line(e, "const unsigned thread = threadIdx.x;");
    } else {
        line(e, "const unsigned thread = threadIdx.x %% %u;", e->team);
        e->block = arena_format(e->arena, "%s * %u + threadIdx.x / %u", e->block, e->kernel.teams, e->team);
        e->blocks = arena_format(e->arena, "%s * %u", e->blocks, e->kernel.teams);
    }
    if (e->kernel.checks) line(e, "bool bad = false;");
}

/* Those that the parameters of a launch have room for. */
static uint32_t members_of(const struct nest *nest, const struct cuda_calls *calls)
{
    uint32_t words = STEPC_CUDA_TABLE_WORDS - 1 - calls->number_count;
    uint32_t room = words / (nest->argument_count + STEPC_CUDA_MEMBER_WORDS);
    uint32_t members = calls->members < room ? calls->members : room;
    return members > 1 ? members : 0;
}

struct cuda_kernel cuda_emit(struct str *out, const struct nest *nest, const char *name, const struct cuda_calls *calls,
                             struct arena *arena)
{
    struct emitter e = {.out = out, .arena = arena, .nest = nest, .calls = calls, .indent = 1};
    struct str locals = STR(arena);
    e.dtypes = arena_new_array(arena, uint8_t, nest->value_count + 1);
    e.order = (struct cuda_order){nest, arena_new_array(arena, bool, nest->value_count + 1),
                                  arena_new_array(arena, int64_t, nest->var_count + 1),
                                  arena_new_array(arena, struct cuda_digit, nest->value_count + 1),
                                  arena_new_array(arena, const struct nest_stmt *, nest->value_count + 1)};
    e.regs = arena_new_array(arena, struct cuda_register, nest->reg_count + 1);
    survey(&e, nest->body.items, nest->body.count, false);
    e.kernel = (struct cuda_kernel){.name = name, .argument_count = nest->argument_count, .flat = nest->flat};
    choose_threads(&e);
    e.kernel.few = e.few;
    e.kernel.members = members_of(nest, calls);
    e.kernel.number_count = calls->number_count;
    for (uint32_t i = 0; i < nest->argument_count; i++)
        e.kernel.checks = e.kernel.checks || nest->buffers.items[i].checked != NEST_ANY;
    place_locals(&e, &locals);
    print_head(&e, str_text(&locals));
    print_body(&e, nest->body.items, nest->body.count);
    if (e.kernel.checks) line(&e, "if (bad) *flag |= %d;", STEPC_FLAG_NOT_FINITE);
    str_add(out, "}\n\n");
    return e.kernel;
}

struct stepc_cuda_kernel cuda_table(const struct cuda_kernel *kernel)
{
    uint64_t most = kernel->scratch_bytes ? CUDA_SCRATCH_BYTES / kernel->scratch_bytes : CUDA_MOST_BLOCKS;
    return (struct stepc_cuda_kernel){.threads = kernel->threads,
                                      .argument_count = kernel->argument_count,
                                      .members = kernel->members,
                                      .iterations = kernel->flat ? kernel->threads * kernel->few : kernel->teams,
                                      .most_blocks = (uint32_t)(most < 1                  ? 1
                                                                : most < CUDA_MOST_BLOCKS ? most
                                                                                          : CUDA_MOST_BLOCKS),
                                      .checks = kernel->checks,
                                      .number_count = (uint16_t)kernel->number_count,
                                      .shared_bytes = kernel->shared_bytes,
                                      .scratch_bytes = kernel->scratch_bytes};
}

uint32_t cuda_blocks(const struct cuda_kernel *kernel, int64_t extent)
{
    struct stepc_cuda_kernel table = cuda_table(kernel);
    return stepc_cuda_blocks(&table, extent);
}
