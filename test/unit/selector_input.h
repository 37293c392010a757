/*
 * A plan's input for tests of the selector: links as those of four H200.
 */
#ifndef GPUCOLL_TEST_UNIT_SELECTOR_INPUT_H
#define GPUCOLL_TEST_UNIT_SELECTOR_INPUT_H

#include <cstring>
#include "test/unit/unit.h"

extern "C" {
#include "core/plan/model.h"
#include "core/plan/selector.h"
#include "ucx_tl/tl.h"
}

/* The numbers of the p2p transport. */
struct Input : gpucoll_plan_input {
    Input(uint64_t message, uint32_t ranks) : gpucoll_plan_input()
    {
        gpucoll_config_init(&settings);
        coll = GPUCOLL_ALLREDUCE;
        functor = GPUCOLL_FN_sum_f32;
        bytes = message;
        nranks = ranks;
        data_bytes = size_t{64} << 20;
        ways = GPUCOLL_TL_STORES;
        sharers = 1;
        direct = GPUCOLL_DIRECT_NOT;
        unattended = false;
        crew = GPUCOLL_CREW_CTAS;
        bulk = true;
        whole_lines = true;
        latency_us = 0.62;
        bandwidth = 354e9;
        model = gpucoll_model_of(0);
        config = &settings;
    }
    Input(const Input &) = delete;
    gpucoll_config settings;
};

/* Does it go along a ring or tree? */
inline bool is_relay(const gpucoll_algorithm *row)
{
    return strcmp(row->name, "ring") == 0 || strcmp(row->name, "tree") == 0 || row->coll == GPUCOLL_ANY_SCAN;
}

/* The row of that name and protocol that runs the collective; NULL: none. */
inline const gpucoll_algorithm *row_of(gpucoll_coll coll, const char *name, const char *protocol)
{
    const gpucoll_algorithm *row;
    for (int i = 0; (row = gpucoll_algorithm_row(i)) != nullptr; i++) {
        if (gpucoll_algorithm_runs(row, coll) && strcmp(row->name, name) == 0 &&
            strcmp(row->protocol, protocol) == 0) {
            break;
        }
    }
    return row;
}

inline gpucoll_plan plan_of(const gpucoll_plan_input &input)
{
    RecordingLog log;
    gpucoll_plan plan;
    uint32_t said = 0;
    EXPECT_EQ(gpucoll_select(&input, log.get(), &said, &plan), GPUCOLL_OK);
    EXPECT_TRUE(log.topics().empty());
    return plan;
}

#endif
