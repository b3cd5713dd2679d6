/* Reads the text form (ir/LANG.md). Any text gives a module or a diagnostic with its place: one error is enough, the
 * form is written by the printer. Nodes are appended as they stand; at the end every type is inferred again and the
 * whole module verified, so a module that was read is as sound as one that was built. */
#include "ir/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum token { TOKEN_END, TOKEN_WORD, TOKEN_NUMBER, TOKEN_STRING, TOKEN_VALUE, TOKEN_SIGN, TOKEN_BAD };

struct parser {
    const char *text;
    size_t length, at;
    enum token token;
    uint32_t offset, size;  /* of the token */
    const char *word;       /* WORD, NUMBER, STRING (unescaped), VALUE (digits), SIGN: terminated */
    struct arena *scratch;
    struct diags *diags;
    bool failed;
    struct ir_module *m;
    struct ir_func *f;
    struct map values;      /* numbers in the text -> values of f */
    VEC(struct node_place { struct ir_func *f; ir_value value; const char *body; struct diag_span span; }) nodes;
};

static void error_at(struct parser *p, struct diag_span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void error_at(struct parser *p, struct diag_span span, const char *format, ...)
{
    if (p->failed) return;
    p->failed = true;
    p->token = TOKEN_END;
    va_list list;
    va_start(list, format);
    diag_error(p->diags, span, "E0050", "%s", arena_vformat(p->scratch, format, list));
    va_end(list);
}

static struct diag_span here(const struct parser *p) { return (struct diag_span){p->offset, p->size}; }

/* ---------------------------------------------------------------- tokens */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static char peek(const struct parser *p, size_t ahead) { return p->at + ahead < p->length ? p->text[p->at + ahead] : 0; }

static void skip_blanks(struct parser *p)
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

/* Four hex digits; -1 if they are not. */
static int hex4(const struct parser *p)
{
    int value = 0;
    for (size_t i = 0; i < 4; i++) {
        char c = peek(p, i);
        int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* A JSON string as str_add_json writes it: \u only for control characters. */
static enum token read_string(struct parser *p)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    struct str s = STR(p->scratch);
    str_add(&s, "");
    for (p->at++; p->at < p->length && p->text[p->at] != '"'; p->at++) {
        char c = p->text[p->at];
        if (c == '\n' || c == 0) return TOKEN_BAD;
        if (c != '\\') {
            str_add_n(&s, &c, 1);
            continue;
        }
        p->at++;
        const char *known = peek(p, 0) ? strchr(escapes, peek(p, 0)) : NULL;
        if (known) {
            str_add_n(&s, &meant[known - escapes], 1);
        } else {
            p->at++;
            int code = p->at && p->text[p->at - 1] == 'u' && p->at < p->length ? hex4(p) : -1;
            if (code <= 0 || code > 127) return TOKEN_BAD;
            c = (char)code;
            str_add_n(&s, &c, 1);
            p->at += 3;
        }
    }
    if (p->at >= p->length) return TOKEN_BAD;
    p->at++;
    p->word = str_text(&s);
    return TOKEN_STRING;
}

static enum token read_token(struct parser *p)
{
    size_t start = p->at;
    char c = peek(p, 0), second = peek(p, 1);
    enum token token = TOKEN_SIGN;
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
               ((peek(p, 0) == '+' || peek(p, 0) == '-') && p->text[p->at - 1] == 'e')) p->at++;
    } else if (!strchr("{}()[]<>=,:|@+-", c) || c == 0) {
        return TOKEN_BAD;
    }
    p->word = arena_string_n(p->scratch, p->text + start, p->at - start);
    return token;
}

static void next(struct parser *p)
{
    if (p->failed) return;
    skip_blanks(p);
    p->offset = (uint32_t)p->at;
    p->size = 1;
    p->word = "";
    p->token = read_token(p);
    if (p->at > p->offset) p->size = (uint32_t)p->at - p->offset;
    if (p->token == TOKEN_BAD) error_at(p, here(p), "this is no word, number, string or sign of the text form");
}

static const char *found(const struct parser *p)
{
    if (p->token == TOKEN_END) return "the end";
    return arena_format(p->scratch, "%.*s", (int)(p->size < 40 ? p->size : 40), p->text + p->offset);
}

