/*
 * A network over UCX that takes a pretended GPU's memory, where there is none: it is host memory, but UCX is told otherwise, and what it is told is
 * looked at before UCX hears of it. (In C: the network's own structures are no C++.)
 */
#ifndef GPUCOLL_TEST_UNIT_GPU_MEMORY_H
#define GPUCOLL_TEST_UNIT_GPU_MEMORY_H

#include "ucx_tl/net.h"

/* A device whose context has to be entered. One at a time. */
struct gpucoll_device *test_gpu(void);

/* From now on this end takes its memory; `registers`: once for a call; `only_so`: else not at all. */
void test_take_gpu_memory(struct gpucoll_net *ties, bool registers, bool only_so);
/* From now on UCX fails to register it. */
void test_refuse_gpu_memory(void);

struct test_gpu_count {
    int entered;     /* contexts, and not left again */
    int registered;  /* and not given back */
    int messages;    /* of this memory, as UCX was told, */
    int with_handle; /* with what it was registered as, */
    int outside;     /* or begun or moved on without the context */
};
struct test_gpu_count test_gpu_count(void);

#endif
