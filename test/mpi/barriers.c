/*
 * MPI_Ibarrier and persistent barriers: no rank's ends before all ranks have begun theirs, who comes last or begins in which order
 * whatever; many at once, among other calls, freed early, from several threads; and others need not wait for a rank that computes.
 * `--native`: on communicators that run calls natively they do, too. `--overlap`: without a call of MPI. `--alike`: the ranks bring one
 * kind of memory to a call. `--untouched`: all go to Open MPI as they are, whose libnbc does not survive its communicator. Likewise those of ranks
 * that have no device, where others have.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/counters.h"
#include "test/mpi/sums.h"
#include "test/mpi/support.h"

enum { MOST = 500, PLACES = 16, TAG = 7, THREADS = 3 };

static bool native, overlap, alike, untouched;

/* How many barriers each rank has begun, by place and rank, in memory that all ranks share; NULL where they share none. */
static _Atomic int *begun;
static MPI_Win window = MPI_WIN_NULL;

static void share(void)
{
    MPI_Comm host;
    MPI_Aint bytes;
    int size, unit;
    void *memory;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &size);
    if (size == test.size) {
        MPI_Win_allocate_shared(test.rank == 0 ? PLACES * test.size * (MPI_Aint)sizeof *begun : 0,
                                sizeof *begun, MPI_INFO_NULL, host, &memory, &window);
        MPI_Win_shared_query(window, 0, &bytes, &unit, &memory);
        begun = memory;
    }
    MPI_Comm_free(&host);
}

static _Atomic int *of_rank(int place, int rank)
{
    return &begun[place * test.size + rank];
}