static bool is_sign(const struct parser *p, char c) { return p->token == TOKEN_SIGN && p->word[0] == c; }
static bool is_word(const struct parser *p, const char *word) { return p->token == TOKEN_WORD && strcmp(p->word, word) == 0; }

static bool take_sign(struct parser *p, char c)
{
    if (!is_sign(p, c)) return false;
    next(p);
    return true;
}

static bool take_word(struct parser *p, const char *word)
{
    if (!is_word(p, word)) return false;
    next(p);
    return true;
}

static void need_sign(struct parser *p, char c)
{
    if (!take_sign(p, c)) error_at(p, here(p), "expected `%c`, found `%s`", c, found(p));
}

/* ---------------------------------------------------------------- small parts */

/* The text of a token of a kind, "" after an error. */
static const char *need(struct parser *p, enum token token, const char *what)
{
    if (p->token != token) {
        error_at(p, here(p), "expected %s, found `%s`", what, found(p));
        return "";
    }
    const char *word = p->word;
    next(p);
    return word;
}

static int64_t need_integer(struct parser *p, int64_t least, int64_t most)
{
    struct diag_span span = here(p);
    const char *word = need(p, TOKEN_NUMBER, "a number");
    char *end = NULL;
    if (p->failed) return least;
    errno = 0;
    long long value = strtoll(word, &end, 10);
    if (*end || errno || value < least || value > most) {
        error_at(p, span, "expected an integer in %lld..%lld, found `%s`", (long long)least, (long long)most, word);
        return least;
    }
    return value;
}

static uint32_t need_index(struct parser *p, uint64_t count)
{
    return count ? (uint32_t)need_integer(p, 0, (int64_t)count - 1) : (uint32_t)need_integer(p, 0, -1);
}

static struct ir_type need_type(struct parser *p)
{
    struct ir_type type = {0};
    struct diag_span span = here(p);
    const char *name = need(p, TOKEN_WORD, "a type");
    if (p->failed || strcmp(name, "tuple") == 0) return type;
    type.dtype = (uint8_t)ir_dtype_find(name);
    if (type.dtype == IR_TUPLE) error_at(p, span, "there is no type `%s`", name);
    need_sign(p, '[');
    while (!p->failed && !is_sign(p, ']')) {
        if (type.rank == IR_MAX_RANK) {
            error_at(p, here(p), "expected at most %d dimensions", IR_MAX_RANK);
            return type;
        }
        type.dim[type.rank++] = need_integer(p, 0, IR_MAX_ELEMENTS);
        if (!take_sign(p, ',')) break;
    }
    need_sign(p, ']');
    if (ir_type_elements(&type) < 0) error_at(p, span, "the type is too large (expected fewer than 2^48 elements)");
    return type;
}

static uint32_t need_axis(struct parser *p)
{
    if (p->token == TOKEN_NUMBER) return (uint32_t)need_integer(p, 0, 14);
    struct diag_span span = here(p);
    const char *name = need(p, TOKEN_STRING, "a mesh axis");
    for (uint32_t i = 0; i < p->m->mesh.axis_count; i++)
        if (strcmp(p->m->mesh.name[i], name) == 0) return i;
    error_at(p, span, "the mesh has no axis \"%s\"", name);
    return 0;
}

static bool at_axis(const struct parser *p) { return p->token == TOKEN_STRING || p->token == TOKEN_NUMBER; }

static void optional_sharding(struct parser *p, struct ir_sharding *s)
{
    if (!take_sign(p, '<')) return;
    for (uint32_t i = 0; !p->failed && !is_sign(p, '|') && !is_sign(p, '>'); i++) {
        if (i == IR_MAX_RANK) error_at(p, here(p), "expected at most %d dimensions", IR_MAX_RANK);
        if (!take_sign(p, '-'))
            for (uint32_t k = 0; !p->failed && (k == 0 || at_axis(p)); k++) {
                if (k == 8) error_at(p, here(p), "expected at most 8 axes");
                uint32_t axis = need_axis(p);
                if (!p->failed) s->dim[i] |= (axis + 1) << (4 * k);
            }
        if (!take_sign(p, ',')) break;
    }
    if (take_sign(p, '|'))
        while (!p->failed && at_axis(p)) s->partial |= UINT32_C(1) << need_axis(p);
    need_sign(p, '>');
}

