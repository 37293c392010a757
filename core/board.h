/*
 * The board: one shared memory segment a process, in which it tells the processes of its host what it is doing.
 * A header with one card for each GPU it has bound, then one region for each of its teams, then shelves.
 *
 * Everything here but `gathered` is written by the owner alone and read by its peers. Cache lines are separated by reader pattern.
 */
#ifndef GPUCOLL_BOARD_H
#define GPUCOLL_BOARD_H

#include <stdatomic.h>
#include <stdint.h>
#include "core/base/segment.h"
#include "ucx_tl/tl.h"

enum {
    GPUCOLL_BOARD_CARDS = 16, /* GPUs that one process can bind */
    GPUCOLL_BOARD_EXPORTS =
        128, /* allocations of the application that peers can map at once: two of a reduction in bulk, one of a broadcast */
    GPUCOLL_BOARD_TEAMS = 4096, /* teams that one process can hold at once */
    GPUCOLL_BARRIER_LINES = 8,  /* of a team that tell of its barriers: one a reader, on hosts of eight GPUs */
    GPUCOLL_RING = 4,           /* calls a rank can be ahead of the slowest reader of its posts */
    GPUCOLL_CARRY_BYTES = 256,  /* of a call that one rank brings: the size of an entry of `places`; */
    GPUCOLL_SHELF_BYTES = 4096, /* of a team that has a shelf */
    GPUCOLL_BOARD_SHELVES = 72, /* of a process; memory, used or not: 64 KiB for every four */
    GPUCOLL_BOARD_RESTING = 8   /* of them, and of regions, that are not taken, so that one given back is not the next that is */
};

/* What a rank brings to one call. Without buffers there is no lane either. */
enum gpucoll_post_kind {
    GPUCOLL_POST_DEVICE = 1,  /* all buffers are device memory and a lane is held */
    GPUCOLL_POST_DECLINED,    /* something else: the call is not run natively */
    GPUCOLL_POST_LANE_FOLLOWS, /* device memory, but no lane yet: it is offered when all ranks have posted */
    GPUCOLL_POST_INBOX /* device memory, and an inbox (core/early.h): if not all ranks have one, the lane is offered likewise */
};

/* One cache line: each rank fetches those of all others in every call. */
enum gpucoll_post_direct {
    GPUCOLL_POST_NOT_DIRECT,
    GPUCOLL_POST_DIRECT,
    GPUCOLL_POST_ROOM /* and of an all-reduce or a reduce what is to be reduced may wait there: nothing that is sent lies there */
};

struct gpucoll_post {
    _Atomic uint32_t call; /* whose post this is, its lower bits: stored with release after all else */
    uint8_t kind;          /* enum gpucoll_post_kind */
    uint8_t company; /* enum gpucoll_company_kind and ..._APART (core/company.h): stored before the lane is told */
    uint8_t
        direct; /* enum gpucoll_post_direct: can peers write all that this rank receives from them to where it belongs? */
    uint8_t card;       /* index of the bound GPU's card in the owner's header; declined: a gpucoll_reason */
    uint32_t signature; /* of what must be equal on all ranks */
    uint32_t epoch;     /* the lane's, for this call */
    uint64_t lane;      /* offset of the lane in the card's scratch */
    uint64_t bytes;     /* of an exchange: the longest run that this rank sends or receives */
    uint64_t export;    /* key of the allocation that peers may write to; 0: none */
    uint64_t place;     /* where in it the receive buffer begins; for what a peer alone writes see `places` */
    uint64_t
        source; /* of a reduction that the kernel in bulk can do on these buffers, or of a broadcast's root: key of what peers may read; else 0 */
    union {
        uint64_t source_place; /* where in it the send buffer begins */
        uint64_t balance;      /* of an exchange with counts: see gpucoll_exchange_weight */
    };
};
_Static_assert(sizeof(struct gpucoll_post) == 64, "one cache line");

/* Ranks that were missing in a call, as the communicator counts them. */
struct gpucoll_missing {
    uint32_t gone;     /* not 0: the process of one has ended, or the connection to it has failed */
    uint32_t count;    /* more than are named may be */
    uint32_t rank[30]; /* in the order in which they were found */
};

