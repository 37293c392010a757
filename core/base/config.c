/*
 * The table of configuration rows, and what reads it: defaults, parsing and checking.
 */
#include "core/base/config.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "core/base/hash.h"

#define ROW(field, kind, default_text, accepted, mpi_t_level, sentence)                                      \
    {                                                                                                        \
        .name = #field, .type = GPUCOLL_CONFIG_##kind, .offset = offsetof(struct gpucoll_config, field),     \
        .initial = default_text, .values = accepted, .level = mpi_t_level, .help = sentence,                 \
    }

/* The ranks of a communicator make plans, and what they agree on, from it. */
#define EQUAL(field, kind, default_text, accepted, mpi_t_level, sentence)                                    \
    {                                                                                                        \
        .name = #field, .type = GPUCOLL_CONFIG_##kind, .offset = offsetof(struct gpucoll_config, field),     \
        .initial = default_text, .values = accepted, .level = mpi_t_level, .equal = true,                    \
        .help = sentence " Must be equal on all ranks.",                                                     \
    }

#define ALGORITHM(coll, word, function)                                                                      \
    {                                                                                                        \
        .name = #word "_algorithm", .type = GPUCOLL_CONFIG_STRING,                                           \
        .offset = offsetof(struct gpucoll_config, algorithm[GPUCOLL_##coll]), .initial = "auto", .level = 3, \
        .equal = true,                                                                                       \
        .help = "Algorithm of " function                                                                     \
                ": a name, names by size such as NAME:64K,NAME, or auto (the least predicted time). Must "   \
                "be equal on all ranks.",                                                                    \
    }
_Static_assert(GPUCOLL_COLL_COUNT == 21, "every collective has its row ALGORITHM");

const struct gpucoll_config_row gpucoll_config_rows[] = {
    ROW(enable, BOOL, "true", NULL, 1,
        "Whether gpucoll takes part at all; false leaves every call to the other components."),
    ROW(priority, INT, "95", "0..100", 3,
        "Priority of the component: the collectives go to the highest one; hcoll has 90."),
    ROW(verbose, INT, "0", "0..100", 1,
        "How much is said on standard error: 0 warnings, 1 what was found and chosen at set-up, 5 each new "
        "plan with the alternatives, 20 every call that runs natively or is staged."),
    ROW(accelerator, STRING, "auto", "auto|cuda|host|none", 2,
        "What holds the buffers: cuda, host (host memory treated as device memory, for tests without a GPU), "
        "none, or auto (cuda if there is a GPU)."),
    ROW(host_memory, STRING, "device", "device|host", 9,
        "What ordinary memory counts as when the accelerator is host."),
    ROW(host_devices, INT, "0", "0..1024", 9,
        "With the accelerator host, how many devices the processes of a machine pretend to share; 0 gives "
        "each process its own."),
    ROW(host_mps, BOOL, "false", NULL, 9,
        "With the accelerator host, whether a shared device pretends to run the kernels of several processes "
        "at the same time, as a GPU does under MPS."),
    ROW(host_resident, INT, "0", "0..128", 9,
        "With the accelerator host, how many CTAs of a kernel a device pretends to hold at once, as a slice "
        "of a GPU does; 0: as many as there may be."),
    ROW(host_free_waits, BOOL, "false", NULL, 9,
        "With the accelerator host, whether freeing device memory waits for the kernels that run and holds "
        "up launches "
        "meanwhile, as cudaFree does: for tests."),
    EQUAL(hosts, INT, "0", "0..1024", 9,
        "How many hosts the processes of one machine pretend to be, each a contiguous part of a "
        "communicator's ranks, for tests of what goes over the network; 0 or 1 takes hosts as they are."),
    EQUAL(agree_hosts, BOOL, "true", NULL, 5,
        "Whether the hosts of a communicator tell each other before each call whether they can run it and "
        "with which arguments. Without it a call starts some microseconds earlier, but buffers that differ "
        "in kind from host to host end in a timeout."),
    EQUAL(carry, INT, "4096", "0..4096", 5,
        "The most bytes of a call of several hosts that go along with what the hosts tell each other before "
        "it: then there is nothing left to exchange after it. Blocks of all ranks count together, of an "
        "all-to-all all that the ranks of a host send. Scans, and calls with blocks whose lengths not all "
        "ranks know (gatherv, scatterv, alltoallv, alltoallw and neighborhood collectives), do not. At most "
        "16384 bytes divided by the number of hosts go so, and 256 on communicators beyond 64 of a process; 0: none."),
    EQUAL(flat, INT, "32768", "0..1048576", 5,
        "The most bytes, of all ranks of the largest host together, of an all-reduce, reduce or broadcast of "
        "several hosts that goes from rank to rank through host memory, without calls within each host "
        "before and after. Only hosts of 2 to 4 ranks; 0: none."),
    EQUAL(transports, STRING, "all", NULL, 3,
        "Transport layers that may be used, separated by commas (gpucoll_info lists them), or all, or none. "
        "Without rdma, communicators of several hosts are left to the next component; rdma alone takes every "
        "rank for a host of its own."),
    EQUAL(p2p_level, STRING, "auto", "auto|nvlink|switch|bridge|socket|system", 3,
        "How far GPUs may be from each other to store into each other's memory: nvlink (not over PCIe at "
        "all), "
        "switch (below one PCIe switch), bridge (one host bridge), socket, system (anywhere on the host); "
        "auto "
        "is system, and the cost model takes host memory where that is faster."),
    ROW(net_devices, STRING, "auto", NULL, 3,
        "Network devices that carry data between hosts, separated by commas, as UCX or the system names them "
        "(mlx5_0:1, eth0; gpucoll_info --network lists them), all, or auto: the fastest kind, nearest to the "
        "process, "
        "never loopback or the bridges of containers while there are others."),
    EQUAL(net_ties, INT, "0", "0..8", 5,
        "How many connections two processes on different hosts have for their long messages; 0: four over "
        "TCP, "
        "whose bytes are moved by cores, else one. Each but the first has a thread of its own on either "
        "side."),
    ROW(net_gpu_memory, STRING, "auto", "auto|yes|no", 3,
        "Whether messages between hosts go from and to the memory of GPUs, where nothing is summed: auto, "
        "where UCX "
        "takes that memory and the chosen network devices register it (InfiniBand, RoCE); yes, wherever UCX "
        "takes "
        "it, which over TCP goes through host memory of UCX's; no, always through host memory of gpucoll's."),
    EQUAL(rail_algorithm, STRING, "auto", "auto|doubling|ring|tree", 5,
        "Algorithm between hosts: doubling (recursive doubling, binomial trees, dissemination), ring (of "
        "scans, "
        "bcast and reduce: a chain), tree (double binary tree; of allreduce, reduce and bcast, others as "
        "with "
        "auto), or auto: by bytes and number of hosts."),
    ROW(topology_file, STRING, "", NULL, 5,
        "A file that describes the machine to plan for, as gpucoll_info --topology-xml writes it, in place "
        "of "
        "this machine: the costs of links, and so the choice of algorithms, come from it. Empty: this "
        "machine."),
    ALGORITHM(ALLREDUCE, allreduce, "MPI_Allreduce"),
    ALGORITHM(ALLGATHER, allgather, "MPI_Allgather"),
    ALGORITHM(ALLGATHERV, allgatherv, "MPI_Allgatherv"),
    ALGORITHM(ALLTOALL, alltoall, "MPI_Alltoall"),
    ALGORITHM(ALLTOALLV, alltoallv, "MPI_Alltoallv"),
    ALGORITHM(ALLTOALLW, alltoallw, "MPI_Alltoallw"),
    ALGORITHM(BCAST, bcast, "MPI_Bcast"),
    ALGORITHM(EXSCAN, exscan, "MPI_Exscan"),
    ALGORITHM(GATHER, gather, "MPI_Gather"),
    ALGORITHM(GATHERV, gatherv, "MPI_Gatherv"),
    ALGORITHM(NEIGHBOR_ALLGATHER, neighbor_allgather, "MPI_Neighbor_allgather"),
    ALGORITHM(NEIGHBOR_ALLGATHERV, neighbor_allgatherv, "MPI_Neighbor_allgatherv"),
    ALGORITHM(NEIGHBOR_ALLTOALL, neighbor_alltoall, "MPI_Neighbor_alltoall"),
    ALGORITHM(NEIGHBOR_ALLTOALLV, neighbor_alltoallv, "MPI_Neighbor_alltoallv"),
    ALGORITHM(NEIGHBOR_ALLTOALLW, neighbor_alltoallw, "MPI_Neighbor_alltoallw"),
    ALGORITHM(REDUCE, reduce, "MPI_Reduce"),
    ALGORITHM(REDUCE_SCATTER, reduce_scatter, "MPI_Reduce_scatter"),
    ALGORITHM(REDUCE_SCATTER_BLOCK, reduce_scatter_block, "MPI_Reduce_scatter_block"),
    ALGORITHM(SCAN, scan, "MPI_Scan"),
    ALGORITHM(SCATTER, scatter, "MPI_Scatter"),
    ALGORITHM(SCATTERV, scatterv, "MPI_Scatterv"),
    EQUAL(protocol, STRING, "auto", NULL, 3,
        "Protocol of the kernels, for the collectives that have an algorithm by it: ll (4 bytes of data and "
        "4 of flag in each 8), ll128 (112 bytes of data in each 128; NVLink), simple (plain stores, then a "
        "flag), direct (stores into the application's buffers), bulk (the same and loads from them, by few "
        "SMs), copy (copy engines), host (copy engines, through host memory), or auto."),
    ROW(tuning_file, STRING, "", NULL, 3,
        "File with constants of the cost model, by which algorithms are chosen, as gpucoll_info --tune "
        "writes it; "
        "empty for the constants built in."),
    EQUAL(linger, INT, "20", "0..10000", 5,
        "Microseconds that the kernel of a call stays on the GPU and waits for the next call, which it then "
        "serves without a launch; in bulk, where a rank that has to launch its kernel is late, up to 30 more, "
        "and of small calls that go through host memory twice as long. It may delay cudaDeviceSynchronize by "
        "as much. 0 turns lingering off."),
    EQUAL(linger_ctas, INT, "32", "1..32", 5,
        "Most CTAs of a kernel that stays so; fewer leave more of the GPU to the application, and take "
        "longer for calls of some 100 KiB and more."),
    EQUAL(early, BOOL, "true", NULL, 5,
        "Whether small all-reduces that a communicator makes again and again begin before it is known that all "
        "ranks have made the call, which spares each of them half a microsecond."),
    EQUAL(channels, INT, "0", "0..128", 5,
        "CTAs (channels) of every kernel, whatever the message's size and max_ctas, as far as a lane has "
        "room for their blocks and the GPU for all of them at once; 0 lets the plan decide."),
    EQUAL(max_ctas, INT, "128", "1..128", 5,
        "Most CTAs (channels) that one kernel uses; fewer leave more of the GPU to the application. Above 64 "
        "plans have 128, of half as many threads each, for large messages, or else 64."),
    ROW(gates, STRING, "auto", "auto|always|never", 5,
        "Which kernels that wait for other ranks ask the host before they begin, and make way where calls "
        "would wait for each other in a circle: auto, those that run beside another call of their process, "
        "and with MPI_THREAD_MULTIPLE all once NCCL is loaded in it; always; or never. A call does if it "
        "does on one rank. Such calls take some microseconds longer, and do not linger."),
    EQUAL(chunk, SIZE, "0", "0..1G", 5,
        "Bytes of a chunk of the algorithms whose protocol is copy (pair: of the last one, each being half of "
        "what is left), rounded up to 4K and at most what the scratch area holds, and, up to 1M, of what goes "
        "between hosts at once along a rail or from rank to rank: small ones overlap earlier, large ones take "
        "fewer copies. 0 lets the plan decide."),
    ROW(copy_queues, INT, "2", "1..4", 5,
        "Queues in which a reduction that goes by copy engines puts its copies by turns: copies in one go "
        "one "
        "after another, those in several side by side."),
    EQUAL(threads, INT, "512", "32..512", 5,
        "Threads of each CTA; rounded down to whole warps, and at least 96 where warps have roles (rings and "
        "trees over simple, "
        "two-shot over direct)."),
    EQUAL(lanes, INT, "4", "1..64", 5,
        "How many calls of one process can run natively at the same time; further ones wait for one of "
        "these to end, or are staged through host memory where that might be never. Calls that overlap "
        "have that part each of the CTAs that fit on a GPU."),
    EQUAL(scratch_bytes, SIZE, "0", "0..4G", 5,
        "Size of the scratch area of each lane on the device, used by the bandwidth kernels, at least 1M; 0 "
        "takes "
        "what the accelerator prefers (64M on a GPU)."),
    EQUAL(shm_bytes, SIZE, "16M", "256K..1G", 5,
        "Size of the area in pinned host memory through which each lane moves its data by the transports shm "
        "and cpu_reduce; it is made only where one of them is used."),
    ROW(cpu_threads, INT, "-1", "-1..256", 4,
        "Threads of each process that sum by the transport cpu_reduce, beside the thread that is in the MPI "
        "call; -1 takes a fair share, among the job's processes of the host, of the cores that the process may "
        "run on and of the CPU time of its control group, at most 4."),
    ROW(pack_bytes, SIZE, "8G", "0..1T", 5,
        "Most memory of each GPU that is taken to pack buffers of non-contiguous datatypes; a call that "
        "needs "
        "more is staged through host memory. 0 stages all of them."),
    EQUAL(neighborhood, BOOL, "true", NULL, 3,
        "Whether neighborhood collectives run natively; else they are staged. Natively they wait, as other "
        "collectives do, until all ranks of the communicator have come to the call; staged only for "
        "neighbors."),
    EQUAL(nonblocking, BOOL, "true", NULL, 3,
        "Whether nonblocking and persistent collectives run natively; else they are staged."),
    ROW(progress_thread, BOOL, "true", NULL, 4,
        "Whether a thread of gpucoll moves nonblocking and persistent collectives on while the application "
        "computes; without it they move when the application calls MPI. It sleeps while there are none."),
    ROW(zero_copy, SIZE, "128K", "0..1T", 5,
        "Least size of a call whose result peers may write straight into the application's buffer, and whose "
        "data they may read from it; a buffer is mapped by them when it is used for the second time. 0 turns "
        "it off."),
    EQUAL(warmup, STRING, "lazy", "init|comm|lazy", 3,
        "When a communicator is made ready for native calls: lazy, in the first call that can run natively; "
        "init, MPI_COMM_WORLD, in MPI_Init where every process knows its GPU by then (that of its context, "
        "or the only one that it sees), else in the background, others as with lazy; comm, the same, and "
        "every communicator in the background after it is created. The background is every call of MPI. On one "
        "host MPI_Init rehearses small sums, whose kernel stays for 0.5 ms, unless linger is 0, for a first call."),
    ROW(timeout, INT, "300", "0..1000000", 2,
        "Seconds to wait for a rank that does not arrive before the call fails with a message that names it; "
        "0 waits for ever."),
    ROW(sync_device, BOOL, "false", NULL, 4,
        "Debugging aid: wait for all work of the device before each call, to tell whether the application "
        "forgot to."),
    EQUAL(deterministic, BOOL, "false", NULL, 3,
        "Results of reductions whose bits depend on the contributions and the number of ranks alone, not on "
        "message "
        "size, algorithm, memory or transport: only algorithms that reduce in rank order are used, and calls "
        "that "
        "do not run natively are reduced in rank order on the host."),
    ROW(summary, STRING, "none", NULL, 2,
        "What is said of the calls when MPI ends: none; rank0 or all (a table on standard error); or the "
        "name of a "
        "file for the same as JSON, with %r for the rank, %p for the process, %h for the host: without %r "
        "and %p "
        "rank 0 alone writes it."),
};

const int gpucoll_config_row_count = sizeof(gpucoll_config_rows) / sizeof(gpucoll_config_rows[0]);

/* A number as Open MPI writes it, with an optional binary suffix: 4096, 0x1000, 64K, 16M, 1G. */
static bool parse_number(const char *text, bool suffix_allowed, long long *value)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 0);
    if (errno || end == text) {
        return false;
    }
    static const char suffixes[] = "kmgt";
    const char *suffix = *end ? strchr(suffixes, *end | 0x20) : NULL;
    if (suffix && suffix_allowed) {
        int shift = 10 * (int)(suffix - suffixes + 1);
        if (*value < 0 || *value > LLONG_MAX >> shift) {
            return false;
        }
        *value <<= shift;
        end++;
    }
    return *end == '\0';
}

