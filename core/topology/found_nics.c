/*
 * NICs by sysfs: /sys/class/infiniband has the devices that do RDMA, /sys/class/net the network interfaces. A port that is in
 * both is listed once, by its RDMA device.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* CPU_SET and its like, scandir */
#endif
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/base/number.h"
#include "core/topology/build.h"
#include "core/topology/format.h"
#include "core/topology/found.h"

enum { LOOPBACK_TYPE = 772 /* ARPHRD_LOOPBACK */, FLAG_UP = 1 /* IFF_UP */, BELOW_LIMIT = 4 };

static bool path_of(char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool path_of(char *path, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(path, PATH_MAX, format, args);
    va_end(args);
    return length > 0 && length < PATH_MAX;
}

static bool exists(const char *directory, const char *name)
{
    char path[PATH_MAX];
    return path_of(path, "%s/%s", directory, name) && access(path, F_OK) == 0;
}

/* The first line of a file without its end; empty if it cannot be read. */
static void read_line(const char *directory, const char *name, char *text, size_t bytes)
{
    char path[PATH_MAX];
    text[0] = '\0';
    FILE *file = path_of(path, "%s/%s", directory, name) ? fopen(path, "re") : NULL;
    if (file != NULL) {
        if (fgets(text, (int)bytes, file) == NULL) {
            text[0] = '\0';
        }
        (void)fclose(file);
        text[strcspn(text, "\n")] = '\0';
    }
}

/* 0 if it is no number. */
static double read_number(const char *directory, const char *name)
{
    char text[64];
    read_line(directory, name, text, sizeof(text));
    return gpucoll_strtod(text, NULL);
}

/* The entries of a directory but "." and "..", in the order of their names; freed by free_names. */
static int list_names(const char *path, struct dirent ***names)
{
    int count = scandir(path, names, NULL, versionsort);
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if ((*names)[i]->d_name[0] == '.') {
            free((*names)[i]);
        } else {
            (*names)[kept++] = (*names)[i];
        }
    }
    if (count < 0) {
        *names = NULL;
    }
    return kept;
}

