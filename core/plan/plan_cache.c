#include "core/plan/plan_cache.h"

/* By the five highest bits of the size and their position, so that the sizes of one of the selector's classes share a place. Calls that overlap
 * are crowded but for the first of them, so that these would take each other's places by turns; so would the two plans of a call that comes apart. */
static struct gpucoll_cached_plan *place_of(struct gpucoll_plan_cache *cache,
                                            const struct gpucoll_plan_call *call)
{
    const uint64_t size = call->bytes == 0 ? 0 : call->bytes - 1;
    const int shift = 63 - __builtin_clzll(size | 31) - 4;
    const uint64_t position = (uint64_t)shift << 5 | size >> shift;
    const uint64_t key = (position ^ (uint64_t)call->functor << 16 ^ (uint64_t)call->coll << 32 ^
                          (uint64_t)call->crowded << 48 ^ (uint64_t)call->apart << 49) *
                         0x9E3779B97F4A7C15u;
    _Static_assert(GPUCOLL_PLAN_CACHE == 64, "the index is the key's top 6 bits");
    return &cache->entry[key >> 58];
}

/* But for the size. */
static bool is_for(const struct gpucoll_cached_plan *entry, const void *links,
                   const struct gpucoll_plan_call *call)
{
    return entry->links == links && entry->call.coll == call->coll && entry->call.functor == call->functor &&
           entry->call.direct == call->direct && entry->call.room == call->room &&
           entry->call.unattended == call->unattended && entry->call.crowded == call->crowded &&
           entry->call.apart == call->apart;
}

const struct gpucoll_plan *gpucoll_plan_find(struct gpucoll_plan_cache *cache, const void *links,
                                             const struct gpucoll_plan_call *call)
{
    const struct gpucoll_cached_plan *entry = place_of(cache, call);
    return is_for(entry, links, call) && entry->call.bytes == call->bytes ? &entry->plan : NULL;
}

static struct gpucoll_plan_call call_of(const struct gpucoll_plan_input *input)
{
    return (struct gpucoll_plan_call){
        .coll = input->coll,
        .functor = input->functor,
        .bytes = input->bytes,
        .direct = input->direct,
        .room = input->room,
        .unattended = input->unattended,
        .crowded = input->crowded,
        .apart = input->apart,
    };
}

gpucoll_status gpucoll_plan_make(struct gpucoll_plan_cache *cache, const void *links,
                                 const struct gpucoll_plan_input *input, const struct gpucoll_log *log,
                                 bool *fresh, const struct gpucoll_plan **plan)
{
    const struct gpucoll_plan_call call = call_of(input);
    struct gpucoll_cached_plan *entry = place_of(cache, &call);
    *fresh =
        !is_for(entry, links, &call) || input->bytes < entry->choice.low || input->bytes > entry->choice.high;
    if (*fresh) {
        entry->links = NULL;
        gpucoll_status status = gpucoll_choose(input, log, &cache->said, &entry->choice);
        if (status != GPUCOLL_OK) {
            return status;
        }
        entry->links = links;
    }
    gpucoll_shape(entry->choice.algorithm, input, &entry->plan);
    entry->call = call;
    *plan = &entry->plan;
    return GPUCOLL_OK;
}
