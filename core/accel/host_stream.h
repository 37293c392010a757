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
gpucoll_status gpucoll_host_stream_pack(struct gpucoll_stream *stream,
                                        const struct gpucoll_pack_args *args) GPUCOLL_CHECKED;
struct gpucoll_kernel_status *gpucoll_host_stream_status(struct gpucoll_stream *stream);
gpucoll_status gpucoll_host_stream_poll(struct gpucoll_stream *stream) GPUCOLL_CHECKED;

/* A queue of copies is a stream of them. */
gpucoll_status gpucoll_host_copier_open(struct gpucoll_device *device,
                                        struct gpucoll_copier **copier) GPUCOLL_CHECKED;
void gpucoll_host_copier_close(struct gpucoll_copier *copier);
gpucoll_status gpucoll_host_copier_queue(struct gpucoll_copier *copier, const struct gpucoll_copy *copies,
                                         uint32_t count) GPUCOLL_CHECKED;
gpucoll_status gpucoll_host_copier_passed(struct gpucoll_copier *copier, uint64_t *passed) GPUCOLL_CHECKED;

#endif
