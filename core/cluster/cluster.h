/*
 * A team whose ranks are on several hosts (internal).
 *
 * The team object of a rank is then the *front* team of the ranks of its own host: `rank` and `size` count these, each member has its
 * rank in the communicator as `number`. Calls are posted and agreed on there, as on one host, but take no lane. Behind it stands this:
 *   - the table of hosts and their ranks. Hosts may differ in ranks, and their ranks need not be contiguous
 *   - the *back* team of the same ranks, on which the local stages of a call are posted
 *   - rails (core/rail/rail.h), as many as the smallest host has ranks: rail r joins the ranks with local index r. A rank with a higher index is
 *     on none, and takes part in local stages alone. What does not divide like that goes pair by pair (core/cluster/cluster_pairs.h), or along a
 *     rail of all ranks (core/cluster/cluster_scan.c)
 *
 * A call that the ranks of a host have agreed on goes further steps:
 *   CARRYING  of a call of few bytes: they come to host memory, and the ranks of the host put together what they bring
 *   SPANNING  the hosts tell each other what they agreed on (struct gpucoll_span), and all decide alike. Few bytes go along with that, and then
 *             there are no stages
 *   STAGES    units of the data go through local calls, a rail, and local calls again; several units are on their way at once
 * Calls of a team run their stages one call after the other, in the order in which they were agreed on: so the order in which local calls
 * are posted on the back team follows from the calls alone, and is the same on every rank.
 */
#ifndef GPUCOLL_CLUSTER_H
#define GPUCOLL_CLUSTER_H

#include "core/rail/rail.h"
#include "core/request.h"

enum {
    GPUCOLL_CARRY_TOTAL = 16384, /* bytes of a call of all hosts that go along with a span, at most */
    GPUCOLL_SPAN_ROUNDS = 20,    /* log2 of the most hosts */
    GPUCOLL_STAGE_SLOTS = 4,     /* units of a call that are on their way at once */
    GPUCOLL_STAGE_OPS = 8,       /* local calls of a call that are outstanding at once */
    GPUCOLL_CLUSTER_IDS = 3      /* for tags, of each rank of a team */
};

/* How a host can find a call; the worst of all hosts' counts. */
enum gpucoll_finding {
    GPUCOLL_FOUND_ABLE,
    GPUCOLL_FOUND_DECLINED,
    GPUCOLL_FOUND_MISMATCH, /* ranks bring different arguments */
    GPUCOLL_FOUND_PASSED    /* a rank passes: whatever the others bring, the call is declined */
};

/* What a host, or some hosts together, bring to a call. Plain data, sent as bytes; hosts have one byte order. */
struct gpucoll_verdict {
    uint16_t found;      /* enum gpucoll_finding */
    uint16_t reason;     /* enum gpucoll_reason, of the lowest host that declines, */
    uint32_t host;       /* which is this one */
    uint32_t signature;  /* of the lowest host of all, */
    uint32_t lowest;     /* which is this one, */
    uint32_t first_rank; /* and its first rank */
    uint32_t other;      /* rank of a host whose arguments differ */
    uint32_t number;     /* of the span: tags have 13 bits of it */
    uint32_t carried; /* bytes of the call that come along for each host of these; 0: none, or not of all */
    uint64_t bytes;   /* longest run of any rank */
};

/* Two bits of a channel. The last is of no span: it keeps the tags of core/cluster/cluster_pairs.h apart, which have the other 18 bits. */
enum gpucoll_span_kind { GPUCOLL_SPAN_ONCE, GPUCOLL_SPAN_CALL, GPUCOLL_SPAN_BARRIER, GPUCOLL_SPAN_PAIRS };
/* Numbers of ONCE; the alarm is of no span either. */
enum { GPUCOLL_ONCE_GREETING, GPUCOLL_ONCE_ALARM };
static inline uint32_t gpucoll_span_channel(enum gpucoll_span_kind kind, uint64_t number)
{
    return (uint32_t)kind << 18 | (uint32_t)(number & 0x1fff) << 5; /* five bits for the round */
}

