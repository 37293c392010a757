/*
 * What ranks of different hosts send each other pair by pair: more messages than the window has room for, in place and not, few
 * ranks with much, messages that are late or fail.
 */
#include "test/unit/exchange_part.h"
#include "test/unit/hosts.h"

namespace
{
const Kind alltoall = {GPUCOLL_ALLTOALL, ALL_TO_ALL, true, true, false};
const Kind alltoallv = {GPUCOLL_ALLTOALLV, ALL_TO_ALL, true, true, true};
const std::vector<Kind> pairwise = {
    alltoall,
    alltoallv,
    {GPUCOLL_GATHERV, TO_ROOT, false, true, true},
    {GPUCOLL_SCATTER, FROM_ROOT, true, false, false},
};

void check_both(Rank &rank, ExchangeCall call)
{
    call.root = rank.meeting.size - 1;
    check(rank, call);
    call.in_place = true;
    check(rank, call);
}
} // namespace

TEST(cluster_pairs, more_messages_than_are_under_way_at_once)
{
    for (const Hosts &hosts : {hosts_of({3, 2, 3}), Hosts{0, 1, 2, 0, 1, 0}}) {
        on_hosts(hosts, {{"chunk", "4K"}}, [](Rank &rank) {
            for (const Kind &kind : pairwise) {
                for (size_t count : {4096, 4097, 100001}) {
                    check_both(rank, call_of(kind, count));
                }
            }
        });
    }
}

/* Two messages a side at once, of more ranks than that. */
TEST(cluster_pairs, a_window_smaller_than_the_number_of_ranks)
{
    on_hosts(hosts_of({1, 2, 1, 1}), {{"chunk", "1M"}}, [](Rank &rank) {
        for (const Kind &kind : {alltoall, alltoallv}) {
            check_both(rank, call_of(kind, 1200001));
        }
    });
}

TEST(cluster_pairs, one_rank_sends_much_to_one_other)
{
    const size_t much = 3000001;
    on_hosts(hosts_of({1, 2, 2}), {}, [&](Rank &rank) {
        check(rank, call_of(alltoall, 1)); /* so that each has a GPU in use */
        std::vector<gpucoll_block> send(5);
        std::vector<gpucoll_block> recv(5);
        send[4].bytes = rank.number == 0 ? much : 0;
        recv[0].bytes = rank.number == 4 ? much : 0;
        Buffer from(send[4].bytes);
        Buffer to(recv[0].bytes);
        const Bytes data = make_input(GPUCOLL_UINT8, much, 1, 0);
        std::copy_n(data.begin(), from.size(), from.data());
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_ALLTOALLV;
        args.send = from.data();
        args.recv = to.data();
        args.send_blocks = send.data();
        args.recv_blocks = recv.data();
        EXPECT_EQ(rank.call(args), GPUCOLL_OK);
        EXPECT_TRUE(std::equal(to.data(), to.data() + to.size(), data.begin()));
        EXPECT_TRUE(to.guards_intact());
    });
}

TEST(cluster_pairs, nothing_at_all)
{
    on_hosts(hosts_of({1, 2}), {}, [](Rank &rank) {
        check(rank, call_of(alltoall, 1)); /* so that each has a GPU in use */
        for (const Kind &kind : pairwise) {
            check_both(rank, call_of(kind, 0));
        }
    });
}

/* What one rank is to receive lies where it has what another is to have. */
TEST(cluster_pairs, buffers_that_overlap_make_all_decline)
{
    on_hosts(hosts_of({1, 2}), {}, [](Rank &rank) {
        Buffer buffer(400);
        std::vector<gpucoll_block> send;
        std::vector<gpucoll_block> recv;
        for (ptrdiff_t i = 0; i < 3; i++) {
            send.push_back({100 * i, 100});
            recv.push_back({100 * i + (rank.number == 1 ? 100 : 0), 100});
        }
        gpucoll_coll_args args = {};
        args.coll = GPUCOLL_ALLTOALL;
        args.send = buffer.data();
        args.recv = buffer.data();
        args.send_blocks = send.data();
        args.recv_blocks = recv.data();
        EXPECT_EQ(rank.call(args), GPUCOLL_DECLINED);
        EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_OVERLAP);
        for (ptrdiff_t i = 0; i < 3; i++) { /* in place, where a run begins within the one before */
            send[i].offset = 50 * i;
            recv[i].offset = 50 * i;
        }
        EXPECT_EQ(rank.call(args), GPUCOLL_DECLINED);
        EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_OVERLAP);
        check(rank, call_of(alltoall, 100));
    });
}

TEST(cluster_pairs, a_rank_that_never_comes_is_named)
{
    on_hosts(hosts_of({1, 1}), {{"timeout", "1"}, {"agree_hosts", "false"}}, [](Rank &rank) {
        if (rank.number == 0) {
            ExchangePart part(call_of(alltoall, 1000), rank.number, rank.meeting.size);
            EXPECT_EQ(rank.call(part.args()), GPUCOLL_ERR_TIMEOUT);
            ASSERT_EQ(rank.log.topics(), std::vector<std::string>{"timeout"});
            EXPECT_NE(rank.log.text_of("timeout").find("Missing ranks:  1\n"), std::string::npos)
                << rank.log.text_of("timeout");
        }
        rank.barrier();
    });
}

namespace
{
void check_failing(const Settings &settings, uint32_t before)
{
    on_hosts(
        hosts_of({2, 1}), settings,
        [](Rank &rank) {
            gpucoll_status status = GPUCOLL_OK;
            for (int turn = 0; turn < 20 && status == GPUCOLL_OK; turn++) {
                ExchangePart part(call_of(alltoall, 20000), rank.number, rank.meeting.size);
                status = rank.call(part.args());
                EXPECT_TRUE(status != GPUCOLL_OK || part.right());
            }
            EXPECT_LT(status, 0) << gpucoll_status_name(status);
            EXPECT_FALSE(rank.log.waited_in_vain());
            rank.barrier();
        },
        false, fake_net_failing(before));
}
} // namespace

TEST(cluster_pairs, a_message_that_fails_ends_the_call_on_all)
{
    for (uint32_t before : {5, 9, 22}) { /* the first is the greeting's */
        check_failing({{"timeout", "60"}, {"chunk", "4K"}}, before);
    }
}

TEST(cluster_pairs, a_message_from_a_device_that_fails_ends_the_call_on_all)
{
    check_failing({{"timeout", "60"}, {"chunk", "4K"}, {"net_gpu_memory", "yes"}}, 9);
}
