#include "core/accel/host_stream.h"
#include "core/accel/host_kernels.h"
#include "core/base/thread.h"
#include "kernels/functors.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call launches one kernel at a time, so more than a few never wait here; of copies there may be more. */
enum { QUEUE = 8 };

enum work { WORK_KERNEL, WORK_COPY, WORK_PACK };

struct entry {
    enum work work;
    struct gpucoll_pack_args pack;
    enum gpucoll_kernel kernel;
    void *copy_to;
    const void *copy_from;
    uint64_t copy_bytes;
    bool copies_end; /* with this copy all that were queued with it are complete */
    int functor;
    uint32_t channels;
    struct gpucoll_kernel_args args;
    struct gpucoll_kernel_runs runs; /* of an exchange */
};

/*
 * `lock` guards what stands below it. The worker takes the oldest entry, runs it without the lock, then
 * counts it as run, so its slot is not reused meanwhile.
 */
struct host_stream {
    struct gpucoll_stream base;
    struct gpucoll_kernel_status status; /* see host_kernels.c for its order */
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t launched; /* to the worker */
    pthread_cond_t ran;      /* to launchers that found the queue full, and who waits for the end */
    uint64_t launches;
    uint64_t runs;
    uint64_t passed;     /* sets of copies */
    uint32_t done_value; /* of the latest launch; the launching thread's */
    struct entry latest; /* likewise: the launch itself, if it may be launched again */
    bool early;          /* likewise: it was rung for early, and its kernel may have ended without it */
    uint32_t gate;       /* stands for that of a kernel; not used, since one thread is all CTAs */
    bool closing;
    struct entry queue[QUEUE];
};

/* The kernels of the process, for who frees memory. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool frees_wait;
    bool freeing;
    uint32_t running; /* launched, and not at their end */
} kernels = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void gpucoll_host_frees_wait(bool wait)
{
    pthread_mutex_lock(&kernels.lock);
    kernels.frees_wait = wait;
    pthread_mutex_unlock(&kernels.lock);
}

/* The caller holds the lock. */
static void wait_for_free(void)
{
    while (kernels.freeing) {
        pthread_cond_wait(&kernels.changed, &kernels.lock);
    }
}

/* Likewise. */
static void wait_for_running(void)
{
    while (kernels.running > 0) {
        pthread_cond_wait(&kernels.changed, &kernels.lock);
    }
}

void gpucoll_host_wait_for_kernels(void)
{
    pthread_mutex_lock(&kernels.lock);
    if (kernels.frees_wait) {
        wait_for_free();
        kernels.freeing = true;
        wait_for_running();
        kernels.freeing = false;
        pthread_cond_broadcast(&kernels.changed);
    }
    pthread_mutex_unlock(&kernels.lock);
}

void gpucoll_host_synchronize(void)
{
    pthread_mutex_lock(&kernels.lock);
    wait_for_running();
    pthread_mutex_unlock(&kernels.lock);
}

void gpucoll_host_wait_for_free(void)
{
    pthread_mutex_lock(&kernels.lock);
    wait_for_free();
    pthread_mutex_unlock(&kernels.lock);
}

static void kernel_begins(void)
{
    pthread_mutex_lock(&kernels.lock);
    wait_for_free();
    kernels.running++;
    pthread_mutex_unlock(&kernels.lock);
}

static void kernel_ends(void)
{
    pthread_mutex_lock(&kernels.lock);
    kernels.running--;
    pthread_cond_broadcast(&kernels.changed);
    pthread_mutex_unlock(&kernels.lock);
}

static void run(const struct entry *entry)
{
    switch (entry->work) {
    case WORK_KERNEL:
        gpucoll_host_kernel(entry->kernel, entry->functor, entry->channels, &entry->args, &entry->runs);
        kernel_ends();
        break;
    case WORK_COPY:
        memcpy(entry->copy_to, entry->copy_from, entry->copy_bytes);
        break;
    case WORK_PACK:
        gpucoll_host_pack(&entry->pack);
        break;
    }
}

static void *work(void *arg)
{
    struct host_stream *stream = arg;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (stream->runs == stream->launches && !stream->closing) {
            pthread_cond_wait(&stream->launched, &stream->lock);
        }
        if (stream->runs == stream->launches) {
            break;
        }
        const struct entry *entry = &stream->queue[stream->runs % QUEUE];
        pthread_mutex_unlock(&stream->lock);
        run(entry);
        pthread_mutex_lock(&stream->lock);
        stream->passed += entry->work == WORK_COPY && entry->copies_end;
        stream->runs++;
        pthread_cond_broadcast(&stream->ran);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

gpucoll_status gpucoll_host_stream_open(struct gpucoll_device *device, struct gpucoll_stream **out)
{
    struct host_stream *stream = calloc(1, sizeof(*stream));
    if (!stream) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    stream->base.device = device;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->launched, NULL);
    pthread_cond_init(&stream->ran, NULL);
    int error = gpucoll_thread_start(&stream->worker, work, stream);
    if (error) {
        gpucoll_help(device->accel->log, "device-error", "host", device->ordinal, "pthread_create",
                     strerror(error));
        free(stream);
        return GPUCOLL_ERR_SYSTEM;
    }
    *out = &stream->base;
    return GPUCOLL_OK;
}