/* What is told to one rank. */
struct gpucoll_span_message {
    struct gpucoll_net_message message;
    bool again; /* it has failed, and has been sent once more */
};

/* One round trip of all hosts: dissemination, log2 h rounds. What a rank of host a would tell host b goes to all ranks of b, each from
 * the rank of a whose index is its own modulo a's ranks: so every rank hears from every host without a local step.
 * A message is a verdict, then, of as many bytes as this says, what each host carries of which the receiver hears by it: the sender first, then the
 * hosts before it. So one that tells of a call of which nothing is carried is the verdict alone; hosts may differ in that. */
struct gpucoll_span {
    struct gpucoll_cluster *cluster;
    struct gpucoll_span *next; /* of those that are kept */
    enum gpucoll_span_kind kind;
    uint64_t number;
    bool ahead;      /* it has told all it had to tell at once, */
    bool taken_back; /* or takes that back */
    bool leaves;     /* the context's lock for these guards this: the context sees to what has been told, */
    bool ended;      /* and then frees it. Else it is only told when that is done */
    struct gpucoll_span *leaving; /* the next one of the context's */
    uint32_t round;               /* whose message is waited for */
    uint32_t sent_rounds;
    struct gpucoll_verdict known;
    char *carried; /* by the own host: known.carried bytes, cluster->carry at most */
    char *in;      /* messages by round, with room for the longest; what other hosts carry stays here */
    char *out;
    struct gpucoll_net_message received[GPUCOLL_SPAN_ROUNDS];
    uint64_t lingers_since_ns; /* 0: does not */
    struct gpucoll_patience drained; /* looks for what has been told to leave */
    uint32_t sends;
    struct gpucoll_span_message sent[]; /* cluster->span_sends; then what the pointers point to */
};

/* What a rank tells all others when the team is made. */
struct gpucoll_cluster_end {
    int32_t opened;  /* a gpucoll_status */
    uint32_t region; /* of the back team */
    uint32_t id; /* for tags: of its rail, the next one of its spans and pairs, then one of the rail of all */
    uint32_t shelf; /* of its board, counted from 1; 0: it has none */
    struct gpucoll_net_address address;
};

/* What a rank that gives up tells the ranks of other hosts. Plain data, sent as bytes. */
struct gpucoll_alarm {
    uint64_t call; /* the first of the team that it does not complete */
    uint32_t rank; /* itself */
    uint32_t reserved;
    struct gpucoll_missing missing; /* why */
};

/* An alarm on its way to some ranks. */
struct gpucoll_telling {
    struct gpucoll_telling *next;
    struct gpucoll_alarm alarm;
    uint32_t count;
    struct gpucoll_net_message sent[];
};

/* Host memory for GPUCOLL_STAGE_SLOTS units, which the calls of a team use one after the other. */
struct gpucoll_stage_memory {
    struct gpucoll_stage_memory *next;
    uint64_t slot_bytes;
    void *slots;
};

