/* What several passes share: errors with their place, rebuilding, inlining. */
#include "passes/common.h"
#include <string.h>

static struct diag *at_place(struct pass *p, const struct ir_module *m, uint32_t place, const char *code,
                             const char *message)
{
    struct ir_place where = place < m->places.count ? m->places.items[place] : (struct ir_place){0};
    struct diag *d = diag_error(p->diags, where.span, code, "%s", message);
    d->pointer = where.pointer ? arena_string(p->diags->arena, where.pointer) : NULL; /* outlives the module */
    return d;
}

struct diag *pass_error(struct pass *p, const struct ir_module *m, uint32_t place, const char *code, const char *format,
                        ...)
{
    va_list list;
    va_start(list, format);
    const char *message = arena_vformat(p->diags->arena, format, list);
    va_end(list);
    return at_place(p, m, place, code, message);
}

struct diag *pass_warning(struct pass *p, const struct ir_module *m, uint32_t place, const char *code,
                          const char *format, ...)
{
    size_t errors = p->diags->errors;
    va_list list;
    va_start(list, format);
    const char *message = arena_vformat(p->diags->arena, format, list);
    va_end(list);
    struct diag *d = at_place(p, m, place, code, message);
    if (p->diags->errors > errors) d->severity = DIAG_WARNING, p->diags->errors--;
    return d;
}

struct ir_module *pass_rebuild(struct pass *p, const struct ir_module *from, ir_rewrite *rewrite, void *user)
{
    struct ir_module *to = ir_module_like(from);
    uint32_t *order = ir_func_order(from, &p->scratch);
    for (size_t i = 0; i < from->funcs.count; i++)
        ir_rebuild(from->funcs.items[order[i]], to->funcs.items[order[i]], rewrite, user, &p->scratch);
    return to;
}

bool pass_keeps(struct pass *p, const struct ir_module *m,
                bool (*rewrites)(const struct ir_func *, const struct ir_node *))
{
    bool any = !p->owned;
    for (size_t i = 0; i < m->funcs.count && !any; i++)
        for (ir_value v = 1; v < m->funcs.items[i]->count && !any; v++)
            any = rewrites(m->funcs.items[i], ir_get(m->funcs.items[i], v));
    return !any;
}

ir_value pass_remake(struct pass *p, struct ir_builder *b, const struct ir_node *old, const ir_value *map)
{
    ir_value few[8], *args = old->arg_count <= 8 ? few : arena_new_array(&p->scratch, ir_value, old->arg_count);
    for (uint32_t i = 0; i < old->arg_count; i++) args[i] = map[old->args[i]];
    return ir_remake(b, old, args);
}

ir_value pass_copy_node(void *user, struct ir_builder *b, const struct ir_func *from, ir_value v, const ir_value *map)
{
    return pass_remake(user, b, ir_get(from, v), map);
}

void pass_copy_nodes(struct ir_builder *b, const struct ir_func *from, const bool *wanted, ir_value *map,
                     ir_rewrite *rewrite, void *user)
{
    uint32_t place = b->place;
    for (ir_value v = 1; v < from->count; v++) {
        const struct ir_node *n = ir_get(from, v);
        if (!wanted[v] || map[v]) continue;
        b->place = n->place ? n->place : place;
        map[v] = rewrite(user, b, from, v, map);
    }
    b->place = place;
}

void pass_copy_body(struct ir_builder *b, const struct ir_func *callee, const ir_value *operands, ir_value *results,
                    ir_rewrite *rewrite, void *user, struct arena *scratch)
{
    ir_value *map = arena_new_array(scratch, ir_value, callee->count);
    for (size_t i = 0; i < callee->params.count; i++) map[callee->params.items[i].value] = operands[i];
    pass_copy_nodes(b, callee, ir_live(callee, scratch), map, rewrite, user);
    for (size_t i = 0; i < callee->results.count; i++) results[i] = map[callee->results.items[i].value];
}

struct ir_func *pass_new_body(struct pass *p, struct ir_module *m, const struct ir_func *like, const char *what)
{
    return ir_func_new(m, arena_format(&p->scratch, "%s.%s%zu", like->name, what, m->funcs.count), false);
}

uint32_t *pass_live_uses(const struct ir_func *f, const bool *live, struct arena *arena)
{
    uint32_t *uses = arena_new_array(arena, uint32_t, f->count);
    for (ir_value v = 1; v < f->count; v++)
        for (uint32_t i = 0; live[v] && i < f->nodes[v].arg_count; i++) uses[f->nodes[v].args[i]]++;
    for (size_t i = 0; i < f->results.count; i++) uses[f->results.items[i].value]++;
    return uses;
}

bool pass_has(struct ir_ints list, int64_t dim)
{
    for (uint32_t i = 0; i < list.n; i++)
        if (list.v[i] == dim) return true;
    return false;
}

int64_t pass_extent(const struct ir_type *type, struct ir_ints dims)
{
    int64_t extent = 1;
    for (uint32_t i = 0; i < dims.n; i++) extent *= type->dim[dims.v[i]];
    return extent;
}

struct pass_dims pass_free_dims(const struct ir_type *type, struct ir_ints batch, struct ir_ints contract)
{
    struct pass_dims list = {.n = 0};
    for (uint32_t i = 0; i < type->rank; i++)
        if (!pass_has(batch, i) && !pass_has(contract, i)) pass_dims_add(&list, i);
    return list;
}

bool pass_number(const struct ir_func *f, ir_value v, double *number)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op == OP_broadcast || n->op == OP_reshape) return pass_number(f, n->args[0], number);
    if (!ir_is_number(n)) return false;
    *number = ir_element_get((enum ir_dtype)n->type.dtype, n->data, 0);
    return true;
}

bool pass_is_zero(const struct ir_func *f, ir_value v)
{
    double number;
    return pass_number(f, v, &number) && number == 0;
}

uint32_t pass_turn(int64_t elements) { return elements % 64 == 0 ? 0 : elements == 1 ? 2 : 1; }

void pass_forget(struct pass_fused *fused)
{
    if (fused->made != fused->of) ir_module_free(fused->made);
    *fused = (struct pass_fused){0};
}

bool pass_is_outlined(const struct ir_func *f)
{
    return !f->entry && strncmp(f->name, PASS_OUTLINED, strlen(PASS_OUTLINED)) == 0;
}
