/* Transformations, schedules and parts of C code that are formulas: entries of optimizers.step. An entry is read when
 * its row is used: names become numbers of a list, lines become statements. Statements with a value per parameter that
 * stand together run parameter by parameter. Of an operation the right operand is computed first, and of a call the
 * last argument: generated code follows the order of nodes, so that it should not change with the compiler's compiler.
 */
#include "frontend/expr/expr.h"
#include "frontend/expr/library.h"
#include "frontend/optim/optim.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const char optim_formulas[];

enum { MOST_PARAMETERS = 6 };

/* A term, a word or None. */
struct value {
    struct fe_term term;
    const char *word;
    bool none;
};

struct name {
    const char *text;
    const char *state;     /* of a slot: where it is stored */
    struct fe_term *given; /* of a name that C code gives: where its next value goes */
    int32_t argument;      /* of the row; -1: none */
    bool leaf;             /* a value per parameter, else one */
    struct value *values;
};

struct statement {
    uint32_t name;     /* what it gives a value; NONE */
    uint32_t slot;     /* the name whose next value it is; NONE */
    bool update, leaf; /* update: it is the update that goes on */
    struct expr_node *tree;
};

struct function {
    const char *name, *parameters[MOST_PARAMETERS];
    uint32_t count;
    struct expr_node *tree;
};

/* One use of an entry. */
struct formula {
    struct optim_transform *t;
    VEC(struct name) names;
    VEC(struct statement) statements;
    VEC(struct function) functions;
    struct fe_reader reader;
    size_t done;   /* statements that were run */
    uint32_t leaf; /* the parameter that it is evaluated at */
    ir_value *u;   /* the updates that go on */
    const struct optim_calls *calls;
};

static const uint32_t NONE = UINT32_MAX;

static struct value value_of(struct fe_term term) { return (struct value){.term = term}; }
static struct value none(void) { return (struct value){.none = true}; }
static bool is_number(const struct value *v) { return !v->none && !v->word && !v->term.v; }

/* ---------------------------------------------------------------- functions */

static struct fe_term cbrt_of(struct ir_builder *b, struct fe_term x) { return T(ir_unary(b, OP_cbrt, x.v)); }
static struct fe_term float32_of(struct ir_builder *b, struct fe_term x) { return term_cast(b, x, IR_F32); }
/* 1 / x of a number, rounded to float32. */
static struct fe_term reciprocal(struct ir_builder *b, struct fe_term x)
{
    (void)b;
    return term_number((double)(1.0f / (float)x.number));
}
/* Over all dimensions but the first, repeated over them. */
static struct fe_term mean_of_rows(struct ir_builder *b, struct fe_term x)
{
    static const int64_t rest[IR_MAX_RANK] = {1, 2, 3, 4, 5, 6, 7}, first[1] = {0};
    const struct ir_type type = *ir_type(b->f, x.v);
    ir_value mean = term_mean_over(b, x, rest, type.rank - 1u).v;
    return T(ir_broadcast(b, mean, type.rank, type.dim, first));
}

/* Over the dimensions that `like` lacks or has as 1. */
static struct fe_term mean_like(struct ir_builder *b, struct fe_term x, struct fe_term like)
{
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0;
    const struct ir_type type = *ir_type(b->f, x.v), slot = *ir_type(b->f, like.v);
    for (uint32_t i = 0; i < type.rank; i++)
        if (!slot.rank || slot.dim[i] != type.dim[i]) dims[n++] = i;
    return n ? T(ir_reshape(b, term_mean_over(b, x, dims, n).v, slot.rank, slot.dim)) : x;
}

