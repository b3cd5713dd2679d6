/* Files that belong to this program: they lie beside it where it is built, in ../lib/stepc where it is installed. */
#ifndef BASE_OWN_H
#define BASE_OWN_H
#include "ir/base/arena.h"

struct own_folders {
    const char *path[2]; /* NULL: the system does not say where this program is */
};
struct own_folders own_folders(struct arena *);
/* What is to be opened: the file that `variable` of the environment names, else the program's own, else the system's
 * (NULL: none). */
const char *own_library(struct arena *, const char *variable, const char *own, const char *system);
#endif
