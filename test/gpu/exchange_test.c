/*
 * The exchange kernels: runs of random lengths between all pairs of ranks, some of them empty, moved or
 * reduced in rank order; every byte of every buffer is compared with what the host makes of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"
#include "kernels/functors.h"
#include "test/gpu/exchange_runs.h"
#include "test/gpu/tests.h"

static void run_staged(struct exchange *exchange, const struct call *whole)
{
    struct call call = *whole;
    uint64_t block = gpucoll_exchange_block_bytes(call.data_bytes, exchange->ranks.size, call.ctas);
    uint64_t rounds = call.bytes / call.ctas / block + 2; /* more than there are does no harm */
    for (call.round_begin = 0; call.round_begin < rounds; call.round_begin += GPUCOLL_SLOTS) {
        call.round_end = call.round_begin + GPUCOLL_SLOTS;
        call.stages = GPUCOLL_STAGE_SEND;
        exchange_run(exchange, &call);
        call.stages = GPUCOLL_STAGE_REDUCE;
        exchange_run(exchange, &call);
    }
}

static bool is_ll(enum gpucoll_kernel kernel)
{
    return kernel == GPUCOLL_KERNEL_MOVE_LL || kernel == GPUCOLL_KERNEL_REDUCE_LL;
}

static bool run_case(struct exchange *exchange, enum gpucoll_kernel kernel, int functor, bool staged,
                     size_t most)
{
    static const uint32_t ctas[] = {1, 2, 3, 7, 16, 64};
    static const uint32_t threads[] = {32, 64, 256, 512};
    static const uint32_t lingers[] = {0, 50000, 20000000};
    const uint32_t gpus = (uint32_t)exchange->ranks.gpus->count;
    const uint32_t resident =
        96 / ((exchange->ranks.size + gpus - 1) / gpus); /* CTAs that surely run side by side */
    const bool lines = is_ll(kernel) || kernel_by_ll128(kernel);
    const bool reduces = gpucoll_kernel_reduces_runs(kernel);
    const size_t capacity = is_ll(kernel) ? gpucoll_ll_capacity(exchange->ranks.size) : most;
    most = most < capacity ? most : capacity;
    exchange->in_place = kernel != GPUCOLL_KERNEL_STORE && exchange_below(exchange, 3) == 0;
    if (reduces) {
        exchange_plan_reduce(exchange, most, gpucoll_host_functor_size(functor));
    } else {
        exchange_plan_move(exchange, most);
    }
    struct call call = {
        .kernel = kernel,
        .functor = functor,
        .bytes = exchange_longest_run(exchange),
        .data_bytes = EXCHANGE_DATA_BYTES >> exchange_below(exchange, 3),
        .ctas = ctas[exchange_below(exchange, 6)],
        .threads = threads[exchange_below(exchange, 4)],
        .stages = GPUCOLL_STAGE_ALL,
        .round_end = UINT64_MAX,
        .runs = exchange->runs,
        /* Leaves before the next call, or does not. */
        .linger_ns = lines || kernel == GPUCOLL_KERNEL_STORE ? lingers[exchange_below(exchange, 3)] : 0,
    };
    call.ctas = call.ctas < resident ? call.ctas : resident;
    call.gate =
        !staged && kernel != GPUCOLL_KERNEL_STORE && call.linger_ns == 0 && exchange_below(exchange, 2) == 0;
    if (kernel == GPUCOLL_KERNEL_STORE) {
        call.runs = exchange->stores;
        exchange_plan_stores(exchange);
    }
    exchange_fill(exchange, functor);
    ranks_begin(&exchange->ranks);
    if (staged) {
        run_staged(exchange, &call);
    } else {
        exchange_run(exchange, &call);
    }
    exchange_expect(exchange, functor, reduces);
    return exchange_verify(exchange, &call);
}

