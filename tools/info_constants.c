/*
 * The constants of the cost model: those built in, and those that count here.
 */
#include <stdio.h>
#include "core/tuning.h"
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

void info_machine(struct info_machine *machine)
{
    static struct gpu_list list;
    char reason[512];
    *machine = (struct info_machine){.name = "no GPU"};
    if (gpu_list_from_cuda(&list, reason, sizeof(reason))) {
        gpu_list_add_nvml(&list);
        machine->gpus = list.count;
        machine->nvlink = list.count > 1 && list.gpus[0].nvlinks[1] > 0;
        snprintf(machine->name, sizeof(machine->name), "%s", list.gpus[0].name);
    }
}

void info_print_source(const struct info *info, const struct info_machine *machine, int entry)
{
    const struct gpucoll_model_entry *known = gpucoll_model_entry_at(entry);
    printf("  constants built in, measured on %s\n", (known ? known : gpucoll_model_entry_at(0))->source);
    if (!known && machine->gpus > 0) {
        printf("  (none are built in for %s %s NVLink: gpucoll_info --tune measures them)\n", machine->name,
               machine->nvlink ? "over" : "without");
    }
    if (info->tuned) {
        printf("  and those that %s sets\n", info->config.tuning_file);
    }
}

bool info_constants(struct info *info)
{
    struct info_machine machine;
    struct gpucoll_model model;
    const struct gpucoll_model_constant *constant;
    info_machine(&machine);
    info_print_source(info, &machine, info_model(info, machine.name, machine.nvlink, &model));
    for (int i = 0; (constant = gpucoll_model_constant_at(i)) != NULL; i++) {
        printf("  %-20s = %8.4g %-5s %s\n", constant->name,
               *gpucoll_model_field(&model, constant) / constant->scale, constant->unit, constant->help);
    }
    return info->tuned || !info->config.tuning_file[0];
}
