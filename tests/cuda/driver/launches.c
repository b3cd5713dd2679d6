/* The functions of the driver for modules, their kernels, launches of these, and graphs of launches. */
#include "stand_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- modules and kernels */

API cuModuleLoadDataEx(void **module, const void *image, unsigned count, const int *options, void **values)
{
    BEGIN("cuModuleLoadDataEx");
    if (capturing("cuModuleLoadDataEx")) return end(CAPTURE_UNSUPPORTED);
    char *log = NULL;
    size_t log_bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == 5) log = values[i];
        if (options[i] == 6) log_bytes = (size_t)(uintptr_t)values[i];
        if (options[i] == 6) ((void **)values)[i] = NULL; /* how much was written */
    }
    if (memcmp(image, "\177ELF", 4) == 0) return end(INVALID_IMAGE); /* no GPU, no cubin */
    if (strstr(image, "\n.target sm_")) {
        if (log) snprintf(log, log_bytes, "ptxas fatal: the stand-in compiles no PTX");
        return end(INVALID_PTX);
    }
    struct thing *m = make(MODULE);
    status = module_make(m, image, log, log_bytes);
    if (status) end_thing(m);
    *module = m;
    return end(status);
}

API cuModuleUnload(void *module)
{
    BEGIN("cuModuleUnload");
    if (capturing("cuModuleUnload")) return end(CAPTURE_UNSUPPORTED);
    struct thing *m = of("cuModuleUnload", module, MODULE);
    if (!m) return end(INVALID_HANDLE);
    status = drain_context(m->context);
    end_thing(m);
    return end(status);
}

API cuModuleGetFunction(void **function, void *module, const char *name)
{
    BEGIN("cuModuleGetFunction");
    struct thing *m = of("cuModuleGetFunction", module, MODULE);
    for (unsigned i = 0; m && i < m->function_count; i++)
        if (strcmp(m->functions[i].name, name) == 0) {
            *function = &m->functions[i];
            return end(SUCCESS);
        }
    return end(m ? NOT_FOUND : INVALID_HANDLE);
}

/* The module that a function is of, if it is in the current context. */
static bool has_function(const char *name, const void *function)
{
    for (struct thing *m = things; m; m = m->next)
        if (m->kind == MODULE && !m->gone && m->context == current_context() &&
            (const char *)function >= (char *)m->functions &&
            (const char *)function < (char *)(m->functions + m->function_count))
            return true;
    report("%s: no function of a module of device %d", name, current_context()->ordinal);
    return false;
}

API cuFuncLoad(void *function)
{
    BEGIN("cuFuncLoad");
    if (capturing("cuFuncLoad")) return end(CAPTURE_UNSUPPORTED);
    return end(has_function("cuFuncLoad", function) ? SUCCESS : INVALID_HANDLE);
}

/* Of a block ("Technical Specifications per Compute Capability"). */
static int most_shared(void)
{
    int which = capability();
    return (which < 80                                   ? 64
            : which == 80 || which == 87                 ? 163
            : which == 86 || which == 89 || which >= 120 ? 99
                                                         : 227)
           << 10;
}

