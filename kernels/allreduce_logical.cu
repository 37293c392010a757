#include "kernels/instantiate.cuh"

GPUCOLL_REDUCERS_LOGICAL(GPUCOLL_KERNELS_OF)
