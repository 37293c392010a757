/*
 * The exchange kernels on the host. Order of the steps, flags and credits are those of
 * kernels/exchange_simple.cuh, where stands why they are right; a channel's share of a run and its rounds are
 * cut the same way.
 */
#include "core/accel/accel.h"
#include "core/accel/host_kernels.h"
#include "core/accel/host_lines.h"
#include "core/accel/host_pair.h"

struct exchange {
    const struct gpucoll_kernel_args *args;
    const struct gpucoll_kernel_runs *runs;
    int functor;
    bool reduces;
    uint32_t channel;
    uint32_t channels;
    uint64_t block; /* bytes */
};

/* The channel's share of a run, in units of so many packs. */
static struct span share_in(const struct exchange *exchange, uint64_t packs, uint64_t bytes)
{
    const uint64_t unit = packs * GPUCOLL_PACK_BYTES;
    const uint64_t units = (bytes + unit - 1) / unit;
    uint64_t begin;
    uint64_t end;
    gpucoll_channel_range(units * GPUCOLL_PACK_BYTES, exchange->channels, exchange->channel, &begin, &end);
    return span_of_packs(bytes, begin * packs, end * packs);
}

static struct span share_of(const struct exchange *exchange, uint64_t bytes)
{
    return share_in(exchange, 1, bytes);
}

/* Does this rank take something from the source? From itself: when it reduces. */
static bool takes_from(const struct exchange *exchange, uint32_t source)
{
    const struct gpucoll_kernel_run *run = &exchange->runs->run[source];
    return source == exchange->args->rank ? exchange->reduces && run->send_bytes > 0 : run->recv_bytes > 0;
}

static void copy_own(const struct exchange *exchange)
{
    const struct gpucoll_kernel_run *run = &exchange->runs->run[exchange->args->rank];
    if (exchange->reduces || run->send == run->recv || run->recv_bytes == 0) {
        return;
    }
    struct span share = share_of(exchange, run->recv_bytes);
    memcpy((char *)run->recv + share.begin, (const char *)run->send + share.begin, share.bytes);
}

/* ---- LL and LL128 ---- */

static void ll128_send(const struct gpucoll_kernel_args *args, uint32_t peer, const char *from,
                       struct span span)
{
    for (uint64_t at = 0; at < span.bytes; at += LINE_DATA) {
        const uint64_t rest = span.bytes - at;
        line_fill(line_at(args, peer, 0, args->rank, (span.begin + at) / LINE_DATA), from + at,
                  rest < LINE_DATA ? rest : LINE_DATA, args->peer[peer].epoch);
    }
}

static bool ll128_receive(const struct gpucoll_kernel_args *args, uint32_t source, struct span span, char *to)
{
    for (uint64_t at = 0; at < span.bytes; at += LINE_DATA) {
        const uint64_t rest = span.bytes - at;
        const char *line =
            line_of(args, source, line_at(args, args->rank, 0, source, (span.begin + at) / LINE_DATA));
        if (line == NULL) {
            return false;
        }
        memcpy(to + at, line, rest < LINE_DATA ? rest : LINE_DATA);
    }
    return true;
}

/* A protocol whose data carry their flags. Its spans begin and, but for a message's last one, end at whole units. */
struct carrier {
    uint64_t packs; /* of a unit */
    uint64_t most;  /* bytes reduced at a time, whole units */
    void (*send)(const struct gpucoll_kernel_args *args, uint32_t peer, const char *from, struct span span);
    bool (*receive)(const struct gpucoll_kernel_args *args, uint32_t source, struct span span, char *to);
};

enum { CARRIED = 4096, CARRIED_LINES = CARRIED / LINE_DATA };

static const struct carrier by_ll = {1, CARRIED, ll_send, ll_receive};
static const struct carrier by_ll128 = {GPUCOLL_LINE_PACKS, CARRIED_LINES * LINE_DATA, ll128_send,
                                        ll128_receive};

