/* Files that are either complete or not there: written without a name, or under a temporary one in the same directory,
 * and renamed when everything is on the disk. */
#include "runtime/rt.h"

#include <stepc/step_tools.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool output_error(const struct st_output *o, const char *doing, char error[ST_TEXT])
{
    snprintf(error, ST_TEXT, "%s: %s: %s", o->path, doing, strerror(errno));
    return false;
}

/* Characters of the path's directory with its slash. Without strrchr and strdup: every import costs an object 70 bytes.
 */
static int directory_length(const char *path)
{
    size_t n = strlen(path);
    while (n && path[n - 1] != '/') n--;
    return (int)n;
}

/* Names of the directory and of a file in it, for name_beside: that is where it ends, or the process and a number
 * follow. */
static const char folder_name[] = "%.*s.", file_name[] = "%.*s" ST_TEMPORARY "%ld-%lx";

static const char *name_beside(struct st_output *o, const char *format)
{
    snprintf(o->temporary, o->room, format, directory_length(o->path), o->path, (long)syscall(SYS_getpid),
             (unsigned long)rt_now());
    return o->temporary;
}

bool st_is_file_name(const char *path)
{
    size_t n = path ? strlen(path) : 0;
    return n > 12 && strcmp(path + n - 12, ".safetensors") == 0;
}

bool st_output_open(struct st_output *o, const char *path, char error[ST_TEXT])
{
    struct stat s;
    *o = (struct st_output){.fd = -1, .path = path};
    /* A device or a pipe must not be replaced by a file, nor /dev/stdout and /dev/stderr, which may lead to one; a
     * folder cannot be opened. */
    o->direct = !st_call(newfstatat, AT_FDCWD, path, &s, 0) && (!S_ISREG(s.st_mode) || !strncmp(path, "/dev/std", 8));
    if (o->direct) {
        o->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        return o->fd >= 0 || output_error(o, "cannot write", error);
    }
    o->room = strlen(path) + 64;
    if (o->room > PATH_MAX) errno = ENAMETOOLONG; /* now, not when it is to get its name */
    else o->temporary = malloc(o->room);
    if (!o->temporary) return output_error(o, "cannot write", error);
    /* Without a name while it is written, so that nothing stays of a process that is killed. Where the file system
     * cannot, or nothing can be named later (no /proc), with one. */
    if (!st_call(newfstatat, AT_FDCWD, "/proc/self/fd", &s, 0))
        o->fd = open(name_beside(o, folder_name), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    o->nameless = o->fd >= 0;
    if (!o->nameless) o->fd = open(name_beside(o, file_name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (o->fd >= 0) return true;
    output_error(o, "cannot create a file there", error);
    free(o->temporary);
    o->temporary = NULL;
    return false;
}

bool st_put(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t n = write(fd, at, bytes < (size_t)1 << 30 ? bytes : (size_t)1 << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

bool st_sync(int fd) { return !st_call(fsync, fd) || errno == EINVAL || errno == EROFS; }

bool st_output_write(struct st_output *o, const void *data, size_t bytes, char error[ST_TEXT])
{
    o->sum = st_crc32(o->sum, data, bytes);
    return st_put(o->fd, data, bytes) || output_error(o, "write", error);
}

static bool publish(struct st_output *o, char error[ST_TEXT])
{
    char open_file[32];
    if (o->nameless) {
        snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", o->fd);
        if (st_call(linkat, AT_FDCWD, open_file, AT_FDCWD, name_beside(o, file_name), AT_SYMLINK_FOLLOW))
            return output_error(o, "linkat", error);
        o->nameless = false;
    }
    if (st_call(renameat2, AT_FDCWD, o->temporary, AT_FDCWD, o->path, 0)) return output_error(o, "rename", error);
    return o->published = true;
}

bool st_output_publish(struct st_output *o, char error[ST_TEXT])
{
    if (o->direct || o->published) return true;
#ifdef STEPC_IN_OBJECT /* the signals of a host are its own */
    return publish(o, error);
#else /* for the moment between the two names no signal ends the program: the temporary one would stay */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool good = publish(o, error);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return good;
#endif
}

bool st_output_close(struct st_output *o, bool keep, char error[ST_TEXT])
{
    bool ok = o->fd >= 0;
    if (!ok) return true;
    if (keep && !o->direct && !st_sync(o->fd)) ok = output_error(o, "fsync", error);
    if (ok && keep) ok = st_output_publish(o, error);
    if (!o->direct && !o->published && !o->nameless) st_call(unlinkat, AT_FDCWD, o->temporary, 0);
    if (close(o->fd) && ok && keep && !o->published) ok = output_error(o, "close", error); /* else it is on the disk */
    int folder = o->published ? open(name_beside(o, folder_name), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder >= 0) {
        st_call(fsync, folder); /* some file systems cannot; the file itself was synced */
        close(folder);
    }
    free(o->temporary);
    *o = (struct st_output){.fd = -1};
    return ok;
}
