/*
 * Blocks that are not contiguous in one call: what is sent of them is packed into device memory before the exchange
 * runs, what is received is unpacked after it. The runs of the exchange then point to the packed memory. Packing is launched on the
 * stream of the call's lane, so the host does not wait for it before it launches the exchange.
 *
 * So it is with the result of a reduction in place that would overwrite what is still to be read: it is received into packed memory, with the
 * layout of plain bytes.
 */
#ifndef GPUCOLL_PACKING_H
#define GPUCOLL_PACKING_H

#include "core/request.h"

/* A run of a call of which one end is not contiguous. */
struct gpucoll_packed_run {
    struct gpucoll_layout *layout;
    const struct gpucoll_layout_view *copy; /* of the layout, on the GPU; NULL: there is none, and it has no list */
    void *user;                            /* address of element 0 */
    uint64_t bytes;
    uint64_t at;     /* of the packed bytes, in `memory` */
    uint32_t number; /* of the rank at the other end; of several hosts: of the block */
    bool launched;
};

struct gpucoll_packing {
    struct gpucoll_gpu *gpu; /* NULL: no memory is taken yet */
    uint32_t sends;
    uint32_t receives;
    uint32_t send_ranks;    /* of one host; bit r: request->runs.run[r].send is not contiguous */
    uint32_t receive_ranks; /* likewise .recv */
    bool listed; /* what is sent is not packed, but goes by copies of its pieces (core/copy_list.h) */
    bool laid;   /* nothing is packed or unpacked: the kernel finds the bytes (core/laid_runs.h) */
    uint64_t bytes;
    char *memory; /* of the GPU's pool; NULL: not taken, or there is nothing to pack */
    struct gpucoll_packed_run *send;
    struct gpucoll_packed_run *receive;
    struct gpucoll_packed_run runs[]; /* what these two point to */
};

/* ---- any packing ---- */

/* Of at most so many runs on a side. NULL: out of memory. */
struct gpucoll_packing *gpucoll_packing_new(uint32_t most);
/* One more run, which gets a place; it comes to refer to the layout. */
void gpucoll_packing_note(struct gpucoll_packing *packing, bool sends, const struct gpucoll_packed_run *run);
/* Takes memory of `gpu` for all that is noted. False: there is not enough. Under the context's lock. `name` is the team's, for the log. */
bool gpucoll_packing_take(struct gpucoll_packing *packing, struct gpucoll_context *context,
                          struct gpucoll_gpu *gpu, const char *name);
/* Packs, or unpacks, all that is noted, on the lane's stream; may launch nothing. */
gpucoll_status gpucoll_packing_launch(const struct gpucoll_packing *packing, struct gpucoll_lane *lane,
                                      bool unpack) GPUCOLL_CHECKED;
/* `abandoned`: a kernel may still be at it, so the memory and the layouts' lists stay taken until the GPU is closed. Harmless on NULL. */
void gpucoll_packing_free(struct gpucoll_packing *packing, struct gpucoll_context *context, bool abandoned);

/* ---- that of a request of one host ---- */

/* After gpucoll_exchange_runs: notes the ends that are not contiguous, or a result that is to be kept apart, and gives each run the address of a byte of its data.
 * False: out of memory. */
bool gpucoll_packing_open(struct gpucoll_request *request, const struct gpucoll_coll_args *args);
/* Is this end of run `rank` packed, or else left as it is by what moves it in pieces? */
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
/* Directs them there once more. */
void gpucoll_packing_direct(struct gpucoll_request *request);
/* Is there anything to pack, or to unpack? */
static inline bool gpucoll_packing_packs(const struct gpucoll_packing *packing)
{
    return packing != NULL && packing->sends > 0 && !packing->listed && !packing->laid;
}
static inline bool gpucoll_packing_unpacks(const struct gpucoll_packing *packing)
{
    return packing != NULL && packing->receives > 0 && !packing->laid;
}
/* Nothing of the call runs any more, or its lane is poisoned. */
void gpucoll_packing_close(struct gpucoll_request *request);

#endif
