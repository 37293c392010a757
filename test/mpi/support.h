/*
 * What the MPI test programs share: options, cases and their report, random numbers that every rank can
 * recompute, and MPI's persistent collectives under one name.
 *
 * A program tests cases. Within a case each rank notes its failures; test_end gathers them on rank 0, which
 * prints one line: `PASS case`, `FAIL case: detail (rank, seed)` or `SKIP case: why`. The report travels by
 * point-to-point messages only, so that a wrong collective cannot hide itself. The line goes to the file, too, that GPUCOLL_TEST_RESULTS names
 * if there is one: mpirun mingles what ranks print with what libraries say.
 */
#ifndef GPUCOLL_TEST_MPI_SUPPORT_H
#define GPUCOLL_TEST_MPI_SUPPORT_H

#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define TEST_PERSISTENT(Name) MPI_##Name##_init
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define TEST_PERSISTENT(Name) MPIX_##Name##_init
#endif

struct test_state {
    int rank;
    int size;
    int local_rank;   /* among the ranks of this host */
    int thread_level; /* that MPI_Init_thread has given */
    uint64_t seed;
    bool quick;
    bool huge;
    const char *only; /* run the cases whose name contains this */
    int timeout_s;    /* of one case */
    int loaded;       /* gpucoll must be loaded: 1 yes, 0 no, -1 as it is */
    int cases;
    int failed_cases; /* correct on every rank after each test_end */
};

extern struct test_state test;

/* A program's own option: `--name` (then `*flag` becomes true) or `--name=value` (then `*text` is set). */
struct test_option {
    const char *name;
    bool *flag;
    const char **text;
    const char *help;
};

/* Reads the options (the program's own rows end with a NULL name), then calls MPI_Init_thread. On a bad
 * option prints the list of options and exits with 2. */
void test_start(int *argc, char ***argv, int thread_level, const struct test_option *own);
/* Prints `DONE passed failed skipped`, finalises MPI; the result is main's. */
int test_finish(void);

/* Prints a line `FAIL ...` of something that is no case's; PASS, FAIL and SKIP of cases go the same way. */
void test_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Starts a case; false if `--only` leaves it out. */
bool test_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a case in which several threads call MPI: where Open MPI has not allowed that from the start, it is skipped; where it does
 * not any more, it fails. */
bool test_begin_threaded(const char *name);
/* Within a long case: says what is done now, should that hang, and gives it the whole time. */
void test_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Notes a failure of this rank in the current case; the first one's text is printed. Any thread. */
void test_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The current case cannot be run here; call it alike on all ranks. */
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Collective over MPI_COMM_WORLD. True if the case passed everywhere. */
bool test_end(void);
/* The ranks that call this with the same slot and colour must have passed the same bytes in a case, which
 * test_end checks. A rank keeps one colour for a slot. */
enum { TEST_SLOTS = 16 };
void test_agree(int slot, int colour, const void *bytes, size_t count);
/* True if `code` is MPI_SUCCESS, else the failure is noted with `what`. */
bool test_ok(int code, const char *what);

/* splitmix64's finaliser: a good hash of one word. */
uint64_t test_mix(uint64_t word);
static inline uint64_t test_mix2(uint64_t a, uint64_t b)
{
    return test_mix(test_mix(a) + b);
}
static inline uint64_t test_mix3(uint64_t a, uint64_t b, uint64_t c)
{
    return test_mix(test_mix2(a, b) + c);
}
/* A sequence: each call moves `*state` on. */
uint64_t test_next(uint64_t *state);
/* From 0 to below - 1. */
int test_draw(uint64_t *state, int below);
/* True `percent` times in a hundred. */
bool test_chance(uint64_t *state, int percent);
/* `numbers` becomes 0 to n - 1 in a drawn order (Fisher and Yates): of the state's, or of this rank's own, by test.seed and the key. */
void test_shuffle(int *numbers, int n, uint64_t *state);
void test_shuffle_own(int *numbers, int n, uint64_t key);

/* malloc that ends the program when there is no memory. */
void *test_alloc(size_t bytes);
double test_seconds(void);
void test_sleep(double seconds);

#endif
