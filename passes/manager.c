/* The pass manager: runs the pipeline of passes.def over a module, with everything that helps to see what happens.
 * It verifies before and after each pass, times it, dumps its result, and can stop, skip or run single ones. On a
 * defect it leaves the module that went into the failing pass and prints the command that replays it. */
#include "ir/text.h"
#include "ir/base/clock.h"
#include "passes/common.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

struct row {
    const char *name;
    pass_fn *run;
    bool required;
    enum pass_stage stage_in, stage_out;
};

static const struct row rows[] = {
#define X(name, required, stage_in, stage_out, doc) {#name, pass_##name, required, PASS_##stage_in, PASS_##stage_out},
#include "passes/passes.def"
#undef X
};
enum {
#define X(name, required, stage_in, stage_out, doc) ROW_##name,
#include "passes/passes.def"
#undef X
    ROW_COUNT
};

static const char *const names[] = {
#define X(name, required, stage_in, stage_out, doc) #name,
#include "passes/passes.def"
#undef X
};

static enum pass_stage stage_of(const struct ir_module *m)
{
    return m->plans ? (enum pass_stage)(PASS_PLANS + m->plans->stage) : (enum pass_stage)m->stage;
}

static const char *stage_name(enum pass_stage stage)
{
    return stage >= PASS_PLANS ? plan_stage_names[stage - PASS_PLANS] : ir_stage_name((int)stage);
}

const char *const *pass_names(size_t *count)
{
    *count = ROW_COUNT;
    return names;
}

/* ---------------------------------------------------------------- options */

static bool in_list(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && strncmp(at, name, n) == 0) return true;
    return false;
}

static struct diag *option_error(struct pass *p, const char *option, const char *name, const char *message)
{
    return diag_error(p->diags, (struct diag_span){0}, "E0107", "%s: %s \"%s\"", option, message, name);
}

/* Every name of a comma-separated list must be a pass. */
static bool check_list(struct pass *p, const char *option, const char *list)
{
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        const char *name = arena_string_n(p->diags->arena, at, strcspn(at, ","));
        bool known = false;
        for (size_t i = 0; i < ROW_COUNT; i++) known = known || strcmp(name, rows[i].name) == 0;
        if (known) continue;
        const char *near = str_nearest(name, names, ROW_COUNT);
        struct diag *d = option_error(p, option, name, "there is no pass");
        d->hint = near ? arena_format(p->diags->arena, "did you mean \"%s\"?", near) : NULL;
        return false;
    }
    return true;
}

static bool check_options(struct pass *p)
{
    const struct pass_options *o = p->options;
    if (!check_list(p, "--dump", o->dump) || !check_list(p, "--stop-after", o->stop_after) ||
        !check_list(p, "--disable", o->disable) || !check_list(p, "--passes", o->only))
        return false;
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].required && in_list(o->disable, rows[i].name)) {
            option_error(p, "--disable", rows[i].name, "nothing can be compiled without pass");
            return false;
        }
    return true;
}

/* ---------------------------------------------------------------- files */

/* Writes the module beside and renames. False: errno tells why. */
static bool write_module(const struct ir_module *m, const char *path, struct arena *arena)
{
    struct str text = STR(arena);
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0; /* the name as those of step_tools.h */
    const char *beside = arena_format(arena, "%.*s.tmp-stepc-%ld-%s", folder, path, (long)getpid(), path + folder);
    ir_print(m, &text);
    FILE *file = fopen(beside, "wx");
    bool good = file && fwrite(str_text(&text), 1, text.length, file) == text.length;
    good = file && fclose(file) == 0 && good && rename(beside, path) == 0;
    if (!good && file) unlink(beside);
    return good;
}

/* Is the text, but for the pass that it says it comes from, the last one that was asked for? */
static bool is_same(struct pass *p, struct ir_module *m)
{
    struct str text = STR(p->keep);
    const char *after = m->after, *before = p->dumped;
    m->after = NULL;
    ir_print(m, &text);
    m->after = after;
    p->dumped = str_text(&text);
    return before && strcmp(before, p->dumped) == 0;
}

