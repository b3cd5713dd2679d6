/* Loads and stores of the LLVM printer. An index is a scalar part, a chain of address steps from the outermost
 * loop variable inwards so that LLVM can hoist them, and for what varies from lane to lane either nothing (lanes are
 * neighbours in memory) or a vector of offsets (gather, scatter). */
#include "codegen/llvm/llvm_emit.h"

enum place_kind { PLACE_UNIFORM, PLACE_NEIGHBOURS, PLACE_LANES };
struct place {
    enum place_kind kind;
    LLVMValueRef base, offsets;
};

static LLVMValueRef step(struct emit *e, LLVMTypeRef type, LLVMValueRef base, LLVMValueRef index)
{
    int64_t known;
    if (emit_known(index, &known) && known == 0) return base;
    return LLVMBuildInBoundsGEP2(e->b, type, base, &index, 1, "");
}

static LLVMValueRef scaled(struct emit *e, LLVMValueRef value, int64_t scale)
{
    return scale == 1 ? value : LLVMBuildNSWMul(e->b, value, emit_i64(e, scale), "");
}

/* The terms whose variable has this depth; variables of unrolled loops are constants and fold into `*constant`. */
static LLVMValueRef add_depth(struct emit *e, LLVMTypeRef type, LLVMValueRef base, const struct nest_index *index,
                              uint32_t depth, int64_t *constant)
{
    for (uint32_t i = 0; i < index->term_count; i++) {
        const struct emit_variable *var = &e->vars[index->terms[i].var];
        int64_t known, scale = index->terms[i].scale;
        if (var->depth != depth) continue;
        ASSERT(var->value);
        if (emit_known(var->value, &known)) *constant += known * scale;
        else if (scale) base = step(e, type, base, scaled(e, var->value, scale));
    }
    return base;
}

int64_t emit_lane_scale(const struct emit *e, const struct nest_index *index)
{
    int64_t scale = 0;
    for (uint32_t i = 0; i < index->term_count; i++)
        if (e->vars[index->terms[i].var].vector) scale += index->terms[i].scale;
    return scale;
}

static LLVMValueRef widen(struct emit *e, const struct emit_value *value)
{
    LLVMTypeRef type = emit_shaped(LLVMTypeOf(value->v), e->i64);
    if (ir_dtype_is_signed(value->dtype)) return LLVMBuildSExt(e->b, value->v, type, "");
    return LLVMBuildZExt(e->b, value->v, type, "");
}

static struct place find_place(struct emit *e, const struct nest_stmt *s, LLVMTypeRef type)
{
    const struct nest_index *index = &s->index;
    struct place place = {PLACE_UNIFORM, e->buffers[s->buffer], NULL};
    int64_t constant = index->offset, scale = e->in_vector ? emit_lane_scale(e, index) : 0;
    for (uint32_t depth = 0; depth <= e->depth; depth++) {
        if (depth + 1 == e->depth || e->depth == 0) /* data-dependent parts: outside the innermost variable */
            for (uint32_t i = 0; i < index->scaled_count; i++) {
                const struct emit_value *value = &e->values[index->scaled[i].value];
                if (!value->varies)
                    place.base = step(e, type, place.base, scaled(e, widen(e, value), index->scaled[i].scale));
            }
        place.base = add_depth(e, type, place.base, index, depth, &constant);
    }
    place.base = step(e, type, place.base, emit_i64(e, constant));
    if (scale == 1 + s->word) place.kind = PLACE_NEIGHBOURS; /* pairs are two elements apart */
    else if (scale != 0) {
        place.kind = PLACE_LANES;
        bool narrow = scale * (int64_t)e->lanes < INT32_MAX && scale * (int64_t)e->lanes > INT32_MIN;
        place.offsets = emit_iota(e, narrow ? e->i32 : e->i64, scale);
    }
    for (uint32_t i = 0; i < index->scaled_count; i++) {
        const struct emit_value *value = &e->values[index->scaled[i].value];
        int64_t by = index->scaled[i].scale;
        if (!value->varies) continue;
        LLVMTypeRef wide = LLVMVectorType(e->i64, e->lanes);
        /* One 32-bit index is an x86 gather as it is; sums are made in 64 bits. */
        if (place.kind == PLACE_UNIFORM && by == 1 && value->dtype == IR_I32) {
            place.offsets = value->v;
        } else {
            LLVMValueRef more = LLVMBuildNSWMul(e->b, widen(e, value), emit_int(wide, (uint64_t)by), "");
            if (place.kind == PLACE_NEIGHBOURS) place.offsets = emit_iota(e, e->i64, scale);
            if (place.offsets && LLVMTypeOf(place.offsets) != wide)
                place.offsets = LLVMBuildSExt(e->b, place.offsets, wide, "");
            place.offsets = place.offsets ? LLVMBuildNSWAdd(e->b, place.offsets, more, "") : more;
        }
        place.kind = PLACE_LANES;
    }
    return place;
}

