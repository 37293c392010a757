/*
 * What the host kernels share: words, flags and waits. Private to core/accel/host_*kernels.c.
 *
 * Flags and LL words are the only memory that two ranks touch without other order:
 *   LL word   stored relaxed by the source, loaded relaxed by the owner: data and epoch travel in one word
 *   flag      stored with release by the source after its data, loaded with acquire by the owner before it
 * reads them status    done: release here, acquire by the host that polls it; abort: stored by the host,
 * loaded relaxed here
 */
#ifndef GPUCOLL_ACCEL_HOST_SYNC_H
#define GPUCOLL_ACCEL_HOST_SYNC_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include "kernels/kernel_abi.h"

/* Phases of a round: whose data a flag announces. */
enum { PHASE_INPUT = 0, PHASE_RESULT = 1 };

static inline void store_word(char *at, uint32_t data, uint32_t epoch)
{
    __atomic_store_n((uint64_t *)at, (uint64_t)epoch << 32 | data, __ATOMIC_RELAXED);
}

static inline void raise_flag(char *lane, size_t index, uint64_t value)
{
    __atomic_store_n((uint64_t *)lane + index, value, __ATOMIC_RELEASE);
}

/* One wait for a peer: first it polls, then it gives the core away, then it sleeps, since there may be more
 * ranks than cores. */
struct wait {
    const struct gpucoll_kernel_args *args;
    uint32_t source; /* the rank waited for */
    uint32_t turns;
    uint32_t most; /* not 0: it gives up by itself after so many turns */
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* False once the host has told the kernel to give up. */
static inline bool wait_turn(struct wait *wait)
{
    enum { POLLS = 200, YIELDS = 2000, SLEEP_NS = 50000 };
    struct gpucoll_kernel_status *status = wait->args->status;
    if (__atomic_load_n(&status->abort, __ATOMIC_RELAXED)) {
        __atomic_store_n(&status->stuck_rank, 1 + wait->source, __ATOMIC_RELEASE);
        return false;
    }
    if (wait->most > 0 && wait->turns == wait->most) {
        return false;
    }
    if (wait->turns < POLLS) {
        relax();
    } else if (wait->turns < POLLS + YIELDS) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
        return true;
    }
    wait->turns++;
    return true;
}

/* Waits for a flag in the own lane to come to `round`; the rank that raises it is named if it does not. */
static inline bool wait_flag_of(const struct gpucoll_kernel_args *args, size_t index, uint32_t source,
                                uint64_t round)
{
    const uint64_t *flag = (const uint64_t *)args->peer[args->rank].lane + index;
    uint64_t value = gpucoll_flag_value(args->peer[args->rank].epoch, round);
    struct wait wait = {.args = args, .source = source};
    for (;;) {
        /* Only a flag of this very epoch counts: epochs wrap around. */
        uint64_t seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
        if (seen >> 32 == value >> 32 && (uint32_t)seen >= (uint32_t)value) {
            return true;
        }
        if (!wait_turn(&wait)) {
            return false;
        }
    }
}

static inline bool wait_flag(const struct gpucoll_kernel_args *args, uint32_t phase, uint32_t channel,
                             uint32_t source, uint64_t round)
{
    return wait_flag_of(args, gpucoll_flag_index(phase, channel, source), source, round);
}

/* A run of the message in bytes; only the message's last one does not end on a pack. */
struct span {
    uint64_t begin;
    uint64_t bytes;
};

static inline struct span span_of_packs(uint64_t message_bytes, uint64_t begin, uint64_t end)
{
    uint64_t from = begin * GPUCOLL_PACK_BYTES;
    uint64_t to = end * GPUCOLL_PACK_BYTES;
    from = from < message_bytes ? from : message_bytes;
    to = to < message_bytes ? to : message_bytes;
    return (struct span){from, to - from};
}

/* A channel's share of a message. */
static inline struct span span_of_channel(uint64_t message_bytes, uint32_t channel, uint32_t channels)
{
    uint64_t begin;
    uint64_t end;
    gpucoll_channel_range(message_bytes, channels, channel, &begin, &end);
    return span_of_packs(message_bytes, begin, end);
}

/* Where the words of `source` are in the lane of `owner`. */
static inline char *ll_words(const struct gpucoll_kernel_args *args, uint32_t owner, uint32_t source)
{
    const bool oneshot = args->kernel == GPUCOLL_KERNEL_ONESHOT || args->kernel == GPUCOLL_KERNEL_ONESHOT_EARLY;
    const uint32_t capacity = (uint32_t)gpucoll_ll_capacity(args->nranks);
    const size_t plane = oneshot ? gpucoll_oneshot_plane(args->bytes, capacity) : capacity;
    return (char *)args->peer[owner].lane + gpucoll_ll_offset(plane, source);
}

/* Word w of a message stands at 8 w of the source's words. What goes to `peer` is `span` of a message, of which the first byte is at `from`. */
static inline void ll_send(const struct gpucoll_kernel_args *args, uint32_t peer, const char *from,
                           struct span span)
{
    char *area = ll_words(args, peer, args->rank);
    for (uint64_t at = 0; at < span.bytes; at += 4) {
        uint64_t rest = span.bytes - at;
        uint32_t data = 0;
        memcpy(&data, from + at, rest < 4 ? rest : 4);
        store_word(area + 2 * (span.begin + at), data, args->peer[peer].epoch);
    }
}

/* `wait`: for the source, and how long. */
static inline bool ll_receive_by(struct wait *wait, struct span span, char *to)
{
    const struct gpucoll_kernel_args *args = wait->args;
    const char *area = ll_words(args, args->rank, wait->source);
    uint32_t epoch = args->peer[args->rank].epoch;
    for (uint64_t at = 0; at < span.bytes; at += 4) {
        const uint64_t *word = (const uint64_t *)(area + 2 * (span.begin + at));
        uint64_t pair;
        while ((pair = __atomic_load_n(word, __ATOMIC_RELAXED)) >> 32 != epoch) {
            if (!wait_turn(wait)) {
                return false;
            }
        }
        uint32_t data = (uint32_t)pair;
        memcpy(to + at, &data, span.bytes - at < 4 ? span.bytes - at : 4);
    }
    return true;
}

static inline bool ll_receive(const struct gpucoll_kernel_args *args, uint32_t source, struct span span,
                              char *to)
{
    struct wait wait = {.args = args, .source = source};
    return ll_receive_by(&wait, span, to);
}

#endif
