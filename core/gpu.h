/*
 * A GPU that this process has bound: its device, one scratch allocation, and the lanes and inboxes cut from it. A lane belongs to one
 * call at a time and comes with a stream, so that calls on different lanes run at the same time.
 */
#ifndef GPUCOLL_GPU_H
#define GPUCOLL_GPU_H

#include <pthread.h>
#include <stdbool.h>
#include "core/accel/accel.h"
#include "core/courier.h"
#include "core/device_pool.h"
#include "core/early.h"
#include "core/habit.h"
#include "ucx_tl/tl.h"

struct gpucoll_lane {
    struct gpucoll_stream *stream;
    struct gpucoll_kernel_status *status; /* of the stream, as the host sees it */
    struct gpucoll_staging *staging;      /* NULL unless the GPU has an outbox */
    uint64_t offset;                      /* in the scratch */
    uint32_t epoch;                       /* of the latest call on this lane, the last it takes; never 0 */
    uint32_t done;                        /* the latest done_value given to a kernel */
    uint32_t running; /* not 0: its call is at work and ends by itself; read and written without a lock */
    struct gpucoll_habit habit;
    bool company; /* when it was taken, another call held one */
    bool taken;
    bool poisoned; /* a call was abandoned: peers may still store into it, so it is never used again */
};

/* More streams than a GPU has hardware queues, 8 unless the application asks for more, would wait for each other. */
enum {
    GPUCOLL_PEER_QUEUES = 4,                 /* for copies to the memory of peers, */
    GPUCOLL_QUEUE_BATCH = 1,                 /* of which this one takes those to several at once, of all teams */
    GPUCOLL_QUEUE_OUT = GPUCOLL_PEER_QUEUES, /* for those into host memory */
    GPUCOLL_QUEUE_IN,                        /* and for those out of it: both directions of PCIe at once */
    GPUCOLL_COPY_QUEUES,
    GPUCOLL_BY_COURIER = GPUCOLL_COPY_QUEUES /* of a ticket: by no queue */
};

/* A queue of copies (core/copies.h). */
struct gpucoll_copy_queue {
    struct gpucoll_copier *copier; /* NULL: not needed so far */
    uint64_t queued;               /* number of the latest copy */
    uint64_t passed;               /* of the latest known to be complete */
};

struct gpucoll_gpu {
    struct gpucoll_device *device;
    struct gpucoll_tl_card card;
    int card_index; /* on the process's board */
    void *scratch;
    size_t data_bytes; /* data area of each lane */
    uint32_t lane_count;
    struct gpucoll_lane *lanes;
    uint64_t inboxes_offset; /* in the scratch */
    struct gpucoll_inboxes inboxes;
    struct gpucoll_device_pool pool;
    pthread_mutex_t copies_lock;
    struct gpucoll_copy_queue copies[GPUCOLL_COPY_QUEUES];
    struct gpucoll_courier courier; /* under the same lock */
    const struct gpucoll_tl_ops *offered; /* the transport that made the outbox; NULL: none has */
    bool offer_failed;                    /* said, and not tried again */
    struct gpucoll_segment outbox;
};

/* Binds the GPU that holds `pointer`. Errors are shown by topic "gpu-bind". */
gpucoll_status gpucoll_gpu_open(struct gpucoll_accel *accel, const void *pointer,
                                struct gpucoll_gpu **gpu) GPUCOLL_CHECKED;
void gpucoll_gpu_close(struct gpucoll_gpu *gpu); /* harmless on NULL */

/* A free lane with a new epoch, or NULL when all are taken. Caller serialises. Towards 2^32 the epochs begin anew on a lane that is
 * cleared first; by then at least GPUCOLL_EPOCHS_OF_A_CALL are left to the call. */
enum { GPUCOLL_EPOCHS_OF_A_CALL = 1 << 20 };
struct gpucoll_lane *gpucoll_gpu_take_lane(struct gpucoll_gpu *gpu);
/* The same, but NULL as well where it would be the last free one. */
struct gpucoll_lane *gpucoll_gpu_take_lane_but_one(struct gpucoll_gpu *gpu);
/* As gpucoll_gpu_take_lane, for who waits for no other rank: so it counts as running at once. Of those that are free the last, as a kernel of
 * collectives may linger on the first. */
struct gpucoll_lane *gpucoll_gpu_take_last_lane(struct gpucoll_gpu *gpu);
/* The call on the lane takes so many epochs more, those that follow its own. */
static inline void gpucoll_gpu_spend_epochs(struct gpucoll_lane *lane, uint32_t epochs)
{
    lane->epoch += epochs;
}
void gpucoll_gpu_give_lane(struct gpucoll_lane *lane);

/* Gives the GPU an outbox by an allowed transport, and each lane what it needs to use it, if they have none yet. Completes gpu->card.
 * Caller serialises. False, with the reason shown once, if that fails. */
bool gpucoll_gpu_offer(struct gpucoll_gpu *gpu);

/* The lane's call has begun to run: the lane will come free without anybody's doing. */
void gpucoll_gpu_mark_running(struct gpucoll_lane *lane);

/* When all lanes are taken: will one come free? */
enum gpucoll_lane_prospect {
    GPUCOLL_LANE_NEVER, /* all are poisoned */
    GPUCOLL_LANE_MAYBE, /* those who hold them wait for other ranks */
    GPUCOLL_LANE_SURELY
};
enum gpucoll_lane_prospect gpucoll_gpu_lane_prospect(const struct gpucoll_gpu *gpu);
/* How long a call waits for a lane that may never come: some scheduler turns, so that a peer or a thread that is only slow is not taken
 * for a deadlock. */
enum { GPUCOLL_LANE_PATIENCE_NS = 20000000 };
/* All lanes are taken: is one to be waited for by a call of this process alone, which may not depend on other ranks? `*short_since_ns` is 0
 * at the first question. Caller serialises. */
bool gpucoll_gpu_lane_comes(const struct gpucoll_gpu *gpu, uint64_t *short_since_ns);
/* What was launched on the lane: as stream_poll. The device is asked for errors once in many looks, which `*looks` counts. */
gpucoll_status gpucoll_gpu_look(const struct gpucoll_gpu *gpu, const struct gpucoll_lane *lane,
                                uint32_t *looks) GPUCOLL_CHECKED;

#endif
