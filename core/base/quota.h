/*
 * The time of CPUs that control groups let this process have, beside which CPUs it may run on.
 */
#ifndef GPUCOLL_BASE_QUOTA_H
#define GPUCOLL_BASE_QUOTA_H

#include <stdint.h>

/* In CPUs, a part of one counted as one: the least of the process's groups and those above them, which share it with whatever else is in
 * them. 0: no bound. `cgroups` and `root` are the system's file and folder, NULL for /proc/self/cgroup and /sys/fs/cgroup. */
uint32_t gpucoll_cpu_quota(const char *cgroups, const char *root);

#endif
