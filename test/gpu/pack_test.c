/*
 * The kernel that packs and unpacks, against the host's stand-in for it: random layouts, several jobs a launch, any alignment,
 * guards in every gap, messages beyond 4 GiB; and its speed, as lines that begin with #.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/accel/host_kernels.h"
#include "core/base/clock.h"
#include "core/layout.h"
#include "test/gpu/elements.h"
#include "test/gpu/tests.h"

enum { MOST_JOBS = 5, SLACK = 64 };
static const size_t room = (size_t)3 << 20; /* of each buffer: a layout that needs more is drawn again */

struct bench {
    struct gpus *gpus;
    const struct gpucoll_accel_ops *ops;
    uint64_t random;
    struct gpucoll_device *device;
    struct gpucoll_stream *stream;
    char *user; /* device memory */
    char *packed;
    struct gpucoll_layout_run *list;
    char *before; /* host memory */
    char *wanted;
    char *got;
    uint32_t done;
};

static uint32_t below(struct bench *bench, uint32_t limit)
{
    return (uint32_t)(next_random(&bench->random) % limit);
}

static void add_random(struct bench *bench, struct gpucoll_layout_builder *builder, int depth, uint32_t unit)
{
    ptrdiff_t at = (ptrdiff_t)below(bench, 256) * unit;
    for (uint32_t items = 1 + below(bench, 4); items > 0; items--) {
        if (depth > 0 && below(bench, 3) > 0) {
            gpucoll_layout_add_loop(builder, 1 + below(bench, 6), (ptrdiff_t)below(bench, 2048) * unit);
            add_random(bench, builder, depth - 1, unit);
            gpucoll_layout_end_loop(builder);
        } else {
            uint32_t bytes = (1 + below(bench, 40)) * unit;
            gpucoll_layout_add_run(builder, at, bytes);
            at += bytes;
        }
        at += (ptrdiff_t)below(bench, 64) * unit;
    }
}

/* Waits for the latest launch; half a minute is for ever. */
static void wait_for(struct bench *bench)
{
    const uint64_t end = gpucoll_now_ns() + 30000000000u;
    while (bench->ops->stream_poll(bench->stream) == GPUCOLL_IN_PROGRESS) {
        if (gpucoll_now_ns() > end) {
            printf("FAIL packing: a kernel did not end\n");
            exit(1);
        }
    }
}

static void launch(struct bench *bench, struct gpucoll_pack_args *args)
{
    args->done_value = ++bench->done;
    if (bench->ops->pack(bench->stream, args) != GPUCOLL_OK) {
        printf("FAIL packing: a launch failed\n");
        exit(1);
    }
    wait_for(bench);
}

/* The jobs of a launch, as offsets in the two buffers. */
struct plan {
    const struct gpucoll_layout *layout;
    uint32_t jobs;
    uint32_t width;
    bool unpack;
    size_t user[MOST_JOBS];
    size_t packed[MOST_JOBS];
    uint64_t end[MOST_JOBS];
};

static struct gpucoll_pack_args make_args(const struct plan *plan, char *user, char *packed)
{
    struct gpucoll_pack_args args = {
        .unpack = plan->unpack, .width = plan->width, .jobs = plan->jobs, .view = plan->layout->view};
    for (uint32_t i = 0; i < plan->jobs; i++) {
        args.job[i] = (struct gpucoll_pack_job){user + plan->user[i], packed + plan->packed[i], plan->end[i]};
    }
    return args;
}

/* One past the last byte of `count` elements; everything in these layouts goes upwards from 0. */
static size_t span(const struct gpucoll_layout *layout, uint64_t count)
{
    size_t high = 0;
    for (uint64_t position = 0; position < layout->bytes;) {
        uint64_t together = 0;
        size_t end = (size_t)gpucoll_layout_find(&layout->view, position, &together) + together;
        high = end > high ? end : high;
        position += together;
    }
    return high + (count - 1) * (size_t)layout->extent;
}

/* False if the layout does not fit into the buffers. */
static bool draw_plan(struct bench *bench, struct plan *plan)
{
    size_t user = 0;
    size_t packed = 0;
    uint64_t end = 0;
    const size_t shift = below(bench, 3) == 0 ? below(bench, SLACK) : 0;
    plan->jobs = 1 + below(bench, MOST_JOBS);
    plan->width = plan->layout->align;
    while (shift % plan->width != 0) {
        plan->width /= 2;
    }
    for (uint32_t i = 0; i < plan->jobs; i++) {
        const uint64_t count = 1 + below(bench, i == 0 ? 200 : 20);
        end += count * plan->layout->bytes;
        plan->user[i] = user + shift;
        plan->packed[i] = packed;
        plan->end[i] = end;
        user += (span(plan->layout, count) + 255) / 256 * 256;
        packed += (count * plan->layout->bytes + 255) / 256 * 256;
    }
    return user + SLACK <= room && packed <= room;
}

