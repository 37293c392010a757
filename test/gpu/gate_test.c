/*
 * Two kernels of two ranks each, launched in different order, that together need more SMs than there are: each holds those that the other
 * lacks on one of the ranks. Without gates they would wait for each other for ever.
 */
#include <stdio.h>
#include "core/base/clock.h"
#include "kernels/functors.h"
#include "test/gpu/ranks.h"
#include "test/gpu/tests.h"

enum { PAIRS = 2, DATA_BYTES = 1 << 20 };
static const uint64_t patience_ns = 10000000000u;
static const char *const name = "kernels in a circle for SMs make way by their gates";

static struct ranks pairs[PAIRS];

/* Three quarters of a GPU's SMs, or as much as a kernel may have, for the ranks of a pair that are on one GPU. */
static unsigned ctas_of_a_rank(const struct gpus *gpus)
{
    int sms = 0;
    CUdevice device;
    gpus_must(gpus, gpus->cuda->cuDeviceGet(&device, 0), "cuDeviceGet");
    gpus_must(gpus, gpus->cuda->cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
              "cuDeviceGetAttribute");
    const unsigned wanted = (unsigned)sms * 3 / 4 / (gpus->count > 1 ? 1 : 2);
    return wanted < GPUCOLL_MAX_CHANNELS ? wanted : GPUCOLL_MAX_CHANNELS;
}

static bool comes(const struct ranks *pair, uint32_t rank, const uint32_t *word)
{
    const uint64_t start = gpucoll_now_ns();
    while (!ranks_said(pair, rank, word)) {
        if (gpucoll_now_ns() - start > patience_ns) {
            return false;
        }
    }
    return true;
}

static bool all_ready(const struct ranks *pair)
{
    return comes(pair, 0, &pair->rank[0].status->ready) && comes(pair, 1, &pair->rank[1].status->ready);
}

/* The second pair makes way, on the rank where it came first and on the one where it has found place for a part of its CTAs, or for none. */
static bool untie(void)
{
    struct ranks *first = &pairs[0];
    struct ranks *second = &pairs[1];
    if (!comes(first, 0, &first->rank[0].status->ready)) {
        return false;
    }
    for (uint32_t r = 0; r < 2; r++) {
        ranks_send_away(second, r);
    }
    if (!all_ready(first)) {
        return false;
    }
    for (uint32_t r = 0; r < 2; r++) {
        ranks_let_in(first, r);
    }
    for (uint32_t r = 0; r < 2; r++) {
        if (!comes(second, r, &second->rank[r].status->retreated)) {
            return false;
        }
        ranks_launch_again(second, r);
    }
    if (!all_ready(second)) {
        return false;
    }
    for (uint32_t r = 0; r < 2; r++) {
        ranks_let_in(second, r);
    }
    return true;
}

static void give_up(void)
{
    for (int i = 0; i < PAIRS; i++) {
        for (int r = 0; r < 2; r++) {
            gpucoll_status_abort(pairs[i].rank[r].status, 1);
        }
    }
}

void test_gates(struct gpus *gpus)
{
    const struct call call = {.kernel = GPUCOLL_KERNEL_TWOSHOT,
                              .functor = GPUCOLL_FN_sum_f32,
                              .ctas = ctas_of_a_rank(gpus),
                              .threads = GPUCOLL_MAX_THREADS,
                              .bytes = 1 << 18,
                              .data_bytes = DATA_BYTES,
                              .stages = GPUCOLL_STAGE_ALL,
                              .round_end = UINT64_MAX,
                              .gate = true};
    for (int i = 0; i < PAIRS; i++) {
        ranks_open(&pairs[i], gpus, 2, DATA_BYTES, DATA_BYTES);
        ranks_begin(&pairs[i]);
    }
    for (uint32_t r = 0; r < 2; r++) { /* rank 0 begins with the first call, rank 1 with the second */
        ranks_launch(&pairs[r], r, &call);
    }
    for (uint32_t r = 0; r < 2; r++) {
        ranks_launch(&pairs[1 - r], r, &call);
    }
    const bool untied = untie();
    if (untied) {
        ranks_wait_all(&pairs[0], name);
        ranks_wait_all(&pairs[1], name);
    } else {
        give_up();
    }
    gpus_report(gpus, untied, "%s", name);
    for (int i = 0; i < PAIRS; i++) {
        ranks_close(&pairs[i]);
    }
}
