/* The seal of an object: what the note of stepc/step_open.h says of the whole file, written when it is compiled and
 * compared by `stepc verify`: a checksum of its bytes, and one of the results of its first step on inputs that are
 * drawn (draw.c). The step is made by the object
 * itself, in a process of its own, by one thread per device and without a library for products, so that only the code
 * decides the bits. Objects that this machine cannot run, whose step is large or that refuse such inputs have no such
 * record. */
#include "frontend/cli/draw.h"
#include <stepc/step_open.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEAL_NONE, SEAL_RECORDED, SEAL_LARGE, SEAL_FOREIGN, SEAL_REFUSED, SEAL_STATES };
enum { SEAL_STEPS = 2, MOST_BYTES = 64 << 20, MOST_DEVICES = 64 /* threads of this machine */ };
static const char *const states[SEAL_STATES] = {
    [SEAL_NONE] = "nothing is recorded of its first steps",
    [SEAL_RECORDED] = "its first steps give the bits that were recorded when it was compiled",
    [SEAL_LARGE] = "nothing is recorded of its first steps, which are too large for that (10^8 operations, 64 MiB, 64 "
                   "devices, 10 s)",
    [SEAL_FOREIGN] = "nothing is recorded of its first steps, which the machine that compiled it could not run",
    [SEAL_REFUSED] = "nothing is recorded of its first steps, which refuse inputs that are drawn at random"};

struct seal { /* as it lies in the note */
    uint32_t sum, state, results;
};

/* ---------------------------------------------------------------- the first steps */

static step_status first_steps(const struct cli_draw *t, uint32_t *sum)
{
    static const uint32_t roles[] = {STEP_METRIC, STEP_PARAM, STEP_EMA, STEP_OPT_STATE, STEP_STATE};
    size_t count;
    struct step_result result = {.size = sizeof result};
    step_status status = cli_draw_state(t);
    struct step_array *inputs = cli_draw(t, STEP_INPUT, &count);
    struct step_batch batch = {.size = sizeof batch, .inputs = inputs, .input_count = count};
    *sum = 0;
    for (int step = 0; step < SEAL_STEPS && !status;
         step++) { /* in the first one moments are zero, whatever they are multiplied by */
        status = t->api->step(t->instance, &batch, &result);
        *sum = step_crc32(*sum, &result.loss, sizeof result.loss);
    }
    for (size_t r = 0; r < sizeof roles / sizeof *roles && !status; r++) {
        const struct step_array *read = cli_draw(t, roles[r], &count);
        for (size_t i = 0; i < count && !status; i++) {
            struct step_tensor of = {.size = sizeof of};
            t->api->tensor_at(t->instance, roles[r], i, &of);
            status = t->api->read(t->instance, &read[i]);
            *sum = step_crc32(*sum, read[i].data, (size_t)of.bytes_global);
        }
    }
    return status;
}

/* What these steps say is about inputs that nobody gave. */
static void say_nothing(void *user, int level, const char *line) { (void)user, (void)level, (void)line; }

static uint64_t bytes_of_inputs(const struct cli_draw *t)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->api->tensor_count(t->instance, STEP_INPUT); i++) {
        struct step_tensor of = {.size = sizeof of};
        t->api->tensor_at(t->instance, STEP_INPUT, i, &of);
        bytes += of.bytes_global;
    }
    return bytes;
}

static uint32_t try_steps(const struct step_api *api, uint32_t *sum)
{
    struct step_memory memory = {.size = sizeof memory};
    const char *flops = strstr(api->describe(), "\"flops\":"); /* of all that is printed first */
    const char *devices = strstr(api->describe(), "\"devices\":");
    double count = devices ? strtod(devices + 10, NULL) : 1;
    if (!flops || strtod(flops + 8, NULL) * count > 1e8 || count > MOST_DEVICES) return SEAL_LARGE;
    for (int zeros = 0; zeros < 2; zeros++) {
        struct arena arena = {0};
        struct cli_draw t = {.arena = &arena, .api = api, .zeros = zeros};
        struct step_host host = {.size = sizeof host, .log = say_nothing};
        struct step_options options = {
            .size = sizeof options, .host = &host, .devices = "cpu", .threads = 1, .max_memory = MOST_BYTES};
        step_status status = api->create(&options, &t.instance);
        if (status == STEP_ENOMEM && !strstr(api->last_error(NULL), "limit")) _exit(EXIT_ENVIRONMENT);
        if (status) return status == STEP_ENOMEM ? SEAL_LARGE : SEAL_FOREIGN;
        api->memory(t.instance, 0, &memory);
        bool large = memory.planned_peak > MOST_BYTES || bytes_of_inputs(&t) > MOST_BYTES;
        status = large ? STEP_ENOMEM : first_steps(&t, sum);
        api->destroy(t.instance);
        arena_free(&arena);
        if (!status) return SEAL_RECORDED;
        if (status == STEP_ENOMEM) return SEAL_LARGE;
    }
    return SEAL_REFUSED;
}

