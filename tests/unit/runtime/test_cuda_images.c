/* Which code of an object a CUDA device is given: the best of what runs on it, by its name alone. */
#include "runtime/cuda_driver.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 3 };

static int capability; /* of the device: 10 * major + minor */

static int device(int *to, int ordinal) { return *to = ordinal, 0; }
static int attribute(int *to, int which, int of)
{
    (void)of;
    return *to = which == 75 ? capability / 10 : capability % 10, 0; /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
}
static int name(char *to, int size, int of) { return (void)of, snprintf(to, (size_t)size, "card"), 0; }

static const struct {
    int capability;
    const char *archs[MOST], *taken; /* NULL: none */
} cases[] = {
    {80, {"sm_80"}, "sm_80"},
    {86, {"sm_80"}, "sm_80"},
    {86, {"sm_80", "sm_86"}, "sm_86"},
    {80, {"sm_86"}, NULL},
    {90, {"sm_80"}, NULL},
    {90, {"sm_80", "compute_80"}, "compute_80"},
    {90, {"sm_90", "sm_90a"}, "sm_90a"},
    {90, {"compute_90a", "compute_80"}, "compute_90a"},
    {100, {"sm_90a", "compute_90a"}, NULL},
    {103, {"sm_100a"}, NULL},
    {103, {"sm_100f"}, "sm_100f"},
    {87, {"sm_80"}, NULL},
    {90, {"text"}, "text"},
    {90, {"text_90a"}, "text_90a"},
    {80, {"text", "sm_80"}, "sm_80"},
    {90, {"textual"}, NULL},
    {90, {"text_80"}, NULL},
    {90, {"tex"}, NULL},
    {90, {""}, NULL},
};

START_TEST(test_taken)
{
    const struct rt_cuda_driver driver = {.device = device, .attribute = attribute, .device_name = name};
    struct stepc_cuda_image images[MOST];
    struct stepc_cuda cuda = {.images = images};
    memset(images, 0, sizeof images);
    capability = cases[_i].capability;
    while (cuda.image_count < MOST && cases[_i].archs[cuda.image_count]) {
        images[cuda.image_count].arch = cases[_i].archs[cuda.image_count];
        cuda.image_count++;
    }
    const struct stepc_cuda_image *taken = rt_cuda_image(&driver, &cuda, 0);
    ck_assert_msg(taken ? cases[_i].taken && strcmp(taken->arch, cases[_i].taken) == 0 : !cases[_i].taken,
                  "a device of capability %d takes %s, expected %s", capability, taken ? taken->arch : "nothing",
                  cases[_i].taken ? cases[_i].taken : "nothing");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("images");
    tcase_add_loop_test(tests, test_taken, 0, sizeof cases / sizeof *cases);
    return run_case("cuda images", tests);
}
