/*
 * Teams of several hosts: the collectives that run on them, by shapes of hosts, sizes and buffers; what makes all hosts decline; ranks
 * that pass or differ.
 */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include "test/unit/exchange_part.h"
#include "test/unit/hosts.h"
#include "test/unit/tasks.h"

extern "C" {
#include "core/queue.h"
#include "test/unit/failing.h"
}

namespace
{
/* Even and uneven, one rank a host, ranks of a host apart from each other, a number of hosts that is no power of two. */
const std::vector<Hosts> shapes = {
    hosts_of({2, 2}),    hosts_of({1, 1}), hosts_of({3, 1}),
    hosts_of({1, 2, 3}), {0, 1, 0, 1},     {1, 0, 2, 1, 1, 0, 2},
};

/* Small units: messages of some KiB go in many, and by stages. */
const Settings small_units = {{"chunk", "4K"}, {"flat", "0"}};

/* One call on this rank, checked against all inputs. */
void check_allreduce(Rank &rank, gpucoll_op op, gpucoll_type type, size_t count, bool in_place)
{
    const uint64_t seed = count * 1000 + op * 50u + type;
    std::vector<Bytes> inputs = make_inputs(type, count, seed, rank.meeting.size);
    const Bytes &mine = inputs[rank.number];
    Buffer send(mine.size());
    Buffer recv(mine.size());
    std::copy(mine.begin(), mine.end(), in_place ? recv.data() : send.data());
    gpucoll_coll_args args =
        reduce_all(op, type, in_place ? GPUCOLL_IN_PLACE : send.data(), recv.data(), count);
    gpucoll_status status = rank.call(args);
    EXPECT_EQ(status, GPUCOLL_OK) << gpucoll_status_name(status);
    EXPECT_TRUE(reduces(op, type, inputs, recv.data()))
        << gpucoll_op_name(op) << " of " << gpucoll_type_name(type) << ", count " << count << " in place "
        << in_place << " rank " << rank.number;
    EXPECT_TRUE(send.guards_intact() && recv.guards_intact());
    EXPECT_TRUE(in_place || std::equal(mine.begin(), mine.end(), send.data()));
    EXPECT_TRUE(rank.agree(recv.data(), recv.size())) << "ranks have different bits";
}
} // namespace

TEST(cluster, all_reduce_of_every_size_and_shape)
{
    for (const Hosts &hosts : shapes) {
        on_hosts(hosts, small_units, [](Rank &rank) {
            for (size_t count : {1, 3, 64, 65, 1000, 4099, 20000}) {
                check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_FLOAT32, count, false);
                check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_FLOAT32, count, true);
            }
        });
    }
}

TEST(cluster, all_reduce_of_every_operator_and_type)
{
    on_hosts(hosts_of({2, 1}), {}, [](Rank &rank) {
        for (const NativePair &pair : native_pairs()) {
            check_allreduce(rank, pair.op, pair.type, 37, false);
        }
    });
}

TEST(cluster, exchanges_of_every_size_root_and_shape)
{
    for (const Hosts &hosts : shapes) {
        on_hosts(hosts, small_units, [](Rank &rank) {
            for (const Kind &kind : kinds) {
                const bool rooted = kind.shape == TO_ROOT || kind.shape == FROM_ROOT;
                for (size_t count : {1, 300, 7001}) {
                    for (uint32_t root = 0; root < (rooted ? rank.meeting.size : 1); root++) {
                        ExchangeCall call = call_of(kind, count);
                        call.root = root;
                        call.offset = count % 2;
                        check(rank, call);
                        call.in_place = true;
                        if (can_be_in_place(kind.coll)) {
                            check(rank, call);
                        }
                    }
                }
            }
        });
    }
}

