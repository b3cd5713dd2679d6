/* Whole files in and out, with messages that name the path and the reason. An output appears complete or not at all. */
#include "frontend/cli/cli.h"
#include <stepc/step_tools.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* object: the limit where the bytes are those of an ELF file. */
static int read_all(struct cli *cli, int fd, const char *path, size_t limit, size_t object, char **text, size_t *length)
{
    size_t capacity = 64 * 1024, n = 0;
    struct stat status = {0};
    bool known = fstat(fd, &status) == 0, device = known && S_ISCHR(status.st_mode) && !isatty(fd);
    if (known && S_ISREG(status.st_mode) && status.st_size >= 0 && (uint64_t)status.st_size < limit)
        capacity = (size_t)status.st_size + 2;
    char *buffer = arena_alloc(cli->arena, capacity);
    for (;;) {
        if (n + 1 == capacity) {
            char *more = arena_alloc(cli->arena, capacity * 2);
            memcpy(more, buffer, n);
            buffer = more;
            capacity *= 2;
        }
        ssize_t got = read(fd, buffer + n, capacity - n - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return cli_failed(cli, EXIT_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
        if (got == 0) break;
        n += (size_t)got;
        if (device) /* one that gives bytes gives them for ever */
            return cli_failed(cli, EXIT_WRONG, "cannot read %s: it is a device, not a file", path);
        if (n > limit && n >= SELFMAG && memcmp(buffer, ELFMAG, SELFMAG) == 0) limit = object;
        if (n > limit)
            return cli_failed(cli, EXIT_WRONG, "%s has more than %zu bytes, which is the limit", path, limit);
    }
    buffer[n] = 0;
    *text = buffer;
    *length = n;
    return 0;
}

int cli_read_either(struct cli *cli, const char *path, size_t limit, size_t object, char **text, size_t *length)
{
    if (strcmp(path, "-") == 0) return read_all(cli, 0, "standard input", limit, object, text, length);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cli_failed(cli, EXIT_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
    int code = read_all(cli, fd, path, limit, object, text, length);
    close(fd);
    return code;
}

int cli_read(struct cli *cli, const char *path, size_t limit, char **text, size_t *length)
{
    return cli_read_either(cli, path, limit, limit, text, length);
}

static int write_all(int fd, const char *text, size_t length)
{
    for (size_t n = 0; n < length;) {
        ssize_t put = write(fd, text + n, length - n);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        n += (size_t)put;
    }
    return 0;
}

int cli_print(struct cli *cli, const char *text, size_t length)
{
    if (!isatty(1)) return cli_print_painted(cli, text, length);
    int code = 0;
    for (size_t n, acts; length && !code; text += n + acts, length -= n + acts) {
        n = cli_harmless(text, length, &acts);
        code = cli_print_painted(cli, text, n);
        if (acts && !code) code = cli_print_painted(cli, text[n] == '\t' ? "\t" : "?", 1);
    }
    return code;
}

int cli_print_painted(struct cli *cli, const char *text, size_t length)
{
    fflush(stdout);
    int error = write_all(1, text, length);
    if (error == EPIPE) return EXIT_ENVIRONMENT; /* `| head`: the reader has what it wants */
    return error ? cli_failed(cli, EXIT_ENVIRONMENT, "cannot write standard output: %s", strerror(error)) : 0;
}

/* like: whose owner and mode the file gets; program: who may read it may execute it. */
static int write_file(struct cli *cli, const char *path, const void *bytes, size_t length, bool program,
                      const struct stat *like)
{
    struct st_output o;
    struct stat status;
    char error[ST_TEXT], ignored[ST_TEXT];
    bool ok = st_output_open(&o, path, error) && st_output_write(&o, bytes, length, error);
    if (ok && !o.direct && program && fstat(o.fd, &status) == 0) {
        mode_t readable = status.st_mode & 0444;
        fchmod(o.fd, (status.st_mode & 0777) | readable >> 2);
    }
    if (ok && like && fchown(o.fd, like->st_uid, like->st_gid) == 0) fchmod(o.fd, like->st_mode & 0777);
    if (ok) ok = st_output_close(&o, true, error);
    else st_output_close(&o, false, ignored);
    return ok ? 0 : cli_failed(cli, EXIT_ENVIRONMENT, "cannot write %s", error);
}

int cli_write(struct cli *cli, const char *path, const char *text, size_t length)
{
    return strcmp(path, "-") == 0 ? cli_print(cli, text, length) : write_file(cli, path, text, length, false, NULL);
}

int cli_write_program(struct cli *cli, const char *path, const void *bytes, size_t length)
{
    return write_file(cli, path, bytes, length, true, NULL);
}

int cli_rewrite(struct cli *cli, const char *path, const char *text, size_t length)
{
    struct stat like;
    char to[PATH_MAX];
    bool may = realpath(path, to) && stat(to, &like) == 0 && access(to, W_OK) == 0;
    return may ? write_file(cli, to, text, length, false, &like)
               : cli_failed(cli, EXIT_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
}
