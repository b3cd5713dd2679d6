/* All kernels of a module as one CUDA text and its cubins. */
#include "codegen/cuda/cuda.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which code may be in all of it: the matrix unit where every architecture of the list has it (a text is for sm_80),
 * and products by warpgroups, whose kernels have other code beside it, where one has them. */
static void find_abilities(const char *archs, bool *unit, bool *warpgroups)
{
    *unit = true, *warpgroups = false;
    for (const char *at = archs ? archs : ""; *at; at += strcspn(at, ","), at += *at == ',') {
        const char *number = at + strcspn(at, "_,"), *end = at + strcspn(at, ",");
        *unit &= *number != '_' || atoi(number + 1) >= 80;
        *warpgroups |= end - number == 4 && strncmp(number, "_90a", 4) == 0;
    }
}

void cuda_target(struct cg_target *target)
{
    find_abilities(target->cuda_arch, &target->unit, &target->warpgroups);
    target->warpgroups_always &= target->warpgroups;
    target->vector_bytes = 4 * CUDA_LANES;
    target->vector_registers = 32;
    target->pairs = target->tiles = false;
    target->cuda = true;
}

void cuda_print_module(struct cg_cuda *cuda, const struct plan_module *plans, const struct cg_entry *entries,
                       uint32_t count, struct arena *arena)
{
    struct str text = STR(arena);
    memset(cuda, 0, sizeof *cuda);
    cuda->shares = cuda_share(cuda, plans, entries, count, &cuda->shared, arena);
    str_add(&text, cg_cuda_prelude);
    str_add(&text, "\n");
    const char **kernels = arena_new_array(arena, const char *, cuda->shares + 1);
    for (size_t i = 0; i < cuda->shares; i++) {
        const struct cuda_shared *k = &cuda->shared[i];
        struct str one = STR(arena);
        struct cuda_kernel printed = cuda_emit(&one, k->nest, arena_format(arena, "kernel_%zu", i), &k->calls, arena);
        vec_push(arena, &cuda->kernels, printed);
        kernels[i] = str_text(&one);
    }
    cuda_find_small(cuda, entries, count, arena);
    for (size_t i = 0; i < cuda->shares; i++) {
        vec_push(arena, &cuda->begins, text.length);
        if (!cuda->kernels.items[i].part) str_add(&text, kernels[i]);
    }
    cuda->sum_of = arena_new_array(arena, uint32_t *, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        cuda->sum_of[i] = arena_new_array(arena, uint32_t, entries[i].plan->commands.count + 1);
        for (size_t c = 0; c < entries[i].plan->commands.count; c++)
            cuda->sum_of[i][c] = cuda_sum(cuda, &text, &entries[i].plan->commands.items[c], &plans->module->mesh,
                                          arena);
    }
    if (cuda->sequences) cuda_sequence(cuda, &text, arena);
    cuda_move(cuda, &text, arena);
    cuda->text = str_text(&text);
}

/* "sm_80", with a letter behind the number for code of one architecture only; "compute_80": PTX, which the driver
 * compiles for later ones; "text": the text itself, for a stand-in of the driver; "text_90a": that of sm_90a. */
static bool is_arch(const char *name)
{
    size_t head = strncmp(name, "compute_", 8) == 0 ? 8 : strncmp(name, "sm_", 3) == 0 ? 3 : 0;
    size_t digits = head ? strspn(name + head, "0123456789") : 0;
    const char *end = name + head + digits;
    if (stepc_cuda_is_text(name)) return true;
    return (digits == 2 || digits == 3) && (*end == 0 || ((*end == 'a' || *end == 'f') && end[1] == 0));
}

static void keep(const struct cg_cuda *cuda, const char *temps, struct arena *arena, const char **why)
{
    struct str nests = STR(arena);
    for (size_t i = 0; i < cuda->shares; i++)
        nest_print_named(cuda->shared[i].nest, arena_format(arena, "kernel_%zu", i), &nests);
    cg_keep(arena, temps, ".cu", cuda->text, strlen(cuda->text), why);
    cg_keep(arena, temps, ".cu.nests", str_text(&nests), nests.length, why);
}

/* Kernels that are compiled together, as a text of its own. */
struct piece {
    const char *text;
    uint32_t first, count;
};
typedef VEC(struct piece) pieces;

/* What takes NVRTC long is cut into pieces for several cores, always the same ones, and none is so small that reading
 * the prelude counts. There is one at least. */
static void cut(const struct cg_cuda *cuda, pieces *to, struct arena *arena)
{
    enum { PIECE = 1 << 15 };
    uint32_t next = 0, all = (uint32_t)cuda->kernels.count;
    size_t size = strlen(cuda->text), head = all ? cuda->begins.items[0] : size;
    do {
        uint32_t first = next;
        size_t begin = all ? cuda->begins.items[first] : size, end = size;
        struct str text = STR(arena);
        while (next < all) {
            end = ++next < all ? cuda->begins.items[next] : size;
            if (end - begin >= PIECE && size - end >= PIECE / 4) break;
        }
        str_add_n(&text, cuda->text, head);
        str_add_n(&text, cuda->text + begin, end - begin);
        vec_push(arena, to, ((struct piece){str_text(&text), first, next - first}));
    } while (next < all);
}

int cuda_build(struct cg_cuda *cuda, const struct cg_tables *of, const struct cg_options *options, const char *temps,
               struct arena *arena, const char **why)
{
    const char *save = arena_format(arena, "%s.rejected.cu", options->output);
    bool known = *options->target.cuda_arch != 0; /* a mistake is a mistake also where there is no NVRTC */
    VEC(struct cuda_source) sources = {NULL, 0, 0};
    pieces parts = {NULL, 0, 0};
    for (const char *at = options->target.cuda_arch; *at; at += strcspn(at, ","), at += *at == ',')
        known &= is_arch(arena_string_n(arena, at, strcspn(at, ",")));
    if (!known) {
        *why = arena_format(arena, "--cuda-arch %s: expected a list like sm_80,sm_90,compute_90",
                            options->target.cuda_arch);
        return 2;
    }
    *why = NULL;
    cuda_print_module(cuda, of->plans, of->entries, of->count, arena);
    if (temps) keep(cuda, temps, arena, why);
    cut(cuda, &parts, arena);
    for (const char *at = options->target.cuda_arch; *at; at += *at == ',') {
        const char *arch = arena_string_n(arena, at, strcspn(at, ","));
        bool own = stepc_cuda_is_text(arch); /* NVRTC is not asked for */
        at += strlen(arch);
        for (size_t i = 0; i < parts.count; i++) {
            const struct piece *p = &parts.items[i];
            struct cuda_image image = {.arch = arch, .first = p->first, .count = p->count};
            if (own) image.cubin = (struct cg_bytes){p->text, strlen(p->text) + 1};
            else vec_push(arena, &sources, ((struct cuda_source){.text = p->text, .arch = arch}));
            vec_push(arena, &cuda->images, image);
        }
    }
    if (sources.count && !*why) *why = cuda_nvrtc(sources.items, sources.count, save, arena);
    for (size_t i = 0, k = 0; !*why && i < cuda->images.count; i++)
        if (!cuda->images.items[i].cubin.data) cuda->images.items[i].cubin = sources.items[k++].code;
    return *why ? 3 : 0;
}
