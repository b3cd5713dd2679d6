/* What is launched on a CUDA device. The first time that an entry runs every launch is waited for, so that a kernel
 * that does not work is named. From then on launches are collected until somebody waits: then all of them are one CUDA
 * graph, made when these launches, with these addresses, come for the first time. Comparing what was launched with what
 * a graph holds costs less than launching, and no graph can run with addresses of yesterday. While a trace is written
 * launches are waited for, too. */
#include "runtime/cuda_driver.h"

#include <stdlib.h>
#include <string.h>

enum { FEWEST = 3 /* launches that a graph pays for */, THREAD_LOCAL = 1 };

static void launch_failed(struct rt_device *d, int status, const struct rt_cuda_op *op, const char * or)
{
    const struct rt_cuda_device *g = d->handle;
    const struct stepc_cuda *cuda = d->instance->program->cuda;
    const char *name = op->product                  ? "a product of cuBLASLt"
                       : op->kernel == CUDA_COUNTER ? "the counter of a loop"
                                                    : cuda->kernels[op->kernel].name;
    char why[CUDA_TEXT];
    rt_give_up(d->instance, STEP_EDEVICE, "device %u (cuda:%d): entry \"%s\", %s (%s)%s: %s", d->index, g->ordinal,
               d->instance->entries[d->instance->running].table->name, name, op->launch ? op->launch->place : "/", or,
               status < 0 ? g->products->why(g, status) : rt_cuda_why(&g->host->driver, status, why));
}

int rt_cuda_issue(struct rt_device *d, const struct rt_cuda_op *op, uint64_t *words)
{
    struct rt_cuda_device *g = d->handle;
    const struct rt_cuda_driver *u = &g->host->driver;
    if (op->product) return g->products->issue(g, op->product, words);
    if (op->kernel == CUDA_COUNTER) return u->set_words((void *)(uintptr_t)words[0], (unsigned)words[1], 1, g->stream);
    const struct stepc_cuda_kernel *k = &d->instance->program->cuda->kernels[op->kernel];
    void *parameters[CUDA_MOST_WORDS];
    uint64_t n = 0;
    for (uint32_t i = 0; i < op->count; i += i || !op->table ? 1 : op->table) parameters[n++] = &words[i];
    return u->launch(g->functions[op->kernel], op->blocks, 1, 1, k->threads, 1, 1, k->dynamic_bytes, g->stream,
                     parameters, NULL);
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

/* The pending launches one by one; *failed: the one that was not taken. */
static int issue_all(struct rt_device *d, size_t *failed)
{
    struct rt_cuda_device *g = d->handle;
    int status = 0;
    for (size_t i = 0; !status && i < g->pending.op_count; i++) {
        *failed = i;
        status = rt_cuda_issue(d, &g->pending.ops[i], g->pending.words + g->pending.ops[i].first);
    }
    return status;
}

static int graph_make(struct rt_device *d, struct rt_cuda_graph *to)
{
    struct rt_cuda_device *g = d->handle;
    const struct rt_cuda_driver *u = &g->host->driver;
    void *graph = NULL;
    size_t at;
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
    g->no_graphs = true;
    rt_log(d->instance, 1, "cuda:%d: kernels are launched one by one, the driver makes no graph of them: %s",
           g->ordinal, rt_cuda_why(&g->host->driver, status, why));
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
    struct rt_cuda_graph *graph = g->no_graphs || g->pending.op_count < FEWEST ? NULL : graph_find(d);
    if (graph) {
        graph->used = ++g->clock;
        int status = g->host->driver.graph_launch(graph->exec, g->stream);
        if (status) rt_cuda_failed(d, status, "launching a graph");
    } else {
        int status = issue_all(d, &at);
        if (status) launch_failed(d, status, &g->pending.ops[at], " or one before it");
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
    if (!status) status = rt_cuda_issue(d, op, (uint64_t *)(uintptr_t)words);
    if (!status) status = rt_cuda_wait(d);
    if (status) launch_failed(d, status, op, "");
}

void rt_cuda_move(struct rt_device *d, const void *to, const void *from, uint64_t bytes)
{
    enum { EACH = 1 << 12 /* bytes that a block is worth */ };
    const struct rt_cuda_device *g = d->handle;
    const struct rt_cuda_list *l = &g->pending;
    const int32_t kernel = (int32_t)d->instance->program->cuda->kernel_count - 1;
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
    bool goes_on = word[0] && !(bytes & STEPC_CUDA_CLEARS) && piece[-3] + piece[-1] == (uintptr_t)to &&
                   piece[-2] + piece[-1] == (uintptr_t)from;
    if (goes_on) piece[-1] += bytes;
    else word[0]++, piece[0] = (uintptr_t)to, piece[1] = (uintptr_t)from, piece[2] = bytes;
    uint32_t blocks = (uint32_t)((goes_on ? piece[-1] : bytes & ~STEPC_CUDA_CLEARS) / EACH) + 1;
    if (blocks > last->blocks) last->blocks = blocks;
}
