/*
 * The all-reduce kernels, and the loop over the channels of any kernel.
 */
#include "core/accel/host_kernels.h"
#include "core/accel/accel.h"
#include "core/accel/host_lines.h"
#include "core/accel/host_pair.h"

/* ---- one-shot: LL ---- */

enum { LL_BLOCK = 4096 }; /* bytes reduced at a time */

/* The part of every rank, reduced in rank order, into `sum`; `part` is room for as much. Each rank is waited for `most` turns, or for ever. */
static bool ll_sum(const struct gpucoll_kernel_args *args, int functor, struct span span, uint32_t most,
                   char *sum, char *part)
{
    size_t count = span.bytes / gpucoll_host_functor_size(functor);
    for (uint32_t source = 0; source < args->nranks; source++) {
        struct wait wait = {.args = args, .source = source, .most = most};
        char *to = source == 0 ? sum : part;
        if (source == args->rank) {
            memcpy(to, (const char *)args->send + span.begin, span.bytes);
        } else if (!ll_receive_by(&wait, span, to)) {
            return false;
        }
        if (source > 0) {
            gpucoll_host_reduce(functor, sum, sum, part, count);
        }
    }
    return true;
}

/* The same into `recv`. */
static bool ll_reduce(const struct gpucoll_kernel_args *args, int functor, struct span span)
{
    _Alignas(64) char sum[LL_BLOCK];
    _Alignas(64) char part[LL_BLOCK];
    if (!ll_sum(args, functor, span, 0, sum, part)) {
        return false;
    }
    memcpy((char *)args->recv + span.begin, sum, span.bytes);
    return true;
}

static bool oneshot_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                            uint32_t channels)
{
    const struct span all = span_of_channel(args->bytes, channel, channels);
    for (uint32_t i = 1; i < args->nranks && (args->stages & GPUCOLL_STAGE_SEND) != 0; i++) {
        ll_send(args, (args->rank + i) % args->nranks, (const char *)args->send + all.begin, all);
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

/* Of one CTA; as kernels/allreduce_oneshot.cuh says of calls that are rung for early. */
static bool early_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                          uint32_t channels)
{
    enum { MOST_TURNS = 1000 }; /* of which some 800 give the core away */
    _Alignas(64) char sum[GPUCOLL_INBOX_BYTES];
    _Alignas(64) char part[GPUCOLL_INBOX_BYTES];
    const struct span all = {0, args->bytes};
    (void)channel;
    (void)channels;
    for (uint32_t i = 1; i < args->nranks; i++) {
        ll_send(args, (args->rank + i) % args->nranks, args->send, all);
    }
    if (!ll_sum(args, functor, all, MOST_TURNS, sum, part)) {
        __atomic_store_n(&args->status->sent, args->done_value, __ATOMIC_RELAXED);
        __atomic_store_n(&args->status->left, args->done_value - 1, __ATOMIC_RELEASE);
        return false;
    }
    memcpy(args->recv, sum, args->bytes);
    return true;
}

/* ---- two-shot: LL128 ---- */

/* The data of a line in the slice of `rank`; empty past the message. */
static struct span slice_span(const struct gpucoll_kernel_args *args, uint32_t rank, uint64_t line)
{
    uint64_t index = rank * gpucoll_ll128_lines(args->bytes, args->nranks) + line;
    return line_span(args->bytes, index);
}

static void line_store(const struct gpucoll_kernel_args *args, uint32_t peer, uint32_t part, uint64_t line,
                       const char *data, uint64_t bytes)
{
    line_fill(line_at(args, peer, part, args->rank, line), data, bytes, args->peer[peer].epoch);
}

/* Of a reduce, ranks beside the root have no place for the result. */
static void keep_line(const struct gpucoll_kernel_args *args, const struct span *span, const char *from)
{
    if (args->recv != NULL) {
        memcpy((char *)args->recv + span->begin, from, span->bytes);
    }
}

static bool line_reduce(const struct gpucoll_kernel_args *args, int functor, uint64_t line)
{
    _Alignas(GPUCOLL_PACK_BYTES) char sum[LINE_DATA];
    struct span span = slice_span(args, args->rank, line);
    size_t count = span.bytes / gpucoll_host_functor_size(functor);
    for (uint32_t source = 0; source < args->nranks; source++) {
        const char *part = source == args->rank
                               ? (const char *)args->send + span.begin
                               : line_of(args, source, line_at(args, args->rank, 0, source, line));
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
    keep_line(args, &span, sum);
    return true;
}

static bool ll128_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                          uint32_t channels)
{
    uint64_t lines = gpucoll_ll128_lines(args->bytes, args->nranks);
    for (uint64_t line = channel; line < lines; line += channels) {
        for (uint32_t i = 1; i < args->nranks; i++) {
            uint32_t peer = (args->rank + i) % args->nranks;
            struct span span = slice_span(args, peer, line);
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
            const char *from = line_of(args, source, line_at(args, args->rank, 1, source, line));
            if (from == NULL) {
                return false;
            }
            struct span span = slice_span(args, source, line);
            keep_line(args, &span, from);
        }
    }
    return true;
}

/* ---- one-shot of two ranks: LL128 ---- */

static bool swap_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                         uint32_t channels)
{
    const struct gpucoll_host_pair pair = {args,        functor,    channel,     channels,  args->send,
                                           args->bytes, args->recv, args->bytes, args->send};
    return gpucoll_host_pair(&pair);
}

