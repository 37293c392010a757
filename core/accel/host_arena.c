#include "core/accel/host_arena.h"
#include <pthread.h>
#include <stdlib.h>

/* A buffer of no bytes still gets an address of its own. */
struct buffer {
    struct buffer *next;
    char *begin;
    size_t bytes;
    enum gpucoll_memory memory;
    uint64_t id;
};

/* The one registry of the process, shared by its contexts as a driver's is. Tests hold a handful of buffers,
 * so a list does. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;
static uint64_t last_id;

/* What cudaMalloc guarantees. */
static const size_t alignment = 256;

void *gpucoll_host_malloc(size_t bytes, enum gpucoll_memory memory)
{
    if (bytes > SIZE_MAX - alignment) {
        return NULL;
    }
    size_t whole = bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
    struct buffer *buffer = malloc(sizeof(*buffer));
    char *begin = aligned_alloc(alignment, whole);
    if (!buffer || !begin) {
        free(buffer);
        free(begin);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    *buffer = (struct buffer){buffers, begin, bytes == 0 ? 1 : bytes, memory, ++last_id};
    buffers = buffer;
    pthread_mutex_unlock(&lock);
    return begin;
}

void gpucoll_host_free(void *pointer)
{
    if (!pointer) {
        return;
    }
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
        free(buffer->begin);
        free(buffer);
    }
}

bool gpucoll_host_arena_find(const void *pointer, enum gpucoll_memory *memory, uint64_t *id)
{
    pthread_mutex_lock(&lock);
    const struct buffer *buffer = buffers;
    while (buffer && (uintptr_t)pointer - (uintptr_t)buffer->begin >= buffer->bytes) {
        buffer = buffer->next;
    }
    if (buffer) {
        *memory = buffer->memory;
        *id = buffer->id;
    }
    pthread_mutex_unlock(&lock);
    return buffer != NULL;
}
