#include <stdio.h>
#include "tools/gpu_list.h"
#include "tools/gpucoll_info.h"

/* One line for each GPU that reaches not all others. Returns the number of pairs without peer access. */
static int print_unreachable(const struct gpu_list *list)
{
    int unreachable = 0;
    for (int i = 0; i < list->count; i++) {
        int before = unreachable;
        for (int j = 0; j < list->count; j++) {
            if (!list->gpus[i].reaches[j]) {
                if (unreachable == before) {
                    printf("  %2d  has no peer access to", i);
                }
                printf(" %d", j);
                unreachable++;
            }
        }
        printf("%s", unreachable > before ? "\n" : "");
    }
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
    printf("  CUDA %d.%d of the driver\n", list.cuda_version / 1000, list.cuda_version % 1000 / 10);
    for (int i = 0; i < list.count; i++) {
        const struct gpu *gpu = &list.gpus[i];
        printf("  %2d  %s, %zu MiB, sm_%d%d, %s%s\n", i, gpu->name, gpu->mib, gpu->major, gpu->minor,
               gpu->pci, gpu->mps ? ", under MPS" : "");
    }
    if (list.count > 1 && print_unreachable(&list) > 0) {
        printf("  Collectives over these pairs go through shared host memory, by shm and cpu_reduce "
               "(docs/troubleshooting.md, no-peer-access).\n");
    } else if (list.count > 1) {
        printf("  All have peer access to each other.\n");
    }
    return true;
}
