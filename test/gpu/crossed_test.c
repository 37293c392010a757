#include <signal.h>
#include <unistd.h>
#include "kernels/functors.h"
#include "test/gpu/ranks.h"
#include "test/gpu/tests.h"

enum { PAIRS = 2, DATA_BYTES = 1 << 20, SECONDS = 10 };

static struct ranks pairs[PAIRS];

/* The driver waits for ever in a launch: what it waits for gives up. */
static void give_up(int signal)
{
    (void)signal;
    for (int i = 0; i < PAIRS; i++) {
        for (int r = 0; r < 2; r++) {
            gpucoll_status_abort(pairs[i].rank[r].status, 1);
        }
    }
}

void test_crossed(struct gpus *gpus)
{
    static const struct {
        enum gpucoll_kernel kernel;
        int functor;
    } kinds[PAIRS] = {{GPUCOLL_KERNEL_ONESHOT, GPUCOLL_FN_minloc_f64i32},
                      {GPUCOLL_KERNEL_TWOSHOT, GPUCOLL_FN_sum_f64}};
    struct call call[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        ranks_open(&pairs[i], gpus, 2, DATA_BYTES, DATA_BYTES);
        call[i] = (struct call){.kernel = kinds[i].kernel,
                                .functor = kinds[i].functor,
                                .ctas = 2,
                                .threads = 64,
                                .bytes = 1024,
                                .data_bytes = DATA_BYTES,
                                .stages = GPUCOLL_STAGE_ALL,
                                .round_end = UINT64_MAX};
        ranks_begin(&pairs[i]);
    }
    void (*before)(int) = signal(SIGALRM, give_up);
    alarm(SECONDS);
    for (uint32_t r = 0; r < 2; r++) { /* rank 0 begins with the first call, rank 1 with the second */
        ranks_launch(&pairs[r], r, &call[r]);
    }
    for (uint32_t r = 0; r < 2; r++) {
        ranks_launch(&pairs[1 - r], r, &call[1 - r]);
    }
    const bool in_time = alarm(0) > 0;
    signal(SIGALRM, before);
    for (int i = 0; i < PAIRS && in_time; i++) {
        ranks_wait_all(&pairs[i], "first calls in crossed order");
    }
    gpus_report(gpus, in_time, "first calls of two kernels, in crossed order");
    for (int i = 0; i < PAIRS; i++) {
        ranks_close(&pairs[i]);
    }
}