static void optional_place(struct parser *p, uint32_t *place)
{
    if (take_sign(p, '@')) *place = need_index(p, p->m->places.count);
}

static int32_t optional_slot(struct parser *p)
{
    if (!take_word(p, "slot")) return -1;
    need_sign(p, '=');
    return (int32_t)need_index(p, p->m->slots.count);
}

static double number_of(struct parser *p, const char *word, struct diag_span span)
{
    char *end = NULL;
    if (strcmp(word, "NaN") == 0) return (double)NAN;
    if (strcmp(word, "Infinity") == 0) return (double)INFINITY;
    if (strcmp(word, "-Infinity") == 0) return -(double)INFINITY;
    double value = strtod(word, &end);
    if (!*word || *end) error_at(p, span, "`%s` is no number", word);
    return value;
}

/* ---------------------------------------------------------------- constants */

/* One element in the dtype's own layout, at `out`. Floats are read at once as single (or double) numbers: a value
 * that the printer wrote is read back exactly. */
static void need_element(struct parser *p, enum ir_dtype dtype, void *out)
{
    struct diag_span span = here(p);
    const char *word = p->word;
    char *end = NULL;
    size_t size = ir_dtype_bytes(dtype);
    if (p->token != TOKEN_NUMBER && p->token != TOKEN_WORD) {
        error_at(p, span, "expected a number, found `%s`", found(p));
        return;
    }
    errno = 0;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        ir_element_set(dtype, out, 0, word[0] == 't');
    } else if (ir_dtype_is_float(dtype) && strncmp(word, "0x", 2) != 0) {
        double value = number_of(p, word, span);
        if (dtype != IR_F64 && isfinite(value)) value = (double)strtof(word, NULL);
        ir_element_set(dtype, out, 0, value);
    } else { /* integers and the bits of floats */
        bool is_negative = word[0] == '-';
        uint64_t bits = is_negative ? (uint64_t)strtoll(word, &end, 0) : strtoull(word, &end, 0);
        uint64_t high = size == 8 ? 0 : bits >> (8 * size);
        bool fits = is_negative ? size == 8 || high == UINT64_MAX >> (8 * size) : high == 0;
        if (*end || errno || !fits) error_at(p, span, "`%s` is no %s", word, ir_dtype_name(dtype));
        memcpy(out, &bits, size);
    }
    next(p);
}

/* The numbers come before the type: look ahead for it, then read them. */
struct data_text { size_t at; bool splat; };

static struct data_text skip_data(struct parser *p)
{
    struct data_text d = {p->offset, !is_sign(p, '[')};
    next(p);
    while (!d.splat && !p->failed && p->token != TOKEN_END && !is_sign(p, ']')) next(p);
    if (!d.splat) need_sign(p, ']');
    return d;
}

static void read_data(struct parser *p, struct data_text d, struct ir_node *node)
{
    if (p->failed) return;
    struct parser back = *p; /* where to go on */
    enum ir_dtype dtype = (enum ir_dtype)node->type.dtype;
    size_t size = ir_dtype_bytes(dtype), count = 0, capacity = 0;
    char *bytes = NULL;
    if (dtype == IR_TUPLE) {
        error_at(p, here(p), "a constant is no tuple");
        return;
    }
    p->at = d.at;
    next(p);
    if (!d.splat) next(p);
    while (!p->failed && !(count && d.splat) && !is_sign(p, ']')) {
        bytes = arena_grow(p->scratch, bytes, count, &capacity, size);
        need_element(p, dtype, bytes + count++ * size);
        if (!take_sign(p, ',')) break;
    }
    if (!d.splat && !p->failed && !is_sign(p, ']')) error_at(p, here(p), "expected `]`, found `%s`", found(p));
    if (!d.splat && (int64_t)count != ir_type_elements(&node->type))
        error_at(p, here(p), "expected %lld numbers, found %zu", (long long)ir_type_elements(&node->type), count);
    if (p->failed) return;
    node->splat = d.splat;
    node->data = bytes ? bytes : arena_alloc(p->scratch, 8);
    p->at = back.at, p->token = back.token, p->offset = back.offset, p->size = back.size, p->word = back.word;
}

