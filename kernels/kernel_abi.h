/*
 * What passes between the host and a collective kernel, for CUDA kernels (kernels/) and for the host kernels
 * that stand in for them without a GPU (core/accel/host_kernels.c). Plain C, includes nothing of gpucoll.
 *
 * A *lane* is the scratch memory of one call on one rank: peers store into it, only its owner reads it. The owner
 * picks a free lane before it tells its peers that it has arrived, so whatever a peer stores belongs to this call.
 * An *epoch* is a number that the owner raises each time it uses the lane, and by more than one where a call uses places again
 * (relay_abi.h); data and flags of older calls carry older epochs and are never taken for new ones.
 *
 *   lane:  | flags | LL area | LL128 area | data area |
 *
 *   flags      one uint64_t for each (phase, channel, source rank). Written by the source with a release store of
 *              system scope after its data stores; read by the owner with acquire loads. Value: epoch << 32 | round + 1.
 *              It only grows within a call, so a reader waits for "at least".
 *   LL area    GPUCOLL_LL_BYTES / nranks bytes for each source rank. Every 8-byte word in it is, for ever, a pair
 *              (4 bytes of data, 4 bytes of epoch) written by one 8-byte store: a word is complete when its epoch is
 *              this call's. (LL protocol, "Demystifying NCCL", table I.)
 *   LL128 area lines of 128 bytes: seven packs of data and one pack of which the first word is an epoch, stored by
 *              eight threads of one warp at once. A link that keeps such a store whole (NVLink) makes a line complete when
 *              its epoch is this call's. Two parts (inputs, results) of one block for each source rank.
 *              (LL128 protocol, "Demystifying NCCL", table I.)
 *   data area  cut evenly among the channels; in a channel two slots (round modulo 2); in a slot `nranks` input
 *              blocks, one for each source, then `nranks` result blocks, one for each source. (An exchange has no
 *              results, and larger input blocks instead.)
 */
#ifndef GPUCOLL_KERNEL_ABI_H
#define GPUCOLL_KERNEL_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define GPUCOLL_HD __host__ __device__
#else
#define GPUCOLL_HD
#endif

enum {
    GPUCOLL_MAX_LOCAL = 32,     /* ranks of one kernel */
    GPUCOLL_MAX_CHANNELS = 128, /* CTAs of one kernel */
    /* SMs come in pairs that share their way to the links. Up to FEW CTAs of a large GPU have a pair each; of some more, a few pairs would have
     * two, and all others wait for these. So there are FEW at most, or MANY with half as many threads each, which need no more SMs
     * to be resident than the few do. */
    GPUCOLL_FEW_CTAS = 64,
    GPUCOLL_MANY_CTAS = 2 * GPUCOLL_FEW_CTAS,
    GPUCOLL_CREW_CTAS = 32,    /* of a lingering kernel, at most */
    GPUCOLL_BELL_MAX_RANKS = 30, /* likewise; bell_abi.h */
    GPUCOLL_MAX_THREADS = 512, /* of a CTA; leaves each thread the registers for several packs in flight */
    GPUCOLL_SERVICE_THREADS =
        64, /* of a CTA of RELAY over Simple, and of TWOSHOT_DIRECT: they wait and flag. With them a CTA has at least */
    GPUCOLL_LEAST_SERVED_THREADS = GPUCOLL_SERVICE_THREADS + 32,
    GPUCOLL_PACK_BYTES = 16, /* unit of work of one thread; whole elements of every type */
    GPUCOLL_LAID_BYTES = 4,  /* what MOVE_LAYOUTS moves at once where the bytes of a pack lie apart */
    GPUCOLL_LINE_PACKS = 7,  /* of data in a line of LL128 */
    GPUCOLL_LINE_BYTES = 128,
    GPUCOLL_STREAM_BATCH = 4,       /* of LL128 between two ranks: rows that a thread works on at once, */
    GPUCOLL_STREAM_LEAST_ROWS = 20, /* that must have room, */
    GPUCOLL_STREAM_MOST_LINES = 1 << 28, /* and lines of a message: its packs are counted by 32 bits */
    GPUCOLL_PHASES = 2,
    GPUCOLL_SLOTS = 2,
    GPUCOLL_BULK_GROUPS = 2, /* of four warps, that reduce, in a CTA of REDUCE_BULK */
    GPUCOLL_BULK_THREADS = 64 + GPUCOLL_BULK_GROUPS * 128, /* with the two warps that ask for copies */
    GPUCOLL_BULK_SHARED_BYTES =
        208 << 10, /* its tiles, and those of STORE: most of what an SM has, so that it keeps enough in flight */
    GPUCOLL_BULK_MAX_TILE = 8 << 10,
    GPUCOLL_BULK_LEAST_STAGES = 6,
    GPUCOLL_BULK_MAX_STAGES = 16,
    GPUCOLL_INBOX_BYTES = 8 << 10, /* of a message that inboxes take, at most */
    GPUCOLL_COURIER_BYTES = 256, /* that FETCH and DELIVER take at most */
    GPUCOLL_COURIER_CHUNK = 12,  /* of them in a chunk of a bell */
    GPUCOLL_COURIER_CHUNKS = (GPUCOLL_COURIER_BYTES + GPUCOLL_COURIER_CHUNK - 1) / GPUCOLL_COURIER_CHUNK
};

