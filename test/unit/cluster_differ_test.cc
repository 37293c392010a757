/*
 * Ranks of several hosts that bring lengths that do not fit: which of them are told before the call, and which only by a message, with the call at
 * work.
 */
#include <array>
#include <atomic>
#include <thread>
#include "test/unit/hosts.h"
#include "test/unit/sum.h"

namespace
{
/* Blocks of `bytes`, one for each rank, behind each other, and a buffer that holds them. */
struct Blocks {
    Blocks(uint32_t ranks, uint64_t bytes) : buffer(ranks * 2 * bytes)
    {
        for (uint32_t i = 0; i < ranks; i++) {
            blocks.push_back({static_cast<ptrdiff_t>(2 * i * bytes), bytes});
        }
    }
    Buffer buffer;
    std::vector<gpucoll_block> blocks;
};

gpucoll_coll_args args_of(gpucoll_coll coll, Blocks &send, Blocks &recv)
{
    gpucoll_coll_args args = {};
    args.coll = coll;
    args.op = GPUCOLL_SUM;
    args.type = GPUCOLL_UINT8;
    args.send = send.buffer.data();
    args.recv = recv.buffer.data();
    args.send_blocks = send.blocks.data();
    args.recv_blocks = recv.blocks.data();
    return args;
}

/* A call that some rank ends with `status`, which may not have been one of those whose part was complete: then no rank runs anything
 * natively any more, and nothing of the call is under way. */
void expect_over(Rank &rank, gpucoll_status status, bool differs)
{
    EXPECT_TRUE(status == GPUCOLL_ERR_MISMATCH || (!differs && status != GPUCOLL_DECLINED))
        << gpucoll_status_name(status);
    rank.barrier();
    Sum next(rank, 100, 1);
    const gpucoll_status after = rank.call(next.args);
    EXPECT_TRUE(after == GPUCOLL_DECLINED || (!differs && after == GPUCOLL_ERR_TIMEOUT))
        << gpucoll_status_name(after);
    rank.barrier();
    for (int turn = 0; turn < 10; turn++) { /* so that all alarms are heard */
        EXPECT_EQ(rank.call(next.args), GPUCOLL_DECLINED);
    }
    rank.barrier();
    EXPECT_EQ(fake_net_count().under_way, rank.meeting.size); /* each listens for alarms */
    EXPECT_FALSE(rank.log.waited_in_vain());
    rank.barrier();
}
} // namespace

/* What one rank sends and another expects is known to the two alone: a message tells. */
TEST(cluster_failure, a_length_that_a_message_tells_ends_the_call_on_all)
{
    for (const Hosts &hosts : {hosts_of({2, 2}), hosts_of({1, 1}), hosts_of({1, 2, 1})}) {
        on_hosts(hosts, {{"timeout", "60"}, {"chunk", "4K"}}, [](Rank &rank) {
            const uint32_t ranks = rank.meeting.size;
            Sum first(rank, 100, 1);
            EXPECT_EQ(rank.call(first.args), GPUCOLL_OK);
            Blocks send(ranks, 100000);
            Blocks recv(ranks, 100000);
            if (rank.number == 0) {
                recv.blocks[ranks - 1].bytes = 9000; /* two messages, and a shorter one */
            }
            const gpucoll_status status = rank.call(args_of(GPUCOLL_ALLTOALLV, send, recv));
            expect_over(rank, status, rank.number == 0);
        });
    }
}

namespace
{
/* Ranks that are through; others wait for them where it has to be certain who is. */
class Through
{
  public:
    void note(const Rank &rank) { ranks |= 1u << rank.number; }
    void await(uint32_t those) const
    {
        while ((ranks & those) != those) {
            std::this_thread::yield();
        }
    }

  private:
    std::atomic<uint32_t> ranks{0};
};

/* Nobody asks what others bring, so a host may be through before another begins. */
const Settings unasked = {{"timeout", "60"}, {"agree_hosts", "false"}, {"rail_algorithm", "ring"}};
/* So many along a ring are all under way at once. */
const uint64_t few_units = 600000;
} // namespace

/* Whoever would pass it on may be through with the call, and stay away for long: who waits for a rank is told by that one itself. Rank 3 sends
 * to rank 0, which is told by rank 2 alone what its host brings. */
TEST(cluster_failure, who_waits_for_a_rank_that_gives_up_is_told_by_it)
{
    Through through;
    on_hosts(
        hosts_of({2, 2}), unasked,
        [&](Rank &rank) {
            sum_of(rank, 100);
            Blocks send(4, 500000);
            Blocks recv(4, 500000);
            for (uint32_t other = 0; other < 4; other++) {
                send.blocks[other].bytes = rank.number == 3 && other == 0 ? 500000 : 0;
                recv.blocks[other].bytes = rank.number == 0 && other == 3 ? 9000 : 0;
            }
            if (rank.number == 0) {
                through.await(1u << 2);
            }
            const gpucoll_status status = rank.call(args_of(GPUCOLL_ALLTOALLV, send, recv));
            through.note(rank);
            EXPECT_TRUE(status == GPUCOLL_OK || rank.number != 2);
            expect_over(rank, status, rank.number == 0);
        },
        false, fake_net_lending());
}

/* The same of a chain of hosts. */
TEST(cluster_failure, who_waits_for_a_host_that_gives_up_is_told_by_it)
{
    Through through;
    on_hosts(
        hosts_of({1, 1, 1, 1, 1, 1}), unasked,
        [&](Rank &rank) {
            Blocks send(1, few_units);
            Blocks recv(1, rank.number == 5 ? few_units / 2 : few_units);
            if (rank.number == 5) {
                through.await(0xf);
            }
            const gpucoll_status status = rank.call(args_of(GPUCOLL_BCAST, send, recv));
            through.note(rank);
            EXPECT_EQ(status == GPUCOLL_OK, rank.number < 4);
            expect_over(rank, status, rank.number == 5);
        },
        false, fake_net_lending());
}