/* clang-format off */
static const struct builtin {
    const char *name;
    struct fe_term (*one)(struct ir_builder *, struct fe_term);
    struct fe_term (*two)(struct ir_builder *, struct fe_term, struct fe_term);
    struct fe_term (*three)(struct ir_builder *, struct fe_term, struct fe_term, struct fe_term);
} builtins[] = {
    {"abs", .one = term_abs}, {"cbrt", .one = cbrt_of}, {"cos", .one = term_cos}, {"float32", .one = float32_of},
    {"floor", .one = term_floor}, {"increment", .one = optim_increment}, {"is_nan", .one = term_is_nan},
    {"mean", .one = term_mean}, {"mean_of_rows", .one = mean_of_rows}, {"reciprocal", .one = reciprocal}, {"rsqrt", .one = term_rsqrt}, {"sign", .one = term_sign},
    {"sqrt", .one = term_sqrt}, {"square", .one = term_square}, {"sum", .one = term_sum}, {"tanh", .one = term_tanh},
    {"like", .two = term_cast_like}, {"maximum", .two = term_max}, {"mean_like", .two = mean_like},
    {"minimum", .two = term_min},
    {"where", .three = term_where},
};
/* clang-format on */
enum { BUILTINS = sizeof builtins / sizeof *builtins, TREE_SUM = BUILTINS, TREE_DOT, ARGUMENTS, FUNCTIONS = 1 << 16 };

/* ---------------------------------------------------------------- evaluation */

static struct value eval(struct formula *, const struct expr_node *, const struct value *frame);

static struct value binary(struct ir_builder *b, enum expr_operator op, const struct value *x, const struct value *y)
{
    static struct fe_term (*const of_terms[])(struct ir_builder *, struct fe_term, struct fe_term) = {
        [EXPR_OP_ADD] = term_add, [EXPR_OP_SUB] = term_sub, [EXPR_OP_MUL] = term_mul, [EXPR_OP_DIV] = term_div,
        [EXPR_OP_POW] = term_pow, [EXPR_OP_EQ] = term_eq,   [EXPR_OP_LE] = term_le,   [EXPR_OP_LT] = term_lt,
        [EXPR_OP_AND] = term_and, [EXPR_OP_OR] = term_or,   [EXPR_OP_MOD] = term_rem, [EXPR_OP_GT] = NULL};
    bool words = x->none || y->none || x->word || y->word, numbers = is_number(x) && is_number(y);
    bool same = x->none == y->none && !x->word == !y->word && (!x->word || strcmp(x->word, y->word) == 0);
    if (words) return value_of(term_number(same == (op == EXPR_OP_EQ)));
    if (numbers && op == EXPR_OP_GT) return value_of(term_number(x->term.number > y->term.number));
    if (numbers && op == EXPR_OP_LT) return value_of(term_number(x->term.number < y->term.number));
    if (numbers && op == EXPR_OP_EQ) return value_of(term_number(x->term.number == y->term.number));
    if (numbers && op == EXPR_OP_AND) return value_of(term_number(x->term.number && y->term.number));
    if (op >= sizeof of_terms / sizeof *of_terms || !of_terms[op]) BUG("operator %d in a formula", (int)op);
    return value_of(of_terms[op](b, x->term, y->term));
}

/* From the parameters to the tree. */
static struct value tree_sum(struct formula *f, const struct expr_node *n)
{
    struct optim_transform *t = f->t;
    struct fe_term sum = term_integer(0);
    uint32_t here = f->leaf;
    EACH_LEAF(t, i) {
        f->leaf = i;
        struct fe_term y = n->count > 1 ? eval(f, n->items[1], NULL).term : (struct fe_term){0};
        struct fe_term x = eval(f, n->items[0], NULL).term;
        sum = term_add(t->b, sum, n->count > 1 ? term_dot(t->b, x, y) : term_sum(t->b, x));
    }
    f->leaf = here;
    return value_of(sum.v || n->count == 1 ? sum
                                           : term_cast(t->b, sum, IR_F32)); /* of the leaves' dtype, as in Optax */
}

/* A schedule at a count, or the number that stands in its place; an expression of the document over a counter. */
static struct value argument_at(struct formula *f, const struct expr_node *n)
{
    struct optim_transform *t = f->t;
    const struct fe_arg *a = &t->row->args[n->at - ARGUMENTS];
    struct value count = eval(f, n->items[0], NULL);
    struct fe_term result = {0};
    if (a->kind != FE_EXPR) return value_of(f->calls->at_count(t, a->name, count.term));
    if (!optim_of_counter(t, arg(t, a->name)->json, "x", count.term, &result)) return none();
    return value_of(ir_type(t->b->f, result.v)->dtype == IR_BOOL ? term_cast(t->b, result, IR_F32) : result);
}

