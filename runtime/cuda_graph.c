/* What is launched on a CUDA device. The first time that an entry runs every launch is waited for, so that a kernel
 * that does not work is named. From then on launches are collected until somebody waits: then all of them are one CUDA
 * graph, made when these launches, with these addresses, come for the first time. Comparing what was launched with what
 * a graph holds costs less than launching, and no graph can run with addresses of yesterday. While a trace is written
 * launches are waited for, too. */
#include "runtime/cuda_driver.h"

#include <stdlib.h>
#include <string.h>

enum { FEWEST = 3 /* launches that a graph pays for */, TRIES = 3 /* that the driver may refuse */, THREAD_LOCAL = 1 };

static void launch_failed(struct rt_device *d, int status, const struct rt_cuda_op *op, const char * or)
{
    const struct rt_cuda_device *g = d->handle;
    const struct stepc_cuda *cuda = d->instance->program->cuda;
    const char *name = op->product ? "a product of cuBLASLt" : cuda->kernels[op->kernel].name;
    char why[CUDA_TEXT];
    rt_give_up(d->instance, STEP_EDEVICE, "device %u (cuda:%d): entry \"%s\", %s (%s)%s: %s", d->index, g->ordinal,
               d->instance->entries[d->instance->running].table->name, name, op->launch ? op->launch->place : "/", or,
               status < 0 ? g->products->why(g, status) : rt_cuda_why(&g->host->driver, status, why));
}

/* ---------------------------------------------------------------- lists */

static bool grow(void **items, size_t *room, size_t wanted, size_t item)
{
    if (wanted <= *room) return true;
    void *more = realloc(*items, 2 * wanted * item);
    if (more) *items = more, *room = 2 * wanted;
    return more;
}

static bool list_add(struct rt_cuda_list *l, const struct rt_cuda_op *op, const uint64_t *words)
{
    void *ops = l->ops, *all = l->words;
    bool ok = grow(&ops, &l->op_room, l->op_count + 1, sizeof *l->ops) &&
              grow(&all, &l->word_room, l->word_count + op->count, sizeof *l->words);
    l->ops = ops, l->words = all;
    if (!ok) return false;
    l->ops[l->op_count] = *op;
    l->ops[l->op_count++].first = l->word_count;
    memcpy(l->words + l->word_count, words, op->count * sizeof *words);
    l->word_count += op->count;
    return true;
}

static void list_free(struct rt_cuda_list *l)
{
    free(l->ops);
    free(l->words);
    *l = (struct rt_cuda_list){.ops = NULL};
}

static bool list_same(const struct rt_cuda_list *a, const struct rt_cuda_list *b)
{
    return a->op_count == b->op_count && a->word_count == b->word_count &&
           memcmp(a->ops, b->ops, a->op_count * sizeof *a->ops) == 0 &&
           memcmp(a->words, b->words, a->word_count * sizeof *a->words) == 0;
}

/* ---------------------------------------------------------------- sequences */

/* The words of a launch as a part of a sequence; 0: it is none. */
static uint32_t part_words(const struct rt_device *d, const struct rt_cuda_op *op, const uint64_t *words)
{
    enum { MOST_BLOCKS = 4 /* of a move, which are as many of its loads under way at once */ };
    if (!d->instance->program->cuda->sequences || op->product) return 0;
    if (op->launch) return op->launch->small ? 1 + op->count : 0;
    return op->blocks <= MOST_BLOCKS ? 2 + 3 * (uint32_t)words[0] : 0;
}

/* How many of these launches, from the first one on, are one. */
static size_t joined(const struct rt_device *d, const struct rt_cuda_op *ops, size_t count, const uint64_t *words)
{
    uint32_t all = 1, more;
    size_t n = 0;
    for (; n < count && (more = part_words(d, &ops[n], words + ops[n].first)) > 0; n++) {
        if (all + more > STEPC_CUDA_TABLE_WORDS) break;
        all += more;
    }
    return n ? n : 1;
}

/* table: words of the first parameter if it is one, else 0. */
static int launch_kernel(const struct rt_device *d, int32_t kernel, uint32_t blocks, uint32_t table, uint32_t count,
                         const uint64_t *words)
{
    const struct rt_cuda_device *g = d->handle;
    const struct stepc_cuda_kernel *k = &d->instance->program->cuda->kernels[kernel];
    void *parameters[CUDA_MOST_WORDS]; /* the driver's interface knows no constants */
    uint64_t n = 0;
    for (uint32_t i = 0; i < count; i += i || !table ? 1 : table) parameters[n++] = (void *)(uintptr_t)&words[i];
    return g->host->driver.launch(g->functions[kernel], blocks, 1, 1, k->threads, 1, 1, k->dynamic_bytes, g->stream,
                                  parameters, NULL);
}