int64_t emit_constant_index(struct emit *e, const struct nest_index *index)
{
    int64_t sum = index->offset, known;
    ASSERT(index->scaled_count == 0);
    for (uint32_t i = 0; i < index->term_count; i++) {
        if (index->terms[i].scale == 0) continue;
        if (!emit_known(e->vars[index->terms[i].var].value, &known))
            BUG("a register's index uses the variable of a loop that is not unrolled");
        sum += known * index->terms[i].scale;
    }
    return sum;
}

LLVMValueRef emit_affine(struct emit *e, const struct nest_index *index)
{
    LLVMValueRef sum = emit_i64(e, index->offset);
    for (uint32_t i = 0; i < index->term_count; i++)
        sum = LLVMBuildAdd(e->b, sum, scaled(e, e->vars[index->terms[i].var].value, index->terms[i].scale), "");
    return sum;
}

/* ---------------------------------------------------------------- between memory and registers */

static LLVMValueRef from_memory(struct emit *e, enum ir_dtype dtype, LLVMValueRef raw)
{
    if (dtype == IR_BOOL) return LLVMBuildICmp(e->b, LLVMIntNE, raw, LLVMConstNull(LLVMTypeOf(raw)), "");
    return dtype == IR_BF16 || dtype == IR_F16 ? emit_half_from_bits(e, dtype, raw) : raw;
}

static LLVMValueRef to_memory(struct emit *e, enum ir_dtype dtype, LLVMValueRef v)
{
    if (dtype == IR_BOOL) return LLVMBuildZExt(e->b, v, emit_shaped(LLVMTypeOf(v), e->i8), "");
    return dtype == IR_BF16 || dtype == IR_F16 ? emit_half_bits(e, dtype, v) : v;
}

static LLVMValueRef alignment(struct emit *e, enum ir_dtype dtype)
{
    return LLVMConstInt(e->i32, ir_dtype_bytes(dtype), 0);
}

static LLVMValueRef aligned_load(struct emit *e, LLVMTypeRef type, LLVMValueRef at, enum ir_dtype dtype)
{
    LLVMValueRef v = LLVMBuildLoad2(e->b, type, at, "");
    LLVMSetAlignment(v, (unsigned)ir_dtype_bytes(dtype));
    return v;
}

static void aligned_store(struct emit *e, LLVMValueRef v, LLVMValueRef at, enum ir_dtype dtype)
{
    LLVMSetAlignment(LLVMBuildStore(e->b, v, at), (unsigned)ir_dtype_bytes(dtype));
}

static LLVMValueRef all_lanes(struct emit *e) { return emit_int(LLVMVectorType(e->i1, e->lanes), 1); }

LLVMValueRef emit_live(struct emit *e, nest_value cond)
{
    if (!cond) return e->mask;
    LLVMValueRef c = e->values[cond].v;
    if (!e->values[cond].varies) c = emit_splat(e, c, e->lanes);
    return e->mask ? LLVMBuildAnd(e->b, c, e->mask, "") : c;
}

static LLVMValueRef lane_addresses(struct emit *e, LLVMTypeRef memory, const struct place *place)
{
    LLVMValueRef offsets = place->kind == PLACE_UNIFORM ? LLVMConstNull(LLVMVectorType(e->i64, e->lanes))
                                                        : place->offsets;
    return LLVMBuildInBoundsGEP2(e->b, memory, place->base, &offsets, 1, "");
}

