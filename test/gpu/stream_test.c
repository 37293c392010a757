/*
 * What two ranks have for each other over LL128 where it is more than the area holds (kernels/line_stream.cuh): swapped, moved and reduced, of
 * lengths of their own, and at places whose alignment, and so the batches of a thread, differ from rank to rank.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/accel/accel.h"
#include "kernels/functors.h"
#include "test/gpu/elements.h"
#include "test/gpu/ranks.h"
#include "test/gpu/tests.h"

enum { GUARD = 256, MOST = 40 << 20, ROOM = MOST + 2 * GUARD + 64 };

static const unsigned char poison = 0x5A;

struct stream {
    struct ranks ranks;
    uint64_t random;
    char name[96];
    bool
        differ; /* the ranks run the present call by unlike numbers of CTAs, which they may where all of it finds room */
    struct gpucoll_kernel_runs runs[2];
    unsigned char *sent[2];
    unsigned char *wanted[2];
    unsigned char *got;
};

static uint32_t below(struct stream *stream, uint32_t limit)
{
    return (uint32_t)(next_random(&stream->random) % limit);
}

/* Mostly more than finds room, if that may be; of whole elements. */
static size_t some_length(struct stream *stream, size_t unit)
{
    const uint32_t room = gpucoll_stream_room() * GPUCOLL_LINE_PACKS * GPUCOLL_PACK_BYTES;
    const uint32_t kind = below(stream, 4);
    const size_t length = kind == 0        ? below(stream, 1000)
                          : stream->differ ? room - below(stream, 100000)
                                           : (13u << 20) + below(stream, MOST - (13 << 20));
    return length / unit * unit;
}

static size_t some_place(struct stream *stream)
{
    return GUARD + (below(stream, 2) == 0 ? 0 : below(stream, 64));
}

/* Rank r's runs, and what of it `wanted` has in the end. `came` bytes of `from` reach it. */
static void plan_rank(struct stream *stream, uint32_t r, const struct call *call, const size_t length[2],
                      const size_t send_at[2])
{
    struct rank *rank = &stream->ranks.rank[r];
    const uint32_t peer = 1 - r;
    const size_t recv_at = some_place(stream);
    const bool reduces = call->kernel == GPUCOLL_KERNEL_REDUCE_LL128;
    const size_t came = length[peer];
    const unsigned char *from = stream->sent[peer] + send_at[peer];
    struct gpucoll_kernel_run *run = stream->runs[r].run;
    memset(&stream->runs[r], 0, sizeof stream->runs[r]);
    run[peer] = (struct gpucoll_kernel_run){rank->send + send_at[r], rank->recv + recv_at, length[r], came};
    memset(stream->wanted[r], poison, ROOM);
    if (reduces) { /* with what this rank would send */
        const size_t bytes = came;
        run[r] = (struct gpucoll_kernel_run){rank->send + send_at[r], rank->recv + recv_at, bytes, bytes};
        run[peer].recv = NULL;
        const unsigned char *own = stream->sent[r] + send_at[r];
        gpucoll_host_reduce(call->functor, stream->wanted[r] + recv_at, r == 0 ? own : from,
                            r == 0 ? from : own, bytes / gpucoll_host_functor_size(call->functor));
    } else {
        memcpy(stream->wanted[r] + recv_at, from, came);
    }
}

static void plan_swap(struct stream *stream, const struct call *call)
{
    for (uint32_t r = 0; r < 2; r++) {
        memset(stream->wanted[r], poison, ROOM);
        gpucoll_host_reduce(call->functor, stream->wanted[r] + call->recv_at, stream->sent[0] + call->send_at,
                            stream->sent[1] + call->send_at,
                            call->bytes / gpucoll_host_functor_size(call->functor));
    }
}

static bool verify(struct stream *stream, const struct call *call)
{
    for (uint32_t r = 0; r < 2; r++) {
        gpus_copy(stream->ranks.gpus, stream->name, stream->got, stream->ranks.rank[r].recv, ROOM);
        if (memcmp(stream->got, stream->wanted[r], ROOM) != 0) {
            size_t at = 0;
            while (stream->got[at] == stream->wanted[r][at]) {
                at++;
            }
            printf("# %s: rank %u differs at %zu; longest %lu ctas %u threads %u linger %u\n", stream->name,
                   r, at, (unsigned long)call->bytes, call->ctas, call->threads, call->linger_ns);
            return false;
        }
    }
    return true;
}

