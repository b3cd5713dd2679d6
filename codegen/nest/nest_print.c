/* The text form of nests, for dumps and golden tests, and the verifier of their invariants: every value is defined
 * before its use in an enclosing loop, registers and buffers exist, loops are in the order the printers expect. */
#include "codegen/nest/nest.h"
#include <string.h>

static const char *const loop_names[] = {"parallel", "serial", "unroll", "vector"};

static void print_sum(struct str *out, bool *first, int64_t scale, char kind, uint32_t number)
{
    if (*first && scale < 0) str_add(out, "-");
    else if (!*first) str_add(out, scale < 0 ? " - " : " + ");
    *first = false;
    int64_t size = scale < 0 ? -scale : scale;
    if (size != 1) str_addf(out, "%lld*", (long long)size);
    str_addf(out, "%c%u", kind, number);
}

static void print_index(struct str *out, const struct nest_index *index)
{
    bool first = true;
    for (uint32_t i = 0; i < index->term_count; i++)
        print_sum(out, &first, index->terms[i].scale, 'i', index->terms[i].var);
    for (uint32_t i = 0; i < index->scaled_count; i++)
        print_sum(out, &first, index->scaled[i].scale, 'v', index->scaled[i].value);
    if (first) str_addf(out, "%lld", (long long)index->offset);
    else if (index->offset)
        str_addf(out, " %c %lld", index->offset < 0 ? '-' : '+',
                 (long long)(index->offset < 0 ? -index->offset : index->offset));
}

static const char *op_text(uint16_t op) { return ir_ops[op].name; }

static void print_reg(struct str *out, const struct nest_stmt *s)
{
    str_addf(out, "r%u[", s->reg);
    print_index(out, &s->index);
    str_add(out, "]");
}

static void print_buffer(struct str *out, const struct nest_stmt *s)
{
    str_addf(out, "b%u[", s->buffer);
    print_index(out, &s->index);
    str_add(out, "]");
}

static void print_cond(struct str *out, const struct nest_stmt *s)
{
    if (s->cond) str_addf(out, " if v%u", s->cond);
}

static void print_stmts(struct str *out, struct nest_stmt *const *items, size_t count, int indent);

static void print_value(struct str *out, const struct nest_stmt *s)
{
    str_addf(out, "v%u = ", s->result);
    switch (s->kind) {
    case NEST_OP:
    case NEST_FMA:
        str_addf(out, "%s %s", s->kind == NEST_FMA ? "fma" : op_text(s->op), ir_dtype_name((enum ir_dtype)s->dtype));
        for (uint32_t i = 0; i < s->arg_count; i++) str_addf(out, " v%u", s->args[i]);
        if (s->op == OP_threefry) str_addf(out, " word %u", s->word);
        break;
    case NEST_NUMBER:
        str_addf(out, "%s ", ir_dtype_name((enum ir_dtype)s->dtype));
        str_add_number(out, s->number, s->dtype == IR_F32);
        break;
    case NEST_POSITION:
        str_add(out, "position ");
        print_index(out, &s->index);
        break;
    case NEST_LOAD:
        str_add(out, "load ");
        print_buffer(out, s);
        print_cond(out, s);
        break;
    case NEST_GET:
        str_add(out, "get ");
        print_reg(out, s);
        break;
    default:
        str_addf(out, "fold %s ", op_text(s->op));
        print_reg(out, s);
        break;
    }
}

static void print_stmt(struct str *out, const struct nest_stmt *s, int indent)
{
    str_addf(out, "%*s", indent * 2, "");
    switch (s->kind) {
    case NEST_FOR:
        if (s->extent < 0) str_addf(out, "%s i%u < n\n", loop_names[s->loop], s->var);
        else str_addf(out, "%s i%u < %lld\n", loop_names[s->loop], s->var, (long long)s->extent);
        print_stmts(out, s->body.items, s->body.count, indent + 1);
        return;
    case NEST_IF:
        str_addf(out, "if v%u\n", s->cond);
        print_stmts(out, s->body.items, s->body.count, indent + 1);
        return;
    case NEST_STORE:
    case NEST_ADD_TO:
        str_add(out, s->kind == NEST_STORE ? "store " : "add_to ");
        print_buffer(out, s);
        str_addf(out, " v%u", s->args[0]);
        print_cond(out, s);
        break;
    case NEST_SET:
        str_add(out, "set ");
        print_reg(out, s);
        str_addf(out, " v%u", s->args[0]);
        break;
    case NEST_REDUCE:
        str_add(out, "reduce ");
        print_reg(out, s);
        str_addf(out, " %s v%u", op_text(s->op), s->args[0]);
        break;
    case NEST_REG:
        str_addf(out, "reg r%u[%lld] %s%s = ", s->reg, (long long)s->extent, ir_dtype_name((enum ir_dtype)s->dtype),
                 s->lanes ? " lanes" : "");
        str_add_number(out, s->number, s->dtype == IR_F32);
        break;
    case NEST_LOCAL:
        str_addf(out, "local b%u[%lld] %s", s->buffer, (long long)s->extent, ir_dtype_name((enum ir_dtype)s->dtype));
        break;
    default: print_value(out, s); break;
    }
    str_add(out, "\n");
}

static void print_stmts(struct str *out, struct nest_stmt *const *items, size_t count, int indent)
{
    for (size_t i = 0; i < count; i++) print_stmt(out, items[i], indent);
}

