/*
 * One small all-reduce again and again, as gpucoll then begins it before it knows that all ranks have made the call; and now and then what it cannot
 * know either: a rank that comes late, brings host memory, makes another call before, or the same one elsewhere. Every result is looked at, some calls
 * later, for to look is a pause.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/counters.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { PLACES = 48, SHIFTS = 61, LATE_US = 300 };

enum deed { SAME, IN_PLACE, LATE, ON_HOST, OTHER_COUNT, OTHER_COMM, BROADCAST, BESIDE, DEEDS };

/* Both of each: memory of the device, and of the host. */
struct buffers {
    struct test_buffer send[2];
    struct test_buffer recv[2];
    MPI_Comm other;
};

/* A call that was made. */
struct made {
    int count;
    int shift;
    bool host; /* by this rank with host memory */
};

static uint32_t sent(int rank, int index, int shift)
{
    return (uint32_t)test_mix3(test.seed, (uint64_t)rank, (uint64_t)(index + shift));
}

static uint32_t *words_of(const struct test_buffer *buffer)
{
    return (uint32_t *)(void *)buffer->data;
}

static void open_buffers(struct buffers *buffers, int count)
{
    const size_t sent_words = (size_t)count + 1 + SHIFTS;
    uint32_t *words = test_alloc(sent_words * sizeof(uint32_t));

    for (size_t i = 0; i < sent_words; i++)
        words[i] = sent(test.rank, (int)i, 0);
    for (int host = 0; host < 2; host++) {
        const enum test_memory kind = host ? TEST_HOST : TEST_DEVICE;
        test_buffer_make(&buffers->send[host], kind, sent_words * sizeof(uint32_t), 0, false);
        test_buffer_make(&buffers->recv[host], kind, PLACES * ((size_t)count + 1) * sizeof(uint32_t), 0,
                         false);
        test_buffer_write(&buffers->send[host], 0, words, sent_words * sizeof(uint32_t));
    }
    test_ok(MPI_Comm_dup(MPI_COMM_WORLD, &buffers->other), "MPI_Comm_dup");
    free(words);
}

static void close_buffers(struct buffers *buffers)
{
    test_ok(MPI_Comm_free(&buffers->other), "MPI_Comm_free");
    for (int host = 0; host < 2; host++) {
        test_buffer_check(&buffers->recv[host], "a receive buffer");
        test_buffer_free(&buffers->recv[host]);
        test_buffer_free(&buffers->send[host]);
    }
}

static void sum(struct buffers *buffers, const struct made *call, int place, int room, bool in_place,
                MPI_Comm comm)
{
    uint32_t *recv = words_of(&buffers->recv[call->host]) + (size_t)place * (size_t)room;
    const uint32_t *send = words_of(&buffers->send[call->host]) + call->shift;

    if (in_place)
        test_buffer_write(&buffers->recv[call->host], (size_t)place * (size_t)room * sizeof(uint32_t),
                          words_of(&buffers->send[1]) + call->shift, (size_t)call->count * sizeof(uint32_t));
    test_ok(MPI_Allreduce(in_place ? MPI_IN_PLACE : send, recv, call->count, MPI_UINT32_T, MPI_SUM, comm),
            "MPI_Allreduce");
}

/* Of the calls into all places. */
static void verify(const struct buffers *buffers, const struct made *made, int room)
{
    const size_t bytes = PLACES * (size_t)room * sizeof(uint32_t);
    uint32_t *words[2] = {test_alloc(bytes), test_alloc(bytes)};

    for (int host = 0; host < 2; host++)
        test_buffer_read(&buffers->recv[host], 0, words[host], bytes);
    for (int place = 0; place < PLACES; place++) {
        const struct made *call = &made[place];
        for (int i = 0; i < call->count; i++) {
            uint32_t expected = 0;
            for (int rank = 0; rank < test.size; rank++)
                expected += sent(rank, i, call->shift);
            if (words[call->host][place * room + i] != expected) {
                test_fail("the call into place %d: word %d is wrong", place, i);
                break;
            }
        }
    }
    free(words[0]);
    free(words[1]);
}