static struct gpucoll_layout *draw_layout(struct bench *bench)
{
    struct gpucoll_layout_builder *builder = gpucoll_layout_begin();
    const uint32_t unit = 1u << below(bench, 5);
    add_random(bench, builder, 3, unit);
    return gpucoll_layout_build(builder, (ptrdiff_t)(1 + below(bench, 4096)) * unit);
}

/* Runs the plan on the GPU and on the host with equal buffers, which must be equal after it. Where elements overlap, what is
 * unpacked last is not defined: those are only packed. */
static bool run_plan(struct bench *bench, struct plan *plan)
{
    char *from = plan->unpack ? bench->packed : bench->user;
    char *to = plan->unpack ? bench->user : bench->packed;
    fill_elements(0, bench->before, room, &bench->random);
    memset(bench->wanted, 0x5a, room);
    gpus_copy(bench->gpus, "packing", from, bench->before, room);
    gpus_copy(bench->gpus, "packing", to, bench->wanted, room);
    struct gpucoll_kernel_status status = {0};
    struct gpucoll_pack_args args = plan->unpack ? make_args(plan, bench->wanted, bench->before)
                                                 : make_args(plan, bench->before, bench->wanted);
    args.status = &status;
    gpucoll_host_pack(&args);
    args = make_args(plan, bench->user, bench->packed);
    if (plan->layout->list) {
        gpus_copy(bench->gpus, "packing", bench->list, plan->layout->list,
                  plan->layout->view.runs * sizeof(*bench->list));
        args.view.list = bench->list;
    }
    launch(bench, &args);
    gpus_copy(bench->gpus, "packing", bench->got, to, room);
    return memcmp(bench->got, bench->wanted, room) == 0;
}

/* Does no byte of memory belong to two packed positions? */
static bool is_apart(struct bench *bench, const struct plan *plan)
{
    bool apart = true;
    memset(bench->got, 0, room);
    for (uint32_t i = 0; i < plan->jobs && apart; i++) {
        const uint64_t bytes = plan->end[i] - (i == 0 ? 0 : plan->end[i - 1]);
        for (uint64_t position = 0; position < bytes && apart; position++) {
            uint64_t together = 0;
            ptrdiff_t at = gpucoll_layout_find(&plan->layout->view, position, &together);
            apart = bench->got[plan->user[i] + (size_t)at]++ == 0;
        }
    }
    return apart;
}

static void test_random(struct bench *bench, int wanted)
{
    bool passed = true;
    int packed = 0;
    int unpacked = 0;
    while (packed < wanted && passed) {
        const uint64_t seed = bench->random;
        struct gpucoll_layout *layout = draw_layout(bench);
        struct plan plan = {.layout = layout};
        if (layout != NULL && draw_plan(bench, &plan)) {
            passed = run_plan(bench, &plan);
            packed++;
            if (passed && is_apart(bench, &plan)) {
                plan.unpack = true;
                passed = run_plan(bench, &plan);
                unpacked++;
            }
            if (!passed) {
                printf("# layout drawn at state %llu: %u runs, %u dimensions, width %u, %s\n",
                       (unsigned long long)seed, layout->view.runs, layout->view.dims, plan.width,
                       plan.unpack ? "unpacked" : "packed");
            }
        }
        gpucoll_layout_release(layout);
    }
    gpus_report(bench->gpus, passed, "%d random layouts are packed", packed);
    gpus_report(bench->gpus, passed && unpacked > wanted / 10, "%d random layouts are unpacked", unpacked);
}

static struct gpucoll_layout *make_vector(uint64_t count, uint64_t bytes, ptrdiff_t stride)
{
    struct gpucoll_layout_builder *builder = gpucoll_layout_begin();
    gpucoll_layout_add_loop(builder, count, stride);
    gpucoll_layout_add_run(builder, 0, bytes);
    gpucoll_layout_end_loop(builder);
    return gpucoll_layout_build(builder, (ptrdiff_t)count * stride);
}

