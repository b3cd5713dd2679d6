/* Windows: how a dimension is split for an op that slides over it. Beside its part a device holds what its neighbours
 * have at the rim: device i's window begins at element i * step and is as long as the last one, which ends where the
 * dimension does, or so far behind its end as parts that do not divide are longer. Windows of copies (step > 0) are
 * parts with rims that neighbours sent (halo exchange: GSPMD, arXiv:2105.04663, section 4.3). Windows of addends (step
 * < 0), which gradients of sliding ops are, become parts by sending rims back, where they are added.
 *
 * What puts elements of the tensor itself around it (extend) is a pad whose rims at both ends are filled: the ends are
 * neighbours, or the rims lie there already.
 *
 * A slice wants such windows of its operand, for parts of its result. A pad makes windows of copies of parts, or, of
 * parts that it sets apart with zeros, windows of addends; where it takes off from a rim, it makes parts of windows. */
#include "passes/shard_int.h"

bool shard_rims(int64_t extent, int64_t low, int64_t high, int64_t step, int64_t parts, struct shard_rims *r)
{
    r->part = shard_part(extent, parts);
    r->window = extent + low + high - (parts - 1) * step;
    r->drift = step - r->part;
    int64_t last = (parts - 1) * r->drift -
                   low; /* of windows beside parts: where the last one begins; the first: -low */
    int64_t least = last < -low ? last : -low, most = last < -low ? -low : last;
    r->left = least < 0 ? -least : 0;
    r->right = most + r->window > r->part ? most + r->window - r->part : 0;
    r->start = r->left - low;
    return r->window > 0 && r->left <= r->part && r->right <= r->part;
}

/* What a layout says of windows; 0: they are parts. */
static int64_t step_of(int64_t extent, int64_t parts, int64_t apart, int64_t over, bool addends)
{
    if (apart == shard_part(extent, parts) && over == apart * parts - extent) return 0;
    return addends ? -(over << 32 | apart) : over << 32 | apart;
}

static bool covers(int64_t extent, int64_t parts, int64_t apart, int64_t over)
{
    return apart <= INT32_MAX && over < INT32_MAX && apart * parts <= extent + over;
}

/* Of the windows that a result has, or of its parts. */
static int64_t apart_of(int64_t extent, int64_t parts, int64_t step)
{
    return step ? shard_apart(step) : shard_part(extent, parts);
}
static int64_t over_of(int64_t extent, int64_t parts, int64_t step)
{
    return step ? shard_over(step) : shard_part(extent, parts) * parts - extent;
}

/* Some device has less than all of it. */
static bool splits(int64_t extent, int64_t parts)
{
    return extent && (extent % parts == 0 || shard_part(extent, parts) < extent);
}

struct ir_sharding shard_in_parts(const struct ir_mesh *mesh, const struct ir_type *t, struct ir_sharding layout)
{
    for (uint32_t d = 0; d < t->rank; d++) {
        if (layout.step[d] && t->dim[d] % ir_axes_size(mesh, layout.dim[d])) layout.dim[d] = 0;
        layout.step[d] = 0;
    }
    return layout;
}

static bool lead_slice(const struct shard_func *f, const struct ir_node *n, uint32_t d, int64_t parts, int64_t *from)
{
    int64_t extent = ir_type(f->func, n->args[0])->dim[d], stride = n->attr[2].v[d], out = n->type.dim[d];
    int64_t apart = stride * shard_part(out, parts), over = stride * over_of(out, parts, 0);
    if (!splits(out, parts) || !covers(extent, parts, apart, over)) return false;
    *from = step_of(extent, parts, apart, over, false);
    return true;
}

/* The step of the windows that a slice of this value wants; 0: no slice reads it. */
static int64_t slid_over(const struct shard_func *f, ir_value v, uint32_t d, int64_t parts)
{
    for (uint32_t i = f->use_begin[v]; i < f->use_begin[v + 1]; i++) {
        ir_value reader = f->use[i].node;
        const struct ir_node *n = reader ? ir_get(f->func, reader) : NULL;
        int64_t step;
        if (n && n->op == OP_slice && f->rule[reader]->window && lead_slice(f, n, d, parts, &step) && step) return step;
    }
    return 0;
}

