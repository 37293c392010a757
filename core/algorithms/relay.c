/*
 * Rings, chains and trees: collectives in which each rank has to do with its neighbours only (kernels/relay_abi.h). They send as
 * little as any, but one rank after the other: for links that not all pairs have, and for what one rank would
 * have to send to all. The table of rows is NCCL's of rings and trees: every flow over every protocol.
 */
#include <math.h>
#include <string.h>
#include "core/agreement.h"
#include "core/algorithms/slices.h"
#include "core/exchange.h"
#include "core/plan/model.h"
#include "kernels/relay_abi.h"

_Static_assert((int)GPUCOLL_RELAY_MOST_PASSES <= (int)GPUCOLL_EPOCHS_OF_A_CALL,
               "a lane has as many epochs left when it is taken");

/* Less than this for a channel and the fixed cost of its flags outweighs what another channel brings. */
static const uint64_t least_channel_bytes = 8192;
/* Nor has a channel ever less of the data area than this for each slot: with little scratch there are fewer channels instead. */
static const uint64_t least_slot_bytes = 1024;
/* How much longer a kernel takes that takes in and hands on by turns than one that only sends: over LL and LL128 280 GB/s where that
 * reaches 333; over Simple warps of their own wait and flag meanwhile (docs/design-rings.md), and of two ranks that reduce one sends alone. */
static const double lines_turns = 1.19, simple_turns = 1.02, simple_pair_reduce_turns = 0.97;
/* A step of Simple that hands on has the CTA meet once more, and fence again, than one that only sends: so many of its costs. */
static const double simple_hop = 2;
/* Each step round a ring of more than two over LL and LL128 takes longer by so much (plans of 4 H100). */
static const double lines_ring_us = 0.8;
/* Along a chain, lines are handed on as they come: so much of what a rank waits for by whole pieces (plans of 4 H100). */
static const double lines_waits = 0.5;
/* Round a ring over Simple of more than two, one of a step's two pieces is moved while the other is fenced: so much of a hop is not seen, at most this
 * share of the transfer (plans of 4 H100). */
static const double ring_hidden_us = 3, ring_hidden_share = 0.25;
/* And each piece along a chain or a tree, beside (plans of 2 H200; those of 4 lie above it). */
static const double simple_piece_us = 0.3;
/* Between two ranks a ring does what an exchange does in one step, and takes longer by so much (plans of 2 H200). */
static const double pair_us = 3, simple_pair_us = 8;

static enum gpucoll_relay_flow flow_of(enum gpucoll_coll coll, bool tree)
{
    switch (coll) {
    case GPUCOLL_ALLREDUCE:
        return tree ? GPUCOLL_RELAY_TREE : GPUCOLL_RELAY_ALLREDUCE;
    case GPUCOLL_REDUCE_SCATTER:
    case GPUCOLL_REDUCE_SCATTER_BLOCK:
        return GPUCOLL_RELAY_REDUCE_SCATTER;
    case GPUCOLL_BCAST:
        return GPUCOLL_RELAY_BCAST;
    case GPUCOLL_REDUCE:
        return GPUCOLL_RELAY_REDUCE;
    case GPUCOLL_SCAN:
        return GPUCOLL_RELAY_SCAN;
    case GPUCOLL_EXSCAN:
        return GPUCOLL_RELAY_EXSCAN;
    default:
        return GPUCOLL_RELAY_ALLGATHER;
    }
}

/* The longest block of a call. */
static uint64_t block_of(enum gpucoll_relay_flow flow, uint64_t bytes, uint32_t nranks)
{
    uint64_t begin;
    return flow == GPUCOLL_RELAY_ALLREDUCE ? gpucoll_slice_at(bytes, nranks, 0, &begin) : bytes;
}

static uint32_t most_channels(const struct gpucoll_plan_input *input, enum gpucoll_relay_flow flow,
                              uint32_t most)
{
    const uint64_t channel = least_slot_bytes * gpucoll_relay_connections(flow) * GPUCOLL_RELAY_SLOTS;
    const uint64_t room = input->data_bytes / channel;
    return room == 0 ? 1 : room < most ? (uint32_t)room : most;
}

/* ---- the plan ---- */

/* What the links and the steps of a flow have to do. */
struct load {
    double leaves; /* bytes that leave a rank, flags not counted */
    unsigned hops; /* steps one after the other */
    double waits;  /* bytes that come before a rank can begin, beside */
};