static void plan(struct stream *stream, struct call *call)
{
    const size_t unit = gpucoll_host_functor_size(call->functor);
    /* A reduction of one rank alone has what the other sends, and nothing to send. */
    size_t length[2] = {some_length(stream, unit), some_length(stream, unit)};
    size_t send_at[2] = {some_place(stream), some_place(stream)};
    if (call->kernel == GPUCOLL_KERNEL_REDUCE_LL128) {
        length[1] = below(stream, 2) == 0 ? length[0] : 0;
    }
    call->bytes = length[0] > length[1] ? length[0] : length[1];
    call->send_at = some_place(stream);
    call->recv_at = some_place(stream);
    for (uint32_t r = 0; r < 2; r++) {
        memset(stream->sent[r], poison, ROOM);
        const bool swaps = call->kernel == GPUCOLL_KERNEL_SWAP_LL128;
        fill_elements(call->functor, stream->sent[r] + (swaps ? call->send_at : send_at[r]), call->bytes,
                      &stream->random);
        gpus_copy(stream->ranks.gpus, stream->name, stream->ranks.rank[r].send, stream->sent[r], ROOM);
    }
    if (call->kernel == GPUCOLL_KERNEL_SWAP_LL128) {
        plan_swap(stream, call);
    } else {
        plan_rank(stream, 0, call, length, send_at);
        plan_rank(stream, 1, call, length, send_at);
    }
}

static bool run_case(struct stream *stream, enum gpucoll_kernel kernel, int functor)
{
    static const struct {
        uint32_t ctas, threads;
    } shapes[] = {{32, 512}, {64, 512}, {16, 256}, {3, 64}, {1, 512}};
    const uint32_t shape = below(stream, 5);
    const bool shared = stream->ranks.gpus->count == 1;
    struct call call = {
        .kernel = kernel,
        .functor = functor,
        .data_bytes = stream->ranks.data_bytes,
        .ctas = shared && shapes[shape].ctas > 48 ? 48 : shapes[shape].ctas,
        .threads = shapes[shape].threads,
        .stages = GPUCOLL_STAGE_ALL,
        .round_end = UINT64_MAX,
        .runs = kernel == GPUCOLL_KERNEL_SWAP_LL128 ? NULL : stream->runs,
    };
    stream->differ = below(stream, 3) == 0;
    call.linger_ns =
        !shared && !stream->differ && call.ctas <= GPUCOLL_CREW_CTAS && below(stream, 2) == 0 ? 50000 : 0;
    plan(stream, &call);
    struct call other = call;
    other.ctas = !stream->differ ? call.ctas : call.ctas == 32 ? 48 : 32;
    for (uint32_t r = 0; r < 2; r++) {
        memset(stream->got, poison, ROOM);
        gpus_copy(stream->ranks.gpus, stream->name, stream->ranks.rank[r].recv, stream->got, ROOM);
    }
    ranks_begin(&stream->ranks);
    for (uint32_t r = 0; r < 2; r++) {
        ranks_launch(&stream->ranks, r, r == 0 ? &call : &other);
    }
    ranks_wait_all(&stream->ranks, stream->name);
    return verify(stream, &call);
}

void test_streams(struct gpus *gpus, const struct test_options *options)
{
    static const struct {
        enum gpucoll_kernel kernel;
        int functor;
    } kinds[] = {{GPUCOLL_KERNEL_SWAP_LL128, GPUCOLL_FN_sum_f32},
                 {GPUCOLL_KERNEL_MOVE_LL128, GPUCOLL_FN_sum_u8},
                 {GPUCOLL_KERNEL_REDUCE_LL128, GPUCOLL_FN_sum_f32},
                 {GPUCOLL_KERNEL_SWAP_LL128, GPUCOLL_FN_max_i16},
                 {GPUCOLL_KERNEL_REDUCE_LL128, GPUCOLL_FN_band_u64}};
    struct stream stream = {.random = options->seed + 300};
    ranks_open(&stream.ranks, gpus, 2, (size_t)1 << 20, ROOM);
    stream.got = malloc(ROOM);
    for (uint32_t r = 0; r < 2; r++) {
        stream.sent[r] = malloc(ROOM);
        stream.wanted[r] = malloc(ROOM);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        bool passed = true;
        snprintf(stream.name, sizeof stream.name, "%s %s of two ranks, more than finds room",
                 kernel_names[kinds[k].kernel], gpucoll_functor_name(kinds[k].functor));
        for (int i = 0; i < 8 && passed && runs_kernel(options, kinds[k].kernel); i++) {
            passed = run_case(&stream, kinds[k].kernel, kinds[k].functor);
        }
        gpus_report(gpus, passed, "%s", stream.name);
    }
    for (uint32_t r = 0; r < 2; r++) {
        free(stream.sent[r]);
        free(stream.wanted[r]);
    }
    free(stream.got);
    ranks_close(&stream.ranks);
}
