#include "core/exports.h"

static struct gpucoll_export *find(struct gpucoll_exports *exports, uint64_t id)
{
    for (int i = 0; i < GPUCOLL_BOARD_EXPORTS; i++) {
        struct gpucoll_export *entry = &exports->entries[i];
        if (entry->state != GPUCOLL_EXPORT_FREE && entry->id == id) {
            return entry;
        }
    }
    return NULL;
}

static void drop(struct gpucoll_export *entry, struct gpucoll_board *board, int index)
{
    if (entry->state == GPUCOLL_EXPORT_READY) {
        gpucoll_board_export(board, (uint32_t)index, 0, NULL);
    }
    *entry = (struct gpucoll_export){.state = GPUCOLL_EXPORT_FREE};
}

/* Drops what the application has freed meanwhile. */
static void sweep(struct gpucoll_exports *exports, struct gpucoll_board *board, struct gpucoll_accel *accel)
{
    for (int i = 0; i < GPUCOLL_BOARD_EXPORTS; i++) {
        struct gpucoll_export *entry = &exports->entries[i];
        if (entry->state == GPUCOLL_EXPORT_FREE || entry->users > 0) {
            continue;
        }
        struct gpucoll_buffer now;
        accel->ops->classify(accel, (const void *)entry->begin, &now);
        if (now.id != entry->id) {
            drop(entry, board, i);
        }
    }
}

/* A free entry; when there is none, the one that was not used for the longest time. */
static struct gpucoll_export *new_entry(struct gpucoll_exports *exports, struct gpucoll_board *board)
{
    int oldest = -1;
    for (int i = 0; i < GPUCOLL_BOARD_EXPORTS; i++) {
        const struct gpucoll_export *entry = &exports->entries[i];
        if (entry->state == GPUCOLL_EXPORT_FREE) {
            oldest = i;
            break;
        }
        if (entry->users == 0 && (oldest < 0 || entry->latest < exports->entries[oldest].latest)) {
            oldest = i;
        }
    }
    if (oldest < 0) {
        return NULL;
    }
    drop(&exports->entries[oldest], board, oldest);
    return &exports->entries[oldest];
}

static void publish(struct gpucoll_exports *exports, struct gpucoll_board *board,
                    const struct gpucoll_gpu *gpu, struct gpucoll_export *entry)
{
    const uint32_t index = (uint32_t)(entry - exports->entries);
    struct gpucoll_memory_handle handle;
    const struct gpucoll_accel_ops *ops = gpu->device->accel->ops;
    if (ops->export_memory(gpu->device, (const void *)entry->begin, &handle) != GPUCOLL_OK) {
        entry->state = GPUCOLL_EXPORT_REFUSED;
        return;
    }
    entry->key = gpucoll_export_key(++exports->keys, index);
    entry->begin = (uintptr_t)handle.address;
    entry->bytes = handle.bytes;
    entry->state = GPUCOLL_EXPORT_READY;
    gpucoll_board_export(board, index, entry->key, &handle);
}

struct gpucoll_export *gpucoll_export_take(struct gpucoll_exports *exports, struct gpucoll_board *board,
                                           const struct gpucoll_gpu *gpu, const struct gpucoll_buffer *buffer,
                                           const void *pointer, uint64_t bytes)
{
    if (buffer->id == 0) {
        return NULL;
    }
    struct gpucoll_export *entry = find(exports, buffer->id);
    if (entry == NULL) {
        sweep(exports, board, gpu->device->accel);
        entry = new_entry(exports, board);
        if (entry != NULL) {
            entry->state = GPUCOLL_EXPORT_SEEN;
            entry->id = buffer->id;
            entry->begin = (uintptr_t)pointer;
            entry->latest = ++exports->uses;
        }
        return NULL;
    }
    entry->latest = ++exports->uses;
    if (entry->state == GPUCOLL_EXPORT_SEEN) {
        publish(exports, board, gpu, entry);
    }
    const uintptr_t begin = (uintptr_t)pointer;
    if (entry->state != GPUCOLL_EXPORT_READY || begin < entry->begin ||
        begin + bytes > entry->begin + entry->bytes) {
        return NULL;
    }
    entry->users++;
    return entry;
}

void gpucoll_export_give(struct gpucoll_export *entry)
{
    entry->users--;
}
