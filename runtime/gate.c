/* The gate that every call passes which changes or runs something: one caller at a time, not after fork, not when an
 * earlier error left the state undefined. */
#include "runtime/rt.h"
#include <stepc/step_tools.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RT_PAGE = 4096 }; /* larger pages are taken whole all the same */

/* A page that the kernel clears in the child of a fork: asking costs no system call. */
bool rt_gate_make(struct step_instance *t)
{
    static const char always = 1;
    char *p = mmap(NULL, RT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
#ifdef MADV_WIPEONFORK
    if (st_call(madvise, p, RT_PAGE, MADV_WIPEONFORK) == 0) {
        *p = 1;
        t->alive = p;
        return true;
    }
#endif
    munmap(p, RT_PAGE); /* an old kernel: ask for the process id instead */
    t->alive = &always;
    t->pid = (int)syscall(SYS_getpid);
    return true;
}

void rt_gate_free(struct step_instance *t)
{
    if (t->alive && !t->pid) munmap((void *)(uintptr_t)t->alive, RT_PAGE);
}

bool rt_gate_here(const struct step_instance *t) { return *t->alive && (!t->pid || t->pid == syscall(SYS_getpid)); }

step_status rt_enter(struct step_instance *t, const char *call)
{
    if (!t) return rt_fail(NULL, STEP_EINVAL, "%s: null pointer", call);
    if (!rt_gate_here(t)) return rt_fail(t, STEP_EINVAL, "the instance belongs to the process before fork");
    uintptr_t nobody = 0;
    if (!atomic_compare_exchange_strong_explicit(&t->busy, &nobody, (uintptr_t)__builtin_thread_pointer(),
                                                 memory_order_acquire, memory_order_relaxed))
        return rt_fail(t, STEP_EBUSY, "another thread is inside this instance");
    if (atomic_load_explicit(&t->poisoned, memory_order_relaxed) && call)
        return rt_leave(t, rt_fail(t, STEP_EPOISONED, "an earlier error left the state undefined: load or destroy"));
    return STEP_OK;
}

bool rt_inside(const struct step_instance *t)
{
    return atomic_load_explicit(&t->busy, memory_order_relaxed) == (uintptr_t)__builtin_thread_pointer();
}

step_status rt_leave(struct step_instance *t, step_status status)
{
    step_status failed = (step_status)atomic_load_explicit(&t->failed, memory_order_acquire);
    if (failed && status != STEP_EPOISONED) {
        atomic_store(&t->poisoned, 1);
        status = rt_fail(t, failed, "%s", t->failure);
    }
    if (status) rt_failed(t, status);
    atomic_store_explicit(&t->busy, 0, memory_order_release);
    return status;
}
