/* Growing texts of the runtime: headers and manifests that it writes. Where memory is lacking the text says so and
 * takes no more. */
#include <stepc/step_tools.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct st_text *t, size_t more)
{
    size_t room = t->room ? t->room : 1024;
    while (room - t->length <= more) room *= 2;
    char *at = t->lacking || room == t->room ? t->at : realloc(t->at, room);
    t->lacking |= !at;
    if (!t->lacking) t->at = at, t->room = room;
    return !t->lacking;
}

bool st_fits(const struct st_text *t, size_t most)
{
    errno = t->lacking ? ENOMEM : EFBIG;
    return !t->lacking && t->length <= most;
}

void st_add(struct st_text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !make_room(t, (size_t)n)) return;
    va_start(args, format);
    vsnprintf(t->at + t->length, (size_t)n + 1, format, args);
    va_end(args);
    t->length += (size_t)n;
}

void st_add_quoted(struct st_text *t, const char *text)
{
    st_add(t, "\"");
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20) st_add(t, "\\u%04x", byte);
        else st_add(t, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    }
    st_add(t, "\"");
}

/* Digits enough to read back the same; the host's locale has no say in what stands before the fraction. */
void st_add_number(struct st_text *t, double number)
{
    char text[40], *to = text;
    if (!isfinite(number)) {
        st_add(t, isnan(number) ? "\"NaN\"" : number > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    snprintf(text, sizeof text, "%.17g", number);
    for (const char *at = text; *at; at++) {
        bool known = (*at >= '0' && *at <= '9') || *at == 'e' || *at == '-' || *at == '+';
        if (known || to == text || to[-1] != '.') *to++ = known ? *at : '.';
    }
    *to = 0;
    st_add(t, number || !signbit(number) ? "%s" : "%s.0", text); /* readers take -0 for an integer */
}
