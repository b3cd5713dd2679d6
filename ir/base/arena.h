/* Memory of the compiler: arenas. A module has one, a pass has a scratch one; nothing in them is freed alone.
 * Running out of memory ends a compilation with exit code 3 and a message; the runtime, which may not exit, uses none.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct arena_chunk;
struct arena {
    struct arena_chunk *chunk; /* newest first */
    char *at, *end;            /* free part of the newest chunk */
    size_t total;              /* bytes handed out */
};

/* Zeroed memory, 16-byte aligned; never NULL. SIZE_MAX bytes: somebody else got none. Zero-initialise the struct before
 * first use. */
void *arena_alloc(struct arena *, size_t bytes);
/* count * size with an overflow check. */
void *arena_array(struct arena *, size_t count, size_t size);
void *arena_copy(struct arena *, const void *from, size_t bytes);
char *arena_string(struct arena *, const char *from);
char *arena_string_n(struct arena *, const char *from, size_t length);
char *arena_format(struct arena *, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vformat(struct arena *, const char *format, va_list) __attribute__((format(printf, 2, 0)));
void arena_free(struct arena *); /* everything at once; the struct can be used again */

#define arena_new(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define arena_new_array(a, T, n) ((T *)arena_array((a), (size_t)(n), sizeof(T)))

/* Grows `items` (an arena array with `count` used of `*capacity`) so that one more fits. */
void *arena_grow(struct arena *, void *items, size_t count, size_t *capacity, size_t size);
/* A growable array: struct { T *items; size_t count, capacity; } v; vec_push(arena, &v, x); */
#define VEC(T) \
    struct { \
        T *items; \
        size_t count, capacity; \
    }
#define vec_push(a, v, x) \
    ((v)->items = arena_grow((a), (v)->items, (v)->count, &(v)->capacity, sizeof *(v)->items), \
     (v)->items[(v)->count++] = (x))
#endif
