/* What the checks of values (NEST_CHECK) are called in messages: a line each, as `sites` of step_abi.h wants them. */
#include "codegen/llvm/llvm_object.h"
#include <stepc/step_abi.h>
#include <string.h>

/* Values that nothing uses but what a select may leave out, element for element: they are checked where they are made,
 * not where they are chosen. */
static const bool *find_optional(const struct ir_func *f, struct arena *arena)
{
    bool *optional = arena_new_array(arena, bool, f->count + 1);
    memset(optional, true, f->count * sizeof *optional);
    for (size_t i = 0; i < f->results.count; i++) optional[f->results.items[i].value] = false;
    for (ir_value v = f->count - 1; v > 0; v--) {
        const struct ir_node *n = ir_get(f, v);
        bool kept = optional[v] && (ir_is_ewise((enum ir_op)n->op) || ir_ops[n->op].emit == EMIT_view);
        for (uint32_t i = 0; i < n->arg_count; i++) optional[n->args[i]] &= (n->op == OP_select && i > 0) || kept;
    }
    return optional;
}

static void add_site(struct str *out, const struct cg_site *site, const struct diag_source *source, bool optional)
{
    bool given = ir_get(site->func, site->value)->op == OP_param;
    str_addf(out, "%c", given ? STEPC_SITE_GIVEN : STEPC_SITE_MADE);
    ir_site_text(out, site->func, site->value, source);
    if (optional && !given) str_add(out, ", which a where may leave out");
    if (site->alike > 1) str_addf(out, " or one of the %u tensors computed with it", site->alike);
    str_add(out, "\n");
}

const char *cg_sites_text(const struct cg_sites *sites, struct arena *arena)
{
    struct str out = STR(arena);
    const struct ir_func *f = NULL;
    const bool *optional = NULL;
    for (size_t i = 0; i < sites->list.count; i++) {
        const struct cg_site *site = &sites->list.items[i];
        if (f != site->func) optional = find_optional(f = site->func, arena);
        add_site(&out, site, sites->source, optional[site->value]);
    }
    return str_text(&out);
}
