/*
 * Calls of several hosts whose messages go from and to the memory of devices: every collective, beside hosts on which they do not, messages that
 * are late or fail.
 */
#include <atomic>
#include "test/unit/exchange_part.h"
#include "test/unit/hosts.h"

namespace
{
/* Even and uneven, one rank a host, ranks of a host apart from each other. */
const std::vector<Hosts> shapes = {
    hosts_of({2, 2}), hosts_of({3, 1}), hosts_of({1, 2, 3}), {0, 1, 0, 1}, {1, 0, 2, 1, 1, 0, 2},
};

/* Every collective that moves, with each root, in place or not. */
void check_moves(Rank &rank, size_t count)
{
    for (const Kind &kind : kinds) {
        ExchangeCall call = call_of(kind, count);
        call.root = count % rank.meeting.size;
        call.offset = count % 2;
        check(rank, call);
        call.in_place = true;
        if (can_be_in_place(kind.coll)) {
            check(rank, call);
        }
    }
}
} // namespace

TEST(cluster_reach, exchanges_from_device_to_device)
{
    for (const Hosts &hosts : shapes) {
        const uint64_t before = fake_net_direct();
        on_hosts(
            hosts, {{"chunk", "4K"}, {"net_gpu_memory", "yes"}},
            [](Rank &rank) {
                for (size_t count : {1, 300, 7001}) {
                    check_moves(rank, count);
                }
            },
            false, fake_net_shaken());
        EXPECT_GT(fake_net_direct(), before) << text_of(hosts);
    }
}

TEST(cluster_reach, exchanges_from_device_to_device_by_every_algorithm_of_a_rail)
{
    for (const char *name : {"doubling", "ring", "tree"}) {
        for (const Hosts &hosts : {hosts_of({2, 1, 2}), hosts_of({1, 1, 1, 1, 1})}) {
            const uint64_t before = fake_net_direct();
            on_hosts(hosts, {{"chunk", "4K"}, {"rail_algorithm", name}, {"net_gpu_memory", "yes"}},
                     [](Rank &rank) { check_moves(rank, 7001); });
            EXPECT_GT(fake_net_direct(), before) << name;
        }
    }
}

namespace
{
const Kind scan = {GPUCOLL_SCAN, UPWARDS, false, false, false};

/* How many messages of calls of these kinds go from a device or to one. */
uint64_t direct_of(const std::vector<Kind> &some, const char *wish, bool in_place)
{
    const uint64_t before = fake_net_direct();
    on_hosts(hosts_of({2, 2}), {{"net_gpu_memory", wish}}, [&](Rank &rank) {
        check(rank, call_of(scan, 1)); /* so that each has a GPU in use */
        for (const Kind &kind : some) {
            ExchangeCall call = call_of(kind, 20000); /* too many bytes to go from rank to rank */
            call.in_place = in_place;
            check(rank, call);
        }
    });
    return fake_net_direct() - before;
}
} // namespace

/* Sums, and pairs in place, want memory of the host. */
TEST(cluster_reach, what_goes_from_device_to_device)
{
    const Kind alltoall = {GPUCOLL_ALLTOALL, ALL_TO_ALL, true, true, false};
    const Kind scatter_sums = {GPUCOLL_REDUCE_SCATTER, ALL_TO_ALL, true, false, true};
    const std::vector<Kind> moves = {
        alltoall,
        {GPUCOLL_GATHERV, TO_ROOT, false, true, true},
        {GPUCOLL_BCAST, FROM_ROOT, false, false, false},
        {GPUCOLL_ALLGATHERV, ALL_TO_ALL, false, true, true},
    };
    for (const Kind &kind : moves) {
        EXPECT_GT(direct_of({kind}, "yes", false), 0u) << gpucoll_coll_name(kind.coll);
    }
    EXPECT_EQ(direct_of({scan, scatter_sums}, "yes", false), 0u);
    EXPECT_EQ(direct_of({alltoall, scan}, "yes", true), 0u);
    EXPECT_EQ(direct_of(moves, "auto", false), 0u);
    EXPECT_EQ(direct_of(moves, "no", false), 0u);
}

/* What one host sends from devices, another one receives in host memory, and the other way round. */
TEST(cluster_reach, hosts_that_reach_devices_beside_hosts_that_do_not)
{
    static std::atomic<uint32_t> opened;
    static gpucoll_net_ops mixed = *fake_net_shaken();
    mixed.open = [](const struct gpucoll_config *config, const struct gpucoll_log *log,
                    const struct gpucoll_net_place *place, gpucoll_net **net) {
        static const gpucoll_config no = [] {
            gpucoll_config other;
            gpucoll_config_init(&other);
            return other;
        }();
        return fake_net_shaken()->open(opened++ % 2 == 0 ? config : &no, log, place, net);
    };
    for (const char *name : {"doubling", "ring"}) {
        for (const Hosts &hosts : {hosts_of({2, 2}), hosts_of({1, 1, 1, 1, 1})}) {
            const uint64_t before = fake_net_direct();
            on_hosts(
                hosts, {{"chunk", "4K"}, {"rail_algorithm", name}, {"net_gpu_memory", "yes"}},
                [](Rank &rank) { check_moves(rank, 7001); }, false, &mixed);
            EXPECT_GT(fake_net_direct(), before);
        }
    }
}

/* The network looks, when memory is forgotten, whether a message still has it. */
TEST(cluster_reach, a_call_that_is_given_up_leaves_no_message_on_a_device)
{
    const std::vector<Kind> some = {
        {GPUCOLL_ALLTOALL, ALL_TO_ALL, true, true, false},
        {GPUCOLL_BCAST, FROM_ROOT, false, false, false},
    };
    for (const Kind &kind : some) {
        on_hosts(hosts_of({1, 1}), {{"agree_hosts", "false"}, {"net_gpu_memory", "yes"}}, [&](Rank &rank) {
            check(rank, call_of(scan, 1)); /* so that each has a GPU in use */
            const uint64_t before = fake_net_direct();
            rank.barrier();
            ExchangePart part(call_of(kind, 3000000), rank.number, rank.meeting.size);
            const gpucoll_coll_args args = part.args();
            gpucoll_request *request = nullptr;
            ASSERT_EQ(gpucoll_post(rank.team, &args, &request), GPUCOLL_OK);
            gpucoll_status status = GPUCOLL_IN_PROGRESS;
            while (rank.number == 0 && status == GPUCOLL_IN_PROGRESS && fake_net_direct() == before) {
                status = gpucoll_test(request);
            }
            if (rank.number == 0 && status == GPUCOLL_IN_PROGRESS) {
                gpucoll_cancel(request); /* the other hears of it */
            }
            rank.barrier(); /* before which it cannot have finished */
            while (rank.number > 0 && status == GPUCOLL_IN_PROGRESS) {
                status = gpucoll_test(request);
            }
            EXPECT_NE(status, GPUCOLL_OK);
            EXPECT_FALSE(rank.log.waited_in_vain());
            rank.barrier();
            EXPECT_EQ(fake_net_count().memories, 0u);
            rank.barrier();
        });
    }
}
