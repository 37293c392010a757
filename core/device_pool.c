#include "core/device_pool.h"

#include <stdlib.h>

struct gpucoll_device_block {
    struct gpucoll_device_block *next;
    void *memory;
    size_t bytes;
    bool used;
};

/* Enough to pack messages of some hundred MiB again and again without asking the driver, and little beside the GPU's
 * memory. */
static const size_t most_kept_bytes = (size_t)512 << 20;

/* Powers of two and the three steps between them: at most a quarter is wasted, and blocks are found again. */
static size_t size_class(size_t bytes)
{
    const size_t smallest = (size_t)64 << 10;
    size_t step = smallest / 4;
    while (step * 8 < bytes) {
        step *= 2;
    }
    return bytes <= smallest ? smallest : (bytes + step - 1) / step * step;
}

static void free_block(struct gpucoll_device_pool *pool, struct gpucoll_device_block **link)
{
    struct gpucoll_device_block *block = *link;
    *link = block->next;
    pool->total_bytes -= block->bytes;
    pool->kept_bytes -= block->used ? 0 : block->bytes;
    pool->device->accel->ops->memory_free(pool->device, block->memory);
    free(block);
}

/* Frees unused blocks from the one not used for longest on, until no more than `most` bytes are kept. */
static void trim(struct gpucoll_device_pool *pool, size_t most)
{
    while (pool->kept_bytes > most) {
        struct gpucoll_device_block **last = NULL;
        for (struct gpucoll_device_block **link = &pool->blocks; *link != NULL; link = &(*link)->next) {
            last = (*link)->used ? last : link;
        }
        free_block(pool, last);
    }
}

static struct gpucoll_device_block *take_kept(struct gpucoll_device_pool *pool, size_t bytes)
{
    for (struct gpucoll_device_block *block = pool->blocks; block != NULL; block = block->next) {
        if (!block->used && block->bytes == bytes) {
            return block;
        }
    }
    return NULL;
}

static struct gpucoll_device_block *make_block(struct gpucoll_device_pool *pool, size_t bytes)
{
    const struct gpucoll_accel_ops *ops = pool->device->accel->ops;
    struct gpucoll_device_block *block = calloc(1, sizeof *block);
    if (block == NULL) {
        return NULL;
    }
    gpucoll_status status = ops->memory_alloc(pool->device, bytes, &block->memory);
    if (status != GPUCOLL_OK && pool->kept_bytes > 0) {
        trim(pool, 0);
        status = ops->memory_alloc(pool->device, bytes, &block->memory);
    }
    if (status != GPUCOLL_OK) {
        free(block);
        return NULL;
    }
    block->bytes = bytes;
    block->next = pool->blocks;
    pool->blocks = block;
    pool->total_bytes += bytes;
    pool->kept_bytes += bytes;
    return block;
}

void *gpucoll_device_pool_get(struct gpucoll_device_pool *pool, size_t bytes)
{
    const size_t bound = pool->device->accel->config->pack_bytes;
    if (bytes > bound) {
        return NULL; /* so large a number need not even be rounded */
    }
    const size_t rounded = size_class(bytes);
    struct gpucoll_device_block *block = take_kept(pool, rounded);
    if (block == NULL) {
        if (rounded > bound - (pool->total_bytes < bound ? pool->total_bytes : bound)) {
            trim(pool, 0);
        }
        if (pool->total_bytes > bound || rounded > bound - pool->total_bytes) {
            return NULL;
        }
        block = make_block(pool, rounded);
    }
    if (block == NULL) {
        return NULL;
    }
    block->used = true;
    pool->kept_bytes -= block->bytes;
    return block->memory;
}

void gpucoll_device_pool_put(struct gpucoll_device_pool *pool, void *memory)
{
    struct gpucoll_device_block **link = &pool->blocks;
    while (*link != NULL && (*link)->memory != memory) {
        link = &(*link)->next;
    }
    struct gpucoll_device_block *block = *link;
    if (memory == NULL || block == NULL) {
        return;
    }
    *link = block->next;
    block->next = pool->blocks;
    pool->blocks = block;
    block->used = false;
    pool->kept_bytes += block->bytes;
    trim(pool, most_kept_bytes);
}

void gpucoll_device_pool_close(struct gpucoll_device_pool *pool)
{
    while (pool->blocks != NULL) {
        free_block(pool, &pool->blocks);
    }
}