/* No rank has begun any. */
static void reset(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    for (int place = 0; place < PLACES && begun != NULL; place++)
        atomic_store(of_rank(place, test.rank), 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void note_begun(int place)
{
    if (begun != NULL)
        atomic_fetch_add(of_rank(place, test.rank), 1);
}

static int ranks_that_began(int place, int times)
{
    int ranks = 0;
    for (int rank = 0; rank < test.size; rank++)
        ranks += atomic_load(of_rank(place, rank)) >= times;
    return ranks;
}

/* After the end of the barrier that was the `times`-th of its place. */
static void check_begun(int place, int times, const char *what)
{
    if (begun != NULL && ranks_that_began(place, times) < test.size)
        test_fail("%s %d ended when %d ranks had begun it", what, times, ranks_that_began(place, times));
}

/* A sum on device memory, so that the communicator has a team. */
static void make_team(MPI_Comm comm)
{
    struct sum sum;

    sum_open(&sum, 1, 10, test_memory_kind(0));
    test_ok(MPI_Allreduce(sum.send.data, sum.recv.data, 10, MPI_INT, MPI_SUM, comm), "MPI_Allreduce");
    sum_check(&sum, "sum");
    sum_close(&sum);
}

static void begin_barrier(MPI_Comm comm, int place, MPI_Request *request)
{
    note_begun(place);
    test_ok(MPI_Ibarrier(comm, request), "MPI_Ibarrier");
}

static void end_barrier(MPI_Request *request)
{
    test_ok(MPI_Wait(request, MPI_STATUS_IGNORE), "MPI_Wait for a barrier");
}

/* One rank begins it only when all others have seen that theirs do not end. */
static void one_late(MPI_Request *request, MPI_Comm comm, int late)
{
    const bool persistent = *request != MPI_REQUEST_NULL;
    int ended = 0;
    double until;

    for (int i = 0; test.rank == late && i < test.size - 1; i++)
        MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    test_ok(persistent ? MPI_Start(request) : MPI_Ibarrier(comm, request), "the begin of a barrier");
    if (test.rank != late) {
        until = test_seconds() + 0.003;
        while (!ended && test_seconds() < until)
            MPI_Test(request, &ended, MPI_STATUS_IGNORE);
        if (ended)
            test_fail("it ended before rank %d had begun it", late);
        MPI_Send(NULL, 0, MPI_INT, late, TAG, MPI_COMM_WORLD);
    }
    end_barrier(request);
}

static void test_late(bool persistent)
{
    enum { ROUNDS = 3 };
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm comm;

    if (!test_begin("late/%s", persistent ? "persistent" : "nonblocking"))
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    make_team(comm);
#ifdef TEST_PERSISTENT
    if (persistent)
        test_ok(TEST_PERSISTENT(Barrier)(comm, MPI_INFO_NULL, &request), "MPI_Barrier_init");
#endif
    for (int round = 0; round < ROUNDS; round++)
        for (int late = 0; late < test.size; late++)
            one_late(&request, comm, late);
    if (persistent)
        MPI_Request_free(&request);
    MPI_Comm_free(&comm);
    test_end();
}

static void test_outstanding(int n)
{
    static MPI_Request requests[MOST];
    static int order[MOST];
    MPI_Comm comm;

    if (!test_begin("outstanding/%d_in_any_order", n))
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    make_team(comm);
    reset();
    for (int i = 0; i < n; i++) {
        if (i % 50 == 10 + test.rank)
            test_sleep(0.001);
        begin_barrier(comm, 0, &requests[i]);
    }
    test_shuffle_own(order, n, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        end_barrier(&requests[order[i]]);
        check_begun(0, order[i] + 1, "barrier");
    }
    MPI_Comm_free(&comm);
    test_end();
}

static void user_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((const int *)in)[i];
}

/* Sums that run natively, that the ranks decline and that never could, with barriers of all forms between. */
static void test_among_others(void)
{
    enum { CALLS = 30, ROUNDS = 4 };
    struct sum sums[CALLS];
    MPI_Request barriers[CALLS];
    int order[CALLS];
    MPI_Op op;
    MPI_Comm comm;

    if (!test_begin("order/among_other_calls"))
        return;
    MPI_Op_create(user_sum, 1, &op);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    reset();
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t common = test_mix2(test.seed, (uint64_t)round);
        for (int i = 0; i < CALLS; i++) {
            int which = test_draw(&common, 5);
            bool odd_one = which == 1 && !alike && test_draw(&common, test.size) == test.rank;
            sum_open(&sums[i], common, 1 + i, odd_one ? TEST_HOST : test_memory_kind(common));
            test_ok(MPI_Iallreduce(sums[i].send.data, sums[i].recv.data, 1 + i, MPI_INT,
                                   which == 2 ? op : MPI_SUM, comm, &sums[i].request),
                    "MPI_Iallreduce");
            begin_barrier(comm, 0, &barriers[i]);
            if (which == 3)
                test_ok(MPI_Barrier(comm), "MPI_Barrier");
            if (which == 4)
                make_team(comm);
        }
        test_shuffle_own(order, CALLS, (uint64_t)round);
        for (int i = 0; i < CALLS; i++) {
            sum_wait(&sums[order[i]]);
            end_barrier(&barriers[order[(i + 3) % CALLS]]);
        }
        check_begun(0, (round + 1) * CALLS, "barrier");
        for (int i = 0; i < CALLS; i++)
            sum_close(&sums[i]);
    }
    MPI_Comm_free(&comm);
    MPI_Op_free(&op);
    test_end();
}

/* Communicators are independent of each other. */
static void test_crossed(void)
{
    enum { COMMS = 5, ROUNDS = 10 };
    MPI_Comm comms[COMMS];
    MPI_Request requests[COMMS];
    int order[COMMS];

    if (!test_begin("order/communicators_in_different_orders"))
        return;
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        make_team(comms[i]);
    }
    reset();
    for (int round = 1; round <= ROUNDS; round++) {
        test_shuffle_own(order, COMMS, (uint64_t)round);
        for (int i = 0; i < COMMS; i++)
            begin_barrier(comms[order[i]], order[i], &requests[order[i]]);
        test_shuffle_own(order, COMMS, (uint64_t)(round + 100));
        for (int i = 0; i < COMMS; i++) {
            end_barrier(&requests[order[i]]);
            check_begun(order[i], round, "barrier");
        }
    }
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    test_end();
}

