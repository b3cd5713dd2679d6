/* Opens what is to be run: an object, whose checksum is compared before it is loaded (stepc/step_open.h). Anything that
 * is no ELF file is taken for a document and interpreted. */
#include "frontend/cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stepc/step_open.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int load_object(struct run *r, int fd)
{
    char error[1024];
    struct stat s;
    if (fstat(fd, &s) == 0 && (s.st_mode & S_IWOTH) && !r->cli->quiet)
        fprintf(stderr, "stepc: warning: %s can be changed by anyone; it is native code\n", r->path);
    step_status status = step_open(r->path, &r->api, error, sizeof error);
    if (status) return cli_failed(r->cli, status == STEP_EIO ? EXIT_ENVIRONMENT : EXIT_WRONG, "%s", error);
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
