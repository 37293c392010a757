/*
 * File descriptors of other processes of this host and user: what stands for memory that no path of /proc leads to, such as that of
 * cuMemExportToShareableHandle. The kernel (Linux 5.6 or newer) gives them to who may trace the process.
 */
#ifndef GPUCOLL_BASE_REMOTE_FD_H
#define GPUCOLL_BASE_REMOTE_FD_H

#include "core/base/log.h"
#include "core/base/segment.h"

/* A descriptor of this process for what `fd` is in the process `owner`, which may be this one; the caller closes it. -1 if there is none:
 * then *reason is a clause that says why, and errno is EPERM
 * or ENOSYS if the kernel will not give this process any. */
int gpucoll_remote_fd(const struct gpucoll_process_id *owner, int fd, const char **reason);

/* To be called before another process is told of a descriptor: lets processes of the same user take it where Yama would let the parent only. */
void gpucoll_remote_fds_allow(const struct gpucoll_log *log);

#endif
