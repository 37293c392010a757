#include "bench/contender.h"

#include <stdio.h>
#include <string.h>
#include "bench/nccl_coll.h"

/* Larger messages in host memory measure the host's memory, not what passing a call on costs. */
enum { HOST_MAX = 16 << 20 };

static void check(struct bench_contender *contender, int error, const char *what)
{
    const struct bench_nccl_api *api = &contender->rivals->api;
    if (error != 0)
        bench_fail("%s: %s. %s", what, api->ncclGetErrorString(error),
                   api->ncclGetLastError ? api->ncclGetLastError(contender->comm) : "");
}

static void start_nccl(void *arg)
{
    struct bench_contender *contender = arg;
    struct bench_rivals *rivals = contender->rivals;
    check(contender, bench_nccl_call(&rivals->api, &contender->measured, contender->comm, rivals->stream),
          contender->measured.coll->name);
}

static void wait_nccl(void *arg)
{
    struct bench_contender *contender = arg;
    bench_stream_wait(contender->rivals->device, contender->rivals->stream);
}

static void call_nccl(struct bench_case *measured)
{
    start_nccl(measured->arg);
    wait_nccl(measured->arg);
}

void bench_contender_overlap(struct bench_contender *contender, struct bench_beside *beside)
{
    if (bench_is_nccl(contender->kind))
        beside->starter = (struct bench_starter){.start = start_nccl, .wait = wait_nccl, .arg = contender};
    else
        bench_overlap_by_mpi(beside);
}

static void open_comm(struct bench_contender *contender)
{
    struct bench_rivals *rivals = contender->rivals;
    struct bench_group *group = rivals->group;
    struct bench_nccl_id id;
    char key[48];
    char text[32];
    memset(&id, 0, sizeof(id));
    if (group->rank == 0)
        check(contender, rivals->api.ncclGetUniqueId(&id), "ncclGetUniqueId");
    MPI_Bcast(&id, (int)sizeof(id), MPI_BYTE, 0, group->comm);
    double begin = MPI_Wtime();
    check(contender, rivals->api.ncclCommInitRank(&contender->comm, group->size, id, group->rank),
          "ncclCommInitRank");
    snprintf(text, sizeof(text), "%.1f", bench_max(group, (MPI_Wtime() - begin) * 1e3));
    snprintf(key, sizeof(key), "%s_comm_ms", contender->library);
    bench_report_context(rivals->report, key, text);
}

static void open_windows(struct bench_contender *contender, void *buffer[2])
{
    const struct bench_nccl_api *api = &contender->rivals->api;
    size_t bytes = bench_case_room(contender->rivals->group, contender->rivals->options);
    for (int i = 0; i < 2; i++) {
        check(contender, api->ncclMemAlloc(&buffer[i], bytes), "ncclMemAlloc");
        check(contender,
              api->ncclCommWindowRegister(contender->comm, buffer[i], bytes, &contender->window[i],
                                          BENCH_NCCL_WINDOW_SYMMETRIC),
              "ncclCommWindowRegister");
    }
}

/* `send` NULL: buffers of the contender's own. */
static struct bench_contender *open_contender(struct bench_rivals *rivals, enum bench_contender_kind kind,
                                              const char *library, void *send, void *recv)
{
    struct bench_contender *contender = &rivals->contender[rivals->count++];
    struct bench_options options = *rivals->options;
    bool on_host = kind == BENCH_MPI_HOST;
    void *buffer[2] = {send, recv};
    *contender = (struct bench_contender){.kind = kind, .library = library, .rivals = rivals};
    if (on_host && options.max > HOST_MAX)
        options.max = HOST_MAX;
    if (bench_is_nccl(kind))
        open_comm(contender);
    if (kind == BENCH_NCCL_WINDOWS)
        open_windows(contender, buffer);
    bench_case_open(&contender->measured, rivals->group, on_host ? &rivals->host_device : rivals->device,
                    &options, buffer[0], buffer[1]);
    contender->measured.on_host = on_host;
    if (bench_is_nccl(kind)) {
        contender->measured.call = call_nccl;
        contender->measured.place_of_result = bench_nccl_result_at;
        contender->measured.arg = contender;
    }
    return contender;
}

static void close_contender(struct bench_contender *contender)
{
    const struct bench_nccl_api *api = &contender->rivals->api;
    void *buffer[2] = {contender->measured.send, contender->measured.recv};
    bench_case_close(&contender->measured);
    for (int i = 0; i < 2 && contender->kind == BENCH_NCCL_WINDOWS; i++) {
        if (contender->window[i])
            check(contender, api->ncclCommWindowDeregister(contender->comm, contender->window[i]),
                  "ncclCommWindowDeregister");
        check(contender, api->ncclMemFree(buffer[i]), "ncclMemFree");
    }
    if (contender->comm)
        check(contender, api->ncclCommDestroy(contender->comm), "ncclCommDestroy");
}

