#include "test/mpi/support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/mpi/memory.h"
#include "test/mpi/stacks.h"

enum { TAG_REPORT = 30001, TAG_VERDICT = 30002 };
enum { STACKS_S = 10 }; /* what a hung rank takes at most for its stacks, */
enum { OTHERS_S = 2 };  /* and leaves to the others for theirs */

struct test_state test = {.seed = 1, .timeout_s = 120, .loaded = -1};

/* One rank's part of a case, as it is sent to rank 0. */
struct report {
    int failures;
    int colour[TEST_SLOTS];
    uint64_t agreed[TEST_SLOTS];
    char detail[600];
};

static struct report mine;
static char case_name[200];
static char alarm_line[600];
static int results = -1; /* the file that GPUCOLL_TEST_RESULTS names */
static char skip_reason[200];
static bool skipping;
static int skipped_cases;
static bool context_first; /* the CUDA context is made before MPI_Init */
static bool release_first; /* the CUDA context, before MPI_Finalize */
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t test_mix(uint64_t word)
{
    word += 0x9e3779b97f4a7c15u;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
}

uint64_t test_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return test_mix(*state);
}

int test_draw(uint64_t *state, int below)
{
    return (int)(test_next(state) % (uint64_t)below);
}

bool test_chance(uint64_t *state, int percent)
{
    return test_draw(state, 100) < percent;
}

void test_shuffle(int *numbers, int n, uint64_t *state)
{
    for (int i = 0; i < n; i++)
        numbers[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int other = test_draw(state, i + 1);
        int kept = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = kept;
    }
}

void test_shuffle_own(int *numbers, int n, uint64_t key)
{
    uint64_t state = test_mix3(test.seed, key, (uint64_t)test.rank);

    test_shuffle(numbers, n, &state);
}

void *test_alloc(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fprintf(stderr, "test: out of memory (%zu bytes) in case %s\n", bytes, case_name);
        abort();
    }
    return memory;
}

