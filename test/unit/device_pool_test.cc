/*
 * The pool of device memory, on the host accelerator.
 */
#include "test/unit/unit.h"

extern "C" {
#include "core/device_pool.h"
}

class device_pool : public testing::Test
{
  protected:
    void SetUp() override
    {
        gpucoll_config_init(&config);
        ASSERT_EQ(gpucoll_config_set(&config, "accelerator", "host"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_config_set(&config, "pack_bytes", "4M"), GPUCOLL_OK);
        ASSERT_EQ(gpucoll_accel_open(&config, log.get(), &accel), GPUCOLL_OK);
        ASSERT_EQ(accel->ops->device_open(accel, this, &pool.device), GPUCOLL_OK);
    }
    void TearDown() override
    {
        gpucoll_device_pool_close(&pool);
        EXPECT_EQ(pool.total_bytes, 0u);
        EXPECT_EQ(pool.kept_bytes, 0u);
        accel->ops->device_close(pool.device);
        gpucoll_accel_close(accel);
    }

    RecordingLog log;
    gpucoll_config config;
    gpucoll_accel *accel = nullptr;
    gpucoll_device_pool pool = {};
};

TEST_F(device_pool, gives_a_block_again)
{
    void *first = gpucoll_device_pool_get(&pool, 100000);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
    void *second = gpucoll_device_pool_get(&pool, 100000);
    EXPECT_NE(second, first);
    gpucoll_device_pool_put(&pool, first);
    EXPECT_EQ(gpucoll_device_pool_get(&pool, 99000), first);
    gpucoll_device_pool_put(&pool, first);
    gpucoll_device_pool_put(&pool, second);
    gpucoll_device_pool_put(&pool, nullptr);
    EXPECT_EQ(pool.kept_bytes, pool.total_bytes);
    gpucoll_device_pool_close(&pool);
    EXPECT_EQ(pool.total_bytes, 0u);
}

TEST_F(device_pool, stays_within_its_bound)
{
    void *half = gpucoll_device_pool_get(&pool, 2 << 20);
    void *other = gpucoll_device_pool_get(&pool, 2 << 20);
    EXPECT_NE(half, nullptr);
    EXPECT_NE(other, nullptr);
    EXPECT_EQ(gpucoll_device_pool_get(&pool, 1), nullptr);
    EXPECT_EQ(gpucoll_device_pool_get(&pool, SIZE_MAX), nullptr);
    gpucoll_device_pool_put(&pool, half);
    EXPECT_NE(gpucoll_device_pool_get(&pool, 1 << 20), nullptr) << "what is kept makes room";
}

/* A block that is still in use when the pool is closed (its call was abandoned) is freed too. */
TEST_F(device_pool, closes_with_blocks_in_use)
{
    EXPECT_NE(gpucoll_device_pool_get(&pool, 1 << 20), nullptr);
}