API cuFuncSetAttribute(void *function, int attribute, int value)
{
    enum { MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
    BEGIN("cuFuncSetAttribute");
    if (!has_function("cuFuncSetAttribute", function)) return end(INVALID_HANDLE);
    if (attribute != MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > most_shared()) return end(INVALID_VALUE);
    ((struct function *)function)->most_shared = (unsigned)value;
    return end(SUCCESS);
}

API cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **parameters, void **extra)
{
    enum { MOST_PARAMETERS = 4096 };
    BEGIN("cuLaunchKernel");
    if (!has_function("cuLaunchKernel", function)) return end(INVALID_HANDLE);
    struct function *f = function;
    if (shared > 48 << 10 && shared > f->most_shared) {
        report("%s: %u bytes of shared memory, for which it was not asked", f->name, shared);
        return end(INVALID_VALUE);
    }
    if (y != 1 || z != 1 || ty != 1 || tz != 1 || extra || !x || !threads || threads > f->most_threads ||
        x > INT32_MAX) {
        report("%s: a grid that there is not", f->name);
        return end(INVALID_VALUE);
    }
    if (function_words(f) * sizeof(uint64_t) > MOST_PARAMETERS) {
        report("%s: more than %d bytes of parameters, which not every driver takes", f->name, MOST_PARAMETERS);
        return end(INVALID_VALUE);
    }
    uint64_t *words = malloc((function_words(f) + 1) * sizeof *words), *word = words;
    if (!words) abort();
    for (unsigned i = 0; i < f->parameters; i++) {
        unsigned n = i == 0 && f->table ? f->table : 1;
        memcpy(word, parameters[i], n * sizeof *words);
        word += n;
    }
    return end(enqueue(
        "cuLaunchKernel", stream,
        &(struct op){
            .kind = OP_KERNEL, .function = f, .blocks = x, .threads = threads, .shared = shared, .words = words}));
}

/* ---------------------------------------------------------------- graphs */

API cuStreamBeginCapture_v2(void *stream, int mode)
{
    BEGIN("cuStreamBeginCapture");
    struct thing *s = of("cuStreamBeginCapture", stream, STREAM);
    if (!s || s->capture || mode < 0 || mode > RELAXED) return end(INVALID_VALUE);
    if (s->unowned) return end(CAPTURE_UNSUPPORTED); /* what waits for all streams is none of a graph */
    s->capture = make(GRAPH);
    s->capture_mode = mode, s->capture_thread = pthread_self();
    return end(SUCCESS);
}

API cuStreamEndCapture(void *stream, void **graph)
{
    BEGIN("cuStreamEndCapture");
    struct thing *s = of("cuStreamEndCapture", stream, STREAM);
    if (!s || !s->capture) return end(INVALID_VALUE);
    if (s->capture_mode != RELAXED && !pthread_equal(s->capture_thread, pthread_self())) {
        report("cuStreamEndCapture: by another thread than the one that began");
        s->capture->lost = true;
        return end(CAPTURE_WRONG_THREAD);
    }
    struct thing *made = s->capture;
    s->capture = NULL;
    *graph = made->lost ? NULL : made;
    if (!made->lost) return end(SUCCESS);
    end_thing(made);
    ops_free(&made->ops);
    return end(CAPTURE_INVALIDATED);
}

API cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    BEGIN("cuGraphInstantiate");
    struct thing *g = of("cuGraphInstantiate", graph, GRAPH), *made = g && !flags ? make(EXEC) : NULL;
    if (!made) return end(INVALID_VALUE);
    ops_copy(&made->ops, &g->ops);
    *exec = made;
    return end(SUCCESS);
}

API cuGraphLaunch(void *exec, void *stream)
{
    BEGIN("cuGraphLaunch");
    struct thing *e = of("cuGraphLaunch", exec, EXEC);
    if (!e) return end(INVALID_HANDLE);
    return end(enqueue("cuGraphLaunch", stream, &(struct op){.kind = OP_GRAPH, .exec = e}));
}

API cuGraphDestroy(void *graph)
{
    BEGIN("cuGraphDestroy");
    struct thing *g = of("cuGraphDestroy", graph, GRAPH);
    if (!g) return end(INVALID_HANDLE);
    end_thing(g);
    ops_free(&g->ops);
    return end(SUCCESS);
}

API cuGraphExecDestroy(void *exec)
{
    BEGIN("cuGraphExecDestroy");
    struct thing *e = of("cuGraphExecDestroy", exec, EXEC);
    if (!e) return end(INVALID_HANDLE);
    status = drain_context(e->context);
    end_thing(e);
    ops_free(&e->ops);
    return end(status);
}
