/*
 * gpucoll's engine, free of MPI. Four lifetimes:
 *
 *   gpucoll_context   a process: accelerator, devices with their scratch, connections to peer processes
 *   gpucoll_team      a communicator: its ranks, its board of flags in shared memory, its plans
 *   gpucoll_plan      a way of running one kind of call on one team (core/plan/plan.h)
 *   gpucoll_request   a call
 *
 * A collective: every rank of the team fills gpucoll_coll_args, calls gpucoll_post, then gpucoll_test until it no longer says
 * GPUCOLL_IN_PROGRESS. All ranks post the collectives of a team in the same order. A rank that will not take part (its process has
 * no device memory) calls gpucoll_pass instead, which costs a few stores and waits for nobody; the others then learn
 * of it and decline, all alike.
 *
 * Thread safety: functions on different teams may run at the same time from different threads; functions
 * on one team are serialised by the caller, as MPI demands of collectives on one communicator.
 */
#ifndef GPUCOLL_H
#define GPUCOLL_H

#include "core/accel/accel.h"
#include "core/base/config.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/types.h"
#include "core/stats.h"

#define GPUCOLL_IN_PLACE ((const void *)1)

struct gpucoll_context;
struct gpucoll_gpu; /* core/gpu.h */
struct gpucoll_lane;
struct gpucoll_net_ops; /* ucx_tl/net.h */
struct gpucoll_team;
struct gpucoll_request;

/* How the ranks of a team exchange a few bytes before they can reach each other: an all-gather of host memory.
 * `allgather` starts it; with `test` NULL it is complete when that returns, else when `test` says GPUCOLL_OK instead of
 * GPUCOLL_IN_PROGRESS. `mine` and `all` stay until then. */
struct gpucoll_exchange {
    uint32_t rank;
    uint32_t size;
    int (*allgather)(void *arg, const void *mine, void *all, size_t bytes); /* non-zero on failure */
    void *arg;
    gpucoll_status (*test)(void *arg);
};

struct gpucoll_layout; /* core/layout.h */

/* A part of a buffer: contiguous, or elements that lie as a layout says, which are packed and unpacked on the device. */
struct gpucoll_block {
    ptrdiff_t offset; /* in bytes; with a layout: of element 0 */
    uint64_t bytes;   /* of its data */
};

/*
 * An all-reduce has `op` on `type`, two buffers and a count. Every other collective has, instead of the count, blocks of its buffers;
 * reductions have `op` and `type` beside. NULL stands for no blocks.
 *
 *                                         send_blocks           recv_blocks
 *   allgather, allgatherv                 1, the own            1 a rank
 *   alltoall, alltoallv, alltoallw        1 a rank              1 a rank
 *   bcast                                 root: 1               others: 1
 *   gather, gatherv                       1, the own            root: 1 a rank
 *   scatter, scatterv                     root: 1 a rank        1, or at the root none: the own part stays
 *   reduce                                1                     root: 1
 *   reduce_scatter, reduce_scatter_block  1 a rank              1, the own part
 *   scan, exscan                          1                     1; exscan: rank 0 none
 *   neighbor_...                          1 a rank              1 a rank, without a byte where it is no neighbour
 *
 * A barrier has neither, and needs no GPU. As a call it is for those whom nobody waits in; others have gpucoll_barrier_start.
 *
 * In place, the blocks that are sent are parts of the receive buffer: same addresses. Blocks are read by gpucoll_post only.
 */
struct gpucoll_coll_args {
    enum gpucoll_coll coll;
    enum gpucoll_op op;
    enum gpucoll_type type;
    const void *send; /* or, for an all-reduce, GPUCOLL_IN_PLACE */
    void *recv;
    size_t count; /* elements, of an all-reduce */
    uint32_t root;
    const struct gpucoll_block *send_blocks;
    const struct gpucoll_block *recv_blocks;
    /* One for each block, NULL where it is contiguous; NULL: all are. Not for reductions. The request takes references. */
    struct gpucoll_layout *const *send_layouts;
    struct gpucoll_layout *const *recv_layouts;
    bool
        unable; /* this rank's buffers are not such that they can be described here: all ranks are to decline */
    enum gpucoll_form
        form; /* for statistics and profilers; but nobody waits in a nonblocking or persistent call, so it holds no lane while
                             * its peers are not there */
};

