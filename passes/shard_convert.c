/* Conversions between layouts of one value: which collectives and slices lead from one to the other, and what devices
 * send for them. What makes the value smaller comes first: parts are cut where that is free, sums end in parts where
 * their axes split a dimension, then what is left is summed, axes that split another dimension are exchanged, parts
 * go to another axis, what is left is gathered, and cut again. */
#include "passes/shard_int.h"

#include <string.h>

struct conversion {
    const struct ir_mesh *mesh;
    const struct ir_type *global;
    uint32_t rank;
    struct ir_sharding now, to;
    double bytes; /* of a device's part, as it lies now */
    double sent;
    struct shard_step *steps;
    uint32_t count;
    bool ordered; /* see shard_keep_order */
};

static uint32_t axes_in_use(const struct conversion *c)
{
    uint32_t mask = c->now.partial;
    for (uint32_t d = 0; d < c->rank; d++) mask |= shard_axes_mask(c->now.dim[d]);
    return mask;
}

static uint32_t following(uint32_t axes, uint32_t bits) { return bits < 32 ? axes >> bits : 0; }

/* Whether a part by the first axes of a list is made of whole parts by all of them: not where extents are rounded up
 * differently (10 over 2 and 4 devices: 8 + 2 are four parts of 2 and one, 5 + 5 are the parts by the first axis). */
static bool nested(const struct ir_mesh *mesh, int64_t n, uint32_t axes, uint32_t bits)
{
    int64_t inner = ir_axes_size(mesh, following(axes, bits));
    return !bits || ir_part_extent(mesh, n, shard_leading(axes, bits)) == ir_part_extent(mesh, n, axes) * inner;
}

/* How many leading axes two lists share, in bits. */
static uint32_t shared(uint32_t a, uint32_t b)
{
    uint32_t bits = 0;
    while (bits < 32 && (a >> bits & 15) && (a >> bits & 15) == (b >> bits & 15)) bits += 4;
    return bits;
}

static uint32_t common_bits(const struct ir_mesh *mesh, int64_t n, uint32_t a, uint32_t b)
{
    uint32_t bits = shared(a, b);
    while (!nested(mesh, n, a, bits) || !nested(mesh, n, b, bits)) bits -= 4;
    return bits;
}

/* Of a dimension as it is and as it shall be. */
static uint32_t common(const struct conversion *c, uint32_t d)
{
    return common_bits(c->mesh, c->global->dim[d], c->now.dim[d], c->to.dim[d]);
}

static void step(struct conversion *c, enum shard_step_kind kind, uint32_t axes, uint32_t dim)
{
    double k = (double)ir_axes_size(c->mesh, ir_axes_of_mask(axes));
    c->steps[c->count++] = (struct shard_step){.kind = kind, .axes = axes, .dim = dim};
    if (kind == SHARD_GATHER) c->bytes *= k;
    if (kind == SHARD_TURN) c->sent += c->bytes;
    if (kind == SHARD_REDUCE) c->sent += 2 * c->bytes * (k - 1) / k;
    if (kind == SHARD_GATHER || kind == SHARD_SCATTER || kind == SHARD_EXCHANGE) c->sent += c->bytes * (k - 1) / k;
    if (kind == SHARD_SCATTER || kind == SHARD_SLICE) c->bytes /= k;
}

/* Splits dimensions further by those of the axes wanted next that are `among`, as far as these go. */
static void split(struct conversion *c, enum shard_step_kind kind, uint32_t among)
{
    for (uint32_t d = 0; d < c->rank; d++) {
        uint32_t bits = common(c, d), to = c->to.dim[d], from = bits;
        if (following(c->now.dim[d], bits)) continue;
        while (bits < 32 && (to >> bits & 15) && (among >> ((to >> bits & 15) - 1) & 1)) bits += 4;
        while (bits > from && !nested(c->mesh, c->global->dim[d], to, bits)) bits -= 4;
        uint32_t mask = shard_axes_mask(following(shard_leading(to, bits), from));
        if (!mask || (kind == SHARD_SCATTER && c->ordered && (c->now.partial & ~mask) > (mask & -mask))) continue;
        c->now.dim[d] = shard_leading(c->to.dim[d], bits);
        c->now.partial &= ~mask;
        among &= ~mask;
        step(c, kind, mask, d);
    }
}

