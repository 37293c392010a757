/*
 * Relays: rings, chains and trees over every protocol, on several numbers of ranks, with every functor, blocks of their own lengths, at any
 * alignment, in place or not, through one slot or through all of them many times. Every byte of every receive
 * buffer is compared with what the order of the operands says, guards included.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"
#include "kernels/functors.h"
#include "test/gpu/elements.h"
#include "test/gpu/ranks.h"
#include "test/gpu/tests.h"
#include "test/relay/expected.h"

enum { GUARD = 64, MOST_BLOCK = 96 << 10, LARGE_BLOCK = 10 << 20 };
static const size_t data_bytes = (size_t)1 << 20;
static const size_t buffer_bytes = LARGE_BLOCK + (1 << 16);
static const unsigned char poison = 0xA5;
static const char *const flow_names[GPUCOLL_RELAY_FLOWS] = {
    [GPUCOLL_RELAY_ALLREDUCE] = "ring_allreduce", [GPUCOLL_RELAY_REDUCE_SCATTER] = "ring_reduce_scatter",
    [GPUCOLL_RELAY_ALLGATHER] = "ring_allgather", [GPUCOLL_RELAY_BCAST] = "chain_bcast",
    [GPUCOLL_RELAY_REDUCE] = "chain_reduce",      [GPUCOLL_RELAY_SCAN] = "chain_scan",
    [GPUCOLL_RELAY_EXSCAN] = "chain_exscan",      [GPUCOLL_RELAY_TREE] = "tree_allreduce",
};
static const char *const protocol_names[GPUCOLL_RELAY_PROTOCOLS] = {"ll", "ll128", "simple"};

struct bench {
    struct ranks ranks;
    uint64_t random;
    char name[128];
    struct gpucoll_kernel_runs runs[MOST_RANKS];
    struct relay_expected expected;
    unsigned char *sent[MOST_RANKS]; /* images of the send buffers; in place, of the receive buffers */
    unsigned char *wanted[MOST_RANKS];
    unsigned char *got;
    unsigned char *result;
    size_t used; /* bytes of each buffer */
    bool in_place;
};

static uint32_t below(struct bench *bench, uint32_t limit)
{
    return (uint32_t)(next_random(&bench->random) % limit);
}

static bool has_one_block(enum gpucoll_relay_flow flow)
{
    return !gpucoll_relay_is_ring(flow);
}

/* Lengths of the blocks; those of an all-reduce are like slices. */
static void plan_lengths(struct bench *bench, size_t most)
{
    static const size_t lengths[] = {0, 1, 16, 17, 1000, 8191, SIZE_MAX, SIZE_MAX};
    struct relay_expected *call = &bench->expected;
    const size_t unit = gpucoll_host_functor_size(call->functor);
    const bool alike = call->flow == GPUCOLL_RELAY_ALLREDUCE || bench->in_place;
    const uint32_t blocks = has_one_block(call->flow) ? 1 : call->nranks;
    for (uint32_t b = 0; b < blocks; b++) {
        size_t length = lengths[below(bench, sizeof(lengths) / sizeof(lengths[0]))];
        length = length < most && most <= MOST_BLOCK ? length : most - below(bench, 64);
        call->bytes[b] = alike && b > 0 ? call->bytes[0] : length / unit * unit;
    }
}

/* Where the blocks lie: on each rank at an alignment of its own, or all of them aligned. */
static void plan_places(struct bench *bench)
{
    const struct relay_expected *call = &bench->expected;
    const uint32_t blocks = has_one_block(call->flow) ? 1 : call->nranks;
    const bool aligned = below(bench, 2) == 0;
    bench->used = 0;
    for (uint32_t r = 0; r < call->nranks; r++) {
        struct rank *rank = &bench->ranks.rank[r];
        size_t send_at = GUARD + (aligned ? 0 : below(bench, 16));
        size_t recv_at = GUARD + (aligned ? 0 : below(bench, 16));
        for (uint32_t b = 0; b < blocks; b++) {
            struct gpucoll_kernel_run *run = &bench->runs[r].run[b];
            run->recv = rank->recv + recv_at;
            run->send = bench->in_place ? run->recv : rank->send + send_at;
            run->send_bytes = run->recv_bytes = call->bytes[b];
            send_at = (send_at + call->bytes[b] + GUARD + 15) / 16 * 16 + (aligned ? 0 : below(bench, 16));
            recv_at = (recv_at + call->bytes[b] + GUARD + 15) / 16 * 16 + (aligned ? 0 : below(bench, 16));
        }
        bench->used = send_at > bench->used ? send_at : bench->used;
        bench->used = recv_at > bench->used ? recv_at : bench->used;
    }
}

