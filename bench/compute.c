#include "bench/compute.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include "bench/library.h"

/* cublas_api.h and library_types.h: CUBLAS_OP_N, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT. */
enum { OP_N = 0, R_16BF = 14, COMPUTE_32F = 68, GEMM_DEFAULT = -1 };
/* Orders of matrices: at the largest the product runs at the GPU's full speed. */
enum { LEAST_ORDER = 512, MOST_ORDER = 8192, ORDER_STEP = 256, COLUMN_STEP = 64 };
enum { KERNEL_THREADS = 256, KERNEL_BLOCKS_A_MULTIPROCESSOR = 4, FMA_A_ROUND = 8 };
enum { FITTINGS = 6, TRIALS = 5 };

/* Each thread multiplies and adds to eight numbers in turn; that it stores one, if a condition holds that never does,
 * keeps the compiler from leaving all out. */
static const char fma_ptx[] = ".version 7.0\n"
                              ".target sm_70\n"
                              ".address_size 64\n"
                              ".visible .entry bench_fma(.param .u32 rounds)\n"
                              "{\n"
                              ".reg .pred %p<3>;\n"
                              ".reg .u32 %r<3>;\n"
                              ".reg .u64 %rd<2>;\n"
                              ".reg .f32 %f<12>;\n"
                              "ld.param.u32 %r1, [rounds];\n"
                              "mov.u32 %r2, %tid.x;\n"
                              "cvt.rn.f32.u32 %f0, %r2;\n"
                              "mov.f32 %f8, 0f3F7FFFFE;\n"
                              "mov.f32 %f9, 0f3A83126F;\n"
                              "add.f32 %f1, %f0, %f9;\n"
                              "add.f32 %f2, %f1, %f9;\n"
                              "add.f32 %f3, %f2, %f9;\n"
                              "add.f32 %f4, %f3, %f9;\n"
                              "add.f32 %f5, %f4, %f9;\n"
                              "add.f32 %f6, %f5, %f9;\n"
                              "add.f32 %f7, %f6, %f9;\n"
                              "ROUND:\n"
                              "fma.rn.f32 %f0, %f0, %f8, %f9;\n"
                              "fma.rn.f32 %f1, %f1, %f8, %f9;\n"
                              "fma.rn.f32 %f2, %f2, %f8, %f9;\n"
                              "fma.rn.f32 %f3, %f3, %f8, %f9;\n"
                              "fma.rn.f32 %f4, %f4, %f8, %f9;\n"
                              "fma.rn.f32 %f5, %f5, %f8, %f9;\n"
                              "fma.rn.f32 %f6, %f6, %f8, %f9;\n"
                              "fma.rn.f32 %f7, %f7, %f8, %f9;\n"
                              "sub.u32 %r1, %r1, 1;\n"
                              "setp.ne.u32 %p1, %r1, 0;\n"
                              "@%p1 bra ROUND;\n"
                              "add.f32 %f10, %f0, %f1;\n"
                              "add.f32 %f10, %f10, %f2;\n"
                              "add.f32 %f10, %f10, %f3;\n"
                              "add.f32 %f10, %f10, %f4;\n"
                              "add.f32 %f10, %f10, %f5;\n"
                              "add.f32 %f10, %f10, %f6;\n"
                              "add.f32 %f10, %f10, %f7;\n"
                              "setp.lt.f32 %p2, %f10, 0fC9742400;\n"
                              "mov.u64 %rd1, 0;\n"
                              "@%p2 st.global.f32 [%rd1], %f10;\n"
                              "ret;\n"
                              "}\n";

/* Waits until the word at `opened` is `number`, but not longer than 20 ms. */
static const char gate_ptx[] = ".version 7.0\n"
                               ".target sm_70\n"
                               ".address_size 64\n"
                               ".visible .entry bench_gate(.param .u64 opened, .param .u32 number)\n"
                               "{\n"
                               ".reg .pred %p<3>;\n"
                               ".reg .u32 %r<3>;\n"
                               ".reg .u64 %rd<4>;\n"
                               "ld.param.u64 %rd1, [opened];\n"
                               "ld.param.u32 %r1, [number];\n"
                               "mov.u64 %rd2, %globaltimer;\n"
                               "add.u64 %rd2, %rd2, 20000000;\n"
                               "LOOK:\n"
                               "mov.u64 %rd3, %globaltimer;\n"
                               "setp.gt.u64 %p2, %rd3, %rd2;\n"
                               "ld.relaxed.sys.global.u32 %r2, [%rd1];\n"
                               "setp.eq.u32 %p1, %r1, %r2;\n"
                               "@%p1 bra OPEN;\n"
                               "@!%p2 bra LOOK;\n"
                               "OPEN:\n"
                               "ret;\n"
                               "}\n";

