/* Random numbers and the initializers of jax.nn.initializers as IR. The key of an initial value is known when the
 * document is compiled (streams.c); what is drawn with it is computed by the compiled `init`, element by element from
 * its global index by Threefry-2x32 as jax.random uses it, so that it does not depend on the mesh. */
#include "frontend/model/block.h"
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- the table */

enum family { FIXED, CONSTANT, NORMAL, TRUNCATED, UNIFORM, SCALED_ANY, SCALED, ORTHOGONAL };
struct initializer {
    const char *name;
    enum family family;
    double scale;
    const char *mode, *distribution, *doc; /* what it gives; of a special case: who found it */
};
static const struct initializer table[] = {
#define X(name, family, scale, mode, distribution, doc) {#name, family, scale, mode, distribution, doc},
#include "frontend/model/initializers.def"
#undef X
};
enum { TABLE_COUNT = sizeof table / sizeof *table, MAX_ROWS = 6 };

#define AXES \
    {"in_axis", FE_ANY, 0, "-2", NULL}, {"out_axis", FE_ANY, 0, "-1", NULL}, { "batch_axis", FE_ANY, 0, "[]", NULL }
static const struct fe_arg scaled_rows[] = {AXES};
static const struct fe_arg any_rows[] = {
    AXES,
    {"scale", FE_NUMBER, FE_REQUIRED | FE_POSITIVE, NULL, NULL},
    {"mode", FE_ENUM, FE_REQUIRED, NULL, "fan_in|fan_out|fan_avg|fan_geo_avg"},
    {"distribution", FE_ENUM, FE_REQUIRED, NULL, "truncated_normal|normal|uniform"}};
static const struct fe_arg constant_rows[] = {{"value", FE_NUMBER, FE_REQUIRED, NULL, NULL}};
static const struct fe_arg normal_rows[] = {{"stddev", FE_NUMBER, 0, "0.01", NULL}};
static const struct fe_arg truncated_rows[] = {
    {"stddev", FE_NUMBER, 0, "0.01", NULL}, {"lower", FE_NUMBER, 0, "-2", NULL}, {"upper", FE_NUMBER, 0, "2", NULL}};
static const struct fe_arg orthogonal_rows[] = {{"scale", FE_NUMBER, 0, "1", NULL},
                                                {"column_axis", FE_INTEGER, 0, "-1", NULL}};
static const struct fe_arg uniform_rows[] = {{"scale", FE_NUMBER, 0, "0.01", NULL}};
static const struct {
    const struct fe_arg *rows;
    uint32_t count;
} family_rows[] = {[FIXED] = {NULL, 0},           [CONSTANT] = {constant_rows, 1},
                   [NORMAL] = {normal_rows, 1},   [TRUNCATED] = {truncated_rows, 3},
                   [UNIFORM] = {uniform_rows, 1}, [SCALED_ANY] = {any_rows, 6},
                   [SCALED] = {scaled_rows, 3},   [ORTHOGONAL] = {orthogonal_rows, 2}};

static const struct initializer *find(const char *name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}

bool fe_initializer_row(struct arena *arena, uint32_t index, struct fe_row *out)
{
    if (index >= TABLE_COUNT) return false;
    const struct initializer *init = &table[index];
    *out = (struct fe_row){init->name, family_rows[init->family].rows, family_rows[init->family].count, init->doc};
    if (init->family == SCALED)
        out->doc = arena_format(arena, "`variance_scaling` of scale %g, mode \"%s\", distribution \"%s\" %s.",
                                init->scale, init->mode, init->distribution, init->doc);
    return true;
}

static const struct initializer *read_object(struct fe *fe, fe_json json, struct fe_value *v)
{
    const char *type = fe_type_of(fe, json);
    if (!type) return NULL;
    const struct initializer *init = find(type);
    if (!init) {
        const char *names[TABLE_COUNT];
        for (size_t i = 0; i < TABLE_COUNT; i++) names[i] = table[i].name;
        fe_suggest(fe, fe_error(fe, fe_member(fe, json, "type"), "E0105", "unknown initializer \"%s\"", type), type,
                   names, TABLE_COUNT);
        return NULL;
    }
    const char *what = arena_format(fe->arena, "initializer \"%s\"", type);
    return fe_args(fe, json, what, family_rows[init->family].rows, family_rows[init->family].count, NULL, v) ? init
                                                                                                             : NULL;
}