/* As MPI has it: the result of a rank comes to where its first block was. */
static void plan_results(struct bench *bench)
{
    const struct relay_expected *call = &bench->expected;
    for (uint32_t r = 0; r < call->nranks; r++) {
        if (call->flow == GPUCOLL_RELAY_REDUCE_SCATTER && bench->in_place) {
            bench->runs[r].run[r].recv = bench->runs[r].run[0].recv;
        }
    }
}

static void fill(struct bench *bench)
{
    struct relay_expected *call = &bench->expected;
    const uint32_t blocks = has_one_block(call->flow) ? 1 : call->nranks;
    for (uint32_t r = 0; r < call->nranks; r++) {
        const struct rank *rank = &bench->ranks.rank[r];
        const char *base = bench->in_place ? rank->recv : rank->send;
        memset(bench->sent[r], poison, bench->used);
        for (uint32_t b = 0; b < blocks; b++) {
            unsigned char *own = bench->sent[r] + ((const char *)bench->runs[r].run[b].send - base);
            call->own[r][b] = own;
            if (relay_has_own(call->flow, r, b)) {
                fill_elements(call->functor, own, call->bytes[b], &bench->random);
            }
        }
        memset(bench->wanted[r], poison, bench->used);
        if (bench->in_place) {
            memcpy(bench->wanted[r], bench->sent[r], bench->used);
        }
        gpus_copy(bench->ranks.gpus, bench->name, rank->send, bench->sent[r], bench->used);
        gpus_copy(bench->ranks.gpus, bench->name, rank->recv, bench->wanted[r], bench->used);
    }
}

static void expect(struct bench *bench)
{
    const struct relay_expected *call = &bench->expected;
    const uint32_t blocks = has_one_block(call->flow) ? 1 : call->nranks;
    for (uint32_t b = 0; b < blocks; b++) {
        bool known = false;
        for (uint32_t r = 0; r < call->nranks; r++) {
            struct gpucoll_kernel_run *run = &bench->runs[r].run[b];
            if (relay_wants(call->flow, r, b)) {
                if (!known || gpucoll_relay_is_scan(call->flow)) {
                    relay_expect(call, r, b, bench->result);
                    known = true;
                }
                memcpy(bench->wanted[r] + ((char *)run->recv - bench->ranks.rank[r].recv), bench->result,
                       call->bytes[b]);
            }
        }
    }
}

/* What the kernel is not to touch, it is not told. */
static void forget_places(struct bench *bench)
{
    const struct relay_expected *call = &bench->expected;
    for (uint32_t r = 0; r < call->nranks; r++) {
        for (uint32_t b = 0; b < call->nranks; b++) {
            struct gpucoll_kernel_run *run = &bench->runs[r].run[b];
            run->send = relay_has_own(call->flow, r, b) ? run->send : NULL;
            run->recv = relay_wants(call->flow, r, b) ? run->recv : NULL;
        }
    }
}

static bool verify(struct bench *bench, const struct call *call)
{
    for (uint32_t r = 0; r < bench->ranks.size; r++) {
        gpus_copy(bench->ranks.gpus, bench->name, bench->got, bench->ranks.rank[r].recv, bench->used);
        if (memcmp(bench->got, bench->wanted[r], bench->used) == 0) {
            continue;
        }
        size_t at = 0;
        while (bench->got[at] == bench->wanted[r][at]) {
            at++;
        }
        printf(
            "# %s: %s: rank %u differs at %zu: %02x, not %02x; longest %lu ctas %u threads %u data_bytes %lu "
            "in place %d\n",
            bench->name, gpucoll_functor_name(call->functor), r, at, bench->got[at], bench->wanted[r][at],
            (unsigned long)call->bytes, call->ctas, call->threads, (unsigned long)call->data_bytes,
            bench->in_place);
        return false;
    }
    return true;
}

