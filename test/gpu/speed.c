/*
 * What the kernels alone can do, without MPI and without the engine's agreement: a thread for each GPU launches and polls, as a rank
 * does. Sweeps CTAs, threads and scratch for each size, so that the selector's shapes can be chosen from measurements.
 *
 *   kernels_test --speed [--ranks N] [--max BYTES] [--only KERNEL] [--best]
 *
 * Of more ranks than GPUs, several share one.
 *
 * One line of JSON for each shape (--best: for the fastest shape of each kernel and size): median over the calls of the slowest
 * rank's time from the launch to the flag in host memory, all ranks starting together; busbw as in bench/README.md. Of an
 * exchange `bytes` are those from each rank to each: move_ll gathers to all, reduce_ll reduces and scatters; but reduce_bulk is an all-reduce. Of reduce_blocks they are
 * those of a block, and busbw is the rate at which copies would have to bring blocks so that the kernel keeps up.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"
#include "kernels/functors.h"
#include "test/gpu/ranks.h"
#include "test/gpu/tests.h"

enum { MOST_CALLS = 300 };

struct sweep {
    struct ranks ranks;
    struct call call;
    struct gpucoll_kernel_runs runs[MOST_RANKS];
    unsigned calls; /* warm-up included */
    unsigned warmup;
    _Atomic uint64_t arrived; /* at barriers, counted over all of them */
    uint64_t ns[MOST_RANKS][MOST_CALLS];
};

struct options {
    uint32_t ranks; /* 0: 2 and all */
    uint64_t most;
    const char *only;
    bool best;
};

struct worker {
    struct sweep *sweep;
    uint32_t rank;
    pthread_t thread;
};

