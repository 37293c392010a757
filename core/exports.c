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

static bool holds(const struct gpucoll_export *entry, const void *pointer, uint64_t bytes)
{
    const uintptr_t begin = (uintptr_t)pointer;
    return begin >= entry->begin && begin + bytes <= entry->begin + entry->bytes;
}

static uint64_t id_at(struct gpucoll_accel *accel, uintptr_t at)
{
    struct gpucoll_buffer buffer;
    accel->ops->classify(accel, (const void *)at, &buffer);
    return buffer.id;
}

/* The number of one more allocation goes into that of several: splitmix64's finaliser, so that each bit counts. The highest bit keeps it
 * apart from the driver's own, which count up. */
static uint64_t join(uint64_t several, uint64_t id)
{
    uint64_t word = (several ^ id) + UINT64_C(0x9e3779b97f4a7c15);
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return (word ^ word >> 31) | UINT64_C(1) << 63;
}

/* `last` is that of the last byte: where the driver takes several for one that has another end, nothing is sure. */
static uint64_t identify_several(struct gpucoll_device *device, uintptr_t at, uintptr_t end, uint64_t last)
{
    uint64_t several = 0;
    uint64_t id = 0;
    for (int pieces = 0; at < end; pieces++) {
        uintptr_t begin;
        uint64_t bytes;
        id = id_at(device->accel, at);
        if (id == 0 || pieces == GPUCOLL_HANDLE_PIECES_MAX ||
            !device->accel->ops->extent(device, (const void *)at, &begin, &bytes)) {
            return 0;
        }
        several = join(several, id);
        at = begin + bytes;
    }
    return id == last ? several : 0;
}

static uint64_t identify(struct gpucoll_device *device, uintptr_t begin, uint64_t bytes, uint64_t first)
{
    const uint64_t last = first != 0 ? id_at(device->accel, begin + bytes - 1) : 0;
    return first == last ? first : identify_several(device, begin, begin + bytes, last);
}

/* Is all of it in the one allocation `id`, which is exported, as `place` in it is? As in all but a buffer's first two uses. */
static bool lies_in(struct gpucoll_exports *exports, uint64_t id, const void *place, const void *pointer,
                    uint64_t bytes)
{
    const struct gpucoll_export *entry = id != 0 ? find(exports, id) : NULL;
    return entry != NULL && entry->state == GPUCOLL_EXPORT_READY && holds(entry, place, 1) &&
           holds(entry, pointer, bytes);
}

uint64_t gpucoll_export_identify(struct gpucoll_exports *exports, const struct gpucoll_gpu *gpu,
                                 const struct gpucoll_place *places, const void *pointer, uint64_t bytes)
{
    for (int i = 0; i < GPUCOLL_PLACES; i++) {
        if (lies_in(exports, places[i].id, places[i].pointer, pointer, bytes)) {
            return places[i].id;
        }
    }
    const uint64_t first = id_at(gpu->device->accel, (uintptr_t)pointer);
    if (lies_in(exports, first, pointer, pointer, bytes)) {
        return first;
    }
    return identify(gpu->device, (uintptr_t)pointer, bytes, first);
}

/* Peers are told before what they would map is taken back: who finds the key after it has mapped has mapped the right thing. */
static void drop(struct gpucoll_export *entry, struct gpucoll_board *board, int index,
                 struct gpucoll_accel *accel)
{
    if (entry->state == GPUCOLL_EXPORT_READY) {
        const struct gpucoll_memory_handle handle = board->header->exports[index].handle;
        gpucoll_board_export(board, (uint32_t)index, 0, NULL);
        accel->ops->unexport_memory(accel, &handle);
    }
    *entry = (struct gpucoll_export){.state = GPUCOLL_EXPORT_FREE};
}

/* Drops what the application has freed meanwhile. */
static void sweep(struct gpucoll_exports *exports, struct gpucoll_board *board, struct gpucoll_device *device)
{
    for (int i = 0; i < GPUCOLL_BOARD_EXPORTS; i++) {
        struct gpucoll_export *entry = &exports->entries[i];
        if (entry->state == GPUCOLL_EXPORT_FREE || entry->users > 0) {
            continue;
        }
        const uint64_t first = id_at(device->accel, entry->begin);
        if (identify(device, entry->begin, entry->bytes, first) != entry->id) {
            drop(entry, board, i, device->accel);
        }
    }
}

/* A free entry; when there is none, the one that was not used for the longest time. */
static struct gpucoll_export *new_entry(struct gpucoll_exports *exports, struct gpucoll_board *board,
                                        struct gpucoll_accel *accel)
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
    drop(&exports->entries[oldest], board, oldest, accel);
    return &exports->entries[oldest];
}

static void publish(struct gpucoll_exports *exports, struct gpucoll_board *board,
                    const struct gpucoll_gpu *gpu, struct gpucoll_export *entry)
{
    const uint32_t index = (uint32_t)(entry - exports->entries);
    struct gpucoll_memory_handle handle;
    const struct gpucoll_accel_ops *ops = gpu->device->accel->ops;
    if (ops->export_memory(gpu->device, (const void *)entry->begin, entry->bytes, &handle) != GPUCOLL_OK) {
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
                                           const struct gpucoll_gpu *gpu, uint64_t id, const void *pointer,
                                           uint64_t bytes)
{
    if (id == 0) {
        return NULL;
    }
    struct gpucoll_export *entry = find(exports, id);
    if (entry == NULL) {
        sweep(exports, board, gpu->device);
        entry = new_entry(exports, board, gpu->device->accel);
        if (entry != NULL) {
            entry->state = GPUCOLL_EXPORT_SEEN;
            entry->id = id;
            entry->begin = (uintptr_t)pointer;
            entry->bytes = bytes;
            entry->latest = ++exports->uses;
        }
        return NULL;
    }
    entry->latest = ++exports->uses;
    if (entry->state == GPUCOLL_EXPORT_SEEN) {
        publish(exports, board, gpu, entry);
    }
    if (entry->state != GPUCOLL_EXPORT_READY || !holds(entry, pointer, bytes)) {
        return NULL;
    }
    entry->users++;
    return entry;
}

void gpucoll_export_give(struct gpucoll_export *entry)
{
    entry->users--;
}

void gpucoll_exports_close(struct gpucoll_exports *exports, struct gpucoll_board *board,
                           struct gpucoll_accel *accel)
{
    for (int i = 0; i < GPUCOLL_BOARD_EXPORTS; i++) {
        drop(&exports->entries[i], board, i, accel);
    }
}
