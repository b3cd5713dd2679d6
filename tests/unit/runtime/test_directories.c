/* Checkpoint directories through the interface: what is written, in pieces too, what is refused and when, what a job
 * reports, and the checksums. */
#include "runtime/header_scan.h"
#include "tests/unit/runtime/toy.h"
#include "tests/unit/suite.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], path[256], error[ST_TEXT];
static struct toy toy;
static struct toy_data data;

static const char *in_folder(const char *format, int number)
{
    int n = snprintf(path, sizeof path, "%s/", folder);
    snprintf(path + n, sizeof path - (size_t)n, format, number);
    return path;
}

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/dev/shm/stepc-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    pid_t child = fork();
    if (child == 0) execlp("rm", "rm", "-rf", folder, (char *)NULL), _exit(1);
    while (child > 0 && waitpid(child, NULL, 0) < 0) {}
}

static struct step_instance *trained(int64_t devices, int steps)
{
    struct step_instance *t = toy_create(toy_build(&toy, devices, false, false), 1);
    toy_fill(&data, 1);
    ck_assert_int_eq(rt_init(t), STEP_OK);
    for (int i = 0; i < steps; i++) ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    return t;
}

static struct step_save into_folder(void)
{
    return (struct step_save){.size = sizeof(struct step_save), .directory = folder};
}

static step_status load_from(struct step_instance *t, const char *from, uint32_t flags)
{
    struct step_load load = {.size = sizeof load, .path = from, .flags = flags};
    return rt_load(t, &load);
}

/* ---------------------------------------------------------------- checksums and numbers */

/* Of the first bytes of (131 i + 7 (i >> 8) + 3) mod 256, by the xxhash package of Python. */
static const struct {
    int bytes;
    char sum[ST_HASH];
} sums[] = {
    /* clang-format off */
    {0, "99aa06d3014798d86001c324468d497f"},
    {1, "22bbb76b211a39ba13e608bc156defed"},
    {3, "a7141a4d6424893f974a8c6fa70c32a8"},
    {4, "a5a284530171a9ca0ee6722bc7d19bbe"},
    {8, "90e6eaccb9cf286bc3a3a1cc01cb8f0b"},
    {9, "41ce99dfa1057da6c0738415ca1ac039"},
    {16, "f3e407b341dfba3134dbab61519e4476"},
    {17, "1879de0d8e7d0625980d68f6d41eb28d"},
    {32, "1b8d913d4b3da7397a80e7df3b4395ec"},
    {33, "67ff4832fc6dbf4dc1043db9050dee28"},
    {64, "5a9fdc7e54436be86796c847ecbd7dcb"},
    {65, "5a4555cafce0852be8d79ceb489a80f7"},
    {96, "f81c5c7791d5db5551fad8041f25707c"},
    {97, "c9f43b12639fb81dac5e2d7a95fd809b"},
    {128, "02ce7d90c5eae3de1b06f186fe566ffc"},
    {129, "cce6effe0dedc24455387bdda5accd8f"},
    {160, "f15fafc5e7943104fb8e0041887bcfff"},
    {161, "f80e631f91e9c58299cf30199f52bc00"},
    {240, "7db5606af28958ff1b7ccd7ad717c030"},
    {241, "bcb184a76a650df6ef630bb6bb6cfe02"},
    {255, "b4dd6f9c4b17c40dbcca707bc06d9fe7"},
    {256, "1d63953f2289218352fef52244b0c88c"},
    {1023, "58ccea95b00a1c2e430bd3e6b1d6f463"},
    {1024, "523bb732f3875ac646703f18d0b7abc5"},
    {1025, "581a3d82d4006465178c11ef15cb206e"},
    {1088, "bed2bcb9506eedd55ae094d2d2efb3db"},
    {1089, "45fbea328e532a18852b42752ad931d6"},
    {2048, "e70428622f7c1d4b3dd2764ed338d910"},
    {2049, "9a40e215a6821bacb1dc89fa1cb577dd"},
    {4999, "82d2bec7bacd403818b777c4c0f930a4"},
    /* clang-format on */
};

