/*
 * A call of several hosts at work. Its data goes in *units*, each in these steps:
 *
 *   BEFORE     local calls on the back team, so that each rank with a rail has what is to go along it
 *   OUT        copies from the device into the unit's slot in host memory
 *   RAIL       the rail's collective, on the slot
 *   IN         copies from the slot to the device
 *   AFTER      local calls that give all ranks of the host what they are to have
 *
 * What the steps are is a row of functions for each family of collectives: core/cluster/cluster_reduce.c and its neighbours. A row says the same on
 * all ranks of a host about local calls, and on all ranks of a rail about it.
 *
 * Where nothing is summed between hosts, and the network takes the device's memory (`place`, call->memory), the rail works on that: there is
 * neither OUT nor IN. Each rank decides for itself, as messages are the same either way.
 *
 * The order of local calls is that of the units, AFTER that of unit u standing behind BEFORE that of unit u + GPUCOLL_STAGE_DEPTH; so the
 * steps of different units overlap, and still all ranks post on the back team in one order. A local call for which the ranks have no lanes is
 * declined by all of them alike; it is posted again at the first place in the order where something waits for it.
 */
#ifndef GPUCOLL_CLUSTER_CALL_H
#define GPUCOLL_CLUSTER_CALL_H

#include "core/cluster/cluster.h"
#include "core/packing.h"

enum { GPUCOLL_STAGE_DEPTH = GPUCOLL_STAGE_SLOTS - 1 };

enum gpucoll_side { GPUCOLL_BEFORE, GPUCOLL_AFTER };

/* A local call; all blocks are none at first. */
struct gpucoll_stage_op {
    struct gpucoll_coll_args args;
    struct gpucoll_block send[GPUCOLL_MAX_LOCAL];
    struct gpucoll_block recv[GPUCOLL_MAX_LOCAL];
};

struct gpucoll_stage_copy {
    void *device;
    uint64_t at; /* in the slot */
    uint64_t bytes;
};

struct gpucoll_cluster_call;

/* How data goes between hosts. */
enum gpucoll_between {
    GPUCOLL_BETWEEN_RAILS,
    GPUCOLL_BETWEEN_PAIRS, /* from any rank to any other: core/cluster/cluster_pairs.h. No `copy`, no `rail` */
    GPUCOLL_BETWEEN_RANKS  /* along the rail of all ranks, also those of one host: no local calls, no `op` */
};

struct gpucoll_cluster_family {
    enum gpucoll_between between;
    enum gpucoll_coll
        local[2]; /* local calls, where a host has several ranks; twice the same if there is but one */
    /* From bytes and blocks: units, part_bytes, slot_bytes and temp_bytes. */
    void (*shape)(struct gpucoll_cluster_call *call);
    uint32_t (*ops)(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side);
    void (*op)(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side, uint32_t index,
               struct gpucoll_stage_op *op);
    /* Of this rank, which is on a rail: copies before it, or after it; false past the last. */
    bool (*copy)(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side,
                 uint32_t index, struct gpucoll_stage_copy *copy);
    /* What is to be done along its rail; false: nothing. `blocks`, one for each rank of the rail, is for what goes in blocks. */
    bool (*rail)(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks,
                 struct gpucoll_rail_args *args);
    /* Of a rail on which nothing is summed: where on the device its data is, or, if it goes in blocks, what belongs to `host`. Else NULL. */
    char *(*place)(const struct gpucoll_cluster_call *call, uint64_t unit, uint32_t host);
};

enum gpucoll_slot_state {
    GPUCOLL_SLOT_FREE,
    GPUCOLL_SLOT_BEFORE,
    GPUCOLL_SLOT_OUT,
    GPUCOLL_SLOT_WAITS, /* for the rail runs of earlier units to start */
    GPUCOLL_SLOT_RAIL,
    GPUCOLL_SLOT_IN,
    GPUCOLL_SLOT_READY, /* for the local calls after */
    GPUCOLL_SLOT_AFTER
};

