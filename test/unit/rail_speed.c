/*
 * How long collectives of a rail take between processes of this machine, over the network that gpucoll would take. For tuning by hand:
 *   rail_speed [--hosts=2] [--devices=lo] [--coll=allreduce] [--bytes=8,65536,1048576,67108864] [--seconds=0.5]
 * A line for each size: the bytes, then for each algorithm and for AUTO (and what that is) the microseconds of a call.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <stdatomic.h>
#include "core/base/clock.h"
#include "core/base/types.h"
#include "core/rail/rail.h"

enum { MOST_HOSTS = 64, MOST_SIZES = 32, MOST_CALLS = 100, ALGORITHMS = GPUCOLL_RAIL_TREE + 1 };

static const char *const colls[] = {"allreduce", "reduce", "bcast", "allgather", "reduce_scatter", "barrier"};
static const char *const algorithms[ALGORITHMS] = {"auto", "doubling", "ring", "tree"};

static struct {
    uint32_t hosts;
    const char *devices;
    enum gpucoll_rail_coll coll;
    uint64_t bytes[MOST_SIZES];
    int sizes;
    double seconds;
} options = {2, "lo", GPUCOLL_RAIL_ALLREDUCE, {8, 65536, 1 << 20, 64 << 20}, 4, 0.5};

/* What the processes share. */
struct shared {
    struct gpucoll_net_address address[MOST_HOSTS];
    _Atomic uint32_t arrived; /* at the meeting of all */
    double us[MOST_HOSTS];
    double first_us; /* a guess at a call, by rank 0 */
};
static struct shared *shared;

static void meet(uint32_t *meetings)
{
    atomic_fetch_add(&shared->arrived, 1);
    ++*meetings;
    while (atomic_load(&shared->arrived) < *meetings * options.hosts) {
        usleep(10);
    }
}

static void must(gpucoll_status status, const char *what)
{
    if (status != GPUCOLL_OK) {
        fprintf(stderr, "rail_speed: %s: %s\n", what, gpucoll_status_name(status));
        exit(1);
    }
}

static void connect_all(struct gpucoll_rail *rail, const struct gpucoll_config *config,
                        const struct gpucoll_log *log, uint32_t *meetings)
{
    static struct gpucoll_net_peer *peers[MOST_HOSTS];
    static uint32_t ids[MOST_HOSTS];
    const struct gpucoll_net_place place = {.local_rank = -1};
    rail->ops = &gpucoll_net_ucx;
    rail->size = options.hosts;
    rail->peer = peers;
    rail->peer_id = ids;
    must(rail->ops->open(config, log, &place, &rail->net), "the network cannot be opened");
    rail->ops->address(rail->net, &shared->address[rail->rank]);
    meet(meetings);
    for (uint32_t rank = 0; rank < rail->size; rank++) {
        if (rank != rail->rank) {
            must(rail->ops->connect(rail->net, &shared->address[rank], &peers[rank]),
                 "a peer is not reached");
        }
    }
}

static void call(struct gpucoll_rail *rail, const struct gpucoll_rail_args *args)
{
    struct gpucoll_rail_run *run;
    uint32_t missing;
    gpucoll_status status;
    must(gpucoll_rail_start(rail, args, &run), "a run cannot start");
    while ((status = gpucoll_rail_test(run, &missing)) == GPUCOLL_IN_PROGRESS) {
        sched_yield(); /* there may be fewer processors than processes */
    }
    must(status, "a run failed");
}

static double calls_us(struct gpucoll_rail *rail, const struct gpucoll_rail_args *args, int calls)
{
    const uint64_t begin = gpucoll_now_ns();
    for (int i = 0; i < calls; i++) {
        call(rail, args);
    }
    return (double)(gpucoll_now_ns() - begin) / 1000 / calls;
}

/* The best of some batches: what else the machine does comes and goes. Within a batch, calls follow each other. */
static double best_us(struct gpucoll_rail *rail, const struct gpucoll_rail_args *args, uint32_t *meetings)
{
    enum { BATCHES = 20 };
    (void)calls_us(rail, args, 1);
    const double guess = calls_us(rail, args, 3);
    if (rail->rank == 0) {
        shared->first_us = guess;
    }
    meet(meetings);
    const double fits = options.seconds * 1e6 / shared->first_us / BATCHES;
    const int calls = fits < 1 ? 1 : fits > MOST_CALLS ? MOST_CALLS : (int)fits;
    double best = shared->first_us;
    for (int i = 0; i < BATCHES; i++) {
        meet(meetings);
        (void)calls_us(rail, args, 1);
        const double us = calls_us(rail, args, calls);
        best = us < best ? us : best;
    }
    shared->us[rail->rank] = best;
    meet(meetings);
    double slowest = 0;
    for (uint32_t rank = 0; rank < options.hosts; rank++) {
        slowest = shared->us[rank] > slowest ? shared->us[rank] : slowest;
    }
    meet(meetings);
    return slowest;
}

