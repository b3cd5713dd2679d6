/* Functions that are formulas (library/): their index, and how they are carried out. A formula sees nothing but its
 * arguments, those of a signature that ends in "*" as the tuple `rest`, and what its own statements name. What is wrong
 * in it is said about the call, or about an argument that it hands on. An entry is parsed when it is called first. */
#include "frontend/expr/library.h"
#include "frontend/expr/makers.h"
#include <string.h>

#define TEXT(name) extern const char fe_library_##name[];
#include "frontend/expr/library.def"
#undef TEXT
static const struct {
    const char *file, *text;
} texts[] = {
#define TEXT(name) {"library/" #name ".step", fe_library_##name},
#include "frontend/expr/library.def"
#undef TEXT
};

struct fe_library {
    struct arena *arena;
    VEC(struct fe_function) functions;
    struct map names;
};

/* ---------------------------------------------------------------- the index */

static unsigned flags_of(const struct fe_reader *r, const struct fe_entry *e)
{
    static const struct {
        const char *word;
        unsigned flags;
    } words[] = {{"function", 0},
                 {"alias", 0},
                 {"hidden", FE_HIDDEN},
                 {"activation", FE_ACTIVATION},
                 {"loss", FE_LOSS},
                 {"own_weights", FE_OWN_WEIGHTS},
                 {"own_reduction", FE_OWN_REDUCTION},
                 {"wide", FE_WIDE}};
    unsigned flags = 0;
    const char *at = e->words.text, *end = at + e->words.length;
    while (at < end) {
        struct fe_span word = {at, 0};
        while (at < end && *at != ' ') at++;
        word.length = (size_t)(at - word.text);
        while (at < end && *at == ' ') at++;
        size_t i = 0;
        while (i < sizeof words / sizeof *words && !fe_span_is(word, words[i].word)) i++;
        if (i == sizeof words / sizeof *words)
            BUG("%s:%u: no word of a head: %.*s", r->file, (unsigned)r->line, (int)word.length, word.text);
        flags |= words[i].flags;
    }
    return flags;
}

static void add(struct fe_library *l, struct fe_function f, const struct fe_formula *formula)
{
    if (!map_set(&l->names, f.name, (uint32_t)l->functions.count))
        BUG("%s:%u: there are two functions \"%s\"", formula ? formula->file : "functions.def",
            formula ? (unsigned)formula->entry.line : 0, f.name);
    vec_push(l->arena, &l->functions, f);
}

static void add_text(struct fe_library *l, const char *file, const char *text)
{
    struct fe_reader r = {.file = file, .at = text};
    struct fe_entry e;
    while (fe_entry_next(&r, &e)) {
        struct fe_formula *formula = arena_new(l->arena, struct fe_formula);
        *formula = (struct fe_formula){.entry = e, .file = file};
        struct fe_function f = {.name = arena_string_n(l->arena, e.name.text, e.name.length),
                                .make = make_formula,
                                .flags = flags_of(&r, &e),
                                .formula = formula};
        if (e.called) f.signature = arena_string_n(l->arena, e.signature.text, e.signature.length);
        else { /* an alias of what stands above it, or in C */
            const char *other = arena_string_n(l->arena, e.body.text, e.body.length);
            uint32_t at = map_get(&l->names, other);
            if (at == MAP_NONE) BUG("%s:%u: no function \"%s\"", file, (unsigned)e.line, other);
            struct fe_function same = l->functions.items[at];
            same.same_as = other, same.name = f.name, same.flags = f.flags | (same.flags & FE_WIDE);
            f = same;
        }
        add(l, f, formula);
    }
}

static void add_table(struct fe_library *l, const struct fe_function_table *t)
{
    if (t->earlier) add_table(l, t->earlier);
    for (uint32_t i = 0; i < t->count; i++) add(l, t->rows[i], NULL);
}