/* ---------------------------------------------------------------- nodes */

static struct ir_ints need_ints(struct parser *p)
{
    VEC(int64_t) list = {0};
    if (!take_sign(p, '[')) {
        vec_push(p->scratch, &list, need_integer(p, INT64_MIN, INT64_MAX));
        return (struct ir_ints){list.items, 1};
    }
    while (!p->failed && !is_sign(p, ']')) {
        vec_push(p->scratch, &list, need_integer(p, INT64_MIN, INT64_MAX));
        if (!take_sign(p, ',')) break;
    }
    need_sign(p, ']');
    return (struct ir_ints){list.items, (uint32_t)list.count};
}

static ir_value need_value(struct parser *p)
{
    struct diag_span span = here(p);
    const char *word = need(p, TOKEN_VALUE, "a value like %1");
    uint32_t value = p->failed ? MAP_NONE : map_get_number(&p->values, strtoull(word, NULL, 10));
    if (value != MAP_NONE) return value;
    error_at(p, span, "%%%s is not defined before this line", word);
    return 0;
}

static void read_operands(struct parser *p, struct ir_node *node)
{
    VEC(ir_value) args = {0};
    if (!take_sign(p, '(')) return;
    while (!p->failed && !is_sign(p, ')')) {
        vec_push(p->scratch, &args, need_value(p));
        if (!take_sign(p, ',')) break;
    }
    need_sign(p, ')');
    node->args = args.items;
    node->arg_count = (uint32_t)args.count;
}

/* Everything between the operands and the colon. */
struct details { const char *name, *body; int32_t slot; };

static void read_details(struct parser *p, struct ir_node *node, struct details *d)
{
    enum ir_op op = (enum ir_op)node->op;
    uint32_t seen = 0;
    while (!p->failed && !is_sign(p, ':')) {
        struct diag_span span = here(p);
        if (op == OP_param && p->token == TOKEN_STRING) {
            d->name = need(p, TOKEN_STRING, "a name");
            d->slot = optional_slot(p);
            continue;
        }
        const char *key = need(p, TOKEN_WORD, "an attribute or `:`");
        int32_t index = ir_attr_find(op, key);
        need_sign(p, '=');
        if (p->failed) return;
        if (ir_has_body(op) && strcmp(key, "func") == 0) d->body = need(p, TOKEN_STRING, "a function's name");
        else if (index < 0 || seen >> index & 1) error_at(p, span, "%s has no (other) attribute `%s`", ir_ops[op].name, key);
        else {
            node->attr[index] = need_ints(p);
            seen |= 1u << index;
        }
    }
}

static void add_param(struct parser *p, const struct ir_node *node, const struct details *d, struct diag_span span)
{
    struct ir_func *f = p->f;
    int64_t index = (int64_t)f->params.count;
    if (node->attr[0].n != 1 || node->attr[0].v[0] != index)
        error_at(p, span, "expected parameter index=%lld: parameters stand in their order", (long long)index);
    if (!d->name) error_at(p, span, "expected the name of the parameter");
    if (p->failed) return;
    struct ir_param param = {arena_string(&p->m->arena, d->name), node->type, d->slot, f->count};
    vec_push(&p->m->arena, &f->params, param);
}

