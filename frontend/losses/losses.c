/* The losses in C by name: the rows of losses.def. */
#include "frontend/losses/losses.h"

static const struct fe_function rows[] = {
#define X(name, signature, make, data, flags, doc) {#name, signature, make, data, flags, NULL, NULL, doc},
#include "frontend/losses/losses.def"
#undef X
};
const struct fe_function_table fe_losses = {rows, sizeof rows / sizeof *rows, &fe_functions};
