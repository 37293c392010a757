/*
 * The exchange kernel that finds the bytes of runs by their layouts: random layouts at random ends of random runs, some of them empty, in place or not;
 * every byte of every buffer is compared with what the host makes of it. Layouts of a call stand where those of the call before stood, while the kernel
 * may linger.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/layout.h"
#include "kernels/functors.h"
#include "test/gpu/elements.h"
#include "test/gpu/ranks.h"
#include "test/gpu/tests.h"

enum { MOST_BYTES = 8 << 10, GAP = 64, POISON = 0xA5, UNIT = GPUCOLL_LAID_BYTES };
static const size_t room = (size_t)2 << 20; /* of each buffer */
static const size_t view_room = (size_t)1 << 20;
static const size_t data_bytes = (size_t)1 << 20;

/* One end of a run. */
struct end {
    struct gpucoll_layout *layout; /* NULL: contiguous */
    size_t at;                     /* of element 0 in the buffer */
};

struct bench {
    struct ranks ranks;
    uint64_t random;
    bool in_place; /* each rank sends from where it receives */
    uint32_t size;
    size_t length[MOST_RANKS][MOST_RANKS];
    struct end send[MOST_RANKS][MOST_RANKS];
    struct end recv[MOST_RANKS][MOST_RANKS];
    struct gpucoll_kernel_runs runs[MOST_RANKS];
    char *views[MOST_RANKS]; /* device memory */
    size_t views_used[MOST_RANKS];
    char *sent[MOST_RANKS]; /* images of what is sent from, and of what is received into */
    char *expected[MOST_RANKS];
    char *got;
};

static uint32_t below(struct bench *bench, uint32_t limit)
{
    return (uint32_t)(next_random(&bench->random) % limit);
}

/* ---- layouts ---- */

/* Runs of any length, any way apart. */
static void add_list(struct bench *bench, struct gpucoll_layout_builder *builder, size_t bytes)
{
    const bool even = below(bench, 2) == 0; /* but for the last */
    const size_t each = UNIT * (1 + below(bench, 12));
    ptrdiff_t at = UNIT * (ptrdiff_t)below(bench, 8);
    for (size_t done = 0; done < bytes;) {
        size_t run = even ? each : UNIT * (1 + (size_t)below(bench, 12));
        run = run < bytes - done ? run : bytes - done;
        gpucoll_layout_add_run(builder, at, run);
        at += (ptrdiff_t)run + UNIT * (ptrdiff_t)(1 + below(bench, 6));
        done += run;
    }
}

/* One to three dimensions, which packed take as many bytes. */
static void add_loops(struct bench *bench, struct gpucoll_layout_builder *builder, size_t bytes)
{
    uint64_t count[3] = {1, 1, 1};
    size_t run = bytes / UNIT;
    for (int i = 0; i < 3; i++) {
        for (uint64_t factor = 2; factor <= 7; factor++) {
            if (run % factor == 0 && below(bench, 2) == 0) {
                run /= factor;
                count[i] *= factor;
            }
        }
    }
    ptrdiff_t stride = (ptrdiff_t)(run * UNIT) + UNIT * (ptrdiff_t)below(bench, 5);
    ptrdiff_t strides[3];
    for (int i = 2; i >= 0; i--) {
        strides[i] = stride;
        stride = stride * (ptrdiff_t)count[i] + UNIT * (ptrdiff_t)below(bench, 5);
    }
    for (int i = 0; i < 3; i++) {
        gpucoll_layout_add_loop(builder, count[i], strides[i]);
    }
    gpucoll_layout_add_run(builder, UNIT * (ptrdiff_t)below(bench, 4), run * UNIT);
    for (int i = 0; i < 3; i++) {
        gpucoll_layout_end_loop(builder);
    }
}

static struct gpucoll_layout *draw_layout(struct bench *bench, size_t bytes)
{
    const uint32_t kind = below(bench, 4);
    if (bytes == 0 || kind == 0) {
        return NULL;
    }
    struct gpucoll_layout_builder *builder = gpucoll_layout_begin();
    if (kind == 1) {
        add_list(bench, builder, bytes);
    } else {
        add_loops(bench, builder, bytes);
    }
    return gpucoll_layout_build(builder, 0);
}

static size_t place_of(const struct end *end, uint64_t position)
{
    uint64_t together;
    return end->at + (end->layout == NULL
                          ? position
                          : (size_t)gpucoll_layout_find(&end->layout->view, position, &together));
}

/* ---- a call ---- */

