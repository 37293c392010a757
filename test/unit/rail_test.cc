/*
 * core/rail: collectives of host memory among one rank of each host, over a network that is late and out of order. Most tests move all ranks
 * in one thread, in an order that a seed names; some have a thread for each.
 */
#include "test/unit/rail_hosts.h"
#include <chrono>
#include <memory>
#include <thread>

namespace
{

using rails::Call;
using rails::Hosts;
using rails::Kind;

const gpucoll_rail_coll colls[] = {GPUCOLL_RAIL_ALLREDUCE, GPUCOLL_RAIL_REDUCE,         GPUCOLL_RAIL_BCAST,
                                   GPUCOLL_RAIL_ALLGATHER, GPUCOLL_RAIL_REDUCE_SCATTER, GPUCOLL_RAIL_BARRIER,
                                   GPUCOLL_RAIL_SCAN,      GPUCOLL_RAIL_EXSCAN};
const gpucoll_rail_algorithm algorithms[] = {GPUCOLL_RAIL_AUTO, GPUCOLL_RAIL_DOUBLING, GPUCOLL_RAIL_RING,
                                             GPUCOLL_RAIL_TREE, GPUCOLL_RAIL_ORDERED};
const Kind kinds[] = {{GPUCOLL_SUM, GPUCOLL_FLOAT32},  {GPUCOLL_SUM, GPUCOLL_INT32},
                      {GPUCOLL_PROD, GPUCOLL_FLOAT16}, {GPUCOLL_MAX, GPUCOLL_INT16},
                      {GPUCOLL_BXOR, GPUCOLL_UINT8},   {GPUCOLL_MINLOC, GPUCOLL_DOUBLE_INT}};

std::string name_of(const Call &call, size_t count)
{
    return "collective " + std::to_string(call.args.coll) + " algorithm " +
           std::to_string(call.args.algorithm) + " hosts " + std::to_string(call.hosts.size) + " count " +
           std::to_string(count) + " root " + std::to_string(call.args.root) + " functor " +
           gpucoll_functor_name(call.args.functor);
}

class rail : public testing::TestWithParam<uint32_t>
{
  protected:
    void all_of(size_t count, size_t of_kinds)
    {
        uint64_t seed = count + GetParam();
        Hosts hosts(GetParam(), seed);
        for (gpucoll_rail_coll coll : colls) {
            for (gpucoll_rail_algorithm algorithm : algorithms) {
                for (size_t kind = 0; kind < of_kinds; kind++) {
                    Call call(hosts, coll, algorithm, kinds[kind], count, ++seed);
                    SCOPED_TRACE(name_of(call, count));
                    ASSERT_NO_FATAL_FAILURE(call.run());
                    call.check();
                    if (HasFailure()) {
                        return;
                    }
                }
            }
        }
    }
};

/* Counts around nothing, one element, less than an element a host, and not divisible. */
TEST_P(rail, few_elements)
{
    for (size_t count : {0, 1, 3, 7, 16, 100}) {
        all_of(count, std::size(kinds));
    }
}

TEST_P(rail, elements_for_every_host)
{
    all_of(4099, std::size(kinds));
}

/* Several segments, the last not whole; more of them than are under way at once. */
TEST_P(rail, many_segments)
{
    all_of((GetParam() > 5 ? 100001 : 600003) / amounts_divisor, 1);
}

INSTANTIATE_TEST_SUITE_P(hosts, rail, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16));

TEST(rail_run, bits_do_not_depend_on_delays)
{
    for (gpucoll_rail_algorithm algorithm : algorithms) {
        std::vector<Bytes> results;
        for (uint64_t seed = 1; seed <= 5; seed++) {
            Hosts hosts(7, seed);
            Call call(hosts, GPUCOLL_RAIL_ALLREDUCE, algorithm, kinds[0], 70001, 5);
            ASSERT_NO_FATAL_FAILURE(call.run());
            results.push_back(call.data[seed]);
        }
        for (const Bytes &result : results) {
            EXPECT_TRUE(result == results[0]);
        }
    }
}

