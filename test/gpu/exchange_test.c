/*
 * The exchange kernels: runs of random lengths between all pairs of ranks, some of them empty, moved or
 * reduced in rank order; every byte of every buffer is compared with what the host makes of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"
#include "kernels/functors.h"
#include "test/gpu/elements.h"
#include "test/gpu/ranks.h"
#include "test/gpu/tests.h"

enum { GAP = 48 };
static const size_t most_run = (size_t)128 << 10;
static const size_t data_bytes = (size_t)1 << 20;
static const unsigned char poison = 0xA5;

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

static size_t buffer_bytes(void)
{
    return (MOST_RANKS + 1) * (most_run + 2 * GAP);
}

static uint32_t below(struct exchange *exchange, uint32_t limit)
{
    return (uint32_t)(next_random(&exchange->random) % limit);
}

static void copy(const struct exchange *exchange, void *to, const void *from, size_t bytes)
{
    struct gpucoll_accel *accel = exchange->ranks.gpus->accel;
    if (accel->ops->copy(accel, to, from, bytes) != GPUCOLL_OK) {
        printf("FAIL %s: a copy failed\n", exchange->name);
        exit(1);
    }
}

static size_t some_length(struct exchange *exchange, size_t most, size_t unit)
{
    static const size_t lengths[] = {0, 1, 16, 17, 1000, 8191, SIZE_MAX};
    size_t length = lengths[below(exchange, sizeof(lengths) / sizeof(lengths[0]))];
    length = length < most ? length : most - below(exchange, 64 < most ? 64 : 1);
    return (length + unit - 1) / unit * unit;
}

/* Where the next run begins: aligned or not. */
static size_t next_place(struct exchange *exchange, size_t *at, size_t bytes)
{
    size_t place = *at + GAP + (below(exchange, 2) ? below(exchange, 16) : (16 - (*at + GAP) % 16) % 16);
    *at = place + bytes;
    return place;
}

/* Runs of their own lengths between all pairs; in place, the same both ways, and where they are received. */
static void plan_move(struct exchange *exchange, size_t most)
{
    const uint32_t size = exchange->ranks.size;
    size_t length[MOST_RANKS][MOST_RANKS];
    for (uint32_t a = 0; a < size; a++) {
        for (uint32_t b = 0; b < size; b++) {
            length[a][b] = exchange->in_place && b < a ? length[b][a] : some_length(exchange, most, 1);
        }
    }
    for (uint32_t r = 0; r < size; r++) {
        struct rank *rank = &exchange->ranks.rank[r];
        size_t send_at = exchange->begin;
        size_t recv_at = exchange->begin;
        for (uint32_t p = 0; p < size; p++) {
            struct gpucoll_kernel_run *run = &exchange->runs[r].run[p];
            run->send_bytes = length[r][p];
            run->recv_bytes = length[p][r];
            run->recv = rank->recv + next_place(exchange, &recv_at, length[p][r]);
            run->send =
                exchange->in_place ? run->recv : rank->send + next_place(exchange, &send_at, length[r][p]);
        }
    }
}

/* Every rank reduces runs of one length from some ranks; in place, all that a rank sends is where it
 * receives. */
static void plan_reduce(struct exchange *exchange, size_t most, size_t unit)
{
    const uint32_t size = exchange->ranks.size;
    size_t common = some_length(exchange, most, unit);
    memset(exchange->runs, 0, sizeof(exchange->runs));
    for (uint32_t r = 0; r < size; r++) {
        struct rank *rank = &exchange->ranks.rank[r];
        struct gpucoll_kernel_run *own = &exchange->runs[r].run[r];
        size_t length = exchange->in_place ? common : some_length(exchange, most, unit);
        uint32_t sources = 1u << below(exchange, size) | below(exchange, 1u << size);
        size_t at = exchange->begin;
        own->recv = rank->recv + next_place(exchange, &at, length);
        own->recv_bytes = length;
        for (uint32_t s = 0; s < size; s++) {
            if ((sources >> s & 1) == 0) {
                continue;
            }
            exchange->runs[s].run[r].send_bytes = length;
            exchange->runs[r].run[s].recv_bytes = length;
        }
        own->recv_bytes = length;
    }
    for (uint32_t r = 0; r < size; r++) {
        size_t at = exchange->begin;
        for (uint32_t p = 0; p < size; p++) {
            struct gpucoll_kernel_run *run = &exchange->runs[r].run[p];
            run->send = exchange->in_place
                            ? exchange->runs[r].run[r].recv
                            : exchange->ranks.rank[r].send + next_place(exchange, &at, run->send_bytes);
        }
    }
}

