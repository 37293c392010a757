/*
 * Calls that nobody waits in, for unit tests: a queue, and a sum as its task.
 */
#ifndef TEST_UNIT_TASKS_H
#define TEST_UNIT_TASKS_H

#include <sched.h>
#include "test/unit/sum.h"

extern "C" {
#include "core/base/clock.h"
#include "core/queue.h"
}

/* A queue of one team, closed at the end. */
class Queue
{
  public:
    Queue(Rank &rank, gpucoll_team *team) { gpucoll_queue_open(&queue, rank.context, team); }
    ~Queue() { gpucoll_queue_close(&queue); }
    Queue(const Queue &) = delete;
    Queue &operator=(const Queue &) = delete;

    gpucoll_queue queue;
};

/* A sum as a task. */
struct Task {
    Task(const Rank &rank, size_t count, int salt) : sum(rank, count, salt)
    {
        sum.args.form = GPUCOLL_FORM_NONBLOCKING;
    }
    void post(Queue &queue) { ASSERT_EQ(gpucoll_queue_post(&queue.queue, &sum.args, &task), GPUCOLL_OK); }
    gpucoll_status status() const { return gpucoll_task_status(&task); }
    /* Looks at the task only; with `queue`, moves that on, too. */
    gpucoll_status wait(Queue *queue = nullptr, uint64_t most_ns = 60000000000u)
    {
        for (uint64_t end = gpucoll_now_ns() + most_ns;
             status() == GPUCOLL_IN_PROGRESS && gpucoll_now_ns() < end;) {
            if (queue != nullptr) {
                gpucoll_queue_progress(&queue->queue);
            }
            sched_yield();
        }
        return status();
    }

    Sum sum;
    gpucoll_task task;
};

/* A sum that the queue is turned for as the progress thread does. Returns how often that has changed something. */
inline long changes_of_a_sum(Rank &rank, size_t count)
{
    long changes = 0;
    Queue queue(rank, rank.team);
    Task task(rank, count, 1);
    task.post(queue);
    while (task.status() == GPUCOLL_IN_PROGRESS) {
        changes += gpucoll_queue_turn(&queue.queue);
        sched_yield();
    }
    EXPECT_TRUE(task.sum.right());
    return changes;
}

#endif