struct gpucoll_cluster {
    struct gpucoll_context *context;
    struct gpucoll_cluster
        *next; /* of the context's; `link`: what points to this one, NULL: it is not one of them */
    struct gpucoll_cluster **link;
    uint32_t id;   /* the first of its own, for tags */
    uint32_t rank; /* in the communicator; `size` likewise */
    uint32_t size;
    uint32_t host; /* of this rank */
    uint32_t hosts;
    uint32_t rails;
    uint32_t most_ranks;             /* of the largest host */
    uint32_t groups;                 /* rails times groups is at least the ranks of any host */
    bool crowded;                    /* some of the hosts are one machine, whose ranks are too many for one */
    uint32_t *host_of;               /* by rank */
    uint32_t *index_of;              /* by rank: among those of its host */
    uint32_t *first;                 /* by host: where its ranks begin in `ranks`; one more than hosts */
    uint32_t *ranks;                 /* by host, then index */
    uint32_t *span_id;               /* by rank */
    uint32_t *all_id;                /* by rank */
    struct gpucoll_net_peer **peers; /* by rank; the own: NULL */
    struct gpucoll_net *net;
    const struct gpucoll_net_ops *ops;
    struct gpucoll_team *back;
    struct gpucoll_rail rail;
    struct gpucoll_rail all; /* of all ranks, for what has to follow their order */
    bool on_rail;
    uint32_t rounds; /* of a span, */
    uint32_t span_sends;
    uint32_t carry; /* bytes of a call that each host can have go along with one; a multiple of 8 */
    uint32_t
        shelf; /* of this rank, counted from 1; 0: none. Those of the host's ranks, if calls need them: */
    struct gpucoll_board_shelf *shelves[GPUCOLL_MAX_LOCAL];
    char *
        carry_memory; /* of the accelerator: for each call of the ring what goes out and what comes back. NULL at first */
    struct gpucoll_span *spare;
    uint32_t leaving; /* spans that the context has yet to see off (core/cluster/cluster_leave.c); atomic */
    struct gpucoll_span
        *passing; /* of calls that this rank has passed or skipped and others have not told of, */
    struct gpucoll_span *passing_last; /* the oldest first */
    struct gpucoll_cluster *owing;     /* once freed: the next of the context's that owe something, */
    uint64_t freed_ns;                 /* and when that was */
    struct gpucoll_span *late;         /* of barriers that were given up */
    struct gpucoll_span *greeting;     /* while the team is made */
    gpucoll_status greeted;
    struct gpucoll_patience greeting_for;
    bool listens;                        /* for an alarm, */
    struct gpucoll_net_message listener; /* by this, */
    struct gpucoll_alarm incoming;       /* into this */
    bool alarmed;                        /* it has heard */
    struct gpucoll_alarm alarm;          /* this */
    bool fails; /* a message of a call that this rank is through with has failed for good: atomic, */
    struct gpucoll_alarm unreached; /* written after this */
    bool told; /* its own alarm, or the first it has heard: it has told that to those it tells its spans */
    struct gpucoll_telling *tellings;    /* the last one is for that: want of memory may be what is told */
    struct gpucoll_span *barrier;        /* of the present barrier */
    struct gpucoll_stage_memory *memory; /* all that was made, the largest first */
    uint64_t begun;                      /* calls that came to their stages, */
    uint64_t ended;                      /* and have left them */
};

static inline uint32_t gpucoll_host_size(const struct gpucoll_cluster *cluster, uint32_t host)
{
    return cluster->first[host + 1] - cluster->first[host];
}
/* The rank of that host with that index, which is to be below the host's size. */
static inline uint32_t gpucoll_host_rank(const struct gpucoll_cluster *cluster, uint32_t host, uint32_t index)
{
    return cluster->ranks[cluster->first[host] + index];
}

/* ---- making (core/cluster/cluster_team.c) ---- */

/* Makes `team` the front team of several hosts; `host_of`, by rank, is taken over. */
gpucoll_status gpucoll_cluster_form(struct gpucoll_team *team, uint32_t hosts, uint32_t *host_of,
                                    bool crowded) GPUCOLL_CHECKED;
/* Under the context's lock. Opens the network, takes a region for the back team. */
gpucoll_status gpucoll_cluster_open(struct gpucoll_team *team,
                                    struct gpucoll_cluster_end *end) GPUCOLL_CHECKED;
/* All ranks have opened theirs. Connects to those this rank talks to, and begins to greet those of them that decide calls together: then
 * connections that the network makes at first use are there, and proved. */
void gpucoll_cluster_greet(struct gpucoll_team *team, const struct gpucoll_cluster_end *ends);
/* GPUCOLL_IN_PROGRESS, or how it ended. */
gpucoll_status gpucoll_cluster_greeted(struct gpucoll_cluster *cluster) GPUCOLL_CHECKED;
/* Harmless on NULL. Waits for no other host. What others have yet to tell of calls that this rank has passed is taken later: or else it would stay
 * with the network, and be taken in the end for what a team with the same ids is told. So does what this rank has told arrive later. */
void gpucoll_cluster_free(struct gpucoll_cluster *cluster);
/* Takes what has come for those, and frees what owes nothing any more. Any thread. */
void gpucoll_clusters_settle(struct gpucoll_context *context);
/* Before the network is closed: takes nothing any more, and waits a second, of all teams together, for what this rank has told. */
void gpucoll_clusters_end(struct gpucoll_context *context);