bool gpucoll_config_parse_size(const char *text, uint64_t *bytes)
{
    long long value = 0;
    if (!parse_number(text, true, &value) || value < 0) {
        return false;
    }
    *bytes = (uint64_t)value;
    return true;
}

/* As Open MPI does. */
static bool parse_bool(const char *text, bool *value)
{
    static const char *const words[] = {"false", "f", "no",  "n", "disabled", "0",
                                        "true",  "t", "yes", "y", "enabled",  "1"};
    enum { WORDS = sizeof words / sizeof words[0] };
    for (int i = 0; i < WORDS; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value = i >= WORDS / 2;
            return true;
        }
    }
    return false;
}

/* Is the number inside "low..high"? Either end may be left out. */
static bool in_range(const char *range, long long number)
{
    char low[32];
    const char *dots = strstr(range, "..");
    snprintf(low, sizeof(low), "%.*s", (int)(dots - range), range);
    long long limit;
    if (parse_number(low, true, &limit) && number < limit) {
        return false;
    }
    return !(parse_number(dots + 2, true, &limit) && number > limit);
}

/* Is the word one of "a|b|c"? */
static bool in_list(const char *list, const char *word)
{
    size_t length = strlen(word);
    while (list) {
        size_t item = strcspn(list, "|");
        if (item == length && strncmp(list, word, length) == 0) {
            return true;
        }
        list = list[item] ? list + item + 1 : NULL;
    }
    return false;
}