/* Puts an end behind `*at`. */
static struct end draw_end(struct bench *bench, size_t bytes, size_t *at)
{
    struct end end = {.layout = draw_layout(bench, bytes), .at = *at + UNIT * (size_t)below(bench, 8)};
    size_t behind = end.at;
    for (uint64_t position = 0; position < bytes; position += UNIT) {
        const size_t place = place_of(&end, position) + UNIT;
        behind = place > behind ? place : behind;
    }
    *at = behind + GAP;
    if (*at > room) {
        printf("FAIL laid runs: a buffer of the test is too short\n");
        exit(1);
    }
    return end;
}

static void draw_call(struct bench *bench)
{
    for (uint32_t a = 0; a < bench->size; a++) {
        for (uint32_t b = 0; b < bench->size; b++) {
            const size_t most = below(bench, 3) == 0 ? MOST_BYTES : 600;
            const bool empty = below(bench, 6) == 0;
            const size_t some = empty ? 0 : UNIT * (1 + (size_t)below(bench, (uint32_t)most / UNIT));
            bench->length[a][b] = bench->in_place && b < a ? bench->length[b][a] : some;
        }
    }
    for (uint32_t r = 0; r < bench->size; r++) {
        size_t send_at = GAP;
        size_t recv_at = GAP;
        for (uint32_t p = 0; p < bench->size; p++) {
            bench->recv[r][p] = draw_end(bench, bench->length[p][r], &recv_at);
            if (bench->in_place) {
                bench->send[r][p] = bench->recv[r][p];
            } else {
                bench->send[r][p] = draw_end(bench, bench->length[r][p], &send_at);
            }
        }
    }
}

/* The view and the list of an end's layout, on the rank's GPU. */
static const struct gpucoll_layout_view *put_view(struct bench *bench, uint32_t r, const struct end *end)
{
    char buffer[sizeof(struct gpucoll_layout_view) + (MOST_BYTES / UNIT) * sizeof(struct gpucoll_layout_run)];
    if (end->layout == NULL) {
        return NULL;
    }
    struct gpucoll_layout_view view = end->layout->view;
    const size_t listed = end->layout->list != NULL ? view.runs * sizeof(struct gpucoll_layout_run) : 0;
    const size_t bytes = sizeof(view) + listed;
    char *to = bench->views[r] + bench->views_used[r];
    bench->views_used[r] += (bytes + 15) / 16 * 16;
    view.list = (const struct gpucoll_layout_run *)(const void *)(to + sizeof(view));
    memcpy(buffer, &view, sizeof(view));
    if (listed > 0) {
        memcpy(buffer + sizeof(view), end->layout->list, listed);
    }
    gpus_copy(bench->ranks.gpus, "laid runs", to, buffer, bytes);
    return (const struct gpucoll_layout_view *)(const void *)to;
}

static void fill_runs(struct bench *bench)
{
    for (uint32_t r = 0; r < bench->size; r++) {
        const struct rank *rank = &bench->ranks.rank[r];
        bench->views_used[r] =
            0; /* where those of the call before were: a kernel that lingers is not to take them for these */
        for (uint32_t p = 0; p < bench->size; p++) {
            bench->runs[r].run[p] = (struct gpucoll_kernel_run){
                .send = (bench->in_place ? rank->recv : rank->send) + bench->send[r][p].at,
                .recv = rank->recv + bench->recv[r][p].at,
                .send_bytes = bench->length[r][p],
                .recv_bytes = bench->length[p][r],
            };
            const struct gpucoll_layout_view *recv = put_view(bench, r, &bench->recv[r][p]);
            bench->runs[r].layouts[p] = (struct gpucoll_run_layouts){
                .send = bench->in_place ? recv : put_view(bench, r, &bench->send[r][p]), .recv = recv};
        }
    }
}

static void fill_buffers(struct bench *bench)
{
    const struct gpus *gpus = bench->ranks.gpus;
    for (uint32_t r = 0; r < bench->size; r++) {
        fill_elements(GPUCOLL_FN_sum_u8, bench->sent[r], room, &bench->random);
        if (bench->in_place) {
            memcpy(bench->expected[r], bench->sent[r], room);
        } else {
            memset(bench->expected[r], POISON, room);
            gpus_copy(gpus, "laid runs", bench->ranks.rank[r].send, bench->sent[r], room);
        }
        gpus_copy(gpus, "laid runs", bench->ranks.rank[r].recv, bench->expected[r], room);
    }
    for (uint32_t a = 0; a < bench->size; a++) {
        for (uint32_t b = 0; b < bench->size; b++) {
            for (uint64_t position = 0; position < bench->length[a][b]; position += UNIT) {
                memcpy(bench->expected[b] + place_of(&bench->recv[b][a], position),
                       bench->sent[a] + place_of(&bench->send[a][b], position), UNIT);
            }
        }
    }
}