/* ---- small calls of hosts that are parts of one machine (core/cluster/cluster_small.c) ---- */

/* Are the hosts such, and is the call, of which `bytes` is the longest run of any rank, so small that the next component is faster through host memory?
 * The same on every rank that has the same `bytes`. */
bool gpucoll_cluster_is_small(const struct gpucoll_cluster *cluster, enum gpucoll_coll coll, uint64_t bytes);
/* Do all ranks know that of the call by themselves, since MPI makes its size equal on all? */
bool gpucoll_cluster_skips(const struct gpucoll_cluster *cluster, const struct gpucoll_coll_args *args);

/* ---- what hosts tell each other (core/cluster/cluster_span.c, core/cluster/cluster_agree.c) ---- */

/* Tells the other hosts that a call is declined, ahead and without waiting for them: none could make it run. */
void gpucoll_cluster_skip(struct gpucoll_request *request);

/* Memory for the first, when a team is made: the greeting's, as others wait for it. False: none. */
bool gpucoll_span_reserve(struct gpucoll_cluster *cluster);
/* Starts a span. `kind` and `number` tell those under way apart. With `ahead` this rank tells all it has to tell at once, which is right if no
 * other host can change it and nothing is carried; a message that fails then goes once more. `carried`: verdict->carried bytes; NULL if these are
 * none. NULL: out of memory. */
struct gpucoll_span *gpucoll_span_start(struct gpucoll_cluster *cluster, enum gpucoll_span_kind kind,
                                        uint64_t number, const struct gpucoll_verdict *verdict,
                                        const void *carried, bool ahead);
/* GPUCOLL_IN_PROGRESS while rank `*missing` has told nothing; GPUCOLL_OK, then span->known is of all hosts; or an error that has been
 * shown, also of a message of this rank, to rank `*missing`. Turns the network's progress. */
gpucoll_status gpucoll_span_test(struct gpucoll_span *span, uint32_t *missing) GPUCOLL_CHECKED;
/* Of one that is through, and in which all have carried: the span->known.carried bytes of a host. */
const char *gpucoll_span_carried(const struct gpucoll_span *span, uint32_t host);
/* Is nothing of what this rank has told on its way any more? Not if it has failed. */
bool gpucoll_span_is_sent(struct gpucoll_span *span);
/* The ranks that this one tells in a round, by number from 0 on; false past the last. In all rounds cluster->span_sends of them at
 * most. */
bool gpucoll_span_told(const struct gpucoll_cluster *cluster, uint32_t round, uint32_t nth, uint32_t *rank);
/* Gives it back, whether it is through or not; harmless on NULL. What this rank has told in one that is through still arrives; in another it is taken
 * back, if its receiver lets it. Neither is waited for. */
void gpucoll_span_end(struct gpucoll_span *span);

/* Begins what gives up one that is not through. Of spans with which that is done before the first is given back, all together wait, if they have to,
 * no longer than one. */
void gpucoll_span_begin_end(struct gpucoll_span *span);
/* Of one that nobody here waits in any more, by one thread at a time: as gpucoll_span_is_sent, but what has failed goes once more, by a new
 * connection. What has failed twice counts as sent, and cluster->unreached tells of it, if somebody may still wait for it. */
bool gpucoll_span_see_off(struct gpucoll_span *span);
/* Of such a one: begins to take back what this rank has told, and ends that by force: the connection to a process that does not answer is closed. */
void gpucoll_span_take_back(struct gpucoll_span *span);
void gpucoll_span_tear(struct gpucoll_span *span);

/* Turns the network's progress. To be called when a rank waits for ranks of its own host, too: others may wait for what it has sent. */
void gpucoll_cluster_turn(struct gpucoll_cluster *cluster);

/* ---- spans in which nobody waits, while messages of this rank are on their way (core/cluster/cluster_leave.c) ---- */

