/* What the files that print a nest share (cuda_emit.c). */
#ifndef CODEGEN_CUDA_EMIT_H
#define CODEGEN_CUDA_EMIT_H
#include "codegen/cuda/cuda.h"

struct cuda_register {
    uint8_t dtype;
    bool lanes, in_vector, tile;
    uint32_t count;
};

struct cuda_emitter {
    struct str *out;
    struct arena *arena;
    const struct nest *nest;
    struct cuda_kernel kernel;
    bool part;                  /* of a sequence, no kernel of its own */
    const char *block, *blocks; /* of those that share [lo, hi) */
    int indent;
    uint32_t quiet;  /* > 0: walked, not printed */
    uint8_t *dtypes; /* by value */
    const struct cuda_calls *calls;
    struct cuda_order order;
    struct cuda_register *regs;
    struct cuda_run *runs; /* by value */
    bool *lives;           /* by value: a text uses it */
    bool *run_lives;       /* by the first value of a run */
    cuda_stores stores;    /* of the vector loop */
    bool folds, in_parallel;
    bool warps;     /* an iteration of the parallel loop is a warp's, else a block's */
    bool meets;     /* of a sequence: a barrier is of a team, not of the block */
    uint32_t team;  /* threads that an iteration has */
    uint32_t few;   /* neighbours that a thread has at a time in a flat map, or in the row at hand */
    uint32_t *fews; /* by variable: in its loop, of a row */
    bool strays;    /* of which something is loaded that does not lie side by side */
    const struct nest_stmt *vector;
    VEC(struct cuda_access) open; /* since the last barrier */
};

/* cuda_shape.c: what must be known before printing: values, registers and loads; the threads of an iteration and of a
 * block. */
void cuda_survey(struct cuda_emitter *, struct nest_stmt *const *items, size_t count, bool in_vector);
void cuda_choose_threads(struct cuda_emitter *);
void cuda_share_block(struct cuda_emitter *); /* of a sequence: whose threads are as many teams as have work */
/* Does a vector loop have additions that may meet, so that thread 0 does all of them? Does the access of a flat map's
 * loop touch neighbours one after the other? Bytes of a local. */
bool cuda_is_solo(const struct cuda_emitter *, const struct nest_stmt *vector, struct nest_stmt *const *items,
                  size_t count);
bool cuda_is_side_by_side(const struct cuda_emitter *, const struct nest_stmt *loop, const struct nest_stmt *);
int64_t cuda_local_bytes(const struct nest_buffer *);

/* cuda_frame.c: what stands before the statements of a kernel, or of a part of a sequence, with its braces. */
void cuda_open_kernel(struct cuda_emitter *);
void cuda_open_part(struct cuda_emitter *);

/* cuda_bits.c: where a load finds its element; a value by the bits that were loaded, NULL: it is none; what is used. */
bool cuda_is_half(const struct cuda_emitter *, const struct nest_stmt *load); /* of 16 bits */
const char *cuda_loaded_text(struct cuda_emitter *, const struct nest_stmt *load);
const char *cuda_bits_text(struct cuda_emitter *, const struct nest_stmt *);
void cuda_find_lives(struct cuda_emitter *, struct nest_stmt *const *items, size_t count);

/* cuda_text.c: lines, where the walk prints; a value, an index, and an element of what a letter and a number name. */
__attribute__((format(printf, 2, 3))) void cuda_line(struct cuda_emitter *, const char *format, ...);
void cuda_open_brace(struct cuda_emitter *, const char *head);
void cuda_close_brace(struct cuda_emitter *);
const char *cuda_name_of(struct cuda_emitter *, nest_value);
const char *cuda_index_text(struct cuda_emitter *, const struct nest_index *);
const char *cuda_element(struct cuda_emitter *, char kind, uint32_t number, const struct nest_index *);
#endif
