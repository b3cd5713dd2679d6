/* stepc explain --comm and --sharding: what devices of a mesh send, and where tensors lie. */
#include "frontend/cli/explain.h"
#include "ir/ir.h"

#include <math.h>
#include <stdio.h>

/* Messages wait for each other in a sum: shares go to who finishes them and from there to all (runtime/comm_cross.c).
 */
static uint32_t rounds_of(const struct cli_view *v, node collective)
{
    enum { FEW = 4096 /* bytes that everybody sums alone */ };
    return strcmp(text_at(v, collective, "kind"), "all_reduce") == 0 && number_at(collective, "payload") > FEW ? 2 : 1;
}

/* The step's kernels up to command `before`. */
static node add_kernels(node g, double before, struct cli_timed *list, uint32_t *n)
{
    for (; g && number_at(g, "command") < before; g = next(g))
        list[(*n)++] = (struct cli_timed){.command = (uint32_t)number_at(g, "command"),
                                          .flops = number_at(g, "flops"),
                                          .bytes = number_at(g, "bytes"),
                                          .times = number_at(g, "times")};
    return g;
}

int cli_explain_comm(struct cli_view *v, node e)
{
    const char *name = "comm", *axes[IR_MAX_AXES];
    node g = first(at(e, "groups"));
    struct cli_timed *list = arena_new_array(v->cli->arena, struct cli_timed,
                                             count_of(at(e, "groups")) + count_of(at(e, "collectives")) + 1);
    uint32_t count = 0, n = 0;
    int wide = 4;
    for (node c = first(at(e, "collectives")); c; c = next(c)) wide = at(c, "until") ? 9 : wide;
    for (node a = first(at(v->root, "mesh")); a && count < IR_MAX_AXES; a = next(a)) axes[count++] = a->string;
    for (node c = first(at(e, "collectives")); c; c = next(c)) {
        uint32_t mask = 0;
        head(v, name);
        name = "";
        char numbers[64];
        snprintf(numbers, sizeof numbers, at(c, "until") ? "%.0f-%.0f" : "%.0f", number_at(c, "command"),
                 at(c, "until") ? number_at(c, "until") : 0);
        str_addf(&v->out, "#%-*s %s over", wide, numbers, text_at(v, c, "kind"));
        for (node a = first(at(c, "axes")); a; a = next(a)) {
            str_addf(&v->out, " %s", a->valuestring);
            for (uint32_t i = 0; i < count; i++) mask |= (uint32_t)(strcmp(axes[i], a->valuestring) == 0) << i;
        }
        str_add(&v->out, " of ");
        add_type(v, c);
        str_addf(&v->out, ", %s B, ", grouped(v, number_at(c, "payload")));
        str_addf(&v->out, "%s B sent, %.0f times per step", grouped(v, number_at(c, "ring")), number_at(c, "times"));
        g = add_kernels(g, number_at(c, "command"), list, &n);
        if (!n || !list[n - 1].axes || list[n - 1].command != (uint32_t)number_at(c, "command"))
            list[n++] = (struct cli_timed){.command = (uint32_t)number_at(c, "command"),
                                           .until = (uint32_t)number_at(c, "until"),
                                           .axes = mask,
                                           .times = number_at(c, "times")};
        struct cli_timed *whole = &list[n - 1]; /* one command for several tensors */
        whole->bytes += number_at(c, "ring");
        whole->rounds = rounds_of(v, c) > whole->rounds ? rounds_of(v, c) : whole->rounds;
        add_place(v, c);
        str_add(&v->out, "\n");
    }
    none_of(v, name);
    add_kernels(g, HUGE_VAL, list, &n);
    return cli_links(v->cli, axes, count, list, n, &v->out);
}

void cli_explain_layouts(struct cli_view *v)
{
    static const char *const from[][2] = {
        {"default", "as nothing is said of it"}, {"document", "as the document says"},
        {"parameter", "as its parameter"},       {"constraint", "by the constraint"},
        {"operands", "as its operands"},         {"readers", "as what reads it wants"},
        {"traffic", "so that less is sent"}};
    const char *name = "sharding";
    if (!at(v->root, "layouts")) {
        head(v, name);
        str_add(&v->out, number_at(v->root, "devices") > 1 ? "objects do not hold it: explain the document\n"
                                                           : "there is one device\n");
        return;
    }
    for (node l = first(at(v->root, "layouts")); l; l = next(l)) {
        head(v, name);
        name = "";
        str_addf(&v->out, "%s ", text_at(v, l, "op"));
        add_type(v, l);
        add_sharding(v, l);
        for (size_t i = 0; i < sizeof from / sizeof *from; i++)
            if (strcmp(text_at(v, l, "from"), from[i][0]) == 0) str_addf(&v->out, ", %s", from[i][1]);
        if (number_at(l, "count") > 1) str_addf(&v->out, ", %s of them", grouped(v, number_at(l, "count")));
        add_place(v, l);
        str_add(&v->out, "\n");
    }
}
