/* Expressions and `$` arithmetic: text -> tree. Tokens and precedence are those of Python, without lambdas,
 * comprehensions and what branches. A dotted name (params.layers.0.kernel) is one token, so its numeric segments are no
 * numbers. Errors carry the byte offset of the token that did not fit. */
#include "frontend/document/expr_parse.h"
#include <stdlib.h>
#include <string.h>

enum token_kind { TOK_END, TOK_NUMBER, TOK_STRING, TOK_NAME, TOK_SIGN, TOK_BAD };
struct token {
    enum token_kind kind;
    uint32_t at, length;
    char sign[3];
    double number;
    bool integer;
    const char *text;
};

struct parser {
    struct arena *arena;
    const char *text;
    uint32_t at; /* behind the current token */
    struct token token;
    uint32_t end; /* of the token before */
    uint32_t depth;
    struct expr_fault *fault;
    bool failed;
    bool arithmetic; /* of the operators those on numbers */
};

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static struct expr_node *fail(struct parser *p, uint32_t at, uint32_t length, const char *message)
{
    if (!p->failed) *p->fault = (struct expr_fault){at, length, message};
    p->failed = true;
    return NULL;
}

static uint32_t character_length(const char *s)
{ /* bytes of the UTF-8 character at s */
    unsigned char c = (unsigned char)*s;
    uint32_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    for (uint32_t i = 1; i < n; i++)
        if (!s[i]) return i;
    return n;
}

static void read_number(struct parser *p, struct token *t)
{
    const char *s = p->text + p->at;
    uint32_t n = 0;
    t->integer = true;
    while (is_digit(s[n]) || (s[n] == '_' && is_digit(s[n + 1]))) n++;
    if (s[n] == '.') {
        t->integer = false;
        for (n++; is_digit(s[n]);) n++;
    }
    if (s[n] == 'e' || s[n] == 'E') {
        uint32_t m = n + 1;
        if (s[m] == '+' || s[m] == '-') m++;
        if (is_digit(s[m])) {
            t->integer = false;
            while (is_digit(s[m])) m++;
            n = m;
        }
    }
    if (p->arithmetic && is_letter(s[n])) fail(p, t->at, n + 1, "a number runs into a name");
    char *copy = arena_string_n(p->arena, s, n), *to = copy;
    for (const char *from = copy; *from; from++)
        if (*from != '_') *to++ = *from;
    *to = 0;
    t->kind = TOK_NUMBER;
    t->number = strtod(copy, NULL);
    t->length = n;
}

static void read_name(struct parser *p, struct token *t)
{
    const char *s = p->text + p->at;
    uint32_t n = 0;
    while (is_letter(s[n]) || is_digit(s[n])) n++;
    while (s[n] == '.' && (is_letter(s[n + 1]) || is_digit(s[n + 1]))) {
        n++;
        while (is_letter(s[n]) || is_digit(s[n])) n++;
    }
    t->kind = TOK_NAME;
    t->length = n;
    t->text = arena_string_n(p->arena, s, n);
}

