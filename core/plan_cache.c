#include "core/plan_cache.h"

/* By the five highest bits of the size and their position, so that the sizes of one of the selector's classes share a place. */
static struct gpucoll_cached_plan *place_of(struct gpucoll_plan_cache *cache, enum gpucoll_coll coll,
                                            int functor, uint64_t bytes)
{
    const uint64_t size = bytes == 0 ? 0 : bytes - 1;
    const int shift = 63 - __builtin_clzll(size | 31) - 4;
    const uint64_t position = (uint64_t)shift << 5 | size >> shift;
    const uint64_t key = (position ^ (uint64_t)functor << 16 ^ (uint64_t)coll << 32) * 0x9E3779B97F4A7C15u;
    _Static_assert(GPUCOLL_PLAN_CACHE == 64, "the index is the key's top 6 bits");
    return &cache->entry[key >> 58];
}

static bool is_for(const struct gpucoll_cached_plan *entry, const void *links, enum gpucoll_coll coll,
                   int functor, enum gpucoll_direct direct, bool unattended)
{
    return entry->links == links && entry->coll == coll && entry->functor == functor &&
           entry->direct == direct && entry->unattended == unattended;
}

const struct gpucoll_plan *gpucoll_plan_find(struct gpucoll_plan_cache *cache, const void *links,
                                             enum gpucoll_coll coll, int functor, uint64_t bytes,
                                             enum gpucoll_direct direct, bool unattended)
{
    const struct gpucoll_cached_plan *entry = place_of(cache, coll, functor, bytes);
    return is_for(entry, links, coll, functor, direct, unattended) && entry->bytes == bytes ? &entry->plan
                                                                                            : NULL;
}

gpucoll_status gpucoll_plan_make(struct gpucoll_plan_cache *cache, const void *links,
                                 const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                                 bool *fresh, const struct gpucoll_plan **plan)
{
    struct gpucoll_cached_plan *entry = place_of(cache, input->coll, input->functor, input->bytes);
    *fresh = !is_for(entry, links, input->coll, input->functor, input->direct, input->unattended) ||
             input->bytes < entry->choice.low || input->bytes > entry->choice.high;
    if (*fresh) {
        entry->links = NULL;
        gpucoll_status status = gpucoll_choose(input, log, &cache->said, &entry->choice);
        if (status != GPUCOLL_OK) {
            return status;
        }
        entry->links = links;
        entry->coll = input->coll;
        entry->functor = input->functor;
        entry->direct = input->direct;
        entry->unattended = input->unattended;
    }
    gpucoll_shape(entry->choice.algorithm, input, &entry->plan);
    entry->bytes = input->bytes;
    *plan = &entry->plan;
    return GPUCOLL_OK;
}
