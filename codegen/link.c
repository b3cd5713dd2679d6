/* Object plus runtime to one shared object, by ld.lld or ld, started without a shell. Everything happens in a private
 * temporary folder; the result is written beside the target and renamed, so that a full disk or a failing linker never
 * leaves half a file. The only exported symbol is `export_symbol`; needed libraries are libc and libm as this program
 * itself has them. */
#include "codegen/llvm/llvm_object.h"
#include "ir/base/str.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The runtime's archive, embedded by the build (runtime_image.S). */
extern const unsigned char cg_runtime_image[], cg_runtime_image_end[];

struct cg_bytes cg_runtime_archive(void)
{
    return (struct cg_bytes){cg_runtime_image, (size_t)(cg_runtime_image_end - cg_runtime_image)};
}

enum { FILE_OBJECT, FILE_ARCHIVE, FILE_EXPORTS, FILE_LOG, FILE_RESULT, FILE_COUNT };
static const char *const file_names[FILE_COUNT] = {"step.o", "runtime.a", "exports", "log", "step.so"};

struct workshop {
    struct arena *arena;
    char *folder;
    const char *path[FILE_COUNT];
    sigset_t signals; /* of before */
};

/* NULL or what the system says; `shown` is the name that messages have. */
static const char *write_file(struct arena *arena, const char *path, const char *shown, const void *data, size_t size,
                              mode_t mode)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    const char *at = data;
    int error = 0;
    if (file < 0) return arena_format(arena, "cannot create %s: %s", shown, strerror(errno));
    while (size && !error) {
        ssize_t n = write(file, at, size);
        if (n < 0 && errno != EINTR) error = errno;
        if (n > 0) at += n, size -= (size_t)n;
    }
    if (close(file) != 0 && !error) error = errno;
    return error ? arena_format(arena, "cannot write %s: %s", shown, strerror(error)) : NULL;
}

static const char *read_file(struct arena *arena, const char *path, struct cg_bytes *out)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (file < 0 || fstat(file, &st) != 0) {
        int error = errno;
        if (file >= 0) close(file);
        return arena_format(arena, "cannot read %s: %s", path, strerror(error));
    }
    char *data = arena_alloc(arena, (size_t)st.st_size + 1);
    size_t have = 0;
    for (ssize_t n = 1; have < (size_t)st.st_size && (n > 0 || errno == EINTR);) {
        n = read(file, data + have, (size_t)st.st_size - have);
        have += n > 0 ? (size_t)n : 0;
        if (n == 0) break;
    }
    close(file);
    *out = (struct cg_bytes){data, have};
    return have == (size_t)st.st_size ? NULL : arena_format(arena, "cannot read %s", path);
}

/* Ctrl-C waits until the folder is gone; the linker gets it too, and ends. */
static void hold_signals(struct workshop *w)
{
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGHUP);
    sigprocmask(SIG_BLOCK, &held, &w->signals);
}

static const char *open_workshop(struct workshop *w)
{
    const char *base = getenv("TMPDIR");
    if (!base || !*base) base = "/tmp";
    w->folder = arena_format(w->arena, "%s/stepc-XXXXXX", base);
    if (!mkdtemp(w->folder)) /* mode 0700 */ {
        w->folder = NULL;
        return arena_format(w->arena, "cannot create a temporary folder in %s: %s", base, strerror(errno));
    }
    for (int i = 0; i < FILE_COUNT; i++) w->path[i] = arena_format(w->arena, "%s/%s", w->folder, file_names[i]);
    return NULL;
}

static void close_workshop(const struct workshop *w)
{
    for (int i = 0; w->folder && i < FILE_COUNT; i++) unlink(w->path[i]);
    if (w->folder) rmdir(w->folder);
}

/* Where the dynamic loader found a library; no development files are needed to link against it. */
static const char *library_path(struct arena *arena, const char *name)
{
    struct link_map *map = NULL;
    const char *path = NULL;
    void *handle = dlopen(name, RTLD_LAZY);
    if (!handle) return NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name)
        path = arena_string(arena, map->l_name);
    dlclose(handle);
    return path;
}

