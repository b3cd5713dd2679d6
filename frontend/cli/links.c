/* explain --comm: what each device sends over which axes of the mesh, and by --link AXIS=25GB/s:5us,.. how long that
 * takes: bytes / rate, and a latency for every round of messages (the model of Hockney). A collective over several axes
 * goes as the slowest of them. With --device 500GFLOP/s:20GB/s also how much of it is under way while kernels run, each
 * of which takes as long as its operations or its bytes do, and how long a step takes. */
#include "frontend/cli/cli.h"
#include "ir/ir.h"
#include <stdlib.h>
#include <string.h>

/* Of a round where none is said: between processes of one machine, or of a cluster by InfiniBand. */
#define LATENCY 5e-6

struct link {
    const char *axis;
    double rate, latency; /* bytes per second, 0: not told; seconds */
};

/* 25GB/s: a number and a unit of the list, each `step` of the one before; ends where `text` does or at a colon. 0: it
 * is none. */
static double read_number(const char *text, const char *const *units, double step)
{
    char *end;
    double x = *text >= '0' && *text <= '9' ? strtod(text, &end) : 0;
    for (size_t n = x > 0 ? strcspn(end, ":") : 0; x > 0 && *units; units++, x *= step)
        if (strlen(*units) == n && strncmp(*units, end, n) == 0) return x;
    return 0;
}

static double read_rate(const char *text)
{
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", NULL};
    return read_number(text, units, 1000);
}

static double read_time(const char *text)
{
    static const char *const units[] = {"s", "ms", "us", "ns", NULL};
    return read_number(text, units, 1e-3);
}

static double read_speed(const char *text)
{
    static const char *const units[] = {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", NULL};
    return read_number(text, units, 1000);
}

static int read_links(struct cli *cli, struct link *links, uint32_t count)
{
    const char *names[IR_MAX_AXES], *text = cli_text(cli, "link", NULL);
    for (uint32_t i = 0; i < count; i++) names[i] = links[i].axis;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        const char *one = arena_string_n(cli->arena, text, length), *equals = strchr(one, '='), *colon;
        text += length + (text[length] == ',');
        if (!equals) return cli_usage(cli, "--link %s: expected AXIS=RATE, as in data=25GB/s", one);
        const char *axis = arena_string_n(cli->arena, one, (size_t)(equals - one));
        uint32_t i = 0;
        while (i < count && strcmp(axis, names[i]) != 0) i++;
        if (i == count)
            return cli_usage(cli, "--link: the mesh has no axis \"%s\"%s", axis, cli_meant(cli, axis, names, count));
        if (links[i].rate > 0) return cli_usage(cli, "--link: axis \"%s\" is given twice", axis);
        links[i].rate = read_rate(equals + 1);
        if (!(links[i].rate > 0))
            return cli_usage(cli, "--link %s: expected a rate, as 25GB/s (kB/s, MB/s, TB/s)", one);
        colon = strchr(equals, ':');
        links[i].latency = colon ? read_time(colon + 1) : LATENCY;
        if (!(links[i].latency > 0))
            return cli_usage(cli, "--link %s: expected a latency after the colon, as 5us (s, ms, ns)", one);
    }
    return 0;
}

/* Seconds of one run of what a device does. */
static double seconds_of(const struct cli_timed *x, const struct link *links, uint32_t count, double speed, double rate)
{
    double latency = 0;
    if (!x->axes) {
        double computing = x->flops / speed, moving = rate > 0 ? x->bytes / rate : 0;
        return computing > moving ? computing : moving;
    }
    rate = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!(x->axes >> i & 1)) continue;
        if (!rate || links[i].rate < rate) rate = links[i].rate;
        if (links[i].latency > latency) latency = links[i].latency;
    }
    return rate > 0 ? x->bytes / rate + x->rounds * latency : 0;
}

/* A step on a device with one collective under way at a time: what it computes, and what it takes. */
static void play(const struct cli_timed *list, uint32_t n, const struct link *links, uint32_t count, double speed,
                 double rate, double *computes, double *takes)
{
    double now = 0, arrived = 0;
    uint32_t until = UINT32_MAX; /* where the one under way is waited for */
    *computes = 0;
    for (uint32_t i = 0; i < n; i++) {
        double seconds = list[i].times * seconds_of(&list[i], links, count, speed, rate);
        if ((list[i].axes || list[i].command >= until) && arrived > now) now = arrived;
        if (list[i].axes) arrived = now + seconds, until = list[i].until;
        else now += seconds, *computes += seconds;
    }
    *takes = arrived > now ? arrived : now;
}

int cli_links(struct cli *cli, const char *const *axes, uint32_t count, const struct cli_timed *list, uint32_t n,
              struct str *out)
{
    struct link links[IR_MAX_AXES] = {{0}};
    const char *device = cli_text(cli, "device", NULL), *colon = device ? strchr(device, ':') : NULL;
    double seconds = 0, all = 0, speed = device ? read_speed(device) : 0, rate = colon ? read_rate(colon + 1) : 0;
    for (uint32_t i = 0; i < count; i++) links[i].axis = axes[i];
    int code = read_links(cli, links, count);
    if (code) return code;
    if (device && (!(speed > 0) || (colon && !(rate > 0))))
        return cli_usage(cli, "--device %s: expected what one computes, as 500GFLOP/s, or 500GFLOP/s:20GB/s", device);
    for (uint32_t mask = 1; mask < 1u << count; mask++) {
        double sent = 0, took = 0, rounds = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (list[i].axes != mask) continue;
            sent += list[i].bytes * list[i].times;
            rounds += list[i].rounds * list[i].times;
            took += seconds_of(&list[i], links, count, 1, 0) * list[i].times;
        }
        if (!(sent > 0)) continue;
        str_add(out, "         over");
        for (uint32_t i = 0; i < count; i++) {
            if (!(mask >> i & 1)) continue;
            str_addf(out, " %s", links[i].axis);
            if (cli_text(cli, "link", NULL) && !links[i].rate)
                return cli_usage(cli, "--link: say also how fast \"%s\" is", links[i].axis);
        }
        all += sent;
        str_addf(out, ": each device sends %s B per step in %.0f rounds of messages", cli_grouped(cli->arena, sent),
                 rounds);
        if (took > 0) str_addf(out, ", %.3g ms", 1e3 * took), seconds += took;
        str_add(out, "\n");
    }
    if (all > 0) str_addf(out, "         in all %s B", cli_grouped(cli->arena, all));
    if (seconds > 0) str_addf(out, ", %.3g ms of communication per step", 1e3 * seconds);
    if (seconds > 0 && speed > 0) {
        double computes, takes;
        play(list, n, links, count, speed, rate, &computes, &takes);
        str_addf(out, ", %.3g ms of it while kernels run; a step takes %.3g ms", 1e3 * (seconds + computes - takes),
                 1e3 * takes);
    }
    if (all > 0) str_add(out, "\n");
    return 0;
}
