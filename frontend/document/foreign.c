/* Words of other libraries, and what is written here instead (foreign.def). */
#include "frontend/document/document.h"

#include <string.h>

static const struct {
    const char *scope, *words, *here;
} rows[] = {
#define X(scope, words, here) {scope, words, here},
#include "frontend/document/foreign.def"
#undef X
};

static bool among(const char *words, const char *word)
{
    for (char one[64]; *words;) {
        size_t n = strcspn(words, ",");
        if (n < sizeof one) {
            memcpy(one, words, n);
            one[n] = 0;
            if (str_same_name(one, word)) return true;
        }
        words += n + strspn(words + n, ", ");
    }
    return false;
}

const char *fe_foreign(const char *scope, const char *word)
{
    const char *dot = strrchr(word, '.');
    if (dot && dot[1]) word = dot + 1; /* torch.nn.Flatten */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((!*rows[i].scope || !strcmp(rows[i].scope, scope)) && among(rows[i].words, word)) return rows[i].here;
    return NULL;
}

bool fe_foreign_row(uint32_t index, const char **scope, const char **words, const char **here)
{
    if (index >= sizeof rows / sizeof *rows) return false;
    *scope = rows[index].scope, *words = rows[index].words, *here = rows[index].here;
    return true;
}
