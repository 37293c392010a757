/*
 * What the files of the `cuda` accelerator share:
 *   cuda.c         what is this pointer, the table of functions
 *   cuda_context.c is there a context, which GPU does the process use
 *   cuda_copy.c    contexts that are used, copies, pinned host memory
 *   cuda_device.c  a bound GPU: identity, scratch, peers' scratch
 *   cuda_pieces.c  memory of cuMemCreate as peers map it
 *   cuda_kernels.c loading kernels
 *   cuda_stream.c  launching them, completion
 */
#ifndef GPUCOLL_ACCEL_CUDA_ACCEL_H
#define GPUCOLL_ACCEL_CUDA_ACCEL_H

#include <pthread.h>
#include <stdatomic.h>
#include "core/accel/accel.h"
#include "core/accel/cuda_context.h"
#include "core/accel/cuda_driver.h"
#include "kernels/image.h"

enum { GPUCOLL_CUDA_DEVICES = 64 }; /* ordinals of one process; the driver has fewer */

/* A GPU as this process uses it: in one context, the one that made the first buffer seen on it. */
struct gpucoll_cuda_place {
    _Atomic(CUcontext) context; /* NULL until used; stored last */
    unsigned long long number;  /* of the context, never used again; 0 if the driver gives none */
    bool retained;              /* it is the primary context, and we hold a reference to it */
    CUstream copies;
};

struct gpucoll_cuda_accel {
    struct gpucoll_accel base;
    const struct gpucoll_cuda_driver *cuda;
    atomic_bool seen;                                       /* a context: stays so */
    pthread_mutex_t lock;                                   /* guards the making of places */
    struct gpucoll_cuda_place places[GPUCOLL_CUDA_DEVICES]; /* by ordinal */
};

struct gpucoll_cuda_device {
    struct gpucoll_device base;
    struct gpucoll_cuda_place *place;
    struct gpucoll_device_id id;
    unsigned resident; /* CTAs of any kernel that are on it at once */
    bool concurrent;   /* under MPS: kernels of several processes run at the same time */
    bool bulk;         /* its SMs copy in bulk, and the kernels are compiled for that */
    bool flushes;      /* kernels at work see what network devices have written only after a flush */
    int clock_khz;     /* of its SMs */
    CUmodule modules[GPUCOLL_IMAGE_COUNT];
    CUfunction functions[GPUCOLL_KERNEL_COUNT][GPUCOLL_SUITE_COUNT];
    CUfunction pack;
};

static inline struct gpucoll_cuda_accel *gpucoll_cuda_accel(struct gpucoll_accel *accel)
{
    return (struct gpucoll_cuda_accel *)accel;
}

static inline struct gpucoll_cuda_device *gpucoll_cuda_device(struct gpucoll_device *device)
{
    return (struct gpucoll_cuda_device *)device;
}

/* GPUCOLL_OK, or shows topic "device-error": `what` was tried on device `ordinal`. */
gpucoll_status gpucoll_cuda_check(const struct gpucoll_cuda_accel *accel, int ordinal, const char *what,
                                  CUresult result) GPUCOLL_CHECKED;

/* Lets the thread ask the driver for what it refuses while any thread captures a CUDA graph, which would be given up, too (events, streams,
 * memory, modules): none of it is of the stream that is captured. Until gpucoll_cuda_leave. */
struct gpucoll_entry gpucoll_cuda_relax(const struct gpucoll_cuda_accel *accel);
/* The same, and makes `context` current in this thread. */
struct gpucoll_entry gpucoll_cuda_enter(const struct gpucoll_cuda_accel *accel, CUcontext context);
void gpucoll_cuda_leave(const struct gpucoll_cuda_accel *accel, struct gpucoll_entry entry);

/* True if kernels and copies of a device have to be used on `pointer`: then it is filled in. */
bool gpucoll_cuda_look(const struct gpucoll_cuda_accel *accel, const void *address,
                       struct gpucoll_cuda_pointer *pointer);

/* The place of device memory, made at the first call for its device. Errors are shown. */
gpucoll_status gpucoll_cuda_find_place(struct gpucoll_cuda_accel *accel,
                                       const struct gpucoll_cuda_pointer *pointer,
                                       struct gpucoll_cuda_place **place) GPUCOLL_CHECKED;
