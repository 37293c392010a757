/*
 * Which GPU a process uses, or will use, without a pointer that tells: with a driver that the test plays.
 */
#include <gtest/gtest.h>

extern "C" {
#include "core/accel/cuda_context.h"
}

namespace
{
struct Machine {
    bool initialised;
    int gpus;
    unsigned primaries; /* bit i: GPU i has a primary context in this process */
    CUcontext current;
    int device_of_current;
};
Machine machine;

CUresult init(unsigned)
{
    machine.initialised = true;
    return machine.gpus > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult current(CUcontext *context)
{
    *context = machine.current;
    return machine.initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult device_of_current(CUdevice *device)
{
    *device = machine.device_of_current;
    return machine.current != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult count(int *gpus)
{
    *gpus = machine.gpus;
    return machine.initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult get(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult primary(CUdevice device, unsigned *flags, int *active)
{
    *flags = 0;
    *active = static_cast<int>(machine.primaries >> device & 1);
    return CUDA_SUCCESS;
}

class cuda_context : public testing::Test
{
  protected:
    cuda_context()
    {
        cuda.cuInit = init;
        cuda.cuCtxGetCurrent = current;
        cuda.cuCtxGetDevice = device_of_current;
        cuda.cuDeviceGetCount = count;
        cuda.cuDeviceGet = get;
        cuda.cuDevicePrimaryCtxGetState = primary;
    }

    /* -1: none */
    int used() { return gpucoll_cuda_find_used(&cuda, &pointer) ? pointer.ordinal : -1; }
    int only() { return gpucoll_cuda_find_only(&cuda, &pointer) ? pointer.ordinal : -1; }

    struct gpucoll_cuda_driver cuda = {}; /* a function has the same name */
    struct gpucoll_cuda_pointer pointer = {};
    CUcontext made = reinterpret_cast<CUcontext>(this);
};
} // namespace

TEST_F(cuda_context, nothing_is_used_before_the_driver_is_initialised)
{
    machine = {.initialised = false, .gpus = 1, .primaries = 0, .current = nullptr, .device_of_current = 0};
    EXPECT_EQ(used(), -1);
    EXPECT_FALSE(machine.initialised);
}

TEST_F(cuda_context, the_current_one_comes_first)
{
    machine = {.initialised = true, .gpus = 4, .primaries = 1, .current = made, .device_of_current = 2};
    EXPECT_EQ(used(), 2);
    EXPECT_EQ(pointer.context, made);
}

TEST_F(cuda_context, a_thread_without_one_knows_the_only_one_of_the_process)
{
    machine = {.initialised = true, .gpus = 4, .primaries = 8, .current = nullptr, .device_of_current = 0};
    EXPECT_EQ(used(), 3);
    EXPECT_EQ(pointer.context, nullptr);
    machine.primaries = 9;
    EXPECT_EQ(used(), -1);
    machine.primaries = 0;
    EXPECT_EQ(used(), -1);
}

TEST_F(cuda_context, one_gpu_is_chosen_before_it_is_used_but_not_one_of_several)
{
    machine = {.initialised = false, .gpus = 1, .primaries = 0, .current = nullptr, .device_of_current = 0};
    EXPECT_EQ(only(), 0);
    machine = {.initialised = false, .gpus = 2, .primaries = 0, .current = nullptr, .device_of_current = 0};
    EXPECT_EQ(only(), -1);
    machine = {.initialised = false, .gpus = 0, .primaries = 0, .current = nullptr, .device_of_current = 0};
    EXPECT_EQ(only(), -1);
}
