#include "core/accel/cuda_accel.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/accel/cuda_bell.h"
#include "core/base/clock.h"

/* Pinned host memory that kernels of the stream reach. */
struct shared {
    _Alignas(
        64) struct gpucoll_kernel_status status; /* one line, for the host looks at several of its words */
    _Alignas(128) struct gpucoll_bell bell[GPUCOLL_CREW_CTAS];
};

struct cuda_stream {
    struct gpucoll_stream base;
    CUstream handle;
    struct shared *shared;
    CUdeviceptr device_shared;       /* the same, as kernels see it */
    CUdeviceptr counters;            /* struct counters */
    CUfunction function;             /* of the latest call */
    struct gpucoll_kernel_args args; /* of the latest call */
    struct gpucoll_kernel_runs runs; /* of the latest exchange */
    unsigned threads;
    unsigned ctas;
    unsigned pair; /* CTAs that are to be on neighbouring SMs: 2, or 1 */
    unsigned shared_bytes;
    unsigned
        enders; /* CTAs that tell that they have done their part of the latest call: one for all, unless they linger and have no tiles */
    CUfunction crew; /* the kernel that may be lingering, of `ctas`; NULL: none */
    bool rung;       /* it was given the latest call by its bell */
    bool waits_once; /* as its launch said, */
    bool spent;      /* and it has had that call */
    uint32_t began;  /* the call that came with the crew's launch */
    uint32_t cleared; /* the call before which what crews' CTAs have said to each other was cleared last */
};

_Static_assert(sizeof(struct gpucoll_bell) % 128 == 0, "the bells of two CTAs have no line in common");
static const unsigned warp = 32;
static const uint64_t longest_stop_ns = 1000000000u; /* that is waited for kernels that are told to end */
/* Device memory of a stream, zero at first. */
struct counters {
    uint32_t arrived;
    uint32_t gate[GPUCOLL_GATE_WORDS];
    uint64_t crew[GPUCOLL_CREW_CTAS];
};

static void dismiss(struct cuda_stream *stream);

static CUcontext context_of(const struct gpucoll_device *device)
{
    return atomic_load_explicit(&((const struct gpucoll_cuda_device *)device)->place->context,
                                memory_order_relaxed);
}

/* Everything a stream needs of the driver; what was made stays in `stream` if a later step fails. */
static CUresult fill(const struct gpucoll_cuda_driver *cuda, struct cuda_stream *stream)
{
    int least = 0;
    int greatest = 0;
    CUresult result = cuda->cuCtxGetStreamPriorityRange(&least, &greatest);
    if (result == CUDA_SUCCESS) {
        result = cuda->cuStreamCreateWithPriority(&stream->handle, CU_STREAM_NON_BLOCKING, greatest);
    }
    if (result == CUDA_SUCCESS) {
        result = cuda->cuMemHostGetDevicePointer(&stream->device_shared, stream->shared, 0);
    }
    if (result == CUDA_SUCCESS) {
        result = cuda->cuMemAlloc(&stream->counters, sizeof(struct counters));
    }
    if (result == CUDA_SUCCESS) {
        result = cuda->cuMemsetD8Async(stream->counters, 0, sizeof(struct counters), stream->handle);
    }
    return result == CUDA_SUCCESS ? cuda->cuStreamSynchronize(stream->handle) : result;
}

gpucoll_status gpucoll_cuda_stream_open(struct gpucoll_device *device, struct gpucoll_stream **out)
{
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    struct cuda_stream *stream = calloc(1, sizeof(*stream));
    if (!stream) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    stream->base.device = device;
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(device)); /* the status is pinned in it */
    void *memory = NULL;
    gpucoll_status status = gpucoll_cuda_host_alloc(device->accel, sizeof(*stream->shared), &memory);
    if (status == GPUCOLL_OK) {
        stream->shared = memory;
        memset(stream->shared, 0, sizeof(*stream->shared));
        status = gpucoll_cuda_check(accel, device->ordinal, "making a stream", fill(accel->cuda, stream));
    }
    if (status == GPUCOLL_OK) {
        *out = &stream->base;
    } else {
        gpucoll_cuda_stream_close(&stream->base);
    }
    gpucoll_cuda_leave(accel, entry);
    return status;
}

