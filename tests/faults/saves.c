/* Saves and loads of checkpoint directories in processes that come to harm at a system call (calls.c, linked in),
 * thousands of them a minute: each is a fork that trains, saves and loads; then this process looks at what is there.
 *
 *   saves STEP.SO FOLDER faults EVERY [break]   every EVERYth of all faults: the process ends before a call, or the
 * call fails saves STEP.SO FOLDER log RULES             saves, with CALL_LOG, for saves.py saves STEP.SO FOLDER disk
 * BYTES [limit]    until the disk, a tmpfs of so many bytes, is full; `limit`, or who may not mount: files may have so
 * many saves STEP.SO FOLDER race                  two processes save into one directory saves STEP.SO FOLDER headers
 * cuts every file at every byte of its header, and some of its data saves STEP.SO FOLDER look ACKNOWLEDGED     whether
 * all is there and whole; for saves.py
 *
 * What must hold: each step-N is whole and gives the state that it had; none that was acknowledged is lost (with rules,
 * not the newest); a load that fails changes nothing; the next run goes on to the same bits and leaves nothing behind.
 * `break` acknowledges what was not saved: the control. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepc/step.h"

void calls_arm(long at, const char *what, bool forever); /* calls.c; at 0: only counts */
void calls_before_flock(void (*what)(int fd));
long calls_end(void);
void calls_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { STEPS = 40, BYTES = 1 << 20, PATH = 600, LONGER = PATH + 100 };

static const struct step_api *api;
static char folder[300];
static unsigned char *expected[STEPS];
static size_t state_bytes;
static long tried, kills, wrong;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (wrong++ < 20) vprintf(format, args), puts("");
    va_end(args);
}

static struct step_instance *make(void)
{
    struct step_instance *t = NULL;
    struct step_options options = {.size = sizeof options, .threads = 1, .flags = STEP_NO_ENV};
    if (api->create(&options, &t)) fprintf(stderr, "create: %s\n", api->last_error(NULL)), exit(2);
    return t;
}

static bool step(struct step_instance *t)
{
    static float data[4096];
    static struct step_array in[4];
    size_t count = api->tensor_count(t, STEP_INPUT);
    for (size_t i = 0; i < 4096; i++) data[i] = (float)(i % 7) / 7;
    for (size_t i = 0; i < count && i < 4; i++) {
        struct step_tensor about = {.size = sizeof about};
        api->tensor_at(t, STEP_INPUT, i, &about);
        in[i] = (struct step_array){sizeof *in, about.name, data, about.dtype, about.rank, about.shape, NULL, 0, 0};
    }
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = count};
    struct step_result result = {.size = sizeof result};
    return api->step(t, &batch, &result) == STEP_OK;
}

static size_t state_of(struct step_instance *t, unsigned char *to)
{
    size_t n = 0;
    for (uint32_t role = STEP_PARAM; role <= STEP_STATE; role++)
        for (size_t i = 0; i < api->tensor_count(t, role); i++) {
            struct step_tensor about = {.size = sizeof about};
            api->tensor_at(t, role, i, &about);
            struct step_array a = {sizeof a, about.name, to + n, about.dtype, about.rank, about.shape, NULL, 0, 0};
            if (n + about.bytes_global > BYTES || api->read(t, &a)) exit(2);
            n += about.bytes_global;
        }
    return n;
}

static bool is_state(struct step_instance *t, uint64_t step)
{
    static unsigned char now[BYTES];
    return step < STEPS && state_of(t, now) == state_bytes && memcmp(now, expected[step], state_bytes) == 0;
}

static step_status save(struct step_instance *t, const char *to, const char *keep, int items, struct step_job **job)
{
    struct step_item all[2] = {{sizeof *all, "loader", "{\"at\":1}"}, {sizeof *all, "notes", "[1,2,3]"}};
    struct step_hyper metric = {sizeof metric, "loss", 1.5};
    struct step_save s = {.size = sizeof s,
                          .directory = to,
                          .items = all,
                          .item_count = (size_t)items,
                          .metrics = &metric,
                          .metric_count = 1,
                          .keep = keep};
    return api->save(t, &s, job);
}

static step_status load(struct step_instance *t, const char *path)
{
    struct step_load l = {.size = sizeof l, .path = path};
    return api->load(t, &l);
}