/* ---- two-shot: Simple ---- */

/*
 * A channel's packs are cut into rounds of nranks blocks, a round evenly into one slice a rank. Slot reuse is
 * safe without further flags: a rank sends round k + 2 after it copied round k, which needs the results of
 * all ranks, hence after all consumed its input of round k; and it stores a result of round k + 2 after all
 * sent that round, hence copied round k.
 */
struct twoshot {
    const struct gpucoll_kernel_args *args;
    const struct gpucoll_kernel_runs
        *runs; /* of the direct form: where all ranks want the results; else NULL */
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
    return (char *)args->peer[lane].lane +
           gpucoll_block_offset(args->data_bytes, args->nranks, run->channels, run->channel,
                                (uint32_t)(round % GPUCOLL_SLOTS), part, source);
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
        char *result = run->runs != NULL ? (char *)run->runs->run[peer].recv + slice.begin
                                         : block_of(run, peer, round, PHASE_RESULT, args->rank);
        memcpy(result, sum, slice.bytes);
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
        if (run->runs == NULL || source == args->rank) {
            struct span slice = slice_of(run, round, source);
            memcpy((char *)args->recv + slice.begin, block_of(run, args->rank, round, PHASE_RESULT, source),
                   slice.bytes);
        }
    }
    return true;
}

static bool twoshot_rounds(const struct gpucoll_kernel_args *args, const struct gpucoll_kernel_runs *runs,
                           int functor, uint32_t channel, uint32_t channels)
{
    struct twoshot run = {
        .args = args, .runs = runs, .functor = functor, .channel = channel, .channels = channels};
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

static bool twoshot_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                            uint32_t channels)
{
    return twoshot_rounds(args, NULL, functor, channel, channels);
}

/* What copies have brought, reduced in rank order, some of it at a time. */
static bool blocks_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                           uint32_t channels)
{
    enum { PIECE = 4096 };
    _Alignas(64) char sum[PIECE];
    const size_t size = gpucoll_host_functor_size(functor);
    const struct span span = span_of_channel(args->bytes, channel, channels);
    for (uint64_t done = 0; done < span.bytes; done += PIECE) {
        const uint64_t bytes = span.bytes - done < PIECE ? span.bytes - done : PIECE;
        const uint64_t at = span.begin + done;
        for (uint32_t i = 0; i < args->nranks; i++) {
            const char *part = (const char *)(i == args->rank ? args->send : args->peer[i].lane) + at;
            if (i == 0) {
                memcpy(sum, part, bytes);
            } else {
                gpucoll_host_reduce(functor, sum, sum, part, bytes / size);
            }
        }
        memcpy((char *)args->recv + at, sum, bytes);
    }
    return true;
}