bool bench_contender_can(const struct bench_contender *contender)
{
    const struct bench_case *measured = &contender->measured;
    if (bench_type_is_derived(measured->type) &&
        (bench_coll_has(measured->coll, BENCH_REDUCES) || !measured->coll->has_data))
        return false; /* MPI reduces nothing of that kind */
    return !bench_is_nccl(contender->kind) ||
           (!bench_type_is_derived(measured->type) && bench_nccl_can(measured));
}

/* Why NCCL cannot be measured on this rank; NULL if it can. */
static const char *nccl_refusal(struct bench_rivals *rivals, char *reason, size_t bytes)
{
    if (!rivals->device->cuda) {
        snprintf(reason, bytes, "the buffers are not on GPUs");
    } else if (rivals->group->local_size > rivals->device->count) {
        snprintf(reason, bytes, "%d ranks on %d GPUs, and NCCL needs a GPU for each rank",
                 rivals->group->local_size, rivals->device->count);
    } else if (bench_nccl_load(&rivals->api, rivals->options->nccl, reason, bytes)) {
        return NULL;
    }
    return reason;
}

/* Collective. False, with a message, if NCCL was asked for by name and cannot be had. */
static bool ready_nccl(struct bench_rivals *rivals)
{
    const struct bench_options *options = rivals->options;
    char reason[512] = "another rank cannot";
    if (strcmp(options->libraries, "mpi") == 0)
        return true;
    bool refused = nccl_refusal(rivals, reason, sizeof(reason)) != NULL;
    rivals->with_nccl = bench_max(rivals->group, refused) == 0;
    if (rivals->with_nccl)
        return true;
    bool needed = strcmp(options->libraries, "nccl") == 0 || strcmp(options->nccl, "auto") != 0;
    if (refused && (needed || rivals->group->rank == 0))
        fprintf(stderr, "%s: rank %d: NCCL is not measured: %s\n", bench_program, rivals->group->rank,
                reason);
    return !needed;
}

static void report_nccl(struct bench_rivals *rivals)
{
    int version = 0;
    char text[32];
    rivals->api.ncclGetVersion(&version);
    snprintf(text, sizeof(text), "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    bench_report_context(rivals->report, "nccl_version", text);
    bench_report_context(rivals->report, "nccl_exchanges",
                         rivals->api.ncclAlltoAll ? "ncclAlltoAll, ncclGather, ncclScatter"
                                                  : "groups of ncclSend and ncclRecv");
    if (rivals->group->rank == 0)
        printf("NCCL %s from %s\n", text, rivals->api.path);
}

static void open_nccl(struct bench_rivals *rivals)
{
    const struct bench_case *first = rivals->count > 0 ? &rivals->contender[0].measured : NULL;
    report_nccl(rivals);
    open_contender(rivals, BENCH_NCCL, "nccl", first ? first->send : NULL, first ? first->recv : NULL);
    if (rivals->group->size == 1)
        return;
    if (bench_nccl_has_windows(&rivals->api))
        open_contender(rivals, BENCH_NCCL_WINDOWS, "nccl-symmetric", NULL, NULL);
    else if (rivals->group->rank == 0)
        printf("This NCCL has no symmetric windows (they came with 2.27): plain buffers only.\n");
}

bool bench_rivals_open(struct bench_rivals *rivals, bool with_host)
{
    bool mpi = strcmp(rivals->options->libraries, "nccl") != 0;
    if (!ready_nccl(rivals))
        return false;
    rivals->stream = bench_stream_open(rivals->device, true);
    if (mpi)
        open_contender(rivals, BENCH_MPI, rivals->options->label, NULL, NULL);
    if (rivals->with_nccl)
        open_nccl(rivals);
    bench_device_open_host(&rivals->host_device);
    if (mpi && with_host && rivals->device->cuda)
        open_contender(rivals, BENCH_MPI_HOST, rivals->options->label, NULL, NULL);
    return true;
}

void bench_rivals_close(struct bench_rivals *rivals)
{
    /* In reverse: later contenders may use the first one's buffers. */
    while (rivals->count > 0)
        close_contender(&rivals->contender[--rivals->count]);
    bench_stream_close(rivals->device, rivals->stream);
}
