#include "kernels/relay.cuh"

GPUCOLL_FUNCTORS_INTEGER(GPUCOLL_RELAY_OF)
