/*
 * Statistics of the calls of a process, for MPI_T and for the summary at the end: a table with a row for every kind of call (which
 * collective, form and size class, which way it went), each with how often, how many bytes and how much time. Kept only
 * while somebody wants it: until then a call costs one branch that is always taken alike.
 *
 * The engine records what it has run; who stands above it records what went another way, and may count collectives of its own
 * from GPUCOLL_WARMUP on, which is never counted. No locks: threads that race on one row lose at most a count. Every word of
 * the table is read and written atomically.
 */
#ifndef GPUCOLL_STATS_H
#define GPUCOLL_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/base/clock.h"
#include "core/base/types.h"

/* The three forms of an MPI collective. */
enum gpucoll_form {
    GPUCOLL_FORM_BLOCKING,
    GPUCOLL_FORM_NONBLOCKING,
    GPUCOLL_FORM_PERSISTENT,
    GPUCOLL_FORM_COUNT
};
const char *gpucoll_form_name(enum gpucoll_form form);

/* Which way a call went. */
enum gpucoll_way {
    GPUCOLL_WAY_NATIVE, /* `detail` is the algorithm's index in the table of core/algorithms/algorithms.c */
    GPUCOLL_WAY_STAGED, /* on host copies, by the next component; `detail` is a gpucoll_reason */
    GPUCOLL_WAY_PASSED, /* on host memory, by the next component */
    GPUCOLL_WAY_COUNT
};
const char *gpucoll_way_name(enum gpucoll_way way);

/* Of a native call without an algorithm of its own. */
enum {
    GPUCOLL_DETAIL_BOARD = 252, /* a barrier of one host: by the ranks' posts alone */
    GPUCOLL_DETAIL_LOCAL = 253, /* of this process alone: a kernel that waits for nobody */
    GPUCOLL_DETAIL_HOSTS = 254, /* of several hosts: in stages, of which each has its own */
    GPUCOLL_DETAIL_COPY = 255   /* on one rank: a copy */
};

/* Why the engine did not run a call. */
enum gpucoll_reason {
    GPUCOLL_REASON_NONE,
    /* Agreed by the ranks: */
    GPUCOLL_REASON_PASSED,      /* a rank has no device memory */
    GPUCOLL_REASON_MEMORY,      /* a rank's buffers are not device memory of one GPU */
    GPUCOLL_REASON_LAYOUT,      /* a rank's buffers cannot be described to the engine */
    GPUCOLL_REASON_PACKING,     /* a rank has no device memory to pack in */
    GPUCOLL_REASON_OVERLAP,     /* a rank sends what it overwrites */
    GPUCOLL_REASON_GPU,         /* a rank's GPU could not be bound */
    GPUCOLL_REASON_LANES,       /* a rank has no free lane */
    GPUCOLL_REASON_LINKS,       /* some GPU cannot reach another */
    GPUCOLL_REASON_PLAN,        /* no algorithm can run it */
    GPUCOLL_REASON_GIVEN_UP,    /* an earlier call of the team has failed */
    GPUCOLL_REASON_HOST_MEMORY, /* a rank has no memory to note the call */
    GPUCOLL_REASON_SMALL,       /* too little for ranks of one machine that count as several hosts */
    GPUCOLL_REASON_COUNTS,      /* a rank expects another length than is sent to it */
    /* Known before the engine is asked: */
    GPUCOLL_REASON_TEAM, /* the communicator has no team */
    GPUCOLL_REASON_OPERAND, /* no kernel for this operator and type, no data, or a call such as Open MPI makes itself */
    GPUCOLL_REASON_FORM,      /* this collective, in this form, is not native on this communicator */
    GPUCOLL_REASON_PARAMETER, /* nor with these parameters */
    GPUCOLL_REASON_COUNT
};
const char *gpucoll_reason_text(enum gpucoll_reason reason);

/* What the calls of one row have in common. */
struct gpucoll_stats_key {
    uint8_t coll; /* enum gpucoll_coll, or beyond */
    uint8_t form;
    uint8_t way;
    uint8_t detail;
    uint8_t size_class; /* gpucoll_size_class(bytes), never 0 */
    uint8_t linger;
    uint16_t ctas;
};

/* Class c holds 2^(c - 2) to 2^(c - 1) - 1 bytes; class 1 no byte. */
static inline uint8_t gpucoll_size_class(uint64_t bytes)
{
    return (uint8_t)(bytes == 0 ? 1 : 65 - __builtin_clzll(bytes));
}

struct gpucoll_stats_row {
    uint64_t key; /* a gpucoll_stats_key; 0: free */
    uint64_t calls;
    uint64_t bytes;
    uint64_t waiting; /* ticks from the post until the last rank had arrived */
    uint64_t running; /* ticks from then on */
};

enum {
    GPUCOLL_STATS_ROWS = 512,
    GPUCOLL_STATS_COLLS = 48 /* collectives that can be told apart */
};

struct gpucoll_stats {
    bool on;
    uint64_t left_out; /* calls for which the table had no row */
    /* Counted always: calls that began before all ranks had been seen to make theirs (core/early.h). */
    unsigned long long early;
    /* Of the latest call of each collective: way and detail as key; 0: none yet. */
    uint16_t latest[GPUCOLL_STATS_COLLS];
    struct gpucoll_stats_row rows[GPUCOLL_STATS_ROWS];
};

/* Begins to keep statistics, which cannot be ended; to be called again at will. */
void gpucoll_stats_start(struct gpucoll_stats *stats);

static inline bool gpucoll_stats_on(const struct gpucoll_stats *stats)
{
    return __atomic_load_n(&stats->on, __ATOMIC_RELAXED);
}

/* Counts a call. Only while statistics are on. */
void gpucoll_stats_add(struct gpucoll_stats *stats, struct gpucoll_stats_key key, uint64_t bytes,
                       uint64_t waiting_ticks, uint64_t running_ticks);

/* A row as numbers; false if the row at `index` is free. */
struct gpucoll_stats_entry {
    struct gpucoll_stats_key key;
    uint64_t calls;
    uint64_t bytes;
    double waiting_us;
    double running_us;
};
bool gpucoll_stats_read(const struct gpucoll_stats *stats, int index, struct gpucoll_stats_entry *entry);

/* "twoshot/ll128", "staged", "passed". */
void gpucoll_stats_way(enum gpucoll_way way, uint8_t detail, char *text, size_t size);

#endif
