/* stepc/step_calls.h: the table of a compiled step as functions, for languages that cannot call a function pointer in a
 * struct: cgo (Go), Swift, Nim and others that see C through a header. Each entry of `struct step_api` is here under
 * its name after `step_call_`, with the table first; step_call_open is step_open and gives the table. C99 and C++11.
 *
 * Without a C compiler at hand the pointers are called as they lie: in the table of a 64-bit system entry k stands at
 * byte 16 + 8 k, in the order below. Rust has them as `extern "C" fn` in a #[repr(C)] struct, Julia as
 * ccall(unsafe_load(Ptr{Ptr{Cvoid}}(api + 16), k + 1), ...), C# as delegate* unmanaged[Cdecl]. For a foreign function
 * interface that wants symbols in a library, compile one file once:
 *
 *     echo '#include <stepc/step_calls.h>' | cc -x c -shared -fPIC -DSTEP_CALLS_SYMBOLS - -o libstep_calls.so -ldl
 */
#ifndef STEPC_STEP_CALLS_H
#define STEPC_STEP_CALLS_H

#include "stepc/step_open.h"

#ifndef STEP_CALLS_SYMBOLS
#define STEP_CALL static inline
#elif defined __cplusplus
#define STEP_CALL extern "C" __attribute__((visibility("default")))
#else
#define STEP_CALL __attribute__((visibility("default")))
#endif

STEP_CALL step_status step_call_open(const char *path, const struct step_api **api, char *error, size_t capacity)
{
    return step_open(path, api, error, capacity);
}

STEP_CALL const char *step_call_describe(const struct step_api *api) { return api->describe(); }

STEP_CALL const char *step_call_status_name(const struct step_api *api, step_status status)
{
    return api->status_name(status);
}

STEP_CALL const char *step_call_last_error(const struct step_api *api, const struct step_instance *t)
{
    return api->last_error(t);
}

STEP_CALL step_status step_call_create(const struct step_api *api, const struct step_options *options,
                                       struct step_instance **out)
{
    return api->create(options, out);
}

STEP_CALL void step_call_destroy(const struct step_api *api, struct step_instance *t) { api->destroy(t); }

STEP_CALL step_status step_call_init(const struct step_api *api, struct step_instance *t) { return api->init(t); }

STEP_CALL size_t step_call_tensor_count(const struct step_api *api, const struct step_instance *t, uint32_t role)
{
    return api->tensor_count(t, role);
}

STEP_CALL step_status step_call_tensor_at(const struct step_api *api, const struct step_instance *t, uint32_t role,
                                          size_t index, struct step_tensor *out)
{
    return api->tensor_at(t, role, index, out);
}

STEP_CALL step_status step_call_tensor_find(const struct step_api *api, const struct step_instance *t, const char *name,
                                            struct step_tensor *out)
{
    return api->tensor_find(t, name, out);
}

STEP_CALL step_status step_call_read(const struct step_api *api, struct step_instance *t, const struct step_array *out)
{
    return api->read(t, out);
}

STEP_CALL step_status step_call_write(const struct step_api *api, struct step_instance *t, const struct step_array *in)
{
    return api->write(t, in);
}

STEP_CALL step_status step_call_dlpack(const struct step_api *api, struct step_instance *t, const char *name,
                                       struct DLManagedTensorVersioned **out)
{
    return api->dlpack(t, name, out);
}

STEP_CALL step_status step_call_dlpack_legacy(const struct step_api *api, struct step_instance *t, const char *name,
                                              struct DLManagedTensor **out)
{
    return api->dlpack_legacy(t, name, out);
}

STEP_CALL size_t step_call_hyper_count(const struct step_api *api, const struct step_instance *t)
{
    return api->hyper_count(t);
}

STEP_CALL step_status step_call_hyper_at(const struct step_api *api, const struct step_instance *t, size_t index,
                                         struct step_hyper *out)
{
    return api->hyper_at(t, index, out);
}

STEP_CALL step_status step_call_hyper_get(const struct step_api *api, const struct step_instance *t, const char *name,
                                          double *out)
{
    return api->hyper_get(t, name, out);
}

STEP_CALL step_status step_call_hyper_set(const struct step_api *api, struct step_instance *t, const char *name,
                                          double value)
{
    return api->hyper_set(t, name, value);
}

STEP_CALL step_status step_call_stage(const struct step_api *api, struct step_instance *t,
                                      const struct step_batch *batch)
{
    return api->stage(t, batch);
}

STEP_CALL step_status step_call_step(const struct step_api *api, struct step_instance *t,
                                     const struct step_batch *batch, struct step_result *result)
{
    return api->step(t, batch, result);
}

STEP_CALL step_status step_call_step_n(const struct step_api *api, struct step_instance *t,
                                       const struct step_batch *batch, uint64_t n, struct step_result *result)
{
    return api->step_n(t, batch, n, result);
}

STEP_CALL step_status step_call_eval(const struct step_api *api, struct step_instance *t,
                                     const struct step_batch *batch, const char *weights, struct step_result *result)
{
    return api->eval(t, batch, weights, result);
}

STEP_CALL step_status step_call_infer(const struct step_api *api, struct step_instance *t,
                                      const struct step_batch *batch, const char *weights,
                                      const struct step_array *outputs, size_t output_count)
{
    return api->infer(t, batch, weights, outputs, output_count);
}

STEP_CALL step_status step_call_save(const struct step_api *api, struct step_instance *t, const struct step_save *save,
                                     struct step_job **out)
{
    return api->save(t, save, out);
}

STEP_CALL step_status step_call_job_wait(const struct step_api *api, struct step_job *job, int64_t timeout_ms)
{
    return api->job_wait(job, timeout_ms);
}

STEP_CALL void step_call_job_free(const struct step_api *api, struct step_job *job) { api->job_free(job); }

STEP_CALL step_status step_call_load(const struct step_api *api, struct step_instance *t, const struct step_load *load)
{
    return api->load(t, load);
}

STEP_CALL const char *step_call_item(const struct step_api *api, const struct step_instance *t, const char *name)
{
    return api->item(t, name);
}

STEP_CALL void step_call_interrupt(const struct step_api *api, struct step_instance *t) { api->interrupt(t); }

STEP_CALL void step_call_abort_peers(const struct step_api *api, struct step_instance *t) { api->abort_peers(t); }

STEP_CALL step_status step_call_memory(const struct step_api *api, const struct step_instance *t, uint32_t device,
                                       struct step_memory *out)
{
    return api->memory(t, device, out);
}

STEP_CALL step_status step_call_trace(const struct step_api *api, struct step_instance *t, const char *path)
{
    return api->trace(t, path);
}

STEP_CALL step_status step_call_commit(const struct step_api *api, struct step_instance *t, int accept)
{
    return api->commit(t, accept);
}

STEP_CALL step_status step_call_place(const struct step_api *api, const struct step_instance *t, struct step_place *out)
{
    return api->place(t, out);
}

STEP_CALL step_status step_call_agree(const struct step_api *api, struct step_instance *t, uint64_t mine,
                                      uint64_t *largest)
{
    return api->agree(t, mine, largest);
}

#endif
