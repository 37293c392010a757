/*
 * Who is told that a rank gives a call up, and what goes on all the same.
 */
#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <utility>
#include "test/unit/hosts.h"
#include "test/unit/sum.h"

using Clock = std::chrono::steady_clock;

namespace
{
/* Rank 0 gives a call up, of which each of the others is to hear. */
void expect_told(Rank &rank)
{
    Sum sum(rank, 100, 1);
    const auto begin = Clock::now();
    if (rank.number == 0) {
        gpucoll_request *request = nullptr;
        ASSERT_EQ(gpucoll_post(rank.team, &sum.args, &request), GPUCOLL_OK);
        gpucoll_cancel(request);
    } else {
        EXPECT_EQ(rank.call(sum.args), GPUCOLL_ERR_TIMEOUT);
        EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"peer-gave-up"});
    }
    EXPECT_LT(Clock::now() - begin, soon);
    rank.barrier();
}
} // namespace

namespace
{
thread_local std::set<const gpucoll_net_peer *> sent_to; /* by the rank that is this thread */
thread_local uint32_t sends_made;

const gpucoll_net_ops &counting_net()
{
    static gpucoll_net_ops counting = fake_net;
    counting.send = [](gpucoll_net *net, gpucoll_net_peer *peer, uint64_t tag, const void *data, size_t bytes,
                       gpucoll_net_memory *memory, gpucoll_net_message *message) {
        sent_to.insert(peer);
        sends_made++;
        fake_net.send(net, peer, tag, data, bytes, memory, message);
    };
    return counting;
}
} // namespace

/* Of 13 hosts each agrees on calls with four others. */
TEST(cluster_alarm, an_alarm_comes_to_all_hosts_over_connections_that_are_there)
{
    on_hosts(
        hosts_of(std::vector<uint32_t>(13, 1)), patient,
        [](Rank &rank) {
            Sum sum(rank, 100, 1);
            gpucoll_request *request = nullptr;
            ASSERT_EQ(gpucoll_post(rank.team, &sum.args, &request), GPUCOLL_OK);
            const auto begin = Clock::now();
            if (rank.number == 5) {
                gpucoll_cancel(request);
            } else {
                EXPECT_EQ(Rank::finish(request), GPUCOLL_ERR_TIMEOUT);
                EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"peer-gave-up"});
                EXPECT_NE(rank.log.text_of("peer-gave-up").find("Rank 5 "), std::string::npos)
                    << rank.log.text_of("peer-gave-up");
            }
            EXPECT_LT(Clock::now() - begin, soon);
            EXPECT_LE(sent_to.size(), 4u);
            rank.barrier();
        },
        false, &counting_net());
}

/* It may have been closed for the sake of another team. */
TEST(cluster_alarm, comes_over_a_connection_that_was_lost)
{
    static gpucoll_net_ops torn = fake_net;
    torn.lost = [](gpucoll_net *, const gpucoll_net_peer *) { return true; };
    on_hosts(hosts_of({1, 1}), patient, expect_told, false, &torn);
}

TEST(cluster_alarm, comes_to_a_rank_that_lacked_memory_to_listen)
{
    static gpucoll_net_ops scarce = fake_net;
    scarce.receive = [](gpucoll_net *net, gpucoll_net_peer *from, uint64_t tag, void *data, size_t bytes,
                        gpucoll_net_memory *memory, gpucoll_net_message *message) {
        static thread_local bool refused;
        if (!std::exchange(refused, true)) { /* the team's first, by which it listens */
            message->status = GPUCOLL_ERR_NO_MEMORY;
        } else {
            fake_net.receive(net, from, tag, data, bytes, memory, message);
        }
    };
    on_hosts(hosts_of({1, 1}), patient, expect_told, false, &scarce);
}

/* Rank 3 waits for rank 0 in the stages of a call that this one gives up before it has heard of rank 2. Who would pass it on is through. */
TEST(cluster_alarm, comes_to_who_has_heard_of_all_hosts_before)
{
    std::atomic<bool> told{false};
    std::atomic<uint32_t> through{0};
    on_hosts(
        hosts_of({1, 1, 1, 1}), patient,
        [&](Rank &rank) {
            sum_of(rank, 100);
            Buffer send(500000);
            Buffer recv(500000);
            std::array<gpucoll_block, 4> sent{};
            std::array<gpucoll_block, 4> received{};
            sent[3].bytes = rank.number == 0 ? send.size() : 0;
            received[0].bytes = rank.number == 3 ? recv.size() : 0;
            gpucoll_coll_args args = {};
            args.coll = GPUCOLL_ALLTOALLV;
            args.type = GPUCOLL_UINT8;
            args.send = send.data();
            args.recv = recv.data();
            args.send_blocks = sent.data();
            args.recv_blocks = received.data();
            if (rank.number == 0) {
                gpucoll_request *request = nullptr;
                sends_made = 0;
                ASSERT_EQ(gpucoll_post(rank.team, &args, &request), GPUCOLL_OK);
                while (sends_made < 2) { /* it has heard of rank 3 alone */
                    ASSERT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS);
                    sched_yield();
                }
                told = true;
                while (through < 2) {
                    sched_yield();
                }
                gpucoll_cancel(request);
            } else {
                while (rank.number == 2 && !told) {
                    sched_yield();
                }
                const gpucoll_status status = rank.call(args);
                EXPECT_EQ(status, rank.number == 3 ? GPUCOLL_ERR_TIMEOUT : GPUCOLL_OK);
                through++;
            }
            EXPECT_FALSE(rank.log.waited_in_vain());
            rank.barrier();
        },
        false, &counting_net());
}

