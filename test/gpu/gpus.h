/*
 * The GPUs of this machine for tests: memory of each, from which the accelerator finds its device.
 */
#ifndef GPUCOLL_TEST_GPU_GPUS_H
#define GPUCOLL_TEST_GPU_GPUS_H

#include <cuda.h>
#include "core/accel/accel.h"
#include "core/accel/cuda_driver.h"

struct gpus {
    const struct gpucoll_cuda_driver *cuda;
    struct gpucoll_config config;
    struct gpucoll_log log;
    struct gpucoll_accel *accel;
    int count;
    CUcontext contexts[64]; /* primary */
    int passed;
    int failed;
};

/* One line "PASS name" or "FAIL name", counted. */
void gpus_report(struct gpus *gpus, bool passed, const char *name, ...) __attribute__((format(printf, 3, 4)));

/* Between memory of any kind; ends the program with a FAIL line for the test `name` if that fails. */
void gpus_copy(const struct gpus *gpus, const char *name, void *to, const void *from, size_t bytes);

/* False, with a line that says why, if there is no GPU to test on. */
bool gpus_open(struct gpus *gpus);
void gpus_close(struct gpus *gpus);

/* Makes the GPU's context current in this thread. */
void gpus_use(const struct gpus *gpus, int gpu);
void *gpus_alloc(const struct gpus *gpus, int gpu, size_t bytes);
void gpus_free(const struct gpus *gpus, int gpu, void *pointer);

/* Ends the program with a line that says what failed. */
void gpus_must(const struct gpus *gpus, CUresult result, const char *what);

#endif
