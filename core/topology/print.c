/*
 * A topology for people.
 */
#include <string.h>
#include "core/topology/format.h"

/* One attribute as a topology file has it; empty if the object has none of that name. */
static const char *text_of(const struct gpucoll_topology_object *object, const char *name, char *text,
                           size_t bytes)
{
    const struct gpucoll_topology_attribute *row = gpucoll_topology_elements[object->kind].attributes;
    while (row->name != NULL && strcmp(row->name, name) != 0) {
        row++;
    }
    if (row->name == NULL || !row->value->format((const char *)object + row->offset, text, bytes)) {
        text[0] = '\0';
    }
    return text;
}

/* Prints `before`, the attribute and `after`, if it is known. */
static void print_known(const struct gpucoll_topology_object *object, const char *before, const char *name,
                        const char *after, FILE *file)
{
    char text[GPUCOLL_TOPOLOGY_VALUE_BYTES];
    if (text_of(object, name, text, sizeof(text))[0] != '\0') {
        fprintf(file, "%s%s%s", before, text, after);
    }
}

static void print_slot(const struct gpucoll_topology_object *object, FILE *file)
{
    print_known(object, ", ", "pci", "", file);
    print_known(object, ", PCIe ", "pcie_generation", "", file);
    print_known(object, " x", "pcie_lanes", "", file);
}

static void print_gpu(const struct gpucoll_topology_object *gpu, FILE *file)
{
    fprintf(file, "GPU %d", gpu->id);
    print_known(gpu, ": ", "name", "", file);
    print_known(gpu, ", compute ", "compute", "", file);
    print_known(gpu, ", ", "memory_mib", " MiB", file);
    print_slot(gpu, file);
    print_known(gpu, ", board ", "board", "", file);
    print_known(gpu, ", ", "uuid", "", file);
}

static void print_nic(const struct gpucoll_topology_object *nic, FILE *file)
{
    fprintf(file, "NIC %s: %s", nic->name, gpucoll_nic_kind_name(nic->nic));
    print_known(nic, ", ", "gbits", " Gbit/s", file);
    print_slot(nic, file);
    print_known(nic, ", interface ", "interface", "", file);
    fputs(nic->up ? "" : ", down", file);
}

static void print_object(const struct gpucoll_topology_object *object, FILE *file)
{
    switch (object->kind) {
    case GPUCOLL_TOPOLOGY_HOST:
        fprintf(file, "Host %s", object->name);
        break;
    case GPUCOLL_TOPOLOGY_SOCKET:
        fprintf(file, "Socket %d", object->id);
        print_known(object, ", CPUs ", "cpus", "", file);
        break;
    case GPUCOLL_TOPOLOGY_NUMA:
        fprintf(file, "NUMA node %d", object->id);
        print_known(object, ", CPUs ", "cpus", "", file);
        print_known(object, ", ", "memory_mib", " MiB", file);
        break;
    case GPUCOLL_TOPOLOGY_BRIDGE:
    case GPUCOLL_TOPOLOGY_SWITCH:
        fputs(object->kind == GPUCOLL_TOPOLOGY_BRIDGE ? "Host bridge" : "PCIe switch", file);
        print_known(object, " ", "pci", "", file);
        break;
    case GPUCOLL_TOPOLOGY_GPU:
        print_gpu(object, file);
        break;
    case GPUCOLL_TOPOLOGY_NIC:
        print_nic(object, file);
        break;
    }
    fputc('\n', file);
}

static void print_nvlinks(const struct gpucoll_topology *topology, int gpu, int indent, FILE *file)
{
    for (int i = 0; i < topology->nvlink_count; i++) {
        const struct gpucoll_nvlink *nvlink = &topology->nvlinks[i];
        if (nvlink->gpu != gpu) {
            continue;
        }
        const char *many = nvlink->links == 1 ? "" : "s";
        if (nvlink->version == GPUCOLL_NVLINK_C2C) {
            fprintf(file, "%*s%u NVLink-C2C link%s", indent, "", nvlink->links, many);
        } else {
            fprintf(file, "%*s%u NVLink%s of version %u", indent, "", nvlink->links, many, nvlink->version);
        }
        if (nvlink->to >= 0) {
            fprintf(file, " to GPU %d\n", topology->objects[nvlink->to].id);
        } else {
            fputs(nvlink->to == GPUCOLL_NVLINK_TO_CPU ? " to the CPU\n" : " to NVSwitches\n", file);
        }
    }
}

static void print_tree(const struct gpucoll_topology *topology, int index, int indent, FILE *file)
{
    fprintf(file, "%*s", indent, "");
    print_object(&topology->objects[index], file);
    print_nvlinks(topology, index, indent + 2, file);
    for (int i = index + 1; i < topology->count; i++) {
        if (topology->objects[i].parent == index) {
            print_tree(topology, i, indent + 2, file);
        }
    }
}