namespace
{
thread_local uint32_t
    sends_before_cancel; /* as many as were made when the first message was cancelled; 0: none was */

void note_cancel(const gpucoll_net_message *message)
{
    if (sends_before_cancel == 0 && message->status == GPUCOLL_IN_PROGRESS) {
        sends_before_cancel = sends_made;
    }
}

const gpucoll_net_ops &watched_net()
{
    static gpucoll_net_ops watched = counting_net();
    watched.open = fake_net_lending()->open;
    watched.cancel = [](gpucoll_net *net, gpucoll_net_message *message) {
        note_cancel(message);
        fake_net.cancel(net, message);
    };
    watched.begin_cancel = [](gpucoll_net *net, gpucoll_net_message *message) {
        note_cancel(message);
        fake_net.begin_cancel(net, message);
    };
    return watched;
}
} // namespace

/* To cancel what is under way may take seconds. */
TEST(cluster_alarm, goes_out_before_messages_are_cancelled)
{
    on_hosts(
        hosts_of({1, 1}), {{"timeout", "60"}, {"agree_hosts", "false"}},
        [](Rank &rank) {
            Buffer send(4000);
            Buffer recv(9000);
            const gpucoll_block sent = {0, 4000};
            /* The hosts differ in what rank 0 sends. */
            const gpucoll_block received[] = {{0, rank.number == 1 ? 5000u : 4000u}, {5000, 4000}};
            gpucoll_coll_args args = {};
            args.coll = GPUCOLL_ALLGATHERV;
            args.type = GPUCOLL_UINT8;
            args.send = send.data();
            args.recv = recv.data();
            args.send_blocks = &sent;
            args.recv_blocks = received;
            if (rank.number == 0) { /* it sends, and does not look until rank 1 is through */
                gpucoll_request *request = nullptr;
                sends_made = 0;
                ASSERT_EQ(gpucoll_post(rank.team, &args, &request), GPUCOLL_OK);
                while (sends_made == 0) {
                    ASSERT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS);
                }
                rank.barrier();
                rank.barrier();
                EXPECT_EQ(Rank::finish(request), GPUCOLL_ERR_TIMEOUT);
            } else {
                rank.barrier();
                sends_before_cancel = 0;
                EXPECT_EQ(rank.call(args), GPUCOLL_ERR_MISMATCH);
                EXPECT_GT(sends_before_cancel, 0u);
                EXPECT_EQ(sends_before_cancel, sends_made);
                rank.barrier();
            }
            rank.barrier();
        },
        false, &watched_net());
}

/* ---- what goes on ---- */

/* The communicator is freed before all have come to its warm-up. */
TEST(cluster_alarm, a_warm_up_that_is_cancelled_is_no_alarm)
{
    on_hosts(
        hosts_of({1, 1}), patient,
        [](Rank &rank) {
            gpucoll_coll_args warm_up = {};
            warm_up.coll = GPUCOLL_WARMUP;
            warm_up.form = GPUCOLL_FORM_NONBLOCKING;
            if (rank.number == 0) {
                gpucoll_request *request = nullptr;
                ASSERT_EQ(gpucoll_post(rank.team, &warm_up, &request), GPUCOLL_OK);
                for (int looks = 0; looks < 10; looks++) {
                    ASSERT_EQ(gpucoll_test(request), GPUCOLL_IN_PROGRESS);
                }
                const uint32_t before = sends_made;
                gpucoll_cancel(request);
                EXPECT_EQ(sends_made, before);
            }
            rank.barrier();
        },
        false, &counting_net());
}

/* Rank 0 is through with the first of two broadcasts, whose data has yet to be taken, and gives up the second, which rank 1 hears first. */
TEST(cluster_alarm, ends_no_earlier_call_that_can_be_completed)
{
    on_hosts(
        hosts_of({1, 1}), {{"timeout", "60"}, {"carry", "0"}},
        [](Rank &rank) {
            sum_of(rank, 100);
            std::array<gpucoll_request *, 2> requests{};
            Buffer first(5000);
            Buffer second(5000);
            gpucoll_coll_args args = {};
            args.coll = GPUCOLL_BCAST;
            args.type = GPUCOLL_UINT8;
            const gpucoll_block block = {0, 5000};
            args.send_blocks = args.recv_blocks = &block;
            args.send = args.recv = first.data();
            memset(first.data(), rank.number == 0 ? 7 : 0, 5000);
            if (rank.number == 0) {
                rank.barrier();
                EXPECT_EQ(rank.call(args), GPUCOLL_OK);
                args.send = args.recv = second.data();
                ASSERT_EQ(gpucoll_post(rank.team, &args, requests.data()), GPUCOLL_OK);
                gpucoll_cancel(requests[0]);
                rank.barrier();
            } else {
                ASSERT_EQ(gpucoll_post(rank.team, &args, &requests[0]), GPUCOLL_OK);
                args.send = args.recv = second.data();
                ASSERT_EQ(gpucoll_post(rank.team, &args, &requests[1]), GPUCOLL_OK);
                for (int looks = 0; looks < 100; looks++) { /* it tells that it has come to the first */
                    ASSERT_EQ(gpucoll_test(requests[looks % 2]), GPUCOLL_IN_PROGRESS);
                }
                rank.barrier();
                rank.barrier();
                for (int looks = 0; looks < 100; looks++) {
                    ASSERT_EQ(gpucoll_test(requests[1]), GPUCOLL_IN_PROGRESS);
                }
                EXPECT_EQ(Rank::finish(requests[0]), GPUCOLL_OK);
                EXPECT_EQ(first.data()[4999], 7);
                EXPECT_EQ(Rank::finish(requests[1]), GPUCOLL_ERR_TIMEOUT);
                EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"peer-gave-up"});
            }
            rank.barrier();
        },
        false, fake_net_copying());
}
