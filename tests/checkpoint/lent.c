/* Loaded before the C library: what writes many bytes waits STEPC_TEST_WRITE_MS first, as on a slow disk. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

ssize_t write(int fd, const void *data, size_t bytes)
{
    const char *ms = getenv("STEPC_TEST_WRITE_MS");
    if (bytes > 1 << 15 && ms) nanosleep(&(struct timespec){0, atol(ms) * 1000000}, NULL);
    return syscall(SYS_write, fd, data, bytes);
}
