/*
 * NVML, NVIDIA's management library: what it knows of GPUs, also of those that this process cannot see
 * through CUDA. Loaded at run time; its interface is kept stable by the version suffixes of its names.
 * Handles are pointers, results are 0 for success.
 */
#ifndef GPUCOLL_ACCEL_NVML_H
#define GPUCOLL_ACCEL_NVML_H

#include <stdbool.h>
#include "core/accel/accel.h"

/* nvmlPciInfo_t */
struct gpucoll_nvml_pci {
    char legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned device_id;
    unsigned subsystem_id;
    char id[32];
};

/* The functions that gpucoll uses, by NVML's names. */
struct gpucoll_nvml {
    void *library;
    int (*nvmlInit_v2)(void);
    int (*nvmlShutdown)(void);
    int (*nvmlSystemGetDriverVersion)(char *, unsigned);
    int (*nvmlDeviceGetHandleByUUID)(const char *, void **);
    int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *, void **);
    int (*nvmlDeviceGetP2PStatus)(void *, void *, int, int *);
    int (*nvmlDeviceGetNvLinkState)(void *, unsigned, unsigned *);
    int (*nvmlDeviceGetNvLinkRemoteDeviceType)(void *, unsigned,
                                               int *); /* NULL before the driver of CUDA 11.1 */
    int (*nvmlDeviceGetNvLinkRemotePciInfo_v2)(void *, unsigned, struct gpucoll_nvml_pci *);
    int (*nvmlDeviceGetTopologyCommonAncestor)(void *, void *, int *);
};

/* Loads and initialises it. False, with nothing to close, where there is no NVML that has the functions. */
bool gpucoll_nvml_open(struct gpucoll_nvml *nvml);
void gpucoll_nvml_close(struct gpucoll_nvml *nvml);

/* Do the two GPUs reach each other over NVLink? False as well where there is no NVML, or it does not know one
 * of them. */
bool gpucoll_nvml_has_nvlink(const struct gpucoll_device_id *a, const struct gpucoll_device_id *b);

#endif
