/* Random numbers: the streams of nnx.Rngs (streams.c), drawing and initializers as IR (init.c). */
#ifndef FRONTEND_MODEL_INIT_H
#define FRONTEND_MODEL_INIT_H
#include "frontend/model/model.h"

/* One draw of a stream; an unknown name falls back to "default". */
void fe_draw(struct fe *, const char *stream, uint32_t *index, uint32_t *draw);
bool fe_check_initializer(struct fe *, fe_json);                   /* false: an error was recorded */
bool fe_initializer_constant(struct fe *, fe_json, double *value); /* false: it is random */
/* A part of a larger random tensor: element (i0, i1, ..) of the part is element (.., at[d][id], ..) of the whole. */
struct fe_part {
    struct ir_type whole;
    uint32_t dim;
    ir_value at; /* uint32, one number per index along dim; a scalar: the part lacks dimension 0 of the whole */
};
/* Random tensors by a key of two uint32 scalars, float32 but for the bits. `part` NULL: all of it. */
enum fe_drawing {
    FE_DRAW_BITS,
    FE_DRAW_UNIFORM,
    FE_DRAW_NORMAL,
    FE_DRAW_TRUNCATED_NORMAL
}; /* jax.random's; bits: uint32 */
ir_value fe_random(struct ir_builder *, const ir_value key[2], const struct ir_type *shape, enum fe_drawing, float low,
                   float high, const struct fe_part *part);
/* jax.random.normal in the dtype of the shape with the key of two uint32 scalars, as float32. */
ir_value fe_normal(struct ir_builder *, ir_value k0, ir_value k1, const struct ir_type *shape);
ir_value fe_rademacher(struct ir_builder *, ir_value k0, ir_value k1, const struct ir_type *shape); /* -1 or 1 */
void fe_fold_in(struct ir_builder *, const ir_value key[2], ir_value count, ir_value out[2]); /* jax.random.fold_in */
void fe_fork_key(const struct fe *, uint32_t stream, uint32_t draw, uint32_t key[2]); /* fold_in(stream's key, draw) */
struct fe_drawn {
    ir_value key[2];
    struct fe_part part;
    bool is_part;
};
/* What an initializer gives with a key that is drawn while the model runs; 0: an error was recorded. */
ir_value fe_initial_drawn(struct fe *, struct ir_builder *, fe_json initializer, const struct fe_drawn *,
                          const struct ir_type *);
ir_value fe_orthogonal(struct fe *, struct ir_builder *, const struct fe_param *, const uint32_t key[2], double scale,
                       int64_t column_axis, bool delta); /* init_orthogonal.c; 0: an error was recorded */
void fe_threefry(const uint32_t key[2], uint32_t x0, uint32_t x1, uint32_t out[2]);
#endif
