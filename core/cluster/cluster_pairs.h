/*
 * Between ranks of different hosts, pair by pair: for collectives of several hosts in which each rank has bytes of its own for each other one, or
 * for the root. They do not go along the rails: a rank sends to any rank, through host memory, in messages of at most a chunk.
 *
 *   out    copy from the device into a slot, send
 *   in     receive into a slot, copy to the device; where the same place is also sent (in place), when it has been read
 *
 * Where the network takes the device's memory, messages go from it and to it, without slots and copies; but not in place, where what comes in would
 * have to wait for what is sent, on both sides. The messages are the same either way.
 *
 * In step t, rank r has to do with rank t - r, modulo their number, and that one with it: so each step is of pairs, no rank is in two of
 * them, and both know the order of all messages: by step, then by place. A side has up to `window` messages under way, in this order, each in a
 * slot of its own. The first message of all ranks that is not through waits for no other one, so there is always one that moves, however
 * small the window. Those of a pair have one tag, and arrive in their order.
 *
 * Ranks of the same host exchange what they have for each other by a local call.
 */
#ifndef GPUCOLL_CLUSTER_PAIRS_H
#define GPUCOLL_CLUSTER_PAIRS_H

#include "core/cluster/cluster_call.h"
#include "core/exchange.h"

enum { GPUCOLL_PAIR_WINDOW = 32 }; /* messages of a side, at most */

enum gpucoll_pair_state {
    GPUCOLL_PAIR_THROUGH,
    GPUCOLL_PAIR_COPIED_OUT, /* being */
    GPUCOLL_PAIR_SENT,
    GPUCOLL_PAIR_RECEIVED,
    GPUCOLL_PAIR_HELD, /* has arrived; its place on the device is still to be read */
    GPUCOLL_PAIR_COPIED_IN
};

struct gpucoll_pair_message {
    enum gpucoll_pair_state state;
    uint32_t peer; /* rank of the communicator */
    uint64_t at;   /* in the run to it or from it, */
    uint64_t bytes;
    struct gpucoll_copy_ticket copied;
    struct gpucoll_net_message message;
};

/* What this rank sends, or what it receives. */
struct gpucoll_pair_side {
    bool sends;
    uint32_t step; /* of the next message, */
    uint64_t at;   /* and where in its run it begins */
    uint64_t begun;
    uint64_t through; /* messages before this one are */
    char *slots;
    struct gpucoll_net_memory *memory; /* that messages may have instead, NULL: none */
    struct gpucoll_pair_message messages[GPUCOLL_PAIR_WINDOW];
};

struct gpucoll_pairs {
    struct gpucoll_pair_side out;
    struct gpucoll_pair_side in;
    uint64_t chunk; /* the same on all ranks */
    uint64_t slot_bytes;
    uint32_t window;
    uint32_t channel; /* of the call */
    bool begun;
    struct gpucoll_run_list list; /* of all ranks */
    struct gpucoll_kernel_run runs[];
};

/* The runs of a call, and what they need of host memory. NULL: out of memory. */
struct gpucoll_pairs *gpucoll_pairs_new(const struct gpucoll_cluster *cluster,
                                        const struct gpucoll_coll_args *args, uint64_t *longest);
/* Asks the network to take the memory of the call's GPU, which is known; so less of host memory may be needed. */
void gpucoll_pairs_reach(struct gpucoll_cluster_call *call);
void gpucoll_pairs_forget(struct gpucoll_cluster_call *call);
/* Of host memory, for both sides. */
static inline uint64_t gpucoll_pairs_bytes(const struct gpucoll_pairs *pairs)
{
    return 2 * pairs->window * pairs->slot_bytes;
}
/* Moves on what can move. GPUCOLL_OK: all is through. GPUCOLL_IN_PROGRESS; or an error. */
gpucoll_status gpucoll_pairs_move(struct gpucoll_cluster_call *call, bool *moved) GPUCOLL_CHECKED;
bool gpucoll_pairs_are_through(const struct gpucoll_pairs *pairs);
/* A rank whose message is waited for, or that has not taken one. False: only copies are under way. */
bool gpucoll_pairs_missing(const struct gpucoll_pairs *pairs, uint32_t *rank);
/* Are messages between this rank and that one, of another host, not through, so that that one may wait for them? */
bool gpucoll_pairs_are_left(const struct gpucoll_cluster_call *call, uint32_t rank);
/* No message touches memory any more. */
void gpucoll_pairs_cancel(struct gpucoll_cluster_call *call);
bool gpucoll_pairs_copy(const struct gpucoll_cluster_call *call);

#endif
