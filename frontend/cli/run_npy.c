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

static int read_header(const struct cli *cli, struct st_file *f, const char *name)
{
    unsigned char head[12] = {0};
    struct stat s;
    if (fstat(f->fd, &s) || pread(f->fd, head, sizeof head, 0) < 10)
        return refused(cli, f->path, "no NumPy file: it is too short");
    size_t begin = head[6] == 1 ? 10 : 12;
    size_t length = head[8] + 256u * head[9] + (head[6] == 1 ? 0 : 65536u * head[10] + ((size_t)head[11] << 24));
    if (length > LONGEST) return refused(cli, f->path, "no NumPy file of numbers: its header is too long");
    struct st_tensor *t = f->tensors = calloc(1, sizeof *t);
    f->text = calloc(1, length + 1 + strlen(name) + 1);
    if (!t || !f->text) return cli_failed(cli, EXIT_ENVIRONMENT, "%s: out of memory", f->path);
    if (pread(f->fd, f->text, length, (off_t)begin) != (ssize_t)length)
        return refused(cli, f->path, "the file is cut off");
    if (!read_dtype(value_of(f->text, "'descr'"), &t->dtype))
        return refused(cli, f->path,
                       "its numbers are of a type that is not supported (little-endian ones and bool are)");
    const char *order = value_of(f->text, "'fortran_order'");
    if (!order || strncmp(order, "False", 5) != 0)
        return refused(cli, f->path,
                       "it is stored by columns: np.save(FILE, np.ascontiguousarray(a)) writes it by rows");
    if (!read_shape(value_of(f->text, "'shape'"), t))
        return refused(cli, f->path, "its shape cannot be read, or has too many dimensions");
    t->name = memcpy(f->text + length + 1, name, strlen(name) + 1);
    t->offset = begin + length;
    t->bytes = bytes_of(t);
    f->count = 1;
    if (t->bytes > (uint64_t)s.st_size - t->offset || (uint64_t)s.st_size < t->offset)
        return refused(cli, f->path, "the file is cut off");
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
    *f = (struct st_file){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (f->fd < 0) return cli_failed(cli, EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    int code = read_header(cli, f, name);
    if (code) st_close(f);
    return code;
}