static void *field_of(struct gpucoll_config *config, const struct gpucoll_config_row *row)
{
    return (char *)config + row->offset;
}

static const struct gpucoll_config_row *find(const char *name)
{
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        if (strcmp(gpucoll_config_rows[i].name, name) == 0) {
            return &gpucoll_config_rows[i];
        }
    }
    return NULL;
}

/* Sets the field if `text` is accepted. */
static bool assign(struct gpucoll_config *config, const struct gpucoll_config_row *row, const char *text)
{
    void *field = field_of(config, row);
    long long number = 0;
    switch (row->type) {
    case GPUCOLL_CONFIG_BOOL:
        return parse_bool(text, field);
    case GPUCOLL_CONFIG_INT:
        if (!parse_number(text, false, &number) || number < INT_MIN || number > INT_MAX ||
            (row->values && !in_range(row->values, number))) {
            return false;
        }
        *(int *)field = (int)number;
        return true;
    case GPUCOLL_CONFIG_SIZE:
        if (!parse_number(text, true, &number) || number < 0 ||
            (row->values && !in_range(row->values, number))) {
            return false;
        }
        *(size_t *)field = (size_t)number;
        return true;
    case GPUCOLL_CONFIG_STRING:
        if (row->values && !in_list(row->values, text)) {
            return false;
        }
        *(char **)field = (char *)text;
        return true;
    }
    return false;
}