/* Axes that split dimension `d` innermost and are wanted next at another one move there: all devices along them
 * exchange parts. */
static bool exchange(struct conversion *c, uint32_t d)
{
    uint32_t kept = common(c, d), end = shard_list_bits(c->now.dim[d]);
    for (uint32_t e = 0; e < c->rank; e++) {
        uint32_t has = shard_list_bits(c->now.dim[e]);
        if (e == d || common(c, e) != has) continue;
        uint32_t next = following(c->to.dim[e], has);
        for (uint32_t from = kept; from < end; from += 4) {
            uint32_t moved = following(c->now.dim[d], from);
            if (shared(moved, next) != end - from || !nested(c->mesh, c->global->dim[d], c->now.dim[d], from) ||
                !nested(c->mesh, c->global->dim[e], c->to.dim[e], has + end - from))
                continue;
            c->now.dim[d] = shard_leading(c->now.dim[d], from);
            c->now.dim[e] |= moved << has;
            step(c, SHARD_EXCHANGE, shard_axes_mask(moved), d);
            c->steps[c->count - 1].split = e;
            return true;
        }
    }
    return false;
}

/* A dimension that lies over one axis and shall lie over another one of the size: device i, j gets what j, i has, and
 * where another dimension lies the other way round it turns with it. */
static bool turn(struct conversion *c, uint32_t d)
{
    const uint32_t has = c->now.dim[d], wants = c->to.dim[d];
    uint32_t other = c->rank, used = 0;
    if (!has || !wants || has == wants || (has | wants) > 15 || c->now.step[d]) return false;
    for (uint32_t e = 0; e < c->rank; e++) {
        if (e != d) used |= shard_axes_mask(c->now.dim[e]);
        if (e != d && c->now.dim[e] == wants && c->to.dim[e] == has && !c->now.step[e]) other = e;
    }
    if (ir_axes_size(c->mesh, has) != ir_axes_size(c->mesh, wants) || c->now.partial & shard_axes_mask(wants) ||
        (used & shard_axes_mask(wants) && other == c->rank))
        return false;
    c->now.dim[d] = wants;
    if (other < c->rank) c->now.dim[other] = has;
    step(c, SHARD_TURN, shard_axes_mask(has) | shard_axes_mask(wants), d);
    c->steps[c->count - 1].split = (uint32_t)ir_axes_size(c->mesh, has);
    return true;
}

/* ---------------------------------------------------------------- windows */

static bool same_windows(const struct ir_sharding *a, const struct ir_sharding *b, uint32_t d)
{
    return a->dim[d] == b->dim[d] && a->step[d] == b->step[d];
}

/* `factor`: by how much a device's part grows. */
static void window_step(struct conversion *c, enum shard_step_kind kind, uint32_t axes, uint32_t d, int64_t size,
                        double sent, double factor)
{
    step(c, kind, axes, d);
    c->steps[c->count - 1].step = shard_apart(size);
    c->steps[c->count - 1].over = shard_over(size);
    c->sent += c->bytes * sent;
    c->bytes *= factor;
}

/* Whether every window of copies has the part of its device. Parts that do not divide are longer than windows are
 * apart, so that the further ones may begin, or end, beyond them. */
static bool windows_hold_parts(int64_t extent, int64_t part, int64_t apart, int64_t window, int64_t parts)
{
    bool hold = apart <= part;
    for (int64_t i = 0; i < parts && hold; i++) {
        int64_t end = (i + 1) * part < extent ? (i + 1) * part : extent;
        hold = end <= i * part || end <= i * apart + window;
    }
    return hold;
}