/* There is but one channel. */
static bool fetch_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                          uint32_t channels)
{
    (void)functor;
    (void)channel;
    (void)channels;
    for (uint32_t at = 0; at < args->bytes; at += sizeof(uint32_t)) {
        const uint64_t left = args->bytes - at;
        uint32_t data = 0;
        memcpy(&data, (const char *)args->send + at, left < sizeof(data) ? left : sizeof(data));
        __atomic_store_n(&args->status->fetched[at / sizeof(data)], (uint64_t)args->done_value << 32 | data,
                         __ATOMIC_RELAXED);
    }
    return true;
}

static bool deliver_channel(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                            uint32_t channels)
{
    (void)functor;
    (void)channel;
    (void)channels;
    for (uint32_t i = 0; i * GPUCOLL_COURIER_CHUNK < args->bytes; i++) {
        const uint64_t left = args->bytes - i * GPUCOLL_COURIER_CHUNK;
        memcpy((char *)args->recv + i * GPUCOLL_COURIER_CHUNK, &args->peer[i],
               left < GPUCOLL_COURIER_CHUNK ? left : GPUCOLL_COURIER_CHUNK);
    }
    return true;
}

typedef bool channel_function(const struct gpucoll_kernel_args *args, int functor, uint32_t channel,
                              uint32_t channels);

static channel_function *const kernels[GPUCOLL_KERNEL_COUNT] = {
    [GPUCOLL_KERNEL_ONESHOT] = oneshot_channel,
    [GPUCOLL_KERNEL_ONESHOT_EARLY] = early_channel,
    [GPUCOLL_KERNEL_SWAP_LL128] = swap_channel,
    [GPUCOLL_KERNEL_TWOSHOT_LL128] = ll128_channel,
    [GPUCOLL_KERNEL_TWOSHOT] = twoshot_channel,
    [GPUCOLL_KERNEL_REDUCE_BLOCKS] = blocks_channel,
    [GPUCOLL_KERNEL_FETCH] = fetch_channel,
    [GPUCOLL_KERNEL_DELIVER] = deliver_channel,
};

static bool run_channel(enum gpucoll_kernel kernel, int functor, uint32_t channel, uint32_t channels,
                        const struct gpucoll_kernel_args *args, const struct gpucoll_kernel_runs *runs)
{
    if (kernel == GPUCOLL_KERNEL_RELAY) {
        return gpucoll_host_relay(functor, channel, channels, args, runs);
    }
    if (kernel == GPUCOLL_KERNEL_TWOSHOT_DIRECT) {
        return twoshot_rounds(args, runs, functor, channel, channels);
    }
    return gpucoll_kernel_is_exchange(kernel)
               ? gpucoll_host_exchange(kernel, functor, channel, channels, args, runs)
               : kernels[kernel](args, functor, channel, channels);
}

/* As pass_gate of the kernels, and as those ask that may store to peers' buffers: false if there is nothing more to do. */
static bool pass_gate(enum gpucoll_kernel kernel, const struct gpucoll_kernel_args *args)
{
    struct gpucoll_kernel_status *status = args->status;
    struct wait wait = {.args = args, .source = args->rank};
    if (args->gate == NULL) {
        return !gpucoll_kernel_asks_first(kernel) || !__atomic_load_n(&status->abort, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&status->began, args->done_value, __ATOMIC_RELAXED);
    __atomic_store_n(&status->ready, args->done_value, __ATOMIC_RELEASE);
    while (__atomic_load_n(&status->go, __ATOMIC_ACQUIRE) != args->done_value) {
        if (__atomic_load_n(&status->leave, __ATOMIC_RELAXED) == args->done_value) {
            __atomic_store_n(&status->retreated, args->done_value, __ATOMIC_RELEASE);
            return false;
        }
        if (!wait_turn(&wait)) {
            return false;
        }
    }
    return true;
}

void gpucoll_host_kernel(enum gpucoll_kernel kernel, int functor, uint32_t channels,
                         const struct gpucoll_kernel_args *args, const struct gpucoll_kernel_runs *runs)
{
    if (!pass_gate(kernel, args)) {
        return;
    }
    for (uint32_t channel = 0; channel < channels; channel++) {
        if (!run_channel(kernel, functor, channel, channels, args, runs)) {
            return; /* gave up: `done` stays as it is, since there is no result */
        }
    }
    __atomic_store_n(&args->status->done, args->done_value, __ATOMIC_RELEASE);
}
