#include "kernels/instantiate.cuh"

GPUCOLL_FUNCTORS_LOGICAL(GPUCOLL_KERNELS_OF)
