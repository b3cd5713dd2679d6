/* stepc check --fix: the document with the nearest valid names in the place of unknown ones. */
#include "frontend/cli/cli.h"

#include <stdlib.h>

static int by_place(const void *a, const void *b)
{
    const struct diag *x = *(const struct diag *const *)a, *y = *(const struct diag *const *)b;
    return (x->span.offset > y->span.offset) - (x->span.offset < y->span.offset);
}

size_t cli_fix(const struct diags *diags, bool quiet, struct str *out)
{
    const struct diag_source *source = &diags->source;
    const struct diag **fixes = arena_new_array(out->arena, const struct diag *, diags->list.count + 1);
    size_t count = 0, done = 0, at = 0;
    for (size_t i = 0; i < diags->list.count; i++)
        if (diags->list.items[i].replacement) fixes[count++] = &diags->list.items[i];
    qsort(fixes, count, sizeof *fixes, by_place);
    for (size_t i = 0; i < count; i++) {
        struct diag_span span = fixes[i]->span;
        if (span.offset < at) continue; /* two suggestions for one place: the first */
        str_add_n(out, source->text + at, span.offset - at);
        str_add(out, fixes[i]->replacement);
        uint32_t line, column;
        diag_line_column(source, span.offset, &line, &column);
        if (!quiet)
            fprintf(stderr, "stepc: note: %s:%u:%u: %.*s is now %s\n", source->name, line, column, (int)span.length,
                    source->text + span.offset, fixes[i]->replacement);
        at = (size_t)span.offset + span.length;
        done++;
    }
    str_add_n(out, source->text + at, source->length - at);
    return done;
}
