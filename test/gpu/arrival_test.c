/*
 * What a kernel, launched or lingering, has stored to a peer in bulk is there when the host sees the end of the call, also while other stores fill
 * the link: the bulk copies of an SM say when they have been read, and are complete for the thread that asked, long before they arrive
 * (docs/design-direct.md, which also says what this test cannot see).
 */
#include <stdlib.h>
#include <string.h>
#include "kernels/functors.h"
#include "test/gpu/elements.h"
#include "test/gpu/ranks.h"
#include "test/gpu/tests.h"

enum {
    RUN = 16 << 10,
    CALLS = 40,       /* beside what fills the link */
    FILL = 576 << 20, /* into the first rank: most of the calls, at least, are made beside it */
    ROUNDS = 20,
    SMALL_DATA = 1 << 20
};

struct arrival {
    struct ranks calls;  /* each rank but the first stores a run to it */
    struct ranks filler; /* and much more */
    struct gpucoll_kernel_runs runs[MOST_RANKS];
    struct gpucoll_kernel_runs much[MOST_RANKS];
    size_t fill;                     /* from each of the others */
    unsigned char *sent[MOST_RANKS]; /* a run for each call */
    unsigned char *got;
};

static struct call store_call(const struct gpucoll_kernel_runs *runs, uint64_t bytes, unsigned ctas)
{
    return (struct call){.kernel = GPUCOLL_KERNEL_STORE,
                         .functor = GPUCOLL_FN_sum_u8,
                         .ctas = ctas,
                         .threads = 512,
                         .bytes = bytes,
                         .stages = GPUCOLL_STAGE_ALL,
                         .round_end = UINT64_MAX,
                         .runs = runs};
}

static void fill_links(struct arrival *arrival)
{
    const size_t fill = arrival->fill;
    const struct call call = store_call(arrival->much, fill, 24);
    ranks_begin(&arrival->filler);
    for (uint32_t r = 1; r < arrival->filler.size; r++) {
        arrival->much[r].run[0] = (struct gpucoll_kernel_run){
            .send = arrival->filler.rank[r].send,
            .recv = arrival->filler.rank[0].recv + (r - 1) * fill,
            .send_bytes = fill,
            .recv_bytes = fill,
        };
        ranks_launch(&arrival->filler, r, &call);
    }
}

/* One run from each, to the same place as in the call before: what has not arrived is seen. */
static bool call_arrives(struct arrival *arrival, int number, bool lingers)
{
    struct ranks *ranks = &arrival->calls;
    struct call call = store_call(arrival->runs, RUN, 4);
    call.linger_ns = lingers ? 1000000 : 0;
    ranks_begin(ranks);
    for (uint32_t r = 1; r < ranks->size; r++) {
        arrival->runs[r].run[0] = (struct gpucoll_kernel_run){
            .send = ranks->rank[r].send + (size_t)number * RUN,
            .recv = ranks->rank[0].recv + (size_t)r * RUN,
            .send_bytes = RUN,
            .recv_bytes = RUN,
        };
        ranks_launch(ranks, r, &call);
    }
    for (uint32_t r = 1; r < ranks->size; r++) {
        ranks_wait(ranks, r, "stores in bulk beside others");
    }
    gpus_copy(ranks->gpus, "stores in bulk beside others", arrival->got, ranks->rank[0].recv,
              (size_t)ranks->size * RUN);
    bool there = true;
    for (uint32_t r = 1; r < ranks->size; r++) {
        there &= memcmp(arrival->got + (size_t)r * RUN, arrival->sent[r] + (size_t)number * RUN, RUN) == 0;
    }
    return there;
}

static bool still_fills(struct arrival *arrival)
{
    bool all = true;
    for (uint32_t r = 1; r < arrival->filler.size; r++) {
        all &= !ranks_done(&arrival->filler, r);
    }
    return all;
}

void test_arrival(struct gpus *gpus, bool quick, uint64_t seed)
{
    static struct arrival arrival;
    const uint32_t size = gpus->count < 4 ? (uint32_t)gpus->count : 4;
    uint64_t random = seed;
    if (size < 2) {
        return;
    }
    memset(&arrival, 0, sizeof(arrival));
    ranks_open(&arrival.calls, gpus, size, SMALL_DATA, (size_t)CALLS * RUN);
    arrival.fill = (size_t)FILL / (size - 1) / GPUCOLL_PACK_BYTES * GPUCOLL_PACK_BYTES;
    ranks_open(&arrival.filler, gpus, size, SMALL_DATA, FILL);
    arrival.got = malloc((size_t)size * RUN);
    for (uint32_t r = 1; r < size; r++) {
        arrival.sent[r] = malloc((size_t)CALLS * RUN);
        fill_elements(GPUCOLL_FN_sum_u8, arrival.sent[r], (size_t)CALLS * RUN, &random);
        gpus_copy(gpus, "stores in bulk beside others", arrival.calls.rank[r].send, arrival.sent[r],
                  (size_t)CALLS * RUN);
    }
    const int rounds = quick ? 2 : ROUNDS;
    int beside = 0;
    bool there = true;
    for (int round = 0; round < rounds; round++) {
        fill_links(&arrival);
        for (int i = 0; i < CALLS; i++) {
            there &= call_arrives(&arrival, i, round % 2 == 0);
            beside += still_fills(&arrival);
        }
        for (uint32_t r = 1; r < size; r++) {
            ranks_wait(&arrival.filler, r, "stores that fill the links");
        }
    }
    gpus_report(gpus, there,
                "what is stored in bulk is there at the end, on %u GPUs (%d of %d calls beside other stores)",
                size, beside, rounds * CALLS);
    for (uint32_t r = 1; r < size; r++) {
        free(arrival.sent[r]);
    }
    free(arrival.got);
    ranks_close(&arrival.filler);
    ranks_close(&arrival.calls);
}
