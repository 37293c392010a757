#include "core/accel/host_arena.h"
#include "core/accel/host_stream.h"
#include <pthread.h>
#include <stdlib.h>

/* A buffer of no bytes still gets an address of its own. Large device-like ones are segments, which peers can map as they map
 * the memory of a GPU. */
struct buffer {
    struct buffer *next;
    char *begin;
    size_t bytes;
    enum gpucoll_memory memory;
    uint64_t id;
    struct gpucoll_segment segment; /* closed: the memory is of the C library */
};

/* The one registry of the process, shared by its contexts as a driver's is. Tests hold a handful of buffers,
 * so a list does. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;
static uint64_t last_id;

/* What cudaMalloc guarantees. */
static const size_t alignment = 256;

/* Smaller ones are not worth a mapping. */
static const size_t least_shared = (size_t)64 << 10;

/* The memory of a buffer: a segment where that is worth while and there is room for one. */
static char *new_memory(struct buffer *buffer, size_t bytes, enum gpucoll_memory memory)
{
    buffer->segment = (struct gpucoll_segment){.fd = -1};
    if (memory == GPUCOLL_MEMORY_DEVICE && bytes >= least_shared &&
        gpucoll_segment_create(&buffer->segment, bytes, &gpucoll_log_silent) == GPUCOLL_OK) {
        return buffer->segment.user;
    }
    return aligned_alloc(alignment, bytes);
}

static void free_memory(struct buffer *buffer)
{
    if (buffer->segment.map) {
        gpucoll_segment_close(&buffer->segment);
    } else {
        free(buffer->begin);
    }
}

void *gpucoll_host_malloc(size_t bytes, enum gpucoll_memory memory)
{
    if (bytes > SIZE_MAX - alignment) {
        return NULL;
    }
    size_t whole = bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
    struct buffer *buffer = malloc(sizeof(*buffer));
    char *begin = buffer ? new_memory(buffer, whole, memory) : NULL;
    if (!begin) {
        free(buffer);
        return NULL;
    }
    buffer->begin = begin;
    buffer->bytes = bytes == 0 ? 1 : bytes;
    buffer->memory = memory;
    pthread_mutex_lock(&lock);
    buffer->id = ++last_id;
    buffer->next = buffers;
    buffers = buffer;
    pthread_mutex_unlock(&lock);
    return begin;
}

void gpucoll_host_free(void *pointer)
{
    if (!pointer) {
        return;
    }
    gpucoll_host_wait_for_kernels();
    pthread_mutex_lock(&lock);
    struct buffer **link = &buffers;
    while (*link && (*link)->begin != pointer) {
        link = &(*link)->next;
    }
    struct buffer *buffer = *link;
    if (buffer) {
        *link = buffer->next;
    }
    pthread_mutex_unlock(&lock);
    if (buffer) {
        free_memory(buffer);
        free(buffer);
    }
}

/* The buffer that holds `pointer`, or NULL. The caller holds the lock. */
static const struct buffer *find(const void *pointer)
{
    const struct buffer *buffer = buffers;
    while (buffer && (uintptr_t)pointer - (uintptr_t)buffer->begin >= buffer->bytes) {
        buffer = buffer->next;
    }
    return buffer;
}

bool gpucoll_host_arena_find(const void *pointer, enum gpucoll_memory *memory, uint64_t *id)
{
    pthread_mutex_lock(&lock);
    const struct buffer *buffer = find(pointer);
    if (buffer) {
        *memory = buffer->memory;
        *id = buffer->id;
    }
    pthread_mutex_unlock(&lock);
    return buffer != NULL;
}

bool gpucoll_host_arena_share(const void *pointer, struct gpucoll_segment_name *name)
{
    pthread_mutex_lock(&lock);
    const struct buffer *buffer = find(pointer);
    bool shared = buffer && buffer->segment.map;
    if (shared) {
        *name = buffer->segment.name;
    }
    pthread_mutex_unlock(&lock);
    return shared;
}
