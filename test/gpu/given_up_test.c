/*
 * Kernels whose call is given up while they stand behind another one of their stream: when their turn comes, the application's buffers are its own again,
 * or gone, so they touch none.
 */
#include <stdio.h>
#include <string.h>
#include "kernels/functors.h"
#include "test/gpu/exchange_runs.h"

/* A call of rank 0 that waits for the others, which do not make it; what is launched next stands behind it. */
static void hold_back(struct exchange *exchange, const struct call *lingering)
{
    struct call held = *lingering;
    const struct gpucoll_kernel_run own = exchange->runs[0].run[0];
    held.linger_ns = 0;
    exchange->runs[0].run[0] = (struct gpucoll_kernel_run){0}; /* it is copied without waiting */
    ranks_begin(&exchange->ranks);
    ranks_launch(&exchange->ranks, 0, &held);
    exchange->runs[0].run[0] = own;
}

/* Rank 0 gives up what it has launched, which has not begun or is to write nothing more; true if it ends, without saying that it is done. */
static bool give_up(struct exchange *exchange)
{
    struct ranks *ranks = &exchange->ranks;
    struct gpucoll_accel *accel = ranks->gpus->accel;
    exchange_spin(1000000);
    bool passed = !ranks_done(ranks, 0);
    gpucoll_status_abort(ranks->rank[0].status, 1);
    passed &= accel->ops->synchronize(accel, ranks->rank[0].recv) == GPUCOLL_OK && !ranks_done(ranks, 0);
    gpucoll_status_abort(ranks->rank[0].status, 0);
    return passed;
}

/* Of those that wait for nobody. */
static bool run_given_up(struct exchange *exchange, enum gpucoll_kernel kernel, uint32_t linger_ns)
{
    struct call late = exchange_plan_lingering(exchange);
    exchange_plan_stores(exchange);
    exchange_fill(exchange, GPUCOLL_FN_sum_u8);
    hold_back(exchange, &late);
    late.kernel = kernel;
    late.ctas = 4;
    late.threads = 512;
    late.runs = exchange->stores;
    late.linger_ns = linger_ns;
    ranks_launch(&exchange->ranks, 0, &late);
    return give_up(exchange) && exchange_verify(exchange, &late);
}

/* What the others send is there when rank 0 begins: they end well, and it stores nothing. */
static bool run_late_reduce(struct exchange *exchange)
{
    struct ranks *ranks = &exchange->ranks;
    struct call late = exchange_plan_lingering(exchange);
    exchange_fill(exchange, GPUCOLL_FN_sum_u8);
    hold_back(exchange, &late);
    late.kernel = GPUCOLL_KERNEL_REDUCE;
    late.ctas = 4;
    late.linger_ns = 0;
    ranks_begin(ranks);
    for (uint32_t r = 0; r < ranks->size; r++) {
        ranks_launch(ranks, r, &late);
    }
    const bool passed = give_up(exchange);
    for (uint32_t r = 1; r < ranks->size; r++) {
        ranks_wait(ranks, r, exchange->name);
    }
    exchange_expect(exchange, GPUCOLL_FN_sum_u8, true);
    memset(exchange->expected[0], EXCHANGE_POISON, exchange_buffer_bytes());
    return exchange_verify(exchange, &late) && passed;
}

static void report(struct exchange *exchange, enum gpucoll_kernel kernel, bool passed)
{
    struct ranks *ranks = &exchange->ranks;
    gpus_report(ranks->gpus, passed, "%s given up before it begins, on %u ranks", kernel_names[kernel],
                ranks->size);
}

void test_given_up(struct exchange *exchange)
{
    snprintf(exchange->name, sizeof(exchange->name), "kernels given up before they begin, on %u ranks",
             exchange->ranks.size);
    static const enum gpucoll_kernel kernels[] = {GPUCOLL_KERNEL_STORE, GPUCOLL_KERNEL_SPREAD,
                                                  GPUCOLL_KERNEL_REDUCE_BULK};
    struct ranks *ranks = &exchange->ranks;
    struct gpucoll_device *device = ranks->rank[0].device;
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        if (kernels[i] != GPUCOLL_KERNEL_REDUCE_BULK || ranks->gpus->accel->ops->device_bulk(device)) {
            const bool launched = run_given_up(exchange, kernels[i], 0);
            const bool as_crew = run_given_up(exchange, kernels[i], 1000000);
            report(exchange, kernels[i], launched && as_crew);
        }
    }
    report(exchange, GPUCOLL_KERNEL_REDUCE, run_late_reduce(exchange));
}
