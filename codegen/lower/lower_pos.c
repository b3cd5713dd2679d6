/* Symbolic positions: affine expressions of loop variables (see lower.h). */
#include "codegen/lower/lower.h"
#include <string.h>

void lower_fail(struct lower *l, ir_value v, const char *what)
{
    if (!l->failed) {
        l->failed = what;
        l->failed_at = v;
    }
}

struct lower_pos lower_pos_constant(int64_t offset)
{
    struct lower_pos p;
    memset(&p, 0, sizeof p);
    p.offset = offset;
    return p;
}

void lower_pos_add_term(struct lower *l, struct lower_pos *p, nest_var var, int64_t scale)
{
    if (l->vars.items[var].extent == 1 || scale == 0) return;
    uint32_t i = 0;
    while (i < p->term_count && p->term[i].var < var) i++;
    if (i < p->term_count && p->term[i].var == var) {
        p->term[i].scale += scale;
        if (p->term[i].scale == 0) {
            memmove(&p->term[i], &p->term[i + 1], (--p->term_count - i) * sizeof p->term[0]);
            p->term[p->term_count] = (struct nest_term){0, 0};
        }
        return;
    }
    ASSERT(p->term_count < POS_TERMS);
    memmove(&p->term[i + 1], &p->term[i], (p->term_count++ - i) * sizeof p->term[0]);
    p->term[i] = (struct nest_term){var, scale};
}

void lower_pos_add_scaled(struct lower *l, struct lower_pos *p, nest_value value, int64_t scale, int64_t max)
{
    if (max == 0 || scale == 0) return;
    for (uint32_t i = 0; i < p->scaled_count; i++)
        if (p->scaled[i].value == value) {
            p->scaled[i].scale += scale;
            if (p->scaled[i].scale == 0) {
                p->scaled[i] = p->scaled[--p->scaled_count];
                memset(&p->scaled[p->scaled_count], 0, sizeof p->scaled[0]);
            }
            return;
        }
    if (p->scaled_count == POS_SCALED) { /* put what is there into one value */
        int64_t low, high;
        lower_pos_range(l, p, &low, &high);
        nest_value sum = lower_pos_value(l, p);
        *p = lower_pos_constant(0);
        lower_pos_add_scaled(l, p, sum, 1, high);
    }
    struct lower_pos_scaled *s = &p->scaled[p->scaled_count++];
    memset(s, 0, sizeof *s);
    s->value = value, s->scale = scale, s->max = max;
}

void lower_pos_add(struct lower *l, struct lower_pos *p, const struct lower_pos *q, int64_t scale)
{
    struct lower_pos copy = *q;
    p->offset += copy.offset * scale;
    for (uint32_t i = 0; i < copy.term_count; i++)
        lower_pos_add_term(l, p, copy.term[i].var, copy.term[i].scale * scale);
    for (uint32_t i = 0; i < copy.scaled_count; i++)
        lower_pos_add_scaled(l, p, copy.scaled[i].value, copy.scaled[i].scale * scale, copy.scaled[i].max);
}

void lower_pos_add_digit(struct lower *l, struct lower_pos *p, nest_var var, int64_t extent, int64_t by, int64_t count,
                         int64_t scale)
{
    struct lower_pos whole = lower_pos_constant(0);
    lower_pos_add_term(l, &whole, var, 1);
    if (by == 1 && count == extent) {
        lower_pos_add(l, p, &whole, scale);
        return;
    }
    if (count == 1) return;
    if (by == 1 && by * count < extent) {
        lower_pos_add_scaled(l, p, lower_pos_rest(l, &whole, count), scale, count - 1);
        return;
    }
    nest_value digit = by > 1 ? lower_pos_quotient(l, &whole, by) : lower_pos_value(l, &whole);
    if (by * count < extent) digit = lower_binary(l, OP_rem, IR_I32, digit, lower_number(l, count));
    lower_pos_add_scaled(l, p, digit, scale, count - 1);
}

