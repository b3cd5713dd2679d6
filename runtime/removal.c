/* Names in run directories, and what is removed there: checkpoints, and directories that writers which are gone have
 * left. Only files of names that stepc gives; a directory that holds others stays. */
#include "runtime/rt.h"
#include <stepc/step_tools.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const char rt_item_files[RT_ITEMS][24] = {"params.safetensors", "ema.safetensors", "opt_state.safetensors",
                                          "state.safetensors"};

static bool is_ours(const char *name, bool inside)
{
    size_t n = strlen(name);
    const char *ending = inside ? ".json" : ".safetensors";
    size_t length = strlen(ending);
    bool known = inside || strncmp(name, ST_MANIFEST, sizeof ST_MANIFEST - 1) == 0; /* and notes (pieces.c) */
    if (!inside && known) return true;
    for (uint32_t i = 0; !known && i < RT_ITEMS; i++) {
        size_t stem = strlen(rt_item_files[i]) - length;
        known = strncmp(name, rt_item_files[i], stem) == 0 && (name[stem] == '.' || name[stem] == '-');
    }
    return known && n > length && strcmp(name + n - length, ending) == 0;
}

/* Files that this protocol makes; others stay, and the directory with them. `try`: only says whether there are others.
 */
bool rt_empty_folder(int at, bool inside, bool try)
{
    DIR *folder = rt_list(at, ".");
    bool all = folder != NULL;
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (!inside && strcmp(e->d_name, "items") == 0) {
            int items = openat(at, "items", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            all = items >= 0 && rt_empty_folder(items, true, try) && all;
            if (items >= 0) close(items);
            if (!try) st_call(unlinkat, at, "items", AT_REMOVEDIR);
        } else if (!is_ours(e->d_name, inside)) all = false;
        else if (!try && st_call(unlinkat, at, e->d_name, 0)) all = false;
    }
    if (folder) closedir(folder);
    return all;
}

/* Within a directory. */
bool rt_move(int at, const char *from, const char *to, unsigned flags)
{
    return st_call(renameat2, at, from, at, to, flags) == 0;
}

DIR *rt_list(int parent, const char *path)
{
    int at = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = at < 0 ? NULL : fdopendir(at);
    if (at >= 0 && !folder) close(at);
    return folder;
}

int rt_open_folder(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool rt_new_name(char name[RT_STEP_NAME], const char *kind, uint64_t step, uint32_t attempt)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, RT_STEP_NAME, ".%s-step-%" PRIu64 "-%08" PRIx32, kind, step,
             (uint32_t)now.tv_nsec * 2654435761u + (uint32_t)now.tv_sec + (uint32_t)syscall(SYS_getpid) * 40503u +
                 attempt);
    return attempt < 100;
}

bool st_remove_step(int parent, uint64_t step, char error[ST_TEXT])
{
    char name[RT_STEP_NAME], other[RT_STEP_NAME];
    snprintf(name, sizeof name, "step-%" PRIu64, step);
    int at = rt_open_folder(parent, name);
    bool ours = at >= 0 && rt_empty_folder(at, false, true);
    errno = at >= 0 && !ours ? ENOTEMPTY : errno;
    bool good = ours;
    for (uint32_t i = 0; good && rt_new_name(other, "del", step, i); i++) {
        st_call(flock, at, LOCK_EX | LOCK_NB);
        if (rt_move(parent, name, other, 0)) break;
        good = errno == EEXIST || errno == ENOTEMPTY;
    }
    good = good && st_sync(parent) && rt_empty_folder(at, false, false) &&
           !st_call(unlinkat, parent, other, AT_REMOVEDIR);
    snprintf(error, ST_TEXT, good ? "removed %s" : "%s stays: %s", name,
             at >= 0 && !ours ? "it holds other files" : strerror(errno));
    if (at >= 0) close(at);
    return good;
}

/* What writers that are gone have left: nobody holds its lock. It gets another name before it is emptied, so that where
 * locks of some file systems do not tell of a writer, this one cannot give its own to what is no longer whole; and what
 * has become a checkpoint meanwhile is not touched. */
void st_remove_forsaken(int parent)
{
    char name[256];
    DIR *folder = rt_list(parent, ".");
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        if (strncmp(e->d_name, ".tmp-step-", 10) != 0 && strncmp(e->d_name, ".del-step-", 10) != 0) continue;
        int at = rt_open_folder(parent, e->d_name);
        snprintf(name, sizeof name, ".del%s", e->d_name + 4);
        if (at >= 0 && !st_call(flock, at, LOCK_EX | LOCK_NB) && rt_move(parent, e->d_name, name, 0)) {
            rt_empty_folder(at, false, false);
            st_call(unlinkat, parent, name, AT_REMOVEDIR);
        } else if (at < 0 && (errno == ELOOP || errno == ENOTDIR)) st_call(unlinkat, parent, e->d_name, 0); /* a link */
        if (at >= 0) close(at);
    }
    if (folder) closedir(folder);
}
