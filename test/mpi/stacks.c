#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr, getdents64, gettid, tgkill */
#endif
#include "test/mpi/stacks.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "test/mpi/support.h"

/* Nobody else uses this signal; test/mpi/interrupt.c has the one below. */
#define STACK_SIGNAL (SIGRTMIN + 1)

enum { DEPTH = 64, PATIENCE = 50 }; /* frames; hundredths of a second, for each thread */

static atomic_int answered; /* the thread that has printed its stack last */

/* One write a line: other ranks and threads print as well. */
__attribute__((format(printf, 1, 2))) static void print_line(const char *format, ...)
{
    char line[400];
    va_list args;

    va_start(args, format);
    const int wanted = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    const size_t length = (size_t)wanted < sizeof line ? (size_t)wanted : sizeof line - 1;
    if (write(STDOUT_FILENO, line, length) < 0)
        return; /* nobody listens: there is no one to tell */
}

/* The place in the file is what `addr2line -f -e FILE PLACE` wants where the file does not export the function. */
static void print_frame(const char *thread, int number, void *address)
{
    Dl_info info;

    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        print_line("| rank %d thread %d (%s) #%d %p\n", test.rank, gettid(), thread, number, address);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    print_line("| rank %d thread %d (%s) #%d %s %s+0x%zx\n", test.rank, gettid(), thread, number,
               info.dli_sname != NULL ? info.dli_sname : "?", slash != NULL ? slash + 1 : info.dli_fname,
               (size_t)((uintptr_t)address - (uintptr_t)info.dli_fbase));
}

/* In the thread that is asked. */
static void print_own(int number)
{
    const int error = errno;
    char name[16] = "?"; /* what the kernel has room for */
    void *frames[DEPTH];

    (void)number;
    prctl(PR_GET_NAME, name);
    const int depth = backtrace(frames, DEPTH);
    for (int i = 1; i < depth; i++) /* the first is this function */
        print_frame(name, i, frames[i]);
    atomic_store(&answered, gettid());
    errno = error;
}

void test_stacks_start(void)
{
    struct sigaction action;
    void *frames[1];

    backtrace(frames, 1); /* the first call loads a library, which a signal's handler must not */
    memset(&action, 0, sizeof action);
    action.sa_handler = print_own;
    action.sa_flags = SA_RESTART;
    sigaction(STACK_SIGNAL, &action, NULL);
}

static void ask(int thread)
{
    atomic_store(&answered, 0);
    if (tgkill(getpid(), thread, STACK_SIGNAL) != 0)
        return; /* it has just ended */
    for (int i = 0; i < PATIENCE && atomic_load(&answered) != thread; i++)
        test_sleep(0.01);
    if (atomic_load(&answered) != thread)
        print_line("| rank %d thread %d does not answer: it blocks signals, or is in the kernel\n", test.rank,
                   thread);
}

/* opendir would allocate memory. */
void test_stacks_print(void)
{
    _Alignas(struct dirent64) char entries[2048];
    const int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t bytes;

    if (tasks < 0) {
        print_line("| rank %d: no stacks: /proc/self/task cannot be opened (error %d)\n", test.rank, errno);
        return;
    }
    while ((bytes = getdents64(tasks, entries, sizeof entries)) > 0) {
        for (ssize_t at = 0; at < bytes;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)(entries + at);
            const int thread = atoi(entry->d_name); /* not of `.` and `..` */
            if (thread > 0)
                ask(thread);
            at += entry->d_reclen;
        }
    }
    close(tasks);
}
