/*
 * The outbox: host memory in which one process lays, for one of its devices, what its peers on the same host are to take.
 * A shared memory segment, cut in as many lanes as the device's scratch; lane i goes with lane i of the scratch, belongs to the
 * same call, and its flags carry that call's epoch. A lane is a page or two of flags, then the data area, which each call
 * cuts in slots of one chunk as its plan says.
 *
 * A flag is one 64-bit word, epoch << 32 | count, where the count only grows within a call: so a reader never mistakes a flag of an
 * earlier call for one of its own, and nothing needs to be cleared. Each flag has a cache line of its own.
 */
#ifndef GPUCOLL_SHM_OUTBOX_H
#define GPUCOLL_SHM_OUTBOX_H

#include <stdatomic.h>
#include "core/accel/accel.h"

enum { GPUCOLL_OUTBOX_SLOTS = 16 /* most slots of a lane that are summed in */ };

struct gpucoll_outbox_flag {
    _Alignas(64) _Atomic uint64_t word;
};

/*
 *   filled    By the owner, one for each of its streams of chunks: how many lie complete in their slots. Stored with release after
 *             the copy into the slot has ended; readers load with acquire, then the slot.
 *   emptied   By the owner, as a reader, one for each rank: how many chunks of that rank's stream it needs no more. Stored
 *             with release after the last read; the stream's owner loads with acquire before it fills the slot again.
 *   taken     By all ranks of a sum (ucx_tl/cpu_reduce): shares that have been taken. In the lane of rank 0 only.
 *   summed    Likewise, for each slot: shares that are complete.
 */
struct gpucoll_outbox_lane {
    struct gpucoll_outbox_flag filled[GPUCOLL_MAX_LOCAL];
    struct gpucoll_outbox_flag emptied[GPUCOLL_MAX_LOCAL];
    struct gpucoll_outbox_flag taken;
    struct gpucoll_outbox_flag summed[GPUCOLL_OUTBOX_SLOTS];
};

enum { GPUCOLL_OUTBOX_FLAG_BYTES = (sizeof(struct gpucoll_outbox_lane) + 4095) / 4096 * 4096 };

static inline uint64_t gpucoll_outbox_word(uint32_t epoch, uint64_t count)
{
    return (uint64_t)epoch << 32 | (uint32_t)count;
}

/* The count of a flag; 0 if it is of another call. */
static inline uint32_t gpucoll_outbox_count(const struct gpucoll_outbox_flag *flag, uint32_t epoch)
{
    uint64_t word = atomic_load_explicit(&flag->word, memory_order_acquire);
    return (uint32_t)(word >> 32) == epoch ? (uint32_t)word : 0;
}

static inline void gpucoll_outbox_raise(struct gpucoll_outbox_flag *flag, uint32_t epoch, uint64_t count)
{
    atomic_store_explicit(&flag->word, gpucoll_outbox_word(epoch, count), memory_order_release);
}

/* Lane `index` of an outbox whose lanes have data areas of `data_bytes`, a multiple of 4096. */
static inline struct gpucoll_outbox_lane *gpucoll_outbox_lane(void *outbox, size_t data_bytes, uint64_t index)
{
    return (struct gpucoll_outbox_lane *)((char *)outbox + index * (GPUCOLL_OUTBOX_FLAG_BYTES + data_bytes));
}

static inline char *gpucoll_outbox_data(struct gpucoll_outbox_lane *lane)
{
    return (char *)lane + GPUCOLL_OUTBOX_FLAG_BYTES;
}

static inline size_t gpucoll_outbox_bytes(size_t data_bytes, uint32_t lanes)
{
    return lanes * (GPUCOLL_OUTBOX_FLAG_BYTES + data_bytes);
}

#endif
