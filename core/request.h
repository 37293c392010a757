/*
 * A request: one call on one team, as a small state machine that gpucoll_test moves (internal; public face in
 * core/gpucoll.h).
 *
 *   GIVEN_UP   an earlier call of the team has failed here: declined without a word, the peers are told by `broken`
 *   QUEUED     the ring entry is still being read by a slow peer; then the post is published
 *   AGREEING   waiting for every rank's post of this call, and for earlier calls of the team to be past this state and the
 *              next: then every rank takes the same decision from the same posts and the same set of known links
 *   PROBING    the team is of several hosts, and a rank brought a GPU that its back team has not used before: an empty local call
 *              connects it
 *   CARRYING   of several hosts and few bytes: the ranks of this one put together what they bring (core/cluster/cluster_carry.c)
 *   SPANNING   the hosts tell each other what their ranks have agreed on (core/cluster/cluster.h)
 *   DELIVERING what all hosts have carried is copied to the device
 *   CONNECTING a rank brought a GPU that the team has not used before: each rank connects, barriers tell who could not
 *   OFFERING   some rank has no lane yet: waiting until each has offered one, or one cannot
 *   MAPPING    the plan writes to the application's buffers, and a rank brought one that the team has not met: each rank maps it, a
 *              barrier tells who could not
 *   PACKING    data of a datatype that is not contiguous is packed, for copies that do not come behind it on one stream; of several hosts,
 *              before the stages
 *   RUNNING    the plan's algorithm is at work, on packed data where a datatype is not contiguous
 *   UNPACKING  what was received is put where such a datatype wants it
 *   STAGES     the call of several hosts is at work
 */
#ifndef GPUCOLL_REQUEST_H
#define GPUCOLL_REQUEST_H

#include "core/base/clock.h"
#include "core/copies.h"
#include "core/stats.h"
#include "core/team.h"

enum gpucoll_request_state {
    GPUCOLL_GIVEN_UP,
    GPUCOLL_QUEUED,
    GPUCOLL_AGREEING,
    GPUCOLL_PROBING,
    GPUCOLL_CARRYING,
    GPUCOLL_SPANNING,
    GPUCOLL_DELIVERING,
    GPUCOLL_CONNECTING,
    GPUCOLL_OFFERING,
    GPUCOLL_MAPPING,
    GPUCOLL_PACKING,
    GPUCOLL_RUNNING,
    GPUCOLL_UNPACKING,
    GPUCOLL_STAGES,
    GPUCOLL_DRAINING
};

/* What statistics and profilers want to know of a request (core/observe.h). */
struct gpucoll_observed {
    bool begun;       /* when it was posted, somebody wanted to know */
    bool traced;      /* ranges are open */
    uint64_t posted;  /* ticks */
    uint64_t arrived; /* ticks: all ranks had; without agreement as `posted` */
    uint64_t call;    /* ranges: of the call, and of the part it is in */
    uint64_t part;
};

/* Of a call that goes by copies. */
struct gpucoll_pipeline {
    uint32_t queued;   /* chunks or steps of which this rank's part is queued, */
    uint32_t sent;     /* and sent */
    uint32_t reduced;  /* of a reduction: chunks that this rank has reduced; */
    uint32_t reducing; /* and the next that it is reducing */
    /* Of the copies on their way: by peer; of a reduction, by queue. */
    struct gpucoll_copy_ticket sending[GPUCOLL_MAX_LOCAL];
};

struct gpucoll_packing;
struct gpucoll_cluster_call;
struct gpucoll_span;

struct gpucoll_request {
    struct gpucoll_team *team;
    enum gpucoll_request_state state;
    enum gpucoll_coll coll;
    enum gpucoll_op op;
    enum gpucoll_type type;
    uint32_t root;
    int functor;
    const void *send; /* in place: equal to recv */
    void *recv;
    uint64_t bytes; /* of an exchange: once all have posted, of the longest run of any rank */