static struct value call(struct formula *f, const struct expr_node *n, const struct value *frame)
{
    struct ir_builder *b = f->t->b;
    struct value args[MOST_PARAMETERS];
    if (n->at == TREE_SUM || n->at == TREE_DOT) return tree_sum(f, n);
    if (n->at >= ARGUMENTS && n->at < FUNCTIONS) return argument_at(f, n);
    for (uint32_t i = n->count; i-- > 0;) args[i] = eval(f, n->items[i], frame);
    if (n->at >= FUNCTIONS) return eval(f, f->functions.items[n->at - FUNCTIONS].tree, args);
    const struct builtin *row = &builtins[n->at];
    if (row->one) return value_of(row->one(b, args[0].term));
    if (row->two) return value_of(row->two(b, args[0].term, args[1].term));
    return value_of(row->three(b, args[0].term, args[1].term, args[2].term));
}

static struct value named(struct formula *f, uint32_t name)
{
    const struct name *n = &f->names.items[name];
    return n->values ? n->values[n->leaf ? f->leaf : 0] : none();
}

/* `frame`: the arguments of the function whose body this is. */
static struct value eval(struct formula *f, const struct expr_node *n, const struct value *frame)
{
    struct ir_builder *b = f->t->b;
    struct value x, y;
    switch (n->kind) {
    case EXPR_NUMBER: return value_of(n->integer ? term_integer(fe_whole(n->number)) : term_number(n->number));
    case EXPR_CONSTANT: return n->number < 0 ? none() : value_of(term_number(n->number));
    case EXPR_STRING: return (struct value){.word = n->text};
    case EXPR_NAME: return frame ? frame[n->at] : named(f, n->at);
    case EXPR_INDEX: /* of a list of numbers */
        return value_of(
            term_number(arg(f->t, f->names.items[n->items[0]->at].text)->numbers[(int)n->items[1]->number]));
    case EXPR_UNARY:
        x = eval(f, n->items[0], frame);
        return value_of(n->op == EXPR_OP_NEG ? term_neg(b, x.term) : term_not(b, x.term));
    case EXPR_BINARY:
        y = eval(f, n->items[1], frame);
        x = eval(f, n->items[0], frame);
        return binary(b, n->op, &x, &y);
    case EXPR_IF:
        x = eval(f, n->items[0], frame);
        if (!is_number(&x)) BUG("a formula of %s chooses by no number", f->t->row->name);
        return eval(f, n->items[x.term.number != 0 ? 1 : 2], frame);
    case EXPR_CALL: return call(f, n, frame);
    default: BUG("expression of kind %d in a formula", (int)n->kind);
    }
}

/* ---------------------------------------------------------------- reading */

static uint32_t name_find(const struct formula *f, const char *text)
{
    for (uint32_t i = 0; i < f->names.count; i++)
        if (strcmp(f->names.items[i].text, text) == 0) return i;
    return NONE;
}

static uint32_t name_add(struct formula *f, const char *text, bool leaf)
{
    struct name new = {.text = text, .argument = -1, .leaf = leaf};
    if (name_find(f, text) != NONE) BUG("%s:%u: two names %s", f->reader.file, f->reader.line, text);
    new.values = arena_new_array(f->t->fe->arena, struct value, leaf ? f->t->count + 1 : 1);
    vec_push(f->t->fe->arena, &f->names, new);
    return (uint32_t)f->names.count - 1;
}

/* The entry of that name in the text; false: there is none. */
static bool entry_find(struct fe_reader *r, const char *words, const char *name, struct fe_entry *e)
{
    *r = (struct fe_reader){.file = "optimizers.step", .at = optim_formulas};
    while (fe_entry_next(r, e))
        if (fe_span_is(e->words, words) && fe_span_is(e->name, name)) {
            *r = (struct fe_reader){.file = r->file, .at = e->body.text, .line = e->body_line - 1};
            return true;
        }
    return false;
}

static bool resolve(struct formula *f, struct expr_node *n, const struct function *inside);

