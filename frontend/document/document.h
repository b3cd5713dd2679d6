/* What the files that read the top level share. */
#ifndef FRONTEND_DOCUMENT_H
#define FRONTEND_DOCUMENT_H
#include "frontend/fe.h"

/* Checks keys, rules and names of the "sharding" object, and keeps rules and resolver in the module (sharding.c). */
bool fe_sharding_form(struct fe *, fe_json sharding);
#endif