/* The context sees to what has been told in one; `ended`: and takes it over. */
void gpucoll_span_leave(struct gpucoll_span *span, bool ended);
/* Of one with which that has been done: does the context still see to it? */
bool gpucoll_span_leaves(struct gpucoll_span *span);
/* The context takes it over, and back what has been told if it is not through. False: it has seen to it, and leaves it to the caller. */
bool gpucoll_span_hand_over(struct gpucoll_span *span);
/* Frees those of which nothing is on its way any more. After the network's progress; any thread. */
void gpucoll_spans_settle(struct gpucoll_context *context);
/* Of all teams, before the network is closed: tears what is left. */
void gpucoll_spans_end(struct gpucoll_context *context);

/* The last barrier was given up, if there is one still. What others tell of it, who enter it later, is waited for on: or else it would be taken
 * for what they tell of the next one whose number is the same in 13 bits. `next` is the number of the one that begins. */
void gpucoll_cluster_leave_barrier(struct gpucoll_cluster *cluster, uint64_t next);

/* Ends the spans of calls that were passed and that are through, from the oldest on. */
void gpucoll_cluster_reap(struct gpucoll_cluster *cluster);
/* This rank passes a call: it tells the other hosts, and waits for nobody. */
void gpucoll_cluster_pass(struct gpucoll_team *team);
/* The ranks of this host have agreed, with `status`, on a call of several hosts: how all hosts decide. As gpucoll_test. */
gpucoll_status gpucoll_cluster_span(struct gpucoll_request *request) GPUCOLL_CHECKED;
gpucoll_status gpucoll_cluster_agree(struct gpucoll_request *request, gpucoll_status status) GPUCOLL_CHECKED;

/* ---- the end of a call (core/cluster/cluster_drain.c) ---- */

/* The call is complete here, and other hosts wait for the end of what this rank has sent them: waits a little until it has left, for the
 * caller may not come back to MPI for long. GPUCOLL_IN_PROGRESS or GPUCOLL_OK. */
gpucoll_status gpucoll_cluster_drain(struct gpucoll_request *request) GPUCOLL_CHECKED;
/* As that, of a span in which all is known: what this rank has told in it. */
gpucoll_status gpucoll_span_drain(struct gpucoll_span *span) GPUCOLL_CHECKED;
/* Has that been waited for? */
static inline bool gpucoll_span_drains(const struct gpucoll_span *span)
{
    return span->drained.looked_ns != 0;
}

/* ---- calls of few bytes (core/cluster/cluster_carry.c) ---- */

/* Under the context's lock, in gpucoll_cluster_reserve: host memory for them, if this is one. */
bool gpucoll_carry_reserve(struct gpucoll_request *request);
/* Once the call is published: begins to copy what this rank brings to host memory. Harmless for other calls. */
gpucoll_status gpucoll_carry_begin(struct gpucoll_request *request) GPUCOLL_CHECKED;
/* The ranks of this host have agreed, with `status`: whether what they bring is to be waited for, in the state CARRYING. */
bool gpucoll_carry_waits(struct gpucoll_request *request, gpucoll_status status);
/* In that state. GPUCOLL_IN_PROGRESS, or GPUCOLL_OK: `*status` is what they had agreed on. */
gpucoll_status gpucoll_carry_gather(struct gpucoll_request *request, gpucoll_status *status) GPUCOLL_CHECKED;
/* What this host brings, of so many bytes; 0: none, the call goes by stages. */
uint32_t gpucoll_carry_brought(const struct gpucoll_request *request, const void **data);
/* The span is through: takes the result from it, if all hosts have carried theirs. */
void gpucoll_carry_take(struct gpucoll_request *request, const struct gpucoll_span *span);
/* Is a copy of the call's on its way? */
bool gpucoll_carry_copies(const struct gpucoll_request *request);

/* ---- giving up (core/cluster/cluster_alarm.c) ---- */

/* Memory for what is told to those whom a rank tells its spans, when a team is made. False: none. */
bool gpucoll_cluster_reserve_alarm(struct gpucoll_cluster *cluster);
/* Begins to listen for alarms. */
void gpucoll_cluster_listen(struct gpucoll_cluster *cluster);
/* Takes those that have come; after the network's progress. */
void gpucoll_cluster_hear(struct gpucoll_cluster *cluster);
/* Tells other hosts that this rank completes no call of the team from `call` on, unless it has told them what it has heard. */
void gpucoll_cluster_alarm(struct gpucoll_cluster *cluster, uint64_t call,
                           const struct gpucoll_missing *missing);
