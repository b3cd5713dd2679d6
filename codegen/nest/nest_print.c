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

/* $v result, $o op, $t dtype, $a operands, $x number, $p position, $b element of a buffer, $r element of registers,
 * $c condition if there is one, $C condition, $w pair or not, $i loop and variable, $n extent, $B buffer, $R register,
 * $l lanes, $m two more registers, $s what is spread, $T the product of two tiles, $P of two panels, $f from where, $W
 * what a warp takes */
static const char *const forms[] = {
    [NEST_FOR] = "$i < $n",
    [NEST_IF] = "if v$C",
    [NEST_OP] = "$v = $o $t$a",
    [NEST_FMA] = "$v = fma $t$a",
    [NEST_NUMBER] = "$v = $t $x",
    [NEST_POSITION] = "$v = position $p",
    [NEST_LOAD] = "$v = load$w $b$c",
    [NEST_STORE] = "store$w $b$a$c",
    [NEST_ADD_TO] = "add_to $b$a$c",
    [NEST_REG] = "reg $R[$n] $t$l = $x",
    [NEST_GET] = "$v = get $r",
    [NEST_SET] = "set $r$a",
    [NEST_REDUCE] = "reduce $r $o$a",
    [NEST_FOLD] = "$v = fold $o $r",
    [NEST_TURN] = "turn $R[$n]",
    [NEST_LOCAL] = "local $B[$n] $t",
    [NEST_CHECK] = "check $n $p$a$c",
    [NEST_PREFETCH] = "prefetch $b + $n",
    [NEST_MATRIX] = "matrix $t $R$m",
    [NEST_TILES] = "tiles $b$T",
    [NEST_SPREAD] = "spread $R$s",
    [NEST_WARPGROUP] = "warpgroup $t $R$P",
    [NEST_WARPGROUP_WAIT] = "wait $R but $n",
    [NEST_TAKE] = "take $R$W",
    [NEST_COPY] = "copy $b = $f$c",
    [NEST_COPIES] = "copies",
    [NEST_ARRIVED] = "arrived but $n",
};

static void print_tiles(struct str *out, const struct nest_tiles *t, bool add)
{
    str_addf(out, " by %lld %s", (long long)t->stride, add ? "+=" : "=");
    for (int i = 0; i < 2; i++) {
        str_addf(out, "%s %u x %lld b%u[", i ? " *" : "", i ? t->columns : t->rows, (long long)t->steps, t->from[i]);
        print_index(out, &t->at[i]);
        str_addf(out, "] by %lld", (long long)t->apart[i]);
    }
}

static void print_panels(struct str *out, const struct nest_panels *p)
{
    str_addf(out, " += %u x %lld", p->columns, (long long)p->steps);
    for (int i = 0; i < 2; i++) {
        str_addf(out, "%s b%u[", i ? " *" : "", p->from[i]);
        print_index(out, &p->at[i]);
        str_addf(out, "]%s", p->steps_first[i] ? "" : " turned");
    }
}

static void print_take(struct str *out, const struct nest_take *t)
{
    str_addf(out, " %s %lld of warp / %lld %% %lld, step %lld of %lld, b%u[", t->left ? "left" : "right",
             (long long)t->size, (long long)t->by, (long long)t->count, (long long)t->step, (long long)t->steps,
             t->from);
    print_index(out, &t->at);
    str_addf(out, "]%s", t->steps_first ? "" : " turned");
}

