/* Counts the system calls of saves and loads in the program that it is preloaded into (LD_PRELOAD=libcalls.so), from
 * the first mkdir or note of a rank on, and lets one come to harm:
 *
 *   CALL_AT=N       the N-th one, from 1 on
 *   CALL_DO=X       kill: the process ends before it; short: it transfers half; else the number of an error that it
 * gives CALL_FOREVER=1  and so do all that follow CALL_COUNT=F    at the end the number of calls is written to file F
 *   CALL_DO=move:A:B:C:D  A is renamed to B and C to D before it: another process's doing
 *   CALL_RANK=R     begins every line of the log
 *   CALL_LOADS=1    counts from the first opening of a manifest on
 *   CALL_LOG=F      what is done is appended to file F, line by line: open FD FLAGS PATH, write FD, sync FD, close FD,
 * name CALL_NOSYNC=1   fsync does nothing and says that it did: the control of who reads the log */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic long calls;
static _Atomic bool active;
static long at;
static int error;
static bool kills, halves, forever;
static const char *moves;
static void (*before_flock)(int fd);

/* For a program that this is linked into. */
void calls_before_flock(void (*what)(int fd));
void calls_arm(long call, const char *what, bool on);
long calls_end(void);
void calls_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static long raw(long number, long a, long b, long c, long d, long e, long f)
{
    static long (*real)(long, ...);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, a, b, c, d, e, f);
}

void calls_note(const char *format, ...)
{
    static int log = -2;
    char line[512];
    if (log == -2)
        log = getenv("CALL_LOG")
                  ? (int)raw(SYS_openat, AT_FDCWD, (long)getenv("CALL_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0666, 0, 0)
                  : -1;
    if (log < 0) return;
    va_list list;
    const char *rank = getenv("CALL_RANK");
    int head = snprintf(line, sizeof line, rank ? "%.20s " : "", rank);
    va_start(list, format);
    int n = head + vsnprintf(line + head, sizeof line - (size_t)head, format, list);
    va_end(list);
    raw(SYS_write, log, (long)line, n < (int)sizeof line ? n : (int)sizeof line - 1, 0, 0, 0);
}

/* Of names that ':' parts, each first one becomes the second. */
static void move_all(const char *names)
{
    char pair[2][512];
    for (int n; sscanf(names, ":%511[^:]:%511[^:]%n", pair[0], pair[1], &n) == 2; names += n)
        raw(SYS_renameat2, AT_FDCWD, (long)pair[0], AT_FDCWD, (long)pair[1], 0, 0);
}

/* 0: as always; 1: errno is set; 2: only half of it. */
static int comes_to_harm(bool transfers)
{
    if (!active) return 0;
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (!at || (n != at && !(forever && n > at))) return 0;
    if (moves) return move_all(moves), 0;
    if (kills) raw(SYS_kill, getpid(), SIGKILL, 0, 0, 0, 0);
    if (halves) return transfers ? 2 : 0;
    errno = error;
    return 1;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)
#define WRAP(type, name, failed, parameters, ...) \
    type name parameters \
    { \
        static type(*real) parameters; \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name); \
        return comes_to_harm(false) ? failed : real(__VA_ARGS__); \
    }

WRAP(int, unlinkat, -1, (int fd, const char *path, int flags), fd, path, flags)
WRAP(int, rename, -1, (const char *from, const char *to), from, to)
WRAP(DIR *, fdopendir, NULL, (int fd), fd)

struct dirent *readdir(DIR *folder)
{
    REAL(struct dirent *, readdir, DIR *);
    return comes_to_harm(false) ? NULL : real(folder);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, mkdir, const char *, mode_t);
    if (!getenv("CALL_LOADS")) active = true;
    if (comes_to_harm(false)) return -1;
    calls_note("mkdir %d %s\n", AT_FDCWD, path);
    return real(path, mode);
}

int close(int fd)
{
    REAL(int, close, int);
    calls_note("close %d\n", fd);
    if (!comes_to_harm(false)) return real(fd);
    int told = errno;
    real(fd); /* Linux closes it all the same */
    errno = told;
    return -1;
}

