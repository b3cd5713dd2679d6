/* The machine that code is made for. Every CPU is one of three levels of the x86-64 psABI (what instructions exist)
 * and a name (whose timings the scheduler uses), so that an object's needs are one of three short lists that the
 * runtime can check. */
#include "codegen/codegen.h"
#include "codegen/llvm/llvm_object.h"
#include "ir/base/str.h"
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

struct level {
    const char *name, *features, *needs;
    uint32_t vector_bytes, vector_registers, l1_bytes, l2_bytes;
    bool pairs, tiles; /* AVX512_BF16, AMX; who names the level alone does not ask for them */
};
#define V4 "avx,avx2,bmi,bmi2,f16c,fma,lzcnt,movbe,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
/* clang-format off */
static const struct level levels[] = {
    {"x86-64-v2", "", "ssse3,sse4.1,sse4.2,popcnt", 16, 16, 32 << 10, 256 << 10, false, false},
    {"x86-64-v3", "", "avx,avx2,bmi,bmi2,f16c,fma,lzcnt,movbe", 32, 16, 32 << 10, 512 << 10, false, false},
    {"x86-64-v4", "-prefer-256-bit", V4, 64, 32, 32 << 10, 1 << 20, false, false},
    {"x86-64-v4", "-prefer-256-bit,+avx512bf16", V4 ",avx512bf16", 64, 32, 32 << 10, 1 << 20, true, false},
    {"x86-64-v4", "-prefer-256-bit,+avx512bf16,+amx-tile,+amx-bf16", V4 ",avx512bf16,amx-tile,amx-bf16", 64, 32,
     48 << 10, 2 << 20, true, true},
};
/* clang-format on */
enum { LEVEL_COUNT = sizeof levels / sizeof *levels };

struct cpu {
    const char *name;
    uint8_t level;
};
static const struct cpu cpus[] = {
    {"nehalem", 0},     {"westmere", 0},   {"sandybridge", 0},    {"ivybridge", 0},      {"silvermont", 0},
    {"goldmont", 0},    {"tremont", 0},    {"bdver1", 0},         {"bdver2", 0},         {"btver2", 0},
    {"haswell", 1},     {"broadwell", 1},  {"skylake", 1},        {"alderlake", 1},      {"raptorlake", 1},
    {"bdver4", 1},      {"znver1", 1},     {"znver2", 1},         {"znver3", 1},         {"skylake-avx512", 2},
    {"cascadelake", 2}, {"cooperlake", 3}, {"cannonlake", 2},     {"icelake-client", 2}, {"icelake-server", 2},
    {"rocketlake", 2},  {"tigerlake", 2},  {"sapphirerapids", 4}, {"graniterapids", 4},  {"znver4", 3},
};
enum { CPU_COUNT = sizeof cpus / sizeof *cpus };

static uint32_t cache_size(int name, uint32_t otherwise)
{
    long size = sysconf(name);
    return size > 0 && size < 1L << 30 ? (uint32_t)size : otherwise;
}

static void use(struct cg_target *target, const struct level *level, const char *tune)
{
    target->cpu = level->name;
    target->features = level->features;
    target->tune = tune;
    target->vector_bytes = level->vector_bytes;
    target->vector_registers = level->vector_registers;
    target->pairs = level->pairs;
    target->tiles = level->tiles;
    target->l1_bytes = level->l1_bytes;
    target->l2_bytes = level->l2_bytes;
}

#if defined(__x86_64__)
/* AVX512_BF16 and AMX with bfloat16, which the system has to give to a process that asks (runtime/cpu_tiles.c). Who has
 * tiles multiplies pairs at half the rate of float32: so are Intel's CPUs with AVX512_FP16, also where a virtual
 * machine hides their tiles. */
