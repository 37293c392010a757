/*
 * A tie of the network (ucx_tl/rdma/ties.c) that has a thread of its own, which turns the tie's progress while it has messages under way, and a
 * little longer; then it sleeps.
 *
 * Messages are handed over: who sends or receives only appends to a list, and who tests only looks at a word. The tie's own network, whose lock
 * its thread holds nearly all the time, is entered by whoever turns the tie, and by nobody else: its thread, or, where there is none or it
 * does not get a core, whoever turns the network.
 *
 * Thread safety: all but start and end may be called from any thread.
 */
#ifndef GPUCOLL_RDMA_TIE_THREAD_H
#define GPUCOLL_RDMA_TIE_THREAD_H

#include "ucx_tl/rdma/net.h"

struct gpucoll_tie_order;

struct gpucoll_tie {
    struct gpucoll_net *net;
    pthread_mutex_t turning;          /* one at a time; guards `under_way` */
    struct gpucoll_tie_order *given;  /* handed over and not taken up, the latest first; `lock` guards it */
    struct gpucoll_tie_order *unused; /* `lock` guards it, too */
    struct gpucoll_tie_order *under_way;
    _Atomic uint32_t messages; /* handed over and not complete */
    _Atomic uint64_t turns;    /* of the thread, */
    _Atomic uint64_t seen;     /* and what they were when somebody looked; */
    _Atomic uint32_t looks;    /* who did so while it slept */
    _Atomic bool sleeps;       /* the thread, until there are messages; `lock` guards what it waits for */
    _Atomic bool ends;
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

/* What is to be sent or received. */
struct gpucoll_tie_message {
    bool comes;                    /* it is to be received */
    struct gpucoll_net_peer *peer; /* of the tie's network; NULL: it comes from any */
    uint64_t tag;
    void *data;
    size_t bytes;
    struct gpucoll_net_memory *memory;
};

/* Without a thread, where the process may run on fewer cores than that or none can be had, the tie is turned by who turns the network. */
void gpucoll_tie_start(struct gpucoll_tie *tie, int least_cores);
void gpucoll_tie_end(struct gpucoll_tie *tie);

/* As the functions of struct gpucoll_net_ops. */
void gpucoll_tie_give(struct gpucoll_tie *tie, const struct gpucoll_tie_message *what,
                      struct gpucoll_net_message *message);
gpucoll_status gpucoll_tie_test(struct gpucoll_tie *tie, struct gpucoll_net_message *message);
void gpucoll_tie_begin_cancel(struct gpucoll_tie *tie, struct gpucoll_net_message *message);
void gpucoll_tie_cancel(struct gpucoll_tie *tie, struct gpucoll_net_message *message);
/* Turns it, unless somebody else does or need not: for who turns the network. */
bool gpucoll_tie_progress(struct gpucoll_tie *tie);

#endif
