/* `$` arithmetic: a string "$4*hidden" in a number position, over constants and the parameters of a `define`.
 * Python's operators on numbers: + - * / // % **, unary minus and plus, parentheses; integers stay integers
 * (within 2^53) except under /. Errors name the place inside the string. */
#include "frontend/document/document.h"

#include <math.h>
#include <string.h>

enum { LONGEST = 64 * 1024, DEEPEST = 128 };

struct number {
    double value;
    bool integer;
};
struct sum { /* one evaluation */
    struct fe *fe;
    fe_json where;
    const char *text, *shown; /* shown: shortened, for messages */
    uint32_t at, depth;
    bool failed;
};

static struct number wrong(struct sum *s, uint32_t at, uint32_t length, const char *code, const char *message)
{
    if (!s->failed) fe_error_in(s->fe, s->where, at, length, code, "in \"%s\": %s", s->shown, message);
    s->failed = true;
    return (struct number){0, true};
}

static void skip(struct sum *s)
{
    while (s->text[s->at] == ' ' || s->text[s->at] == '\t') s->at++;
}

static struct number add_sub(struct sum *);
static struct number power(struct sum *);

/* ---------------------------------------------------------------- operands */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/* The name at s->at, in the arena. */
static const char *read_name(struct sum *s)
{
    uint32_t from = s->at;
    while (is_letter(s->text[s->at]) || is_digit(s->text[s->at])) s->at++;
    return arena_string_n(s->fe->arena, s->text + from, s->at - from);
}

static struct number name(struct sum *s)
{
    uint32_t from = s->at;
    const char *wanted = read_name(s);
    const struct fe_scope *found = fe_constant(s->fe, wanted);
    if (found) {
        if (isnan(found->value)) s->failed = true; /* its own error was recorded */
        return (struct number){found->value, found->integer};
    }
    size_t count = 0, i = 0;
    for (const struct fe_scope *c = s->fe->constants; c; c = c->outer) count++;
    const char **names = arena_new_array(s->fe->arena, const char *, count + 1);
    for (const struct fe_scope *c = s->fe->constants; c; c = c->outer) names[i++] = c->name;
    if (s->failed) return (struct number){0, true};
    s->failed = true;
    struct diag *d = fe_error_in(s->fe, s->where, from, s->at - from, "E0108", "in \"%s\": unknown constant \"%.80s\"",
                                 s->shown, wanted);
    fe_suggest(s->fe, d, wanted, names, count);
    return (struct number){0, true};
}

static struct number literal(struct sum *s)
{
    uint32_t from = s->at;
    bool integer = true;
    while (is_digit(s->text[s->at])) s->at++;
    if (s->text[s->at] == '.') {
        integer = false;
        for (s->at++; is_digit(s->text[s->at]);) s->at++;
    }
    if ((s->text[s->at] | 32) == 'e') {
        uint32_t digits = s->at + 1;
        if (s->text[digits] == '+' || s->text[digits] == '-') digits++;
        if (is_digit(s->text[digits])) {
            integer = false;
            for (s->at = digits; is_digit(s->text[s->at]);) s->at++;
        }
    }
    uint32_t length = s->at - from;
    if (is_letter(s->text[s->at])) return wrong(s, from, length + 1, "E0106", "a number runs into a name");
    /* The JSON reader knows how to read it exactly; it wants digits on both sides of the point. */
    const char *digits = arena_format(s->fe->arena, "%s%.*s", s->text[from] == '.' ? "0" : "", (int)length,
                                      s->text + from);
    const char *point = strchr(digits, '.');
    if (point && !is_digit(point[1]))
        digits = arena_format(s->fe->arena, "%.*s0%s", (int)(point - digits) + 1, digits, point + 1);
    struct json json;
    struct json_error error;
    if (!json_scan(s->fe->arena, digits, strlen(digits), NULL, &json, &error))
        return wrong(s, from, length, "E0106", error.message);
    return (struct number){json.values[0].number, integer};
}