nest_value lower_pos_inside(struct lower *l, struct lower_pos *p, int64_t extent)
{
    int64_t low, high, by = extent;
    lower_pos_range(l, p, &low, &high);
    if (high < extent) return 0;
    for (uint32_t i = 0; i < p->term_count + p->scaled_count; i++) by = lower_common_factor(by, lower_pos_scale(p, i));
    struct lower_pos steps, rest; /* neighbours in a step are all inside, or none */
    if (by < 2 || !lower_pos_part(l, p, by, &steps, &rest)) by = 1, steps = *p, rest = lower_pos_constant(0);
    nest_value at = lower_pos_value(l, &steps);
    *p = rest;
    lower_pos_add_scaled(l, p, at, by, extent / by - 1);
    return lower_binary(l, OP_lt, IR_BOOL, at, lower_number(l, extent / by));
}

static void widen(int64_t scale, int64_t max, int64_t *low, int64_t *high)
{
    if (scale < 0) *low += scale * max;
    else *high += scale * max;
}

/* Steps that the terms of a tile which sticks out go at most in lanes that count: to the end of its part of the axis.
 * 0: none, or not all of them have one scale. */
static int64_t within_tile(const struct lower *l, const struct lower_pos *p, int64_t *scale)
{
    *scale = 0;
    for (uint32_t i = 0; i < p->term_count && l->tile_mask; i++) {
        const struct lower_var_info *info = &l->vars.items[p->term[i].var];
        if (!info->splits || info->axis != l->tile_axis || info->part != l->tile_part) continue;
        if (p->term[i].scale % info->unit || (*scale && *scale != p->term[i].scale / info->unit)) return 0;
        *scale = p->term[i].scale / info->unit;
    }
    return *scale ? l->tile_most : 0;
}

void lower_pos_range(const struct lower *l, const struct lower_pos *p, int64_t *low, int64_t *high)
{
    int64_t scale, most = within_tile(l, p, &scale), steps = 0;
    *low = *high = p->offset;
    for (uint32_t i = 0; i < p->term_count; i++) {
        const struct lower_var_info *info = &l->vars.items[p->term[i].var];
        if (most && info->splits && info->axis == l->tile_axis && info->part == l->tile_part)
            steps += (info->extent - 1) * info->unit;
        else widen(p->term[i].scale, info->extent - 1, low, high);
    }
    if (most) widen(scale, steps < most ? steps : most, low, high);
    for (uint32_t i = 0; i < p->scaled_count; i++) widen(p->scaled[i].scale, p->scaled[i].max, low, high);
}

struct nest_index lower_pos_index(struct lower *l, const struct lower_pos *p)
{
    struct nest_index index = {.offset = p->offset, .term_count = p->term_count, .scaled_count = p->scaled_count};
    if (p->term_count) index.terms = arena_copy(l->arena, p->term, p->term_count * sizeof p->term[0]);
    struct nest_scaled *scaled = p->scaled_count ? arena_new_array(l->arena, struct nest_scaled, p->scaled_count)
                                                 : NULL;
    for (uint32_t i = 0; i < p->scaled_count; i++)
        scaled[i] = (struct nest_scaled){p->scaled[i].value, p->scaled[i].scale};
    index.scaled = scaled;
    return index;
}

/* Numbers that an int32 does not hold: float64 holds them exactly, and what is made of them here. */
static bool is_wide(const struct lower *l, const struct lower_pos *p, int64_t with)
{
    int64_t least, most;
    lower_pos_range(l, p, &least, &most);
    return least < INT32_MIN || most > INT32_MAX || with < INT32_MIN || with > INT32_MAX;
}

nest_value lower_pos_value(struct lower *l, const struct lower_pos *p)
{
    if (is_wide(l, p, 0)) lower_fail(l, l->group->outputs.items[0], "counting beyond 2147483647 elements");
    return nest_position(&l->b, IR_I32, lower_pos_index(l, p));
}

