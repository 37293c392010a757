/*
 * The process's part of the engine (internal; the public face is core/gpucoll.h). `lock` guards everything below it, and
 * the set-up functions of the accelerator and of the transports.
 */
#ifndef GPUCOLL_CONTEXT_H
#define GPUCOLL_CONTEXT_H

#include <pthread.h>
#include "core/board.h"
#include "core/company.h"
#include "core/exports.h"
#include "core/gate.h"
#include "core/gpu.h"
#include "core/gpucoll.h"
#include "core/peer.h"
#include "core/plan/tuning.h"
#include "ucx_tl/cpu_reduce/pool.h"
#include "ucx_tl/net.h"

struct gpucoll_context {
    const struct gpucoll_config *config;
    const struct gpucoll_log *log;
    struct gpucoll_stats *stats;       /* somebody's, or some that are never on */
    struct gpucoll_setups *setups;     /* likewise */
    struct gpucoll_accel *accel;       /* NULL: none here */
    struct gpucoll_topology *topology; /* of config->topology_file, or of this machine; NULL: none */
    bool topology_tried;               /* to find that of this machine */
    struct gpucoll_tuning tuning;      /* of the tuning file */
    uint32_t processes;                /* of the job on this host; 0: not known, */
    uint32_t local_rank;               /* and which of these this one is */
    pthread_mutex_t lock;
    struct gpucoll_board board; /* made with the first team */
    struct gpucoll_exports exports;
    struct gpucoll_peer *peers;
    struct gpucoll_gpu *gpus[GPUCOLL_BOARD_CARDS]; /* in the order they were bound */
    struct gpucoll_pool *pool;                     /* NULL: only the callers sum */
    bool pool_tried;
    bool slow_said;                           /* that GPUs have no peer access, */
    bool divided_said;                        /* and that a machine counts as several hosts, by whomever */
    struct gpucoll_progress_thread *progress; /* made with the first call that nobody waits in */
    bool progress_failed;                     /* it could not be started: not tried again */
    struct gpucoll_gates gates;
    struct gpucoll_company company;
    const struct gpucoll_net_ops *net_ops;
    struct gpucoll_net *net; /* made with the first team of several hosts */
    bool net_failed;
    uint32_t net_ids;                   /* handed out, for tags */
    bool net_ids_again;                 /* all have been: some may be in use */
    struct gpucoll_cluster *clusters;   /* that have some */
    struct gpucoll_cluster *owing;      /* that were freed (gpucoll_cluster_free), the first one first, */
    struct gpucoll_cluster **owing_end; /* where the next one goes; */
    bool settles;                       /* they are being looked at, */
    pthread_mutex_t owing_lock;   /* by this, which is recursive; taken before `lock` and `leaving_lock` */
    struct gpucoll_span *leaving; /* core/cluster/cluster_leave.c, the oldest first, */
    struct gpucoll_span **leaving_end;    /* where the next one goes; */
    bool sees_off;                        /* they are being looked at, */
    pthread_mutex_t leaving_lock;         /* by this, which is recursive */
    bool gpu_failed[GPUCOLL_BOARD_CARDS]; /* by ordinal: binding was tried, said and not repeated */
};

/* The process's board, made at the first call. */
gpucoll_status gpucoll_context_board(struct gpucoll_context *context) GPUCOLL_CHECKED;

/* Opens context->net at the first call; GPUCOLL_DECLINED if there is none. Caller serialises. */
gpucoll_status gpucoll_context_net(struct gpucoll_context *context) GPUCOLL_CHECKED;

/* The peer process of that board, opened at the first call, and in one more team from now on. The own process is a peer too when several contexts
 * share it. Caller serialises. */
gpucoll_status gpucoll_context_peer(struct gpucoll_context *context, const struct gpucoll_segment_name *name,
                                    struct gpucoll_peer **peer) GPUCOLL_CHECKED;

/* The peer is in one team less. Closes the connections to those in none whose processes have ended, as those of a job that was spawned, or that
 * another took the place of: what they had on a GPU is there as long as it is mapped. Caller serialises. */
void gpucoll_context_leave_peer(struct gpucoll_context *context, struct gpucoll_peer *peer);

/* What storing over PCIe costs follows from where the GPUs are: if that is how they reach each other, and no file tells, the topology of this
 * machine is found, at the first call. Caller serialises. */
void gpucoll_context_know_way(struct gpucoll_context *context, struct gpucoll_device *device,
                              const struct gpucoll_device_id *peer);

/* The bound GPU that holds `buffer`, bound now and published on the board if it is new; NULL if it cannot be. */
struct gpucoll_gpu *gpucoll_context_gpu(struct gpucoll_context *context, const struct gpucoll_buffer *buffer,
                                        const void *pointer);

/* The same for a call of this process alone, which may have made no team so far; takes the lock itself. */
struct gpucoll_gpu *gpucoll_context_bind(struct gpucoll_context *context, const struct gpucoll_buffer *buffer,
                                         const void *pointer);

/* For who has no buffer: the first GPU that was bound, else the one that the calling thread uses, bound now. NULL: none. */
struct gpucoll_gpu *gpucoll_context_any_gpu(struct gpucoll_context *context);

#endif
