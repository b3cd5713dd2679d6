/* Geometry of sliding windows, as lax.conv_general_dilated and lax.reduce_window have it. */
#include "frontend/model/layers/window.h"
#include <string.h>

bool window_ints(struct fe_block *block, const struct fe_value *v, int64_t preset, int64_t least, int64_t *out,
                 uint32_t *count)
{
    struct fe *fe = block->site.fe;
    *count = 0;
    out[0] = preset;
    if (!v->given || v->null) return true;
    bool list = v->json->kind == JSON_ARRAY;
    for (fe_json c = list ? fe_first(fe, v->json) : v->json; c; c = list ? fe_next(fe, c) : NULL) {
        if (*count == IR_MAX_RANK - 1)
            return fe_block_wrong(block, v->json, "E0103", "at most %d integers expected", IR_MAX_RANK - 1);
        if (!fe_integer(fe, c, &out[list ? (*count)++ : 0])) return false;
        int64_t last = out[list ? *count - 1 : 0];
        if (last < least || last > 1 << 30)
            return fe_block_wrong(block, c, "E0103", "an integer from %lld on expected, found %lld", (long long)least,
                                  (long long)last);
        if (!list) break;
    }
    if (list && !*count)
        return fe_block_wrong(block, v->json, "E0103",
                              "an integer or a list of integers expected, found an empty list");
    return true;
}

bool window_per_axis(struct fe_block *block, const struct fe_value *v, int64_t preset, uint32_t rank, int64_t *out)
{
    uint32_t count;
    if (!window_ints(block, v, preset, 1, out, &count)) return false;
    if (count && count != rank)
        return fe_block_wrong(block, v->json, "E0212", "%u integers expected, one per spatial axis, found %u",
                              (unsigned)rank, (unsigned)count);
    for (uint32_t i = 1; !count && i < rank; i++) out[i] = out[0];
    return true;
}

static bool padding_pairs(struct fe_block *block, fe_json list, struct fe_window *w)
{
    struct fe *fe = block->site.fe;
    uint32_t n = 0;
    for (fe_json c = fe_first(fe, list); c; c = fe_next(fe, c), n++) {
        if (n == w->rank) break;
        fe_json low = c->kind == JSON_ARRAY ? fe_first(fe, c) : c,
                high = c->kind == JSON_ARRAY && low ? fe_next(fe, low) : c;
        if (!low || !high || (c->kind == JSON_ARRAY && c->count != 2))
            return fe_block_wrong(block, c, "E0103", "a padding is an integer or a pair [low, high]");
        if (!fe_integer(fe, low, &w->low[n]) || !fe_integer(fe, high, &w->high[n])) return false;
    }
    if (n == w->rank && list->count == n) return true;
    return fe_block_wrong(block, list, "E0212", "%u paddings expected, one per spatial axis, found %u",
                          (unsigned)w->rank, (unsigned)list->count);
}

bool window_padding(struct fe_block *block, const struct fe_value *v, const char *preset, struct fe_window *w,
                    const struct ir_type *t)
{
    static const char *const names[] = {"SAME", "VALID", "CAUSAL", "CIRCULAR", "REFLECT", "SAME_LOWER"};
    enum { SAME, VALID, CAUSAL, CIRCULAR, REFLECT, SAME_LOWER, NAMES };
    struct fe *fe = block->site.fe;
    bool string = !v->given || v->json->kind == JSON_STRING;
    const char *name = !v->given ? preset : string ? v->json->string : "";
    int64_t all = 0; /* on every side, if it is a number */
    w->mode = "constant";
    if (!string && v->json->kind == JSON_ARRAY) return padding_pairs(block, v->json, w);
    if (!string && !fe_integer(fe, v->json, &all)) return false;
    int which = -1;
    for (int i = 0; string && i < NAMES; i++)
        if (!strcmp(names[i], name)) which = i;
    if (string && which < 0) {
        fe_suggest(fe, fe_error(fe, v->json, "E0103", "unknown padding \"%s\"", name), name, names, NAMES);
        return false;
    }
    if (which == CAUSAL && w->rank != 1)
        return fe_block_wrong(block, v->json, "E0212", "causal padding is for one spatial axis, found %u",
                              (unsigned)w->rank);
    bool around = which == CIRCULAR || which == REFLECT;
    if (around) w->mode = which == CIRCULAR ? "wrap" : "reflect";
    for (uint32_t i = 0; i < w->rank; i++) {
        int64_t reach = (w->size[i] - 1) * w->dilation[i] + 1;
        if (which == SAME || which == SAME_LOWER) {
            fe_window_same(w, i, t->dim[w->first + i], which == SAME_LOWER);
            continue;
        }
        w->low[i] = !string ? all : which == CAUSAL ? reach - 1 : around ? (reach - 1) / 2 : 0;
        w->high[i] = !string ? all : around ? reach / 2 : 0;
    }
    return true;
}
