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
 *   - In a flat map a thread takes a few elements at a time (`few`): neighbours, by one access of up to 16 bytes; or,
 * where memory is not aligned or something lies otherwise, elements as far apart as the team has threads, one by one.
 * The last one of the range is computed again in place of those that are missing. */
#include "codegen/cuda/cuda_emit.h"
#include <stepc/step_abi.h>

/* ---------------------------------------------------------------- barriers */

static void barrier(struct cuda_emitter *e)
{
    if (e->meets) cuda_line(e, "stepc_barrier(%u);", e->team);
    else cuda_line(e, e->warps ? "__syncwarp();" : "__syncthreads();");
    e->open.count = 0;
}

static void add_open(struct cuda_emitter *e, struct cuda_access access)
{
    for (size_t i = 0; i < e->open.count; i++)
        if (e->open.items[i].stmt == access.stmt) return;
    vec_push(e->arena, &e->open, access);
}

static bool meets(const struct cuda_emitter *e, const struct cuda_access *access)
{
    for (size_t i = 0; i < e->open.count; i++)
        if (cuda_conflict(&e->order, &e->open.items[i], access)) return true;
    return false;
}

static bool is_access(const struct nest_stmt *s)
{
    return s->kind == NEST_LOAD || s->kind == NEST_STORE || s->kind == NEST_ADD_TO;
}

static struct cuda_access access_of(const struct cuda_emitter *e, const struct nest_stmt *s,
                                    const struct nest_stmt *vector, bool solo)
{
    bool whole = e->nest->parallel_extent == 1 && !e->nest->flat;
    return (struct cuda_access){.stmt = s,
                                .vector = vector,
                                .solo = solo,
                                .before = !e->in_parallel && !whole,
                                .few = vector ? e->fews[vector->var] : 1};
}

/* Does one access in these statements, at whatever depth, meet one that is open? */
static bool body_meets(const struct cuda_emitter *e, const struct nest_stmt *vector, bool solo,
                       struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        bool here = s->kind == NEST_FOR && s->loop == NEST_VECTOR;
        struct cuda_access access = access_of(e, s, vector, solo);
        if (is_access(s) && meets(e, &access)) return true;
        bool alone = here ? cuda_is_solo(e, s, s->body.items, s->body.count) : solo;
        if (body_meets(e, here ? s : vector, alone, s->body.items, s->body.count)) return true;
    }
    return false;
}

static void open_loop_accesses(struct cuda_emitter *e, const struct nest_stmt *vector, bool solo,
                               struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_access(items[i])) add_open(e, access_of(e, items[i], vector, solo));
        open_loop_accesses(e, vector, solo, items[i]->body.items, items[i]->body.count);
    }
}

static void order_access(struct cuda_emitter *e, const struct nest_stmt *s)
{
    struct cuda_access access = access_of(e, s, NULL, false);
    if (meets(e, &access)) barrier(e);
    add_open(e, access);
}

static size_t keep_open(struct cuda_emitter *e, struct cuda_access **out)
{
    *out = arena_copy(e->arena, e->open.items, e->open.count * sizeof **out);
    return e->open.count;
}

static void merge_open(struct cuda_emitter *e, const struct cuda_access *kept, size_t count)
{
    for (size_t i = 0; i < count; i++) add_open(e, kept[i]);
}

/* ---------------------------------------------------------------- statements */

static void print_body(struct cuda_emitter *e, struct nest_stmt *const *items, size_t count);

/* Walks a body that may run any number of times: what its end leaves open may be open at its beginning. */
static void print_repeated(struct cuda_emitter *e, const struct nest_stmt *s)
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

static void print_lanes(struct cuda_emitter *e, const struct nest_stmt *s)
{
    e->vector = s;
    e->stores.count = 0;
    if (!e->nest->flat && e->few == 1) cuda_find_stores(e->nest, s, e->calls, e->arena, &e->stores);
    print_body(e, s->body.items, s->body.count);
    e->vector = NULL;
}

