/*
 * A GPU as a program uses it that runs collectives: its context and buffers on it. Through the CUDA driver, loaded at run time
 * and declared here, so that no build needs CUDA; or host memory, which the host accelerator takes for device memory.
 */
#ifndef GPUCOLL_DEVICE_H
#define GPUCOLL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

struct device {
    bool host;
    char name[64];
};

/* How many GPUs the driver shows; with none, `reason` says why. Starts the driver: a process that forks must do so before. */
int device_count(char *reason, size_t reason_bytes);

/* Makes the GPU current in this thread. False, with the reason, if it cannot. */
bool device_open_cuda(struct device *device, int ordinal, char *reason, size_t reason_bytes);
void device_open_host(struct device *device);

/* NULL: there is not as much. */
void *device_alloc(const struct device *device, size_t bytes);
void device_free(const struct device *device, void *pointer);

#endif
