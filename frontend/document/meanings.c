/* What arguments mean (meanings.def): for the reference, the schema and messages. */
#include "frontend/document/document.h"

#include <string.h>

static const struct {
    const char *owner, *argument, *text;
} rows[] = {
#define MEANING(owner, argument, text) {owner, argument, text},
#include "frontend/document/meanings.def"
#undef MEANING
};

static const char *find(const char *owner, size_t length, const char *argument)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].owner) == length && !memcmp(rows[i].owner, owner, length) &&
            !strcmp(rows[i].argument, argument))
            return rows[i].text;
    return NULL;
}

const char *fe_meaning(const char *owner, const char *common, const char *argument)
{
    const char *open = strchr(owner, '"'), *close = open ? strchr(open + 1, '"') : NULL; /* optimizer "adam" */
    const char *own = close ? find(open + 1, (size_t)(close - open - 1), argument) : NULL;
    if (!own) own = find(owner, strlen(owner), argument);
    return own ? own : find(common, strlen(common), argument);
}
