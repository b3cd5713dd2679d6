/* Hash maps from strings or 64-bit numbers to 32-bit numbers. They iterate in insertion order: nothing that the
 * compiler prints depends on a pointer or a hash. */
#ifndef BASE_MAP_H
#define BASE_MAP_H
#include "ir/base/arena.h"
#include <stdbool.h>

struct map_entry {
    const char *key;
    uint64_t number; /* the key, or the string's hash */
    uint32_t value;
};
struct map {
    struct arena *arena;
    struct map_entry *entries; /* insertion order */
    uint32_t count, capacity;
    uint32_t *slots; /* index + 1 into entries, 0 = free */
    uint32_t slot_count;
};

#define MAP(arena_pointer) ((struct map){.arena = (arena_pointer)})
#define MAP_NONE UINT32_MAX
/* The value of a key, MAP_NONE if there is none. */
uint32_t map_get(const struct map *, const char *key);
uint32_t map_get_number(const struct map *, uint64_t key);
/* Sets (inserts or replaces); the key string must outlive the map. Returns false if it was there already. */
bool map_set(struct map *, const char *key, uint32_t value);
bool map_set_number(struct map *, uint64_t key, uint32_t value);

uint64_t hash_bytes(uint64_t seed, const void *, size_t); /* 64 bits, the same on every machine and run */
uint64_t hash_u64(uint64_t seed, uint64_t value);
#endif