static struct number operand(struct sum *s)
{
    skip(s);
    char c = s->text[s->at];
    if (is_digit(c) || (c == '.' && is_digit(s->text[s->at + 1]))) return literal(s);
    if (is_letter(c)) return name(s);
    if (c == '(') {
        uint32_t open = s->at++;
        struct number x = add_sub(s);
        skip(s);
        if (!s->failed && s->text[s->at] != ')')
            return wrong(s, open, 1, "E0106",
                         arena_format(s->fe->arena, "this '(' is not closed, ')' expected after character %u", s->at));
        if (!s->failed) s->at++;
        return x;
    }
    if (c == 0) return wrong(s, s->at, 1, "E0106", "it ends where a number, a name or '(' was expected");
    return wrong(s, s->at, 1, "E0106",
                 arena_format(s->fe->arena, "a number, a name or '(' was expected at character %u", s->at + 1));
}

/* ---------------------------------------------------------------- operators */

static struct number checked(struct sum *s, uint32_t at, uint32_t length, struct number x)
{
    if (s->failed) return x;
    if (!isfinite(x.value)) return wrong(s, at, length, "E0106", "the result is too large for a number (overflow)");
    if (x.integer && fabs(x.value) > 9007199254740991.0)
        return wrong(s, at, length, "E0106", "the result is an integer beyond 2^53-1 (overflow)");
    return x;
}

static struct number apply(struct sum *s, uint32_t at, const char *op, struct number a, struct number b)
{
    uint32_t n = (uint32_t)strlen(op);
    struct number r = {0, a.integer && b.integer};
    if (s->failed) return r;
    bool divides = *op == '/' || *op == '%';
    if (divides && b.value == 0) return wrong(s, at, n, "E0106", "division by zero");
    if (strcmp(op, "+") == 0) r.value = a.value + b.value;
    else if (strcmp(op, "-") == 0) r.value = a.value - b.value;
    else if (strcmp(op, "*") == 0) r.value = a.value * b.value;
    else if (strcmp(op, "/") == 0) r = (struct number){a.value / b.value, false};
    else if (strcmp(op, "%") == 0) {
        r.value = fmod(a.value, b.value);
        if (r.value != 0 && (r.value < 0) != (b.value < 0)) r.value += b.value; /* the sign of the divisor */
    } else if (strcmp(op, "//") == 0) {
        double rest = fmod(a.value, b.value);
        if (rest != 0 && (rest < 0) != (b.value < 0)) rest += b.value;
        r.value = nearbyint((a.value - rest) / b.value);
    } else {
        if (a.value == 0 && b.value < 0) return wrong(s, at, n, "E0106", "zero to a negative power: division by zero");
        if (a.value < 0 && b.value != floor(b.value))
            return wrong(s, at, n, "E0106", "a negative number to a fractional power");
        r = (struct number){pow(a.value, b.value), r.integer && b.value >= 0};
    }
    return checked(s, at, n, r);
}

static struct number unary(struct sum *s)
{
    skip(s);
    char c = s->text[s->at];
    if (++s->depth > DEEPEST) return wrong(s, s->at, 1, "E0106", "nested deeper than 128 levels");
    struct number x;
    if (c == '-' || c == '+') {
        s->at++;
        x = unary(s);
        if (c == '-') x.value = x.integer && x.value == 0 ? 0 : -x.value;
    } else {
        x = power(s);
    }
    s->depth--;
    return x;
}

static struct number power(struct sum *s)
{ /* binds tighter than a minus on its left, looser than one on its right: -2**-2 */
    struct number x = operand(s);
    skip(s);
    if (s->failed || s->text[s->at] != '*' || s->text[s->at + 1] != '*') return x;
    uint32_t at = s->at;
    s->at += 2;
    return apply(s, at, "**", x, unary(s));
}