/* May all of a flat map's loads and stores be wide? */
static const char *wide_text(const struct cuda_emitter *e, const struct nest_stmt *s)
{
    struct str aligned = STR(e->arena);
    if (e->strays) return "false";
    for (size_t i = 0; i < s->body.count; i++)
        if (cuda_is_side_by_side(e, s, s->body.items[i]))
            str_addf(&aligned, " && stepc_is_aligned<%u>(b%u)", e->few, s->body.items[i]->buffer);
    return arena_format(e->arena, "lo %% %u == 0%s", e->few, str_text(&aligned));
}

/* Those of a loop that lie side by side, loaded by one access each, or waiting to be stored by one. */
static void print_few_loads(struct cuda_emitter *e, const struct nest_stmt *s, const char *load, const char *how)
{
    for (size_t i = 0; i < s->body.count; i++) {
        const struct nest_stmt *one = s->body.items[i];
        const struct nest_buffer *buffer = &e->nest->buffers.items[one->buffer];
        if (!cuda_is_side_by_side(e, s, one)) continue;
        if (one->kind == NEST_LOAD)
            cuda_line(e, "const auto few%u = %s<%u>(b%u + (%s), %s);", one->result, load, e->few, one->buffer,
                      cuda_index_text(e, &one->index), how);
        else
            cuda_line(e, "stepc_few<%s, %u> out%u;", cuda_memory_type((enum ir_dtype)buffer->dtype), e->few,
                      one->buffer);
    }
}

static void print_few_stores(struct cuda_emitter *e, const struct nest_stmt *s, const char *store, const char *how)
{
    for (size_t i = 0; i < s->body.count; i++) {
        const struct nest_stmt *one = s->body.items[i];
        if (one->kind == NEST_STORE)
            cuda_line(e, "%s(b%u + (%s), out%u, %s);", store, one->buffer, cuda_index_text(e, &one->index), one->buffer,
                      how);
    }
}

/* The loop of a flat map by a few elements: their loads, the work for each of them, their stores. They are neighbours;
 * where accesses are not wide, neighbours of other threads, so that those of a warp are side by side. */
static void print_few(struct cuda_emitter *e, const struct nest_stmt *s)
{
    uint32_t few = e->few;
    cuda_line(e, "const bool wide = %s;", wide_text(e, s));
    cuda_line(e, "const int each = wide ? 1 : %u;", e->team);
    cuda_open_brace(e, arena_format(e->arena,
                                    "for (long long at = lo + (long long)%s * %u + (wide ? thread * %u : thread); at < "
                                    "hi; at += (long long)%s * %u)",
                                    e->block, e->team * few, few, e->blocks, e->team * few));
    cuda_line(e, "const long long i%u = at;", s->var);
    cuda_line(e, "const long long left = wide ? hi - at : (hi - at + %u) / %u;", e->team - 1, e->team);
    cuda_line(e, "const int count = left < %u ? (int)left : %u;", few, few);
    cuda_line(e, "const bool whole = wide && count == %u;", few);
    print_few_loads(e, s, "stepc_load_few", "count, each, whole");
    cuda_line(e, "#pragma unroll");
    cuda_open_brace(e, arena_format(e->arena, "for (int k = 0; k < %u; k++)", few));
    cuda_line(e, "const long long i%u = at + (k < count ? k : count - 1) * each;", s->var);
    print_lanes(e, s);
    cuda_close_brace(e);
    print_few_stores(e, s, "stepc_store_few", "count, each, whole");
    cuda_close_brace(e);
}

/* 0: as the compiler likes. */
static void print_unroll(struct cuda_emitter *e, int64_t times, int64_t all)
{
    if (times && times == all) cuda_line(e, "#pragma unroll");
    else if (times) cuda_line(e, "#pragma unroll %lld", (long long)times);
}

