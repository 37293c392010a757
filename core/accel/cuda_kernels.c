#include "core/accel/cuda_accel.h"
#include <stdio.h>
#include "kernels/functors.h"

static CUresult load(const struct gpucoll_cuda_driver *cuda, CUmodule module, const char *name,
                     CUfunction *function)
{
    CUresult result = cuda->cuModuleGetFunction(function, module, name);
    /* A lazy driver would load the code at the first launch; one without cuFuncLoad loads it for what it is asked here. */
    int registers;
    return result != CUDA_SUCCESS ? result
           : cuda->load_function
               ? cuda->load_function(*function)
               : cuda->cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, *function);
}

bool gpucoll_cuda_has_clusters(const struct gpucoll_cuda_driver *cuda, CUfunction function)
{
    enum { FIRST_WITH_CLUSTERS = 90 };
    int compiled_for = 0;
    return cuda->launch_cluster != NULL &&
           cuda->cuFuncGetAttribute(&compiled_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, function) == CUDA_SUCCESS &&
           compiled_for >= FIRST_WITH_CLUSTERS;
}

/* Newer than 9.0 does not mean as much shared memory: a CTA of 12.0 may have 99 KiB. */
static bool has_bulk(const struct gpucoll_cuda_driver *cuda, CUdevice device, CUfunction function)
{
    enum { OF_THE_KERNEL_ITSELF = 8192 }; /* its barriers, the call, the bell, and some more */
    int most = 0;
    return gpucoll_cuda_has_clusters(cuda, function) &&
           cuda->cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device) ==
               CUDA_SUCCESS &&
           most >= GPUCOLL_BULK_SHARED_BYTES + OF_THE_KERNEL_ITSELF;
}

static CUresult allow_shared(const struct gpucoll_cuda_driver *cuda, CUfunction function)
{
    return cuda->cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    GPUCOLL_BULK_SHARED_BYTES);
}

/* Lets the kernels that move and reduce in bulk have their shared memory, where they can. */
static CUresult prepare_bulk(const struct gpucoll_cuda_driver *cuda, struct gpucoll_cuda_device *device)
{
    const CUfunction *functions = device->functions[GPUCOLL_KERNEL_REDUCE_BULK];
    device->bulk = has_bulk(cuda, (CUdevice)device->base.ordinal, functions[0]);
    if (!device->bulk) {
        return CUDA_SUCCESS;
    }
    CUresult result = allow_shared(cuda, device->functions[GPUCOLL_KERNEL_STORE][0]);
    for (int suite = 0; suite < GPUCOLL_SUITE_COUNT && result == CUDA_SUCCESS; suite++) {
        result = allow_shared(cuda, functions[suite]);
    }
    return result;
}

static CUresult load_all(const struct gpucoll_cuda_driver *cuda, struct gpucoll_cuda_device *device,
                         const char **what)
{
    CUresult result = CUDA_SUCCESS;
    *what = "the images of its kernels";
    for (int i = 0; i < GPUCOLL_IMAGE_COUNT && result == CUDA_SUCCESS; i++) {
        result = cuda->cuModuleLoadData(&device->modules[i], gpucoll_image_data(i));
    }
    for (int kernel = 0; kernel < GPUCOLL_KERNEL_COUNT && result == CUDA_SUCCESS; kernel++) {
        for (int suite = 0; suite < GPUCOLL_SUITE_COUNT && result == CUDA_SUCCESS; suite++) {
            if (suite > 0 && !gpucoll_kernel_has_functor(kernel)) {
                device->functions[kernel][suite] = device->functions[kernel][0];
                continue;
            }
            *what = gpucoll_kernel_entry(kernel, suite);
            result = load(cuda, device->modules[gpucoll_image_of(kernel, suite)], *what,
                          &device->functions[kernel][suite]);
        }
    }
    if (result == CUDA_SUCCESS) {
        *what = gpucoll_kernel_entry(GPUCOLL_KERNEL_REDUCE_BULK, 0);
        result = prepare_bulk(cuda, device);
    }
    if (result == CUDA_SUCCESS) {
        *what = "gpucoll_pack_layout";
        result = load(cuda, device->modules[GPUCOLL_IMAGE_PACK], *what, &device->pack);
    }
    return result;
}

gpucoll_status gpucoll_cuda_load_kernels(struct gpucoll_cuda_device *device)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->base.accel);
    const char *missing;
    struct gpucoll_entry entry =
        gpucoll_cuda_enter(accel, atomic_load_explicit(&device->place->context, memory_order_relaxed));
    CUresult result = load_all(accel->cuda, device, &missing);
    gpucoll_cuda_leave(accel, entry);
    char what[256];
    snprintf(what, sizeof(what), "loading %s (configure --with-cuda-arch says for which GPUs there is code)",
             missing);
    return gpucoll_cuda_check(accel, device->base.ordinal, what, result);
}

gpucoll_status gpucoll_cuda_find_resident(struct gpucoll_cuda_device *device)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->base.accel);
    const struct gpucoll_cuda_driver *cuda = accel->cuda;
    int multiprocessors = 0;
    int least = GPUCOLL_MAX_CHANNELS;
    struct gpucoll_entry entry =
        gpucoll_cuda_enter(accel, atomic_load_explicit(&device->place->context, memory_order_relaxed));
    CUresult result = cuda->cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                                 (CUdevice)device->base.ordinal);
    for (int kernel = 0; kernel < GPUCOLL_KERNEL_COUNT; kernel++) {
        for (int suite = 0; suite < GPUCOLL_SUITE_COUNT && result == CUDA_SUCCESS; suite++) {
            if (gpucoll_kernel_is_free(kernel)) {
                continue;
            }
            int each = 0;
            result = cuda->cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &each, device->functions[kernel][suite], GPUCOLL_MAX_THREADS, 0);
            const int ctas = each * multiprocessors;
            least = ctas < least ? ctas : least;
        }
    }
    gpucoll_cuda_leave(accel, entry);
    device->resident = least > 1 ? (unsigned)least : 1;
    return gpucoll_cuda_check(accel, device->base.ordinal, "asking how many CTAs of its kernels it holds",
                              result);
}

void gpucoll_cuda_unload_kernels(struct gpucoll_cuda_device *device)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->base.accel);
    for (int i = 0; i < GPUCOLL_IMAGE_COUNT; i++) {
        if (device->modules[i]) {
            (void)accel->cuda->cuModuleUnload(device->modules[i]);
        }
    }
}
