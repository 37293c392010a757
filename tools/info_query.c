#include "tools/info_query.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/gpucoll_info.h"
#include "ucx_tl/tl.h"

static bool parse_coll(struct query *query, const char *text)
{
    for (int i = 0; i < GPUCOLL_COLL_COUNT; i++) {
        if (strcmp(gpucoll_coll_name(i), text) == 0) {
            query->input.coll = i;
            return true;
        }
    }
    return false;
}

static bool parse_op(struct query *query, const char *text)
{
    for (int i = 0; i < GPUCOLL_OP_COUNT; i++) {
        if (strcmp(gpucoll_op_name(i), text) == 0) {
            query->op = i;
            return true;
        }
    }
    return false;
}

static bool parse_type(struct query *query, const char *text)
{
    for (int i = 0; i < GPUCOLL_TYPE_COUNT; i++) {
        if (strcmp(gpucoll_type_name(i), text) == 0) {
            query->type = i;
            return true;
        }
    }
    return false;
}

static bool parse_whole(const char *text, long least, long most, unsigned *value)
{
    char *end;
    long number = strtol(text, &end, 10);
    *value = (unsigned)number;
    return *text && !*end && number >= least && number <= most;
}

static bool parse_yes(const char *text, bool *value)
{
    *value = strcmp(text, "yes") == 0;
    return *value || strcmp(text, "no") == 0;
}

static bool parse_ranks(struct query *query, const char *text)
{
    return parse_whole(text, 1, GPUCOLL_MAX_LOCAL, &query->input.nranks);
}

static bool parse_bytes(struct query *query, const char *text)
{
    return gpucoll_config_parse_size(text, &query->input.bytes) && query->input.bytes > 0;
}

static bool parse_shared(struct query *query, const char *text)
{
    query->input.concurrent = strcmp(text, "mps") == 0;
    const bool shared = query->input.concurrent || strcmp(text, "yes") == 0;
    query->input.sharers = shared ? GPUCOLL_MAX_LOCAL : 1;
    return shared || strcmp(text, "no") == 0;
}

static bool parse_direct(struct query *query, const char *text)
{
    static const struct {
        const char *text;
        enum gpucoll_direct reach;
    } values[] = {
        {"yes", GPUCOLL_DIRECT_BULK}, {"stores", GPUCOLL_DIRECT_STORES}, {"no", GPUCOLL_DIRECT_NOT}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (strcmp(text, values[i].text) == 0) {
            query->reach = values[i].reach;
            return true;
        }
    }
    return false;
}

static bool parse_in_place(struct query *query, const char *text)
{
    return parse_yes(text, &query->in_place);
}

static bool parse_unattended(struct query *query, const char *text)
{
    return parse_yes(text, &query->input.unattended);
}

static bool parse_peer_access(struct query *query, const char *text)
{
    return parse_yes(text, &query->peer_access);
}

static bool parse_link(struct query *query, const char *text)
{
    const bool nvlink = strcmp(text, "nvlink") == 0;
    struct gpucoll_plan_input *input = &query->input;
    struct gpucoll_tl_cost cost;
    gpucoll_p2p_assume(nvlink ? GPUCOLL_LINK_NVLINK : GPUCOLL_LINK_PCIE, &cost);
    input->whole_lines = cost.whole_lines;
    input->latency_us = query->latency_given ? input->latency_us : cost.latency_us;
    input->bandwidth = query->bandwidth_given ? input->bandwidth : cost.bandwidth;
    input->ring_bandwidth = 0; /* all links are alike */
    return nvlink || strcmp(text, "pcie") == 0;
}

static bool parse_crew(struct query *query, const char *text)
{
    return parse_whole(text, 0, GPUCOLL_CREW_CTAS, &query->input.crew);
}

static bool parse_resident(struct query *query, const char *text)
{
    return parse_whole(text, 1, GPUCOLL_MAX_CHANNELS, &query->input.resident);
}

static bool parse_positive(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return *text && !*end && *value > 0 && isfinite(*value);
}

