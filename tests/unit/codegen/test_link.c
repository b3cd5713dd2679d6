/* Linking: one exported symbol, the same bytes twice, and environments that fail leave a message and no file. */
#include "emit_harness.h"
#include "tests/unit/file.h"
#include "tests/unit/suite.h"
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

static struct arena arena;

static struct cg_bytes object(void)
{
    struct nest_builder b;
    struct nest *nest = nest_new(&arena);
    struct cg_target target = harness_target(&arena, "native", 2);
    nest_builder_init(&b, nest);
    uint32_t y = nest_argument(&b, IR_F32, true, "y");
    nest_store(&b, y, at(&arena, 0, 0, NULL), nest_number(&b, IR_F32, 42), 0);
    return harness_object(&arena, &target, &nest, 1);
}

static struct cg_bytes contents(const char *path)
{
    size_t size = 0;
    const char *data = file_bytes(&arena, path, &size);
    ck_assert_msg(data != NULL, "%s", path);
    return (struct cg_bytes){data, size};
}

static const char *folder(void)
{
    char *path = arena_string(&arena, "/tmp/stepc-link-XXXXXX");
    ck_assert(mkdtemp(path) != NULL);
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
    return count;
}

START_TEST(same_bytes)
{
    const char *in = folder(), *a = arena_format(&arena, "%s/a.so", in), *b = arena_format(&arena, "%s/b.so", in);
    struct cg_link link = {.object = object(), .output = a, .export_symbol = "test_kernels"};
    ck_assert_ptr_null(cg_link(&link, &arena));
    link.output = b;
    ck_assert_ptr_null(cg_link(&link, &arena));
    struct cg_bytes first = contents(a), second = contents(b);
    ck_assert_uint_eq(first.size, second.size);
    ck_assert(memcmp(first.data, second.data, first.size) == 0);
    void *handle = dlopen(a, RTLD_NOW);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    ck_assert(dlsym(handle, "test_kernels") != NULL);
    ck_assert(dlsym(handle, "k0") == NULL);
    ck_assert_int_eq(count_and_remove(in), 2);
}
END_TEST

START_TEST(old_file_survives)
{
    const char *in = folder(), *path = arena_format(&arena, "%s/a.so", in);
    FILE *file = fopen(path, "wb");
    fputs("old", file);
    fclose(file);
    struct cg_link link = {.object = {"no object", 9}, .output = path, .export_symbol = "test_kernels"};
    const char *fault = cg_link(&link, &arena);
    ck_assert(fault && strstr(fault, "linker"));
    struct cg_bytes left = contents(path);
    ck_assert(left.size == 3 && memcmp(left.data, "old", 3) == 0);
    ck_assert_int_eq(count_and_remove(in), 1);
}
END_TEST

START_TEST(no_such_folder)
{
    struct cg_link link = {.object = object(), .output = "/no/such/folder/step.so", .export_symbol = "test_kernels"};
    const char *fault = cg_link(&link, &arena);
    ck_assert(fault && strstr(fault, "/no/such/folder") && strstr(fault, "No such file"));
}
END_TEST

START_TEST(no_such_linker)
{
    struct cg_link link = {
        .object = object(), .output = "/tmp/never.so", .linker = "no-such-linker", .export_symbol = "test_kernels"};
    const char *fault = cg_link(&link, &arena);
    ck_assert(fault && strstr(fault, "no-such-linker"));
}
END_TEST

/* Files may not grow beyond 1 KiB: as on a full disk. */
START_TEST(no_space)
{
    const char *in = folder();
    struct cg_link link = {
        .object = object(), .output = arena_format(&arena, "%s/a.so", in), .export_symbol = "test_kernels"};
    struct rlimit limit = {512, RLIM_INFINITY}, old;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    const char *fault = cg_link(&link, &arena);
    setrlimit(RLIMIT_FSIZE, &old);
    ck_assert(fault && strstr(fault, "cannot write"));
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
    return run_case("link",
                    CASE_OF(30, same_bytes, old_file_survives, no_such_folder, no_such_linker, no_space, cpu_names));
}
