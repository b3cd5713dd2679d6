/* Files: what is refused and how it is said, damage at every place, what load wants, and that a failed write leaves
 * nothing behind. */
#include "tests/unit/runtime/toy.h"
#include "tests/unit/suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stepc/step_open.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64] = "/dev/shm/stepc-test-XXXXXX", file[96], other[96], error[ST_TEXT];
static struct toy toy;
static struct toy_data data;

static void put(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

static size_t get(const char *path, char *bytes, size_t most)
{
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(bytes, 1, most, f);
    fclose(f);
    return n;
}

static void put_header(const char *header, size_t data_bytes)
{
    static char bytes[1 << 16];
    uint64_t n = strlen(header);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, n);
    put(file, bytes, 8 + n + data_bytes);
}

static int files_in_folder(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.' || strstr(e->d_name, ".tmp-") != NULL;
    closedir(d);
    return n;
}

/* ---------------------------------------------------------------- reading */

START_TEST(refused)
{
    static const struct {
        const char *header;
        size_t data;
        const char *text;
    } rows[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"__metadata__\":{\"k\":\"v\"}}   ", 4, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],"
         "\"data_offsets\":[0,1]}}",
         1, NULL},
        {"{}", 0, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7,
         "tensor \"a\": data_offsets [0, 8] lie outside the 7 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9,
         "has 71 bytes, its header describes 70"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
         "dtype and shape need 12 bytes, data_offsets hold 8"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown dtype \"F33\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8,
         "shape: expected a whole number below 2^53"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", 8, "shape: expected a whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", 8,
         "its size overflows"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "more than 8 dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "lie outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "\"data_offsets\" of two whole numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,\"8\"]}}", 8,
         "\"data_offsets\" of two whole numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, "header, byte"},
        {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "\"dtype\" string"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "expected an object of dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}", 8,
         "expected an object of dtype, shape and data_offsets"},
        {"{\"a\":7}", 0, "expected an object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[4,8]}}",
         8, "is there twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[8,12]}}",
         12, "a hole before it"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[4,8]}}",
         8, "overlaps"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "must be an object of strings"},
        {"{\"__metadata__\":[]}", 0, "must be an object of strings"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "is there twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "expected an object of dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}", 4, "expected a whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,],\"data_offsets\":[0,4]}}", 4, "expected a whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1 1],\"data_offsets\":[0,4]}}", 4, "header, byte 39: expected ','"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},}", 4, "expected a string"},
        {"{\"a", 0, "a string without its end"},
        {"{\"\\ud800\":1}", 0, "not an escape"},
        {"{\"\\u0000\":1}", 0, "not an escape"},
        {"{\"\\x\":1}", 0, "not an escape"},
        {"{\"a\nb\":1}", 0, "control character"},
        {"{\"\xed\xa0\x80\":1}", 0, "invalid UTF-8"},
        {"{\"\xc0\x80\":1}", 0, "invalid UTF-8"},
        {"[]", 0, "must begin with '{'"},
        {" {}", 0, "must begin with '{'"},
        {"{} x", 0, "header, byte"},
        {"{\"a\xff\":1}", 0, "header, byte"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct st_file f;
        put_header(rows[i].header, rows[i].data);
        step_status status = st_open(&f, file, error);
        if (!rows[i].text) {
            ck_assert_msg(status == STEP_OK, "%s: %s", rows[i].header, error);
            st_close(&f);
            continue;
        }
        ck_assert_msg(status == STEP_ECORRUPT, "%s was accepted", rows[i].header);
        ck_assert_msg(strstr(error, rows[i].text) && strncmp(error, file, strlen(file)) == 0, "%s\n%s", rows[i].header,
                      error);
    }
    struct st_file f;
    ck_assert_int_eq(st_open(&f, "/nonexistent/x", error), STEP_EIO);
    ck_assert_str_eq(error, "/nonexistent/x: No such file or directory");
    ck_assert_int_eq(st_open(&f, folder, error), STEP_EIO);
    put(file, "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    ck_assert_int_eq(st_open(&f, file, error), STEP_ECORRUPT);
}
END_TEST

static struct step_instance *trained(int64_t devices)
{
    struct step_instance *t = toy_create(toy_build(&toy, devices, false, false), 1);
    toy_fill(&data, 1);
    ck_assert_int_eq(rt_init(t), STEP_OK);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    return t;
}

static step_status save_as(struct step_instance *t, const char *path, const char *slots)
{
    struct step_save save = {.size = sizeof save, .directory = path, .slots = slots};
    return rt_save(t, &save, NULL);
}