/* The epochs that the call takes on each lane; they begin anew where not enough would be left. */
static void begin_call(struct bench *bench)
{
    for (uint32_t r = 0; r < bench->ranks.size; r++) {
        struct rank *rank = &bench->ranks.rank[r];
        rank->epoch = rank->epoch > UINT32_MAX - GPUCOLL_RELAY_MOST_PASSES ? 0 : rank->epoch;
    }
    ranks_begin(&bench->ranks);
}

static void end_call(struct bench *bench, const struct call *call)
{
    const struct gpucoll_relay_cut cut = gpucoll_relay_cut_of(
        call->relay_flow, call->relay_protocol, bench->ranks.size, call->bytes, call->ctas, call->data_bytes);
    for (uint32_t r = 0; r < bench->ranks.size; r++) {
        bench->ranks.rank[r].epoch += gpucoll_relay_passes(call->relay_protocol, &cut) - 1;
    }
}

static bool run_case(struct bench *bench, enum gpucoll_relay_protocol protocol, size_t most)
{
    static const uint32_t ctas[] = {1, 2, 3, 7, 16, 64};
    static const uint32_t threads[] = {32, 64, 256, 512};
    struct relay_expected *expected = &bench->expected;
    const uint32_t gpus = (uint32_t)bench->ranks.gpus->count;
    const uint32_t resident =
        96 / ((bench->ranks.size + gpus - 1) / gpus); /* CTAs that surely run side by side */
    const bool large = most > MOST_BLOCK;
    bench->in_place = below(bench, 3) == 0;
    plan_lengths(bench, most);
    plan_places(bench);
    plan_results(bench);
    struct call call = {
        .kernel = GPUCOLL_KERNEL_RELAY,
        .functor = expected->functor,
        .data_bytes = data_bytes >> below(bench, 3),
        .ctas = ctas[large ? 3 : below(bench, 6)],
        .threads = threads[large ? 3 : below(bench, 4)],
        .stages = GPUCOLL_STAGE_ALL,
        .round_end = UINT64_MAX,
        .runs = bench->runs,
        .relay_flow = (uint16_t)expected->flow,
        .relay_protocol = (uint16_t)protocol,
    };
    if (protocol == GPUCOLL_RELAY_SIMPLE && call.threads < GPUCOLL_LEAST_SERVED_THREADS) {
        call.threads = GPUCOLL_LEAST_SERVED_THREADS;
    }
    call.ctas = call.ctas < resident ? call.ctas : resident;
    call.gate = below(bench, 2) == 0;
    expected->channels = call.ctas;
    for (uint32_t b = 0; b < expected->nranks; b++) {
        call.bytes = expected->bytes[b] > call.bytes ? expected->bytes[b] : call.bytes;
    }
    fill(bench);
    expect(bench);
    forget_places(bench);
    begin_call(bench);
    for (uint32_t r = 0; r < bench->ranks.size; r++) {
        ranks_launch(&bench->ranks, r, &call);
    }
    ranks_wait_all(&bench->ranks, bench->name);
    end_call(bench, &call);
    return verify(bench, &call);
}

static bool reduces(enum gpucoll_relay_flow flow)
{
    return flow != GPUCOLL_RELAY_ALLGATHER && flow != GPUCOLL_RELAY_BCAST;
}

static void begin_expected(struct bench *bench, enum gpucoll_relay_flow flow, int functor)
{
    memset(&bench->expected, 0, sizeof bench->expected);
    bench->expected.flow = flow;
    bench->expected.functor = functor;
    bench->expected.nranks = bench->ranks.size;
}

/* One flow over one protocol: many shapes with one functor, then all functors. */
static void test_flow(struct bench *bench, enum gpucoll_relay_flow flow, enum gpucoll_relay_protocol protocol,
                      bool quick)
{
    const int cases = quick ? 2 : 24;
    bool passed = true;
    snprintf(bench->name, sizeof bench->name, "relay %s %s on %u ranks", flow_names[flow],
             protocol_names[protocol], bench->ranks.size);
    begin_expected(bench, flow, GPUCOLL_FN_sum_f32);
    for (int i = 0; i < cases && passed; i++) {
        passed = run_case(bench, protocol, i % 3 == 0 ? MOST_BLOCK : 30000);
    }
    if (passed && !quick) {
        passed = run_case(bench, protocol,
                          has_one_block(flow) ? LARGE_BLOCK : LARGE_BLOCK / bench->ranks.size - 256);
    }
    gpus_report(bench->ranks.gpus, passed, "%s, many shapes", bench->name);
    if (!reduces(flow)) {
        return;
    }
    for (int functor = 0; functor < GPUCOLL_FUNCTOR_COUNT && passed; functor += quick ? 16 : 1) {
        begin_expected(bench, flow, functor);
        passed = run_case(bench, protocol, 5000);
    }
    gpus_report(bench->ranks.gpus, passed, "%s, every functor", bench->name);
}

