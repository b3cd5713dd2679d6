/* Object plus runtime to one shared object, by the linker that is open beside LLVM, in a child, or else by ld.lld or
 * ld, started without a shell. Everything happens in a private temporary folder, from which the result is read. Folders
 * of compilers that were killed are removed by later ones: who has the lock of a folder lives. The only exported symbol
 * is `export_symbol`; needed libraries are libc and libm as this program itself has them. */
#include "codegen/llvm/llvm_object.h"
#include "ir/base/str.h"
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* The runtime's archive, embedded by the build (runtime_image.S). */
extern const unsigned char cg_runtime_image[], cg_runtime_image_end[];

struct cg_bytes cg_runtime_archive(void)
{
    return (struct cg_bytes){cg_runtime_image, (size_t)(cg_runtime_image_end - cg_runtime_image)};
}

enum { ARGUMENTS = 40 + CG_MODULES };
enum { FILE_ARCHIVE, FILE_EXPORTS, FILE_LOG, FILE_RESULT, FILE_COUNT };
static const char *const file_names[FILE_COUNT] = {"runtime.a", "exports", "log", "step.so"};

struct workshop {
    struct arena *arena;
    char *folder;
    const char *path[FILE_COUNT];
    int lock;               /* the folder itself, locked */
    sigset_t signals, held; /* of before; in the workshop */
    int caught;             /* a signal that came meanwhile */
};

/* NULL or what the system says. */
static const char *write_file(struct arena *arena, const char *path, const void *data, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const char *at = data;
    int error = 0;
    if (file < 0) return arena_format(arena, "cannot create %s: %s", path, strerror(errno));
    while (size && !error) {
        ssize_t n = write(file, at, size);
        if (n < 0 && errno != EINTR) error = errno;
        if (n > 0) at += n, size -= (size_t)n;
    }
    if (close(file) != 0 && !error) error = errno;
    return error ? arena_format(arena, "cannot write %s: %s", path, strerror(error)) : NULL;
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

/* Signals that end this program wait until the folder is gone; they end the linker at once. SIGCHLD is held to wait for
 * either. */
static void hold_signals(struct workshop *w)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    sigemptyset(&w->held);
    sigaddset(&w->held, SIGCHLD);
    for (int i = 0; i < 3; i++) /* nohup stays nohup */
        if (sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&w->held, ending[i]);
    pthread_sigmask(SIG_BLOCK, &w->held, &w->signals);
}

static void release_signals(const struct workshop *w)
{
    if (w->caught) raise(w->caught); /* once nothing holds it */
    pthread_sigmask(SIG_SETMASK, &w->signals, NULL);
}

/* What stands in a folder, and the folder. */
static void remove_folder(struct arena *arena, const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.') unlink(arena_format(arena, "%s/%s", folder, entry->d_name));
    if (dir) closedir(dir);
    rmdir(folder);
}

/* Ours that nobody has locked; a young one may belong to a compiler that is about to lock it. */
static void remove_forsaken(struct arena *arena, const char *base)
{
    DIR *dir = opendir(base);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        if (strncmp(entry->d_name, "stepc-", 6) != 0 || strlen(entry->d_name) != 12) continue;
        const char *folder = arena_format(arena, "%s/%s", base, entry->d_name);
        int lock = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (lock < 0) continue;
        if (fstat(lock, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 07777) == 0700 &&
            time(NULL) - st.st_mtime >= 60 && flock(lock, LOCK_EX | LOCK_NB) == 0)
            remove_folder(arena, folder);
        close(lock);
    }
    if (dir) closedir(dir);
}

static const char *open_workshop(struct workshop *w)
{
    const char *base = getenv("TMPDIR");
    if (!base || !*base) base = "/tmp";
    remove_forsaken(w->arena, base);
    w->folder = arena_format(w->arena, "%s/stepc-XXXXXX", base);
    if (!mkdtemp(w->folder)) /* mode 0700 */ {
        w->folder = NULL;
        return arena_format(w->arena, "cannot create a temporary folder in %s: %s", base, strerror(errno));
    }
    w->lock = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->lock >= 0) flock(w->lock, LOCK_EX | LOCK_NB);
    for (int i = 0; i < FILE_COUNT; i++) w->path[i] = arena_format(w->arena, "%s/%s", w->folder, file_names[i]);
    return NULL;
}

