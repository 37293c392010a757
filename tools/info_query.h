/*
 * What --select and --explain are asked: a team and a call, as "coll=allreduce,ranks=4,bytes=64K".
 */
#ifndef GPUCOLL_INFO_QUERY_H
#define GPUCOLL_INFO_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/plan/selector.h"

struct query {
    struct gpucoll_plan_input input;
    enum gpucoll_op op;
    enum gpucoll_type type;
    enum gpucoll_direct reach; /* of peers into the buffers, where calls are large enough */
    bool in_place;             /* an all-reduce, on all ranks */
    bool peer_access;          /* of all GPUs to each other */
    bool latency_given;        /* by the query itself */
    bool bandwidth_given;
    /* Of a topology file: the input is about the ranks of one host. */
    int hosts;
    uint32_t nranks; /* on all of them */
    double net_latency_us;
    double net_bandwidth;
};

/* Sets what `text` says, and nothing else. False if it is not understood, which it has said, as an error of `option`. */
bool info_query_parse(struct query *query, const char *option, const char *text);
/* The keys with what each accepts, for --help: names at `indent`. */
void info_query_print_keys(int indent);

#endif
