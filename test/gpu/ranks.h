/*
 * Ranks without MPI: each has a device, a stream and a lane of the accelerator, all in one process. What the
 * engine agrees on between processes is simply known here.
 */
#ifndef GPUCOLL_TEST_GPU_RANKS_H
#define GPUCOLL_TEST_GPU_RANKS_H

#include "test/gpu/gpus.h"

enum { MOST_RANKS = 8 };

struct rank {
    int gpu;
    struct gpucoll_device *device;
    struct gpucoll_stream *stream;
    struct gpucoll_kernel_status *status;
    void *scratch; /* one lane */
    struct gpucoll_memory_handle handle;
    void *lane[MOST_RANKS]; /* by rank, as this device sees them */
    uint32_t epoch;
    uint32_t done;
    bool gated; /* its kernel waits at a gate, as far as is known */
    char *send; /* device memory of buffer_bytes each */
    char *recv;
};

struct ranks {
    struct gpus *gpus;
    uint32_t size;
    size_t data_bytes; /* the most that a call may use */
    size_t buffer_bytes;
    struct rank rank[MOST_RANKS];
};

/* What all ranks of a call have in common. */
struct call {
    enum gpucoll_kernel kernel;
    int functor;
    unsigned ctas;
    unsigned threads;
    uint64_t bytes;
    uint64_t data_bytes;
    size_t send_at; /* offsets in the buffers */
    size_t recv_at;
    bool in_place; /* recv is used for both */
    uint32_t stages;
    uint64_t round_begin;
    uint64_t round_end;
    const struct gpucoll_kernel_runs *runs; /* of an exchange: for each rank */
    uint16_t relay_flow;
    uint16_t relay_protocol;
    uint32_t linger_ns; /* not 0: one crew, which waits so long for the next call */
    bool waits_once;    /* as in struct gpucoll_launch */
    bool
        gate; /* the kernels ask before they begin: ranks_wait_all lets them in, after one has had to retreat */
};

extern const char *const kernel_names[GPUCOLL_KERNEL_COUNT];

/* Is it an exchange over LL128? */
static inline bool kernel_by_ll128(enum gpucoll_kernel kernel)
{
    return kernel == GPUCOLL_KERNEL_MOVE_LL128 || kernel == GPUCOLL_KERNEL_REDUCE_LL128;
}

/* Rank r drives GPU r % (number of GPUs). */
void ranks_open(struct ranks *ranks, struct gpus *gpus, uint32_t size, size_t data_bytes,
                size_t buffer_bytes);
void ranks_close(struct ranks *ranks);

/* A new call: every lane gets its next epoch. */
void ranks_begin(struct ranks *ranks);
void ranks_launch(struct ranks *ranks, uint32_t rank, const struct call *call);
bool ranks_done(struct ranks *ranks, uint32_t rank);
/* Does the rank's kernel say so of its latest launch, in that word of its status? */
bool ranks_said(const struct ranks *ranks, uint32_t rank, const uint32_t *word);
/* What a host tells a kernel at its gate. */
void ranks_let_in(struct ranks *ranks, uint32_t rank);
void ranks_send_away(struct ranks *ranks, uint32_t rank);
void ranks_launch_again(struct ranks *ranks, uint32_t rank); /* after it has retreated */

/* Waits for one rank, or for all; ends the program with a FAIL line after half a minute. */
void ranks_wait(struct ranks *ranks, uint32_t rank, const char *name);
void ranks_wait_all(struct ranks *ranks, const char *name);

#endif