struct gpucoll_board_count {
    _Alignas(64) _Atomic uint64_t value;
};

/*
 * One team on the owner's board.
 *   head         Calls counted so far, post number `head` included. Stored with release after the post it covers. Peers poll the post itself,
 *                which says what call it is of, and this now and then, for calls that were passed.
 *   active_from  The first call that this rank posted instead of passing; 0: none yet. Stored before the head of
 *                that call, so a reader that has seen head >= n knows whether call n was passed.
 *   broken       Non-zero once this rank has given up on the team: peers stop waiting for it. Stored with release after
 *   gave_up      the first call that it does not complete, and
 *   missing      the ranks for which it gave up.
 *   agreed       Calls whose posts this rank reads no more; a writer may reuse a ring entry once no active rank
 *                reads it.
 *   barriers     Barriers of the application that this rank has entered (core/barrier.c), in several lines, since readers of one have it one
 *                after the other: rank r reads number r modulo GPUCOLL_BARRIER_LINES.
 *   step         Host barriers of the calls in the ring. Entry [call % RING][k & 1] holds (call << 16 | k) << 1 | failed of
 *                barrier k = 1, 2, ... of that call. It is overwritten two barriers later, which nobody reaches before all have read
 *                it, or RING calls later, when all have ended the call.
 *   reach        How well this rank reaches its peers (core/agreement_links.c packs it), by call modulo GPUCOLL_RING. Stored before the
 *                barrier that ends connecting, read after it.
 *   near         Likewise: a bit for each rank to which it has a link that keeps lines whole, and
 *   near_reach   how well it reaches those.
 *   started      Calls whose algorithm this rank has started, by call modulo GPUCOLL_RING: who gives a call up reads from it which ranks
 *                have not. Overwritten RING calls later, when all have ended the call.
 *   gathered     Of the team's first rank, and written by all: call << 8 | ranks whose kernels are ready (core/gate.h), by call modulo
 *                GPUCOLL_RING. Everybody counts by compare-and-swap; what stands there of an older call is void.
 *   offered      call << 1 | whether there is a lane, by call modulo GPUCOLL_RING: stored with release after `lane` and `epoch` of a
 *                post that said LANE_FOLLOWS or INBOX.
 *   flow         Of a call that goes by copies, call << 24 | how many chunks or steps this rank has sent, and chunks reduced
 *                (core/pipeline.h).
 *   sent_at      When it had, of the latest two of these counts, by count modulo 2; core/pipeline.c packs it with the call and the count. Stored
 *                before `flow`.
 *   ring         The posts, by call modulo GPUCOLL_RING.
 *   places       Of an exchange whose post is `direct`: where in the exported allocation each peer's part goes.
 *   carried      Instead of that, of a call of several hosts with few bytes (core/cluster/cluster_carry.c): what this rank brings to it.
 *                What is longer is on the shelf that a team may have.
 *   brought      The number of that call, by call modulo GPUCOLL_RING: stored with release after what is carried.
 */
struct gpucoll_team_board {
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint64_t active_from;
    _Atomic uint64_t reach[GPUCOLL_RING];
    _Atomic uint64_t near_reach[GPUCOLL_RING];
    _Atomic uint32_t near[GPUCOLL_RING];
    _Atomic uint64_t started[GPUCOLL_RING];
    _Alignas(64) _Atomic uint32_t broken;
    uint64_t gave_up;
    struct gpucoll_missing missing;
    _Alignas(64) _Atomic uint64_t agreed;
    _Atomic uint64_t offered[GPUCOLL_RING];
    struct gpucoll_board_count barriers[GPUCOLL_BARRIER_LINES];
    _Alignas(64) _Atomic uint64_t step[GPUCOLL_RING][2];
    _Alignas(64) _Atomic uint64_t flow[GPUCOLL_RING][2];
    _Alignas(64) _Atomic uint64_t sent_at[GPUCOLL_RING][2];
    _Alignas(64) _Atomic uint64_t gathered[GPUCOLL_RING];
    _Alignas(64) struct gpucoll_post ring[GPUCOLL_RING];
    union {
        uint64_t places[GPUCOLL_RING][GPUCOLL_MAX_LOCAL];
        unsigned char carried[GPUCOLL_RING][GPUCOLL_CARRY_BYTES];
    };
    _Atomic uint64_t brought[GPUCOLL_RING];
};