static void find_pairs(bool amd, bool *pairs, bool *tiles)
{
    enum { TILES = 1 << 24 | 1 << 22, FP16 = 1 << 23, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d = 0;
    bool known = __builtin_cpu_supports("avx512bf16") != 0 && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0;
    bool there = known && (d & TILES) == TILES;
    *tiles = there && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
    *pairs = *tiles || (known && !there && (amd || !(d & FP16)));
}
#endif

/* The running CPU's level by what it has; its timings by the maker, as newer CPUs than LLVM knows are common. */
static bool use_native(struct cg_target *target, const char **why)
{
    bool amd = false, pairs = false, tiles = false;
#if defined(__x86_64__)
    __builtin_cpu_init();
#if defined(__clang__) /* up to 17 it knows no levels */
#define HAS(feature) __builtin_cpu_supports(feature) != 0
    bool v2 = HAS("sse4.2") && HAS("popcnt"), v3 = v2 && HAS("avx2") && HAS("bmi") && HAS("bmi2") && HAS("fma");
    bool v4 = v3 && HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl");
#undef HAS
#else
    bool v2 = __builtin_cpu_supports("x86-64-v2") != 0, v3 = __builtin_cpu_supports("x86-64-v3") != 0;
    bool v4 = __builtin_cpu_supports("x86-64-v4") != 0;
#endif
    amd = __builtin_cpu_is("amd") != 0;
    find_pairs(amd, &pairs, &tiles);
#else
    bool v2 = false, v3 = false, v4 = false;
#endif
    if (!v2) {
        *why = "this CPU is not of x86-64-v2 or later; name the CPU to compile for with --cpu";
        return false;
    }
    const char *tune = v4 ? (amd ? "znver4" : "icelake-server") : v3 ? (amd ? "znver3" : "haswell") : "nehalem";
    use(target, &levels[v4 ? 2 + pairs + tiles : v3 ? 1 : 0], tune);
    target->l1_bytes = cache_size(_SC_LEVEL1_DCACHE_SIZE, target->l1_bytes);
    target->l2_bytes = cache_size(_SC_LEVEL2_CACHE_SIZE, target->l2_bytes);
    return true;
}

bool cg_target_init(struct cg_target *target, const char *cpu, const char **why, struct arena *arena)
{
    const char *names[1 + LEVEL_COUNT + CPU_COUNT] = {"native"};
    if (strcmp(cpu, "native") == 0) return use_native(target, why);
    for (size_t i = 0; i < LEVEL_COUNT; i++) {
        names[1 + i] = levels[i].name;
        if (strcmp(cpu, levels[i].name) == 0) {
            use(target, &levels[i], i == 2 ? "znver4" : NULL);
            return true;
        }
    }
    for (size_t i = 0; i < CPU_COUNT; i++) {
        names[1 + LEVEL_COUNT + i] = cpus[i].name;
        if (strcmp(cpu, cpus[i].name) == 0) {
            use(target, &levels[cpus[i].level], cpus[i].name);
            return true;
        }
    }
    const char *near = str_nearest(cpu, names, 1 + LEVEL_COUNT + CPU_COUNT);
    *why = near ? arena_format(arena, "unknown CPU \"%s\"; did you mean \"%s\"?", cpu, near)
                : arena_format(arena,
                               "unknown CPU \"%s\"; native, x86-64-v2, x86-64-v3, x86-64-v4 or LLVM's name of a CPU",
                               cpu);
    return false;
}

const char *cg_target_needs(const struct cg_target *target, bool pairs, bool tiles)
{
    for (size_t i = 0; i < LEVEL_COUNT; i++)
        if (strcmp(target->cpu, levels[i].name) == 0 && levels[i].pairs == (pairs || tiles) && levels[i].tiles == tiles)
            return levels[i].needs;
    return "";
}

/* Two vectors: tall tiles read the least, and few columns are left over where a product is narrow or cut into heads. */
uint32_t cg_panel_columns(const struct cg_target *target) { return 2 * target->vector_bytes / 4; }

uint32_t cg_panel_rows(const struct cg_target *target) { return target->vector_registers >= 32 ? 14 : 6; }