TEST(rail_run, every_root)
{
    for (gpucoll_rail_coll coll : {GPUCOLL_RAIL_REDUCE, GPUCOLL_RAIL_BCAST}) {
        for (gpucoll_rail_algorithm algorithm : algorithms) {
            for (uint32_t size : {2, 3, 6, 7}) {
                Hosts hosts(size);
                for (uint32_t root = 0; root < size; root++) {
                    for (uint64_t seed = 0; seed < 40; seed++) { /* until a call has that root */
                        Call call(hosts, coll, algorithm, kinds[0], 5003, seed);
                        if (call.args.root == root) {
                            SCOPED_TRACE(name_of(call, 5003));
                            ASSERT_NO_FATAL_FAILURE(call.run());
                            call.check();
                            break;
                        }
                    }
                }
            }
        }
    }
}

/* Which the others do not do. */
TEST(rail_run, ordered_sums_go_from_left_to_right)
{
    for (uint32_t size : {2, 3, 4, 7}) {
        for (size_t count : {1, 1000, 200003}) {
            Hosts hosts(size, size);
            Call all(hosts, GPUCOLL_RAIL_ALLREDUCE, GPUCOLL_RAIL_ORDERED, kinds[0], count, 3);
            ASSERT_NO_FATAL_FAILURE(all.run());
            const Bytes expected = reduce_in_order(kinds[0].op, kinds[0].type, all.inputs);
            for (const Bytes &data : all.data) {
                EXPECT_TRUE(data == expected) << name_of(all, count);
            }
            Call one(hosts, GPUCOLL_RAIL_REDUCE, GPUCOLL_RAIL_ORDERED, kinds[0], count, 3);
            ASSERT_NO_FATAL_FAILURE(one.run());
            EXPECT_TRUE(one.data[one.args.root] == expected) << name_of(one, count);
            Call each(hosts, GPUCOLL_RAIL_REDUCE_SCATTER, GPUCOLL_RAIL_ORDERED, kinds[0], count, 3);
            ASSERT_NO_FATAL_FAILURE(each.run());
            EXPECT_TRUE(each.own_blocks(each.data) == expected) << name_of(each, count);
        }
    }
}

namespace
{
uint32_t left_of(const std::vector<gpucoll_rail_run *> &runs)
{
    uint32_t left = 0;
    for (const gpucoll_rail_run *run : runs) {
        left += run == nullptr ? 0 : gpucoll_rail_left(run);
    }
    return left;
}
} // namespace

TEST(rail_run, barrier_waits_for_every_rank)
{
    for (uint32_t size : {2, 3, 5, 8}) {
        for (uint32_t last = 0; last < size; last++) {
            Hosts hosts(size, 3 + last);
            Call call(hosts, GPUCOLL_RAIL_BARRIER, GPUCOLL_RAIL_AUTO, kinds[0], 0, 1);
            for (uint32_t rank = 0; rank < size; rank++) {
                if (rank != last) {
                    ASSERT_EQ(call.start(rank), GPUCOLL_OK);
                }
            }
            const uint32_t begun = left_of(call.runs);
            for (int look = 0; look < 1000; look++) {
                const uint32_t rank = (last + 1 + hosts.random.below(size - 1)) % size;
                uint32_t missing = size;
                const uint32_t left = gpucoll_rail_left(call.runs[rank]);
                ASSERT_EQ(gpucoll_rail_test(call.runs[rank], &missing), GPUCOLL_IN_PROGRESS);
                ASSERT_NE(missing, rank);
                ASSERT_LE(gpucoll_rail_left(call.runs[rank]), left);
                ASSERT_GT(gpucoll_rail_left(call.runs[rank]), 0u);
            }
            EXPECT_TRUE(size < 5 || left_of(call.runs) < begun); /* the others hear of each other */
            ASSERT_EQ(call.start(last), GPUCOLL_OK);
            for (gpucoll_status status : hosts.finish(call.runs)) {
                EXPECT_EQ(status, GPUCOLL_OK);
            }
        }
    }
}

