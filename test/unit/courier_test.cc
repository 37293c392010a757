/*
 * The courier on the host accelerator: what it takes and what not, and that bytes come where they belong.
 */
#include <cstring>
#include <thread>
#include "test/unit/unit.h"

extern "C" {
#include "core/copies.h"
#include "core/courier.h"
}

namespace
{
constexpr size_t memory_bytes = 1024;

class courier : public testing::Test
{
  protected:
    void SetUp() override { open("20"); }
    void TearDown() override { close(); }

    void open(const char *linger)
    {
        close();
        gpucoll_config_init(&config);
        ASSERT_EQ(gpucoll_config_set(&config, "accelerator", "host"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_config_set(&config, "linger", linger), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_config_set(&config, "scratch_bytes", "65536"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_accel_open(&config, log.get(), &accel), GPUCOLL_OK);
        memory = static_cast<char *>(gpucoll_host_malloc(memory_bytes, GPUCOLL_MEMORY_DEVICE));
        ASSERT_EQ(gpucoll_gpu_open(accel, memory, &gpu), GPUCOLL_OK);
    }

    void close()
    {
        gpucoll_gpu_close(gpu);
        gpucoll_host_free(memory);
        gpucoll_accel_close(accel);
        gpu = nullptr;
        memory = nullptr;
        accel = nullptr;
    }

    bool take(void *to, const void *from, uint64_t bytes, bool to_host)
    {
        const struct gpucoll_copy copy = {to, from, bytes};
        return gpucoll_courier_take(&gpu->courier, gpu->device, &copy, to_host);
    }

    /* Calls in a row, as often as it takes until one is worth a kernel that lingers. */
    bool take_soon(void *to, const void *from, uint64_t bytes, bool to_host)
    {
        for (int i = 0; i < 1000; i++) {
            if (take(to, from, bytes, to_host)) {
                return true;
            }
        }
        return false;
    }

    void wait()
    {
        while (gpu->courier.passed != gpu->courier.taken) {
            ASSERT_EQ(gpucoll_courier_look(&gpu->courier), GPUCOLL_OK);
            std::this_thread::yield();
        }
    }

    /* By whatever way: it says which. */
    uint32_t copy(bool to_host, void *to, const void *from, uint64_t bytes, bool migrates = false)
    {
        gpucoll_copy_ticket ticket = {};
        const uint32_t queue = to_host ? GPUCOLL_QUEUE_OUT : GPUCOLL_QUEUE_IN;
        EXPECT_EQ(gpucoll_copy_few(gpu, queue, to, from, bytes, migrates, &ticket), GPUCOLL_OK);
        while (gpucoll_copy_done(gpu, ticket) == GPUCOLL_IN_PROGRESS) {
            std::this_thread::yield();
        }
        EXPECT_EQ(gpucoll_copy_done(gpu, ticket), GPUCOLL_OK);
        return ticket.queue;
    }

    RecordingLog log;
    gpucoll_config config;
    gpucoll_accel *accel = nullptr;
    gpucoll_gpu *gpu = nullptr;
    char *memory = nullptr;
};
} // namespace

TEST_F(courier, brings_any_bytes_to_any_place)
{
    Random random(11);
    std::vector<char> kept(memory_bytes);
    std::memset(memory, 0, memory_bytes);
    gpu->courier.done = UINT32_MAX - 20; /* numbers of kernels begin anew on the way */
    for (int i = 0; i < 2000; i++) {
        const uint32_t bytes = 1 + random.below(GPUCOLL_COURIER_BYTES);
        const uint32_t at = random.below(memory_bytes - bytes);
        std::vector<char> here(bytes);
        if (random.below(2)) {
            for (char &byte : here) {
                byte = static_cast<char>(random.below(256));
            }
            std::copy(here.begin(), here.end(), kept.begin() + at);
            copy(false, memory + at, here.data(), bytes);
            ASSERT_EQ(std::memcmp(memory, kept.data(), memory_bytes), 0) << i;
        } else {
            copy(true, here.data(), memory + at, bytes);
            ASSERT_TRUE(std::equal(here.begin(), here.end(), kept.begin() + at)) << i;
        }
    }
    EXPECT_GT(gpu->courier.taken, 0u) << "all went by copiers";
}

TEST_F(courier, takes_one_at_a_time)
{
    char first[8] = "";
    char second[8] = "";
    std::strcpy(memory, "once");
    ASSERT_TRUE(take_soon(first, memory, 5, true));
    if (gpu->courier.passed != gpu->courier.taken) {
        /* Nobody looks, so it is under way until this one asks: it collects the first one's bytes before it may have its place. */
        const bool taken = take(second, memory, 5, true);
        EXPECT_TRUE(!taken || std::strcmp(first, "once") == 0);
    }
    wait();
    EXPECT_STREQ(first, "once");
}

/* What is delivered has been read when the call returns. */
TEST_F(courier, reads_what_it_delivers_at_once)
{
    char word[] = "deliver";
    ASSERT_TRUE(take_soon(memory, word, sizeof word, false));
    std::memset(word, 'x', sizeof word);
    wait();
    EXPECT_STREQ(memory, "deliver");
}

/* A call that gave up gives its memory back, with or without the GPU having come to the courier. */
TEST_F(courier, writes_nothing_that_was_forgotten)
{
    char kept[8] = "kept";
    char next[8] = "";
    std::strcpy(memory, "late");
    ASSERT_TRUE(take_soon(kept, memory, 5, true));
    const gpucoll_copy_ticket ticket = {GPUCOLL_BY_COURIER, gpu->courier.taken};
    const bool waits = gpu->courier.passed != gpu->courier.taken;
    ASSERT_TRUE(waits); /* nobody has looked */
    gpucoll_copy_forget(gpu, ticket);
    wait();
    EXPECT_STREQ(kept, "kept");
    ASSERT_TRUE(take_soon(next, memory, 5, true));
    gpucoll_copy_forget(gpu, ticket); /* of another one by now */
    wait();
    EXPECT_STREQ(next, "late");
}

TEST_F(courier, leaves_to_copiers_what_is_too_long_or_migrates)
{
    std::vector<char> here(GPUCOLL_COURIER_BYTES + 1);
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(copy(true, here.data(), memory, here.size()), GPUCOLL_QUEUE_OUT);
        EXPECT_EQ(copy(false, memory, here.data(), here.size()), GPUCOLL_QUEUE_IN);
        EXPECT_EQ(copy(true, here.data(), memory, 8, true), GPUCOLL_QUEUE_OUT);
        EXPECT_EQ(copy(false, memory, here.data(), 8, true), GPUCOLL_QUEUE_IN);
    }
    EXPECT_EQ(gpu->courier.stream, nullptr);
}

TEST_F(courier, takes_nothing_where_kernels_do_not_linger_or_have_the_gpu_in_turn)
{
    char here[8] = "";
    gpu->device->shared = true;
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(copy(true, here, memory, 8), GPUCOLL_QUEUE_OUT);
    }
    open("0");
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(copy(true, here, memory, 8), GPUCOLL_QUEUE_OUT);
    }
}

TEST_F(courier, takes_nothing_that_comes_rarely)
{
    char here[8] = "";
    for (int i = 0; i < 10; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const bool taken = take(here, memory, 8, true);
        EXPECT_EQ(taken, i < GPUCOLL_HABIT_DOUBTS) << i;
        wait();
    }
}

/* The numbers of calls are those of the kernels' words, which have 32 bits. */
TEST_F(courier, goes_on_where_numbers_wrap_around)
{
    char here[8] = "";
    std::strcpy(memory, "around");
    ASSERT_TRUE(take_soon(here, memory, 8, true));
    wait();
    gpu->courier.taken = gpu->courier.passed = UINT32_MAX - 3;
    for (int i = 0; i < 8; i++) {
        std::memset(here, 0, sizeof here);
        memory[0] = static_cast<char>('a' + i);
        ASSERT_TRUE(take_soon(here, memory, 8, true));
        wait();
        EXPECT_STREQ(here, memory);
    }
    EXPECT_GT(gpu->courier.taken, uint64_t{UINT32_MAX});
}
