/*
 * The host accelerator: what it takes for device memory, its pretended GPUs, their scratch and streams.
 */
#include <chrono>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include "test/unit/unit.h"

class host_accel : public testing::Test
{
  protected:
    void SetUp() override { open(); }
    void TearDown() override { gpucoll_accel_close(accel); }

    void open(std::initializer_list<std::pair<const char *, const char *>> settings = {})
    {
        gpucoll_accel_close(accel);
        gpucoll_config_init(&config);
        ASSERT_EQ(gpucoll_config_set(&config, "accelerator", "host"), GPUCOLL_OK);
        for (const auto &setting : settings) {
            ASSERT_EQ(gpucoll_config_set(&config, setting.first, setting.second), GPUCOLL_OK);
        }
        ASSERT_EQ(gpucoll_accel_open(&config, log.get(), &accel), GPUCOLL_OK);
        ASSERT_NE(accel, nullptr);
        ops = accel->ops;
    }

    gpucoll_buffer classify(const void *pointer)
    {
        gpucoll_buffer buffer;
        ops->classify(accel, pointer, &buffer);
        return buffer;
    }

    gpucoll_memory kind(const void *pointer) { return classify(pointer).memory; }

    gpucoll_device *device()
    {
        gpucoll_device *made = nullptr;
        EXPECT_EQ(ops->device_open(accel, this, &made), GPUCOLL_OK);
        return made;
    }

    gpucoll_device_id id_of(gpucoll_device *device)
    {
        gpucoll_device_id id;
        ops->device_id(device, &id);
        return id;
    }

    RecordingLog log;
    gpucoll_config config;
    gpucoll_accel *accel = nullptr;
    const gpucoll_accel_ops *ops = nullptr;
};

/* ---- opening ---- */

TEST(accel, rows_have_names_that_the_parameter_accepts)
{
    const gpucoll_accel_ops *row;
    int rows = 0;
    for (; (row = gpucoll_accel_row(rows)) != nullptr; rows++) {
        gpucoll_config config;
        gpucoll_config_init(&config);
        EXPECT_EQ(gpucoll_config_set(&config, "accelerator", row->name), GPUCOLL_OK) << row->name;
        EXPECT_GT(strlen(row->help), 10u);
    }
    EXPECT_GE(rows, 1);
    EXPECT_EQ(gpucoll_accel_row(-1), nullptr);
}

TEST(accel, no_kernel_has_the_number_zero)
{
    uint32_t number = 0;
    EXPECT_EQ(gpucoll_next_done(&number), 1u);
    number = UINT32_MAX - 1;
    EXPECT_EQ(gpucoll_next_done(&number), UINT32_MAX);
    EXPECT_EQ(gpucoll_next_done(&number), 1u);
    EXPECT_EQ(number, 1u);
}

TEST(accel, none_is_no_accelerator_and_no_error)
{
    RecordingLog log;
    gpucoll_config config;
    gpucoll_config_init(&config);
    ASSERT_EQ(gpucoll_config_set(&config, "accelerator", "none"), GPUCOLL_OK);
    gpucoll_accel *accel = reinterpret_cast<gpucoll_accel *>(&config);
    EXPECT_EQ(gpucoll_accel_open(&config, log.get(), &accel), GPUCOLL_OK);
    EXPECT_EQ(accel, nullptr);
    EXPECT_TRUE(log.topics().empty());
    gpucoll_accel_close(accel);
}

TEST(accel, host_is_never_chosen_by_itself)
{
    RecordingLog log;
    gpucoll_config config;
    gpucoll_config_init(&config);
    gpucoll_accel *accel = nullptr;
    EXPECT_EQ(gpucoll_accel_open(&config, log.get(), &accel), GPUCOLL_OK);
    if (accel != nullptr) {
        EXPECT_STREQ(accel->ops->name, "cuda");
    }
    EXPECT_TRUE(log.topics().empty()) << "a machine without a GPU is nothing to speak of";
    gpucoll_accel_close(accel);
}

