/*
 * Blocks of a few size classes, kept in one list, the last one used in front. When the list holds more than
 * the cap, its tail is freed: an application that changes its sizes gets the old ones out of the way.
 */
#include "coll_gpucoll_pool.h"
#include <pthread.h>
#include <stdalign.h>
#include "coll_gpucoll.h"

/* Kept between calls, whatever was used at the peak. Pinned memory cannot be swapped out, so what one process
 * keeps must stay small beside a node's memory even with a rank on every core. */
static const size_t kept_cap_bytes = (size_t)256 << 20;
static const size_t smallest_block = 4096;

struct block {
    alignas(64) struct block *next;
    size_t bytes; /* of the user's part, which follows */
};

static struct {
    pthread_mutex_t lock;
    struct block *kept;
    size_t kept_bytes;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Four classes for each power of two: at most a quarter is wasted. */
static size_t size_class(size_t bytes)
{
    size_t step = smallest_block / 4;
    while (step * 8 < bytes) {
        step *= 2;
    }
    return bytes <= smallest_block ? smallest_block : (bytes + step - 1) / step * step;
}

static struct block *take_kept(size_t bytes)
{
    pthread_mutex_lock(&pool.lock);
    struct block **link = &pool.kept;
    while (*link != NULL && (*link)->bytes != bytes) {
        link = &(*link)->next;
    }
    struct block *block = *link;
    if (block != NULL) {
        *link = block->next;
        pool.kept_bytes -= bytes;
    }
    pthread_mutex_unlock(&pool.lock);
    return block;
}

/* Detaches the tail beyond the first `cap` bytes. */
static struct block *cut_tail(size_t cap)
{
    struct block **link = &pool.kept;
    size_t sum = 0;
    while (*link != NULL && sum + (*link)->bytes <= cap) {
        sum += (*link)->bytes;
        link = &(*link)->next;
    }
    struct block *tail = *link;
    *link = NULL;
    pool.kept_bytes = sum;
    return tail;
}

static void free_list(struct gpucoll_accel *accel, struct block *list)
{
    while (list != NULL) {
        struct block *next = list->next;
        accel->ops->host_free(accel, list);
        list = next;
    }
}

void *gpucoll_pool_get(struct gpucoll_accel *accel, size_t bytes)
{
    size_t rounded = size_class(bytes);
    struct block *block = take_kept(rounded);
    if (block == NULL) {
        void *fresh = NULL;
        gpucoll_status status = accel->ops->host_alloc(accel, sizeof(struct block) + rounded, &fresh);
        if (status != GPUCOLL_OK) {
            gpucoll_help(accel->log, "staging-memory", rounded, gpucoll_status_name(status));
            return NULL;
        }
        block = fresh;
        block->bytes = rounded;
    }
    return block + 1;
}

void gpucoll_pool_put(struct gpucoll_accel *accel, void *memory)
{
    struct block *block = (struct block *)memory - 1;
    struct block *excess = NULL;
    if (block->bytes > kept_cap_bytes) { /* alone: what else is kept stays */
        accel->ops->host_free(accel, block);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    block->next = pool.kept;
    pool.kept = block;
    pool.kept_bytes += block->bytes;
    if (pool.kept_bytes > kept_cap_bytes) {
        excess = cut_tail(kept_cap_bytes);
    }
    pthread_mutex_unlock(&pool.lock);
    free_list(accel, excess);
}

void gpucoll_pool_empty(struct gpucoll_accel *accel)
{
    pthread_mutex_lock(&pool.lock);
    struct block *all = cut_tail(0);
    pthread_mutex_unlock(&pool.lock);
    free_list(accel, all);
}
