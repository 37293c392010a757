/*
 * Reductions on the host for every functor of kernels/functors.h: a loop over aligned elements, compiled for several
 * instruction sets, of which the best that the processor has is taken; operands that are not aligned go through small aligned
 * buffers.
 */
#include <stdatomic.h>
#include <string.h>
#include "core/accel/accel.h"
#include "core/accel/host_loops.h"
#include "kernels/functors.h"

static bool always(void)
{
    return true;
}

#ifdef GPUCOLL_HOST_LOOPS_X86
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

/* The best first. */
static const struct gpucoll_host_isa isas[] = {
#ifdef GPUCOLL_HOST_LOOPS_X86
    {"avx512", has_avx512, gpucoll_host_loops_avx512},
    {"avx2", has_avx2, gpucoll_host_loops_avx2},
#endif
    {"plain", always, gpucoll_host_loops_plain},
};

const struct gpucoll_host_isa *gpucoll_host_isa_row(int index)
{
    return index >= 0 && index < (int)(sizeof(isas) / sizeof(isas[0])) ? &isas[index] : NULL;
}

static const struct gpucoll_host_loop *loops_in_use(void)
{
    static _Atomic(const struct gpucoll_host_loop *) chosen;
    const struct gpucoll_host_loop *loops = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!loops) {
        const struct gpucoll_host_isa *isa = isas;
        while (!isa->usable()) {
            isa++;
        }
        loops = isa->loops;
        atomic_store_explicit(&chosen, loops, memory_order_relaxed);
    }
    return loops;
}

size_t gpucoll_host_functor_size(int functor)
{
    return loops_in_use()[functor].unit_bytes;
}

/* Any alignment, and a last element that is not whole (bitwise operators on single bytes). */
static void reduce_through_buffers(const struct gpucoll_host_loop *row, char *to, const char *a,
                                   const char *b, size_t bytes)
{
    enum { CHUNK = 2048 };
    _Alignas(64) char left[CHUNK] = {0};
    _Alignas(64) char right[CHUNK] = {0};
    while (bytes > 0) {
        size_t now = bytes < CHUNK ? bytes : CHUNK;
        memcpy(left, a, now);
        memcpy(right, b, now);
        row->loop(left, left, right, (now + row->element_bytes - 1) / row->element_bytes);
        memcpy(to, left, now);
        to += now;
        a += now;
        b += now;
        bytes -= now;
    }
}

void gpucoll_host_reduce(int functor, void *to, const void *a, const void *b, size_t count)
{
    const struct gpucoll_host_loop *row = &loops_in_use()[functor];
    size_t bytes = count * row->unit_bytes;
    size_t done = 0;
    if ((((uintptr_t)to | (uintptr_t)a | (uintptr_t)b) & (row->element_align - 1u)) == 0) {
        size_t elements = bytes / row->element_bytes;
        row->loop(to, a, b, elements);
        done = elements * row->element_bytes;
    }
    if (done < bytes) {
        reduce_through_buffers(row, (char *)to + done, (const char *)a + done, (const char *)b + done,
                               bytes - done);
    }
}