static LLVMValueRef load_scalar(struct emit *e, LLVMTypeRef memory, LLVMValueRef at, enum ir_dtype dtype,
                                nest_value cond)
{
    if (!cond) return aligned_load(e, memory, at, dtype);
    struct emit_branch branch = emit_if(e, e->values[cond].v);
    return emit_endif_pick(e, branch, aligned_load(e, memory, at, dtype), LLVMConstNull(memory));
}

/* Are there loads that leave lanes out? LLVM makes a branch for each lane of others. */
static bool has_masks(const struct emit *e, enum ir_dtype dtype, bool neighbours)
{
    uint32_t bytes = e->target->vector_bytes;
    return bytes == 64 || (bytes == 32 && neighbours && ir_dtype_bytes(dtype) >= 4);
}

/* What lanes read that are left out: it is always there, and what a load gives where nothing is read. */
static LLVMValueRef zeros(struct emit *e)
{
    static const char name[] = "zeros";
    LLVMValueRef global = LLVMGetNamedGlobal(e->module, name);
    if (global) return global;
    /* As many as the widest vector of any nest has, of the widest elements: nests of fewer lanes share it. */
    LLVMTypeRef type = LLVMVectorType(e->i64, e->target->vector_bytes / 4);
    global = LLVMAddGlobal(e->module, type, name);
    LLVMSetInitializer(global, LLVMConstNull(type));
    LLVMSetGlobalConstant(global, 1);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    return global;
}

/* Lanes that lie apart, by offsets of `unit`. Of a tail, whose first lane is always there, the lanes that are left out
 * read what that one reads: nothing is made of it. */
static LLVMValueRef load_lanes(struct emit *e, LLVMTypeRef memory, LLVMTypeRef unit, const struct place *place,
                               enum ir_dtype dtype, LLVMValueRef mask)
{
    struct place at = *place;
    bool masks = has_masks(e, dtype, false);
    if (mask && mask == e->mask && at.offsets && !masks) {
        LLVMValueRef first = LLVMBuildExtractElement(e->b, at.offsets, LLVMConstInt(e->i32, 0, 0), "");
        at.offsets = LLVMBuildSelect(e->b, mask, at.offsets, emit_splat(e, first, e->lanes), "");
        mask = NULL;
    }
    LLVMValueRef addresses = lane_addresses(e, unit, &at);
    LLVMTypeRef vector = LLVMVectorType(memory, e->lanes), types[] = {vector, LLVMTypeOf(addresses)};
    if (mask && !masks) {
        addresses = LLVMBuildSelect(e->b, mask, addresses, emit_splat(e, zeros(e), e->lanes), "");
        mask = NULL;
    }
    LLVMValueRef args[] = {addresses, alignment(e, dtype), mask ? mask : all_lanes(e), LLVMConstNull(vector)};
    return emit_intrinsic(e, "llvm.masked.gather", types, 2, args, 4);
}

/* Neighbours in memory, of which those outside the mask (NULL: none) are neither read nor written. */
static LLVMValueRef load_vector(struct emit *e, LLVMTypeRef memory, LLVMValueRef at, enum ir_dtype dtype,
                                LLVMValueRef mask)
{
    if (mask && !has_masks(e, dtype, true)) {
        struct place place = {PLACE_LANES, at, emit_iota(e, e->i64, 1)};
        if (mask == e->mask) return load_lanes(e, memory, memory, &place, dtype, mask);
        /* Most tiles are whole. */
        LLVMTypeRef vector = LLVMVectorType(memory, e->lanes);
        LLVMValueRef bits = LLVMBuildBitCast(e->b, mask, LLVMIntTypeInContext(e->context, e->lanes), ""),
                     all = LLVMConstAllOnes(LLVMTypeOf(bits)), none = LLVMConstNull(vector);
        struct emit_branch branch = emit_if(e, LLVMBuildICmp(e->b, LLVMIntNE, bits, all, ""));
        LLVMValueRef some = emit_endif_pick(e, branch, load_lanes(e, memory, memory, &place, dtype, mask), none);
        branch = emit_if(e, LLVMBuildICmp(e->b, LLVMIntEQ, bits, all, ""));
        return emit_endif_pick(e, branch, aligned_load(e, vector, at, dtype), some);
    }
    LLVMTypeRef vector = LLVMVectorType(memory, e->lanes), types[] = {vector, e->ptr};
    LLVMValueRef args[] = {at, alignment(e, dtype), mask, LLVMConstNull(vector)};
    return mask ? emit_intrinsic(e, "llvm.masked.load", types, 2, args, 4) : aligned_load(e, vector, at, dtype);
}