static unsigned log2_of(uint32_t n)
{
    unsigned log = 0;
    while (n >> (log + 1) != 0) {
        log++;
    }
    return log;
}

static struct load load_of(enum gpucoll_relay_flow flow, uint64_t bytes, uint32_t n, double piece)
{
    const double all = (double)bytes;
    const double first = piece < all ? piece : all;
    switch (flow) {
    case GPUCOLL_RELAY_ALLREDUCE:
        return (struct load){2 * all * (n - 1) / n, 2 * (n - 1), 0};
    case GPUCOLL_RELAY_TREE:
        /* Inner in one tree: half of it up once and down twice; leaf in the other: half of it up. */
        return (struct load){n > 2 ? 2 * all : (n - 1) * all, 2 * log2_of(n), 2 * log2_of(n) * first};
    case GPUCOLL_RELAY_BCAST: /* the first pieces of a connection are handed on while the rest of them comes */
        return (struct load){n > 1 ? all : 0, n - 1, n > 2 ? (n - 2) * first / 2 : 0};
    case GPUCOLL_RELAY_REDUCE:
    case GPUCOLL_RELAY_SCAN:
    case GPUCOLL_RELAY_EXSCAN:
        return (struct load){n > 1 ? all : 0, n - 1, n > 2 ? (n - 2) * first : 0};
    default:
        return (struct load){(n - 1) * all, n - 1, 0};
    }
}

/* The input with the links that are used: those of a ring may be better than those between all pairs. */
static struct gpucoll_plan_input along(const struct gpucoll_plan_input *input, bool tree)
{
    struct gpucoll_plan_input used = *input;
    if (!tree && !gpucoll_relay_is_scan(flow_of(input->coll, tree)) && input->ring_bandwidth > 0) {
        used.whole_lines = input->ring_whole_lines;
        used.latency_us = input->ring_latency_us;
        used.bandwidth = input->ring_bandwidth;
    }
    return used;
}

static double turns_of(const struct gpucoll_plan_input *input, enum gpucoll_relay_protocol protocol)
{
    return protocol != GPUCOLL_RELAY_SIMPLE ? lines_turns
           : gpucoll_goes_one_way(input)    ? simple_pair_reduce_turns
                                            : simple_turns;
}

/* Of a kernel. */
struct channels {
    double share; /* as many as the block would keep busy */
    double most;
    bool many; /* core/plan/plan.h */
};

/* CTAs and threads of the plan. */
static struct channels shape_kernel(const struct gpucoll_plan_input *input, enum gpucoll_relay_flow flow,
                                    bool simple, struct gpucoll_plan *plan)
{
    const uint64_t block = block_of(flow, input->bytes, input->nranks);
    const double leaves = load_of(flow, input->bytes, input->nranks, 0).leaves;
    const bool both_ways =
        input->nranks == 2 && !gpucoll_goes_one_way(input); /* no faster by many (2 H100) */
    const bool many = simple && !both_ways && gpucoll_may_have_many(input, leaves) &&
                      block >= GPUCOLL_MANY_CTAS * least_channel_bytes &&
                      most_channels(input, flow, GPUCOLL_MANY_CTAS) == GPUCOLL_MANY_CTAS;
    const uint32_t most = many ? GPUCOLL_MANY_CTAS : most_channels(input, flow, gpucoll_most_ctas(input));
    plan->threads = gpucoll_whole_warps(many ? input->config->threads / 2 : input->config->threads);
    if (simple && plan->threads < GPUCOLL_LEAST_SERVED_THREADS) {
        plan->threads = GPUCOLL_LEAST_SERVED_THREADS;
    }
    const double each = simple ? (double)least_channel_bytes : (double)plan->threads * GPUCOLL_PACK_BYTES;
    const double share = gpucoll_wanted_ctas(input, (double)block / each);
    plan->ctas = share + 1 < (double)most ? (uint32_t)(share + 1) : most;
    if (plan->ctas > 1 && plan->ctas % 2 != 0) {
        plan->ctas = plan->ctas < most ? plan->ctas + 1 : plan->ctas - 1; /* half of them each way round */
    }
    return (struct channels){share, (double)most, many};
}

