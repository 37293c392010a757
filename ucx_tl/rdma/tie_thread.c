#include "ucx_tl/rdma/tie_thread.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include "core/base/clock.h"
#include "core/base/thread.h"

/* Looks, of who turns the network, for one at a tie that has no messages. */
enum { LOOKS = 16 };

/* The thread looks without a pause for so long after the last message, or the last that has moved, then pauses. */
static const uint64_t awake_ns = 2000000;
static const uint64_t patience_ns = 500000;
static const long pause_ns = 20000;

/* What who handed a message over wants of it. */
enum { GOES_ON, IS_GIVEN_UP, IS_TO_END };

struct gpucoll_tie_order {
    struct gpucoll_tie_order *next;
    struct gpucoll_tie_message what;
    struct gpucoll_net_message message; /* of the tie's network */
    bool given_up;                      /* there, */
    bool is_to_end;                     /* and to be waited for */
    _Atomic int wish;
    _Atomic int
        state; /* gpucoll_status; who reads the end of it looks at nothing else, and who turns the tie no longer */
};

static const struct gpucoll_net_ops *const one = &gpucoll_net_tie;

/* ---- turning ---- */

/* What has been handed over, in order, behind what is under way. */
static void take_up(struct gpucoll_tie *tie)
{
    pthread_mutex_lock(&tie->lock);
    struct gpucoll_tie_order *latest = tie->given;
    tie->given = NULL;
    pthread_mutex_unlock(&tie->lock);
    struct gpucoll_tie_order *first = NULL;
    while (latest != NULL) {
        struct gpucoll_tie_order *order = latest;
        latest = order->next;
        order->next = first;
        first = order;
    }
    struct gpucoll_tie_order **end = &tie->under_way;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = first;
    for (; first != NULL; first = first->next) {
        const struct gpucoll_tie_message *what = &first->what;
        if (what->comes) {
            one->receive(tie->net, what->peer, what->tag, what->data, what->bytes, what->memory,
                         &first->message);
        } else {
            one->send(tie->net, what->peer, what->tag, what->data, what->bytes, what->memory,
                      &first->message);
        }
    }
}

/* All that were given up before one is to end are begun before that is waited for: so they wait together. */
static void begin_cancels(struct gpucoll_tie *tie)
{
    for (struct gpucoll_tie_order *order = tie->under_way; order != NULL; order = order->next) {
        order->is_to_end = atomic_load_explicit(&order->wish, memory_order_acquire) == IS_TO_END;
    }
    for (struct gpucoll_tie_order *order = tie->under_way; order != NULL; order = order->next) {
        if (!order->given_up && atomic_load_explicit(&order->wish, memory_order_relaxed) != GOES_ON) {
            order->given_up = true;
            one->begin_cancel(tie->net, &order->message);
        }
    }
}

static gpucoll_status look_at(struct gpucoll_tie *tie, struct gpucoll_tie_order *order)
{
    if (order->is_to_end) {
        one->cancel(tie->net, &order->message);
        return order->message.status;
    }
    return one->test(tie->net, &order->message);
}

static bool end_complete(struct gpucoll_tie *tie)
{
    bool any = false;
    begin_cancels(tie);
    for (struct gpucoll_tie_order **link = &tie->under_way; *link != NULL;) {
        struct gpucoll_tie_order *order = *link;
        const gpucoll_status status = look_at(tie, order);
        if (status == GPUCOLL_IN_PROGRESS) {
            link = &order->next;
            continue;
        }
        *link = order->next;
        any = true;
        atomic_fetch_sub(&tie->messages, 1);
        atomic_store_explicit(&order->state, status, memory_order_release);
    }
    return any;
}

static bool turn(struct gpucoll_tie *tie)
{
    if (pthread_mutex_trylock(&tie->turning) != 0) {
        return false;
    }
    take_up(tie);
    bool moved = one->progress(tie->net);
    moved |= end_complete(tie);
    pthread_mutex_unlock(&tie->turning);
    return moved;
}

/* ---- the thread ---- */

static void wait_for_messages(struct gpucoll_tie *tie)
{
    pthread_mutex_lock(&tie->lock);
    atomic_store(&tie->sleeps, true);
    while (atomic_load(&tie->messages) == 0 && !tie->ends) {
        pthread_cond_wait(&tie->wake, &tie->lock);
    }
    atomic_store(&tie->sleeps, false);
    pthread_mutex_unlock(&tie->lock);
}

static void *run(void *arg)
{
    struct gpucoll_tie *tie = arg;
    const struct timespec pause = {.tv_nsec = pause_ns};
    (void)gpucoll_thread_leave_binding();
    uint64_t moved_ns = gpucoll_now_ns();
    while (!atomic_load_explicit(&tie->ends, memory_order_relaxed)) {
        const bool moved = turn(tie);
        const uint64_t now = gpucoll_now_ns();
        atomic_fetch_add_explicit(&tie->turns, 1, memory_order_relaxed);
        moved_ns = moved ? now : moved_ns;
        /* Messages end before all of them has left (ucx_tl/rdma/drain.c), and nobody else may turn this tie for long. */
        if (atomic_load(&tie->messages) == 0 && now - moved_ns > awake_ns &&
            gpucoll_rdma_all_drained(tie->net)) {
            wait_for_messages(tie);
            moved_ns = gpucoll_now_ns();
        } else if (now - moved_ns > patience_ns) {
            nanosleep(&pause, NULL);
        } else if (!moved) {
            sched_yield();
        }
    }
    return NULL;
}

