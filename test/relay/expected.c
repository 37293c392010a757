#include "test/relay/expected.h"

#include <string.h>
#include "core/accel/accel.h"

bool relay_has_own(enum gpucoll_relay_flow flow, uint32_t position, uint32_t block)
{
    switch (flow) {
    case GPUCOLL_RELAY_ALLREDUCE:
    case GPUCOLL_RELAY_REDUCE_SCATTER:
        return true;
    case GPUCOLL_RELAY_ALLGATHER:
    case GPUCOLL_RELAY_BCAST:
        return position == block;
    default:
        return block == 0;
    }
}

bool relay_wants(enum gpucoll_relay_flow flow, uint32_t position, uint32_t block)
{
    switch (flow) {
    case GPUCOLL_RELAY_ALLREDUCE:
    case GPUCOLL_RELAY_ALLGATHER:
        return true;
    case GPUCOLL_RELAY_REDUCE_SCATTER:
        return position == block;
    case GPUCOLL_RELAY_BCAST:
    case GPUCOLL_RELAY_EXSCAN:
        return block == 0 && position != 0;
    case GPUCOLL_RELAY_REDUCE:
        return block == 0 && position == 0;
    default:
        return block == 0;
    }
}

enum { AT_A_TIME = 4096 }; /* bytes; a stack holds some of them */

/* Bytes of one block that go the same way. */
struct range {
    const struct relay_expected *call;
    uint32_t block;
    uint32_t way; /* 1: the other way round, or along the second tree */
    uint64_t begin;
    uint64_t bytes;
    char *result;
};

static void take(const struct range *range, uint32_t position, bool first)
{
    const struct relay_expected *call = range->call;
    const char *own = (const char *)call->own[position][range->block] + range->begin;
    if (first) {
        memcpy(range->result, own, range->bytes);
    } else {
        gpucoll_host_reduce(call->functor, range->result, range->result, own,
                            range->bytes / gpucoll_host_functor_size(call->functor));
    }
}

/* Round the ring, or along the chain, to the position where the block is complete. */
static void along_ring(const struct range *range, uint32_t last)
{
    const uint32_t n = range->call->nranks;
    for (uint32_t i = 1; i <= n; i++) {
        take(range, range->way == 0 ? (last + i) % n : (last + n - i) % n, i == 1);
    }
}

/* The first `count` positions, one after the other. */
static void in_order(const struct range *range, uint32_t count)
{
    for (uint32_t position = 0; position < count; position++) {
        take(range, position, position == 0);
    }
}

/* The nodes after `base`, `size` of them: in order, with the root at the largest power of two. */
static void up_tree(const struct range *range, uint32_t base, uint32_t size)
{
    const uint32_t n = range->call->nranks;
    uint32_t root = 1;
    while (2 * root <= size) {
        root *= 2;
    }
    const uint32_t node = base + root;
    const uint32_t own = range->way == 0 ? node - 1 : node % n;
    const bool left = root > 1;
    const bool right = size > root;
    if (left) {
        up_tree(range, base, root - 1);
    }
    if (right) {
        char other[AT_A_TIME];
        struct range side = *range;
        side.result = other;
        up_tree(&side, node, size - root);
        gpucoll_host_reduce(range->call->functor, range->result, range->result, other,
                            range->bytes / gpucoll_host_functor_size(range->call->functor));
    }
    take(range, own, !left); /* who has a child has a left one */
}

/* Its first half goes one way and its second the other, however many channels share them; a single channel has one way only. */
void relay_expect(const struct relay_expected *call, uint32_t position, uint32_t block, void *result)
{
    const uint64_t all = call->bytes[block];
    const uint64_t packs = (all + GPUCOLL_PACK_BYTES - 1) / GPUCOLL_PACK_BYTES;
    const uint64_t half = (packs + 1) / 2 * GPUCOLL_PACK_BYTES;
    const uint64_t turn = call->channels == 1 || half > all ? all : half;
    uint64_t bytes = 0;
    for (uint64_t at = 0; at < all; at += bytes) {
        const uint32_t way = at < turn ? 0 : 1;
        const uint64_t left = (way == 0 ? turn : all) - at;
        bytes = left < AT_A_TIME ? left : AT_A_TIME;
        const struct range range = {call, block, way, at, bytes, (char *)result + at};
        if (call->flow == GPUCOLL_RELAY_TREE) {
            up_tree(&range, 0, call->nranks);
        } else if (gpucoll_relay_is_scan(call->flow)) {
            in_order(&range, position + (call->flow == GPUCOLL_RELAY_SCAN ? 1 : 0));
        } else if (call->flow == GPUCOLL_RELAY_ALLGATHER || call->flow == GPUCOLL_RELAY_BCAST) {
            take(&range, block, true);
        } else {
            along_ring(&range, block);
        }
    }
}
