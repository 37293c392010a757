/*
 * A sequence of calls which all ranks of a communicator count alike, and the engine's team that runs them. A
 * communicator has one for its blocking and nonblocking calls, which MPI wants in the same order on all ranks;
 * each persistent request has one of its own, since MPI lets ranks start these in any order.
 *
 * The sequences of a communicator get their teams one after the other, in the order in which they were wanted,
 * without anybody waiting: calls that come meanwhile wait in theirs. While there are such, the communicator stays, even if it is
 * freed: messages of it may be under way.
 *
 * With coll_gpucoll_warmup, a communicator's sequence is connected when the communicator is made. Its first call is then a
 * warm-up of the engine (core/gpucoll.h), which a rank posts as soon as its process uses a GPU, and passes if its first call comes
 * before that: so all ranks count it. In MPI_Init rehearsals follow it, so that the application's first call finds everything as later ones do.
 * Functions are to be called with gpucoll_enter held (coll_gpucoll_request.h), unless they say otherwise.
 */
#ifndef COLL_GPUCOLL_SEQUENCE_H
#define COLL_GPUCOLL_SEQUENCE_H

#include <stdbool.h>
#include "core/queue.h"

struct gpucoll_module;
struct gpucoll_outer;

/* May calls of this sequence run on the engine? The same on every rank at every call, once it is neither CONNECTING nor WARMING. */
enum gpucoll_native_state {
    GPUCOLL_NATIVE_OFF,
    GPUCOLL_NATIVE_UNTRIED, /* the first call that could will make the team */
    GPUCOLL_NATIVE_CONNECTING,
    GPUCOLL_NATIVE_WARMING, /* the team is made; the warm-up is neither posted nor passed */
    GPUCOLL_NATIVE_READY,
};

/* How long something has waited, as the watchdog knows it (coll_gpucoll_watch.h). */
struct gpucoll_waiting {
    uint64_t since_ns; /* 0: not looked at yet */
    int what;
    bool said;
};

/* The first of them launches a kernel, the next two are given to it while it lingers. */
enum { GPUCOLL_REHEARSALS = 3 };
_Static_assert(1 + GPUCOLL_REHEARSALS <= GPUCOLL_POSTED_AHEAD, "room for what MPI_Init posts");

struct gpucoll_sequence {
    struct gpucoll_module *module;
    struct gpucoll_outer *owner; /* the persistent request; NULL: the communicator's sequence */
    enum gpucoll_native_state state;
    int error;   /* MPI error code: the team could not be made, and not because the ranks decided so */
    bool able;   /* this rank wants a team */
    bool begun;  /* it is this one's turn to connect */
    bool posted; /* this rank has posted a call: from then on it no longer passes */
    bool warms;  /* the first call of this sequence is the warm-up */
    bool lacked; /* memory, for a call that is still to be forsaken */
    struct gpucoll_waiting waiting;
    unsigned pass; /* of progress that has looked at the queue */
    struct gpucoll_team *team;
    struct gpucoll_queue queue;
    struct gpucoll_task warmups[1 + GPUCOLL_REHEARSALS]; /* the warm-up, and the rehearsals behind it */
    bool attended;                                       /* MPI_Init waits for them, and does nothing else */
    uint64_t warming_since_ns;
    struct gpucoll_sequence *next_warming; /* whose warm-up has not ended */
    struct gpucoll_sequence *next;         /* that waits for its turn */
    struct gpucoll_sequence *newer;        /* in the list of those that have a team */
    struct gpucoll_sequence *older;
};

/* For threads that hold no lock: what READY stands for is seen with it. */
static inline enum gpucoll_native_state gpucoll_sequence_state(const struct gpucoll_sequence *sequence)
{
    return __atomic_load_n(&sequence->state, __ATOMIC_ACQUIRE);
}

/* Begins to make the sequence's team: collective, in the same order on all ranks. */
void gpucoll_sequence_connect(struct gpucoll_sequence *sequence, bool able);
/* The same for a communicator that is being made: the first progress begins, and there is a warm-up. */
void gpucoll_sequence_warm(struct gpucoll_sequence *sequence);
/* WARMING ends: the first call of this rank has come. */
void gpucoll_sequence_heat(struct gpucoll_sequence *sequence);
/* A call of this rank has come: the team is made if none has tried, and WARMING ends. */
void gpucoll_sequence_want(struct gpucoll_sequence *sequence);
/* This rank has no memory for a call. Forsakes it as soon as the team is made. */
void gpucoll_sequence_lack(struct gpucoll_sequence *sequence);
/* Moves the making of teams, and warm-ups, on. */
void gpucoll_sequences_progress(void);
/* Is there something to move? */
bool gpucoll_sequences_pending(void);
/* Communicators with sequences that wait for their team, by `next_connecting`. */
struct gpucoll_module *gpucoll_sequences_connecting(void);

/* As gpucoll_forsake, where the team is made. Needs no gpucoll_enter. */
void gpucoll_sequence_forsake(struct gpucoll_sequence *sequence);

/* Gives the team up, made or not; no call of this sequence runs natively any more. */
void gpucoll_sequence_close(struct gpucoll_sequence *sequence);
void gpucoll_sequences_open(void);
/* The same for all sequences, also those to come: MPI_Finalize has begun. */
void gpucoll_sequences_close(void);

#endif