START_TEST(checksums)
{
    static unsigned char bytes[5000];
    for (int i = 0; i < 5000; i++) bytes[i] = (unsigned char)(131 * i + 7 * (i >> 8) + 3);
    for (size_t k = 0; k < sizeof sums / sizeof *sums; k++)
        for (int step = 1; step < 6000; step = step * 3 + 1) { /* in pieces of any length */
            struct st_hash h;
            char sum[ST_HASH];
            st_hash_begin(&h);
            for (int at = 0; at < sums[k].bytes; at += step)
                st_hash_add(&h, bytes + at, (uint64_t)(sums[k].bytes - at < step ? sums[k].bytes - at : step));
            st_hash_end(&h, sum);
            ck_assert_str_eq(sum, sums[k].sum);
        }
}
END_TEST

/* Where this CPU has AVX2, the sums above are made with it. */
START_TEST(checksums_by_any_vectors)
{
    static unsigned char bytes[5000], keys[192];
    for (int i = 0; i < 5000; i++) bytes[i] = (unsigned char)(131 * i + 7 * (i >> 8) + 3);
    for (int i = 0; i < 192; i++) keys[i] = (unsigned char)(89 * i + 11);
    for (int n = 0; n <= 4992; n += 64) {
        uint64_t both[2][8];
        for (int i = 0; i < 16; i++) both[i / 8][i % 8] = 0x9e3779b185ebca87 * (uint64_t)(i % 8 + 1);
        st_hash_stripes(both[0], bytes + 5, bytes + 5 + n, (const char *)keys);
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2")) {
            st_hash_stripes_avx2(both[1], bytes + 5, bytes + 5 + n, (const char *)keys);
            ck_assert_mem_eq(both[0], both[1], sizeof both[0]);
        }
#endif
        ck_assert((both[0][0] == 0x9e3779b185ebca87) == (n == 0));
    }
}
END_TEST

START_TEST(numbers)
{
    static const double all[] = {0,     1,         -1,     0.1,    3.21, 1e300, -1e-300, 5e-300, 1.7976931348623e308,
                                 1e-10, 123456789, 0x1p60, 0.3333, 1e22, 2.5e-7};
    for (size_t i = 0; i < sizeof all / sizeof *all + 3; i++) {
        double x = i < sizeof all / sizeof *all ? all[i] : i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY, y = 7;
        struct st_text text = {0};
        st_add_number(&text, x);
        struct rt_scan s = {.at = text.at, .end = text.at + text.length};
        ck_assert_msg(scan_number(&s, &y) && scan_end(&s), "%s", text.at);
        ck_assert_msg(isnan(x) ? isnan(y) : x == y, "%.17g is %.17g", x, y);
        free(text.at);
    }
    uint64_t bits = 1;
    for (int i = 0; i < 200000; i++) { /* of all magnitudes */
        double x, y;
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(&x, &bits, sizeof x);
        char text[40];
        snprintf(text, sizeof text, "%.17g", x);
        struct rt_scan s = {.at = text, .end = text + strlen(text)};
        if (isfinite(x)) ck_assert_msg(scan_number(&s, &y) && x == y, "%s is %.17g", text, y);
    }
    static const char *const wrong[] = {"", "-", "x", "\"x\"", "--1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[8];
        double y;
        snprintf(text, sizeof text, "%s", wrong[i]);
        struct rt_scan s = {.at = text, .end = text + strlen(text)};
        ck_assert(!scan_number(&s, &y));
    }
    char deep[64] = "[[[[1,{\"a\":[true,null,-2.5e3,\"x\"]}]]]]";
    struct rt_scan s = {.at = deep, .end = deep + strlen(deep)};
    ck_assert(scan_skip(&s, 6) && scan_end(&s));
    char again[64] = "[[[[1,{\"a\":[true,null,-2.5e3,\"x\"]}]]]]";
    s = (struct rt_scan){.at = again, .end = again + strlen(again)};
    ck_assert(!scan_skip(&s, 5));
}
END_TEST

/* ---------------------------------------------------------------- saving */

