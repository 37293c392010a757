/*
 * Relays: collectives in which each rank has to do with its neighbours only, and hands on what it gets, piece by piece. This is
 * what the kernels (kernels/relay.cuh), the host kernels (core/accel/host_relay.c) and the host (core/algorithms/relay.c) have in
 * common: where the pieces lie, and the order of the steps. Plain C.
 *
 * Ranks are *positions* here: the host gives the kernel its ranks in the order of the ring, so that position p passes on to p + 1. Odd
 * channels, which have the second half of each block, go the other way round, but in scans, where the order of the ranks is the way. What belongs to a position: args.peer[p], and its block, runs.run[p], where `send` is what
 * this rank has for the block and `recv` where the block goes on this rank; both have the block's length, the same on all
 * ranks. args.bytes is the length of the longest block; position 0 is the root where there is one.
 *
 *   ALLREDUCE       ring, n blocks: block p is reduced on its way round to position p, then goes round once more
 *   REDUCE_SCATTER  ring: the first half of that
 *   ALLGATHER       ring: the second half
 *   BCAST           chain from position 0; one block, run[0]
 *   REDUCE          chain that ends in position 0
 *   SCAN            chain from position 0 to the last, run[0]: each keeps what it hands on
 *   EXSCAN          likewise, but each keeps what it was handed
 *   TREE            all-reduce of run[0] along two binary trees, half of the channels each
 *
 * A *connection* leads from one position to another in one channel. It has GPUCOLL_RELAY_SLOTS slots in the lane of the receiver, and
 * the pieces that go over it take them by turns. Who wants to use a slot again waits for the credit of the piece that was in
 * it, a flag in its own lane; credits are given only to who waits for them, so nothing is on its way to a lane when its call has
 * ended. In one channel no two connections have the same source and target, so flags (kernel_abi.h) are found by the peer.
 *
 *   SIMPLE  the slots are in the data area; a flag tells of each piece. A CTA has service threads and movers
 *   LL      the slots are in the LL area; the words of the k-th piece in a slot carry the lane's epoch + k, so the owner raises
 *   LL128   its lane's epoch by gpucoll_relay_passes - 1 above what a call takes else; likewise lines in the LL128 area
 *
 * Each step takes a piece from its sources, reduces it with the own part (in the order: first source, second source, own), and hands
 * the outcome to its targets and to the user's buffer:
 *
 *   sources  own  to user  targets        sources  own  to user  targets
 *      -     yes    -       yes   send       yes    yes    -       yes   recv_reduce_send
 *     yes     -    yes       -    recv       yes     -    yes      yes   recv_copy_send
 *      -     yes   yes      yes   copy_send  yes    yes   yes       -    recv_reduce_copy
 *      -     yes   yes       -    copy       yes    yes   yes      yes   recv_reduce_copy_send
 *                                            yes    yes   what came yes  recv_copy_reduce_send
 *
 * Nobody waits in a circle. Ring: a rank sends its pieces of a step before it needs those of the next step, and they are never more
 * than half of the slots. Chain: the order of the chain. Tree: see gpucoll_relay_next.
 */
#ifndef GPUCOLL_KERNELS_RELAY_ABI_H
#define GPUCOLL_KERNELS_RELAY_ABI_H

#include "kernels/kernel_abi.h"

enum gpucoll_relay_flow {
    GPUCOLL_RELAY_ALLREDUCE,
    GPUCOLL_RELAY_REDUCE_SCATTER,
    GPUCOLL_RELAY_ALLGATHER,
    GPUCOLL_RELAY_BCAST,
    GPUCOLL_RELAY_REDUCE,
    GPUCOLL_RELAY_SCAN,
    GPUCOLL_RELAY_EXSCAN,
    GPUCOLL_RELAY_TREE,
    GPUCOLL_RELAY_FLOWS
};

enum gpucoll_relay_protocol {
    GPUCOLL_RELAY_LL,
    GPUCOLL_RELAY_LL128,
    GPUCOLL_RELAY_SIMPLE,
    GPUCOLL_RELAY_PROTOCOLS
};