/* The last rows of a vector of more than 4 GiB, packed, and put back where they came from. */
static void test_huge(struct bench *bench)
{
    enum { ROW = 1000, STRIDE = 1200, ROWS = 4400000 };
    CUdeviceptr user = 0;
    CUdeviceptr packed = 0;
    const struct gpucoll_cuda_driver *cuda = bench->gpus->cuda;
    if (cuda->cuMemAlloc(&user, (size_t)STRIDE * ROWS) != CUDA_SUCCESS ||
        cuda->cuMemAlloc(&packed, (size_t)ROW * ROWS) != CUDA_SUCCESS) {
        printf("SKIP a vector of more than 4 GiB (no memory for it)\n");
        (void)cuda->cuMemFree(user);
        return;
    }
    struct gpucoll_layout *layout = make_vector(ROWS, ROW, STRIDE);
    const size_t rows = 1000;
    char *last = (char *)(uintptr_t)user + (size_t)STRIDE * (ROWS - rows);
    char *last_packed = (char *)(uintptr_t)packed + (size_t)ROW * (ROWS - rows);
    struct gpucoll_pack_args args = {.width = layout->align, .jobs = 1, .view = layout->view};
    args.job[0] =
        (struct gpucoll_pack_job){(void *)(uintptr_t)user, (void *)(uintptr_t)packed, layout->bytes};
    fill_elements(0, bench->before, rows * STRIDE, &bench->random);
    gpus_copy(bench->gpus, "packing", last, bench->before, rows * STRIDE);
    launch(bench, &args);
    gpus_copy(bench->gpus, "packing", bench->got, last_packed, rows * ROW);
    bool right = true;
    for (size_t i = 0; i < rows; i++) {
        right = right && memcmp(bench->got + i * ROW, bench->before + i * STRIDE, ROW) == 0;
        memset(bench->before + i * STRIDE + ROW, 0x77, STRIDE - ROW);
        memset(bench->wanted + i * STRIDE, 0x77, STRIDE);
    }
    gpus_report(bench->gpus, right, "a vector of more than 4 GiB is packed");
    gpus_copy(bench->gpus, "packing", last, bench->wanted, rows * STRIDE);
    args.unpack = 1;
    launch(bench, &args);
    gpus_copy(bench->gpus, "packing", bench->got, last, rows * STRIDE);
    gpus_report(bench->gpus, memcmp(bench->got, bench->before, rows * STRIDE) == 0,
                "a vector of more than 4 GiB is unpacked");
    gpucoll_layout_release(layout);
    (void)cuda->cuMemFree(user);
    (void)cuda->cuMemFree(packed);
}

/* From the launch until the host sees the end, the shortest of ten. */
static void measure(struct bench *bench, uint64_t bytes, ptrdiff_t stride, uint64_t total)
{
    struct gpucoll_layout *layout = make_vector(total / bytes, bytes, stride);
    char *user = gpus_alloc(bench->gpus, 0, total / bytes * (size_t)stride);
    char *packed = gpus_alloc(bench->gpus, 0, total);
    for (uint32_t unpack = 0; unpack < 2; unpack++) {
        struct gpucoll_pack_args args = {
            .width = layout->align, .jobs = 1, .view = layout->view, .unpack = unpack};
        args.job[0] = (struct gpucoll_pack_job){user, packed, layout->bytes};
        uint64_t best = UINT64_MAX;
        for (int i = 0; i < 10; i++) {
            const uint64_t begin = gpucoll_now_ns();
            launch(bench, &args);
            const uint64_t took = gpucoll_now_ns() - begin;
            best = took < best ? took : best;
        }
        printf("# %s %llu bytes in runs of %llu every %ld: %.1f us, %.0f GB/s\n",
               unpack ? "unpacks" : "packs", (unsigned long long)total, (unsigned long long)bytes,
               (long)stride, (double)best / 1e3, (double)total / (double)best);
    }
    gpus_free(bench->gpus, 0, user);
    gpus_free(bench->gpus, 0, packed);
    gpucoll_layout_release(layout);
}

static bool open_bench(struct bench *bench)
{
    bench->user = gpus_alloc(bench->gpus, 0, room);
    bench->packed = gpus_alloc(bench->gpus, 0, room);
    bench->list = gpus_alloc(bench->gpus, 0, GPUCOLL_LAYOUT_MOST_RUNS * sizeof(*bench->list));
    bench->before = malloc(room);
    bench->wanted = malloc(room);
    bench->got = malloc(room);
    return bench->before && bench->wanted && bench->got &&
           bench->ops->device_open(bench->gpus->accel, bench->user, &bench->device) == GPUCOLL_OK &&
           bench->ops->stream_open(bench->device, &bench->stream) == GPUCOLL_OK;
}

void test_packing(struct gpus *gpus, bool quick, uint64_t seed)
{
    struct bench bench = {.gpus = gpus, .ops = gpus->accel->ops, .random = seed};
    if (!open_bench(&bench)) {
        gpus_report(gpus, false, "a device and a stream to pack on");
        return;
    }
    test_random(&bench, quick ? 40 : 1000);
    if (!quick) {
        test_huge(&bench);
        measure(&bench, 4, 16, (uint64_t)64 << 20);
        measure(&bench, 16, 64, (uint64_t)64 << 20);
        measure(&bench, 1024, 2048, (uint64_t)64 << 20);
        measure(&bench, 1024, 2048, 65536);
    }
    gpus_free(gpus, 0, bench.user);
    gpus_free(gpus, 0, bench.packed);
    gpus_free(gpus, 0, bench.list);
    bench.ops->stream_close(bench.stream);
    bench.ops->device_close(bench.device);
    free(bench.before);
    free(bench.wanted);
    free(bench.got);
}