/* Round a ring of more than two: what its steps take beside, or, below 0, what of them is not seen. */
static double ring_us(bool simple, unsigned hops, double transfer_us)
{
    return simple ? -fmin(ring_hidden_share * transfer_us, hops * ring_hidden_us) : hops * lines_ring_us;
}

static void shape(const struct gpucoll_plan_input *input, bool tree, enum gpucoll_relay_protocol protocol,
                  struct gpucoll_plan *plan)
{
    const struct gpucoll_model *model = input->model;
    const enum gpucoll_relay_flow flow = flow_of(input->coll, tree);
    const bool simple = protocol == GPUCOLL_RELAY_SIMPLE;
    const uint64_t block = block_of(flow, input->bytes, input->nranks);
    const struct channels channels = shape_kernel(input, flow, simple, plan);
    const struct gpucoll_relay_cut cut =
        gpucoll_relay_cut_of(flow, protocol, input->nranks, block, plan->ctas, input->data_bytes);
    plan->rounds = cut.pieces > 0 ? (cut.pieces + cut.parts - 1) / cut.parts : 1;
    const struct load load =
        load_of(flow, input->bytes, input->nranks, (double)cut.piece_packs * GPUCOLL_PACK_BYTES * plan->ctas);
    const double flags = protocol == GPUCOLL_RELAY_LL ? 2
                         : protocol == GPUCOLL_RELAY_LL128
                             ? (double)(GPUCOLL_LINE_PACKS + 1) / GPUCOLL_LINE_PACKS
                             : 1;
    const double cta_bandwidth =
        simple ? model->simple_cta_bandwidth
               : gpucoll_model_lines_bandwidth(
                     protocol == GPUCOLL_RELAY_LL ? model->ll_cta_bandwidth : model->ll128_cta_bandwidth, 1);
    /* Over LL and LL128 the threads of a CTA meet for nothing else than slots that are used again. */
    const double again = cut.total > GPUCOLL_RELAY_SLOTS ? cut.total - GPUCOLL_RELAY_SLOTS : 0;
    const double pieces_us =
        cut.pieces > 1 && !gpucoll_relay_is_ring(flow) ? simple_piece_us * (cut.pieces - 1) : 0;
    const double waits = load.waits * (simple || tree ? 1 : lines_waits);
    const double transfer_us = turns_of(input, protocol) * (channels.many ? gpucoll_model_many_share : 1) *
                               gpucoll_model_transfer_us(input, flags * (load.leaves + waits), channels.share,
                                                         channels.most, cta_bandwidth);
    plan->predicted_us =
        model->agree_us + model->launch_us +
        (input->nranks > 2 ? 0
         : simple          ? simple_pair_us
                           : pair_us) +
        load.hops * (input->latency_us + (simple ? simple_hop * model->fence_us : model->hop_us)) +
        transfer_us +
        (gpucoll_relay_is_ring(flow) && input->nranks > 2 ? ring_us(simple, load.hops, transfer_us) : 0) +
        (simple ? pieces_us : again * model->hop_us + gpucoll_model_crowd_us(channels.share, channels.most));
}

static const char *unusable(const struct gpucoll_plan_input *input, bool tree,
                            enum gpucoll_relay_protocol protocol)
{
    if (protocol == GPUCOLL_RELAY_LL128 && !input->whole_lines) {
        return "a link between the GPUs may tear a line of 128 bytes";
    }
    struct gpucoll_plan plan;
    const enum gpucoll_relay_flow flow = flow_of(input->coll, tree);
    shape(input, tree, protocol, &plan);
    /* Also where the pieces over a connection are no longer counted by 32 bits. */
    const uint64_t most = (uint64_t)GPUCOLL_RELAY_MOST_PASSES * GPUCOLL_RELAY_SLOTS;
    return plan.rounds > most / (2 * gpucoll_relay_steps(flow, input->nranks))
               ? "the message takes too many rounds through so small a scratch area"
               : NULL;
}

/* ---- the call ---- */

/* The ranks in the order of the ring, from the root on where there is one; of a scan in their own. */
static void fill_order(const struct gpucoll_request *request, enum gpucoll_relay_flow flow, uint32_t *order)
{
    const uint32_t n = request->team->size;
    const bool rooted = flow == GPUCOLL_RELAY_BCAST || flow == GPUCOLL_RELAY_REDUCE;
    const uint32_t *ring = request->links->order;
    uint32_t first = 0;
    while (rooted && ring[first] != request->root) {
        first++;
    }
    for (uint32_t position = 0; position < n; position++) {
        order[position] = gpucoll_relay_is_scan(flow) ? position : ring[(position + first) % n];
    }
}