static void barrier(struct sweep *sweep, uint64_t *passed)
{
    *passed += sweep->ranks.size;
    __atomic_fetch_add(&sweep->arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&sweep->arrived, __ATOMIC_ACQUIRE) < *passed) {
    }
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct sweep *sweep = worker->sweep;
    struct ranks *ranks = &sweep->ranks;
    uint64_t passed = 0;
    gpus_use(ranks->gpus, ranks->rank[worker->rank].gpu);
    for (unsigned i = 0; i < sweep->calls; i++) {
        barrier(sweep, &passed);
        if (worker->rank == 0) {
            ranks_begin(ranks);
        }
        barrier(sweep, &passed);
        uint64_t start = gpucoll_now_ns();
        ranks_launch(ranks, worker->rank, &sweep->call);
        ranks_wait(ranks, worker->rank, "speed");
        sweep->ns[worker->rank][i] = gpucoll_now_ns() - start;
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Median and 99th percentile of the slowest rank, in microseconds. */
static void run(struct sweep *sweep, double *median, double *p99)
{
    struct worker workers[MOST_RANKS];
    sweep->arrived = 0;
    for (uint32_t r = 0; r < sweep->ranks.size; r++) {
        workers[r] = (struct worker){.sweep = sweep, .rank = r};
        if (pthread_create(&workers[r].thread, NULL, work, &workers[r]) != 0) {
            printf("FAIL speed: no thread\n");
            exit(1);
        }
    }
    for (uint32_t r = 0; r < sweep->ranks.size; r++) {
        pthread_join(workers[r].thread, NULL);
    }
    uint64_t slowest[MOST_CALLS];
    unsigned count = 0;
    for (unsigned i = sweep->warmup; i < sweep->calls; i++, count++) {
        slowest[count] = 0;
        for (uint32_t r = 0; r < sweep->ranks.size; r++) {
            slowest[count] = sweep->ns[r][i] > slowest[count] ? sweep->ns[r][i] : slowest[count];
        }
    }
    qsort(slowest, count, sizeof(slowest[0]), by_value);
    *median = (double)slowest[count / 2] / 1e3;
    *p99 = (double)slowest[count * 99 / 100] / 1e3;
}

static void print(const struct sweep *sweep, double median, double p99, bool best)
{
    const struct call *call = &sweep->call;
    uint32_t n = sweep->ranks.size;
    const bool bulk = call->kernel == GPUCOLL_KERNEL_REDUCE_BULK;
    bool each =
        (gpucoll_kernel_is_exchange(call->kernel) && !bulk) || call->kernel == GPUCOLL_KERNEL_REDUCE_BLOCKS;
    const uint64_t bytes = bulk ? call->bytes * n : call->bytes; /* of which each rank reduces a slice */
    double leaves = each ? n - 1 : 2.0 * (n - 1) / n;
    double busbw = (double)bytes / median / 1e3 * leaves;
    printf("{\"kernel\": \"%s\", \"ranks\": %u, \"bytes\": %llu, \"ctas\": %u, \"threads\": %u, "
           "\"data_bytes\": %llu, "
           "\"us\": %.2f, \"p99_us\": %.2f, \"busbw\": %.2f%s%s}\n",
           kernel_names[call->kernel], n, (unsigned long long)bytes, call->ctas, call->threads,
           (unsigned long long)call->data_bytes, median, p99, busbw,
           call->linger_ns ? ", \"linger\": true" : "", best ? ", \"best\": true" : "");
}

static void set_runs(struct sweep *sweep, enum gpucoll_kernel kernel, uint64_t bytes)
{
    const bool reduces = gpucoll_kernel_reduces_runs(kernel);
    for (uint32_t r = 0; r < sweep->ranks.size; r++) {
        const struct rank *rank = &sweep->ranks.rank[r];
        for (uint32_t p = 0; p < sweep->ranks.size; p++) {
            sweep->runs[r].run[p] = (struct gpucoll_kernel_run){
                rank->send + (reduces ? p * bytes : 0), rank->recv + (reduces ? 0 : p * bytes), bytes, bytes};
        }
    }
}

/* The slices of an all-reduce. */
static void set_slices(struct sweep *sweep, uint64_t slice)
{
    for (uint32_t r = 0; r < sweep->ranks.size; r++) {
        for (uint32_t p = 0; p < sweep->ranks.size; p++) {
            const struct rank *peer = &sweep->ranks.rank[p];
            sweep->runs[r].run[p] =
                (struct gpucoll_kernel_run){peer->send + r * slice, peer->recv + r * slice, slice, slice};
        }
    }
}

/* Is the shape worth a look, and are the CTAs of all ranks on a GPU there at once? Of reduce_bulk, the number of threads is given. */
static bool is_sensible(const struct ranks *ranks, enum gpucoll_kernel kernel, uint64_t bytes, unsigned ctas,
                        unsigned threads)
{
    const unsigned on_one = (ranks->size + (unsigned)ranks->gpus->count - 1) / (unsigned)ranks->gpus->count;
    if (on_one > 1 && ctas * on_one > ranks->gpus->accel->ops->device_resident(ranks->rank[0].device)) {
        return false;
    }
    if (kernel == GPUCOLL_KERNEL_REDUCE_BULK) {
        return threads == 512 && ctas <= 32;
    }
    const uint64_t covered = (uint64_t)ctas * threads * GPUCOLL_PACK_BYTES;
    return (ctas == 1 || covered <= 2 * bytes) && (bytes <= 1 << 20 || (threads == 512 && ctas >= 8));
}

static void sweep_size(struct sweep *sweep, const struct options *options, enum gpucoll_kernel kernel,
                       uint64_t bytes)
{
    static const unsigned ctas[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128};
    static const unsigned threads[] = {128, 256, 512};
    static const uint64_t scratch[] = {4u << 20, 16u << 20, 64u << 20};
    unsigned scratches = kernel == GPUCOLL_KERNEL_TWOSHOT && bytes > 1 << 20 ? 3 : 1;
    double fastest = 0;
    struct call best = {0};
    double best_p99 = 0;
    sweep->warmup = bytes <= 1 << 20 ? 20 : 3;
    sweep->calls = sweep->warmup + (bytes <= 1 << 20 ? 100 : bytes <= 64 << 20 ? 20 : 5);
    /* The first shapes of those that can are crews that linger. */
    const bool bulk = kernel == GPUCOLL_KERNEL_REDUCE_BULK;
    const uint64_t slice = bytes / sweep->ranks.size / GPUCOLL_PACK_BYTES * GPUCOLL_PACK_BYTES;
    bool lingers = kernel != GPUCOLL_KERNEL_TWOSHOT && kernel != GPUCOLL_KERNEL_REDUCE_BLOCKS && !bulk;
    if (bulk) {
        set_slices(sweep, slice);
    } else {
        set_runs(sweep, kernel, bytes);
    }
    unsigned shapes = sizeof(ctas) / sizeof(ctas[0]) * 3 * scratches;
    const unsigned crews = 6;
    for (unsigned shape = lingers ? 0 : crews; shape < shapes + crews; shape++) {
        bool crew = shape < crews;
        unsigned i = crew ? 0 : shape - crews;
        unsigned c = crew ? 8u << shape / 2 : ctas[i / 3 / scratches];
        unsigned t = crew ? 256u << shape % 2 : threads[i / scratches % 3];
        if (!crew && !is_sensible(&sweep->ranks, kernel, bytes, c, t)) {
            continue;
        }
        sweep->call = (struct call){.kernel = kernel,
                                    .functor = GPUCOLL_FN_sum_f32,
                                    .ctas = c,
                                    .threads = t,
                                    .bytes = bulk ? slice : bytes,
                                    .data_bytes = scratch[scratches == 1 ? 1 : i % scratches],
                                    .stages = GPUCOLL_STAGE_ALL,
                                    .round_end = UINT64_MAX,
                                    .runs = gpucoll_kernel_is_exchange(kernel) ? sweep->runs : NULL,
                                    .linger_ns = crew ? 100000 : 0};
        double median;
        double p99;
        run(sweep, &median, &p99);
        if (!options->best || crew) {
            print(sweep, median, p99, false);
        }
        if (fastest == 0 || median < fastest) {
            fastest = median;
            best = sweep->call;
            best_p99 = p99;
        }
    }
    sweep->call = best;
    print(sweep, fastest, best_p99, true);
}

enum { SCRATCH_BYTES = 64 << 20 };

/* Blocks of reduce_blocks lie in the rank's own scratch. */
static void set_blocks(struct sweep *sweep, uint64_t bytes)
{
    for (uint32_t r = 0; r < sweep->ranks.size; r++) {
        struct rank *rank = &sweep->ranks.rank[r];
        for (uint32_t p = 0; p < sweep->ranks.size; p++) {
            rank->lane[p] = (char *)rank->scratch + p * bytes;
        }
    }
}

static void sweep_blocks(struct sweep *sweep, const struct options *options, uint64_t bytes)
{
    void *lanes[MOST_RANKS][MOST_RANKS];
    for (uint32_t r = 0; r < sweep->ranks.size; r++) {
        memcpy(lanes[r], sweep->ranks.rank[r].lane, sizeof(lanes[r]));
    }
    set_blocks(sweep, bytes);
    sweep_size(sweep, options, GPUCOLL_KERNEL_REDUCE_BLOCKS, bytes);
    for (uint32_t r = 0; r < sweep->ranks.size; r++) {
        memcpy(sweep->ranks.rank[r].lane, lanes[r], sizeof(lanes[r]));
    }
}

static bool fits(const struct options *options, enum gpucoll_kernel kernel, uint32_t n, uint64_t bytes)
{
    if (kernel == GPUCOLL_KERNEL_REDUCE_BULK) {
        return bytes <= options->most && bytes >= 256 << 10;
    }
    if (gpucoll_kernel_is_exchange(kernel)) {
        return bytes * n <= options->most &&
               (kernel_by_ll128(kernel) ? gpucoll_ll128_lines(bytes, 1) <= gpucoll_ll128_run_capacity(n)
                                        : bytes <= gpucoll_ll_capacity(n));
    }
    if (kernel == GPUCOLL_KERNEL_REDUCE_BLOCKS) { /* chunks, as long as they may be */
        return bytes <= options->most && bytes * n <= SCRATCH_BYTES && bytes >= 256 << 10;
    }
    return bytes <= options->most && (kernel != GPUCOLL_KERNEL_ONESHOT || bytes <= gpucoll_ll_capacity(n)) &&
           (kernel != GPUCOLL_KERNEL_SWAP_LL128 || n == 2) &&
           (kernel != GPUCOLL_KERNEL_TWOSHOT_LL128 ||
            gpucoll_ll128_lines(bytes, n) <= gpucoll_ll128_capacity(n)) &&
           (kernel != GPUCOLL_KERNEL_TWOSHOT || bytes >= 32 << 10);
}

static void sweep_ranks(struct gpus *gpus, const struct options *options, uint32_t n)
{
    static const enum gpucoll_kernel kernels[] = {GPUCOLL_KERNEL_ONESHOT,       GPUCOLL_KERNEL_SWAP_LL128,
                                                  GPUCOLL_KERNEL_TWOSHOT_LL128, GPUCOLL_KERNEL_TWOSHOT,
                                                  GPUCOLL_KERNEL_MOVE_LL,       GPUCOLL_KERNEL_REDUCE_LL,
                                                  GPUCOLL_KERNEL_MOVE_LL128,    GPUCOLL_KERNEL_REDUCE_LL128,
                                                  GPUCOLL_KERNEL_REDUCE_BLOCKS, GPUCOLL_KERNEL_REDUCE_BULK};
    static const uint64_t sizes[] = {8,         1 << 10,   4 << 10,   16 << 10,   32 << 10,   64 << 10,
                                     128 << 10, 256 << 10, 512 << 10, 1 << 20,    2 << 20,    4 << 20,
                                     8 << 20,   16 << 20,  64 << 20,  256u << 20, 1024u << 20};
    static struct sweep sweep; /* too large for a stack */
    memset(&sweep, 0, sizeof(sweep));
    ranks_open(&sweep.ranks, gpus, n, SCRATCH_BYTES, options->most);
    const size_t all = sizeof(kernels) / sizeof(kernels[0]);
    const size_t kinds = gpus->accel->ops->device_bulk(sweep.ranks.rank[0].device) ? all : all - 1;
    for (size_t k = 0; k < kinds; k++) {
        const enum gpucoll_kernel kernel = kernels[k];
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            if (fits(options, kernel, n, sizes[i]) &&
                (!*options->only || strcmp(options->only, kernel_names[kernel]) == 0)) {
                if (kernel == GPUCOLL_KERNEL_REDUCE_BLOCKS) {
                    sweep_blocks(&sweep, options, sizes[i]); /* after all that need flags in the scratch */
                } else {
                    sweep_size(&sweep, options, kernel, sizes[i]);
                }
            }
        }
    }
    ranks_close(&sweep.ranks);
}

