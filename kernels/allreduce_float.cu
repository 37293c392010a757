#include "kernels/instantiate.cuh"

GPUCOLL_REDUCERS_FLOAT(GPUCOLL_KERNELS_OF)
