/* The words of the text form: tokens, and the parts that stand in many places: numbers, types, shardings, constants. */
#include "ir/base/json_scan.h"
#include "ir/parse.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void parse_error_at(struct parse_state *p, struct diag_span span, const char *format, ...)
{
    if (p->failed) return;
    p->failed = true;
    p->token = TOKEN_END;
    va_list list;
    va_start(list, format);
    diag_error(p->diags, span, "E0050", "%s", arena_vformat(p->scratch, format, list));
    va_end(list);
}

struct diag_span parse_here(const struct parse_state *p) { return (struct diag_span){p->offset, p->size}; }

/* ---------------------------------------------------------------- tokens */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static char peek(const struct parse_state *p, size_t ahead)
{
    return p->at + ahead < p->length ? p->text[p->at + ahead] : 0;
}

static void skip_blanks(struct parse_state *p)
{
    while (p->at < p->length) {
        char c = p->text[p->at];
        if (c == '/' && peek(p, 1) == '/') {
            while (p->at < p->length && p->text[p->at] != '\n') p->at++;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            p->at++;
        } else {
            return;
        }
    }
}

static enum parse_token read_string(struct parse_state *p)
{
    size_t end = p->at + 1;
    struct json json;
    struct json_error error;
    while (end < p->length && p->text[end] != '"') end += p->text[end] == '\\' ? 2 : 1;
    size_t length = end < p->length ? end + 1 - p->at : p->length - p->at;
    if (!json_scan(p->scratch, p->text + p->at, length, NULL, &json, &error)) {
        p->at += error.offset + error.length;
        return TOKEN_BAD;
    }
    p->at += length;
    p->word = json.values->string;
    return TOKEN_STRING;
}

static enum parse_token read_token(struct parse_state *p)
{
    size_t start = p->at;
    char c = peek(p, 0), second = peek(p, 1);
    enum parse_token token = TOKEN_SIGN;
    if (p->at >= p->length) return TOKEN_END;
    if (c == '"') return read_string(p);
    p->at++;
    if (is_letter(c)) {
        token = TOKEN_WORD;
        while (is_letter(peek(p, 0)) || is_digit(peek(p, 0))) p->at++;
    } else if (c == '%') {
        token = TOKEN_VALUE;
        start++;
        while (is_digit(peek(p, 0))) p->at++;
        if (p->at == start) return TOKEN_BAD;
    } else if (is_digit(c) || (c == '-' && (is_digit(second) || second == 'I'))) {
        token = TOKEN_NUMBER; /* also -Infinity and 0x7fc00001 */
        while (is_digit(peek(p, 0)) || is_letter(peek(p, 0)) || peek(p, 0) == '.' ||
               ((peek(p, 0) == '+' || peek(p, 0) == '-') && p->text[p->at - 1] == 'e'))
            p->at++;
    } else if (!strchr("{}()[]<>=,:|@+-", c) || c == 0) {
        return TOKEN_BAD;
    }
    p->word = arena_string_n(p->scratch, p->text + start, p->at - start);
    return token;
}

void parse_next(struct parse_state *p)
{
    if (p->failed) return;
    skip_blanks(p);
    p->offset = (uint32_t)p->at;
    p->size = 1;
    p->word = "";
    p->token = read_token(p);
    if (p->at > p->offset) p->size = (uint32_t)p->at - p->offset;
    if (p->token == TOKEN_BAD)
        parse_error_at(p, parse_here(p), "this is no word, number, string or sign of the text form");
}

const char *parse_found(const struct parse_state *p)
{
    if (p->token == TOKEN_END) return "the end";
    return arena_format(p->scratch, "%.*s", (int)(p->size < 40 ? p->size : 40), p->text + p->offset);
}

bool parse_is_sign(const struct parse_state *p, char c) { return p->token == TOKEN_SIGN && p->word[0] == c; }
bool parse_is_word(const struct parse_state *p, const char *word)
{
    return p->token == TOKEN_WORD && strcmp(p->word, word) == 0;
}

bool parse_take_sign(struct parse_state *p, char c)
{
    if (!parse_is_sign(p, c)) return false;
    parse_next(p);
    return true;
}

bool parse_take_word(struct parse_state *p, const char *word)
{
    if (!parse_is_word(p, word)) return false;
    parse_next(p);
    return true;
}

