/*
 * A sum in host memory: the reduction of one message of all ranks of a call, which passes through their outboxes in chunks.
 * Every rank fills slot `chunk % slots` of its lane with its part of a chunk. When all have, the chunk is reduced in shares; any thread
 * of any rank takes the next share, so a rank that has time does more. Shares are handed out by one counter, in order.
 *
 * The message is `nblocks` blocks (one, or for reduce-scatter one a rank), each cut in chunks of its own, so that a chunk
 * has one receiver or is for all.
 */
#ifndef GPUCOLL_CPU_REDUCE_SUM_H
#define GPUCOLL_CPU_REDUCE_SUM_H

#include "ucx_tl/shm/outbox.h"

struct gpucoll_sum {
    int functor;
    bool
        prefix; /* each rank's slot gets the reduction of the ranks up to it; else the home's slot that of all */
    bool scatter; /* block b is at home with rank b */
    uint32_t nranks;
    uint32_t contributors; /* ranks 0 to contributors - 1 have parts */
    uint32_t slots;
    uint64_t chunk_bytes; /* of a whole chunk, a multiple of GPUCOLL_SHARE_ALIGN */
    uint64_t share_bytes; /* likewise */
    uint32_t shares;      /* of a whole chunk */
    uint64_t chunks;      /* of the whole message */
    uint32_t nblocks;
    uint64_t first[GPUCOLL_MAX_LOCAL + 1]; /* chunk with which each block begins; the last is `chunks` */
    uint64_t block_bytes[GPUCOLL_MAX_LOCAL];
    struct gpucoll_outbox_lane *lane[GPUCOLL_MAX_LOCAL];
    uint32_t epoch[GPUCOLL_MAX_LOCAL];
};

enum { GPUCOLL_SHARE_ALIGN = 256 /* bytes; whole elements and whole vectors */ };

/* Fills in `first`, `chunks` and `shares` from the other fields. */
void gpucoll_sum_cut(struct gpucoll_sum *sum);

/* Resets what is counted in the lane of rank 0, by rank 0, before it fills its first slot. */
void gpucoll_sum_open(struct gpucoll_sum *sum);

/* Where a chunk lies in its block. */
struct gpucoll_sum_piece {
    uint32_t block;
    uint64_t offset;
    uint64_t bytes;
};
struct gpucoll_sum_piece gpucoll_sum_piece(const struct gpucoll_sum *sum, uint64_t chunk);

/* The rank in whose slot the result of a chunk will be (but for a prefix sum). */
static inline uint32_t gpucoll_sum_home(const struct gpucoll_sum *sum, uint64_t chunk)
{
    return sum->scatter ? gpucoll_sum_piece(sum, chunk).block : (uint32_t)(chunk % sum->contributors);
}

static inline char *gpucoll_sum_slot(const struct gpucoll_sum *sum, uint32_t rank, uint64_t chunk)
{
    return gpucoll_outbox_data(sum->lane[rank]) + chunk % sum->slots * sum->chunk_bytes;
}

/* The first contributor that has not filled its slot for `chunk`, or `contributors`. */
uint32_t gpucoll_sum_unfilled(const struct gpucoll_sum *sum, uint64_t chunk);

/* Is the chunk reduced? It stays so. */
bool gpucoll_sum_is_done(const struct gpucoll_sum *sum, uint64_t chunk);

/* So many shares more of the chunk are reduced: by somebody who does not take shares, but a chunk that falls to it. */
void gpucoll_sum_tell(const struct gpucoll_sum *sum, uint64_t chunk, uint32_t shares);

/* Takes a share and reduces it. False if none is to be had now. Any thread, at any time between open and the end of the call. */
bool gpucoll_sum_share(const struct gpucoll_sum *sum);

#endif
