#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* CPU_SET and its like */
#endif
#include "ucx_tl/rdma/devices.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct gpucoll_topology_object *nic_of(const struct gpucoll_rdma_devices *devices, int device)
{
    int nic = devices->device[device].nic;
    return nic >= 0 ? &devices->topology->objects[nic] : NULL;
}

/* UCX has "mlx5_0:1" where the topology has mlx5_0, and mlx5_0:2 for the same; TCP devices are interfaces, of RDMA devices too. */
static bool is_nic(const struct gpucoll_rdma_device *device, const struct gpucoll_topology_object *nic)
{
    if (nic->kind != GPUCOLL_TOPOLOGY_NIC) {
        return false;
    }
    size_t length = strlen(nic->name);
    return strcmp(device->name, nic->name) == 0 ||
           (strncmp(device->name, nic->name, length) == 0 && strcmp(device->name + length, ":1") == 0) ||
           (nic->interface[0] != '\0' && strcmp(device->name, nic->interface) == 0);
}

static void find_nics(struct gpucoll_rdma_devices *devices)
{
    for (int i = 0; i < devices->count; i++) {
        devices->device[i].nic = -1;
        for (int n = 0; devices->topology != NULL && n < devices->topology->count; n++) {
            if (is_nic(&devices->device[i], &devices->topology->objects[n])) {
                devices->device[i].nic = n;
            }
        }
    }
}

/* From where to look for a near NIC: the GPU, else the smallest part of the host that has all the cores this process may run on. */
static int standpoint(const struct gpucoll_rdma_devices *devices)
{
    const struct gpucoll_topology *topology = devices->topology;
    int found = gpucoll_topology_host(topology, 0);
    cpu_set_t mine;
    cpu_set_t both;
    if (devices->gpu >= 0 || sched_getaffinity(0, sizeof mine, &mine) != 0) {
        return devices->gpu >= 0 ? devices->gpu : found;
    }
    for (int i = 0; i < topology->count; i++) {
        const struct gpucoll_topology_object *object = &topology->objects[i];
        if (object->kind == GPUCOLL_TOPOLOGY_SOCKET || object->kind == GPUCOLL_TOPOLOGY_NUMA) {
            CPU_AND(&both, &mine, &object->cpus);
            found = CPU_EQUAL(&both, &mine) ? i : found;
        }
    }
    return found;
}

/* UCX's device of that NIC; -1: it has none. Its RDMA rather than its TCP. */
static int device_of(const struct gpucoll_rdma_devices *devices, int nic)
{
    int found = -1;
    for (int i = 0; i < devices->count; i++) {
        if (devices->device[i].nic == nic && (found < 0 || devices->device[found].tcp)) {
            found = i;
        }
    }
    return found;
}

static bool leads_nowhere(const struct gpucoll_rdma_devices *devices, int device)
{
    const struct gpucoll_topology_object *nic = nic_of(devices, device);
    return nic != NULL ? nic->nic == GPUCOLL_NIC_LOOPBACK || nic->nic == GPUCOLL_NIC_BRIDGE
                       : strcmp(devices->device[device].name, "lo") == 0;
}

/* The best device alone. A host that has nothing that leads out talks to itself only, and may use what it has. */
static void choose_best(struct gpucoll_rdma_devices *devices)
{
    enum { MOST = GPUCOLL_RDMA_DEVICES };
    int nics[MOST];
    int count = 0;
    if (devices->topology != NULL) {
        count = gpucoll_topology_nics(devices->topology, standpoint(devices), nics, MOST);
    }
    for (int n = 0; n < count && n < MOST; n++) {
        int device = device_of(devices, nics[n]);
        if (device >= 0) {
            devices->device[device].chosen = true;
            return;
        }
    }
    bool some = false;
    for (int pass = 0; pass < 3 && !some; pass++) { /* RDMA, other networks, whatever there is */
        for (int i = 0; i < devices->count; i++) {
            bool fits = pass == 2 || (!leads_nowhere(devices, i) && (pass == 1 || !devices->device[i].tcp));
            devices->device[i].chosen = fits;
            some = some || fits;
        }
    }
}

/* Does the user's word mean this device? "mlx5_0" is all its ports. */
static bool means(const char *word, size_t length, const char *name)
{
    return strncmp(word, name, length) == 0 &&
           (name[length] == '\0' || (name[length] == ':' && memchr(word, ':', length) == NULL));
}

/* `*unknown`, of so many bytes, is a name that no device has; as it was, if there is none. */
static void choose_named(struct gpucoll_rdma_devices *devices, const char *names, const char **unknown,
                         size_t *bytes)
{
    for (const char *at = names; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        size_t length = strcspn(at, ",");
        bool found = false;
        for (int i = 0; i < devices->count && length > 0; i++) {
            if (means(at, length, devices->device[i].name)) {
                devices->device[i].chosen = true;
                found = true;
            }
        }
        if (!found) {
            *unknown = at;
            *bytes = length;
            return;
        }
    }
}

