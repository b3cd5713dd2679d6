/* Token files (.bin): 16 bits a token, little-endian. Those of version 1 begin with 256 int32 (magic, version, how many
 * tokens); nanoGPT's have no head. A row is a window of the input's length, which begins where the one before it ended;
 * NAME=FILE.bin+1 begins one token later: what is to be predicted. */
#include "frontend/cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 1024, MAGIC = 20240520, MAGIC_OF_32_BITS = 20240801, VERSION = 1, LOOKED_AT = 4096, ENOUGH = 256 };

/* Whether every second number of 16 bits is 0, as in tokens of 32 bits, and the others are not. */
static bool looks_of_32_bits(const struct st_file *f)
{
    uint16_t word[LOOKED_AT];
    ssize_t n = pread(f->fd, word, sizeof word, 0) / (ssize_t)sizeof *word;
    bool high = false, differ = false;
    for (ssize_t i = 0; i + 1 < n; i += 2) high |= word[i + 1] != 0, differ |= word[i] != word[0];
    return n >= ENOUGH && differ && !high;
}

/* Where the tokens are, in bytes. */
static int find_tokens(const struct cli *cli, const struct st_file *f, uint64_t *begin, uint64_t *tokens)
{
    struct stat s;
    int32_t head[3] = {0};
    if (fstat(f->fd, &s)) return cli_failed(cli, EXIT_ENVIRONMENT, "%s: %s", f->path, strerror(errno));
    uint64_t size = (uint64_t)s.st_size;
    bool known = pread(f->fd, head, sizeof head, 0) == sizeof head && head[0] == MAGIC;
    *begin = known ? HEAD : 0;
    *tokens = known ? (uint32_t)head[2] : size / 2;
    if (known && head[1] != VERSION)
        return cli_failed(cli, EXIT_WRONG,
                          "%s: version %" PRId32 " of a token file with a head; version 1 (16 bits a token) is read",
                          f->path, head[1]);
    if (known && (size < HEAD || size - HEAD != 2 * *tokens))
        return cli_failed(cli, EXIT_WRONG,
                          "%s: its head says %" PRIu64 " tokens, %" PRIu64 " bytes; behind it are %" PRIu64 " (%s)",
                          f->path, *tokens, 2 * *tokens, size < HEAD ? 0 : size - HEAD,
                          size < HEAD + 2 * *tokens ? "the file is cut off" : "another format, or two files in one");
    if (!known && (head[0] == MAGIC_OF_32_BITS || looks_of_32_bits(f)))
        return cli_failed(
            cli, EXIT_WRONG,
            "%s: its tokens have 32 bits each; files of 16 bits are read (NumPy: a.astype(np.uint16)), or "
            "rows as int32: --data NAME=rows.npy",
            f->path);
    if (!known && size % 2)
        return cli_failed(cli, EXIT_WRONG, "%s: %" PRIu64 " bytes are no tokens of 16 bits each", f->path, size);
    return 0;
}

/* One token more than windows have: the inputs that begin one later have as many rows. */
static int make_tensor(const struct cli *cli, struct st_file *f, const struct step_tensor *input, uint64_t late)
{
    uint64_t begin = 0, tokens = 0, length = 1;
    int code = find_tokens(cli, f, &begin, &tokens);
    if (code) return code;
    if (input->rank < 2 || input->dtype != STEP_I32)
        return cli_failed(cli, EXIT_WRONG, "%s: input \"%s\" takes no tokens: these are int32[batch, length]", f->path,
                          input->name);
    for (int32_t i = 1; i < input->rank; i++) length *= (uint64_t)input->shape[i];
    uint64_t rows = length && tokens > 1 ? (tokens - 1) / length : 0;
    if (late > 1)
        return cli_failed(cli, EXIT_WRONG, "%s+%" PRIu64 ": tokens begin at the first one, or with +1 at the second",
                          f->path, late);
    if (!rows)
        return cli_failed(cli, EXIT_WRONG, "%s: %" PRIu64 " tokens are no window of %" PRIu64 " and the token after it",
                          f->path, tokens, length);
    struct st_tensor *t = f->tensors = calloc(1, sizeof *t);
    if (!t) return cli_failed(cli, EXIT_ENVIRONMENT, "%s: out of memory", f->path);
    *t = (struct st_tensor){.name = input->name,
                            .dtype = STEP_U16,
                            .rank = input->rank,
                            .offset = begin + 2 * late,
                            .bytes = 2 * rows * length};
    for (int32_t i = 1; i < input->rank; i++) t->shape[i] = input->shape[i];
    t->shape[0] = (int64_t)rows;
    f->count = 1;
    return 0;
}

int run_tokens_open(const struct cli *cli, struct st_file *f, const struct step_tensor *input, const char *path,
                    uint64_t late)
{
    *f = (struct st_file){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (f->fd < 0) return cli_failed(cli, EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    int code = make_tensor(cli, f, input, late);
    if (code) st_close(f);
    return code;
}
