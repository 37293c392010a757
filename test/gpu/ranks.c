#include "test/gpu/ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/clock.h"

const char *const kernel_names[GPUCOLL_KERNEL_COUNT] = {
    [GPUCOLL_KERNEL_ONESHOT] = "oneshot",
    [GPUCOLL_KERNEL_ONESHOT_EARLY] = "oneshot_early",
    [GPUCOLL_KERNEL_SWAP_LL128] = "swap_ll128",
    [GPUCOLL_KERNEL_TWOSHOT_LL128] = "twoshot_ll128",
    [GPUCOLL_KERNEL_TWOSHOT] = "twoshot",
    [GPUCOLL_KERNEL_MOVE_LL] = "move_ll",
    [GPUCOLL_KERNEL_MOVE_LAYOUTS] = "move_layouts",
    [GPUCOLL_KERNEL_MOVE_LL128] = "move_ll128",
    [GPUCOLL_KERNEL_MOVE] = "move",
    [GPUCOLL_KERNEL_REDUCE_LL] = "reduce_ll",
    [GPUCOLL_KERNEL_REDUCE_LL128] = "reduce_ll128",
    [GPUCOLL_KERNEL_REDUCE] = "reduce",
    [GPUCOLL_KERNEL_STORE] = "store",
    [GPUCOLL_KERNEL_SPREAD] = "spread",
    [GPUCOLL_KERNEL_REDUCE_BULK] = "reduce_bulk",
    [GPUCOLL_KERNEL_TWOSHOT_DIRECT] = "twoshot_direct",
    [GPUCOLL_KERNEL_RELAY] = "relay",
    [GPUCOLL_KERNEL_REDUCE_BLOCKS] = "reduce_blocks",
    [GPUCOLL_KERNEL_FETCH] = "fetch",
    [GPUCOLL_KERNEL_DELIVER] = "deliver",
};

/* Close to where epochs wrap around, so that every run of the tests passes it. */
static const uint32_t first_epoch = UINT32_MAX - 40;
static const uint32_t first_done = UINT32_MAX - 20; /* likewise numbers of kernels */
static const uint64_t patience_ns = 30000000000u;

static void must(gpucoll_status status, const char *what)
{
    if (status != GPUCOLL_OK) {
        printf("FAIL %s: %s\n", what, gpucoll_status_name(status));
        exit(1);
    }
}

static void open_rank(struct ranks *ranks, struct rank *rank, int gpu)
{
    const struct gpucoll_accel_ops *ops = ranks->gpus->accel->ops;
    rank->gpu = gpu;
    rank->epoch = first_epoch;
    rank->done = first_done;
    rank->send = gpus_alloc(ranks->gpus, gpu, ranks->buffer_bytes);
    rank->recv = gpus_alloc(ranks->gpus, gpu, ranks->buffer_bytes);
    must(ops->device_open(ranks->gpus->accel, rank->send, &rank->device), "device_open");
    must(ops->scratch_alloc(rank->device, gpucoll_lane_bytes(ranks->data_bytes), &rank->scratch,
                            &rank->handle),
         "scratch_alloc");
    must(ops->stream_open(rank->device, &rank->stream), "stream_open");
    rank->status = ops->stream_status(rank->stream);
}

void ranks_open(struct ranks *ranks, struct gpus *gpus, uint32_t size, size_t data_bytes, size_t buffer_bytes)
{
    memset(ranks, 0, sizeof(*ranks));
    ranks->gpus = gpus;
    ranks->size = size;
    ranks->data_bytes = data_bytes;
    ranks->buffer_bytes = buffer_bytes;
    for (uint32_t r = 0; r < size; r++) {
        open_rank(ranks, &ranks->rank[r], (int)(r % (uint32_t)gpus->count));
    }
    for (uint32_t r = 0; r < size; r++) {
        struct rank *rank = &ranks->rank[r];
        for (uint32_t i = 0; i < size; i++) {
            must(gpus->accel->ops->import(rank->device, &ranks->rank[i].handle, &rank->lane[i]), "import");
        }
    }
}

void ranks_close(struct ranks *ranks)
{
    const struct gpucoll_accel_ops *ops = ranks->gpus->accel->ops;
    for (uint32_t r = 0; r < ranks->size; r++) {
        struct rank *rank = &ranks->rank[r];
        for (uint32_t i = 0; i < ranks->size; i++) {
            ops->release(rank->device, &ranks->rank[i].handle, rank->lane[i]);
        }
        ops->stream_close(rank->stream);
    }
    for (uint32_t r = 0; r < ranks->size; r++) {
        struct rank *rank = &ranks->rank[r];
        ops->scratch_free(rank->device, rank->scratch);
        ops->device_close(rank->device);
        gpus_free(ranks->gpus, rank->gpu, rank->send);
        gpus_free(ranks->gpus, rank->gpu, rank->recv);
    }
}

void ranks_begin(struct ranks *ranks)
{
    for (uint32_t r = 0; r < ranks->size; r++) {
        struct rank *rank = &ranks->rank[r];
        rank->epoch = rank->epoch + 1 == 0 ? 1 : rank->epoch + 1;
    }
}

