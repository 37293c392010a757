/*
 * Work for the GPU beside which a collective runs: a product of bf16 matrices by cuBLAS, loaded at run time; without it a
 * kernel that keeps all multiprocessors multiplying; without a GPU a loop of the calling thread. Errors end the program.
 */
#ifndef BENCH_COMPUTE_H
#define BENCH_COMPUTE_H

#include <stdint.h>

#include "bench/device.h"
#include "bench/measure.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bench_compute;

struct bench_compute_kind {
    const char *name;
    double least; /* the smallest amount of work that makes sense */
    void (*launch)(struct bench_compute *compute);
};

struct bench_cublas {
    int (*cublasCreate_v2)(void **handle);
    int (*cublasDestroy_v2)(void *handle);
    int (*cublasSetStream_v2)(void *handle, void *stream);
    int (*cublasGemmEx)(void *handle, int transpose_a, int transpose_b, int m, int n, int k,
                        const void *alpha, const void *a, int a_type, int lda, const void *b, int b_type,
                        int ldb, const void *beta, void *c, int c_type, int ldc, int compute_type,
                        int algorithm);
};

struct bench_compute {
    struct bench_device *device;
    const struct bench_compute_kind *kind;
    double amount; /* multiplications, or rounds of the loop */
    void *stream;
    void *event[2];
    double loaded; /* the amount that was launched last */
    struct bench_kernel gate;
    uint32_t *opened; /* the number of the gate that was opened last: the GPU looks */
    uint32_t gates;
    double host_us; /* without a GPU: of the latest launch */
    struct bench_cublas cublas;
    void *cublas_handle;
    void *matrix[3];
    struct bench_kernel kernel;
};

/* Collective: all ranks do the same kind of work. `cublas`: a file, or auto. */
void bench_compute_open(struct bench_compute *compute, struct bench_group *group, struct bench_device *device,
                        const char *cublas);
void bench_compute_close(struct bench_compute *compute);
/* Collective: makes it work for about `us` on the slowest rank. */
void bench_compute_fit(struct bench_compute *compute, struct bench_group *group, double us);
/* What is launched next waits on the GPU until all of it is launched, so that what is timed has no time in which the GPU waits for the host. Should
 * that take long, it goes on by itself. */
void bench_compute_shut(struct bench_compute *compute);
/* Starts it on a stream of its own. */
void bench_compute_launch(struct bench_compute *compute);
bool bench_compute_is_done(struct bench_compute *compute);
/* Waits for it; returns how long it ran, in microseconds of the GPU's clock. */
double bench_compute_wait(struct bench_compute *compute);

#ifdef __cplusplus
}
#endif
#endif
