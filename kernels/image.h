/*
 * The kernels as they are embedded: one fatbin for each .cu file, with machine code for the
 * architectures of configure's --with-cuda-arch and PTX for later ones. Exists where HAVE_CUDA_KERNELS is
 * defined.
 */
#ifndef GPUCOLL_KERNELS_IMAGE_H
#define GPUCOLL_KERNELS_IMAGE_H

#include "kernels/functors.h"
#include "kernels/kernel_abi.h"

/* The suites of kernels/functors.h in groups, once for each family of kernels that reduce. */
enum gpucoll_image {
    GPUCOLL_IMAGE_INTEGER,
    GPUCOLL_IMAGE_FLOAT,
    GPUCOLL_IMAGE_RARE,
    GPUCOLL_IMAGE_EXCHANGE, /* the same groups again */
    GPUCOLL_IMAGE_RELAY = GPUCOLL_IMAGE_EXCHANGE + 3, /* and again */
    GPUCOLL_IMAGE_MOVE = GPUCOLL_IMAGE_RELAY + 3,
    GPUCOLL_IMAGE_PACK, /* one kernel, "gpucoll_pack_layout" */
    GPUCOLL_IMAGE_COUNT
};

/* The fatbin, as the driver loads it: its length stands in its header. */
const void *gpucoll_image_data(enum gpucoll_image image);

/* What the kernels call a functor (an index of kernels/functors.h): a suite, and what their argument `variant` says. */
int gpucoll_suite_of(int functor);
unsigned gpucoll_variant_of(int functor);

/* Which fatbin holds (kernel, suite). A kernel that takes no functor ignores it. */
enum gpucoll_image gpucoll_image_of(enum gpucoll_kernel kernel, int suite);

/* The entry of (kernel, suite) in its fatbin, such as "gpucoll_lines_sum_f32" or "gpucoll_lines_rare". */
const char *gpucoll_kernel_entry(enum gpucoll_kernel kernel, int suite);

#endif
