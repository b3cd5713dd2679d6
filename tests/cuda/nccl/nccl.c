/* A stand-in for NCCL (libnccl.so.2) on the stand-in for the driver: the part of its interface that the runtime uses,
 * between processes of this machine. What ranks send are files in a folder that the communicator's id names.
 *
 *   - Work is done in the order of a stream and not before somebody waits for it (../driver/stand_in.h). While a peer
 *     has not come a stream is not ready; it is for ever if the peer is gone, until the communicator is aborted.
 *   - Buffers lie inside of blocks of the device. Ranks that call for different things, counts, dtypes or roots are
 *     reported, and so are communicators that nobody ends.
 *   - Communicators are not blocking: calls say that they are in progress, and another one before that is over is
 *     reported. Sums go from the last rank to the first: nobody relies on their order.
 *
 * STAND_IN_NCCL_FOLDER=/dev/shm; STAND_IN_NCCL_VERSION=21800; STAND_IN_NCCL_COUNTS: a file to which each process adds
 * how often what was called. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { SUCCESS, UNHANDLED, SYSTEM, INTERNAL, INVALID_ARGUMENT, INVALID_USAGE, REMOTE, IN_PROGRESS };
enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECEIVE, KINDS };
static const char *const kinds[KINDS] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                         "ncclBroadcast", "ncclSend",          "ncclRecv"};
enum { MOST_PARTS = 512, FOLDER = 200, PATH = FOLDER + 60, NOT_YET = -1, WRONG = 86, UNIQUE = 128 };

/* The driver's: work in the order of a stream, and what a device sees behind an address of it. */
int stand_in_enqueue(void *stream, int (*work)(void *), void (*end)(void *), void *of);
char *stand_in_place(const void *address, uint64_t bytes, const char *who);

__extension__ typedef _Float16 f16;

struct id {
    char bytes[UNIQUE];
};
struct comm {
    struct comm *next;
    char folder[FOLDER];
    int rank, count, device;
    enum { JOINS, DIVIDES, READY, ENDS } stage;
    bool aborted, gone, wrong;
    unsigned splits, posted;   /* collectives that were called for */
    unsigned kept;             /* the first of those whose file is still there */
    unsigned *sent, *received; /* by peer */
    struct comm *parent;       /* DIVIDES */
    int color, key;
    unsigned split;
};
struct head { /* of a file: what a rank calls for */
    uint32_t kind, dtype, op, root;
    uint64_t count;
};
struct part {
    struct comm *comm;
    struct head head;
    const void *from;
    void *to;
    int peer;
    unsigned number;
    bool posted, done, begins; /* begins: the first collective of its communicator in the group */
};
struct group {
    unsigned count;
    struct part parts[];
};

static struct comm *comms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool wrong;
static _Thread_local int depth;
static _Thread_local struct group *open_group;
static _Thread_local void *group_stream;
static unsigned long counts[KINDS];

static void report(const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "stand-in NCCL: %s\n", text);
    wrong = true;
}

__attribute__((destructor)) static void at_the_end(void)
{
    const char *path = getenv("STAND_IN_NCCL_COUNTS");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    for (int i = 0; file && i < KINDS; i++) fprintf(file, "%s %lu\n", kinds[i], counts[i]);
    if (file) fclose(file);
    for (struct comm *c = comms; c; c = c->next)
        if (!c->gone) report("a communicator of rank %d of %d was left", c->rank, c->count);
    if (wrong) _exit(WRONG);
}

/* ---------------------------------------------------------------- files */