static int issue_sequence(const struct rt_device *d, const struct rt_cuda_op *ops, size_t count, const uint64_t *words)
{
    enum { ALL = STEPC_CUDA_TABLE_WORDS };
    uint64_t table[ALL] = {1};
    for (const struct rt_cuda_op *op = ops; op < ops + count; op++) {
        uint32_t more = part_words(d, op, words + op->first);
        table[table[0]] = (uint64_t)op->kernel;
        memcpy(&table[table[0] + 1], words + op->first, (more - 1) * sizeof *words);
        table[0] += more;
    }
    return launch_kernel(d, rt_cuda_mover(d->instance) - 1, 1, ALL, ALL, table);
}

/* Several are a sequence, and so is what is in no image but as a part of them. */
int rt_cuda_issue(const struct rt_device *d, const struct rt_cuda_op *ops, size_t count, const uint64_t *words)
{
    const struct rt_cuda_device *g = d->handle;
    if (ops->product) return g->products->issue(g, ops->product, words + ops->first);
    if (count > 1 || !g->functions[ops->kernel]) return issue_sequence(d, ops, count, words);
    return launch_kernel(d, ops->kernel, ops->blocks, ops->table, ops->count, words + ops->first);
}

/* The pending launches in turn; *failed: the one that was not taken. */
static int issue_all(struct rt_device *d, size_t *failed)
{
    const struct rt_cuda_list *l = &((struct rt_cuda_device *)d->handle)->pending;
    int status = 0;
    for (size_t count; !status && *failed < l->op_count; *failed += status ? 0 : count) {
        count = joined(d, l->ops + *failed, l->op_count - *failed, l->words);
        status = rt_cuda_issue(d, l->ops + *failed, count, l->words);
    }
    return status;
}

/* Are there as many launches as a graph pays for? */
static bool are_many(const struct rt_device *d)
{
    const struct rt_cuda_list *l = &((const struct rt_cuda_device *)d->handle)->pending;
    size_t launches = 0;
    for (size_t i = 0; i < l->op_count && launches < FEWEST; launches++)
        i += joined(d, l->ops + i, l->op_count - i, l->words);
    return launches >= FEWEST;
}

/* ---------------------------------------------------------------- graphs */

static void graph_free(struct rt_cuda_device *g, struct rt_cuda_graph *graph)
{
    if (graph->exec) g->host->driver.exec_destroy(graph->exec);
    list_free(&graph->of);
    *graph = (struct rt_cuda_graph){.exec = NULL};
}

void rt_cuda_graphs_free(struct rt_cuda_device *g)
{
    for (uint32_t i = 0; i < CUDA_GRAPHS; i++) graph_free(g, &g->graphs[i]);
    list_free(&g->pending);
}

static int graph_make(struct rt_device *d, struct rt_cuda_graph *to)
{
    struct rt_cuda_device *g = d->handle;
    const struct rt_cuda_driver *u = &g->host->driver;
    void *graph = NULL;
    size_t at = 0;
    int status = u->capture_begin(g->stream, THREAD_LOCAL);
    if (status) return status;
    status = issue_all(d, &at);
    int ended = u->capture_end(g->stream, &graph);
    if (!status) status = ended;
    if (!status) status = u->graph_instantiate(&to->exec, graph, 0);
    if (graph) u->graph_destroy(graph);
    if (!status) to->of = g->pending, g->pending = (struct rt_cuda_list){.ops = NULL};
    return status;
}

/* That of the pending launches, made if need be in place of the one that was not used for longest; NULL: none. */
static struct rt_cuda_graph *graph_find(struct rt_device *d)
{
    struct rt_cuda_device *g = d->handle;
    struct rt_cuda_graph *oldest = g->graphs;
    char why[CUDA_TEXT];
    for (struct rt_cuda_graph *graph = g->graphs; graph < g->graphs + CUDA_GRAPHS; graph++) {
        if (graph->exec && list_same(&graph->of, &g->pending)) return graph;
        if (graph->used < oldest->used) oldest = graph;
    }
    graph_free(g, oldest);
    int status = graph_make(d, oldest);
    if (!status) return oldest;
    g->refused++; /* as while another thread captures a stream: it may pass */
    rt_log(d->instance, 1, "cuda:%d: kernels are launched one by one%s, the driver makes no graph of them: %s",
           g->ordinal, g->refused < TRIES ? "" : " from now on", rt_cuda_why(&g->host->driver, status, why));
    return NULL;
}