/* `config` and `log` must outlive the context. Creating a context touches no GPU. */
gpucoll_status gpucoll_context_create(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                      struct gpucoll_context **context) GPUCOLL_CHECKED;
/* Counts the context's calls in `stats`, which must outlive it. */
void gpucoll_context_count_in(struct gpucoll_context *context, struct gpucoll_stats *stats);
/* What is made once, and noticed in a call that has to wait for it. Written and read with atomic functions, relaxed. */
struct gpucoll_setups {
    unsigned long long teams; /* of more than one rank */
    unsigned long long links; /* of a team's GPUs to each other */
};
/* Counts them in `setups`, which must outlive the context. */
void gpucoll_context_count_setups_in(struct gpucoll_context *context, struct gpucoll_setups *setups);
/* How many processes of the job, this one included, are on this host, and may use its GPUs; and which of these this one is, from 0
 * (no number below `processes`: not known). Unless told, those of a team are taken to be all. To be told before the first team. Where the processes of a
 * team, of several jobs, say different numbers, the highest counts. */
void gpucoll_context_share_host(struct gpucoll_context *context, uint32_t processes, uint32_t rank);
/* Threads of the application beside the one that is in a call may use a library, once it is loaded, whose kernels wait for those of other ranks as
 * gpucoll's do: its file's name begins with `library`, which must outlive the context. Calls then run such that neither keeps the other from
 * its end, unless the configuration says otherwise. */
void gpucoll_context_expect(struct gpucoll_context *context, const char *library);
/* The network between hosts in place of UCX, for tests: before the first team is made. */
void gpucoll_context_use_net(struct gpucoll_context *context, const struct gpucoll_net_ops *ops);
/* Are there connections to other hosts? Then whoever waits for something else while no call is outstanding here is to turn these now and then: what has been
 * sent may still wait for room to leave. Any thread may, from a team's end of making until the context is destroyed. */
bool gpucoll_context_has_net(const struct gpucoll_context *context);
bool gpucoll_context_turn_net(struct gpucoll_context *context); /* true: something has moved */
/* Closes what this process has mapped of its peers. All teams must be gone. What peers have mapped of this process stays
 * until gpucoll_context_destroy: a barrier of all processes in between lets nobody free what another still has mapped.
 * Returns with how many processes there was a connection. */
uint32_t gpucoll_context_disconnect(struct gpucoll_context *context);
/* All teams must be gone. Harmless on NULL. */
void gpucoll_context_destroy(struct gpucoll_context *context);
/* NULL in a process without an accelerator. */
struct gpucoll_accel *gpucoll_context_accel(struct gpucoll_context *context);

/* Begins to make a team: collective over its ranks, two exchanges, one after the other. `name` is used in messages; a rank
 * that is not `able` makes all decline. GPUCOLL_OK: gpucoll_team_test goes on, and says when it is made. Anything else is as
 * from gpucoll_team_test, without a team. */
gpucoll_status gpucoll_team_begin(struct gpucoll_context *context, const struct gpucoll_exchange *exchange,
                                  const char *name, bool able, struct gpucoll_team **team) GPUCOLL_CHECKED;
/* GPUCOLL_IN_PROGRESS: call again. Every rank gets the same answer: GPUCOLL_OK; GPUCOLL_DECLINED if these ranks cannot run
 * anything natively (several hosts, no accelerator on some rank, too many ranks: said once at log level SETUP); an error if the
 * exchange failed. Without GPUCOLL_OK, the team is gone. */
gpucoll_status gpucoll_team_test(struct gpucoll_team *team) GPUCOLL_CHECKED;
/* Both, blocking. */
gpucoll_status gpucoll_team_create(struct gpucoll_context *context, const struct gpucoll_exchange *exchange,
                                   const char *name, struct gpucoll_team **team) GPUCOLL_CHECKED;
/* Local. No request may be outstanding. Harmless on NULL, and on a team that is not made yet. */
void gpucoll_team_destroy(struct gpucoll_team *team);

/* A barrier of the team's ranks, beside the calls that are posted: no device memory is asked for, and every rank takes part. At most one
 * at a time. Start, then test until it no longer says GPUCOLL_IN_PROGRESS; an error has been shown, and some rank may wait
 * for ever. */
void gpucoll_barrier_start(struct gpucoll_team *team);
gpucoll_status gpucoll_barrier_test(struct gpucoll_team *team) GPUCOLL_CHECKED;
/* Would the next test look at the watchdog, and so at what the team's calls have in common? */
bool gpucoll_barrier_is_watched(const struct gpucoll_team *team);

/* Counts a collective of this team in which this process takes no part. Only before the first gpucoll_post of
 * the process on this team. */
void gpucoll_pass(struct gpucoll_team *team);

/* Counts a collective that this rank cannot post: what it and the others have of the team and has not ended is given up, as after an error of
 * gpucoll_test. */
void gpucoll_forsake(struct gpucoll_team *team);

/* Memory for so many calls, 4 at most, to be posted next, which then cannot fail for want of it on this rank alone. False: out of memory. */
bool gpucoll_reserve(struct gpucoll_team *team, uint32_t calls);
/* Starts a collective. Returns GPUCOLL_OK and a request, or an error that is local: GPUCOLL_ERR_INVALID, of arguments that no rank can have, or
 * GPUCOLL_ERR_NO_MEMORY, which other ranks are told as they are of one of gpucoll_test. */