static void plan_stores(struct exchange *exchange)
{
    for (uint32_t r = 0; r < exchange->ranks.size; r++) {
        for (uint32_t p = 0; p < exchange->ranks.size; p++) {
            struct gpucoll_kernel_run *store = &exchange->stores[r].run[p];
            *store = exchange->runs[r].run[p];
            store->recv = exchange->runs[p].run[r].recv;
            store->recv_bytes = store->send_bytes;
        }
    }
}

static unsigned char *sent_by(const struct exchange *exchange, uint32_t rank, uint32_t peer)
{
    const char *base = exchange->in_place ? exchange->ranks.rank[rank].recv : exchange->ranks.rank[rank].send;
    return exchange->sent[rank] + ((const char *)exchange->runs[rank].run[peer].send - base);
}

static void fill(struct exchange *exchange, int functor)
{
    const uint32_t size = exchange->ranks.size;
    for (uint32_t r = 0; r < size; r++) {
        struct rank *rank = &exchange->ranks.rank[r];
        memset(exchange->sent[r], poison, buffer_bytes());
        for (uint32_t p = 0; p < size; p++) {
            fill_elements(functor, sent_by(exchange, r, p), exchange->runs[r].run[p].send_bytes,
                          &exchange->random);
        }
        memset(exchange->expected[r], poison, buffer_bytes());
        if (exchange->in_place) {
            memcpy(exchange->expected[r], exchange->sent[r], buffer_bytes());
        }
        copy(exchange, rank->recv, exchange->expected[r], buffer_bytes());
        if (!exchange->in_place) {
            copy(exchange, rank->send, exchange->sent[r], buffer_bytes());
        }
    }
}

static void expect(struct exchange *exchange, int functor, bool reduces)
{
    const uint32_t size = exchange->ranks.size;
    for (uint32_t r = 0; r < size; r++) {
        const struct gpucoll_kernel_run *own = &exchange->runs[r].run[r];
        bool any = false;
        for (uint32_t s = 0; s < size; s++) {
            const struct gpucoll_kernel_run *run = &exchange->runs[r].run[s];
            const char *place = reduces ? own->recv : run->recv;
            unsigned char *to = exchange->expected[r] + (place - exchange->ranks.rank[r].recv);
            size_t bytes = exchange->runs[s].run[r].send_bytes;
            if (!reduces || !any) {
                memcpy(to, sent_by(exchange, s, r), bytes);
            } else if (bytes > 0) {
                gpucoll_host_reduce(functor, to, to, sent_by(exchange, s, r),
                                    bytes / gpucoll_host_functor_size(functor));
            }
            any |= bytes > 0;
        }
    }
}

static bool verify(struct exchange *exchange, const struct call *call)
{
    for (uint32_t r = 0; r < exchange->ranks.size; r++) {
        copy(exchange, exchange->got, exchange->ranks.rank[r].recv, buffer_bytes());
        for (size_t i = 0; i < buffer_bytes(); i++) {
            if (exchange->got[i] != exchange->expected[r][i]) {
                printf("# %s: rank %u differs at %zu: %02x, not %02x; longest %lu ctas %u threads %u "
                       "data_bytes %lu in place %d\n",
                       exchange->name, r, i, exchange->got[i], exchange->expected[r][i],
                       (unsigned long)call->bytes, call->ctas, call->threads, (unsigned long)call->data_bytes,
                       exchange->in_place);
                return false;
            }
        }
    }
    return true;
}

static void run_all(struct exchange *exchange, const struct call *call)
{
    for (uint32_t r = 0; r < exchange->ranks.size; r++) {
        ranks_launch(&exchange->ranks, r, call);
    }
    ranks_wait_all(&exchange->ranks, exchange->name);
}

