/*
 * A network for tests: every `open` makes a process's end, all ends are in this process, messages go from queue to queue. What a
 * message may do on a real network it may do here: be late, overtake messages with another tag, be sent from a copy at once or be taken from
 * the sender's memory when the receiver is ready, and fail.
 */
#ifndef GPUCOLL_TEST_FAKE_NET_H
#define GPUCOLL_TEST_FAKE_NET_H

#include "test/unit/unit.h"

extern "C" {
#include "ucx_tl/net.h"
}

extern const struct gpucoll_net_ops fake_net;
/* Of a process of which nothing is known. */
const struct gpucoll_net_place fake_net_place = {false, -1, nullptr};

/* From now on what comes to this end is late by a random number of looks at it. */
void fake_net_shake(gpucoll_net *net, uint64_t seed);
/* The network of which each end is so. */
const gpucoll_net_ops *fake_net_shaken();
/* The network of which each end counts what it has sent as not gone for so many looks. One at a time. */
const gpucoll_net_ops *fake_net_holding(uint32_t looks);
/* The send after `sends` more of this end fails. */
void fake_net_fail_send(gpucoll_net *net, uint32_t sends);
/* The network of which each end is opened so. One at a time. */
const gpucoll_net_ops *fake_net_failing(uint32_t sends);

/* Its process is dead: what is sent to it fails, and its peers know. */
void fake_net_kill(gpucoll_net *net);
/* Its process stands still, or goes on: it takes nothing, nor drops what is taken back. */
void fake_net_stand_still(gpucoll_net *net, bool still);
/* From now on what this end sends is taken from the sender's memory, never sent from a copy. */
void fake_net_lend(gpucoll_net *net);
/* The network of which each end does so. */
const gpucoll_net_ops *fake_net_lending();
/* The network of which each end copies all that it sends. */
const gpucoll_net_ops *fake_net_copying();
/* The connections to this end are closed, and made anew by what is sent then. What was under way and not copied fails at its sender; whether it `arrives`
 * is another matter. */
void fake_net_break(gpucoll_net *net, bool arrives);
/* From now on what the one end sends to the other one fails. */
void fake_net_cut(gpucoll_net *from, gpucoll_net *to);
/* Has the one end been asked, since this was looked at last, whether what it has sent to the other one has left? */
bool fake_net_asked(gpucoll_net *from, gpucoll_net *to);
/* Messages so far that were ended by force: a connection was closed for each. */
uint64_t fake_net_torn();

/* What there is of all ends. */
struct FakeNetCount {
    size_t ends;
    size_t peers;     /* connected */
    size_t under_way; /* messages that have a caller's memory */
    size_t unclaimed; /* copies that no receive has asked for */
    uint64_t held;    /* looks left for which what was sent counts as not gone */
    size_t memories;  /* of devices, reached and not forgotten */
    bool nothing() const { return ends + peers + under_way + unclaimed + memories == 0; }
};
FakeNetCount fake_net_count();

/* Messages so far that went from or to a device's memory. It takes all of that where coll_gpucoll_net_gpu_memory = yes. */
uint64_t fake_net_direct();

#endif