/* Numbers whose sum depends on the order; whole blocks, and such that differ, in several units. */
TEST(cluster, reductions_in_rank_order_have_the_bits_of_one_host)
{
    for (const Hosts &hosts : shapes) {
        on_hosts(hosts, {{"deterministic", "true"}, {"chunk", "4K"}}, [](Rank &rank) {
            for (size_t count : {1, 5003, 20000}) {
                const std::vector<Bytes> inputs = make_inputs(GPUCOLL_FLOAT32, count, 7, rank.meeting.size);
                const Bytes &mine = inputs[rank.number];
                Buffer recv(mine.size());
                std::copy(mine.begin(), mine.end(), recv.data());
                EXPECT_EQ(
                    rank.call(reduce_all(GPUCOLL_SUM, GPUCOLL_FLOAT32, GPUCOLL_IN_PLACE, recv.data(), count)),
                    GPUCOLL_OK);
                const Bytes expected = reduce_in_order(GPUCOLL_SUM, GPUCOLL_FLOAT32, inputs);
                EXPECT_TRUE(std::equal(expected.begin(), expected.end(), recv.data()));
                for (const Kind &kind : kinds) {
                    ExchangeCall call = call_of(kind, count);
                    call.type = GPUCOLL_FLOAT32;
                    call.root = static_cast<uint32_t>(count % rank.meeting.size);
                    if (gpucoll_coll_reduces(kind.coll)) {
                        check_both_places(rank, call);
                    }
                }
            }
        });
    }
}

TEST(cluster, scans_in_rank_order_have_the_bits_of_one_host)
{
    const size_t count = 5003;
    for (const Hosts &hosts : shapes) {
        on_hosts(hosts, {{"deterministic", "true"}, {"chunk", "4K"}}, [&](Rank &rank) {
            for (gpucoll_coll coll : {GPUCOLL_SCAN, GPUCOLL_EXSCAN}) {
                const uint32_t operands = rank.number + (coll == GPUCOLL_SCAN);
                std::vector<Bytes> inputs = make_inputs(GPUCOLL_FLOAT32, count, 7, rank.meeting.size);
                const Bytes mine = inputs[rank.number];
                inputs.resize(operands);
                Buffer send(mine.size());
                Buffer recv(mine.size());
                std::copy(mine.begin(), mine.end(), send.data());
                const gpucoll_block block = {0, mine.size()};
                gpucoll_coll_args args = {};
                args.coll = coll;
                args.op = GPUCOLL_SUM;
                args.type = GPUCOLL_FLOAT32;
                args.send = send.data();
                args.recv = recv.data();
                args.send_blocks = &block;
                args.recv_blocks = operands > 0 ? &block : nullptr;
                EXPECT_EQ(rank.call(args), GPUCOLL_OK);
                if (operands > 0) {
                    const Bytes expected = reduce_in_order(GPUCOLL_SUM, GPUCOLL_FLOAT32, inputs);
                    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), recv.data()));
                }
            }
        });
    }
}

TEST(cluster, messages_that_are_late)
{
    for (const Hosts &hosts : shapes) {
        on_hosts(
            hosts, small_units,
            [](Rank &rank) {
                for (const Kind &kind : kinds) {
                    ExchangePart part(call_of(kind, 3000), rank.number, rank.meeting.size);
                    EXPECT_EQ(rank.call(part.args()), GPUCOLL_OK) << part.text();
                    EXPECT_TRUE(part.right()) << part.text();
                    gpucoll_barrier_start(rank.team);
                    while (gpucoll_barrier_test(rank.team) == GPUCOLL_IN_PROGRESS) {
                        sched_yield();
                    }
                }
            },
            false, fake_net_shaken());
    }
}

/* ---- what differs from host to host ---- */

TEST(cluster, host_memory_on_one_rank_makes_all_hosts_decline)
{
    for (const Hosts &hosts : shapes) {
        on_hosts(hosts, {}, [](Rank &rank) {
            for (uint32_t odd = 0; odd < rank.meeting.size; odd++) {
                const gpucoll_memory memory =
                    rank.number == odd ? GPUCOLL_MEMORY_HOST : GPUCOLL_MEMORY_DEVICE;
                Sum sum(rank, 100, 1, memory, memory);
                EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED) << "rank " << rank.number << " odd " << odd;
                EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_MEMORY);
                EXPECT_TRUE(sum.untouched());
                Sum next(rank, 100, 2);
                EXPECT_EQ(rank.call(next.args), GPUCOLL_OK);
                EXPECT_TRUE(next.right());
            }
        });
    }
}

