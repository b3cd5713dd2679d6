/* precompile HEADER FOLDER: HEADER as the host's compiler keeps it for the next time, at each of its levels. Without
 * such a compiler, or if it fails, the folder stays empty, and the text is read. */
#include "host_compiler.h"

int main(int count, char **arguments)
{
    if (count != 3) return 2;
    if (host_precompile(arguments[1], arguments[2]) != 0) printf("%s is not precompiled\n", arguments[1]);
    return 0;
}
