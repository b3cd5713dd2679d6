/* Lines of a kernel's text, and the names and places in them. */
#include "codegen/cuda/cuda_emit.h"
#include <stdarg.h>

void cuda_line(struct cuda_emitter *e, const char *format, ...)
{
    if (e->quiet) return;
    va_list list;
    va_start(list, format);
    str_addf(e->out, "%*s%s\n", 4 * e->indent, "", arena_vformat(e->arena, format, list));
    va_end(list);
}

void cuda_open_brace(struct cuda_emitter *e, const char *head)
{
    cuda_line(e, "%s {", head);
    e->indent++;
}

void cuda_close_brace(struct cuda_emitter *e)
{
    e->indent--;
    cuda_line(e, "}");
}

const char *cuda_name_of(struct cuda_emitter *e, nest_value v) { return arena_format(e->arena, "v%u", v); }

static void add_term(struct str *out, int64_t scale, const char *what)
{
    if (out->length) str_add(out, scale < 0 ? " - " : " + ");
    else if (scale < 0) str_add(out, "-");
    unsigned long long size = scale < 0 ? 0 - (unsigned long long)scale : (unsigned long long)scale;
    if (size != 1) str_addf(out, "%llull * ", size);
    str_add(out, what);
}

const char *cuda_index_text(struct cuda_emitter *e, const struct nest_index *index)
{
    struct str out = STR(e->arena);
    for (uint32_t i = 0; i < index->term_count; i++)
        if (index->terms[i].scale)
            add_term(&out, index->terms[i].scale, arena_format(e->arena, "i%u", index->terms[i].var));
    for (uint32_t i = 0; i < index->scaled_count; i++)
        if (index->scaled[i].scale)
            add_term(&out, index->scaled[i].scale, arena_format(e->arena, "(long long)v%u", index->scaled[i].value));
    if (!out.length) str_addf(&out, "%lld", (long long)index->offset);
    else if (index->offset)
        str_addf(&out, " %c %lld", index->offset < 0 ? '-' : '+',
                 (long long)(index->offset < 0 ? -index->offset : index->offset));
    return str_text(&out);
}

/* The part of an index whose factors are multiples of a number, or the other part. */
static struct nest_index part_of(struct cuda_emitter *e, const struct nest_index *index, int64_t number, bool multiples)
{
    struct nest_term *terms = arena_new_array(e->arena, struct nest_term, index->term_count + 1);
    struct nest_scaled *scaled = arena_new_array(e->arena, struct nest_scaled, index->scaled_count + 1);
    int64_t rest = index->offset % number;
    struct nest_index part = {.offset = multiples ? index->offset - rest : rest, .terms = terms, .scaled = scaled};
    for (uint32_t i = 0; i < index->term_count; i++)
        if ((index->terms[i].scale % number == 0) == multiples) terms[part.term_count++] = index->terms[i];
    for (uint32_t i = 0; i < index->scaled_count; i++)
        if ((index->scaled[i].scale % number == 0) == multiples) scaled[part.scaled_count++] = index->scaled[i];
    return part;
}

/* Where the pairs of a panel lie: 16 bytes stay together, and the swizzle repeats after eight times what lies side by
 * side, so what is constant within the ones, or a multiple of the others, stands outside, where a compiler sees
 * neighbours, and that most of the place is the same in all blocks of a loop. */
static const char *swizzled_text(struct cuda_emitter *e, uint32_t bytes, const struct nest_index *index)
{
    enum { TOGETHER = 4, WORD = 4 };
    struct nest_index far = part_of(e, index, 8 * bytes / WORD, true),
                      near = part_of(e, index, 8 * bytes / WORD, false), rest = part_of(e, &near, TOGETHER, false);
    bool within = !rest.term_count && !rest.scaled_count;
    if (within) near.offset -= rest.offset, far.offset += rest.offset;
    const char *text = arena_format(e->arena, "stepc_swizzled<%u>(%s)", bytes, cuda_index_text(e, &near));
    bool all = !far.term_count && !far.scaled_count && !far.offset;
    return all ? text : arena_format(e->arena, "%s + %s", text, cuda_index_text(e, &far));
}

const char *cuda_element(struct cuda_emitter *e, char kind, uint32_t number, const struct nest_index *index)
{
    uint32_t swizzle = kind == 'b' ? e->nest->buffers.items[number].swizzle : 0;
    if (swizzle) return arena_format(e->arena, "b%u[%s]", number, swizzled_text(e, swizzle, index));
    return arena_format(e->arena, "%c%u[%s]", kind, number, cuda_index_text(e, index));
}