static uint32_t function_find(struct formula *f, const char *name)
{
    struct arena *arena = f->t->fe->arena;
    struct function new = {.name = name};
    struct fe_reader r;
    struct fe_entry e;
    for (uint32_t i = 0; i < f->functions.count; i++)
        if (strcmp(f->functions.items[i].name, name) == 0) return i;
    if (!entry_find(&r, "function", name, &e)) BUG("%s:%u: no function %s", f->reader.file, f->reader.line, name);
    const char *at = arena_string_n(arena, e.signature.text, e.signature.length);
    for (; *at; at += strspn(at, ", ")) {
        size_t n = strcspn(at, ", ");
        ASSERT(new.count < MOST_PARAMETERS);
        new.parameters[new.count++] = arena_string_n(arena, at, n);
        at += n;
    }
    new.tree = fe_step_parse(arena, &r, e.body);
    (void)resolve(f, new.tree, &new);
    vec_push(arena, &f->functions, new);
    return (uint32_t)f->functions.count - 1;
}

static uint32_t callee(struct formula *f, const char *text)
{
    for (uint32_t i = 0; i < BUILTINS; i++)
        if (strcmp(builtins[i].name, text) == 0) return i;
    if (strcmp(text, "tree_sum") == 0) return TREE_SUM;
    if (strcmp(text, "tree_dot") == 0) return TREE_DOT;
    uint32_t name = name_find(f, text);
    if (name != NONE && f->names.items[name].argument >= 0) return ARGUMENTS + (uint32_t)f->names.items[name].argument;
    return FUNCTIONS + function_find(f, text);
}

/* Puts numbers of names and functions into `at`; true: the value is one per parameter. */
static bool resolve(struct formula *f, struct expr_node *n, const struct function *inside)
{
    bool leaf = false;
    for (uint32_t i = 0; i < n->count; i++) leaf |= resolve(f, n->items[i], inside);
    if (n->kind == EXPR_CALL) n->at = callee(f, n->text);
    if (n->kind == EXPR_CALL && (n->at == TREE_SUM || n->at == TREE_DOT)) return false;
    if (n->kind != EXPR_NAME) return leaf;
    if (strcmp(n->text, "inf") == 0) {
        n->kind = EXPR_NUMBER, n->number = INFINITY;
        return false;
    }
    for (n->at = 0; inside && n->at < inside->count; n->at++)
        if (strcmp(inside->parameters[n->at], n->text) == 0) return false;
    n->at = name_find(f, n->text);
    if (inside || n->at == NONE) BUG("%s:%u: no name %s", f->reader.file, f->reader.line, n->text);
    return f->names.items[n->at].leaf;
}

static struct value argument_value(struct formula *f, uint32_t i)
{
    struct optim_transform *t = f->t;
    const struct fe_value *v = &t->args[i];
    switch (t->row->args[i].kind) {
    case FE_NUMBER:
    case FE_SCHEDULE:
        if (optim_scheduled(t, t->row->args[i].name)) return (struct value){.word = "schedule"};
        return v->null ? none() : value_of(number(t, t->row->args[i].name));
    case FE_INTEGER: return value_of(term_integer(v->integer));
    case FE_BOOL: return value_of(term_number(v->boolean));
    case FE_ENUM: return (struct value){.word = v->string};
    case FE_EXPR: return v->json ? (struct value){.word = "expression"} : none();
    default: return none();
    }
}

/* The arguments of the row that are not given otherwise. False: errors were recorded. */
static bool read_arguments(struct formula *f)
{
    struct optim_transform *t = f->t;
    for (uint32_t i = 0; i < t->row->count; i++) {
        bool mask = t->row->args[i].kind == FE_PATTERNS, *in = arena_new_array(t->fe->arena, bool, t->count + 1);
        if (name_find(f, t->row->args[i].name) != NONE) continue;
        uint32_t added = name_add(f, t->row->args[i].name, mask);
        struct name *n = &f->names.items[added];
        n->argument = (int32_t)i;
        if (mask && !optim_mask(t, n->text, in)) return false;
        if (!mask) n->values[0] = argument_value(f, i);
        for (uint32_t k = 0; mask && k < t->count; k++) n->values[k] = value_of(term_number(in[k]));
    }
    return true;
}

