/*
 * Calls on several communicators under way at the same time, begun in another order on each rank, as MPI allows: their kernels want more of
 * a GPU's SMs than there are, and on no two ranks the same ones come first. Whoever waits for what another rank has not begun has to make
 * room, and all of them may not do so again and again: a run takes seconds, or the table's limit ends it.
 */
#include "test/mpi/memory.h"
#include "test/mpi/sums.h"
#include "test/mpi/support.h"

enum { COMMS = 6, LEAST = 8 << 10, MOST = 56 << 10 };

static void run_round(struct sum *sums, MPI_Comm *comms, uint64_t round)
{
    int order[COMMS];

    for (int i = 0; i < COMMS; i++)
        sum_fill(&sums[i], round * COMMS + (uint64_t)i);
    test_shuffle_own(order, COMMS, 2 * round);
    for (int i = 0; i < COMMS; i++)
        sum_post(&sums[order[i]], comms[order[i]]);
    test_shuffle_own(order, COMMS, 2 * round + 1);
    for (int i = 0; i < COMMS; i++)
        sum_wait(&sums[order[i]]);
}

/* Every fourth of the calls is of few bytes: one CTA among those that would take all SMs. */
static int count_of(int call)
{
    uint64_t state = test_mix2(test.seed, (uint64_t)call);
    return call % 4 == 3 ? 16 : LEAST + test_draw(&state, MOST - LEAST);
}

int main(int argc, char **argv)
{
    struct sum sums[COMMS];
    MPI_Comm comms[COMMS];

    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    if (test_begin("crowd/each_rank_begins_another_way")) {
        for (int i = 0; i < COMMS; i++) {
            test_ok(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]), "MPI_Comm_dup");
            sum_open(&sums[i], (uint64_t)i, count_of(i), TEST_DEVICE);
        }
        for (int round = 0; round < (test.quick ? 30 : 300); round++)
            run_round(sums, comms, (uint64_t)round);
        for (int i = 0; i < COMMS; i++) {
            sum_close(&sums[i]);
            MPI_Comm_free(&comms[i]);
        }
        test_end();
    }
    return test_finish();
}
