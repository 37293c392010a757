/*
 * Lines of LL128 on the host: who fills one stores its epoch last, with release, and who takes it loads that with acquire. They are not
 * relied upon to arrive whole. Private to core/accel/host_*.c.
 */
#ifndef GPUCOLL_ACCEL_HOST_LINES_H
#define GPUCOLL_ACCEL_HOST_LINES_H

#include "core/accel/host_sync.h"

enum { LINE_DATA = GPUCOLL_LINE_PACKS * GPUCOLL_PACK_BYTES };

static inline uint32_t *line_epoch(char *line)
{
    return (uint32_t *)(line + LINE_DATA);
}

/* Line `line` of the block (part, source) in the lane of rank `lane`. */
static inline char *line_at(const struct gpucoll_kernel_args *args, uint32_t lane, uint32_t part,
                            uint32_t source, uint64_t line)
{
    return (char *)args->peer[lane].lane + gpucoll_ll128_offset(args->nranks, part, source) +
           line * GPUCOLL_LINE_BYTES;
}

static inline void line_fill(char *line, const char *data, uint64_t bytes, uint32_t epoch)
{
    memcpy(line, data, bytes);
    __atomic_store_n(line_epoch(line), epoch, __ATOMIC_RELEASE);
}

/* Waits until a line has come whole. False if the wait was given up. */
static inline bool line_wait(struct wait *wait, char *line, uint32_t epoch)
{
    while (__atomic_load_n(line_epoch(line), __ATOMIC_ACQUIRE) != epoch) {
        if (!wait_turn(wait)) {
            return false;
        }
    }
    return true;
}

/* The line of `source` that comes to `from` in this rank's lane; NULL if the wait was given up. */
static inline const char *line_of(const struct gpucoll_kernel_args *args, uint32_t source, char *from)
{
    struct wait wait = {.args = args, .source = source};
    return line_wait(&wait, from, args->peer[args->rank].epoch) ? from : NULL;
}

/* Of a message of so many bytes, the data of line `line`; empty past its end. */
static inline struct span line_span(uint64_t bytes, uint64_t line)
{
    return span_of_packs(bytes, line * GPUCOLL_LINE_PACKS, (line + 1) * GPUCOLL_LINE_PACKS);
}

#endif
