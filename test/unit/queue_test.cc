/*
 * Calls that nobody waits in: queues of tasks, the progress thread that moves them on, and lanes that are short meanwhile.
 */
#include <atomic>
#include <deque>
#include <sched.h>
#include <thread>
#include "test/unit/tasks.h"

extern "C" {
#include "core/base/clock.h"
#include "core/queue.h"
}

namespace
{
constexpr uint64_t second = 1000000000;

const Settings with_thread = {{"progress_thread", "true"}};
const Settings without_thread = {{"progress_thread", "false"}};
} // namespace

TEST(queue, tasks_end_while_nobody_looks_at_it)
{
    on_threads(3, with_thread, [](Rank &rank) {
        Queue queue(rank, rank.team);
        for (int turn = 0; turn < 20; turn++) {
            Task task(rank, 100 + turn, turn);
            if (turn % 3 == static_cast<int>(rank.number)) {
                std::this_thread::sleep_for(
                    std::chrono::milliseconds(turn)); /* the others' thread naps meanwhile */
            }
            task.post(queue);
            EXPECT_EQ(task.wait(), GPUCOLL_OK);
            EXPECT_TRUE(task.sum.right());
        }
        EXPECT_TRUE(queue.queue.attached);
    });
}

TEST(queue, without_the_thread_tasks_move_when_it_is_looked_at)
{
    on_threads(2, without_thread, [](Rank &rank) {
        Queue queue(rank, rank.team);
        Task task(rank, 100, 1);
        task.post(queue);
        rank.barrier();
        EXPECT_TRUE(rank.number == 1 || task.wait(nullptr, second / 100) == GPUCOLL_IN_PROGRESS);
        EXPECT_EQ(task.wait(&queue), GPUCOLL_OK);
        EXPECT_TRUE(task.sum.right());
        EXPECT_FALSE(queue.queue.attached);
    });
}

TEST(queue, a_thousand_tasks_through_one_lane)
{
    for (const Settings &thread : {with_thread, without_thread}) {
        Settings settings = thread;
        settings.emplace_back("lanes", "1");
        on_threads(3, settings, [](Rank &rank) {
            Queue queue(rank, rank.team);
            std::deque<Task> tasks;
            for (int i = 0; i < 1000; i++) {
                tasks.emplace_back(rank, 1 + i % 50, i);
                tasks.back().post(queue);
            }
            for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) {
                ASSERT_EQ(task->wait(&queue), GPUCOLL_OK);
                ASSERT_TRUE(task->sum.right());
            }
            EXPECT_TRUE(gpucoll_queue_is_idle(&queue.queue));
        });
    }
}

TEST(queue, calls_one_after_the_other_as_tasks_and_without_a_queue)
{
    on_threads(2, with_thread, [](Rank &rank) {
        Queue queue(rank, rank.team);
        for (int turn = 0; turn < 200; turn++) {
            Task first(rank, 10, turn);
            Task second_task(rank, 20, turn + 1);
            first.post(queue);
            second_task.post(queue);
            EXPECT_EQ(second_task.wait(&queue), GPUCOLL_OK);
            EXPECT_EQ(first.wait(&queue), GPUCOLL_OK);
            ASSERT_TRUE(gpucoll_queue_is_idle(&queue.queue));
            Sum alone(rank, 30, turn); /* nobody else touches the team now */
            EXPECT_EQ(rank.call(alone.args), GPUCOLL_OK);
            EXPECT_TRUE(first.sum.right() && second_task.sum.right() && alone.right());
        }
    });
}

TEST(queue, a_task_runs_when_all_have_posted_it)
{
    on_threads(2, without_thread, [](Rank &rank) {
        Queue queue(rank, rank.team);
        Task task(rank, 100, 1);
        if (rank.number == 0) {
            task.post(queue);
            EXPECT_FALSE(gpucoll_task_runs(&task.task));
        }
        rank.barrier();
        if (rank.number == 1) {
            task.post(queue);
        }
        EXPECT_EQ(task.wait(&queue), GPUCOLL_OK);
        EXPECT_TRUE(gpucoll_task_runs(&task.task));
    });
}

