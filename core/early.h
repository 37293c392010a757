/*
 * Small all-reduces that begin before it is known whether all ranks make them.
 *
 * A small call is two waits one after the other: the hosts see each other's posts, half a microsecond and more, and then ring for their kernels, which
 * hear it after one. A team that makes the same small call again and again is expected to make it once more: its ranks ring first, then post, and
 * look at the posts while their kernels work (docs/design-linger.md, "Calls that begin early").
 *
 * What peers need to know before they are told: where to store. So each rank of such a team has an *inbox* (kernels/kernel_abi.h) of two halves,
 * which calls use in turn, and an epoch that goes with the number of the call. Posts say that a rank takes its inbox instead of a lane
 * (GPUCOLL_POST_INBOX); if all do, it is an all-reduce by oneshot/ll through the inboxes, begun early or not. If one does not, lanes are offered.
 *
 * When may a rank begin call n early? If call n - 1 was the same one through the inboxes and is complete here, and it has no other call under way; and
 * then it posts its inbox. So
 *   - what it stores is in nobody's way: a peer may still be in call n - 1, which uses the other half, but not in call n - 2: this rank has got from it
 *     what it sends in call n - 1, after the end of that;
 *   - if all ranks have begun early, all have posted the same call with their inboxes, so it is one that all make;
 *   - if one has not, and will not, no kernel gets all that it waits for, none has written a result, and all leave by themselves.
 */
#ifndef GPUCOLL_EARLY_H
#define GPUCOLL_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/plan/plan.h"
#include "kernels/kernel_abi.h"

struct gpucoll_gpu;
struct gpucoll_links;
struct gpucoll_request;
struct gpucoll_team;

/* The inboxes of a GPU lie behind its lanes. A unit is what one rank of a team needs, so that of four ranks find room for 32 teams. */
enum { GPUCOLL_INBOX_UNIT_BYTES = 2 * 2 * GPUCOLL_INBOX_BYTES, GPUCOLL_INBOX_UNITS = 128 };
#define GPUCOLL_INBOXES_BYTES ((size_t)GPUCOLL_INBOX_UNITS * GPUCOLL_INBOX_UNIT_BYTES)

struct gpucoll_inboxes {
    uint32_t latest[GPUCOLL_INBOX_UNITS]; /* epoch that marked anything there; 0: none */
    uint64_t rests_until_ns
        [GPUCOLL_INBOX_UNITS]; /* a peer's kernel may just be on its way out of a call that was not made after all */
    bool taken[GPUCOLL_INBOX_UNITS];
};

/* Of a team. Touched by the calls of the team only, which are made one after the other. */
struct gpucoll_early {
    struct gpucoll_gpu *gpu; /* that has this rank's inbox; NULL: none */
    uint32_t unit;           /* the first of as many as there are ranks */
    uint32_t epoch;          /* of call 0, if that were one through inboxes; modulo 2^32 */
    uint64_t last;           /* call of which the epoch would be one too many */
    uint32_t small;          /* while there is none: calls so far that could have used it */
    uint32_t misses;         /* calls in a row in which some ranks took their inboxes, and some did not */
    uint64_t resumes;        /* after many of them: no inbox before that call */
    uint64_t latest;         /* call through inboxes that is complete, */
    uint32_t signature;      /* what all ranks said of it, */
    uint32_t stays_ns;       /* and how long its kernel stayed if it lingered */
    struct gpucoll_plan plan;
    bool company; /* since it began this rank has company, or its calls come far apart */
    struct gpucoll_links *links;
    /* Of all ranks: the first half of the inbox, as this rank's GPU sees it, and the epoch of call 0. */
    struct gpucoll_kernel_peer peer[GPUCOLL_MAX_LOCAL];
};

/* Fills in the post of a request that has its lane, and whose post has its signature: with the lane or, if it is a call for inboxes, with that; the lane
 * stays the request's. If it is the call that all ranks are expected to make, and a kernel is there to take it, that is told first, and `request->early`
 * is true. */
void gpucoll_early_post(struct gpucoll_request *request);

/* Of a request that all ranks have posted with their inboxes, the plan: is it for them? The same on all ranks. (Its GPUs are those for which inboxes were taken:
 * each rank looks before it posts.) */
bool gpucoll_early_suits(const struct gpucoll_request *request);

/* Not all ranks have posted it so, or it is not to be done at all: a kernel that was told has ended when this returns. */
void gpucoll_early_call_off(struct gpucoll_request *request);

/* The request has run natively. Where such calls come in a row, an inbox is taken. */
void gpucoll_early_note(const struct gpucoll_request *request);

/* The team ends: its inbox may be another's, unless a call of it was given up. Caller holds the context's lock. */
void gpucoll_early_close(struct gpucoll_team *team);

#endif
