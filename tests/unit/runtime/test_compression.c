/* Tensors of a checkpoint that are compressed: every size of element, what becomes smaller, larger or nothing, and
 * damage that no checksum has caught. */
#include "runtime/directory.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 40 << 20, TENSORS = 64 };
static char was[MOST], data[MOST], back[MOST], error[ST_TEXT];
static uint64_t drawn = 12345;

static uint32_t draw(uint32_t below)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(drawn >> 33) % below;
}

/* Zeros, what floats of a training are like, noise, and the one after the other. */
enum { ZEROS, FLOATS, NOISE, FLOATS_THEN_NOISE, KINDS };
static void fill(char *to, uint64_t bytes, size_t item, int kind)
{
    for (uint64_t i = 0; i < bytes; i++) {
        bool noise = kind == NOISE || (kind == FLOATS_THEN_NOISE && i >= (1 << 20) - (1 << 20) % item);
        to[i] = kind == ZEROS ? 0 : !noise && i % item == item - 1 ? (char)(60 + draw(3)) : (char)draw(256);
    }
}

static struct step_instance instance = {.worker_count = 3};
static struct stepc_program program = {.compression = &stepc_part_compression};

/* One tensor, or several, of a file, as a save would write them. */
static void pack(struct rt_job *j, struct st_tensor *tensors, struct rt_packed *packed, uint32_t count)
{
    struct rt_written file = {.name = "opt_state.safetensors", .end = count};
    *j = (struct rt_job){.instance = &instance,
                         .program = &program,
                         .flags = STEP_SAVE_COMPRESS,
                         .data = data,
                         .tensors = tensors,
                         .count = count,
                         .packed = packed,
                         .files = &file,
                         .file_count = 1};
    memset(packed, 0, count * sizeof *packed);
    ck_assert_msg(stepc_part_compression.pack(j), "%s", j->error);
    j->files = NULL;
}

/* A file of what is stored, read as a load reads it. */
static step_status unpack(const struct st_tensor *t, struct rt_packed p, const char *stored, bool verify)
{
    int fd = memfd_create("stored", 0);
    char sum[ST_HASH];
    struct st_hash h;
    struct st_tensor tensor = *t;
    struct st_member member = {.name = "opt_state.safetensors", .file = {.path = "memory", .fd = fd}};
    struct st_checkpoint c = {.all = {.path = "memory", .tensors = &tensor, .count = 1, .fd = -1},
                              .members = &member,
                              .compression = &stepc_part_compression};
    ck_assert_int_eq(write(fd, stored, p.stored), (ssize_t)p.stored);
    st_hash_begin(&h);
    st_hash_add(&h, stored, p.stored);
    st_hash_end(&h, sum);
    struct st_piece piece = {.hash = sum, .key = "t", .bytes = t->bytes, .stored = p.stored, .chunked = p.chunked};
    memset(back, 0x55, t->bytes);
    step_status status = st_checkpoint_piece(&c, &piece, back, verify, error);
    close(fd);
    return status;
}

START_TEST(every_element)
{
    static const uint32_t dtypes[] = {STEP_U8, STEP_BF16, STEP_F32, STEP_F64};
    static const uint64_t counts[] = {0, 1, 7, 15, 16, 100, 4096, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, (3 << 17) + 5};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
            for (int kind = 0; kind < KINDS; kind++) {
                size_t item = rt_dtype_bytes(dtypes[d]);
                struct st_tensor t = {.name = "t",
                                      .dtype = dtypes[d],
                                      .rank = 1,
                                      .shape = {(int64_t)counts[n]},
                                      .bytes = counts[n] * item};
                struct rt_packed p;
                struct rt_job j;
                if (t.bytes > MOST) continue;
                fill(was, t.bytes, item, kind);
                memcpy(data, was, t.bytes);
                pack(&j, &t, &p, 1);
                ck_assert_uint_le(p.stored, t.bytes);
                if (t.bytes >= 400 && kind == ZEROS)
                    ck_assert_uint_eq(p.stored, (t.bytes + 63) / 64 > 40 ? (t.bytes + 63) / 64 : p.stored);
                if (t.bytes >= 4096 && (kind == ZEROS || kind == FLOATS)) ck_assert_uint_gt(p.stored, 0);
                if (kind == NOISE || t.bytes < 64) ck_assert_uint_eq(p.stored, 0);
                if (!p.stored) {
                    ck_assert_mem_eq(data, was, t.bytes);
                    continue;
                }
                ck_assert_msg(unpack(&t, p, data, true) == STEP_OK, "%s", error);
                ck_assert_mem_eq(back, was, t.bytes);
            }
}
END_TEST