static void empty(const char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char name[PATH];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (unlink(name)) empty(name);
    }
    if (d) closedir(d);
    rmdir(path);
}

/* ---------------------------------------------------------------- what must hold */

/* A bit per step that is there and whole. */
static uint64_t look(const char *run, const char *what)
{
    uint64_t there = 0;
    DIR *d = opendir(run);
    struct step_instance *t = make();
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[LONGER];
        if (strncmp(e->d_name, "step-", 5) != 0) continue;
        uint64_t n = strtoull(e->d_name + 5, NULL, 10);
        snprintf(path, sizeof path, "%s/%s", run, e->d_name);
        if (load(t, path)) say("%s: %s: %s", what, e->d_name, api->last_error(t));
        else if (!is_state(t, n)) say("%s: %s has another state", what, e->d_name);
        there |= 1ull << n;
    }
    if (d) closedir(d);
    api->destroy(t);
    return there;
}

static uint64_t newest(uint64_t set)
{
    uint64_t n = 0;
    while (set >>= 1) n++;
    return n;
}

static void check(const char *run, uint64_t acknowledged, const char *keep, const char *what)
{
    uint64_t there = look(run, what);
    if (keep ? newest(there) < newest(acknowledged) : (there & acknowledged) != acknowledged)
        say("%s: lost: %llx of %llx", what, (unsigned long long)there, (unsigned long long)acknowledged);
}

/* The run goes on as if nothing had been. */
static void go_on(const char *run, const char *keep, const char *what)
{
    struct step_instance *t = make();
    uint64_t at = newest(look(run, what));
    DIR *d;
    if (!at && api->init(t)) say("%s: %s", what, api->last_error(t));
    if (at && load(t, run)) say("%s: does not go on: %s", what, api->last_error(t));
    if (!is_state(t, at)) say("%s: goes on from another state than step %d's", what, (int)at);
    while (at < 6 && step(t)) at++;
    if (save(t, run, keep, 1, NULL)) say("%s: cannot save: %s", what, api->last_error(t));
    if (!is_state(t, 6)) say("%s: goes on to another end", what);
    api->destroy(t);
    for (struct dirent *e = (d = opendir(run)) ? readdir(d) : NULL; e; e = readdir(d))
        if (e->d_name[0] == '.' && e->d_name[1] && e->d_name[1] != '.') say("%s: leaves %s", what, e->d_name);
    if (d) closedir(d);
}

/* ---------------------------------------------------------------- faults */

struct plan {
    bool waits, nested, forsaken, loads;
    const char *keep;
    int items;
};

static void acknowledge(int pipe, unsigned char n)
{
    if (syscall(SYS_write, pipe, &n, (size_t)1) != 1) exit(2); /* by number: comes to no harm */
}

/* Of a process that trains to step 4, saves 1, 2 and 3, and comes to harm from the second save on, or in a load. */
static void work(const struct plan *p, const char *run, int pipe, long at, const char *what, bool forever, bool lies)
{
    struct step_instance *t = make();
    if (api->init(t) || !step(t)) exit(3);
    if (!p->nested) {
        if (save(t, run, NULL, p->items, NULL)) exit(3);
        acknowledge(pipe, 1);
    }
    if (p->loads) {
        if (!step(t) || save(t, run, NULL, p->items, NULL) || !step(t)) exit(3);
        calls_arm(at, what, forever);
        step_status status = load(t, run);
        long count = calls_end();
        if (!is_state(t, status ? 3 : 2)) exit(4);
        if (write(pipe, &count, sizeof count) != sizeof count) exit(2);
        _exit(0);
    }
    calls_arm(at, what, forever);
    for (int n = 2; n <= 3; n++) {
        struct step_job *job = NULL;
        if (!step(t)) exit(3);
        step_status status = save(t, run, p->keep, p->items, p->waits ? NULL : &job);
        if (!p->waits && status && job) exit(5);
        if (job) {
            if (n == 3 && !step(t)) exit(3); /* trains while it is saved */
            status = api->job_wait(job, -1);
            api->job_free(job);
        }
        if (status == STEP_OK || lies) acknowledge(pipe, (unsigned char)n);
        else if (!*api->last_error(t)) exit(6);
    }
    long count = calls_end();
    api->destroy(t);
    if (write(pipe, &count, sizeof count) != sizeof count) exit(2);
    _exit(0);
}