/* After that: tells the same to those that may wait for this rank in the stages of the request, as far as they are not told by the above. */
void gpucoll_cluster_desert(const struct gpucoll_request *request, uint64_t first,
                            const struct gpucoll_missing *missing);
/* Tells cluster->unreached in the same way, if there is something. This rank hears it, too: then it gives up what the others do. */
void gpucoll_cluster_tell_unreached(struct gpucoll_cluster *cluster);
/* Is nothing of it on its way any more, or yet to be told? */
bool gpucoll_cluster_alarm_is_out(struct gpucoll_cluster *cluster);
/* Listens no longer. */
void gpucoll_cluster_close_ear(struct gpucoll_cluster *cluster);
/* Nor tells: begins that, and waits, a few seconds at most, for what is not out. */
void gpucoll_cluster_begin_close_alarm(struct gpucoll_cluster *cluster);
void gpucoll_cluster_close_alarm(struct gpucoll_cluster *cluster);

/* ---- calls (core/cluster/cluster_call.c) ---- */

/* Is there a way between hosts for this collective, or GPUCOLL_BARRIER? */
bool gpucoll_cluster_has(enum gpucoll_coll coll);
/* The collectives that the ranks of a host call, before what goes between hosts and after it: twice the same if there is but one. False: none. Of
 * calls that are not to be in the order of ranks. */
bool gpucoll_cluster_local(enum gpucoll_coll coll, enum gpucoll_coll local[2]);

enum gpucoll_cluster_way {
    GPUCOLL_CLUSTER_STAGES,  /* by calls of the ranks of a host before and after what goes between hosts */
    GPUCOLL_CLUSTER_CARRIED, /* along with what the hosts tell each other before any call */
    GPUCOLL_CLUSTER_FLAT,    /* along the rail of all ranks, of few bytes */
    GPUCOLL_CLUSTER_ORDERED  /* along the rail of all ranks, in their order */
};
/* How a call of a collective that gpucoll_cluster_has will go among `size` ranks, as equally many on each host as can be, with a message of
 * `bytes`, or blocks of so many each. */
enum gpucoll_cluster_way gpucoll_cluster_foresee(const struct gpucoll_config *config, enum gpucoll_coll coll,
                                                 uint64_t bytes, uint32_t hosts, uint32_t size);
/* In gpucoll_post: notes what the call is. Without memory for that, request->stages is NULL, and the others learn it from the post. */
void gpucoll_cluster_post(struct gpucoll_request *request, const struct gpucoll_coll_args *args);
/* Its runs, one for each rank of the communicator; NULL: it goes along rails. */
const struct gpucoll_kernel_run *gpucoll_cluster_runs(const struct gpucoll_request *request);
/* As gpucoll_exchange_is_able. */
bool gpucoll_cluster_is_able(const struct gpucoll_request *request, struct gpucoll_buffer *buffer,
                             const void **pointer);
/* Takes the memory that the call's stages need beside its buffers. Under the context's lock. */
bool gpucoll_cluster_reserve(struct gpucoll_request *request);
/* Can the ranks of this host run the local stages? GPUCOLL_IN_PROGRESS while they connect. The same on all ranks of the host. */
gpucoll_status gpucoll_cluster_probe(struct gpucoll_request *request) GPUCOLL_CHECKED;
/* All hosts run the call: begins what is left to do, and moves it on in the states PACKING, STAGES, DELIVERING and UNPACKING. As
 * gpucoll_test. */
gpucoll_status gpucoll_cluster_start(struct gpucoll_request *request) GPUCOLL_CHECKED;
gpucoll_status gpucoll_cluster_advance(struct gpucoll_request *request) GPUCOLL_CHECKED;
/* The request is given up. */
void gpucoll_cluster_stop(struct gpucoll_request *request);
/* The request ends. */
void gpucoll_cluster_close(struct gpucoll_request *request);

#endif
