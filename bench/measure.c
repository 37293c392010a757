#include "bench/measure.h"

#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One line each, so that arriving ranks do not disturb those that already wait. */
struct bench_line {
    _Alignas(64) unsigned char bytes[BENCH_EXCHANGE_BYTES];
};

/* `arrived` is written by every rank (fetch-add, acq_rel: orders its exchange line before it); the last one resets it
 * and then raises `generation` (release), which all others wait for (acquire); beside that, before it, the moment at which all go on. */
struct bench_shared {
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t generation;
    _Atomic uint64_t begin_ns;
    struct bench_line
        line[]; /* by rank: written by that rank between two barriers, read by all after the next */
};

const char *bench_program = "bench";

void bench_fail(const char *format, ...)
{
    int rank = 0;
    va_list args;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    va_start(args, format);
    fprintf(stderr, "%s: rank %d: ", bench_program, rank);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static void open_window(struct bench_group *group)
{
    size_t bytes = sizeof(struct bench_shared) + (size_t)group->size * sizeof(struct bench_line) + 64;
    void *base = NULL;
    MPI_Aint size = 0;
    int unit = 0;
    MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
    int rc = MPI_Win_allocate_shared(group->rank == 0 ? (MPI_Aint)bytes : 0, 1, MPI_INFO_NULL, group->comm,
                                     &base, &group->window);
    MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_ARE_FATAL);
    if (rc != MPI_SUCCESS) {
        group->window = MPI_WIN_NULL;
        return;
    }
    MPI_Win_shared_query(group->window, 0, &size, &unit, &base);
    group->shared = (struct bench_shared *)(((uintptr_t)base + 63) & ~(uintptr_t)63);
    if (group->rank == 0)
        memset(group->shared, 0, bytes - 64);
    MPI_Barrier(group->comm);
}

void bench_group_open(struct bench_group *group, MPI_Comm comm)
{
    MPI_Comm local;
    memset(group, 0, sizeof(*group));
    group->window = MPI_WIN_NULL;
    group->ring = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &group->comm);
    MPI_Comm_rank(group->comm, &group->rank);
    MPI_Comm_size(group->comm, &group->size);
    MPI_Comm_split_type(group->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &group->local_rank);
    MPI_Comm_size(local, &group->local_size);
    MPI_Comm_free(&local);
    if (group->local_size == group->size)
        open_window(group);
}

void bench_group_close(struct bench_group *group)
{
    if (group->window != MPI_WIN_NULL)
        MPI_Win_free(&group->window);
    if (group->ring != MPI_COMM_NULL)
        MPI_Comm_free(&group->ring);
    MPI_Comm_free(&group->comm);
    group->shared = NULL;
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Waits until all ranks of the host have come, the last of which says that all go on so many ns later. Returns that moment, by the host's clock. */
static uint64_t meet(struct bench_shared *shared, uint32_t size, uint64_t later_ns)
{
    uint32_t generation = atomic_load_explicit(&shared->generation, memory_order_relaxed);
    uint32_t before = atomic_fetch_add_explicit(&shared->arrived, 1, memory_order_acq_rel);
    if (before + 1 == size) {
        const uint64_t begin_ns = now_ns() + later_ns;
        atomic_store_explicit(&shared->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&shared->begin_ns, begin_ns, memory_order_relaxed);
        atomic_store_explicit(&shared->generation, generation + 1, memory_order_release);
        return begin_ns;
    }
    /* Bounded by mpirun: a rank that dies takes the others with it. Yielding keeps oversubscribed cores moving. */
    for (unsigned spins = 0; atomic_load_explicit(&shared->generation, memory_order_acquire) == generation;
         spins++)
        if (spins > 2000)
            sched_yield();
    return atomic_load_explicit(&shared->begin_ns, memory_order_relaxed);
}

void bench_barrier(struct bench_group *group)
{
    if (group->shared)
        (void)meet(group->shared, (uint32_t)group->size, 0);
    else
        MPI_Barrier(group->comm);
}

/* Ranks leave a barrier one after the other, some tenths of a microsecond apart, which the slowest rank's time would include: by the clock they begin
 * at once. Longer than it takes all to leave. */
static void begin_together(struct bench_group *group)
{
    static const uint64_t later_ns = 2000;
    if (!group->shared) {
        bench_barrier(group);
        return;
    }
    for (const uint64_t begin_ns = meet(group->shared, (uint32_t)group->size, later_ns); now_ns() < begin_ns;)
        ;
}

void bench_exchange(struct bench_group *group, const void *mine, void *all, size_t bytes)
{
    if (!group->shared) {
        MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, group->comm);
        return;
    }
    memcpy(group->shared->line[group->rank].bytes, mine, bytes);
    bench_barrier(group);
    for (int i = 0; i < group->size; i++)
        memcpy((char *)all + (size_t)i * bytes, group->shared->line[i].bytes, bytes);
    bench_barrier(group);
}

double bench_max(struct bench_group *group, double mine)
{
    double all[group->size];
    double max = mine;
    bench_exchange(group, &mine, all, sizeof(mine));
    for (int i = 0; i < group->size; i++)
        if (all[i] > max)
            max = all[i];
    return max;
}

double bench_now_us(void)
{
    return (double)now_ns() * 1e-3;
}

/* Calls in a row come at a steady pace, and what looks for them at a pace of its own may meet each of them early, or late. */
static void pause_at_random(struct bench_group *group)
{
    double end = bench_now_us() + erand48(group->drawn) * group->pause_us;
    while (bench_now_us() < end)
        ;
}

double bench_once(struct bench_group *group, const struct bench_call *call)
{
    if (call->prepare)
        call->prepare(call->arg);
    begin_together(group);
    if (group->pause_us > 0)
        pause_at_random(group);
    double begin = bench_now_us();
    call->run(call->arg);
    double us = bench_now_us() - begin;
    return bench_max(group, us);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_statistics(double *samples, int count, struct bench_times *times)
{
    int rank99 = (count * 99 + 99) / 100; /* nearest rank: the smallest sample not below 99 % of them */
    qsort(samples, (size_t)count, sizeof(*samples), ascending);
    times->min_us = samples[0];
    times->median_us = count % 2 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;
    times->p99_us = samples[rank99 - 1];
    times->iterations = count;
}

int bench_iterations(size_t bytes)
{
    if (bytes <= (64u << 10))
        return 500;
    return bytes <= (16u << 20) ? 100 : 20;
}

int bench_warmup(int iterations)
{
    return iterations / 10 > 5 ? iterations / 10 : 5;
}

size_t bench_next_size(size_t bytes, size_t max, bool doubling)
{
    size_t next = 8;
    while (next <= bytes)
        next *= doubling ? 2 : next < (32u << 10) ? 8 : next == (32u << 10) ? 2 : 4;
    if (next <= max)
        return next;
    return bytes < max ? max : 0;
}

double bench_algbw(size_t bytes, double us)
{
    return us > 0 ? (double)bytes / us * 1e-3 : 0;
}
