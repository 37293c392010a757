/*
 * The loops under gpucoll_host_reduce: `to[i] = a[i] op b[i]` for each functor, compiled once for each instruction set. All give the same
 * bits: no multiplication is fused with an addition, and nothing is reordered.
 */
#ifndef GPUCOLL_ACCEL_HOST_LOOPS_H
#define GPUCOLL_ACCEL_HOST_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpucoll_host_loop {
    /* `to` is `a`, or `b`, or apart from both; all are aligned for elements. */
    void (*loop)(void *to, const void *a, const void *b, size_t count);
    unsigned char element_bytes; /* as the loop sees it */
    unsigned char element_align;
    unsigned char unit_bytes; /* as the caller counts */
};

/* By functor. The x86-64 baseline of `plain` is SSE2. */
extern const struct gpucoll_host_loop gpucoll_host_loops_plain[];
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define GPUCOLL_HOST_LOOPS_X86 1
extern const struct gpucoll_host_loop gpucoll_host_loops_avx2[];
extern const struct gpucoll_host_loop gpucoll_host_loops_avx512[];
#endif

struct gpucoll_host_isa {
    const char *name;
    bool (*usable)(void); /* by this processor */
    const struct gpucoll_host_loop *loops;
};

/* The instruction sets, the best first; NULL past the end. gpucoll_host_reduce takes the first that is usable. */
const struct gpucoll_host_isa *gpucoll_host_isa_row(int index);

#endif
