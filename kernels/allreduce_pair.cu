#include "kernels/instantiate.cuh"

GPUCOLL_FUNCTORS_PAIR(GPUCOLL_KERNELS_OF)
