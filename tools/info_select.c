/*
 * --select and --explain: ask the selector itself, with a team that is described rather than made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/accel/host.h"
#include "core/plan/algorithm.h"
#include "core/plan/selector.h"
#include "core/topology/topology.h"
#include "tools/gpu_list.h"
#include "tools/gpucoll_info.h"
#include "tools/info_hosts.h"
#include "tools/info_query.h"
#include "ucx_tl/tl.h"

/* What the preferred transport says of two devices of one host. The host accelerator lends the devices: describing a
 * team must not touch a GPU. */
static void ask_transport(const struct info *info, struct gpucoll_plan_input *input)
{
    struct gpucoll_accel *accel = NULL;
    struct gpucoll_device *device[2] = {NULL, NULL};
    struct gpucoll_tl_cost cost = {.reachable = false};
    const struct gpucoll_accel_ops *ops = &gpucoll_accel_host;
    if (ops->open(&info->config, &info->log, &accel) != GPUCOLL_OK) {
        return;
    }
    if (ops->device_open(accel, NULL, &device[0]) == GPUCOLL_OK &&
        ops->device_open(accel, NULL, &device[1]) == GPUCOLL_OK) {
        struct gpucoll_tl_card card;
        memset(&card, 0, sizeof(card));
        ops->device_id(device[1], &card.device);
        gpucoll_tl_choose(info->config.transports, GPUCOLL_TL_STORES, device[0], &card, &cost);
    }
    for (int i = 0; i < 2; i++) {
        if (device[i]) {
            ops->device_close(device[i]);
        }
    }
    ops->close(accel);
    input->crew = GPUCOLL_CREW_CTAS;
    input->whole_lines = cost.whole_lines;
    input->latency_us = cost.latency_us;
    input->bandwidth = cost.bandwidth;
}

/* Of GPUs that NVLink does not join a job asks the topology (gpucoll_context_know_way), and so does this. */
static void ask_machine(const struct info *info, const struct info_machine *machine, struct query *query)
{
    struct gpucoll_plan_input *input = &query->input;
    struct gpucoll_topology_links links = {.path = GPUCOLL_PATH_ACROSS};
    struct gpucoll_tl_cost cost;
    if (machine->gpus < 2 || machine->nvlink || info->config.topology_file[0] != '\0' ||
        strcmp(info->config.accelerator, "host") == 0) {
        return;
    }
    gpucoll_p2p_assume(GPUCOLL_LINK_PCIE, &cost);
    const bool known = info_machine_links(&links) && links.bandwidth > 0;
    input->whole_lines = false;
    input->latency_us = known ? links.latency_us : cost.latency_us;
    input->bandwidth = known ? links.bandwidth : cost.bandwidth;
    query->peer_access &= gpucoll_topology_stores_may(info->config.p2p_level, GPUCOLL_LINK_PCIE,
                                                      known ? links.path : GPUCOLL_PATH_ACROSS);
}

static void size_text(uint64_t bytes, char *text, size_t text_bytes)
{
    static const char *const units[] = {"", "K", "M", "G"};
    int unit = 0;
    while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, text_bytes, "%llu%s", (unsigned long long)bytes, units[unit]);
}

static void print_shape(const struct gpucoll_plan *plan)
{
    if (plan->ctas > 0) {
        printf("%3u CTAs of %u threads%s", plan->ctas, plan->threads, plan->linger ? ", lingering" : "");
    } else {
        printf("no kernel");
    }
    if (plan->rounds > 1) {
        printf(", %llu rounds", (unsigned long long)plan->rounds);
    }
    printf("\n");
}

