/* The loss of a document (loss_object.c). The functions that are losses are rows of losses.def. */
#ifndef FRONTEND_LOSSES_H
#define FRONTEND_LOSSES_H
#include "frontend/model/model.h"

#define X(name, signature, make, data, flags, doc) fe_maker make;
#include "frontend/losses/losses.def"
#undef X
extern const struct fe_function_table fe_losses; /* all functions in C: the losses, and those of expr/functions/ */

/* Computes the loss after fe_trace_model: sets trace->loss and gives expressions its name. False: errors. */
bool fe_trace_loss(struct fe *, struct fe_trace *);
#endif
