/* Launches as files (STAND_IN_LAUNCHES), so that others may carry them out again and compare: ../ptx.py does with the
 * PTX of the same text. A file is lines of words, an empty one, and bytes: of each block of memory what it held before
 * the launch, and, if it has changed, afterwards. The text of a module is a file of its own. */
#include "stand_in.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BLOCKS = 512, PATH = 600 };

struct recorded {
    const struct op *op;
    unsigned count;
    struct {
        const struct thing *block;
        char *before;
    } blocks[MOST_BLOCKS];
};

static uint64_t number(const char *name, const char *otherwise) { return strtoull(setting(name, otherwise), NULL, 10); }

void record_text(uint64_t hash, const char *text)
{
    char path[PATH];
    const char *folder = setting("STAND_IN_LAUNCHES", "");
    if (!*folder) return;
    snprintf(path, sizeof path, "%s/%016llx.cu", folder, (unsigned long long)hash);
    FILE *file = fopen(path, "w");
    if (!file) report("%s: %s", path, strerror(errno));
    bool lost = file && fputs(text, file) < 0;
    if (file && (fclose(file) || lost)) report("%s: not written", path);
}

static bool is_reached(const struct thing *t, const struct context *c)
{
    return !t->gone &&
           (t->kind == PINNED || (t->kind == BLOCK && (t->context == c || c->reaches[t->context->ordinal])));
}

struct recorded *record_begin(const struct context *c, const struct op *op)
{
    static uint64_t written;
    if (!*setting("STAND_IN_LAUNCHES", "")) return NULL;
    uint64_t bytes = 0, each = number("STAND_IN_LAUNCHES_EACH", "2"),
             most = number("STAND_IN_LAUNCHES_MOST", "268435456");
    for (const struct thing *t = things; t; t = t->next) bytes += is_reached(t, c) ? t->bytes : 0;
    if (op->function->recorded >= each || bytes > most - written) return NULL;
    op->function->recorded++;
    written += bytes;
    struct recorded *r = calloc(1, sizeof *r);
    if (!r) abort();
    r->op = op;
    for (const struct thing *t = things; t && r->count < MOST_BLOCKS; t = t->next) {
        if (!is_reached(t, c)) continue;
        char *before = malloc(t->bytes + 1);
        if (!before) abort();
        memcpy(before, t->data, t->bytes);
        r->blocks[r->count].block = t, r->blocks[r->count++].before = before;
    }
    return r;
}

/* A host knows its own memory by the same address; a device's has a bit more. */
static unsigned long long address(const struct thing *t)
{
    return (uintptr_t)t->data | (t->kind == BLOCK ? (unsigned long long)1 << ADDRESS_BIT : 0);
}

static void write_launch(const struct recorded *r)
{
    static unsigned launches;
    const struct op *op = r->op;
    char path[PATH];
    snprintf(path, sizeof path, "%s/%d-%06u.launch", setting("STAND_IN_LAUNCHES", ""), (int)getpid(), launches++);
    FILE *file = fopen(path, "w");
    if (!file) {
        report("%s: %s", path, strerror(errno));
        return;
    }
    fprintf(file, "kernel %s\ntext %016llx.cu\ngrid %u %u %u\ntable %u\nwords", op->function->name,
            (unsigned long long)op->function->text, op->blocks, op->threads, op->shared, op->function->table);
    for (unsigned i = 0; i < function_words(op->function); i++)
        fprintf(file, " %llu", (unsigned long long)op->words[i]);
    bool changed[MOST_BLOCKS];
    for (unsigned i = 0; i < r->count; i++) {
        const struct thing *t = r->blocks[i].block;
        changed[i] = memcmp(r->blocks[i].before, t->data, t->bytes) != 0;
        fprintf(file, "\nblock %llu %zu %d", address(t), t->bytes, changed[i]);
    }
    fprintf(file, "\n\n");
    for (unsigned i = 0; i < r->count; i++) {
        fwrite(r->blocks[i].before, 1, r->blocks[i].block->bytes, file);
        if (changed[i]) fwrite(r->blocks[i].block->data, 1, r->blocks[i].block->bytes, file);
    }
    bool lost = ferror(file);
    if (fclose(file) || lost) report("%s: not written", path);
}

void record_end(struct recorded *r)
{
    if (!r) return;
    write_launch(r);
    for (unsigned i = 0; i < r->count; i++) free(r->blocks[i].before);
    free(r);
}
