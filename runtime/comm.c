/* Meshes that collectives run over: the transports, and what several processes do together. Each holds an equal run of
 * the devices in mesh order. A tensor of the host is whole on every rank, or this rank's part of it alone. */
#include "runtime/comm_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stepc/step_tools.h>

static step_status join(struct step_instance *t, const void *communicator)
{
    uint32_t rank = 0, ranks = 1;
    const struct rt_comm_ops *comm = t->comm;
    t->comm = NULL; /* nothing to close yet */
    step_status status = comm->open(t, communicator, &rank, &ranks);
    if (status) return status;
    t->comm = comm;
    if (t->mesh_count % ranks) /* every rank sees that: nobody waits for another */
        return rt_fail(NULL, STEP_EDEVICE,
                       "a mesh of %u devices cannot be split evenly over %u processes: start as many as "
                       "divide %u, or compile --mesh for a multiple of %u",
                       t->mesh_count, ranks, t->mesh_count, ranks);
    t->rank = rank;
    t->ranks = ranks;
    t->local_count = t->mesh_count / ranks;
    t->first_local = t->local_count * rank;
    return STEP_OK;
}

/* Hyper-parameters are numbers of every rank, and parameters that all hold go apart where they differ. */
static uint32_t hypers(const struct step_instance *t)
{
    uint32_t sum = 0;
    for (const struct stepc_slot *s = t->program->slots; s < t->program->slots + t->program->slot_count; s++) {
        double x = s->role == RT_HYPER ? rt_hyper_load(t, s) : 0;
        if (s->role == RT_HYPER) sum = st_crc32(sum, &x, sizeof x);
    }
    return sum;
}

static step_status agree(struct step_instance *t, step_status mine, uint64_t call)
{
    if (call && !mine) call += (uint64_t)hypers(t) << 32;
    step_status worst = t->comm->meet(t, mine, call);
    return mine ? mine : worst;
}

static step_status largest(struct step_instance *t, uint64_t *number)
{
    uint64_t *all = malloc(t->ranks * sizeof *all);
    if (!all) return rt_fail(t, STEP_ENOMEM, "no memory to hear %u ranks", t->ranks);
    step_status status = t->comm->gather(t, RT_NUMBER, number, sizeof *number, all);
    for (uint32_t k = 0; !status && k < t->ranks; k++)
        if (all[k] > *number) *number = all[k];
    free(all);
    return status;
}

static step_status first(struct step_instance *t, step_status mine, uint64_t *number)
{
    step_status status = agree(t, mine, 0);
    if (t->rank) *number = 0;
    return status ? status : largest(t, number);
}

/* A checksum of tensors, and of their checksums. */
static uint32_t contents(const struct st_file *f, const struct st_checkpoint *c)
{
    size_t digits = f->step ? strspn(f->step, "0123456789") : 0;
    uint32_t sum = st_crc32(0, f->step, digits);
    for (const struct st_tensor *s = f->tensors; s < f->tensors + f->count; s++) {
        sum = st_crc32(st_crc32(sum, s->name, strlen(s->name) + 1), &s->dtype, sizeof s->dtype);
        sum = st_crc32(sum, s->shape, (size_t)s->rank * sizeof *s->shape);
    }
    for (uint32_t i = 0; c && i < c->piece_count; i++)
        sum = st_crc32(sum, c->pieces[i].hash, strlen(c->pieces[i].hash));
    return sum;
}

static step_status opened(struct step_instance *t, step_status mine, const struct st_file *f,
                          const struct st_checkpoint *c)
{
    char text[RT_TEXT / 2];
    step_status status = agree(t, t->rank ? STEP_OK : mine, 0);
    if (status) return status;
    uint64_t sum = mine ? 0 : contents(f, c), firsts = sum;
    if ((status = first(t, STEP_OK, &firsts))) return status;
    if (mine) {
        snprintf(text, sizeof text, "%s", rt_last_error(t));
        status = rt_fail(t, STEP_EIO, "rank 0 can read it, this one not: %s", text);
    } else if (sum != firsts)
        status = rt_fail(t, STEP_EIO, "load: %s is not what rank 0 has there: all ranks have to see the same files",
                         f->path);
    return agree(t, status, 0);
}

