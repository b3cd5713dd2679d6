/* stepc explain --kernels: how each command of a step is run. For GPUs the launches, and the least time that a card's
 * published peaks allow each of them (a roofline); for the CPU what multiplies its matrices. Nothing here is measured.
 */
#include "frontend/cli/explain.h"

#include <strings.h>

enum {
    LAUNCH_KERNEL = 1,
    LAUNCH_BLOCKS,
    LAUNCH_THREADS,
    LAUNCH_SHARED,
    LAUNCH_SCRATCH,
    LAUNCH_COUNT,
    LAUNCH_LIBRARY,
    LAUNCH_UNIT,
    LAUNCH_SEQUENCE,
    LAUNCH_INSTRUCTIONS
};
enum { PRODUCT_M = 1, PRODUCT_N, PRODUCT_K, PRODUCT_BATCH, PRODUCT_LIBRARY };

struct card {
    const char *name, *text;
    double multiprocessors, speed, products, rate; /* FLOP/s; of products of 16-bit floats; bytes/s */
};
static const struct card cards[] = {
#define CARD(name, text, multiprocessors, speed, products, rate) \
    {name, text, multiprocessors, (speed)*1e12, (products)*1e12, (rate)*1e9},
#include "frontend/cli/cards.def"
#undef CARD
};
enum { CARDS = sizeof cards / sizeof *cards };

static int find_card(struct cli *cli, const struct card **card)
{
    const char *name = cli_text(cli, "card", "h100"), *names[CARDS];
    struct str all = STR(cli->arena);
    for (size_t i = 0; i < CARDS; i++) {
        names[i] = cards[i].name;
        str_addf(&all, "%s%s", i ? ", " : "", names[i]);
        if (strcasecmp(name, cards[i].name) == 0) *card = &cards[i];
    }
    return *card ? 0
                 : cli_usage(cli, "--card %s: expected one of %s%s", name, str_text(&all),
                             cli_meant(cli, name, names, CARDS));
}

/* What a command does in a step: all that is joined in it, as often as it runs. */
struct work {
    const char *kind, *place;
    double flops, bytes, times;
    bool filters,
        points; /* a convolution with fewer multiplications; what is made of its kernel, which is no product */
};

static bool has_op(node group, const char *op)
{
    bool has = false;
    for (node i = first(at(group, "ops")); i; i = next(i)) has |= strcmp(i->valuestring, op) == 0;
    return has;
}

static struct work work_of(struct cli_view *v, node e, double command)
{
    struct work w = {.kind = "", .place = "", .times = 1};
    for (node g = first(at(e, "groups")); g; g = next(g)) {
        if (number_at(g, "command") != command) continue;
        if (!*w.kind) w.kind = text_at(v, g, "kind"), w.place = text_at(v, g, "place");
        w.times = number_at(g, "times");
        w.flops += number_at(g, "flops") * w.times;
        w.bytes += number_at(g, "bytes") * w.times;
        w.filters |= has_op(g, "winograd") || has_op(g, "winograd_sum");
        w.points |= has_op(g, "winograd_points");
    }
    return w;
}

