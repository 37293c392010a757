/*
 * The network: messages between processes, which may be on different hosts. A process has one `gpucoll_net`; a peer process is
 * connected once, however many teams it is in. UCX (ucx_tl/rdma) is what runs in production; the table is there so that tests can put
 * ranks that are threads in its place.
 *
 * A message goes from one process to another and is matched by its tag: messages with the same tag are received in the order in which
 * one process sends them. A tag is the receiver's: it hands out ids to those who are to send to it (gpucoll_net_tag), so what is meant
 * for one team never meets a receive of another. Bytes sent must be those expected: a message of another length is an error, and a longer one
 * where a shorter one may come (receive_up_to). (Where processes have several ties, lengths of which one is short and the other long, ucx_tl/rdma/ties.c,
 * do not meet: both sides wait until they give up.)
 *
 * Nothing here waits: send and receive start, `test` tells, `progress` moves. `data` belongs to the network until the message is no
 * longer GPUCOLL_IN_PROGRESS. Errors are final for the message, have been shown (help topic "net-...") and name the peer.
 * Thread safety: every function may be called from any thread.
 */
#ifndef GPUCOLL_NET_H
#define GPUCOLL_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/base/config.h"
#include "core/base/log.h"
#include "core/base/status.h"

enum { GPUCOLL_NET_ADDRESS_BYTES = 2000 };

/* What a peer needs to reach a process; plain data, exchanged as bytes. */
struct gpucoll_net_address {
    uint32_t bytes; /* 0: the process has no network */
    unsigned char data[GPUCOLL_NET_ADDRESS_BYTES];
};

struct gpucoll_net;      /* a process's end */
struct gpucoll_net_peer; /* another process, as this one reaches it */

struct gpucoll_net_memory; /* memory of a device that messages may go from and to */
struct gpucoll_device;     /* core/accel/accel.h, as the next one */
struct gpucoll_device_id;

/* Where the process that opens the network is. */
struct gpucoll_net_place {
    /* The same on all processes of a host, which are so many that messages pass between these as well: by shared memory, if the network has that. */
    bool crowded;
    int local_rank; /* its number among the job's processes on this host; -1: not known */
    const struct gpucoll_device_id *gpu; /* that it uses; NULL: none yet, or not known */
};

struct gpucoll_net_message {
    gpucoll_status status; /* GPUCOLL_IN_PROGRESS until it is done */
    void *handle;          /* the network's, */
    uint32_t tie;          /* and which of its ties has it, below 8 */
};

struct gpucoll_net_ops {
    const char *name;
    /* GPUCOLL_DECLINED: there is no usable network here, or it was not built in; said at log level SETUP. */
    gpucoll_status (*open)(const struct gpucoll_config *config, const struct gpucoll_log *log,
                           const struct gpucoll_net_place *place, struct gpucoll_net **net) GPUCOLL_CHECKED;
    void (*close)(struct gpucoll_net *net); /* all peers are disconnected; harmless on NULL */
    void (*address)(const struct gpucoll_net *net, struct gpucoll_net_address *address);
    /* The peer of that address; counted, so each connect wants a disconnect. */
    gpucoll_status (*connect)(struct gpucoll_net *net, const struct gpucoll_net_address *address,
                              struct gpucoll_net_peer **peer) GPUCOLL_CHECKED;
    void (*disconnect)(struct gpucoll_net *net, struct gpucoll_net_peer *peer);
    /* So that messages may go from and to these bytes of a device's memory, without a copy in host memory; NULL: they are to be copied, for this
     * network does not take them, or the configuration is against it, or is for it only where that is fast. Each rank decides for itself: what
     * is sent from a device may be received in host memory. */
    struct gpucoll_net_memory *(*reach)(struct gpucoll_net *net, struct gpucoll_device *device, void *data,
                                        size_t bytes);
    /* No message of the caller's goes from it or to it any more. */
    void (*forget)(struct gpucoll_net *net, struct gpucoll_net_memory *memory);
    /* `memory`: which has `data`; NULL: it is host memory. What is sent from a device has to be complete there. */
    void (*send)(struct gpucoll_net *net, struct gpucoll_net_peer *peer, uint64_t tag, const void *data,
                 size_t bytes, struct gpucoll_net_memory *memory, struct gpucoll_net_message *message);
    /* `from`: who alone sends by that tag, connected until the message is done; NULL: whoever does. */
    void (*receive)(struct gpucoll_net *net, struct gpucoll_net_peer *from, uint64_t tag, void *data,
                    size_t bytes, struct gpucoll_net_memory *memory, struct gpucoll_net_message *message);
    /* In host memory, below 64 KiB: the message may be shorter, and has to tell by itself how long it is. What is behind its end may be anything. */
    void (*receive_up_to)(struct gpucoll_net *net, struct gpucoll_net_peer *from, uint64_t tag, void *data,
                          size_t bytes, struct gpucoll_net_message *message);
    /* The message's status; does not turn progress. */
    gpucoll_status (*test)(struct gpucoll_net *net, struct gpucoll_net_message *message);
    /* Ends a message that will never be matched: after it the network no longer touches its data. Waits a few seconds at most. Harmless on one that
     * is done. */
    void (*cancel)(struct gpucoll_net *net, struct gpucoll_net_message *message);
    /* Begins that, and does not wait. Of messages that are all begun before the first is cancelled, all together wait no longer than one. */
    void (*begin_cancel)(struct gpucoll_net *net, struct gpucoll_net_message *message);
    /* Moves what is under way; true if something has happened. */
    bool (*progress)(struct gpucoll_net *net);
    /* Has all left this process of what was sent to that peer by those of the network's ties (a bit for each, by the `tie` of messages), and is done,
     * before the call? A message that is done may still have its end in a buffer here that waits for room in a socket, and goes on by somebody's
     * progress: its receiver waits for that. Does not turn progress. */
    bool (*drained)(struct gpucoll_net *net, struct gpucoll_net_peer *peer, uint32_t ties);
    /* Has the connection to the peer failed since the last connect, and nothing that was sent since gone out? What came from it may be lost,
     * too. Does not turn progress. */
    bool (*lost)(struct gpucoll_net *net, const struct gpucoll_net_peer *peer);
    /* Is a peer whose connection has failed out of reach? It may live, and have closed the connection to be rid of a message. So it is asked, by
     * a message of the network's own: false while that is on its way, true when it has failed as well, or has been on its way for longer than
     * coll_gpucoll_timeout, not counting the time in which nobody turned progress here. Does not turn progress. */
    bool (*gone)(struct gpucoll_net *net, struct gpucoll_net_peer *peer);
};

extern const struct gpucoll_net_ops gpucoll_net_ucx;

enum { GPUCOLL_NET_IDS = 0xfffffe }; /* the highest of 24 bits is the network's own */

/* `id`: below GPUCOLL_NET_IDS, handed out by the receiver; `source`: the sender's rank in the team, 20 bits; `channel`: 20 bits, tells what is
 * under way between them at the same time apart. Channels of long messages that differ in their upper 18 bits
 * may go by different ties. */
static inline uint64_t gpucoll_net_tag(uint32_t id, uint32_t source, uint32_t channel)
{
    return (uint64_t)(id & 0xffffff) << 40 | (uint64_t)(source & 0xfffff) << 20 | (channel & 0xfffff);
}

#endif