void parse_need_sign(struct parse_state *p, char c)
{
    if (!parse_take_sign(p, c)) parse_error_at(p, parse_here(p), "expected `%c`, found `%s`", c, parse_found(p));
}

bool parse_item(struct parse_state *p, uint32_t i, char close)
{
    if ((!i || parse_take_sign(p, ',')) && !p->failed && !parse_is_sign(p, close)) return true;
    parse_need_sign(p, close);
    return false;
}

/* ---------------------------------------------------------------- small parts */

/* The text of a token of a kind, "" after an error. */
const char *parse_need(struct parse_state *p, enum parse_token token, const char *what)
{
    if (p->token != token) {
        parse_error_at(p, parse_here(p), "expected %s, found `%s`", what, parse_found(p));
        return "";
    }
    const char *word = p->word;
    parse_next(p);
    return word;
}

int64_t parse_need_integer(struct parse_state *p, int64_t least, int64_t most)
{
    struct diag_span span = parse_here(p);
    const char *word = parse_need(p, TOKEN_NUMBER, "a number");
    char *end = NULL;
    if (p->failed) return least;
    errno = 0;
    long long value = strtoll(word, &end, 10);
    if (*end || errno || value < least || value > most) {
        parse_error_at(p, span, "expected an integer in %lld..%lld, found `%s`", (long long)least, (long long)most,
                       word);
        return least;
    }
    return value;
}

static uint32_t parse_need_index(struct parse_state *p, uint64_t count)
{
    return count ? (uint32_t)parse_need_integer(p, 0, (int64_t)count - 1) : (uint32_t)parse_need_integer(p, 0, -1);
}

struct ir_type parse_need_type(struct parse_state *p)
{
    struct ir_type type = {0};
    struct diag_span span = parse_here(p);
    const char *name = parse_need(p, TOKEN_WORD, "a type");
    if (p->failed || strcmp(name, "tuple") == 0) return type;
    type.dtype = (uint8_t)ir_dtype_find(name);
    if (type.dtype == IR_TUPLE) parse_error_at(p, span, "there is no type `%s`", name);
    parse_need_sign(p, '[');
    while (parse_item(p, type.rank, ']')) {
        if (type.rank == IR_MAX_RANK) {
            parse_error_at(p, parse_here(p), "expected at most %d dimensions", IR_MAX_RANK);
            return type;
        }
        type.dim[type.rank++] = parse_need_integer(p, 0, IR_MAX_ELEMENTS);
    }
    if (ir_type_elements(&type) < 0)
        parse_error_at(p, span, "the type is too large (expected fewer than 2^48 elements)");
    return type;
}

static uint32_t need_axis(struct parse_state *p)
{
    if (p->token == TOKEN_NUMBER) return (uint32_t)parse_need_integer(p, 0, 14);
    struct diag_span span = parse_here(p);
    const char *name = parse_need(p, TOKEN_STRING, "a mesh axis");
    for (uint32_t i = 0; i < p->m->mesh.axis_count; i++)
        if (strcmp(p->m->mesh.name[i], name) == 0) return i;
    parse_error_at(p, span, "the mesh has no axis \"%s\"", name);
    return 0;
}

static bool at_axis(const struct parse_state *p) { return p->token == TOKEN_STRING || p->token == TOKEN_NUMBER; }

void parse_optional_sharding(struct parse_state *p, struct ir_sharding *s)
{
    if (!parse_take_sign(p, '<')) return;
    for (uint32_t i = 0; !p->failed && !parse_is_sign(p, '|') && !parse_is_sign(p, '>'); i++) {
        if (i == IR_MAX_RANK) parse_error_at(p, parse_here(p), "expected at most %d dimensions", IR_MAX_RANK);
        if (!parse_take_sign(p, '-'))
            for (uint32_t k = 0; !p->failed && (k == 0 || at_axis(p)); k++) {
                if (k == 8) parse_error_at(p, parse_here(p), "expected at most 8 axes");
                uint32_t axis = need_axis(p);
                if (!p->failed) s->dim[i] |= (axis + 1) << (4 * k);
            }
        if (!parse_take_sign(p, ',')) break;
    }
    if (parse_take_sign(p, '|'))
        while (!p->failed && at_axis(p)) s->partial |= UINT32_C(1) << need_axis(p);
    parse_need_sign(p, '>');
}