/* It gives the call up before it has had to do with anybody in it. Rank 6 sends to rank 7, which sends to rank 0; that is told anyway. */
TEST(cluster_failure, who_waits_for_a_host_that_does_not_begin_is_told_by_it)
{
    Through through;
    on_hosts(
        hosts_of({1, 1, 1, 1, 1, 1, 1, 1}), unasked,
        [&](Rank &rank) {
            Blocks send(1, few_units);
            Blocks recv(1, few_units);
            const gpucoll_coll_args args = args_of(GPUCOLL_REDUCE, send, recv);
            gpucoll_status status = GPUCOLL_ERR_TIMEOUT;
            if (rank.number == 7) {
                gpucoll_request *request = nullptr;
                through.await(0x3e);
                ASSERT_EQ(gpucoll_post(rank.team, &args, &request), GPUCOLL_OK);
                gpucoll_cancel(request);
            } else {
                status = rank.call(args);
                through.note(rank);
            }
            EXPECT_EQ(status == GPUCOLL_OK, rank.number >= 1 && rank.number <= 5);
            expect_over(rank, status, false);
        },
        false, fake_net_lending());
}

/* A rank that has given up a call ends its later ones as well, of which it knows only that others have not come: these pass on its own alarm, and
 * say no more. */
TEST(cluster_failure, a_later_call_of_a_rank_that_gives_up_ends)
{
    on_hosts(
        hosts_of({1, 1}), {{"timeout", "60"}},
        [](Rank &rank) {
            sum_of(rank, 100);
            Blocks send(2, 500000);
            Blocks recv(2, 500000);
            Sum later(rank, 100, 2);
            std::array<gpucoll_request *, 2> requests{};
            std::array<gpucoll_status, 2> ends = {GPUCOLL_IN_PROGRESS, GPUCOLL_IN_PROGRESS};
            if (rank.number == 0) {
                recv.blocks[1].bytes = 9000;
            } else {
                rank.barrier();
            }
            const gpucoll_coll_args args = args_of(GPUCOLL_ALLTOALLV, send, recv);
            ASSERT_EQ(gpucoll_post(rank.team, &args, &requests[0]), GPUCOLL_OK);
            if (rank.number == 0) {
                ASSERT_EQ(gpucoll_post(rank.team, &later.args, &requests[1]), GPUCOLL_OK);
                for (int looks = 0; looks < 100; looks++) { /* it tells what it brings to both */
                    ASSERT_EQ(gpucoll_test(requests[looks % 2]), GPUCOLL_IN_PROGRESS);
                }
                rank.barrier();
            }
            for (size_t i = 0;
                 ends[0] == GPUCOLL_IN_PROGRESS || (requests[1] != nullptr && ends[1] == GPUCOLL_IN_PROGRESS);
                 i ^= 1) {
                if (requests[i] != nullptr && ends[i] == GPUCOLL_IN_PROGRESS) {
                    ends[i] = gpucoll_test(requests[i]);
                }
            }
            EXPECT_EQ(ends[0], rank.number == 0 ? GPUCOLL_ERR_MISMATCH : GPUCOLL_ERR_TIMEOUT);
            EXPECT_EQ(ends[1], rank.number == 0 ? GPUCOLL_ERR_TIMEOUT : GPUCOLL_IN_PROGRESS);
            EXPECT_FALSE(rank.log.waited_in_vain());
            EXPECT_EQ(rank.call(later.args), GPUCOLL_DECLINED);
            rank.barrier();
        },
        false, fake_net_lending());
}

/* The same along a rail, where hosts do not agree before. */
TEST(cluster_failure, a_length_that_a_rail_tells_ends_the_call_on_all)
{
    for (const Hosts &hosts : {hosts_of({1, 1}), hosts_of({2, 2})}) {
        on_hosts(hosts, {{"timeout", "60"}, {"agree_hosts", "false"}}, [&](Rank &rank) {
            const uint32_t ranks = rank.meeting.size;
            Blocks send(1, 4000);
            Blocks recv(ranks, 4000);
            if (hosts[rank.number] == 1) {
                recv.blocks[0].bytes = 5000;
            }
            const gpucoll_status status = rank.call(args_of(GPUCOLL_ALLGATHERV, send, recv));
            /* Rank 0 is on the rail of the first of the other host. */
            expect_over(rank, status, rank.number == hosts.size() / 2);
        });
    }
}

/* What all ranks name is told beforehand. */
TEST(cluster_failure, lengths_of_common_blocks_that_differ_leave_the_team_usable)
{
    const Hosts hosts = hosts_of({2, 2});
    on_hosts(hosts, {{"timeout", "60"}}, [&](Rank &rank) {
        for (gpucoll_coll coll : {GPUCOLL_ALLGATHERV, GPUCOLL_REDUCE_SCATTER}) {
            Blocks one(1, 400);
            Blocks all(4, 400);
            all.blocks[2].bytes = hosts[rank.number] == 0 ? 300 : 400;
            const bool gathers = coll == GPUCOLL_ALLGATHERV;
            EXPECT_EQ(rank.call(args_of(coll, gathers ? one : all, gathers ? all : one)),
                      GPUCOLL_ERR_MISMATCH);
            EXPECT_EQ(rank.log.topics().back(), "arguments-differ");
            Sum next(rank, 100, 1);
            EXPECT_EQ(rank.call(next.args), GPUCOLL_OK);
            EXPECT_TRUE(next.right());
        }
    });
}