enum {
    GPUCOLL_RELAY_SLOTS = 8,         /* of a connection */
    GPUCOLL_RELAY_LAG = 7,           /* pieces that go up a tree before the first comes down: less than slots */
    GPUCOLL_RELAY_LEAST_PIECE = 512, /* packs; a shorter one is not divided, since its flags would take longer than its bytes */
    GPUCOLL_RELAY_MOST_PIECE = 8192, /* packs of Simple: what a rank holds back before it hands it on */
    GPUCOLL_RELAY_MOST_CHAIN_PIECE = 2048, /* the same along chains and trees, where each rank holds one back */
    GPUCOLL_RELAY_RING_PARTS = 2,    /* pieces of a step of a ring over Simple: one travels while the other is flagged */
    GPUCOLL_RELAY_MOST_PASSES = 1 << 20, /* over a slot, and so epochs, that a call takes */
    GPUCOLL_RELAY_LL128_BYTES = 10 << 20 /* of the LL128 area: in larger slots each rank of a chain would hold back more */
};

/* Where a connection ends: in a tree, which of a rank's. */
enum { GPUCOLL_RELAY_LEFT = 0, GPUCOLL_RELAY_RIGHT = 1, GPUCOLL_RELAY_ABOVE = 2, GPUCOLL_RELAY_ONLY = 0 };

static inline GPUCOLL_HD bool gpucoll_relay_is_ring(uint32_t flow)
{
    return flow <= GPUCOLL_RELAY_ALLGATHER;
}

static inline GPUCOLL_HD uint32_t gpucoll_relay_connections(uint32_t flow)
{
    return flow == GPUCOLL_RELAY_TREE ? 3 : 1;
}

static inline GPUCOLL_HD bool gpucoll_relay_is_scan(uint32_t flow)
{
    return flow == GPUCOLL_RELAY_SCAN || flow == GPUCOLL_RELAY_EXSCAN;
}

/* Steps of a ring; a chain or tree is one. */
static inline GPUCOLL_HD uint32_t gpucoll_relay_steps(uint32_t flow, uint32_t nranks)
{
    return flow == GPUCOLL_RELAY_ALLREDUCE ? 2 * nranks - 1 : gpucoll_relay_is_ring(flow) ? nranks : 1;
}

static inline GPUCOLL_HD uint32_t gpucoll_relay_parts(uint32_t flow, uint32_t protocol)
{
    return gpucoll_relay_is_ring(flow) && protocol == GPUCOLL_RELAY_SIMPLE ? GPUCOLL_RELAY_RING_PARTS : 1;
}

/* Packs that a slot has room for. */
static inline GPUCOLL_HD uint32_t gpucoll_relay_slot_packs(uint32_t flow, uint32_t protocol, uint32_t channels,
                                                           uint64_t data_bytes)
{
    const uint32_t slots = channels * gpucoll_relay_connections(flow) * GPUCOLL_RELAY_SLOTS;
    if (protocol == GPUCOLL_RELAY_LL) {
        return (uint32_t)GPUCOLL_LL_BYTES / slots / 256 * 8;
    }
    if (protocol == GPUCOLL_RELAY_LL128) {
        return GPUCOLL_RELAY_LL128_BYTES / slots / GPUCOLL_LINE_BYTES * GPUCOLL_LINE_PACKS;
    }
    const uint64_t packs = data_bytes / slots / 128 * 8;
    return packs < GPUCOLL_RELAY_MOST_PIECE ? (uint32_t)packs : (uint32_t)GPUCOLL_RELAY_MOST_PIECE;
}

