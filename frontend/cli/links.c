/* explain --comm: what each device sends over which axes of the mesh, and by --link AXIS=25GB/s,.. how long that takes.
 * A collective over several axes goes as fast as the slowest of them; what runs meanwhile is not counted. */
#include "frontend/cli/cli.h"
#include "ir/ir.h"
#include <stdlib.h>
#include <string.h>

struct link {
    const char *axis;
    double rate; /* bytes per second; 0: not told */
};

/* 25GB/s; 0: no such rate. */
static double read_rate(const char *text)
{
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
    char *end;
    double rate = *text >= '0' && *text <= '9' ? strtod(text, &end) : 0;
    for (int i = 0; rate > 0 && i < 5; i++, rate *= 1000)
        if (strcmp(end, units[i]) == 0) return rate;
    return 0;
}

static int read_links(struct cli *cli, struct link *links, uint32_t count)
{
    const char *names[IR_MAX_AXES], *text = cli_text(cli, "link", NULL);
    for (uint32_t i = 0; i < count; i++) names[i] = links[i].axis;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        const char *one = arena_string_n(cli->arena, text, length), *equals = strchr(one, '=');
        text += length + (text[length] == ',');
        if (!equals) return cli_usage(cli, "--link %s: expected AXIS=RATE, as in data=25GB/s", one);
        const char *axis = arena_string_n(cli->arena, one, (size_t)(equals - one));
        double rate = read_rate(equals + 1);
        uint32_t i = 0;
        while (i < count && strcmp(axis, names[i]) != 0) i++;
        if (i == count)
            return cli_usage(cli, "--link: the mesh has no axis \"%s\"%s", axis, cli_meant(cli, axis, names, count));
        if (!(rate > 0)) return cli_usage(cli, "--link %s: expected a rate, as 25GB/s (kB/s, MB/s, TB/s)", one);
        links[i].rate = rate;
    }
    return 0;
}

int cli_links(struct cli *cli, const char *const *axes, uint32_t count, const double *sent, struct str *out)
{
    struct link links[IR_MAX_AXES] = {{0}};
    double seconds = 0, all = 0;
    for (uint32_t i = 0; i < count; i++) links[i].axis = axes[i];
    int code = read_links(cli, links, count);
    if (code) return code;
    for (uint32_t mask = 1; mask < 1u << count; mask++) {
        double rate = 0;
        if (!(sent[mask] > 0)) continue;
        str_add(out, "         over");
        for (uint32_t i = 0; i < count; i++) {
            if (!(mask >> i & 1)) continue;
            str_addf(out, " %s", links[i].axis);
            if (cli_text(cli, "link", NULL) && !links[i].rate)
                return cli_usage(cli, "--link: say also how fast \"%s\" is", links[i].axis);
            if (!rate || links[i].rate < rate) rate = links[i].rate;
        }
        all += sent[mask];
        str_addf(out, ": each device sends %s B per step", cli_grouped(cli->arena, sent[mask]));
        if (rate > 0) str_addf(out, ", %.3g ms", 1e3 * sent[mask] / rate), seconds += sent[mask] / rate;
        str_add(out, "\n");
    }
    if (all > 0) str_addf(out, "         in all %s B", cli_grouped(cli->arena, all));
    if (seconds > 0) str_addf(out, ", %.3g ms of communication per step", 1e3 * seconds);
    if (all > 0) str_add(out, "\n");
    return 0;
}
