/* Inside of `stepc lsp`: what its files share. lsp.c speaks the protocol and keeps the documents, lsp_check.c has them
 * checked, lsp_place.c finds what stands at the cursor and what the schema says of it. */
#ifndef FRONTEND_CLI_LSP_H
#define FRONTEND_CLI_LSP_H
#include "frontend/cli/cli.h"
#include "ir/base/json_tree.h"

#include <cjson/cJSON.h>

/* A place in a text that moves: lines and UTF-16 units as the protocol counts them, from 0. */
struct lsp_spot {
    const char *text;
    size_t length, at;
    uint32_t line, column;
};
size_t lsp_offset(const char *text, size_t length, uint32_t line, uint32_t column); /* beyond a line: its end */
void lsp_add_range(struct json_tree to, struct lsp_spot *, size_t begin, size_t end);

/* What a check in a process of its own has to say of a text: {"diagnostics": [...], "hints": [...]}. */
const struct cJSON *lsp_check(struct cli *, struct arena *, const char *uri, const char *text, size_t length);

struct lsp_at {
    struct arena *arena; /* of the answer */
    const struct cJSON *schema;
    const char *text;
    size_t length, offset;
};
const char *lsp_hover(const struct lsp_at *, size_t *begin, size_t *end); /* NULL: nothing is known */
struct json_tree lsp_completion(const struct lsp_at *);                   /* a list of items */
#endif
