/* stepc lsp: a server of the Language Server Protocol 3.17 on standard input and output (JSON-RPC 2.0, one message
 * after another, each with Content-Length). One table of methods. Documents come whole (full synchronization) and are
 * checked when nothing else is waiting. */
#include "frontend/cli/doc.h"
#include "frontend/cli/lsp.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A message is a document, escaped, and a little more. */
#define MOST_MESSAGE ((size_t)256 << 20)
enum { PARSE_ERROR = -32700, INVALID_REQUEST = -32600, NO_METHOD = -32601, WRONG_PARAMS = -32602, TOO_EARLY = -32002 };

struct document {
    struct arena arena, found_arena; /* of its text; of what was found */
    const char *uri, *text;          /* uri NULL: closed, another one may take its room */
    size_t length;
    bool has_version, dirty;
    int64_t version;
    const struct cJSON *found; /* of the last check */
};

struct server {
    struct cli *cli;
    struct arena *arena; /* of the message that is answered */
    VEC(struct document *) documents;
    const struct cJSON *schema;
    bool initialized, shut_down, ends, broken;
    const char *wrong; /* what is wrong with the parameters */
    char buffer[65536];
    size_t at, end;
};

/* The next byte, -1: there are no more. */
static int next_byte(struct server *s)
{
    while (s->at == s->end) {
        ssize_t n = read(0, s->buffer, sizeof s->buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        s->at = 0, s->end = (size_t)n;
    }
    return (unsigned char)s->buffer[s->at++];
}

static bool waiting(const struct server *s)
{
    struct pollfd p = {0, POLLIN, 0};
    return s->at < s->end || poll(&p, 1, 0) > 0;
}

/* The end of a line, whose begin is forgotten where it is long. */
static bool read_line(struct server *s, char line[256])
{
    size_t n = 0;
    for (int c; (c = next_byte(s)) != '\n';) {
        if (c < 0) return false;
        if (n == 255) memmove(line, line + 128, n -= 128);
        line[n++] = c ? (char)c : ' ';
    }
    while (n && line[n - 1] == '\r') n--;
    line[n] = 0;
    return true;
}

/* Up to the empty line behind a Content-Length. What stands before is skipped: after a message of a wrong length, its
 * rest. */
static bool read_length(struct server *s, size_t *length)
{
    static const char name[] = "content-length:";
    char line[256];
    for (bool known = false;;) {
        if (!read_line(s, line)) return false;
        const char *found = strcasestr(line, name);
        if (!*line && known) return true;
        if (!found) continue;
        found += strlen(name);
        found += strspn(found, " \t");
        known = *found && strlen(found) <= 12 && !found[strspn(found, "0123456789")];
        *length = known ? strtoull(found, NULL, 10) : 0;
        known &= *length <= MOST_MESSAGE;
    }
}

static bool read_text(struct server *s, struct str *text, size_t left)
{
    str_add(text, "");
    while (left) {
        int c = next_byte(s);
        if (c < 0) return false;
        size_t n = s->end - --s->at;
        if (n > left) n = left;
        str_add_n(text, s->buffer + s->at, n);
        s->at += n, left -= n;
    }
    return true;
}

static void send(struct server *s, struct json_tree message)
{
    json_add_text(message, "jsonrpc", "2.0");
    const char *text = json_print(message);
    printf("Content-Length: %zu\r\n\r\n%s", strlen(text), text);
    s->broken |= fflush(stdout) != 0;
}

static void send_error(struct server *s, const struct cJSON *id, int code, const char *what)
{
    struct json_tree m = json_object(s->arena);
    json_add(m, "id", id ? json_copy(s->arena, id) : json_text(s->arena, NULL));
    struct json_tree error = json_add_object(m, "error");
    json_add_integer(error, "code", code);
    json_add_text(error, "message", what);
    send(s, m);
}

static struct json_tree notification(struct server *s, const char *method, struct json_tree *params)
{
    struct json_tree m = json_object(s->arena);
    json_add_text(m, "method", method);
    *params = json_add_object(m, "params");
    return m;
}

typedef const struct cJSON *node;
static node get(node object, const char *key) { return cJSON_GetObjectItemCaseSensitive(object, key); }

static struct document *find(struct server *s, node params)
{
    const char *uri = cJSON_GetStringValue(get(get(params, "textDocument"), "uri"));
    if (!uri) s->wrong = "expected textDocument.uri, a string";
    for (size_t i = 0; uri && i < s->documents.count; i++) {
        struct document *d = s->documents.items[i];
        if (d->uri && !strcmp(d->uri, uri)) return d;
    }
    if (uri) s->wrong = "this document was not opened";
    return NULL;
}

static void forget(struct document *d)
{
    arena_free(&d->found_arena);
    arena_free(&d->arena);
}

static void set_text(struct document *d, const char *uri, node text, node version)
{
    struct arena fresh = {0};
    uri = arena_string(&fresh, uri);
    forget(d);
    d->arena = fresh;
    d->uri = uri;
    d->length = strlen(text->valuestring);
    d->text = arena_string_n(&d->arena, text->valuestring, d->length);
    d->has_version = cJSON_IsNumber(version);
    d->version = d->has_version ? (int64_t)version->valuedouble : 0;
    d->found = NULL;
    d->dirty = true;
}

static void publish(struct server *s, const struct document *d, node diagnostics)
{
    struct json_tree params, m = notification(s, "textDocument/publishDiagnostics", &params);
    json_add_text(params, "uri", d->uri);
    if (d->has_version) json_add_integer(params, "version", d->version);
    if (diagnostics) json_add(params, "diagnostics", json_copy(s->arena, diagnostics));
    else json_add_array(params, "diagnostics");
    send(s, m);
}

static void check(struct server *s, struct document *d)
{
    if (!d->dirty) return;
    d->dirty = false;
    d->found = lsp_check(s->cli, &d->found_arena, d->uri, d->text, d->length);
    publish(s, d, get(d->found, "diagnostics"));
}

/* Where the parameters point to; a text without one: at its begin. */
static bool pointed(struct server *s, node params, struct lsp_at *at)
{
    const struct document *d = find(s, params);
    node p = get(params, "position"), line = get(p, "line"), column = get(p, "character");
    if (!d) return false;
    if (!cJSON_IsNumber(line) || !cJSON_IsNumber(column) || line->valuedouble < 0 || column->valuedouble < 0 ||
        line->valuedouble > UINT32_MAX || column->valuedouble > UINT32_MAX) {
        s->wrong = "expected position.line and position.character, numbers from 0";
        return false;
    }
    if (!s->schema) {
        const char *schema = doc_schema(s->cli->arena);
        s->schema = json_read(s->cli->arena, schema, strlen(schema));
    }
    *at = (struct lsp_at){s->arena, s->schema, d->text, d->length,
                          lsp_offset(d->text, d->length, (uint32_t)line->valuedouble, (uint32_t)column->valuedouble)};
    return true;
}

static struct json_tree nothing(struct server *s) { return json_text(s->arena, NULL); }

static struct json_tree initialize(struct server *s, node params)
{
    struct json_tree out = json_object(s->arena), can = json_add_object(out, "capabilities");
    (void)params;
    s->initialized = true;
    json_add_text(can, "positionEncoding", "utf-16");
    struct json_tree sync = json_add_object(can, "textDocumentSync");
    json_add_bool(sync, "openClose", true);
    json_add_integer(sync, "change", 1); /* full */
    json_add_bool(can, "hoverProvider", true);
    json_add_bool(can, "inlayHintProvider", true);
    json_add_text(json_add_array(json_add_object(can, "completionProvider"), "triggerCharacters"), NULL, "\"");
    struct json_tree server = json_add_object(out, "serverInfo");
    json_add_text(server, "name", "stepc");
    return out;
}

static struct json_tree shutdown_server(struct server *s, node params)
{
    (void)params;
    s->shut_down = true;
    return nothing(s);
}

static struct json_tree leave(struct server *s, node params)
{
    (void)params;
    s->ends = true;
    return nothing(s);
}

static struct json_tree did_open(struct server *s, node params)
{
    node of = get(params, "textDocument"), uri = get(of, "uri"), text = get(of, "text");
    if (!cJSON_IsString(uri) || !cJSON_IsString(text)) return nothing(s);
    struct document *d = find(s, params);
    for (size_t i = 0; !d && i < s->documents.count; i++)
        if (!s->documents.items[i]->uri) d = s->documents.items[i];
    if (!d) {
        d = arena_new(s->cli->arena, struct document);
        vec_push(s->cli->arena, &s->documents, d);
    }
    set_text(d, uri->valuestring, text, get(of, "version"));
    return nothing(s);
}

static struct json_tree did_change(struct server *s, node params)
{
    struct document *d = find(s, params);
    node change, last = NULL;
    cJSON_ArrayForEach(change, get(params, "contentChanges"))
    {
        if (get(change, "range") || !cJSON_IsString(get(change, "text"))) {
            struct json_tree p, m = notification(s, "window/showMessage", &p);
            json_add_integer(p, "type", 1);
            json_add_text(p, "message", "stepc takes whole texts of documents; a change of a part was not made");
            send(s, m);
            return nothing(s);
        }
        last = get(change, "text");
    }
    if (d && last) set_text(d, d->uri, last, get(get(params, "textDocument"), "version"));
    return nothing(s);
}

static struct json_tree did_close(struct server *s, node params)
{
    struct document *d = find(s, params);
    if (!d) return nothing(s);
    d->has_version = false;
    publish(s, d, NULL);
    forget(d);
    *d = (struct document){0};
    return nothing(s);
}

static struct json_tree hover(struct server *s, node params)
{
    struct lsp_at at;
    size_t begin, end;
    const char *text = pointed(s, params, &at) ? lsp_hover(&at, &begin, &end) : NULL;
    if (!text) return nothing(s);
    struct json_tree out = json_object(s->arena), contents = json_add_object(out, "contents");
    json_add_text(contents, "kind", "plaintext");
    json_add_text(contents, "value", text);
    lsp_add_range(out, &(struct lsp_spot){.text = at.text, .length = at.length}, begin, end);
    return out;
}

static struct json_tree completion(struct server *s, node params)
{
    struct lsp_at at;
    return pointed(s, params, &at) ? lsp_completion(&at) : nothing(s);
}

static struct json_tree inlay_hint(struct server *s, node params)
{
    struct document *d = find(s, params);
    if (!d) return nothing(s);
    check(s, d);
    struct json_tree out = json_array(s->arena);
    node hint, range = get(params, "range"), first = get(get(range, "start"), "line"),
               last = get(get(range, "end"), "line");
    cJSON_ArrayForEach(hint, get(d->found, "hints"))
    {
        double line = get(get(hint, "position"), "line")->valuedouble;
        if ((!cJSON_IsNumber(first) || line >= first->valuedouble) &&
            (!cJSON_IsNumber(last) || line <= last->valuedouble))
            json_add(out, NULL, json_copy(s->arena, hint));
    }
    return out;
}

/* clang-format off */
static const struct method {
    const char *name;
    struct json_tree (*run)(struct server *, node params);
    bool request; /* it has an answer */
} methods[] = {
    {"initialize", initialize, true},
    {"initialized", NULL, false},
    {"shutdown", shutdown_server, true},
    {"exit", leave, false},
    {"textDocument/didOpen", did_open, false},
    {"textDocument/didChange", did_change, false},
    {"textDocument/didClose", did_close, false},
    {"textDocument/hover", hover, true},
    {"textDocument/completion", completion, true},
    {"textDocument/inlayHint", inlay_hint, true},
};
/* clang-format on */

static bool is_utf8(const struct str *text)
{
    for (size_t i = 0, n; i < text->length; i += n)
        if (!(n = str_utf8((const unsigned char *)text->text + i, text->length - i))) return false;
    return true;
}

/* The code of an escape \uXXXX; -1: there is none. */
static long escaped(const char *at)
{
    char digits[5] = "";
    if (at[0] != '\\' || at[1] != 'u' || strspn(at + 2, "0123456789abcdefABCDEF") < 4) return -1;
    memcpy(digits, at + 2, 4);
    return strtol(digits, NULL, 16);
}

/* Characters of an editor that cJSON has no text for: 0, which would end it, becomes another one that no document may
 * hold, and half a pair of surrogates what a file would get for it. */
static void mend_escapes(char *at)
{
    for (long code; at && (at = strchr(at, '\\')) && at[1]; at += code < 0 ? 2 : 6) {
        bool pair = (code = escaped(at)) >= 0xd800 && code < 0xdc00 && escaped(at + 6) >> 10 == 0xdc00 >> 10;
        if (pair) at += 6;
        else if (code == 0) memcpy(at + 2, "0001", 4);
        else if (code >= 0xd800 && code < 0xe000) memcpy(at + 2, "fffd", 4);
    }
}

static void call(struct server *s, node id, const char *name, node params)
{
    const struct method *m = methods, *end = methods + sizeof methods / sizeof *methods;
    while (m < end && strcmp(m->name, name) != 0) m++;
    if (id && s->shut_down) send_error(s, id, INVALID_REQUEST, "the server was shut down");
    else if (id && (m == end || !m->request))
        send_error(s, id, NO_METHOD, arena_format(s->arena, "no request \"%.200s\"", name));
    else if (id && s->initialized == (m->run == initialize))
        send_error(s, id, s->initialized ? INVALID_REQUEST : TOO_EARLY, "initialize comes first, and once");
    if (m == end || !m->run || m->request != (id != NULL) ||
        (s->initialized == (m->run == initialize) && m->run != leave) || (s->shut_down && m->run != leave))
        return;
    s->wrong = NULL;
    struct json_tree result = m->run(s, params);
    if (!id) return;
    if (s->wrong) {
        send_error(s, id, WRONG_PARAMS, s->wrong);
        return;
    }
    struct json_tree answer = json_object(s->arena);
    json_add(answer, "id", json_copy(s->arena, id));
    json_add(answer, "result", result);
    send(s, answer);
}

static void take(struct server *s, const struct str *text)
{
    mend_escapes(text->text);
    node m = is_utf8(text) ? json_read(s->arena, text->text, text->length) : NULL, id = get(m, "id"),
         method = get(m, "method");
    bool answer = get(m, "result") || get(m, "error"); /* to what was never asked */
    if (!m) send_error(s, NULL, PARSE_ERROR, "the message is not JSON in UTF-8 of the length that was announced");
    else if (id && !cJSON_IsString(id) && !cJSON_IsNumber(id))
        send_error(s, NULL, INVALID_REQUEST, "an id is a string or a number");
    else if (cJSON_IsString(method)) call(s, id, method->valuestring, get(m, "params"));
    else if (!answer) send_error(s, id, INVALID_REQUEST, "a message is an object with a method");
}

int cli_lsp(struct cli *cli)
{
    struct server *s = arena_new(cli->arena, struct server);
    s->cli = cli;
    while (!s->ends && !s->broken) {
        struct arena arena = {0};
        struct str text = STR(&arena);
        size_t length = 0;
        s->arena = &arena;
        for (size_t i = 0; i < s->documents.count && (!waiting(s)); i++) check(s, s->documents.items[i]);
        bool more = read_length(s, &length) && read_text(s, &text, length);
        if (more) take(s, &text);
        for (size_t i = 0; !more && i < s->documents.count; i++) check(s, s->documents.items[i]);
        arena_free(&arena);
        if (!more) break;
    }
    for (size_t i = 0; i < s->documents.count; i++) forget(s->documents.items[i]);
    if (s->broken) return cli_failed(cli, EXIT_ENVIRONMENT, "cannot write standard output: %s", strerror(errno));
    return s->shut_down ? EXIT_DONE : EXIT_WRONG; /* as the protocol wants it */
}
