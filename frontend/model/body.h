/* Bodies of loops: a function that is traced in place, so that it may use anything around it, and then moved (body.c);
 * loops over time (walk.c). */
#ifndef FRONTEND_BODY_H
#define FRONTEND_BODY_H
#include "frontend/expr/values.h"

struct fe_body {
    struct fe *fe;
    struct ir_func *from;
    struct ir_builder b;    /* of the new function */
    ir_value first;         /* stand-ins and what depends on them are values from here on */
    bool *inside;           /* per value: depends on a stand-in */
    ir_value *map;          /* per value: in the new function; 0 = not there yet */
    VEC(ir_value) captured; /* what it uses from around it, constants aside: parameters after those for stand-ins */
};

/* n values that nothing else computes, to trace with: they stand for what each turn of the loop is given. */
void fe_stand_ins(struct fe *, struct ir_builder *, const struct ir_type *, uint32_t n, ir_value *out);

/* After tracing: the new function; a parameter for every stand-in, in this order; the results and all that they need.
 */
void fe_body_begin(struct fe_body *, struct fe *, struct ir_func *from, const char *name, ir_value first);
void fe_body_param(struct fe_body *, ir_value stand_in);
void fe_body_end(struct fe_body *, const ir_value *results, uint32_t n);

/* One time: the carries become the next ones. Bad values: an error was recorded. */
typedef void fe_walk_step(void *user, struct fe_val *carry, const struct fe_val *rows);

enum { FE_MAX_CARRIES = 2, FE_MAX_ROWS = 4 };
struct fe_walk {
    struct fe_site *site;
    int64_t times;
    bool backwards; /* the last row first */
    uint32_t carries, row_count;
    struct fe_val carry[FE_MAX_CARRIES]; /* the first ones, then the last */
    struct fe_val rows[FE_MAX_ROWS];     /* [times, ..] */
    struct fe_val all[FE_MAX_CARRIES];   /* out: the carries after every time, [times, ..], where the row stands */
};
/* Walks through time: a loop, or, for few times, one after the other. False: an error was recorded. */
bool fe_walk(struct fe_walk *, fe_walk_step *, void *user);
#endif
