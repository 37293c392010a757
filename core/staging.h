/*
 * What a lane keeps of a call that moves data through host memory, and what the algorithms that do so have in common.
 */
#ifndef GPUCOLL_STAGING_H
#define GPUCOLL_STAGING_H

#include "core/copies.h"
#include "ucx_tl/cpu_reduce/sum.h"
#include "ucx_tl/pipe.h"
#include "ucx_tl/tl.h"

struct gpucoll_config;
struct gpucoll_request;

enum { GPUCOLL_IN_FLIGHT = 32 /* copies of one direction */ };

/* Copies of one direction that belong to the call: queued in order, complete in order. */
struct gpucoll_copies {
    uint32_t queue; /* of the GPU */
    uint64_t given;
    uint64_t complete;
    struct gpucoll_copy_ticket ticket[GPUCOLL_IN_FLIGHT];
};

/* One stream of chunks, or what comes from one rank: chunks below `given` have been given to the copy engine, below `complete` they
 * are where they belong. */
struct gpucoll_move {
    char *place; /* on the device */
    uint64_t bytes;
    uint64_t chunks;
    uint64_t given;
    uint64_t complete;
};

/* An exchange through pipes. */
struct gpucoll_moves {
    struct gpucoll_pipes pipes;
    struct gpucoll_move out[GPUCOLL_MAX_LOCAL]; /* by stream */
    struct gpucoll_move in[GPUCOLL_MAX_LOCAL];  /* by source; that of the own rank is its own part */
    uint64_t out_left;                          /* chunks that are not complete */
    uint64_t in_left;
    uint32_t out_flight[GPUCOLL_IN_FLIGHT]; /* streams of the copies in flight, by their number */
    uint32_t in_flight[GPUCOLL_IN_FLIGHT];  /* sources, likewise */
};

struct gpucoll_staging {
    struct gpucoll_copies out; /* from the device into the own outbox */
    struct gpucoll_copies in;  /* from outboxes to the device */
    struct gpucoll_sum sum;
    int posted;                           /* to the process's threads */
    const char *send[GPUCOLL_MAX_LOCAL];  /* own part of each block of the sum; NULL: this rank has none */
    char *recv;                           /* where the own result goes; NULL: this rank gets none */
    uint64_t next_in;                     /* chunk whose result is to be fetched next */
    uint64_t in_chunk[GPUCOLL_IN_FLIGHT]; /* of the copies in flight, by their number */
    bool own_stays;                       /* as of struct gpucoll_reduce_host, for the call */
    bool places;                          /* likewise */
    uint64_t next_sum;                    /* chunk that the GPU is to reduce next, if this rank does */
    bool summing;                         /* it does */
    struct gpucoll_moves moves;
};

/* Data area of a lane of the outbox, in whole pages. */
size_t gpucoll_staging_bytes(const struct gpucoll_config *config);

/* Bytes of the chunks in which a message goes: a part of it of which so many are on their way at once, not smaller than what a copy engine does
 * well, nor longer than `longest`, nor than `room` rounded down. */
uint64_t gpucoll_staging_chunk(uint64_t bytes, uint64_t parts, uint64_t longest, uint64_t room);

/* At the beginning of a call: nothing is in flight. */
void gpucoll_staging_begin(struct gpucoll_staging *staging);
/* Waits, not for ever, until no copy of the call is in flight. An algorithm's `stop`. */
void gpucoll_staging_stop(struct gpucoll_request *request);

/* Queues a copy of the call into host memory, or out of it, as the direction is; no more than GPUCOLL_IN_FLIGHT at once. */
gpucoll_status gpucoll_copies_give(struct gpucoll_request *request, struct gpucoll_copies *copies, void *to,
                                   const void *from, uint64_t bytes) GPUCOLL_CHECKED;
/* The same for one within the GPU. */
gpucoll_status gpucoll_copies_give_own(struct gpucoll_request *request, struct gpucoll_copies *copies,
                                       void *to, const void *from, uint64_t bytes) GPUCOLL_CHECKED;
static inline bool gpucoll_copies_full(const struct gpucoll_copies *copies)
{
    return copies->given - copies->complete == GPUCOLL_IN_FLIGHT;
}
/* Looks for copies that have become complete; sets `*moved` if there are. An error that the device has met has been shown. */
gpucoll_status gpucoll_copies_look(struct gpucoll_gpu *gpu, struct gpucoll_copies *copies,
                                   bool *moved) GPUCOLL_CHECKED;

/* This rank has all it wants. Its lane of the outbox must stay until the others do too, and until they look at no flag of it any
 * more: a barrier. To be called until it no longer says GPUCOLL_IN_PROGRESS. */
gpucoll_status gpucoll_staging_leave(struct gpucoll_request *request) GPUCOLL_CHECKED;

/* The lane of the outbox of `rank` that belongs to the call, and its epoch. */
struct gpucoll_outbox_lane *gpucoll_staging_lane(const struct gpucoll_request *request, uint32_t rank,
                                                 uint32_t *epoch);

#endif