struct gpucoll_stage_slot {
    enum gpucoll_slot_state state;
    uint64_t unit;
    uint64_t
        ops_end; /* number of the local call behind the last of this side; UINT64_MAX: not all are posted */
    struct gpucoll_copy_ticket copied;
    bool direct; /* from device to device: no copies */
    bool goes;   /* along the rail: */
    struct gpucoll_rail_args rail;
    struct gpucoll_rail_run *run;
};

struct gpucoll_posted_op {
    struct gpucoll_request *request; /* NULL: it has ended, */
    bool declined;                   /* so, for want of lanes, */
    uint32_t times;                  /* so often; */
    uint64_t again_ns;               /* it is not posted again before this */
    enum gpucoll_side side;
    uint64_t unit;
    uint32_t index;
};

struct gpucoll_cluster_call {
    const struct gpucoll_cluster_family *family;
    struct gpucoll_cluster *cluster;
    uint32_t index; /* of this rank on its host, */
    uint32_t size;  /* of so many */
    uint32_t root;
    enum gpucoll_op op;
    enum gpucoll_type type;
    int functor;
    const char *send; /* of one block: where it begins */
    char *recv;
    uint64_t bytes; /* all-reduce, reduce, bcast: of the buffer; else of the longest block or run */
    struct gpucoll_block
        *blocks; /* by rank of the communicator: what all-gather receives, reduce_scatter sends */
    struct gpucoll_pairs *pairs;     /* NULL: it goes along rails */
    struct gpucoll_packing *packing; /* NULL: this rank's blocks are contiguous */

    uint64_t units;
    uint64_t part_bytes; /* of a unit, most that goes along one rail; with blocks: of each */
    uint64_t slot_bytes;
    uint64_t temp_bytes; /* device memory for a unit */
    char *temp;
    struct gpucoll_gpu *gpu; /* whose pool has given it */
    char *slots;
    uint64_t *slot_blocks;             /* of the rail runs of units, one for each rank of the rail, */
    char **slot_places;                /* and where they are on the device */
    struct gpucoll_net_memory *memory; /* that the rail may work on; NULL: on `slots` */

    /* Of few bytes (core/cluster/cluster_carry.c): */
    const struct gpucoll_carry_row *carry; /* what ranks bring and get */
    uint64_t few;                          /* bytes that each host has go along; 0: it goes by the stages */
    struct gpucoll_copy_ticket carrying;
    gpucoll_status agreed; /* what the ranks of this host decided */
    bool told;             /* to these what this rank brings */
    bool carried;          /* by all hosts: the result is there, */
    bool delivering;       /* and on its way to the device */

    bool stopped; /* ranks of this host may still write to device memory that is the call's own */
    struct gpucoll_request *probe;
    uint64_t turn; /* 0: all hosts have not agreed yet, or there are no stages */
    uint64_t step; /* place in the order: unit whose calls BEFORE come next, or came last */
    enum gpucoll_side side;
    uint32_t next_op;
    uint64_t next_rail; /* unit whose rail run is to start next */
    uint32_t missing;   /* of the rail, waited for last */
    uint64_t posted;    /* local calls, counted once each, */
    uint64_t popped;    /* and those that have run, from the first on */
    struct gpucoll_posted_op ops[GPUCOLL_STAGE_OPS];
    struct gpucoll_stage_slot slot[GPUCOLL_STAGE_SLOTS];
};

/* That of calls in the order of ranks, if they are to be that, else the collective's usual one. */
const struct gpucoll_cluster_family *gpucoll_cluster_family_of(const struct gpucoll_cluster *cluster,
                                                               enum gpucoll_coll coll);
/* When family, bytes and blocks are known: whether it goes flat, which replaces the family, or is carried. */
enum gpucoll_cluster_way gpucoll_cluster_find_way(struct gpucoll_cluster_call *call, enum gpucoll_coll coll);

