/*
 * The request of a nonblocking or persistent collective that gpucoll has a hand in: it runs on the engine, or
 * on host copies, or waits for its turn at the next component. Progress moves the active ones on
 * (coll_gpucoll_later.h says how) and completes them.
 */
#ifndef COLL_GPUCOLL_REQUEST_H
#define COLL_GPUCOLL_REQUEST_H

#include "coll_gpucoll_later.h"

enum gpucoll_phase {
    GPUCOLL_PHASE_TEAM,   /* waits for its sequence's team */
    GPUCOLL_PHASE_NATIVE, /* the engine has it */
    GPUCOLL_PHASE_TURN,   /* is to go to the next component, when it is its turn */
    GPUCOLL_PHASE_NEXT,   /* the next component has it */
    GPUCOLL_PHASE_ENDED,  /* the status is set */
};

/* Open MPI's MPI layer hangs references to operators and types on requests of collectives, which it takes for
 * this type. */
struct gpucoll_outer {
    ompi_coll_base_nbc_request_t super;
    gpucoll_module *module; /* of `comm`, to which the request has a reference */
    ompi_communicator_t *comm;
    struct gpucoll_later later; /* `later.call` is `call` */
    struct gpucoll_call call;
    enum gpucoll_op op; /* of a native reduction */
    enum gpucoll_type type;
    enum gpucoll_phase phase;
    unsigned long long number; /* of the communicator's calls that come here, from 1 */
    struct gpucoll_waiting waiting;
    struct gpucoll_sequence *sequence; /* NULL: never native; a persistent request's is its own */
    struct gpucoll_task task;
    int32_t tag;                      /* of the call, for the next component */
    enum gpucoll_reason declined;     /* why the ranks declined it */
    ompi_request_t *inner;            /* of the next component */
    bool inner_made;                  /* persistent: the next component was asked for `inner` */
    int inner_error;                  /* what it said */
    bool staged;                      /* `call` has host memory */
    bool active;                      /* in the list that progress looks at */
    bool in_order;                    /* in the order of its module */
    bool freed;                       /* MPI_Request_free came first: whoever is done with it frees it */
    uint64_t freed_ns;                /* of a failed one, when */
    struct gpucoll_outer *next;       /* in one of the lists of coll_gpucoll_request.c */
    struct gpucoll_outer *next_order; /* in the order of its module */
};
typedef struct gpucoll_outer gpucoll_outer;
OBJ_CLASS_DECLARATION(gpucoll_outer);

void gpucoll_requests_open(void);
void gpucoll_requests_close(void);
/* MPI is about to end. `communicators`: they are there still, and those of failed requests are given back. With the lock held. */
void gpucoll_requests_finalize(bool communicators);

/* One lock guards all requests, orders and sequences. It is recursive: freeing a request may free a
 * communicator, whose module comes back here. */
void gpucoll_enter(void);
void gpucoll_leave(void);
/* There is something for progress to do. */
void gpucoll_expect_progress(void);
/* A team is made. Where that made a network between hosts, progress turns it from now on. */
void gpucoll_expect_net(void);

/* The rest is to be called with the lock held. */

/* NULL if out of memory. */
struct gpucoll_outer *gpucoll_outer_new(gpucoll_module *self, const struct gpucoll_later *later);
/* From now on progress moves it on. */
void gpucoll_outer_activate(struct gpucoll_outer *outer);
/* Have many been begun without progress being made meanwhile, or are very many under way? Then who began the latest is to turn MPI's
 * progress when it has left: requests that nobody waits for, since they were freed early, would else be kept for ever by a program that
 * makes no other calls which do. */
bool gpucoll_requests_crowd(void);
/* Frees it, when gpucoll_leave leaves, if nobody has it any more. */
void gpucoll_outer_drop(struct gpucoll_outer *outer);
void gpucoll_outer_drop_if_freed(struct gpucoll_outer *outer);

#endif
