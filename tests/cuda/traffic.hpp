/* What the kernels of a launch ask of memory, as the warps of a GPU do (STAND_IN_TRAFFIC, driver/stand_in.h). The
 * host's compiler calls the functions of its thread sanitizer, which are ours here, at every load and store, so that
 * what a kernel does is known without another compiler. Accesses of the lanes of a warp are one when they are made at
 * one place of the code, for the n-th time since the last barrier. Of each:
 *
 *   - in the device's memory: how many sectors of 32 bytes it touches, and how many would hold what it wants;
 *   - in shared memory: how often the 32 banks of 4 bytes are asked, and how often is the least. Accesses of 8 bytes
 *     are made by half, of 16 by a quarter of the lanes at a time; lanes that want the same word get it at once.
 *     Neighbours that are asked for one behind the other are one access, as NVCC makes it of an aligned array;
 *   - what a thread has for itself is a register and counts for nothing.
 *
 * Structures are loaded and stored whole (-fno-tree-sra), and what NVCC would inline is inlined. A line of the file is
 * a place in a kernel: its address in the library, what it does, and sums over the blocks that ran, a few of the grid.
 */
#ifndef CUDA_TRAFFIC_HPP
#define CUDA_TRAFFIC_HPP
#include <cstdint>

#define SHIM_UNSEEN __attribute__((no_sanitize_thread))
#define SHIM_SHARED __attribute__((section("shim_shared")))

extern "C" __attribute__((visibility("hidden"))) char __ehdr_start[], _end[];
extern "C" __attribute__((weak, visibility("hidden"))) char __start_shim_shared[], __stop_shim_shared[];