extern const struct gpucoll_cluster_family gpucoll_cluster_allreduce;
extern const struct gpucoll_cluster_family gpucoll_cluster_reduce;
extern const struct gpucoll_cluster_family gpucoll_cluster_bcast;
extern const struct gpucoll_cluster_family gpucoll_cluster_allgather;
extern const struct gpucoll_cluster_family gpucoll_cluster_reduce_scatter;
extern const struct gpucoll_cluster_family gpucoll_cluster_move;
extern const struct gpucoll_cluster_family gpucoll_cluster_scan;
extern const struct gpucoll_cluster_family gpucoll_cluster_exscan;
/* Of few bytes, from rank to rank (core/cluster/cluster_whole.c). */
extern const struct gpucoll_cluster_family gpucoll_cluster_allreduce_flat;
extern const struct gpucoll_cluster_family gpucoll_cluster_reduce_flat;
extern const struct gpucoll_cluster_family gpucoll_cluster_bcast_flat;
/* Which of these a call of so many bytes is; NULL: of none. The same on all ranks. */
const struct gpucoll_cluster_family *gpucoll_cluster_flat(const struct gpucoll_cluster *cluster,
                                                          enum gpucoll_coll coll, uint64_t bytes);
/* Those of coll_gpucoll_deterministic. */
extern const struct gpucoll_cluster_family gpucoll_cluster_allreduce_ordered;
extern const struct gpucoll_cluster_family gpucoll_cluster_reduce_ordered;
extern const struct gpucoll_cluster_family gpucoll_cluster_reduce_scatter_ordered;

/* A unit whose ranks' parts, one a rail, lie one behind the other in a buffer of call->bytes. */
struct gpucoll_stage_part {
    uint64_t at; /* in the buffer */
    uint64_t bytes;
};
struct gpucoll_stage_part gpucoll_stage_part(const struct gpucoll_cluster_call *call, uint64_t unit,
                                             uint32_t rail);
/* units, part_bytes and slot_bytes of such a call. */
void gpucoll_stage_shape_parts(struct gpucoll_cluster_call *call);
/* A unit of which every rank has all; units, part_bytes and slot_bytes of such a call. */
struct gpucoll_stage_part gpucoll_stage_whole(const struct gpucoll_cluster_call *call, uint64_t unit);
void gpucoll_stage_shape_whole(struct gpucoll_cluster_call *call);
/* A unit that is a piece of the block of every rank. */
void gpucoll_stage_shape_pieces(struct gpucoll_cluster_call *call);
/* `ops` of a family without local calls. */
uint32_t gpucoll_stage_no_ops(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side);
/* Of a call with blocks: those that lie `group` times the rails behind are of the same units. */
void gpucoll_stage_shape_blocks(struct gpucoll_cluster_call *call);
/* In such a unit: the rank of `host` whose block goes along `rail`, and what of it; no bytes if there is none. */
struct gpucoll_stage_part gpucoll_stage_block(const struct gpucoll_cluster_call *call, uint64_t unit,
                                              uint32_t host, uint32_t rail);
/* Of this rank's rail: where the unit's slot has what belongs to a host, one behind the other. */
uint64_t gpucoll_stage_place(const struct gpucoll_cluster_call *call, uint64_t unit, uint32_t host);
/* Bytes of what belongs to each host; false if that is nothing at all. */
bool gpucoll_stage_places(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks);
static inline uint32_t gpucoll_stage_group(const struct gpucoll_cluster_call *call, uint64_t unit)
{
    return (uint32_t)(unit % call->cluster->groups);
}

/* The rail that the call goes along; NULL: this rank is on none, or the call goes along none. */
static inline struct gpucoll_rail *gpucoll_stage_rail(const struct gpucoll_cluster_call *call,
                                                      struct gpucoll_cluster *cluster)
{
    if (call->family->between == GPUCOLL_BETWEEN_RANKS) {
        return &cluster->all;
    }
    return cluster->on_rail && call->family->between == GPUCOLL_BETWEEN_RAILS ? &cluster->rail : NULL;
}

