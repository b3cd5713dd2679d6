/* precompile HEADER INTO: HEADER as the host's compiler keeps it for the next time. Without such a compiler, or if it
 * fails, INTO is empty, and no compiler takes it. */
#include "host_compiler.h"

int main(int count, char **arguments)
{
    if (count != 3) return 2;
    if (host_precompile(arguments[1], arguments[2]) == 0) return 0;
    FILE *empty = fopen(arguments[2], "w");
    return !empty || fclose(empty) != 0;
}