static const struct bench_library cublas_library = {
    .sonames = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
    .in_packages = "nvidia/c*/lib/libcublas.so.*",
    .in_lib = "libcublas.so.*",
};

static int between(int least, double value, int most)
{
    return value < least ? least : value > most ? most : (int)value;
}

/* Products of matrices as large as makes sense, as many as the amount asks for, each a like part of it. The second factor has as many columns as
 * that takes, so that the work can be made almost as long as is wanted. */
static void launch_products(struct bench_compute *compute)
{
    static const float one = 1;
    static const float zero = 0;
    int products = (int)ceil(compute->amount / pow(MOST_ORDER, 3));
    products = products < 1 ? 1 : products;
    double each = compute->amount / products;
    /* A cube's order, rounded up (but not for the last bit of a root), and as many columns as make up for that. */
    int order = between(LEAST_ORDER, ceil((cbrt(each) - 1) / ORDER_STEP) * ORDER_STEP, MOST_ORDER);
    int columns = between(COLUMN_STEP, round(each / order / order / COLUMN_STEP) * COLUMN_STEP, order);
    for (int i = 0; i < products; i++) {
        int error =
            compute->cublas.cublasGemmEx(compute->cublas_handle, OP_N, OP_N, order, columns, order, &one,
                                         compute->matrix[0], R_16BF, order, compute->matrix[1], R_16BF, order,
                                         &zero, compute->matrix[2], R_16BF, order, COMPUTE_32F, GEMM_DEFAULT);
        if (error != 0)
            bench_fail("cublasGemmEx of order %d, %d columns: cuBLAS error %d", order, columns, error);
    }
}

static void launch_kernel(struct bench_compute *compute)
{
    unsigned blocks = (unsigned)compute->kernel.multiprocessors * KERNEL_BLOCKS_A_MULTIPROCESSOR;
    double rounds_wanted = compute->amount / ((double)blocks * KERNEL_THREADS * FMA_A_ROUND);
    unsigned rounds = rounds_wanted < 1 ? 1 : rounds_wanted > 4e9 ? 4000000000u : (unsigned)rounds_wanted;
    void *parameters[] = {&rounds};
    bench_kernel_launch(&compute->kernel, blocks, KERNEL_THREADS, compute->stream, parameters);
}

static void launch_loop(struct bench_compute *compute)
{
    volatile double value = 1;
    double begin = MPI_Wtime();
    for (double i = 0; i < compute->amount; i++)
        value = value * 0.999 + 0.001;
    compute->host_us = (MPI_Wtime() - begin) * 1e6;
}

static const struct bench_compute_kind products = {"cublasGemmEx bf16", 512.0 * 512 * 512, launch_products};
static const struct bench_compute_kind kernel = {"a kernel of multiplications", 1e6, launch_kernel};
static const struct bench_compute_kind loop = {"a loop on the host", 100, launch_loop};

static bool load_cublas(struct bench_compute *compute, const char *name)
{
    char path[1024];
    struct bench_cublas *api = &compute->cublas;
    void *library = bench_library_load(&cublas_library, name, path, sizeof(path));
    if (!library)
        return false;
    *(void **)&api->cublasCreate_v2 = dlsym(library, "cublasCreate_v2");
    *(void **)&api->cublasDestroy_v2 = dlsym(library, "cublasDestroy_v2");
    *(void **)&api->cublasSetStream_v2 = dlsym(library, "cublasSetStream_v2");
    *(void **)&api->cublasGemmEx = dlsym(library, "cublasGemmEx");
    return api->cublasCreate_v2 && api->cublasDestroy_v2 && api->cublasSetStream_v2 && api->cublasGemmEx &&
           api->cublasCreate_v2(&compute->cublas_handle) == 0 &&
           api->cublasSetStream_v2(compute->cublas_handle, compute->stream) == 0;
}