static void run_staged(struct exchange *exchange, const struct call *whole)
{
    struct call call = *whole;
    uint64_t block = gpucoll_exchange_block_bytes(call.data_bytes, exchange->ranks.size, call.ctas);
    uint64_t rounds = call.bytes / call.ctas / block + 2; /* more than there are does no harm */
    for (call.round_begin = 0; call.round_begin < rounds; call.round_begin += GPUCOLL_SLOTS) {
        call.round_end = call.round_begin + GPUCOLL_SLOTS;
        call.stages = GPUCOLL_STAGE_SEND;
        run_all(exchange, &call);
        call.stages = GPUCOLL_STAGE_REDUCE;
        run_all(exchange, &call);
    }
}

static uint64_t longest_run(const struct exchange *exchange)
{
    uint64_t longest = 0;
    for (uint32_t r = 0; r < exchange->ranks.size; r++) {
        for (uint32_t p = 0; p < exchange->ranks.size; p++) {
            const struct gpucoll_kernel_run *run = &exchange->runs[r].run[p];
            longest = run->send_bytes > longest ? run->send_bytes : longest;
            longest = run->recv_bytes > longest ? run->recv_bytes : longest;
        }
    }
    return longest;
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
    const bool lines = kernel == GPUCOLL_KERNEL_MOVE_LL || kernel == GPUCOLL_KERNEL_REDUCE_LL;
    const bool reduces = kernel == GPUCOLL_KERNEL_REDUCE || kernel == GPUCOLL_KERNEL_REDUCE_LL;
    const size_t capacity = lines ? gpucoll_ll_capacity(exchange->ranks.size) : most;
    most = most < capacity ? most : capacity;
    exchange->in_place = kernel != GPUCOLL_KERNEL_STORE && below(exchange, 3) == 0;
    if (reduces) {
        plan_reduce(exchange, most, gpucoll_host_functor_size(functor));
    } else {
        plan_move(exchange, most);
    }
    struct call call = {
        .kernel = kernel,
        .functor = functor,
        .bytes = longest_run(exchange),
        .data_bytes = data_bytes >> below(exchange, 3),
        .ctas = ctas[below(exchange, 6)],
        .threads = threads[below(exchange, 4)],
        .stages = GPUCOLL_STAGE_ALL,
        .round_end = UINT64_MAX,
        .runs = exchange->runs,
        /* Leaves before the next call, or does not. */
        .linger_ns = lines ? lingers[below(exchange, 3)] : 0,
    };
    call.ctas = call.ctas < resident ? call.ctas : resident;
    if (kernel == GPUCOLL_KERNEL_STORE) {
        call.runs = exchange->stores;
        plan_stores(exchange);
    }
    fill(exchange, functor);
    ranks_begin(&exchange->ranks);
    if (staged) {
        run_staged(exchange, &call);
    } else {
        run_all(exchange, &call);
    }
    expect(exchange, functor, reduces);
    return verify(exchange, &call);
}

static void test_kernel(struct exchange *exchange, enum gpucoll_kernel kernel, int functor, bool staged,
                        bool quick)
{
    struct gpus *gpus = exchange->ranks.gpus;
    bool reduces = kernel == GPUCOLL_KERNEL_REDUCE || kernel == GPUCOLL_KERNEL_REDUCE_LL;
    snprintf(exchange->name, sizeof(exchange->name), "%s %s on %u ranks, %s", kernel_names[kernel],
             reduces ? gpucoll_functor_name(functor) : "bytes", exchange->ranks.size,
             staged ? "staged" : "together");
    bool passed = true;
    const int cases = quick ? 2 : reduces ? 3 : 40;
    for (int i = 0; i < cases && passed; i++) {
        passed = run_case(exchange, kernel, functor, staged,
                          quick        ? 20000
                          : i % 3 == 0 ? most_run - 64
                                       : 30000);
    }
    gpus_report(gpus, passed, "%s", exchange->name);
}

/* ---- calls in a row ---- */

struct kind {
    enum gpucoll_kernel kernel;
    int functor;
};
static const struct kind kinds[] = {
    {GPUCOLL_KERNEL_MOVE_LL, GPUCOLL_FN_sum_u8},    {GPUCOLL_KERNEL_REDUCE_LL, GPUCOLL_FN_sum_u32},
    {GPUCOLL_KERNEL_MOVE_LL, GPUCOLL_FN_sum_u8},    {GPUCOLL_KERNEL_ONESHOT, GPUCOLL_FN_sum_u32},
    {GPUCOLL_KERNEL_REDUCE_LL, GPUCOLL_FN_max_i16}, {GPUCOLL_KERNEL_MOVE, GPUCOLL_FN_sum_u8},
};

