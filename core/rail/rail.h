/*
 * A rail: one rank of each host of a team, and collectives of host memory among them, over the network. This is the middle stage of a
 * collective of several hosts (core/cluster/cluster.h): the ranks of one host have divided the data among them, each takes its part along its
 * own rail.
 *
 * A run is one such collective; several may be under way on a rail at once, if all its ranks start them in the same order. Nothing waits: start,
 * then test until it no longer says GPUCOLL_IN_PROGRESS; testing turns the network's progress. A run's memory belongs to it until then.
 * Every rank of a rail gets the same bits, whatever the algorithm: where two operands meet, that from the lower host comes first.
 * Thread safety: runs of one rail are serialised by the caller.
 *
 * Algorithms (coll_gpucoll_rail_algorithm), with h hosts and n bytes:
 *   recursive doubling   log2 h messages of n bytes; few bytes. Hosts beyond a power of two fold theirs in first (Rabenseifner 2004).
 *                        bcast, reduce: binomial trees; allgather, reduce_scatter, barrier: dissemination
 *                        (Bruck et al. 1997); scans: Hillis and Steele 1986
 *   ring                 2 (h - 1) messages of n / h bytes; many bytes (Patarasu and Yuan 2009). bcast, reduce, scans: a chain of hosts
 *   double binary tree   2 trees of n / 2 bytes, no host inner in both; many hosts (Sanders, Speck and Traff 2009)
 *   ordered              a chain of ranks up and down, of n bytes each; for sums in the order of ranks (core/rail/rail_ordered.c)
 */
#ifndef GPUCOLL_RAIL_H
#define GPUCOLL_RAIL_H

#include "core/base/sizes.h"
#include "ucx_tl/net.h"

enum gpucoll_rail_coll {
    GPUCOLL_RAIL_ALLREDUCE, /* data: n bytes in, the sum out */
    GPUCOLL_RAIL_REDUCE,    /* data: n bytes in; at the root the sum out, elsewhere undefined */
    GPUCOLL_RAIL_BCAST,     /* data: n bytes, of the root */
    GPUCOLL_RAIL_ALLGATHER, /* data: the blocks of all ranks, one behind the other; the own is in its place */
    GPUCOLL_RAIL_REDUCE_SCATTER, /* data: a block for each rank; the own one becomes the sum, the rest undefined */
    GPUCOLL_RAIL_BARRIER,        /* no data */
    GPUCOLL_RAIL_SCAN,           /* data: n bytes in, the sum of those of the ranks up to this one out */
    GPUCOLL_RAIL_EXSCAN          /* data: n bytes in; at gpucoll_rail_second(n) the sum of the ranks before */
                                 /* this one out, of rank 0 undefined */
};

enum gpucoll_rail_algorithm {
    GPUCOLL_RAIL_AUTO,
    GPUCOLL_RAIL_DOUBLING,
    GPUCOLL_RAIL_RING,
    GPUCOLL_RAIL_TREE, /* of allreduce, reduce and bcast; else as AUTO. Nor has barrier a ring */
    GPUCOLL_RAIL_ORDERED /* of allreduce, reduce and reduce_scatter: sums in the order of ranks. Never what AUTO takes */
};

/* To whom a rail's runs have sent, and by which ties of the network (a bit for each). */
struct gpucoll_rail_sent {
    uint8_t *ties;   /* by rank; NULL: to nobody so far */
    uint32_t *ranks; /* so many that are not 0 there */
    uint32_t count;
};

struct gpucoll_rail {
    const struct gpucoll_net_ops *ops;
    struct gpucoll_net *net;
    uint32_t rank; /* of this host, from 0 */
    uint32_t size;
    uint32_t id;                    /* of this rank, for tags of what comes to it */
    struct gpucoll_net_peer **peer; /* by rank; the own: NULL */
    uint32_t *peer_id;              /* by rank */
    uint32_t runs;                  /* started */
    struct gpucoll_rail_run *ended; /* kept with their memory for the next ones; NULL at first */
    struct gpucoll_rail_sent sent;  /* since it was forgotten last */
    bool *met; /* by rank: has any run had messages to it or from it? NULL: none so far */
};

