/*
 * How the data of a call of several hosts is cut into units, and what of a unit goes along which rail.
 */
#include "core/base/sizes.h"
#include "core/cluster/cluster_call.h"

/* Multiples of this many bytes hold whole elements of every type, and begin on lines of their own if the buffer does. */
static const uint64_t grain = 256;
/* What goes along a rail at once, as long as the message has several of them: enough for a network to be at its full speed, and not so
 * much that the first copy, before which the network idles, takes long. (The chunks of host memory of core/staging.c have the same bounds.) */
static const uint64_t least_part = 128 << 10;
static const uint64_t most_part = 1 << 20;
static const uint64_t wanted_units = 4;

/* What of `bytes`, which go along one rail or are one block, is to be in a unit at most. */
static uint64_t part_of(const struct gpucoll_cluster_call *call, uint64_t bytes, uint64_t most)
{
    const uint64_t forced = call->cluster->context->config->chunk;
    uint64_t part = bytes / wanted_units;
    part = part < least_part ? least_part : part;
    part = forced > 0 ? gpucoll_round_up(forced, 4096) : part;
    return gpucoll_smaller(gpucoll_smaller(gpucoll_round_up(part, grain), most), gpucoll_round_up(bytes, grain));
}

static uint64_t units_of(uint64_t bytes, uint64_t unit)
{
    return bytes > 0 ? (bytes + unit - 1) / unit : 0;
}

void gpucoll_stage_shape_parts(struct gpucoll_cluster_call *call)
{
    const uint32_t rails = call->cluster->rails;
    call->part_bytes = part_of(call, (call->bytes + rails - 1) / rails, most_part);
    call->units = units_of(call->bytes, call->part_bytes * rails);
    call->slot_bytes = call->part_bytes;
}

struct gpucoll_stage_part gpucoll_stage_part(const struct gpucoll_cluster_call *call, uint64_t unit,
                                             uint32_t rail)
{
    const uint32_t rails = call->cluster->rails;
    const uint64_t begin = unit * call->part_bytes * rails;
    const uint64_t left = gpucoll_smaller(call->bytes - begin, call->part_bytes * rails);
    const uint64_t part = gpucoll_round_up((left + rails - 1) / rails, grain);
    const uint64_t at = part * rail;
    if (rail >= rails || at >= left) {
        return (struct gpucoll_stage_part){.at = begin};
    }
    return (struct gpucoll_stage_part){.at = begin + at, .bytes = gpucoll_smaller(part, left - at)};
}

void gpucoll_stage_shape_whole(struct gpucoll_cluster_call *call)
{
    call->part_bytes = part_of(call, call->bytes, most_part);
    call->units = units_of(call->bytes, call->part_bytes);
    call->slot_bytes = call->part_bytes;
}

struct gpucoll_stage_part gpucoll_stage_whole(const struct gpucoll_cluster_call *call, uint64_t unit)
{
    const uint64_t begin = unit * call->part_bytes;
    return (struct gpucoll_stage_part){.at = begin, .bytes = gpucoll_smaller(call->bytes - begin, call->part_bytes)};
}

uint32_t gpucoll_stage_no_ops(const struct gpucoll_cluster_call *call, uint64_t unit, enum gpucoll_side side)
{
    (void)call;
    (void)unit;
    (void)side;
    return 0;
}

void gpucoll_stage_shape_pieces(struct gpucoll_cluster_call *call)
{
    const uint32_t size = call->cluster->size;
    call->part_bytes = part_of(call, call->bytes, gpucoll_round_up(most_part / size, 4096));
    call->units = units_of(call->bytes, call->part_bytes);
    call->slot_bytes = call->part_bytes * size;
}

void gpucoll_stage_shape_blocks(struct gpucoll_cluster_call *call)
{
    const uint32_t hosts = call->cluster->hosts;
    const uint64_t share = gpucoll_round_up(most_part / hosts, 4096);
    call->part_bytes = part_of(call, call->bytes, share);
    call->units = units_of(call->bytes, call->part_bytes) * call->cluster->groups;
    call->slot_bytes = call->part_bytes * hosts;
}

struct gpucoll_stage_part gpucoll_stage_block(const struct gpucoll_cluster_call *call, uint64_t unit,
                                              uint32_t host, uint32_t rail)
{
    const struct gpucoll_cluster *cluster = call->cluster;
    const uint32_t index = gpucoll_stage_group(call, unit) * cluster->rails + rail;
    if (rail >= cluster->rails || index >= gpucoll_host_size(cluster, host)) {
        return (struct gpucoll_stage_part){0};
    }
    const struct gpucoll_block *block = &call->blocks[gpucoll_host_rank(cluster, host, index)];
    const uint64_t begin = unit / cluster->groups * call->part_bytes;
    struct gpucoll_stage_part part = {.at = (uint64_t)block->offset + begin};
    part.bytes = begin < block->bytes ? gpucoll_smaller(call->part_bytes, block->bytes - begin) : 0;
    return part;
}

uint64_t gpucoll_stage_place(const struct gpucoll_cluster_call *call, uint64_t unit, uint32_t host)
{
    uint64_t at = 0;
    for (uint32_t before = 0; before < host; before++) {
        at += gpucoll_stage_block(call, unit, before, call->index).bytes;
    }
    return at;
}

bool gpucoll_stage_places(const struct gpucoll_cluster_call *call, uint64_t unit, uint64_t *blocks)
{
    for (uint32_t host = 0; host < call->cluster->hosts; host++) {
        blocks[host] = gpucoll_stage_block(call, unit, host, call->index).bytes;
    }
    return gpucoll_stage_place(call, unit, call->cluster->hosts) > 0;
}