static void close_workshop(const struct workshop *w)
{
    if (w->folder) remove_folder(w->arena, w->folder);
    if (w->lock >= 0) close(w->lock);
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

/* The linker as a program; its messages go to the log. 0, or the error. */
static int spawn_program(struct workshop *w, const char *const *argv, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, w->path[FILE_LOG], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &w->signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    char *args[ARGUMENTS];
    size_t count = 0;
    for (; argv[count]; count++) args[count] = arena_string(w->arena, argv[count]);
    args[count] = NULL;
    int error = posix_spawnp(child, argv[0], &actions, &attributes, args, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* What a new program would have: no handlers of ours, files and signals as a program gets them, and its memory to
 * itself, of which that of the compiler counts here, too. */
static void become_linker(const struct workshop *w)
{
    struct sigaction action;
    struct rlimit memory;
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN) signal(number, SIG_DFL);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log = open(w->path[FILE_LOG], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (null < 0 || log < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) _exit(126);
    if (getrlimit(RLIMIT_DATA, &memory) == 0 && memory.rlim_cur < memory.rlim_max / 2) {
        memory.rlim_cur *= 2;
        setrlimit(RLIMIT_DATA, &memory);
    }
    pthread_sigmask(SIG_SETMASK, &w->signals, NULL);
}

/* The linker that is open, in a child: what goes wrong in it, or ends it, is nothing that happens to the compiler. Of
 * the compiler's threads it has this one alone, as no other uses LLVM. */
static int fork_linker(struct workshop *w, cg_linker *linker, const char *const *argv, pid_t *child)
{
    int count = 0;
    while (argv[count]) count++;
    *child = fork();
    if (*child == 0) {
        become_linker(w);
        _exit(linker(count, argv));
    }
    return *child < 0 ? ENOENT : 0; /* no room for a copy: a program may still find some */
}

/* Runs the linker, `linker` or a program. Returns NULL, "" if there is none, or what is wrong. */
static const char *run(struct workshop *w, cg_linker *linker, const char *const *argv)
{
    pid_t child;
    int status, error = linker ? fork_linker(w, linker, argv, &child) : spawn_program(w, argv, &child);
    if (error == ENOENT) return "";
    if (error) return arena_format(w->arena, "cannot start the linker %s: %s", argv[0], strerror(error));
    for (pid_t ended; (ended = waitpid(child, &status, WNOHANG)) != child;) {
        int number = ended == 0 ? sigwaitinfo(&w->held, NULL) : 0;
        if (number > 0 && number != SIGCHLD) kill(child, SIGKILL), w->caught = number;
        if (ended < 0 && errno != EINTR)
            return arena_format(w->arena, "lost the linker %s: %s", argv[0], strerror(errno));
    }
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

static const char *object_path(struct workshop *w, uint32_t number)
{
    return arena_format(w->arena, "%s/step.%u.o", w->folder, number);
}

static const char *link_in(struct workshop *w, const struct cg_link *link)
{
    const char *linkers[] = {link->linker, "lld", "ld.lld", "ld.lld-16", "ld", NULL};
    const char *libm = library_path(w->arena, "libm.so.6"), *libc = library_path(w->arena, "libc.so.6");
    const char *fault;
    if (!libm || !libc) return "cannot find the C library to link against";
    for (int i = link->linker ? 0 : cg_llvm_linker() ? 1 : 2; i < 5; i++) {
        bool open = i == 1;
        const char *argv[ARGUMENTS] = {linkers[i],
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
                                       "-zshstk",
                                       "--build-id=none",
                                       "--hash-style=gnu",
                                       "-s",
                                       "-O2",
                                       "--no-eh-frame-hdr",
                                       "-u",
                                       link->export_symbol,
                                       "--version-script",
                                       w->path[FILE_EXPORTS]};
        size_t n = 0;
        while (argv[n]) n++;
        for (uint32_t k = 0; k < link->object_count; k++) argv[n++] = object_path(w, k);
        for (int k = 0; k < 2; k++)
            if (link->asked[k]) argv[n++] = "-u", argv[n++] = link->asked[k];
        if (link->archive.size) argv[n++] = w->path[FILE_ARCHIVE];
        argv[n++] = "--as-needed";
        argv[n++] = libm;
        argv[n++] = libc;
        if (open) argv[n++] = "--threads=1"; /* of a process with threads the child has one */
        fault = run(w, open ? cg_llvm_linker() : NULL, argv);
        if (!fault || *fault) return fault;
        if (link->linker) return arena_format(w->arena, "the linker %s does not exist", link->linker);
    }
    return "found neither ld.lld nor ld; install one of them (Debian: apt install lld) or name one with --linker";
}

/* What loads an object reads segments. Of the table of sections, at the end of the file, only those stay that tools ask
 * for: names of symbols, code, the note. */
static const char *trim_sections(struct arena *arena, struct cg_bytes *file)
{
    static const char *const kept[] = {"", ".note.stepc", ".dynsym", ".dynstr", ".text", ".dynamic", ".shstrtab"};
    enum { KEPT = sizeof kept / sizeof *kept };
    char *bytes = arena_copy(arena, file->data, file->size + 1);
    Elf64_Ehdr *head = (void *)bytes;
    const Elf64_Phdr *parts = (const void *)(bytes + head->e_phoff);
    Elf64_Shdr *all = arena_copy(arena, bytes + head->e_shoff, head->e_shnum * sizeof *all), out[KEPT];
    const char *names = bytes + all[head->e_shstrndx].sh_offset;
    struct str text = STR(arena);
    uint64_t end = 0;
    uint32_t count = 0, was[KEPT];
    for (uint32_t i = 0; i < head->e_phnum; i++)
        if (parts[i].p_type == PT_LOAD && parts[i].p_offset + parts[i].p_filesz > end)
            end = parts[i].p_offset + parts[i].p_filesz;
    for (uint32_t i = 0; i < head->e_shnum; i++)
        for (uint32_t k = 0; k < KEPT; k++) {
            if (strcmp(names + all[i].sh_name, kept[k]) != 0) continue;
            was[count] = i;
            out[count] = all[i];
            out[count++].sh_name = (uint32_t)text.length;
            str_add_n(&text, kept[k], strlen(kept[k]) + 1);
        }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (all[was[i]].sh_link == was[k]) out[i].sh_link = k;
    out[count - 1].sh_offset = end;
    out[count - 1].sh_size = text.length;
    if (end + text.length + 8 + count * sizeof *out > file->size) return "the linker made a file of another form";
    memcpy(bytes + end, text.text, text.length);
    head->e_shoff = (end + text.length + 7) / 8 * 8;
    memset(bytes + end + text.length, 0, head->e_shoff - end - text.length);
    memcpy(bytes + head->e_shoff, out, count * sizeof *out);
    head->e_shnum = (uint16_t)count, head->e_shstrndx = (uint16_t)(count - 1);
    *file = (struct cg_bytes){bytes, head->e_shoff + count * sizeof *out};
    return NULL;
}

const char *cg_link(const struct cg_link *link, struct arena *arena, struct cg_bytes *result)
{
    struct workshop w = {.arena = arena, .lock = -1};
    const char *exports = arena_format(arena, "{ global: %s; local: *; };\n", link->export_symbol);
    hold_signals(&w);
    const char *fault = open_workshop(&w);
    for (uint32_t k = 0; !fault && k < link->object_count; k++)
        fault = write_file(arena, object_path(&w, k), link->objects[k].data, link->objects[k].size);
    if (!fault && link->archive.size)
        fault = write_file(arena, w.path[FILE_ARCHIVE], link->archive.data, link->archive.size);
    if (!fault) fault = write_file(arena, w.path[FILE_EXPORTS], exports, strlen(exports));
    if (!fault) fault = link_in(&w, link);
    if (!fault) fault = read_file(arena, w.path[FILE_RESULT], result);
    if (!fault) fault = trim_sections(arena, result);
    close_workshop(&w);
    release_signals(&w);
    return fault;
}