nest_value lower_pos_beside(struct lower *l, const struct lower_pos *p, int64_t with, nest_value *number)
{
    enum ir_dtype dtype = is_wide(l, p, with) ? IR_F64 : IR_I32;
    nest_value x = nest_position(&l->b, dtype, lower_pos_index(l, p));
    *number = nest_number(&l->b, dtype, (double)with);
    return x;
}

static nest_value wide_quotient(struct lower *l, nest_value x, nest_value by)
{
    nest_value quotient = lower_binary(l, OP_div, IR_F64, x, by);
    return nest_op(&l->b, OP_floor, IR_F64, &quotient, 1);
}

nest_value lower_pos_quotient(struct lower *l, const struct lower_pos *p, int64_t by)
{
    if (!is_wide(l, p, by)) return lower_binary(l, OP_div, IR_I32, lower_pos_value(l, p), lower_number(l, by));
    int64_t least, most;
    lower_pos_range(l, p, &least, &most);
    if (most / by > INT32_MAX) lower_fail(l, l->group->outputs.items[0], "counting beyond 2147483647 elements");
    nest_value x = nest_position(&l->b, IR_F64, lower_pos_index(l, p)), n = nest_number(&l->b, IR_F64, (double)by);
    return lower_cast(l, wide_quotient(l, x, n), IR_I32);
}

nest_value lower_pos_rest(struct lower *l, const struct lower_pos *p, int64_t by)
{
    if (!is_wide(l, p, by)) return lower_binary(l, OP_rem, IR_I32, lower_pos_value(l, p), lower_number(l, by));
    if (by - 1 > INT32_MAX) lower_fail(l, l->group->outputs.items[0], "counting beyond 2147483647 elements");
    nest_value x = nest_position(&l->b, IR_F64, lower_pos_index(l, p)), n = nest_number(&l->b, IR_F64, (double)by);
    nest_value whole = lower_binary(l, OP_mul, IR_F64, wide_quotient(l, x, n), n);
    return lower_cast(l, lower_binary(l, OP_sub, IR_F64, x, whole), IR_I32);
}

nest_value lower_number(struct lower *l, int64_t n) { return nest_number(&l->b, IR_I32, (double)n); }

nest_value lower_binary(struct lower *l, enum ir_op op, enum ir_dtype dtype, nest_value x, nest_value y)
{
    return nest_op(&l->b, op, dtype, (nest_value[]){x, y}, 2);
}

nest_value lower_cast(struct lower *l, nest_value x, enum ir_dtype dtype)
{
    return nest_dtype(&l->b, x) == dtype ? x : nest_op(&l->b, OP_cast, dtype, &x, 1);
}

/* ---------------------------------------------------------------- coordinates */

static int64_t floor_mod(int64_t a, int64_t b) { return (a % b + b) % b; }

int64_t lower_common_factor(int64_t a, int64_t b)
{
    a = a < 0 ? -a : a, b = b < 0 ? -b : b;
    for (int64_t rest; b; a = b, b = rest) rest = a % b;
    return a;
}

static void split_part(struct lower_axis *axis, uint32_t part, int64_t inner)
{
    memmove(&axis->part[part + 1], &axis->part[part], (axis->parts - part) * sizeof axis->part[0]);
    memmove(&axis->phase[part + 1], &axis->phase[part], (axis->parts - part) * sizeof axis->phase[0]);
    axis->parts++;
    axis->part[part] /= inner;
    axis->part[part + 1] = inner;
    axis->phase[part] = axis->phase[part + 1] = 0; /* asked for anew */
}

/* Asks for the axis part of a variable to be split so that a step of its outer half is a whole multiple of `extent`
 * elements, or else so that lanes which follow the inner half need no division. False: it cannot be done. */
