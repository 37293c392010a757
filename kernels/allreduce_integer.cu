#include "kernels/instantiate.cuh"

GPUCOLL_REDUCERS_INTEGER(GPUCOLL_KERNELS_OF)