/* Before kernels: the inputs of a posted run that travel on the stream of copies. */
static int inputs_arrive(struct rt_cuda_device *g)
{
    const struct rt_cuda_driver *u = &g->host->driver;
    struct rt_cuda_batch *b = g->posted;
    if (!b || b->ready) return 0;
    int status = u->event_record(b->arrived, g->copies);
    b->ready = true;
    return status ? status : u->stream_wait_event(g->stream, b->arrived, 0);
}

void rt_cuda_flush(struct rt_device *d)
{
    struct rt_cuda_device *g = d->handle;
    size_t at = 0;
    if (!g->pending.op_count) return;
    int late = inputs_arrive(g);
    if (late) rt_cuda_failed(d, late, "waiting for inputs");
    struct rt_cuda_graph *graph = g->refused >= TRIES || !are_many(d) ? NULL : graph_find(d);
    if (graph) {
        graph->used = ++g->clock;
        int status = g->host->driver.graph_launch(graph->exec, g->stream);
        if (status) rt_cuda_failed(d, status, "launching a graph");
    } else {
        int status = issue_all(d, &at);
        if (status && !g->pending.ops[at].launch && at + 1 < g->pending.op_count) at++; /* what is moved before it */
        if (status) launch_failed(d, status, &g->pending.ops[at], " or one before it or launched with it");
    }
    g->pending.op_count = g->pending.word_count = 0;
}

static bool add(struct rt_device *d, const struct rt_cuda_op *op, const uint64_t *words)
{
    struct rt_cuda_device *g = d->handle;
    bool added = list_add(&g->pending, op, words);
    if (!added) rt_give_up(d->instance, STEP_ENOMEM, "no memory for a list of launches");
    return added;
}

void rt_cuda_do(struct rt_device *d, const struct rt_cuda_op *op, const uint64_t *words)
{
    struct rt_cuda_device *g = d->handle;
    struct step_instance *t = d->instance;
    if (atomic_load_explicit(&t->failed, memory_order_relaxed)) return;
    if (g->checked[t->running] && !g->host->check_launches && !t->trace) { /* a trace is of what a launch takes */
        add(d, op, words);
        return;
    }
    rt_cuda_flush(d);
    int status = inputs_arrive(g);
    if (!status) status = rt_cuda_issue(d, op, 1, words);
    if (!status) status = rt_cuda_wait(d);
    if (status) launch_failed(d, status, op, "");
}

void rt_cuda_move(struct rt_device *d, const void *to, const void *from, uint64_t bytes)
{
    enum { EACH = 1 << 12 /* bytes that a block is worth */ };
    const struct rt_cuda_device *g = d->handle;
    const struct rt_cuda_list *l = &g->pending;
    const int32_t kernel = rt_cuda_mover(d->instance);
    struct rt_cuda_op *last = l->op_count ? &l->ops[l->op_count - 1] : NULL;
    if (atomic_load_explicit(&d->instance->failed, memory_order_relaxed)) return;
    bool joins = last && last->kernel == kernel && l->words[last->first] < STEPC_CUDA_MOVES;
    if (!joins) {
        const uint64_t none[STEPC_CUDA_MOVE_WORDS] = {0};
        const struct rt_cuda_op op = {.kernel = kernel, .count = STEPC_CUDA_MOVE_WORDS, .table = STEPC_CUDA_MOVE_WORDS};
        if (!add(d, &op, none)) return;
        last = &l->ops[l->op_count - 1];
    }
    uint64_t *word = l->words + last->first, *piece = word + 1 + 3 * word[0];
    bool goes_on = word[0] && !(bytes & STEPC_CUDA_SETS) && piece[-3] + piece[-1] == (uintptr_t)to &&
                   piece[-2] + piece[-1] == (uintptr_t)from;
    if (goes_on) piece[-1] += bytes;
    else word[0]++, piece[0] = (uintptr_t)to, piece[1] = (uintptr_t)from, piece[2] = bytes;
    uint32_t blocks = (uint32_t)((goes_on ? piece[-1] : bytes & ~STEPC_CUDA_SETS) / EACH) + 1;
    if (blocks > last->blocks) last->blocks = blocks;
}
