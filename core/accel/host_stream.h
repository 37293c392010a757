/*
 * A stream of the host accelerator: one worker thread that runs launches, or copies, in order.
 */
#ifndef GPUCOLL_ACCEL_HOST_STREAM_H
#define GPUCOLL_ACCEL_HOST_STREAM_H

#include "core/accel/accel.h"

gpucoll_status gpucoll_host_stream_open(struct gpucoll_device *device,
                                        struct gpucoll_stream **stream) GPUCOLL_CHECKED;
/* Makes kernels that still wait for a peer give up, and ends the worker. */
void gpucoll_host_stream_close(struct gpucoll_stream *stream);
void gpucoll_host_stream_stop(struct gpucoll_stream *stream);
gpucoll_status gpucoll_host_stream_launch(struct gpucoll_stream *stream,
                                          const struct gpucoll_launch *launch) GPUCOLL_CHECKED;
gpucoll_status gpucoll_host_stream_ring_early(struct gpucoll_stream *stream,
                                              const struct gpucoll_launch *launch) GPUCOLL_CHECKED;
void gpucoll_host_stream_confirm(struct gpucoll_stream *stream);
void gpucoll_host_stream_call_off(struct gpucoll_stream *stream);
gpucoll_status gpucoll_host_stream_launch_again(struct gpucoll_stream *stream,
                                                uint32_t done_value) GPUCOLL_CHECKED;
gpucoll_status gpucoll_host_stream_pack(struct gpucoll_stream *stream,
                                        const struct gpucoll_pack_args *args) GPUCOLL_CHECKED;
struct gpucoll_kernel_status *gpucoll_host_stream_status(struct gpucoll_stream *stream);
gpucoll_status gpucoll_host_stream_poll(struct gpucoll_stream *stream) GPUCOLL_CHECKED;

/* What cuMemFree does to kernels, if that is asked for: it waits until none of the process runs, and meanwhile holds up whoever launches one,
 * queues a copy or allocates pinned memory. */
void gpucoll_host_frees_wait(bool wait);
void gpucoll_host_wait_for_kernels(void); /* to be called by who frees */
void gpucoll_host_wait_for_free(void);    /* and by the others */

/* A queue of copies is a stream of them. */
gpucoll_status gpucoll_host_copier_open(struct gpucoll_device *device, bool to_host,
                                        struct gpucoll_copier **copier) GPUCOLL_CHECKED;
void gpucoll_host_copier_close(struct gpucoll_copier *copier);
bool gpucoll_host_copier_batches(struct gpucoll_device *device);
gpucoll_status gpucoll_host_copier_queue(struct gpucoll_copier *copier, const struct gpucoll_copy *copies,
                                         uint32_t count, enum gpucoll_copy_order order) GPUCOLL_CHECKED;
gpucoll_status gpucoll_host_copier_passed(struct gpucoll_copier *copier, uint64_t *passed) GPUCOLL_CHECKED;

#endif
