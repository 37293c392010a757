/*
 * The constants of the cost model, in one place, each with its unit: those that were measured on some kind of GPU, built in, and
 * below them what a tuning file sets (core/plan/tuning.h). What depends on the link (latency, bandwidth) comes from the
 * transport instead.
 */
#ifndef GPUCOLL_MODEL_H
#define GPUCOLL_MODEL_H

#include <stdbool.h>
#include "core/plan/plan.h"
#include "kernels/kernel_abi.h"

struct gpucoll_model {
    double agree_us;  /* all ranks of a host seeing each other's posts */
    double launch_us; /* launch of a kernel until it runs, and its end until the host sees it */
    double ring_us;   /* the same for a call given to a lingering kernel */
    double
        crew_us; /* what several CTAs of it cost above one: until the last has heard the bell, and each has said that it is done */
    double hop_us;   /* one step of LL or LL128, without the link's own latency: load, store, notice */
    double fence_us; /* one step of Simple, likewise: with CTA barrier, system-scope fence and flag */
    double
        ll_cta_bandwidth; /* bytes/s that one CTA of 512 threads stores to many peers by LL, flags counted */
    double ll128_cta_bandwidth;  /* by LL128, flags counted, when there is no flag to wait for between */
    double simple_cta_bandwidth; /* by Simple */
    double link_share;           /* of the link's bandwidth that kernels reach with many CTAs */
    double bulk_cta_bandwidth;   /* bytes/s of a message that one CTA of the bulk kernel reads and stores */
    double
        bulk_us; /* of that kernel, launched: until its first tile is stored, and after its last is asked for */
    double
        arrive_us; /* at the end of a lingering kernel's call in bulk: until what it has stored to several peers has arrived */
    double copy_us;         /* a call by copies, until the first has begun and after the last is complete */
    double copy_each_us;    /* of the host, for each copy, or batch of them, that it queues */
    double copy_hop_us;     /* a chunk seen by the next rank's host, and its copies queued */
    double copy_link_share; /* of the bandwidth of stores by kernels, that copy engines reach */
    double barrier_us;      /* host barrier between two kernels, stream completion included */
    double host_copy_us;    /* a copy between device and outbox, until the host sees its end */
    double host_bandwidth;  /* bytes/s of each direction of PCIe, by copy engine */
    double cpu_bandwidth;   /* bytes/s that one thread reads and reduces in host memory */
};

/* A constant as files and gpucoll_info write it: value in `unit`, which is `scale` of the field's own. */
struct gpucoll_model_constant {
    const char *name;
    const char *unit; /* "": none */
    double scale;
    size_t offset; /* of the double in struct gpucoll_model */
    const char *help;
};

/* The constants; NULL past the end. */
const struct gpucoll_model_constant *gpucoll_model_constant_at(int index);
enum { GPUCOLL_MODEL_CONSTANTS = sizeof(struct gpucoll_model) / sizeof(double) };

static inline double *gpucoll_model_field(struct gpucoll_model *model,
                                          const struct gpucoll_model_constant *constant)
{
    return (double *)((char *)model + constant->offset);
}

/* Of host_bandwidth, what a rank has beside those that share its GPU, and with it the way to the host. */
static inline double gpucoll_host_bandwidth(const struct gpucoll_plan_input *input)
{
    return input->model->host_bandwidth / gpucoll_sharers(input);
}

/* Constants that were measured, and on what. */
struct gpucoll_model_entry {
    const char *gpu;  /* words of the name that the driver gives it */
    bool whole_lines; /* over links that keep 128 bytes whole: NVLink */
    const char *source;
    const struct gpucoll_model *model;
};

/* The entries, the faster first; NULL past the end. */
const struct gpucoll_model_entry *gpucoll_model_entry_at(int index);

/* Stands for GPUs and links that were not measured. */
#define GPUCOLL_MODEL_UNKNOWN 15

/* The index of the entry for this GPU and link, or GPUCOLL_MODEL_UNKNOWN. */
int gpucoll_model_find(const char *gpu, bool whole_lines);

/* The constants of an entry; of the first for GPUCOLL_MODEL_UNKNOWN. */
const struct gpucoll_model *gpucoll_model_of(int index);

/* Microseconds until `bytes` have left a rank, by `ctas` CTAs of `cta_bandwidth` each: not a whole number, so that predictions
 * have no steps; at least one, at most `most`. */
double gpucoll_model_transfer_us(const struct gpucoll_plan_input *input, double bytes, double ctas,
                                 double most, double cta_bandwidth);

