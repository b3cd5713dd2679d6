/* Lists run directories, one per line of standard input, in a locale whose numbers have a comma. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "stepc/step_checkpoints.h"

static void print(const char *folder)
{
    struct step_checkpoint *list;
    size_t count;
    char error[256] = "";
    step_status status = step_checkpoints(folder, &list, &count, error, sizeof error);
    printf("%d %zu %s\n", status, count, error);
    for (size_t i = 0; i < count; i++) {
        const struct step_checkpoint *c = &list[i];
        printf("%llu %s [%s] %llu %d", (unsigned long long)c->step, c->path, c->time, (unsigned long long)c->bytes,
               c->complete);
        for (size_t k = 0; k < c->metric_count; k++) {
            unsigned long long bits;
            memcpy(&bits, &c->metrics[k].value, sizeof bits);
            printf(" %s=%016llx", c->metrics[k].name, bits);
        }
        puts("");
    }
    fflush(stdout);
    step_checkpoints_free(list, count);
}

int main(void)
{
    char line[4096];
    if (!setlocale(LC_NUMERIC, "comma")) return fputs("there is no locale \"comma\" in LOCPATH\n", stderr), 1;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        print(line);
    }
    return 0;
}