/* The short word for a link: nvidia-smi's, which people know, where there is one. */
static void short_name(const struct gpucoll_topology_link *link, char *text, size_t bytes)
{
    static const char *const words[] = {
        [GPUCOLL_PATH_SELF] = "-",          [GPUCOLL_PATH_BOARD] = "BRD",   [GPUCOLL_PATH_SWITCH] = "PIX",
        [GPUCOLL_PATH_HOST_BRIDGE] = "PHB", [GPUCOLL_PATH_SOCKET] = "NODE", [GPUCOLL_PATH_ACROSS] = "SYS",
        [GPUCOLL_PATH_NETWORK] = "NET",
    };
    if (link->kind == GPUCOLL_LINK_NVLINK) {
        snprintf(text, bytes, "NV%u%s", link->nvlinks, link->switched ? "s" : "");
    } else {
        snprintf(text, bytes, "%s", words[link->path]);
    }
}

/* What a short word stands for, and the estimates. */
static void print_meaning(const struct gpucoll_topology_link *link, FILE *file)
{
    char name[16];
    short_name(link, name, sizeof(name));
    fprintf(file, "    %-5s ", name);
    if (link->kind == GPUCOLL_LINK_NVLINK) {
        fprintf(file, "%u NVLinks of version %u%s", link->nvlinks, link->nvlink_version,
                link->switched ? ", through switches" : "");
    } else {
        fprintf(file, "PCIe, %s", gpucoll_path_name(link->path));
    }
    fprintf(file, ": about %.3g GB/s, %.2g us\n", link->bandwidth / 1e9, link->latency_us);
}

static bool same_meaning(const struct gpucoll_topology_link *a, const struct gpucoll_topology_link *b)
{
    bool nvlink = a->kind == GPUCOLL_LINK_NVLINK; /* then the way over PCIe does not matter */
    return a->kind == b->kind && (nvlink || a->path == b->path) && a->nvlinks == b->nvlinks &&
           a->nvlink_version == b->nvlink_version && a->switched == b->switched &&
           a->bandwidth >= b->bandwidth && a->bandwidth <= b->bandwidth;
}

static void print_links(const struct gpucoll_topology *topology, int host, FILE *file)
{
    enum { MEANINGS = 16 };
    struct gpucoll_topology_link seen[MEANINGS];
    int count = 0;
    int gpu;
    fprintf(file, "  Links between the GPUs of %s\n    %5s", topology->objects[host].name, "");
    for (int i = 0; (gpu = gpucoll_topology_gpu(topology, host, i)) >= 0; i++) {
        fprintf(file, " %5d", topology->objects[gpu].id);
    }
    fputc('\n', file);
    for (int i = 0; (gpu = gpucoll_topology_gpu(topology, host, i)) >= 0; i++) {
        int peer;
        fprintf(file, "    %5d", topology->objects[gpu].id);
        for (int j = 0; (peer = gpucoll_topology_gpu(topology, host, j)) >= 0; j++) {
            struct gpucoll_topology_link link;
            char name[16];
            int known = 0;
            gpucoll_topology_link(topology, gpu, peer, &link);
            short_name(&link, name, sizeof(name));
            fprintf(file, " %5s", name);
            while (known < count && !same_meaning(&seen[known], &link)) {
                known++;
            }
            if (known == count && count < MEANINGS && i != j) {
                seen[count++] = link;
            }
        }
        fputc('\n', file);
    }
    for (int i = 0; i < count; i++) {
        print_meaning(&seen[i], file);
    }
}

static void print_nics(const struct gpucoll_topology *topology, int host, FILE *file)
{
    enum { SHOWN = 4 };
    int gpu;
    fprintf(file, "  NICs of each GPU of %s, best first\n", topology->objects[host].name);
    for (int i = 0; (gpu = gpucoll_topology_gpu(topology, host, i)) >= 0; i++) {
        int nics[SHOWN];
        int count = gpucoll_topology_nics(topology, gpu, nics, SHOWN);
        fprintf(file, "    GPU %d:", topology->objects[gpu].id);
        for (int n = 0; n < count && n < SHOWN; n++) {
            const struct gpucoll_topology_object *nic = &topology->objects[nics[n]];
            fprintf(file, "%s %s", n ? "," : "", nic->name);
            /* Directly below the host: its place is not known. */
            if (topology->objects[nic->parent].kind != GPUCOLL_TOPOLOGY_HOST) {
                fprintf(file, " (%s)", gpucoll_path_name(gpucoll_topology_path(topology, gpu, nics[n])));
            }
        }
        if (count > SHOWN) {
            fprintf(file, ", %d more", count - SHOWN);
        }
        fputs(count ? "\n" : " none that leads to other hosts and is up\n", file);
    }
}

void gpucoll_topology_print(const struct gpucoll_topology *topology, FILE *file)
{
    int host;
    for (int i = 0; (host = gpucoll_topology_host(topology, i)) >= 0; i++) {
        print_tree(topology, host, 2, file);
        if (gpucoll_topology_gpu(topology, host, 0) < 0) {
            fprintf(file, "  No GPU on %s\n", topology->objects[host].name);
            continue;
        }
        if (gpucoll_topology_gpu(topology, host, 1) >= 0) {
            print_links(topology, host, file);
        }
        print_nics(topology, host, file);
    }
}
