/* The text of kernels as a library for this machine: with shim.hpp before it, by its C++ compiler. */
#ifndef CUDA_HOST_COMPILER_H
#define CUDA_HOST_COMPILER_H
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { NO_HOST_COMPILER = -2 };

/* 0; NO_HOST_COMPILER; or what went wrong, which the compiler has said. `shim`: the folder of shim.hpp. */
static inline int host_compile(const char *source, const char *library, const char *shim)
{
    extern char **environ;
    const char *compiler = getenv("CXX"), *cpu = getenv("STEPC_TEST_CPU");
    char march[64];
    pid_t child;
    int status = 0;
    snprintf(march, sizeof march, "-march=%s", cpu && *cpu ? cpu : "native");
    const char *arguments[] = {compiler && *compiler ? compiler : "c++",
                               "-x",
                               "c++",
                               "-std=gnu++14", /* later ones make <cmath> three times as long to read */
                               "-O1",
                               "-w",
                               "-ffp-contract=off",
                               "-fno-strict-aliasing",
                               march,
                               "-fvisibility=hidden",
                               "-shared",
                               "-fPIC",
                               "-I",
                               shim,
                               "-o",
                               library,
                               source,
                               NULL};
    if (posix_spawnp(&child, arguments[0], NULL, NULL, (char *const *)(void *)arguments, environ) != 0)
        return NO_HOST_COMPILER;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
#endif
