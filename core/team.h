/*
 * A team: the ranks of one communicator that can run collectives natively (internal; public face in core/gpucoll.h).
 */
#ifndef GPUCOLL_TEAM_H
#define GPUCOLL_TEAM_H

#include "core/context.h"
#include "core/early.h"
#include "core/plan/plan_cache.h"

struct gpucoll_member {
    struct gpucoll_peer *peer;
    struct gpucoll_team_board *board; /* that rank's region */
    uint32_t number;                  /* its rank in the communicator, which messages name */
};

/* One choice of a GPU for each rank, and how this rank reaches them. Lives as long as the team: calls under way use it. */
struct gpucoll_links {
    struct gpucoll_links *next;
    unsigned ways;      /* enum gpucoll_tl_way: by which all ranks reach all others; equal on every rank */
    uint32_t sharers;   /* most ranks that drive one GPU; equal on every rank */
    bool concurrent;    /* their kernels run at the same time, not in turn; equal on every rank */
    uint32_t parts;     /* in how many a GPU is divided, for all processes on it; equal on every rank */
    unsigned resident;  /* CTAs of any kernel of a rank that are on its GPU at once; equal on every rank */
    /* The worst of all pairs of ranks, equal on every rank. */
    bool whole_lines;
    unsigned crew; /* CTAs of a rank that can linger together on its GPU */
    bool bulk;     /* the GPUs move in bulk */
    double latency_us;
    double bandwidth;
    /* The ranks in the order of a ring, and the worst link between two neighbours: along links that keep lines whole, if there is
     * such a ring. Equal on every rank. */
    uint32_t order[GPUCOLL_MAX_LOCAL];
    bool ring_whole_lines;
    double ring_latency_us;
    double ring_bandwidth;      /* bytes/s out of one rank to its two neighbours together */
    struct gpucoll_model model; /* of the GPUs, with what the tuning file sets */
    uint32_t card[GPUCOLL_MAX_LOCAL];
    void *scratch[GPUCOLL_MAX_LOCAL]; /* of each rank, as this rank's GPU sees it; with GPUCOLL_TL_STORES */
    struct gpucoll_connection *connection[GPUCOLL_MAX_LOCAL]; /* NULL: the own rank; likewise */
    const struct gpucoll_pipe_ops *pipe;
    void *outbox[GPUCOLL_MAX_LOCAL]; /* of each rank, as mapped here; with GPUCOLL_TL_PIPES */
    const struct gpucoll_gpu *gpu;
    struct gpucoll_direct_base *bases; /* of exports, for calls of these links (core/direct.c); NULL: none yet */
};

/* Do ranks have the SMs of one GPU in turn? */
static inline bool gpucoll_links_in_turn(const struct gpucoll_links *links)
{
    return links->sharers > 1 && !links->concurrent;
}

struct gpucoll_cluster;

struct gpucoll_team {
    struct gpucoll_context *context;
    struct gpucoll_team_setup *setup; /* while the team is being made */
    struct gpucoll_cluster *
        cluster; /* of several hosts, of whose ranks only this one's are here (core/cluster/cluster.h); NULL: one host */
    char name[64];
    uint32_t rank;
    uint32_t size;
    bool inner;                    /* its calls are stages of another team's: */
    struct gpucoll_request *outer; /* of this one; NULL while there is none */
    struct gpucoll_gpu *gpu;       /* of calls in which this rank has no buffer; NULL: any */
    uint32_t region;               /* on the own board */
    struct gpucoll_team_board *board;
    uint64_t calls;       /* posted or passed */
    uint64_t read_by_all; /* posts up to this one are known to be read by all ranks that read them */
    uint64_t decided;     /* calls up to this one are declined, have failed, or have their links */
    uint32_t ended;       /* bit call % RING: that call has ended before an earlier one */
    uint64_t moves;       /* of all its calls: see gpucoll_watchdog_reset */
    bool bound;           /* each rank's process had a GPU when the team was begun */
    bool active;          /* has posted */
    bool given_up;        /* a call has failed: nothing is run natively any more */
    struct gpucoll_missing missing; /* then: ranks that were */
    enum gpucoll_reason reason;     /* of the latest declined call */
    uint64_t barriers;              /* of the application, entered */
    uint32_t barrier_arrived;       /* ranks below this one are known to be in the present one */
    uint32_t barrier_polls;
    uint64_t barrier_begun;                /* ticks; 0: nobody wants to know */
    struct gpucoll_request *barrier_watch; /* for the watchdog, of a barrier that waits long; NULL: none */
    struct gpucoll_request *spare;         /* some that have ended, kept for the next calls, */
    uint32_t spares;                       /* so many */
    struct gpucoll_met *met;     /* exports that calls have brought (core/direct.c); NULL: none yet */
    struct gpucoll_links *links; /* those known, the latest first; the same set on every rank */
    struct gpucoll_plan_cache plans;
    struct gpucoll_early early;
    struct gpucoll_member members[GPUCOLL_MAX_LOCAL];
};

/* ---- plans (core/team_plan.c) ---- */

/* What the plan for such a call is made from. */
struct gpucoll_plan_input gpucoll_team_input(const struct gpucoll_team *team,
                                             const struct gpucoll_links *links,
                                             const struct gpucoll_plan_call *call);

/* The plan for a call on these links, from the cache when it was made before. */
gpucoll_status gpucoll_team_plan(struct gpucoll_team *team, const struct gpucoll_links *links,
                                 const struct gpucoll_plan_call *call,
                                 struct gpucoll_plan *plan) GPUCOLL_CHECKED;

#endif
