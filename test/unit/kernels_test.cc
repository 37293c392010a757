/*
 * The host kernels by themselves, and the geometry of a lane: ranks are threads with a lane each, no engine between.
 */
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include "test/unit/values.h"

extern "C" {
#include "core/accel/host_kernels.h"
}

namespace
{
constexpr size_t data_bytes = 64 << 10;

/* Lanes that go through several calls, as those of a process do. */
class Lanes
{
  public:
    explicit Lanes(uint32_t most) : statuses(most)
    {
        for (uint32_t i = 0; i < most; i++) {
            memory.push_back(static_cast<char *>(aligned_alloc(4096, bytes + guard)));
            memset(memory[i], 0, bytes);
            memset(memory[i] + bytes, 0x5a, guard);
            memset(&statuses[i], 0, sizeof statuses[i]);
            epochs.push_back(100 * i); /* each owner counts for itself */
        }
    }

    ~Lanes()
    {
        for (char *lane : memory) {
            free(lane);
        }
    }

    /* What each rank of a call over the first `ranks` lanes gets; raises their epochs. */
    std::vector<gpucoll_kernel_args> begin_call(uint32_t ranks, size_t message)
    {
        std::vector<gpucoll_kernel_args> all(ranks);
        done++;
        for (uint32_t i = 0; i < ranks; i++) {
            epochs[i]++;
        }
        for (uint32_t rank = 0; rank < ranks; rank++) {
            gpucoll_kernel_args &args = all[rank];
            memset(&args, 0, sizeof args);
            args.bytes = message;
            args.data_bytes = data_bytes;
            args.round_end = UINT64_MAX;
            args.status = &statuses[rank];
            args.done_value = done;
            args.rank = rank;
            args.nranks = ranks;
            args.stages = GPUCOLL_STAGE_ALL;
            for (uint32_t i = 0; i < ranks; i++) {
                args.peer[i].lane = memory[i];
                args.peer[i].epoch = epochs[i];
            }
        }
        return all;
    }

    bool is_done(uint32_t rank) const { return statuses[rank].done == done; }

    bool guards_intact() const
    {
        for (const char *lane : memory) {
            for (size_t i = 0; i < guard; i++) {
                if (lane[bytes + i] != 0x5a) {
                    return false;
                }
            }
        }
        return true;
    }

    std::vector<gpucoll_kernel_status> statuses;

  private:
    static constexpr size_t guard = 4096;
    const size_t bytes = gpucoll_lane_bytes(data_bytes);
    std::vector<char *> memory;
    std::vector<uint32_t> epochs;
    uint32_t done = 0;
};

/* One all-reduce of int32 over simulated ranks. */
class Call
{
  public:
    Call(Lanes &lanes, uint32_t ranks, size_t count)
        : inputs(make_inputs(GPUCOLL_INT32, count, count + ranks, ranks))
    {
        args = lanes.begin_call(ranks, count * 4);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            results.emplace_back(count * 4, '\x33');
            args[rank].send = inputs[rank].data();
            args[rank].recv = results[rank].data();
        }
    }

    void run(gpucoll_kernel kernel, uint32_t channels, uint32_t rank)
    {
        args[rank].kernel = static_cast<uint16_t>(kernel);
        gpucoll_host_kernel(kernel, GPUCOLL_FN_sum_u32, channels, &args[rank], nullptr);
    }

    void run_all(gpucoll_kernel kernel, uint32_t channels)
    {
        std::vector<std::thread> threads;
        for (uint32_t rank = 0; rank < args.size(); rank++) {
            threads.emplace_back([=] { run(kernel, channels, rank); });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
    }

    void expect_right(const Lanes &lanes) const
    {
        Bytes want = reduce_in_order(GPUCOLL_SUM, GPUCOLL_INT32, inputs);
        for (uint32_t rank = 0; rank < args.size(); rank++) {
            EXPECT_TRUE(lanes.is_done(rank));
            EXPECT_EQ(results[rank], want) << "rank " << rank << " of " << args.size();
        }
        EXPECT_TRUE(lanes.guards_intact());
    }

    bool untouched(uint32_t rank) const { return results[rank] == Bytes(results[rank].size(), '\x33'); }

    std::vector<gpucoll_kernel_args> args;

  private:
    std::vector<Bytes> inputs;
    std::vector<Bytes> results;
};
} // namespace

/* ---- geometry ---- */

