/* Errors: a status plus a text that says what was asked, what was found and where. The text is kept per thread (a
 * query, and who waits for its turn, must not write into the instance) and, when a call ends, per instance. The
 * thread's record hangs from a pthread key and not from a _Thread_local variable, which would add the dynamic linker to
 * the needed libraries of every object. */
#include "runtime/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct rt_record {
    const struct step_instance *instance;
    char text[RT_TEXT];
};

/* The only mutable globals of the runtime: a key is process-wide by nature. */
static pthread_mutex_t record_lock = PTHREAD_MUTEX_INITIALIZER; /* not pthread_once: one import less */
static pthread_key_t record_key;
static bool record_ready;

static struct rt_record *record_of_thread(bool make)
{
    pthread_mutex_lock(&record_lock);
    if (!record_ready) record_ready = pthread_key_create(&record_key, free) == 0;
    bool ready = record_ready;
    pthread_mutex_unlock(&record_lock);
    if (!ready) return NULL;
    struct rt_record *r = pthread_getspecific(record_key);
    if (r || !make || !(r = malloc(sizeof *r))) return r;
    r->instance = NULL;
    *r->text = 0;
    if (!pthread_setspecific(record_key, r)) return r;
    free(r);
    return NULL;
}

/* One after another: columns of one width cut the longest, and pointers would cost relocations. */
static const char status_names[] =
    "STEP_OK\0STEP_EINVAL\0STEP_ENOTFOUND\0STEP_ESHAPE\0STEP_ERANGE\0STEP_ENOMEM\0STEP_EIO\0STEP_ECORRUPT\0STEP_"
    "EVERSION\0"
    "STEP_EDEVICE\0STEP_EPEER\0STEP_ETIMEOUT\0STEP_ENONFINITE\0STEP_ECANCELLED\0STEP_EBUSY\0STEP_EUNSUPPORTED\0"
    "STEP_EPOISONED\0STEP_EINTERNAL";

const char *rt_status_name(step_status status)
{
    const char *name = status_names;
    if ((uint32_t)status > STEP_EINTERNAL) return "unknown status";
    while (status-- > 0) name += strlen(name) + 1;
    return name;
}

step_status rt_fail(const struct step_instance *instance, step_status status, const char *format, ...)
{
    struct rt_record *r = record_of_thread(true);
    if (!r) return status;
    int n = snprintf(r->text, sizeof r->text, "%s: ", rt_status_name(status));
    va_list args;
    va_start(args, format);
    if (n > 0 && (size_t)n < sizeof r->text) vsnprintf(r->text + n, sizeof r->text - (size_t)n, format, args);
    va_end(args);
    r->instance = instance;
    return status;
}

void rt_failed(struct step_instance *instance, step_status status)
{
    const struct rt_record *r = record_of_thread(false);
    bool told = r && r->instance == instance;
    snprintf(instance->text, sizeof instance->text, "%s", told ? r->text : rt_status_name(status));
}

void rt_give_up(struct step_instance *t, step_status status, const char *format, ...)
{
    int expected = 0;
    if (!atomic_compare_exchange_strong(&t->failed, &expected, RT_REPORTING)) return;
    va_list args;
    va_start(args, format);
    vsnprintf(t->failure, sizeof t->failure, format, args);
    va_end(args);
    atomic_store(&t->failed, status);
}

const char *rt_last_error(const struct step_instance *instance)
{
    const struct rt_record *r = record_of_thread(false);
    if (!instance) return r ? r->text : "";
    return r && r->instance == instance ? r->text : instance->text;
}

const char rt_log_levels[4][8] = {"error", "warning", "info", "debug"};

void rt_log(struct step_instance *instance, int level, const char *format, ...)
{
    if (level > instance->log_level) return;
    char line[RT_TEXT];
    uint64_t ms = (rt_now() - instance->created_ns) / 1000000; /* whole numbers: the host's locale has no say */
    int n = snprintf(line, sizeof line, "[%4llu.%03u] stepc %s: ", (unsigned long long)(ms / 1000),
                     (unsigned)(ms % 1000), rt_log_levels[level]);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    if (instance->host.log) {
        instance->host.log(instance->host.user, level, line);
        return;
    }
    size_t length = strlen(line);
    line[length] = '\n';
    ssize_t written = write(2, line, length + 1);
    (void)written; /* nothing can be done about a log that is closed */
}

uint64_t rt_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
