/*
 * The parts of kernels_test that have a file of their own.
 */
#ifndef GPUCOLL_TEST_GPU_TESTS_H
#define GPUCOLL_TEST_GPU_TESTS_H

#include "kernels/kernel_abi.h"
#include "test/gpu/gpus.h"

struct test_options {
    bool quick;
    enum gpucoll_kernel only; /* GPUCOLL_KERNEL_COUNT: all kernels, and what is no kernel */
    uint32_t ranks;           /* 0: several numbers of them */
    uint64_t seed;
    int repeat; /* so many times, each with the next seed */
};

/* Takes what the command line says over; false if that is not understood. */
bool test_options_read(int argc, char **argv, struct test_options *options);

static inline bool runs_kernel(const struct test_options *options, enum gpucoll_kernel kernel)
{
    return options->only == GPUCOLL_KERNEL_COUNT || options->only == kernel;
}

/* Everything, what is no kernel included? */
static inline bool runs_all(const struct test_options *options)
{
    return options->only == GPUCOLL_KERNEL_COUNT && options->ranks == 0;
}

/* How many ranks --quick takes beside one: on two GPUs, three could not run side by side under compute-sanitizer. */
static inline uint32_t quick_ranks(const struct gpus *gpus)
{
    return gpus->count == 2 ? 2 : 3;
}

/* Kinds of memory: what they are taken for, and copies between them. */
void test_memory(struct gpus *gpus);

/* Are tests to run on so many ranks? */
static inline bool runs_ranks(const struct test_options *options, const struct gpus *gpus, uint32_t ranks)
{
    const bool usual = !options->quick || ranks == 1 || ranks == quick_ranks(gpus);
    return options->ranks == 0 ? usual : options->ranks == ranks;
}

/* Two kernels of two ranks each, which the ranks launch in different order, for the first time. */
void test_crossed(struct gpus *gpus);

/* Two kernels of two ranks each, in a circle for SMs. */
void test_gates(struct gpus *gpus);

/* What one GPU stores to another in bulk, while others fill the link. */
void test_arrival(struct gpus *gpus, bool quick, uint64_t seed);

/* Few bytes between a GPU and the host. */
void test_courier(struct gpus *gpus, bool quick, uint64_t seed);

/* Every exchange kernel with every functor. */
void test_exchanges(struct gpus *gpus, const struct test_options *options);

/* Exchanges of runs that have layouts. */
void test_laid_runs(struct gpus *gpus, const struct test_options *options);

/* Two ranks and long messages over LL128. */
void test_streams(struct gpus *gpus, const struct test_options *options);

/* Rings, chains and trees. */
void test_relays(struct gpus *gpus, const struct test_options *options);

/* The kernel that packs and unpacks. */
void test_packing(struct gpus *gpus, bool quick, uint64_t seed);

/* The application resets GPU 0 before gpucoll closes it; nothing works on that GPU afterwards. */
void test_reset(struct gpus *gpus);

/* Times of the kernels over shapes, as lines of JSON. */
int measure_speed(struct gpus *gpus, int argc, char **argv);

#endif