bool fe_check_initializer(struct fe *fe, fe_json json)
{
    struct fe_value v[MAX_ROWS] = {0};
    return read_object(fe, json, v) != NULL;
}

bool fe_initializer_constant(struct fe *fe, fe_json json, double *value)
{
    struct fe_value v[MAX_ROWS] = {0};
    const struct initializer *init = read_object(fe, json, v);
    if (!init || (init->family != FIXED && init->family != CONSTANT)) return false;
    *value = (double)(float)(init->family == FIXED ? init->scale : v[0].number);
    return true;
}

/* ---------------------------------------------------------------- random tensors as IR */

struct drawing {
    struct ir_builder *b;
    struct ir_type type;
    ir_value k0, k1;
    const struct fe_part *part; /* NULL: the whole tensor */
    enum ir_dtype narrow;       /* if it has 16 bits, numbers are drawn in it: every result is rounded to it */
};

static ir_value like(struct drawing *d, double x) { return ir_number(d->b, d->type, x); }
static ir_value u32(struct drawing *d, double x)
{
    struct ir_type t = d->type;
    t.dtype = IR_U32;
    return ir_number(d->b, t, x);
}

static int fraction_bits(const struct drawing *d) { return d->narrow == IR_BF16 ? 7 : d->narrow == IR_F16 ? 10 : 23; }

