/* A NumPy file (.npy) as a file of one tensor, whose name the command line gives: x=x.npy. Format 1 to 3 of NumPy's
 * documentation: the magic, two bytes of version, the length of the header, and a Python dictionary as text. */
#include "frontend/cli/run.h"
#include "ir/ir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST = 65536 };

static const char magic[] = "\x93NUMPY";

static int refused(const struct cli *cli, const char *path, const char *why)
{
    return cli_failed(cli, EXIT_WRONG, "%s: %s", path, why);
}

/* The value of a key as it stands in the dictionary, NULL: it is not there. */
static const char *value_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? at + strlen(key) + strspn(at + strlen(key), " :") : NULL;
}

static bool read_dtype(const char *at, uint32_t *dtype)
{
    static const struct {
        const char *name;
        uint32_t dtype;
    } known[] = {{"|b1", STEP_BOOL}, {"|u1", STEP_U8},  {"|i1", STEP_I8},  {"<u2", STEP_U16},
                 {"<i2", STEP_I16},  {"<u4", STEP_U32}, {"<i4", STEP_I32}, {"<u8", STEP_U64},
                 {"<i8", STEP_I64},  {"<f2", STEP_F16}, {"<f4", STEP_F32}, {"<f8", STEP_F64}};
    for (size_t i = 0; at && *at == '\'' && i < sizeof known / sizeof *known; i++)
        if (strncmp(at + 1, known[i].name, 3) == 0 && at[4] == '\'') return *dtype = known[i].dtype, true;
    return false;
}

/* "(3, 4)", "(3,)", "()" */
static bool read_shape(const char *at, struct st_tensor *t)
{
    if (!at || *at++ != '(') return false;
    for (;;) {
        char *end;
        at += strspn(at, " ,");
        if (*at == ')') return true;
        long long n = strtoll(at, &end, 10);
        if (end == at || n < 0 || t->rank == (int32_t)(sizeof t->shape / sizeof *t->shape)) return false;
        t->shape[t->rank++] = n;
        at = end;
    }
}

static uint64_t bytes_of(const struct st_tensor *t)
{
    uint64_t bytes = ir_dtype_bytes(ir_dtype_of_abi(t->dtype));
    for (int32_t i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)t->shape[i], &bytes)) return UINT64_MAX;
    return bytes;
}

int run_npy_read(const struct cli *cli, struct st_file *f, const char *name, uint64_t from, uint64_t to)
{
    unsigned char head[12] = {0};
    ssize_t got = to - from < 10 ? 0 : pread(f->fd, head, sizeof head, (off_t)from);
    if (got < 10 || memcmp(head, magic, 6) != 0)
        return refused(cli, f->path, got < 10 ? "no NumPy file: it is too short" : "no NumPy file");
    size_t begin = head[6] == 1 ? 10 : 12;
    size_t length = head[8] + 256u * head[9] + (head[6] == 1 ? 0 : 65536u * head[10] + ((size_t)head[11] << 24));
    if (length > LONGEST) return refused(cli, f->path, "no NumPy file of numbers: its header is too long");
    struct st_tensor *t = &f->tensors[f->count];
    char *text = arena_alloc(cli->arena, length + 1);
    text[length] = 0;
    if (begin + length > to - from || pread(f->fd, text, length, (off_t)(from + begin)) != (ssize_t)length)
        return refused(cli, f->path, "the file is cut off");
    const char *type = value_of(text, "'descr'");
    if (!read_dtype(type, &t->dtype)) {
        int named = type && *type == '\'' ? 1 + (int)strspn(type + 1, "<>|=0123456789abcfimOSUuV") : 0;
        const char *what = named && type[named] == '\'' ? arena_format(cli->arena, ", %.*s'", named, type) : "";
        return refused(
            cli, f->path,
            arena_format(
                cli->arena,
                "its numbers are of a type that is not supported%s (little-endian integers and floats are, and bool)",
                what));
    }
    const char *order = value_of(text, "'fortran_order'");
    if (!order || strncmp(order, "False", 5) != 0)
        return refused(cli, f->path,
                       "it is stored by columns: np.save(FILE, np.ascontiguousarray(a)) writes it by rows");
    if (!read_shape(value_of(text, "'shape'"), t))
        return refused(cli, f->path, "its shape cannot be read, or has too many dimensions");
    t->name = name;
    t->offset = from + begin + length;
    t->bytes = bytes_of(t);
    if (t->bytes > to - t->offset) return refused(cli, f->path, "the file is cut off");
    if (t->bytes < to - t->offset)
        return refused(cli, f->path, "more follows its array; one is read of each file, or of each member of an .npz");
    f->count++;
    return 0;
}

bool run_is_npy(const char *path)
{
    char head[6];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = fd >= 0 && pread(fd, head, sizeof head, 0) == sizeof head && memcmp(head, magic, sizeof head) == 0;
    if (fd >= 0) close(fd);
    return found;
}

int run_npy_open(const struct cli *cli, struct st_file *f, const char *name, const char *path)
{
    struct stat s;
    *f = (struct st_file){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (f->fd < 0 || fstat(f->fd, &s)) return cli_failed(cli, EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    f->tensors = calloc(1, sizeof *f->tensors);
    int code = f->tensors ? run_npy_read(cli, f, name, 0, (uint64_t)s.st_size)
                          : cli_failed(cli, EXIT_ENVIRONMENT, "%s: out of memory", path);
    if (code) st_close(f);
    return code;
}