const struct fe_library *fe_library_open(struct arena *arena, const struct fe_function_table *table)
{
    struct fe_library *l = arena_new(arena, struct fe_library);
    *l = (struct fe_library){.arena = arena, .names = MAP(arena)};
    add_table(l, table);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) add_text(l, texts[i].file, texts[i].text);
    return l;
}

const struct fe_library *fe_library(struct fe *fe)
{
    if (!fe->library) fe->library = fe_library_open(fe->arena, fe->functions);
    return fe->library;
}

const struct fe_function *fe_function_find(const struct fe_library *l, const char *name)
{
    uint32_t at = map_get(&l->names, name);
    return at == MAP_NONE ? NULL : &l->functions.items[at];
}

const char *const *fe_function_names(const struct fe_library *l, unsigned flags, size_t *count)
{
    const char **names = arena_new_array(l->arena, const char *, l->functions.count);
    *count = 0;
    for (size_t i = 0; i < l->functions.count; i++) {
        const struct fe_function *f = &l->functions.items[i];
        if (flags ? f->flags & flags : !(f->flags & FE_HIDDEN)) names[(*count)++] = f->name;
    }
    return names;
}

bool fe_is_activation(struct fe *fe, const char *name)
{
    const struct fe_function *f = fe_function_find(fe_library(fe), name);
    return f && (f->flags & FE_ACTIVATION);
}

/* ---------------------------------------------------------------- statements */

static struct fe_span behind(struct fe_span s, size_t n) { return (struct fe_span){s.text + n, s.length - n}; }

static struct fe_statement read_statement(struct arena *arena, const struct fe_reader *r, struct fe_span s)
{
    struct fe_statement t = {.line = r->line};
    struct fe_span name;
    if (s.length > 8 && !memcmp(s.text, "require ", 8)) {
        const char *tuple = arena_format(arena, "(%.*s)", (int)s.length - 8, s.text + 8);
        t.kind = FE_REQUIRE;
        t.tree = fe_step_parse(arena, r, (struct fe_span){tuple, strlen(tuple)});
        bool fits = t.tree->kind == EXPR_TUPLE && (t.tree->count == 3 || t.tree->count == 4);
        for (uint32_t i = 1; fits && i < t.tree->count; i++)
            fits = t.tree->items[i]->kind == (i < 3 ? EXPR_STRING : EXPR_NAME);
        if (!fits) BUG("%s:%u: require condition, 'code', 'message' or ..., argument", r->file, (unsigned)r->line);
    } else if ((s.length > 4 && !memcmp(s.text, "for ", 4)) || (s.length > 7 && !memcmp(s.text, "repeat ", 7))) {
        bool repeat = *s.text == 'r';
        const char *first = strchr(s.text, ' ') + 1, *word = repeat ? " while " : " in ", *in = strstr(first, word),
                   *colon = strstr(s.text, ": "), *end = s.text + s.length;
        if (!in || !colon || in > colon || colon > end)
            BUG("%s:%u: for name in list: ... or repeat rounds while name: ...", r->file, (unsigned)r->line);
        struct fe_span left = {first, (size_t)(in - first)}, right = {in + strlen(word), 0};
        right.length = (size_t)(colon - right.text);
        name = repeat ? right : left;
        t.kind = repeat ? FE_REPEAT : FE_FOR;
        t.name = arena_string_n(arena, name.text, name.length);
        t.tree = fe_step_parse(arena, r, repeat ? left : right);
        struct fe_span rest = behind(s, (size_t)(colon + 2 - s.text));
        VEC(struct fe_statement) inner = {0};
        while (rest.length) {
            const char *stop = memchr(rest.text, ';', rest.length);
            size_t n = stop ? (size_t)(stop - rest.text) : rest.length;
            vec_push(arena, &inner, read_statement(arena, r, (struct fe_span){rest.text, n}));
            rest = behind(rest, n);
            while (rest.length && strchr("; \n", *rest.text)) rest = behind(rest, 1);
        }
        t.inner = inner.items, t.count = (uint32_t)inner.count;
    } else {
        t.kind = fe_statement_name(s, &name, &s) ? FE_PART : FE_VALUE;
        if (t.kind == FE_PART) t.name = arena_string_n(arena, name.text, name.length);
        t.tree = fe_step_parse(arena, r, s);
    }
    return t;
}