void gpucoll_cuda_stream_stop(struct gpucoll_stream *base)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->device->accel);
    gpucoll_status_abort(&stream->shared->status, 1);
    dismiss(stream);
    struct gpucoll_entry entry = gpucoll_cuda_relax(accel);
    /* Bounded: a kernel that has not begun may stand behind one of the application that never ends. */
    const uint64_t end = gpucoll_now_ns() + longest_stop_ns;
    while (accel->cuda->cuStreamQuery(stream->handle) == CUDA_ERROR_NOT_READY && gpucoll_now_ns() < end) {
        sched_yield();
    }
    gpucoll_cuda_leave(accel, entry);
}

void gpucoll_cuda_stream_close(struct gpucoll_stream *base)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    struct gpucoll_device *device = base->device;
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    bool alive = gpucoll_cuda_alive(accel, gpucoll_cuda_device(device)->place, device->ordinal);
    struct gpucoll_entry entry = {0};
    if (alive) {
        entry = gpucoll_cuda_enter(accel, context_of(device));
    }
    if (alive && stream->handle) {
        /* A kernel that still waits for a peer, or for another call, writes to the status when it gives up. */
        gpucoll_status_abort(&stream->shared->status, 1);
        dismiss(stream);
        (void)accel->cuda->cuStreamSynchronize(stream->handle);
        (void)accel->cuda->cuStreamDestroy(stream->handle);
    }
    if (alive && stream->counters) {
        (void)accel->cuda->cuMemFree(stream->counters);
    }
    gpucoll_cuda_host_free(device->accel, stream->shared);
    gpucoll_cuda_leave(accel, entry);
    free(stream);
}

/* Whole warps, no more than the kernels are compiled for. */
static unsigned usable_threads(unsigned threads)
{
    unsigned most = threads < GPUCOLL_MAX_THREADS ? threads : GPUCOLL_MAX_THREADS;
    return most < warp ? warp : most / warp * warp;
}

/* Numbers of calls are compared by 32 bits with a sign. So no crew serves more calls than this, and none begins with a bell that has not been
 * rung, or with what an earlier crew's CTAs have said to each other, for so many. */
static const uint32_t most_calls = 1u << 30;

static CUresult prepare_crew(const struct gpucoll_cuda_driver *cuda, struct cuda_stream *stream)
{
    const uint32_t latest = stream->args.done_value;
    stream->began = latest;
    for (unsigned i = 0; i < stream->ctas; i++) {
        struct gpucoll_bell *bell = &stream->shared->bell[i];
        if (latest - bell->chunk[0].sequence > most_calls) {
            gpucoll_cuda_bell_begin(bell, latest);
        }
    }
    if (latest - stream->cleared <= most_calls) {
        return CUDA_SUCCESS;
    }
    stream->cleared = latest;
    return cuda->cuMemsetD8Async(stream->counters + offsetof(struct counters, crew), 0,
                                 sizeof(((struct counters *)NULL)->crew), stream->handle);
}

static CUresult launch_shaped(const struct gpucoll_cuda_driver *cuda, struct cuda_stream *stream,
                              CUfunction function)
{
    void *parameters[] = {&stream->args, &stream->runs}; /* the driver takes as many as the kernel has */
    if (stream->pair > 1) {
        CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                     .value.clusterDim = {stream->pair, 1, 1}};
        const CUlaunchConfig config = {.gridDimX = stream->ctas,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = stream->threads,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .sharedMemBytes = stream->shared_bytes,
                                       .hStream = stream->handle,
                                       .attrs = &cluster,
                                       .numAttrs = 1};
        return cuda->launch_cluster(&config, function, parameters, NULL);
    }
    return cuda->cuLaunchKernel(function, stream->ctas, 1, 1, stream->threads, 1, 1, stream->shared_bytes,
                                stream->handle, parameters, NULL);
}

