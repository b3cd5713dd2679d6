/* Inside the LLVM printer (llvm_*.c): the state while nests become functions of one LLVM module.
 *
 * In registers a bool is i1, bf16 and f16 are f32 (rounded after every operation), everything else is itself. A value
 * is a scalar until it depends on the variable of the enclosing vector loop; from there on it is a vector of
 * `lanes`. Scalars are splat where they meet vectors. */
#ifndef CODEGEN_LLVM_EMIT_H
#define CODEGEN_LLVM_EMIT_H
#include "codegen/codegen.h"
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

enum { EMIT_MAX_CHECKS = 128, EMIT_CHECK_WAYS = 4, EMIT_MAX_COPIES = 4, EMIT_MAX_LANES = 64, EMIT_MAX_NUMBERS = 8 };

struct emit_value {
    LLVMValueRef v;
    uint8_t dtype;
    bool varies;
};
struct emit_variable {
    LLVMValueRef value;
    uint32_t depth;
    bool vector;
};
struct emit_register {
    uint8_t dtype;
    uint32_t count;  /* elements */
    uint32_t copies; /* vectors per element: of a tile, or partial sums of an unrolled loop */
    uint16_t reduce; /* the op of its reductions in vector loops, 0 = none */
    bool lanes, tile, in_vector;
    LLVMValueRef *slots;  /* [count * copies], made on first use */
    LLVMValueRef spilled; /* a copy of all elements in memory, while a loop runs that was not unrolled; else NULL */
};

struct emit {
    struct arena *arena;
    const struct cg_target *target;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef b, allocas;
    LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr;
    bool has_fma, has_f16c;
    bool has_pairs, has_tiles; /* the code multiplies pairs, or tiles, of bfloat16: not every CPU of the level can */

    /* of the function being printed */
    LLVMValueRef function, nothing; /* where there is a 0 of which LLVM does not know; NULL: nobody has asked for it */
    struct {
        LLVMValueRef sum, zero;
        uint32_t copy, way;
        uint8_t kind;          /* NEST_FINITE.. */
    } checks[EMIT_MAX_CHECKS]; /* sums of 0 * x: NaN once an x was not finite; or of x * x; or the largest bits of |x|
                                */
    uint32_t check_count;

    /* of the nest being printed */
    const struct nest *nest;
    struct emit_value *values;
    struct emit_variable *vars;
    struct emit_register *regs;
    LLVMValueRef *buffers;
    const uint8_t *facts;          /* by value (llvm_emit_facts.c) */
    uint8_t known;                 /* those of what is made now */
    LLVMValueRef *given;           /* by value: a number that is an argument; NULL: there are none */
    const struct nest_stmt *tiles; /* the first statement of tiles: whose the configuration is; NULL: there are none */
    LLVMValueRef lo, hi, scratch;
    uint32_t lanes, depth;
    bool contracts; /* it has the tile of a contraction */
    bool inside;    /* what is printed stands in the loop of one, or beside one (llvm_emit_apart.c) */

    /* of the vector loop being printed */
    bool in_vector;
    int64_t extent;      /* iterations; -1: not known */
    LLVMValueRef mask;   /* NULL: all lanes live */
    uint32_t short_tail; /* so many lanes are, and stores go in pieces (llvm_emit_memory.c); 0: by the mask */
    uint32_t copy;
};

/* llvm_emit.c. Prints the statements of a nest at the builder's place; `buffers` are its arguments. */
void emit_begin(struct emit *, const struct cg_target *, struct arena *, LLVMContextRef, LLVMModuleRef);
void emit_end(struct emit *);
LLVMValueRef emit_function(struct emit *, const char *name, LLVMTypeRef type);
void emit_attribute(const struct emit *, LLVMValueRef function, const char *name);
void emit_function_end(struct emit *, LLVMValueRef scratch); /* NULL: checks nothing */
void emit_nest(struct emit *, const struct nest *, const LLVMValueRef *buffers, LLVMValueRef lo, LLVMValueRef hi,
               LLVMValueRef scratch);
LLVMTypeRef emit_kernel_type(struct emit *);
/* A kernel: one function of the ABI's type around one nest. `numbers`: statements of the nest whose values become
 * further arguments; emit_kernel_of makes the kernel that calls such a body with the values of its own numbers. */
LLVMValueRef emit_kernel(struct emit *, const struct nest *, const char *name, const struct nest_stmt *const *numbers,
                         uint32_t count);
LLVMValueRef emit_kernel_of(struct emit *, LLVMValueRef body, const char *name, const struct nest_stmt *const *numbers,
                            uint32_t count);
