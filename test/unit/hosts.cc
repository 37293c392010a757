#include "test/unit/hosts.h"
#include <cstring>
#include <thread>

Hosts hosts_of(const std::vector<uint32_t> &sizes)
{
    Hosts hosts;
    for (uint32_t host = 0; host < sizes.size(); host++) {
        hosts.insert(hosts.end(), sizes[host], host);
    }
    return hosts;
}

std::string text_of(const Hosts &hosts)
{
    std::string text = "hosts";
    for (uint32_t host : hosts) {
        text += " " + std::to_string(host);
    }
    return text;
}

void spread(Meeting &meeting, const Hosts &hosts)
{
    constexpr size_t host_offset = 40; /* of the hash of the owner's host, in a card */
    meeting.tamper = [hosts](uint32_t reader, char *all, size_t bytes) {
        if (bytes < 100 || bytes > 1000) {
            return; /* not the exchange of cards */
        }
        for (uint32_t i = 0; i < hosts.size(); i++) {
            uint64_t host = 0;
            char *at = all + i * bytes + host_offset;
            memcpy(&host, at, sizeof host);
            host ^= hosts[i] != hosts[reader] ? hosts[i] + 1 : 0;
            memcpy(at, &host, sizeof host);
        }
    };
}

gpucoll_status enter_barrier(gpucoll_team *team)
{
    gpucoll_barrier_start(team);
    gpucoll_status status;
    while ((status = gpucoll_barrier_test(team)) == GPUCOLL_IN_PROGRESS) {
        sched_yield();
    }
    return status;
}

static void play(uint32_t number, Meeting &meeting, const Settings &settings, const Body &body, bool bare,
                 const gpucoll_net_ops *net)
{
    Rank rank(number, meeting, settings);
    gpucoll_status status = gpucoll_context_create(&rank.config, rank.log.get(), &rank.context);
    ASSERT_EQ(status, GPUCOLL_OK);
    gpucoll_context_use_net(rank.context, net);
    status = bare ? GPUCOLL_OK : rank.make_team(meeting, 0, &rank.team);
    EXPECT_EQ(status, GPUCOLL_OK) << gpucoll_status_name(status);
    if (status == GPUCOLL_OK) {
        body(rank);
    }
    rank.close();
}

void on_hosts(const Hosts &hosts, const Settings &settings, const Body &body, bool bare,
              const gpucoll_net_ops *net)
{
    SCOPED_TRACE(text_of(hosts));
    Meeting meeting(static_cast<uint32_t>(hosts.size()));
    spread(meeting, hosts);
    std::vector<std::thread> threads;
    for (uint32_t number = 0; number < hosts.size(); number++) {
        threads.emplace_back([&, number] { play(number, meeting, settings, body, bare, net); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    EXPECT_TRUE(fake_net_count().nothing()) << "something of the network is left over";
}
