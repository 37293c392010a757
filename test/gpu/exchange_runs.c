#include "test/gpu/exchange_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/algorithms/slices.h"
#include "core/base/clock.h"
#include "kernels/functors.h"
#include "test/gpu/elements.h"

size_t exchange_buffer_bytes(void)
{
    return (size_t)(MOST_RANKS + 1) * (EXCHANGE_MOST_RUN + 2 * EXCHANGE_GAP);
}

uint32_t exchange_below(struct exchange *exchange, uint32_t limit)
{
    return (uint32_t)(next_random(&exchange->random) % limit);
}

static size_t some_length(struct exchange *exchange, size_t most, size_t unit)
{
    static const size_t lengths[] = {0, 1, 16, 17, 1000, 8191, SIZE_MAX};
    size_t length = lengths[exchange_below(exchange, sizeof(lengths) / sizeof(lengths[0]))];
    length = length < most ? length : most - exchange_below(exchange, 64 < most ? 64 : 1);
    return (length + unit - 1) / unit * unit;
}

/* Where the next run begins: aligned or not. */
static size_t next_place(struct exchange *exchange, size_t *at, size_t bytes)
{
    size_t place =
        *at + EXCHANGE_GAP +
        (exchange_below(exchange, 2) ? exchange_below(exchange, 16) : (16 - (*at + EXCHANGE_GAP) % 16) % 16);
    *at = place + bytes;
    return place;
}

/* Runs of their own lengths between all pairs; in place, the same both ways, and where they are received. */
void exchange_plan_move(struct exchange *exchange, size_t most)
{
    const uint32_t size = exchange->ranks.size;
    size_t length[MOST_RANKS][MOST_RANKS];
    for (uint32_t a = 0; a < size; a++) {
        for (uint32_t b = 0; b < size; b++) {
            length[a][b] = exchange->in_place && b < a ? length[b][a] : some_length(exchange, most, 1);
        }
    }
    for (uint32_t r = 0; r < size; r++) {
        struct rank *rank = &exchange->ranks.rank[r];
        size_t send_at = exchange->begin;
        size_t recv_at = exchange->begin;
        for (uint32_t p = 0; p < size; p++) {
            struct gpucoll_kernel_run *run = &exchange->runs[r].run[p];
            run->send_bytes = length[r][p];
            run->recv_bytes = length[p][r];
            run->recv = rank->recv + next_place(exchange, &recv_at, length[p][r]);
            run->send =
                exchange->in_place ? run->recv : rank->send + next_place(exchange, &send_at, length[r][p]);
        }
    }
}

/* Every rank reduces runs of one length from some ranks; in place, all that a rank sends is where it
 * receives. */
void exchange_plan_reduce(struct exchange *exchange, size_t most, size_t unit)
{
    const uint32_t size = exchange->ranks.size;
    size_t common = some_length(exchange, most, unit);
    memset(exchange->runs, 0, sizeof(exchange->runs));
    for (uint32_t r = 0; r < size; r++) {
        struct rank *rank = &exchange->ranks.rank[r];
        struct gpucoll_kernel_run *own = &exchange->runs[r].run[r];
        size_t length = exchange->in_place ? common : some_length(exchange, most, unit);
        uint32_t sources = 1u << exchange_below(exchange, size) | exchange_below(exchange, 1u << size);
        size_t at = exchange->begin;
        own->recv = rank->recv + next_place(exchange, &at, length);
        own->recv_bytes = length;
        for (uint32_t s = 0; s < size; s++) {
            if ((sources >> s & 1) == 0) {
                continue;
            }
            exchange->runs[s].run[r].send_bytes = length;
            exchange->runs[r].run[s].recv_bytes = length;
        }
        own->recv_bytes = length;
    }
    for (uint32_t r = 0; r < size; r++) {
        size_t at = exchange->begin;
        for (uint32_t p = 0; p < size; p++) {
            struct gpucoll_kernel_run *run = &exchange->runs[r].run[p];
            run->send = exchange->in_place
                            ? exchange->runs[r].run[r].recv
                            : exchange->ranks.rank[r].send + next_place(exchange, &at, run->send_bytes);
        }
    }
}

