/*
 * The constants of the cost model: those built in, and those that count here.
 */
#include <stdio.h>
#include "core/plan/tuning.h"
#include "core/topology/format.h"
#include "core/topology/topology.h"
#include "tools/gpu_list.h"
#include "tools/gpucoll_info.h"

int info_model(struct info *info, const char *gpu, bool whole_lines, struct gpucoll_model *model)
{
    struct gpucoll_tuning tuning;
    int entry = gpucoll_model_find(gpu, whole_lines);
    *model = *gpucoll_model_of(entry);
    info->tuned =
        gpucoll_tuning_read(info->config.tuning_file, &info->log, &tuning) == GPUCOLL_OK && tuning.set != 0;
    gpucoll_tuning_apply(&tuning, model);
    return entry;
}

/* As a topology knows two GPUs that CUDA has shown, or its own first two. */
static bool has_nvlink(const struct gpucoll_topology *topology, const struct gpu_list *list)
{
    int gpus[2];
    for (int i = 0; i < 2; i++) {
        struct gpucoll_pci_address pci;
        gpus[i] = gpucoll_topology_gpu(topology, -1, i);
        if (list != NULL) {
            gpus[i] =
                gpucoll_pci_parse(&pci, list->gpus[i].pci) ? gpucoll_topology_find_pci(topology, &pci) : -1;
        }
    }
    struct gpucoll_topology_link link = {.kind = GPUCOLL_LINK_NONE};
    if (gpus[0] >= 0 && gpus[1] >= 0) {
        gpucoll_topology_link(topology, gpus[0], gpus[1], &link);
    }
    return link.kind == GPUCOLL_LINK_NVLINK;
}

/* As gpucoll_accel_ops.device_bulk says on the GPU itself: the thread block clusters of 9.0 on, and the shared memory that 9 and 10 have
 * but 12 has not. */
static bool has_bulk(unsigned compute)
{
    enum { UNKNOWN = 0, LEAST = 90, TOO_NEW = 110 };
    return compute == UNKNOWN || (compute >= LEAST && compute < TOO_NEW);
}

static bool all_have_bulk(const struct gpucoll_topology *topology)
{
    bool bulk = true;
    for (int i = 0; i < topology->gpu_count; i++) {
        bulk &= has_bulk(topology->objects[topology->gpus[i]].compute);
    }
    return bulk;
}

static bool reach_each_other(const struct gpu_list *list)
{
    for (int i = 0; i < list->count; i++) {
        for (int j = 0; j < list->count; j++) {
            if (!list->gpus[i].reaches[j]) {
                return false;
            }
        }
    }
    return true;
}

void info_machine(const struct info *info, struct info_machine *machine)
{
    static struct gpu_list list;
    char reason[512];
    struct gpucoll_topology *topology = NULL;
    bool stands_in = info->config.topology_file[0] != '\0';
    *machine = (struct info_machine){.name = "no GPU", .peer_access = true, .bulk = true};
    if (!stands_in && !gpu_list_from_cuda(&list, reason, sizeof(reason))) {
        return;
    }
    if (gpucoll_topology_open(&info->config, &info->log, &topology) == GPUCOLL_OK) {
        machine->nvlink = (stands_in || list.count > 1) && has_nvlink(topology, stands_in ? NULL : &list);
    }
    const char *name = list.gpus[0].name;
    machine->gpus = list.count;
    machine->peer_access = stands_in || reach_each_other(&list);
    for (int i = 0; i < list.count; i++) {
        machine->bulk &= has_bulk((unsigned)(list.gpus[i].major * 10 + list.gpus[i].minor));
    }
    if (stands_in) {
        machine->gpus = topology != NULL ? topology->gpu_count : 0;
        machine->bulk = topology == NULL || all_have_bulk(topology);
        name = machine->gpus > 0 ? topology->objects[topology->gpus[0]].name : "no GPU";
    }
    snprintf(machine->name, sizeof(machine->name), "%s", name);
    gpucoll_topology_free(topology);
}

void info_print_source(const struct info *info, const struct info_machine *machine, int entry)
{
    const struct gpucoll_model_entry *known = gpucoll_model_entry_at(entry);
    printf("  constants built in, measured on %s\n", (known ? known : gpucoll_model_entry_at(0))->source);
    const bool unshared = gpucoll_model_find(machine->name, machine->nvlink) != GPUCOLL_MODEL_UNKNOWN;
    if (!known && machine->gpus > 0 && machine->shared && unshared) {
        printf("  (with a rank for each GPU; none are built in for ranks that share one: gpucoll_info --tune "
               "--ranks N "
               "measures them)\n");
    } else if (!known && machine->gpus > 0) {
        printf("  (none are built in for %s %s NVLink: gpucoll_info --tune measures them)\n", machine->name,
               machine->nvlink ? "over" : "without");
    }
    if (info->tuned) {
        printf("  and those that %s sets\n", info->config.tuning_file);
    }
}

bool info_constants_count(const struct info *info)
{
    return info->tuned || info->config.tuning_file[0] == '\0';
}

bool info_constants(struct info *info)
{
    struct info_machine machine;
    struct gpucoll_model model;
    const struct gpucoll_model_constant *constant;
    info_machine(info, &machine);
    info_print_source(info, &machine, info_model(info, machine.name, machine.nvlink, &model));
    for (int i = 0; (constant = gpucoll_model_constant_at(i)) != NULL; i++) {
        printf("  %-20s = %8.4g %-5s %s\n", constant->name,
               *gpucoll_model_field(&model, constant) / constant->scale, constant->unit, constant->help);
    }
    return info_constants_count(info);
}