double test_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void test_sleep(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

void test_say(const char *format, ...)
{
    char line[1200];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fputs(line, stdout);
    if (results >= 0 && write(results, line, strlen(line)) < 0)
        printf("FAIL results: GPUCOLL_TEST_RESULTS cannot be written: %s\n", strerror(errno));
}

/* A hung case: says which and where, and ends the job (mpirun kills the other ranks). No calls that wait for a lock of another thread,
 * but for what finds a function's name: a second alarm ends that. */
static void on_alarm(int number)
{
    static volatile sig_atomic_t again;

    (void)number;
    if (again)
        _exit(3);
    again = 1;
    alarm(STACKS_S);
    if (write(STDOUT_FILENO, alarm_line, strlen(alarm_line)) < 0 ||
        (results >= 0 && write(results, alarm_line, strlen(alarm_line)) < 0))
        _exit(4);
    test_stacks_print();
    test_sleep(OTHERS_S);
    _exit(3);
}

static void start_watchdog(void)
{
    struct sigaction action;

    test_stacks_start();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART | SA_NODEFER; /* the second alarm comes while the first one is handled */
    sigaction(SIGALRM, &action, NULL);
}

/* Gives the current case its name and its time. */
static void name_case(const char *name)
{
    snprintf(case_name, sizeof case_name, "%s", name);
    snprintf(alarm_line, sizeof alarm_line,
             "FAIL %s: rank %d made no progress in %d s (--timeout, --seed=%llu); it ends the job\n",
             case_name, test.rank, test.timeout_s, (unsigned long long)test.seed);
    alarm((unsigned)test.timeout_s);
}

void test_progress(const char *format, ...)
{
    char what[sizeof alarm_line / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    alarm(0);
    snprintf(alarm_line, sizeof alarm_line,
             "FAIL %s: rank %d made no progress in %d s (--timeout): %s; it ends the job\n", case_name,
             test.rank, test.timeout_s, what);
    alarm((unsigned)test.timeout_s);
}

static void usage(const struct test_option *own)
{
    fprintf(stderr,
            "options: --seed=N --only=TEXT --quick --huge --timeout=SECONDS --loaded=yes|no\n"
            "         --memory=host|pinned|device|pool|vmm|managed|mixed|split|drawn --gpu-map=local|0 "
            "--context-first --release-first\n");
    for (; own != NULL && own->name != NULL; own++)
        fprintf(stderr, "         --%s%s: %s\n", own->name, own->text != NULL ? "=..." : "", own->help);
    exit(2);
}

static bool parse_own(const char *word, const struct test_option *own)
{
    for (; own != NULL && own->name != NULL; own++) {
        size_t length = strlen(own->name);
        if (strncmp(word, own->name, length) != 0)
            continue;
        if (own->flag != NULL && word[length] == '\0') {
            *own->flag = true;
            return true;
        }
        if (own->text != NULL && word[length] == '=') {
            *own->text = word + length + 1;
            return true;
        }
    }
    return false;
}

static bool parse_one(const char *word, const struct test_option *own)
{
    if (strncmp(word, "--", 2) != 0)
        return false;
    word += 2;
    if (strncmp(word, "seed=", 5) == 0)
        test.seed = strtoull(word + 5, NULL, 0);
    else if (strncmp(word, "only=", 5) == 0)
        test.only = word + 5;
    else if (strncmp(word, "timeout=", 8) == 0)
        test.timeout_s = atoi(word + 8);
    else if (strcmp(word, "loaded=yes") == 0 || strcmp(word, "loaded=no") == 0)
        test.loaded = word[7] == 'y';
    else if (strcmp(word, "quick") == 0)
        test.quick = true;
    else if (strcmp(word, "context-first") == 0)
        context_first = true;
    else if (strcmp(word, "release-first") == 0)
        release_first = true;
    else if (strcmp(word, "huge") == 0)
        test.huge = true;
    else if (strncmp(word, "memory=", 7) == 0)
        return test_memory_parse(word + 7);
    else if (strncmp(word, "gpu-map=", 8) == 0)
        return test_memory_map(word + 8);
    else
        return parse_own(word, own);
    return true;
}

/* The program itself needs no gpucoll: what Open MPI has loaded is seen in the process's map. */
static void check_loaded(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    bool found = false;

    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        found = found || strstr(line, "/mca_coll_gpucoll.so") != NULL;
    if (maps != NULL)
        fclose(maps);
    if (!test_begin("loaded/%s", test.loaded != 0 ? "yes" : "no"))
        return;
    if (found != (test.loaded != 0))
        test_fail("gpucoll is %sloaded", found ? "" : "not ");
    test_end();
}

void test_start(int *argc, char ***argv, int thread_level, const struct test_option *own)
{
    const char *local_rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    const char *file = getenv("GPUCOLL_TEST_RESULTS");

    for (int i = 1; i < *argc; i++)
        if (!parse_one((*argv)[i], own))
            usage(own);
    test.local_rank = local_rank != NULL ? atoi(local_rank) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (file != NULL)
        results = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
    start_watchdog();
    name_case("start");
    if (context_first)
        test_memory_thread();
    MPI_Init_thread(argc, argv, thread_level, &test.thread_level);
    MPI_Comm_rank(MPI_COMM_WORLD, &test.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test.size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    test_memory_start();
    if (test.loaded >= 0)
        check_loaded();
}

bool test_begin(const char *format, ...)
{
    char name[sizeof case_name];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    if (test.only != NULL && strstr(name, test.only) == NULL)
        return false;
    memset(&mine, 0, sizeof mine);
    skipping = false;
    name_case(name);
    return true;
}

void test_fail(const char *format, ...)
{
    va_list args;
    pthread_mutex_lock(&report_lock);
    if (mine.failures++ == 0) {
        va_start(args, format);
        vsnprintf(mine.detail, sizeof mine.detail, format, args);
        va_end(args);
    }
    pthread_mutex_unlock(&report_lock);
}

void test_skip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(skip_reason, sizeof skip_reason, format, args);
    va_end(args);
    skipping = true;
}

bool test_begin_threaded(const char *name)
{
    int level;

    if (!test_begin("%s", name))
        return false;
    MPI_Query_thread(&level);
    if (level == MPI_THREAD_MULTIPLE)
        return true;
    if (test.thread_level < MPI_THREAD_MULTIPLE)
        test_skip("MPI_Init_thread gave thread level %d, not MPI_THREAD_MULTIPLE", test.thread_level);
    else
        test_fail("the thread level fell from %d to %d after MPI_Init_thread: MPI_T_init_thread sets it, too",
                  test.thread_level, level);
    test_end();
    return false;
}

void test_agree(int slot, int colour, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t *sum = &mine.agreed[slot];
    uint64_t word;

    mine.colour[slot] = colour + 1; /* 0: nothing was agreed on */
    for (; count >= sizeof word; at += sizeof word, count -= sizeof word) {
        memcpy(&word, at, sizeof word);
        *sum = (*sum ^ word) * 0x9e3779b97f4a7c15u;
        *sum ^= *sum >> 32;
    }
    word = 0;
    memcpy(&word, at, count);
    *sum = test_mix2(*sum, word + count);
}

bool test_ok(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (code == MPI_SUCCESS)
        return true;
    MPI_Error_string(code, text, &length);
    test_fail("%s returned %s", what, text);
    return false;
}

static void receive_reports(struct report *all)
{
    all[0] = mine;
    for (int rank = 1; rank < test.size; rank++)
        MPI_Recv(&all[rank], sizeof all[rank], MPI_BYTE, rank, TAG_REPORT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static bool reports_agree(const struct report *a, const struct report *b)
{
    for (int slot = 0; slot < TEST_SLOTS; slot++)
        if (a->colour[slot] == b->colour[slot] && a->agreed[slot] != b->agreed[slot])
            return false;
    return true;
}

/* The first pair of ranks that should have had the same bytes and had not. */
static bool find_disagreement(const struct report *all, char *text, size_t bytes)
{
    for (int i = 0; i < test.size; i++) {
        for (int j = i + 1; j < test.size; j++) {
            if (reports_agree(&all[i], &all[j]))
                continue;
            snprintf(text, bytes, "ranks %d and %d got different bits", i, j);
            return true;
        }
    }
    return false;
}

/* Rank 0: one line about the case. True if no rank failed. */
static bool print_case(const struct report *all)
{
    char text[sizeof all[0].detail] = "";
    int failed_ranks = 0;
    int first = -1;

    for (int rank = 0; rank < test.size; rank++) {
        if (all[rank].failures == 0)
            continue;
        failed_ranks++;
        if (first < 0)
            first = rank;
    }
    if (first >= 0) {
        test_say("FAIL %s: %s (rank %d of %d, %d failures there, %d ranks failed, --seed=%llu)\n", case_name,
                 all[first].detail, first, test.size, all[first].failures, failed_ranks,
                 (unsigned long long)test.seed);
        return false;
    }
    if (find_disagreement(all, text, sizeof text)) {
        test_say("FAIL %s: %s (--seed=%llu)\n", case_name, text, (unsigned long long)test.seed);
        return false;
    }
    if (skipping)
        test_say("SKIP %s: %s\n", case_name, skip_reason);
    else
        test_say("PASS %s\n", case_name);
    return true;
}

bool test_end(void)
{
    int passed = 1;

    if (test.rank == 0) {
        struct report *all = test_alloc((size_t)test.size * sizeof *all);
        receive_reports(all);
        passed = print_case(all);
        free(all);
        for (int rank = 1; rank < test.size; rank++)
            MPI_Send(&passed, 1, MPI_INT, rank, TAG_VERDICT, MPI_COMM_WORLD);
    } else {
        MPI_Send(&mine, sizeof mine, MPI_BYTE, 0, TAG_REPORT, MPI_COMM_WORLD);
        MPI_Recv(&passed, 1, MPI_INT, 0, TAG_VERDICT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    test.cases++;
    if (!passed)
        test.failed_cases++;
    else if (skipping)
        skipped_cases++;
    return passed != 0;
}

int test_finish(void)
{
    if (test.rank == 0)
        printf("DONE %d passed, %d failed, %d skipped\n", test.cases - test.failed_cases - skipped_cases,
               test.failed_cases, skipped_cases);
    name_case("finalize");
    if (release_first)
        test_memory_stop();
    MPI_Finalize();
    test_memory_stop();
    alarm(0);
    if (test.cases == 0 && test.rank == 0)
        test_say("FAIL no case ran: is --only=%s right?\n", test.only != NULL ? test.only : "");
    return test.failed_cases > 0 || test.cases == 0;
}