void bench_compute_open(struct bench_compute *compute, struct bench_group *group, struct bench_device *device,
                        const char *cublas)
{
    memset(compute, 0, sizeof(*compute));
    compute->device = device;
    compute->kind = &loop;
    compute->stream = bench_stream_open(device, false);
    for (int i = 0; i < 2; i++)
        compute->event[i] = bench_event_open(device);
    if (!device->cuda)
        return;
    compute->opened = bench_pinned_alloc(device, sizeof(*compute->opened));
    __atomic_store_n(compute->opened, 0, __ATOMIC_RELEASE);
    bench_kernel_open(device, &compute->gate, gate_ptx, "bench_gate");
    bool without = !load_cublas(compute, cublas);
    if (bench_max(group, without) == 0) {
        size_t bytes = (size_t)MOST_ORDER * MOST_ORDER * 2;
        compute->kind = &products;
        for (int i = 0; i < 3; i++) {
            compute->matrix[i] = bench_device_alloc(device, bytes);
            bench_device_fill(device, compute->matrix[i], 0x3c, bytes); /* 0.0115 in bf16 */
        }
    } else {
        compute->kind = &kernel;
        bench_kernel_open(device, &compute->kernel, fma_ptx, "bench_fma");
    }
}

void bench_compute_close(struct bench_compute *compute)
{
    if (!compute->device)
        return;
    if (compute->cublas_handle)
        compute->cublas.cublasDestroy_v2(compute->cublas_handle);
    for (int i = 0; i < 3; i++)
        if (compute->matrix[i])
            bench_device_free(compute->device, compute->matrix[i]);
    bench_kernel_close(&compute->kernel);
    bench_kernel_close(&compute->gate);
    if (compute->opened)
        bench_pinned_free(compute->device, compute->opened);
    for (int i = 0; i < 2; i++)
        bench_event_close(compute->device, compute->event[i]);
    bench_stream_close(compute->device, compute->stream);
    compute->device = NULL;
}

void bench_compute_shut(struct bench_compute *compute)
{
    /* Another amount may need a kernel that is not loaded yet, which waits for all that the GPU has been given: not behind a gate. */
    if (!compute->device->cuda || compute->loaded != compute->amount)
        return;
    compute->gates++;
    uint64_t opened = (uintptr_t)compute->opened;
    void *parameters[] = {&opened, &compute->gates};
    bench_kernel_launch(&compute->gate, 1, 1, compute->stream, parameters);
}

void bench_compute_launch(struct bench_compute *compute)
{
    bench_event_record(compute->device, compute->event[0], compute->stream);
    compute->kind->launch(compute);
    bench_event_record(compute->device, compute->event[1], compute->stream);
    if (compute->opened)
        __atomic_store_n(compute->opened, compute->gates, __ATOMIC_RELEASE);
    compute->loaded = compute->amount;
}

bool bench_compute_is_done(struct bench_compute *compute)
{
    return bench_stream_is_done(compute->device, compute->stream);
}

double bench_compute_wait(struct bench_compute *compute)
{
    bench_stream_wait(compute->device, compute->stream);
    if (!compute->device->cuda)
        return compute->host_us;
    return bench_event_us(compute->device, compute->event[0], compute->event[1]);
}

/* The least time of some, on the slowest rank. */
static double time_work(struct bench_compute *compute, struct bench_group *group)
{
    double shortest = 1e12;
    for (int i = 0; i < TRIALS; i++) {
        bench_compute_shut(compute);
        bench_compute_launch(compute);
        double took = bench_compute_wait(compute);
        shortest = took < shortest ? took : shortest;
    }
    return bench_max(group, shortest);
}

/* Work comes in steps, of tiles and of rows of CTAs, and so does its time: of the amounts that were tried, the one that took most nearly as long. */
void bench_compute_fit(struct bench_compute *compute, struct bench_group *group, double us)
{
    double nearest = INFINITY;
    double amount = compute->kind->least * 8;
    double best = amount;
    for (int i = 0; i < FITTINGS; i++) {
        compute->amount = amount;
        double took = time_work(compute, group);
        if (fabs(took - us) < nearest) {
            nearest = fabs(took - us);
            best = amount;
        }
        amount *= took > 0 ? us / took : 2;
        if (amount < compute->kind->least)
            amount = compute->kind->least;
    }
    compute->amount = best;
    time_work(compute, group); /* all of it is loaded from now on */
}
