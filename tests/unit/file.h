/* Files that tests read, whole. */
#ifndef UNIT_FILE_H
#define UNIT_FILE_H
#include "ir/base/arena.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* The bytes of a file with a 0 after them; their number in *size, if it is asked. NULL if there is no such file. */
static inline char *file_bytes(struct arena *arena, const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    ck_assert_msg(fseek(file, 0, SEEK_END) == 0, "%s", path);
    size_t n = (size_t)ftell(file);
    rewind(file);
    char *bytes = arena_alloc(arena, n + 1);
    ck_assert_msg(fread(bytes, 1, n, file) == n, "%s", path);
    fclose(file);
    bytes[n] = 0;
    if (size) *size = n;
    return bytes;
}

/* The text of a document: a file, or what a recorded case (tests/tool/recorded.py) has as its last key, from its brace
 * to the one before the last of the file. */
static inline char *document_text(struct arena *arena, const char *path)
{
    static const char key[] = "\n\"document\": ";
    char *text = file_bytes(arena, path, NULL);
    ck_assert_msg(text != NULL, "%s", path);
    char *document = strstr(text, key);
    if (!document) return text;
    *strrchr(text, '}') = 0;
    return document + strlen(key);
}
#endif
