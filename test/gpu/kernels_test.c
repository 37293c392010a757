/*
 * Every kernel with every functor, on 1, 2, 3, 4 and 8 ranks, against the reductions of the host in rank
 * order: bit by bit, with guards around the buffers, at any alignment, in place or not, over several rounds
 * and with epochs that wrap around.
 *
 *   kernels_test [--quick] [--seed N] [--repeat N] [--ranks N] [--only KERNEL]
 *     --quick   few functors and small messages, no kernel waits for another one that shares its GPU (compute-sanitizer may run them
 *               one after the other), and crews may take a second to leave
 *     --repeat  so many times, each with the next seed: for what goes wrong seldom
 *     --ranks   on so many ranks only
 *     --only    one kernel, by the names that are printed ("relay" for rings, chains and trees), and nothing beside it
 *   kernels_test --speed [...] see speed.c
 *
 * Prints a line "PASS name" or "FAIL name" for each case and the counts at the end. Exit status: 0, 1, or 77
 * without a GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/algorithms/slices.h"
#include "kernels/functors.h"
#include "test/gpu/elements.h"
#include "test/gpu/ranks.h"
#include "test/gpu/tests.h"

enum { GUARD = 256, MOST_OFFSET = 64 };
static const size_t most_bytes = (size_t)5 << 18; /* several rounds of the data area */
static const size_t data_bytes = (size_t)1 << 20;
static const size_t line_data = GPUCOLL_LINE_PACKS * GPUCOLL_PACK_BYTES;
static const unsigned char poison = 0xA5;

/* How the kernels of a call are launched. */
enum way {
    WAY_TOGETHER, /* all at once: they wait for each other */
    WAY_SERIAL,   /* one-shot, one kernel at a time: first each stores its message and gives up waiting, then
                     each runs again */
    WAY_STAGED,   /* two-shot, stage by stage: nobody waits */
    WAY_BROUGHT,  /* reduce-blocks: copies have brought what the others sent */
    WAY_DIRECT,   /* two-shot, results straight to where all have theirs */
    WAY_BULK      /* each rank reduces a slice from where all have theirs to where all want it */
};
static const char *const way_names[] = {"together", "serial", "staged", "brought", "direct", "bulk"};

struct bench {
    struct ranks ranks;
    struct gpucoll_kernel_runs runs[MOST_RANKS];
    uint64_t random;
    char name[128];
    unsigned char *sent[MOST_RANKS]; /* on the host, with guards */
    unsigned char *got;
    unsigned char *expected;
    const struct test_options *options;
};

static size_t whole_bytes(void)
{
    return most_bytes + 2 * GUARD + MOST_OFFSET;
}

static void open_bench(struct bench *bench, struct gpus *gpus, uint32_t size)
{
    ranks_open(&bench->ranks, gpus, size, data_bytes, whole_bytes());
    for (uint32_t r = 0; r < size; r++) {
        bench->sent[r] = malloc(whole_bytes());
    }
    bench->got = malloc(whole_bytes());
    bench->expected = malloc(whole_bytes());
}

static void close_bench(struct bench *bench)
{
    for (uint32_t r = 0; r < bench->ranks.size; r++) {
        free(bench->sent[r]);
    }
    free(bench->got);
    free(bench->expected);
    ranks_close(&bench->ranks);
}

/* Random messages into the send buffers, poison everywhere else. */
static void fill(struct bench *bench, const struct call *call)
{
    size_t bytes = call->bytes + 2 * GUARD;
    for (uint32_t r = 0; r < bench->ranks.size; r++) {
        struct rank *rank = &bench->ranks.rank[r];
        memset(bench->sent[r], poison, bytes);
        memset(bench->got, poison, bytes);
        fill_elements(call->functor, bench->sent[r] + GUARD, call->bytes, &bench->random);
        char *from = call->in_place ? rank->recv + call->recv_at : rank->send + call->send_at;
        if (!call->in_place) {
            gpus_copy(bench->ranks.gpus, bench->name, rank->recv + call->recv_at - GUARD, bench->got, bytes);
        }
        gpus_copy(bench->ranks.gpus, bench->name, from - GUARD, bench->sent[r], bytes);
    }
}

