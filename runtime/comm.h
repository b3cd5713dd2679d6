/* How devices of a mesh work together, in one process or in several (ranks, each with an equal run of the devices in
 * mesh order). One row per transport; README.md says how to add one. Only objects with collectives carry them
 * (program->mesh, comm.c); a mesh of one process without collectives needs none.
 *
 * No entry may wait longer than step_instance.timeout_ns (0: for ever). Who is late or gone is named by rt_give_up,
 * and the call in progress ends with STEP_ETIMEOUT or STEP_EPEER. A NULL entry means: nothing to do. */
#ifndef RUNTIME_COMM_H
#define RUNTIME_COMM_H
#include <stdbool.h>
#include <stepc/step.h>
#include <stepc/step_abi.h>

struct rt_device;
struct rt_worker;

struct rt_comm_ops {
    char name[8]; /* of step_options.transport */
    /* Joins the ranks by the communicator of step_options (NULL: makes one): sets `rank` and `ranks`, and `peers` to
     * what the row needs. Failure: rt_fail(NULL, ..) was called and nothing is open. NULL: one process, which takes no
     * communicator. */
    step_status (*open)(struct step_instance *, const void *communicator, uint32_t *rank, uint32_t *ranks);
    /* Groups for the collectives of all entries, once devices and workers are there. False: rt_fail was called. */
    bool (*plan)(struct step_instance *);
    /* Called by every worker of every device, for collectives in the same order, one at a time; the first time with
     * `flight` of the worker cleared, which says how far it is. Goes on as far as it can without waiting, or, with
     * `wait`, to the end. 1: it has ended for all, 0: not yet, -1: rt_give_up was called. What may not begin before
     * everything waits for it returns 0 until it may wait. */
    int (*advance)(struct rt_worker *, const struct stepc_command *, bool wait);
    /* Called by whoever waits for a device, for so long by now: false: that was in vain, rt_give_up was called, and
     * what the device still does for a collective ends. NULL: a device can be waited for. */
    bool (*watch)(struct rt_device *, uint64_t waited_ns);
    /* Of the caller's thread of every rank, in the same order. All come with a status and leave with the largest; of
     * another rank's rt_fail was called. `call`: what is about to happen, alike on all ranks, or all leave with
     * STEP_EPEER. */
    step_status (*meet)(struct step_instance *, step_status, uint64_t call);
    /* Host data: the `bytes` of every rank, rank after rank, to all of them; and from the first, each its own. `what`
     * it is: what one rank sends is not taken for something else. */
    step_status (*gather)(struct step_instance *, uint32_t what, const void *mine, size_t bytes, void *all);
    step_status (*scatter)(struct step_instance *, uint32_t what, const void *all, size_t bytes, void *mine);
    void (*reset)(struct step_instance *); /* after a failed call, once every worker is back */
    void (*abort)(struct step_instance *); /* ends the other ranks; may not return */
    void (*close)(struct step_instance *);
};
#endif
