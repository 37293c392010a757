#include "bench/case.h"

#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff /* a NaN in every float */ };

/* A ring of all ranks. */
MPI_Comm bench_case_comm(struct bench_group *group, const struct bench_coll *coll)
{
    static const int periodic = 1;
    if (!bench_coll_has(coll, BENCH_NEIGHBORS))
        return MPI_COMM_WORLD;
    if (group->ring == MPI_COMM_NULL)
        MPI_Cart_create(MPI_COMM_WORLD, 1, &group->size, &periodic, 0, &group->ring);
    return group->ring;
}

size_t bench_case_bytes(const struct bench_case *measured)
{
    return measured->coll->has_data ? measured->count * measured->type->size : 0;
}

size_t bench_case_offset(const struct bench_case *measured, int holder, int index)
{
    return bench_coll_offset(measured->coll, measured->block, measured->group->size, holder, index);
}

size_t bench_case_length(const struct bench_case *measured, int holder, int index)
{
    return bench_case_offset(measured, holder, index + 1) - bench_case_offset(measured, holder, index);
}

/* The vector; or this rank's block, where `vectors` are held by the other side only. */
static size_t extent(const struct bench_case *measured, enum bench_flow vectors)
{
    int rank = measured->group->rank;
    bool block = bench_coll_has(measured->coll, vectors) && !bench_coll_is_alltoall(measured->coll);
    return block ? bench_case_length(measured, rank, rank) : measured->count;
}

size_t bench_case_send_extent(const struct bench_case *measured)
{
    return extent(measured, BENCH_GATHERS);
}

size_t bench_case_recv_extent(const struct bench_case *measured)
{
    return extent(measured, BENCH_SCATTERS);
}

bool bench_case_is_in_place(const struct bench_case *measured)
{
    return measured->in_place && bench_coll_is_in_place(measured->coll, measured->group->rank);
}

size_t bench_case_contribution_at(const struct bench_case *measured)
{
    int rank = measured->group->rank;
    bool gathers = bench_coll_has(measured->coll, BENCH_GATHERS) && !bench_coll_is_alltoall(measured->coll);
    return gathers ? bench_case_offset(measured, rank, rank) : 0;
}

double bench_row_busbw(const struct bench_row *row, int ranks)
{
    return bench_algbw(row->bytes, row->times.median_us) * bench_coll_busbw_factor(row->coll, ranks);
}

/* Whether this rank's contribution is taken from recv. */
static bool contributes_in_recv(const struct bench_case *measured)
{
    if (bench_coll_has(measured->coll, BENCH_ONE_BUFFER))
        return measured->group->rank == BENCH_ROOT;
    return bench_case_is_in_place(measured) && !bench_coll_has(measured->coll, BENCH_FROM_ROOT);
}

/* What MPI gets when the data is in `send` and `recv`. */
static void set_args(struct bench_case *measured, void *send, void *recv)
{
    struct bench_args *args = &measured->args;
    const struct bench_coll *coll = measured->coll;
    bool in_place = bench_case_is_in_place(measured);
    int rank = measured->group->rank;
    bool blocks = bench_coll_has(coll, BENCH_GATHERS | BENCH_SCATTERS);
    args->send = in_place ? MPI_IN_PLACE : send;
    args->recv = recv;
    if (in_place && bench_coll_has(coll, BENCH_FROM_ROOT)) {
        args->send = send;
        args->recv = MPI_IN_PLACE;
    }
    args->count = (int)(blocks ? bench_case_length(measured, rank, rank) : measured->count);
    for (int i = 0; blocks && i < bench_coll_blocks(coll, measured->group->size); i++) {
        measured->counts[i] = (int)bench_case_length(measured, rank, i);
        measured->displs[i] = (int)bench_case_offset(measured, rank, i);
        measured->byte_displs[i] = measured->displs[i] * (int)measured->type->size;
        measured->address_displs[i] = (MPI_Aint)measured->displs[i] * (MPI_Aint)measured->type->size;
        measured->types[i] = bench_type_mpi(measured->type);
    }
    args->counts = measured->counts;
    args->displs = measured->displs;
    args->byte_displs = measured->byte_displs;
    args->address_displs = measured->address_displs;
    args->types = measured->types;
    args->type = bench_type_mpi(measured->type);
    args->op = measured->op->mpi;
    args->comm = measured->comm;
}

void bench_case_start(struct bench_case *measured, MPI_Request *request)
{
    if (measured->form == BENCH_NONBLOCKING) {
        measured->coll->start(&measured->args, request);
        return;
    }
    if (measured->persistent == MPI_REQUEST_NULL)
        measured->coll->init(&measured->args, &measured->persistent);
    MPI_Start(&measured->persistent);
    *request = measured->persistent;
}