static void leave_windows(struct conversion *c, uint32_t d)
{
    const uint32_t axes = shard_axes_mask(c->now.dim[d]);
    int64_t parts = ir_axes_size(c->mesh, c->now.dim[d]), extent = c->global->dim[d], size = c->now.step[d];
    int64_t apart = shard_apart(size), over = shard_over(size);
    bool addends = size < 0;
    struct shard_rims r;
    bool rims = shard_rims(extent, 0, over, apart, parts, &r);
    int64_t length = extent + over - (parts - 1) * apart;
    double window = (double)length;
    c->now.step[d] = 0;
    if (addends ? rims : windows_hold_parts(extent, r.part, apart, length, parts)) {
        double sent = addends ? (double)(r.left + r.right) / window : 0;
        window_step(c, addends ? SHARD_ADD_RIMS : SHARD_OWN, axes, d, size, sent, (double)r.part / window);
        return;
    }
    if (!addends) window_step(c, SHARD_COUNT_ONCE, axes, d, size, 0, 1);
    window_step(c, SHARD_WIDEN, axes, d, size, 0, (double)extent / window);
    c->now.partial |= axes;
    c->now.dim[d] = 0;
}

/* How a dimension lies before it is cut into windows: in parts if these need no more than a rim, else whole. */
static uint32_t before_windows(const struct conversion *c, const struct ir_sharding *to, uint32_t d)
{
    struct shard_rims r;
    int64_t parts = ir_axes_size(c->mesh, to->dim[d]), extent = c->global->dim[d];
    if (!c->now.dim[d] || (extent % parts && shard_part(extent, parts) >= extent)) return 0;
    bool rims = shard_rims(extent, 0, shard_over(to->step[d]), shard_apart(to->step[d]), parts, &r);
    return to->step[d] < 0 || rims ? to->dim[d] : 0;
}

static void enter_windows(struct conversion *c, const struct ir_sharding *to, uint32_t d)
{
    const uint32_t axes = shard_axes_mask(to->dim[d]);
    int64_t parts = ir_axes_size(c->mesh, to->dim[d]), extent = c->global->dim[d], size = to->step[d];
    int64_t apart = shard_apart(size), over = shard_over(size);
    bool addends = size < 0;
    struct shard_rims r;
    double window = (double)(extent + over - (parts - 1) * apart);
    if (c->now.dim[d]) {
        shard_rims(extent, 0, over, apart, parts, &r);
        double sent = addends ? 0 : (double)(r.left + r.right) / (double)r.part;
        window_step(c, addends ? SHARD_BORDER : SHARD_SEND_RIMS, axes, d, size, sent, window / (double)r.part);
    } else {
        window_step(c, SHARD_WINDOW, axes, d, size, 0, window / (double)extent);
        if (addends) window_step(c, SHARD_COUNT_ONCE, axes, d, size, 0, 1);
    }
}

uint32_t shard_steps(const struct ir_mesh *mesh, const struct ir_type *global, const struct ir_sharding *from,
                     const struct ir_sharding *end, bool ordered, struct shard_step *steps, double *sent)
{
    const struct ir_type local = shard_local_type(mesh, global, from);
    struct conversion c = {
        .mesh = mesh, .global = global, .rank = global->rank, .now = *from, .steps = steps, .ordered = ordered};
    const struct ir_sharding *to = &c.to;
    c.bytes = (double)ir_type_elements(&local) * (double)ir_dtype_bytes((enum ir_dtype)global->dtype);
    for (uint32_t d = 0; d < c.rank; d++)
        if (c.now.step[d] && !same_windows(from, end, d)) leave_windows(&c, d);
    c.to = *end;
    for (uint32_t d = 0; d < c.rank; d++)
        if (end->step[d] && !same_windows(from, end, d)) c.to.dim[d] = before_windows(&c, end, d);
    uint32_t sum = c.now.partial & ~to->partial;
    split(&c, SHARD_SLICE, ~axes_in_use(&c) & ~to->partial);
    if (sum) split(&c, SHARD_SCATTER, sum);
    sum &= c.now.partial;
    if (sum) step(&c, SHARD_REDUCE, sum, 0);
    c.now.partial &= ~sum;
    for (uint32_t d = 0; d < c.rank;) { /* what makes the value larger comes last, and the least of it */
        for (bool any = true; any;) {
            any = false;
            for (d = 0; d < c.rank; d++) any |= exchange(&c, d) || turn(&c, d);
        }
        split(&c, SHARD_SLICE, ~axes_in_use(&c) & ~to->partial);
        int64_t least = INT64_MAX;
        d = c.rank;
        for (uint32_t e = 0; e < c.rank; e++) {
            uint32_t behind = following(c.now.dim[e], common(&c, e)); /* an axis of 1 is given up, too */
            if (behind && ir_axes_size(mesh, behind) < least) least = ir_axes_size(mesh, behind), d = e;
        }
        if (d == c.rank) break;
        uint32_t bits = common(&c, d), rest = following(c.now.dim[d], bits);
        c.now.dim[d] = shard_leading(c.now.dim[d], bits);
        step(&c, SHARD_GATHER, shard_axes_mask(rest), d);
    }
    for (uint32_t d = 0; d < c.rank; d++)
        if (end->step[d] && !same_windows(from, end, d)) enter_windows(&c, end, d);
    if (to->partial & ~c.now.partial) step(&c, SHARD_SPREAD, to->partial & ~c.now.partial, 0);
    *sent = c.sent;
    return c.count;
}