TEST(lane, channels_cover_the_message_once)
{
    for (uint64_t bytes : {0, 1, 16, 17, 4096, 99999}) {
        for (uint32_t channels : {1, 3, 7, 128}) {
            uint64_t next = 0;
            uint64_t most = 0;
            uint64_t least = UINT64_MAX;
            for (uint32_t channel = 0; channel < channels; channel++) {
                uint64_t begin;
                uint64_t end;
                gpucoll_channel_range(bytes, channels, channel, &begin, &end);
                EXPECT_EQ(begin, next);
                EXPECT_LE(begin, end);
                most = std::max(most, end - begin);
                least = std::min(least, end - begin);
                next = end;
            }
            EXPECT_EQ(next, (bytes + 15) / 16);
            EXPECT_LE(most - least, 1u);
        }
    }
}

TEST(lane, parts_do_not_overlap_and_stay_inside)
{
    for (size_t data : {size_t{1} << 20, size_t{16} << 20}) {
        for (uint32_t ranks : {2, 3, 7, 32}) {
            for (uint32_t channels : {1, 5, 64}) {
                size_t block = gpucoll_block_bytes(data, ranks, channels);
                EXPECT_EQ(block % 128, 0u);
                std::set<size_t> starts;
                for (uint32_t channel = 0; channel < channels; channel++) {
                    for (uint32_t slot = 0; slot < GPUCOLL_SLOTS; slot++) {
                        for (uint32_t part = 0; part < 2; part++) {
                            for (uint32_t source = 0; source < ranks; source++) {
                                starts.insert(
                                    gpucoll_block_offset(data, ranks, channels, channel, slot, part, source));
                            }
                        }
                    }
                }
                ASSERT_EQ(starts.size(), size_t{channels} * GPUCOLL_SLOTS * 2 * ranks);
                EXPECT_EQ(*starts.begin(), GPUCOLL_FLAG_BYTES + GPUCOLL_LL_BYTES + GPUCOLL_LL128_BYTES);
                EXPECT_LE(*starts.rbegin() + block, gpucoll_lane_bytes(data));
                for (auto at = starts.begin(); std::next(at) != starts.end(); ++at) {
                    ASSERT_GE(*std::next(at) - *at, block);
                }
            }
        }
    }
}

TEST(lane, ll_areas_and_flags_stay_inside)
{
    for (uint32_t ranks = 2; ranks <= GPUCOLL_MAX_LOCAL; ranks++) {
        const size_t plane = gpucoll_ll_capacity(ranks);
        for (uint32_t source = 0; source < ranks; source++) {
            size_t begin = gpucoll_ll_offset(plane, source);
            size_t end = begin + 2 * plane;
            EXPECT_EQ(begin % 16, 0u);
            EXPECT_GE(begin, GPUCOLL_FLAG_BYTES);
            EXPECT_LE(end, source + 1 < ranks ? gpucoll_ll_offset(plane, source + 1)
                                              : GPUCOLL_FLAG_BYTES + GPUCOLL_LL_BYTES);
        }
    }
    EXPECT_LT(gpucoll_flag_index(GPUCOLL_PHASES - 1, GPUCOLL_MAX_CHANNELS - 1, GPUCOLL_MAX_LOCAL - 1) * 8,
              GPUCOLL_FLAG_BYTES);
}

TEST(lane, rows_of_two_ranks_find_room)
{
    const size_t most = GPUCOLL_LL128_BYTES / GPUCOLL_LINE_BYTES;
    for (uint32_t threads = 32; threads <= GPUCOLL_MAX_THREADS; threads += 32) {
        const uint32_t ctas = std::min<uint32_t>(gpucoll_stream_ctas(threads), GPUCOLL_MAX_CHANNELS);
        for (uint32_t row : {1u, threads / 8, ctas * (threads / 8)}) {
            const size_t rows = gpucoll_stream_rows(row);
            EXPECT_GE(rows, size_t{GPUCOLL_STREAM_LEAST_ROWS}) << row;
            EXPECT_EQ(rows % GPUCOLL_STREAM_BATCH, 0u) << row;
            EXPECT_LE(rows * row, most);
            EXPECT_GT((rows + GPUCOLL_STREAM_BATCH) * row, most);
        }
    }
}