/* Part after part: the first device of every rank, then the second. */
static void exchange(struct step_instance *t, const struct stepc_slot *s, char *whole, const int64_t *stride,
                     enum rt_direction direction)
{
    size_t bytes = rt_slot_bytes(s, true);
    char *all = malloc(bytes * (t->ranks + 1) + 1), *mine = all + bytes * t->ranks;
    if (!all) {
        rt_give_up(t, STEP_ENOMEM, "no memory for %u parts of tensor \"%s\"", t->ranks + 1, s->name);
        return;
    }
    bool gather = direction == RT_FROM_DEVICE;
    uint32_t what = RT_SLOT + (uint32_t)(s - t->program->slots);
    if (!gather && t->rank) whole = NULL;
    step_status status = STEP_OK;
    for (RT_MINE(t, d)) {
        if (status) break;
        if (gather) {
            t->device_ops->copy(d, mine, rt_slot_address(d, s), bytes, direction);
            status = t->comm->gather(t, what, mine, bytes, all);
        }
        for (uint32_t rank = 0; !status && whole && rank < t->ranks; rank++) {
            uint32_t device = rank * t->local_count + (uint32_t)(d - t->devices);
            if (!gather || rt_shard_owner(t, device, s))
                rt_shard_copy(t, device, s, NULL, all + rank * bytes, whole, stride, direction);
        }
        if (!gather) {
            status = t->comm->scatter(t, what, all, bytes, mine);
            if (!status) t->device_ops->copy(d, rt_slot_address(d, s), mine, bytes, direction);
        }
    }
    free(all);
}

static bool part(const struct step_instance *t, const struct stepc_slot *s, const int64_t *shape, int64_t *start,
                 int64_t *extent)
{
    int64_t from[RT_MAX_RANK], many[RT_MAX_RANK];
    bool some = false, same = true;
    for (RT_MINE(t, d)) {
        if (!rt_shard(t, d->index, s, from, many)) continue;
        for (int32_t i = 0; i < s->rank; i++) {
            int64_t end = some && start[i] + extent[i] > from[i] + many[i] ? start[i] + extent[i] : from[i] + many[i];
            if (!some || from[i] < start[i]) start[i] = from[i];
            extent[i] = end - start[i];
        }
        some = true;
    }
    for (int32_t i = 0; i < s->rank; i++) {
        if (!some) start[i] = 0, extent[i] = many[i] > 0 ? many[i] : 0; /* all that there is lies on other ranks */
        same &= !shape || shape[i] == extent[i];
    }
    return same;
}

static void part_text(const struct step_instance *t, const struct stepc_slot *s, uint64_t lead, char *text)
{
    int64_t start[RT_MAX_RANK], extent[RT_MAX_RANK + 1] = {(int64_t)lead};
    if (!rt_slot_sharded(s)) return;
    part(t, s, NULL, start, extent + (lead != 0));
    text = stpcpy(text + strlen(text), ", or of this rank ");
    rt_type_text(text, 180, s->dtype, s->rank + (lead != 0), extent);
}

static step_status same(struct step_instance *t, step_status mine, const struct stepc_slot *s,
                        const struct step_array *a, const int64_t *stride, bool write)
{
    int64_t start[RT_MAX_RANK], extent[RT_MAX_RANK];
    bool whole = a->rank == s->rank && (a->shape || !a->rank), own = false;
    if (whole && !rt_whole(s, a->shape)) whole = false, own = part(t, s, a->shape, start, extent);
    if (!s->computed && (own || !(write || rt_slot_sharded(s)))) return mine; /* nobody else takes part */
    bool dense = write && whole && !mine && rt_dense(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
    uint64_t sum = dense ? st_crc32(0, a->data, rt_slot_bytes(s, false)) : 0;
    step_status worst = t->comm->meet(t, mine,
                                      (uint64_t)write << 63 | (uint64_t)(s - t->program->slots + 1) << 32 | sum);
    return mine ? mine : worst;
}

static const struct rt_comm_ops *const rows[] = {&rt_comm_thread, &rt_comm_mpi, NULL};
const struct stepc_mesh stepc_part_mesh = {rows,     join, agree,     largest, first,        opened,
                                           exchange, part, part_text, same,    rt_comm_go_on};
static const struct rt_comm_ops *const staged_rows[] = {&rt_comm_peers, &rt_comm_mpi, &rt_comm_nccl, NULL};
const struct stepc_mesh stepc_part_mesh_staged = {staged_rows, join, agree,     largest, first,        opened,
                                                  exchange,    part, part_text, same,    rt_comm_go_on};
