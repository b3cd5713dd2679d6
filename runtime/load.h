/* What load is about to do: shared by checkpoint.c, which does it, and load_map.c, which knows other names. */
#ifndef RUNTIME_LOAD_H
#define RUNTIME_LOAD_H
#include "runtime/rt.h"
#include <stepc/step_tools.h>

#pragma GCC visibility push(hidden)
struct rt_load_plan {
    struct step_instance *t;
    struct st_file *file;
    const struct st_checkpoint *checkpoint; /* NULL: a file alone */
    struct st_map *map;                     /* NULL: tensors have the names of slots */
    const struct rt_pieces *pieces;         /* each rank reads and stores its part; NULL: the first reads all */
    uint32_t flags;
    bool whole;    /* the file holds the whole state */
    bool adapts;   /* it holds adapters */
    bool fresh;    /* some get the values that init gives */
    bool restarts; /* what starts from the parameters begins anew */
    enum { RT_LOAD_READ, RT_LOAD_FIRST, RT_LOAD_REST } phase;
    struct rt_load_item {
        const struct st_tensor *source;
        uint64_t offset; /* in `memory` */
        uint64_t count;  /* elements that are read */
        char *place;     /* in the state, where it is read to; NULL: by way of the memory */
        char *kept;      /* its value, which it keeps */
        step_status status;
        bool wrong;
        uint8_t way; /* of the map: ST_FRESH, ST_SKIP, ... */
    } *items;        /* per slot; source NULL: not in the file or not wanted */
    char *memory;    /* of the first rank */
    uint64_t room;
    void *kept; /* memory of all of them */
    uint32_t faults;
    char text[RT_TEXT];
};

void rt_load_store(struct rt_load_plan *, const struct stepc_slot *, char *data);
bool rt_slot_adapts(const struct stepc_slot *);
/* Where a tensor of the file is read to: `to`, or where it stays in an instance that has no state yet: whatever becomes
 * of it, init or all of another file follow before a step. */
char *rt_load_place(struct rt_load_plan *, uint32_t i, char *to);
/* A tensor of the file is what slot i gets. */
void rt_load_match(struct rt_load_plan *, uint32_t i, const struct st_tensor *);
void rt_load_fault(struct rt_load_plan *, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct rt_maps {                                                                 /* load_map.c */
    bool (*unknown)(struct rt_load_plan *, const struct st_tensor *);            /* of no slot's name: it is a fault */
    step_status (*match)(struct rt_load_plan *, const char *map, bool poisoned); /* every slot */
    step_status (*begin)(struct rt_load_plan *);                                 /* init, around what keeps its value */
    void (*end)(struct rt_load_plan *, step_status);
};
#pragma GCC visibility pop
#endif
