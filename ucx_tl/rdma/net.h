/*
 * What is inside of one tie of the network over UCX (ucx_tl/rdma/ties.c): one context and one worker of UCX, tag messages, and an endpoint for
 * each process that is sent to. `lock` guards everything, UCX's functions included.
 *
 * Endpoints live until the network is closed or the connection fails: a peer that no team uses any more may be used by the next one. A
 * failed one is closed; the next message to that peer makes a new one, which fails as well if the process has gone.
 *
 * UCX calls back inside of its functions, so with the lock held. What there is to say is remembered, and said without the lock: who shows
 * it may well turn MPI's progress, and that comes back here.
 */
#ifndef GPUCOLL_RDMA_NET_H
#define GPUCOLL_RDMA_NET_H

#include <pthread.h>
#include <stdatomic.h>
#include "core/base/clock.h"
#include "ucx_tl/net.h"
#include "ucx_tl/rdma/memory.h"
#include "ucx_tl/rdma/ucx.h"

enum { GPUCOLL_RDMA_NAME_BYTES = 64, GPUCOLL_RDMA_PLACES = 4096 /* of the table of peers */ };

/* An address: this, then UCX's own bytes. */
struct gpucoll_rdma_card {
    uint32_t pid;
    char host[GPUCOLL_RDMA_NAME_BYTES];
};

/* The tag of notes (ucx_tl/rdma/withdraw.c), and what a note that only asks whether the peer is there wants dropped: both are of an id
 * which nobody hands out. */
#define GPUCOLL_RDMA_NOTE_TAG UINT64_MAX
#define GPUCOLL_RDMA_NO_TAG (UINT64_MAX - 1)

struct gpucoll_net_peer {
    struct gpucoll_net_peer *next;  /* of all, */
    struct gpucoll_net_peer **link; /* what points to this one; */
    struct gpucoll_net_peer *other; /* of those whose addresses fall in the same place of the table, */
    struct gpucoll_net_peer **other_link;
    struct gpucoll_net *net;
    void *tied;                             /* ucx_tl/rdma/ties.c; of the first tie */
    ucp_ep_h endpoint;                      /* NULL: none yet, or it has failed */
    bool failing;                           /* the endpoint has failed, and is to be closed */
    bool said;                              /* that it has failed */
    _Atomic bool lost;                      /* it has failed, and no message has gone out since */
    struct gpucoll_rdma_transfer *question; /* whether it is there; NULL: not asked */
    uint64_t asked_ns;                      /* at which net->turned, */
    bool silent;                            /* and longer ago than net->timeout: it has been said */
    uint64_t broken_ns;                     /* when the connection was broken for a message that was stuck */
    unsigned uses;                          /* connects without their disconnect */
    bool undrained;   /* a message to it is done since the latest flush of the endpoint, */
    void *flush;      /* UCX's request of which, while it is in progress */
    ucs_status_t why; /* of the failure */
    struct gpucoll_net_address address;
};

/* A message under way: the handle of a struct gpucoll_net_message. */
struct gpucoll_rdma_transfer {
    struct gpucoll_rdma_transfer *next;  /* of those that can be used again, or of those in use */
    struct gpucoll_rdma_transfer **link; /* what points to this one; of those in use */
    struct gpucoll_net *net;
    struct gpucoll_net_peer *peer;     /* that it goes to; NULL: a receive, */
    struct gpucoll_net_peer *from;     /* from this one; NULL: from any */
    struct gpucoll_net_memory *memory; /* NULL: of the host, */
    ucp_mem_h mapped;                  /* which was registered for this message; NULL: it was not */
    void *request;                     /* UCX's; valid while it is in progress */
    uint64_t tag;
    uint64_t bytes;       /* expected, */
    bool up_to;           /* at most */
    uint64_t arrived;     /* of a receive */
    ucs_status_t why;     /* of a failure */
    uint64_t given_up_ns; /* since when it is to end; 0: it is not */
    bool noting;          /* a note with its tag, which UCX reads here, is on its way */
    _Atomic int state;    /* gpucoll_status; written last, so who reads the end of it reads the rest */
};

/* Memory of a device. */
struct gpucoll_net_memory {
    struct gpucoll_device *device;
    ucs_memory_type_t type;
    ucp_mem_h handle;                /* NULL: not registered ahead */
    uint32_t messages;               /* under way */
    struct gpucoll_net_memory *next; /* of those that are forgotten, but in use */
};

struct gpucoll_net {
    const struct gpucoll_ucx *ucx;
    const struct gpucoll_log *log;
    int timeout; /* seconds, as coll_gpucoll_timeout; 0: none */
    bool tcp;    /* and nothing else is chosen */
    ucp_context_h context;
    ucp_worker_h worker;
    pthread_mutex_t lock;
    struct gpucoll_net_address address;
    struct gpucoll_net_peer *peers;                       /* all, */
    struct gpucoll_net_peer *places[GPUCOLL_RDMA_PLACES]; /* and by their address */
    struct gpucoll_rdma_transfer *used;
    struct gpucoll_rdma_transfer *unused;
    struct gpucoll_rdma_transfer *stuck;  /* given up, and UCX has not let go of them */
    struct gpucoll_rdma_memory memory;    /* whether messages go from and to that of GPUs */
    bool memory_said;                     /* that they do, */
    bool memory_refused;                  /* or that it could not be registered */
    struct gpucoll_net_memory *lingering; /* forgotten, but in use */
    uint32_t device_messages;             /* under way, of such memory; while there are any, */
    struct gpucoll_device *device;        /* this is that of the latest of them */
    bool failing;                         /* some peer is */
    uint32_t questions;                   /* under way; while there are any, */
    struct gpucoll_patience turned;       /* how long somebody has turned progress */
    uint64_t note;                        /* the tag of a message that its sender takes back */
    bool noted;                           /* there is one */
    bool undrained;                       /* a message that was sent is done since the latest flush of all, */
    void *flush;                          /* UCX's request of which, while it is in progress */
    void *note_request;                   /* UCX's, of the receive that waits for one */
};