static void test_kernel(struct exchange *exchange, const struct test_options *options,
                        enum gpucoll_kernel kernel, int functor, bool staged)
{
    struct gpus *gpus = exchange->ranks.gpus;
    const bool quick = options->quick;
    bool reduces = gpucoll_kernel_reduces_runs(kernel);
    if (!runs_kernel(options, kernel)) {
        return;
    }
    snprintf(exchange->name, sizeof(exchange->name), "%s %s on %u ranks, %s", kernel_names[kernel],
             reduces ? gpucoll_functor_name(functor) : "bytes", exchange->ranks.size,
             staged ? "staged" : "together");
    bool passed = true;
    const int cases = quick ? 2 : reduces ? 3 : 40;
    for (int i = 0; i < cases && passed; i++) {
        passed = run_case(exchange, kernel, functor, staged,
                          quick        ? 20000
                          : i % 3 == 0 ? EXCHANGE_MOST_RUN - 64
                                       : 30000);
    }
    gpus_report(gpus, passed, "%s", exchange->name);
}

/* ---- broadcasts in bulk ---- */

/* Kernels of the ranks have CTAs of their own number: they wait for nobody. */
static bool run_spread(struct exchange *exchange, size_t most)
{
    static const uint32_t lingers[] = {0, 50000, 20000000};
    static const uint32_t threads[] = {32, 64, 256, 512};
    struct ranks *ranks = &exchange->ranks;
    struct call call = {.kernel = GPUCOLL_KERNEL_SPREAD,
                        .functor = GPUCOLL_FN_sum_u8,
                        .threads = threads[exchange_below(exchange, 4)],
                        .stages = GPUCOLL_STAGE_ALL,
                        .runs = exchange->stores};
    exchange_plan_spread(exchange, most, &call);
    ranks_begin(ranks);
    for (uint32_t r = 0; r < ranks->size; r++) {
        call.ctas = 1 + exchange_below(exchange, 20);
        call.linger_ns = lingers[exchange_below(exchange, 3)];
        ranks_launch(ranks, r, &call);
    }
    ranks_wait_all(ranks, exchange->name);
    return exchange_verify(exchange, &call);
}

static void test_spread(struct exchange *exchange, const struct test_options *options)
{
    const uint32_t size = exchange->ranks.size;
    if (!runs_kernel(options, GPUCOLL_KERNEL_SPREAD) || size < 2) {
        return;
    }
    snprintf(exchange->name, sizeof(exchange->name), "%s bytes on %u ranks",
             kernel_names[GPUCOLL_KERNEL_SPREAD], size);
    bool passed = true;
    for (int i = 0; i < (options->quick ? 4 : 80) && passed; i++) {
        passed = run_spread(exchange, i % 3 == 0 ? 30000 : exchange_buffer_bytes() - 4 * EXCHANGE_GAP);
    }
    gpus_report(exchange->ranks.gpus, passed, "%s", exchange->name);
}

/* ---- calls in a row ---- */

struct kind {
    enum gpucoll_kernel kernel;
    int functor;
};
static const struct kind kinds[] = {
    {GPUCOLL_KERNEL_MOVE_LL, GPUCOLL_FN_sum_u8},
    {GPUCOLL_KERNEL_REDUCE_LL, GPUCOLL_FN_sum_u32},
    {GPUCOLL_KERNEL_MOVE_LL, GPUCOLL_FN_sum_u8},
    {GPUCOLL_KERNEL_ONESHOT, GPUCOLL_FN_sum_u32},
    {GPUCOLL_KERNEL_REDUCE_LL, GPUCOLL_FN_max_i16},
    {GPUCOLL_KERNEL_MOVE, GPUCOLL_FN_sum_u8},
    {GPUCOLL_KERNEL_MOVE_LL128, GPUCOLL_FN_sum_u8},
    {GPUCOLL_KERNEL_REDUCE_LL128, GPUCOLL_FN_sum_u32},
    {GPUCOLL_KERNEL_MOVE_LL, GPUCOLL_FN_sum_u8},
    {GPUCOLL_KERNEL_REDUCE_LL128, GPUCOLL_FN_max_i16},
    /* One crew with those of the maximum: another variant of it, and another rare reduction. */
    {GPUCOLL_KERNEL_REDUCE_LL, GPUCOLL_FN_min_u16},
    {GPUCOLL_KERNEL_REDUCE_LL128, GPUCOLL_FN_band_u64},
    {GPUCOLL_KERNEL_REDUCE_LL, GPUCOLL_FN_max_i32},
    {GPUCOLL_KERNEL_REDUCE_LL, GPUCOLL_FN_min_i32},
};