TEST(cluster, other_counts_on_another_host_are_an_error_on_all)
{
    for (const Hosts &hosts : {hosts_of({2, 2}), hosts_of({1, 1}), hosts_of({1, 2, 3})}) {
        on_hosts(hosts, {}, [&](Rank &rank) {
            Sum sum(rank, 100 + hosts[rank.number], 1);
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_ERR_MISMATCH);
            EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"arguments-differ"});
            Sum one_rank(rank, rank.number == 1 ? 50 : 60, 1);
            EXPECT_EQ(rank.call(one_rank.args), GPUCOLL_ERR_MISMATCH);
            Sum next(rank, 100, 2);
            EXPECT_EQ(rank.call(next.args), GPUCOLL_OK);
            EXPECT_TRUE(next.right());
        });
    }
}

TEST(cluster, ranks_that_pass_make_all_hosts_decline_and_wait_for_nobody)
{
    for (const Hosts &hosts : shapes) {
        on_hosts(hosts, {}, [](Rank &rank) {
            for (int turn = 0; turn < 3; turn++) {
                gpucoll_pass(rank.team); /* so do all */
            }
            for (int turn = 0; turn < 20; turn++) { /* rank 0, or a host of its own, passes to the end */
                if (rank.number == 0) {
                    gpucoll_pass(rank.team);
                } else {
                    Sum sum(rank, 10, turn);
                    EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED) << "rank " << rank.number;
                    EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_PASSED);
                }
            }
            Sum sum(rank, 1000, 1);
            EXPECT_EQ(rank.call(sum.args), GPUCOLL_OK);
            EXPECT_TRUE(sum.right());
            rank.barrier();
        });
    }
}

/* Others come to the calls when it has been freed: what they tell is taken nevertheless. Of the last call they do not tell at all. */
TEST(cluster, a_team_that_is_freed_after_calls_that_it_has_passed)
{
    for (const Hosts &hosts : {hosts_of({1, 1}), hosts_of({2, 1, 2})}) {
        on_hosts(hosts, {}, [](Rank &rank) {
            enum { CALLS = 5 };
            if (rank.number == 0) {
                for (int call = 0; call < CALLS; call++) {
                    gpucoll_pass(rank.team);
                }
                gpucoll_team_destroy(rank.team);
                rank.team = nullptr;
                EXPECT_TRUE(test_keeps_teams(rank.context));
            }
            rank.barrier();
            for (int call = 0; call < CALLS && rank.number != 0; call++) {
                Sum sum(rank, 10, call);
                EXPECT_EQ(rank.call(sum.args), GPUCOLL_DECLINED);
                EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_PASSED);
            }
            rank.barrier();
            for (int looks = 0; looks < 10000 && (looks < 10 || test_keeps_teams(rank.context)); looks++) {
                gpucoll_context_turn_net(rank.context);
            }
            EXPECT_FALSE(test_keeps_teams(rank.context));
            rank.barrier();
            EXPECT_EQ(fake_net_count().unclaimed, 0u);
            rank.barrier();
        });
        on_hosts(hosts, {}, [](Rank &rank) {
            if (rank.number == 0) {
                gpucoll_pass(rank.team);
            }
            rank.barrier();
        });
    }
}

TEST(cluster, without_agreement_of_hosts_calls_run_as_well)
{
    on_hosts(hosts_of({2, 1, 2}), {{"agree_hosts", "false"}}, [](Rank &rank) {
        for (size_t count : {1, 100, 5000}) {
            check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_INT32, count, true);
        }
        for (const Kind &kind : kinds) {
            check(rank, call_of(kind, 10));
        }
    });
}

/* Messages of one all-reduce of few bytes, of all ranks, by each algorithm: which one runs can be counted. */
TEST(cluster, the_algorithm_between_hosts_is_the_one_that_is_asked_for)
{
    static std::atomic<unsigned> sends;
    static gpucoll_net_ops counting = fake_net;
    counting.send = [](gpucoll_net *net, gpucoll_net_peer *peer, uint64_t tag, const void *data, size_t bytes,
                       gpucoll_net_memory *memory, gpucoll_net_message *message) {
        sends++;
        fake_net.send(net, peer, tag, data, bytes, memory, message);
    };
    std::map<std::string, unsigned> counted;
    for (const char *name : {"doubling", "ring", "tree"}) {
        on_hosts(
            hosts_of({1, 1, 1, 1, 1}), {{"rail_algorithm", name}, {"agree_hosts", "false"}},
            [&](Rank &rank) {
                check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_INT32, 1000, true); /* connects */
                rank.barrier();
                if (rank.number == 0) {
                    sends = 0;
                }
                rank.barrier();
                check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_INT32, 1000, true);
                rank.barrier();
                if (rank.number == 0) {
                    counted[name] = sends;
                }
                rank.barrier();
                for (const Kind &kind : kinds) {
                    check(rank, call_of(kind, 10));
                }
            },
            false, &counting);
    }
    EXPECT_EQ(counted["doubling"], 10u); /* one of 5 hosts folds, 4 double twice, one unfolds */
    EXPECT_EQ(counted["tree"], 16u);     /* 2 trees of 4 edges, up and down */
    EXPECT_EQ(counted["ring"], 40u);     /* 5 hosts, twice 4 steps */
}

