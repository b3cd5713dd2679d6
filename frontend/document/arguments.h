/* Short forms for the argument rows of the tables of schedules and optimizers: each is one struct fe_arg. */
#ifndef FRONTEND_ARGUMENTS_H
#define FRONTEND_ARGUMENTS_H
#include "frontend/document/document.h"

#define ARG(name, kind, flags, preset, choices) {#name, kind, flags, preset, choices},
#define NUMBER(name, preset) ARG(name, FE_NUMBER, 0, preset, NULL)
#define NUMBER_REQUIRED(name) ARG(name, FE_NUMBER, FE_REQUIRED, NULL, NULL)
#define NUMBER_OR_NULL(name) ARG(name, FE_NUMBER, FE_NULLABLE, "null", NULL)
#define NUMBER_OR_NULL_IS(name, preset) ARG(name, FE_NUMBER, FE_NULLABLE, preset, NULL)
#define INTEGER(name, preset) ARG(name, FE_INTEGER, 0, preset, NULL)
#define SEED(name, preset) ARG(name, FE_INTEGER, FE_SEED, preset, NULL)
#define SEED_OR_NULL(name) ARG(name, FE_INTEGER, FE_SEED | FE_NULLABLE, "null", NULL)
#define COUNT_REQUIRED(name) ARG(name, FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL)
/* With ranges. FRACTION: [0, 1], 1 - x of something is mixed in; BETA: [0, 1), where 1 divides by zero or stands still.
 */
#define POSITIVE(name, preset) ARG(name, FE_NUMBER, FE_POSITIVE, preset, NULL)
#define POSITIVE_REQUIRED(name) ARG(name, FE_NUMBER, FE_REQUIRED | FE_POSITIVE, NULL, NULL)
#define POSITIVE_OR_NULL(name) ARG(name, FE_NUMBER, FE_NULLABLE | FE_POSITIVE, "null", NULL)
#define NOT_NEGATIVE(name, preset) ARG(name, FE_NUMBER, FE_NOT_NEGATIVE, preset, NULL)
#define NOT_NEGATIVE_REQUIRED(name) ARG(name, FE_NUMBER, FE_REQUIRED | FE_NOT_NEGATIVE, NULL, NULL)
#define NOT_NEGATIVE_OR_NULL(name) ARG(name, FE_NUMBER, FE_NULLABLE | FE_NOT_NEGATIVE, "null", NULL)
#define FRACTION(name, preset) ARG(name, FE_NUMBER, FE_UNIT_CLOSED, preset, NULL)
#define FRACTION_REQUIRED(name) ARG(name, FE_NUMBER, FE_REQUIRED | FE_UNIT_CLOSED, NULL, NULL)
#define FRACTION_OR_NULL(name) ARG(name, FE_NUMBER, FE_NULLABLE | FE_UNIT_CLOSED, "null", NULL)
#define BETA(name, preset) ARG(name, FE_NUMBER, FE_UNIT, preset, NULL)
#define BETA_OR_NULL(name) ARG(name, FE_NUMBER, FE_NULLABLE | FE_UNIT, "null", NULL)
#define STEPS(name, preset) ARG(name, FE_INTEGER, FE_NOT_NEGATIVE, preset, NULL)
#define STEPS_REQUIRED(name) ARG(name, FE_INTEGER, FE_REQUIRED | FE_NOT_NEGATIVE, NULL, NULL)
#define AT_LEAST_ONE(name, preset) ARG(name, FE_INTEGER, FE_POSITIVE, preset, NULL)
#define WEIGHT_DECAY(name, preset) ARG(name, FE_SCHEDULE, FE_NOT_NEGATIVE, preset, NULL)
#define WEIGHT_DECAY_OR_NULL(name) ARG(name, FE_SCHEDULE, FE_NULLABLE | FE_NOT_NEGATIVE, "null", NULL)
#define FLAG(name, preset) ARG(name, FE_BOOL, 0, preset, NULL)
#define CHOICE(name, preset, choices) ARG(name, FE_ENUM, 0, preset, choices)
#define RATE(name) ARG(name, FE_SCHEDULE, FE_REQUIRED, NULL, NULL)
#define RATE_OR_NULL(name) ARG(name, FE_SCHEDULE, FE_NULLABLE, "null", NULL)
#define SCHEDULED(name, preset) ARG(name, FE_SCHEDULE, 0, preset, NULL)
#define DTYPE_OR_NULL(name) ARG(name, FE_DTYPE, FE_NULLABLE, "null", NULL)
#define DTYPE(name, preset) ARG(name, FE_DTYPE, 0, preset, NULL)
#define MASK(name) ARG(name, FE_PATTERNS, FE_NULLABLE, "null", NULL)
#define OBJECT_REQUIRED(name) ARG(name, FE_OBJECT, FE_REQUIRED, NULL, NULL)
#define LIST_REQUIRED(name) ARG(name, FE_LIST, FE_REQUIRED, NULL, NULL)
#define MAP_REQUIRED(name) ARG(name, FE_MAP, FE_REQUIRED, NULL, NULL)
#endif
