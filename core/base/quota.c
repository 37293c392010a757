/*
 * Both versions of control groups. In a container the groups' names may be the host's: then the root itself is the container's.
 */
#include "core/base/quota.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* Up to two numbers of a file; fewer where it is not there, or says "max". */
static int read_numbers(const char *folder, const char *name, long long *first, long long *second)
{
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    const int found = fscanf(file, "%lld %lld", first, second);
    fclose(file);
    return found > 0 ? found : 0;
}

static void bound_by(long long time, long long period, uint32_t *least)
{
    if (time < 0 || period <= 0) {
        return;
    }
    const long long cpus = time / period + (time % period > 0);
    const uint32_t whole = cpus < 1 ? 1 : cpus < UINT32_MAX ? (uint32_t)cpus : UINT32_MAX;
    if (*least == 0 || whole < *least) {
        *least = whole;
    }
}

/* What a group's folder says. */
static void look_in(const char *folder, uint32_t *least)
{
    long long time;
    long long period;
    long long none;
    if (read_numbers(folder, "cpu.max", &time, &period) == 2) {
        bound_by(time, period, least);
    }
    if (read_numbers(folder, "cpu.cfs_quota_us", &time, &none) > 0 &&
        read_numbers(folder, "cpu.cfs_period_us", &period, &none) > 0) {
        bound_by(time, period, least);
    }
}

/* Of version 2, whose line names no controllers, or of the one that bounds time. */
static bool bounds_time(const char *controllers)
{
    char list[256];
    snprintf(list, sizeof list, ",%s,", controllers);
    return controllers[0] == '\0' || strstr(list, ",cpu,") != NULL;
}

/* A line such as "0::/user.slice" or "3:cpu,cpuacct:/docker/1". */
static void look_along(char *line, const char *root, uint32_t *least)
{
    char folder[PATH_BYTES];
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) {
        return;
    }
    *group++ = '\0';
    controllers++;
    if (!bounds_time(controllers)) {
        return;
    }
    const int top =
        snprintf(folder, sizeof folder, "%s%s%s", root, controllers[0] != '\0' ? "/" : "", controllers);
    const int length = snprintf(folder + top, sizeof folder - (size_t)top, "%s", group);
    if ((size_t)top + (size_t)length >= sizeof folder) {
        return;
    }
    look_in(folder, least);
    for (char *end; (end = strrchr(folder + top, '/')) != NULL;) {
        *end = '\0';
        look_in(folder, least);
    }
}

uint32_t gpucoll_cpu_quota(const char *cgroups, const char *root)
{
    char line[PATH_BYTES];
    uint32_t least = 0;
    FILE *file = fopen(cgroups != NULL ? cgroups : "/proc/self/cgroup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        look_along(line, root != NULL ? root : "/sys/fs/cgroup", &least);
    }
    if (file != NULL) {
        fclose(file);
    }
    return least;
}