START_TEST(saves_and_loads)
{
    for (int64_t devices = 1; devices <= 2; devices++) {
        float w[3], found[3];
        make_folder();
        struct step_instance *t = trained(devices, 3), *u = trained(devices, 0);
        struct step_item items[] = {{sizeof *items, "loader", "{\"at\":7}"}, {sizeof *items, "a-b.c_1", "[1,2]"}};
        struct step_hyper metrics[] = {{sizeof *metrics, "loss", 0.1}, {sizeof *metrics, "x \"y\"", NAN}};
        struct step_save save = into_folder();
        save.items = items, save.item_count = 2, save.metrics = metrics, save.metric_count = 2;
        struct step_job *job;
        ck_assert_int_eq(rt_save(t, &save, &job), STEP_OK);
        toy_read(t, "w", w, 3);
        ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK); /* what is saved is the state before it */
        ck_assert_int_eq(rt_job_wait(job, -1), STEP_OK);
        ck_assert_int_eq(rt_job_wait(job, 0), STEP_OK);
        rt_job_free(job);
        ck_assert_int_eq(rt_save(t, &save, NULL), STEP_OK);
        ck_assert_int_eq(load_from(u, in_folder("step-%d", 3), 0), STEP_OK);
        toy_read(u, "w", found, 3);
        ck_assert_mem_eq(w, found, sizeof w);
        ck_assert_str_eq(rt_item(u, "loader"), "{\"at\":7}");
        ck_assert_str_eq(rt_item(u, "a-b.c_1"), "[1,2]");
        ck_assert_ptr_null(rt_item(u, "other"));
        ck_assert_ptr_null(rt_item(t, "loader"));
        ck_assert_int_eq(load_from(u, folder, 0), STEP_OK); /* the newest */
        toy_read(t, "w", w, 3);
        toy_read(u, "w", found, 3);
        ck_assert_mem_eq(w, found, sizeof w);
        struct st_checkpoint c;
        ck_assert_int_eq(st_checkpoint_open(&c, in_folder("step-%d", 3), true, error), STEP_OK);
        ck_assert_uint_eq(c.step, 3);
        ck_assert(c.created > 1700000000);
        ck_assert_uint_eq(c.metric_count, 2);
        ck_assert(fabs(c.metrics[0].value - 0.1) < 1e-14 && isnan(c.metrics[1].value));
        ck_assert_str_eq(c.metrics[1].name, "x \"y\"");
        for (uint32_t i = 0; i < c.member_count; i++)
            ck_assert_int_eq(st_checkpoint_verify(&c, &c.members[i], error), STEP_OK);
        st_checkpoint_close(&c);
        rt_destroy(t);
        rt_destroy(u);
        remove_folder();
    }
}
END_TEST

/* Several jobs, and ends in any order. */
START_TEST(jobs)
{
    make_folder();
    struct step_instance *t = trained(1, 1);
    struct step_save save = into_folder();
    struct step_job *all[4];
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(rt_save(t, &save, &all[i]), STEP_OK);
        if (i == 1) rt_job_free(all[i]); /* nobody asks */
        ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    }
    rt_destroy(t); /* waits */
    for (int i = 0; i < 4; i++) {
        struct st_checkpoint c;
        ck_assert_int_eq(st_checkpoint_open(&c, in_folder("step-%d", i + 1), true, error), STEP_OK);
        st_checkpoint_close(&c);
        if (i != 1) ck_assert_int_eq(rt_job_wait(all[i], 0), STEP_OK);
        if (i != 1) rt_job_free(all[i]);
    }
    remove_folder();
}
END_TEST

