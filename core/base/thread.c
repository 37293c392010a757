#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* CPU_COUNT */
#endif
#include "core/base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct start {
    void *(*run)(void *arg);
    void *arg;
};

static _Thread_local bool own;

static void *begin(void *arg)
{
    const struct start start = *(struct start *)arg;
    free(arg);
    own = true;
    return start.run(start.arg);
}

int gpucoll_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    struct start *start = malloc(sizeof *start);
    sigset_t all;
    sigset_t before;
    if (start == NULL) {
        return ENOMEM;
    }
    *start = (struct start){run, arg};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, begin, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        free(start);
    }
    return error;
}

int gpucoll_thread_leave_binding(void)
{
    cpu_set_t cores;
    memset(&cores, 0xff, sizeof cores);
    (void)pthread_setaffinity_np(pthread_self(), sizeof cores, &cores); /* the kernel takes those allowed */
    return pthread_getaffinity_np(pthread_self(), sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

bool gpucoll_on_own_thread(void)
{
    return own;
}
