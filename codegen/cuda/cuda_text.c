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

/* Where the pairs of a panel lie: 16 bytes stay together, so what is constant within them stands outside, where a
 * compiler sees neighbours. */
static const char *swizzled_text(struct cuda_emitter *e, uint32_t bytes, const struct nest_index *index)
{
    enum { TOGETHER = 4 };
    struct nest_index first = *index;
    int64_t rest = index->offset % TOGETHER;
    for (uint32_t i = 0; i < index->term_count; i++)
        if (index->terms[i].scale % TOGETHER) rest = 0;
    for (uint32_t i = 0; i < index->scaled_count; i++)
        if (index->scaled[i].scale % TOGETHER) rest = 0;
    first.offset -= rest;
    const char *text = arena_format(e->arena, "stepc_swizzled<%u>(%s)", bytes, cuda_index_text(e, &first));
    return rest ? arena_format(e->arena, "%s + %d", text, (int)rest) : text;
}

const char *cuda_element(struct cuda_emitter *e, char kind, uint32_t number, const struct nest_index *index)
{
    uint32_t swizzle = kind == 'b' ? e->nest->buffers.items[number].swizzle : 0;
    if (swizzle) return arena_format(e->arena, "b%u[%s]", number, swizzled_text(e, swizzle, index));
    return arena_format(e->arena, "%c%u[%s]", kind, number, cuda_index_text(e, index));
}