/* An all-reduce, as if it were an exchange: every rank sends the same to all. */
static void plan_all(struct exchange *exchange, size_t most, size_t unit, struct call *call)
{
    const uint32_t size = exchange->ranks.size;
    call->bytes = some_length(exchange, most, unit);
    call->send_at = call->recv_at = exchange->begin + GAP + below(exchange, 16);
    call->runs = NULL;
    for (uint32_t r = 0; r < size; r++) {
        const struct rank *rank = &exchange->ranks.rank[r];
        for (uint32_t p = 0; p < size; p++) {
            exchange->runs[r].run[p] = (struct gpucoll_kernel_run){
                rank->send + call->send_at, rank->recv + call->recv_at, call->bytes, call->bytes};
        }
    }
}

/* Random bytes in all send buffers: for functors of integers they are elements. */
static void fill_all(struct exchange *exchange)
{
    for (uint32_t r = 0; r < exchange->ranks.size; r++) {
        fill_elements(GPUCOLL_FN_sum_u8, exchange->sent[r], buffer_bytes(), &exchange->random);
        memset(exchange->expected[r], poison, buffer_bytes());
        copy(exchange, exchange->ranks.rank[r].send, exchange->sent[r], buffer_bytes());
        copy(exchange, exchange->ranks.rank[r].recv, exchange->expected[r], buffer_bytes());
    }
}

static void spin(uint32_t ns)
{
    const uint64_t begin = gpucoll_now_ns();
    while (gpucoll_now_ns() - begin < ns) {
    }
}

/* One of many calls, into a place of its own, which nobody looks at before the last. */
static void call_in_row(struct exchange *exchange, struct call *call, const struct kind *kind, size_t most)
{
    const bool lines = kind->kernel != GPUCOLL_KERNEL_MOVE;
    const bool reduces = kind->kernel == GPUCOLL_KERNEL_REDUCE_LL || kind->kernel == GPUCOLL_KERNEL_ONESHOT;
    const size_t unit = gpucoll_host_functor_size(kind->functor);
    static const uint32_t lingers[] = {0, 3000, 10000, 30000, 50000000, 50000000, 50000000, 50000000};
    call->kernel = kind->kernel;
    call->functor = kind->functor;
    call->runs = exchange->runs;
    call->linger_ns = lines ? lingers[below(exchange, 8)] : 0;
    if (kind->kernel == GPUCOLL_KERNEL_ONESHOT) {
        plan_all(exchange, most, unit, call);
    } else if (reduces) {
        plan_reduce(exchange, most, unit);
        call->bytes = longest_run(exchange);
    } else {
        plan_move(exchange, most);
        call->bytes = longest_run(exchange);
    }
    ranks_begin(&exchange->ranks);
    run_all(exchange, call);
    expect(exchange, kind->functor, reduces);
}

/* Lingering calls of several kernels one after the other, without a pause, or such that the kernel is about to leave when it is
 * rung for. */
