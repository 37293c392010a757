/*
 * The barrier that nobody waits in, a call among others: it ends on no rank before all have come, on one host and on several, whoever
 * moves it on.
 */
#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include "test/unit/hosts.h"
#include "test/unit/tasks.h"

namespace
{
const std::vector<Hosts> shapes = {
    hosts_of({1}),    hosts_of({3}),   hosts_of({2, 2}),      hosts_of({1, 1}),
    hosts_of({3, 1}), {0, 1, 0, 2, 1}, {1, 0, 2, 1, 1, 0, 2},
};

const gpucoll_coll_args barrier = [] {
    gpucoll_coll_args args = {};
    args.coll = GPUCOLL_BARRIER;
    args.form = GPUCOLL_FORM_NONBLOCKING;
    return args;
}();

/* A network that takes a message from its sender only when that has looked at the network some times more. */
struct Held {
    gpucoll_net_peer *peer;
    uint64_t tag;
    const void *data;
    size_t bytes;
    gpucoll_net_message *message;
    int looks;
};
std::mutex held_mutex;
std::map<gpucoll_net *, std::list<Held>> held;

void hold(gpucoll_net *net, gpucoll_net_peer *peer, uint64_t tag, const void *data, size_t bytes,
          gpucoll_net_memory *memory, gpucoll_net_message *message)
{
    EXPECT_EQ(memory, nullptr);
    std::lock_guard<std::mutex> lock(held_mutex);
    message->status = GPUCOLL_IN_PROGRESS;
    held[net].push_back({peer, tag, data, bytes, message, 8});
}

bool look(gpucoll_net *net)
{
    {
        std::lock_guard<std::mutex> lock(held_mutex);
        std::list<Held> &waiting = held[net];
        while (!waiting.empty() && waiting.front().looks-- == 0) {
            const Held &first = waiting.front();
            fake_net.send(net, first.peer, first.tag, first.data, first.bytes, nullptr, first.message);
            waiting.pop_front();
        }
    }
    return fake_net.progress(net);
}

void drop(gpucoll_net *net, gpucoll_net_message *message)
{
    {
        std::lock_guard<std::mutex> lock(held_mutex);
        held[net].remove_if([&](const Held &one) { return one.message == message; });
    }
    fake_net.cancel(net, message);
}

const gpucoll_net_ops *slow_net()
{
    static gpucoll_net_ops slow = fake_net;
    slow.send = hold;
    slow.progress = look;
    slow.cancel = drop;
    return &slow;
}

/* Many barriers, to each of which another rank comes late. */
void check_all_come(const Hosts &hosts, const Settings &settings)
{
    std::atomic<uint32_t> entered{0};
    on_hosts(hosts, settings, [&](Rank &rank) {
        Queue queue(rank, rank.team);
        const uint32_t size = rank.meeting.size;
        for (uint32_t turn = 1; turn <= 40; turn++) {
            gpucoll_task task;
            if (turn % size == rank.number) {
                std::this_thread::sleep_for(std::chrono::microseconds(300));
            }
            entered++;
            ASSERT_EQ(gpucoll_queue_post(&queue.queue, &barrier, &task), GPUCOLL_OK);
            while (gpucoll_task_status(&task) == GPUCOLL_IN_PROGRESS) {
                gpucoll_queue_progress(&queue.queue);
                sched_yield();
            }
            ASSERT_EQ(gpucoll_task_status(&task), GPUCOLL_OK);
            EXPECT_GE(entered, turn * size) << "rank " << rank.number << ", hosts " << text_of(hosts);
        }
        rank.barrier();
    });
}
} // namespace

TEST(barrier_call, nobody_leaves_before_all_have_come)
{
    for (const Hosts &hosts : shapes) {
        check_all_come(hosts, {{"progress_thread", "true"}});
        check_all_come(hosts, {{"progress_thread", "false"}});
    }
}

/* Then nothing is told of a call that all hosts are known to run; but that all have come is. */
TEST(barrier_call, nobody_leaves_early_without_agreement_of_hosts)
{
    for (const Hosts &hosts : shapes) {
        check_all_come(hosts, {{"agree_hosts", "false"}});
    }
}

