/* AMX, in objects whose code uses it: the linker is asked for stepc_tiles then (codegen/link.c), and what is here takes
 * the place of a weak function of cpu.c. Linux gives the registers, with 8 KiB more for those of a thread, to a process
 * that asks, and to all of its threads; it says no where an alternate stack for signals is too small to save them. */
#ifdef __x86_64__
#include "runtime/rt.h"

#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool rt_other_feature(const char *name)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned bit = strcmp(name, "amx-bf16") == 0 ? 22 : 24, a, b, c, d;
    if (bit == 24 && strcmp(name, "amx-tile") != 0) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> bit & 1 &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

const char stepc_tiles = 0;
#endif
