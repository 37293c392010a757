/*
 * MPI_Allreduce: every rank gets the reduction of all ranks' elements.
 */
#include <stdio.h>
#include "bench/case.h"

enum { CHECK_ALL_BYTES = 1 << 20 };

static void call(const struct bench_case *measured, const void *send, void *recv)
{
    MPI_Allreduce(send, recv, (int)measured->count, measured->type->mpi, measured->op->mpi, MPI_COMM_WORLD);
}

/* Checks the elements [begin, end) of the result and returns the digest of all of it. */
static uint64_t examine(struct bench_case *measured, size_t begin, size_t end,
                        struct bench_mismatch *mismatch)
{
    const struct bench_type *type = measured->type;
    size_t chunk = BENCH_STAGING_BYTES / type->size;
    uint64_t digest = 0;
    for (size_t first = 0; first < measured->count; first += chunk) {
        size_t count = measured->count - first < chunk ? measured->count - first : chunk;
        size_t from = first > begin ? first : begin;
        size_t to = first + count < end ? first + count : end;
        bench_device_copy(measured->device, measured->staging, (char *)measured->recv + first * type->size,
                          count * type->size);
        digest = bench_digest(digest, measured->staging, count * type->size);
        if (from < to && !mismatch->found)
            type->check((char *)measured->staging + (from - first) * type->size, from, to - from,
                        &measured->key, mismatch);
    }
    return digest;
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

/* Small results are compared element by element on every rank. Of a large one each rank compares its share, and equal
 * digests show that all ranks hold what the others have checked; if they differ, every rank compares everything. */
static enum bench_check check(struct bench_case *measured)
{
    struct bench_group *group = measured->group;
    struct bench_mismatch mismatch = {.found = false};
    size_t count = measured->count;
    bool small = bench_case_bytes(measured) <= CHECK_ALL_BYTES;
    size_t share = count / (size_t)group->size;
    size_t begin = small ? 0 : share * (size_t)group->rank;
    size_t end = small || group->rank == group->size - 1 ? count : begin + share;

    bool same = same_on_all(group, examine(measured, begin, end, &mismatch));
    if (!same && !small && !mismatch.found)
        examine(measured, 0, count, &mismatch);
    if (mismatch.found)
        fprintf(stderr, "%s: rank %d: %zu bytes%s: element %llu is %.9g, should be %.9g\n", bench_program,
                group->rank, bench_case_bytes(measured), measured->in_place ? " in place" : "",
                (unsigned long long)mismatch.index, mismatch.got, mismatch.expected);
    if (bench_max(group, mismatch.found) > 0)
        return BENCH_WRONG;
    return same ? BENCH_RIGHT : BENCH_RIGHT_BITS_DIFFER;
}

static double busbw_factor(int ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

const struct bench_coll bench_allreduce = {
    .name = "allreduce",
    .call = call,
    .check = check,
    .busbw_factor = busbw_factor,
};
