/* Opens what is to be run. The file is opened once and loaded through /proc/self/fd, so that what was looked at is
 * what is loaded. Anything that is no ELF file is taken for a document and interpreted. */
#include "frontend/cli/run.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that was cut off maps well, and ends the process with SIGBUS once its missing pages are touched. Everything
 * that would be mapped must lie in the file. */
static bool is_whole(int fd, uint64_t size)
{
    Elf64_Ehdr head;
    if (pread(fd, &head, sizeof head, 0) != sizeof head) return false;
    if (head.e_ident[EI_CLASS] != ELFCLASS64) return true; /* the loader has a message for it */
    for (uint32_t i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + (uint64_t)i * sizeof part)) != sizeof part)
            return false;
        if (part.p_type == PT_LOAD && (part.p_filesz > size || part.p_offset > size - part.p_filesz)) return false;
    }
    return true;
}

static int load_object(struct run *r, int fd)
{
    char name[64];
    struct stat s;
    if (fstat(fd, &s) == 0 && !is_whole(fd, (uint64_t)s.st_size))
        return cli_failed(r->cli, EXIT_WRONG, "%s is damaged: a part of the file is missing", r->path);
    if (fstat(fd, &s) == 0 && (s.st_mode & S_IWOTH) && !r->cli->quiet)
        fprintf(stderr, "stepc: warning: %s can be changed by anyone; it is native code\n", r->path);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    void *object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!object && access("/proc/self/fd", X_OK)) { /* no /proc: by its name */
        snprintf(name, sizeof name, "%s", strchr(r->path, '/') ? "" : "./");
        object = dlopen(arena_format(r->cli->arena, "%s%s", name, r->path), RTLD_NOW | RTLD_LOCAL);
    }
    if (!object) {
        const char *why = dlerror(), *rest = strstr(why, ": ");
        return cli_failed(r->cli, EXIT_ENVIRONMENT, "%s: cannot be loaded: %s", r->path,
                          strncmp(why, "/proc/", 6) == 0 && rest ? rest + 2 : why);
    }
    step_query_fn *query;
    *(void **)&query = dlsym(object, "step_query");
    if (!query) return cli_failed(r->cli, EXIT_WRONG, "%s: not a compiled step: it exports no step_query", r->path);
    r->api = query(STEP_ABI_MAJOR, STEP_ABI_MINOR);
    if (!r->api)
        return cli_failed(r->cli, EXIT_WRONG, "%s: compiled for another version of the interface; this is %u.%u",
                          r->path, STEP_ABI_MAJOR, STEP_ABI_MINOR);
    r->manifest = r->api->describe();
    return 0;
}

static int create(struct run *r)
{
    struct step_options options = {.size = sizeof options, .threads = (uint32_t)cli_integer(r->cli, "threads", 0)};
    step_status status = r->api->create(&options, &r->instance);
    return status ? run_status(r, status, r->path) : 0;
}

int run_open(struct run *r)
{
    char magic[4] = "";
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cli_failed(r->cli, EXIT_ENVIRONMENT, "cannot read %s: %s", r->path, strerror(errno));
    ssize_t n = pread(fd, magic, sizeof magic, 0);
    int code;
    if (n < 0) code = cli_failed(r->cli, EXIT_ENVIRONMENT, "cannot read %s: %s", r->path, strerror(errno));
    else if (n == 4 && memcmp(magic, "\177ELF", 4) == 0) {
        bool fixed = cli_count(r->cli, "define") || cli_count(r->cli, "mesh");
        code = fixed ? cli_usage(r->cli, "-D and --mesh change a document; %s is compiled already", r->path)
                     : load_object(r, fd);
        if (!code) code = create(r);
    } else code = cli_interpret(r->cli, r->path, &r->api, &r->instance, &r->name);
    close(fd);
    if (code || !r->manifest) return code;
    const char *name = cli_report_name(r->cli, r->manifest);
    r->name = *name ? name : "step";
    return 0;
}

void run_close(struct run *r)
{
    if (r->instance) r->api->destroy(r->instance);
    r->instance = NULL;
}