/* A row by a few neighbours, of which it has a multiple. */
static void print_row(struct cuda_emitter *e, const struct nest_stmt *s)
{
    uint32_t threads = e->team;
    int64_t steps = s->extent / e->few;
    print_unroll(e, steps % threads ? 0 : cuda_unroll_steps(s, steps / threads, e->few), steps / threads);
    cuda_open_brace(e, arena_format(e->arena, "for (long long from = thread * %u; from < %lldll; from += %u)", e->few,
                                    (long long)s->extent, threads * e->few));
    cuda_line(e, "const long long i%u = from;", s->var);
    print_few_loads(e, s, "stepc_load_whole", "true");
    cuda_line(e, "#pragma unroll");
    cuda_open_brace(e, arena_format(e->arena, "for (int k = 0; k < %u; k++)", e->few));
    cuda_line(e, "const long long i%u = from + k;", s->var);
    print_lanes(e, s);
    cuda_close_brace(e);
    print_few_stores(e, s, "stepc_store_whole", "true");
    cuda_close_brace(e);
}

static void print_vector(struct cuda_emitter *e, const struct nest_stmt *s)
{
    bool solo = cuda_is_solo(e, s, s->body.items, s->body.count);
    uint32_t threads = e->team;
    if (body_meets(e, s, solo, s->body.items, s->body.count)) barrier(e);
    open_loop_accesses(e, s, solo, s->body.items, s->body.count);
    if (e->quiet) return;
    if (s->extent < 0 && e->few > 1) {
        print_few(e, s);
        return;
    }
    if (e->fews[s->var] > 1) {
        e->few = e->fews[s->var];
        print_row(e, s);
        e->few = 1;
        return;
    }
    if (s->extent < 0)
        cuda_open_brace(e, arena_format(e->arena,
                                        "for (long long i%u = lo + (long long)%s * %u + thread; i%u < hi; i%u += "
                                        "(long long)%s * %u)",
                                        s->var, e->block, threads, s->var, s->var, e->blocks, threads));
    else if (solo)
        cuda_open_brace(e, arena_format(e->arena, "for (long long i%u = 0; i%u < (thread == 0 ? %lldll : 0); i%u++)",
                                        s->var, s->var, (long long)s->extent, s->var));
    else if (s->extent > threads) {
        print_unroll(e, s->extent % threads ? 0 : cuda_unroll_steps(s, s->extent / threads, 1), s->extent / threads);
        cuda_open_brace(e, arena_format(e->arena, "for (long long i%u = thread; i%u < %lldll; i%u += %u)", s->var,
                                        s->var, (long long)s->extent, s->var, threads));
    } else
        cuda_open_brace(e,
                        s->extent == threads ? "" : arena_format(e->arena, "if (thread < %lld)", (long long)s->extent));
    if (s->extent >= 0 && !solo && s->extent <= threads) cuda_line(e, "const long long i%u = thread;", s->var);
    print_lanes(e, s);
    cuda_close_brace(e);
}