static step_status load_from(struct step_instance *t, const char *path, uint32_t flags)
{
    struct step_load load = {.size = sizeof load, .path = path, .flags = flags};
    return rt_load(t, &load);
}

static step_status zero(void *user, uint32_t index, void *to)
{
    (void)user, (void)index;
    *(char *)to = 0;
    return STEP_OK;
}

START_TEST(names)
{ /* escapes are read as what they mean, and written so that they can be read */
    struct st_file f;
    put_header("{ \"a\\u00e9\\u00ff\\u00CF\\u20ac\\ud83d\\ude00\\n\\\"\" : { \"dtype\" : \"U8\" , \"shape\" : [ ] , "
               "\"data_offsets\" "
               ": [ 0 , 1 ] } }",
               1);
    ck_assert_msg(st_open(&f, file, error) == STEP_OK, "%s", error);
    ck_assert_uint_eq(f.count, 1);
    ck_assert_str_eq(f.tensors[0].name, "a\xc3\xa9\xc3\xbf\xc3\x8f\xe2\x82\xac\xf0\x9f\x98\x80\n\"");
    ck_assert_ptr_nonnull(st_find(&f, f.tensors[0].name));
    ck_assert_ptr_null(st_find(&f, "b"));
    ck_assert_int_eq(st_write(other, f.tensors, 1, 7, zero, NULL, error), STEP_OK);
    struct st_file again;
    ck_assert_msg(st_open(&again, other, error) == STEP_OK, "%s", error);
    ck_assert_str_eq(again.tensors[0].name, f.tensors[0].name);
    ck_assert_str_eq(again.step, "7");
    st_close(&f), st_close(&again);
}
END_TEST

START_TEST(fits)
{ /* what no reader takes is not written, and that is no lack of memory */
    struct st_text text = {.length = 10};
    ck_assert(st_fits(&text, 10));
    ck_assert(!st_fits(&text, 9) && errno == EFBIG);
    text.lacking = true;
    ck_assert(!st_fits(&text, 10) && errno == ENOMEM);
}
END_TEST

START_TEST(damage)
{ /* every truncation is refused; no flipped bit of the header crashes or changes what is not in the file */
    static char good[1 << 14], bad[1 << 14];
    struct step_instance *t = trained(1);
    float before[3], after[3];
    ck_assert_int_eq(save_as(t, file, NULL), STEP_OK);
    size_t n = get(file, good, sizeof good);
    uint64_t header;
    memcpy(&header, good, 8);
    ck_assert_uint_eq((8 + header) % 64, 0);
    toy_read(t, "w", before, 3);
    for (size_t k = 0; k < n; k++) {
        put(other, good, k);
        ck_assert_int_eq(load_from(t, other, 0), STEP_ECORRUPT);
    }
    toy_read(t, "w", after, 3);
    ck_assert_mem_eq(before, after, sizeof before);
    size_t accepted = 0, seal = strlen("12345678{\"__metadata__\":{\"stepc.crc32\":");
    for (size_t bit = 0; bit < (8 + header) * 8; bit++) {
        struct st_file f;
        memcpy(bad, good, n);
        bad[bit / 8] = (char)(bad[bit / 8] ^ (1 << bit % 8));
        put(other, bad, n);
        if (bit / 8 > seal) ck_assert_int_eq(st_open_file(&f, other, true, error), STEP_ECORRUPT);
        if (st_open_file(&f, other, false, error)) continue;
        uint64_t end = 0;
        for (uint32_t i = 0; i < f.count; i++)
            if (f.tensors[i].offset + f.tensors[i].bytes > end) end = f.tensors[i].offset + f.tensors[i].bytes;
        ck_assert_uint_eq(end, n);
        st_close(&f);
        accepted++;
    }
    ck_assert_uint_gt(accepted, 0); /* names and spaces may change */
    good[n - 1] ^= 1;
    put(other, good, n);
    ck_assert_int_eq(load_from(t, other, 0), STEP_ECORRUPT);
    ck_assert_ptr_nonnull(strstr(rt_last_error(t), "damaged"));
    ck_assert_int_eq(load_from(t, other, STEP_LOAD_NO_VERIFY | 16), STEP_EINVAL);
    ck_assert_int_eq(load_from(t, other, STEP_LOAD_NO_VERIFY), STEP_OK);
    rt_destroy(t);
}
END_TEST

START_TEST(checksums)
{ /* the value of the standard; the runtime's and the hosts' for every length and place, in parts too */
    static unsigned char bytes[600];
    ck_assert_uint_eq(st_crc32(0, "123456789", 9), 0xcbf43926u);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * i * 31 >> 3);
    for (size_t from = 0; from < 20; from++)
        for (size_t n = 0; n < 200; n++) {
            uint32_t right = step_crc32(0, bytes + from, n);
            ck_assert_uint_eq(st_crc32(0, bytes + from, n), right);
            ck_assert_uint_eq(st_crc32(st_crc32(0, bytes + from, n / 3), bytes + from + n / 3, n - n / 3), right);
        }
}
END_TEST

