/* What a command writes must not replace what it reads, and two of its outputs must not be one file. options.def says
 * which options name files; files are compared as the system knows them, by device and number, whatever they are
 * called. Also removes files that outputs of killed processes left in the same folders. */
#include "frontend/cli/cli.h"
#include <stepc/step_tools.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct cli_file {
    const char *option, *path, *name; /* name: in its folder */
    const char *writes;               /* a folder: patterns of what is written there */
    bool written, there;
    struct stat at, folder;
};

struct files {
    struct cli *cli;
    VEC(struct cli_file) list;
};

static void add(struct files *f, const char *option, const char *path, bool written, const char *writes)
{
    struct cli_file file = {.option = option, .path = path, .written = written, .writes = writes};
    const char *slash = strrchr(path, '/');
    file.name = slash ? slash + 1 : path;
    const char *folder = slash == path ? "/"
                         : slash       ? arena_string_n(f->cli->arena, path, (size_t)(slash - path))
                                       : ".";
    if (writes) folder = path;
    bool standard = strcmp(path, "-") == 0;
    file.there = (standard ? fstat(written ? 1 : 0, &file.at) : stat(path, &file.at)) == 0;
    if (standard ? !file.there : stat(folder, &file.folder) != 0) return;
    if (standard && !written && !S_ISREG(file.at.st_mode)) return;
    /* Nothing of a device is replaced; two outputs in one stream are of no use to who reads it. */
    if (!standard && file.there && S_ISCHR(file.at.st_mode)) return;
    vec_push(f->cli->arena, &f->list, file);
}

/* --data FILE or NAME=FILE, --emit WHAT=FILE, -o FILE. */
static void add_given(struct files *f, const struct cli_given *given)
{
    const struct cli_option *o = given->option;
    bool written = o->kind == CLI_OUTPUT || o->kind == CLI_OUTPUTS;
    const char *equals = given->value ? strchr(given->value, '=') : NULL;
    if (o->kind != CLI_CHOICE && o->choices) add(f, o->name, *given->value ? given->value : ".", true, o->choices);
    if ((o->kind == CLI_OUTPUTS || o->kind == CLI_FILES) && equals) add(f, o->name, equals + 1, written, NULL);
    bool last = (o->kind == CLI_OUTPUT || o->kind == CLI_INPUT) && cli_text(f->cli, o->name, NULL) == given->value;
    if (last || o->kind == CLI_FILES) add(f, o->name, given->value, written, NULL);
    if (last && strcmp(o->name, "save") == 0 &&
        strcmp(given->value, "-") != 0) /* in place of it, where weights are not finite (run_finite.c) */
        add(f, o->name, arena_format(f->cli->arena, "%s.nonfinite", given->value), written, NULL);
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool clash(struct cli *cli, const struct cli_file *a, const struct cli_file *b)
{
    if (!a->writes && b->writes) return clash(cli, b, a);
    if (a->writes) {
        const char *patterns[16];
        size_t n = str_choices(cli->arena, a->writes, patterns, 16);
        bool matches = false;
        for (size_t i = 0; i < n; i++) matches |= fnmatch(patterns[i], b->name, 0) == 0;
        return matches && !b->writes && same(&a->folder, &b->folder);
    }
    if (a->there != b->there) return false;
    return a->there ? same(&a->at, &b->at) : same(&a->folder, &b->folder) && strcmp(a->name, b->name) == 0;
}

/* Files beside what will be written whose maker is gone. The processes of another machine that writes into the same
 * folder cannot be asked: an hour without a change must do. */
static void remove_forsaken(struct cli *cli, const struct cli_file *file)
{
    const char *folder = file->writes ? file->path
                                      : arena_format(cli->arena, "%.*s.", (int)(file->name - file->path), file->path);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat s;
        const size_t n = strlen(ST_TEMPORARY);
        if (strncmp(entry->d_name, ST_TEMPORARY, n) != 0) continue;
        long maker = strtol(entry->d_name + n, NULL, 10);
        if (maker <= 0 || kill((pid_t)maker, 0) == 0 || errno != ESRCH) continue;
        if (fstatat(dirfd(dir), entry->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode) &&
            s.st_uid == geteuid() && time(NULL) - s.st_mtime >= 3600)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir) closedir(dir);
}

static bool is_in_checkpoint(struct cli *cli, const struct cli_file *file)
{
    const char *folder = arena_format(cli->arena, "%.*s.", (int)(file->name - file->path), file->path);
    return st_is_checkpoint(folder) || st_is_checkpoint(arena_format(cli->arena, "%s/..", folder)); /* its items */
}

int cli_check_files(struct cli *cli)
{
    struct files f = {.cli = cli};
    bool init = cli->command == CLI_init; /* [TEMPLATE [FILE]] */
    for (size_t i = init ? 1 : 0; i < cli->operands.count; i++)
        add(&f, init ? "FILE" : cli->command == CLI_plot ? "METRICS" : "MODEL", cli->operands.items[i], init, NULL);
    for (size_t i = 0; i < cli->given.count; i++) add_given(&f, &cli->given.items[i]);
    if ((cli_count(cli, "dump") || cli_count(cli, "dump-changed")) && !cli_count(cli, "dump-dir"))
        add(&f, "dump", ".", true, "[0-9][0-9]-*.sir");
    for (size_t i = 0; i < f.list.count; i++)
        for (size_t k = 0; k < i; k++) {
            const struct cli_file *a = &f.list.items[k], *b = &f.list.items[i];
            /* A run that goes on from a file may leave its end there: it is replaced after all is done. */
            bool goes_on = strcmp(a->written ? b->option : a->option, "init") == 0 &&
                           strcmp(a->written ? a->option : b->option, "save") == 0;
            if ((!a->written && !b->written) || goes_on || !clash(cli, a, b)) continue;
            const char *dash[] = {*a->option <= 'Z' ? "" : "--", *b->option <= 'Z' ? "" : "--"};
            if (a->writes || b->writes)
                return cli_usage(cli, "%s%s and %s%s: %s would be overwritten", dash[0], a->option, dash[1], b->option,
                                 a->writes ? b->path : a->path);
            return cli_usage(cli, "%s%s and %s%s name one file: %s%s", dash[0], a->option, dash[1], b->option, b->path,
                             a->written && b->written ? "" : "; what is read would be overwritten");
        }
    for (size_t i = 0; i < f.list.count; i++) {
        const struct cli_file *file = &f.list.items[i];
        bool closed = S_ISDIR(file->at.st_mode) && strcmp(file->path, "-") == 0; /* as main leaves it */
        if (!file->written || file->writes || (!closed && !is_in_checkpoint(cli, file))) continue;
        return cli_failed(
            cli, closed ? EXIT_ENVIRONMENT : EXIT_WRONG, "%s%s %s %s", *file->option <= 'Z' ? "" : "--", file->option,
            file->path, closed ? "is standard output, which is closed" : "lies in a checkpoint, which it would damage");
    }
    for (size_t i = 0; i < f.list.count; i++)
        if (f.list.items[i].written) remove_forsaken(cli, &f.list.items[i]);
    return 0;
}
