/* `$` arithmetic: a string "$4*hidden" in a number position, over constants and the parameters of a `define`.
 * The syntax is that of expressions (expr_parse.c), of which numbers, names, + - * / // % ** and parentheses are there;
 * integers stay integers as in Python (within 2^53) except under /. Errors name the place inside the string. */
#include "frontend/document/document.h"
#include "frontend/document/expr_parse.h"

#include <math.h>
#include <string.h>

enum { LONGEST = 64 * 1024 };
static const double largest = 9007199254740991.0;

struct number {
    double value;
    bool integer;
};
struct sum { /* one evaluation */
    struct fe *fe;
    fe_json where;
    const char *shown; /* shortened, for messages */
    bool failed;
};

static struct number wrong(struct sum *s, uint32_t at, uint32_t length, const char *message)
{
    if (!s->failed) fe_error_in(s->fe, s->where, at, length, "E0106", "in \"%s\": %s", s->shown, message);
    s->failed = true;
    return (struct number){0, true};
}

static struct number name(struct sum *s, const struct expr_node *n)
{
    const struct fe_scope *found = fe_constant(s->fe, n->text);
    if (found) {
        if (isnan(found->value)) s->failed = true; /* its own error was recorded */
        return (struct number){found->value, found->integer};
    }
    size_t count = 0, i = 0;
    for (const struct fe_scope *c = s->fe->constants; c; c = c->outer) count++;
    const char **names = arena_new_array(s->fe->arena, const char *, count + 1);
    for (const struct fe_scope *c = s->fe->constants; c; c = c->outer) names[i++] = c->name;
    struct diag *d = fe_error_in(s->fe, s->where, n->at, n->length, "E0108", "in \"%s\": unknown constant \"%.80s\"",
                                 s->shown, n->text);
    fe_suggest(s->fe, d, n->text, names, count);
    s->failed = true;
    return (struct number){0, true};
}

double fe_python_number(enum expr_operator op, double a, double b)
{
    double rest = op == EXPR_OP_MOD || op == EXPR_OP_FLOORDIV ? fmod(a, b) : 0;
    bool below = rest != 0 && (rest < 0) != (b < 0); /* the rest has the sign of the divisor */
    switch (op) {
    case EXPR_OP_ADD: return a + b;
    case EXPR_OP_SUB: return a - b;
    case EXPR_OP_MUL: return a * b;
    case EXPR_OP_DIV: return a / b;
    case EXPR_OP_MOD: return below ? rest + b : rest;
    case EXPR_OP_FLOORDIV: return nearbyint((a - rest) / b) - below;
    case EXPR_OP_POW: return pow(a, b);
    default: BUG("operator %d is none of numbers", (int)op);
    }
}

static struct number evaluate(struct sum *, const struct expr_node *);

static struct number binary(struct sum *s, const struct expr_node *n)
{
    struct number a = evaluate(s, n->items[0]), b = {0};
    if (!s->failed) b = evaluate(s, n->items[1]);
    if (s->failed) return a;
    bool integer = a.integer && b.integer, power = n->op == EXPR_OP_POW;
    uint32_t length = power || n->op == EXPR_OP_FLOORDIV ? 2 : 1;
    bool divides = n->op == EXPR_OP_DIV || n->op == EXPR_OP_FLOORDIV || n->op == EXPR_OP_MOD;
    if (divides && b.value == 0) return wrong(s, n->sign, length, "division by zero");
    if (power && a.value == 0 && b.value < 0)
        return wrong(s, n->sign, length, "zero to a negative power: division by zero");
    if (power && a.value < 0 && b.value != floor(b.value))
        return wrong(s, n->sign, length, "a negative number to a fractional power");
    struct number r = {fe_python_number(n->op, a.value, b.value),
                       integer && n->op != EXPR_OP_DIV && !(power && b.value < 0)};
    if (!isfinite(r.value)) return wrong(s, n->sign, length, "the result is too large for a number (overflow)");
    if (r.integer && fabs(r.value) > largest)
        return wrong(s, n->sign, length, "the result is an integer beyond 2^53-1 (overflow)");
    return r;
}

static struct number evaluate(struct sum *s, const struct expr_node *n)
{
    struct number x;
    switch (n->kind) {
    case EXPR_NUMBER:
        if (!isfinite(n->number)) return wrong(s, n->at, n->length, "it is too large for a number");
        if (n->integer && n->number > largest) return wrong(s, n->at, n->length, "it is an integer beyond 2^53-1");
        return (struct number){n->number, n->integer};
    case EXPR_NAME:
    case EXPR_CONSTANT: return name(s, n);
    case EXPR_BINARY: return binary(s, n);
    case EXPR_UNARY:
        if (n->op == EXPR_OP_NOT) break;
        x = evaluate(s, n->items[0]);
        if (n->op == EXPR_OP_NEG) x.value = x.integer && x.value == 0 ? 0 : -x.value;
        return x;
    default: break;
    }
    return wrong(s, n->at, n->length, "arithmetic is made of numbers, names, + - * / // % ** and parentheses");
}

bool fe_arithmetic(struct fe *fe, fe_json where, double *value, bool *integer)
{
    struct sum s = {.fe = fe, .where = where, .shown = where->string};
    struct expr_fault fault;
    if (strlen(s.shown) > 60) s.shown = arena_format(fe->arena, "%.56s...", s.shown);
    if (where->length > LONGEST)
        return fe_wrong(fe, where, "E0106", "arithmetic of %u characters; at most %d are read", where->length, LONGEST);
    const struct expr_node *tree = expr_parse_arithmetic(fe->arena, where->string, &fault);
    struct number x = tree ? evaluate(&s, tree) : wrong(&s, fault.at, fault.length, fault.message);
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
    fe_json list = v->parent ? &fe->json.values[v->parent] : NULL;
    bool size = list && list->key && !strcmp(list->key, "shape");
    if (size && (v->kind == JSON_NULL || v->kind == JSON_STRING))
        d->hint = "a step is compiled for one size: a number, or \"$batch\" with \"constants\": {\"batch\": 32}, which "
                  "-D batch=64 "
                  "replaces";
    else if (v->kind == JSON_STRING) d->hint = "a string that starts with $ is arithmetic over the constants";
    return false;
}

bool fe_number(struct fe *fe, fe_json v, double *value)
{
    bool integer;
    return fe_number_kind(fe, v, value, &integer);
}

int64_t fe_whole(double x)
{
    const double most = (double)((int64_t)1 << 62);
    return (int64_t)(x > most ? most : x < -most ? -most : x == x ? x : 0);
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

bool fe_count32(struct fe *fe, fe_json v, int64_t *out)
{
    if (!fe_integer(fe, v, out)) return false;
    if (*out >= INT32_MIN && *out <= INT32_MAX) return true;
    struct diag *d = fe_error(fe, v, "E0103", "an integer must fit into 32 bits, found %s", fe_found(fe, v));
    d->label = "expected at most 2147483647";
    return false;
}
