#include "bench/check.h"

#include <stdio.h>
#include "bench/case.h"

/* Messages are compared whole up to twice what windows would cover; above, about WINDOWS of WINDOW_BYTES: the first elements of
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
    return bench_coll_has(measured->coll, BENCH_SCATTERS) ? measured->group->size : 1;
}

static int windows_a_block(const struct bench_case *measured)
{
    int windows = WINDOWS / blocks_sent(measured);
    return windows > 2 ? windows : 2;
}

static int window_count(const struct bench_case *measured)
{
    int windows = windows_a_block(measured) * blocks_sent(measured);
    size_t bytes = bench_case_send_extent(measured) * measured->type->size;
    bool whole = measured->check_all || bytes <= 2 * (size_t)windows * WINDOW_BYTES;
    return whole ? 1 : windows;
}

static struct span window(const struct bench_case *measured, int index)
{
    size_t length = bench_case_send_extent(measured) / (size_t)blocks_sent(measured);
    size_t count = WINDOW_BYTES / measured->type->size;
    int windows = windows_a_block(measured);
    if (window_count(measured) == 1)
        return (struct span){0, bench_case_send_extent(measured)};
    size_t begin = (size_t)(index / windows) * length;
    index %= windows;
    if (index == windows - 1)
        return (struct span){begin + length - count, count};
    size_t stride = (length - count) / (size_t)(windows - 1);
    /* Not always at the same places: the seed moves the inner ones. */
    size_t moved = index > 0 ? (size_t)(measured->key.seed * 8191) % (stride / 2) : 0;
    return (struct span){begin + stride * (size_t)index + moved, count};
}

static struct span common(struct span a, struct span b)
{
    size_t first = a.first > b.first ? a.first : b.first;
    size_t a_end = a.first + a.count;
    size_t b_end = b.first + b.count;
    size_t end = a_end < b_end ? a_end : b_end;
    return (struct span){first, end > first ? end - first : 0};
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

void bench_check_fill(struct bench_case *measured)
{
    const struct bench_type *type = measured->type;
    size_t chunk = BENCH_STAGING_BYTES / type->size;
    if (!bench_coll_sends(measured->coll, measured->group->rank))
        return;
    for (int i = 0; i < window_count(measured); i++) {
        struct span span = window(measured, i);
        for (size_t done = 0; done < span.count; done += chunk) {
            size_t count = span.count - done < chunk ? span.count - done : chunk;
            type->fill(measured->staging, span.first + done, count, &measured->key, measured->group->rank);
            bench_device_copy(measured->device, (char *)measured->send + (span.first + done) * type->size,
                              measured->staging, count * type->size);
        }
    }
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

/* A result is a run of blocks, one for each rank that it gathers from, or a single one. */
static void examine(struct bench_case *measured, struct examined *examined)
{
    const struct bench_coll *coll = measured->coll;
    const struct bench_group *group = measured->group;
    bool gathers = bench_coll_has(coll, BENCH_GATHERS);
    bool scatters = bench_coll_has(coll, BENCH_SCATTERS);
    size_t length = gathers || scatters ? measured->block : measured->count;
    struct span source = {scatters ? (size_t)group->rank * measured->block : 0, length};
    struct bench_key key = measured->key;
    if (!bench_coll_has(coll, BENCH_REDUCES))
        key.ranks = 1;
    for (int block = 0; block < (gathers ? group->size : 1); block++) {
        size_t block_at = measured->result_at + (size_t)block * length;
        key.first_rank = gathers ? block : BENCH_ROOT;
        for (int i = 0; i < window_count(measured); i++) {
            struct span span = common(source, window(measured, i));
            examine_span(measured, &key, block_at + span.first - source.first, span, examined);
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