/* x as a number of the dtype that is drawn in: of a tensor and of a number that is known now. */
static ir_value rounded(struct drawing *d, ir_value x)
{
    return fraction_bits(d) == 23 ? x : ir_cast(d->b, ir_cast(d->b, x, d->narrow), IR_F32);
}
static float rounded_number(const struct drawing *d, double x)
{
    int exponent, lowest = d->narrow == IR_F16 ? -24 : -149;
    frexp(x, &exponent);
    exponent -= fraction_bits(d) + 1;
    if (exponent < lowest) exponent = lowest;
    return (float)ldexp(nearbyint(ldexp(x, -exponent)), exponent);
}
/* The next number after x, which is one of that dtype. */
static float next_number(const struct drawing *d, float x, float towards)
{
    uint32_t bits, step = 1u << (23 - fraction_bits(d));
    if (fraction_bits(d) == 23 || x == towards) return nextafterf(x, towards);
    if (x == 0) return copysignf(d->narrow == IR_F16 ? 0x1p-24f : 0x1p-133f, towards);
    memcpy(&bits, &x, sizeof bits);
    bits = (x < towards) == (x > 0) ? bits + step : bits - step;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static ir_value times(struct drawing *d, ir_value x, double by)
{
    return rounded(d, ir_binary(d->b, OP_mul, x, like(d, (double)rounded_number(d, by))));
}

/* Positions along dimension i of the tensor that is drawn. */
static ir_value positions(struct drawing *d, const struct ir_type *t, uint32_t i)
{
    const int64_t dims[] = {i};
    if (!d->part || !ir_type(d->b->f, d->part->at)->rank || d->part->dim != i) return ir_iota(d->b, *t, i);
    return ir_broadcast(d->b, d->part->at, t->rank, t->dim, dims);
}

/* The row-major index of each element in the whole tensor: as uint32, as float64 where that does not hold it. */
static ir_value index_of(struct drawing *d, bool wide)
{
    struct ir_type t = d->type;
    t.dtype = wide ? IR_F64 : IR_U32;
    ir_value index = ir_number(d->b, t, 0);
    int64_t stride = 1;
    for (uint32_t i = t.rank; i-- > 0;) {
        ir_value at = ir_cast(d->b, positions(d, &t, i), (enum ir_dtype)t.dtype);
        if (stride != 1) at = ir_binary(d->b, OP_mul, at, ir_number(d->b, t, (double)stride));
        index = ir_binary(d->b, OP_add, index, at);
        stride *= d->part && d->part->dim == i ? d->part->whole.dim[i] : t.dim[i];
    }
    if (d->part && !ir_type(d->b->f, d->part->at)->rank) {
        ir_value row = ir_broadcast_to(d->b, ir_cast(d->b, d->part->at, (enum ir_dtype)t.dtype), t.rank, t.dim);
        ir_value before = ir_binary(d->b, OP_mul, row, ir_number(d->b, t, (double)ir_type_elements(&t)));
        index = ir_binary(d->b, OP_add, index, before);
    }
    return index;
}

/* 32 bits per element: both words of Threefry over the two words of its index, xored. */
static ir_value random_bits(struct drawing *d)
{
    bool wide = ir_type_elements(d->part ? &d->part->whole : &d->type) > UINT32_MAX;
    ir_value high = u32(d, 0), low = index_of(d, wide);
    if (wide) {
        struct ir_type t = *ir_type(d->b->f, low);
        ir_value word = ir_number(d->b, t, 0x1p32);
        ir_value above = ir_unary(d->b, OP_floor, ir_binary(d->b, OP_div, low, word));
        low = ir_cast(d->b, ir_binary(d->b, OP_sub, low, ir_binary(d->b, OP_mul, above, word)), IR_U32);
        high = ir_cast(d->b, above, IR_U32);
    }
    ir_value x = ir_threefry(d->b, d->k0, d->k1, high, low, 0), y = ir_threefry(d->b, d->k0, d->k1, high, low, 1);
    return ir_binary(d->b, OP_xor, x, y);
}

/* [low, high): as many random bits as a fraction has become that of a number in [1, 2). They are the upper ones of 32,
 * or of the lower 16, or, where a byte is enough, 8. */
static ir_value random_uniform(struct drawing *d, float low, float high)
{
    int width = fraction_bits(d), from = d->narrow == IR_BF16 ? 8 : d->narrow == IR_F16 ? 16 : 32;
    ir_value bits = random_bits(d);
    if (from < 32) bits = ir_binary(d->b, OP_and, bits, u32(d, (double)((1u << from) - 1)));
    bits = ir_binary(d->b, OP_shr, bits, u32(d, from - width));
    if (width < 23) bits = ir_binary(d->b, OP_shl, bits, u32(d, 23 - width));
    ir_value x = ir_bitcast(d->b, ir_binary(d->b, OP_or, bits, u32(d, 0x3f800000)), IR_F32);
    x = times(d, ir_binary(d->b, OP_sub, x, like(d, 1)), (double)(high - low));
    x = rounded(d, ir_binary(d->b, OP_add, x, like(d, (double)low)));
    return ir_binary(d->b, OP_max, like(d, (double)low), x);
}

static ir_value inverse_erf(struct drawing *d, ir_value u)
{
    return times(d, rounded(d, ir_unary(d->b, OP_erf_inv, u)), (double)1.41421356237309505f);
}
static ir_value random_normal(struct drawing *d) { return inverse_erf(d, random_uniform(d, next_number(d, -1, 0), 1)); }

/* erf(x / sqrt(2)); XLA multiplies by the reciprocal in float16. */
static float bound(const struct drawing *d, float x)
{
    float root = rounded_number(d, (double)1.41421356237309505f);
    float scaled = d->narrow == IR_F16 ? x * rounded_number(d, 1 / (double)root) : x / root;
    return rounded_number(d, (double)erff(rounded_number(d, (double)scaled)));
}

static ir_value random_truncated(struct drawing *d, double lower, double upper)
{
    float low = rounded_number(d, lower), high = rounded_number(d, upper);
    ir_value x = inverse_erf(d, random_uniform(d, bound(d, low), bound(d, high)));
    x = ir_binary(d->b, OP_max, x, like(d, (double)next_number(d, low, INFINITY)));
    return ir_binary(d->b, OP_min, x, like(d, (double)next_number(d, high, -INFINITY)));
}

void fe_fold_in(struct ir_builder *b, const ir_value key[2], ir_value count, ir_value out[2])
{
    ir_value zero = ir_number(b, ir_type_scalar(IR_U32), 0);
    for (uint32_t i = 0; i < 2; i++) out[i] = ir_threefry(b, key[0], key[1], zero, count, i);
}

static struct drawing drawing_of(struct ir_builder *b, ir_value k0, ir_value k1, const struct ir_type *shape)
{
    struct drawing d = {.b = b, .type = *shape};
    d.type.dtype = IR_F32;
    d.k0 = ir_broadcast_to(b, k0, d.type.rank, d.type.dim); /* `shape` may lie among the nodes, which move */
    d.k1 = ir_broadcast_to(b, k1, d.type.rank, d.type.dim);
    return d;
}

ir_value fe_random(struct ir_builder *b, const ir_value key[2], const struct ir_type *shape, enum fe_drawing drawing,
                   float low, float high, const struct fe_part *part)
{
    struct drawing d = drawing_of(b, key[0], key[1], shape);
    d.part = part;
    switch (drawing) {
    case FE_DRAW_BITS: return random_bits(&d);
    case FE_DRAW_UNIFORM: return random_uniform(&d, low, high);
    case FE_DRAW_NORMAL: return random_normal(&d);
    case FE_DRAW_TRUNCATED_NORMAL: return random_truncated(&d, (double)low, (double)high);
    }
    BUG("drawing %d has no rule", (int)drawing);
}

ir_value fe_normal(struct ir_builder *b, ir_value k0, ir_value k1, const struct ir_type *shape)
{
    enum ir_dtype dtype = (enum ir_dtype)shape->dtype; /* before nodes move */
    struct drawing d = drawing_of(b, k0, k1, shape);
    if (ir_dtype_is_float(dtype) && ir_dtype_bytes(dtype) == 2) d.narrow = dtype;
    return random_normal(&d);
}

ir_value fe_rademacher(struct ir_builder *b, ir_value k0, ir_value k1, const struct ir_type *shape)
{
    struct drawing d = drawing_of(b, k0, k1, shape);
    ir_value heads = ir_binary(b, OP_lt, random_uniform(&d, 0, 1), like(&d, 0.5));
    return ir_select(b, heads, like(&d, 1), like(&d, -1));
}

/* ---------------------------------------------------------------- initializers */

static double axis_product(struct fe *fe, const struct fe_value *v, int64_t preset, const int64_t *shape, uint32_t rank,
                           bool *good)
{
    int64_t axes[IR_MAX_RANK] = {preset};
    uint32_t n = preset ? 1 : 0;
    double product = 1;
    if (v->given && v->json) {
        n = 0;
        bool list = v->json->kind == JSON_ARRAY;
        for (fe_json c = list ? fe_first(fe, v->json) : v->json; c && n < IR_MAX_RANK; c = list ? fe_next(fe, c) : NULL)
            if (!fe_integer(fe, c, &axes[n++])) *good = false;
    }
    for (uint32_t i = 0; i < n && *good; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank) {
            if (v->given)
                fe_error(fe, v->json, "E0212", "axis %lld is outside a parameter of rank %u", (long long)axes[i],
                         (unsigned)rank);
            *good = false;
        } else product *= (double)shape[axis];
    }
    return product;
}