TEST(barrier_call, ends_while_nobody_looks_at_it)
{
    for (const Hosts &hosts : {hosts_of({3}), hosts_of({2, 1, 1})}) {
        on_hosts(hosts, {{"progress_thread", "true"}}, [](Rank &rank) {
            Queue queue(rank, rank.team);
            for (int turn = 0; turn < 10; turn++) {
                gpucoll_task task;
                if (turn % static_cast<int>(rank.meeting.size) == static_cast<int>(rank.number)) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(5));
                }
                ASSERT_EQ(gpucoll_queue_post(&queue.queue, &barrier, &task), GPUCOLL_OK);
                const uint64_t end = gpucoll_now_ns() + 60000000000u;
                while (gpucoll_task_status(&task) == GPUCOLL_IN_PROGRESS && gpucoll_now_ns() < end) {
                    std::this_thread::sleep_for(std::chrono::microseconds(50));
                }
                ASSERT_EQ(gpucoll_task_status(&task), GPUCOLL_OK);
            }
            rank.barrier();
        });
    }
}

/* The last one to come is through at once, and may look no more: what it has told the others is on its way by then. (Unless it
 * loses the CPU for the millisecond in which it sees to that, which does not happen time after time.) */
TEST(barrier_call, who_is_through_has_told_the_others)
{
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the millisecond in which a rank sees to that is too short for the thread sanitizer";
#endif
    static std::atomic<bool> told;
    told = false;
    const auto body = [](Rank &rank) {
        Queue queue(rank, rank.team);
        gpucoll_task task;
        if (rank.number == 1) {
            rank.barrier();
        }
        ASSERT_EQ(gpucoll_queue_post(&queue.queue, &barrier, &task), GPUCOLL_OK);
        if (rank.number == 0) {
            for (int i = 0; i < 100; i++) {
                gpucoll_queue_progress(&queue.queue);
            }
            rank.barrier();
        }
        const uint64_t end = gpucoll_now_ns() + 2000000000u;
        while (gpucoll_task_status(&task) == GPUCOLL_IN_PROGRESS && gpucoll_now_ns() < end) {
            gpucoll_queue_progress(&queue.queue);
            if (rank.number == 0) { /* who yields to others who compute has lost that millisecond */
                sched_yield();
            }
        }
        if (rank.number == 0) {
            told = gpucoll_task_status(&task) == GPUCOLL_OK;
        } else {
            EXPECT_EQ(gpucoll_task_status(&task), GPUCOLL_OK);
        }
        rank.barrier();
    };
    for (int attempt = 0; attempt < 5 && !told; attempt++) {
        on_hosts(hosts_of({1, 1}), {{"progress_thread", "false"}}, body, false, slow_net());
    }
    EXPECT_TRUE(told) << "rank 0 does not learn that rank 1 has come";
}

TEST(barrier_call, needs_no_links_between_gpus)
{
    for (const auto &[hosts, transports] : {std::pair{hosts_of({3}), "none"}, {hosts_of({2, 1}), "rdma"}}) {
        on_hosts(hosts, {{"transports", transports}}, [](Rank &rank) {
            gpucoll_setups setups = {};
            gpucoll_context_count_setups_in(rank.context, &setups);
            EXPECT_EQ(rank.call(barrier), GPUCOLL_OK);
            EXPECT_EQ(setups.links, 0u);
            rank.barrier();
        });
    }
}

TEST(barrier_call, a_rank_that_passes_makes_all_decline)
{
    for (const Hosts &hosts : {hosts_of({3}), hosts_of({2, 1}), hosts_of({1, 1, 1})}) {
        on_hosts(hosts, {}, [](Rank &rank) {
            for (int turn = 0; turn < 10; turn++) {
                if (rank.number == 0) {
                    gpucoll_pass(rank.team);
                } else {
                    EXPECT_EQ(rank.call(barrier), GPUCOLL_DECLINED);
                    EXPECT_EQ(gpucoll_declined_reason(rank.team), GPUCOLL_REASON_PASSED);
                }
            }
            EXPECT_EQ(rank.call(barrier), GPUCOLL_OK);
            rank.barrier();
        });
    }
}