/* Drawn alike on all ranks; mostly nothing. */
static enum deed draw_deed(uint64_t *state)
{
    const int drawn = test_draw(state, 10 * DEEDS);

    return drawn < DEEDS ? (enum deed)drawn : SAME;
}

static void make_call(struct buffers *buffers, uint64_t *state, int count, struct made *call, int place)
{
    const enum deed deed = draw_deed(state);
    const bool mine = test_draw(state, test.size) == test.rank;
    MPI_Request request = MPI_REQUEST_NULL;
    uint32_t beside[2] = {1, 0};

    *call = (struct made){.count = count + (deed == OTHER_COUNT),
                          .shift = test_draw(state, SHIFTS),
                          .host = deed == ON_HOST && mine};
    const double until = test_seconds() + (deed == LATE && mine ? test_draw(state, LATE_US) * 1e-6 : 0);
    if (deed == LATE && !mine)
        test_draw(state, LATE_US);
    while (test_seconds() < until)
        continue;
    if (deed == BROADCAST)
        test_ok(MPI_Bcast(words_of(&buffers->recv[0]) + (size_t)place * ((size_t)count + 1), count,
                          MPI_UINT32_T, 0, MPI_COMM_WORLD),
                "MPI_Bcast");
    if (deed == BESIDE)
        test_ok(MPI_Iallreduce(&beside[0], &beside[1], 1, MPI_UINT32_T, MPI_SUM, buffers->other, &request),
                "MPI_Iallreduce");
    sum(buffers, call, place, count + 1, deed == IN_PLACE,
        deed == OTHER_COMM ? buffers->other : MPI_COMM_WORLD);
    test_ok(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}

/* Calls of any number of ranks begin early up to this. */
enum { SMALL = 128 };

/* Are as many calls begun early as --early says? Where ranks share a GPU, nothing is asked. */
static void check_begun(unsigned long long begun, int count, int calls, const char *early)
{
    const bool apart = !test_memory_has_gpu() || test.size <= test_memory_gpus();
    const bool few =
        strcmp(early, "yes") == 0 && apart && count <= SMALL && begun < (unsigned long long)calls / 10;

    if (few || (strcmp(early, "no") == 0 && begun > 0))
        test_fail("%llu of %d calls began early", begun, calls);
}

static void run(int count, int rounds, const char *early)
{
    struct buffers buffers;
    struct made made[PLACES];
    uint64_t state = test_mix2(test.seed, (uint64_t)count);

    if (!test_begin("%d rounds of %d calls, %d bytes", rounds, PLACES, count * 4))
        return;
    MPI_T_pvar_handle begun = test_counter_open("coll_gpucoll_early_calls");
    open_buffers(&buffers, count);
    for (int round = 0; round < rounds; round++) {
        for (int place = 0; place < PLACES; place++)
            make_call(&buffers, &state, count, &made[place], place);
        verify(&buffers, made, count + 1);
    }
    close_buffers(&buffers);
    check_begun(test_counter_close(begun), count, rounds * PLACES, early);
    test_end();
}

int main(int argc, char **argv)
{
    const char *number = NULL;
    const char *early = "";
    const struct test_option own[] = {{"rounds", NULL, &number, "rounds of each size (400; without GPUs 20)"},
                                      {"early", NULL, &early, "yes: small calls begin early; no: none does"},
                                      {NULL, NULL, NULL, NULL}};

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_memory_start();
    test_counters_start();
    const int rounds = number != NULL ? atoi(number) : test_memory_has_gpu() ? 400 : 20;
    const int counts[] = {1, 100, 128, 129, 1000, 2047, 2048};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        run(counts[i], rounds, early);
    test_counters_stop();
    test_memory_stop();
    return test_finish();
}