/* Is the context still the one that was found? An application may reset its device, or destroy its context, before MPI_Finalize:
 * then all that was made in it is gone, and its handles must not be given to the driver. */
bool gpucoll_cuda_alive(const struct gpucoll_cuda_accel *accel, const struct gpucoll_cuda_place *place,
                        int ordinal);
/* The same by the context's number alone, before kernels and copies are queued: CUDA_SUCCESS or CUDA_ERROR_CONTEXT_IS_DESTROYED. */
CUresult gpucoll_cuda_same_context(const struct gpucoll_cuda_accel *accel,
                                   const struct gpucoll_cuda_place *place);
void gpucoll_cuda_close_places(struct gpucoll_cuda_accel *accel);

gpucoll_status gpucoll_cuda_copy(struct gpucoll_accel *accel, void *to, const void *from,
                                 size_t bytes) GPUCOLL_CHECKED;
gpucoll_status gpucoll_cuda_copy_rows(struct gpucoll_accel *accel, void *to, const void *from,
                                      const struct gpucoll_rows *rows, size_t count) GPUCOLL_CHECKED;
gpucoll_status gpucoll_cuda_host_alloc(struct gpucoll_accel *accel, size_t bytes,
                                       void **pointer) GPUCOLL_CHECKED;
void gpucoll_cuda_host_free(struct gpucoll_accel *accel, void *pointer);
gpucoll_status gpucoll_cuda_synchronize(struct gpucoll_accel *accel, const void *pointer) GPUCOLL_CHECKED;

bool gpucoll_cuda_identify(struct gpucoll_accel *accel, const struct gpucoll_buffer *buffer,
                           struct gpucoll_device_id *id);
gpucoll_status gpucoll_cuda_device_open(struct gpucoll_accel *accel, const void *pointer,
                                        struct gpucoll_device **device) GPUCOLL_CHECKED;
void gpucoll_cuda_device_close(struct gpucoll_device *device);
void gpucoll_cuda_device_id(struct gpucoll_device *device, struct gpucoll_device_id *id);
bool gpucoll_cuda_device_lingers(struct gpucoll_device *device);
unsigned gpucoll_cuda_device_resident(struct gpucoll_device *device);
bool gpucoll_cuda_device_concurrent(struct gpucoll_device *device);
bool gpucoll_cuda_device_bulk(struct gpucoll_device *device);
struct gpucoll_entry gpucoll_cuda_device_enter(struct gpucoll_device *device);
void gpucoll_cuda_device_leave(struct gpucoll_device *device, struct gpucoll_entry entry);
gpucoll_status gpucoll_cuda_device_flush(struct gpucoll_device *device) GPUCOLL_CHECKED;
bool gpucoll_cuda_extent(struct gpucoll_device *device, const void *pointer, uintptr_t *begin,
                         uint64_t *bytes);
gpucoll_status gpucoll_cuda_export_memory(struct gpucoll_device *device, const void *pointer, uint64_t bytes,
                                          struct gpucoll_memory_handle *handle) GPUCOLL_CHECKED;
void gpucoll_cuda_unexport_memory(struct gpucoll_accel *accel, const struct gpucoll_memory_handle *handle);
/* Export, import and release of memory that is mapped by file descriptors; in the device's context. */
gpucoll_status gpucoll_cuda_export_pieces(struct gpucoll_device *device, const void *pointer, uint64_t bytes,
                                          struct gpucoll_memory_handle *handle) GPUCOLL_CHECKED;
gpucoll_status gpucoll_cuda_import_pieces(struct gpucoll_device *device,
                                          const struct gpucoll_memory_handle *handle,
                                          void **pointer) GPUCOLL_CHECKED;
void gpucoll_cuda_release_pieces(struct gpucoll_device *device, const struct gpucoll_memory_handle *handle,
                                 void *pointer);
gpucoll_status gpucoll_cuda_copier_open(struct gpucoll_device *device, bool to_host,
                                        struct gpucoll_copier **copier);
