/* Reads texts of entries (library.h): heads at the margin, statements below them. */
#include "frontend/expr/library.h"
#include <string.h>

static bool is_word_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool fe_span_is(struct fe_span s, const char *word)
{
    return strlen(word) == s.length && !memcmp(s.text, word, s.length);
}

static struct fe_span trimmed(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\n')) from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\n')) to--;
    return (struct fe_span){from, (size_t)(to - from)};
}

/* Goes behind the line; returns its end. */
static const char *end_of_line(struct fe_reader *r)
{
    const char *end = r->at + strcspn(r->at, "\n");
    r->at = *end ? end + 1 : end;
    r->line++;
    return end;
}

static void read_head(const struct fe_reader *r, const char *from, const char *to, struct fe_entry *e)
{
    const char *stop = from;
    while (stop < to && *stop != '(' && *stop != '=') stop++;
    e->called = stop < to && *stop == '(';
    struct fe_span head = trimmed(from, stop);
    const char *name = head.text + head.length;
    while (name > head.text && is_word_letter(name[-1])) name--;
    e->name = (struct fe_span){name, (size_t)(head.text + head.length - name)};
    e->words = trimmed(head.text, name);
    if (e->called) {
        const char *close = memchr(stop, ')', (size_t)(to - stop));
        if (!close) BUG("%s:%u: the signature has no end", r->file, (unsigned)r->line);
        e->signature = trimmed(stop + 1, close);
        stop = close + 1;
    }
    e->body = trimmed(stop, to);
    if (!e->name.length || (e->body.length && *e->body.text != '='))
        BUG("%s:%u: not the head of an entry", r->file, (unsigned)r->line);
    if (e->body.length) e->body = trimmed(e->body.text + 1, to);
}

bool fe_entry_next(struct fe_reader *r, struct fe_entry *e)
{
    *e = (struct fe_entry){0};
    for (;;) {
        const char *from = r->at;
        if (!*from) return false;
        if (*from == ' ') BUG("%s:%u: a statement without a head", r->file, (unsigned)r->line + 1);
        const char *end = end_of_line(r);
        if (end == from) r->doc = (struct fe_span){0};
        else if (*from == '#') {
            bool more = r->doc.text && r->doc.text + r->doc.length + 1 == from;
            const char *start = more ? r->doc.text : from;
            r->doc = (struct fe_span){start, (size_t)(end - start)};
        } else {
            e->line = r->line;
            while (*r->at == ' ' && memchr(from, '(', (size_t)(end - from)) && !memchr(from, ')', (size_t)(end - from)))
                end = end_of_line(r); /* a long signature */
            read_head(r, from, end, e);
            break;
        }
    }
    const char *body = e->body.length ? e->body.text : r->at, *end = body + e->body.length;
    e->doc = r->doc;
    e->body_line = e->body.length ? e->line : e->line + 1;
    while (*r->at == ' ' || (*r->at == '\n' && r->at[1] == ' ')) end = end_of_line(r);
    e->body = (struct fe_span){body, (size_t)(end - body)};
    e->text = trimmed(e->words.text, end);
    return true;
}

bool fe_statement_next(struct fe_reader *r, struct fe_span body, struct fe_span *statement)
{
    const char *limit = body.text + body.length, *from, *end;
    while (r->at < limit && *r->at == '\n') (void)end_of_line(r);
    from = r->at;
    if (from >= limit) return false;
    bool alone = from == body.text && *from != ' '; /* in the line of the head: whatever is below continues it */
    do end = end_of_line(r);
    while (r->at < limit && (alone || !strncmp(r->at, "     ", 5)));
    *statement = trimmed(from, end < limit ? end : limit);
    return true;
}

bool fe_statement_name(struct fe_span statement, struct fe_span *name, struct fe_span *rest)
{
    const char *from = statement.text, *end = from + statement.length, *stop = from;
    while (stop < end && is_word_letter(*stop)) stop++;
    if (stop == from || end - stop < 3 || memcmp(stop, " = ", 3) != 0) return false;
    *name = (struct fe_span){from, (size_t)(stop - from)};
    *rest = trimmed(stop + 3, end);
    return true;
}

struct expr_node *fe_step_parse(struct arena *arena, const struct fe_reader *r, struct fe_span text)
{
    struct expr_fault fault;
    const char *copy = arena_string_n(arena, text.text, text.length);
    struct expr_node *tree = expr_parse(arena, copy, &fault);
    if (!tree) BUG("%s:%u: %s in \"%s\"", r->file, (unsigned)r->line, fault.message, copy);
    return tree;
}
