/* Which commands of a step may wait (codegen/late), of plans made by hand: what must be seen of what early commands
 * make, in loops and of what devices exchange, and what must not wait because it would find memory written again. */
#include "codegen/late/late.h"
#include "lower_harness.h"
#include "tests/unit/suite.h"

enum { BYTES = 4 * 4 };

/* What a command reads, or stores, and where. */
struct io {
    uint32_t buffer;
    ir_value value;
};
#define IO(...) ((const struct io[]){__VA_ARGS__}), sizeof((const struct io[]){__VA_ARGS__}) / sizeof(struct io)

static struct fixture x;
static struct plan plan;
static struct arena arena;
static ir_value a, w, v, grown; /* an input, two parameters, and what is made of the input: it may be infinite */
static uint32_t in, of_w, of_v, next_w, next_v;

static uint32_t place(enum plan_space space, uint32_t slot)
{
    struct plan_buffer b = {.space = space, .slot = slot, .bytes = BYTES, .offset = 64 * plan.buffers.count};
    vec_push(&arena, &plan.buffers, b);
    return (uint32_t)plan.buffers.count - 1;
}

static uint32_t temporary(void) { return place(PLAN_ARENA, 0); }

static void begin(void)
{
    memset(&plan, 0, sizeof plan);
    x = fixture_new();
    x.m->mesh = (struct ir_mesh){.axis_count = 1, .name = {"data"}, .size = {1 << 10}};
    a = input(&x, F32(4)), w = parameter(&x, F32(4)), v = parameter(&x, F32(4));
    grown = ir_unary(&x.b, OP_exp, a);
    plan.func = x.b.f;
    in = place(PLAN_INPUT, 0), of_w = place(PLAN_SLOT, 1), of_v = place(PLAN_SLOT, 2);
    next_w = place(PLAN_NEXT, 1), next_v = place(PLAN_NEXT, 2);
}

static struct plan_command *command(struct plan_command c, const struct io *reads, size_t n, const struct io *writes,
                                    size_t m)
{
    for (size_t i = 0; i < n; i++) vec_push(&arena, &c.reads, reads[i].buffer);
    for (size_t i = 0; i < m; i++) vec_push(&arena, &c.writes, writes[i].buffer);
    vec_push(&arena, &plan.commands, c);
    return &plan.commands.items[plan.commands.count - 1];
}

static void kernel(const struct io *reads, size_t n, const struct io *writes, size_t m)
{
    struct plan_group g = {.kind = GROUP_MAP, .func = plan.func};
    for (size_t i = 0; i < n; i++) vec_push(&arena, &g.inputs, reads[i].value);
    for (size_t i = 0; i < m; i++) vec_push(&arena, &g.outputs, writes[i].value);
    vec_push(&arena, &plan.groups, g);
    command((struct plan_command){.kind = PLAN_KERNEL, .group = (uint32_t)plan.groups.count - 1}, reads, n, writes, m);
}

static void loop(enum plan_command_kind kind, uint32_t counter, uint32_t limit)
{
    command((struct plan_command){.kind = kind, .counter = counter, .limit = limit, .flag = UINT32_MAX}, NULL, 0, NULL,
            0);
}

static ir_value summed(ir_value of, int64_t kind)
{
    int64_t axes = 0;
    return ir_make(
        &x.b, (struct ir_node){.op = OP_all_reduce, .args = &of, .arg_count = 1, .attr = {{&axes, 1}, {&kind, 1}}});
}

static ir_value less(ir_value from, ir_value by) { return ir_binary(&x.b, OP_sub, from, by); }

/* One letter for each command: it waits, or not. "": none does, or nothing can be proved. */
static const struct cg_late *found(const char *expected)
{
    const struct cg_late *late = cg_late_find(&plan, true, &arena);
    char text[64] = "";
    for (size_t i = 0; late && i < plan.commands.count; i++) text[i] = late->late[i] ? 'L' : '.';
    ck_assert_str_eq(text, expected);
    return late;
}

/* One letter for each command: what it stores first is seen, or the second, both or neither. */
static void sees(const struct cg_late *late, const char *expected)
{
    char text[64] = "";
    for (size_t i = 0; i < plan.commands.count; i++) {
        const bool *seen = late->seen[i];
        bool second = seen && plan.commands.items[i].writes.count > 1 && seen[1];
        text[i] = seen && seen[0] ? second ? 'b' : '1' : second ? '2' : '.';
    }
    ck_assert_str_eq(text, expected);
}

