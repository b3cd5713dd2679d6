/* The kernels of a text once more, each with the PTX that NVVM made of it as its body. NVRTC passes inline PTX on as it
 * stands, so that of such a text only machine code is made, which is the same bytes as that of the text itself. */
#include "codegen/cuda/cuda.h"
#include <string.h>

#define KERNEL "extern \"C\" __global__ "
#define ENTRY ".visible .entry "
#define DYNAMIC ".extern .shared "
#define DYNAMIC_NAME "stepc_dynamic"

struct span {
    const char *at;
    size_t length;
};
struct entry {
    struct span name, body;
};
struct assembly {
    VEC(struct entry) entries;
    VEC(const char *) outside; /* what is declared beside the entries */
};

static bool starts(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static struct span until(const char *from, const char *end) { return (struct span){from, (size_t)(end - from)}; }

/* A whole function begins at `from`: what stands before its braces' lines, and between them. NULL, or what follows. */
static const char *function(const char *from, struct span *head, struct span *body)
{
    const char *open = strstr(from, "\n{\n"), *end = open ? strstr(open + 2, "\n}\n") : NULL;
    if (!end) return NULL;
    *head = until(from, open);
    *body = until(open + 3, end + 1);
    return end + 3;
}

/* The names of a declaration on one line: words that neither begin with a digit nor follow a point. */
static void add_names(struct assembly *a, const char *line, const char *end, struct arena *arena)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$0123456789";
    for (const char *at = line; at < end;) {
        size_t length = strspn(at, word);
        bool name = length && (*at < '0' || *at > '9') && (at == line || at[-1] != '.');
        if (name) vec_push(arena, &a->outside, arena_string_n(arena, at, length));
        at += length ? length : 1;
    }
}

/* False: there is something beside entries, data and comments. Only lines of these begin with a point. */
static bool read(struct assembly *a, const char *ptx, struct arena *arena)
{
    for (const char *at = ptx, *next; at && *at; at = next) {
        const char *end = at + strcspn(at, "\n");
        struct span head;
        struct entry entry = {{at + strlen(ENTRY), 0}, {NULL, 0}};
        next = end + (*end == '\n');
        if (starts(at, ENTRY)) {
            next = function(at, &head, &entry.body);
            if (!next) return false;
            entry.name.length = strcspn(entry.name.at, "(");
            vec_push(arena, &a->entries, entry);
        } else if ((starts(at, ".global ") || starts(at, ".const ")) && end[-1] == ';') {
            add_names(a, at, end, arena);
        } else if (starts(at, DYNAMIC)) {
            continue; /* declared again by who asks for its address */
        } else if (!strchr("/ \t\n", *at) && !starts(at, ".version ") && !starts(at, ".target ") &&
                   !starts(at, ".address_size ")) {
            return false;
        }
    }
    return true;
}

static bool has_word(struct span body, const char *word, struct arena *arena)
{
    return strstr(arena_string_n(arena, body.at, body.length), word);
}

/* What is declared outside would be missing: NVRTC gives only what the text itself asks for. */
static bool stands_alone(const struct assembly *a, struct span body, struct arena *arena)
{
    const char *text = a->outside.count ? arena_string_n(arena, body.at, body.length) : "";
    for (size_t i = 0; i < a->outside.count; i++)
        if (strstr(text, a->outside.items[i])) return false;
    return true;
}

const char *cuda_with_ptx(const char *text, const char *ptx, struct arena *arena)
{
    struct assembly a = {{NULL, 0, 0}, {NULL, 0, 0}};
    struct str out = STR(arena);
    size_t kernels = 0;
    if (!read(&a, ptx, arena)) return NULL;
    for (const char *at = text, *next; *at; at = next) {
        struct span head, body;
        next = at + strcspn(at, "\n");
        next += *next == '\n';
        if (starts(at, KERNEL)) {
            next = function(at, &head, &body);
            if (!next || kernels == a.entries.count) return NULL;
            const struct entry *entry = &a.entries.items[kernels++];
            const char *name = strstr(at, ") "); /* behind __launch_bounds__ */
            if (!name || strncmp(name + 2, entry->name.at, entry->name.length + 1) != 0) return NULL;
            if (stands_alone(&a, entry->body, arena)) {
                str_add_n(&out, head.at, head.length);
                str_add(&out, "\n{\n");
                if (has_word(entry->body, DYNAMIC_NAME, arena))
                    str_add(&out, "    asm volatile(\"\" : : \"l\"(" DYNAMIC_NAME "));\n");
                str_add(&out, "    asm(R\"ptx({\n");
                str_add_n(&out, entry->body.at, entry->body.length);
                str_add(&out, "})ptx\");\n}\n");
                continue;
            }
        }
        str_add_n(&out, at, (size_t)(next - at));
    }
    return kernels == a.entries.count ? str_text(&out) : NULL;
}
