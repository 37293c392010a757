/*
 * The ranks of --tune: processes, as in an MPI job, that meet in shared memory.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "core/base/clock.h"
#include "tools/tune.h"

static const uint64_t patience_ns = 60 * UINT64_C(1000000000);
static const uint64_t spin_ns = 200000; /* then others may have the core */

static struct gpucoll_log outer; /* where messages go */

/* That an algorithm cannot run some size is no news here. */
static void help(void *arg, const char *topic, va_list args)
{
    if (strcmp(topic, "algorithm-unusable") != 0) {
        outer.help(arg, topic, args);
    }
}

void tune_failed(struct tune_rank *rank, const char *format, ...)
{
    char text[sizeof rank->shared->reason];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!atomic_exchange(&rank->shared->failed, true)) {
        snprintf(rank->shared->reason, sizeof rank->shared->reason, "rank %u: %.200s", rank->rank, text);
    }
}

bool tune_barrier(struct tune_rank *rank)
{
    struct tune_shared *shared = rank->shared;
    const unsigned generation = atomic_load(&shared->generation);
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == rank->options->ranks) {
        atomic_store(&shared->arrived, 0);
        atomic_store(&shared->generation, generation + 1);
        return !atomic_load(&shared->failed);
    }
    const uint64_t begin = gpucoll_now_ns();
    while (atomic_load_explicit(&shared->generation, memory_order_acquire) == generation) {
        const uint64_t waited = gpucoll_now_ns() - begin;
        if (atomic_load(&shared->failed)) {
            return false;
        }
        if (waited > patience_ns) {
            tune_failed(rank, "the other ranks do not come");
            return false;
        }
        if (rank->device.host || waited > spin_ns) {
            sched_yield();
        }
    }
    return true;
}

int tune_allgather(void *arg, const void *mine, void *all, size_t bytes)
{
    struct tune_rank *rank = arg;
    struct tune_shared *shared = rank->shared;
    if (bytes > TUNE_SLOT_BYTES) {
        tune_failed(rank, "more bytes to exchange than there is room for");
        return -1;
    }
    memcpy(shared->slots[rank->rank], mine, bytes);
    if (!tune_barrier(rank)) {
        return -1;
    }
    for (uint32_t i = 0; i < rank->options->ranks; i++) {
        memcpy((char *)all + i * bytes, shared->slots[i], bytes);
    }
    return tune_barrier(rank) ? 0 : -1;
}

static bool open_rank(struct tune_rank *rank, bool host)
{
    char reason[200];
    if (host) {
        device_open_host(&rank->device);
    } else {
        int count = device_count(reason, sizeof reason);
        if (count == 0 || !device_open_cuda(&rank->device, (int)rank->rank % count, reason, sizeof reason)) {
            tune_failed(rank, "%s", reason);
            return false;
        }
    }
    if (rank->rank == 0) {
        memcpy(rank->shared->gpu, rank->device.name, sizeof rank->shared->gpu);
    }
    rank->send = device_alloc(&rank->device, rank->options->most_bytes);
    rank->recv = device_alloc(&rank->device, rank->options->most_bytes);
    if (rank->send == NULL || rank->recv == NULL) {
        tune_failed(rank, "no memory for two buffers of %zu bytes: try a smaller --max",
                    rank->options->most_bytes);
        return false;
    }
    gpucoll_status status = gpucoll_context_create(&rank->config, &rank->log, &rank->context);
    if (status != GPUCOLL_OK) {
        tune_failed(rank, "the engine does not start: %s", gpucoll_status_name(status));
    }
    return status == GPUCOLL_OK;
}

static void close_rank(struct tune_rank *rank)
{
    if (rank->context != NULL) {
        (void)gpucoll_context_disconnect(rank->context);
        (void)tune_barrier(rank);
        gpucoll_context_destroy(rank->context);
    }
    device_free(&rank->device, rank->send);
    device_free(&rank->device, rank->recv);
}

static void run_rank(struct tune_rank *rank, bool host)
{
    bool open = open_rank(rank, host);
    if (tune_barrier(rank) && open) {
        tune_measure(rank);
    }
    close_rank(rank);
}

static void stop(const pid_t *children, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (children[i] > 0) {
            kill(children[i], SIGKILL);
        }
    }
}

/* A rank that dies takes the others with it: they wait for it. */
static void wait_for_all(struct tune_shared *shared, pid_t *children, uint32_t count)
{
    for (uint32_t left = count; left > 0; left--) {
        int status = 0;
        pid_t child = wait(&status);
        for (uint32_t i = 0; i < count; i++) {
            if (children[i] != child) {
                continue;
            }
            children[i] = 0;
            if (status != 0 && !atomic_exchange(&shared->failed, true)) {
                snprintf(shared->reason, sizeof shared->reason, "rank %u ended by itself (wait status %d)", i,
                         status);
                stop(children, count);
            }
        }
    }
}

bool tune_run_ranks(struct tune_shared *shared, const struct tune_options *options, bool host,
                    const struct gpucoll_config *config, const struct gpucoll_log *log)
{
    pid_t children[GPUCOLL_MAX_LOCAL] = {0};
    uint32_t started = 0;
    fflush(stdout);
    for (; started < options->ranks; started++) {
        children[started] = fork();
        if (children[started] == 0) {
            struct tune_rank rank = {
                .shared = shared, .options = options, .rank = started, .config = *config, .log = *log};
            outer = *log;
            rank.log.help = help;
            run_rank(&rank, host);
            fflush(stdout);
            _exit(0);
        }
        if (children[started] < 0) {
            snprintf(shared->reason, sizeof shared->reason, "starting a process: %s", strerror(errno));
            atomic_store(&shared->failed, true);
            stop(children, started);
            break;
        }
    }
    wait_for_all(shared, children, started);
    return !atomic_load(&shared->failed);
}
