/*
 * The GPUs as the CUDA driver shows them to this process: who they are, and who reaches whom. Loaded at run time.
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
    bool mps;                   /* processes use it by way of MPS */
    bool reaches[GPU_LIST_MAX]; /* by index: kernels of this one may load and store the memory of that one */
};

struct gpu_list {
    int count;
    int cuda_version; /* of the driver: 13000 is 13.0 */
    struct gpu gpus[GPU_LIST_MAX];
};

/* As this process sees them (CUDA_VISIBLE_DEVICES). False, with the reason, if there is no driver or no GPU. */
bool gpu_list_from_cuda(struct gpu_list *list, char *reason, size_t reason_bytes);
#endif
