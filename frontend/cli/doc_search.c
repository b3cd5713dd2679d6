/* stepc doc WORD: all entries whose name, sentence or text has the word, best first, and what is written here for a
 * word of another library. */
#include "frontend/cli/doc.h"
#include "ir/base/json_tree.h"

#include <string.h>

enum rank { SAME, BEGINS, INSIDE, SAID, TEXT, RANKS };
enum { SHOWN = 40 };

/* The first line of the entry's text that is neither its name, nor how it is called, nor a table. */
const char *doc_sentence(struct doc *d, const struct doc_topic *t, uint32_t i)
{
    for (const char *line = doc_entry_text(d, t, i, true); *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        bool call = *line == '`' && !strncmp(line + 1, t->entry_name(d, i), strlen(t->entry_name(d, i)));
        if (n && !strchr("#|-", *line) && !call && strncmp(line, "```", 3) != 0)
            return arena_string_n(d->arena, line, n);
        if (n && *line == '-' && n > 1 && line[1] != ' ') return arena_string_n(d->arena, line, n);
    }
    return "";
}

static enum rank rank_of(struct doc *d, const struct doc_topic *t, uint32_t i, const char *word)
{
    const char *name = t->entry_name(d, i);
    if (str_same_name(name, word)) return SAME;
    if (!strncasecmp(name, word, strlen(word))) return BEGINS;
    if (strcasestr(name, word)) return INSIDE;
    if (strcasestr(doc_sentence(d, t, i), word)) return SAID;
    return strcasestr(doc_entry_text(d, t, i, true), word) ? TEXT : RANKS;
}

static void add_foreign(struct doc *d, const char *word)
{
    const char *scope, *words, *here;
    for (uint32_t i = 0; fe_foreign_row(i, &scope, &words, &here); i++)
        if (fe_foreign(scope, word) == here)
            str_addf(&d->out, "\"%s\" of other libraries%s%s%s: %s\n", word, *scope ? " (" : "", scope,
                     *scope ? ")" : "", here);
}

static struct json_tree match_of(struct doc *d, const struct doc_topic *t, uint32_t i)
{
    struct json_tree match = json_object(d->arena);
    json_add_text(match, "topic", t->name);
    json_add_text(match, "name", t->entry_name(d, i));
    json_add_text(match, "text", doc_sentence(d, t, i));
    return match;
}

int doc_search(struct cli *cli, struct doc *d, const char *word)
{
    VEC(const char *) names = {0};
    VEC(const char *) lines[RANKS] = {0};
    VEC(struct json_tree) matches[RANKS] = {0};
    const struct doc_topic *topic = NULL;
    const char *name;
    uint32_t at = 0;
    enum { INDENT = 42, LEAST = 30 };
    size_t width = cli_columns(1, 0);
    bool narrow = width && width < INDENT + LEAST;
    for (const struct doc_topic *t = d->topics; t < d->topics + d->topic_count; t++)
        for (uint32_t i = 0; (name = t->entry_name(d, i)); i++) {
            enum rank rank = *word ? rank_of(d, t, i, word) : RANKS;
            vec_push(d->arena, &names, name);
            if (rank == RANKS) continue;
            const char *said = cli_folded(d->arena, doc_sentence(d, t, i), narrow ? 4 : INDENT, width);
            const char *line = narrow ? arena_format(d->arena, "%s %s\n    %s\n", t->name, name, said)
                                      : arena_format(d->arena, "%-12s %-28s %s\n", t->name, name, said);
            vec_push(d->arena, &lines[rank], line);
            vec_push(d->arena, &matches[rank], match_of(d, t, i));
            if (rank == SAME) topic = t, at = i;
        }
    add_foreign(d, word);
    if (cli_count(cli, "json")) {
        struct json_tree json = json_object(d->arena), list;
        json_add_integer(json, "schema", 1);
        if (d->out.length) json_add_text(json, "elsewhere", str_text(&d->out));
        list = json_add_array(json, "matches"); /* the nearest first */
        bool any = d->out.length;
        for (int r = 0; r < RANKS; r++)
            for (size_t i = 0; i < matches[r].count; i++) json_add(list, NULL, matches[r].items[i]), any = true;
        const char *text = json_print_lines(json);
        if (any) return cli_print(cli, text, strlen(text));
    }
    if (lines[SAME].count == 1)
        str_addf(&d->out, "%s%s", d->out.length ? "\n" : "", doc_entry_text(d, topic, at, false));
    uint32_t shown = 0, found = 0;
    for (int r = lines[SAME].count == 1 ? BEGINS : SAME; r < RANKS; r++)
        for (size_t i = 0; i < lines[r].count; i++)
            if (found++ < SHOWN) str_addf(&d->out, "%s", lines[r].items[i]), shown++;
    if (found > shown) str_addf(&d->out, "and %u more\n", (unsigned)(found - shown));
    if (d->out.length) return cli_print(cli, str_text(&d->out), d->out.length);
    for (uint32_t i = 0; i < d->topic_count; i++) vec_push(d->arena, &names, d->topics[i].name);
    return cli_usage(cli, "nothing has the name \"%s\" or says it%s", word,
                     cli_meant(cli, word, names.items, names.count));
}