/* The latest call, by a launch of its own. */
static gpucoll_status start(struct cuda_stream *stream, CUfunction function)
{
    struct gpucoll_device *device = stream->base.device;
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(device->accel);
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(device));
    CUresult result = gpucoll_cuda_same_context(accel, gpucoll_cuda_device(device)->place);
    if (result == CUDA_SUCCESS && stream->args.bell) {
        result = prepare_crew(accel->cuda, stream);
    }
    if (result == CUDA_SUCCESS) {
        result = launch_shaped(accel->cuda, stream, function);
    }
    gpucoll_cuda_leave(accel, entry);
    stream->crew = stream->args.bell ? function : NULL;
    stream->rung = false;
    return result == CUDA_SUCCESS ? GPUCOLL_OK
                                  : gpucoll_cuda_check(accel, device->ordinal, "launching a kernel", result);
}

/* The latest call, to the CTAs of the kernel that lingers which share it; to the first one last (`parting` of kernels/linger.cuh). */
static void ring(struct cuda_stream *stream, const struct gpucoll_launch *launch)
{
    for (unsigned i = stream->args.crew_ctas; i-- > 0;) {
        gpucoll_cuda_bell_ring(&stream->shared->bell[i], &stream->args, &stream->runs);
    }
    stream->rung = true;
    stream->spent = stream->waits_once && !launch->waits_once;
}

/* Tells a kernel that may be lingering to end, since another is wanted on its stream. */
static void dismiss(struct cuda_stream *stream)
{
    if (!stream->crew) {
        return;
    }
    const uint32_t next = stream->args.done_value + 1;
    for (unsigned i = 0; i < stream->ctas; i++) {
        gpucoll_cuda_bell_dismiss(&stream->shared->bell[i], stream->args.nranks, next);
    }
    stream->crew = NULL;
}

/* Did the kernel leave after the call before that one? */
static bool has_left(const struct cuda_stream *stream, uint32_t done_value)
{
    return __atomic_load_n(&stream->shared->status.left, __ATOMIC_ACQUIRE) == done_value - 1;
}

static unsigned threads_of(const struct gpucoll_launch *launch)
{
    return launch->kernel == GPUCOLL_KERNEL_REDUCE_BULK ? GPUCOLL_BULK_THREADS
                                                        : usable_threads(launch->threads);
}

/* Pairs of bulk CTAs take both SMs of a pair: apart, they would keep each a cluster of the application from its place
 * (docs/design-direct.md). */
static void set_ctas(struct cuda_stream *stream, unsigned ctas)
{
    stream->ctas = ctas;
    stream->pair = stream->shared_bytes > 0 && ctas % 2 == 0 ? 2 : 1;
}

static void shape_launch(struct cuda_stream *stream, const struct gpucoll_launch *launch, unsigned ctas)
{
    const bool bulk = gpucoll_kernel_has_tiles(launch->kernel) && !launch->by_threads;
    stream->threads = threads_of(launch);
    stream->shared_bytes =
        bulk && gpucoll_cuda_device(stream->base.device)->bulk ? GPUCOLL_BULK_SHARED_BYTES : 0;
    set_ctas(stream, ctas);
}

/* Is this call for the crew that the latest one went to: the same kernel, for a team of as many ranks, and as many CTAs at least? */
static bool suits_crew(const struct cuda_stream *stream, const struct gpucoll_launch *launch,
                       CUfunction function, unsigned asked)
{
    const struct gpucoll_kernel_args *args = &stream->args;
    const struct gpucoll_kernel_args *given = launch->args;
    return launch->linger_ns > 0 && stream->crew == function && !stream->spent &&
           stream->threads == threads_of(launch) && stream->ctas >= asked && args->nranks == given->nranks &&
           args->rank == given->rank && given->done_value == args->done_value + 1 &&
           given->done_value - stream->began < most_calls;
}