/* The live lanes of a short row's tail, by powers of two: a masked store counts as one of all lanes for the loads
 * behind it, so that the next row, if the result takes the operand's place, would wait until it has reached the cache.
 */
static void store_pieces(struct emit *e, LLVMValueRef raw, LLVMValueRef at, enum ir_dtype dtype)
{
    LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(raw));
    LLVMValueRef poison = LLVMGetPoison(LLVMTypeOf(raw)), lane[EMIT_MAX_LANES];
    for (uint32_t from = 0, size; from < e->short_tail; from += size) {
        for (size = 1; from + 2 * size <= e->short_tail; size *= 2) {}
        for (uint32_t i = 0; i < size; i++) lane[i] = LLVMConstInt(e->i32, from + i, 0);
        LLVMValueRef piece = size == 1 ? LLVMBuildExtractElement(e->b, raw, lane[0], "")
                                       : LLVMBuildShuffleVector(e->b, raw, poison, LLVMConstVector(lane, size), "");
        aligned_store(e, piece, step(e, element, at, emit_i64(e, from)), dtype);
    }
}

static void store_vector(struct emit *e, LLVMValueRef raw, LLVMValueRef at, enum ir_dtype dtype, LLVMValueRef mask)
{
    LLVMTypeRef types[] = {LLVMTypeOf(raw), e->ptr};
    LLVMValueRef args[] = {raw, at, alignment(e, dtype), mask};
    if (mask && mask == e->mask && e->short_tail) store_pieces(e, raw, at, dtype);
    else if (mask) emit_intrinsic(e, "llvm.masked.store", types, 2, args, 4);
    else aligned_store(e, raw, at, dtype);
}

/* Lanes that are so many elements apart, where no instruction stores them: LLVM would make vectors of addresses, which
 * take registers from the loops beside this one. */
static void store_apart(struct emit *e, LLVMValueRef raw, LLVMTypeRef unit, LLVMValueRef base, int64_t apart,
                        enum ir_dtype dtype)
{
    for (uint32_t lane = 0; lane < e->lanes; lane++) {
        LLVMValueRef v = LLVMBuildExtractElement(e->b, raw, LLVMConstInt(e->i32, lane, 0), "");
        aligned_store(e, v, step(e, unit, base, emit_i64(e, apart * lane)), dtype);
    }
}

/* Whole vectors of all of a local that ends in room for the last of them: without a mask, so that what is stored can be
 * loaded again before it has reached the cache. A loop over a part of it would write what stands behind. */
static bool has_room(const struct emit *e, const struct nest_stmt *s)
{
    const struct nest_buffer *buffer = &e->nest->buffers.items[s->buffer];
    uint64_t bytes = ir_dtype_bytes(buffer->dtype), all = (uint64_t)buffer->extent;
    if (!buffer->local || buffer->extent != e->extent || s->cond || s->word || e->nest->flat || s->index.offset ||
        s->index.scaled_count)
        return false;
    for (uint32_t i = 0; i < s->index.term_count; i++)
        if (s->index.terms[i].scale && !e->vars[s->index.terms[i].var].vector) return false;
    return (all + e->lanes - 1) / e->lanes * e->lanes * bytes <= (all * bytes + 63) / 64 * 64;
}

void emit_load(struct emit *e, const struct nest_stmt *s)
{
    enum ir_dtype element = e->nest->buffers.items[s->buffer].dtype, dtype = s->dtype;
    LLVMTypeRef memory = emit_memory_type(e, dtype);
    struct place place = find_place(e, s, emit_memory_type(e, element));
    struct emit_value *out = &e->values[s->result];
    bool lane_cond = s->cond && e->values[s->cond].varies;
    out->dtype = (uint8_t)dtype;
    out->varies = place.kind != PLACE_UNIFORM || lane_cond;
    LLVMValueRef raw;
    if (!out->varies) {
        raw = load_scalar(e, memory, place.base, element, s->cond);
    } else if (place.kind == PLACE_NEIGHBOURS && s->cond && !lane_cond && !e->mask && !has_masks(e, element, true)) {
        LLVMValueRef at = LLVMBuildSelect(e->b, e->values[s->cond].v, place.base, zeros(e), "");
        raw = load_vector(e, memory, at, element, NULL);
    } else if (place.kind == PLACE_NEIGHBOURS) {
        raw = load_vector(e, memory, place.base, element, has_room(e, s) ? NULL : emit_live(e, s->cond));
    } else {
        raw = load_lanes(e, memory, emit_memory_type(e, element), &place, element, emit_live(e, s->cond));
    }
    out->v = from_memory(e, dtype, raw);
}