static bool differ(struct bench *bench, const struct call *call, uint32_t r, const char *what,
                   const unsigned char *wanted)
{
    size_t bytes = call->bytes + 2 * GUARD;
    for (size_t i = 0; i < bytes; i++) {
        if (bench->got[i] != wanted[i]) {
            printf("# %s: rank %u: %s differs at byte %ld of %lu (guards %d): %02x, not %02x; ctas %u "
                   "threads %u send_at %zu "
                   "recv_at %zu in_place %d data_bytes %lu\n",
                   bench->name, r, what, (long)i - GUARD, (unsigned long)call->bytes, GUARD, bench->got[i],
                   wanted[i], call->ctas, call->threads, call->send_at, call->recv_at, call->in_place,
                   (unsigned long)call->data_bytes);
            return true;
        }
    }
    return false;
}

static bool verify(struct bench *bench, const struct call *call)
{
    size_t bytes = call->bytes + 2 * GUARD;
    size_t count = call->bytes / gpucoll_host_functor_size(call->functor);
    memcpy(bench->expected, bench->sent[0], bytes);
    for (uint32_t r = 1; r < bench->ranks.size; r++) {
        gpucoll_host_reduce(call->functor, bench->expected + GUARD, bench->expected + GUARD,
                            bench->sent[r] + GUARD, count);
    }
    for (uint32_t r = 0; r < bench->ranks.size; r++) {
        const struct rank *rank = &bench->ranks.rank[r];
        gpus_copy(bench->ranks.gpus, bench->name, bench->got, rank->recv + call->recv_at - GUARD, bytes);
        if (differ(bench, call, r, "the result", bench->expected)) {
            return false;
        }
        gpus_copy(bench->ranks.gpus, bench->name, bench->got, rank->send + call->send_at - GUARD, bytes);
        if (!call->in_place && differ(bench, call, r, "the send buffer", bench->sent[r])) {
            return false;
        }
    }
    return true;
}

static void run_together(struct bench *bench, const struct call *call)
{
    for (uint32_t r = 0; r < bench->ranks.size; r++) {
        ranks_launch(&bench->ranks, r, call);
    }
    ranks_wait_all(&bench->ranks, bench->name);
}

/* The last rank finds all messages there. The others give up, having stored their own, and touch nothing
 * else. */
static void run_serial(struct bench *bench, const struct call *call)
{
    struct ranks *ranks = &bench->ranks;
    struct gpucoll_accel *accel = ranks->gpus->accel;
    for (uint32_t r = 0; r < ranks->size; r++) {
        struct rank *rank = &ranks->rank[r];
        bool last = r + 1 == ranks->size;
        gpucoll_status_abort(rank->status, !last);
        ranks_launch(ranks, r, call);
        if (last) {
            ranks_wait(ranks, r, bench->name);
        } else if (accel->ops->synchronize(accel, rank->recv) != GPUCOLL_OK) {
            exit(1);
        }
        gpucoll_status_abort(rank->status, 0);
    }
    for (uint32_t r = 0; r < ranks->size; r++) {
        if (!ranks_done(ranks, r)) {
            ranks_launch(ranks, r, call);
        }
        ranks_wait(ranks, r, bench->name);
    }
}

static uint64_t rounds_of(const struct bench *bench, const struct call *call)
{
    uint64_t begin;
    uint64_t end;
    gpucoll_channel_range(call->bytes, call->ctas, 0, &begin, &end);
    uint64_t most = gpucoll_block_bytes(call->data_bytes, bench->ranks.size, call->ctas) /
                    GPUCOLL_PACK_BYTES * bench->ranks.size;
    return end == begin ? 1 : (end - begin + most - 1) / most;
}

static void run_staged(struct bench *bench, const struct call *whole)
{
    struct call call = *whole;
    uint64_t rounds = rounds_of(bench, whole);
    for (uint64_t first = 0; first < rounds; first += GPUCOLL_SLOTS) {
        call.round_begin = first;
        call.round_end = first + GPUCOLL_SLOTS;
        for (uint32_t stage = GPUCOLL_STAGE_SEND; stage <= GPUCOLL_STAGE_COPY; stage <<= 1) {
            call.stages = stage;
            run_together(bench, &call);
        }
    }
}

