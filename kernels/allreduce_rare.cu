#include "kernels/instantiate.cuh"

GPUCOLL_KERNELS_OF(rare, RARE, pack)