void gpucoll_cuda_copier_close(struct gpucoll_copier *copier);
bool gpucoll_cuda_copier_batches(struct gpucoll_device *device);
gpucoll_status gpucoll_cuda_copier_queue(struct gpucoll_copier *copier, const struct gpucoll_copy *copies,
                                         uint32_t count, enum gpucoll_copy_order order) GPUCOLL_CHECKED;
gpucoll_status gpucoll_cuda_copier_passed(struct gpucoll_copier *copier, uint64_t *passed);
enum gpucoll_link gpucoll_cuda_device_link(struct gpucoll_device *device,
                                           const struct gpucoll_device_id *peer);
gpucoll_status gpucoll_cuda_scratch_alloc(struct gpucoll_device *device, size_t bytes, void **pointer,
                                          struct gpucoll_memory_handle *handle) GPUCOLL_CHECKED;
void gpucoll_cuda_scratch_free(struct gpucoll_device *device, void *pointer);
gpucoll_status gpucoll_cuda_import(struct gpucoll_device *device, const struct gpucoll_memory_handle *handle,
                                   void **pointer) GPUCOLL_CHECKED;
void gpucoll_cuda_release(struct gpucoll_device *device, const struct gpucoll_memory_handle *handle,
                          void *pointer);

gpucoll_status gpucoll_cuda_memory_alloc(struct gpucoll_device *device, size_t bytes,
                                         void **pointer) GPUCOLL_CHECKED;
void gpucoll_cuda_memory_free(struct gpucoll_device *device, void *pointer);

/* All kernels at once, when the device is opened (about 30 ms): to load code the driver may wait for kernels that run, and such a kernel of
 * ours may be waiting for a rank that loads one itself. */
gpucoll_status gpucoll_cuda_load_kernels(struct gpucoll_cuda_device *device) GPUCOLL_CHECKED;
/* Is there code with clusters and bulk copies? What a kernel was compiled for tells more than the GPU: code for an older kind runs on it as
 * well, without what that kind lacks. */
bool gpucoll_cuda_has_clusters(const struct gpucoll_cuda_driver *cuda, CUfunction function);
/* The same in the context of the device: fills `resident`. A slice of a GPU may have 14 SMs, and MPS may leave a process as few. */
gpucoll_status gpucoll_cuda_find_resident(struct gpucoll_cuda_device *device) GPUCOLL_CHECKED;
void gpucoll_cuda_unload_kernels(struct gpucoll_cuda_device *device);

gpucoll_status gpucoll_cuda_stream_open(struct gpucoll_device *device,
                                        struct gpucoll_stream **stream) GPUCOLL_CHECKED;
void gpucoll_cuda_stream_close(struct gpucoll_stream *stream);
void gpucoll_cuda_stream_stop(struct gpucoll_stream *stream);
gpucoll_status gpucoll_cuda_launch(struct gpucoll_stream *stream,
                                   const struct gpucoll_launch *launch) GPUCOLL_CHECKED;
gpucoll_status gpucoll_cuda_ring_early(struct gpucoll_stream *stream,
                                       const struct gpucoll_launch *launch) GPUCOLL_CHECKED;
void gpucoll_cuda_confirm(struct gpucoll_stream *stream);
void gpucoll_cuda_call_off(struct gpucoll_stream *stream);
gpucoll_status gpucoll_cuda_launch_again(struct gpucoll_stream *stream, uint32_t done_value) GPUCOLL_CHECKED;
gpucoll_status gpucoll_cuda_pack(struct gpucoll_stream *stream,
                                 const struct gpucoll_pack_args *args) GPUCOLL_CHECKED;
struct gpucoll_kernel_status *gpucoll_cuda_stream_status(struct gpucoll_stream *stream);
gpucoll_status gpucoll_cuda_stream_poll(struct gpucoll_stream *stream) GPUCOLL_CHECKED;
gpucoll_status gpucoll_cuda_stream_health(struct gpucoll_stream *stream) GPUCOLL_CHECKED;

gpucoll_status gpucoll_cuda_host_register(struct gpucoll_device *device, void *pointer,
                                          size_t bytes) GPUCOLL_CHECKED;
void gpucoll_cuda_host_unregister(struct gpucoll_device *device, void *pointer);

#endif