#define GPUCOLL_FLAG_BYTES ((size_t)GPUCOLL_PHASES * GPUCOLL_MAX_CHANNELS * GPUCOLL_MAX_LOCAL * 8)
#define GPUCOLL_LL_BYTES ((size_t)8 << 20)
#define GPUCOLL_LL128_BYTES ((size_t)14 << 20)

enum gpucoll_kernel {
    GPUCOLL_KERNEL_ONESHOT,       /* allreduce, LL: every rank sends all to all and reduces all */
    GPUCOLL_KERNEL_ONESHOT_EARLY, /* the same of one CTA, rung for before it is known whether all ranks make the call; the same entry */
    GPUCOLL_KERNEL_SWAP_LL128,    /* allreduce of two ranks, LL128: they swap their messages, each reduces all */
    GPUCOLL_KERNEL_TWOSHOT_LL128, /* allreduce, LL128: reduce-scatter then all-gather, by stores only */
    GPUCOLL_KERNEL_TWOSHOT,       /* the same over Simple, in rounds */
    GPUCOLL_KERNEL_MOVE_LL,       /* exchange of runs, LL: what arrives is copied; takes no functor */
    GPUCOLL_KERNEL_MOVE_LAYOUTS,  /* MOVE_LL of runs that have layouts (layout_abi.h) */
    GPUCOLL_KERNEL_MOVE_LL128,    /* exchange of runs, LL128 */
    GPUCOLL_KERNEL_MOVE,          /* the same over Simple, in rounds */
    GPUCOLL_KERNEL_REDUCE_LL,     /* exchange of runs, LL: what arrives is reduced in rank order */
    GPUCOLL_KERNEL_REDUCE_LL128,  /* the same, LL128 */
    GPUCOLL_KERNEL_REDUCE,        /* the same over Simple, in rounds */
    GPUCOLL_KERNEL_STORE,         /* run[p].send to run[p].recv, which is a place of rank p that this device reaches; no functor */
    GPUCOLL_KERNEL_SPREAD,        /* the same of one send to all, which may lie with a peer, and is loaded once; the same entry */
    GPUCOLL_KERNEL_REDUCE_BULK,   /* reduces what lies in the buffers of all ranks, in rank order, into those of all that want it */
    GPUCOLL_KERNEL_TWOSHOT_DIRECT, /* TWOSHOT, but results go to where they belong in the buffers of all ranks */
    GPUCOLL_KERNEL_RELAY,         /* rings, chains and trees over any protocol: kernels/relay_abi.h; without a reduction, any functor */
    GPUCOLL_KERNEL_REDUCE_BLOCKS, /* no exchange: reduces blocks that lie there, in rank order; waits for nobody */
    GPUCOLL_KERNEL_FETCH,         /* no exchange: a few bytes of this device's memory to the host; no functor, waits for nobody */
    GPUCOLL_KERNEL_DELIVER,       /* the other way; the same entry */
    GPUCOLL_KERNEL_COUNT
};

