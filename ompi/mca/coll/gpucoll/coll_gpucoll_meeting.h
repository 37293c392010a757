/*
 * The all-gather by which a communicator's ranks make a team: messages of the PML with a tag of their own, so
 * that it takes no turn in the order of nonblocking collectives. One at a time on a communicator.
 *
 * In step k of log2(size) a rank sends all blocks that it has to the rank 2^k below, and gets as many from the one 2^k above
 * (Bruck et al. 1997): few messages a rank, on communicators of any size.
 */
#ifndef COLL_GPUCOLL_MEETING_H
#define COLL_GPUCOLL_MEETING_H

#include "coll_gpucoll_compat.h"
#include "core/gpucoll.h"

struct gpucoll_meeting {
    ompi_communicator_t *comm;
    ompi_request_t *requests[2]; /* of the present step */
    int count;
    int held;     /* blocks that this rank has; 0: nothing is under way */
    char *blocks; /* of the own rank, the next higher, and so on */
    char *all;    /* where they go, by rank */
    size_t bytes; /* of a block */
};

/* As struct gpucoll_exchange wants them; `arg` is a meeting whose `comm` is set and that is zero otherwise. */
int gpucoll_meeting_allgather(void *arg, const void *mine, void *all, size_t bytes);
gpucoll_status gpucoll_meeting_test(void *arg);
/* Which rank nothing has come from yet, as text: "2, or one whose message that rank passes on", or why it is none. */
void gpucoll_meeting_missing(const struct gpucoll_meeting *meeting, char *text, size_t size);
/* Ends what is under way; harmless if nothing is. */
void gpucoll_meeting_abort(struct gpucoll_meeting *meeting);

#endif
