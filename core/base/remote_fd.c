#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall, F_DUPFD_CLOEXEC */
#endif
#include "core/base/remote_fd.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* C libraries older than the calls do not name them; their numbers are the same on every kind of CPU that has GPUs beside it. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static const char *explain(int error)
{
    switch (error) {
    case ENOSYS:
        return "the kernel has no pidfd_getfd: Linux 5.6 or newer is needed";
    case EPERM:
        return "pidfd_getfd is not permitted: by Yama (kernel.yama.ptrace_scope) or by the container";
    default:
        return strerror(error);
    }
}

/* The process is looked at after it has been opened: what is seen then was there before, so a reused ID is noticed. */
static int take(const struct gpucoll_process_id *owner, int process, int fd, const char **reason)
{
    if (gpucoll_process_gone(owner)) {
        *reason = "that process has ended";
        errno = ESRCH;
        return -1;
    }
    int taken = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    if (taken < 0) {
        *reason = explain(errno);
    }
    return taken;
}

int gpucoll_remote_fd(const struct gpucoll_process_id *owner, int fd, const char **reason)
{
    struct gpucoll_process_id self;
    gpucoll_process_id_self(&self);
    if (gpucoll_process_same(&self, owner)) {
        int twin = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        *reason = twin < 0 ? strerror(errno) : NULL;
        return twin;
    }
    if (!gpucoll_process_same_host(&self, owner) || self.pid_space != owner->pid_space) {
        *reason = "that process is on another host or in another PID namespace (container)";
        errno = ESRCH;
        return -1;
    }
    int process = (int)syscall(SYS_pidfd_open, (pid_t)owner->pid, 0);
    if (process < 0) {
        *reason = explain(errno);
        return -1;
    }
    int taken = take(owner, process, fd, reason);
    int error = errno;
    close(process);
    errno = error;
    return taken;
}

static bool yama_restricts(void)
{
    char scope = '0';
    int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false; /* no Yama */
    }
    ssize_t got = read(fd, &scope, 1);
    close(fd);
    return got == 1 && scope == '1';
}

/*
 * Under ptrace_scope 1, the default of several distributions, only a process's ancestors may trace it, and ranks are siblings. A process can
 * name one more, or any. One would not do: a job's ranks have no common parent that each could know through wrapper scripts. And there is one
 * place for the name, which cannot be read: "any" takes nothing from who has written there before, such as Open MPI, which writes the same for
 * its copies between processes (smsc/cma), where a narrower name would end these. It stays with processes of the same user.
 * That opens the process to a debugger of this user, as without Yama; so it is done in processes only that have such memory to share.
 */
void gpucoll_remote_fds_allow(const struct gpucoll_log *log)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool done;
    pthread_mutex_lock(&lock);
    if (!done && yama_restricts()) {
        const bool allowed = prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0;
        gpucoll_log(log, GPUCOLL_LOG_SETUP, "processes of this user %s (kernel.yama.ptrace_scope is 1)",
                    allowed ? "may take file descriptors of this one from now on"
                            : "cannot be let take file descriptors of this one");
    }
    done = true;
    pthread_mutex_unlock(&lock);
}
