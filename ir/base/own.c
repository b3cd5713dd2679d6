#include "ir/base/own.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct own_folders own_folders(struct arena *arena)
{
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    char *end = strrchr(program, '/');
    if (!end) return (struct own_folders){{NULL}};
    *end = 0;
    return (struct own_folders){{arena_string(arena, program), arena_format(arena, "%s/../lib/stepc", program)}};
}

const char *own_library(struct arena *arena, const char *variable, const char *own, const char *system)
{
    const char *given = getenv(variable);
    if (given && *given) return given;
    struct own_folders folders = own_folders(arena);
    for (int i = 0; i < 2 && folders.path[i]; i++) {
        const char *path = arena_format(arena, "%s/%s", folders.path[i], own);
        if (access(path, F_OK) == 0) return path;
    }
    return system;
}