/* fan_in and fan_out as jax.nn.initializers: what the axes leave is the receptive field. `embed`: out_axis 0. */
static bool fans(struct fe *fe, const struct fe_param *p, const struct fe_value *v, bool embed, double *in, double *out)
{
    const int64_t *shape = p->init_rank ? p->init_shape : p->type.dim;
    uint32_t rank = p->init_rank ? p->init_rank : p->type.rank;
    bool good = true;
    double total = 1, batch;
    if (rank < 2)
        return fe_wrong(fe, p->init, "E0212",
                        "parameter \"%s\" has rank %u: an initializer that scales by fans needs 2 dimensions or more",
                        p->path, (unsigned)rank);
    for (uint32_t i = 0; i < rank; i++) total *= (double)shape[i];
    *in = axis_product(fe, &v[0], -2, shape, rank, &good);
    *out = embed ? (double)shape[0] : axis_product(fe, &v[1], -1, shape, rank, &good);
    batch = axis_product(fe, &v[2], 0, shape, rank, &good);
    double receptive = *in * *out * batch > 0 ? total / *in / *out / batch : 0;
    *in *= receptive;
    *out *= receptive;
    return good;
}

static ir_value scaled(struct fe *fe, struct drawing *d, const struct fe_param *p, const struct fe_value *v,
                       double scale, const char *mode, const char *distribution, bool embed)
{
    double in, out;
    if (!fans(fe, p, v, embed, &in, &out)) return 0;
    double by = !strcmp(mode, "fan_in")    ? in
                : !strcmp(mode, "fan_out") ? out
                : !strcmp(mode, "fan_avg") ? (in + out) / 2
                                           : sqrt(in * out);
    double variance = (double)rounded_number(d, by > 0 ? scale / by : 0);
    if (!strcmp(distribution, "uniform"))
        return times(d, random_uniform(d, -1, 1), sqrt((double)rounded_number(d, 3 * variance)));
    double deviation = (double)rounded_number(d, sqrt(variance));
    if (!strcmp(distribution, "normal")) return times(d, random_normal(d), deviation);
    return times(d, random_truncated(d, -2, 2), deviation / (double)rounded_number(d, 0.87962566103423978));
}

