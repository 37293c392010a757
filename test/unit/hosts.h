/*
 * Ranks that pretend to be on several hosts, with a network of this process between them.
 */
#ifndef GPUCOLL_TEST_HOSTS_H
#define GPUCOLL_TEST_HOSTS_H

#include <chrono>
#include "test/unit/fake_net.h"
#include "test/unit/ranks.h"

/* Who waits as long as this timeout has not been told; who has been told ends soon. */
const Settings patient = {{"timeout", "60"}};
constexpr std::chrono::seconds soon(25);

/* The host of each rank. */
using Hosts = std::vector<uint32_t>;

/* {2, 1}: ranks 0 and 1 on one host, rank 2 on another. */
Hosts hosts_of(const std::vector<uint32_t> &sizes);
std::string text_of(const Hosts &hosts);

/* Tells each rank of `meeting` that the ranks of other hosts than its own are on other machines. */
void spread(Meeting &meeting, const Hosts &hosts);

/* A barrier of the team, to its end. */
gpucoll_status enter_barrier(gpucoll_team *team);

/* Runs `body` on the ranks of these hosts, which are a team. `bare`: the context is there, not the team. */
void on_hosts(const Hosts &hosts, const Settings &settings, const Body &body, bool bare = false,
              const gpucoll_net_ops *net = &fake_net);

#endif