static bool dump(struct pass *p, struct ir_module *m, size_t number, const char *name)
{
    const struct pass_options *o = p->options;
    if (o->dump_changed && is_same(p, m)) return true;
    if (!o->dump || (*o->dump && !in_list(o->dump, name))) return true;
    const char *dir = o->dump_dir ? o->dump_dir : ".";
    const char *path = arena_format(p->diags->arena, "%s/%02zu-%s.sir", dir, number, name);
    if (write_module(m, path, &p->scratch)) return true;
    diag_error(p->diags, (struct diag_span){0}, "E0801", "cannot write %s: %s", path, strerror(errno));
    return false;
}

/* ---------------------------------------------------------------- defects */

struct running {
    struct pass *pass;
    struct ir_module *input;
    struct plan_module *plans; /* the input's, which the pass may have changed already */
    const char *name;
};

/* Called by bug(): what a report needs. */
static void report_defect(void *user, FILE *out)
{
    struct running *r = user;
    struct arena arena = {0};
    const char *dir = r->pass->options->reproducer_dir ? r->pass->options->reproducer_dir : ".";
    if (!*dir) { /* who asked has the document */
        fprintf(out, "in pass %s; to replay: stepc compile the document\n", r->name);
        return;
    }
    const char *path = arena_format(&arena, "%s/repro-%s.sir", dir, r->name);
    r->input->plans = r->plans;
    fprintf(out, "in pass %s\n", r->name);
    if (write_module(r->input, path, &arena))
        fprintf(out, "its input was written to %s; to replay: stepc compile %s --passes=%s%s%s\n", path, path, r->name,
                r->input->numerics ? " --numerics=" : "", r->input->numerics ? r->input->numerics : "");
    else fprintf(out, "its input could not be written to %s: %s\n", path, strerror(errno));
    arena_free(&arena);
}

/* What is sound, and has plans, is its text: read from it, it prints the same. */
static void check_text(struct pass *p, const struct ir_module *m, const char *name)
{
    struct str text = STR(&p->scratch), again = STR(&p->scratch);
    struct diags diags = {.arena = &p->scratch};
    ir_print(m, &text);
    struct ir_module *read = ir_parse(str_text(&text), text.length, &diags);
    if (!read) BUG("the text after pass %s cannot be read: %s", name, diags.list.items[0].message);
    ir_print(read, &again);
    if (strcmp(str_text(&text), str_text(&again)) != 0) BUG("the text after pass %s prints otherwise once read", name);
    ir_module_free(read);
}

static void check(struct pass *p, const struct ir_module *m, const char *when, const char *name)
{
    struct str faults = STR(&p->scratch);
    if (p->options->verify_each && !ir_verify(m, &faults))
        BUG("the module is not valid %s pass %s:\n%s", when, name, str_text(&faults));
}

/* ---------------------------------------------------------------- running */

static uint32_t count_nodes(const struct ir_module *m)
{
    uint32_t count = 0;
    for (size_t i = 0; i < m->funcs.count; i++) count += m->funcs.items[i]->count - 1;
    return count;
}

static bool is_wanted(const struct pass_options *o, const struct row *row, const struct ir_module *m)
{
    if (o->only) return in_list(o->only, row->name);
    return !in_list(o->disable, row->name) && row->stage_in == stage_of(m);
}

/* The first row behind the pass whose result the module is; ROW_COUNT: there is nothing left to do. */
static size_t first_row(struct pass *p, const struct ir_module *m)
{
    bool stopped = false;
    if (!m->after || p->options->only) return 0;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        stopped |= p->options->stop_after && strcmp(rows[i].name, p->options->stop_after) == 0;
        if (strcmp(rows[i].name, m->after) == 0) return stopped ? (size_t)ROW_COUNT : i + 1;
    }
    diag_error(p->diags, (struct diag_span){0}, "E0107",
               "the module is the result of pass \"%s\", which does not exist", m->after);
    return ROW_COUNT;
}

/* An op that the result of a pass may not hold, or a marker that the input of those behind accumulate may not: one that
 * was chosen by --passes lacks another one before it, or a text says that it is the result of a pass and is not. */