/* Where a slot of connection `end` starts in the lane of the receiver. */
static inline GPUCOLL_HD size_t gpucoll_relay_slot_offset(uint32_t flow, uint32_t protocol, uint32_t channel,
                                                          uint32_t end, uint32_t slot, uint32_t slot_packs)
{
    const size_t index = ((size_t)channel * gpucoll_relay_connections(flow) + end) * GPUCOLL_RELAY_SLOTS + slot;
    if (protocol == GPUCOLL_RELAY_LL) {
        return GPUCOLL_FLAG_BYTES + index * slot_packs * 2 * GPUCOLL_PACK_BYTES;
    }
    if (protocol == GPUCOLL_RELAY_LL128) {
        return GPUCOLL_FLAG_BYTES + GPUCOLL_LL_BYTES + index * (slot_packs / GPUCOLL_LINE_PACKS) * GPUCOLL_LINE_BYTES;
    }
    return GPUCOLL_FLAG_BYTES + GPUCOLL_LL_BYTES + GPUCOLL_LL128_BYTES + index * slot_packs * GPUCOLL_PACK_BYTES;
}

/* Packs of a piece along chains and trees over Simple. Each rank but the first and the last holds a piece back, and each piece takes a fence and
 * flags: that is least where pieces and their number grow alike, by the square root of the channel's share, up to a size. */
static inline GPUCOLL_HD uint64_t gpucoll_relay_chain_piece(uint64_t share)
{
    uint64_t piece = 8;
    for (uint64_t left = share; left >= 4; left /= 4) {
        piece *= 2;
    }
    return piece < GPUCOLL_RELAY_MOST_CHAIN_PIECE ? piece : (uint64_t)GPUCOLL_RELAY_MOST_CHAIN_PIECE;
}

/*
 * What a channel has of a block: even channels share its first half, odd ones, which go the other way round, the second. So in which order
 * an element is reduced depends on its place alone, not on how many channels there are, which calls that overlap have fewer of.
 * A single channel has all: calls of more have an even number of them.
 */