/* What others do to a file, once, while the manifest beside it is synced: between the last file and the name. */
static const char *taken;
static bool shortened;

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    char at[512], link[64];
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_fsync && taken) {
        snprintf(link, sizeof link, "/proc/self/fd/%ld", a[0]);
        ssize_t n = readlink(link, at, sizeof at - 100);
        char *name = n > 13 ? at + n - 13 : at;
        if (n > 13 && strncmp(name, "manifest.json", 13) == 0) {
            strcpy(name, taken);
            taken = NULL;
            ck_assert_int_eq(shortened ? truncate(at, 7) : unlink(at), 0);
        }
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

START_TEST(taken_by_others)
{
    static const char *const names[] = {"params.safetensors", "state.safetensors", "items/loader.json",
                                        "manifest.json"};
    struct step_item item = {sizeof item, "loader", "{\"at\":7}"};
    make_folder();
    struct step_instance *t = trained(1, 1);
    struct step_save save = into_folder();
    save.items = &item, save.item_count = 1;
    for (int i = 0; i < 8; i++) {
        taken = names[i / 2], shortened = i % 2;
        step_status status = rt_save(t, &save, NULL);
        ck_assert_ptr_null(taken);
        ck_assert_msg(status == STEP_EIO && strstr(rt_last_error(t), names[i / 2]), "%s: %s", names[i / 2],
                      rt_last_error(t));
        ck_assert_int_eq(access(in_folder("step-%d", 1), F_OK), -1);
        ck_assert_int_eq(rmdir(folder), 0); /* nothing was left */
    }
    ck_assert_int_eq(rt_save(t, &save, NULL), STEP_OK);
    ck_assert_int_eq(load_from(t, folder, 0), STEP_OK);
    rt_destroy(t);
    remove_folder();
}
END_TEST

static void refused(struct step_instance *t, const struct step_save *save, step_status status, const char *text)
{
    struct step_job *job = (struct step_job *)&job;
    ck_assert_int_eq(rt_save(t, save, &job), status);
    ck_assert_ptr_null(job); /* by save, not by a job */
    ck_assert_msg(strstr(rt_last_error(t), text) != NULL, "%s", rt_last_error(t));
}

START_TEST(refusals)
{
    make_folder();
    struct step_instance *t = trained(1, 2);
    struct step_save save = into_folder();
    struct step_item items[2] = {{sizeof *items, "../x", "1"}, {sizeof *items, "x", "1"}};
    save.flags = 2 * STEP_SAVE_COMPRESS_ALL;
    refused(t, &save, STEP_EINVAL, "flags");
    save.flags = 0, save.directory = NULL;
    refused(t, &save, STEP_EINVAL, "no directory");
    save.directory = "/proc/no/such";
    refused(t, &save, STEP_EIO, "/proc/no/such");
    save = into_folder();
    save.items = items, save.item_count = 1;
    refused(t, &save, STEP_EINVAL, "item 0");
    items[0].name = "x", save.item_count = 2;
    refused(t, &save, STEP_EINVAL, "given twice");
    items[1].name = "y", items[1].json = NULL;
    refused(t, &save, STEP_EINVAL, "item 1");
    save.item_count = 0, save.slots = "[\"w\"";
    refused(t, &save, STEP_EINVAL, "list of patterns");
    save.slots = "[\"w\",\"bb\"]";
    refused(t, &save, STEP_ENOTFOUND, "bb");
    save.slots = "[\"eval.**\"]"; /* a directory holds nothing that is computed */
    refused(t, &save, STEP_ENOTFOUND, "eval.**");
    save.slots = NULL;
    struct step_hyper metrics[] = {
        {sizeof *metrics, "loss", 1}, {sizeof *metrics, "a", 2}, {sizeof *metrics, "loss", 3}};
    save.metrics = metrics, save.metric_count = 3;
    refused(t, &save, STEP_EINVAL, "metric 2: wrong size, no UTF-8 name, given twice");
    save.metric_count = 2;
    ck_assert_int_eq(rt_save(t, &save, NULL), STEP_OK);
    refused(t, &save, STEP_EIO, "step-2: exists already");
    save.directory = in_folder("step-2/manifest.json", 0);
    refused(t, &save, STEP_EIO, "manifest.json");
    int entries = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; (e = readdir(d));) entries += e->d_name[0] != '.' || e->d_name[1] == 't';
    closedir(d);
    ck_assert_int_eq(entries, 2); /* step-2 and latest */
    struct step_save file = {
        .size = sizeof file, .directory = in_folder("x.safetensors", 0), .items = items, .item_count = 1};
    refused(t, &file, STEP_EINVAL, "are of directories");
    rt_destroy(t);
    remove_folder();
}
END_TEST