static bool ask_split(struct lower *l, nest_var var, int64_t scale, int64_t extent)
{
    struct lower_var_info *info = &l->vars.items[var];
    scale = scale < 0 ? -scale : scale;
    if (!info->splits || scale % info->unit || extent % (scale / info->unit)) return false;
    int64_t inner = extent / (scale / info->unit);
    struct lower_axis *axis = &l->axes[info->axis];
    int64_t whole = axis->part[info->part], common = lower_common_factor(inner, whole);
    if (common != inner && common >= l->lanes / 2) inner = common;
    if (inner <= 1 || inner >= whole || whole % inner || axis->parts == AXIS_PARTS) return false;
    if (inner < l->least_part) return false;
    if (!l->retry) split_part(axis, info->part, inner); /* one at a time: later ones may follow from this one */
    l->retry = true;
    return true;
}

int64_t lower_pos_scale(const struct lower_pos *p, uint32_t i)
{
    return i < p->term_count ? p->term[i].scale : p->scaled[i - p->term_count].scale;
}

bool lower_pos_part(struct lower *l, const struct lower_pos *p, int64_t factor, struct lower_pos *high,
                    struct lower_pos *low)
{
    *high = lower_pos_constant(0);
    *low = lower_pos_constant(floor_mod(p->offset, factor));
    high->offset = (p->offset - low->offset) / factor;
    for (uint32_t i = 0; i < p->term_count; i++) {
        bool whole = p->term[i].scale % factor == 0;
        lower_pos_add_term(l, whole ? high : low, p->term[i].var, whole ? p->term[i].scale / factor : p->term[i].scale);
    }
    for (uint32_t i = 0; i < p->scaled_count; i++) {
        const struct lower_pos_scaled *s = &p->scaled[i];
        bool whole = s->scale % factor == 0;
        lower_pos_add_scaled(l, whole ? high : low, s->value, whole ? s->scale / factor : s->scale, s->max);
    }
    int64_t least, most;
    lower_pos_range(l, low, &least, &most);
    return least >= 0 && most < factor;
}

/* How often what stands in the loops is lowered. */
static int64_t copies_of(const struct lower *l)
{
    int64_t copies = 1;
    for (uint32_t a = 0; a < l->axis_count; a++)
        for (uint32_t p = 0; p < l->axes[a].parts; p++) copies *= l->axes[a].phase[p] ? l->axes[a].phase[p] : 1;
    return copies;
}

/* Asks for the part of a variable to have a phase for each of its steps in `factor` elements. Lanes have none:
 * neighbours in a vector would be far apart. */
static bool ask_phases(struct lower *l, nest_var var, int64_t scale, int64_t factor)
{
    enum { MOST_PHASES = 4, MOST_COPIES = 32 };
    struct lower_var_info *info = &l->vars.items[var];
    scale = scale < 0 ? -scale : scale;
    if (!l->phases || !info->splits || info->loop != NEST_SERIAL || scale % info->unit) return false;
    int64_t *phase = &l->axes[info->axis].phase[info->part], now = *phase ? *phase : 1, step = scale / info->unit,
            phases = factor / lower_common_factor(factor, step);
    phases *= now / lower_common_factor(now, phases);
    if (phases == now || phases > MOST_PHASES || phases > l->axes[info->axis].part[info->part]) return false;
    if (copies_of(l) / now * phases > MOST_COPIES) return false;
    if (!l->retry) *phase = phases;
    l->retry = true;
    return true;
}

void lower_pos_ask_apart(struct lower *l, const struct lower_pos *p)
{
    for (uint32_t i = 0; i < p->term_count; i++) {
        const struct lower_var_info *info = &l->vars.items[p->term[i].var];
        if (ask_phases(l, p->term[i].var, info->unit, l->axes[info->axis].part[info->part])) return;
    }
}

bool lower_pos_phase(struct lower *l, const struct lower_pos *p, int64_t factor, struct lower_pos *high,
                     struct lower_pos *low, int64_t *multiple, bool *none)
{
    int64_t least, most;
    lower_pos_part(l, p, factor, high, low);
    lower_pos_range(l, low, &least, &most);
    *multiple = least + floor_mod(-least, factor);
    *none = *multiple > most;
    if (*multiple + factor > most) return true;
    for (uint32_t i = 0; i < low->term_count; i++)
        if (ask_phases(l, low->term[i].var, low->term[i].scale, factor)) break;
    return false;
}