/* One of many calls, into a place of its own, which nobody looks at before the last. */
static void call_in_row(struct exchange *exchange, struct call *call, const struct kind *kind, size_t most)
{
    const bool lines = kind->kernel != GPUCOLL_KERNEL_MOVE;
    const bool reduces = gpucoll_kernel_reduces_runs(kind->kernel) || kind->kernel == GPUCOLL_KERNEL_ONESHOT;
    const size_t unit = gpucoll_host_functor_size(kind->functor);
    static const uint32_t lingers[] = {0, 3000, 10000, 30000, 50000000, 50000000, 50000000, 50000000};
    call->kernel = kind->kernel;
    call->functor = kind->functor;
    call->runs = exchange->runs;
    call->linger_ns = lines ? lingers[exchange_below(exchange, 8)] : 0;
    call->ctas = 1 + exchange_below(exchange, GPUCOLL_CREW_CTAS);
    if (kind->kernel == GPUCOLL_KERNEL_ONESHOT) {
        exchange_plan_all(exchange, most, unit, call);
    } else if (reduces) {
        exchange_plan_reduce(exchange, most, unit);
        call->bytes = exchange_longest_run(exchange);
    } else {
        exchange_plan_move(exchange, most);
        call->bytes = exchange_longest_run(exchange);
    }
    ranks_begin(&exchange->ranks);
    exchange_run(exchange, call);
    exchange_expect(exchange, kind->functor, reduces);
}

/* Lingering calls of several kernels one after the other, without a pause, or such that the kernel is about to leave when it is
 * rung for. */
static void test_row(struct exchange *exchange, uint32_t threads, bool quick)
{
    const struct rank *first = &exchange->ranks.rank[0];
    const size_t room = (exchange->ranks.size + 1) * 2 * EXCHANGE_GAP;
    struct call call = {.threads = threads,
                        .data_bytes = EXCHANGE_DATA_BYTES,
                        .stages = GPUCOLL_STAGE_ALL,
                        .round_end = UINT64_MAX};
    const struct kind *kind = &kinds[0];
    bool stays = false; /* the kernel of the call before waits for long */
    unsigned alike = 0; /* calls for which such a kernel was waiting */
    unsigned heard = 0; /* of these, those that it took */
    snprintf(exchange->name, sizeof(exchange->name), "calls in a row on %u ranks, %u threads",
             exchange->ranks.size, threads);
    exchange->in_place = false;
    exchange->begin = 0;
    exchange_fill_all(exchange);
    for (size_t most = 200;; most = exchange_below(exchange, quick ? 4 : 8) == 0 ? 5000 : 200) {
        const size_t taken = (exchange->ranks.size + 1) * most + room;
        if (exchange->begin + taken > exchange_buffer_bytes()) {
            break;
        }
        const struct kind *before = kind;
        const bool stayed = stays;
        kind = exchange_below(exchange, 3) == 0
                   ? &kinds[exchange_below(exchange, sizeof(kinds) / sizeof(kinds[0]))]
                   : kind;
        call_in_row(exchange, &call, kind, most);
        const bool waited_for = stayed && kind == before && call.linger_ns > 0;
        const bool took = waited_for && first->status->left != first->done - 1;
        stays = took || call.linger_ns > 1000000; /* as long as its launch said */
        alike += waited_for;
        heard += took;
        exchange->begin += taken;
        if (exchange_below(exchange, 2) == 0) {
            exchange_spin(exchange_below(exchange, 40000));
        }
    }
    exchange->begin = 0;
    /* Not all: the host may have been held up for longer than the kernel waits. */
    const bool passed = exchange_verify(exchange, &call) && 2 * heard >= alike;
    gpus_report(exchange->ranks.gpus, passed, "%s (%u of %u calls given to a kernel that waited)",
                exchange->name, heard, alike);
}