/* ---- the barrier ---- */

TEST(cluster, nobody_leaves_a_barrier_before_all_have_come)
{
    for (const Hosts &hosts : shapes) {
        std::atomic<uint32_t> entered{0};
        on_hosts(hosts, {}, [&](Rank &rank) {
            for (uint32_t turn = 1; turn <= 50; turn++) {
                entered++;
                EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_OK);
                EXPECT_GE(entered, turn * rank.meeting.size);
                if (turn % 7 == 0) {
                    check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_INT32, turn, false);
                }
            }
        });
    }
}

/* ---- what has not left yet ---- */

TEST(cluster, a_call_ends_when_its_messages_have_left)
{
    for (size_t count : {1, 20000}) {
        on_hosts(
            hosts_of({1, 1}), small_units,
            [count](Rank &rank) {
                check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_FLOAT32, count, false);
                rank.meeting.barrier();
                EXPECT_EQ(fake_net_count().held, 0u);
            },
            false, fake_net_holding(5));
    }
}

TEST(cluster, a_call_does_not_wait_long_for_its_messages_to_leave)
{
    on_hosts(
        hosts_of({1, 1}), small_units,
        [](Rank &rank) {
            const auto start = std::chrono::steady_clock::now();
            check_allreduce(rank, GPUCOLL_SUM, GPUCOLL_FLOAT32, 20000, false);
            const auto taken = std::chrono::steady_clock::now() - start;
            EXPECT_GE(taken, std::chrono::milliseconds(10));
            EXPECT_LT(taken, std::chrono::seconds(5));
            EXPECT_GT(fake_net_count().held, 0u);
        },
        false, fake_net_holding(UINT32_MAX));
}

/* Whose words may be all that another rank waits for. */
TEST(cluster, a_barrier_ends_when_its_messages_have_left)
{
    on_hosts(
        hosts_of({1, 1, 1}), {},
        [](Rank &rank) {
            EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_OK);
            rank.meeting.barrier();
            EXPECT_EQ(fake_net_count().held, 0u);
        },
        false, fake_net_holding(5));
}

/* ---- several calls at once ---- */

namespace
{
gpucoll_status finish_barrier(Queue &queue)
{
    gpucoll_status status;
    while ((status = gpucoll_queue_barrier_test(&queue.queue)) == GPUCOLL_IN_PROGRESS) {
        sched_yield();
    }
    return status;
}
} // namespace

TEST(cluster, a_barrier_beside_tasks)
{
    on_hosts(hosts_of({2, 1, 1}), {{"progress_thread", "true"}}, [](Rank &rank) {
        Queue queue(rank, rank.team);
        for (int turn = 0; turn < 100; turn++) {
            Task first(rank, 100 + turn, turn);
            Task second(rank, 3000, turn);
            first.post(queue);
            second.post(queue);
            gpucoll_queue_barrier_start(&queue.queue);
            EXPECT_EQ(finish_barrier(queue), GPUCOLL_OK);
            EXPECT_EQ(first.wait(), GPUCOLL_OK);
            EXPECT_EQ(second.wait(), GPUCOLL_OK);
            EXPECT_TRUE(first.sum.right() && second.sum.right());
        }
    });
}