static const char *left_over(const struct ir_module *m, bool markers)
{
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *f = m->funcs.items[i];
        for (ir_value v = 1; v < f->count; v++)
            if (markers ? ir_ops[ir_get(f, v)->op].flags & IR_MARKER : !(ir_ops[ir_get(f, v)->op].stages & m->stage))
                return ir_ops[ir_get(f, v)->op].name;
    }
    return NULL;
}

/* `skips`: not all passes that come before have run here. */
static struct ir_module *run_one(struct pass *p, const struct row *row, struct ir_module *m, bool skips)
{
    struct running running = {p, m, m->plans, row->name};
    if (row->stage_in != stage_of(m)) {
        diag_error(p->diags, (struct diag_span){0}, "E0107",
                   "--passes: the module is at stage %s, pass \"%s\" needs stage %s", stage_name(stage_of(m)),
                   row->name, stage_name(row->stage_in));
        return NULL;
    }
    if (m->plans) m->plans = plan_copy(m->plans, p->keep);
    const char *marker = skips && row > rows + ROW_accumulate ? left_over(m, true) : NULL;
    if (marker) {
        diag_error(p->diags, (struct diag_span){0}, "E0107",
                   "%spass \"%s\" does not know %s, which another pass has to lower before",
                   p->options->only ? "--passes: " : "", row->name, marker);
        return NULL;
    }
    bug_set_hook(report_defect, &running);
    check(p, m, "before", row->name);
    bool compare = p->options->time_passes || p->options->verify_each;
    uint64_t hash = compare ? ir_hash_module(m) : 0;
    double start = clock_seconds();
    struct ir_module *result = row->run(p, m);
    double time = clock_seconds() - start;
    if (result && p->diags->errors == 0) {
        if (stage_of(result) != row->stage_out)
            BUG("the result is at stage %s, not %s", stage_name(stage_of(result)), stage_name(row->stage_out));
        result->after = row->name;
        const char *lacks = skips && row->stage_in != row->stage_out ? left_over(result, false) : NULL;
        if (lacks)
            diag_error(p->diags, (struct diag_span){0}, "E0107",
                       "%spass \"%s\" leaves %s, which another pass has to lower before",
                       p->options->only ? "--passes: " : "", row->name, lacks);
        else if (p->options->verify_each && result->plans) check_text(p, result, row->name);
        if (!lacks) check(p, result, "after", row->name);
        vec_push(p->keep, &p->times,
                 ((struct pass_time){row->name, start, time, count_nodes(result),
                                     result != m && (!compare || ir_hash_module(result) != hash)}));
    } else if (!result && p->diags->errors == 0) {
        BUG("a pass gave up without a diagnostic");
    }
    bug_set_hook(NULL, NULL);
    return p->diags->errors ? NULL : result;
}

static struct plan_module *run_all(struct pass *p, struct ir_module *in, struct ir_module **last)
{
    struct ir_module *m = in;
    size_t errors = p->diags->errors;
    *last = in;
    if (!check_options(p) || errors) return NULL;
    bool all = p->options->dump && !*p->options->dump;
    bool good = !all || dump(p, in, 0, "input");
    arena_free(&p->scratch);
    if (!good) return NULL;
    size_t first = first_row(p, in);
    for (size_t i = first; i < ROW_COUNT; i++) {
        if (!is_wanted(p->options, &rows[i], m)) continue;
        p->owned = m != in || p->options->consumes;
        struct ir_module *next = run_one(p, &rows[i], m, first || p->options->only);
        good = next && dump(p, next, i + 1, rows[i].name);
        arena_free(&p->scratch);
        if (!good) return NULL;
        if (next != m && p->owned) ir_module_free(m);
        *last = m = next;
        if (p->options->stop_after && strcmp(p->options->stop_after, rows[i].name) == 0) return NULL;
    }
    return p->diags->errors || stage_of(m) != PASS_MEMORY ? NULL : m->plans;
}

struct plan_module *pass_run(struct pass *p, struct ir_module *in, struct ir_module **last)
{
    struct plan_module *plans = run_all(p, in, last);
    pass_forget(&p->fused);
    return plans;
}
