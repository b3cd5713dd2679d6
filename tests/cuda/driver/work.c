/* What streams and graphs hold, and running it: when somebody waits, as far as he waits, and never sooner. */
#include "stand_in.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>

/* ---------------------------------------------------------------- addresses */

char *inside(const void *address) { return (char *)((uintptr_t)address & ~((uintptr_t)1 << ADDRESS_BIT)); }

struct thing *block_of(const struct context *c, const void *address, uint64_t bytes)
{
    const char *at = inside(address);
    if (at == address) return NULL; /* of the host */
    for (struct thing *b = things; b; b = b->next)
        if (b->kind == BLOCK && !b->gone && (!c || b->context == c || c->reaches[b->context->ordinal]) &&
            at >= b->data && at <= b->data + b->bytes && bytes <= (uint64_t)(b->data + b->bytes - at))
            return b;
    return NULL;
}

/* ---------------------------------------------------------------- lists */

struct op *op_add(struct ops *list, const struct op *from)
{
    struct op *op = malloc(sizeof *op);
    if (!op) abort();
    *op = *from;
    op->next = NULL;
    if (!list->first) list->last = &list->first;
    *list->last = op;
    list->last = &op->next;
    return op;
}

static void *copied(const void *from, size_t bytes)
{
    void *to = from ? malloc(bytes + 1) : NULL;
    if (from && !to) abort();
    return from ? memcpy(to, from, bytes) : NULL;
}

void ops_copy(struct ops *to, const struct ops *from)
{
    for (const struct op *op = from->first; op; op = op->next) {
        struct op *own = op_add(to, op);
        own->words = copied(op->words, op->function ? function_words(op->function) * sizeof *op->words : 0);
        own->data = copied(op->data, op->bytes);
    }
}

static void op_free(struct op *op)
{
    if (op->end) op->end(op->of);
    free(op->words);
    free(op->data);
    free(op);
}

void ops_free(struct ops *list)
{
    for (struct op *op = list->first, *next; op; op = next) {
        next = op->next;
        op_free(op);
    }
    *list = (struct ops){NULL, NULL};
}

/* ---------------------------------------------------------------- kernels */

enum { DISAGREES = 1, OUTSIDE, WRONG, UNDEFINED };
static sigjmp_buf back;
static void *volatile touched;

static void caught(int number, siginfo_t *info, void *machine)
{
    (void)machine;
    touched = info->si_addr;
    siglongjmp(back, number == SIGILL ? UNDEFINED : OUTSIDE);
}

/* 0; DISAGREES: threads do, about a barrier; OUTSIDE: it touched what is not its own; WRONG: something else that a GPU
 * leaves undefined; UNDEFINED: that C++ does. */
static int run_once(const struct op *op, void **arguments, bool backwards)
{
    static char stack[1 << 16];
    struct sigaction segv, bus, ill, catch = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t old, own = {.ss_sp = stack, .ss_size = sizeof stack};
    unsigned control = _mm_getcsr();
    volatile int result = 0;
    sigaltstack(&own, &old);
    sigaction(SIGSEGV, &catch, &segv);
    sigaction(SIGBUS, &catch, &bus);
    sigaction(SIGILL, &catch, &ill);
    _mm_setcsr(0x1f80); /* a GPU keeps denormals */
    result = sigsetjmp(back, 1);
    if (!result) {
        int status = op->function->launch(op->blocks, op->threads, op->shared, arguments, backwards);
        result = status == -2 ? WRONG : status ? DISAGREES : 0;
    }
    _mm_setcsr(control);
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    sigaction(SIGILL, &ill, NULL);
    if (!(old.ss_flags & SS_DISABLE)) sigaltstack(&old, NULL);
    else sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    return result;
}

enum { MOST_BLOCKS = 512 };
struct touched_blocks {
    struct thing *block[MOST_BLOCKS];
    char *before[MOST_BLOCKS], *after[MOST_BLOCKS];
    unsigned count;
};