extern const struct gpucoll_net_ops gpucoll_net_tie;
/* Of what gpucoll_net_ucx has opened: for tests that look inside. */
struct gpucoll_net *gpucoll_rdma_first_tie(struct gpucoll_net *ties);

void gpucoll_rdma_send(struct gpucoll_net *net, struct gpucoll_net_peer *peer, uint64_t tag, const void *data,
                       size_t bytes, struct gpucoll_net_memory *memory, struct gpucoll_net_message *message);
void gpucoll_rdma_receive(struct gpucoll_net *net, struct gpucoll_net_peer *from, uint64_t tag, void *data,
                          size_t bytes, struct gpucoll_net_memory *memory,
                          struct gpucoll_net_message *message);
void gpucoll_rdma_receive_up_to(struct gpucoll_net *net, struct gpucoll_net_peer *from, uint64_t tag,
                                void *data, size_t bytes, struct gpucoll_net_message *message);
gpucoll_status gpucoll_rdma_test(struct gpucoll_net *net, struct gpucoll_net_message *message);
bool gpucoll_rdma_drained(struct gpucoll_net *net, struct gpucoll_net_peer *peer, uint32_t ties);
/* The same of all peers. */
bool gpucoll_rdma_all_drained(struct gpucoll_net *net);
bool gpucoll_rdma_lost(struct gpucoll_net *net, const struct gpucoll_net_peer *peer);
bool gpucoll_rdma_gone(struct gpucoll_net *net, struct gpucoll_net_peer *peer);
void gpucoll_rdma_cancel(struct gpucoll_net *net, struct gpucoll_net_message *message);
void gpucoll_rdma_begin_cancel(struct gpucoll_net *net, struct gpucoll_net_message *message);

struct gpucoll_net_memory *gpucoll_rdma_reach(struct gpucoll_net *net, struct gpucoll_device *device,
                                              void *data, size_t bytes);
void gpucoll_rdma_forget(struct gpucoll_net *net, struct gpucoll_net_memory *memory);

gpucoll_status gpucoll_rdma_connect(struct gpucoll_net *net, const struct gpucoll_net_address *address,
                                    struct gpucoll_net_peer **peer) GPUCOLL_CHECKED;
void gpucoll_rdma_disconnect(struct gpucoll_net *net, struct gpucoll_net_peer *peer);

/* With the lock held, all of these. */

/* A message begins to use that memory, and ends to. Harmless on NULL. */
void gpucoll_rdma_use(struct gpucoll_net *net, struct gpucoll_net_memory *memory);
void gpucoll_rdma_unuse(struct gpucoll_net *net, struct gpucoll_net_memory *memory);
/* Registers host memory for one message, where that is the caller's to do; NULL: UCX does. */
ucp_mem_h gpucoll_rdma_map(struct gpucoll_net *net, const void *data, size_t bytes);
void gpucoll_rdma_unmap(struct gpucoll_net *net, ucp_mem_h mapped); /* harmless on NULL */
/* Around functions of UCX that may copy what messages under way have: makes a device's context the current one. */
struct gpucoll_entry gpucoll_rdma_enter(const struct gpucoll_net *net);
void gpucoll_rdma_leave(const struct gpucoll_net *net, struct gpucoll_entry entry);
/* When UCX's worker is no more. */
void gpucoll_rdma_free_memory(struct gpucoll_net *net);

/* The peer's endpoint, made if there is none. */
ucs_status_t gpucoll_rdma_endpoint(struct gpucoll_net_peer *peer, ucp_ep_h *endpoint);
/* Closes the peer's endpoint; messages under way on it fail. Nothing if there is none. */
void gpucoll_rdma_close_endpoint(struct gpucoll_net_peer *peer);
/* Asks the peer no longer. */
void gpucoll_rdma_drop_question(struct gpucoll_net_peer *peer);
/* Turns UCX's progress, and then closes what has failed. */
bool gpucoll_rdma_progress(struct gpucoll_net *net);
/* Asks the receiving process to drop a message that has been sent. */
void gpucoll_rdma_withdraw(struct gpucoll_rdma_transfer *transfer);
/* Lets other processes ask so, or no longer. */
void gpucoll_rdma_expect_note(struct gpucoll_net *net);
void gpucoll_rdma_expect_no_note(struct gpucoll_net *net);
/* Does what they have asked for. */
void gpucoll_rdma_take_notes(struct gpucoll_net *net);
/* Drops the oldest message that nobody has received and whose tag has those bits; false if there is none. */
bool gpucoll_rdma_drop(struct gpucoll_net *net, uint64_t tag, uint64_t mask);
/* Ends everything that is under way, as a network that is closed does. */
void gpucoll_rdma_cancel_all(struct gpucoll_net *net);
/* Before the peer's endpoint is closed, and before UCX's worker goes. */
void gpucoll_rdma_end_peer_flush(struct gpucoll_net_peer *peer);
void gpucoll_rdma_end_flush(struct gpucoll_net *net);
/* When UCX's worker is no more. */
void gpucoll_rdma_free_transfers(struct gpucoll_net *net);

/* "process 1234 on host a" into `text`. */
void gpucoll_rdma_describe(const struct gpucoll_net_address *address, char *text, size_t bytes);

#endif
