/*
 * What applications do where MPI calls them back, and arguments that one array serves twice: collectives when MPI_COMM_SELF's attributes are
 * deleted in MPI_Finalize, attributes of datatypes, counts and displacements of both sides in one array.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/form.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

static int types_deleted;

static int type_deleted(MPI_Datatype type, int keyval, void *value, void *extra)
{
    (void)type;
    (void)keyval;
    (void)value;
    (void)extra;
    types_deleted++;
    return MPI_SUCCESS;
}

/* The delete function is called when the application frees the type, though a call has used it. */
static void test_type(void)
{
    struct test_buffer buffer;
    MPI_Datatype type;
    int keyval;

    if (!test_begin("callbacks/type"))
        return;
    test_buffer_make(&buffer, TEST_DEVICE, 3 * 100 * sizeof(int), 0, false);
    test_ok(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, type_deleted, &keyval, NULL),
            "MPI_Type_create_keyval");
    for (int round = 1; round <= 100; round++) {
        MPI_Type_vector(100 - round % 7, 1 + round % 2, 3, MPI_INT, &type);
        MPI_Type_commit(&type);
        test_ok(MPI_Type_set_attr(type, keyval, NULL), "MPI_Type_set_attr");
        test_ok(MPI_Bcast(buffer.data, 1, type, 0, MPI_COMM_WORLD), "MPI_Bcast");
        test_ok(MPI_Type_free(&type), "MPI_Type_free");
        if (types_deleted != round)
            test_fail("%d types were freed, and %d are told to be deleted", round, types_deleted);
    }
    MPI_Type_free_keyval(&keyval);
    test_buffer_free(&buffer);
    test_end();
}

enum { BLOCK = 4 }; /* integers */

/* Rank 0 sends to all, itself included, and nobody else does: of the one array rank 0 needs an element for each rank to send, all one to receive. */
static void check_neighbors(enum test_form form, MPI_Comm graph, int *counts, int *displs)
{
    const int ints = BLOCK * test.size;
    int *image = test_alloc((size_t)ints * sizeof *image);
    struct test_buffer send, recv;

    for (int i = 0; i < ints; i++)
        image[i] = 100 + i;
    test_buffer_make(&send, TEST_DEVICE, (size_t)ints * sizeof *image, 0, false);
    test_buffer_make(&recv, TEST_DEVICE, BLOCK * sizeof *image, 0, false);
    test_buffer_write(&send, 0, image, send.bytes);
    TEST_RUN(form, 3, Neighbor_alltoallv, Ineighbor_alltoallv, send.data, counts, displs, MPI_INT, recv.data,
             counts, displs, MPI_INT, graph);
    test_buffer_read(&recv, 0, image, recv.bytes);
    for (int i = 0; i < BLOCK; i++)
        if (image[i] != 100 + BLOCK * test.rank + i)
            test_fail("integer %d is %d", i, image[i]);
    test_buffer_check(&recv, "what has come");
    test_buffer_free(&send);
    test_buffer_free(&recv);
    free(image);
}

static void test_one_array(void)
{
    int *counts, *displs, *ranks, zero = 0;
    MPI_Comm graph;

    if (!test_begin("callbacks/one_array_for_both_sides"))
        return;
    counts = test_alloc((size_t)test.size * sizeof *counts);
    displs = test_alloc((size_t)test.size * sizeof *displs);
    ranks = test_alloc((size_t)test.size * sizeof *ranks);
    for (int i = 0; i < test.size; i++) {
        counts[i] = BLOCK;
        displs[i] = BLOCK * i;
        ranks[i] = i;
    }
    test_ok(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &zero, counts, test.rank == 0 ? test.size : 0,
                                           ranks, counts, MPI_INFO_NULL, 0, &graph),
            "MPI_Dist_graph_create_adjacent");
    for (int form = 0; form < TEST_FORMS; form++)
        for (int round = 0; round < 10 && test_form_exists((enum test_form)form); round++)
            check_neighbors((enum test_form)form, graph, counts, displs);
    MPI_Comm_free(&graph);
    free(counts);
    free(displs);
    free(ranks);
    test_end();
}

static bool sum_is_right(void)
{
    struct test_buffer buffer;
    int mine = test.rank + 1, sum = 0;

    test_buffer_make(&buffer, TEST_DEVICE, sizeof mine, 0, false);
    test_buffer_write(&buffer, 0, &mine, sizeof mine);
    MPI_Allreduce(MPI_IN_PLACE, buffer.data, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    test_buffer_read(&buffer, 0, &sum, sizeof sum);
    test_buffer_free(&buffer);
    return sum == test.size * (test.size + 1) / 2;
}

/* There are no cases any more: a wrong sum ends the program, and one that hangs its time. */
static int finalize_begins(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)value;
    (void)extra;
    if (!sum_is_right())
        MPI_Abort(MPI_COMM_WORLD, 3);
    return MPI_SUCCESS;
}

/* On some ranks after the first collective, on others before it. */
static void test_finalize(void)
{
    int keyval;

    if (!test_begin("callbacks/finalize"))
        return;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize_begins, &keyval, NULL);
    for (int turn = 0; turn < 2; turn++) {
        if (test.rank % 2 == turn)
            MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
        if (turn == 0 && !sum_is_right())
            test_fail("the sum is wrong");
    }
    MPI_Comm_free_keyval(&keyval);
    test_end();
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv, MPI_THREAD_SINGLE, NULL);
    test_finalize();
    test_type();
    test_one_array();
    return test_finish();
}
