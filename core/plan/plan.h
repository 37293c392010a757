/*
 * A plan: which algorithm runs a call, and with what shape. A function of what is equal on every rank (collective,
 * bytes, functor, the team's ranks and links, configuration), so every rank makes the same one.
 */
#ifndef GPUCOLL_PLAN_H
#define GPUCOLL_PLAN_H

#include "core/base/types.h"
#include "core/base/config.h"
#include "kernels/kernel_abi.h"

struct gpucoll_algorithm;
struct gpucoll_model;

/* How far peers, and this rank at them, reach into the application's buffers (core/direct.h). */
enum gpucoll_direct {
    GPUCOLL_DIRECT_NOT,
    GPUCOLL_DIRECT_STORES, /* they write what a rank receives to where it belongs */
    GPUCOLL_DIRECT_BULK    /* and kernels in bulk read what ranks, or the root, send from where it is */
};

/* What of a call a plan depends on. */
struct gpucoll_plan_call {
    enum gpucoll_coll coll;
    int functor;
    uint64_t bytes;
    enum gpucoll_direct direct;
    bool
        room; /* of an all-reduce or a reduce that is direct: in no rank's receive buffer is anything that is sent, so that parts may wait there */
    bool
        unattended; /* nobody waits in the call: where the host is needed between steps, they may lie far apart */
    bool crowded;   /* calls beside it want SMs for kernels that wait for other ranks, too (core/company.h) */
    bool apart;     /* calls come too far apart for kernels to linger */
};

/* What a plan is made from. */
struct gpucoll_plan_input {
    enum gpucoll_coll coll;
    int functor;
    uint64_t bytes;
    uint32_t nranks;
    uint64_t data_bytes; /* data area of a lane */
    unsigned ways;       /* enum gpucoll_tl_way: how all ranks reach all others; 0 stands for stores */
    enum gpucoll_direct direct;
    bool room;          /* as of a call */
    bool unattended;    /* likewise */
    bool crowded;       /* likewise */
    bool apart;         /* likewise: then there is no crew */
    uint32_t
        sharers; /* most ranks of the team that drive one GPU; 1: each has one for itself. More than there are ranks: all of them */
    bool concurrent; /* kernels of ranks that share a GPU run at the same time, not in turn */
    /* CTAs of any kernel of a rank that are on its GPU at once: all those of a kernel that waits for other ranks have to be. 0: as many as a
     * plan may have. */
    unsigned resident;
    unsigned crew;     /* CTAs of each rank that can linger together; 0: kernels cannot linger */
    bool bulk;         /* every rank's GPU moves in bulk (kernels/bulk.cuh) */
    bool whole_lines;  /* every link keeps 128 bytes stored at once whole */
    double latency_us; /* of the slowest link of the team */
    double bandwidth;  /* bytes/s out of one rank, all peers together */
    /* The same of the links between neighbours of a ring, where these are better than others; bandwidth 0: they are not. */
    bool ring_whole_lines;
    double ring_latency_us;
    double ring_bandwidth;
    const struct gpucoll_model *model; /* constants of the prediction (core/plan/model.h) */
    const struct gpucoll_config *config;
};

struct gpucoll_plan {
    const struct gpucoll_algorithm *algorithm;
    uint32_t ctas;
    uint32_t threads;
    bool linger;          /* the kernel may stay for the next call; then `ctas` is its crew, */
    uint32_t launch_ctas; /* and this what it has if it may not */
    uint64_t chunk_bytes; /* of what goes by copies: that each copy moves */
    uint64_t rounds;      /* of the channel with the most work; of copies, chunks */
    double predicted_us;  /* host-blocking: call to return, all ranks arriving at once */
    double launched_us;   /* of a kernel that may stay: the same where it has to be launched first */
};

static inline uint32_t gpucoll_least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The most CTAs that a plan may have, and how many it takes that would like `share` of them: those that
 * config->channels forces, if it does, and if the GPUs hold them. */
static inline uint32_t gpucoll_most_ctas(const struct gpucoll_plan_input *input)
{
    const struct gpucoll_config *config = input->config;
    const uint32_t most = config->channels > 0
                              ? (uint32_t)config->channels
                              : gpucoll_least_of((uint32_t)config->max_ctas, GPUCOLL_FEW_CTAS);
    return input->resident > 0 ? gpucoll_least_of(input->resident, most) : most;
}

/* May a kernel have many of which `leaves` bytes leave each rank by stores? Not of fewer, which takes as long by few; nor over other links than
 * NVLink, which few fill; nor beside an application that computes. */
static inline bool gpucoll_may_have_many(const struct gpucoll_plan_input *input, double leaves)
{
    const double worth_of_many = 24 << 20;
    const struct gpucoll_config *config = input->config;
    return leaves >= worth_of_many && input->whole_lines && config->channels == 0 && !input->unattended &&
           config->max_ctas >= GPUCOLL_MANY_CTAS && config->threads / 2 >= GPUCOLL_LEAST_SERVED_THREADS &&
           (input->resident == 0 || input->resident >= GPUCOLL_MANY_CTAS);
}
static inline double gpucoll_wanted_ctas(const struct gpucoll_plan_input *input, double share)
{
    return input->config->channels > 0 ? input->config->channels : share;
}

/* The ranks that drive one GPU, at most. */
static inline uint32_t gpucoll_sharers(const struct gpucoll_plan_input *input)
{
    const uint32_t sharers = input->sharers < input->nranks ? input->sharers : input->nranks;
    return sharers > 1 ? sharers : 1;
}

/* The ranks that have the SMs of one GPU in turn, at most. */
static inline uint32_t gpucoll_turns(const struct gpucoll_plan_input *input)
{
    return input->concurrent ? 1 : gpucoll_sharers(input);
}

/* Two ranks, of which one sends and the other alone reduces? */
static inline bool gpucoll_goes_one_way(const struct gpucoll_plan_input *input)
{
    return input->nranks == 2 && (input->coll == GPUCOLL_REDUCE || gpucoll_coll_is_scan(input->coll));
}

/* Does the root alone send, and nobody reduce? */
static inline bool gpucoll_goes_from_root(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_BCAST || coll == GPUCOLL_SCATTER || coll == GPUCOLL_SCATTERV;
}

/* Do all send to the root, and nobody reduce? */
static inline bool gpucoll_goes_to_root(enum gpucoll_coll coll)
{
    return coll == GPUCOLL_GATHER || coll == GPUCOLL_GATHERV;
}

/* A number of threads without the last, incomplete warp. */
static inline uint32_t gpucoll_whole_warps(int threads)
{
    return (uint32_t)threads / 32 * 32;
}

#endif