struct gpucoll_rail_args {
    enum gpucoll_rail_coll coll;
    enum gpucoll_rail_algorithm algorithm; /* AUTO: by size and hosts; the same on all ranks */
    int functor;   /* gpucoll_functor; of those that reduce. Blocks are whole elements */
    uint32_t root; /* of bcast and reduce */
    void *data;
    uint64_t bytes; /* of allreduce, reduce, bcast */
    const uint64_t
        *blocks; /* bytes of each rank's block, of allgather and reduce_scatter; stays until the end */
    /* Of bcast and allgather: which has the data, if that is on a device. NULL: it is in host memory */
    struct gpucoll_net_memory *memory;
    /* Where each rank's block is, of an allgather whose messages have a block each; stays as well. NULL: as above. Other ranks of the rail may
     * have it otherwise */
    char *const *places;
};

struct gpucoll_rail_run;

/* GPUCOLL_OK and a run, or out of memory. */
gpucoll_status gpucoll_rail_start(struct gpucoll_rail *rail, const struct gpucoll_rail_args *args,
                                  struct gpucoll_rail_run **run) GPUCOLL_CHECKED;
/* GPUCOLL_IN_PROGRESS; GPUCOLL_OK, and the run is gone; or an error, and gpucoll_rail_cancel is to end it: that may take seconds, so there is time to
 * tell others before. `*missing` is a rank that is waited for or, with an error, to or from which a message failed. */
gpucoll_status gpucoll_rail_test(struct gpucoll_rail_run *run, uint32_t *missing) GPUCOLL_CHECKED;
/* How much is left to do of a run that is under way, in steps of its program. */
uint32_t gpucoll_rail_left(const struct gpucoll_rail_run *run);
/* Gives up: no message touches `data` any more, the run is gone. Harmless on NULL. */
void gpucoll_rail_cancel(struct gpucoll_rail_run *run);
/* Has any run of the rail had messages to that rank, or from it, so that that one may wait for this rank? */
bool gpucoll_rail_has_met(const struct gpucoll_rail *rail, uint32_t rank);
/* As if such a run had been started: with whom it would be counts as met. */
void gpucoll_rail_foresee(struct gpucoll_rail *rail, const struct gpucoll_rail_args *args);
/* Notes a message that has been started, to that rank of the rail; runs do so themselves. Without memory it is not noted, so nobody waits for it. */
void gpucoll_rail_note(struct gpucoll_rail *rail, uint32_t to, const struct gpucoll_net_message *message);
/* Has what was noted and is done left this process (`drained` of ucx_tl/net.h)? Forgets what has. */
bool gpucoll_rail_drained(struct gpucoll_rail *rail);
/* Forgets all that was noted. */
void gpucoll_rail_forget(struct gpucoll_rail *rail);
/* Frees what is kept for runs to come; none is under way. The rail may be used on. */
void gpucoll_rail_close(struct gpucoll_rail *rail);

/* Where the second half of an exscan's data begins. */
static inline uint64_t gpucoll_rail_second(uint64_t bytes)
{
    return gpucoll_round_up(bytes, 64); /* on a cache line of its own: elements of every type are aligned */
}

/* May blocks lie apart from each other, on ranks where that is so: is every message of such a run a block, or a part of one? */
bool gpucoll_rail_keeps_blocks(const struct gpucoll_rail *rail, const struct gpucoll_rail_args *args);

/* By the name that coll_gpucoll_rail_algorithm has for it. */
enum gpucoll_rail_algorithm gpucoll_rail_named(const char *name);

/* The nanoseconds by which AUTO compares; 0: this collective has no such algorithm. `size` and `bytes` as below. */
uint64_t gpucoll_rail_cost(enum gpucoll_rail_coll coll, enum gpucoll_rail_algorithm algorithm, uint32_t size,
                           uint64_t bytes);

/* What AUTO takes for `bytes` of data (with blocks: of all of them) of `size` ranks. */
enum gpucoll_rail_algorithm gpucoll_rail_choose(enum gpucoll_rail_coll coll, uint32_t size, uint64_t bytes);

#endif