/* Whoever has the queue's lock, such as the progress thread, is at the team's network. */
TEST(cluster, a_barrier_waits_for_who_moves_tasks_on)
{
    on_hosts(hosts_of({1, 1}), {}, [](Rank &rank) {
        const auto moment = std::chrono::milliseconds(50);
        Queue queue(rank, rank.team);
        std::atomic<bool> started{false};
        std::atomic<bool> ended{false};
        pthread_mutex_lock(&queue.queue.lock);
        std::thread application([&] {
            gpucoll_queue_barrier_start(&queue.queue);
            started = true;
            EXPECT_EQ(finish_barrier(queue), GPUCOLL_OK);
            ended = true;
        });
        std::this_thread::sleep_for(moment);
        EXPECT_FALSE(started);
        pthread_mutex_unlock(&queue.queue.lock);
        application.join();
        EXPECT_TRUE(ended);
    });
}

/* It keeps others from them. */
TEST(cluster, who_waits_in_a_barrier_moves_tasks_on)
{
    on_hosts(hosts_of({1, 1}), {{"progress_thread", "false"}}, [](Rank &rank) {
        Queue queue(rank, rank.team);
        Task task(rank, 3000, 1);
        task.post(queue);
        if (rank.number == 0) {
            gpucoll_queue_barrier_start(&queue.queue);
            EXPECT_EQ(finish_barrier(queue), GPUCOLL_OK);
        } else {
            EXPECT_EQ(task.wait(&queue), GPUCOLL_OK);
            gpucoll_queue_barrier_start(&queue.queue);
            EXPECT_EQ(finish_barrier(queue), GPUCOLL_OK);
        }
        EXPECT_EQ(task.wait(&queue), GPUCOLL_OK);
        EXPECT_TRUE(task.sum.right());
    });
}

/* As it does for one of a single host: 512 shares on each. */
TEST(cluster, what_the_host_does_for_a_local_call_changes_the_whole)
{
    std::atomic<long> changes{0};
    on_hosts(hosts_of({2, 2}),
             {{"progress_thread", "false"}, {"transports", "cpu_reduce,rdma"}, {"cpu_threads", "0"}},
             [&changes](Rank &rank) { changes += changes_of_a_sum(rank, size_t{1} << 20); });
    EXPECT_GE(changes, 512);
}

TEST(cluster, many_tasks_at_once)
{
    for (const char *thread : {"true", "false"}) {
        on_hosts(hosts_of({2, 1}), {{"progress_thread", thread}, {"chunk", "4K"}}, [](Rank &rank) {
            Queue queue(rank, rank.team);
            std::deque<Task> tasks;
            for (int i = 0; i < 60; i++) {
                tasks.emplace_back(rank, 1 + i % 7 * 1500, i);
                tasks.back().post(queue);
            }
            for (Task &task : tasks) {
                ASSERT_EQ(task.wait(&queue), GPUCOLL_OK);
                ASSERT_TRUE(task.sum.right());
            }
        });
    }
}

/* Each with a lane or two for all: a rank may give its last lane to the one team, its neighbour to the other. */
TEST(cluster, two_teams_at_once_with_few_lanes)
{
    const int calls = 3;
    for (const char *lanes : {"1", "2"}) {
        const Hosts hosts = hosts_of({2, 2});
        Meeting second(static_cast<uint32_t>(hosts.size()));
        spread(second, hosts);
        on_hosts(hosts, {{"lanes", lanes}, {"chunk", "4K"}}, [&](Rank &rank) {
            gpucoll_team *other = nullptr;
            ASSERT_EQ(rank.make_team(second, 1, &other), GPUCOLL_OK);
            {
                Queue queue(rank, rank.team);
                Queue other_queue(rank, other);
                std::deque<Task> tasks;
                std::deque<Task> other_tasks;
                for (int i = 0; i < calls; i++) {
                    tasks.emplace_back(rank, 1000 + i, i);
                    other_tasks.emplace_back(rank, 3000 + i, i);
                    if (rank.number % 2 == 0) {
                        tasks.back().post(queue);
                        other_tasks.back().post(other_queue);
                    } else {
                        other_tasks.back().post(other_queue);
                        tasks.back().post(queue);
                    }
                }
                for (int i = 0; i < calls; i++) {
                    ASSERT_EQ(tasks[i].wait(&queue), GPUCOLL_OK);
                    ASSERT_TRUE(tasks[i].sum.right());
                    ASSERT_EQ(other_tasks[i].wait(&other_queue), GPUCOLL_OK);
                    ASSERT_TRUE(other_tasks[i].sum.right());
                }
            }
            rank.barrier();
            gpucoll_team_destroy(other);
        });
    }
}