/* What this rank has for the block of `rank`, and where it goes. */
static struct gpucoll_kernel_run block_run(const struct gpucoll_request *request,
                                           enum gpucoll_relay_flow flow, uint32_t rank)
{
    const struct gpucoll_kernel_run *runs = request->runs.run;
    const uint32_t own = request->team->rank;
    struct gpucoll_kernel_run block = {NULL, NULL, 0, 0};
    uint64_t begin = 0;
    switch (flow) {
    case GPUCOLL_RELAY_ALLREDUCE:
        block.send_bytes = gpucoll_slice_at(request->bytes, request->team->size, rank, &begin);
        block.send = (const char *)request->send + begin;
        block.recv = (char *)request->recv + begin;
        break;
    case GPUCOLL_RELAY_REDUCE_SCATTER:
        block.send_bytes = runs[rank].send_bytes;
        block.send = runs[rank].send;
        block.recv = rank == own ? runs[own].recv : NULL;
        break;
    default: /* ALLGATHER */
        block.send_bytes = runs[rank].recv_bytes;
        block.recv = runs[rank].recv;
        if (rank == own) {
            /* What goes to the others. In place it may have been packed for them, and is not to come back. */
            const struct gpucoll_kernel_run *sent = &runs[(own + 1) % request->team->size];
            block.send_bytes = sent->send_bytes;
            block.send = sent->send;
            block.recv = runs[own].recv_bytes > 0 ? block.recv : (char *)sent->send;
        }
        break;
    }
    return block;
}

/* Of a flow with a single block. */
static struct gpucoll_kernel_run whole_run(const struct gpucoll_request *request,
                                           enum gpucoll_relay_flow flow)
{
    const struct gpucoll_kernel_run *runs = request->runs.run;
    const uint32_t root = request->root;
    const bool is_root = request->team->rank == root;
    struct gpucoll_kernel_run block = {request->send, request->recv, request->bytes, 0};
    if (flow == GPUCOLL_RELAY_BCAST) {
        block.send = is_root ? runs[(root + 1) % request->team->size].send : NULL;
        block.recv = is_root ? NULL : runs[root].recv;
    } else if (flow == GPUCOLL_RELAY_REDUCE) {
        block.send = runs[root].send;
        block.recv = is_root ? runs[root].recv : NULL;
    } else if (gpucoll_relay_is_scan(flow)) {
        const uint32_t own = request->team->rank;
        const uint32_t last = request->team->size - 1;
        block.send = runs[own < last ? own + 1 : own].send; /* an exscan has none for the own rank */
        block.recv = runs[own].recv;
    }
    return block;
}

static gpucoll_status start(struct gpucoll_request *request, bool tree, enum gpucoll_relay_protocol protocol)
{
    const uint32_t n = request->team->size;
    const enum gpucoll_relay_flow flow = flow_of(request->coll, tree);
    uint32_t order[GPUCOLL_MAX_LOCAL];
    struct gpucoll_kernel_args by_rank;
    struct gpucoll_kernel_args args;
    struct gpucoll_kernel_runs runs;
    fill_order(request, flow, order);
    gpucoll_kernel_args_init(request, &by_rank);
    memcpy(&args, &by_rank, offsetof(struct gpucoll_kernel_args, peer));
    memset(&runs, 0, gpucoll_kernel_runs_bytes(n));
    args.bytes = block_of(flow, request->bytes, n);
    args.relay_flow = (uint8_t)flow;
    args.relay_protocol = (uint8_t)protocol;
    for (uint32_t position = 0; position < n; position++) {
        args.peer[position] = by_rank.peer[order[position]];
        args.peer[position].number = order[position];
        args.rank = order[position] == by_rank.rank ? position : args.rank;
        if (gpucoll_relay_is_ring(flow)) {
            runs.run[position] = block_run(request, flow, order[position]);
        }
    }
    if (!gpucoll_relay_is_ring(flow)) {
        runs.run[0] = whole_run(request, flow);
    }
    memcpy(request->runs.run, runs.run, gpucoll_kernel_runs_bytes(n));
    const struct gpucoll_relay_cut cut =
        gpucoll_relay_cut_of(flow, protocol, n, args.bytes, request->plan.ctas, args.data_bytes);
    gpucoll_gpu_spend_epochs(request->lane, gpucoll_relay_passes(protocol, &cut) - 1);
    return gpucoll_kernel_start(request, GPUCOLL_KERNEL_RELAY, &args);
}