TEST(accel, one_asked_for_by_name_and_missing_is_said)
{
    RecordingLog log;
    gpucoll_config config;
    gpucoll_config_init(&config);
    ASSERT_EQ(gpucoll_config_set(&config, "accelerator", "cuda"), GPUCOLL_OK);
    gpucoll_accel *accel = nullptr;
    EXPECT_EQ(gpucoll_accel_open(&config, log.get(), &accel), GPUCOLL_OK);
    if (accel != nullptr) {
        gpucoll_accel_close(accel);
        GTEST_SKIP() << "this machine has a CUDA driver";
    }
    std::string text = log.text_of("accelerator-missing");
    EXPECT_TRUE(text.find("no CUDA driver: ") != std::string::npos ||
                text.find("built without it") != std::string::npos)
        << text;
}

/* ---- memory ---- */

TEST_F(host_accel, plain_memory_counts_as_the_parameter_says)
{
    static char in_program[4];
    char on_stack[4];
    std::vector<char> on_heap(4);
    for (const void *pointer : {static_cast<void *>(in_program), static_cast<void *>(on_stack),
                                static_cast<void *>(on_heap.data())}) {
        open({{"host_memory", "device"}});
        EXPECT_EQ(kind(pointer), GPUCOLL_MEMORY_DEVICE);
        EXPECT_EQ(classify(pointer).device, 0);
        open({{"host_memory", "host"}});
        EXPECT_EQ(kind(pointer), GPUCOLL_MEMORY_HOST);
        EXPECT_EQ(classify(pointer).device, -1);
    }
}

TEST_F(host_accel, null_is_host_memory)
{
    EXPECT_EQ(kind(nullptr), GPUCOLL_MEMORY_HOST);
}

TEST_F(host_accel, allocated_memory_counts_as_it_was_asked_for)
{
    for (const char *plain : {"device", "host"}) {
        open({{"host_memory", plain}});
        for (gpucoll_memory memory : {GPUCOLL_MEMORY_DEVICE, GPUCOLL_MEMORY_HOST}) {
            auto *pointer = static_cast<char *>(gpucoll_host_malloc(1000, memory));
            ASSERT_NE(pointer, nullptr);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % 256, 0u);
            EXPECT_EQ(kind(pointer), memory);
            EXPECT_EQ(kind(pointer + 999), memory);
            EXPECT_NE(classify(pointer).id, 0u);
            EXPECT_EQ(classify(pointer).id, classify(pointer + 500).id);
            EXPECT_EQ(classify(pointer + 1000).id, 0u) << "past the end";
            memset(pointer, 1, 1000);
            gpucoll_host_free(pointer);
        }
    }
}

TEST_F(host_accel, memory_made_again_at_the_same_address_has_another_id)
{
    uint64_t before = 0;
    for (int i = 0; i < 10; i++) {
        void *pointer = gpucoll_host_malloc(4096, GPUCOLL_MEMORY_DEVICE);
        uint64_t now = classify(pointer).id;
        EXPECT_GT(now, before);
        before = now;
        gpucoll_host_free(pointer);
        EXPECT_EQ(classify(pointer).id, 0u);
    }
}

TEST_F(host_accel, empty_and_impossible_allocations)
{
    void *a = gpucoll_host_malloc(0, GPUCOLL_MEMORY_DEVICE);
    void *b = gpucoll_host_malloc(0, GPUCOLL_MEMORY_DEVICE);
    EXPECT_TRUE(a != nullptr && b != nullptr && a != b);
    EXPECT_EQ(kind(a), GPUCOLL_MEMORY_DEVICE);
    gpucoll_host_free(a);
    gpucoll_host_free(b);
    EXPECT_EQ(gpucoll_host_malloc(SIZE_MAX, GPUCOLL_MEMORY_DEVICE), nullptr);
    gpucoll_host_free(nullptr);
    char foreign;
    gpucoll_host_free(&foreign); /* not of this allocator: left alone */
}