static void drop_layouts(struct bench *bench)
{
    for (uint32_t r = 0; r < bench->size; r++) {
        for (uint32_t p = 0; p < bench->size; p++) {
            gpucoll_layout_release(bench->recv[r][p].layout);
            if (!bench->in_place) {
                gpucoll_layout_release(bench->send[r][p].layout);
            }
        }
    }
}

static bool verify(struct bench *bench, const struct call *call)
{
    for (uint32_t r = 0; r < bench->size; r++) {
        gpus_copy(bench->ranks.gpus, "laid runs", bench->got, bench->ranks.rank[r].recv, room);
        for (size_t i = 0; i < room; i++) {
            if (bench->got[i] != bench->expected[r][i]) {
                printf("# laid runs: rank %u differs at %zu; longest %lu ctas %u threads %u linger %u in "
                       "place %d\n",
                       r, i, (unsigned long)call->bytes, call->ctas, call->threads, call->linger_ns,
                       bench->in_place);
                return false;
            }
        }
    }
    return true;
}

static bool run_case(struct bench *bench)
{
    static const uint32_t ctas[] = {1, 2, 3, 7, 16};
    static const uint32_t threads[] = {32, 64, 256, 512};
    static const uint32_t lingers[] = {0, 50000, 20000000, 20000000};
    struct call call = {.kernel = GPUCOLL_KERNEL_MOVE_LAYOUTS,
                        .functor = GPUCOLL_FN_sum_u8,
                        .ctas = ctas[below(bench, 5)],
                        .threads = threads[below(bench, 4)],
                        .data_bytes = data_bytes,
                        .stages = GPUCOLL_STAGE_ALL,
                        .round_end = UINT64_MAX,
                        .runs = bench->runs,
                        .linger_ns = lingers[below(bench, 4)]};
    bool passed = true;
    for (int calls = 1 + (int)below(bench, 4); calls > 0 && passed;
         calls--) { /* of one crew, if it lingers */
        bench->in_place = below(bench, 3) == 0;
        draw_call(bench);
        fill_buffers(bench);
        fill_runs(bench);
        call.bytes = 0;
        for (uint32_t i = 0; i < bench->size * bench->size; i++) {
            const size_t length = bench->length[i / bench->size][i % bench->size];
            call.bytes = length > call.bytes ? length : call.bytes;
        }
        ranks_begin(&bench->ranks);
        for (uint32_t r = 0; r < bench->size; r++) {
            ranks_launch(&bench->ranks, r, &call);
        }
        ranks_wait_all(&bench->ranks, "laid runs");
        passed = verify(bench, &call);
        drop_layouts(bench);
    }
    return passed;
}

static void test_size(struct gpus *gpus, uint32_t size, const struct test_options *options)
{
    struct bench bench = {.random = options->seed + 700 + size, .size = size};
    bool passed = true;
    ranks_open(&bench.ranks, gpus, size, data_bytes, room);
    bench.got = malloc(room);
    for (uint32_t r = 0; r < size; r++) {
        bench.sent[r] = malloc(room);
        bench.expected[r] = malloc(room);
        bench.views[r] = gpus_alloc(gpus, bench.ranks.rank[r].gpu, view_room);
    }
    for (int i = 0; i < (options->quick ? 2 : 40) && passed; i++) {
        passed = run_case(&bench);
    }
    gpus_report(gpus, passed, "%s on %u ranks", kernel_names[GPUCOLL_KERNEL_MOVE_LAYOUTS], size);
    for (uint32_t r = 0; r < size; r++) {
        free(bench.sent[r]);
        free(bench.expected[r]);
        gpus_free(gpus, bench.ranks.rank[r].gpu, bench.views[r]);
    }
    free(bench.got);
    ranks_close(&bench.ranks);
}

void test_laid_runs(struct gpus *gpus, const struct test_options *options)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        /* No two ranks on one GPU wait for each other where that may hang. */
        const bool alone = sizes[i] <= (uint32_t)gpus->count || !options->quick;
        if (runs_ranks(options, gpus, sizes[i]) && alone) {
            test_size(gpus, sizes[i], options);
        }
    }
}