/* Of a team of several hosts, where its ranks bring more than its region has room for. Regions of that size would take 64 MiB of every process. */
struct gpucoll_board_shelf {
    unsigned char carried[GPUCOLL_RING][GPUCOLL_SHELF_BYTES];
};

/* The key of an export that is the `number`-th made, from 1, and stands at `index` of its process's table: never 0, nor used again. */
static inline uint64_t gpucoll_export_key(uint64_t number, uint32_t index)
{
    return number * GPUCOLL_BOARD_EXPORTS + index;
}
static inline uint32_t gpucoll_export_index(uint64_t key)
{
    return key % GPUCOLL_BOARD_EXPORTS;
}

/* An allocation of the application. `key` is stored after the rest; a reader takes the rest between two looks at it. */
struct gpucoll_board_export {
    _Atomic uint64_t key; /* 0: none */
    struct gpucoll_memory_handle handle;
};

struct gpucoll_board_header {
    _Atomic uint32_t card_count; /* stored with release after the card */
    struct gpucoll_tl_card cards[GPUCOLL_BOARD_CARDS];
    struct gpucoll_board_export exports[GPUCOLL_BOARD_EXPORTS];
};

struct gpucoll_board {
    struct gpucoll_segment segment;
    struct gpucoll_board_header *header;
    uint64_t used[GPUCOLL_BOARD_TEAMS / 64]; /* bit set: region taken */
    uint32_t taken;                          /* how many are */
    uint32_t next;                           /* where the search for a free region starts */
    uint8_t shelves[GPUCOLL_BOARD_SHELVES];  /* those that are free, the longest first, in a ring: */
    uint64_t shelves_given;                  /* so many were put there, */
    uint64_t shelves_taken;                  /* and so many taken out */
};

gpucoll_status gpucoll_board_create(struct gpucoll_board *board,
                                    const struct gpucoll_log *log) GPUCOLL_CHECKED;
void gpucoll_board_close(struct gpucoll_board *board); /* harmless on a zeroed struct */

/* Takes a zeroed region; its index is what peers need. GPUCOLL_ERR_NO_MEMORY when but GPUCOLL_BOARD_RESTING are left. Caller serialises.
 * Regions are taken round robin: a rank may leave the last barrier of a team, and free the team, while a slower peer is still about to read
 * its arrival, so a region given back is the last to be taken again. */
gpucoll_status gpucoll_board_take(struct gpucoll_board *board, uint32_t *index) GPUCOLL_CHECKED;
void gpucoll_board_give(struct gpucoll_board *board, uint32_t index);

/* Takes a shelf; false when but GPUCOLL_BOARD_RESTING are left, which rest for the same reason. Caller serialises. */
bool gpucoll_board_take_shelf(struct gpucoll_board *board, uint32_t *index);
void gpucoll_board_give_shelf(struct gpucoll_board *board, uint32_t index);

/* Appends a card and returns its index, or -1 when the board is full. Caller serialises. */
int gpucoll_board_publish(struct gpucoll_board *board, const struct gpucoll_tl_card *card);

/* Puts an allocation into an entry, or with key 0 takes it out. Caller serialises. */
void gpucoll_board_export(struct gpucoll_board *board, uint32_t index, uint64_t key,
                          const struct gpucoll_memory_handle *handle);
/* Reads a peer's entry of that key; false if it is not there (any more). */
bool gpucoll_board_read_export(const struct gpucoll_segment *segment, uint64_t key,
                               struct gpucoll_memory_handle *handle);

/* Views of a board, own or a peer's. */
struct gpucoll_board_header *gpucoll_board_header(const struct gpucoll_segment *segment);
struct gpucoll_team_board *gpucoll_board_team(const struct gpucoll_segment *segment, uint32_t index);
struct gpucoll_board_shelf *gpucoll_board_shelf(const struct gpucoll_segment *segment, uint32_t index);

#endif
