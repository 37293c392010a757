#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create, F_DUPFD_CLOEXEC */
#endif
#include "core/accel/host_arena.h"
#include "core/accel/host_stream.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A buffer of no bytes still gets an address of its own. Large device-like ones are segments, which peers can map as they map
 * the memory of a GPU. */
struct buffer {
    struct buffer *next;
    char *begin;
    size_t bytes;
    enum gpucoll_memory memory;
    uint64_t id;
    struct gpucoll_segment segment; /* closed: the memory is of the C library */
    /* Of memory in pieces, of which each is a buffer: */
    const char *first; /* the first one's address; NULL: this is no piece */
    int fd;
    bool shared;
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
    buffer->first = NULL;
    pthread_mutex_lock(&lock);
    buffer->id = ++last_id;
    buffer->next = buffers;
    buffers = buffer;
    pthread_mutex_unlock(&lock);
    return begin;
}

/* Other memory at those addresses, which are reserved. */
static bool map_piece(struct buffer *piece)
{
    int fd = memfd_create("gpucoll piece", MFD_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    if (ftruncate(fd, (off_t)piece->bytes) != 0 || mmap(piece->begin, piece->bytes, PROT_READ | PROT_WRITE,
                                                        MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        close(fd);
        return false;
    }
    if (piece->fd >= 0) {
        close(piece->fd);
    }
    piece->fd = fd;
    return true;
}

static void free_pieces(struct buffer *pieces)
{
    while (pieces) {
        struct buffer *next = pieces->next;
        munmap(pieces->begin, pieces->bytes);
        if (pieces->fd >= 0) {
            close(pieces->fd);
        }
        free(pieces);
        pieces = next;
    }
}

/* A list of `count` pieces at `begin`, whose order is that of their addresses. */
static struct buffer *new_pieces(char *begin, size_t count, size_t bytes, bool shared)
{
    struct buffer *pieces = NULL;
    for (size_t i = count; i > 0; i--) {
        struct buffer *piece = malloc(sizeof(*piece));
        if (!piece) {
            munmap(begin, i * bytes);
            free_pieces(pieces);
            return NULL;
        }
        *piece = (struct buffer){.next = pieces,
                                 .begin = begin + (i - 1) * bytes,
                                 .bytes = bytes,
                                 .memory = GPUCOLL_MEMORY_DEVICE,
                                 .first = begin,
                                 .fd = -1,
                                 .shared = shared};
        pieces = piece;
        if (!map_piece(piece)) {
            munmap(begin, (i - 1) * bytes);
            free_pieces(pieces);
            return NULL;
        }
    }
    return pieces;
}

void *gpucoll_host_malloc_pieces(size_t bytes, size_t piece_bytes, bool shared)
{
    const size_t count = bytes == 0 ? 1 : (bytes - 1) / piece_bytes + 1;
    void *begin =
        mmap(NULL, count * piece_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct buffer *pieces =
        begin == MAP_FAILED ? NULL : new_pieces((char *)begin, count, piece_bytes, shared);
    if (!pieces) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    struct buffer **link = &pieces;
    while (*link) {
        (*link)->id = ++last_id;
        link = &(*link)->next;
    }
    *link = buffers;
    buffers = pieces;
    pthread_mutex_unlock(&lock);
    return begin;
}

/* Takes a buffer, or the pieces of one, out of the registry. */
static struct buffer *take_out(const char *pointer)
{
    struct buffer *out = NULL;
    struct buffer **link = &buffers;
    pthread_mutex_lock(&lock);
    while (*link) {
        struct buffer *buffer = *link;
        const char *first = buffer->first ? buffer->first : buffer->begin;
        if (first == pointer) {
            *link = buffer->next;
            buffer->next = out;
            out = buffer;
        } else {
            link = &buffer->next;
        }
    }
    pthread_mutex_unlock(&lock);
    return out;
}

void gpucoll_host_free(void *pointer)
{
    if (!pointer) {
        return;
    }
    gpucoll_host_wait_for_kernels();
    struct buffer *buffer = take_out(pointer);
    if (buffer && buffer->first) {
        free_pieces(buffer);
    } else if (buffer) {
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

bool gpucoll_host_remap_pieces(void *pointer)
{
    gpucoll_host_wait_for_kernels();
    pthread_mutex_lock(&lock);
    const struct buffer *from = find(pointer);
    bool done = from && from->first;
    for (struct buffer *piece = buffers; done && piece; piece = piece->next) {
        if (piece->first == from->first && piece->begin >= from->begin) {
            done = map_piece(piece);
            piece->id = ++last_id;
        }
    }
    pthread_mutex_unlock(&lock);
    return done;
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

bool gpucoll_host_arena_extent(const void *pointer, uintptr_t *begin, uint64_t *bytes)
{
    pthread_mutex_lock(&lock);
    const struct buffer *buffer = find(pointer);
    if (buffer) {
        *begin = (uintptr_t)buffer->begin;
        *bytes = buffer->bytes;
    }
    pthread_mutex_unlock(&lock);
    return buffer != NULL;
}

int gpucoll_host_arena_piece(const void *pointer)
{
    pthread_mutex_lock(&lock);
    const struct buffer *buffer = find(pointer);
    int fd = buffer && buffer->first && buffer->shared ? fcntl(buffer->fd, F_DUPFD_CLOEXEC, 0) : -1;
    pthread_mutex_unlock(&lock);
    return fd;
}