void gpucoll_config_init(struct gpucoll_config *config)
{
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        assign(config, &gpucoll_config_rows[i], gpucoll_config_rows[i].initial);
    }
}

gpucoll_status gpucoll_config_set(struct gpucoll_config *config, const char *name, const char *text)
{
    const struct gpucoll_config_row *row = find(name);
    return row && assign(config, row, text) ? GPUCOLL_OK : GPUCOLL_ERR_INVALID;
}

/* Writes the field's value as text into `buffer`; true if its row accepts it. */
static bool acceptable(struct gpucoll_config *config, const struct gpucoll_config_row *row, char *buffer,
                       size_t buffer_bytes)
{
    const void *field = field_of(config, row);
    switch (row->type) {
    case GPUCOLL_CONFIG_BOOL:
        return true;
    case GPUCOLL_CONFIG_INT:
        snprintf(buffer, buffer_bytes, "%d", *(const int *)field);
        return !row->values || in_range(row->values, *(const int *)field);
    case GPUCOLL_CONFIG_SIZE: {
        size_t value = *(const size_t *)field;
        snprintf(buffer, buffer_bytes, "%zu", value);
        return value <= LLONG_MAX && (!row->values || in_range(row->values, (long long)value));
    }
    case GPUCOLL_CONFIG_STRING: {
        const char *value = *(char *const *)field;
        snprintf(buffer, buffer_bytes, "%s", value ? value : "");
        return value && (!row->values || in_list(row->values, value));
    }
    }
    return false;
}

