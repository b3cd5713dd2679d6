/* Where expressions stand in the document: whom errors blame, and whom what the builder rejects blames. */
#include "frontend/expr/values.h"

struct fe_val fe_bad(void) { return (struct fe_val){.kind = FE_VAL_NONE, .bad = true}; }

static struct diag *fail_v(const struct fe_site *s, const struct fe_where *w, const char *code, const char *format,
                           va_list list)
{
    const char *text = arena_vformat(s->fe->arena, format, list);
    if (!w->part) return fe_error(s->fe, w->json, code, "%s", text);
    return fe_error_in(s->fe, w->json, w->at, w->length, code, "%s", text);
}

struct diag *fe_fail_at(const struct fe_site *s, const struct fe_where *w, const char *code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    struct diag *d = fail_v(s, w, code, format, list);
    va_end(list);
    return d;
}

struct fe_val fe_fail(const struct fe_site *s, const char *code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fail_v(s, &s->where, code, format, list);
    va_end(list);
    return fe_bad();
}

static void site_reject(void *user, const char *message) { fe_fail(user, "E0211", "%s", message); }

struct fe_hook fe_hook_set(struct fe_site *s)
{
    struct fe_hook old = {s->b->reject, s->b->user, s->b->place};
    s->b->reject = site_reject;
    s->b->user = s;
    s->b->place = fe_place(s->fe, s->where.json);
    return old;
}

void fe_hook_reset(struct fe_site *s, struct fe_hook old)
{
    s->b->reject = old.reject;
    s->b->user = old.user;
    s->b->place = old.place;
}