/* What a unit has to do along its rail, but for where its data is; false: nothing. `blocks`: one for each rank of the rail, where the call goes in
 * blocks. */
static inline bool gpucoll_stage_rail_args(const struct gpucoll_cluster_call *call, uint64_t unit,
                                           uint64_t *blocks, struct gpucoll_rail_args *args)
{
    *args = (struct gpucoll_rail_args){
        .algorithm = gpucoll_rail_named(call->cluster->context->config->rail_algorithm),
    };
    const bool goes = call->family->rail(call, unit, blocks, args);
    args->blocks = blocks;
    return goes;
}

/* A run of memory that holds what it was extended by. */
struct gpucoll_extent {
    char *begin; /* NULL: nothing */
    char *end;
};
static inline void gpucoll_extend(struct gpucoll_extent *extent, const void *place, uint64_t bytes)
{
    char *begin = (char *)place;
    char *end = begin + bytes;
    if (bytes > 0) {
        const bool first = extent->begin == NULL;
        extent->begin = first || begin < extent->begin ? begin : extent->begin;
        extent->end = first || end > extent->end ? end : extent->end;
    }
}

/* Asks the network to take it; NULL: it does not. */
struct gpucoll_net_memory *gpucoll_stage_reach(const struct gpucoll_cluster_call *call,
                                               const struct gpucoll_extent *extent);
void gpucoll_stage_forget(const struct gpucoll_cluster_call *call, struct gpucoll_net_memory *memory);
/* What messages have brought into the device's memory is there for kernels. */
gpucoll_status gpucoll_stage_flush(const struct gpucoll_cluster_call *call) GPUCOLL_CHECKED;

/* ---- blocks that are not contiguous (core/cluster/cluster_pack.c) ---- */

/* A call as its stages see it. */
struct gpucoll_contiguous {
    struct gpucoll_coll_args args;
    struct gpucoll_block *blocks; /* that `args` may point to; of malloc */
    struct gpucoll_packing *packing;
};

/* Fills in `*out`; with a reason, this rank refuses the call, whose `args` are then as given. The caller frees `blocks` and `packing`, both
 * may be NULL. */
enum gpucoll_reason gpucoll_cluster_pack(const struct gpucoll_team *team,
                                         const struct gpucoll_coll_args *args,
                                         struct gpucoll_contiguous *out);
/* Does a result in place overwrite something that is still to be read? Then it is received into packed memory. (core/cluster/cluster_post.c) */
bool gpucoll_cluster_overwrites(const struct gpucoll_cluster *cluster, const struct gpucoll_coll_args *args);
/* Packs before the stages, or unpacks after them: as gpucoll_test. Takes a lane for that time. */
gpucoll_status gpucoll_cluster_move_packed(struct gpucoll_request *request, bool unpack) GPUCOLL_CHECKED;

/* ---- moving on, as gpucoll_test ---- */

/* The stages. */
gpucoll_status gpucoll_stages_move(struct gpucoll_request *request) GPUCOLL_CHECKED;
/* gpucoll_test of a local call that is a part of this one: what moves it moves the whole, too. */
gpucoll_status gpucoll_stage_test(struct gpucoll_request *request,
                                  struct gpucoll_request *local) GPUCOLL_CHECKED;
/* Has the result come along with what the hosts have told each other? Then there are no stages: it is brought to the device. */
static inline bool gpucoll_carry_has_come(const struct gpucoll_cluster_call *call)
{
    return call->carried;
}
/* When the call is posted: notes whether it is one of few bytes, by lengths that all ranks have alike or the call is an error. */
void gpucoll_carry_note(struct gpucoll_cluster_call *call, enum gpucoll_coll coll);
gpucoll_status gpucoll_carry_deliver(struct gpucoll_request *request) GPUCOLL_CHECKED;

/* Where a unit's temporary memory is. */
static inline char *gpucoll_stage_temp(const struct gpucoll_cluster_call *call, uint64_t unit)
{
    return call->temp + unit % GPUCOLL_STAGE_SLOTS * call->temp_bytes;
}

#endif