/* Every algorithm at one size: what the choice was made from. */
static void explain(const struct gpucoll_plan_input *input, const struct gpucoll_plan *chosen)
{
    const struct gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != NULL; i++) {
        if (!gpucoll_algorithm_runs(row, input->coll)) {
            continue;
        }
        const char *why = gpucoll_unusable(row, input);
        struct gpucoll_plan plan = {.algorithm = row};
        printf("  %c %-8s %-6s", row == chosen->algorithm ? '*' : ' ', row->name, row->protocol);
        if (why) {
            printf(" cannot: %s\n", why);
            continue;
        }
        gpucoll_shape(row, input, &plan);
        printf(" %10.1f us   ", plan.predicted_us);
        print_shape(&plan);
    }
    printf("  (each CTA has an SM while as many are free; two of 256 threads find room "
           "on one)\n");
    const char *forced = input->config->algorithm[input->coll];
    const char *protocol = input->config->protocol;
    if (strcmp(forced, "auto") != 0 || strcmp(protocol, "auto") != 0) {
        printf("  (set: coll_gpucoll_%s_algorithm=%s, coll_gpucoll_protocol=%s)\n",
               gpucoll_coll_name(input->coll), forced, protocol);
    }
}

/* From which size on is the call direct? */
static void set_bytes(const struct info *info, struct query *query, uint64_t bytes)
{
    const size_t least = info->config.zero_copy;
    query->input.bytes = bytes;
    query->input.bulk = query->reach == GPUCOLL_DIRECT_BULK;
    query->input.direct = least > 0 && bytes >= least ? query->reach : GPUCOLL_DIRECT_NOT;
    query->input.room = (query->input.coll == GPUCOLL_ALLREDUCE || query->input.coll == GPUCOLL_REDUCE) &&
                        query->input.direct != GPUCOLL_DIRECT_NOT && !query->in_place;
}

static bool select_one(const struct info *info, struct query *query)
{
    const struct gpucoll_plan_input *input = &query->input;
    set_bytes(info, query, input->bytes);
    struct gpucoll_plan plan;
    uint32_t said = 0;
    if (gpucoll_select(input, &info->log, &said, &plan) != GPUCOLL_OK) {
        printf("  nothing can run it: it is staged through host memory\n");
        return true;
    }
    explain(input, &plan);
    printf("  choice: %s by %s, %.1f us\n", plan.algorithm->name, plan.algorithm->protocol,
           plan.predicted_us);
    return true;
}

static bool select_range(const struct info *info, struct query *query)
{
    const struct gpucoll_plan_input *input = &query->input;
    uint32_t said = 0;
    printf("  %6s  %-10s %-8s %10s  %s\n", "bytes", "algorithm", "protocol", "predicted", "shape");
    for (uint64_t bytes = 8; bytes <= (uint64_t)1 << 30; bytes *= 2) {
        struct gpucoll_plan plan;
        char text[16];
        set_bytes(info, query, bytes);
        size_text(bytes, text, sizeof(text));
        if (gpucoll_select(input, &info->log, &said, &plan) != GPUCOLL_OK) {
            printf("  %6s  staged through host memory\n", text);
            continue;
        }
        printf("  %6s  %-10s %-8s %7.1f us  ", text, plan.algorithm->name, plan.algorithm->protocol,
               plan.predicted_us);
        print_shape(&plan);
    }
    return true;
}

/* What a topology file says of the links, but for what the query itself says. */
static bool ask_topology(const struct info *info, struct query *query, const char *option, const char *text)
{
    struct gpucoll_plan_input *input = &query->input;
    struct gpucoll_topology_links links;
    uint32_t nranks = strstr(text, "ranks=") ? input->nranks : 0;
    uint32_t local = 0;
    bool fine = true;
    if (!info_topology_links(info, &nranks, &local, &links, &fine)) {
        return fine;
    }
    input->nranks = nranks < GPUCOLL_MAX_LOCAL ? nranks : GPUCOLL_MAX_LOCAL;
    input->sharers = links.sharers;
    if (links.bandwidth > 0) {
        input->whole_lines = links.whole_lines;
        input->latency_us = links.latency_us;
        input->bandwidth = links.bandwidth;
        input->ring_whole_lines = links.ring_bandwidth > 0;
        input->ring_latency_us = links.ring_latency_us;
        input->ring_bandwidth = links.ring_bandwidth;
        query->peer_access &= gpucoll_topology_stores_may(info->config.p2p_level, links.kind, links.path);
    }
    if (!info_query_parse(query, option, text)) {
        return false;
    }
    query->hosts = links.hosts;
    query->nranks = nranks;
    query->net_latency_us = links.net_latency_us;
    query->net_bandwidth = links.net_bandwidth;
    input->nranks = links.hosts > 1 ? local : input->nranks;
    return true;
}

