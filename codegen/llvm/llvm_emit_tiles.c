/* Products in the tiles of a CPU's matrix unit (AMX: eight registers of 16 rows by 64 bytes): two by two tiles of sums
 * stay in registers while the steps of k go by, 16 pairs at a time. What a register holds of a tile is configured
 * before: once for a nest where all of its products have one shape. At the nest's end the registers are given back, so
 * that no caller saves them. The numbers of registers are part of the instructions; LLVM allocates none of them. */
#include "codegen/llvm/llvm_emit.h"
#include <stdio.h>
#include <string.h>

enum { SUMS = 0, LEFT = 4, RIGHT = 6, ROW_BYTES = 64, CONFIGURATION_BYTES = 64 };

static void call(struct emit *e, const char *name, LLVMValueRef *args, uint32_t count)
{
    emit_intrinsic(e, name, NULL, 0, args, count);
}

static LLVMValueRef number(const struct emit *e, uint32_t tile) { return LLVMConstInt(e->i8, tile, 0); }

/* ---------------------------------------------------------------- configuration */

struct shape {
    uint32_t rows, columns, steps; /* steps: of one multiplication */
};

static struct shape shape_of(const struct nest_tiles *t)
{
    return (struct shape){t->rows, t->columns, (uint32_t)(t->steps < NEST_TILE ? t->steps : NEST_TILE)};
}

/* Of `all` rows or columns those of the first or the second tile. */
static uint32_t part(uint32_t all, uint32_t which)
{
    uint32_t before = which * NEST_TILE;
    return all <= before ? 0 : all - before < NEST_TILE ? all - before : NEST_TILE;
}

/* Palette 1, then from byte 16 the bytes of a row and from byte 48 the rows of each register. */
static void set_tile(uint8_t *bytes, uint32_t tile, uint32_t rows, uint32_t columns)
{
    if (!rows || !columns) return;
    bytes[16 + 2 * tile] = (uint8_t)(columns * 4);
    bytes[48 + tile] = (uint8_t)rows;
}

static void configure(struct emit *e, struct shape s)
{
    char name[64];
    snprintf(name, sizeof name, "tiles.%u.%u.%u", s.rows, s.columns, s.steps);
    LLVMValueRef global = LLVMGetNamedGlobal(e->module, name);
    if (!global) {
        uint8_t bytes[CONFIGURATION_BYTES] = {1};
        for (uint32_t i = 0; i < 2; i++) {
            for (uint32_t k = 0; k < 2; k++) set_tile(bytes, SUMS + 2 * i + k, part(s.rows, i), part(s.columns, k));
            set_tile(bytes, LEFT + i, part(s.rows, i), s.steps);
            set_tile(bytes, RIGHT + i, s.steps, part(s.columns, i));
        }
        LLVMValueRef value = LLVMConstStringInContext(e->context, (const char *)bytes, sizeof bytes, 1);
        global = LLVMAddGlobal(e->module, LLVMTypeOf(value), name);
        LLVMSetInitializer(global, value);
        LLVMSetGlobalConstant(global, 1);
        LLVMSetLinkage(global, LLVMPrivateLinkage);
        LLVMSetAlignment(global, CONFIGURATION_BYTES);
    }
    call(e, "llvm.x86.ldtilecfg", &global, 1);
}

static const struct nest_stmt *find_tiles(struct nest_stmt *const *items, size_t count)
{
    const struct nest_stmt *found = NULL;
    for (size_t i = 0; i < count && !found; i++)
        found = items[i]->kind == NEST_TILES ? items[i] : find_tiles(items[i]->body.items, items[i]->body.count);
    return found;
}

void emit_tiles_begin(struct emit *e)
{
    e->tiles = find_tiles(e->nest->body.items, e->nest->body.count);
    if (!e->tiles) return;
    e->has_tiles = true;
    configure(e, shape_of(e->tiles->tiles));
}

void emit_tiles_end(struct emit *e)
{
    if (e->tiles) call(e, "llvm.x86.tilerelease", NULL, 0);
    e->tiles = NULL;
}

/* ---------------------------------------------------------------- products */

static LLVMValueRef address(struct emit *e, uint32_t buffer, const struct nest_index *index)
{
    LLVMValueRef at = emit_affine(e, index);
    for (uint32_t i = 0; i < index->scaled_count; i++) {
        LLVMValueRef more = LLVMBuildSExt(e->b, e->values[index->scaled[i].value].v, e->i64, "");
        more = LLVMBuildMul(e->b, more, emit_i64(e, index->scaled[i].scale), "");
        at = LLVMBuildAdd(e->b, at, more, "");
    }
    LLVMTypeRef type = emit_memory_type(e, (enum ir_dtype)e->nest->buffers.items[buffer].dtype);
    return LLVMBuildGEP2(e->b, type, e->buffers[buffer], &at, 1, "");
}