/* What is known of parameters and of the step. */
static void read_names(struct formula *f)
{
    struct optim_transform *t = f->t;
    uint32_t g = name_add(f, "g", true), p = name_add(f, "p", true), rank = name_add(f, "rank", true);
    EACH_LEAF(t, i) {
        f->names.items[g].values[i] = value_of(T(t->u[i]));
        f->names.items[p].values[i] = value_of(T(t->p[i]));
        f->names.items[rank].values[i] = value_of(term_integer(t->o->params[i].type.rank));
    }
    uint32_t value = name_add(f, "value", false), example = name_add(f, "example", false);
    f->names.items[value].values[0] = value_of(T(t->o->value));
    f->names.items[example].values[0] = value_of(term_number(t->o->example));
}

static void read_given(struct formula *f, const struct optim_given *given)
{
    for (; given->name; given++) {
        uint32_t added = name_add(f, given->name, given->leaf);
        struct name *n = &f->names.items[added];
        n->given = given->values;
        n->values[0] = value_of(given->values[0]);
        for (uint32_t i = 0; given->leaf && i < f->t->count; i++) n->values[i] = value_of(given->values[i]);
    }
}

/* The next word of a declaration if it is this one, or any if `word` is NULL; NULL: it is not. */
static const char *take(struct formula *f, const char **at, const char *word)
{
    static const char ends[] = " \n,:=";
    size_t n = strcspn(*at += strspn(*at, " \n"), ends);
    if (word && strchr(ends, *word)) n = **at == *word;
    if (!n || (word && (strlen(word) != n || strncmp(*at, word, n)))) return NULL;
    *at += n;
    return arena_string_n(f->t->fe->arena, *at - n, n);
}

/* The dtype of sums that begin with zeros of another dtype than the parameters'. */
static enum ir_dtype beginning_with(const struct optim_transform *t, enum ir_dtype dtype)
{
    bool differs = dtype == IR_F32;
    EACH_LEAF(t, i)
        differs |= dtype != IR_TUPLE && t->o->params[i].type.dtype != IR_F32 && t->o->params[i].type.dtype != dtype;
    return differs ? IR_F32 : IR_TUPLE;
}

static enum ir_dtype slot_dtype(struct formula *f, const char **at)
{
    struct optim_transform *t = f->t;
    if (take(f, at, "narrowest")) return optim_lowest(t);
    if (take(f, at, "widest")) return optim_highest(t);
    bool zeros = take(f, at, "zeros") != NULL;
    const char *word = take(f, at, NULL);
    enum ir_dtype dtype = name_find(f, word) == NONE ? ir_dtype_find(word) : dtype_or(t, word);
    return zeros ? beginning_with(t, dtype) : dtype;
}

/* NAME [as STATE] [: DTYPE] [once | scalar] [= START] [if CONDITION] */
static void read_slot(struct formula *f, const char **at)
{
    struct optim_transform *t = f->t;
    struct optim_start start = zero;
    enum ir_dtype dtype = IR_TUPLE;
    const char *name = take(f, at, NULL), *state = take(f, at, "as") ? take(f, at, NULL) : name, *word = "";
    bool once = false, scalar = false, there = true;
    if (take(f, at, ":")) {
        if (!(scalar = take(f, at, "scalar"))) dtype = slot_dtype(f, at);
        once = take(f, at, "once");
    }
    if (take(f, at, "=")) {
        word = take(f, at, NULL);
        const char *other = strchr(word, '|'); /* what holds if the first is null */
        if (other) word = arena_string_n(t->fe->arena, word, (size_t)(other - word));
        if (other && absent(t, word)) word = other + 1;
        uint32_t known = name_find(f, word);
        bool argument = known != NONE && f->names.items[known].argument >= 0;
        start.number = argument ? arg(t, word)->number : strtod(word, NULL);
    }
    if (take(f, at, "if")) {
        struct fe_span condition = {*at, strcspn(*at, ",")};
        struct expr_node *n = fe_step_parse(t->fe->arena, &f->reader, condition);
        (void)resolve(f, n, NULL);
        there = eval(f, n, NULL).term.number != 0;
        *at += condition.length;
    }
    uint32_t added = name_add(f, name, !once);
    struct name *n = &f->names.items[added];
    n->state = state;
    if (!there) n->values = NULL; /* None */
    ir_value *tree = !there || once || scalar ? NULL
                     : strcmp(word, "p") == 0 ? optim_first_params(t, state, dtype)
                                              : optim_tree(t, state, dtype, start);
    if (!there) return;
    if (once) n->values[0] = value_of(optim_state(t, state, ir_type_scalar(dtype), start));
    else
        EACH_LEAF(t, i) {
            struct ir_type own = ir_type_scalar((enum ir_dtype)t->o->params[i].type.dtype);
            n->values[i] = value_of(tree ? T(tree[i]) : optim_leaf(t, state, i, own, start));
        }
}

