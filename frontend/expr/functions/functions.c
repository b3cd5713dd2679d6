/* The functions in C by name: the rows of functions.def. */
#include "frontend/expr/makers.h"

static const struct fe_function rows[] = {
#define X(name, signature, make, data, flags, doc) {#name, signature, make, data, flags, NULL, NULL, doc},
#include "frontend/expr/functions.def"
#undef X
};
const struct fe_function_table fe_functions = {rows, sizeof rows / sizeof *rows, NULL};