/* Within a GPU no lines are taken to be whole; and ranks that share it at the same time have a part of it each, unless the query says
 * what they have. */
static void share_gpus(struct gpucoll_plan_input *input)
{
    input->whole_lines &= gpucoll_sharers(input) == 1;
    if (input->concurrent && input->resident == 0) {
        input->resident = GPUCOLL_MAX_CHANNELS / gpucoll_sharers(input);
    }
    if (input->concurrent && input->crew > input->resident) {
        input->crew = input->resident;
    }
}

/* By what the ranks would reach each other, from the links, the machine and coll_gpucoll_transports. */
static void find_ways(const struct info *info, struct query *query)
{
    struct gpucoll_plan_input *input = &query->input;
    input->ways = gpucoll_tl_team_ways(info->config.transports, query->peer_access, gpucoll_turns(input) > 1,
                                       input->bandwidth);
    if ((input->ways & GPUCOLL_TL_STORES) == 0) {
        input->whole_lines = false;
        query->reach = GPUCOLL_DIRECT_NOT;
    }
}

static void print_links(const struct gpucoll_plan_input *input)
{
    if (input->ways & GPUCOLL_TL_STORES) {
        printf(", links of %.2f us and %.0f GB/s", input->latency_us, input->bandwidth / 1e9);
    }
    if (input->ways & GPUCOLL_TL_STORES && input->ring_bandwidth > 0 &&
        input->ring_whole_lines != input->whole_lines) {
        printf(", of a ring of NVLinks %.2f us and %.0f GB/s", input->ring_latency_us,
               input->ring_bandwidth / 1e9);
    }
    if (input->ways & ~(unsigned)GPUCOLL_TL_STORES) {
        printf("%s through host memory", input->ways & GPUCOLL_TL_STORES ? " or" : ",");
    }
    printf("\n");
}

static void print_team(const struct query *query)
{
    const struct gpucoll_plan_input *input = &query->input;
    char bytes[16];
    size_text(input->bytes, bytes, sizeof(bytes));
    printf("%s", gpucoll_coll_name(input->coll));
    if (gpucoll_coll_reduces(input->coll)) {
        printf(" of %s %s", gpucoll_op_name(query->op), gpucoll_type_name(query->type));
    }
    if (input->bytes > 0) {
        printf(", %s bytes%s", bytes, input->coll == GPUCOLL_ALLREDUCE ? "" : " from one rank to another");
    }
    if (query->hosts > 1) {
        printf(", %u ranks on %d hosts, between which a rank has %.2f us and %.1f GB/s\n", query->nranks,
               query->hosts, query->net_latency_us, query->net_bandwidth / 1e9);
        printf("  on the first host");
    }
    printf(", %u ranks%s", input->nranks,
           input->sharers < 2  ? ""
           : input->concurrent ? " that share a GPU under MPS"
                               : " that share a GPU");
    print_links(input);
}