LLVMValueRef emit_number(struct emit *, const struct nest_stmt *);

/* llvm_emit_apart.c: around each loop of a nest. */
struct emit_apart {
    LLVMValueRef zero;      /* NULL: what stands in it stays as it is */
    LLVMBasicBlockRef last; /* of the function, before the loop was printed */
    bool inside;
};
void emit_apart_survey(struct emit *);
struct emit_apart emit_apart_begin(struct emit *, const struct nest_stmt *loop);
void emit_apart_end(struct emit *, struct emit_apart);

/* llvm_emit_facts.c: what is known of each value of the nest that is printed. It is no denormal; if it is NaN, the
 * lower half of its bits is 0; so it was before it was rounded; it is a quotient whose divisor stays for some
 * iterations. */
enum { EMIT_FLUSHED = 1, EMIT_SHORT = 2, EMIT_ROUNDS_SHORT = 4, EMIT_STEADY_DIVISOR = 8 };
const uint8_t *emit_find_facts(struct emit *, int64_t flat_extent);        /* -1: not known */
void emit_find_steady(struct emit *, int64_t flat_extent, uint8_t *facts); /* llvm_emit_steady.c: the last one */

/* llvm_emit_register.c */
LLVMValueRef emit_slot(struct emit *, uint32_t reg, int64_t element, uint32_t copy); /* its alloca */
LLVMValueRef emit_register_load(struct emit *, const struct emit_register *, LLVMValueRef at);
LLVMValueRef emit_identity(struct emit *, enum ir_op, enum ir_dtype,
                           uint32_t lanes); /* the value that leaves others as they are */
void emit_declare(struct emit *, const struct nest_stmt *);
void emit_get(struct emit *, const struct nest_stmt *);
void emit_set(struct emit *, const struct nest_stmt *);
void emit_reduce(struct emit *, const struct nest_stmt *);
void emit_fold(struct emit *, const struct nest_stmt *);
void emit_turn(struct emit *, const struct nest_stmt *);
void emit_spread_lanes(struct emit *, const struct nest_stmt *);

/* llvm_emit_tiles.c: NEST_TILES, and what the nest does before the first one and after the last. */
void emit_tiles_begin(struct emit *);
void emit_tiles_end(struct emit *);
void emit_tiles(struct emit *, const struct nest_stmt *);

/* llvm_emit_basic.c: constants, shapes, blocks. A `type` may be a scalar or a vector. */
LLVMTypeRef emit_register_type(const struct emit *, enum ir_dtype, uint32_t lanes); /* lanes 0: scalar */
LLVMTypeRef emit_memory_type(const struct emit *, enum ir_dtype);
LLVMTypeRef emit_shaped(LLVMTypeRef like, LLVMTypeRef element); /* `element` in the shape of `like` */
uint32_t emit_lane_count(LLVMTypeRef);                          /* 0: scalar */
LLVMValueRef emit_real(LLVMTypeRef, double);
LLVMValueRef emit_int(LLVMTypeRef, uint64_t);
LLVMValueRef emit_i64(const struct emit *, int64_t);
LLVMValueRef emit_element(const struct emit *, LLVMTypeRef, LLVMValueRef array, int64_t index); /* its address */
LLVMValueRef emit_splat(struct emit *, LLVMValueRef scalar, uint32_t lanes);
LLVMValueRef emit_spread(struct emit *, const struct emit_value *, bool lanes); /* as a vector, if `lanes` */
LLVMValueRef emit_iota(struct emit *, LLVMTypeRef element, int64_t scale);      /* 0, scale, 2*scale .. */
LLVMValueRef emit_intrinsic(struct emit *, const char *name, LLVMTypeRef *overloads, uint32_t overload_count,
                            LLVMValueRef *args, uint32_t arg_count);
