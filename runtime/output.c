/* Files that are either complete or not there: written under a temporary name in the same directory, renamed when
 * everything is on the disk. */
#include <stepc/step_tools.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool output_error(const struct st_output *o, const char *doing, char error[ST_TEXT])
{
    snprintf(error, ST_TEXT, "%s: %s: %s", o->path, doing, strerror(errno));
    return false;
}

/* Characters of the path's directory with its slash. Without strrchr and strdup: every import costs an object 70 bytes.
 */
static size_t directory_length(const char *path)
{
    size_t n = strlen(path);
    while (n && path[n - 1] != '/') n--;
    return n;
}

bool st_output_open(struct st_output *o, const char *path, char error[ST_TEXT])
{
    struct stat s;
    *o = (struct st_output){.fd = -1, .path = path};
    bool there = stat(path, &s) == 0;
    if (there && S_ISDIR(s.st_mode)) {
        errno = EISDIR;
        return output_error(o, "cannot write", error);
    }
    /* A device or a pipe must not be replaced by a file, nor /dev/stdout and /dev/stderr, which may lead to one. */
    o->direct = there && (!S_ISREG(s.st_mode) || !strncmp(path, "/dev/std", 8));
    if (o->direct) {
        o->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        return o->fd >= 0 || output_error(o, "cannot open for writing", error);
    }
    int directory = (int)directory_length(path);
    size_t bytes = strlen(path) + 64;
    if (!(o->temporary = malloc(bytes))) return output_error(o, "cannot write", error);
    for (int tries = 0; o->fd < 0 && tries < 100; tries++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(o->temporary, bytes, "%.*s.tmp-%s-%ld-%lx", directory, path, path + directory, (long)getpid(),
                 (unsigned long)now.tv_nsec);
        o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd < 0 && errno != EEXIST) break;
    }
    if (o->fd >= 0) return true;
    output_error(o, "cannot create a file in its directory", error);
    free(o->temporary);
    o->temporary = NULL;
    return false;
}

bool st_output_write(struct st_output *o, const void *data, size_t bytes, char error[ST_TEXT])
{
    const char *at = data;
    while (bytes) {
        ssize_t n = write(o->fd, at, bytes < (size_t)1 << 30 ? bytes : (size_t)1 << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return output_error(o, "write", error);
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

bool st_output_publish(struct st_output *o, char error[ST_TEXT])
{
    if (!o->temporary) return true;
    if (rename(o->temporary, o->path)) return output_error(o, "rename", error);
    free(o->temporary);
    o->temporary = NULL;
    return true;
}

static void sync_directory(const char *path)
{
    size_t n = directory_length(path);
    char *copy = malloc(n + 2);
    if (copy) memcpy(copy, n ? path : ".", n ? n : 1), copy[n ? n : 1] = 0;
    int fd = copy ? open(copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd); /* some file systems cannot; the file itself was synced */
        close(fd);
    }
    free(copy);
}

bool st_output_close(struct st_output *o, bool keep, char error[ST_TEXT])
{
    bool ok = o->fd >= 0;
    if (!ok) return true;
    if (keep && !o->direct && fsync(o->fd) && errno != EINVAL && errno != EROFS) ok = output_error(o, "fsync", error);
    if (close(o->fd) && ok && keep) ok = output_error(o, "close", error);
    if (o->temporary) {
        if (ok && keep && rename(o->temporary, o->path)) ok = output_error(o, "rename", error);
        if (!ok || !keep) unlink(o->temporary);
        else sync_directory(o->path);
    }
    free(o->temporary);
    *o = (struct st_output){.fd = -1};
    return ok;
}
