#include "core/accel/cuda_bell.h"

/* Alone where the pointer does not count: it may be of a call that a CTA is just about to hear. */
static void write_value(struct gpucoll_bell_chunk *chunk, uint32_t value, uint32_t sequence)
{
    uint64_t word = (uint64_t)sequence << 32 | value;
    __atomic_store_n((uint64_t *)(void *)&chunk->value, word, __ATOMIC_RELEASE);
}

/* The lingering kernel reads a chunk at once, and takes it when it sees the sequence number: that goes last. */
static void write_chunk(struct gpucoll_bell_chunk *chunk, const void *pointer, uint32_t value,
                        uint32_t sequence)
{
    __atomic_store_n(&chunk->pointer, (uint64_t)(uintptr_t)pointer, __ATOMIC_RELAXED);
    write_value(chunk, value, sequence);
}

void gpucoll_cuda_bell_begin(struct gpucoll_bell *bell, uint32_t latest)
{
    write_value(&bell->chunk[0], 0, latest);
}

static void write_rows(struct gpucoll_bell_chunk *chunk, const struct gpucoll_kernel_args *args,
                       const struct gpucoll_kernel_runs *runs)
{
    const uint32_t nranks = args->nranks;
    const uint32_t sequence = args->done_value;
    for (uint32_t i = 0; gpucoll_kernel_is_exchange(args->kernel) && i < nranks; i++) {
        const struct gpucoll_kernel_run *run = &runs->run[i];
        write_chunk(&chunk[gpucoll_bell_chunk_of(nranks, GPUCOLL_BELL_SEND, i)], run->send,
                    (uint32_t)run->send_bytes, sequence);
        write_chunk(&chunk[gpucoll_bell_chunk_of(nranks, GPUCOLL_BELL_RECV, i)], run->recv,
                    (uint32_t)run->recv_bytes, sequence);
    }
    for (uint32_t i = 0; args->kernel == GPUCOLL_KERNEL_MOVE_LAYOUTS && i < nranks; i++) {
        const struct gpucoll_run_layouts *layouts = &runs->layouts[i];
        write_chunk(&chunk[gpucoll_bell_chunk_of(nranks, GPUCOLL_BELL_SEND_LAYOUT, i)], layouts->send, 0,
                    sequence);
        write_chunk(&chunk[gpucoll_bell_chunk_of(nranks, GPUCOLL_BELL_RECV_LAYOUT, i)], layouts->recv, 0,
                    sequence);
    }
}

void gpucoll_cuda_bell_ring(struct gpucoll_bell *bell, const struct gpucoll_kernel_args *args,
                            const struct gpucoll_kernel_runs *runs)
{
    struct gpucoll_bell_chunk *chunk = bell->chunk;
    write_rows(chunk, args, runs);
    for (uint32_t i = 0; i < args->nranks; i++) {
        write_chunk(&chunk[2 + i], args->peer[i].lane, args->peer[i].epoch, args->done_value);
    }
    write_chunk(&chunk[1], args->recv,
                args->kernel | (uint32_t)args->crew_ctas << 16 | (uint32_t)args->variant << 24,
                args->done_value);
    write_chunk(&chunk[0], args->send, (uint32_t)args->bytes, args->done_value);
}

void gpucoll_cuda_bell_dismiss(struct gpucoll_bell *bell, uint32_t nranks, uint32_t sequence)
{
    for (uint32_t i = 0; i < nranks; i++) {
        write_value(&bell->chunk[2 + i], 0, sequence);
    }
    write_value(&bell->chunk[1], GPUCOLL_BELL_LEAVE, sequence);
    write_value(&bell->chunk[0], 0, sequence);
}
