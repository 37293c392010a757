#include "bench/check.h"

#include <stdio.h>
#include "bench/case.h"

/* Blocks are compared whole up to twice what their windows would cover; above, about WINDOWS of WINDOW_BYTES in all: the first elements of
 * each block, the last, and some between them. */
enum { WINDOWS = 64, WINDOW_BYTES = 16 << 10 };

/* Elements [first, first + count) of what a sender holds. */
struct span {
    size_t first;
    size_t count;
};

/* What has been compared on this rank. */
struct examined {
    struct bench_mismatch mismatch;
    uint64_t digest;
};

/* Of what one rank sends. */
static int blocks_sent(const struct bench_case *measured)
{
    return bench_coll_has(measured->coll, BENCH_SCATTERS)
               ? bench_coll_blocks(measured->coll, measured->group->size)
               : 1;
}

/* Block `index` of them. */
static struct span block_sent(const struct bench_case *measured, int sender, int index)
{
    if (bench_coll_has(measured->coll, BENCH_SCATTERS))
        return (struct span){bench_case_offset(measured, sender, index),
                             bench_case_length(measured, sender, index)};
    bool gathers = bench_coll_has(measured->coll, BENCH_GATHERS);
    return (struct span){0, gathers ? bench_case_length(measured, sender, sender) : measured->count};
}

static int windows_a_block(const struct bench_case *measured)
{
    int windows = WINDOWS / blocks_sent(measured);
    return windows > 2 ? windows : 2;
}

/* Of block `block`, the first of its windows is all of it if it is short. */
static struct span window(const struct bench_case *measured, int sender, int block, int index)
{
    struct span whole = block_sent(measured, sender, block);
    size_t count = WINDOW_BYTES / measured->type->size;
    int windows = windows_a_block(measured);
    if (measured->check_all || whole.count <= 2 * (size_t)windows * count)
        return (struct span){whole.first, index == 0 ? whole.count : 0};
    if (index == windows - 1)
        return (struct span){whole.first + whole.count - count, count};
    size_t stride = (whole.count - count) / (size_t)(windows - 1);
    /* Not always at the same places: the seed moves the inner ones. */
    size_t moved = index > 0 ? (size_t)(measured->key.seed * 8191) % (stride / 2) : 0;
    return (struct span){whole.first + stride * (size_t)index + moved, count};
}

void bench_check_prime(struct bench_case *measured, size_t bytes)
{
    size_t chunk = BENCH_STAGING_BYTES;
    measured->type->fill(measured->staging, 0, chunk / measured->type->size, &measured->key,
                         measured->group->rank);
    for (size_t at = 0; at < bytes; at += chunk)
        bench_device_copy(measured->device, (char *)measured->send + at, measured->staging,
                          bytes - at < chunk ? bytes - at : chunk);
}

static void fill_span(struct bench_case *measured, void *buffer, int rank, struct span span)
{
    const struct bench_type *type = measured->type;
    size_t chunk = BENCH_STAGING_BYTES / type->size;
    for (size_t done = 0; done < span.count; done += chunk) {
        size_t count = span.count - done < chunk ? span.count - done : chunk;
        type->fill(measured->staging, span.first + done, count, &measured->key, rank);
        bench_device_copy(measured->device, (char *)buffer + (span.first + done) * type->size,
                          measured->staging, count * type->size);
    }
}

void bench_check_fill(struct bench_case *measured, void *buffer, int rank)
{
    for (int block = 0; block < blocks_sent(measured); block++)
        for (int i = 0; i < windows_a_block(measured); i++)
            fill_span(measured, buffer, rank, window(measured, rank, block, i));
}

/* Elements of recv from `at` on are to be those of `span`, from the ranks that the key names. */
static void examine_span(struct bench_case *measured, const struct bench_key *key, size_t at,
                         struct span span, struct examined *examined)
{
    const struct bench_type *type = measured->type;
    size_t chunk = BENCH_STAGING_BYTES / type->size;
    for (size_t done = 0; done < span.count; done += chunk) {
        size_t count = span.count - done < chunk ? span.count - done : chunk;
        bench_device_copy(measured->device, measured->staging,
                          (char *)measured->recv + (at + done) * type->size, count * type->size);
        examined->digest = bench_digest(examined->digest, measured->staging, count * type->size);
        if (!examined->mismatch.found)
            type->check(measured->staging, span.first + done, count, key, &examined->mismatch);
    }
}

