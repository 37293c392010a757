#include "test/unit/gate_hand.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "core/gate.h"
#include "core/request.h"

/* One process. Of its structures only what gates look at is filled. */
struct player {
    struct gpucoll_context context;
    struct gpucoll_accel accel;
    struct gpucoll_device device;
    struct gpucoll_gpu gpu;
    struct gpucoll_stream stream;
    unsigned launched_again;
    bool cannot_launch;
    struct gpucoll_kernel_status status;
    struct gpucoll_lane lane;
    struct gpucoll_team team;
    struct gpucoll_request request;
};

struct test_gates {
    struct gpucoll_team_board board; /* of the first rank */
    uint32_t ranks;
    struct player player[GPUCOLL_MAX_LOCAL];
};

static struct player *player_of(struct gpucoll_stream *stream)
{
    return (struct player *)((char *)stream - offsetof(struct player, stream));
}

static gpucoll_status play_launch_again(struct gpucoll_stream *stream, uint32_t done_value)
{
    struct player *player = player_of(stream);
    if (player->cannot_launch || done_value != player->lane.done) {
        return GPUCOLL_ERR_SYSTEM;
    }
    player->launched_again++;
    return GPUCOLL_OK;
}

static const struct gpucoll_accel_ops played = {.launch_again = play_launch_again};

struct test_gates *test_gates_open(uint32_t ranks, bool kept, const struct gpucoll_log *log)
{
    struct test_gates *gates = aligned_alloc(_Alignof(struct test_gates), sizeof *gates);
    if (gates == NULL) {
        abort();
    }
    memset(gates, 0, sizeof *gates);
    gates->ranks = ranks;
    for (uint32_t i = 0; i < ranks; i++) {
        struct player *player = &gates->player[i];
        player->context.log = log;
        gpucoll_gates_open(&player->context.gates, log);
        player->context.gates.unkept = !kept;
        player->accel.ops = &played;
        player->device.accel = &player->accel;
        player->gpu.device = &player->device;
        player->lane.stream = &player->stream;
        player->lane.status = &player->status;
        player->team.context = &player->context;
        player->team.rank = i;
        player->team.size = ranks;
        player->team.members[0].board = &gates->board;
        player->request.team = &player->team;
        player->request.gpu = &player->gpu;
        player->request.lane = &player->lane;
    }
    return gates;
}

void test_gates_close(struct test_gates *gates)
{
    for (uint32_t i = 0; i < gates->ranks; i++) {
        gpucoll_gate_drop(&gates->player[i].request);
        gpucoll_gates_close(&gates->player[i].context.gates);
    }
    free(gates);
}

void test_gate_begin(struct test_gates *gates, uint32_t rank, uint64_t call)
{
    struct player *player = &gates->player[rank];
    player->request.call = call;
    player->lane.done++;
    gpucoll_gate_begin(&player->request);
}

void test_gate_pass_by(struct test_gates *gates, uint32_t rank, uint64_t call)
{
    gates->player[rank].request.call = call;
    gpucoll_gate_pass_by(&gates->player[rank].request);
}

gpucoll_status test_gate_test(struct test_gates *gates, uint32_t rank)
{
    return gpucoll_gate_test(&gates->player[rank].request);
}

void test_gate_drop(struct test_gates *gates, uint32_t rank)
{
    gpucoll_gate_drop(&gates->player[rank].request);
}

struct gpucoll_kernel_status *test_gate_kernel(struct test_gates *gates, uint32_t rank)
{
    return &gates->player[rank].status;
}

uint32_t test_gate_launch(const struct test_gates *gates, uint32_t rank)
{
    return gates->player[rank].lane.done;
}

unsigned test_gate_launched_again(const struct test_gates *gates, uint32_t rank)
{
    return gates->player[rank].launched_again;
}

void test_gate_cannot_launch(struct test_gates *gates, uint32_t rank)
{
    gates->player[rank].cannot_launch = true;
}

uint32_t test_gate_counted(const struct test_gates *gates, uint64_t call)
{
    const uint64_t count = atomic_load(&gates->board.gathered[call % GPUCOLL_RING]);
    return count >> 8 == call ? count & 0xff : 0;
}

static _Thread_local struct test_launches launches;
static const struct gpucoll_accel_ops *_Atomic usual; /* for all threads of a rank */

static gpucoll_status count_launch(struct gpucoll_stream *stream, const struct gpucoll_launch *launch)
{
    if (launch->gate) {
        launches.with_gate++;
        launches.ctas_with_gate = launch->ctas;
    } else {
        launches.without_gate++;
        launches.ctas_without_gate = launch->ctas;
    }
    return atomic_load(&usual)->launch(stream, launch);
}

static gpucoll_status count_again(struct gpucoll_stream *stream, uint32_t done_value)
{
    launches.again++;
    return atomic_load(&usual)->launch_again(stream, done_value);
}

void test_count_launches(struct gpucoll_context *context)
{
    static _Thread_local struct gpucoll_accel_ops counting;
    atomic_store(&usual, context->accel->ops);
    counting = *context->accel->ops;
    counting.launch = count_launch;
    counting.launch_again = count_again;
    context->accel->ops = &counting;
    launches = (struct test_launches){0};
}

struct test_launches test_launches(void)
{
    return launches;
}