/* "name = expression", "slot <- expression", "slot <- name = expression" */
static void read_statement(struct formula *f, struct fe_span line)
{
    struct arena *arena = f->t->fe->arena;
    struct statement s = {.name = NONE, .slot = NONE};
    struct fe_span name;
    const char *arrow = memmem(line.text, line.length, " <- ", 4);
    if (arrow) {
        size_t length = (size_t)(arrow - line.text);
        s.slot = name_find(f, arena_string_n(arena, line.text, length));
        s.update = length == 1 && *line.text == 'g';
        if (!s.update && (s.slot == NONE || (!f->names.items[s.slot].state && !f->names.items[s.slot].given)))
            BUG("%s:%u: no such slot", f->reader.file, f->reader.line);
        line = (struct fe_span){arrow + 4, line.length - length - 4};
        if (s.update) s.slot = NONE;
    }
    bool names = fe_statement_name(line, &name, &line), there = s.slot == NONE || f->names.items[s.slot].values;
    s.tree = fe_step_parse(arena, &f->reader, line);
    s.leaf = resolve(f, s.tree, NULL) || s.update || (s.slot != NONE && f->names.items[s.slot].leaf);
    if (names) s.name = name_add(f, arena_string_n(arena, name.text, name.length), s.leaf);
    if (there) vec_push(arena, &f->statements, s);
}

/* ---------------------------------------------------------------- running */

static void store(struct formula *f, const struct statement *s, const struct value *v)
{
    struct optim_transform *t = f->t;
    if (s->name != NONE) f->names.items[s->name].values[s->leaf ? f->leaf : 0] = *v;
    if (s->update) f->u[f->leaf] = v->term.v ? v->term.v : ir_number_like(t->b, t->u[f->leaf], v->term.number);
}

static void set_next(struct formula *f, const struct statement *s, uint32_t leaf, struct fe_term v)
{
    const struct name *n = &f->names.items[s->slot];
    if (n->given) n->given[n->leaf ? leaf : 0] = v;
    else if (s->leaf) optim_leaf_set(f->t, n->state, leaf, v);
    else optim_state_set(f->t, n->state, v);
}

/* The next statements that belong together. */
static void run(struct formula *f)
{
    struct optim_transform *t = f->t;
    size_t at = f->done, end = at + 1;
    const struct statement *first = &f->statements.items[at], *s;
    while (first->leaf && end < f->statements.count && f->statements.items[end].leaf) end++;
    f->done = end;
    if (!first->leaf) {
        struct value v = eval(f, first->tree, NULL);
        store(f, first, &v);
        if (first->slot != NONE) set_next(f, first, 0, v.term);
        return;
    }
    struct value **next = arena_new_array(t->fe->arena, struct value *, end - at);
    for (size_t k = at; k < end; k++)
        if (f->statements.items[k].slot != NONE)
            next[k - at] = arena_new_array(t->fe->arena, struct value, t->count + 1);
    EACH_LEAF(t, i)
        for (size_t k = at; k < end; k++) {
            s = &f->statements.items[k];
            f->leaf = i;
            struct value v = eval(f, s->tree, NULL);
            store(f, s, &v);
            if (next[k - at]) next[k - at][i] = v;
        }
    for (size_t k = at; k < end; k++)
        if (next[k - at])
            EACH_LEAF(t, i) set_next(f, &f->statements.items[k], i, next[k - at][i].term);
}