static void print_part(struct str *out, const struct nest_stmt *s, char part)
{
    switch (part) {
    case 'v': str_addf(out, "v%u", s->result); break;
    case 'o': str_add(out, ir_ops[s->op].name); break;
    case 't': str_add(out, ir_dtype_name((enum ir_dtype)s->dtype)); break;
    case 'x': str_add_number(out, s->number, s->dtype == IR_F32); break;
    case 'a':
        for (uint32_t i = 0; i < s->arg_count; i++) str_addf(out, " v%u", s->args[i]);
        if (s->op == OP_threefry) str_addf(out, " word %u", s->word);
        else if (s->kind == NEST_OP && s->word) str_add(out, " rough");
        break;
    case 'b':
    case 'r': str_addf(out, "%c%u[", part, part == 'b' ? s->buffer : s->reg); /* fall through */
    case 'p':
        print_index(out, &s->index);
        if (part != 'p') str_add(out, "]");
        break;
    case 'c':
        if (s->cond) str_addf(out, " if v%u", s->cond);
        break;
    case 'w': str_add(out, s->word ? " pair" : ""); break;
    case 'C': str_addf(out, "%u", s->cond); break;
    case 'i': str_addf(out, "%s i%u", loop_names[s->loop], s->var); break;
    case 'n':
        if (s->extent < 0) str_add(out, "n");
        else str_addf(out, "%lld", (long long)s->extent);
        break;
    case 'B': str_addf(out, "b%u", s->buffer); break;
    case 'R': str_addf(out, "r%u", s->reg); break;
    case 's':
        str_addf(out, " from r%u lane ", s->from[0]);
        print_index(out, &s->index);
        str_addf(out, " each %lld by %u", (long long)s->extent, s->from[1]);
        break;
    case 'm': str_addf(out, " += r%u * r%u", s->from[0], s->from[1]); break;
    case 'T': print_tiles(out, s->tiles, s->word); break;
    case 'P': print_panels(out, s->panels); break;
    case 'W': print_take(out, s->take); break;
    case 'f':
        str_addf(out, "b%u[", s->from[0]);
        print_index(out, s->source);
        str_add(out, "]");
        break;
    case 'l': str_add(out, s->lanes ? " lanes" : ""); break;
    default: BUG("a form has no part %c", part);
    }
}

static void print_stmts(struct str *out, struct nest_stmt *const *items, size_t count, int indent)
{
    for (size_t i = 0; i < count; i++) {
        str_addf(out, "%*s", indent * 2, "");
        for (const char *at = forms[items[i]->kind]; *at; at++)
            if (*at == '$') print_part(out, items[i], *++at);
            else str_addf(out, "%c", *at);
        str_add(out, "\n");
        print_stmts(out, items[i]->body.items, items[i]->body.count, indent + 1);
    }
}

void nest_print(const struct nest *nest, struct str *out)
{
    static const char *const checks[] = {"", " checked", " bounded", " close"};
    str_addf(out, "nest lanes %u parallel %lld grain %lld scratch %llu%s\n", nest->lanes,
             (long long)nest->parallel_extent, (long long)nest->grain, (unsigned long long)nest->scratch_bytes,
             nest->flat ? " flat" : "");
    for (uint32_t i = 0; i < nest->argument_count; i++) {
        const struct nest_buffer *buffer = &nest->buffers.items[i];
        str_addf(out, "  %s b%u %s%s%s%s\n", buffer->written ? "out" : "in", i,
                 ir_dtype_name((enum ir_dtype)buffer->dtype), checks[buffer->checked], buffer->doc ? " # " : "",
                 buffer->doc ? buffer->doc : "");
    }
    print_stmts(out, nest->body.items, nest->body.count, 1);
}

void nest_print_named(const struct nest *nest, const char *name, struct str *out)
{
    str_addf(out, "%s: ", name);
    nest_print(nest, out);
    str_add(out, "\n");
}

/* ---------------------------------------------------------------- verifier */

struct check {
    const struct nest *nest;
    struct str *faults;
    bool *value, *var, *reg; /* visible now */
    uint32_t parallel, vector;
    uint32_t inside, others; /* loops around: parallel ones, others */
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
        if (c->parallel++ != c->inside || c->others || (!outermost && !c->inside))
            fault(c, "a parallel loop beside another one, or in one that is not: variable", s->var);
        if (outermost && s->extent * nest_inner(s) != c->nest->parallel_extent)
            fault(c, "the extent of the parallel loops differs from the nest's: variable", s->var);
    }
    if (s->extent < 0 && !(c->nest->flat && s->loop == NEST_VECTOR && outermost))
        fault(c, "a loop without extent: variable", s->var);
    if (c->vector && s->loop != NEST_UNROLL) fault(c, "a loop inside a vector loop: variable", s->var);
    uint32_t *around = s->loop == NEST_PARALLEL ? &c->inside : &c->others;
    c->vector += s->loop == NEST_VECTOR;
    c->var[s->var] = true;
    (*around)++;
    check_stmts(c, s->body.items, s->body.count);
    (*around)--;
    c->var[s->var] = false;
    c->vector -= s->loop == NEST_VECTOR;
}

static void check_tiles(struct check *c, const struct nest_tiles *t)
{
    if (c->vector) fault(c, "a product inside a vector loop: rows", t->rows);
    if (!t->rows || t->rows > NEST_TILE_EDGE || !t->columns || t->columns > NEST_TILE_EDGE || t->steps < 1)
        fault(c, "tiles of a size that there is not: rows", t->rows);
    for (int i = 0; i < 2; i++) {
        check_index(c, &t->at[i]);
        if (t->from[i] >= c->nest->buffers.count) fault(c, "no such buffer:", t->from[i]);
    }
}