static inline GPUCOLL_HD void gpucoll_relay_range(uint64_t bytes, uint32_t channels, uint32_t channel,
                                                  uint64_t *begin, uint64_t *end)
{
    const uint64_t packs = (bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    const uint64_t first = channels == 1 ? packs : packs - packs / 2;
    const uint32_t odd = channel % 2;
    const uint64_t half = odd ? packs - first : first;
    gpucoll_channel_range(half * GPUCOLL_PACK_BYTES, (channels + 1 - odd) / 2, channel / 2, begin, end);
    *begin += odd ? first : 0;
    *end += odd ? first : 0;
}

/* The packs of the longest such share. */
static inline GPUCOLL_HD uint64_t gpucoll_relay_share(uint64_t packs, uint32_t channels)
{
    const uint32_t pairs =
        channels > 1 ? channels / 2 * 2 : 1; /* of an odd number the first half has a channel more */
    const uint64_t padded = packs + pairs - 1;
    return padded >> 32 == 0 ? (uint32_t)padded / pairs : padded / pairs;
}

/* How blocks are cut. A function of what all ranks know alike. */
struct gpucoll_relay_cut {
    uint32_t slot_packs;
    uint32_t piece_packs;
    uint32_t pieces; /* of the longest share of any channel */
    uint32_t parts;  /* of these that make a step */
    uint32_t total;  /* pieces over a connection, empty ones among them */
};

static inline GPUCOLL_HD struct gpucoll_relay_cut gpucoll_relay_cut_of(uint32_t flow, uint32_t protocol, uint32_t nranks,
                                                                       uint64_t bytes, uint32_t channels,
                                                                       uint64_t data_bytes)
{
    struct gpucoll_relay_cut cut;
    const uint64_t packs = (bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    const uint64_t share = gpucoll_relay_share(packs, channels);
    uint64_t piece = share;
    cut.slot_packs = gpucoll_relay_slot_packs(flow, protocol, channels, data_bytes);
    cut.parts = gpucoll_relay_parts(flow, protocol);
    if (protocol == GPUCOLL_RELAY_SIMPLE) {
        piece = gpucoll_relay_is_ring(flow) ? (share + GPUCOLL_RELAY_RING_PARTS - 1) / GPUCOLL_RELAY_RING_PARTS
                                            : gpucoll_relay_chain_piece(share);
        piece = piece < GPUCOLL_RELAY_LEAST_PIECE ? (uint64_t)GPUCOLL_RELAY_LEAST_PIECE : piece;
    }
    cut.piece_packs = piece < cut.slot_packs ? (uint32_t)piece : cut.slot_packs;
    cut.pieces = cut.piece_packs == 0 ? 0 : (uint32_t)((share + cut.piece_packs - 1) / cut.piece_packs);
    const uint32_t rounds = (cut.pieces + cut.parts - 1) / cut.parts;
    cut.total = gpucoll_relay_is_ring(flow) ? rounds * (gpucoll_relay_steps(flow, nranks) - 1) * cut.parts : cut.pieces;
    return cut;
}

/* Epochs of a lane that the call takes. */
static inline GPUCOLL_HD uint32_t gpucoll_relay_passes(uint32_t protocol, const struct gpucoll_relay_cut *cut)
{
    const uint32_t passes = (cut->total + GPUCOLL_RELAY_SLOTS - 1) / GPUCOLL_RELAY_SLOTS;
    return protocol == GPUCOLL_RELAY_SIMPLE || passes == 0 ? 1 : passes;
}

/*
 * Two binary trees over n ranks, such that no rank is inner in both ("Two-tree algorithms for full bandwidth broadcast, reduction and
 * scan", Sanders, Speck, Träff 2009). Nodes are numbered 1 to n in order, so that odd numbers are leaves; a node's height is the
 * number of zeros that its number ends in. In the second tree all ranks are moved by one place: what was odd is even there, except
 * that the first rank becomes the last node, and that was a leaf in the first tree.
 */
static inline GPUCOLL_HD uint32_t gpucoll_tree_node(uint32_t rank, uint32_t tree, uint32_t nranks)
{
    return tree == 0 ? rank + 1 : rank == 0 ? nranks : rank;
}

static inline GPUCOLL_HD uint32_t gpucoll_tree_rank(uint32_t node, uint32_t tree, uint32_t nranks)
{
    return tree == 0 ? node - 1 : node == nranks ? 0 : node;
}

/* Nodes; 0: there is none. */
static inline GPUCOLL_HD uint32_t gpucoll_tree_above(uint32_t node, uint32_t nranks)
{
    const uint32_t low = node & (0u - node);
    if (low * 2 > nranks) {
        return 0; /* the only one of its height is the root */
    }
    const uint32_t above = (node ^ low) | low << 1;
    return above <= nranks ? above : node ^ low;
}

static inline GPUCOLL_HD uint32_t gpucoll_tree_left(uint32_t node)
{
    const uint32_t low = node & (0u - node);
    return low == 1 ? 0 : node - low / 2;
}

static inline GPUCOLL_HD uint32_t gpucoll_tree_right(uint32_t node, uint32_t nranks)
{
    uint32_t step = (node & (0u - node)) / 2;
    while (step > 0 && node + step > nranks) {
        step /= 2;
    }
    return step == 0 ? 0 : node + step;
}

/* One end of a connection that a step uses. */
struct gpucoll_relay_end {
    uint32_t peer; /* position */
    uint32_t end;  /* of the receiver: which of its connections */
};

struct gpucoll_relay_step {
    uint32_t block;
    uint32_t piece; /* of that block; may lie past its end, it is empty then */
    uint32_t sources;
    uint32_t targets;
    struct gpucoll_relay_end from[2];
    struct gpucoll_relay_end to[2];
    uint32_t received; /* pieces that came before over each of the connections from the sources */
    uint32_t sent;     /* and went to the targets */
    bool reads;        /* the own part */
    bool writes;       /* the outcome to the user's buffer */
    bool keeps;        /* or what came, of its single source, without the own part: never both */
};

/* The steps of one channel, one after the other. */
struct gpucoll_relay_walk {
    uint32_t flow;
    uint32_t rank; /* position; if reversed, counted the other way round */
    uint32_t nranks;
    bool reversed;
    uint32_t tree;
    uint32_t pieces;
    uint32_t parts;
    uint32_t turn; /* round of the step that comes next; in a tree the piece that goes up */
    uint32_t step;  /* in a tree: 0 up, 1 down */
    uint32_t part;
    uint32_t received;
    uint32_t sent;
};

static inline GPUCOLL_HD struct gpucoll_relay_walk gpucoll_relay_begin(uint32_t flow, uint32_t rank, uint32_t nranks,
                                                                       uint32_t channel,
                                                                       const struct gpucoll_relay_cut *cut)
{
    struct gpucoll_relay_walk walk;
    const bool odd = channel % 2 != 0;
    walk.flow = flow;
    walk.reversed = odd && flow != GPUCOLL_RELAY_TREE && !gpucoll_relay_is_scan(flow);
    walk.rank = walk.reversed && rank > 0 ? nranks - rank : rank;
    walk.nranks = nranks;
    walk.tree = odd ? 1 : 0;
    walk.pieces = cut->pieces;
    walk.parts = cut->parts;
    walk.turn = walk.step = walk.part = 0;
    walk.received = walk.sent = 0;
    return walk;
}

/* The position that the walk counts as `rank`, which may be up to 2 n - 1. */
static inline GPUCOLL_HD uint32_t gpucoll_relay_position(const struct gpucoll_relay_walk *walk, uint32_t rank)
{
    rank = rank < walk->nranks ? rank : rank - walk->nranks;
    return walk->reversed && rank > 0 ? walk->nranks - rank : rank;
}

/* What a step round a ring, or along a chain, does with the user's buffers: `done` steps or ranks have had the piece before, `last` is the last one's
 * number. */
static inline GPUCOLL_HD void gpucoll_relay_work(const struct gpucoll_relay_walk *walk, uint32_t done, uint32_t last,
                                                 struct gpucoll_relay_step *step)
{
    const uint32_t n = walk->nranks;
    step->block = 0;
    switch (walk->flow) {
    case GPUCOLL_RELAY_ALLREDUCE:
    case GPUCOLL_RELAY_REDUCE_SCATTER:
        step->reads = done < n;
        step->writes = done + 1 >= n;
        step->block = gpucoll_relay_position(walk, (walk->rank + 2 * n - 1 - done) % n);
        break;
    case GPUCOLL_RELAY_ALLGATHER:
        step->reads = done == 0;
        step->writes = true;
        step->block = gpucoll_relay_position(walk, walk->rank + n - done);
        break;
    case GPUCOLL_RELAY_BCAST:
        step->reads = done == 0;
        step->writes = done > 0;
        break;
    case GPUCOLL_RELAY_SCAN:
        step->reads = true;
        step->writes = true;
        break;
    case GPUCOLL_RELAY_EXSCAN:
        step->reads = done < last;
        step->writes = done > 0 && done == last; /* there it has nothing of its own to add */
        step->keeps = done > 0 && done < last;
        break;
    default:
        step->reads = true;
        step->writes = done == last;
        break;
    }
}

/* Round a ring, or along a chain. */
static inline GPUCOLL_HD bool gpucoll_relay_next_round(struct gpucoll_relay_walk *walk, struct gpucoll_relay_step *step)
{
    const uint32_t n = walk->nranks;
    const uint32_t steps = gpucoll_relay_steps(walk->flow, n);
    const bool ring = gpucoll_relay_is_ring(walk->flow);
    /* How far along its way the piece is: by steps of the ring, by ranks of the chain. */
    const uint32_t first = walk->flow == GPUCOLL_RELAY_REDUCE ? 1 : 0;
    const uint32_t done = ring ? walk->step : walk->rank >= first ? walk->rank - first : n - 1;
    const uint32_t last = ring ? steps - 1 : n - 1;
    if (walk->turn * walk->parts >= walk->pieces || (walk->flow == GPUCOLL_RELAY_EXSCAN && n == 1)) {
        return false; /* the exscan of one rank has nothing to send, and no result */
    }
    step->piece = walk->turn * walk->parts + walk->part;
    step->sources = done > 0;
    step->targets = done < last;
    step->from[0].peer = gpucoll_relay_position(walk, walk->rank + n - 1);
    step->to[0].peer = gpucoll_relay_position(walk, walk->rank + 1);
    step->from[0].end = step->to[0].end = GPUCOLL_RELAY_ONLY;
    step->received = walk->received;
    step->sent = walk->sent;
    gpucoll_relay_work(walk, done, last, step);
    walk->received += step->sources;
    walk->sent += step->targets;
    if (++walk->part == walk->parts) {
        walk->part = 0;
        if (++walk->step == steps) {
            walk->step = 0;
            walk->turn++;
        }
    }
    return true;
}

/* The own node's neighbours in the tree. */
static inline GPUCOLL_HD void gpucoll_relay_add(const struct gpucoll_relay_walk *walk, uint32_t node, uint32_t end,
                                                struct gpucoll_relay_end *ends, uint32_t *count)
{
    if (node != 0) {
        struct gpucoll_relay_end *next = *count == 0 ? &ends[0] : &ends[1];
        next->peer = gpucoll_tree_rank(node, walk->tree, walk->nranks);
        next->end = end;
        ++*count;
    }
}

/*
 * Piece k goes up from the children to the node above; at the root it turns and goes down at once. LAG steps later it comes down.
 * That is free of circles: put up(k) of a node of height h at time A k + h, and down(k) of a node of depth d at A (k + LAG) + B + d,
 * with B above every height and A above B and every depth. Each step then waits for earlier ones only: for a child's up(k) or the
 * parent's down(k), for the step before it, and for the credit of piece k - SLOTS: an up at the parent, a down at a child, which,
 * as seen from the root that sends in up(k), is earlier since LAG < SLOTS.
 */
static inline GPUCOLL_HD bool gpucoll_relay_next_tree(struct gpucoll_relay_walk *walk, struct gpucoll_relay_step *step)
{
    const uint32_t node = gpucoll_tree_node(walk->rank, walk->tree, walk->nranks);
    const uint32_t above = gpucoll_tree_above(node, walk->nranks);
    for (; walk->turn < walk->pieces + GPUCOLL_RELAY_LAG; walk->turn += walk->step, walk->step ^= 1) {
        const bool up = walk->step == 0;
        if (up ? walk->turn >= walk->pieces : above == 0 || walk->turn < GPUCOLL_RELAY_LAG) {
            continue;
        }
        step->block = 0;
        step->piece = up ? walk->turn : walk->turn - GPUCOLL_RELAY_LAG;
        step->received = step->sent = step->piece;
        step->reads = up;
        step->writes = !up || above == 0;
        step->sources = step->targets = 0;
        if (up) {
            gpucoll_relay_add(walk, gpucoll_tree_left(node), GPUCOLL_RELAY_LEFT, step->from, &step->sources);
            gpucoll_relay_add(walk, gpucoll_tree_right(node, walk->nranks), GPUCOLL_RELAY_RIGHT, step->from,
                              &step->sources);
            gpucoll_relay_add(walk, above, node < above ? GPUCOLL_RELAY_LEFT : GPUCOLL_RELAY_RIGHT, step->to,
                              &step->targets);
        } else {
            gpucoll_relay_add(walk, above, GPUCOLL_RELAY_ABOVE, step->from, &step->sources);
        }
        if (!up || above == 0) {
            gpucoll_relay_add(walk, gpucoll_tree_left(node), GPUCOLL_RELAY_ABOVE, step->to, &step->targets);
            gpucoll_relay_add(walk, gpucoll_tree_right(node, walk->nranks), GPUCOLL_RELAY_ABOVE, step->to,
                              &step->targets);
        }
        walk->turn += walk->step;
        walk->step ^= 1;
        return true;
    }
    return false;
}

/* The step that comes next; false: there is none. */
static inline GPUCOLL_HD bool gpucoll_relay_next(struct gpucoll_relay_walk *walk, struct gpucoll_relay_step *step)
{
    step->keeps = false;
    return walk->flow == GPUCOLL_RELAY_TREE ? gpucoll_relay_next_tree(walk, step)
                                            : gpucoll_relay_next_round(walk, step);
}

#endif