/* The number of calls where it came to its end. */
static long attempt(const struct plan *p, long at, const char *what, bool forever, bool lies)
{
    char run[PATH], text[200], name[LONGER];
    int ends[2], status;
    unsigned char got[64];
    uint64_t acknowledged = 0;
    long count = 0;
    snprintf(run, sizeof run, p->nested ? "%s/a/b/run" : "%s/run", folder);
    snprintf(text, sizeof text, "call %ld, %s%s, %s%s%s, keep %s, %d items", at, what, forever ? " from then on" : "",
             p->loads   ? "load"
             : p->waits ? "waiting"
                        : "in the background",
             p->nested ? ", new" : "", p->forsaken ? ", forsaken" : "", p->keep ? p->keep : "all", p->items);
    empty(folder);
    if (mkdir(folder, 0777) || pipe(ends)) exit(2);
    if (p->forsaken && !p->nested) {
        snprintf(name, sizeof name, "%s/.tmp-step-2-0badcafe", run);
        if (mkdir(run, 0777) || mkdir(name, 0777)) exit(2);
        snprintf(name, sizeof name, "%s/.tmp-step-2-0badcafe/params.safetensors", run);
        close(open(name, O_CREAT | O_WRONLY, 0666));
    }
    fflush(stdout);
    pid_t child = fork();
    if (!child) close(ends[0]), work(p, run, ends[1], at, what, forever, lies);
    close(ends[1]);
    ssize_t n = 0;
    for (ssize_t more; (more = read(ends[0], got + n, sizeof got - (size_t)n)) > 0;) n += more;
    close(ends[0]);
    waitpid(child, &status, 0);
    for (ssize_t i = 0; i < n && got[i] >= 1 && got[i] <= 3 && i < 3 && (i == 0 || got[i] > got[i - 1]); i++)
        acknowledged |= 1ull << got[i];
    bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended && n >= (ssize_t)sizeof count) memcpy(&count, got + n - sizeof count, sizeof count);
    if (ended) acknowledged = 0;
    for (ssize_t i = 0; ended && i < n - (ssize_t)sizeof count; i++) acknowledged |= 1ull << got[i];
    if (!ended && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && strcmp(what, "kill") == 0))
        say("%s: ended with %x", text, (unsigned)status);
    if (at) tried++, kills += strcmp(what, "kill") == 0;
    check(run, acknowledged, p->keep, text);
    if (!p->loads && at) go_on(run, p->keep, text);
    return count;
}

static void faults(long every, bool lies)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT, EINTR, EMFILE, EACCES, EROFS};
    static const char *const keeps[] = {NULL, "latest=1", "latest=2,every=3"};
    char what[20];
    long turn = 0;
    for (int k = 0; k < 2 * 3 * 3 * 2 + 2; k++) {
        bool loads = k >= 36;
        struct plan p = {
            k % 2, k / 2 % 3 == 1, k / 2 % 3 == 2, loads, loads ? NULL : keeps[k / 6 % 3], k / 18 % 2 ? 2 : 0};
        if (loads) p.nested = p.forsaken = false, p.items = k % 2 ? 2 : 0;
        if (every > 50 && k % 5 != 0 && !loads) continue;
        long count = attempt(&p, 0, "nothing", false, lies);
        if (count < 10) say("only %ld calls", count);
        for (long at = 1; at <= count; at++)
            for (size_t e = 0; e < 2 + 2 * sizeof errors / sizeof *errors; e++) {
                bool forever = e > 8;
                if (e == 0) strcpy(what, "kill");
                else if (e == 1) strcpy(what, "short");
                else snprintf(what, sizeof what, "%d", errors[(e - 2) % 7]);
                if ((forever && errors[(e - 2) % 7] == EINTR) || (loads && e == 0) || turn++ % every) continue;
                attempt(&p, at, what, forever, lies);
            }
    }
    printf("%ld faults, %ld of them kills: %ld wrong\n", tried, kills, wrong);
}

/* ---------------------------------------------------------------- other harm */

