/* Where the time of steps goes: while an instance is traced, every worker notes when it began and ended each command
 * and what it waited for before; the end of the trace writes that as Chrome's trace events, which Perfetto opens. A
 * process of the trace is a device, a thread a worker. Names of kernels come from the manifest. */
#include "runtime/header_scan.h"
#include "runtime/comm_rows.h"

#include <stepc/step_tools.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 10, MOST_ROWS = 1 << 21 /* of a worker, 80 MiB */ };

struct row {
    uint64_t begin, end, step;
    uint32_t command;
    uint8_t what, entry;
};
struct rows {
    struct row *at;
    size_t count, room;
    uint64_t lost;
};
struct rt_trace {
    char *path;
    uint64_t begin;
    bool variable; /* the environment's: one of the host takes its place */
    struct rows workers[];
};

/* ---------------------------------------------------------------- while it runs */

static void note(struct rt_worker *w, enum rt_traced what, uint32_t command, uint64_t begin)
{
    const struct step_instance *t = w->instance;
    struct rows *r = &t->trace->workers[(size_t)(w->device - t->devices) * t->threads + w->index];
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : ROOM;
        struct row *more = room <= MOST_ROWS ? realloc(r->at, room * sizeof *more) : NULL;
        if (!more) {
            r->lost++;
            return;
        }
        r->at = more, r->room = room;
    }
    r->at[r->count++] = (struct row){begin, rt_now(), t->steps + 1, command, (uint8_t)what, (uint8_t)t->running};
}

static void forget(struct step_instance *t)
{
    if (!t->trace) return;
    for (uint32_t k = 0; k < t->worker_count; k++) free(t->trace->workers[k].at);
    free(t->trace->path);
    free(t->trace);
    t->trace = NULL;
}

/* ---------------------------------------------------------------- names */

struct name {
    double kind, ops, place; /* of `texts`; below 0: none */
    bool known;
};
struct names {
    struct name *commands;
    uint32_t command_count, text_count;
    const char **texts;
};

/* A row of the manifest's group_columns: command, kind, ops, count, outputs, place, reason, flops, bytes, times. */
static bool read_group(struct rt_scan *s, struct names *n)
{
    double column[10];
    uint32_t k = 0;
    if (!scan_open(s, '[')) return false;
    while (scan_more(s, ']'))
        if (k == 10 || !scan_number(s, &column[k++])) return false;
    if (k == 10 && column[0] >= 0 && column[0] < n->command_count)
        n->commands[(uint32_t)column[0]] = (struct name){column[1], column[2], column[5], true};
    return !s->fault;
}

static bool read_entry(struct rt_scan *s, struct names *n)
{
    bool step = false;
    if (!scan_open(s, '{')) return false;
    while (scan_more(s, '}')) {
        const char *key = scan_key(s), *name;
        if (!key) return false;
        if (strcmp(key, "name") == 0) {
            if (!(name = scan_string(s))) return false;
            step = strcmp(name, "step") == 0;
        } else if (step && strcmp(key, "groups") == 0) {
            if (!scan_open(s, '[')) return false;
            while (scan_more(s, ']'))
                if (!read_group(s, n)) return false;
        } else if (!scan_skip(s, 64)) return false;
    }
    return !s->fault;
}

static bool read_texts(struct rt_scan *s, struct names *n)
{
    uint32_t room = 0;
    if (!scan_open(s, '[')) return false;
    while (scan_more(s, ']')) {
        if (n->text_count == room) {
            const char **more = realloc(n->texts, (room = 2 * room + 64) * sizeof *more);
            if (!more) return false;
            n->texts = more;
        }
        if (!(n->texts[n->text_count] = scan_string(s))) return false;
        n->text_count++;
    }
    return !s->fault;
}

/* What the manifest does not say stays a number. */
static void read_names(char *manifest, struct names *n)
{
    struct rt_scan s = {.at = manifest, .end = manifest + strlen(manifest)};
    bool good = scan_open(&s, '{');
    while (good && scan_more(&s, '}')) {
        const char *key = scan_key(&s);
        if (key && strcmp(key, "entries") == 0) {
            good = scan_open(&s, '[');
            while (good && scan_more(&s, ']')) good = read_entry(&s, n);
        } else if (key && strcmp(key, "texts") == 0) good = read_texts(&s, n);
        else good = key && scan_skip(&s, 64);
    }
}

static const char *text_at(const struct names *n, double index)
{
    return index >= 0 && index < n->text_count ? n->texts[(uint32_t)index] : "";
}

/* ---------------------------------------------------------------- the file */

