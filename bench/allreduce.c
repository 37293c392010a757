#include "bench/allreduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGING_BYTES = 4 << 20, CHECK_ALL_BYTES = 1 << 20, POISON = 0xff /* a NaN in every float */ };

static size_t bytes_of(const struct bench_allreduce *allreduce)
{
    return allreduce->count * allreduce->type->size;
}

static void mpi_reduce(struct bench_allreduce *allreduce)
{
    MPI_Allreduce(allreduce->in_place ? MPI_IN_PLACE : allreduce->send, allreduce->recv, (int)allreduce->count,
                  allreduce->type->mpi, allreduce->op->mpi, MPI_COMM_WORLD);
}

/* What a program must do over an MPI that takes no device pointers. */
static void mpi_reduce_staged(struct bench_allreduce *allreduce)
{
    void **host = allreduce->host;
    size_t bytes = bytes_of(allreduce);
    bench_device_copy(allreduce->device, host[0], allreduce->in_place ? allreduce->recv : allreduce->send, bytes);
    MPI_Allreduce(host[0], host[1], (int)allreduce->count, allreduce->type->mpi, allreduce->op->mpi, MPI_COMM_WORLD);
    bench_device_copy(allreduce->device, allreduce->recv, host[1], bytes);
}

void bench_allreduce_open(struct bench_allreduce *allreduce, struct bench_group *group, struct bench_device *device,
                          const struct bench_options *options, void *send, void *recv)
{
    memset(allreduce, 0, sizeof(*allreduce));
    allreduce->group = group;
    allreduce->device = device;
    allreduce->type = options->type;
    allreduce->op = options->op;
    allreduce->in_place = options->in_place;
    allreduce->own = !send;
    allreduce->send = send ? send : bench_device_alloc(device, options->max);
    allreduce->recv = recv ? recv : bench_device_alloc(device, options->max);
    allreduce->staging = bench_pinned_alloc(device, STAGING_BYTES);
    allreduce->key.seed = 1;
    allreduce->key.op = options->op->id;
    allreduce->key.ranks = group->size;
    allreduce->reduce = options->stage ? mpi_reduce_staged : mpi_reduce;
    for (int i = 0; i < 2 && options->stage; i++)
        allreduce->host[i] = bench_pinned_alloc(device, options->max);
}

void bench_allreduce_close(struct bench_allreduce *allreduce)
{
    for (int i = 0; i < 2; i++)
        bench_pinned_free(allreduce->device, allreduce->host[i]);
    bench_pinned_free(allreduce->device, allreduce->staging);
    if (allreduce->own) {
        bench_device_free(allreduce->device, allreduce->recv);
        bench_device_free(allreduce->device, allreduce->send);
    }
    memset(allreduce, 0, sizeof(*allreduce));
}

static void fill(struct bench_allreduce *allreduce)
{
    const struct bench_type *type = allreduce->type;
    size_t chunk = STAGING_BYTES / type->size;
    for (size_t first = 0; first < allreduce->count; first += chunk) {
        size_t count = allreduce->count - first < chunk ? allreduce->count - first : chunk;
        type->fill(allreduce->staging, first, count, &allreduce->key, allreduce->group->rank);
        bench_device_copy(allreduce->device, (char *)allreduce->send + first * type->size, allreduce->staging,
                          count * type->size);
    }
}

/* Checks the elements [begin, end) of the result and returns the digest of all of it. */
static uint64_t examine(struct bench_allreduce *allreduce, size_t begin, size_t end, struct bench_mismatch *mismatch)
{
    const struct bench_type *type = allreduce->type;
    size_t chunk = STAGING_BYTES / type->size;
    uint64_t digest = 0;
    for (size_t first = 0; first < allreduce->count; first += chunk) {
        size_t count = allreduce->count - first < chunk ? allreduce->count - first : chunk;
        size_t from = first > begin ? first : begin;
        size_t to = first + count < end ? first + count : end;
        bench_device_copy(allreduce->device, allreduce->staging, (char *)allreduce->recv + first * type->size,
                          count * type->size);
        digest = bench_digest(digest, allreduce->staging, count * type->size);
        if (from < to && !mismatch->found)
            type->check((char *)allreduce->staging + (from - first) * type->size, from, to - from, &allreduce->key,
                        mismatch);
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
static enum bench_check check(struct bench_allreduce *allreduce)
{
    struct bench_group *group = allreduce->group;
    struct bench_mismatch mismatch = {.found = false};
    size_t count = allreduce->count;
    bool small = bytes_of(allreduce) <= CHECK_ALL_BYTES;
    size_t share = count / (size_t)group->size;
    size_t begin = small ? 0 : share * (size_t)group->rank;
    size_t end = small || group->rank == group->size - 1 ? count : begin + share;

    bool same = same_on_all(group, examine(allreduce, begin, end, &mismatch));
    if (!same && !small && !mismatch.found)
        examine(allreduce, 0, count, &mismatch);
    if (mismatch.found)
        fprintf(stderr, "%s: rank %d: %zu bytes%s: element %llu is %.9g, should be %.9g\n", bench_program, group->rank,
                bytes_of(allreduce), allreduce->in_place ? " in place" : "", (unsigned long long)mismatch.index,
                mismatch.got, mismatch.expected);
    if (bench_max(group, mismatch.found) > 0)
        return BENCH_WRONG;
    return same ? BENCH_RIGHT : BENCH_RIGHT_BITS_DIFFER;
}

static void restore(void *arg)
{
    struct bench_allreduce *allreduce = arg;
    if (allreduce->in_place)
        bench_device_copy(allreduce->device, allreduce->recv, allreduce->send, bytes_of(allreduce));
}

static void poison(void *arg)
{
    struct bench_allreduce *allreduce = arg;
    if (allreduce->in_place)
        restore(arg);
    else
        bench_device_fill(allreduce->device, allreduce->recv, POISON, bytes_of(allreduce));
}

static void reduce(void *arg)
{
    struct bench_allreduce *allreduce = arg;
    allreduce->reduce(allreduce);
}

void bench_allreduce_begin(struct bench_allreduce *allreduce, size_t bytes, struct bench_row *row)
{
    struct bench_call call = {poison, reduce, allreduce};
    memset(row, 0, sizeof(*row));
    row->bytes = bytes;
    row->in_place = allreduce->in_place;
    allreduce->count = bytes / allreduce->type->size;
    allreduce->key.seed++;
    fill(allreduce);
    row->times.first_us = bench_once(allreduce->group, &call);
    row->check = check(allreduce);
}

double bench_allreduce_once(struct bench_allreduce *allreduce)
{
    struct bench_call call = {restore, reduce, allreduce};
    return bench_once(allreduce->group, &call);
}

void bench_allreduce_end(struct bench_allreduce *allreduce, struct bench_row *row)
{
    struct bench_call call = {poison, reduce, allreduce};
    bench_once(allreduce->group, &call);
    enum bench_check after = check(allreduce);
    if (after > row->check)
        row->check = after;
}

void bench_allreduce_measure(struct bench_allreduce *allreduce, size_t bytes, int iterations, struct bench_row *row)
{
    struct bench_call call = {restore, reduce, allreduce};
    bench_allreduce_begin(allreduce, bytes, row);
    bench_run(allreduce->group, &call, iterations ? iterations : bench_iterations(bytes), &row->times);
    bench_allreduce_end(allreduce, row);
}

const char *bench_check_name(enum bench_check check)
{
    static const char *const names[] = {"ok", "ok, bits differ", "WRONG"};
    return names[check];
}
