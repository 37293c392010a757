#include "kernels/relay.cuh"

GPUCOLL_FUNCTORS_LOGICAL(GPUCOLL_RELAY_OF)