namespace traffic
{

enum { LANES = 32, BANKS = 32, WORD = 4, SECTOR = 32, WIDEST = 16, SAMPLE = 4 };

struct touch {
    uintptr_t at;
    uint32_t site;
    uint8_t bytes;
    bool writes, shared;
};
/* Of one lane since the last barrier. */
struct log {
    touch *item;
    size_t count, room;
};
static log logs[LANES];

/* Of all lanes. */
struct access {
    uintptr_t at[LANES];
    uint32_t lanes, site, number;
    uint8_t bytes;
    bool writes, shared;
};
struct list {
    access *item;
    size_t count, room;
};
static list accesses;

struct place {
    uint32_t site;
    bool writes, shared;
    unsigned long long accesses, asked /* bytes, by all lanes */, wanted /* different ones */, done, least;
};
enum { MOST_PLACES = 1 << 14 };
static place places[MOST_PLACES];

template <typename L> SHIM_UNSEEN static void make_room(L *l)
{
    if (l->count < l->room) return;
    l->room = l->room ? 2 * l->room : 256;
    l->item = (decltype(l->item))std::realloc(l->item, l->room * sizeof *l->item);
    if (!l->item) abort();
}

/* One block of a grid in a few: the first ones, one from the middle, the last one. */
SHIM_UNSEEN static bool is_sample(unsigned block, unsigned blocks)
{
    return block < SAMPLE / 2 || block == blocks / 2 || block + 1 == blocks;
}

/* ---- counting ---- */

SHIM_UNSEEN static void sort(uintptr_t *at, unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        for (unsigned k = i; k && at[k - 1] > at[k]; k--) {
            const uintptr_t other = at[k];
            at[k] = at[k - 1], at[k - 1] = other;
        }
}

/* The addresses of some lanes, ascending. */
SHIM_UNSEEN static unsigned addresses(const access *a, unsigned from, unsigned to, uintptr_t *out)
{
    unsigned count = 0;
    for (unsigned i = from; i < to; i++)
        if (a->lanes >> i & 1) out[count++] = a->at[i];
    sort(out, count);
    return count;
}

SHIM_UNSEEN static void count_sectors(const access *a, place *p)
{
    uintptr_t at[LANES], end = 0, sector = 0;
    unsigned count = addresses(a, 0, LANES, at), wanted = 0, sectors = 0;
    for (unsigned i = 0; i < count; i++) {
        const uintptr_t from = at[i] > end ? at[i] : end, to = at[i] + a->bytes;
        if (to > end) wanted += to - from, end = to;
        for (uintptr_t s = at[i] / SECTOR; s <= (to - 1) / SECTOR; s++)
            if (s > sector) sector = s, sectors++;
    }
    p->wanted += wanted, p->done += sectors, p->least += (wanted + SECTOR - 1) / SECTOR;
}

SHIM_UNSEEN static void count_banks(const access *a, place *p)
{
    const unsigned each = a->bytes <= WORD ? LANES : LANES * WORD / a->bytes;
    for (unsigned from = 0; from < LANES; from += each) {
        uintptr_t at[LANES], next = 0;
        unsigned char asked[BANKS] = {0};
        unsigned count = addresses(a, from, from + each, at), most = 0, words = 0;
        for (unsigned i = 0; i < count; i++)
            for (uintptr_t word = at[i] / WORD; word <= (at[i] + a->bytes - 1) / WORD; word++) {
                if (word < next) continue;
                next = word + 1, words++;
                if (++asked[word % BANKS] > most) most = asked[word % BANKS];
            }
        p->wanted += words * WORD, p->done += most, p->least += most > 0;
    }
}

SHIM_UNSEEN static void count(const access *a)
{
    unsigned i = a->site * 0x9e3779b1u >> 18;
    while (places[i].accesses && (places[i].site != a->site || places[i].shared != a->shared))
        i = (i + 1) % MOST_PLACES;
    place *p = &places[i];
    p->site = a->site, p->writes = a->writes, p->shared = a->shared;
    p->accesses++, p->asked += (unsigned)__builtin_popcount(a->lanes) * a->bytes;
    (a->shared ? count_banks : count_sectors)(a, p);
}

/* ---- from lanes to warps ---- */

/* The widest one that divides all addresses. */
SHIM_UNSEEN static unsigned aligned(const access *a, unsigned most)
{
    while (most & (most - 1)) most &= most - 1;
    for (unsigned i = 0; i < LANES; i++)
        while (a->lanes >> i & 1 && a->at[i] % most) most /= 2;
    return most;
}

SHIM_UNSEEN static void count_pieces(access a)
{
    unsigned rest = a.bytes;
    while (rest) {
        a.bytes = (uint8_t)aligned(&a, rest);
        count(&a);
        for (unsigned i = 0; i < LANES; i++) a.at[i] += a.bytes;
        rest -= a.bytes;
    }
}

SHIM_UNSEEN static bool is_behind(const access *a, const access *b)
{
    bool is = a->shared && b->shared && a->writes == b->writes && a->lanes == b->lanes;
    for (unsigned i = 0; is && i < LANES; i++)
        is = !(a->lanes >> i & 1) ||
             (b->at[i] == a->at[i] + a->bytes && a->at[i] % WIDEST + a->bytes + b->bytes <= WIDEST);
    return is;
}

static uint32_t *known; /* by site and number: an access, from 1 */
static size_t known_room;
static uint32_t *made; /* by site: how often this lane was there */

SHIM_UNSEEN static access *find(const touch *t, uint32_t number)
{
    size_t i = (t->site * 0x9e3779b1u ^ number * 0x85ebca6bu) & (known_room - 1);
    for (; known[i]; i = (i + 1) & (known_room - 1)) {
        access *a = &accesses.item[known[i] - 1];
        if (a->site == t->site && a->number == number && a->bytes == t->bytes && a->shared == t->shared) return a;
    }
    make_room(&accesses);
    access *a = &accesses.item[accesses.count++];
    a->lanes = 0, a->site = t->site, a->number = number, a->bytes = t->bytes, a->writes = t->writes,
    a->shared = t->shared;
    known[i] = (uint32_t)accesses.count;
    return a;
}

/* What the lanes of a warp have done since the last barrier. */
SHIM_UNSEEN static void settle()
{
    size_t all = 0;
    for (unsigned lane = 0; lane < LANES; lane++) all += logs[lane].count;
    if (!all) return;
    while (known_room < 2 * all) known_room = known_room ? 2 * known_room : 1024;
    known = (uint32_t *)std::calloc(known_room, sizeof *known);
    if (!made) made = (uint32_t *)std::calloc((size_t)(_end - __ehdr_start), sizeof *made);
    accesses.count = 0;
    for (unsigned lane = 0; lane < LANES; lane++) {
        log *l = &logs[lane];
        for (size_t i = 0; i < l->count; i++) {
            access *a = find(&l->item[i], made[l->item[i].site]++);
            a->lanes |= 1u << lane;
            a->at[lane] = l->item[i].at;
        }
        for (size_t i = 0; i < l->count; i++) made[l->item[i].site] = 0;
        l->count = 0;
    }
    for (size_t i = 0; i < accesses.count;) {
        access a = accesses.item[i++];
        while (i < accesses.count && is_behind(&a, &accesses.item[i]))
            a.bytes = (uint8_t)(a.bytes + accesses.item[i++].bytes);
        count_pieces(a);
    }
    std::free(known);
    known = nullptr;
    known_room = 0;
}

/* `own`: the stack of the thread, of so many bytes. */
static uintptr_t own;
static size_t own_bytes;
SHIM_UNSEEN static void note(const void *address, unsigned bytes, bool writes, const void *from)
{
    const uintptr_t at = (uintptr_t)address;
    const bool shared = at >= (uintptr_t)__start_shim_shared && at < (uintptr_t)__stop_shim_shared;
    if (!own || at - own < own_bytes || (!shared && at >= (uintptr_t)__ehdr_start && at < (uintptr_t)_end)) return;
    log *l = &logs[threadIdx.x % LANES];
    for (unsigned done = 0; done < bytes; done += WIDEST) {
        make_room(l);
        const unsigned here = bytes - done < WIDEST ? bytes - done : WIDEST;
        l->item[l->count++] = {at + done, (uint32_t)((const char *)from - __ehdr_start), (uint8_t)here, writes, shared};
    }
}

SHIM_UNSEEN static void tell(const char *kernel, unsigned blocks, unsigned threads)
{
    unsigned ran = 0;
    for (unsigned i = 0; i < blocks; i++) ran += is_sample(i, blocks);
    FILE *file = std::fopen(getenv("STAND_IN_TRAFFIC"), "a");
    if (!file) return;
    std::fprintf(file, "launch %s %u %u %u\n", kernel, blocks, threads, ran);
    for (unsigned i = 0; i < MOST_PLACES; i++) {
        place *p = &places[i];
        if (!p->accesses) continue;
        std::fprintf(file, "%s %s %x %llu %llu %llu %llu %llu\n", p->shared ? "shared" : "global",
                     p->writes ? "write" : "read", p->site - 1, p->accesses, p->asked, p->wanted, p->done, p->least);
        *p = {};
    }
    std::fclose(file);
}

} // namespace traffic