double shard_cost(const struct shard *s, const struct shard_func *f, ir_value v, const struct ir_sharding *from,
                  const struct ir_sharding *to)
{
    const struct ir_type *type = ir_type(f->func, v);
    if (shard_equal(from, to) || ir_is_number(ir_get(f->func, v)) || f->free[v]) return 0;
    double times = f->dear[v] ? SHARD_DEAR : 1;
    uint64_t hash = from->partial * 31 + to->partial;
    for (uint32_t d = 0; d < type->rank; d++)
        hash = (hash * 1021 + (uint64_t)type->dim[d]) * 1021 + from->dim[d] * 127 + to->dim[d];
    struct shard_known *known = &s->known[(hash ^ hash >> 29) % SHARD_KNOWN];
    if (known->type.dtype == type->dtype && known->type.rank == type->rank &&
        !memcmp(known->type.dim, type->dim, sizeof type->dim) && shard_equal(&known->from, from) &&
        shard_equal(&known->to, to))
        return known->bytes * times;
    struct shard_step steps[SHARD_MAX_STEPS];
    *known = (struct shard_known){*type, *from, *to, 0};
    shard_steps(&s->module->mesh, type, from, to, s->invariant, steps, &known->bytes);
    return known->bytes * times;
}

/* ---------------------------------------------------------------- made again */

void shard_operands_for(const struct shard_func *f, ir_value v, const struct ir_sharding *to,
                        struct ir_sharding *wanted)
{
    const struct ir_node *n = ir_get(f->func, v);
    const struct shard_rule *r = f->rule[v];
    memset(wanted, 0, n->arg_count * sizeof *wanted);
    for (uint32_t d = 0; d < n->type.rank; d++)
        for (uint32_t i = 0; i < n->arg_count; i++)
            for (uint32_t k = 0; k < ir_type(f->func, n->args[i])->rank; k++)
                if (r->arg[i][k] >= 0 && r->arg[i][k] == r->result[d])
                    wanted[i].dim[k] = to->dim[d], wanted[i].step[k] = to->step[d];
}

uint8_t shard_freedom(const struct shard_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f->func, v);
    uint8_t depth = 0;
    if (n->op == OP_broadcast && ir_type_elements(&n->type) <= ir_type_elements(ir_type(f->func, n->args[0]))) return 0;
    if ((n->op != OP_broadcast && !ir_is_ewise((enum ir_op)n->op)) || n->op == OP_sharding_constraint) return 0;
    if (n->arg_count > SHARD_MAX_REMADE) return 0;
    for (uint32_t i = 0; i < n->arg_count; i++) {
        enum ir_op op = (enum ir_op)ir_get(f->func, n->args[i])->op;
        if (n->op != OP_broadcast && op != OP_constant && op != OP_iota && !f->free[n->args[i]]) return 0;
        if (f->free[n->args[i]] > depth) depth = f->free[n->args[i]];
    }
    return depth < SHARD_MAX_DEPTH ? depth + 1 : 0;
}
