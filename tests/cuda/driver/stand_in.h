/* A stand-in for NVIDIA's driver (libcuda.so.1): the part of its interface that the runtime uses, on the CPU, as
 * unforgiving as the interface allows. driver.c and launches.c have the functions, work.c what streams and graphs hold
 * and when it runs, kernels.c the text of a module as functions of this machine.
 *
 *   - Addresses of a device are none of the host: whoever follows one is stopped. Each block of memory stands between
 * two pages that nobody may touch, is filled with NaN, and is never given out again.
 *   - Nothing that is asynchronous happens before somebody waits for it, and then nothing more than he waits for. The
 *     target of a copy holds rubbish until then; a source that changes before the copy is reported.
 *   - Kernels run forwards and backwards (threads of a block and blocks of a grid in the order of their numbers and in
 * the opposite one), and both have to leave the same bytes.
 *   - Shared memory holds no numbers when a block begins.
 *   - An access of several neighbours begins at a multiple of its bytes. A captured stream takes launches alone, of at
 *     most 4 KiB of parameters each; a thread that captures allocates, frees, loads and waits for nothing meanwhile.
 *   - In the child of a fork nothing works of what its parent has begun.
 *   - Handles belong to a context that must be current in the calling thread. What is left when the context goes is
 *     reported.
 *
 * What is wrong is written to standard error, and the process ends with status 86. The environment:
 *   STAND_IN_CACHE       folder of compiled kernels (none: a temporary one)
 *   STAND_IN_DEVICES=1   STAND_IN_CAPABILITY=8.0   STAND_IN_MEMORY=17179869184   STAND_IN_VERSION=13000
 *   STAND_IN_PEERS=1     0: no device reaches the memory of another one
 *   STAND_IN_USED=0      bytes of it that other processes have
 *   STAND_IN_ORDERS=2    1: kernels run forwards only
 *   STAND_IN_COUNTS      a file for how often each function was called, and how many graphs waited at once at most
 *   STAND_IN_TRAFFIC     a file for what kernels ask of memory (../traffic.hpp); of each only a few blocks run, so what
 *                        they make is nothing
 *   STAND_IN_UNDEFINED   kernels stop at what C++ leaves undefined: a GPU faults where an address is no multiple of its
 * bytes, and its compiler takes for granted that nothing else of that happens
 *   STAND_IN_INEXACT     functions are as inexact as CUDA's may be, sums of the matrix unit are cut: what a case's
 *                        tolerance has to allow
 *   STAND_IN_LAUNCHES    a folder for launches with the memory before and after (record.c), of each kernel the first
 *                        STAND_IN_LAUNCHES_EACH=2, in all STAND_IN_LAUNCHES_MOST=268435456 bytes of memory
 *   STAND_IN_EAGER=0     the stream, from 1, that does everything at once, as far as it has to wait for no other
 *   STAND_IN_FAIL        NAME:N:STATUS: the Nth call of that function fails so, of 0 every one; 214 and 700 to 799: and
 * all that follow in the context */
#ifndef STAND_IN_H
#define STAND_IN_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    LAUNCH_FAILED = 719,
    PEER_ACCESS_UNSUPPORTED = 217,
    NOT_READY = 600,
    NOT_YET = -1,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_WRONG_THREAD = 908
};
enum { THREAD_LOCAL = 1, RELAXED = 2 }; /* modes of a capture */
enum { MOST_DEVICES = 16, ADDRESS_BIT = 62 };

struct context {
    int ordinal, retained;
    struct thing *own;          /* its default stream, when somebody has asked for it */
    int failed;                 /* of all that follows */
    bool reaches[MOST_DEVICES]; /* the memory of these */
};
enum kind { BLOCK = 1, PINNED, STREAM, EVENT, MODULE, GRAPH, EXEC };
extern const char *const kind_names[];

