/*
 * For tests of calls of several hosts with few bytes: what they send, and whether they are right.
 */
#ifndef GPUCOLL_TEST_FEW_BYTES_H
#define GPUCOLL_TEST_FEW_BYTES_H

#include "test/unit/exchange_part.h"
#include "test/unit/hosts.h"

/* Even and uneven, one rank a host, ranks of a host apart from each other, numbers of hosts that are no power of two. */
extern const std::vector<Hosts> few_shapes;

extern const Kind reduce_kind;
extern const Kind bcast_kind;

/* A network that counts what is sent of all ranks. */
const gpucoll_net_ops *counting_net();

struct Traffic {
    unsigned messages;
    size_t bytes;
};

/* What `body` sends over that, called by all ranks at once. The result is of rank 0. */
Traffic traffic_in(Rank &rank, const std::function<void()> &body);
/* What `body` sends once the ranks are connected. */
Traffic traffic_of(const Hosts &hosts, const Settings &settings, const Body &body);
unsigned messages_of(const Hosts &hosts, const Settings &settings, const Body &body);

/* An all-reduce checked with fresh data against a reference, in and out of place. */
void check_reductions(Rank &rank, gpucoll_op op, gpucoll_type type, size_t count, size_t offset);
/* The same of each rank as root. */
void check_rooted(Rank &rank, const Kind &kind, size_t count);

#endif