    uint64_t call; /* its number in the team, from 1 */
    struct gpucoll_post post;
    struct gpucoll_gpu *gpu;   /* NULL: declined by this rank */
    struct gpucoll_lane *lane; /* held to the end, from the post or from the offer on */
    bool lanes_follow;         /* of some rank */
    bool inboxes;              /* it goes through the inboxes of all ranks (core/early.h); */
    bool some_inboxes;         /* or not all have posted one, but some have */
    bool early;                /* its kernel was told before it was known whether it does */
    bool offered;              /* by this rank: a lane, or that it has none */
    uint64_t short_since_ns;   /* lanes are short, and none is sure to come */
    struct gpucoll_place places[GPUCOLL_PLACES]; /* of its buffers, as its post has found them */
    struct gpucoll_export *exported;             /* what peers write to; held from post to end; NULL: none */
    struct gpucoll_export *sourced;              /* likewise, what they read from */
    bool room;                                   /* as of a plan's call (core/plan/plan.h) */
    enum gpucoll_direct direct; /* how far the plan may reach into the application's buffers, */
    enum gpucoll_direct mapped; /* and for how far they are being mapped */
    uint32_t arrived;           /* ranks below this one are known to have posted, or passed */
    uint32_t looks;             /* for those */
    bool passed;                /* some rank passes this call */
    uint32_t barriers;          /* entered */
    uint32_t connecting;        /* step of core/links.h */
    struct gpucoll_links *links;
    struct gpucoll_plan plan;

    enum gpucoll_company_kind
        company;       /* what beside it may hold up what it waits for: with any, its kernel has a gate */
    uint32_t stays_ns; /* how long a kernel of it waits for the next call if it lingers */
    bool apart; /* on some rank calls come too far apart for kernels to linger: the plan is one of launches */
    bool gated; /* as far as this rank's own thread knows, the kernel has a gate that is not passed */
    struct gpucoll_gate gate;
    struct gpucoll_patience waiting; /* at present */
    uint64_t looked_ns;              /* when the peers were last looked at */
    uint32_t polls;                  /* since the clock was last read */
    uint64_t next_round;             /* used by algorithms that run in several kernels */
    uint32_t stage;
    struct gpucoll_patience drained; /* state DRAINING */
    uint32_t moves;        /* noticed or done for it by the host, so far: see gpucoll_watchdog_reset */
    uint64_t moves_before; /* its team's, when it was last seen to wait behind earlier calls */
    bool in_barrier;
    struct gpucoll_packing *packing;     /* of one host; NULL: all blocks are contiguous */
    struct gpucoll_cluster_call *stages; /* of several hosts; NULL: of one */
    struct gpucoll_span *span;           /* in SPANNING */
    bool mismatch_said;                  /* that the ranks of this host differ */
    uint32_t signature;                  /* of several hosts, of blocks that all ranks name alike; 0: none */
    enum gpucoll_reason refused;         /* why this rank, by itself, does not take part; NONE: it may */
    bool skipped;                        /* and so does every rank, each by itself */
    bool migrates;                       /* the results may lie in other memory than the GPU's */
    bool idle;                           /* an exchange in which this rank neither sends nor receives */
    bool cancelled;                      /* by its caller */
    bool own; /* nobody's but gpucoll's: a warm-up or a rehearsal, which then is an all-reduce */
    struct gpucoll_request *spare; /* of an ended one, the next */
    void *lent; /* of a rehearsal: what it works on, from the pool of this GPU; NULL: not so far */
    struct gpucoll_gpu *lender;
    uint8_t form;               /* enum gpucoll_form */
    enum gpucoll_reason reason; /* why it is declined */
    struct gpucoll_observed observed;
    /* What follows is not cleared for each call. */
    struct gpucoll_kernel_runs runs;  /* of an exchange */
    struct gpucoll_pipeline pipeline; /* of algorithms that go by copies */
};

/* What was posted. */
static inline enum gpucoll_coll gpucoll_request_coll(const struct gpucoll_request *request)
{
    return request->own && request->coll == GPUCOLL_ALLREDUCE ? GPUCOLL_REHEARSAL : request->coll;
}

/* The request has ended: it is kept for a later call of the team, or freed. */
enum { GPUCOLL_SPARE_REQUESTS = GPUCOLL_POSTED_AHEAD };
void gpucoll_request_keep(struct gpucoll_team *team, struct gpucoll_request *request);

/* Makes the plan, the same on every rank, and decides whether its kernel lingers; or decides this alone, of a plan that is made (core/call_plan.c). */
gpucoll_status gpucoll_call_plan(struct gpucoll_request *request) GPUCOLL_CHECKED;
void gpucoll_call_lingers(struct gpucoll_request *request);

/* As gpucoll_test, of a team of one rank (core/alone.c). */
gpucoll_status gpucoll_alone_test(struct gpucoll_request *request) GPUCOLL_CHECKED;

/* A request that is not a call, by which the watchdog looks after the team's present barrier; NULL without memory. */
struct gpucoll_request *gpucoll_request_for_barrier(struct gpucoll_team *team);
void gpucoll_request_drop(struct gpucoll_request *request);

#endif