static void add_row(struct st_text *out, const struct step_instance *t, const struct rt_device *d, uint32_t worker,
                    const struct row *r, const struct names *n)
{
    static const char categories[][10] =
        {[RT_TRACED_CALL] = "call", [RT_TRACED_COMMAND] = "", [RT_TRACED_WAIT] = "wait"},
                      entries[][10] = {[RT_STEP] = "step", [RT_EVALUATE] = "eval", [RT_INFER] = "infer"};
    const struct stepc_entry *e = t->entries[r->entry].table;
    const struct stepc_command *c = r->what == RT_TRACED_CALL ? NULL : &e->commands[r->command];
    bool waits = c && c->half == STEPC_WAITS;
    if (waits) c = &e->commands[c->other];
    bool comm = c && c->kind == STEPC_COLLECTIVE, step = e == t->entries[RT_STEP].table;
    const struct name *named = step && r->what == RT_TRACED_COMMAND && r->command < n->command_count
                                   ? &n->commands[r->command]
                                   : NULL;
    const char *entry = step                                                                ? entries[RT_STEP]
                        : r->entry < sizeof entries / sizeof *entries && *entries[r->entry] ? entries[r->entry]
                                                                                            : "other";
    uint64_t at = r->begin - t->trace->begin, took = r->end - r->begin;
    st_add(out, ",\n{\"name\":");
    if (!c) st_add_quoted(out, entry);
    else if (r->what == RT_TRACED_WAIT) st_add(out, "\"wait\"");
    else if (comm) st_add(out, "\"%s%s\"", waits ? "end of " : "", rt_comm_kind(c));
    else if (named && named->known) st_add_quoted(out, text_at(n, named->ops));
    else st_add(out, "\"kernel %u\"", r->command);
    st_add(out,
           ",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%llu.%03u,\"dur\":%llu.%03u,\"pid\":%u,\"tid\":%u,\"args\":{\"entry\":"
           "\"%s\",\"step\":%llu",
           r->what != RT_TRACED_COMMAND ? categories[r->what]
           : comm                       ? "collective"
                                        : "kernel",
           (unsigned long long)(at / 1000), (unsigned)(at % 1000), (unsigned long long)(took / 1000),
           (unsigned)(took % 1000), d->index, worker, entry, (unsigned long long)r->step);
    if (c) st_add(out, ",\"command\":%u", r->command);
    if (named && named->known) {
        st_add(out, ",\"kind\":");
        st_add_quoted(out, text_at(n, named->kind));
    }
    const char *place = comm ? c->place : named && named->known ? text_at(n, named->place) : NULL;
    if (place) {
        st_add(out, ",\"place\":");
        st_add_quoted(out, place);
    }
    st_add(out, "}}");
}

static step_status written(struct step_instance *t, const struct names *n)
{
    struct st_output o;
    struct st_text out = {0};
    char error[ST_TEXT], ignored[ST_TEXT];
    uint64_t lost = 0;
    if (!st_output_open(&o, t->trace->path, error)) return rt_fail(t, STEP_EIO, "trace: %s", error);
    st_add(&out,
           "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"name\":\"stepc\",\"ph\":\"M\",\"pid\":0,\"tid\":0}");
    bool good = true;
    for (RT_MINE(t, d)) {
        st_add(&out,
               ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":0,\"args\":{\"name\":\"device %u\"}}",
               d->index, d->index);
        for (uint32_t k = 0; k < t->threads && good; k++) {
            const struct rows *r = &t->trace->workers[(size_t)(d - t->devices) * t->threads + k];
            st_add(&out,
                   ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"worker %u\"}}",
                   d->index, k, k);
            lost += r->lost;
            for (size_t i = 0; i < r->count && good; i++) {
                add_row(&out, t, d, k, &r->at[i], n);
                if (out.length < 1 << 16) continue;
                good = !out.lacking && st_output_write(&o, out.at, out.length, error);
                out.length = 0;
            }
        }
    }
    st_add(&out, "\n],\"otherData\":{\"lost\":%llu}}\n", (unsigned long long)lost);
    if (good && out.lacking) good = false, memcpy(error, "out of memory", 14);
    good = good && st_output_write(&o, out.at, out.length, error);
    good = good ? st_output_close(&o, true, error) : (st_output_close(&o, false, ignored), false);
    free(out.at);
    if (!good) return rt_fail(t, STEP_EIO, "trace: %s", error);
    if (lost)
        rt_log(t, 1, "trace: %s lacks the last %llu commands: no room for more", t->trace->path,
               (unsigned long long)lost);
    return STEP_OK;
}

static step_status stop(struct step_instance *t)
{
    const struct stepc_entry *e = t->entries[RT_STEP].table;
    struct names n = {.command_count = e->command_count};
    if (!t->trace) return STEP_OK;
    const char *manifest = t->program->manifest ? t->program->manifest : "";
    char *copy = malloc(strlen(manifest) + 1);
    n.commands = calloc(n.command_count + 1, sizeof *n.commands);
    step_status status = copy && n.commands ? STEP_OK : rt_fail(t, STEP_ENOMEM, "trace: out of memory");
    if (!status) {
        read_names(memcpy(copy, manifest, strlen(manifest) + 1), &n);
        status = written(t, &n);
    }
    free(n.commands), free(n.texts), free(copy);
    forget(t);
    return status;
}

/* Of the environment's file every rank has one of its own, as of run --trace. */
static char *path_of(const struct step_instance *t, const char *path, bool variable)
{
    size_t n = strlen(path) + 16;
    char *own = malloc(n);
    if (own) snprintf(own, n, variable && t->rank ? "%s.%u" : "%s", path, t->rank);
    return own;
}

static step_status begin(struct step_instance *t, const char *path, bool variable)
{
    struct st_output o;
    char error[ST_TEXT];
    if (t->trace && t->trace->variable) forget(t);
    if (t->trace) return rt_fail(t, STEP_EINVAL, "trace: %s is being traced to", t->trace->path);
    t->trace = calloc(1, sizeof *t->trace + t->worker_count * sizeof *t->trace->workers);
    if (t->trace && !(t->trace->path = path_of(t, path, variable))) forget(t);
    if (!t->trace) return rt_fail(t, STEP_ENOMEM, "trace: out of memory");
    bool good = st_output_open(&o, t->trace->path, error);
    if (!good) return forget(t), rt_fail(t, STEP_EIO, "trace: %s", error);
    st_output_close(&o, false, error);
    t->trace->begin = rt_now(), t->trace->variable = variable;
    return STEP_OK;
}

static void end(struct step_instance *t)
{
    if (stop(t)) rt_log(t, 0, "%s", rt_last_error(NULL));
}

const struct stepc_trace stepc_part_trace = {begin, stop, note, end};
