/*
 * Nonblocking and persistent calls: how each finds its way to the engine or to the next component.
 *
 * A nonblocking call that the engine's ranks decline goes to the next component after all, and there the order
 * counts. So a communicator has its nonblocking calls in order until their way is known (`order` of struct
 * gpucoll_module). What is at its head and decided to run natively leaves it; what is not is handed to the next
 * component only there. All ranks decide alike, so all hand over the same calls in the same order.
 *
 * What never was to run natively goes on at once if tags are known (coll_gpucoll_tag.h); else it has its place in
 * the order, too, which is at once while that is empty.
 *
 * That order never waits for itself: a call is decided when all ranks have come to it, and they come to it
 * whatever is behind.
 */
#ifndef COLL_GPUCOLL_LATER_H
#define COLL_GPUCOLL_LATER_H

#include "coll_gpucoll.h"
#include "coll_gpucoll_stage.h"

/* All that the collectives have for arguments, by the names that their families give them. */
struct gpucoll_arguments {
    const void *sbuf;
    void *rbuf;
    gpucoll_count count;
    gpucoll_count scount;
    gpucoll_count rcount;
    const void *scounts; /* arrays, of the type that the collective has */
    const void *rcounts;
    const void *displs;
    const void *sdispls;
    const void *rdispls;
    const void *sdtypes;
    const void *rdtypes;
    ompi_datatype_t *dtype;
    ompi_datatype_t *sdtype;
    ompi_datatype_t *rdtype;
    ompi_op_t *op;
    int root;
    ompi_info_t *info;
};

/* The next component's function for a call. */
typedef int (*gpucoll_next_fn)(const struct gpucoll_arguments *arguments, ompi_communicator_t *comm,
                               ompi_request_t **request, gpucoll_module *self);

struct gpucoll_later {
    const struct gpucoll_call *call; /* description of the buffers */
    struct gpucoll_arguments arguments;
    gpucoll_next_fn next;
    bool persistent;
    bool native; /* may run on the engine; the same on all ranks */
    enum gpucoll_coll coll;
    int root;
};

/* The slots' work. */
int gpucoll_call_later(gpucoll_module *self, const struct gpucoll_later *later, ompi_request_t **request);

/* Could the nonblocking call be one that Open MPI makes itself, of one MPI_INT, on the communicator? It does for MPI_Comm_idup, from its progress: on some ranks
 * before and on others after calls of the application that count in the sequence, and within one that waits. So these are never native, do not count, and
 * leave what the module has looked up for its latest call. Of a broadcast ranks may have different types of as many bytes. */
static inline bool gpucoll_may_be_open_mpis(enum gpucoll_coll coll, const struct gpucoll_arguments *given)
{
    if (coll == GPUCOLL_BCAST) {
        return (size_t)given->count * given->dtype->super.size == sizeof(int);
    }
    return (coll == GPUCOLL_ALLREDUCE || coll == GPUCOLL_REDUCE) && given->count == 1 &&
           given->dtype == MPI_INT && (given->op == MPI_MAX || given->op == MPI_MIN);
}

/* Does the call go to the next component with nothing to be kept for later? */
static inline bool gpucoll_goes_on(const gpucoll_module *self, bool native)
{
    return !native && self->order == NULL && !gpucoll_device_active();
}

/* The rest is for coll_gpucoll_request.c and coll_gpucoll_sequence.c, with gpucoll_enter held. */

/* The sequence has its team, or will never have one: calls that waited for that are posted, or are to take their turn at the
 * next component. Then, with the sequence's state set, those that can take it. */
void gpucoll_later_join(struct gpucoll_sequence *sequence);
void gpucoll_later_settled(struct gpucoll_sequence *sequence);
/* Moves an active request on; true when it has ended. `pass` counts up with every round through all. */
bool gpucoll_later_advance(struct gpucoll_outer *outer, unsigned pass);
/* MPI_Start. What goes wrong is in the status, of a request that has ended then. */
void gpucoll_later_start(struct gpucoll_outer *outer);

#endif
