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

/* nvmlMemory_t */
struct gpucoll_nvml_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

/* nvmlFieldValue_t */
struct gpucoll_nvml_field {
    unsigned id;
    unsigned scope;
    long long timestamp;
    long long latency_us;
    int type;
    int result;
    union {
        unsigned number;
        unsigned long long wide;
    } value;
};

enum {
    GPUCOLL_NVML_LINKS = 18,           /* NVML_NVLINK_MAX_LINKS */
    GPUCOLL_NVML_REMOTE_SWITCH = 2,    /* NVML_NVLINK_DEVICE_TYPE_SWITCH */
    GPUCOLL_NVML_REMOTE_CPU = 1,       /* NVML_NVLINK_DEVICE_TYPE_IBMNPU */
    GPUCOLL_NVML_FIELD_C2C_LINKS = 170 /* NVML_FI_DEV_C2C_LINK_COUNT */
};

/* The functions that gpucoll uses, by NVML's names. Those marked * are NULL in drivers that are older than they are. */
struct gpucoll_nvml {
    void *library;
    int (*nvmlInit_v2)(void);
    int (*nvmlShutdown)(void);
    int (*nvmlSystemGetDriverVersion)(char *, unsigned);
    int (*nvmlDeviceGetHandleByUUID)(const char *, void **);
    int (*nvmlDeviceGetP2PStatus)(void *, void *, int, int *);
    int (*nvmlDeviceGetNvLinkState)(void *, unsigned, unsigned *);
    int (*nvmlDeviceGetNvLinkRemoteDeviceType)(void *, unsigned, int *); /* * CUDA 11.1 */
    int (*nvmlDeviceGetNvLinkRemotePciInfo_v2)(void *, unsigned, struct gpucoll_nvml_pci *);
    int (*nvmlDeviceGetNvLinkVersion)(void *, unsigned, unsigned *);
    int (*nvmlDeviceGetCount_v2)(unsigned *);
    int (*nvmlDeviceGetHandleByIndex_v2)(unsigned, void **);
    int (*nvmlDeviceGetName)(void *, char *, unsigned);
    int (*nvmlDeviceGetUUID)(void *, char *, unsigned);
    int (*nvmlDeviceGetPciInfo_v3)(void *, struct gpucoll_nvml_pci *);
    int (*nvmlDeviceGetMemoryInfo)(void *, struct gpucoll_nvml_memory *);
    int (*nvmlDeviceGetCudaComputeCapability)(void *, int *, int *);
    int (*nvmlDeviceGetMaxPcieLinkGeneration)(void *, unsigned *);
    int (*nvmlDeviceGetMaxPcieLinkWidth)(void *, unsigned *);
    int (*nvmlDeviceGetMultiGpuBoard)(void *, unsigned *);
    int (*nvmlDeviceGetBoardId)(void *, unsigned *);
    int (*nvmlDeviceGetFieldValues)(void *, int, struct gpucoll_nvml_field *); /* * */
};

/* Loads and initialises it. False, with nothing to close, where there is no NVML that has the functions. */
bool gpucoll_nvml_open(struct gpucoll_nvml *nvml);
void gpucoll_nvml_close(struct gpucoll_nvml *nvml);

/* Do the two GPUs reach each other over NVLink? False as well where there is no NVML, or it does not know one
 * of them. */
bool gpucoll_nvml_has_nvlink(const struct gpucoll_device_id *a, const struct gpucoll_device_id *b);

#endif