/* Whoever sees it run knows how it goes on, though another thread may end it at any moment. */
TEST(queue, a_task_that_is_declined_never_runs)
{
    on_threads(2, with_thread, [](Rank &rank) {
        Queue queue(rank, rank.team);
        for (int turn = 0; turn < 200; turn++) {
            Task task(rank, 10, turn);
            if (rank.number == 1) {
                gpucoll_pass(rank.team);
                continue;
            }
            task.post(queue);
            bool ran = false;
            do {
                ran |= gpucoll_task_runs(&task.task);
            } while (task.status() == GPUCOLL_IN_PROGRESS);
            EXPECT_EQ(task.status(), GPUCOLL_DECLINED);
            EXPECT_FALSE(ran || gpucoll_task_runs(&task.task));
        }
    });
}

/* Ten calls are more than the ring of posts has room for: the last ones have yet to be posted when the first give up. */
TEST(queue, calls_that_wait_behind_one_that_times_out_end_with_it)
{
    on_threads(2, {{"progress_thread", "false"}, {"timeout", "1"}}, [](Rank &rank) {
        Queue queue(rank, rank.team);
        std::deque<Task> tasks;
        const auto begin = cpu_time();
        for (int i = 0; i < 10 && rank.number == 0; i++) {
            tasks.emplace_back(rank, 10, i).post(queue);
        }
        for (Task &task : tasks) {
            EXPECT_EQ(task.wait(&queue), GPUCOLL_ERR_TIMEOUT);
        }
        EXPECT_LT(cpu_time() - begin,
                  std::chrono::seconds(5)); /* one after the other they would take seven */
        rank.barrier();
    });
}

/* Else the progress thread would think that nothing happens, and nap. */
TEST(queue, what_the_host_does_for_a_task_changes_it)
{
    std::atomic<long> changes{0};
    on_threads(
        2, {{"progress_thread", "false"}, {"transports", "cpu_reduce"}, {"cpu_threads", "0"}},
        [&changes](Rank &rank) { changes += changes_of_a_sum(rank, size_t{1} << 20); }); /* 512 shares */
    EXPECT_GE(changes, 256);
}

/* Who computes for longer than the timeout has not waited so long for the others. */
TEST(queue, time_in_which_nobody_looks_is_no_waiting)
{
    on_threads(2, {{"progress_thread", "false"}, {"timeout", "1"}}, [](Rank &rank) {
        Queue queue(rank, rank.team);
        Task task(rank, 10, 1);
        if (rank.number == 0) {
            task.post(queue);
            EXPECT_EQ(task.wait(&queue, second / 10), GPUCOLL_IN_PROGRESS);
            std::this_thread::sleep_for(std::chrono::milliseconds(1500));
            EXPECT_EQ(task.wait(&queue, second / 10), GPUCOLL_IN_PROGRESS);
            rank.barrier();
        } else {
            rank.barrier();
            task.post(queue);
        }
        EXPECT_EQ(task.wait(&queue), GPUCOLL_OK);
        EXPECT_TRUE(task.sum.right());
    });
}

TEST(queue, closing_ends_what_is_in_it)
{
    on_threads(2, with_thread, [](Rank &rank) {
        Task task(rank, 100, 1);
        Task never(rank, 100, 2);
        {
            Queue queue(rank, rank.team);
            task.post(queue);
            EXPECT_EQ(task.wait(), GPUCOLL_OK);
            if (rank.number == 0) {
                never.post(queue);
            }
        }
        EXPECT_TRUE(rank.number == 1 || never.status() == GPUCOLL_ERR_TIMEOUT);
        EXPECT_TRUE(task.sum.right());
    });
}

TEST(queue, queues_of_several_teams_come_and_go)
{
    constexpr int teams = 5;
    std::deque<Meeting> meetings;
    for (int i = 0; i < teams; i++) {
        meetings.emplace_back(3);
    }
    on_threads(3, with_thread, [&](Rank &rank) {
        int ran = 0;
        for (int turn = 0; turn < 5; turn++) {
            std::deque<Task> tasks;
            std::deque<Queue> queues;
            std::vector<gpucoll_team *> made(teams);
            for (int i = 0; i < teams; i++) {
                ASSERT_EQ(rank.make_team(meetings[i], i + 1, &made[i]), GPUCOLL_OK);
                queues.emplace_back(rank, made[i]);
                tasks.emplace_back(rank, 50, turn * teams + i);
                tasks.back().post(queues.back());
            }
            for (Task &task : tasks) {
                gpucoll_status status = task.wait();
                EXPECT_TRUE(status == GPUCOLL_OK || status == GPUCOLL_DECLINED); /* five teams, two lanes */
                EXPECT_TRUE(status == GPUCOLL_OK ? task.sum.right() : task.sum.untouched());
                ran += status == GPUCOLL_OK;
            }
            rank.barrier();
            queues.clear();
            for (gpucoll_team *team : made) {
                gpucoll_team_destroy(team);
            }
            rank.barrier();
        }
        EXPECT_GT(ran, 0);
    });
}