static void read_node(struct parser *p)
{
    struct ir_node node = {0};
    struct details d = {NULL, NULL, -1};
    struct data_text data = {0, false};
    struct diag_span value_span = here(p);
    uint64_t number = strtoull(need(p, TOKEN_VALUE, "a value, `result` or `}`"), NULL, 10);
    need_sign(p, '=');
    struct diag_span span = here(p);
    const char *name = need(p, TOKEN_WORD, "an op");
    node.op = (uint16_t)ir_op_find(name);
    if (!node.op) error_at(p, span, "there is no op `%s`", name);
    read_operands(p, &node);
    if (node.op == OP_constant) data = skip_data(p);
    read_details(p, &node, &d);
    need_sign(p, ':');
    node.type = need_type(p);
    optional_sharding(p, &node.sharding);
    optional_place(p, &node.place);
    if (node.op == OP_constant) read_data(p, data, &node);
    if (!p->failed && node.op == OP_param) add_param(p, &node, &d, span);
    if (!p->failed && ir_has_body((enum ir_op)node.op) && !d.body) error_at(p, span, "expected `func=` with the body's name");
    if (!p->failed && map_get_number(&p->values, number) != MAP_NONE) error_at(p, value_span, "this value is defined twice");
    if (p->failed) return;
    ir_value value = ir_append_raw(p->f, &node);
    map_set_number(&p->values, number, value);
    vec_push(p->scratch, &p->nodes, ((struct node_place){p->f, value, d.body, span}));
}

static void read_func(struct parser *p)
{
    struct diag_span span = here(p);
    const char *name = need(p, TOKEN_STRING, "the function's name");
    if (p->failed) return;
    if (ir_func_find(p->m, name)) error_at(p, span, "two functions have the name \"%s\"", name);
    p->f = ir_func_new(p->m, name, take_word(p, "entry"));
    p->values = MAP(p->scratch);
    need_sign(p, '{');
    while (!p->failed && !is_sign(p, '}')) {
        if (!take_word(p, "result")) {
            read_node(p);
            continue;
        }
        struct ir_result r = {.name = need(p, TOKEN_STRING, "the result's name")};
        r.value = need_value(p);
        r.slot = optional_slot(p);
        if (p->failed) return;
        r.name = arena_string(&p->m->arena, r.name);
        vec_push(&p->m->arena, &p->f->results, r);
    }
    need_sign(p, '}');
}

/* ---------------------------------------------------------------- module */

static void read_mesh(struct parser *p)
{
    struct ir_mesh *mesh = &p->m->mesh;
    do {
        if (mesh->axis_count == IR_MAX_AXES) error_at(p, here(p), "expected at most %d mesh axes", IR_MAX_AXES);
        const char *name = need(p, TOKEN_STRING, "the name of a mesh axis");
        need_sign(p, '=');
        int64_t size = need_integer(p, 1, INT32_MAX);
        if (p->failed) return;
        mesh->name[mesh->axis_count] = arena_string(&p->m->arena, name);
        mesh->size[mesh->axis_count++] = size;
    } while (take_sign(p, ','));
}

static void read_place(struct parser *p)
{
    struct diag_span span = {0};
    need_integer(p, (int64_t)p->m->places.count, (int64_t)p->m->places.count);
    span.offset = (uint32_t)need_integer(p, 0, UINT32_MAX);
    need_sign(p, '+');
    span.length = (uint32_t)need_integer(p, 0, UINT32_MAX);
    const char *pointer = p->token == TOKEN_STRING ? need(p, TOKEN_STRING, "a JSON pointer") : NULL;
    if (!p->failed) ir_place_new(p->m, span, pointer);
}

static void read_slot_detail(struct parser *p, struct ir_slot *slot)
{
    struct diag_span span = here(p);
    const char *key = need(p, TOKEN_WORD, "a property of the slot");
    if (strcmp(key, "frozen") == 0) slot->frozen = true;
    else if (strcmp(key, "computed") == 0) slot->computed = true;
    else {
        need_sign(p, '=');
        struct diag_span number = here(p);
        if (strcmp(key, "index_limit") == 0) slot->index_limit = need_integer(p, 0, INT64_MAX);
        else if (strcmp(key, "batch_dims") == 0) slot->batch_dims = (uint32_t)need_integer(p, 0, UINT32_MAX);
        else if (strcmp(key, "of") == 0) slot->param = (uint32_t)need_integer(p, 0, UINT32_MAX - 1) + 1;
        else if (strcmp(key, "spec") == 0) slot->sharding_spec = need(p, TOKEN_STRING, "a JSON text");
        else if (strcmp(key, "initial") == 0) {
            slot->initial = number_of(p, p->word, number);
            next(p);
        } else error_at(p, span, "a slot has no property `%s`", key);
    }
}