void exchange_plan_stores(struct exchange *exchange)
{
    for (uint32_t r = 0; r < exchange->ranks.size; r++) {
        for (uint32_t p = 0; p < exchange->ranks.size; p++) {
            struct gpucoll_kernel_run *store = &exchange->stores[r].run[p];
            *store = exchange->runs[r].run[p];
            store->recv = exchange->runs[p].run[r].recv;
            store->recv_bytes = store->send_bytes;
        }
    }
}

static unsigned char *sent_by(const struct exchange *exchange, uint32_t rank, uint32_t peer)
{
    const char *base = exchange->in_place ? exchange->ranks.rank[rank].recv : exchange->ranks.rank[rank].send;
    return exchange->sent[rank] + ((const char *)exchange->runs[rank].run[peer].send - base);
}

void exchange_fill(struct exchange *exchange, int functor)
{
    const uint32_t size = exchange->ranks.size;
    for (uint32_t r = 0; r < size; r++) {
        struct rank *rank = &exchange->ranks.rank[r];
        memset(exchange->sent[r], EXCHANGE_POISON, exchange_buffer_bytes());
        for (uint32_t p = 0; p < size; p++) {
            fill_elements(functor, sent_by(exchange, r, p), exchange->runs[r].run[p].send_bytes,
                          &exchange->random);
        }
        memset(exchange->expected[r], EXCHANGE_POISON, exchange_buffer_bytes());
        if (exchange->in_place) {
            memcpy(exchange->expected[r], exchange->sent[r], exchange_buffer_bytes());
        }
        gpus_copy(exchange->ranks.gpus, exchange->name, rank->recv, exchange->expected[r],
                  exchange_buffer_bytes());
        if (!exchange->in_place) {
            gpus_copy(exchange->ranks.gpus, exchange->name, rank->send, exchange->sent[r],
                      exchange_buffer_bytes());
        }
    }
}

void exchange_expect(struct exchange *exchange, int functor, bool reduces)
{
    const uint32_t size = exchange->ranks.size;
    for (uint32_t r = 0; r < size; r++) {
        const struct gpucoll_kernel_run *own = &exchange->runs[r].run[r];
        bool any = false;
        for (uint32_t s = 0; s < size; s++) {
            const struct gpucoll_kernel_run *run = &exchange->runs[r].run[s];
            const char *place = reduces ? own->recv : run->recv;
            unsigned char *to = exchange->expected[r] + (place - exchange->ranks.rank[r].recv);
            size_t bytes = exchange->runs[s].run[r].send_bytes;
            if (!reduces || !any) {
                memcpy(to, sent_by(exchange, s, r), bytes);
            } else if (bytes > 0) {
                gpucoll_host_reduce(functor, to, to, sent_by(exchange, s, r),
                                    bytes / gpucoll_host_functor_size(functor));
            }
            any |= bytes > 0;
        }
    }
}

bool exchange_verify(struct exchange *exchange, const struct call *call)
{
    for (uint32_t r = 0; r < exchange->ranks.size; r++) {
        gpus_copy(exchange->ranks.gpus, exchange->name, exchange->got, exchange->ranks.rank[r].recv,
                  exchange_buffer_bytes());
        for (size_t i = 0; i < exchange_buffer_bytes(); i++) {
            if (exchange->got[i] != exchange->expected[r][i]) {
                printf("# %s: rank %u differs at %zu: %02x, not %02x; longest %lu ctas %u threads %u "
                       "data_bytes %lu in place %d\n",
                       exchange->name, r, i, exchange->got[i], exchange->expected[r][i],
                       (unsigned long)call->bytes, call->ctas, call->threads, (unsigned long)call->data_bytes,
                       exchange->in_place);
                return false;
            }
        }
    }
    return true;
}

void exchange_run(struct exchange *exchange, const struct call *call)
{
    for (uint32_t r = 0; r < exchange->ranks.size; r++) {
        ranks_launch(&exchange->ranks, r, call);
    }
    ranks_wait_all(&exchange->ranks, exchange->name);
}

uint64_t exchange_longest_run(const struct exchange *exchange)
{
    uint64_t longest = 0;
    for (uint32_t r = 0; r < exchange->ranks.size; r++) {
        for (uint32_t p = 0; p < exchange->ranks.size; p++) {
            const struct gpucoll_kernel_run *run = &exchange->runs[r].run[p];
            longest = run->send_bytes > longest ? run->send_bytes : longest;
            longest = run->recv_bytes > longest ? run->recv_bytes : longest;
        }
    }
    return longest;
}