/* What of ll_cta_bandwidth or ll128_cta_bandwidth is left where each pack goes to so few peers. */
double gpucoll_model_lines_bandwidth(double cta_bandwidth, uint32_t peers);

/* Microseconds that a launch of `ctas` CTAs of at most `most` takes over LL or LL128 beside its steps and bytes. */
double gpucoll_model_crowd_us(double ctas, double most);

/* CTAs of the crew for a call that waits for nobody, whose runs have at most `bytes`: as many as would be good, in whole pairs, or as there may be. 0: its
 * kernel cannot linger, or the GPUs do not move in bulk. */
unsigned gpucoll_model_bulk_crew(const struct gpucoll_plan_input *input, uint64_t bytes, double good);

/* CTAs, in whole pairs, for a call in bulk that `fill` of them fill the links with: fewer where nobody waits in it, for an application's kernel misses their SMs. */
double gpucoll_model_bulk_fill(const struct gpucoll_plan_input *input, double fill);

/* Bytes/s that a CTA stores in bulk. */
extern const double gpucoll_model_store_bandwidth;

/* CTAs of a launch in bulk that would like `share` of them: whole pairs, as they are started (as many as config->channels forces, if it does), one at
 * least and as many as a plan may have at most. */
uint32_t gpucoll_model_bulk_ctas(const struct gpucoll_plan_input *input, double share);

/* Microseconds until a crew has heard of a call, and from its end until the host has. */
double gpucoll_model_ring_us(const struct gpucoll_model *model, unsigned crew);

/* The same of a crew that stores to peers in bulk, until that has arrived. */
double gpucoll_model_bulk_ring_us(const struct gpucoll_plan_input *input, unsigned crew);
/* gpucoll_model_transfer_us of such a crew, of which as many as `busy` CTAs have something to do. */
double gpucoll_model_bulk_transfer_us(const struct gpucoll_plan_input *input, double bytes, unsigned crew,
                                      double busy, double cta_bandwidth);

/* Makes the plan one for a crew, if it takes less time so than by a launch. */
void gpucoll_plan_offer_crew(struct gpucoll_plan *plan, unsigned crew, double predicted_us);

/* What is not seen of the time in which bytes leave a rank, or comes beside it: such a share of that time, without its first microseconds, and no more
 * than so long. */
struct gpucoll_share {
    double share;
    double most_us;
    double after_us;
};

double gpucoll_model_share_us(const struct gpucoll_plan_input *input, double bytes,
                              struct gpucoll_share share);

/* Microseconds of a call in which `leaves` bytes leave each rank by `copies` copies at a time, `hops` one after another. */
double gpucoll_model_copies_us(const struct gpucoll_plan_input *input, double leaves, unsigned copies,
                               unsigned hops);

/* Of a kernel that sums what copies have brought, a part of each other rank and the own one. CTAs, enough for a chunk in half of the time in which the next one is
 * brought: the host has to notice both. Beside an application all that may be: the kernel begins when the last of that one's has ended, however few they were. */
uint32_t gpucoll_model_sum_ctas(const struct gpucoll_plan_input *input);
/* And microseconds for so many bytes of each part, from the end of the copies until the end of the kernel is noticed. */
double gpucoll_model_sum_us(const struct gpucoll_plan_input *input, double bytes, uint32_t ctas);

/* What a kernel of the LL family does for a call. */
struct gpucoll_lines {
    unsigned hops;        /* steps one after the other, */
    double hop_us;        /* of each, beside the latency of the link */
    double longer_us;     /* what the call takes beside all that is counted here; negative: less */
    double packed;        /* bytes whose packs the threads share out */
    double stored;        /* bytes that leave each rank */
    double cta_bandwidth; /* of many peers: */
    uint32_t together;    /* packs of a thread that are on their way at once, as many peers would make them */
    unsigned most_ctas;   /* 0: as many as the call may have */
    bool alike;           /* all ranks must run it by as many CTAs: a launch of its own */
    enum gpucoll_kernel kernel; /* which tells whether of a crew that lingers the leader does it by itself */
};

/* What is left of the time of stores by many CTAs (core/plan/plan.h), of that by few. */
extern const double gpucoll_model_many_share;

/* Fills ctas, threads, linger and predicted_us of a plan for such a kernel: as a lingering crew or as a launch of its own,
 * whichever is predicted to be faster. */
void gpucoll_model_shape_lines(const struct gpucoll_plan_input *input, const struct gpucoll_lines *lines,
                               struct gpucoll_plan *plan);

#endif