static void run_all(struct formula *f)
{
    struct optim_transform *t = f->t;
    EACH_LEAF(t, i) f->u[i] = t->u[i];
    while (f->done < f->statements.count) run(f);
    EACH_LEAF(t, i) t->u[i] = f->u[i];
}

/* "chain 2: scale_by_learning_rate": parts with the arguments of the entry, their states from that number on. */
static void run_chain(struct formula *f, const char *text)
{
    struct optim_transform *t = f->t;
    char *chain;
    uint32_t index = (uint32_t)strtoul(text, &chain, 10);
    struct value *g = f->names.items[name_find(f, "g")].values;
    f->calls->chain(t, chain + strlen(": "), index);
    EACH_LEAF(t, i) g[i] = value_of(T(t->u[i]));
}

void optim_formula_entry(struct optim_transform *t, const char *words, const char *name,
                         const struct optim_given *given, const struct optim_calls *calls)
{
    struct formula f = {.t = t, .u = optim_new_tree(t), .calls = calls};
    struct fe_entry e;
    struct fe_span line;
    size_t errors = t->fe->diags->errors;
    if (!entry_find(&f.reader, words, name, &e)) BUG("no %s %s", words, name);
    if (given) read_given(&f, given);
    if (!read_arguments(&f)) return;
    if (t->u) read_names(&f);
    while (fe_statement_next(&f.reader, e.body, &line) && t->fe->diags->errors == errors) {
        const char *at = arena_string_n(t->fe->arena, line.text, line.length);
        bool slots = take(&f, &at, "slots") != NULL, chain = !slots && take(&f, &at, "chain");
        if (slots || chain) run_all(&f); /* slots that begin as p are computed where they stand */
        else read_statement(&f, line);
        if (chain) run_chain(&f, at);
        while (slots) read_slot(&f, &at), slots = take(&f, &at, ",") != NULL;
    }
    if (t->fe->diags->errors == errors) run_all(&f);
}

struct fe_term optim_formula_of_count(struct fe *fe, struct ir_builder *b, const char *words, const char *name,
                                      const struct fe_row *row, const struct fe_value *args, struct fe_term count)
{
    struct optim_row like = {.name = name, .args = row->args, .count = row->count};
    struct fe_optim_state o = {.fe = fe, .b = b};
    struct fe_term rate = term_number(0);
    const ir_value injected[OPTIM_MOST_ARGS] = {0};
    struct optim_transform t = {.o = &o, .fe = fe, .b = b, .row = &like, .args = args, .injected = injected};
    optim_formula_entry(&t, words, name,
                        (const struct optim_given[]){{"count", &count, false}, {"rate", &rate, false}, {0}}, NULL);
    return rate;
}

/* ---------------------------------------------------------------- the reference */

static void add_functions(struct arena *arena, struct str *out, struct fe_span body)
{
    struct fe_reader r = {.file = "optimizers.step", .at = optim_formulas};
    struct fe_entry e;
    while (fe_entry_next(&r, &e)) {
        const char *call = arena_format(arena, "%.*s(", (int)e.name.length, e.name.text);
        const char *found = memmem(body.text, body.length, call, strlen(call));
        if (!fe_span_is(e.words, "function") || !found || !strchr(" (-", found[-1]) || strstr(str_text(out), call))
            continue;
        add_functions(arena, out, e.body);
        str_addf(out, "%.*s(%.*s) = %.*s\n", (int)e.name.length, e.name.text, (int)e.signature.length, e.signature.text,
                 (int)e.body.length, e.body.text);
    }
}

const char *optim_formula(struct arena *arena, const char *words, const char *name)
{
    struct fe_reader r;
    struct fe_entry e;
    struct fe_span line;
    struct str out = STR(arena);
    if (!entry_find(&r, words, name, &e)) return NULL;
    add_functions(arena, &out, e.body);
    if (out.length) str_add(&out, "\n");
    while (fe_statement_next(&r, e.body, &line)) str_addf(&out, "%.*s\n", (int)line.length, line.text);
    return str_text(&out);
}