START_TEST(last_writer)
{ /* of two in a line the last one, of two tensors that it stores the one that is read; where it lies is held */
    begin();
    uint32_t g = temporary(), other = temporary();
    ir_value u = less(w, grown);
    update(&x, w, u);
    kernel(IO({in, a}), IO({g, grown}));
    kernel(IO({in, a}), IO({other, a}, {g, grown}));
    kernel(IO({of_w, w}, {g, grown}), IO({next_w, u}));
    const struct cg_late *late = found("..L");
    sees(late, ".2.");
    ck_assert_uint_eq(late->held[g], 0);
    ck_assert_uint_eq(late->held[other], CG_NOT_HELD);
}
END_TEST

START_TEST(nothing_seen)
{ /* what no kernel stores may be anything: a part that nobody writes */
    begin();
    uint32_t all = temporary(), one = temporary(), two = temporary();
    vec_push(&arena, &plan.buffers.items[all].parts, one);
    vec_push(&arena, &plan.buffers.items[all].parts, two);
    ir_value u = less(w, grown);
    update(&x, w, u);
    kernel(IO({in, a}), IO({one, grown}));
    kernel(IO({of_w, w}, {all, grown}), IO({next_w, u}));
    found("");
    plan.commands.count--;
    kernel(IO({in, a}), IO({two, grown}));
    kernel(IO({of_w, w}, {all, grown}), IO({next_w, u}));
    sees(found("..L"), "11.");
}
END_TEST

START_TEST(all_in_loop)
{ /* whatever wrote it in the loop, and what it began with: not what stood there before that */
    begin();
    uint32_t g = temporary(), counter = temporary(), limit = temporary();
    ir_value u = less(w, grown);
    update(&x, w, u);
    kernel(IO({in, a}), IO({g, grown}));
    kernel(IO({in, a}), IO({g, grown}));
    loop(PLAN_LOOP_BEGIN, counter, limit);
    kernel(IO({g, grown}), IO({g, grown}));
    kernel(IO({g, grown}), IO({g, grown}));
    loop(PLAN_LOOP_END, counter, limit);
    kernel(IO({of_w, w}, {g, grown}), IO({next_w, u}));
    sees(found("......L"), ".1.11..");
}
END_TEST

START_TEST(summed_by_devices)
{ /* of those that one command sums only the one that is read, and not what stands there afterwards */
    begin();
    ir_value other = ir_unary(&x.b, OP_exp, grown), sum = summed(grown, 0), sums = summed(other, 0), u = less(w, sums);
    uint32_t g = temporary(), h = temporary(), all_g = temporary(), all_h = temporary();
    update(&x, w, u);
    kernel(IO({in, a}), IO({g, grown}));
    kernel(IO({g, grown}), IO({h, other}));
    struct plan_command *c = command((struct plan_command){.kind = PLAN_COLLECTIVE, .func = plan.func, .node = sum},
                                     IO({g, grown}, {h, other}), IO({all_g, sum}, {all_h, sums}));
    vec_push(&arena, &c->joined, sums);
    kernel(IO({in, a}), IO({h, grown}));
    kernel(IO({of_w, w}, {all_h, sums}), IO({next_w, u}));
    sees(found("....L"), ".1...");
}
END_TEST

/* w - f(x)^4, or its square; 2^120 where f(x) is below 2^30 on every device, and no float of the sum over 1,024; but
 * it is if f(x) is below 2^14. */
static const struct cg_late *power(int64_t kind, bool eighth, const char *expected)
{
    begin();
    ir_value sum = summed(grown, kind), square = ir_binary(&x.b, OP_mul, sum, sum),
             fourth = ir_binary(&x.b, OP_mul, square, square),
             u = less(w, eighth ? ir_binary(&x.b, OP_mul, fourth, fourth) : fourth);
    uint32_t g = temporary(), all = temporary();
    update(&x, w, u);
    kernel(IO({in, a}), IO({g, grown}));
    command((struct plan_command){.kind = PLAN_COLLECTIVE, .func = plan.func, .node = sum}, IO({g, grown}),
            IO({all, sum}));
    kernel(IO({of_w, w}, {all, sum}), IO({next_w, u}));
    return found(expected);
}

START_TEST(sums_grow)
{
    ck_assert(!power(1, false, "..L")->close); /* the largest */
    ck_assert(power(0, false, "..L")->close);
    power(0, true, "");
}
END_TEST

