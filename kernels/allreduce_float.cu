#include "kernels/instantiate.cuh"

GPUCOLL_FUNCTORS_FLOAT(GPUCOLL_KERNELS_OF)