TEST_F(host_accel, allocator_serves_many_threads)
{
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&] {
            for (int i = 0; i < 200; i++) {
                void *pointer = gpucoll_host_malloc(64, GPUCOLL_MEMORY_DEVICE);
                EXPECT_EQ(kind(pointer), GPUCOLL_MEMORY_DEVICE);
                gpucoll_host_free(pointer);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

TEST_F(host_accel, copies_rows_and_nothing_between_them)
{
    const char sent[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    auto *a = static_cast<char *>(gpucoll_host_malloc(sizeof sent, GPUCOLL_MEMORY_DEVICE));
    const gpucoll_rows rows[] = {{1, 2, 5, 3}, {20, 1, -2, 2}, {30, 4, 0, 1}};
    memset(a, '.', sizeof sent);
    a[sizeof sent - 1] = 0;
    EXPECT_EQ(ops->copy_rows(accel, a, sent, rows, 3), GPUCOLL_OK);
    EXPECT_STREQ(a, ".12...67...bc.....i.k.........uvwx..");
    gpucoll_host_free(a);
}

TEST_F(host_accel, copies_between_any_two_kinds)
{
    auto *a = static_cast<char *>(gpucoll_host_malloc(100, GPUCOLL_MEMORY_DEVICE));
    void *pinned = nullptr;
    ASSERT_EQ(ops->host_alloc(accel, 100, &pinned), GPUCOLL_OK);
    EXPECT_EQ(kind(pinned), GPUCOLL_MEMORY_HOST);
    strcpy(a, "there and back");
    EXPECT_EQ(ops->copy(accel, pinned, a, 100), GPUCOLL_OK);
    memset(a, 0, 100);
    EXPECT_EQ(ops->copy(accel, a, pinned, 100), GPUCOLL_OK);
    EXPECT_STREQ(a, "there and back");
    EXPECT_EQ(ops->copy(accel, a + 6, a, 20), GPUCOLL_OK); /* overlapping */
    EXPECT_STREQ(a, "there there and back");
    EXPECT_EQ(ops->copy(accel, nullptr, nullptr, 0), GPUCOLL_OK);
    EXPECT_EQ(ops->synchronize(accel, a), GPUCOLL_OK);
    EXPECT_TRUE(ops->active(accel));
    ops->host_free(accel, pinned);
    gpucoll_host_free(a);
}

/* ---- devices ---- */

TEST_F(host_accel, devices_are_distinct_unless_they_are_to_be_shared)
{
    gpucoll_device *a = device();
    gpucoll_device *b = device();
    gpucoll_device_id id_a = id_of(a);
    gpucoll_device_id id_b = id_of(b);
    EXPECT_NE(memcmp(&id_a, &id_b, sizeof id_a), 0);
    EXPECT_EQ(ops->device_link(a, &id_b), GPUCOLL_LINK_NVLINK);
    EXPECT_EQ(ops->device_link(a, &id_a), GPUCOLL_LINK_SAME);
    id_b.uuid[0] ^= 1; /* the place */
    EXPECT_EQ(ops->device_link(a, &id_b), GPUCOLL_LINK_NONE);
    ops->device_close(b);
    ops->device_close(a);

    open({{"host_devices", "1"}});
    a = device();
    b = device();
    id_a = id_of(a);
    id_b = id_of(b);
    EXPECT_EQ(memcmp(&id_a, &id_b, sizeof id_a), 0);
    ops->device_close(b);
    ops->device_close(a);
}

TEST_F(host_accel, scratch_is_zero_and_mapped_by_peers)
{
    gpucoll_device *owner = device();
    void *scratch = nullptr;
    gpucoll_memory_handle handle;
    ASSERT_EQ(ops->scratch_alloc(owner, 100000, &scratch, &handle), GPUCOLL_OK);
    for (size_t i = 0; i < 100000; i++) {
        ASSERT_EQ(static_cast<char *>(scratch)[i], 0);
    }
    gpucoll_device *neighbour = device();
    void *seen = nullptr;
    ASSERT_EQ(ops->import(neighbour, &handle, &seen), GPUCOLL_OK);
    EXPECT_EQ(seen, scratch) << "the same process uses the address as it is";
    ops->release(neighbour, &handle, seen);
    ops->device_close(neighbour);

    pid_t child = fork();
    if (child == 0) {
        gpucoll_device *peer = device();
        void *mapped = nullptr;
        if (ops->import(peer, &handle, &mapped) != GPUCOLL_OK || mapped == scratch) {
            _exit(1);
        }
        strcpy(static_cast<char *>(mapped) + 99000, "stored by a peer");
        ops->release(peer, &handle, mapped);
        ops->device_close(peer);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_STREQ(static_cast<char *>(scratch) + 99000, "stored by a peer");
    ops->scratch_free(owner, scratch);
    ops->device_close(owner);
}

TEST_F(host_accel, handle_that_names_nothing_is_refused)
{
    gpucoll_device *owner = device();
    void *scratch = nullptr;
    gpucoll_memory_handle handle;
    ASSERT_EQ(ops->scratch_alloc(owner, 4096, &scratch, &handle), GPUCOLL_OK);
    ops->scratch_free(owner, scratch);
    pid_t child = fork();
    if (child == 0) {
        void *mapped = nullptr;
        _exit(ops->import(owner, &handle, &mapped) == GPUCOLL_OK || log.text_of("segment-open").empty());
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    ops->device_close(owner);
}

TEST_F(host_accel, closing_a_device_gives_back_what_is_left)
{
    gpucoll_device *owner = device();
    for (int i = 0; i < 3; i++) {
        void *scratch = nullptr;
        gpucoll_memory_handle handle;
        ASSERT_EQ(ops->scratch_alloc(owner, 4096, &scratch, &handle), GPUCOLL_OK);
        void *seen = nullptr;
        ASSERT_EQ(ops->import(owner, &handle, &seen), GPUCOLL_OK);
    }
    ops->device_close(owner); /* a leak would be told by the address sanitizer */
}

/* ---- streams ---- */

class host_stream : public host_accel
{
  protected:
    void SetUp() override
    {
        host_accel::SetUp();
        one = device();
        ASSERT_EQ(ops->stream_open(one, &stream), GPUCOLL_OK);
        lane.resize(gpucoll_lane_bytes(4096) / sizeof(uint64_t));
    }

    void TearDown() override
    {
        if (stream != nullptr) {
            ops->stream_close(stream);
        }
        ops->device_close(one);
        host_accel::TearDown();
    }

    /* A kernel of one rank that copies `from` to `to`; of two ranks, it waits for a peer that never comes. */
    gpucoll_status launch(float *to, const float *from, uint32_t done, uint32_t ranks = 1)
    {
        gpucoll_kernel_args args;
        memset(&args, 0, sizeof args);
        args.send = from;
        args.recv = to;
        args.bytes = sizeof(float);
        args.data_bytes = 4096;
        args.round_end = UINT64_MAX;
        args.stages = GPUCOLL_STAGE_ALL;
        args.done_value = done;
        args.nranks = ranks;
        args.peer[0].lane = args.peer[1].lane = lane.data();
        args.peer[0].epoch = args.peer[1].epoch = 7;
        gpucoll_launch launch = {
            GPUCOLL_KERNEL_TWOSHOT, GPUCOLL_FN_sum_f32, 1, 32, 0, false, false, false, &args, nullptr};
        return ops->launch(stream, &launch);
    }

    uint32_t done() { return __atomic_load_n(&ops->stream_status(stream)->done, __ATOMIC_ACQUIRE); }

    void wait_for(uint32_t value)
    {
        while (done() != value) {
            std::this_thread::yield();
        }
    }

    gpucoll_device *one = nullptr;
    gpucoll_stream *stream = nullptr;
    std::vector<uint64_t> lane;
};

TEST_F(host_stream, runs_more_launches_than_its_queue_holds_in_order)
{
    float value[101] = {1.5f};
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(launch(&value[i + 1], &value[i], static_cast<uint32_t>(i + 1)), GPUCOLL_OK);
    }
    wait_for(100);
    EXPECT_EQ(ops->stream_poll(stream), GPUCOLL_OK);
    EXPECT_EQ(value[100], 1.5f);
    EXPECT_EQ(ops->stream_health(stream), GPUCOLL_OK);
}

TEST_F(host_stream, abort_ends_a_kernel_that_waits_and_names_the_rank)
{
    float value[2] = {1, 0};
    ASSERT_EQ(launch(&value[1], &value[0], 1, 2), GPUCOLL_OK);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(done(), 0u);
    EXPECT_EQ(ops->stream_poll(stream), GPUCOLL_IN_PROGRESS);
    gpucoll_kernel_status *status = ops->stream_status(stream);
    __atomic_store_n(&status->abort, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&status->stuck_rank, __ATOMIC_ACQUIRE) == 0) {
        std::this_thread::yield();
    }
    EXPECT_EQ(status->stuck_rank, 1u + 1);
    EXPECT_EQ(done(), 0u) << "a kernel that gave up is not done";
}

TEST_F(host_stream, stop_returns_when_no_buffer_is_touched_any_more)
{
    float value[2] = {1, 0};
    ops->stream_stop(stream); /* nothing to stop */
    gpucoll_kernel_status *status = ops->stream_status(stream);
    __atomic_store_n(&status->abort, 0, __ATOMIC_RELEASE);
    ASSERT_EQ(launch(&value[1], &value[0], 1, 2), GPUCOLL_OK);
    ASSERT_EQ(launch(&value[1], &value[0], 2, 2), GPUCOLL_OK);
    ops->stream_stop(stream);
    value[0] = value[1] = 2; /* a race that the thread sanitizer would tell */
    EXPECT_EQ(ops->stream_poll(stream), GPUCOLL_IN_PROGRESS);
    EXPECT_EQ(status->stuck_rank, 1u + 1);
}

TEST_F(host_stream, what_stores_to_peers_does_not_begin_once_it_is_given_up)
{
    float value[2] = {1, 0};
    float stored[2] = {3, 4};
    ASSERT_EQ(launch(&value[1], &value[0], 1, 2), GPUCOLL_OK); /* waits */
    gpucoll_kernel_args args;
    memset(&args, 0, sizeof args);
    args.bytes = sizeof(float);
    args.done_value = 2;
    args.nranks = 1;
    gpucoll_kernel_runs runs = {};
    runs.run[0] = {&stored[0], &stored[1], sizeof(float), sizeof(float)};
    gpucoll_launch behind = {
        GPUCOLL_KERNEL_STORE, GPUCOLL_FN_sum_u8, 1, 32, 0, false, false, false, &args, &runs};
    ASSERT_EQ(ops->launch(stream, &behind), GPUCOLL_OK);
    args.done_value = 3; /* a reduction that has all it needs */
    args.stages = GPUCOLL_STAGE_ALL;
    behind.kernel = GPUCOLL_KERNEL_REDUCE;
    ASSERT_EQ(ops->launch(stream, &behind), GPUCOLL_OK);
    ops->stream_stop(stream);
    EXPECT_EQ(stored[1], 4);
    EXPECT_EQ(done(), 0u);
}

TEST_F(host_stream, closes_although_a_kernel_waits)
{
    float value[2] = {1, 0};
    ASSERT_EQ(launch(&value[1], &value[0], 1, 2), GPUCOLL_OK);
    ops->stream_close(stream);
    stream = nullptr;
}

TEST_F(host_stream, impossible_launches_are_refused)
{
    gpucoll_kernel_args args;
    memset(&args, 0, sizeof args);
    args.nranks = 2;
    const gpucoll_launch good = {
        GPUCOLL_KERNEL_ONESHOT, GPUCOLL_FN_sum_f32, 1, 32, 0, false, false, false, &args, nullptr};
    gpucoll_launch bad = good;
    bad.functor = GPUCOLL_FUNCTOR_COUNT;
    EXPECT_EQ(ops->launch(stream, &bad), GPUCOLL_ERR_INVALID);
    bad = good;
    bad.functor = -1;
    EXPECT_EQ(ops->launch(stream, &bad), GPUCOLL_ERR_INVALID);
    bad = good;
    bad.kernel = GPUCOLL_KERNEL_COUNT;
    EXPECT_EQ(ops->launch(stream, &bad), GPUCOLL_ERR_INVALID);
    bad = good;
    bad.ctas = 0;
    EXPECT_EQ(ops->launch(stream, &bad), GPUCOLL_ERR_INVALID);
    bad.ctas = GPUCOLL_MAX_CHANNELS + 1;
    EXPECT_EQ(ops->launch(stream, &bad), GPUCOLL_ERR_INVALID);
    args.nranks = GPUCOLL_MAX_LOCAL + 1;
    EXPECT_EQ(ops->launch(stream, &good), GPUCOLL_ERR_INVALID);
}