static void check(struct emit *e, const struct nest_stmt *s, uint32_t way, LLVMValueRef stored, LLVMValueRef mask)
{
    uint8_t kind = e->nest->buffers.items[s->buffer].checked;
    for (int half = 0; half < 1 + s->word; half++)
        emit_check(e, way, kind, s->word ? emit_half_of(e, stored, half) : stored, mask);
}

void emit_store(struct emit *e, const struct nest_stmt *s)
{
    enum ir_dtype dtype = e->nest->buffers.items[s->buffer].dtype;
    LLVMTypeRef memory = emit_memory_type(e, dtype);
    struct place place = find_place(e, s, memory);
    const struct emit_value *value = &e->values[s->args[0]];
    enum ir_dtype stored = s->word ? IR_U32 : dtype;
    bool lane_cond = s->cond && e->values[s->cond].varies;
    uint8_t checked = e->nest->buffers.items[s->buffer].checked;
    if (place.kind == PLACE_UNIFORM && !value->varies && !lane_cond) {
        struct emit_branch branch = {NULL, NULL};
        if (s->cond) branch = emit_if(e, e->values[s->cond].v);
        if (checked) check(e, s, 0, value->v, NULL);
        aligned_store(e, to_memory(e, stored, value->v), place.base, dtype);
        if (s->cond) emit_endif(e, branch);
        return;
    }
    LLVMValueRef mask = emit_live(e, s->cond), spread = emit_spread(e, value, true), raw = to_memory(e, stored, spread);
    if (checked) check(e, s, s->buffer % EMIT_CHECK_WAYS, spread, mask);
    if (place.kind == PLACE_NEIGHBOURS) {
        store_vector(e, raw, place.base, dtype, has_room(e, s) ? NULL : mask);
        return;
    }
    if (!mask && place.offsets && LLVMIsConstant(place.offsets) && e->target->vector_bytes < 64) {
        store_apart(e, raw, memory, place.base, emit_lane_scale(e, &s->index), dtype);
        return;
    }
    LLVMTypeRef types[] = {LLVMTypeOf(raw), LLVMVectorType(e->ptr, e->lanes)};
    LLVMValueRef args[] = {raw, lane_addresses(e, memory, &place), alignment(e, dtype), mask ? mask : all_lanes(e)};
    emit_intrinsic(e, "llvm.masked.scatter", types, 2, args, 4);
}

void emit_prefetch(struct emit *e, const struct nest_stmt *s)
{
    LLVMTypeRef memory = emit_memory_type(e, e->nest->buffers.items[s->buffer].dtype);
    LLVMValueRef by = emit_i64(e, s->extent), at = find_place(e, s, memory).base;
    LLVMValueRef args[] = {LLVMBuildGEP2(e->b, memory, at, &by, 1, ""), LLVMConstInt(e->i32, 0, 0),
                           LLVMConstInt(e->i32, 3, 0), LLVMConstInt(e->i32, 1, 0)};
    emit_intrinsic(e, "llvm.prefetch", &e->ptr, 1, args, 4);
}

/* ---------------------------------------------------------------- scatter */

static void add_scalar(struct emit *e, enum ir_dtype dtype, LLVMValueRef at, LLVMValueRef more)
{
    LLVMTypeRef memory = emit_memory_type(e, dtype);
    LLVMValueRef old = from_memory(e, dtype, aligned_load(e, memory, at, dtype));
    aligned_store(e, to_memory(e, dtype, emit_combine(e, dtype == IR_BOOL ? OP_or : OP_add, dtype, old, more)), at,
                  dtype);
}

