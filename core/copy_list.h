/*
 * Copy lists: what a run of a call moves as a few long copies, each of bytes that lie together at both ends, instead of packing them.
 */
#ifndef GPUCOLL_COPY_LIST_H
#define GPUCOLL_COPY_LIST_H

#include "core/packing.h"

/* One end of a run: packed, with the address of element 0 in `packed->user`; or contiguous, packed being NULL. */
struct gpucoll_run_end {
    const struct gpucoll_packed_run *packed;
    const void *flat;
};

/* Lists the copies of `bytes` bytes, at most GPUCOLL_MAX_LOCAL, in their packed order. Returns how many; 0: they are too many, or too short, to be worth it. */
uint32_t gpucoll_copy_list(struct gpucoll_run_end to, struct gpucoll_run_end from, uint64_t bytes,
                           struct gpucoll_copy *copies);

/* Of a request whose algorithm is able to send copy lists: what it sends is not packed where lists are possible (gpucoll_packing.listed). Before anything
 * is packed. */
void gpucoll_copy_list_sends(struct gpucoll_request *request);
/* What the run to `rank` sends, once that is settled. */
struct gpucoll_run_end gpucoll_copy_list_end(const struct gpucoll_request *request, uint32_t rank);

#endif