/* What the stream knows of a call beside what it was given. */
static void fill_args(struct cuda_stream *stream, const struct gpucoll_launch *launch, unsigned asked)
{
    const struct gpucoll_cuda_device *device = gpucoll_cuda_device(stream->base.device);
    struct gpucoll_kernel_args *args = &stream->args;
    const uintptr_t shared = (uintptr_t)stream->device_shared;
    const uintptr_t counters = (uintptr_t)stream->counters;
    const bool lingers = launch->linger_ns > 0;
    args->kernel = (uint16_t)launch->kernel;
    args->crew_ctas = (uint8_t)asked;
    args->variant = (uint8_t)gpucoll_variant_of(launch->functor);
    args->ll_plane = (uint32_t)gpucoll_ll_capacity(args->nranks);
    args->linger_clocks = (int64_t)launch->linger_ns * device->clock_khz / 1000000;
    args->status = (struct gpucoll_kernel_status *)shared;
    args->bell = lingers ? (const struct gpucoll_bell *)(shared + offsetof(struct shared, bell)) : NULL;
    args->arrived = (uint32_t *)(counters + offsetof(struct counters, arrived));
    args->gate = launch->gate ? (uint32_t *)(counters + offsetof(struct counters, gate)) : NULL;
    args->crew = (uint64_t *)(counters + offsetof(struct counters, crew));
    stream->enders = lingers && !gpucoll_kernel_has_tiles(launch->kernel) ? asked : 1;
}

static void take_call(struct cuda_stream *stream, const struct gpucoll_launch *launch, CUfunction function,
                      unsigned asked)
{
    const struct gpucoll_kernel_args *given = launch->args;
    memcpy(&stream->args, given, gpucoll_kernel_args_bytes(given->nranks));
    if (launch->runs) {
        memcpy(&stream->runs, launch->runs, gpucoll_kernel_runs_bytes(given->nranks));
        memcpy(stream->runs.layouts, launch->runs->layouts,
               gpucoll_run_layouts_bytes(launch->kernel, given->nranks));
    }
    fill_args(stream, launch, asked);
    stream->function = function;
}

gpucoll_status gpucoll_cuda_launch(struct gpucoll_stream *base, const struct gpucoll_launch *launch)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    const struct gpucoll_cuda_device *device = gpucoll_cuda_device(base->device);
    const struct gpucoll_kernel_args *given = launch->args;
    if ((unsigned)launch->kernel >= GPUCOLL_KERNEL_COUNT ||
        (unsigned)launch->functor >= GPUCOLL_FUNCTOR_COUNT || launch->ctas < 1 ||
        launch->ctas > GPUCOLL_MAX_CHANNELS || given->nranks < 1 || given->nranks > GPUCOLL_MAX_LOCAL ||
        (launch->runs != NULL) != gpucoll_kernel_is_exchange(launch->kernel)) {
        return GPUCOLL_ERR_INVALID;
    }
    CUfunction function = device->functions[launch->kernel][gpucoll_suite_of(launch->functor)];
    const unsigned ctas =
        launch->linger_ns > 0 && launch->ctas > GPUCOLL_CREW_CTAS ? GPUCOLL_CREW_CTAS : launch->ctas;
    const bool alone =
        gpucoll_leader_suffices(launch->kernel, given->bytes, given->nranks, usable_threads(launch->threads));
    const unsigned asked = alone ? 1 : ctas;
    const bool suits = suits_crew(stream, launch, function, asked);
    if (!suits) {
        dismiss(stream);
    }
    take_call(stream, launch, function, asked);
    if (suits && !has_left(stream, given->done_value)) {
        ring(stream, launch);
        return GPUCOLL_OK;
    }
    stream->waits_once = launch->waits_once;
    stream->spent = false;
    shape_launch(stream, launch, ctas);
    return start(stream, function);
}

gpucoll_status gpucoll_cuda_ring_early(struct gpucoll_stream *base, const struct gpucoll_launch *launch)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    const struct gpucoll_cuda_device *device = gpucoll_cuda_device(base->device);
    CUfunction function = device->functions[launch->kernel][gpucoll_suite_of(launch->functor)];
    if (!suits_crew(stream, launch, function, 1) || has_left(stream, launch->args->done_value)) {
        return GPUCOLL_DECLINED;
    }
    take_call(stream, launch, function, 1);
    ring(stream, launch);
    return GPUCOLL_OK;
}

void gpucoll_cuda_confirm(struct gpucoll_stream *base)
{
    ((struct cuda_stream *)base)->args.kernel = GPUCOLL_KERNEL_ONESHOT; /* if it is launched anew */
}

void gpucoll_cuda_call_off(struct gpucoll_stream *base)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    const uint64_t end = gpucoll_now_ns() + longest_stop_ns;
    while (!has_left(stream, stream->args.done_value) && gpucoll_now_ns() < end) {
        sched_yield();
    }
    stream->crew = NULL;
    stream->rung = false;
}

