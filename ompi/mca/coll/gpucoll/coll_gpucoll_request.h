/*
 * The request of a nonblocking or persistent collective that runs on host copies. It wraps the request of the
 * next component: when that one completes, progress copies the result to the user's buffer and completes this
 * one.
 */
#ifndef COLL_GPUCOLL_REQUEST_H
#define COLL_GPUCOLL_REQUEST_H

#include "coll_gpucoll_stage.h"

/* Open MPI's MPI layer hangs references to operators and types on requests of collectives, which it takes for
 * this type. */
struct gpucoll_outer {
    ompi_coll_base_nbc_request_t super;
    struct gpucoll_call call;
    ompi_request_t *inner;      /* of the next component */
    struct gpucoll_outer *next; /* in one of the lists */
    bool active; /* in the list that progress looks at, or just taken from it; guarded by its lock */
    bool freed;  /* MPI_Request_free came first: whoever completes it frees it */
};
typedef struct gpucoll_outer gpucoll_outer;
OBJ_CLASS_DECLARATION(gpucoll_outer);

void gpucoll_requests_open(void);
void gpucoll_requests_close(void);

/*
 * One nonblocking or persistent call: begin; then, if *outer is not NULL, the next component's function with
 * the pointers of (*outer)->call and &(*outer)->inner; then ready with what it returned. With *outer NULL
 * nothing needs staging, and the call goes on as it is. Nonblocking: the result is on its way after `ready`.
 * Persistent: each MPI_Start copies in and starts the inner request.
 */
int gpucoll_request_begin(const struct gpucoll_call *call, ompi_communicator_t *comm, bool persistent,
                          struct gpucoll_outer **outer);
int gpucoll_request_ready(struct gpucoll_outer *outer, int rc, ompi_request_t **request);

#endif
