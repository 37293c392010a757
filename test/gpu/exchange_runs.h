/*
 * What the tests of the exchange kernels are made of: runs of random lengths between all pairs of ranks, some of them empty, what must
 * come of them, and whether it did.
 */
#ifndef GPUCOLL_TEST_GPU_EXCHANGE_RUNS_H
#define GPUCOLL_TEST_GPU_EXCHANGE_RUNS_H

#include "test/gpu/ranks.h"

enum {
    EXCHANGE_MOST_RUN = 128 << 10, /* bytes of a run */
    EXCHANGE_GAP = 48,             /* between two runs, at least */
    EXCHANGE_DATA_BYTES = 1 << 20, /* of the data area of a lane */
    EXCHANGE_POISON = 0xA5         /* where nothing is written */
};

struct exchange {
    struct ranks ranks;
    uint64_t random;
    char name[128];
    struct gpucoll_kernel_runs runs[MOST_RANKS];
    struct gpucoll_kernel_runs
        stores[MOST_RANKS];              /* the same, of a kernel that stores into its peers' buffers */
    unsigned char *sent[MOST_RANKS];     /* images of the send buffers */
    unsigned char *expected[MOST_RANKS]; /* of the receive buffers */
    unsigned char *got;
    bool in_place; /* the send buffer is the receive buffer */
    size_t begin;  /* of the runs in the buffers */
};

/* Of each rank's send buffer, and of its receive buffer. */
size_t exchange_buffer_bytes(void);
void exchange_spin(uint64_t ns);
/* A random number. */
uint32_t exchange_below(struct exchange *exchange, uint32_t limit);

/* Runs of their own lengths between all pairs; in place, the same both ways, and where they are received. */
void exchange_plan_move(struct exchange *exchange, size_t most);
/* Every rank reduces runs of one length from some ranks; in place, all that a rank sends is where it receives. */
void exchange_plan_reduce(struct exchange *exchange, size_t most, size_t unit);
/* After exchange_plan_move: the same as `stores`. */
void exchange_plan_stores(struct exchange *exchange);
/* A broadcast: `stores` of which each rank but the root sends a slice of the root's message to all but the root. What must come of it is noted, and
 * all buffers are filled. */
void exchange_plan_spread(struct exchange *exchange, size_t most, struct call *call);
/* An all-reduce, as if it were an exchange: every rank sends the same to all. */
void exchange_plan_all(struct exchange *exchange, size_t most, size_t unit, struct call *call);
/* A call whose kernel lingers, of 8 bytes from everybody to everybody. */
struct call exchange_plan_lingering(struct exchange *exchange);
uint64_t exchange_longest_run(const struct exchange *exchange);

/* Elements in the planned runs, poison beside them and in all receive buffers. */
void exchange_fill(struct exchange *exchange, int functor);
/* Random bytes in all send buffers: for functors of integers they are elements. */
void exchange_fill_all(struct exchange *exchange);

/* Launches the call on all ranks, and waits for it. */
void exchange_run(struct exchange *exchange, const struct call *call);

/* Notes what must come of the runs; and compares every byte of every receive buffer with that. */
void exchange_expect(struct exchange *exchange, int functor, bool reduces);
bool exchange_verify(struct exchange *exchange, const struct call *call);

/* Kernels that are given up before they begin touch no buffer of the application: those that wait for nobody, and those that find what they wait for. */
void test_given_up(struct exchange *exchange);

#endif
