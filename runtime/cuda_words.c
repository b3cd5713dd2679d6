/* The words of a launch, as its kernel takes them (step_abi.h). */
#include "runtime/cuda_driver.h"

#include <string.h>

static void add_one(struct rt_cuda_words *to, void *const *arguments, int64_t extent)
{
    to->blocks = stepc_cuda_blocks(to->kernel, extent);
    for (uint32_t i = 0; i < to->kernel->argument_count; i++) to->word[to->count++] = (uintptr_t)arguments[i];
    to->word[to->count++] = 0;
    to->word[to->count++] = (uint64_t)extent;
}

static void add_table(struct rt_cuda_words *to, const struct stepc_command *c, void *const *arguments, uint32_t first)
{
    uint32_t per = to->kernel->argument_count, left = c->members > 1 ? c->members - first : 1;
    uint32_t members = left < to->kernel->members ? left : to->kernel->members;
    to->count = to->table = 1 + to->kernel->members * (per + STEPC_CUDA_MEMBER_WORDS);
    memset(to->word, 0, to->count * sizeof *to->word);
    to->word[0] = members;
    for (uint32_t m = 0; m < members; m++) {
        uint64_t *word = to->word + 1 + m * (per + STEPC_CUDA_MEMBER_WORDS);
        int64_t before = first + m ? c->ends[first + m - 1] : 0;
        int64_t extent = c->members > 1 ? c->ends[first + m] - before : c->extent;
        for (uint32_t i = 0; i < per; i++) *word++ = (uintptr_t)arguments[(first + m) * per + i];
        to->blocks += stepc_cuda_blocks(to->kernel, extent);
        *word++ = (uint64_t)extent;
        *word = to->blocks;
    }
}

uint32_t rt_cuda_words(struct rt_cuda_words *to, const struct stepc_cuda_kernel *k, const struct stepc_cuda_launch *l,
                       const struct stepc_command *c, void *const *arguments, uint32_t first, const char *scratch)
{
    uint32_t members = c->members > 1 ? c->members : 1, per = c->buffer_count / members;
    to->kernel = k, to->count = to->table = to->blocks = 0; /* the words are not cleared: most launches need a few */
    if (k->members) add_table(to, c, arguments, first);
    else
        add_one(to, arguments + (size_t)first * per,
                members > 1 ? c->ends[first] - (first ? c->ends[first - 1] : 0) : c->extent);
    if (k->scratch_bytes) to->word[to->count++] = (uintptr_t)scratch;
    if (k->checks) to->word[to->count++] = (uintptr_t)scratch - STEPC_FLAG_BEFORE;
    for (uint32_t i = 0; i < k->number_count; i++) to->word[to->count++] = l->numbers[i];
    return k->members ? k->members : 1;
}