static inline GPUCOLL_HD bool gpucoll_kernel_is_exchange(uint32_t kernel)
{
    return kernel >= GPUCOLL_KERNEL_MOVE_LL && kernel <= GPUCOLL_KERNEL_RELAY;
}

static inline GPUCOLL_HD bool gpucoll_kernel_has_functor(uint32_t kernel)
{
    const bool moves = kernel >= GPUCOLL_KERNEL_MOVE_LL && kernel <= GPUCOLL_KERNEL_MOVE;
    return !moves && kernel != GPUCOLL_KERNEL_STORE && kernel != GPUCOLL_KERNEL_SPREAD && kernel != GPUCOLL_KERNEL_FETCH &&
           kernel != GPUCOLL_KERNEL_DELIVER;
}

/* Does it reduce the runs that arrive in its lane? */
static inline GPUCOLL_HD bool gpucoll_kernel_reduces_runs(uint32_t kernel)
{
    return kernel == GPUCOLL_KERNEL_REDUCE_LL || kernel == GPUCOLL_KERNEL_REDUCE_LL128 ||
           kernel == GPUCOLL_KERNEL_REDUCE;
}

/* Does it have the shared memory for tiles, where the GPU moves in bulk? Then it reaches into peers' buffers, where nobody waits for it: of a
 * crew the last CTA tells the end, and what was given up does not begin (linger.cuh). */
static inline GPUCOLL_HD bool gpucoll_kernel_has_tiles(uint32_t kernel)
{
    return kernel == GPUCOLL_KERNEL_STORE || kernel == GPUCOLL_KERNEL_SPREAD || kernel == GPUCOLL_KERNEL_REDUCE_BULK;
}

/* Does it look, before it stores to buffers that may be peers', whether it was given up while it stood behind another one? (So may TWOSHOT_DIRECT, which
 * does not: docs/design.md.) REDUCE, where all stages are one launch. */
static inline GPUCOLL_HD bool gpucoll_kernel_asks_first(uint32_t kernel)
{
    return gpucoll_kernel_has_tiles(kernel) || kernel == GPUCOLL_KERNEL_REDUCE;
}

/* Do its CTAs wait for nobody, whatever its stages? (Those of a crew wait for each other when they leave.) */
static inline GPUCOLL_HD bool gpucoll_kernel_is_free(uint32_t kernel)
{
    return gpucoll_kernel_has_tiles(kernel) || kernel == GPUCOLL_KERNEL_REDUCE_BLOCKS || kernel == GPUCOLL_KERNEL_FETCH ||
           kernel == GPUCOLL_KERNEL_DELIVER;
}

/* Do so many threads of one CTA do such a call without a second turn? Up to a pack for each, of what goes to all peers if it is moved, else of what is
 * reduced; lines of LL128 are for several CTAs. Of a crew that lingers the first CTA then does it alone, and the first warp if that has
 * threads enough; the cost model counts on it. */
