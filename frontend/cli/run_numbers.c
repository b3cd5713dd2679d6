/* Numbers of a file as the input's: NumPy makes 64-bit ones of most things, token files have 16 bits. Integers become
 * integers of another width where their values fit, floats of another width are rounded; a value that would be
 * another one is an error that names its place. Nothing becomes another kind of number. */
#include "frontend/cli/run_numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 4096 }; /* numbers at once */

bool run_numbers_fit(uint32_t from, uint32_t to)
{
    enum ir_dtype have = ir_dtype_of_abi(from), want = ir_dtype_of_abi(to);
    size_t narrow = ir_dtype_bytes(have) < ir_dtype_bytes(want) ? ir_dtype_bytes(have) : ir_dtype_bytes(want);
    if (from == to) return true;
    if (ir_dtype_is_integer(have) && ir_dtype_is_integer(want)) return narrow <= 4; /* a double holds what may fit */
    return ir_dtype_is_float(have) && ir_dtype_is_float(want) && ir_dtype_bytes(want) >= 4;
}

static bool holds(enum ir_dtype dtype, double value)
{
    if (ir_dtype_is_float(dtype)) return !isfinite(value) || isfinite(ir_element_round(dtype, value));
    return value >= ir_dtype_least(dtype) && value <= ir_dtype_greatest(dtype);
}

static int refuse(const struct run_tensor *t, uint64_t index, double value, char error[ST_TEXT])
{
    char place[ST_TEXT / 4] = "";
    for (int32_t i = t->tensor->rank - 1; i >= 0; i--) {
        uint64_t extent = (uint64_t)t->tensor->shape[i];
        char rest[sizeof place];
        memcpy(rest, place, sizeof place);
        snprintf(place, sizeof place, "%llu%s%.*s", (unsigned long long)(index % extent), *rest ? ", " : "",
                 (int)sizeof place - 32, rest);
        index /= extent;
    }
    snprintf(error, ST_TEXT, "%s: tensor \"%s\": element [%s] is %.17g, which %s cannot hold", t->file->path,
             t->tensor->name, place, value, ir_dtype_name(ir_dtype_of_abi(t->dtype)));
    return EXIT_WRONG;
}

int run_numbers_read(const struct run_tensor *t, uint64_t offset, void *to, uint64_t bytes, char error[ST_TEXT])
{
    enum ir_dtype have = ir_dtype_of_abi(t->tensor->dtype), want = ir_dtype_of_abi(t->dtype);
    size_t stored = ir_dtype_bytes(have), size = ir_dtype_bytes(want);
    if (t->tensor->dtype == t->dtype)
        return st_read(t->file, t->tensor, offset, to, bytes, error) ? EXIT_ENVIRONMENT : 0;
    double room[BLOCK]; /* of the widest numbers */
    for (uint64_t at = offset / size, end = (offset + bytes) / size, n; at < end; at += n) {
        n = end - at < BLOCK ? end - at : BLOCK;
        if (st_read(t->file, t->tensor, at * stored, room, n * stored, error)) return EXIT_ENVIRONMENT;
        for (uint64_t i = 0; i < n; i++) {
            double value = ir_element_get(have, room, i);
            if (!holds(want, value)) return refuse(t, at + i, value, error);
            ir_element_set(want, to, at - offset / size + i, value);
        }
    }
    return 0;
}

step_status run_number_set(enum ir_dtype dtype, void *to, uint64_t i, double x, const char *name, char error[ST_TEXT])
{
    ir_element_set(dtype, to, i, x);
    if (!isfinite(x) || isfinite(ir_element_get(dtype, to, i))) return STEP_OK;
    snprintf(error, ST_TEXT, "\"%s\": %g does not fit into %s", name, x, ir_dtype_name(dtype));
    return STEP_ERANGE;
}
