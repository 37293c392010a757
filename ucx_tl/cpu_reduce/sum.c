#include "ucx_tl/cpu_reduce/sum.h"
#include <string.h>

/* Partial results stay in the first-level cache of every processor in use (32 KiB and more). */
enum { BLOCK = 8192 };

void gpucoll_sum_cut(struct gpucoll_sum *sum)
{
    sum->shares = (uint32_t)((sum->chunk_bytes + sum->share_bytes - 1) / sum->share_bytes);
    sum->chunks = 0;
    for (uint32_t i = 0; i < sum->nblocks; i++) {
        sum->first[i] = sum->chunks;
        sum->chunks += (sum->block_bytes[i] + sum->chunk_bytes - 1) / sum->chunk_bytes;
    }
    sum->first[sum->nblocks] = sum->chunks;
}

void gpucoll_sum_open(struct gpucoll_sum *sum)
{
    struct gpucoll_outbox_lane *desk = sum->lane[0];
    const uint64_t none = gpucoll_outbox_word(sum->epoch[0], 0);
    for (uint32_t i = 0; i < sum->slots; i++) {
        atomic_store_explicit(&desk->summed[i].word, none, memory_order_relaxed);
    }
    atomic_store_explicit(&desk->taken.word, none, memory_order_release);
}

struct gpucoll_sum_piece gpucoll_sum_piece(const struct gpucoll_sum *sum, uint64_t chunk)
{
    uint32_t block = 0;
    while (sum->first[block + 1] <= chunk) {
        block++;
    }
    uint64_t offset = (chunk - sum->first[block]) * sum->chunk_bytes;
    uint64_t left = sum->block_bytes[block] - offset;
    return (struct gpucoll_sum_piece){block, offset, left < sum->chunk_bytes ? left : sum->chunk_bytes};
}

uint32_t gpucoll_sum_unfilled(const struct gpucoll_sum *sum, uint64_t chunk)
{
    uint32_t rank = 0;
    while (rank < sum->contributors &&
           gpucoll_outbox_count(&sum->lane[rank]->filled[0], sum->epoch[rank]) > chunk) {
        rank++;
    }
    return rank;
}

bool gpucoll_sum_is_done(const struct gpucoll_sum *sum, uint64_t chunk)
{
    const struct gpucoll_outbox_flag *summed = &sum->lane[0]->summed[chunk % sum->slots];
    return gpucoll_outbox_count(summed, sum->epoch[0]) >= (chunk / sum->slots + 1) * sum->shares;
}

void gpucoll_sum_tell(const struct gpucoll_sum *sum, uint64_t chunk, uint32_t shares)
{
    atomic_fetch_add_explicit(&sum->lane[0]->summed[chunk % sum->slots].word, shares, memory_order_release);
}

/* In rank order, each block of partial results kept in the cache. The results may overwrite the home's part: it is read first. */
static void reduce_all(const struct gpucoll_sum *sum, uint64_t chunk, uint64_t begin, uint64_t bytes)
{
    _Alignas(64) char partial[BLOCK];
    const size_t unit = gpucoll_host_functor_size(sum->functor);
    char *to = gpucoll_sum_slot(sum, gpucoll_sum_home(sum, chunk), chunk) + begin;
    const uint32_t last = sum->contributors - 1;
    for (uint64_t at = 0; at < bytes; at += BLOCK) {
        const size_t now = bytes - at < BLOCK ? (size_t)(bytes - at) : BLOCK;
        const char *left = gpucoll_sum_slot(sum, 0, chunk) + begin + at;
        if (last == 0) {
            memmove(to + at, left, now);
        }
        for (uint32_t rank = 1; rank <= last; rank++) {
            const char *right = gpucoll_sum_slot(sum, rank, chunk) + begin + at;
            char *result = rank == last ? to + at : partial;
            gpucoll_host_reduce(sum->functor, result, left, right, now / unit);
            left = partial;
        }
    }
}

static void reduce_prefixes(const struct gpucoll_sum *sum, uint64_t chunk, uint64_t begin, uint64_t bytes)
{
    const size_t unit = gpucoll_host_functor_size(sum->functor);
    for (uint64_t at = 0; at < bytes; at += BLOCK) {
        const size_t now = bytes - at < BLOCK ? (size_t)(bytes - at) : BLOCK;
        for (uint32_t rank = 1; rank < sum->contributors; rank++) {
            char *own = gpucoll_sum_slot(sum, rank, chunk) + begin + at;
            gpucoll_host_reduce(sum->functor, own, gpucoll_sum_slot(sum, rank - 1, chunk) + begin + at, own,
                                now / unit);
        }
    }
}

bool gpucoll_sum_share(const struct gpucoll_sum *sum)
{
    struct gpucoll_outbox_lane *desk = sum->lane[0];
    uint64_t word = atomic_load_explicit(&desk->taken.word, memory_order_acquire);
    uint64_t chunk;
    do {
        chunk = (uint32_t)word / sum->shares;
        if ((uint32_t)(word >> 32) != sum->epoch[0] || chunk >= sum->chunks ||
            gpucoll_sum_unfilled(sum, chunk) < sum->contributors) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&desk->taken.word, &word, word + 1, memory_order_acq_rel,
                                                    memory_order_acquire));
    const struct gpucoll_sum_piece piece = gpucoll_sum_piece(sum, chunk);
    const uint64_t begin = (uint32_t)word % sum->shares * sum->share_bytes;
    if (begin < piece.bytes) {
        uint64_t left = piece.bytes - begin;
        uint64_t bytes = left < sum->share_bytes ? left : sum->share_bytes;
        if (sum->prefix) {
            reduce_prefixes(sum, chunk, begin, bytes);
        } else {
            reduce_all(sum, chunk, begin, bytes);
        }
    }
    gpucoll_sum_tell(sum, chunk, 1);
    return true;
}
