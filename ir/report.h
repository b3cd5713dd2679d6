/* Parts of the report that have a file of their own. */
#ifndef IR_REPORT_H
#define IR_REPORT_H
#include "ir/plan.h"

/* What the update of the state moves through memory in one step, and the least it could. `times`: how often each
 * command runs. False: the entry has no update. */
struct report_update {
    uint64_t bytes, least; /* of one device and step */
    uint64_t parameters;   /* elements that are trained */
    uint32_t kernels;
};
bool ir_report_update(const struct plan *, const double *times, struct arena *, struct report_update *);
#endif
