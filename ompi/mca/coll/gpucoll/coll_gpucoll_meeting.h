/*
 * The all-gather by which a communicator's ranks make a team: messages of the PML with a tag of their own, so
 * that it takes no turn in the order of nonblocking collectives. One at a time on a communicator.
 */
#ifndef COLL_GPUCOLL_MEETING_H
#define COLL_GPUCOLL_MEETING_H

#include "coll_gpucoll_compat.h"
#include "core/gpucoll.h"

struct gpucoll_meeting {
    ompi_communicator_t *comm;
    ompi_request_t *requests[2 * GPUCOLL_MAX_LOCAL];
    int count;
};

/* As struct gpucoll_exchange wants them; `arg` is a meeting whose `comm` is set. */
int gpucoll_meeting_allgather(void *arg, const void *mine, void *all, size_t bytes);
gpucoll_status gpucoll_meeting_test(void *arg);
/* The ranks that nothing has come from yet, as text: "2, 5". */
void gpucoll_meeting_missing(const struct gpucoll_meeting *meeting, char *text, size_t size);
/* Ends what is under way; harmless if nothing is. */
void gpucoll_meeting_abort(struct gpucoll_meeting *meeting);

#endif