/* One loop over the iterations of all parallel loops, and where each of them stands. */
static void open_parallel(struct cuda_emitter *e, const struct nest_stmt *s)
{
    int64_t inner = nest_inner(s);
    inner = inner ? inner : 1; /* nothing runs */
    if (inner == 1) {
        cuda_open_brace(e, arena_format(e->arena, "for (long long i%u = lo + %s; i%u < hi; i%u += %s)", s->var,
                                        e->block, s->var, s->var, e->blocks));
        for (; (s = nest_parallel_in(s));) cuda_line(e, "const long long i%u = 0;", s->var);
        return;
    }
    bool small = e->nest->parallel_extent <= INT32_MAX; /* 64-bit divisions are loops */
    const char *type = small ? "unsigned" : "long long";
    cuda_open_brace(e, arena_format(e->arena, "for (long long at = lo + %s; at < hi; at += %s)", e->block, e->blocks));
    cuda_line(e, "const long long i%u = (%s)at / %lld;", s->var, type, (long long)inner);
    while ((s = nest_parallel_in(s))) {
        inner = nest_inner(s);
        cuda_line(e, "const long long i%u = (%s)at / %lld %% %lld;", s->var, type, (long long)(inner ? inner : 1),
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

static void print_for(struct cuda_emitter *e, const struct nest_stmt *s)
{
    if (s->extent == 0 && s->loop != NEST_PARALLEL) return;
    if (s->loop == NEST_VECTOR) {
        print_vector(e, s);
        return;
    }
    bool parallel = s->loop == NEST_PARALLEL && !e->in_parallel, inner = s->loop == NEST_PARALLEL && e->in_parallel;
    if ((s->extent == 1 && !parallel) || inner) {
        cuda_open_brace(e, "");
        if (!inner) cuda_line(e, "const long long i%u = 0;", s->var);
        print_body(e, s->body.items, s->body.count);
        cuda_close_brace(e);
        return;
    }
    /* Before the loop rather than in it, where it would be met in every iteration. */
    if (body_meets(e, NULL, false, s->body.items, s->body.count)) barrier(e);
    bool many = s->loop == NEST_SERIAL && s->extent >= CUDA_STEPS && only_reduces(s);
    int64_t times = parallel ? 0 : many ? CUDA_STEPS : cuda_unroll(s);
    print_unroll(e, times, many ? 0 : s->extent);
    if (parallel) open_parallel(e, s);
    else
        cuda_open_brace(e, arena_format(e->arena, "for (long long i%u = 0; i%u < %lldll; i%u++)", s->var, s->var,
                                        (long long)s->extent, s->var));
    e->in_parallel = e->in_parallel || parallel;
    print_repeated(e, s);
    e->in_parallel = e->in_parallel && !parallel;
    cuda_close_brace(e);
}

static void print_if(struct cuda_emitter *e, const struct nest_stmt *s)
{
    struct cuda_access *kept;
    size_t count = keep_open(e, &kept);
    cuda_open_brace(e, arena_format(e->arena, "if (v%u)", s->cond));
    print_body(e, s->body.items, s->body.count);
    cuda_close_brace(e);
    merge_open(e, kept, count);
}

/* The first load of a run in the text makes all of them. */
static void print_run(struct cuda_emitter *e, const struct nest_stmt *s)
{
    struct cuda_run *run = &e->runs[s->result];
    struct nest_index first = s->index;
    first.offset -= run->at;
    const char *from = arena_format(e->arena, "b%u + (%s)", s->buffer, cuda_index_text(e, &first));
    if (cuda_is_half(e, s)) from = arena_format(e->arena, "(const unsigned *)(%s)", from);
    cuda_line(e, "const auto wide%u = stepc_load_whole<%u>(%s, %s);", run->first,
              cuda_is_half(e, s) ? run->count / 2 : run->count, from, s->cond ? cuda_name_of(e, s->cond) : "true");
}

static const char *op_text(struct cuda_emitter *e, const struct nest_stmt *s)
{
    const char *args[4] = {NULL}, *bits = cuda_bits_text(e, s);
    if (bits) return bits;
    for (uint32_t i = 0; i < s->arg_count; i++) args[i] = cuda_name_of(e, s->args[i]);
    if (s->kind == NEST_FMA) return cuda_fma(e->arena, (enum ir_dtype)s->dtype, args);
    enum ir_dtype operand = (enum ir_dtype)e->dtypes[s->args[s->op == OP_select ? 1 : 0]];
    return cuda_op(e->arena, (enum ir_op)s->op, (enum ir_dtype)s->dtype, operand, s->word, args);
}

static const char *combine_text(struct cuda_emitter *e, const struct nest_stmt *s, const char *x, const char *y)
{
    enum ir_dtype dtype = (enum ir_dtype)e->regs[s->reg].dtype;
    return cuda_op(e->arena, (enum ir_op)s->op, dtype, dtype, 0, (const char *const[]){x, y});
}

static const char *load_text(struct cuda_emitter *e, const struct nest_stmt *s)
{
    enum ir_dtype dtype = (enum ir_dtype)e->nest->buffers.items[s->buffer].dtype;
    const char *place = cuda_loaded_text(e, s);
    const char *text = s->word ? arena_format(e->arena, "*stepc_place<const unsigned>(&%s)", place)
                               : cuda_from_memory(e->arena, dtype, place);
    if (!s->cond || e->runs[s->result].first) return text;
    return arena_format(e->arena, "v%u ? %s : (%s)0", s->cond, text, cuda_register_type((enum ir_dtype)s->dtype));
}

static const char *fold_text(struct cuda_emitter *e, const struct nest_stmt *s)
{
    const struct cuda_register *reg = &e->regs[s->reg];
    const char *place = cuda_element(e, 'r', s->reg, &s->index), *type = cuda_register_type((enum ir_dtype)reg->dtype);
    if (!reg->lanes) return place;
    if (s->op == OP_or && reg->dtype == IR_BOOL && !e->meets)
        return arena_format(e->arena, "stepc_any<%u>(%s)", e->team, place);
    return arena_format(e->arena, "stepc_fold<%u%s>(%s, %s, [](%s x, %s y) -> %s { return %s; })", e->team,
                        e->meets ? ", true" : "", e->team > CUDA_WARP ? "folded" : "0", place, type, type, type,
                        combine_text(e, s, "x", "y"));
}

static const char *number_text(struct cuda_emitter *e, const struct nest_stmt *s)
{
    for (uint32_t i = 0; i < e->calls->number_count; i++)
        if (e->calls->numbers[i] == s->result)
            return arena_format(e->arena, s->dtype == IR_U32 ? "number_%u" : "stepc_bits<float>(number_%u)", i);
    return cuda_number(e->arena, (enum ir_dtype)s->dtype, s->number);
}

static void print_value(struct cuda_emitter *e, const struct nest_stmt *s)
{
    const char *text = NULL;
    bool few = s->kind == NEST_LOAD && e->vector && e->few > 1 && cuda_is_side_by_side(e, e->vector, s);
    bool makes_run = e->runs[s->result].first == s->result && !e->quiet;
    if (makes_run && e->run_lives[s->result]) print_run(e, s);
    if (!e->lives[s->result]) return;
    if (s->kind == NEST_LOAD && !e->vector) order_access(e, s);
    if (s->kind == NEST_GET && e->regs[s->reg].lanes && !e->vector)
        BUG("a lane register is read outside a vector loop");
    if (s->kind == NEST_FOLD && e->regs[s->reg].lanes && e->team > CUDA_WARP)
        e->open.count = 0; /* it has barriers of its own; shuffles order no memory */
    if (e->quiet) return;
    switch (s->kind) {
    case NEST_NUMBER: text = number_text(e, s); break;
    case NEST_POSITION:
        text = arena_format(e->arena, "(%s)(%s)", s->dtype == IR_F64 ? "double" : "int", cuda_index_text(e, &s->index));
        break;
    case NEST_LOAD:
        text = few ? cuda_from_memory(e->arena, (enum ir_dtype)e->nest->buffers.items[s->buffer].dtype,
                                      arena_format(e->arena, "few%u.item[k]", s->result))
                   : load_text(e, s);
        break;
    case NEST_GET: text = cuda_element(e, 'r', s->reg, &s->index); break;
    case NEST_FOLD: text = fold_text(e, s); break;
    default: text = op_text(e, s); break;
    }
    cuda_line(e, "const %s v%u = %s;", cuda_register_type((enum ir_dtype)s->dtype), s->result, text);
}

static const struct cuda_stored *stored_of(const struct cuda_emitter *e, const struct nest_stmt *s)
{
    for (size_t i = 0; i < e->stores.count; i++)
        if (e->stores.items[i].stmt == s) return &e->stores.items[i];
    return NULL;
}

/* An element of a run, which waits for the others; the last one stores them. */
static void print_stored(struct cuda_emitter *e, const struct nest_stmt *s, const struct cuda_stored *run,
                         const char *value)
{
    const char *name = arena_format(e->arena, "run%u_%u", s->buffer, run->first->args[0]);
    bool first = true;
    for (size_t i = 0; i < e->stores.count && e->stores.items[i].stmt != s; i++)
        first = first && e->stores.items[i].first != run->first;
    if (first)
        cuda_line(e, "stepc_few<%s, %u> %s;", cuda_memory_type((enum ir_dtype)e->nest->buffers.items[s->buffer].dtype),
                  run->count, name);
    cuda_line(e, "%s.item[%u] = %s;", name, run->at, value);
    if (run->last)
        cuda_line(e, "stepc_store_whole(b%u + (%s), %s, %s);", s->buffer, cuda_index_text(e, &run->first->index), name,
                  s->cond ? cuda_name_of(e, s->cond) : "true");
}

static void print_store(struct cuda_emitter *e, const struct nest_stmt *s)
{
    enum ir_dtype dtype = (enum ir_dtype)e->nest->buffers.items[s->buffer].dtype;
    if (!e->vector) order_access(e, s);
    if (e->quiet) return;
    const char *place = cuda_element(e, 'b', s->buffer, &s->index), *value = cuda_name_of(e, s->args[0]), *guard = "";
    if (e->vector && e->few > 1) place = arena_format(e->arena, "out%u.item[k]", s->buffer);
    if (s->kind == NEST_ADD_TO) {
        const char *args[] = {cuda_from_memory(e->arena, dtype, place), value};
        if (dtype == IR_BOOL) args[0] = arena_format(e->arena, "(%s)", args[0]);
        value = cuda_op(e->arena, OP_add, dtype, dtype, 0, args);
    }
    if (!e->vector) guard = s->cond ? arena_format(e->arena, "if (thread == 0 && v%u) ", s->cond) : "if (thread == 0) ";
    else if (s->cond) guard = arena_format(e->arena, "if (v%u) ", s->cond);
    const char *stored = cuda_to_memory(e->arena, dtype, value);
    const struct cuda_stored *run = e->vector ? stored_of(e, s) : NULL;
    if (run) {
        print_stored(e, s, run, stored);
        if (e->nest->buffers.items[s->buffer].checked) cuda_line(e, "%sbad |= stepc_not_finite(%s);", guard, value);
    } else if (!e->nest->buffers.items[s->buffer].checked) cuda_line(e, "%s%s = %s;", guard, place, stored);
    else cuda_line(e, "%s{ %s = %s; bad |= stepc_not_finite(%s); }", guard, place, stored, value);
}

static void print_register(struct cuda_emitter *e, const struct nest_stmt *s)
{
    const struct cuda_register *reg = &e->regs[s->reg];
    const char *place;
    if (e->quiet) return;
    if (s->kind == NEST_REG) {
        cuda_line(e, "%s r%u[%lld];", cuda_register_type((enum ir_dtype)s->dtype), s->reg, (long long)s->extent);
        if (s->extent > 1) cuda_line(e, "#pragma unroll");
        cuda_line(e, "for (int i = 0; i < %lld; i++) r%u[i] = v%u;", (long long)s->extent, s->reg, s->args[0]);
        return;
    }
    if (reg->lanes != (e->vector != NULL) && (reg->lanes || s->kind == NEST_SET))
        BUG("register %u is set %s a vector loop", s->reg, reg->lanes ? "outside" : "for all lanes inside");
    place = cuda_element(e, 'r', s->reg, &s->index);
    cuda_line(e, "%s = %s;", place,
              s->kind == NEST_SET ? cuda_name_of(e, s->args[0])
                                  : combine_text(e, s, place, cuda_name_of(e, s->args[0])));
}

static const char *half_name(const struct nest_stmt *s) { return s->dtype == IR_BF16 ? "bf16" : "f16"; }

static void print_matrix(struct cuda_emitter *e, const struct nest_stmt *s)
{
    cuda_line(e, "stepc_matrix_%s<%u, %u>(r%u, r%u, r%u);", half_name(s), e->regs[s->from[0]].count / 4,
              e->regs[s->from[1]].count / 2, s->reg, s->from[0], s->from[1]);
}

/* What it reads was made ready where threads met before it, and is left alone until they meet behind its end: the
 * lowering has a stage for each of the products and copies that are under way at a time. */
static void print_warpgroup(struct cuda_emitter *e, const struct nest_stmt *s)
{
    static const char *const words[] = {"false", "true"};
    const struct nest_panels *p = s->panels;
    cuda_line(e, "stepc_warpgroup_%s<%u, %lld, %s, %s>(r%u, b%u + (%s), b%u + (%s));", half_name(s), p->columns,
              (long long)p->steps, words[p->steps_first[0]], words[p->steps_first[1]], s->reg, p->from[0],
              cuda_index_text(e, &p->at[0]), p->from[1], cuda_index_text(e, &p->at[1]));
}

/* The same of NEST_ARRIVED. `part`: rows that lie side by side, 0 where steps do. */
static void print_take(struct cuda_emitter *e, const struct nest_stmt *s)
{
    const struct nest_take *t = s->take;
    int part = t->steps_first ? 0 : e->nest->buffers.items[t->from].swizzle / 2;
    cuda_line(e, "stepc_take_%s<%lld, %lld, %d, %lld>(r%u, threadIdx.x / %lld %% %lld, b%u, %s);",
              t->left ? "left" : "right", (long long)t->size, (long long)t->steps, part, (long long)t->step, s->reg,
              (long long)(CUDA_WARP * t->by), (long long)t->count, t->from, cuda_index_text(e, &t->at));
}

static void print_warpgroup_wait(struct cuda_emitter *e, const struct nest_stmt *s)
{
    cuda_line(e, "stepc_warpgroup_wait<%u, %lld>(r%u);", e->regs[s->reg].count, (long long)s->extent, s->reg);
}

/* Of memory that does not begin as one access wants it, element by element, and at once. */
static void print_copy(struct cuda_emitter *e, const struct nest_stmt *s)
{
    bool aligned = e->calls->aligned && e->calls->aligned[s->from[0]];
    cuda_line(e, "stepc_copy%s(&%s, b%u + (%s), %s);", aligned ? "" : "_each",
              cuda_element(e, 'b', s->buffer, &s->index), s->from[0], cuda_index_text(e, s->source),
              s->cond ? cuda_name_of(e, s->cond) : "true");
}

static void print_arrived(struct cuda_emitter *e, const struct nest_stmt *s)
{
    cuda_line(e, "stepc_copies_wait<%lld>();", (long long)s->extent);
    if (nest_has(e->nest, NEST_WARPGROUP)) cuda_line(e, "stepc_warpgroup_ready();");
    barrier(e);
}

static void print_stmt(struct cuda_emitter *e, const struct nest_stmt *s)
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
    case NEST_TAKE: print_take(e, s); break;
    case NEST_WARPGROUP: print_warpgroup(e, s); break;
    case NEST_COPY: print_copy(e, s); break;
    case NEST_COPIES: cuda_line(e, "stepc_copies_end();"); break;
    case NEST_ARRIVED: print_arrived(e, s); break;
    case NEST_WARPGROUP_WAIT: print_warpgroup_wait(e, s); break;
    case NEST_PREFETCH: break;
    case NEST_LOCAL: break; /* at the kernel's head */
    default: BUG("statement kind %d", (int)s->kind);
    }
}

static void print_body(struct cuda_emitter *e, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) print_stmt(e, items[i]);
}