TEST(lane, ll128_blocks_stay_inside_and_hold_what_the_capacity_says)
{
    for (uint32_t ranks = 1; ranks <= GPUCOLL_MAX_LOCAL; ranks++) {
        size_t block = gpucoll_ll128_capacity(ranks) * GPUCOLL_LINE_BYTES;
        size_t end = GPUCOLL_FLAG_BYTES + GPUCOLL_LL_BYTES;
        for (uint32_t part = 0; part < 2; part++) {
            for (uint32_t source = 0; source < ranks; source++) {
                size_t begin = gpucoll_ll128_offset(ranks, part, source);
                EXPECT_EQ(begin % GPUCOLL_LINE_BYTES, 0u);
                EXPECT_GE(begin, end);
                end = begin + block;
            }
        }
        EXPECT_LE(end, GPUCOLL_FLAG_BYTES + GPUCOLL_LL_BYTES + GPUCOLL_LL128_BYTES);
        for (uint64_t bytes : {0u, 1u, 16u, 1000u, 1u << 20, (1u << 22) + 4}) {
            uint64_t held =
                gpucoll_ll128_lines(bytes, ranks) * ranks * GPUCOLL_LINE_PACKS * GPUCOLL_PACK_BYTES;
            EXPECT_GE(held, bytes);
            EXPECT_LT(held, bytes + uint64_t{ranks} * (GPUCOLL_LINE_PACKS + 1) * GPUCOLL_PACK_BYTES);
        }
    }
}

TEST(lane, later_calls_and_rounds_have_greater_flags)
{
    EXPECT_LT(gpucoll_flag_value(1, 0), gpucoll_flag_value(1, 1));
    EXPECT_LT(gpucoll_flag_value(1, 4000000000u), gpucoll_flag_value(2, 0));
    EXPECT_GT(gpucoll_flag_value(1, 0), 0u);
}

/* ---- kernels ---- */

TEST(host_kernels, reduce_over_any_ranks_channels_and_counts)
{
    for (gpucoll_kernel kernel : {GPUCOLL_KERNEL_ONESHOT, GPUCOLL_KERNEL_SWAP_LL128,
                                  GPUCOLL_KERNEL_TWOSHOT_LL128, GPUCOLL_KERNEL_TWOSHOT}) {
        for (uint32_t ranks : {1, 2, 3, 5}) {
            if (kernel == GPUCOLL_KERNEL_SWAP_LL128 && ranks != 2) {
                continue;
            }
            Lanes lanes(ranks);
            for (uint32_t channels : {1, 2, 7}) {
                for (size_t count : {0, 1, 3, 4, 5, 1023, 1024, 1025, 30001}) {
                    SCOPED_TRACE(std::to_string(count) + " in " + std::to_string(channels));
                    Call call(lanes, ranks, count);
                    call.run_all(kernel, channels);
                    call.expect_right(lanes);
                }
            }
        }
    }
}

/* What one call leaves in a lane must mean nothing to the next, whatever its kernel, ranks and channels. */
TEST(host_kernels, lanes_are_used_again_by_other_kernels_and_teams)
{
    Lanes lanes(5);
    Random random(11);
    for (int i = 0; i < 300; i++) {
        uint32_t ranks = 2 + random.below(4);
        Call call(lanes, ranks, random.below(3) ? random.below(200) : random.below(20000));
        auto kernel = static_cast<gpucoll_kernel>(random.below(GPUCOLL_KERNEL_MOVE_LL));
        if (kernel == GPUCOLL_KERNEL_SWAP_LL128 && ranks != 2) {
            kernel = GPUCOLL_KERNEL_TWOSHOT_LL128;
        }
        if (kernel == GPUCOLL_KERNEL_ONESHOT_EARLY) { /* of few bytes, and not waited for long: below */
            kernel = GPUCOLL_KERNEL_ONESHOT;
        }
        call.run_all(kernel, 1 + random.below(6));
        call.expect_right(lanes);
    }
}

/* One that is rung for early gives up by itself, with nothing written. What it has sent is there when it is launched after all, and is not sent again. */
TEST(host_kernels, early_ones_write_all_or_nothing)
{
    Lanes lanes(3);
    for (size_t count : {1, 100, 2048}) {
        Call call(lanes, 3, count);
        for (uint32_t rank : {0, 1}) {
            gpucoll_kernel_status &status = lanes.statuses[rank];
            call.run(GPUCOLL_KERNEL_ONESHOT_EARLY, 1, rank);
            EXPECT_FALSE(lanes.is_done(rank));
            EXPECT_EQ(status.left, call.args[rank].done_value - 1);
            EXPECT_EQ(status.sent, call.args[rank].done_value);
            EXPECT_EQ(status.stuck_rank, 0u) << "nobody told it to give up";
            EXPECT_TRUE(call.untouched(rank));
        }
        call.run(GPUCOLL_KERNEL_ONESHOT_EARLY, 1, 2); /* finds all that it waits for */
        EXPECT_TRUE(lanes.is_done(2));
        for (uint32_t rank : {0, 1}) {
            call.args[rank].stages = GPUCOLL_STAGE_REDUCE;
            call.run(GPUCOLL_KERNEL_ONESHOT, 1, rank);
        }
        call.expect_right(lanes);
    }
}