/* Only some slots: as of a file of initial values, the rest stays. */
START_TEST(some_slots)
{
    make_folder();
    struct step_instance *t = trained(1, 3), *u = trained(1, 1);
    struct step_save save = into_folder();
    save.slots = "[\"w\",\"b\",\"e\"]";
    ck_assert_int_eq(rt_save(t, &save, NULL), STEP_OK);
    ck_assert_int_eq(load_from(u, folder, 0), STEP_ESHAPE);
    ck_assert_ptr_nonnull(strstr(rt_last_error(u), "\"norm.mean\" is missing"));
    ck_assert_int_eq(load_from(u, folder, STEP_LOAD_PARAMS_ONLY), STEP_OK);
    float w[3], found[3];
    toy_read(t, "w", w, 3);
    toy_read(u, "w", found, 3);
    ck_assert_mem_eq(w, found, sizeof w);
    rt_destroy(t);
    rt_destroy(u);
    remove_folder();
}
END_TEST

/* ---------------------------------------------------------------- pieces */

static void put_text(const char *name, const char *bytes, size_t n)
{
    FILE *f = fopen(in_folder(name, 0), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

static float piece_values[6];
static step_status piece(void *user, uint32_t index, void *to)
{
    memcpy(to, (const float *)user + 3 * index, 3 * sizeof(float));
    return STEP_OK;
}

/* A manifest around the text of its slots, with its own checksum; the checksum of what is at `values`. */
static void put_manifest(const char *slots, const char *version)
{
    struct st_text m = {0};
    struct st_hash h;
    char sum[ST_HASH];
    struct stat s;
    ck_assert_int_eq(stat(in_folder("params.safetensors", 0), &s), 0);
    st_add(&m,
           "{\"stepc_checkpoint\":%s,\"step\":5,\"future\":{\"x\":[1,null]},\"files\":{\"params.safetensors\":{"
           "\"bytes\":%lld,\"hash\":\"0\"}},\"slots\":{%s},",
           version, (long long)s.st_size, slots);
    st_hash_begin(&h);
    st_hash_add(&h, m.at, m.length);
    st_hash_end(&h, sum);
    st_add(&m, "\"self\":\"%s\"}", sum);
    put_text("manifest.json", m.at, m.length);
    free(m.at);
}

START_TEST(pieces)
{
    static const char form[] =
        "\"w\":{\"role\":\"param\",\"dtype\":\"f32\",\"shape\":[2,3],\"pieces\":["
        "{\"file\":\"params.safetensors\",\"key\":\"w@0,0\",\"start\":[0,%d],\"shape\":[%d,%d],\"hash\":\"%s\"},"
        "{\"file\":\"params.safetensors\",\"key\":\"w@1,0\",\"start\":[%d,0],\"shape\":[1,3],\"hash\":\"%s\"}]}";
    char slots[1024], sum[2][ST_HASH], name[16];
    make_folder();
    for (int i = 0; i < 6; i++) piece_values[i] = (float)i + 0.5f;
    const struct st_tensor tensors[] = {{.name = "w@0,0", .dtype = STEP_F32, .rank = 2, .shape = {1, 3}, .bytes = 12},
                                        {.name = "w@1,0", .dtype = STEP_F32, .rank = 2, .shape = {1, 3}, .bytes = 12}};
    ck_assert_int_eq(st_write(in_folder("params.safetensors", 0), tensors, 2, 5, piece, piece_values, error), STEP_OK);
    for (int i = 0; i < 2; i++) {
        struct st_hash h;
        st_hash_begin(&h);
        st_hash_add(&h, piece_values + 3 * i, 12);
        st_hash_end(&h, sum[i]);
    }
    snprintf(name, sizeof name, "%s", rt_dtype_name(STEP_F32));
    const struct {
        int start, rows, columns, second;
        const char *sum, *version;
        step_status opened, read;
    } tries[] = {{0, 1, 3, 1, sum[0], "1", STEP_OK, STEP_OK},    {0, 1, 3, 1, sum[1], "1", STEP_OK, STEP_ECORRUPT},
                 {1, 1, 3, 1, sum[0], "1", STEP_ECORRUPT, 0}, /* outside */
                 {0, 1, 2, 1, sum[0], "1", STEP_ECORRUPT, 0}, /* a hole */
                 {0, 1, 3, 0, sum[0], "1", STEP_ECORRUPT, 0}, /* one over the other */
                 {0, 2, 3, 1, sum[0], "1", STEP_ECORRUPT, 0},    {0, 1, 3, 1, sum[0], "3", STEP_EVERSION, 0},
                 {0, 1, 3, 1, sum[0], "\"1\"", STEP_ECORRUPT, 0}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct st_checkpoint c;
        float found[6] = {0};
        snprintf(slots, sizeof slots, form, tries[i].start, tries[i].rows, tries[i].columns, tries[i].sum,
                 tries[i].second, sum[1]);
        char *dtype = strstr(slots, "\"f32\"");
        char whole[1100];
        snprintf(whole, sizeof whole, "%.*s\"%s\"%s", (int)(dtype - slots), slots, name, dtype + 5);
        put_manifest(whole, tries[i].version);
        ck_assert_msg(st_checkpoint_open(&c, folder, true, error) == tries[i].opened, "%zu: %s", i, error);
        if (tries[i].opened) continue;
        ck_assert_uint_eq(c.step, 5);
        ck_assert_int_eq(st_checkpoint_read(&c, st_find(&c.all, "w"), found, true, error), tries[i].read);
        ck_assert_int_eq(st_checkpoint_read(&c, st_find(&c.all, "w"), found, false, error), STEP_OK);
        ck_assert_mem_eq(found, piece_values, sizeof found);
        st_checkpoint_close(&c);
    }
    remove_folder();
}
END_TEST

/* Each byte of a manifest, and each of its lengths: never taken for good, never a signal. */
START_TEST(every_byte_of_a_manifest)
{
    static char good[1 << 16], bad[1 << 16];
    make_folder();
    struct step_instance *t = trained(1, 1);
    struct step_save save = into_folder();
    ck_assert_int_eq(rt_save(t, &save, NULL), STEP_OK);
    FILE *f = fopen(in_folder("step-1/manifest.json", 0), "rb");
    size_t n = fread(good, 1, sizeof good, f);
    fclose(f);
    for (size_t i = 0; i < 2 * n; i++) {
        struct st_checkpoint c;
        memcpy(bad, good, n);
        if (i < n) bad[i] ^= (char)(1 << i % 8);
        put_text("step-1/manifest.json", bad, i < n ? n : i - n);
        step_status status = st_checkpoint_open(&c, in_folder("step-1", 0), true, error);
        ck_assert_msg(status == STEP_ECORRUPT || status == STEP_EVERSION, "byte %zu: %s", i, rt_status_name(status));
    }
    put_text("step-1/manifest.json", good, n);
    ck_assert_int_eq(load_from(t, folder, 0), STEP_OK);
    rt_destroy(t);
    remove_folder();
}
END_TEST

/* Random damage of any file, alone or two at once: an error, or the very same tensors and items. STEPC_TEST_DAMAGES=N:
 * so many. */
enum { FILES = 6, LARGEST = 1 << 14 };
static char kept[FILES][LARGEST];
static size_t sizes[FILES];
static const char *const names_of[FILES] = {"manifest.json",         "params.safetensors", "ema.safetensors",
                                            "opt_state.safetensors", "state.safetensors",  "items/loader.json"};
static uint64_t drawn = 12345;

static uint32_t draw(uint32_t below)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(drawn >> 33) % below;
}

static void write_file(int file, const char *bytes, size_t n)
{
    char name[64];
    snprintf(name, sizeof name, "step-1/%s", names_of[file]);
    put_text(name, bytes, n);
}

static void damage(int file)
{
    static char bytes[LARGEST + 64];
    size_t n = sizes[file], at = draw((uint32_t)n), most = draw(16) + 1;
    memcpy(bytes, kept[file], n);
    switch (draw(6)) {
    case 0: n = at; break;
    case 1: bytes[at] ^= (char)(1 << draw(8)); break;
    case 2:
        for (size_t i = at; i < n && i < at + most; i++) bytes[i] = (char)draw(256);
        break;
    case 3: /* a piece that is there twice */
        memmove(bytes + at + most, bytes + at, n - at);
        n += most;
        break;
    case 4:
        memmove(bytes + at, bytes + (at + most < n ? at + most : n), n - (at + most < n ? at + most : n));
        n -= at + most < n ? most : n - at;
        break;
    default: /* digits are what lengths and places are made of */
        for (size_t i = at; i < n; i++)
            if (bytes[i] >= '0' && bytes[i] <= '9') {
                bytes[i] = (char)('0' + draw(10));
                break;
            }
    }
    write_file(file, bytes, n);
}

/* What is read of it, as a checksum; `sum` is empty if it is refused. */
static bool verifies = true; /* false: the control of the test */
static void read_all_of_it(char sum[ST_HASH])
{
    static char data_of[4096];
    struct st_checkpoint c;
    struct st_hash h;
    *sum = 0;
    if (st_checkpoint_open(&c, in_folder("step-1", 0), true, error)) return;
    step_status status = STEP_OK;
    st_hash_begin(&h);
    for (uint32_t i = 0; i < c.all.count && !status; i++) {
        const struct st_tensor *t = &c.all.tensors[i];
        ck_assert_uint_lt(t->bytes, sizeof data_of);
        status = st_checkpoint_read(&c, t, data_of, verifies, error);
        st_hash_add(&h, t->name, strlen(t->name));
        st_hash_add(&h, t->shape, (size_t)t->rank * sizeof *t->shape);
        st_hash_add(&h, data_of, t->bytes);
    }
    for (uint32_t i = 0; i < c.member_count && !status; i++) {
        char *text = strncmp(c.members[i].name, "items/", 6) ? NULL
                                                             : st_checkpoint_item(&c, &c.members[i], &status, error);
        if (text) st_hash_add(&h, text, strlen(text));
        free(text);
    }
    st_hash_end(&h, sum);
    if (status) *sum = 0;
    st_checkpoint_close(&c);
}

START_TEST(random_damage)
{
    const char *asked = getenv("STEPC_TEST_DAMAGES");
    int all = asked ? atoi(asked) : 4000, found = 0;
    char good[ST_HASH], sum[ST_HASH];
    make_folder();
    struct step_instance *t = trained(1, 1);
    struct step_item item = {sizeof item, "loader", "{\"at\":7}"};
    struct step_save save = into_folder();
    save.items = &item, save.item_count = 1;
    ck_assert_int_eq(rt_save(t, &save, NULL), STEP_OK);
    rt_destroy(t);
    for (int i = 0; i < FILES; i++) {
        char name[64];
        snprintf(name, sizeof name, "step-1/%s", names_of[i]);
        FILE *f = fopen(in_folder(name, 0), "rb");
        ck_assert_ptr_nonnull(f);
        sizes[i] = fread(kept[i], 1, LARGEST, f);
        fclose(f);
        ck_assert(sizes[i] && sizes[i] < LARGEST);
    }
    read_all_of_it(good);
    ck_assert(*good);
    for (int i = 0; i < all; i++) {
        int first = (int)draw(FILES), second = draw(4) ? first : (int)draw(FILES);
        damage(first);
        if (second != first) damage(second);
        read_all_of_it(sum);
        found += !*sum;
        ck_assert_msg(!*sum || strcmp(sum, good) == 0, "damage %d of %s was taken for good", i, names_of[first]);
        write_file(first, kept[first], sizes[first]);
        write_file(second, kept[second], sizes[second]);
    }
    ck_assert_msg(found > all / 2, "%d of %d were found", found, all);
    kept[1][sizes[1] - 1] ^= 1; /* a reader without checksums takes it */
    write_file(1, kept[1], sizes[1]);
    read_all_of_it(sum);
    ck_assert(!*sum);
    verifies = false;
    read_all_of_it(sum);
    ck_assert(*sum && strcmp(sum, good) != 0);
    if (asked) printf("%d of %d damages found, the others without effect\n", found, all);
    remove_folder();
}
END_TEST

int main(void)
{
    return run_case("directories",
                    CASE_OF(120, checksums, checksums_by_any_vectors, numbers, saves_and_loads, jobs, taken_by_others,
                            refusals, some_slots, pieces, every_byte_of_a_manifest, random_damage));
}