/* ---------------------------------------------------------------- the kernel */

/* Those that the parameters of a launch have room for. */
static uint32_t members_of(const struct nest *nest, const struct cuda_calls *calls)
{
    uint32_t words = STEPC_CUDA_TABLE_WORDS - 1 - calls->number_count;
    uint32_t room = words / (nest->argument_count + STEPC_CUDA_MEMBER_WORDS);
    uint32_t members = calls->members < room ? calls->members : room;
    return members > 1 ? members : 0;
}

/* What must be known before printing. */
static struct cuda_emitter begin(struct str *out, const struct nest *nest, const char *name,
                                 const struct cuda_calls *calls, struct arena *arena)
{
    struct cuda_emitter e = {.out = out, .arena = arena, .nest = nest, .calls = calls, .indent = 1};
    e.dtypes = arena_new_array(arena, uint8_t, nest->value_count + 1);
    e.order = (struct cuda_order){nest, arena_new_array(arena, bool, nest->value_count + 1),
                                  arena_new_array(arena, int64_t, nest->var_count + 1),
                                  arena_new_array(arena, struct cuda_digit, nest->value_count + 1),
                                  arena_new_array(arena, const struct nest_stmt *, nest->value_count + 1)};
    e.regs = arena_new_array(arena, struct cuda_register, nest->reg_count + 1);
    e.runs = arena_new_array(arena, struct cuda_run, nest->value_count + 1);
    e.fews = arena_new_array(arena, uint32_t, nest->var_count + 1);
    cuda_survey(&e, nest->body.items, nest->body.count, false);
    e.kernel = (struct cuda_kernel){.name = name, .argument_count = nest->argument_count, .flat = nest->flat};
    e.lives = arena_new_array(arena, bool, nest->value_count + 1);
    e.run_lives = arena_new_array(arena, bool, nest->value_count + 1);
    cuda_find_lives(&e, nest->body.items, nest->body.count);
    cuda_choose_threads(&e);
    e.kernel.few = e.few;
    e.kernel.members = members_of(nest, calls);
    e.kernel.number_count = calls->number_count;
    for (uint32_t i = 0; i < nest->argument_count; i++)
        e.kernel.checks = e.kernel.checks || nest->buffers.items[i].checked != NEST_ANY;
    return e;
}

