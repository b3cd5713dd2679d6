/* Files that tests read, whole. */
#ifndef UNIT_FILE_H
#define UNIT_FILE_H
#include "ir/base/arena.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of a file with a 0 after them; their number in *size, if it is asked. NULL if it cannot be read. */
static inline char *file_bytes(struct arena *kept, const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    size_t n = (size_t)ftell(file);
    rewind(file);
    char *bytes = arena_alloc(kept, n + 1);
    bool whole = fread(bytes, 1, n, file) == n;
    fclose(file);
    bytes[n] = 0;
    if (size) *size = n;
    return whole ? bytes : NULL;
}

/* The text of a document: a file, or what a recorded case (tests/tool/recorded.py) has as its last key, from its brace
 * to the one before the last of the file. */
static inline char *document_text(struct arena *kept, const char *path)
{
    static const char key[] = "\n\"document\": ";
    char *text = file_bytes(kept, path, NULL);
    ck_assert_msg(text != NULL, "%s", path);
    char *document = strstr(text, key);
    if (!document) return text;
    *strrchr(text, '}') = 0;
    return document + strlen(key);
}

/* Compares a text with the recorded file; with STEPC_GOLDEN_UPDATE=1 in the environment writes the file. */
static inline void golden_text(struct arena *kept, const char *path, const char *text)
{
    if (getenv("STEPC_GOLDEN_UPDATE")) {
        FILE *file = fopen(path, "w");
        ck_assert_msg(file != NULL, "%s cannot be opened", path);
        fputs(text, file);
        fclose(file);
    }
    const char *expected = file_bytes(kept, path, NULL);
    ck_assert_msg(expected != NULL, "%s: no file", path);
    size_t line = 0; /* the first that differs; check takes no long message */
    for (size_t i = 0; expected[i] && expected[i] == text[i]; i++)
        if (expected[i] == '\n') line = i + 1;
    ck_assert_msg(strcmp(expected, text) == 0, "%s: expected\n%.1500s\nfound\n%.1500s", path, expected + line,
                  text + line);
}
#endif