/* ---------------------------------------------------------------- what load wants */

START_TEST(whole_state)
{ /* saved on one mesh, continued on another: as if never interrupted */
    struct step_instance *a = trained(4), *b = toy_create(toy_build(&toy, 1, false, false), 1);
    struct step_result r = {.size = sizeof r}, s = {.size = sizeof s};
    struct step_instance *c = trained(1);
    ck_assert_int_eq(rt_hyper_set(a, "learning_rate", 0.25), STEP_OK);
    ck_assert_int_eq(rt_hyper_set(c, "learning_rate", 0.25), STEP_OK);
    ck_assert_int_eq(save_as(a, file, NULL), STEP_OK);
    ck_assert_msg(load_from(b, file, 0) == STEP_OK, "%s", rt_last_error(b)); /* replaces init */
    double lr;
    rt_hyper_get(b, "learning_rate", &lr);
    ck_assert_double_eq(lr, 0.25);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(rt_step(b, &data.batch, &r), STEP_OK);
        ck_assert_int_eq(rt_step(c, &data.batch, &s), STEP_OK);
        ck_assert_uint_eq(r.step, s.step);
        ck_assert(fabs(r.loss - s.loss) < 1e-6);
    }
    rt_destroy(a), rt_destroy(b), rt_destroy(c);
}
END_TEST

START_TEST(initial_values)
{
    struct step_instance *a = trained(1), *b = trained(2);
    float w[3], ema[3], m[3], e[5];
    ck_assert_int_eq(save_as(a, file, "[\"w\", \"b\", \"e\", \"norm.mean\"]"), STEP_OK);
    ck_assert_int_eq(rt_init(b), STEP_OK);
    ck_assert_msg(load_from(b, file, 0) == STEP_OK, "%s", rt_last_error(b));
    toy_read(a, "w", w, 3), toy_read(b, "ema.w", ema, 3), toy_read(b, "opt_state.0.trace.w", m, 3),
        toy_read(b, "e", e, 5);
    ck_assert_mem_eq(w, ema, sizeof w); /* not given: a copy */
    ck_assert(m[0] == 0);
    float given[3];
    toy_read(a, "ema.w", given, 3);
    ck_assert_int_eq(save_as(a, file, "[\"{w,b,e}\", \"*.mean\", \"ema.**\", \"eval.**\"]"), STEP_OK);
    ck_assert_msg(load_from(b, file, 0) == STEP_OK, "%s", rt_last_error(b));
    toy_read(b, "ema.w", ema, 3);
    ck_assert_mem_eq(given, ema, sizeof ema);
    ck_assert_int_eq(save_as(a, file, "[\"{w,b}\", \"*.mean\"]"), STEP_OK);
    ck_assert_int_eq(load_from(b, file, 0), STEP_ESHAPE);
    ck_assert_ptr_nonnull(strstr(rt_last_error(b), "tensor \"e\" is missing; expected float32[5]"));
    ck_assert_int_eq(load_from(b, file, STEP_LOAD_PARTIAL), STEP_OK);
    ck_assert_int_eq(save_as(a, file, "[\"{w,b,e}\"]"), STEP_OK);
    ck_assert_int_eq(load_from(b, file, 0), STEP_ESHAPE); /* the running statistic belongs to it */
    ck_assert_int_eq(load_from(b, file, STEP_LOAD_PARAMS_ONLY), STEP_OK);
    struct step_instance *fresh = toy_create(&toy.program, 1);
    ck_assert_int_eq(load_from(fresh, file, 0), STEP_ESHAPE); /* alone it must hold every slot */
    for (uint32_t flags = 1; flags < 8; flags++)              /* or there must be what keeps its values */
        if (flags != STEP_LOAD_CAST) ck_assert_int_eq(load_from(fresh, file, flags), STEP_EINVAL);
    ck_assert_int_eq(rt_init(fresh), STEP_OK);
    ck_assert_int_eq(load_from(fresh, file, STEP_LOAD_PARAMS_ONLY), STEP_OK);
    toy_read(fresh, "w", w, 3);
    toy_read(fresh, "ema.w", ema, 3);
    ck_assert_mem_eq(w, ema, sizeof w); /* before the first step averages follow */
    ck_assert_int_eq(rt_step(fresh, &data.batch, NULL), STEP_OK);
    toy_read(fresh, "ema.w", ema, 3);
    ck_assert_int_eq(load_from(fresh, file, STEP_LOAD_PARTIAL), STEP_OK);
    toy_read(fresh, "ema.w", given, 3);
    ck_assert_mem_eq(given, ema, sizeof ema); /* then they do not */
    ck_assert_int_eq(save_as(a, file, "[1]"), STEP_EINVAL);
    ck_assert_int_eq(save_as(a, file, "[\"w\""), STEP_EINVAL);
    ck_assert_int_eq(save_as(a, file, "[\"w\", \"w.*x\", \"b\"]"), STEP_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(rt_last_error(a), "patterns of tensors: w.*x"));
    ck_assert_int_eq(save_as(a, file, "[\"x\"]"), STEP_ENOTFOUND); /* an input */
    rt_destroy(a), rt_destroy(b), rt_destroy(fresh);
}
END_TEST