static void log_saves(const char *keep)
{
    char run[PATH];
    struct step_instance *t = make();
    snprintf(run, sizeof run, "%s/a/run", folder);
    empty(folder);
    if (mkdir(folder, 0777) || api->init(t)) exit(2);
    calls_arm(0, "", false);
    for (int n = 1; n <= 4; n++) {
        struct step_job *job = NULL;
        if (!step(t) || save(t, run, *keep ? keep : NULL, n % 2, n % 2 ? NULL : &job)) exit(3);
        if (job && api->job_wait(job, -1)) exit(3);
        if (job) api->job_free(job);
        calls_note("saved %d\n", n);
    }
    calls_end();
    _exit(0);
}

/* Saves until the disk is full: what is there stays, nothing else does; with room again it goes on. */
static void disk(unsigned long bytes, bool limited)
{
    char options[40], path[PATH];
    struct step_instance *t = make();
    uint64_t acknowledged = 0;
    snprintf(options, sizeof options, "size=%lu", bytes);
    empty(folder);
    if (mkdir(folder, 0777) || api->init(t)) exit(2);
    bool mounted = !limited && mount("saves", folder, "tmpfs", 0, options) == 0;
    struct rlimit limit = {bytes, bytes}; /* of a file; who waits must not be ended by SIGXFSZ */
    if (!mounted) setrlimit(RLIMIT_FSIZE, &limit);
    int n = 0, failed = 0;
    for (; n < STEPS - 2 && !failed; n++) {
        if (!step(t)) exit(3);
        struct step_job *job = NULL;
        step_status status = save(t, folder, NULL, 1, n % 2 || limited ? NULL : &job);
        if (job && !status) status = api->job_wait(job, -1);
        if (job) api->job_free(job);
        if (!status) acknowledged |= 1ull << (n + 1);
        else failed = status;
    }
    if (failed && failed != STEP_EIO) say("disk of %lu bytes: status %d: %s", bytes, failed, api->last_error(t));
    check(folder, acknowledged, NULL, options);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, ".tmp", 4) == 0) say("disk of %lu bytes: leaves %s", bytes, e->d_name);
    if (d) closedir(d);
    if (mounted && failed && acknowledged) {
        snprintf(path, sizeof path, "%s/step-1", folder);
        empty(path);
        if (save(t, folder, NULL, 1, NULL)) say("disk of %lu bytes: with room again: %s", bytes, api->last_error(t));
    }
    api->destroy(t);
    if (mounted) umount(folder);
    printf("%s of %lu bytes: %d saves, then status %d: %ld wrong\n", mounted ? "disk" : "files", bytes, n - !!failed,
           failed, wrong);
}

/* The directory of a writer that is about to end, which gives it its name before the lock of who takes it for forsaken.
 */
static char unnamed[PATH], named[PATH];

static void give_name(int fd)
{
    struct stat a, b;
    if (fstat(fd, &a) || stat(unnamed, &b) || a.st_ino != b.st_ino) return;
    if (rename(unnamed, named)) exit(2);
}

static void late(void)
{
    char run[PATH];
    struct step_instance *t = make();
    snprintf(run, sizeof run, "%s/run", folder);
    snprintf(named, sizeof named, "%.500s/step-1", run);
    snprintf(unnamed, sizeof unnamed, "%.500s/.tmp-step-1-0badcafe", run);
    empty(folder);
    if (mkdir(folder, 0777) || api->init(t) || !step(t) || save(t, run, NULL, 1, NULL) || rename(named, unnamed) ||
        !step(t))
        exit(3);
    calls_before_flock(give_name);
    if (save(t, run, NULL, 1, NULL)) exit(3);
    calls_before_flock(NULL);
    check(run, 6, NULL, "a writer that ends beside another one");
    api->destroy(t);
}