TEST(rail_run, the_missing_rank_is_named)
{
    for (gpucoll_rail_algorithm algorithm : algorithms) {
        Hosts hosts(2);
        Call call(hosts, GPUCOLL_RAIL_ALLREDUCE, algorithm, kinds[0], 10, 1);
        ASSERT_EQ(call.start(0), GPUCOLL_OK);
        uint32_t missing = 0;
        for (int look = 0; look < 100; look++) {
            ASSERT_EQ(gpucoll_rail_test(call.runs[0], &missing), GPUCOLL_IN_PROGRESS);
        }
        EXPECT_EQ(missing, 1u);
        ASSERT_EQ(call.start(1), GPUCOLL_OK);
        hosts.finish(call.runs);
        call.check();
    }
}

/* Runs of all collectives at once, tested in any order. */
TEST(rail_run, several_under_way)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        Hosts hosts(5, seed);
        std::vector<std::unique_ptr<Call>> calls;
        std::vector<gpucoll_rail_run *> runs;
        for (gpucoll_rail_coll coll : colls) {
            for (gpucoll_rail_algorithm algorithm : algorithms) {
                calls.push_back(std::make_unique<Call>(hosts, coll, algorithm, kinds[seed % std::size(kinds)],
                                                       3000 * seed, seed + 17));
                calls.back()->start_all();
                runs.insert(runs.end(), calls.back()->runs.begin(), calls.back()->runs.end());
            }
        }
        for (gpucoll_status status : hosts.finish(runs)) {
            ASSERT_EQ(status, GPUCOLL_OK);
        }
        for (const auto &call : calls) {
            SCOPED_TRACE(name_of(*call, 3000 * seed));
            call->check();
        }
    }
}

TEST(rail_run, run_numbers_wrap_around)
{
    Hosts hosts(3);
    for (gpucoll_rail &rail : hosts.rails) {
        rail.runs = UINT32_MAX - 2;
    }
    for (uint64_t seed = 0; seed < 6; seed++) {
        Call call(hosts, GPUCOLL_RAIL_ALLREDUCE, GPUCOLL_RAIL_AUTO, kinds[1], 100, seed);
        ASSERT_NO_FATAL_FAILURE(call.run());
        call.check();
    }
}

TEST(rail_run, ended_runs_serve_again)
{
    Hosts hosts(3);
    gpucoll_rail_run *first = nullptr;
    for (size_t count : {100000, 10, 100000}) {
        Call call(hosts, GPUCOLL_RAIL_ALLREDUCE, GPUCOLL_RAIL_RING, kinds[0], count, 4);
        call.start_all();
        if (first == nullptr) {
            first = call.runs[0];
        }
        EXPECT_EQ(call.runs[0], first);
        hosts.finish(call.runs);
        call.check();
    }
}

/* All ranks give up somewhere in the middle; what comes next on the rail is not disturbed. */
TEST(rail_run, cancelled_in_the_middle)
{
    gpucoll_rail_cancel(nullptr);
    for (gpucoll_rail_coll coll : colls) {
        for (gpucoll_rail_algorithm algorithm : algorithms) {
            for (uint32_t looks : {0, 3, 10, 40}) {
                Hosts hosts(5, looks + 1);
                hosts.broken = true;
                Call call(hosts, coll, algorithm, kinds[0], 150000 / amounts_divisor, 8);
                call.start_all();
                std::vector<bool> ended(hosts.size);
                for (uint32_t look = 0; look < looks; look++) {
                    const uint32_t rank = hosts.random.below(hosts.size);
                    uint32_t missing;
                    ended[rank] = ended[rank] || gpucoll_rail_test(call.runs[rank], &missing) == GPUCOLL_OK;
                }
                for (uint32_t rank = 0; rank < hosts.size; rank++) {
                    if (!ended[rank]) {
                        gpucoll_rail_cancel(call.runs[rank]);
                    }
                }
                EXPECT_EQ(fake_net_count().under_way, 0u);
                Call next(hosts, coll, algorithm, kinds[0], 1000, 9);
                ASSERT_NO_FATAL_FAILURE(next.run());
                next.check();
            }
        }
    }
}