/* A relay whose neighbours never come gives up when it is told so, and says for whom it waited. The stream is of no use afterwards. */
static void test_stop(struct bench *bench, enum gpucoll_relay_protocol protocol)
{
    struct ranks *ranks = &bench->ranks;
    struct gpucoll_accel *accel = ranks->gpus->accel;
    const uint32_t r = protocol; /* a rank of its own each time */
    const uint32_t before = (r + ranks->size - 1) % ranks->size;
    struct call call = {.kernel = GPUCOLL_KERNEL_RELAY,
                        .functor = GPUCOLL_FN_sum_f32,
                        .bytes = 4096,
                        .data_bytes = data_bytes,
                        .ctas = 1,
                        .threads = 256,
                        .stages = GPUCOLL_STAGE_ALL,
                        .round_end = UINT64_MAX,
                        .runs = bench->runs,
                        .relay_flow = GPUCOLL_RELAY_ALLREDUCE,
                        .relay_protocol = (uint16_t)protocol};
    for (uint32_t b = 0; b < ranks->size; b++) {
        char *place = ranks->rank[r].recv + b * 4096;
        bench->runs[r].run[b] = (struct gpucoll_kernel_run){place, place, 4096, 4096};
    }
    begin_call(bench);
    ranks_launch(ranks, r, &call);
    const uint64_t begin = gpucoll_now_ns();
    while (gpucoll_now_ns() - begin < 1000000) {
    }
    bool passed = !ranks_done(ranks, r);
    accel->ops->stream_stop(ranks->rank[r].stream);
    passed &= accel->ops->synchronize(accel, ranks->rank[r].recv) == GPUCOLL_OK && !ranks_done(ranks, r);
    passed &= gpucoll_now_ns() - begin < 1000000000u && ranks->rank[r].status->stuck_rank == before + 1;
    gpus_report(ranks->gpus, passed, "relay %s is stopped on %u ranks and names the rank",
                protocol_names[protocol], ranks->size);
}

static void test_size(struct gpus *gpus, uint32_t size, bool quick, uint64_t seed)
{
    struct bench bench = {.random = seed + 200 + size};
    ranks_open(&bench.ranks, gpus, size, data_bytes, buffer_bytes);
    bench.got = malloc(buffer_bytes);
    bench.result = malloc(buffer_bytes);
    for (uint32_t r = 0; r < size; r++) {
        bench.sent[r] = malloc(buffer_bytes);
        bench.wanted[r] = malloc(buffer_bytes);
    }
    for (int flow = 0; flow < GPUCOLL_RELAY_FLOWS; flow++) {
        for (int protocol = 0; protocol < GPUCOLL_RELAY_PROTOCOLS; protocol++) {
            test_flow(&bench, (enum gpucoll_relay_flow)flow, (enum gpucoll_relay_protocol)protocol, quick);
        }
    }
    for (int protocol = 0; protocol < GPUCOLL_RELAY_PROTOCOLS && size >= GPUCOLL_RELAY_PROTOCOLS;
         protocol++) {
        test_stop(&bench, (enum gpucoll_relay_protocol)protocol);
    }
    for (uint32_t r = 0; r < size; r++) {
        free(bench.sent[r]);
        free(bench.wanted[r]);
    }
    free(bench.got);
    free(bench.result);
    ranks_close(&bench.ranks);
}

void test_relays(struct gpus *gpus, const struct test_options *options)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const bool alone = sizes[i] <= (uint32_t)gpus->count; /* no two ranks on one GPU */
        if (runs_ranks(options, gpus, sizes[i]) && (alone || !options->quick)) {
            test_size(gpus, sizes[i], options->quick, options->seed);
        }
    }
}