/* Many at once, by several threads, each where it stood. */
START_TEST(several_tensors)
{
    struct st_tensor tensors[TENSORS];
    struct rt_packed packed[TENSORS];
    struct rt_job j;
    uint64_t at = 0;
    for (uint32_t i = 0; i < TENSORS; i++) {
        uint64_t bytes = 4 * (uint64_t)(i % 9 ? draw(12000) : 0);
        tensors[i] = (struct st_tensor){.name = "t", .dtype = STEP_F32, .rank = 1, .bytes = bytes, .offset = at};
        fill(was + at, bytes, 4, (int)i % KINDS);
        at += bytes;
    }
    ck_assert_uint_le(at, MOST);
    memcpy(data, was, at);
    pack(&j, tensors, packed, TENSORS);
    for (uint32_t i = 0; i < TENSORS; i++) {
        if (packed[i].stored) ck_assert_int_eq(unpack(&tensors[i], packed[i], data + tensors[i].offset, true), STEP_OK);
        ck_assert_mem_eq(packed[i].stored ? back : data + tensors[i].offset, was + tensors[i].offset, tensors[i].bytes);
    }
}
END_TEST

/* Behind a first chunk that becomes a little smaller noise uses up what was saved: from there on it is as it was. */
START_TEST(a_tail_as_it_is)
{
    struct st_tensor t = {.name = "t", .dtype = STEP_F32, .rank = 1, .bytes = MOST};
    struct rt_packed p;
    struct rt_job j;
    fill(was, t.bytes, 4, NOISE);
    for (int i = 0; i < 2300; i++)
        was[4 * i + 3] = 7; /* blocks that save less than a 64th have frames that are longer */
    memcpy(data, was, t.bytes);
    pack(&j, &t, &p, 1);
    ck_assert_msg(p.stored && p.stored <= t.bytes && p.chunked > 1 << 20 && p.chunked < t.bytes, "%llu %llu",
                  (unsigned long long)p.stored, (unsigned long long)p.chunked);
    ck_assert_msg(unpack(&t, p, data, true) == STEP_OK, "%s", error);
    ck_assert_mem_eq(back, was, t.bytes);
}
END_TEST

/* Damage, and a manifest that says something else, without the checksum: an error or other numbers, never a signal. */
START_TEST(damage)
{
    static char good[1 << 16];
    struct st_tensor t = {.name = "t", .dtype = STEP_F32, .rank = 1, .bytes = 1 << 15};
    struct rt_packed p;
    struct rt_job j;
    int refused = 0;
    fill(was, t.bytes, 4, FLOATS);
    memcpy(data, was, t.bytes);
    pack(&j, &t, &p, 1);
    memcpy(good, data, p.stored);
    for (int i = 0; i < 4000; i++) {
        struct rt_packed told = p;
        memcpy(data, good, p.stored);
        switch (draw(4)) {
        case 0: data[draw((uint32_t)p.stored)] ^= (char)(1 << draw(8)); break;
        case 1: /* in what frames begin with */ data[draw(16)] = (char)draw(256); break;
        case 2: told.stored = 1 + draw((uint32_t)p.stored); break;
        default: told.chunked = draw((uint32_t)(2 * t.bytes)); break;
        }
        step_status status = unpack(&t, told, data, false);
        ck_assert(status == STEP_OK || status == STEP_ECORRUPT);
        refused += status == STEP_ECORRUPT;
    }
    ck_assert_int_gt(refused, 1500);
    memcpy(data, good, p.stored);
    ck_assert_int_eq(unpack(&t, p, data, false), STEP_OK);
    ck_assert_mem_eq(back, was, t.bytes);
}
END_TEST

int main(void)
{
    if (stepc_part_compression.is_there(true, error)) return printf("skipped: %s\n", error), 0;
    return run_case("compression", CASE_OF(120, every_element, several_tensors, a_tail_as_it_is, damage));
}