static ir_value draw(struct fe *fe, struct drawing *d, const struct fe_param *p, const struct initializer *init,
                     const struct fe_value *v)
{
    switch (init->family) {
    case FIXED: return like(d, init->scale);
    case CONSTANT: return like(d, v[0].number);
    case NORMAL: return times(d, random_normal(d), v[0].number);
    case TRUNCATED: return times(d, random_truncated(d, v[1].number, v[2].number), v[0].number);
    case UNIFORM: return times(d, random_uniform(d, 0, 1), v[0].number);
    case SCALED_ANY: return scaled(fe, d, p, v, v[3].number, v[4].string, v[5].string, false);
    case SCALED: return scaled(fe, d, p, v, init->scale, init->mode, init->distribution, false);
    case ORTHOGONAL: break;
    }
    BUG("initializer %s has no rule", init->name);
}

ir_value fe_initial(struct fe *fe, struct ir_builder *b, const struct fe_param *p)
{
    enum ir_dtype dtype = (enum ir_dtype)p->type.dtype;
    enum ir_dtype drawn = p->drawn == IR_TUPLE ? dtype : p->drawn;
    struct drawing d = {.b = b, .type = p->type, .narrow = drawn};
    struct fe_value v[MAX_ROWS] = {0};
    uint32_t key[2];
    int64_t elements = ir_type_elements(&p->type);
    /* One row, so that tensors of all shapes have the same code; on a mesh, which cuts dimensions, as it is, as where
     * positions along it would be no int32. */
    if (!b->f->module->mesh.axis_count && elements <= INT32_MAX) d.type = ir_type_of(IR_F32, 1, &elements);
    d.type.dtype = IR_F32;
    fe_fork_key(fe, p->stream, p->draw, key);
    d.k0 = u32(&d, key[0]);
    d.k1 = u32(&d, key[1]);
    ir_value x;
    if (p->init) {
        const struct initializer *init = read_object(fe, p->init, v);
        if (init && init->family == ORTHOGONAL)
            x = fe_orthogonal(fe, b, p, key, v[0].number, v[1].integer, !strcmp(init->name, "delta_orthogonal"));
        else x = init ? draw(fe, &d, p, init, v) : 0;
    } else if (!strcmp(p->init_preset, "embed")) x = scaled(fe, &d, p, v, 1, "fan_in", "normal", true);
    else if (!strcmp(p->init_preset, "constant")) x = like(&d, p->init_value);
    else {
        const struct initializer *init = find(p->init_preset);
        v[0].number = p->init_value; /* of normal: its deviation */
        if (!init ||
            (init->family != FIXED && init->family != SCALED && init->family != ORTHOGONAL && init->family != NORMAL))
            BUG("no initializer %s", p->init_preset);
        x = init->family == ORTHOGONAL ? fe_orthogonal(fe, b, p, key, 1, -1, false) : draw(fe, &d, p, init, v);
    }
    if (!x) return ir_number(b, p->type, 0);
    return ir_reshape(b, ir_cast(b, ir_cast(b, x, drawn), dtype), p->type.rank, p->type.dim);
}

ir_value fe_initial_drawn(struct fe *fe, struct ir_builder *b, fe_json initializer, const struct fe_drawn *drawn,
                          const struct ir_type *type)
{
    struct fe_value v[MAX_ROWS] = {0};
    const struct initializer *init = read_object(fe, initializer, v);
    if (init && init->family == ORTHOGONAL) {
        fe_error(fe, initializer, "E0111", "initializer \"%s\" is not supported yet for what is drawn in every step",
                 init->name);
        return 0;
    }
    struct drawing d = drawing_of(b, drawn->key[0], drawn->key[1], type);
    struct fe_param whole = {.path = "carry", .type = *type, .init = initializer};
    d.narrow = (enum ir_dtype)type->dtype;
    if (drawn->is_part) d.part = &drawn->part;
    if (drawn->is_part && drawn->part.whole.rank) whole.type = drawn->part.whole;
    ir_value x = init ? draw(fe, &d, &whole, init, v) : 0;
    return x ? ir_cast(b, x, d.narrow) : 0;
}