/* ---- what the compiler calls ---- */

#define TRAFFIC_CALLS(bytes) \
    extern "C" SHIM_UNSEEN void __tsan_read##bytes(void *at) \
    { \
        traffic::note(at, bytes, false, __builtin_return_address(0)); \
    } \
    extern "C" SHIM_UNSEEN void __tsan_write##bytes(void *at) \
    { \
        traffic::note(at, bytes, true, __builtin_return_address(0)); \
    } \
    extern "C" SHIM_UNSEEN void __tsan_unaligned_read##bytes(void *at) \
    { \
        traffic::note(at, bytes, false, __builtin_return_address(0)); \
    } \
    extern "C" SHIM_UNSEEN void __tsan_unaligned_write##bytes(void *at) \
    { \
        traffic::note(at, bytes, true, __builtin_return_address(0)); \
    }
TRAFFIC_CALLS(1)
TRAFFIC_CALLS(2)
TRAFFIC_CALLS(4)
TRAFFIC_CALLS(8)
TRAFFIC_CALLS(16)
extern "C" SHIM_UNSEEN void __tsan_read_range(void *at, long n)
{
    traffic::note(at, (unsigned)n, false, __builtin_return_address(0));
}
extern "C" SHIM_UNSEEN void __tsan_write_range(void *at, long n)
{
    traffic::note(at, (unsigned)n, true, __builtin_return_address(0));
}
extern "C" SHIM_UNSEEN void __tsan_init() {}
extern "C" SHIM_UNSEEN void __tsan_func_entry(void *) {}
extern "C" SHIM_UNSEEN void __tsan_func_exit(void *) {}
#endif
