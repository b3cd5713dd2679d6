/* The text of kernels as a library for this machine: with shim.hpp before it, by its C++ compiler. What the compiler
 * makes of shim.hpp alone is kept by the build (precompile.c), because reading it takes longer than reading the kernels
 * of most documents; a compiler that cannot use it, or has other flags, reads the text. Kernels of small tensors take
 * less to run than to optimise: STAND_IN_OPTIMIZE=0 is for them. */
#ifndef CUDA_HOST_COMPILER_H
#define CUDA_HOST_COMPILER_H
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { NO_HOST_COMPILER = -2, HOST_ARGUMENTS = 32 };

/* Their levels, in the order of the files that the build keeps for them. */
static const char *const host_levels[] = {"-O0", "-O1"};
enum { HOST_LEVELS = sizeof host_levels / sizeof *host_levels };

static inline const char *host_level(void)
{
    const char *asked = getenv("STAND_IN_OPTIMIZE");
    return host_levels[!asked || *asked != '0'];
}

/* What it takes to see each access (traffic.hpp), if that is asked for. */
static inline const char *const *host_traffic(void)
{
    static const char *const flags[] = {"-DSHIM_TRAFFIC",
                                        "-fsanitize=thread",
                                        "--param=tsan-instrument-func-entry-exit=0",
                                        "-fno-tree-sra",
                                        "-g1",
                                        NULL};
    return getenv("STAND_IN_TRAFFIC") ? flags : NULL;
}

/* What more flags there are: those; what it takes to stop at what C++ leaves undefined (STAND_IN_UNDEFINED), or to be
 * as inexact as a GPU (STAND_IN_INEXACT). */
static inline const char *const *host_flags(void)
{
    static const char *const flags[] = {"-fsanitize=undefined", "-fsanitize=float-cast-overflow", "-fno-sanitize=vptr",
                                        "-fsanitize-undefined-trap-on-error", NULL};
    static const char *const inexact[] = {"-DSHIM_INEXACT", NULL};
    return host_traffic()                 ? host_traffic()
           : getenv("STAND_IN_UNDEFINED") ? flags
           : getenv("STAND_IN_INEXACT")   ? inexact
                                          : NULL;
}

/* 0; NO_HOST_COMPILER; or what went wrong, which the compiler has said. `more` ends with NULL. */
static inline int host_compiler(const char *level, const char *into, const char *const *more)
{
    extern char **environ;
    const char *compiler = getenv("CXX"), *cpu = getenv("STEPC_TEST_CPU");
    char march[64];
    pid_t child;
    int status = 0;
    snprintf(march, sizeof march, "-march=%s", cpu && *cpu ? cpu : "native");
    const char *arguments[HOST_ARGUMENTS] = {compiler && *compiler ? compiler : "c++",
                                             "-std=gnu++14", /* later ones make <cmath> three times as long to read */
                                             level,
                                             "-w",
                                             "-ffp-contract=off",
                                             "-fno-strict-aliasing",
                                             "-fno-exceptions", /* its support would be the library's */
                                             march,
                                             "-fvisibility=hidden",
                                             "-fPIC",
                                             "-o",
                                             into};
    size_t n = 0;
    while (arguments[n]) n++;
    while (*more) arguments[n++] = *more++;
    if (posix_spawnp(&child, arguments[0], NULL, NULL, (char *const *)(void *)arguments, environ) != 0)
        return NO_HOST_COMPILER;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* `shim`: the folder of shim.hpp, `precompiled`: that of what was made of it. Nothing is used of the library of C++. */
static inline int host_compile(const char *source, const char *library, const char *shim, const char *precompiled)
{
    const char *more[HOST_ARGUMENTS] = {"-shared", "-nodefaultlibs", "-I", precompiled, "-I",  shim,    "-x",
                                        "c++",     source,           "-x", "none",      "-lm", "-lgcc", "-lc"};
    size_t n = 0;
    while (more[n]) n++;
    for (const char *const *flag = host_flags(); flag && *flag; flag++) more[n++] = *flag;
    return host_compiler(host_level(), library, more);
}

/* Among the files of a folder the compiler takes the one that was made by its flags. */
static inline int host_precompile(const char *header, const char *folder)
{
    const char *more[] = {"-x", "c++-header", header, NULL};
    int status = 0;
    for (unsigned i = 0; !status && i < HOST_LEVELS; i++) {
        char into[4096];
        snprintf(into, sizeof into, "%s/%u", folder, i);
        status = host_compiler(host_levels[i], into, more);
    }
    return status;
}
#endif