static LLVMValueRef behind(struct emit *e, LLVMValueRef base, int64_t bytes)
{
    LLVMValueRef at = emit_i64(e, bytes);
    return bytes ? LLVMBuildGEP2(e->b, e->i8, base, &at, 1, "") : base;
}

static void move(struct emit *e, const char *name, uint32_t tile, LLVMValueRef from, int64_t stride)
{
    LLVMValueRef args[] = {number(e, tile), from, emit_i64(e, stride)};
    call(e, name, args, 3);
}

struct product {
    const struct nest_tiles *t;
    LLVMValueRef sums, from[2];
    int64_t apart[3]; /* bytes: between rows of left, steps of right, rows of the sums */
};

static void clear_sums(struct emit *e, const struct product *p)
{
    for (uint32_t i = 0; i < 4; i++) {
        LLVMValueRef tile = number(e, SUMS + i);
        if (part(p->t->rows, i / 2) && part(p->t->columns, i % 2)) call(e, "llvm.x86.tilezero", &tile, 1);
    }
}

static void move_sums(struct emit *e, const struct product *p, bool out)
{
    for (uint32_t i = 0; i < 4; i++)
        if (part(p->t->rows, i / 2) && part(p->t->columns, i % 2))
            move(e, out ? "llvm.x86.tilestored64" : "llvm.x86.tileloadd64", SUMS + i,
                 behind(e, p->sums, i / 2 * NEST_TILE * p->apart[2] + i % 2 * ROW_BYTES), p->apart[2]);
}

/* All tiles by so many steps, from where `left` and `right` are. */
static void multiply(struct emit *e, const struct product *p, LLVMValueRef left, LLVMValueRef right)
{
    for (uint32_t k = 0; k < 2; k++) {
        if (!part(p->t->columns, k)) continue;
        move(e, "llvm.x86.tileloadd64", RIGHT + k, behind(e, right, k * ROW_BYTES), p->apart[1]);
        for (uint32_t i = 0; i < 2; i++) {
            if (!part(p->t->rows, i)) continue;
            if (!k)
                move(e, "llvm.x86.tileloadd64", LEFT + i, behind(e, left, i * NEST_TILE * p->apart[0]), p->apart[0]);
            LLVMValueRef args[] = {number(e, SUMS + 2 * i + k), number(e, LEFT + i), number(e, RIGHT + k)};
            call(e, "llvm.x86.tdpbf16ps", args, 3);
        }
    }
}

void emit_tiles(struct emit *e, const struct nest_stmt *s)
{
    const struct nest_tiles *t = s->tiles;
    struct product p = {.t = t, .sums = address(e, s->buffer, &s->index)};
    for (int i = 0; i < 2; i++) {
        p.from[i] = address(e, t->from[i], &t->at[i]);
        p.apart[i] = t->apart[i] * (int64_t)ir_dtype_bytes((enum ir_dtype)e->nest->buffers.items[t->from[i]].dtype);
    }
    p.apart[2] = t->stride * 4;
    struct shape first = shape_of(e->tiles->tiles), now = shape_of(t);
    if (memcmp(&first, &now, sizeof now) != 0) configure(e, now);
    int64_t whole = t->steps / now.steps, rest = t->steps % now.steps;
    if (s->word) move_sums(e, &p, false);
    else clear_sums(e, &p);
    struct emit_loop loop = emit_loop_begin(e, emit_i64(e, 0), emit_i64(e, whole), 1, true);
    LLVMValueRef left = LLVMBuildMul(e->b, loop.index, emit_i64(e, ROW_BYTES), ""),
                 right = LLVMBuildMul(e->b, loop.index, emit_i64(e, NEST_TILE * p.apart[1]), "");
    multiply(e, &p, LLVMBuildGEP2(e->b, e->i8, p.from[0], &left, 1, ""),
             LLVMBuildGEP2(e->b, e->i8, p.from[1], &right, 1, ""));
    emit_loop_end(e, loop);
    if (rest) { /* configuring clears the registers */
        move_sums(e, &p, true);
        now.steps = (uint32_t)rest;
        configure(e, now);
        move_sums(e, &p, false);
        multiply(e, &p, behind(e, p.from[0], whole * ROW_BYTES), behind(e, p.from[1], whole * NEST_TILE * p.apart[1]));
    }
    move_sums(e, &p, true);
    if (memcmp(&first, &now, sizeof now) != 0) configure(e, first);
}
