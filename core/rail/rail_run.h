/*
 * What the algorithms of a rail are made of. When a run starts, its algorithm writes down this rank's program: messages sent and received,
 * each a run of bytes of the data. The run then carries it out, as much at once as the program's sense allows:
 *
 *   cells    The data is cut in segments, each a cell. Messages of one cell depend on each other as if they were carried out one after the
 *            other in the program's order; messages of different cells do not. A cell may also hold more than one segment
 *            (`one_cell`), or no data at all: it is a name for what depends on each other.
 *   queues   Messages to one rank, or from one, of one flow keep their order, which both sides' programs have alike. Flows tell apart
 *            what one side may be ready to send long before the other part (the way up and the way down a tree).
 *
 * So large messages are sent, received and reduced at the same time, and an algorithm is a few loops. A receive that reduces goes to scratch
 * memory ahead of time; what arrived is then reduced into the data when the earlier messages of its cell are complete.
 * Of the two operands, that of the lower rank (the own one, or that it was received from) is the left one.
 */
#ifndef GPUCOLL_RAIL_RUN_H
#define GPUCOLL_RAIL_RUN_H

#include "core/rail/rail.h"

enum {
    /* Large enough that the cost of a message does not count beside its bytes, small enough that a segment stays in a core's second
     * cache from its arrival to its reduction. */
    GPUCOLL_RAIL_SEGMENT = 256 << 10,
    GPUCOLL_RAIL_ALIGN = 64,  /* of segments: whole elements of every type, whole cache lines */
    GPUCOLL_RAIL_WINDOW = 8,  /* messages of a queue under way */
    GPUCOLL_RAIL_QUEUES = 64, /* of a run: more than 3 log2 of the most ranks that a tag can name */
    GPUCOLL_RAIL_FLOWS = 4,   /* a power of two */
    GPUCOLL_RAIL_NONE = 0xffffffff
};

/* Some bytes of the data: segment after segment is in cell after cell. */
struct gpucoll_rail_range {
    uint64_t offset;
    uint64_t bytes;
    uint32_t cell; /* of the first */
};

enum gpucoll_rail_receive {
    GPUCOLL_RAIL_PLACE,  /* to its place, when the cell's earlier messages are complete */
    GPUCOLL_RAIL_FRESH,  /* to its place, which no earlier message touches */
    GPUCOLL_RAIL_COMBINE /* reduced with what is there */
};

struct gpucoll_rail_step;
struct gpucoll_rail_cell;
struct gpucoll_rail_flight;

/* Messages to a rank or from a rank, of one flow. */
struct gpucoll_rail_queue {
    uint32_t peer;
    uint32_t flow;
    bool receives;
    uint32_t next; /* step to start, and the last one */
    uint32_t last;
    uint32_t steps;
    uint32_t combines; /* of them */
    uint32_t started;
    uint32_t finished;
    uint32_t window;
    struct gpucoll_rail_flight *flights; /* a ring of `window` */
};

struct gpucoll_rail_run {
    struct gpucoll_rail *rail;
    struct gpucoll_rail_args args;
    uint32_t number;
    gpucoll_status status;         /* of the making of the program */
    struct gpucoll_rail_run *next; /* of those that ended */

    /* What an algorithm may set before its first message. */
    uint32_t segment; /* bytes, a multiple of GPUCOLL_RAIL_ALIGN */
    bool one_cell;    /* all messages are in cell 0 */

    struct gpucoll_rail_range *ranges; /* by rank: gpucoll_rail_cut */
    uint32_t max_ranges;

    struct gpucoll_rail_step *steps;
    uint32_t nsteps;
    uint32_t max_steps;
    struct gpucoll_rail_cell *cells;
    uint32_t ncells;
    uint32_t max_cells;
    struct gpucoll_rail_queue queues[GPUCOLL_RAIL_QUEUES];
    uint32_t nqueues;
    uint32_t unfinished; /* steps */
    const struct gpucoll_rail_queue *
        awaited; /* of those whose next message is still under way; receives first; or of one that has failed */

    struct gpucoll_rail_flight *flights;
    uint32_t max_flights;
    char *scratch; /* slots that receives combine from */
    uint64_t scratch_bytes;
};

/* ---- for algorithms: a failure is kept in `status` ---- */

void gpucoll_rail_send(struct gpucoll_rail_run *run, uint32_t flow, uint32_t to,
                       struct gpucoll_rail_range range);
void gpucoll_rail_receive(struct gpucoll_rail_run *run, uint32_t flow, uint32_t from,
                          struct gpucoll_rail_range range, enum gpucoll_rail_receive how);
/* Messages without data, in cell 0. */
void gpucoll_rail_signal(struct gpucoll_rail_run *run, uint32_t to);
void gpucoll_rail_await(struct gpucoll_rail_run *run, uint32_t from);
/* Fills in `ranges`, one a rank: the call's blocks, or the data cut in equal parts. False if there is no memory for it. */
bool gpucoll_rail_cut(struct gpucoll_rail_run *run);

/* All of the data. */
static inline struct gpucoll_rail_range gpucoll_rail_all(const struct gpucoll_rail_run *run)
{
    return (struct gpucoll_rail_range){0, run->args.bytes, 0};
}

/* ---- of the run ---- */

/* Forgets the last program. */
void gpucoll_rail_run_reset(struct gpucoll_rail_run *run);
/* The program is written: gets memory and starts what can start. */
gpucoll_status gpucoll_rail_run_begin(struct gpucoll_rail_run *run) GPUCOLL_CHECKED;
/* Moves on what can move: GPUCOLL_IN_PROGRESS, or final. */
gpucoll_status gpucoll_rail_run_move(struct gpucoll_rail_run *run) GPUCOLL_CHECKED;
void gpucoll_rail_run_cancel(struct gpucoll_rail_run *run);
/* Notes that a run has messages to that rank, or from it. */
void gpucoll_rail_meet(struct gpucoll_rail *rail, uint32_t rank);
/* A rank to or from which a message has failed; else one that a message is to come from; else one that has not taken what was sent; else the own. */
uint32_t gpucoll_rail_run_missing(const struct gpucoll_rail_run *run);
void gpucoll_rail_run_free(struct gpucoll_rail_run *run);

/* ---- the algorithms ---- */

struct gpucoll_rail_row {
    enum gpucoll_rail_coll coll;
    enum gpucoll_rail_algorithm algorithm;
    void (*program)(struct gpucoll_rail_run *run); /* of two ranks or more */
    /* Nanoseconds, by the model below; `bytes`: of all the data. Integers: the same on all machines. */
    uint64_t (*cost)(uint32_t size, uint64_t bytes);
};

extern const struct gpucoll_rail_row gpucoll_rail_doubling_rows[]; /* the last has no program */
extern const struct gpucoll_rail_row gpucoll_rail_ring_rows[];
extern const struct gpucoll_rail_row gpucoll_rail_tree_rows[];
extern const struct gpucoll_rail_row gpucoll_rail_scan_rows[];
extern const struct gpucoll_rail_row gpucoll_rail_ordered_rows[];

#endif