struct function {
    const char *name;           /* in the module */
    unsigned parameters, table; /* table: words of the first parameter if it is one; 0: it is a word, as all others */
    unsigned most_shared;       /* that a launch may ask for, if it is more than any may */
    unsigned most_threads;      /* of a block: those that its registers are for */
    int (*launch)(unsigned blocks, unsigned threads, unsigned shared, void **arguments, int backwards);
    uint64_t text;     /* of the module: its hash */
    uint64_t recorded; /* launches */
};
enum op_kind {
    OP_KERNEL,
    OP_SET_BYTES,
    OP_SET_WORDS,
    OP_TO_DEVICE,
    OP_FROM_DEVICE,
    OP_BETWEEN,
    OP_ROWS,
    OP_RECORD,
    OP_WAIT,
    OP_OTHERS, /* work of another library */
    OP_GRAPH
};
struct op {
    struct op *next;
    enum op_kind kind;
    struct function *function;
    unsigned blocks, threads, shared;
    uint64_t *words;        /* parameters */
    char *to, *from, *data; /* data: what a source held */
    uint64_t bytes, value;
    uint64_t rows, from_pitch, to_pitch; /* OP_ROWS, of `bytes` each */
    int (*work)(void *);                 /* OP_OTHERS: 0, a status, or not yet */
    void (*end)(void *), *of;
    struct thing *event, *stream, *exec;
    uint64_t generation;
};
struct ops {
    struct op *first, **last;
};

struct thing {          /* whatever has a handle or an address */
    struct thing *next; /* of those that are there; of one that has gone, the one that followed it then */
    struct thing *gone_before;
    enum kind kind;
    bool gone;
    struct context *context;
    char *data; /* BLOCK, PINNED: as the host of the stand-in sees it */
    size_t bytes;
    struct ops ops;        /* STREAM, GRAPH, EXEC */
    struct thing *capture; /* STREAM: the graph that takes what is launched */
    pthread_t capture_thread;
    int capture_mode;
    bool lost;            /* GRAPH: something was refused while it was captured */
    bool eager, unowned;  /* STREAM; of the context, which nobody destroys */
    struct thing *on;     /* EVENT: recorded there */
    uint64_t asked, done; /* EVENT: records, and those that were run */
    struct function *functions;
    unsigned function_count;
};

extern struct thing *things;
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *setting(const char *name, const char *otherwise);
int capability(void); /* 80: 8.0 */

static inline unsigned function_words(const struct function *f) { return f->parameters + f->table - (f->table != 0); }

/* driver.c: what every function begins and ends with. The lock is held from `begin` to `end`, which give the status. */
#define API __attribute__((visibility("default"))) int
#define BEGIN(name) \
    int status = begin(name, true); \
    if (status) return end(status)
int begin(const char *name, bool context);
int end(int status);
const struct context *current_context(void);
struct thing *make(enum kind);
void end_thing(struct thing *);
struct thing *of(const char *name, void *handle,
                 enum kind); /* NULL, and it is reported: no such thing in the context */
int enqueue(const char *name, void *stream, const struct op *);
bool capturing(const char *name); /* what is refused then: it is reported */

/* work.c */
struct thing *block_of(const struct context *, const void *address, uint64_t bytes); /* NULL: there is none */
char *inside(const void *address);                  /* what the device sees behind an address of it */
struct op *op_add(struct ops *, const struct op *); /* owns its words and data */
void ops_copy(struct ops *to, const struct ops *from);
void ops_free(struct ops *);
/* NULL: all of it. Until that has ended, or, asking only, NOT_READY. */
int drain(struct thing *stream, const struct thing *event, uint64_t generation);
int drain_so_far(struct thing *stream);
void give_way(void); /* driver.c: others may call meanwhile */
int drain_context(const struct context *);

/* record.c: the text of a module; a launch, before and afterwards. NULL: it is not recorded */
struct recorded;
void record_text(uint64_t hash, const char *text);
struct recorded *record_begin(const struct context *, const struct op *);
void record_end(struct recorded *);

/* kernels.c: an error, or 0 */
int module_make(struct thing *module, const char *text, char *log, size_t log_bytes);
#endif