/* Kernels that wait once: for any number of calls that say the same, and for one that does not; the next has a launch of its own, and lingers. */
static void test_wait_once(struct exchange *exchange)
{
    static const struct {
        bool once, heard;
    } calls[] = {{true, false}, {true, true}, {true, true}, {false, true}, {false, false}, {false, true}};
    struct ranks *ranks = &exchange->ranks;
    const struct rank *first = &ranks->rank[0];
    struct call call = exchange_plan_lingering(exchange);
    bool passed = true;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        call.waits_once = calls[i].once;
        ranks_begin(ranks);
        exchange_run(exchange, &call);
        /* One that has taken the call has not left since the one before. */
        passed &= i == 0 || (first->status->left != first->done - 1) == calls[i].heard;
    }
    gpus_report(ranks->gpus, passed, "a kernel waits for one call on %u ranks", ranks->size);
}

/* Longer than the buffers of four GPUs take to be filled and looked through between two calls, 4.4 ms. */
static const uint32_t linger_ns = 20000000;

/* The crew leaves: 20.0 ms after its last call on H200, and up to 51 under racecheck, which slows the words by which its CTAs agree on
 * that: where times do not count (--quick) it has a second. */
static bool leaves_in_time(const struct rank *first, uint64_t ended, bool quick, uint32_t calls_before)
{
    const uint64_t longest_ns = quick ? 50 * (uint64_t)linger_ns : 2 * linger_ns;
    uint64_t waited = 0;
    while (__atomic_load_n(&first->status->left, __ATOMIC_ACQUIRE) != first->done && waited <= longest_ns) {
        waited = gpucoll_now_ns() - ended;
    }
    if (waited > longest_ns) {
        printf("# %u calls later: %u us after call %x the crew says that it left after %x\n", calls_before,
               (unsigned)(waited / 1000), first->done, first->status->left);
    }
    return waited <= longest_ns;
}

/* Two calls in a row and the time in which their crew leaves; says what went wrong. */
static bool run_far_pair(struct exchange *exchange, const struct call *call, bool quick,
                         uint32_t calls_before)
{
    struct ranks *ranks = &exchange->ranks;
    const struct rank *first = &ranks->rank[0];
    uint64_t ended = 0;
    bool passed = true;
    for (int turn = 0; turn < 2; turn++) {
        exchange_fill(exchange, GPUCOLL_FN_sum_u8);
        ranks_begin(ranks);
        const uint64_t pause = gpucoll_now_ns() - ended;
        exchange_run(exchange, call);
        ended = gpucoll_now_ns();
        const bool heard = first->status->left != first->done - 1;
        if (turn > 0 && !heard) {
            printf("# %u calls later, %u us after the first: the second had to be launched\n", calls_before,
                   (unsigned)(pause / 1000));
            passed = false;
        }
        exchange_expect(exchange, GPUCOLL_FN_sum_u8, false);
        if (!exchange_verify(exchange, call)) {
            printf("# %u calls later: call %d has a wrong result\n", calls_before, turn);
            passed = false;
        }
    }
    return leaves_in_time(first, ended, quick, calls_before) && passed;
}

/* What the CTAs of a crew that left by itself have said to each other is no news to a crew that comes some 2^31 calls later. */
static void test_far_numbers(struct exchange *exchange, bool quick)
{
    static const uint32_t calls_between[] = {0, 1u << 30, (1u << 31) + 2, 3u << 30, (1u << 31) - 2};
    struct ranks *ranks = &exchange->ranks;
    struct call call = exchange_plan_lingering(exchange);
    bool passed = true;
    do {
        exchange_plan_move(exchange, 4000);
        call.bytes = exchange_longest_run(exchange);
    } while (call.bytes < 2000);
    call.threads = 32; /* so that the first CTA alone does not suffice */
    call.ctas = 4;
    call.linger_ns = linger_ns;
    for (size_t i = 0; i < sizeof(calls_between) / sizeof(calls_between[0]); i++) {
        for (uint32_t r = 0; r < ranks->size; r++) {
            ranks->rank[r].done += calls_between[i];
        }
        passed &= run_far_pair(exchange, &call, quick, calls_between[i]);
    }
    gpus_report(ranks->gpus, passed, "crews far apart on %u ranks", ranks->size);
}

