/*
 * The GPUs of this machine as three sources know them: the CUDA driver (who they are, who reaches whom), NVML (NVLinks and PCIe
 * paths), hwloc (the cores and NICs that are near). Every source is optional and loaded at run time where it can be.
 */
#ifndef GPUCOLL_GPU_LIST_H
#define GPUCOLL_GPU_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPU_LIST_MAX = 32 };

struct gpu {
    char name[96];
    char pci[16]; /* domain:bus:device.function */
    int major;    /* compute capability */
    int minor;
    size_t mib;
    int numa_node;              /* -1: not known */
    char cores[64];             /* those nearest, such as "0-31"; empty: not known */
    char nics[96];              /* those nearest; empty: none found */
    bool reaches[GPU_LIST_MAX]; /* by index: kernels of this one may load and store the memory of that one */
    int nvlinks[GPU_LIST_MAX];  /* direct, or through NVSwitches */
    const char *path[GPU_LIST_MAX]; /* by PCIe: PIX, PXB, PHB, NODE, SYS; NULL: not known */
};

struct gpu_list {
    int count;
    int cuda_version; /* of the driver: 13000 is 13.0 */
    char driver[80];  /* of the kernel module; empty: not known */
    struct gpu gpus[GPU_LIST_MAX];
};

/* As this process sees them (CUDA_VISIBLE_DEVICES). False, with the reason, if there is no driver or no GPU. */
bool gpu_list_from_cuda(struct gpu_list *list, char *reason, size_t reason_bytes);
/* Add what they know to the GPUs that are listed. */
void gpu_list_add_nvml(struct gpu_list *list);
void gpu_list_add_hwloc(struct gpu_list *list);

#endif
