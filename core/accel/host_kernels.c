#include "core/accel/host_kernels.h"
#include "core/accel/accel.h"
#include <sched.h>
#include <string.h>
#include <time.h>

/*
 * Shared memory and its order. Flags and LL words are the only memory that two ranks touch without other
 * order: LL word   stored relaxed by the source, loaded relaxed by the owner: data and epoch travel in one
 * word. flag      stored with release by the source after its data, loaded with acquire by the owner before
 * it reads them. status    done: release here, acquire by the host that polls it. abort: stored by the host,
 * loaded relaxed here.
 */
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
static bool wait_turn(struct wait *wait)
{
    enum { POLLS = 200, YIELDS = 2000, SLEEP_NS = 50000 };
    struct gpucoll_kernel_status *status = wait->args->status;
    if (__atomic_load_n(&status->abort, __ATOMIC_RELAXED)) {
        __atomic_store_n(&status->stuck_rank, 1 + wait->source, __ATOMIC_RELEASE);
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

static bool wait_flag(const struct gpucoll_kernel_args *args, uint32_t phase, uint32_t channel,
                      uint32_t source, uint64_t round)
{
    const uint64_t *flag =
        (const uint64_t *)args->peer[args->rank].lane + gpucoll_flag_index(phase, channel, source);
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

/* A run of the message in bytes; only the message's last one does not end on a pack. */
struct span {
    uint64_t begin;
    uint64_t bytes;
};

static struct span span_of_packs(uint64_t message_bytes, uint64_t begin, uint64_t end)
{
    uint64_t from = begin * GPUCOLL_PACK_BYTES;
    uint64_t to = end * GPUCOLL_PACK_BYTES;
    from = from < message_bytes ? from : message_bytes;
    to = to < message_bytes ? to : message_bytes;
    return (struct span){from, to - from};
}

/* ---- one-shot: LL ---- */

enum { LL_BLOCK = 4096 }; /* bytes reduced at a time */

/* Word w of the message stands at 8 w of the source's LL area. */
static void ll_send(const struct gpucoll_kernel_args *args, uint32_t peer, struct span span)
{
    char *area = (char *)args->peer[peer].lane + gpucoll_ll_offset(args->nranks, args->rank);
    const char *from = (const char *)args->send + span.begin;
    for (uint64_t at = 0; at < span.bytes; at += 4) {
        uint64_t rest = span.bytes - at;
        uint32_t data = 0;
        memcpy(&data, from + at, rest < 4 ? rest : 4);
        store_word(area + 2 * (span.begin + at), data, args->peer[peer].epoch);
    }
}

static bool ll_receive(const struct gpucoll_kernel_args *args, uint32_t source, struct span span, char *to)
{
    const char *area = (const char *)args->peer[args->rank].lane + gpucoll_ll_offset(args->nranks, source);
    uint32_t epoch = args->peer[args->rank].epoch;
    struct wait wait = {.args = args, .source = source};
    for (uint64_t at = 0; at < span.bytes; at += 4) {
        const uint64_t *word = (const uint64_t *)(area + 2 * (span.begin + at));
        uint64_t pair;
        while ((pair = __atomic_load_n(word, __ATOMIC_RELAXED)) >> 32 != epoch) {
            if (!wait_turn(&wait)) {
                return false;
            }
        }
        uint32_t data = (uint32_t)pair;
        memcpy(to + at, &data, 4);
    }
    return true;
}

/* The part of every rank, reduced in rank order, into `recv`. */
static bool ll_reduce(const struct gpucoll_kernel_args *args, int functor, struct span span)
{
    _Alignas(64) char sum[LL_BLOCK];
    _Alignas(64) char part[LL_BLOCK];
    size_t count = span.bytes / gpucoll_host_functor_size(functor);
    for (uint32_t source = 0; source < args->nranks; source++) {
        char *to = source == 0 ? sum : part;
        if (source == args->rank) {
            memcpy(to, (const char *)args->send + span.begin, span.bytes);
        } else if (!ll_receive(args, source, span, to)) {
            return false;
        }
        if (source > 0) {
            gpucoll_host_reduce(functor, sum, sum, part, count);
        }
    }
    memcpy((char *)args->recv + span.begin, sum, span.bytes);
    return true;
}

static bool oneshot_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                            uint32_t channels)
{
    uint64_t begin;
    uint64_t end;
    gpucoll_channel_range(args->bytes, channels, channel, &begin, &end);
    struct span all = span_of_packs(args->bytes, begin, end);
    for (uint32_t i = 1; i < args->nranks; i++) {
        ll_send(args, (args->rank + i) % args->nranks, all);
    }
    for (uint64_t at = 0; at < all.bytes; at += LL_BLOCK) {
        uint64_t rest = all.bytes - at;
        struct span block = {all.begin + at, rest < LL_BLOCK ? rest : LL_BLOCK};
        if (!ll_reduce(args, functor, block)) {
            return false;
        }
    }
    return true;
}

/* ---- two-shot: LL128 ---- */

enum { LINE_DATA = GPUCOLL_LINE_PACKS * GPUCOLL_PACK_BYTES };

static uint32_t *line_epoch(char *line)
{
    return (uint32_t *)(line + LINE_DATA);
}

static char *line_at(const struct gpucoll_kernel_args *args, uint32_t lane, uint32_t part, uint32_t source, uint64_t line)
{
    return (char *)args->peer[lane].lane + gpucoll_ll128_offset(args->nranks, part, source) + line * GPUCOLL_LINE_BYTES;
}

/* The data of a line in the slice of `rank`; empty past the message. */
static struct span line_span(const struct gpucoll_kernel_args *args, uint32_t rank, uint64_t line)
{
    uint64_t index = rank * gpucoll_ll128_lines(args->bytes, args->nranks) + line;
    return span_of_packs(args->bytes, index * GPUCOLL_LINE_PACKS, (index + 1) * GPUCOLL_LINE_PACKS);
}

static void line_store(const struct gpucoll_kernel_args *args, uint32_t peer, uint32_t part, uint64_t line,
                       const char *data, uint64_t bytes)
{
    char *to = line_at(args, peer, part, args->rank, line);
    memcpy(to, data, bytes);
    __atomic_store_n(line_epoch(to), args->peer[peer].epoch, __ATOMIC_RELEASE);
}

/* The line from `source`, once it is complete; NULL if the wait was given up. */
static const char *line_wait(const struct gpucoll_kernel_args *args, uint32_t part, uint32_t source, uint64_t line)
{
    char *from = line_at(args, args->rank, part, source, line);
    struct wait wait = {.args = args, .source = source};
    while (__atomic_load_n(line_epoch(from), __ATOMIC_ACQUIRE) != args->peer[args->rank].epoch) {
        if (!wait_turn(&wait)) {
            return NULL;
        }
    }
    return from;
}

static bool line_reduce(const struct gpucoll_kernel_args *args, int functor, uint64_t line)
{
    _Alignas(GPUCOLL_PACK_BYTES) char sum[LINE_DATA];
    struct span span = line_span(args, args->rank, line);
    size_t count = span.bytes / gpucoll_host_functor_size(functor);
    for (uint32_t source = 0; source < args->nranks; source++) {
        const char *part = source == args->rank ? (const char *)args->send + span.begin : line_wait(args, 0, source, line);
        if (part == NULL) {
            return false;
        }
        if (source == 0) {
            memcpy(sum, part, span.bytes);
        } else {
            gpucoll_host_reduce(functor, sum, sum, part, count);
        }
    }
    for (uint32_t i = 1; i < args->nranks; i++) {
        line_store(args, (args->rank + i) % args->nranks, 1, line, sum, span.bytes);
    }
    memcpy((char *)args->recv + span.begin, sum, span.bytes);
    return true;
}

static bool ll128_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel, uint32_t channels)
{
    uint64_t lines = gpucoll_ll128_lines(args->bytes, args->nranks);
    for (uint64_t line = channel; line < lines; line += channels) {
        for (uint32_t i = 1; i < args->nranks; i++) {
            uint32_t peer = (args->rank + i) % args->nranks;
            struct span span = line_span(args, peer, line);
            line_store(args, peer, 0, line, (const char *)args->send + span.begin, span.bytes);
        }
    }
    for (uint64_t line = channel; line < lines; line += channels) {
        if (!line_reduce(args, functor, line)) {
            return false;
        }
    }
    for (uint64_t line = channel; line < lines; line += channels) {
        for (uint32_t source = 0; source < args->nranks; source++) {
            if (source == args->rank) {
                continue;
            }
            const char *from = line_wait(args, 1, source, line);
            if (from == NULL) {
                return false;
            }
            struct span span = line_span(args, source, line);
            memcpy((char *)args->recv + span.begin, from, span.bytes);
        }
    }
    return true;
}

/* ---- two-shot: Simple ---- */

enum { PHASE_INPUT = 0, PHASE_RESULT = 1 };

/*
 * A channel's packs are cut into rounds of nranks blocks, a round evenly into one slice a rank. Slot reuse is
 * safe without further flags: a rank sends round k + 2 after it copied round k, which needs the results of
 * all ranks, hence after all consumed its input of round k; and it stores a result of round k + 2 after all
 * sent that round, hence copied round k.
 */
struct twoshot {
    const struct gpucoll_kernel_args *args;
    int functor;
    uint32_t channel;
    uint32_t channels;
    uint64_t begin; /* packs of the channel */
    uint64_t end;
    uint64_t round_packs;
};

static struct span slice_of(const struct twoshot *run, uint64_t round, uint32_t rank)
{
    uint64_t begin = run->begin + round * run->round_packs;
    uint64_t packs = run->end - begin < run->round_packs ? run->end - begin : run->round_packs;
    uint64_t from;
    uint64_t to;
    gpucoll_channel_range(packs * GPUCOLL_PACK_BYTES, run->args->nranks, rank, &from, &to);
    return span_of_packs(run->args->bytes, begin + from, begin + to);
}

/* Block of `source` in `lane`. */
static char *block_of(const struct twoshot *run, uint32_t lane, uint64_t round, uint32_t part,
                      uint32_t source)
{
    const struct gpucoll_kernel_args *args = run->args;
    return (char *)args->peer[lane].lane + gpucoll_block_offset(args->data_bytes, args->nranks, run->channels,
                                                           run->channel, (uint32_t)(round % GPUCOLL_SLOTS),
                                                           part, source);
}

static void tell(const struct twoshot *run, uint32_t peer, uint32_t phase, uint64_t round)
{
    const struct gpucoll_kernel_args *args = run->args;
    raise_flag(args->peer[peer].lane, gpucoll_flag_index(phase, run->channel, args->rank),
               gpucoll_flag_value(args->peer[peer].epoch, round));
}

static void stage_send(const struct twoshot *run, uint64_t round)
{
    const struct gpucoll_kernel_args *args = run->args;
    for (uint32_t i = 1; i < args->nranks; i++) {
        uint32_t peer = (args->rank + i) % args->nranks;
        struct span slice = slice_of(run, round, peer);
        memcpy(block_of(run, peer, round, PHASE_INPUT, args->rank), (const char *)args->send + slice.begin,
               slice.bytes);
        tell(run, peer, PHASE_INPUT, round);
    }
}

/* The sum grows in the own result block: nobody reads that but this rank. */
static bool stage_reduce(const struct twoshot *run, uint64_t round)
{
    const struct gpucoll_kernel_args *args = run->args;
    struct span slice = slice_of(run, round, args->rank);
    size_t count = slice.bytes / gpucoll_host_functor_size(run->functor);
    for (uint32_t source = 0; source < args->nranks; source++) {
        if (source != args->rank && !wait_flag(args, PHASE_INPUT, run->channel, source, round)) {
            return false;
        }
    }
    char *sum = block_of(run, args->rank, round, PHASE_RESULT, args->rank);
    for (uint32_t source = 0; source < args->nranks; source++) {
        const char *part = source == args->rank ? (const char *)args->send + slice.begin
                                                : block_of(run, args->rank, round, PHASE_INPUT, source);
        if (source == 0) {
            memcpy(sum, part, slice.bytes);
        } else {
            gpucoll_host_reduce(run->functor, sum, sum, part, count);
        }
    }
    for (uint32_t i = 1; i < args->nranks; i++) {
        uint32_t peer = (args->rank + i) % args->nranks;
        memcpy(block_of(run, peer, round, PHASE_RESULT, args->rank), sum, slice.bytes);
        tell(run, peer, PHASE_RESULT, round);
    }
    return true;
}

static bool stage_copy(const struct twoshot *run, uint64_t round)
{
    const struct gpucoll_kernel_args *args = run->args;
    for (uint32_t i = 0; i < args->nranks; i++) {
        uint32_t source = (args->rank + i) % args->nranks;
        if (source != args->rank && !wait_flag(args, PHASE_RESULT, run->channel, source, round)) {
            return false;
        }
        struct span slice = slice_of(run, round, source);
        memcpy((char *)args->recv + slice.begin, block_of(run, args->rank, round, PHASE_RESULT, source),
               slice.bytes);
    }
    return true;
}

static bool twoshot_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                            uint32_t channels)
{
    struct twoshot run = {.args = args, .functor = functor, .channel = channel, .channels = channels};
    gpucoll_channel_range(args->bytes, channels, channel, &run.begin, &run.end);
    size_t block = gpucoll_block_bytes(args->data_bytes, args->nranks, channels);
    run.round_packs = block / GPUCOLL_PACK_BYTES * args->nranks;
    uint64_t rounds = (run.end - run.begin + run.round_packs - 1) / run.round_packs;
    uint64_t stop = args->round_end < rounds ? args->round_end : rounds;
    /* A launch of one stage has at most as many rounds as there are slots. */
    for (uint64_t round = args->round_begin; round < stop; round++) {
        if (args->stages & GPUCOLL_STAGE_SEND) {
            stage_send(&run, round);
        }
        if ((args->stages & GPUCOLL_STAGE_REDUCE) && !stage_reduce(&run, round)) {
            return false;
        }
        if ((args->stages & GPUCOLL_STAGE_COPY) && !stage_copy(&run, round)) {
            return false;
        }
    }
    return true;
}

typedef bool channel_function(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                              uint32_t channels);

static channel_function *const kernels[GPUCOLL_KERNEL_COUNT] = {
    [GPUCOLL_KERNEL_ONESHOT] = oneshot_channel,
    [GPUCOLL_KERNEL_TWOSHOT_LL128] = ll128_channel,
    [GPUCOLL_KERNEL_TWOSHOT] = twoshot_channel,
};

void gpucoll_host_kernel(enum gpucoll_kernel kernel, int functor, uint32_t channels,
                         const struct gpucoll_kernel_args *args)
{
    for (uint32_t channel = 0; channel < channels; channel++) {
        if (!kernels[kernel](args, functor, channel, channels)) {
            return; /* gave up: `done` stays as it is, since there is no result */
        }
    }
    __atomic_store_n(&args->status->done, args->done_value, __ATOMIC_RELEASE);
}