struct cuda_kernel cuda_emit(struct str *out, const struct nest *nest, const char *name, const struct cuda_calls *calls,
                             struct arena *arena)
{
    struct cuda_emitter e = begin(out, nest, name, calls, arena);
    cuda_open_kernel(&e);
    print_body(&e, nest->body.items, nest->body.count);
    if (e.kernel.checks) cuda_line(&e, "if (bad) *flag |= %d;", STEPC_FLAG_NOT_FINITE);
    str_add(out, "}\n\n");
    return e.kernel;
}

uint64_t cuda_emit_part(struct str *out, const struct nest *nest, const struct cuda_calls *calls, struct arena *arena)
{
    struct cuda_emitter e = begin(out, nest, "", calls, arena);
    e.part = true;
    e.indent = 3;
    cuda_share_block(&e);
    cuda_open_part(&e);
    print_body(&e, nest->body.items, nest->body.count);
    if (e.kernel.members) {
        if (e.kernel.shared_bytes) barrier(&e); /* which the next member uses */
        cuda_close_brace(&e);
    }
    if (e.kernel.checks) cuda_line(&e, "if (bad) *flag |= %d;", STEPC_FLAG_NOT_FINITE);
    if (e.kernel.threads < CUDA_SEQUENCE_THREADS) cuda_close_brace(&e);
    return e.kernel.shared_bytes;
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
                                      .part = kernel->part,
                                      .number_count = (uint16_t)kernel->number_count,
                                      .shared_bytes = (uint32_t)kernel->shared_bytes,
                                      .dynamic_bytes = (uint32_t)kernel->dynamic_bytes,
                                      .scratch_bytes = kernel->scratch_bytes};
}

uint32_t cuda_blocks(const struct cuda_kernel *kernel, int64_t extent)
{
    struct stepc_cuda_kernel table = cuda_table(kernel);
    return stepc_cuda_blocks(&table, extent);
}