static void read_sign(struct parser *p, struct token *t)
{
    static const char *const two[] = {"//", "**", "<<", ">>", "==", "!=", "<=", ">="};
    const char *s = p->text + p->at;
    t->kind = TOK_SIGN;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (s[0] == two[i][0] && s[1] == two[i][1]) {
            memcpy(t->sign, two[i], 3);
            t->length = 2;
            return;
        }
    t->length = character_length(s);
    if (!strchr("+-*/%@~&|^<>()[],:=.", *s)) {
        t->kind = TOK_BAD;
        fail(p, t->at, t->length,
             *s == '$' ? "unexpected character '$'; constants are names in expressions: batch, not $batch"
                       : arena_format(p->arena, "unexpected character '%.*s'", (int)t->length, s));
        return;
    }
    t->sign[0] = *s;
    t->sign[1] = 0;
    if (s[0] == '.' && s[1] == '.' && s[2] == '.') t->length = 3;
    else if (s[0] == '.' && !(p->at && strchr(")]", p->text[p->at - 1]) && is_letter(s[1]))) {
        t->kind = TOK_BAD;
        fail(p, t->at, 1, "unexpected '.'");
    }
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void advance(struct parser *p)
{
    p->end = p->token.at + p->token.length;
    while (is_blank(p->text[p->at])) p->at++;
    struct token t = {.at = p->at};
    const char *s = p->text + p->at;
    if (!*s) t.kind = TOK_END;
    else if (is_digit(*s) || (*s == '.' && is_digit(s[1]))) read_number(p, &t);
    else if (is_letter(*s)) read_name(p, &t);
    else if (*s == '\'' || *s == '"') {
        uint32_t n = 1;
        while (s[n] && s[n] != *s) n++;
        t.kind = TOK_STRING;
        t.text = arena_string_n(p->arena, s + 1, n - 1);
        t.length = n + 1;
        if (!s[n]) {
            fail(p, t.at, n, "the string is not closed");
            t.kind = TOK_BAD;
        }
    } else read_sign(p, &t);
    p->token = t;
    p->at += t.length;
}

static bool sign_is(const struct parser *p, const char *sign)
{
    return p->token.kind == TOK_SIGN && strcmp(p->token.sign, sign) == 0;
}

static bool accept(struct parser *p, const char *sign)
{
    if (!sign_is(p, sign)) return false;
    advance(p);
    return true;
}

static struct expr_node *node_new(struct parser *p, enum expr_kind kind, uint32_t at)
{
    struct expr_node *n = arena_new(p->arena, struct expr_node);
    n->kind = kind;
    n->at = at;
    n->depth = 1;
    return n;
}

/* Sets length and depth once all items are there. */
static struct expr_node *finish(struct parser *p, struct expr_node *n)
{
    n->length = p->end - n->at;
    for (uint32_t i = 0; i < n->count; i++)
        if (n->items[i] && n->items[i]->depth >= n->depth) n->depth = n->items[i]->depth + 1;
    if (n->depth > EXPR_MAX_CHAIN) return fail(p, n->at, n->length, "the expression is too long; use several");
    return n;
}

static struct expr_node *node_of(struct parser *p, enum expr_kind kind, uint32_t at, struct expr_node *const *items,
                                 uint32_t count)
{
    struct expr_node *n = node_new(p, kind, at);
    n->items = arena_copy(p->arena, items, count * sizeof *items);
    n->count = count;
    return finish(p, n);
}

static struct expr_node *parse_any(struct parser *p);

static struct expr_node *missing(struct parser *p, const char *expected)
{
    if (p->failed) return NULL;
    if (p->token.kind == TOK_END)
        return fail(
            p, p->end ? p->end - 1 : 0, 1,
            arena_format(p->arena, "%s expected after character %u, found the end", expected, (unsigned)p->end));
    return fail(
        p, p->token.at, p->token.length,
        arena_format(p->arena, "%s expected, found '%.*s'", expected, (int)p->token.length, p->text + p->token.at));
}

/* What is missing where the current token stands, in the words of arithmetic. */
static struct expr_node *missing_here(struct parser *p, const char *expected)
{
    bool end = p->token.kind == TOK_END;
    return fail(p, p->token.at, 1,
                end ? arena_format(p->arena, "it ends where %s was expected", expected)
                    : arena_format(p->arena, "%s was expected at character %u", expected, p->token.at + 1));
}

/* A list up to `close`; the opening sign was read. `comma`: a comma was seen. */
static bool parse_list(struct parser *p, const char *close, struct expr_node *into, bool *comma)
{
    VEC(struct expr_node *) items = {0};
    *comma = false;
    while (!sign_is(p, close)) {
        struct expr_node *item = parse_any(p);
        if (!item) return false;
        vec_push(p->arena, &items, item);
        if (!accept(p, ",")) break;
        *comma = true;
    }
    if (!sign_is(p, close)) {
        missing(p, close[0] == ')' ? "')'" : "']'");
        return false;
    }
    advance(p);
    into->items = items.items;
    into->count = (uint32_t)items.count;
    return true;
}

static struct expr_node *parse_call(struct parser *p, const char *name, uint32_t at)
{
    struct expr_node *n = node_new(p, EXPR_CALL, at);
    VEC(struct expr_node *) items = {0};
    VEC(const char *) names = {0};
    n->text = name;
    while (!sign_is(p, ")")) {
        const char *keyword = NULL;
        if (p->token.kind == TOK_NAME) { /* name= but not name== */
            const char *s = p->text + p->at;
            while (is_blank(*s)) s++;
            if (*s == '=' && s[1] != '=') {
                keyword = p->token.text;
                advance(p);
                advance(p);
            }
        }
        if (!keyword && names.count && names.items[names.count - 1])
            return fail(p, p->token.at, p->token.length, "a positional argument cannot follow a keyword argument");
        struct expr_node *item = parse_any(p);
        if (!item) return NULL;
        vec_push(p->arena, &items, item);
        vec_push(p->arena, &names, keyword);
        if (!accept(p, ",")) break;
    }
    if (!sign_is(p, ")")) return missing(p, "')'");
    advance(p);
    n->items = items.items;
    n->names = names.items;
    n->count = (uint32_t)items.count;
    return finish(p, n);
}

static bool word_is(const struct parser *p, const char *word)
{
    return p->token.kind == TOK_NAME && strcmp(p->token.text, word) == 0;
}

static struct expr_node *parse_atom(struct parser *p)
{
    struct token t = p->token;
    struct expr_node *n;
    bool comma;
    switch (t.kind) {
    case TOK_NUMBER:
        advance(p);
        n = node_new(p, EXPR_NUMBER, t.at);
        n->number = t.number;
        n->integer = t.integer;
        return finish(p, n);
    case TOK_STRING:
        advance(p);
        n = node_new(p, EXPR_STRING, t.at);
        n->text = t.text;
        return finish(p, n);
    case TOK_NAME:
        if (word_is(p, "not")) return fail(p, t.at, t.length, "\"not\" does not work on tensors; use ~");
        if (word_is(p, "lambda"))
            return fail(p, t.at, t.length,
                        "\"lambda\" is not supported yet; the argument of a function is an expression over its names");
        advance(p);
        if (accept(p, "(")) return parse_call(p, t.text, t.at);
        n = node_new(p, EXPR_NAME, t.at);
        n->text = t.text;
        if (!strcmp(t.text, "True") || !strcmp(t.text, "False") || !strcmp(t.text, "None")) {
            n->kind = EXPR_CONSTANT;
            n->number = t.text[0] == 'T' ? 1 : t.text[0] == 'F' ? 0 : -1;
        }
        return finish(p, n);
    case TOK_SIGN:
        if (sign_is(p, ".") && t.length == 3) {
            advance(p);
            return finish(p, node_new(p, EXPR_ELLIPSIS, t.at));
        }
        if (accept(p, "(")) {
            n = node_new(p, EXPR_TUPLE, t.at);
            if (!parse_list(p, ")", n, &comma)) return NULL;
            if (n->count == 1 && !comma) return n->items[0];
            return finish(p, n);
        }
        if (accept(p, "[")) {
            n = node_new(p, EXPR_TUPLE, t.at);
            n->list = true;
            return parse_list(p, "]", n, &comma) ? finish(p, n) : NULL;
        }
        break;
    default: break;
    }
    return p->arithmetic ? missing_here(p, "a number, a name or '('") : missing(p, "a value");
}

/* a:b:c, each part optional, or an ordinary expression. */
static struct expr_node *parse_subscript(struct parser *p)
{
    uint32_t at = p->token.at;
    struct expr_node *part[3] = {0};
    uint32_t colons = 0;
    for (;;) {
        if (!sign_is(p, ":") && !sign_is(p, ",") && !sign_is(p, "]")) {
            part[colons] = parse_any(p);
            if (!part[colons]) return NULL;
        }
        if (colons == 2 || !sign_is(p, ":")) break;
        advance(p);
        colons++;
    }
    if (!colons) return part[0] ? part[0] : missing(p, "an index");
    return node_of(p, EXPR_SLICE, at, part, 3);
}

static struct expr_node *parse_index(struct parser *p, struct expr_node *base)
{
    VEC(struct expr_node *) items = {0};
    vec_push(p->arena, &items, base);
    while (!sign_is(p, "]")) {
        struct expr_node *item = parse_subscript(p);
        if (!item) return NULL;
        vec_push(p->arena, &items, item);
        if (!accept(p, ",")) break;
    }
    if (!sign_is(p, "]")) return missing(p, "']'");
    if (items.count == 1) return missing(p, "an index");
    advance(p);
    return node_of(p, EXPR_INDEX, base->at, items.items, (uint32_t)items.count);
}

/* base.name or base.name(arguments), where the base is no name: the dot was read. */
static struct expr_node *parse_part(struct parser *p, struct expr_node *base)
{
    struct token t = p->token;
    if (t.kind != TOK_NAME) return missing(p, "a name");
    advance(p);
    bool call = accept(p, "(");
    struct expr_node *n = call ? parse_call(p, t.text, t.at) : node_new(p, EXPR_PART, t.at);
    if (!n) return NULL;
    struct expr_node **items = arena_new_array(p->arena, struct expr_node *, n->count + 1);
    const char **names = arena_new_array(p->arena, const char *, n->count + 1);
    items[0] = base;
    for (uint32_t i = 0; i < n->count; i++) items[i + 1] = n->items[i], names[i + 1] = n->names[i];
    n->kind = call ? EXPR_METHOD : EXPR_PART;
    n->text = t.text;
    n->items = items;
    n->names = names;
    n->count++;
    return finish(p, n);
}

static struct expr_node *parse_postfix(struct parser *p)
{
    struct expr_node *base = parse_atom(p);
    while (base) {
        bool value = base->kind == EXPR_CALL || base->kind == EXPR_INDEX || base->kind == EXPR_METHOD ||
                     base->kind == EXPR_PART || base->kind == EXPR_TUPLE || base->kind == EXPR_BINARY ||
                     base->kind == EXPR_UNARY || base->kind == EXPR_NAME || base->kind == EXPR_IF;
        if (accept(p, "[")) base = parse_index(p, base);
        else if (value && sign_is(p, ".") && p->token.length == 1) {
            advance(p);
            base = parse_part(p, base);
        } else return base;
    }
    return base;
}

static struct expr_node *binary(struct parser *p, enum expr_operator op, uint32_t sign, struct expr_node *a,
                                struct expr_node *b)
{
    struct expr_node *n = node_of(p, EXPR_BINARY, a->at, (struct expr_node *[]){a, b}, 2);
    if (n) n->op = op, n->sign = sign;
    return n;
}

static struct expr_node *parse_unary(struct parser *p)
{
    uint32_t at = p->token.at;
    enum expr_operator op = sign_is(p, "-")   ? EXPR_OP_NEG
                            : sign_is(p, "+") ? EXPR_OP_POS
                            : sign_is(p, "~") ? EXPR_OP_NOT
                                              : EXPR_OP_NONE;
    if (++p->depth > 2 * EXPR_MAX_DEPTH) /* one parenthesis takes two */
        return fail(p, at, p->token.length,
                    arena_format(p->arena, "the expression is nested more than %d levels deep", EXPR_MAX_DEPTH));
    struct expr_node *n;
    if (op) {
        advance(p);
        struct expr_node *x = parse_unary(p);
        if (!x) return NULL;
        n = node_of(p, EXPR_UNARY, at, &x, 1);
        if (n) n->op = op;
    } else {
        n = parse_postfix(p);
        uint32_t sign = p->token.at;
        if (n && accept(p, "**")) { /* binds tighter than a unary sign on its left, groups to the right */
            struct expr_node *exponent = parse_unary(p);
            n = exponent ? binary(p, EXPR_OP_POW, sign, n, exponent) : NULL;
        }
    }
    p->depth--;
    return n;
}

static const struct {
    char sign[3];
    uint8_t level;
    enum expr_operator op;
} operators[] = {
    {"==", 1, EXPR_OP_EQ}, {"!=", 1, EXPR_OP_NE},    {"<", 1, EXPR_OP_LT},   {"<=", 1, EXPR_OP_LE},
    {">", 1, EXPR_OP_GT},  {">=", 1, EXPR_OP_GE},    {"|", 2, EXPR_OP_OR},   {"^", 3, EXPR_OP_XOR},
    {"&", 4, EXPR_OP_AND}, {"<<", 5, EXPR_OP_SHL},   {">>", 5, EXPR_OP_SHR}, {"+", 6, EXPR_OP_ADD},
    {"-", 6, EXPR_OP_SUB}, {"*", 7, EXPR_OP_MUL},    {"/", 7, EXPR_OP_DIV},  {"//", 7, EXPR_OP_FLOORDIV},
    {"%", 7, EXPR_OP_MOD}, {"@", 7, EXPR_OP_MATMUL},
};

static enum expr_operator peek_operator(const struct parser *p, uint32_t level)
{
    if (p->token.kind != TOK_SIGN) return EXPR_OP_NONE;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].level == level && !strcmp(operators[i].sign, p->token.sign)) {
            enum expr_operator op = operators[i].op;
            return p->arithmetic && (op < EXPR_OP_ADD || op > EXPR_OP_MOD) ? EXPR_OP_NONE : op;
        }
    return EXPR_OP_NONE;
}