int64_t shard_hops(const struct shard_func *f, ir_value v, uint32_t d, int64_t parts)
{
    const struct ir_node *n = ir_get(f->func, v);
    int64_t part = n->type.dim[d] / parts, low = n->op == OP_extend ? n->attr[0].v[d] : 0;
    if (!low || low + n->attr[1].v[d] || n->type.dim[d] % parts) return 0;
    return (low + (low < 0 ? -part : part) / 2) / part;
}

/* Around a ring the rims at both ends come from neighbours; mirrored ones are of the part at that end. */
static bool extend_lead(const struct shard_func *f, ir_value v, uint32_t d, int64_t parts, int64_t given,
                        bool of_result, struct shard_lead *lead)
{
    const struct ir_node *n = ir_get(f->func, v);
    int64_t in = ir_type(f->func, n->args[0])->dim[d], out = n->type.dim[d],
            over = shard_hops(f, v, d, parts) * (out / parts);
    int64_t low = n->attr[0].v[d] - over, high = n->attr[1].v[d] + over, edge = n->attr[2].v[0] == IR_EXTEND_REFLECT;
    struct shard_rims r;
    bool fits;
    if (out < in) { /* what is taken off is added */
        int64_t from = of_result ? step_of(in, parts, out / parts, 0, true) : given;
        lead->from = from;
        fits = from < 0 && !shard_over(from) && !(of_result && given) && out % parts == 0 &&
               shard_rims(out, -low, -high, shard_apart(from), parts, &r);
    } else {
        int64_t slid = of_result ? given : slid_over(f, v, d, parts);
        lead->to = slid;
        fits = !(given && !of_result) && slid >= 0 && !shard_over(slid) && (slid || out % parts == 0) &&
               in % parts == 0 && covers(out, parts, apart_of(out, parts, slid), 0) &&
               shard_rims(in, low, high, apart_of(out, parts, slid), parts, &r);
    }
    return fits && r.left + edge <= r.part && r.right + edge <= r.part;
}

bool shard_lead(const struct shard_func *f, ir_value v, uint32_t d, int64_t parts, bool of_result,
                struct shard_lead *lead)
{
    const struct ir_node *n = ir_get(f->func, v);
    int64_t given = of_result ? lead->to : lead->from;
    struct shard_rims r;
    *lead = (struct shard_lead){0, 0};
    if (n->op == OP_slice) return !(of_result && given) && lead_slice(f, n, d, parts, &lead->from);
    if (n->op == OP_extend) return extend_lead(f, v, d, parts, given, of_result, lead);
    int64_t low = n->attr[0].v[d], high = n->attr[1].v[d], interior = n->attr[2].v[d];
    int64_t in = ir_type(f->func, n->args[0])->dim[d], out = n->type.dim[d];
    int64_t over = shard_over(given), apart = shard_apart(given);
    if (!of_result && given) { /* what lies outside is taken off */
        lead->from = given;
        if (interior || !splits(out, parts)) return false;
        if ((low > 0 || high > 0) && (given > 0 || !shard_is_zero(f->func, n->args[1]))) return false;
        if (given < 0) return shard_rims(out, -low, over - high, apart, parts, &r);
        int64_t last = (parts - 1) * (out / parts - given) - low, window = in - (parts - 1) * given;
        return !over && out % parts == 0 && last >= 0 && last + out / parts <= window && out / parts - low <= window;
    }
    if (!splits(in, parts) || (in % parts && !ir_is_number(ir_get(f->func, n->args[1])))) return false;
    int64_t slid = of_result ? given : slid_over(f, v, d, parts);
    apart = (interior + 1) * shard_part(in, parts), over = (interior + 1) * over_of(in, parts, 0);
    bool addends = low >= 0 && high >= 0 && shard_is_zero(f->func, n->args[1]) && covers(out, parts, apart, over);
    if (addends && (interior || slid <= 0) && !(of_result && !interior && !given)) {
        lead->to = step_of(out, parts, apart, over, true);
        return !of_result || given == lead->to;
    }
    if (interior || slid < 0 || !splits(out, parts)) return false;
    lead->to = slid;
    apart = apart_of(out, parts, slid), over = over_of(out, parts, slid);
    return covers(out, parts, apart, over) && shard_rims(in, low, high + over, apart, parts, &r);
}