/* p = extent * high + low with low in [0, extent). */
static void split_last(struct lower *l, const struct lower_pos *p, int64_t extent, struct lower_pos *high,
                       struct lower_pos *low)
{
    if (lower_pos_part(l, p, extent, high, low)) return;
    struct lower_pos over, part, rest;
    for (uint32_t i = 0; i < low->term_count + low->scaled_count; i++) { /* steps of a factor go without the rest */
        int64_t factor = lower_common_factor(extent, lower_pos_scale(low, i));
        if (factor == 1 || factor == extent || !lower_pos_part(l, p, factor, &over, &rest)) continue;
        split_last(l, &over, extent / factor, high, &part);
        *low = rest;
        lower_pos_add(l, low, &part, factor);
        return;
    }
    for (uint32_t i = 0; i < low->term_count; i++)
        if (ask_split(l, low->term[i].var, low->term[i].scale, extent)) break;
    int64_t least, most;
    lower_pos_range(l, p, &least, &most);
    struct lower_pos whole = *p;
    *high = *low = lower_pos_constant(0);
    lower_pos_add_scaled(l, high, lower_pos_quotient(l, &whole, extent), 1, most < extent ? 1 : most / extent);
    lower_pos_add_scaled(l, low, lower_pos_rest(l, &whole, extent), 1, extent - 1);
}

void lower_pos_split(struct lower *l, const struct lower_pos *p, uint32_t rank, const int64_t *shape,
                     struct lower_pos *out)
{
    struct lower_pos rest = *p;
    for (uint32_t i = rank; i-- > 0;) {
        bool more = false; /* does any dimension outside have an extent? */
        for (uint32_t j = 0; j < i; j++) more |= shape[j] != 1;
        if (shape[i] == 1) {
            out[i] = lower_pos_constant(0);
        } else if (!more) {
            out[i] = rest;
            rest = lower_pos_constant(0);
        } else {
            struct lower_pos high;
            split_last(l, &rest, shape[i] ? shape[i] : 1, &high, &out[i]);
            rest = high;
        }
    }
}

struct lower_pos lower_pos_join(struct lower *l, uint32_t rank, const int64_t *shape, const struct lower_pos *at)
{
    struct lower_pos p = lower_pos_constant(0);
    int64_t stride = 1;
    for (uint32_t i = rank; i-- > 0;) {
        if (shape[i] != 1) lower_pos_add(l, &p, &at[i], stride);
        stride *= shape[i];
    }
    return p;
}

uint32_t lower_pos_runs(struct lower *l, const struct lower_pos *p, uint32_t rank, const int64_t *shape,
                        const int64_t *scale, const bool *apart, struct lower_pos *at, int64_t *by)
{
    int64_t extent[IR_MAX_RANK];
    uint32_t runs = 0;
    for (uint32_t i = 0; i < rank; i++) { /* fewer coordinates, fewer splits */
        if (shape[i] == 1) continue;
        bool joins = runs && !(apart && apart[i]) && by[runs - 1] == scale[i] * shape[i];
        extent[runs - joins] = joins ? extent[runs - 1] * shape[i] : shape[i];
        by[runs - joins] = scale[i];
        runs += !joins;
    }
    lower_pos_split(l, p, runs, extent, at);
    return runs;
}

void lower_strides(const struct ir_type *type, int64_t *stride)
{
    int64_t step = 1;
    for (uint32_t i = type->rank; i-- > 0; step *= type->dim[i]) stride[i] = step;
}

void lower_around(const struct ir_type *type, int64_t dim, int64_t shape[3])
{
    shape[0] = shape[2] = 1;
    shape[1] = type->dim[dim];
    for (uint32_t i = 0; i < type->rank; i++)
        if (i != dim) shape[i < dim ? 0 : 2] *= type->dim[i];
}