TEST(rail_run, a_send_that_fails_ends_the_run)
{
    for (gpucoll_rail_coll coll : colls) {
        for (gpucoll_rail_algorithm algorithm : algorithms) {
            Hosts hosts(4);
            hosts.broken = true;
            Call call(hosts, coll, algorithm, kinds[0], 200000, 6);
            const bool upwards = coll == GPUCOLL_RAIL_SCAN || coll == GPUCOLL_RAIL_EXSCAN;
            const uint32_t sender = upwards                       ? 1
                                    : coll == GPUCOLL_RAIL_REDUCE ? (call.args.root + 1) % 4
                                                                  : call.args.root;
            fake_net_fail_send(hosts.rails[sender].net, coll == GPUCOLL_RAIL_BARRIER ? 1 : 2);
            call.start_all();
            std::vector<gpucoll_status> statuses(hosts.size, GPUCOLL_IN_PROGRESS);
            for (int look = 0; look < 100000 && statuses[sender] == GPUCOLL_IN_PROGRESS; look++) {
                for (uint32_t rank = 0; rank < hosts.size; rank++) {
                    uint32_t missing;
                    if (statuses[rank] == GPUCOLL_IN_PROGRESS) {
                        statuses[rank] = gpucoll_rail_test(call.runs[rank], &missing);
                    }
                }
            }
            EXPECT_EQ(statuses[sender], GPUCOLL_ERR_SYSTEM) << name_of(call, 200000);
            for (uint32_t rank = 0; rank < hosts.size; rank++) {
                if (statuses[rank] != GPUCOLL_OK) {
                    gpucoll_rail_cancel(call.runs[rank]);
                }
            }
        }
    }
}

/* Every rank a thread, which has two calls under way. */
TEST(rail_threads, two_calls_under_way)
{
    constexpr size_t count = 200001 / amounts_divisor;
    for (uint32_t size : {2, 3, 6}) {
        Hosts hosts(size);
        for (gpucoll_rail_coll coll : colls) {
            for (gpucoll_rail_algorithm algorithm : algorithms) {
                Call large(hosts, coll, algorithm, kinds[0], count, 3);
                Call small(hosts, coll, algorithm, kinds[1], 100, 4);
                std::vector<std::thread> threads;
                for (uint32_t rank = 0; rank < size; rank++) {
                    threads.emplace_back([&, rank] {
                        EXPECT_EQ(large.start(rank), GPUCOLL_OK);
                        EXPECT_EQ(small.start(rank), GPUCOLL_OK);
                        gpucoll_status of[] = {GPUCOLL_IN_PROGRESS, GPUCOLL_IN_PROGRESS};
                        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
                        while ((of[0] == GPUCOLL_IN_PROGRESS || of[1] == GPUCOLL_IN_PROGRESS) &&
                               std::chrono::steady_clock::now() < until) {
                            uint32_t missing;
                            for (int i = 0; i < 2; i++) {
                                if (of[i] == GPUCOLL_IN_PROGRESS) {
                                    of[i] = gpucoll_rail_test((i == 0 ? large : small).runs[rank], &missing);
                                }
                            }
                            std::this_thread::yield();
                        }
                        EXPECT_EQ(of[0], GPUCOLL_OK);
                        EXPECT_EQ(of[1], GPUCOLL_OK);
                    });
                }
                for (std::thread &thread : threads) {
                    thread.join();
                }
                SCOPED_TRACE(name_of(large, count));
                large.check();
                small.check();
                if (HasFailure()) {
                    return;
                }
            }
        }
    }
}

/* ---- the real network ---- */