static uint32_t one_of(struct bench *bench, const uint32_t *values, size_t count)
{
    return values[next_random(&bench->random) % count];
}
#define ONE_OF(bench, ...)                                                                                   \
    one_of(bench, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* Each rank's scratch gets what the others sent, at any places, and holds no flags then that other kernels could use. What the last rank sent may
 * also lie where the result will. */
static void run_brought(struct bench *bench, const struct call *call)
{
    struct ranks *ranks = &bench->ranks;
    const size_t block = (call->bytes + 127) / 128 * 128 + 128;
    const bool aligned = next_random(&bench->random) % 2 == 0;
    const bool in_result = !call->in_place && next_random(&bench->random) % 2 == 0;
    void *lanes[MOST_RANKS][MOST_RANKS];
    for (uint32_t r = 0; r < ranks->size; r++) {
        struct rank *rank = &ranks->rank[r];
        memcpy(lanes[r], rank->lane, sizeof(rank->lane));
        for (uint32_t s = 0; s < ranks->size; s++) {
            rank->lane[s] =
                (char *)rank->scratch + s * block + (aligned ? 0 : ONE_OF(bench, 0, 0, 1, 4, 6, 8, 13));
            if (in_result && s != r && s + 1 == ranks->size) {
                rank->lane[s] = rank->recv + call->recv_at;
            }
            if (s != r) {
                gpus_copy(bench->ranks.gpus, bench->name, rank->lane[s], bench->sent[s] + GUARD, call->bytes);
            }
        }
    }
    run_together(bench, call);
    for (uint32_t r = 0; r < ranks->size; r++) {
        memcpy(ranks->rank[r].lane, lanes[r], sizeof(lanes[r]));
    }
}

static void run_bulk(struct bench *bench, const struct call *call)
{
    struct ranks *ranks = &bench->ranks;
    for (uint32_t r = 0; r < ranks->size; r++) {
        struct call own = *call;
        uint64_t begin;
        own.bytes = gpucoll_slice_at(call->bytes, ranks->size, r, &begin);
        own.runs = bench->runs;
        for (uint32_t p = 0; p < ranks->size; p++) {
            char *recv = ranks->rank[p].recv + call->recv_at;
            const char *send = call->in_place ? recv : ranks->rank[p].send + call->send_at;
            bench->runs[r].run[p] =
                (struct gpucoll_kernel_run){send + begin, recv + begin, own.bytes, own.bytes};
        }
        ranks_launch(ranks, r, &own);
    }
    ranks_wait_all(ranks, bench->name);
}

static void run_direct(struct bench *bench, const struct call *whole)
{
    struct ranks *ranks = &bench->ranks;
    struct call call = *whole;
    call.runs = bench->runs;
    for (uint32_t r = 0; r < ranks->size; r++) {
        for (uint32_t p = 0; p < ranks->size; p++) {
            bench->runs[r].run[p] = (struct gpucoll_kernel_run){.recv = ranks->rank[p].recv + call.recv_at};
        }
    }
    run_together(bench, &call);
}

static bool run_case(struct bench *bench, enum way way, const struct call *call)
{
    fill(bench, call);
    ranks_begin(&bench->ranks);
    if (way == WAY_TOGETHER) {
        run_together(bench, call);
    } else if (way == WAY_SERIAL) {
        run_serial(bench, call);
    } else if (way == WAY_STAGED) {
        run_staged(bench, call);
    } else if (way == WAY_DIRECT) {
        run_direct(bench, call);
    } else if (way == WAY_BULK) {
        run_bulk(bench, call);
    } else {
        run_brought(bench, call);
    }
    return verify(bench, call);
}

/* A shape at random for a message of about `bytes`. */
static struct call shape(struct bench *bench, enum gpucoll_kernel kernel, int functor, size_t bytes)
{
    size_t unit = gpucoll_host_functor_size(functor);
    uint32_t size = bench->ranks.size;
    size_t capacity = kernel == GPUCOLL_KERNEL_ONESHOT ? gpucoll_ll_capacity(size)
                      : kernel == GPUCOLL_KERNEL_TWOSHOT_LL128
                          ? gpucoll_ll128_capacity(size) * size * line_data
                          : SIZE_MAX;
    bytes = bytes < capacity ? bytes : capacity;
    uint32_t ranks_here =
        (bench->ranks.size + (uint32_t)bench->ranks.gpus->count - 1) / (uint32_t)bench->ranks.gpus->count;
    unsigned resident = 96 / ranks_here; /* fewer than the SMs of any GPU that such a test meets */
    struct call call = {
        .kernel = kernel,
        .functor = functor,
        .bytes = bytes / unit * unit,
        .data_bytes = data_bytes >> next_random(&bench->random) % 3,
        .send_at = GUARD + ONE_OF(bench, 0, 0, 0, 1, 3, 4, 8, 16, (uint32_t)unit, 52),
        .recv_at = GUARD + ONE_OF(bench, 0, 0, 0, 1, 6, 4, 8, 16, (uint32_t)unit, 44),
        .in_place = next_random(&bench->random) % 3 == 0,
        .ctas = ONE_OF(bench, 1, 2, 3, 7, 16, 64),
        .threads = ONE_OF(bench, 32, 64, 256, 512),
        .stages = GPUCOLL_STAGE_ALL,
        .round_end = UINT64_MAX,
        /* Leaves before the next call, or does not. */
        .linger_ns = kernel >= GPUCOLL_KERNEL_TWOSHOT && kernel != GPUCOLL_KERNEL_REDUCE_BULK
                         ? 0
                         : ONE_OF(bench, 0, 50000, 20000000),
    };
    call.ctas = call.ctas < resident ? call.ctas : resident;
    if (kernel == GPUCOLL_KERNEL_REDUCE_BULK) {
        call.send_at = call.send_at / GPUCOLL_PACK_BYTES * GPUCOLL_PACK_BYTES;
        call.recv_at = call.recv_at / GPUCOLL_PACK_BYTES * GPUCOLL_PACK_BYTES;
    } else if (kernel == GPUCOLL_KERNEL_TWOSHOT_DIRECT) {
        call.threads = call.threads < GPUCOLL_LEAST_SERVED_THREADS ? GPUCOLL_LEAST_SERVED_THREADS : call.threads;
        call.recv_at = call.recv_at / GPUCOLL_PACK_BYTES * GPUCOLL_PACK_BYTES;
    }
    return call;
}

static void test_kernel(struct bench *bench, enum gpucoll_kernel kernel, int functor, enum way way)
{
    static const size_t full[] = {0, 16, 48, 257, 4099, 40009, 262200, 1310720};
    static const size_t quick[] = {0, 16, 1011, 20011};
    const bool few = bench->options->quick;
    const size_t *sizes = few ? quick : full;
    size_t count = few ? sizeof(quick) / sizeof(quick[0]) : sizeof(full) / sizeof(full[0]);
    struct gpus *gpus = bench->ranks.gpus;
    if (!runs_kernel(bench->options, kernel)) {
        return;
    }
    snprintf(bench->name, sizeof(bench->name), "%s %s on %u ranks, %s", kernel_names[kernel],
             gpucoll_functor_name(functor), bench->ranks.size, way_names[way]);
    bool passed = true;
    for (size_t i = 0; i < count && passed; i++) {
        /* The largest at least for the commonest functors; the host's part of it takes long. */
        if (sizes[i] > 1000000 && functor != GPUCOLL_FN_sum_f32 && next_random(&bench->random) % 4 != 0) {
            continue;
        }
        struct call call = shape(bench, kernel, functor, sizes[i]);
        call.linger_ns = way == WAY_TOGETHER || way == WAY_BULK ? call.linger_ns : 0;
        call.gate = (way == WAY_TOGETHER || way == WAY_DIRECT) && call.linger_ns == 0 && next_random(&bench->random) % 2 == 0;
        passed = run_case(bench, way, &call);
    }
    gpus_report(gpus, passed, "%s", bench->name);
}

static bool wanted(const struct bench *bench, int functor)
{
    return !bench->options->quick || functor == GPUCOLL_FN_sum_f32 || functor == GPUCOLL_FN_max_i16 ||
           functor == GPUCOLL_FN_band_u64 || functor == GPUCOLL_FN_minloc_f64i32 || functor == GPUCOLL_FN_min_u32;
}

static bool all_do_bulk(const struct bench *bench)
{
    bool all = true;
    for (uint32_t r = 0; r < bench->ranks.size; r++) {
        all &= bench->ranks.gpus->accel->ops->device_bulk(bench->ranks.rank[r].device);
    }
    return all;
}

static void test_size(struct gpus *gpus, uint32_t size, const struct test_options *options)
{
    struct bench bench = {.random = options->seed + size, .options = options};
    const bool quick = options->quick;
    open_bench(&bench, gpus, size);
    bool alone = size <= (uint32_t)gpus->count; /* no two ranks on one GPU */
    for (int functor = 0; functor < GPUCOLL_FUNCTOR_COUNT; functor++) {
        if (!wanted(&bench, functor)) {
            continue;
        }
        if (alone || !quick) {
            test_kernel(&bench, GPUCOLL_KERNEL_ONESHOT, functor, WAY_TOGETHER);
            test_kernel(&bench, GPUCOLL_KERNEL_TWOSHOT_LL128, functor, WAY_TOGETHER);
            if (size == 2) {
                test_kernel(&bench, GPUCOLL_KERNEL_SWAP_LL128, functor, WAY_TOGETHER);
            }
            test_kernel(&bench, GPUCOLL_KERNEL_TWOSHOT, functor, WAY_TOGETHER);
            test_kernel(&bench, GPUCOLL_KERNEL_TWOSHOT_DIRECT, functor, WAY_DIRECT);
        }
        if (quick || functor % 8 == 0) {
            test_kernel(&bench, GPUCOLL_KERNEL_ONESHOT, functor, WAY_SERIAL);
        }
        test_kernel(&bench, GPUCOLL_KERNEL_TWOSHOT, functor, WAY_STAGED);
    }
    for (int functor = 0; functor < GPUCOLL_FUNCTOR_COUNT && all_do_bulk(&bench); functor++) {
        if (wanted(&bench, functor)) {
            test_kernel(&bench, GPUCOLL_KERNEL_REDUCE_BULK, functor, WAY_BULK);
        }
    }
    for (int functor = 0; functor < GPUCOLL_FUNCTOR_COUNT; functor++) {
        if (wanted(&bench, functor)) {
            test_kernel(&bench, GPUCOLL_KERNEL_REDUCE_BLOCKS, functor, WAY_BROUGHT);
        }
    }
    close_bench(&bench);
}

static bool is_exchange(const struct test_options *options)
{
    return options->only == GPUCOLL_KERNEL_COUNT ||
           (gpucoll_kernel_is_exchange(options->only) && options->only != GPUCOLL_KERNEL_RELAY);
}

static void run_tests(struct gpus *gpus, const struct test_options *options)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    const bool quick = options->quick;
    printf("# seed %llu, %d GPUs\n", (unsigned long long)options->seed, gpus->count);
    if (runs_all(options)) {
        test_memory(gpus);
        if (!quick ||
            gpus->count > 1) { /* compute-sanitizer may run kernels of one GPU one after the other */
            test_crossed(gpus);
            test_gates(gpus);
        }
        test_arrival(gpus, quick, options->seed);
        test_courier(gpus, quick, options->seed);
        test_packing(gpus, quick, options->seed);
    }
    if (is_exchange(options)) {
        test_exchanges(gpus, options);
    }
    if (runs_kernel(options, GPUCOLL_KERNEL_MOVE_LAYOUTS)) {
        test_laid_runs(gpus, options);
    }
    if (!quick && runs_ranks(options, gpus, 2)) { /* compute-sanitizer would take minutes */
        test_streams(gpus, options);
    }
    if (runs_kernel(options, GPUCOLL_KERNEL_RELAY)) {
        test_relays(gpus, options);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (runs_ranks(options, gpus, sizes[i])) {
            test_size(gpus, sizes[i], options);
        }
    }
}

int main(int argc, char **argv)
{
    struct test_options options = {.only = GPUCOLL_KERNEL_COUNT, .seed = 20261121, .repeat = 1};
    struct gpus gpus;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "--speed") == 0) {
        return gpus_open(&gpus) ? measure_speed(&gpus, argc - 2, argv + 2) : 77;
    }
    if (!test_options_read(argc, argv, &options)) {
        fprintf(stderr, "usage: kernels_test [--quick] [--seed N] [--repeat N] [--ranks N] [--only KERNEL] | --speed [--help]\n");
        return 2;
    }
    if (!gpus_open(&gpus)) {
        return 77;
    }
    for (int i = 0; i < options.repeat; i++, options.seed++) {
        run_tests(&gpus, &options);
    }
    if (!options.quick && runs_all(&options)) {
        test_reset(&gpus); /* calls the driver with what is gone, which compute-sanitizer reports */
    }
    printf("# %d passed, %d failed\n", gpus.passed, gpus.failed);
    int status = gpus.failed > 0;
    gpus_close(&gpus);
    return status;
}
