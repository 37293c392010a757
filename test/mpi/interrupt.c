#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* gettid, SIGEV_THREAD_ID */
#endif
#include "test/mpi/interrupt.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/mpi/support.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* An interruption is long enough for a thread that naps to look around twice; in between the thread gets on by some calls. */
enum { LONGEST_PAUSE_NS = 400000, LONGEST_RUN_NS = 300000 };

static timer_t timer;
static volatile sig_atomic_t going;
static uint64_t state; /* the handler's */

static void arm(void)
{
    const struct itimerspec next = {.it_value.tv_nsec = 1 + test_draw(&state, LONGEST_RUN_NS)};
    timer_settime(timer, 0, &next, NULL);
}

static void interrupt(int number)
{
    (void)number;
    if (!going)
        return;
    nanosleep(&(struct timespec){.tv_nsec = test_draw(&state, LONGEST_PAUSE_NS)}, NULL);
    arm();
}

bool test_interrupt_start(uint64_t seed)
{
    struct sigaction action;
    struct sigevent event;

    memset(&action, 0, sizeof action);
    action.sa_handler = interrupt;
    action.sa_flags = SA_RESTART;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMIN;
    event.sigev_notify_thread_id = gettid();
    if (sigaction(SIGRTMIN, &action, NULL) != 0 || timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        return false;
    state = seed;
    going = 1;
    arm();
    return true;
}

void test_interrupt_stop(void)
{
    going = 0;
    timer_delete(timer);
}
