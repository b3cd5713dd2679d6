/* The transformations and optimizers by name: the rows of optim.def. */
#include "frontend/document/arguments.h"
#include "frontend/optim/optim.h"

#define TRANSFORM(name, arguments, doc) static const struct fe_arg name##_args[] = {arguments{0}};
#define FORMULA(name, arguments, doc) static const struct fe_arg name##_args[] = {arguments{0}};
#define ALIAS(name, chain, arguments, doc) static const struct fe_arg name##_args[] = {arguments{0}};
#include "frontend/optim/optim.def"
#undef TRANSFORM
#undef FORMULA
#undef ALIAS

static const struct optim_row rows[] = {
#define COUNT(name) sizeof name##_args / sizeof *name##_args - 1
#define TRANSFORM(name, arguments, doc) {#name, transform_##name, NULL, name##_args, COUNT(name), doc},
#define FORMULA(name, arguments, doc) {#name, optim_formula_run, NULL, name##_args, COUNT(name), doc},
#define ALIAS(name, chain, arguments, doc) {#name, NULL, chain, name##_args, COUNT(name), doc},
#include "frontend/optim/optim.def"
#undef TRANSFORM
#undef FORMULA
#undef ALIAS
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };
const struct optim_table optim_transforms = {rows, ROW_COUNT};

const struct optim_row *optim_rows(uint32_t *count)
{
    *count = ROW_COUNT;
    return rows;
}
