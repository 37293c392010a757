#include <stdio.h>
#include "tools/gpu_list.h"
#include "tools/gpucoll_info.h"

static void print_gpu(int index, const struct gpu *gpu)
{
    printf("  %2d  %s, %zu MiB, sm_%d%d, %s", index, gpu->name, gpu->mib, gpu->major, gpu->minor, gpu->pci);
    if (gpu->numa_node >= 0) {
        printf(", NUMA node %d", gpu->numa_node);
    }
    if (gpu->cores[0]) {
        printf(", cores %s", gpu->cores);
    }
    if (gpu->nics[0]) {
        printf(", near %s", gpu->nics);
    }
    printf("\n");
}

static void print_link(const struct gpu *gpu, int peer)
{
    char text[16];
    if (gpu->nvlinks[peer] > 0) {
        snprintf(text, sizeof(text), "NV%d", gpu->nvlinks[peer]);
    } else {
        snprintf(text, sizeof(text), "%s", gpu->path[peer] ? gpu->path[peer] : "?");
    }
    printf(" %5s%c", text, gpu->reaches[peer] ? ' ' : '!');
}

/* Returns the number of pairs without peer access. */
static int print_links(const struct gpu_list *list)
{
    int unreachable = 0;
    printf("\n  %4s", "");
    for (int i = 0; i < list->count; i++) {
        printf(" %5d ", i);
    }
    printf("\n");
    for (int i = 0; i < list->count; i++) {
        printf("  %4d", i);
        for (int j = 0; j < list->count; j++) {
            if (i == j) {
                printf(" %5s ", "-");
            } else {
                print_link(&list->gpus[i], j);
                unreachable += !list->gpus[i].reaches[j];
            }
        }
        printf("\n");
    }
    printf("  NVn: n NVLinks, direct or by switches; PIX, PXB, PHB, NODE, SYS: PCIe, ever farther apart; !: "
           "no peer access\n");
    return unreachable;
}

bool info_gpus(struct info *info)
{
    static struct gpu_list list;
    char reason[512];
    (void)info;
    if (!gpu_list_from_cuda(&list, reason, sizeof(reason))) {
        printf("  none: %s\n", reason);
        return true;
    }
    gpu_list_add_nvml(&list);
    gpu_list_add_hwloc(&list);
    printf("  CUDA %d.%d", list.cuda_version / 1000, list.cuda_version % 1000 / 10);
    printf("%s%s\n", list.driver[0] ? ", driver " : "", list.driver);
    for (int i = 0; i < list.count; i++) {
        print_gpu(i, &list.gpus[i]);
    }
    if (list.count > 1 && print_links(&list) > 0) {
        printf("  Collectives over a pair marked ! are staged through host memory (docs/troubleshooting.md, "
               "peer-unreachable).\n");
    }
    return true;
}