/* ---- the rows ---- */

#define ROW(shaped, kind, collectives, is_tree, ordered, way, letters, text)                                 \
    static const char *unusable_##kind##_##letters(const struct gpucoll_plan_input *input)                   \
    {                                                                                                        \
        const struct gpucoll_plan_input used = along(input, is_tree);                                        \
        return unusable(&used, is_tree, way);                                                                \
    }                                                                                                        \
    static void shape_##kind##_##letters(const struct gpucoll_plan_input *input, struct gpucoll_plan *plan)  \
    {                                                                                                        \
        const struct gpucoll_plan_input used = along(input, is_tree);                                        \
        shape(&used, is_tree, way, plan);                                                                    \
    }                                                                                                        \
    static gpucoll_status start_##kind##_##letters(struct gpucoll_request *request)                          \
    {                                                                                                        \
        return start(request, is_tree, way);                                                                 \
    }                                                                                                        \
    const struct gpucoll_algorithm shaped = {                                                                \
        .name = #kind,                                                                                       \
        .protocol = #letters,                                                                                \
        .help = text,                                                                                        \
        .coll = collectives,                                                                                 \
        .rank_order = ordered,                                                                               \
        .waits = true,                                                                                       \
        .unusable = unusable_##kind##_##letters,                                                             \
        .shape = shape_##kind##_##letters,                                                                   \
        .start = start_##kind##_##letters,                                                                   \
        .progress = gpucoll_kernel_wait,                                                                     \
    }

#define RING_HELP                                                                                            \
    "one kernel: each rank hands on what it gets to the next one of a ring, or of a chain from or to the "   \
    "root; "
#define CHAIN_HELP "one kernel: each rank adds its part to what the rank before it hands on; "
#define TREE_HELP                                                                                            \
    "one kernel: up and down two binary trees, each with half of the message; fewer steps than a ring; "
#define LL_HELP "words carry their flags; for small messages"
#define LL128_HELP "lines of 128 bytes carry their flags; over NVLink"
#define SIMPLE_HELP "pieces with a flag each; for large messages"

ROW(gpucoll_ring_ll, ring, GPUCOLL_ANY_RING, false, false, GPUCOLL_RELAY_LL, ll, RING_HELP LL_HELP);
ROW(gpucoll_ring_ll128, ring, GPUCOLL_ANY_RING, false, false, GPUCOLL_RELAY_LL128, ll128,
    RING_HELP LL128_HELP);
ROW(gpucoll_ring_simple, ring, GPUCOLL_ANY_RING, false, false, GPUCOLL_RELAY_SIMPLE, simple,
    RING_HELP SIMPLE_HELP);
ROW(gpucoll_chain_ll, chain, GPUCOLL_ANY_SCAN, false, true, GPUCOLL_RELAY_LL, ll, CHAIN_HELP LL_HELP);
ROW(gpucoll_chain_ll128, chain, GPUCOLL_ANY_SCAN, false, true, GPUCOLL_RELAY_LL128, ll128,
    CHAIN_HELP LL128_HELP);
ROW(gpucoll_chain_simple, chain, GPUCOLL_ANY_SCAN, false, true, GPUCOLL_RELAY_SIMPLE, simple,
    CHAIN_HELP SIMPLE_HELP);
ROW(gpucoll_tree_ll, tree, GPUCOLL_ALLREDUCE, true, false, GPUCOLL_RELAY_LL, ll, TREE_HELP LL_HELP);
ROW(gpucoll_tree_ll128, tree, GPUCOLL_ALLREDUCE, true, false, GPUCOLL_RELAY_LL128, ll128,
    TREE_HELP LL128_HELP);
ROW(gpucoll_tree_simple, tree, GPUCOLL_ALLREDUCE, true, false, GPUCOLL_RELAY_SIMPLE, simple,
    TREE_HELP SIMPLE_HELP);