static bool carried_move(const struct exchange *exchange, const struct carrier *by)
{
    const struct gpucoll_kernel_args *args = exchange->args;
    for (uint32_t i = 1; i < args->nranks; i++) {
        uint32_t source = (args->rank + i) % args->nranks;
        const struct gpucoll_kernel_run *run = &exchange->runs->run[source];
        if (run->recv_bytes == 0) {
            continue;
        }
        struct span share = share_in(exchange, by->packs, run->recv_bytes);
        if (!by->receive(args, source, share, (char *)run->recv + share.begin)) {
            return false;
        }
    }
    return true;
}

/* The span of every source, reduced in rank order. */
static bool carried_reduce_span(const struct exchange *exchange, const struct carrier *by, struct span span)
{
    _Alignas(64) char sum[CARRIED];
    _Alignas(64) char part[CARRIED];
    const struct gpucoll_kernel_args *args = exchange->args;
    const struct gpucoll_kernel_run *mine = &exchange->runs->run[args->rank];
    size_t count = span.bytes / gpucoll_host_functor_size(exchange->functor);
    bool any = false;
    for (uint32_t source = 0; source < args->nranks; source++) {
        if (!takes_from(exchange, source)) {
            continue;
        }
        char *to = any ? part : sum;
        if (source == args->rank) {
            memcpy(to, (const char *)mine->send + span.begin, span.bytes);
        } else if (!by->receive(args, source, span, to)) {
            return false;
        }
        if (any) {
            gpucoll_host_reduce(exchange->functor, sum, sum, part, count);
        }
        any = true;
    }
    memcpy((char *)mine->recv + span.begin, sum, span.bytes);
    return true;
}

static bool carried_reduce(const struct exchange *exchange, const struct carrier *by)
{
    struct span share = share_in(exchange, by->packs, exchange->runs->run[exchange->args->rank].recv_bytes);
    for (uint64_t at = 0; at < share.bytes; at += by->most) {
        uint64_t rest = share.bytes - at;
        if (!carried_reduce_span(exchange, by,
                                 (struct span){share.begin + at, rest < by->most ? rest : by->most})) {
            return false;
        }
    }
    return true;
}

static bool carried_exchange(const struct exchange *exchange, const struct carrier *by)
{
    const struct gpucoll_kernel_args *args = exchange->args;
    for (uint32_t i = 1; i < args->nranks; i++) {
        uint32_t peer = (args->rank + i) % args->nranks;
        const struct gpucoll_kernel_run *run = &exchange->runs->run[peer];
        if (run->send_bytes > 0) {
            const struct span share = share_in(exchange, by->packs, run->send_bytes);
            by->send(args, peer, (const char *)run->send + share.begin, share);
        }
    }
    copy_own(exchange);
    return exchange->reduces ? carried_reduce(exchange, by) : carried_move(exchange, by);
}

/* Between two ranks, over LL128. */
static bool pair_exchange(const struct exchange *exchange)
{
    const struct gpucoll_kernel_args *args = exchange->args;
    const struct gpucoll_kernel_run *mine = &exchange->runs->run[args->rank];
    const struct gpucoll_kernel_run *other = &exchange->runs->run[1 - args->rank];
    struct gpucoll_host_pair pair = {args,        exchange->functor, exchange->channel, exchange->channels,
                                     other->send, other->send_bytes, other->recv,       other->recv_bytes,
                                     NULL};
    if (exchange->reduces) {
        pair.recv = mine->recv;
        pair.recv_bytes = other->recv_bytes > 0 ? mine->recv_bytes : 0;
        pair.own = mine->send_bytes > 0 ? mine->send : NULL;
    }
    if (exchange->reduces && other->recv_bytes == 0 && mine->send_bytes > 0 && mine->send != mine->recv) {
        const struct span share = share_in(exchange, GPUCOLL_LINE_PACKS, mine->recv_bytes);
        memcpy((char *)mine->recv + share.begin, (const char *)mine->send + share.begin, share.bytes);
    }
    copy_own(exchange);
    return gpucoll_host_pair(&pair);
}

/* ---- Simple ---- */

static uint64_t rounds_of(const struct exchange *exchange, uint64_t bytes)
{
    return (share_of(exchange, bytes).bytes + exchange->block - 1) / exchange->block;
}

