/*
 * Direct exchange of what is only moved: every rank's copy engines write its runs to where they belong in its peers' buffers. No
 * kernel, no scratch; one barrier of the hosts tells that all has arrived. For long runs.
 */
#include "core/algorithm.h"
#include "core/direct.h"
#include "core/model.h"
#include "core/pipeline.h"

/* What the copy within a GPU takes beside those to its peers, which are queued before it. */
static const double own_us = 6;

/* A single copy: so much of its bytes' time, and no more than so long, is not seen (plans of 2 H100 and of 2 H200). */
static const double pair_share = 0.6, pair_us = 3;

static void shape(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)
{
    const unsigned peers = input->nranks - 1;
    const bool gathers = input->coll == GPUCOLL_GATHER || input->coll == GPUCOLL_GATHERV;
    /* Of the rank that queues most: in a gather each has one to the root, and a broadcast's root has none within its GPU. Where all send to
     * several, the copy within the GPU takes its whole time; beside others it is half hidden. */
    const bool scatters = input->coll == GPUCOLL_SCATTER || input->coll == GPUCOLL_SCATTERV;
    const double within = gathers || input->coll == GPUCOLL_BCAST ? 0
                          : scatters || peers == 1                ? own_us / 2
                                                                  : own_us;
    const double leaves = (double)peers * (double)input->bytes;
    plan->predicted_us = gpucoll_model_copies_us(input, leaves, gathers ? 1 : peers, 0) + within;
    if (peers == 1) {
        plan->predicted_us -= gpucoll_model_hidden_us(input, leaves, pair_share, pair_us);
    }
}

static gpucoll_status start(struct gpucoll_request *request)
{
    const struct gpucoll_team *team = request->team;
    struct gpucoll_copy_ticket *tickets = request->pipeline.sending;
    gpucoll_pipeline_start(request);
    for (uint32_t turn = 1; turn <= team->size; turn++) { /* the own part last */
        const uint32_t peer = (team->rank + turn) % team->size;
        const struct gpucoll_kernel_run *run = &request->runs.run[peer];
        if (run->send_bytes == 0 || (peer == team->rank && run->send == run->recv)) {
            continue;
        }
        void *to = peer == team->rank ? run->recv : gpucoll_direct_place(request, peer);
        gpucoll_status status =
            gpucoll_pipeline_copy(request, peer, to, run->send, run->send_bytes, &tickets[peer]);
        if (status != GPUCOLL_OK) {
            return status;
        }
    }
    return GPUCOLL_OK;
}

const struct gpucoll_algorithm gpucoll_exchange_copy = {
    .name = "exchange",
    .protocol = "copy",
    .help = "copy engines write from the application's buffers to those of the peers; takes no SM; for large "
            "messages in buffers that are used again",
    .direct = true,
    .spares_sms = true,
    .coll = GPUCOLL_ANY_MOVE,
    .shape = shape,
    .start = start,
    .progress = gpucoll_pipeline_end_copies,
    .stop = gpucoll_pipeline_stop,
};