/* No kernel computes for long, so the wait has an end: each looks at `abort` in every wait for a peer. */
void gpucoll_host_stream_stop(struct gpucoll_stream *base)
{
    struct host_stream *stream = (struct host_stream *)base;
    gpucoll_status_abort(&stream->status, 1);
    pthread_mutex_lock(&stream->lock);
    while (stream->runs != stream->launches) {
        pthread_cond_wait(&stream->ran, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
}

void gpucoll_host_stream_close(struct gpucoll_stream *base)
{
    struct host_stream *stream = (struct host_stream *)base;
    gpucoll_status_abort(&stream->status, 1);
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_signal(&stream->launched);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->worker, NULL);
    pthread_cond_destroy(&stream->ran);
    pthread_cond_destroy(&stream->launched);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* A free entry of the queue. The caller holds the lock. */
static struct entry *next_entry(struct host_stream *stream)
{
    while (stream->launches - stream->runs == QUEUE) {
        pthread_cond_wait(&stream->ran, &stream->lock);
    }
    return &stream->queue[stream->launches % QUEUE];
}

/* Gives the worker the entry that was filled. */
static void give_entry(struct host_stream *stream)
{
    stream->launches++;
    pthread_cond_signal(&stream->launched);
}

/* Do its CTAs wait for each other or for those of other ranks? Not with its stages one by one. */
static bool waits(const struct gpucoll_launch *launch)
{
    const uint32_t stages = launch->args->stages;
    return launch->gate || (!gpucoll_kernel_is_free(launch->kernel) && (stages & (stages - 1)) != 0);
}

/* On a GPU, CTAs that wait for such as find no room there would wait for ever. Here they would not, and nobody would notice. */
static bool is_too_large(struct gpucoll_device *device, const struct gpucoll_launch *launch)
{
    const unsigned resident = device->accel->ops->device_resident(device);
    if (launch->ctas <= resident || !waits(launch)) {
        return false;
    }
    char what[128];
    char error[96];
    snprintf(what, sizeof(what), "launch of kernel %d, whose %u CTAs wait for other ranks", launch->kernel,
             launch->ctas);
    snprintf(error, sizeof(error), "the device holds %u at once (coll_gpucoll_host_resident)", resident);
    gpucoll_help(device->accel->log, "device-error", "host", device->ordinal, what, error);
    return true;
}

gpucoll_status gpucoll_host_stream_launch(struct gpucoll_stream *base, const struct gpucoll_launch *launch)
{
    struct host_stream *stream = (struct host_stream *)base;
    const struct gpucoll_kernel_args *args = launch->args;
    if ((unsigned)launch->kernel >= GPUCOLL_KERNEL_COUNT ||
        (unsigned)launch->functor >= GPUCOLL_FUNCTOR_COUNT || launch->ctas < 1 ||
        launch->ctas > GPUCOLL_MAX_CHANNELS || args->nranks < 1 || args->nranks > GPUCOLL_MAX_LOCAL ||
        (launch->runs != NULL) != gpucoll_kernel_is_exchange(launch->kernel)) {
        return GPUCOLL_ERR_INVALID;
    }
    if (is_too_large(base->device, launch)) {
        return GPUCOLL_ERR_DEVICE;
    }
    kernel_begins();
    pthread_mutex_lock(&stream->lock);
    struct entry *entry = next_entry(stream);
    entry->work = WORK_KERNEL;
    entry->kernel = launch->kernel;
    entry->functor = launch->functor;
    entry->channels = launch->ctas;
    if (launch->runs) {
        memcpy(&entry->runs, launch->runs, gpucoll_kernel_runs_bytes(args->nranks));
        memcpy(entry->runs.layouts, launch->runs->layouts,
               gpucoll_run_layouts_bytes(launch->kernel, args->nranks));
    }
    memcpy(&entry->args, args, gpucoll_kernel_args_bytes(args->nranks));
    entry->args.kernel = (uint16_t)launch->kernel;
    entry->args.status = &stream->status;
    entry->args.gate = launch->gate ? &stream->gate : NULL;
    stream->early = launch->kernel == GPUCOLL_KERNEL_ONESHOT_EARLY;
    if (launch->gate || stream->early) {
        stream->latest = *entry;
    }
    stream->done_value = args->done_value;
    give_entry(stream);
    pthread_mutex_unlock(&stream->lock);
    return GPUCOLL_OK;
}

/* No worker waits for calls, but one that is idle stands for such. */
gpucoll_status gpucoll_host_stream_ring_early(struct gpucoll_stream *base,
                                              const struct gpucoll_launch *launch)
{
    struct host_stream *stream = (struct host_stream *)base;
    pthread_mutex_lock(&stream->lock);
    const bool idle = stream->runs == stream->launches;
    pthread_mutex_unlock(&stream->lock);
    return idle ? gpucoll_host_stream_launch(base, launch) : GPUCOLL_DECLINED;
}

void gpucoll_host_stream_confirm(struct gpucoll_stream *base)
{
    struct entry *latest = &((struct host_stream *)base)->latest;
    latest->kernel = GPUCOLL_KERNEL_ONESHOT;
    latest->args.kernel = GPUCOLL_KERNEL_ONESHOT;
}

void gpucoll_host_stream_call_off(struct gpucoll_stream *base)
{
    struct host_stream *stream = (struct host_stream *)base;
    pthread_mutex_lock(&stream->lock);
    while (stream->runs != stream->launches) {
        pthread_cond_wait(&stream->ran, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    stream->early = false;
}

gpucoll_status gpucoll_host_stream_launch_again(struct gpucoll_stream *base, uint32_t done_value)
{
    struct host_stream *stream = (struct host_stream *)base;
    kernel_begins();
    pthread_mutex_lock(&stream->lock);
    struct entry *entry = next_entry(stream);
    *entry = stream->latest;
    entry->args.done_value = done_value;
    stream->done_value = done_value;
    give_entry(stream);
    pthread_mutex_unlock(&stream->lock);
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_host_stream_pack(struct gpucoll_stream *base, const struct gpucoll_pack_args *args)
{
    struct host_stream *stream = (struct host_stream *)base;
    if (args->jobs < 1 || args->jobs > GPUCOLL_MAX_LOCAL) {
        return GPUCOLL_ERR_INVALID;
    }
    gpucoll_host_wait_for_free();
    pthread_mutex_lock(&stream->lock);
    struct entry *entry = next_entry(stream);
    entry->work = WORK_PACK;
    memcpy(&entry->pack, args, sizeof(*args));
    entry->pack.status = &stream->status;
    stream->done_value = args->done_value;
    give_entry(stream);
    pthread_mutex_unlock(&stream->lock);
    return GPUCOLL_OK;
}

struct gpucoll_kernel_status *gpucoll_host_stream_status(struct gpucoll_stream *base)
{
    return &((struct host_stream *)base)->status;
}

gpucoll_status gpucoll_host_stream_poll(struct gpucoll_stream *base)
{
    struct host_stream *stream = (struct host_stream *)base;
    uint32_t done = __atomic_load_n(&stream->status.done, __ATOMIC_ACQUIRE);
    if (done == stream->done_value) {
        return GPUCOLL_OK;
    }
    const uint32_t left = __atomic_load_n(&stream->status.left, __ATOMIC_ACQUIRE);
    if (stream->early && left == stream->done_value - 1) {
        stream->early = false;
        stream->latest.args.stages = GPUCOLL_STAGE_REDUCE; /* it has sent all */
        gpucoll_status status = gpucoll_host_stream_launch_again(base, stream->done_value);
        return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
    }
    return GPUCOLL_IN_PROGRESS;
}

struct host_copier {
    struct gpucoll_copier base;
    struct gpucoll_stream *stream;
};

gpucoll_status gpucoll_host_copier_open(struct gpucoll_device *device, bool to_host,
                                        struct gpucoll_copier **out)
{
    struct host_copier *copier = calloc(1, sizeof(*copier));
    if (!copier) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    copier->base = (struct gpucoll_copier){device, to_host};
    gpucoll_status status = gpucoll_host_stream_open(device, &copier->stream);
    if (status != GPUCOLL_OK) {
        free(copier);
        return status;
    }
    *out = &copier->base;
    return GPUCOLL_OK;
}

void gpucoll_host_copier_close(struct gpucoll_copier *base)
{
    struct host_copier *copier = (struct host_copier *)base;
    gpucoll_host_stream_close(copier->stream);
    free(copier);
}

bool gpucoll_host_copier_batches(struct gpucoll_device *device)
{
    (void)device;
    return true;
}

gpucoll_status gpucoll_host_copier_queue(struct gpucoll_copier *base, const struct gpucoll_copy *copies,
                                         uint32_t count, enum gpucoll_copy_order order)
{
    struct host_stream *stream = (struct host_stream *)((struct host_copier *)base)->stream;
    gpucoll_host_wait_for_free();
    pthread_mutex_lock(&stream->lock);
    for (uint32_t i = 0; i < count; i++) {
        /* Those without an order come in another than that in which they are given. */
        const struct gpucoll_copy *copy = &copies[order == GPUCOLL_COPY_AT_ONCE ? count - 1 - i : i];
        struct entry *entry = next_entry(stream);
        entry->work = WORK_COPY;
        entry->copy_to = copy->to;
        entry->copy_from = copy->from;
        entry->copy_bytes = copy->bytes;
        entry->copies_end = i + 1 == count;
        give_entry(stream);
    }
    pthread_mutex_unlock(&stream->lock);
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_host_copier_passed(struct gpucoll_copier *base, uint64_t *passed)
{
    struct host_stream *stream = (struct host_stream *)((struct host_copier *)base)->stream;
    pthread_mutex_lock(&stream->lock);
    *passed = stream->passed;
    pthread_mutex_unlock(&stream->lock);
    return GPUCOLL_OK;
}
