/* A host as somebody else would write it: trains the step `game`, whose path and names its build brings, and says the
 * losses. */
#include <stdio.h>
#include <stepc/step_open.h>
#ifdef GAME_STEP
#include "game.h" /* written beside the object */
enum { PARAMETERS = GAME_PARAM_COUNT };
#endif

int main(int argc, char **argv)
{
    const struct step_api *s;
    char error[512];
#ifdef GAME_STEP
    const char *path = argc > 1 ? argv[1] : GAME_STEP;
#else
    const char *path = argc > 1 ? argv[1] : "";
#endif
    if (step_open(path, &s, error, sizeof error)) return fprintf(stderr, "%s\n", error), 1;
    struct step_options options = {.size = sizeof options};
    struct step_instance *t;
    if (s->create(&options, &t) || s->init(t)) return fprintf(stderr, "%s\n", s->last_error(NULL)), 1;
    float x[8 * 4], y[8 * 3];
    for (int i = 0; i < 32; i++) x[i] = (float)(i * 37 % 64) / 32 - 1;
    for (int i = 0; i < 24; i++) y[i] = x[i] * x[i + 1];
    const int64_t xs[] = {8, 4}, ys[] = {8, 3};
    struct step_array in[] = {
        {.size = sizeof in[0], .name = "x", .data = x, .dtype = STEP_F32, .rank = 2, .shape = xs},
        {.size = sizeof in[0], .name = "y", .data = y, .dtype = STEP_F32, .rank = 2, .shape = ys}};
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = 2};
    struct step_result r = {.size = sizeof r};
    for (int i = 0; i < 50; i++) {
        if (s->step(t, &batch, &r)) return fprintf(stderr, "%s\n", s->last_error(t)), 1;
        if (i % 49 == 0) printf("%.6g\n", r.loss);
    }
    s->destroy(t);
    return 0;
}
