/* The verifier: every invariant of its list has a module that breaks it, faults are collected, and no corruption of
 * a node's fields crashes it. */
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "tests/unit/suite.h"

static struct arena arena;
static struct ir_module *m;
static struct ir_func *step, *body;

static const char text[] =
    "module \"m\" stage tensor\nmesh \"data\"=2\nplace 1 1+1\n"
    "slot 0 \"w\" param float32[2, 3]\nslot 1 \"x\" input float32[2, 3]\nslot 2 \"loss\" metric float32[]\n"
    "slot 3 \"mu.w\" opt_state float32[2, 3] of=0\n"
    "func \"body\" {\n%1 = param index=0 \"i\" : int32[]\n%2 = param index=1 \"c\" : float32[2, 3]\n%3 = neg(%2) : "
    "float32[2, 3]\nresult \"c\" %3\n}\n"
    "func \"step\" entry {\n"
    "%1 = param index=0 \"w\" slot=0 : float32[2, 3]\n"
    "%2 = param index=1 \"x\" slot=1 : float32[2, 3]\n"
    "%3 = add(%1, %2) : float32[2, 3]\n"
    "%4 = constant 3 : int32[]\n"
    "%5 = loop(%4, %3) carried=1 while=0 func=\"body\" : tuple\n"
    "%6 = proj(%5) index=0 : float32[2, 3]\n"
    "%7 = reduce_sum(%6) dims=[0, 1] : float32[]\n"
    "%8 = constant true : bool[]\n"
    "result \"w\" %6 slot=0\nresult \"loss\" %7 slot=2\n}\n";

static void setup(void)
{
    arena = (struct arena){0};
    struct diags diags = {.arena = &arena, .source = {"test", text, sizeof text - 1}};
    m = ir_parse(text, sizeof text - 1, &diags);
    if (!m) ck_abort_msg("%s", diags.list.items[0].message);
    body = m->funcs.items[0];
    step = m->funcs.items[1];
}

static void teardown(void)
{
    ir_module_free(m);
    arena_free(&arena);
}

static void faults(const char *wanted)
{
    struct str s = STR(&arena), printed = STR(&arena);
    ck_assert_msg(!ir_verify(m, &s), "accepted, expected: %s", wanted);
    ck_assert_msg(strstr(str_text(&s), wanted) != NULL, "expected: %s\nfound: %s", wanted, str_text(&s));
    ir_print(m, &printed); /* a faulty module is shown */
}

/* Breaks one thing, looks for the fault, and starts again. */
#define BREAK(wanted, ...) \
    do { \
        __VA_ARGS__; \
        faults(wanted); \
        teardown(); \
        setup(); \
    } while (0)

START_TEST(modules_and_slots)
{
    ck_assert(ir_verify(m, NULL));
    BREAK("stage 8 does not exist", int stage = 8; memcpy(&m->stage, &stage, sizeof stage));
    BREAK("mesh has 7 axes", m->mesh.axis_count = 7);
    BREAK("mesh axis 0 has size 0", m->mesh.size[0] = 0);
    BREAK("two functions have the name step", body->name = "step");
    BREAK("two slots have the name w", m->slots.items[3].name = "w");
    BREAK("a slot has no name", m->slots.items[1].name = NULL);
    BREAK("reaches itself", body->nodes[3].op = OP_call; body->nodes[3].func = 1);
    BREAK("role 99 does not exist", int role = 99; memcpy(&m->slots.items[0].role, &role, sizeof role));
    BREAK("slot x is not a tensor", m->slots.items[1].type.rank = 200);
    BREAK("belongs to slot 1", m->slots.items[3].param = 2);
    BREAK("expected a hyper-parameter to be float32[] or float64[]", m->slots.items[3].role = IR_ROLE_HYPER);
    BREAK("does not run along dimension 7 of its parameter", m->slots.items[3].param = 1;
          m->slots.items[3].param_dims = 8);
    BREAK("limits indices", m->slots.items[1].index_limit = 5);
    BREAK("is an input and computed", m->slots.items[1].computed = true);
    BREAK("place 9 does not exist", m->slots.items[1].place = 9);
    BREAK("holds partial sums", m->slots.items[1].sharding.partial = 1);
}
END_TEST

START_TEST(functions)
{
    BREAK("parameter 0 has no node of its own", step->params.items[0].value = 2);
    BREAK("%1 is not the node of a parameter", step->params.items[0].value = 2);
    BREAK("parameter 1 is not a tensor", step->params.items[1].type.dim[0] = -1);
    BREAK("result w is %99, which does not exist", step->results.items[0].value = 99);
    BREAK("result w is not a tensor", step->results.items[0].value = 5);
    BREAK("reads slot 9, which does not exist", step->params.items[0].slot = 9);
    BREAK("but is not an entry", step->entry = false);
    BREAK("reads slot w twice", step->params.items[1].slot = 0);
    BREAK("writes slot loss twice", step->results.items[0].slot = 2);
    BREAK("writes slot x of role input", step->results.items[0].slot = 1);
    BREAK("reads slot loss of role metric", step->params.items[0].slot = 2);
    BREAK("writes slot mu.w as float32[] (loss), expected float32[2, 3]", step->results.items[1].slot = 3);
    BREAK("belongs to another module", step->module = NULL);
}
END_TEST