START_TEST(problems_together)
{
    struct step_instance *t = trained(1);
    put_header("{\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"q\":{\"dtype\":\"F32\",\"shape\":[],"
               "\"data_offsets\":[4,8]},"
               "\"w\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[8,14]}}",
               14);
    ck_assert_int_eq(load_from(t, file, 0), STEP_ESHAPE);
    const char *text = rt_last_error(t);
    ck_assert_msg(strstr(text, file) && strstr(text, "tensor \"q\" is not one of this object's") &&
                      strstr(text, "tensor \"w\": expected float32[3], found float16[3]") &&
                      strstr(text, "tensor \"e\" is missing") && !strstr(text, "\"w\" is missing"),
                  "%s", text);
    ck_assert_int_eq(load_from(t, file, STEP_LOAD_PARTIAL | STEP_LOAD_CAST), STEP_OK);
    float w[3];
    toy_read(t, "w", w, 3);
    ck_assert(w[0] == 0 && w[2] == 0);
    ck_assert_int_eq(load_from(t, folder, 0), STEP_ENOTFOUND);
    ck_assert_int_eq(load_from(t, "/nonexistent.safetensors", 0), STEP_EIO);
    const struct step_load mapped = {.size = sizeof mapped, .path = file, .flags = STEP_LOAD_PARTIAL, .map = "[]"};
    ck_assert_int_eq(rt_load(t, &mapped), STEP_EINVAL);
    rt_destroy(t);
}
END_TEST

/* ---------------------------------------------------------------- writing */

START_TEST(nothing_left)
{
    struct step_instance *t = trained(1);
    static char before[1 << 14], after[1 << 14];
    ck_assert_int_eq(save_as(t, file, NULL), STEP_OK);
    int files = files_in_folder();
    size_t n = get(file, before, sizeof before);
    struct rlimit limit = {200, RLIM_INFINITY}, old;
    getrlimit(RLIMIT_FSIZE, &old);
    limit.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    step_status status = save_as(t, file, NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    ck_assert_int_eq(status, STEP_EIO);
    ck_assert_ptr_nonnull(strstr(rt_last_error(t), "File too large"));
    ck_assert_uint_eq(get(file, after, sizeof after), n);
    ck_assert_mem_eq(before, after, n);
    ck_assert_int_eq(files_in_folder(), files);
    ck_assert_int_eq(save_as(t, "/nonexistent/x.safetensors", NULL), STEP_EIO);
    struct st_output o;
    ck_assert(st_output_open(&o, "/dev/full", error));
    ck_assert(!st_output_write(&o, "x", 1, error));
    ck_assert_ptr_nonnull(strstr(error, "/dev/full: write: No space left on device"));
    st_output_close(&o, false, error);
    struct stat s;
    ck_assert(stat("/dev/full", &s) == 0 && S_ISCHR(s.st_mode)); /* not replaced by a file */
    struct step_job *job;
    struct step_save save = {.size = sizeof save, .directory = file};
    ck_assert_int_eq(rt_save(t, &save, &job), STEP_OK);
    ck_assert_int_eq(rt_job_wait(job, -1), STEP_OK);
    rt_job_free(job);
    rt_destroy(t);
}
END_TEST

int main(void)
{
    if (!mkdtemp(folder)) { /* thousands of small files: in memory if possible */
        strcpy(folder, "/tmp/stepc-test-XXXXXX");
        if (!mkdtemp(folder)) return 1;
    }
    snprintf(file, sizeof file, "%s/a.safetensors", folder);
    snprintf(other, sizeof other, "%s/b.safetensors", folder);
    int status = run_case("safetensors", CASE_OF(120, refused, names, fits, damage, checksums, whole_state,
                                                 initial_values, problems_together, nothing_left));
    unlink(file), unlink(other), rmdir(folder);
    return status;
}
