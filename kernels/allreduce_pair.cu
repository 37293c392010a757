#include "kernels/instantiate.cuh"

GPUCOLL_REDUCERS_PAIR(GPUCOLL_KERNELS_OF)