static void check_panels(struct check *c, const struct nest_panels *p)
{
    for (int i = 0; i < 2; i++) {
        check_index(c, &p->at[i]);
        if (p->from[i] >= c->nest->buffers.count || !c->nest->buffers.items[p->from[i]].swizzle)
            fault(c, "no such panel:", p->from[i]);
    }
}

static void check_take(struct check *c, const struct nest_take *t)
{
    check_index(c, &t->at);
    if (t->from >= c->nest->buffers.count || !c->nest->buffers.items[t->from].swizzle)
        fault(c, "no such panel:", t->from);
    if (t->size % NEST_UNIT_ROWS || t->by < 1 || t->count < 1 || t->step + NEST_UNIT_STEPS > t->steps)
        fault(c, "a part of a panel that there is not:", t->from);
}

static void check_copy(struct check *c, const struct nest_stmt *s)
{
    if (!c->vector) fault(c, "a copy outside of a vector loop: buffer", s->buffer);
    check_index(c, s->source);
    if (s->from[0] >= c->nest->argument_count) fault(c, "no such argument:", s->from[0]);
    if (s->buffer < c->nest->buffers.count && !c->nest->buffers.items[s->buffer].swizzle)
        fault(c, "no such panel:", s->buffer);
}

static void check_stmt(struct check *c, const struct nest_stmt *s, bool outermost)
{
    bool product = s->kind == NEST_MATRIX || s->kind == NEST_TAKE || s->kind == NEST_WARPGROUP ||
                   s->kind == NEST_WARPGROUP_WAIT;
    for (uint32_t i = 0; i < s->arg_count; i++) check_value(c, s->args[i], "an operand is not visible:");
    if (s->cond) check_value(c, s->cond, "a condition is not visible:");
    check_index(c, &s->index);
    bool stores = s->kind == NEST_STORE || s->kind == NEST_ADD_TO || s->kind == NEST_TILES || s->kind == NEST_COPY;
    bool reads = s->kind == NEST_LOAD || s->kind == NEST_PREFETCH;
    if ((stores || reads) && s->buffer >= c->nest->buffers.count) fault(c, "no such buffer:", s->buffer);
    else if (stores && !c->nest->buffers.items[s->buffer].written)
        fault(c, "a store to a buffer that is only read:", s->buffer);
    if ((s->kind == NEST_GET || s->kind == NEST_SET || s->kind == NEST_REDUCE || s->kind == NEST_FOLD ||
         s->kind == NEST_TURN || s->kind == NEST_SPREAD || product) &&
        (s->reg >= c->nest->reg_count || !c->reg[s->reg]))
        fault(c, "no such register here:", s->reg);
    if (s->kind == NEST_FOLD && c->vector) fault(c, "a fold inside a vector loop: register", s->reg);
    if (s->kind == NEST_TURN && c->vector) fault(c, "a turn inside a vector loop: register", s->reg);
    if (s->kind == NEST_SPREAD && c->vector) fault(c, "lanes are spread inside a vector loop: register", s->reg);
    if (s->kind == NEST_SPREAD && (s->from[0] >= c->nest->reg_count || !c->reg[s->from[0]] || s->extent < 1))
        fault(c, "no such register here:", s->from[0]);
    for (uint32_t i = 0; i < 2 && s->kind == NEST_MATRIX; i++)
        if (s->from[i] >= c->nest->reg_count || !c->reg[s->from[i]]) fault(c, "no such register here:", s->from[i]);
    if (product && c->vector) fault(c, "a product inside a vector loop: register", s->reg);
    if (s->kind == NEST_TILES) check_tiles(c, s->tiles);
    if (s->panels) check_panels(c, s->panels);
    if (s->take) check_take(c, s->take);
    if (s->kind == NEST_COPY) check_copy(c, s);
    if (s->kind == NEST_ARRIVED && c->vector)
        fault(c, "threads meet inside a vector loop: groups", (uint32_t)s->extent);
    if (s->kind == NEST_FOR) check_loop(c, s, outermost);
    else if (s->kind == NEST_IF) check_stmts(c, s->body.items, s->body.count);
    else if (s->kind == NEST_REG) c->reg[s->reg] = true;
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
    check_stmts(&c, nest->body.items, nest->body.count);
    arena_free(&scratch);
    return c.ok;
}