int measure_speed(struct gpus *gpus, int argc, char **argv)
{
    struct options options = {.most = (uint64_t)1 << 30, .only = ""};
    for (int i = 0; i < argc; i++) {
        bool value = i + 1 < argc;
        if (strcmp(argv[i], "--best") == 0) {
            options.best = true;
        } else if (strcmp(argv[i], "--ranks") == 0 && value) {
            options.ranks = (uint32_t)strtoul(argv[++i], NULL, 10);
            options.ranks = options.ranks < MOST_RANKS ? options.ranks : MOST_RANKS;
        } else if (strcmp(argv[i], "--max") == 0 && value) {
            options.most = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--only") == 0 && value) {
            options.only = argv[++i];
        } else {
            fprintf(stderr,
                    "usage: kernels_test --speed [--ranks N] [--max BYTES] [--only KERNEL] [--best]\n");
            return 2;
        }
    }
    options.most = options.most < 1 << 20 ? 1 << 20 : options.most;
    uint32_t all = gpus->count < MOST_RANKS ? (uint32_t)gpus->count : MOST_RANKS;
    if (options.ranks == 0 && all > 2) {
        sweep_ranks(gpus, &options, all);
    }
    sweep_ranks(gpus, &options, options.ranks > 0 ? options.ranks : all < 2 ? 1 : 2);
    gpus_close(gpus);
    return 0;
}
