/* A pull scanner for the little JSON that the runtime reads (headers of safetensors files, manifests, lists of
 * patterns), as strict as RFC 8259: valid UTF-8, no raw control characters, no lone surrogates, no leading zeros. It
 * needs no memory: strings are unescaped where they stand. The whole reader of the compiler would be a sixth of an
 * object. */
#ifndef RUNTIME_SCAN_H
#define RUNTIME_SCAN_H
#include <stdbool.h>
#include <stdint.h>

struct rt_scan {
    char *at, *end;    /* `end` must be writable: strings are terminated in place */
    const char *fault; /* NULL: none yet; `at` is its place */
    bool first;        /* nothing was read in the innermost object or list */
};

bool scan_open(struct rt_scan *, char bracket); /* '{' or '[' */
/* Whether another member follows; after the closing bracket or on a fault: false. */
bool scan_more(struct rt_scan *, char bracket);
char *scan_string(struct rt_scan *);           /* NULL: fault */
char *scan_key(struct rt_scan *);              /* a string and its colon */
bool scan_whole(struct rt_scan *, uint64_t *); /* a whole number in [0, 2^53) */
/* A number, or "NaN", "Infinity", "-Infinity"; to 13 digits or more. */
bool scan_number(struct rt_scan *, double *);
bool scan_skip(struct rt_scan *, int depth); /* any value, in so many brackets at most */
bool scan_end(struct rt_scan *);             /* nothing but space is left */
#endif