/* By the user's word to UCX itself, as far as its names can be told: of those of patterns nothing is known. */
static void choose_by_ucx(struct gpucoll_rdma_devices *devices, const char *names)
{
    const bool all_but = names[0] == '^';
    for (int i = 0; i < devices->count && strpbrk(names, "[*?") == NULL; i++) {
        bool named = strcmp(names, "all") == 0;
        for (const char *at = names + all_but; at != NULL && !named; at = strchr(at, ',')) {
            at += *at == ',';
            named = means(at, strcspn(at, ","), devices->device[i].name);
        }
        devices->device[i].chosen = named != all_but;
    }
}

/* The names of all devices, or of the chosen ones. */
static void join(const struct gpucoll_rdma_devices *devices, bool chosen, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < devices->count && used < bytes; i++) {
        if (devices->device[i].chosen || !chosen) {
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? "," : "",
                                     devices->device[i].name);
        }
    }
}

void gpucoll_rdma_chosen_text(const struct gpucoll_rdma_devices *devices, char *text, size_t bytes)
{
    join(devices, true, text, bytes);
}

bool gpucoll_rdma_chosen(const struct gpucoll_rdma_devices *devices, bool tcp)
{
    bool some = false;
    for (int i = 0; i < devices->count; i++) {
        some = some || (devices->device[i].chosen && devices->device[i].tcp == tcp);
    }
    return some;
}

void gpucoll_rdma_device_text(const struct gpucoll_rdma_devices *devices, int device, char *text,
                              size_t bytes)
{
    const struct gpucoll_topology_object *nic = nic_of(devices, device);
    int used = snprintf(text, bytes, "%s", devices->device[device].transports);
    if (nic != NULL && used > 0 && (size_t)used < bytes) {
        used += snprintf(text + used, bytes - (size_t)used, ", %s%s", gpucoll_nic_kind_name(nic->nic),
                         nic->up ? "" : ", down");
    }
    if (nic != NULL && nic->bits_per_sec > 0 && (size_t)used < bytes) {
        snprintf(text + used, bytes - (size_t)used, ", %g Gbit/s", nic->bits_per_sec / 1e9);
    }
}

/* A way slower than the hardware has is never taken silently. */
static void say_slow(const struct gpucoll_rdma_devices *devices, const struct gpucoll_log *log)
{
    const struct gpucoll_topology_object *faster = NULL;
    for (int n = 0; devices->topology != NULL && n < devices->topology->count; n++) {
        const struct gpucoll_topology_object *nic = &devices->topology->objects[n];
        if (nic->kind == GPUCOLL_TOPOLOGY_NIC && nic->up &&
            (nic->nic == GPUCOLL_NIC_INFINIBAND || nic->nic == GPUCOLL_NIC_ROCE)) {
            faster = nic;
        }
    }
    if (faster != NULL && gpucoll_rdma_chosen(devices, true) && !gpucoll_rdma_chosen(devices, false)) {
        char used[GPUCOLL_RDMA_LIST_BYTES];
        join(devices, true, used, sizeof used);
        gpucoll_help_slow(log, "net-slow", faster->name, gpucoll_nic_kind_name(faster->nic), used);
    }
}

static void say_chosen(const struct gpucoll_rdma_devices *devices, const char *variable, const char *wish,
                       const struct gpucoll_log *log)
{
    for (int i = 0; i < devices->count; i++) {
        char text[256];
        if (devices->device[i].chosen) {
            gpucoll_rdma_device_text(devices, i, text, sizeof text);
            gpucoll_log(log, GPUCOLL_LOG_SETUP, "network device %s (%s), by %s = %s", devices->device[i].name,
                        text, variable, wish);
        }
    }
    say_slow(devices, log);
}

gpucoll_status gpucoll_rdma_choose(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                   struct gpucoll_rdma_devices *devices)
{
    const char *wish = config->net_devices;
    const char *unknown = NULL;
    size_t length = 0;
    char names[GPUCOLL_RDMA_LIST_BYTES];
    find_nics(devices);
    if (strcmp(wish, "auto") == 0) {
        const char *theirs = getenv("UCX_NET_DEVICES");
        if (theirs != NULL) {
            choose_by_ucx(devices, theirs);
            gpucoll_log(log, GPUCOLL_LOG_SETUP, "network devices are those of UCX_NET_DEVICES: %s", theirs);
            say_chosen(devices, "UCX_NET_DEVICES", theirs, log);
            return GPUCOLL_OK;
        }
        choose_best(devices);
    } else if (strcmp(wish, "all") == 0) {
        for (int i = 0; i < devices->count; i++) {
            devices->device[i].chosen = true;
        }
    } else {
        choose_named(devices, wish, &unknown, &length);
    }
    if (unknown != NULL || devices->count == 0) {
        join(devices, false, names, sizeof names);
        snprintf(devices->list, sizeof devices->list, "%.*s", (int)length, unknown != NULL ? unknown : "");
        gpucoll_help(log, "net-devices", wish, devices->list, names);
        return GPUCOLL_DECLINED;
    }
    join(devices, true, devices->list, sizeof devices->list);
    say_chosen(devices, "coll_gpucoll_net_devices", wish, log);
    return GPUCOLL_OK;
}
