/* The text of a module as functions of this machine: cut into kernels, each of which is compiled once, whatever its
 * name and its object, together with all others that are missing at that time. In the cache a kernel is a link, named
 * by the hash of its text, the headers before it and the compiler's level, to the library that it came in. */
#include "../host_compiler.h"
#include "stand_in.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char head[] = "extern \"C\" __global__";
enum { MOST_NAME = 64, FOLDER = 500, PATH = FOLDER + 100 };

struct kernel { /* of a text */
    const char *begin, *name, *end;
    size_t name_length;
    uint64_t hash;
    unsigned parameters, table, most_threads;
};

static uint64_t hash_bytes(uint64_t h, const char *at, size_t n)
{
    while (n--) h = (h ^ (unsigned char)*at++) * 0x100000001b3u;
    return h;
}

/* What kernels are compiled with: another one makes others of the same text. */
static uint64_t hash_header(uint64_t h, const char *name)
{
    char path[PATH], text[1 << 12];
    snprintf(path, sizeof path, "%s/%s", STAND_IN_SHIM, name);
    FILE *file = fopen(path, "r");
    if (!file) report("%s: %s", path, strerror(errno));
    for (size_t n; file && (n = fread(text, 1, sizeof text, file)) > 0;) h = hash_bytes(h, text, n);
    if (file) fclose(file);
    return h;
}

static const char *cache(void)
{
    static char folder[FOLDER];
    const char *given = setting("STAND_IN_CACHE", "");
    if (*given && !*folder) snprintf(folder, sizeof folder, "%s", given);
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/stepc-stand-in-XXXXXX");
        if (!mkdtemp(folder)) report("no folder for compiled kernels: %s", strerror(errno));
    }
    return folder;
}

static bool read_kernel(struct kernel *k, const char *at, uint64_t before)
{
    const char *open = strstr(at, ") ");
    k->begin = at;
    k->name = open ? open + 2 : at;
    k->name_length = strcspn(k->name, "(");
    const char *next = strstr(k->name, head), *close = strchr(k->name, ')');
    k->end = next ? next : k->name + strlen(k->name);
    if (!open || !close || k->name_length >= MOST_NAME) return false;
    static const char table[] = "(const __grid_constant__ stepc_table<";
    if (!strncmp(k->name + k->name_length, table, sizeof table - 1))
        k->table = (unsigned)atoi(k->name + k->name_length + sizeof table - 1);
    if (sscanf(at + sizeof head - 1, " void __launch_bounds__(%u", &k->most_threads) != 1) k->most_threads = 1024;
    k->parameters = 1;
    for (const char *c = k->name; c < close; c++) k->parameters += *c == ',';
    k->hash = hash_bytes(before, k->begin, (size_t)(k->name - k->begin));
    k->hash = hash_bytes(k->hash, k->name + k->name_length, (size_t)(k->end - k->name - (ptrdiff_t)k->name_length));
    return true;
}

static bool known(const struct kernel *k)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/k%016llx.so", cache(), (unsigned long long)k->hash);
    return access(path, R_OK) == 0;
}