static void read_slot(struct parser *p)
{
    struct ir_slot slot = {0};
    need_integer(p, (int64_t)p->m->slots.count, (int64_t)p->m->slots.count);
    slot.name = need(p, TOKEN_STRING, "the slot's name");
    struct diag_span span = here(p);
    const char *role = need(p, TOKEN_WORD, "the slot's role");
    slot.role = (enum ir_role)ir_role_find(role);
    if (!slot.role) error_at(p, span, "there is no role `%s`", role);
    slot.type = need_type(p);
    optional_sharding(p, &slot.sharding);
    while (p->token == TOKEN_WORD && !is_word(p, "slot") && !is_word(p, "func")) read_slot_detail(p, &slot);
    optional_place(p, &slot.place);
    if (!p->failed) ir_slot_new(p->m, slot);
}

static void read_module(struct parser *p)
{
    if (!take_word(p, "module")) error_at(p, here(p), "expected `module`, found `%s`", found(p));
    const char *name = need(p, TOKEN_STRING, "the module's name");
    if (!p->failed) p->m->name = arena_string(&p->m->arena, name);
    if (!take_word(p, "stage")) error_at(p, here(p), "expected `stage`, found `%s`", found(p));
    struct diag_span span = here(p);
    int stage = ir_stage_find(need(p, TOKEN_WORD, "a stage"));
    if (!stage) error_at(p, span, "expected stage tensor, spmd or kernel");
    else memcpy(&p->m->stage, &stage, sizeof p->m->stage);
    while (!p->failed && p->token != TOKEN_END) {
        if (take_word(p, "document")) p->m->document = arena_string(&p->m->arena, need(p, TOKEN_STRING, "a JSON text"));
        else if (take_word(p, "sharding_rules"))
            p->m->sharding_rules = arena_string(&p->m->arena, need(p, TOKEN_STRING, "a JSON text"));
        else if (take_word(p, "mesh")) read_mesh(p);
        else if (take_word(p, "place")) read_place(p);
        else if (take_word(p, "slot")) read_slot(p);
        else if (take_word(p, "func")) read_func(p);
        else error_at(p, here(p), "expected mesh, place, slot or func, found `%s`", found(p));
    }
}

/* ---------------------------------------------------------------- after reading */

static void resolve_bodies(struct parser *p)
{
    for (size_t i = 0; i < p->nodes.count && !p->failed; i++) {
        struct node_place *n = &p->nodes.items[i];
        if (!n->body) continue;
        struct ir_func *body = ir_func_find(p->m, n->body);
        if (!body) error_at(p, n->span, "there is no function \"%s\"", n->body);
        else n->f->nodes[n->value].func = ir_func_index(body);
    }
}

static void check_types(struct parser *p)
{
    for (size_t i = 0; i < p->nodes.count && !p->failed; i++) {
        struct node_place *n = &p->nodes.items[i];
        struct ir_node node = n->f->nodes[n->value];
        struct ir_type stated = node.type;
        const char *message;
        if (!ir_infer(n->f, &node, p->scratch, &message)) error_at(p, n->span, "%s", message);
        else if (!ir_type_equal(&node.type, &stated))
            error_at(p, n->span, "expected the type %s, found %s", ir_type_text(p->scratch, &node.type),
                     ir_type_text(p->scratch, &stated));
    }
}

static void check_module(struct parser *p)
{
    struct str faults = STR(p->scratch);
    if (p->failed || ir_verify(p->m, &faults)) return;
    const char *text = str_text(&faults);
    error_at(p, (struct diag_span){0, 6}, "%.*s", (int)strcspn(text, "\n"), text); /* the first one */
}

struct ir_module *ir_parse(const char *text, size_t length, struct diags *diags)
{
    struct arena scratch = {0};
    struct parser p = {.text = text, .length = length, .scratch = &scratch, .diags = diags, .m = ir_module_new("")};
    if (length >= UINT32_MAX) error_at(&p, (struct diag_span){0, 0}, "the text is too long");
    next(&p);
    read_module(&p);
    resolve_bodies(&p);
    check_types(&p);
    check_module(&p);
    if (p.failed) {
        ir_module_free(p.m);
        p.m = NULL;
    }
    arena_free(&scratch);
    return p.m;
}