static void *count_cores(void *arg)
{
    *(int *)arg = gpucoll_thread_leave_binding();
    return NULL;
}

/* A thread would hold up the one that it is to help if they had to share a core. */
static bool has_cores(int least)
{
    pthread_t thread;
    int cores = 0;
    if (gpucoll_thread_start(&thread, count_cores, &cores) == 0) {
        pthread_join(thread, NULL);
    }
    return cores >= least;
}

void gpucoll_tie_start(struct gpucoll_tie *tie, int least_cores)
{
    pthread_mutex_init(&tie->turning, NULL);
    pthread_mutex_init(&tie->lock, NULL);
    pthread_cond_init(&tie->wake, NULL);
    tie->has_thread = has_cores(least_cores) && gpucoll_thread_start(&tie->thread, run, tie) == 0;
}

static void free_orders(struct gpucoll_tie_order *order)
{
    while (order != NULL) {
        struct gpucoll_tie_order *next = order->next;
        free(order);
        order = next;
    }
}

void gpucoll_tie_end(struct gpucoll_tie *tie)
{
    if (tie->has_thread) {
        pthread_mutex_lock(&tie->lock);
        tie->ends = true;
        pthread_cond_signal(&tie->wake);
        pthread_mutex_unlock(&tie->lock);
        pthread_join(tie->thread, NULL);
    }
    free_orders(tie->unused);
    free_orders(tie->given);
    free_orders(tie->under_way); /* which the tie's network ends as it is closed */
    pthread_cond_destroy(&tie->wake);
    pthread_mutex_destroy(&tie->lock);
    pthread_mutex_destroy(&tie->turning);
}

/* Where nothing is under way here, the other end may want something now and then. A thread that has not come round since somebody looked last may
 * be waiting for a core. */
static bool is_turned(struct gpucoll_tie *tie)
{
    if (atomic_load_explicit(&tie->messages, memory_order_relaxed) == 0) {
        return atomic_fetch_add_explicit(&tie->looks, 1, memory_order_relaxed) % LOOKS != 0;
    }
    const uint64_t turns = atomic_load_explicit(&tie->turns, memory_order_relaxed);
    return tie->has_thread && atomic_exchange_explicit(&tie->seen, turns, memory_order_relaxed) != turns;
}

bool gpucoll_tie_progress(struct gpucoll_tie *tie)
{
    return !is_turned(tie) && turn(tie);
}

/* ---- messages ---- */

void gpucoll_tie_give(struct gpucoll_tie *tie, const struct gpucoll_tie_message *what,
                      struct gpucoll_net_message *message)
{
    pthread_mutex_lock(&tie->lock);
    struct gpucoll_tie_order *order = tie->unused;
    if (order != NULL) {
        tie->unused = order->next;
    } else {
        order = malloc(sizeof *order);
    }
    message->handle = order;
    message->status = order != NULL ? GPUCOLL_IN_PROGRESS : GPUCOLL_ERR_NO_MEMORY;
    if (order != NULL) {
        *order = (struct gpucoll_tie_order){
            .next = tie->given, .what = *what, .message = {.status = GPUCOLL_IN_PROGRESS}};
        atomic_store_explicit(&order->state, GPUCOLL_IN_PROGRESS, memory_order_relaxed);
        tie->given = order;
        atomic_fetch_add(&tie->messages, 1);
        if (atomic_load(&tie->sleeps)) {
            pthread_cond_signal(&tie->wake);
        }
    }
    pthread_mutex_unlock(&tie->lock);
}

gpucoll_status gpucoll_tie_test(struct gpucoll_tie *tie, struct gpucoll_net_message *message)
{
    struct gpucoll_tie_order *order = message->handle;
    if (order == NULL) {
        return message->status;
    }
    message->status = (gpucoll_status)atomic_load_explicit(&order->state, memory_order_acquire);
    if (message->status != GPUCOLL_IN_PROGRESS) {
        message->handle = NULL;
        pthread_mutex_lock(&tie->lock);
        order->next = tie->unused;
        tie->unused = order;
        pthread_mutex_unlock(&tie->lock);
    }
    return message->status;
}

void gpucoll_tie_begin_cancel(struct gpucoll_tie *tie, struct gpucoll_net_message *message)
{
    struct gpucoll_tie_order *order = message->handle;
    if (order != NULL) {
        atomic_store_explicit(&order->wish, IS_GIVEN_UP, memory_order_relaxed);
        (void)gpucoll_tie_progress(tie); /* else a tie without a thread would begin when it is waited for */
    }
}

void gpucoll_tie_cancel(struct gpucoll_tie *tie, struct gpucoll_net_message *message)
{
    struct gpucoll_tie_order *order = message->handle;
    if (order != NULL) {
        atomic_store_explicit(&order->wish, IS_TO_END, memory_order_release);
        while (gpucoll_tie_test(tie, message) == GPUCOLL_IN_PROGRESS) {
            turn(tie);
            sched_yield();
        }
    }
}