const struct fe_statement *fe_formula_statements(struct arena *arena, struct fe_formula *f, uint32_t *count)
{
    struct fe_reader r = {.file = f->file, .at = f->entry.body.text, .line = f->entry.body_line - 1};
    VEC(struct fe_statement) list = {0};
    struct fe_span s;
    if (!f->statements) {
        while (fe_statement_next(&r, f->entry.body, &s)) vec_push(arena, &list, read_statement(arena, &r, s));
        if (!list.count || list.items[list.count - 1].kind != FE_VALUE)
            BUG("%s:%u: the last statement is no value", f->file, (unsigned)f->entry.line);
        f->statements = list.items, f->count = (uint32_t)list.count;
    }
    *count = f->count;
    return f->statements;
}

/* ---------------------------------------------------------------- calls */

static void bind(struct fe_site *s, const struct fe_env **env, const char *name, struct fe_val value)
{
    *env = fe_bind(s->fe->arena, *env, name, value);
}

/* The message with {function} and {name} filled in: words and numbers as they are, else what kind of value it is. */
static const char *filled(struct fe_site *s, const char *message, const struct fe_env *env)
{
    struct str out = STR(s->fe->arena);
    for (const char *at = message, *open; *at;) {
        open = at + strcspn(at, "{");
        str_add_n(&out, at, (size_t)(open - at));
        const char *close = strchr(open, '}');
        if (!*open || !close) break;
        const char *name = arena_string_n(s->fe->arena, open + 1, (size_t)(close - open - 1));
        const struct fe_env *e = fe_env_find(s->fe, env, name);
        if (!strcmp(name, "function")) str_add(&out, s->frame->function);
        else if (!e) BUG("%s:%u: no {%s}", s->frame->formula->file, (unsigned)s->frame->formula->entry.line, name);
        else if (e->value.kind == FE_VAL_STRING) str_add(&out, e->value.string);
        else if (e->value.kind == FE_VAL_NUMBER) str_addf(&out, "%g", e->value.number);
        else str_add(&out, fe_describe(s, &e->value));
        at = close + 1;
    }
    return str_text(&out);
}

static bool required(struct fe_site *s, const struct fe_statement *t, const struct fe_env *env)
{
    struct expr_node *const *item = t->tree->items;
    struct fe_val holds = fe_eval(s, item[0], env);
    if (holds.bad || fe_truth(&holds)) return !holds.bad;
    struct fe_where where = t->tree->count == 4 ? fe_where_argument(s, item[3]) : s->frame->where;
    return fe_wrong_at(s, &where, item[1]->text, "%s", filled(s, item[2]->text, env));
}

static struct fe_val run(struct fe_site *, const struct fe_statement *, uint32_t count, const struct fe_env **);

/* Values of the names in a tree, as the loop sees them. */
static void see(struct fe_loop *l, const struct expr_node *tree, const struct fe_env *outer,
                const struct fe_env **inner)
{
    if (tree->kind == EXPR_NAME && !fe_env_find(l->outer->fe, *inner, tree->text)) {
        const struct fe_env *e = fe_env_find(l->outer->fe, outer, tree->text);
        if (e) bind(l->outer, inner, e->name, e->value.kind == FE_VAL_TENSOR ? fe_loop_see(l, e->value) : e->value);
    }
    for (uint32_t i = 0; i < tree->count; i++)
        if (tree->items[i]) see(l, tree->items[i], outer, inner);
}

/* A loop of the step: what is assigned and had a value before is carried, `round` is the number of the round. Nothing
 * of it is differentiated. */