static void add_block(struct touched_blocks *t, struct thing *block)
{
    for (unsigned i = 0; i < t->count; i++)
        if (t->block[i] == block) return;
    if (t->count == MOST_BLOCKS) return;
    t->block[t->count] = block;
    t->before[t->count++] = copied(block->data, block->bytes);
}

/* traffic.hpp goes on, which knows the kernel by its hash. */
static void tell_name(const char *path, const char *name)
{
    FILE *file = fopen(path, "a");
    if (!file) return;
    fprintf(file, "kernel %s\n", name);
    fclose(file);
}

static int run_kernel(struct context *c, const struct op *op)
{
    const struct function *f = op->function;
    unsigned words = function_words(f);
    void **inside_words = calloc(words + 1, sizeof *inside_words);
    void **arguments = calloc(f->parameters + 1, sizeof *arguments);
    struct touched_blocks t = {.count = 0};
    const char *traffic = setting("STAND_IN_TRAFFIC", "");
    bool twice = strcmp(setting("STAND_IN_ORDERS", "2"), "1") != 0 && !*traffic;
    int result = 0;
    for (unsigned i = 0; i < words; i++) {
        const void *at = (const void *)(uintptr_t)op->words[i];
        struct thing *block = op->words[i] >> ADDRESS_BIT & 1 && !(op->words[i] >> 63) ? block_of(c, at, 0) : NULL;
        if (!block && op->words[i] >> ADDRESS_BIT & 1 && !(op->words[i] >> 63)) {
            report("%s: parameter %u is no address of a block of device %d that is still there", f->name, i,
                   c->ordinal);
            result = OUTSIDE;
        }
        inside_words[i] = block ? inside(at) : (void *)(uintptr_t)op->words[i];
        if (block && twice) add_block(&t, block);
    }
    for (unsigned i = 0; i < f->parameters; i++)
        arguments[i] = !f->table ? inside_words[i] : i ? inside_words[f->table + i - 1] : inside_words;
    if (*traffic) tell_name(traffic, f->name);
    struct recorded *recorded = result ? NULL : record_begin(c, op);
    if (!result) result = run_once(op, arguments, false);
    if (result == OUTSIDE) report("%s: it touches %p, which is outside of every block", f->name, touched);
    if (!result && twice) {
        for (unsigned i = 0; i < t.count; i++) {
            t.after[i] = copied(t.block[i]->data, t.block[i]->bytes);
            memcpy(t.block[i]->data, t.before[i], t.block[i]->bytes);
        }
        result = run_once(op, arguments, true);
        for (unsigned i = 0; !result && i < t.count; i++)
            for (size_t k = 0; k < t.block[i]->bytes; k++)
                if (t.block[i]->data[k] != t.after[i][k]) {
                    report("%s: what it leaves depends on the order of its threads: byte %zu of a block of %zu",
                           f->name, k, t.block[i]->bytes);
                    break;
                }
    }
    record_end(recorded);
    if (result == DISAGREES) report("%s: threads of a block disagree about a barrier", f->name);
    if (result == WRONG) report("%s: it does what a GPU leaves undefined (above)", f->name);
    if (result == UNDEFINED)
        report(
            "%s: it does what C++ leaves undefined: an address that is no multiple of its bytes, an index outside of "
            "an array, a number that its type has not",
            f->name);
    for (unsigned i = 0; i < t.count; i++) free(t.before[i]), free(t.after[i]);
    free(arguments);
    free(inside_words);
    return result == OUTSIDE ? ILLEGAL_ADDRESS : result ? LAUNCH_FAILED : SUCCESS;
}

/* ---------------------------------------------------------------- running */

static int check(struct context *c, const char *what, const void *at, uint64_t bytes)
{
    struct thing *block = block_of(c, at, bytes);
    if (!block)
        report("%s: %llu bytes at %p are not inside of a block of device %d", what, (unsigned long long)bytes, at,
               c->ordinal);
    return block ? SUCCESS : ILLEGAL_ADDRESS;
}