/* Runs the linker; its messages go to the log. Returns NULL, "" if the program does not exist, or what is wrong. */
static const char *run(struct workshop *w, const char *const *argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t child;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, w->path[FILE_LOG], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &w->signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    char *args[32];
    size_t count = 0;
    for (; argv[count]; count++) args[count] = arena_string(w->arena, argv[count]);
    args[count] = NULL;
    int error = posix_spawnp(&child, argv[0], &actions, &attributes, args, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error == ENOENT) return "";
    if (error) return arena_format(w->arena, "cannot start the linker %s: %s", argv[0], strerror(error));
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return arena_format(w->arena, "lost the linker %s: %s", argv[0], strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return NULL;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return "";
    struct cg_bytes log = {"", 0};
    if (read_file(w->arena, w->path[FILE_LOG], &log)) log = (struct cg_bytes){"", 0};
    const char *how = WIFSIGNALED(status)
                          ? arena_format(w->arena, "was ended by signal %d (a full disk?)", WTERMSIG(status))
                          : arena_format(w->arena, "failed with status %d", WEXITSTATUS(status));
    return arena_format(w->arena, "the linker %s %s%s%.*s", argv[0], how, log.size ? ":\n" : "",
                        (int)(log.size < 2000 ? log.size : 2000), (const char *)log.data);
}

static const char *link_in(struct workshop *w, const struct cg_link *link)
{
    const char *linkers[] = {link->linker, "ld.lld", "ld.lld-16", "ld", NULL};
    const char *libm = library_path(w->arena, "libm.so.6"), *libc = library_path(w->arena, "libc.so.6");
    const char *fault;
    if (!libm || !libc) return "cannot find the C library to link against";
    for (int i = link->linker ? 0 : 1; i < 4; i++) {
        const char *argv[32] = {linkers[i],
                                "-shared",
                                "-o",
                                w->path[FILE_RESULT],
                                "--gc-sections",
                                "-z",
                                "nodelete",
                                "-z",
                                "relro",
                                "-z",
                                "now",
                                "-z",
                                "defs",
                                "-z",
                                "noexecstack",
                                "--build-id=none",
                                "--hash-style=gnu",
                                "-s",
                                "-O2",
                                "--no-eh-frame-hdr",
                                "-u",
                                link->export_symbol,
                                "--version-script",
                                w->path[FILE_EXPORTS],
                                w->path[FILE_OBJECT]};
        size_t n = 25;
        if (link->archive.size) argv[n++] = w->path[FILE_ARCHIVE];
        argv[n++] = "--as-needed";
        argv[n++] = libm;
        argv[n++] = libc;
        fault = run(w, argv);
        if (!fault || *fault) return fault;
        if (link->linker) return arena_format(w->arena, "the linker %s does not exist", link->linker);
    }
    return "found neither ld.lld nor ld; install one of them (Debian: apt install lld) or name one with --linker";
}

static const char *deliver(struct workshop *w, const char *output)
{
    struct cg_bytes result;
    struct stat status;
    const char *fault = read_file(w->arena, w->path[FILE_RESULT], &result);
    if (fault) return fault;
    /* A device or a pipe is written to: a rename would replace it. */
    if (stat(output, &status) == 0 && (!S_ISREG(status.st_mode) || strncmp(output, "/dev/", 5) == 0))
        return write_file(w->arena, output, output, result.data, result.size, 0777);
    const char *beside = arena_format(w->arena, "%s.%ld.tmp", output, (long)getpid());
    fault = write_file(w->arena, beside, output, result.data, result.size, 0777);
    if (!fault && rename(beside, output) != 0)
        fault = arena_format(w->arena, "cannot write %s: %s", output, strerror(errno));
    if (fault) unlink(beside);
    return fault;
}

const char *cg_link(const struct cg_link *link, struct arena *arena)
{
    struct workshop w = {.arena = arena};
    const char *exports = arena_format(arena, "{ global: %s; local: *; };\n", link->export_symbol);
    hold_signals(&w);
    const char *fault = open_workshop(&w);
    if (!fault)
        fault = write_file(arena, w.path[FILE_OBJECT], w.path[FILE_OBJECT], link->object.data, link->object.size, 0600);
    if (!fault && link->archive.size)
        fault = write_file(arena, w.path[FILE_ARCHIVE], w.path[FILE_ARCHIVE], link->archive.data, link->archive.size,
                           0600);
    if (!fault) fault = write_file(arena, w.path[FILE_EXPORTS], w.path[FILE_EXPORTS], exports, strlen(exports), 0600);
    if (!fault) fault = link_in(&w, link);
    if (!fault) fault = deliver(&w, link->output);
    close_workshop(&w);
    sigprocmask(SIG_SETMASK, &w.signals, NULL);
    return fault;
}