START_TEST(summed_in_loop)
{ /* what a device gives in one turn was made in the one before, after the collective; and there may be no turn */
    begin();
    ir_value most = summed(grown, 1), u = less(w, most);
    uint32_t g = temporary(), all = temporary(), counter = temporary(), limit = temporary();
    update(&x, w, u);
    kernel(IO({in, a}), IO({g, grown}, {all, grown}));
    loop(PLAN_LOOP_BEGIN, counter, limit);
    command((struct plan_command){.kind = PLAN_COLLECTIVE, .func = plan.func, .node = most}, IO({g, grown}),
            IO({all, most}));
    kernel(IO({in, a}), IO({g, grown}));
    loop(PLAN_LOOP_END, counter, limit);
    kernel(IO({of_w, w}, {all, most}), IO({next_w, u}));
    found("");
}
END_TEST

/* w and v are updated by what one buffer holds, in which an early command stands again in between if `again`. */
static void between(bool again, bool by_parts, const char *expected)
{
    begin();
    uint32_t g = temporary(), all = temporary(), h = temporary(), into = g;
    if (by_parts) vec_push(&arena, &plan.buffers.items[all].parts, g), into = all;
    ir_value u = less(w, grown), t = less(v, grown);
    update(&x, w, u);
    update(&x, v, t);
    kernel(IO({in, a}), IO({g, grown}));
    kernel(IO({of_w, w}, {g, grown}), IO({next_w, u}));
    kernel(IO({g, grown}), IO({again ? into : h, grown}));
    kernel(IO({of_v, v}, {g, grown}), IO({next_v, t}));
    found(expected);
}

START_TEST(read_and_written_again)
{ /* the first update would find what the third command made */
    between(false, false, ".L.L");
    between(true, false, "...L");
    between(false, true, ".L.L");
    between(true, true, "...L");
}
END_TEST

START_TEST(shared_by_early_and_late)
{ /* what a late command makes for others would lie where an early one wrote: before it, or another part of the whole */
    for (int parts = 0; parts < 2; parts++)
        for (int shared = 0; shared < 2; shared++) {
            begin();
            uint32_t all = temporary(), other = temporary(), g = temporary(), h = temporary();
            uint32_t step = shared && !parts ? g : h;
            if (parts) {
                vec_push(&arena, &plan.buffers.items[shared ? all : other].parts, g);
                vec_push(&arena, &plan.buffers.items[all].parts, h);
            }
            ir_value u = less(w, w), t = less(v, u);
            update(&x, w, u);
            update(&x, v, t);
            kernel(IO({in, a}), IO({g, grown}));
            kernel(IO({of_w, w}), IO({next_w, u}, {step, u}));
            kernel(IO({of_v, v}, {step, u}), IO({next_v, t}));
            found(shared ? "..L" : ".LL");
        }
}
END_TEST

START_TEST(changed_in_place)
{ /* what a late command changes where an early one wrote is held there for those that follow; nobody may write it again
   */
    for (int again = 0; again < 2; again++) {
        begin();
        uint32_t g = temporary();
        ir_value u = less(w, grown), t = less(v, u);
        update(&x, w, u);
        update(&x, v, t);
        kernel(IO({in, a}), IO({g, grown}));
        kernel(IO({of_w, w}, {g, grown}), IO({next_w, u}, {g, u}));
        if (again) kernel(IO({in, a}), IO({g, grown}));
        kernel(IO({of_v, v}, {g, again ? grown : u}), IO({next_v, t}));
        const struct cg_late *late = found(again ? "...L" : ".LL");
        ck_assert_uint_eq(late->held[g], 0);
    }
}
END_TEST

START_TEST(state_by_parts)
{ /* of the next state one part may be written early, in the second block, and one late */
    begin();
    uint32_t all = place(PLAN_NEXT, 1);
    vec_push(&arena, &plan.buffers.items[all].parts, next_w);
    vec_push(&arena, &plan.buffers.items[all].parts, next_v);
    ir_value u = less(w, grown), t = less(v, w);
    update(&x, w, u);
    update(&x, v, t);
    kernel(IO({of_w, w}, {in, a}), IO({next_w, u}));
    kernel(IO({of_v, v}, {of_w, w}), IO({next_v, t}));
    const struct cg_late *late = found(".L");
    ck_assert(late->early[next_w] && !late->early[next_v]);
}
END_TEST

int main(void)
{
    return run_case("late",
                    CASE_OF(60, last_writer, nothing_seen, all_in_loop, summed_by_devices, sums_grow, summed_in_loop,
                            read_and_written_again, shared_by_early_and_late, changed_in_place, state_by_parts));
}