START_TEST(nodes)
{
    BREAK("op number 999 does not exist", step->nodes[3].op = 999);
    BREAK("all_reduce may not stand in stage tensor", step->nodes[3].op = OP_all_reduce);
    BREAK("operand 1 is %7, expected a value defined before", ((ir_value *)step->nodes[3].args)[1] = 7);
    BREAK("has no operand list", step->nodes[3].args = NULL);
    BREAK("add: expected the type float32[2, 3], found float32[3, 2]", step->nodes[3].type.dim[0] = 3;
          step->nodes[3].type.dim[1] = 2);
    BREAK("reduce_sum: dimension 5 is not one of", ((int64_t *)step->nodes[7].attr[0].v)[1] = 5);
    BREAK("attribute 0 has no numbers", step->nodes[7].attr[0].v = NULL);
    BREAK("constant: expected data", step->nodes[4].data = NULL);
    BREAK("expected bools of 0 or 1", *(unsigned char *)step->nodes[8].data = 2);
    BREAK("place 4 does not exist", step->nodes[4].place = 4);
    BREAK("expected tensors, found a tuple", step->nodes[6].op = OP_neg);
    BREAK("there is no function number 7", step->nodes[5].func = 7);
    BREAK("expected 1 result", step->nodes[5].func = 7; step->nodes[5].func = 0; body->results.count = 0;
          ck_assert(ir_tuple_count(step, 5) == 0); faults("expected 1 results of body"); body->results.count = 2);
}
END_TEST

START_TEST(shardings)
{
    BREAK("has a sharding in stage tensor", step->nodes[3].sharding.dim[0] = 1);
    BREAK("split by axes 0x2", m->stage = IR_AT_SPMD; step->nodes[3].sharding.dim[0] = 2);
    BREAK("axis 0 is used twice", m->stage = IR_AT_SPMD; step->nodes[3].sharding.dim[0] = 1;
          step->nodes[3].sharding.dim[1] = 1);
    BREAK("axis 0 is used twice", m->stage = IR_AT_SPMD; step->nodes[3].sharding.dim[0] = 1;
          step->nodes[3].sharding.partial = 1);
    BREAK("axes of dimension 0, expected those of the mesh in their order", m->stage = IR_AT_SPMD;
          m->mesh.name[1] = "model"; m->mesh.size[1] = 2; m->mesh.axis_count = 2;
          step->nodes[3].sharding.dim[0] = 0x12);
    BREAK("dimension 2 is split", m->stage = IR_AT_SPMD; step->nodes[3].sharding.dim[2] = 1);
    BREAK("partial sums over axes 0x2", m->stage = IR_AT_SPMD; step->nodes[3].sharding.partial = 2);
    m->stage = IR_AT_SPMD;
    step->nodes[3].sharding.dim[0] = 1;
    ck_assert(ir_verify(m, NULL));
}
END_TEST

START_TEST(faults_are_collected)
{
    struct str s = STR(&arena);
    step->nodes[3].op = 999;
    step->nodes[4].place = 4;
    m->slots.items[3].name = "w";
    ck_assert(!ir_verify(m, &s));
    size_t lines = 0;
    for (const char *c = str_text(&s); *c; c++) lines += *c == '\n';
    ck_assert_uint_ge(lines, 3);
}
END_TEST

static uint64_t draw(uint64_t *state, uint64_t n) { return (*state = hash_u64(*state, 13)) % n; }

START_TEST(corruption_is_survived)
{
    static const int64_t odd[] = {0, 1, -1, 2, 3, 200, INT64_MAX, INT64_MIN, INT32_MAX, (int64_t)1 << 48};
    for (uint64_t seed = 1; seed < 3000; seed++) {
        uint64_t s = seed;
        for (uint64_t k = 1 + draw(&s, 3); k; k--) {
            struct ir_func *f = draw(&s, 2) ? step : body;
            struct ir_node *node = &f->nodes[1 + draw(&s, f->count - 1)];
            int64_t value = odd[draw(&s, sizeof odd / sizeof *odd)];
            switch (draw(&s, 10)) {
            case 0: node->op = (uint16_t)draw(&s, IR_OP_COUNT + 2); break;
            case 1: node->type.dtype = (uint8_t)value; break;
            case 2: node->type.rank = (uint8_t)value; break;
            case 3: node->type.dim[draw(&s, IR_MAX_RANK)] = value; break;
            case 4:
                if (node->arg_count) ((ir_value *)node->args)[draw(&s, node->arg_count)] = (ir_value)value;
                break;
            case 5:
                if (node->arg_count) node->arg_count--;
                break;
            case 6: node->func = (uint32_t)value; break;
            case 7:
                if (node->attr[0].n) ((int64_t *)node->attr[0].v)[draw(&s, node->attr[0].n)] = value;
                break;
            case 8: f->results.items[0].value = (ir_value)value; break;
            default: f->params.items[draw(&s, 2)].type.dim[0] = value; break;
            }
        }
        struct str faulty = STR(&arena);
        ir_verify(m, &faulty);
        teardown();
        setup();
    }
}
END_TEST

int main(void)
{
    TCase *tests = CASE_OF(60, modules_and_slots, functions, nodes, shardings, faults_are_collected,
                           corruption_is_survived);
    tcase_add_checked_fixture(tests, setup, teardown);
    return run_case("verify", tests);
}