/* Lanes may hit the same element, so they go one after another, in order. */
static void add_lanes(struct emit *e, enum ir_dtype dtype, const struct place *place, LLVMValueRef more,
                      LLVMValueRef mask)
{
    LLVMValueRef addresses = lane_addresses(e, emit_memory_type(e, dtype), place);
    struct emit_loop loop = emit_loop_begin(e, emit_i64(e, 0), emit_i64(e, e->lanes), 1, true);
    struct emit_branch branch = {NULL, NULL};
    if (mask) {
        LLVMValueRef bytes = LLVMBuildZExt(e->b, mask, LLVMVectorType(e->i8, e->lanes), "");
        LLVMValueRef bit = LLVMBuildExtractElement(e->b, bytes, loop.index, "");
        branch = emit_if(e, LLVMBuildICmp(e->b, LLVMIntNE, bit, LLVMConstNull(e->i8), ""));
    }
    if (LLVMTypeOf(more) == LLVMVectorType(e->i1, e->lanes))
        more = LLVMBuildZExt(e->b, more, LLVMVectorType(e->i8, e->lanes), "");
    LLVMValueRef one = LLVMBuildExtractElement(e->b, more, loop.index, "");
    if (dtype == IR_BOOL) one = LLVMBuildICmp(e->b, LLVMIntNE, one, LLVMConstNull(e->i8), "");
    add_scalar(e, dtype, LLVMBuildExtractElement(e->b, addresses, loop.index, ""), one);
    if (mask) emit_endif(e, branch);
    emit_loop_end(e, loop);
}

void emit_add_to(struct emit *e, const struct nest_stmt *s)
{
    enum ir_dtype dtype = e->nest->buffers.items[s->buffer].dtype;
    struct place place = find_place(e, s, emit_memory_type(e, dtype));
    const struct emit_value *value = &e->values[s->args[0]];
    if (!e->in_vector) {
        struct emit_branch branch = {NULL, NULL};
        if (s->cond) branch = emit_if(e, e->values[s->cond].v);
        add_scalar(e, dtype, place.base, value->v);
        if (s->cond) emit_endif(e, branch);
        return;
    }
    LLVMValueRef mask = emit_live(e, s->cond), more = emit_spread(e, value, true);
    if (place.kind != PLACE_NEIGHBOURS) {
        add_lanes(e, dtype, &place, more, mask);
        return;
    }
    LLVMValueRef old = from_memory(e, dtype, load_vector(e, emit_memory_type(e, dtype), place.base, dtype, mask));
    store_vector(e, to_memory(e, dtype, emit_combine(e, dtype == IR_BOOL ? OP_or : OP_add, dtype, old, more)),
                 place.base, dtype, mask);
}

void emit_position(struct emit *e, const struct nest_stmt *s)
{
    struct emit_value *out = &e->values[s->result];
    int64_t scale = e->in_vector ? emit_lane_scale(e, &s->index) : 0;
    bool wide = s->dtype == IR_F64, varies = scale != 0;
    LLVMTypeRef whole = wide ? e->i64 : e->i32;
    LLVMValueRef v = emit_affine(e, &s->index);
    if (!wide) v = LLVMBuildTrunc(e->b, v, whole, "");
    if (varies) v = LLVMBuildAdd(e->b, emit_splat(e, v, e->lanes), emit_iota(e, whole, scale), "");
    for (uint32_t i = 0; i < s->index.scaled_count; i++) {
        const struct emit_value *value = &e->values[s->index.scaled[i].value];
        LLVMValueRef more = value->v;
        if (value->varies && !varies) v = emit_splat(e, v, e->lanes);
        else if (!value->varies && varies) more = emit_splat(e, more, e->lanes);
        varies = varies || value->varies;
        if (wide) more = LLVMBuildSExt(e->b, more, LLVMTypeOf(v), "");
        more = LLVMBuildMul(e->b, more, emit_int(LLVMTypeOf(more), (uint64_t)s->index.scaled[i].scale), "");
        v = LLVMBuildAdd(e->b, v, more, "");
    }
    if (wide) v = LLVMBuildSIToFP(e->b, v, varies ? LLVMVectorType(e->f64, e->lanes) : e->f64, "");
    *out = (struct emit_value){v, (enum ir_dtype)s->dtype, varies};
}