void ranks_launch(struct ranks *ranks, uint32_t r, const struct call *call)
{
    struct rank *rank = &ranks->rank[r];
    struct gpucoll_kernel_args args;
    memset(&args, 0, offsetof(struct gpucoll_kernel_args, peer));
    args.recv = rank->recv + call->recv_at;
    args.send = call->in_place ? args.recv : rank->send + call->send_at;
    args.bytes = call->bytes;
    args.data_bytes = call->data_bytes;
    args.round_begin = call->round_begin;
    args.round_end = call->round_end;
    args.done_value = gpucoll_next_done(&rank->done);
    args.rank = r;
    args.nranks = ranks->size;
    args.stages = call->stages;
    args.relay_flow = call->relay_flow;
    args.relay_protocol = call->relay_protocol;
    for (uint32_t i = 0; i < ranks->size; i++) {
        args.peer[i].lane = rank->lane[i];
        args.peer[i].epoch = ranks->rank[i].epoch;
        args.peer[i].number = i;
    }
    const struct gpucoll_launch launch = {.kernel = call->kernel,
                                          .functor = call->functor,
                                          .ctas = call->ctas,
                                          .threads = call->threads,
                                          .linger_ns = call->linger_ns,
                                          .waits_once = call->waits_once,
                                          .gate = call->gate,
                                          .args = &args,
                                          .runs = call->runs != NULL ? &call->runs[r] : NULL};
    must(ranks->gpus->accel->ops->launch(rank->stream, &launch), "launch");
    rank->gated = call->gate;
}

bool ranks_said(const struct ranks *ranks, uint32_t r, const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) == ranks->rank[r].done;
}

void ranks_let_in(struct ranks *ranks, uint32_t r)
{
    struct rank *rank = &ranks->rank[r];
    __atomic_store_n(&rank->status->go, rank->done, __ATOMIC_RELEASE);
    rank->gated = false;
}

void ranks_send_away(struct ranks *ranks, uint32_t r)
{
    struct rank *rank = &ranks->rank[r];
    __atomic_store_n(&rank->status->leave, rank->done, __ATOMIC_RELEASE);
}

void ranks_launch_again(struct ranks *ranks, uint32_t r)
{
    struct rank *rank = &ranks->rank[r];
    must(ranks->gpus->accel->ops->launch_again(rank->stream, gpucoll_next_done(&rank->done)), "launch_again");
}

bool ranks_done(struct ranks *ranks, uint32_t r)
{
    gpucoll_status status = ranks->gpus->accel->ops->stream_poll(ranks->rank[r].stream);
    if (status != GPUCOLL_IN_PROGRESS) {
        must(status, "stream_poll");
    }
    return status == GPUCOLL_OK;
}

static void give_up(struct ranks *ranks, uint32_t r, const char *name)
{
    for (uint32_t i = 0; i < ranks->size; i++) {
        gpucoll_status_abort(ranks->rank[i].status, 1);
    }
    gpucoll_status health = ranks->gpus->accel->ops->stream_health(ranks->rank[r].stream);
    uint64_t start = gpucoll_now_ns();
    while (gpucoll_now_ns() - start < 1000000000u) {
    }
    for (uint32_t i = 0; i < ranks->size; i++) {
        printf("# rank %u: done %d, waited for rank %d\n", i, ranks_done(ranks, i),
               (int)ranks->rank[i].status->stuck_rank - 1);
    }
    printf("FAIL %s: rank %u of %u did not finish (device: %s)\n", name, r, ranks->size,
           gpucoll_status_name(health));
    exit(1);
}

void ranks_wait(struct ranks *ranks, uint32_t r, const char *name)
{
    if (ranks_done(ranks, r)) {
        return;
    }
    uint64_t start = gpucoll_now_ns();
    while (!ranks_done(ranks, r)) {
        if (gpucoll_now_ns() - start > patience_ns) {
            give_up(ranks, r, name);
        }
    }
}

/* The first rank that has not finished; every rank is asked each time, since who asks launches anew what a kernel that lingered
 * left behind, and the others may be waiting for just that rank. */
static uint32_t first_missing(struct ranks *ranks)
{
    uint32_t missing = ranks->size;
    for (uint32_t r = ranks->size; r-- > 0;) {
        missing = ranks_done(ranks, r) ? missing : r;
    }
    return missing;
}

static void wait_until_said(struct ranks *ranks, uint32_t r, const uint32_t *word, const char *name)
{
    const uint64_t start = gpucoll_now_ns();
    while (!ranks_said(ranks, r, word)) {
        if (gpucoll_now_ns() - start > patience_ns) {
            give_up(ranks, r, name);
        }
    }
}

/* One rank's kernel has to retreat first, then all go on. */
static void pass_gates(struct ranks *ranks, const char *name)
{
    const uint32_t weak = ranks->rank[0].done % ranks->size;
    wait_until_said(ranks, weak, &ranks->rank[weak].status->ready, name);
    ranks_send_away(ranks, weak);
    wait_until_said(ranks, weak, &ranks->rank[weak].status->retreated, name);
    ranks_launch_again(ranks, weak);
    for (uint32_t r = 0; r < ranks->size; r++) {
        wait_until_said(ranks, r, &ranks->rank[r].status->ready, name);
    }
    for (uint32_t r = 0; r < ranks->size; r++) {
        ranks_let_in(ranks, r);
    }
}

void ranks_wait_all(struct ranks *ranks, const char *name)
{
    if (ranks->rank[0].gated) {
        pass_gates(ranks, name);
    }
    const uint64_t start = gpucoll_now_ns();
    uint32_t missing;
    while ((missing = first_missing(ranks)) < ranks->size) {
        if (gpucoll_now_ns() - start > patience_ns) {
            give_up(ranks, missing, name);
        }
    }
}