static int opens(int fd, const char *path, int flags, mode_t mode)
{
    if (getenv("CALL_LOADS") && strstr(path, "manifest.json")) active = true;
    if (comes_to_harm(false)) return -1;
    int opened = (int)raw(SYS_openat, fd, (long)path, flags, mode, 0, 0);
    calls_note("open %d %d %d %s\n", opened, fd, flags & O_CREAT ? 1 : 0, path);
    return opened;
}

#define MODE(flags) \
    mode_t mode = 0; \
    va_list list; \
    va_start(list, flags); \
    if ((flags) & (O_CREAT | O_TMPFILE)) mode = va_arg(list, mode_t); \
    va_end(list)

int open(const char *path, int flags, ...)
{
    MODE(flags);
    return opens(AT_FDCWD, path, flags, mode);
}

int openat(int fd, const char *path, int flags, ...)
{
    MODE(flags);
    if (flags & O_CREAT && strncmp(path, "manifest.json-", 14) == 0) active = true; /* a rank that makes no directory */
    return opens(fd, path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t n)
{
    REAL(ssize_t, write, int, const void *, size_t);
    struct stat about; /* pipes and events are a launcher's */
    if (fd <= 2 || raw(SYS_fstat, fd, (long)&about, 0, 0, 0, 0) || !S_ISREG(about.st_mode)) return real(fd, data, n);
    int harm = comes_to_harm(true);
    for (size_t i = 0; getenv("CALL_LOG") && i < n; i += 200) {
        char hex[401];
        for (size_t k = i; k < n && k < i + 200; k++)
            snprintf(hex + 2 * (k - i), 3, "%02x", ((const unsigned char *)data)[k]);
        calls_note("write %d %s\n", fd, hex);
    }
    return harm == 1 ? -1 : real(fd, data, harm == 2 && n > 1 ? n / 2 : n);
}

/* What the runtime calls by number; futexes are none of these calls. */
long syscall(long number, ...)
{
    static const short counted[] = {SYS_fsync,   SYS_flock,     SYS_mkdirat, SYS_symlinkat, SYS_unlinkat,
                                    SYS_fstatfs, SYS_renameat2, SYS_linkat,  SYS_lseek,     SYS_newfstatat};
    bool known = false;
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_mkdirat && !getenv("CALL_LOADS")) active = true;
    if (number == SYS_flock && before_flock) before_flock((int)a[0]);
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) known |= number == counted[i];
    if (known && comes_to_harm(false)) return -1;
    if (number == SYS_pread64) {
        int harm = comes_to_harm(true);
        if (harm == 1) return -1;
        if (harm == 2 && a[2] > 1) a[2] /= 2;
    }
    if (number == SYS_fsync && getenv("CALL_NOSYNC")) return 0;
    if (number == SYS_mkdirat) calls_note("mkdir %d %s\n", (int)a[0], (const char *)a[1]);
    if (number == SYS_symlinkat) calls_note("link %d %s\n", (int)a[1], (const char *)a[2]);
    if (number == SYS_unlinkat) calls_note("unlink %d %s\n", (int)a[0], (const char *)a[1]);
    if (number == SYS_fsync) calls_note("sync %d\n", (int)a[0]);
    if (number == SYS_renameat2) calls_note("name %d %s %s\n", (int)a[0], (const char *)a[1], (const char *)a[3]);
    return raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void come(long call, const char *what, bool on)
{
    at = call;
    kills = what && strcmp(what, "kill") == 0;
    halves = what && strcmp(what, "short") == 0;
    moves = what && strncmp(what, "move:", 5) == 0 ? what + 4 : NULL;
    error = what ? atoi(what) : 0;
    forever = on;
}

void calls_arm(long call, const char *what, bool on)
{
    come(call, what, on);
    calls = 0;
    active = true;
}

void calls_before_flock(void (*what)(int fd)) { before_flock = what; }

long calls_end(void)
{
    active = false;
    return calls;
}

__attribute__((constructor)) static void begin(void)
{
    const char *n = getenv("CALL_AT");
    come(n ? atol(n) : 0, getenv("CALL_DO"), getenv("CALL_FOREVER") != NULL);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("CALL_COUNT");
    active = false;
    if (!path) return;
    int fd = (int)raw(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_CREAT | O_TRUNC, 0666, 0, 0);
    dprintf(fd, "%ld", (long)calls);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
}
