/* What transports of GPUs share: the operands of a collective, sums by a kernel of the object, copies of pieces. */
#include "runtime/cuda_driver.h"

bool rt_cuda_sums(const struct stepc_command *c)
{
    return c->collective == STEPC_ALL_REDUCE || c->collective == STEPC_REDUCE_SCATTER;
}

static uint32_t number_of(const struct step_instance *t, const struct stepc_entry *e, const struct stepc_command *c)
{
    return t->program->cuda->launches[e - t->program->entries][c - e->commands].kernel;
}

const struct stepc_cuda_kernel *rt_cuda_sum_kernel(const struct step_instance *t, const struct stepc_entry *e,
                                                   const struct stepc_command *c)
{
    uint32_t number = number_of(t, e, c);
    return number == UINT32_MAX ? NULL : &t->program->cuda->kernels[number];
}

char *rt_cuda_operand(const struct rt_worker *w, const struct stepc_command *c, const struct rt_device *d,
                      uint32_t which)
{
    struct step_instance *t = w->instance;
    const struct rt_entry *e = &t->entries[t->running];
    const struct stepc_command *whole = c->whole ? c->whole : c;
    return d->maps[t->running].pointers[e->commands[whole - e->table->commands].arguments + 2 * c->region + which];
}

int rt_cuda_sum(struct rt_worker *w, const struct stepc_command *c, const char *const *parts, uint32_t count, char *to,
                int64_t lo, int64_t hi, struct rt_spread from)
{
    struct step_instance *t = w->instance;
    const struct stepc_entry *e = t->entries[t->running].table;
    const struct stepc_command *whole = c->whole ? c->whole : c;
    struct rt_cuda_device *g = w->device->handle;
    const struct stepc_cuda_kernel *k = rt_cuda_sum_kernel(t, e, whole);
    uint64_t words[RT_CUDA_MOST_SUMMED + 6], n = 0;
    void *parameters[RT_CUDA_MOST_SUMMED + 6];
    if (lo >= hi) return 0;
    words[n++] = (uintptr_t)to;
    for (uint32_t m = 0; m < count; m++) words[n++] = (uintptr_t)parts[m];
    words[n++] = (uint64_t)lo, words[n++] = (uint64_t)hi;
    words[n++] = (uint64_t)from.inner, words[n++] = from.parts, words[n++] = from.index;
    for (uint64_t i = 0; i < n; i++) parameters[i] = &words[i];
    return g->host->driver.launch(g->functions[number_of(t, e, whole)], stepc_cuda_blocks(k, hi - lo), 1, 1, k->threads,
                                  1, 1, k->dynamic_bytes, g->stream, parameters, NULL);
}

int rt_cuda_copy_piece(struct rt_cuda_device *g, char *to, struct rt_spread into, const char *from,
                       struct rt_spread out, int64_t n, uint32_t item)
{
    int64_t run = into.parts == 1 ? out.inner : into.inner;
    if (into.parts == 1 && out.parts == 1) run = n;
    uint64_t width = (uint64_t)run * item;
    struct rt_cuda_rows rows = {.from_kind = RT_CUDA_UNIFIED,
                                .to_kind = RT_CUDA_UNIFIED,
                                .from = from + out.index * width * (out.parts > 1),
                                .to = to + into.index * width * (into.parts > 1),
                                .from_pitch = width * out.parts,
                                .to_pitch = width * into.parts,
                                .width = width,
                                .height = (uint64_t)(n / run)};
    if (rows.height == 1) return g->host->driver.between(rows.to, rows.from, width, g->stream);
    if (rows.from_pitch <= INT32_MAX && rows.to_pitch <= INT32_MAX) return g->host->driver.copy_rows(&rows, g->stream);
    int status = 0; /* further apart than the driver goes at once */
    for (uint64_t i = 0; !status && i < rows.height; i++)
        status = g->host->driver.between((char *)rows.to + i * rows.to_pitch,
                                         (const char *)rows.from + i * rows.from_pitch, width, g->stream);
    return status;
}