static bool parse_latency(struct query *query, const char *text)
{
    query->input.ring_bandwidth = 0;
    query->latency_given = true;
    return parse_positive(text, &query->input.latency_us);
}

static bool parse_bandwidth(struct query *query, const char *text)
{
    bool fine = parse_positive(text, &query->input.bandwidth);
    query->input.bandwidth *= 1e9;
    query->input.ring_bandwidth = 0;
    query->bandwidth_given = true;
    return fine;
}

static const struct {
    const char *name;
    const char *accepted;
    bool (*parse)(struct query *query, const char *text);
} keys[] = {
    {"coll", "a collective that gpucoll_info --algorithms lists", parse_coll},
    {"ranks", "1 to 32", parse_ranks},
    {"bytes", "a size such as 8, 64K or 4M", parse_bytes},
    {"op", "an operator such as sum, prod, max, land, bxor, minloc", parse_op},
    {"type", "an element type such as float32, int64, complex64", parse_type},
    {"shared_gpu", "yes (ranks drive one GPU, in turn), mps (at the same time, as under MPS) or no",
     parse_shared},
    {"direct",
     "yes (peers can reach into the buffers, as into those of cudaMalloc), stores (write to them only: GPUs "
     "below compute capability 9.0, or buffers that are not at multiples of 16 bytes) or no",
     parse_direct},
    {"in_place", "yes (an all-reduce, or the root of a reduce, with MPI_IN_PLACE) or no", parse_in_place},
    {"unattended", "yes (a nonblocking or persistent call, beside which the application computes) or no",
     parse_unattended},
    {"peer_access", "yes (GPUs can store into each other's memory) or no", parse_peer_access},
    {"link", "nvlink or pcie; latency_us and bandwidth are then those of such links, unless they are given",
     parse_link},
    {"crew", "0 to 32: CTAs of a lingering kernel", parse_crew},
    {"resident", "1 to 128: CTAs of a kernel that a GPU, or a slice of one, holds at once", parse_resident},
    {"latency_us", "microseconds for a store to become visible to a peer", parse_latency},
    {"bandwidth", "GB/s out of one GPU to all its peers together", parse_bandwidth},
};

enum { KEYS = sizeof keys / sizeof keys[0] };

static bool bad(const char *option, const char *item, const char *accepted)
{
    fprintf(stderr, "gpucoll_info: %s: \"%s\": expected %s\n", option, item, accepted);
    return false;
}

static bool bad_key(const char *option, const char *item)
{
    fprintf(stderr, "gpucoll_info: %s: \"%s\": expected", option, item);
    for (int i = 0; i < KEYS; i++) {
        fprintf(stderr, "%s %s", i == 0 ? "" : i < KEYS - 1 ? "," : " or", keys[i].name);
    }
    fprintf(stderr, ", each with =VALUE\n");
    return false;
}

static bool parse_item(struct query *query, const char *option, const char *item)
{
    size_t length = strcspn(item, "=");
    for (int i = 0; i < KEYS; i++) {
        if (strlen(keys[i].name) == length && strncmp(keys[i].name, item, length) == 0) {
            bool fine = item[length] == '=' && keys[i].parse(query, item + length + 1);
            return fine || bad(option, item, keys[i].accepted);
        }
    }
    return bad_key(option, item);
}

bool info_query_parse(struct query *query, const char *option, const char *text)
{
    char copy[512];
    char *rest = copy;
    if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy)) {
        return bad(option, text, "fewer characters than 512");
    }
    for (char *item = strsep(&rest, ","); item; item = strsep(&rest, ",")) {
        if (*item && !parse_item(query, option, item)) {
            return false;
        }
    }
    return true;
}

void info_query_print_keys(int indent)
{
    enum { NAME = 12, WIDTH = 110 };
    for (int i = 0; i < KEYS; i++) {
        printf("%*s%-*s", indent, "", NAME, keys[i].name);
        info_print_wrapped_on(keys[i].accepted, indent + NAME, WIDTH);
    }
}