static void path_of(char path[PATH], const struct comm *c, const char *format, ...)
{
    va_list list;
    size_t n = (size_t)snprintf(path, PATH, "%s/", c->folder);
    va_start(list, format);
    vsnprintf(path + n, PATH - n, format, list);
    va_end(list);
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

/* Whole or not there. */
static void put(const char *path, const struct head *head, const void *data, size_t bytes)
{
    char own[PATH + 16];
    snprintf(own, sizeof own, "%s.%d", path, (int)getpid());
    FILE *file = fopen(own, "w");
    bool ok = file && fwrite(head, sizeof *head, 1, file) == 1 && (!bytes || fwrite(data, bytes, 1, file) == 1);
    if (file) ok = fclose(file) == 0 && ok;
    if (!ok || rename(own, path)) report("%s cannot be written", path);
}

static bool get(const char *path, struct head *head, void *data, size_t bytes)
{
    FILE *file = fopen(path, "r");
    bool ok = file && fread(head, sizeof *head, 1, file) == 1 && (!bytes || fread(data, bytes, 1, file) == 1);
    if (file) fclose(file);
    return ok;
}

static void remove_folder(const char *folder)
{
    DIR *d = opendir(folder);
    char path[PATH + 256];
    for (struct dirent *e; d && (e = readdir(d));) {
        if (*e->d_name == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    if (d) closedir(d);
    rmdir(folder);
}

/* ---------------------------------------------------------------- numbers */

static size_t item_of(uint32_t dtype)
{
    static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return dtype < sizeof bytes ? bytes[dtype] : 0;
}

static double number_at(const void *data, uint32_t dtype, size_t i)
{
    uint16_t half = dtype == 6 || dtype == 9 ? ((const uint16_t *)data)[i] : 0;
    uint32_t wide = (uint32_t)half << 16;
    float single;
    f16 f16_value;
    switch (dtype) {
    case 6: return memcpy(&f16_value, &half, 2), (double)f16_value;
    case 7: return (double)((const float *)data)[i];
    case 8: return ((const double *)data)[i];
    default: return memcpy(&single, &wide, 4), (double)single;
    }
}

static void number_put(void *data, uint32_t dtype, size_t i, double x)
{
    float single = (float)x;
    f16 f16_value = (f16)x;
    uint32_t bits;
    if (dtype == 6) memcpy((uint16_t *)data + i, &f16_value, 2);
    else if (dtype == 7) ((float *)data)[i] = single;
    else if (dtype == 8) ((double *)data)[i] = x;
    else {
        memcpy(&bits, &single, 4);
        ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static void integer_combine(char *to, const char *with, uint32_t dtype, uint32_t op, size_t i)
{
    size_t item = item_of(dtype);
    int64_t a = 0, b = 0;
    bool without_sign = dtype & 1; /* all odd numbers of integers */
    memcpy(&a, to + i * item, item), memcpy(&b, with + i * item, item);
    int shift = 64 - 8 * (int)item;
    int64_t x = (int64_t)((uint64_t)a << shift), y = (int64_t)((uint64_t)b << shift);
    bool greater = without_sign ? (uint64_t)x > (uint64_t)y : x > y;
    int64_t r = op == 0 ? (int64_t)((uint64_t)a + (uint64_t)b) : greater == (op == 2) ? a : b;
    memcpy(to + i * item, &r, item);
}

static void combine(char *to, const char *with, uint32_t dtype, uint32_t op, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype < 6) {
            integer_combine(to, with, dtype, op, i);
            continue;
        }
        double a = number_at(to, dtype, i), b = number_at(with, dtype, i);
        bool greater = a > b || b != b; /* the one that is a number */
        number_put(to, dtype, i, op == 0 ? a + b : greater == (op == 2) || b != b ? a : b);
    }
}

/* ---------------------------------------------------------------- communicators */

static struct comm *comm_new(int rank, int count)
{
    struct comm *c = calloc(1, sizeof *c);
    if (!c) abort();
    *c = (struct comm){.rank = rank, .count = count};
    c->sent = calloc((size_t)(count ? count : 1), sizeof *c->sent);
    c->received = calloc((size_t)(count ? count : 1), sizeof *c->received);
    pthread_mutex_lock(&lock);
    c->next = comms, comms = c;
    pthread_mutex_unlock(&lock);
    return c;
}

static bool all_there(const struct comm *c, const char *what, int count)
{
    char path[PATH];
    for (int k = 0; k < count; k++) {
        path_of(path, c, "%s-%d", what, k);
        if (!exists(path)) return false;
    }
    return true;
}

static void say(const struct comm *c, const char *what)
{
    char path[PATH];
    path_of(path, c, "%s-%d", what, c->rank);
    if (!exists(path)) put(path, &(struct head){.count = 0}, NULL, 0);
}

/* Those of the parent that chose the same color, by key. */
static void divide(struct comm *c)
{
    struct comm *p = c->parent;
    char path[PATH], what[40];
    snprintf(what, sizeof what, "split%u", c->split);
    if (!all_there(p, what, p->count)) return;
    c->rank = c->count = 0;
    for (int k = 0; k < p->count; k++) {
        struct head h;
        path_of(path, p, "%s-%d", what, k);
        if (!get(path, &h, NULL, 0) || (int)h.root != c->color) continue;
        c->count++;
        c->rank += (int)h.op < c->key || ((int)h.op == c->key && k < p->rank);
    }
    free(c->sent), free(c->received);
    c->sent = calloc((size_t)c->count, sizeof *c->sent);
    c->received = calloc((size_t)c->count, sizeof *c->received);
    snprintf(c->folder, sizeof c->folder, "%.150s-s%uc%d", p->folder, c->split, c->color);
    mkdir(c->folder, 0700);
    c->stage = JOINS;
}

static int progress(struct comm *c)
{
    if (c->wrong) return INVALID_USAGE;
    if (c->stage == DIVIDES) divide(c);
    if (c->stage == JOINS) {
        say(c, "hello");
        if (all_there(c, "hello", c->count)) c->stage = READY;
    }
    return c->stage == READY || c->stage == ENDS ? SUCCESS : IN_PROGRESS;
}

API const char *ncclGetErrorString(int status)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return status >= 0 && status <= IN_PROGRESS ? texts[status] : "unknown result code";
}

API const char *ncclGetLastError(struct comm *c) { return c && c->wrong ? "as the stand-in said" : ""; }

API int ncclGetVersion(int *version)
{
    const char *value = getenv("STAND_IN_NCCL_VERSION");
    *version = value && *value ? atoi(value) : 21800;
    return SUCCESS;
}

API int ncclGetUniqueId(struct id *id)
{
    const char *folder = getenv("STAND_IN_NCCL_FOLDER");
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "%s/stepc-nccl-XXXXXX",
             folder && *folder    ? folder
             : exists("/dev/shm") ? "/dev/shm"
                                  : "/tmp");
    return mkdtemp(id->bytes) ? SUCCESS : SYSTEM;
}

struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

API int ncclCommInitRankConfig(struct comm **comm, int count, struct id id, int rank, const struct config *config)
{
    if (!config || config->magic != 0xcafebeefu || config->size < 48 || config->blocking != 0 || rank < 0 ||
        rank >= count) {
        report("ncclCommInitRankConfig: a wrong configuration");
        return INVALID_ARGUMENT;
    }
    struct comm *c = *comm = comm_new(rank, count);
    snprintf(c->folder, sizeof c->folder, "%s", id.bytes);
    c->stage = JOINS;
    say(c, "hello");
    return IN_PROGRESS;
}

API int ncclCommSplit(struct comm *parent, int color, int key, struct comm **comm, const struct config *config)
{
    char path[PATH];
    if (parent->stage != READY || config) {
        report("ncclCommSplit: the communicator is not ready");
        return INVALID_USAGE;
    }
    struct comm *c = *comm = comm_new(0, 0);
    c->parent = parent, c->color = color, c->key = key, c->stage = DIVIDES, c->split = parent->splits++;
    path_of(path, parent, "split%u-%d", c->split, parent->rank);
    put(path, &(struct head){.root = (uint32_t)color, .op = (uint32_t)key}, NULL, 0);
    return IN_PROGRESS;
}

API int ncclCommGetAsyncError(struct comm *c, int *state)
{
    for (struct comm *other = comms; other; other = other->next) /* it has threads of its own for that */
        if (!other->gone && other->stage < READY) progress(other);
    *state = progress(c);
    return SUCCESS;
}

API int ncclCommFinalize(struct comm *c)
{
    if (c->stage != READY) report("ncclCommFinalize: the communicator is not ready");
    c->stage = ENDS;
    return IN_PROGRESS;
}

static void end_of(struct comm *c)
{
    c->gone = true;
    if (c->stage < JOINS || !*c->folder) return;
    say(c, "bye");
    if (all_there(c, "bye", c->count)) remove_folder(c->folder);
}

API int ncclCommDestroy(struct comm *c)
{
    if (c->gone) report("ncclCommDestroy: it was ended before");
    if (c->stage != ENDS) report("ncclCommDestroy before ncclCommFinalize");
    end_of(c);
    return SUCCESS;
}

API int ncclCommAbort(struct comm *c)
{
    if (c->gone) report("ncclCommAbort: it was ended before");
    c->aborted = true;
    end_of(c);
    return SUCCESS;
}

API int ncclCommCount(const struct comm *c, int *count) { return *count = c->count, SUCCESS; }
API int ncclCommUserRank(const struct comm *c, int *rank) { return *rank = c->rank, SUCCESS; }
API int ncclCommCuDevice(const struct comm *c, int *device) { return *device = c->device, SUCCESS; }

/* ---------------------------------------------------------------- work */

static size_t sent_count(const struct part *p)
{
    if (p->head.kind == BROADCAST && (int)p->head.root != p->comm->rank) return 0;
    return p->head.count * (p->head.kind == REDUCE_SCATTER ? (size_t)p->comm->count : 1);
}

static size_t taken_count(const struct part *p)
{
    return p->head.count * (p->head.kind == ALL_GATHER ? (size_t)p->comm->count : 1);
}

static bool fits(struct part *p, const struct head *other, int rank)
{
    const struct head *own = &p->head;
    bool pair = own->kind == RECEIVE;
    if ((pair || own->kind == other->kind) && own->count == other->count && own->dtype == other->dtype &&
        (pair || (own->op == other->op && own->root == other->root)))
        return true;
    report("rank %d calls %s of %llu elements of type %u, rank %d %s of %llu of type %u", p->comm->rank,
           kinds[own->kind], (unsigned long long)own->count, own->dtype, rank,
           other->kind < KINDS ? kinds[other->kind] : "?", (unsigned long long)other->count, other->dtype);
    p->comm->wrong = true;
    return false;
}

/* 0, NOT_YET, or a status of the driver. */
static int take_pair(struct part *p)
{
    char path[PATH];
    struct head h;
    size_t bytes = p->head.count * item_of(p->head.dtype);
    path_of(path, p->comm, "p%d-%d-%u", p->peer, p->comm->rank, p->number);
    if (!get(path, &h, NULL, 0)) return NOT_YET;
    char *to = stand_in_place(p->to, bytes, kinds[p->head.kind]);
    if (!to || !fits(p, &h, p->peer) || !get(path, &h, to, bytes)) return 719;
    unlink(path);
    return 0;
}

static int take_all(struct part *p)
{
    struct comm *c = p->comm;
    char path[PATH], what[40];
    size_t item = item_of(p->head.dtype), count = p->head.count, all = count * (size_t)c->count;
    snprintf(what, sizeof what, "c%u", p->number);
    if (!all_there(c, what, c->count)) return NOT_YET;
    char *to = stand_in_place(p->to, taken_count(p) * item, kinds[p->head.kind]);
    char *room = to ? malloc(all * item + 1) : NULL;
    for (int k = c->count - 1; room && k >= 0; k--) { /* from the last one on */
        struct head h;
        struct part of = *p;
        struct comm other = *c;
        other.rank = k, of.comm = &other;
        path_of(path, c, "c%u-%d", p->number, k);
        if (!get(path, &h, NULL, 0) || !fits(p, &h, k) || !get(path, &h, room, sent_count(&of) * item)) {
            free(room);
            return 719;
        }
        const char *mine = room + (p->head.kind == REDUCE_SCATTER ? (size_t)c->rank * count * item : 0);
        if (p->head.kind == ALL_GATHER) memcpy(to + (size_t)k * count * item, room, count * item);
        else if (p->head.kind == BROADCAST) {
            if (k == (int)p->head.root) memcpy(to, room, count * item);
        } else if (k == c->count - 1) memcpy(to, mine, count * item);
        else combine(to, mine, p->head.dtype, p->head.op, count);
    }
    free(room);
    if (!to) return 700;
    for (; p->begins && c->kept < p->number; c->kept++) { /* all have come here, so all have done the groups before */
        path_of(path, c, "c%u-%d", c->kept, c->rank);
        unlink(path);
    }
    return 0;
}

static int post(struct part *p)
{
    char path[PATH];
    size_t bytes = sent_count(p) * item_of(p->head.dtype);
    const char *from = bytes ? stand_in_place(p->from, bytes, kinds[p->head.kind]) : "";
    if (!from) return 700;
    if (p->head.kind == SEND) path_of(path, p->comm, "p%d-%d-%u", p->comm->rank, p->peer, p->number);
    else path_of(path, p->comm, "c%u-%d", p->number, p->comm->rank);
    put(path, &p->head, from, bytes);
    p->posted = true;
    return 0;
}

static int work(void *of)
{
    struct group *g = of;
    int result = 0;
    for (unsigned i = 0; i < g->count; i++) {
        struct part *p = &g->parts[i];
        int status = p->done || p->posted || p->comm->aborted || p->head.kind == RECEIVE ? 0 : post(p);
        if (status) return status;
    }
    for (unsigned i = 0; i < g->count; i++) {
        struct part *p = &g->parts[i];
        if (p->done || p->comm->aborted || p->head.kind == SEND) continue;
        int status = p->head.kind == RECEIVE ? take_pair(p) : take_all(p);
        p->done = !status;
        if (status > 0) return status;
        if (status) result = NOT_YET;
    }
    return result;
}

static int give(struct group *g, void *stream)
{
    int status = g->count ? stand_in_enqueue(stream, work, free, g) : 0;
    if (!g->count) free(g);
    return status ? UNHANDLED : SUCCESS;
}

static int call(struct comm *c, struct part part, void *stream)
{
    if (c->gone || progress(c) != SUCCESS || c->stage != READY) {
        report("%s: the communicator is not ready", kinds[part.head.kind]);
        return INVALID_USAGE;
    }
    if (!item_of(part.head.dtype)) return INVALID_ARGUMENT;
    __atomic_fetch_add(&counts[part.head.kind], 1, __ATOMIC_RELAXED);
    part.comm = c;
    part.number = part.head.kind == SEND      ? c->sent[part.peer]++
                  : part.head.kind == RECEIVE ? c->received[part.peer]++
                                              : c->posted++;
    struct group *g = depth ? open_group : malloc(sizeof *g + sizeof *g->parts);
    if (!g) abort();
    if (!depth) g->count = 0;
    if (g->count == MOST_PARTS || (g->count && group_stream != stream)) {
        report("%s: a group that the stand-in does not take", kinds[part.head.kind]);
        return INVALID_USAGE;
    }
    part.begins = true;
    for (unsigned i = 0; i < g->count; i++)
        if (g->parts[i].comm == c && g->parts[i].head.kind != SEND && g->parts[i].head.kind != RECEIVE)
            part.begins = false;
    g->parts[g->count++] = part;
    group_stream = stream;
    return depth ? SUCCESS : give(g, stream);
}

API int ncclGroupStart(void)
{
    if (depth++) return SUCCESS;
    open_group = malloc(sizeof *open_group + MOST_PARTS * sizeof *open_group->parts);
    if (!open_group) abort();
    open_group->count = 0;
    return SUCCESS;
}

API int ncclGroupEnd(void)
{
    if (!depth) return INVALID_USAGE;
    return --depth ? SUCCESS : give(open_group, group_stream);
}

#define HEAD(kind, dtype, op, root, count) \
    { \
        kind, (uint32_t)(dtype), (uint32_t)(op), (uint32_t)(root), count \
    }

API int ncclAllReduce(const void *from, void *to, size_t count, int dtype, int op, struct comm *c, void *stream)
{
    return call(c, (struct part){.head = HEAD(ALL_REDUCE, dtype, op, 0, count), .from = from, .to = to}, stream);
}

API int ncclReduceScatter(const void *from, void *to, size_t count, int dtype, int op, struct comm *c, void *stream)
{
    return call(c, (struct part){.head = HEAD(REDUCE_SCATTER, dtype, op, 0, count), .from = from, .to = to}, stream);
}

API int ncclAllGather(const void *from, void *to, size_t count, int dtype, struct comm *c, void *stream)
{
    return call(c, (struct part){.head = HEAD(ALL_GATHER, dtype, 0, 0, count), .from = from, .to = to}, stream);
}

API int ncclBroadcast(const void *from, void *to, size_t count, int dtype, int root, struct comm *c, void *stream)
{
    return call(c, (struct part){.head = HEAD(BROADCAST, dtype, 0, root, count), .from = from, .to = to}, stream);
}

API int ncclSend(const void *from, size_t count, int dtype, int peer, struct comm *c, void *stream)
{
    return call(c, (struct part){.head = HEAD(SEND, dtype, 0, 0, count), .from = from, .peer = peer}, stream);
}

API int ncclRecv(void *to, size_t count, int dtype, int peer, struct comm *c, void *stream)
{
    return call(c, (struct part){.head = HEAD(RECEIVE, dtype, 0, 0, count), .to = to, .peer = peer}, stream);
}