/* In a process of its own: what is wrong with the code ends that one. 0: `out` is filled; otherwise the signal, or -1:
 * there was no memory for it. */
static int run_apart(const char *bytes, size_t size, struct seal *out)
{
    int ends[2], status = 0;
    *out = (struct seal){.state = SEAL_NONE};
    if (pipe(ends)) return 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit seconds = {10, 11}, none = {0, 0};
        const struct step_api *api;
        char name[32], why[512];
        setrlimit(RLIMIT_CPU, &seconds);
        setrlimit(RLIMIT_CORE, &none);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(600);
        clearenv();
        setenv("STEPC_OPENBLAS", "/dev/null", 1); /* its bits are those of the machine */
        int fd = memfd_create("step.so", MFD_CLOEXEC);
        for (size_t at = 0, n; fd >= 0 && at < size; at += n) {
            ssize_t written = write(fd, bytes + at, size - at);
            if (written <= 0) _exit(0);
            n = (size_t)written;
        }
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        bool opened = fd >= 0 && step_open(name, &api, why, sizeof why) == STEP_OK;
        if (fd >= 0 && !opened && strstr(why, "memory")) _exit(EXIT_ENVIRONMENT);
        out->state = opened ? try_steps(api, &out->results) : SEAL_FOREIGN;
        _exit(write(ends[1], out, sizeof *out) != sizeof *out);
    }
    close(ends[1]);
    struct seal got;
    if (child > 0 && read(ends[0], &got, sizeof got) == sizeof got) *out = got;
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0) {}
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_ENVIRONMENT) return -1;
    if (!WIFSIGNALED(status)) return 0;
    int number = WTERMSIG(status);
    if (number != SIGXCPU && number != SIGALRM && number != SIGKILL) return number;
    out->state = SEAL_LARGE; /* of time or memory */
    return 0;
}

/* ---------------------------------------------------------------- compile and verify */

static void put(char *bytes, size_t size, size_t note, struct seal *seal)
{
    memcpy(bytes + note, seal, sizeof *seal);
    seal->sum = step_object_sum(bytes, size, note);
    memcpy(bytes + note, seal, sizeof *seal);
}

int cli_seal_object(struct cli *cli, char *bytes, size_t size)
{
    size_t note = step_note(bytes, size);
    struct seal seal = {0};
    if (!note) BUG("an object without a note");
    put(bytes, size, note, &seal); /* it is opened as every object */
    int number = run_apart(bytes, size, &seal);
    put(bytes, size, note, &seal);
    if (number < 0) return cli_failed(cli, EXIT_ENVIRONMENT, "no memory for the first steps of the object");
    return number ? cli_failed(cli, EXIT_DEFECT, "the first steps of the object were ended by signal %d", number) : 0;
}

int cli_verify(struct cli *cli)
{
    const char *path = cli->operands.items[0], *why;
    char *bytes;
    size_t size;
    struct seal told, now = {0};
    int code = cli_read(cli, path, (size_t)1 << 31, &bytes, &size);
    if (code) return code;
    if (step_object_check(bytes, size, &why)) return cli_failed(cli, EXIT_WRONG, "%s: %s", path, why);
    memcpy(&told, bytes + step_note(bytes, size), sizeof told);
    if (told.state >= SEAL_STATES) return cli_failed(cli, EXIT_WRONG, "%s: sealed by another version of stepc", path);
    int number = told.state == SEAL_RECORDED ? run_apart(bytes, size, &now) : 0;
    if (number < 0) return cli_failed(cli, EXIT_ENVIRONMENT, "%s: no memory for its first steps", path);
    if (number) return cli_failed(cli, EXIT_WRONG, "%s: its first steps were ended by signal %d", path, number);
    if (told.state == SEAL_RECORDED && now.state != SEAL_RECORDED)
        return cli_failed(cli, EXIT_ENVIRONMENT, "%s: its first steps cannot be made here: %s", path,
                          now.state == SEAL_FOREIGN ? "this machine cannot run them"
                          : now.state == SEAL_LARGE ? "they need more time or memory than there is"
                                                    : "they are refused");
    if (told.state == SEAL_RECORDED && now.results != told.results)
        return cli_failed(cli, EXIT_WRONG,
                          "%s: its first steps give other bits than when it was compiled (%08x, not %08x)", path,
                          now.results, told.results);
    if (!cli->quiet) printf("%s: the checksum of its %zu bytes is right; %s\n", path, size, states[told.state]);
    return 0;
}