/* A kernel that was rung for by one rank only gives up when it is told so. The stream is of no use afterwards. */
static void test_stop(struct exchange *exchange)
{
    struct ranks *ranks = &exchange->ranks;
    struct gpucoll_accel *accel = ranks->gpus->accel;
    struct call call = exchange_plan_lingering(exchange);
    snprintf(exchange->name, sizeof(exchange->name), "a lingering exchange is stopped on %u ranks",
             ranks->size);
    ranks_begin(ranks);
    exchange_run(exchange, &call);
    ranks_begin(ranks);
    ranks_launch(ranks, 0, &call);
    exchange_spin(1000000);
    bool passed = !ranks_done(ranks, 0);
    const uint64_t begin = gpucoll_now_ns();
    accel->ops->stream_stop(ranks->rank[0].stream);
    passed &= accel->ops->synchronize(accel, ranks->rank[0].recv) == GPUCOLL_OK && !ranks_done(ranks, 0);
    passed &= gpucoll_now_ns() - begin < 1000000000u;
    gpus_report(ranks->gpus, passed, "%s", exchange->name);
}

static void test_size(struct gpus *gpus, uint32_t size, const struct test_options *options)
{
    struct exchange exchange = {.random = options->seed + 100 + size};
    const bool quick = options->quick;
    const bool all = options->only == GPUCOLL_KERNEL_COUNT;
    bool alone = size <= (uint32_t)gpus->count ||
                 !quick; /* no two ranks on one GPU wait for each other where that may hang */
    ranks_open(&exchange.ranks, gpus, size, EXCHANGE_DATA_BYTES, exchange_buffer_bytes());
    exchange.got = malloc(exchange_buffer_bytes());
    for (uint32_t r = 0; r < size; r++) {
        exchange.sent[r] = malloc(exchange_buffer_bytes());
        exchange.expected[r] = malloc(exchange_buffer_bytes());
    }
    if (alone) {
        test_kernel(&exchange, options, GPUCOLL_KERNEL_MOVE_LL, GPUCOLL_FN_sum_u8, false);
        test_kernel(&exchange, options, GPUCOLL_KERNEL_MOVE_LL128, GPUCOLL_FN_sum_u8, false);
        test_kernel(&exchange, options, GPUCOLL_KERNEL_MOVE, GPUCOLL_FN_sum_u8, false);
    }
    test_kernel(&exchange, options, GPUCOLL_KERNEL_MOVE, GPUCOLL_FN_sum_u8, true);
    test_kernel(&exchange, options, GPUCOLL_KERNEL_STORE, GPUCOLL_FN_sum_u8, false);
    test_spread(&exchange, options);
    for (int functor = 0; functor < GPUCOLL_FUNCTOR_COUNT; functor += quick ? 16 : 1) {
        if (alone) {
            test_kernel(&exchange, options, GPUCOLL_KERNEL_REDUCE_LL, functor, false);
            test_kernel(&exchange, options, GPUCOLL_KERNEL_REDUCE_LL128, functor, false);
            test_kernel(&exchange, options, GPUCOLL_KERNEL_REDUCE, functor, false);
        }
        test_kernel(&exchange, options, GPUCOLL_KERNEL_REDUCE, functor, true);
    }
    if (all &&
        size <= (uint32_t)gpus->count) { /* crews that wait on one GPU may leave no place for another */
        for (int i = 0; i < (quick ? 1 : 5); i++) {
            test_row(&exchange, 512, quick);
            test_row(&exchange, 32, quick); /* few calls are small for so few threads */
        }
        test_wait_once(&exchange);
        test_far_numbers(&exchange, quick);
        if (size > 1) {
            test_given_up(&exchange);
            test_stop(&exchange);
        }
    }
    for (uint32_t r = 0; r < size; r++) {
        free(exchange.sent[r]);
        free(exchange.expected[r]);
    }
    free(exchange.got);
    ranks_close(&exchange.ranks);
}

void test_exchanges(struct gpus *gpus, const struct test_options *options)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (runs_ranks(options, gpus, sizes[i])) {
            test_size(gpus, sizes[i], options);
        }
    }
}