static struct expr_node *parse_level(struct parser *p, uint32_t level)
{
    if (level > 7) return parse_unary(p);
    struct expr_node *left = parse_level(p, level + 1);
    enum expr_operator op;
    uint32_t seen = 0;
    while (left && (op = peek_operator(p, level)) != EXPR_OP_NONE) {
        if (level == 1 && seen++)
            return fail(p, p->token.at, p->token.length, "comparisons cannot be chained; write (a < b) & (b < c)");
        uint32_t sign = p->token.at;
        advance(p);
        struct expr_node *right = parse_level(p, level + 1);
        left = right ? binary(p, op, sign, left, right) : NULL;
    }
    return left;
}

/* Python's words for conditions are an error. */
static bool is_junction(struct parser *p)
{
    if (!word_is(p, "and") && !word_is(p, "or")) return false;
    fail(p, p->token.at, p->token.length, "\"and\" and \"or\" do not work on tensors; use & and |");
    return true;
}

/* a if c else b; a was read. */
static struct expr_node *parse_choice(struct parser *p, struct expr_node *a)
{
    advance(p);
    struct expr_node *c = parse_level(p, 1);
    if (!c) return NULL;
    if (is_junction(p)) return NULL;
    if (!word_is(p, "else")) return missing(p, "\"else\"");
    advance(p);
    struct expr_node *items[] = {c, a, parse_any(p)};
    return items[2] ? node_of(p, EXPR_IF, a->at, items, 3) : NULL;
}