/* Ranks that share a GPU run their kernels one after the other: with `abort` set, any wait would end the kernel. */
TEST(host_kernels, stages_one_by_one_never_wait)
{
    constexpr uint32_t ranks = 3;
    constexpr uint32_t channels = 2;
    Lanes lanes(ranks);
    for (gpucoll_kernel_status &status : lanes.statuses) {
        status.abort = 1;
    }
    for (size_t count : {1, 1000, 30000}) {
        Call call(lanes, ranks, count);
        size_t round = gpucoll_block_bytes(data_bytes, ranks, channels) * ranks * channels;
        for (uint64_t begin = 0; begin * round < count * 4; begin += GPUCOLL_SLOTS) {
            for (uint32_t stage : {GPUCOLL_STAGE_SEND, GPUCOLL_STAGE_REDUCE, GPUCOLL_STAGE_COPY}) {
                for (uint32_t rank = 0; rank < ranks; rank++) {
                    gpucoll_kernel_args &args = call.args[rank];
                    args.round_begin = begin;
                    args.round_end = begin + GPUCOLL_SLOTS;
                    args.stages = stage;
                    call.run(GPUCOLL_KERNEL_TWOSHOT, channels, rank);
                }
            }
        }
        call.expect_right(lanes);
    }
    for (const gpucoll_kernel_status &status : lanes.statuses) {
        EXPECT_EQ(status.stuck_rank, 0u) << "a stage waited";
    }
}

TEST(host_kernels, give_up_when_told_and_name_the_rank)
{
    for (gpucoll_kernel kernel :
         {GPUCOLL_KERNEL_ONESHOT, GPUCOLL_KERNEL_TWOSHOT_LL128, GPUCOLL_KERNEL_TWOSHOT}) {
        Lanes lanes(3);
        Call call(lanes, 3, 100);
        /* Rank 1 sends and gives up at its first wait, rank 2 never comes. */
        lanes.statuses[1].abort = 1;
        call.run(kernel, 1, 1);
        std::thread zero([&] { call.run(kernel, 1, 0); });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_EQ(__atomic_load_n(&lanes.statuses[0].done, __ATOMIC_ACQUIRE), 0u);
        __atomic_store_n(&lanes.statuses[0].abort, 1, __ATOMIC_RELEASE);
        zero.join();
        EXPECT_EQ(lanes.statuses[0].stuck_rank, 1u + 2);
        EXPECT_FALSE(lanes.is_done(0));
    }
}

/* Every functor, with blocks that lie anywhere in the scratch; the own part may be where the result goes. */
TEST(host_kernels, reduce_what_copies_have_brought)
{
    constexpr uint32_t ranks = 5;
    Lanes lanes(1);
    for (const NativePair &pair : native_pairs()) {
        for (uint32_t rank : {0u, 2u, 4u}) {
            const size_t count = 1 + (static_cast<size_t>(pair.functor) * 131 + rank) % 2000;
            std::vector<Bytes> inputs = make_inputs(pair.type, count, count, ranks);
            const Bytes want = reduce_in_order(pair.op, pair.type, inputs);
            Buffer recv(want.size(), pair.functor % 16);
            gpucoll_kernel_args args = lanes.begin_call(1, want.size())[0];
            args.rank = rank;
            args.nranks = ranks;
            args.send = rank == 2 ? recv.data() : inputs[rank].data();
            args.recv = recv.data();
            std::copy(inputs[rank].begin(), inputs[rank].end(), recv.data());
            for (uint32_t i = 0; i < ranks; i++) {
                args.peer[i].lane = i == rank ? nullptr : inputs[i].data();
            }
            gpucoll_host_kernel(GPUCOLL_KERNEL_REDUCE_BLOCKS, pair.functor, 1 + rank, &args, nullptr);
            EXPECT_TRUE(lanes.is_done(0));
            EXPECT_TRUE(std::equal(want.begin(), want.end(), recv.data()))
                << gpucoll_functor_name(pair.functor);
            EXPECT_TRUE(recv.guards_intact());
        }
    }
}
