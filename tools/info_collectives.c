/*
 * docs/collectives.md: what runs natively, in which form, over which transport.
 */
#include <stdio.h>
#include <string.h>
#include "core/base/forms.h"
#include "core/cluster/cluster.h"
#include "core/plan/algorithm.h"
#include "tools/gpucoll_info.h"
#include "ucx_tl/tl.h"

#define FORMS_ROW(name, blocking, nonblocking, persistent)                                                   \
    {#name, {GPUCOLL_RUNS_##blocking, GPUCOLL_RUNS_##nonblocking, GPUCOLL_RUNS_##persistent}},

static const struct row {
    const char *collective;
    enum gpucoll_runs forms[3];
} rows[] = {GPUCOLL_COLLECTIVE_FORMS(FORMS_ROW)};

static const char intro[] =
    "# Collectives\n"
    "\n"
    "Written by `gpucoll_info --collectives`. *Native*: run by kernels and copy engines of the GPUs where "
    "every "
    "rank brings device memory of\n"
    "any datatypes, packed there where they are not contiguous (reductions: a predefined operator on a "
    "predefined type that GPUs have); otherwise, and in the forms that say\n"
    "*staged*, device buffers are copied to host memory and the next component of Open MPI does the work. "
    "Collectives of\n"
    "intercommunicators are staged.\n"
    "\n"
    "Predefined types whose reductions are staged: `long double`, MPI_C_LONG_DOUBLE_COMPLEX, "
    "MPI_CXX_LONG_DOUBLE_COMPLEX,\n"
    "MPI_LONG_DOUBLE_INT, MPI_REAL16, MPI_COMPLEX32 and MPI_INTEGER16, which GPUs do not have, and "
    "MPIX_C_SHORT_FLOAT_COMPLEX, for which there "
    "are no kernels.\n"
    "\n"
    "A barrier has no buffers. It is native on communicators that have had a collective whose buffers could "
    "be on a device: MPI_Barrier\n"
    "whatever the processes use, MPI_Ibarrier where each process has used a GPU, MPI_Barrier_init where each "
    "has when it makes the request.\n"
    "(A persistent request of such a collective counts as well, but for MPI_Barrier.) Else it is the next "
    "component's.\n"
    "\n"
    "The columns of transports say what becomes of native calls, whatever their form, where that transport "
    "alone carries them\n"
    "(`coll_gpucoll_transports`): those within a host, and *rdma* between hosts.\n"
    "\n"
    "Native nonblocking and persistent collectives move on while the application computes "
    "(`coll_gpucoll_progress_thread`);\n"
    "`coll_gpucoll_nonblocking` stages them all. Persistent collectives are MPI_Allreduce_init and so on "
    "from Open MPI 5.0 on; 4.1 has\n"
    "them as MPIX_Allreduce_init (`mpi-ext.h`), where it was built with the extension pcollreq.\n"
    "Persistent ones can be started in another order on each rank. Staged are, since Open MPI makes such "
    "calls itself (MPI_Comm_idup): MPI_Iallreduce\n"
    "and MPI_Ireduce of one MPI_INT by MPI_MAX or MPI_MIN, and MPI_Ibcast of four bytes.\n"
    "\n"
    "Calls that are under way on many communicators at once may be staged, too: each needs one of the lanes "
    "of "
    "its GPU (`coll_gpucoll_lanes`).\n"
    "\n"
    "Neighborhood collectives (`coll_gpucoll_neighborhood`) wait for all ranks of the communicator where "
    "they are native. Staged are MPI_Neighbor_allgather and\n"
    "MPI_Neighbor_alltoall on graphs, since Open MPI returns from them at once on ranks without data; with "
    "Open MPI up to 5.0 the nonblocking and persistent forms of\n"
    "neighbor_alltoall(v, w) on grids with a periodic dimension of one or two ranks, whose blocks Open MPI "
    "exchanges the wrong way round there; and with MPI_BOTTOM those of\n"
    "ranks that are neighbors several times.\n"
    "\n"
    "reduce_local has no communicator: it is native where both buffers are memory of one GPU, and waits for "
    "no other rank.\n"
    "\n";

/* As the engine numbers it; GPUCOLL_WARMUP, which no application calls: it does not. */
static enum gpucoll_coll find_coll(const char *collective)
{
    int coll = 0;
    while (coll <= GPUCOLL_BARRIER && strcmp(gpucoll_coll_name((enum gpucoll_coll)coll), collective) != 0) {
        coll++;
    }
    return coll <= GPUCOLL_BARRIER ? (enum gpucoll_coll)coll : GPUCOLL_WARMUP;
}

/* Is there an algorithm that gets by with what such a transport does? A barrier needs none of it. */
static bool runs_over(enum gpucoll_coll coll, unsigned ways)
{
    const struct gpucoll_plan_input input = {.ways = ways};
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (gpucoll_algorithm_runs(row, coll) && gpucoll_algorithm_lacks(row, &input) == NULL) {
            return true;
        }
    }
    return coll == GPUCOLL_BARRIER;
}

static const char *way_over(const struct row *row, bool runs)
{
    if (row->forms[0] != GPUCOLL_RUNS_NATIVE) {
        return "staged";
    }
    return find_coll(row->collective) == GPUCOLL_WARMUP ? "n/a" : runs ? "native" : "staged";
}

static void print_transports(const struct row *row)
{
    const enum gpucoll_coll coll = find_coll(row->collective);
    const struct gpucoll_tl_ops *tl;
    for (int i = 0; (tl = gpucoll_tl_row(i)) != NULL; i++) {
        printf(" %s |", way_over(row, runs_over(coll, tl->does)));
    }
    printf(" %s |", way_over(row, coll != GPUCOLL_WARMUP && gpucoll_cluster_has(coll)));
}

static void print_algorithms(enum gpucoll_coll coll)
{
    const struct gpucoll_algorithm *row;
    const char *between = "";
    for (int i = 0; coll < GPUCOLL_COLL_COUNT && (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (gpucoll_algorithm_runs(row, coll)) {
            printf("%s%s (%s)", between, row->name, row->protocol);
            between = ", ";
        }
    }
}

static void print_head(void)
{
    const struct gpucoll_tl_ops *tl;
    printf("| collective | blocking | nonblocking | persistent |");
    for (int i = 0; (tl = gpucoll_tl_row(i)) != NULL; i++) {
        printf(" %s |", tl->name);
    }
    printf(" rdma | algorithms (protocols) |\n|---|---|---|---|");
    for (int i = 0; gpucoll_tl_row(i) != NULL; i++) {
        printf("---|");
    }
    printf("---|---|\n");
}

void info_collectives_markdown(void)
{
    static const char *const words[] = {
        [GPUCOLL_RUNS_NONE] = "n/a",
        [GPUCOLL_RUNS_STAGED] = "staged",
        [GPUCOLL_RUNS_NATIVE] = "native",
    };
    fputs(intro, stdout);
    print_head();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        printf("| %s | %s | %s | %s |", row->collective, words[row->forms[0]], words[row->forms[1]],
               words[row->forms[2]]);
        print_transports(row);
        printf(" ");
        print_algorithms(find_coll(row->collective));
        printf(" |\n");
    }
}