static void test_row(struct exchange *exchange, uint32_t threads, bool quick)
{
    const struct rank *first = &exchange->ranks.rank[0];
    const size_t room = (exchange->ranks.size + 1) * 2 * GAP;
    struct call call = {.ctas = GPUCOLL_CREW_CTAS,
                        .threads = threads,
                        .data_bytes = data_bytes,
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
    fill_all(exchange);
    for (size_t most = 200;; most = below(exchange, quick ? 4 : 8) == 0 ? 5000 : 200) {
        const size_t taken = (exchange->ranks.size + 1) * most + room;
        if (exchange->begin + taken > buffer_bytes()) {
            break;
        }
        const struct kind *before = kind;
        const bool stayed = stays;
        kind = below(exchange, 3) == 0 ? &kinds[below(exchange, sizeof(kinds) / sizeof(kinds[0]))] : kind;
        call_in_row(exchange, &call, kind, most);
        const bool waited_for = stayed && kind == before && call.linger_ns > 0;
        const bool took = waited_for && first->status->left != first->done - 1;
        stays = took || call.linger_ns > 1000000; /* as long as its launch said */
        alike += waited_for;
        heard += took;
        exchange->begin += taken;
        if (below(exchange, 2) == 0) {
            spin(below(exchange, 40000));
        }
    }
    exchange->begin = 0;
    /* Not all: the host may have been held up for longer than the kernel waits. */
    const bool passed = verify(exchange, &call) && 2 * heard >= alike;
    gpus_report(exchange->ranks.gpus, passed, "%s (%u of %u calls given to a kernel that waited)",
                exchange->name, heard, alike);
}

/* A kernel that was rung for by one rank only gives up when it is told so. The stream is of no use afterwards. */
static void test_stop(struct exchange *exchange)
{
    struct ranks *ranks = &exchange->ranks;
    struct gpucoll_accel *accel = ranks->gpus->accel;
    struct call call = {.ctas = GPUCOLL_CREW_CTAS,
                        .threads = 256,
                        .data_bytes = data_bytes,
                        .stages = GPUCOLL_STAGE_ALL,
                        .round_end = UINT64_MAX};
    snprintf(exchange->name, sizeof(exchange->name), "a lingering exchange is stopped on %u ranks",
             ranks->size);
    exchange->in_place = false;
    plan_move(exchange, 1000);
    for (uint32_t p = 0; p < ranks->size; p++) { /* nothing may be empty: rank 0 has to wait */
        for (uint32_t r = 0; r < ranks->size; r++) {
            exchange->runs[r].run[p].send_bytes = exchange->runs[r].run[p].recv_bytes = 8;
        }
    }
    call.kernel = GPUCOLL_KERNEL_MOVE_LL;
    call.functor = GPUCOLL_FN_sum_u8;
    call.runs = exchange->runs;
    call.bytes = 8;
    call.linger_ns = 50000000;
    ranks_begin(ranks);
    run_all(exchange, &call);
    ranks_begin(ranks);
    ranks_launch(ranks, 0, &call);
    spin(1000000);
    bool passed = !ranks_done(ranks, 0);
    const uint64_t begin = gpucoll_now_ns();
    accel->ops->stream_stop(ranks->rank[0].stream);
    passed &= accel->ops->synchronize(accel, ranks->rank[0].recv) == GPUCOLL_OK && !ranks_done(ranks, 0);
    passed &= gpucoll_now_ns() - begin < 1000000000u;
    gpus_report(ranks->gpus, passed, "%s", exchange->name);
}

static void test_size(struct gpus *gpus, uint32_t size, bool quick, uint64_t seed)
{
    struct exchange exchange = {.random = seed + 100 + size};
    bool alone = size <= (uint32_t)gpus->count ||
                 !quick; /* no two ranks on one GPU wait for each other where that may hang */
    ranks_open(&exchange.ranks, gpus, size, data_bytes, buffer_bytes());
    exchange.got = malloc(buffer_bytes());
    for (uint32_t r = 0; r < size; r++) {
        exchange.sent[r] = malloc(buffer_bytes());
        exchange.expected[r] = malloc(buffer_bytes());
    }
    if (alone) {
        test_kernel(&exchange, GPUCOLL_KERNEL_MOVE_LL, GPUCOLL_FN_sum_u8, false, quick);
        test_kernel(&exchange, GPUCOLL_KERNEL_MOVE, GPUCOLL_FN_sum_u8, false, quick);
    }
    test_kernel(&exchange, GPUCOLL_KERNEL_MOVE, GPUCOLL_FN_sum_u8, true, quick);
    test_kernel(&exchange, GPUCOLL_KERNEL_STORE, GPUCOLL_FN_sum_u8, false, quick);
    for (int functor = 0; functor < GPUCOLL_FUNCTOR_COUNT; functor += quick ? 16 : 1) {
        if (alone) {
            test_kernel(&exchange, GPUCOLL_KERNEL_REDUCE_LL, functor, false, quick);
            test_kernel(&exchange, GPUCOLL_KERNEL_REDUCE, functor, false, quick);
        }
        test_kernel(&exchange, GPUCOLL_KERNEL_REDUCE, functor, true, quick);
    }
    if (size <= (uint32_t)gpus->count) { /* crews that wait on one GPU may leave no place for another */
        for (int i = 0; i < (quick ? 1 : 5); i++) {
            test_row(&exchange, 512, quick);
            test_row(&exchange, 32, quick); /* few calls are small for so few threads */
        }
        if (size > 1) {
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

void test_exchanges(struct gpus *gpus, bool quick, uint64_t seed)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (!quick || sizes[i] == 1 || sizes[i] == quick_ranks(gpus)) {
            test_size(gpus, sizes[i], quick, seed);
        }
    }
}