static int go_on(struct thing *stream, const struct thing *event, uint64_t generation);

static int run_op(struct context *c, const struct op *op)
{
    int status = SUCCESS;
    switch (op->kind) {
    case OP_KERNEL: return run_kernel(c, op);
    case OP_SET_BYTES:
        status = check(c, "memset", op->to, op->bytes);
        if (!status) memset(inside(op->to), (int)op->value, op->bytes);
        return status;
    case OP_SET_WORDS:
        status = check(c, "memset of words", op->to, op->bytes);
        for (uint64_t i = 0; !status && i < op->bytes / 4; i++) memcpy(inside(op->to) + 4 * i, &op->value, 4);
        return status;
    case OP_TO_DEVICE:
        status = check(c, "copy to the device", op->to, op->bytes);
        if (op->from && memcmp(op->from, op->data, op->bytes) != 0)
            report("copy to the device: its source at %p changed before the copy had ended", (void *)op->from);
        if (!status) memcpy(inside(op->to), op->data, op->bytes);
        return status;
    case OP_FROM_DEVICE:
        status = check(c, "copy from the device", op->from, op->bytes);
        if (!status) memcpy(op->to, inside(op->from), op->bytes);
        return status;
    case OP_BETWEEN:
        status = check(c, "copy between devices", op->to, op->bytes);
        if (!block_of(NULL, op->from, op->bytes)) status = check(c, "copy between devices", op->from, op->bytes);
        if (op->to != op->from && op->to < op->from + op->bytes && op->from < op->to + op->bytes)
            report("copy between devices: %llu bytes from %p to %p, which overlap", (unsigned long long)op->bytes,
                   (void *)op->from, (void *)op->to);
        if (!status) memmove(inside(op->to), inside(op->from), op->bytes);
        return status;
    case OP_ROWS:
        status = check(c, "copy of rows", op->to, (op->rows - 1) * op->to_pitch + op->bytes);
        if (!status) status = check(c, "copy of rows", op->from, (op->rows - 1) * op->from_pitch + op->bytes);
        for (uint64_t i = 0; !status && i < op->rows; i++)
            memmove(inside(op->to) + i * op->to_pitch, inside(op->from) + i * op->from_pitch, op->bytes);
        return status;
    case OP_RECORD:
        op->event->done = op->generation > op->event->done ? op->generation : op->event->done;
        return SUCCESS;
    case OP_WAIT: return op->event->done < op->generation ? go_on(op->event->on, op->event, op->generation) : SUCCESS;
    case OP_OTHERS: status = op->work(op->of); return status == NOT_YET ? NOT_READY : status;
    case OP_GRAPH:
        if (op->exec->gone) report("a graph was destroyed before it had run");
        for (const struct op *one = op->exec->ops.first; one && !status; one = one->next) status = run_op(c, one);
        return status;
    }
    return status;
}

/* As far as it goes; what is not ready stays the first of its stream. */
static int go_on(struct thing *stream, const struct thing *event, uint64_t generation)
{
    struct context *c = stream->context;
    while (stream->ops.first && !c->failed && !(event && event->done >= generation)) {
        struct op *op = stream->ops.first;
        int status = run_op(c, op);
        if (status == NOT_READY) return NOT_READY;
        stream->ops.first = op->next;
        if (!stream->ops.first) stream->ops.last = &stream->ops.first;
        op_free(op);
        if (status) c->failed = status; /* nothing in this context works any more */
    }
    return c->failed;
}

int drain(struct thing *stream, const struct thing *event, uint64_t generation)
{
    int status;
    while ((status = go_on(stream, event, generation)) == NOT_READY) give_way();
    return status;
}

int drain_so_far(struct thing *stream) { return go_on(stream, NULL, 0); }

int drain_context(const struct context *c)
{
    for (struct thing *s = things; s; s = s->next)
        if (s->kind == STREAM && !s->gone && s->context == c) drain(s, NULL, 0);
    return c->failed;
}