static void free_names(struct dirent **names, int count)
{
    for (int i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}

/* PCIe generation and lanes of a device that says "32.0 GT/s PCIe". */
static void read_slot(const char *pci, struct gpucoll_topology_object *nic)
{
    static const double speeds[] = {2.5, 5, 8, 16, 32, 64, 128};
    double speed = read_number(pci, "max_link_speed");
    double lanes = read_number(pci, "max_link_width");
    for (unsigned i = 0; i < sizeof(speeds) / sizeof(speeds[0]) && speed > 0; i++) {
        if (speed <= speeds[i]) {
            nic->pcie_generation = i + 1;
            nic->pcie_lanes = lanes >= 1 && lanes <= 32 ? (unsigned)lanes : 0;
            return;
        }
    }
}

/* The PCI device behind `directory`/device: that itself, or (virtio) one it hangs from. */
static void read_pci(const char *directory, struct gpucoll_topology_object *nic)
{
    char link[PATH_MAX];
    char *path = path_of(link, "%s/device", directory) ? realpath(link, NULL) : NULL;
    while (path != NULL && strrchr(path, '/') != NULL) {
        char *name = strrchr(path, '/');
        if (gpucoll_pci_parse(&nic->pci, name + 1)) {
            read_slot(path, nic);
            break;
        }
        nic->pci.known = false;
        *name = '\0';
    }
    free(path);
}

static void copy_text(char *to, size_t bytes, const char *from)
{
    snprintf(to, bytes, "%.*s", (int)bytes - 1, from);
}

/* One port of an RDMA device. */
static bool add_port(struct gpucoll_topology *found, const char *device, const char *name, const char *port)
{
    struct gpucoll_topology_object nic;
    char path[PATH_MAX];
    char text[64];
    struct dirent **names = NULL;
    gpucoll_topology_blank(&nic, GPUCOLL_TOPOLOGY_NIC, -1);
    if (strcmp(port, "1") == 0) {
        copy_text(nic.name, sizeof(nic.name), name);
    } else {
        snprintf(nic.name, sizeof(nic.name), "%.60s:%.8s", name, port);
    }
    if (!path_of(path, "%s/ports/%s", device, port)) {
        return true;
    }
    read_line(path, "link_layer", text, sizeof(text));
    nic.nic = strcmp(text, "InfiniBand") == 0 ? GPUCOLL_NIC_INFINIBAND : GPUCOLL_NIC_ROCE;
    nic.bits_per_sec = 1e9 * read_number(path, "rate");
    read_line(path, "state", text, sizeof(text));
    nic.up = strstr(text, "ACTIVE") != NULL;
    read_pci(device, &nic);
    const int count = path_of(path, "%s/device/net", device) ? list_names(path, &names) : 0;
    for (int i = 0; i < count; i++) {
        char interface[PATH_MAX];
        bool fits = path_of(interface, "%s/%s", path, names[i]->d_name);
        /* dev_port counts from 0; interfaces over the same port, such as virtual functions, come later. */
        if (fits && nic.interface[0] == '\0' && (int)read_number(interface, "dev_port") + 1 == atoi(port)) {
            copy_text(nic.interface, sizeof(nic.interface), names[i]->d_name);
        }
    }
    free_names(names, count);
    return gpucoll_topology_add(found, &nic) >= 0;
}

static bool add_rdma(struct gpucoll_topology *found, const char *sys)
{
    char all[PATH_MAX];
    struct dirent **devices;
    bool fine = true;
    if (!path_of(all, "%s/class/infiniband", sys)) {
        return true;
    }
    int count = list_names(all, &devices);
    for (int i = 0; i < count && fine; i++) {
        char device[PATH_MAX];
        char ports[PATH_MAX];
        struct dirent **names;
        if (!path_of(device, "%s/%s", all, devices[i]->d_name) || !path_of(ports, "%s/ports", device)) {
            continue;
        }
        int port_count = list_names(ports, &names);
        for (int port = 0; port < port_count && fine; port++) {
            fine = add_port(found, device, devices[i]->d_name, names[port]->d_name);
        }
        free_names(names, port_count);
    }
    free_names(devices, count);
    return fine;
}

/* Does what is sent over the interface leave by a device in the end? Bridges, bonds and VLANs stand on other interfaces. */
static bool has_device_below(const char *interface, int depth)
{
    struct dirent **names;
    bool found = exists(interface, "device");
    if (found || depth == BELOW_LIMIT) {
        return found;
    }
    int count = list_names(interface, &names);
    for (int i = 0; i < count && !found; i++) {
        char below[PATH_MAX];
        found = strncmp(names[i]->d_name, "lower_", 6) == 0 &&
                path_of(below, "%s/%s", interface, names[i]->d_name) && has_device_below(below, depth + 1);
    }
    free_names(names, count);
    return found;
}

static enum gpucoll_nic_kind kind_of(const char *interface)
{
    bool joins = exists(interface, "bridge") || exists(interface, "bonding");
    if ((int)read_number(interface, "type") == LOOPBACK_TYPE) {
        return GPUCOLL_NIC_LOOPBACK;
    }
    if (exists(interface, "device")) {
        return GPUCOLL_NIC_ETHERNET;
    }
    if (joins) {
        return has_device_below(interface, 0) ? GPUCOLL_NIC_ETHERNET : GPUCOLL_NIC_BRIDGE;
    }
    return exists(interface, "master") ? GPUCOLL_NIC_BRIDGE : GPUCOLL_NIC_VIRTUAL;
}

/* Interfaces whose driver does not tell, such as the loopback and tunnels, are "unknown": then the administrator's word counts. */
static bool is_up(const char *interface)
{
    char text[64];
    read_line(interface, "operstate", text, sizeof(text));
    if (strcmp(text, "unknown") == 0) {
        read_line(interface, "flags", text, sizeof(text));
        return strtoul(text, NULL, 0) & FLAG_UP;
    }
    return strcmp(text, "up") == 0;
}

static bool of_rdma(const struct gpucoll_topology *found, const char *name)
{
    for (int i = 0; i < found->count; i++) {
        if (found->objects[i].kind == GPUCOLL_TOPOLOGY_NIC &&
            strcmp(found->objects[i].interface, name) == 0) {
            return true;
        }
    }
    return false;
}

bool gpucoll_found_nics(struct gpucoll_topology *found, const char *sys)
{
    char all[PATH_MAX];
    struct dirent **names;
    bool fine = add_rdma(found, sys);
    if (!fine || !path_of(all, "%s/class/net", sys)) {
        return fine;
    }
    int count = list_names(all, &names);
    for (int i = 0; i < count && fine; i++) {
        struct gpucoll_topology_object nic;
        char interface[PATH_MAX];
        const char *name = names[i]->d_name;
        if (!path_of(interface, "%s/%s", all, name) || !exists(interface, "operstate") ||
            of_rdma(found, name)) {
            continue; /* such as bonding_masters, a file */
        }
        gpucoll_topology_blank(&nic, GPUCOLL_TOPOLOGY_NIC, -1);
        copy_text(nic.name, sizeof(nic.name), name);
        nic.nic = kind_of(interface);
        nic.up = is_up(interface);
        double megabits = read_number(interface, "speed"); /* -1: not known */
        nic.bits_per_sec = megabits > 0 ? megabits * 1e6 : 0;
        read_pci(interface, &nic);
        fine = gpucoll_topology_add(found, &nic) >= 0;
    }
    free_names(names, count);
    return fine;
}
