/* Views of tensors (views.c): what they hold, what is refused, and that the memory goes with the last of an instance
 * that was destroyed, whoever is last. What steps do to them is in tests/hosts/views.py. */
#include "tests/unit/runtime/toy.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdlib.h>

/* As DLPack has them. */
struct tensor {
    float *data;
    int32_t device_type, device_id, rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct DLManagedTensor {
    struct tensor tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *);
};
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    struct tensor tensor;
};

static struct toy toy;
static struct toy_data data;

static struct step_instance *ready(int64_t devices)
{
    toy_build(&toy, devices, true, false);
    toy.program.arrays = &stepc_part_views; /* named: views.c is linked */
    struct step_instance *t = toy_create(&toy.program, 1);
    toy_fill(&data, 1);
    ck_assert_msg(t != NULL, "%s", rt_last_error(NULL));
    return t;
}

START_TEST(in_place)
{
    struct step_instance *t = ready(1);
    struct DLManagedTensorVersioned *v = NULL;
    struct DLManagedTensor *old = NULL;
    ck_assert_int_eq(rt_dlpack(t, "w", &v), STEP_EINVAL); /* before init */
    ck_assert_int_eq(rt_init(t), STEP_OK);
    ck_assert_int_eq(rt_dlpack(t, "w", NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_dlpack(t, NULL, &v), STEP_EINVAL);
    ck_assert_int_eq(rt_dlpack(NULL, "w", &v), STEP_EINVAL);
    ck_assert_int_eq(rt_dlpack(t, "none", &v), STEP_ENOTFOUND);
    ck_assert_int_eq(rt_dlpack(t, "x", &v), STEP_EINVAL);
    ck_assert_int_eq(rt_dlpack(t, "eval.w", &v), STEP_EUNSUPPORTED); /* computed */
    ck_assert_ptr_null(v);
    ck_assert_int_eq(rt_dlpack(t, "w", &v), STEP_OK);
    ck_assert_int_eq(rt_dlpack_legacy(t, "w", &old), STEP_OK);
    ck_assert_uint_eq(v->major, 1);
    ck_assert_uint_eq(v->flags, 1); /* read only */
    const struct tensor *a = &v->tensor;
    ck_assert_ptr_eq(a->data, old->tensor.data);
    ck_assert_int_eq(a->device_type, 1);
    ck_assert_int_eq(a->device_id, 0);
    ck_assert_int_eq(a->rank, 1);
    ck_assert_int_eq(a->code, 2);
    ck_assert_int_eq(a->bits, 32);
    ck_assert_int_eq(a->lanes, 1);
    ck_assert_int_eq(a->strides[0], 1);
    ck_assert_uint_eq(a->byte_offset, 0);
    float w[8];
    for (int i = 0; i < 3; i++) { /* one that may be refused puts the state elsewhere */
        data.batch.flags = i == 1 ? STEP_ON_NONFINITE_SKIP : 0;
        ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
        ck_assert_int_eq(toy_read(t, "w", w, a->shape[0]), STEP_OK);
        ck_assert_mem_eq(w, a->data, (size_t)a->shape[0] * sizeof *w);
    }
    data.batch.flags = 0;
    rt_destroy(t);
    ck_assert_mem_eq(w, a->data, (size_t)a->shape[0] * sizeof *w);
    v->deleter(v);
    ck_assert_mem_eq(w, old->tensor.data, (size_t)old->tensor.shape[0] * sizeof *w);
    old->deleter(old);
    t = ready(1); /* and the other way round */
    ck_assert_int_eq(rt_init(t) | rt_dlpack(t, "w", &v), STEP_OK);
    v->deleter(v);
    rt_destroy(t);
}
END_TEST

START_TEST(split)
{
    struct step_instance *t = ready(2);
    struct DLManagedTensorVersioned *v = NULL;
    ck_assert_int_eq(rt_init(t), STEP_OK);
    ck_assert_int_eq(rt_dlpack(t, "err", &v), STEP_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(rt_last_error(t), "mesh of 2 devices"));
    ck_assert_int_eq(rt_dlpack(t, "w", &v), STEP_OK); /* every device has all of it */
    rt_destroy(t);
    v->deleter(v);
}
END_TEST

enum { ROUNDS = 200 };

static void *drop(void *view)
{
    struct DLManagedTensorVersioned *v = view;
    v->deleter(v);
    return NULL;
}

START_TEST(last_of_two)
{ /* destroy and the end of the view at once: one of them frees */
    for (int i = 0; i < ROUNDS; i++) {
        struct step_instance *t = ready(1);
        struct DLManagedTensorVersioned *v = NULL;
        pthread_t thread;
        ck_assert_int_eq(rt_init(t) | rt_dlpack(t, "w", &v), STEP_OK);
        ck_assert_int_eq(pthread_create(&thread, NULL, drop, v), 0);
        rt_destroy(t);
        pthread_join(thread, NULL);
    }
}
END_TEST

int main(void) { return run_case("views", CASE_OF(0, in_place, split, last_of_two)); }
