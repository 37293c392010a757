/*
 * The constants of the cost model, in one place, each with its unit and where it was measured (docs/design.md names the
 * programs). What depends on the link (latency, bandwidth) comes from the transport instead.
 */
#ifndef GPUCOLL_MODEL_H
#define GPUCOLL_MODEL_H

struct gpucoll_model {
    double launch_us;      /* launch of an empty kernel until the host sees its flag: limits bench, 7.2 on H200 */
    double agree_us;       /* all ranks of a host seeing each other's posts: engine test, two cache line transfers */
    double fence_us;       /* system-scope fence after a CTA's stores and the flag behind it: kernel probe on H200 */
    double cta_bandwidth;  /* bytes/s that one CTA of 512 threads stores to peers: limits bench, 30 CTAs reach 339 GB/s */
    double ll_bandwidth;   /* bytes/s of LL words that one CTA stores: half of them data, 8-byte granules */
    double local_bandwidth; /* bytes/s of device memory, read and written: limits bench, 4260 GB/s on H200 */
    double barrier_us;     /* host barrier between two kernels, stream completion included */
};

extern const struct gpucoll_model gpucoll_model_default;

/* Bytes/s of a kernel: what `ctas` CTAs (not a whole number, so that predictions have no steps) store, at least one and at most
 * `most`, and no more than the link carries. */
double gpucoll_model_bandwidth(double cta_bandwidth, double ctas, double most, double link_bandwidth);

#endif