static void call_mpi(struct bench_case *measured)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (measured->form == BENCH_BLOCKING) {
        measured->coll->call(&measured->args);
        return;
    }
    bench_case_start(measured, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* What a program must do over an MPI that takes no device pointers. */
static void call_mpi_staged(struct bench_case *measured)
{
    const struct bench_coll *coll = measured->coll;
    int rank = measured->group->rank;
    size_t send_bytes = bench_case_send_extent(measured) * measured->type->size;
    size_t recv_bytes = bench_case_recv_extent(measured) * measured->type->size;
    size_t offset = bench_case_contribution_at(measured) * measured->type->size;
    bool in_place = contributes_in_recv(measured);
    if (bench_coll_sends(coll, rank))
        bench_device_copy(measured->device,
                          in_place ? (char *)measured->host[1] + offset : (char *)measured->host[0],
                          in_place ? (char *)measured->recv + offset : (char *)measured->send, send_bytes);
    if (bench_coll_has(coll, BENCH_LOCAL))
        bench_device_copy(measured->device, measured->host[1], measured->recv, recv_bytes);
    call_mpi(measured);
    if (bench_coll_receives(coll, rank) && measured->args.recv != MPI_IN_PLACE)
        bench_device_copy(measured->device, measured->recv, measured->host[1], recv_bytes);
}

/* The most that a vector of any collective has. */
static size_t most_blocks(const struct bench_group *group)
{
    return group->size > 2 ? (size_t)group->size : 2;
}

size_t bench_case_room(const struct bench_group *group, const struct bench_options *options)
{
    size_t least = most_blocks(group) * options->type->size;
    return options->max > least ? options->max : least;
}

void bench_case_open(struct bench_case *measured, struct bench_group *group, struct bench_device *device,
                     const struct bench_options *options, void *send, void *recv)
{
    size_t room = bench_case_room(group, options);
    memset(measured, 0, sizeof(*measured));
    measured->group = group;
    measured->device = device;
    measured->coll = options->coll;
    measured->type = options->type;
    measured->op = options->op;
    measured->in_place = options->in_place;
    measured->check_all = options->check && strcmp(options->check, "all") == 0;
    measured->room = room;
    measured->own = !send;
    measured->send = send ? send : bench_device_alloc(device, room);
    measured->recv = recv ? recv : bench_device_alloc(device, room);
    measured->staging = bench_pinned_alloc(device, BENCH_STAGING_BYTES);
    measured->counts = calloc(most_blocks(group), sizeof(int));
    measured->displs = calloc(most_blocks(group), sizeof(int));
    measured->byte_displs = calloc(most_blocks(group), sizeof(int));
    measured->address_displs = calloc(most_blocks(group), sizeof(MPI_Aint));
    measured->types = calloc(most_blocks(group), sizeof(*measured->types));
    if (!measured->counts || !measured->displs || !measured->byte_displs || !measured->address_displs ||
        !measured->types)
        bench_fail("out of memory for the counts of %d ranks", group->size);
    measured->comm = MPI_COMM_WORLD;
    measured->persistent = MPI_REQUEST_NULL;
    measured->key = (struct bench_key){.seed = 1, .op = options->op->id, .ranks = group->size};
    measured->call = call_mpi;
    if (options->stage && device->cuda) {
        measured->call = call_mpi_staged;
        for (int i = 0; i < 2; i++)
            measured->host[i] = bench_pinned_alloc(device, room);
    }
    bench_check_prime(measured, room);
}

void bench_case_forget(struct bench_case *measured)
{
    if (measured->persistent != MPI_REQUEST_NULL)
        MPI_Request_free(&measured->persistent);
    measured->persistent = MPI_REQUEST_NULL;
}

void bench_case_close(struct bench_case *measured)
{
    bench_case_forget(measured);
    for (int i = 0; i < 2; i++)
        bench_pinned_free(measured->device, measured->host[i]);
    bench_pinned_free(measured->device, measured->staging);
    if (measured->own) {
        bench_device_free(measured->device, measured->recv);
        bench_device_free(measured->device, measured->send);
    }
    free(measured->counts);
    free(measured->displs);
    free(measured->byte_displs);
    free(measured->address_displs);
    free(measured->types);
    free(measured->samples);
    memset(measured, 0, sizeof(*measured));
}

/* Puts this rank's contribution where a call in place expects it. */
static void contribute(struct bench_case *measured)
{
    size_t size = measured->type->size;
    if (!contributes_in_recv(measured))
        return;
    bench_device_copy(measured->device, (char *)measured->recv + bench_case_contribution_at(measured) * size,
                      measured->send, bench_case_send_extent(measured) * size);
}

static void restore(void *arg)
{
    struct bench_case *measured = arg;
    const struct bench_coll *coll = measured->coll;
    /* What is only gathered, or sent from where it stands, is still there. */
    bool gathered = bench_coll_has(coll, BENCH_GATHERS) && !bench_coll_is_alltoall(coll);
    bool kept = gathered || bench_coll_has(coll, BENCH_ONE_BUFFER);
    if (!kept)
        contribute(measured);
}

static void poison(void *arg)
{
    struct bench_case *measured = arg;
    if (measured->coll->has_data)
        bench_device_fill(measured->device, measured->recv, POISON, bench_case_bytes(measured));
    contribute(measured);
    if (bench_coll_has(measured->coll, BENCH_LOCAL))
        bench_check_fill(measured, measured->recv, measured->group->rank + 1);
}

static void run_call(void *arg)
{
    struct bench_case *measured = arg;
    measured->call(measured);
}

/* What has no buffers is measured as in a program that has used these on the communicator before: by MPI, if it takes them. */
static void use_buffers(struct bench_case *measured)
{
    if (measured->call == call_mpi)
        MPI_Allreduce(measured->send, measured->recv, 1, measured->type->mpi, measured->op->mpi,
                      measured->comm);
}

void bench_case_begin(struct bench_case *measured, size_t bytes, struct bench_row *row)
{
    struct bench_call call = {poison, run_call, measured};
    const struct bench_coll *coll = measured->coll;
    size_t blocks = (size_t)bench_coll_blocks(coll, measured->group->size);
    size_t count = bytes / measured->type->size;
    bench_case_forget(measured);
    measured->block = count / blocks ? count / blocks : 1;
    measured->count = bench_coll_has(coll, BENCH_GATHERS | BENCH_SCATTERS) ? measured->block * blocks : count;
    measured->result_at = measured->place_of_result ? measured->place_of_result(measured) : 0;
    measured->sample_count = 0;
    if (measured->host[0])
        set_args(measured, measured->host[0], measured->host[1]);
    else
        set_args(measured, measured->send, measured->recv);
    memset(row, 0, sizeof(*row));
    row->on_host = measured->on_host;
    row->coll = coll;
    row->form = measured->form;
    row->in_place = measured->in_place;
    row->bytes = bench_case_bytes(measured);
    if (bench_coll_sends(coll, measured->group->rank))
        bench_check_fill(measured, measured->send, measured->group->rank);
    if (!coll->has_data)
        use_buffers(measured);
    row->times.first_us = bench_once(measured->group, &call);
    row->check = bench_check_result(measured);
}

void bench_case_warm(struct bench_case *measured, int calls)
{
    struct bench_call call = {restore, run_call, measured};
    for (int i = 0; i < calls; i++)
        bench_once(measured->group, &call);
}

void bench_case_keep(struct bench_case *measured, double us)
{
    if (measured->sample_count == measured->sample_room) {
        measured->sample_room = measured->sample_room ? 2 * measured->sample_room : 512;
        measured->samples =
            realloc(measured->samples, (size_t)measured->sample_room * sizeof(*measured->samples));
        if (!measured->samples)
            bench_fail("out of memory for %d samples", measured->sample_room);
    }
    measured->samples[measured->sample_count++] = us;
}

double bench_case_sample(struct bench_case *measured)
{
    struct bench_call call = {restore, run_call, measured};
    double us = bench_once(measured->group, &call);
    bench_case_keep(measured, us);
    return us;
}

void bench_case_poison(struct bench_case *measured)
{
    poison(measured);
}

void bench_case_check(struct bench_case *measured, struct bench_row *row)
{
    enum bench_check after = bench_check_result(measured);
    if (after > row->check)
        row->check = after;
}

void bench_case_end(struct bench_case *measured, struct bench_row *row)
{
    struct bench_call call = {poison, run_call, measured};
    bench_statistics(measured->samples, measured->sample_count, &row->times);
    bench_once(measured->group, &call);
    bench_case_check(measured, row);
    bench_case_forget(measured);
}

void bench_case_measure(struct bench_case *measured, size_t bytes, int iterations, struct bench_row *row)
{
    int calls = iterations ? iterations : bench_iterations(bytes);
    measured->key.seed++;
    bench_case_begin(measured, bytes, row);
    bench_case_warm(measured, bench_warmup(calls));
    for (int i = 0; i < calls; i++)
        bench_case_sample(measured);
    bench_case_end(measured, row);
}