static void measure(struct gpucoll_rail *rail, uint32_t *meetings)
{
    for (int i = 0; i < options.sizes; i++) {
        uint64_t blocks[MOST_HOSTS];
        const uint64_t block = options.bytes[i] / options.hosts / sizeof(float) * sizeof(float);
        for (uint32_t rank = 0; rank < options.hosts; rank++) {
            blocks[rank] = block;
        }
        struct gpucoll_rail_args args = {.coll = options.coll,
                                         .functor = gpucoll_functor(GPUCOLL_SUM, GPUCOLL_FLOAT32),
                                         .data = calloc(1, options.bytes[i] + 1),
                                         .bytes = options.bytes[i],
                                         .blocks = blocks};
        must(args.data != NULL ? GPUCOLL_OK : GPUCOLL_ERR_NO_MEMORY, "the data");
        double us[ALGORITHMS];
        for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++) {
            args.algorithm = (enum gpucoll_rail_algorithm)algorithm;
            us[algorithm] = best_us(rail, &args, meetings);
        }
        if (rail->rank == 0) {
            const int chosen = (int)gpucoll_rail_choose(options.coll, rail->size, options.bytes[i]);
            printf("%12llu  %10.1f  %10.1f  %10.1f  %10.1f (%s)\n", (unsigned long long)options.bytes[i],
                   us[1], us[2], us[3], us[0], algorithms[chosen]);
            fflush(stdout);
        }
        free(args.data);
    }
}

static int run_rank(uint32_t rank)
{
    struct gpucoll_config config;
    struct gpucoll_log log;
    struct gpucoll_rail rail = {.rank = rank};
    uint32_t meetings = 0;
    gpucoll_config_init(&config);
    must(gpucoll_config_set(&config, "net_devices", options.devices), options.devices);
    gpucoll_log_stderr(&log, 0, NULL);
    connect_all(&rail, &config, &log, &meetings);
    if (rank == 0) {
        printf("%s of %u, microseconds\n%12s  %10s  %10s  %10s  %10s\n", colls[options.coll], options.hosts,
               "bytes", algorithms[1], algorithms[2], algorithms[3], algorithms[0]);
    }
    measure(&rail, &meetings);
    gpucoll_rail_close(&rail);
    for (uint32_t peer = 0; peer < rail.size; peer++) {
        if (peer != rank) {
            rail.ops->disconnect(rail.net, rail.peer[peer]);
        }
    }
    rail.ops->close(rail.net);
    return 0;
}

static bool is_option(const char *argument, const char *name, const char **value)
{
    const size_t length = strlen(name);
    *value = argument + length;
    return strncmp(argument, name, length) == 0;
}

static bool take_option(const char *argument)
{
    const char *value;
    char *end;
    if (is_option(argument, "--hosts=", &value)) {
        options.hosts = (uint32_t)atoi(value);
        return options.hosts >= 1 && options.hosts <= MOST_HOSTS;
    }
    if (is_option(argument, "--devices=", &value)) {
        options.devices = value;
        return true;
    }
    if (is_option(argument, "--seconds=", &value)) {
        options.seconds = atof(value);
        return true;
    }
    if (is_option(argument, "--bytes=", &value)) {
        for (options.sizes = 0; options.sizes < MOST_SIZES && *value != 0; options.sizes++) {
            options.bytes[options.sizes] = strtoull(value, &end, 10);
            value = *end == ',' ? end + 1 : end + strlen(end);
        }
        return true;
    }
    if (is_option(argument, "--coll=", &value)) {
        for (size_t i = 0; i < sizeof colls / sizeof *colls; i++) {
            if (strcmp(value, colls[i]) == 0) {
                options.coll = (enum gpucoll_rail_coll)i;
                return true;
            }
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!take_option(argv[i])) {
            fprintf(stderr, "rail_speed: unknown option or value: %s\n", argv[i]);
            return 2;
        }
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("rail_speed: mmap");
        return 1;
    }
    for (uint32_t rank = 1; rank < options.hosts; rank++) {
        if (fork() == 0) {
            return run_rank(rank);
        }
    }
    int result = run_rank(0);
    int status;
    while (wait(&status) > 0) {
        result |= status != 0;
    }
    return result;
}