gpucoll_status gpucoll_post(struct gpucoll_team *team, const struct gpucoll_coll_args *args,
                            struct gpucoll_request **request) GPUCOLL_CHECKED;
/* Moves the call on. GPUCOLL_IN_PROGRESS: call again; a call moves only as far as the earlier calls of its team let it,
 * so all that are outstanding are to be tested. Anything else is final, and the request is then freed:
 * GPUCOLL_OK: the receive buffer is complete; GPUCOLL_DECLINED: hand the call to the fallback, every rank does;
 * GPUCOLL_ERR_MISMATCH: the ranks' arguments differ; shown, on every rank, and the team can be used on, unless it is of several
 * hosts and only a message's length tells (blocks that not all ranks name): then it is as after any other error. (Of blocks that only a
 * sender and a receiver of one host name, those of the v and w forms, other lengths than are expected make all decline);
 * any other error: shown already, this team runs nothing natively from now on: its calls are declined on this rank, and
 * fail on ranks that still wait for this one. */
gpucoll_status gpucoll_test(struct gpucoll_request *request) GPUCOLL_CHECKED;
/* Warming a team up: GPUCOLL_WARMUP is a call without buffers, which a rank that gpucoll_can_warm_up posts and any other passes. Where
 * all have posted it, they connect their GPUs to each other, which else the first call that brings them would. Nobody waits in it,
 * and the watchdog leaves it alone. */
bool gpucoll_can_warm_up(struct gpucoll_team *team); /* has this process a GPU that it uses? */
/* Had every rank's process bound a GPU when it began to make the team? Then all can be expected to post the warm-up at once. The same on
 * every rank. */
bool gpucoll_team_is_bound(const struct gpucoll_team *team);
/*
 * GPUCOLL_REHEARSAL, behind a warm-up, is an all-reduce of a few numbers in memory that the engine lends: what else the application's first call
 * would go through for the first time, and the first kernel. To be posted where gpucoll_team_rehearses, the same on every rank, and only
 * by ranks that then do nothing but test it until it has ended: so its kernel waits for nobody who computes. A rank that has something else
 * to do first refuses it; then all decline it. One that ran or declined changes nothing for later calls. Behind a warm-up GPUCOLL_POSTED_AHEAD - 1
 * of them can be posted before any has ended.
 */
enum { GPUCOLL_POSTED_AHEAD = 4 };
bool gpucoll_team_rehearses(const struct gpucoll_team *team);
/* False: it is too late, since this rank has offered to take part. It ends soon. */
bool gpucoll_refuse(struct gpucoll_request *request);
/* Binds the GPU that the calling thread uses, else the only one that its process uses. Where it uses none at all, binds the only one that
 * it sees, which makes the context that the application else would. False: none is bound, since nothing tells which one the application will use. */
bool gpucoll_context_bind_ahead(struct gpucoll_context *context);

/*
 * A reduction of this process alone, MPI_Reduce_local: inout[i] = in[i] op inout[i], on the GPU that holds both buffers. It needs
 * no team and waits for no other rank; any number of threads may run some at once. The caller fills the first five fields, and the
 * struct is the engine's from start until a test no longer says GPUCOLL_IN_PROGRESS.
 */
struct gpucoll_local {
    enum gpucoll_op op;
    enum gpucoll_type type;
    const void *in;
    void *inout; /* apart from `in` */
    size_t count;

    struct gpucoll_context *context;
    struct gpucoll_gpu *gpu;
    struct gpucoll_lane *lane;  /* NULL: none so far */
    enum gpucoll_reason reason; /* why it was declined */
    uint32_t ctas;
    uint32_t looks;
    uint64_t short_since_ns; /* no lane was free; 0: not so far */
};
/* GPUCOLL_OK: to be tested from now on. GPUCOLL_DECLINED: nothing has begun, and the fallback is to do it. */
gpucoll_status gpucoll_local_start(struct gpucoll_context *context,
                                   struct gpucoll_local *local) GPUCOLL_CHECKED;
/* Moves it on. GPUCOLL_IN_PROGRESS: call again, and let other calls of this process move on meanwhile, since one of them may have to end
 * first; not for long, then it is declined. GPUCOLL_OK: `inout` is complete. GPUCOLL_DECLINED: as above. Any other error has been shown. */
gpucoll_status gpucoll_local_test(struct gpucoll_local *local) GPUCOLL_CHECKED;

/* Why the call of the team that was declined last was. */
enum gpucoll_reason gpucoll_declined_reason(const struct gpucoll_team *team);
/* Gives a call up that cannot complete any more (the communicator was revoked, a rank has failed) and frees the request. The
 * receive buffer is undefined and the team is left as after an error. */
void gpucoll_cancel(struct gpucoll_request *request);

#endif