static bool select_by(struct info *info, const char *option, const char *text)
{
    struct query query = {.op = GPUCOLL_SUM, .type = GPUCOLL_FLOAT32};
    struct gpucoll_plan_input *input = &query.input;
    struct gpucoll_model model;
    struct info_machine machine;
    info_machine(info, &machine);
    const bool host = strcmp(info->config.accelerator, "host") == 0;
    const bool described = info->config.topology_file[0] != '\0';
    query.reach = machine.bulk || (host && !described) ? GPUCOLL_DIRECT_BULK : GPUCOLL_DIRECT_STORES;
    input->coll = GPUCOLL_ALLREDUCE;
    input->nranks =
        machine.gpus > 2 ? (uint32_t)machine.gpus : 2; /* one for each GPU; two where there are fewer */
    input->config = &info->config;
    input->data_bytes = gpucoll_scratch_bytes(&info->config, gpucoll_accel_row(0));
    ask_transport(info, input);
    /* The host accelerator's devices reach each other whatever GPUs are here. */
    query.peer_access = machine.peer_access || host;
    ask_machine(info, &machine, &query);
    if (!info_query_parse(&query, option, text) || !ask_topology(info, &query, option, text)) {
        return false;
    }
    machine.nvlink &= input->whole_lines;
    machine.shared = gpucoll_sharers(input) > 1;
    share_gpus(input);
    find_ways(info, &query);
    machine.nvlink &= (input->ways & GPUCOLL_TL_STORES) != 0;
    int entry = info_model(info, machine.name, input->whole_lines, &model);
    input->model = &model;
    input->functor = gpucoll_coll_reduces(input->coll) ? gpucoll_functor(query.op, query.type) : 0;
    if (input->nranks == 1 && query.hosts < 2) {
        printf("%s on one rank is a copy\n", gpucoll_coll_name(input->coll));
        return true;
    }
    print_team(&query);
    if (input->nranks == 1) {
        printf("  a single rank there: all of it goes between hosts\n");
        return true;
    }
    if (input->functor < 0) {
        printf("  this operator does not exist for this type: MPI itself refuses it\n");
        return true;
    }
    if (gpucoll_tl_only_spans(info->config.transports)) {
        printf("  nothing goes within a host (coll_gpucoll_transports=%s): each rank is a host of its own\n",
               info->config.transports);
        return true;
    }
    if (input->ways == 0) {
        printf("  no transport reaches the other ranks (coll_gpucoll_transports=%s%s): it is staged through "
               "host memory\n",
               info->config.transports, query.peer_access ? "" : ", no peer access");
        return true;
    }
    info_print_source(info, &machine, entry);
    if (query.hosts > 1) {
        return info_select_hosts(info, &query, input->bytes ? select_one : select_range);
    }
    return input->bytes ? select_one(info, &query) : select_range(info, &query);
}

/* The query that is asked; NULL if there is none. */
static const char *query_of(char **argv)
{
    static const char joined[] = "--select=";
    const size_t length = strlen(joined);
    return strncmp(argv[0], joined, length) == 0 ? argv[0] + length : argv[1];
}

int info_select_count(char **argv)
{
    struct query scratch = {.nranks = 0};
    const char *text = query_of(argv);
    if (text == NULL) {
        fprintf(stderr, "gpucoll_info: --select lacks its value, such as coll=allreduce,ranks=4\n");
        return 0;
    }
    return info_query_parse(&scratch, "--select", text) ? 1 + (text == argv[1]) : 0;
}

int info_select(struct info *info, char **argv)
{
    return !select_by(info, "--select", query_of(argv)) || !info_constants_count(info);
}

/* Writes what is asked as a query. Returns the number of arguments; 0 if they are not understood. */
static int explained_query(char **argv, char *query, size_t bytes)
{
    if (!argv[1] || !argv[2]) {
        fprintf(stderr,
                "gpucoll_info: --explain needs a collective and a size, such as --explain allreduce 4M\n");
        return 0;
    }
    size_t used = (size_t)snprintf(query, bytes, "coll=%s,bytes=%s", argv[1], argv[2]);
    int count = 3;
    for (; argv[count] && used < bytes; count += 2) {
        const char *option = argv[count];
        const char *key = strcmp(option, "--ranks") == 0         ? "ranks"
                          : strcmp(option, "--peer-access") == 0 ? "peer_access"
                                                                 : NULL;
        if (key == NULL && !info_names_topology(&argv[count])) {
            break;
        }
        if (argv[count + 1] == NULL) {
            fprintf(stderr, "gpucoll_info: --explain: %s lacks its value\n", option);
            return 0;
        }
        if (key != NULL) {
            used += (size_t)snprintf(query + used, bytes - used, ",%s=%s", key, argv[count + 1]);
        }
    }
    if (used >= bytes) {
        fprintf(stderr, "gpucoll_info: --explain: its values are too long\n");
        return 0;
    }
    return count;
}

int info_explain_count(char **argv)
{
    struct query scratch = {.nranks = 0};
    char query[256];
    const int count = explained_query(argv, query, sizeof query);
    return count > 0 && info_query_parse(&scratch, "--explain", query) ? count : 0;
}

int info_explain(struct info *info, char **argv)
{
    char query[256];
    (void)explained_query(argv, query, sizeof query);
    return !select_by(info, "--explain", query) || !info_constants_count(info);
}
