/* The loss of a document (loss_object.c). The functions that are losses are rows of losses.def. */
#ifndef FRONTEND_LOSSES_H
#define FRONTEND_LOSSES_H
#include "frontend/model/model.h"

/* Computes the loss after fe_trace_model: sets trace->loss and gives expressions its name. False: errors. */
bool fe_trace_loss(struct fe *, struct fe_trace *);
#endif