/* Both save steps 1 to 20; one of each wins, the other is told; with a rule too. */
static void race(void)
{
    char run[PATH];
    snprintf(run, sizeof run, "%s/run", folder);
    for (int round = 0; round < 10; round++) {
        int ends[2];
        unsigned char got;
        uint64_t acknowledged = 0, twice = 0;
        empty(folder);
        if (mkdir(folder, 0777) || pipe(ends)) exit(2);
        fflush(stdout);
        for (int k = 0; k < 2; k++)
            if (!fork()) {
                struct step_instance *t = make();
                if (api->init(t)) _exit(2);
                for (int n = 1; n <= 20; n++) {
                    if (!step(t)) _exit(2);
                    struct step_job *job = NULL;
                    step_status status = save(t, run, round % 2 ? "latest=3" : NULL, 1, &job);
                    if (job) status = api->job_wait(job, -1), api->job_free(job);
                    if (!status) acknowledge(ends[1], (unsigned char)n);
                    else if (!strstr(api->last_error(t), "exists already")) _exit(3);
                }
                api->destroy(t);
                _exit(0);
            }
        close(ends[1]);
        while (read(ends[0], &got, 1) == 1) {
            if (acknowledged >> got & 1) twice |= 1ull << got;
            acknowledged |= 1ull << got;
        }
        close(ends[0]);
        for (int status; wait(&status) > 0;)
            if (status) say("a writer ended with %x", (unsigned)status);
        if (twice && round % 2 == 0) say("steps %llx were told twice to be saved", (unsigned long long)twice);
        if (round % 2 == 0 && acknowledged != 0x1ffffe)
            say("not all were saved: %llx", (unsigned long long)acknowledged);
        check(run, acknowledged, round % 2 ? "latest=3" : NULL, "two writers");
    }
    printf("20 steps by two writers, 10 times: %ld wrong\n", wrong);
}

static void headers(void)
{
    static const char *const files[] = {"params.safetensors", "opt_state.safetensors", "state.safetensors",
                                        "ema.safetensors",    "manifest.json",         "items/loader.json"};
    char run[PATH], path[LONGER], one[LONGER];
    struct step_instance *t = make();
    snprintf(run, sizeof run, "%s/run", folder);
    empty(folder);
    if (mkdir(folder, 0777) || api->init(t) || !step(t) || save(t, run, NULL, 1, NULL) || !step(t) ||
        save(t, run, NULL, 1, NULL) || !step(t))
        exit(3);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        static char bytes[BYTES];
        snprintf(path, sizeof path, "%s/step-2/%s", run, files[f]);
        int fd = open(path, O_RDWR);
        ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
        for (ssize_t cut = 0; cut < n; cut++) {
            if (ftruncate(fd, cut)) exit(2);
            snprintf(one, sizeof one, "%s/step-2", run);
            tried++;
            if (load(t, one) != STEP_ECORRUPT) say("%s cut at %zd: %s", files[f], cut, api->last_error(t));
            if (cut % 64 == 0 && (load(t, run) || !is_state(t, 1)))
                say("%s cut at %zd: step-1 is not taken", files[f], cut);
            if (cut % 64 == 0 && !step(t)) exit(3);
            if (pwrite(fd, bytes, (size_t)n, 0) != n) exit(2);
        }
        if (fd >= 0) close(fd);
    }
    if (look(run, "restored") != 6) say("what was put back is not whole");
    printf("%ld cuts: %ld wrong\n", tried, wrong);
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    void *so = dlopen(argv[1], RTLD_NOW);
    step_query_fn *query = NULL;
    if (so) *(void **)&query = dlsym(so, "step_query");
    if (!query || !(api = query(STEP_ABI_MAJOR, STEP_ABI_MINOR))) return fprintf(stderr, "%s\n", dlerror()), 2;
    snprintf(folder, sizeof folder, "%s", argv[2]);
    struct step_instance *t = make();
    if (api->init(t)) return 2;
    static unsigned char now[BYTES];
    for (int k = 0; k < STEPS; k++) {
        if (k && !step(t)) return 2;
        state_bytes = state_of(t, now);
        expected[k] = memcpy(malloc(state_bytes), now, state_bytes);
    }
    api->destroy(t);
    const char *what = argv[3], *more = argc > 4 ? argv[4] : "";
    if (strcmp(what, "faults") == 0) faults(atol(more), argc > 5);
    else if (strcmp(what, "log") == 0) log_saves(more);
    else if (strcmp(what, "disk") == 0) disk(strtoul(more, NULL, 10), argc > 5);
    else if (strcmp(what, "race") == 0) late(), race();
    else if (strcmp(what, "headers") == 0) headers();
    else if (strcmp(what, "look") == 0) {
        uint64_t acknowledged = strtoull(more, NULL, 10);
        check(folder, acknowledged, argc > 5 ? argv[5] : NULL, "image");
    } else return 2;
    return wrong ? 1 : 0;
}