static double number_of(node row, int i)
{
    node n = first(row);
    while (n && i--) n = next(n);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

/* What bounds a command: as many operations or bytes as the card's, or instructions: half as many as operations of
 * float32, of which a multiply-add is two. */
static double least_time(const struct card *card, const struct work *w, node row, const char **bound)
{
    bool tensor = number_of(row, LAUNCH_UNIT) > 0;
    double computing = w->flops / (tensor ? card->products : card->speed), moving = w->bytes / card->rate;
    double issuing = number_of(row, LAUNCH_INSTRUCTIONS) * w->times / (card->speed / 2);
    double least = moving >= computing ? moving : computing;
    *bound = moving >= computing ? "memory" : "speed";
    if (issuing <= least) return least;
    *bound = "issue";
    return issuing;
}

static void add_work(struct cli_view *v, const struct work *w)
{
    struct arena *a = v->cli->arena;
    str_addf(&v->out, "%10s %9s %8s FLOP/B", arena_format(a, "%sFLOP", scaled(v, w->flops)),
             arena_format(a, "%sB", scaled(v, w->bytes)),
             arena_format(a, "%.2g", w->bytes > 0 ? w->flops / w->bytes : 0));
}

/* Parts of one sequence are one launch. */
static bool goes_on(node before, node row)
{
    double sequence = number_of(row, LAUNCH_SEQUENCE);
    return sequence > 0 && number_of(before, LAUNCH_SEQUENCE) == sequence;
}

/* What is launched in place of its parts, of which `row` is the first. */
static void add_sequence(struct cli_view *v, const struct card *card, node row, double times)
{
    struct arena *a = v->cli->arena;
    node of = at(v->root, "sequence"); /* none in objects of earlier versions */
    double count = 1, blocks = number_at(of, "blocks");
    for (node last = row; goes_on(last, next(last)); last = next(last)) count++;
    str_addf(&v->out, "         %-25s", arena_format(a, "sequence of %.0f kernel%s", count, count == 1 ? "" : "s"));
    if (of)
        str_addf(&v->out, " %29s  one launch, %.0f %% of the card",
                 arena_format(a, "%.0f x %.0f, %6sB shared", blocks, number_at(of, "threads"),
                              scaled(v, number_at(of, "shared"))),
                 100 * blocks / card->multiprocessors);
    if (times > 1) str_addf(&v->out, "  x%.0f", times);
    str_add(&v->out, "\n");
}

static int launches(struct cli_view *v, node e, node list)
{
    const struct card *card = NULL;
    struct arena *a = v->cli->arena;
    double all = 0, count = 0;
    int code = find_card(v->cli, &card);
    if (code) return code;
    for (node row = first(list), before = NULL; row; before = row, row = next(row)) {
        struct work w = work_of(v, e, number_of(row, 0));
        const char *bound;
        all += least_time(card, &w, row, &bound);
        if (!goes_on(before, row)) count += number_of(row, LAUNCH_COUNT) * w.times;
    }
    head(v, "kernels");
    str_addf(&v->out,
             "launches of a step: %s; %s: %.1f TFLOP/s of float32, %.0f of 16-bit products by tensor cores, "
             "%.0f GB/s, %.0f multiprocessors (published)\n",
             grouped(v, count), card->text, card->speed / 1e12, card->products / 1e12, card->rate / 1e9,
             card->multiprocessors);
    for (node row = first(list), before = NULL; row; before = row, row = next(row)) {
        struct work w = work_of(v, e, number_of(row, 0));
        bool part = number_of(row, LAUNCH_SEQUENCE) > 0;
        const char *bound;
        double least = least_time(card, &w, row, &bound), blocks = number_of(row, LAUNCH_BLOCKS);
        const char *launch = arena_format(a, "%.0f x %.0f, %6sB shared", blocks, number_of(row, LAUNCH_THREADS),
                                          scaled(v, number_of(row, LAUNCH_SHARED)));
        if (part && !goes_on(before, row)) add_sequence(v, card, row, w.times);
        str_addf(&v->out, "         #%-4.0f %-7s kernel_%-4.0f %29s", number_of(row, 0), w.kind,
                 number_of(row, LAUNCH_KERNEL), part ? "part of it" : launch);
        add_work(v, &w);
        str_addf(&v->out, "  %8.3g us by %-6s %4.1f %%", 1e6 * least, bound, all > 0 ? 100 * least / all : 0);
        if (!part && blocks < card->multiprocessors)
            str_addf(&v->out, "  %.0f %% of the card", 100 * blocks / card->multiprocessors);
        if (number_of(row, LAUNCH_SCRATCH) > 0)
            str_addf(&v->out, "  %sB scratch", scaled(v, number_of(row, LAUNCH_SCRATCH)));
        if (number_of(row, LAUNCH_COUNT) > 1) str_addf(&v->out, "  %.0f launches", number_of(row, LAUNCH_COUNT));
        if (w.times > 1) str_addf(&v->out, "  x%.0f", w.times);
        if (number_of(row, LAUNCH_LIBRARY) > 0) str_add(&v->out, "  by cuBLASLt where it is");
        if (*w.place) str_addf(&v->out, "  at %s", w.place);
        str_add(&v->out, "\n");
    }
    str_addf(&v->out,
             "         a step takes %.3g us at least, by what is published of the card and a rough count of "
             "instructions; nothing was measured\n",
             1e6 * all);
    return 0;
}

static int products(struct cli_view *v, node e, node list)
{
    double all = number_at(e, "flops");
    if (cli_count(v->cli, "card")) return cli_usage(v->cli, "--card is for what is compiled with --target cuda");
    const char *name = "kernels";
    double last = -1;
    for (node g = first(at(e, "groups")); g; g = next(g)) {
        double command = number_at(g, "command");
        struct work w = work_of(v, e, command);
        node row = first(list);
        while (row && number_of(row, 0) != command) row = next(row);
        if (command == last || w.points || (!row && strcmp(w.kind, "dot") != 0)) continue;
        last = command;
        head(v, name);
        name = "";
        str_addf(&v->out, "#%-4.0f %-7s", command, w.kind);
        if (row)
            str_addf(&v->out, " %.0f x %.0f x %.0f", number_of(row, PRODUCT_M), number_of(row, PRODUCT_N),
                     number_of(row, PRODUCT_K));
        if (row && number_of(row, PRODUCT_BATCH) > 1) str_addf(&v->out, ", %.0f times", number_of(row, PRODUCT_BATCH));
        if (row && number_of(row, PRODUCT_LIBRARY) > 0) str_add(&v->out, "  OpenBLAS");
        else
            str_addf(&v->out, "  own%s, tiles of %.0f x %.0f",
                     row         ? ""
                     : w.filters ? ", with fewer multiplications (winograd)"
                                 : ", with what is fused into it",
                     number_at(v->root, "tile_rows"), number_at(v->root, "tile_columns"));
        add_work(v, &w);
        str_addf(&v->out, "  %.1f %% of the FLOPs", all > 0 ? 100 * w.flops / all : 0);
        if (*w.place) str_addf(&v->out, "  at %s", w.place);
        str_add(&v->out, "\n");
    }
    none_of(v, name);
    return 0;
}

int cli_explain_kernels(struct cli_view *v, node e)
{
    node of_gpu = at(at(v->root, "launches"), "step"), of_cpu = at(at(v->root, "products"), "step");
    if (of_gpu) return launches(v, e, of_gpu);
    if (of_cpu) return products(v, e, of_cpu);
    return cli_usage(v->cli, "--kernels: objects for the CPU do not hold it: explain the document");
}