bool shard_windows_pass(const struct shard_func *f, ir_value v, uint32_t factor, int64_t step)
{
    const struct ir_node *n = ir_get(f->func, v);
    const struct shard_rule *r = f->rule[v];
    if (step >= 0) return !step || r->windows != SHARD_NO_WINDOWS;
    for (uint32_t i = 0; i < n->arg_count && r->windows == SHARD_ADDENDS; i++)
        for (uint32_t d = 0; d < ir_type(f->func, n->args[i])->rank; d++)
            if (r->arg[i][d] == (int8_t)factor && f->value[n->args[i]].step[d] != step &&
                !shard_is_zero(f->func, n->args[i]))
                return false;
    return r->windows == SHARD_ADDENDS;
}

double shard_rims_sent(const struct shard *s, const struct shard_func *f, ir_value v, const struct shard_choice *choice)
{
    const struct ir_node *n = ir_get(f->func, v);
    const struct shard_rule *rule = f->rule[v];
    double sent = 0, elements = 1;
    if (n->op != OP_pad && n->op != OP_extend) return 0;
    for (uint32_t d = 0; d < n->type.rank; d++) {
        int64_t in = ir_type(f->func, n->args[0])->dim[d];
        int8_t factor = rule->result[d];
        int64_t parts = factor < 0 ? 1 : ir_axes_size(&s->module->mesh, choice->axes[factor]);
        elements *= (double)(in < n->type.dim[d] ? in : n->type.dim[d]) / (double)parts;
    }
    for (uint32_t d = 0; d < n->type.rank; d++) {
        struct shard_rims r;
        int8_t factor = rule->result[d];
        if (factor < 0 || !choice->axes[factor] || !(rule->window >> factor & 1)) continue;
        if (shard_pad_rims(&s->module->mesh, f, v, d, choice->axes[factor], choice->lead[factor], &r) != SHARD_LOCAL)
            sent += elements * (double)(r.left + r.right) / (double)r.part;
        if (shard_hops(f, v, d, ir_axes_size(&s->module->mesh, choice->axes[factor]))) sent += elements;
    }
    return sent * (double)ir_dtype_bytes((enum ir_dtype)n->type.dtype);
}

enum shard_pad_kind shard_pad_rims(const struct ir_mesh *mesh, const struct shard_func *f, ir_value v, uint32_t d,
                                   uint32_t axes, struct shard_lead lead, struct shard_rims *r)
{
    const struct ir_node *n = ir_get(f->func, v);
    int64_t parts = ir_axes_size(mesh, axes), out = n->type.dim[d], over = shard_hops(f, v, d, parts) * (out / parts);
    int64_t low = n->attr[0].v[d] - over, high = n->attr[1].v[d] + over;
    if ((n->op == OP_pad && n->attr[2].v[d]) || lead.to < 0 || !(low || high)) return SHARD_LOCAL;
    if (lead.from > 0) { /* no neighbour is needed */
        *r = (struct shard_rims){.part = out / parts, .start = -low, .drift = out / parts - lead.from};
        return SHARD_CUT;
    }
    if (lead.from < 0)
        return shard_rims(out, -low, shard_over(lead.from) - high, shard_apart(lead.from), parts, r) ? SHARD_ADD
                                                                                                     : SHARD_LOCAL;
    high += over_of(out, parts, lead.to);
    return shard_rims(ir_type(f->func, n->args[0])->dim[d], low, high, apart_of(out, parts, lead.to), parts, r)
               ? SHARD_SEND
               : SHARD_LOCAL;
}