TEST(rail_ucx, every_collective_and_algorithm)
{
    Hosts hosts(3, 1, &gpucoll_net_ucx);
    if (hosts.status == GPUCOLL_DECLINED) {
        GTEST_SKIP() << "no network";
    }
    ASSERT_EQ(hosts.status, GPUCOLL_OK);
    uint64_t seed = 0;
    for (gpucoll_rail_coll coll : colls) {
        for (gpucoll_rail_algorithm algorithm : algorithms) {
            for (size_t count : {1, 1000, 200001}) {
                Call call(hosts, coll, algorithm, kinds[0], count, ++seed);
                SCOPED_TRACE(name_of(call, count));
                ASSERT_NO_FATAL_FAILURE(call.run());
                call.check();
            }
        }
    }
    EXPECT_TRUE(hosts.log.topics().empty());
}

/* ---- trees ---- */

/* Of each flow, to how many ranks the run sends. */
std::vector<int> sends_by_flow(const gpucoll_rail_run *run)
{
    std::vector<int> sends(GPUCOLL_RAIL_FLOWS);
    for (uint32_t i = 0; i < run->nqueues; i++) {
        sends[run->queues[i].flow] += !run->queues[i].receives;
    }
    return sends;
}

/* Flow 0 is one tree of a bcast, flow 1 the other; those who send on have others below them. */
TEST(rail_tree, no_rank_is_inner_twice)
{
    for (uint32_t size = 2; size <= 40; size++) {
        Hosts hosts(size);
        Call call(hosts, GPUCOLL_RAIL_BCAST, GPUCOLL_RAIL_TREE, kinds[0], 1000, size);
        call.start_all();
        int sends = 0;
        for (uint32_t rank = 0; rank < size; rank++) {
            const std::vector<int> of = sends_by_flow(call.runs[rank]);
            EXPECT_LE(of[0], 2);
            EXPECT_LE(of[1], 2);
            if (rank == call.args.root) {
                EXPECT_TRUE(of[0] == 1 && of[1] == 1) << "size " << size;
            } else {
                EXPECT_TRUE(of[0] == 0 || of[1] == 0) << "size " << size << " rank " << rank;
            }
            sends += of[0] + of[1];
        }
        EXPECT_EQ(sends, 2 * static_cast<int>(size - 1));
        hosts.finish(call.runs);
        call.check();
    }
}

/* ---- what AUTO takes ---- */

TEST(rail_choice, few_bytes_double_many_go_round)
{
    for (uint32_t size : {2, 3, 4, 8, 16, 100}) {
        EXPECT_EQ(gpucoll_rail_choose(GPUCOLL_RAIL_ALLREDUCE, size, 8), GPUCOLL_RAIL_DOUBLING);
        EXPECT_EQ(gpucoll_rail_choose(GPUCOLL_RAIL_BARRIER, size, 0), GPUCOLL_RAIL_DOUBLING);
    }
    for (uint32_t size : {3, 4, 8}) {
        EXPECT_EQ(gpucoll_rail_choose(GPUCOLL_RAIL_ALLREDUCE, size, 64 << 20), GPUCOLL_RAIL_RING);
        EXPECT_EQ(gpucoll_rail_choose(GPUCOLL_RAIL_ALLGATHER, size, 64 << 20), GPUCOLL_RAIL_RING);
    }
}

TEST(rail_choice, scans_of_few_bytes_double_those_of_many_go_along_the_chain)
{
    for (gpucoll_rail_coll coll : {GPUCOLL_RAIL_SCAN, GPUCOLL_RAIL_EXSCAN}) {
        for (uint32_t size : {4, 16, 256}) {
            EXPECT_EQ(gpucoll_rail_choose(coll, size, 8), GPUCOLL_RAIL_DOUBLING);
            EXPECT_EQ(gpucoll_rail_choose(coll, size, 64 << 20), GPUCOLL_RAIL_RING);
        }
    }
}

TEST(rail_choice, many_hosts_have_trees)
{
    for (gpucoll_rail_coll coll : {GPUCOLL_RAIL_ALLREDUCE, GPUCOLL_RAIL_REDUCE, GPUCOLL_RAIL_BCAST}) {
        EXPECT_EQ(gpucoll_rail_choose(coll, 1000, 4 << 20), GPUCOLL_RAIL_TREE);
    }
}

} // namespace