void exchange_spin(uint64_t ns)
{
    const uint64_t begin = gpucoll_now_ns();
    while (gpucoll_now_ns() - begin < ns) {
    }
}

struct call exchange_plan_lingering(struct exchange *exchange)
{
    struct ranks *ranks = &exchange->ranks;
    exchange->in_place = false;
    exchange_plan_move(exchange, 1000);
    for (uint32_t p = 0; p < ranks->size; p++) { /* nothing may be empty: rank 0 has to wait */
        for (uint32_t r = 0; r < ranks->size; r++) {
            exchange->runs[r].run[p].send_bytes = exchange->runs[r].run[p].recv_bytes = 8;
        }
    }
    return (struct call){.kernel = GPUCOLL_KERNEL_MOVE_LL,
                         .functor = GPUCOLL_FN_sum_u8,
                         .ctas = GPUCOLL_CREW_CTAS,
                         .threads = 256,
                         .bytes = 8,
                         .data_bytes = EXCHANGE_DATA_BYTES,
                         .stages = GPUCOLL_STAGE_ALL,
                         .round_end = UINT64_MAX,
                         .runs = exchange->runs,
                         .linger_ns = 50000000};
}

/* An all-reduce, as if it were an exchange: every rank sends the same to all. */
void exchange_plan_all(struct exchange *exchange, size_t most, size_t unit, struct call *call)
{
    const uint32_t size = exchange->ranks.size;
    call->bytes = some_length(exchange, most, unit);
    call->send_at = call->recv_at = exchange->begin + EXCHANGE_GAP + exchange_below(exchange, 16);
    call->runs = NULL;
    for (uint32_t r = 0; r < size; r++) {
        const struct rank *rank = &exchange->ranks.rank[r];
        for (uint32_t p = 0; p < size; p++) {
            exchange->runs[r].run[p] = (struct gpucoll_kernel_run){
                rank->send + call->send_at, rank->recv + call->recv_at, call->bytes, call->bytes};
        }
    }
}

/* Random bytes in all send buffers: for functors of integers they are elements. */
void exchange_fill_all(struct exchange *exchange)
{
    for (uint32_t r = 0; r < exchange->ranks.size; r++) {
        fill_elements(GPUCOLL_FN_sum_u8, exchange->sent[r], exchange_buffer_bytes(), &exchange->random);
        memset(exchange->expected[r], EXCHANGE_POISON, exchange_buffer_bytes());
        gpus_copy(exchange->ranks.gpus, exchange->name, exchange->ranks.rank[r].send, exchange->sent[r],
                  exchange_buffer_bytes());
        gpus_copy(exchange->ranks.gpus, exchange->name, exchange->ranks.rank[r].recv, exchange->expected[r],
                  exchange_buffer_bytes());
    }
}

void exchange_plan_spread(struct exchange *exchange, size_t most, struct call *call)
{
    const uint32_t size = exchange->ranks.size;
    const uint32_t root = exchange_below(exchange, size);
    const size_t bytes = some_length(exchange, most, 1);
    size_t end = 0;
    const size_t at = next_place(exchange, &end, bytes);
    call->bytes = gpucoll_slice_bytes(bytes, size - 1);
    memset(exchange->stores, 0, sizeof(exchange->stores));
    exchange_fill_all(exchange);
    for (uint32_t r = 0; r < size; r++) {
        uint64_t begin;
        const uint64_t length =
            gpucoll_slice_at(bytes, size - 1, gpucoll_slice_beside_root(r, root, size), &begin);
        for (uint32_t p = 0; r != root && p < size; p++) {
            if (p != root) {
                exchange->stores[r].run[p] =
                    (struct gpucoll_kernel_run){.send = exchange->ranks.rank[root].send + at + begin,
                                                .recv = exchange->ranks.rank[p].recv + at + begin,
                                                .send_bytes = length,
                                                .recv_bytes = length};
            }
        }
        if (r != root) {
            memcpy(exchange->expected[r] + at, exchange->sent[root] + at, bytes);
        }
    }
}
