/*
 * Pipes: how bytes pass from rank to rank where kernels cannot store into the peers' memory. What a rank sends in a call is a
 * stream of chunks, for one rank or, where several get the same bytes, for all of them. The sender has its copy engine lay chunk k in
 * a slot of the stream, and pushes it; a receiver sees it at its front, has its copy engine fetch it, and pops it; when all receivers
 * have, the slot is free for chunk k + slots. Slots are host memory that the device has registered.
 *
 *   sender      reserve(k) -> slot, copy, push(k)          in the order of k, for each stream
 *   receiver    front(k) -> chunk, copy, pop(k)            likewise, for each source
 *
 * Nothing here waits: reserve and front answer NULL until they can, and are asked again. The engine puts a barrier of the ranks
 * between the last pop of a call and the next use of its lanes, so flags and slots of a call are looked at by nobody after it.
 * Streams of different calls never meet: each call has lanes of its own, with epochs.
 *
 * shm lays the slots in the sender's outbox, and front is the slot itself as the receiver has mapped it. A transport between
 * hosts has slots on both sides: push starts the transfer to each receiver's own, front looks there, pop sends the credit back; its
 * reserve or front turn the network's progress.
 */
#ifndef GPUCOLL_TL_PIPE_H
#define GPUCOLL_TL_PIPE_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/kernel_abi.h"

struct gpucoll_outbox_lane;

/* The pipes of one rank in one call. Filled in by the engine, the same way on all ranks but for `rank` and `readers`. */
struct gpucoll_pipes {
    uint32_t rank;
    uint32_t nranks;
    uint32_t
        streams;    /* of each rank: 1, the same bytes for all its readers; or nranks, stream i for rank i */
    uint32_t slots; /* of each stream */
    uint64_t chunk_bytes;                /* of a slot; a chunk may be shorter */
    uint32_t readers[GPUCOLL_MAX_LOCAL]; /* of each own stream: bit i for rank i */
    struct gpucoll_outbox_lane *lane[GPUCOLL_MAX_LOCAL];
    uint32_t epoch[GPUCOLL_MAX_LOCAL];
};

struct gpucoll_pipe_ops {
    /* Where chunk `chunk` of the own stream is to be laid; NULL while rank `*missing` still needs what lies there. */
    void *(*reserve)(const struct gpucoll_pipes *pipes, uint32_t stream, uint64_t chunk, uint32_t *missing);
    /* The first `count` chunks of the own stream lie complete in their slots. */
    void (*push)(const struct gpucoll_pipes *pipes, uint32_t stream, uint64_t count);
    /* Chunk `chunk` of what `source` sends to this rank; NULL while it has not come. */
    const void *(*front)(const struct gpucoll_pipes *pipes, uint32_t source, uint64_t chunk);
    /* The first `count` chunks of what `source` sends to this rank are needed no more. */
    void (*pop)(const struct gpucoll_pipes *pipes, uint32_t source, uint64_t count);
};

/* The stream of `from` in which what it sends to `to` is. */
static inline uint32_t gpucoll_pipe_stream(const struct gpucoll_pipes *pipes, uint32_t to)
{
    return pipes->streams == 1 ? 0 : to;
}

#endif