LLVMValueRef emit_call1(struct emit *, const char *intrinsic, LLVMValueRef);
LLVMValueRef emit_call2(struct emit *, const char *intrinsic, LLVMValueRef, LLVMValueRef);
LLVMValueRef emit_fma(struct emit *, LLVMValueRef, LLVMValueRef, LLVMValueRef); /* two roundings without the hardware */
LLVMValueRef emit_fma_pairs(struct emit *, LLVMValueRef, LLVMValueRef, LLVMValueRef); /* of bfloat16, to f32 */
/* x * 2^n, of whole n, rounded once; for types that have it. */
bool emit_has_scale(const struct emit *, LLVMTypeRef);
LLVMValueRef emit_scale(struct emit *, LLVMValueRef x, LLVMValueRef n);
LLVMValueRef emit_half_of(struct emit *, LLVMValueRef pair, int which); /* of bfloat16: 0 the first, 1; as f32 */
LLVMValueRef emit_bits(struct emit *, LLVMValueRef);                    /* float to the integer of its size */
LLVMValueRef emit_from_bits(struct emit *, LLVMValueRef);               /* back: i32 to f32, i64 to f64 */
LLVMValueRef emit_pick(struct emit *, LLVMValueRef, LLVMValueRef, LLVMValueRef);
LLVMValueRef emit_libm(struct emit *, const char *name, const LLVMValueRef *args, uint32_t count); /* lane by lane */
LLVMBasicBlockRef emit_block(struct emit *);
bool emit_known(LLVMValueRef, int64_t *);
/* `then` is printed between the two calls; nothing else happens where the condition is false. */
struct emit_branch {
    LLVMBasicBlockRef before, after;
};
struct emit_branch emit_if(struct emit *, LLVMValueRef condition);
void emit_endif(struct emit *, struct emit_branch);
LLVMValueRef emit_endif_pick(struct emit *, struct emit_branch, LLVMValueRef then, LLVMValueRef otherwise);
/* for (i = from; i < to; i += step); `once`: known to run at least once. */
struct emit_loop {
    LLVMValueRef index, to;
    int64_t step;
    LLVMBasicBlockRef body, after;
};
struct emit_loop emit_loop_begin(struct emit *, LLVMValueRef from, LLVMValueRef to, int64_t step, bool once);
void emit_loop_end(struct emit *, struct emit_loop);

/* llvm_emit_check.c: what is stored to a checked buffer (mask NULL: all lanes), and at a function's end the flag.
 * Stores of one `way`, below EMIT_CHECK_WAYS, wait for each other. */
void emit_check(struct emit *, uint32_t way, uint8_t kind, LLVMValueRef stored, LLVMValueRef mask);
void emit_flag(struct emit *, LLVMValueRef scratch);

/* llvm_emit_finite.c: NEST_CHECK. */
void emit_finite(struct emit *, const struct nest_stmt *);

/* llvm_emit_memory.c */
LLVMValueRef emit_live(struct emit *, nest_value cond); /* the lanes where it holds (0: it does); NULL: all */
int64_t emit_lane_scale(const struct emit *, const struct nest_index *);
void emit_load(struct emit *, const struct nest_stmt *);
void emit_store(struct emit *, const struct nest_stmt *);
void emit_prefetch(struct emit *, const struct nest_stmt *);
void emit_add_to(struct emit *, const struct nest_stmt *);
void emit_position(struct emit *, const struct nest_stmt *);
int64_t emit_constant_index(struct emit *, const struct nest_index *); /* BUG unless all its variables are unrolled */
LLVMValueRef emit_affine(struct emit *, const struct nest_index *);    /* offset and terms as i64 */

/* llvm_emit_op.c: an element-wise op on operands of one shape; operands' dtype may differ from the result's. Its rule
 * is emit_<op> there or, for elementary functions, in llvm_math.c, where errors are stated; it computes on registers,
 * f32 for 16-bit floats, and emit_op rounds what comes out. */
struct emit_scalar {
    struct emit *e;
    enum ir_op op;
    enum ir_dtype result, operand;
    uint8_t word; /* threefry */
    const LLVMValueRef *x;
};
typedef LLVMValueRef emit_rule(const struct emit_scalar *);
#define EWISE(name) emit_rule emit_##name;
#include "ir/emit.def"
LLVMValueRef emit_op(struct emit *, enum ir_op, enum ir_dtype result, enum ir_dtype operand, uint8_t word,
                     const LLVMValueRef *args);
bool emit_can_divide_steady(const struct emit_scalar *); /* where EMIT_STEADY_DIVISOR is known: by its reciprocal */
LLVMValueRef emit_divide_steady(const struct emit_scalar *);
LLVMValueRef emit_combine(struct emit *, enum ir_op, enum ir_dtype, LLVMValueRef, LLVMValueRef);
LLVMValueRef emit_round_to(struct emit *, enum ir_dtype, LLVMValueRef); /* f32 to the nearest bf16 or f16, as f32 */

LLVMValueRef emit_half_from_bits(struct emit *, enum ir_dtype, LLVMValueRef); /* bf16 or f16: i16 to f32 */
LLVMValueRef emit_half_bits(struct emit *, enum ir_dtype, LLVMValueRef);      /* f32 to i16 */
#endif