static struct number mul_div(struct sum *s)
{
    struct number x = unary(s);
    for (skip(s); !s->failed; skip(s)) {
        uint32_t at = s->at;
        char c = s->text[at];
        const char *op = c == '*' ? "*" : c == '%' ? "%" : c == '/' ? s->text[at + 1] == '/' ? "//" : "/" : NULL;
        if (!op) break;
        s->at += (uint32_t)strlen(op);
        x = apply(s, at, op, x, unary(s));
    }
    return x;
}

static struct number add_sub(struct sum *s)
{
    struct number x = mul_div(s);
    for (skip(s); !s->failed && (s->text[s->at] == '+' || s->text[s->at] == '-'); skip(s)) {
        uint32_t at = s->at++;
        x = apply(s, at, s->text[at] == '+' ? "+" : "-", x, mul_div(s));
    }
    return x;
}

bool fe_arithmetic(struct fe *fe, fe_json where, double *value, bool *integer)
{
    struct sum s = {.fe = fe, .where = where, .text = where->string, .at = 1};
    s.shown = strlen(s.text) <= 60 ? s.text : arena_format(fe->arena, "%.56s...", s.text);
    if (where->length > LONGEST) {
        fe_error(fe, where, "E0106", "arithmetic of %u characters; at most %d are read", where->length, LONGEST);
        return false;
    }
    struct number x = add_sub(&s);
    skip(&s);
    if (!s.failed && s.text[s.at])
        wrong(&s, s.at, 1, "E0106",
              arena_format(fe->arena, "an operator or the end was expected at character %u", s.at + 1));
    *value = x.value;
    *integer = x.integer;
    return !s.failed;
}

/* ---------------------------------------------------------------- numbers of the document */

const struct fe_scope *fe_constant(const struct fe *fe, const char *wanted)
{
    for (const struct fe_scope *c = fe->constants; c; c = c->outer)
        if (strcmp(c->name, wanted) == 0) return c;
    return NULL;
}

void fe_constant_push(struct fe *fe, const char *new_name, double value, bool integer)
{
    struct fe_scope *c = arena_new(fe->arena, struct fe_scope);
    *c = (struct fe_scope){fe->constants, new_name, value, integer};
    fe->constants = c;
}

/* Whether a JSON number is written as an integer. */
static bool is_integer_text(const struct fe *fe, fe_json v)
{
    for (uint32_t i = 0; i < v->length; i++)
        if (strchr(".eE", fe->json.text[v->offset + i])) return false;
    return true;
}

bool fe_number_kind(struct fe *fe, fe_json v, double *value, bool *integer)
{
    if (v->kind == JSON_NUMBER) {
        *value = v->number;
        *integer = is_integer_text(fe, v);
        return true;
    }
    if (v->kind == JSON_STRING && v->string[0] == '$') return fe_arithmetic(fe, v, value, integer);
    struct diag *d = fe_error(fe, v, "E0101", "expected a number, found %s", fe_found(fe, v));
    if (v->kind == JSON_STRING) d->hint = "a string that starts with $ is arithmetic over the constants";
    return false;
}

bool fe_number(struct fe *fe, fe_json v, double *value)
{
    bool integer;
    return fe_number_kind(fe, v, value, &integer);
}

bool fe_integer(struct fe *fe, fe_json v, int64_t *out)
{
    double x;
    if (!fe_number(fe, v, &x)) return false;
    if (x == floor(x) && fabs(x) <= 9007199254740991.0) {
        *out = (int64_t)x;
        return true;
    }
    struct str number = STR(fe->arena);
    str_add_number(&number, x, false);
    if (v->kind == JSON_STRING)
        fe_error(fe, v, "E0104", "expected an integer, but %s is %s", fe_found(fe, v), str_text(&number));
    else fe_error(fe, v, "E0104", "expected an integer, found %s", fe_found(fe, v));
    return false;
}
