/*
 * File descriptors of other processes of this host and user: what stands for memory that no path of /proc leads to, such as that of
 * cuMemExportToShareableHandle. The kernel (Linux 5.6 or newer) gives them to who may trace the process.
 */
#ifndef GPUCOLL_BASE_REMOTE_FD_H
#define GPUCOLL_BASE_REMOTE_FD_H

#include "core/base/log.h"
#include "core/base/segment.h"

/* A process whose descriptors are taken. */
struct gpucoll_remote {
    int process; /* a descriptor of it; -1: this process */
};

/* Where the next two fail, *reason is a clause that says why, and errno is EPERM or ENOSYS if the kernel will give this process none at all. */
bool gpucoll_remote_open(struct gpucoll_remote *remote, const struct gpucoll_process_id *owner,
                         const char **reason);
/* A descriptor of this process for what `fd` is there, which the caller closes; -1: none. */
int gpucoll_remote_fd(const struct gpucoll_remote *remote, int fd, const char **reason);
void gpucoll_remote_close(struct gpucoll_remote *remote);

/* To be called before another process is told of a descriptor: lets processes of the same user take it where Yama would let the parent only. */
void gpucoll_remote_fds_allow(const struct gpucoll_log *log);

#endif
