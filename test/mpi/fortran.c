/*
 * What test/mpi/fortran.f90 has of C: main, so that options and report are those of the other programs; and cases and buffers, by
 * functions that Fortran can call, without variable arguments. What a buffer holds passes to and from Fortran by copies, so that it
 * may be memory of a GPU.
 */
#include "test/mpi/counters.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"
#include "test/mpi/ways.h"

enum { SLOTS = 2 }; /* what a case sends, what it receives */

static struct test_buffer buffers[SLOTS];
static MPI_T_pvar_handle staged;
static unsigned long long staged_before;

/* Of fortran.f90. */
void fortran_cases(void);

/* As test_begin. */
bool fortran_begin(const char *name);
/* Ends the case, of whose calls at least so many have to have run natively, and so many on host copies, with `--native`. */
void fortran_end(int natively, int copied);
void fortran_fail(const char *what);
void fortran_check(int code, const char *what);
/* Fills the slot's buffer, which is made anew, with these bytes; what MPI is to be given. */
void *fortran_fill(int slot, const void *bytes, size_t count);
/* What the slot's buffer now holds. */
void fortran_read(int slot, void *bytes, size_t count);

bool fortran_begin(const char *name)
{
    if (!test_begin("%s", name))
        return false;
    test_ways_before();
    staged_before = test_counter_read(staged);
    return true;
}

void fortran_end(int natively, int copied)
{
    const unsigned long long ran = test_counter_read(staged) - staged_before;

    test_ways_after((unsigned)natively, "Fortran's calls");
    if (test_ways_native && ran < (unsigned long long)copied)
        test_fail("Fortran's calls: %llu ran on host copies, not %d", ran, copied);
    for (int slot = 0; slot < SLOTS; slot++)
        test_buffer_free(&buffers[slot]);
    test_end();
}

void fortran_fail(const char *what)
{
    test_fail("%s", what);
}

void fortran_check(int code, const char *what)
{
    test_ok(code, what);
}

void *fortran_fill(int slot, const void *bytes, size_t count)
{
    struct test_buffer *buffer = &buffers[slot];

    test_buffer_free(buffer);
    test_buffer_make(buffer, test_memory_kind((uint64_t)slot), count, 0, false);
    test_buffer_write(buffer, 0, bytes, count);
    return buffer->data;
}

void fortran_read(int slot, void *bytes, size_t count)
{
    test_buffer_check(&buffers[slot], slot == 0 ? "the send buffer" : "the receive buffer");
    test_buffer_read(&buffers[slot], 0, bytes, count);
}

int main(int argc, char **argv)
{
    const struct test_option own[] = {TEST_WAYS_NATIVE, {.name = NULL}};

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_ways_start();
    if (test_ways_native)
        staged = test_counter_open("coll_gpucoll_staged_calls");
    fortran_cases();
    test_counter_close(staged);
    test_ways_stop();
    return test_finish();
}