void parse_optional_place(struct parse_state *p, uint32_t *place)
{
    if (parse_take_sign(p, '@')) *place = parse_need_index(p, p->m->places.count);
}

int32_t parse_optional_slot(struct parse_state *p)
{
    if (!parse_take_word(p, "slot")) return -1;
    parse_need_sign(p, '=');
    return (int32_t)parse_need_index(p, p->m->slots.count);
}

double parse_number_of(struct parse_state *p, const char *word, struct diag_span span)
{
    char *end = NULL;
    if (strcmp(word, "NaN") == 0) return (double)NAN;
    if (strcmp(word, "Infinity") == 0) return (double)INFINITY;
    if (strcmp(word, "-Infinity") == 0) return -(double)INFINITY;
    double value = strtod(word, &end);
    if (!*word || *end) parse_error_at(p, span, "`%s` is no number", word);
    return value;
}

/* ---------------------------------------------------------------- constants */

/* One element in the dtype's own layout, at `out`. Floats are read at once as single (or double) numbers: a value
 * that the printer wrote is read back exactly. */
static void need_element(struct parse_state *p, enum ir_dtype dtype, void *out)
{
    struct diag_span span = parse_here(p);
    const char *word = p->word;
    char *end = NULL;
    size_t size = ir_dtype_bytes(dtype);
    if (p->token != TOKEN_NUMBER && p->token != TOKEN_WORD) {
        parse_error_at(p, span, "expected a number, found `%s`", parse_found(p));
        return;
    }
    errno = 0;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        ir_element_set(dtype, out, 0, word[0] == 't');
    } else if (ir_dtype_is_float(dtype) && strncmp(word, "0x", 2) != 0) {
        double value = parse_number_of(p, word, span);
        if (dtype != IR_F64 && isfinite(value)) value = (double)strtof(word, NULL);
        ir_element_set(dtype, out, 0, value);
    } else { /* integers and the bits of floats */
        bool is_negative = word[0] == '-';
        uint64_t bits = is_negative ? (uint64_t)strtoll(word, &end, 0) : strtoull(word, &end, 0);
        uint64_t high = size == 8 ? 0 : bits >> (8 * size);
        bool fits = is_negative ? size == 8 || high == UINT64_MAX >> (8 * size) : high == 0;
        if (*end || errno || !fits) parse_error_at(p, span, "`%s` is no %s", word, ir_dtype_name(dtype));
        memcpy(out, &bits, size);
    }
    parse_next(p);
}

struct parse_data parse_skip_data(struct parse_state *p)
{
    struct parse_data d = {p->offset, !parse_is_sign(p, '[')};
    parse_next(p);
    while (!d.splat && !p->failed && p->token != TOKEN_END && !parse_is_sign(p, ']')) parse_next(p);
    if (!d.splat) parse_need_sign(p, ']');
    return d;
}

void parse_read_data(struct parse_state *p, struct parse_data d, struct ir_node *node)
{
    if (p->failed) return;
    struct parse_state back = *p; /* where to go on */
    enum ir_dtype dtype = (enum ir_dtype)node->type.dtype;
    size_t size = ir_dtype_bytes(dtype), count = 0, capacity = 0;
    char *bytes = NULL;
    if (dtype == IR_TUPLE) {
        parse_error_at(p, parse_here(p), "a constant is no tuple");
        return;
    }
    p->at = d.at;
    parse_next(p);
    if (!d.splat) parse_next(p);
    while (!p->failed && !(count && d.splat) && !parse_is_sign(p, ']')) {
        bytes = arena_grow(p->scratch, bytes, count, &capacity, size);
        need_element(p, dtype, bytes + count++ * size);
        if (!parse_take_sign(p, ',')) break;
    }
    if (!d.splat && !p->failed && !parse_is_sign(p, ']'))
        parse_error_at(p, parse_here(p), "expected `]`, found `%s`", parse_found(p));
    if (!d.splat && (int64_t)count != ir_type_elements(&node->type))
        parse_error_at(p, parse_here(p), "expected %lld numbers, found %zu", (long long)ir_type_elements(&node->type),
                       count);
    if (p->failed) return;
    node->splat = d.splat;
    node->data = bytes ? bytes : arena_alloc(p->scratch, 8);
    p->at = back.at, p->token = back.token, p->offset = back.offset, p->size = back.size, p->word = back.word;
}