/* Each rank's only lane is held by a call that waits for a lane of the other: given up after a while, by all alike. */
TEST(lanes_of_calls, held_crosswise_are_no_deadlock)
{
    Meeting other(2);
    on_threads(2, {{"lanes", "1"}}, [&](Rank &rank) {
        gpucoll_team *second_team = nullptr;
        ASSERT_EQ(rank.make_team(other, 1, &second_team), GPUCOLL_OK);
        for (int turn = 0; turn < 3; turn++) {
            Sum sums[] = {{rank, 10, turn}, {rank, 10, turn + 1}};
            gpucoll_team *teams[] = {rank.team, second_team};
            gpucoll_request *requests[] = {nullptr, nullptr};
            gpucoll_status results[] = {GPUCOLL_IN_PROGRESS, GPUCOLL_IN_PROGRESS};
            const int first = static_cast<int>(rank.number);
            ASSERT_EQ(gpucoll_post(teams[first], &sums[first].args, &requests[first]), GPUCOLL_OK);
            EXPECT_EQ(gpucoll_test(requests[first]), GPUCOLL_IN_PROGRESS);
            rank.barrier(); /* both lanes are taken */
            ASSERT_EQ(gpucoll_post(teams[1 - first], &sums[1 - first].args, &requests[1 - first]),
                      GPUCOLL_OK);
            while (results[0] == GPUCOLL_IN_PROGRESS || results[1] == GPUCOLL_IN_PROGRESS) {
                for (int i = 0; i < 2; i++) {
                    if (results[i] == GPUCOLL_IN_PROGRESS) {
                        results[i] = gpucoll_test(requests[i]);
                    }
                }
                sched_yield();
            }
            for (int i = 0; i < 2; i++) {
                EXPECT_TRUE(results[i] == GPUCOLL_OK || results[i] == GPUCOLL_DECLINED);
                EXPECT_TRUE(results[i] == GPUCOLL_OK ? sums[i].right() : sums[i].untouched());
            }
            EXPECT_TRUE(rank.agree(results, sizeof results));
        }
        rank.barrier();
        gpucoll_team_destroy(second_team);
    });
}

/* A blocking call does not take the only lane from a nonblocking one before it. */
TEST(lanes_of_calls, go_to_the_earlier_call_of_a_team)
{
    on_threads(3, {{"lanes", "1"}, {"progress_thread", "false"}}, [](Rank &rank) {
        Queue queue(rank, rank.team);
        for (int turn = 0; turn < 20; turn++) {
            Task first(rank, 100, turn);
            Task then(rank, 100, turn + 1);
            then.sum.args.form = GPUCOLL_FORM_BLOCKING;
            first.post(queue);
            then.post(queue);
            EXPECT_EQ(then.wait(&queue), GPUCOLL_OK);
            EXPECT_EQ(first.wait(&queue), GPUCOLL_OK);
            EXPECT_TRUE(first.sum.right() && then.sum.right());
        }
    });
}

/* Of one rank: what nobody waits in goes on by itself, but not where that would take longer than the copy, or somebody waits. */
TEST(calls_of_one_rank, go_on_beside_the_application)
{
    on_threads(1, {}, [](Rank &rank) {
        for (size_t count : {size_t{100}, size_t{1} << 18}) {
            for (gpucoll_form form :
                 {GPUCOLL_FORM_BLOCKING, GPUCOLL_FORM_NONBLOCKING, GPUCOLL_FORM_PERSISTENT}) {
                Sum sum(rank, count, 1);
                sum.args.form = form;
                gpucoll_request *request = nullptr;
                ASSERT_EQ(gpucoll_post(rank.team, &sum.args, &request), GPUCOLL_OK);
                gpucoll_status status = gpucoll_test(request);
                const bool beside = count > 100 && form != GPUCOLL_FORM_BLOCKING;
                EXPECT_EQ(status, beside ? GPUCOLL_IN_PROGRESS : GPUCOLL_OK) << count << ' ' << form;
                while (status == GPUCOLL_IN_PROGRESS) {
                    status = gpucoll_test(request);
                }
                EXPECT_EQ(status, GPUCOLL_OK);
                EXPECT_TRUE(sum.right());
            }
        }
    });
}
