/* Event files of TensorBoard: records (length and data, each with a masked CRC-32C, as TFRecord has them) of messages
 * `Event` and `Summary` (tensorflow/core/util/event.proto, framework/summary.proto), of which only numbers are used. */
#include "frontend/cli/run.h"
#include "ir/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct run_events {
    FILE *file;
    const char *path;
    uint64_t flushed_ns;
};

/* ---------------------------------------------------------------- messages of protocol buffers */

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void add_varint(struct str *out, uint64_t x)
{
    for (; x >= 128; x >>= 7) str_add_n(out, &(char){(char)(x | 128)}, 1);
    str_add_n(out, &(char){(char)x}, 1);
}

static void add_fixed(struct str *out, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes; i++) str_add_n(out, &(char){(char)(bits >> 8 * i)}, 1);
}

static void add_key(struct str *out, uint32_t field, enum wire wire) { add_varint(out, field << 3 | (uint32_t)wire); }

static void add_bytes(struct str *out, uint32_t field, const char *bytes, size_t n)
{
    add_key(out, field, BYTES);
    add_varint(out, n);
    str_add_n(out, bytes, n);
}

static uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void begin_event(struct str *out, uint64_t step)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    add_key(out, 1, FIXED64); /* wall_time */
    add_fixed(out, double_bits((double)now.tv_sec + (double)now.tv_nsec * 1e-9), 8);
    add_key(out, 2, VARINT); /* step */
    add_varint(out, step);
}

/* ---------------------------------------------------------------- records */

static uint32_t crc32c(const char *bytes, size_t n) /* Castagnoli */
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

static bool add_record(struct run_events *e, struct arena *a, struct str *event, char error[ST_TEXT])
{
    struct str record = STR(a);
    add_fixed(&record, event->length, 8);
    add_fixed(&record, masked(crc32c(record.text, 8)), 4);
    str_add_n(&record, event->text, event->length);
    add_fixed(&record, masked(crc32c(event->text, event->length)), 4);
    bool good = fwrite(record.text, 1, record.length, e->file) == record.length;
    uint64_t now = clock_ns();
    if (good && now - e->flushed_ns > 1000000000u) good = fflush(e->file) == 0, e->flushed_ns = now;
    if (!good) snprintf(error, ST_TEXT, "%s: %s", e->path, strerror(errno));
    return good;
}

struct run_events *run_events_open(struct arena *a, const char *folder, uint64_t first_step, char error[ST_TEXT])
{
    char host[64] = "";
    struct run_events *e = arena_new(a, struct run_events);
    if (gethostname(host, sizeof host - 1)) snprintf(host, sizeof host, "host");
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '-';
    if (mkdir(folder, 0777) && errno != EEXIST) {
        snprintf(error, ST_TEXT, "%s: %s", folder, strerror(errno));
        return NULL;
    }
    int fd = -1;
    for (int number = 0; fd < 0 && (!number || errno == EEXIST); number++) { /* sorted by time, one for each process */
        e->path = arena_format(a, "%s/events.out.tfevents.%lld.%s.%ld.%d.stepc", folder, (long long)time(NULL), host,
                               (long)getpid(), number);
        fd = open(e->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    e->file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!e->file) {
        snprintf(error, ST_TEXT, "%s: %s", e->path, strerror(errno));
        if (fd >= 0) close(fd);
        return NULL;
    }
    struct str event = STR(a);
    begin_event(&event, 0);
    add_bytes(&event, 3, "brain.Event:2", 13); /* file_version */
    bool good = add_record(e, a, &event, error);
    if (good &&
        first_step) { /* what lies behind it in older files is shown, what comes again is not: a session starts */
        event = STR(a);
        begin_event(&event, first_step + 1);
        add_bytes(&event, 7, "\x08\x01", 2); /* session_log {status: START} */
        good = add_record(e, a, &event, error);
    }
    if (good && fflush(e->file)) {
        snprintf(error, ST_TEXT, "%s: %s", e->path, strerror(errno));
        good = false;
    }
    if (good) return e;
    fclose(e->file);
    unlink(e->path);
    return NULL;
}

bool run_events_add(struct run_events *e, struct arena *a, uint64_t step, const struct run_scalar *scalars,
                    uint32_t count, char error[ST_TEXT])
{
    struct str event = STR(a), summary = STR(a);
    for (uint32_t i = 0; i < count; i++) {
        struct str value = STR(a);
        add_bytes(&value, 1, scalars[i].name, strlen(scalars[i].name)); /* tag */
        add_key(&value, 2, FIXED32);                                    /* simple_value */
        add_fixed(&value, float_bits((float)scalars[i].value), 4);
        add_bytes(&summary, 1, value.text, value.length);
    }
    begin_event(&event, step);
    add_bytes(&event, 5, str_text(&summary), summary.length); /* summary */
    return add_record(e, a, &event, error);
}

bool run_events_close(struct run_events *e, char error[ST_TEXT])
{
    if (fclose(e->file) == 0) return true;
    snprintf(error, ST_TEXT, "%s: %s", e->path, strerror(errno));
    return false;
}