static struct span piece_of(const struct exchange *exchange, uint64_t bytes, uint64_t round)
{
    struct span share = share_of(exchange, bytes);
    uint64_t at = round * exchange->block;
    uint64_t left = at < share.bytes ? share.bytes - at : 0;
    return (struct span){share.begin + at, left < exchange->block ? left : exchange->block};
}

/* Block of `source` in the lane of `owner`. */
static char *block_of(const struct exchange *exchange, uint32_t owner, uint64_t round, uint32_t source)
{
    const struct gpucoll_kernel_args *args = exchange->args;
    return (char *)args->peer[owner].lane +
           gpucoll_exchange_block_offset(args->data_bytes, args->nranks, exchange->channels,
                                         exchange->channel, (uint32_t)(round % GPUCOLL_SLOTS), source);
}

static void tell(const struct exchange *exchange, uint32_t peer, uint32_t phase, uint64_t round)
{
    const struct gpucoll_kernel_args *args = exchange->args;
    raise_flag(args->peer[peer].lane, gpucoll_flag_index(phase, exchange->channel, args->rank),
               gpucoll_flag_value(args->peer[peer].epoch, round));
}

static bool send_round(const struct exchange *exchange, uint64_t round, bool whole)
{
    const struct gpucoll_kernel_args *args = exchange->args;
    for (uint32_t i = 1; i < args->nranks; i++) {
        uint32_t peer = (args->rank + i) % args->nranks;
        const struct gpucoll_kernel_run *run = &exchange->runs->run[peer];
        if (round >= rounds_of(exchange, run->send_bytes)) {
            continue;
        }
        if (whole && round >= GPUCOLL_SLOTS &&
            !wait_flag(args, PHASE_RESULT, exchange->channel, peer, round - GPUCOLL_SLOTS)) {
            return false;
        }
        struct span piece = piece_of(exchange, run->send_bytes, round);
        memcpy(block_of(exchange, peer, round, args->rank), (const char *)run->send + piece.begin,
               piece.bytes);
        if (whole) {
            tell(exchange, peer, PHASE_INPUT, round);
        }
    }
    return true;
}

static void reduce_round(const struct exchange *exchange, uint64_t round)
{
    const struct gpucoll_kernel_args *args = exchange->args;
    const struct gpucoll_kernel_run *mine = &exchange->runs->run[args->rank];
    struct span piece = piece_of(exchange, mine->recv_bytes, round);
    size_t count = piece.bytes / gpucoll_host_functor_size(exchange->functor);
    /* Grows in the own block of the own lane, which nobody else uses. */
    char *sum = block_of(exchange, args->rank, round, args->rank);
    bool any = false;
    for (uint32_t source = 0; source < args->nranks; source++) {
        if (!takes_from(exchange, source)) {
            continue;
        }
        const char *part = source == args->rank ? (const char *)mine->send + piece.begin
                                                : block_of(exchange, args->rank, round, source);
        if (any) {
            gpucoll_host_reduce(exchange->functor, sum, sum, part, count);
        } else {
            memcpy(sum, part, piece.bytes);
        }
        any = true;
    }
    memcpy((char *)mine->recv + piece.begin, sum, piece.bytes);
}

static bool take_round(const struct exchange *exchange, uint64_t round, bool whole)
{
    const struct gpucoll_kernel_args *args = exchange->args;
    const struct gpucoll_kernel_run *runs = exchange->runs->run;
    for (uint32_t i = 1; i < args->nranks; i++) {
        uint32_t source = (args->rank + i) % args->nranks;
        if (round >= rounds_of(exchange, runs[source].recv_bytes)) {
            continue;
        }
        if (whole && !wait_flag(args, PHASE_INPUT, exchange->channel, source, round)) {
            return false;
        }
        if (!exchange->reduces) {
            struct span piece = piece_of(exchange, runs[source].recv_bytes, round);
            memcpy((char *)runs[source].recv + piece.begin, block_of(exchange, args->rank, round, source),
                   piece.bytes);
        }
    }
    if (exchange->reduces && round < rounds_of(exchange, runs[args->rank].recv_bytes)) {
        reduce_round(exchange, round);
    }
    for (uint32_t source = 0; source < args->nranks && whole; source++) {
        if (source != args->rank && round + GPUCOLL_SLOTS < rounds_of(exchange, runs[source].recv_bytes)) {
            tell(exchange, source, PHASE_RESULT, round);
        }
    }
    return true;
}

