/* Linking: one exported symbol, the same bytes twice, and environments that fail leave a message and no file, and
 * what killed compilers left is removed. */
#include "emit_harness.h"
#include "tests/unit/file.h"
#include "tests/unit/suite.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct arena arena;

static const struct cg_bytes *objects(void)
{
    struct nest_builder b;
    struct nest *nest = nest_new(&arena);
    struct cg_target target = harness_target(&arena, "native", 2);
    nest_builder_init(&b, nest);
    uint32_t y = nest_argument(&b, IR_F32, true, "y");
    nest_store(&b, y, at(&arena, 0, 0, NULL), nest_number(&b, IR_F32, 42), 0);
    struct cg_bytes *one = arena_new(&arena, struct cg_bytes);
    *one = harness_object(&arena, &target, &nest, 1);
    return one;
}

static const char *folder(void)
{
    char *path = arena_string(&arena, "/tmp/stepc-link-XXXXXX");
    ck_assert(mkdtemp(path) != NULL);
    setenv("TMPDIR", path, 1);
    return path;
}

/* Files in a folder, which then goes. */
static int count_and_remove(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        count++;
        unlink(arena_format(&arena, "%s/%s", path, entry->d_name));
    }
    closedir(dir);
    rmdir(path);
    unsetenv("TMPDIR");
    return count;
}

START_TEST(same_bytes)
{
    const char *in = folder(), *path = arena_format(&arena, "%s/a.so", in);
    struct cg_link link = {.objects = objects(), .object_count = 1, .export_symbol = "test_kernels"};
    struct cg_bytes first, second;
    ck_assert_ptr_null(cg_link(&link, &arena, &first));
    ck_assert_ptr_null(cg_link(&link, &arena, &second));
    ck_assert_uint_eq(first.size, second.size);
    ck_assert(memcmp(first.data, second.data, first.size) == 0);
    FILE *file = fopen(path, "wb");
    ck_assert(fwrite(first.data, first.size, 1, file) == 1 && fclose(file) == 0);
    void *handle = dlopen(path, RTLD_NOW);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    ck_assert(dlsym(handle, "test_kernels") != NULL);
    ck_assert(dlsym(handle, "k0") == NULL);
    ck_assert_int_eq(count_and_remove(in), 1);
}
END_TEST

START_TEST(no_object)
{
    const char *in = folder();
    struct cg_link link = {
        .objects = &(struct cg_bytes){"no object", 9}, .object_count = 1, .export_symbol = "test_kernels"};
    struct cg_bytes result;
    const char *fault = cg_link(&link, &arena, &result);
    ck_assert(fault && strstr(fault, "linker"));
    ck_assert_int_eq(count_and_remove(in), 0);
}
END_TEST

/* A folder of a compiler that was killed goes once nobody holds it; of one that works, or has just begun, it stays. */
START_TEST(forsaken_folders)
{
    static const char *const names[] = {"stepc-gone00", "stepc-held00", "stepc-young0"};
    const char *in = folder(), *paths[3];
    struct cg_link link = {.objects = objects(), .object_count = 1, .export_symbol = "test_kernels"};
    struct cg_bytes result;
    struct timespec hour[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    for (int i = 0; i < 3; i++) {
        paths[i] = arena_format(&arena, "%s/%s", in, names[i]);
        ck_assert_int_eq(mkdir(paths[i], 0700), 0);
        fclose(fopen(arena_format(&arena, "%s/step.o", paths[i]), "w"));
        if (i < 2) utimensat(AT_FDCWD, paths[i], hour, 0);
    }
    int held = open(paths[1], O_RDONLY);
    ck_assert_int_eq(flock(held, LOCK_EX), 0);
    ck_assert_ptr_null(cg_link(&link, &arena, &result));
    ck_assert(access(paths[0], F_OK) != 0 && access(paths[1], F_OK) == 0 && access(paths[2], F_OK) == 0);
    close(held);
    for (int i = 1; i < 3; i++) count_and_remove(paths[i]);
    ck_assert_int_eq(count_and_remove(in), 0);
}
END_TEST

START_TEST(no_such_folder)
{
    struct cg_link link = {.objects = objects(), .object_count = 1, .export_symbol = "test_kernels"};
    struct cg_bytes result;
    setenv("TMPDIR", "/no/such/folder", 1);
    const char *fault = cg_link(&link, &arena, &result);
    unsetenv("TMPDIR");
    ck_assert(fault && strstr(fault, "/no/such/folder") && strstr(fault, "No such file"));
}
END_TEST

START_TEST(no_such_linker)
{
    struct cg_link link = {
        .objects = objects(), .object_count = 1, .linker = "no-such-linker", .export_symbol = "test_kernels"};
    struct cg_bytes result;
    const char *fault = cg_link(&link, &arena, &result);
    ck_assert(fault && strstr(fault, "no-such-linker"));
}
END_TEST

/* Files may not grow beyond a size: as on a full disk. */
START_TEST(no_space)
{
    const char *in = folder();
    struct cg_link link = {.objects = objects(), .object_count = 1, .export_symbol = "test_kernels"};
    struct cg_bytes result;
    struct {
        rlim_t size;
        const char *says;
    } rows[] = {{512, "cannot write"}, {link.objects->size, "the linker"}}; /* what it reads, or what it writes */
    for (int i = 0; i < 2; i++)
        for (int ignored = 1; ignored >= 1 - i; ignored--) {
            struct rlimit limit = {rows[i].size, RLIM_INFINITY}, old;
            getrlimit(RLIMIT_FSIZE, &old);
            signal(SIGXFSZ, ignored ? SIG_IGN : SIG_DFL);
            setrlimit(RLIMIT_FSIZE, &limit);
            const char *fault = cg_link(&link, &arena, &result);
            setrlimit(RLIMIT_FSIZE, &old);
            ck_assert(fault && strstr(fault, rows[i].says));
        }
    ck_assert_int_eq(count_and_remove(in), 0);
}
END_TEST

START_TEST(cpu_names)
{
    struct cg_target target = {0};
    const char *why = NULL;
    ck_assert(cg_target_init(&target, "skylake-avx512", &why, &arena) && target.vector_bytes == 64);
    ck_assert(cg_target_init(&target, "x86-64-v2", &why, &arena) && target.vector_bytes == 16);
    ck_assert(!cg_target_init(&target, "hasvell", &why, &arena) && strstr(why, "\"haswell\""));
    ck_assert(!cg_target_init(&target, "z80", &why, &arena) && strstr(why, "unknown CPU"));
}
END_TEST

int main(void)
{
    return run_case("link", CASE_OF(30, same_bytes, no_object, forsaken_folders, no_such_folder, no_such_linker,
                                    no_space, cpu_names));
}
