#include "ir/base/map.h"

#include <string.h>

uint64_t hash_u64(uint64_t seed, uint64_t value)
{ /* splitmix64's finaliser over both */
    uint64_t z = seed * 0x9e3779b97f4a7c15u + value + 0x632be59bd9b4e019u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t hash_bytes(uint64_t seed, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = hash_u64(seed, n);
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word = 0;
        for (int i = 0; i < 8; i++) word |= (uint64_t)p[i] << (8 * i);
        h = hash_u64(h, word);
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < n; i++) rest |= (uint64_t)p[i] << (8 * i);
    return hash_u64(h, rest);
}

static uint64_t hash_string(const char *key) { return hash_bytes(1, key, strlen(key)); }

static bool map_same(const struct map_entry *e, const char *key, uint64_t number)
{
    return e->number == number && !key == !e->key && (!key || strcmp(e->key, key) == 0);
}

static uint32_t *map_slot(const struct map *m, const char *key, uint64_t number)
{
    uint32_t mask = m->slot_count - 1;
    uint32_t at = (uint32_t)(key ? number : hash_u64(2, number)) & mask;
    while (m->slots[at] && !map_same(&m->entries[m->slots[at] - 1], key, number)) at = (at + 1) & mask;
    return &m->slots[at];
}

static uint32_t map_find(const struct map *m, const char *key, uint64_t number)
{
    if (!m->slot_count) return MAP_NONE;
    uint32_t slot = *map_slot(m, key, number);
    return slot ? m->entries[slot - 1].value : MAP_NONE;
}

static void map_rehash(struct map *m)
{
    m->slot_count = m->slot_count ? m->slot_count * 2 : 16;
    m->slots = arena_new_array(m->arena, uint32_t, m->slot_count);
    for (uint32_t i = 0; i < m->count; i++) *map_slot(m, m->entries[i].key, m->entries[i].number) = i + 1;
}

static bool map_put(struct map *m, const char *key, uint64_t number, uint32_t value)
{
    if ((m->count + 1) * 2 > m->slot_count) map_rehash(m);
    uint32_t *slot = map_slot(m, key, number);
    if (*slot) {
        m->entries[*slot - 1].value = value;
        return false;
    }
    size_t capacity = m->capacity;
    m->entries = arena_grow(m->arena, m->entries, m->count, &capacity, sizeof *m->entries);
    m->capacity = (uint32_t)capacity;
    m->entries[m->count] = (struct map_entry){key, number, value};
    *slot = ++m->count;
    return true;
}

uint32_t map_get(const struct map *m, const char *key) { return map_find(m, key, hash_string(key)); }
uint32_t map_get_number(const struct map *m, uint64_t key) { return map_find(m, NULL, key); }
bool map_set(struct map *m, const char *key, uint32_t value) { return map_put(m, key, hash_string(key), value); }
bool map_set_number(struct map *m, uint64_t key, uint32_t value) { return map_put(m, NULL, key, value); }