static bool simple_exchange(const struct exchange *exchange)
{
    const struct gpucoll_kernel_args *args = exchange->args;
    const bool whole = args->stages == GPUCOLL_STAGE_ALL;
    const uint64_t begin = args->round_begin;
    const uint64_t all = rounds_of(exchange, args->bytes);
    const uint64_t end = args->round_end < all ? args->round_end : all;
    if (begin == 0 && (args->stages & GPUCOLL_STAGE_SEND)) {
        copy_own(exchange);
    }
    for (uint64_t next = begin; next < end + GPUCOLL_SLOTS; next++) {
        if (next >= begin + GPUCOLL_SLOTS && (args->stages & GPUCOLL_STAGE_REDUCE) &&
            !take_round(exchange, next - GPUCOLL_SLOTS, whole)) {
            return false;
        }
        if (next < end && (args->stages & GPUCOLL_STAGE_SEND) && !send_round(exchange, next, whole)) {
            return false;
        }
    }
    return true;
}

/* Straight to where it belongs: nobody is waited for. */
static bool store_runs(const struct exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->args->nranks; i++) {
        const struct gpucoll_kernel_run *run = &exchange->runs->run[i];
        const struct span share = share_of(exchange, run->send_bytes);
        if (share.bytes > 0 && run->send != run->recv) {
            memcpy((char *)run->recv + share.begin, (const char *)run->send + share.begin, share.bytes);
        }
    }
    return true;
}

/* What lies in the buffers of all ranks, reduced in rank order, some of it at a time. */
static bool reduce_bulk(const struct exchange *exchange)
{
    enum { PIECE = 4096 };
    _Alignas(64) char sum[PIECE];
    const struct gpucoll_kernel_args *args = exchange->args;
    const struct gpucoll_kernel_run *runs = exchange->runs->run;
    const size_t size = gpucoll_host_functor_size(exchange->functor);
    const struct span share = share_of(exchange, args->bytes);
    for (uint64_t done = 0; done < share.bytes; done += PIECE) {
        const uint64_t bytes = share.bytes - done < PIECE ? share.bytes - done : PIECE;
        const uint64_t at = share.begin + done;
        memcpy(sum, (const char *)runs[0].send + at, bytes);
        for (uint32_t i = 1; i < args->nranks; i++) {
            gpucoll_host_reduce(exchange->functor, sum, sum, (const char *)runs[i].send + at, bytes / size);
        }
        for (uint32_t i = 0; i < args->nranks; i++) {
            if (runs[i].recv != NULL) {
                memcpy((char *)runs[i].recv + at, sum, bytes);
            }
        }
    }
    return true;
}

bool gpucoll_host_exchange(enum gpucoll_kernel kernel, int functor, uint32_t channel, uint32_t channels,
                           const struct gpucoll_kernel_args *args, const struct gpucoll_kernel_runs *runs)
{
    struct exchange exchange = {
        .args = args,
        .runs = runs,
        .functor = functor,
        .reduces = gpucoll_kernel_reduces_runs(kernel),
        .channel = channel,
        .channels = channels,
        .block = gpucoll_exchange_block_bytes(args->data_bytes, args->nranks, channels),
    };
    switch (kernel) {
    case GPUCOLL_KERNEL_STORE:
    case GPUCOLL_KERNEL_SPREAD:
        return store_runs(&exchange);
    case GPUCOLL_KERNEL_REDUCE_BULK:
        return reduce_bulk(&exchange);
    case GPUCOLL_KERNEL_MOVE_LL:
    case GPUCOLL_KERNEL_REDUCE_LL:
        return carried_exchange(&exchange, &by_ll);
    case GPUCOLL_KERNEL_MOVE_LAYOUTS:
        return gpucoll_host_laid(channel, channels, args, runs);
    case GPUCOLL_KERNEL_MOVE_LL128:
    case GPUCOLL_KERNEL_REDUCE_LL128:
        return args->nranks == 2 ? pair_exchange(&exchange) : carried_exchange(&exchange, &by_ll128);
    default:
        return simple_exchange(&exchange);
    }
}
