/*
 * Blocks that are not contiguous in one call: what is sent of them is packed into device memory before the exchange
 * runs, what is received is unpacked after it. The runs of the exchange then point to the packed memory. Packing is launched on the
 * stream of the call's lane, so the host does not wait for it before it launches the exchange.
 */
#ifndef GPUCOLL_PACKING_H
#define GPUCOLL_PACKING_H

#include "core/request.h"

/* A run of request->runs of which one end is not contiguous. */
struct gpucoll_packed_run {
    struct gpucoll_layout *layout;
    const struct gpucoll_layout_run *list; /* the layout's, on the GPU */
    void *user;                            /* address of element 0 */
    uint64_t bytes;
    uint64_t at; /* of the packed bytes, in `memory` */
    uint32_t rank;
};

struct gpucoll_packing {
    uint32_t sends;
    uint32_t receives;
    uint32_t send_ranks;    /* bit r: request->runs.run[r].send is not contiguous */
    uint32_t receive_ranks; /* likewise .recv */
    uint64_t bytes;
    char *memory; /* of the GPU's pool; NULL: not reserved */
    struct gpucoll_packed_run send[GPUCOLL_MAX_LOCAL];
    struct gpucoll_packed_run receive[GPUCOLL_MAX_LOCAL];
};

/* After gpucoll_exchange_runs: notes the ends that are not contiguous, and gives each run the address of a byte of its data.
 * False: out of memory. */
bool gpucoll_packing_open(struct gpucoll_request *request, const struct gpucoll_coll_args *args);
/* Is this end of run `rank` packed? */
static inline bool gpucoll_packing_sends(const struct gpucoll_request *request, uint32_t rank)
{
    return request->packing != NULL && (request->packing->send_ranks >> rank & 1) != 0;
}
static inline bool gpucoll_packing_receives(const struct gpucoll_request *request, uint32_t rank)
{
    return request->packing != NULL && (request->packing->receive_ranks >> rank & 1) != 0;
}
/* Takes memory of the request's GPU and directs the runs to it. False: there is not enough, the call is to be declined. Under the
 * context's lock. `buffer`, which describes the rank's buffers, comes to describe what is received into. */
bool gpucoll_packing_reserve(struct gpucoll_request *request, struct gpucoll_buffer *buffer);
/* Launches on the lane's stream; both may launch nothing. */
gpucoll_status gpucoll_packing_pack(struct gpucoll_request *request) GPUCOLL_CHECKED;
gpucoll_status gpucoll_packing_unpack(struct gpucoll_request *request) GPUCOLL_CHECKED;
/* Is there anything to pack, or to unpack? */
static inline bool gpucoll_packing_packs(const struct gpucoll_request *request)
{
    return request->packing != NULL && request->packing->sends > 0;
}
static inline bool gpucoll_packing_unpacks(const struct gpucoll_request *request)
{
    return request->packing != NULL && request->packing->receives > 0;
}
/* Nothing of the call runs any more, or its lane is poisoned. */
void gpucoll_packing_close(struct gpucoll_request *request);

#endif