/* The communicator goes, or the request of some ranks: the barrier of the others ends all the same. */
static void test_freed(void)
{
    enum { ROUNDS = 6 };

    if (!test_begin("freed/communicator_and_requests"))
        return;
    reset();
    for (int round = 1; round <= ROUNDS; round++) {
        MPI_Request request;
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        make_team(comm);
        begin_barrier(comm, 0, &request);
        MPI_Comm_free(&comm);
        if (round % 2 == 0 && test.rank == round % test.size)
            test_ok(MPI_Request_free(&request), "MPI_Request_free");
        else {
            end_barrier(&request);
            check_begun(0, round, "barrier");
        }
    }
    test_end();
}

#ifdef TEST_PERSISTENT
/* Made in one order on all ranks, begun in another on each. */
static void test_persistent(void)
{
    enum { REQUESTS = 8, ROUNDS = 10 };
    MPI_Request requests[REQUESTS];
    MPI_Comm comm;
    int order[REQUESTS];

    if (!test_begin("persistent/started_in_different_orders"))
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    make_team(comm);
    for (int i = 0; i < REQUESTS; i++)
        test_ok(TEST_PERSISTENT(Barrier)(comm, MPI_INFO_NULL, &requests[i]), "MPI_Barrier_init");
    reset();
    for (int round = 1; round <= ROUNDS; round++) {
        test_shuffle_own(order, REQUESTS, (uint64_t)round);
        for (int i = 0; i < REQUESTS; i++) {
            note_begun(order[i]);
            test_ok(MPI_Start(&requests[order[i]]), "MPI_Start");
        }
        test_shuffle_own(order, REQUESTS, (uint64_t)(round + 100));
        for (int i = 0; i < REQUESTS; i++) {
            end_barrier(&requests[order[i]]);
            check_begun(order[i], round, "persistent barrier");
        }
    }
    for (int i = 0; i < REQUESTS; i++)
        MPI_Request_free(&requests[i]);
    MPI_Comm_free(&comm);
    test_end();
}

