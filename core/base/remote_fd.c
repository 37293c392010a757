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
    case ESRCH:
        return "that process has ended, or is in another PID namespace (container)";
    default:
        return strerror(error);
    }
}

static bool refuse(int error, const char **reason)
{
    *reason = explain(error);
    errno = error;
    return false;
}

bool gpucoll_remote_open(struct gpucoll_remote *remote, const struct gpucoll_process_id *owner,
                         const char **reason)
{
    struct gpucoll_process_id self;
    gpucoll_process_id_self(&self);
    remote->process = -1;
    if (gpucoll_process_same(&self, owner)) {
        return true;
    }
    if (!gpucoll_process_same_host(&self, owner) || self.pid_space != owner->pid_space) {
        return refuse(ESRCH, reason);
    }
    remote->process = (int)syscall(SYS_pidfd_open, (pid_t)owner->pid, 0);
    if (remote->process < 0) {
        return refuse(errno, reason);
    }
    /* Looked at after it has been opened: what is seen now was there then, so that a reused ID is noticed. */
    if (gpucoll_process_gone(owner)) {
        gpucoll_remote_close(remote);
        return refuse(ESRCH, reason);
    }
    return true;
}

int gpucoll_remote_fd(const struct gpucoll_remote *remote, int fd, const char **reason)
{
    int taken = remote->process < 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0)
                                    : (int)syscall(SYS_pidfd_getfd, remote->process, fd, 0);
    if (taken < 0) {
        (void)refuse(errno, reason);
    }
    return taken;
}

void gpucoll_remote_close(struct gpucoll_remote *remote)
{
    if (remote->process >= 0) {
        close(remote->process);
        remote->process = -1;
    }
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
