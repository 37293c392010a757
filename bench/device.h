/*
 * Where a benchmark's buffers live: on a GPU, through the CUDA driver loaded at run time (no CUDA is needed to build
 * or to run on a machine without a GPU), or in plain host memory, which gpucoll's `host` accelerator counts as
 * device memory. Every function ends the program with a message on error, unless it says otherwise.
 */
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/measure.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bench_device {
    bool cuda;
    int ordinal;
    int count;
    int cuda_version; /* of the driver: 13000 is 13.0 */
    bool mps;         /* processes use the GPU by way of MPS */
    char name[128];
};

/* Makes GPU `local_rank` modulo their number current. False, with the reason, where there is none. */
bool bench_device_open_cuda(struct bench_device *device, int local_rank, char *reason, size_t reason_bytes);
void bench_device_open_host(struct bench_device *device);
/* Collective: all ranks use GPUs, or none does. `memory` is auto, cuda or host. False, with a message, if cuda was asked
 * for and cannot be had on every rank. */
bool bench_device_open(struct bench_device *device, struct bench_group *group, const char *memory);
void bench_device_close(struct bench_device *device);

void *bench_device_alloc(struct bench_device *device, size_t bytes);
void bench_device_free(struct bench_device *device, void *pointer);
/* Host memory that copies run fast to and from. */
void *bench_pinned_alloc(struct bench_device *device, size_t bytes);
void bench_pinned_free(struct bench_device *device, void *pointer);
/* Between any two kinds of memory; complete on return. */
void bench_device_copy(struct bench_device *device, void *to, const void *from, size_t bytes);
void bench_device_fill(struct bench_device *device, void *to, unsigned char byte, size_t bytes);

/* Waits for everything that the GPU has been given in this process, as cudaDeviceSynchronize does. */
void bench_device_synchronize(struct bench_device *device);

/* A stream of the current GPU, as libraries other than MPI take it; an urgent one's kernels go before others'. */
void *bench_stream_open(struct bench_device *device, bool urgent);
void bench_stream_wait(struct bench_device *device, void *stream);
bool bench_stream_is_done(struct bench_device *device, void *stream);
void bench_stream_close(struct bench_device *device, void *stream);

/* Marks in a stream; the time between two that have been reached, by the GPU's clock. Without a GPU all do nothing. */
void *bench_event_open(struct bench_device *device);
void bench_event_record(struct bench_device *device, void *event, void *stream);
double bench_event_us(struct bench_device *device, void *begin, void *end);
void bench_event_close(struct bench_device *device, void *event);

/* A kernel of ours in PTX, which the driver compiles. */
struct bench_kernel {
    void *module;
    void *function;
    int multiprocessors; /* of the GPU */
};
void bench_kernel_open(struct bench_device *device, struct bench_kernel *kernel, const char *ptx,
                       const char *name);
void bench_kernel_launch(const struct bench_kernel *kernel, unsigned blocks, unsigned threads, void *stream,
                         void **parameters);
void bench_kernel_close(struct bench_kernel *kernel);

#ifdef __cplusplus
}
#endif
#endif
