#include "bench/case.h"

#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff /* a NaN in every float */ };

size_t bench_case_bytes(const struct bench_case *measured)
{
    return measured->count * measured->type->size;
}

double bench_row_busbw(const struct bench_row *row, int ranks)
{
    return bench_algbw(row->bytes, row->times.median_us) * row->coll->busbw_factor(ranks);
}

static void call_mpi(struct bench_case *measured)
{
    measured->coll->call(measured, measured->in_place ? MPI_IN_PLACE : measured->send, measured->recv);
}

/* What a program must do over an MPI that takes no device pointers. */
static void call_mpi_staged(struct bench_case *measured)
{
    void **host = measured->host;
    size_t bytes = bench_case_bytes(measured);
    bench_device_copy(measured->device, host[0], measured->in_place ? measured->recv : measured->send, bytes);
    measured->coll->call(measured, host[0], host[1]);
    bench_device_copy(measured->device, measured->recv, host[1], bytes);
}

void bench_case_open(struct bench_case *measured, struct bench_group *group, struct bench_device *device,
                     const struct bench_options *options, void *send, void *recv)
{
    memset(measured, 0, sizeof(*measured));
    measured->group = group;
    measured->device = device;
    measured->coll = options->coll;
    measured->type = options->type;
    measured->op = options->op;
    measured->in_place = options->in_place;
    measured->own = !send;
    measured->send = send ? send : bench_device_alloc(device, options->max);
    measured->recv = recv ? recv : bench_device_alloc(device, options->max);
    measured->staging = bench_pinned_alloc(device, BENCH_STAGING_BYTES);
    measured->key.seed = 1;
    measured->key.op = options->op->id;
    measured->key.ranks = group->size;
    measured->call = call_mpi;
    if (options->stage && device->cuda) {
        measured->call = call_mpi_staged;
        for (int i = 0; i < 2; i++)
            measured->host[i] = bench_pinned_alloc(device, options->max);
    }
}

void bench_case_close(struct bench_case *measured)
{
    for (int i = 0; i < 2; i++)
        bench_pinned_free(measured->device, measured->host[i]);
    bench_pinned_free(measured->device, measured->staging);
    if (measured->own) {
        bench_device_free(measured->device, measured->recv);
        bench_device_free(measured->device, measured->send);
    }
    free(measured->samples);
    memset(measured, 0, sizeof(*measured));
}

static void fill(struct bench_case *measured)
{
    const struct bench_type *type = measured->type;
    size_t chunk = BENCH_STAGING_BYTES / type->size;
    for (size_t first = 0; first < measured->count; first += chunk) {
        size_t count = measured->count - first < chunk ? measured->count - first : chunk;
        type->fill(measured->staging, first, count, &measured->key, measured->group->rank);
        bench_device_copy(measured->device, (char *)measured->send + first * type->size, measured->staging,
                          count * type->size);
    }
}

static void restore(void *arg)
{
    struct bench_case *measured = arg;
    if (measured->in_place)
        bench_device_copy(measured->device, measured->recv, measured->send, bench_case_bytes(measured));
}

static void poison(void *arg)
{
    struct bench_case *measured = arg;
    if (measured->in_place)
        restore(arg);
    else
        bench_device_fill(measured->device, measured->recv, POISON, bench_case_bytes(measured));
}

static void run_call(void *arg)
{
    struct bench_case *measured = arg;
    measured->call(measured);
}

void bench_case_begin(struct bench_case *measured, size_t bytes, struct bench_row *row)
{
    struct bench_call call = {poison, run_call, measured};
    memset(row, 0, sizeof(*row));
    row->coll = measured->coll;
    row->bytes = bytes;
    row->in_place = measured->in_place;
    measured->count = bytes / measured->type->size;
    measured->key.seed++;
    measured->sample_count = 0;
    fill(measured);
    row->times.first_us = bench_once(measured->group, &call);
    row->check = measured->coll->check(measured);
}

void bench_case_warm(struct bench_case *measured, int calls)
{
    struct bench_call call = {restore, run_call, measured};
    for (int i = 0; i < calls; i++)
        bench_once(measured->group, &call);
}

double bench_case_sample(struct bench_case *measured)
{
    struct bench_call call = {restore, run_call, measured};
    if (measured->sample_count == measured->sample_room) {
        measured->sample_room = measured->sample_room ? 2 * measured->sample_room : 512;
        measured->samples =
            realloc(measured->samples, (size_t)measured->sample_room * sizeof(*measured->samples));
        if (!measured->samples)
            bench_fail("out of memory for %d samples", measured->sample_room);
    }
    double us = bench_once(measured->group, &call);
    measured->samples[measured->sample_count++] = us;
    return us;
}

void bench_case_end(struct bench_case *measured, struct bench_row *row)
{
    struct bench_call call = {poison, run_call, measured};
    bench_statistics(measured->samples, measured->sample_count, &row->times);
    bench_once(measured->group, &call);
    enum bench_check after = measured->coll->check(measured);
    if (after > row->check)
        row->check = after;
}

void bench_case_measure(struct bench_case *measured, size_t bytes, int iterations, struct bench_row *row)
{
    int calls = iterations ? iterations : bench_iterations(bytes);
    bench_case_begin(measured, bytes, row);
    bench_case_warm(measured, bench_warmup(calls));
    for (int i = 0; i < calls; i++)
        bench_case_sample(measured);
    bench_case_end(measured, row);
}