static struct fe_val repeat(struct fe_site *s, const struct fe_statement *t, const struct fe_env **env)
{
    enum { MOST = 16 };
    struct fe_loop l;
    const char *names[MOST];
    struct fe_val next[MOST], after[MOST], rounds = fe_eval(s, t->tree, *env);
    const struct fe_env *inner = NULL;
    uint32_t n = 1;
    fe_loop_open(
        &l, s, arena_string_n(s->fe->arena, s->frame->formula->entry.name.text, s->frame->formula->entry.name.length));
    (void)fe_loop_carry(&l, fe_full(s, ir_type_scalar(IR_BOOL), 1));
    bind(s, &inner, "round", l.number);
    for (uint32_t i = 0; i < t->count; i++) {
        const struct fe_env *e = fe_env_find(s->fe, *env, t->inner[i].name);
        if (!e || fe_env_find(s->fe, inner, e->name)) continue;
        ASSERT(n < MOST);
        names[n++] = e->name;
        bind(s, &inner, e->name, fe_loop_carry(&l, e->value));
    }
    for (uint32_t i = 0; i < t->count; i++) see(&l, t->inner[i].tree, *env, &inner);
    for (const struct fe_env *e = inner; e; e = e->outer)
        if (e->value.bad) return fe_bad();
    struct fe_val last = run(&l.in, t->inner, t->count, &inner);
    if (last.bad) return last;
    next[0] = fe_reduce_all(&l.in, FE_RED_ANY, fe_env_find(s->fe, inner, t->name)->value);
    for (uint32_t i = 1; i < n; i++) next[i] = fe_env_find(s->fe, inner, names[i])->value;
    if (!fe_loop_close(&l, (int64_t)rounds.number, true, next, after)) return fe_bad();
    for (uint32_t i = 1; i < n; i++) bind(s, env, names[i], after[i]);
    return fe_none();
}

/* Carries out statements; the value of the last one if it has one. Bad: an error was recorded. */
static struct fe_val run(struct fe_site *s, const struct fe_statement *list, uint32_t count, const struct fe_env **env)
{
    struct fe_val v = fe_none();
    for (uint32_t i = 0; i < count && !v.bad; i++) {
        const struct fe_statement *t = &list[i];
        if (t->kind == FE_REQUIRE) {
            if (!required(s, t, *env)) return fe_bad();
            continue;
        }
        v = t->kind == FE_REPEAT ? repeat(s, t, env) : fe_eval(s, t->tree, *env);
        s->where = s->frame->where;
        if (t->kind == FE_REPEAT) continue;
        if (v.bad || t->kind == FE_VALUE) continue;
        if (t->kind == FE_PART) {
            bind(s, env, t->name, v);
            continue;
        }
        if (v.kind == FE_VAL_TENSOR && fe_rank(s, &v)) v = FE_APPLY(s, "unstack", v);
        if (v.bad || v.kind != FE_VAL_TUPLE)
            return v.bad ? v
                         : fe_fail(s, "E0310", "%s: a list expected, found %s", s->frame->function, fe_describe(s, &v));
        for (uint32_t k = 0; k < v.count; k++) {
            bind(s, env, t->name, v.items[k]);
            struct fe_val round = run(s, t->inner, t->count, env);
            if (round.bad) return round;
        }
    }
    return v;
}

struct fe_val make_formula(struct fe_call *c)
{
    SITE;
    uint32_t count;
    struct fe_formula *formula = c->row->formula;
    const struct fe_statement *list = fe_formula_statements(fe_library(s->fe)->arena, formula, &count);
    if (!formula->names) formula->names = fe_signature_names(fe_library(s->fe)->arena, c->row);
    const char *const *names = formula->names;
    const struct fe_env *env = NULL;
    const struct fe_frame *outer = s->frame, frame = {formula, c->function, s->where, names, c->where};
    if (strchr(c->row->signature, '*')) bind(s, &env, "rest", fe_tuple(s, c->rest, c->rest_count));
    for (uint32_t i = 0; names[i]; i++) bind(s, &env, names[i], c->arg[i]);
    s->frame = &frame;
    struct fe_val v = run(s, list, count, &env);
    s->frame = outer, s->where = frame.where;
    return v;
}