void gpucoll_config_check(struct gpucoll_config *config, const struct gpucoll_log *log)
{
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const struct gpucoll_config_row *row = &gpucoll_config_rows[i];
        char value[256];
        if (acceptable(config, row, value, sizeof(value))) {
            continue;
        }
        /* A string that was never set is not the user's mistake. */
        if (row->type != GPUCOLL_CONFIG_STRING || *(char **)field_of(config, row)) {
            gpucoll_help(log, "bad-parameter", row->name, value, row->values ? row->values : "any text",
                         row->initial);
        }
        assign(config, row, row->initial);
    }
}

static uint64_t hash_field(const struct gpucoll_config_row *row, const void *field, uint64_t seed)
{
    switch (row->type) {
    case GPUCOLL_CONFIG_BOOL:
        return gpucoll_hash(seed, field, sizeof(bool));
    case GPUCOLL_CONFIG_INT:
        return gpucoll_hash(seed, field, sizeof(int));
    case GPUCOLL_CONFIG_SIZE:
        return gpucoll_hash(seed, field, sizeof(size_t));
    case GPUCOLL_CONFIG_STRING: {
        const char *text = *(char *const *)field;
        return gpucoll_hash(seed, text, strlen(text) + 1);
    }
    }
    return seed;
}

uint64_t gpucoll_config_hash(const struct gpucoll_config *config)
{
    uint64_t value = gpucoll_hash_seed;
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const struct gpucoll_config_row *row = &gpucoll_config_rows[i];
        if (row->equal) {
            value = hash_field(row, (const char *)config + row->offset, value);
        }
    }
    return value;
}
