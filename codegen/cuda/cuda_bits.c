/* Numbers of 16 bits as words: where a value is made of what was loaded, and nothing else was done to it, its text is
 * of the bits in memory, or of the words that a run of loads came in. What only such texts would have used is not
 * printed: NVVM would cut the words of a run into the halves that somebody reads, and put them together again. */
#include "codegen/cuda/cuda_emit.h"

bool cuda_is_half(const struct cuda_emitter *e, const struct nest_stmt *load)
{
    return ir_dtype_bytes((enum ir_dtype)e->nest->buffers.items[load->buffer].dtype) == 2;
}

/* Where a load finds its element. */
const char *cuda_loaded_text(struct cuda_emitter *e, const struct nest_stmt *s)
{
    const struct cuda_run *run = &e->runs[s->result];
    if (run->first && cuda_is_half(e, s))
        return arena_format(e->arena, "stepc_half<%u>(wide%u.item[%u])", run->at % 2, run->first, run->at / 2);
    if (run->first) return arena_format(e->arena, "wide%u.item[%u]", run->first, run->at);
    return cuda_element(e, 'b', s->buffer, &s->index);
}

/* A 16-bit number as it is in memory, where it was just loaded; else NULL. */
static const char *single_text(struct cuda_emitter *e, const struct nest_stmt *s)
{
    const struct nest_stmt *of = s->op == OP_bitcast ? e->order.made[s->args[0]] : NULL;
    if (!of || of->kind != NEST_LOAD || ir_dtype_bytes((enum ir_dtype)s->dtype) != 2) return NULL;
    const char *text = cuda_loaded_text(e, of);
    if (e->runs[of->result].first) return text;
    if (e->nest->buffers.items[of->buffer].written || e->nest->buffers.items[of->buffer].local) return NULL;
    return of->cond ? arena_format(e->arena, "v%u ? %s : 0", of->cond, text) : text;
}

/* The load of a run whose 16 bits are the lower half of a word, or the upper one; NULL: it is none. */
static const struct nest_stmt *half_of(const struct cuda_emitter *e, nest_value v, bool upper)
{
    const struct nest_stmt *s = e->order.made[v];
    if (s && upper) s = s->kind == NEST_OP && s->op == OP_shl ? e->order.made[s->args[0]] : NULL;
    for (int i = 0; i < 2 && s; i++)
        s = s->kind == NEST_OP && s->op == (i ? OP_bitcast : OP_cast) ? e->order.made[s->args[0]] : NULL;
    return s && s->kind == NEST_LOAD && e->runs[s->result].first && cuda_is_half(e, s) ? s : NULL;
}

/* Two numbers of runs side by side, of the words that these came in. */
static const char *pair_text(struct cuda_emitter *e, const struct nest_stmt *s)
{
    bool joins = s->op == OP_or && s->dtype == IR_U32;
    const struct nest_stmt *x = joins ? half_of(e, s->args[0], false) : NULL,
                           *y = joins ? half_of(e, s->args[1], true) : NULL;
    if (!x || !y) return NULL;
    const struct cuda_run *a = &e->runs[x->result], *b = &e->runs[y->result];
    if (a->first == b->first && a->at + 1 == b->at && a->at % 2 == 0)
        return arena_format(e->arena, "wide%u.item[%u]", a->first, a->at / 2);
    return arena_format(e->arena, "stepc_pair<%u, %u>(wide%u.item[%u], wide%u.item[%u])", a->at % 2, b->at % 2,
                        a->first, a->at / 2, b->first, b->at / 2);
}

const char *cuda_bits_text(struct cuda_emitter *e, const struct nest_stmt *s)
{
    if (s->kind != NEST_OP) return NULL;
    const char *pair = pair_text(e, s);
    return pair ? pair : single_text(e, s);
}

/* ---------------------------------------------------------------- what is used */

static void use_index(struct cuda_emitter *e, const struct nest_index *index)
{
    for (uint32_t i = 0; i < index->scaled_count; i++) e->lives[index->scaled[i].value] = true;
}

static void use_load(struct cuda_emitter *e, const struct nest_stmt *load)
{
    nest_value first = e->runs[load->result].first;
    if (first) e->run_lives[first] = true;
    e->lives[load->cond] = true;
    use_index(e, &load->index);
}

/* What the text of an operation is made of. */
static void use_operands(struct cuda_emitter *e, const struct nest_stmt *s)
{
    if (pair_text(e, s)) {
        use_load(e, half_of(e, s->args[0], false));
        use_load(e, half_of(e, s->args[1], true));
    } else if (single_text(e, s)) {
        use_load(e, e->order.made[s->args[0]]);
    } else {
        for (uint32_t i = 0; i < s->arg_count; i++) e->lives[s->args[i]] = true;
    }
}

void cuda_find_lives(struct cuda_emitter *e, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        const struct nest_stmt *s = items[i];
        cuda_find_lives(e, s->body.items, s->body.count);
        if (s->kind == NEST_FOLD) e->lives[s->result] = true; /* all threads come to its barriers */
        if (s->result && !e->lives[s->result]) continue;
        e->lives[s->cond] = true;
        if (s->kind == NEST_LOAD) use_load(e, s);
        else if (s->kind == NEST_OP) use_operands(e, s);
        else
            for (uint32_t k = 0; k < s->arg_count; k++) e->lives[s->args[k]] = true;
        use_index(e, &s->index);
        if (s->source) use_index(e, s->source);
        if (s->take) use_index(e, &s->take->at);
        for (int k = 0; k < 2 && s->panels; k++) use_index(e, &s->panels->at[k]);
    }
}