/* Those that the cache lacks as one library. */
static bool make_missing(const char *text, const struct kernel *kernels, unsigned count)
{
    char source[PATH], library[PATH], made[PATH], target[64], link[PATH];
    uint64_t all = 0;
    for (unsigned i = 0; i < count; i++)
        if (!known(&kernels[i])) all = hash_bytes(all, (const char *)&kernels[i].hash, sizeof kernels[i].hash);
    snprintf(target, sizeof target, "batch-%016llx.so", (unsigned long long)all);
    snprintf(library, sizeof library, "%s/%s", cache(), target);
    snprintf(made, sizeof made, "%s/made-%d.so", cache(), (int)getpid()); /* others may do the same now */
    snprintf(source, sizeof source, "%s/made-%d-%016llx.cpp", cache(), (int)getpid(), (unsigned long long)all);
    FILE *file = fopen(source, "w");
    if (!file) return false;
    fprintf(file, "#include \"shim.hpp\"\n%.*s", (int)(kernels[0].begin - text), text);
    unsigned missing = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct kernel *k = &kernels[i];
        bool twice = false;
        for (unsigned j = 0; j < i; j++) twice |= kernels[j].hash == k->hash;
        if (twice || known(k)) continue;
        missing++;
        unsigned long long number = k->hash;
        if (!host_traffic())
            fprintf(file, "#undef SHIM_SECTION\n#define SHIM_SECTION SHIM_SECTION_OF(k%016llx)\n", number);
        fprintf(file, "%.*sk%016llx%.*s\nSHIM_LAUNCHER(k%016llx)\n", (int)(k->name - k->begin), k->begin, number,
                (int)(k->end - k->name - (ptrdiff_t)k->name_length), k->name + k->name_length, number);
    }
    bool good = fclose(file) == 0 &&
                (!missing ||
                 (host_compile(source, made, STAND_IN_SHIM, STAND_IN_PRECOMPILED) == 0 && rename(made, library) == 0));
    for (unsigned i = 0; good && missing && i < count; i++) {
        snprintf(link, sizeof link, "%s/k%016llx.so", cache(), (unsigned long long)kernels[i].hash);
        if (symlink(target, link) && errno != EEXIST) good = false;
    }
    if (good && !host_traffic()) unlink(source); /* else lines are told of it */
    return good;
}

int module_make(struct thing *module, const char *text, char *log, size_t log_bytes)
{
    unsigned count = 0;
    const uint64_t of_text = hash_bytes(0xcbf29ce484222325u, text, strlen(text));
    const char *first = strstr(text, head);
    for (const char *at = first; at; at = strstr(at + 1, head)) count++;
    struct kernel *kernels = calloc(count + 1, sizeof *kernels);
    uint64_t before = hash_bytes(0xcbf29ce484222325u, host_level(), strlen(host_level()));
    for (const char *const *flag = host_flags(); flag && *flag; flag++)
        before = hash_bytes(before, *flag, strlen(*flag));
    before = hash_header(hash_header(before, "shim.hpp"), "traffic.hpp");
    if (first) before = hash_bytes(before, text, (size_t)(first - text));
    module->functions = calloc(count + 1, sizeof *module->functions);
    module->function_count = count;
    bool good = kernels && module->functions, all = true;
    const char *at = first;
    for (unsigned i = 0; good && i < count; i++, at = strstr(at + 1, head)) {
        good = read_kernel(&kernels[i], at, before);
        all = all && known(&kernels[i]);
    }
    if (good && !all) good = make_missing(text, kernels, count);
    for (unsigned i = 0; good && i < count; i++) {
        const struct kernel *k = &kernels[i];
        char path[PATH], symbol[MOST_NAME];
        snprintf(path, sizeof path, "%s/k%016llx.so", cache(), (unsigned long long)k->hash);
        snprintf(symbol, sizeof symbol, "launch_k%016llx", (unsigned long long)k->hash);
        char real[4096];
        void *library = realpath(path, real) ? dlopen(real, RTLD_NOW | RTLD_LOCAL) : NULL; /* one for all its kernels */
        void *launch = library ? dlsym(library, symbol) : NULL;
        module->functions[i].name = strndup(k->name, k->name_length);
        module->functions[i].parameters = k->parameters;
        module->functions[i].table = k->table;
        module->functions[i].most_threads = k->most_threads;
        module->functions[i].text = of_text;
        memcpy(&module->functions[i].launch, &launch, sizeof launch);
        good = launch && module->functions[i].name;
    }
    free(kernels);
    record_text(of_text, text);
    if (!good && log && log_bytes)
        snprintf(log, log_bytes, "the host's compiler does not take the kernels (%s)", cache());
    return good ? SUCCESS : INVALID_IMAGE;
}