static struct expr_node *parse_any(struct parser *p)
{
    if (++p->depth > 2 * EXPR_MAX_DEPTH) /* one parenthesis takes two */
        return fail(p, p->token.at, p->token.length ? p->token.length : 1,
                    arena_format(p->arena, "the expression is nested more than %d levels deep", EXPR_MAX_DEPTH));
    struct expr_node *n = parse_level(p, 1);
    if (n && is_junction(p)) return NULL;
    if (n && word_is(p, "if")) n = parse_choice(p, n);
    p->depth--;
    return n;
}

static struct expr_node *parse(struct parser *p)
{
    advance(p);
    if (p->failed) return NULL;
    if (p->token.kind == TOK_END && !p->arithmetic)
        return fail(p, 0, p->token.at ? p->token.at : 1, "the expression is empty");
    struct expr_node *n = parse_any(p);
    if (p->failed || !n) return NULL;
    if (p->token.kind == TOK_END) return n;
    return p->arithmetic ? missing_here(p, "an operator or the end") : missing(p, "an operator");
}

struct expr_node *expr_parse(struct arena *arena, const char *text, struct expr_fault *fault)
{
    return parse(&(struct parser){.arena = arena, .text = text, .fault = fault});
}

struct expr_node *expr_parse_arithmetic(struct arena *arena, const char *text, struct expr_fault *fault)
{
    return parse(&(struct parser){.arena = arena, .text = text, .at = 1, .fault = fault, .arithmetic = true});
}
