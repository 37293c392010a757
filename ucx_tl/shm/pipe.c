/*
 * Pipes in shared memory: slots and flags in the sender's outbox, credits in the receiver's own.
 */
#include "ucx_tl/shm/outbox.h"
#include "ucx_tl/shm/shm.h"

static char *slot_of(const struct gpucoll_pipes *pipes, uint32_t owner, uint32_t stream, uint64_t chunk)
{
    uint64_t index = (uint64_t)stream * pipes->slots + chunk % pipes->slots;
    return gpucoll_outbox_data(pipes->lane[owner]) + index * pipes->chunk_bytes;
}

static void *reserve(const struct gpucoll_pipes *pipes, uint32_t stream, uint64_t chunk, uint32_t *missing)
{
    for (uint32_t i = 0; chunk >= pipes->slots && i < pipes->nranks; i++) {
        const bool reads = pipes->readers[stream] >> i & 1;
        if (reads && gpucoll_outbox_count(&pipes->lane[i]->emptied[pipes->rank], pipes->epoch[i]) <=
                         chunk - pipes->slots) {
            *missing = i;
            return NULL;
        }
    }
    return slot_of(pipes, pipes->rank, stream, chunk);
}

static void push(const struct gpucoll_pipes *pipes, uint32_t stream, uint64_t count)
{
    gpucoll_outbox_raise(&pipes->lane[pipes->rank]->filled[stream], pipes->epoch[pipes->rank], count);
}

static const void *front(const struct gpucoll_pipes *pipes, uint32_t source, uint64_t chunk)
{
    const uint32_t stream = gpucoll_pipe_stream(pipes, pipes->rank);
    const bool filled =
        gpucoll_outbox_count(&pipes->lane[source]->filled[stream], pipes->epoch[source]) > chunk;
    return filled ? slot_of(pipes, source, stream, chunk) : NULL;
}

static void pop(const struct gpucoll_pipes *pipes, uint32_t source, uint64_t count)
{
    gpucoll_outbox_raise(&pipes->lane[pipes->rank]->emptied[source], pipes->epoch[pipes->rank], count);
}

const struct gpucoll_pipe_ops gpucoll_shm_pipe = {
    .reserve = reserve,
    .push = push,
    .front = front,
    .pop = pop,
};