/* The ranks whose data the result, or its block from `sender`, is made of. */
static struct bench_key sources(const struct bench_case *measured, int sender)
{
    const struct bench_coll *coll = measured->coll;
    struct bench_key key = measured->key;
    int rank = measured->group->rank;
    key.first_rank = bench_coll_has(coll, BENCH_GATHERS) ? sender : BENCH_ROOT;
    if (!bench_coll_has(coll, BENCH_REDUCES))
        key.ranks = 1;
    if (bench_coll_has(coll, BENCH_SCANS))
        key.ranks = bench_coll_has(coll, BENCH_BEFORE) ? rank : rank + 1;
    if (bench_coll_has(coll, BENCH_LOCAL)) {
        key.first_rank = rank;
        key.ranks = 2;
    }
    return key;
}

/* Of the blocks that a rank is sent as its block `index`: which of the sender's it is. */
static int block_at_sender(const struct bench_case *measured, int index)
{
    if (!bench_coll_has(measured->coll, BENCH_SCATTERS))
        return 0;
    if (bench_coll_has(measured->coll, BENCH_NEIGHBORS))
        return bench_coll_opposite(measured->coll, index);
    return measured->group->rank;
}

/* A result is a run of blocks, one for each rank that it gathers from, or a single one. */
static void examine(struct bench_case *measured, struct examined *examined)
{
    int rank = measured->group->rank;
    int ranks = measured->group->size;
    bool gathers = bench_coll_has(measured->coll, BENCH_GATHERS);
    for (int block = 0; block < (gathers ? bench_coll_blocks(measured->coll, ranks) : 1); block++) {
        int sender = bench_coll_peer(measured->coll, ranks, rank, block);
        int sent = block_at_sender(measured, block);
        struct bench_key key = sources(measured, sender);
        struct span source = block_sent(measured, sender, sent);
        size_t at = measured->result_at + (gathers ? bench_case_offset(measured, rank, block) : 0);
        for (int i = 0; i < windows_a_block(measured); i++) {
            struct span span = window(measured, sender, sent, i);
            examine_span(measured, &key, at + span.first - source.first, span, examined);
        }
    }
}

static bool same_on_all(struct bench_group *group, uint64_t mine)
{
    uint64_t all[group->size];
    bench_exchange(group, &mine, all, sizeof(mine));
    for (int i = 0; i < group->size; i++)
        if (all[i] != all[0])
            return false;
    return true;
}

enum bench_check bench_check_result(struct bench_case *measured)
{
    struct bench_group *group = measured->group;
    struct examined examined = {.digest = 0};
    const struct bench_coll *coll = measured->coll;
    bool receives = bench_coll_receives(coll, group->rank);
    /* A scatter's root, in place, leaves its block where it was. */
    if (bench_coll_has(coll, BENCH_FROM_ROOT) && bench_case_is_in_place(measured))
        receives = false;
    if (receives)
        examine(measured, &examined);
    bool same = coll->flow != BENCH_REDUCES || same_on_all(group, examined.digest);
    if (examined.mismatch.found)
        fprintf(stderr, "%s: rank %d: %s of %zu bytes, %s%s: element %llu is %.9g, should be %.9g\n",
                bench_program, group->rank, coll->name, bench_case_bytes(measured),
                bench_form_name(measured->form), measured->in_place ? ", in place" : "",
                (unsigned long long)examined.mismatch.index, examined.mismatch.got,
                examined.mismatch.expected);
    if (bench_max(group, examined.mismatch.found) > 0)
        return BENCH_WRONG;
    return same ? BENCH_RIGHT : BENCH_RIGHT_BITS_DIFFER;
}

const char *bench_check_name(enum bench_check check)
{
    static const char *const names[] = {"ok", "ok, bits differ", "WRONG"};
    return names[check];
}