gpucoll_status gpucoll_cuda_launch_again(struct gpucoll_stream *base, uint32_t done_value)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    stream->args.done_value = done_value;
    return start(stream, stream->function);
}

gpucoll_status gpucoll_cuda_pack(struct gpucoll_stream *base, const struct gpucoll_pack_args *given)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    const struct gpucoll_cuda_device *device = gpucoll_cuda_device(base->device);
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->device->accel);
    const struct gpucoll_config *config = accel->base.config;
    if (given->jobs < 1 || given->jobs > GPUCOLL_MAX_LOCAL) {
        return GPUCOLL_ERR_INVALID;
    }
    dismiss(stream);
    struct gpucoll_pack_args args = *given;
    args.status = (struct gpucoll_kernel_status *)(uintptr_t)stream->device_shared;
    args.arrived = (uint32_t *)(uintptr_t)stream->counters;
    const unsigned threads = usable_threads((unsigned)config->threads);
    const uint64_t units = args.job[args.jobs - 1].end / args.width;
    const uint64_t wanted = (units + threads - 1) / threads;
    const unsigned most = config->max_ctas < GPUCOLL_FEW_CTAS ? (unsigned)config->max_ctas : GPUCOLL_FEW_CTAS;
    const unsigned ctas = wanted < most ? (unsigned)wanted : most;
    void *parameters[] = {&args};
    struct gpucoll_entry entry = gpucoll_cuda_enter(accel, context_of(base->device));
    CUresult result = gpucoll_cuda_same_context(accel, device->place);
    if (result == CUDA_SUCCESS) {
        result = accel->cuda->cuLaunchKernel(device->pack, ctas, 1, 1, threads, 1, 1, 0, stream->handle,
                                             parameters, NULL);
    }
    gpucoll_cuda_leave(accel, entry);
    stream->args.done_value = args.done_value;
    stream->enders = 1;
    stream->rung = false;
    return gpucoll_cuda_check(accel, base->device->ordinal, "launching a kernel that packs", result);
}

static bool is_done(const struct cuda_stream *stream)
{
    const struct gpucoll_kernel_status *status = &stream->shared->status;
    const uint32_t done = stream->args.done_value;
    bool all = __atomic_load_n(&status->done, __ATOMIC_ACQUIRE) == done;
    for (unsigned i = 1; i < stream->enders && all; i++) {
        all = __atomic_load_n(&status->done_beside[i - 1], __ATOMIC_ACQUIRE) == done;
    }
    return all;
}

gpucoll_status gpucoll_cuda_stream_poll(struct gpucoll_stream *base)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;
    if (is_done(stream)) {
        return GPUCOLL_OK;
    }
    if (stream->rung && stream->crew && has_left(stream, stream->args.done_value)) { /* none after a stop */
        set_ctas(stream, stream->args.crew_ctas);
        stream->waits_once =
            stream->waits_once && !stream->spent; /* it waits as the call says that it has now */
        if (__atomic_load_n(&stream->shared->status.sent, __ATOMIC_RELAXED) == stream->args.done_value) {
            stream->args.stages = GPUCOLL_STAGE_REDUCE;
        }
        stream->spent = false;
        gpucoll_status status = start(stream, stream->crew);
        return status == GPUCOLL_OK ? GPUCOLL_IN_PROGRESS : status;
    }
    return GPUCOLL_IN_PROGRESS;
}

struct gpucoll_kernel_status *gpucoll_cuda_stream_status(struct gpucoll_stream *base)
{
    return &((struct cuda_stream *)base)->shared->status;
}

gpucoll_status gpucoll_cuda_stream_health(struct gpucoll_stream *base)
{
    const struct cuda_stream *stream = (const struct cuda_stream *)base;
    const struct gpucoll_cuda_accel *accel = gpucoll_cuda_accel(base->device->accel);
    struct gpucoll_entry entry = gpucoll_cuda_relax(accel);
    CUresult result = accel->cuda->cuStreamQuery(stream->handle);
    gpucoll_cuda_leave(accel, entry);
    return gpucoll_cuda_check(accel, base->device->ordinal, "running a kernel",
                              result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result);
}