static inline GPUCOLL_HD bool gpucoll_leader_suffices(uint32_t kernel, uint64_t bytes, uint32_t nranks, uint32_t threads)
{
    const uint64_t packs = (bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    switch (kernel) {
    case GPUCOLL_KERNEL_ONESHOT:
    case GPUCOLL_KERNEL_ONESHOT_EARLY:
    case GPUCOLL_KERNEL_REDUCE_LL:
        return packs <= threads;
    case GPUCOLL_KERNEL_MOVE_LL:
        return packs * (nranks > 1 ? nranks - 1 : 1) <= threads;
    case GPUCOLL_KERNEL_MOVE_LAYOUTS: /* what a rank keeps takes other warps as long as what it sends */
        return packs * nranks + 32 <= threads;
    default:
        return false;
    }
}

/* Stages of the two-shot kernel, and of an exchange and ONESHOT, which have the first two. Set together, one launch does everything and waits for peers inside; set one by
 * one, with a barrier of the hosts between launches, no kernel ever waits: for ranks that share one GPU. */
enum {
    GPUCOLL_STAGE_SEND = 1,   /* store each peer's slice into its lane */
    GPUCOLL_STAGE_REDUCE = 2, /* reduce the own slice, store the result into every lane; exchange: take what has arrived */
    GPUCOLL_STAGE_COPY = 4,   /* copy the result to the receive buffer */
    GPUCOLL_STAGE_ALL = 7
};

/* What the CTAs of a kernel with a gate tell each other. */
enum gpucoll_gate_word {
    GPUCOLL_GATE_RESIDENT, /* how many have come */
    GPUCOLL_GATE_SAID,     /* what the host has said */
    GPUCOLL_GATE_HEARD,    /* how many have read that */
    GPUCOLL_GATE_WORDS
};

/* `abort` of a status once more, for CTAs that look at it before they begin: loads of the same line of host memory by several SMs are done one after the
 * other, a microsecond each (docs/design-linger.md). */
enum { GPUCOLL_BEGIN_LINES = 64 };

struct gpucoll_begin_line {
    uint32_t abort;
    uint32_t unused[31];
};

/* Host memory that the device can reach, aligned to 16 bytes, one for each stream of a device. */
struct gpucoll_kernel_status {
    /* Written by the host; a kernel at its gate reads them at once. */
    uint32_t abort; /* non-zero makes every wait in a kernel give up */
    uint32_t go;    /* done_value of a kernel with a gate: go on, for the kernels of all ranks are ready */
    uint32_t leave; /* likewise: end */
    uint32_t unused;
    /* Written by the kernel. */
    uint32_t done;       /* by its last CTA: args.done_value, after all results are visible */
    uint32_t stuck_rank; /* when it gave up: 1 + the rank it was waiting for */
    uint32_t left;       /* when it lingered and ends: the done_value of the last call it ran */
    /* By the CTAs after the first, when their part of a call that CTAs of a lingering kernel share is done: its done_value. Of crews of up to
     * 8 the host then looks at one line. Not of kernels that have tiles: of these the last CTA says `done`, as of one that does not linger. */
    uint32_t done_beside[GPUCOLL_CREW_CTAS - 1];
    /* If it has a gate, its done_value: */
    uint32_t began;     /* a CTA of it is resident */
    uint32_t ready;     /* all are, and none has stored anything */
    uint32_t retreated; /* by its last CTA instead of `done`: it has been told to end, and has */
    uint32_t sent;      /* ONESHOT_EARLY, when it gave up by itself: its done_value. All that it sends is sent, which is not to be done twice: who has it all may be done */
    /* FETCH: four bytes each, and above them its done_value: a word says itself that it is there. */
    uint64_t fetched[GPUCOLL_COURIER_BYTES / 4];
    /* Written by the host: CTA i of a kernel that is not to begin when it was given up looks at line i, and so on from the first again. */
    struct gpucoll_begin_line begin[GPUCOLL_BEGIN_LINES];
};

/* By the host: kernels of the stream give up; 0 takes that back. */
static inline void gpucoll_status_abort(struct gpucoll_kernel_status *status, uint32_t abort)
{
    __atomic_store_n(&status->abort, abort, __ATOMIC_RELEASE);
    for (int i = 0; i < GPUCOLL_BEGIN_LINES; i++) {
        __atomic_store_n(&status->begin[i].abort, abort, __ATOMIC_RELEASE);
    }
}

/* A rank of the call: where its lane is, as this rank's device sees it, and the epoch its owner gave it for this call. */
struct gpucoll_kernel_peer {
    void *lane;
    uint32_t epoch;
    uint32_t number; /* RELAY: its rank, to be named if it is waited for in vain */
};

struct gpucoll_bell; /* kernels/bell_abi.h */

/* Begins as a bell does, so that a lingering kernel puts what it has heard straight into its arguments: `send` and the low half of
 * `bytes` are chunk 0, `recv`, `kernel`, `crew_ctas` and `variant` are chunk 1, peer[i] is chunk 2 + i of which only the first 12 bytes are taken. */
struct gpucoll_kernel_args {
    const void *send; /* any alignment; may equal recv */
    uint64_t bytes;   /* of the whole message, a multiple of the element size */
    void *recv;       /* any alignment; TWOSHOT_LL128: NULL for who does not want the result */
    uint16_t kernel;  /* enum gpucoll_kernel: several kernels may be one entry */
    uint8_t crew_ctas; /* with a bell: the first so many CTAs share this call */
    uint8_t variant;   /* of the suite (functors.h) */
    uint32_t done_value;
    struct gpucoll_kernel_status *status; /* as the device sees it */
    const struct gpucoll_bell *bell;      /* likewise, by CTA; NULL: the kernel ends after this call */
    int64_t linger_clocks; /* with a bell: how long the kernel waits for another call after each */
    uint32_t *arrived;     /* device memory, zero between kernels: counts the CTAs that are finished */
    uint32_t *gate; /* likewise, enum gpucoll_gate_word; NULL: the kernel does not ask the host before it begins */
    uint64_t *crew; /* likewise, with a bell: a word of each CTA, by which they agree to leave (linger.cuh) */
    uint64_t data_bytes;   /* size of the data area of each lane, a multiple of 4096 */
    uint64_t round_begin;  /* two-shot: rounds [begin, end) of every channel; end = ~0 means all */
    uint64_t round_end;
    uint32_t rank;
    uint32_t nranks;
    uint16_t stages;
    uint8_t relay_flow;     /* RELAY: enum gpucoll_relay_flow */
    uint8_t relay_protocol; /* and enum gpucoll_relay_protocol */
    uint32_t ll_plane;      /* gpucoll_ll_capacity(nranks), for which a kernel would have to divide */
    struct gpucoll_kernel_peer peer[GPUCOLL_MAX_LOCAL]; /* by rank; filled up to nranks */
};

/*
 * REDUCE_BLOCKS takes the same arguments, some with other meanings: peer[i].lane is the block that rank i has brought, in memory of this
 * rank's device; the own part is `send`. All are args.bytes long, begin at any byte, and are fastest at multiples of 16. The result
 * goes to `recv`, which is `send` or one of the blocks, or apart from all of them.
 */

/*
 * FETCH and DELIVER take the same arguments, too: `nranks` is GPUCOLL_COURIER_CHUNKS, so that one crew takes both, and `rank` 0. FETCH: args.bytes
 * from `send` to status->fetched. DELIVER: args.bytes to `recv`; they are in the arguments, or the bell, themselves, GPUCOLL_COURIER_CHUNK of them at
 * peer[i].lane and peer[i].epoch.
 */

/*
 * Second argument of the exchange kernels: what this rank and each other one, or this rank and itself, send each other.
 *
 *   MOVE    run[p] goes to rank p, and what comes from rank p goes to run[p].recv. The own run is copied from send to recv.
 *   REDUCE  what comes from the ranks with recv_bytes, and run[rank].send if it has bytes, is reduced in rank order into
 *           run[rank].recv; all these have run[rank].recv_bytes. run[p].recv of other ranks is not used.
 *
 *   MOVE_LAYOUTS   both ends of run[p] may have a layout, in memory of this device: then the bytes lie as it says, from that end on as the address
 *           of element 0. All its offsets, lengths and strides, the run's bytes and that address are multiples of GPUCOLL_LAID_BYTES.
 *
 *   STORE   run[p].send goes straight to run[p].recv, the receive buffer of rank p as this device sees it; both have send_bytes. Nobody waits.
 *
 *   SPREAD  the same; all runs with bytes send the same, which may lie in the memory of a peer.
 *
 *   REDUCE_BULK   run[p].send of all ranks p, places in their buffers as this device sees them, is reduced in rank order and put to run[p].recv of all
 *           ranks that have one. All have args.bytes and begin at multiples of 16 bytes. run[p].recv may be run[p].send. Nobody waits.
 *
 *   TWOSHOT_DIRECT   run[p].recv is where rank p wants the whole result, as this device sees it, at a multiple of 16 bytes; no more of the runs is used.
 *
 *   RELAY   run[p] is a block: what this rank has for it, and where it goes on this rank; both have send_bytes.
 *
 * The bytes that rank a sends to b are those that b receives from a. args.bytes are those of the longest run of any rank. A place
 * that is received into is apart from all that is sent, or it is, in MOVE the same bytes as what is sent to the same rank, and in
 * REDUCE the same bytes as any run that is sent.
 */
struct gpucoll_kernel_run {
    const void *send; /* any alignment */
    void *recv;
    uint64_t send_bytes;
    uint64_t recv_bytes;
};

struct gpucoll_layout_view;

struct gpucoll_run_layouts {
    const struct gpucoll_layout_view *send; /* NULL: one byte behind the other */
    const struct gpucoll_layout_view *recv;
};

struct gpucoll_kernel_runs {
    struct gpucoll_kernel_run run[GPUCOLL_MAX_LOCAL];        /* by rank; filled up to nranks */
    struct gpucoll_run_layouts layouts[GPUCOLL_MAX_LOCAL];   /* likewise, for MOVE_LAYOUTS only */
};

/* Bytes of the arguments that are filled. */
static inline GPUCOLL_HD size_t gpucoll_kernel_args_bytes(uint32_t nranks)
{
    return offsetof(struct gpucoll_kernel_args, peer) + nranks * sizeof(struct gpucoll_kernel_peer);
}

static inline GPUCOLL_HD size_t gpucoll_kernel_runs_bytes(uint32_t nranks)
{
    return nranks * sizeof(struct gpucoll_kernel_run);
}

static inline GPUCOLL_HD size_t gpucoll_run_layouts_bytes(uint32_t kernel, uint32_t nranks)
{
    return kernel == GPUCOLL_KERNEL_MOVE_LAYOUTS ? nranks * sizeof(struct gpucoll_run_layouts) : 0;
}

/* Bytes of one lane with a data area of `data_bytes`. */
static inline GPUCOLL_HD size_t gpucoll_lane_bytes(size_t data_bytes)
{
    return GPUCOLL_FLAG_BYTES + GPUCOLL_LL_BYTES + GPUCOLL_LL128_BYTES + data_bytes;
}

static inline GPUCOLL_HD size_t gpucoll_flag_index(uint32_t phase, uint32_t channel, uint32_t source)
{
    return ((size_t)phase * GPUCOLL_MAX_CHANNELS + channel) * GPUCOLL_MAX_LOCAL + source;
}

static inline GPUCOLL_HD uint64_t gpucoll_flag_value(uint32_t epoch, uint64_t round)
{
    return ((uint64_t)epoch << 32) | (uint32_t)(round + 1);
}

/* How many bytes of data the LL words of a source in a lane can carry, which is a plane of them, and where they start. (Divisions of 32 bits: those
 * of 64 take a kernel a hundred instructions.) */
static inline GPUCOLL_HD size_t gpucoll_ll_capacity(uint32_t nranks)
{
    return (uint32_t)GPUCOLL_LL_BYTES / nranks / 64 * 64 / 2;
}

static inline GPUCOLL_HD size_t gpucoll_ll_offset(size_t plane, uint32_t source)
{
    return GPUCOLL_FLAG_BYTES + 2 * plane * source;
}

/*
 * An *inbox* stands for a lane in one-shot all-reduces of up to GPUCOLL_INBOX_BYTES of one team, call after call, so that its peers know where it is
 * before they are told (core/early.h). It has no more than an LL area, whose planes are shorter: so are, of a message that short, those of
 * the area of a lane. As of a lane, what is given as its place is GPUCOLL_FLAG_BYTES before its lines.
 */
static inline GPUCOLL_HD uint32_t gpucoll_oneshot_plane(uint64_t bytes, uint32_t ll_plane)
{
    return bytes <= GPUCOLL_INBOX_BYTES ? (uint32_t)GPUCOLL_INBOX_BYTES : ll_plane;
}

/* Lines of LL128 that one rank's slice of a message takes, and the most there is room for. */
static inline GPUCOLL_HD uint64_t gpucoll_ll128_lines(uint64_t bytes, uint32_t nranks)
{
    uint64_t packs = (bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES + nranks - 1;
    uint64_t slice = packs >> 32 == 0 ? (uint32_t)packs / nranks : packs / nranks;
    return (slice + GPUCOLL_LINE_PACKS - 1) / GPUCOLL_LINE_PACKS;
}

static inline GPUCOLL_HD uint32_t gpucoll_ll128_capacity(uint32_t nranks)
{
    return (uint32_t)(GPUCOLL_LL128_BYTES / GPUCOLL_LINE_BYTES) / (2 * nranks);
}

/*
 * Between two ranks one peer has the whole area, from (0, 0) on, and uses it again and again (kernels/line_stream.cuh): a thread takes one
 * line of each row, a row has so many lines as there are threads for, and so many rows find room.
 */
static inline GPUCOLL_HD uint32_t gpucoll_stream_rows(uint32_t row)
{
    return (uint32_t)(GPUCOLL_LL128_BYTES / GPUCOLL_LINE_BYTES) / row / GPUCOLL_STREAM_BATCH *
           GPUCOLL_STREAM_BATCH;
}

/*
 * Lines of a message that find room whatever the row. Only then may the ranks have different rows: one launches more CTAs than linger on the other
 * (core/call_plan.c). Where places are used again, rows are part of what both have agreed on.
 */
static inline GPUCOLL_HD uint32_t gpucoll_stream_room(void)
{
    return (uint32_t)(GPUCOLL_LL128_BYTES / GPUCOLL_LINE_BYTES) /
           (GPUCOLL_STREAM_LEAST_ROWS + GPUCOLL_STREAM_BATCH) * GPUCOLL_STREAM_LEAST_ROWS;
}

/* The most CTAs with whose rows there are enough of them. */
static inline GPUCOLL_HD uint32_t gpucoll_stream_ctas(uint32_t threads)
{
    return (uint32_t)(GPUCOLL_LL128_BYTES / GPUCOLL_LINE_BYTES) / GPUCOLL_STREAM_LEAST_ROWS / (threads / 8);
}

/* Lines that a run of an exchange may have. */
static inline GPUCOLL_HD uint32_t gpucoll_ll128_run_capacity(uint32_t nranks)
{
    return nranks > 2 ? gpucoll_ll128_capacity(nranks) : (uint32_t)GPUCOLL_STREAM_MOST_LINES;
}

/* Where line 0 of (part, source) starts in a lane; part 0 is input, part 1 is result. */
static inline GPUCOLL_HD size_t gpucoll_ll128_offset(uint32_t nranks, uint32_t part, uint32_t source)
{
    return GPUCOLL_FLAG_BYTES + GPUCOLL_LL_BYTES +
           (size_t)(part * nranks + source) * gpucoll_ll128_capacity(nranks) * GPUCOLL_LINE_BYTES;
}

/* Bytes of one block of a slot: the most that one rank's slice can have in one round of one channel. */
static inline GPUCOLL_HD size_t gpucoll_block_bytes(size_t data_bytes, uint32_t nranks, uint32_t channels)
{
    return data_bytes / channels / ((size_t)GPUCOLL_SLOTS * 2 * nranks) / 128 * 128;
}

/* Where block (channel, slot, part, source) starts in a lane; part 0 is input, part 1 is result. */
static inline GPUCOLL_HD size_t gpucoll_block_offset(size_t data_bytes, uint32_t nranks, uint32_t channels,
                                                     uint32_t channel, uint32_t slot, uint32_t part,
                                                     uint32_t source)
{
    size_t block = gpucoll_block_bytes(data_bytes, nranks, channels);
    size_t index = (((size_t)channel * GPUCOLL_SLOTS + slot) * 2 + part) * nranks + source;
    return GPUCOLL_FLAG_BYTES + GPUCOLL_LL_BYTES + GPUCOLL_LL128_BYTES + index * block;
}

/* The same for an exchange, which has no results: bytes of a block, and where the block of `source` starts in a lane. */
static inline GPUCOLL_HD size_t gpucoll_exchange_block_bytes(size_t data_bytes, uint32_t nranks, uint32_t channels)
{
    return data_bytes / channels / ((size_t)GPUCOLL_SLOTS * nranks) / 128 * 128;
}

static inline GPUCOLL_HD size_t gpucoll_exchange_block_offset(size_t data_bytes, uint32_t nranks, uint32_t channels,
                                                              uint32_t channel, uint32_t slot, uint32_t source)
{
    size_t block = gpucoll_exchange_block_bytes(data_bytes, nranks, channels);
    size_t index = ((size_t)channel * GPUCOLL_SLOTS + slot) * nranks + source;
    return GPUCOLL_FLAG_BYTES + GPUCOLL_LL_BYTES + GPUCOLL_LL128_BYTES + index * block;
}

/* Bytes of a tile of REDUCE_BULK: a stage of its shared memory has one of each rank, and there are several stages. */
static inline GPUCOLL_HD uint32_t gpucoll_bulk_tile_bytes(uint32_t nranks)
{
    const uint32_t most = (uint32_t)GPUCOLL_BULK_SHARED_BYTES / GPUCOLL_BULK_LEAST_STAGES / nranks / 1024 * 1024;
    return most < GPUCOLL_BULK_MAX_TILE ? most : (uint32_t)GPUCOLL_BULK_MAX_TILE;
}

/* Each stage belongs to one group, which gets every GPUCOLL_BULK_GROUPS-th tile: of two groups that took turns at a stage, one could be there a whole
 * turn before its tile, while the other still waits for its own, and take the turn before for its own (a wait knows turns by their parity). */
static inline GPUCOLL_HD uint32_t gpucoll_bulk_stages(uint32_t nranks)
{
    const uint32_t stages = (uint32_t)GPUCOLL_BULK_SHARED_BYTES / (gpucoll_bulk_tile_bytes(nranks) * nranks) /
                            GPUCOLL_BULK_GROUPS * GPUCOLL_BULK_GROUPS;
    return stages < GPUCOLL_BULK_MAX_STAGES ? stages : (uint32_t)GPUCOLL_BULK_MAX_STAGES;
}

/* The packs [begin, end) of a message that a channel works on. */
static inline GPUCOLL_HD void gpucoll_channel_range(uint64_t bytes, uint32_t channels, uint32_t channel,
                                                    uint64_t *begin, uint64_t *end)
{
    uint64_t packs = (bytes + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    /* As above: by 32 bits wherever they suffice. */
    uint64_t each = packs >> 32 == 0 ? (uint32_t)packs / channels : packs / channels;
    uint64_t extra = packs - each * channels;
    *begin = each * channel + (channel < extra ? channel : extra);
    *end = *begin + each + (channel < extra ? 1 : 0);
}

#endif
