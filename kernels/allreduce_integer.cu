#include "kernels/instantiate.cuh"

GPUCOLL_FUNCTORS_INTEGER(GPUCOLL_KERNELS_OF)