void nest_print(const struct nest *nest, struct str *out)
{
    str_addf(out, "nest lanes %u parallel %lld grain %lld scratch %llu%s\n", nest->lanes,
             (long long)nest->parallel_extent, (long long)nest->grain, (unsigned long long)nest->scratch_bytes,
             nest->flat ? " flat" : "");
    for (uint32_t i = 0; i < nest->argument_count; i++) {
        const struct nest_buffer *buffer = &nest->buffers.items[i];
        str_addf(out, "  %s b%u %s%s%s\n", buffer->written ? "out" : "in", i,
                 ir_dtype_name((enum ir_dtype)buffer->dtype), buffer->doc ? " # " : "", buffer->doc ? buffer->doc : "");
    }
    print_stmts(out, nest->body.items, nest->body.count, 1);
}

/* ---------------------------------------------------------------- verifier */

struct check {
    const struct nest *nest;
    struct str *faults;
    bool *value, *var, *reg; /* visible now */
    bool *lanes;             /* by register */
    uint32_t parallel, vector;
    bool ok;
};

static void fault(struct check *c, const char *what, uint32_t number)
{
    c->ok = false;
    if (c->faults) str_addf(c->faults, "nest: %s %u\n", what, number);
}

static void check_value(struct check *c, nest_value v, const char *what)
{
    if (v == 0 || v >= c->nest->value_count || !c->value[v]) fault(c, what, v);
}

static void check_index(struct check *c, const struct nest_index *index)
{
    for (uint32_t i = 0; i < index->term_count; i++)
        if (index->terms[i].var >= c->nest->var_count || !c->var[index->terms[i].var])
            fault(c, "index uses a loop variable that is not visible:", index->terms[i].var);
    for (uint32_t i = 0; i < index->scaled_count; i++)
        check_value(c, index->scaled[i].value, "index uses a value that is not visible:");
}

static void check_stmts(struct check *c, struct nest_stmt *const *items, size_t count);

static void check_loop(struct check *c, const struct nest_stmt *s, bool outermost)
{
    if (s->loop == NEST_PARALLEL) {
        if (!outermost || c->parallel++)
            fault(c, "a parallel loop that is not the only outermost one: variable", s->var);
        if (s->extent != c->nest->parallel_extent)
            fault(c, "the parallel loop's extent differs from the nest's: variable", s->var);
    }
    if (s->extent < 0 && !(c->nest->flat && s->loop == NEST_VECTOR && outermost))
        fault(c, "a loop without extent: variable", s->var);
    if (c->vector) fault(c, "a loop inside a vector loop: variable", s->var);
    c->vector += s->loop == NEST_VECTOR;
    c->var[s->var] = true;
    check_stmts(c, s->body.items, s->body.count);
    c->var[s->var] = false;
    c->vector -= s->loop == NEST_VECTOR;
}

static void check_stmt(struct check *c, const struct nest_stmt *s, bool outermost)
{
    for (uint32_t i = 0; i < s->arg_count; i++) check_value(c, s->args[i], "an operand is not visible:");
    if (s->cond) check_value(c, s->cond, "a condition is not visible:");
    check_index(c, &s->index);
    if ((s->kind == NEST_LOAD || s->kind == NEST_STORE || s->kind == NEST_ADD_TO) &&
        s->buffer >= c->nest->buffers.count)
        fault(c, "no such buffer:", s->buffer);
    if ((s->kind == NEST_STORE || s->kind == NEST_ADD_TO) && !c->nest->buffers.items[s->buffer].written)
        fault(c, "a store to a buffer that is only read:", s->buffer);
    if ((s->kind == NEST_GET || s->kind == NEST_SET || s->kind == NEST_REDUCE || s->kind == NEST_FOLD) &&
        !c->reg[s->reg])
        fault(c, "no such register here:", s->reg);
    if (s->kind == NEST_FOLD && c->vector) fault(c, "a fold inside a vector loop: register", s->reg);
    if (s->kind == NEST_FOR) check_loop(c, s, outermost);
    else if (s->kind == NEST_IF) check_stmts(c, s->body.items, s->body.count);
    else if (s->kind == NEST_REG) c->reg[s->reg] = true, c->lanes[s->reg] = s->lanes;
    if (s->result) c->value[s->result] = true;
}

static void check_stmts(struct check *c, struct nest_stmt *const *items, size_t count)
{
    bool outermost = items == c->nest->body.items;
    for (size_t i = 0; i < count; i++) check_stmt(c, items[i], outermost);
    for (size_t i = 0; i < count; i++) { /* leave the scope */
        if (items[i]->result) c->value[items[i]->result] = false;
        if (items[i]->kind == NEST_REG) c->reg[items[i]->reg] = false;
    }
}

bool nest_verify(const struct nest *nest, struct str *faults)
{
    struct arena scratch = {0};
    struct check c = {.nest = nest, .faults = faults, .ok = true};
    c.value = arena_new_array(&scratch, bool, nest->value_count + 1);
    c.var = arena_new_array(&scratch, bool, nest->var_count + 1);
    c.reg = arena_new_array(&scratch, bool, nest->reg_count + 1);
    c.lanes = arena_new_array(&scratch, bool, nest->reg_count + 1);
    check_stmts(&c, nest->body.items, nest->body.count);
    arena_free(&scratch);
    return c.ok;
}
