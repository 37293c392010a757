/*
 * Reductions of one process (core/reduce_local.c): results, which buffers are taken, and lanes that are short.
 */
#include <chrono>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include "test/unit/ranks.h"
#include "test/unit/values.h"

extern "C" {
#include "core/gpu.h"
}

namespace
{
/* A process that has made no team. */
class reduce_local : public testing::Test
{
  protected:
    void SetUp() override { open({}); }
    void TearDown() override { gpucoll_context_destroy(context); }

    void open(const Settings &settings)
    {
        gpucoll_context_destroy(context);
        context = nullptr;
        gpucoll_config_init(&config);
        ASSERT_EQ(gpucoll_config_set(&config, "accelerator", "host"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_config_set(&config, "scratch_bytes", "1M"), GPUCOLL_OK);
        for (const auto &setting : settings) {
            ASSERT_EQ(gpucoll_config_set(&config, setting.first, setting.second), GPUCOLL_OK);
        }
        ASSERT_EQ(gpucoll_context_create(&config, log.get(), &context), GPUCOLL_OK);
    }

    gpucoll_local make(gpucoll_op op, gpucoll_type type, const void *in, void *inout, size_t count) const
    {
        gpucoll_local local = {};
        local.op = op;
        local.type = type;
        local.in = in;
        local.inout = inout;
        local.count = count;
        return local;
    }

    gpucoll_status run(gpucoll_local &local) const
    {
        gpucoll_status status = gpucoll_local_start(context, &local);
        while (status == GPUCOLL_OK) {
            const gpucoll_status now = gpucoll_local_test(&local);
            if (now != GPUCOLL_IN_PROGRESS) {
                return now;
            }
            std::this_thread::yield();
        }
        return status;
    }

    RecordingLog log;
    gpucoll_config config;
    gpucoll_context *context = nullptr;
};

/* The functor's operation on what `in` and `inout` hold. */
Bytes expected(int functor, const Buffer &in, const Buffer &inout)
{
    Bytes want(in.size());
    gpucoll_host_reduce(functor, want.data(), in.data(), inout.data(),
                        want.size() / gpucoll_host_functor_size(functor));
    return want;
}

bool holds(const Buffer &buffer, const Bytes &want)
{
    return std::equal(want.begin(), want.end(), buffer.data()) && buffer.guards_intact();
}
} // namespace

TEST_F(reduce_local, every_functor_at_every_place)
{
    for (const NativePair &pair : native_pairs()) {
        for (size_t count : {1, 7, 1003, 70001}) {
            const size_t bytes = count * gpucoll_type_size(pair.type);
            Buffer in(bytes, (pair.functor + count) % 17);
            Buffer inout(bytes, (pair.functor * 3 + count) % 17);
            const Bytes left = make_input(pair.type, count, pair.functor, 0);
            const Bytes right = make_input(pair.type, count, pair.functor, 1);
            std::copy(left.begin(), left.end(), in.data());
            std::copy(right.begin(), right.end(), inout.data());
            const Bytes want = expected(pair.functor, in, inout);
            gpucoll_local local = make(pair.op, pair.type, in.data(), inout.data(), count);
            ASSERT_EQ(run(local), GPUCOLL_OK);
            EXPECT_TRUE(holds(inout, want)) << gpucoll_functor_name(pair.functor) << " of " << count;
            EXPECT_TRUE(holds(in, left)) << gpucoll_functor_name(pair.functor) << " of " << count;
        }
    }
    EXPECT_TRUE(log.topics().empty());
}

/* Of equal values MAX and MIN give the right operand, which only zeros of different signs show. */
TEST_F(reduce_local, the_first_buffer_is_the_left_operand)
{
    for (gpucoll_op op : {GPUCOLL_MAX, GPUCOLL_MIN}) {
        Buffer in(8);
        Buffer inout(8);
        const float left[] = {0.0f, -0.0f};
        const float right[] = {-0.0f, 0.0f};
        memcpy(in.data(), left, 8);
        memcpy(inout.data(), right, 8);
        gpucoll_local local = make(op, GPUCOLL_FLOAT32, in.data(), inout.data(), 2);
        ASSERT_EQ(run(local), GPUCOLL_OK);
        EXPECT_EQ(memcmp(inout.data(), right, 8), 0);
        EXPECT_EQ(memcmp(in.data(), left, 8), 0);
    }
}

/* The same memory again and again, but for the end, which lies beyond what 32 bits can say. */
TEST_F(reduce_local, places_beyond_32_bits)
{
    if (divisor > 1) {
        GTEST_SKIP() << "takes long where every access is looked at";
    }
    const size_t piece = 4 << 20;
    const size_t pieces = 1025;
    const int file = memfd_create("pieces", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, static_cast<off_t>(3 * piece)), 0);
    char *maps[2];
    for (char *&map : maps) {
        map = static_cast<char *>(
            mmap(nullptr, pieces * piece, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        ASSERT_NE(map, MAP_FAILED);
        const bool second = &map == &maps[1];
        for (size_t i = 0; i < pieces; i++) {
            const size_t at = !second ? 0 : i + 1 < pieces ? 1 : 2;
            ASSERT_NE(mmap(map + i * piece, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                           static_cast<off_t>(at * piece)),
                      MAP_FAILED);
        }
    }
    for (size_t i = 0; i < piece; i++) {
        maps[0][i] = static_cast<char>(i * 7 + i / 251);
    }
    gpucoll_local local = make(GPUCOLL_BOR, GPUCOLL_UINT64, maps[0], maps[1], pieces * piece / 8);
    EXPECT_EQ(run(local), GPUCOLL_OK);
    EXPECT_EQ(memcmp(maps[0], maps[1], piece), 0);
    EXPECT_EQ(memcmp(maps[0], maps[1] + (pieces - 1) * piece, piece), 0);
    for (char *map : maps) {
        munmap(map, pieces * piece);
    }
    close(file);
}

TEST_F(reduce_local, says_why_it_declines)
{
    Buffer device(64);
    Buffer other(64);
    Buffer host(64, 0, GPUCOLL_MEMORY_HOST);
    memset(device.data(), 1, 64);
    memset(other.data(), 2, 64);
    memset(host.data(), 4, 64);
    const struct {
        gpucoll_op op;
        gpucoll_type type;
        void *in, *inout;
        size_t count;
        gpucoll_reason reason;
    } calls[] = {
        {GPUCOLL_SUM, GPUCOLL_INT32, device.data(), other.data(), 0, GPUCOLL_REASON_OPERAND},
        {GPUCOLL_BAND, GPUCOLL_FLOAT32, device.data(), other.data(), 16, GPUCOLL_REASON_OPERAND},
        {GPUCOLL_SUM, GPUCOLL_INT32, host.data(), other.data(), 16, GPUCOLL_REASON_MEMORY},
        {GPUCOLL_SUM, GPUCOLL_INT32, device.data(), host.data(), 16, GPUCOLL_REASON_MEMORY},
        {GPUCOLL_SUM, GPUCOLL_INT32, host.data(), host.data(), 16, GPUCOLL_REASON_MEMORY},
    };
    for (const auto &call : calls) {
        gpucoll_local local = make(call.op, call.type, call.in, call.inout, call.count);
        EXPECT_EQ(run(local), GPUCOLL_DECLINED);
        EXPECT_EQ(local.reason, call.reason);
        EXPECT_EQ(local.gpu, nullptr); /* none is bound for a call that is not to run */
    }
    EXPECT_EQ(device.data()[0], 1);
    EXPECT_EQ(other.data()[63], 2);
    EXPECT_EQ(host.data()[63], 4);
}

/* Held by a call that runs, a lane is waited for; by one that waits for other ranks, it is not. */
TEST_F(reduce_local, lanes_are_waited_for_if_their_calls_run)
{
    open({{"lanes", "2"}});
    Buffer in(4096);
    Buffer inout(4096);
    memset(in.data(), 1, 4096);
    memset(inout.data(), 2, 4096);
    gpucoll_local local = make(GPUCOLL_SUM, GPUCOLL_UINT8, in.data(), inout.data(), 4096);
    ASSERT_EQ(run(local), GPUCOLL_OK);
    EXPECT_EQ(local.lane, &local.gpu->lanes[1]); /* on the first, kernels linger */

    gpucoll_lane *first = gpucoll_gpu_take_lane(local.gpu);
    gpucoll_lane *second = gpucoll_gpu_take_lane(local.gpu);
    EXPECT_EQ(run(local), GPUCOLL_DECLINED);
    EXPECT_EQ(local.reason, GPUCOLL_REASON_LANES);

    gpucoll_gpu_mark_running(first);
    ASSERT_EQ(gpucoll_local_start(context, &local), GPUCOLL_OK);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(gpucoll_local_test(&local), GPUCOLL_IN_PROGRESS);
        EXPECT_EQ(local.lane, nullptr);
    }
    gpucoll_gpu_give_lane(first);
    gpucoll_status status = GPUCOLL_IN_PROGRESS;
    while (status == GPUCOLL_IN_PROGRESS) {
        status = gpucoll_local_test(&local);
    }
    EXPECT_EQ(status, GPUCOLL_OK);
    EXPECT_EQ(local.lane, first);
    EXPECT_FALSE(first->taken);
    gpucoll_gpu_give_lane(second);
    EXPECT_EQ(inout.data()[4095], 4); /* two of the three ran */
}

/* Its call may end only by progress that this caller alone could turn. */
TEST_F(reduce_local, a_lane_that_does_not_come_free_is_not_waited_for_long)
{
    open({{"lanes", "1"}});
    Buffer in(64);
    Buffer inout(64);
    memset(in.data(), 1, 64);
    memset(inout.data(), 2, 64);
    gpucoll_local local = make(GPUCOLL_SUM, GPUCOLL_UINT8, in.data(), inout.data(), 64);
    ASSERT_EQ(run(local), GPUCOLL_OK);
    gpucoll_lane *only = gpucoll_gpu_take_lane(local.gpu);
    gpucoll_gpu_mark_running(only);
    for (int round = 0; round < 2; round++) { /* each call waits by itself */
        const auto begin = std::chrono::steady_clock::now();
        const auto waited = [&] { return std::chrono::steady_clock::now() - begin; };
        ASSERT_EQ(gpucoll_local_start(context, &local), GPUCOLL_OK);
        gpucoll_status status = GPUCOLL_IN_PROGRESS;
        while (status == GPUCOLL_IN_PROGRESS && waited() < std::chrono::seconds(10)) {
            status = gpucoll_local_test(&local);
        }
        ASSERT_EQ(status, GPUCOLL_DECLINED);
        EXPECT_GE(waited(), std::chrono::milliseconds(20));
        EXPECT_EQ(local.reason, GPUCOLL_REASON_LANES);
        EXPECT_EQ(inout.data()[63], 3); /* nothing has begun */
    }
    gpucoll_gpu_give_lane(only);
    EXPECT_EQ(run(local), GPUCOLL_OK);
    EXPECT_EQ(inout.data()[63], 4);
}

TEST_F(reduce_local, shape_follows_the_parameters)
{
    Buffer in(1 << 20);
    Buffer inout(1 << 20);
    gpucoll_local local = make(GPUCOLL_BXOR, GPUCOLL_UINT8, in.data(), inout.data(), 1 << 20);
    ASSERT_EQ(run(local), GPUCOLL_OK);
    EXPECT_EQ(local.ctas, 64u);
    local.count = 512 * GPUCOLL_PACK_BYTES + 1;
    ASSERT_EQ(run(local), GPUCOLL_OK);
    EXPECT_EQ(local.ctas, 2u);
    open({{"max_ctas", "3"}});
    local.count = 1 << 20;
    ASSERT_EQ(run(local), GPUCOLL_OK);
    EXPECT_EQ(local.ctas, 3u);
    open({{"channels", "5"}});
    local.count = 1;
    ASSERT_EQ(run(local), GPUCOLL_OK);
    EXPECT_EQ(local.ctas, 5u);
}

/* More threads than lanes; the first of them binds the GPU. */
TEST_F(reduce_local, by_many_threads_at_once)
{
    std::vector<std::thread> threads;
    for (int number = 0; number < 8; number++) {
        threads.emplace_back([this, number] {
            for (int round = 0; round < 200; round++) {
                const size_t count = 1 + (round * 131 + number) % 5000;
                Buffer in(count * 4, number);
                Buffer inout(count * 4, round % 16);
                Random random(number * 1000 + round);
                fill(GPUCOLL_INT32, in.data(), count, random);
                fill(GPUCOLL_INT32, inout.data(), count, random);
                const Bytes want = expected(gpucoll_functor(GPUCOLL_SUM, GPUCOLL_INT32), in, inout);
                gpucoll_local local = make(GPUCOLL_SUM, GPUCOLL_INT32, in.data(), inout.data(), count);
                gpucoll_status status = run(local);
                while (status == GPUCOLL_DECLINED && local.reason == GPUCOLL_REASON_LANES) {
                    status = run(local); /* on a busy machine nobody may have given a lane back in time */
                }
                EXPECT_EQ(status, GPUCOLL_OK);
                EXPECT_TRUE(holds(inout, want));
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

/* Collectives want the same lanes, and wait for other ranks while they hold them. */
TEST(reduce_local_beside, collectives_of_the_same_process)
{
    on_threads(2, {{"lanes", "1"}}, [](Rank &rank) {
        std::thread beside([&rank] {
            Buffer in(400);
            Buffer inout(400);
            memset(in.data(), 3, 400);
            for (int round = 0; round < 300; round++) {
                memset(inout.data(), 4, 400);
                gpucoll_local local = {};
                local.op = GPUCOLL_BOR;
                local.type = GPUCOLL_UINT8;
                local.in = in.data();
                local.inout = inout.data();
                local.count = 400;
                gpucoll_status status = gpucoll_local_start(rank.context, &local);
                while (status == GPUCOLL_OK || status == GPUCOLL_IN_PROGRESS) {
                    status = gpucoll_local_test(&local);
                    if (status == GPUCOLL_OK) {
                        EXPECT_EQ(inout.data()[399], 7);
                        break;
                    }
                    std::this_thread::yield();
                }
                EXPECT_TRUE(status == GPUCOLL_OK || local.reason == GPUCOLL_REASON_LANES);
            }
        });
        Buffer send(400);
        Buffer recv(400);
        memset(send.data(), 0, 400);
        for (int round = 0; round < 100; round++) {
            EXPECT_EQ(rank.call(reduce_all(GPUCOLL_SUM, GPUCOLL_FLOAT32, send.data(), recv.data(), 100)),
                      GPUCOLL_OK);
        }
        beside.join();
    });
}