/* Far more than the ranks have room for posts, and completed from the last to the first. */
TEST(barrier_call, many_among_other_calls)
{
    for (const Hosts &hosts : {hosts_of({3}), hosts_of({2, 1})}) {
        on_hosts(hosts, {}, [](Rank &rank) {
            Queue queue(rank, rank.team);
            std::deque<Task> sums;
            std::deque<gpucoll_task> barriers;
            for (int i = 0; i < 50; i++) {
                if (i % 3 == 0) {
                    sums.emplace_back(rank, 100 + i, i);
                    sums.back().post(queue);
                }
                barriers.emplace_back();
                ASSERT_EQ(gpucoll_queue_post(&queue.queue, &barrier, &barriers.back()), GPUCOLL_OK);
            }
            for (auto task = barriers.rbegin(); task != barriers.rend(); ++task) {
                while (gpucoll_task_status(&*task) == GPUCOLL_IN_PROGRESS) {
                    gpucoll_queue_progress(&queue.queue);
                    sched_yield();
                }
                EXPECT_EQ(gpucoll_task_status(&*task), GPUCOLL_OK);
            }
            for (Task &task : sums) {
                EXPECT_EQ(task.wait(&queue), GPUCOLL_OK);
                EXPECT_TRUE(task.sum.right());
            }
            rank.barrier();
        });
    }
}

TEST(barrier_call, what_differs_from_it_is_told_to_all)
{
    on_threads(3, {}, [](Rank &rank) {
        Sum sum(rank, 100, 1);
        EXPECT_EQ(rank.call(rank.number == 1 ? sum.args : barrier), GPUCOLL_ERR_MISMATCH);
        EXPECT_EQ(rank.log.topics(), std::vector<std::string>{"arguments-differ"});
        EXPECT_EQ(rank.call(barrier), GPUCOLL_OK);
    });
}

TEST(barrier_call, the_watchdog_names_who_does_not_come)
{
    on_threads(2, {{"timeout", "1"}}, [](Rank &rank) {
        if (rank.number == 0) {
            EXPECT_EQ(rank.call(barrier), GPUCOLL_ERR_TIMEOUT);
            const std::string text = rank.log.text_of("timeout");
            EXPECT_NE(text.find("barrier"), std::string::npos) << text;
            EXPECT_NE(text.find("Missing ranks:  1\n"), std::string::npos) << text;
        }
        rank.barrier();
    });
}

/* Each form is a row, and says by what it ran. */
TEST(barrier_call, is_counted)
{
    for (const Hosts &hosts : {hosts_of({2}), hosts_of({1, 1})}) {
        std::vector<gpucoll_stats> all(hosts.size());
        on_hosts(hosts, {}, [&](Rank &rank) {
            gpucoll_stats *stats = &all[rank.number];
            gpucoll_context_count_in(rank.context, stats);
            gpucoll_stats_start(stats);
            EXPECT_EQ(rank.call(barrier), GPUCOLL_OK);
            EXPECT_EQ(rank.call(barrier), GPUCOLL_OK);
            EXPECT_EQ(enter_barrier(rank.team), GPUCOLL_OK);
            const uint8_t detail = hosts.back() == 0 ? GPUCOLL_DETAIL_BOARD : GPUCOLL_DETAIL_HOSTS;
            uint64_t calls[GPUCOLL_FORM_COUNT] = {};
            gpucoll_stats_entry entry;
            for (int i = 0; i < GPUCOLL_STATS_ROWS; i++) {
                if (gpucoll_stats_read(stats, i, &entry)) {
                    EXPECT_EQ(entry.key.coll, GPUCOLL_BARRIER);
                    EXPECT_EQ(entry.key.detail, detail);
                    calls[entry.key.form] += entry.calls;
                }
            }
            EXPECT_EQ(calls[GPUCOLL_FORM_NONBLOCKING], 2u);
            EXPECT_EQ(calls[GPUCOLL_FORM_BLOCKING], 1u);
            rank.barrier();
        });
    }
}