/* One rank frees its active one, on a communicator that is gone; the others' ends all the same. */
static void test_persistent_freed(void)
{
    if (!test_begin("persistent/freed_while_active_on_a_freed_communicator"))
        return;
    for (int round = 0; round < 4; round++) {
        MPI_Request request;
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        make_team(comm);
        test_ok(TEST_PERSISTENT(Barrier)(comm, MPI_INFO_NULL, &request), "MPI_Barrier_init");
        MPI_Comm_free(&comm);
        test_ok(MPI_Start(&request), "MPI_Start");
        if (test.rank != round % test.size)
            end_barrier(&request);
        test_ok(MPI_Request_free(&request), "MPI_Request_free");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    test_end();
}
#endif

/* Those before anything that asks for a team stay with the next component, and make none. */
static void test_counters(void)
{
    enum { CALLS = 20 };
    MPI_Request requests[CALLS];
    MPI_Comm comm;
    unsigned long long calls;

    if (!test_begin("native/with_a_team_only"))
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_T_pvar_handle counter = test_counter_open("coll_gpucoll_native_calls");
    MPI_T_pvar_handle teams = test_counter_open("coll_gpucoll_teams");
    for (int i = 0; i < CALLS; i++)
        test_ok(MPI_Ibarrier(comm, &requests[i]), "MPI_Ibarrier");
    test_ok(MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    calls = test_counter_close(counter);
    if (calls != 0 || test_counter_close(teams) != 0)
        test_fail("%llu of %d barriers ran natively where nothing else did, or made a team", calls, CALLS);
    make_team(comm);
    counter = test_counter_open("coll_gpucoll_native_calls");
    for (int i = 0; i < CALLS; i++)
        test_ok(MPI_Ibarrier(comm, &requests[i]), "MPI_Ibarrier");
    test_ok(MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
#ifdef TEST_PERSISTENT
    test_ok(TEST_PERSISTENT(Barrier)(comm, MPI_INFO_NULL, &requests[0]), "MPI_Barrier_init");
    test_ok(MPI_Start(&requests[0]), "MPI_Start");
    end_barrier(&requests[0]);
    MPI_Request_free(&requests[0]);
    const unsigned long long all = CALLS + 1;
#else
    const unsigned long long all = CALLS;
#endif
    calls = test_counter_close(counter);
    if (calls != all)
        test_fail("%llu of %llu barriers ran natively", calls, all);
    MPI_Comm_free(&comm);
    test_end();
}

/* Who computes without a word to MPI keeps no other rank from its end, though the others' hosts hear of each other through it. */
static void test_overlap(void)
{
    MPI_Comm comm;
    double until;

    if (!test_begin("overlap/a_rank_that_computes"))
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    make_team(comm);
    for (int busy = 0; busy < test.size && begun != NULL; busy++) {
        MPI_Request request;
        reset();
        if (test.rank ==
            (busy + 1) % test.size) /* not the busy one: its peers are not there yet when it begins */
            test_sleep(0.01);
        test_ok(MPI_Ibarrier(comm, &request), "MPI_Ibarrier");
        until = test_seconds() + 5;
        while (test.rank == busy && ranks_that_began(0, 1) < test.size - 1 && test_seconds() < until)
            ;
        if (test.rank == busy && ranks_that_began(0, 1) < test.size - 1)
            test_fail("only %d other ranks are through the barrier after 5 s", ranks_that_began(0, 1));
        end_barrier(&request);
        note_begun(0);
    }
    MPI_Comm_free(&comm);
    test_end();
}

struct worker {
    pthread_t thread;
    MPI_Comm comm;
    int place;
};

static void *run_worker(void *arg)
{
    enum { ROUNDS = 60, AHEAD = 3 };
    const struct worker *worker = arg;
    MPI_Request requests[AHEAD];

    test_memory_thread();
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 10 == (worker->place + test.rank) % 10)
            test_sleep(0.0005);
        for (int i = 0; i < AHEAD; i++)
            begin_barrier(worker->comm, worker->place, &requests[i]);
        if (round % 5 == 0)
            make_team(worker->comm);
        for (int i = AHEAD - 1; i >= 0; i--)
            end_barrier(&requests[i]);
        check_begun(worker->place, (round + 1) * AHEAD, "barrier of a thread");
    }
    return NULL;
}

static void test_threads(void)
{
    struct worker workers[THREADS];

    if (!test_begin_threaded("threads/each_on_a_communicator"))
        return;
    reset();
    for (int i = 0; i < THREADS; i++) {
        workers[i].place = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
        make_team(workers[i].comm);
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0)
            abort();
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&workers[i].comm);
    test_end();
}

int main(int argc, char **argv)
{
    const struct test_option own[] = {
        {"native", &native, NULL, "barriers run natively on communicators that run calls natively"},
        {"overlap", &overlap, NULL, "barriers go on while the application computes"},
        {"alike", &alike, NULL, "the ranks of a call bring memory of one kind"},
        {"untouched", &untouched, NULL, "nonblocking and persistent calls are Open MPI's own"},
        {NULL, NULL, NULL, NULL},
    };

    test_start(&argc, &argv, MPI_THREAD_MULTIPLE, own);
    const bool frees = !untouched && !test_memory_apart();
    share();
    if (native) {
        test_counters_start();
        test_counters();
        test_counters_stop();
    }
    test_late(false);
    test_outstanding(8);
    test_outstanding(test.quick ? 100 : MOST);
    test_among_others();
    test_crossed();
    if (frees)
        test_freed();
#ifdef TEST_PERSISTENT
    test_late(true);
    test_persistent();
    if (frees)
        test_persistent_freed();
#endif
    if (overlap)
        test_overlap();
    test_threads();
    if (window != MPI_WIN_NULL)
        MPI_Win_free(&window);
    return test_finish();
}
